"""Triangles of matrices: the elements on one side of a diagonal, and zeros beyond it."""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._core.lazy.expr import Loop, Operation, Unsupported
from oxinp._core.lazy.handle import Handle
from oxinp._core.lazy.record import apply
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import is_in_order
from oxinp._core.ops.numbers import INT32, MAX_COUNT, numbers


def _loop(kinds: tuple[Any, ...]) -> Loop:
    return Loop((INT32, INT32, kinds[2], kinds[2]), kinds[2], _lower)


def _lower(k: Any, row: Any, column: Any, x: Any, zero: Any) -> Any:
    return k.where(row >= column, x, zero)


def _upper(k: Any, row: Any, column: Any, x: Any, zero: Any) -> Any:
    return k.where(row >= column, zero, x)


LOWER = Operation("tril", _loop)
UPPER = Operation("triu", lambda kinds: _loop(kinds)._replace(lower=_upper))


def triangle(array: Handle, k: int, *, is_upper: bool) -> Any:
    """Return the elements on and beyond a diagonal, zeros elsewhere; see `numpy.triu` and `numpy.tril`.

    None for what is left to NumPy's code.

    Parameters
    ----------
    array : Handle, (..., M, N)
        Its axes in C order, so that those of the result are.
    k : int
    """
    layout = array._known or array._layout
    if layout.ndim < 2 or layout.dtype not in DEVICE_TYPES or layout.dtype.kind in "mM":
        return None
    if not (layout.is_contiguous or is_in_order(layout)):
        return None
    m, n = layout.shape[-2:]
    if not 0 < max(m, n) <= MAX_COUNT:
        return None
    first = min(max(k - is_upper, -m), n)  # the mask of what is above is that of what is below the diagonal before
    operands = numbers(0, m, are_rows=True), numbers(-first, n - first), array, layout.dtype.type(0)
    try:
        return apply(
            UPPER if is_upper else LOWER, _numpys_upper if is_upper else _numpys_lower, operands, as_array=True
        )
    except Unsupported:
        return None


def _numpys_lower(rows: Any, columns: Any, x: Any, zero: Any) -> Any:
    return np.where(rows >= columns, x, zero)


def _numpys_upper(rows: Any, columns: Any, x: Any, zero: Any) -> Any:
    return np.where(rows >= columns, zero, x)


__all__ = ["triangle"]
