"""The base of planners of chains: it keeps one chain, Spec and kernel for each way in which operands move."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from oxinp._kernels.elementwise.chain import SCALAR, Chain, OperandSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from oxinp._kernels.problem import Instr
    from oxinp._ptx import Kernel
    from oxinp._ptx.types import Type

MAX_KEPT = 64  # chains, and kernels, that are kept per list of instructions


@cache
def operand_spec(type_: Type, kind: str, is_shifted: bool) -> OperandSpec:
    """Return the one `OperandSpec` of these fields."""
    return OperandSpec(type_, kind, is_shifted)


class Planner:
    """Instructions that are planned for any shape and any layouts: the base of the planner of a family of problems.

    Parameters
    ----------
    inputs : sequence of (Type, bool)
        Of every input, and whether it is an array.
    instrs : sequence of Instr
    outputs : sequence of (int, Type)
        Numbers and types of the values that the chain itself writes.

    Attributes
    ----------
    types : tuple of Type
        Of the input arrays.
    wants_index : bool
        Whether an instruction does.
    """

    __slots__ = ("_chains", "_kernels", "_specs", "inputs", "instrs", "outputs", "types", "wants_index")

    def __init__(
        self, inputs: Sequence[tuple[Type, bool]], instrs: Sequence[Instr], outputs: Sequence[tuple[int, Type]] = ()
    ) -> None:
        self.inputs = tuple([None if is_array else operand_spec(type_, SCALAR, False) for type_, is_array in inputs])
        self.instrs = tuple(instrs)
        self.outputs = tuple(outputs)
        self.types = tuple([type_ for type_, is_array in inputs if is_array])
        self.wants_index = any(instr.wants_index for instr in self.instrs)
        self._chains: dict[Any, Chain] = {}
        self._specs: dict[Any, Any] = {}
        self._kernels: dict[Any, Kernel] = {}

    def chain(self, specs: Iterable[OperandSpec], ndim: int, bits: int) -> Chain:
        """Return the chain over `specs` of the outputs, the input arrays and the indices, one object for equal ones."""
        moving = tuple(specs)
        key = (moving, ndim, bits)
        chain = self._chains.get(key)
        if chain is None:
            if len(self._chains) >= MAX_KEPT:
                self._chains.clear()
                self._specs.clear()
            left = iter(moving)
            outputs = tuple([(value, next(left)) for value, _ in self.outputs])
            inputs = [next(left) if spec is None else spec for spec in self.inputs]
            chain = self._chains[key] = Chain((*inputs, *left), self.instrs, outputs, ndim, bits)
        return chain

    def spec(self, kind: Any, chain: Chain, *fields: Any) -> Any:
        """Return the Spec of a chain and of what else it has, one object for equal fields."""
        key = (kind, id(chain), fields)  # the chain is kept as long as this is
        spec = self._specs.get(key)
        if spec is None:
            spec = self._specs[key] = kind(chain, *fields)
        return spec

    def kernel(self, family: Any, spec: Any) -> Kernel:
        """Return the kernel of a Spec, by the module of its family."""
        kernel = self._kernels.get(spec)
        if kernel is None:
            if len(self._kernels) >= MAX_KEPT:
                self._kernels.clear()
            kernel = self._kernels[spec] = family.make(spec)
        return kernel

    def known_kernel(self, family: Any, spec: Any) -> Kernel | None:  # noqa: ARG002 - as `kernel`
        """Return the kernel of a Spec if it has been built."""
        return self._kernels.get(spec)


__all__ = ["MAX_KEPT", "Planner", "operand_spec"]
