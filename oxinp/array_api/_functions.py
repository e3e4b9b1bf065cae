"""The functions of the namespace: those of `oxinp` with arrays for scalars, and what the standard has otherwise."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from oxinp._core.array import dispatch
from oxinp._core.lazy.handle import Handle
from oxinp._core.ufunc.object import ufunc
from oxinp.array_api._zero_dimensional import as_arrays, as_plain

_numpys = dispatch.functions


def find(source: str, module: str, name: str) -> Any:
    """Return a name of the namespace's from that module of `oxinp` which has it.

    Raises
    ------
    AttributeError
        It has not.
    """
    if name in FUNCTIONS.get(source, ()):
        return FUNCTIONS[source][name]
    if name.startswith("__"):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(source), name)
    is_function = isinstance(value, ufunc) or (inspect.isroutine(value) and not isinstance(value, type))
    return giving_arrays(value, module, name) if is_function else value


def giving_arrays(function: Callable[..., Any], module: str, name: str) -> Callable[..., Any]:
    """Return a function of `oxinp` that takes and gives arrays without dimensions where that has scalars."""

    @functools.wraps(function)
    def front(*args: Any, **kwargs: Any) -> Any:
        return as_arrays(function(*map(as_plain, args), **{key: as_plain(value) for key, value in kwargs.items()}))

    front.__name__ = front.__qualname__ = name
    front.__module__ = module
    return front


def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """Return the indices that sort an array along an axis; equal elements stay in their order, if `stable`."""
    x = as_plain(x)
    if not descending:
        return as_arrays(_numpys[np.argsort](x, axis=axis, stable=stable))
    backwards = _numpys[np.argsort](_numpys[np.flip](x, axis), axis=axis, stable=stable)
    return as_arrays(_numpys[np.flip](x.shape[axis] - 1 - backwards, axis))


def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """Return the elements in order along an axis."""
    ordered = _numpys[np.sort](as_plain(x), axis=axis, stable=stable)
    return as_arrays(_numpys[np.flip](ordered, axis) if descending else ordered)


def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """Return the elements of an array between limits, in the array's dtype."""
    x = as_plain(x)
    limits = [_limit(x, min, is_lower=True), _limit(x, max, is_lower=False)]
    if all(limit is None for limit in limits):
        return as_arrays(x.copy())
    return as_arrays(_numpys[np.clip](x, *limits))


def _limit(x: Any, limit: Any, *, is_lower: bool) -> Any:
    """Return a limit in the dtype of what it limits; None where no element can be beyond it."""
    if isinstance(limit, Handle):
        return as_plain(limit).astype(x.dtype, copy=False)
    if type(limit) is int and x.dtype.kind in "iu":
        range_of = np.iinfo(x.dtype)
        if limit <= range_of.min if is_lower else limit >= range_of.max:
            return None
    return limit


def diff(x: Any, /, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Return the n-th differences along an axis."""
    ends = {"prepend": prepend, "append": append}
    given = {name: as_plain(value) for name, value in ends.items() if value is not None}
    return as_arrays(_numpys[np.diff](as_plain(x), n, axis, **given))


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """Return the frequencies of a discrete Fourier transform."""
    return _in_dtype(_numpys[np.fft.fftfreq](n, d, device), dtype)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """Return the frequencies of a discrete Fourier transform of reals."""
    return _in_dtype(_numpys[np.fft.rfftfreq](n, d, device), dtype)


def _in_dtype(x: Any, dtype: Any) -> Any:
    return x if dtype is None else x.astype(dtype)


class _Limits:
    """What NumPy says of a number type, in numbers of Python's."""

    def __init__(self, limits: Any) -> None:
        self._limits = limits

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._limits, name)
        return value.item() if isinstance(value, np.generic) else value

    def __repr__(self) -> str:
        return repr(self._limits)


def finfo(type: Any, /) -> Any:
    """Return the limits of a floating-point dtype, or of an array's."""
    return _Limits(np.finfo(type.dtype if isinstance(type, Handle) else type))


def iinfo(type: Any, /) -> Any:
    """Return the limits of an integer dtype, or of an array's."""
    return _Limits(np.iinfo(type.dtype if isinstance(type, Handle) else type))


class _NamespaceInfo(getattr(np, "__array_namespace_info__", object)):  # type: ignore[misc] # from NumPy 2.1 on
    """What the namespace can do, as NumPy's says it; devices are a tuple, as the standard of 2025 wants it."""

    def devices(self) -> Any:
        """Return the devices that arrays can be on."""
        return tuple(super().devices())


# What the standard has otherwise than NumPy, by the module of ours that NumPy's is shown by.
FUNCTIONS: dict[str, dict[str, Callable[..., Any]]] = {
    "oxinp": {
        "__array_namespace_info__": _NamespaceInfo,
        **{function.__name__: function for function in (argsort, sort, clip, diff, finfo, iinfo)},
    },
    "oxinp.fft": {function.__name__: function for function in (fftfreq, rfftfreq)},
}
