"""What kernels of iterative solvers do with vectors: runs of elements, and inner products by partial sums of blocks.

Blocks have every `num_blocks`-th run of `BLOCK * UNROLL` elements. A block leaves a partial sum; a block of a later
kernel that needs the sum adds all of them itself, in one fixed order, so that no launch is spent on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._kernels.sparse.types import BLOCK
from oxinp._ptx import block_reduce
from oxinp._ptx.types import i64

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._ptx import Builder
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value

UNROLL = 4


def add(a: Value, b: Value) -> Value:
    """Return the sum of two values."""
    return a + b


def each(k: Builder, size: Value, use: Callable[[list[Value], list[Value]], None]) -> None:
    """Call ``use(places, valid)`` for the elements of a thread, several at a time; invalid places are its first one."""
    step = k.cast(k.nctaid, i64) * (BLOCK * UNROLL)
    start = k.cast(k.ctaid, i64) * (BLOCK * UNROLL) + k.cast(k.tid, i64)
    with k.range(start, size, step) as first:
        places = [first + i * BLOCK if i else first for i in range(UNROLL)]
        valid = [place < size for place in places]
        use([k.where(is_valid, place, first) for is_valid, place in zip(valid, places, strict=True)], valid)


def each_together(k: Builder, size: Value, use: Callable[[list[Value], list[Value]], None]) -> None:
    """Call ``use(places, valid)`` as `each` does, equally often in all threads of a block; for loads alone.

    Invalid places are the last one, which another thread has.
    """
    step = k.cast(k.nctaid, i64) * (BLOCK * UNROLL)
    with k.range(k.cast(k.ctaid, i64) * (BLOCK * UNROLL), size, step) as begin:
        first = begin + k.cast(k.tid, i64)
        places = [first + i * BLOCK if i else first for i in range(UNROLL)]
        use([k.min(place, size - 1) for place in places], [place < size for place in places])


def whole(k: Builder, partial: Pointer, value: Type, row: Value | int = 0) -> Value:
    """Return the sum of a row of partial sums, one of each block."""
    total = k.var(k.const(0, value))
    start = k.nctaid * row
    with k.range(k.tid + 0, k.nctaid, BLOCK) as place:
        total.set(total + partial[start + place])
    found = block_reduce(k, k.emit("mov", total), add)
    k.barrier()
    return found


def leave(k: Builder, partial: Pointer, total: Value, row: Value | int = 0) -> None:
    """Store the partial sum of a block in a row of them."""
    found = block_reduce(k, total, add)
    with k.when(k.tid == 0):
        partial[k.nctaid * row + k.ctaid] = found
    k.barrier()


__all__ = ["UNROLL", "add", "each", "each_together", "leave", "whole"]
