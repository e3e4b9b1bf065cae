"""Matrix multiply on any GPU from Ampere on: C = A @ B, 16-bit operands, f32 sums. Runs on the emulator, too.

Data layout: as in `gemm`: A is (M, K), B is (K, N), C is (M, N), row-major or A and B transposed, rows any multiple of
16 bytes apart. In shared memory there is a ring of `num_stages` pairs of tiles, 64 deep along K, made of rows of 128
bytes in which the 16-byte chunk c of row r lies at c ^ (r & 7), so that neither the copies nor ldmatrix meet bank
conflicts. Rows run along the contiguous axis of the operand.

Who owns what: a block has one tile of C, each warp `warp_m` x `warp_n` of it in registers. All threads copy.

Algorithm: each thread starts its share of the copies `num_stages` - 1 tiles ahead; per tile of K a barrier, then per 16
of K the fragments by ldmatrix and all products of the warp. Elements outside the operands become zeros on the way.

Per element of C: 2 K flops; per tile, (tile_m + tile_n) K operand elements are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from oxinp._ptx import Builder, Kernel
from oxinp._ptx.async_copy import AsyncCopies
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.mma import load_matrices, multiply
from oxinp._ptx.types import Type, bf16, f16, f32, i64, u32

if TYPE_CHECKING:
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value, Var

DEPTH = 64  # of K per tile
STEP = 16  # of K per product
CHUNK = 8  # elements per copy
ROW_NBYTES, CHUNK_NBYTES = 128, 16
MAJORS = ("k", "mn")


@dataclass(frozen=True, slots=True)
class MmaGemmSpec:
    """One matrix multiply kernel (sm_80).

    Attributes
    ----------
    type : Type
        Of the operands: bf16 or f16.
    out : Type
        Of the result: f32, or `type`.
    a_major, b_major : str
        The contiguous axis of each: ``"k"`` or ``"mn"``.
    tile_m, tile_n : int
        Of C, per block; multiples of 64.
    warp_m, warp_n : int
        Of C, per warp: 32 or 64.
    num_stages : int
    """

    type: Type
    out: Type
    a_major: str = "k"
    b_major: str = "mn"
    tile_m: int = 128
    tile_n: int = 128
    warp_m: int = 64
    warp_n: int = 32
    num_stages: int = 3

    def __post_init__(self) -> None:
        if self.type not in (bf16, f16) or self.out not in (f32, self.type):
            raise ValueError(f"no kernel multiplies {self.type} into {self.out}")
        if self.a_major not in MAJORS or self.b_major not in MAJORS:
            raise ValueError(f"operands are 'k' or 'mn' major, not {self.a_major!r} and {self.b_major!r}")
        if self.tile_m % 64 or self.tile_n % 64 or self.warp_m not in (32, 64) or self.warp_n not in (32, 64):
            raise ValueError("tiles are multiples of 64, those of warps 32 or 64")
        if self.num_stages < 2:
            raise ValueError(f"at least 2 stages are needed, not {self.num_stages}")

    @property
    def num_threads(self) -> int:
        """Threads per block."""
        return self.tile_m // self.warp_m * (self.tile_n // self.warp_n) * 32

    @property
    def name(self) -> str:
        """Entry name."""
        tiles = f"{self.tile_m}x{self.tile_n}_{self.warp_m}x{self.warp_n}"
        return f"gemm_mma_{self.type}_{self.out}_{self.a_major[0]}{self.b_major[0]}_{tiles}_s{self.num_stages}"


class _Panel:
    """The ring of tiles of one operand: `extent` of M or N by 64 of K."""

    def __init__(
        self,
        k: Builder,
        spec: MmaGemmSpec,
        source: Pointer,
        pitch: Value,
        major: str,
        extent: int,
        size: Value,
        depth: Value,
    ) -> None:
        self.builder, self.source, self.pitch, self.extent = k, source, pitch, extent
        self.is_k_major = major == "k"
        self.size, self.depth = size, depth
        self.num_threads = spec.num_threads
        self.nbytes = extent * DEPTH * spec.type.nbytes
        self.memory = k.dynamic_shared(spec.type, (spec.num_stages, extent * DEPTH), align=1024)

    def copy(self, copies: AsyncCopies, stage: Value, extent_start: Value, depth_start: Value) -> None:
        """Start this thread's share of the copies of one tile."""
        k = self.builder
        tile = self.memory.offset_bytes(stage * self.nbytes)
        num_chunks = self.nbytes // CHUNK_NBYTES
        for first in range(0, num_chunks, self.num_threads):
            number = k.tid + first
            if first + self.num_threads <= num_chunks:
                self._copy_chunk(copies, tile, number, extent_start, depth_start)
            else:
                with k.when(number < num_chunks):
                    self._copy_chunk(copies, tile, number, extent_start, depth_start)

    def _copy_chunk(
        self, copies: AsyncCopies, tile: Pointer, number: Value, extent_start: Value, depth_start: Value
    ) -> None:
        k = self.builder
        rows = self.extent if self.is_k_major else DEPTH
        row_start, row_limit = (extent_start, self.size) if self.is_k_major else (depth_start, self.depth)
        start, limit = (depth_start, self.depth) if self.is_k_major else (extent_start, self.size)
        chunk, row = number & 7, number >> 3
        box = row / rows  # boxes are 64 elements wide and follow each other
        row = row - box * rows
        to = (box * rows + row) * ROW_NBYTES + ((chunk ^ (row & 7)) << 4)
        column, line = start + box * (8 * CHUNK) + chunk * CHUNK, row_start + row
        # Elements of this chunk that exist; an address outside is never used.
        present = k.where(line < row_limit, k.min(limit - k.min(column, limit), CHUNK), 0)
        line, column = k.where(present > 0, line, 0), k.where(present > 0, column, 0)
        source = self.source.at(k.cast(line, self.pitch.type) * self.pitch).at(column)
        copies.start(tile.offset_bytes(to), source, CHUNK_NBYTES, present * self.source.type.nbytes)

    def fragments(self, stage: Value, start: Value, count: int, step: int, extent_shift: int) -> list[list[Value]]:
        """Four matrices for each of `count` runs of 16 of the extent from `start` (of the warp) on.

        Bit `extent_shift` of the lane (3 for A, 4 for B) says which half of the 16, the other which half of K.
        """
        k = self.builder
        lane, low = k.lane, k.lane & 7
        extent_half, depth_half = (lane >> extent_shift) & 1, (lane >> (7 - extent_shift)) & 1
        tile = self.memory.address() + stage * self.nbytes
        loaded = []
        for i in range(count):
            if self.is_k_major:
                row = start + i * 16 + extent_half * 8 + low
                chunk = depth_half + step * 2
                box = k.const(0, u32)
            else:
                place = start + i * 16
                row = depth_half * 8 + low + step * STEP
                chunk = extent_half + ((place >> 3) & 7)
                box = (place >> 6) * (DEPTH * ROW_NBYTES)
            address = tile + box + row * ROW_NBYTES + ((chunk ^ low) << 4)
            loaded.append(list(load_matrices(k, address, is_transposed=not self.is_k_major)))
        return loaded


