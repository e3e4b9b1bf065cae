"""Epilogues: elementwise operations on the sums of a product, before they are stored.

An epilogue is a chain as of the elementwise families (see `chain`) whose value 0 is the sum: C = alpha A B + beta C, a
bias along rows or columns, an activation, or all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.elementwise.chain import (
    BROADCAST,
    LINE,
    OUTER,
    SCALAR,
    STRIDED,
    TILE,
    UNIT,
    BoundChain,
    Chain,
    OperandSpec,
    Position,
)
from oxinp._kernels.nest import Nest
from oxinp._kernels.problem import MAX_ALIGNMENT, Instr, Operand, ScalarOperand
from oxinp._ptx import Builder
from oxinp._ptx.types import i64

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value


MAX_LENGTH = 16
"""Instructions of an epilogue that is unrolled: a thread has up to 128 sums, and the code is compiled for each."""


class Epilogue(NamedTuple):
    """An epilogue as it is asked for: instructions on the sum, which is value 0.

    Attributes
    ----------
    inputs : tuple of Operand or ScalarOperand
        Values 1 and on. Arrays have a stride per dimension of C, 0 where they are broadcast; C itself may be one.
    instrs : tuple of Instr
        The values that follow; none wants the index.
    result : int
        The value that is written.
    """

    inputs: tuple[Operand | ScalarOperand, ...]
    instrs: tuple[Instr, ...]
    result: int

    @property
    def arrays(self) -> list[Operand]:
        """The inputs that lie in memory."""
        return [x for x in self.inputs if isinstance(x, Operand)]

    def types(self, sums: Type) -> list[Type]:
        """Return the type of every value; value 0 has the type of the sums."""
        return [sums, *(x.type for x in self.inputs), *(instr.type for instr in self.instrs)]

    def along(self, strides: Sequence[tuple[int, ...]]) -> Epilogue:
        """Return the epilogue with other strides of its arrays."""
        moving = iter(strides)
        inputs = [x.replace(strides=next(moving)) if isinstance(x, Operand) else x for x in self.inputs]
        return self._replace(inputs=tuple(inputs))


class EpilogueSpec(NamedTuple):
    """What a kernel's code depends on of an `Epilogue`: its chain, without outputs, and the number of the result."""

    chain: Chain
    result: int


def bind(
    epilogue: Epilogue, strides: Sequence[Sequence[int]], *, is_paired: bool = False, is_staged: bool = False
) -> tuple[EpilogueSpec, tuple[int, ...]]:
    """Return the Spec of an epilogue, and the values of the parameters that `BoundEpilogue` declares.

    Parameters
    ----------
    epilogue : Epilogue
    strides : sequence of sequences of int
        Per array among the inputs, along the loops of C, of which the last two are rows and columns.
    is_paired : bool
        The kernel reads two elements of a row at a time, the first of them at an even column.
    is_staged : bool
        The kernel loads tiles of all inputs itself.
    """
    moving = iter(strides)
    ndim = len(strides[0]) if strides else 2
    still = (0,) * ndim
    steps = tuple(still if isinstance(x, ScalarOperand) else tuple(next(moving)) for x in epilogue.inputs)
    specs = tuple(
        OperandSpec(x.type, TILE if is_staged else _kind(x, own, is_paired=is_paired))
        for x, own in zip(epilogue.inputs, steps, strict=True)
    )
    chain = Chain(specs, epilogue.instrs, (), ndim, 64)
    return EpilogueSpec(chain, epilogue.result), chain.constants(
        Nest((1,) * ndim, tuple(map(tuple, strides)), (0,) * len(strides))
    )


def _kind(operand: Operand | ScalarOperand, strides: tuple[int, ...], *, is_paired: bool) -> str:
    if isinstance(operand, ScalarOperand):
        return SCALAR
    if not any(strides):
        return BROADCAST
    if strides[-1] == 0:
        return OUTER
    are_pairs = operand.alignment % (2 * operand.type.nbytes) == 0 and not any(step % 2 for step in strides[:-1])
    if strides[-1] != 1 or not (are_pairs or not is_paired):
        return STRIDED
    return UNIT if any(strides[:-1]) else LINE


def length(epilogue: Epilogue, sums: Type) -> int:
    """Return how many instructions the epilogue takes per sum, constants and loads aside."""
    return _num_lines(epilogue, sums, epilogue.instrs) - _num_lines(epilogue, sums, ())


def _num_lines(epilogue: Epilogue, sums: Type, instrs: Sequence[Instr]) -> int:
    k = Builder("length", block=32)
    values = [k.scalar(f"value{i}", type) for i, type in enumerate(epilogue.types(sums)[: 1 + len(epilogue.inputs)])]
    result = BoundChain(k, Chain((), tuple(instrs), (), 1, 64)).evaluate(values)[-1]
    k.pointer("out", result.type, "w").store(0, [result])
    return k.build().ptx.count("\n")


class BoundEpilogue:
    """An epilogue inside a kernel, with its parameters: the inputs, then strides."""

    def __init__(self, k: Builder, epilogue: EpilogueSpec) -> None:
        self.k = k
        self.chain = epilogue.chain
        self._result = epilogue.result
        self._bound = BoundChain(k, epilogue.chain)

    def at(self, indices: Iterable[Value]) -> Position:
        """Return the position in C with these indices, outermost first; the last ones may be missing."""
        position = self._bound.origin()
        for loop, index in enumerate(indices):
            position = position.moved(loop, self.k.cast(index, i64))
        return position

    def apply(self, totals: Sequence[Value], loaded: Sequence[Sequence[Value]], out: Type) -> list[Value]:
        """Return the results of neighbouring sums, for which a position has `loaded` the inputs, in the type of C."""
        elements = [[total, *(values[i] for values in loaded)] for i, total in enumerate(totals)]
        return [self.k.cast(self._bound.evaluate(element)[self._result], out) for element in elements]


def scaled(type: Type, strides: tuple[int, ...] | None = None) -> Epilogue:
    """Return BLAS's epilogue: ``alpha * sum``, and if strides of C are given, ``+ beta * C``.

    Inputs are alpha, then beta and C.
    """
    alpha = (Instr(_multiplied, type, (0, 1)),)
    if strides is None:
        return Epilogue((ScalarOperand(type),), alpha, 2)
    more = (Instr(_multiplied, type, (2, 3)), Instr(_added, type, (4, 5)))
    return Epilogue((ScalarOperand(type), ScalarOperand(type), Operand(type, strides)), (*alpha, *more), 6)


def subtracted(type: Type, strides: tuple[int, ...], alignment: int = MAX_ALIGNMENT) -> Epilogue:
    """Return the epilogue ``C - sum``; its input is C."""
    return Epilogue((Operand(type, strides, alignment),), (Instr(_subtracted, type, (1, 0)),), 2)


def _multiplied(k: Builder, x: Value, y: Value) -> Value:  # noqa: ARG001 - every lowering takes the builder
    return x * y


def _added(k: Builder, x: Value, y: Value) -> Value:  # noqa: ARG001
    return x + y


def _subtracted(k: Builder, x: Value, y: Value) -> Value:  # noqa: ARG001
    return x - y


__all__ = ["MAX_LENGTH", "BoundEpilogue", "Epilogue", "EpilogueSpec", "bind", "length", "scaled", "subtracted"]
