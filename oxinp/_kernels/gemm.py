"""Matrix multiply on Hopper's asynchronous units: C = A @ B of halves or tf32 with f32 sums, of bytes with i32 sums.

Data layout: A is (M, K), B is (K, N), C is (M, N) in global memory, each row-major, or A and B transposed
("k" and "mn" major say which axis is contiguous), or stacks of such. In shared memory there is a ring of `num_stages`
pairs of tiles, 128 x 128 bytes of A and `tile_n` x 128 bytes of B, swizzled as wgmma reads them, and two boxes per
consumer for C.

Who owns what: persistent blocks of three warpgroups. One thread of warpgroup 0, the producer, keeps the ring full
by bulk tensor copies. Warpgroups 1 and 2, the consumers, own 64 rows of C each, in registers. A barrier pair per ring
buffer passes it back and forth. In a cluster of two, the blocks work on tiles one above the other (or side by side):
each copies half of the common B (or A) tile, to both.

Algorithm: for every tile, in an order that keeps the tiles worked on at one time in a near-square region (so that
their operands stay in L2), the consumers issue the wgmmas of a buffer, wait for those of the buffer before, and let
go of that. Then they convert the sums and store them by bulk copies through shared memory (straight from registers
where rows of C do not begin at multiples of 16 bytes), while the producer fills the ring for the next tile. Slices of
the work are matrices of a stack, chunks of K, whose partial results follow each other, or chunks of each matrix.

Per element of C: 2 K flops; per 128 x tile_n tile, (128 + tile_n) K operand elements are read (from L2, mostly).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.epilogue import BoundEpilogue, Epilogue
from oxinp._kernels.gemm_store import Direct, Finisher
from oxinp._kernels.gemm_tiles import TILE_M, Tiles
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.mbarrier import Consumer, Pipeline, Producer
from oxinp._ptx.tile import OperandTile, ResultTile, operand_box
from oxinp._ptx.tma import ALIGN, MapSpec, TensorMap
from oxinp._ptx.types import Type, bf16, e4m3, e5m2, f16, f32, i8, i32, pred, u8, u32
from oxinp._ptx.wgmma import FORMS, WARPGROUP, Queue, Totals, limit_registers

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value
    from oxinp._ptx.wgmma import Accumulator

NUM_CONSUMERS = 2
ROWS = TILE_M // NUM_CONSUMERS  # of C that one consumer owns
DEPTH_NBYTES = 128  # of K per tile
STEPS = 4  # wgmmas along that
MAX_PROMOTED = 128  # columns of tiles with totals
MAX_DIRECT = 192  # columns of tiles that are stored directly: their code takes long to compile
# 384 threads begin with 168 registers each; the producers leave theirs to the consumers.
PRODUCER_REGISTERS, CONSUMER_REGISTERS = 40, 232
NAMES = {"k": "k", "mn": "m"}
# Of operands: what results may be. Sums of bytes wrap around, as NumPy's; as pred they say whether they are not 0.
OUTS: dict[Type, tuple[Type, ...]] = {
    bf16: (f32, bf16),
    f16: (f32, f16),
    f32: (f32,),
    e4m3: (f32, bf16, f16),
    e5m2: (f32, bf16, f16),
    i8: (i32, i8),
    u8: (i32, u8, pred),
}


class GemmSpec(NamedTuple):
    """One matrix multiply kernel (sm_90a).

    Attributes
    ----------
    type : Type
        Of the operands: a key of `OUTS`; f32 is rounded to tf32.
    out : Type
        Of the result: that of the sums, or `type`; see `OUTS`. With an epilogue any but complex ones.
    a_major, b_major : str
        The contiguous axis of each: ``"k"`` or ``"mn"``; types that are not of 16 bits have ``"k"`` only.
    tile_n : int
        Columns of C per tile.
    num_stages : int
    cluster : int
        1 or 2.
    is_sliced : bool
        The work has slices: matrices, chunks of K, or both.
    is_bulk : bool
        Rows of C begin at multiples of 16 bytes: they are stored by bulk copies.
    shared : str
        What the blocks of a cluster have in common, ``"a"`` or ``"b"``.
    is_promoted : bool
        Sums of a tile of K are added to totals, rounded: the units cut off what they add to sums, of e4m3 and e5m2
        below 2**-13 of the largest term. Takes twice the registers.
    epilogue : Epilogue, optional
        What becomes of the sums. If C is stored by bulk copies its inputs are read in pairs.
    """

    type: Type
    out: Type
    a_major: str = "k"
    b_major: str = "mn"
    tile_n: int = 256
    num_stages: int = 4
    cluster: int = 2
    is_sliced: bool = False
    is_bulk: bool = True
    is_promoted: bool = False
    shared: str = "b"
    epilogue: Epilogue | None = None

    def check(self) -> None:
        """Raise ValueError if there is no such kernel."""
        if self.type not in OUTS or (self.out not in OUTS[self.type] if self.epilogue is None else self.out.is_complex):
            raise ValueError(f"no kernel multiplies {self.type} into {self.out}")
        if self.tile_n not in (64, 128, 192, 256) or (self.is_bulk and self.tile_n * self.out.nbytes % DEPTH_NBYTES):
            raise ValueError(f"tile_n is 64, 128, 192 or 256 and rows of it 128 bytes, not {self.tile_n}")
        if self.is_promoted and self.tile_n > MAX_PROMOTED:
            raise ValueError(f"totals of tiles of {self.tile_n} columns take too many registers")
        if not self.is_bulk and self.tile_n > MAX_DIRECT:
            raise ValueError(f"tiles of {self.tile_n} columns are not stored directly")
        if self.cluster not in (1, 2):
            raise ValueError(f"a cluster is 1 or 2 blocks, not {self.cluster}")
        if self.shared not in ("a", "b"):
            raise ValueError(f"a cluster shares 'a' or 'b', not {self.shared!r}")
        if self.num_stages < 2:
            raise ValueError(f"a ring needs at least 2 buffers, not {self.num_stages}")
        self.boxes()

    @property
    def depth(self) -> int:
        """Elements of K per tile."""
        return DEPTH_NBYTES // self.type.nbytes

    @property
    def parts(self) -> tuple[int, int]:
        """Of a tile of A and of B: how many blocks copy them."""
        return (self.cluster, 1) if self.shared == "a" else (1, self.cluster)

    def boxes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Of the copies of A and of B; raises ValueError where tiles cannot be copied so."""
        beside, above = self.parts
        return (
            operand_box(self.type, TILE_M, self.depth, self.a_major, beside),
            operand_box(self.type, self.tile_n, self.depth, self.b_major, above),
        )

    @property
    def name(self) -> str:
        """Entry name."""
        majors = NAMES[self.a_major] + NAMES[self.b_major]
        ways = (
            "_sliced" * self.is_sliced
            + "_direct" * (not self.is_bulk)
            + "_promoted" * self.is_promoted
            + "_a" * (self.shared == "a")
            + "_finished" * (self.epilogue is not None)
        )
        return f"gemm_{self.type}_{self.out}_{majors}_{TILE_M}x{self.tile_n}_s{self.num_stages}_c{self.cluster}{ways}"


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: GemmSpec) -> Kernel:
    """The kernel of a Spec.

    Parameters of the kernel: tensor maps of C (if stored directly, a pointer), A and B, of three axes if sliced, the
    first one the slices' of C and the matrices' of A and B; the epilogue's, see `BoundEpilogue`; then as u32 the tiles
    along M, N (clusters are whole) and K, all at least 1; if sliced, the number of slices, chunks per matrix, tiles of
    K per chunk, and whether A and B differ between matrices (1) or not (0); with an epilogue, or if stored directly, M
    and N.
    """
    spec.check()
    k = Builder(
        spec.name,
        block=(1 + NUM_CONSUMERS) * WARPGROUP,
        target="sm_90a",
        min_blocks=1,
        cluster=spec.cluster if spec.cluster > 1 else None,
    )
    rank = 3 if spec.is_sliced else 2
    c: TensorMap | Pointer = TensorMap(k, "c_map", rank) if spec.is_bulk else k.pointer("c", spec.out, "w")
    a_map, b_map = (TensorMap(k, name, rank) for name in ("a_map", "b_map"))
    epilogue = BoundEpilogue(k, spec.epilogue) if spec.epilogue is not None else None
    tiles = Tiles(k, spec.cluster, spec.tile_n, is_sliced=spec.is_sliced, shared=spec.shared)
    a, b = (
        OperandTile(k, spec.type, extent, spec.depth, major, spec.num_stages, num_parts)
        for extent, major, num_parts in zip(
            (TILE_M, spec.tile_n), (spec.a_major, spec.b_major), spec.parts, strict=True
        )
    )
    pipeline = Pipeline(k, spec.num_stages, NUM_CONSUMERS, a.nbytes + b.nbytes)
    extents = () if spec.is_bulk and epilogue is None else tuple(k.scalar(name, u32) for name in ("m", "n"))
    # The same in all lanes of a warp, and the shuffle lets the compiler know.
    warpgroup = k.shfl_idx(k.tid >> 7, 0)

    with k.when(warpgroup == 0):
        limit_registers(k, PRODUCER_REGISTERS, is_increase=False)
        with k.when(k.tid == 0):
            _produce(k, spec, tiles, pipeline, (a_map, a), (b_map, b))
    with k.otherwise():
        limit_registers(k, CONSUMER_REGISTERS, is_increase=True)
        number, thread = warpgroup - 1, k.tid & (WARPGROUP - 1)
        result: Any
        if isinstance(c, TensorMap):
            result = ResultTile(k, spec.out, NUM_CONSUMERS, number, thread)
        else:
            result = Direct(k, extents, thread)
        finisher = epilogue and Finisher(epilogue, spec.out, extents, thread, 2 if spec.is_bulk else 1)

        def store(sums: Accumulator | Totals, row: Value, column: Value, outer: tuple[Value, ...]) -> None:
            result.store(c, sums, row, column, outer, finisher and finisher.at(row, column, outer))

        _consume(k, spec, tiles, Consumer(pipeline, thread), a, b, store, number)
        result.close()
    pipeline.close()
    return k.build()


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
    with tiles.each_sliced() as (number, row, column):
        of_a, of_b = tiles.matrices(number)
        with k.range(*tiles.depth_range(number)) as step:
            slot = producer.acquire()
            start = step * spec.depth
            of_all = [everyone if num_parts > 1 else 0 for num_parts in spec.parts]
            a_tile.load(a_map, slot, row, start, tiles.rank, of_all[0], outer=of_a)
            b_tile.load(b_map, slot, column, start, tiles.rank, of_all[1], outer=of_b)


