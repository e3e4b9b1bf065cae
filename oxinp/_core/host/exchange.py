"""Exchange: the arrays of one call to NumPy: what it was given for which of ours, and what its results are to us.

NumPy works on the host side of our storages itself, not on copies, so what it writes is written and what it returns
may be a view. A result is ours again by three rules: it is the very array that stood for one of ours; or it lies in the
memory of one of ours, and is a view of that storage; or it is new, and its memory becomes the host side of a new
storage (shared, if two results share it). NumPy arrays that the caller passed are nobody's storage: what views them is
copied.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import numpy as np

from oxinp._core.host.sharing import lend, write_back
from oxinp._core.lazy.handle import (
    Handle,
    begin_writing,
    end_writing,
    fetch,
    fetch_storage,
    host_and_view,
    is_writeable,
)
from oxinp._core.lazy.parted import layout_of
from oxinp._core.lazy.results import is_device_scalar, types, wrap_host
from oxinp._core.lazy.views import NumpyArray, view_at
from oxinp._core.memory.host_side import host_bytes, is_dense, seen_at
from oxinp._core.memory.layout import Layout, address_of
from oxinp._core.memory.storage import Storage, is_shared

# Types that hold no array of ours: a list of a million floats is looked through at the speed of a set.
PLAIN = frozenset(
    {
        *(bool, int, float, complex, str, bytes, slice, type(None), type(...), type, np.dtype),
        *(np.bool_, np.int32, np.int64, np.float32, np.float64),
    }
)


MAX_DEPTH = 70  # of lists in lists; arrays have at most 64 dimensions


def is_array(value: Any) -> bool:
    """Whether a value is an array of ours (a scalar on the device is none)."""
    return isinstance(value, Handle) and not is_device_scalar(value)


def numbers_in(value: list[Any] | tuple[Any, ...]) -> NumpyArray | None:
    """Return what NumPy makes of a list or tuple of numbers; None where there may be arrays of ours, or NumPy refuses.

    To look at the type of each takes as long.
    """
    try:
        made = np.array(value)
    except (ValueError, OverflowError):
        return None
    return None if made.dtype.kind not in "biufc" else made


def holds_arrays(value: Any, depth: int = 0) -> bool:
    """Whether a list or tuple, or one in it, holds an array of ours; what holds itself holds nothing else."""
    if not isinstance(value, list | tuple) or PLAIN.issuperset(map(type, value)) or depth > MAX_DEPTH:
        return False
    return any(is_array(part) or holds_arrays(part, depth + 1) for part in value)


# Classes of ours that consist of arrays -> ``make(value, give)``, the object of SciPy's that stands for one; and
# classes of SciPy's -> ``make(value, take)``, ours for one of these. Packages above enter theirs.
given_as: dict[type, Callable[[Any, Callable[[Any], Any]], Any]] = {}
taken_as: dict[type, Callable[[Any, Callable[[Any], Any]], Any]] = {}
kept_as: dict[type, Callable[[Any], Any]] = {}
"""Such classes of ours -> what returns the object of SciPy's that is kept beside a small one, or None."""


class NeedsMirror(Exception):
    """A result is a view of an argument that was fetched: the call is done again on whole host sides."""


class Unread(Exception):
    """A result of a call that was to read no elements is no view of its arguments: it has to read them after all."""


class _Given(NamedTuple):
    """What NumPy was given for a handle: the array, and the host side of the storage that it views, if it does."""

    handle: Handle
    array: NumpyArray
    host: NumpyArray | None


