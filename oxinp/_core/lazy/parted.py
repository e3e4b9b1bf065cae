"""Parted storages: others hold a part of what is on the device, on the host, and nobody has asked for the rest.

So no more is moved than they see: there and, once they let go, back. Who asks for a side of such a storage gets the
whole: on the host where the part is still held, whose memory that is; on the device where it is not.
"""

from __future__ import annotations

from typing import Any

from oxinp._core.lazy import explain
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.chains import on_device
from oxinp._core.lazy.placement import device_of
from oxinp._core.memory.host_side import host_bytes, host_layout
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.storage import SIDES, Pin, Storage, Value


def parted(storage: Storage) -> Pin | None:
    """Return the pin of a storage of which others hold a part on the host, and the rest is on the device alone."""
    pin = storage.stale
    return pin if isinstance(pin, Pin) and pin.part is not None else None


def layout_of(storage: Storage) -> Layout:
    """Return the layout of all that a storage holds."""
    host, value, pin = storage.host, storage.value, parted(storage)
    if host is None and pin is not None:
        host = pin.part
    if host is not None:
        return host_layout(host)
    assert value is not None
    layout: Layout = value[0].layout
    return layout


def fetch_rest(storage: Storage, pin: Pin) -> None:
    """Fetch what others do not hold of a parted storage, whose host side is valid from then on; under its lock."""
    host: Any = pin.part
    memory = host_bytes(host)
    if explain.REPORTS:
        explain.note("copy", f"{host.nbytes - pin.high + pin.low} B to the host", "others hold the elements between")
    for low, high in ((0, pin.low), (pin.high, host.nbytes)):
        if high > low:
            device_of(pin.buffer).download(memory[low:high], pin.buffer.ptr + low)
    balance.fetched(host.nbytes - pin.high + pin.low)
    with SIDES:
        storage.host = host
        pin.part = None


def rejoined(storage: Storage, pin: Pin) -> Value:
    """Return the device side of a parted storage whose part nobody holds any more; under its lock."""
    host: Any = pin.part
    if explain.REPORTS:
        explain.note("copy", f"{pin.high - pin.low} B to the device", "others held these elements on the host")
    device_of(pin.buffer).upload(pin.buffer.ptr + pin.low, host_bytes(host)[pin.low : pin.high])
    value = on_device(host_layout(host), pin.buffer)
    with SIDES:
        storage.value = value
        storage.stale = None
    return value
