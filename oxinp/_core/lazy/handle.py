"""Handle: what `ndarray` and `DeviceScalar` have in common, and moving what they hold between the sides.

A handle is a layout and a storage. Its `_view` is None for an array that owns its whole storage and may be written to;
the base for a view that may be written to of an array of ours, whose `_at` is then its key, if it is the part of a
whole array at a key, or `NOWHERE`; else (base, writeable). `base_of` and `is_writeable` tell these apart. Its `_seen`
is the NumPy view of the storage's host side, valid as long as that is `_host`; both are None where nobody has asked for
it. Python objects are never anywhere else: the view of them stays valid, and `_host` is None, so that hot paths find by
one comparison with the storage's host side what has neither moved nor objects. What is made on the host has no layout
and no storage until somebody asks for that, which small programs seldom do: until then `_seen` owns the elements, which
are no Python objects, and nothing but the handle knows of them. Its `_known` may be False, too: nobody has asked for
the layout, but `inlining` has found out that the elements are few; of users' classes no array has that. Hot paths read
the slots `_known` and `_held` instead of the properties.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from oxinp._config import config
from oxinp._core.errors.hearing import call_numerical
from oxinp._core.lazy import explain, schedule, writing
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.building import attempt, claim, claim_device
from oxinp._core.lazy.calls import CALLS
from oxinp._core.lazy.chains import on_device, read
from oxinp._core.lazy.eviction import storages
from oxinp._core.lazy.expr import Unsupported, leaf, reading
from oxinp._core.lazy.fused_views import fused_view
from oxinp._core.lazy.lines import upload_lines
from oxinp._core.lazy.parted import fetch_rest, parted, rejoined
from oxinp._core.lazy.placement import device, device_of, note_uploaded, returned, singles
from oxinp._core.memory.dtypes import DEVICE_TYPES, MULTIPLIED_BITS
from oxinp._core.memory.host_side import host_bytes, host_layout, in_order, seen_at
from oxinp._core.memory.layout import Layout, address_of
from oxinp._core.memory.parts import part_of
from oxinp._core.memory.storage import (
    SHARED,
    SIDES,
    WRITING,
    Leaf,
    Pin,
    Stale,
    Storage,
    Value,
    drop_pin,
    is_pinned,
    is_shared,
    next_mask,
    pinned,
)
from oxinp._runtime import here, hooks, host_blocks, select
from oxinp._runtime.memory import Buffer


class Handle:
    """A layout into a storage."""

    # Not `__getattr__` for a layout that nobody knows yet: classes that have one take three times longer to find any
    # attribute.
    __slots__ = ("__weakref__", "_at", "_held", "_host", "_known", "_seen", "_view")

    _held: Storage | None
    _known: Layout | Literal[False] | None
    _view: Handle | tuple[Any, bool] | None
    _at: Any
    _host: np.ndarray[Any, Any] | None
    _seen: Any  # an array where there is a host

    @property
    def _layout(self) -> Layout:
        """Where the elements lie in the storage."""
        return self._known or found(self)

    @property
    def _storage(self) -> Storage:
        """What owns the elements."""
        return self._held or stored(self)


_new = object.__new__
NOWHERE = object()
"""What views have for a key that are no part of a whole array at one."""


def base_of(handle: Handle) -> Any:
    """Return the array or object whose elements a handle views; None where it owns them."""
    view = handle._view
    return view[0] if type(view) is tuple else view


def is_writeable(handle: Handle) -> bool:
    """Whether an array may be written to."""
    view = handle._view
    return type(view) is not tuple or view[1]


def stored(handle: Handle) -> Storage:
    """Make the storage of what was made on the host."""
    made = Storage()  # `make_storage`, spelled out
    seen = handle._seen
    made.has_objects = seen.dtype.hasobject
    made.value = made.stale = None
    made.host = seen
    if handle._held is None:  # no other thread runs between this and the assignment, since nothing is called
        handle._held = made
        if made.has_objects:
            handle._host = None
    return handle._held


def found(handle: Handle) -> Layout:
    """Find the layout of what was made on the host, or has not been selected yet (see `selections`)."""
    seen = handle._seen
    if seen is None:
        assert handle._held is not None
        value, whole = handle._held.value, handle._held.host
        handle._known = (
            host_layout(whole) if value is None and whole is not None else device_value(handle._held)[0].layout
        )
        return handle._known
    host = handle._host if handle._held is None or not handle._held.has_objects else handle._held.host
    assert host is not None
    base: Any = handle._view
    located = None
    if (
        base is not None
        and type(base) is not tuple
        and handle._at is not NOWHERE
        and base._view is None
        and base._held is handle._held  # else it lies elsewhere by now, see `ndarray._lie_at`
    ):
        # Of a part of a whole array its key says where it is, which takes less than to ask NumPy.
        located = part_of(base._known or found(base), handle._at)
    if located is not None:
        layout = located[0]
    elif seen is host:
        layout = Layout.of(host.dtype, host.shape) if host.flags.c_contiguous else host_layout(host)
    else:
        layout = Layout.at(seen.dtype, seen.shape, seen.strides, address_of(seen) - address_of(host))
    handle._known = layout
    return layout


def device_value(storage: Storage) -> Value:
    """Return the device side of a storage, uploading what is only on the host; of a pinned one it is not kept."""
    value = storage.value
    if value is None:
        value = attempt(upload_first, storage)
    return attempt(_upload, storage) if value is None else value


def _upload(storage: Storage) -> Value:
    """Bring a storage that is only on the host to the device, unless somebody has done so; under its lock."""
    pin = parted(storage)
    if pin is not None:
        if not pin.is_needed():
            return rejoined(storage, pin)
        fetch_rest(storage, pin)
    backend = device()
    with SIDES:
        value = storage.value
        if value is not None:
            return value
        host = storage.host
        assert host is not None
        if host.dtype not in DEVICE_TYPES and host.dtype.name not in MULTIPLIED_BITS:
            raise Unsupported(f"dtype {host.dtype} has no kernels yet")
        drop_pin(storage)
        whole = Stale(None, 0, host.nbytes)
        stale = storage.stale
        if stale is None:  # from here on nobody writes to the host side without noting it; nothing is called between
            stale = storage.stale = whole
        elif stale.is_pin or stale.is_uploading:  # this copy is not kept
            stale = whole
        elif stale.is_outdated() and writing.is_read(stale.buffer):
            # Not to be brought up to date in place. Asked now, not when it became outdated: what was being recorded
            # then is known by the time that its thread has written to what it reads.
            stale = storage.stale = whole
        lines = stale.lines
        low, high = stale.low, stale.high
        stale.low, stale.high, stale.lines, stale.is_uploading = host.nbytes, 0, None, True
    if explain.REPORTS:
        explain.note("copy", f"{host.nbytes} B to the device", "an operand of device work is on the host")
    try:
        if stale.buffer is None:
            stale.buffer = backend.allocate(host.nbytes)
        if high > low:
            device_of(stale.buffer).upload(stale.buffer.ptr + low, host_bytes(host)[low:high])
        moved = max(high - low, 0)
        if lines is not None:
            upload_lines(stale.buffer, host, lines)
            moved += lines[2] * lines[3]
    except BaseException:
        with SIDES:
            stale.cover(low, high)
            if lines is not None:
                stale.cover_lines(lines)
            stale.is_uploading = False
            if stale.buffer is None and storage.stale is stale:
                storage.stale = None
        raise
    balance.uploaded(host.nbytes, moved)
    if returned:
        note_uploaded(storage)
    value = on_device(host_layout(host), stale.buffer)
    with SIDES:
        if storage.stale is stale:  # else it has been pinned since
            if not stale.is_outdated():  # else it has been written to since, and this copy is not kept
                storage.value = value
            storage.stale = None
    return value


def upload_first(storage: Storage) -> Value | None:
    """Do as `_upload` for a storage of which there has been no copy; None where there is more to it.

    What is small is uploaded before each product with a large matrix: the steps of that are spelled out.
    """
    if storage.stale is not None or here.are_several:
        return None
    version, backend = select._decided  # `device`, spelled out
    if version != config.version or backend is None:
        backend = device()
    stale = _new(Stale)
    stale.buffer = stale.lines = None
    stale.low = stale.high = stale.num_writes = 0
    stale.is_uploading = True
    with SIDES:
        host = storage.host
        if host is None or host.dtype not in DEVICE_TYPES or not host.flags.c_contiguous or explain.REPORTS:
            return None
        if storage.value is not None or storage.stale is not None:
            return None
        stale.low = nbytes = host.nbytes
        storage.stale = stale  # from here on nobody writes to the host side without noting it
    try:
        buffer = backend.allocate(nbytes)
        if not (nbytes and backend.upload_brief(buffer.ptr, host, nbytes)):  # `upload`, spelled out
            backend.upload(buffer.ptr, host)
    except BaseException:
        give_up(storage, stale)
        raise
    balance.uploaded(nbytes, nbytes)
    if returned:
        note_uploaded(storage)
    layout = Layout.of(host.dtype, host.shape)
    value = layout.graph or leaf(layout), (buffer,), next_mask()  # `on_device`, spelled out
    with SIDES:
        if storage.stale is stale:  # else it has been pinned since
            if stale.high <= stale.low and stale.lines is None:  # else written to, and this copy is not kept
                storage.value = value
            storage.stale = None
    return value


def give_up(storage: Storage, stale: Stale) -> None:
    """Let a storage be as it was before `upload_first` began, which has failed."""
    with SIDES:
        if storage.stale is stale:
            storage.stale = None


def expression(handle: Handle) -> Value:
    """Return what a handle reads, as an expression on the device; what a view reads is materialised first."""
    storage = handle._held or handle._storage
    layout = handle._known or handle._layout
    value = storage.value
    if value is None:
        value = device_value(storage)
    graph = value[0]
    if graph.layout is layout:
        return value
    if graph.nodes:
        value = attempt(_computed, storage)
    return read(layout, value)


def _computed(storage: Storage) -> Value:
    value = schedule.postpone(storage)
    return device_value(storage) if value is None else value


def chain(handle: Handle) -> Value:
    """Return what a handle reads, for an operation that takes chains: a view of a short one is one, too."""
    layout = handle._known or found(handle)
    value = (handle._held or handle._storage).value
    if value is not None:
        graph = value[0]
        if graph.layout is layout:
            return value
        if not graph.nodes:  # `read`, spelled out
            _, (buffer,), mask = value
            graph = layout.read or reading(layout)
            if not layout.offset:
                return graph, (buffer,), mask
            entry = Leaf()
            entry.ptr = buffer.ptr + layout.offset
            entry.buffer = buffer if type(buffer) is Buffer else buffer.buffer
            return graph, (entry,), mask
        if graph.structure.is_flagged or getattr(handle._storage, "is_updated", False):
            return expression(handle)
        viewed = fused_view(handle._held or handle._storage, value, layout)
        if viewed is not None:
            return viewed
    return expression(handle)


def operand_chain(handle: Handle) -> Value:
    """Return what `chain` does, for an operation that is not elementwise: that computes no elements that raise."""
    value = chain(handle)
    if value[0].structure.is_flagged:
        schedule.materialise(handle._storage)
        value = chain(handle)
    return value


def host_view(handle: Handle) -> np.ndarray[Any, Any]:
    """Return the NumPy view of what a handle reads on the host side of its storage, downloading it if need be."""
    held = handle._held
    seen = handle._seen
    if held is None:
        return seen  # type: ignore[no-any-return]
    return seen if seen is not None and (handle._host is held.host or held.has_objects) else host_and_view(handle)[1]


def host_and_view(handle: Handle) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the host side of a storage and the view of that very array; other threads may put another in its place."""
    storage = handle._held or handle._storage
    host = storage.host
    if host is None:
        host = fetch_storage(storage)
    is_of_objects = storage.has_objects
    if handle._host is host or (is_of_objects and handle._seen is not None):
        return host, handle._seen
    layout = handle._known or handle._layout
    if handle._view is None and layout.shape == host.shape and layout.strides == host.strides:
        view = host
    elif host.dtype.hasobject:
        view = _references_at(host, layout)
    else:
        view = seen_at(host_bytes(host), layout)
    if layout.dtype.char == "V" and not is_writeable(handle):
        view.flags.writeable = False  # and so are the records of it
    handle._host, handle._seen = None if is_of_objects else host, view
    return host, view


