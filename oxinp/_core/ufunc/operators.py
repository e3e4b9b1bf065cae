"""The operators of arrays, which programs spend their time in.

The texts that they are made of spell out the two common cases, both operands on the device and both on the host, before
they hand over to `apply`, which treats every case. What is spelled out there is what `apply` would do.
"""

from __future__ import annotations

import contextlib
import operator as python_operator
from collections.abc import Callable
from functools import partial
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from oxinp._config import config
from oxinp._core.errors.state import current, quiet
from oxinp._core.lazy import mirrored, schedule, straight, writing
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.bringing import brought
from oxinp._core.lazy.combining import NUMBERS, renew, renew_pair
from oxinp._core.lazy.explain import REPORTS
from oxinp._core.lazy.expr import Operation, Unsupported
from oxinp._core.lazy.handle import (
    Handle,
    chain,
    expression,
    stored,
)
from oxinp._core.lazy.masked import applied
from oxinp._core.lazy.masked import update as update_masked
from oxinp._core.lazy.operands import declined, declined_in_place, of_sequence, operand_in_place, other_side
from oxinp._core.lazy.placement import is_recorded_on_host
from oxinp._core.lazy.record import ANYHOW, apply, compute_what_is_long, join_two, joined, paired
from oxinp._core.lazy.results import types, wrap_host, wrap_pending
from oxinp._core.lazy.stores import apply_into, store
from oxinp._core.manipulation.copy import readable
from oxinp._core.memory.storage import Value, drop_copy
from oxinp._core.ufunc.operator_texts import OWN_NUMBERS, reach_of, takes_constants, texts_of
from oxinp._core.ufunc.table import UfuncRow

_NumpyArray = np.ndarray
_NUMBERS = frozenset({float, complex, *OWN_NUMBERS})  # beside integers, of which not all are plain
_PLAIN_INT = 2**31 - 1  # integers that most integer dtypes hold


def _bound(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any], itemsizes: Callable[..., int]) -> int:
    """Return a number of bytes that no operand and no result exceeds; below 0 if there is none."""
    longer, shorter, size = x.shape, y.shape, x.size
    if longer != shorter:
        if len(longer) < len(shorter):
            longer, shorter = shorter, longer
        lead = len(longer) - len(shorter)
        size = prod(longer[:lead])
        for m, n in zip(longer[lead:], shorter, strict=True):
            if m != n and m != 1 != n:  # which NumPy raises itself, unless something else is wrong as well
                return -1
            size *= m if n == 1 else n
        size = max(size, x.size, y.size)
    return size * itemsizes(x.dtype, y.dtype)


_EQUALITY = (python_operator.eq, python_operator.ne)
_SPECIAL = (*_EQUALITY, python_operator.pow)


def _stand_in(x: Handle) -> np.ndarray[Any, Any]:
    """Return an array of NumPy's with the dtype and shape of one of ours."""
    return np.broadcast_to(np.zeros((), x._layout.dtype), x._layout.shape)


def operators(operation: Operation, row: UfuncRow) -> tuple[Callable[..., Any], ...]:
    """Return the methods of a ufunc of one output, whose first operand is an array or scalar of ours.

    Of one operand: ``-a``. Of two: ``a + b``, ``b + a`` and ``a += b``.
    """
    if row.numpy.nin == 1:
        return (_unary(operation, row),)
    return _binary(operation, row, row.python if row.operators else None)


def plain_call(operation: Operation, row: UfuncRow) -> Callable[..., Any]:
    """Return what a ufunc's call of two arrays is: its operator, but that it does not defer to the other side."""
    return operators(operation, row._replace(operators=()))[0]


def itemsizes_of(ufunc: np.ufunc) -> Callable[..., int]:
    """Return what says how many bytes the largest elements have that a ufunc reads, or makes, of operands of dtypes.

    Instead of a dtype that may be told a number's type.
    """
    found: dict[tuple[Any, ...], int] = {}

    def itemsizes(*kinds: Any) -> int:
        known = found.get(kinds)
        return known if known is not None else learn(kinds)

    def learn(kinds: tuple[Any, ...]) -> int:
        dtypes = [x if isinstance(x, np.dtype) or x in NUMBERS else np.dtype(x) for x in kinds]
        try:
            loop = ufunc.resolve_dtypes((*dtypes, *(None,) * ufunc.nout))
        except TypeError:  # which NumPy raises itself
            loop = (np.dtype(complex),)
        sizes = [x.itemsize for x in (*dtypes, *loop) if isinstance(x, np.dtype)]
        found[kinds] = max(sizes)
        return found[kinds]

    return itemsizes