@cache
@retraceable
def make(spec: MmaGemmSpec) -> Kernel:
    """The kernel of a Spec.

    Parameters of the kernel: pointers to C, A and B; their pitches in elements, i64; M, N and K, u32, at least 1. The
    grid is tiles along N, tiles along M.
    """
    k = Builder(spec.name, block=spec.num_threads, target="sm_80")
    c = k.pointer("c", spec.out, "w")
    a, b = k.pointer("a", spec.type, "r"), k.pointer("b", spec.type, "r")
    c_pitch, a_pitch, b_pitch = (k.scalar(name, i64) for name in ("c_pitch", "a_pitch", "b_pitch"))
    m, n, depth = (k.scalar(name, u32) for name in ("m", "n", "depth"))
    row, column = k.ctaid.y * spec.tile_m, k.ctaid * spec.tile_n
    a_panel = _Panel(k, spec, a, a_pitch, spec.a_major, spec.tile_m, m, depth)
    b_panel = _Panel(k, spec, b, b_pitch, spec.b_major, spec.tile_n, n, depth)
    copies = AsyncCopies(k)

    def start(stage: Value, tile: Value) -> None:
        a_panel.copy(copies, stage, row, tile * DEPTH)
        b_panel.copy(copies, stage, column, tile * DEPTH)
        copies.commit()

    ahead = spec.num_stages - 1
    for number in range(ahead):
        start(k.const(number, u32), k.const(number, u32))
    warps_n = spec.tile_n // spec.warp_n
    warp_row, warp_column = k.warp / warps_n * spec.warp_m, k.warp % warps_n * spec.warp_n
    sums = [[[k.var(0, f32) for _ in range(4)] for _ in range(spec.warp_n // 8)] for _ in range(spec.warp_m // 16)]
    with k.range(0, (depth + (DEPTH - 1)) / DEPTH) as tile:
        copies.wait(ahead - 1)
        k.barrier()
        # Everyone has left the buffer of the tile before this one: it takes the tile `ahead` of this one.
        start((tile + ahead) % spec.num_stages, tile + ahead)
        stage = tile % spec.num_stages
        for step in range(DEPTH // STEP):
            left = a_panel.fragments(stage, warp_row, spec.warp_m // 16, step, 3)
            right = b_panel.fragments(stage, warp_column, spec.warp_n // 16, step, 4)
            _multiply_all(k, spec.type, left, right, sums)
    copies.wait()
    _store(k, c, c_pitch, (row + warp_row, column + warp_column), (m, n), sums)
    return k.build()


def _multiply_all(
    k: Builder, type: Type, left: list[list[Value]], right: list[list[Value]], sums: list[list[list[Var]]]
) -> None:
    for line, a in zip(sums, left, strict=True):
        for j, cell in enumerate(line):
            b = right[j // 2][2 * (j % 2) : 2 * (j % 2) + 2]
            for target, value in zip(cell, multiply(k, type, a, b, cell), strict=True):
                target.set(value)


def _store(
    k: Builder,
    c: Pointer,
    pitch: Value,
    origin: tuple[Value, Value],
    size: tuple[Value, Value],
    sums: list[list[list[Var]]],
) -> None:
    """Convert and store; pairs are aligned, since rows begin at multiples of 16 bytes."""
    first_row, first_column = origin[0] + (k.lane >> 2), origin[1] + (k.lane & 3) * 2
    for i, line in enumerate(sums):
        for half in range(2):
            row = first_row + (16 * i + 8 * half)
            with k.when(row < size[0]):
                base = c.at(k.cast(row, pitch.type) * pitch)
                for j, cell in enumerate(line):
                    column = first_column + 8 * j
                    pair = [k.cast(value, c.type) for value in cell[2 * half : 2 * half + 2]]
                    with k.when(column + 1 < size[1]):
                        base.store(column, pair)
                    with k.when(column + 1 == size[1]):
                        base.store(column, pair[:1])


@dataclass(frozen=True, slots=True)
class MmaGemmLaunch:
    """How to launch: parameters are the pointers to C, A and B, then the constants."""

    kernel: Kernel
    grid: tuple[int, int, int]
    constants: tuple[int, ...]


def plan(spec: MmaGemmSpec, m: int, n: int, depth: int, pitches: tuple[int, int, int] | None = None) -> MmaGemmLaunch:
    """Launch of C (m, n) = A (m, depth) @ B (depth, n).

    Parameters
    ----------
    m, n, depth : int
        At least 1.
    pitches : tuple of int, optional
        Elements from one row of C, A and B to the next as they lie in memory, multiples of 16 bytes; rows that follow
        each other unless given. Base addresses have to be multiples of 16 bytes, too.

    Raises
    ------
    ValueError
        The kernel cannot read these layouts.
    """
    if min(m, n, depth) < 1:
        raise ValueError(f"nothing to multiply: {m} x {depth} by {depth} x {n}")
    if pitches is None:
        pitches = (n, depth if spec.a_major == "k" else m, depth if spec.b_major == "k" else n)
    types = (spec.out, spec.type, spec.type)
    if any(pitch * type.nbytes % CHUNK_NBYTES for pitch, type in zip(pitches, types, strict=True)):
        raise ValueError(f"rows {pitches} elements apart are not multiples of {CHUNK_NBYTES} bytes apart")
    grid = (-(-n // spec.tile_n), -(-m // spec.tile_m), 1)
    return MmaGemmLaunch(make(spec), grid, (*pitches, m, n, depth))


__all__ = ["MmaGemmLaunch", "MmaGemmSpec", "make", "plan"]
