"""Random problems for planners of sizes and alignments that only data, or programs of kernels, lead to.

Sizes of sparse products, levels of triangular systems and the windows of eigenvalue iterations are read back from
the device, which here has computed nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._kernels.convolve import direct
from oxinp._kernels.fft import axes
from oxinp._kernels.gemm.operand import Source
from oxinp._kernels.gemm.sm90_mma import plan as sm90_mma
from oxinp._kernels.index import claims, regions
from oxinp._kernels.lapack import cholesky, hessenberg, multishift, pivoted, small_inverse, tridiagonal
from oxinp._kernels.lapack import plan as lapack
from oxinp._kernels.lapack.lu import Stack
from oxinp._kernels.plan import ALIGNMENT, Argument, inputs, outputs
from oxinp._kernels.random import fill, lcg, philox, segments, shuffle, stored_plan, twister, twister_plan
from oxinp._kernels.random.libm_log1p import FORMS, OWN
from oxinp._kernels.random.twister_formats import FORMATS
from oxinp._kernels.random.variates import VARIATES
from oxinp._kernels.sort import count as counting
from oxinp._kernels.sort import plan as sort
from oxinp._kernels.sparse import catalog as sparse
from oxinp._kernels.sparse.types import ProductTypes
from oxinp._ptx.types import Type, c64, c128, f32, f64, i32, i64, u32, u64
from tests.fuzz import planning
from tests.fuzz.operand import ALIGNMENTS, type_of
from tests.fuzz.problem import Problem

ROWS = (1, 5, 100, 3000, 100_003, 1 << 20, 50_000_000)
COLUMNS = (1, 5, 64, 1000, 5000, 10_000, 16_384, 100_003, 1 << 20, (1 << 31) - 1)
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
    for each in sparse.spgemm_rows.bins_for(types, room):
        spec = sparse.spgemm_rows.spec_of(each, types, columns)
        sparse.spgemm_rows.launch(rows, spec, columns, (*outputs(4), *inputs(7)))


def _product_of_long_rows(p: Problem) -> None:
    types, rows, columns, count = _types(p), p.choice(ROWS), p.choice(COLUMNS), p.choice(COUNTS)
    if sparse.spgemm_dense.takes(rows, count, p.choice(ROWS)):
        sparse.spgemm_dense.spec_for(columns, types, planning.backend().capability.max_shared_nbytes)
    sparse.spgemm_long.expand(rows, p.choice(COUNTS), columns, types, inputs(11))


def _merged_product(p: Problem) -> None:
    types, rows, lengths = _types(p), p.choice(ROWS), p.choice(((1, 1), (2, 30), (5, 5), (300, 9)))
    if sparse.spgemm_merge.takes(*lengths):
        sparse.spgemm_merge.multiply(rows, rows * p.choice((1, 3, 9, 40)), types, lengths[0])


def _sparse_product(p: Problem) -> None:
    types, rows, count = _types(p), p.choice(ROWS), p.choice(COUNTS)
    sparse.merge.plan(rows, count, types, has_starts=p.chance(50))
    sparse.spmm.plan(rows, p.choice((2, 3, 4, 8, 16, 33, 64, 128, 256)), count, types, p.choice(ALIGNMENTS))
    lanes, is_narrow = sparse.spmv.lanes_for(rows, count), p.chance(50)
    sparse.spmv.rows(rows, count, types, lanes, is_narrow=is_narrow)
    sparse.spmv.stream(rows, count, types, is_narrow=is_narrow)
    if sparse.transpose.has_keys(rows, p.choice(COLUMNS), p.choice((0, *COUNTS, 1 << 33)), types.value):
        sparse.transpose.plan(rows, p.choice(COLUMNS), count, types.index, types.value, planning.backend().capability)


def _relaxation(p: Problem) -> None:
    weight = p.choice((None, f32, f64, i32))
    sparse.graph.relax(
        p.choice(ROWS), p.choice(COUNTS), p.choice((i32, i64)), weight, p.choice((f32, f64)), has_own=p.chance(50)
    )


def _triangular_system(p: Problem) -> None:
    spec = sparse.trsv.TrsvSpec(p.choice((i32, i64)), p.choice((f32, f64, c64, c128)), 1, p.chance(50), p.chance(50))
    sparse.trsv.plan(p.choice(ROWS), p.choice(COUNTS), spec, p.choice((1, 30, 5000)))


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


def _stored_draws(p: Problem) -> None:
    name, size = p.choice(tuple(VARIATES)), p.choice((*SIZES, *SIZES, 1 << 44))
    device = planning.backend().capability
    expected = 0 if VARIATES[name].expected else 1 + p.choice((0.02, 0.4, 1.0))
    skip, is_shifted = p.choice((0, 0, 1, 2, 3)), p.chance(50)
    generator = p.choice(tuple(philox.VARIANTS))
    draw = segments.Draw(
        generator, name, size, is_shifted, skip, expected, log1p=p.choice(FORMS.get(VARIATES[name].type, (OWN,)))
    )
    stored_plan.plan(draw, device)
    draw = segments.Draw("MT19937", name, size, expected=expected)
    stored_plan.twisted_plan(draw, device, cut=stored_plan.twisted_cut(draw, device))


def _stacked_products(p: Problem) -> None:
    m, n, depth = (p.choice((8, 20, 30, 32)) for _ in range(3))
    count, major = p.choice((2, 5000, 5000)), p.choice(("mn", "mn", "k"))
    lines, run = (depth, n) if major == "mn" else (n, depth)
    pitches = [-(-each // 4) * 4 for each in (depth, run)]
    a = Source("in0", f32, "k", m, depth, pitches[0], p.choice((0, m * pitches[0])), count, ALIGNMENT)
    b = Source("in1", f32, major, lines, run, pitches[1], p.choice((0, lines * pitches[1])), count, ALIGNMENT)
    sm90_mma.plan(a, b, planning.backend().capability)


def _panels(p: Problem) -> None:
    type_: Type = p.choice((f32, f64, c64, c128))
    device, order = planning.backend().capability, p.choice((2, *ORDERS, 40_000, 200_000))
    hessenberg.is_possible(type_, order, device)
    pivoted.is_possible(type_, (order, p.choice(ORDERS)), device)
    blocks = p.choice((1, 3, 60))
    tridiagonal.spec_of(type_, order, p.choice((order, order // 2 + 1)), -(-order // blocks), device)


def _krylov_steps(p: Problem) -> None:
    count, steps = p.choice((2, 20, 64, 120, 127)), p.choice((1, 2, 3, 4))
    spec = sparse.arnoldi_s_step.dots_spec(
        p.choice((f32, f64)), steps, p.choice((1, steps)), count, planning.backend().capability.max_shared_nbytes
    )
    assert spec.rows >= 1


def _edges(p: Problem) -> None:
    edges = np.linspace(p.choice((0.0, 1e6)), p.choice((1e6 + 1e-3, 2e6)), p.choice((3, 100, 60_000, 1 << 22)) + 2)
    counting.deviation(edges.astype(p.choice(("f4", "f8"))))


def _claims(p: Problem) -> None:
    count, extent = p.choice(HUGE), p.choice((*HUGE, 1 << 40))
    claims.room_for(count, extent)
    regions.has_regions(p.choice((0, count)), extent)


def _keys(p: Problem) -> None:
    start, position = p.choice((0, 500, 700, 5000)), p.integer(1, twister.N)
    window = np.arange(twister.N, dtype=np.uint32) * np.uint32(2654435761)
    twister.key_at(window, start, position, start + p.integer(1, twister.N))


def _short_convolution(p: Problem) -> None:
    type_ = type_of(p, ("f2", "f4", "f8", "c8", "i1", "u1", "i2", "u2", "i4", "i8"))
    direct.convolve(p.choice(SIZES), p.choice((1, 3, 33)), p.choice((0, 5)), p.choice(COUNTS), type_)


def _small_inverses(p: Problem) -> None:
    order, count = p.integer(1, 32), p.choice(COUNTS)
    stack = Stack(p.choice((f32, f64, c64, c128)), count, order, order, order, order * order)
    small_inverse.plan(stack, stack)


def _blocks_of_columns(p: Problem) -> None:
    order, count = p.choice((*ORDERS, 9000, 20_000)), p.choice((1, 1, 1, 8))
    stack = Stack(p.choice((f64, f64, f32, c128)), count, order, order, order, order * order)
    cholesky.outer(stack, planning.backend().capability)


def _long_sort(p: Problem) -> None:
    length, device = p.choice(HUGE), planning.backend().capability
    sort.sort_pairs(length, p.choice((u32, u64)), p.choice((None, u32, u64)), device)
    sort.counted_spec(length, p.choice((None, u32, u64)), p.integer(1, 4), is_iota=p.chance(50))
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
    *[_stored_draws] * 4,
    _stacked_products,
    _panels,
    _krylov_steps,
    _edges,
    _claims,
    _keys,
    _short_convolution,
    _small_inverses,
    _blocks_of_columns,
    _long_sort,
    _transform_in_parts,
)


def data_sized_plans(p: Problem) -> Any:
    """Ask one of the planners."""
    function = p.choice(PLANS)
    p.text = function.__name__
    function(p)
