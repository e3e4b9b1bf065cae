"""General matrices from triangular, symmetric and Hermitian ones, by an elementwise kernel."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from oxinp._kernels.elementwise import plan as elementwise
from oxinp._kernels.elementwise.access import contiguous_strides
from oxinp._kernels.gemm.operand import HERMITIAN, TRIANGULAR, Form
from oxinp._kernels.plan import Argument, Plan
from oxinp._kernels.problem import Instr, Operand, Output, ScalarOperand
from oxinp._ptx.types import i64

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._kernels.gemm.operand import Matrices
    from oxinp._ptx import Builder
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value


def _num_inputs(form: Form) -> int:
    """How often the kernel takes the stored matrix: as it lies, and transposed."""
    return 2 if form.is_mirrored else 1


def plan(shape: tuple[int, ...], matrices: Matrices, form: Form, device: Device) -> Plan:
    """Return the plan that stores general matrices in C order; the input is the stored matrix.

    Parameters
    ----------
    shape : tuple of int
        The batch, and the order twice.
    matrices : Matrices
        The stored matrices.
    form : Form
        Their form.
    device : Device
    """
    type_, (*batch, row, column) = matrices.type, matrices.strides
    ways = [(*batch, row, column), (*batch, column, row)][: _num_inputs(form)]
    inputs: list[Operand | ScalarOperand] = [Operand(type_, strides, matrices.alignment) for strides in ways]
    inputs.append(ScalarOperand(i64))
    output = Output(len(inputs), Operand(type_, contiguous_strides(shape)))
    launch = elementwise.plan(shape, inputs, (_completed(form, type_),), [output], device).launch
    launch = launch.on({"in1": Argument("in0")})
    # The order, which is the last input, is a constant here.
    arguments, constants = launch.arguments[:-1], (shape[-1], *launch.constants)
    return Plan((launch._replace(arguments=arguments, constants=constants),))


@cache
def _completed(form: Form, type: Type) -> Instr:
    """The instruction that computes an element from the stored one, its mirror image if there is one, and the order."""

    def lower(k: Builder, index: Value, element: Value, *others: Value) -> Value:
        *images, order = others
        line = index / order
        column = index - line * order
        row = line - line / order * order
        is_stored = row >= column if form.is_lower else row <= column
        if form.kind == TRIANGULAR:
            value = _chosen(k, is_stored, element, k.const(0, type))
            if form.has_unit_diagonal:
                value = _chosen(k, row == column, k.const(1, type), value)
        elif form.kind == HERMITIAN and type.is_complex:
            value = _chosen(k, is_stored, element, _conjugate(k, images[0]))
            real, imag = value.parts
            value = k.compound(type, real, k.where(row == column, 0.0, imag))
        else:
            value = _chosen(k, is_stored, element, images[0]) if images else element
        return _conjugate(k, value) if form.is_conjugated and type.is_complex else value

    lowering: Any = lower
    lowering.wants_index = True
    return Instr(lower, type, tuple(range(_num_inputs(form) + 1)))


def _chosen(k: Builder, predicate: Value, a: Value, b: Value) -> Value:
    if not a.type.is_complex:
        chosen: Value = k.where(predicate, a, b)
        return chosen
    parts = [k.where(predicate, x, y) for x, y in zip(a.parts, b.parts, strict=True)]
    return k.compound(a.type, *parts)


def _conjugate(k: Builder, value: Value) -> Value:
    real, imag = value.parts
    return k.compound(value.type, real, -imag)


__all__ = ["plan"]
