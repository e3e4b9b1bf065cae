"""The `__array__` protocol of classes that hold arrays of ours: NumPy refuses what is no array of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._core.lazy.handle import Handle, fetch

REFUSAL = "object __array__ method not producing an array"
"""What NumPy's ValueError says of an array of ours."""


def numpys(value: Any, dtype: Any = None, order: Any = None, *, copy: bool | None = None) -> np.ndarray[Any, Any]:
    """Return what `numpy.asarray` does, and an array of NumPy's where an `__array__` method gives one of ours, too."""
    try:
        return np.array(value, dtype, copy=copy, order=order)
    except ValueError as error:
        if str(error) != REFUSAL:
            raise
    return np.array(accepted(value), dtype, copy=copy, order=order)


def accepted(value: Any) -> Any:
    """Return a value with NumPy's arrays for what gives ours by an `__array__` method, in lists and tuples as well."""
    if type(value) in (list, tuple):
        return type(value)(map(accepted, value))
    if not hasattr(type(value), "__array__") or isinstance(value, Handle | np.ndarray | np.generic):
        return value
    given = value.__array__()
    return fetch(given) if isinstance(given, Handle) else value