def _references_at(host: np.ndarray[Any, Any], layout: Layout) -> np.ndarray[Any, Any]:
    """Return what lies in a layout in an array of references to Python objects, which are not seen as bytes."""
    memory = in_order(host)
    if layout.dtype == host.dtype and layout.is_contiguous and layout.size == host.size:
        return memory.reshape(layout.shape)
    if not layout.size:
        return np.empty(layout.shape, layout.dtype)
    return np.ndarray(layout.shape, layout.dtype, memory, layout.offset, layout.strides)


def _await(storage: Storage) -> None:
    """Wait for what a storage holds before the lock is taken: other threads have streams to queue on meanwhile."""
    value = attempt(_written, storage)
    if value is not None:
        device_of(value[1][0]).wait_until_written(value[1][0].ptr)


def _written(storage: Storage) -> Value | None:
    """Return what writes the elements of a storage that is only on the device, queued."""
    value = storage.value
    if value is None or storage.host is not None:
        return None
    if value[0].is_copy and value[0].layout.size == 1:  # which `fetch` reads where it is
        return value
    return schedule.materialise(storage)


def fetch_storage(storage: Storage) -> np.ndarray[Any, Any]:
    """Return the host side of a storage, downloading it whole if it is only on the device.

    Of one whose device side others hold, it is a copy that is not kept.
    """
    if here.are_several:
        _await(storage)
    return attempt(_fetch_storage, storage)


