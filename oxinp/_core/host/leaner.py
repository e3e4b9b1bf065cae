"""NumPy's functions that Python writes, in fewer steps where arguments are the usual ones: the same loops in order.

Each takes NumPy's arrays and plain values, and leaves what is less usual to NumPy's function, or says so by
`NotImplemented`. Machine code and `fallback.on_hosts` call them in the place of that, where arrays are small.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import product
from math import inf, isfinite, isnan
from typing import Any

import numpy as np
from numpy._core import umath

from oxinp._core.host.loops import concatenated, in_c

_Array = np.ndarray
_ALL = slice(None)
_empty_like: Any = in_c(np.empty_like)
_roll, _append, _array = inspect.unwrap(np.roll), inspect.unwrap(np.append), np.array
_NUMBERS = frozenset({int, float})
_sum: Any = np.add.reduce
_FLOAT64 = np.dtype(np.float64)
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


def append(arr: Any, values: Any, axis: Any = None) -> Any:
    """See `numpy.append`, to a vector."""
    if type(arr) is not _Array or arr.ndim != 1 or axis is not None:
        return _append(arr, values, axis)
    return concatenated((arr, values.ravel() if type(values) is _Array else _array(values).ravel()))


LEANER: dict[str, Callable[..., Any]] = {"append": append, "roll": roll}
"""Names of NumPy's functions -> these: of such as warn of nothing, for warnings name the line that asks NumPy."""


# -- what may warn of floating-point errors; `NotImplemented` for what is less usual -----------------------------------


def _is_real(x: Any) -> bool:
    """Whether it is an array of float64 with elements and axes."""
    return type(x) is _Array and x.dtype is _FLOAT64 and x.size > 0 and x.ndim > 0


def _is_plain(x: Any) -> bool:
    """Whether it is an array of numbers."""
    return type(x) is _Array and x.dtype.kind in "biufc" and x.dtype.isnative


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Any:
    """See `numpy.linalg.norm`."""
    is_usual = _is_real(x) and type(keepdims) is bool and (ord is None or type(ord) is int or type(ord) is float)
    if is_usual and (type(axis) is int or (axis is None and ord is not None)):
        if axis is None and x.ndim == 1 and not keepdims and ord == 2:
            return np.sqrt(x.dot(x) if x.flags.c_contiguous else _dot_of_copy(x))
        if type(axis) is int or x.ndim == 1:
            axis = axis or 0
            if ord is None or ord == 2:
                return np.sqrt(_sum(x * x, axis, None, None, keepdims))
            if ord == 1:
                return _sum(abs(x), axis, None, None, keepdims)
            if ord == inf:
                return abs(x).max(axis, None, keepdims)
    return NotImplemented


def _dot_of_copy(x: Any) -> Any:
    x = x.ravel("K")
    return x.dot(x)


def var(a: Any, axis: Any = None, *args: Any, **kwargs: Any) -> Any:
    """See `numpy.var`."""
    ddof, keepdims = kwargs.get("ddof", 0), kwargs.get("keepdims", False)
    is_usual = not args and kwargs.keys() <= _OF_VAR and type(ddof) is int and type(keepdims) is bool
    count = 0
    if is_usual and _is_real(a) and (axis is None or (type(axis) is int and -a.ndim <= axis < a.ndim)):
        count = a.size if axis is None else a.shape[axis]
    if count <= ddof:
        return NotImplemented
    mean = _sum(a, axis, None, None, True)
    mean /= count
    x = a - mean
    np.square(x, x)
    found = _sum(x, axis, None, None, keepdims)
    if type(found) is not _Array:
        return found / (count - ddof)
    found /= count - ddof
    return found


def std(a: Any, axis: Any = None, *args: Any, **kwargs: Any) -> Any:
    """See `numpy.std`."""
    found = var(a, axis, *args, **kwargs)
    if found is NotImplemented:
        return found
    return np.sqrt(found, found) if type(found) is _Array else np.sqrt(found)


