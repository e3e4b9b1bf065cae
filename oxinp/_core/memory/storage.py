"""Storage: the bytes behind arrays, on the host, on the device, on both, or still to be computed.

Views share a Storage; a whole-array in-place operation gives it a new value. What a Storage holds is read off two
slots, and nothing else records it:

=========  =======================  ========  ===================================================
state      ``value``                ``host``  meaning
=========  =======================  ========  ===================================================
host       None                     array     on the host only (``stale``: an outdated device copy)
device     (leaf, (Buffer,), mask)  None      on the device only
mirrored   (leaf, (Buffer,), mask)  array     both sides are valid
pending    (Graph, leaves, mask)    None      the graph applied to its leaves will fill one Buffer
pinned     None                     array     others hold the host side, or NumPy writes to it: ``stale`` is a `Pin`
parted     None                     None      others hold a part of a host side, and nobody has asked for the rest: the
                                              `Pin` has the array, ``part``, and the copy, outdated where that is valid
shared     (leaf, (Buffer,), mask)  None      others hold the Buffer: the mask has the bit `SHARED`
=========  =======================  ========  ===================================================

Others may read and write what they hold at any time. So a pinned storage keeps no device side, and a shared one no host
side; a shared one is read when an operation is recorded and written at once, and its leaf's layout is that of plain
bytes, which no array has, so that no shortcut for whole arrays takes it.

``value`` is one immutable tuple, replaced whole, so that a thread that records while another flushes reads a consistent
version without a lock. Its mask is a Bloom filter of the Buffers it reads: two values whose masks have no bit in common
share none.
"""

from __future__ import annotations

from itertools import cycle
from threading import RLock
from typing import TYPE_CHECKING, Any
from weakref import ref

from oxinp._runtime import here
from oxinp._runtime.forking import free_in_children

if TYPE_CHECKING:
    import numpy as np

    from oxinp._core.memory.layout import Layout
    from oxinp._runtime.memory import Buffer
    from oxinp._runtime.timeline import Timeline

Value = tuple[Any, tuple[Any, ...], int]  # a `lazy.expr.Graph`, what it is applied to, the mask


SIDES: Any = free_in_children(RLock())
"""Held for the moment in which a storage that is only on the host changes: it is written to, pinned, or uploaded.

The shortest writes take no lock: those of one element, which note in a `Stale` what they touch, and those that set
`WRITING` where there is none. The interpreter changes threads at calls only, and such a write calls nothing between
looking at ``stale`` and writing to it. So whoever holds the lock calls nothing either between reading ``stale``, or the
range in one, and replacing it: what was written between would be lost.
"""

SHARED = 1 << 60
"""In the mask of every value that reads memory which others hold, too."""

next_mask = cycle([1 << bit for bit in range(60)]).__next__
"""Return the mask of a Buffer that is new."""


class Leaf:
    """A Buffer read from a byte that is not its first; made by `chains.read`.

    A Buffer stands for itself where the offset is zero: both have ``ptr`` and ``buffer``.
    """

    __slots__ = ("buffer", "ptr")

    buffer: Buffer
    ptr: int


FEWEST_WRITES = 8
WRITE_NBYTES = 1 << 17
"""Bytes that are uploaded in the time that a write takes longer where there is an outdated copy."""
LINES_NBYTES = 1 << 18
"""Bytes that are uploaded in the time that it takes to gather lines, and to have a kernel scatter them."""

Lines = tuple[int, int, int, int]
"""Where the first one of lines begins, the bytes from one to the next and of each one, and how many there are."""


def lines_of(layout: Layout) -> Lines | None:
    """Return the lines that a part of an array is, as a column is; None where it takes as much of what is between."""
    itemsize = layout.dtype.itemsize
    shape, strides, width = layout.shape, layout.strides, itemsize
    if len(shape) == 2 and strides[1] == itemsize:
        width *= shape[1]
    elif len(shape) != 1:
        return None
    pitch, count, low = strides[0], shape[0], layout.offset
    return (low, pitch, width, count) if (pitch - width) * (count - 1) >= LINES_NBYTES else None


