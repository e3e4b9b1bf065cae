"""Windows: what lies around an element that was read of a large array on the device, fetched with it.

A loop over elements reads the next one there, without waiting for the device. Arrays are fetched whole for such loops,
see `placement.wants_mirror`. That would move what nobody reads of a large one, so that a loop gets windows instead

- again and again, if the array is written to between: from the second time on, or if elements near each other are read
  for so long and it has not been fetched, for large parts are written;
- of elements far apart, if the step is always the same, as along a diagonal or a column: the window is then the
  elements that are so far apart, gathered on the device, the first time, too.

Nobody gets any whose elements are only operands of larger work, which reads them where they are.

A window is part of the value that it was fetched from, so that it goes when the array is computed anew. Where part of
the array is written to, what of the window is beside that stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from oxinp._core.lazy import explain, placement, schedule
from oxinp._core.lazy.balance import COPY_RATE, LINE, WAIT
from oxinp._core.lazy.building import attempt, claim
from oxinp._core.lazy.chains import read
from oxinp._core.lazy.placement import (
    ACCESSES_BEFORE_MIRROR,
    are_elements_used,
    device_of,
    has_lost_mirror,
    singles,
)
from oxinp._core.memory.layout import line_layout
from oxinp._core.memory.storage import SHARED
from oxinp._runtime import here

if TYPE_CHECKING:
    from oxinp._core.memory.layout import Layout
    from oxinp._core.memory.storage import Storage

NBYTES = 1 << 16
MAX_READERS = 16
CREDIT, MAX_CREDIT = 4, 16
MIN_STEP = 1 << 12
"""Bytes from one element to the next from which on the elements between are not fetched."""

PAUSE = 1000
"""Elements that a loop reads at the same step, having found nothing in its windows, before it gets more of them."""


class _Reader:
    """A loop over elements of one storage.

    Attributes
    ----------
    step : int
        Bytes from one element to the next where they are far apart, else 0.
    credit : int
        Windows that it gets before it has to have found something in one.
    misses : int
        Elements that were not in the window of a value that had one.
    line : Layout or None
        The elements that are being gathered: the same one as often as that is attempted, for what is built is built
        for it.
    """

    __slots__ = ("credit", "line", "misses", "step")

    def __init__(self, step: int) -> None:
        self.step = step
        self.credit = CREDIT
        self.misses = 0
        self.line: Layout | None = None


class Windowed(tuple[Any, ...]):  # noqa: SLOT001 - tuples have room for none
    """A storage's value, some of whose bytes are on the host as well.

    Attributes
    ----------
    low : int
        Where they begin in the storage.
    step, width : int
        From there on, so many bytes at every so many are.
    elements : uint8 array
    reader : _Reader
    seen : tuple
        The layout of the array whose elements were read last, or None; `elements` as elements of that; how far it
        begins from where they do, and how far one of them is from the next, in bytes.
    """

    low: int
    step: int
    width: int
    elements: np.ndarray[Any, Any]
    reader: _Reader
    seen: tuple[Layout | None, np.ndarray[Any, Any], int, int]


_READERS: dict[ref[Storage], _Reader] = {}

NEAR = 2 * ACCESSES_BEFORE_MIRROR
"""Elements in a row that are read, each near the one before, until there is a window for them: more than after which an
array is fetched that nothing is written to between."""

# Storage -> where the element lies that was read last, how far that is from the one before, how many times in a row it
# was as far, and how many single elements had been used before the first of these times; and how many times it was
# near, and how many had been used before the first of those.
_WALKS: dict[ref[Storage], tuple[int, int, int, int, int, int]] = {}


def element_at(windowed: Windowed, whole: Layout, key: Any) -> Any:
    """Return the element at integers of an array whose elements have been read from a window before.

    None where it is not there, or is to be found in another way: this is arithmetic.

    Parameters
    ----------
    windowed : Windowed
        The value of the array's storage.
    whole : Layout
        The array's.
    key : object
    """
    known, items, low, pitch = windowed.seen
    if known is not whole:
        return None
    shape, strides = whole.shape, whole.strides
    places = key if type(key) is tuple else (key,)
    if len(places) != len(shape):
        return None
    if len(shape) == 2:  # as most; a loop would take as long as the rest
        i, j = places
        rows, columns = shape
        if type(i) is not int or type(j) is not int or not (0 <= i < rows and 0 <= j < columns):
            return None
        low += i * strides[0] + j * strides[1]
    else:
        for i, extent, stride in zip(places, shape, strides, strict=True):
            if type(i) is not int or not 0 <= i < extent:
                return None
            low += i * stride
    place = low // pitch
    if place * pitch != low or not 0 <= place < len(items):
        return None
    reader = windowed.reader
    if reader.credit < MAX_CREDIT:
        reader.credit += 1
    return items[place]


def element(storage: Storage, layout: Layout, whole: Layout) -> Any:
    """Return an element from the window of a storage, which is fetched anew where a loop that had one goes on.

    None where it is to be read in another way.

    Parameters
    ----------
    storage : Storage
        One that is only on the device.
    layout : Layout
        The element's, aligned and of a dtype that kernels have.
    whole : Layout
        That of the array whose element it is.
    """
    value = storage.value
    if type(value) is Windowed:
        reader = value.reader
        nth, place = divmod(layout.offset - value.low, value.step)
        start = nth * value.width + place
        if 0 <= start <= len(value.elements) - layout.nbytes and place + layout.nbytes <= value.width:
            if reader.credit < MAX_CREDIT:
                reader.credit += 1
            if value.seen[0] is not whole:
                value.seen = _seen(value, whole)
            return np.ndarray((), layout.dtype, value.elements, start)[()]
        reader.misses += 1
        if reader.misses * WAIT > value[0].layout.nbytes / COPY_RATE:
            reader.misses = 0
            return None
    elif not _READERS or (found := _READERS.get(ref(storage))) is None:
        if value is None or value[0].layout.nbytes < placement.MIN_WINDOWED_NBYTES or value[2] & SHARED:
            return None
        step = _steady_step(storage, layout)
        if step is None:
            return None
        reader = _new_reader(storage, step)
    else:
        reader = found
    reader.credit -= 1
    if reader.credit < 0:
        _READERS.pop(ref(storage), None)
        times = -PAUSE if reader.step else 0
        _WALKS[ref(storage)] = layout.offset, reader.step, times, singles.num_used, -PAUSE, singles.num_used
        return None
    return attempt(_fetch, storage, layout, reader)


def left_by(windowed: Windowed, written: Layout) -> Windowed | None:
    """Return what is left of a window where elements of its storage have been written, for the value it has then.

    Of elements next to each other the larger part stays, before or behind what has been written; None where none does.
    """
    low, step, width, elements = windowed.low, windowed.step, windowed.width, windowed.elements
    high = low + (len(elements) // width - 1) * step + width
    first, last = written.byte_bounds
    if max(low, first) < min(high, last):
        if width != step or (first <= low and high <= last):
            return None
        low, high = (low, first) if first - low >= high - last else (last, high)
        elements = elements[low - windowed.low : high - windowed.low]
        step = width = high - low
    left = Windowed(windowed)
    left.low, left.step, left.width, left.elements, left.reader = low, step, width, elements, windowed.reader
    left.seen = windowed.seen if elements is windowed.elements else (None, elements, 0, 1)
    return left


def _seen(windowed: Windowed, whole: Layout) -> tuple[Layout | None, np.ndarray[Any, Any], int, int]:
    """Return what `Windowed.seen` is for an array."""
    itemsize = whole.dtype.itemsize
    if windowed.width not in (itemsize, windowed.step):  # several of its elements lie next to each other, far from more
        return None, windowed.elements, 0, 1
    items = windowed.elements[: len(windowed.elements) // itemsize * itemsize].view(whole.dtype)
    pitch = windowed.step if windowed.width == itemsize else itemsize
    return whole, items, whole.offset - windowed.low, pitch


def _steady_step(storage: Storage, layout: Layout) -> int | None:
    """Return how far apart the elements are that a loop reads, where that is far and always as far.

    0 of those that have long been near each other, None of others. This is asked of each element that the loop reads.
    """
    reference = ref(storage)
    last, step, times, used, near, used_near = _WALKS.get(reference, (0, 0, 0, 0, 0, 0))
    now = layout.offset - last
    times, used = (times + 1, used) if now == step else (1, singles.num_used)
    near, used_near = (near + 1, used_near) if abs(now) <= LINE else (min(near, 0), singles.num_used)
    if times >= ACCESSES_BEFORE_MIRROR and abs(step) >= MIN_STEP and not step % layout.dtype.alignment:
        if are_elements_used(storage.value, times, used):
            _WALKS.pop(reference, None)
            return step
        times, used = 1, singles.num_used
    if near >= NEAR:
        if are_elements_used(storage.value, near, used_near):
            _WALKS.pop(reference, None)
            return 0
        near, used_near = 0, singles.num_used
    if reference not in _WALKS and len(_WALKS) >= MAX_READERS:
        _WALKS.clear()
    _WALKS[reference] = layout.offset, now, times, used, near, used_near
    return None


def first_element(storage: Storage, layout: Layout) -> Any:
    """Do what `element` does for a storage that is about to be fetched whole; None where that is what to do."""
    value = storage.value
    if value is None or type(value) is Windowed or value[2] & SHARED or not has_lost_mirror(storage):
        return None
    return attempt(_fetch, storage, layout, _new_reader(storage, 0))


def _new_reader(storage: Storage, step: int) -> _Reader:
    if len(_READERS) >= MAX_READERS:
        _READERS.clear()
    reader = _READERS[ref(storage, _forget)] = _Reader(step)
    return reader


def _forget(reference: ref[Storage]) -> None:
    _READERS.pop(reference, None)


def _fetch(storage: Storage, layout: Layout, reader: _Reader) -> Any:
    """Fetch a window that begins with an element, or ends with one read on the way to the beginning; in an attempt."""
    if storage.host is not None or storage.value is None:
        return None
    last = storage.value
    value = schedule.materialise(storage)
    graph, leaves, mask = value
    if mask & SHARED:
        return None
    if here.are_several:
        claim(storage)
    windowed = Windowed(value)
    windowed.reader = reader
    if reader.step:
        _gather(windowed, layout, reader)
    else:
        is_before = type(last) is Windowed and layout.offset < last.low
        low = max(0, layout.offset + layout.nbytes - NBYTES) if is_before else layout.offset
        windowed.low, windowed.step = low, min(NBYTES, graph.layout.nbytes - low)
        windowed.width = windowed.step
        windowed.elements = _downloaded(leaves[0], low, windowed.width)
    windowed.seen = None, windowed.elements, 0, 1
    if storage.value is value:
        storage.value = windowed
    nth, place = divmod(layout.offset - windowed.low, windowed.step)
    return np.ndarray((), layout.dtype, windowed.elements, nth * windowed.width + place)[()]


def _gather(windowed: Windowed, layout: Layout, reader: _Reader) -> None:
    """Fetch the elements that lie ahead of one in a storage, one step apart."""
    width, step = layout.nbytes, reader.step
    ahead = (windowed[0].layout.nbytes - width - layout.offset if step > 0 else layout.offset) // abs(step)
    ahead = min(ahead, NBYTES // width - 1)
    low = layout.offset + min(step, 0) * ahead
    line = reader.line
    if line is None or line.offset != low or line.shape != (ahead + 1,) or line.dtype is not layout.dtype:
        line = reader.line = line_layout(layout.dtype, ahead + 1, abs(step), low)
    _, buffer = schedule.evaluate(read(line, windowed))
    windowed.low, windowed.step, windowed.width = low, abs(step), width
    windowed.elements = _downloaded(buffer, 0, line.nbytes)


def _downloaded(entry: Any, low: int, nbytes: int) -> np.ndarray[Any, Any]:
    """Return bytes of the device."""
    elements = np.empty(nbytes, np.uint8)
    if explain.REPORTS:
        explain.note("copy", f"{nbytes} B to the host", "elements are read there one by one")
    device_of(entry).download(elements, entry.ptr + low)
    return elements
