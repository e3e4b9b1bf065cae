"""What the families of scans share: which elements of a chain are scanned, how they are joined, where results go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxinp._kernels.elementwise.chain import BoundChain, BoundOperand, Chain, OperandSpec, Position, Spot
from oxinp._kernels.problem import Element
from oxinp._ptx.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.problem import ReduceOp
    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value

# Which part of a scan a kernel is.
WHOLE = "whole"  # all of it
TOTALS = "totals"  # what the chunks of a scan come to
PREFIXED = "prefixed"  # the scan of chunks, each from where those before it have come to
CHAINED = "chained"  # all of it, by blocks that tell each other what chunks come to


class ScanSpec(Frozen):
    """What is scanned, of a kernel of any family.

    Attributes
    ----------
    chain : Chain
        Without outputs.
    value : int
        Number of the value that is scanned.
    op : ReduceOp
    target : OperandSpec
        Where results go.
    part : str
        One of the constants above.
    """

    chain: Chain
    value: int
    op: ReduceOp
    target: OperandSpec
    part: str


class ScanKernel:
    """A kernel's elements and results while it is built; parameters are the target, the totals, then the chain's."""

    def __init__(self, k: Builder, spec: ScanSpec) -> None:
        self._k = k
        self._spec = spec
        self.type = spec.chain.index_type
        self.has_results = spec.part != TOTALS
        if self.has_results:
            self._target = BoundOperand(k, "out", spec.target, "w")
        if spec.part not in (WHOLE, CHAINED):
            self.totals = k.pointer("totals", spec.op.acc, "r" if self.has_results else "w")
        self.bound = BoundChain(k, spec.chain)
        if self.has_results:
            self._target.declare_strides(spec.chain.ndim, self.type)
        self.identity = k.const(spec.op.identity, spec.op.acc)

    @property
    def target(self) -> Spot | None:
        """Where results begin; None where there are none."""
        return self._target.spot() if self.has_results else None

    def combine(self, a: Any, b: Any) -> Value:
        """The accumulator of what comes first and what follows it."""
        value: Value = self._spec.op.combine(self._k, a, b)
        return value

    def lifted(self, place: Position, loaded: list[Sequence[Value]], width: int) -> list[Value]:
        """Accumulators of loaded elements."""
        k, op, number = self._k, self._spec.op, self._spec.value
        values = [each[number] for each in place.evaluate(loaded, width)]
        return [k.cast(value, op.acc) if op.lift is None else op.lift(k, value) for value in values]

    def result(self, total: Value) -> Value:
        """What is stored of an accumulator."""
        k, spec = self._k, self._spec
        return k.cast(total if spec.op.finish is None else spec.op.finish(k, total), spec.target.type)


def elements_of(totals: Sequence[Value]) -> list[Element]:
    """Totals, for those who take elements."""
    return [Element(total) for total in totals]
