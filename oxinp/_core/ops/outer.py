"""Outer products of two vectors on the device, recorded without the views that are multiplied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxinp._config import config
from oxinp._core.errors.state import current, quiet
from oxinp._core.lazy.balance import balance, host_nbytes
from oxinp._core.lazy.building import attempt
from oxinp._core.lazy.chains import read
from oxinp._core.lazy.combining import join_of
from oxinp._core.lazy.explain import REPORTS
from oxinp._core.lazy.expr import graph_of, new_table, remember
from oxinp._core.lazy.handle import chain, device_value, found, stored, upload_first
from oxinp._core.lazy.placement import is_recorded_on_host, may_be_host
from oxinp._core.lazy.results import types, wrap_pending
from oxinp._core.lazy.schedule import postpone
from oxinp._core.memory.layout import Layout, dense_of, spread
from oxinp._core.memory.recent import MEETINGS
from oxinp._core.memory.storage import SHARED, Leaf
from oxinp._core.ufunc.objects import UFUNC_OBJECTS
from oxinp._runtime import select

if TYPE_CHECKING:
    import numpy as np

    from oxinp._core.lazy.expr import Structure
    from oxinp._core.lazy.handle import Handle
    from oxinp._core.memory.storage import Storage

GRAPHS: Any = new_table()
"""Of products, by the graphs of the vectors."""
_MULTIPLY = UFUNC_OBJECTS["multiply"].operations[0]
STRUCTURES: Any = new_table()
"""Of products, by the structures of the vectors; None where there is no kernel."""
LIGHT = 8.0
"""Bytes that NumPy adds in as long as it takes for an element of a chain (see `host_nbytes`), up to which it is
computed for each of its products: as a number times a vector is."""


def outer(a: Handle, b: Any = None, out: Any = None) -> Any:
    """Return the products of all elements of two vectors, pending; None where views have to be multiplied.

    Parameters
    ----------
    a, b : Handle
        Arrays of ours; of more than a dimension they are left to views.
    out : object
        Whatever there is has to be written to by others.
    """
    if type(b) is not types.ndarray or out is not None:
        return None
    u: Any
    v: Any
    first, second = a._held, b._held
    if first is not None and second is not None and first.host is second.host is None:
        u, v = first.value, second.value
        if u is not None and v is not None and u[0].layout is a._known and v[0].layout is b._known:
            graph = GRAPHS.get((u[0], v[0]))  # of vectors that are computed, or whose calls wait
            is_plain = graph is not None and not (u[0].nodes or v[0].nodes) and current() is quiet.state
            if is_plain and graph.layout.nbytes >= balance.limit and not (u[2] | v[2]) & SHARED:
                return wrap_pending((graph, u[1] + v[1], u[2] | v[2]))
    left, right = a._known or found(a), b._known or found(b)
    dtype = left.dtype
    if dtype is not right.dtype or left.ndim != 1 or right.ndim != 1:
        return None
    (m,), (n,) = left.shape, right.shape
    nbytes = m * n * dtype.itemsize
    if (
        m < 2
        or n < 2
        or nbytes < balance.limit
        or not (left.is_aligned and right.is_aligned)
        or current() is not quiet.state
    ):
        return None
    first, second = a._held or stored(a), b._held or stored(b)
    if not (first.host is second.host is None):
        version, backend = select._decided  # as a rule `_are_for_device`, spelled out
        is_plain = version == config.version and backend is not None and not REPORTS
        if not (is_plain and nbytes >= config.offload_threshold) and not _are_for_device(first, second, nbytes):
            return None
    u = first.value or attempt(upload_first, first)
    if u is None or u[0].nodes:
        u = _factor(first, left)
    elif u[0].layout is not left:
        u = chain(a)
    v = second.value or attempt(upload_first, second)  # which the first may have computed, or uploaded
    if v is None or v[0].nodes:
        v = _factor(second, right)
    elif v[0].layout is not right:
        v = chain(b)
    if u is None or v is None or (u[2] | v[2]) & SHARED:
        return None
    one, entries, mask = u
    other, others, bits = v
    structure = STRUCTURES.get((one.structure, other.structure)) or _structure_of(one.structure, other.structure, dtype)
    if structure is None:
        return None
    key = one, other
    graph = GRAPHS.get(key) or (GRAPHS.recall(key) if GRAPHS.old else None)
    if graph is None:
        shape = m, n
        leaves = [spread(entry, shape, 0) if type(entry) is Layout else entry for entry in one.leaves]
        alike = spread(left, shape, 0) if one.nodes else leaves[0]
        leaves += [spread(entry, shape, 1) if type(entry) is Layout else entry for entry in other.leaves]
        graph = graph_of(structure, dense_of(alike), tuple(leaves))
        if GRAPHS.has_met((structure, m, n, left.strides, right.strides), one, other):
            remember(GRAPHS, key, graph)
            graph.met = MEETINGS
    return wrap_pending((graph, entries + others, mask | bits))


def _factor(storage: Storage, layout: Layout) -> Any:
    """Return a vector as a value, each of whose elements is multiplied by many: computed, if that is not as light."""
    value: Any = storage.value or device_value(storage)
    graph = value[0]
    if graph.nodes:
        structure = graph.structure
        # Parts of arrays may be what the products are written to.
        is_apart = graph.layout is layout and not any([type(entry) is Leaf for entry in value[1]])  # noqa: C419 - as fast
        depends = structure.wants_index or structure.wants_pointer or structure.is_flagged  # on where elements are
        if is_apart and not depends and (structure.host_nbytes or host_nbytes(structure)) <= LIGHT:
            return value
        value = postpone(storage)
        if value is None:
            return None
    return value if value[0].layout is layout else read(layout, value)


def _are_for_device(first: Storage, second: Storage, nbytes: int) -> bool:
    """Whether products of so many bytes, of vectors of which one is on the host at least, are the device's."""
    if (first.host is None or second.host is None) and first.value is not None and second.value is not None:
        return True
    if not (may_be_host(first) and may_be_host(second)):
        return True
    return not (REPORTS or is_recorded_on_host(nbytes * _MULTIPLY.weight, _MULTIPLY.weight))


def _structure_of(one: Structure, other: Structure, dtype: np.dtype[Any]) -> Structure | None:
    """Return the structure of the products of two vectors' elements; None where there is no kernel."""
    key = one, other
    structure: Structure | None = STRUCTURES.get(key)
    if structure is None and key not in STRUCTURES:
        join = join_of(_MULTIPLY, key, None)
        is_known = join.structure is not None and not join.reason and join.structure.dtype is dtype
        structure = join.structure if is_known else None
        remember(STRUCTURES, key, structure)
    return structure


__all__ = ["GRAPHS", "STRUCTURES", "outer"]
