"""The scheduler: the only place that fuses and launches; `writing` writes.

Its rules are the correctness argument of lazy evaluation:

* A pending value names Buffers, never storages, and a Buffer's bytes change only in `write`, which first flushes every
  pending value that reads them. So a value means the same whenever it is computed.
* A flush replaces `Storage.value` only after its launch returned; one that failed stays pending and can be tried again.
* A call that waits (see `calls`) runs before bytes change that it reads, too, and for whoever asks where a result lies.
* An interior value that is still referenced becomes one more output of the kernel that computes it on the way.
* A flush or a write is done under the lock of its device (`building`); recording takes none.
"""

from __future__ import annotations

import operator
from itertools import compress
from threading import RLock
from typing import TYPE_CHECKING, Any
from weakref import ref

from oxinp._config import config
from oxinp._core.lazy import calls, chains, joint, rowwise
from oxinp._core.lazy.balance import NUM_SIZES, SAMPLED, are_by_rows, balance, is_sampled
from oxinp._core.lazy.building import Missing, attempt, claim, is_locked, spells_attempt
from oxinp._core.lazy.calls import CALLS, MAX_CALLS, Call, Pending, at_work, forget, request, run_calls
from oxinp._core.lazy.executor import addresses, run_again
from oxinp._core.lazy.explain import REPORTS, note
from oxinp._core.lazy.expr import leaf
from oxinp._core.lazy.op import bind
from oxinp._core.lazy.placement import singles
from oxinp._core.memory.storage import SHARED, Storage, next_mask
from oxinp._runtime import here, hooks
from oxinp._runtime.backend import FIRST_LOCK
from oxinp._runtime.forking import free_in_children

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from oxinp._core.lazy.expr import Graph
    from oxinp._core.lazy.op import BoundOp
    from oxinp._core.memory.storage import Value
    from oxinp._runtime.memory import Buffer

    Record = Callable[[Storage, int], object]

_new = object.__new__

# Every storage that was pending when it was appended, weakly. Appended to without a lock; what is gone or no longer
# pending is dropped by the next flush.
PENDING: list[ref[Storage]] = []
_SHORTENING: Any = free_in_children(RLock())  # held while entries are replaced, which threads of two devices may do
MAX_PENDING = 4096  # entries, most of them of temporaries that are gone
room = MAX_PENDING  # entries before `make_room` is called: at each one, -1, where there are `RECORDERS`
MAX_TOGETHER = 32  # pending storages that are looked for on the way to each other when all are computed
MAX_ALIVE = 256  # pending storages that somebody holds: beyond, all are flushed rather than searched at each flush
MAX_ELEMENTS = 16  # of these, single elements: beyond, they are computed, for a program may keep one of each turn

_num_unweighed = 0
"""Operations that have been recorded, but whose results are gone, and no kernel has been weighed for."""
MAX_UNWEIGHED = 256

_OF_NO_ELEMENTS = frozenset({Pending, int, float})
"""Of which there are entries in chains of one element that `singles` has nothing to count of, if any is `Pending`."""

RECORDERS: list[Record] = []
"""Called with each storage that becomes pending or is written to: they are on the path of every operation.

With it comes how many frames up the stack, the called one's counted, are for certain not the user's. Each calls `prune`
where there are more than `MAX_PENDING` in `PENDING`, for it may be the only one that is called.
"""


_WATCHING: Any = free_in_children(RLock())


def watch(record: Record) -> None:
    """Let one more of the `RECORDERS` be called, until `unwatch`."""
    with _WATCHING:
        RECORDERS.append(record)
        _follow_recorders()


def unwatch(record: Record) -> None:
    """Let one of the `RECORDERS` be called no longer."""
    with _WATCHING:
        RECORDERS.remove(record)
        _follow_recorders()


def _follow_recorders() -> None:
    global room, make_room
    calls.is_watched = bool(RECORDERS)
    room = -1 if RECORDERS else MAX_PENDING
    make_room = (prune, *RECORDERS)[-1] if len(RECORDERS) < 2 else _tell_recorders