_OF_VAR = frozenset({"ddof", "keepdims"})


def clip(a: Any, low: Any = None, high: Any = None, a_min: Any = None, a_max: Any = None, **kwargs: Any) -> Any:
    """See `numpy.clip`, whose bounds have other names as a method."""
    low, high = (a_min if low is None else low), (a_max if high is None else high)
    if kwargs or type(a) is not _Array or not a.size:
        return NotImplemented
    if a.dtype in _FLOATS:
        is_usual = type(low) in _NUMBERS and type(high) in _NUMBERS
    else:
        least, most = _BOUNDS.get(a.dtype, (0, 0))
        is_usual = type(low) is int is type(high) and least < low < most and least < high < most
    return _clip(a, low, high) if is_usual else NotImplemented


_FLOATS = frozenset({np.dtype(np.float32), _FLOAT64})
_BOUNDS = {np.dtype(code): (np.iinfo(code).min, np.iinfo(code).max) for code in "bhilBHIL"}
_clip: Any = umath.clip  # type: ignore[attr-defined]


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: Any = -1) -> Any:
    """See `numpy.trapezoid`."""
    is_even = x is None and type(dx) in _NUMBERS
    if axis != -1 or not _is_real(y) or y.ndim != 1 or not (is_even or (_is_real(x) and x.shape == y.shape)):
        return NotImplemented
    step = dx if is_even else x[1:] - x[:-1]
    return _sum(step * (y[1:] + y[:-1]) / 2.0)


def gradient(f: Any, *spacing: Any, **kwargs: Any) -> Any:
    """See `numpy.gradient`."""
    step = spacing[0] if spacing else 1.0
    if kwargs or len(spacing) > 1 or type(step) not in _NUMBERS or not _is_real(f) or min(f.shape) < 2:
        return NotImplemented
    found = []
    for axis in range(f.ndim):
        made = _empty_like(f)
        x, y = f.swapaxes(0, axis), made.swapaxes(0, axis)
        y[1:-1] = (x[2:] - x[:-2]) / (2.0 * step)
        y[0] = (x[1] - x[0]) / step
        y[-1] = (x[-1] - x[-2]) / step
        found.append(made)
    return found[0] if len(found) == 1 else tuple(found)


def cross(a: Any, b: Any, *args: Any, **kwargs: Any) -> Any:
    """See `numpy.cross`."""
    if not args and not kwargs and _is_real(a) and _is_real(b) and a.shape == (3,) == b.shape:
        (i, j, k), (x, y, z) = a.tolist(), b.tolist()
        found = j * z - k * y, k * x - i * z, i * y - j * x
        if isfinite(sum(found)):
            return _array(found)
    return NotImplemented


def kron(a: Any, b: Any) -> Any:
    """See `numpy.kron`."""
    if not (_is_real(a) and _is_real(b) and a.ndim == 2 == b.ndim):
        return NotImplemented
    if not (a.strides[0] > a.strides[1] > 0 and b.strides[0] > b.strides[1] > 0):  # the result may have another layout
        return NotImplemented
    shape = a.shape[0] * b.shape[0], a.shape[1] * b.shape[1]
    return (a[:, None, :, None] * b[None, :, None, :]).reshape(shape)


def average(a: Any, axis: Any = None, weights: Any = None, *args: Any, **kwargs: Any) -> Any:
    """See `numpy.average`."""
    is_usual = axis is None and not args and not kwargs and _is_real(a) and _is_real(weights)
    if is_usual and a.ndim == 1 and a.shape == weights.shape:
        total = _sum(weights)
        if total:
            return _sum(a * weights) / total
    return NotImplemented


def median(a: Any, *args: Any, **kwargs: Any) -> Any:
    """See `numpy.median`."""
    if args or kwargs or not _is_real(a) or a.ndim != 1:
        return NotImplemented
    half, is_odd = divmod(a.size, 2)
    parts = a.copy()
    parts.partition([half, -1] if is_odd else [half - 1, half, -1])
    if isnan(parts[-1]):
        return NotImplemented
    return parts[half] if is_odd else (parts[half - 1] + parts[half]) / 2.0


