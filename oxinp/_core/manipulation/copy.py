"""Copies, casts and assignment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oxinp._config import config
from oxinp._core.errors.frames import call_as_user
from oxinp._core.errors.hearing import call_numerical, check_cast, put
from oxinp._core.errors.state import current, quiet
from oxinp._core.host.fallback import call
from oxinp._core.lazy import explain, placement, straight
from oxinp._core.lazy.array_protocol import numpys
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.calls import is_waiting
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import Handle, begin_writing, chain, end_writing, expression, fetch, host_view
from oxinp._core.lazy.record import COPY, express, is_hosted, settled
from oxinp._core.lazy.results import is_device_scalar, types, wrap_host, wrap_pending
from oxinp._core.lazy.stores import store, target_of
from oxinp._core.lazy.views import moved, view, view_at
from oxinp._core.memory.broadcast import broadcasts_to
from oxinp._core.memory.dtypes import CARRIERS, DEVICE_TYPES, FLOAT64, is_dtype_class
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.storage import Value

_MOST = 1 << 48  # bytes that a copy may have, as far as addresses go


def copy(array: Handle, order: Any = "C") -> Any:
    """Return a copy; on the device it is made when first read or when the original is about to change."""
    host = (array._held or array._storage).host
    if host is not None:
        seen = array._seen if array._host is host else host_view(array)
        if seen.nbytes < config.offload_threshold or placement.is_host(seen.nbytes):
            return wrap_host(seen.copy(order))
    elif balance.limit and is_hosted((array,)) and placement.is_host(array._layout.nbytes):
        return wrap_host(host_view(array).copy(order))
    layout = array._known or array._layout
    if layout.nbytes > _MOST:
        np.empty(layout.shape, layout.dtype)  # NumPy's own error
    if (type(order) is not str or order != "C") and (axes := axes_of(layout, order)) is not None:
        return permuted(array, axes, copy)
    if layout.dtype not in DEVICE_TYPES and (carried := _carried(array)) is not array:
        return own(view_at(copy(carried), Layout.of(layout.dtype, layout.shape)))
    target = Layout.of(layout.dtype, layout.shape)
    value = _recorded_again(array, target) if host is None else None
    if value is None:
        try:
            value = express(COPY, (array,), target)
        except Unsupported:
            return wrap_host(host_view(array).copy(order))
    return wrap_pending(value) if layout.ndim else wrap_pending(value, as_array=True)


def _recorded_again(array: Handle, target: Layout) -> Value | None:
    """Return what `express` does of a copy of an array on the device that has been recorded before; else None."""
    if (array._held or array._storage).value is None or current() is not quiet.state:
        return None
    graph, leaves, mask = chain(array)
    record = COPY.records.get((graph, None, target)) if mask else None
    return None if record is None or record.graph is None or record.scalars else (record.graph, leaves, mask)


def _carried(array: Handle) -> Handle:
    """Return a view of elements of a dtype without kernels as one with, by which they are moved, bit for bit."""
    layout = array._layout
    if layout.dtype in DEVICE_TYPES or layout.dtype.hasobject or (array._held or array._storage).host is not None:
        return array
    carrier = CARRIERS.get(layout.dtype.itemsize)
    if carrier is None:
        return array
    carried: Handle = view_at(array, Layout.at(carrier, layout.shape, layout.strides, layout.offset))
    return carried


def readable(operands: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return operands with copies of those that kernels cannot read where they are, None without such.

    These are fields of records, whose memory stays on the host, and elements that are not at multiples of their size.
    """
    copied = [isinstance(x, Handle) and _is_unreadable(x) for x in operands]
    if True not in copied:
        return None
    return tuple(
        [wrap_host(host_view(x).copy("K")) if is_copied else x for x, is_copied in zip(operands, copied, strict=True)]
    )


def _is_unreadable(array: Handle) -> bool:
    layout = array._layout
    if layout.dtype not in DEVICE_TYPES:
        return False
    storage = array._storage
    host = storage.host
    return not layout.is_aligned or (host is not None and storage.value is None and host.dtype not in DEVICE_TYPES)


