"""Updates of a line by a chain that reads it from its end, as ``z += a * z[::-1]``, in place and in one launch.

A thread computes two elements, as far from the first one as from the last, and reads both before it writes either: what
it reads nobody else writes. The chain's own values are stored as well, for whoever holds them.
"""

from __future__ import annotations

import importlib
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._config import config
from oxinp._core.lazy import schedule
from oxinp._core.lazy.balance import NUM_SIZES, balance, host_nbytes, is_sampled
from oxinp._core.lazy.building import attempt, missing
from oxinp._core.lazy.chains import ELEMENTWISE, describe, input_types, instructions, on_device
from oxinp._core.lazy.combining import join_of
from oxinp._core.lazy.executor import anywhere, load
from oxinp._core.lazy.explain import REPORTS, note
from oxinp._core.lazy.expr import MAX_LEAVES, MAX_NODES, Structure, add_nodes, structure_of
from oxinp._core.lazy.placement import device
from oxinp._core.lazy.writing import are_apart, flush_readers, is_mirrored, note_written
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.storage import SHARED
from oxinp._runtime import here
from oxinp._runtime.memory import Buffer

if TYPE_CHECKING:
    from oxinp._core.lazy.expr import Node, Operation
    from oxinp._core.lazy.handle import Handle
    from oxinp._core.memory.storage import Storage, Value

# How a leaf of the chain lies: as what is written, as that from its end, elsewhere; or it is one element, or a number.
SAME, MIRRORED, ELSEWHERE, ONE, NUMBER = range(5)
MIN_SIZE = 4  # two threads
MAX_BUILT = 64


