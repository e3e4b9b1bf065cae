"""Expressions: graphs of elementwise operations over leaves of one shape.

A `Graph` says what is computed and on which layouts, never on which buffers: the buffers and scalars it is applied to
travel beside it as a flat tuple of leaves. Recording an operation on operands that were seen before is therefore one
dictionary hit, (operand graphs) -> `Record`, and everything that follows from shapes, dtypes and layouts (errors,
result layout, kernel, launch geometry) is found once per combination.

What a graph computes, apart from where its leaves lie, is its `Structure`. Structures are hash-consed, and what an
operation makes of operands of given structures is remembered: an operation on new layouts whose structure is known
costs arithmetic on the layouts, no search for dtypes, no numbering of nodes and no planning.

Values of a graph are numbered: leaf ``i`` is ``i``, node ``j`` is ``len(leaves) + j``. Every node has the graph's
shape; broadcasting happens at leaves, so an operand of another shape that is still pending is materialised first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout, form_of
from oxinp._core.memory.recent import Recent

MAX_NODES = 64
MAX_LEAVES = 24
MAX_NDIM = 8

_new = object.__new__


class Unsupported(Exception):
    """Raised before anything is written where the device has no kernel for an operation; says why."""


class Placed(Unsupported):
    """Raised where the device has a kernel, but what it would compute belongs on the host: that is no fallback."""


class Node(NamedTuple):
    """One operation of a graph: how it is lowered, the dtype it gives, and the numbers of the values it takes."""

    lower: Callable[..., Any]
    dtype: np.dtype[Any]
    args: tuple[int, ...]

    @property
    def name(self) -> str:
        """For people."""
        return getattr(self.lower, "__name__", "?").strip("_")


class Structure:
    """What graphs compute, whatever the layouts of their leaves; made by `structure_of`, equal ones are one object.

    Attributes
    ----------
    kinds : tuple of numpy.dtype or type
        Of every leaf; a Python type for a scalar that promotes weakly.
    are_arrays : tuple of bool
        Which leaves are arrays; the others are scalars.
    nodes : tuple of Node
        In the order of evaluation, each distinct one once; empty for a leaf.
    result : int
        Number of the value that is the result.
    dtype : numpy.dtype
        Of the result.
    has_parts : bool
        A scalar is complex, which is two parameters of a kernel.
    plans : dict
        What planners keep of it, by the use it is put to.
    planner : object or None
        Of what computes the result alone, in its own dtype, once that has run.
    interior : dict
        Other structures that it computes on the way, and the numbers of their results; see `joint`.
    is_flagged : bool
        Nodes raise flags, each for every element: it is computed as a whole, in a kernel of its own.
    wants_index, wants_pointer : bool
        A node does, see `Instr`: what it computes depends on where an element is in the result, and on other elements
        of a leaf.
    host_nbytes : float or None
        Bytes that NumPy adds in as long as it takes for an element of all nodes, once `balance` has asked.
    """

    __slots__ = (
        "are_arrays",
        "dtype",
        "has_parts",
        "host_nbytes",
        "interior",
        "is_flagged",
        "kinds",
        "nodes",
        "planner",
        "plans",
        "result",
        "wants_index",
        "wants_pointer",
    )

    def __init__(
        self, kinds: tuple[Any, ...], are_arrays: tuple[bool, ...], nodes: tuple[Node, ...], result: int
    ) -> None:
        self.kinds = kinds
        self.are_arrays = are_arrays
        self.nodes = nodes
        self.result = result
        own = result - len(kinds)
        self.dtype = nodes[own].dtype if own >= 0 else np.dtype(kinds[result])
        self.has_parts = any(
            not is_array and np.dtype(kind).kind == "c" for kind, is_array in zip(kinds, are_arrays, strict=True)
        )
        self.is_flagged = any(getattr(node.lower, "is_flagging", False) for node in nodes)
        self.wants_index = any(getattr(node.lower, "wants_index", False) for node in nodes)
        self.wants_pointer = any(getattr(node.lower, "wants_pointer", False) for node in nodes)
        self.plans: dict[Any, Any] = {}
        self.planner: Any = None
        self.interior: dict[Any, Any] = {}
        self.host_nbytes: float | None = None


_STRUCTURES = Recent(1 << 12)


def structure_of(
    kinds: tuple[Any, ...], are_arrays: tuple[bool, ...], nodes: tuple[Node, ...], result: int
) -> Structure:
    """Return the structure of these leaves and nodes."""
    numbers = tuple([getattr(kind, "num", -1) for kind in kinds])  # see `Layout.of`
    key = (kinds, numbers, are_arrays, nodes, result)
    structure: Structure | None = _STRUCTURES.get(key) or _STRUCTURES.recall(key)
    if structure is None:
        structure = Structure(kinds, are_arrays, nodes, result)
        _STRUCTURES.remember(key, structure)
    return structure


class Graph:
    """What is computed on which layouts.

    Attributes
    ----------
    structure : Structure
    layout : Layout
        Of the result: dense and at offset 0, but for a leaf graph, where it is the leaf's own.
    leaves : tuple of Layout or numpy.dtype
        Array leaves by the form of their layout, each broadcast to the graph's shape; scalar leaves by dtype.
    met : int
        See `Recent.has_met`.
    nodes : tuple of Node
        The structure's; empty for a leaf graph.
    result : int
        The structure's.
    program : object or None
        How the scheduler runs it, with no output but the result; found at the first flush.
    programs : dict or None
        How it runs with other outputs or into other layouts.
    views : dict or None
        What views of the result are as graphs of their own, see `fused_view`; and those that read one of its values
        instead of computing it, by the number of that, see `joint`.
    """

    __slots__ = (
        "is_copy",
        "is_scalar",
        "layout",
        "leaves",
        "met",
        "nodes",
        "program",
        "programs",
        "result",
        "shape",
        "structure",
        "views",
    )

    def __init__(self, structure: Structure, layout: Layout, leaves: tuple[Any, ...]) -> None:
        self.structure = structure
        self.layout = layout
        self.leaves = leaves
        self.nodes = structure.nodes
        self.result = structure.result
        self.shape = layout.shape
        self.program: Any = None
        self.programs: dict[Any, Any] | None = None
        self.views: dict[Layout | int, Any] | None = None
        self.is_scalar = False
        self.is_copy = False
        self.met = 0

    @staticmethod
    def of(layout: Layout, leaves: tuple[Any, ...], nodes: tuple[Node, ...], result: int) -> Graph:
        """Return the graph of some nodes over leaves: layouts of arrays, dtypes of scalars."""
        are_arrays = tuple([isinstance(entry, Layout) for entry in leaves])
        kinds = tuple([entry.dtype if isinstance(entry, Layout) else entry for entry in leaves])
        return Graph(structure_of(kinds, are_arrays, nodes, result), layout, leaves)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the result."""
        return self.layout.dtype


