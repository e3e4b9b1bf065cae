"""Matrix multiply of any type, at any alignment: C = A @ B, one or many.

Data layout: A is (M, K), B is (K, N), C is (M, N), each with one axis of stride 1 ("k" or "mn" major; C row-major), the
other axis of any stride, batches of them anywhere. In shared memory there is a ring of `num_stages` pairs of tiles,
`depth` deep along K, whose rows run along the contiguous axis and are padded so that the lanes of a warp read different
banks.

Who owns what: a block has one tile of C, each warp `warp_m` x `warp_n` of it in registers, as its `Unit` spreads it.
All threads copy. Blocks next to each other work on a band of `BAND` tiles along M, so that their operands stay in L2.

Algorithm: each thread starts its share of the copies `num_stages` - 1 tiles ahead; per step of the unit it loads the
fragments of the next step, then makes all products of the warp; a barrier comes before the last step, whose next is the
first of another tile. Elements outside the operands become zeros on the way. If
split, blocks take chunks of K and leave partial results, which a reduction joins.

Per element of C: 2 K flops; per tile, (tile_m + tile_n) K operand elements are read.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.chain import Splitter
from oxinp._kernels.gemm_units import UNITS
from oxinp._kernels.problem import MAX_KERNELS, NO_WORK, Launch, Work
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.async_copy import AsyncCopies
from oxinp._ptx.memory import Pointer
from oxinp._ptx.types import Type, i32, i64, pred, u32, u64

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxinp._kernels.gemm_units import Unit
    from oxinp._kernels.problem import Device
    from oxinp._ptx.value import Value

BAND = 8  # tiles along M that are worked on together
WARP = 32
MAX_THREADS, MAX_REGISTERS, SM_REGISTERS = 1024, 255, 65536
MAX_UNROLLED = 1024  # multiply-adds of a thread in a tile
OTHER_REGISTERS = 40  # than those for sums and fragments
MAJORS = ("k", "mn")


@dataclass(frozen=True, slots=True)
class AnyGemmSpec:
    """One kernel of the family.

    Attributes
    ----------
    type, acc, out : Type
        Of the operands, of the sums, of what is written; casts are NumPy's.
    a_major, b_major : str
        The contiguous axis of each: ``"k"`` or ``"mn"``.
    a_copy, b_copy : int
        Bytes that one asynchronous copy takes, 4, 8 or 16: what base, stride and contiguous axis allow. 0: single
        elements, through registers.
    unit : str
        A key of `gemm_units.UNITS`: what multiplies.
    tile_m, tile_n : int
        Of C, per block.
    warp_m, warp_n : int
        Of C, per warp.
    depth : int
        Of K per tile.
    num_stages : int
    num_batch : int
        Loops over matrices.
    is_split : bool
        Blocks take chunks of K.
    is_guarded : bool
        One more pointer, after those of the matrices, to a u32: where that is 0, nothing is done.
    """

    type: Type
    acc: Type
    out: Type
    a_major: str
    b_major: str
    a_copy: int
    b_copy: int
    unit: str
    tile_m: int
    tile_n: int
    warp_m: int
    warp_n: int
    depth: int
    num_stages: int
    num_batch: int = 0
    is_split: bool = False
    is_guarded: bool = False

    def in_tiles(self, cut: Cut) -> AnyGemmSpec:
        """The Spec with the tiles of a cut."""
        sizes = {name: size for name, size in cut._asdict().items() if name != "num_chunks"}
        return replace(self, **sizes)

    @property
    def num_threads(self) -> int:
        """Threads per block."""
        return self.tile_m // self.warp_m * (self.tile_n // self.warp_n) * WARP

    @property
    def shared_nbytes(self) -> int:
        """Shared memory of a block."""
        return sum(
            _pitch(self, major, extent)[1] * self.type.nbytes * self.num_stages
            for major, extent in ((self.a_major, self.tile_m), (self.b_major, self.tile_n))
        )


class Cut(NamedTuple):
    """How a product is cut; the first six as in `AnyGemmSpec`, and into how many chunks of K."""

    tile_m: int
    tile_n: int
    warp_m: int
    warp_n: int
    depth: int
    num_stages: int
    num_chunks: int = 1


def cuts() -> Iterator[Cut]:
    """Yield what is worth trying, legal or not."""
    tiles, warps = (32, 64, 128, 256), (8, 16, 32, 64)
    for sizes in product(tiles, tiles, warps, warps, (8, 16, 32, 64), (2, 3, 4, 5, 6)):
        yield Cut(*sizes)


def is_legal(spec: AnyGemmSpec, device: Device) -> bool:
    """Whether the kernel of a Spec is right, and fits a multiprocessor without spills as far as arithmetic tells."""
    if min(spec.tile_m, spec.tile_n, spec.warp_m, spec.warp_n, spec.depth) < 1:
        return False
    unit, threads = UNITS[spec.unit], spec.num_threads
    if spec.tile_m % spec.warp_m or spec.tile_n % spec.warp_n or not WARP <= threads <= MAX_THREADS:
        return False
    if spec.num_stages < 2 or any(
        size % step
        for size, step in zip((spec.warp_m, spec.warp_n, spec.depth), (unit.height, unit.width, unit.step), strict=True)
    ):
        return False
    for major, extent, copy in ((spec.a_major, spec.tile_m, spec.a_copy), (spec.b_major, spec.tile_n, spec.b_copy)):
        # Threads take whole rows of a tile, copy by copy.
        run, chunk = spec.depth if major == "k" else extent, max(1, copy // spec.type.nbytes)
        if run % chunk or threads % (run // chunk):
            return False
    sums = spec.warp_m * spec.warp_n // WARP
    words = max(1, spec.acc.nbytes // 4)
    fragments = sums // (spec.warp_n // unit.width) + sums // (spec.warp_m // unit.height)
    registers = words * (sums + fragments) + OTHER_REGISTERS
    return registers <= min(MAX_REGISTERS, SM_REGISTERS // threads) and spec.shared_nbytes <= device.max_shared_nbytes


def is_brief(spec: AnyGemmSpec) -> bool:
    """Whether the code, which has a tile's depth unrolled, is compiled within a quarter of a second (on the H200)."""
    weight = 4.0 if spec.acc.is_complex or (spec.acc.is_integer and spec.acc.bits > 32) else 1.0
    if UNITS[spec.unit].step > 1:  # an instruction makes several products
        weight /= 2
    return spec.warp_m * spec.warp_n // WARP * spec.depth * weight <= MAX_UNROLLED