class Pairs:
    """What computes two elements of an update at a time.

    Parameters
    ----------
    operation : Operation
    added : Structure
        Of the chain, which is the operation's second operand.
    places : tuple of int
        How its leaves lie.
    dtype : numpy.dtype
        Of what is updated, and of its leaf.

    Attributes
    ----------
    update : Structure or None
        What an element becomes; None where the device cannot compute it.
    planner : Elementwise
        Of both elements of a pair, and of the chain's.
    alignments : tuple of int
        Of the planner's operands.
    built : set
        Strides that there is a kernel for, and the version of the settings.
    """

    __slots__ = ("alignments", "built", "planner", "update")

    def __init__(self, operation: Operation, added: Structure, places: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.built: set[Any] = set()
        own = structure_of((dtype,), (True,), (), 0)
        join = join_of(operation, (own, added), dtype)
        self.update: Structure | None = None
        if join.reason or join.structure is None or join.structure.has_parts or join.loop is None:
            return
        if not np.can_cast(join.loop.output, dtype, "same_kind"):  # which NumPy says in its own words
            return
        kinds, are_arrays = [dtype, dtype], [True, True]
        halves: tuple[list[int], list[int]] = ([0], [1])  # of each leaf the numbers that it has for either element
        for place, kind, is_array in zip(places, added.kinds, added.are_arrays, strict=True):
            count = len(kinds)
            numbers = {SAME: (0, 1), MIRRORED: (1, 0), ELSEWHERE: (count, count + 1)}.get(place, (count, count))
            for half, number in zip(halves, numbers, strict=True):
                half.append(number)
            new = max(numbers) + 1 - count
            kinds += [kind] * new
            are_arrays += [is_array] * new
        count = len(kinds)
        nodes: dict[Node, int] = {}
        results = [add_nodes(nodes, join.structure, tuple(half), count) for half in halves]
        results += [add_nodes(nodes, added, tuple(half[1:]), count) for half in halves]
        if len(nodes) > MAX_NODES or count > MAX_LEAVES:
            return
        self.update = join.structure
        structure = structure_of(tuple(kinds), tuple(are_arrays), tuple(nodes), results[0])
        dtypes = (dtype, dtype, added.dtype, added.dtype)
        outputs = [(number, DEVICE_TYPES[each]) for number, each in zip(results, dtypes, strict=True)]
        inputs = [kind for kind, is_array in zip(kinds, are_arrays, strict=True) if is_array]
        self.alignments = tuple([each.itemsize for each in (*dtypes, *inputs)])
        self.planner = importlib.import_module(ELEMENTWISE).Elementwise(
            input_types(structure), instructions(structure), outputs
        )

    def build(self, size: int, steps: tuple[int, ...]) -> None:
        """Make the kernel for strides."""
        if len(self.built) >= MAX_BUILT:
            self.built.clear()
        version = config.version  # read before what it is the version of
        load(self.planner.plan_line(size, steps, self.alignments, device().capability))
        self.built.add((steps, version))


def update(operation: Operation, out: Handle, operand: Handle) -> bool:
    """Compute ``out = operation(out, operand)`` in place; False where that is not done, and nothing has changed.

    It is done where the operand is pending, and reads elements of the other end of what is written.

    Parameters
    ----------
    operation : Operation
    out : Handle
        A view that may be written to.
    operand : Handle
    """
    pending = operand._held or operand._storage
    storage = out._held or out._storage
    chain, whole = pending.value, storage.value
    if chain is None or whole is None:
        return False
    graph, _, mask = chain
    if not graph.nodes or not mask & whole[2] or whole[0].nodes or graph.layout is not operand._known:
        return False
    layout, structure, buffer = out._known or out._layout, graph.structure, whole[1][0]
    if (
        layout.ndim != 1
        or layout.shape != graph.shape
        or layout.size < MIN_SIZE
        or type(buffer) is not Buffer
        or (places := _places(layout, buffer.ptr + layout.offset, buffer, chain)) is None
        or layout.strides[0] < layout.dtype.itemsize
        or not layout.is_aligned
        or layout.nbytes < balance.limit
        or structure.is_flagged
        or structure.wants_index
        or structure.wants_pointer
        or storage.stale is not None
        or (mask | whole[2]) & SHARED
        or here.are_several
        or schedule.room < 0
    ):
        return False
    key = "mirrored", operation, places, layout.dtype
    pairs = structure.plans.get(key)
    if pairs is None:
        pairs = structure.plans[key] = Pairs(operation, structure, places, layout.dtype)
    return pairs.update is not None and attempt(_update, pairs, places, storage, whole, layout, pending, chain)


def _places(layout: Layout, start: int, buffer: Buffer, chain: Value) -> tuple[int, ...] | None:
    """Return how the leaves of a chain lie to what is written.

    None where none is mirrored, or one is read in another order.
    """
    graph, leaves, _ = chain
    places: tuple[int, ...] = ()
    if type(buffer) is not Buffer:
        buffer = buffer.buffer
    for entry, where in zip(leaves, graph.leaves, strict=True):
        if type(where) is not Layout:
            places += (NUMBER,)
            continue
        place = ELSEWHERE if where.strides[0] else ONE
        if entry is buffer or (type(entry) is not Buffer and getattr(entry, "buffer", None) is buffer):
            if is_mirrored(entry.ptr, where, start, layout):
                place = MIRRORED
            elif where.dtype is layout.dtype and where.strides == layout.strides and entry.ptr == start:
                place = SAME
            elif not are_apart(entry.ptr, where, start, layout):
                return None
        places += (place,)
    return places if MIRRORED in places else None


def _update(
    pairs: Pairs,
    places: tuple[int, ...],
    storage: Storage,
    whole: Value,
    layout: Layout,
    pending: Storage,
    chain: Value,
) -> bool:
    """Do what `update` does, in an attempt."""
    graph, leaves, _ = chain
    (step,), itemsize, size = layout.strides, layout.dtype.itemsize, layout.size
    own, each = step // itemsize, graph.layout.dtype.itemsize
    steps: tuple[int, ...] = (own, -own, 1, -1, own, -own)
    for place, where in zip(places, graph.leaves, strict=True):
        if place == ELSEWHERE:
            along = where.strides[0] // where.dtype.itemsize
            steps += (along, -along)
        elif place == ONE:
            steps += (0,)
    count = (size + 1) // 2
    again = pairs.planner.plan_again(count, steps, pairs.alignments)
    launch = None if again is None else anywhere(again[0])
    if launch is None:
        if (steps, config.version) not in pairs.built:
            missing(partial(pairs.build, count, steps))
        return False
    if storage.value is not whole or pending.value is not chain:  # another thread has written to it, or computed that
        return False
    last = size - 1
    start = whole[1][0].ptr + layout.offset
    end = start + last * step
    inputs: tuple[Any, ...] = (start, end)
    for place, where, entry in zip(places, graph.leaves, leaves, strict=True):
        if place == ELSEWHERE:
            ptr = entry.ptr
            inputs += (ptr, ptr + last * where.strides[0])
        elif place >= ONE:
            inputs += (entry.ptr if place == ONE else entry,)
    flush_readers(whole, pending)
    computed = device().allocate(graph.layout.nbytes)
    if storage.value is not whole or pending.value is not chain:  # memory for this may have taken either
        return False
    _, grid, constants = again
    assert pairs.update is not None
    launch(grid, start, end, computed.ptr, computed.ptr + last * each, *inputs, *constants)
    size = balance.ran(layout.nbytes, (whole[1][0], *leaves))
    if size < NUM_SIZES and (is_sampled() or balance.each):
        balance.computed_call(size, (host_nbytes(pairs.update) + host_nbytes(graph.structure)) * layout.size)
    if REPORTS:
        note("device", f"{describe(graph)} into a view", f"{layout.nbytes} B of a device array")
    note_written(storage)
    pending.value = on_device(graph.layout, computed)
    return True
