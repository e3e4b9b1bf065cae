"""Problems: operands given by type and strides, instructions on their elements, and reduction operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._ptx.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from oxinp._ptx.types import Type

MAX_ALIGNMENT = 256
MIN_COLUMNS = 32
"""Extent of a kept loop of a reduction from which lanes go along it."""
MAX_KERNELS = 1024
"""Kernels that a family keeps beside those in use, so that a program of ever new expressions does not fill memory."""

SKIPPED = -(1 << 61)
"""An index, i64, that names no element and is not out of bounds, where a kernel has been made for such."""


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
    """An input passed by value; a `Compound` is one parameter per part."""

    type: Type


class Instr(Frozen):
    """One operation on values: `lower(k, *values)` gives a value of `type`.

    `args` number the inputs, then the earlier instructions. A `lower` with a true attribute `wants_index` is called
    ``lower(k, index, *values)`` with the flat C-order index of the element, i64. One with a true attribute
    `wants_pointer` as well is given, for the first of `args`, which is an input in memory, the pointer to the input's
    first element instead of the element: it reads others.
    """

    lower: Callable[..., Any]
    type: Type
    args: tuple[int, ...]

    @property
    def wants_index(self) -> bool:
        """Whether the lowering takes the flat index."""
        return getattr(self.lower, "wants_index", False)

    @property
    def wants_pointer(self) -> bool:
        """Whether the lowering takes the pointer of its first input."""
        return getattr(self.lower, "wants_pointer", False)


class Output(Frozen):
    """An output: the number of the value, and the operand that it is stored to."""

    value: int
    operand: Operand


class Element(NamedTuple):
    """One element of a reduction: a value of the chain and, if asked for, its index and whether it counts."""

    value: Any
    index: Any = None
    is_valid: Any = None


class ReduceOp(Frozen):
    """A reduction operator.

    Elements are *lifted* to accumulators, accumulators are *combined* to one, and that is *finished*: made
    the result.

    Attributes
    ----------
    name : str
    acc : Type
        Type of accumulators, a `Compound` where they have several parts.
    identity : bool, int, float, complex or tuple
        The neutral accumulator of `combine`; finished, the result of no elements. A tuple for a `Compound` that is no
        complex type.
    combine : callable
        ``combine(k, a, b)``, commutative; the layout and the geometry fix the order of combination.
    lift : callable or None
        ``lift(k, value)``, an element's accumulator; None casts to `acc` as NumPy casts.
    gather : callable or None
        ``gather(k, elements)``, the accumulator of several `Element`, where that is better computed at once than by
        combining accumulators of single elements.
    finish : callable or None
        ``finish(k, accumulator, *parameters)``, the result before it is cast to the output's type.
    num_parameters : int
        How many of the problem's last inputs, all scalars, are parameters of `finish` rather than of the chain.
    wants_index : bool
        Elements have to say their index: flat, in C order over the reduced dimensions.
    batch : int
        Elements that a thread may hold in registers at once.
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
        """Return the operator that reduces the accumulators of an earlier pass."""
        return self.replace(lift=None, gather=None, wants_index=False)


def touched_nbytes(shape: Sequence[int], operands: Iterable[Operand]) -> int:
    """Return the bytes of memory that operands have over a shape."""
    total = 0
    for x in operands:
        nbytes = x.type.nbytes
        for n, step in zip(shape, x.strides, strict=True):
            if step or not n:
                nbytes *= n
        total += nbytes
    return total
