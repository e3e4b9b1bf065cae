"""Products of two sparse matrices in compressed rows as operations: by merges, by tables, and expanded.

A matrix is three operands: `indptr`, `indices` and `data`, whose indices somebody has checked: kernels do not.
"""

from __future__ import annotations

import importlib
from typing import Any

from oxinp._core.memory.dtypes import DEVICE_TYPES, INT64
from oxinp._core.memory.layout import Layout
from oxinp._core.ops.sparse import Layouts, product_types, result_type, row
from oxinp._kernels.plan import Argument, Fill, Plan

_FAMILY = "oxinp._kernels.sparse."


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

# -- tables ------------------------------------------------------------------------------------------------------------


def _infer_num_products(layouts: Layouts, parameters: Any) -> Layouts:  # noqa: ARG001
    return (Layout.of(INT64, (layouts[0].size - 1,)),)


def _plan_num_products(layouts: list[Layout], parameters: Any) -> Plan:  # noqa: ARG001
    indptr, indices, _ = layouts
    plan: Plan = _module("spgemm").num_products(indptr.size - 1, indices.size, DEVICE_TYPES[indices.dtype])
    return plan


NUM_PRODUCTS = row("num_products", _plan_num_products, _infer_num_products)
"""Operands indptr and indices of A, indptr of B: how many products each row of ``A @ B`` is the sum of."""


def _plan_hash(layouts: list[Layout], parameters: Any, *, is_numeric: bool) -> Plan:
    """A launch per bin of rows; `parameters` name the bins, whose lists of rows, if there are any, come last."""
    numbers, is_listed = parameters
    family, num_matrices = _module("spgemm"), 7 if is_numeric else 4
    matrices, lists = layouts[:num_matrices], layouts[num_matrices:]
    index = matrices[0].dtype
    if is_numeric:
        types = product_types(matrices[2], matrices[3], matrices[6])
        num_rows, steps = matrices[1].size - 1, []
    else:
        types = _counted_types(matrices[0])
        num_rows = matrices[0].size - 1
        steps = [Fill(Argument("out0"), num_rows * index.itemsize, 0)]
    for i, number in enumerate(numbers):
        each = family.BINS[number]
        spec = family.SpgemmHashSpec(types, each.lanes, each.table, is_listed, is_numeric)
        made = family.multiply(lists[i].size if is_listed else num_rows, spec)
        steps += made.on(**{f"in{num_matrices}": Argument(f"in{num_matrices + i}")})
    return Plan(tuple(steps))


def _plan_counts(layouts: list[Layout], parameters: Any) -> Plan:
    return _plan_hash(layouts, parameters, is_numeric=False)


PRODUCT_COUNTS = row("product_counts", _plan_counts, _infer_counts)
"""Operands indptr and indices of A and B, lists of rows; parameters numbers of bins, and whether there are lists.

The elements of each row of ``A @ B``, 0 of rows that are not listed. B has no duplicates.
"""


def _plan_product(layouts: list[Layout], parameters: Any) -> Plan:
    return _plan_hash(layouts, parameters[:2], is_numeric=True)


PRODUCT = row("product", _plan_product, _infer_product)
"""Operands indptr of the result, A, B and lists of rows; parameters as before, and the elements of the result."""


def _infer_expand(layouts: Layouts, parameters: Any) -> Layouts:
    count, _ = parameters
    return (Layout.of(INT64, (count,)), Layout.of(result_type(layouts[4].dtype, layouts[7].dtype), (count,)))


def _plan_expand(layouts: list[Layout], parameters: Any) -> Plan:
    (starts, _, _, a_indices, a_data, _, _, b_data), (count, num_columns) = layouts, parameters
    types = product_types(a_indices, a_data, b_data)
    plan: Plan = _module("spgemm").expand(starts.size, count, num_columns, types)
    return plan


EXPAND = row("expand", _plan_expand, _infer_expand)
"""Every product of listed elements of A, in order, with its key: row times the columns of B, plus the column.

Operands where each element's products begin, the elements' places in A and their rows, int64, then indices and data of
A, and B; parameters the number of products, and of columns of B.
"""