class Exchange:
    """One call's arrays. What it may write to is pinned to the host until `settle`.

    Parameters
    ----------
    written : collection of Handle and numpy.ndarray
        What the function may write to. NumPy arrays among them stay what they are where they are results.
    whole : bool
        Give host sides of storages only, never fetched parts, since results may be views of them.
    keeps : bool
        What the function returns keeps its arrays and writes to them later.
    """

    __slots__ = (
        *("_borrowed", "_fresh", "_given", "_handles", "_keeps", "_objects", "_pinned", "_theirs", "_whole"),
        "_written",
    )

    def __init__(
        self, written: Collection[Handle | NumpyArray] = (), *, whole: bool = False, keeps: bool = False
    ) -> None:
        self._given: dict[int, _Given] = {}  # by the id of the handle
        self._handles: dict[int, Handle] = {}  # by the id of the array that stands for it
        self._theirs: list[NumpyArray] = []  # NumPy arrays of the caller's
        self._fresh: dict[int, tuple[NumpyArray, Handle]] = {}  # by the id of the memory's owner
        self._borrowed: dict[int, tuple[Storage, NumpyArray]] = {}  # host copies of shared storages, by their id
        self._objects: list[tuple[Any, Any]] = []  # of ours that consist of arrays, and what stands for them
        self._pinned: list[Storage] = []
        self._whole = whole
        self._keeps = keeps
        self._written = {id(target): target for target in written} if written else {}
        if self._written:
            self._pin_written()

    def _pin_written(self) -> None:
        # First, so that whatever else shares their storage sees what is written to them.
        try:
            for target in self._written.values():
                if isinstance(target, Handle):
                    self._array(target)
        except BaseException:
            self._unpin()
            raise

    # -- to NumPy ------------------------------------------------------------------------------------------------------

    def give(self, value: Any) -> Any:
        """Return `value` with NumPy's arrays and scalars for ours, looked for in lists, tuples and dicts as well."""
        kind = type(value)
        if kind in PLAIN:
            return value
        if isinstance(value, Handle):
            return np.asarray(value)[()] if type(kind) is types.scalar_type else self._array(value)
        if kind in given_as:
            return self._object(value)
        if isinstance(value, np.ndarray):
            self._theirs.append(value)
        elif kind in taken_as:
            for part in vars(value).values():
                self._theirs += [
                    each for each in (part if type(part) is tuple else (part,)) if type(each) is np.ndarray
                ]
        elif isinstance(value, list | tuple):
            if not {type(part) for part in value} <= PLAIN:
                given = [self.give(part) for part in value]
                if any(a is not b for a, b in zip(given, value, strict=True)):
                    return _rebuilt(value, given)
        elif kind is dict:
            return {key: self.give(part) for key, part in value.items()}
        return value

    def stands_for(self, ours: Any, theirs: Any) -> None:
        """Let an object of NumPy's or SciPy's stand for one of ours, whose arrays have been given."""
        self._objects.append((ours, theirs))

    def _object(self, value: Any) -> Any:
        """Return what stands for an object of ours that consists of arrays."""
        for ours, theirs in self._objects:
            if ours is value:
                return theirs
        made = given_as[type(value)](value, self.give)
        self._objects.append((value, made))
        return made

    def _array(self, handle: Handle) -> NumpyArray:
        known = self._given.get(id(handle))
        if known is not None:
            return known.array
        array, host = self._seen(handle)
        if not is_writeable(handle) and array.flags.writeable:
            array = array.view()
            array.flags.writeable = False
        self._given[id(handle)] = _Given(handle, array, host)
        self._handles[id(array)] = handle
        return array

    def _seen(self, handle: Handle) -> tuple[NumpyArray, NumpyArray | None]:
        """Return an array of a handle's elements and the host side of its storage (None: the array is a copy)."""
        storage = handle._storage
        if self._keeps:
            return lend(handle), storage.host
        if is_shared(storage):
            if id(storage) not in self._borrowed:
                self._borrowed[id(storage)] = storage, fetch_storage(storage)
            host = self._borrowed[id(storage)][1]
            return seen_at(host_bytes(host), handle._layout), host
        if id(handle) in self._written:  # also if it is read-only: `ufunc.at` does not always ask
            view = begin_writing(handle)
            self._pinned.append(storage)
            return view, storage.host
        if storage.host is None and not self._whole and _is_small_part(handle):
            return fetch(handle), None
        host, view = host_and_view(handle)
        return view, host

    def settle(self) -> None:
        """Note that the call has ended; give those who share memory with us what was written to host copies of it."""
        self._unpin()
        for target in self._written.values():
            if isinstance(target, Handle) and id(target._storage) in self._borrowed:
                write_back(*self._borrowed[id(target._storage)], *target._layout.byte_bounds)

    def _unpin(self) -> None:
        for storage in self._pinned:
            end_writing(storage)
        self._pinned.clear()

    # -- from NumPy ----------------------------------------------------------------------------------------------------

    def take(self, value: Any) -> Any:
        """Return a result with our arrays for NumPy's, looked for in lists, tuples and dicts as well.

        Raises
        ------
        NeedsMirror
            A result is a view of a fetched part: the call has to be done again with ``whole=True``.
        """
        kind = type(value)
        if kind in PLAIN:
            return value
        if kind is np.ndarray:
            return self._ours(value)
        if isinstance(value, np.ndarray):
            return self._theirs_alone(value)
        if kind in taken_as:
            return self._taken(value)
        if isinstance(value, list | tuple):
            taken = [self.take(part) for part in value]
            result = _rebuilt(value, taken) if any(a is not b for a, b in zip(taken, value, strict=True)) else value
            if hasattr(kind, "_extra_fields"):  # attributes of a tuple of SciPy's beside its items
                vars(result).update({key: self.take(part) for key, part in vars(value).items()})
            return result
        if kind is dict:
            return {key: self.take(part) for key, part in value.items()}
        if isinstance(value, dict):  # as SciPy's `OptimizeResult`, which is new
            for key, part in value.items():
                value[key] = self.take(part)
        return value

    def _taken(self, value: Any) -> Any:
        """Return ours for an object of SciPy's that consists of arrays: the one that it stood for, or a new one."""
        for ours, theirs in self._objects:
            if theirs is value:
                return ours
        return taken_as[type(value)](value, self.take)

    def _theirs_alone(self, array: NumpyArray) -> NumpyArray:
        """Return an array of a class of NumPy's; a copy where it shares memory with ours that it would not keep."""
        if not self._keeps and any(np.may_share_memory(array, given.array) for given in self._given.values()):
            return array.copy()
        return array

    def _ours(self, array: NumpyArray) -> Any:
        handle = self._handles.get(id(array))
        if handle is not None:
            return handle
        if array.dtype.char == "O" and self._handles:
            self._put_back(array)
        if id(array) in self._written:
            return array
        if any(array is other for other in self._theirs):
            return types.from_host(array)
        if array.base is None and (array.flags.c_contiguous or is_dense(array)):
            return self._adopted(array)
        if not array.size:
            return self._copied(array)
        address = address_of(array)
        for given in self._given.values():
            whole = given.array if given.host is None else given.host
            low = address_of(whole)
            if low <= address < low + whole.nbytes:
                return self._viewed(given, array, address)
        return self._from_elsewhere(array, address)

    def _put_back(self, array: NumpyArray) -> None:
        """Let an array of objects hold ours, not what stood for them in lists."""
        elements = array.ravel("K")  # a view of what is new; `flat` takes no more than 32 dimensions
        for index, element in enumerate(elements if array.flags.forc else ()):
            handle = self._handles.get(id(element)) if type(element) is np.ndarray else None
            if handle is not None:
                elements[index] = handle

    def _adopted(self, array: NumpyArray) -> Any:
        """Make a new array's memory the host side of a new storage."""
        adopted = wrap_host(array)
        if not _is_writeable(array):
            adopted._view = (None, False)
        return adopted

    def _copied(self, array: NumpyArray) -> Any:
        copy = array.copy("K")
        copy.flags.writeable = _is_writeable(array)
        return self._adopted(copy)

    def _viewed(self, given: _Given, array: NumpyArray, address: int) -> Any:
        if given.host is None:
            raise NeedsMirror
        return _view_of(given.handle, given.array, given.host, array, address)

    def _from_elsewhere(self, array: NumpyArray, address: int) -> Any:
        """Return a view of memory that is none of ours: of something new, or of what the caller passed."""
        owner = _owner(array)
        if owner.base is not None or any(owner is _owner(other) for other in self._theirs):
            return self._copied(array)
        fresh = self._fresh.get(id(owner))
        if fresh is None:
            whole = array if array.nbytes == owner.nbytes and is_dense(array) else owner
            if type(whole) is not np.ndarray or not is_dense(whole):
                return self._copied(array)
            adopted = self._adopted(whole)
            self._fresh[id(owner)] = whole, adopted
            if whole is array:
                return adopted
            fresh = whole, adopted
        whole, handle = fresh
        return _view_of(handle, whole, whole, array, address)


