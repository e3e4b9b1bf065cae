"""Pending values that are computed in one kernel with others.

A chain may run in the kernel of the call whose result it reads, and what it passes on the way may be the values of
other storages that are pending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxinp._core.lazy import chains
from oxinp._core.lazy.balance import NUM_SIZES, balance, is_sampled
from oxinp._core.lazy.calls import Pending
from oxinp._core.lazy.chains import on_device
from oxinp._core.lazy.explain import REPORTS, note
from oxinp._core.lazy.expr import find_value, leaf, new_table, remember
from oxinp._core.memory.storage import Storage, next_mask
from oxinp._runtime import here

if TYPE_CHECKING:
    from oxinp._core.lazy.expr import Graph
    from oxinp._core.lazy.op import BoundOp
    from oxinp._core.memory.storage import Value
    from oxinp._runtime.timeline import Timeline


_FIRST = new_table()
"""Operations, structures of chains, and the leaf that is the result -> the sizes that these were first met in."""
MIN_NBYTES = 1 << 27
"""Bytes of a chain from which on to read and write as many more takes longer than to plan it."""


def fused(storage: Storage, value: Value, others: list[Storage]) -> Value | None:
    """Compute a pending value in the kernel of a call whose result nothing else uses; None where there is none."""
    graph, leaves, _ = value
    if not graph.layout.is_contiguous or graph.structure.wants_index:
        return None
    for place, entry in enumerate(leaves):
        if type(entry) is not Pending or (call := entry.call) is None or call.leaves is None:
            continue
        bound = call.bound
        if (
            bound.op.fuse is not None
            and call.is_from_here()
            and len(bound.layouts) == 1
            and graph.leaves[place].same(bound.layouts[0])
            and sum(other is entry for other in leaves) == 1
            and (bound.op.may_fuse is None or bound.op.may_fuse(bound, call.leaves))
            and not entry.is_held()
            and not entry.num_readers(others)
            and _is_worth_plan(bound, graph, place)
        ):
            program = bound.fused_with(graph, place)
            if program is None:
                continue
            try:
                buffer = program.run((*call.leaves, *leaves[:place], *leaves[place + 1 :]))
            except MemoryError:  # the call alone may have a way without
                continue
            size = balance.ran(graph.layout.nbytes, call.leaves or ())
            if size < NUM_SIZES:
                bound.weigh(size)
            if REPORTS:
                note("device", f"{bound.op.name} {chains.describe(graph)}", f"{graph.layout.nbytes} B result")
            storage.value = done = leaf(graph.layout), (buffer,), next_mask()
            return done
    return None


def _is_worth_plan(bound: BoundOp, graph: Graph, place: int) -> bool:
    """Whether to plan a call and a chain together: not for ever new sizes that take arithmetic one after the other."""
    if bound.op.plan_again is None or graph.layout.nbytes >= MIN_NBYTES:
        return True
    kind = bound.op, graph.structure, place
    sizes = kind, graph.shape, bound.alike()[1]
    first = _FIRST.get(kind) or _FIRST.recall(kind)
    if first is None:
        remember(_FIRST, kind, sizes)
        return True
    return sizes == first or _FIRST.has_met(sizes, graph, bound)


def elsewhere(storage: Storage) -> Timeline | None:
    """Return where a pending value runs if that is not where the calling thread's work goes."""
    origin: Timeline | None = getattr(storage, "origin", None)
    return None if origin is None or origin is here.thread.timeline or origin.is_closed else origin


def wanted_interior(value: Value, others: list[Storage]) -> dict[int, Storage]:
    """Find pending storages whose values are computed on the way to that of another, by their number in its graph."""
    graph, leaves, mask = value
    wanted: dict[int, Storage] = {}
    strange = ~mask
    for other in others:
        other_value = other.value
        if other_value is None or other_value[2] & strange:
            continue
        part, part_leaves, _ = other_value
        if (
            part.shape != graph.shape
            or not 0 < len(part.nodes) <= len(graph.nodes)
            or (here.are_several and elsewhere(other) is not None)
        ):
            continue
        places = _places(graph, leaves, part, part_leaves)
        if places is None:
            continue
        key = (part.structure, places)
        known = graph.structure.interior
        if key not in known:
            if len(known) >= chains.MAX_PROGRAMS:
                known.clear()
            known[key] = find_value(graph.structure, part.structure, places)
        number = known[key]
        if number is not None and number != graph.result and len(wanted) < chains.MAX_OUTPUTS - 1:
            wanted.setdefault(number, other)
    return wanted


def _places(graph: Graph, leaves: tuple[Any, ...], part: Graph, part_leaves: tuple[Any, ...]) -> tuple[int, ...] | None:
    """Where `part`'s leaves stand among `graph`'s: the same objects read through the same layouts."""
    places: list[int] = []
    for entry, layout in zip(part_leaves, part.leaves, strict=True):
        for place, candidate in enumerate(leaves):
            if candidate is entry and graph.leaves[place] is layout and place not in places:
                places.append(place)
                break
        else:
            return None
    return tuple(places)


def run_with_interior(storage: Storage, value: Value, wanted: dict[int, Storage]) -> Value:
    graph, leaves, _ = value
    key = tuple(sorted(wanted))
    values: list[Any] = [wanted[number].value for number in key]
    interior = tuple([(number, other[0].layout) for number, other in zip(key, values, strict=True)])
    buffers = chains.run_first_with(graph, leaves, interior) or chains.find(graph, interior).run_all(leaves)
    size = balance.ran(graph.layout.nbytes, leaves)
    if size < NUM_SIZES and is_sampled():
        balance.computed_chain(size, graph.structure, graph.layout.size, is_first=False)
    if REPORTS:
        note("device", chains.describe(graph), f"{graph.layout.nbytes} B result, {len(leaves)} inputs")
    first, *rest = buffers
    result = storage.value = (leaf(graph.layout), (first,), next_mask())
    for (number, layout), before, buffer in zip(interior, values, rest, strict=True):
        other = wanted[number]
        if other.value is before:  # else it was computed to free memory for this, and may even have left the device
            other.value = on_device(layout, buffer)
    return result
