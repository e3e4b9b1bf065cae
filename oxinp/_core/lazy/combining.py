"""Combining: what an operation on operands with given graphs comes to.

What follows from their structures is a `Join`, found once per operation and structures; what follows from their layouts
is arithmetic (`renew`), or a search where something has to be decided (`combine`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from oxinp._core.lazy.expr import (
    MAX_LEAVES,
    MAX_NDIM,
    MAX_NODES,
    Graph,
    Node,
    Record,
    Structure,
    Unsupported,
    add_nodes,
    cast,
    number_of,
    recorded,
    remember,
    scalar,
    structure_of,
)
from oxinp._core.memory.broadcast import broadcast_shapes
from oxinp._core.memory.dtypes import DEVICE_TYPES, scalar_value
from oxinp._core.memory.layout import Layout, dense_of, make_layout, result_layout
from oxinp._core.memory.recent import MEETINGS

if TYPE_CHECKING:
    from oxinp._core.lazy.expr import Loop, Operation
    from oxinp._core.memory.recent import Recent

MAX_SCALAR_NODES = 3
"""Operations on pending scalars that are computed again for each element that uses them."""
MAX_SCALAR_USES = 1 << 17
"""Elements for which they are."""

UNKNOWN = Layout.at(np.dtype(np.bool_), (1,), (-1,), 0)
"""The layout of a result that only NumPy knows: one that no new array has."""


class Join(NamedTuple):
    """What an operation on operands of given structures is, whatever their layouts.

    Attributes
    ----------
    structure : Structure or None
        None where the device cannot do it, for `reason`, or where it would be too large for a kernel.
    sources : tuple of (int, int)
        For every leaf of the structure the operand it comes from, and its place among that operand's leaves.
    loop : Loop or None
    scalars : tuple of (int, callable)
        Leaves that are operands by value, and what their values become.
    convert : tuple of callables or None
        The same by operand.
    reason : str
    """

    structure: Structure | None
    sources: tuple[tuple[int, int], ...] = ()
    loop: Loop | None = None
    scalars: tuple[tuple[int, Callable[[Any], Any]], ...] = ()
    convert: Any = None
    reason: str = ""


UNALIGNED = "elements that do not lie at multiples of their size"
"""The reason where copies of operands would have a kernel."""


def combine(
    operation: Operation,
    graphs: tuple[Graph, ...],
    positions: tuple[tuple[int, ...], ...] | None,
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
        layout share a place. None where none do.
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
    join = join_of(operation, tuple([g.structure for g in graphs]), None if target is None else target.dtype, positions)
    loop = join.loop
    if loop is None:
        cost = operation.weight * max(g.layout.nbytes for g in graphs)
        return Record(None, cost, reason=join.reason, layout=UNKNOWN)
    out_shape = broadcast_shapes([g.layout.shape for g in graphs], None if target is None else target.shape)
    layout = target or result_layout(loop.output, out_shape, [g.layout for g in graphs if not g.is_scalar])
    whole = [g.layout.nbytes for g in graphs if g.layout.shape == out_shape and not g.is_scalar]
    cost = operation.weight * max([layout.nbytes, *whole])  # not what is broadcast, which is smaller
    if join.reason:
        return Record(None, cost, reason=join.reason, layout=layout)
    if len(out_shape) > MAX_NDIM:
        return Record(None, cost, reason=f"{len(out_shape)} dimensions; kernels take {MAX_NDIM}", layout=layout)
    pending = []
    for i, g in enumerate(graphs):
        if g.nodes:
            pending.append(i)
        elif not g.is_scalar and not g.layout.is_aligned:
            return Record(None, cost, reason=UNALIGNED, layout=layout)
    structure = join.structure
    if pending:
        # The largest first: what it computes on the way may be the others.
        pending.sort(key=lambda i: -len(graphs[i].nodes))
        flush = tuple([i for i in pending if not may_join(graphs[i], out_shape)])
        if flush or structure is None:
            return Record(None, cost, flush or (pending[0],), layout=layout)
    assert structure is not None  # one operation on what is not pending is never too large
    leaves = []
    for (operand, place), is_array, kind in zip(join.sources, structure.are_arrays, structure.kinds, strict=True):
        if is_array:
            entry = graphs[operand].leaves[place]
            leaves.append(entry if entry.shape == out_shape else entry.broadcast(out_shape))
        else:
            leaves.append(kind)
    record = Record(Graph(structure, layout, tuple(leaves)), cost)
    record.convert, record.scalars = join.convert, join.scalars
    return record


def join_of(
    operation: Operation,
    structures: tuple[Structure, ...],
    dtype: np.dtype[Any] | None,
    positions: tuple[tuple[int, ...], ...] | None = None,
) -> Join:
    """Return what `operation` on operands of these structures is, cast to a dtype if one is given; see `combine`."""
    key = (structures, positions, dtype)
    join = known_join(operation, key)
    if join is None:
        join = _join(operation, structures, positions, dtype)
        remember(operation.joins, key, join)
    return join


def known_join(operation: Operation, key: tuple[Any, ...]) -> Join | None:
    """Return what `join_of` has found for (structures, positions, dtype); None if it was never asked, or long ago."""
    joins = operation.joins
    join: Join | None = joins.get(key) or (joins.recall(key) if joins.old else None)
    return join


NUMBERS: dict[type, Graph] = {kind: scalar(kind) for kind in (int, float, complex)}
SCALARS: dict[type, Graph] = {**NUMBERS, **{dtype.type: scalar(dtype) for dtype in DEVICE_TYPES}}
"""Types of numbers, NumPy's too -> their graphs."""


