"""What passes read and write: loops of transforms, the arrays at both sides of them, and chains in their kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.fft.spec import SCALAR, STRIDED, UNIT, Fused
from oxinp._ptx.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.plan import Argument
    from oxinp._kernels.problem import Instr
    from oxinp._ptx.types import Type


class Loop(NamedTuple):
    """A loop of the batch: its extent, and elements from one transform to the next, in source and target.

    `reads`, `writes` and `between` are those elements for the arrays of a prologue, an epilogue, and a chain between.
    """

    extent: int
    source: int
    target: int
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    between: tuple[int, ...] = ()

    def step(self, side: int) -> int:
        """Elements from one transform to the next in the source (1) or the target (2)."""
        return self.source if side == 1 else self.target


class Side(NamedTuple):
    """Where a pass reads, or writes: a buffer, and elements from one of a transform to the next.

    Attributes
    ----------
    buffer : Argument
    step : int
    alignment : int
        A power of two that divides the buffer's address.
    steps : tuple of int
        As `step`, for the arrays of a prologue or epilogue.
    """

    buffer: Argument
    step: int
    alignment: int = 1
    steps: tuple[int, ...] = ()

    def times(self, factor: int) -> tuple[int, ...]:
        """`steps`, multiplied."""
        return tuple([factor * step for step in self.steps])


class Chained(Frozen):
    """A chain of elementwise operations before or after a transform.

    Attributes
    ----------
    types : tuple of Type
        Of its operands, but for the result of the transform that it follows.
    arguments : tuple of Argument
        The operands.
    are_arrays : tuple of bool
        Others are passed by value.
    instrs, result
        As of `Fused`.
    made : Type
        Of the result.
    """

    types: tuple[Type, ...]
    arguments: tuple[Argument, ...]
    are_arrays: tuple[bool, ...]
    instrs: tuple[Instr, ...]
    result: int
    made: Type

    def fused(self, steps: tuple[int, ...]) -> Fused:
        """What a kernel depends on, where the arrays advance by `steps` along a transform."""
        kinds = iter([UNIT if step == 1 else STRIDED for step in steps])
        operands = [
            (type_, next(kinds) if is_array else SCALAR)
            for type_, is_array in zip(self.types, self.are_arrays, strict=True)
        ]
        return Fused(tuple(operands), self.instrs, self.result)

    def moved(self, elements: Sequence[int]) -> Chained:
        """The same of arrays that begin so many elements further."""
        steps = iter(elements)
        arguments = [
            argument.at(next(steps) * type_.nbytes) if is_array else argument
            for argument, type_, is_array in zip(self.arguments, self.types, self.are_arrays, strict=True)
        ]
        return self.replace(arguments=tuple(arguments))

    @property
    def nbytes(self) -> int:
        """Of an element of all arrays."""
        return sum(type_.nbytes for type_, is_array in zip(self.types, self.are_arrays, strict=True) if is_array)


class Positions(NamedTuple):
    """How many elements of a sequence count, and where in it those of a pass are."""

    number: int
    step: int  # per element of a transform
    loops: tuple[tuple[Loop, int], ...] = ()  # along which it advances as well, and by how much

    def constants(self, loops: Sequence[Loop]) -> tuple[int, ...]:
        """Values of a kernel's parameters."""
        advances = dict(self.loops)
        return (*(advances.get(loop, 0) for loop in loops), self.step, self.number)


class Between(NamedTuple):
    """A chain between two transforms.

    Attributes
    ----------
    chain : Chained
    steps : tuple of int
        Elements from one of a transform to the next, of the chain's arrays.
    sign : int
        1 where the first transform goes forwards and the second one back, -1 for the other way round.
    scale : float
        Of the results that the chain takes.
    """

    chain: Chained
    steps: tuple[int, ...]
    sign: int
    scale: float

    @property
    def constants(self) -> tuple[float, ...]:
        """Values of a kernel's parameters: factors of both parts before the chain, and of the imaginary one after."""
        return self.scale, self.sign * self.scale, float(-self.sign)


def joined(loops: list[Loop], apart: Loop | None) -> list[Loop]:
    """The loops, those that go on where others end made one with these; `apart` stays."""
    found: list[Loop] = []
    for loop in sorted(loops, key=lambda loop: (abs(loop.target), abs(loop.source), loop.extent)):
        inner = found[-1] if found else None
        if inner is not None and apart not in (inner, loop) and _follows(loop, inner):
            found[-1] = inner._replace(extent=inner.extent * loop.extent)
        else:
            found.append(loop)
    return found


def _follows(loop: Loop, inner: Loop) -> bool:
    """Whether a loop's steps are all those of `inner`, times its extent."""
    steps, own = ([each.source, each.target, *each.reads, *each.writes, *each.between] for each in (inner, loop))
    return own == [inner.extent * step for step in steps]


__all__ = ["Between", "Chained", "Loop", "Positions", "Side", "joined"]
