"""Functions on small arrays on the host, by NumPy's own loops without what NumPy does before and after them.

A function of NumPy's looks for classes with a say of their own, sorts its arguments and often calls the next one in
Python before a loop runs, which is most of its time on small arrays. A row of `SPELLINGS` says which of its loops give
the same result, bit for bit and in the same layout, for plain arrays of elements that are no Python objects; what a row
does not take, it leaves to the function itself by `NotImplemented`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy._core import _multiarray_umath, umath

from oxinp import _runtime
from oxinp._config import config
from oxinp._core.host.makers import making_function
from oxinp._core.host.matrices import of_small_matrices
from oxinp._core.lazy import placement
from oxinp._core.lazy.inlining import compiled
from oxinp._core.memory.host_side import is_dense

_FLOAT64 = np.dtype(np.float64)
_FLOATS = frozenset({np.dtype(np.float32), _FLOAT64})
_NUMBERS = frozenset({float, int})
_Array = np.ndarray
_sum = np.add.reduce
_accumulated: Any = np.add.accumulate
_multiply = np.multiply
_sqrt = np.sqrt
_empty = np.empty
_zeros = np.zeros
_numpys_array: Any = np.array
_c_einsum: Any = _multiarray_umath.c_einsum
_clip_ufunc: Any = umath.clip  # type: ignore[attr-defined]


MOST_PRODUCTS = 1 << 16
"""Of elements, that NumPy's loops form in less time than the device takes for any."""


class Spelling(NamedTuple):
    """What computes a function of NumPy's on small arrays.

    Attributes
    ----------
    function : callable
        Takes positional arguments alone, NumPy's arrays for ours; the result is a new array, a scalar, or
        `NotImplemented`.
    most, least : int
        Arguments that it takes.
    has_axis : bool
        Whether the second one is the axis, which programs give by keyword.
    may_warn : bool
        Whether it warns of elements.
    alone : callable or None
        What computes the same of one array alone, in C: of the array, and of None for the axis where there is one.
    """

    function: Callable[..., Any]
    most: int = 1
    least: int = 1
    has_axis: bool = False
    may_warn: bool = False
    alone: Callable[..., Any] | None = None


def _reduction(ufunc: np.ufunc) -> Spelling:
    reduce = ufunc.reduce

    def reduced(x: Any, axis: Any = None) -> Any:
        return reduce(x, axis) if type(x) is _Array else NotImplemented

    return Spelling(reduced, 2, has_axis=True, may_warn=ufunc not in (np.logical_and, np.logical_or), alone=reduce)


def _mean(x: Any, axis: Any = None) -> Any:
    if type(x) is not _Array or x.dtype is not _FLOAT64:
        return NotImplemented
    if axis is None:
        return _sum(x, None) / x.size
    if type(axis) is not int or not -x.ndim <= axis < x.ndim:
        return NotImplemented
    return _sum(x, axis) / x.shape[axis]


def _cumsum(x: Any, axis: Any = None) -> Any:
    is_known = type(x) is _Array and x.ndim == 1 and not axis and type(axis) is not tuple
    return _accumulated(x) if is_known else NotImplemented


def _extremum(name: str) -> Spelling:
    method = getattr(np.ndarray, name)

    def found(x: Any, axis: Any = None) -> Any:
        return method(x, axis) if type(x) is _Array else NotImplemented

    return Spelling(found, 2, has_axis=True, alone=method)


def _argsort(x: Any) -> Any:
    return x.argsort() if type(x) is _Array else NotImplemented


def _sort(x: Any) -> Any:
    if type(x) is not _Array or not x.ndim:
        return NotImplemented
    made = x.copy("K")
    made.sort()
    return made


def _clip(x: Any, low: Any, high: Any) -> Any:
    if type(x) is not _Array or x.dtype not in _FLOATS or not _NUMBERS.issuperset((type(low), type(high))):
        return NotImplemented
    return _clip_ufunc(x, low, high)


def _outer(x: Any, y: Any) -> Any:
    if type(x) is not _Array or type(y) is not _Array or x.ndim != 1 or y.ndim != 1:
        return NotImplemented
    size = x.size * y.size
    is_small = size * 16 < config.offload_threshold or placement.is_host(size * 8)
    return _multiply(x[:, None], y) if is_small else NotImplemented


def _norm(x: Any) -> Any:
    if type(x) is not _Array or x.dtype not in _FLOATS or not x.flags.c_contiguous:
        return NotImplemented
    elements = x if x.ndim == 1 else x.ravel()
    return _sqrt(elements.dot(elements))


def _zeros_like(x: Any) -> Any:
    return _zeros(x.shape, x.dtype) if type(x) is _Array and x.flags.c_contiguous else NotImplemented


def _empty_like(x: Any) -> Any:
    return _empty(x.shape, x.dtype) if type(x) is _Array and x.flags.c_contiguous else NotImplemented


