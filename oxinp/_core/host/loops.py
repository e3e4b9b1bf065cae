"""What NumPy's functions come to on small arrays: loops of NumPy's own, called with as little around them as may be.

Each takes NumPy's arrays by position, and a list of them for what NumPy takes in a list or tuple; the result is a new
array, a scalar, or `NotImplemented` for what is left to NumPy's function.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numpy._core import _multiarray_umath, umath

from oxinp import _runtime
from oxinp._config import config
from oxinp._core.lazy import placement
from oxinp._core.lazy.balance import balance
from oxinp._core.memory.host_side import is_dense
from oxinp._runtime import select

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
_repeat = np.ndarray.repeat
_numpys_array: Any = np.array
_c_einsum: Any = _multiarray_umath.c_einsum
_clip_ufunc: Any = umath.clip  # type: ignore[attr-defined]


MOST_PRODUCTS = 1 << 16
"""Of elements, that NumPy's loops form in less time than the device takes for any."""


def mean(x: Any, axis: Any = None) -> Any:
    if type(x) is not _Array or x.dtype is not _FLOAT64:
        return NotImplemented
    if axis is None:
        return _sum(x, None) / x.size
    if type(axis) is not int or not -x.ndim <= axis < x.ndim:
        return NotImplemented
    return _sum(x, axis) / x.shape[axis]


def cumsum(x: Any, axis: Any = None) -> Any:
    is_known = type(x) is _Array and x.ndim == 1 and not axis and type(axis) is not tuple
    return _accumulated(x) if is_known else NotImplemented


def argsort(x: Any) -> Any:
    return x.argsort() if type(x) is _Array else NotImplemented


def sort(x: Any, axis: Any = -1) -> Any:
    if type(x) is not _Array or not x.ndim or type(axis) is not int:
        return NotImplemented
    made = x.copy("K")
    made.sort(axis)
    return made


def diag(x: Any, k: Any = 0) -> Any:
    if type(x) is not _Array or x.ndim != 1 or type(k) is not int:
        return NotImplemented
    n = x.size + abs(k)
    nbytes = n * n * x.itemsize
    if nbytes >= config.offload_threshold and not placement.is_host(nbytes):
        return NotImplemented
    made = _zeros((n, n), x.dtype)
    first = k if k >= 0 else -k * n
    made.reshape(-1)[first : first + x.size * (n + 1) : n + 1] = x
    return made


def repeat(x: Any, count: Any, axis: Any = None) -> Any:
    if type(x) is not _Array or type(count) is not int or count < 0 or not (axis is None or type(axis) is int):
        return NotImplemented
    nbytes = x.nbytes * count
    return _repeat(x, count, axis) if nbytes < config.offload_threshold or placement.is_host(nbytes) else NotImplemented


def _dimensions(arrays: Any) -> int:
    """Return how many dimensions all arrays of a list have; 0 for anything else."""
    if type(arrays) is not list or not arrays:
        return 0
    ndim: int = arrays[0].ndim
    return ndim if all(x.ndim == ndim for x in arrays) else 0


def hstack(arrays: Any) -> Any:
    ndim = _dimensions(arrays)
    return concatenated(arrays, min(ndim - 1, 1)) if ndim else NotImplemented


def vstack(arrays: Any) -> Any:
    ndim = _dimensions(arrays)
    return concatenated(arrays, 0) if ndim > 1 else stack(arrays) if ndim else NotImplemented


def append(x: Any, values: Any) -> Any:
    if type(x) is not _Array or not (type(values) is _Array or type(values) in _NUMBERS):
        return NotImplemented
    return concatenated((x.ravel(), _numpys_array(values, None, copy=None).ravel()))


def clip(x: Any, low: Any, high: Any) -> Any:
    if type(x) is not _Array or x.dtype not in _FLOATS or not _NUMBERS.issuperset((type(low), type(high))):
        return NotImplemented
    return _clip_ufunc(x, low, high)


