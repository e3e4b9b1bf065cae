"""Reads and writes by an index that have been asked for before, of arrays in the same layouts.

What an index selects, and which operation reads or writes it, follows from layouts alone where the index is on the
device and the operands are in memory. Then the operation is asked for at once. Of layouts their forms
count, so that the columns of a matrix are as one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from oxinp._config import config
from oxinp._core.lazy import reports, schedule, writing
from oxinp._core.lazy.building import attempt
from oxinp._core.lazy.calls import Pending
from oxinp._core.lazy.expr import new_table, remember
from oxinp._core.lazy.handle import Handle, expression
from oxinp._core.lazy.op import BoundOp
from oxinp._core.lazy.placement import device
from oxinp._core.lazy.results import types, wrap_result
from oxinp._core.manipulation.copy import astype
from oxinp._core.memory.storage import Value, is_pinned
from oxinp._core.ops import recurring
from oxinp._runtime.memory import Buffer

_ASKED = new_table()
"""By what is asked for and the layouts' forms: the operation bound to them, and what makes an index's exception."""

_Error = Callable[[int], Exception]


def read(what: Hashable, array: Handle, index: Handle) -> Any:
    """Return the elements of an array by an index, as it was done before; None where it was not.

    Parameters
    ----------
    what : hashable
        Along which axis, and how.
    array, index : Handle
    """
    layout, own = array._known or array._layout, index._known or index._layout
    found = _ASKED.get((what, layout._form or layout.form, own._form or own.form))
    if found is None or (index._held or index._storage).host is not None:
        return None
    bound, error = found
    value = attempt(_read, bound, array, index, reports.claim(error))
    if value is None:
        return None
    result = wrap_result(value, as_array=True)
    if config.synchronous:
        reports.settle(result)
    return result


def _read(bound: BoundOp, array: Handle, index: Handle, claim: int) -> Value | None:
    leaves, mask = _leaves(bound, array, index)
    if leaves is None:
        return None
    return schedule.defer(bound, (*leaves, claim), mask, depth=5)[0]


def _leaves(bound: BoundOp, first: Handle, second: Handle) -> tuple[tuple[Any, ...] | None, int]:
    """Return what the first two operands of an operation are read from, and the mask; None if they lie otherwise."""
    wanted, other_wanted = bound.graphs[:2]
    held: Any = first._held and first._held.value
    if held is None or held[0] is not wanted or first._known is not wanted.layout:  # else it is all of an array
        held = expression(first)
        if held[0].nodes:
            held = schedule.materialise(first._held or first._storage)
    other: Any = second._held and second._held.value
    if other is None or other[0] is not other_wanted or second._known is not other_wanted.layout:
        other = expression(second)
        if other[0].nodes:
            other = schedule.materialise(second._held or second._storage)
    if held[0] is not wanted or other[0] is not other_wanted:
        return None, 0
    return (*held[1], *other[1]), held[2] | other[2]


def keep_read(what: Hashable, array: Handle, index: Handle, error: _Error | None, result: Handle) -> None:
    """Have `read` do again what a result has been asked for by, if a kernel says which index is out of bounds."""
    held = result._held
    entry = None if held is None or held.value is None else held.value[1][0]
    call = entry.call if type(entry) is Pending else None
    if call is not None and error is not None:
        _keep((what, array._layout.form, index._layout.form), call.bound, error)


def write(what: Hashable, array: Handle, index: Handle, value: Any, *, casts: bool = False) -> bool:
    """Write values to the elements of an array by an index, as it was done before; tell whether it was.

    Parameters
    ----------
    what : hashable
        How.
    array, index : Handle
    value : object
    casts : bool
        A value of another dtype is cast, as assignments do.
    """
    if type(value) is not types.ndarray:
        return False
    layout, seen = array._known or array._layout, index._known or index._layout
    given = value._known or (value._seen if value._held is None else value._layout)  # either has a dtype and a shape
    dtype, shape = given.dtype, given.shape
    is_cast = casts and dtype is not layout.dtype
    wanted: Any
    if is_cast:
        wanted = _cast(dtype, shape, layout.dtype)
    else:
        given = value._known or value._layout
        wanted = given._form or given.form
    found = _ASKED.get((what, layout._form or layout.form, seen._form or seen.form, wanted))
    if found is None:
        return False
    bound, error = found
    own, used = array._held or array._storage, index._held or index._storage
    if used.host is not None or used is own:
        return False
    known = recurring.find(value, dtype, shape, layout.dtype if is_cast else dtype)
    if known is not None:
        value = known
    elif is_cast:
        value = astype(value, layout.dtype, copy_wanted=False)
    if value._held is own:
        return False
    if not attempt(_write, bound, array, index, value, reports.claim(error)):
        return False
    if config.synchronous:
        device().synchronize()
    return True


def _write(bound: BoundOp, array: Handle, index: Handle, value: Handle, claim: int) -> bool:
    storage = array._held or array._storage
    held: Any = storage.value
    if held is None or (storage.stale is not None and is_pinned(storage)):
        return False
    if type(held[1][0]) is not Buffer or held[0].nodes:  # `materialise`, spelled out
        held = schedule.materialise(storage)
    leaves, _ = _leaves(bound, index, value)
    if leaves is None or held is None:
        return False
    layout = array._known or array._layout
    writing.write_by(storage, layout, bound, (*leaves, claim), depth=6)
    del held  # which kept the storage where it is, whatever the operands took to compute
    return True


def keep_write(
    what: Hashable,
    array: Handle,
    index: Handle,
    value: Any,
    error: _Error | None,
    bound: BoundOp,
    *,
    casts: bool = False,
) -> None:
    """Have `write` do again what an operation has done."""
    if type(value) is types.ndarray and error is not None:
        layout, given = array._layout, value._layout
        is_cast = casts and given.dtype is not layout.dtype
        wanted = _cast(given.dtype, given.shape, layout.dtype) if is_cast else given.form
        _keep((what, layout.form, index._layout.form, wanted), bound, error)


def _cast(given: np.dtype[Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, ...] | None:
    """Return what a cast to a dtype is found by: the shape, for it will lie without gaps; None where NumPy warns."""
    return None if given.kind == "c" != dtype.kind else shape


def _keep(key: tuple[Any, ...], bound: BoundOp, error: _Error) -> None:
    if None not in key and not any(graph.nodes for graph in bound.graphs):
        remember(_ASKED, key, (bound, error))


__all__ = ["keep_read", "keep_write", "read", "write"]
