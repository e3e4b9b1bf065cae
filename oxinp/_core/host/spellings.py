"""Functions on small arrays on the host, by NumPy's own loops without what NumPy does before and after them.

A function of NumPy's looks for classes with a say of their own, sorts its arguments and often calls the next one in
Python before a loop runs, which is most of its time on small arrays. A row of `SPELLINGS` says which of its loops give
the same result, bit for bit and in the same layout, for plain arrays of elements that are no Python objects; what a row
does not take, it leaves to the function itself by `NotImplemented`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from oxinp._config import config
from oxinp._core.host import loops
from oxinp._core.host.fallback import listed_nbytes
from oxinp._core.host.makers import making_function
from oxinp._core.host.matrices import of_small_matrices
from oxinp._core.lazy import placement
from oxinp._core.lazy.inlining import compiled
from oxinp._core.lazy.small import DTYPES

_Array = np.ndarray


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


def _extremum(name: str) -> Spelling:
    method = getattr(np.ndarray, name)

    def found(x: Any, axis: Any = None) -> Any:
        return method(x, axis) if type(x) is _Array else NotImplemented

    return Spelling(found, 2, has_axis=True, alone=method)


SPELLINGS: dict[Any, Spelling] = {
    **{
        function: _reduction(ufunc)
        for ufunc, functions in {
            np.add: (np.sum, np.ndarray.sum),
            np.multiply: (np.prod, np.ndarray.prod),
            np.maximum: (np.max, np.ndarray.max),
            np.minimum: (np.min, np.ndarray.min),
            np.logical_and: (np.all, np.ndarray.all),
            np.logical_or: (np.any, np.ndarray.any),
        }.items()
        for function in functions
    },
    **dict.fromkeys((np.mean, np.ndarray.mean), Spelling(loops.mean, 2, has_axis=True, may_warn=True)),
    **dict.fromkeys((np.cumsum, np.ndarray.cumsum), Spelling(loops.cumsum, 2, has_axis=True, may_warn=True)),
    **{getattr(home, name): _extremum(name) for home in (np, np.ndarray) for name in ("argmax", "argmin")},
    **dict.fromkeys((np.argsort, np.ndarray.argsort), Spelling(loops.argsort, alone=np.ndarray.argsort)),
    **dict.fromkeys((np.searchsorted, np.ndarray.searchsorted), Spelling(loops.searchsorted, 3, 2)),
    **dict.fromkeys((np.take, np.ndarray.take), Spelling(loops.take, 2, 2)),
    np.append: Spelling(loops.append, 2, 2),
    np.clip: Spelling(loops.clip, 3, 3, may_warn=True),
    np.concatenate: Spelling(loops.concatenate, 2, has_axis=True),
    np.diag: Spelling(loops.diag, 2),
    **dict.fromkeys((np.dot, np.ndarray.dot), Spelling(loops.dot, 2, 2, may_warn=True)),
    np.einsum: Spelling(loops.einsum, 4, 2, may_warn=True),
    np.empty_like: Spelling(loops.empty_like),
    np.full_like: Spelling(loops.full_like, 2, 2),
    np.hstack: Spelling(loops.hstack),
    np.inner: Spelling(loops.inner, 2, 2, may_warn=True),
    np.linalg.norm: Spelling(loops.norm, may_warn=True),
    np.outer: Spelling(loops.outer, 2, 2, may_warn=True),
    **dict.fromkeys((np.repeat, np.ndarray.repeat), Spelling(loops.repeat, 3, 2, has_axis=True)),
    np.sort: Spelling(loops.sort, 2, has_axis=True),
    np.stack: Spelling(loops.stack),
    np.vdot: Spelling(loops.vdot, 2, 2, may_warn=True),
    np.vstack: Spelling(loops.vstack),
    np.where: Spelling(loops.in_c(np.where), 3, 3),
    np.zeros_like: Spelling(loops.zeros_like),
}

_TEXT = """
def make(general, function, alone, most, least, has_axis):
    def front({parameters}):
        {first}
        if kwargs:
            kind = type(kwargs.get("axis"))
            if not (has_axis and len(kwargs) == 1 and len(args) == least and (kind is int or kind is tuple)):
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
        if not args and not kwargs and not REPORTS and (type(value) is list or type(value) is tuple):
            x = of_listed(value)
            if x is not None:
                result = {of_one} else return general(value)
                if result is not NotImplemented:
                    return wrapped(result)
        if has_axis and type(value) is ndarray and len(args) + len(kwargs) == 1:
            axis = args[0] if args else kwargs.get("axis")
            x = seen(value) else return general(value, *args, **kwargs)
            nbytes = x.nbytes
            is_small = 0 < nbytes < config.offload_threshold or (nbytes and is_host(nbytes))
            if is_small and type(axis) is int and not REPORTS:
                result = {along} else return general(value, *args, **kwargs)
                if result is NotImplemented:
                    return general(value, *args, **kwargs)
                return wrapped(result)
        if value is not MISSING:
            args = value, *args
