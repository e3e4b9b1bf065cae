"""Matrix multiply of f64, c128 and f32 in their own types, or f32 in parts, on Hopper: C = A @ B, or stacks of such.

Data layout: A is (M, K), B is (K, N), C is (M, N) in global memory, each row-major, or A and B transposed ("k" and "mn"
major say which axis is contiguous). In shared memory there is a ring of `num_stages` pairs of tiles, 128 bytes deep
along K: rows of 128 bytes, swizzled, along K or along M or N as the operand itself.

Who owns what: blocks of warps that multiply, `warp_m` x `warp_n` of C in registers each, behind a first one of which
one thread keeps the ring full by bulk tensor copies; persistent ones where a multiprocessor has one of them. What a
warp does with tiles is in `warps`. In a cluster of two, the blocks work on tiles one above the other and each
copies half of the common B tile, to both.

Algorithm: for every tile, in an order that keeps the tiles worked on at one time in a near-square region, warps
multiply what is in a buffer, begin to load what is in the next one, and let go of the one before. They store their
sums while the ring fills for the next tile. Slices of the work are as in `gemm`.

Per element of C: 2 K flops; per tile, (tile_m + tile_n) K operand elements are read (from L2, mostly).
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache, partial
from typing import TYPE_CHECKING

from oxinp._kernels.gemm.sm90_mma import bf16x3_wgmma
from oxinp._kernels.gemm.sm90_mma.bf16x3 import Bf16x3Consumer
from oxinp._kernels.gemm.sm90_mma.bf16x3_fixup import FixupChains
from oxinp._kernels.gemm.sm90_mma.warps import ConsumerWarp, DmmaConsumer, FmaConsumer
from oxinp._kernels.gemm.sm90_wgmma.mainloop import produce
from oxinp._kernels.gemm.sm90_wgmma.scheduler import TileScheduler
from oxinp._kernels.plan import Launch, Plan, inputs, outputs
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.mbarrier import Pipeline, Rounds
from oxinp._ptx.synchronize import follow
from oxinp._ptx.tile import OperandTile
from oxinp._ptx.tma import ALIGN, MapSpec, TensorMap
from oxinp._ptx.types import Type, c128, f32, f64, i64, u32

if TYPE_CHECKING:
    from oxinp._kernels.gemm.operand import StridedBatch
    from oxinp._kernels.gemm.sm90_mma.spec import MmaSpec
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

WARPS: dict[Type, type[DmmaConsumer | FmaConsumer]] = {f64: DmmaConsumer, c128: DmmaConsumer, f32: FmaConsumer}
NUM_TURNS = 16  # of blocks, for as many as there is room for; beyond, beginning costs more than turns bring


@cache
@retraceable
def make(spec: MmaSpec) -> Kernel:
    """The kernel of a Spec.

    Parameters of the kernel: a pointer to C, tensor maps of A and B, of three axes if sliced, the first one the
    matrices'; in parts, those of `FixupChains`; then as u32 the tiles along M, N (clusters are whole) and K, all at
    least 1; if sliced, the number of slices, chunks per matrix, tiles of K per chunk, and whether A and B differ
    between matrices (1) or not (0); M and N.
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
    tiles = TileScheduler(k, spec.cluster, spec.tile_n, is_batched=spec.is_batched, height=spec.tile_m)
    a = OperandTile(k, spec.type, spec.tile_m, spec.depth, spec.a_major, spec.num_stages)
    b = OperandTile(k, spec.type, spec.tile_n, spec.b_depth, spec.b_major, spec.num_stages, spec.cluster)
    pipeline = Pipeline(k, spec.num_stages, spec.num_warps, a.nbytes + b.nbytes)
    m, n = (k.scalar(name, u32) for name in ("m", "n"))
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
        producer = produce(k, spec, tiles, pipeline, (a_map, a), (b_map, b))
        if spec.cluster > 1:
            producer.drain()
    with k.otherwise():
        follow(k)
        _consume(k, spec, tiles, pipeline, (a, b), warp - 1, (c, m, n), chains)
    return k.build()


def place_of(k: Builder, spec: MmaSpec, warp: Value) -> tuple[Value, tuple[Value, Value]]:
    """The group that a warp is in, and the first row and column of its part of a tile."""
    per_group, warps_n = spec.num_warps // spec.num_groups, spec.tile_n // spec.warp_n
    group = warp / per_group if spec.num_groups > 1 else k.const(0, u32)
    of_group = warp % per_group if spec.num_groups > 1 else warp
    return group, (of_group / warps_n * spec.warp_m, of_group % warps_n * spec.warp_n)


