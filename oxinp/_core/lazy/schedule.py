"""The scheduler: the only place that fuses, launches and writes.

Its rules are the correctness argument of lazy evaluation:

* A pending value names Buffers, never storages, and a Buffer's bytes change only in `write`, which first flushes every
  pending value that reads them. So a value means the same whenever it is computed.
* A flush replaces `Storage.value` only after its launch returned; one that failed stays pending and can be tried again.
* A product that is deferred is computed before bytes change that it reads, too, and by whoever asks where it lies.
* An interior value that is still referenced becomes one more output of the kernel that computes it on the way.
* One lock holds for a flush or a write; recording takes none.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any
from weakref import ref

from oxinp._config import config
from oxinp._core.lazy import programs
from oxinp._core.lazy.explain import REPORTS, note
from oxinp._core.lazy.expr import find_value
from oxinp._core.lazy.programs import on_device, read
from oxinp._core.memory.storage import SHARED, Storage, next_mask
from oxinp._runtime import here, hooks

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._core.lazy.expr import Graph
    from oxinp._core.memory.layout import Layout
    from oxinp._core.memory.storage import Value
    from oxinp._runtime.memory import Buffer
    from oxinp._runtime.timeline import Timeline

    Record = Callable[[Storage, int], object]

# Every storage that was pending when it was appended, weakly. Appended to without a lock; what is gone or no longer
# pending is dropped by the next flush.
PENDING: list[ref[Storage]] = []
MAX_PENDING = 4096  # entries, most of them of temporaries that are gone
room = MAX_PENDING  # entries before `make_room` is called: at each one, -1, where there are `RECORDERS`
MAX_ALIVE = 256  # pending storages that somebody holds: beyond, all are flushed rather than searched at each flush

LOCK = threading.RLock()

DEFERRED: dict[ref[Any], None] = {}
"""Products that have not been computed, see `deferred`, in their order: a weak set takes microseconds to ask."""


def _apart(*_: Any) -> None:
    """Fuse nothing."""


fuse: Callable[[Storage, Value, list[Storage]], Value | None] = _apart
"""How a product is computed together with what is made of it; `deferred` enters it."""

RECORDERS: list[Record] = []
"""Called with each storage that becomes pending or is written to: they are on the path of every operation.

With it comes how many frames up the stack, the called one's counted, are for certain not the user's. Each calls `prune`
where there are more than `MAX_PENDING` in `PENDING`, for it may be the only one that is called.
"""


at_work: Any = None
"""The storage whose value is being computed, or that is being written to: by the thread that has the lock."""


def watch(record: Record) -> None:
    """Let one more of the `RECORDERS` be called, until the end of the process."""
    global room, make_room
    RECORDERS.append(record)
    room, make_room = -1, record if len(RECORDERS) == 1 else _tell_recorders


def _tell_recorders(storage: Storage, depth: int) -> None:
    for record in RECORDERS:
        record(storage, depth + 1)


def _note_origin(storage: Storage, depth: int) -> None:
    storage.origin = here.thread.timeline
    if len(PENDING) > MAX_PENDING:
        prune(storage, depth)


hooks.when_several.append(lambda: watch(_note_origin))


def enter(storage: Storage) -> None:
    """Remember a storage that has become pending; called by a function of ours that is called by one of ours."""
    PENDING.append(ref(storage))
    if len(PENDING) > room:
        make_room(storage, 4)
    value = storage.value
    if value is not None and value[2] & SHARED:  # others may change what it reads at any time
        materialise(storage)


def materialise(storage: Storage) -> Value:
    """Enqueue the kernel that computes a pending storage, without waiting for it; return its value.

    Raises
    ------
    MemoryError
        Where the device has no room for the result; the storage stays pending.
    """
    global at_work
    value: Any = storage.value
    if value[0].nodes:
        with LOCK:
            value = storage.value
            if value[0].nodes:
                if here.are_several and (origin := _elsewhere(storage)) is not None:
                    with here.on(origin):
                        return materialise(storage)
                outer, at_work = at_work, storage
                try:
                    return _compute(storage, value)
                finally:
                    at_work = outer
    value[1][0].ptr  # noqa: B018 - which has a deferred product computed
    return value  # type: ignore[no-any-return]


def _compute(storage: Storage, value: Value) -> Value:
    """Run what fills a storage whose value is pending, under the lock."""
    graph, leaves, _ = value
    references = PENDING[:]
    others = [
        other
        for reference in references
        if (other := reference()) is not None
        and other is not storage
        and (held := other.value) is not None
        and held[0].nodes
    ]
    wanted = None
    # This storage goes from the list before the launch, during which it may grow or be flushed.
    if others:
        if len(others) > MAX_ALIVE and len(set(others)) > MAX_ALIVE:
            flush_all()
            return storage.value or value
        PENDING[: len(references)] = map(ref, others)
        wanted = _wanted_interior(value, others)
    else:
        del PENDING[: len(references)]
    try:
        if DEFERRED and not wanted and (done := fuse(storage, value, others)) is not None:
            return done
        if REPORTS:
            note("device", programs.describe(graph), f"{graph.layout.nbytes} B result, {len(leaves)} inputs")
        if wanted:
            return _run_with_interior(storage, value, wanted)
        program = graph.program
        if program is None or program.version != config.version:
            program = programs.find(graph)
        if program.arrays_only:  # `program.run`, spelled out
            buffer = program.allocate(program.nbytes)
            program.launch(buffer.ptr, *[entry.ptr for entry in leaves])
        else:
            buffer = program.run(leaves)
    except BaseException:
        PENDING.append(ref(storage))
        raise
    storage.value = done = (program.leaf, (buffer,), next_mask())
    return done


def _elsewhere(storage: Storage) -> Timeline | None:
    """Return where a pending value runs if that is not where the calling thread's work goes."""
    origin = getattr(storage, "origin", None)
    return None if origin is here.thread.timeline else origin


