"""Expressions: hash-consed graphs of elementwise operations over leaves of one shape.

A `Graph` says what is computed and on which layouts, never on which buffers: the buffers and scalars it is applied to
travel beside it as a flat tuple of leaves. Recording an operation on operands that were seen before is therefore one
dictionary hit, (operand graphs) -> `Record`, and everything that follows from shapes, dtypes and layouts (errors,
result layout, kernel, launch geometry) is found once per combination.

Values of a graph are numbered: leaf ``i`` is ``i``, node ``j`` is ``len(leaves) + j``. Every node has the graph's
shape; broadcasting happens at leaves, so an operand of another shape that is still pending is materialised first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from oxinp._core.memory.dtypes import DEVICE_TYPES, scalar_value
from oxinp._core.memory.layout import Layout, forget_layouts, result_layout

MAX_NODES = 64
MAX_LEAVES = 24
MAX_NDIM = 8
MAX_SCALAR_NODES = 3
MAX_SCALAR_USES = 1 << 17

UNKNOWN = Layout.at(np.dtype(np.bool_), (1,), (-1,), 0)
"""The layout of a result that only NumPy knows: one that no new array has."""


class Unsupported(Exception):
    """Raised before anything is written where the device has no kernel for an operation; says why."""


class Node(NamedTuple):
    """One operation of a graph: how it is lowered, the dtype it gives, and the numbers of the values it takes."""

    lower: Callable[..., Any]
    dtype: np.dtype[Any]
    args: tuple[int, ...]

    @property
    def name(self) -> str:
        """For people."""
        return getattr(self.lower, "__name__", "?").strip("_")


class Graph:
    """What is computed on which layouts.

    Attributes
    ----------
    layout : Layout
        Of the result: dense and at offset 0, but for a leaf graph, where it is the leaf's own.
    leaves : tuple of Layout or numpy.dtype
        Array leaves by the form of their layout, each broadcast to the graph's shape; scalar leaves by dtype.
    nodes : tuple of Node
        In the order of evaluation, each distinct one once; empty for a leaf graph.
    reduction : object or None
        A trailing reduction of the last node's value (see `ops.reduce`), which makes the graph an end: it is
        materialised before anything reads it.
    program : object or None
        How the scheduler runs it, with no output but the result; found at the first flush.
    programs : dict
        How it runs with other outputs or into other layouts.
    """

    __slots__ = (
        "interior",
        "is_copy",
        "is_scalar",
        "layout",
        "leaves",
        "nodes",
        "program",
        "programs",
        "reduction",
        "result",
        "shape",
    )

    def __init__(
        self, layout: Layout, leaves: tuple[Any, ...], nodes: tuple[Node, ...], result: int, reduction: Any = None
    ) -> None:
        self.layout = layout
        self.leaves = leaves
        self.nodes = nodes
        self.result = result
        self.reduction = reduction
        self.shape = layout.shape if reduction is None else reduction.shape
        self.program: Any = None
        self.programs: dict[Any, Any] = {}
        self.interior: dict[Any, int | None] = {}
        self.is_scalar = False
        self.is_copy = False

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the result."""
        return self.layout.dtype


class Record:
    """What recording an operation on given operand graphs comes to.

    Attributes
    ----------
    graph : Graph or None
        The recorded graph; None where the device cannot do it, for `reason`.
    flush : tuple of int
        Operands that must be materialised before recording again (then `graph` is None too).
    convert : tuple of callables or None
        For scalar operands, how the value becomes a kernel parameter.
    scalars : tuple of (int, callable)
        The same, with where each of them stands among the leaves.
    cost : float
        Bytes of the largest operand or result times the operation's weight: placement compares it to the threshold.
    layout : Layout or None
        Of the result, also where the device cannot compute it.
    is_checked : bool
        NumPy lets the result be written to its layout's dtype, at least if all operands are arrays.
    """

    __slots__ = ("convert", "cost", "flush", "graph", "is_checked", "layout", "reason", "scalars")

    def __init__(
        self,
        graph: Graph | None,
        cost: float = 0.0,
        flush: tuple[int, ...] = (),
        reason: str = "",
        layout: Layout | None = None,
    ) -> None:
        self.graph = graph
        self.layout: Any = layout if graph is None else graph.layout
        self.cost = cost
        self.flush = flush
        self.reason = reason
        self.is_checked = False
        self.convert: Any = None
        self.scalars: tuple[tuple[int, Callable[[Any], Any]], ...] = ()


class Loop(NamedTuple):
    """An operation at given operand dtypes: what the operands are cast to, what comes out, how it is lowered."""

    inputs: tuple[np.dtype[Any], ...]
    output: np.dtype[Any]
    lower: Callable[..., Any]


MAX_RECORDS = 1 << 13
"""Records kept, over all operations: beyond, all are forgotten, and with them the graphs and kernels not in use."""

_TABLES: list[dict[Any, Record]] = []


