"""Stencils in place, ``a[1:-1] = a[:-2] + a[2:]``, by one launch that writes the whole array to new memory.

An assignment that reads elements that it overwrites is otherwise computed into other memory and copied to its part.
Where it writes most of the array, and comes again, one kernel computes the part and copies the elements beside it.
Pending work that reads the old elements keeps the old Buffer.
"""

from __future__ import annotations

import importlib
from functools import partial
from typing import TYPE_CHECKING, Any

from oxinp._config import config
from oxinp._core.lazy import schedule
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.building import Missing, attempt, missing, spells_attempt
from oxinp._core.lazy.calls import Pending
from oxinp._core.lazy.chains import arrays, input_types, instructions, keep_program
from oxinp._core.lazy.executor import Executable, load
from oxinp._core.lazy.explain import REPORTS
from oxinp._core.lazy.op import kinds_of
from oxinp._core.lazy.writing import weigh_write
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout, contiguous_strides
from oxinp._core.memory.parts import part_of
from oxinp._core.memory.recent import MEETINGS
from oxinp._core.memory.storage import SHARED
from oxinp._runtime import here
from oxinp._runtime.backend import FIRST_LOCK

if TYPE_CHECKING:
    from oxinp._core.lazy.expr import Graph
    from oxinp._core.lazy.handle import Handle
    from oxinp._core.memory.storage import Storage

FAMILY = "oxinp._kernels.elementwise.part"
MAX_NDIM = 4
SHARE = 2
"""Of an array's elements one in so many, at least, are written."""


def assign(array: Handle, key: Any, value: Handle) -> bool:
    """Write a pending array to a part of another one, which it reads; False where nothing has been done."""
    whole, source = array._known, value._held
    located = part_of(whole, key) if whole else None
    return located is not None and source is not None and rewrite(array._held or array._storage, located[0], source)


@spells_attempt
def rewrite(storage: Storage, layout: Layout, source: Storage) -> bool:
    """Write the pending value of a storage to a part of another one; False where nothing has been done.

    Parameters
    ----------
    storage : Storage
        That is written to.
    layout : Layout
        Of the part.
    source : Storage
        Whose value reads elements of the part, and has its shape and dtype.
    """
    if here.are_several or schedule.room < 0 or REPORTS:
        return False
    try:
        with FIRST_LOCK:  # `attempt`, spelled out
            return _rewrite(storage, layout, source)
    except Missing:
        pass
    return attempt(_rewrite, storage, layout, source)


def _rewrite(storage: Storage, layout: Layout, source: Storage) -> bool:
    """Do what `rewrite` does, in an attempt."""
    value, given = storage.value, source.value
    if value is None or given is None or storage.host is not None or storage.stale is not None:
        return False
    (graph, leaves, mask), (own, (buffer,), bits) = given, value
    whole = own.layout
    key = "part", whole, layout
    program = None if graph.programs is None else graph.programs.get(key)
    if program is None and not (graph.met >= MEETINGS and _may_be(graph, whole, layout)):
        return False
    if own.nodes or not graph.nodes or (mask | bits) & SHARED or whole.nbytes < balance.limit:
        return False
    if type(buffer) is Pending:
        if buffer.call is not None:
            return False
        buffer = buffer.buffer
    if program is None or program.version != config.version:
        missing(partial(_build, graph, key, whole, layout))
        return False
    try:
        computed = program.run((buffer, *leaves))
    except MemoryError:  # for which a part may be small enough
        return False
    if storage.value is not value:  # memory for this may have taken it
        return False
    storage.value = own, (computed,), bits
    weigh_write(storage, layout, graph.structure, whole.nbytes, leaves)
    return True


def _may_be(graph: Graph, whole: Layout, layout: Layout) -> bool:
    """Whether a chain can be written to a part of an array without gaps, along axes that are the array's."""
    structure = graph.structure
    return (
        layout.size * SHARE >= whole.size
        and not whole.offset
        and layout.strides == whole.strides == contiguous_strides(whole.shape, whole.dtype.itemsize)
        and layout.ndim <= MAX_NDIM
        and graph.shape == layout.shape
        and structure.dtype is layout.dtype is whole.dtype
        and layout.dtype in DEVICE_TYPES
        and not (structure.is_flagged or structure.wants_index or structure.wants_pointer or structure.has_parts)
        and all(each.is_aligned for each in graph.leaves if type(each) is Layout)
        and all(low + length <= n for (low, length), n in zip(_bounds(whole, layout), whole.shape, strict=True))
    )


def _bounds(whole: Layout, layout: Layout) -> list[tuple[int, int]]:
    """Return where a part of an array without gaps begins along each axis, and its length."""
    bounds, rest = [], layout.offset
    for step, length in zip(whole.strides, layout.shape, strict=True):
        low, rest = divmod(rest, step)
        bounds.append((low, length))
    return bounds


def _build(graph: Graph, key: Any, whole: Layout, layout: Layout) -> None:
    """Plan the launch, and compile what it launches."""
    structure = graph.structure
    planner = structure.plans.get("part")
    if planner is None:
        planner = structure.plans["part"] = importlib.import_module(FAMILY).PartChains(
            DEVICE_TYPES[layout.dtype], input_types(structure), instructions(structure), structure.result
        )
    plan = planner.plan(whole.shape, _bounds(whole, layout), arrays(graph))
    made = Executable(plan, [whole.nbytes], [None, *kinds_of(graph)])
    load(plan)
    keep_program(graph, key, made)


__all__ = ["assign", "rewrite"]
