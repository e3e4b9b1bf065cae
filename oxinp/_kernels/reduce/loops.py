"""The loops of a reduction: kept and reduced ones, the loop of the lanes, and how narrow matrices are folded."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.nest import MAX_INDEX_32, Nest
from oxinp._kernels.problem import MIN_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.problem import Operand

MAX_VECTOR = 16  # elements of one load: 16 bytes of the narrowest type
MIN_FOLDED = 1 << 16  # elements from which a narrow matrix is folded
MAX_FOLDED = 512  # columns of a folded matrix


class ReduceLoops(NamedTuple):
    """The loops of a reduction, collapsed, kept and reduced ones apart.

    Operands are the input arrays, the indices, and in `kept` then the output and the scratch.
    """

    kept: Nest
    reduced: Nest

    def nest(self, *, kept_innermost: bool) -> Nest:
        """The inputs' nest: the reduced loops inside the kept ones, or before the last of them."""
        kept, reduced = self
        outer = len(kept.shape) - kept_innermost
        strides = [a[:outer] + b + a[outer:] for a, b in zip(kept.strides, reduced.strides, strict=False)]
        shifts = [a + b for a, b in zip(kept.shifts, reduced.shifts, strict=False)]
        return Nest(kept.shape[:outer] + reduced.shape + kept.shape[outer:], tuple(strides), tuple(shifts))


def without(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the extents of the kept dimensions."""
    if axes == (0,):
        return shape[1:]
    return tuple([n for d, n in enumerate(shape) if d not in axes]) if len(axes) < len(shape) else ()


def kept_and_reduced(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, int, bool] | None:
    """Return the number of kept and of reduced elements, and whether the reduced axes are the first ones.

    None where the reduced axes are neither the last nor the first ones.
    """
    ndim, count = len(shape), len(axes)
    if axes == tuple(range(ndim - count, ndim)):
        return math.prod(shape[: ndim - count]), math.prod(shape[ndim - count :]), False
    if axes == tuple(range(count)):
        return math.prod(shape[count:]), math.prod(shape[:count]), True
    return None


def fold(shape: tuple[int, ...], arrays: Sequence[Operand]) -> int:
    """Return how many rows of a narrow matrix are folded to one: seen as columns, which the second pass reduces.

    Lanes along the columns of a narrow matrix would be few, and lanes along its rows would load each cache line once
    per column.
    """
    length, width = shape
    if not 1 < width < MIN_COLUMNS or length * width < MIN_FOLDED:
        return 1
    if any(x.strides not in {(width, 1), (0, 0)} for x in arrays):
        return 1
    return most_folded(length, width)


def most_folded(length: int, width: int) -> int:
    """Return how many of so many rows of a narrow matrix may be folded to one: 1 if no number of them divides all."""
    counts = range(MAX_FOLDED // width, MIN_COLUMNS // width, -1)
    return next((count for count in counts if length % count == 0), 1)


def column_loop(loops: ReduceLoops, arrays: Sequence[Operand]) -> int | None:
    """Return the kept loop that lanes go along; None where they go along the reduced ones.

    Each array votes with the bytes that it has: one of an element per row does not decide how a matrix is read.
    """
    kept, reduced = loops
    votes = dict.fromkeys(range(len(kept.shape)), 0)
    against = 0
    for i, array in enumerate(arrays):
        along_kept = {abs(step): loop for loop, step in enumerate(kept.strides[i]) if step and kept.shape[loop] > 1}
        along_reduced = [abs(step) for step, n in zip(reduced.strides[i], reduced.shape, strict=True) if step and n > 1]
        loops_moved = [
            *zip(kept.strides[i], kept.shape, strict=True),
            *zip(reduced.strides[i], reduced.shape, strict=True),
        ]
        nbytes = array.type.nbytes * math.prod([n for step, n in loops_moved if step])
        nearest = min(along_kept, default=None)
        if nearest is not None and nearest < min(along_reduced, default=nearest + 1):
            votes[along_kept[nearest]] += nbytes
        else:
            against += nbytes
    best = max(votes, key=lambda loop: (votes[loop], kept.shape[loop]))
    if votes[best] > against and kept.shape[best] >= MIN_COLUMNS:
        return best
    return None


class Pair(NamedTuple):
    """A kept loop and a reduced one.

    Attributes
    ----------
    loops : ReduceLoops
    is_kept_innermost : bool
        Lanes go along the kept loop.
    key : tuple
        All that the chain of their kernel, and how many elements it loads at once, depend on.
    """

    loops: ReduceLoops
    is_kept_innermost: bool
    key: tuple[Any, ...]


def pair(shape: tuple[int, int], axis: int, arrays: Sequence[Operand], output: Operand) -> Pair | None:
    """Return the loops of matrices that are reduced along an axis, as collapsing finds them; None where it has to."""
    num_kept, length = shape[1 - axis], shape[axis]
    if num_kept < 2 or length < 2:
        return None
    kept, reduced = [x.strides[1 - axis] for x in arrays], [x.strides[axis] for x in arrays]
    (written,) = output.strides
    farthest = max(*kept, written, 1) * num_kept + max(reduced) * length
    if min(*kept, *reduced, written) < 0 or num_kept * length >= MAX_INDEX_32 or farthest >= MAX_INDEX_32:
        return None
    votes = 0  # as in `column_loop`
    for x, along, down in zip(arrays, kept, reduced, strict=True):
        nbytes = x.type.nbytes * (num_kept if along else 1) * (length if down else 1)
        votes += nbytes if along and (along < down or not down) else -nbytes
    is_kept_innermost = votes > 0 and num_kept >= MIN_COLUMNS
    outer, inner = (reduced, kept) if is_kept_innermost else (kept, reduced)
    key = (
        "pair",
        is_kept_innermost,
        num_kept % MAX_VECTOR if is_kept_innermost else 0,
        *[min(2, step) for step in inner],
        *[step % MAX_VECTOR or (step and MAX_VECTOR) for step in outer],
        *[x.alignment for x in arrays],
    )
    count = len(kept)
    loops = ReduceLoops(
        Nest((num_kept,), (*[(step,) for step in kept], (written,), (1,)), (0,) * (count + 2)),
        Nest((length,), tuple([(step,) for step in reduced]), (0,) * count),
    )
    return Pair(loops, is_kept_innermost, key)


__all__ = [
    "MAX_VECTOR",
    "Pair",
    "ReduceLoops",
    "column_loop",
    "fold",
    "kept_and_reduced",
    "most_folded",
    "pair",
    "without",
]
