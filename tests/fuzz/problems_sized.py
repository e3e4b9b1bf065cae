"""Random problems for planners of sizes and alignments that only data, or programs of kernels, lead to.

Sizes of sparse products, levels of triangular systems and the windows of eigenvalue iterations are read back from
the device, which here has computed nothing.
"""

from __future__ import annotations

from typing import Any

from oxinp._kernels.fft import axes
from oxinp._kernels.index import claims, regions
from oxinp._kernels.lapack import multishift
from oxinp._kernels.lapack import plan as lapack
from oxinp._kernels.plan import ALIGNMENT, Argument, inputs, outputs
from oxinp._kernels.random import fill, lcg, philox, shuffle, twister_plan
from oxinp._kernels.random.twister_formats import FORMATS
from oxinp._kernels.sort import plan as sort
from oxinp._kernels.sparse import (
    graph,
    merge,
    spgemm_dense,
    spgemm_long,
    spgemm_merge,
    spgemm_rows,
    spmm,
    spmv,
    transpose,
    trsv,
)
from oxinp._kernels.sparse.types import ProductTypes
from oxinp._ptx.types import Type, c64, c128, f32, f64, i32, i64, u32, u64
from tests.fuzz import planning
from tests.fuzz.operand import ALIGNMENTS, type_of
from tests.fuzz.problem import Problem

ROWS = (1, 5, 100, 3000, 100_003, 1 << 20, 50_000_000)
COLUMNS = (1, 5, 64, 1000, 5000, 100_003, 1 << 20, (1 << 31) - 1)
COUNTS = (1, 100, 5000, 1 << 17, 3_000_001, 1 << 27)
ORDERS = (3, 20, 130, 520, 1100, 4000)
SIZES = (1, 5, 1000, 100_003, 1 << 20, 3_000_001, 1 << 27, (1 << 31) - 1)
HUGE = (1 << 20, 1 << 27, 1 << 31, 1 << 32, (1 << 32) + 5)


def _types(p: Problem) -> ProductTypes:
    value = type_of(p, ("f4", "f8", "c8", "c16", "i4", "i8"))
    return ProductTypes(p.choice((i32, i64)), value, value, value)


def _product_of_rows(p: Problem) -> None:
    types, rows, columns = _types(p), p.choice(ROWS), p.choice(COLUMNS)
    room = planning.backend().capability.max_shared_nbytes
    for each in spgemm_rows.bins_for(types, room):
        spec = spgemm_rows.spec_of(each, types, columns)
        spgemm_rows.launch(rows, spec, columns, (*outputs(4), *inputs(7)))


def _product_of_long_rows(p: Problem) -> None:
    types, rows, columns, count = _types(p), p.choice(ROWS), p.choice(COLUMNS), p.choice(COUNTS)
    if spgemm_dense.takes(rows, count, p.choice(ROWS)):
        spgemm_dense.spec_for(columns, types, planning.backend().capability.max_shared_nbytes)
    spgemm_long.expand(rows, p.choice(COUNTS), columns, types, inputs(11))


def _merged_product(p: Problem) -> None:
    types, rows, lengths = _types(p), p.choice(ROWS), p.choice(((1, 1), (2, 30), (5, 5), (300, 9)))
    if spgemm_merge.takes(*lengths):
        spgemm_merge.multiply(rows, rows * p.choice((1, 3, 9, 40)), types, lengths[0])


def _sparse_product(p: Problem) -> None:
    types, rows, count = _types(p), p.choice(ROWS), p.choice(COUNTS)
    merge.plan(rows, count, types, has_starts=p.chance(50))
    spmm.plan(rows, p.choice((2, 3, 4, 8, 16, 33, 64, 128, 256)), count, types, p.choice(ALIGNMENTS))
    spmv.lanes_for(rows, count)
    if transpose.has_keys(rows, p.choice(COLUMNS), p.choice((0, *COUNTS, 1 << 33)), types.value):
        transpose.plan(rows, p.choice(COLUMNS), count, types.index, types.value, planning.backend().capability)


