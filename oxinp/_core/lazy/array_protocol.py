"""The `__array__` protocol of classes that hold arrays of ours: NumPy refuses what is no array of its own."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from oxinp._core.lazy.handle import Handle, fetch
from oxinp._core.lazy.results import types

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


class _StandIn:
    """What NumPy asks for `__array__` in place of an object of which the method gives an array of ours."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self.given: Any = None
        self.array = np.empty(0)

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray[Any, Any]:
        self.given = self._value.__array__(*args, **kwargs)
        if isinstance(self.given, Handle):
            self.array = np.empty(0, self.given._layout.dtype)
        return self.array


def given_by(value: Any, copy: bool | None) -> tuple[Any, bool]:
    """Return the array of ours that an object's `__array__` gives, and whether NumPy would copy it.

    NumPy asks for it a second time, passing what it ever does; it has warned the first. None where it gives something
    else.
    """
    stand_in = _StandIn(value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        made = np.array(stand_in, copy=copy)
    return (stand_in.given if isinstance(stand_in.given, Handle) else None), made is not stand_in.array


class _Wrapping:
    """What NumPy's functions take in place of an object that gives an array of ours and wraps results itself."""

    def __init__(self, value: Any, array: np.ndarray[Any, Any]) -> None:
        self.value = value
        self.array = array
        self.__array_priority__ = getattr(value, "__array_priority__", 0.0)

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray[Any, Any]:
        return np.array(self.array, *args, **kwargs)

    def __array_wrap__(self, array: np.ndarray[Any, Any], *args: Any) -> Any:
        # Of three arguments NumPy leaves out the last two where a method does not take them.
        if args and args[0] is not None:
            ufunc, inputs, *place = args[0]
            given = tuple(value.value if type(value) is _Wrapping else value for value in inputs)
            args = ((types.find(ufunc) or ufunc, given, *place), *args[1:])
        return self.value.__array_wrap__(types.from_host(array), *args)


def accepted_as_argument(value: Any) -> Any:
    """Return what `accepted` does, but for what wraps the results of functions an object that has it do so."""
    found = accepted(value)
    if found is value or type(value) in (list, tuple) or not hasattr(type(value), "__array_wrap__"):
        return found
    return _Wrapping(value, found)


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
