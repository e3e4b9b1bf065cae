"""The host side of a storage as NumPy sees it: its bytes, its layout, and the arrays that lie in it."""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._core.memory.layout import Layout


def host_layout(array: np.ndarray[Any, Any]) -> Layout:
    """Return the layout of a NumPy array that owns its bytes."""
    if array.flags.c_contiguous:
        return Layout.of(array.dtype, array.shape)
    return Layout.at(array.dtype, array.shape, array.strides, 0)


def host_bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the bytes of a dense array (in C, Fortran or any permuted order) as a flat uint8 view."""
    return in_order(array).reshape(-1).view(np.uint8)


def in_order(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a dense array with its axes in the order in which its elements lie."""
    if array.flags.c_contiguous:
        return array
    return array.transpose(sorted(range(array.ndim), key=lambda axis: -array.strides[axis]))


def is_dense(array: np.ndarray[Any, Any]) -> bool:
    """Whether the elements fill a block of memory without gaps, in some order of the axes."""
    if array.flags.forc:
        return True
    next_step = array.itemsize
    for step, extent in sorted(zip(array.strides, array.shape, strict=True)):
        if extent != 1:
            if step != next_step:
                return False
            next_step *= extent
    return True


def seen_at(memory: Any, layout: Layout) -> np.ndarray[Any, Any]:
    """Return the NumPy array that lies in a layout in bytes, an array or another buffer."""
    if layout.size:
        return np.ndarray(layout.shape, layout.dtype, memory, layout.offset, layout.strides)
    # NumPy checks strides against the memory even of no elements; where it lies still counts, but it may be beyond.
    nowhere = np.ndarray((0,), layout.dtype, memory, min(layout.offset, memory.nbytes))
    return np.lib.stride_tricks.as_strided(nowhere, layout.shape, layout.strides)