def _fetch_storage(storage: Storage) -> np.ndarray[Any, Any]:
    if storage.host is None and storage.stale is not None and (pin := parted(storage)) is not None:
        fetch_rest(storage, pin)
    if storage.host is None:
        graph, leaves, mask = schedule.materialise(storage)
        if here.are_several:
            claim(storage)
        layout = graph.layout
        if explain.REPORTS:
            explain.note("copy", f"{layout.nbytes} B to the host", "read there")
        if layout.nbytes:
            (entry,) = leaves
            backend = entry._block.pool.owner if type(entry) is Buffer else device_of(entry)  # `backend`, spelled out
            host = host_blocks.empty(layout.nbytes, backend)
            backend.download(host, entry.ptr)
        else:
            host = np.empty(0, np.uint8)
        held: np.ndarray[Any, Any] = np.ndarray(layout.shape, layout.dtype, host, 0, layout.strides)
        if mask & SHARED:
            return held
        balance.fetched(layout.nbytes)
        storage.host = held
    return storage.host


def fetch(handle: Handle) -> np.ndarray[Any, Any]:
    """Return a fresh NumPy array of what a handle reads, moving no more than that."""
    storage = handle._storage
    if here.are_several:
        _await(storage)
    return attempt(_fetch, handle)


def _fetch(handle: Handle) -> np.ndarray[Any, Any]:
    storage = handle._storage
    if storage.host is not None or parted(storage) is not None:
        return host_view(handle).copy()
    value = storage.value
    assert value is not None
    if value[0].is_copy and value[0].layout.size == handle._layout.size == 1:  # a view of it may broadcast
        layout, leaves = value[0].leaves[0], value[1]  # one element of another array: read it there
    else:
        schedule.materialise(storage)
        graph, leaves, _ = expression(handle)
        layout = graph.layout
    entry = leaves[0]
    if here.are_several:  # nobody writes to it before it has been read
        claim_device(device_of(entry))
    if not layout.is_contiguous:
        if not layout.is_aligned or layout.dtype not in DEVICE_TYPES:
            return host_view(handle).copy()
        _, entry = schedule.evaluate((leaf(layout), leaves, 0))
    host = np.empty(layout.shape, layout.dtype)
    if explain.REPORTS:
        explain.note("copy", f"{host.nbytes} B to the host", "read there")
    if host.nbytes:
        device_of(entry).download(host, entry.ptr)
    if host.size == 1:
        singles.num_fetched += 1
        singles.num_used += 1
    return host.reshape(handle._layout.shape)


