"""Mathematical functions: reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._api.fronts import as_ours, implements
from oxinp._core.exchange import is_array
from oxinp._core.expr import Unsupported
from oxinp._core.ops import reduce as ops

_NoValue = np._NoValue


def _reduced(row: ops.ReductionRow, a: Any, axis: Any, dtype: Any, out: Any, keepdims: Any, *unsupported: Any) -> Any:
    if any(value is not _NoValue for value in unsupported):
        raise Unsupported("`initial` or `where`")
    if (out is not None and not is_array(out)) or (isinstance(a, np.ndarray) and type(a) is not np.ndarray):
        raise Unsupported("a NumPy array to write to, or a subclass to pass through")
    return ops.reduce(row, as_ours(a), axis, dtype, out, keepdims=False if keepdims is _NoValue else bool(keepdims))


@implements("sum")
def sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = _NoValue,
    initial: Any = _NoValue,
    where: Any = _NoValue,
) -> Any:
    """See `numpy.sum`."""
    return _reduced(ops.SUM, a, axis, dtype, out, keepdims, initial, where)


@implements("max", "amax")
def max(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: Any = _NoValue,
    initial: Any = _NoValue,
    where: Any = _NoValue,
) -> Any:
    """See `numpy.max`."""
    return _reduced(ops.MAX, a, axis, None, out, keepdims, initial, where)