def _joined(first: Lines, second: Lines) -> Lines | None:
    """Return the lines that hold those of both; None where each of the first one has no counterpart in the second."""
    (low, pitch, width, count), other = first, second[0]
    if second[1] != pitch or second[3] != count:
        return None
    start, end = min(low, other), max(low + width, other + second[2])
    return (start, pitch, end - start, count) if end - start <= pitch else None


class Stale:
    """An outdated device copy of a host value, and what of its bytes is outdated.

    Attributes
    ----------
    buffer : Buffer
    low, high : int
        A range that is; none where the end is not behind the beginning.
    lines : Lines or None
        What is, too.
    num_writes : int
        On the host since the copy was good. Each takes longer than it would without the copy.
    is_uploading : bool
        A thread brings it up to date. What it does not see because it was written since is outside of the range that
        was outdated then: the copy is not kept where another range is outdated at the end.
    """

    __slots__ = ("buffer", "high", "is_uploading", "lines", "low", "num_writes")

    is_pin = False

    def __init__(self, buffer: Any, low: int, high: int) -> None:
        self.buffer = buffer
        self.low = low
        self.high = high
        self.lines: Lines | None = None
        self.num_writes = 0
        self.is_uploading = False

    def is_outdated(self) -> bool:
        """Whether anything is."""
        return self.high > self.low or self.lines is not None

    def cover(self, low: int, high: int) -> None:
        """Let a range of bytes be outdated, too; under `SIDES`."""
        if low < self.low:  # noqa: PLR1730 - `min` would be a call
            self.low = low
        if high > self.high:  # noqa: PLR1730
            self.high = high

    def cover_lines(self, lines: Lines) -> None:
        """Let lines be outdated, too; under `SIDES`."""
        joined = lines if self.lines is None else _joined(self.lines, lines)
        if joined is None:
            low, pitch, width, count = lines
            self.cover(low, low + pitch * (count - 1) + width)
        else:
            self.lines = joined

    def cover_part(self, layout: Layout) -> None:
        """Let a part of the array be outdated, too; under `SIDES`."""
        lines = lines_of(layout)
        if lines is None:
            self.cover(*layout.byte_bounds)
        else:
            self.cover_lines(lines)

    def is_worn(self) -> bool:
        """Whether writes have cost so much for the copy that all may as well be uploaded again."""
        return self.num_writes >= FEWEST_WRITES and self.num_writes * WRITE_NBYTES > self.buffer.nbytes


class Pin(Stale):
    """No device copy is good for longer than one operation: the host side is also somebody else's, or being written.

    Attributes
    ----------
    buffer : Buffer or None
        An outdated device copy, which is kept for the time after the pin.
    holders : list of weak references
        The arrays through which others see the host side; it is pinned as long as one is alive.
    is_forever : bool
        Others hold an address, or the memory was theirs from the start.
    num_writers : int
        Calls of NumPy that write to the host side; it is pinned until the last of them has ended.
    part : numpy.ndarray or None
        What will be the host side of a storage that has none: valid from ``low`` to ``high``, where others hold it.
    """

    __slots__ = ("holders", "is_forever", "num_writers", "part")

    is_pin = True

    def __init__(self) -> None:
        super().__init__(None, 0, 0)
        self.holders: list[ref[Any]] = []
        self.is_forever = False
        self.num_writers = 0
        self.part: np.ndarray[Any, Any] | None = None

    def is_needed(self) -> bool:
        """Whether anybody still holds the host side or writes to it."""
        return bool(self.num_writers) or self.is_forever or any(holder() is not None for holder in self.holders)


WRITING = Pin()
"""The pin of a host side that one call of NumPy's writes to, where there is no device copy: one object for all of them.

It alone is set without a lock, by a thread that has just seen ``value`` and ``stale`` to be None, and taken away by
that thread if it is still there (`handle.end_writing` otherwise). Between the look and the assignment nothing is
called, and only at calls does the interpreter change threads.
"""
WRITING.num_writers = 1