def order_of(order: Any, default: str) -> str:
    """Return an order as one of the letters C, F, A and K: NumPy takes small ones and bytes, too, and None as default.

    Raises
    ------
    TypeError, ValueError
        It is none.
    """
    if order is None:
        return default
    if type(order) is str and order in ("C", "F", "A", "K"):
        return order
    np.empty(0).copy(order)  # NumPy's own error
    letter: str = (order.decode() if isinstance(order, bytes) else order).upper()
    return letter


def axes_of(layout: Layout, order: Any) -> tuple[int, ...] | None:
    """Return the axes from the slowest to the fastest that `order` asks for; None for C order."""
    order = order_of(order, "C")
    if order == "C" or (order != "F" and layout.is_contiguous):
        return None
    axes = tuple(range(layout.ndim))
    if order == "F" or layout.is_fortran:
        found = axes[::-1]
    elif order == "K":
        found = tuple(sorted(axes, key=lambda axis: -abs(layout.strides[axis])))
    else:
        return None
    return None if found == axes else found


def permuted(array: Handle, axes: tuple[int, ...], make: Callable[[Handle], Any]) -> Any:
    """Make an array in C order of one with its axes permuted, and permute them back."""
    back = tuple(sorted(range(len(axes)), key=axes.__getitem__))
    return own(moved(make(moved(array, np.transpose, axes)), np.transpose, back))


def asnumpy(a: Any) -> np.ndarray[Any, Any]:
    """Return the elements of an array as a NumPy array of their own; arrays on the device stay there.

    `numpy.asarray` of an array of ours is its memory, which therefore stays on the host as long as the result is held.

    Parameters
    ----------
    a : array_like
        Ours, a scalar of ours, or anything that `numpy.asarray` takes.

    Returns
    -------
    numpy.ndarray
        Of the same shape and dtype, in the same order of axes; a NumPy array is returned as it is, else no memory is
        shared with `a`.

    Examples
    --------
    >>> import oxinp as np
    >>> np.asnumpy(np.arange(3))
    array([0, 1, 2])
    """
    if not isinstance(a, Handle):
        return np.asarray(a)
    axes = axes_of(a._layout, "K")
    return fetch(a) if axes is None else fetch(moved(a, np.transpose, axes)).transpose(np.argsort(axes))


def own(made: Handle) -> Any:
    """Return a view of a new array, of which nobody else has a handle, as that array."""
    made._view = (None, True)
    return made


def astype(array: Handle, dtype: Any, order: Any = "K", casting: Any = "unsafe", *, copy_wanted: bool = True) -> Any:
    """Return `array` cast to `dtype`, with NumPy's values.

    Raises
    ------
    TypeError
        `casting` does not allow it.
    """
    if casting == "same_value" or (type(dtype) is not np.dtype and is_dtype_class(dtype)):
        # Depends on the elements: whether the cast is allowed, or how long the strings are.
        options = {"order": order, "casting": casting, "copy": copy_wanted}
        return call(np.ndarray.astype, (array, dtype), options, name="ndarray.astype")
    target = np.dtype(dtype)
    host = array._host if array._held is None else array._held.host
    if host is not None:
        seen = array._seen if array._host is host else host_view(array)
        is_copied = copy_wanted or seen.dtype != target
        if is_copied and max(seen.nbytes, seen.size * target.itemsize) < config.offload_threshold:
            return wrap_host(_on_host(np.ndarray.astype, seen.dtype, target, seen, target, order, casting))
    layout, storage = array._known or array._layout, array._held or array._storage
    source = layout.dtype
    if casting != "unsafe":
        np.empty(0, source).astype(target, casting=casting)  # raises what NumPy raises
    order = order_of(order, "K")
    if source == target and not copy_wanted and has_order(layout, order):
        return array
    if placement.may_be_host(storage) and placement.is_host(max(layout.nbytes, layout.size * target.itemsize)):
        return wrap_host(_on_host(np.ndarray.astype, source, target, host_view(array), target, order))
    axes = None if order != "F" and layout.is_contiguous else axes_of(layout, order)
    if axes is not None:
        return permuted(array, axes, lambda turned: astype(turned, target, "C"))
    if source.kind == "c":
        warn_of_lost_parts(source, target)
    try:
        return settled(wrap_pending(express(COPY, (array,), Layout.of(target, layout.shape)), as_array=True))
    except Unsupported:
        return call(np.ndarray.astype, (array, target), {"order": order}, name="ndarray.astype")