def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: Any = False) -> Any:  # noqa: ARG001
    """See `numpy.isclose`."""
    is_usual = type(rtol) is float is type(atol) and _is_real(a) and (_is_real(b) or type(b) is float)
    if is_usual and 0 <= rtol < inf and 0 <= atol < inf and np.isfinite(a).all() and np.isfinite(b).all():
        return abs(a - b) <= atol + rtol * abs(b)
    return NotImplemented


def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: Any = False) -> Any:
    """See `numpy.allclose`."""
    found = isclose(a, b, rtol, atol, equal_nan)
    return found if found is NotImplemented else bool(found.all())


def meshgrid(*arrays: Any, **kwargs: Any) -> Any:
    """See `numpy.meshgrid`."""
    is_usual = len(arrays) == 2 and (
        not kwargs or (kwargs.keys() == {"indexing"} and kwargs["indexing"] in ("xy", "ij"))
    )
    if not is_usual or not all(_is_plain(x) and x.ndim == 1 for x in arrays):
        return NotImplemented
    is_matrix = kwargs.get("indexing") == "ij"
    columns, rows = arrays[::-1] if is_matrix else arrays
    shape = rows.size, columns.size
    along, down = np.empty(shape, columns.dtype), np.empty(shape, rows.dtype)
    along[...] = columns
    down[...] = rows[:, None]
    return (down, along) if is_matrix else (along, down)


def triu_indices(n: Any, k: Any = 0, m: Any = None) -> Any:
    """See `numpy.triu_indices`."""
    return _triangle(n, k, m, np.less_equal)


def tril_indices(n: Any, k: Any = 0, m: Any = None) -> Any:
    """See `numpy.tril_indices`."""
    return _triangle(n, k, m, np.greater_equal)


def _triangle(n: Any, k: Any, m: Any, compare: np.ufunc) -> Any:
    m = n if m is None else m
    if not type(n) is type(k) is type(m) is int or n < 1 or m < 1:
        return NotImplemented
    places = compare.outer(np.arange(n), np.arange(-k, m - k)).ravel().nonzero()[0]
    return places // m, places % m


def tile(A: Any, reps: Any) -> Any:
    """See `numpy.tile`."""
    counts = reps if type(reps) is tuple else (reps,)
    if (
        _is_plain(A)
        and A.size
        and len(counts) <= 2
        and {*map(type, counts)} == {int}
        and min(counts) > 0
        and max(counts) > 1
    ):
        if A.ndim == 1 and len(counts) == 1:
            return concatenated([A] * counts[0])
        if A.ndim == 2 or (A.ndim == 1 and len(counts) == 2):
            shape = A.shape if A.ndim == 2 else (1, A.size)
            down, across = (1, *counts)[-2:]
            made = np.empty((down, shape[0], across, shape[1]), A.dtype)
            made[...] = A.reshape(shape)[:, None, :]
            return made.reshape(down * shape[0], across * shape[1])
    return NotImplemented


def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """See `numpy.insert`."""
    is_usual = _is_real(arr) and arr.ndim == 1 and type(obj) is int and type(values) in _NUMBERS
    if not is_usual or not (axis is None or axis == 0) or not -arr.size <= obj <= arr.size:
        return NotImplemented
    at = obj + arr.size if obj < 0 else obj
    made = np.empty(arr.size + 1)
    made[:at], made[at], made[at + 1 :] = arr[:at], values, arr[at:]
    return made


def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    """See `numpy.delete`."""
    is_usual = _is_plain(arr) and arr.ndim == 1 and type(obj) is int and (axis is None or axis == 0)
    if not is_usual or not -arr.size <= obj < arr.size:
        return NotImplemented
    at = obj + arr.size if obj < 0 else obj
    return concatenated((arr[:at], arr[at + 1 :]))


