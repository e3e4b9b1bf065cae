"""Elements and parts of arrays, read, written and iterated: the hot paths of what is on the host."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import Any

import numpy as np

from oxinp._config import config
from oxinp._core.lazy import placement, schedule
from oxinp._core.lazy.handle import fetch, fetch_storage, host_view
from oxinp._core.lazy.inlining import compiled
from oxinp._core.lazy.views import host_part
from oxinp._core.memory.storage import Storage, Value, is_shared
from oxinp._core.ops import by_key, index, keys

# Types of single elements; converting one of another type may run code of the user's, which may read the array.
_ELEMENTS = frozenset({bool, int, float, complex, *np.sctypeDict.values()} - {np.object_, np.void})

_READ = """
def make():
    def __getitem__(self, key, *, _=None):  # by a keyword, so that Python calls it through the slot
        seen = self._seen
        host = self._host
        storage = self._held
        if seen is None or (storage is not None and storage.host is not host):
            if storage.host is None or storage.has_objects:  # which may be arrays
                return general_getitem(self, key)
            host, seen = host_and_view(self)
        has_new = False  # axes, or may have
        kind = type(key)
        if kind is tuple:
            unless basic(key): return gather(self, seen, key); unless usual: has_new = True
        elif kind is not int and kind is not slice:
            if kind is ndarray:
                place = seen(key) else return general_getitem(self, key)
                if self._known is not FEW or key._known is not FEW:
                    limit = config.offload_threshold
                    nbytes = seen.nbytes
                    if place.nbytes >= limit:
                        return gather(self, seen, key)
                    if nbytes >= limit and (nbytes >= balance.limit or key._known is not FEW) and not is_host(nbytes):
                        return gather(self, seen, key)
                    if type(self) is not kind:
                        return general_getitem(self, key)
                    mark(self, seen)
                    mark(key, place)
                if REPORTS:
                    return gather(self, seen, key)
                found = seen[place]
                if found.ndim != 1 and (found.base is not None or not found.flags.carray):
                    return general_getitem(self, key)
                return wrapped(found)
            elif kind not in BASIC:
                return gather(self, seen, key)
            has_new = True
        found = seen[key]
        if type(found) is not NumpyArray:
            return found
        if storage is None:
            storage = stored(self)
        broadcasts = has_new or (found.ndim > 1 and 1 in found.shape)
        if self._known is FEW:  # and of no user's class
            return part(found) of self at key, known None if broadcasts else FEW
        if balance.limit and is_weighed():
            balance.viewed(found.nbytes, host.nbytes, times_weighed())
        if type(self) is not ndarray:
            return host_part(self, host, found)
        return part(found) of self at key, known None if broadcasts or found.size >= SMALL else FEW
    return __getitem__
"""
_WRITE = """
def make():
    def __setitem__(self, key, value):
        try:
            kind = type(value)
            if kind is ndarray:
                if value._held is self._held:
                    if value._view is self and self._view is None and value._at is key:
                        return  # of `a[key] += b`: the part has been written to
                given = seen(value) else return general_setitem(self, key, value)
                seen = self._seen
                if seen is None:
                    return general_setitem(self, key, value)
                dtype = given.dtype
                if dtype is not seen.dtype and (seen.dtype is not FLOAT64 or dtype.kind not in "iub"):
                    return general_setitem(self, key, value)  # a cast may warn
            elif kind is float or kind in ELEMENTS:
                given = value
                kind = type(key)
                if kind is tuple and len(key) == 2:
                    i, j = key
                    num_integers = 2 if type(i) is int is type(j) else 0
                else:
                    num_integers = 1 if kind is int else 0  # not a truth value, which Python compares slowly
                if num_integers:  # nothing is called from here on, so that no other thread runs
                    seen = self._seen
                    storage = self._held
                    if storage is None:
                        if seen.ndim == num_integers:
                            seen[key] = value
                            return
                    elif seen is not None and self._host is storage.host and storage.value is None:
                        whole = self._view
                        if seen.ndim == num_integers and (type(whole) is not tuple or whole[1]):
                            stale = storage.stale
                            if stale is None:
                                seen[key] = value
                                return
                            if whole is None:
                                steps = seen.strides
                                if num_integers == 1:
                                    low = key * steps[0]
                                else:
                                    low = i * steps[0] + j * steps[1] if i >= 0 and j >= 0 else -1
                                if 0 <= low < seen.nbytes:
                                    if low < stale.low:
                                        stale.low = low
                                    if low + seen.itemsize > stale.high:  # at calls other threads may run
                                        stale.high = low + seen.itemsize
                                    seen[key] = value
                                    return
            elif (kind is tuple or kind is list) and value and ELEMENTS.issuperset(map(type, value)):
                seen = self._seen
                if seen is None or seen.dtype.kind not in "biufc":  # of which a tuple may be one element
                    return general_setitem(self, key, value)
                given = value
            else:
                return general_setitem(self, key, value)
            is_basic = True
            place = key
            kind = type(key)
            if kind is tuple:
                unless basic(key): is_basic = False; unless usual: pass
            elif kind is not int and kind is not slice and kind not in BASIC:
                is_basic = False
            if not is_basic:
                if kind is ndarray:
                    place = seen(key) else return general_setitem(self, key, value)
                    if place.nbytes >= config.offload_threshold and key_on_host(key) is None:
                        return general_setitem(self, key, value)
                else:
                    place = key_on_host(key)
                    if place is None:
                        return general_setitem(self, key, value)
            # Nothing is called from here to where elements are written.
            seen = self._seen
            storage = self._held
            if storage is None:
                mark(self, seen)
                if self._known is FEW and not REPORTS:
                    write 'seen[place] = given' of self, seen at place, and return None
                storage = stored(self)
            host = storage.host
            if seen is None or self._host is not host:
                if host is not None:
                    host_view(self)
                return general_setitem(self, key, value)
            whole = self._view
            if REPORTS or (type(whole) is tuple and not whole[1]):
                return general_setitem(self, key, value)
            if self._known is FEW or seen.nbytes < config.offload_threshold or seen.nbytes < balance.limit:
                write 'seen[place] = given' to storage and return None
            elif not is_basic:
                if is_host(seen.nbytes):
                    write 'seen[place] = given' to storage and return None
            else:
                part = seen[key]
                if type(part) is NumpyArray and part.nbytes < config.offload_threshold:
                    write 'part[...] = given' to storage and return None
            if place is not key or storage.value is not None or not write_part(self, host, seen, key, given):
                general_setitem(self, key, value)
        except TypeError as error:
            if error.args != REFUSED:
                raise
        else:
            return
        general_setitem(self, key, value)  # which warns of a number that does not fit in the name of the user's line
    return __setitem__