def outer(x: Any, y: Any) -> Any:
    if type(x) is not _Array or type(y) is not _Array or x.ndim != 1 or y.ndim != 1:
        return NotImplemented
    nbytes = x.size * y.size * 8
    version, backend = select._decided  # `is_host`, spelled out for what is the device's
    has_device = backend is not None and version == config.version
    if has_device and nbytes >= config.offload_threshold and nbytes >= balance.limit:
        return NotImplemented
    is_small = nbytes * 2 < config.offload_threshold or placement.is_host(nbytes)
    return _multiply(x[:, None], y) if is_small else NotImplemented


def norm(x: Any) -> Any:
    if type(x) is not _Array or x.dtype not in _FLOATS or not x.flags.c_contiguous:
        return NotImplemented
    elements = x if x.ndim == 1 else x.ravel()
    return _sqrt(elements.dot(elements))


def searchsorted(x: Any, values: Any, side: Any = "left") -> Any:
    return x.searchsorted(values, side) if type(x) is _Array else NotImplemented


def take(x: Any, indices: Any) -> Any:
    return x.take(indices) if type(x) is _Array and type(indices) is _Array else NotImplemented


def inner(x: Any, y: Any) -> Any:
    is_known = type(x) is _Array and type(y) is _Array and x.ndim == 1 and y.ndim == 1
    return _inner(x, y) if is_known else NotImplemented


def vdot(x: Any, y: Any) -> Any:
    return _vdot(x, y) if type(x) is _Array and type(y) is _Array else NotImplemented


def full_like(x: Any, value: Any) -> Any:
    if type(x) is not _Array or x.dtype is not _FLOAT64 or type(value) not in _NUMBERS or not x.flags.c_contiguous:
        return NotImplemented
    made = _empty(x.shape)
    made.fill(value)
    return made


def zeros_like(x: Any) -> Any:
    return _zeros(x.shape, x.dtype) if type(x) is _Array and x.flags.c_contiguous else NotImplemented


def empty_like(x: Any) -> Any:
    return _empty(x.shape, x.dtype) if type(x) is _Array and x.flags.c_contiguous else NotImplemented


def stack(arrays: Any) -> Any:
    first = arrays[0] if type(arrays) is list and arrays else None
    if type(first) is not _Array or first.ndim != 1 or not first.dtype.isnative:
        return NotImplemented
    size, dtype = first.size, first.dtype
    for x in arrays:
        if x.ndim != 1 or x.size != size or x.dtype is not dtype:
            return NotImplemented
    return _numpys_array(arrays)


def dot(x: Any, y: Any) -> Any:
    if type(x) is not _Array or type(y) is not _Array:
        return NotImplemented
    is_light = x.ndim == 1 or y.ndim == 1 or x.size * y.size * 16 < config.offload_threshold
    return x.dot(y) if is_light or _runtime.current() is None else NotImplemented


@functools.lru_cache(maxsize=256)
def _is_brief(subscripts: str, *shapes: tuple[int, ...]) -> bool:
    """Return whether a sum by letters alone is of few products, see `MOST_PRODUCTS`, of operands of these shapes."""
    terms = subscripts.partition("->")[0].split(",")
    if len(terms) != len(shapes) or not all(map(str.isalpha, terms)):
        return False
    extents: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        if len(term) != len(shape):
            return False
        extents.update(zip(term, shape, strict=True))
    return math.prod(extents.values()) <= MOST_PRODUCTS


def einsum(subscripts: Any, *arrays: Any) -> Any:
    if type(subscripts) is not str:
        return NotImplemented
    for x in arrays:
        if type(x) is not _Array:
            return NotImplemented
    if not _is_brief(subscripts, *[x.shape for x in arrays]):
        return NotImplemented
    made = _c_einsum(subscripts, *arrays)
    if type(made) is not _Array:
        return made
    is_new = len(arrays) > 1 or made.base is None  # of one array it may be a view
    return made if is_new and is_dense(made) else NotImplemented


def in_c(function: Any) -> Any:
    """Return a function of NumPy's in C that asks no classes for theirs."""
    return getattr(function, "_implementation", function)


concatenated = in_c(np.concatenate)
_inner = in_c(np.inner)
_vdot = in_c(np.vdot)


def concatenate(arrays: Any, axis: Any = 0) -> Any:
    return concatenated(arrays, axis) if type(arrays) is list and type(axis) is int else NotImplemented
