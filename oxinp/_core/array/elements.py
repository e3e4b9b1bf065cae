"""Elements and parts of arrays, read, written and iterated: the hot paths of what is on the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from oxinp._core.lazy.handle import fetch_storage, host_view
from oxinp._core.lazy.inlining import compiled
from oxinp._core.lazy.views import host_part
from oxinp._core.memory.storage import Storage, is_shared
from oxinp._core.ops import by_key, index, keys

# Types of single elements; converting one of another type may run code of the user's, which may read the array.
_ELEMENTS = frozenset({bool, int, float, complex, *np.sctypeDict.values()} - {np.object_, np.void})

_READ = """
def make(BASIC, getitem, gather, host_part):
    def __getitem__(self, key):
        seen = self._seen
        storage = self._held
        if storage is not None:
            host = storage.host
            if host is None:
                return getitem(self, key)
            if self._host is not host:
                seen = host_view(self)
        kind = type(key)
        if kind is not int and kind is not slice:  # `is_basic`, spelled out
            is_plain = False
            if kind is tuple:
                if len(key) == 2:
                    i, j = key
                    i, j = type(i), type(j)
                    is_plain = (i is int or i is slice) and (j is int or j is slice)
            elif kind is ndarray:
                place = seen(key) else return getitem(self, key)
                limit = config.offload_threshold
                if seen.nbytes >= limit or place.nbytes >= limit or REPORTS:
                    return gather(self, seen, key)
                if seen.dtype is OBJECT or type(self) is not kind:
                    return getitem(self, key)
                found = seen[place]
                if found.base is not None or (found.ndim != 1 and not found.flags.carray):
                    return getitem(self, key)
                return wrapped(found)
            if not is_plain:
                for part in key if kind is tuple else (key,):
                    kind = type(part)
                    if kind is not int and kind is not slice and kind not in BASIC:
                        return gather(self, seen, key)
        found = seen[key]
        if type(found) is not NumpyArray:
            return found
        if storage is None:
            storage = stored(self)
            host = seen
        elif storage.has_objects:  # which may be arrays
            return getitem(self, key)
        if balance.limit and is_sampled():
            balance.viewed(found.nbytes, host.nbytes)
        if type(self) is not ndarray:
            return host_part(self, host, found)
        return part(found) of self at key
    return __getitem__
"""
_WRITE = """
def make(ELEMENTS, BASIC, setitem, key_on_host, write_part):
    def __setitem__(self, key, value):
        try:
            storage = self._held
            if storage is None:
                seen = self._seen
                known = self._known
                if known is not FEW and known is None and seen.size < SMALL:
                    self._known = known = FEW
                kind = type(key)
                is_known = known is FEW
                if kind is not int and is_known:
                    if kind is tuple and len(key) == 2 and type(key[0]) is type(key[1]) is int:
                        pass
                    elif REPORTS:
                        is_known = False
                    elif kind is tuple:
                        for part in key:
                            kind = type(part)
                            if kind is not int and kind is not slice and kind not in BASIC:
                                is_known = False
                                break
                    else:
                        is_known = kind is slice
                if is_known:
                    if type(value) in ELEMENTS:
                        given = value
                    elif type(value) is ndarray:
                        given = seen(value) else return setitem(self, key, value)
                        is_known = given.dtype is seen.dtype  # a cast may warn
                    else:
                        is_known = False
                    if is_known and self._held is None:
                        write 'seen[key] = given' of self and return None
                storage = stored(self)
            host = storage.host
            whole = self._view
            is_number = type(value) in ELEMENTS
            kind = type(key)
            if whole is None and not is_number and type(value) is ndarray:
                origin = value._view
                if origin is not None and len(origin) == 3 and origin[2] is key:
                    if origin[0] is self and value._held is storage:
                        return  # of `a[key] += b`: the part has been written to
            if whole is None and is_number and host is not None:
                is_element = False
                if kind is int:
                    is_element = host.ndim == 1
                elif kind is tuple and len(key) == 2:
                    i, j = key
                    is_element = type(i) is int and type(j) is int and host.ndim == 2
                if is_element and storage.value is None and storage.host is host:
                    # No other thread has run since the last look at `storage`, nor does one before all is done.
                    stale = storage.stale
                    if stale is None:
                        host[key] = value
                        return
                    steps = host.strides
                    low = key * steps[0] if kind is int else i * steps[0] + j * steps[1] if i >= 0 and j >= 0 else -1
                    if 0 <= low < host.nbytes:
                        if low < stale.low:
                            stale.low = low
                        if low + host.itemsize > stale.high:  # at calls other threads may run
                            stale.high = low + host.itemsize
                        host[key] = value
                        return
            if host is None or not (whole is None or whole[1]):
                setitem(self, key, value)
                return
            seen = self._seen if self._host is host else host_view(self)
            if is_number:
                given = value
            elif type(value) is ndarray:
                given = seen(value) else return setitem(self, key, value)
                if given.dtype is not seen.dtype:  # a cast may warn
                    setitem(self, key, value)
                    return
            else:
                setitem(self, key, value)
                return
            place = key
            is_basic = True
            if kind is ndarray:
                is_basic = False
                place = seen(key) else return setitem(self, key, value)
                if place.nbytes >= config.offload_threshold:
                    place = None
            elif kind is not int and kind is not slice:  # `is_basic`, spelled out
                for part in key if kind is tuple else (key,):
                    kind = type(part)
                    if kind is not int and kind is not slice and kind not in BASIC:
                        is_basic = False
                        place = key_on_host(key)
                        break
            host = storage.host  # the arrays between have had theirs looked for
            if place is None or self._host is not host:
                setitem(self, key, value)
                return
            if (seen.nbytes < config.offload_threshold or seen.nbytes < balance.limit) and not REPORTS:
                write 'seen[place] = given' to storage and return None
            elif is_basic and not REPORTS and seen.dtype is not OBJECT:
                part = seen[key]
                if type(part) is NumpyArray and part.nbytes < config.offload_threshold:
                    write 'part[...] = given' to storage and return None
            if place is not key or storage.value is not None or not write_part(self, host, seen, key, given):
                setitem(self, key, value)
        except TypeError as error:
            if error.args != REFUSED:
                raise
        else:
            return
        setitem(self, key, value)  # which warns of a number that does not fit in the name of the user's line
    return __setitem__
"""


getitem: Callable[[Any, Any], Any] = compiled("ndarray.__getitem__", _READ)(
    keys.BASIC, index.getitem, index.gather_on_host, host_part
)
setitem: Callable[[Any, Any, Any], None] = compiled("ndarray.__setitem__", _WRITE, may_warn=True)(
    _ELEMENTS, keys.BASIC, index.setitem, by_key.key_on_host, index.write_part
)


def iterate(array: Any) -> Iterator[Any]:
    """Return what goes through the first axis of an array, as it is at each step."""
    layout = array._known or array._seen
    if not layout.ndim:
        raise TypeError("iteration over a 0-d array")
    storage = array._held or array._storage
    if layout.ndim == 1:
        if storage.host is None and layout.size and not is_shared(storage):
            fetch_storage(storage)
        if storage.host is not None and not layout.dtype.hasobject:
            return _elements(array, storage, host_view(array))
    return map(array.__getitem__, range(layout.shape[0]))


def _elements(array: Any, storage: Storage, seen: np.ndarray[Any, Any]) -> Iterator[Any]:
    host = array._host
    for i in range(len(seen)):
        yield seen[i] if storage.host is host and array._seen is seen else array[i]


__all__ = ["getitem", "iterate", "setitem"]
