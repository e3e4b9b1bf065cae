"""Tiles: which loops their rows go along, and which inputs they stage in shared memory."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from oxinp._kernels.elementwise import tile
from oxinp._kernels.elementwise.access import MAX_VECTOR
from oxinp._kernels.elementwise.chain import MAX_GATHERED, STEPPED, STRIDED, TRANSPOSED, Chain, OperandSpec
from oxinp._kernels.nest import Nest, collapse
from oxinp._kernels.problem import Operand

if TYPE_CHECKING:
    from collections.abc import Sequence

# Units and rows per thread of tiles with transposed inputs, by the registers that one element of each input takes.
STAGED_SHAPES = ((1, (4, 8)), (2, (2, 8)), (4, (2, 4)))
LEAST_STAGED_SHAPE = (1, 4)
MAX_TRANSPOSED_STEP = 8  # largest stride of the contiguous axis of an input that is worth staging
MAX_REPEATS = 16  # iterations of a loop that no input moves along, in all of which a thread stores what it computed,
MIN_REPEATED = 1 << 20  # and from how many elements in each
MIN_TILE_SIDE = 16  # extents from which transposed inputs are staged
MAX_STATIC_SHARED = 48 * 1024


def with_rows(nest: Nest, loop: int) -> Nest:
    """The nest with one of the outer loops moved to the place of a tile's rows."""
    last = len(nest.shape) - 1
    if loop == last - 1:  # as it is
        return nest
    return nest.reordered([*(d for d in range(last) if d != loop), loop, last])


def fill(extent: int, length: int) -> float:
    """Share of the tiles of some length that an extent fills."""
    return extent / (-(-extent // length) * length)


def longest_loop(nest: Nest) -> int:
    """The loop that a tile's rows go along: the longest but the innermost, of equal ones the inner."""
    longest = 0
    for loop, n in enumerate(nest.shape[:-1]):
        if n >= nest.shape[longest]:
            longest = loop
    return longest


def _nearest_loop(strides: Sequence[int]) -> int:
    """The loop along which an operand's elements are nearest to each other."""
    nearest, least = 0, sys.maxsize
    for loop, step in enumerate(strides):
        if step and abs(step) < least:
            nearest, least = loop, abs(step)
    return nearest


def _is_transposed(strides: Sequence[int], loop: int) -> bool:
    """Whether a loop other than the innermost goes along an operand's contiguous axis, or nearly contiguous one."""
    return 0 < abs(strides[loop]) <= MAX_TRANSPOSED_STEP and abs(strides[-1]) > abs(strides[loop])


def repeated_loop(nest: Nest, num_outputs: int) -> int | None:
    """A loop but the innermost that no input moves along, of few iterations with many elements each."""
    for loop, n in enumerate(nest.shape[:-1]):
        if n <= MAX_REPEATS and nest.size >= MIN_REPEATED * n:
            inputs = nest.strides[num_outputs:]
            if not any(strides[loop] for strides in inputs):
                return loop if any(map(any, inputs)) else None
    return None


def with_outermost(nest: Nest, loop: int) -> Nest:
    """The nest with one of its loops outermost, and loops that this makes neighbours merged."""
    order = [loop, *(d for d in range(len(nest.shape)) if d != loop)]
    moved = nest.reordered(order)
    inner = collapse(moved.shape[1:], [strides[1:] for strides in moved.strides])
    strides = [(first[0], *rest) for first, rest in zip(moved.strides, inner.strides, strict=True)]
    return Nest((moved.shape[0], *inner.shape), tuple(strides), nest.shifts)


def transposed_loop(arrays: Sequence[Operand], nest: Nest, num_outputs: int) -> int | None:
    """The loop along which most bytes of the inputs are contiguous, if that is not the innermost."""
    votes = [0] * len(nest.shape)
    for array, strides in list(zip(arrays, nest.strides, strict=False))[num_outputs:]:
        nearest = _nearest_loop(strides)
        if _is_transposed(strides, nearest):
            votes[nearest] += array.type.nbytes
    loop = max(range(len(votes)), key=votes.__getitem__)
    is_worthwhile = votes[loop] and nest.shape[loop] >= MIN_TILE_SIDE and nest.shape[-1] >= MIN_TILE_SIDE
    return loop if is_worthwhile else None


def with_transposed(specs: list[OperandSpec], nest: Nest, num_outputs: int) -> tuple[list[OperandSpec], int, int]:
    """Stage the inputs that are contiguous along the last loop but one, as many as fit shared memory.

    Returns
    -------
    specs, units, rows
        The last two are the shape of the tile, see `TileSpec`: it is the larger, the fewer inputs there are.
    """
    words = sum(spec.words for spec in specs[num_outputs:])
    units, rows = next((shape for limit, shape in STAGED_SHAPES if words <= limit), LEAST_STAGED_SHAPE)
    left = MAX_STATIC_SHARED
    result = []
    for i, (spec, strides) in enumerate(zip(specs, nest.strides, strict=True)):
        nbytes = tile.shared_nbytes(tile.WARP * units, tile.NUM_WARPS * rows, spec.type)
        is_staged = i >= num_outputs and spec.kind == STRIDED and _is_transposed(strides, -2) and nbytes <= left
        left -= nbytes * is_staged
        result.append(spec.replace(kind=TRANSPOSED if strides[-2] == 1 else STEPPED) if is_staged else spec)
    return result, units, rows


def tile_units(chain: Chain, vector: int) -> int:
    """Units per thread of a tile: four elements, fewer where registers do not hold them."""
    words = vector * chain.words
    units = MAX_VECTOR // vector
    while units > 1 and units * words > MAX_GATHERED:
        units //= 2
    return units