def renew_pair(operation: Operation, key: Any) -> Record | None:
    """Do what `renew` does of one or two operands, by what `Operation.pairs` has them by: a number by its type."""
    pairs = operation.pairs
    if key in pairs.old:
        known: Record | None = pairs.recall(key)
        return known
    if len(key) == 1:
        return renew(operation, operation.pairs, key, key)
    first, last = key[0], key[1]
    graphs = SCALARS.get(first, first), SCALARS.get(last, last)
    return renew(operation, operation.pairs, key, graphs, *key[2:])


def renew(  # noqa: PLR0915 - the common cases in full, for a call costs as much as one of them
    operation: Operation,
    table: Recent,
    key: Any,
    graphs: tuple[Graph, ...],
    place: int | tuple[Any, ...] | None = None,
    target: Layout | None = None,
) -> Record | None:
    """Find what `operation` comes to on graphs that are new, whose structures it has met; enter it.

    It is what `combine` finds, by arithmetic on layouts alone. None where `combine` has to decide: what has to be
    broadcast is pending and no scalar, or something is wrong.

    Parameters
    ----------
    operation, graphs, target
        As for `combine`.
    table, key
        Where the record is kept.
    place : int or tuple, optional
        Of two graphs: which leaf of the first is the only one of the second, or which are those of the second: from the
        number of the first's on, those that it has beside. Of more, the positions of their leaves as for `combine`.
    """
    record: Record | None = table.recall(key) if table.old and key in table.old else None
    if record is not None:
        return record
    first, last = graphs[0], graphs[-1]
    if type(place) is int and first.leaves[place] is not last.leaves[0]:
        return None
    wanted = None if target is None else target.dtype
    structures = (first.structure, last.structure) if len(graphs) == 2 else tuple([g.structure for g in graphs])
    met = structures, place, wanted
    alike = operation.alike
    join: Join | None = alike.get(met) or (alike.recall(met) if alike.old else None)
    if join is None:
        positions: Any = place
        if place is not None and len(graphs) == 2:
            positions = tuple(range(len(first.leaves))), (place,) if type(place) is int else place
        join = known_join(operation, (structures, positions, wanted))
        if join is None or join.structure is None or join.reason:
            return None
        remember(operation.alike, met, join)
    structure, sources, loop, scalars, convert, _ = join
    shape, one = first.shape, first.layout
    if last.is_scalar and not first.is_scalar and len(graphs) == 2:  # what nearly all are, spelled out
        if not (first.nodes or one.is_aligned):
            return None
        is_dense, widest, dense = one.is_contiguous, one.dtype.itemsize, one._dense
        leaves = (*first.leaves, structure.kinds[-1])  # type: ignore[union-attr] # see above
    elif last.shape == shape and not first.is_scalar and len(graphs) <= 2:
        other = last.layout
        if not ((first.nodes or one.is_aligned) and (last.nodes or other.is_aligned)):
            return None
        is_dense = one.is_contiguous and other.is_contiguous
        widest, itemsize = one.dtype.itemsize, other.dtype.itemsize
        if itemsize > widest:  # noqa: PLR1730 - a call costs as much as the rest
            widest = itemsize
        dense = one._dense or other._dense
        if type(place) is tuple:
            leaves = _joined(first.leaves, last.leaves, place)
        else:
            leaves = first.leaves if place is not None or len(graphs) == 1 else first.leaves + last.leaves
    elif first.is_scalar and not last.is_scalar and len(graphs) == 2:
        shape, one = last.shape, last.layout
        if not (last.nodes or one.is_aligned):
            return None
        is_dense, widest, dense = one.is_contiguous, one.dtype.itemsize, one._dense
        leaves = (structure.kinds[0], *last.leaves)  # type: ignore[union-attr]
    elif not (shape or first.nodes or first.is_scalar) and last.shape and len(graphs) == 2:  # a scalar of the device
        shape, other = last.shape, last.layout
        if not (one.is_aligned and (last.nodes or other.is_aligned)):
            return None
        leaves = (one.broadcast(shape), *last.leaves)
        is_dense, widest, dense = other.is_contiguous, other.dtype.itemsize, other._dense
        one = other
    elif (
        not (last.shape or first.is_scalar) and shape and len(graphs) == 2 and (not last.nodes or may_join(last, shape))
    ):
        other = last.layout
        if not ((first.nodes or one.is_aligned) and (last.nodes or other.is_aligned)):
            return None
        spreads = [entry.broadcast(shape) if type(entry) is Layout else entry for entry in last.leaves]
        leaves = (*first.leaves, *spreads)
        is_dense, widest, dense = one.is_contiguous, one.dtype.itemsize, one._dense
    elif (
        len(graphs) == 2
        and last.shape
        and not last.nodes
        and (shape[-len(last.shape) :] == last.shape or (shape and last.shape == (*shape[:-1], 1)))  # a row or a column
    ):
        other = last.layout
        if first.is_scalar or not ((first.nodes or one.is_aligned) and other.is_aligned):
            return None
        is_dense, widest, dense = one.is_contiguous and other.is_contiguous, one.dtype.itemsize, one._dense
        if len(shape) == 2 and other.shape == shape[1:]:  # spelled out
            spread = make_layout(other.dtype, shape, (0, other.strides[0]), other.offset)
        else:
            spread = _spread_over(other, shape)
        leaves = (*first.leaves, spread)
    else:
        found = _leaves_of(structure, graphs, sources)  # type: ignore[arg-type]
        if found is None:
            return None
        shape, leaves, widest, is_dense = found
        dense = None if last.is_scalar else last.layout._dense
        one = (first if first.shape else last).layout
    if target is not None:
        if target.shape != shape:
            if len(graphs) > 1 or not first.is_scalar:
                return None
            shape = target.shape  # that of what is filled with a number
        layout = target
    elif is_dense or len(shape) < 2:
        dtype = loop.output  # type: ignore[union-attr] # a structure has a loop
        layout = dense or one._dense or dense_of(one)
        if layout.dtype is not dtype or layout.shape != shape:
            layout = Layout.of(dtype, shape)
    else:
        layout = result_layout(loop.output, shape, [g.layout for g in graphs if not g.is_scalar])  # type: ignore[union-attr]
    if len(shape) > MAX_NDIM:
        return None
    itemsize = layout.dtype.itemsize
    record = recorded(structure, layout, leaves, convert, scalars)
    if itemsize > widest:  # noqa: PLR1730
        widest = itemsize
    record.cost = operation.weight * layout.size * widest
    if target is not None:
        record.is_checked = (structures, wanted) in operation.checked
    # A loop over new sizes meets none again, nor one over more than are kept the same graphs: as `Recent.has_met` has
    # it, but that sizes are looked at once the graphs have come as often.
    if not first.met >= MEETINGS <= last.met:
        first.met += 1
        if last is not first:
            last.met += 1
        if not first.met >= MEETINGS <= last.met:
            return record
    mark, marks = hash((structure, first.shape, first.layout.strides, last.shape, last.layout.strides)), table.marks
    count = marks.get(mark, 0)
    if count:
        remember(table, key, record)
        record.graph.met = MEETINGS  # type: ignore[union-attr] # which comes again, being kept
    elif len(marks) < table.room:
        marks[mark] = 1
    else:
        table.has_met(mark)
    return record


