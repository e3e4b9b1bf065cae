"""Batches of many small f32 products on Hopper: C = A @ B, up to 32 x 32 each, limited by memory.

Data layout: A is (M, K), B is (K, N), C is (M, N), each with rows that run along its last axis, C in C order. In shared
memory there is a ring of buffers of 32 rows of 128 bytes of A and of B; elements outside the matrices become zeros.

Who owns what: persistent blocks. One thread of the first warp keeps the ring full by TMA, with every `num_blocks`-th
pair of matrices. The other warps take the buffers in turn, a product each: lanes, as 4 x 8, have every fourth row and
four consecutive columns. A is swizzled, so that lanes of different rows read different banks.

Algorithm: sums are chains of multiply-adds along K, in registers. Rows of C are stored whole by eight lanes.

Per element: a matrix is read and written once; 2 K flops.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.plan import Launch, Plan, inputs, outputs
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.mbarrier import Consumer, Pipeline, Producer
from oxinp._ptx.memory import Pointer
from oxinp._ptx.synchronize import follow
from oxinp._ptx.tile import ATOM_NBYTES
from oxinp._ptx.tma import ALIGN, SWIZZLE_NBYTES, MapSpec, TensorMap
from oxinp._ptx.types import f32, i64, u32

if TYPE_CHECKING:
    from oxinp._kernels.gemm.operand import StridedBatch
    from oxinp._ptx.value import Value, Var

WARP = 32
SIDE = SWIZZLE_NBYTES // f32.nbytes
MATRIX_NBYTES = SIDE * SWIZZLE_NBYTES
LANES_M, VECTOR = 4, 4  # lanes along M, and elements that they load at a time
SHIFT = 4  # log2 of the 16 bytes of a chunk


class StackedSpec(NamedTuple):
    """One kernel of the family (sm_90a).

    Attributes
    ----------
    num_warps : int
        Consumer warps.
    num_stages : int
        Buffers per consumer warp.
    blocks_per_sm : int
        Blocks that registers and shared memory of a multiprocessor have to hold.
    """

    num_warps: int = 4
    num_stages: int = 2
    blocks_per_sm: int = 3

    @property
    def name(self) -> str:
        """Entry name."""
        return f"gemm_small_w{self.num_warps}_s{self.num_stages}_b{self.blocks_per_sm}"

    @property
    def shared_nbytes(self) -> int:
        """Shared memory of a block."""
        return self.num_warps * self.num_stages * (2 * MATRIX_NBYTES + 16)


@cache
@retraceable
def make(spec: StackedSpec) -> Kernel:
    """Return the kernel of a Spec.

    Parameters of the kernel: a pointer to C, tensor maps of A and B, of three axes; then as u32 the number of products,
    whether A and B differ between them (1) or not (0), M and N.
    """
    k = Builder(spec.name, block=(spec.num_warps + 1) * WARP, target="sm_90a", min_blocks=spec.blocks_per_sm)
    c = k.pointer("c", f32, "w")
    a_map, b_map = (TensorMap(k, name, 3) for name in ("a_map", "b_map"))
    count, a_moves, b_moves, m, n = (k.scalar(name, u32) for name in ("count", "a_moves", "b_moves", "m", "n"))
    num_buffers = spec.num_warps * spec.num_stages
    a, b = (k.dynamic_shared(f32, (num_buffers, SIDE * SIDE), ATOM_NBYTES) for _ in range(2))
    pipeline = Pipeline(k, num_buffers, 1, 2 * MATRIX_NBYTES)
    # The same in all lanes of a warp, and the shuffle lets the compiler know.
    warp = k.shfl_idx(k.warp, 0)
    with k.when(warp == 0), k.when(k.lane == 0):
        a_map.prefetch()
        b_map.prefetch()
        follow(k)
        producer = Producer(pipeline)
        with k.range(k.ctaid, count, k.nctaid) as number:
            slot = producer.acquire()
            for tiles, tensor_map, moves in ((a, a_map, a_moves), (b, b_map, b_moves)):
                to = tiles.address() + slot.stage * MATRIX_NBYTES
                tensor_map.load(to, (number * moves, k.const(0, u32), k.const(0, u32)), slot)
    with k.otherwise():
        own = warp - 1
        consumer = Consumer(pipeline, k.lane, own, spec.num_warps)
        with k.range(k.ctaid + own * k.nctaid, count, k.nctaid * spec.num_warps) as number:
            shift = consumer.acquire() * MATRIX_NBYTES
            sums = _multiply(k, a.address() + shift, b.address() + shift)
            _store(k, c, number, sums, m, n)
            # Not before the store: loads may be in flight when those after them have been issued (seen on the H200).
            k.warp_sync()
            consumer.release()
    return k.build()


def _lanes(k: Builder) -> tuple[Value, Value]:
    """Row and column of a lane among 4 x 8: half a warp loads four rows and four columns."""
    return (k.lane >> 1) & 3, (k.lane & 1) | (k.lane >> 3 << 1)


def _multiply(k: Builder, a: Value, b: Value) -> list[list[Var]]:
    """The lane's elements of a product, by rows."""
    row, column = _lanes(k)
    zero = k.const(0.0, f32)
    sums = [[k.var(zero) for _ in range(VECTOR)] for _ in range(SIDE // LANES_M)]
    start = a + row * SWIZZLE_NBYTES + (row << SHIFT)
    columns = Pointer(k, b + (column << SHIFT), f32, "shared", "r")
    for chunk in range(SIDE // VECTOR):
        # In rows of odd i, the halves of the eight chunks are swapped.
        places = [Pointer(k, start ^ ((chunk ^ flip) << SHIFT), f32, "shared", "r") for flip in (0, LANES_M)]
        lines = [places[i % 2].load(i * LANES_M * SIDE, VECTOR) for i in range(len(sums))]
        for step in range(VECTOR):
            values = columns.load((chunk * VECTOR + step) * SIDE, VECTOR)
            for line, totals in zip(lines, sums, strict=True):
                for value, total in zip(values, totals, strict=True):
                    total.set(k.fma(line[step], value, total))
    return sums


def _store(k: Builder, c: Pointer, number: Value, sums: list[list[Var]], m: Value, n: Value) -> None:
    """Store what is inside C."""
    row, column = _lanes(k)
    wide = k.cast(n, i64)
    first = k.cast(column * VECTOR, i64)
    base = c.at((k.cast(number, i64) * k.cast(m, i64) + k.cast(row, i64)) * wide + first)
    with k.when(column * VECTOR < n):
        for i, totals in enumerate(sums):
            with k.when(row + i * LANES_M < m if i else row < m):
                line = base.at(wide * (i * LANES_M)) if i else base
                line.store(0, [total.get() for total in totals], "cs")


def plan(
    spec: StackedSpec, shape: tuple[int, int, int], num_sms: int, strides: tuple[int, int], batch: StridedBatch
) -> Plan:
    """Return the plan of a batch of products C (m, n) = A (m, depth) @ B (depth, n): one launch.

    Parameters
    ----------
    spec : StackedSpec
    shape : (m, n, depth)
        1 to 32 each, n and depth multiples of 4.
    num_sms : int
    strides : tuple of int
        From a row of A and of B to the next, in bytes: multiples of 16, as the addresses.
    batch : StridedBatch
        Without split-K.
    """
    m, n, depth = shape
    count = batch.num_matrices
    maps = []
    for extents, stride, move, swizzle in (
        ((m, depth), strides[0], batch.a_stride, SWIZZLE_NBYTES),
        ((depth, n), strides[1], batch.b_stride, 0),
    ):
        # Where all products have the same matrix, no coordinate but 0 is used.
        matrices, distance = (count, move) if move else (1, ALIGN)
        maps.append(MapSpec(f32, (matrices, *extents), (distance, stride), (1, SIDE, SIDE), swizzle))
    moves = (int(batch.a_stride > 0), int(batch.b_stride > 0))
    blocks = min(num_sms * spec.blocks_per_sm, -(-count // spec.num_warps))
    operands = [x._replace(map=each) for x, each in zip(inputs(2), maps, strict=True)]
    return Plan((Launch(make(spec), (blocks, 1, 1), (*outputs(1), *operands), (count, *moves, m, n)),))


__all__ = ["SIDE", "StackedSpec", "make", "plan"]
