"""Matrix multiply of f32 or c64 by fp16x2, three f16 products by wgmma on Hopper: C = A @ B.

Data layout: A is (M, K), B is (K, N), each as two f16 arrays, `hi` and `lo`, whose sum is the matrix scaled by a power
of two per row of A and per column of B (see `convert`); either axis is contiguous. Of complex matrices the real parts
come first, then, along M or N, the imaginary ones. C is (M, N) in C order. In shared memory there is a ring of
`num_stages` k-blocks of four tiles, swizzled as wgmma reads them.

Who owns what: persistent blocks of two consumer warpgroups and a producer warp. Each warpgroup owns 64 rows of C, twice
in registers: accumulators and totals. One thread of the last warp keeps the ring full. In a cluster of two, the blocks
work on tiles one above the other; one block multicasts the common `hi` of B, the other its `lo`. The tile is as large
as 168 registers per thread allow: the driver's linker ignores setmaxnreg.

Algorithm: per k-block, accumulators = lo hi + hi lo + hi hi; then they are added to the totals. wgmma truncates what it
adds instead of rounding it: over `DEPTH` of K that is less than what f32 sums lose, over a whole row it would be ten
times more. At the end the totals are scaled back and stored. A complex tile of B is its real columns beside its
imaginary ones, so that one wgmma computes both products with the real rows of A; those with the imaginary rows are
added to the totals crosswise, one of them negated.

Where the guard is not 0, the kernel does nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from oxinp._kernels.gemm.fp16x2.convert import padded
from oxinp._kernels.gemm.fp16x2.scaling import scaled, unscaling_exponent
from oxinp._kernels.gemm.sm90_wgmma.scheduler import NUM_CONSUMERS, ROWS, STEPS, TILE_M, TileScheduler
from oxinp._kernels.gemm.sm90_wgmma.spec import NAMES
from oxinp._kernels.plan import Argument, Launch, Plan, inputs, outputs
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.mbarrier import Consumer, Pipeline, Producer
from oxinp._ptx.memory import Pointer
from oxinp._ptx.synchronize import follow
from oxinp._ptx.tile import OperandTile, operand_box
from oxinp._ptx.tma import TensorMap, matrix_map
from oxinp._ptx.types import Type, f16, f32, i32, i64, u32
from oxinp._ptx.wgmma import WARPGROUP, Accumulator, Queue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._ptx.mbarrier import Slot
    from oxinp._ptx.value import Value

DEPTH = 64  # of K per k-block
WIDTH = 128  # accumulators of a row of a tile of C
WARP = 32
TERMS = (("lo", "hi"), ("hi", "lo"), ("hi", "hi"))  # the smallest first


@dataclass(frozen=True, slots=True)
class Fp16x2Spec:
    """One kernel of the family (sm_90a).

    Attributes
    ----------
    a_major, b_major : str
        The contiguous axis of each: ``"k"`` or ``"mn"``.
    has_pairs : bool
        The columns of C are even in number, and stored in pairs.
    type : Type
        f32 or c64.
    cluster : int
        2.
    """

    a_major: str
    b_major: str
    has_pairs: bool
    type: Type = f32
    cluster: int = 2

    @property
    def name(self) -> str:
        """Entry name."""
        majors = NAMES[self.a_major] + NAMES[self.b_major]
        return f"gemm_split_{self.type}_{majors}{'_v2' if self.has_pairs else ''}"

    @property
    def num_reals(self) -> int:
        """Real numbers per element."""
        return len(self.type.parts)

    @property
    def num_columns(self) -> int:
        """Columns of C per tile."""
        return WIDTH // self.num_reals

    @property
    def num_stages(self) -> int:
        """K-blocks in the ring."""
        return 3 if self.num_reals == 1 else 2

    def extent(self, name: str) -> int:
        """Return rows or columns of an operand per tile, of real and imaginary parts."""
        return TILE_M * self.num_reals if name.startswith("a") else WIDTH

    def major(self, name: str) -> str:
        """Return the contiguous axis of an operand."""
        return self.a_major if name.startswith("a") else self.b_major


def plan(spec: Fp16x2Spec, m: int, n: int, depth: int, num_sms: int) -> Plan:
    """Return the plan of C (m, n) = A (m, depth) @ B (depth, n): one launch.

    The inputs are the largest magnitudes of A's rows and of B's columns (i32 bits), the guard, then the terms of A, hi
    and lo, and those of B.

    The contiguous axes of these, of either part, are padded to multiples of 8 elements, with zeros where they run along
    K.
    """
    maps, planes = [], []
    parts = spec.num_reals
    for name, extent, major in (("a", m, spec.a_major), ("b", n, spec.b_major)):
        run = padded(depth if major == "k" else extent)
        shape = (parts * extent, run) if major == "k" else (depth, parts * run)
        box = operand_box(f16, spec.extent(name), DEPTH, major, parts)
        maps.append(matrix_map(f16, shape, shape[1] * f16.nbytes, box))
        planes.append(extent if major == "k" else run)
    num_m = -(-m // (TILE_M * spec.cluster)) * spec.cluster
    num_n, num_k = -(-n // (WIDTH // parts)), -(-depth // DEPTH)
    blocks = min(num_sms // spec.cluster * spec.cluster, num_m * num_n)
    constants = (num_m, num_n, num_k, m, n, *(planes if parts > 1 else ()))
    a_map, b_map = maps
    terms = [Argument(x[0], 0, each) for x, each in zip(inputs(4, 3), (a_map, a_map, b_map, b_map), strict=True)]
    return Plan((Launch(make(spec), (blocks, 1, 1), (*outputs(1), *inputs(3), *terms), constants),))


@cache
@retraceable
def make(spec: Fp16x2Spec) -> Kernel:
    """Return the kernel of a Spec; for its parameters see `plan`."""
    k = Builder(
        spec.name,
        block=NUM_CONSUMERS * WARPGROUP + WARP,
        target="sm_90a",
        min_blocks=1,
        cluster=spec.cluster,
    )
    c = k.pointer("c", spec.type, "w")
    maxima = [k.pointer(name, i32, "r") for name in ("a_max", "b_max")]
    guard = k.pointer("guard", u32, "r")
    maps = {name: TensorMap(k, name, 2) for name in ("a_hi", "a_lo", "b_hi", "b_lo")}
    tiles = TileScheduler(k, spec.cluster, spec.num_columns)
    extents = (k.scalar("m", u32), k.scalar("n", u32))
    planes = {name: k.scalar(f"{name}_plane", u32) for name in "ab"} if spec.num_reals > 1 else {}
    operands = {
        name: OperandTile(k, f16, spec.extent(name), DEPTH, spec.major(name), spec.num_stages, spec.num_reals)
        for name in maps
    }
    pipeline = Pipeline(k, spec.num_stages, NUM_CONSUMERS, sum(tile.nbytes for tile in operands.values()))
    follow(k)
    tiles.num_m = k.where(guard[0] == 0, tiles.num_m, 0)
    # The same in all lanes of a warp, and the shuffle lets the compiler know.
    warp = k.shfl_idx(k.tid >> 5, 0)
    with k.when(warp == NUM_CONSUMERS * WARPGROUP // WARP), k.when(k.lane == 0):
        _Producer(k, spec, maps, operands, planes).run(tiles, Producer(pipeline))
    with k.otherwise():
        _ConsumerWarpgroup(k, spec, tiles, operands, warp >> 2, Consumer(pipeline, k.tid & (WARPGROUP - 1))).run(
            _UnscaledStore(k, spec, c, maxima, extents)
        )
    pipeline.close()
    return k.build()


class _Producer:
    """The producer thread."""

    def __init__(
        self,
        k: Builder,
        spec: Fp16x2Spec,
        maps: dict[str, TensorMap],
        operands: dict[str, OperandTile],
        planes: dict[str, Value],
    ) -> None:
        self.k, self.spec, self.maps, self.operands, self.planes = k, spec, maps, operands, planes

    def run(self, tiles: TileScheduler, producer: Producer) -> None:
        """Load the k-blocks of this block's tiles."""
        k = self.k
        for tensor_map in self.maps.values():
            tensor_map.prefetch()
        with tiles.each() as (row, column), k.range(0, tiles.num_k) as step:
            slot = producer.acquire()
            start = step * DEPTH
            for name in ("a_hi", "a_lo"):
                self.load(name, slot, row, start)
            with k.when(tiles.rank == 0):
                self.load("b_hi", slot, column, start, multicast=0b11)
            with k.otherwise():
                self.load("b_lo", slot, column, start, multicast=0b11)

    def load(self, name: str, slot: Slot, extent: Value, depth: Value, multicast: int = 0) -> None:
        """Start the TMA loads of a tile, real parts and imaginary parts."""
        tile = self.operands[name]
        tile.load(self.maps[name], slot, extent, depth, 0, multicast)
        if self.spec.num_reals > 1:
            # The tile's second half comes from the second plane.
            extent = extent + self.planes[name[0]] - self.spec.extent(name) // 2
            tile.load(self.maps[name], slot, extent, depth, 1, multicast)


