"""Row-wise chains: reductions over the last axes and what is made of them, in one kernel.

The leaves of a chain may be results of reductions that have not run (see `calls`), over axes of arrays as large as the
chain itself; what they reduce may be chains over the same arrays, and over results of other reductions. Merged, they
are one program over rows (`_kernels.rowwise`), which reads each array once. A result that somebody else needs as well
is stored by the same kernel. Values are those that the separate kernels give, bit for bit, so that it makes no
difference whether one is looked at before.
"""

from __future__ import annotations

import importlib
import math
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

from oxinp._config import config
from oxinp._core.lazy.building import missing
from oxinp._core.lazy.calls import CALLS, Pending
from oxinp._core.lazy.chains import ELEMENTWISE_CALL, MAX_OUTPUTS, operand
from oxinp._core.lazy.executor import Executable
from oxinp._core.lazy.explain import REPORTS, note
from oxinp._core.lazy.expr import MAX_LEAVES, MAX_NODES, Graph, leaf, new_table, remember
from oxinp._core.lazy.op import RowWalk
from oxinp._core.lazy.placement import device, keyed
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout, contiguous_strides
from oxinp._core.memory.storage import next_mask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._core.lazy.op import BoundOp
    from oxinp._core.memory.storage import Storage, Value

_PROGRAMS = new_table()
_STRUCTURES = new_table()  # of which there has been a program

is_patient = True
"""Sizes of a known structure that are met for the first time run one reduction after the other: that takes arithmetic,
and a program has to be planned."""


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
    if not graph.layout.is_contiguous or not any(map(_is_reduction, leaves)):
        return None
    met = _Met()
    places = met.meet(graph, leaves)
    program = _program(graph, tuple(places), met)
    if program is None:
        return None
    interior = tuple(sorted([n for n, other in wanted.items() if _layout_of(other).is_contiguous]))
    along = [wanted[number] for number in interior]
    stored = _needed_elsewhere(met, program, along, others)
    outputs = tuple([(number, _layout_of(wanted[number])) for number in interior])
    executable = program.executable(graph, outputs, stored)
    if executable is None:
        return None
    calls = [met.entries[number].call for number in stored]  # one may run now, for an input that is made of it
    try:
        buffers = executable.run_all(tuple([met.entries[number] for number in program.entries]))
    except MemoryError:  # one after the other takes less at a time
        return None
    if REPORTS:
        note("device", f"rows: {program.describe()} -> {graph.dtype} {graph.shape}", f"{graph.layout.nbytes} B result")
    done = storage.value = leaf(graph.layout), (buffers[0],), next_mask()
    for other, buffer in zip(along, buffers[1:], strict=False):
        other.value = leaf(_layout_of(other)), (buffer,), next_mask()
    for call, buffer in zip(calls, buffers[1 + len(along) :], strict=True):
        call.finish([buffer])
    return done


def _is_reduction(entry: Any) -> bool:
    """Whether a leaf is the result of a call that has not run and may be part of a row-wise kernel."""
    if type(entry) is not Pending or (call := entry.call) is None:
        return False
    return call.leaves is not None and call.bound.op.rows is not None


def is_of_fewer(value: Value) -> bool:
    """Whether a pending chain is made of a reduction that has not run, and has fewer elements than that reduces."""
    graph, leaves, _ = value
    size: int = graph.layout.size
    return size < _reduced_size(leaves)


def _reduced_size(leaves: tuple[Any, ...]) -> int:
    """The most elements that a reduction takes which has not run, and which these leaves are made of."""
    size = 0
    for entry in leaves:
        if _is_reduction(entry):
            bound = entry.call.bound
            is_chain = bound.op is ELEMENTWISE_CALL
            size = max(size, _reduced_size(entry.call.leaves) if is_chain else bound.graphs[0].layout.size)
    return size


def _layout_of(storage: Storage) -> Layout:
    assert storage.value is not None
    layout: Layout = storage.value[0].layout
    return layout


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
                if _is_reduction(entry):
                    call = entry.call
                    self.calls[number] = call.bound, tuple(self.meet(call.bound, call.leaves))
            self.key.append(number)
            places.append(number)
        return places


