"""Recording elementwise operations, and the decision between host and device for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import numpy as np

from oxinp._config import config
from oxinp._core.errors.state import checks, current, quiet
from oxinp._core.lazy import explain, placement, reports, schedule
from oxinp._core.lazy.array_protocol import numpys
from oxinp._core.lazy.building import attempt, claim
from oxinp._core.lazy.calls import Pending
from oxinp._core.lazy.expr import (
    Graph,
    Loop,
    Operation,
    Record,
    Unsupported,
    broadcast_shapes,
    cast,
    combine,
    leaf,
    remember,
    renew,
    scalar,
)
from oxinp._core.lazy.flagged import flagged
from oxinp._core.lazy.handle import Handle, begin_writing, chain, compute_into, device_value, end_writing, host_view
from oxinp._core.memory.dtypes import DEVICE_TYPES, WEAK_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.storage import SHARED, SIDES, Storage, Value, is_pinned, make_storage
from oxinp._kernels.flags import CASTS
from oxinp._runtime import here

MAX_CHECKED = 1 << 10
"""Structures of operands that an operation remembers to be allowed in place."""

_new = object.__new__
_NumpyArray = np.ndarray
_OBJECT = np.dtype(object)


class _Types:
    """What the layers above enter here: the classes that results are wrapped in, and what they fall back on."""

    ndarray: Any = None
    scalar: Any = None  # the class of device scalars,
    scalar_type: Any = None  # its own class,
    scalars: Any = None  # and the classes below it that scalars are made in, by NumPy's
    dressed: Any = None  # the class between ndarray and users' classes
    finalize: Any = None  # a new array of a user's class, and what it was made from -> the array, finalised
    from_host: Any = None  # NumPy array that others may change -> ndarray
    fall_back: Any = None  # fallback.call
    array_ufunc: Any = None  # what `dispatch` does for NumPy's own ufuncs and functions
    array_function: Any = None


types = _Types()


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


def wrap(value: Value | None, layout: Layout, host: np.ndarray[Any, Any] | None = None) -> Any:
    """Return a new array that owns a new storage with these sides."""
    storage = make_storage(value, host)
    array = _new(types.ndarray)
    array._known = layout
    array._held = storage
    array._view = None
    array._host = array._seen = None
    return array


def wrap_host(result: Any) -> Any:
    """Return what NumPy gave as ours: an array that nobody else holds becomes the host side of a new one."""
    if type(result) is not _NumpyArray:
        return result
    array = _new(types.ndarray)
    array._held = make_storage(None, result) if result.dtype is _OBJECT else None
    array._known = array._view = None
    array._host = array._seen = result
    return array


def wrap_pending(value: Value, *, as_array: bool = False) -> Any:
    """Return a new array, or scalar where NumPy returns one (unless `as_array`), that is pending."""
    storage = make_storage(value, None)
    schedule.enter(storage)
    layout = value[0].layout
    array = _new(types.ndarray if as_array or layout.ndim else types.scalars[layout.dtype.type])
    array._known = layout
    array._held = storage
    array._view = None
    array._host = array._seen = None
    return array


def wrap_result(value: Value, *, as_array: bool = False) -> Any:
    """Return a new array, or scalar where NumPy returns one (unless `as_array`), of what `schedule.defer` gave."""
    storage = make_storage(value, None)
    entry = value[1][0]
    if type(entry) is Pending:
        entry.owner = ref(storage)
    layout = value[0].layout
    array = _new(types.ndarray if as_array or layout.ndim else types.scalars[layout.dtype.type])
    array._known = layout
    array._held = storage
    array._view = None
    array._host = array._seen = None
    return array


def is_device_scalar(value: Any) -> bool:
    """Whether a value is a scalar of ours; `isinstance` would ask arrays for their `__class__`, which takes longer."""
    return type(type(value)) is types.scalar_type


def as_array(result: Any) -> Any:
    """Return a new result as an array where it is a scalar: what NumPy gives for ``out=...``."""
    if is_device_scalar(result):
        array = _new(types.ndarray)
        array._known = result._layout
        array._held = result._storage
        array._view = None
        array._host = array._seen = None
        return array
    return wrap_host(np.asarray(result)) if isinstance(result, np.generic) else result


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
        See `expr.combine`.
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
        values = [chain(x) if isinstance(x, Handle) else _scalar_value(x) for x in operands]
        positions = None
        leaves: tuple[Any, ...] = ()
        mask = 0
        for graph, entries, bits in values:
            if mask & bits or not (bits or graph.is_scalar):  # they may share a leaf
                positions, leaves, mask = _join_leaves(values)
                break
            leaves += entries
            mask |= bits
        table, key = operation.pairs, None
        if target is None and len(values) <= 2:
            key = _pair(values, positions, operands)
        if key is None:
            table, key = operation.records, (*[value[0] for value in values], positions, target)
        record = table.get(key) or table.recall(key)
        if record is None:
            graphs = tuple([value[0] for value in values])
            record = renew(operation, table, key, graphs, target=target) if positions is None else None
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
    """Record `operation` on two arrays that are on the device, where one look-up or arithmetic does it; else None.

    Nothing is made for the result but its value: it is an operand of something else.
    """
    u, v = a._storage.value, b._storage.value
    if u is None or v is None or current() is not quiet.state:
        return None
    if u[0].layout is not a._known:
        u = chain(a)
        v = b._storage.value or v  # which that may have computed
    if v[0].layout is not b._known:
        v = chain(b)
    first, leaves, mask = u
    second, others, bits = v
    place = None
    if mask & bits:
        for entry in others:
            if entry in leaves:
                if len(others) > 1:
                    return _joined(operation, u, v)
                place = leaves.index(entry)
    if (mask | bits) & SHARED:
        return None
    key = (first, second) if place is None else (first, second, place)
    record = operation.pairs.get(key) or renew(operation, operation.pairs, key, (first, second), place)
    if record is None or record.graph is None:
        return None
    return record.graph, leaves if place is not None else leaves + others, mask | bits


def _joined(operation: Operation, u: Value, v: Value) -> Value | None:
    """Record `operation` on two chains with leaves in common, where that has been done before; else None."""
    positions, leaves, mask = _join_leaves([u, v])
    record = None if mask & SHARED else operation.records.get((u[0], v[0], positions, None))
    return None if record is None or record.graph is None else (record.graph, leaves, mask)


def _pair(values: list[Value], positions: tuple[tuple[int, ...], ...] | None, operands: tuple[Any, ...]) -> Any:
    """Return where `operators` looks first: the graphs, and the shared leaf if there is one; None where it does not."""
    if len(values) == 1:
        graph = values[0][0]
        return None if graph.is_scalar or positions is not None else (graph,)
    (left, left_leaves, _), (right, right_leaves, _) = values
    if positions is None:
        if left.is_scalar:
            return type(operands[0]), right
        return left, type(operands[1]) if right.is_scalar else right
    # A side that reads one leaf twice is joined with itself, which the shortcut would have to do as well.
    is_plain = positions[0] == tuple(range(len(left_leaves))) and len(right_leaves) == 1
    return (left, right, positions[1][0]) if is_plain else None


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
    return tuple(converted)


def _join_leaves(values: list[Value]) -> tuple[tuple[tuple[int, ...], ...] | None, tuple[Any, ...], int]:
    """Join the operands' leaves; one Buffer read through one layout, or one scalar met before, is one leaf.

    Where that makes no difference, there are no positions.
    """
    joined: list[Any] = []
    positions = []
    joined_mask = count = 0
    numbers: dict[Any, int] = {}  # by what a leaf and its layout are known by, or by its place if it is a number
    keys: Any
    for graph, leaves, mask in values:
        joined_mask |= mask
        count += len(leaves)
        keys = [len(joined)] if graph.is_scalar else zip(map(id, leaves), map(id, graph.leaves), strict=True)
        places = tuple([numbers.setdefault(key, len(numbers)) for key in keys])
        positions.append(places)
        for entry, place in zip(leaves, places, strict=True):
            if place == len(joined):
                joined.append(entry)
    return None if count == len(joined) else tuple(positions), tuple(joined), joined_mask


def is_hosted(operands: Sequence[Any]) -> bool:
    """Whether every array among the operands is valid on the host, or would be fetched for what is done there."""
    for x in operands:
        if isinstance(x, Handle) and (x._held or x._storage).host is None and not placement.may_be_host(x._storage):
            return False
    return True


def cost_of(operation: Operation, operands: tuple[Any, ...]) -> float:
    """Return what placement compares to the threshold; raises what NumPy raises for operands that do not fit.

    Below zero where there is no kernel.
    """
    graphs = tuple([leaf(x._layout) if isinstance(x, Handle) else _scalar_value(x)[0] for x in operands])
    key: Any = graphs
    if len(graphs) == 2 and graphs[1].is_scalar:
        key = (graphs[0], type(operands[1]))
    record = operation.pairs.get(key) or operation.pairs.recall(key)
    if record is None:
        record = combine(operation, graphs, None)
        remember(operation.pairs, key, record)
    return record.cost if record.graph is not None else -1.0


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


def apply_into(
    operation: Operation, compute: Callable[..., Any], ufunc: np.ufunc, operands: tuple[Any, ...], out: Any
) -> Any:
    """Compute `operation` into `out`, an ndarray of ours, and return it.

    Raises
    ------
    ValueError
        `out` is read-only, or has another shape than the broadcast operands'.
    TypeError
        Its dtype does not take the result by same-kind casting. Nothing is written in any of these cases.
    """
    check_writeable(out)
    if out._layout.dtype.kind in "SUT":
        raise Unsupported("strings, whose loop NumPy finds by `out`")
    check_cast(ufunc, operands, out)
    if is_hosted((*operands, out)) and placement.is_recorded_on_host(
        _cost_into(operation, operands, out), operation.weight
    ):
        views = [host_view(x) if isinstance(x, Handle) else x for x in operands]
        compute_into(compute, views, {}, (out,))
        return out
    store(out, express(operation, operands, target_of(out), is_checked=True))
    return settled(out)


def _cost_into(operation: Operation, operands: tuple[Any, ...], out: Any) -> float:
    try:
        return max(cost_of(operation, operands), float(out._layout.nbytes))
    except ValueError:  # shapes: NumPy's words are of the output, too
        broadcast_shapes([x._layout.shape if isinstance(x, Handle) else () for x in operands], out._layout.shape)
        raise


def target_of(out: Any) -> Layout:
    """Return the layout in which `store` wants the value of an array: of a whole array its own.

    Raises
    ------
    Unsupported
        Elements overlap (views made by `as_strided`): what they end up with depends on NumPy's order of writing.
    """
    layout: Layout = out._layout
    if out._view is None:
        return layout
    if not layout.is_injective:
        raise Unsupported("elements that overlap")
    return layout.dense


def store(out: Any, value: Value, source: Storage | None = None, depth: int = 4) -> None:
    """Give the elements of `out` an expression's values: a new value for a whole array, a write for a part of one.

    Parameters
    ----------
    out, value
    source, depth
        As for `schedule.write`.
    """
    # Under the lock nobody computes or reads the old value meanwhile.
    computed = attempt(_store, out, value, source, depth)
    if computed is not None:
        seen = begin_writing(out)
        try:
            seen[...] = computed
        finally:
            end_writing(out._storage)


def _store(out: Any, value: Value, source: Storage | None, depth: int) -> np.ndarray[Any, Any] | None:
    """Do what `store` does; return the elements if others see them, or NumPy writes to them, on the host."""
    storage = out._held or out._storage
    layout = out._known or out._layout
    if storage.stale is not None and is_pinned(storage):
        return _computed(out, value)
    if storage.host is not None and out._view is not None and placement.keeps_mirror(storage, layout.nbytes):
        return _computed(out, value)
    if out._view is None:
        if storage.value is None or here.are_several:
            with SIDES:
                if here.are_several:
                    claim(storage)
                storage.value = value
                storage.host = None
                storage.stale = None
        else:  # its device's lock is held
            storage.value = value
            storage.host = None
            storage.stale = None
        if value[0].nodes:
            storage.is_updated = True
            schedule.enter(storage)
        return None
    if storage.value is None:
        device_value(storage)
        if storage.value is None:  # it has been pinned since
            return _computed(out, value)
    schedule.materialise(storage)
    if layout.size:
        schedule.write(storage, layout, value, source, depth)
    return None


def store_result(out: Any, value: Value) -> None:
    """Give the elements of `out` the result of a call, as `store` does."""
    entry = value[1][0]
    if out._view is None and type(entry) is Pending and value[0].layout is out._layout:
        entry.owner = ref(out._storage)
    elif out._view is None:
        value = express(COPY, (wrap_result(value, as_array=True),), out._layout)
    store(out, value)


def _computed(out: Any, value: Value) -> np.ndarray[Any, Any] | None:
    """Compute an expression on the device and return its elements, None if there are none."""
    if not out._layout.size:
        return None
    graph, buffer = schedule.evaluate(value)
    layout = graph.layout
    computed = np.empty(layout.nbytes, np.uint8)
    placement.device_of(buffer).download(computed, buffer.ptr)
    return np.ndarray(layout.shape, layout.dtype, computed, 0, layout.strides)


def check_writeable(out: Any) -> None:
    if out._view is not None and not out._view[1]:
        msg = "output array is read-only"
        raise ValueError(msg)


def is_host_only(out: Any) -> bool:
    """Whether an array may be written to, and no device side or pin of its storage has to know."""
    storage = out._storage
    return (
        storage.host is not None
        and storage.value is None
        and storage.stale is None
        and (out._view is None or out._view[1])
    )


def check_cast(ufunc: np.ufunc, operands: tuple[Any, ...], out: Any) -> None:
    """Let NumPy itself raise for dtypes that do not go together, on arrays without elements to compute."""
    key = (ufunc, out._layout.dtype, *[x._layout.dtype if isinstance(x, Handle) else type(x) for x in operands])
    if key in _CASTS_KNOWN:
        return
    stand_ins = [np.empty((0,), x._layout.dtype) if isinstance(x, Handle) else x for x in operands]
    ufunc(*stand_ins, out=np.empty((0,), out._layout.dtype))
    if int not in key:  # whether an integer fits depends on its value
        _CASTS_KNOWN.add(key)


_CASTS_KNOWN: set[Any] = set()


def other_side(value: Any) -> Any:
    """Return what an operator's other side is to `apply`, as `operand` does; NotImplemented to decline.

    An operator, unlike a ufunc, also leaves the operation to what claims priority.
    """
    kind = type(value)
    if kind in WEAK_TYPES or isinstance(value, Handle | np.generic):
        return operand(value)
    return NotImplemented if is_deferred_to(value) else operand(value)


def is_deferred_to(value: Any) -> bool:
    """Whether NumPy's operators leave the operation to the other side's: it forbids ufuncs, or claims priority.

    The latter, as SciPy's sparse arrays do, is NumPy's legacy protocol and counts without `__array_ufunc__` alone.
    """
    kind = type(value)
    if hasattr(kind, "__array_ufunc__"):
        return kind.__array_ufunc__ is None
    priority = getattr(value, "__array_priority__", 0)
    return isinstance(priority, int | float) and priority > 0


def operand(value: Any) -> Any:
    """Return what an operand is to `apply`: a handle or a scalar; NotImplemented to decline.

    Declined is what has a say of its own in ufuncs or wraps their results, or forbids them, subclasses of NumPy's array
    included.
    """
    kind = type(value)
    if kind in WEAK_TYPES or isinstance(value, Handle):
        return value
    if isinstance(value, np.generic):
        return value
    if kind is bool:
        return np.bool_(value)
    if kind is not _NumpyArray and (hasattr(kind, "__array_ufunc__") or hasattr(kind, "__array_wrap__")):
        return NotImplemented
    return types.from_host(numpys(value))


def mask_operand(where: Any) -> Any:
    """Return what `where=` is to a call: arrays have to be of truth values, anything else is asked whether it is true.

    NotImplemented to decline, as `operand` does.
    """
    if is_device_scalar(where) and where._layout.dtype != np.bool_:
        where = np.asarray(where)[()]
    is_array = isinstance(where, Handle) or any(hasattr(type(where), name) for name in _ARRAY_LIKE)
    if is_array and not isinstance(where, np.generic):
        return operand(where)
    found = np.asarray(where, np.bool_)
    return operand(found) if found.ndim else found[()]


_ARRAY_LIKE = ("__array__", "__array_interface__", "__array_struct__", "__array_ufunc__")


def operand_in_place(value: Any) -> Any:
    """Return what `operand` does for an in-place operator, which takes arrays of NumPy's subclasses for their elements.

    It cannot leave the operation to them: whoever else has the array would not see what was computed.
    """
    found = other_side(value)
    if found is NotImplemented and getattr(type(value), "__array_ufunc__", None) is _NumpyArray.__array_ufunc__:
        return types.from_host(numpys(value))
    return found


def declined_in_place(ufunc: np.ufunc, a: Any, b: Any) -> Any:
    """Return what an in-place operator returns where `operand_in_place` declines: NumPy's ufunc asks the other side."""
    is_asked = hasattr(type(b), "__array_ufunc__") or not is_deferred_to(b)
    return ufunc(a, b, out=(a,)) if is_asked else NotImplemented