"""

_ITERATE = """
def make():
    def __iter__(self):
        seen = self._seen
        if not has_code or seen is None or self._known or not seen.ndim:
            return iterate(self)
        storage = self._held
        if storage is not None and storage.host is None:
            return iterate(self)
        return map(subscript, repeat(self), range(len(seen)))
    return __iter__
"""

# Global names: a call would copy the variables of `make` first, and element reads are little more than a call.
_NAMES = {
    "BASIC": keys.BASIC,
    "ELEMENTS": _ELEMENTS,
    "gather": index.gather_on_host,
    "general_getitem": index.getitem,
    "general_setitem": index.setitem,
    "host_part": host_part,
    "is_host": placement.is_host,
    "key_on_host": by_key.key_on_host,
    "write_part": index.write_part,
}

getitem: Callable[[Any, Any], Any] = compiled("ndarray.__getitem__", _READ, names=_NAMES)()
setitem: Callable[[Any, Any, Any], None] = compiled("ndarray.__setitem__", _WRITE, may_warn=True, names=_NAMES)()


COUNTED, MANY = 64, 256
"""Elements that a loop over as many as the other reads one by one: such reads are counted, and get machine code, by
which later loops take half of the time."""


def _iterate(array: Any) -> Iterator[Any]:
    """Return what goes through the first axis of an array, as it is at each step."""
    layout = array._known or (array._layout if array._seen is None else array._seen)
    if not layout.ndim:
        raise TypeError("iteration over a 0-d array")
    if layout.ndim == 1:
        storage = array._storage
        if storage.host is None and layout.size and not is_shared(storage):
            if _is_small_part(array, storage) and not placement.wants_mirror(storage, layout.nbytes):
                schedule.materialise(storage)
                return _fetched(array, storage, storage.value, fetch(array))
            fetch_storage(storage)
        if storage.host is not None and not layout.dtype.hasobject:
            seen = host_view(array)
            if not config.machine_code or len(seen) < MANY:
                return _elements(array, storage, seen, 0)
            return chain(map(operator.getitem, repeat(array), range(COUNTED)), _elements(array, storage, seen, COUNTED))
    return map(operator.getitem, repeat(array), range(layout.shape[0]))


def _is_small_part(array: Any, storage: Storage) -> bool:
    """Whether an array whose elements are on the device is at most half of what its storage holds."""
    value = storage.value
    return value is not None and 2 * array._layout.nbytes <= value[0].layout.nbytes


def _fetched(array: Any, storage: Storage, value: Value | None, elements: np.ndarray[Any, Any]) -> Iterator[Any]:
    """Go through elements that were fetched when a storage had a value, a new tuple with each write to the device."""
    layout = array._known
    for i in range(len(elements)):
        yield elements[i] if storage.value is value and array._known is layout else array[i]


def _elements(array: Any, storage: Storage, seen: np.ndarray[Any, Any], first: int) -> Iterator[Any]:
    host = array._host
    for i in range(first, len(seen)):
        yield seen[i] if storage.host is host and array._seen is seen else array[i]


_names = {"iterate": _iterate, "repeat": repeat, "subscript": operator.getitem}
iterate: Callable[[Any], Iterator[Any]] = compiled("ndarray.__iter__", _ITERATE, names=_names)()

__all__ = ["getitem", "iterate", "setitem"]