def _needed_elsewhere(
    met: _Met, program: _Program, along: Sequence[Storage], others: Sequence[Storage]
) -> tuple[int, ...]:
    """Return the numbers of the results of reductions that more than this kernel needs."""
    results = {id(met.entries[number]): number for number in program.absorbed}
    needed = {number for number in program.absorbed if met.entries[number].is_held()}
    values = [other.value[1] for other in others if other.value is not None and other not in along]
    merged = {id(met.entries[number].call) for number in program.absorbed}
    calls = [call for reference in tuple(CALLS) if (call := reference()) is not None and id(call) not in merged]
    for entries in (*values, *[call.leaves or () for call in calls]):
        needed.update([results[id(entry)] for entry in entries if id(entry) in results])
    return tuple(sorted(needed))


def _program(graph: Graph, places: tuple[int, ...], met: _Met) -> _Program | None:
    """Return the program of a chain merged with reductions; None where there is none."""
    key = keyed(tuple(met.key))
    found: tuple[int, _Program | None] | None = _PROGRAMS.get(key) or _PROGRAMS.recall(key)
    if found is None or found[0] != config.version:
        if is_patient and _is_once(met):
            return None
        calls = met.calls
        missing(lambda: remember(_PROGRAMS, key, (config.version, _merged(graph, places, calls))))
        found = _PROGRAMS.get(key) or _PROGRAMS.recall(key)
        assert found is not None
    return found[1]


_left: list[ref[Pending]] = []
"""The results that reductions of sizes met for the first time wait for: the attempt to run them may be repeated."""


def _is_once(met: _Met) -> bool:
    """Whether these sizes have not been met before, of a structure that has."""
    results = [met.entries[number] for number in met.calls]
    if any(reference() is results[0] for reference in _left):
        return True
    bare: list[Any] = []
    sizes = []
    for part in met.key:
        if type(part) is int:
            bare.append(part)
            continue
        graph = part if type(part) is Graph else part.graphs[0]
        bare.append(graph.structure if part is graph else (part.op, graph.structure))
        sizes.append(graph.leaves)
    structure = tuple(bare)
    if not (_STRUCTURES.get(structure) or _STRUCTURES.recall(structure)):
        remember(_STRUCTURES, structure, True)
        return False
    if _PROGRAMS.has_met((structure, tuple(sizes))):
        return False
    _left[:] = map(ref, results)
    return True


class _Input(NamedTuple):
    """An input of a program: its number among the entries, and its layout over the rows or the dtype of a scalar."""

    entry: int
    kind: Any


