"""Products of two sparse matrices in compressed rows as operations: by merges, and by bins of rows.

A matrix is three operands: `indptr`, `indices` and `data`, whose indices somebody has checked: kernels do not.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from oxinp._core.lazy.expr import leaf
from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.lazy.placement import device
from oxinp._core.memory.dtypes import DEVICE_TYPES, INT64
from oxinp._core.memory.layout import Layout
from oxinp._core.ops.sparse import Layouts, product_types, result_type, row
from oxinp._core.reduction.scan import plan_scan
from oxinp._core.reduction.table import CUMSUM
from oxinp._kernels.plan import Argument, Copy, Fill, Launch, Plan, Read, Scratch, Step, inputs, outputs
from oxinp._ptx.types import u32, u64

_FAMILY = "oxinp._kernels.sparse."
INT32 = np.dtype(np.int32)


def _module(name: str) -> Any:
    return importlib.import_module(_FAMILY + name)


def _counted_types(index: Layout) -> Any:
    """Return the `ProductTypes` of kernels that look at no elements."""
    element = DEVICE_TYPES[INT64]
    return _module("types").ProductTypes(DEVICE_TYPES[index.dtype], element, element, element)


def _infer(indptr: Layout, a: Layout, b: Layout) -> Layouts:
    """Return the layouts of a product before it is known how many elements it has."""
    result = result_type(a.dtype, b.dtype)
    return (Layout.of(indptr.dtype, (indptr.size,)), Layout.of(indptr.dtype, (0,)), Layout.of(result, (0,)))


def _sized(bound: BoundOp, words: tuple[int, ...]) -> Layouts:
    indptr, indices, data = bound.layouts
    return (indptr, Layout.of(indices.dtype, words[:1]), Layout.of(data.dtype, words[:1]))


def _row(
    name: str, plan: Callable[[list[Layout], Any], Plan], infer: Any, sized: Callable[[BoundOp, Any], Layouts]
) -> Op:
    """Return the row of an operation whose plan reads words."""
    made = row(name, plan, infer)
    return made.replace(sized=sized)


def _count_all(scratch: Scratch, counts: Argument, num_rows: int, dtype: np.dtype[Any]) -> tuple[Argument, list[Step]]:
    """Return the scan of how many elements rows have, and steps that make it and read how many there are.

    Words are the elements of the result, and of its longest row.
    """
    family, size = _module("spgemm"), Layout.of(dtype, (num_rows,))
    through, words = scratch.take(num_rows * dtype.itemsize), scratch.take(2 * INT64.itemsize)
    scan = plan_scan(CUMSUM, leaf(size), 0, size)
    return through, [
        *scan.on(out0=through, in0=counts, scratch=scratch.take(scan.scratch_nbytes)),
        Fill(words, 2 * INT64.itemsize, 0),
        family.totals(num_rows, DEVICE_TYPES[dtype], (words, counts)),
        Read(words, 2),
    ]


# -- short rows --------------------------------------------------------------------------------------------------------


def _infer_merged(layouts: Layouts, parameters: Any) -> Layouts:  # noqa: ARG001
    return _infer(layouts[0], layouts[2], layouts[5])


def _plan_merged(layouts: list[Layout], parameters: Any) -> Plan:
    """Count the elements of rows, read how many there are, and merge."""
    family, (ways,) = _module("spgemm_merge"), parameters
    types, num_rows, dtype = _types(layouts), layouts[0].size - 1, layouts[0].dtype
    scratch = Scratch()
    counts = scratch.take(num_rows * dtype.itemsize)
    count = family.count(num_rows, _counted_types(layouts[0]), ways)
    places = dict(zip(("in0", "in1", "in2", "in3"), (Argument(f"in{i}") for i in (0, 1, 3, 4)), strict=True))
    through, counted = _count_all(scratch, counts, num_rows, dtype)

    @lru_cache(1)
    def merged(total: int) -> Plan:
        if not total:
            return Plan(())
        matrices = {f"in{i + 1}": Argument(f"in{i}") for i in range(6)}
        return Plan(family.multiply(num_rows, total, types, ways).on(in0=through, **matrices))

    steps = (*count.on(out0=counts, **places), *counted)
    return Plan(steps, scratch.nbytes, then=lambda words: merged(words[0]))


MERGED = _row("merged", _plan_merged, _infer_merged, _sized)
"""Operands A and B, canonical; the parameter is the length of A's longest row.

