"""LU factorisations as an operation, and systems solved with the factors. Stacks go by leading axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp import _runtime
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.op import Op
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.ops.factorise import planner, prepared
from oxinp._core.ops.perform import perform_on_device
from oxinp._core.ops.stacks import plan_of, raising, sparing

if TYPE_CHECKING:
    from oxinp._core.lazy.handle import Handle


def _infer(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001 - the rows' one signature
    (a,) = layouts
    *batch, rows, columns = a.shape
    index = np.dtype("i4")
    return (
        Layout.of(a.dtype, a.shape),
        Layout.of(index, (*batch, min(rows, columns))),
        Layout.of(index, (*batch, rows)),
    )


LU = Op(
    "lu",
    infer=_infer,
    sized=raising("a pivot that is zero", Unsupported),
    takes_views=True,
    **sparing(plan_of("plan_lu")),
)


def lu(a: Handle) -> tuple[Any, Any, Any]:
    """Return factors, the rows that changed places, and the permutation, of which no pivot is zero.

    Parameters
    ----------
    a : Handle
        (..., M, N).

    Returns
    -------
    factors : ndarray, (..., M, N)
        U, and below its diagonal L without the ones on its own.
    pivots : ndarray, (..., min(M, N)), int32
        The row that changed places with each.
    permutation : ndarray, (..., M), int32
        The row of `a` that each row is.

    Raises
    ------
    Unsupported
        A pivot is zero, or there are more rows than kernels take.
    """
    (a,) = prepared(a, are_square=False)
    layout, backend = a._layout, _runtime.current()
    if backend is None or not planner().is_possible(DEVICE_TYPES[layout.dtype], layout.shape[-2], backend.capability):
        msg = f"matrices of {layout.shape[-2]} rows"
        raise Unsupported(msg)
    factors, pivots, permutation = perform_on_device(LU, (a,))
    return factors, pivots, permutation


__all__ = ["LU", "lu"]
