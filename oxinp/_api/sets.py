"""Set routines: the distinct elements of arrays."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from oxinp._api.fronts import as_ours, implements
from oxinp._core.array import dispatch
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.ops.sort import Unique


def _distinct(a: Any, *, with_places: bool, equal_nan: bool) -> Unique:
    if isinstance(a, np.ndarray) and type(a) is not np.ndarray:
        raise Unsupported("a subclass to pass through")
    return Unique(as_ours(a), with_places=with_places, equal_nan=bool(equal_nan))


@implements("unique")
def unique(
    ar: Any,
    return_index: Any = False,
    return_inverse: Any = False,
    return_counts: Any = False,
    axis: Any = None,
    *,
    equal_nan: Any = True,
    sorted: Any = True,
) -> Any:
    """See `numpy.unique`; the elements are sorted whether that is asked for or not."""
    if axis is not None:
        raise Unsupported("rows")
    del sorted
    found = _distinct(ar, with_places=bool(return_index or return_inverse), equal_nan=equal_nan)
    wanted = [found.values]
    if return_index:
        wanted.append(found.index)
    if return_inverse:
        wanted.append(found.inverse)
    if return_counts:
        wanted.append(found.counts)
    return wanted[0] if len(wanted) == 1 else tuple(wanted)


@implements("unique_values", is_hosted=False)
def unique_values(x: Any, /) -> Any:
    """See `numpy.unique_values`; sorted, as others have it and NumPy had it before it left the order open."""
    return dispatch.functions[np.unique](x, equal_nan=False)


@implements("unique_counts")
def unique_counts(x: Any, /) -> Any:
    """See `numpy.unique_counts`."""
    found = _distinct(x, with_places=False, equal_nan=False)
    return _result("unique_counts")(found.values, found.counts)


@implements("unique_inverse")
def unique_inverse(x: Any, /) -> Any:
    """See `numpy.unique_inverse`."""
    found = _distinct(x, with_places=True, equal_nan=False)
    return _result("unique_inverse")(found.values, found.inverse)


@implements("unique_all")
def unique_all(x: Any, /) -> Any:
    """See `numpy.unique_all`."""
    found = _distinct(x, with_places=True, equal_nan=False)
    return _result("unique_all")(found.values, found.index, found.inverse, found.counts)


@cache
def _result(name: str) -> Any:
    """Return NumPy's class of what a function returns."""
    return type(getattr(np, name)(np.zeros(1)))
