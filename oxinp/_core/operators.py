"""The operators of arrays, which programs spend their time in.

They spell out the two common cases, both operands whole arrays on the device and both on the host, before they hand
over to `ufunc.apply`, which treats every case. What is spelled out here is what `apply` would do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

import numpy as np

from oxinp._config import config
from oxinp._core import schedule
from oxinp._core.expr import Operation, Unsupported
from oxinp._core.handle import host_layout
from oxinp._core.storage import Storage
from oxinp._core.ufunc import apply, apply_into, operand, types, wrap_host, wrap_pending
from oxinp._core.ufunc_table import UfuncRow

_new = object.__new__
_pending = schedule.PENDING
_max_pending = schedule.MAX_PENDING
_NumpyArray = np.ndarray
_PLAIN_INT = 2**31 - 1  # integers that every integer dtype of the device holds


def operators(operation: Operation, row: UfuncRow) -> tuple[Callable[..., Any], ...]:  # noqa: PLR0915 - calls cost
    """Return the methods of a binary ufunc: ``a + b``, ``b + a`` and ``a += b``."""
    pairs = operation.pairs
    compute = row.python or row.numpy
    ufunc = row.numpy

    def operator(a: Any, b: Any) -> Any:  # noqa: PLR0915
        kind = type(b)
        if kind is types.ndarray:
            left = a._storage
            right = b._storage
            x = left.host
            y = right.host
            if x is None or y is None:
                # At least one is only on the device: if both are whole arrays there, one dictionary hit records it.
                u = left.value
                v = right.value
                if u is not None and v is not None:
                    u_graph, leaves, mask = u
                    v_graph, v_leaves, v_mask = v
                    if u_graph.layout is a._layout and v_graph.layout is b._layout:
                        record = None
                        if not mask & v_mask:
                            record = pairs.get((u_graph, v_graph))
                            leaves += v_leaves
                        elif len(v_leaves) == 1:
                            entry = v_leaves[0]
                            if entry in leaves:
                                record = pairs.get((u_graph, v_graph, leaves.index(entry)))
                        if record is not None:
                            graph = record.graph
                            if graph is not None:
                                # `wrap_pending`, spelled out: a call here is a tenth of the whole.
                                storage = _new(Storage)
                                storage.value = (graph, leaves, mask | v_mask)
                                storage.host = None
                                storage.stale = None
                                _pending.append(ref(storage))
                                if len(_pending) > _max_pending:
                                    schedule.prune()
                                layout = graph.layout
                                array = _new(kind if layout.ndim else types.scalar)
                                array._layout = layout
                                array._storage = storage
                                array._view = None
                                array._cache = None
                                return array
            elif a._view is None and b._view is None:
                record = pairs.get((a._layout.graph, b._layout.graph))
                if record is not None and record.cost < config.offload_threshold:
                    result = compute(x, y)
                    if type(result) is not _NumpyArray:
                        return result
                    layout = record.layout
                    storage = _new(Storage)
                    storage.value = None
                    storage.host = result
                    storage.stale = None
                    array = _new(kind)
                    array._layout = layout if result.strides == layout.strides else host_layout(result)
                    array._storage = storage
                    array._view = None
                    array._cache = None
                    return array
        elif kind is float or (kind is int and -_PLAIN_INT <= b <= _PLAIN_INT):
            storage = a._storage
            value = storage.value
            x = storage.host
            if x is None:
                if value is not None and value[0].layout is a._layout:
                    record = pairs.get((value[0], kind))
                    if record is not None and record.graph is not None:
                        return wrap_pending((record.graph, (*value[1], record.convert[1](b)), value[2]))
            elif a._view is None:
                record = pairs.get((a._layout.graph, kind))
                if record is not None and record.cost < config.offload_threshold:
                    return wrap_host(compute(x, b))
        else:
            b = operand(b)
            if b is NotImplemented:
                return b
        return apply_or_fall_back(a, b)

    def reflected(a: Any, b: Any) -> Any:
        b = operand(b)
        return b if b is NotImplemented else apply_or_fall_back(b, a)

    def apply_or_fall_back(a: Any, b: Any) -> Any:
        try:
            return apply(operation, compute, (a, b))
        except Unsupported:
            return types.fall_back(ufunc, (a, b), {}, name=operation.name)

    def in_place(a: Any, b: Any) -> Any:
        b = operand(b)
        if b is NotImplemented:
            return b
        try:
            return apply_into(operation, ufunc, ufunc, (a, b), a)
        except Unsupported:
            return types.fall_back(ufunc, (a, b), {"out": a}, name=operation.name)

    return operator, reflected, in_place
