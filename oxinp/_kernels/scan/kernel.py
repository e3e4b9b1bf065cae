"""The base of scan kernels: the elements of a chain that are scanned, their combination, the store of results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxinp._kernels.elementwise.chain import BoundChain, BoundOperand, Chain, OperandSpec, Position, Spot
from oxinp._ptx.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.problem import ReduceOp
    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value

# Which part of a scan a kernel is.
WHOLE = "whole"  # all of it
CHAINED = "chained"  # all of it, by blocks that read each other's totals


class ScanSpec(Frozen):
    """The fields that the Specs of all scans have.

    Attributes
    ----------
    chain : Chain
        Without outputs.
    value : int
        Number of the value that is scanned.
    op : ReduceOp
    target : OperandSpec
        The output.
    part : str
        One of the constants above.
    """

    chain: Chain
    value: int
    op: ReduceOp
    target: OperandSpec
    part: str


class ScanKernel:
    """A kernel's elements and results while it is built; parameters are the target, then the chain's."""

    def __init__(self, k: Builder, spec: ScanSpec) -> None:
        self._k = k
        self._spec = spec
        self.type = spec.chain.index_type
        self._target = BoundOperand(k, "out", spec.target, "w")
        self.bound = BoundChain(k, spec.chain)
        self._target.declare_strides(spec.chain.ndim, self.type)
        self.identity = k.const(spec.op.identity, spec.op.acc)

    @property
    def target(self) -> Spot:
        """The first result's place."""
        return self._target.spot()

    def combine(self, a: Any, b: Any) -> Value:
        """Return the accumulator of two neighbouring ranges of elements, in order."""
        value: Value = self._spec.op.combine(self._k, a, b)
        return value

    def lifted(self, place: Position, loaded: list[Sequence[Value]], width: int) -> list[Value]:
        """Return the accumulators of loaded elements."""
        return [self.lift(each[self._spec.value]) for each in place.evaluate(loaded, width)]

    def lift(self, value: Value) -> Value:
        """Return the accumulator of a value."""
        k, op = self._k, self._spec.op
        lifted: Value = k.cast(value, op.acc) if op.lift is None else op.lift(k, value)
        return lifted

    def result(self, total: Value) -> Value:
        """Return the result of an accumulator."""
        k, spec = self._k, self._spec
        return k.cast(total if spec.op.finish is None else spec.op.finish(k, total), spec.target.type)
