"""Medians and quantiles: order statistics of rows, and what NumPy computes of them.

Which ranks a method takes, and with which weights, NumPy itself computes on the host, of numbers of elements and of
probabilities alone.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib import _function_base_impl as numpys
from numpy.lib import _nanfunctions_impl as numpys_of_numbers
from numpy.lib.array_utils import normalize_axis_tuple

from oxinp._api.fronts import as_ours, implements, reduced
from oxinp._api.rebound import rebound, replace
from oxinp._core.array import dispatch
from oxinp._core.errors.frames import warn
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import fetch
from oxinp._core.lazy.record import check_placement
from oxinp._core.lazy.views import view
from oxinp._core.manipulation.copy import assign, astype
from oxinp._core.manipulation.shape import reshape
from oxinp._core.memory.dtypes import FLOAT16, FLOAT32, FLOAT64, INT64
from oxinp._core.ops import creation, gather
from oxinp._core.ops import sort as sorts
from oxinp._core.ops.ranks import at_ranks
from oxinp._core.ops.where import where
from oxinp._core.reduction import table
from oxinp._core.reduction.scan import accumulate
from oxinp._core.ufunc.objects import UFUNC_OBJECTS

MAX_TABLE = 1 << 16  # numbers of elements for which ranks are computed ahead
MAX_WEIGHTED = 64  # quantiles, each of which is a pass over the elements


class _Rows:
    """An array as rows along the axes that are reduced, and the way back.

    Parameters
    ----------
    a : array_like
    axis : int, tuple of int or None
    keepdims : bool
    """

    def __init__(self, a: Any, axis: Any, keepdims: Any) -> None:
        if isinstance(a, np.ndarray) and type(a) is not np.ndarray:
            raise Unsupported("a subclass to pass through")
        array = as_ours(a)
        layout = array._layout
        if layout.dtype.kind not in "iuf" or not layout.size or not layout.ndim:
            raise Unsupported("elements that are no real numbers, or none")
        check_placement(array)
        axes = tuple(range(layout.ndim)) if axis is None else normalize_axis_tuple(axis, layout.ndim)
        kept = [i for i in range(layout.ndim) if i not in axes]
        self.dtype, self.given_shape = layout.dtype, layout.shape
        self.axes = axes
        self.length = math.prod([layout.shape[i] for i in axes])
        self.shape = tuple([layout.shape[i] for i in kept])
        self.result_shape = self.shape
        if keepdims is not np._NoValue and keepdims:
            self.result_shape = tuple([1 if i in axes else n for i, n in enumerate(layout.shape)])
        self._order = (*kept, *sorted(axes))
        self.elements = self.like(array)

    def like(self, array: Any) -> Any:
        """Return an array of the same shape as rows, (M, N)."""
        turned = view(array, lambda x: x.transpose(self._order))
        return reshape(turned, (-1, self.length))

    def finish(self, result: Any, leading: tuple[int, ...], out: Any, *, as_array: bool = False) -> Any:
        """Return a result, (..., M), with the shape that NumPy gives it, a scalar where it returns one."""
        result = reshape(result, (*leading, *self.result_shape))
        if out is None:
            return result if as_array or result._layout.ndim else result[()]
        if type(out) is not type(result) or out._layout.shape != result._layout.shape:
            raise Unsupported("an output of another kind")
        if out._layout.dtype != result._layout.dtype:
            raise Unsupported("an output of another dtype")
        assign(out, result)
        return out


def _mean_of(low: Any, high: Any) -> Any:
    """Return the mean of two as NumPy's median has it: in the dtype that NumPy's mean adds in, and returns."""
    dtype = low._layout.dtype
    wide = dtype if dtype in (FLOAT32, FLOAT64) else FLOAT32 if dtype == FLOAT16 else FLOAT64
    total = UFUNC_OBJECTS["add"](_added_to_zero(astype(low, wide)), astype(high, wide))
    mean = UFUNC_OBJECTS["divide"](total, wide.type(2))
    return astype(mean, dtype, copy_wanted=False) if dtype.kind == "f" else mean


def _added_to_zero(array: Any) -> Any:
    """Return what NumPy's sum of one element is: -0.0 becomes 0.0, with which sums begin."""
    return UFUNC_OBJECTS["add"](array, array._layout.dtype.type(0))


