"""Order statistics: the elements that have some ranks among those of a row, NaN last, and partitions by one of them.

Few ranks of few long rows are found digit by digit, without moving elements; else rows are sorted.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import Handle
from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.lazy.placement import device
from oxinp._core.lazy.record import check_placement
from oxinp._core.lazy.views import view
from oxinp._core.memory.dtypes import DEVICE_TYPES, INT64
from oxinp._core.memory.layout import Layout
from oxinp._core.ops import creation, gather, sort
from oxinp._core.ops.perform import perform_on_device
from oxinp._kernels.plan import Plan

MIN_LENGTH = 1 << 15
"""Of rows: a block sorts shorter ones without passes over memory."""

MAX_RANKS, MAX_ROWS = 8, 1024
MAX_PARTITIONED = (1 << 31) - 1


def _infer(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:
    return (Layout.of(layouts[0].dtype, (len(parameters), layouts[0].shape[0])),)


def _plan(bound: BoundOp) -> Plan:
    layout = bound.graphs[0].layout
    make = importlib.import_module("oxinp._kernels.sort.select").select
    planned: Plan = make(*layout.shape, bound.parameters, DEVICE_TYPES[layout.dtype], device().capability)
    return planned


SELECT_RANKS = Op("order statistics", _plan, _infer)


def at_ranks(rows: Handle, ranks: np.ndarray[Any, Any]) -> Any:
    """Return the elements of some ranks.

    Parameters
    ----------
    rows : Handle, (M, N)
        Real numbers.
    ranks : numpy.ndarray, (R,), int64
        From 0 to N - 1.

    Returns
    -------
    Handle, (R, M)
    """
    layout = rows._layout
    if layout.dtype not in DEVICE_TYPES or not layout.size or not layout.is_aligned:
        raise Unsupported(f"dtype {layout.dtype} has no kernels, or there are no elements")
    num_rows, length = layout.shape
    if length >= MIN_LENGTH and ranks.size <= MAX_RANKS and num_rows <= MAX_ROWS:
        return perform_on_device(SELECT_RANKS, (rows,), tuple(ranks.tolist()))
    ordered = sort.sort(rows)
    return gather.take(view(ordered, lambda x: x.T), creation.asarray(ranks), is_checked=False)


def _infer_parts(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:
    return (Layout.of(INT64 if parameters[1] else layouts[0].dtype, layouts[0].shape),)


def _plan_parts(bound: BoundOp) -> Plan:
    (rank, gives_places), layout = bound.parameters, bound.graphs[0].layout
    module = importlib.import_module("oxinp._kernels.sort.partition")
    make = module.argpartition if gives_places else module.partition
    length = layout.shape[-1]
    planned: Plan = make(layout.size // length, length, rank, DEVICE_TYPES[layout.dtype], device().capability)
    return planned


PARTITION = Op("partition", _plan_parts, _infer_parts)


def partition(array: Handle, ranks: np.ndarray[Any, Any], axis: Any, *, gives_places: bool) -> Any:
    """Return the elements along an axis, or where they are, with those of some ranks in their places.

    Parameters
    ----------
    array : Handle
    ranks : numpy.ndarray, int64
        From -N to N - 1.
    axis : int or None
        None: the elements in C order.
    gives_places : bool

    Returns
    -------
    Handle
        Of a single rank of few long rows the lesser elements before it and the others after; else all sorted.
    """
    layout = array._layout
    length = layout.size if axis is None else layout.shape[normalize_axis_index(axis, layout.ndim)]
    wanted = np.unique(ranks % length) if length else ranks
    is_long = MIN_LENGTH <= length <= MAX_PARTITIONED and layout.size <= MAX_ROWS * length
    if wanted.size != 1 or not is_long or layout.dtype.kind == "c":
        return sort.argsort(array, axis) if gives_places else sort.sort(array, axis)
    check_placement(array)
    return sort.along(PARTITION, array, axis, (int(wanted[0]), gives_places), "C" if gives_places else "K")