def warp_of(
    k: Builder,
    spec: MmaSpec,
    operands: tuple[OperandTile, OperandTile],
    place: tuple[Value, Value],
    group: Value,
    chains: FixupChains | None,
) -> ConsumerWarp:
    """What multiplies."""
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
) -> None:
    c, m, n = result
    group, (first_row, first_column) = place_of(k, spec, warp)
    length = spec.unroll_k
    rounds = Rounds(pipeline, k.lane, length)
    own = warp_of(k, spec, operands, (first_row, first_column), group, chains)

    with tiles.each_sliced() as (number, row, column):
        begin, end = tiles.depth_range(number)
        own.reset()
        if chains is not None:
            chains.turn_to(number)
        own.begin(rounds.wait(0))
        with k.range(begin, end, length) as step:
            for i in range(length):
                is_more = None if i < length - 1 else step + length < end
                # Behind the last one, what is loaded once more is not used.
                own.multiply(rounds.buffer(i), partial(rounds.wait_behind, i, is_more))
                # One buffer later: loads may be under way when it is said that they have been started (seen on the
                # H200).
                with nullcontext() if i else k.when(step > begin):
                    k.warp_sync()
                    rounds.release_before(i)
                if spec.promotion:
                    period = spec.promotion // spec.depth
                    with k.when((step - begin + i) % period == period - 1):
                        own.promote()
            rounds.turn()
        if spec.type is f32:
            own.promote()
        own.store(_matrix(k, c, number, m, n), row + first_row, column + first_column, m, n)
        k.warp_sync()
        rounds.release_before(0)


def _matrix(k: Builder, c: Pointer, number: Value | None, m: Value, n: Value) -> Pointer:
    """C of a slice."""
    return c if number is None else c.at(k.cast(number, i64) * (k.cast(m, i64) * k.cast(n, i64)))


def plan(
    spec: MmaSpec,
    shape: tuple[int, int, int],
    num_sms: int,
    strides: tuple[int, int],
    stack: StridedBatch | None = None,
) -> Plan:
    """Return the plan of C (m, n) = A (m, depth) @ B (depth, n), or of a stack of them: one launch.

    Parameters
    ----------
    spec : MmaSpec
    shape : (m, n, depth)
        At least 1 each. The axes along which A and B run are read up to multiples of 16 bytes: behind those along K
        have to be zeros.
    num_sms : int
    strides : tuple of int
        Of A and B along the axis that is not contiguous, in bytes: multiples of 16, as the addresses.
    stack : Stack, optional
        Of a Spec that is sliced. Slices of C follow each other, those of a matrix first.
    """
    m, n, depth = shape
    unit = ALIGN // spec.type.nbytes
    extents = [
        (extent, -(-depth // unit) * unit) if major == "k" else (depth, -(-extent // unit) * unit)
        for major, extent in ((spec.a_major, m), (spec.b_major, n))
    ]
    if spec.is_complex:
        extents[1] = (depth // 2, extents[1][1])
    num_m, num_n = -(-m // (spec.tile_m * spec.cluster)) * spec.cluster, -(-n // spec.tile_n)
    num_k = -(-depth // spec.depth)
    constants: tuple[int, ...] = (num_m, num_n, num_k)
    num_slices, moves, count, chunk = 1, (0, 0), 1, num_k
    if stack is not None:
        chunk = -(-num_k // stack.split_k)
        num_slices, moves, count = stack.num_slices(num_k), (stack.a_stride, stack.b_stride), stack.num_matrices
        constants += (num_slices, num_slices // count, chunk, *(int(move > 0) for move in moves))
    if num_k % spec.unroll_k or chunk % spec.unroll_k:
        raise ValueError(f"{spec}: {chunk} of {num_k} tiles along K are no whole rounds")
    maps = []
    for extent, stride, box, move in zip(extents, strides, spec.boxes(), moves, strict=True):
        if stack is None:
            maps.append(MapSpec(spec.type, extent, (stride,), box))
        else:
            # One matrix for all: no coordinate but 0 is used.
            matrices, distance = (count, move) if move else (1, ALIGN)
            maps.append(MapSpec(spec.type, (matrices, *extent), (distance, stride), (1, *box)))
    # Where there are several on a multiprocessor, others come when some have ended: not all are equally fast.
    places = num_sms * spec.blocks_per_sm * (1 if spec.blocks_per_sm == 1 else NUM_TURNS)
    blocks = min(num_m * num_n * num_slices, places // spec.cluster * spec.cluster)
    if spec.is_bf16x3:
        steps = (*strides, *(moves if spec.is_batched else ()))
        constants = (depth, *(step // spec.type.nbytes for step in steps), *constants)
    pointers = inputs(2)
    operands = [x._replace(map=each) for x, each in zip(pointers, maps, strict=True)]
    arguments = (*outputs(1), *operands, *(pointers if spec.is_bf16x3 else ()))
    return Plan((Launch(make(spec), (blocks, 1, 1), arguments, (*constants, m, n)),))


__all__ = ["make", "plan"]
