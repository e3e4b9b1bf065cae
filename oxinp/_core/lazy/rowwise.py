"""Row-wise chains: reductions over the last axes and what is made of them, in one kernel.

The leaves of a chain may be results of reductions that have not run (see `calls`), over axes of arrays as large as the
chain itself; what they reduce may be chains over the same arrays, and over results of other reductions. Merged, they
are one program over rows (`_kernels.rowwise`), which reads each array once. A result that somebody else needs as well
is stored by the same kernel. Values are those that the separate kernels give, bit for bit, so that it makes no
difference whether one is looked at before.
"""

from __future__ import annotations

import math
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any
from weakref import ref

from oxinp._config import config
from oxinp._core.lazy import row_launches
from oxinp._core.lazy.balance import NUM_SIZES, balance, host_nbytes, is_sampled
from oxinp._core.lazy.building import missing
from oxinp._core.lazy.calls import CALLS, Pending, finish_each, waiting
from oxinp._core.lazy.chains import ELEMENTWISE_CALL
from oxinp._core.lazy.explain import REPORTS, note
from oxinp._core.lazy.expr import Graph, leaf, new_table, remember
from oxinp._core.lazy.placement import keyed
from oxinp._core.lazy.row_programs import RowProgram, merged
from oxinp._core.memory.recent import MEETINGS
from oxinp._core.memory.storage import next_mask
from oxinp._runtime import here

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._core.lazy.op import BoundOp
    from oxinp._core.memory.layout import Layout
    from oxinp._core.memory.storage import Storage, Value

_PROGRAMS = new_table()
EARLY = 4 * MEETINGS
"""Looks at a chain of the sizes that its structure was first met in that let it be merged without more ado; and at one
of other sizes before it is, for to plan it takes as long as some dozens spare that are merged."""
_MERGED = new_table()
"""A graph and the bound reductions that it reads -> its latest merged kernels, the last one used first."""
_NUMBERS = frozenset({bool, int, float, complex})
"""Types of leaves that are numbers, which are not in device memory."""
MOST_MERGED = 4
"""Merged kernels kept for each: the first turn of a loop reads other arrays than those after it."""
_STRUCTURES = new_table()  # of which there has been a program -> its sizes, and how often these came early

is_patient = True
"""Sizes of a known structure that have not been met often run one reduction after the other: that takes arithmetic, and
a program has to be planned."""


def compute(storage: Storage, value: Value, wanted: dict[int, Storage], others: Sequence[Storage]) -> Value | None:
    """Compute a pending value together with the reductions that it is made of; None where it is made of none.

    Parameters
    ----------
    storage : Storage
    value : tuple
        Its value.
    wanted : dict
        Pending storages whose values are computed on the way, by their numbers in the value's graph.
    others : sequence of Storage
        What else is pending.
    """
    graph, leaves, _ = value
    if not graph.layout.is_contiguous:
        return None
    bounds = [
        call.bound
        for entry in leaves
        if type(entry) is Pending
        and (call := entry.call) is not None
        and call.leaves is not None
        and call.bound.op.rows is not None
        and (not here.are_several or call.is_from_here())  # as `_is_reduction` has it
    ]
    if not bounds:
        return None
    near: Any = (graph, *bounds)
    if here.are_several:
        near = keyed(near)
    latest: tuple[_Merged, ...] = _MERGED.get(near, ())
    entries: Sequence[Any] | None = None
    for known in latest:
        entries = known.entries_of(leaves)
        if entries is not None:
            if known is not latest[0]:
                _MERGED[near] = known, *[other for other in latest if other is not known]
            break
    else:
        is_new = not latest and is_patient
        if is_new and not wanted and graph.layout.ndim < 2 and (done := _again(storage, value, others)) is not None:
            return done
        results = [entry for entry in leaves if _is_reduction(entry)]
        if is_new and _is_once(graph, results):
            return None
        met = _Met()
        places = met.meet(graph, leaves)
        found = _find(graph, places, met, results if latest else ())  # if what these are made of has been, too
        if found is None:
            return None
        known, entries = _Merged(found, places, met), met.entries
        if latest:
            _MERGED[near] = known, *latest[: MOST_MERGED - 1]
        else:
            remember(_MERGED, near, (known,))
    program = known.program
    if program is None:
        return None
    along: list[Storage] = []
    outputs: tuple[tuple[int, Layout], ...] = ()
    if wanted:
        values: dict[int, Any] = {number: other.value for number, other in wanted.items()}
        interior = sorted([number for number, value in values.items() if value[0].layout.is_contiguous])
        along = [wanted[number] for number in interior]
        outputs = tuple([(number, values[number][0].layout) for number in interior])
    stored = _needed_elsewhere(entries, program, along, others)
    executables = program.executables  # `RowProgram.executable`, spelled out
    executable = executables.get((outputs, stored)) or program.executable(graph, outputs, stored)
    if executable is None:
        return None
    calls = [entries[number].call for number in stored]  # one may run now, for an input that is made of it
    read = tuple([entries[number] for number in program.entries])
    try:
        buffers = executable.run_all(read)
    except MemoryError:  # one after the other takes less at a time
        return None
    layout = graph.layout
    size = balance.ran(layout.nbytes, read)
    if size < NUM_SIZES and (is_sampled() or balance.each):
        cost = host_nbytes(graph.structure) * layout.size + sum([bound.host_cost() for bound in known.bounds])
        balance.computed_call(size, cost, begun=sum([bound.begun_nbytes() for bound in known.bounds]))
    if REPORTS:
        note("device", f"rows: {program.describe()} -> {graph.dtype} {graph.shape}", f"{layout.nbytes} B result")
    done = storage.value = layout.graph or leaf(layout), (buffers[0],), next_mask()
    for place, (_, layout) in enumerate(outputs):
        along[place].value = layout.graph or leaf(layout), (buffers[place + 1],), next_mask()
    if calls:
        finish_each(calls, buffers[-len(calls) :])
    return done