def _relaxation(p: Problem) -> None:
    weight = p.choice((None, f32, f64, i32))
    graph.relax(
        p.choice(ROWS), p.choice(COUNTS), p.choice((i32, i64)), weight, p.choice((f32, f64)), has_own=p.chance(50)
    )


def _triangular_system(p: Problem) -> None:
    spec = trsv.TrsvSpec(p.choice((i32, i64)), p.choice((f32, f64, c64, c128)), 1, p.chance(50), p.chance(50))
    trsv.plan(p.choice(ROWS), p.choice(COUNTS), spec, p.choice((1, 30, 5000)))


def _eigenvalue_iteration(p: Problem) -> None:
    type_: Type = p.choice((f32, f64, c64, c128))
    spec = multishift.chain(type_, planning.backend().capability)
    order, rows = p.choice(ORDERS[2:]), p.choice(ORDERS)
    hops = p.choice((0, multishift.num_hops(rows, p.choice((1, spec.bulges)), spec)))
    multishift.plan_step(order, min(hops, 40), spec, has_vectors=p.chance(50))
    lapack.rows_of_groups(type_, p.choice((1, 3, 20, 64, 200, 2000)), planning.backend().capability)


def _draws(p: Problem) -> None:
    device, size = planning.backend().capability, p.choice((0, *SIZES))
    alignment, is_shifted = p.choice((*ALIGNMENTS, 4)), p.chance(50)
    fill.plan(p.choice(tuple(lcg.GENERATORS)), "uniform_f32", size, alignment, device, is_shifted=is_shifted)
    generator, skip = p.choice(tuple(philox.VARIANTS)), p.choice((0, 0, 1, 2, 3))
    philox.plan(generator, "uniform_f32", size, alignment, device, skip=skip, is_shifted=is_shifted)
    for each in twister_plan.streams_of(p.choice(tuple(FORMATS)), size).rounds():
        assert each[1] > 0, each


def _permutation(p: Problem) -> None:
    size, leaves_key = max(2, p.choice(SIZES[:-1])), p.chance(50)
    leaves_key = leaves_key and size > 624
    count, device = shuffle.num_words(size), planning.backend().capability
    shuffle.plan(size, count, device, is_shifted=p.chance(50) and not leaves_key, leaves_key=leaves_key)


def _claims(p: Problem) -> None:
    count, extent = p.choice(HUGE), p.choice((*HUGE, 1 << 40))
    claims.room_for(count, extent)
    regions.has_regions(count, extent)


def _long_sort(p: Problem) -> None:
    length, device = p.choice(HUGE), planning.backend().capability
    sort.sort_pairs(length, p.choice((u32, u64)), p.choice((None, u32, u64)), device)
    way = p.choice((sort.sort, sort.argsort))
    way(1, length, type_of(p, ("i4", "f8", "u1", "f2")), device)


def _transform_in_parts(p: Problem) -> None:
    type_ = p.choice((c64, c128))
    shape = p.choice(((300, 1 << 17), (1 << 17, 300), (7, 50, 100_003), (64, 64), (0, 5), (3000, 3000), (5, 1 << 22)))
    steps = [1]
    for n in shape[:0:-1]:
        steps.insert(0, steps[0] * n)
    ends = [axes.Array(Argument(name), type_, shape, tuple(steps), ALIGNMENT) for name in ("in0", "out0")]
    wanted = p.choice(((0,), (1,), (0, 1)))
    problem = axes.Problem(axes.COMPLEX, wanted, shape[wanted[-1]], p.chance(50))
    axes.plan_axes(*ends, type_, problem, planning.backend().capability, p.choice((1, 2, 5)))


PLANS = (
    _product_of_rows,
    _product_of_long_rows,
    _merged_product,
    _sparse_product,
    _relaxation,
    _triangular_system,
    _eigenvalue_iteration,
    _draws,
    _permutation,
    _claims,
    _long_sort,
    _transform_in_parts,
)


def data_sized_plans(p: Problem) -> Any:
    """Ask one of the planners."""
    function = p.choice(PLANS)
    p.text = function.__name__
    function(p)