"""
# Of one array alone, and of one and an axis.
_OF_ONE = {
    "one": ("heard(function, x)", "heard(function, x, axis)"),
    "one in C": ("called(alone, x)", "called(alone, x, axis)"),
    "one along no axis": ("called(alone, x, None)", "called(alone, x, axis)"),
}
_TEXTS = {
    "several": _TEXT.format(parameters="*args, **kwargs", first=""),
    **{
        number: _TEXT.format(
            parameters="value=MISSING, /, *args, **kwargs", first=_FIRST_TEXT.format(of_one=alone, along=along)
        )
        for number, (alone, along) in _OF_ONE.items()
    },
}


def _of_listed(value: Any) -> Any:
    """Return the small array of numbers in a list or tuple; None of anything else, and of what NumPy refuses."""
    if not 0 < listed_nbytes(value) * 2 < config.offload_threshold:
        return None
    try:
        made = np.array(value)
    except ValueError:
        return None
    return None if made.dtype.hasobject else made


_NAMES = {"is_host": placement.is_host, "of_listed": _of_listed}
_FRONTS = {
    (may_warn, number): compiled(f"functions of small arrays, {number}", text, may_warn=may_warn, names=_NAMES)
    for may_warn in (False, True)
    for number, text in _TEXTS.items()
}
# What most calls of some look like: two arrays in a list or tuple, or three arrays of which numbers may be two.
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
        a, y, z = args
        if type(a) is not ndarray:
            return general(*args)
        x = seen(a) else return general(*args)
        nbytes = x.nbytes
        kind = type(y)
        if kind is ndarray:
            b = y
            y = seen(b) else return general(*args)
            nbytes += y.nbytes
        elif kind is not float and kind is not int:
            return general(*args)
        kind = type(z)
        if kind is ndarray:
            b = z
            z = seen(b) else return general(*args)
            nbytes += z.nbytes
        elif kind is not float and kind is not int:
            return general(*args)
        if not 0 < nbytes < config.offload_threshold:
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
_COMMON: dict[Any, tuple[Callable[..., Any], Callable[..., Any]]] = {
    np.concatenate: (compiled("numpy.concatenate", _PAIR_TEXT), loops.concatenated),
    **dict.fromkeys((np.dot, np.ndarray.dot), (compiled("numpy.dot", _VECTORS_TEXT, may_warn=True), np.ndarray.dot)),
    np.where: (compiled("numpy.where", _THREE_TEXT), loops.in_c(np.where)),
}
"""What most calls look like -> what computes them, and by what."""
_LIKE_TEXT = """
def make(general, function):
    def front(*args, **kwargs):
        if len(args) == 1 == len(kwargs) and not REPORTS:
            (value,) = args
            dtype = kwargs.get("dtype")
            kind = type(dtype)
            if type(value) is ndarray and (kind is type or kind is str) and dtype in DTYPES:
                x = seen(value) else return general(value, dtype=dtype)
                if 0 < x.size * 16 < config.offload_threshold and x.flags.c_contiguous:
                    result = function(x.shape, dtype)
                    return wrapped(result)
        return general(*args, **kwargs)
    return front
"""
_LIKE = compiled("functions of an array and a dtype", _LIKE_TEXT, names={"DTYPES": DTYPES})
_LIKES: dict[Any, Callable[..., Any]] = {np.empty_like: np.empty, np.ones_like: np.ones, np.zeros_like: np.zeros}


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
    else:
        made = making_function(of_small_matrices(general, theirs), theirs)
    return _LIKE(made, _LIKES[theirs]) if theirs in _LIKES else made


__all__ = ["SPELLINGS", "Spelling", "with_spelling"]
