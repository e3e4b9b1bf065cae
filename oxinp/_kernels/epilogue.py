"""Epilogues: what becomes of the sums of a product before they are written.

An epilogue is a chain of the elementwise families (see `chain`) that begins with the sum: C = alpha A B + beta C, a
bias along rows or columns, an activation, or all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.chain import BROADCAST, OUTER, SCALAR, STRIDED, UNIT, BoundChain, Chain, OperandSpec, Position
from oxinp._kernels.problem import Instr, Nest, Operand, ScalarOperand
from oxinp._ptx.types import i64

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from oxinp._ptx import Builder
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value


class Finish(NamedTuple):
    """What is asked for: instructions on the sum, which is value 0.

    Attributes
    ----------
    inputs : tuple of Operand or ScalarOperand
        Values 1 and on. Arrays have the strides of C's dimensions, 0 where they are broadcast; C itself may be one.
    instrs : tuple of Instr
        The values that follow; none wants the index.
    result : int
        The value that is written.
    """

    inputs: tuple[Operand | ScalarOperand, ...]
    instrs: tuple[Instr, ...]
    result: int


class Epilogue(NamedTuple):
    """What a kernel's code depends on of a `Finish`: its chain, which has no outputs, and the number of the result."""

    chain: Chain
    result: int


def bind(finish: Finish, strides: Sequence[Sequence[int]]) -> tuple[Epilogue, tuple[int, ...]]:
    """Return the epilogue, and the values of the parameters that `BoundEpilogue` declares behind its inputs.

    Parameters
    ----------
    finish : Finish
    strides : sequence of sequences of int
        Of every array among the inputs along the loops of C, of which the last two are rows and columns.
    """
    moving = iter(strides)
    ndim = len(strides[0]) if strides else 2
    still = (0,) * ndim
    steps = tuple(still if isinstance(x, ScalarOperand) else tuple(next(moving)) for x in finish.inputs)
    specs = tuple(OperandSpec(x.type, _kind(x, own)) for x, own in zip(finish.inputs, steps, strict=True))
    chain = Chain(specs, finish.instrs, (), ndim, 64)
    return Epilogue(chain, finish.result), chain.constants(Nest((1,) * ndim, steps, (0,) * len(steps)))


def _kind(operand: Operand | ScalarOperand, strides: tuple[int, ...]) -> str:
    if isinstance(operand, ScalarOperand):
        return SCALAR
    if not any(strides):
        return BROADCAST
    return UNIT if strides[-1] == 1 else OUTER if strides[-1] == 0 else STRIDED


class BoundEpilogue:
    """An epilogue with its kernel parameters: the inputs, then strides."""

    def __init__(self, k: Builder, epilogue: Epilogue) -> None:
        self.k = k
        self._result = epilogue.result
        self._bound = BoundChain(k, epilogue.chain)

    def at(self, indices: Iterable[Value]) -> Position:
        """The place in C with these indices, outermost first; the last ones may be missing."""
        position = self._bound.origin()
        for loop, index in enumerate(indices):
            position = position.moved(loop, self.k.cast(index, i64))
        return position

    def finished(self, total: Value, position: Position, out: Type) -> Value:
        """What is written of a sum."""
        loaded = [values[0] for values in position.load()]
        return self.k.cast(self._bound.evaluate([total, *loaded])[self._result], out)


def scaled(type: Type, strides: tuple[int, ...] | None = None) -> Finish:
    """Return what BLAS makes of products: ``alpha * sum``, and where C has strides, ``+ beta * C``.

    Inputs are alpha, then beta and C.
    """
    alpha = (Instr(_multiplied, type, (0, 1)),)
    if strides is None:
        return Finish((ScalarOperand(type),), alpha, 2)
    more = (Instr(_multiplied, type, (2, 3)), Instr(_added, type, (4, 5)))
    return Finish((ScalarOperand(type), ScalarOperand(type), Operand(type, strides)), (*alpha, *more), 6)


def subtracted(type: Type, strides: tuple[int, ...]) -> Finish:
    """Return ``C - sum``; the input is C."""
    return Finish((Operand(type, strides),), (Instr(_subtracted, type, (1, 0)),), 2)


def _multiplied(k: Builder, x: Value, y: Value) -> Value:  # noqa: ARG001 - every lowering takes the builder
    return x * y


def _added(k: Builder, x: Value, y: Value) -> Value:  # noqa: ARG001
    return x + y


def _subtracted(k: Builder, x: Value, y: Value) -> Value:  # noqa: ARG001
    return x - y


__all__ = ["BoundEpilogue", "Epilogue", "Finish", "bind", "scaled", "subtracted"]
