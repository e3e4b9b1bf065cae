"""Factorisations as operations: systems, inverses, Cholesky factors, determinants. Stacks go by leading axes.

Whether a matrix is singular, or not positive definite, is asked of the device: one word. Where memory is short, stacks
are worked on in parts.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.linalg import LinAlgError

from oxinp import _runtime
from oxinp._core.host.fallback import placed_on_host
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import Handle
from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.lazy.views import view
from oxinp._core.manipulation.copy import astype, copy
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.ops.crossover import HOST_WEIGHT, cost_of
from oxinp._core.ops.perform import is_placed_on_host, perform, perform_on_device
from oxinp._core.ops.stacks import alone, operand, plan_of, planned, planner, raising, sparing
from oxinp._core.ufunc.objects import UFUNC_OBJECTS

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._kernels.plan import Plan
    from oxinp._kernels.problem import Operand


def _same(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001 - the rows' one signature
    return (Layout.of(layouts[0].dtype, layouts[0].shape),)


def _infer_solve(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001
    a, b = layouts
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return (Layout.of(a.dtype, (*batch, *b.shape[-2:])),)


def _plan_solve(bound: BoundOp, *, is_short: bool) -> Plan:
    a, b = (graph.layout for graph in bound.graphs)
    *batch, order, columns = bound.layouts[0].shape
    given = operand(a, (*batch, order, order)), operand(b, (*batch, order, columns))
    function = planner().plan_solve

    def made(device: Device, batch: tuple[int, ...], a: Operand, b: Operand) -> Plan:
        plan: Plan = function((*batch, order, columns), a, b, device)
        return plan

    return planned(bound, tuple(batch), given, made, is_short=is_short)


def _infer_slogdet(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001
    (a,) = layouts
    real = np.dtype(a.dtype.char.lower())
    return Layout.of(a.dtype, a.shape[:-2]), Layout.of(real, a.shape[:-2])


SINGULAR = "Singular matrix"
_SHARED: dict[str, Any] = {"host_weight": HOST_WEIGHT, "takes_views": True}
CHOLESKY = Op(
    "cholesky",
    infer=_same,
    host=np.linalg.cholesky,
    cost=cost_of("cholesky"),
    sized=raising("Matrix is not positive definite"),
    **sparing(plan_of("plan_cholesky")),
    **_SHARED,
)
INV = Op(
    "inv",
    infer=_same,
    host=np.linalg.inv,
    cost=cost_of("inv"),
    sized=raising(SINGULAR),
    **sparing(plan_of("plan_invert")),
    **_SHARED,
)
SOLVE = Op(
    "solve",
    infer=_infer_solve,
    host=np.linalg.solve,
    cost=cost_of("solve"),
    sized=raising(SINGULAR),
    linear_in=(1,),
    **sparing(_plan_solve),
    **_SHARED,
)
SLOGDET = Op(
    "slogdet",
    infer=_infer_slogdet,
    host=lambda a: tuple(np.asarray(part) for part in np.linalg.slogdet(a)),
    cost=cost_of("slogdet"),
    **sparing(plan_of("plan_slogdet")),
    **_SHARED,
)


def _infer_qr(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:
    (a,), (mode,) = layouts, parameters
    *batch, rows, columns = a.shape
    depth = min(rows, columns)
    height = rows if mode == "complete" else depth
    shapes: dict[str, list[tuple[int, ...]]] = {"r": [(depth, columns)], "raw": [(rows, columns), (depth,)]}
    found = shapes.get(mode, [(rows, height), (height, columns)])
    return tuple(Layout.of(a.dtype, (*batch, *shape)) for shape in found)


def _host_qr(a: np.ndarray[Any, Any], mode: Any) -> Any:
    if mode == "r":
        return np.linalg.qr(a, mode)
    first, second = np.linalg.qr(a, mode)
    return (np.ascontiguousarray(first.swapaxes(-1, -2)) if mode == "raw" else first), second


QR = Op("qr", infer=_infer_qr, host=_host_qr, cost=cost_of("qr"), **sparing(plan_of("plan_qr")), **_SHARED)


_LAPACKS = {char: np.dtype(char) for char in "fdFD"}


def prepared(*arrays: Handle, are_square: bool = True) -> tuple[Handle, ...]:
    """Return arrays in the dtype that NumPy's result has; the first one has to be matrices, square unless told.

    Raises
    ------
    LinAlgError, TypeError
        As NumPy, of shapes and dtypes.
    Unsupported
        There are no elements.
    """
    layouts = [x._known or x._layout for x in arrays]
    a = layouts[0]
    if a.ndim < 2:
        msg = f"{a.ndim}-dimensional array given. Array must be at least two-dimensional"
        raise LinAlgError(msg)
    if are_square and a.shape[-1] != a.shape[-2]:
        msg = "Last 2 dimensions of the array must be square"
        raise LinAlgError(msg)
    dtype = a.dtype
    for layout in layouts:
        if not (layout.dtype is dtype is _LAPACKS.get(dtype.char) and layout.size and layout.is_aligned):
            break
    else:  # which nearly always are as they have to be
        return arrays
    dtype = result_dtype(*arrays)
    if not all(layout.size for layout in layouts):
        msg = "matrices without elements"
        raise Unsupported(msg)
    return tuple(_aligned(astype(x, dtype, copy_wanted=False)) for x in arrays)


def result_dtype(*arrays: Handle) -> np.dtype[Any]:
    """Return the dtype of NumPy's results: single precision where all operands are of it, else double."""
    chars = [x._layout.dtype.char for x in arrays]
    kinds = [x._layout.dtype.kind for x in arrays]
    for char, kind, x in zip(chars, kinds, arrays, strict=True):
        if kind in "fc" and char not in "fdFD":
            msg = f"array type {x._layout.dtype.name} is unsupported in linalg"
            raise TypeError(msg)
        if kind not in "fciub":
            msg = f"dtype {x._layout.dtype}"
            raise Unsupported(msg)
    is_single = all(char in "fF" for char in chars)
    return np.dtype("dfDF"[2 * ("c" in kinds) + is_single])