def new_table() -> dict[Any, Record]:
    """Return a table of records that `remember` bounds."""
    table: dict[Any, Record] = {}
    _TABLES.append(table)
    return table


def remember(table: dict[Any, Record], key: Any, record: Record) -> None:
    """Enter a record into a table."""
    table[key] = record
    if len(table) * len(_TABLES) > MAX_RECORDS and sum(map(len, _TABLES)) > MAX_RECORDS:
        for other in _TABLES:
            other.clear()
        forget_layouts()


class Operation:
    """Something that can be recorded elementwise.

    Parameters
    ----------
    name : str
        As NumPy calls it.
    find_loop : callable
        Operand dtypes (or Python's int, float, complex for weak scalars) -> Loop; raises TypeError as NumPy would, or
        Unsupported.
    weight : float
        Cost of one element relative to an addition's.
    takes_any_integer : bool
        Python integers beyond the loop's dtype are no error, as in comparisons.
    """

    __slots__ = ("find_loop", "name", "pairs", "records", "takes_any_integer", "weight")

    def __init__(
        self,
        name: str,
        find_loop: Callable[[tuple[Any, ...]], Loop],
        weight: float = 1.0,
        *,
        takes_any_integer: bool = False,
    ) -> None:
        self.takes_any_integer = takes_any_integer
        self.name = name
        self.find_loop = find_loop
        self.weight = weight
        self.records = new_table()
        self.pairs = new_table()  # (graph, graph or scalar type) of two operands that share no leaf


def leaf(layout: Layout) -> Graph:
    """Return the graph of a value that lies on the device in `layout`."""
    graph: Graph | None = layout.graph
    if graph is None:
        graph = layout.graph = Graph(layout, (layout,), (), 0)
    return graph


_SCALARS: dict[Any, Graph] = {}


def scalar(kind: Any) -> Graph:
    """Return the graph of a scalar: of a Python type, which promotes weakly, or of a dtype."""
    key = kind if isinstance(kind, type) else (kind, kind.num)
    graph = _SCALARS.get(key)
    if graph is None:
        dtype = np.dtype(kind)
        graph = _SCALARS[key] = Graph(Layout.of(dtype, ()), (kind,), (), 0)
        graph.is_scalar = True
    return graph


def combine(
    operation: Operation,
    graphs: tuple[Graph, ...],
    positions: tuple[tuple[int, ...], ...],
    target: Layout | None = None,
) -> Record:
    """Find what `operation` on operands with these graphs comes to.

    Parameters
    ----------
    operation : Operation
    graphs : tuple of Graph
        The operands'.
    positions : tuple of tuples of int
        For every operand, where its leaves stand in the joined leaves: leaves that are one Buffer read through one
        layout share a place.
    target : Layout or None
        The result's layout, if it is prescribed: it is cast to its dtype (whether that is allowed is the caller's to
        check) and broadcast to its shape, which the operands' own must be broadcastable to.

    Raises
    ------
    ValueError
        Where NumPy cannot broadcast the operands.
    TypeError
        Where NumPy has no loop.
    """
    kinds = tuple(g.leaves[0] if g.is_scalar else g.layout.dtype for g in graphs)
    try:
        loop = operation.find_loop(kinds)
    except Unsupported as why:
        cost = operation.weight * max(g.layout.nbytes for g in graphs)
        return Record(None, cost, reason=str(why), layout=UNKNOWN)
    out_shape = broadcast_shapes([g.layout.shape for g in graphs], None if target is None else target.shape)
    layout = target or result_layout(loop.output, out_shape, [g.layout for g in graphs if not g.is_scalar])
    cost = operation.weight * max(layout.nbytes, *(g.layout.nbytes for g in graphs))
    missing = [
        d
        for d in (*loop.inputs, loop.output, layout.dtype, *(g.dtype for g in graphs if not g.is_scalar))
        if d not in DEVICE_TYPES
    ]
    if missing:
        return Record(None, cost, reason=f"dtype {missing[0]} has no kernels yet", layout=layout)
    if len(out_shape) > MAX_NDIM:
        return Record(None, cost, reason=f"{len(out_shape)} dimensions; kernels take {MAX_NDIM}", layout=layout)
    for g in graphs:
        if not g.nodes and not g.is_scalar and not g.layout.is_aligned:
            return Record(None, cost, reason="elements that do not lie at multiples of their size", layout=layout)
    # The largest first: what it computes on the way may be the others.
    pending = sorted((i for i, g in enumerate(graphs) if g.nodes), key=lambda i: -len(graphs[i].nodes))
    flush = tuple(i for i in pending if not _may_join(graphs[i], out_shape))
    joined = None if flush else _join(loop, graphs, positions, layout)
    if joined is None or _is_too_large(joined):
        # One operation on what is not pending is never too large.
        return Record(None, cost, flush or tuple(pending), layout=layout)
    record = Record(joined, cost)
    if any(g.is_scalar for g in graphs):
        record.convert = tuple(
            scalar_value(dtype) if g.is_scalar else None for g, dtype in zip(graphs, loop.inputs, strict=True)
        )
        record.scalars = tuple(
            (places[0], convert)
            for places, convert in zip(positions, record.convert, strict=True)
            if convert is not None
        )
    return record


