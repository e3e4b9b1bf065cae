"""The consumer warps of `sm90_mma`: f64 and c128 by DMMA, f32 by multiply-adds.

Tiles are rows of 128 bytes as TMA swizzles them: within 8 rows, 16-byte chunk c of row r lies at c ^ (r & 7). A row
runs along K, or along M or N; then boxes of as many rows as a k-block has of K follow each other. Every lane loads 16
bytes at a time. Lanes may take rows, columns and elements along K in any order that is the same for A and B along K;
the order here has no bank conflicts.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from oxinp._kernels.gemm.sm90_mma.fragments import DMMA_OPERANDS, Index
from oxinp._kernels.gemm.sm90_mma.spec import DEPTH_F32, DEPTH_F64, DMMA_K, DMMA_M, DMMA_N, VECTOR, WARP
from oxinp._ptx.memory import Pointer
from oxinp._ptx.mma import multiply_f64
from oxinp._ptx.tma import ALIGN, SWIZZLE_NBYTES
from oxinp._ptx.types import f32, f64, i64, u32

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oxinp._kernels.gemm.sm90_mma.spec import MmaSpec
    from oxinp._kernels.gemm.sm90_mma.staged import StagedTile
    from oxinp._ptx import Builder
    from oxinp._ptx.mbarrier import Buffer
    from oxinp._ptx.tile import OperandTile
    from oxinp._ptx.value import Value, Var

FEW_WARPS = 8  # consumer warps per multiprocessor up to which loads are issued ahead
FMA_BOX_NBYTES = DEPTH_F32 * SWIZZLE_NBYTES
LANES = (4, 8)  # lanes along M and N, of multiply-adds
CHUNK_SHIFT = 4  # log2 of the 16 bytes of a chunk


class ConsumerWarp(Protocol):
    """A consumer warp's tile of C."""

    def reset(self) -> None:
        """Clear the accumulators."""

    def begin(self, buffer: Buffer) -> None:
        """Load the fragments that the mainloop needs first."""

    def multiply(self, buffer: Buffer, advance: Callable[[], Buffer]) -> None:
        """Add the products of a k-block; `advance` returns the buffer of the next one, any if there is none."""

    def promote(self) -> None:
        """Add the accumulators to totals in shared memory, and clear them; only if the Spec has totals."""

    def store(self, c: Pointer, row: Value, column: Value, m: Value, n: Value) -> None:
        """Store what is inside C; `row` and `column` are the first of the warp's tile."""