def _is_small(
    weight: float,
    itemsizes: Callable[..., int],
    x: np.ndarray[Any, Any],
    y: np.ndarray[Any, Any],
    times: int = 0,
) -> bool:
    """Whether no operand and no result is so large that it belongs on the device; for `times`, see `Balance.takes`."""
    return is_recorded_on_host(_bound(x, y, itemsizes) * weight, weight, times)


def met_number(a: Any, b: Any) -> Any:
    """Return a number as `with_number` records it of an array of the device: what is found out now serves it, too."""
    own = OWN_NUMBERS.get(type(b))
    return b if own is None or a.dtype is not own[0] or (a._held or a._storage).host is not None else b.item()


def on_common_ways(
    row: UfuncRow,
    general: Callable[..., Any],
    general_reflected: Callable[..., Any],
    operation: Operation | None = None,
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return a ufunc's operators ``a + b`` and ``b + a``, which compute what is small and on the host.

    Parameters
    ----------
    row : UfuncRow
    general, general_reflected : callable
        What they leave everything else to.
    operation : Operation, optional
        What they record of two arrays on the device, where arithmetic does it; without it that is left to `general`.
    """
    pairs: Any = MappingProxyType({}) if operation is None else operation.pairs
    texts = texts_of(row)
    make = texts.of_two if takes_constants(row) else texts.of_numbers
    if row.python is python_operator.pow:
        make = texts.power
    # Of two arrays NumPy's operators are its ufuncs, which are found faster, but these.
    function = row.python if row.python in _SPECIAL else row.numpy
    made: tuple[Callable[..., Any], Callable[..., Any]] = make(
        function,
        general,
        general_reflected,
        partial(_is_small, row.weight, itemsizes := itemsizes_of(row.numpy)),
        reach_of(row),
        itemsizes,
        pairs,
        (lambda key: None) if operation is None else partial(renew_pair, operation),  # noqa: ARG005
        (lambda u, v: None) if operation is None else partial(joined, operation),  # noqa: ARG005
    )
    return made


def _unary(operation: Operation, row: UfuncRow) -> Callable[..., Any]:
    pairs = operation.pairs
    compute = row.on_host
    ufunc = row.numpy

    def general(a: Any) -> Any:
        if a._known is None is a._seen and (found := applied(made, a)) is not None:
            return found
        storage = a._held or a._storage
        if storage.host is None:
            value = storage.value
            if value is not None and current() is quiet.state:
                if value[0].layout is not a._known:
                    value = chain(a)
                graph = value[0]
                record = pairs.get((graph,)) or renew(operation, pairs, (graph,), (graph,))
                if record is not None and record.graph is not None and record.graph.layout.nbytes >= balance.limit:
                    return wrap_pending((record.graph, value[1], value[2]))
        try:
            return apply(operation, compute, (a,))
        except Unsupported:
            return _apply_to_copies(operation, compute, ufunc, (a,))

    made: Callable[..., Any] = texts_of(row).of_one(
        row.python or ufunc,
        general,
        reach_of(row),
        itemsizes_of(ufunc),
        pairs,
        partial(renew_pair, operation),
    )
    return made


def _apply_to_copies(operation: Operation, compute: Callable[..., Any], ufunc: np.ufunc, operands: Any) -> Any:
    """Compute what the device cannot of operands as they are: of copies that kernels can read, or by NumPy."""
    copies = readable(operands)
    if copies is not None:
        with contextlib.suppress(Unsupported):
            return apply(operation, compute, copies)
    return types.fall_back(ufunc, operands, {}, name=operation.name)


def _with_number(operation: Operation, a: Any, b: Any, place: int) -> Value | None:
    """Return what an array of the device and a number, which stands at a place, are; None for the general way."""
    storage, kind = a._held or a._storage, type(b)
    own = OWN_NUMBERS.get(kind)
    if own is not None:
        dtype, kind = own
        if a.dtype is not dtype:
            return None
        b = b.item()  # which means the same then, and is what has been met
    value = storage.value
    if storage.host is not None or value is None or current() is not quiet.state:
        return None
    if value[0].layout is not a._known:
        value = chain(a)
    graph = value[0]
    key = (graph, kind) if place else (kind, graph)
    record = operation.pairs.get(key)
    if record is None:
        record = renew_pair(operation, key)
    if record is None or record.graph is None or record.graph.layout.nbytes < balance.limit:
        return None
    try:
        converted = record.convert[place](b)
    except OverflowError:  # NumPy's, or none where any integer is taken: `apply` knows
        return None
    leaves = (*value[1], converted) if place else (converted, *value[1])
    return record.graph, leaves, value[2]


def _binary(operation: Operation, row: UfuncRow, python: Callable[..., Any] | None) -> tuple[Callable[..., Any], ...]:
    compute = row.on_host
    ufunc = row.numpy

    def general(a: Any, b: Any) -> Any:
        if a._known is None is a._seen and (found := applied(made[0], a, b)) is not None:
            return found
        kind = type(b)
        if kind is types.ndarray or type(kind) is types.scalar_type:
            first, second = a._held or stored(a), b._held or stored(b)
            least: float = balance.limit
            is_left = first.host is None or second.host is None  # else both may be the host's, too
            if not is_left and not least and first.value is not None is not second.value:
                is_left, least = True, config.offload_threshold
            if is_left:
                if balance.limit and not REPORTS and brought(a, b):
                    return made[0](a, b)
                value = paired(operation, a, b)
                if value is not None and value[0].layout.nbytes >= least:
                    return wrap_pending(value)
        elif kind in _NUMBERS or (kind is int and -_PLAIN_INT <= b <= _PLAIN_INT):
            if balance.limit and not REPORTS and brought(a):
                return made[0](a, b)
            value = _with_number(operation, a, b, 1)
            if value is not None:
                return wrap_pending(value)
            b = met_number(a, b)
        elif kind is list or kind is tuple:
            return made[0](a, of_sequence(b))
        else:
            other = other_side(b)
            if other is NotImplemented:
                return declined(ufunc, python, a, b)
            b = other
        return apply_or_fall_back(a, b)

    def general_reflected(a: Any, b: Any) -> Any:
        if a._known is None is a._seen and (found := applied(made[1], a, b)) is not None:
            return found
        kind = type(b)
        if kind in _NUMBERS or (kind is int and -_PLAIN_INT <= b <= _PLAIN_INT):
            if balance.limit and not REPORTS and brought(a):
                return made[1](a, b)
            value = _with_number(operation, a, b, 0)
            if value is not None:
                return wrap_pending(value)
            b = met_number(a, b)
        elif kind is list or kind is tuple:
            return made[0](of_sequence(b), a)
        other = other_side(b)
        return declined(ufunc, python, b, a) if other is NotImplemented else apply_or_fall_back(other, a)

    def apply_or_fall_back(a: Any, b: Any) -> Any:
        try:
            try:
                return apply(operation, compute, (a, b))
            except Unsupported:
                return _apply_to_copies(operation, compute, ufunc, (a, b))
        except TypeError:
            if row.python not in _EQUALITY:
                raise
        # NumPy says that numbers and texts differ, or raises; that takes dtypes and shapes, and no elements.
        return wrap_host(row.python(*[_stand_in(x) if isinstance(x, Handle) else x for x in (a, b)]))

    made = on_common_ways(row, general, general_reflected, operation)
    # The in-place operator that Python has, or the ufunc, which takes where to write to.
    on_host = getattr(python_operator, row.operators[2].strip("_"), None) if row.operators else None
    return made if on_host is None else (*made, _in_place(operation, row, on_host, made[0]))


def _lets_copy_go(storage: Any, b: Any) -> bool:
    """Let an array that is on the host, belongs there, and is written to there go without its copy on the device.

    Tell whether it had one: noting what becomes outdated of that takes longer than uploading it again.
    """
    if storage.value is None and storage.stale is None:
        return False
    if isinstance(b, Handle) and b._held is not None and b._held.host is None:
        return False
    nbytes = 0 if storage.host is None else storage.host.nbytes
    return (nbytes < config.offload_threshold or nbytes < balance.limit) and drop_copy(storage)


def _update_whole(operation: Operation, a: Any, b: Any) -> bool:
    """Record a whole array of the device and another one as has been done of their like; tell whether it has."""
    storage, given, layout = a._held, b._held, a._known
    if storage is None or given is None or storage.host is not None or given.host is not None or layout is None:
        return False
    u, v = storage.value, given.value
    if u is None or v is None:
        return False
    first, leaves, mask = u
    second, others, bits = v
    if first.layout is not layout or second.layout is not b._known or current() is not quiet.state:
        return False
    positions = None
    if mask & bits and not (len(leaves) == 1 and leaves[0] not in others):
        if compute_what_is_long(operation, (a, b), (first, second), ANYHOW, layout.dtype):
            return _update_whole(operation, a, b)
        positions, leaves, mask = join_two(u, v)
    else:
        leaves, mask = leaves + others, mask | bits
    records = operation.records
    key = first, second, positions, layout
    record = records.get(key)
    if record is None:
        if positions is None:
            record = renew(operation, records, key, (first, second), None, layout)
        elif first.shape == second.shape and positions[0] == tuple(range(len(u[1]))):
            record = renew(operation, records, key, (first, second), positions[1], layout)
        else:
            record = records.recall(key)
    if record is None or record.flush:
        is_computed = compute_what_is_long(operation, (a, b), (first, second), positions, layout.dtype)
        return is_computed and _update_whole(operation, a, b)
    if not record.is_checked or record.scalars:
        return False
    graph = record.graph
    if graph is None or graph.layout.nbytes < balance.limit:
        return False
    store(a, (graph, leaves, mask))
    return True


def _in_place(
    operation: Operation, row: UfuncRow, on_host: Callable[..., Any], plain: Callable[..., Any]
) -> Callable[..., Any]:
    records = operation.records
    ufunc = row.numpy

    def general_in_place(a: Any, b: Any) -> Any:
        if type(b) is list or type(b) is tuple:
            b = of_sequence(b)
        if a._known is None and update_masked((plain, in_place), a, b):
            return a
        if (held := a._held) is not None and held.host is not None and _lets_copy_go(held, b):
            return in_place(a, b)
        view = a._view
        kind = type(b)
        if view is None and kind is types.ndarray and _update_whole(operation, a, b):
            return a
        if view is None and (kind in _NUMBERS or (kind is int and -_PLAIN_INT <= b <= _PLAIN_INT)):
            value = _with_number(operation, a, b, 1)
            if value is not None and value[0].layout is a._known:  # else there may be a cast, or one that is refused
                store(a, value)
                return a
        if (
            view is not None
            and (a._held or a._storage).host is None
            and (type(view) is not tuple or view[1])  # `is_writeable`, spelled out
        ):
            if type(b) in OWN_NUMBERS:
                b = met_number(a, b)
            if straight.update(operation, a, b):
                return a
        if (
            (a._held or a._storage).host is None
            and (type(b) is types.ndarray or type(type(b)) is types.scalar_type)
            and (type(view) is not tuple or view[1])
            and current() is quiet.state
        ):
            if view is not None and mirrored.update(operation, a, b):
                return a
            # On the device: one dictionary hit says what `apply_into` has found out before.
            u, v = (a._held or a._storage).value, (b._held or b._storage).value  # `expression`, spelled out
            if u is None or u[0].layout is not a._known:
                u = expression(a)
                v = (b._held or b._storage).value
            if v is None or v[0].layout is not b._known:
                try:
                    v = expression(b)
                except Unsupported:  # of a dtype that stays on the host
                    return types.fall_back(ufunc, (a, b), {"out": a}, name=operation.name)
            layout = a._known or a._layout
            if u[2] & v[2] and v[0].nodes and a._view is not None and not u[0].nodes:
                # What reads elements that are written is computed before, so that the result goes straight there.
                buffer = getattr(u[1][0], "buffer", None)
                if not (buffer is None or writing.is_direct(v[0].structure, v[0].leaves, v[1], buffer, layout)):
                    held = b._held or b._storage
                    schedule.materialise(held)
                    computed = held.value
                    is_whole = computed is not None and computed[0].layout is b._known
                    v = computed if is_whole else expression(b)
            if not u[2] & v[2] or (len(u[1]) == 1 and u[1][0] not in v[1]):
                target = made = v[0].layout
                if a._view is None:
                    target = layout
                elif made._dense is not made or made.shape != layout.shape or made.dtype is not layout.dtype:
                    target = layout.dense
                key = (u[0], v[0], None, target)
                record = records.get(key) or renew(operation, records, key, (u[0], v[0]), None, target)
                if record is not None and record.is_checked and (a._view is None or layout.is_injective):
                    graph = record.graph
                    if graph is not None and graph.layout.nbytes >= balance.limit:
                        store(a, (graph, u[1] + v[1], u[2] | v[2]))
                        return a
                if (record is None or record.flush) and compute_what_is_long(
                    operation, (a, b), (u[0], v[0]), None, target.dtype
                ):
                    return general_in_place(a, b)
        other = operand_in_place(b)
        if other is NotImplemented:
            return declined_in_place(ufunc, a, b)
        try:
            return apply_into(operation, ufunc, ufunc, (a, other), a)
        except Unsupported:
            return types.fall_back(ufunc, (a, other), {"out": a}, name=operation.name)

    texts = texts_of(row)
    make = texts.in_place if takes_constants(row) else texts.of_numbers_in_place
    in_place: Callable[..., Any] = make(on_host, general_in_place, reach_of(row), itemsizes_of(ufunc))
    return in_place