def _may_join(graph: Graph, shape: tuple[int, ...]) -> bool:
    """Whether a pending operand becomes part of a graph of a shape: one of that shape, or a short chain of scalars.

    Such a chain is computed again for each element, which takes less than a launch where there are not many.
    """
    if graph.reduction is not None:
        return False
    is_short = not graph.shape and len(graph.nodes) <= MAX_SCALAR_NODES
    return graph.shape == shape or (is_short and math.prod(shape) <= MAX_SCALAR_USES)


def _is_too_large(graph: Graph) -> bool:
    return len(graph.nodes) > MAX_NODES or len(graph.leaves) > MAX_LEAVES


def _join(loop: Loop, graphs: tuple[Graph, ...], positions: tuple[tuple[int, ...], ...], layout: Layout) -> Graph:
    """Number the operands' nodes together, cast to the loop's dtypes, and apply the operation."""
    leaves: dict[int, Any] = {}
    for g, places, dtype in zip(graphs, positions, loop.inputs, strict=True):
        for place, entry in zip(places, g.leaves, strict=True):
            if isinstance(entry, Layout):
                leaves[place] = entry.broadcast(layout.shape)
            else:
                leaves[place] = dtype if g.is_scalar else entry
    joined = tuple(leaves[i] for i in range(len(leaves)))
    numbers: dict[Node, int] = {}
    args = []
    for g, places, dtype in zip(graphs, positions, loop.inputs, strict=True):
        value = add_nodes(numbers, g, places, len(joined))
        if not g.is_scalar and g.dtype != dtype:
            value = _number(numbers, Node(cast(g.dtype, dtype), dtype, (value,)), len(joined))
        args.append(value)
    result = _number(numbers, Node(loop.lower, loop.output, tuple(args)), len(joined))
    if loop.output != layout.dtype:
        result = _number(numbers, Node(cast(loop.output, layout.dtype), layout.dtype, (result,)), len(joined))
    return Graph(layout, joined, tuple(numbers), result)


def add_nodes(numbers: dict[Node, int], graph: Graph, places: tuple[int, ...], num_leaves: int) -> int:
    """Number `graph`'s nodes into `numbers`, its leaves standing at `places`; return the number of its result."""
    own = len(graph.leaves)
    values = list(places)
    for node in graph.nodes:
        args = tuple(values[a] for a in node.args)
        values.append(_number(numbers, Node(node.lower, node.dtype, args), num_leaves))
    assert len(values) == own + len(graph.nodes)
    return values[graph.result]


def _number(numbers: dict[Node, int], node: Node, num_leaves: int) -> int:
    number = numbers.get(node)
    if number is None:
        number = numbers[node] = num_leaves + len(numbers)
    return number


def find_value(graph: Graph, part: Graph, places: tuple[int, ...]) -> int | None:
    """Return the number that `part`'s result has in `graph`, its leaves standing at `places`; None if it has none."""
    numbers = {node: len(graph.leaves) + i for i, node in enumerate(graph.nodes)}
    known = len(numbers)
    number = add_nodes(numbers, part, places, len(graph.leaves))
    return number if len(numbers) == known else None


_CASTS: dict[tuple[Any, Any], Callable[..., Any]] = {}


def cast(source: np.dtype[Any], target: np.dtype[Any]) -> Callable[..., Any]:
    """Return the lowering of a cast, with NumPy's values; of a dtype to itself, a copy."""
    lower = _CASTS.get((source, target))
    if lower is None:
        if source == target:

            def lower(k: Any, value: Any) -> Any:  # noqa: ARG001 - every lowering takes the builder
                return value

        else:

            def lower(k: Any, value: Any) -> Any:
                return k.cast(value, DEVICE_TYPES[target])

        lower.__name__ = "copy" if source == target else "astype"
        _CASTS[source, target] = lower
    return lower


def broadcast_shapes(shapes: list[tuple[int, ...]], target: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the shape that operands of `shapes` broadcast to, or `target` where one is prescribed.

    Raises
    ------
    ValueError
        In NumPy's words.
    """
    first = shapes[0]
    if target is None and all(s == first for s in shapes):
        return first
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        msg = f"operands could not be broadcast together with shapes {_listed(shapes)}"
        raise ValueError(msg) from None
    if target is None or shape == target:
        return shape
    try:
        if np.broadcast_shapes(shape, target) == target:
            return target
    except ValueError:
        pass
    msg = f"non-broadcastable output operand with shape {target} doesn't match the broadcast shape {shape}"
    raise ValueError(msg)


def _listed(shapes: list[tuple[int, ...]]) -> str:
    return " ".join(str(s).replace(" ", "") for s in shapes) + " "
