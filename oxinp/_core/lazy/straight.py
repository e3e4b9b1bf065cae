"""Statements on parts of arrays that are one launch each: ``a[1:, k] -= b * c`` without recording it first.

What a statement computes depends on structures alone, and its launch on a few integers of layouts. So where its like
has been recorded and written before, of whatever sizes, nothing is made for its own sizes but the launch. Everything
else is left to `record` and `stores`, whose results these are, bit for bit.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any
from weakref import ref

from oxinp._config import config
from oxinp._core.errors.state import current, quiet
from oxinp._core.lazy import rewriting, row_launches, schedule
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.building import Missing, attempt, spells_attempt
from oxinp._core.lazy.calls import CALLS, Pending
from oxinp._core.lazy.chains import copy_structure, entry_at, launch_of, line_again, note_run
from oxinp._core.lazy.combining import common_shape, known_join, may_join
from oxinp._core.lazy.executor import anywhere, run_again
from oxinp._core.lazy.explain import REPORTS
from oxinp._core.lazy.expr import Unsupported, graph_of, leaf, leaf_structure, remember, scalar
from oxinp._core.lazy.handle import device_value, host_view
from oxinp._core.lazy.op import RENTED
from oxinp._core.lazy.placement import SMALL_NBYTES, accesses, device, followers, note_update, singles
from oxinp._core.lazy.record import COPY, express, uploaded_for
from oxinp._core.lazy.results import types, wrap_pending
from oxinp._core.lazy.writing import (
    MAX_GONE,
    flush_readers,
    is_direct,
    note_written,
    read_back,
    weigh_write,
    write_result,
)
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout, line_layout, make_layout
from oxinp._core.memory.recent import MEETINGS
from oxinp._core.memory.storage import SHARED
from oxinp._runtime import here
from oxinp._runtime.backend import FIRST_LOCK

if TYPE_CHECKING:
    import numpy as np

    from oxinp._core.lazy.expr import Graph, Operation, Structure
    from oxinp._core.lazy.handle import Handle
    from oxinp._core.memory.storage import Storage

MAX_NDIM = 2  # of parts whose launches take arithmetic; of others there has to be a program
COPIED_NBYTES = 1 << 16  # which the driver has read when it returns, whatever is queued
LARGE_NBYTES = 1 << 25  # of a matrix whose rows are copied rather than the operand computed: two passes over it less
NUMBERS = {kind: scalar(kind).structure for kind in (int, float, complex)}

_Chain = tuple["Structure", tuple[Any, ...], tuple[Any, ...], int, "Graph | None"]
"""A structure, the layouts of its leaves, the leaves (Buffers, Leaves and numbers), their mask, and the graph if the
part has its shape."""


def update(operation: Operation, array: Handle, operand: Any) -> bool:
    """Compute ``array = operation(array, operand)`` in place; False where nothing has been done.

    Parameters
    ----------
    operation : Operation
    array : Handle
        A part of an array that may be written to.
    operand : Handle or number
        An array of the part's shape, or of one element, or a number of Python's.
    """
    layout = array._known
    if here.are_several or schedule.room < 0 or REPORTS or not layout or current() is not quiet.state:
        return False
    if layout.ndim > MAX_NDIM:
        return False
    storage = array._held or array._storage
    number = NUMBERS.get(type(operand))
    chain = _chain(operand, layout, storage) if number is None else (number, number.kinds, (operand,), 0, None)
    if chain is not None and (places := _overlapping(storage, layout, chain)):
        chain = attempt(_copied, operand, storage, layout, chain, places)
    if chain is None:
        return False
    added, seen, entries, mask, graph = chain
    if graph is not None and graph.met >= MEETINGS + RENTED and _update_again(operation, array, layout, chain):
        if accesses and layout.nbytes <= SMALL_NBYTES:
            note_update(storage, entries)
        return True
    dtype = layout.dtype
    structures = leaf_structure(dtype), added
    key = structures, None, dtype
    met = operation.alike.get(key) or operation.alike.recall(key)
    join = met or known_join(operation, key)
    if join is None or join.structure is None or join.reason or (structures, dtype) not in operation.checked:
        return False
    if met is None:  # where machine code looks
        remember(operation.alike, key, join)
    if join.scalars:
        try:
            entries = (join.scalars[0][1](operand),)
        except OverflowError:  # NumPy's, or none where any integer is taken
            return False
    is_written = bool(write_part(storage, layout, (join.structure, seen, entries, mask, None), None, True))
    if is_written and accesses and layout.nbytes <= SMALL_NBYTES:
        note_update(storage, entries)
    return is_written


def _overlapping(storage: Storage, layout: Layout, chain: _Chain) -> list[int]:
    """Return the numbers of the leaves of a chain that read elements of a matrix that would be written before.

    Of lines `mirrored` looks at it.
    """
    if layout.ndim < MAX_NDIM:
        return []
    structure, seen, entries, mask, _ = chain
    value = storage.value
    if value is None or not mask & value[2] or value[0].nodes or value[2] & SHARED or layout.nbytes < balance.limit:
        return []
    (buffer,) = value[1]
    if type(buffer) is Pending and buffer.call is not None:
        return []
    leaves = enumerate(zip(seen, entries, strict=True))
    return [place for place, (where, entry) in leaves if not is_direct(structure, (where,), (entry,), buffer, layout)]


def _copied(operand: Handle, storage: Storage, layout: Layout, chain: _Chain, places: list[int]) -> _Chain | None:
    """Return a chain of the same values that reads nothing of a matrix that is written to before it is, in an attempt.

    Rows and columns that are the same all over it, as those of an elimination are, are copied where it is large; else
    all is computed. None where it has to be recorded.

    Parameters
    ----------
    operand, storage, layout, chain
    places : list of int
        Of the leaves that read it.
    """
    structure, seen, entries, mask, _ = chain
    held, written = operand._held or operand._storage, storage.value
    pending = held.value
    if written is None or written[0].nodes or pending is None or (structure.nodes and pending[1] is not entries):
        return None
    layouts, leaves = list(seen), list(entries)
    for place in places:
        where = seen[place]
        axes = [axis for axis, step in enumerate(where.strides) if step]
        is_line = len(axes) < 2 and where.is_aligned
        if not is_line or (structure.nodes and (layout.nbytes < LARGE_NBYTES or pending[0].leaves is not seen)):
            break
        size, step = (where.shape[axes[0]], where.strides[axes[0]]) if axes else (1, 0)
        leaves[place] = _copied_line(line_layout(where.dtype, size, step, where.offset), entries[place], mask)
        strides = tuple([where.dtype.itemsize if axis in axes else 0 for axis in range(where.ndim)])
        layouts[place] = make_layout(where.dtype, where.shape, strides, 0)
    else:
        if structure.nodes:  # it is pending while the rest is written, and reads the copies, too
            held.value = graph_of(structure, pending[0].layout, tuple(layouts)), tuple(leaves), mask
        return structure, tuple(layouts), tuple(leaves), mask, None
    if not structure.nodes:
        return None
    schedule.materialise(held)
    return _chain(operand, layout, storage)


def _copied_line(line: Layout, entry: Any, mask: int) -> Any:
    """Return new memory with elements that lie in one dimension, under the lock."""
    dtype = line.dtype
    planner = copy_structure(dtype, dtype.num, dtype, dtype.num).planner
    if planner is not None:
        launch = line_again(planner, (Layout.of(dtype, line.shape), line))
        if launch is not None and (copied := run_again(launch, line.nbytes, (entry,))) is not None:
            return copied
    return schedule.evaluate((leaf(line), (entry,), mask))[1]


def _update_again(operation: Operation, array: Handle, layout: Layout, chain: _Chain) -> bool:
    """Do what `update` does with the program that has been planned for what comes again; False where there is none."""
    _, _, entries, mask, graph = chain
    assert graph is not None
    storage = array._held or array._storage
    made = graph.layout
    target = made if made._dense is made and made.dtype is layout.dtype else layout.dense
    record = operation.records.get((layout.read, graph, None, target))
    value = storage.value
    if record is None or record.graph is None or not record.is_checked or value is None or value[0].nodes:
        return False
    _, (buffer,), own_mask = value
    if type(buffer) is Pending and buffer.call is not None:
        return False
    own = entry_at(layout.offset, buffer)
    if own in entries:
        return False
    joined = record.graph
    parts = joined.structure, joined.leaves, (own, *entries), mask | own_mask, joined
    return bool(write_part(storage, layout, parts, None, False))


@spells_attempt
def assign(array: Handle, layout: Layout, value: Handle) -> bool:
    """Write an array into a part of another one, which has as many elements; False where nothing has been done."""
    if here.are_several or schedule.room < 0 or REPORTS or not layout.size:
        return False
    storage = array._held or array._storage
    held = None if value._held is None else value._held.value
    if layout.ndim > MAX_NDIM and (held is None or not (held[0].nodes or held[0].programs)):
        return False
    if held is not None and (graph := held[0]).nodes and graph.layout is value._known and graph.shape == layout.shape:
        if held[2] & SHARED or graph.structure.is_flagged:  # `_chain`, spelled out
            return False
        graph.met += 1
        chain: _Chain | None = (graph.structure, graph.leaves, held[1], held[2], graph)
    else:
        chain = _chain(value, layout, storage)
    if chain is None:
        return False
    structure, seen, entries, _, graph = chain
    if structure.dtype is not layout.dtype:
        return False
    own = array._known or array._layout
    is_all = layout.size == own.size and layout.same(own)
    if is_all and (array._view is None or value._held is storage or _is_whole(storage, layout)):
        return False
    if structure.nodes:
        if CALLS and graph is not None and layout.ndim < 2 and row_launches.is_worth_a_look(graph, entries, layout):
            is_done = None
            try:
                with FIRST_LOCK:  # `attempt`, spelled out
                    is_done = _run_rows(storage, layout, chain, value._held)
            except Missing:
                pass
            if is_done or (is_done is None and attempt(_run_rows, storage, layout, chain, value._held)):
                return True
        is_known = structure.planner is not None or (graph is not None and graph.programs is not None)
        if CALLS and is_known:  # to run without these
            for waiting in entries:
                if type(waiting) is Pending and (call := waiting.call) is not None:
                    call.run()
        is_written = write_part(storage, layout, chain, value._held, False)
        if is_written is not None:
            return is_written
        if value._held is not None and rewriting.rewrite(storage, layout, value._held):
            return True
        schedule.materialise(value._held or value._storage)
        chain = _chain(value, layout, storage)
        return chain is not None and not chain[0].nodes and bool(write_part(storage, layout, chain, None, False))
    entry = entries[0]
    if type(entry) is Pending and entry.call is not None:
        if value._known is not seen[0]:
            return False
        source: Any = value._held
        given: Any = seen[0]
        try:
            with FIRST_LOCK:  # `attempt`, spelled out
                return _write_result(storage, layout, given, entry, source)
        except Missing:
            pass
        return attempt(_write_result, storage, layout, given, entry, source)
    is_written = write_part(storage, layout, chain, None, False)
    if is_written is None:  # a part that overlaps, which is to be read as a whole before
        is_moved = seen[0].is_contiguous and layout.is_contiguous and seen[0].dtype is layout.dtype
        if is_moved and attempt(_move, storage, layout, chain):
            return True
        shape = (value._known or value._layout).shape
        copied = wrap_pending(express(COPY, (value,), Layout.of(structure.dtype, shape)), as_array=True)
        return assign(array, layout, copied)
    return bool(is_written)


def _is_whole(storage: Storage, layout: Layout) -> bool:
    """Whether a part has as many elements as there are."""
    value = storage.value
    return value is None or layout.size >= value[0].layout.size


def bring(array: Handle, layout: Layout, value: Handle) -> bool:
    """Write an array that is valid on the host into a part of one on the device; False where nothing has been done.

    What lies without gaps on both sides is copied to its place; else it is uploaded, and a kernel writes it there.
    """
    source = value._held or value._storage
    seen = value._seen if value._host is source.host else host_view(value)
    dtype = layout.dtype
    if (
        seen is None
        or seen.dtype is not dtype
        or dtype not in DEVICE_TYPES
        or layout.size < 2
        or layout.ndim > MAX_NDIM
    ):
        return False
    storage = array._held or array._storage
    if here.are_several or schedule.room < 0 or REPORTS or (followers and ref(storage) in followers):
        return False
    if source.value is None:
        is_copied = layout.is_contiguous and seen.nbytes <= COPIED_NBYTES and seen.flags.c_contiguous
        if is_copied and seen.shape == layout.shape and attempt(_copy, storage, layout, seen):
            return True
        try:
            device_value(source)
        except Unsupported:  # it is a field of records
            return False
    return assign(array, layout, value)


def _copy(storage: Storage, layout: Layout, seen: np.ndarray[Any, Any]) -> bool:
    """Copy what lies without gaps to a part that does, under the lock; False where nothing has been done."""
    value = storage.value
    buffer = _memory_to_write(storage, layout)
    if value is None or buffer is None:
        return False
    device().upload(buffer.ptr + layout.offset, seen)
    balance.uploaded(layout.nbytes, layout.nbytes)
    balance.ran(value[0].layout.nbytes, ())
    note_written(storage)
    return True


def _move(storage: Storage, layout: Layout, chain: _Chain) -> bool:
    """Move what lies without gaps to a part of the same storage that does and overlaps it, by way of other memory.

    Under the lock; returns False where nothing has been done.
    """
    value, nbytes, backend = storage.value, layout.nbytes, device()
    structure, _, entries, _, _ = chain
    buffer = _memory_to_write(storage, layout)
    if value is None or buffer is None:
        return False
    between = backend.allocate(nbytes)
    if storage.value is not value:  # that memory may have taken it
        return False
    backend.copy_each([(between.ptr, entries[0].ptr, nbytes), (buffer.ptr + layout.offset, between.ptr, nbytes)])
    weigh_write(storage, layout, structure, value[0].layout.nbytes, entries)
    note_written(storage)
    return True


def _memory_to_write(storage: Storage, layout: Layout) -> Any:
    """Return the memory of a storage that a part of is to be written to, whose readers have run, under the lock.

    None where it is not computed, not on the device alone, or shared, and where the part belongs on the host.
    """
    value = storage.value
    if storage.host is not None or storage.stale is not None or value is None or value[0].nodes:
        return None
    _, (buffer,), mask = value
    if mask & SHARED or layout.nbytes < balance.limit or (type(buffer) is Pending and buffer.call is not None):
        return None
    if CALLS or schedule.PENDING:
        flush_readers(value, written=layout)
    if storage.value is not value:  # memory for these may have taken it
        return None
    return buffer.buffer if type(buffer) is Pending else buffer


def fill(array: Handle, layout: Layout, number: Any) -> bool:
    """Write a number of NumPy's to a part of an array of its dtype; False where nothing has been done."""
    if here.are_several or schedule.room < 0 or REPORTS or current() is not quiet.state:
        return False
    if layout.size == 1:  # which takes a program
        if layout.dtype not in DEVICE_TYPES:
            return False
        graph, entries, mask = express(COPY, (number,), layout._dense or layout.dense)
        chain: _Chain = graph.structure, graph.leaves, entries, mask, graph
    else:
        structures = (scalar(layout.dtype).structure,)
        key = structures, None, layout.dtype
        join = COPY.joins.get(key) or COPY.joins.recall(key)  # `known_join`, spelled out
        if join is None or join.structure is None:
            return False
        ((_, convert),) = join.scalars
        chain = join.structure, join.structure.kinds, (convert(number),), 0, None
    return bool(write_part(array._held or array._storage, layout, chain, None, False))