class DmmaConsumer:
    """A warp's tile of C, or of its transpose, by DMMA."""

    def __init__(
        self,
        k: Builder,
        spec: MmaSpec,
        tiles: tuple[OperandTile, OperandTile],
        place: tuple[Value, Value],
        group: Value,
    ) -> None:
        del group  # there is only one
        self.builder, self.spec, self.place = k, spec, place
        a, b = (DMMA_OPERANDS[spec.type](k, tile, first) for tile, first in zip(tiles, place, strict=True))
        self.sides = (
            ((b, spec.warp_n), (a, spec.warp_m)) if spec.is_transposed else ((a, spec.warp_m), (b, spec.warp_n))
        )
        zero = k.const(0.0, f64)
        rows, columns = self.sides[0][1] * len(spec.type.parts) // DMMA_M, self.sides[1][1] // DMMA_N
        self.sums = [[[k.var(zero) for _ in range(4)] for _ in range(columns)] for _ in range(rows)]

    def reset(self) -> None:
        """Clear the accumulators."""
        zero = self.builder.const(0.0, f64)
        for line in self.sums:
            for totals in line:
                for total in totals:
                    total.set(zero)

    def begin(self, buffer: Buffer) -> None:
        """Load the fragments of the first step, which are held from one k-block to the next."""
        k = self.builder
        (left, rows), (right, columns) = self.sides
        at, beside = left.at(buffer), right.at(buffer)
        fragments = (
            [loaded for i in range(rows // left.height) for loaded in left.left(at, i, 0)],
            [loaded for i in range(columns // right.height) for loaded in right.right(beside, i, 0)],
        )
        self.held = [[[k.var(value) for value in fragment] for fragment in side] for side in fragments]

    def multiply(self, buffer: Buffer, advance: Callable[[], Buffer]) -> None:
        """Add the products of a k-block; `advance` returns the buffer of the next one, any if there is none."""
        fragments = [[[variable.get() for variable in fragment] for fragment in side] for side in self.held]
        for step in range(DMMA_K, DEPTH_F64, DMMA_K):
            fragments = self.multiply_step(fragments, buffer, step)
        fragments = self.multiply_step(fragments, advance(), 0)
        for side, values in zip(self.held, fragments, strict=True):
            for held, loaded in zip(side, values, strict=True):
                for variable, value in zip(held, loaded, strict=True):
                    variable.set(value)

    def multiply_step(self, fragments: Any, buffer: Buffer, step: int) -> list[list[list[Value]]]:
        """Add a step's products, and return the fragments of `step`, which are loaded meanwhile."""
        k = self.builder
        (left, _), (right, columns) = self.sides
        at, beside = left.at(buffer), right.at(buffer)
        ahead = left.ahead if self.spec.num_warps * self.spec.blocks_per_sm <= FEW_WARPS else 0
        next_left = [x for i in range(ahead) for x in left.left(at, i, step)]
        next_right = [x for i in range(columns // right.height) for x in right.right(beside, i, step)]
        for i, (loaded, line) in enumerate(zip(fragments[0], self.sums, strict=True)):
            own = left.fragment(loaded)
            for other, totals in zip(fragments[1], line, strict=True):
                for total, value in zip(totals, multiply_f64(k, own, other, totals), strict=True):
                    total.set(value)
            if i + ahead < len(self.sums):
                next_left += left.left(at, i + ahead, step)
        return [next_left, next_right]

    def promote(self) -> None:
        """Do nothing: DMMA has no totals."""

    def store(
        self, c: Pointer, row: Value, column: Value, m: Value, n: Value, staged: StagedTile | None = None
    ) -> None:
        """Store what is inside C; `row` and `column` are the first of the warp's tile."""
        k, spec = self.builder, self.spec
        wide = k.cast(n, i64) if staged is None else staged.pitch
        paired = spec.is_transposed and spec.is_paired and not self.sides[0][0].is_k_major
        width = ALIGN // spec.type.nbytes if paired else 1
        lines = list(self.lines())
        if staged is not None:
            lines = staged.applied(lines, self.place, width)
        # By identity: comparing two of them makes an instruction.
        firsts = {id(at.first): row + at.first for at, _ in lines}
        starts = {id(at.first): c.at(k.cast(column + at.first, i64)) for at, _ in lines[0][1]}

        def put(*, is_whole: bool) -> None:
            for line, cells in lines:
                place = firsts[id(line.first)] + line.distance if line.distance else firsts[id(line.first)]
                with nullcontext() if is_whole else k.when(place < m):
                    beside = k.cast(place, i64) * wide
                    for i in range(0, len(cells), width):
                        at, values = cells[i][0], [value for _, value in cells[i : i + width]]
                        to = starts[id(at.first)].at(beside).at(at.distance)
                        behind = column + at.first + (at.distance + width)
                        with nullcontext() if is_whole else k.when(behind <= n):
                            to.store(0, values)
                        if not is_whole and width > 1:  # with an epilogue, rows end anywhere
                            with k.when(behind == n + 1):
                                to.store(0, values[:1])

        is_whole = (row + spec.warp_m <= m) & (column + spec.warp_n <= n)
        with k.when(is_whole):
            put(is_whole=True)
        with k.otherwise():
            put(is_whole=False)

    def lines(self) -> Iterator[tuple[Index, list[tuple[Index, Value]]]]:
        """Yield what a lane holds of each row of C: the row and (column, value), relative to the warp's tile."""
        k = self.builder
        left, right = (side for side, _ in self.sides)
        high, low = k.lane >> 2, 2 * (k.lane & 3)
        above, beside = left.line(high), [right.line(low), right.line(low + 1)]
        rows = [(Index(above, shift), halves, i) for i in range(len(self.sums)) for shift, halves in left.lines(i)]
        columns = [(Index(beside[i], right.distance(j)), j, i) for j in range(len(self.sums[0])) for i in range(2)]

        def total(i: int, halves: tuple[int, ...], j: int, index: int) -> Value:
            return left.total([self.sums[i][j][2 * half + index].get() for half in halves])

        if self.spec.is_transposed:
            for column, j, index in columns:
                yield column, [(row, total(i, halves, j, index)) for row, halves, i in rows]
        else:
            for row, halves, i in rows:
                yield row, [(column, total(i, halves, j, index)) for column, j, index in columns]


class _FmaOperand:
    """A lane's fragment of an operand for multiply-adds: of `count` lanes along M or N, this one's lines.

    Of a K-major operand, a lane has every `count`-th line; else lines come in fours, of which it has every `count`-th.
    """

    def __init__(self, k: Builder, tile: OperandTile, first: Value, extent: int, lane: Value, count: int) -> None:
        self.builder, self.tile, self.lane, self.count = k, tile, lane, count
        self.extent = extent
        self.is_k_major = tile.major == "k"
        if self.is_k_major:
            self.place = tile.address(k.const(0, u32)) + (first + lane) * SWIZZLE_NBYTES + (lane << CHUNK_SHIFT)
        else:
            self.place = tile.address(k.const(0, u32)) + first * SWIZZLE_NBYTES + (lane << CHUNK_SHIFT)

    def load(self, buffer: Buffer, quad: Value) -> list[list[Value]]:
        """Return, of every line, four elements along K."""
        start = self.place + buffer.at(self.tile.nbytes)
        per_lane = self.extent // self.count
        if self.is_k_major:
            start = start ^ (quad << CHUNK_SHIFT)
            # Of four lanes, lines of odd numbers are the last of eight rows.
            places = [
                self.pointer(start),
                self.pointer(start ^ (self.count << CHUNK_SHIFT) if self.count < 8 else start),
            ]
            step = self.count * DEPTH_F32
            return [list(places[i % 2].load(i * step, VECTOR)) for i in range(per_lane)]
        start = (start ^ ((quad & 1) << (CHUNK_SHIFT + 2))) + quad * (VECTOR * SWIZZLE_NBYTES)
        lines: list[list[Value]] = [[] for _ in range(per_lane)]
        for j in range(VECTOR):
            row = start ^ (j << CHUNK_SHIFT) if j else start
            places = [self.pointer(row), self.pointer(row ^ (self.count << CHUNK_SHIFT) if self.count < 8 else row)]
            for i in range(0, per_lane, VECTOR):
                chunk = i // VECTOR * self.count
                place = places[chunk // self.count % 2 if self.count < 8 else 0]
                offset = chunk // 8 * FMA_BOX_NBYTES + j * SWIZZLE_NBYTES
                for line, value in zip(lines[i : i + VECTOR], place.offset_bytes(offset).load(0, VECTOR), strict=True):
                    line.append(value)
        return lines

    def pointer(self, place: Value) -> Pointer:
        """Return a pointer to f32 in shared memory."""
        return Pointer(self.builder, place, f32, "shared", "r")

    def line(self, number: int) -> Value:
        """Return the index along M or N of the lane's line with this number."""
        if self.is_k_major:
            return self.lane + self.count * number
        return self.lane * VECTOR + (number // VECTOR * self.count * VECTOR + number % VECTOR)


class FmaConsumer:
    """A warp's tile of C in f32, by multiply-adds of lanes as 4 x 8; groups along K take every other four of K."""

    def __init__(
        self,
        k: Builder,
        spec: MmaSpec,
        tiles: tuple[OperandTile, OperandTile],
        place: tuple[Value, Value],
        group: Value,
    ) -> None:
        self.builder, self.spec, self.group = k, spec, group
        # Half a warp loads four rows and four columns.
        lanes = ((k.lane >> 1) & 3, (k.lane & 1) | (k.lane >> 3 << 1))
        self.rows, self.columns = (
            _FmaOperand(k, tile, first, extent, lane, count)
            for tile, first, extent, lane, count in zip(
                tiles, place, (spec.warp_m, spec.warp_n), lanes, LANES, strict=True
            )
        )
        zero = k.const(0.0, f32)
        counts = (spec.warp_m // LANES[0], spec.warp_n // LANES[1])
        self.sums = [[k.var(zero) for _ in range(counts[1])] for _ in range(counts[0])]
        # The vectors of a thread's totals lie `num_threads` vectors apart.
        self.num_threads = spec.num_warps * WARP
        self.totals = k.dynamic_shared(f32, (counts[0] * counts[1], self.num_threads), align=16)
        self.thread = k.tid - (spec.block - self.num_threads)

    def reset(self) -> None:
        """Clear the accumulators."""
        zero = self.builder.const(0.0, f32)
        for line in self.sums:
            for total in line:
                total.set(zero)
        for place, _ in self._vectors():
            place.store(0, [zero] * VECTOR)

    def _vectors(self) -> Iterator[tuple[Pointer, list[Var]]]:
        flat = [total for line in self.sums for total in line]
        own = self.totals.at(self.thread * VECTOR)
        for i in range(0, len(flat), VECTOR):
            yield own.at(i * self.num_threads), flat[i : i + VECTOR]

    def begin(self, buffer: Buffer) -> None:
        """Do nothing: no fragments are held."""

    def multiply(self, buffer: Buffer, advance: Callable[[], Buffer]) -> None:
        """Add the products of a k-block; `advance` returns the buffer of the next one, any if there is none."""
        k = self.builder
        groups = self.spec.num_k_groups
        with k.range(self.group, DEPTH_F32 // VECTOR, 2 * groups) as quad:
            self.multiply_quad(buffer, quad)
            self.multiply_quad(buffer, quad + groups)
        advance()

    def multiply_quad(self, buffer: Buffer, quad: Value) -> None:
        """Add the products of four elements along K."""
        k = self.builder
        rows, columns = self.rows.load(buffer, quad), self.columns.load(buffer, quad)
        for step in range(VECTOR):
            for i, (row, line) in enumerate(zip(rows, self.sums, strict=True)):
                # Back and forth: the column that was used last is used first again.
                pairs = list(zip(columns, line, strict=True))
                for column, total in reversed(pairs) if i % 2 else pairs:
                    total.set(k.fma(row[step], column[step], total))

    def promote(self) -> None:
        """Add the accumulators to the totals, and clear them."""
        zero = self.builder.const(0.0, f32)
        for place, sums in self._vectors():
            place.store(0, [total + own for total, own in zip(place.load(0, VECTOR), sums, strict=True)])
            for own in sums:
                own.set(zero)

    def store(self, c: Pointer, row: Value, column: Value, m: Value, n: Value) -> None:
        """Add up the totals of the groups along K, and store what is inside C; each group stores some rows."""
        k, spec = self.builder, self.spec
        consumers = (1, self.num_threads)
        k.barrier(*consumers)
        wide = k.cast(n, i64)
        num_rows, num_columns = len(self.sums) // spec.num_k_groups, len(self.sums[0])
        height = spec.warp_m // spec.num_k_groups
        # Totals of the thread in the same place of the first group, from this group's share of rows on.
        per_group = self.num_threads // spec.num_k_groups
        first = self.totals.at((self.thread - self.group * per_group) * VECTOR)
        first = first.at(self.group * (num_rows * num_columns * self.num_threads))
        width = VECTOR if spec.is_paired and not self.columns.is_k_major else 1
        for i in range(num_rows):
            place = row + self.group * height + self.rows.line(i)
            with k.when(place < m):
                line = c.at(k.cast(place, i64) * wide)
                for j in range(0, num_columns, VECTOR):
                    at = first.at((i * num_columns + j) * self.num_threads)
                    groups = [at.at(group * per_group * VECTOR).load(0, VECTOR) for group in range(spec.num_k_groups)]
                    values = list(groups[0])
                    for others in groups[1:]:
                        values = [value + other for value, other in zip(values, others, strict=True)]
                    for shift in range(0, VECTOR, width):
                        beside = column + self.columns.line(j + shift)
                        with k.when(beside < n):
                            line.at(k.cast(beside, i64)).store(0, values[shift : shift + width])
        k.barrier(*consumers)


__all__ = ["ConsumerWarp", "DmmaConsumer", "FmaConsumer"]
