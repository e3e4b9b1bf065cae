"""The operators of arrays, which programs spend their time in.

They spell out the two common cases, both operands whole arrays on the device and both on the host, before they hand
over to `ufunc.apply`, which treats every case. What is spelled out here is what `apply` would do.
"""

from __future__ import annotations

import operator as python_operator
from collections.abc import Callable
from math import ceil
from typing import Any
from weakref import ref

import numpy as np

from oxinp._config import config
from oxinp._core.errors.hearing import attributed
from oxinp._core.errors.state import current, quiet
from oxinp._core.lazy import schedule
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.explain import REPORTS
from oxinp._core.lazy.expr import Operation, Unsupported, renew, scalar
from oxinp._core.lazy.handle import Handle, chain, end_writing, expression, host_view
from oxinp._core.lazy.record import (
    apply,
    apply_into,
    declined,
    declined_in_place,
    operand_in_place,
    other_side,
    store,
    types,
    wrap_host,
    wrap_pending,
)
from oxinp._core.memory.storage import SHARED, WRITING, Storage
from oxinp._core.ufunc.table import UfuncRow

_new = object.__new__
_pending = schedule.PENDING
_NumpyArray = np.ndarray
_WEAK = {kind: scalar(kind) for kind in (int, float)}
_PLAIN_INT = 2**31 - 1  # integers that most integer dtypes hold


