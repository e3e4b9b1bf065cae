"""Elements that lie anywhere, gathered into a vector by their addresses.

Data layout: a table of addresses, and the vector, in words that addresses are multiples of. Who owns what: a thread
gathers an element. Bytes per element: an address, and itself twice.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.plan import Launch, Plan, Work, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.memory import Pointer
from oxinp._ptx.types import i64, u8, u16, u32, u64

if TYPE_CHECKING:
    from oxinp._kernels.plan import Again, Grid

BLOCK = 256
WORDS = {1: u8, 2: u16, 4: u32, 8: u64}  # by their bytes


class AddressedSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    nbytes : int
        Of a word.
    width : int
        Words of an element.
    """

    nbytes: int
    width: int


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: AddressedSpec) -> Kernel:
    """Build the kernel of a Spec."""
    k = Builder("gather_addressed", block=BLOCK)
    word = WORDS[spec.nbytes]
    out, table, count = k.pointer("out", word, "w"), k.pointer("in0", i64, "r"), k.scalar("count", u32)
    number = k.ctaid * BLOCK + k.tid
    with k.when(number < count):
        source = Pointer(k, k.bitcast(table[k.cast(number, i64)], u64), word, "global", "r")
        target = out.at(k.cast(number, i64) * spec.width)
        for i in range(spec.width):
            target[i] = source[i]
    return k.build()


def again(count: int, nbytes: int, width: int) -> Again:
    """Return the launch that gathers elements.

    Parameters
    ----------
    count : int
        Of elements.
    nbytes, width : int
        See `AddressedSpec`.
    """
    grid: Grid = (-(-count // BLOCK), 1, 1)
    return make(AddressedSpec(nbytes, width)), grid, (count,)


def plan(count: int, nbytes: int, width: int) -> Plan:
    """Return the plan that gathers elements by a table of addresses, the input; see `again`."""
    kernel, grid, constants = again(count, nbytes, width)
    work = Work(nbytes=count * (8 + 2 * nbytes * width))
    return Plan((Launch(kernel, grid, (*outputs(1), *inputs(1)), constants, work),))


__all__ = ["AddressedSpec", "again", "make", "plan"]
