"""Statistics: averages, variances, ranges."""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._api.fronts import as_ours, implements, reduced
from oxinp._core.host.exchange import is_array
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import fetch
from oxinp._core.lazy.results import types
from oxinp._core.ops import count
from oxinp._core.ops.creation import asarray, from_host
from oxinp._core.reduction import table
from oxinp._core.ufunc.objects import UFUNC_OBJECTS

_NoValue = np._NoValue


@implements("bincount")
def bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Any:
    """See `numpy.bincount`."""
    if not isinstance(minlength, int | np.integer) or minlength < 0:
        raise Unsupported("what NumPy refuses")
    given = None if weights is None else as_ours(weights)
    return count.bincount(as_ours(x), int(minlength), given)


def _sums(a: Any, edges: Any, weights: Any, *, is_uniform: bool) -> Any:
    """Return how many elements are between edges of NumPy's, or the sums of their weights if there are any."""
    if weights is None:
        return count.histogram(a, edges, is_uniform=is_uniform)
    return count.weighted_histogram(a, edges, weights, is_uniform=is_uniform)


def _histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """Do as `histogram` does of arrays of ours, for edges with equal distances; None for anything else."""
    if type(bins) is not int or density or (weights is not None and type(weights) is not types.ndarray):
        return None
    edges, is_uniform = count.edges_of(a, bins, range)
    if type(edges) is not np.ndarray:  # but ours, of limits that are
        return None
    return _sums(a, edges, weights, is_uniform=is_uniform), from_host(edges)


@implements("histogram", ahead=_histogram)
def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """See `numpy.histogram`."""
    if isinstance(a, np.ndarray) and type(a) is not np.ndarray:
        raise Unsupported("a subclass to pass through")
    array = as_ours(a)
    if isinstance(bins, str) and weights is None and array._layout.dtype.kind in "iuf":
        edges, is_uniform = fetch(np.histogram_bin_edges(array, bins, range)), True  # type: ignore[arg-type]
    else:
        edges, is_uniform = count.edges_of(array, bins, range)
    on_host = fetch(edges) if is_array(edges) else edges
    counts = _sums(array, on_host, None if weights is None else as_ours(weights), is_uniform=is_uniform)
    if density:
        widths = asarray(np.array(np.diff(on_host), float))
        divide = UFUNC_OBJECTS["divide"]
        counts = divide(divide(counts, widths), reduced(table.SUM, counts))
    return counts, asarray(edges)
