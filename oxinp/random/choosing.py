"""Choice with replacement on the device: places, drawn as NumPy draws them, and what is there."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from oxinp._core.array.ndarray import ndarray
from oxinp._core.lazy.placement import starts_on_device
from oxinp._core.ops import gather
from oxinp._core.ops.creation import asarray
from oxinp._core.ops.sort import searchsorted
from oxinp.random.methods import shape_of
from oxinp.random.transformed import FLOAT64, INTEGERS


def choose(
    a: Any,
    size: Any,
    p: Any,
    axis: int,
    *,
    places: Callable[[int, tuple[int, ...]], Any],
    uniforms: Callable[[tuple[int, ...]], Any],
    judge: Callable[[int, Any], Any],
) -> Any:
    """Choose with replacement; None where NumPy is to choose, or to say what is wrong.

    Parameters
    ----------
    a, size, p, axis
        As of `numpy.random.Generator.choice`.
    places : callable
        ``places(extent, shape)`` -> integers below the extent from the device, or None.
    uniforms : callable
        ``uniforms(shape)`` -> uniform numbers from the device, or None.
    judge : callable
        ``judge(extent, p)`` raises where NumPy does.
    """
    shape = shape_of(size)
    if shape is None or not starts_on_device(math.prod(shape) * FLOAT64.itemsize) or not isinstance(axis, int):
        return None
    if type(a) in INTEGERS:
        among, extent = None, int(a)
    elif isinstance(a, ndarray | np.ndarray) and a.dtype.kind in "biufc" and -a.ndim <= axis < a.ndim:
        among, extent = asarray(a), a.shape[axis]
    else:
        return None
    if extent < 2:
        return None
    index = places(extent, shape) if p is None else _by_chances(np.asarray(p), extent, shape, uniforms, judge)
    if index is None or among is None:
        return index
    return gather.take(among, index, axis, is_checked=False)


def _by_chances(
    p: np.ndarray[Any, Any],
    extent: int,
    shape: tuple[int, ...],
    uniforms: Callable[..., Any],
    judge: Callable[..., Any],
) -> Any:
    """Places by their chances, which are added up on the host, one after the other as NumPy does."""
    judge(extent, p)
    sums = p.astype(FLOAT64).cumsum()
    sums /= sums[-1]
    drawn = uniforms(shape)
    return None if drawn is None else searchsorted(asarray(sums), drawn, is_right=True)


__all__ = ["choose"]
