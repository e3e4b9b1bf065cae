"""Permutations on the device: the order of shuffled positions, and arrays in it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from oxinp._core.array.ndarray import ndarray
from oxinp._core.lazy.stores import check_writeable, store_result
from oxinp._core.manipulation.shape import ravel, reshape
from oxinp._core.memory.dtypes import INT64
from oxinp._core.ops import gather
from oxinp._core.ops.creation import asarray
from oxinp._core.ops.shuffle import MAX_SIZE, permutation
from oxinp.random.methods import is_drawn_on_device

Order = Callable[[int], Any]
# How many times the bytes have to be permuted for the device to be the place: it takes some thirty launches.
_TIMES = 4
_ROOM = 8  # bytes for one of an order


def is_placed(size: int, times: int = 1) -> bool:
    """Whether so many elements are to be shuffled on the device."""
    return 1024 < size <= MAX_SIZE and is_drawn_on_device(size * INT64.itemsize, _TIMES * times, _ROOM)


def _extent(x: Any, axis: Any) -> int | None:
    """How many elements change places; None where NumPy is to shuffle, or to say what is wrong."""
    is_known = isinstance(x, ndarray | np.ndarray) and x.dtype.kind in "biufc" and type(axis) is int
    return int(x.shape[axis]) if is_known and -x.ndim <= axis < x.ndim and 0 not in x.shape else None


def permuted_copy(x: Any, axis: Any, order: Order) -> Any:
    """Return positions below a number, or an array, in an order that is drawn; None where NumPy is to.

    Parameters
    ----------
    x, axis
        As of `numpy.random.Generator.permutation`.
    order : callable
        ``order(size)`` -> positions, shuffled, or None.
    """
    if type(x) is int:
        return order(x) if axis in (0, -1) else None
    extent = _extent(x, axis)
    index = None if extent is None else order(extent)
    return None if index is None else gather.take(asarray(x), index, axis, is_checked=False)


def shuffle(x: Any, axis: Any, order: Order) -> bool:
    """Shuffle an array of ours in place; False where NumPy is to."""
    extent = _extent(x, axis)
    if extent is None or type(x) is not ndarray or not x.flags.writeable:
        return False
    index = order(extent)
    if index is None:
        return False
    _store(x, gather.take(x, index, axis, is_checked=False))
    return True


def permuted(x: Any, axis: Any, out: Any, order: Order) -> Any:
    """Return an array with its elements shuffled, of all axes if `axis` is None; None where NumPy is to.

    Rows that are shuffled each by themselves are NumPy's.
    """
    if type(x) is not ndarray or (out is not None and (type(out) is not ndarray or not out.flags.writeable)):
        return None
    is_alike = out is None or (out.shape == x.shape and out.dtype == x.dtype and out._layout.is_contiguous)
    if not (is_alike and x._layout.is_contiguous and (axis is None or (x.ndim == 1 and axis in (0, -1)))):
        return None
    extent = _extent(x, 0) if x.ndim else None
    index = None if extent is None else order(math.prod(x.shape))
    if index is None:
        return None
    taken = reshape(gather.take(ravel(x), index, 0, is_checked=False), x.shape)
    if out is None:
        return taken
    _store(out, taken)
    return out


def _store(out: Any, value: Any) -> None:
    check_writeable(out)
    if out._view is None and out._layout.is_contiguous:
        store_result(out, value._storage.value)
    else:
        out[...] = value


__all__ = ["Order", "is_placed", "permutation", "permuted", "permuted_copy", "shuffle"]
