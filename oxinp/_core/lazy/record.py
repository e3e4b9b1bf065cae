"""Recording elementwise operations, and the decision between host and device for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Any

import numpy as np

from oxinp._config import config
from oxinp._core.errors.frames import call_as_user
from oxinp._core.errors.state import OVER, checks, current, quiet
from oxinp._core.lazy import explain, placement, reports, schedule
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.building import attempt
from oxinp._core.lazy.combining import UNALIGNED, combine, known_join, may_join, renew
from oxinp._core.lazy.expr import Graph, Loop, Operation, Placed, Record, Unsupported, cast, leaf, remember, scalar
from oxinp._core.lazy.flagged import flagged
from oxinp._core.lazy.handle import Handle, chain, host_view, stored, upload_first
from oxinp._core.lazy.results import is_device_scalar, wrap_host, wrap_pending
from oxinp._core.memory.broadcast import broadcast_shapes
from oxinp._core.memory.dtypes import DEVICE_TYPES, WEAK_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.storage import SHARED, Storage, Value
from oxinp._kernels.flags import CASTS

MAX_CHECKED = 1 << 10
"""Structures of operands that an operation remembers to be allowed in place."""

_new = object.__new__


def _copy_loop(kinds: tuple[Any, ...]) -> Loop:
    dtype = np.dtype(kinds[0])
    if dtype not in DEVICE_TYPES:
        msg = f"dtype {dtype} has no kernels yet"
        raise Unsupported(msg)
    return Loop((dtype,), dtype, cast(dtype, dtype))


COPY = Operation("copy", _copy_loop)
COPY.raises = CASTS


def _where_loop(kinds: tuple[Any, ...]) -> Loop:
    stand_ins = [np.empty(0, kind) if isinstance(kind, np.dtype) else kind(0) for kind in kinds[1:]]
    dtype = np.result_type(*stand_ins)
    return Loop((np.dtype(np.bool_), dtype, dtype), dtype, _where)


def _where(k: Any, condition: Any, x: Any, y: Any) -> Any:
    return k.where(condition, x, y)


WHERE = Operation("where", _where_loop, takes_any_integer=True)


def express(
    operation: Operation,
    operands: tuple[Any, ...],
    target: Layout | None = None,
    *,
    is_checked: bool = False,
    where: Any = None,
) -> Value:
    """Record `operation` on the device.

    Parameters
    ----------
    operation : Operation
    operands : tuple of Handle or scalar
        Scalars are Python's (weak) or NumPy's.
    target : Layout or None
        See `combining.combine`.
    is_checked : bool
        NumPy lets the result be written to the target's dtype.
    where : Handle, numpy.bool or None
        Of which elements floating-point errors count; all are computed.

    Raises
    ------
    Unsupported
        Where the device has no kernel.
    ValueError, TypeError, OverflowError
        As NumPy.
    """
    if current() is not quiet.state and checks() is not None and operation.raises is not None:
        operation, operands = flagged(operation, operands, target, where)
    while True:
        values = [
            (known, (x,), 0)  # `_scalar_value`, spelled out
            if (known := _SCALARS.get(type(x))) is not None
            else chain(x)
            if isinstance(x, Handle)
            else _scalar_value(x)
            for x in operands
        ]
        positions = None
        leaves: tuple[Any, ...] = ()
        mask = 0
        for graph, entries, bits in values:
            if mask & bits or not (bits or graph.is_scalar):  # they may share a leaf
                positions, leaves, mask = join_leaves(values)
                break
            leaves += entries
            mask |= bits
        table, key = operation.pairs, None
        if target is None and len(values) <= 2:
            key = _pair(values, positions, operands)
        if key is None:
            table, key = operation.records, (*[value[0] for value in values], positions, target)
        record = table.get(key) or (table.recall(key) if table.old else None)
        if record is None:
            graphs = tuple([value[0] for value in values])
            record = None
            if positions is None or len(graphs) > 2:
                record = renew(operation, table, key, graphs, positions, target)
            if record is None:
                record = combine(operation, graphs, positions, target)
                remember(table, key, record)
        if record.graph is not None:
            if is_checked and not record.is_checked:
                record.is_checked = True
                if len(operation.checked) >= MAX_CHECKED:
                    operation.checked.clear()
                operation.checked.add((tuple([value[0].structure for value in values]), record.graph.dtype))
            if record.scalars:
                try:
                    leaves = _converted(record, leaves)
                except OverflowError as error:
                    if operation.takes_any_integer:
                        raise Unsupported(str(error)) from None
                    raise
            return record.graph, leaves, mask
        if not record.flush:
            raise Unsupported(record.reason)
        for i in record.flush:
            schedule.postpone(operands[i]._storage)


def paired(operation: Operation, a: Handle, b: Handle) -> Value | None:
    """Record `operation` on two arrays, where one look-up or arithmetic does it and the device computes it; else None.

    Nothing is made for the result but its value: it is an operand of something else. An array that is on the host is
    uploaded where the other one stays on the device.
    """
    if current() is not quiet.state:
        return None
    one, other = a._held or stored(a), b._held or stored(b)
    u, v = one.value, other.value
    if u is None or v is None:
        if u is None:
            u = None if v is None else uploaded_for(one, other)
        else:
            v = uploaded_for(other, one)
        if u is None or v is None:
            return None
        for handle, storage, uploaded in ((a, one, u), (b, other, v)):
            if not handle._known and handle._seen is storage.host is not None:  # what `found` finds
                handle._known = uploaded[0].layout
    if u[0].layout is not a._known:
        u = chain(a)
        v = (b._held or b._storage).value or v  # which that may have computed
    if v[0].layout is not b._known:
        v = chain(b)
    first, leaves, mask = u
    second, others, bits = v
    place = None
    if mask & bits:
        for entry in others:
            if entry in leaves:
                if len(others) > 1:
                    if compute_what_is_long(operation, (a, b), (first, second), ANYHOW):
                        return paired(operation, a, b)
                    value = joined(operation, u, v)
                    if value is None and (first.nodes or second.nodes):
                        positions, _, _ = join_two(u, v)
                        if compute_what_is_long(operation, (a, b), (first, second), positions):
                            return paired(operation, a, b)
                    return value
                place = leaves.index(entry)
    if (mask | bits) & SHARED:
        return None
    key = (first, second) if place is None else (first, second, place)
    record = operation.pairs.get(key) or renew(operation, operation.pairs, key, (first, second), place)
    if record is None or record.graph is None:
        is_computed = _compute_what_spreads((a, b), (first, second)) or (
            place is None and compute_what_is_long(operation, (a, b), (first, second))
        )
        return paired(operation, a, b) if is_computed else None
    return record.graph, leaves if place is not None else leaves + others, mask | bits


def uploaded_for(storage: Storage, other: Storage) -> Value | None:
    """Return the device side of what is on the host, uploaded where another operand stays on the device; else None."""
    if other.host is not None or other.value is None:
        return None
    if (balance.limit or placement.followers) and placement.may_be_host(other):
        return None
    return attempt(upload_first, storage)


ANYHOW = "anyhow"


def compute_what_is_long(
    operation: Operation,
    operands: tuple[Handle, Handle],
    graphs: tuple[Graph, Graph],
    positions: Any = None,
    dtype: np.dtype[Any] | None = None,
) -> bool:
    """Have the longer operand computed if one kernel is known not to compute both with what is made of them.

    The other one is computed with that, if it is short enough now. Returns whether there was such an operand.
    Parameters are those of `combining.join_of`, and the operands that have the graphs. `ANYHOW` are the positions that
    such operands had before, whatever these are now: to find them takes as long as to launch what is computed.
    """
    first, second = graphs
    if not (first.nodes or second.nodes):
        return False
    structures = first.structure, second.structure
    join = known_join(operation, (structures, positions, dtype))
    if join is None or join.structure is not None or join.reason:
        return False
    if positions is not ANYHOW:
        remember(operation.joins, (structures, ANYHOW, dtype), join)
    longer = operands[len(second.nodes) > len(first.nodes)]  # as `combine` has it
    schedule.postpone(longer._held or longer._storage)
    return True


def _compute_what_spreads(operands: tuple[Handle, Handle], graphs: tuple[Graph, Graph]) -> bool:
    """Have operands computed that are pending and have to be broadcast; whether there were such."""
    first, second = graphs
    if first.shape == second.shape or not (first.nodes or second.nodes):
        return False
    try:
        shape = broadcast_shapes([first.shape, second.shape], None)
    except ValueError:  # which is told elsewhere
        return False
    found = False
    for handle, graph in zip(operands, graphs, strict=True):
        if graph.nodes and not may_join(graph, shape):
            schedule.postpone(handle._held or handle._storage)
            found = True
    return found


def joined(operation: Operation, u: Value, v: Value) -> Value | None:
    """Record `operation` on two chains with leaves in common, where that has been done before; else None.

    For new sizes it is done by arithmetic, unless the first has a leaf twice.
    """
    (first, own, mask), (second, others, bits) = u, v
    positions: tuple[tuple[int, ...], ...] | None
    if len(own) == 1 and len(others) == 2 and (place := _place_of(own[0], first, others, second)) is not None:
        positions, leaves, mask = _ONE_OF_TWO[place], (*own, others[1 - place]), mask | bits
    elif u is v and (count := len(own)) < len(_ITSELF) and len({*map(id, own)}) == count:
        positions, leaves = _ITSELF[count], own
    else:
        is_short = (len(own) == 1 or (len(own) == 2 and own[0] is not own[1])) and len(own) * len(others) <= FEW
        positions, leaves, mask = _join_few(u, v) if is_short else join_two(u, v)
    if mask & SHARED:
        return None
    key = first, second, positions, None
    record = operation.records.get(key)
    if (
        record is None
        and positions is not None
        and first.shape == second.shape
        and positions[0] == tuple(range(len(u[1])))
    ):
        record = renew(operation, operation.records, key, (first, second), positions[1])
    return None if record is None or record.graph is None else (record.graph, leaves, mask)


_ONE_OF_TWO = ((0,), (0, 1)), ((0,), (1, 0))
"""Positions of a leaf and of two of which one is it, by the place of that one."""


_ITSELF = [(tuple(range(n)), tuple(range(n))) for n in range(9)]
"""Positions of the leaves of a chain that is an operand twice, by how many these are, each another one."""


def _place_of(entry: Any, graph: Graph, others: tuple[Any, ...], second: Graph) -> int | None:
    """Return which of two other leaves of a graph the only one of a graph is, if one is, and not both."""
    (where,), (left, right) = graph.leaves, second.leaves
    if others[0] is entry and left is where:
        return None if others[1] is entry and right is where else 0
    return 1 if others[1] is entry and right is where else None


FEW = 12
"""Pairs of leaves of two chains up to which they are compared one by one."""


def join_two(u: Value, v: Value) -> tuple[tuple[tuple[int, ...], ...] | None, tuple[Any, ...], int]:
    """Do what `join_leaves` does of two chains, in a fraction of the time."""
    (first, joined, mask), (second, others, bits) = u, v
    count = len(joined)
    known = dict(zip(map(id, joined), range(count), strict=True))
    is_each_new = len(known) == count
    if is_each_new and count * len(others) <= FEW:
        return _join_few(u, v)
    ids = [*map(id, others)]
    places: list[Any] = [*map(known.get, ids)]
    num_new = places.count(None)
    if num_new == len(others) and len({*ids, *known}) == len(known) + num_new:
        return None, joined + others, mask | bits
    layouts, own = first.leaves, second.leaves
    if num_new:
        new: list[int] = []
        for i in [i for i, place in enumerate(places) if place is None]:
            number = count + len(new)
            places[i] = place = known.setdefault(ids[i], number)
            if place == number:  # else it has been met among them
                new.append(i)
        joined += tuple([others[i] for i in new])
        layouts += tuple([own[i] for i in new])
    if not all(map(is_, map(layouts.__getitem__, places), own)):
        return _join_few(u, v) if is_each_new else join_leaves((u, v))
    return (tuple(range(count)), tuple(places)), joined, mask | bits


def _join_few(u: Value, v: Value) -> tuple[tuple[tuple[int, ...], ...] | None, tuple[Any, ...], int]:
    """Do what `join_two` does: few leaves are compared with few."""
    (first, joined, mask), (second, others, bits) = u, v
    layouts = first.leaves
    count, places = len(joined), []
    for entry, layout in zip(others, second.leaves, strict=True):
        for place, known in enumerate(joined):
            if known is entry and layouts[place] is layout:
                places.append(place)
                break
        else:
            places.append(len(joined))
            joined += (entry,)
            layouts += (layout,)
    if len(joined) == count + len(others):
        return None, joined, mask | bits
    return (tuple(range(count)), tuple(places)), joined, mask | bits


def _pair(values: list[Value], positions: tuple[tuple[int, ...], ...] | None, operands: tuple[Any, ...]) -> Any:
    """Return where `operators` looks first: the graphs, and the shared leaf if there is one; None where it does not."""
    if len(values) == 1:
        graph = values[0][0]
        return None if graph.is_scalar or positions is not None else (graph,)
    (left, _, _), (right, right_leaves, _) = values
    if positions is None:
        if left.is_scalar:
            return type(operands[0]), right
        return left, type(operands[1]) if right.is_scalar else right
    return (left, right, positions[1][0]) if len(right_leaves) == 1 else None


_SCALARS: dict[type, Graph] = {}  # by the type of the value


def _scalar_value(value: Any) -> Value:
    kind = type(value)
    graph = _SCALARS.get(kind)
    if graph is None:
        graph = _SCALARS[kind] = scalar(kind if kind in WEAK_TYPES else np.dtype(kind))
    return graph, (value,), 0


def _converted(record: Record, leaves: tuple[Any, ...]) -> tuple[Any, ...]:
    converted = list(leaves)
    for place, convert in record.scalars:
        converted[place] = convert(leaves[place])
    if current() is not quiet.state and (wanted := checks()) is not None and wanted.kinds & OVER:
        for place, convert in record.scalars:
            given = leaves[place]
            if (
                hasattr(convert, "scalar_type")
                and np.isinf(converted[place])
                and (isinstance(given, int) or not np.isinf(given))  # integers may be beyond all floats
            ):
                call_as_user(convert.scalar_type, (given,), {})  # which tells of the overflow
    return tuple(converted)


def join_leaves(values: Sequence[Value]) -> tuple[tuple[tuple[int, ...], ...] | None, tuple[Any, ...], int]:
    """Join the operands' leaves; one Buffer read through one layout, or one scalar met before, is one leaf.

    Those of the first operand stay as they are, also where a scalar is among them twice: so its graph and another one's
    are what is looked up by. Where it makes no difference, there are no positions.
    """
    joined: tuple[Any, ...] = ()
    positions = []
    joined_mask = count = 0
    numbers: dict[Any, int] = {}  # by what a leaf and its layout are known by, or by its place if it is a number
    for graph, leaves, mask in values:
        joined_mask |= mask
        first, count = count, count + len(leaves)
        keys: Any = (len(joined),) if graph.is_scalar else tuple(zip(map(id, leaves), map(id, graph.leaves)))  # noqa: B905 - as many
        if not first:
            numbers = dict(zip(keys, range(count), strict=True))
            positions.append(tuple(range(count)))
            joined = leaves
            continue
        places: list[Any] = [*map(numbers.get, keys)]
        if None in places:
            for i, key in enumerate(keys):
                if places[i] is None:
                    places[i] = place = numbers.setdefault(key, len(joined))
                    if place == len(joined):
                        joined += (leaves[i],)
        positions.append(tuple(places))
    return None if count == len(joined) else tuple(positions), joined, joined_mask


def is_hosted(operands: Sequence[Any]) -> bool:
    """Whether every array among the operands is valid on the host, or would be fetched for what is done there."""
    for x in operands:
        if isinstance(x, Handle):
            storage = x._held or x._storage
            if storage.host is None and not placement.may_be_host(storage):
                return False
    return True


def check_placement(*operands: Any) -> None:
    """Leave to NumPy arrays that all have their elements on the host and belong there; scalars have no say.

    Raises
    ------
    Placed
        They are to be left.
    """
    held = [x for x in operands if isinstance(x, Handle) and not is_device_scalar(x)]
    if is_hosted(held) and placement.is_host(max(x._layout.nbytes for x in held)):
        raise Placed("elements that are on the host")


def cost_of(operation: Operation, operands: tuple[Any, ...]) -> float:
    """Return what placement compares to the threshold; raises what NumPy raises for operands that do not fit.

    Below zero where there is no kernel, also of copies of the operands.
    """
    graphs = tuple([leaf(x._layout) if isinstance(x, Handle) else _scalar_value(x)[0] for x in operands])
    key: Any = graphs
    if len(graphs) == 2 and graphs[1].is_scalar:
        key = (graphs[0], type(operands[1]))
    record = operation.pairs.get(key) or renew(operation, operation.pairs, key, graphs)
    if record is None:
        record = combine(operation, graphs, None)
        remember(operation.pairs, key, record)
    return record.cost if record.graph is not None or record.reason is UNALIGNED else -1.0


def apply(
    operation: Operation, compute: Callable[..., Any], operands: tuple[Any, ...], *, as_array: bool = False
) -> Any:
    """Compute `operation` where placement puts it.

    Parameters
    ----------
    operation : Operation
    compute : callable
        NumPy's own, for the host.
    operands : tuple of Handle or scalar
    """
    if is_hosted(operands) and placement.is_recorded_on_host(cost := cost_of(operation, operands), operation.weight):
        if explain.REPORTS:
            explain.note("host", operation.name, placement.why_host(cost))
        return wrap_host(compute(*[host_view(x) if isinstance(x, Handle) else x for x in operands]))
    return settled(wrap_pending(express(operation, operands), as_array=as_array))


def settled(result: Any) -> Any:
    """Return a result, computed where floating-point errors are told of and the line that asks is to raise them."""
    if current() is not quiet.state and config.synchronous and result._storage.value is not None:
        reports.settle(result)
    return result