def _stack(arrays: Any) -> Any:
    first = arrays[0] if type(arrays) is list and arrays else None
    if type(first) is not _Array or first.ndim != 1 or not first.dtype.isnative:
        return NotImplemented
    size, dtype = first.size, first.dtype
    for x in arrays:
        if x.ndim != 1 or x.size != size or x.dtype is not dtype:
            return NotImplemented
    return _numpys_array(arrays)


def _dot(x: Any, y: Any) -> Any:
    if type(x) is not _Array or type(y) is not _Array:
        return NotImplemented
    is_light = x.ndim == 1 or y.ndim == 1 or x.size * y.size * 16 < config.offload_threshold
    return x.dot(y) if is_light or _runtime.current() is None else NotImplemented


@functools.lru_cache(maxsize=256)
def _terms(subscripts: str) -> tuple[str, ...]:
    """Return the letters of each operand of `einsum`; none where they are more than letters."""
    terms = tuple(subscripts.partition("->")[0].split(","))
    return terms if all(map(str.isalpha, terms)) else ()


def _einsum(subscripts: Any, *arrays: Any) -> Any:
    terms = _terms(subscripts) if type(subscripts) is str else ()
    if len(terms) != len(arrays):
        return NotImplemented
    extents: dict[str, int] = {}
    for term, x in zip(terms, arrays, strict=True):
        if type(x) is not _Array or x.ndim != len(term):
            return NotImplemented
        extents.update(zip(term, x.shape, strict=True))
    if math.prod(extents.values()) > MOST_PRODUCTS:
        return NotImplemented
    made = _c_einsum(subscripts, *arrays)
    if type(made) is not _Array:
        return made
    is_new = len(arrays) > 1 or made.base is None  # of one array it may be a view
    return made if is_new and is_dense(made) else NotImplemented


def _in_c(function: Any) -> Any:
    """Return a function of NumPy's in C that asks no classes for theirs."""
    return getattr(function, "_implementation", function)


_concatenated = _in_c(np.concatenate)


def _concatenate(arrays: Any) -> Any:
    return _concatenated(arrays) if type(arrays) is list else NotImplemented


SPELLINGS: dict[Any, Spelling] = {
    **{
        function: _reduction(ufunc)
        for ufunc, functions in {
            np.add: (np.sum, np.ndarray.sum),
            np.maximum: (np.max, np.ndarray.max),
            np.minimum: (np.min, np.ndarray.min),
            np.logical_and: (np.all, np.ndarray.all),
            np.logical_or: (np.any, np.ndarray.any),
        }.items()
        for function in functions
    },
    **dict.fromkeys((np.mean, np.ndarray.mean), Spelling(_mean, 2, has_axis=True, may_warn=True)),
    **dict.fromkeys((np.cumsum, np.ndarray.cumsum), Spelling(_cumsum, 2, has_axis=True, may_warn=True)),
    **{getattr(home, name): _extremum(name) for home in (np, np.ndarray) for name in ("argmax", "argmin")},
    **dict.fromkeys((np.argsort, np.ndarray.argsort), Spelling(_argsort, alone=np.ndarray.argsort)),
    np.clip: Spelling(_clip, 3, 3, may_warn=True),
    np.concatenate: Spelling(_concatenate),
    np.dot: Spelling(_dot, 2, 2, may_warn=True),
    np.einsum: Spelling(_einsum, 4, 2, may_warn=True),
    np.empty_like: Spelling(_empty_like),
    np.linalg.norm: Spelling(_norm, may_warn=True),
    np.outer: Spelling(_outer, 2, 2, may_warn=True),
    np.sort: Spelling(_sort),
    np.stack: Spelling(_stack),
    np.where: Spelling(_in_c(np.where), 3, 3),
    np.zeros_like: Spelling(_zeros_like),
}

