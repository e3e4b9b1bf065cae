"""Pending values that are computed in one kernel with others.

A chain may run in the kernel of the call whose result it reads, and what it passes on the way may be the values of
other storages that are pending. Those that would pass its own result on their way read that from then on.
"""

from __future__ import annotations

from itertools import compress
from operator import is_, itemgetter
from typing import TYPE_CHECKING, Any

from oxinp._config import config
from oxinp._core.lazy import chains
from oxinp._core.lazy.balance import NUM_SIZES, are_by_rows, balance, is_sampled
from oxinp._core.lazy.calls import Pending
from oxinp._core.lazy.explain import REPORTS, note
from oxinp._core.lazy.expr import Node, find_value, graph_of, leaf, new_table, remember, structure_of
from oxinp._core.memory.storage import Storage, Value, next_mask
from oxinp._runtime import here

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._core.lazy.expr import Graph, Structure
    from oxinp._core.lazy.op import BoundOp
    from oxinp._runtime.timeline import Timeline


_FIRST = new_table()
"""Operations, structures of chains, and the leaf that is the result -> the sizes that these were first met in."""
_NEVER: Any = object()
"""Said of a structure that another one does not compute on its way, whatever its leaves are."""
_PICKS = 4
"""Of which a pair of structures keeps the latest: chains alike, of the left and the right of a cell, come in turns."""
Above = tuple[Storage, Value, int]
MIN_NBYTES = 1 << 27
"""Bytes of a chain from which on to read and write as many more takes longer than to plan it."""