def _again(storage: Storage, value: Value, others: Sequence[Storage]) -> Value | None:
    """Compute a vector or an element made of reductions by arithmetic alone; None where there is more to do."""
    graph, leaves, _ = value
    if here.are_several or REPORTS:
        return None
    layout = graph.layout
    if not row_launches.is_worth_a_look(graph, leaves, layout):
        return None
    found = row_launches.row_launch(graph, leaves, layout, others)
    if found is None:
        return None
    buffer = found.backend.allocate(layout.nbytes)
    row_launches.run_rows(found, buffer.ptr, graph, layout.nbytes)
    done = storage.value = leaf(layout), (buffer,), next_mask()
    return done


def _is_reduction(entry: Any) -> bool:
    """Whether a leaf is the result of a call that has not run and may be part of a row-wise kernel."""
    if type(entry) is not Pending or (call := entry.call) is None:
        return False
    if call.leaves is None or call.bound.op.rows is None:
        return False
    return not here.are_several or call.is_from_here()


def is_of_fewer(value: Value) -> bool:
    """Whether a pending chain is made of a reduction that has not run, and has fewer elements than that reduces."""
    graph, leaves, _ = value
    size: int = graph.layout.size
    return size < _reduced_size(leaves)


def _reduced_size(leaves: tuple[Any, ...]) -> int:
    """The most elements that a reduction takes which has not run, and which these leaves are made of."""
    size = 0
    for entry in leaves:
        is_pending: bool = type(entry) is Pending
        if is_pending and _is_reduction(entry):
            bound = entry.call.bound
            is_chain = bound.op is ELEMENTWISE_CALL
            size = max(size, _reduced_size(entry.call.leaves) if is_chain else math.prod(bound.alike()[1]))
    return size


class _Met:
    """The leaves of a chain and of the reductions that it is made of, each once, numbered as they are met.

    Attributes
    ----------
    entries : list
    calls : dict
        By the number of a result its bound operation, and the numbers of the leaves of that.
    key : list
        What tells apart chains that take different programs.
    """

    def __init__(self) -> None:
        self.entries: list[Any] = []
        self.calls: dict[int, tuple[BoundOp, tuple[int, ...]]] = {}
        self.key: list[Any] = []
        self._numbers: dict[int, int] = {}

    def meet(self, what: Any, leaves: tuple[Any, ...]) -> list[int]:
        """Number the leaves of a graph, or of a bound operation; return the numbers."""
        self.key.append(what)
        places = []
        for entry in leaves:
            number = self._numbers.get(id(entry))
            if number is None:
                number = self._numbers[id(entry)] = len(self.entries)
                self.entries.append(entry)
                if (  # `_is_reduction`, spelled out
                    type(entry) is Pending
                    and (call := entry.call) is not None
                    and (own := call.leaves) is not None
                    and call.bound.op.rows is not None
                    and (not here.are_several or call.is_from_here())
                ):
                    self.calls[number] = call.bound, tuple(self.meet(call.bound, own))
            self.key.append(number)
            places.append(number)
        return places


