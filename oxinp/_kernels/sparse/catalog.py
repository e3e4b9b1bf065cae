"""The Specs of sparse kernels that ship."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxinp._kernels.sparse import merge, rows, spgemm, spmm, spmv, union
from oxinp._kernels.sparse.types import ProductTypes
from oxinp._ptx.types import c64, c128, f32, f64, i32, i64, pred

if TYPE_CHECKING:
    from oxinp._ptx.types import Type

TYPES = (f32, f64, c64, c128, i64)
MIXED = ((i32, f32, f64, f64), (i64, f64, c128, c128), (i64, f64, f64, f64), (i64, c128, c128, c128))


def products() -> list[ProductTypes]:
    """Return the types of products: of one type with 32-bit indices, and a few others."""
    return [*[ProductTypes(i32, type_, type_, type_) for type_ in TYPES], *[ProductTypes(*each) for each in MIXED]]


def specs() -> list[Any]:
    """Return all shipped Specs."""
    found: list[Any] = [merge.PartitionSpec(i32), merge.PartitionSpec(i64)]
    for types in products():
        found += [spmv.RowsSpec(types, lanes) for lanes in (1, 2, 4, 8, 16, 32)]
        found += [spmv.StreamSpec(types), merge.MergeSpec(types), merge.FixupSpec(types.index, types.result)]
        widest = max(1, spmm.MAX_VECTOR_NBYTES // types.result.nbytes)
        found += [spmm.MatrixSpec(types, lanes, vector) for lanes in (1, 8, 32) for vector in {1, widest}]
        found += [spgemm.ExpandSpec(types, lanes) for lanes in (1, 8, 32)]
        found += [
            spgemm.HashSpec(types, each.lanes, each.table, is_listed, is_numeric)
            for each in spgemm.BINS
            for is_listed in (False, True)
            for is_numeric in (False, True)
        ]
    for index in (i32, i64):
        found += [spgemm.NumProductsSpec(index, lanes) for lanes in (1, 8, 32)]
        found += [rows.RowNumbersSpec(index, lanes) for lanes in (1, 8, 32)]
        found += [union.UnionSpec(index, None, None, None, "", lanes) for lanes in (1, 8, 32)]
        for type_ in (pred, f32, f64, c128):
            found += _of_elements(index, type_)
    return list(dict.fromkeys(found))


def _of_elements(index: Type, type_: Type) -> list[Any]:
    """Return the Specs of kernels that move or combine elements of a type."""
    found: list[Any] = [rows.PickSpec(index, type_, lanes) for lanes in (1, 8, 32)]
    if type_ is not pred:
        found += [rows.RunsSpec(type_), rows.DiagonalSpec(index, type_)]
    names = [name for name in union.OPERATORS if type_ is f64 or name == "add" or (name == "not_equal" and type_ is c128)]
    found += [union.UnionSpec(index, type_, type_, type_, name, lanes) for name in names for lanes in (1, 8, 32)]
    return found


__all__ = ["specs"]
