"""Writing into what a storage holds on the device: first whatever still reads the old bytes is computed.

An expression that reads what it writes is computed in place where every read is of the very element that is written, or
of bytes that are not; else by way of a copy.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any
from weakref import ref

from oxinp._config import config
from oxinp._core.lazy import chains, schedule
from oxinp._core.lazy.balance import NUM_SIZES, SAMPLED, are_by_rows, balance, is_sampled, num_moved
from oxinp._core.lazy.building import claim
from oxinp._core.lazy.calls import CALLS, Pending, at_work, settled, waiting
from oxinp._core.lazy.explain import REPORTS, note
from oxinp._core.lazy.expr import leaf, reading
from oxinp._core.lazy.lost import lose_partly_written
from oxinp._core.lazy.placement import followers, singles
from oxinp._core.lazy.windows import Windowed, left_by
from oxinp._core.memory.layout import Layout, extent_of
from oxinp._core.memory.recent import MEETINGS
from oxinp._core.memory.storage import SHARED
from oxinp._runtime import here
from oxinp._runtime.counters import stats
from oxinp._runtime.memory import Buffer

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._core.lazy.calls import Call
    from oxinp._core.lazy.expr import Graph, Structure
    from oxinp._core.lazy.op import BoundOp
    from oxinp._core.memory.storage import Storage, Value


MAX_GONE = 6
"""Entries of `PENDING` that are not pending any more, up to which each write looks at them."""
MAX_SPARED = 8
"""Chains that stay pending when what they do not read is written: all are looked at again by each write."""


def write(storage: Storage, layout: Layout, value: Value, source: Storage | None, depth: int) -> None:
    """Write an expression into part of a storage on the device, in an attempt (see `building`).

    Parameters
    ----------
    storage : Storage
        Materialised (not pending); its host side and any other reader's view of the old bytes are taken care of.
    layout : Layout
        Which elements to write; the expression has its shape and dtype.
    value : tuple
        What to write.
    source : Storage or None
        The storage whose whole pending value this is, if any. It reads from the written bytes afterwards instead of
        keeping its own way to compute them, which may read what is being overwritten.
    depth : int
        For `RECORDERS`.
    """
    if here.are_several:
        claim(storage)
        if source is not None:
            claim(source)
    if schedule.room >= 0:  # nobody watches
        _write(storage, layout, value, source)
    else:
        _watched(storage, depth, _write, storage, layout, value, source)


def _watched(storage: Storage, depth: int, body: Callable[..., object], *args: Any) -> None:
    """Call what writes to a storage, and let those who watch know."""
    schedule.make_room(storage, depth)
    outer, at_work.storage = at_work.storage, storage
    try:
        body(*args)
    finally:
        at_work.storage = outer


def _write(storage: Storage, layout: Layout, value: Value, source: Storage | None) -> None:
    assert storage.value is not None
    _, (buffer,), own_mask = storage.value
    graph, leaves, mask = value
    if not graph.nodes and write_result(storage, layout, graph.layout, leaves[0], source):
        return
    direct = not mask & own_mask or is_direct(graph.structure, graph.leaves, leaves, buffer, layout)
    flush_readers(storage.value, source if direct else None, written=layout)
    if not direct:
        between = graph.layout if graph.nodes else Layout.of(graph.dtype, graph.shape)
        chains.prepare(leaf(between), layout)  # first, for what is missing has all of this done again
        held = schedule.materialise(source) if source is not None and source is not storage else None
        if held is not None:
            graph, leaves, _ = held
        else:  # it may have been computed for one of those readers, and evicted since
            graph, copied = schedule.evaluate(value)
            leaves = (copied,)
    is_first, is_planned = chains.run_into(graph, leaves, layout, buffer.ptr + layout.offset)
    size = balance.ran(layout.nbytes, (buffer, *leaves))
    if (
        size < NUM_SIZES
        and not (followers and ref(storage) in followers)
        and (is_planned or is_sampled() or balance.each)
    ):
        times, num_elements = 1 if is_planned else SAMPLED, num_moved(layout, buffer.nbytes)
        is_by_rows = are_by_rows((layout, *graph.leaves))
        balance.computed_chain(
            size, graph.structure, num_elements, is_first=is_first, is_by_rows=is_by_rows, times=times
        )
    if layout.size == 1:
        singles.count(graph, leaves)
    if REPORTS:  # now, for what was missing has all of this done again
        note("device", f"{chains.describe(graph)} into a view", f"{layout.nbytes} B of a device array")
    note_written(storage, layout)
    if direct and source is not None and source is not storage and mask & own_mask:
        read_back(source, storage, layout, leaves)


def write_by(storage: Storage, layout: Layout, bound: BoundOp, leaves: tuple[Any, ...], depth: int) -> None:
    """Have an operation write into part of a storage on the device, in an attempt, from operands that lie elsewhere.

    Parameters
    ----------
    storage : Storage
        As of `write`.
    layout : Layout
        Of what the operation takes for its only result.
    bound, leaves
        The operation, and what it is applied to.
    depth : int
        For `RECORDERS`.
    """
    if here.are_several:
        claim(storage)
    if schedule.room >= 0:
        _write_by(storage, layout, bound, leaves)
    else:
        _watched(storage, depth, _write_by, storage, layout, bound, leaves)


def _write_by(storage: Storage, layout: Layout, bound: BoundOp, leaves: tuple[Any, ...]) -> None:
    value = storage.value
    assert value is not None
    (buffer,) = value[1] if type(value[1][0]) is Buffer else settled(value)[1]
    is_first, ptr = not bound.has_run, buffer.ptr + layout.offset
    # `_runs_first` looks at the first two things, too
    if not bound.rented or bound.executables or not _runs_first(bound, buffer, ptr, leaves, value, layout):
        known = bound.executables
        executable = None if known is None or here.are_several else known.get(None)  # `BoundOp.executable`, spelled out
        if executable is None or executable.version != config.version:
            executable = bound.executable()
        flush_readers(value, written=layout)
        arguments = executable.arguments(leaves)  # whatever has to be computed, or built, for them first
        num_launches = stats.launches
        try:
            executable.launch(ptr, *arguments)
        except BaseException as error:
            if executable.plan is not None:
                lose_partly_written(buffer, executable.plan, error, num_launches)
            raise
        bound.has_run = True
    if REPORTS:
        note("device", bound.describe(), f"{layout.nbytes} B of a device array")
    size = balance.ran(layout.nbytes, (buffer, *leaves))
    if size < NUM_SIZES:
        bound.weigh(size, is_first=is_first)
    note_written(storage, layout)


def _runs_first(
    bound: BoundOp, buffer: Buffer, ptr: int, leaves: tuple[Any, ...], target: Value, layout: Layout
) -> bool:
    """Run an operation whose like have run, for the first time, to an address; False where that has to be prepared."""
    if not bound.rented or bound.op.plan_again is None or bound.executables is not None:
        return False
    flush_readers(target, written=layout)
    num_launches = stats.launches
    try:
        return bound.run_first(None, leaves, ptr) is not None
    except BaseException as error:
        if stats.launches > num_launches:
            lose_partly_written(buffer, bound.op.plan(bound), error, num_launches)
        raise


def write_result(storage: Storage, layout: Layout, seen: Layout, entry: Any, source: Storage | None) -> bool:
    """Let a call that nobody but `source` has use for write its result where it is wanted; False where it cannot.

    Parameters
    ----------
    storage, layout
        As of `write`.
    seen : Layout
        How the result is read: as it is, or as a view of it.
    entry : Pending or other leaf
        The result.
    source : Storage or None
    """
    if type(entry) is not Pending or (call := entry.call) is None or call.leaves is None:
        return False
    if here.are_several and not call.is_from_here():
        return False
    bound = call.bound
    assert storage.value is not None
    buffer = storage.value[1][0]
    if (
        not bound.op.gives_views
        or len(bound.layouts) != 1
        or (seen is not bound.layouts[0] and not seen.same(bound.layouts[0]))
        or not (layout._injective or layout.is_injective)
        or not _is_apart(bound, call.leaves, buffer, layout)
        or (source is None and entry.is_held())
        or (len(CALLS) > 1 and entry.num_readers([]))
    ):
        return False
    flush_readers(storage.value, keep_call=call, written=layout)
    leaves: tuple[Any, ...] | None = call.leaves
    if leaves is None:  # it was one of them, by way of others
        return False
    ptr = buffer.ptr + layout.offset
    is_first = not bound.has_run
    if bound.executables is not None or bound.run_first(layout, leaves, ptr) is None:
        form, known = layout._form or layout.form, bound.executables
        program = None if known is None or here.are_several else known.get(form)
        if program is None or program.version != config.version:
            program = bound.executable(form)
        program.launch(ptr, *program.arguments(leaves))  # `Executable.run_into`, spelled out
        bound.has_run = True
    size = balance.ran(layout.nbytes, (buffer, *leaves))
    if size < NUM_SIZES:
        bound.weigh(size, is_first=is_first)
    if REPORTS:
        note("device", f"{bound.op.name} into a view", f"{layout.nbytes} B of a device array")
    note_written(storage, layout)
    if source is not None:
        _read_back(source, storage, layout)
    return True


def note_written(storage: Storage, written: Layout | None = None) -> None:
    """Note that part of what a storage holds on the device is new: its value is another tuple, of the same Buffer."""
    value = storage.value
    assert value is not None
    graph, leaves, mask = value if type(value[1][0]) is Buffer else settled(value)
    left = None if written is None or type(value) is not Windowed else left_by(value, written)
    storage.value = (graph, leaves, mask) if left is None else left
    storage.host = None
    storage.stale = None


def weigh_write(
    storage: Storage,
    layout: Layout,
    structure: Structure,
    nbytes: int,
    entries: tuple[Any, ...],
    is_due: bool = False,
) -> None:
    """Let placement learn from what a structure has been computed of into a part of an array of so many bytes.

    It is weighed if it is due, or one of those that are.
    """
    size = balance.ran(nbytes, entries)
    if size < NUM_SIZES and not (followers and ref(storage) in followers) and (is_due or is_sampled() or balance.each):
        is_by_rows = are_by_rows((layout,))
        balance.computed_chain(size, structure, num_moved(layout, nbytes), is_first=False, is_by_rows=is_by_rows)


def read_back(source: Storage, storage: Storage, layout: Layout, leaves: tuple[Any, ...]) -> None:
    """Let a storage whose value has been written over leaves of its own read it there: it cannot be computed again."""
    assert storage.value is not None
    buffer = storage.value[1][0]
    if type(buffer) is Pending:
        buffer = buffer.buffer
    for entry in leaves:  # `_reads`, spelled out
        if entry is buffer or (type(entry) is not Buffer and getattr(entry, "buffer", None) is buffer):
            _read_back(source, storage, layout)
            break


def _read_back(source: Storage, storage: Storage, layout: Layout) -> None:
    """Let a storage whose value has been written into another one read it there, instead of computing it again."""
    assert storage.value is not None
    assert source.value is not None
    given = source.value[0]
    if given.met >= MEETINGS:
        _, leaves, mask = storage.value
        written = layout.read or reading(layout)  # `read`, spelled out
        if layout.offset:
            leaves = (chains.entry_at(layout.offset, leaves[0]),)
        dtype = given.layout.dtype
        known = written.programs  # `copying`, spelled out
        graph = (known and known.get(("copy", dtype))) or chains.copying(written.layout, dtype)
    else:
        _, (buffer,), mask = storage.value
        graph, leaves = chains.copy_of(layout, given.layout), (chains.entry_at(layout.offset, buffer),)
    source.value = (graph, leaves, mask)
    if not given.nodes:
        schedule.PENDING.append(ref(source))
    if mask & SHARED:
        schedule.materialise(source)


def _reads(leaves: tuple[Any, ...], buffer: Buffer | Pending) -> bool:
    if type(buffer) is Pending:
        buffer = buffer.buffer
    for entry in leaves:
        if entry is buffer or (type(entry) is not Buffer and getattr(entry, "buffer", None) is buffer):
            return True
    return False


def is_direct(
    structure: Structure, seen: tuple[Any, ...], leaves: tuple[Any, ...], buffer: Buffer | Pending, layout: Layout
) -> bool:
    """Whether every read of `buffer` is of the very element that is written, or of bytes that are not written.

    `seen` is how the leaves of the structure are read, a Layout each.
    """
    start = buffer.ptr + layout.offset
    if type(buffer) is Pending:
        buffer = buffer.buffer
    is_own = (layout._injective or layout.is_injective) and not structure.wants_pointer
    for entry, where in zip(leaves, seen, strict=True):
        if entry is buffer or (type(entry) is not Buffer and getattr(entry, "buffer", None) is buffer):
            distance = entry.ptr - start
            if where.strides == layout.strides and where.shape == layout.shape and where.dtype is layout.dtype:
                if not distance and is_own:
                    continue
                if layout.ndim == 1:  # `_miss`, of lines as rows and columns of a matrix are
                    step, itemsize = abs(layout.strides[0]), layout.dtype.itemsize
                    if step * (layout.size - 1) + itemsize <= abs(distance):
                        continue
                    if itemsize <= distance % (step or 1) <= step - itemsize:
                        continue
            meet_there = is_own and not distance and layout.ndim == 1 and _meet_in_themselves(where, layout)
            if not (meet_there or _miss(entry.ptr, where, start, layout)):
                return False
    return True


def is_mirrored(ptr: int, where: Layout, start: int, layout: Layout) -> bool:
    """Whether what is read from an address are the elements that are written, of one dimension, the last one first."""
    if layout.ndim != 1 or where.dtype is not layout.dtype:
        return False
    (step,), (size,) = layout.strides, layout.shape
    return size > 1 and where.strides == (-step,) and ptr == start + (size - 1) * step


def _meet_in_themselves(where: Layout, layout: Layout) -> bool:
    """Whether elements of one dimension that are read and written from the same one on meet nowhere else.

    So does a row of a matrix that is given the column of its first element.
    """
    if layout.ndim != 1 or where.ndim != 1 or where.dtype.itemsize != layout.dtype.itemsize:
        return False
    (read,), (written,), itemsize = where.strides, layout.strides, layout.dtype.itemsize
    if read % itemsize or written % itemsize or not read:
        return False
    return abs(read) >= abs(written) * layout.size or abs(written) >= abs(read) * layout.size


def _is_apart(bound: BoundOp, leaves: tuple[Any, ...], buffer: Buffer | Pending, layout: Layout) -> bool:
    """Whether an operation reads no byte of `buffer` that is written."""
    start = buffer.ptr + layout.offset
    if type(buffer) is Pending:
        buffer = buffer.buffer
    for place, entry in enumerate(leaves):
        if entry is buffer or (type(entry) is not Buffer and getattr(entry, "buffer", None) is buffer):
            where = [each for graph in bound.graphs for each in graph.leaves][place]
            if not _miss(entry.ptr, where, start, layout):
                return False
    return True


def are_apart(ptr: int, where: Layout, start: int, layout: Layout) -> bool:
    """Whether what is read from an address and what is written from another one do not overlap."""
    first, last = where.extent
    low, high = layout.extent
    return ptr + last <= start + low or start + high <= ptr + first


def flush_readers(
    target: Value, keep: Storage | None = None, keep_call: Call | None = None, written: Layout | None = None
) -> None:
    """Compute every pending value, but that of `keep` and those of `keep_call`, that reads the Buffer of a storage.

    Where only some elements are written, a few chains that read none of these stay pending.
    """
    _, (buffer,), mask = target
    if type(buffer) is Pending:
        buffer = buffer.buffer
    num_spared = 0
    references, alive = schedule.PENDING[:], []  # some of it twice
    for reference in references:
        storage = reference()
        if storage is None or (value := storage.value) is None or not value[0].nodes:
            continue
        if storage is not keep and value[2] & mask and _reads(value[1], buffer):
            if written is None or num_spared == MAX_SPARED or _meets(value[0], value[1], buffer, written):
                schedule.materialise(storage)
                continue
            num_spared += 1
        alive.append(reference)
    if len(alive) + MAX_GONE < len(references):
        if here.are_several:
            schedule.pending_storages()  # which shortens the list as well
        else:
            schedule.shorten(references, alive)
    if CALLS and (keep_call is None or len(CALLS) > 1):
        for reader in list(CALLS):  # `run_calls`, spelled out
            call = reader()
            if call is None or call is keep_call or not call.mask & mask:
                continue
            for entry in call.leaves or ():  # `_reads`, spelled out
                if entry is buffer or (type(entry) is not Buffer and getattr(entry, "buffer", None) is buffer):
                    call.run()
                    break


def _meets(graph: Graph, leaves: tuple[Any, ...], buffer: Buffer, layout: Layout) -> bool:
    """Whether a chain may read an element of a Buffer that is written."""
    start = buffer.ptr + layout.offset
    return graph.structure.wants_pointer or any(
        (entry is buffer or getattr(entry, "buffer", None) is buffer) and not _miss(entry.ptr, where, start, layout)
        for entry, where in zip(leaves, graph.leaves, strict=True)
    )


def _miss(ptr: int, where: Layout, start: int, layout: Layout) -> bool:
    """Whether no byte that is read from an address is one that is written from another one.

    They lie apart, or between each other, as columns of a matrix do, or some columns and others.
    """
    first, last = where._extent or extent_of(where)  # `are_apart`, spelled out
    low, high = layout._extent or extent_of(layout)
    if ptr + last <= start + low or start + high <= ptr + first:
        return True
    pitch = math.gcd(*where.strides, *layout.strides)
    if pitch > 0 and layout.dtype.itemsize <= (ptr - start) % pitch <= pitch - where.dtype.itemsize:
        return True
    least = layout.dtype.itemsize + where.dtype.itemsize
    for pitch in {*map(abs, layout.strides), *map(abs, where.strides)}:  # as some columns of a matrix lie beside others
        if pitch >= least:
            (first, length), (low, width) = _within(where, pitch), _within(layout, pitch)
            if width <= (ptr + first - start - low) % pitch <= pitch - length:
                return True
    return False


def _within(layout: Layout, pitch: int) -> tuple[int, int]:
    """Return from which byte on, counted from that of index zero, and how far elements go but for whole pitches."""
    low, width = 0, layout.dtype.itemsize
    for step, n in zip(layout.strides, layout.shape, strict=True):
        if step % pitch:
            width += abs(step) * (n - 1)
            low += min(step, 0) * (n - 1)
    return low, width


def is_read(buffer: Buffer) -> bool:
    """Whether a pending value, or a call that waits, reads a Buffer."""
    for storage in schedule.pending_storages():
        value = storage.value
        if value is not None and value[0].nodes and _reads(value[1], buffer):
            return True
    return any(_reads(call.leaves or (), buffer) for call in waiting())
