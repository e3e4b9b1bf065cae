"""Matrix multiply on Hopper's asynchronous units: C = A @ B, 16-bit or tf32 operands, f32 sums.

Data layout: A is (M, K), B is (K, N), C is (M, N) in global memory, each row-major, or A and B transposed
("k" and "mn" major say which axis is contiguous). In shared memory there is a ring of `num_stages` pairs of tiles,
128 x 128 bytes of A and `tile_n` x 128 bytes of B, swizzled as wgmma reads them, and two boxes per consumer for C.

Who owns what: persistent blocks of three warpgroups. One thread of warpgroup 0, the producer, keeps the ring full
by bulk tensor copies. Warpgroups 1 and 2, the consumers, own 64 rows of C each, in registers. A barrier pair per ring
buffer passes it back and forth. In a cluster of two, the blocks work on tiles one above the other: each copies half
of the common B tile, to both.

Algorithm: for every tile, in an order that keeps the tiles worked on at one time in a near-square region (so that
their operands stay in L2), the consumers issue the wgmmas of a buffer, wait for those of the buffer before, and let
go of that. Then they convert the sums and store them by bulk copies through shared memory, while the producer fills
the ring for the next tile.

Per element of C: 2 K flops; per 128 x tile_n tile, (128 + tile_n) K operand elements are read (from L2, mostly).
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from oxinp._ptx import Builder, Kernel
from oxinp._ptx.mbarrier import Consumer, Pipeline, Producer
from oxinp._ptx.tile import OperandTile, ResultTile, operand_box
from oxinp._ptx.tma import MapSpec, TensorMap
from oxinp._ptx.types import Type, bf16, f16, f32, u32
from oxinp._ptx.wgmma import WARPGROUP, Queue, limit_registers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxinp._ptx.value import Value

NUM_CONSUMERS = 2
ROWS = 64  # of C that one consumer owns
TILE_M = NUM_CONSUMERS * ROWS
DEPTH_NBYTES = 128  # of K per tile
STEPS = 4  # wgmmas along that
SUPERTILE = 16  # tiles along M that are worked on together
# 384 threads begin with 168 registers each; the producers leave theirs to the consumers.
PRODUCER_REGISTERS, CONSUMER_REGISTERS = 40, 232
NAMES = {"k": "k", "mn": "m"}


@dataclass(frozen=True, slots=True)
class GemmSpec:
    """One matrix multiply kernel (sm_90a).

    Attributes
    ----------
    type : Type
        Of the operands: bf16, f16, or f32 (rounded to tf32).
    out : Type
        Of the result: f32, or `type`.
    a_major, b_major : str
        The contiguous axis of each: ``"k"`` or ``"mn"``; f32 has ``"k"`` only.
    tile_n : int
        Columns of C per tile.
    num_stages : int
    cluster : int
        1 or 2.
    """

    type: Type
    out: Type
    a_major: str = "k"
    b_major: str = "mn"
    tile_n: int = 256
    num_stages: int = 4
    cluster: int = 2

    def __post_init__(self) -> None:
        if self.type not in (bf16, f16, f32) or self.out not in (f32, self.type):
            raise ValueError(f"no kernel multiplies {self.type} into {self.out}")
        if self.tile_n not in (64, 128, 192, 256):
            raise ValueError(f"tile_n is 64, 128, 192 or 256, not {self.tile_n}")
        if self.cluster not in (1, 2):
            raise ValueError(f"a cluster is 1 or 2 blocks, not {self.cluster}")

    @property
    def depth(self) -> int:
        """Elements of K per tile."""
        return DEPTH_NBYTES // self.type.nbytes

    @property
    def name(self) -> str:
        """Entry name."""
        majors = NAMES[self.a_major] + NAMES[self.b_major]
        return f"gemm_{self.type}_{self.out}_{majors}_{TILE_M}x{self.tile_n}_s{self.num_stages}_c{self.cluster}"


@cache
def make(spec: GemmSpec) -> Kernel:
    """The kernel of a Spec.

    Parameters of the kernel: tensor maps of C, A and B, then as u32 the tiles along M (a multiple of the cluster), N
    and K, all at least 1.
    """
    k = Builder(
        spec.name,
        block=(1 + NUM_CONSUMERS) * WARPGROUP,
        target="sm_90a",
        min_blocks=1,
        cluster=spec.cluster if spec.cluster > 1 else None,
    )
    c_map, a_map, b_map = (TensorMap(k, name, 2) for name in ("c_map", "a_map", "b_map"))
    tiles = Tiles(k, spec.cluster, spec.tile_n)
    a = OperandTile(k, spec.type, TILE_M, spec.depth, spec.a_major, spec.num_stages)
    b = OperandTile(k, spec.type, spec.tile_n, spec.depth, spec.b_major, spec.num_stages, spec.cluster)
    pipeline = Pipeline(k, spec.num_stages, NUM_CONSUMERS, a.nbytes + b.nbytes)
    # The same in all lanes of a warp, and the shuffle lets the compiler know.
    warpgroup = k.shfl_idx(k.tid >> 7, 0)

    with k.when(warpgroup == 0):
        limit_registers(k, PRODUCER_REGISTERS, is_increase=False)
        with k.when(k.tid == 0):
            _produce(k, spec, tiles, pipeline, (a_map, a), (b_map, b))
    with k.otherwise():
        limit_registers(k, CONSUMER_REGISTERS, is_increase=True)
        _consume(k, spec, tiles, pipeline, a, b, c_map, warpgroup - 1)
    pipeline.close()
    return k.build()


class Tiles:
    """The tiles of C, `width` columns each, and this block's share of them."""

    def __init__(self, k: Builder, cluster: int, width: int) -> None:
        self.builder, self.cluster, self.width = k, cluster, width
        self.num_m, self.num_n, self.num_k = (k.scalar(name, u32) for name in ("num_m", "num_n", "num_k"))
        self.rank = k.special("cluster_ctarank") if cluster > 1 else k.const(0, u32)

    @contextmanager
    def each(self) -> Iterator[tuple[Value, Value]]:
        """Run the block for this block's tiles: (first row, first column)."""
        k, cluster = self.builder, self.cluster
        # A cluster takes `cluster` tiles one above the other: counted as one here.
        height = SUPERTILE // cluster
        num_m = self.num_m / cluster if cluster > 1 else self.num_m
        first = k.ctaid / cluster if cluster > 1 else k.ctaid
        stride = k.nctaid / cluster if cluster > 1 else k.nctaid
        with k.range(first, num_m * self.num_n, stride) as tile:
            per_band = self.num_n * height
            band = tile / per_band
            inside = tile - band * per_band
            rows = k.min(num_m - band * height, height)
            n = inside / rows
            m = (band * height + inside - n * rows) * cluster + self.rank
            yield m * TILE_M, n * self.width