class _Program:
    """A chain merged with reductions.

    Attributes
    ----------
    rows : _Rows
    inputs : tuple of _Input
    items : tuple of Instr or RowReduction
    absorbed : dict
        By the number of an entry, the result of a reduction or of a short chain, its number as a value and its layout.
    values : list of int
        Of every value of the graph its number as a value.
    """

    def __init__(
        self,
        rows: _Rows,
        inputs: tuple[_Input, ...],
        items: tuple[Any, ...],
        absorbed: dict[int, tuple[int, Layout]],
        values: list[int],
    ) -> None:
        self.rows, self.inputs, self.items, self.absorbed, self.values = rows, inputs, items, absorbed, values
        self.entries = [each.entry for each in inputs]
        self._executables: dict[Any, Executable | None] = {}

    def executable(
        self, graph: Graph, interior: tuple[tuple[int, Layout], ...], stored: tuple[int, ...]
    ) -> Executable | None:
        """Return what computes the graph's result, and other values of it and of reductions; None where nothing does.

        Parameters
        ----------
        graph : Graph
        interior : tuple of (int, Layout)
            Values of the graph, and their layouts.
        stored : tuple of int
            Entries that are absorbed.
        """
        key = interior, stored
        if key not in self._executables:
            missing(lambda: self._build(key, graph))
        return self._executables[key]

    def _build(self, key: Any, graph: Graph) -> None:
        interior, stored = key
        outputs = [(self.values[number], layout) for number, layout in ((graph.result, graph.layout), *interior)]
        outputs += [self.absorbed[number] for number in stored]
        self._executables[key] = self._made(outputs)

    def _made(self, outputs: Sequence[tuple[int, Layout]]) -> Executable | None:
        problem = importlib.import_module("oxinp._kernels.problem")
        planner = importlib.import_module("oxinp._kernels.rowwise.plan")
        if len(outputs) > MAX_OUTPUTS:
            return None
        operands = [
            operand(kind) if isinstance(kind, Layout) else problem.ScalarOperand(DEVICE_TYPES[kind])
            for _, kind in self.inputs
        ]
        results = [problem.Output(number, operand(self.rows.over(layout))) for number, layout in outputs]
        shape, num_axes, walk = self.rows
        plan = planner.plan(shape, num_axes, operands, self.items, results, walk, device().capability)
        if plan is None:
            return None
        kinds = [None if isinstance(kind, Layout) else kind for _, kind in self.inputs]
        return Executable(plan, [layout.nbytes for _, layout in outputs], kinds)

    def describe(self) -> str:
        """Say in a few words what the kernel computes."""
        lowerings = [getattr(item, "lower", None) for item in self.items]
        names = [item.op.name if how is None else how.__name__ for item, how in zip(self.items, lowerings, strict=True)]
        return " ".join([name.strip("_") for name in names])


class _Rows(NamedTuple):
    """The arrays whose last axes are rows.

    Attributes
    ----------
    shape : tuple of int
    num_axes : int
    walk : Walk
        See `_kernels.rowwise.plan`.
    """

    shape: tuple[int, ...]
    num_axes: int
    walk: Any

    @property
    def kept(self) -> tuple[int, ...]:
        """Extents of the axes in front."""
        return self.shape[: len(self.shape) - self.num_axes]

    def has_one_each(self, shape: tuple[int, ...]) -> bool:
        """Whether arrays of a shape have one element per row."""
        return shape in (self.kept, (*self.kept, *(1,) * self.num_axes))

    def over(self, layout: Layout) -> Layout:
        """Return a layout of one element per row, or of whole rows, as one over the whole rows."""
        if layout.shape == self.shape:
            return layout
        strides = layout.strides[: len(self.kept)] + (0,) * self.num_axes
        return Layout.at(layout.dtype, self.shape, strides, layout.offset)

    def are_results(self, where: Layout, result: Layout) -> bool:
        """Whether a leaf that reads a result of one element per row reads each row's own."""
        if not result.is_contiguous or where.dtype != result.dtype or where.offset:
            return False
        strides = self.over(where).strides
        dense = contiguous_strides(self.kept, result.dtype.itemsize) + (0,) * self.num_axes
        return all(n == 1 or step == own for n, step, own in zip(self.shape, strides, dense, strict=True))


def _rows_of(graph: Graph, calls: dict[int, tuple[BoundOp, tuple[int, ...]]]) -> _Rows | None:
    """Return the rows that a chain goes along; None where it goes along none of a reduction that it is made of."""
    found = None
    for bound, _ in calls.values():
        shape = bound.graphs[0].shape
        walk = bound.op.rows(bound) if bound.op.rows is not None else None
        if walk is None or walk.op is None or walk.axes != tuple(range(len(shape) - len(walk.axes), len(shape))):
            continue
        rows = _Rows(shape, len(walk.axes), walk.walk)
        if math.prod(shape) == math.prod(rows.kept):
            continue
        if graph.shape == shape:
            return rows
        if found is None and rows.has_one_each(graph.shape):
            found = rows
    return found


def _merged(
    graph: Graph, places: tuple[int, ...], calls: dict[int, tuple[BoundOp, tuple[int, ...]]]
) -> _Program | None:
    rows = _rows_of(graph, calls)
    if rows is None:
        return None
    merger = _Merger(rows, calls)
    values = merger.add(graph, places)
    if values is None or not merger.absorbed:
        return None
    return merger.program(values)


