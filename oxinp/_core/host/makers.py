"""Functions that make small arrays on the host: of a shape, of a list of numbers, of a range, of one number."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, prod
from typing import Any

import numpy as np

from oxinp._config import config
from oxinp._core.errors.hearing import call_numerical
from oxinp._core.host.fallback import listed_nbytes
from oxinp._core.lazy import placement
from oxinp._core.lazy.handle import host_view
from oxinp._core.lazy.inlining import compiled
from oxinp._core.lazy.results import types
from oxinp._core.lazy.small import DTYPES

_empty = np.empty
_zeros = np.zeros
_INT = np.dtype(int)
_EXACT = 2**31 - 1  # integers that most dtypes hold, and that floats are equal to
_numpys_arange: Any = np.arange
_numpys_array: Any = np.array


def _ones(shape: Any, dtype: Any = None) -> Any:
    if dtype is not None:
        return np.ones(shape, dtype)
    made = _empty(shape)
    made.fill(1)
    return made


MAKERS: dict[Any, Callable[..., Any]] = {np.zeros: np.zeros, np.empty: _empty, np.ones: _ones}
"""Functions of a shape and a dtype -> what makes their small arrays."""

_MAKER_TEXT = """
def make(general, function, DTYPES):
    def front(shape=MISSING, dtype=None, order="C", *, device=None, like=None):
        kind = type(shape)
        broadcasts = False
        if kind is int:
            size = shape
        elif kind is tuple:
            size = -1
            if len(shape) == 2:
                m, n = shape
                if type(m) is int is type(n) and m > 1 < n:
                    size = m * n
            if size < 0:
                size = 1
                for extent in shape:
                    if type(extent) is not int or extent < 0:
                        size = -1
                        break
                    size *= extent
                    broadcasts = broadcasts or extent == 1
        else:
            size = -1
        if 0 <= size * 16 < config.offload_threshold and device is None is like and order == "C" and not REPORTS:
            if dtype is None:
                result = function(shape)
                if size < SMALL and not broadcasts:
                    return few_elements(result)
                return wrapped(result)
            kind = type(dtype)
            if (kind is type or kind is str) and dtype in DTYPES:
                result = function(shape, dtype)
                return array_of(result, FEW if size < SMALL and not broadcasts else None)
        elif size > 0 and device is None is like and order == "C" and not REPORTS:
            if dtype is None:
                if not starts_on_device(size * 8):
                    result = function(shape)
                    return wrapped(result)
            else:
                kind = type(dtype)
                if (kind is type or kind is str) and dtype in DTYPES and not starts_on_device(size * DTYPES[dtype]):
                    result = function(shape, dtype)
                    return wrapped(result)
        said = {"dtype": dtype, "order": order, "device": device, "like": like}
        said = {name: value for name, value in said.items() if value is not (None if name != "order" else "C")}
        return general(*(() if shape is MISSING else (shape,)), **said)
    return front
"""
_NAMES = {"starts_on_device": placement.starts_on_device}
_maker = compiled("functions that make small arrays", _MAKER_TEXT, names=_NAMES)


def _listed(value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the array of a list or tuple of numbers, or of such, of a dtype that may be said."""
    dtype = None
    if args or kwargs:
        dtype = args[0] if args else kwargs.get("dtype")
        kind = type(dtype)
        if len(args) + len(kwargs) > 1 or not (
            dtype in DTYPES if kind is type or kind is str else isinstance(dtype, np.dtype) and dtype in _PLAIN_DTYPES
        ):
            return NotImplemented
    if not 0 < listed_nbytes(value) * 2 < config.offload_threshold:
        return NotImplemented
    made = _numpys_array(value) if dtype is None else call_numerical(_numpys_array, (value, dtype), {})
    return made if made.nbytes < config.offload_threshold and not made.dtype.hasobject else NotImplemented


_PLAIN_DTYPES = frozenset(map(np.dtype, "?bBhHiIlLqQefdFD"))