def _tell_recorders(storage: Storage, depth: int) -> None:
    for record in tuple(RECORDERS):  # none is passed over when another one goes
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


@spells_attempt
def materialise(storage: Storage) -> Value:
    """Enqueue the kernel that computes a pending storage, without waiting for it; return its value.

    Raises
    ------
    MemoryError
        Where the device has no room for the result; the storage stays pending.
    """
    value: Any = storage.value
    if value is None:  # another thread has brought it to the host meanwhile; not while the lock is held
        return value  # type: ignore[return-value]
    if value[0].nodes:
        if room < 0 or here.are_several:
            return attempt(compute if room >= 0 else _compute_watched, storage)
        try:
            with FIRST_LOCK:  # `attempt`, spelled out
                return compute(storage)
        except Missing:
            pass
        return attempt(compute, storage)  # with no traceback, which would keep what may be overwritten
    if type(value[1][0]) is Pending:
        (entry,) = value[1]
        if entry.call is not None:
            entry.call.run()
        buffer = entry._buffer  # `settled`, spelled out
        found = value if buffer is None else (value[0], (buffer,), value[2])
        if storage.value is value:  # nothing is called from here to the assignment
            storage.value = found
        return found
    return value  # type: ignore[no-any-return]


def _compute_watched(storage: Storage) -> Value:
    """Do as `compute` on the stream that the value was recorded on, noting in `at_work` what is computed."""
    value: Any = storage.value
    if here.are_several and value is not None and value[0].nodes:
        claim(storage)
        if (origin := joint.elsewhere(storage)) is not None:
            with here.on(origin):
                return _compute_watched(storage)
    outer, at_work.storage = at_work.storage, storage
    try:
        return compute(storage)
    finally:
        at_work.storage = outer