def _joined(first: tuple[Any, ...], last: tuple[Any, ...], places: tuple[int, ...]) -> tuple[Any, ...]:
    """Return leaves with those of others that stand behind them, each once."""
    joined = first
    for entry, place in zip(last, places, strict=True):
        if place == len(joined):
            joined += (entry,)
    return joined


def _leaves_of(
    structure: Structure, graphs: tuple[Graph, ...], sources: tuple[tuple[int, int], ...]
) -> tuple[tuple[int, ...], tuple[Any, ...], int, bool] | None:
    """Return what operands are broadcast to, their leaves, the widest elements, and whether all are contiguous.

    None where that is not arithmetic.
    """
    shape = graphs[0].shape
    for g in graphs[1:]:
        if g.shape != shape and g.shape and not (shape := common_shape(shape, g.shape) if shape else g.shape):
            return None
    widest = 0
    is_dense = True
    parts: list[tuple[Any, ...]] = []
    for g in graphs:
        if g.is_scalar:
            parts.append(g.leaves)
            continue
        layout = g.layout
        if not layout.is_contiguous:
            is_dense = False
        if not (g.nodes or layout.is_aligned):
            return None
        if layout.shape == shape:
            parts.append(g.leaves)
            itemsize = layout.dtype.itemsize
            if itemsize > widest:  # noqa: PLR1730 - a call costs as much as the rest
                widest = itemsize
        elif not g.nodes:
            parts.append((_spread_over(layout, shape),))
        elif g.shape or not may_join(g, shape):  # it has to be computed before
            return None
        else:
            parts.append(tuple([entry.broadcast(shape) if type(entry) is Layout else entry for entry in g.leaves]))
    leaves = [
        parts[operand][place] if is_array else kind
        for (operand, place), is_array, kind in zip(sources, structure.are_arrays, structure.kinds, strict=True)
    ]
    return shape, tuple(leaves), widest, is_dense