def _consume(
    k: Builder,
    spec: GemmSpec,
    tiles: Tiles,
    consumer: Consumer,
    a: OperandTile,
    b: OperandTile,
    store: Callable[..., None],
    number: Value,
) -> None:
    queue = Queue(k)
    sums = queue.accumulator(spec.tile_n, FORMS[spec.type].sums[0])
    totals = Totals(sums) if spec.is_promoted else None
    first_row = number * ROWS

    def multiply() -> None:
        stage = consumer.acquire()
        with queue.group():
            sums.multiply(a.rows(stage, first_row), b.rows(stage), STEPS, spec.type)

    with tiles.each_sliced() as (slice_number, row, column):
        begin, end = tiles.depth_range(slice_number)
        if totals is not None:
            totals.reset()
            with k.range(begin, end):
                sums.reset()
                multiply()
                queue.wait()
                consumer.release()
                totals.add()
        else:
            sums.reset()
            with k.range(begin, end) as step:
                multiply()
                queue.wait(1)
                with k.when(step > begin):
                    consumer.release()
            queue.wait()
            consumer.release()
        store(totals or sums, row + first_row, column, () if slice_number is None else (slice_number,))


class Stack(NamedTuple):
    """Slices: how many matrices, how far apart in bytes those of A and B are (0: there is one), chunks of K of each."""

    num_matrices: int
    a_stride: int
    b_stride: int
    num_chunks: int = 1


