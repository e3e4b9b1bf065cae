"""Elements and arrays several times over: `repeat` and `tile`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from oxinp._api.fronts import as_ours, implements
from oxinp._api.rebound import rebound
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import Handle
from oxinp._core.lazy.record import check_placement
from oxinp._core.lazy.results import types
from oxinp._core.lazy.views import view, view_at
from oxinp._core.manipulation import shape
from oxinp._core.manipulation.copy import copy, own
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.view_functions import Move, ViewRow, view_layout
from oxinp._core.ops import creation, gather, sort

_MAX_NDIM = 64  # NumPy's


@implements("repeat")
def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    """See `numpy.repeat`: for one number of repeats, a copy of a broadcast view, else elements by index."""
    a = as_ours(a)
    if axis is None:
        a, axis = a if a._layout.ndim == 1 else shape.ravel(a), 0
    axis = normalize_axis_index(axis, a._layout.ndim)
    if not isinstance(repeats, int | np.integer):
        return _repeated(a, as_ours(repeats), axis)
    if repeats < 0:
        raise Unsupported("what NumPy refuses")
    count, lengths = int(repeats), a._layout.shape
    made = copy(_stretched(a, (axis + 1,), (count,)))
    return own(shape.reshape(made, (*lengths[:axis], lengths[axis] * count, *lengths[axis + 1 :])))


def _stretch(layout: Layout, axes: tuple[int, ...], counts: tuple[int, ...]) -> Move:
    lengths, strides = list(layout.shape), list(layout.strides)
    for axis, count in zip(reversed(axes), reversed(counts), strict=True):
        lengths.insert(axis, count)
        strides.insert(axis, 0)
    return tuple(lengths), tuple(strides), layout.offset


_STRETCH = ViewRow(_stretch, ("axes", "counts"), 2)


def _stretched(a: Handle, axes: tuple[int, ...], counts: tuple[int, ...]) -> Any:
    """Return a view with broadcast axes of some lengths, each of which is put before one of an array's axes."""
    layout = view_layout(_STRETCH, a._layout, (axes, counts), {}) if (a._held or a._storage).host is None else None
    if layout is not None:
        return view_at(a, layout)
    wide, _, _ = _stretch(a._layout, axes, counts)
    added = tuple([axis + i for i, axis in enumerate(axes)])
    return view(a, lambda seen: np.broadcast_to(np.expand_dims(seen, added), wide))


_numpys_tile = rebound(np.tile)


def _size_of_tiles(args: tuple[Any, ...]) -> float:
    """Return how many elements `tile` makes of an array; infinity for what is more than integers."""
    counts = args[1] if len(args) == 2 and type(args[1]) is tuple else args[1:]
    if not counts or type(args[0]) is not types.ndarray or any(type(count) is not int for count in counts):
        return math.inf
    return math.prod((args[0].size, *counts))


@implements("tile", most=_size_of_tiles)
def tile(A: Any, reps: Any) -> Any:
    """See `numpy.tile`: of what is on the device, one copy of a broadcast view, anything else by NumPy's code."""
    counts = reps if type(reps) is tuple else (reps,)
    if type(A) is not types.ndarray or (A._held or A._storage).host is not None:
        return _numpys_tile(A, reps)
    for count in counts:
        if type(count) is not int or count < 1:
            return _numpys_tile(A, reps)
    lengths = A._layout.shape
    ndim = max(len(lengths), len(counts))
    counts = (1,) * (ndim - len(counts)) + counts
    repeated = [axis for axis, count in enumerate(counts) if count > 1]
    if not repeated or not A._layout.size or ndim + len(repeated) > _MAX_NDIM:
        return _numpys_tile(A, reps)
    lead = ndim - len(lengths)
    places = tuple([max(0, axis - lead) for axis in repeated])
    made = copy(_stretched(A, places, tuple([counts[axis] for axis in repeated])))
    wide = [count * n for count, n in zip(counts, (1,) * lead + lengths, strict=True)]
    return shape.reshape(made, tuple(wide))


def _repeated(a: Any, counts: Any, axis: int) -> Any:
    """Return slices of an axis, each as often as its count says; waits for the sum of the counts."""
    length, dtype = a._layout.shape[axis], counts._layout.dtype
    if counts._layout.shape != (length,) or dtype.kind not in "iub" or dtype == np.uint64 or not length:
        raise Unsupported("one count for all in an array, or what NumPy refuses")
    check_placement(a, counts)
    if dtype.kind == "i" and int(counts.min()) < 0:
        raise Unsupported("what NumPy refuses")
    ends = counts.cumsum(dtype=np.int64)
    if not (total := int(ends[-1])):
        raise Unsupported("nothing to repeat")
    source = sort.searchsorted(ends, creation.arange(total), is_right=True)
    return gather.take(a, source, axis, is_checked=False)
