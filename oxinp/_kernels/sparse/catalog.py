"""The Specs of sparse kernels that ship."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxinp._kernels.sparse import (
    arnoldi,
    arnoldi_s_step,
    bicgstab,
    cg,
    coloring,
    graph,
    incomplete,
    merge,
    rows,
    sddmm,
    spgemm,
    spgemm_dense,
    spgemm_long,
    spgemm_merge,
    spgemm_rows,
    spmm,
    spmv,
    transpose,
    trees,
    trsv,
    union,
)
from oxinp._kernels.sparse.types import ProductTypes
from oxinp._ptx.types import c64, c128, f32, f64, i32, i64, pred, u32, u64
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from oxinp._ptx.types import Type

TYPES = (f32, f64, c64, c128, i64)
MAX_SHARED_NBYTES = 227 * 1024
MIXED = ((i32, f32, f64, f64), (i64, f64, c128, c128), (i64, f64, f64, f64), (i64, c128, c128, c128))


def products() -> list[ProductTypes]:
    """Return the types of products: of one type with 32-bit indices, and a few others."""
    return [*[ProductTypes(i32, type_, type_, type_) for type_ in TYPES], *[ProductTypes(*each) for each in MIXED]]


def specs() -> list[Any]:
    """Return all shipped Specs."""
    found: list[Any] = [merge.SpmvPartitionSpec(i32), merge.SpmvPartitionSpec(i64)]
    for types in products():
        found += [spmv.SpmvRowsSpec(types, lanes) for lanes in (8, 32)]
        found += [
            *[spmv.SpmvRowsSpec(types, lanes, is_narrow=True) for lanes in (8, 32)],
            *[spmv.SpmvStreamSpec(types, is_narrow) for is_narrow in (False, True)],
            merge.SpmvMergeSpec(types),
            merge.SpmvFixupSpec(types.index, types.result),
        ]
        widest = max(1, spmm.MAX_VECTOR_NBYTES // types.result.nbytes)
        found += [spmm.SpmmSpec(types, lanes, vector) for lanes in (1, 32) for vector in {1, widest}]
        found += [sddmm.SddmmSpec(types)]
        found += _rows_of_products(types)
        found += [
            spgemm_merge.SpgemmMergeSpec(types, ways, is_numeric=True, staged=staged)
            for ways, staged in ((1, 16), (5, 32), (8, 0))
        ]
    found += [spgemm_long.SpgemmHeadsSpec(key) for key in (u32, u64)]
    found += [graph.RootSpec(i32), graph.RelaxSpec(i32, f32, f64, 8), graph.RelaxSpec(i64, f64, f64, 32)]
    found += [graph.RelaxSpec(i32, None, i64, 8), graph.RelaxSpec(i64, None, i32, 8, has_own=False)]
    for index in (i32, i64):
        found += [trsv.LevelSpec(index, is_lower) for is_lower in (True, False)]
        found += [trees.LightestSpec(index, 8), trees.JoinSpec(index), trees.ReachSpec(index, 8)]
        found += [trees.PredecessorSpec(index, f64, lanes) for lanes in (1, 32)]
    found += [made(type_) for made in (cg.CgDotSpec, cg.CgUpdateSpec, cg.CgDirectionSpec) for type_ in (f32, f64)]
    found += [incomplete.IncompleteSpec(index, type_, True) for index in (i32, i64) for type_ in (f32, f64)]
    found += [incomplete.IncompleteSpec(i32, type_, False) for type_ in (f32, f64, c64, c128)]
    for type_ in (f32, f64):
        found += [
            made(type_, is_second)
            for made in (arnoldi.ArnoldiDotsSpec, arnoldi.ArnoldiUpdateSpec)
            for is_second in (True, False)
        ]
        found.append(arnoldi.ArnoldiNextSpec(type_))
        for steps, newest in ((1, 2), (1, 3), (2, 2), (2, 3), (3, 3)):
            found += [arnoldi_s_step.dots_spec(type_, steps, newest, n, MAX_SHARED_NBYTES) for n in (30, 120)]
            found.append(arnoldi_s_step.SStepSumsSpec(type_, steps, newest))
        found += [arnoldi_s_step.SStepUpdateSpec(type_, steps) for steps in (1, 2, 3)]
        found += [bicgstab.BicgstabSpec(name, type_) for name in ("dots", "direction", "half", "update")]
    for type_ in (f32, f64, c64, c128):
        for lanes in (1, 32):
            found += [trsv.TrsmSpec(i32, type_, lanes == 1, False), trsv.TrsmSpec(i64, type_, True, True)]
            found += [
                trsv.TrsvSpec(i32, type_, lanes, lanes == 1, False),
                trsv.TrsvSpec(i64, type_, lanes, True, True),
            ]
    for index in (i32, i64):
        found += [graph.HookSpec(index, 8), graph.FirstSpec(index), rows.PickLengthsSpec(index)]
        found += [coloring.ColorSpec(index, lanes) for lanes in (1, 8, 32)]
        counted = ProductTypes(index, i64, i64, i64)
        found += [spgemm_merge.SpgemmMergeSpec(counted, ways, is_numeric=False, staged=0) for ways in (1, 5, 8)]
        limits = tuple(each.most for each in spgemm_rows.BINS)
        found += [spgemm.SpgemmLengthsSpec(index), spgemm.SpgemmTilesSpec(index), spgemm_long.SpgemmEndsSpec(index)]
        found += [spgemm.SpgemmTotalsSpec(index)]
        found += [transpose.TransposeKeysSpec(index, 3), transpose.TransposeEndsSpec(index)]
        found += [spgemm.SpgemmCountSpec(index, limits), spgemm.SpgemmListSpec(index, limits)]
        found += [rows.RowNumbersSpec(index, lanes) for lanes in (1, 8, 32)]
        found += [union.UnionSpec(index, None, None, None, "", lanes) for lanes in (1, 8, 32)]
        for type_ in (pred, f32, f64, c128):
            found += _of_elements(index, type_)
    return list(dict.fromkeys(found))


FAMILIES: dict[type, Any] = {
    merge.SpmvPartitionSpec: merge,
    merge.SpmvMergeSpec: merge,
    merge.SpmvFixupSpec: merge,
    spmv.SpmvRowsSpec: spmv,
    spmv.SpmvStreamSpec: spmv,
    spmm.SpmmSpec: spmm,
    sddmm.SddmmSpec: sddmm,
    **dict.fromkeys(
        (
            spgemm.SpgemmLengthsSpec,
            spgemm.SpgemmCountSpec,
            spgemm.SpgemmListSpec,
            spgemm.SpgemmTotalsSpec,
            spgemm.SpgemmTilesSpec,
            spgemm.SpgemmMoveSpec,
        ),
        spgemm,
    ),
    **dict.fromkeys(
        (
            spgemm_long.SpgemmExpandSpec,
            spgemm_long.SpgemmHeadsSpec,
            spgemm_long.SpgemmRunsSpec,
            spgemm_long.SpgemmEndsSpec,
        ),
        spgemm_long,
    ),
    spgemm_dense.SpgemmDenseSpec: spgemm_dense,
    spgemm_merge.SpgemmMergeSpec: spgemm_merge,
    spgemm_rows.SpgemmRowsSpec: spgemm_rows,
    union.UnionSpec: union,
    arnoldi.ArnoldiDotsSpec: arnoldi,
    arnoldi.ArnoldiUpdateSpec: arnoldi,
    arnoldi.ArnoldiNextSpec: arnoldi,
    arnoldi_s_step.SStepDotsSpec: arnoldi_s_step,
    arnoldi_s_step.SStepSumsSpec: arnoldi_s_step,
    arnoldi_s_step.SStepUpdateSpec: arnoldi_s_step,
    bicgstab.BicgstabSpec: bicgstab,
    cg.CgDotSpec: cg,
    cg.CgUpdateSpec: cg,
    cg.CgDirectionSpec: cg,
    trsv.TrsvSpec: trsv,
    trsv.TrsmSpec: trsv,
    trsv.LevelSpec: trsv,
    incomplete.IncompleteSpec: incomplete,
    transpose.TransposeKeysSpec: transpose,
    transpose.TransposeEndsSpec: transpose,
    graph.HookSpec: graph,
    trees.LightestSpec: trees,
    trees.JoinSpec: trees,
    trees.ReachSpec: trees,
    trees.PredecessorSpec: trees,
    graph.RootSpec: graph,
    coloring.ColorSpec: coloring,
    graph.FirstSpec: graph,
    graph.RelaxSpec: graph,
    rows.RowNumbersSpec: rows,
    rows.PickLengthsSpec: rows,
    rows.PickSpec: rows,
    rows.RunsSpec: rows,
    rows.DiagonalSpec: rows,
    rows.DenseSpec: rows,
}


def _rows_of_products(types: ProductTypes) -> list[Any]:
    """Return the Specs of the kernels that make rows of a product, and move them."""
    found: list[Any] = [spgemm_rows.SpgemmRowsSpec(types, *each, is_packed=False) for each in spgemm_rows.BINS]
    found += [spec.replace(is_packed=True) for spec in found if spec.lanes <= WARP]
    found += [spgemm.SpgemmMoveSpec(types.index, types.result)]
    found += [
        spec
        for size in spgemm_dense.SIZES
        if (spec := spgemm_dense.spec_for(size, types, MAX_SHARED_NBYTES)) is not None
    ]
    for key in (u32, u64):
        found += [spgemm_long.SpgemmExpandSpec(types, key)]
        found += [spgemm_long.SpgemmRunsSpec(types.index, types.result, key, key)]
    return found


def _of_elements(index: Type, type_: Type) -> list[Any]:
    """Return the Specs of kernels that move or combine elements of a type."""
    found: list[Any] = [rows.DenseSpec(index, type_, lanes) for lanes in (1, 8, 32)]
    found += [rows.PickSpec(index, type_)]
    if type_ is not pred:
        found += [rows.RunsSpec(type_), rows.DiagonalSpec(index, type_)]
    names = [
        name for name in union.OPERATORS if type_ is f64 or name == "add" or (name == "not_equal" and type_ is c128)
    ]
    found += [union.UnionSpec(index, type_, type_, type_, name, lanes) for name in names for lanes in (1, 8, 32)]
    return found


__all__ = ["FAMILIES", "specs"]
