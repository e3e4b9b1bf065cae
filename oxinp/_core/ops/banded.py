"""Banded systems with many right-hand sides, of which the factors are known, and factors of many bands: operations."""

from __future__ import annotations

import importlib
import math
from typing import TYPE_CHECKING, Any

from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.ops.perform import perform_on_device
from oxinp._core.ops.stacks import raising
from oxinp._core.ops.triangular import copied

if TYPE_CHECKING:
    from oxinp._core.lazy.handle import Handle
    from oxinp._kernels.plan import Plan


def planner() -> Any:
    """Return the module that plans, imported for the first operation."""
    return importlib.import_module("oxinp._kernels.lapack.banded")


def _infer(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001 - the rows' one signature
    b = layouts[0]
    return (Layout.of(b.dtype, b.shape),)


def _plan(bound: BoundOp) -> Plan:
    b, lower, upper, *places = (graph.layout for graph in bound.graphs)
    (x,) = bound.layouts
    spec = planner().BandedSpec(DEVICE_TYPES[b.dtype], lower.shape[1] - 1, upper.shape[1] - 1, bool(places))
    plan: Plan = planner().plan(spec, *b.shape, copied(b, x))
    return plan


SOLVE_BANDED = Op("solve_banded", _plan, _infer, linear_in=(0,))


def is_possible(lower: int, upper: int) -> bool:
    """Whether there is a kernel for factors with so many elements beside their diagonals."""
    possible: bool = planner().is_possible(lower, upper)
    return possible


def solve(b: Handle, lower: Handle, upper: Handle, places: Handle | None = None) -> Any:
    """Return X of P^T L U X = B.

    Parameters
    ----------
    b : Handle
        (N, K).
    lower, upper : Handle
        (N, 1 + the number of elements beside the diagonal), of the dtype of `b`: of every column of L the diagonal and
        what is below it, of every row of U the diagonal and what is right of it.
    places : Handle, optional
        (N,), uint32: how far below each row the one is with which it changes places.
    """
    operands = (b, lower, upper) if places is None else (b, lower, upper, places)
    return perform_on_device(SOLVE_BANDED, operands)


def _factors() -> Any:
    return importlib.import_module("oxinp._kernels.lapack.banded_cholesky")


def _plan_cholesky(bound: BoundOp) -> Plan:
    (is_lower,), ab = bound.parameters, bound.graphs[0].layout
    *batch, rows, order = ab.shape
    spec = _factors().BandedCholeskySpec(DEVICE_TYPES[ab.dtype], rows - 1, is_lower)
    plan: Plan = _factors().plan(spec, math.prod(batch), order, copied(ab, bound.layouts[0]))
    return plan


CHOLESKY_BANDED = Op("cholesky_banded", _plan_cholesky, _infer, sized=raising("not positive definite"))


def cholesky(ab: Handle, *, is_lower: bool) -> Any:
    """Return Cholesky factors of many bands, see `scipy.linalg.cholesky_banded`.

    Parameters
    ----------
    ab : Handle
        (..., 1 + the number of elements beside the diagonal, N).
    is_lower : bool

    Raises
    ------
    LinAlgError
        A matrix is not positive definite.
    Unsupported
        The band is too wide for a thread's registers.
    """
    layout = ab._layout
    if not _factors().is_possible(DEVICE_TYPES[layout.dtype], layout.shape[-2] - 1):
        raise Unsupported("a band that is too wide for a thread's registers")
    return perform_on_device(CHOLESKY_BANDED, (ab,), (is_lower,))


__all__ = ["CHOLESKY_BANDED", "SOLVE_BANDED", "cholesky", "is_possible", "solve"]
