"""Peers: which devices reach each other's memory, and the permission to."""

from __future__ import annotations

import contextlib
import ctypes
from typing import TYPE_CHECKING

from oxinp._driver import errors
from oxinp._driver.enums import P2PAttribute

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxinp._driver.context import Context
    from oxinp._driver.device import Device

__all__ = ["ATTRIBUTES", "attribute", "can_access", "disable", "enable"]

ATTRIBUTES = {
    "performance_rank": P2PAttribute.PERFORMANCE_RANK,  # 0 is the best link there is between two
    "has_access": P2PAttribute.ACCESS_SUPPORTED,
    "has_atomics": P2PAttribute.NATIVE_ATOMIC_SUPPORTED,  # over NVLink, not over PCIe
}
"""Numbers of the CU_DEVICE_P2P_ATTRIBUTE_* that `attribute` knows, by the names used here."""


def can_access(device: Device, peer: Device) -> bool:
    """Return whether kernels on a device can read and write the memory of another."""
    answer = ctypes.c_int()
    device.driver.cuDeviceCanAccessPeer(ctypes.byref(answer), device.handle, peer.handle)
    return bool(answer.value)


def attribute(name: str, device: Device, peer: Device) -> int:
    """Return one of `ATTRIBUTES` of the way from a device to another."""
    value = ctypes.c_int()
    device.driver.cuDeviceGetP2PAttribute(ctypes.byref(value), ATTRIBUTES[name], device.handle, peer.handle)
    return value.value


def enable(context: Context, peer: Context) -> None:
    """Grant kernels in a context access to all memory of a peer, present and future; once is enough.

    Raises
    ------
    PeerError
        The devices cannot.
    """
    with _ignoring("CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"):
        context.driver.cuCtxEnablePeerAccess(peer.handle, 0)


def disable(context: Context, peer: Context) -> None:
    """Revoke the access; do nothing where none was granted."""
    with _ignoring("CUDA_ERROR_PEER_ACCESS_NOT_ENABLED"):
        context.driver.cuCtxDisablePeerAccess(peer.handle)


@contextlib.contextmanager
def _ignoring(name: str) -> Iterator[None]:
    try:
        yield
    except errors.PeerError as error:
        if error.name != name:
            raise