def fused(storage: Storage, value: Value, others: list[Storage]) -> Value | None:
    """Compute a pending value in the kernel of a call whose result nothing else uses; None where there is none."""
    graph, leaves, _ = value
    if not graph.layout.is_contiguous or graph.structure.wants_index:
        return None
    for place in range(len(leaves)):  # not `enumerate`, which keeps what it has given
        entry = leaves[place]
        if type(entry) is not Pending or (call := entry.call) is None or call.leaves is None:
            continue
        bound = call.bound
        if (
            bound.op.fuse is not None
            and (not here.are_several or call.is_from_here())
            and len(bound.layouts) == 1
            and (graph.leaves[place] is bound.layouts[0] or graph.leaves[place].same(bound.layouts[0]))
            and (bound.fused is None or bound.fused.get((graph, place)) != (config.version, None))
            and sum([other is entry for other in leaves]) == 1
            and (bound.op.may_fuse is None or bound.op.may_fuse(bound, call.leaves))
            and not entry.is_held()
            and entry.is_read_once(lambda: others, most=0)
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


def related(value: Value, others: list[Storage]) -> tuple[dict[int, Storage], list[Above]]:
    """Find pending storages whose values are computed on the way to that of another, or for which that one is.

    Returns
    -------
    wanted : dict
        The former, by their number in its graph.
    above : list of (Storage, tuple, int)
        The latter, their values, and the number that it has in these.
    """
    graph, leaves, mask = value
    wanted: dict[int, Storage] = {}
    above: list[Above] = []
    strange, count = ~mask, len(graph.nodes)
    for other in others:
        other_value = other.value
        if other_value is None:
            continue
        part, part_leaves, bits = other_value
        if part is graph and part_leaves is leaves:  # a copy of it, see `selections`
            continue
        own = len(part.nodes)
        if part.shape != graph.shape or not own or (here.are_several and elsewhere(other) is not None):
            continue
        if own <= count:
            if bits & strange:
                continue
            number = _number_in(graph, leaves, part, part_leaves)
            if number is not None and number != graph.result and len(wanted) < chains.MAX_OUTPUTS - 1:
                wanted.setdefault(number, other)
        elif mask and not mask & ~bits and not (here.are_several or _is_bound(part.structure)):
            number = _number_in(part, part_leaves, graph, leaves)
            if number is not None and number != part.result:
                above.append((other, other_value, number))
    return wanted, above


def _is_bound(structure: Structure) -> bool:
    """Whether what a structure computes depends on more than the elements, so that it has to be computed as a whole."""
    return structure.is_flagged or structure.wants_index or structure.wants_pointer


def _number_in(graph: Graph, leaves: tuple[Any, ...], part: Graph, part_leaves: tuple[Any, ...]) -> int | None:
    """Return the number that the result of a chain has in another one, None where that does not compute it.

    What picks the leaves of the one from those of the other is kept by the two structures, as it was lately.
    """
    whole, structure = graph.structure, part.structure
    known = whole.interior
    latest = known.get(structure)
    if len(known) >= chains.MAX_PROGRAMS:
        known.clear()
    if latest is None:
        latest = known[structure] = () if _may_compute(whole, structure) else _NEVER
    if latest is _NEVER:
        return None
    for pick, number in latest:
        if all(map(is_, pick(leaves), part_leaves)) and all(map(is_, pick(graph.leaves), part.leaves)):
            return number  # type: ignore[no-any-return]
    if not {*map(id, leaves)}.issuperset(map(id, part_leaves)):
        return None
    places = _places(graph, leaves, part, part_leaves)
    if places is None:
        return None
    key = structure, places
    number = known[key] if key in known else find_value(whole, structure, places)
    known[key], known[structure] = number, ((_picking(places), number), *latest[: _PICKS - 1])
    return number


def _picking(places: tuple[int, ...]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Return what picks the leaves at some places."""
    if len(places) > 1:
        return itemgetter(*places)
    return itemgetter(slice(places[0], places[0] + 1) if places else slice(0))


def _may_compute(whole: Structure, part: Structure) -> bool:
    """Whether a structure has operations like all of another's, whatever they are applied to."""
    return {(node.lower, node.dtype) for node in part.nodes} <= {(node.lower, node.dtype) for node in whole.nodes}


def _cut(whole: Structure, number: int) -> tuple[Structure, Callable[[tuple[Any, ...]], tuple[Any, ...]], int]:
    """Return a structure that reads one of its values, by its number, instead of computing it.

    Returns
    -------
    structure : Structure
    pick : callable
        Picks from leaves those that are still read.
    place : int
        Before which of these the value stands as a leaf: where it would if it had been recorded as one.
    """
    known = whole.plans.get(("cut", number))
    if known is not None:
        return known  # type: ignore[no-any-return]
    count = len(whole.kinds)
    below, own = _under(whole, number), _under(whole, whole.result, number)
    kept = tuple([n for n in range(count) if n in own])
    place = sum([n < min(below) for n in kept])
    order = *kept[:place], number, *kept[place:]
    numbers = {n: i for i, n in enumerate(order)}
    nodes: list[Node] = []
    for n, node in enumerate(whole.nodes, count):
        if n in own and n != number:
            numbers[n] = len(order) + len(nodes)
            nodes.append(Node(node.lower, node.dtype, tuple([numbers[a] for a in node.args])))
    kinds = tuple([whole.nodes[n - count].dtype if n == number else whole.kinds[n] for n in order])
    are_arrays = tuple([n == number or whole.are_arrays[n] for n in order])
    made = structure_of(kinds, are_arrays, tuple(nodes), numbers[whole.result]), _picking(kept), place
    whole.plans["cut", number] = made
    return made


def _under(whole: Structure, number: int, end: int = -1) -> set[int]:
    """Return the numbers of a value and of all that it is made of, but for what the value `end` is made of."""
    found, left, count = {number}, [number], len(whole.kinds)
    while left:
        n = left.pop()
        if n >= count and n != end:
            left += [a for a in whole.nodes[n - count].args if a not in found]
            found.update(left)
    return found


def left_of(others: list[Storage], above: list[Above]) -> list[Storage]:
    """Return what still reads results of calls that wait, once what is `above` reads what is computed instead."""
    gone = []
    for other, (part, leaves, _), number in above:
        _, pick, _ = _cut(part.structure, number)
        if Pending not in map(type, pick(leaves)):
            gone.append(other)
    return [other for other in others if other not in gone]


def read_in(done: Value, above: list[Above]) -> None:
    """Let pending values read what has been computed instead of computing it on their way."""
    graph, entries, mask = done
    form = graph.layout._form or graph.layout.form
    for other, value, number in above:
        if other.value is not value:  # it was computed to free memory for this
            continue
        part, leaves, bits = value
        structure, pick, place = _cut(part.structure, number)
        held = pick(leaves)
        if part.views is None:
            part.views = {}
        shorter = part.views.get(number)
        if shorter is None:
            layouts = pick(part.leaves)
            shorter = graph_of(structure, part.layout, (*layouts[:place], form, *layouts[place:]))
            part.views[number] = shorter  # with which it goes: those of a loop over ever new sizes are not kept
        other.value = shorter, (*held[:place], *entries, *held[place:]), bits | mask


def _places(graph: Graph, leaves: tuple[Any, ...], part: Graph, part_leaves: tuple[Any, ...]) -> tuple[int, ...] | None:
    """Where `part`'s leaves stand among `graph`'s: the same objects read through the same layouts."""
    count = len(leaves)
    known = dict(zip(map(id, leaves), range(count), strict=True))
    if len(known) == count:  # as nearly always; no function of Python's is entered for a leaf
        found = tuple(map(known.get, map(id, part_leaves)))
        if None in found:
            return None
        if len({*found}) == len(found):
            same = map(is_, map(graph.leaves.__getitem__, found), part.leaves)  # type: ignore[arg-type]
            return found if all(same) else None  # type: ignore[return-value]
    places: list[int] = []
    for entry, layout in zip(part_leaves, part.leaves, strict=True):
        for place, candidate in enumerate(leaves):
            if candidate is entry and graph.leaves[place] is layout and place not in places:
                places.append(place)
                break
        else:
            return None
    return tuple(places)


def run_with_interior(storage: Storage, value: Value, wanted: dict[int, Storage], num_recorded: int = 0) -> Value:
    """Compute a pending value, and others on the way, by their numbers in its graph; see `Balance.computed_chain`."""
    graph, leaves, _ = value
    numbers = sorted(wanted)
    values: list[Any] = [wanted[number].value for number in numbers]
    interior = tuple([(number, values[place][0].layout) for place, number in enumerate(numbers)])
    program = (
        None if graph.programs is None or here.are_several else graph.programs.get(interior)
    )  # `find`, spelled out
    if program is not None and program.version == config.version:
        buffers = program.run_all(leaves)
    else:
        buffers = chains.run_first_with(graph, leaves, interior) or chains.find(graph, interior).run_all(leaves)
    size = balance.ran(graph.layout.nbytes, tuple(compress(leaves, graph.structure.are_arrays)))
    if size < NUM_SIZES and (is_sampled() or balance.each):
        is_by_rows = are_by_rows(graph.leaves)
        balance.computed_chain(
            size,
            graph.structure,
            graph.layout.size,
            is_first=False,
            is_by_rows=is_by_rows,
            num_recorded=num_recorded,
        )
    if REPORTS:
        note("device", chains.describe(graph), f"{graph.layout.nbytes} B result, {len(leaves)} inputs")
    result = storage.value = (leaf(graph.layout), (buffers[0],), next_mask())
    for place, (number, layout) in enumerate(interior):
        other = wanted[number]
        if other.value is values[place]:  # else it was computed to free memory for this, or has left the device
            other.value = leaf(layout), (buffers[place + 1],), next_mask()
    return result