def _aligned(array: Handle) -> Handle:
    return array if array._layout.is_aligned else copy(array)


def _is_possible(a: Handle) -> bool:
    """Whether there are kernels for matrices of as many rows; NumPy computes where there is no device."""
    layout, backend = a._layout, _runtime.current()
    if backend is None:
        return True
    possible: bool = planner().is_possible(DEVICE_TYPES[layout.dtype], layout.shape[-2], backend.capability)
    return possible


def possible(a: Handle) -> None:
    """Raise `Unsupported` for matrices of more rows than there are kernels for."""
    if not _is_possible(a):
        msg = f"matrices of {a._layout.shape[-2]} rows"
        raise Unsupported(msg)


def cholesky(a: Handle, *, upper: bool = False) -> Any:
    """Return Cholesky factors; see `numpy.linalg.cholesky`."""
    (a,) = prepared(a)
    if not upper:
        return perform(CHOLESKY, (a,))
    if is_placed_on_host(CHOLESKY, (a,)):
        return placed_on_host(np.linalg.cholesky, (a,), {"upper": True})
    turned = view(a, lambda seen: seen.swapaxes(-1, -2))
    lower = perform(CHOLESKY, (conjugate(turned),))
    return copy(conjugate(view(lower, lambda seen: seen.swapaxes(-1, -2))))


def conjugate(a: Handle) -> Any:
    """Return the conjugate of complex arrays, others as they are."""
    return UFUNC_OBJECTS["conjugate"](a) if a._layout.dtype.kind == "c" else a


def inv(a: Handle) -> Any:
    """Return inverses; see `numpy.linalg.inv`."""
    (a,) = prepared(a)
    possible(a)
    return perform(INV, (a,))


