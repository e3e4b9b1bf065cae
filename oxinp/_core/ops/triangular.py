"""Triangular systems as an operation."""

from __future__ import annotations

import importlib
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from oxinp._core.lazy.handle import Handle
from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.lazy.placement import device
from oxinp._core.lazy.views import view
from oxinp._core.manipulation.copy import astype, copy
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.ops.perform import perform_on_device
from oxinp._kernels.plan import Argument, Plan, Read, Scratch

if TYPE_CHECKING:
    from oxinp._kernels.gemm.operand import Matrices

_FAMILY = "oxinp._kernels.lapack."


class Triangle(NamedTuple):
    """Which system: ``op(A) X = B``.

    Attributes
    ----------
    trans : int
        What op is: 0 for A itself, 1 for its transpose, 2 for its conjugate transpose.
    is_lower : bool
        Which triangle of A counts.
    has_unit_diagonal : bool
    """

    trans: int = 0
    is_lower: bool = False
    has_unit_diagonal: bool = False


def _infer(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001 - the rows' one signature
    a, b = layouts
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError("expected square matrix")
    if b.ndim < 2 or a.shape[-1] != b.shape[-2]:
        msg = f"shapes of a {a.shape[-2:]} and b {b.shape[-2:]} are incompatible"
        raise ValueError(msg)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return (Layout.of(b.dtype, (*batch, *b.shape[-2:])),)


def _matrices(layout: Layout) -> tuple[Matrices, int]:
    """Return matrices, and elements from one to the next: 0 where there is one for all."""
    type_ = DEVICE_TYPES[layout.dtype]
    matrices = importlib.import_module("oxinp._kernels.gemm.operand").Matrices(
        type_, layout.element_strides[-2:], layout.alignment
    )
    is_one = math.prod(layout.shape[:-2]) == 1
    return matrices, 0 if is_one else layout.shape[-1] * layout.shape[-2]


def _plan(bound: BoundOp) -> Plan:
    """Copy B to where X is to be, and solve there; before, ask for zeros on the diagonal."""
    a, b = (graph.layout for graph in bound.graphs)
    (triangle,), (x,) = bound.parameters, bound.layouts
    matrices, move = _matrices(a)
    order, count = a.shape[-1], math.prod(a.shape[:-2])
    solved = Plan((*copied(b, x).on(in0=Argument("in1")), *_solved(matrices, move, triangle, x).steps))
    if triangle.has_unit_diagonal:
        return solved
    diagonal = importlib.import_module(_FAMILY + "diagonal")
    scratch = Scratch()
    status = scratch.take(diagonal.STATUS_NBYTES)
    steps = (*diagonal.plan(matrices, order, count, move).on(out0=status), Read(status))
    return Plan(steps, scratch.nbytes, then=lambda words: solved)  # noqa: ARG005 - `_sized` has raised


def copied(source: Layout, target: Layout) -> Plan:
    """The launch that copies, and broadcasts, to C order."""
    problem = importlib.import_module("oxinp._kernels.problem")
    type_, wide = DEVICE_TYPES[source.dtype], source.broadcast(target.shape)
    plan: Plan = importlib.import_module("oxinp._kernels.elementwise.plan").plan(
        target.shape,
        (problem.Operand(type_, wide.element_strides, wide.alignment),),
        (),
        (problem.Output(0, problem.Operand(type_, target.element_strides)),),
        device().capability,
    )
    return plan


def _solved(matrices: Matrices, move: int, triangle: Triangle, x: Layout) -> Plan:
    """The launches that solve in place."""
    blas3 = importlib.import_module("oxinp._kernels.blas3.plan")
    panel = importlib.import_module("oxinp._kernels.gemm.operand")
    form = panel.Form(panel.TRIANGULAR, triangle.is_lower, triangle.has_unit_diagonal)
    if triangle.trans:
        matrices, form = blas3.transposed(matrices, form, is_conjugated=triangle.trans == 2)
    *batch, rows, columns = x.shape
    system = blas3.TriangularSystem(
        (rows, columns), matrices, form, True, columns, x.alignment, math.prod(batch), move, rows * columns
    )
    plan: Plan = blas3.plan_solve(system, device().capability)
    return plan


def _sized(bound: BoundOp, words: tuple[int, ...]) -> tuple[Layout, ...]:
    (number,) = words
    if number >= 0:
        msg = f"singular matrix: resolution failed at diagonal {number % bound.graphs[0].layout.shape[-1]}"
        raise LinAlgError(msg)
    return bound.layouts


SOLVE_TRIANGULAR = Op("solve_triangular", _plan, _infer, sized=_sized, takes_views=True, linear_in=(1,))
SOLVE_UNIT_TRIANGULAR = SOLVE_TRIANGULAR.replace(sized=None)


def solve_triangular(a: Handle, b: Handle, triangle: Triangle) -> Any:
    """Return X of ``op(A) X = B`` for triangular matrices; stacks are broadcast.

    Parameters
    ----------
    a, b : Handle
        (..., M, M) and (..., M, N), or b (M,).
    triangle : Triangle

    Raises
    ------
    LinAlgError
        There is a zero on the diagonal.
    ValueError
        Shapes do not go together.
    """
    is_vector = b._layout.ndim == 1
    if is_vector:
        b = view(b, lambda seen: seen[:, None])
    dtype = result_dtype(a, b)
    a, b = (astype(x, dtype, copy_wanted=False) for x in (a, b))
    (x,) = _infer((a._layout, b._layout), (triangle,))
    if not x.size:
        return _shaped(perform_on_device(EMPTY, (b,), (x.shape,)), is_vector=is_vector)
    batch = x.shape[:-2]
    if math.prod(a._layout.shape[:-2]) not in (1, math.prod(batch)):
        a = view(a, lambda seen: np.broadcast_to(seen, (*batch, *seen.shape[-2:])))
    if not _is_readable(a._layout):
        a = copy(a)
    op = SOLVE_UNIT_TRIANGULAR if triangle.has_unit_diagonal else SOLVE_TRIANGULAR
    return _shaped(perform_on_device(op, (a, b), (triangle,)), is_vector=is_vector)


EMPTY = Op(
    "empty",
    lambda _: Plan(()),
    lambda layouts, parameters: (Layout.of(layouts[0].dtype, parameters[0]),),
    takes_views=True,
)


def _shaped(x: Any, *, is_vector: bool) -> Any:
    """Return a matrix of one column as a vector, where one was given."""
    if not is_vector:
        return x
    made = view(x, lambda seen: seen[..., 0])
    made._view = (None, True)
    return made


def _is_readable(layout: Layout) -> bool:
    """Whether kernels read matrices that lie like this: dense along one axis, one distance from one to the next."""
    *batch, rows, columns = layout.element_strides
    is_dense = (rows, columns) in ((layout.shape[-1], 1), (1, layout.shape[-1]))
    if math.prod(layout.shape[:-2]) == 1:
        return layout.is_aligned and 1 in (rows, columns)
    size = layout.shape[-1] * layout.shape[-2]
    along = [size * math.prod(layout.shape[i + 1 : -2]) for i in range(len(batch))]
    return layout.is_aligned and is_dense and batch == along


def result_dtype(*arrays: Handle) -> np.dtype[Any]:
    """Return the dtype that SciPy solves in: single precision where all operands fit in there, else double."""
    dtypes = [x._layout.dtype for x in arrays]
    is_complex = any(dtype.kind == "c" for dtype in dtypes)
    is_single = all(dtype.char in SINGLE for dtype in dtypes)
    return np.dtype("dfDF"[2 * is_complex + is_single])


SINGLE = "?bBhHefF"
"""dtypes of which SciPy's LAPACK computes in single precision."""

__all__ = ["SOLVE_TRIANGULAR", "SOLVE_UNIT_TRIANGULAR", "Triangle", "copied", "result_dtype", "solve_triangular"]
