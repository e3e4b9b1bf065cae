"""The base of reduction kernels: the elements of a chain that are reduced, and the store of results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._kernels.elementwise.chain import INDEX, STRIDED, BoundChain, BoundOperand, Chain, OperandSpec, Position
from oxinp._kernels.problem import Element
from oxinp._ptx.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.problem import ReduceOp
    from oxinp._ptx import Builder
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value


class ReductionSpec(Frozen):
    """The fields that the Specs of all reductions have.

    Attributes
    ----------
    chain : Chain
        Without outputs; if `op` wants an index, the last input is that.
    value : int
        Number of the value that is reduced.
    mask : int or None
        Number of the value that says which elements count.
    op : ReduceOp
    num_kept : int
        Kept loops.
    type : Type
        Of what is stored: the output's, or `op.acc` for partial results.
    is_split : bool
        The reduced elements are divided into chunks, each of which leaves a partial result.
    """

    chain: Chain
    value: int
    mask: int | None
    op: ReduceOp
    num_kept: int
    type: Type
    is_split: bool

    joins = False  # whether the kernel combines the partial results itself


class ReductionKernel:
    """A kernel's elements and results while it is built."""

    def __init__(self, k: Builder, spec: ReductionSpec) -> None:
        self._k = k
        self._spec = spec
        self.type = spec.chain.index_type
        if spec.is_split and not spec.joins:
            k.pointer("result", spec.type, "r")  # the second reduction's, which this one leaves alone
        self._target = BoundOperand(k, "out", OperandSpec(spec.type, STRIDED, is_shifted=True), "w")
        self.declare_partials(k)
        self.bound = BoundChain(k, spec.chain)
        self._target.declare_strides(spec.num_kept, self.type)

    def declare_partials(self, k: Builder) -> None:
        """Declare what partial results are left in, where the same kernel combines them."""

    def elements(
        self, place: Position, loaded: list[Sequence[Value]], width: int, valid: Value | None = None
    ) -> list[Element]:
        """The elements to be reduced, from loaded inputs; those that are not `valid` do not count."""
        spec = self._spec
        indices: Sequence[Value | None] = (None,) * width
        if spec.op.wants_index:
            *loaded, indices = loaded
        elements = []
        for values, index in zip(place.evaluate(loaded, width), indices, strict=True):
            counts = valid
            if spec.mask is not None:
                counts = values[spec.mask] if valid is None else values[spec.mask] & valid
            elements.append(Element(values[spec.value], index, counts))
        return elements

    def store(self, indices: Sequence[Value], total: Value, shift: Value | None = None) -> None:
        """Store one result, finished unless it is partial, `shift` elements behind the place of its indices."""
        spec, k = self._spec, self._k
        spot = self._target.spot()
        for loop, index in enumerate(indices):
            spot = spot.moved(loop, index)
        if shift is not None:
            spot = spot.shifted(shift)
        if spec.op.finish is not None and (spec.joins or not spec.is_split):
            inputs = [operand for operand in self.bound.inputs if operand.spec.kind != INDEX]
            first = len(inputs) - spec.op.num_parameters
            total = spec.op.finish(k, total, *[operand.origin for operand in inputs[first:]])
        spot.store([k.cast(total, spec.type)])
