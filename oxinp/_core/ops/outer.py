"""Outer products of two vectors on the device, recorded without the views that are multiplied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxinp._core.errors.state import current, quiet
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.chains import entry_at
from oxinp._core.lazy.combining import join_of
from oxinp._core.lazy.explain import REPORTS
from oxinp._core.lazy.expr import graph_of, leaf, new_table, remember
from oxinp._core.lazy.handle import device_value
from oxinp._core.lazy.placement import is_recorded_on_host, may_be_host
from oxinp._core.lazy.results import wrap_pending
from oxinp._core.lazy.schedule import postpone
from oxinp._core.memory.layout import Layout, dense_layout, make_layout
from oxinp._core.memory.recent import MEETINGS
from oxinp._core.memory.storage import SHARED
from oxinp._core.ufunc.objects import UFUNC_OBJECTS

if TYPE_CHECKING:
    import numpy as np

    from oxinp._core.lazy.expr import Structure
    from oxinp._core.lazy.handle import Handle
    from oxinp._core.memory.storage import Storage

_GRAPHS: Any = new_table()
_MULTIPLY = UFUNC_OBJECTS["multiply"].operations[0]
_STRUCTURES: dict[tuple[np.dtype[Any], int], Structure | None] = {}
"""Of the products of two arrays, by their dtype and its number; None where there is no kernel."""


def outer(a: Handle, b: Handle) -> Any:
    """Return the products of all elements of two vectors, pending; None where views have to be multiplied.

    Parameters
    ----------
    a, b : Handle
        Arrays of ours of one dimension.
    """
    left, right = a._known or a._layout, b._known or b._layout
    dtype = left.dtype
    (m,), (n,), itemsize = left.shape, right.shape, dtype.itemsize
    if (
        dtype is not right.dtype
        or m < 2
        or n < 2
        or m * n * itemsize < balance.limit
        or not (left.is_aligned and right.is_aligned)
        or current() is not quiet.state
    ):
        return None
    structure = _STRUCTURES.get((dtype, dtype.num)) or _structure_of(left, right)
    first, second = a._held or a._storage, b._held or b._storage
    if structure is None or not (first.host is second.host is None or _are_for_device(first, second, m * n * itemsize)):
        return None
    u: Any = first.value or device_value(first)
    v: Any = second.value or device_value(second)
    if u[0].nodes:  # which has to be computed once for all that it is multiplied by
        u = postpone(first)
        v = second.value if u is not None else None  # which that may have computed
    if v is not None and v[0].nodes:
        v = postpone(second)
    if u is None or v is None or (u[2] | v[2]) & SHARED:
        return None
    entry, other, mask = u[1][0], v[1][0], u[2] | v[2]
    if u[0].layout is not left:
        entry = entry_at(left.offset, entry)
    if v[0].layout is not right:
        other = entry_at(right.offset, other)
    graph = _GRAPHS.get((left, right)) or (_GRAPHS.recall((left, right)) if _GRAPHS.old else None)
    if graph is None:
        leaves = (
            make_layout(dtype, (m, n), (left.strides[0], 0), left.alignment % 256),  # as `Layout.form` has them
            make_layout(dtype, (m, n), (0, right.strides[0]), right.alignment % 256),
        )
        graph = graph_of(structure, dense_layout(dtype, (m, n)), leaves)
        if _GRAPHS.has_met((m, n, left.strides, right.strides), left, right):
            remember(_GRAPHS, (left, right), graph)
            graph.met = MEETINGS
    return wrap_pending((graph, (entry, other), mask))


def _are_for_device(first: Storage, second: Storage, nbytes: int) -> bool:
    """Whether products of so many bytes, of vectors of which one is on the host at least, are the device's."""
    if (first.host is None or second.host is None) and first.value is not None and second.value is not None:
        return True
    if not (may_be_host(first) and may_be_host(second)):
        return True
    return not (REPORTS or is_recorded_on_host(nbytes * _MULTIPLY.weight, _MULTIPLY.weight))


def _structure_of(left: Layout, right: Layout) -> Structure | None:
    """Find the structure of the products of arrays of one dtype, and keep it."""
    join = join_of(_MULTIPLY, (leaf(left).structure, leaf(right).structure), None)
    is_known = join.structure is not None and not join.reason and join.structure.dtype is left.dtype
    structure = _STRUCTURES[left.dtype, left.dtype.num] = join.structure if is_known else None
    return structure


__all__ = ["outer"]
