"""NumPy's functions that Python writes, in fewer steps where arguments are the usual ones: the same loops in order.

Each takes NumPy's arrays and plain values, and leaves what is less usual to NumPy's function. Machine code calls them
in the place of that, where arrays are small.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from numpy._core import _methods, multiarray

from oxinp._core.host.loops import concatenated, in_c

_FLOAT64 = np.dtype(np.float64)
_Array = np.ndarray
_ALL = slice(None)
_add: Any = np.add.reduce
_divide, _multiply, _sqrt = np.true_divide, np.multiply, np.sqrt
_empty_like: Any = in_c(np.empty_like)
_roll, _diff, _std, _var = inspect.unwrap(np.roll), inspect.unwrap(np.diff), np.ndarray.std, np.ndarray.var
_zeros_like, _ones_like = inspect.unwrap(np.zeros_like), inspect.unwrap(np.ones_like)
_norm, _allclose = inspect.unwrap(np.linalg.norm), inspect.unwrap(np.allclose)
_append, _interp, _array = inspect.unwrap(np.append), inspect.unwrap(np.interp), np.array
_interpolated: Any = multiarray.interp
_NUMBERS = "biufc"
_SQUARES = "square" in vars(_methods)["_var"].__code__.co_names
"""Whether this NumPy's variances have squares by the ufunc of that name, which overflows are told of by."""
_INTEGERS = frozenset({int, np.int64})


def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """See `numpy.roll`."""
    if type(a) is not _Array or not a.size:
        return _roll(a, shift, axis)
    if axis is None and a.ndim == 1:
        axis = 0
    if type(shift) in _INTEGERS and type(axis) is int and -a.ndim <= axis < a.ndim:
        made, by, before = _empty_like(a), int(shift) % a.shape[axis], (_ALL,) * (axis % a.ndim)
        if not by:
            made[...] = a
            return made
        made[(*before, slice(by, None))] = a[(*before, slice(None, -by))]
        made[(*before, slice(None, by))] = a[(*before, slice(-by, None))]
        return made
    is_usual = type(axis) is tuple is type(shift) and _INTEGERS.issuperset(map(type, (*axis, *shift)))
    if not is_usual or not len({*axis}) == len(axis) == len(shift) or min(axis) < 0 or max(axis) >= a.ndim:
        return _roll(a, shift, axis)
    parts: list[Any] = [((_ALL, _ALL),)] * a.ndim
    for place, given in zip(axis, shift, strict=True):
        by = int(given) % a.shape[place]
        if by:
            parts[place] = (slice(None, -by), slice(by, None)), (slice(-by, None), slice(None, by))
    made = _empty_like(a)
    for each in product(*parts):
        source, target = zip(*each, strict=True)
        made[target] = a[source]
    return made


def zeros_like(a: Any) -> Any:
    """See `numpy.zeros_like`."""
    if a.dtype.kind not in _NUMBERS:
        return _zeros_like(a)
    made = _empty_like(a)
    made.fill(0)
    return made


def ones_like(a: Any) -> Any:
    """See `numpy.ones_like`."""
    if a.dtype.kind not in _NUMBERS:
        return _ones_like(a)
    made = _empty_like(a)
    made.fill(1)
    return made


def diff(a: Any, n: Any = 1, axis: Any = -1, *args: Any) -> Any:
    """See `numpy.diff`, of neighbours along the last axis."""
    if type(a) is not _Array or a.dtype.kind not in "iufc" or type(n) is not int or n != 1 or args:
        return _diff(a, n, axis, *args)
    if type(axis) is not int or axis not in (-1, a.ndim - 1) or not a.ndim:
        return _diff(a, n, axis)
    return a[..., 1:] - a[..., :-1] if a.ndim > 1 else a[1:] - a[:-1]


def _variance(a: Any, axis: Any, ddof: Any) -> Any:
    """Return the variance of floats, of all or along one axis; None of others."""
    if type(a) is not _Array or a.dtype is not _FLOAT64 or not a.size or not a.ndim:
        return None
    if axis is None:
        count = a.size
    elif type(axis) is int and -a.ndim <= axis < a.ndim:
        count = a.shape[axis]
    else:
        return None
    if type(ddof) is not int or ddof >= count:
        return None
    mean = _add(a, axis, None, None, True)
    beyond = a - _divide(mean, count, mean)
    squares = np.square(beyond, beyond) if _SQUARES else _multiply(beyond, beyond, beyond)
    total = _add(squares, axis)
    return _divide(total, count - ddof, total) if type(total) is _Array else total / (count - ddof)


def var(a: Any, axis: Any = None, *args: Any, ddof: Any = 0, **kwargs: Any) -> Any:
    """See `numpy.ndarray.var`."""
    found = None if args or kwargs else _variance(a, axis, ddof)
    return _var(a, axis, *args, ddof=ddof, **kwargs) if found is None else found


def std(a: Any, axis: Any = None, *args: Any, ddof: Any = 0, **kwargs: Any) -> Any:
    """See `numpy.ndarray.std`."""
    found = None if args or kwargs else _variance(a, axis, ddof)
    if found is None:
        return _std(a, axis, *args, ddof=ddof, **kwargs)
    return _sqrt(found, found) if type(found) is _Array else _sqrt(found)


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Any:
    """See `numpy.linalg.norm`, of floats, by the squares of all or along one axis."""
    if type(x) is _Array and x.dtype is _FLOAT64 and ord is None and x.ndim:
        if axis is None and keepdims is False:
            elements = x.ravel("K")
            return _sqrt(elements.dot(elements))
        if type(axis) is int and -x.ndim <= axis < x.ndim and type(keepdims) is bool:
            return _sqrt(_add(x * x, axis, None, None, keepdims))
    return _norm(x, ord, axis, keepdims)


def allclose(a: Any, b: Any, *args: Any, **kwargs: Any) -> Any:
    """See `numpy.allclose`, of finite floats."""
    for each in (a, b):
        if args or kwargs or type(each) is not _Array or each.dtype is not _FLOAT64 or not np.isfinite(each).all():
            return _allclose(a, b, *args, **kwargs)
    return bool((np.less_equal(abs(a - b), 1e-08 + 1e-05 * abs(b)) | (a == b)).all())


def append(arr: Any, values: Any, axis: Any = None) -> Any:
    """See `numpy.append`, to a vector."""
    if type(arr) is not _Array or arr.ndim != 1 or axis is not None:
        return _append(arr, values, axis)
    return concatenated((arr, values.ravel() if type(values) is _Array else _array(values).ravel()))


def interp(x: Any, xp: Any, fp: Any, *args: Any) -> Any:
    """See `numpy.interp`, of floats."""
    if args or type(fp) is not _Array or fp.dtype is not _FLOAT64:
        return _interp(x, xp, fp, *args)
    return _interpolated(x, xp, fp, None, None)


LEANER: dict[str, Callable[..., Any]] = {
    "allclose": allclose,
    "append": append,
    "diff": diff,
    "interp": interp,
    "linalg.norm": norm,
    "roll": roll,
    "std": std,
    "var": var,
}
"""Names of NumPy's functions and methods -> these."""

__all__ = ["LEANER", "ones_like", "zeros_like"]
