"""GPUs and what they offer."""

from __future__ import annotations

import contextlib
import ctypes
from functools import cached_property
from typing import TYPE_CHECKING

from oxinp._driver import errors
from oxinp._driver.driver import load
from oxinp._driver.enums import DeviceAttribute

if TYPE_CHECKING:
    from oxinp._driver.driver import Driver

__all__ = ["ATTRIBUTES", "Device", "best_device", "list_devices"]

ATTRIBUTES = {
    # Blocks and grids
    "warp_size": DeviceAttribute.WARP_SIZE,
    "max_threads_per_block": DeviceAttribute.MAX_THREADS_PER_BLOCK,
    "max_block_x": DeviceAttribute.MAX_BLOCK_DIM_X,
    "max_block_y": DeviceAttribute.MAX_BLOCK_DIM_Y,
    "max_block_z": DeviceAttribute.MAX_BLOCK_DIM_Z,
    "max_grid_x": DeviceAttribute.MAX_GRID_DIM_X,
    "max_grid_y": DeviceAttribute.MAX_GRID_DIM_Y,
    "max_grid_z": DeviceAttribute.MAX_GRID_DIM_Z,
    "max_registers_per_block": DeviceAttribute.MAX_REGISTERS_PER_BLOCK,
    "max_static_shared_nbytes": DeviceAttribute.MAX_SHARED_MEMORY_PER_BLOCK,
    "max_shared_nbytes": DeviceAttribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,  # if the kernel opts in, 227 KiB on Hopper
    "reserved_shared_nbytes": DeviceAttribute.RESERVED_SHARED_MEMORY_PER_BLOCK,  # of each block's share, the system's
    # Multiprocessors
    "num_sms": DeviceAttribute.MULTIPROCESSOR_COUNT,
    "max_threads_per_sm": DeviceAttribute.MAX_THREADS_PER_MULTIPROCESSOR,
    "max_blocks_per_sm": DeviceAttribute.MAX_BLOCKS_PER_MULTIPROCESSOR,
    "max_registers_per_sm": DeviceAttribute.MAX_REGISTERS_PER_MULTIPROCESSOR,
    "max_shared_nbytes_per_sm": DeviceAttribute.MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
    "clock_rate_khz": DeviceAttribute.CLOCK_RATE,
    "single_to_double_ratio": DeviceAttribute.SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO,
    "compute_capability_major": DeviceAttribute.COMPUTE_CAPABILITY_MAJOR,
    "compute_capability_minor": DeviceAttribute.COMPUTE_CAPABILITY_MINOR,
    # Memory
    "memory_clock_rate_khz": DeviceAttribute.MEMORY_CLOCK_RATE,
    "memory_bus_bits": DeviceAttribute.GLOBAL_MEMORY_BUS_WIDTH,
    "constant_nbytes": DeviceAttribute.TOTAL_CONSTANT_MEMORY,
    "max_pitch": DeviceAttribute.MAX_PITCH,
    "l2_nbytes": DeviceAttribute.L2_CACHE_SIZE,
    "max_persisting_l2_nbytes": DeviceAttribute.MAX_PERSISTING_L2_CACHE_SIZE,
    "max_access_window_nbytes": DeviceAttribute.MAX_ACCESS_POLICY_WINDOW_SIZE,
    "has_ecc": DeviceAttribute.ECC_ENABLED,
    "num_copy_engines": DeviceAttribute.ASYNC_ENGINE_COUNT,
    "has_unified_addressing": DeviceAttribute.UNIFIED_ADDRESSING,
    "can_map_host_memory": DeviceAttribute.CAN_MAP_HOST_MEMORY,
    "can_register_host_memory": DeviceAttribute.HOST_REGISTER_SUPPORTED,
    "has_managed_memory": DeviceAttribute.MANAGED_MEMORY,
    "has_concurrent_managed_access": DeviceAttribute.CONCURRENT_MANAGED_ACCESS,
    "has_pageable_access": DeviceAttribute.PAGEABLE_MEMORY_ACCESS,
    "has_host_page_tables": DeviceAttribute.PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
    "has_host_atomics": DeviceAttribute.HOST_NATIVE_ATOMIC_SUPPORTED,
    "has_virtual_memory": DeviceAttribute.VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
    "has_memory_pools": DeviceAttribute.MEMORY_POOLS_SUPPORTED,
    "has_compression": DeviceAttribute.GENERIC_COMPRESSION_SUPPORTED,
    "has_multicast": DeviceAttribute.MULTICAST_SUPPORTED,
    "has_rdma": DeviceAttribute.GPU_DIRECT_RDMA_SUPPORTED,
    # Execution
    "has_concurrent_kernels": DeviceAttribute.CONCURRENT_KERNELS,
    "has_stream_priorities": DeviceAttribute.STREAM_PRIORITIES_SUPPORTED,
    "has_preemption": DeviceAttribute.COMPUTE_PREEMPTION_SUPPORTED,
    "has_watchdog": DeviceAttribute.KERNEL_EXEC_TIMEOUT,
    "has_cooperative_launch": DeviceAttribute.COOPERATIVE_LAUNCH,
    "has_clusters": DeviceAttribute.CLUSTER_LAUNCH,
    "has_tensor_maps": DeviceAttribute.TENSOR_MAP_ACCESS_SUPPORTED,
    # The machine around it
    "is_integrated": DeviceAttribute.INTEGRATED,
    "is_multi_gpu_board": DeviceAttribute.MULTI_GPU_BOARD,
    "is_tcc": DeviceAttribute.TCC_DRIVER,
    "compute_mode": DeviceAttribute.COMPUTE_MODE,
    "is_under_mps": DeviceAttribute.MPS_ENABLED,
    "pci_domain": DeviceAttribute.PCI_DOMAIN_ID,
    "pci_bus": DeviceAttribute.PCI_BUS_ID,
    "pci_device": DeviceAttribute.PCI_DEVICE_ID,
    "host_numa_node": DeviceAttribute.HOST_NUMA_ID,
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
    DeviceNotFound
        There is none of that number.
    """

    def __init__(self, ordinal: int = 0, driver: Driver | None = None) -> None:
        self.driver = load() if driver is None else driver
        count = _count(self.driver)
        if not 0 <= ordinal < count:
            there = "only device 0" if count == 1 else f"devices 0 to {count - 1}"
            raise errors.DeviceNotFound(
                f"there is no device {ordinal}: this process sees {there}. CUDA_VISIBLE_DEVICES limits and renumbers "
                "them."
            )
        handle = ctypes.c_int()
        self.driver.cuDeviceGet(ctypes.byref(handle), ordinal)
        self.ordinal = ordinal
        self.handle = handle.value

    def attribute(self, name: str) -> int:
        """Return one of `ATTRIBUTES`.

        Raises
        ------
        InvalidValue
            It is newer than the driver.
        """
        value = ctypes.c_int()
        self.driver.cuDeviceGetAttribute(ctypes.byref(value), ATTRIBUTES[name], self.handle)
        return value.value

    def attributes(self) -> dict[str, int]:
        """Return all of `ATTRIBUTES` that the driver knows."""
        found = {}
        for name in ATTRIBUTES:
            with contextlib.suppress(errors.InvalidValue):
                found[name] = self.attribute(name)
        return found

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

    @cached_property
    def pci_address(self) -> str:
        """Where it is on the bus, "0000:1b:00.0": domain, bus, device and function, as the operating system has it."""
        text = ctypes.create_string_buffer(32)
        self.driver.cuDeviceGetPCIBusId(text, len(text), self.handle)
        return text.value.decode().lower()

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
    return [Device(ordinal, driver) for ordinal in range(_count(driver))]


def best_device(driver: Driver | None = None) -> Device:
    """Return the GPU with the newest architecture, of these the one with the most multiprocessors, then memory.

    Raises
    ------
    NoDevice
        There is none.
    """
    devices = list_devices(driver)
    if not devices:
        raise errors.NoDevice(
            "there is no GPU to choose from: CUDA_VISIBLE_DEVICES hides all, or the machine has none."
        )
    return max(devices, key=lambda device: (device.compute_capability, device.num_sms, device.total_nbytes))


def _count(driver: Driver) -> int:
    count = ctypes.c_int()
    driver.cuDeviceGetCount(ctypes.byref(count))
    return count.value
