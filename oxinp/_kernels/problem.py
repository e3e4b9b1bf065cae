"""What kernels are asked for, and the loop nest that it comes down to.

A problem is a shape, operands given by type and strides, and instructions between them. `collapse` turns the shape and
strides into the nest with the fewest loops that visits the same elements; families decide on the nest, never on the
shape.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from oxinp._ptx.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from oxinp._kernels.choice import Choice
    from oxinp._ptx.kernel import Kernel
    from oxinp._ptx.types import Type

MAX_ALIGNMENT = 256
MAX_KERNELS = 1024
"""Kernels that a family keeps beside those in use: a program of ever new expressions must not fill the memory."""

Grid = tuple[int, int, int]


class Device(Protocol):
    """What planning needs to know of a device."""

    @property
    def num_sms(self) -> int:
        """Streaming multiprocessors."""

    @property
    def cc(self) -> tuple[int, int]:
        """Compute capability."""

    @property
    def max_shared_nbytes(self) -> int:
        """Most shared memory of a block."""

    def tuned(self, choice: Choice, /) -> Mapping[str, Any] | None:
        """Fields of the answer that was measured to be best here, None where nothing near was measured."""


class Operand(Frozen):
    """An array that a kernel reads or writes through a pointer to its element (0, ..., 0).

    Attributes
    ----------
    type : Type
        `pred` is one byte, 0 or 1, in memory and a predicate in registers.
    strides : tuple of int
        In elements, one per dimension of the problem; 0 broadcasts.
    alignment : int
        Largest power of two, at most 256, that divides the pointer.
    """

    type: Type
    strides: tuple[int, ...]
    alignment: int = MAX_ALIGNMENT


class ScalarOperand(Frozen):
    """An input passed by value: of a `Compound`, its parts one after the other."""

    type: Type


class Instr(Frozen):
    """One operation on values: `lower(k, *values)` gives a value of `type`.

    `args` number the inputs, then the earlier instructions. A `lower` with a true attribute `wants_index` is called
    ``lower(k, index, *values)`` with the flat C-order index of the element, i64.
    """

    lower: Callable[..., Any]
    type: Type
    args: tuple[int, ...]

    @property
    def wants_index(self) -> bool:
        """Whether the lowering takes the flat index."""
        return getattr(self.lower, "wants_index", False)


class Output(Frozen):
    """Which value is written where."""

    value: int
    operand: Operand


class Element(NamedTuple):
    """What a reduction takes of one element: a value of its chain and, if asked for, where it lies and if it counts."""

    value: Any
    index: Any = None
    is_valid: Any = None


class ReduceOp(Frozen):
    """How a reduction makes one value of many.

    Elements are *lifted* into accumulators, which are *combined* into one, which is *finished*.

    Attributes
    ----------
    name : str
    acc : Type
        Type of accumulators, a `Compound` where they have several parts.
    identity : bool, int, float, complex or tuple
        What combines to the other accumulator; finished, the result over no elements. Of a `Compound` that is no
        complex type, a tuple.
    combine : callable
        ``combine(k, a, b)``, commutative; which accumulators it meets in which order is fixed by layout and geometry.
    lift : callable or None
        ``lift(k, value)``, an element's accumulator; None casts to `acc` as NumPy casts.
    gather : callable or None
        ``gather(k, elements)``, the accumulator of the several `Element` that a thread has at hand, where that is
        better found at once than by combining what each is lifted to.
    finish : callable or None
        ``finish(k, accumulator, *parameters)``, the result before it is cast to the output's type.
    num_parameters : int
        How many of the problem's last inputs, all scalars, are parameters of `finish` rather than of the chain.
    wants_index : bool
        Elements have to say their index: flat, in C order over the reduced dimensions.
    batch : int
        Elements that a thread may have at hand at once.
    """

    name: str
    acc: Type
    identity: Any
    combine: Callable[..., Any]
    lift: Callable[..., Any] | None = None
    gather: Callable[..., Any] | None = None
    finish: Callable[..., Any] | None = None
    num_parameters: int = 0
    wants_index: bool = False
    batch: int = 64

    def joining(self) -> ReduceOp:
        """The reduction of accumulators that an earlier pass left."""
        return self.replace(lift=None, gather=None, wants_index=False)


class Work(NamedTuple):
    """What a launch does, for those who profile.

    Attributes
    ----------
    flops : int
        Of products: two per multiply-add, eight where numbers are complex; of the product that is asked for, whatever
        computes it. 0 for everything else.
    nbytes : int
        Every operand's, once: elements that are broadcast count once, those of two operands twice.
    """

    flops: int = 0
    nbytes: int = 0


NO_WORK = Work()


def touched_nbytes(shape: Sequence[int], operands: Iterable[Operand]) -> int:
    """Return the size of what operands have in memory over a shape."""
    return sum(
        x.type.nbytes * math.prod(n for n, step in zip(shape, x.strides, strict=True) if step or not n)
        for x in operands
    )


class Launch(Frozen):
    """A kernel with its geometry; parameters at launch are the output pointers, the inputs in order, the constants."""

    kernel: Kernel
    grid: Grid
    constants: tuple[int, ...]
    work: Work = NO_WORK


class PassesPlan(Frozen):
    """How a reduction or a scan runs.

    Attributes
    ----------
    launches : tuple of Launch
        None where there is nothing to compute, one, or two that share a scratch buffer; `plan` says what they take.
    scratch_nbytes : int
        0 if there is one launch. Contents need not be kept or set.
    """

    launches: tuple[Launch, ...]
    scratch_nbytes: int = 0


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
