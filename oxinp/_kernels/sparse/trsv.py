"""Triangular systems in CSR, without synchronisation between levels.

Data layout: CSR, right-hand side, solution; several right-hand sides by rows. Who owns what: a thread, or a warp where
rows are long, owns a row; of several right-hand sides a warp owns a row of 32, a lane each. Warps, or blocks, take rows
by an atomic ticket, in the order of levels, so that whatever a row waits for is running, and what is running waits for
little. `LevelSpec` finds these: one more than the highest level that a row waits for; there, rows are taken as they
come, and lanes pass levels on by shuffles.

Algorithm: the solution begins as bytes of ones, which no computed number is; a thread that needs an element reads it
until it is another one, without an order with other memory, for the element itself is what it waits for. A thread loads
all that a row needs before it waits. It looks once per round of its loop and stores its own element in there, so that
lanes of a warp may wait for each other. A thread's sum is in the order of its row, a warp's of one is a tree: the same
bits every time. Bytes: the matrix once, and with several right-hand sides per element of the matrix a row of the
solution from the caches.

Source: W. Liu et al., A synchronization-free algorithm for parallel sparse triangular solves, Euro-Par 2016.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.plan import Fill, Launch, Plan, Scratch, Work, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sparse.types import BLOCK
from oxinp._ptx import Builder, Kernel, warp_reduce
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i32, i64, u32, u64
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

LONG = 48  # mean length of rows from which a warp has one
ALL_ONES = 0xFF
UNROLL = 4
"""Elements of a row that are looked up at a time."""
MIN_BLOCKS = 32
LEVELS_AHEAD = 8
"""Levels whose rows are taken at a time, in an order: what waits reads all the time, which makes others slow."""


class TrsvSpec(Frozen):
    """One kernel.

    Attributes
    ----------
    index, value : Type
        `value` is that of matrix, right-hand side and solution.
    lanes : int
        Of a row: 1 or 32.
    is_lower : bool
        Which triangle counts; elements in the other one are passed over.
    has_unit_diagonal : bool
        The diagonal is ones, whatever is stored.
    """

    index: Type
    value: Type
    lanes: int
    is_lower: bool
    has_unit_diagonal: bool


class LevelSpec(Frozen):
    """The kernel that finds the levels of rows, i32; attributes as of `TrsvSpec`."""

    index: Type
    is_lower: bool


def levels(num_rows: int, spec: LevelSpec) -> Plan:
    """Return the plan of levels; inputs are indptr and indices."""
    scratch = Scratch()
    ticket = scratch.take(u32.nbytes)
    (out,), given = outputs(1), inputs(2)
    return scratch.plan(
        (
            Fill(ticket, u32.nbytes, 0),
            Fill(out, num_rows * i32.nbytes, ALL_ONES),
            Launch(make(spec), (-(-num_rows // BLOCK), 1, 1), (out, ticket, *given), (num_rows,)),
        )
    )


def blocks_for(num_blocks: int, num_levels: int) -> int:
    """Return how many blocks work on rows by levels; `num_blocks` of them would have all rows at a time."""
    return min(num_blocks, max(MIN_BLOCKS, num_blocks * LEVELS_AHEAD // num_levels))


def plan(num_rows: int, count: int, spec: TrsvSpec, num_levels: int) -> Plan:
    """Return the plan of a solve; inputs are indptr, indices, data, right-hand side and the order of `num_levels`.

    The Spec's lanes are chosen.
    """
    spec = spec.replace(lanes=WARP if count >= LONG * num_rows else 1)
    scratch = Scratch()
    ticket = scratch.take(u32.nbytes)
    (x,), given = outputs(1), inputs(5)
    nbytes = count * (spec.index.nbytes + spec.value.nbytes) + num_rows * (spec.index.nbytes + 2 * spec.value.nbytes)
    num_blocks = -(-num_rows * spec.lanes // BLOCK)
    grid = (blocks_for(num_blocks, num_levels), 1, 1)
    return scratch.plan(
        (
            Fill(ticket, u32.nbytes, 0),
            Fill(x, num_rows * spec.value.nbytes, ALL_ONES),
            Launch(make(spec), grid, (x, ticket, *given), (num_rows,), Work(2 * count, nbytes)),
        )
    )


class TrsmSpec(Frozen):
    """The kernel for several right-hand sides; attributes as of `TrsvSpec`."""

    index: Type
    value: Type
    is_lower: bool
    has_unit_diagonal: bool


def plan_many(num_rows: int, num_right: int, count: int, spec: TrsmSpec) -> Plan:
    """Return the plan of a solve with `num_right` right-hand sides; inputs as of `plan`."""
    scratch = Scratch()
    ticket = scratch.take(u32.nbytes)
    (x,), given = outputs(1), inputs(5)
    tiles = -(-num_right // WARP)
    nbytes = count * (spec.index.nbytes + spec.value.nbytes) + 2 * num_rows * num_right * spec.value.nbytes
    work = Work(2 * count * num_right, nbytes)
    grid = (-(-num_rows // (BLOCK // WARP)) * tiles, 1, 1)
    return scratch.plan(
        (
            Fill(ticket, u32.nbytes, 0),
            Fill(x, num_rows * num_right * spec.value.nbytes, ALL_ONES),
            Launch(make(spec), grid, (x, ticket, *given), (num_rows, num_right, tiles), work),
        )
    )


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: TrsvSpec | TrsmSpec | LevelSpec) -> Kernel:
    """Build the kernel of a Spec."""
    if isinstance(spec, LevelSpec):
        return _levels(spec)
    return _one(spec) if isinstance(spec, TrsvSpec) else _many(spec)


def _levels(spec: LevelSpec) -> Kernel:
    index = spec.index
    k = Builder("sparse_levels", block=BLOCK)
    out, ticket = k.pointer("out", i32), k.pointer("ticket", u32)
    indptr, indices = (k.pointer(name, index, "r") for name in ("indptr", "indices"))
    num_rows = k.scalar("num_rows", index)
    turn = k.var(k.const(0, u32))
    with k.when(k.lane == 0):
        turn.set(ticket.atomic("add", 0, 1))
    k.warp_sync()
    number = k.cast(k.shfl_idx(turn.get(), 0), index) * WARP
    mine = number + k.cast(k.lane, index)
    has_row, near = mine < num_rows, k.min(mine, num_rows - 1)
    row, first = (each if spec.is_lower else num_rows - 1 - each for each in (near, number))
    place = k.var(indptr[row])
    end = k.where(has_row, indptr[row + 1], place.get())
    level, is_over, column = k.var(-1, i32), k.var(k.const(0, u32)), k.var(row)

    def move(to: Value) -> None:
        place.set(to)
        with k.when(to < end):
            column.set(indices[to])

    def use(found: Value) -> None:
        level.set(k.max(level.get(), found))
        move(place + 1)

    move(place.get())
    with k.loop():
        before, over = place.get(), k.ballot(is_over != 0)
        is_near, lane = _lane_of(column.get(), first, is_lower=spec.is_lower)
        theirs = k.shfl_idx(k.emit("mov", level), lane)
        counts = column < row if spec.is_lower else column > row
        is_there = is_near & ((k.shr(over, lane) & 1) != 0)
        with k.when((before < end) & (is_there | ~counts)):
            use(k.where(counts, theirs, k.const(-1, i32)))
        finishes = (place >= end) & (is_over == 0)
        leads_on = finishes | (place != before)
        with k.when(finishes):
            level.set(level + 1)
            is_over.set(k.const(1, u32))
            with k.when(has_row):
                out.store(row, [level.get()], order="relaxed.gpu")
        k.warp_sync()
        k.break_if(k.all(is_over != 0))
        with k.when(~k.any(leads_on) & (place < end) & ~is_near):
            found = out.load(column, order="relaxed.gpu")[0]
            with k.when(found >= 0):
                use(found)
        k.warp_sync()
    return k.build()


def _many(spec: TrsmSpec) -> Kernel:
    index, value = spec.index, spec.value
    k = Builder("sparse_trsm", block=BLOCK)
    x, ticket = k.pointer("x", value), k.pointer("ticket", u32)
    indptr, indices = (k.pointer(name, index, "r") for name in ("indptr", "indices"))
    data, b, order = k.pointer("data", value, "r"), k.pointer("b", value, "r"), k.pointer("order", index, "r")
    num_rows, num_right, tiles = k.scalar("num_rows", index), k.scalar("num_right", i64), k.scalar("tiles", u32)
    turn = k.shared(u32, 1)
    with k.when(k.tid == 0):
        turn[0] = ticket.atomic("add", 0, 1)
    k.barrier()
    group = turn[0] / tiles
    right = k.cast((turn[0] - group * tiles) * WARP + k.lane, i64)
    number = k.cast(group, index) * (BLOCK // WARP) + k.cast(k.warp, index)
    with k.when((number < num_rows) & (right < num_right)):
        row = order[number]
        begin, end = indptr[row], indptr[row + 1]
        total, pivot = k.var(k.const(0, value)), k.var(k.const(0, value))
        with k.range(begin, end, UNROLL) as first:
            places = [k.min(first + i, end - 1) for i in range(UNROLL)]
            columns, elements = [indices[at] for at in places], [data[at] for at in places]
            at_x = [k.cast(column, i64) * num_right + right for column in columns]
            looks = [_known(k, spec, x, each) for each in at_x]
            for i, (column, element) in enumerate(zip(columns, elements, strict=True)):
                counts = (column < row if spec.is_lower else column > row) & (first + i < end)
                is_known, found = k.var(looks[i][0]), k.var(looks[i][1])
                with k.when(counts):
                    with k.loop():
                        k.break_if(is_known.get())
                        again = _known(k, spec, x, at_x[i])
                        is_known.set(again[0])
                        found.set(again[1])
                    total.set(total - element * found)
                if not spec.has_unit_diagonal:
                    with k.when((column == row) & (first + i < end)):
                        pivot.set(pivot + element)
        to = k.cast(row, i64) * num_right + right
        left = b[to] + total
        _store(k, spec, x, to, left if spec.has_unit_diagonal else left / k.emit("mov", pivot))
    return k.build()


def _one(spec: TrsvSpec) -> Kernel:
    index, value, lanes = spec.index, spec.value, spec.lanes
    k = Builder("sparse_trsv", block=BLOCK)
    x, ticket = k.pointer("x", value), k.pointer("ticket", u32)
    indptr, indices = (k.pointer(name, index, "r") for name in ("indptr", "indices"))
    data, b, order = k.pointer("data", value, "r"), k.pointer("b", value, "r"), k.pointer("order", index, "r")
    num_rows = k.scalar("num_rows", index)
    with k.loop():
        turn = k.var(k.const(0, u32))
        with k.when(k.lane == 0):
            turn.set(ticket.atomic("add", 0, 1))
        k.warp_sync()
        number = k.cast(k.shfl_idx(turn.get(), 0), index) * (WARP // lanes)
        k.break_if(number >= num_rows)
        mine = number + k.cast(k.lane / lanes, index)
        has_row = mine < num_rows
        row = order[k.min(mine, num_rows - 1)]
        begin, right = indptr[row], b[row]
        end = k.where(has_row, indptr[row + 1], begin)
        window = _Window(k, spec, (x, indices, data), row, end)
        window.load(begin + k.cast(k.lane % lanes, index))
        if lanes == 1:
            with k.loop():
                window.poll()
                window.use()
                with k.when(window.is_done() & has_row):
                    _store(k, spec, x, row, window.solved(right))
                k.break_if(window.is_done())
        else:
            with k.loop():
                window.poll()
                window.use()
                k.break_if(k.all(window.is_done()))
            k.warp_sync()
            for each in (window.total, window.pivot):
                each.set(warp_reduce(k, k.emit("mov", each), lambda p, q: p + q))
            with k.when(has_row & (k.lane == 0)):
                _store(k, spec, x, row, window.solved(right))
        k.warp_sync()
    return k.build()


def _lane_of(column: Value, first: Value, *, is_lower: bool) -> tuple[Value, Value]:
    """Return whether a warp, whose lane 0 has the row `first`, has a column's row, and the number of its lane."""
    k = column.builder
    distance = column - first if is_lower else first - column
    return (distance >= 0) & (distance < WARP), k.cast(distance & (WARP - 1), u32)


