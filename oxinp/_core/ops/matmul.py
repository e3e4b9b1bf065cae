"""Products of vectors, and of matrices with vectors: one fused reduction each. Matrix by matrix has no kernel yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oxinp._core.dtypes import DEVICE_TYPES
from oxinp._core.expr import Unsupported
from oxinp._core.handle import Handle
from oxinp._core.ops.copy import astype
from oxinp._core.ops.reduce import SUM, reduce
from oxinp._core.ops.views import view

_HALF = np.dtype(np.float16)


def matmul(a: Handle, b: Handle) -> Any:
    """Return ``a @ b``, of which one is a vector or a matrix of one row or column.

    Raises
    ------
    ValueError, TypeError
        As NumPy.
    Unsupported
        Where it takes a product of matrices.
    """
    first, second = a._layout.shape, b._layout.shape
    check(np.matmul, a, b, 1, 1, -1, -min(2, len(second)))
    if len(second) == 1:
        return contract(a, b, -1)
    if len(first) == 1:
        return contract(_at(a, (..., slice(None), None)), b, -2)
    if second[-1] == 1:
        return _at(contract(a, _at(b, (..., None, slice(None), 0)), -1), (..., None))
    if first[-2] == 1:
        return _at(contract(_at(a, (..., 0, slice(None), None)), b, -2), (..., None, slice(None)))
    if first[-1] == 1:
        return _product(a, b)
    raise Unsupported("matrix by matrix has no kernel yet")


def vecdot(a: Handle, b: Handle) -> Any:
    """Return the products of vectors along the last axis, the first one's conjugate if it is complex."""
    check(np.vecdot, a, b, 1, 1, -1, -1)
    return contract(_conjugate(a), b, -1)


def matvec(a: Handle, b: Handle) -> Any:
    """Return matrices in the last two axes times vectors in the last one."""
    check(np.matvec, a, b, 2, 1, -1, -1)
    return contract(a, _at(b, (..., None, slice(None))), -1)


def vecmat(a: Handle, b: Handle) -> Any:
    """Return vectors in the last axis, conjugated if they are complex, times matrices in the last two."""
    check(np.vecmat, a, b, 1, 2, -1, -2)
    return contract(_at(_conjugate(a), (..., slice(None), None)), b, -2)


def contract(a: Handle, b: Handle, axis: int) -> Any:
    """Return the sum of ``a * b``, broadcast, over an axis; half-precision sums are rounded once."""
    is_half = a._layout.dtype == b._layout.dtype == _HALF
    if is_half:
        a, b = astype(a, np.float32), astype(b, np.float32)
    product = _product(a, b)
    total = reduce(SUM, product, axis, product._layout.dtype)
    return astype(total, _HALF)[()] if is_half else total


def _product(a: Handle, b: Handle) -> Any:
    dtype = np.result_type(a._layout.dtype, b._layout.dtype)
    if dtype not in DEVICE_TYPES:
        raise Unsupported(f"dtype {dtype} has no kernels")
    return a * b  # type: ignore[operator] # every handle has the operators


def _at(array: Handle, key: Any) -> Any:
    return view(array, lambda seen: seen[key])


def _conjugate(a: Handle) -> Any:
    if a._layout.dtype.kind == "c":
        raise Unsupported("conjugates have no kernel yet")
    return a


def check(numpys: Callable[..., Any], a: Handle, b: Handle, first: int, second: int, axis: int, other: int) -> None:
    """Let NumPy raise where an operand has fewer dimensions than it needs, or the axes summed over differ in length."""
    shapes = a._layout.shape, b._layout.shape
    if len(shapes[0]) < first or len(shapes[1]) < second or shapes[0][axis] != shapes[1][other]:
        numpys(*[np.broadcast_to(np.empty((), x._layout.dtype), x._layout.shape) for x in (a, b)])