class _Merger:
    """Numbers what a chain and the reductions under it compute, each value once.

    While inputs are still being found, input i is numbered -1 - i, and item j is j.
    """

    def __init__(self, rows: _Rows, calls: dict[int, tuple[BoundOp, tuple[int, ...]]]) -> None:
        self.rows = rows
        self.calls = calls
        self.inputs: dict[_Input, int] = {}
        self.items: dict[Any, int] = {}
        self.absorbed: dict[int, int] = {}
        self._refused: set[int] = set()

    def add(self, graph: Graph, places: tuple[int, ...]) -> list[int] | None:
        """Number the values of a graph, whose leaves are these entries; None where that is beyond a kernel."""
        values: list[int] = []
        for where, place in zip(graph.leaves, places, strict=True):
            number = None
            if place in self.calls and isinstance(where, Layout):
                number = self._absorb(place, where)
            if number is None:
                kind = self.rows.over(where) if isinstance(where, Layout) else where
                number = self.inputs.setdefault(_Input(place, kind), -1 - len(self.inputs))
            values.append(number)
        for node in graph.nodes:
            if getattr(node.lower, "wants_index", False):
                return None
            args = tuple([values[a] for a in node.args])
            values.append(self._item((node.lower, node.dtype, args)))
        return values if len(self.inputs) <= MAX_LEAVES and len(self.items) <= MAX_NODES else None

    def _item(self, key: Any) -> int:
        return self.items.setdefault(key, len(self.items))

    def _absorb(self, place: int, where: Layout) -> int | None:
        """Number the result of a reduction, or of a chain of few elements; None where it stays an input."""
        bound, inner = self.calls[place]
        if place in self._refused or not self.rows.are_results(where, bound.layouts[0]):
            return None
        number = self.absorbed.get(place)
        if number is None:
            number = self._result(place, bound, inner)
            if number is None:
                self._refused.add(place)
            else:
                self.absorbed[place] = number
        return number

    def _result(self, place: int, bound: BoundOp, inner: tuple[int, ...]) -> int | None:
        (graph,) = bound.graphs
        assert bound.op.rows is not None
        walk: RowWalk | None = bound.op.rows(bound)
        if walk is None:
            return None
        if walk.op is None:
            values = self.add(graph, inner) if self.rows.has_one_each(graph.shape) else None
            return None if values is None else values[graph.result]
        own, rows = walk.walk, self.rows
        axes = tuple(range(len(rows.kept), len(rows.shape)))
        if graph.shape != rows.shape or walk.axes != axes or own.common != rows.walk.common:
            return None
        values = self.add(graph, inner)
        if values is None:
            return None
        first = len(graph.leaves) - walk.op.num_parameters
        taken = values[graph.result], None if walk.mask is None else values[walk.mask]
        return self._item((place, bound.layouts[0].dtype, taken, tuple(values[first : len(graph.leaves)]), walk))

    def program(self, values: list[int]) -> _Program:
        """Return the program, numbered for good."""
        count = len(self.inputs)

        def numbered(number: int) -> int:
            return -1 - number if number < 0 else count + number

        problem = importlib.import_module("oxinp._kernels.problem")
        made = importlib.import_module("oxinp._kernels.rowwise.program")
        items: list[Any] = []
        for what, dtype, args, *rest in self.items:
            type_ = DEVICE_TYPES[dtype]
            if not rest:
                items.append(problem.Instr(what, type_, tuple([numbered(a) for a in args])))
                continue
            (value, mask), (parameters, walk) = args, rest
            of_mask = None if mask is None else numbered(mask)
            own = tuple([numbered(a) for a in parameters])
            *_, batch, is_short, join = walk.walk
            items.append(made.RowReduction(numbered(value), walk.op, type_, batch, is_short, join, of_mask, own))
        absorbed = {place: (numbered(n), self.calls[place][0].layouts[0]) for place, n in self.absorbed.items()}
        return _Program(self.rows, tuple(self.inputs), tuple(items), absorbed, [numbered(n) for n in values])
