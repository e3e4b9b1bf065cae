"""Row programs: a chain merged with the reductions along rows that it is made of, see `rowwise`."""

from __future__ import annotations

import importlib
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._core.lazy.building import missing
from oxinp._core.lazy.chains import operand
from oxinp._core.lazy.executor import Executable, load
from oxinp._core.lazy.expr import MAX_LEAVES, MAX_NODES, Graph
from oxinp._core.lazy.placement import device
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout, contiguous_strides

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._core.lazy.op import BoundOp, RowWalk


ROWWISE = "oxinp._kernels.rowwise.plan"  # which only who needs it pays for

MAX_ITEMS = MAX_NODES + MAX_LEAVES
"""Operations and reductions of a program: those of the longest chain, each of whose leaves is a reduction."""


MAX_INPUTS = 2 * MAX_LEAVES
"""Reductions have parameters of their own."""


class _Input(NamedTuple):
    """An input of a program: its number among the entries, and its layout over the rows or the dtype of a scalar."""

    entry: int
    kind: Any


class RowProgram:
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
    executables : dict
        What `executable` has returned, by its last two parameters.
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
        self.executables: dict[Any, Executable | None] = {}

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
        if key not in self.executables:
            missing(lambda: self._build(key, graph))
        return self.executables[key]

    def _build(self, key: Any, graph: Graph) -> None:
        interior, stored = key
        outputs = [(self.values[number], layout) for number, layout in ((graph.result, graph.layout), *interior)]
        outputs += [self.absorbed[number] for number in stored]
        self.executables[key] = self._made(outputs)

    def _made(self, outputs: Sequence[tuple[int, Layout]]) -> Executable | None:
        shape, num_axes, walk = self.rows
        planner = importlib.import_module(ROWWISE)
        plan = planner.plan(shape, num_axes, *self._operands(outputs), walk, device().capability)
        if plan is None:
            return None
        kinds = [None if isinstance(kind, Layout) else kind for _, kind in self.inputs]
        return Executable(plan, [layout.nbytes for _, layout in outputs], kinds)

    def _operands(self, outputs: Sequence[tuple[int, Layout]]) -> tuple[list[Any], tuple[Any, ...], list[Any]]:
        """Return the inputs as kernel operands, the items, and the results that are stored."""
        problem = importlib.import_module("oxinp._kernels.problem")
        operands = [
            operand(kind) if isinstance(kind, Layout) else problem.ScalarOperand(DEVICE_TYPES[kind])
            for _, kind in self.inputs
        ]
        results = [problem.Output(number, operand(self.rows.over(layout))) for number, layout in outputs]
        return operands, self.items, results

    def units_of_round(self) -> tuple[int, int]:
        """Return the elements of a unit, and the units of a row of which each thread has one batch."""
        walk = self.rows.walk
        return walk.vector, walk.group * max([item.batch for item in self.items if hasattr(item, "batch")])

    def any_size(self, graph: Graph, target: Layout) -> Any:
        """Return the launch that computes the graph's result into a layout for other sizes, too; None where none does.

        It is an `AnyRows` of a matrix and its rows, an `AnyLine` of a single row. Its kernel is loaded.
        """
        shape, num_axes, walk = self.rows
        if num_axes != 1 or len(shape) > 2:
            return None
        planner = importlib.import_module(ROWWISE)
        find = planner.any_rows if len(shape) > 1 else planner.any_line
        problem = self._operands([(self.values[graph.result], target)])
        found = find(shape, *problem, walk, device().capability)
        if found is None:
            return None
        made, plan = found
        load(plan)
        return made

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


def merged(
    graph: Graph, places: tuple[int, ...], calls: dict[int, tuple[BoundOp, tuple[int, ...]]]
) -> RowProgram | None:
    """Return the program of a chain and of the reductions that it is made of; None where there is none.

    Parameters
    ----------
    graph : Graph
    places : tuple of int
        Its leaves, as numbers of entries: two leaves may be one entry.
    calls : dict
        By the numbers of entries that are results of reductions their bound operations, and the entries these take.
    """
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
        if graph.structure.wants_index:
            return None
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
            args = tuple([values[a] for a in node.args])
            values.append(self._item((node.lower, node.dtype, args)))
        return values if len(self.inputs) <= MAX_INPUTS and len(self.items) <= MAX_ITEMS else None

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

    def program(self, values: list[int]) -> RowProgram:
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
        return RowProgram(self.rows, tuple(self.inputs), tuple(items), absorbed, [numbered(n) for n in values])
