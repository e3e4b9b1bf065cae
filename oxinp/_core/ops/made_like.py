"""Arrays like others: what fills one like an array of the device is found again by that one's layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oxinp._config import before_change, config
from oxinp._core.lazy import placement
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.chains import on_device
from oxinp._core.lazy.results import wrap, wrap_pending
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.recent import Recent
from oxinp._core.ops.creation import ones, uninitialised, zeros

FILLED: dict[Any, Recent] = {zeros: Recent(1 << 8), ones: Recent(1 << 8)}
"""What fills an array like another one -> the layout of that -> the graph of what is pending then, and its leaves."""


def _forget(_: object) -> None:
    for table in FILLED.values():
        table.age()
        table.age()


for _setting in ("offload_threshold", "backend"):
    before_change.setdefault(_setting, []).append(_forget)


def made(make: Callable[[Any, Any], Any], layout: Layout) -> Any:
    """Return what makes an array of a shape and dtype makes of a layout's; let it be found where that is `FILLED`.

    Elements by themselves are not: what is pending of one is a scalar for machine code.
    """
    array = make(layout.shape, layout.dtype)
    table, storage = FILLED.get(make) if layout.ndim else None, array._held
    if table is not None and storage is not None and (value := storage.value) is not None and value[0].nodes:
        table.remember(layout, value[:2])
    return array


def again(make: Callable[[Any, Any], Any], array: Any) -> Any:
    """Return what `made` does of the layout of an array of the device, where that is known; else None."""
    layout = array._known or array._layout
    if balance.limit:
        return None
    if make is uninitialised:
        return _empty(layout) if layout.is_contiguous else None
    table = FILLED[make]
    found = table.get(layout) or table.recall(layout)
    return None if found is None else wrap_pending((*found, 0), as_array=True)


def _empty(layout: Layout) -> Any:
    """Return an array whose elements are whatever was in memory; None where it may not begin on the device."""
    nbytes = layout.nbytes
    if layout.dtype not in DEVICE_TYPES or nbytes < config.offload_threshold or not nbytes:
        return None
    dense, backend = layout.dense, placement.device()
    buffer = backend.allocate(nbytes)
    backend.let_be_read(buffer.ptr, nbytes)
    return wrap(on_device(dense, buffer), dense)


__all__ = ["FILLED", "again", "made"]
