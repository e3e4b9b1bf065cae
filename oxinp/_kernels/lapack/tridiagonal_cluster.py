"""The last rows of a Hermitian matrix reduced to tridiagonal form by one cluster of blocks (sm_90) that holds them.

J. Dongarra, S. Hammarling and D. Sorensen, 1989, as LAPACK's xSYTD2 of lower triangles: reflectors H = I - tau v v^H, v
with a one in front, and vectors w with which the rest becomes A - v w^H - w v^H.

Data layout: A, d, e, tau and the matrix of all reflectors as of `tridiagonal_panel`, from row and column `first` on. In
shared memory a block has its rows of A, whole; v and w of the column before and v of the current one, whole; and what
blocks put there: of every row, the element of the product A v and that of the next column.

Who owns what: of `num_blocks` blocks each has every `num_blocks`-th row, and a warp every `num_warps`-th of those that
are left, so that all have work until the end. A lane has some columns of a row, 16 bytes at a time.

Algorithm, per column: every block makes v of all that was told, all of it, in the same way as the others; brings its
rows up to date by v and w of the column before and multiplies them with the new v, in one pass; and puts the product's
elements, and those of the next column, into the shared memory of all. With these, w of this column is known to all, and
so is what the next column loses to it: one way from block to block per column.

Per column: rows^2 / num_blocks elements are read and written in a block's shared memory.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.multistage.warp_mma import multiply_add
from oxinp._kernels.lapack import cluster
from oxinp._kernels.lapack.resident import VECTOR_NBYTES, WARP, ResidentPanel
from oxinp._kernels.plan import Launch, Work
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.cluster import cluster_barrier
from oxinp._ptx.cluster_store import WORDS, ClusterStores
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.synchronize import follow
from oxinp._ptx.types import Type, i64, u32, u64
from oxinp._ptx.warp import reduce as warp_reduce

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._kernels.plan import Argument
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value, Var

NUM_THREADS, NUM_BLOCKS = 256, 16
HEIGHTS = {4: (14, 28, 54), 8: (10, 20, 39), 16: (7, 14, 26)}
"""Rows of a block, by the bytes of an element: as many as its shared memory has room for at most."""


class ClusterSpec(NamedTuple):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
    height : int
        Most rows of a block.
    num_threads : int
        Of a block.
    num_blocks : int
        Of the cluster.
    """

    type: Type
    height: int
    num_threads: int = NUM_THREADS
    num_blocks: int = NUM_BLOCKS

    @property
    def rows(self) -> int:
        """Most rows of the matrix."""
        return self.height * self.num_blocks

    @property
    def vector(self) -> int:
        """Elements of a row that a lane has together."""
        return VECTOR_NBYTES // self.type.nbytes

    @property
    def slot(self) -> int:
        """Elements that are told of a row: two, and what is left of a store."""
        return max(2, VECTOR_NBYTES // self.type.nbytes)

    @property
    def shared_nbytes(self) -> int:
        """Of a block, and some more."""
        return (self.rows * (self.height + 2 * self.slot + 3) + 64) * self.type.nbytes + 1024


def choose(type: Type, count: int, rows: int, device: Device) -> ClusterSpec | None:
    """Return the Spec of the kernel that reduces what is left of some matrices; None where there is none.

    Many matrices are better off with a block each: no more than there are clusters at a time have one.
    """
    if count > max(1, device.num_sms // NUM_BLOCKS):
        return None
    specs = (ClusterSpec(type, height, NUM_THREADS, NUM_BLOCKS) for height in HEIGHTS[type.nbytes])
    return cluster.smallest(specs, rows, device)


@cache
@retraceable
def make(spec: ClusterSpec) -> Kernel:
    """The kernel of a Spec; see `launch`."""
    return _ClusterReduction(spec).build()


class _ClusterReduction(ResidentPanel):
    """The kernel while it is built."""

    def __init__(self, spec: ClusterSpec) -> None:
        self.spec, self.type, self.real = spec, spec.type, spec.type.parts[0]
        name, self.num_warps = "tridiagonal_cluster", spec.num_threads // WARP
        self.k = k = Builder(name, block=spec.num_threads, cluster=spec.num_blocks, target="sm_90", min_blocks=1)
        self.v_out, self.tau_out = k.pointer("v", spec.type), k.pointer("tau", spec.type)
        self.d, self.e = k.pointer("d", self.real), k.pointer("e", self.real)
        self.a = k.pointer("a", spec.type, "r")
        self.order, self.first = (k.scalar(name, u32) for name in ("order", "first"))
        self.pitch, self.move, self.v_pitch, self.v_move = (
            k.scalar(name, i64) for name in ("pitch", "move", "v_pitch", "v_move")
        )
        number = k.ctaid / spec.num_blocks
        self.rank, self.rows_left = k.ctaid - number * spec.num_blocks, self.order - self.first
        wide, order, first = k.cast(number, i64), k.cast(self.order, i64), k.cast(self.first, i64)
        self.a = self.a.at(wide * self.move + first * self.pitch + first)
        # Of the matrix of all reflectors the first row is the matrix's second one.
        self.v_out = self.v_out.at(wide * self.v_move + (first - 1) * self.v_pitch + first)
        self.d, self.e, self.tau_out = (x.at(wide * order + first) for x in (self.d, self.e, self.tau_out))
        self.zero, self.one, self.none = k.const(0, spec.type), k.const(1, spec.type), k.const(0, self.real)
        self.matrix = k.dynamic_shared(spec.type, spec.height * spec.rows)
        self.told = k.dynamic_shared(spec.type, 2 * spec.rows * spec.slot)
        self.vs, self.w = k.dynamic_shared(spec.type, 2 * spec.rows), k.dynamic_shared(spec.type, spec.rows)
        self.partials = k.dynamic_shared(self.real, 2 * self.num_warps)
        self.scalars = k.dynamic_shared(spec.type, 1)
        self.stores = ClusterStores(k)
        self.height = (self.rows_left + (spec.num_blocks - 1) - self.rank) / spec.num_blocks

    def build(self) -> Kernel:
        k, spec = self.k, self.spec
        self.places = [k.tid + start for start in range(0, spec.rows, spec.num_threads)]
        follow(k)
        self.rows_in()
        with k.when(k.tid == 0):
            self.expect(k.const(0, u32))
        # From here on every block is there. What it has read it has: nothing is written yet that would be flushed.
        cluster_barrier(k, is_ordering=False)
        with k.range(k.warp + 0, self.height, self.num_warps) as local:
            self.put(k.const(0, u32), local, [self.zero], [self.row(local)[0]])
        self.tau = k.var(self.zero)
        self.kept_v = [k.var(self.zero) for _ in self.places]  # of v
        with k.range(k.const(0, u32), self.rows_left) as j:
            self.stores.wait(j)
            self.reflect(j)
            with k.when((k.tid == 0) & (j + 1 < self.rows_left)):
                self.expect(j + 1)
            self.multiply(j)
        return k.build()

    # -- memory

    def rows_in(self) -> None:
        """Load this block's rows; zeros where there is nothing yet."""
        k, spec = self.k, self.spec
        with k.range(k.warp + 0, self.height, self.num_warps) as local:
            line = self.a.at(k.cast(local * spec.num_blocks + self.rank, i64) * self.pitch)
            with k.range(k.lane + 0, k.const(spec.rows, u32), WARP) as column:
                value = k.var(self.zero)
                with k.when(column < self.rows_left):
                    value.set(line[k.cast(column, i64)])
                self.row(local)[column] = value.get()
        for array, length in ((self.vs, 2 * spec.rows), (self.w, spec.rows), (self.told, 2 * spec.rows * spec.slot)):
            with k.range(k.tid + 0, k.const(length, u32), spec.num_threads) as place:
                array[place] = self.zero
        k.barrier()

    def row(self, local: Value) -> Pointer:
        """A row of this block."""
        return self.matrix.at(local * self.spec.rows)

    # -- what blocks tell each other: round j before column j, of its rows from the diagonal on

    def expect(self, j: Value) -> None:
        """Expect what all tell in a round; of one thread."""
        self.stores.expect(j, (self.rows_left - j) * (self.spec.slot * self.type.nbytes))

    def board(self, j: Value) -> Pointer:
        """Where the blocks tell in a round."""
        return self.told.at(j % 2 * (self.spec.rows * self.spec.slot))

    def put(self, j: Value, local: Value, products: list[Value], elements: list[Value]) -> None:
        """Put elements of the product and of the next column, of every `num_warps`-th row, into all blocks' memory."""
        k, spec, board = self.k, self.spec, self.board(j)
        at_once = WARP // spec.num_blocks
        for start in range(0, len(products), at_once):
            several = list(zip(products, elements, strict=True))[start : start + at_once]
            product, element = several[0]
            which = k.lane / spec.num_blocks
            for i, (next_product, next_element) in enumerate(several[1:], 1):
                product = k.where(which == i, next_product, product)
                element = k.where(which == i, next_element, element)
            words = [word for value in (product, element) for part in value.parts for word in self.words_of(part)]
            words += [k.const(0, u32)] * (-len(words) % WORDS)
            row = (local + (which + start) * self.num_warps) * spec.num_blocks + self.rank
            with k.when(which < len(several)):
                for first in range(0, len(words), WORDS):
                    place = row * spec.slot + first * u32.nbytes // self.type.nbytes
                    self.stores.store_words(j, board, place, words[first : first + WORDS], k.lane % spec.num_blocks)

    def words_of(self, part: Value) -> list[Value]:
        """The words of 32 bits of a real number, the lower one first."""
        k = self.k
        return [k.bitcast(part, u32)] if part.type.bits == 32 else list(k.unpack(k.bitcast(part, u64)))

    # -- the reflector

    def reflect(self, j: Value) -> None:
        """Make w of the column before and the reflector of this one, of what was told: v and w in shared memory."""
        k, spec, board = self.k, self.spec, self.board(j)
        tau, has_row = self.tau.get(), j + 1 < self.rows_left
        told = [board.load(k.min(place, spec.rows - 1) * spec.slot, spec.slot)[:2] for place in self.places]
        is_there = [(place >= j) & (place < self.rows_left) for place in self.places]
        products = [k.where(there, product, self.zero) for there, (product, _) in zip(is_there, told, strict=True)]
        quadratic = self.none
        for own, product in zip(self.kept_v, products, strict=True):
            quadratic = self.inner(own.get(), product, quadratic)
        quadratic = self.total_over_block(quadratic, 0)
        alpha = self.whole(self.inner(tau, tau, self.none) * quadratic * -0.5)
        pivot = self.conjugate(multiply_add(k, tau, board[j * spec.slot], alpha))  # of w; v has a one there
        square, column = self.none, []
        for place, there, own, product, (_, element) in zip(
            self.places, is_there, self.kept_v, products, told, strict=True
        ):
            v = own.get()
            w = multiply_add(k, tau, product, alpha * v)
            value = k.where(there, multiply_add(k, -v, pivot, element) - w, self.zero)
            with k.when(place < spec.rows):
                self.w[place] = w
            with k.when((self.rank == 0) & (place == j)):
                self.d[k.cast(j, i64)] = value.parts[0]
            with k.when(place == j + 1):
                self.scalars[0] = value
            square = self.inner(value, k.where(place > j + 1, value, self.zero), square)
            column.append(value)
        square = self.total_over_block(square, 1)
        tau, scale, beta = self.reflector(self.scalars[0], square, has_row)
        self.tau.set(tau)
        with k.when((self.rank == 0) & (k.tid == 0) & has_row):
            self.e[k.cast(j, i64)], self.tau_out[k.cast(j, i64)] = beta, tau
        vs = self.vs.at(j % 2 * spec.rows)
        for place, own, value in zip(self.places, self.kept_v, column, strict=True):
            element = k.where(place > j + 1, value * scale, self.zero)
            element = k.where((place == j + 1) & has_row, self.one, element)
            own.set(element)
            with k.when(place < spec.rows):
                vs[place] = element
            # Some rows each: whole warps of them.
            with k.when((place > j) & (place < self.rows_left) & (place / WARP % spec.num_blocks == self.rank)):
                self.v_out[k.cast(place, i64) * self.v_pitch + k.cast(j, i64)] = element
        k.barrier()

    def total_over_block(self, value: Value, number: int) -> Value:
        """Return the sum of all threads' values; one of two that are under way."""
        k, partials = self.k, self.partials.at(number * self.num_warps)
        part = warp_reduce(k, value, lambda a, b: a + b)
        with k.when(k.lane == 0):
            partials[k.warp] = part
        k.barrier()
        parts = [partials[warp] for warp in range(self.num_warps)]
        while len(parts) > 1:
            parts = [a + b for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    # -- the rest of the matrix

    def multiply(self, j: Value) -> None:
        """Bring this block's rows below the diagonal up to date, multiply them with v, and tell."""
        k, spec = self.k, self.spec
        # Row `rank` + i * num_blocks is below where i is at least this.
        local = (j + spec.num_blocks - self.rank) / spec.num_blocks + k.warp
        missing = k.where(local < self.height, self.height - local, k.const(0, u32))
        num_rows = (missing + (self.num_warps - 1)) / self.num_warps
        for several in range(1, -(-spec.height // self.num_warps) + 1):
            with k.when(num_rows == several):
                self.multiply_rows(j, local, several)

    def multiply_rows(self, j: Value, local: Value, num_rows: int) -> None:
        """Do so with so many rows of this warp, from one on."""
        k, spec = self.k, self.spec
        before, v = self.vs.at((j + 1) % 2 * spec.rows), self.vs.at(j % 2 * spec.rows)
        locals_ = [local + i * self.num_warps for i in range(num_rows)]
        lines = [self.row(x) for x in locals_]
        places = [x * spec.num_blocks + self.rank for x in locals_]
        own = [(-before[place], -self.w[place]) for place in places]
        sums: list[list[Var]] = [[k.var(self.zero) for _ in range(spec.vector)] for _ in lines]
        step = WARP * spec.vector
        with k.range((j + 1) / step * step + k.lane * spec.vector, self.rows_left, step) as column:
            loaded = [line.load(column, spec.vector) for line in lines]
            ws, vs, factors = (array.load(column, spec.vector) for array in (self.w, before, v))
            for line, (own_v, own_w), elements, line_sums in zip(lines, own, loaded, sums, strict=True):
                values = [
                    multiply_add(k, own_v, self.conjugate(w), multiply_add(k, own_w, self.conjugate(other), element))
                    for element, w, other in zip(elements, ws, vs, strict=True)
                ]
                line.store(column, values)
                for value, factor, total in zip(values, factors, line_sums, strict=True):
                    total.set(multiply_add(k, value, factor, total.get()))
        k.warp_sync()
        products = []
        for line_sums in sums:
            both = line_sums[0].get()
            for total in line_sums[1:]:
                both = both + total.get()
            products.append(warp_reduce(k, both, lambda a, b: a + b))
        self.put(j + 1, local, products, [line[j + 1] for line in lines])


def launch(
    spec: ClusterSpec,
    count: int,
    shape: tuple[int, int],
    places: dict[str, Argument],
    strides: tuple[int, int, int, int],
) -> Launch:
    """Return the launch that reduces what is left of matrices.

    Parameters
    ----------
    spec : ClusterSpec
        What `choose` gives.
    count : int
        Matrices.
    shape : (int, int)
        Their order, and the first row that is left.
    places : dict
        The arrays of the module's data layout: ``a``, ``v``, ``d``, ``e``, ``tau``.
    strides : (int, int, int, int)
        Elements from one row, and from one matrix, to the next of A, and of the matrix of all reflectors.
    """
    order, first = shape
    flops = 4 * (4 if spec.type.is_complex else 1) * count * (order - first) ** 3 // 3
    kernel = make(spec)
    names = [param.name for param in kernel.params if param.is_pointer]
    work = Work(flops, count * (order - first) ** 2 * spec.type.nbytes)
    grid = (spec.num_blocks * count, 1, 1)
    return Launch(kernel, grid, tuple(places[name] for name in names), (order, first, *strides), work)


__all__ = ["ClusterSpec", "choose", "launch", "make"]
