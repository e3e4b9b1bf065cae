"""Matrix multiply of f64, c128 and f32 in their own types, or f32 in parts, on Hopper: C = A @ B, or stacks of such.

Data layout: A is (M, K), B is (K, N), C is (M, N) in global memory, each row-major, or A and B transposed ("k" and "mn"
major say which axis is contiguous). In shared memory there is a ring of `num_stages` pairs of tiles, 128 bytes deep
along K: rows of 128 bytes, swizzled, along K or along M or N as the operand itself.

Who owns what: blocks of warps that multiply, `warp_m` x `warp_n` of C in registers each, behind a first one of which
one thread keeps the ring full by bulk tensor copies; persistent ones where a multiprocessor has one of them. What a
warp does with tiles is in `native_warps`. In a cluster of two, the blocks work on tiles one above the other and each
copies half of the common B tile, to both.

Algorithm: for every tile, in an order that keeps the tiles worked on at one time in a near-square region, warps
multiply what is in a buffer, begin to load what is in the next one, and let go of the one before. They store their
sums while the ring fills for the next tile. Slices of the work are as in `gemm`.

Per element of C: 2 K flops; per tile, (tile_m + tile_n) K operand elements are read (from L2, mostly).
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels import native_parts, native_warpgroups
from oxinp._kernels.gemm_tiles import Tiles
from oxinp._kernels.gemm_warpgroups import produce
from oxinp._kernels.native_checked import PAD, Chains
from oxinp._kernels.native_fragments import OPERANDS, STEP
from oxinp._kernels.native_parts import BOX_LINES, NUM_PARTS, PartsWarp
from oxinp._kernels.native_warpgroups import NUM_BUFFERS, TILE_M, TILE_N
from oxinp._kernels.native_warps import FMA_DEPTH, HEIGHT, VECTOR, WARP, DmmaWarp, FmaWarp, Warp
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.mbarrier import Pipeline, Rounds
from oxinp._ptx.synchronize import follow
from oxinp._ptx.tile import OperandTile, operand_box
from oxinp._ptx.tma import ALIGN, SWIZZLE_NBYTES, MapSpec, TensorMap
from oxinp._ptx.types import Type, bf16, c128, f32, f64, i64, u32
from oxinp._ptx.value import Value

if TYPE_CHECKING:
    from oxinp._kernels.gemm import Stack
    from oxinp._ptx.memory import Pointer

WARPS: dict[Type, type[DmmaWarp | FmaWarp]] = {f64: DmmaWarp, c128: DmmaWarp, f32: FmaWarp}
# What rows and columns of tiles are multiples of.
UNITS = {**{type_: operand.height for type_, operand in OPERANDS.items()}, f32: FMA_DEPTH}
WARPGROUPS = (TILE_M, TILE_N, native_warpgroups.HEIGHT, native_warpgroups.WIDTH, 1, 1)
NAMES = {"k": "k", "mn": "m"}
NUM_TURNS = 16  # of blocks, for as many as there is room for; beyond, beginning costs more than turns bring
MAX_MULTIPLIES = 128  # instructions of a warp in a round; where operands lie alike, there are others beside
SM_REGISTERS, MAX_REGISTERS, OTHER_REGISTERS = 65536, 255, 32


class NativeSpec(NamedTuple):
    """One kernel of the family (sm_90a).

    Attributes
    ----------
    type : Type
        f64 or c128, multiplied by the tensor cores, or f32, by multiply-adds or in parts.
    a_major, b_major : str
        The contiguous axis of each: ``"k"`` or ``"mn"``.
    tile_m, tile_n : int
        Of C, per block.
    warp_m, warp_n : int
        Of C, per warp.
    num_stages : int
    cluster : int
        1 or 2.
    blocks_per_sm : int
        That registers and shared memory are to allow.
    num_groups : int
        Of f32: of warps that share the products of a part of C, 1 or 2, each along K in its own chain.
    is_in_parts : bool
        Of f32: multiplied by the tensor cores, see `native_parts`.
    is_by_warpgroups : bool
        So, and by wgmma: see `native_warpgroups`.
    is_complex : bool
        So, and A, B and C are complex matrices, seen as ones of f32: columns are counted as such, and K is.
    promotion : int
        Of multiply-adds: of K, after which sums are added to others, and begin anew; 0: never.
    is_sliced : bool
        The work has slices: matrices, chunks of K, or both.
    is_paired : bool
        Rows of C begin at multiples of 16 bytes.
    round_length : int
        Buffers of the ring that every turn of the loop along K is for: they, and tiles along K, are a multiple of it.
    """

    type: Type = f64
    a_major: str = "k"
    b_major: str = "mn"
    tile_m: int = 64
    tile_n: int = 128
    warp_m: int = 32
    warp_n: int = 32
    num_stages: int = 8
    cluster: int = 2
    blocks_per_sm: int = 1
    num_groups: int = 1
    is_in_parts: bool = False
    is_by_warpgroups: bool = False
    is_complex: bool = False
    promotion: int = 0
    is_sliced: bool = False
    is_paired: bool = True
    round_length: int = 1

    @property
    def depth(self) -> int:
        """Of K per tile."""
        return SWIZZLE_NBYTES // self.type.nbytes

    def fitted(self, depth: int) -> NativeSpec:
        """The Spec for so much of K: with the longest rounds that take no longer to compile than kernels may."""
        longest = 1
        if self.type is not f32:  # that has instructions enough, and registers just
            per_buffer = self.warp_m * self.warp_n * len(self.type.parts) // 64
            longest = MAX_MULTIPLIES // per_buffer // (2 if self.a_major == self.b_major else 1)
        num_steps = math.gcd(-(-depth // self.depth), self.num_stages)
        return self._replace(round_length=next(x for x in range(longest, 0, -1) if num_steps % x == 0))

    @property
    def b_depth(self) -> int:
        """Rows of B that are so much of K."""
        return self.depth // 2 if self.is_complex else self.depth

    @property
    def num_warps(self) -> int:
        """Warps that multiply."""
        return self.tile_m // self.warp_m * (self.tile_n // self.warp_n) * self.num_groups

    @property
    def block(self) -> int:
        """Threads."""
        return (self.num_warps + (not self.is_by_warpgroups)) * WARP

    @property
    def words(self) -> int:
        """Registers for sums and fragments, and others."""
        sums = self.warp_m * self.warp_n // WARP * (self.type.nbytes // 4)
        if self.is_in_parts:
            return sums + (self.warp_m + self.warp_n) // 2 + OTHER_REGISTERS
        if self.type is f32:
            return sums + self.warp_m + self.warp_n // 2 + OTHER_REGISTERS
        left, right = (self.warp_n, self.warp_m) if self.is_turned else (self.warp_m, self.warp_n)
        return sums + 2 * (left + HEIGHT + 2 * right) * STEP // WARP + OTHER_REGISTERS

    @property
    def is_turned(self) -> bool:
        """Whether the transpose of C is computed."""
        return (self.a_major, self.b_major) != ("mn", "k")

    @property
    def max_words(self) -> int:
        """Registers that there are; every quarter of a multiprocessor has as many warps as the fullest."""
        warps = -(-self.blocks_per_sm * (self.num_warps + 1) // 4) * 4
        return min(MAX_REGISTERS, SM_REGISTERS // (warps * WARP))

    @property
    def shared_nbytes(self) -> int:
        """Shared memory of a block."""
        ring = self.num_stages * ((self.tile_m + self.tile_n) * SWIZZLE_NBYTES + 16)
        if self.is_complex:
            ring -= self.num_stages * self.tile_n * SWIZZLE_NBYTES // 2
        if self.is_by_warpgroups:
            num_parts = NUM_PARTS if self.b_major == "mn" else 4  # one is not used, see `PartsOfB`
            ring += NUM_BUFFERS * num_parts * self.tile_n * self.depth * bf16.nbytes
        if self.is_in_parts:
            return ring + (self.num_groups * self.tile_m * (self.tile_n + PAD) + 2 * self.num_warps) * f32.nbytes
        return ring + (self.tile_m * self.tile_n * self.num_groups * f32.nbytes if self.type is f32 else 0)

    @property
    def name(self) -> str:
        """Entry name."""
        majors = NAMES[self.a_major] + NAMES[self.b_major]
        ways = f"_g{self.num_groups}_p{self.promotion}" * (self.type is f32) + "_parts" * self.is_in_parts
        ways += "_warpgroups" * self.is_by_warpgroups + "_complex" * self.is_complex
        ways += "_sliced" * self.is_sliced + "_unpaired" * (not self.is_paired)
        ways += f"_r{self.round_length}" * (self.round_length > 1)
        return (
            f"gemm_native_{self.type}_{majors}_{self.tile_m}x{self.tile_n}_w{self.warp_m}x{self.warp_n}"
            f"_s{self.num_stages}_c{self.cluster}_b{self.blocks_per_sm}{ways}"
        )

    @property
    def num_odd(self) -> int:
        """Sums of a tile that are left when the threads have taken four each, again and again."""
        return self.tile_m * self.tile_n % (VECTOR * self.num_warps * WARP)

    def check(self) -> None:
        """Raise ValueError if there is no such kernel."""
        if self.cluster not in (1, 2) or self.num_stages < 3 or self.blocks_per_sm < 1:
            raise ValueError(f"{self}: no such cluster or ring")
        if self.round_length < 1 or self.num_stages % self.round_length:
            raise ValueError(f"{self}: a ring is not so many rounds")
        if self.num_groups not in ((1, 2) if self.type is f32 else (1,)) or self.promotion % self.depth:
            raise ValueError(f"{self}: no such sums")
        if self.is_complex and (not self.is_in_parts or (self.a_major, self.b_major) != ("k", "mn")):
            raise ValueError(f"{self}: complex numbers are multiplied in parts, of rows of A and of B")
        if self.is_by_warpgroups:
            if (*self[3:7], self.num_groups, self.cluster) != WARPGROUPS:
                raise ValueError(f"{self}: warpgroups do not multiply such tiles")
        elif any(size < unit or size % unit for size, unit in zip(self[3:7], self.units * 2, strict=True)):
            raise ValueError(f"{self}: tiles are multiples of {self.units}")
        if self.tile_m % self.warp_m or self.tile_n % self.warp_n or (self.is_in_parts and self.num_odd):
            raise ValueError(f"{self}: warps do not make up a tile")
        self.boxes()
        if self.words > self.max_words:
            raise ValueError(f"{self}: sums and fragments take {self.words} registers")

    @property
    def units(self) -> tuple[int, int]:
        """What tiles, and warps' parts of them, are multiples of."""
        if not self.is_in_parts:
            return UNITS[self.type], UNITS[self.type]
        rows = native_parts.HEIGHT if self.a_major == "k" else BOX_LINES
        return rows, native_parts.WIDTH if self.b_major == "k" else BOX_LINES

    @property
    def parts(self) -> tuple[int, int]:
        """Of a tile of A and of B: how many blocks copy them."""
        return 1, self.cluster

    def boxes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Of the copies of A and of B."""
        beside, above = self.parts
        return (
            operand_box(self.type, self.tile_m, self.depth, self.a_major, beside),
            operand_box(self.type, self.tile_n, self.b_depth, self.b_major, above),
        )


@cache
@retraceable
def make(spec: NativeSpec) -> Kernel:
    """The kernel of a Spec.

    Parameters of the kernel: a pointer to C, tensor maps of A and B, of three axes if sliced, the first one the
    matrices'; in parts, those of `Chains`; then as u32 the tiles along M, N (clusters are whole) and K, all at least 1;
    if sliced, the number of slices, chunks per matrix, tiles of K per chunk, and whether A and B differ between
    matrices (1) or not (0); M and N.
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
    rank = 3 if spec.is_sliced else 2
    a_map, b_map = (TensorMap(k, name, rank) for name in ("a_map", "b_map"))
    chains = Chains(k, spec) if spec.is_in_parts else None
    tiles = Tiles(k, spec.cluster, spec.tile_n, is_sliced=spec.is_sliced, height=spec.tile_m)
    a = OperandTile(k, spec.type, spec.tile_m, spec.depth, spec.a_major, spec.num_stages)
    b = OperandTile(k, spec.type, spec.tile_n, spec.b_depth, spec.b_major, spec.num_stages, spec.cluster)
    pipeline = Pipeline(k, spec.num_stages, spec.num_warps, a.nbytes + b.nbytes)
    m, n = (k.scalar(name, u32) for name in ("m", "n"))
    # The same in all lanes of a warp, and the shuffle lets the compiler know.
    warp = k.shfl_idx(k.warp, 0)
    if chains is not None and spec.is_by_warpgroups:
        native_warpgroups.multiply(
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


def place_of(k: Builder, spec: NativeSpec, warp: Value) -> tuple[Value, tuple[Value, Value]]:
    """The group that a warp is in, and the first row and column of its part of a tile."""
    per_group, warps_n = spec.num_warps // spec.num_groups, spec.tile_n // spec.warp_n
    group = warp / per_group if spec.num_groups > 1 else k.const(0, u32)
    of_group = warp % per_group if spec.num_groups > 1 else warp
    return group, (of_group / warps_n * spec.warp_m, of_group % warps_n * spec.warp_n)


def warp_of(
    k: Builder,
    spec: NativeSpec,
    operands: tuple[OperandTile, OperandTile],
    place: tuple[Value, Value],
    group: Value,
    chains: Chains | None,
) -> Warp:
    """What multiplies."""
    if chains is not None:
        return PartsWarp(k, spec, operands, place, group, chains)
    return WARPS[spec.type](k, spec, operands, place, group)


def _consume(
    k: Builder,
    spec: NativeSpec,
    tiles: Tiles,
    pipeline: Pipeline,
    operands: tuple[OperandTile, OperandTile],
    warp: Value,
    result: tuple[Pointer, Value, Value],
    chains: Chains | None,
) -> None:
    c, m, n = result
    group, (first_row, first_column) = place_of(k, spec, warp)
    length = spec.round_length
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


class NativeLaunch(NamedTuple):
    """How to launch: parameters are the address of C, the encoded maps of A and B, then the constants."""

    kernel: Kernel
    grid: tuple[int, int, int]
    maps: tuple[MapSpec, MapSpec]
    constants: tuple[int, ...]
    num_slices: int


def plan(
    spec: NativeSpec,
    shape: tuple[int, int, int],
    num_sms: int,
    strides: tuple[int, int],
    stack: Stack | None = None,
) -> NativeLaunch:
    """Launch of C (m, n) = A (m, depth) @ B (depth, n), or of a stack of them.

    Parameters
    ----------
    spec : NativeSpec
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
    if num_k % spec.round_length:
        raise ValueError(f"{spec}: {num_k} tiles along K are no whole rounds")
    constants: tuple[int, ...] = (num_m, num_n, num_k)
    num_slices, moves, count = 1, (0, 0), 1
    if stack is not None:
        chunk = -(-num_k // stack.num_chunks)
        num_chunks = -(-num_k // chunk)
        num_slices, moves, count = stack.num_matrices * num_chunks, (stack.a_stride, stack.b_stride), stack.num_matrices
        constants += (num_slices, num_chunks, chunk, *(int(move > 0) for move in moves))
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
    if spec.is_in_parts:
        steps = (*strides, *(moves if spec.is_sliced else ()))
        constants = (depth, *(step // spec.type.nbytes for step in steps), *constants)
    return NativeLaunch(make(spec), (blocks, 1, 1), (maps[0], maps[1]), (*constants, m, n), num_slices)


__all__ = ["NativeLaunch", "NativeSpec", "make", "plan"]