def common_shape(shape: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """Return what two shapes broadcast to; () where they do not, which `combine` says in NumPy's words."""
    if shape[-len(other) :] == other:  # as rows do
        return shape
    if other[-len(shape) :] == shape:
        return other
    if len(shape) == 2 == len(other):  # spelled out
        (m, n), (rows, columns) = shape, other
        if (rows in (m, 1) or m == 1) and (columns in (n, 1) or n == 1):
            return rows if m == 1 else m, columns if n == 1 else n
        return ()
    try:
        return broadcast_shapes([shape, other], None)
    except ValueError:
        return ()


def _spread_over(layout: Layout, shape: tuple[int, ...]) -> Layout:
    """Return what `Layout.broadcast` does, which is not kept of what is a row or a column of a matrix."""
    if len(shape) == 2:
        own, steps = layout.shape, layout.strides
        if own == shape[1:]:
            return make_layout(layout.dtype, shape, (0, steps[0]), layout.offset)
        if own == (shape[0], 1):
            return make_layout(layout.dtype, shape, (steps[0], 0 if shape[1] != 1 else steps[1]), layout.offset)
        if own == (1, shape[1]):
            return make_layout(layout.dtype, shape, (0 if shape[0] != 1 else steps[0], steps[1]), layout.offset)
    return layout.broadcast(shape)


def may_join(graph: Graph, shape: tuple[int, ...]) -> bool:
    """Whether a pending operand becomes part of a graph of a shape: one of that shape, or a short chain of scalars.

    Such a chain is computed again for each element, which takes less than a launch where there are not many.
    """
    is_short = not graph.shape and len(graph.nodes) <= MAX_SCALAR_NODES
    return graph.shape == shape or (is_short and math.prod(shape) <= MAX_SCALAR_USES)


def _join(
    operation: Operation,
    structures: tuple[Structure, ...],
    positions: tuple[tuple[int, ...], ...] | None,
    dtype: np.dtype[Any] | None,
) -> Join:
    """Number the operands' nodes together, cast to the loop's dtypes, and apply the operation."""
    if positions is None:
        positions = _apart([len(s.kinds) for s in structures])
    are_values = [not s.are_arrays[0] and not s.nodes for s in structures]
    kinds = tuple([s.kinds[0] if is_value else s.dtype for s, is_value in zip(structures, are_values, strict=True)])
    try:
        loop = operation.find_loop(kinds)
    except Unsupported as why:
        return Join(None, reason=str(why))
    dtype = dtype or loop.output
    needed = (*loop.inputs, loop.output, dtype, *[k for k, v in zip(kinds, are_values, strict=True) if not v])
    missing = [d for d in needed if d not in DEVICE_TYPES]
    if missing:
        return Join(None, loop=loop, reason=f"dtype {missing[0]} has no kernels yet")
    sources: dict[int, tuple[int, int]] = {}
    leaf_kinds: dict[int, Any] = {}
    for operand, (s, places) in enumerate(zip(structures, positions, strict=True)):
        for own, place in enumerate(places):
            sources[place] = operand, own
            leaf_kinds[place] = loop.inputs[operand] if are_values[operand] else s.kinds[own]
    count = len(sources)
    numbers: dict[Node, int] = {}
    args = []
    for s, places, is_value, wanted in zip(structures, positions, are_values, loop.inputs, strict=True):
        value = add_nodes(numbers, s, places, count)
        if not is_value and s.dtype != wanted:
            value = number_of(numbers, Node(cast(s.dtype, wanted), wanted, (value,)), count)
        args.append(value)
    result = -1
    for output in operation.outputs:
        its = loop if output is operation else output.find_loop(kinds)
        number = number_of(numbers, Node(its.lower, its.output, tuple(args)), count)
        result = number if output is operation else result
    if loop.output != dtype:
        result = number_of(numbers, Node(cast(loop.output, dtype), dtype, (result,)), count)
    convert = tuple([scalar_value(d) if v else None for d, v in zip(loop.inputs, are_values, strict=True)])
    scalars = tuple([(places[0], c) for places, c in zip(positions, convert, strict=True) if c is not None])
    structure = None
    if len(numbers) <= MAX_NODES and count <= MAX_LEAVES:
        are_arrays = tuple([structures[sources[i][0]].are_arrays[sources[i][1]] for i in range(count)])
        structure = structure_of(tuple([leaf_kinds[i] for i in range(count)]), are_arrays, tuple(numbers), result)
    ordered = tuple([sources[i] for i in range(count)])
    return Join(structure, ordered, loop, scalars, convert if scalars else None)


def _apart(counts: list[int]) -> tuple[tuple[int, ...], ...]:
    """Number the leaves of operands that share none."""
    positions, start = [], 0
    for count in counts:
        positions.append(tuple(range(start, start + count)))
        start += count
    return tuple(positions)