def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    """See `numpy.pad`."""
    value = kwargs.get("constant_values", 0)
    is_usual = _is_plain(array) and array.size > 0 and array.ndim > 0 and array.flags.carray
    widths = _widths(pad_width, array.ndim) if is_usual else None
    if widths is None:
        return NotImplemented
    kinds = _NUMBERS if array.dtype.kind == "f" else _INTEGERS if value == 0 else ()
    if mode == "constant" and kwargs.keys() <= {"constant_values"} and type(value) in kinds:
        made = np.zeros(
            [n + before + after for n, (before, after) in zip(array.shape, widths, strict=True)], array.dtype
        )
        if array.dtype.kind == "f":
            made[...] = value
        made[tuple([slice(before, before + n) for n, (before, _) in zip(array.shape, widths, strict=True)])] = array
        return made
    places = _PLACES.get(mode) if not kwargs else None
    if places is None or any(max(width) >= n for n, width in zip(array.shape, widths, strict=True)):
        return NotImplemented
    for axis, (before, after) in enumerate(widths):
        if before or after:
            array = array.take(places(np.arange(-before, array.shape[axis] + after), array.shape[axis]), axis)
        elif axis == array.ndim - 1:
            array = array.copy()
    return array


def _widths(given: Any, ndim: int) -> Any:
    """Return how much is added before and after along each axis; None of what is not said by integers alone."""
    if type(given) is int:
        return [(given, given)] * ndim if given >= 0 else None
    if type(given) is not tuple and type(given) is not list:
        return None
    if len(given) == 2 and type(given[0]) is int is type(given[1]):
        given = [given] * ndim
    if len(given) != ndim:
        return None
    for width in given:
        if type(width) not in (tuple, list) or len(width) != 2 or {*map(type, width)} != {int} or min(width) < 0:
            return None
    return given


_PLACES: dict[Any, Callable[[Any, int], Any]] = {
    "edge": lambda at, n: at.clip(0, n - 1),
    "wrap": lambda at, n: at % n,
    "symmetric": lambda at, n: np.where(at < 0, -1 - at, np.where(at < n, at, 2 * n - 1 - at)),
    "reflect": lambda at, n: np.where(at < 0, -at, np.where(at < n, at, 2 * n - 2 - at)),
}
"""Modes of `pad` -> which elements those at places are, which lie outside by less than the extent."""

NUMERICAL: dict[str, Callable[..., Any]] = {
    "allclose": allclose,
    "average": average,
    "clip": clip,
    "cross": cross,
    "delete": delete,
    "gradient": gradient,
    "insert": insert,
    "isclose": isclose,
    "kron": kron,
    "linalg.norm": norm,
    "median": median,
    "meshgrid": meshgrid,
    "pad": pad,
    "std": std,
    "tile": tile,
    "trapezoid": trapezoid,
    "tril_indices": tril_indices,
    "triu_indices": triu_indices,
    "var": var,
}
"""Names of NumPy's functions -> these, of such as warn of floating-point errors alone where they are usual."""


# -- of integers alone -------------------------------------------------------------------------------------------------


def _of_integers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what calls a function of NumPy's with integers and tuples of them; `NotImplemented` for anything else."""
    function = in_c(function)

    def called(*args: Any) -> Any:
        for value in args:
            if type(value) is tuple:
                if not _INTEGERS.issuperset(map(type, value)):
                    return NotImplemented
            elif type(value) not in _INTEGERS:
                return NotImplemented
        return function(*args) if len(args) == 2 else NotImplemented

    return called


FIRST: dict[str, Callable[..., Any]] = {
    "ravel_multi_index": _of_integers(np.ravel_multi_index),
    "unravel_index": _of_integers(np.unravel_index),
}
"""Names of functions -> what is asked first, of arguments by position."""

__all__ = ["FIRST", "LEANER", "NUMERICAL"]
