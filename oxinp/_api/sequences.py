"""Functions of sequences: interpolation, convolution, pieces, packed bits."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.lib import _function_base_impl as numpys
from numpy.lib.array_utils import normalize_axis_index

from oxinp._api.creation import zeros_like
from oxinp._api.fronts import as_ours, implements
from oxinp._api.rebound import rebound
from oxinp._core.array import dispatch
from oxinp._core.host.exchange import is_array
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import Handle, fetch
from oxinp._core.lazy.record import check_placement
from oxinp._core.lazy.results import as_array
from oxinp._core.lazy.views import view
from oxinp._core.manipulation.copy import astype
from oxinp._core.manipulation.shape import ravel, reshape
from oxinp._core.memory.dtypes import BOOL, DEVICE_TYPES, FLOAT64
from oxinp._core.ops import creation, gather
from oxinp._core.ops.convolve import convolve_directly
from oxinp._core.ops.index import getitem, setitem
from oxinp._core.ops.sort import argsort, searchsorted
from oxinp._core.ops.where import where
from oxinp._core.ufunc.objects import UFUNC_OBJECTS

MAX_FUSED = 16  # taps, which are a few operations of a chain
UINT8 = np.dtype(np.uint8)
BITS = 8


@implements("interp")
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """See `numpy.interp`: the same operations on the same neighbours, found by a binary search."""
    wanted, points, values = as_ours(x), as_ours(xp), as_ours(fp)
    if any(a._layout.dtype.kind not in "biuf" for a in (wanted, points, values)):
        raise Unsupported("complex functions")
    size = points._layout.size
    if points._layout.ndim != 1 or values._layout.shape != points._layout.shape or size < 2 or not wanted._layout.ndim:
        raise Unsupported("what NumPy refuses, a single point, or a scalar")
    if any(is_array(each) for each in (left, right)) or not (period is None or type(period) in (int, float)):
        raise Unsupported("values beyond the ends, or periods, that are arrays")
    if period == 0:
        raise ValueError("period must be a non-zero value")
    check_placement(wanted, points, values)
    wanted, points, values = (astype(a, FLOAT64, copy_wanted=False) for a in (wanted, points, values))
    if period is not None:
        wanted, points, values = _of_one_period(wanted, points, values, abs(period))
        size, left, right = size + 2, None, None
    compute = UFUNC_OBJECTS
    place = compute["subtract"](searchsorted(points, wanted, is_right=True), 1)
    low = compute["minimum"](compute["maximum"](place, 0), size - 2)
    high = compute["add"](low, 1)
    x0, x1, y0, y1 = (gather.take(a, i, is_checked=False) for a in (points, values) for i in (low, high))
    slope = compute["divide"](compute["subtract"](y1, y0), compute["subtract"](x1, x0))
    found = compute["add"](compute["multiply"](slope, compute["subtract"](wanted, x0)), y0)
    other = compute["add"](compute["multiply"](slope, compute["subtract"](wanted, x1)), y1)
    other = where(compute["logical_and"](compute["isnan"](other), compute["equal"](y0, y1)), y0, other)
    found = where(compute["isnan"](found), other, found)
    found = where(compute["equal"](wanted, x0), y0, found)
    first, last = getitem(points, slice(0, 1)), getitem(points, slice(-1, None))
    begin, end = getitem(values, slice(0, 1)), getitem(values, slice(-1, None))
    found = where(compute["greater_equal"](wanted, last), end, found)
    found = where(compute["greater"](wanted, last), end if right is None else float(right), found)
    found = where(compute["less"](wanted, first), begin if left is None else float(left), found)
    return where(compute["isnan"](wanted), wanted, found)


def _of_one_period(wanted: Any, points: Any, values: Any, period: float) -> tuple[Any, Any, Any]:
    """Return what is wanted within a period, and sorted points there with one more on either side, as NumPy has it."""
    remainder, join = UFUNC_OBJECTS["remainder"], dispatch.functions[np.concatenate]
    points = remainder(points, period)
    order = argsort(points)
    points, values = (gather.take(a, order, is_checked=False) for a in (points, values))
    ends = [[getitem(a, part) for part in (slice(0, 1), slice(-1, None))] for a in (points, values)]
    (first, last), (begin, end) = ends
    points = join((UFUNC_OBJECTS["subtract"](last, period), points, UFUNC_OBJECTS["add"](first, period)))
    return remainder(wanted, period), points, join((end, values, begin))


def _convolved(a: Any, v: Any, mode: Any) -> Any:
    """Return the sums of products of a vector and another one, reversed.

    Parameters
    ----------
    a, v : Handle
        The longer one first.
    mode : str
    """
    dtype = np.result_type(a._layout.dtype, v._layout.dtype)
    n, m = a._layout.size, v._layout.size
    if dtype == BOOL or dtype not in DEVICE_TYPES:
        raise Unsupported("truth")
    before, count = {"full": (m - 1, n + m - 1), "same": ((m - 1) - (m - 1) // 2, n), "valid": (0, n - m + 1)}[mode]
    start = m - 1 - before
    if m <= MAX_FUSED:
        return _by_taps(a, astype(v, dtype, copy_wanted=False), start, count)
    return convolve_directly(*(astype(x, dtype, copy_wanted=False) for x in (a, v)), start, count)


def _by_taps(a: Any, taps: Any, start: int, count: int) -> Any:
    """Return a range of a full convolution: each tap is a multiplication and an addition, fused with others."""
    n, m = a._layout.size, taps._layout.size
    padded = creation.zeros(n + 2 * (m - 1), taps._layout.dtype)
    setitem(padded, slice(m - 1, m - 1 + n), a)
    total = None
    for i in range(m):  # element t of the result has a[t - i] * v[i], counted from the start of the full one
        first = start + m - 1 - i
        step = UFUNC_OBJECTS["multiply"](getitem(padded, slice(first, first + count)), getitem(taps, slice(i, i + 1)))
        total = step if total is None else UFUNC_OBJECTS["add"](total, step)
    return total


_MODES = {0: "valid", 1: "same", 2: "full", "valid": "valid", "same": "same", "full": "full"}


def _vectors(a: Any, v: Any, mode: Any) -> tuple[Any, Any, str]:
    arrays = as_ours(a), as_ours(v)
    if any(x._layout.ndim != 1 or not x._layout.size for x in arrays) or mode not in _MODES:
        raise Unsupported("what NumPy refuses or converts")
    check_placement(*arrays)
    return (*arrays, _MODES[mode])


@implements("convolve")
def convolve(a: Any, v: Any, mode: Any = "full") -> Any:
    """See `numpy.convolve`."""
    long, short, mode = _vectors(a, v, mode)
    if long._layout.size < short._layout.size:
        long, short = short, long
    return _convolved(long, short, mode)


_ALONG = (
    "all amax amin any argmax argmin argsort count_nonzero cumprod cumsum diff max mean median min nanargmax nanargmin "
    "nancumprod nancumsum nanmax nanmean nanmedian nanmin nanprod nanstd nansum nanvar prod ptp sort std sum var"
)
"""Functions of one vector, which take an axis instead of being called for one vector after the other."""


@implements("apply_along_axis")
def apply_along_axis(func1d: Any, axis: Any, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """See `numpy.apply_along_axis`: a function of ours, or of NumPy's, that takes an axis is called once."""
    name = getattr(func1d, "__name__", "")
    theirs = getattr(np, name, None) if name in _ALONG.split() else None
    array = as_ours(arr)
    if theirs is None or args or kwargs or func1d not in (theirs, dispatch.functions[theirs]):
        raise Unsupported("a function that is called for one vector after the other")
    if not array._layout.ndim or not array._layout.size:
        raise Unsupported("what NumPy refuses")
    found = dispatch.functions[theirs](array, axis=normalize_axis_index(axis, array._layout.ndim))
    return as_array(found)  # which it is of a vector, too