def has_order(layout: Layout, order: str) -> bool:
    """Whether an array's elements lie in an order already."""
    return (order != "C" or layout.is_contiguous) and (order != "F" or layout.is_fortran)


def _on_host(function: Callable[..., Any], source: Any, target: np.dtype[Any], *args: Any) -> Any:
    """Let NumPy cast; only where it may warn of what elements become, that takes longer for the user's line."""
    if source is target or source.kind not in "fc" or target.kind == "O":
        return function(*args)
    return (call_numerical if source.kind == "f" else call_as_user)(function, args, {})


def warn_of_lost_parts(source: np.dtype[Any], target: np.dtype[Any]) -> None:
    """Let NumPy warn where a cast drops imaginary parts."""
    if source.kind == "c" and target.kind not in "cb":
        call_as_user(np.empty(0, source).astype, (target,), {})


def assign(target: Handle, value: Any) -> None:
    """Write `value` into the elements of `target`, cast to its dtype.

    Raises
    ------
    ValueError
        The value cannot be broadcast to the target's shape.
    """
    layout = target._layout
    if isinstance(value, Handle):
        if value._storage is target._storage and value._layout is layout:
            return  # what an in-place operator on a view leaves behind: v = x[1:]; v += 1; x[1:] = v
        if is_device_scalar(value) and (
            (value._held or value._storage).host is not None or _may_not_fit(value, layout)
        ):
            value = fetch(value)[()]
    elif not isinstance(value, np.generic | bool | int | float) or isinstance(value, np.character):
        given = value
        try:
            value = from_elsewhere(given, layout.dtype)
            # Of arrays leading dimensions of one element are dropped, sequences must not be so deep.
            is_refused = isinstance(given, list | tuple) and value.ndim > layout.ndim
        except (ValueError, TypeError, OverflowError):  # NumPy writes what comes before what it refuses
            is_refused = True
        if is_refused:
            call(np.ndarray.__setitem__, (target, ..., given), {}, name="ndarray.__setitem__", mutates=(0,))
            return
    is_number = type(value) is float or type(value) is int or type(value) is layout.dtype.type
    if is_number and target._view is not None and (target._held or target._storage).host is None:
        value = single(value, layout.dtype)
        if straight.fill(target, layout, value):
            return
    if is_hosted((target, value)) and placement.is_host(layout.nbytes):
        seen = host_view(value) if isinstance(value, Handle) else value
        if not isinstance(value, Handle) or value._layout.shape != layout.shape:
            check_assignment(layout, seen)
        if explain.REPORTS:
            explain.note("host", "assignment", placement.why_host(layout.nbytes))
        held = begin_writing(target)
        try:
            if isinstance(seen, np.ndarray):
                _on_host(np.ndarray.__setitem__, seen.dtype, layout.dtype, held, ..., seen)
            else:
                put(held, ..., seen)
        finally:
            end_writing(target._storage)
        return
    try:
        _assign_on_device(target, value)
    except Unsupported:
        call(np.ndarray.__setitem__, (target, ..., value), {}, name="ndarray.__setitem__", mutates=(0,))


