"""Matrix multiply of f32 as three products of halves on Hopper's asynchronous units: C = A @ B with f32 accuracy.

Data layout: A is (M, K), B is (K, N), each as two f16 arrays, `hi` and `lo`, whose sum is the f32 matrix scaled by a
power of two per row of A and per column of B (see `split`); any of the two axes is contiguous. C is (M, N) f32 in C
order. In shared memory there is a ring of `num_stages` quadruples of tiles, swizzled as wgmma reads them.

Who owns what: persistent blocks of two warpgroups and a warp. Each warpgroup owns 64 rows of C, twice in registers: the
sums of the present tiles and the totals. One thread of the last warp keeps the ring full. In a cluster of two, the
blocks work on tiles one above the other; one copies the common `hi` of B to both, the other its `lo`. The tile is what
168 registers per thread hold: the driver's linker lets no warps pass registers to others.

Algorithm: per tile of K, sums = lo hi + hi lo + hi hi; then they are added to the totals. The tensor units cut off what
they add instead of rounding it, always towards zero: over `DEPTH` of K that is less than what f32 sums lose, over a
whole row it would be ten times more. At the end totals are scaled back and stored.

Where the guard is not 0, nothing is done.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from oxinp._kernels.gemm import NAMES, NUM_CONSUMERS, ROWS, STEPS, TILE_M, Tiles
from oxinp._kernels.scaling import scaled, unscaling_exponent
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.mbarrier import Consumer, Pipeline, Producer
from oxinp._ptx.memory import Pointer
from oxinp._ptx.tile import OperandTile, operand_box
from oxinp._ptx.tma import MapSpec, TensorMap
from oxinp._ptx.types import f16, f32, i32, i64, u32
from oxinp._ptx.wgmma import WARPGROUP, Accumulator, Queue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._ptx.value import Value

DEPTH = 64  # of K per tile
WARP = 32
TERMS = (("lo", "hi"), ("hi", "lo"), ("hi", "hi"))  # the smallest first


@dataclass(frozen=True, slots=True)
class SplitGemmSpec:
    """One kernel of the family (sm_90a).

    Attributes
    ----------
    a_major, b_major : str
        The contiguous axis of each: ``"k"`` or ``"mn"``.
    has_pairs : bool
        Columns of C are even in number: two are stored at once.
    tile_n : int
        Columns of C per tile.
    num_stages : int
    cluster : int
        2.
    """

    a_major: str
    b_major: str
    has_pairs: bool
    tile_n: int = 128
    num_stages: int = 3
    cluster: int = 2

    @property
    def name(self) -> str:
        """Entry name."""
        majors = NAMES[self.a_major] + NAMES[self.b_major]
        return f"gemm_split_{majors}_{TILE_M}x{self.tile_n}_s{self.num_stages}{'_v2' if self.has_pairs else ''}"


@dataclass(frozen=True, slots=True)
class SplitGemmLaunch:
    """How to launch.

    Parameters are the pointers to C, to the largest magnitudes of A's rows and of B's columns (i32 bits) and to the
    guard, the encoded maps of A's hi and lo and of B's, then the constants.
    """

    kernel: Kernel
    grid: tuple[int, int, int]
    a_map: MapSpec
    b_map: MapSpec
    constants: tuple[int, ...]


def plan(spec: SplitGemmSpec, m: int, n: int, depth: int, num_sms: int) -> SplitGemmLaunch:
    """Launch of C (m, n) = A (m, depth) @ B (depth, n).

    The contiguous axes of the halves are padded to multiples of 8 elements, with zeros where they run along K.
    """
    maps = []
    for major, extent, box_extent in ((spec.a_major, m, TILE_M), (spec.b_major, n, spec.tile_n)):
        lines, run = (extent, depth) if major == "k" else (depth, extent)
        pitch = padded(run)
        box = operand_box(f16, box_extent, DEPTH, major, 1)
        maps.append(MapSpec(f16, (lines, pitch), (pitch * f16.nbytes,), box))
    num_m = -(-m // (TILE_M * spec.cluster)) * spec.cluster
    num_n, num_k = -(-n // spec.tile_n), -(-depth // DEPTH)
    blocks = min(num_sms // spec.cluster * spec.cluster, num_m * num_n)
    return SplitGemmLaunch(make(spec), (blocks, 1, 1), maps[0], maps[1], (num_m, num_n, num_k, m, n))


def padded(run: int) -> int:
    """Elements from one line of halves to the next."""
    return -(-run // 8) * 8


@cache
@retraceable
def make(spec: SplitGemmSpec) -> Kernel:
    """The kernel of a Spec; for its parameters see `SplitGemmLaunch`."""
    k = Builder(
        spec.name,
        block=NUM_CONSUMERS * WARPGROUP + WARP,
        target="sm_90a",
        min_blocks=1,
        cluster=spec.cluster,
    )
    c = k.pointer("c", f32, "w")
    maxima = [k.pointer(name, i32, "r") for name in ("a_max", "b_max")]
    guard = k.pointer("guard", u32, "r")
    maps = {name: TensorMap(k, name, 2) for name in ("a_hi", "a_lo", "b_hi", "b_lo")}
    tiles = Tiles(k, spec.cluster, spec.tile_n)
    extents = (k.scalar("m", u32), k.scalar("n", u32))
    tiles.num_m = k.where(guard[0] == 0, tiles.num_m, 0)
    operands = {
        name: OperandTile(
            k,
            f16,
            TILE_M if name.startswith("a") else spec.tile_n,
            DEPTH,
            spec.a_major if name.startswith("a") else spec.b_major,
            spec.num_stages,
        )
        for name in maps
    }
    pipeline = Pipeline(k, spec.num_stages, NUM_CONSUMERS, sum(tile.nbytes for tile in operands.values()))
    # The same in all lanes of a warp, and the shuffle lets the compiler know.
    warp = k.shfl_idx(k.tid >> 5, 0)
    with k.when(warp == NUM_CONSUMERS * WARPGROUP // WARP), k.when(k.lane == 0):
        _produce(k, tiles, pipeline, maps, operands)
    with k.otherwise():
        _Consumption(k, spec, tiles, operands, warp >> 2, Consumer(pipeline, k.tid & (WARPGROUP - 1))).run(
            _Unscaling(k, spec, c, maxima, extents)
        )
    pipeline.close()
    return k.build()


def _produce(
    k: Builder, tiles: Tiles, pipeline: Pipeline, maps: dict[str, TensorMap], operands: dict[str, OperandTile]
) -> None:
    for tensor_map in maps.values():
        tensor_map.prefetch()
    producer = Producer(pipeline)
    with tiles.each() as (row, column), k.range(0, tiles.num_k) as step:
        slot = producer.acquire()
        start = step * DEPTH
        for name in ("a_hi", "a_lo"):
            operands[name].load(maps[name], slot, row, start)
        with k.when(tiles.rank == 0):
            operands["b_hi"].load(maps["b_hi"], slot, column, start, multicast=0b11)
        with k.otherwise():
            operands["b_lo"].load(maps["b_lo"], slot, column, start, multicast=0b11)


class _Consumption:
    """One warpgroup's rows of C."""

    def __init__(
        self,
        k: Builder,
        spec: SplitGemmSpec,
        tiles: Tiles,
        operands: dict[str, OperandTile],
        number: Value,
        consumer: Consumer,
    ) -> None:
        self.k, self.tiles, self.operands, self.consumer = k, tiles, operands, consumer
        self.first_row = number * ROWS
        self.queue = Queue(k)
        self.sums: Accumulator = self.queue.accumulator(spec.tile_n)
        self.totals = [k.var(0.0, f32) for _ in range(spec.tile_n // 2)]

    def run(self, unscaling: _Unscaling) -> None:
        """Compute and store this block's tiles."""
        k, tiles = self.k, self.tiles
        with tiles.each() as (row, column):
            for total in self.totals:
                total.set(k.const(0.0, f32))
            with k.range(0, tiles.num_k):
                self.multiply()
            unscaling.store(self.totals, row + self.first_row, column)

    def multiply(self) -> None:
        """Add the products of the next tiles to the totals."""
        stage = self.consumer.acquire()
        self.sums.reset()
        with self.queue.group():
            for a, b in TERMS:
                left, right = self.operands[f"a_{a}"], self.operands[f"b_{b}"]
                self.sums.multiply(left.rows(stage, self.first_row), right.rows(stage), STEPS, f16)
        self.queue.wait()
        self.consumer.release()
        for number, (_, _, *values) in enumerate(self.sums.pairs()):
            for total, value in zip(self.totals[2 * number : 2 * number + 2], values, strict=True):
                total.set(total + value)


class _Unscaling:
    """The way of totals out to C."""

    def __init__(
        self, k: Builder, spec: SplitGemmSpec, c: Pointer, maxima: list[Pointer], extents: tuple[Value, Value]
    ) -> None:
        self.k, self.spec, self.c, self.maxima = k, spec, c, maxima
        self.m, self.n = extents
        thread = k.tid & (WARPGROUP - 1)
        self.own_row = (thread >> 5) * 16 + ((thread >> 2) & 7)
        self.own_column = (thread & 3) * 2

    def store(self, totals: Sequence[Value], row: Value, column: Value) -> None:
        """Scale back and store 64 rows from element (`row`, `column`) on; what is outside is left out."""
        k = self.k
        a_max, b_max = self.maxima
        rows = [row + self.own_row + 8 * i for i in range(2)]
        row_exponents = [unscaling_exponent(k, a_max[k.min(r, self.m - 1)]) for r in rows]
        lines = [self.c.at(k.cast(r, i64) * k.cast(self.n, i64)) for r in rows]
        for j in range(self.spec.tile_n // 8):
            first = column + self.own_column + 8 * j
            columns = [first, first + 1]
            exponents = [unscaling_exponent(k, b_max[k.min(at, self.n - 1)]) for at in columns]
            for i in range(2):
                values = [
                    scaled(k, total, k.max(row_exponents[i] + exponent, -252))
                    for total, exponent in zip(totals[4 * j + 2 * i :][:2], exponents, strict=True)
                ]
                with k.when(rows[i] < self.m):
                    self.write(lines[i], columns, values)

    def write(self, line: Pointer, columns: list[Value], values: list[Value]) -> None:
        """Store two neighbours, as far as they are inside."""
        k = self.k
        if self.spec.has_pairs:
            with k.when(columns[0] < self.n):
                line.at(k.cast(columns[0], i64)).store(0, values)
            return
        for at, value in zip(columns, values, strict=True):
            with k.when(at < self.n):
                line.at(k.cast(at, i64)).store(0, [value])


__all__ = ["DEPTH", "SplitGemmLaunch", "SplitGemmSpec", "make", "padded", "plan"]