@implements("polymul")
def polymul(a1: Any, a2: Any) -> Any:
    """See `numpy.polymul`; waits to see where coefficients begin that are not zero."""
    if isinstance(a1, np.poly1d) or isinstance(a2, np.poly1d):
        raise Unsupported("polynomials as objects")
    long, short, _ = _vectors(a1, a2, "full")
    long, short = (getitem(x, slice(_first_used(x), None)) for x in (long, short))
    if long._layout.size < short._layout.size:
        long, short = short, long
    return _convolved(long, short, "full")


def _first_used(coefficients: Any) -> int:
    """Return where coefficients begin that are not zero; of none but zeros the last is left."""
    return int(UFUNC_OBJECTS["not_equal"](coefficients, 0).argmax()) if coefficients.any() else -1


@implements("correlate")
def correlate(a: Any, v: Any, mode: Any = "valid") -> Any:
    """See `numpy.correlate`."""
    first, second, mode = _vectors(a, v, mode)
    second = UFUNC_OBJECTS["conjugate"](second) if second._layout.dtype.kind == "c" else second
    if first._layout.size < second._layout.size:
        if mode != "full":
            raise Unsupported("a shorter vector first")
        return _convolved(view(second, lambda x: x[::-1]), first, mode)
    return _convolved(first, view(second, lambda x: x[::-1]), mode)


