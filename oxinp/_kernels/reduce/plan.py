"""Plans of reductions: one launch, or a second one over partial results."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from oxinp._kernels.choice import MIN_TUNED_NBYTES
from oxinp._kernels.elementwise.plan import Elementwise
from oxinp._kernels.elementwise.planner import Planner
from oxinp._kernels.plan import FLAGS, SCRATCH, Launch, Plan, Work
from oxinp._kernels.problem import Instr, Operand, ScalarOperand, touched_nbytes
from oxinp._kernels.reduce.known import OUT, measured
from oxinp._kernels.reduce.loops import without
from oxinp._kernels.reduce.nearby import NearPasses
from oxinp._kernels.reduce.passes import ReducePass
from oxinp._ptx.types import u64

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from oxinp._kernels.choice import Device
    from oxinp._kernels.problem import ReduceOp
    from oxinp._ptx import Builder, Kernel
    from oxinp._ptx.value import Value


class Reduction(NearPasses):
    """The reduction of one value of a chain, planned for any shape, axes and layouts; parameters as of `Passes`."""

    __slots__ = ("_filling",)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._filling: Elementwise | None = None

    def plan(
        self, shape: tuple[int, ...], axes: tuple[int, ...], arrays: Sequence[Operand], output: Operand, device: Device
    ) -> Plan:
        """Return the plan for input arrays of a shape, reduced over some axes into an output; see `plan`."""
        if 0 in shape:
            kept_shape = without(shape, axes)
            return Plan(()) if 0 in kept_shape else self._fill(kept_shape, output, device)
        return self._planned(shape, axes, arrays, output, device, Planner.kernel) or Plan(())

    def plan_again(
        self, shape: tuple[int, ...], axes: tuple[int, ...], arrays: Sequence[Operand], output: Operand, device: Device
    ) -> Plan | None:
        """Return what `plan` does if its kernels have been made for other sizes, so that it takes arithmetic alone."""
        return None if 0 in shape else self._planned(shape, axes, arrays, output, device, Planner.known_kernel)

    def _planned(
        self,
        shape: tuple[int, ...],
        axes: tuple[int, ...],
        arrays: Sequence[Operand],
        output: Operand,
        device: Device,
        kernel_of: Callable[[Reduction, Any, Any], Kernel | None],
    ) -> Plan | None:
        kept_shape = without(shape, axes)
        passes = self.passes(shape, axes, arrays, output, device)
        first = passes[0]
        nbytes = touched_nbytes(shape, arrays)
        kernel = kernel_of(self, first.family, first.spec)
        if kernel is None:
            return None
        written = touched_nbytes(kept_shape, (output,))
        if len(passes) == 1:
            work = Work(0, nbytes + written)
            if not first.spec.joins:
                return Plan((Launch(kernel, first.grid, (OUT, *self.taken), first.constants, work),), 0)
            arguments = (OUT, SCRATCH, FLAGS, *self.taken)
            return Plan((Launch(kernel, first.grid, arguments, first.constants, work),), self._scratch_nbytes(first))
        joining, second = self.joining, passes[1]
        scratch_nbytes = self._scratch_nbytes(first)
        works = Work(0, nbytes + scratch_nbytes), Work(0, scratch_nbytes + written)
        joined = kernel_of(joining, second.family, second.spec)
        if joined is None:
            return None
        return Plan(
            (
                Launch(kernel, first.grid, (OUT, SCRATCH, *self.taken), first.constants, works[0]),
                Launch(joined, second.grid, (OUT, SCRATCH, *joining.taken), second.constants, works[1]),
            ),
            scratch_nbytes,
        )

    def _scratch_nbytes(self, first: ReducePass) -> int:
        """Return the bytes of the partial results of a first pass."""
        return first.num_chunks * first.chunk_length * self.op.acc.nbytes

    def passes(
        self, shape: tuple[int, ...], axes: tuple[int, ...], arrays: Sequence[Operand], output: Operand, device: Device
    ) -> list[ReducePass]:
        """Return the passes of `plan`: those of `choose`, with the sizes that were measured to be best."""
        first, *rest = self.choose(shape, axes, arrays, output, device.num_sms)
        if touched_nbytes(shape, arrays) >= MIN_TUNED_NBYTES:
            spec = measured(first.spec, math.prod(without(shape, axes)), math.prod(shape), device)
            first = first._replace(spec=spec)
        return [first, *rest]

    def _fill(self, kept_shape: tuple[int, ...], output: Operand, device: Device) -> Plan:
        """The plan that stores the identity everywhere; inputs are parameters of the kernel and not used."""
        if self._filling is None:
            op, type_ = self.op, self.type

            def identity(k: Builder, *parameters: Value) -> Value:
                total = k.const(op.identity, op.acc)
                return k.cast(total if op.finish is None else op.finish(k, total, *parameters), type_)

            unused = [(u64 if spec is None else spec.type, False) for spec in self.inputs]
            instr = Instr(identity, type_, tuple(range(len(unused) - op.num_parameters, len(unused))))
            self._filling = Elementwise(unused, [instr], [(len(unused), type_)])
        return self._filling.plan(kept_shape, [output], device)


def plan(
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    inputs: Sequence[Operand | ScalarOperand],
    instrs: Sequence[Instr],
    value: int,
    op: ReduceOp,
    output: Operand,
    device: Device,
    *,
    mask: int | None = None,
    has_flags: bool = False,
) -> Plan:
    """Return the plan that reduces one value of a chain over some axes.

    Parameters
    ----------
    shape : tuple of int
        Of every input.
    axes : tuple of int
        Reduced dimensions, not negative.
    inputs, instrs : sequences
        As for `elementwise.plan`; the last inputs may be parameters of `op`.
    value : int
        Number of the value that is reduced.
    op : ReduceOp
    output : Operand
        Strides over the kept dimensions, in order. Must not overlap an input.
    device : Device
    mask : int or None
        Number of the value, a `pred`, that says which elements count.
    has_flags : bool
        See `Passes`.

    Returns
    -------
    Plan
        One launch, or two: the first stores partial results in the scratch buffer, the second reduces them.

    Notes
    -----
    Layout, sizes and `device.num_sms` fix the order of combination: the same call gives the same bits. Accumulators of
    compensated operators do not round, so the error is that of the trees within threads: about 20 roundings, whatever
    the size.
    """
    given = [(x.type, isinstance(x, Operand)) for x in inputs]
    reduction = Reduction(given, instrs, value, op, output.type, mask, has_flags=has_flags)
    return reduction.plan(shape, axes, [x for x in inputs if isinstance(x, Operand)], output, device)


def choose(
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    inputs: Sequence[Operand | ScalarOperand],
    instrs: Sequence[Instr],
    value: int,
    op: ReduceOp,
    output: Operand,
    device: Device,
    *,
    has_flags: bool = False,
) -> list[ReducePass]:
    """Return the one or two passes of a reduction of at least one element to at least one result."""
    given = [(x.type, isinstance(x, Operand)) for x in inputs]
    reduction = Reduction(given, instrs, value, op, output.type, has_flags=has_flags)
    return reduction.choose(shape, axes, [x for x in inputs if isinstance(x, Operand)], output, device.num_sms)