Gives indptr, indices and data of ``A @ B``, and reads how many elements it has, and its longest row.
"""

# -- rows of any length ------------------------------------------------------------------------------------------------


def _bins_for(types: Any) -> Any:
    return _module("spgemm_rows").bins_for(types, device().capability.max_shared_nbytes)


def _types(layouts: list[Layout] | Layouts) -> Any:
    """Return the `ProductTypes` of operands that end with those of two matrices."""
    return product_types(layouts[-5], layouts[-4], layouts[-1])


def census_of(layouts: list[Layout] | Layouts) -> Any:
    """Return the `spgemm.Census` of a product; layouts are those of two matrices."""
    dtypes = (layouts[-5].dtype, layouts[-4].dtype, layouts[-1].dtype)
    return _census_of(dtypes, device().capability.max_shared_nbytes)


@lru_cache(256)
def _census_of(dtypes: tuple[np.dtype[Any], ...], max_shared_nbytes: int) -> Any:
    types = product_types(*[Layout.of(dtype, (0,)) for dtype in dtypes])
    return _module("spgemm").Census(len(_module("spgemm_rows").bins_for(types, max_shared_nbytes)))


def _infer_census(layouts: Layouts, parameters: Any) -> Layouts:  # noqa: ARG001
    a_indptr, a_indices, *_ = layouts
    num_rows = a_indptr.size - 1
    shapes = ((INT64, a_indices.size), (a_indptr.dtype, num_rows), (INT64, num_rows))
    return tuple([Layout.of(dtype, (size,)) for dtype, size in shapes])


def _sized_census(bound: BoundOp, words: tuple[int, ...]) -> Layouts:
    """The scan of products is there for long rows alone; else its first element stands for it."""
    through, listed, begins = bound.layouts
    census = census_of([graph.layout for graph in bound.graphs])
    return (through if words[census.long_rows] else Layout.of(INT64, (1,)), listed, begins)


def _plan_census(layouts: list[Layout], parameters: Any) -> Plan:
    """Scan the lengths of the rows that elements meet, count the rows of bins, scan their places, list them."""
    family, (num_columns,) = _module("spgemm"), parameters
    a_indptr, a_indices = layouts[:2]
    index, num_rows, count = DEVICE_TYPES[a_indptr.dtype], a_indptr.size - 1, a_indices.size
    limits = tuple([each.most for each in _bins_for(_types(layouts))])
    census = family.Census(len(limits))
    indptr, indices = inputs(2)
    scratch = Scratch()
    lengths, words = scratch.take(count * a_indptr.dtype.itemsize), scratch.take(census.num_words * INT64.itemsize)
    through, places, placed = (scratch.take(size * INT64.itemsize) for size in (count, num_rows, num_rows))
    of_lengths = plan_scan(CUMSUM, leaf(Layout.of(a_indptr.dtype, (count,))), 0, Layout.of(INT64, (count,)))
    of_places = plan_scan(CUMSUM, leaf(Layout.of(INT64, (num_rows,))), 0, Layout.of(INT64, (num_rows,)))
    scan_scratch = scratch.take(max(of_lengths.scratch_nbytes, of_places.scratch_nbytes))
    steps = (
        family.lengths(count, index, (lengths, indices, Argument("in3"))),
        *of_lengths.on(out0=through, in0=lengths, scratch=scan_scratch),
        Fill(words, census.num_words * INT64.itemsize, 0),
        family.count(num_rows, num_columns, index, limits, (places, words, indptr, through)),
        Read(words, census.num_read),
    )

    @lru_cache(2)
    def listed(has_long_rows: bool) -> Plan:
        out_through, out_listed, out_begins = outputs(3)
        given = (out_listed, out_begins, words, indptr, through, placed)
        kept = (Copy(out_through, through, count * INT64.itemsize),) if has_long_rows else ()
        scan = of_places.on(out0=placed, in0=places, scratch=scan_scratch)
        return Plan((*kept, *scan, family.list_rows(num_rows, num_columns, index, limits, given)))

    return Plan(steps, scratch.nbytes, then=lambda words: listed(words[census.long_rows] > 0))


CENSUS = _row("product_census", _plan_census, _infer_census, _sized_census)
"""Operands A and B; the parameter is the columns of B. B has no duplicates.

