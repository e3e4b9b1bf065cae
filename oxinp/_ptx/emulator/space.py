"""Memory of the emulator: bytes with a shadow that knows what is allocated, what is initialised and who wrote it."""

from __future__ import annotations

import bisect
from typing import Any

import numpy as np
import numpy.typing as npt

from oxinp._ptx.emulator.numbers import SHIFTS, greatest, least
from oxinp._ptx.emulator.races import Tracker
from oxinp._ptx.truths import all_of

Array = npt.NDArray[Any]

# Shadow state of one byte. A word of an element is good if all its bytes are.
UNALLOCATED, UNINITIALISED, INITIALISED = 0, 1, 3
POISON = 0xA5
_ROW = 16  # the widest access; capacities are multiples of it
_SPARSE = 4  # scattered elements are looked at together up to so many times their bytes
# What elements of so many bytes are moved as: rows of bytes would take many times as long.
_CARRIERS = {n: np.dtype(name) for n, name in ((1, "u1"), (2, "u2"), (4, "u4"), (8, "u8"), (16, "c16"))}

_ALL_INITIALISED = {n: np.full(n, INITIALISED, np.uint8).view(carrier)[0] for n, carrier in _CARRIERS.items()}

_ARANGES: dict[tuple[int, int], Array] = {}


class Fault(Exception):
    """A bad access: index into the accessing lanes, offset of the element, and what is wrong with it."""

    def __init__(self, position: int, offset: int, what: str) -> None:
        super().__init__(what)
        self.position = position
        self.offset = offset
        self.what = what


def steps(num: int, step: int = 1) -> Array:
    """0, `step`, ... as int64; not to be written."""
    array = _ARANGES.get((num, step))
    if array is None:
        if len(_ARANGES) > 64:
            _ARANGES.clear()
        array = _ARANGES[num, step] = np.arange(0, num * step, step, dtype=np.int64)
    return array


def element_numbers(offsets: Array, nbytes: int) -> Array:
    """Numbers of the elements of `nbytes` bytes, a power of two, at some offsets; shifts are faster than division."""
    return offsets >> SHIFTS[nbytes]


def is_contiguous(offsets: Array, nbytes: int) -> bool:
    """Whether the elements follow each other."""
    num = len(offsets)
    first = offsets.item(0)
    if offsets.item(-1) - first != (num - 1) * nbytes:
        return False
    return num <= 2 or all_of(offsets - offsets[0, ...] == steps(num, nbytes))