@implements("piecewise")
def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """See `numpy.piecewise`: functions are called with the elements that their condition chooses."""
    array = as_ours(x)
    given = list(condlist) if isinstance(condlist, list | tuple) else None
    if given is None or not given or not all(is_array(c) and c._layout.shape == array._layout.shape for c in given):
        raise Unsupported("conditions that NumPy converts")
    if not array._layout.ndim or len(funclist) not in (len(given), len(given) + 1):
        raise Unsupported("a scalar, or what NumPy refuses")
    conditions = [astype(c, BOOL, copy_wanted=False) for c in given]
    if len(funclist) == len(given) + 1:
        anywhere = conditions[0]
        for condition in conditions[1:]:
            anywhere = UFUNC_OBJECTS["logical_or"](anywhere, condition)
        conditions.append(UFUNC_OBJECTS["logical_not"](anywhere))
    result = zeros_like(array)
    for condition, function in zip(conditions, funclist, strict=True):
        if not callable(function):
            setitem(result, condition, function)
            continue
        elements = getitem(array, condition)
        if elements._layout.size:
            setitem(result, condition, function(elements, *args, **kw))
    return result


@implements("i0")
def i0(x: Any) -> Any:
    """See `numpy.i0`: NumPy's two Chebyshev series, of which every element takes its own."""
    if isinstance(x, Handle) and not x._layout.ndim:
        x = fetch(x)[()]
    if not isinstance(x, Handle) and not np.ndim(x):
        return np.i0(x)  # of a number, as `kaiser` asks for
    array = as_ours(x)
    if array._layout.dtype.kind not in "biuf" or not array._layout.ndim:
        raise Unsupported("complex numbers, or a scalar")
    compute = UFUNC_OBJECTS
    elements = array if array._layout.dtype.kind == "f" else astype(array, FLOAT64)
    elements = compute["absolute"](elements)
    is_near = compute["less_equal"](elements, 8.0)
    near = _series[0](compute["minimum"](elements, 8.0))
    return where(is_near, near, _series[1](compute["maximum"](elements, 8.0)))


_series = [rebound(function) for function in (numpys._i0_1, numpys._i0_2)]


@implements("packbits")
def packbits(a: Any, /, axis: Any = None, bitorder: Any = "big") -> Any:
    """See `numpy.packbits`: eight views, shifted and joined in one pass."""
    array = as_ours(a)
    if array._layout.dtype.kind not in "biu" or bitorder not in ("big", "little") or not array._layout.size:
        raise Unsupported("what NumPy refuses, or no elements")
    if not array._layout.ndim:
        raise Unsupported("a scalar")
    check_placement(array)
    if axis is None:
        array, axis = ravel(array), 0
    axis = normalize_axis_index(operator.index(axis), array._layout.ndim)
    bits = astype(UFUNC_OBJECTS["not_equal"](array, 0), UINT8)
    bits = view(bits, lambda x: x.swapaxes(axis, -1))
    length = bits._layout.shape[-1]
    count = -(-length // BITS)
    if length % BITS:
        padded = creation.zeros((*bits._layout.shape[:-1], count * BITS), UINT8)
        setitem(padded, (..., slice(None, length)), bits)
        bits = padded
    total = None
    for i in range(BITS):
        each = UFUNC_OBJECTS["left_shift"](
            view(bits, lambda x, i=i: x[..., i::BITS]), np.uint8(7 - i if bitorder == "big" else i)
        )
        total = each if total is None else UFUNC_OBJECTS["bitwise_or"](total, each)
    return _in_c_order(view(total, lambda x: x.swapaxes(axis, -1)))


def _in_c_order(array: Any) -> Any:
    return array if array._layout.is_contiguous else reshape(ravel(array), array._layout.shape)


@implements("unpackbits")
def unpackbits(a: Any, /, axis: Any = None, count: Any = None, bitorder: Any = "big") -> Any:
    """See `numpy.unpackbits`."""
    array = as_ours(a)
    if array._layout.dtype != UINT8 or bitorder not in ("big", "little") or not array._layout.size:
        raise Unsupported("what NumPy refuses, or no elements")
    if not array._layout.ndim:
        raise Unsupported("a scalar")
    check_placement(array)
    if axis is None:
        array, axis = ravel(array), 0
    axis = normalize_axis_index(operator.index(axis), array._layout.ndim)
    seen = view(array, lambda x: x.swapaxes(axis, -1)[..., np.newaxis])
    shifts = np.arange(BITS, dtype=UINT8)
    moved = UFUNC_OBJECTS["right_shift"](seen, creation.asarray(shifts[::-1].copy() if bitorder == "big" else shifts))
    bits = UFUNC_OBJECTS["bitwise_and"](moved, np.uint8(1))
    bits = reshape(bits, (*bits._layout.shape[:-2], -1))
    length = bits._layout.shape[-1]
    if count is not None:
        wanted = operator.index(count)
        if wanted < -length:
            raise Unsupported("what NumPy refuses")
        if wanted <= length:
            bits = getitem(bits, (..., slice(None, wanted)))
        else:
            padded = creation.zeros((*bits._layout.shape[:-1], wanted), UINT8)
            setitem(padded, (..., slice(None, length)), bits)
            bits = padded
    return _in_c_order(view(bits, lambda x: x.swapaxes(axis, -1)))


__all__ = ["convolve", "correlate", "i0", "interp", "packbits", "piecewise", "unpackbits"]