def _chain(operand: Any, target: Layout, storage: Storage) -> _Chain | None:
    """Return an operand as a chain broadcast to the shape of a part of a storage; None where it has to be recorded."""
    if type(operand) is not types.ndarray and type(type(operand)) is not types.scalar_type:
        return None
    held = operand._held or operand._storage
    value = held.value or uploaded_for(held, storage)
    if value is None or value[2] & SHARED:
        return None
    layout = operand._known or operand._layout
    graph, leaves, mask = value
    if graph.nodes:
        if graph.structure.is_flagged:
            return None
        graph.met += 1
    if graph.layout is layout:
        seen = graph.leaves
    elif graph.nodes:
        return None
    else:
        seen = (layout,)
        if layout.offset:
            leaves = (entry_at(layout.offset, leaves[0]),)
    shape = target.shape
    if layout.shape != shape:
        own = layout.shape
        if not graph.nodes and len(own) == 1 and own == shape[1:]:  # a row, the commonest of them, spelled out
            seen = (make_layout(layout.dtype, shape, (0, layout.strides[0]), layout.offset),)
        elif (own or not may_join(graph, shape)) if graph.nodes else (own and common_shape(shape, own) != shape):
            return None
        else:
            seen = tuple([entry.broadcast(shape) if type(entry) is Layout else entry for entry in seen])
    # A copy of a line or a matrix takes arithmetic.
    is_known = seen is graph.leaves and (graph.nodes or (layout.ndim > MAX_NDIM and graph.programs))
    return graph.structure, seen, leaves, mask, graph if is_known else None


