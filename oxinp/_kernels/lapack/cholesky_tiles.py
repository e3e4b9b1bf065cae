"""Cholesky of one large matrix of f64 by one launch: blocks take tiles of the factor in an order in which they depend.

Data layout: A, its lower triangle row by row in memory, whose rows begin at multiples of 16 bytes; it may have more
rows than columns. In the workspace lie, per row of tiles, how many of its tiles are finished, and a ticket, zeros
before. In shared memory there is a ring of pairs of tiles `DEPTH` columns wide, as in products; in its place later the
tile itself, and the tile on the diagonal that it is solved with.

Who owns what: a block takes the next tile of `SIDE` x `SIDE`, column of tiles by column of tiles, by an atomic ticket,
a warp 16 x 32 of it.

Algorithm: the products of the tiles to the left of it with those to the left of the diagonal are taken off the tile, as
soon as they are finished (left-looking); then a tile on the diagonal is factored, and one below is solved for with that
on the diagonal. Both go by `STRIP` columns: what strips to the left contribute is a product, and the strip itself is in
registers, of a lane one row. Warps that factor a strip have its rows on the diagonal each, and so need no barriers.

A tile waits for tiles with earlier tickets only, so that some block can always go on. Tiles of a row are finished in
order: their number is stored with release behind a barrier that all stores are before, and loaded with acquire before
a barrier that all loads are behind. Every sum has a fixed order: the same input gives the same bits.

Flops: order^3 / 3; the tiles on the diagonal are one chain, of a factorisation, a triangular system and two waits each.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.lapack.cholesky_strips import (
    NUM_FACTORING,
    PITCH,
    SIDE,
    STRIP,
    VECTOR,
    TilesSpec,
    TileStrips,
    pairs,
)
from oxinp._kernels.plan import Argument, Fill, Launch, Work
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.async_copy import AsyncCopies
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import f64, i64, u32, u64

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._kernels.lapack.lu import Stack
    from oxinp._kernels.plan import Scratch, Step
    from oxinp._ptx.value import Value, Var

BLOCK = 256
DEPTH, NUM_STAGES = 16, 4  # of the ring
RING_PITCH = DEPTH + 4  # without bank conflicts of MMA fragments
WIDTH = 32  # columns of a warp
SHARED_NBYTES = 88 << 10  # of a block, and some more


@cache
@retraceable
def make(spec: TilesSpec) -> Kernel:
    """The kernel of a Spec; see `plan`."""
    return _Tiles(spec).build()


class _Tiles(TileStrips):
    """The kernel while it is built."""

    def __init__(self, spec: TilesSpec) -> None:
        self.spec = spec
        target = "sm_90" if spec.mma_rows == STRIP else "sm_80"
        self.k = k = Builder("cholesky_tiles", block=BLOCK, target=target, min_blocks=2)
        self.a, self.status = k.pointer("a", f64), k.pointer("status", u64)
        self.finished, self.ticket = k.pointer("finished", u32), k.pointer("ticket", u32)
        self.source = k.pointer("source", f64)  # may be the matrix itself
        names = ("num_rows", "num_columns", "tiles_down", "tiles_across", "first", "is_clearing")
        self.num_rows, self.num_columns, self.tiles_down, self.tiles_across, self.first, self.is_clearing = (
            k.scalar(name, u32) for name in names
        )
        self.pitch, self.source_pitch = k.scalar("pitch", i64), k.scalar("source_pitch", i64)
        self.ring = k.dynamic_shared(f64, (NUM_STAGES, 2, SIDE * RING_PITCH), align=128)
        self.tile, self.corner = self.ring.at(0), self.ring.at(SIDE * PITCH)
        self.reciprocals = k.dynamic_shared(f64, SIDE)
        self.columns = k.dynamic_shared(f64, NUM_FACTORING * (STRIP + 1) * STRIP)
        self.words = k.dynamic_shared(u32, 2)  # the ticket; how many tiles of both rows are finished
        self.copies = AsyncCopies(k)
        # Of this lane in fragments, of this warp in the tile.
        self.high, self.low = k.lane >> 2, k.lane & 3
        self.warp_row, self.warp_column = k.warp / 2 * STRIP, k.warp % 2 * WIDTH

    def build(self) -> Kernel:
        k = self.k
        zero = k.const(0, u32)
        column, before = k.var(zero), k.var(zero)  # of tiles; tickets of the columns before
        with k.loop():
            number = self.take()
            with k.loop():
                height = self.tiles_down - column
                k.break_if((column >= self.tiles_across) | (number - before < height))
                before.set(before + height)
                column.set(column + 1)
            k.break_if(column >= self.tiles_across)
            self.finish(column + (number - before), column + 0)
        return k.build()

    def take(self) -> Value:
        """Return the ticket of the next tile."""
        k = self.k
        k.barrier()
        with k.when(k.tid == 0):
            self.words[0] = self.ticket.atomic("add", 0, 1)
        k.barrier()
        return self.words[0]

    def finish(self, row: Value, column: Value) -> None:
        """Compute a tile of the factor."""
        k = self.k
        is_corner = row == column
        sums = self.start(row, column)
        self.known = k.var(k.const(0, u32))
        self.multiply(row, column, sums)
        for part, i in self.parts():
            for n in range(WIDTH // 8):
                for half, pair in enumerate(pairs(sums[part][n])):
                    place = (self.warp_row + self.high + (i + 8 * half)) * PITCH + self.warp_column + 2 * self.low
                    self.tile.store(place + 8 * n, [-value.get() for value in pair])
        with k.when(is_corner):
            k.barrier()
            self.factor(row)
        with k.otherwise():
            self.wait(column, column, column + 1)
            self.load_corner(column)
            self.solve()
        self.store(row, column, is_corner)
        k.barrier()
        with k.when(k.tid == 0):
            self.finished.store(k.cast(row, i64), [column + 1], order="release.gpu")

    # -- memory

    def place(self, row: Value, column: Value) -> Value:
        """Where an element is."""
        k = self.k
        return k.cast(row, i64) * self.pitch + k.cast(column, i64)

    def start(self, row: Value, column: Value) -> list[list[list[Var]]]:
        """The elements of the tile, negative; zeros above the diagonal, the identity beyond the columns."""
        k, sums = self.k, self.zeros(WIDTH // 8)
        for part, i in self.parts():
            for n in range(WIDTH // 8):
                for half, pair in enumerate(pairs(sums[part][n])):
                    line = self.warp_row + self.high + (i + 8 * half)
                    first = self.warp_column + 2 * self.low + 8 * n
                    down, along = row * SIDE + line, column * SIDE + first
                    own = self.source.at(k.cast(down, i64) * self.source_pitch + k.cast(along, i64))
                    for step, value in enumerate(pair):
                        number = along + step if step else along
                        with k.when((number <= down) & (down < self.num_rows)):
                            value.set(-own[step])
                        with k.when((number == down) & (down >= self.num_columns)):
                            value.set(k.const(-1, f64))
        return sums

    def store(self, row: Value, column: Value, is_corner: Value) -> None:
        """Store the tile, with zeros above the diagonal."""
        k, units = self.k, SIDE // VECTOR
        for start in range(0, SIDE * units, BLOCK):
            number = k.tid + start if start else k.tid
            line, first = number / units, number % units * VECTOR
            down, along = row * SIDE + line, column * SIDE + first
            values = self.tile.load(line * PITCH + first, VECTOR)
            with k.when(is_corner):
                for step, value in enumerate(values):
                    with k.when((down < self.num_columns) & (along + step < self.num_columns)):
                        element = k.where(first + step <= line, value, k.const(0, f64))
                        self.a[self.place(down, along + step)] = element
            with k.otherwise():
                with k.when(down < self.num_rows):
                    self.a.store(self.place(down, along), list(values))
                self.clear(column * SIDE + line, row * SIDE + first)

    def clear(self, down: Value, along: Value) -> None:
        """Store zeros above the diagonal where these are wanted."""
        k = self.k
        with k.when(self.is_clearing != 0):
            for step in range(VECTOR):
                with k.when(along + step < self.num_rows):
                    self.a[self.place(down, along + step)] = k.const(0, f64)

    def wait(self, row: Value, other: Value, count: Value) -> None:
        """Wait until so many tiles of two rows are finished."""
        k = self.k
        with k.when(self.known < count):
            with k.when(k.tid == 0):
                places = [k.cast(x, i64) for x in (row, other)]
                least = k.var(k.const(0, u32))
                with k.loop():
                    first, second = (self.finished.load(place, order="acquire.gpu")[0] for place in places)
                    least.set(k.min(first, second))
                    k.break_if(least >= count)
                self.words[1] = least.get()
            k.barrier()
            self.known.set(self.words[1])
            k.barrier()

    def load_corner(self, column: Value) -> None:
        """Load a tile on the diagonal, and compute the reciprocals of its diagonal."""
        k, units = self.k, SIDE // VECTOR
        for start in range(0, SIDE * units, BLOCK):
            number = k.tid + start if start else k.tid
            line, first = number / units, number % units * VECTOR
            source = self.a.at(self.place(column * SIDE + line, column * SIDE + first))
            self.copies.start(self.corner.at(line * PITCH + first), source)
        self.copies.commit()
        self.copies.wait()
        k.barrier()
        with k.when(k.tid < SIDE):
            self.reciprocals[k.tid] = k.const(1, f64) / self.corner[k.tid * (PITCH + 1)]
        k.barrier()

    # -- products

    def multiply(self, row: Value, column: Value, sums: list[list[list[Var]]]) -> None:
        """Add the products of the tiles to the left."""
        k = self.k
        per_tile, ahead = SIDE // DEPTH, NUM_STAGES - 1
        count = column * per_tile
        with k.when(count != 0):
            self.wait(row, column, k.const(1, u32))
        for number in range(ahead):
            with k.when(count != 0):  # a tile has more than these
                self.load(row, column, k.const(number, u32))
            self.copies.commit()
        left, right = self.fragment(self.warp_row, RING_PITCH), self.fragment(self.warp_column, RING_PITCH)
        with k.range(k.const(0, u32), count) as block:
            self.copies.wait(ahead - 1)
            k.barrier()
            following = block + ahead
            with k.when(following < count):
                with k.when(following % per_tile == 0):
                    self.wait(row, column, following / per_tile + 1)
                self.load(row, column, following)
            self.copies.commit()
            stage = self.ring.at(block % NUM_STAGES * (2 * SIDE * RING_PITCH))
            pair = stage.at(left), stage.at(right + SIDE * RING_PITCH)
            for step in range(0, DEPTH, self.spec.mma_depth):
                self.add(sums, pair, (RING_PITCH, RING_PITCH), step)
        self.copies.wait()
        k.barrier()

    def load(self, row: Value, column: Value, block: Value) -> None:
        """Start the copies of a pair of tiles of the ring: zeros behind the last row."""
        k, units = self.k, DEPTH // VECTOR
        stage = self.ring.at(block % NUM_STAGES * (2 * SIDE * RING_PITCH))
        line, first = k.tid / units, k.tid % units * VECTOR
        for side, which in enumerate((row, column)):
            for start in range(0, SIDE, BLOCK // units):
                down = which * SIDE + line + start
                is_present = down < self.num_rows
                source = self.a.at(self.place(k.where(is_present, down, k.const(0, u32)), block * DEPTH + first))
                target = stage.at((line + start) * RING_PITCH + first + side * (SIDE * RING_PITCH))
                self.copies.start(target, source, 16, k.where(is_present, k.const(16, u32), 0))


def _spec(*, is_sm90: bool) -> TilesSpec:
    return TilesSpec(STRIP if is_sm90 else STRIP // 2)


def is_possible(stack: Stack, device: Device) -> bool:
    """Whether a matrix is of the type, and lies as, the kernel wants it, and the device has room for it."""
    if stack.type is not f64 or stack.count > 1 or stack.aligned % (VECTOR * f64.nbytes):
        return False
    return device.max_shared_nbytes >= SHARED_NBYTES


class Source(NamedTuple):
    """Where the elements come from that a matrix has before.

    Attributes
    ----------
    place : Argument
        Of the first one.
    pitch : int
        Elements from one row to the next.
    """

    place: Argument
    pitch: int


def plan(
    stack: Stack,
    columns: tuple[int, int],
    source: Source,
    grid: int,
    scratch: Scratch,
    *,
    is_clearing: bool = False,
    is_sm90: bool = True,
) -> tuple[Step, ...]:
    """Return the launches that factor some columns of a matrix, in all rows from the first of them on.

    Parameters
    ----------
    stack : Stack
        See `is_possible`; the first output.
    columns : (int, int)
        Whole tiles where they are not the last ones.
    source : Source
    grid : int
        Most blocks.
    scratch : Scratch
    is_clearing : bool
        Zeros are stored above the diagonal; else only in tiles on it.
    is_sm90 : bool
    """
    low, high = columns
    rows, width = stack.num_rows - low, high - low
    down, across = -(-rows // SIDE), -(-width // SIDE)
    words = scratch.take(4 * (down + 1))
    num_tiles = across * down - across * (across - 1) // 2
    origin = Argument("out0", stack.at(low, low))
    held = source.place.at(low * (source.pitch + 1) * f64.nbytes)
    work = Work(width**3 // 3 + width**2 * (rows - width), (2 * rows - width) * width * f64.nbytes)
    launch = Launch(
        make(_spec(is_sm90=is_sm90)),
        (min(num_tiles, grid), 1, 1),
        (origin, Argument("out1"), words, words.at(4 * down), held),
        (rows, width, down, across, low, int(is_clearing), stack.pitch, source.pitch),
        work,
    )
    return Fill(words, 4 * (down + 1), 0), launch


__all__ = ["SIDE", "Source", "TilesSpec", "is_possible", "make", "plan"]
