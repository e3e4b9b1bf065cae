"""Products of two sparse matrices in compressed rows as operations: by merges, and by bins of rows.

A matrix is three operands: `indptr`, `indices` and `data`, whose indices somebody has checked: kernels do not.
"""

from __future__ import annotations

import importlib
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


def _infer_counts(layouts: Layouts, parameters: Any) -> Layouts:  # noqa: ARG001
    return (Layout.of(layouts[0].dtype, (layouts[0].size - 1,)),)


def _infer_product(layouts: Layouts, parameters: Any) -> Layouts:
    dtype = result_type(layouts[3].dtype, layouts[6].dtype)
    return (Layout.of(layouts[0].dtype, parameters[-1:]), Layout.of(dtype, parameters[-1:]))


# -- short rows --------------------------------------------------------------------------------------------------------


def _plan_merge_counts(layouts: list[Layout], parameters: Any) -> Plan:
    (ways,) = parameters
    plan: Plan = _module("spgemm_merge").count(layouts[0].size - 1, _counted_types(layouts[0]), ways)
    return plan


MERGE_COUNTS = row("merge_counts", _plan_merge_counts, _infer_counts)
"""Operands indptr and indices of A and B, canonical; the parameter is the length of A's longest row.

The elements of each row of ``A @ B``.
"""


def _plan_merge(layouts: list[Layout], parameters: Any) -> Plan:
    ways, count = parameters
    types = product_types(layouts[2], layouts[3], layouts[6])
    plan: Plan = _module("spgemm_merge").multiply(layouts[1].size - 1, count, types, ways)
    return plan


MERGE = row("merge", _plan_merge, _infer_product)
"""Operands indptr of the result, A and B; parameters A's longest row, and the elements of the result."""

# -- rows of any length ------------------------------------------------------------------------------------------------


def _bins_for(types: Any) -> Any:
    return _module("spgemm_rows").bins_for(types, device().capability.max_shared_nbytes)


def _types(layouts: list[Layout] | Layouts) -> Any:
    """Return the `ProductTypes` of operands that end with those of two matrices."""
    return product_types(layouts[-5], layouts[-4], layouts[-1])


def census_of(layouts: list[Layout] | Layouts) -> Any:
    """Return the `spgemm.Census` of a product; layouts are those of two matrices."""
    return _module("spgemm").Census(len(_bins_for(_types(layouts))))


def _infer_census(layouts: Layouts, parameters: Any) -> Layouts:  # noqa: ARG001
    a_indptr, a_indices, *_ = layouts
    num_rows = a_indptr.size - 1
    return (
        Layout.of(INT64, (census_of(layouts).num_words,)),
        Layout.of(INT64, (a_indices.size,)),
        Layout.of(a_indptr.dtype, (num_rows,)),
        Layout.of(INT64, (num_rows,)),
    )


def _plan_census(layouts: list[Layout], parameters: Any) -> Plan:
    """Scan the lengths of the rows that elements meet, count the rows of bins, scan their places, list them."""
    family, (num_columns,) = _module("spgemm"), parameters
    a_indptr, a_indices = layouts[:2]
    index, num_rows, count = DEVICE_TYPES[a_indptr.dtype], a_indptr.size - 1, a_indices.size
    limits = tuple([each.most for each in _bins_for(_types(layouts))])
    (words, through, listed, begins), (indptr, indices) = outputs(4), inputs(2)
    scratch = Scratch()
    lengths = scratch.take(count * a_indptr.dtype.itemsize)
    places, placed = (scratch.take(num_rows * INT64.itemsize) for _ in range(2))
    of_lengths = plan_scan(CUMSUM, leaf(Layout.of(a_indptr.dtype, (count,))), 0, Layout.of(INT64, (count,)))
    of_places = plan_scan(CUMSUM, leaf(Layout.of(INT64, (num_rows,))), 0, Layout.of(INT64, (num_rows,)))
    scan_scratch = scratch.take(max(of_lengths.scratch_nbytes, of_places.scratch_nbytes))
    return scratch.plan(
        (
            family.lengths(count, index, (lengths, indices, Argument("in3"))),
            *of_lengths.on(out0=through, in0=lengths, scratch=scan_scratch),
            Fill(words, family.Census(len(limits)).num_words * INT64.itemsize, 0),
            family.count(num_rows, num_columns, index, limits, (places, words, indptr, through)),
            *of_places.on(out0=placed, in0=places, scratch=scan_scratch),
            family.list_rows(num_rows, num_columns, index, limits, (listed, begins, words, indptr, through, placed)),
        )
    )


