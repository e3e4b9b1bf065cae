"""Contiguous arrays copied behind each other by one launch.

Data layout: sources and the result as words, of as many bytes as all lengths and alignments allow. Who owns what: a
block copies a tile of one source, or what is left of it; a thread every `BLOCK`-th unit of the tile. Algorithm: blocks
find their source by their numbers; a thread issues its loads before its first store. Bytes per element: itself twice.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.plan import Launch, Plan, Work, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.memory import Pointer
from oxinp._ptx.types import i64, u8, u16, u32

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.plan import Again, Grid

BLOCK = 256
ITEMS = 4  # units of a thread
MAX_UNIT = 16  # bytes that one instruction moves
MAX_SOURCES = 8
WORDS = {1: u8, 2: u16}  # by the bytes of a unit; larger ones are several u32


class JoinedSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    count : int
        Sources.
    unit : int
        Bytes that one instruction moves.
    """

    count: int
    unit: int


class _Source(NamedTuple):
    """The units of a source: where the first block and the first unit of the result are, and how many they are."""

    first: Any
    start: Any
    count: Any


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: JoinedSpec) -> Kernel:
    """Build the kernel of a Spec."""
    k = Builder("copy_joined", block=BLOCK)
    word, tile = WORDS.get(spec.unit, u32), BLOCK * ITEMS
    width = spec.unit // word.nbytes
    out = k.pointer("out", word, "w")
    sources = [k.pointer(f"in{i}", word, "r") for i in range(spec.count)]
    table = [
        _Source(k.scalar(f"first_{i}", u32), k.scalar(f"start_{i}", i64), k.scalar(f"count_{i}", i64))
        for i in range(spec.count)
    ]
    block = k.cast(k.ctaid, u32)
    address, (first, start, count) = sources[0].address(), table[0]
    for pointer, row in zip(sources[1:], table[1:], strict=True):
        is_here = block >= row.first
        address = k.where(is_here, pointer.address(), address)
        first, start, count = (k.where(is_here, *pair) for pair in zip(row, (first, start, count), strict=True))
    begin = k.cast(block - first, i64) * tile
    source = Pointer(k, address, word, "global", "r").at(begin * width)
    target = out.at((start + begin) * width)
    with k.when(count - begin >= tile):
        places = [(k.tid + i * BLOCK if i else k.tid) * width for i in range(ITEMS)]
        loaded = [source.load(place, width) for place in places]
        for place, values in zip(places, loaded, strict=True):
            target.store(place, values)
    with k.otherwise(), k.range(k.tid, k.cast(count - begin, u32), BLOCK) as number:
        target.store(number * width, source.load(number * width, width))
    return k.build()


def again(lengths: Sequence[int], alignment: int) -> Again:
    """Return the launch that copies arrays behind each other.

    Parameters
    ----------
    lengths : sequence of int
        Bytes of the sources, up to `MAX_SOURCES`, none of them empty.
    alignment : int
        A power of two that divides the address of each.
    """
    starts = list(accumulate(lengths, initial=0))[:-1]
    spec = JoinedSpec(len(lengths), _unit((*lengths, alignment)))
    tile, first, constants = BLOCK * ITEMS, 0, list[int]()
    for start, nbytes in zip(starts, lengths, strict=True):
        row = _Source(first, start // spec.unit, nbytes // spec.unit)
        constants += row
        first += -(-row.count // tile)
    grid: Grid = (first, 1, 1)
    return make(spec), grid, tuple(constants)


def _unit(numbers: Sequence[int]) -> int:
    """Return the largest power of two up to `MAX_UNIT` that divides them all."""
    unit = MAX_UNIT
    while any(number % unit for number in numbers):
        unit //= 2
    return unit


def plan(lengths: Sequence[int], alignment: int) -> Plan:
    """Return the plan that copies arrays, the inputs, behind each other; see `again`."""
    kernel, grid, constants = again(lengths, alignment)
    arguments = (*outputs(1), *inputs(len(lengths)))
    return Plan((Launch(kernel, grid, arguments, constants, Work(nbytes=2 * sum(lengths))),))


__all__ = ["JoinedSpec", "again", "make", "plan"]
