"""Matrix multiply of any type, at any alignment: C = A @ B, one or many.

Data layout: A is (M, K), B is (K, N), C is (M, N), each with one axis of stride 1 ("k" or "mn" major; C row-major), the
other axis of any stride, batches of any strides. In shared memory there is a ring of `num_stages` pairs of tiles, each
of a k-block of `depth`, whose rows run along the contiguous axis and are padded against bank conflicts.

Who owns what: a block has one tile of C, each warp `warp_m` x `warp_n` of it in registers, in the layout of its
`WarpMma`. All threads copy. Consecutive blocks work on a band of `BAND` tiles along M, so that operands stay in L2.

Of conjugated operands, threads conjugate what they have copied. Of C, one triangle may be computed.

Algorithm: each thread starts its share of the copies `num_stages` - 1 k-blocks ahead. Per MMA step the warp loads the
fragments of the next step, then does all MMAs of this one; a barrier comes before the last step of a k-block, whose
next step is the first of another k-block. Elements outside the operands become zeros on the way. With split-K, blocks
compute ranges of K and store partial products, which a reduction sums up.

Per element of C: 2 K flops; per tile, (tile_m + tile_n) K operand elements are read.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from oxinp._kernels.elementwise.chain import STRIDED, UNIT, Splitter
from oxinp._kernels.gemm.epilogue import BoundEpilogue
from oxinp._kernels.gemm.multistage.panel import Panel
from oxinp._kernels.gemm.multistage.spec import MMA_SHAPES, MultistageSpec
from oxinp._kernels.gemm.multistage.warp_mma import WARP_MMAS
from oxinp._kernels.gemm.operand import GENERAL, HERMITIAN
from oxinp._kernels.plan import NO_WORK, SCRATCH, Launch, Plan, Work, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.async_copy import AsyncCopies
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import i32, i64, u32

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._kernels.elementwise.chain import Position
    from oxinp._kernels.gemm.multistage.warp_mma import Row, WarpMma
    from oxinp._kernels.plan import Resized
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

BAND = 8  # tiles along M that consecutive blocks work on


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: MultistageSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return MultistageGemm(spec).build()


class MultistageGemm:
    """The kernel while it is built."""

    def __init__(self, spec: MultistageSpec) -> None:
        self.spec = spec
        target = MMA_SHAPES[spec.mma].target
        self.k = Builder("gemm_any", block=spec.num_threads, target=target, min_blocks=1)
        self.guard: Pointer | None = None
        self.epilogue: BoundEpilogue | None = None
        self.splitter: Splitter | None = None
        self.batch_strides: list[list[Value]] = [[], [], []]  # of C, A and B
        self.declare()

    def declare(self) -> None:
        """Declare the parameters."""
        k, spec = self.k, self.spec
        if spec.is_split_k:
            k.pointer("result", spec.out, "w")  # of the reduction
        self.c = k.pointer("c", spec.out, "w")
        self.a = Panel(k, spec, "a", spec.a_major, spec.a_copy, spec.tile_m, spec.is_a_conjugated)
        self.b = Panel(k, spec, "b", spec.b_major, spec.b_copy, spec.tile_n, spec.is_b_conjugated)
        self.guard = k.pointer("guard", u32, "r") if spec.is_guarded else None
        self.epilogue = BoundEpilogue(k, spec.epilogue) if spec.epilogue is not None else None
        self.m, self.n, self.depth, self.chunk = (k.scalar(name, u32) for name in ("m", "n", "depth", "chunk"))
        self.c_stride = k.scalar("c_stride", i64)
        self.a.declare("a", self.m, self.depth)
        self.b.declare("b", self.n, self.depth)
        self.tiles_m, self.tiles_n = (k.scalar(name, u32) for name in ("tiles_m", "tiles_n"))
        self.per_matrix = k.scalar("tiles_per_matrix", u32)
        self.batch_strides = [
            [k.scalar(f"{name}_batch{loop}", i64) for loop in range(spec.num_batch)] for name in ("c", "a", "b")
        ]
        self.c_chunk_stride = k.scalar("c_chunk_stride", i64) if spec.is_split_k else None
        self.splitter = Splitter(k, "batch", spec.num_batch, i32) if spec.num_batch else None

    def build(self) -> Kernel:
        k = self.k
        with nullcontext() if self.guard is None else k.when(self.guard[0] != 0):
            self.multiply()
        return k.build()

    def multiply(self) -> None:
        """Compute this block's tile of C."""
        spec = self.spec
        number = self.number()
        matrix = number / self.per_matrix if self.splitter is not None else None
        tile = number - matrix * self.per_matrix if matrix is not None else number
        row, column = (index * size for index, size in zip(self.tile(tile), (spec.tile_m, spec.tile_n), strict=True))
        with self.inside(row, row + (spec.tile_m - 1), column, column + (spec.tile_n - 1)):
            self.multiply_tile(matrix, row, column)

    def number(self) -> Value:
        """Return the number of this block's tile."""
        number: Value = self.k.ctaid + 0
        return number

    def inside(self, first_row: Value, last_row: Value, first: Value, last: Value) -> AbstractContextManager[None]:
        """Run what is inside where some element between these corners is in the computed triangle of C."""
        if self.spec.c_form.kind == GENERAL:
            return nullcontext()
        return self.k.when(last_row >= first if self.spec.c_form.is_lower else last >= first_row)

    def multiply_tile(self, matrix: Value | None, row: Value, column: Value) -> None:
        """Compute the tile of C that begins at this row and column."""
        k, spec = self.k, self.spec
        indices = self.indices(matrix)
        c, a, b = self.located(indices)
        begin = k.const(0, u32)
        if spec.is_split_k:
            begin = k.ctaid.y * self.chunk
            c = c.at(k.cast(k.ctaid.y, i64) * self.c_chunk_stride)
        end = k.min(begin + self.chunk, self.depth)
        copies = AsyncCopies(k)
        self.a.limit(self.m, end)
        self.b.limit(self.n, end)
        self.a.start_at(a, row, begin, copies)
        self.b.start_at(b, column, begin, copies)
        warps_n = spec.tile_n // spec.warp_n
        warp_row, warp_column = k.warp / warps_n * spec.warp_m, k.warp % warps_n * spec.warp_n
        mma = WARP_MMAS[spec.mma](k, spec, self.a, self.b, warp_row, warp_column)
        self.run(mma, copies, begin, end)
        self.store(mma, c, indices, row + warp_row, column + warp_column)

    def run(self, mma: WarpMma, copies: AsyncCopies, begin: Value, end: Value) -> None:
        """Run the mainloop from `begin` to `end` along K."""
        k, spec = self.k, self.spec
        ahead = spec.num_stages - 1

        def start(stage: Value) -> None:
            self.a.copy(stage)
            self.b.copy(stage)
            copies.commit()

        def arrive() -> None:
            copies.wait(ahead - 1)
            for panel in (self.a, self.b):
                panel.complete(stage.get())
            k.barrier()

        for number in range(ahead):
            start(k.const(number, u32))
        stage = k.var(k.const(0, u32))
        filling = k.var(k.const(ahead, u32))

        def advance() -> None:
            """Move on to the next k-block."""
            for ring in (stage, filling):
                following = ring + 1
                ring.set(k.where(following == spec.num_stages, 0, following))
            arrive()

        arrive()
        mma.begin(stage.get())
        with k.range(begin, end, spec.depth) as place:
            # All warps are done with the buffer of the k-block before: the one `ahead` of this one goes there.
            start(filling.get())
            mma.multiply(stage, advance)
            if spec.promotion:
                with k.when(((place - begin) & (spec.promotion - 1)) == spec.promotion - spec.depth):
                    mma.promote()
        if spec.promotion:
            mma.promote()
        copies.wait()

    def tile(self, number: Value) -> tuple[Value, Value]:
        """Return row and column of a tile, by bands of `BAND` rows of tiles."""
        k = self.k
        per_band = self.tiles_n * BAND
        band = number / per_band
        inside = number - band * per_band
        height = k.min(self.tiles_m - band * BAND, BAND)
        column = inside / height
        return band * BAND + (inside - column * height), column

    def indices(self, matrix: Value | None) -> list[Value]:
        """Return the batch indices of this block's matrix."""
        if matrix is None or self.splitter is None:
            return []
        return [self.k.cast(index, i64) for index in self.splitter.split(self.k.cast(matrix, i32))]

    def located(self, indices: list[Value]) -> tuple[Pointer, Pointer, Pointer]:
        """Return pointers to C, A and B of this block."""
        pointers = (self.c, self.a.source, self.b.source)
        moved = []
        for pointer, strides in zip(pointers, self.batch_strides, strict=True):
            for index, stride in zip(indices, strides, strict=True):
                pointer = pointer.at(index * stride)  # noqa: PLW2901
            moved.append(pointer)
        return moved[0], moved[1], moved[2]

    def store(self, mma: WarpMma, c: Pointer, indices: list[Value], row: Value, column: Value) -> None:
        """Apply the epilogue, and store what is inside C and its computed triangle."""
        k, spec = self.k, self.spec
        position = self.epilogue.at(indices) if self.epilogue is not None else None
        rows = list(mma.rows())
        if position is None or self.epilogue is None or not self.reads_matrix:
            self.store_rows(rows, c, position, row, column)
            return
        # Where nothing is outside, the loads of a row are issued before its first store.
        below, right = row + spec.warp_m, column + spec.warp_n
        is_whole = (below <= self.m) & (right <= self.n)
        if spec.c_form.kind != GENERAL:
            is_whole = is_whole & (row >= right if spec.c_form.is_lower else column >= below)
        with k.when(is_whole):
            for line, cells in rows:
                place = k.cast(row + line, i64)
                base, beside = c.at(place * self.c_stride), position.moved(spec.num_batch, place)
                columns = [
                    column + shift + i if i else column + shift for shift, values in cells for i in range(len(values))
                ]
                loaded = [beside.moved(spec.num_batch + 1, k.cast(at, i64)).load() for at in columns]
                totals = [value for _, values in cells for value in values]
                for at, total, inputs_ in zip(columns, totals, loaded, strict=True):
                    self.put(c, base, row + line, at, self.epilogue.apply([total], inputs_, spec.out)[0])
        with k.otherwise():
            self.store_rows(rows, c, position, row, column)

    @property
    def reads_matrix(self) -> bool:
        """Whether the epilogue has an input that differs in every element of C."""
        epilogue = self.spec.epilogue
        return epilogue is not None and any(x.kind in {UNIT, STRIDED} for x in epilogue.chain.inputs)

    def store_rows(self, rows: list[Row], c: Pointer, position: Position | None, row: Value, column: Value) -> None:
        """Apply the epilogue, and store what is inside, element by element."""
        k, spec = self.k, self.spec
        for line, cells in rows:
            place = row + line
            with k.when(place < self.m):
                base = c.at(k.cast(place, i64) * self.c_stride)
                beside = None if position is None else position.moved(spec.num_batch, k.cast(place, i64))
                for shift, values in cells:
                    for i, value in enumerate(values):
                        at = column + shift + i if i else column + shift
                        with k.when(at < self.n), self.inside(place, place, at, at):
                            self.put(c, base, place, at, self.apply(value, at, beside))

    def put(self, c: Pointer, base: Pointer, row: Value, column: Value, total: Value) -> None:
        """Store an element of the row that begins at `base`, and its mirror image where that is asked for."""
        k, spec = self.k, self.spec
        if spec.c_form.kind == HERMITIAN and spec.out.is_complex:
            real, imag = total.parts
            total = k.compound(spec.out, real, k.where(row == column, 0.0, imag))
        base.at(k.cast(column, i64)).store(0, [total])
        if spec.is_mirrored_out:
            self.store_image(c, row, column, total)

    def apply(self, total: Value, column: Value, beside: Position | None) -> Value:
        """Return a sum after the epilogue, in the type of C."""
        k, out = self.k, self.spec.out
        if beside is None or self.epilogue is None:
            return k.cast(total, out)
        position = beside.moved(self.spec.num_batch + 1, k.cast(column, i64))
        return self.epilogue.apply([total], position.load(), out)[0]

    def store_image(self, c: Pointer, row: Value, column: Value, value: Value) -> None:
        """Store an element at its mirror image."""
        k, spec = self.k, self.spec
        if spec.c_form.kind == HERMITIAN and spec.out.is_complex:
            real, imag = value.parts
            value = k.compound(spec.out, real, -imag)
        with k.when(row != column):
            c.at(k.cast(column, i64) * self.c_stride).at(k.cast(row, i64)).store(0, [value])