class _Merged:
    """A chain that has been merged with the reductions that it is made of, by which it is known when it comes again.

    Parameters
    ----------
    found : tuple of (int, RowProgram or None)
        The version of the settings, and the program, None where there is none.
    places : list of int
        The numbers of the chain's leaves.
    met : _Met

    Attributes
    ----------
    program : RowProgram or None
    bounds : list of BoundOp
        The operations.
    """

    __slots__ = (
        *("_kinds", "_num_lying", "_others", "_pick", "_pick_lying", "_repeats", "_steps", "_version"),
        *("bounds", "program"),
    )

    def __init__(self, found: tuple[int, RowProgram | None], places: list[int], met: _Met) -> None:
        self._version, self.program = found
        self.bounds = [bound for bound, _ in met.calls.values()]
        numbers, seen, steps = [*places], set[int](), []
        for at, number in enumerate(numbers):  # which gets longer meanwhile
            if number in met.calls and number not in seen:
                seen.add(number)
                bound, own = met.calls[number]
                steps.append((at, bound))
                numbers += own
        first = [numbers.index(number) for number in range(len(met.entries))]
        self._steps, self._pick = tuple(steps), itemgetter(*first)
        self._repeats = [(at, first[number]) for at, number in enumerate(numbers) if at != first[number]]
        self._kinds = [*map(type, met.entries)]
        self._others = [n for n, kind in enumerate(self._kinds) if kind is Pending and n not in met.calls]
        lying = [at for at, kind in zip(first, self._kinds, strict=True) if kind not in _NUMBERS]
        self._pick_lying, self._num_lying = itemgetter(*lying, lying[0]), len(lying)

    def entries_of(self, leaves: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return the operands of the merged kernel, numbered as `_Met` does, of a chain with these leaves.

        None if its reductions are others, or read other operands twice: it is to be merged anew.
        """
        if self._version != config.version:
            return None
        given = leaves
        for at, bound in self._steps:
            entry = given[at]
            if type(entry) is not Pending or (call := entry.call) is None or call.bound is not bound:
                return None
            if (own := call.leaves) is None or (here.are_several and not call.is_from_here()):
                return None
            given += own
        for at, first in self._repeats:
            if given[at] is not given[first]:
                return None
        entries: tuple[Any, ...] = self._pick(given)
        if [*map(type, entries)] != self._kinds or len({*self._pick_lying(given)}) < self._num_lying:
            return None
        for number in self._others:
            if (call := entries[number].call) is not None and call.bound.op.rows is not None:
                return None
        return entries


def _needed_elsewhere(
    entries: Sequence[Any], program: RowProgram, along: Sequence[Storage], others: Sequence[Storage]
) -> tuple[int, ...]:
    """Return the numbers of the results of reductions that more than this kernel needs."""
    read = [value[1] for other in others if (value := other.value) is not None and other not in along]
    absorbed = {entries[number]: number for number in program.absorbed}
    if len(CALLS) > len(absorbed):
        own = {entry.call for entry in absorbed}
        read += [call.leaves or () for call in waiting() if call not in own]
    needed, is_read = [], absorbed.keys() & chain.from_iterable(read)
    for entry, number in absorbed.items():
        if entry in is_read:
            needed.append(number)
        elif (owner := entry.owner) is not None and (storage := owner()) is not None:  # `is_held`, spelled out
            value = storage.value
            if value is not None and not value[0].nodes and value[1][0] is entry:
                needed.append(number)
    needed.sort()
    return tuple(needed)


def _find(graph: Graph, places: list[int], met: _Met, results: Sequence[Any]) -> tuple[int, RowProgram | None] | None:
    """Return the program of a chain merged with reductions, None where there is none, and the settings' version.

    None where it has to be made, and is not worth it, as `_is_once` has it of the chain's `results`, if there are any.
    """
    key: Any = keyed(tuple(met.key)) if here.are_several else tuple(met.key)
    found: tuple[int, RowProgram | None] | None = _PROGRAMS.get(key) or _PROGRAMS.recall(key)
    if found is None or found[0] != config.version:
        if results and is_patient and _is_once(graph, [*results]):
            return None
        calls = met.calls
        missing(lambda: remember(_PROGRAMS, key, (config.version, merged(graph, tuple(places), calls))))
        found = _PROGRAMS.get(key) or _PROGRAMS.recall(key)
        assert found is not None
    return found


_left: list[ref[Pending]] = []
"""The results that reductions of sizes not met often wait for: the attempt to run them may be repeated."""


def _operations_of(results: list[Any]) -> list[BoundOp]:
    """Return what gives some results of reductions, and those that it is applied to."""
    operations: list[BoundOp] = []
    for entry in results:
        operations.append(entry.call.bound)
        if Pending in map(type, entry.call.leaves):
            operations += _operations_of([other for other in entry.call.leaves if _is_reduction(other)])
    return operations


def _is_once(graph: Graph, results: list[Any]) -> bool:
    """Whether a chain's sizes have not been met often, of a structure that has, `results` of reductions among them."""
    for reference in _left:
        if reference() is results[0]:
            return True
    kinds: tuple[Any, ...] = ()
    shapes: tuple[Any, ...] = ()
    size = 0
    for entry in results:
        bound = entry.call.bound
        kind, shape = bound.alike()
        kinds += (bound.op, kind)
        shapes += (shape,)
        if bound.op is ELEMENTWISE_CALL:
            size = max(size, _reduced_size(entry.call.leaves))
    structure = graph.structure, kinds
    sizes = structure, graph.shape, shapes, size
    first = _STRUCTURES.get(structure) or _STRUCTURES.recall(structure)
    if first is None:
        remember(_STRUCTURES, structure, first := [sizes, 0])
        _PROGRAMS.marks[hash(sizes)] = EARLY
    if len(results) == 1 and Pending not in map(type, entry.call.leaves):  # as most are
        has_met = _PROGRAMS.has_met(sizes, graph, bound, times=EARLY)
    else:
        has_met = _PROGRAMS.has_met(sizes, graph, *_operations_of(results), times=EARLY)
    if not has_met and sizes == first[0] and first[1] < EARLY:  # until the operations have been met often, too
        first[1] += 1
        has_met = True
    if has_met:
        return False
    _left[:] = map(ref, results)
    return True
