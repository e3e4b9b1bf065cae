"""Clusters of blocks that hold a panel in registers: which of them a device takes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device

PORTABLE = 8  # blocks of a cluster that every device takes
RESERVED = 1  # multiprocessors for each block of a cluster beside which there is other work
MIN_SMS = 100  # of a GPU of 7 or 8 GPCs, some of which have 16 then
LARGE = (9, 10)  # major compute capabilities that are known for clusters of 16 blocks


class ClusterSpec(Protocol):
    """A kernel of one cluster that holds the rows of a panel."""

    @property
    def height(self) -> int:
        """Rows of a block."""

    @property
    def num_blocks(self) -> int:
        """Of the cluster."""

    @property
    def shared_nbytes(self) -> int:
        """Shared memory of a block."""


class Remainder:
    """What of a device is left to others, see `remainder`."""

    def __init__(self, device: Device, num_reserved: int) -> None:
        self.cc, self.max_shared_nbytes, self.tuned = device.cc, device.max_shared_nbytes, device.tuned
        self.num_sms = max(1, device.num_sms - num_reserved)


Spec = TypeVar("Spec", bound=ClusterSpec)


def smallest(specs: Iterable[Spec], num_rows: int, device: Device) -> Spec | None:
    """Return the first Spec that has a panel's rows and that a device takes; None where there is none."""
    for spec in specs:
        is_large_enough = spec.height * spec.num_blocks >= num_rows
        if is_large_enough and _is_launchable(spec, device):
            return spec
    return None


def remainder(device: Device, spec: ClusterSpec | None) -> Device:
    """Return what of a device others have while a cluster factors panels, and brings what is beside them up to date.

    Persistent kernels on all multiprocessors would keep the cluster waiting until they end.
    """
    return device if spec is None else Remainder(device, RESERVED * spec.num_blocks)


def _is_launchable(spec: ClusterSpec, device: Device) -> bool:
    """Whether a device takes a cluster: of more than 8 blocks where its GPCs have as many multiprocessors."""
    is_large = device.cc[0] in LARGE and device.num_sms >= MIN_SMS
    has_room = spec.num_blocks <= PORTABLE or is_large
    return device.cc >= (9, 0) and has_room and spec.shared_nbytes <= device.max_shared_nbytes


__all__ = ["remainder", "smallest"]
