"""What products of two CSR matrices take besides multiplying: rows sorted into bins, and results moved together.

Data layout: A and B in CSR. How many products every row of the result is the sum of is known from a scan of the lengths
of the rows of B that the elements of A meet (`through`, i64, inclusive): so a row of any length costs no more than its
elements. Rows are listed by bins, those with the most products first; rows of the result are made at their places in a
staging area, which has room for all products of a row or for all columns, and moved to where they end up once their
lengths are known. Who owns what: a thread an element of A, or a row; of the kernel that moves, a block a tile of the
result, whose first row another kernel has found by bisection.

Lists are in an order that varies, as blocks take places in them by atomics; results do not depend on it. Bytes: indices
of A, lengths and scan, 12 per product staged, the result twice.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oxinp._kernels.plan import Launch
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sparse.bisection import owner
from oxinp._kernels.sparse.types import BLOCK
from oxinp._ptx import Builder, Kernel, block_reduce
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32, u64

if TYPE_CHECKING:
    from oxinp._kernels.plan import Argument
    from oxinp._ptx.value import Value

MAX_BLOCKS = 528
MOVED = 8
"""Elements of a thread of the kernel that moves."""
TILE = MOVED * BLOCK


class SpgemmLengthsSpec(Frozen):
    """The kernel that finds how many products each element of A has."""

    index: Type


class SpgemmCountSpec(Frozen):
    """The kernel that counts the rows of bins; `limits` are the products that rows of each have at most."""

    index: Type
    limits: tuple[int, ...]


class SpgemmListSpec(Frozen):
    """The kernel that lists the rows of bins."""

    index: Type
    limits: tuple[int, ...]


class SpgemmTotalsSpec(Frozen):
    """The kernel that finds how many elements the result has, and its longest row."""

    index: Type


class SpgemmTilesSpec(Frozen):
    """The kernel that finds the first row of each tile of the result, and writes where rows begin."""

    index: Type


class SpgemmMoveSpec(Frozen):
    """The kernel that moves the result from the staging area."""

    index: Type
    value: Type


class Census:
    """The words that counting leaves, i64; zeros before.

    Rows of every bin, rows with more products than any bin takes, how many these have together, and the most of one;
    then places in the staging area, and products of all rows. Behind them are how many rows of every bin, of the long
    ones, and products of these have been listed.
    """

    def __init__(self, num_bins: int) -> None:
        self.long_rows = num_bins
        self.long_products, self.longest, self.staged, self.products = (num_bins + 1 + i for i in range(4))
        self.num_read = num_bins + 5
        self.listed = self.num_read
        self.listed_products = self.listed + num_bins + 1
        self.num_words = self.listed_products + 1


def lengths(count: int, index: Type, arguments: tuple[Argument, ...]) -> Launch:
    """Return the launch that finds lengths; arguments are these, indices of A and indptr of B. A has `count`."""
    return Launch(make(SpgemmLengthsSpec(index)), (-(-count // BLOCK), 1, 1), arguments, (count,))


def count(
    num_rows: int, num_columns: int, index: Type, limits: tuple[int, ...], arguments: tuple[Argument, ...]
) -> Launch:
    """Return the launch that counts the rows of bins.

    Arguments are places in the staging area per row, i64, the census, indptr of A and the scan of lengths.
    """
    spec = SpgemmCountSpec(index, limits)
    return Launch(make(spec), (-(-num_rows // BLOCK), 1, 1), arguments, (num_rows, num_columns))


def list_rows(
    num_rows: int, num_columns: int, index: Type, limits: tuple[int, ...], arguments: tuple[Argument, ...]
) -> Launch:
    """Return the launch that lists rows.

    Arguments are the list, where rows begin in the staging area, i64, the census, indptr of A, and the scans of lengths
    and of places. Of long rows it says where their products begin among those of all of them.
    """
    spec = SpgemmListSpec(index, limits)
    return Launch(make(spec), (-(-num_rows // BLOCK), 1, 1), arguments, (num_rows, num_columns))


def totals(num_rows: int, index: Type, arguments: tuple[Argument, ...]) -> Launch:
    """Return the launch that finds totals.

    Arguments are two words, i64 and zeros before, and how many elements rows have.
    """
    num_blocks = min(MAX_BLOCKS, -(-num_rows // BLOCK))
    return Launch(make(SpgemmTotalsSpec(index)), (num_blocks, 1, 1), arguments, (num_rows,))


def move(
    num_rows: int,
    total: int,
    index: Type,
    value: Type,
    tiles: Argument,
    through: Argument,
    arguments: tuple[Argument, ...],
) -> tuple[Launch, Launch]:
    """Return the launches that move `total` elements.

    Arguments are indptr, indices and data of the result, where rows begin in the staging area, and that. `through` is
    the scan of how many elements rows have, `tiles` memory for `num_tiles` indices and one more.
    """
    indptr, *others = arguments
    count = num_tiles(total)
    found = Launch(
        make(SpgemmTilesSpec(index)),
        (-(-max(count + 1, num_rows) // BLOCK), 1, 1),
        (indptr, tiles, through),
        (count, num_rows, total),
    )
    moved = Launch(
        make(SpgemmMoveSpec(index, value)), (count, 1, 1), (*others[:2], tiles, through, *others[2:]), (total,)
    )
    return found, moved


def num_tiles(total: int) -> int:
    """Return how many tiles a result has."""
    return -(-total // TILE)


@lru_cache(MAX_KERNELS)
@retraceable
def make(
    spec: SpgemmLengthsSpec | SpgemmCountSpec | SpgemmListSpec | SpgemmTotalsSpec | SpgemmTilesSpec | SpgemmMoveSpec,
) -> Kernel:
    """Build the kernel of a Spec."""
    kernel: Kernel = _BUILDERS[type(spec)](spec)
    return kernel


def _lengths(spec: SpgemmLengthsSpec) -> Kernel:
    k = Builder("spgemm_lengths", block=BLOCK)
    out = k.pointer("out", spec.index, "w")
    indices, indptr = k.pointer("indices", spec.index, "r"), k.pointer("indptr", spec.index, "r")
    count = k.scalar("count", spec.index)
    place = k.cast(k.ctaid, spec.index) * BLOCK + k.cast(k.tid, spec.index)
    with k.when(place < count):
        inner = indices[place]
        out[place] = indptr[inner + 1] - indptr[inner]
    return k.build()


class _Bins:
    """A kernel that sorts rows into bins, while it is built."""

    def __init__(self, name: str, spec: SpgemmCountSpec | SpgemmListSpec) -> None:
        self.spec = spec
        self.k = k = Builder(name, block=BLOCK)
        self.census = Census(len(spec.limits))
        self.is_list = isinstance(spec, SpgemmListSpec)
        if self.is_list:
            self.listed, self.begins = k.pointer("listed", spec.index, "w"), k.pointer("begins", i64, "w")
        else:
            self.places = k.pointer("places", i64, "w")
        self.words = k.pointer("words", u64, "rw")
        self.indptr, self.through = k.pointer("indptr", spec.index, "r"), k.pointer("through", i64, "r")
        if self.is_list:
            self.placed = k.pointer("placed", i64, "r")
        self.num_rows, self.num_columns = k.scalar("num_rows", spec.index), k.scalar("num_columns", i64)
        self.num_kinds = len(spec.limits) + 1
        self.counts = k.dynamic_shared(u32, self.num_kinds)
        self.firsts = k.dynamic_shared(u64, self.num_kinds)

    def build(self) -> Kernel:
        k, index = self.k, self.spec.index
        with k.when(k.tid < self.num_kinds):
            self.counts[k.tid] = 0
        k.barrier()
        row = k.cast(k.ctaid, index) * BLOCK + k.cast(k.tid, index)
        has_row = row < self.num_rows
        near = k.min(row, self.num_rows - 1)
        products = self.products(near)
        kind = k.const(0, u32)
        for limit in self.spec.limits:
            kind = kind + k.where(products > limit, k.const(1, u32), k.const(0, u32))
        is_long = products > self.spec.limits[-1]
        rank = k.var(0, u32)
        with k.when(has_row & (products > 0)):
            rank.set(self.counts.atomic("add", kind, 1, order="relaxed.cta"))
        k.barrier()
        if self.is_list:
            self.list_row(row, has_row & (products > 0), products, kind, is_long, rank.get())
        else:
            self.count_row(row, has_row, products, is_long)
        return k.build()

    def products(self, row: Value) -> Value:
        """Return how many products a row has."""
        k = self.k
        begin, end = self.indptr[row], self.indptr[row + 1]
        before, through = k.var(0, i64), k.var(0, i64)
        with k.when(begin < end):
            through.set(self.through[end - 1])
        with k.when((begin < end) & (begin > 0)):
            before.set(self.through[begin - 1])
        return through - before

    def count_row(self, row: Value, has_row: Value, products: Value, is_long: Value) -> None:
        """Add up rows, products and places, and store how many places a row needs."""
        k, census = self.k, self.census
        nothing = k.const(0, i64)
        places = k.where(is_long, nothing, k.min(products, self.num_columns))
        with k.when(has_row):
            self.places[row] = places
            with k.when(is_long):
                self.words.atomic("add", census.long_products, k.cast(products, u64))
                self.words.atomic("max", census.longest, k.cast(products, u64))
        for word, value in ((census.staged, places), (census.products, products)):
            whole = block_reduce(k, k.where(has_row, value, nothing), lambda a, b: a + b)
            k.barrier()
            with k.when(k.tid == 0):
                self.words.atomic("add", word, k.cast(whole, u64))
        with k.when(k.tid < self.num_kinds):
            found = self.counts[k.tid]
            with k.when(found > 0):
                self.words.atomic("add", k.tid, k.cast(found, u64))

    def list_row(self, row: Value, is_listed: Value, products: Value, kind: Value, is_long: Value, rank: Value) -> None:
        """Store a row in the list of its bin, and where it begins in the staging area."""
        k, census = self.k, self.census
        with k.when(k.tid < self.num_kinds):
            first = k.var(self.words.atomic("add", k.tid + census.listed, k.cast(self.counts[k.tid], u64)))
            with k.range(k.tid + 1, k.const(self.num_kinds, u32)) as other:  # lists of more products come first
                first.set(first + self.words[other])
            self.firsts[k.tid] = first.get()
        k.barrier()
        with k.when(is_listed):
            self.listed[self.firsts[kind] + k.cast(rank, u64)] = row
            with k.when(is_long):
                taken = self.words.atomic("add", census.listed_products, k.cast(products, u64))
                self.begins[row] = k.cast(taken, i64)
            with k.otherwise():
                self.begins[row] = self.placed[row] - k.min(products, self.num_columns)


def _totals(spec: SpgemmTotalsSpec) -> Kernel:
    k = Builder("spgemm_totals", block=BLOCK)
    words, counts = k.pointer("words", u64, "rw"), k.pointer("counts", spec.index, "r")
    num_rows = k.scalar("num_rows", i64)
    total, longest = k.var(0, i64), k.var(0, i64)
    with k.grid_stride(num_rows) as row:
        count = k.cast(counts[row], i64)
        total.set(total + count)
        longest.set(k.max(longest, count))
    whole = block_reduce(k, k.emit("mov", total), lambda a, b: a + b)
    k.barrier()
    most = block_reduce(k, k.emit("mov", longest), k.max)
    with k.when(k.tid == 0):
        words.atomic("add", 0, k.cast(whole, u64))
        words.atomic("max", 1, k.cast(most, u64))
    return k.build()


def _tiles(spec: SpgemmTilesSpec) -> Kernel:
    k = Builder("spgemm_tiles", block=BLOCK)
    indptr, tiles = k.pointer("indptr", spec.index, "w"), k.pointer("tiles", spec.index, "w")
    through = k.pointer("through", spec.index, "r")
    num_tiles, num_rows, total = (k.scalar(name, spec.index) for name in ("num_tiles", "num_rows", "total"))
    thread = k.cast(k.ctaid, spec.index) * BLOCK + k.cast(k.tid, spec.index)
    with k.when(thread <= num_tiles):
        first = k.min(k.cast(thread, i64) * TILE, k.cast(total, i64) - 1)
        tiles[thread] = owner(k, through, k.cast(first, spec.index), k.const(0, spec.index), num_rows - 1)
    with k.when(thread < num_rows):
        indptr[thread + 1] = through[thread]
    with k.when(thread == 0):
        indptr[0] = k.const(0, spec.index)
    return k.build()


def _move(spec: SpgemmMoveSpec) -> Kernel:
    index = spec.index
    k = Builder("spgemm_move", block=BLOCK)
    out_indices, out_data = k.pointer("out_indices", index, "w"), k.pointer("out_data", spec.value, "w")
    tiles, through = k.pointer("tiles", index, "r"), k.pointer("through", index, "r")
    begins = k.pointer("begins", i64, "r")
    indices, data = k.pointer("indices", index, "r"), k.pointer("data", spec.value, "r")
    total = k.scalar("total", index)
    first_row, last_row = tiles[k.ctaid], tiles[k.ctaid + 1]
    origin = k.cast(k.ctaid, index) * TILE + k.cast(k.tid, index)
    places = [origin + i * BLOCK if i else origin for i in range(MOVED)]
    sources = []
    for place in places:
        near = k.min(place, total - 1)
        row = owner(k, through, near, first_row, last_row)
        before = k.where(row > 0, through[k.max(row, 1) - 1], k.const(0, index))
        sources.append(begins[row] + k.cast(near - before, i64))
    moved = [(indices[source], data[source]) for source in sources]
    for place, (column, value) in zip(places, moved, strict=True):
        with k.when(place < total):
            out_indices[place], out_data[place] = column, value
    return k.build()


_BUILDERS: dict[type, Any] = {
    SpgemmLengthsSpec: _lengths,
    SpgemmCountSpec: lambda spec: _Bins("spgemm_count", spec).build(),
    SpgemmListSpec: lambda spec: _Bins("spgemm_list", spec).build(),
    SpgemmTotalsSpec: _totals,
    SpgemmTilesSpec: _tiles,
    SpgemmMoveSpec: _move,
}

__all__ = [
    "Census",
    "SpgemmCountSpec",
    "SpgemmLengthsSpec",
    "SpgemmListSpec",
    "SpgemmMoveSpec",
    "SpgemmTilesSpec",
    "SpgemmTotalsSpec",
    "count",
    "lengths",
    "list_rows",
    "make",
    "move",
    "num_tiles",
    "totals",
]
