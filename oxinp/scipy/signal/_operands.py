"""Operands of `scipy.signal`'s functions: which arrays they take, and their transforms."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from oxinp._api.fronts import as_ours
from oxinp._core.host.exchange import is_array
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.ops import creation
from oxinp.fft._transforms import apply, request_along

CODES = "?bBhHiIlLqQefdFD"  # of dtypes that the device reads


def operand(value: Any) -> Any:
    """Return an array_like as an array of ours that transforms read, and that has elements.

    Raises
    ------
    Unsupported
        SciPy treats it in a way of its own.
    """
    if isinstance(value, np.ndarray) and type(value) is not np.ndarray and not is_array(value):
        raise Unsupported("a subclass to pass through")
    array = as_ours(value)
    if array.dtype.char not in CODES or not array.ndim or not array.size:
        raise Unsupported("no elements, no dimensions, or a dtype that has no kernels")
    return array


def axis_of(axis: Any, ndim: int) -> int:
    """Return an axis, counted from the first.

    Raises
    ------
    Unsupported
        It is none of the array's.
    """
    try:
        found = operator.index(axis)
    except TypeError:
        found = ndim
    if not -ndim <= found < ndim:
        raise Unsupported("an axis that the array has not")
    return found % ndim


def transformed(name: str, x: Any, n: int | None = None, axis: int = -1) -> Any:
    """Return a transform along an axis, by the name of SciPy's function."""
    return apply(x, request_along("scipy", name, n, axis, None))


def table(values: Any, dtype: np.dtype[Any]) -> Any:
    """Return a table of numbers as an array of ours, in the precision of a dtype."""
    values = np.asarray(values)
    wide = np.complex64 if values.dtype.kind == "c" else np.float32
    return creation.asarray(values.astype(np.result_type(dtype, wide)))


__all__ = ["CODES", "axis_of", "operand", "table", "transformed"]
