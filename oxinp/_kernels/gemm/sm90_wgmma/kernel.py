"""Matrix multiply by wgmma on Hopper: C = A @ B of 16-bit floats or tf32 with f32 sums, of bytes with i32 sums.

Data layout: A is (M, K), B is (K, N), C is (M, N) in global memory, each row-major, or A and B transposed ("k" and "mn"
major say which axis is contiguous), or batches of such. In shared memory there is a ring of `num_stages` k-blocks,
128 x 128 bytes of A and `tile_n` x 128 bytes of B, swizzled as wgmma reads them, and two boxes per consumer for C.

Who owns what: persistent blocks of three warpgroups. One thread of warpgroup 0, the producer, keeps the ring full by
TMA. Warpgroups 1 and 2, the consumers, own 64 rows of a tile of C each, in registers. A pair of barriers per ring
buffer passes it back and forth. The two blocks of a cluster share tiles of B (or A) by multicast, or a tile of C, of
which each computes half of K and stores half of the rows (see `sharing`).

Algorithm: for every tile of C, in an order that keeps concurrent tiles in a near-square region (so that their operands
stay in L2), the consumers issue the wgmmas of a k-block, wait for those of the k-block before, and release its buffer.
Then they apply the epilogue, convert the sums and store them (see `store`), while the producer fills the ring for the
next tile. A batch is of matrices, of ranges of K, whose partial products follow each other (parallel split-K), or both.

Where there are few tiles, blocks may also compute ranges of K of a tile and add up their sums one after the other, in
the workspace (serial split-K, see `split_k`).

C may also be computed as its transpose, B^T A^T, and stored by columns: where there are few rows but many columns, and
where f32 is multiplied as tf32 and B lies along N, since the left operand may come through registers.

Per element of C: 2 K flops; per 128 x tile_n tile, (128 + tile_n) K operand elements are read (from L2, mostly).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.gemm.epilogue import BoundEpilogue
from oxinp._kernels.gemm.sm90_wgmma.cluster_split_k import ClusterReduction, ReducedSums
from oxinp._kernels.gemm.sm90_wgmma.mainloop import builder_of, consume, divide, produce
from oxinp._kernels.gemm.sm90_wgmma.scheduler import NUM_CONSUMERS, TILE_M, TileScheduler
from oxinp._kernels.gemm.sm90_wgmma.sharing import ClusterSplitK
from oxinp._kernels.gemm.sm90_wgmma.spec import WgmmaSpec
from oxinp._kernels.gemm.sm90_wgmma.split_k import SerialSplitK, SplitKScheduler, split_ranges
from oxinp._kernels.plan import FLAGS, SCRATCH, Argument, Launch, Plan, inputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.mbarrier import Consumer, Pipeline
from oxinp._ptx.synchronize import follow
from oxinp._ptx.tile import OperandTile
from oxinp._ptx.tma import ALIGN, MapSpec, TensorMap
from oxinp._ptx.types import f32, u8, u32
from oxinp._ptx.wgmma import FORMS

if TYPE_CHECKING:
    from oxinp._kernels.gemm.operand import StridedBatch
    from oxinp._ptx import Kernel
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value
    from oxinp._ptx.wgmma import Accumulator, Totals


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: WgmmaSpec) -> Kernel:
    """Return the kernel of a Spec.

    Parameters of the kernel: tensor maps of C (of direct stores, a pointer), A and B, of three axes if batched, the
    first one that of partial products of C and of matrices of A and B; for serial split-K, pointers to sums and flags;
    the epilogue's, see `BoundEpilogue`; then as u32 the tiles along M, N (clusters are whole) and k-blocks, all at
    least 1; if batched, the number of partial products, ranges of K per matrix, k-blocks per range, and whether A and B
    differ between matrices (1) or not (0); for serial split-K, ranges per tile and k-blocks per range; with an
    epilogue, or direct stores, M and N.
    """
    spec.check()
    k = builder_of(spec)
    rank, acc = 3 if spec.is_batched else 2, FORMS[spec.type].sums[0]
    c: TensorMap | Pointer = TensorMap(k, "c_map", rank) if spec.store.is_bulk else k.pointer("c", spec.out, "w")
    a_map, b_map = (TensorMap(k, name, rank) for name in ("a_map", "b_map"))
    memory = (k.pointer("sums", acc), k.pointer("flags", u32)) if spec.is_serial_split_k else None
    epilogue = BoundEpilogue(k, spec.epilogue) if spec.epilogue is not None else None
    scheduler = SplitKScheduler if spec.is_serial_split_k else TileScheduler
    tiles = scheduler(k, spec.cluster, spec.tile_n, is_batched=spec.is_batched, shared=spec.sharing.letter)
    a, b = (
        OperandTile(k, spec.type, extent, spec.depth, major, spec.num_stages, num_parts)
        for extent, major, num_parts in zip(
            (TILE_M, spec.tile_n), (spec.a_major, spec.b_major), spec.multicast, strict=True
        )
    )
    cluster = ClusterReduction(k, tiles, acc) if spec.sharing is ClusterSplitK else None
    pipeline = Pipeline(k, spec.num_stages, NUM_CONSUMERS, a.nbytes + b.nbytes, is_shared=cluster is None)
    extents = () if spec.store.is_bulk and epilogue is None else tuple(k.scalar(name, u32) for name in ("m", "n"))

    def multiply(number: Value, thread: Value) -> None:
        follow(k)
        storing = k.const(0, u32) if spec.num_storing == 1 else number
        result = spec.store.tile(k, spec.out, spec.tile_n, extents, (spec.num_storing, storing), thread)
        if cluster is not None:
            cluster.join(number, thread)
        serial = None
        if isinstance(tiles, SplitKScheduler) and memory is not None:
            serial = SerialSplitK(k, tiles, *memory, number, thread)
        applied = spec.store.epilogue(epilogue, spec.out, extents, thread) if epilogue is not None else None

        def store(own: Accumulator | Totals, row: Value, column: Value, outer: tuple[Value, ...]) -> None:
            def store_all(sums: Accumulator | Totals | ReducedSums) -> None:
                result.store(c, sums, row, column, outer, applied and applied.at(row, column, outer))

            if serial is not None:
                serial.store(own, store_all)
            elif cluster is not None:
                cluster.store(own, store_all)
            else:
                store_all(own)

        consume(k, spec, tiles, Consumer(pipeline, thread), a, b, store, number)
        result.close()

    divide(k, lambda: produce(k, spec, tiles, pipeline, (a_map, a), (b_map, b)), multiply)
    pipeline.close()
    return k.build()


def plan(
    spec: WgmmaSpec,
    m: int,
    n: int,
    depth: int,
    num_sms: int,
    strides_nbytes: tuple[int, int, int] | None = None,
    batch: StridedBatch | None = None,
    epilogue_constants: tuple[int, ...] = (),
    split_k: int = 1,
) -> Plan:
    """Return the plan of C (m, n) = A (m, depth) @ B (depth, n), or of a batch of them: one launch.

    The inputs are A and B, then the epilogue's. Serial split-K uses the scratch buffer and flags.

    Parameters
    ----------
    m, n, depth : int
        At least 1. Bulk stores need rows of C that are multiples of 16 bytes. Lines of A and B are read up to such
        multiples: lines along K have to be followed by zeros.
    num_sms : int
    strides_nbytes : tuple of int, optional
        Pitches of C, A and B as they lie in memory, multiples of 16; packed unless given. Base addresses have to be
        multiples of 16, too.
    batch : StridedBatch, optional
        Of a batched Spec. Partial products of C follow each other, those of one matrix first.
    epilogue_constants : tuple of int
        The constants that `epilogue.bind` returns; the epilogue's first loop is the batch, if there is one.
    split_k : int
        Serial split-K: ranges of K per tile, at most.

    Raises
    ------
    ValueError
        TMA cannot load or store these layouts.
    """
    if min(m, n, depth) < 1:
        raise ValueError(f"nothing to multiply: {m} x {depth} by {depth} x {n}")
    unit = ALIGN // spec.type.nbytes
    a_shape, b_shape = (
        (extent, -(-depth // unit) * unit) if major == "k" else (depth, -(-extent // unit) * unit)
        for major, extent in ((spec.a_major, m), (spec.b_major, n))
    )
    c_shape, c_box = (n, m) if spec.store.is_column_major else (m, n), spec.store.box(spec.out, spec.tile_n)
    if strides_nbytes is None:
        rows = (c_shape[1] * spec.out.nbytes, *(shape[1] * spec.type.nbytes for shape in (a_shape, b_shape)))
        strides_nbytes = (rows[0], rows[1], rows[2])
    c_stride, a_stride, b_stride = strides_nbytes
    beside, above = spec.multicast
    a_box, b_box = spec.boxes()
    num_m, num_n = -(-m // (TILE_M * above)) * above, -(-n // (spec.tile_n * beside)) * beside
    num_k = -(-depth // spec.depth)
    constants: tuple[int, ...] = (*epilogue_constants, num_m, num_n, num_k)
    counts, moves, shortest = (1, 1, 1), (0, 0, 0), num_k  # matrices of C (or partial products), A and B
    if batch is not None:
        num_ranges, length = split_ranges(num_k, batch.split_k)
        shortest = num_k - (num_ranges - 1) * length
        counts = (batch.num_matrices * num_ranges, batch.num_matrices, batch.num_matrices)
        moves = (c_shape[0] * c_stride, batch.a_stride, batch.b_stride)
        constants += (counts[0], num_ranges, length, *(int(move > 0) for move in moves[1:]))

    per_tile = spec.cluster if spec.sharing is ClusterSplitK else 1
    num_blocks = num_m * num_n * counts[0] * per_tile
    scratch_nbytes = 0
    if spec.is_serial_split_k:
        num_ranges, length = split_ranges(num_k, split_k)
        constants += (num_ranges, length)
        num_blocks *= num_ranges
        scratch_nbytes = num_blocks * TILE_M * spec.tile_n * f32.nbytes
    if shortest < per_tile:
        raise ValueError("one k-block cannot be split into halves")

    def described(number: int, type: Type, shape: tuple[int, int], stride: int, box: tuple[int, int]) -> MapSpec:
        is_tf32 = number > 0 and type is f32
        if batch is None:
            return MapSpec(type, shape, (stride,), box, rounds_to_tf32=is_tf32)
        # Where all products have the same matrix, no coordinate but 0 is used.
        extent, distance = (counts[number], moves[number]) if moves[number] else (1, ALIGN)
        return MapSpec(type, (extent, *shape), (distance, stride), (1, *box), rounds_to_tf32=is_tf32)

    type, c_type = (u8 if each.nbytes == 1 else each for each in (spec.type, spec.out))  # TMA copies bytes as u8
    c_map = described(0, c_type, c_shape, c_stride, c_box) if spec.store.is_bulk else None
    a_map, b_map = described(1, type, a_shape, a_stride, a_box), described(2, type, b_shape, b_stride, b_box)
    arguments = (
        *(Argument("out0", map=c_map), Argument("in0", map=a_map), Argument("in1", map=b_map)),
        *((SCRATCH, FLAGS) if spec.is_serial_split_k else ()),
        *inputs(len(spec.epilogue.chain.inputs) if spec.epilogue is not None else 0, 2),
    )
    grid = (min(num_sms // spec.cluster * spec.cluster, num_blocks), 1, 1)
    constants = constants if spec.store.is_bulk and spec.epilogue is None else (*constants, m, n)
    return Plan((Launch(make(spec), grid, arguments, constants),), scratch_nbytes)


__all__ = ["make", "plan"]
