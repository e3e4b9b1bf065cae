"""Matrix multiply on Hopper's asynchronous units: C = A @ B of halves or tf32 with f32 sums, of bytes with i32 sums.

Data layout: A is (M, K), B is (K, N), C is (M, N) in global memory, each row-major, or A and B transposed
("k" and "mn" major say which axis is contiguous), or stacks of such. In shared memory there is a ring of `num_stages`
pairs of tiles, 128 x 128 bytes of A and `tile_n` x 128 bytes of B, swizzled as wgmma reads them, and two boxes per
consumer for C.

Who owns what: persistent blocks of three warpgroups. One thread of warpgroup 0, the producer, keeps the ring full
by bulk tensor copies. Warpgroups 1 and 2, the consumers, own 64 rows of C each, in registers. A barrier pair per ring
buffer passes it back and forth. In a cluster of two, the blocks work on tiles one above the other (or side by side):
each copies half of the common B (or A) tile, to both. Or they share a tile of C: each has half of K, and stores half of
the rows, of which the other one sends it what it has.

Algorithm: for every tile, in an order that keeps the tiles worked on at one time in a near-square region (so that
their operands stay in L2), the consumers issue the wgmmas of a buffer, wait for those of the buffer before, and let
go of that. Then they convert the sums and store them by bulk copies through shared memory (straight from registers
where rows of C do not begin at multiples of 16 bytes), while the producer fills the ring for the next tile. Slices of
the work are matrices of a stack, chunks of K, whose partial results follow each other, or chunks of each matrix.

Where there are few tiles, blocks may also have runs of K of one, and go on with what others have left of it in memory:
see `split_k`.

C may also lie by columns: products are turned, B.T by A.T, where there are few rows but many columns, and where f32 is
multiplied as tf32 and B lies along N: the left operand may come through registers.

Per element of C: 2 K flops; per 128 x tile_n tile, (128 + tile_n) K operand elements are read (from L2, mostly).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.gemm.epilogue import BoundEpilogue, EpilogueSpec
from oxinp._kernels.gemm.sm90_wgmma import epilogue_rows
from oxinp._kernels.gemm.sm90_wgmma.cluster_split_k import ClusterSplitK, ReducedSums
from oxinp._kernels.gemm.sm90_wgmma.epilogue import Direct, FragmentEpilogue
from oxinp._kernels.gemm.sm90_wgmma.mainloop import builder_of, consume, divide, produce
from oxinp._kernels.gemm.sm90_wgmma.scheduler import DEPTH_NBYTES, NUM_CONSUMERS, ROWS, TILE_M, TileScheduler
from oxinp._kernels.gemm.sm90_wgmma.split_k import SerialSplitK, SplitKScheduler, parts_of
from oxinp._kernels.plan import FLAGS, SCRATCH, Argument, Launch, Plan, inputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx.fragments import TurnedResultTile
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.mbarrier import Consumer, Pipeline
from oxinp._ptx.synchronize import follow
from oxinp._ptx.tile import ColumnsTile, OperandTile, ResultTile, operand_box
from oxinp._ptx.tma import ALIGN, MapSpec, TensorMap
from oxinp._ptx.types import Type, bf16, e4m3, e5m2, f16, f32, i8, i32, pred, u8, u32
from oxinp._ptx.wgmma import FORMS

if TYPE_CHECKING:
    from oxinp._kernels.gemm.operand import StridedBatch
    from oxinp._ptx import Kernel
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value
    from oxinp._ptx.wgmma import Accumulator, Totals

TILES_N = (16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256)
MAX_PROMOTED = 128  # columns of tiles with totals
# Columns of tiles that are stored directly, by rows and by columns: their code takes long to compile.
MAX_DIRECT, MAX_DIRECT_BY_COLUMNS = 192, 128
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


class WgmmaSpec(NamedTuple):
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
        What the blocks of a cluster have in common, ``"a"``, ``"b"`` or ``"c"``.
    is_promoted : bool
        Sums of a tile of K are added to totals, rounded: the units cut off what they add to sums, of e4m3 and e5m2
        below 2**-13 of the largest term. Takes twice the registers.
    epilogue : Epilogue, optional
        What becomes of the sums. If C lies by rows and is stored by bulk copies, its inputs are read in pairs.
    is_rolled : bool
        The epilogue is a loop over rows (see `epilogue_rows`), of a C of 2 or 4 bytes that is stored by bulk copies.
    is_serial_split_k : bool
        Blocks have runs of steps of K of all tiles, and add up what they have of one through memory; see `split_k`.
    is_column_major : bool
        C lies by columns, that is along M; in bulk if A is f32 that lies along M, or C has 2 bytes, else directly.
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
    epilogue: EpilogueSpec | None = None
    is_column_major: bool = False
    is_rolled: bool = False
    is_serial_split_k: bool = False

    def check(self) -> None:
        """Raise ValueError if there is no such kernel."""
        if self.type not in OUTS or (self.out not in OUTS[self.type] if self.epilogue is None else self.out.is_complex):
            raise ValueError(f"no kernel multiplies {self.type} into {self.out}")
        if self.tile_n not in TILES_N or (
            self.is_bulk and not self.is_column_major and self.tile_n * self.out.nbytes % DEPTH_NBYTES
        ):
            raise ValueError(f"tile_n is one of {TILES_N} and rows of it 128 bytes, not {self.tile_n}")
        if self.b_major != "k" and self.type.nbytes != f16.nbytes:
            raise ValueError(f"wgmma reads {self.type} operands K-major only")
        if self.is_through_registers and not (self.is_column_major and self.is_bulk and self.tile_n % 64 == 0):
            raise ValueError("operands that come through registers make results by columns, in bulk")
        if self.is_through_registers and self.epilogue is not None:
            raise ValueError("what comes through registers has no epilogue")
        if self.is_column_major and self.is_bulk and not self.is_through_registers and self.out.nbytes != f16.nbytes:
            raise ValueError(f"results of {self.out} by columns are stored directly")
        if self.is_rolled and (
            self.epilogue is None
            or not self.is_bulk
            or self.is_column_major
            or self.out.nbytes not in epilogue_rows.NBYTES
        ):
            raise ValueError(f"no epilogue goes over rows of {self.out} that are stored like this")
        if self.is_promoted and self.tile_n > MAX_PROMOTED:
            raise ValueError(f"totals of tiles of {self.tile_n} columns take too many registers")
        if not self.is_bulk and self.tile_n > (MAX_DIRECT_BY_COLUMNS if self.is_column_major else MAX_DIRECT):
            raise ValueError(f"tiles of {self.tile_n} columns are not stored directly")
        if self.cluster not in (1, 2):
            raise ValueError(f"a cluster is 1 or 2 blocks, not {self.cluster}")
        if self.is_serial_split_k and self.shared == "c":
            raise ValueError("runs have no halves")
        if self.shared not in ("a", "b", "c") or (self.shared == "c" and self.cluster == 1):
            raise ValueError(f"a cluster shares 'a' or 'b', or if of 2 'c', not {self.shared!r}")
        if self.num_stages < 2:
            raise ValueError(f"a ring needs at least 2 buffers, not {self.num_stages}")
        self.boxes()

    @property
    def depth(self) -> int:
        """Elements of K per tile."""
        return DEPTH_NBYTES // self.type.nbytes

    @property
    def is_through_registers(self) -> bool:
        """Whether the units take A from registers: they read what is not of 16 bits along K only."""
        return self.a_major != "k" and self.type is f32

    @property
    def num_storing(self) -> int:
        """Consumers that store what they have."""
        return NUM_CONSUMERS // 2 if self.shared == "c" else NUM_CONSUMERS

    @property
    def shared_nbytes(self) -> int:
        """Shared memory, but for barriers."""
        are_columns = self.is_column_major and not self.is_through_registers
        num_lines = ColumnsTile.columns_box(self.out, self.tile_n)[0] if are_columns else ROWS
        boxes = self.num_storing * ResultTile.NUM_BUFFERS * num_lines * DEPTH_NBYTES if self.is_bulk else 0
        sums = ROWS * self.tile_n * f32.nbytes if self.shared == "c" else 0
        return self.num_stages * (TILE_M + self.tile_n) * DEPTH_NBYTES + boxes + sums

    @property
    def multicast(self) -> tuple[int, int]:
        """Of a tile of A and of B: how many blocks copy them."""
        return (self.cluster if self.shared == "a" else 1), (self.cluster if self.shared == "b" else 1)

    def boxes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Of the copies of A and of B; raises ValueError where tiles cannot be copied so."""
        beside, above = self.multicast
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
            + f"_{self.shared}" * (self.shared != "b")
            + "_columns" * self.is_column_major
            + "_finished" * (self.epilogue is not None)
            + "_rolled" * self.is_rolled
            + "_runs" * self.is_serial_split_k
        )
        return f"gemm_{self.type}_{self.out}_{majors}_{TILE_M}x{self.tile_n}_s{self.num_stages}_c{self.cluster}{ways}"


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: WgmmaSpec) -> Kernel:
    """The kernel of a Spec.

    Parameters of the kernel: tensor maps of C (if stored directly, a pointer), A and B, of three axes if sliced, the
    first one the slices' of C and the matrices' of A and B; the epilogue's, see `BoundEpilogue`; then as u32 the tiles
    along M, N (clusters are whole) and K, all at least 1; if sliced, the number of slices, chunks per matrix, tiles of
    K per chunk, and whether A and B differ between matrices (1) or not (0); with an epilogue, or if stored directly, M
    and N.
    """
    spec.check()
    k = builder_of(spec)
    rank = 3 if spec.is_sliced else 2
    c: TensorMap | Pointer = TensorMap(k, "c_map", rank) if spec.is_bulk else k.pointer("c", spec.out, "w")
    a_map, b_map = (TensorMap(k, name, rank) for name in ("a_map", "b_map"))
    memory = (k.pointer("sums", FORMS[spec.type].sums[0]), k.pointer("flags", u32)) if spec.is_serial_split_k else None
    epilogue = BoundEpilogue(k, spec.epilogue) if spec.epilogue is not None else None
    kind = SplitKScheduler if spec.is_serial_split_k else TileScheduler
    tiles = kind(k, spec.cluster, spec.tile_n, is_sliced=spec.is_sliced, shared=spec.shared)
    a, b = (
        OperandTile(k, spec.type, extent, spec.depth, major, spec.num_stages, num_parts)
        for extent, major, num_parts in zip(
            (TILE_M, spec.tile_n), (spec.a_major, spec.b_major), spec.multicast, strict=True
        )
    )
    cluster_reduction = ClusterSplitK(k, tiles, FORMS[spec.type].sums[0]) if spec.shared == "c" else None
    pipeline = Pipeline(k, spec.num_stages, NUM_CONSUMERS, a.nbytes + b.nbytes, is_shared=cluster_reduction is None)
    extents = () if spec.is_bulk and epilogue is None else tuple(k.scalar(name, u32) for name in ("m", "n"))

    def multiply(number: Value, thread: Value) -> None:
        follow(k)
        storing = k.const(0, u32) if spec.num_storing == 1 else number
        result: Any
        if spec.is_through_registers:
            result = TurnedResultTile(k, spec.num_storing, storing, thread)
        elif spec.is_rolled:
            result = epilogue_rows.RowsTile(k, spec.out, spec.num_storing, storing, thread)
        elif spec.is_column_major and spec.is_bulk:
            result = ColumnsTile(k, spec.out, spec.tile_n, spec.num_storing, storing, thread)
        elif isinstance(c, TensorMap):
            result = ResultTile(k, spec.out, spec.num_storing, storing, thread)
        else:
            result = Direct(k, extents, thread, is_column_major=spec.is_column_major)
        if cluster_reduction is not None:
            cluster_reduction.join(number, thread)
        serial = (
            SerialSplitK(k, tiles, *memory, number, thread)
            if isinstance(tiles, SplitKScheduler) and memory is not None
            else None
        )
        tile_epilogue: FragmentEpilogue | epilogue_rows.RowEpilogue | None = None
        if epilogue is not None and spec.is_rolled:
            tile_epilogue = epilogue_rows.RowEpilogue(epilogue, spec.out, extents)
        elif epilogue is not None:
            are_paired = spec.is_bulk and not spec.is_column_major
            tile_epilogue = FragmentEpilogue(epilogue, spec.out, extents, thread, 2 if are_paired else 1)

        def store(own: Accumulator | Totals, row: Value, column: Value, outer: tuple[Value, ...]) -> None:
            def store_all(sums: Accumulator | Totals | ReducedSums) -> None:
                result.store(c, sums, row, column, outer, tile_epilogue and tile_epilogue.at(row, column, outer))

            if serial is not None:
                serial.store(own, store_all)
            elif cluster_reduction is not None:
                cluster_reduction.store(own, store_all)
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
    stack: StridedBatch | None = None,
    epilogue_constants: tuple[int, ...] = (),
    num_parts: int = 1,
) -> Plan:
    """Return the plan of C (m, n) = A (m, depth) @ B (depth, n), or of a stack of them: one launch.

    The inputs are A and B, then the epilogue's. A Spec in runs has partial sums in the scratch buffer, and flags.

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
    num_parts : int
        Of a Spec in runs: how many a tile has at most.

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
    c_shape, c_box = (m, n), ResultTile.box(spec.out)
    if spec.is_column_major:
        box = TurnedResultTile.box() if spec.is_through_registers else ColumnsTile.columns_box(spec.out, spec.tile_n)
        c_shape, c_box = (n, m), box
    if strides_nbytes is None:
        rows = (c_shape[1] * spec.out.nbytes, *(shape[1] * spec.type.nbytes for shape in (a_shape, b_shape)))
        strides_nbytes = (rows[0], rows[1], rows[2])
    c_stride, a_stride, b_stride = strides_nbytes
    beside, above = spec.multicast
    a_box, b_box = spec.boxes()
    num_m, num_n = -(-m // (TILE_M * above)) * above, -(-n // (spec.tile_n * beside)) * beside
    num_k = -(-depth // spec.depth)
    constants: tuple[int, ...] = (*epilogue_constants, num_m, num_n, num_k)
    slices, moves, shortest = (1, 1, 1), (0, 0, 0), num_k  # of C, A and B
    if stack is not None:
        chunk = -(-num_k // stack.split_k)
        split_k = -(-num_k // chunk)
        shortest = num_k - (split_k - 1) * chunk
        slices = (stack.num_matrices * split_k, stack.num_matrices, stack.num_matrices)
        moves = (c_shape[0] * c_stride, stack.a_stride, stack.b_stride)
        constants += (slices[0], split_k, chunk, *(int(move > 0) for move in moves[1:]))

    per_tile = spec.cluster if spec.shared == "c" else 1
    num_blocks = num_m * num_n * slices[0] * per_tile
    partials_nbytes = 0
    if spec.is_serial_split_k:
        num_parts, length = parts_of(num_k, num_parts)
        constants += (num_parts, length)
        num_blocks *= num_parts
        partials_nbytes = num_blocks * TILE_M * spec.tile_n * f32.nbytes
    if shortest < per_tile:
        raise ValueError("one tile of K has no halves")

    def described(number: int, type: Type, shape: tuple[int, int], stride: int, box: tuple[int, int]) -> MapSpec:
        is_tf32 = number > 0 and type is f32
        if stack is None:
            return MapSpec(type, shape, (stride,), box, rounds_to_tf32=is_tf32)
        # One matrix for all: no coordinate but 0 is used.
        extent, distance = (slices[number], moves[number]) if moves[number] else (1, ALIGN)
        return MapSpec(type, (extent, *shape), (distance, stride), (1, *box), rounds_to_tf32=is_tf32)

    type, c_type = (u8 if each.nbytes == 1 else each for each in (spec.type, spec.out))  # bytes are bytes to the engine
    c_map = described(0, c_type, c_shape, c_stride, c_box) if spec.is_bulk else None
    a_map, b_map = described(1, type, a_shape, a_stride, a_box), described(2, type, b_shape, b_stride, b_box)
    arguments = (
        *(Argument("out0", map=c_map), Argument("in0", map=a_map), Argument("in1", map=b_map)),
        *((SCRATCH, FLAGS) if spec.is_serial_split_k else ()),
        *inputs(len(spec.epilogue.chain.inputs) if spec.epilogue is not None else 0, 2),
    )
    grid = (min(num_sms // spec.cluster * spec.cluster, num_blocks), 1, 1)
    constants = constants if spec.is_bulk and spec.epilogue is None else (*constants, m, n)
    return Plan((Launch(make(spec), grid, arguments, constants),), partials_nbytes)


__all__ = ["OUTS", "TILE_M", "TileScheduler", "WgmmaSpec", "make", "plan"]