class GemmLaunch(NamedTuple):
    """How to launch: parameters are the encoded maps of C, A and B, the epilogue's inputs, then the constants.

    Where there is no map of C, its address.
    """

    kernel: Kernel
    grid: tuple[int, int, int]
    maps: tuple[MapSpec | None, MapSpec, MapSpec]
    constants: tuple[int, ...]
    num_slices: int


def plan(
    spec: GemmSpec,
    m: int,
    n: int,
    depth: int,
    num_sms: int,
    strides_nbytes: tuple[int, int, int] | None = None,
    stack: Stack | None = None,
    epilogue_constants: tuple[int, ...] = (),
) -> GemmLaunch:
    """Launch of C (m, n) = A (m, depth) @ B (depth, n), or of a stack of them.

    Parameters
    ----------
    m, n, depth : int
        At least 1; if C is stored in bulk, its rows are multiples of 16 bytes. Rows of A and B are read up to such
        multiples: behind those along K have to be zeros.
    num_sms : int
    strides_nbytes : tuple of int, optional
        Distances of consecutive rows of C, A and B as they lie in memory, multiples of 16; rows that follow each
        other unless given. Base addresses have to be multiples of 16, too.
    stack : Stack, optional
        Of a Spec that is sliced. Slices of C follow each other, those of a matrix first.
    epilogue_constants : tuple of int
        What `epilogue.bind` gives beside the epilogue, whose first loop is that over slices if there are some.

    Raises
    ------
    ValueError
        The copy engine cannot reach these layouts.
    """
    if min(m, n, depth) < 1:
        raise ValueError(f"nothing to multiply: {m} x {depth} by {depth} x {n}")
    unit = ALIGN // spec.type.nbytes
    a_shape, b_shape = (
        (extent, -(-depth // unit) * unit) if major == "k" else (depth, -(-extent // unit) * unit)
        for major, extent in ((spec.a_major, m), (spec.b_major, n))
    )
    if strides_nbytes is None:
        rows = (n * spec.out.nbytes, *(shape[1] * spec.type.nbytes for shape in (a_shape, b_shape)))
        strides_nbytes = (rows[0], rows[1], rows[2])
    c_stride, a_stride, b_stride = strides_nbytes
    beside, above = spec.parts
    a_box, b_box = spec.boxes()
    num_m, num_n = -(-m // (TILE_M * above)) * above, -(-n // (spec.tile_n * beside)) * beside
    num_k = -(-depth // spec.depth)
    constants: tuple[int, ...] = (*epilogue_constants, num_m, num_n, num_k)
    slices, moves = (1, 1, 1), (0, 0, 0)  # of C, A and B
    if stack is not None:
        chunk = -(-num_k // stack.num_chunks)
        num_chunks = -(-num_k // chunk)
        slices = (stack.num_matrices * num_chunks, stack.num_matrices, stack.num_matrices)
        moves = (m * c_stride, stack.a_stride, stack.b_stride)
        constants += (slices[0], num_chunks, chunk, *(int(move > 0) for move in moves[1:]))

    def described(number: int, type: Type, shape: tuple[int, int], stride: int, box: tuple[int, int]) -> MapSpec:
        is_tf32 = number > 0 and type is f32
        if stack is None:
            return MapSpec(type, shape, (stride,), box, rounds_to_tf32=is_tf32)
        # One matrix for all: no coordinate but 0 is used.
        extent, distance = (slices[number], moves[number]) if moves[number] else (1, ALIGN)
        return MapSpec(type, (extent, *shape), (distance, stride), (1, *box), rounds_to_tf32=is_tf32)

    type, c_type = (u8 if each.nbytes == 1 else each for each in (spec.type, spec.out))  # bytes are bytes to the engine
    return GemmLaunch(
        make(spec),
        (min(num_sms // spec.cluster * spec.cluster, num_m * num_n * slices[0]), 1, 1),
        (
            described(0, c_type, (m, n), c_stride, ResultTile.box(spec.out)) if spec.is_bulk else None,
            described(1, type, a_shape, a_stride, a_box),
            described(2, type, b_shape, b_stride, b_box),
        ),
        constants if spec.is_bulk and spec.epilogue is None else (*constants, m, n),
        slices[0],
    )


__all__ = ["OUTS", "TILE_M", "GemmLaunch", "GemmSpec", "Stack", "Tiles", "make", "plan"]
