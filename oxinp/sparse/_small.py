"""Small sparse objects on the host: SciPy's object over the memory of one of ours is kept, and asked at once.

To make it for each call takes ten times as long as what is asked of it. It is kept as long as all that it consists of
has its elements on the host alone, in the same memory, so that what is written to either is written to both. What would
be put in order in that memory, as SciPy does with indices before it needs them sorted, is left to `delegate`, and so
is whatever gives views of what it was given.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._core.host.exchange import PLAIN, Exchange, taken_as
from oxinp._core.lazy.handle import host_view
from oxinp._core.lazy.placement import is_host
from oxinp._core.lazy.results import types, wrap_host
from oxinp.sparse._base import COMPRESSED, FORMATS, Sparse, build, given, is_ours, is_small

KEPT = (*COMPRESSED, "dia")
"""Formats whose arrays SciPy's methods leave as they are, once indices are in order."""
MISSING: Any = object()


def kept(self: Sparse) -> Any:
    """Return SciPy's object over the memory of a small one of ours; None where none is to be kept."""
    known = self._twin
    if known is None:
        return _keep(self) if self.format in KEPT else None
    theirs, arrays, hosts = known
    for array, host in zip(arrays, hosts, strict=True):
        storage = array._held or array._storage
        if storage.host is not host or storage.value is not None or storage.stale is not None:
            return None
    return theirs if self.format not in COMPRESSED or _is_canonical(self, theirs) else None


def _is_canonical(self: Sparse, theirs: Any) -> bool:
    """Whether indices are in order and none comes twice, so that SciPy has nothing to put in order."""
    if not self._flags.get("canonical"):
        if not theirs.has_canonical_format:
            return False
        self._flags["canonical"] = True
    return True


def _keep(self: Sparse) -> Any:
    arrays = self._arrays()
    storages = [array._held or array._storage for array in arrays]
    hosts = [storage.host for storage in storages]
    if any(each.value is not None or each.stale is not None or each.host is None for each in storages):
        return None
    if any(each.has_objects for each in storages):
        return None
    if not is_small(self):
        return None
    theirs = given(self, host_view)
    vars(self)["_twin"] = theirs, arrays, hosts
    return kept(self)


def ask(self: Sparse, name: str, args: tuple[Any, ...]) -> Any:
    """Return what SciPy's method of a name gives that writes to nothing; `MISSING` where it is not to be asked so."""
    theirs = kept(self)
    if theirs is None:
        return MISSING
    passed = []
    for value in args:
        kind = type(value)
        if kind is types.ndarray:
            storage = value._held or value._storage
            if storage.host is None or storage.value is not None or not is_host(storage.host.nbytes):
                return MISSING
            passed.append(host_view(value))
        elif is_ours(value):
            if (other := kept(value)) is None:
                return MISSING
            passed.append(other)
        elif kind in PLAIN or (kind is tuple and PLAIN.issuperset(map(type, value))):
            passed.append(value)
        else:
            return MISSING
    result = getattr(theirs, name)(*passed)
    kind = type(result)
    if kind in PLAIN:
        return result
    if kind is np.ndarray:
        if result.base is None and id(result) not in {*map(id, passed), *map(id, vars(theirs).values())}:
            return wrap_host(result)
    elif result is theirs:
        return self
    elif kind in taken_as and (parts := _parts(result, (self, *args), (theirs, *passed))) is not None:
        return _made(result, parts)
    return _taken(result, (self, *args), (theirs, *passed))


def _parts(theirs: Any, ours: tuple[Any, ...], passed: tuple[Any, ...]) -> dict[str, Any] | None:
    """Return what an object of SciPy's consists of as ours: what has been passed, or is new; None for anything else."""
    if theirs.format not in KEPT:
        return None
    known = {}  # by the array that has the memory
    for value, each in zip(ours, passed, strict=True):
        if is_ours(value):
            known |= {id(_owner(array := getattr(each, name))): (part, array) for name, part in value._parts.items()}
        elif type(value) is types.ndarray:
            known[id(_owner(each))] = value, each
    parts = {}
    for name in FORMATS[theirs.format]:
        array = getattr(theirs, name)
        owner = _owner(array)
        if type(owner) is not np.ndarray:
            return None
        if (found := known.get(id(owner))) is None:
            if array.size != owner.size:  # the rest of which nobody needs
                array = array.copy()
                setattr(theirs, name, array)
            parts[name] = wrap_host(array)
        elif _is_same(array, found[1]):
            parts[name] = found[0]
        else:
            return None
    return parts


def _owner(array: Any) -> Any:
    return array if array.base is None else array.base


def _is_same(array: Any, other: Any) -> bool:
    """Whether two arrays are the same elements."""
    if array is other:
        return True
    are_alike = array.dtype is other.dtype and array.shape == other.shape and array.strides == other.strides
    return are_alike and array.__array_interface__["data"] == other.__array_interface__["data"]


def _made(theirs: Any, parts: dict[str, Any]) -> Any:
    """Return an object of ours that consists of these arrays, and keeps SciPy's."""
    made = build(type(theirs).__name__, parts, theirs.shape)
    made.maxprint = theirs.maxprint
    arrays = made._arrays()
    vars(made)["_twin"] = theirs, arrays, [array._storage.host for array in arrays]
    return made


def _taken(result: Any, ours: tuple[Any, ...], passed: tuple[Any, ...]) -> Any:
    """Return ours for a result that may share memory with what was passed."""
    used = Exchange(whole=True)
    for value, theirs in zip(ours, passed, strict=True):
        if is_ours(value):
            for array in value._arrays():
                used.give(array)
            used.stands_for(value, theirs)
        else:
            used.give(value)
    return used.take(result)