def _of_rows(value: list[Any]) -> Any:
    """Return the array of a list of lists of numbers, or of arrays of ours that are on the host and alike."""
    if type(value[0]) is types.ndarray:
        return _of_arrays(value)
    for row in value:
        if type(row) not in _LISTS or len(row) > _MAX_LISTED or not _NUMBERS.issuperset(map(type, row)):
            return NotImplemented
    made = _numpys_array(value)
    return made if made.nbytes < config.offload_threshold and not made.dtype.hasobject else NotImplemented


def _of_arrays(value: list[Any]) -> Any:
    kind, rows = types.ndarray, []
    for row in value:
        if type(row) is not kind or (host := (row._held or row._storage).host) is None:
            return NotImplemented
        rows.append(row._seen if row._host is host else host_view(row))
    first = rows[0]
    is_small = 0 < first.nbytes * len(rows) < config.offload_threshold and not first.dtype.hasobject
    if not is_small or not first.ndim or not first.dtype.isnative:
        return NotImplemented
    shape, dtype = first.shape, first.dtype
    for row in rows:
        if row.dtype is not dtype or row.shape != shape:
            return NotImplemented
    return _numpys_array(rows)


_LISTS = (list, tuple)
_NUMBERS = frozenset({bool, int, float, complex, np.bool_, np.int64, np.float32, np.float64, np.complex128})
_MAX_LISTED = 64


def _begins_on_host(size: float) -> bool:
    """Whether an array of so many numbers, which are not few, begins on the host."""
    return size < inf and not placement.starts_on_device(int(size * 8))


def _linspace(start: Any, stop: Any, num: Any = 50, endpoint: Any = True) -> Any:
    """Return what lies between two numbers, by NumPy's formula."""
    if type(num) is not int or num < 2 or (num * 16 >= config.offload_threshold and not _begins_on_host(num)):
        return NotImplemented
    if type(start) is int and -_EXACT <= start <= _EXACT:
        start = float(start)
    if type(stop) is int and -_EXACT <= stop <= _EXACT:
        stop = float(stop)
    if type(start) is not float or type(stop) is not float or type(endpoint) is not bool:
        return NotImplemented
    step = (stop - start) / (num - 1 if endpoint else num)
    if not (step and -inf < step < inf):
        return NotImplemented
    made = _numpys_arange(0.0, num)
    made *= step
    made += start
    if endpoint:
        made[-1] = stop
    return made


def _arange(*args: Any) -> Any:
    """Return the numbers of a range."""
    for number in args:
        if type(number) not in _REALS or not -_EXACT <= number <= _EXACT:
            return NotImplemented
    if len(args) == 1 and type(args[0]) is int:
        size: float = args[0]
        is_hosts = size * 16 < config.offload_threshold or _begins_on_host(size)
        return _numpys_arange(*args) if is_hosts else NotImplemented
    start, stop, step = args if len(args) == 3 else (*args, 1) if len(args) == 2 else (0, *args, 1)
    if not step:
        return NotImplemented
    size = abs((stop - start) / step)
    return _numpys_arange(*args) if size * 16 < config.offload_threshold or _begins_on_host(size) else NotImplemented


EYES: dict[int, np.ndarray[Any, Any]] = {}
"""Small matrices with ones on their diagonals, by how many rows they have: what machine code copies."""
MOST_ROWS = 32


def _eye(n: Any) -> Any:
    """Return a matrix with ones on its diagonal."""
    if type(n) is not int or n < 0 or (n * n * 16 >= config.offload_threshold and not _begins_on_host(n * n)):
        return NotImplemented
    made = _zeros((n, n))
    made.reshape(-1)[:: n + 1] = 1
    if n <= MOST_ROWS:
        EYES[n] = made.copy()
    return made


def _full(shape: Any, value: Any) -> Any:
    """Return an array full of a number."""
    extents = shape if type(shape) is tuple else (shape,)
    kind = type(value)
    is_integer = kind is int and -_EXACT <= value <= _EXACT
    if not (is_integer or kind is float) or not _INTEGERS.issuperset(map(type, extents)):
        return NotImplemented
    size = prod(extents)
    if min(extents, default=0) < 0 or (size * 8 >= config.offload_threshold and not _begins_on_host(size)):
        return NotImplemented
    made = _empty(shape, _INT) if is_integer else _empty(shape)
    made.fill(value)
    return made