class _Window:
    """Elements of a row that a thread has loaded, and looks up in the solution until all of these are known.

    Elements are subtracted in the order of the row, when all of a window are there.
    """

    def __init__(
        self, k: Builder, spec: TrsvSpec, arrays: tuple[Pointer, Pointer, Pointer], row: Value, end: Value
    ) -> None:
        self.k, self.spec, self.row, self.end = k, spec, row, end
        self.x, self.indices, self.data = arrays
        self.first = k.var(end)
        self.missing = k.var(k.const(0, u32))
        self.total, self.pivot = (k.var(k.const(0, spec.value)) for _ in range(2))
        self.columns = [k.var(row) for _ in range(UNROLL)]
        self.elements, self.found = ([k.var(k.const(0, spec.value)) for _ in range(UNROLL)] for _ in range(2))

    def load(self, first: Value) -> None:
        """Load the elements from a place on, if there is one."""
        k, spec = self.k, self.spec
        self.first.set(first)
        with k.when(first < self.end):
            places = [k.min(first + i * spec.lanes, self.end - 1) for i in range(UNROLL)]
            columns, elements = [self.indices[at] for at in places], [self.data[at] for at in places]
            nothing, missing = k.const(0, spec.value), k.const(0, u32)
            for i, (column, element) in enumerate(zip(columns, elements, strict=True)):
                is_there = first + i * spec.lanes < self.end
                counts = is_there & (column < self.row if spec.is_lower else column > self.row)
                missing = missing | k.where(counts, k.const(1 << i, u32), k.const(0, u32))
                self.columns[i].set(column)
                self.elements[i].set(k.where(counts, element, nothing))
                self.found[i].set(nothing)
                if not spec.has_unit_diagonal:
                    self.pivot.set(k.where(is_there & (column == self.row), self.pivot + element, self.pivot.get()))
            self.missing.set(missing)

    def poll(self) -> None:
        """Look up what is missing, all at once."""
        k = self.k
        with k.when(self.missing != 0):
            looks = [_known(k, self.spec, self.x, column.get()) for column in self.columns]
            for i, (is_known, value) in enumerate(looks):
                self._find(i, is_known, value)

    def _find(self, i: int, is_known: Value, value: Value) -> None:
        k, bit = self.k, 1 << i
        is_new = is_known & ((self.missing & bit) != 0)
        self.found[i].set(k.where(is_new, value, self.found[i].get()))
        self.missing.set(self.missing ^ k.where(is_new, k.const(bit, u32), k.const(0, u32)))

    def use(self) -> None:
        """Subtract the window's elements if none is missing any more, and load the next ones."""
        k = self.k
        with k.when((self.missing == 0) & (self.first < self.end)):
            for element, found in zip(self.elements, self.found, strict=True):
                self.total.set(self.total - element * found)
            self.load(self.first + UNROLL * self.spec.lanes)

    def solved(self, right: Value) -> Value:
        """Return the element of the solution."""
        left = right + self.total
        return left if self.spec.has_unit_diagonal else left / self.k.emit("mov", self.pivot)

    def is_done(self) -> Value:
        """Return whether all elements are subtracted."""
        return (self.missing == 0) & (self.first >= self.end)