def compute(storage: Storage) -> Value:  # noqa: PLR0915 - the common cases in full, for a call costs as much as one
    """Run what fills a storage whose value is pending, under the lock."""
    value: Any = storage.value
    if value is None or not value[0].nodes:
        return value  # type: ignore[no-any-return]
    global _num_unweighed
    graph, leaves, mask = value
    wanted, above, others, alike, num_gone, num_recorded = None, None, [], [], 0, 0
    if here.are_several:
        pending = [] if at_work.flushes_many else pending_storages()
        others = alike = [other for other in pending if other is not storage and _is_own(other)]
    else:
        # This storage goes from the list before the launch, during which it may grow or be flushed; but not where there
        # are several devices: whoever writes to what it reads, on another device, has to find it until the launch has
        # returned.
        references = PENDING[:]
        # Most are gone, and one that is written to again and again, whole, has an entry for each time.
        for other in dict.fromkeys(filter(None, map(operator.call, references))):
            if other is not storage and (held := other.value) is not None and (part := held[0]).nodes:
                others.append(other)
                if part.shape == graph.shape and (not held[2] & ~mask or not mask & ~held[2]):
                    alike.append(other)  # for `joint.related`: one of the two may read all that the other reads
        if len(others) > MAX_ELEMENTS and not at_work.flushes_many and _compute_elements(others):
            return compute(storage)
        num_gone = _num_unweighed + len(references) - len(others)
        kept, place = [*map(ref, others)], slice(len(references))
        if references == PENDING:  # nearly always; `shorten`, spelled out
            PENDING[place] = kept
        else:
            shorten(references, kept)
    if graph.layout.size == 1 and not (Pending in (kinds := {*map(type, leaves)}) and kinds <= _OF_NO_ELEMENTS):
        singles.count(graph, leaves)
    if others:
        if len(others) > MAX_ALIVE:
            PENDING.append(ref(storage))  # it may have gone from the list already
            flush_device()
            now = storage.value or value
            if not now[0].nodes:
                return now
            others = alike = []  # of several devices, a thread's flush leaves to it what it is about to compute
        if alike:
            wanted, above = joint.related(value, alike)
        if above and CALLS:
            others = joint.left_of(others, above)
    if others and num_gone:
        left = num_gone - len(graph.nodes) + (len(wanted) if wanted else 0)
        num_recorded = len(graph.nodes) + min(left, 0)
        _num_unweighed = min(max(left, 0), MAX_UNWEIGHED)
    else:
        _num_unweighed = 0
    try:
        found = None
        if CALLS and not graph.structure.is_flagged:
            found = rowwise.compute(storage, value, wanted or {}, others)
            if found is None and not wanted:
                found = joint.fused(storage, value, others)
        if found is None and wanted:
            found = joint.run_with_interior(storage, value, wanted, num_recorded)
        if found is not None:
            if above:
                joint.read_in(found, above)
            return found
        program = graph.program
        is_first, is_planned = program is None, False
        buffer: Any = None
        if program is None or program.later is not None:  # `chains.run_first`, spelled out
            launch = None if program is None else program.launch
            if launch is None:
                launch = chains.launch_of(graph.structure, graph.layout, graph.leaves, is_new=is_first)
            if launch is not None:
                graph.program = chains.ONCE if program is None else chains.run_with(launch, program)
                buffer = run_again(launch, graph.layout.nbytes, leaves, has_parts=graph.structure.has_parts)
        if buffer is None:
            if program is None or program.version != config.version:
                program, is_planned = chains.find(graph), is_first
            if program.arguments is addresses:  # `Executable.run`, spelled out
                buffer = program.allocate(program.nbytes)
                program.launch(buffer.ptr, *[getattr(entry, "ptr", entry) for entry in leaves])
            else:
                buffer = program.run(leaves)
        if REPORTS:
            note("device", chains.describe(graph), f"{graph.layout.nbytes} B result, {len(leaves)} inputs")
    except BaseException:
        PENDING.append(ref(storage))
        _num_unweighed = min(max(num_gone - 1, 0), MAX_UNWEIGHED)  # to be claimed when it is tried again
        raise
    layout = graph.layout
    weigh_chain(graph, leaves, is_first=is_first, is_planned=is_planned, num_recorded=num_recorded)
    storage.value = done = (layout.graph or leaf(layout), (buffer,), next_mask())
    if above:
        joint.read_in(done, above)
    return done


def weigh_chain(
    graph: Graph,
    leaves: tuple[Any, ...],
    is_due: bool = False,
    *,
    is_first: bool = False,
    is_planned: bool = False,
    num_recorded: int = 0,
) -> None:
    """Let placement know of a chain that has been computed, so that what is fetched is known to come from it.

    It is weighed if it is due or has been planned, or is one of those that are.
    """
    structure, layout = graph.structure, graph.layout
    size = balance.ran(layout.nbytes, tuple(compress(leaves, structure.are_arrays)))
    if size < NUM_SIZES and (is_due or is_planned or is_sampled() or balance.each):
        times = 1 if is_planned else SAMPLED
        is_by_rows = are_by_rows(graph.leaves)
        balance.computed_chain(
            size,
            structure,
            layout.size,
            is_first=is_first,
            is_by_rows=is_by_rows,
            times=times,
            num_recorded=num_recorded,
        )


def append(storage: Storage) -> None:
    """Let a storage be pending as before, that went from the list to be computed."""
    PENDING.append(ref(storage))


def _compute_elements(others: list[Storage]) -> bool:
    """Compute single elements, if so many are pending; whether that is so. Each sees the others, and what is computed.

    They hold what they are made of, and every flush would look at all of them.
    """
    elements = [other for other in others if other.value is not None and other.value[0].layout.size == 1]
    if len(elements) <= MAX_ELEMENTS:
        return False
    at_work.flushes_many = True
    try:
        for element in reversed(elements):
            materialise(element)
    finally:
        at_work.flushes_many = False
    return True