_INTEGERS, _REALS = frozenset({int}), frozenset({int, float})

_VALUES_TEXT = """
def make(general, function):
    def front(*args, **kwargs):
        if {is_other} or REPORTS:
            return general(*args, **kwargs)
        result = function(*args, **kwargs)
        if result is NotImplemented:
            return general(*args, **kwargs)
        return wrapped(result)
    return front
"""
_VALUES: dict[Any, tuple[Callable[..., Any], str]] = {
    np.arange: (_arange, "kwargs or not 0 < len(args) < 4"),
    np.eye: (_eye, "kwargs or len(args) != 1"),
    np.full: (_full, "kwargs or len(args) != 2"),
    np.identity: (_eye, "kwargs or len(args) != 1"),
    np.linspace: (
        _linspace,
        "not 1 < len(args) < 4 or (kwargs and not kwargs.keys() <= (SAID if len(args) == 2 else SAID_LAST))",
    ),
}
_SAID = {"SAID": frozenset({"num", "endpoint"}), "SAID_LAST": frozenset({"endpoint"})}
_LISTS_TEXT = """
def make(general, function, of_rows, are_numbers, MAX_LISTED, listed):
    def front(value=MISSING, /, *args, **kwargs):
        kind = type(value)
        if not args and not kwargs and type(value) is list and 0 < len(value) <= MAX_LISTED and not REPORTS:
            if are_numbers(map(type, value)):
                if len(value) * 16 < config.offload_threshold:
                    result = function(value)
                    if result.dtype is FLOAT64 or not result.dtype.hasobject:
                        return array_of(result, FEW if len(value) < SMALL else None)
            else:
                result = of_rows(value)
                if result is not NotImplemented:
                    return wrapped(result)
        elif (kind is list or kind is tuple) and not REPORTS:
            result = listed(value, args, kwargs)
            if result is not NotImplemented:
                return wrapped(result)
        elif kind in NUMBERS and not (args or kwargs or REPORTS) and config.offload_threshold > 16:
            result = function(value)
            if not result.dtype.hasobject:
                return wrapped(result)
        elif kind is ndarray and kwargs == COPYING and not args:
            kwargs = {}  # as is done anyway
        made = general(*args, **kwargs) if value is MISSING else general(value, *args, **kwargs)
        if type(made) is ndarray and made._host is not None:
            x = made._host
            mark(made, x)
        return made
    return front
"""
_of_lists = compiled("numpy.array", _LISTS_TEXT, names={"COPYING": {"copy": True}, "NUMBERS": _NUMBERS})
_ITSELF_TEXT = """
def make(general, listed):
    def front(a=MISSING, /, *args, **kwargs):
        kind = type(a)
        if kind is ndarray and not args and not kwargs:
            return a
        if (kind is list or kind is tuple) and not REPORTS:
            result = listed(a, args, kwargs)
            if result is not NotImplemented:
                return wrapped(result)
        return general(a, *args, **kwargs) if a is not MISSING else general(**kwargs)
    return front
"""
_itself = compiled("numpy.asarray", _ITSELF_TEXT)


def making_function(general: Callable[..., Any], theirs: Any) -> Callable[..., Any]:
    """Return a function of NumPy's that makes arrays, by the short way where they are small; any other as it is.

    Parameters
    ----------
    general : callable
        Ours.
    theirs : callable
        NumPy's.
    """
    made: Callable[..., Any] = general
    if theirs in MAKERS:
        made = _maker(general, MAKERS[theirs], DTYPES)
    elif theirs in _VALUES:
        function, is_other = _VALUES[theirs]
        made = compiled(theirs.__name__, _VALUES_TEXT.format(is_other=is_other), names=_SAID)(general, function)
    elif theirs is np.array:
        made = _of_lists(general, theirs, _of_rows, _NUMBERS.issuperset, _MAX_LISTED, _listed)
    elif theirs is np.asarray:
        made = _itself(general, _listed)
    return made


__all__ = ["EYES", "MOST_ROWS", "making_function"]
