"""Copies beyond a run of bytes: rectangles, blocks, and from one device to another."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oxinp._driver import errors
from oxinp._driver.enums import MemoryType
from oxinp._driver.work_structures import Memcpy2D, Memcpy3D, Memcpy3DPeer

if TYPE_CHECKING:
    from oxinp._driver.context import Context

__all__ = ["Place", "block_copy", "copy_2d", "copy_3d", "copy_peer", "copy_peer_3d"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where rows of bytes lie.

    Attributes
    ----------
    ptr : int
        Address of the first byte.
    pitch : int
        Bytes from one row to the next; 0 if they follow each other directly.
    height : int
        Rows from one layer of a block to the next; 0 if layers follow each other directly.
    is_host : bool
        Whether it is host memory; pageable memory is host memory, pinned and managed memory may be either.
    """

    ptr: int
    pitch: int = 0
    height: int = 0
    is_host: bool = False


def copy_2d(context: Context, target: Place, source: Place, width: int, height: int, stream: int | None = None) -> None:
    """Copy a rectangle.

    Parameters
    ----------
    context : Context
    target, source : Place
        They must not overlap.
    width, height : int
        Bytes per row, and rows.
    stream : int, optional
        In whose order; without, the copy is done on return.

    Raises
    ------
    InvalidValue
        Rows are longer than a pitch.
    """
    _check(target, source, width, height, 1)
    params = Memcpy2D(WidthInBytes=width, Height=height)
    _fill(params, "src", source, width)
    _fill(params, "dst", target, width)
    if stream is None:
        context.driver.cuMemcpy2DUnaligned_v2(ctypes.byref(params))
    else:
        context.driver.cuMemcpy2DAsync_v2(ctypes.byref(params), stream)


def copy_3d(
    context: Context,
    target: Place,
    source: Place,
    width: int,
    height: int,
    depth: int,
    stream: int | None = None,
) -> None:
    """Copy a block: `depth` layers of `height` rows of `width` bytes; see `copy_2d`."""
    params = block_copy(target, source, width, height, depth)
    if stream is None:
        context.driver.cuMemcpy3D_v2(ctypes.byref(params))
    else:
        context.driver.cuMemcpy3DAsync_v2(ctypes.byref(params), stream)


def block_copy(target: Place, source: Place, width: int, height: int = 1, depth: int = 1) -> Memcpy3D:
    """Return what the driver is told of a copy of a block."""
    _check(target, source, width, height, depth)
    params = Memcpy3D(WidthInBytes=width, Height=height, Depth=depth)
    for end, place in (("src", source), ("dst", target)):
        _fill(params, end, place, width)
        setattr(params, f"{end}Height", place.height or height)
    return params


def copy_peer(
    target: Context, target_ptr: int, source: Context, source_ptr: int, nbytes: int, stream: int | None = None
) -> None:
    """Copy from one device to another: directly where they can, through the host where not.

    Parameters
    ----------
    target, source : Context
    target_ptr, source_ptr : int
        Addresses, each in its own context.
    nbytes : int
    stream : int, optional
        Of either context, in whose order; without, the copy is ordered with all work of both devices.
    """
    ends = (target_ptr, target.handle, source_ptr, source.handle, nbytes)
    if stream is None:
        target.driver.cuMemcpyPeer(*ends)
    else:
        target.driver.cuMemcpyPeerAsync(*ends, stream)


def copy_peer_3d(
    target: Context,
    target_place: Place,
    source: Context,
    source_place: Place,
    extent: tuple[int, int, int],
    stream: int = 0,
) -> None:
    """Copy a block, given by bytes per row, rows and layers, from one device to another in a stream's order."""
    width, height, depth = extent
    _check(target_place, source_place, width, height, depth)
    params = Memcpy3DPeer(WidthInBytes=width, Height=height, Depth=depth)
    for end, place, context in (("src", source_place, source), ("dst", target_place, target)):
        _fill(params, end, place, width)
        setattr(params, f"{end}Height", place.height or height)
        setattr(params, f"{end}Context", context.handle)
    target.driver.cuMemcpy3DPeerAsync(ctypes.byref(params), stream)


def _check(target: Place, source: Place, width: int, height: int, depth: int) -> None:
    if min(width, height, depth) < 0:
        raise errors.InvalidValue(f"width={width}, height={height}, depth={depth}: extents cannot be negative")
    for name, place in (("target", target), ("source", source)):
        if place.pitch and place.pitch < width:
            raise errors.InvalidValue(f"{name}.pitch={place.pitch} is less than rows of {width} bytes need")
        if place.height and place.height < height:
            raise errors.InvalidValue(f"{name}.height={place.height} is less than layers of {height} rows need")


def _fill(params: Memcpy2D | Memcpy3D | Memcpy3DPeer, end: str, place: Place, width: int) -> None:
    setattr(params, f"{end}MemoryType", MemoryType.HOST if place.is_host else MemoryType.DEVICE)
    setattr(params, f"{end}{'Host' if place.is_host else 'Device'}", place.ptr)
    setattr(params, f"{end}Pitch", place.pitch or width)
