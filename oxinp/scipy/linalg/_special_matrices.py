"""Matrices of `scipy.linalg` that an order alone tells: large ones are made on the device."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from oxinp._api.fronts import as_ours, implements
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp.scipy.linalg._functions import hankel


def _order(n: Any) -> int:
    """Return an order, at least 1."""
    try:
        order = operator.index(n)
    except TypeError:
        raise Unsupported("what SciPy refuses, or rounds") from None
    if order < 1:
        raise Unsupported("what SciPy refuses, or what has no elements")
    return order


@implements("scipy.linalg.hilbert", is_hosted=False)
def hilbert(n: Any) -> Any:
    """See `scipy.linalg.hilbert`."""
    order = _order(n)
    values = as_ours(1.0 / np.arange(1, 2 * order))
    return hankel(values[:order], values[order - 1 :])


@implements("scipy.linalg.hadamard", is_hosted=False)
def hadamard(n: Any, dtype: Any = int) -> Any:
    """See `scipy.linalg.hadamard`: the sign of an element is the parity of the bits that row and column share."""
    order, kind = _order(n), np.dtype(dtype)
    if order & (order - 1) or kind not in DEVICE_TYPES or kind.kind not in "ifc":
        raise Unsupported("what SciPy refuses, or dtypes without signs or kernels")
    number = as_ours(np.arange(order))
    shared = np.bitwise_count(number[:, None] & number) & 1
    return 1 - 2 * shared.astype(kind) if kind.kind != "i" else (1 - 2 * shared.astype("i8")).astype(kind, copy=False)


@implements("scipy.linalg.helmert", is_hosted=False)
def helmert(n: Any, full: bool = False) -> Any:
    """See `scipy.linalg.helmert`."""
    order = _order(n)
    number = np.arange(order)
    size = number * np.arange(1, order + 1)
    size[0] = order
    row = as_ours(number)[:, None]
    column, diagonal = as_ours(number), as_ours(-number.astype("d"))
    above = np.where((column < row) | (row == 0), 1.0, np.where(column == row, diagonal, 0.0))
    made = above / as_ours(np.sqrt(size))[:, None]
    return made if full else made[1:]


__all__ = ["hadamard", "helmert", "hilbert"]