def plan(
    spec: MultistageSpec,
    shape: tuple[int, int, int],
    strides: tuple[int, int, int],
    batch: tuple[int, ...] = (),
    batch_strides: tuple[tuple[int, ...], ...] = ((), (), ()),
    split_k: int = 1,
    epilogue_constants: tuple[int, ...] = (),
) -> Plan:
    """Return the plan of C (m, n) = A (m, depth) @ B (depth, n), or of a batch of them: one launch.

    The inputs are A and B, the guard if there is one, then the epilogue's. With split-K, the partial products lie in
    the scratch buffer, and the caller has to sum them up.

    Parameters
    ----------
    spec : MultistageSpec
    shape : (m, n, depth)
        At least 1 each.
    strides : tuple of int
        Of C, A and B along the axis that is not contiguous, in elements.
    batch : tuple of int
        Extents of the batch loops.
    batch_strides : tuple of tuples of int
        Strides of C, A and B along them, in elements.
    split_k : int
        Ranges of K; more than one for a Spec with split-K. Partial products follow each other, in C order.
    epilogue_constants : tuple of int
        The constants that `epilogue.bind` returns.
    """
    m, n, depth = shape
    tiles_m, tiles_n = -(-m // spec.tile_m), -(-n // spec.tile_n)
    steps = -(-depth // spec.depth)
    chunk = -(-steps // split_k) * spec.depth
    c_stride, a_stride, b_stride = strides
    num_matrices = math.prod(batch)
    constants = (
        *epilogue_constants,
        *(m, n, depth, chunk, c_stride, a_stride, b_stride, tiles_m, tiles_n, tiles_m * tiles_n),
        *(chain.from_iterable(batch_strides) if batch else ()),
        *((num_matrices * m * n,) if spec.is_split_k else ()),
        *(Splitter.constants(batch, 32) if batch else ()),
    )
    grid = (tiles_m * tiles_n * num_matrices, -(-depth // chunk), 1)
    num_inputs = 2 + spec.is_guarded + (len(spec.epilogue.chain.inputs) if spec.epilogue is not None else 0)
    arguments = (*outputs(1), *((SCRATCH,) if spec.is_split_k else ()), *inputs(num_inputs))
    scratch_nbytes = grid[1] * num_matrices * m * n * spec.out.nbytes if spec.is_split_k else 0
    work = _work(spec, shape, batch, batch_strides, grid[1])
    return Plan((Launch(make(spec), grid, arguments, constants, work),), scratch_nbytes)


def resizing(spec: MultistageSpec, depth: int, a_stride: int, b_stride: int) -> Callable[[int, int], Resized]:
    """Return ``(m, n)`` -> the launch of a product that is no batch, in C order; parameters as for `plan`."""
    key = spec, depth, a_stride, b_stride
    known = RESIZED.get(key)
    if known is not None:
        return known
    kernel, tile_m, tile_n = make(spec), spec.tile_m, spec.tile_n
    chunk = -(-depth // spec.depth) * spec.depth

    def resized(m: int, n: int) -> Resized:
        tiles_m, tiles_n = -(-m // tile_m), -(-n // tile_n)
        count = tiles_m * tiles_n
        constants = (m, n, depth, chunk, n, a_stride, b_stride, tiles_m, tiles_n, count)
        return kernel, (count, 1, 1), constants, (), True

    if len(RESIZED) >= MAX_KERNELS:
        RESIZED.clear()
    RESIZED[key] = resized
    return resized


RESIZED: dict[Any, Callable[[int, int], Resized]] = {}
"""What `resizing` has returned, by its parameters: kernels of these have been made."""


def _work(
    spec: MultistageSpec,
    shape: tuple[int, int, int],
    batch: tuple[int, ...],
    batch_strides: tuple[tuple[int, ...], ...],
    split_k: int,
) -> Work:
    if spec.is_guarded:  # a fallback, which mostly does nothing
        return NO_WORK
    m, n, depth = shape
    num_a = num_b = count = 1
    if batch:
        num_a, num_b = (math.prod(x for x, step in zip(batch, s, strict=True) if step) for s in batch_strides[1:])
        count = math.prod(batch)
    nbytes = (num_a * m + num_b * n) * depth * spec.type.nbytes + count * split_k * m * n * spec.out.nbytes
    flops = (8 if spec.type.is_complex else 2) * count * m * n * depth
    return Work(flops // 2 if spec.is_triangle_only else flops, nbytes)
