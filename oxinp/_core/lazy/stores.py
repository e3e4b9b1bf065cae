"""Storing values into arrays: a new value for a whole array, a write for a part of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

import numpy as np

from oxinp._core.lazy import placement, schedule, writing
from oxinp._core.lazy.building import Missing, attempt, claim, spells_attempt
from oxinp._core.lazy.calls import Pending
from oxinp._core.lazy.expr import Operation, Unsupported
from oxinp._core.lazy.handle import (
    Handle,
    begin_writing,
    compute_into,
    device_value,
    end_writing,
    host_view,
    is_writeable,
)
from oxinp._core.lazy.record import COPY, cost_of, express, is_hosted, settled
from oxinp._core.lazy.results import wrap_result
from oxinp._core.memory.broadcast import broadcast_shapes
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.storage import SIDES, Storage, Value, drop_pin, is_pinned
from oxinp._runtime import here
from oxinp._runtime.backend import FIRST_LOCK


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
    view = out._view
    if type(view) is tuple:
        check_writeable(out)
    layout = out._known or out._layout
    if layout.dtype.kind in "SUT":
        raise Unsupported("strings, whose loop NumPy finds by `out`")
    check_cast(ufunc, operands, out)
    if (view is not None and _stays_on_host(operands, out)) or (
        is_hosted((out, *operands))
        and placement.is_recorded_on_host(_cost_into(operation, operands, out), operation.weight)
    ):
        views = [host_view(x) if isinstance(x, Handle) else x for x in operands]
        compute_into(compute, views, {}, (out,))
        return out
    store(out, express(operation, operands, layout if view is None else target_of(out), is_checked=True))
    return settled(out)


def _stays_on_host(operands: tuple[Any, ...], out: Any) -> bool:
    """Whether a small part of an array that keeps its mirror is computed from what is there, or soon fetched.

    On the device that would take as much, and what is outdated there of the array would be uploaded first.
    """
    if not placement.keeps_mirror(out._storage, out._layout.nbytes):
        return False
    if out._storage.value is not None:
        return False
    return all(placement.is_near(x._storage) for x in operands if isinstance(x, Handle))


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


@spells_attempt
def store(out: Any, value: Value, source: Storage | None = None, depth: int = 4) -> None:
    """Give the elements of `out` an expression's values: a new value for a whole array, a write for a part of one.

    Parameters
    ----------
    out, value
    source, depth
        As for `writing.write`.
    """
    # Under the lock nobody computes or reads the old value meanwhile.
    is_stored, computed = False, None
    if not here.are_several and schedule.room >= 0:
        try:
            with FIRST_LOCK:  # `attempt`, spelled out where nobody counts frames
                computed = _store(out, value, source, depth)
                is_stored = True
        except Missing:
            pass
    if not is_stored:
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
        placement.note_written(storage)
        return _computed(out, value)
    if out._view is None:
        if storage.value is None or here.are_several:
            if not _is_replaced(storage, value):  # it has been pinned since
                return _computed(out, value)
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
    if source is not None and (now := source.value) is not None and now[0].nodes and now is not value:
        source = None  # it reads by now what has been computed, as others may
    if layout.size:
        writing.write(storage, layout, value, source, depth)
    return None


def _is_replaced(storage: Storage, value: Value) -> bool:
    """Give a storage that may be on the host only a new value; False, and nothing is done, where it is pinned."""
    with SIDES:
        if here.are_several:
            claim(storage)
        drop_pin(storage)
        if storage.stale is not None and storage.stale.is_pin:  # see `SIDES`: nothing is called from here on
            return False
        storage.value = value
        storage.host = None
        storage.stale = None
    return True


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
    graph, leaves, _ = value
    if graph.nodes or graph.is_scalar or not graph.layout.is_contiguous:
        graph, entry = schedule.evaluate(value)
    else:  # it is what lies there, or what a call that waits computes
        (entry,) = leaves
    layout, ptr = graph.layout, entry.ptr
    computed = np.empty(layout.nbytes, np.uint8)
    placement.device_of(entry).download(computed, ptr)
    return np.ndarray(layout.shape, layout.dtype, computed, 0, layout.strides)


def check_writeable(out: Any) -> None:
    if not is_writeable(out):
        msg = "output array is read-only"
        raise ValueError(msg)


def is_host_only(out: Any) -> bool:
    """Whether an array may be written to, and no device side or pin of its storage has to know."""
    storage = out._storage
    return storage.host is not None and storage.value is None and storage.stale is None and is_writeable(out)


def check_cast(ufunc: np.ufunc, operands: tuple[Any, ...], out: Any) -> None:
    """Let NumPy itself raise for dtypes that do not go together, on arrays without elements to compute."""
    kinds = [(x._known or x._layout).dtype if isinstance(x, Handle) else type(x) for x in operands]
    key = ufunc, (out._known or out._layout).dtype, *kinds
    if key in _CASTS_KNOWN:
        return
    stand_ins = [np.empty((0,), x._layout.dtype) if isinstance(x, Handle) else x for x in operands]
    ufunc(*stand_ins, out=np.empty((0,), out._layout.dtype))
    if int not in key:  # whether an integer fits depends on its value
        _CASTS_KNOWN.add(key)


_CASTS_KNOWN: set[Any] = set()