def solve(a: Handle, b: Handle) -> Any:
    """Return X of A X = B; see `numpy.linalg.solve`."""
    is_vector = b._layout.ndim == 1
    if is_vector:
        b = view(b, lambda seen: seen[:, None])
    a, b = prepared(a, b)
    if b._layout.shape[-2] != a._layout.shape[-1]:
        msg = "shapes that do not go together, of which NumPy says how"
        raise Unsupported(msg)
    possible(a)
    x = perform(SOLVE, (a, b))
    if not is_vector:
        return x
    made = view(x, lambda seen: seen[..., 0])
    made._view = (None, True)
    return made


def slogdet(a: Handle) -> tuple[Any, Any]:
    """Return signs of determinants and logarithms of their magnitudes; see `numpy.linalg.slogdet`."""
    (a,) = prepared(a)
    possible(a)
    sign, logarithm = perform(SLOGDET, (a,))
    return (sign, logarithm) if sign.ndim else (sign[()], logarithm[()])


def det(a: Handle) -> Any:
    """Return determinants; see `numpy.linalg.det`."""
    (a,) = prepared(a)
    if is_placed_on_host(SLOGDET, (a,)):
        return placed_on_host(np.linalg.det, (a,), {})
    sign, logarithm = slogdet(a)
    return sign * UFUNC_OBJECTS["exp"](logarithm)  # which may have been fetched


def qr(a: Handle, mode: str) -> Any:
    """Return QR factorisations; see `numpy.linalg.qr`, but for modes that are deprecated."""
    (a,) = prepared(a, are_square=False)
    if mode in ("reduced", "r") and not _is_possible(a):
        return importlib.import_module("oxinp._core.ops.tall").qr(a, mode)
    possible(a)
    result = perform(QR, (a,), (mode,))
    if mode != "raw":
        return result
    turned = view(result[0], lambda seen: seen.swapaxes(-1, -2))
    turned._view = (None, True)
    return turned, result[1]


def _infer_pivoted(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:
    (a,), (mode,) = layouts, parameters
    made = Layout.of(a.dtype, a.shape) if mode == "r" else None
    return (Layout.of(np.dtype("i4"), a.shape[1:]), *((made,) if made else _infer_qr(layouts, parameters)))


def _pivoting() -> Any:
    return importlib.import_module("oxinp._kernels.lapack.pivoted")


def _plan_pivoted(bound: BoundOp, device: Device) -> Plan:
    (mode,), layout = bound.parameters, bound.graphs[0].layout
    plan: Plan = _pivoting().plan(layout.shape, operand(layout), device, mode)
    return plan


PIVOTED_QR = Op("qr", infer=_infer_pivoted, takes_views=True, **sparing(alone(_plan_pivoted)))


def pivoted_qr(a: Handle, mode: str) -> tuple[Any, ...]:
    """Return which columns of a matrix come first to last, and the factors that a mode names, of these columns.

    Parameters
    ----------
    a : Handle
        (M, N).
    mode : str
        As of `qr`, but that R alone has as many rows as the matrix, and reflectors lie as in it.

    Returns
    -------
    columns : ndarray, (N,), int32
    ...
        See `qr`.

    Raises
    ------
    Unsupported
        There are no kernels.
    """
    (a,) = prepared(a, are_square=False)
    layout, backend = a._layout, _runtime.current()
    if backend is None or layout.ndim != 2:
        raise Unsupported("stacks, or no device")
    if not _pivoting().is_possible(DEVICE_TYPES[layout.dtype], layout.shape, backend.capability):
        msg = f"matrices of {layout.shape[-2]} rows"
        raise Unsupported(msg)
    return tuple(perform_on_device(PIVOTED_QR, (a,), (mode,)))


__all__ = [
    "CHOLESKY",
    "INV",
    "QR",
    "SLOGDET",
    "SOLVE",
    "cholesky",
    "conjugate",
    "det",
    "inv",
    "operand",
    "pivoted_qr",
    "planner",
    "possible",
    "prepared",
    "qr",
    "slogdet",
    "solve",
]
