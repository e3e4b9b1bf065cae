"""Counts: `bincount` and `histogram`. Counters are integers, so that the same input gives the same result."""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import Any

import numpy as np

from oxinp._core.lazy import placement
from oxinp._core.lazy.expr import Unsupported, new_table, remember
from oxinp._core.lazy.handle import Handle
from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.lazy.record import check_placement
from oxinp._core.lazy.views import view_at
from oxinp._core.manipulation.copy import astype, own
from oxinp._core.manipulation.shape import ravel
from oxinp._core.memory.dtypes import DEVICE_TYPES, FLOAT16, FLOAT32, FLOAT64, INT64
from oxinp._core.memory.layout import Layout
from oxinp._core.ops import binned, creation
from oxinp._core.ops.extrema import extrema
from oxinp._core.ops.perform import perform_on_device
from oxinp._core.ops.sort import searchsorted
from oxinp._core.ops.where import where
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.table import MAX
from oxinp._core.ufunc.object import OBJECTS
from oxinp._kernels.plan import Plan
from oxinp._runtime import hooks

INT32 = np.dtype(np.int32)
_UNSIGNED = {np.dtype(name).itemsize: np.dtype(name) for name in ("u1", "u2", "u4", "u8")}
MAX_BINS = 1 << 31
MAX_MISSES = 2  # of a guess, after which it is not made any more
MAX_EDGES, MAX_EDGES_NBYTES = 16, 1 << 14  # arrays of edges that are kept, and bytes of each
MAX_EDGE = 2.0**126  # between which, and its negative, no distance overflows
MAX_EXACT = 2.0**53  # of integers that f64 holds


