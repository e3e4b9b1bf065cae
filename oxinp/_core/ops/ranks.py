"""Order statistics: the elements that have some ranks among those of a row, NaN last.

Few ranks of few long rows are found digit by digit, without moving elements; else rows are sorted.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import Handle
from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.lazy.placement import device
from oxinp._core.lazy.views import view
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.ops import creation, gather, sort
from oxinp._core.ops.perform import perform_on_device
from oxinp._kernels.plan import Plan

MIN_LENGTH = 1 << 15
"""Of rows: a block sorts shorter ones without passes over memory."""

MAX_RANKS, MAX_ROWS = 8, 1024


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
