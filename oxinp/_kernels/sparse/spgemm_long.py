"""Rows of products of two CSR matrices that are too long for a block: expanded, sorted by radix, and added.

Data layout: products of all long rows lie one row after the other, those of a row in the order of the inner index; the
key of a product is the number of the row in the list of long ones times the columns, plus the column. Who owns what: of
the kernel that expands, blocks share a row, a tile of its products each, whose elements of A they find by bisection in
the scan of lengths: so neither long rows of A nor of B keep one block busy. A sort that keeps the order of equal keys
follows (`sort_pairs`); then a thread owns a key, and adds the run that begins with it, if one does, in the order of the
inner index, which is SciPy's. Bytes per product: key and value, written; sort passes; read.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oxinp._kernels.plan import Launch
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sparse.bisection import owner
from oxinp._kernels.sparse.types import BLOCK, ProductTypes
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i32, i64, u32, u64

if TYPE_CHECKING:
    from oxinp._kernels.plan import Argument

TILE = 16 * BLOCK
"""Products that a block expands at a time."""
MIN_SHARES = 64
MIN_BLOCKS = 8192
"""Blocks that share a row, where there are few rows or it has that many tiles."""


class SpgemmExpandSpec(Frozen):
    """The kernel that writes all products of listed rows, with their keys."""

    types: ProductTypes
    key: Type


class SpgemmHeadsSpec(Frozen):
    """The kernel that tells which keys differ from the one before, i32."""

    key: Type


class SpgemmRunsSpec(Frozen):
    """The kernel that adds runs; `place` is the type of what the sort gives."""

    index: Type
    value: Type
    key: Type
    place: Type


class SpgemmEndsSpec(Frozen):
    """The kernel that counts the elements of listed rows."""

    index: Type


def key_type(num_rows: int, num_columns: int) -> Type:
    """Return the type that holds all keys."""
    return u32 if num_rows * num_columns < 1 << u32.bits else u64


def expand(
    num_rows: int, longest: int, num_columns: int, types: ProductTypes, arguments: tuple[Argument, ...]
) -> Launch:
    """Return the launch that expands rows, the longest of which has `longest` products.

    Arguments are keys and products, the list of rows, where each row's products begin, i64, the scan of lengths, then
    indptr, indices and data of A and of B.
    """
    shares = min(-(-longest // TILE), max(MIN_SHARES, MIN_BLOCKS // num_rows))
    spec = SpgemmExpandSpec(types, key_type(num_rows, num_columns))
    return Launch(make(spec), (shares, num_rows, 1), arguments, (num_columns,))


def heads(count: int, key: Type, arguments: tuple[Argument, ...]) -> Launch:
    """Return the launch that finds where runs begin; arguments are the flags and the sorted keys, `count` of them."""
    return Launch(make(SpgemmHeadsSpec(key)), (-(-count // BLOCK), 1, 1), arguments, (count,))


def runs(count: int, num_columns: int, staged: int, spec: SpgemmRunsSpec, arguments: tuple[Argument, ...]) -> Launch:
    """Return the launch that adds runs.

    Arguments are indices and data of the staging area, from place `staged` of which on it writes, where rows begin
    there and how many runs there are up to the end of each listed row, i64, which it sets; then the list of rows,
    sorted keys, their places, the scan of the flags, i64, and the products.
    """
    return Launch(make(spec), (-(-count // BLOCK), 1, 1), arguments, (count, num_columns, staged))


def ends(num_rows: int, staged: int, index: Type, arguments: tuple[Argument, ...]) -> Launch:
    """Return the launch that counts elements.

    Arguments are the counts of all rows, the list, where rows begin in the staging area, and the runs up to the end of
    each listed row.
    """
    return Launch(make(SpgemmEndsSpec(index)), (-(-num_rows // BLOCK), 1, 1), arguments, (num_rows, staged))


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: SpgemmExpandSpec | SpgemmHeadsSpec | SpgemmRunsSpec | SpgemmEndsSpec) -> Kernel:
    """Build the kernel of a Spec."""
    kernel: Kernel = _BUILDERS[type(spec)](spec)
    return kernel


def _expand(spec: SpgemmExpandSpec) -> Kernel:
    types = spec.types
    index = types.index
    k = Builder("spgemm_expand", block=BLOCK)
    keys, products = k.pointer("keys", spec.key, "w"), k.pointer("products", types.result, "w")
    rows, begins, through = k.pointer("rows", index, "r"), k.pointer("begins", i64, "r"), k.pointer("through", i64, "r")
    a_indptr, a_indices = (k.pointer(f"a_{part}", index, "r") for part in ("indptr", "indices"))
    a_data = k.pointer("a_data", types.value, "r")
    b_indptr, b_indices = (k.pointer(f"b_{part}", index, "r") for part in ("indptr", "indices"))
    b_data = k.pointer("b_data", types.operand, "r")
    num_columns = k.scalar("num_columns", i64)
    row = rows[k.ctaid.y]
    begin, end = a_indptr[row], a_indptr[row + 1]
    before = k.where(begin > 0, through[k.max(begin, 1) - 1], k.const(0, i64))
    total, origin = through[end - 1] - before, begins[row]
    base = k.cast(k.ctaid.y, i64) * num_columns
    with k.range(k.cast(k.ctaid, i64) * TILE, total, k.cast(k.nctaid, i64) * TILE) as tile:
        stop = k.min(tile + TILE, total)
        first = owner(k, through, before + tile, begin, end - 1)
        last = owner(k, through, before + (stop - 1), first, end - 1)
        with k.range(tile + k.cast(k.tid, i64), stop, BLOCK) as number:
            element = owner(k, through, before + number, first, last)
            inner = a_indices[element]
            start = k.where(element > 0, through[k.max(element, 1) - 1], k.const(0, i64))
            at = k.cast(b_indptr[inner], i64) + (before + number - start)
            keys[origin + number] = k.cast(base + k.cast(b_indices[at], i64), spec.key)
            products[origin + number] = k.cast(a_data[element], types.result) * k.cast(b_data[at], types.result)
    return k.build()


def _heads(spec: SpgemmHeadsSpec) -> Kernel:
    k = Builder("spgemm_heads", block=BLOCK)
    flags, keys = k.pointer("flags", i32, "w"), k.pointer("keys", spec.key, "r")
    count = k.scalar("count", i64)
    place = k.cast(k.ctaid, i64) * BLOCK + k.cast(k.tid, i64)
    with k.when(place < count):
        is_head = (place == 0) | (keys[place] != keys[k.max(place, 1) - 1])
        flags[place] = k.where(is_head, k.const(1, i32), k.const(0, i32))
    return k.build()


def _runs(spec: SpgemmRunsSpec) -> Kernel:
    k = Builder("spgemm_runs", block=BLOCK)
    out_indices, out_data = k.pointer("out_indices", spec.index, "w"), k.pointer("out_data", spec.value, "w")
    begins, row_ends = k.pointer("begins", i64, "w"), k.pointer("row_ends", i64, "w")
    rows, keys = k.pointer("rows", spec.index, "r"), k.pointer("keys", spec.key, "r")
    places, ranks = k.pointer("places", spec.place, "r"), k.pointer("ranks", i64, "r")
    products = k.pointer("products", spec.value, "r")
    count, num_columns, staged = (k.scalar(name, i64) for name in ("count", "num_columns", "staged"))
    place = k.cast(k.ctaid, i64) * BLOCK + k.cast(k.tid, i64)
    with k.when(place < count):
        key = keys[place]
        width = k.cast(num_columns, spec.key)
        number, rank = key / width, ranks[place]
        previous, following = keys[k.max(place, 1) - 1], keys[k.min(place + 1, count - 1)]
        with k.when((place == 0) | (key != previous)):
            total, at = k.var(k.const(0, spec.value)), k.var(place)
            with k.loop():
                total.set(total + products[places[at]])
                at.set(at + 1)
                k.break_if(at >= count)
                k.break_if(keys[at] != key)
            out_indices[staged + rank - 1] = k.cast(key - number * width, spec.index)
            out_data[staged + rank - 1] = total.get()
        with k.when((place == 0) | (previous / width != number)):
            begins[rows[number]] = staged + rank - 1
        with k.when((place == count - 1) | (following / width != number)):
            row_ends[number] = rank
    return k.build()


def _ends(spec: SpgemmEndsSpec) -> Kernel:
    k = Builder("spgemm_ends", block=BLOCK)
    counts, rows = k.pointer("counts", spec.index, "w"), k.pointer("rows", spec.index, "r")
    begins, row_ends = k.pointer("begins", i64, "r"), k.pointer("row_ends", i64, "r")
    num_rows, staged = k.scalar("num_rows", i64), k.scalar("staged", i64)
    number = k.cast(k.ctaid, i64) * BLOCK + k.cast(k.tid, i64)
    with k.when(number < num_rows):
        row = rows[number]
        counts[row] = k.cast(staged + row_ends[number] - begins[row], spec.index)
    return k.build()


_BUILDERS: dict[type, Any] = {
    SpgemmExpandSpec: _expand,
    SpgemmHeadsSpec: _heads,
    SpgemmRunsSpec: _runs,
    SpgemmEndsSpec: _ends,
}

__all__ = [
    "SpgemmEndsSpec",
    "SpgemmExpandSpec",
    "SpgemmHeadsSpec",
    "SpgemmRunsSpec",
    "ends",
    "expand",
    "heads",
    "key_type",
    "make",
    "runs",
]
