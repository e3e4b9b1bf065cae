"""Bringing small results of the device to the host, where balance has learned that arrays of their size belong there.

Operators and their machine code ask for it where an operand is not on the host, and begin again: what the general way
finds out about an operation there takes as long as several of them.
"""

from __future__ import annotations

from typing import Any

from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.handle import Handle, host_and_view
from oxinp._core.memory.storage import SHARED


def brought(*operands: Any) -> bool:
    """Fetch operands of an elementwise operation that is the host's; whether there are such.

    None is where anything is too large for that, or is of another shape and would be broadcast.
    """
    limit, found = balance.limit, []
    shape: tuple[int, ...] = ()
    for each in operands:
        if not isinstance(each, Handle):
            continue
        storage = each._held
        seen: Any = each._seen if storage is None else each._known or each._layout
        if seen.nbytes >= limit or (shape and seen.shape and seen.shape != shape):
            return False
        shape = shape or seen.shape
        if storage is not None and storage.host is None:
            value = storage.value
            if value is None or value[0].layout.nbytes >= limit or value[2] & SHARED:
                return False
            found.append(each)
    for each in found:
        host_and_view(each)
    return bool(found)


def brought_vectors(a: Handle, b: Handle) -> bool:
    """Do the same for the product of two vectors."""
    return (a._known or a._layout).ndim == 1 and brought(a, b)


__all__ = ["brought", "brought_vectors"]