def from_elsewhere(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return what is no number and no array of ours as an array of ours or, of one element, cast to `dtype`."""
    # A sequence's numbers are converted one by one, and refused where they do not fit; an array is cast.
    is_sequence = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    given = numpys(value, dtype if dtype.kind in "OSUV" or is_sequence else None)
    if given.ndim or dtype.hasobject:
        return types.from_host(given)
    return single(value, dtype)


_MAX_EXACT = 2**53  # of integers that float64 holds


def single(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return one element, cast as an assignment casts it."""
    kind = type(value)
    if kind is dtype.type:
        return value
    if dtype is FLOAT64 and (kind is float or (kind is int and -_MAX_EXACT <= value <= _MAX_EXACT)):
        return np.float64(value)
    element = np.empty((), dtype)
    put(element, ..., value)
    return element[()]


def _assign_on_device(target: Handle, value: Any) -> None:
    layout = target._layout
    wanted = target_of(target)
    source = None
    if isinstance(value, Handle):
        seen = value._known or value._layout
        if seen.shape == layout.shape and seen.dtype is layout.dtype in DEVICE_TYPES and target._view is not None:
            held = expression(value)  # the most common: nothing is cast, nor broadcast
            store(target, held, value._storage if is_waiting(held) else None)
            return
        warn_of_lost_parts(seen.dtype, layout.dtype)
        given = value._layout.shape
        value = drop_leading_ones(value, layout.ndim)
        if layout.dtype == value._layout.dtype and not _has_gaps(layout.dtype):
            target, value = _carried(target), _carried(value)
            layout, wanted = target._layout, target_of(target)
        if value._layout.shape == layout.shape and value._layout.dtype == layout.dtype and target._view is not None:
            held = expression(value)
            source = value._storage if is_waiting(held) else None
            store(target, held, source)
            return
        if not broadcasts_to(value._layout.shape, layout.shape):
            _cannot_broadcast(given, layout.shape)
        seen = value._layout
        if seen.ndim and seen.dtype is layout.dtype in DEVICE_TYPES and target._view is not None:  # nothing is cast
            store(target, chain(view_at(value, seen.broadcast(layout.shape))))
            return
    else:
        value = single(value, layout.dtype)
    store(target, express(COPY, (value,), wanted))
    settled(target)


def _has_gaps(dtype: np.dtype[Any]) -> bool:
    """Whether elements have bytes that no field holds: an assignment leaves them as they are."""
    if dtype.names is None or dtype.fields is None:
        return False
    fields = [dtype.fields[name][0] for name in dtype.names]
    return sum(field.itemsize for field in fields) != dtype.itemsize or any(_has_gaps(field.base) for field in fields)


def check_assignment(layout: Any, seen: Any) -> None:
    """Let NumPy raise, before anything is written, what assigning `seen` to such a layout raises."""
    stand_in = np.lib.stride_tricks.as_strided(np.empty(1, layout.dtype), layout.shape, (0,) * layout.ndim)
    if np.ndim(seen):
        np.broadcast_to(stand_in, layout.shape)
        if not broadcasts_to(np.shape(seen)[max(0, np.ndim(seen) - layout.ndim) :], layout.shape):
            _cannot_broadcast(np.shape(seen), layout.shape)
    else:
        check_cast(seen, layout.dtype)


def _may_not_fit(value: Handle, layout: Layout) -> bool:
    """Whether NumPy may refuse a scalar, which depends on its value: one that is not an integer of the dtype."""
    return layout.dtype.kind in "iu" and not np.can_cast(value._layout.dtype, layout.dtype)


def drop_leading_ones(value: Handle, ndim: int) -> Handle:
    """Assignment, unlike arithmetic, lets the value have more dimensions as long as the leading ones have length 1."""
    extra = value._layout.ndim - ndim
    leading: Any = (*(0,) * extra, ...)
    if extra > 0 and all(n == 1 for n in value._layout.shape[:extra]):
        dropped: Handle = view(value, lambda seen: seen[leading])
        return dropped
    return value


def _cannot_broadcast(source: tuple[int, ...], target: tuple[int, ...]) -> None:
    msg = f"could not broadcast input array from shape {source} into shape {target}".replace(", ", ",")
    raise ValueError(msg)