class Storage:
    """Bytes that arrays view; the module's table names its states.

    Attributes
    ----------
    value : tuple or None
        The device side: a Graph, what it is applied to (Buffers, Leaves and Python scalars), and the mask.
    host : numpy.ndarray or None
        The host side: the array that owns the bytes.
    stale : Stale, Pin or None
        A device copy that needs a range of bytes uploaded before it is valid again, or why none is kept.
    has_objects : bool
        Elements refer to Python objects: they are never anywhere but on the host.
    origin : Timeline
        Where the pending value runs: set while there are several streams or devices only.
    lines : object
    offset : int
        The code of the user's, and the instruction in it, that recorded the pending value or wrote last: set while
        somebody watches that, see `schedule.watch`.
    """

    __slots__ = (
        "__weakref__",
        "has_objects",
        "host",
        "is_updated",
        "lines",
        "multiplied",
        "offset",
        "origin",
        "selection",
        "stale",
        "value",
        "viewed",
    )

    value: Value | None
    host: np.ndarray[Any, Any] | None
    stale: Stale | None
    has_objects: bool
    origin: Timeline
    is_updated: bool  # set where a whole array was written to: somebody keeps it, and wants all of it computed once
    viewed: tuple[int, int]  # the `id` of a pending value that views were read of, and of how many
    selection: Any  # see `lazy.selections`
    multiplied: int  # the `id` of the pending value that a vector was multiplied by, set for the next one to find
    lines: Any
    offset: int


def is_pinned(storage: Storage) -> bool:
    """Whether others hold the host side, or NumPy writes to it."""
    pin = storage.stale
    return isinstance(pin, Pin) and pin.is_needed()


def drop_pin(storage: Storage) -> None:
    """Let a pin go that nobody needs any more; under `SIDES`."""
    pin = storage.stale
    if isinstance(pin, Pin) and pin.part is None and not pin.is_needed():
        stale = None
        if pin.buffer is not None and not pin.is_worn():
            stale = Stale(pin.buffer, 0, 0)
            stale.num_writes, stale.lines = pin.num_writes, pin.lines
            stale.low, stale.high = pin.low, pin.high  # nothing is called from here on, see `SIDES`
        storage.stale = stale


def drop_copy(storage: Storage) -> bool:
    """Let a storage have nothing but its host side, for who is about to write there; whether it had more.

    Of few bytes, which are uploaded in the time that it takes to note what is outdated of a copy. What reads the copy
    has its Buffer, and goes on reading what has been there.
    """
    host, value, stale = storage.host, storage.value, storage.stale
    if host is None or host.nbytes > WRITE_NBYTES or here.are_several:
        return False
    if stale is not None and stale.is_pin:
        with SIDES:
            drop_pin(storage)
        return storage.stale is not stale
    if stale is not None and stale.is_uploading:
        return False
    storage.value = storage.stale = None  # nothing is called from the look at them on, see `SIDES`
    return value is not None or stale is not None


def pinned(storage: Storage) -> Pin:
    """Return the pin of a storage that has no device side, a new one if need be; under `SIDES`.

    The caller says in it why it is needed.
    """
    stale = storage.stale
    if isinstance(stale, Pin) and stale is not WRITING:
        return stale
    pin = Pin()
    if isinstance(stale, Stale) and stale is not WRITING:
        if not stale.is_uploading:  # else whoever does so reads it meanwhile
            pin.buffer, pin.low, pin.high = stale.buffer, stale.low, stale.high
            pin.num_writes, pin.lines = stale.num_writes, stale.lines
        storage.stale = pin
        return pin
    # Nothing is called between the two, see `WRITING`.
    pin.num_writers = 0 if storage.stale is None else 1
    storage.stale = pin
    return pin


def is_shared(storage: Storage) -> bool:
    """Whether others hold the device side."""
    value = storage.value
    return value is not None and bool(value[2] & SHARED) and not value[0].nodes


def make_storage(value: Value | None, host: np.ndarray[Any, Any] | None) -> Storage:
    """Return a storage with these sides; nobody else may write to `host`."""
    storage = Storage()
    storage.has_objects = host is not None and host.dtype.hasobject
    storage.value = value
    storage.host = host
    storage.stale = None
    return storage
