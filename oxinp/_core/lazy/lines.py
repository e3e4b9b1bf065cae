"""Lines that are brought up to date on the device by themselves, where all from the first to the last is far more.

A loop that writes columns on the host, and has the device read all of them, moves what it has written and no more: the
lines are gathered, uploaded as one block and scattered by a kernel.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._core.lazy import chains
from oxinp._core.lazy.expr import leaf
from oxinp._core.lazy.placement import device_of
from oxinp._core.memory.host_side import host_bytes, seen_at
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.storage import LINES_NBYTES
from oxinp._runtime import here

if TYPE_CHECKING:
    from oxinp._core.memory.storage import Lines
    from oxinp._runtime.memory import Buffer

MAX_ITEMSIZE = 8


def upload_lines(buffer: Buffer, host: np.ndarray[Any, Any], lines: Lines) -> None:
    """Bring lines of an outdated copy up to date, in an attempt: what they take may be missing.

    Parameters
    ----------
    buffer : Buffer
        The copy.
    host : numpy.ndarray
        What it is a copy of.
    lines : Lines
    """
    low, pitch, width, count = lines
    memory = host_bytes(host)
    if here.are_several or (pitch - width) * (count - 1) < LINES_NBYTES:  # which have grown together since
        high = low + pitch * (count - 1) + width
        device_of(buffer).upload(buffer.ptr + low, memory[low:high])
        return
    layout = _layout_of(lines)
    block = leaf(Layout.of(layout.dtype, layout.shape))
    chains.prepare(block, layout)
    gathered = np.ascontiguousarray(seen_at(memory, layout))
    held = device_of(buffer).allocate(gathered.nbytes)
    device_of(held).upload(held.ptr, host_bytes(gathered))
    chains.run_into(block, (held,), layout, buffer.ptr + low)


def _layout_of(lines: Lines) -> Layout:
    """Return lines as a matrix, or a line, of the largest integers that they are made of."""
    low, pitch, width, count = lines
    itemsize = math.gcd(low, pitch, width, MAX_ITEMSIZE)
    shape, strides = ((count, width // itemsize), (pitch, itemsize)) if width > itemsize else ((count,), (pitch,))
    return Layout.at(np.dtype(f"u{itemsize}"), shape, strides, low)
