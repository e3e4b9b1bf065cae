"""Reductions and scans: NumPy's functions of the reduction table's rows, which take what their methods take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oxinp._api.fronts import as_ours, cumulated, find_theirs, implements, reduced
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.results import types
from oxinp._core.manipulation.copy import astype
from oxinp._core.memory.dtypes import BOOL, INT64
from oxinp._core.ops.gather import need_kernel
from oxinp._core.reduction import scan, table
from oxinp._core.reduction.reduce import again
from oxinp._core.reduction.table import SCANNED, Arguments
from oxinp._core.ufunc.objects import UFUNC_OBJECTS
from oxinp._kernels.reduce.operators import LAST

_TRUTH = Arguments("axis out keepdims where", 3)
_SPREAD = Arguments("axis dtype out ddof keepdims where mean correction", 5)
_OTHER_ARGUMENTS = {
    **dict.fromkeys((table.ANY, table.ALL), _TRUTH),
    **dict.fromkeys((table.VAR, table.STD, table.NANVAR, table.NANSTD), _SPREAD),
}
"""Of functions that do not take what the method takes."""


def _of_numbers(row: table.ReductionRow, a: Any, axis: Any = None, out: Any = None, **options: Any) -> Any:
    """Return indices of extrema among what is no number; raise, as NumPy does, where there is none."""
    if out is not None:
        raise Unsupported("an output that must stay as it is where there is no number")
    found = reduced(row, a, axis, **options)
    if bool((found == LAST).any()):
        raise ValueError("All-NaN slice encountered")
    return found


def _of_arrays(row: table.ReductionRow, a: Any, *args: Any, **options: Any) -> Any:
    """Return extrema of an array but for NaN; in what is none, NumPy looks for those of what it puts in NaN's place."""
    if type(a) is not types.ndarray and type(a) is not np.ndarray:
        raise Unsupported("a scalar or a sequence, in which NumPy replaces NaN")
    return reduced(row, a, *args, **options)


def _front(row: Any, arguments: Arguments, compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return NumPy's function of a row: an array_like, and what the row takes."""

    def function(a: Any, *args: Any, **kwargs: Any) -> Any:
        return compute(row, a, **arguments.given(args, kwargs))

    function.__wrapped__ = find_theirs(row.name)  # type: ignore[attr-defined] # whose signature it has
    return function


def _again(row: Any, ask: Callable[..., Any] = again) -> Callable[..., Any]:
    """Return what is asked first for an array that is on the device."""
    return lambda a, *args, **kwargs: ask(row, a, args, kwargs)


_COMPUTED_BY = {
    **dict.fromkeys((table.NANARGMAX, table.NANARGMIN), _of_numbers),
    **dict.fromkeys((table.NANMAX, table.NANMIN), _of_arrays),
}
for _row in table.REDUCTIONS:
    _compute = _COMPUTED_BY.get(_row, reduced)
    _ahead = _again(_row) if _compute is reduced else None
    implements(_row.name, *_row.aliases, ahead=_ahead)(
        _front(_row, _OTHER_ARGUMENTS.get(_row, _row.arguments), _compute)
    )
for _scan in (table.CUMSUM, table.CUMPROD, table.NANCUMSUM, table.NANCUMPROD):
    implements(_scan.name, ahead=_again(_scan, scan.again))(_front(_scan, SCANNED, cumulated))


@implements("ptp")
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = np._NoValue) -> Any:
    """See `numpy.ptp`."""
    high, low = (reduced(row, a, axis, None, None, keepdims=keepdims) for row in (table.MAX, table.MIN))
    return UFUNC_OBJECTS["subtract"](high, low, out=out)


def _counted(a: Any, *args: Any, **kwargs: Any) -> Any:
    """Return how many truth values on the device are true, where their like have been counted; None for others."""
    if _COUNTS_ARE_INTS or (a._known or a._layout).dtype is not BOOL:
        return None
    return again(table.SUM, a, args, kwargs, INT64)


@implements("count_nonzero", ahead=_counted)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    """See `numpy.count_nonzero`."""
    array = as_ours(a)
    need_kernel(array._layout)
    number = reduced(table.SUM, astype(array, BOOL, copy_wanted=False), axis, INT64, keepdims=keepdims)
    return int(number) if _COUNTS_ARE_INTS and axis is None and not keepdims else number


_COUNTS_ARE_INTS = type(np.count_nonzero(np.ones(1))) is int  # until NumPy 2.3