_TEXT = """
def make(general, function, alone, most, least, has_axis):
    def front({parameters}):
        {first}
        if kwargs:
            kind = type(kwargs.get("axis"))
            if not (has_axis and len(kwargs) == 1 == len(args) and (kind is int or kind is tuple)):
                return general(*args, **kwargs)
        nbytes = largest = 0
        given = []
        for value in args:
            kind = type(value)
            if kind is ndarray:
                x = seen(value) else return general(*args, **kwargs)
                nbytes += x.nbytes
                if x.nbytes > largest:
                    largest = x.nbytes
                given.append(x)
            elif kind is float or kind is int or kind is str:
                given.append(value)
            elif kind is list or kind is tuple:
                parts = []
                for part in value:
                    if type(part) is not ndarray:
                        return general(*args, **kwargs)
                    x = seen(part) else return general(*args, **kwargs)
                    nbytes += x.nbytes
                    parts.append(x)
                largest = nbytes  # what the result takes
                given.append(parts)
            else:
                return general(*args, **kwargs)
        if kwargs:
            given.append(kwargs["axis"])
        if not least <= len(given) <= most or REPORTS:
            return general(*args, **kwargs)
        if not (0 < nbytes < config.offload_threshold or (nbytes and is_host(largest))):
            return general(*args, **kwargs)
        result = heard(function, *given) else return general(*args, **kwargs)
        if result is NotImplemented:
            return general(*args, **kwargs)
        return wrapped(result)
    return front
"""
_FIRST_TEXT = """\
if type(value) is ndarray and not args and not kwargs:
            x = seen(value) else return general(value)
            nbytes = x.nbytes
            if not (0 < nbytes < config.offload_threshold or (nbytes and is_host(nbytes))) or REPORTS:
                return general(value)
            result = {of_one} else return general(value)
            if result is NotImplemented:
                return general(value)
            return wrapped(result)
        if value is not MISSING:
            args = value, *args
"""
_OF_ONE = {"one": "heard(function, x)", "one in C": "called(alone, x)", "one along no axis": "called(alone, x, None)"}
_TEXTS = {
    "several": _TEXT.format(parameters="*args, **kwargs", first=""),
    **{
        number: _TEXT.format(parameters="value=MISSING, /, *args, **kwargs", first=_FIRST_TEXT.format(of_one=call))
        for number, call in _OF_ONE.items()
    },
}
_NAMES = {"is_host": placement.is_host}
_FRONTS = {
    (may_warn, number): compiled(f"functions of small arrays, {number}", text, may_warn=may_warn, names=_NAMES)
    for may_warn in (False, True)
    for number, text in _TEXTS.items()
}
# What most calls of some look like: two arrays in a list or tuple, or three arrays.
_PAIR_TEXT = """
def make(general, function):
    def front(arrays=MISSING, /, *args, **kwargs):
        kind = type(arrays)
        if args or kwargs or REPORTS or not (kind is tuple or kind is list) or len(arrays) != 2:
            return general(*args, **kwargs) if arrays is MISSING else general(arrays, *args, **kwargs)
        a, b = arrays
        if type(a) is not ndarray or type(b) is not ndarray:
            return general(arrays)
        x = seen(a) else return general(arrays)
        y = seen(b) else return general(arrays)
        if not 0 < x.nbytes + y.nbytes < config.offload_threshold:
            return general(arrays)
        result = called(function, (x, y)) else return general(arrays)
        return wrapped(result)
    return front
"""
_THREE_TEXT = """
def make(general, function):
    def front(*args, **kwargs):
        if len(args) != 3 or kwargs or REPORTS:
            return general(*args, **kwargs)
        a, b, c = args
        if type(a) is not ndarray or type(b) is not ndarray or type(c) is not ndarray:
            return general(*args)
        x = seen(a) else return general(*args)
        y = seen(b) else return general(*args)
        z = seen(c) else return general(*args)
        if not 0 < x.nbytes + y.nbytes + z.nbytes < config.offload_threshold:
            return general(*args)
        result = called(function, x, y, z) else return general(*args)
        return wrapped(result)
    return front
"""
# A method of NumPy's for two vectors, or matrices of few elements.
_VECTORS_TEXT = """
def make(general, function):
    def front(*args, **kwargs):
        if len(args) != 2 or kwargs or REPORTS:
            return general(*args, **kwargs)
        a, b = args
        if type(a) is not ndarray or type(b) is not ndarray:
            return general(*args)
        x = seen(a) else return general(*args)
        y = seen(b) else return general(*args)
        if x.ndim != 1 and y.ndim != 1:
            if not 0 < x.size * y.size * 16 < config.offload_threshold:
                return general(*args)
        elif not (a._known is FEW is b._known) and not 0 < x.nbytes + y.nbytes < config.offload_threshold:
            return general(*args)
        result = called(function, x, y) else return general(*args)
        return wrapped(result)
    return front
"""
_COMMON = {
    np.concatenate: (compiled("numpy.concatenate", _PAIR_TEXT), _concatenated),
    np.dot: (compiled("numpy.dot", _VECTORS_TEXT, may_warn=True), np.ndarray.dot),
    np.where: (compiled("numpy.where", _THREE_TEXT), _in_c(np.where)),
}
"""What most calls look like -> what computes them, and by what."""


def with_spelling(general: Callable[..., Any], theirs: Any) -> Callable[..., Any]:
    """Return a function with the spelling of NumPy's for what is small and on the host, if there is one.

    Parameters
    ----------
    general : callable
        Ours.
    theirs : callable
        NumPy's.
    """
    spelling = SPELLINGS.get(theirs)
    made: Callable[..., Any] = general
    if spelling is not None:
        number = "one" if spelling.alone is None else "one along no axis" if spelling.has_axis else "one in C"
        number = "several" if spelling.least > 1 else number
        make = _FRONTS[spelling.may_warn, number]
        made = make(general, spelling.function, spelling.alone, spelling.most, spelling.least, spelling.has_axis)
        if theirs in _COMMON:
            make, function = _COMMON[theirs]
            made = make(made, function)
        return made
    return making_function(of_small_matrices(general, theirs), theirs)


__all__ = ["SPELLINGS", "Spelling", "with_spelling"]