def begin_writing(handle: Handle) -> np.ndarray[Any, Any]:
    """Return the host view of a handle for a call that writes to it: its storage is pinned until `end_writing`.

    The call itself holds no lock: others go on meanwhile, and the user's code, if it runs some, may use arrays. The
    device side becomes stale where the view lies.

    Raises
    ------
    Unsupported
        Others hold the device side: `exchange` is for that.
    """
    storage = handle._storage
    while True:
        if storage.value is None:
            host, view = host_and_view(handle)
            if storage.host is host and storage.stale is None and storage.value is None:
                storage.stale = WRITING  # no other thread has run since the last three conditions
                return view
            with SIDES:
                if storage.host is host and storage.value is None:
                    stale = storage.stale
                    if stale is not None:
                        stale.cover_part(handle._layout)
                        stale.num_writes += 1
                    pinned(storage).num_writers += 1
                    return view
        attempt(_leave_stale, handle)


def _leave_stale(handle: Handle) -> None:
    """Let the device side of a storage be stale where a view lies, and the host side be the one that counts."""
    storage = handle._storage
    if is_shared(storage):
        raise Unsupported("memory that others hold")
    host_view(handle)
    value = storage.value
    if value is None:
        return
    writing.flush_readers(value)
    if here.are_several:
        claim(storage)
    with SIDES:
        stale = Stale(value[1][0], value[0].layout.nbytes, 0)
        stale.cover_part(handle._layout)
        storage.stale = stale
        storage.value = None