def _pitch(spec: AnyGemmSpec, major: str, extent: int) -> tuple[int, int]:
    """Elements from one row of a tile to the next, and of a tile."""
    rows, run = (extent, spec.depth) if major == "k" else (spec.depth, extent)
    pitch = run + UNITS[spec.unit].pad_nbytes // spec.type.nbytes
    return pitch, rows * pitch


class Panel:
    """The ring of tiles of one operand: `extent` of M or N by `depth` of K."""

    def __init__(self, k: Builder, spec: AnyGemmSpec, name: str, major: str, copy_nbytes: int, extent: int) -> None:
        self.builder, self.spec, self.extent = k, spec, extent
        self.is_k_major = major == "k"
        self.copy_nbytes = copy_nbytes
        self.source: Pointer = k.pointer(name, spec.type, "r")
        self.pitch, self.size = _pitch(spec, major, extent)
        self.memory = k.dynamic_shared(spec.type, (spec.num_stages, self.size), align=128)
        self.chunk = max(1, copy_nbytes // spec.type.nbytes)  # elements

    def declare(self, name: str, size: Value, depth: Value) -> None:
        """Declare the stride, after every pointer; `size` is the matrix's extent."""
        self.stride = self.builder.scalar(f"{name}_stride", i64)
        self.limits = (size, depth) if self.is_k_major else (depth, size)

    def place(self, extent: Value, depth: Value) -> Pointer:
        """Pointer to an element of the tile in the first buffer of the ring."""
        index = extent * self.pitch + depth if self.is_k_major else depth * self.pitch + extent
        return self.memory.at(index)

    def offset(self, extent: int, depth: int) -> int:
        """Elements from one place to another, known distances on."""
        return extent * self.pitch + depth if self.is_k_major else depth * self.pitch + extent

    def start_at(self, base: Pointer, extent_start: Value, depth_start: Value, copies: AsyncCopies) -> None:
        """Find this thread's share of the first tile."""
        k, spec = self.builder, self.spec
        self.copies = copies
        run = spec.depth if self.is_k_major else self.extent
        per_row = run // self.chunk
        self.rows_at_once = max(1, spec.num_threads // per_row)
        self.num_rows = self.extent if self.is_k_major else spec.depth
        own_row, own_column = k.tid / per_row, k.tid % per_row * self.chunk
        self.own_row = own_row
        self.target = self.memory.at(own_row * self.pitch + own_column)
        starts = (extent_start, depth_start) if self.is_k_major else (depth_start, extent_start)
        # The next tile of this thread: its first row, its column, and where that lies.
        self.row, self.column = k.var(starts[0] + own_row), k.var(starts[1] + own_column)
        source = base.at(k.cast(self.row, i64) * self.stride).at(k.cast(self.column, i64))
        self.address = k.var(source.address())
        nbytes = spec.type.nbytes
        self.row_step = self.stride * (self.rows_at_once * nbytes)
        self.tile_step = (
            k.const(spec.depth * nbytes, u64)
            if self.is_k_major
            else k.bitcast(self.stride * (spec.depth * nbytes), u64)
        )

    def copy(self, stage: Value) -> None:
        """Start this thread's share of the copies of the next tile."""
        k, spec = self.builder, self.spec
        row_limit, limit = self.limits
        present = k.min(limit - k.min(self.column, limit), self.chunk) * spec.type.nbytes
        target = self.target.at(stage * self.size)
        address = self.address.get()
        for i in range(0, self.num_rows, self.rows_at_once):
            row = self.row + i if i else self.row.get()
            nbytes = k.where(row < row_limit, present, 0)
            self._copy_chunk(target.at(i * self.pitch), address, nbytes, i)
            if i + self.rows_at_once < self.num_rows:
                address = address + k.bitcast(self.row_step, u64)
        along = self.column if self.is_k_major else self.row
        along.set(along + spec.depth)
        self.address.set(self.address + self.tile_step)

    def _copy_chunk(self, target: Pointer, address: Value, nbytes: Value, first: int) -> None:
        k, type = self.builder, self.spec.type
        source = Pointer(k, address, type, "global", "r")
        is_whole = first + self.rows_at_once <= self.num_rows
        with nullcontext() if is_whole else k.when(self.own_row + first < self.num_rows):
            if self.copy_nbytes:
                self.copies.start(target, source, self.copy_nbytes, nbytes)
                return
            value = k.var(k.const(_zero(type), type))
            with k.when(nbytes > 0):
                value.set(source[0])
            target[0] = value.get()


def _zero(type: Type) -> bool | int:
    return False if type is pred else 0


@lru_cache(MAX_KERNELS)
def make(spec: AnyGemmSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _AnyGemm(spec).build()


class _AnyGemm:
    """The kernel while it is built."""

    def __init__(self, spec: AnyGemmSpec) -> None:
        self.spec = spec
        target = UNITS[spec.unit].target
        self.k = k = Builder("gemm_any", block=spec.num_threads, target=target, min_blocks=1)
        if spec.is_split:
            k.pointer("result", spec.out, "w")  # the second pass's
        self.c = k.pointer("c", spec.out, "w")
        self.a = Panel(k, spec, "a", spec.a_major, spec.a_copy, spec.tile_m)
        self.b = Panel(k, spec, "b", spec.b_major, spec.b_copy, spec.tile_n)
        self.guard = k.pointer("guard", u32, "r") if spec.is_guarded else None
        self.m, self.n, self.depth, self.chunk = (k.scalar(name, u32) for name in ("m", "n", "depth", "chunk"))
        self.c_stride = k.scalar("c_stride", i64)
        self.a.declare("a", self.m, self.depth)
        self.b.declare("b", self.n, self.depth)
        self.tiles_m, self.tiles_n = (k.scalar(name, u32) for name in ("tiles_m", "tiles_n"))
        self.per_matrix = k.scalar("tiles_per_matrix", u32)
        self.batch_strides = [
            [k.scalar(f"{name}_batch{loop}", i64) for loop in range(spec.num_batch)] for name in ("c", "a", "b")
        ]
        self.c_chunk_stride = k.scalar("c_chunk_stride", i64) if spec.is_split else None
        self.splitter = Splitter(k, "batch", spec.num_batch, i32) if spec.num_batch else None

    def build(self) -> Kernel:
        k = self.k
        with nullcontext() if self.guard is None else k.when(self.guard[0] != 0):
            self.multiply()
        return k.build()

    def multiply(self) -> None:
        """Compute this block's tile of C."""
        k, spec = self.k, self.spec
        number = k.ctaid + 0
        matrix = number / self.per_matrix if self.splitter is not None else None
        tile = number - matrix * self.per_matrix if matrix is not None else number
        c, a, b = self.located(matrix)
        row, column = (index * size for index, size in zip(self.tile(tile), (spec.tile_m, spec.tile_n), strict=True))
        begin = k.const(0, u32)
        if spec.is_split:
            begin = k.ctaid.y * self.chunk
            c = c.at(k.cast(k.ctaid.y, i64) * self.c_chunk_stride)
        end = k.min(begin + self.chunk, self.depth)
        copies = AsyncCopies(k)
        self.a.limits = (self.m, end) if self.a.is_k_major else (end, self.m)
        self.b.limits = (self.n, end) if self.b.is_k_major else (end, self.n)
        self.a.start_at(a, row, begin, copies)
        self.b.start_at(b, column, begin, copies)
        warps_n = spec.tile_n // spec.warp_n
        warp_row, warp_column = k.warp / warps_n * spec.warp_m, k.warp % warps_n * spec.warp_n
        unit = UNITS[spec.unit](k, spec, self.a, self.b, warp_row, warp_column)
        self.run(unit, copies, begin, end)
        self.store(unit, c, row + warp_row, column + warp_column)

    def run(self, unit: Unit, copies: AsyncCopies, begin: Value, end: Value) -> None:
        """Sum up the products from `begin` to `end` along K."""
        k, spec = self.k, self.spec
        ahead = spec.num_stages - 1

        def start(stage: Value) -> None:
            self.a.copy(stage)
            self.b.copy(stage)
            copies.commit()

        def arrive() -> None:
            copies.wait(ahead - 1)
            k.barrier()

        for number in range(ahead):
            start(k.const(number, u32))
        stage = k.var(k.const(0, u32))
        filling = k.var(k.const(ahead, u32))

        def advance() -> None:
            """Let the next tile be the one that is multiplied."""
            arrive()
            for ring in (stage, filling):
                following = ring + 1
                ring.set(k.where(following == spec.num_stages, 0, following))

        arrive()
        unit.begin(stage.get())
        with k.range(begin, end, spec.depth):
            # Everyone has left the buffer of the tile before this one: it takes the tile `ahead` of this one.
            start(filling.get())
            unit.multiply(stage, advance)
        copies.wait()

    def tile(self, number: Value) -> tuple[Value, Value]:
        """Row and column of a tile, in bands of `BAND` rows."""
        k = self.k
        per_band = self.tiles_n * BAND
        band = number / per_band
        inside = number - band * per_band
        height = k.min(self.tiles_m - band * BAND, BAND)
        column = inside / height
        return band * BAND + (inside - column * height), column

    def located(self, matrix: Value | None) -> tuple[Pointer, Pointer, Pointer]:
        """Pointers to the matrices of this block."""
        k, pointers = self.k, (self.c, self.a.source, self.b.source)
        if matrix is None or self.splitter is None:
            return pointers
        indices = [k.cast(index, i64) for index in self.splitter.split(k.cast(matrix, i32))]
        moved = []
        for pointer, strides in zip(pointers, self.batch_strides, strict=True):
            for index, stride in zip(indices, strides, strict=True):
                pointer = pointer.at(index * stride)  # noqa: PLW2901
            moved.append(pointer)
        return moved[0], moved[1], moved[2]

    def store(self, unit: Unit, c: Pointer, row: Value, column: Value) -> None:
        """Convert and store what is inside C."""
        k, spec = self.k, self.spec
        for line, cells in unit.rows():
            place = row + line
            with k.when(place < self.m):
                base = c.at(k.cast(place, i64) * self.c_stride)
                for shift, values in cells:
                    for i, value in enumerate(values):
                        at = column + shift + i if i else column + shift
                        with k.when(at < self.n):
                            base.at(k.cast(at, i64)).store(0, [k.cast(value, spec.out)])


def plan(
    spec: AnyGemmSpec,
    shape: tuple[int, int, int],
    strides: tuple[int, int, int],
    batch: tuple[int, ...] = (),
    batch_strides: tuple[tuple[int, ...], ...] = ((), (), ()),
    num_chunks: int = 1,
) -> Launch:
    """Launch of C (m, n) = A (m, depth) @ B (depth, n), or of a batch of them.

    Parameters
    ----------
    spec : AnyGemmSpec
    shape : (m, n, depth)
        At least 1 each.
    strides : tuple of int
        Of C, A and B along the axis that is not contiguous, in elements.
    batch : tuple of int
        Extents of the loops over matrices.
    batch_strides : tuple of tuples of int
        Of C, A and B along them, in elements.
    num_chunks : int
        Of K; more than one for a Spec that is split. Partial results follow each other, in C order.
    """
    m, n, depth = shape
    tiles_m, tiles_n = -(-m // spec.tile_m), -(-n // spec.tile_n)
    steps = -(-depth // spec.depth)
    chunk = -(-steps // num_chunks) * spec.depth
    c_stride, a_stride, b_stride = strides
    num_matrices = math.prod(batch)
    constants = (
        *(m, n, depth, chunk, c_stride, a_stride, b_stride, tiles_m, tiles_n, tiles_m * tiles_n),
        *(stride for strides in batch_strides for stride in strides),
        *((num_matrices * m * n,) if spec.is_split else ()),
        *(Splitter.constants(batch, 32) if batch else ()),
    )
    grid = (tiles_m * tiles_n * num_matrices, -(-depth // chunk), 1)
    return Launch(make(spec), grid, constants, _work(spec, shape, batch, batch_strides, grid[1]))


def _work(
    spec: AnyGemmSpec,
    shape: tuple[int, int, int],
    batch: tuple[int, ...],
    batch_strides: tuple[tuple[int, ...], ...],
    num_chunks: int,
) -> Work:
    if spec.is_guarded:  # a stand-in, which mostly does nothing
        return NO_WORK
    m, n, depth = shape
    num_a, num_b = (math.prod(x for x, step in zip(batch, s, strict=True) if step) for s in batch_strides[1:])
    count = math.prod(batch)
    nbytes = (num_a * m + num_b * n) * depth * spec.type.nbytes + count * num_chunks * m * n * spec.out.nbytes
    return Work((8 if spec.type.is_complex else 2) * count * m * n * depth, nbytes)
