"""Where a draw from MT19937 ends whose words lie in memory: the last 624 that it took, as they were before tempering.

One block. Data layout: words of 64 bits, of which the generator makes the high half first; or halves, in order.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.random.twister import N
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import i64, u32

if TYPE_CHECKING:
    from oxinp._ptx.value import Value

BLOCK = 256


class LeaveSpec(Frozen):
    """The kernel.

    Attributes
    ----------
    pieces : int
        That a word of 64 bits is divided into.
    """

    pieces: int


def untempered(word: Value) -> Value:
    """The word of MT19937 that gives an output, see `twister_formats.tempered`."""
    word = word ^ (word >> 18)
    word = word ^ ((word << 15) & 0xEFC60000)
    found = word
    for _ in range(4):  # seven more bits are right every time
        found = word ^ ((found << 7) & 0x9D2C5680)
    result = found
    for _ in range(2):
        result = found ^ (result >> 11)
    return result


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: LeaveSpec) -> Kernel:
    """Build the kernel of a Spec: from pieces and a status to what `twister_plan.plan` says."""
    k = Builder("twister_leave", block=BLOCK)
    result, left = k.pointer("result", i64, "w"), k.pointer("left", u32, "w")
    taken, words = k.pointer("taken", i64, "r"), k.pointer("words", u32, "r")
    pieces, status = taken.load(0, 2)
    halves = pieces * 2 if spec.pieces == 1 else (pieces + (spec.pieces // 2 - 1)) >> (spec.pieces.bit_length() - 2)
    start = k.max(halves - N, k.const(0, i64))
    is_valid = (status == 0) & (pieces >= 0)
    with k.when(is_valid), k.range(k.tid, N, BLOCK) as number:
        at = start + k.cast(number, i64)
        left[number] = untempered(words[at ^ 1 if spec.pieces == 1 else at])
    with k.when(k.tid == 0):
        result.store(0, [k.where(is_valid, halves, k.const(-1, i64)), start])
    return k.build()


__all__ = ["LeaveSpec", "make", "untempered"]