def graph_of(structure: Any, layout: Layout, leaves: tuple[Any, ...]) -> Graph:
    """Return `Graph(structure, layout, leaves)`, in half of the time that calling a class takes."""
    graph = _new(Graph)
    graph.structure = structure
    graph.layout = layout
    graph.leaves = leaves
    graph.nodes = structure.nodes
    graph.result = structure.result
    graph.shape = layout.shape
    graph.program = None
    graph.programs = None
    graph.views = None
    graph.is_scalar = False
    graph.is_copy = False
    graph.met = 0
    return graph


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


def recorded(structure: Any, layout: Layout, leaves: tuple[Any, ...], convert: Any, scalars: Any) -> Record:
    """Return the record of a graph that is new, without its cost, in half of the time that calling classes takes."""
    record = _new(Record)
    record.graph = graph_of(structure, layout, leaves)
    record.layout = layout
    record.flush, record.reason, record.is_checked = (), "", False
    record.convert, record.scalars = convert, scalars
    return record


class Loop(NamedTuple):
    """An operation at given operand dtypes: what the operands are cast to, what comes out, how it is lowered."""

    inputs: tuple[np.dtype[Any], ...]
    output: np.dtype[Any]
    lower: Callable[..., Any]


MAX_RECORDS = 1 << 13
"""Records kept, over all operations: beyond, those go that were not used since as many others were entered."""

_TABLES: list[Recent] = []
_num_entered = 0  # since the tables were last aged


def new_table() -> Recent:
    """Return a table of records that `remember` bounds."""
    table = Recent(MAX_RECORDS)
    _TABLES.append(table)
    return table