CENSUS = row("product_census", _plan_census, _infer_census)
"""Operands A and B; the parameter is the columns of B. B has no duplicates.

The words of `spgemm.Census`, the scan of how many products elements of A have, rows by their bins, and where they begin
in a staging area.
"""


def _infer_product_of_any(layouts: Layouts, parameters: Any) -> Layouts:  # noqa: ARG001
    """Sizes are known once the plan has read how many elements there are."""
    index, result = layouts[3].dtype, result_type(layouts[5].dtype, layouts[8].dtype)
    return (Layout.of(index, (layouts[3].size,)), Layout.of(index, (0,)), Layout.of(result, (0,)))


def _sized_product(bound: BoundOp, words: tuple[int, ...]) -> Layouts:
    indptr, indices, data = bound.layouts
    return (indptr, Layout.of(indices.dtype, words), Layout.of(data.dtype, words))


def _plan_product(layouts: list[Layout], parameters: Any) -> Plan:
    """Make rows bin by bin in a staging area, scan how many elements they have, read that, and move them."""
    family, (words, num_columns) = _module("spgemm"), parameters
    types, num_rows, dtype = _types(layouts), layouts[3].size - 1, layouts[3].dtype
    census = family.Census(len(_bins_for(types)))
    long_products, staged = words[census.long_products], words[census.staged]
    scratch = Scratch()
    counts, ends, total = (scratch.take(nbytes) for nbytes in (*[num_rows * dtype.itemsize] * 2, INT64.itemsize))
    indices = scratch.take((staged + long_products) * dtype.itemsize)
    data = scratch.take((staged + long_products) * types.result.nbytes)
    begins = scratch.take(num_rows * INT64.itemsize)
    size = Layout.of(dtype, (num_rows,))
    scan = plan_scan(CUMSUM, leaf(size), 0, size)
    steps = (
        Fill(counts, num_rows * dtype.itemsize, 0),
        Copy(begins, Argument("in2"), num_rows * INT64.itemsize),
        *_long_rows(scratch, words, census, types, num_columns, (counts, indices, data, begins)),
        *_bins(words, types, num_columns, (counts, indices, data, begins)),
        *scan.on(out0=ends, in0=counts, scratch=scratch.take(scan.scratch_nbytes)),
        Fill(total, INT64.itemsize, 0),
        Copy(total, ends.at((num_rows - 1) * dtype.itemsize), dtype.itemsize),
        Read(total),
    )
    tiles = scratch.take((family.num_tiles(staged + long_products) + 1) * dtype.itemsize)

    @lru_cache(1)
    def moved(count: int) -> Plan:
        indptr, *result = outputs(3)
        move = family.move(num_rows, count, types.index, types.result, tiles, ends, (*result, begins, indices, data))
        start = Fill(indptr, dtype.itemsize, 0)
        return Plan((start, Copy(indptr.at(dtype.itemsize), ends, num_rows * dtype.itemsize), *move))

    return Plan(steps, scratch.nbytes, then=lambda words: moved(*words))


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


def _long_rows(
    scratch: Scratch, words: Any, census: Any, types: Any, num_columns: int, made: tuple[Argument, ...]
) -> list[Step]:
    """Return the steps that make rows which are too long for a block."""
    num_rows, total, staged = (words[i] for i in (census.long_rows, census.long_products, census.staged))
    if not num_rows:
        return []
    family, (counts, indices, data, begins) = _module("spgemm_long"), made
    through, listed = inputs(2)
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


PRODUCT = Op(
    "sparse.product",
    lambda bound: _plan_product([graph.layout for graph in bound.graphs], bound.parameters),
    _infer_product_of_any,
    sized=_sized_product,
)
"""Operands the scan of products, listed rows and their places in the staging area (`CENSUS`), then A and B; parameters
the words of the census, and the columns of B.

Gives indptr, indices and data of ``A @ B``.
"""