def _write_result(storage: Storage, layout: Layout, seen: Layout, entry: Pending, source: Storage) -> bool:
    """Do what `writing.write_result` does, under the lock, where the storage is on the device alone."""
    value = storage.value
    if storage.host is not None or storage.stale is not None or value is None or value[0].nodes:
        return False
    (buffer,) = value[1]
    if value[2] & SHARED or layout.nbytes < balance.limit or (type(buffer) is Pending and buffer.call is not None):
        return False
    return write_result(storage, layout, seen, entry, source)


def _run_rows(storage: Storage, layout: Layout, chain: _Chain, source: Storage | None) -> bool:
    """Do what `_run` does of a chain of reductions along rows and of the reductions, where one launch does all of it.

    Only an element may be written of what is read: that is after all has been. False where nothing has been done.
    """
    value = storage.value
    _, _, entries, mask, graph = chain
    if storage.host is not None or storage.stale is not None or value is None or value[0].nodes:
        return False
    _, (buffer,), own_mask = value
    reads_it = mask & own_mask
    if own_mask & SHARED or (reads_it and layout.size > 1) or layout.nbytes < balance.limit:
        return False
    if not (layout._injective or layout.is_injective) or (type(buffer) is Pending and buffer.call is not None):
        return False
    assert graph is not None
    references = schedule.PENDING[:]
    others = [other for other in filter(None, map(operator.call, references)) if other is not source]
    found = row_launches.row_launch(graph, entries, layout, others)
    if found is None:
        return False
    for call in found.calls:
        if call.mask & own_mask:
            reads_it = own_mask
    if reads_it and layout.size > 1:
        return False
    is_read = any([(held := other.value) is not None and held[2] & own_mask for other in others])  # noqa: C419
    if is_read or len(CALLS) > 1 or len(references) > MAX_GONE or references != schedule.PENDING:
        flush_readers(value, source, found.calls[0], layout)
    if storage.value is not value:  # memory for these may have taken it
        return False
    row_launches.run_rows(found, buffer.ptr + layout.offset, graph, value[0].layout.nbytes)
    if type(buffer) is Pending:  # `note_written`, spelled out
        buffer = buffer.buffer
    storage.value = (value[0], (buffer,), own_mask)
    storage.host = storage.stale = None
    if source is not None and reads_it:
        read_back(source, storage, layout, found.entries)
    return True


