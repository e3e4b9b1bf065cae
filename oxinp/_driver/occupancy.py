"""Occupancy: how many blocks or clusters of a kernel a device holds at a time."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from oxinp._driver.enums import LaunchAttributeId
from oxinp._driver.launch import LaunchAttribute, LaunchConfig

if TYPE_CHECKING:
    from oxinp._driver.module import Function

__all__ = ["available_shared_nbytes", "max_blocks_per_sm", "max_cluster_size", "max_clusters", "suggest_block"]


def max_blocks_per_sm(function: Function, num_threads: int, shared_nbytes: int = 0) -> int:
    """Return how many blocks of a kernel run on a multiprocessor at a time.

    Parameters
    ----------
    function : Function
    num_threads : int
        Threads per block.
    shared_nbytes : int
        Dynamic shared memory per block; beyond 48 KiB, have it reserved first (`Function.reserve_dynamic_shared`).
    """
    count = ctypes.c_int()
    function.driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
        ctypes.byref(count), function.handle, num_threads, shared_nbytes
    )
    return count.value


def suggest_block(function: Function, shared_nbytes: int = 0, max_threads: int = 0) -> tuple[int, int]:
    """Return threads per block that fill the device best, and the fewest blocks that do.

    Parameters
    ----------
    function : Function
    shared_nbytes : int
        Dynamic shared memory per block, whatever its size.
    max_threads : int
        The most to suggest; 0 for what the kernel and the device take.
    """
    num_blocks, num_threads = ctypes.c_int(), ctypes.c_int()
    function.driver.cuOccupancyMaxPotentialBlockSize(
        ctypes.byref(num_blocks), ctypes.byref(num_threads), function.handle, None, shared_nbytes, max_threads
    )
    return num_threads.value, num_blocks.value


def available_shared_nbytes(function: Function, num_blocks: int, num_threads: int) -> int:
    """Return the dynamic shared memory that each block may have where so many of them share a multiprocessor."""
    nbytes = ctypes.c_size_t()
    function.driver.cuOccupancyAvailableDynamicSMemPerBlock(
        ctypes.byref(nbytes), function.handle, num_blocks, num_threads
    )
    return nbytes.value


def max_cluster_size(function: Function, num_threads: int, shared_nbytes: int = 0) -> int:
    """Return how many blocks a cluster of a kernel may have."""
    size = ctypes.c_int()
    config = _config((1, 1, 1), num_threads, shared_nbytes)
    function.driver.cuOccupancyMaxPotentialClusterSize(ctypes.byref(size), function.handle, ctypes.byref(config))
    return size.value


def max_clusters(function: Function, cluster: tuple[int, int, int], num_threads: int, shared_nbytes: int = 0) -> int:
    """Return how many clusters of a kernel the device holds at a time."""
    count = ctypes.c_int()
    attribute = LaunchAttribute(id=LaunchAttributeId.CLUSTER_DIMENSION)
    attribute.value[:3] = cluster
    config = _config(cluster, num_threads, shared_nbytes)
    config.attributes, config.num_attributes = ctypes.addressof(attribute), 1
    function.driver.cuOccupancyMaxActiveClusters(ctypes.byref(count), function.handle, ctypes.byref(config))
    return count.value


def _config(grid: tuple[int, int, int], num_threads: int, shared_nbytes: int) -> LaunchConfig:
    return LaunchConfig(grid=grid, block=(num_threads, 1, 1), shared_nbytes=shared_nbytes)