def _keep_pending(alive: list[Storage], count: int) -> list[Storage]:
    """Let the first `count` entries of PENDING be those of `alive` that are pending, each once; return them."""
    pending = {id(other): other for other in alive if other.value is not None and other.value[0].nodes}
    PENDING[:count] = [ref(other) for other in pending.values()]
    return list(pending.values())


def _wanted_interior(value: Value, others: list[Storage]) -> dict[int, Storage]:
    """Find pending storages whose values are computed on the way to that of another, by their number in its graph."""
    graph, leaves, mask = value
    wanted: dict[int, Storage] = {}
    if graph.reduction is not None:
        return wanted
    strange = ~mask
    for other in others:
        other_value = other.value
        if other_value is None or other_value[2] & strange:
            continue
        part, part_leaves, _ = other_value
        if (
            part.shape != graph.shape
            or part.reduction is not None
            or not 0 < len(part.nodes) < len(graph.nodes)
            or (here.are_several and _elsewhere(other) is not None)
        ):
            continue
        places = _places(graph, leaves, part, part_leaves)
        if places is None:
            continue
        key = (part, places)
        if key not in graph.interior:
            if len(graph.interior) >= programs.MAX_PROGRAMS:
                graph.interior.clear()
            graph.interior[key] = find_value(graph, part, places)
        number = graph.interior[key]
        if number is not None and number != graph.result and len(wanted) < programs.MAX_OUTPUTS - 1:
            wanted.setdefault(number, other)
    return wanted


def _places(graph: Graph, leaves: tuple[Any, ...], part: Graph, part_leaves: tuple[Any, ...]) -> tuple[int, ...] | None:
    """Where `part`'s leaves stand among `graph`'s: the same objects read through the same layouts."""
    places: list[int] = []
    for entry, layout in zip(part_leaves, part.leaves, strict=True):
        for place, candidate in enumerate(leaves):
            if candidate is entry and graph.leaves[place] is layout and place not in places:
                places.append(place)
                break
        else:
            return None
    return tuple(places)


def _run_with_interior(storage: Storage, value: Value, wanted: dict[int, Storage]) -> Value:
    graph, leaves, _ = value
    key = tuple(sorted(wanted))
    interior = tuple([(number, wanted[number].value[0].layout) for number in key])  # type: ignore[index]
    program = programs.find(graph, interior)
    first, *rest = program.run_all(leaves)
    result = storage.value = (program.leaf, (first,), next_mask())
    for number, buffer in zip(key, rest, strict=True):
        other = wanted[number]
        assert other.value is not None
        other.value = on_device(other.value[0].layout, buffer)
    return result


def evaluate(value: Value) -> tuple[Graph, Buffer]:
    """Run an expression into a new contiguous Buffer that no storage owns; return its leaf graph and the Buffer."""
    with LOCK:
        graph, leaves, _ = value
        if not graph.nodes:
            graph = programs.copying(graph.layout, graph.dtype)
        program = programs.find(graph)
        return program.leaf, program.run(leaves)