def remember(table: Recent, key: Any, record: Any) -> None:
    """Enter a record into a table."""
    global _num_entered
    table[key] = record
    _num_entered += 1
    if _num_entered > MAX_RECORDS:
        _num_entered = 0
        for other in _TABLES:
            other.age()


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

    Attributes
    ----------
    checked : set
        Structures of operands, and a dtype that NumPy lets their result be written to.
    outputs : tuple of Operation
        Itself, or of an operation of several outputs those of all: what is computed for one is computed with the
        others, in one kernel.
    raises : Rule or None
        Which elements raise floating-point errors, where any do.
    flagged : dict
        What is recorded in its place where that is told of; see `flagged`.
    """

    __slots__ = (
        "alike",
        "checked",
        "find_loop",
        "flagged",
        "joins",
        "name",
        "outputs",
        "pairs",
        "raises",
        "records",
        "takes_any_integer",
        "weight",
    )

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
        self.outputs: tuple[Operation, ...] = (self,)
        self.raises: Any = None
        self.flagged: dict[Any, Operation] = {}
        self.alike = new_table()  # (structures, place, dtype), as `renew` has them -> Join
        self.joins = new_table()  # (structures, positions, dtype that is prescribed or None) -> Join
        self.checked: set[Any] = set()
        self.records = new_table()
        self.pairs = new_table()  # (graph, graph or scalar type) of two operands that share no leaf


def leaf(layout: Layout) -> Graph:
    """Return the graph of a value that lies on the device in `layout`."""
    graph: Graph | None = layout.graph
    if graph is None:
        dtype = layout.dtype
        structure = _LEAVES.get((dtype, dtype.num)) or leaf_structure(dtype)
        graph = layout.graph = _new(Graph)  # `graph_of`, spelled out
        graph.structure = structure
        graph.layout = layout
        graph.leaves = (layout,)
        graph.nodes = structure.nodes
        graph.result = structure.result
        graph.shape = layout.shape
        graph.program = graph.programs = graph.views = None
        graph.is_scalar = graph.is_copy = False
        graph.met = 0
    return graph


def leaf_structure(dtype: np.dtype[Any]) -> Structure:
    """Return the structure of the graphs of `leaf`."""
    structure = _LEAVES.get((dtype, dtype.num))
    if structure is None:
        structure = _LEAVES[dtype, dtype.num] = structure_of((dtype,), (True,), (), 0)
    return structure


def reading(layout: Layout) -> Graph:
    """Return the graph of a value that is read where a layout says: that of the layout's form."""
    graph: Graph | None = layout.read
    if graph is None:
        form = layout._form or form_of(layout)
        graph = layout.read = form.graph or leaf(form)
    return graph


_LEAVES: dict[Any, Structure] = {}
_SCALARS: dict[Any, Graph] = {}


def scalar(kind: Any) -> Graph:
    """Return the graph of a scalar: of a Python type, which promotes weakly, or of a dtype."""
    key = kind if isinstance(kind, type) else (kind, kind.num)
    graph = _SCALARS.get(key)
    if graph is None:
        structure = structure_of((kind,), (False,), (), 0)
        graph = _SCALARS[key] = Graph(structure, Layout.of(np.dtype(kind), ()), (kind,))
        graph.is_scalar = True
    return graph


def add_nodes(numbers: dict[Node, int], part: Structure, places: tuple[int, ...], num_leaves: int) -> int:
    """Number the nodes of `part` into `numbers`, its leaves standing at `places`; return the number of its result."""
    values = list(places)
    for node in part.nodes:
        args = tuple([values[a] for a in node.args])
        values.append(number_of(numbers, Node(node.lower, node.dtype, args), num_leaves))
    return values[part.result]


def number_of(numbers: dict[Node, int], node: Node, num_leaves: int) -> int:
    number = numbers.get(node)
    if number is None:
        number = numbers[node] = num_leaves + len(numbers)
    return number


def find_value(whole: Structure, part: Structure, places: tuple[int, ...]) -> int | None:
    """Return the number that `part`'s result has in `whole`, its leaves standing at `places`; None if it has none."""
    count = len(whole.kinds)
    numbers = {node: count + i for i, node in enumerate(whole.nodes)}
    known = len(numbers)
    number = add_nodes(numbers, part, places, count)
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