class _ConsumerWarpgroup:
    """A consumer warpgroup."""

    def __init__(
        self,
        k: Builder,
        spec: Fp16x2Spec,
        tiles: TileScheduler,
        operands: dict[str, OperandTile],
        number: Value,
        consumer: Consumer,
    ) -> None:
        self.k, self.spec, self.tiles, self.operands, self.consumer = k, spec, tiles, operands, consumer
        self.first_row = number * ROWS
        self.queue = Queue(k)
        self.sums: Accumulator = self.queue.accumulator(WIDTH)
        self.totals = [k.var(0.0, f32) for _ in range(WIDTH // 2)]

    def run(self, result: _UnscaledStore) -> None:
        """Compute and store this block's tiles."""
        k, tiles = self.k, self.tiles
        with tiles.each() as (row, column):
            for total in self.totals:
                total.set(k.const(0.0, f32))
            with k.range(0, tiles.num_k):
                self.multiply()
            result.store(self.totals, row + self.first_row, column)

    def multiply(self) -> None:
        """Add the products of the next k-block to the totals."""
        stage = self.consumer.acquire()
        for part in range(self.spec.num_reals):
            first = self.first_row + part * TILE_M if part else self.first_row
            self.sums.reset()
            with self.queue.group():
                for a, b in TERMS:
                    left, right = self.operands[f"a_{a}"], self.operands[f"b_{b}"]
                    self.sums.multiply(left.rows(stage, first), right.rows(stage), STEPS, f16)
            self.queue.wait()
            if part == self.spec.num_reals - 1:
                self.consumer.release()
            self.promote(is_crosswise=part == 1)

    def promote(self, *, is_crosswise: bool) -> None:
        """Add the accumulators to the totals; products with imaginary parts crosswise, those of two of them negated."""
        half = len(self.totals) // 2
        sums = [value for _, _, *values in self.sums.pairs() for value in values]
        for number, value in enumerate(sums):
            total = self.totals[(number + half) % len(sums) if is_crosswise else number]
            total.set(total - value if is_crosswise and number >= half else total + value)


class _UnscaledStore:
    """Scales totals back and stores them to C."""

    def __init__(
        self, k: Builder, spec: Fp16x2Spec, c: Pointer, maxima: list[Pointer], extents: tuple[Value, Value]
    ) -> None:
        self.k, self.spec, self.c, self.maxima = k, spec, c, maxima
        self.m, self.n = extents
        thread = k.tid & (WARPGROUP - 1)
        self.own_row = (thread >> 5) * 16 + ((thread >> 2) & 7)
        self.own_column = (thread & 3) * 2

    def store(self, totals: Sequence[Value], row: Value, column: Value) -> None:
        """Scale 64 rows of totals back, and store what is inside C from element (`row`, `column`) on."""
        k = self.k
        a_max, b_max = self.maxima
        rows = [row + self.own_row + 8 * i for i in range(2)]
        row_exponents = [unscaling_exponent(k, a_max[k.min(r, self.m - 1)]) for r in rows]
        lines = [self.c.at(k.cast(r, i64) * k.cast(self.n, i64)) for r in rows]
        plane = len(totals) // self.spec.num_reals
        for j in range(self.spec.num_columns // 8):
            first = column + self.own_column + 8 * j
            columns = [first, first + 1]
            exponents = [unscaling_exponent(k, b_max[k.min(at, self.n - 1)]) for at in columns]
            for i in range(2):
                values = []
                for own, exponent in enumerate(exponents):
                    parts = [
                        scaled(k, total, k.max(row_exponents[i] + exponent, -252))
                        for total in totals[4 * j + 2 * i + own :: plane]
                    ]
                    values.append(parts[0] if len(parts) == 1 else k.compound(self.spec.type, *parts))
                with k.when(rows[i] < self.m):
                    self.write(lines[i], columns, values)

    def write(self, line: Pointer, columns: list[Value], values: list[Value]) -> None:
        """Store two neighbours of a row, as far as they are inside."""
        k = self.k
        if self.spec.has_pairs:
            with k.when(columns[0] < self.n):
                line.at(k.cast(columns[0], i64)).store(0, values)
            return
        for at, value in zip(columns, values, strict=True):
            with k.when(at < self.n):
                line.at(k.cast(at, i64)).store(0, [value])


__all__ = ["DEPTH", "WIDTH", "Fp16x2Spec", "make", "plan"]