Gives the scan of how many products elements of A have, rows by their bins, and where they begin in a staging area, and
reads the words of `spgemm.Census`.
"""


def _infer_product(layouts: Layouts, parameters: Any) -> Layouts:  # noqa: ARG001
    return _infer(layouts[3], layouts[5], layouts[8])


def _plan_product(layouts: list[Layout], parameters: Any) -> Plan:
    """Make rows bin by bin in a staging area, scan how many elements they have, read that, and move them."""
    family, (words, num_columns) = _module("spgemm"), parameters
    types, num_rows, dtype = _types(layouts), layouts[3].size - 1, layouts[3].dtype
    census = family.Census(len(_bins_for(types)))
    dense = _dense_spec(layouts, types, num_columns, words[census.long_rows])
    staged = words[census.staged]
    room = staged + (words[census.long_products] if dense is None else words[census.long_rows] * num_columns)
    scratch = Scratch()
    counts = scratch.take(num_rows * dtype.itemsize)
    indices, data = scratch.take(room * dtype.itemsize), scratch.take(room * types.result.nbytes)
    tiles = scratch.take((family.num_tiles(room) + 1) * dtype.itemsize)
    begins = Argument("in2")
    steps: list[Step] = [Fill(counts, num_rows * dtype.itemsize, 0)]
    if words[census.long_rows]:  # which move in the staging area
        begins = scratch.take(num_rows * INT64.itemsize)
        steps.append(Copy(begins, Argument("in2"), num_rows * INT64.itemsize))
    made = (counts, indices, data, begins)
    steps += _long_rows(scratch, words, census, types, num_columns, made, dense)
    steps += _bins(words, types, num_columns, made)
    through, counted = _count_all(scratch, counts, num_rows, dtype)

    @lru_cache(1)
    def moved(total: int) -> Plan:
        given = (*outputs(3), begins, indices, data)
        return Plan(family.move(num_rows, total, types.index, types.result, tiles, through, given))

    return Plan((*steps, *counted), scratch.nbytes, then=lambda words: moved(words[0]))


def _bins(words: Any, types: Any, num_columns: int, made: tuple[Argument, ...]) -> list[Launch]:
    """Return a launch per bin, those of rows with the most products first."""
    family = _module("spgemm_rows")
    bins = _bins_for(types)
    launches, before = [], words[len(bins)]
    for number in reversed(range(len(bins))):
        if words[number]:
            spec = family.spec_of(bins[number], types, num_columns)
            listed = Argument("in1").at(before * types.index.nbytes)
            launches.append(family.launch(words[number], spec, num_columns, (*made, *inputs(6, 3), listed)))
            before += words[number]
    return launches


def _dense_spec(layouts: list[Layout], types: Any, num_columns: int, num_rows: int) -> Any:
    """Return the Spec of the kernel that makes long rows in dense ones; None where another way is better."""
    family = _module("spgemm_dense")
    if not family.takes(num_rows, layouts[-2].size, layouts[-3].size - 1):
        return None
    return family.spec_for(num_columns, types, device().capability.max_shared_nbytes)


def _long_rows(
    scratch: Scratch,
    words: Any,
    census: Any,
    types: Any,
    num_columns: int,
    made: tuple[Argument, ...],
    dense: Any,
) -> list[Step]:
    """Return the steps that make rows with more products than a block sorts."""
    num_rows, total, staged = (words[i] for i in (census.long_rows, census.long_products, census.staged))
    if not num_rows:
        return []
    through, listed = inputs(2)
    if dense is not None:
        given = (*made, *inputs(6, 3), listed)
        return [_module("spgemm_dense").launch(num_rows, num_columns, staged, dense, given)]
    family, (counts, indices, data, begins) = _module("spgemm_long"), made
    key = family.key_type(num_rows, num_columns)
    keys, ordered = (scratch.take(total * key.nbytes) for _ in range(2))
    products = scratch.take(total * types.result.nbytes)
    spec = family.SpgemmRunsSpec(types.index, types.result, key, u32 if total <= 1 << u32.bits else u64)
    places, flags, ranks, row_ends = (
        scratch.take(nbytes) for nbytes in (total * spec.place.nbytes, total * 4, total * 8, num_rows * 8)
    )
    sort = importlib.import_module("oxinp._kernels.sort.plan").sort_pairs(total, key, None, device().capability)
    scan = plan_scan(CUMSUM, leaf(Layout.of(INT32, (total,))), 0, Layout.of(INT64, (total,)))
    expanded = (keys, products, listed, begins, through, *inputs(6, 3))
    return [
        family.expand(num_rows, words[census.longest], num_columns, types, expanded),
        *sort.on(out0=ordered, out1=places, in0=keys, scratch=scratch.take(sort.scratch_nbytes)),
        family.heads(total, key, (flags, ordered)),
        *scan.on(out0=ranks, in0=flags, scratch=scratch.take(scan.scratch_nbytes)),
        family.runs(
            total,
            num_columns,
            staged,
            spec,
            (indices, data, begins, row_ends, listed, ordered, places, ranks, products),
        ),
        family.ends(num_rows, staged, types.index, (counts, listed, begins, row_ends)),
    ]


PRODUCT = _row("product", _plan_product, _infer_product, _sized)
"""Operands the scan of products, listed rows and their places in the staging area (`CENSUS`), then A and B; parameters
the words of the census, and the columns of B.

Gives indptr, indices and data of ``A @ B``, and reads how many elements it has, and its longest row.
"""