def _produce(
    k: Builder,
    spec: GemmSpec,
    tiles: Tiles,
    pipeline: Pipeline,
    a: tuple[TensorMap, OperandTile],
    b: tuple[TensorMap, OperandTile],
) -> None:
    (a_map, a_tile), (b_map, b_tile) = a, b
    a_map.prefetch()
    b_map.prefetch()
    producer = Producer(pipeline)
    everyone = (1 << spec.cluster) - 1 if spec.cluster > 1 else 0
    with tiles.each() as (row, column), k.range(0, tiles.num_k) as step:
        slot = producer.acquire()
        start = step * spec.depth
        a_tile.load(a_map, slot, row, start)
        b_tile.load(b_map, slot, column, start, tiles.rank, everyone)


def _consume(
    k: Builder,
    spec: GemmSpec,
    tiles: Tiles,
    pipeline: Pipeline,
    a: OperandTile,
    b: OperandTile,
    c_map: TensorMap,
    number: Value,
) -> None:
    thread = k.tid & (WARPGROUP - 1)
    consumer = Consumer(pipeline, thread)
    result = ResultTile(k, spec.out, NUM_CONSUMERS, number, thread)
    queue = Queue(k)
    sums = queue.accumulator(spec.tile_n)
    first_row = number * ROWS
    with tiles.each() as (row, column):
        sums.reset()
        with k.range(0, tiles.num_k) as step:
            stage = consumer.acquire()
            with queue.group():
                sums.multiply(a.rows(stage, first_row), b.rows(stage), STEPS, spec.type)
            queue.wait(1)
            with k.when(step > 0):
                consumer.release()
        queue.wait()
        consumer.release()
        result.store(sums, c_map, row + first_row, column)
    result.close()


@dataclass(frozen=True, slots=True)
class GemmLaunch:
    """How to launch: parameters are the encoded maps of C, A and B, then the constants."""

    kernel: Kernel
    grid: tuple[int, int, int]
    maps: tuple[MapSpec, MapSpec, MapSpec]
    constants: tuple[int, int, int]


def plan(
    spec: GemmSpec, m: int, n: int, depth: int, num_sms: int, strides_nbytes: tuple[int, int, int] | None = None
) -> GemmLaunch:
    """Launch of C (m, n) = A (m, depth) @ B (depth, n).

    Parameters
    ----------
    m, n, depth : int
        At least 1; those that are contiguous axes of C, A or B have to be multiples of 16 bytes.
    num_sms : int
    strides_nbytes : tuple of int, optional
        Distances of consecutive rows of C, A and B as they lie in memory, multiples of 16; rows that follow each
        other unless given. Base addresses have to be multiples of 16, too.

    Raises
    ------
    ValueError
        The copy engine cannot reach these layouts; `gemm_mma` can.
    """
    if min(m, n, depth) < 1:
        raise ValueError(f"nothing to multiply: {m} x {depth} by {depth} x {n}")
    a_shape = (m, depth) if spec.a_major == "k" else (depth, m)
    b_shape = (n, depth) if spec.b_major == "k" else (depth, n)
    if strides_nbytes is None:
        strides_nbytes = (n * spec.out.nbytes, a_shape[1] * spec.type.nbytes, b_shape[1] * spec.type.nbytes)
    c_stride, a_stride, b_stride = strides_nbytes
    is_tf32 = spec.type is f32
    a_box = operand_box(spec.type, TILE_M, spec.depth, spec.a_major, 1)
    b_box = operand_box(spec.type, spec.tile_n, spec.depth, spec.b_major, spec.cluster)
    num_m = -(-m // (TILE_M * spec.cluster)) * spec.cluster
    num_n, num_k = -(-n // spec.tile_n), -(-depth // spec.depth)
    blocks = min(num_sms // spec.cluster * spec.cluster, num_m * num_n)
    return GemmLaunch(
        make(spec),
        (blocks, 1, 1),
        (
            MapSpec(spec.out, (m, n), (c_stride,), ResultTile.box(spec.out)),
            MapSpec(spec.type, a_shape, (a_stride,), a_box, rounds_to_tf32=is_tf32),
            MapSpec(spec.type, b_shape, (b_stride,), b_box, rounds_to_tf32=is_tf32),
        ),
        (num_m, num_n, num_k),
    )


__all__ = ["GemmLaunch", "GemmSpec", "make", "plan"]