def write(storage: Storage, layout: Layout, value: Value, source: Storage | None, depth: int) -> None:
    """Write an expression into part of a storage on the device.

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
    global at_work
    with LOCK:
        if room < 0:
            make_room(storage, depth)
        outer, at_work = at_work, storage
        try:
            assert storage.value is not None
            _, (buffer,), own_mask = storage.value
            graph, leaves, mask = value
            reads_target = bool(mask & own_mask) and _reads(leaves, buffer)
            direct = not reads_target or _is_direct(graph, leaves, buffer, layout)
            flush_readers(storage.value, source if direct else None)
            if not direct:
                if source is not None and source is not storage:
                    graph, leaves, _ = materialise(source)
                else:
                    graph, copied = evaluate(value)
                    leaves = (copied,)
            program = graph.programs.get(layout.form)
            if program is None or program.version != config.version:
                program = programs.find(graph, target=layout)
            if REPORTS:
                note("device", f"{programs.describe(graph)} into a view", f"{layout.nbytes} B of a device array")
            if program.arrays_only:  # `program.run_into`, spelled out
                program.launch(buffer.ptr + layout.offset, *[entry.ptr for entry in leaves])
            else:
                program.run_into(buffer.ptr + layout.offset, leaves)
            storage.host = None
            storage.stale = None
            if direct and reads_target and source is not None and source is not storage:
                written, leaves, mask = read(layout, storage.value)
                source.value = (programs.copying(written.layout, layout.dtype), leaves, mask)
                if mask & SHARED:
                    materialise(source)
        finally:
            at_work = outer


def _reads(leaves: tuple[Any, ...], buffer: Buffer) -> bool:
    for entry in leaves:  # noqa: SIM110 - `any` costs more than the rest
        if getattr(entry, "buffer", None) is buffer:
            return True
    return False


def _is_direct(graph: Graph, leaves: tuple[Any, ...], buffer: Buffer, layout: Layout) -> bool:
    """Whether every read of `buffer` is of the very element that is written, or of bytes that are not written."""
    start, form = buffer.ptr + layout.offset, layout.form
    low, high = layout.extent
    for entry, where in zip(leaves, graph.leaves, strict=True):
        if getattr(entry, "buffer", None) is buffer:
            first, last = where.extent
            apart = entry.ptr + last <= start + low or start + high <= entry.ptr + first
            same = entry.ptr == start and where.same(form) and graph.reduction is None and layout.is_injective
            if not (apart or same):
                return False
    return True


def flush_readers(target: Value, keep: Storage | None = None) -> None:
    """Materialise every pending value, but that of `keep`, that reads the Buffer of a storage on the device."""
    _, (buffer,), mask = target
    with LOCK:
        for reference in PENDING[:]:
            storage = reference()
            if storage is not None and storage is not keep:
                value = storage.value
                if value is not None and value[2] & mask and value[0].nodes and _reads(value[1], buffer):
                    materialise(storage)
        if DEFERRED:
            compute_deferred(lambda entry: entry.mask & mask and _reads(entry.operands or (), buffer))


def flush_all() -> None:
    """Compute everything pending, the latest first, so that what it passes on the way comes along."""
    with LOCK:
        pending = _pending()
        compute_deferred(lambda entry: entry.is_held() or entry.num_readers(pending) > 1)  # once, before those
        del PENDING[: len(pending)]
        try:
            for storage in reversed(pending):
                if storage.value is not None:
                    materialise(storage)
        finally:
            PENDING.extend([ref(storage) for storage in pending if storage.value and storage.value[0].nodes])
        compute_deferred()


def compute_deferred(is_meant: Callable[[Any], object] | None = None) -> None:
    """Compute the products that wait, all or some of them."""
    for reference in tuple(DEFERRED):
        entry = reference()
        if entry is not None and (is_meant is None or is_meant(entry)):
            entry.compute()


def prune(storage: Storage, depth: int) -> None:
    """Forget the storages that are gone or no longer pending; flush all if too many are left, the latest among them."""
    del storage, depth
    with LOCK:
        if len(_pending()) > MAX_ALIVE:
            flush_all()


def _pending() -> list[Storage]:
    count = len(PENDING)
    return _keep_pending([other for reference in PENDING[:count] if (other := reference()) is not None], count)


make_room: Record = prune  # called where `room` is exceeded

hooks.before_synchronize.append(flush_all)
hooks.before_out_of_memory.append(flush_all)
