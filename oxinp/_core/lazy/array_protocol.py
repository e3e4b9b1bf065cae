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
    originals: dict[int, Any] = {}
    made = np.array(accepted(value, originals), dtype, copy=copy, order=order)
    if made.dtype.char == "O" and type(value) in (list, tuple):
        elements = made.reshape(-1)  # a view of what is new; `flat` takes no more than 32 dimensions
        for i, element in enumerate(elements):
            elements[i] = originals.get(id(element), element)
    return made


def accepted(value: Any, originals: dict[int, Any] | None = None) -> Any:
    """Return a value with NumPy's arrays for what gives ours by an `__array__` method, in lists and tuples as well.

    Parameters
    ----------
    value : object
    originals : dict, optional
        What arrays stand for is entered here by their id; they live as long as what is returned.
    """
    if type(value) in (list, tuple):
        return type(value)([accepted(part, originals) for part in value])
    if not hasattr(type(value), "__array__") or isinstance(value, Handle | np.ndarray | np.generic):
        return value
    given = value.__array__()
    if not isinstance(given, Handle):
        return value
    array = fetch(given)
    if originals is not None:
        originals[id(array)] = value
    return array
