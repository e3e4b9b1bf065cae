"""Topology: where devices sit in the machine, and what links them to each other.

The driver says who reaches whose memory and in what order of speed; the links themselves are counted by the management
library that comes with it (NVML), and the bus is the operating system's to tell. What one of them does not say is None.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oxinp._driver import peer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._driver.device import Device

__all__ = ["BusPlace", "Link", "bus_place", "links", "nearest_processors"]

SYSFS = Path("/sys")
_NVML_NAMES = {"linux": ("libnvidia-ml.so.1", "libnvidia-ml.so"), "win32": ("nvml.dll",)}
_MAX_NVLINKS = 18
_BUS_ID_NBYTES = 68  # nvmlPciInfo_t: legacy bus id of 16, four numbers, a subsystem, the bus id of 32
_BUS_ID_OFFSET = 36


@dataclass(frozen=True, slots=True)
class BusPlace:
    """Where a device sits.

    Attributes
    ----------
    pci_address : str
        "0000:1b:00.0".
    numa_node : int or None
        The memory of the host that is nearest; None where it is not said, or where there is but one.
    pcie_gts : float or None
        Speed of its link, gigatransfers per second and lane.
    pcie_lanes : int or None
        Width of its link.
    processors : tuple of int
        The host's processors nearest to it; empty where it is not said.
    """

    pci_address: str
    numa_node: int | None
    pcie_gts: float | None
    pcie_lanes: int | None
    processors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Link:
    """What lies between two devices.

    Attributes
    ----------
    first, second : int
        Ordinals.
    kind : {"nvlink", "pcie", "host"}
        Direct by NVLink (or a switch of them), direct over the bus, or only through the host's memory.
    performance_rank : int
        0 is the fastest in the machine.
    num_nvlinks : int or None
        Lanes between the two, or from the first to the switch.
    """

    first: int
    second: int
    kind: str
    performance_rank: int
    num_nvlinks: int | None


def bus_place(device: Device, root: Path = SYSFS) -> BusPlace:
    """Return where a device sits, as the operating system has it.

    Parameters
    ----------
    device : Device
    root : pathlib.Path
        Where its description of the machine is.
    """
    folder = root / "bus" / "pci" / "devices" / device.pci_address
    node = _read(folder / "numa_node", int)
    speed = _read(folder / "current_link_speed", lambda text: float(text.split()[0]))
    lanes = _read(folder / "current_link_width", int)
    processors = _read(folder / "local_cpulist", _parse_list) or ()
    return BusPlace(device.pci_address, None if node is None or node < 0 else node, speed, lanes, processors)


def nearest_processors(device: Device, root: Path = SYSFS) -> tuple[int, ...]:
    """Return the host's processors nearest to a device, for `os.sched_setaffinity`; empty where it is not said."""
    return bus_place(device, root).processors


def links(devices: Sequence[Device], management: Any = None) -> list[Link]:
    """Return what lies between each two devices, both ways.

    Parameters
    ----------
    devices : sequence of Device
    management : ctypes.CDLL, optional
        NVML; the machine's own, where it has it, if not given.
    """
    nvlinks = _count_nvlinks(devices, _open_management() if management is None else management)
    found = []
    for first in devices:
        for second in devices:
            if first == second:
                continue
            count = nvlinks.get((first.ordinal, second.ordinal))
            if not peer.can_access(first, second):
                kind = "host"
            elif count or (count is None and peer.attribute("has_atomics", first, second)):
                kind = "nvlink"  # without NVML to ask: no other link has atomics
            else:
                kind = "pcie"
            rank = peer.attribute("performance_rank", first, second)
            found.append(Link(first.ordinal, second.ordinal, kind, rank, count))
    return found


def _read(path: Path, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(path.read_text(encoding="ascii").strip())
    except (OSError, ValueError, IndexError):
        return None


def _parse_list(text: str) -> tuple[int, ...]:
    """Return the numbers of "0-3,8"."""
    numbers: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return tuple(numbers)


def _open_management(platform: str = sys.platform) -> Any:
    """Return NVML, initialised; None where there is none."""
    for name in _NVML_NAMES.get(platform, ()):
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        if library.nvmlInit_v2() == 0:
            return library
    return None


def _count_nvlinks(devices: Sequence[Device], management: Any) -> dict[tuple[int, int], int]:
    """Return how many links lead from one device to another; nothing for those that NVML does not know.

    A link to a switch counts for every device, since the switch leads to all.
    """
    counts: dict[tuple[int, int], int] = {}
    if management is None:
        return counts
    ordinals = {_bus_number(device.pci_address): device.ordinal for device in devices}
    for device in devices:
        handle = ctypes.c_void_p()
        if management.nvmlDeviceGetHandleByPciBusId_v2(device.pci_address.encode(), ctypes.byref(handle)):
            continue
        others = [other.ordinal for other in devices if other != device]
        counts.update(dict.fromkeys(((device.ordinal, other) for other in others), 0))
        for number in range(_MAX_NVLINKS):
            is_active = ctypes.c_uint()
            if management.nvmlDeviceGetNvLinkState(handle, number, ctypes.byref(is_active)) or not is_active.value:
                continue
            info = ctypes.create_string_buffer(_BUS_ID_NBYTES)
            if management.nvmlDeviceGetNvLinkRemotePciInfo_v2(handle, number, info):
                continue
            remote = ordinals.get(_bus_number(info.raw[_BUS_ID_OFFSET:].split(b"\0", 1)[0].decode(errors="replace")))
            for other in others if remote is None else [remote]:
                if other != device.ordinal:
                    counts[device.ordinal, other] += 1
    return counts


def _bus_number(address: str) -> tuple[int, ...]:
    """Return a bus address as numbers: the driver writes the domain with four digits, NVML with eight."""
    try:
        return tuple(int(part, 16) for part in address.replace(".", ":").split(":"))
    except ValueError:
        return ()
