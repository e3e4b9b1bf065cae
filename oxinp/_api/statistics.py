"""Statistics: averages, variances, ranges."""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._api.fronts import as_ours, implements, reduced
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.ops import count
from oxinp._core.ops.creation import asarray
from oxinp._core.reduction import table
from oxinp._core.ufunc.objects import UFUNC_OBJECTS

_NoValue = np._NoValue


@implements("mean")
def mean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = _NoValue,
    *,
    where: Any = _NoValue,
) -> Any:
    """See `numpy.mean`."""
    return reduced(table.MEAN, a, axis, dtype, out, keepdims=keepdims, where=where)


@implements("nanmean")
def nanmean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = _NoValue,
    *,
    where: Any = _NoValue,
) -> Any:
    """See `numpy.nanmean`."""
    return reduced(table.NANMEAN, a, axis, dtype, out, keepdims=keepdims, where=where)


def _spread(
    row: table.ReductionRow, a: Any, axis: Any, dtype: Any, out: Any, ddof: Any, correction: Any, **options: Any
) -> Any:
    if correction is not _NoValue:
        if ddof != 0:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    return reduced(row, a, axis, dtype, out, ddof=ddof, **options)


@implements("var")
def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = _NoValue,
    *,
    where: Any = _NoValue,
    mean: Any = _NoValue,
    correction: Any = _NoValue,
) -> Any:
    """See `numpy.var`."""
    return _spread(table.VAR, a, axis, dtype, out, ddof, correction, keepdims=keepdims, where=where, mean=mean)


@implements("std")
def std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = _NoValue,
    *,
    where: Any = _NoValue,
    mean: Any = _NoValue,
    correction: Any = _NoValue,
) -> Any:
    """See `numpy.std`."""
    return _spread(table.STD, a, axis, dtype, out, ddof, correction, keepdims=keepdims, where=where, mean=mean)


@implements("nanvar")
def nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = _NoValue,
    *,
    where: Any = _NoValue,
    mean: Any = _NoValue,
    correction: Any = _NoValue,
) -> Any:
    """See `numpy.nanvar`."""
    return _spread(table.NANVAR, a, axis, dtype, out, ddof, correction, keepdims=keepdims, where=where, mean=mean)


@implements("nanstd")
def nanstd(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = _NoValue,
    *,
    where: Any = _NoValue,
    mean: Any = _NoValue,
    correction: Any = _NoValue,
) -> Any:
    """See `numpy.nanstd`."""
    return _spread(table.NANSTD, a, axis, dtype, out, ddof, correction, keepdims=keepdims, where=where, mean=mean)


@implements("ptp")
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = _NoValue) -> Any:
    """See `numpy.ptp`."""
    high, low = (reduced(row, a, axis, None, None, keepdims=keepdims) for row in (table.MAX, table.MIN))
    return UFUNC_OBJECTS["subtract"](high, low, out=out)


@implements("bincount")
def bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Any:
    """See `numpy.bincount`."""
    if not isinstance(minlength, int | np.integer) or minlength < 0:
        raise Unsupported("what NumPy refuses")
    given = None if weights is None else as_ours(weights)
    return count.bincount(as_ours(x), int(minlength), given)


@implements("histogram")
def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """See `numpy.histogram`."""
    if isinstance(a, np.ndarray) and type(a) is not np.ndarray:
        raise Unsupported("a subclass to pass through")
    array = as_ours(a)
    edges, is_uniform = count.edges_of(array, bins, range)
    if weights is None:
        counts = count.histogram(array, edges, is_uniform=is_uniform)
    else:
        counts = count.weighted_histogram(array, edges, as_ours(weights))
    if density:
        widths = asarray(np.array(np.diff(edges), float))
        divide = UFUNC_OBJECTS["divide"]
        counts = divide(divide(counts, widths), reduced(table.SUM, counts))
    return counts, asarray(edges)
