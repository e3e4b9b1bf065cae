"""Mathematical functions: sums, products, extrema, rounding, limits."""

from __future__ import annotations

import operator
from functools import cache
from typing import Any

import numpy as np

from oxinp._api.fronts import as_ours, implements
from oxinp._api.rebound import rebound
from oxinp._core.host.exchange import is_array
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.placement import may_be_host
from oxinp._core.lazy.record import express, settled
from oxinp._core.lazy.results import wrap_pending
from oxinp._core.manipulation.shape import ravel
from oxinp._core.ufunc.objects import UFUNC_OBJECTS

_NoValue = np._NoValue


@cache
def _range_of(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the least and the largest integer of a dtype."""
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _clipped(a: Any, *limits: Any, **options: Any) -> Any:
    """Return an array that is on the device between two numbers of Python's; None for anything else."""
    if options or len(limits) != 2 or not _NUMBERS.issuperset(map(type, limits)):
        return None
    layout = a._known or a._layout
    if layout.dtype.kind in "iu":
        least, largest = _range_of(layout.dtype)
        if limits[0] <= least or limits[1] >= largest:
            return None
    if not layout.ndim or may_be_host(a._held or a._storage):
        return None
    return settled(wrap_pending(express(_CLIP._operations_for((a, *limits))[0], (a, *limits))))


_CLIP = UFUNC_OBJECTS["clip"]
_NUMBERS = frozenset({int, float})


@implements("clip", ahead=_clipped)
def clip(
    a: Any,
    a_min: Any = _NoValue,
    a_max: Any = _NoValue,
    out: Any = None,
    *,
    min: Any = _NoValue,
    max: Any = _NoValue,
    **kwargs: Any,
) -> Any:
    """See `numpy.clip`."""
    if (a_min is _NoValue) != (a_max is _NoValue) or (a_min is not _NoValue and min is not max):
        raise Unsupported("what NumPy refuses")
    low, high = (min, max) if a_min is _NoValue else (a_min, a_max)
    low, high = (None if limit is _NoValue else limit for limit in (low, high))
    if out is not None and not is_array(out):
        raise Unsupported("a NumPy array to write to")
    a = as_ours(a)
    if a._layout.dtype.kind in "iu":  # Python integers beyond the dtype limit nothing
        least, largest = _range_of(a._layout.dtype)
        low = None if type(low) is int and low <= least else low
        high = None if type(high) is int and high >= largest else high
    limits = [limit for limit in (low, high) if limit is not None]
    name = ("positive", "minimum" if low is None else "maximum", "clip")[len(limits)]
    return UFUNC_OBJECTS[name](a, *limits, out=out, **kwargs)


@implements("round", "around")
def round(a: Any, decimals: Any = 0, out: Any = None) -> Any:
    """See `numpy.round`, whose formula this is: scaled by a power of ten, rounded to even, scaled back."""
    if (out is not None and not is_array(out)) or (isinstance(a, np.ndarray) and type(a) is not np.ndarray):
        raise Unsupported("a NumPy array to write to, or a subclass to pass through")
    a = as_ours(a)
    decimals = operator.index(decimals)
    kind = a._layout.dtype.kind
    if kind not in "iuf" or (kind != "f" and decimals < 0) or out is not None:
        raise Unsupported("an `out`, or dtypes that NumPy rounds in other ways")
    if kind != "f":
        return a.copy("K") if a._layout.ndim else a.copy()[()]
    rint = UFUNC_OBJECTS["rint"]
    if decimals == 0:
        return rint(a)
    if not a._layout.is_contiguous and not a._layout.is_fortran:
        a = a.copy()  # which are the two orders that NumPy keeps
    scale = 10.0 ** abs(decimals)
    return rint(a * scale) / scale if decimals > 0 else rint(a / scale) * scale


def _difference(a: Any, n: Any = 1, axis: Any = -1, *others: Any, **options: Any) -> Any:
    """Return the differences of neighbours in numbers that are on the device; None for anything else."""
    layout = a._known or a._layout
    if others or options or type(n) is not int or n != 1 or type(axis) is not int or layout.dtype.kind not in "iufc":
        return None
    if not -layout.ndim <= axis < layout.ndim:
        return None
    before = (slice(None),) * (axis % layout.ndim)
    return a[(*before, slice(1, None))] - a[(*before, slice(None, -1))]  # as NumPy's code has it


implements("diff", ahead=_difference)(rebound(np.diff))


@implements("ediff1d")
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """See `numpy.ediff1d`."""
    if to_end is not None or to_begin is not None or (isinstance(ary, np.ndarray) and type(ary) is not np.ndarray):
        raise Unsupported("what to begin and end with, or a subclass to pass through")
    ary = ravel(as_ours(ary))
    return ary[1:] - ary[:-1]