def _bound(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> int:
    """Return a number of bytes that no operand and no result of a numeric loop exceeds; below 0 if there is none."""
    try:
        size = x.size if x.shape == y.shape else np.broadcast(x, y).size
    except ValueError:  # which NumPy raises itself, unless something else is wrong as well
        return -1
    return max(size, x.size, y.size) * max(8, x.itemsize, y.itemsize)


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


def _unary(operation: Operation, row: UfuncRow) -> Callable[..., Any]:
    pairs = operation.pairs
    compute = row.on_host
    ufunc = row.numpy
    reach = ceil(row.weight * 16)  # an int, which Python compares with the threshold twice as fast

    def operator(a: Any) -> Any:
        storage = a._storage
        x = storage.host
        if x is None:
            value = storage.value
            if value is not None and current() is quiet.state:
                if value[0].layout is not a._known:
                    value = chain(a)
                graph = value[0]
                record = pairs.get((graph,)) or renew(operation, pairs, (graph,), (graph,))
                if record is not None and record.graph is not None and record.graph.layout.nbytes >= balance.limit:
                    return wrap_pending((record.graph, value[1], value[2]))
        elif not REPORTS:
            x = a._seen if a._host is x else host_view(a)
            if x.size * reach < config.offload_threshold:
                return wrap_host(compute(x))
        try:
            return apply(operation, compute, (a,))
        except Unsupported:
            return types.fall_back(ufunc, (a,), {}, name=operation.name)

    return operator


def _binary(  # noqa: PLR0915 - calls cost
    operation: Operation, row: UfuncRow, python: Callable[..., Any] | None
) -> tuple[Callable[..., Any], ...]:
    pairs = operation.pairs
    records = operation.records
    compute = row.on_host
    ufunc = row.numpy
    # Of two arrays NumPy's operators are its ufuncs, which are found faster, but these.
    of_two = compute if row.python in _SPECIAL else row._replace(python=None).on_host
    reach = ceil(row.weight * 16)  # at most what an element costs: none has more bytes; an int is compared faster

    def operator(a: Any, b: Any) -> Any:  # noqa: PLR0915
        kind = type(b)
        if kind is types.ndarray:
            left = a._storage
            right = b._storage
            x = left.host
            y = right.host
            if x is None or y is None:
                # At least one is only on the device: if both are valid there, one dictionary hit records it.
                u = left.value
                v = right.value
                if u is not None and v is not None and current() is quiet.state:
                    if u[0].layout is not a._known:
                        u = chain(a)
                        v = right.value or v  # which that may have computed
                    if v[0].layout is not b._known:
                        v = chain(b)
                    u_graph, leaves, mask = u
                    v_graph, v_leaves, v_mask = v
                    key: Any = (u_graph, v_graph)
                    if mask & v_mask:
                        for entry in v_leaves:
                            if entry in leaves:
                                key = (u_graph, v_graph, leaves.index(entry)) if len(v_leaves) == 1 else None
                                break
                        else:
                            leaves += v_leaves
                    else:
                        leaves += v_leaves
                    mask |= v_mask
                    record = None if mask & SHARED else pairs.get(key)  # what others may change is read at once
                    if record is None and key is not None and not mask & SHARED:
                        place = key[2] if len(key) > 2 else None
                        record = renew(operation, pairs, key, (u_graph, v_graph), place)
                    if record is not None:
                        graph = record.graph
                        if graph is not None and graph.layout.nbytes >= balance.limit:
                            # `wrap_pending`, spelled out: a call here is a tenth of the whole.
                            storage = Storage()
                            storage.value = (graph, leaves, mask)
                            storage.host = None
                            storage.stale = None
                            _pending.append(ref(storage))
                            if len(_pending) > schedule.room:
                                schedule.make_room(storage, 2)
                            layout = graph.layout
                            array = _new(kind if layout.ndim else types.scalars[layout.dtype.type])
                            array._known = layout
                            array._storage = storage
                            array._view = None
                            array._host = array._seen = None
                            return array
            elif not REPORTS:
                # Both on the host, and too small for any result of theirs to belong on the device.
                x = a._seen if a._host is x else host_view(a)
                y = b._seen if b._host is y else host_view(b)
                count = x.size * y.size
                limit = config.offload_threshold
                if 0 < count * reach < limit or _bound(x, y) * row.weight < limit:
                    result = of_two(x, y)
                    if type(result) is not _NumpyArray:
                        return result
                    # `wrap_host`, spelled out.
                    storage = Storage()
                    storage.value = None
                    storage.host = result
                    storage.stale = None
                    array = _new(kind)
                    array._storage = storage
                    array._view = None
                    array._known = None
                    array._host = array._seen = result
                    return array
        elif kind is float or (kind is int and -_PLAIN_INT <= b <= _PLAIN_INT):
            storage = a._storage
            value = storage.value
            x = storage.host
            if x is None:
                if value is not None and current() is quiet.state:
                    if value[0].layout is not a._known:
                        value = chain(a)
                    graph = value[0]
                    record = pairs.get((graph, kind))
                    if record is None:
                        record = renew(operation, pairs, (graph, kind), (graph, _WEAK[kind]))
                    if record is not None and record.graph is not None and record.graph.layout.nbytes >= balance.limit:
                        try:
                            converted = record.convert[1](b)
                        except OverflowError:  # NumPy's, or none where any integer is taken: `apply` knows
                            return apply_or_fall_back(a, b)
                        return wrap_pending((record.graph, (*value[1], converted), value[2]))
            elif not REPORTS:
                x = a._seen if a._host is x else host_view(a)
                if x.size * reach < config.offload_threshold:
                    return wrap_host(compute(x, b))
        else:
            other = other_side(b)
            if other is NotImplemented:
                return declined(ufunc, python, a, b)
            b = other
        return apply_or_fall_back(a, b)

    def reflected(a: Any, b: Any) -> Any:
        kind = type(b)
        if kind is float or (kind is int and -_PLAIN_INT <= b <= _PLAIN_INT):
            storage = a._storage
            value = storage.value
            x = storage.host
            if x is None:
                if value is not None and current() is quiet.state:
                    if value[0].layout is not a._known:
                        value = chain(a)
                    graph = value[0]
                    record = pairs.get((kind, graph))
                    if record is None:
                        record = renew(operation, pairs, (kind, graph), (_WEAK[kind], graph))
                    if record is not None and record.graph is not None and record.graph.layout.nbytes >= balance.limit:
                        try:
                            converted = record.convert[0](b)
                        except OverflowError:  # see `operator`
                            return apply_or_fall_back(b, a)
                        return wrap_pending((record.graph, (converted, *value[1]), value[2]))
            elif not REPORTS:
                x = a._seen if a._host is x else host_view(a)
                if x.size * reach < config.offload_threshold:
                    return wrap_host(compute(b, x))
        other = other_side(b)
        return declined(ufunc, python, b, a) if other is NotImplemented else apply_or_fall_back(other, a)

    def apply_or_fall_back(a: Any, b: Any) -> Any:
        try:
            try:
                return apply(operation, compute, (a, b))
            except Unsupported:
                return types.fall_back(ufunc, (a, b), {}, name=operation.name)
        except TypeError:
            if row.python not in _EQUALITY:
                raise
        # NumPy says that numbers and texts differ, or raises; that takes dtypes and shapes, and no elements.
        return wrap_host(row.python(*[_stand_in(x) if isinstance(x, Handle) else x for x in (a, b)]))

    # The in-place operator that Python has, or the ufunc, which takes where to write to.
    in_place_on_host = getattr(python_operator, row.operators[2].strip("_"), None) if row.operators else None
    if in_place_on_host is None:
        return operator, reflected
    if row.may_warn:
        in_place_on_host = attributed(in_place_on_host, 2)

    def in_place(a: Any, b: Any) -> Any:
        storage = a._storage
        x = storage.host
        if x is not None and not REPORTS and (a._view is None or a._view[1]):
            kind = type(b)
            if kind is types.ndarray:
                y = b._storage.host
                if y is not None:
                    y = b._seen if b._host is y else host_view(b)
            else:
                y = b if kind is float or kind is int else None
            host = x
            x = a._seen if a._host is host else host_view(a)
            if (
                y is not None
                and x.size * reach < config.offload_threshold
                and storage.host is host
                and storage.stale is None
                and storage.value is None
            ):
                storage.stale = WRITING  # no other thread has run since the last three conditions
                try:
                    in_place_on_host(x, y)
                finally:
                    if storage.stale is WRITING:  # `end_writing`, spelled out
                        storage.stale = None
                    else:
                        end_writing(storage)
                return a
        elif x is None and type(b) is types.ndarray and (a._view is None or a._view[1]) and current() is quiet.state:
            # On the device: one dictionary hit says what `apply_into` has found out before.
            u = expression(a)
            try:
                v = expression(b)
            except Unsupported:  # of a dtype that stays on the host
                return types.fall_back(ufunc, (a, b), {"out": a}, name=operation.name)
            layout = a._layout
            if u[2] & v[2] and v[0].nodes and a._view is not None and not u[0].nodes:
                # What reads elements that are written is computed before, so that the result goes straight there.
                buffer = getattr(u[1][0], "buffer", None)
                if not (buffer is None or schedule.is_direct(v[0], v[1], buffer, layout)):
                    schedule.materialise(b._storage)
                    v = expression(b)
            if not u[2] & v[2] or (len(u[1]) == 1 and u[1][0] not in v[1]):
                target = layout if a._view is None else layout.dense
                key = (u[0], v[0], None, target)
                record = records.get(key) or renew(operation, records, key, (u[0], v[0]), None, target)
                if record is not None and record.is_checked and (a._view is None or layout.is_injective):
                    graph = record.graph
                    if graph is not None and graph.layout.nbytes >= balance.limit:
                        store(a, (graph, u[1] + v[1], u[2] | v[2]))
                        return a
        other = operand_in_place(b)
        if other is NotImplemented:
            return declined_in_place(ufunc, a, b)
        try:
            return apply_into(operation, ufunc, ufunc, (a, other), a)
        except Unsupported:
            return types.fall_back(ufunc, (a, other), {"out": a}, name=operation.name)

    return operator, reflected, in_place