class Space:
    """Bytes with shadow state and race tracking.

    Parameters
    ----------
    capacity : int
        Bytes, rounded up to 16.
    checks_initialised : bool
        Whether reading bytes nobody wrote is a fault.
    is_shared : bool
        Whether each block has its own part.
    """

    def __init__(self, capacity: int, *, checks_initialised: bool = True, is_shared: bool = False) -> None:
        self.capacity = -(-capacity // _ROW) * _ROW
        self.data = np.zeros(self.capacity, np.uint8)
        self.state = np.zeros(self.capacity, np.uint8)
        self.tracker = Tracker(self.capacity, is_shared=is_shared)
        self.readable = INITIALISED if checks_initialised else UNINITIALISED

    def mark_allocated(self, start: int, nbytes: int) -> None:
        """Make bytes writable, with poison in them."""
        self.data[start : start + nbytes] = POISON
        self.state[start : start + nbytes] = UNINITIALISED

    def check(
        self, offsets: Array, nbytes: int, numbers: Array | None, *, is_read: bool, is_sparse: bool = False
    ) -> tuple[int, int]:
        """Fault unless every element is aligned, inside allocations and, for reads, initialised.

        Parameters
        ----------
        offsets : int64 array
        nbytes : int
            Of each element, a power of two up to 16.
        numbers : int64 array or None
            The elements' numbers, see `element_numbers`; None if they follow each other.
        is_read : bool
        is_sparse : bool
            Whether other bytes lie between the elements, which are inside the space.

        Returns
        -------
        low, high : int
            First byte, and the one behind the last; of sparse elements nothing that is of use.
        """
        low, high = offsets.item(0), offsets.item(-1)
        if numbers is None:
            is_aligned = not low & (nbytes - 1)
        else:
            if not is_sparse:
                low, high = least(offsets), greatest(offsets)
            is_aligned = nbytes == 1 or not int(np.bitwise_or.reduce(offsets)) & (nbytes - 1)
        if not is_aligned:
            position = int((offsets & (nbytes - 1) != 0).argmax())
            raise Fault(position, int(offsets[position]), f"misaligned: not a multiple of {nbytes}")
        high += nbytes
        needed = self.readable if is_read else UNINITIALISED
        if low >= 0 and high <= self.capacity:
            if numbers is None or (not is_sparse and high - low <= _SPARSE * nbytes * len(offsets)):
                states = self.state[low:high].tobytes()
                if UNALLOCATED not in states and (needed == UNINITIALISED or UNINITIALISED not in states):
                    return low, high
            if numbers is not None:
                states = self.state.view(_CARRIERS[nbytes])[numbers].tobytes()
                if UNALLOCATED not in states and (needed == UNINITIALISED or UNINITIALISED not in states):
                    return low, high
        raise self._fault(offsets, nbytes, needed)

    def _fault(self, offsets: Array, nbytes: int, needed: int) -> Fault:
        outside = (offsets < 0) | (offsets + nbytes > self.capacity)
        states = self.state.reshape(-1, nbytes)[np.where(outside, 0, offsets) // nbytes].min(axis=1)
        states = np.where(outside, UNALLOCATED, states)
        position = int((states < needed).argmax())
        what = "uninitialised" if states[position] else "out of bounds of every allocation"
        return Fault(position, int(offsets[position]), what)

    def load(self, offsets: Array, dtype: np.dtype[Any], width: int, numbers: Array | None) -> Array:
        """Elements as an array (width, lanes); `numbers` as for `check`."""
        nbytes = dtype.itemsize * width
        if numbers is None:
            low = offsets.item(0)
            flat = self.data[low : low + len(offsets) * nbytes].view(dtype)
        else:
            flat = self.data.view(_CARRIERS[nbytes])[numbers].view(dtype)
        if width == 1:
            return flat[None].copy() if numbers is None else flat[None]
        return flat.reshape(-1, width).T.copy(order="C")  # of one lane, too, which stores may follow

    def store(self, offsets: Array, values: Array, numbers: Array | None) -> None:
        """Elements from an array (width, lanes); `numbers` as for `check`."""
        nbytes = values.dtype.itemsize * len(values)
        flat = values[0] if len(values) == 1 else values.T.reshape(-1)
        if numbers is None:
            low, size = offsets.item(0), flat.nbytes
            self.data[low : low + size].view(flat.dtype)[:] = flat
            self.state[low : low + size] = INITIALISED
        else:
            carrier = _CARRIERS[nbytes]
            self.data.view(carrier)[numbers] = np.ascontiguousarray(flat).view(carrier)
            self.state.view(carrier)[numbers] = _ALL_INITIALISED[nbytes]


class Memory(Space):
    """Global memory of the emulated device; addresses are plain ints.

    Parameters
    ----------
    capacity : int
        Bytes to begin with; it grows.
    limit : int
        Bytes at which `allocate` raises MemoryError.
    checks_initialised : bool
        Whether kernels may not read bytes nobody wrote.
    """

    BASE = 0x7000_0000_0000
    ALIGN = 256
    GUARD = 256

    def __init__(self, capacity: int = 1 << 24, limit: int = 1 << 34, *, checks_initialised: bool = True) -> None:
        super().__init__(capacity, checks_initialised=checks_initialised)
        self.limit = limit
        self.clock = 0  # time of the last synchronisation of the last launch
        self._sizes: dict[int, int] = {}
        self._free: list[tuple[int, int]] = [(0, self.capacity)]  # (start, bytes), sorted, never adjacent

    @property
    def allocated_nbytes(self) -> int:
        """Bytes in live allocations."""
        return sum(self._sizes.values())

    def allocate(self, nbytes: int) -> int:
        """Address of `nbytes` fresh bytes, 256-byte aligned, with a guard gap behind them.

        Raises
        ------
        MemoryError
            The limit is reached.
        """
        if nbytes < 0:
            raise ValueError(f"cannot allocate {nbytes} bytes")
        room = -(-nbytes // self.ALIGN) * self.ALIGN + self.GUARD
        position = next((i for i, (_, size) in enumerate(self._free) if size >= room), None)
        if position is None:
            self._grow(room)
            position = len(self._free) - 1
        start, size = self._free[position]
        if size == room:
            del self._free[position]
        else:
            self._free[position] = (start + room, size - room)
        self._sizes[start] = nbytes
        self.mark_allocated(start, nbytes)
        return self.BASE + start

    def _grow(self, room: int) -> None:
        capacity = max(self.capacity * 2, self.capacity + room)
        if capacity > self.limit:
            capacity = self.limit // _ROW * _ROW
        if capacity - self.capacity < room:
            raise MemoryError(
                f"emulated device memory: asked for {room} bytes, {self.allocated_nbytes} of {self.limit} are in use"
            )
        old = self.capacity
        data, state = np.zeros(capacity, np.uint8), np.zeros(capacity, np.uint8)
        data[:old], state[:old] = self.data, self.state
        self.data, self.state, self.capacity = data, state, capacity
        self.tracker.grow(capacity)
        self._release(old, capacity - old)

    def free(self, address: int) -> None:
        """Give an allocation back."""
        start = address - self.BASE
        try:
            nbytes = self._sizes.pop(start)
        except KeyError:
            raise ValueError(f"{address:#x} is not the start of an allocation") from None
        self.state[start : start + nbytes] = UNALLOCATED
        self._release(start, -(-nbytes // self.ALIGN) * self.ALIGN + self.GUARD)

    def _release(self, start: int, size: int) -> None:
        position = bisect.bisect(self._free, (start, 0))
        if position < len(self._free) and self._free[position][0] == start + size:
            size += self._free.pop(position)[1]
        if position and sum(self._free[position - 1]) == start:
            start, before = self._free.pop(position - 1)
            position, size = position - 1, size + before
        self._free.insert(position, (start, size))

    def _range(self, address: int, nbytes: int) -> slice:
        start = address - self.BASE
        inside = start >= 0 and start + nbytes <= self.capacity
        if nbytes < 0 or not inside or (nbytes and not self.state[start : start + nbytes].all()):
            raise ValueError(f"{nbytes} bytes at {address:#x} do not lie in one allocation")
        return slice(start, start + nbytes)

    def read(self, address: int, nbytes: int) -> Array:
        """Copy of bytes, as uint8; what nobody wrote reads as poison."""
        return self.data[self._range(address, nbytes)].copy()

    def write(self, address: int, data: Any) -> None:
        """Store bytes: anything with a C-contiguous buffer."""
        source = np.frombuffer(data, np.uint8) if not isinstance(data, np.ndarray) else data
        source = source.reshape(-1).view(np.uint8)
        where = self._range(address, source.nbytes)
        self.data[where] = source
        self.state[where] = INITIALISED

    def let_be_read(self, address: int, nbytes: int) -> None:
        """Let bytes be read although nobody has written them: as poison."""
        self.state[self._range(address, nbytes)] = INITIALISED

    def copy(self, to: int, source: int, nbytes: int) -> None:
        """Copy bytes within the memory; what was not initialised stays so."""
        target, origin = self._range(to, nbytes), self._range(source, nbytes)
        self.data[target] = self.data[origin].copy()
        self.state[target] = self.state[origin].copy()
