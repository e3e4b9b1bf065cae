"""The driver's structures that describe memory, with the fields of cuda.h under the header's own names.

The tests compile a C program that prints every size and offset, and hold these and `work_structures` against it.
"""

from __future__ import annotations

import ctypes
from typing import ClassVar

__all__ = ["MemAccessDesc", "MemAllocationProp", "MemLocation", "MemPoolProps"]

_ENUM = ctypes.c_int
_PTR = ctypes.c_void_p
_SIZE = ctypes.c_size_t


class MemLocation(ctypes.Structure):
    """Where memory is: a type and the number of the device or NUMA node."""

    c_name: ClassVar = "CUmemLocation"
    _fields_ = (("type", _ENUM), ("id", ctypes.c_int))


class MemAccessDesc(ctypes.Structure):
    """What one device may do with memory."""

    c_name: ClassVar = "CUmemAccessDesc"
    _fields_ = (("location", MemLocation), ("flags", _ENUM))


class _AllocationFlags(ctypes.Structure):
    _fields_ = (
        ("compressionType", ctypes.c_ubyte),
        ("gpuDirectRDMACapable", ctypes.c_ubyte),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 4),
    )


class MemAllocationProp(ctypes.Structure):
    """What memory to make for mapping."""

    c_name: ClassVar = "CUmemAllocationProp"
    _fields_ = (
        ("type", _ENUM),
        ("requestedHandleTypes", _ENUM),
        ("location", MemLocation),
        ("win32HandleMetaData", _PTR),
        ("allocFlags", _AllocationFlags),
    )


class MemPoolProps(ctypes.Structure):
    """What a stream-ordered pool holds."""

    c_name: ClassVar = "CUmemPoolProps"
    _fields_ = (
        ("allocType", _ENUM),
        ("handleTypes", _ENUM),
        ("location", MemLocation),
        ("win32SecurityAttributes", _PTR),
        ("maxSize", _SIZE),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 54),
    )