class StandIns(Exchange):
    """The arrays of a call that reads no elements: arrays on the device are stood in for by memory nobody touches.

    What such a call returns is a view of its arguments (`take` raises `Unread` otherwise), or about shapes and dtypes.
    """

    __slots__ = ("_blocks",)

    def __init__(self) -> None:
        self._blocks: dict[int, NumpyArray] = {}  # by the id of the storage
        super().__init__()

    def _seen(self, handle: Handle) -> tuple[NumpyArray, NumpyArray | None]:
        storage = handle._storage
        if storage.host is not None:
            host, view = host_and_view(handle)
            return view, host
        block = self._blocks.get(id(storage))
        if block is None:
            block = self._blocks[id(storage)] = np.empty(layout_of(storage).nbytes, np.uint8)
        layout = handle._layout
        return np.ndarray(layout.shape, layout.dtype, block, layout.offset, layout.strides), block

    def take(self, value: Any) -> Any:
        """Return what `Exchange.take` does, unless it is an element, which was read."""
        if isinstance(value, np.generic) and self._given:
            raise Unread
        return super().take(value)

    def _viewed(self, given: _Given, array: NumpyArray, address: int) -> Any:
        host = given.handle._storage.host
        return _view_of(given.handle, given.array, host if host is given.host else None, array, address)

    def _adopted(self, array: NumpyArray) -> Any:
        if self._given and array.size:
            raise Unread
        return super()._adopted(array)