def compute_into(
    compute: Callable[..., Any], operands: list[Any], keywords: dict[str, Any], outs: tuple[Handle | None, ...]
) -> Any:
    """Let NumPy compute, its results going to what handles read on the host; None stands for a new array."""
    written = []
    views: list[Any] = []
    try:
        for out in outs:
            views.append(None if out is None else begin_writing(out))
            if out is not None:
                written.append(out._storage)
        return call_numerical(compute, operands, {**keywords, "out": tuple(views)})
    finally:
        for storage in written:
            end_writing(storage)


def end_writing(storage: Storage) -> None:
    """Note that a call that wrote to a storage's host side has ended, after `begin_writing` or `WRITING`."""
    if storage.stale is WRITING:
        storage.stale = None
        return
    with SIDES:
        pin = storage.stale
        if isinstance(pin, Pin):
            pin.num_writers -= 1
            drop_pin(storage)


def _is_elsewhere(storage: Storage) -> bool:
    """Whether what a storage holds lies in the memory of another device than the one in use."""
    value = storage.value
    if value is None or value[0].nodes:
        return False
    backend = value[1][0].backend
    return backend is not None and backend is not device()


def leave_device() -> None:
    """Bring to the host what is on the device, for the next operation may run elsewhere.

    What others hold there stays, and so does what the garbage collector does not list (`gc.freeze`): `placement.device`
    reaches it as long as no other device takes the place of this one.
    """
    schedule.flush_all()
    for storage in storages():
        if is_shared(storage) or _is_elsewhere(storage):
            continue
        attempt(_leave, storage)


def _leave(storage: Storage) -> None:
    if storage.host is None:
        fetch_storage(storage)
    if here.are_several:
        claim(storage)
    with SIDES:
        if storage.host is not None:
            storage.value = None
        stale = storage.stale
        if isinstance(stale, Pin):
            stale.buffer = None
        elif stale is not None and not stale.is_uploading:
            storage.stale = None


hooks.before_leaving.append(leave_device)


def _bring_up_to_date() -> None:
    """Upload what is outdated of the copies that the device in use keeps of arrays that are on the host."""
    for storage in storages():
        stale = storage.stale
        if stale is None or stale.buffer is None or (stale.is_pin and is_pinned(storage)):
            continue
        if stale.buffer.backend is device():
            device_value(storage)


hooks.before_capture.append(_bring_up_to_date)

# In a forked child nothing that is pending can be computed.
hooks.in_forked_child += [schedule.PENDING.clear, CALLS.clear]
