"""What kernels are asked for: a shape, operands given by type and strides, and instructions between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._ptx.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from oxinp._ptx.types import Type

MAX_ALIGNMENT = 256
MAX_KERNELS = 1024
"""Kernels that a family keeps beside those in use: a program of ever new expressions must not fill the memory."""


class Operand(NamedTuple):
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

    def replace(self, **changes: Any) -> Operand:
        """Return a copy with some fields changed."""
        return self._replace(**changes)


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


def touched_nbytes(shape: Sequence[int], operands: Iterable[Operand]) -> int:
    """Return the size of what operands have in memory over a shape."""
    total = 0
    for x in operands:
        nbytes = x.type.nbytes
        for n, step in zip(shape, x.strides, strict=True):
            if step or not n:
                nbytes *= n
        total += nbytes
    return total
