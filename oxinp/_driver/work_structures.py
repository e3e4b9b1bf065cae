"""The driver's structures that describe copies, nodes of graphs and parts of devices; fewer programs need these."""

from __future__ import annotations

import ctypes
from typing import ClassVar

__all__ = [
    "DevResource",
    "EdgeData",
    "GraphUpdateInfo",
    "HostNodeParams",
    "KernelNodeParams",
    "Memcpy2D",
    "Memcpy3D",
    "Memcpy3DPeer",
    "MemsetNodeParams",
]

_ENUM = ctypes.c_int
_HANDLE = ctypes.c_void_p
_PTR = ctypes.c_void_p
_DEVICE_PTR = ctypes.c_uint64
_SIZE = ctypes.c_size_t


class DevResource(ctypes.Structure):
    """A part of a device, of which only the number of multiprocessors is of interest here."""

    c_name: ClassVar = "CUdevResource"
    _fields_ = (
        ("type", _ENUM),
        ("_internal_padding", ctypes.c_ubyte * 92),
        ("sm", ctypes.c_uint),
        ("_rest", ctypes.c_ubyte * 44),
    )


class Memcpy2D(ctypes.Structure):
    """A copy of a rectangle."""

    c_name: ClassVar = "CUDA_MEMCPY2D"
    _fields_ = (
        ("srcXInBytes", _SIZE),
        ("srcY", _SIZE),
        ("srcMemoryType", _ENUM),
        ("srcHost", _PTR),
        ("srcDevice", _DEVICE_PTR),
        ("srcArray", _HANDLE),
        ("srcPitch", _SIZE),
        ("dstXInBytes", _SIZE),
        ("dstY", _SIZE),
        ("dstMemoryType", _ENUM),
        ("dstHost", _PTR),
        ("dstDevice", _DEVICE_PTR),
        ("dstArray", _HANDLE),
        ("dstPitch", _SIZE),
        ("WidthInBytes", _SIZE),
        ("Height", _SIZE),
    )


def _block(source: str, target: str) -> tuple[tuple[str, type], ...]:
    """Return the fields of a copy of a block: its ends differ by one field's name only."""
    ends = (("src", source), ("dst", target))
    fields: list[tuple[str, type]] = []
    for end, last in ends:
        fields += [
            (f"{end}XInBytes", _SIZE),
            (f"{end}Y", _SIZE),
            (f"{end}Z", _SIZE),
            (f"{end}LOD", _SIZE),
            (f"{end}MemoryType", _ENUM),
            (f"{end}Host", _PTR),
            (f"{end}Device", _DEVICE_PTR),
            (f"{end}Array", _HANDLE),
            (last, _HANDLE),
            (f"{end}Pitch", _SIZE),
            (f"{end}Height", _SIZE),
        ]
    return (*fields, ("WidthInBytes", _SIZE), ("Height", _SIZE), ("Depth", _SIZE))


class Memcpy3D(ctypes.Structure):
    """A copy of a block."""

    c_name: ClassVar = "CUDA_MEMCPY3D"
    _fields_ = _block("reserved0", "reserved1")


class Memcpy3DPeer(ctypes.Structure):
    """A copy of a block between two devices."""

    c_name: ClassVar = "CUDA_MEMCPY3D_PEER"
    _fields_ = _block("srcContext", "dstContext")


class KernelNodeParams(ctypes.Structure):
    """A launch as a node of a graph."""

    c_name: ClassVar = "CUDA_KERNEL_NODE_PARAMS"
    _fields_ = (
        ("func", _HANDLE),
        ("gridDimX", ctypes.c_uint),
        ("gridDimY", ctypes.c_uint),
        ("gridDimZ", ctypes.c_uint),
        ("blockDimX", ctypes.c_uint),
        ("blockDimY", ctypes.c_uint),
        ("blockDimZ", ctypes.c_uint),
        ("sharedMemBytes", ctypes.c_uint),
        ("kernelParams", _PTR),
        ("extra", _PTR),
        ("kern", _HANDLE),
        ("ctx", _HANDLE),
    )


class MemsetNodeParams(ctypes.Structure):
    """A fill as a node of a graph."""

    c_name: ClassVar = "CUDA_MEMSET_NODE_PARAMS"
    _fields_ = (
        ("dst", _DEVICE_PTR),
        ("pitch", _SIZE),
        ("value", ctypes.c_uint),
        ("elementSize", ctypes.c_uint),
        ("width", _SIZE),
        ("height", _SIZE),
    )


class HostNodeParams(ctypes.Structure):
    """A call on the host as a node of a graph."""

    c_name: ClassVar = "CUDA_HOST_NODE_PARAMS"
    _fields_ = (("fn", _PTR), ("userData", _PTR))


class EdgeData(ctypes.Structure):
    """How one node of a graph waits for another."""

    c_name: ClassVar = "CUgraphEdgeData"
    _fields_ = (
        ("from_port", ctypes.c_ubyte),
        ("to_port", ctypes.c_ubyte),
        ("type", ctypes.c_ubyte),
        ("reserved", ctypes.c_ubyte * 5),
    )


class GraphUpdateInfo(ctypes.Structure):
    """Why an executable graph could not take another's parameters."""

    c_name: ClassVar = "CUgraphExecUpdateResultInfo"
    _fields_ = (("result", _ENUM), ("errorNode", _HANDLE), ("errorFromNode", _HANDLE))