def postpone(storage: Storage) -> Value | None:
    """Return the value of a storage without nodes: of one that is pending the result of a call, or computed.

    None where another thread has brought it to the host meanwhile, and lent it there.

    A call that waits is what a chain becomes that is made of a reduction that waits, and has fewer elements than that
    reduces: it may be computed with what is made of it, see `rowwise`.
    """
    return attempt(_postpone, storage) if CALLS else materialise(storage)


def _postpone(storage: Storage) -> Value | None:
    value = storage.value
    if value is None:
        return None
    if not value[0].nodes or value[2] & SHARED or value[0].structure.is_flagged:
        return materialise(storage)
    if rowwise.is_of_fewer(value):
        if here.are_several:
            claim(storage)
        graph, leaves, mask = value
        call, (result,) = request(bind(chains.ELEMENTWISE_CALL, (graph,)), leaves, mask)
        for name in ("lines", "offset", "origin"):  # of the line that recorded it
            if hasattr(storage, name):
                setattr(call, name, getattr(storage, name))
        result.owner = ref(storage)
        storage.value = postponed = leaf(graph.layout), (result,), next_mask()
        return postponed
    return materialise(storage)


def evaluate(value: Value) -> tuple[Graph, Buffer]:
    """Run an expression into a new contiguous Buffer that no storage owns; return its leaf graph and the Buffer."""
    return attempt(_evaluate, value)


def _evaluate(value: Value) -> tuple[Graph, Buffer]:
    graph, leaves, _ = value
    if not graph.nodes:
        known, dtype = graph.programs, graph.layout.dtype
        graph = (known and known.get(("copy", dtype))) or chains.copying(graph.layout, dtype)  # spelled out
    program = graph.program
    if program is not None and program.version == config.version and not here.are_several:
        return program.leaf, program.run(leaves)  # `find`, spelled out
    is_rented = program is None or program.later is not None
    buffer = chains.run_first(graph, leaves, program=program) if is_rented else None
    if buffer is not None:
        return leaf(graph.layout), buffer
    program = chains.find(graph)
    return program.leaf, program.run(leaves)


def flush_all() -> None:
    """Compute everything pending, the latest first, so that what it passes on the way comes along."""
    if PENDING or CALLS:
        attempt(_flush, pending_storages)


def flush_device() -> None:
    """Compute what is pending on the device that the calling thread's work goes to, as `flush_all` does."""
    if here.are_several:
        attempt(_flush, _own_pending, _is_own)
    else:
        attempt(_flush, pending_storages)


def flush_large(nbytes: int) -> None:
    """Do as `flush_device` if what is pending there keeps much beside so many bytes that are free."""
    buffers = {id(buffer): buffer for storage in pending_storages() if _is_own(storage) for buffer in _kept(storage)}
    kept = sum([buffer.nbytes for buffer in buffers.values()])
    if kept > config.pending_share * (kept + nbytes):
        flush_device()


def _kept(storage: Storage) -> list[Any]:
    """Return the Buffers that a pending value reads."""
    value = storage.value
    found = [getattr(entry, "buffer", None) for entry in (() if value is None else value[1])]
    return [buffer for buffer in found if not (type(buffer) is Pending and buffer.call) and hasattr(buffer, "nbytes")]


def _flush(find: Callable[[], list[Storage]], is_meant: Callable[[Any], bool] | None = None) -> None:
    pending = find()
    run_calls(lambda call: (is_meant is None or is_meant(call)) and _is_shared(call, pending))  # once, before those
    pending = find()  # memory for these calls may have taken a flush
    are_many = len(pending) > MAX_TOGETHER
    outer, at_work.flushes_many = at_work.flushes_many, are_many
    if are_many and not here.are_several:  # else other devices' threads still have to find it
        pending = pending_storages(are_taken=True)
    try:
        for storage in reversed(pending):
            if storage.value is not None:
                materialise(storage)
    finally:
        at_work.flushes_many = outer
        if are_many and not here.are_several:
            PENDING.extend([ref(storage) for storage in pending if storage.value and storage.value[0].nodes])
    run_calls(is_meant)