_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def declined(ufunc: np.ufunc, operator: Callable[..., Any] | None, a: Any, b: Any) -> Any:
    """Return what an operator returns where `other_side` declines one.

    That is what NumPy's ufunc, which asks it, returns; of what is deferred to, what its own operator does. One that
    does not know our arrays is given NumPy's.

    Parameters
    ----------
    ufunc : numpy.ufunc
    operator : callable or None
        Python's, ``operator.add``; None if a ufunc was called, which defers to nobody.
    a, b : object
        One of them ours.

    Returns
    -------
    object
        NotImplemented for subclasses of NumPy's array on the right of ours, so that Python asks their operators, and if
        a ufunc was called.
    """
    other = b if isinstance(a, Handle) else a
    kind = type(other)
    is_numpys = issubclass(kind, _NumpyArray)
    is_below = is_numpys and (type(a) is types.ndarray or is_device_scalar(a))
    if not (is_below or is_deferred_to(other) or (is_numpys and other is a)):
        return ufunc(a, b)
    if operator is None or is_below:
        return NotImplemented
    if other is b:  # else its operator has been tried
        name = operator.__name__.strip("_")
        reflected = getattr(kind, f"__{_MIRRORED.get(name, f'r{name}')}__", None)
        result = NotImplemented if reflected is None else reflected(b, a)
        if result is not NotImplemented:
            return result
    return types.fall_back(operator, (a, b), {}, name=ufunc.__name__)
