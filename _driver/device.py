"""GPUs and what they offer."""

from __future__ import annotations

import ctypes
from functools import cached_property
from typing import TYPE_CHECKING

from _driver.driver import load

if TYPE_CHECKING:
    from _driver.driver import Driver

__all__ = ["ATTRIBUTES", "Device", "list_devices"]

ATTRIBUTES = {
    "max_threads_per_block": 1,
    "warp_size": 10,
    "max_pitch": 11,
    "max_registers_per_block": 12,
    "clock_rate_khz": 13,
    "num_sms": 16,
    "is_integrated": 18,
    "compute_mode": 20,
    "memory_clock_rate_khz": 36,
    "memory_bus_bits": 37,
    "l2_nbytes": 38,
    "max_threads_per_sm": 39,
    "has_unified_addressing": 41,
    "compute_capability_major": 75,
    "compute_capability_minor": 76,
    "max_shared_nbytes_per_sm": 81,
    "max_registers_per_sm": 82,
    "max_shared_nbytes": 97,  # what a block may have if the kernel opts in, 227 KiB on Hopper
    "max_blocks_per_sm": 106,
    "reserved_shared_nbytes": 111,  # taken from each block's share by the system
    "has_memory_pools": 115,
    "has_clusters": 120,
    "has_tensor_maps": 127,
}
"""Numbers of the CU_DEVICE_ATTRIBUTE_* that `Device.attribute` knows, by the names used here."""


class Device:
    """One GPU.

    Parameters
    ----------
    ordinal : int
        Counted from 0, as CUDA_VISIBLE_DEVICES leaves and orders them.
    driver : Driver, optional
        The machine's own where none is given.

    Raises
    ------
    NoDevice
        There is none of that number.
    """

    def __init__(self, ordinal: int = 0, driver: Driver | None = None) -> None:
        self.driver = load() if driver is None else driver
        handle = ctypes.c_int()
        self.driver.cuDeviceGet(ctypes.byref(handle), ordinal)
        self.ordinal = ordinal
        self.handle = handle.value

    def attribute(self, name: str) -> int:
        """Return one of `ATTRIBUTES`."""
        value = ctypes.c_int()
        self.driver.cuDeviceGetAttribute(ctypes.byref(value), ATTRIBUTES[name], self.handle)
        return value.value

    @cached_property
    def name(self) -> str:
        """What the driver calls it."""
        text = ctypes.create_string_buffer(256)
        self.driver.cuDeviceGetName(text, len(text), self.handle)
        return text.value.decode(errors="replace")

    @cached_property
    def uuid(self) -> str:
        """What tells it from every other GPU, as nvidia-smi prints it."""
        raw = ctypes.create_string_buffer(16)
        self.driver.cuDeviceGetUuid_v2(raw, self.handle)
        digits = raw.raw.hex()
        return "GPU-" + "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    @cached_property
    def compute_capability(self) -> tuple[int, int]:
        """Major and minor."""
        return self.attribute("compute_capability_major"), self.attribute("compute_capability_minor")

    @cached_property
    def num_sms(self) -> int:
        """Multiprocessors."""
        return self.attribute("num_sms")

    @cached_property
    def max_shared_nbytes(self) -> int:
        """Shared memory a block may have, static and dynamic together."""
        return self.attribute("max_shared_nbytes")

    @cached_property
    def l2_nbytes(self) -> int:
        """Size of the second-level cache."""
        return self.attribute("l2_nbytes")

    @cached_property
    def total_nbytes(self) -> int:
        """Size of the memory."""
        nbytes = ctypes.c_size_t()
        self.driver.cuDeviceTotalMem_v2(ctypes.byref(nbytes), self.handle)
        return nbytes.value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Device):
            return NotImplemented
        return self.driver is other.driver and self.handle == other.handle

    def __hash__(self) -> int:
        return hash((id(self.driver), self.handle))

    def __repr__(self) -> str:
        return f"<Device {self.ordinal}: {self.name}>"


def list_devices(driver: Driver | None = None) -> list[Device]:
    """Return every GPU the process can see.

    Raises
    ------
    Unavailable
        There is no driver, or it cannot work. A driver without a device raises NoDevice when it is loaded.
    """
    driver = load() if driver is None else driver
    count = ctypes.c_int()
    driver.cuDeviceGetCount(ctypes.byref(count))
    return [Device(ordinal, driver) for ordinal in range(count.value)]