def _known(k: Builder, spec: TrsvSpec | TrsmSpec, x: Pointer, at: Value) -> tuple[Value, Value]:
    """Return whether an element of the solution is there, and the element."""
    word = u64 if spec.value.parts[0].bits == 64 else u32
    count = spec.value.nbytes // word.nbytes
    words = [x.view(word).load(k.cast(at, i64) * count + i, 1, order="relaxed.gpu")[0] for i in range(count)]
    is_known = words[0] != (1 << word.bits) - 1
    for each in words[1:]:
        is_known = is_known & (each != (1 << word.bits) - 1)
    parts = [k.bitcast(each, part) for each, part in zip(words, spec.value.parts, strict=True)]
    return is_known, parts[0] if len(parts) == 1 else k.compound(spec.value, *parts)


def _store(k: Builder, spec: TrsvSpec | TrsmSpec, x: Pointer, at: Value, solved: Value) -> None:
    """Publish an element of the solution."""
    word = u64 if spec.value.parts[0].bits == 64 else u32
    count = len(solved.parts)
    for i, part in enumerate(solved.parts):
        x.view(word).store(k.cast(at, i64) * count + i, [k.bitcast(part, word)], order="relaxed.gpu")


__all__ = ["LevelSpec", "TrsmSpec", "TrsvSpec", "blocks_for", "levels", "make", "plan", "plan_many"]
