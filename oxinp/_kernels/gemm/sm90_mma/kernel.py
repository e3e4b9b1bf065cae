"""Matrix multiply by mma.sync on Hopper: C = A @ B of f64, c128 and f32, the last one also in bf16x3; or batches of it.

Data layout: A is (M, K), B is (K, N), C is (M, N) in global memory, each row-major, or A and B transposed ("k" and "mn"
major say which axis is contiguous). In shared memory there is a ring of `num_stages` k-blocks of 128 bytes: rows of 128
bytes, swizzled, along K or along M or N as the operand itself.

Who owns what: one thread of the first warp, the producer, keeps the ring full by TMA. The other warps, the consumers,
have `warp_m` x `warp_n` of a tile of C each, in registers (see `warps`). Blocks are persistent where a multiprocessor
has one of them. In a cluster of two, the blocks work on tiles one above the other, and each loads half of the common
tile of B for both.

Algorithm: for every tile, in an order that keeps concurrent tiles in a near-square region, consumers multiply a
k-block, load the first fragments of the next one, and release the buffer of the one before. They store C while the ring
fills for the next tile. A batch is as in `sm90_wgmma.kernel`. With an epilogue, `staged` loads what it reads.

Per element of C: 2 K flops; per tile, (tile_m + tile_n) K operand elements are read (from L2, mostly).
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from oxinp._kernels.gemm.sm90_mma import bf16x3_wgmma
from oxinp._kernels.gemm.sm90_mma.bf16x3 import Bf16x3Consumer
from oxinp._kernels.gemm.sm90_mma.bf16x3_fixup import FixupChains
from oxinp._kernels.gemm.sm90_mma.spec import MmaSpec
from oxinp._kernels.gemm.sm90_mma.staged import StagedEpilogue, StagedTile
from oxinp._kernels.gemm.sm90_mma.warps import ConsumerWarp, DmmaConsumer, FmaConsumer
from oxinp._kernels.gemm.sm90_wgmma.mainloop import produce
from oxinp._kernels.gemm.sm90_wgmma.scheduler import TileScheduler
from oxinp._kernels.plan import NO_WORK, Argument, Launch, Plan, Work, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.mbarrier import Consumer, Pipeline, UnrolledConsumer
from oxinp._ptx.synchronize import follow
from oxinp._ptx.tile import OperandTile
from oxinp._ptx.tma import ALIGN, MapSpec, TensorMap, matrix_map, matrix_maps
from oxinp._ptx.types import Type, c128, f32, f64, i64, u32

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._kernels.gemm.operand import StridedBatch
    from oxinp._kernels.plan import Grid, Resized
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

WARPS: dict[Type, type[DmmaConsumer | FmaConsumer]] = {f64: DmmaConsumer, c128: DmmaConsumer, f32: FmaConsumer}
RESIZED: dict[Any, Callable[[int, int], Resized]] = {}
"""What `resizing` has returned, by its parameters: kernels of these have been made."""
NUM_WAVES = 16  # of blocks, if several fit on a multiprocessor: more waves cost more than their balance gains


@cache
@retraceable
def make(spec: MmaSpec) -> Kernel:
    """Return the kernel of a Spec.

    Parameters of the kernel: a pointer to C, tensor maps of A and B, of three axes if batched, the first one that of
    matrices; in bf16x3, those of `FixupChains`; with an epilogue, those of `StagedTile`; then as u32 the tiles along M,
    N (clusters are whole) and k-blocks, all at least 1; if batched, the number of partial products, ranges of K per
    matrix, k-blocks per range, and whether A and B differ between matrices (1) or not (0); M and N.
    """
    spec.check()
    k = Builder(
        spec.name,
        block=spec.block,
        target="sm_90a",
        min_blocks=spec.blocks_per_sm,
        cluster=spec.cluster if spec.cluster > 1 else None,
    )
    c = k.pointer("c", spec.type, "w")
    rank = 3 if spec.is_batched else 2
    a_map, b_map = (TensorMap(k, name, rank) for name in ("a_map", "b_map"))
    chains = FixupChains(k, spec) if spec.is_bf16x3 else None
    staged = StagedTile(k, spec) if spec.epilogue is not None else None
    tiles = TileScheduler(k, spec.cluster, spec.tile_n, is_batched=spec.is_batched, height=spec.tile_m)
    a = OperandTile(k, spec.type, spec.tile_m, spec.depth, spec.a_major, spec.num_stages)
    b = OperandTile(k, spec.type, spec.tile_n, spec.b_depth, spec.b_major, spec.num_stages, spec.cluster)
    pipeline = Pipeline(k, spec.num_stages, spec.num_warps, a.nbytes + b.nbytes)
    m, n = (k.scalar(name, u32) for name in ("m", "n"))
    of_staged = staged.pipeline() if staged is not None else None
    # The same in all lanes of a warp, and the shuffle lets the compiler know.
    warp = k.shfl_idx(k.warp, 0)
    if chains is not None and spec.is_wgmma:
        bf16x3_wgmma.multiply(
            k,
            spec,
            tiles,
            pipeline,
            ((a_map, a), (b_map, b)),
            chains,
            (lambda number: _matrix(k, c, number, m, n), m, n),
        )
        return k.build()
    with k.when(warp == 0), k.when(k.tid == 0):
        behind = staged.loads(of_staged) if staged is not None and of_staged is not None else None
        producer = produce(k, spec, tiles, pipeline, (a_map, a), (b_map, b), behind)
        if spec.cluster > 1:
            producer.drain()
    with k.otherwise():
        follow(k)
        epilogue = (staged, staged.consumer(of_staged)) if staged is not None and of_staged is not None else None
        _consume(k, spec, tiles, pipeline, (a, b), warp - 1, (c, m, n), chains, epilogue)
    return k.build()


def place_of(k: Builder, spec: MmaSpec, warp: Value) -> tuple[Value, tuple[Value, Value]]:
    """Return the group along K of a consumer warp, and the first row and column of its part of a tile."""
    per_group, warps_n = spec.num_warps // spec.num_k_groups, spec.tile_n // spec.warp_n
    group = warp / per_group if spec.num_k_groups > 1 else k.const(0, u32)
    of_group = warp % per_group if spec.num_k_groups > 1 else warp
    return group, (of_group / warps_n * spec.warp_m, of_group % warps_n * spec.warp_n)


def consumer_of(
    k: Builder,
    spec: MmaSpec,
    operands: tuple[OperandTile, OperandTile],
    place: tuple[Value, Value],
    group: Value,
    chains: FixupChains | None,
) -> ConsumerWarp:
    """Return the consumer warp of a Spec."""
    if chains is not None:
        return Bf16x3Consumer(k, spec, operands, place, group, chains)
    return WARPS[spec.type](k, spec, operands, place, group)


def _consume(
    k: Builder,
    spec: MmaSpec,
    tiles: TileScheduler,
    pipeline: Pipeline,
    operands: tuple[OperandTile, OperandTile],
    warp: Value,
    result: tuple[Pointer, Value, Value],
    chains: FixupChains | None,
    epilogue: tuple[StagedTile, Consumer] | None,
) -> None:
    c, m, n = result
    group, (first_row, first_column) = place_of(k, spec, warp)
    length = spec.unroll_k
    consumer = UnrolledConsumer(pipeline, k.lane, length)
    own = consumer_of(k, spec, operands, (first_row, first_column), group, chains)

    with tiles.each_sliced() as (number, row, column):
        begin, end = tiles.depth_range(number)
        own.reset()
        if chains is not None:
            chains.select_matrix(number)
        own.begin(consumer.wait(0))
        with k.range(begin, end, length) as step:
            for i in range(length):
                is_more = None if i < length - 1 else step + length < end
                # After the last k-block, fragments are loaded once more and not used.
                own.multiply(consumer.buffer(i), partial(consumer.wait_behind, i, is_more))
                # One k-block later: loads may still be in flight when the ones after them have been issued (seen on
                # the H200).
                with nullcontext() if i else k.when(step > begin):
                    k.warp_sync()
                    consumer.release_before(i)
                if spec.promotion:
                    period = spec.promotion // spec.depth
                    with k.when((step - begin + i) % period == period - 1):
                        own.promote()
            consumer.advance()
        if spec.type is f32:
            own.promote()
        place = (row + first_row, column + first_column)
        if epilogue is not None and isinstance(own, DmmaConsumer):
            staged, arrivals = epilogue
            arrivals.acquire()
            target = c if number is None else c.at(k.cast(number, i64) * staged.distance)
            own.store(target, *place, m, n, staged)
            k.warp_sync()
            arrivals.release()
        else:
            own.store(_matrix(k, c, number, m, n), *place, m, n)
            k.warp_sync()
        consumer.release_before(0)


def _matrix(k: Builder, c: Pointer, number: Value | None, m: Value, n: Value) -> Pointer:
    """A pointer to C of a slice."""
    return c if number is None else c.at(k.cast(number, i64) * (k.cast(m, i64) * k.cast(n, i64)))


def plan(
    spec: MmaSpec,
    shape: tuple[int, int, int],
    num_sms: int,
    strides: tuple[int, int],
    batch: StridedBatch | None = None,
    work: Work = NO_WORK,
    epilogue: StagedEpilogue | None = None,
) -> Plan:
    """Return the plan of C (m, n) = A (m, depth) @ B (depth, n), or of a batch of them: one launch.

    Parameters
    ----------
    spec : MmaSpec
    shape : (m, n, depth)
        At least 1 each. Lines of A and B are read up to multiples of 16 bytes: lines along K have to be followed by
        zeros.
    num_sms : int
    strides : tuple of int
        Of A and B along the axis that is not contiguous, in bytes: multiples of 16, as the addresses.
    batch : StridedBatch, optional
        Of a batched Spec. Partial products of C follow each other, those of one matrix first.
    work : Work, optional
        What the launch does.
    epilogue : StagedEpilogue, optional
        Of a Spec with an epilogue, whose inputs follow A and B.
    """
    m, n, depth = shape
    grid, constants, extents = sizing(spec, depth, num_sms, strides, batch, epilogue)(m, n)
    boxes = spec.boxes()
    if batch is None:
        maps = [matrix_map(spec.type, *each) for each in zip(extents, strides, boxes, strict=True)]
    else:
        # Where all products have the same matrix, no coordinate but 0 is used.
        moves = batch.a_stride, batch.b_stride
        maps = [
            MapSpec(spec.type, (batch.num_matrices if move else 1, *extent), (move or ALIGN, stride), (1, *box))
            for extent, stride, box, move in zip(extents, strides, boxes, moves, strict=True)
        ]
    others = inputs(2) if spec.is_bf16x3 else ()
    if epilogue is not None:
        others += epilogue.arguments(spec, (m, n), 1 if batch is None else batch.num_matrices)
    arguments = (_OUTPUT, *[Argument(f"in{i}", 0, each) for i, each in enumerate(maps)], *others)
    return Plan((Launch(make(spec), grid, arguments, constants, work),))


def resizing(spec: MmaSpec, depth: int, num_sms: int, strides: tuple[int, int]) -> Callable[[int, int], Resized]:
    """Return ``(m, n)`` -> the launch of a product that is no batch and has no epilogue; parameters as for `plan`."""
    key = spec, depth, num_sms, strides
    known = RESIZED.get(key)
    if known is not None:
        return known
    sized, kernel, has_addresses = sizing(spec, depth, num_sms, strides), make(spec), spec.is_bf16x3
    a_maps, b_maps = [matrix_maps(spec.type, *each) for each in zip(strides, spec.boxes(), strict=True)]

    def resized(m: int, n: int) -> Resized:
        grid, constants, (a_extents, b_extents) = sized(m, n)
        return kernel, grid, constants, ((a_maps, a_extents), (b_maps, b_extents)), has_addresses

    if len(RESIZED) >= MAX_KERNELS:
        RESIZED.clear()
    RESIZED[key] = resized
    return resized


Sized = tuple["Grid", tuple[int, ...], tuple[tuple[int, int], tuple[int, int]]]
"""The grid, the constants, and lines and runs of the operands."""


def sizing(
    spec: MmaSpec,
    depth: int,
    num_sms: int,
    strides: tuple[int, int],
    batch: StridedBatch | None = None,
    epilogue: StagedEpilogue | None = None,
) -> Callable[[int, int], Sized]:
    """Return ``(m, n)`` -> what of a launch depends on these alone; parameters as for `plan`."""
    itemsize = spec.type.nbytes
    unit = ALIGN // itemsize
    padded_depth = -(-depth // unit) * unit
    is_a_along_k, is_b_along_k, is_complex = spec.a_major == "k", spec.b_major == "k", spec.is_complex
    tile_m, tile_n, cluster = spec.tile_m * spec.cluster, spec.tile_n, spec.cluster
    num_k = -(-depth // spec.depth)
    num_slices, moves, chunk = 1, (0, 0), num_k
    of_batch: tuple[int, ...] = ()
    if batch is not None:
        chunk = -(-num_k // batch.split_k)
        num_slices, moves = batch.num_slices(num_k), (batch.a_stride, batch.b_stride)
        of_batch = (num_slices, num_slices // batch.num_matrices, chunk, *(int(move > 0) for move in moves))
    if num_k % spec.unroll_k or chunk % spec.unroll_k:
        raise ValueError(f"{spec}: {chunk} of {num_k} k-blocks are no multiple of the unrolled ones")
    # Where several fit on a multiprocessor, blocks are not persistent: not all are equally fast.
    places = num_sms * spec.blocks_per_sm * (1 if spec.blocks_per_sm == 1 else NUM_WAVES)
    most_blocks = places // cluster * cluster
    first: tuple[int, ...] = ()
    if spec.is_bf16x3:
        steps = (*strides, *(moves if spec.is_batched else ()))
        first = (depth, *(step // itemsize for step in steps))
    if epilogue is not None:
        first = (*epilogue.constants(spec), *first)

    def sized(m: int, n: int) -> Sized:
        a_extent = (m, padded_depth) if is_a_along_k else (depth, -(-m // unit) * unit)
        b_extent = (n, padded_depth) if is_b_along_k else (depth, -(-n // unit) * unit)
        if is_complex:
            b_extent = depth // 2, b_extent[1]
        num_m, num_n = -(-m // tile_m) * cluster, -(-n // tile_n)
        blocks = min(num_m * num_n * num_slices, most_blocks)
        return (blocks, 1, 1), (*first, num_m, num_n, num_k, *of_batch, m, n), (a_extent, b_extent)

    return sized


(_OUTPUT,) = outputs(1)


__all__ = ["make", "plan", "resizing"]