def write_part(storage: Storage, layout: Layout, chain: _Chain, source: Storage | None, is_update: bool) -> bool | None:
    """Do what `_run` does, in an attempt."""
    return attempt(_run, storage, layout, chain, source, is_update)


def _run(storage: Storage, layout: Layout, chain: _Chain, source: Storage | None, is_update: bool) -> bool | None:
    """Write what a chain computes to a part of a storage, under the lock; False where nothing has been done.

    None where that is so because the chain reads elements that would have been written before: it has to be computed
    first.

    Parameters
    ----------
    storage, layout
    chain : tuple
    source : Storage or None
        Whose pending value it is.
    is_update : bool
        The first leaf of the structure, which stands for no leaf of the chain's, is the part itself.
    """
    value = storage.value
    if storage.host is not None or storage.stale is not None or value is None or value[0].nodes:
        return False
    _, (buffer,), own_mask = value
    structure, seen, entries, mask, graph = chain
    again = graph if graph is not None and (graph.met >= MEETINGS or graph.programs is not None) else None
    program: Any = None if again is None or again.programs is None else again.programs.get(layout.form)
    is_planned = program is not None and program.later is None  # it has run by arithmetic as often as is worth it
    reads_it = mask & own_mask
    if (
        own_mask & SHARED
        or (layout.size < 2 and not is_planned)
        or layout.nbytes < balance.limit
        or not (layout._injective or layout.is_injective)
        or structure.has_parts
        or (type(buffer) is Pending and buffer.call is not None)
    ):
        return False
    if reads_it and not is_direct(structure, seen, entries, buffer, layout):
        return None
    if is_planned:
        if program.version != config.version:
            return False
    else:
        launch = launch_of(structure, layout, (layout, *seen) if is_update else seen, is_looked_for=False)
        if launch is None or (run := anywhere(launch[0])) is None:
            return False
        _, grid, constants = launch
    parameters = [getattr(entry, "ptr", entry) for entry in entries]  # what these wait for runs now
    if CALLS or schedule.PENDING:
        flush_readers(value, source, written=layout)
    if storage.value is not value:  # memory for these may have taken it
        return False
    start = buffer.ptr + layout.offset
    if is_planned and program.arrays_only:
        program.launch(start, *parameters)
    elif is_planned:
        program.run_into(start, entries)
    elif is_update:
        run(grid, start, start, *parameters, *constants)
    else:
        run(grid, start, *parameters, *constants)
        if again is not None:
            note_run(again, layout.form, program)
    weigh_write(storage, layout, structure, value[0].layout.nbytes, entries)
    if layout.size == 1 and graph is not None:
        singles.count(graph, entries)
    if type(buffer) is Pending:  # `note_written`, spelled out
        buffer = buffer.buffer
    storage.value = (value[0], (buffer,), own_mask)
    storage.host = storage.stale = None
    if source is not None and reads_it:
        read_back(source, storage, layout, entries)
    return True


__all__ = ["NUMBERS", "assign", "bring", "fill", "update", "write_part"]