def _check_free(overwrite_input: Any) -> None:
    """Leave to NumPy what it may overwrite: it sorts in part."""
    if overwrite_input:
        raise Unsupported("elements that NumPy leaves in an order of its own")


@implements("median")
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: Any = False, keepdims: Any = False) -> Any:
    """See `numpy.median`; NaN, which sorting puts last, is the result where there is one."""
    _check_free(overwrite_input)
    rows = _Rows(a, axis, keepdims)
    n, dtype = rows.length, rows.dtype
    ranks = [(n - 1) // 2, n // 2] if n % 2 == 0 else [n // 2]
    is_float = dtype.kind == "f"
    found = at_ranks(rows.elements, np.array(ranks + [n - 1] * is_float))
    if n % 2:
        middle = _added_to_zero(_row(found, 0)) if is_float else astype(_row(found, 0), FLOAT64)
    else:
        middle = _mean_of(_row(found, 0), _row(found, 1))
    if is_float:
        last = _row(found, -1)
        middle = where(UFUNC_OBJECTS["isnan"](last), last, middle)
    return rows.finish(middle, (), out)


def _row(array: Any, number: int) -> Any:
    return view(array, lambda x: x[number])


@implements("nanmedian")
def nanmedian(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: Any = False, keepdims: Any = np._NoValue
) -> Any:
    """See `numpy.nanmedian`; NaNs are last among sorted elements."""
    _check_free(overwrite_input)
    if as_ours(a)._layout.dtype.kind != "f":
        return median(a, axis, out, False, keepdims is not np._NoValue and keepdims)
    rows = _Rows(a, axis, keepdims)
    ordered, counts = _numbers_of(rows)
    places = [UFUNC_OBJECTS["floor_divide"](UFUNC_OBJECTS["add"](counts, i), 2) for i in (-1, 0)]
    low, high = (_pick(ordered, UFUNC_OBJECTS["maximum"](place, 0)) for place in places)
    mean = _mean_of(low, high)
    is_odd = UFUNC_OBJECTS["equal"](UFUNC_OBJECTS["remainder"](counts, 2), 1)
    return rows.finish(where(is_odd, _added_to_zero(high), mean), (), out)


def _numbers_of(rows: _Rows) -> tuple[Any, Any]:
    """Return the sorted rows, and how many numbers each has; warn, as NumPy does, where that is none."""
    counts = reduced(table.SUM, UFUNC_OBJECTS["logical_not"](UFUNC_OBJECTS["isnan"](rows.elements)), 1, INT64)
    ordered = sorts.sort(rows.elements)  # which leaves to NumPy what it cannot do, warnings as well
    for _ in range(int(reduced(table.SUM, UFUNC_OBJECTS["equal"](counts, 0), None, INT64))):
        warn("All-NaN slice encountered", RuntimeWarning)
    return ordered, counts


def _pick(rows: Any, places: Any) -> Any:
    """Return one element of every row, or several: places are (..., M)."""
    num_rows, length = rows._layout.shape
    starts = creation.arange(0, num_rows * length, length)
    return gather.take(reshape(rows, (-1,)), UFUNC_OBJECTS["add"](places, starts), is_checked=False)


def _method(name: str) -> Any:
    try:
        return numpys._QuantileMethods[name]
    except KeyError:
        raise Unsupported("a method that NumPy refuses") from None


def _places(method: Any, name: str, n: Any, q: Any, dtype: Any) -> tuple[Any, Any, Any]:
    """Return NumPy's ranks below and above quantiles, and the weights of the latter, None where it takes the former.

    Parameters
    ----------
    method : dict
        NumPy's, of this name.
    n : int or numpy.ndarray
    q : numpy.ndarray
    dtype : numpy.dtype
        Of the elements.
    """
    virtual = np.asanyarray(method["get_virtual_index"](n, q))
    if method["fix_gamma"] is None or (name == "linear" and virtual.dtype.kind in "iu"):
        return virtual, None, None
    below, above = numpys._get_indexes(np.empty(0, dtype), virtual, n)
    # NumPy counts the last one from the end; gamma is what it makes of its own indices.
    return below, above, numpys._get_gamma(virtual, below, method)


def _lerp(a: Any, b: Any, t: Any, rest: Any) -> Any:
    """Return what NumPy interpolates, by a weight and what is left to 1: numbers, or arrays of as many dimensions."""
    compute = UFUNC_OBJECTS
    difference = compute["subtract"](b, a)
    low = compute["add"](a, compute["multiply"](difference, t))
    high = compute["subtract"](b, compute["multiply"](difference, rest))
    return where(t >= 0.5, astype(high, low._layout.dtype, copy_wanted=False), low)


def quantile_of_rows(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: Any = False,
    method: Any = "linear",
    keepdims: Any = False,
    weights: Any = None,
    weak_q: Any = False,
) -> Any:
    """Return quantiles; see `numpy.quantile`, which has looked at the arguments."""
    _check_free(overwrite_input)
    rows = _Rows(a, axis, keepdims)
    q = fetch(as_ours(q))
    if q.dtype.kind == "O":
        raise Unsupported("fractions, which are exact")
    if weights is not None:
        return _weighted(rows, q, weights, out)
    n = rows.length
    below, above, gamma = _places(_method(method), method, n, q, rows.dtype)
    wanted = [below % n] if above is None else [below % n, above % n]
    is_float = rows.dtype.kind == "f"
    ranks = np.unique(np.concatenate([np.ravel(each) for each in wanted] + [np.array([n - 1])] * is_float))
    found = at_ranks(rows.elements, ranks.astype(np.int64))
    parts = [_at(found, np.searchsorted(ranks, each)) for each in wanted]
    if above is None:
        result = parts[0]
    else:
        result = _lerp(*parts, *[_weight(each, is_weak=weak_q) for each in (gamma, 1 - gamma)])
    return rows.finish(result, q.shape, out) if not is_float else _or_nan(rows, result, _row(found, -1), q.shape, out)


def _weight(gamma: Any, *, is_weak: bool) -> Any:
    """Return NumPy's weights (...) as a number, or as an array (..., 1)."""
    return float(gamma) if is_weak else creation.asarray(gamma.reshape(*gamma.shape, 1))


def _or_nan(rows: _Rows, result: Any, last: Any, shape: tuple[int, ...], out: Any, *, as_array: bool = False) -> Any:
    """Return a result, NaN where the last of a row's sorted elements is: NumPy's single one is then that element."""
    is_nan = UFUNC_OBJECTS["isnan"](last)
    is_other = as_array or result._layout.dtype != last._layout.dtype
    if is_other and out is None and not (*shape, *rows.shape) and bool(reduced(table.ANY, is_nan)):
        return rows.finish(last, shape, out)
    return rows.finish(where(is_nan, last, result), shape, out, as_array=as_array)


def _at(found: Any, places: Any) -> Any:
    """Return rows of elements by their numbers: (R, M) and (...) -> (..., M)."""
    if not places.ndim:
        return _row(found, int(places))
    return gather.take(found, creation.asarray(places), is_checked=False)


def nanquantile_of_rows(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: Any = False,
    method: Any = "linear",
    keepdims: Any = np._NoValue,
    weights: Any = None,
    weak_q: Any = False,
) -> Any:
    """Return quantiles of what is no NaN; see `numpy.nanquantile`, which has looked at the arguments."""
    _check_free(overwrite_input)
    if as_ours(a)._layout.dtype.kind != "f":
        given = keepdims is not np._NoValue and keepdims
        return quantile_of_rows(a, q, axis, out, overwrite_input, method, given, weights, weak_q)
    rows = _Rows(a, axis, keepdims)
    q = fetch(as_ours(q))
    ordered, counts = _numbers_of(rows)
    if weights is not None:
        return _weighted(rows, q, weights, out, counts)
    num_rows = counts._layout.size
    if num_rows <= MAX_TABLE or rows.length >= MAX_TABLE:
        sizes = np.unique(fetch(counts))
        keys = sorts.searchsorted(creation.asarray(sizes), counts, is_right=False)
    else:
        sizes, keys = np.arange(rows.length + 1), counts
    n = np.maximum(sizes, 1).astype(q.dtype if q.dtype.kind == "f" else np.int64)
    below, above, gamma = _places(_method(method), method, n, q[..., np.newaxis], rows.dtype)
    n = n.astype(np.int64)

    def of_rows(values: Any) -> Any:
        table_of = creation.asarray(np.ascontiguousarray(np.broadcast_to(values, (*q.shape, n.size))))
        return gather.take(table_of, keys, q.ndim, is_checked=False)

    parts = [_pick(ordered, of_rows(each % n)) for each in (below, above) if each is not None]
    if gamma is None:
        result = parts[0]
    else:
        weights = [each.astype(rows.dtype) if weak_q else each for each in (gamma, 1 - gamma)]
        result = _lerp(*parts, *map(of_rows, weights))
    none = UFUNC_OBJECTS["equal"](counts, 0)
    return rows.finish(where(none, rows.dtype.type(np.nan), result), q.shape, out)


def _weighted(rows: _Rows, q: Any, weights: Any, out: Any, counts: Any = None) -> Any:
    """Return weighted quantiles: where the cumulative weights of sorted elements reach a share of their sum.

    Parameters
    ----------
    rows : _Rows
    q : numpy.ndarray
    weights : array_like
        That broadcast to the array.
    out : ndarray or None
    counts : ndarray, optional
        How many elements of each row are numbers; the others have no weight.
    """
    if q.size > MAX_WEIGHTED:
        raise Unsupported("more quantiles than passes are worth")
    compute, length = UFUNC_OBJECTS, rows.length
    spread = view(as_ours(weights), lambda x: np.broadcast_to(x, rows.given_shape))
    order = sorts.argsort(rows.elements)
    starts = creation.arange(0, rows.elements._layout.size, length)
    places = compute["add"](order, view(starts, lambda x: x[:, np.newaxis]))
    elements = gather.take(reshape(rows.elements, (-1,)), places, is_checked=False)
    share = astype(gather.take(reshape(rows.like(spread), (-1,)), places, is_checked=False), FLOAT64)
    if counts is not None:
        share = where(compute["isnan"](elements), 0.0, share)
    total = accumulate(table.CUMSUM, share, 1, FLOAT64)
    cdf = compute["divide"](total, view(total, lambda x: x[:, -1:]))
    if bool(reduced(table.ANY, compute["isnan"](view(cdf, lambda x: x[:, -1])))) and counts is None:
        raise ValueError("Weights included NaN, inf or were all zero.")
    cdf = astype(cdf, q.dtype) if q.dtype.kind == "f" else cdf
    cdf = where(compute["equal"](cdf, 0), q.dtype.type(-1), cdf)
    last = length - 1 if counts is None else compute["maximum"](compute["subtract"](counts, 1), 0)
    picked = []
    for value in q.ravel():
        reached = reduced(table.SUM, compute["less"](cdf, value), 1, INT64)
        picked.append(_pick(elements, compute["minimum"](reached, last)))
    result = dispatch.functions[np.stack](picked)
    if rows.dtype.kind == "f" and counts is None:
        return _or_nan(rows, result, view(elements, lambda x: x[:, -1]), q.shape, out, as_array=True)
    return rows.finish(result, q.shape, out, as_array=True)


replace(numpys, "_quantile_unchecked", quantile_of_rows)
replace(numpys_of_numbers, "_nanquantile_unchecked", nanquantile_of_rows)
for _name in ("percentile", "quantile", "nanpercentile", "nanquantile"):
    implements(_name)(rebound(getattr(np, _name)))