def _is_shared(call: Call, storages: list[Storage]) -> bool:
    """Whether a result of a call is an array's, or has several readers."""
    if call.bound.op.rows is not None:  # the first reader stores the result for the others
        return False
    results = [result for reference in call.results if (result := reference()) is not None]
    return any(result.is_held() or result.num_readers(storages) > 1 for result in results)


def defer(bound: BoundOp, leaves: tuple[Any, ...], mask: int, depth: int = 4) -> list[Value]:
    """Ask for an operation; return the values of its results, which run it when they are needed.

    Parameters
    ----------
    bound : BoundOp
    leaves : tuple
    mask : int
        Of the leaves.
    depth : int
        For `RECORDERS`.
    """
    if len(bound.layouts) == 1 and room >= 0 and len(CALLS) < MAX_CALLS:  # `request`, spelled out
        (layout,) = bound.layouts
        call = _new(Call)
        call.bound, call.leaves, call.mask, call.buffers = bound, leaves, mask, None
        result = _new(Pending)
        result.call, result.place, result.owner, result._buffer = call, 0, None, None
        call.results = (ref(result),)
        call._entry = entry = ref(call, forget)
        CALLS[entry] = None
        if mask & SHARED:
            call.run()
        return [(layout.graph or leaf(layout), (result,), next_mask())]
    call, results = request(bound, leaves, mask)
    if room < 0:
        for record in tuple(RECORDERS):
            record(call, depth)  # type: ignore[arg-type] # it is remembered like a storage
    if mask & SHARED:
        call.run()
    return [(leaf(layout), (result,), next_mask()) for layout, result in zip(bound.layouts, results, strict=True)]


def prune(storage: Storage, depth: int) -> None:
    """Forget the storages that are gone or no longer pending; flush all if too many are left, the latest among them."""
    del storage, depth
    attempt(_prune)


def _prune() -> None:
    if len(_own_pending() if here.are_several else pending_storages()) > MAX_ALIVE:
        flush_device()


def pending_storages(*, are_taken: bool = False) -> list[Storage]:
    """Return what is pending, each once; in an attempt let `PENDING` be that, or nothing where they `are_taken`."""
    if not PENDING:
        return []
    with _SHORTENING:
        references = PENDING[:]
        alive = [other for reference in references if (other := reference()) is not None]
        pending = {id(other): other for other in alive if other.value is not None and other.value[0].nodes}
        if is_locked():  # else a thread that is may be about to take out as many as it has seen
            _replace(references, () if are_taken else pending.values())
    return list(pending.values())


def _replace(references: list[ref[Storage]], storages: Iterable[Storage]) -> None:
    """Let storages stand for the entries that have been looked at, unless these are other ones by now.

    The collector may run wherever something is allocated, and a `__del__` that it runs may have computed some of them,
    and recorded more: then all stay, for those that are not pending any more cost no more than a look.
    """
    shorten(references, [ref(storage) for storage in storages])


def shorten(references: list[ref[Storage]], kept: list[ref[Storage]]) -> None:
    """Let some stand for the first entries of `PENDING`, in an attempt, unless these are other ones by now."""
    global _num_unweighed
    place, num_gone = slice(len(references)), len(references) - len(kept)
    if PENDING[place] == references:  # nothing is called or allocated from the comparison on, see `_replace`
        PENDING[place] = kept
        _num_unweighed = min(_num_unweighed + num_gone, MAX_UNWEIGHED)


def _own_pending() -> list[Storage]:
    """Return what is pending on the device that the calling thread's work goes to, but for what it computes now."""
    return [storage for storage in pending_storages() if _is_own(storage) and storage is not at_work.storage]


def _is_own(storage: Storage | Call) -> bool:
    origin = getattr(storage, "origin", None)
    return origin is None or origin.backend is here.thread.timeline.backend


make_room: Record = prune  # called where `room` is exceeded

hooks.when_several.append(run_calls)
hooks.before_synchronize.append(flush_all)
hooks.before_growth.append(flush_large)
hooks.before_leaving_stream.append(flush_device)
hooks.before_out_of_memory.append(flush_device)