def _infer_count(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001
    return (Layout.of(INT64, (parameters[0],)),)


def _plan_count(bound: BoundOp) -> Plan:
    (elements, *edges), (num_bins, is_uniform) = (graph.layout for graph in bound.graphs), bound.parameters
    planned: Plan = importlib.import_module("oxinp._kernels.sort.count").count(
        elements.size,
        num_bins,
        DEVICE_TYPES[elements.dtype],
        DEVICE_TYPES[edges[0].dtype] if edges else None,
        placement.device().capability,
        is_uniform=is_uniform,
    )
    return planned


COUNT = Op("count", _plan_count, _infer_count)


def _infer_bins(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001
    return (Layout.of(INT32, layouts[0].shape),)


def _plan_bins(bound: BoundOp) -> Plan:
    elements, edges = (graph.layout for graph in bound.graphs)
    family = importlib.import_module("oxinp._kernels.sort.bins")
    spec = family.BinsSpec(DEVICE_TYPES[elements.dtype], DEVICE_TYPES[edges.dtype])
    planned: Plan = family.bins(elements.size, edges.size - 2, spec, placement.device().capability)
    return planned


BINS = Op("numbers of bins", _plan_bins, _infer_bins)


def _check(array: Handle) -> None:
    layout = array._known or array._layout
    if layout.dtype not in DEVICE_TYPES or not layout.size or not layout.is_aligned:
        raise Unsupported(f"dtype {layout.dtype} has no kernels, or there are no elements")
    if placement.may_be_host(array._held or array._storage):
        check_placement(array)


def bincount(array: Handle, min_length: int, weights: Handle | None = None) -> Any:
    """Return how often each number is there, or the sums of its weights in their order; see `numpy.bincount`.

    Waits for the greatest number, or where as many numbers have been counted before, to know that it is the same.

    Raises
    ------
    Unsupported
        The device has no kernel, or a number is negative, for which NumPy raises.
    """
    _check(array)
    dtype = array._layout.dtype
    if array._layout.ndim != 1 or dtype.kind not in "iu" or dtype == np.uint64:
        raise Unsupported("what NumPy refuses")
    if weights is not None:
        given = weights._layout
        if given.shape != array._layout.shape or not (given.dtype is FLOAT64 or np.can_cast(given.dtype, FLOAT64)):
            raise Unsupported("what NumPy refuses")
        weights = weights if given.dtype is FLOAT64 else astype(weights, FLOAT64, copy_wanted=False)
    if min_length > (1 if weights is not None else binned.MAX_COUNTERS):  # whoever says it has as a rule no more
        found = _within(array, weights, min_length)
        if found is not None:
            return found
    layout = array._layout
    guess = _GUESSES.get((layout, min_length))
    if guess is not None and guess.num_misses < MAX_MISSES:
        found = _within(array, weights, guess.num_bins, is_reached=True)
        if found is not None:
            return found
        guess.num_misses += 1
    # negative numbers are the greatest of unsigned ones
    unsigned = Layout.at(_UNSIGNED[dtype.itemsize], layout.shape, layout.strides, layout.offset)
    greatest = int(reduce(MAX, view_at(array, unsigned)))
    if (dtype.kind == "i" and greatest >> (8 * dtype.itemsize - 1)) or greatest >= MAX_BINS:
        raise Unsupported("negative numbers, which NumPy refuses, or too many bins")
    num_bins = max(greatest + 1, min_length)
    if greatest >= min_length:
        if guess is None:
            guess = Guess()
            remember(_GUESSES, (layout, min_length), guess)
        guess.num_bins = num_bins
    if weights is not None:
        return binned.sums(array, weights, num_bins)
    if binned.are_grouped(array, num_bins):
        return binned.counts(array, num_bins)
    return perform_on_device(COUNT, (array,), (num_bins, False))


class Guess:
    """How many bins numbers of a layout had the last time, and how often that was wrong the next time."""

    __slots__ = ("num_bins", "num_misses")

    def __init__(self) -> None:
        self.num_bins = self.num_misses = 0


_GUESSES = new_table()
"""Guesses by the layout of numbers and the least bins that are asked for."""


def _within(array: Handle, weights: Handle | None, count: int, *, is_reached: bool = False) -> Any:
    """Return `bincount` of numbers below a count; None where there are others, or where this is not the fastest."""
    if is_reached and weights is None and not binned.are_grouped(array, count):
        return None
    try:
        return binned.sums_within(array, weights, count, is_reached=is_reached)
    except Unsupported:
        return None


def edges_of(array: Handle, bins: Any, limits: Any) -> tuple[np.ndarray[Any, Any], bool]:
    """Return NumPy's edges of bins, and whether they have equal distances; see `numpy.histogram_bin_edges`.

    Parameters
    ----------
    array : Handle
    bins : int or array_like
        Not text.
    limits : tuple or None
        Of the range; else the extrema of the array, for which this waits.
    """
    _check(array)
    dtype = (array._known or array._layout).dtype
    if isinstance(bins, str) or dtype.kind not in "iuf":
        raise Unsupported("estimated bins, or elements that NumPy converts or refuses")
    if (
        type(bins) is int
        and type(limits) is tuple
        and len(limits) == 2
        and {type(end) for end in limits} <= {int, float}
    ):
        return _equidistant(dtype, bins, *limits).copy(), True
    is_uniform = type(bins) is int or np.ndim(bins) == 0
    if limits is not None or not is_uniform:
        return np.histogram_bin_edges(np.empty(0, dtype), bins, limits), is_uniform
    seen = extrema(array)
    is_kept = type(bins) is int and 0 < bins * seen.itemsize < MAX_EDGES_NBYTES
    return (_spanning(dtype, seen.tobytes(), bins).copy() if is_kept else _between(seen, bins)), True


@lru_cache(MAX_EDGES)
def _spanning(dtype: np.dtype[Any], seen: bytes, bins: int) -> np.ndarray[Any, Any]:
    """Return NumPy's edges from the least element to the greatest one."""
    return _between(np.frombuffer(seen, dtype), bins)


def _between(seen: np.ndarray[Any, Any], bins: Any) -> np.ndarray[Any, Any]:
    least, greatest = seen
    if type(bins) is int and bins > 0 and seen.dtype in (FLOAT32, FLOAT64) and np.abs(seen).max() < MAX_EDGE:
        edges = np.linspace(least, greatest, bins + 1, dtype=seen.dtype)  # NumPy's way, without what it looks at before
        if (edges[:-1] < edges[1:]).all():
            return edges
    return np.histogram_bin_edges(seen, bins)


@lru_cache(MAX_EDGES, typed=True)
def _equidistant(dtype: np.dtype[Any], bins: int, least: float, greatest: float) -> np.ndarray[Any, Any]:
    """Return NumPy's edges between limits, which take longer to find than a kernel to count a million elements."""
    return np.histogram_bin_edges(np.empty(0, dtype), bins, (least, greatest))


def weighted_histogram(array: Handle, edges: np.ndarray[Any, Any], weights: Handle, *, is_uniform: bool) -> Any:
    """Return the sums of the weights of elements between edges, with the last one; see `numpy.histogram`."""
    _check(array)
    layout, given, count = array._known or array._layout, weights._known or weights._layout, edges.size - 1
    compared, source = _compared(layout.dtype, edges), given.dtype
    if given.shape != layout.shape or not (source is FLOAT64 or np.can_cast(source, FLOAT64)):
        raise Unsupported("weights that do not fit, or are no real numbers")
    elements = array if layout.ndim == 1 else ravel(array)
    numbers = _numbers(elements, edges, compared) if is_uniform else None
    if numbers is None:
        numbers = _searched(elements, edges.astype(compared), count)
    wide = weights if source is FLOAT64 else astype(weights, FLOAT64, copy_wanted=False)
    total = binned.sums(numbers, wide if given.ndim == 1 else ravel(wide), count + 1)
    inside = view_at(total, Layout.of(FLOAT64, (count,)))
    return own(inside) if source is FLOAT64 else astype(inside, source)


def _numbers(elements: Handle, edges: np.ndarray[Any, Any], compared: np.dtype[Any]) -> Any:
    """Return the bin number of each element, the number of bins for elements outside; None if edges have no kernel."""
    given, is_estimated = _edges(edges, compared, is_uniform=True)
    return perform_on_device(BINS, (elements, given)) if is_estimated else None


def _searched(elements: Handle, edges: np.ndarray[Any, Any], count: int) -> Any:
    """Return the bin numbers that `_numbers` does, by binary search, for edges at any distances."""
    compute, elements = OBJECTS, astype(elements, edges.dtype, copy_wanted=False)
    found = searchsorted(creation.asarray(edges), elements, is_right=True)
    found = compute["minimum"](compute["subtract"](found, 1), count - 1)
    is_in = compute["logical_and"](
        compute["greater_equal"](elements, edges[0]), compute["less_equal"](elements, edges[-1])
    )
    return where(is_in, found, count)


def _compared(dtype: np.dtype[Any], edges: np.ndarray[Any, Any]) -> np.dtype[Any]:
    """Return the dtype that elements and edges are compared in."""
    joint = np.result_type(edges.dtype, dtype)
    if joint.kind in "iu" and edges.size and float(np.abs(edges).max()) <= MAX_EXACT:
        joint = FLOAT64  # whatever an element is rounded to, it stays on its side of such edges
    if joint not in (FLOAT16, FLOAT32, FLOAT64) or not 1 < edges.size <= MAX_BINS:
        raise Unsupported("edges that are no floats of the device's, or no bins")
    return FLOAT32 if joint in (FLOAT16, FLOAT32) else FLOAT64


def histogram(array: Handle, edges: np.ndarray[Any, Any], *, is_uniform: bool) -> Any:
    """Return how many elements are between edges, with the last one; see `numpy.histogram`."""
    _check(array)
    layout = array._known or array._layout
    given, is_estimated = _edges(edges, _compared(layout.dtype, edges), is_uniform=is_uniform)
    elements = array if layout.ndim == 1 else ravel(array)
    return perform_on_device(COUNT, (elements, given), (edges.size - 1, is_estimated))


def _edges(edges: np.ndarray[Any, Any], compared: np.dtype[Any], *, is_uniform: bool) -> tuple[Handle, bool]:
    """Return edges as kernels take them, and whether they estimate bins."""
    find = _given if edges.nbytes <= MAX_EDGES_NBYTES else _given.__wrapped__
    return find(edges.astype(compared).tobytes(), compared, is_uniform, placement.keyed(None))


@lru_cache(MAX_EDGES)
def _given(edges: bytes, dtype: np.dtype[Any], is_uniform: bool, device: Any) -> tuple[Handle, bool]:  # noqa: ARG001
    """Return edges as the kernel takes them, and whether it estimates bins; they stay on their device."""
    wide = np.frombuffer(edges, dtype)
    deviation = importlib.import_module("oxinp._kernels.sort.count").deviation(wide) if is_uniform else None
    given = creation.asarray(wide if deviation is None else np.append(wide, wide.dtype.type(deviation)))
    return given, deviation is not None


hooks.before_leaving.append(_given.cache_clear)  # `leave_device` does not find what `gc.freeze` hides
