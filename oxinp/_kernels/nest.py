"""The loop nest that a problem comes down to.

`collapse` turns a shape and strides into the nest with the fewest loops that visits the same elements; families decide
on the nest, never on the shape.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from oxinp._ptx.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.problem import Operand


class Nest(Frozen):
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
        spans = (sum(abs(step) * (n - 1) for step, n in zip(s, self.shape, strict=True)) for s in self.strides)
        return max(spans, default=0)

    def reordered(self, order: Sequence[int]) -> Nest:
        """The nest with its loops in another order."""
        return Nest(
            tuple(self.shape[d] for d in order),
            tuple(tuple(strides[d] for d in order) for strides in self.strides),
            self.shifts,
        )


def collapse(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> Nest:
    """Return the nest of fewest loops over `shape`, in the order in which the first operand lies in memory.

    Loops of extent 1 are dropped; a loop along which the first operand that moves steps backwards is turned round;
    loops are sorted by the first operand's steps, ties by the next ones'; neighbours merge where they are one loop to
    every operand.

    Parameters
    ----------
    shape : sequence of int
    strides : sequence of sequences of int
        Per operand, in elements; the first decides the order.

    Notes
    -----
    A problem of one element becomes one loop of extent 1 that everybody walks in unit steps; one of no elements, a loop
    of extent 0.
    """
    if 0 in shape:
        return Nest((0,), ((1,),) * len(strides), (0,) * len(strides))
    shifts = [0] * len(strides)
    loops = []
    for d, n in enumerate(shape):
        if n == 1:
            continue
        steps = [operand[d] for operand in strides]
        if next((step for step in steps if step), 0) < 0:
            shifts = [shift + step * (n - 1) for shift, step in zip(shifts, steps, strict=True)]
            steps = [-step for step in steps]
        loops.append((n, steps))
    loops.sort(key=lambda loop: [abs(step) for step in loop[1]], reverse=True)
    merged: list[tuple[int, list[int]]] = []
    for n, steps in loops:
        is_continued = merged and all(outer == inner * n for outer, inner in zip(merged[-1][1], steps, strict=True))
        merged.append((n * merged.pop()[0] if is_continued else n, steps))
    if not merged:
        merged.append((1, [1] * len(strides)))
    return Nest(
        tuple(n for n, _ in merged),
        tuple(tuple(steps[i] for _, steps in merged) for i in range(len(strides))),
        tuple(shifts),
    )


def shifted_alignment(operand: Operand, shift: int) -> int:
    """Return the alignment of an operand's pointer moved by `shift` elements."""
    offset = shift * operand.type.nbytes
    return min(operand.alignment, offset & -offset) if offset else operand.alignment


def magic(divisor: int) -> tuple[int, int]:
    """Return ``(multiplier, shift)`` with ``n // divisor == (mulhi(n, multiplier) + n) >> shift`` for n < 2**31.

    Source: T. Granlund and P. L. Montgomery, Division by invariant integers using multiplication, PLDI 1994,
    figure 4.1; below 2**31 the sum does not carry out of 32 bits.
    """
    shift = (divisor - 1).bit_length()
    return ((1 << 32) * ((1 << shift) - divisor)) // divisor + 1, shift