def _view_of(base: Handle, seen: NumpyArray, host: NumpyArray | None, part: NumpyArray, address: int) -> Any:
    """Return the view of `base`, for which `seen` stands, that lies where `part` does."""
    offset = address - address_of(seen) + base._layout.offset
    layout = Layout.at(part.dtype, part.shape, part.strides, offset)
    if host is None:
        return view_at(base, layout, writeable=_is_writeable(part))
    return view_at(base, layout, (None if host.dtype.hasobject else host, part), writeable=_is_writeable(part))


def _is_small_part(handle: Handle) -> bool:
    """Whether a handle sees at most half of its storage, in C order: a dense copy is then to NumPy what the view is."""
    layout = handle._layout
    value = handle._storage.value
    if value is None or 2 * layout.nbytes > value[0].layout.nbytes:
        return False
    steps = [step for step, n in zip(layout.strides, layout.shape, strict=True) if n > 1]
    return all(step > 0 for step in steps) and all(a >= b for a, b in itertools.pairwise(steps))


def _is_writeable(array: NumpyArray) -> bool:
    # Not `flags.writeable`, which warns of the result of `broadcast_arrays`.
    return bool(array.flags.num & 0x400)


def _owner(array: NumpyArray) -> NumpyArray:
    """Return the array whose memory an array views; its base is not None where that is nobody's array."""
    while array.base is not None:
        base: Any = array.base
        if not isinstance(base, np.ndarray):
            # What `as_strided` views through.
            base = getattr(base, "base", None)
            if not isinstance(base, np.ndarray):
                break
        array = base
    return array


def _rebuilt(value: Any, parts: list[Any]) -> Any:
    kind = type(value)
    if kind is list or kind is tuple:
        return kind(parts)
    if hasattr(kind, "_make"):  # a named tuple
        return kind._make(parts)
    if hasattr(kind, "_extra_fields"):  # a tuple of SciPy's that has attributes beside its items
        return kind.__new__(kind, *parts)
    return (tuple if isinstance(value, tuple) else list)(parts)
