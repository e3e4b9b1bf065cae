"""Loop nests: what shapes and strides reduce to.

`collapse` turns a shape and strides into the nest with the fewest loops that visits the same elements; families decide
on the nest, never on the shape.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.problem import Operand

MAX_INDEX_32 = 2**31 - 2**20  # what 32-bit indices may reach, with room for a block's overshoot


class Nest(NamedTuple):
    """Loops, outermost first, over elements that operands address by strides.

    Attributes
    ----------
    shape : tuple of int
        At least one extent.
    strides : tuple of tuples of int
        Per operand, in elements, one per loop.
    shifts : tuple of int
        Per operand, elements from its pointer to where the loops begin.
    """

    shape: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    shifts: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def reach(self) -> int:
        """Largest distance, in elements, between a pointer and an element addressed from it."""
        # The loops begin at one end of what an operand spans, its pointer lies at another or inside.
        farthest = 0
        for strides in self.strides:
            span = 0
            for step, n in zip(strides, self.shape, strict=True):
                span += abs(step) * (n - 1)
            farthest = max(farthest, span)
        return farthest

    def reordered(self, order: Sequence[int]) -> Nest:
        """Return the nest with its loops in another order."""
        return Nest(
            tuple(self.shape[d] for d in order),
            tuple(tuple(strides[d] for d in order) for strides in self.strides),
            self.shifts,
        )


def collapse(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> Nest:
    """Return the nest of fewest loops over `shape`, in the order in which the first operand lies in memory.

    Loops of extent 1 are dropped; a loop is reversed where the first operand that moves along it has a negative stride;
    loops are sorted by the strides of the first operand, ties by those of the next ones; neighbours are merged where
    they are one loop for every operand.

    Parameters
    ----------
    shape : sequence of int
    strides : sequence of sequences of int
        Per operand, in elements; the first decides the order.

    Notes
    -----
    A problem of one element is one loop of extent 1, along which all strides are 1; one of no elements is a loop of
    extent 0.
    """
    count = len(strides)
    if 0 in shape:
        return Nest((0,), ((1,),) * count, (0,) * count)
    # Per dimension, the strides of all operands.
    columns = list(zip(*strides, strict=True)) if strides else [()] * len(shape)
    loops = [(n, columns[d]) for d, n in enumerate(shape) if n != 1]
    if not loops:
        return Nest((1,), ((1,),) * count, (0,) * count)
    shifts = (0,) * count
    for i, (n, steps) in enumerate(loops):
        if steps and min(steps) < 0 and next(step for step in steps if step) < 0:
            shifts = tuple([shift + step * (n - 1) for shift, step in zip(shifts, steps, strict=True)])
            loops[i] = n, tuple([-step for step in steps])
    if len(loops) == 1:
        ((n, steps),) = loops
        return Nest((n,), tuple([(step,) for step in steps]), shifts)
    loops.sort(key=_reach, reverse=True)
    merged = [loops[0]]
    for n, steps in loops[1:]:
        length, outer = merged[-1]
        if outer == tuple([step * n for step in steps]):
            merged[-1] = n * length, steps
        else:
            merged.append((n, steps))
    return Nest(tuple([n for n, _ in merged]), tuple(zip(*[steps for _, steps in merged], strict=True)), shifts)


def _reach(loop: tuple[int, tuple[int, ...]]) -> list[int]:
    """The key by which loops are sorted: the distance that each operand moves."""
    return [abs(step) for step in loop[1]]


def shifted_alignment(operand: Operand, shift: int) -> int:
    """Return the alignment of an operand's pointer moved by `shift` elements."""
    offset = shift * operand.type.nbytes
    return min(operand.alignment, offset & -offset) if offset else operand.alignment


@lru_cache(1 << 12)
def magic(divisor: int) -> tuple[int, int]:
    """Return ``(multiplier, shift)`` with ``n // divisor == (mulhi(n, multiplier) + n) >> shift`` for n < 2**31.

    Source: T. Granlund and P. L. Montgomery, Division by invariant integers using multiplication, PLDI 1994,
    figure 4.1; below 2**31 the sum does not carry out of 32 bits.
    """
    shift = (divisor - 1).bit_length()
    return ((1 << 32) * ((1 << shift) - divisor)) // divisor + 1, shift
