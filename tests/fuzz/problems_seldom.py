"""Problems that lead planners where few random ones do, of random sizes near those that do."""

from __future__ import annotations

import itertools
from typing import Any

import oxinp as np
from oxinp._kernels.gemm import select
from oxinp._kernels.gemm.epilogue import Epilogue, bind, scaled
from oxinp._kernels.gemm.operand import Matrices, contiguous, sources
from oxinp._kernels.gemm.sm90_mma import plan as sm90_mma
from oxinp._kernels.gemm.sm90_wgmma import kernel as wgmma_kernel
from oxinp._kernels.gemm.sm90_wgmma.sharing import ClusterSplitK
from oxinp._kernels.gemm.sm90_wgmma.spec import WgmmaSpec
from oxinp._kernels.index import gather
from oxinp._kernels.plan import ALIGNMENT
from oxinp._kernels.problem import Instr, Operand, Output
from oxinp._kernels.reduce.operators import compensated_sum, product, starting
from oxinp._kernels.reduce.plan import Reduction
from oxinp._kernels.rowwise import plan as rowwise
from oxinp._kernels.rowwise.program import RowReduction
from oxinp._kernels.sparse import catalog as sparse
from oxinp._kernels.sparse.types import ProductTypes
from oxinp._ptx.types import Type, c64, c128, f16, f32, f64, i64
from tests.fuzz import planning
from tests.fuzz.operand import joined, squared
from tests.fuzz.problem import Problem


def _knowing(**fields: Any) -> Any:
    """Return the device with one answer to all choices."""
    return planning.backend().capability.replace(tuned=lambda _: fields)


def _unmeasured() -> Any:
    return planning.backend().capability.replace(tuned=lambda _: None)


def _rows_of(type_: Type, columns: int, pitch: int = 0) -> Matrices:
    return Matrices(type_, (pitch or columns, 1), ALIGNMENT)


def emulation_without_room(p: Problem) -> None:
    """A product that was measured to be faster by the Ozaki scheme, with less workspace than it takes."""
    side, type_ = p.choice((1024, 4096)), p.in_turn((f64, c128))
    x = _rows_of(type_, side)
    found = select.plan_ozaki((side, side), side, x, x, _knowing(is_emulated=True), p.choice((0, 1 << 16)))
    assert found is None


def products_that_are_not_emulated(p: Problem) -> None:
    """Products that the Ozaki scheme refuses, though it was measured to be faster: long, or of halves of elements."""
    type_, depth, alignment = p.in_turn(((f64, 1 << 22, ALIGNMENT), (c128, 1024, f64.nbytes)))
    a, b = (Matrices(type_, (pitch, 1), alignment) for pitch in (depth, 1024))
    assert select.plan_ozaki((1024, 1024), depth, a, b, _knowing(is_emulated=True), 4 << 30) is None


def emulated_products_of_odd_rows(p: Problem) -> None:
    """f64 products by the Ozaki scheme whose rows are not whole pairs."""
    side, n = p.choice((1024, 2048)), p.choice((1001, 1023))
    a, b = _rows_of(f64, side), _rows_of(f64, n)
    select.plan_ozaki((side, n), side, a, b, _knowing(is_emulated=True), 4 << 30)


def legacy_normals(p: Problem) -> Any:
    """So many of the legacy generator's normals that points are found by streams side by side."""
    return np.random.RandomState(3).standard_normal(p.in_turn((1 << 27, 1 << 24, 1 << 22)))


def products_of_single_precision(p: Problem) -> None:
    """f32 and c64 products by mma.sync, in bf16x3 or by multiply-adds: of a transposed B, and small ones."""
    type_, (m, n, k), in_bf16x3 = p.in_turn((
        (f32, (1024, 1024, 512), True), (f32, (32, 32, 32), True), (f32, (16, 16, 8), False),
        (f32, (1024, 1024, 1024), False), (c64, (512, 512, 512), True), (c64, (640, 512, 512), True),
    ))  # fmt: skip
    b = Matrices(f32, (1, k), ALIGNMENT) if k == 512 and type_ is f32 else _rows_of(type_, n)
    seen = sources((m, n), k, _rows_of(type_, k), b)[0]
    sm90_mma.plan(*seen, _unmeasured(), in_bf16x3=in_bf16x3)
    found = sm90_mma.problem(*seen, _unmeasured(), in_bf16x3=in_bf16x3)
    for _ in itertools.islice(found.candidates() if found else (), 40):  # what tuning tries
        pass


def batches_in_bf16x3(p: Problem) -> None:
    """Batches of f32 products in bf16x3 that split-K kernels are expected to take less time for."""
    count, m, n, k = p.choice(((2, 768, 192, 1024), (8, 128, 192, 384), (3, 320, 128, 2048)))
    a, b = (Matrices(f32, contiguous((count, *each)), ALIGNMENT) for each in ((m, k), (k, n)))
    sm90_mma.plan(*sources((count, m, n), k, a, b)[0], _unmeasured(), in_bf16x3=True)


def products_of_growing_sizes(p: Problem) -> None:
    """Products of parts of two matrices, which arithmetic alone finds kernels for: few rows, many, and long ones."""
    dtype, side = p.in_turn(("f4", "f8", "c8", "c16")), 4096
    x, y = p.empty((side, side), dtype), p.empty((side, side), dtype)
    for setting, depth in itertools.product(("auto", "native"), (64, 200, side)):
        np.config.matmul = setting
        for n in (32, 128, 192, 384, 1024, side - 256, side - 128):
            np.evaluate(x[:n, :depth] @ y[:depth, :n])


def long_scans(p: Problem) -> Any:
    """Scans of rows that many blocks share: of sums in any order, of complex ones, of truth values."""
    code, dtype = p.in_turn((("np.cumsum(x)", "f4"), ("np.cumsum(x)", "c8"), ("np.maximum.accumulate(x)", "?")))
    return p.call((code,), x=p.empty((p.choice((1 << 26, 1 << 27)),), dtype))


def batches_whose_epilogue_is_irregular(p: Problem) -> None:
    """Batches in order with an epilogue that reads matrices of another order."""
    shape = 3, 4, 128, p.choice((128, 256))
    a, b = (Matrices(f16, contiguous((*shape[:2], *each)), ALIGNMENT) for each in ((128, 128), (128, shape[3])))
    strides = contiguous(shape)
    epilogue = scaled(f32, (strides[1], 7 * strides[0], *strides[2:]))
    assert select.plan_wgmma(shape, 128, a, b, f16, _unmeasured(), epilogue) is None


def impossible_products(p: Problem) -> None:
    """Specs of complex results with an epilogue, and of clusters that halve K where that is one k-block."""
    epilogue = bind(scaled(f32), ())[0]
    spec = p.in_turn((
        WgmmaSpec(f16, c64, "k", "k", 128, epilogue=epilogue),
        WgmmaSpec(f16, f32, "k", "k", 128, sharing=ClusterSplitK),
    ))  # fmt: skip
    spec.check()
    wgmma_kernel.plan(spec, 256, 256, 64, 132)


def tf32_products_of_odd_rows(p: Problem) -> None:
    """Products in tf32 whose C, or what an epilogue makes of it, does not have rows of whole 16 bytes."""
    m, k = (p.choice((256, 1024)) for _ in range(2))
    n, made = p.in_turn(((1001, None), (1001, f16), (132, f16), (132, f16)))
    pitch = -(-n // 4) * 4
    epilogue = None
    if made is not None:
        epilogue = Epilogue((), (Instr(lambda b, x: b.cast(x, f16), f16, (0,)),), 1)
    select.plan_wgmma((m, n), k, _rows_of(f32, k), _rows_of(f32, n, pitch), f32, _unmeasured(), epilogue)


def long_epilogues_of_wide_results(p: Problem) -> None:
    """Epilogues that are too long to be unrolled, of types whose rows no loop goes over."""
    instrs = [Instr(squared, f32, (i,)) for i in range(p.choice((30, 40)))]
    instrs.append(Instr(lambda b, x: b.cast(x, f64), f64, (len(instrs),)))
    side = p.choice((512, 1024))
    x = _rows_of(f16, side)
    epilogue = Epilogue((), tuple(instrs), len(instrs))
    select.plan_wgmma((side, side), side, x, x, f16, _unmeasured(), epilogue)


def draws_that_are_reduced(p: Problem) -> Any:
    """Sums of draws that nobody stores."""
    generator = np.random.Generator(getattr(np.random, p.choice(("PCG64", "PCG64DXSM")))(3))
    size = p.choice((1 << 20, 3_000_001, 1 << 26))
    return p.call(
        ("g.random(n).sum()", "(g.random(n) ** 2 + g.random(n) ** 2 < 0.7).sum()", "g.random(n, 'f4').max()"),
        g=generator,
        n=size,
    )


def columns_into_another_vector(p: Problem) -> None:
    """Columns that were reduced into a contiguous vector, and are to be into one in steps."""
    length, width, type_ = p.choice((3000, 100_003)), p.choice((101, 301)), p.choice((f32, f64))
    reduction = Reduction([(type_, True)], (), 0, compensated_sum(type_), type_)
    array, device = Operand(type_, (width + 4, 1), ALIGNMENT), _unmeasured()
    reduction.plan((length, width), (0,), [array], Operand(type_, (1,)), device)
    for written in (1, 7):
        reduction.columns_again((length, width), ((width + 4, 1),), (ALIGNMENT,), written, device)


def lines_that_go_back(p: Problem) -> None:
    """Lines of which the first stands still, and the next goes back."""
    size, device = p.choice((1000, 5000, 100_003)), _unmeasured()
    reduction = Reduction([(f32, True)] * 2, (Instr(joined, f32, (0, 1)),), 2, compensated_sum(f32), f32)
    arrays = [Operand(f32, (step,), ALIGNMENT) for step in (0, -1)]
    reduction.plan((size,), (0,), arrays, Operand(f32, ()), device)
    reduction.line_again(size, (0, -1), (ALIGNMENT, ALIGNMENT), device.num_sms)


def rows_far_apart(p: Problem) -> None:
    """Matrices whose rows 32 bits do not reach."""
    type_, axis = p.choice((f32, f64)), p.in_turn((0, 1))
    reduction = Reduction([(type_, True)], (), 0, starting(p.in_turn((product, compensated_sum))(type_)), type_)
    array = Operand(type_, (1 << 24, 1), ALIGNMENT)
    reduction.plan((1000, 100), (axis,), [array], Operand(type_, (1,)), _unmeasured())


def rows_of_two_loops(p: Problem) -> None:
    """Rows that are reduced as they lie, beside others that are part of a larger array."""
    shape, type_, device = (5000, 20, p.choice((50, 64))), f32, _unmeasured()
    dense, part = contiguous(shape), contiguous((*shape[:2], shape[2] + 14))
    reduction = Reduction([(type_, True)], (), 0, compensated_sum(type_), type_)
    array, target = Operand(type_, dense, ALIGNMENT), Operand(type_, (1,))
    walk = rowwise.walk_of(reduction.passes(shape, (1, 2), [array], target, device))
    assert walk is not None
    *_, batch, is_short, join = walk
    items = [RowReduction(0, compensated_sum(type_), type_, batch, is_short, join, None), Instr(joined, type_, (1, 2))]
    operands, results = [array, Operand(type_, part, ALIGNMENT)], [Output(3, Operand(type_, dense))]
    assert rowwise.plan(shape, 2, operands, items, results, walk, device) is None


def indices_of_whole_strips(p: Problem) -> None:
    """Elements along an axis in so many columns that blocks have the same number each, or not quite."""
    columns = p.in_turn((1 << 20, (1 << 20) + 3))
    gather.take_along([], (100, columns, columns), [(columns, 1, 1)], 100, f32, i64)


def reads_by_many_indices(p: Problem) -> None:
    """Elements by so many indices that these are grouped: into few buckets, into many, or into none."""
    count, extent = p.in_turn(((1 << 25, 30_000_000), (1 << 27, 200_000_000), (1 << 28, 1 << 29)))
    gather.take([], (count, 1), [], extent, f32, i64, ALIGNMENT, is_checked=True, may_group=True)


def krylov_steps_with_many_vectors(p: Problem) -> None:
    """Inner products with so many vectors that a block has room for fewer elements."""
    shared = planning.backend().capability.max_shared_nbytes
    spec = sparse.arnoldi_s_step.dots_spec(f64, 4, 4, p.choice((100, 127)), shared)
    assert spec.shared_nbytes <= shared


def rows_in_clusters(p: Problem) -> None:
    """Rows that clusters hold: of so many sums that blocks have no room, and measured to be read in larger batches."""
    shape, type_, count, device, alignment = p.in_turn((
        ((5000, 16_384), c64, 6, _unmeasured(), ALIGNMENT),
        ((5000, 32_768), c64, 6, _unmeasured(), ALIGNMENT),
        ((132, 110_000), f32, 1, _knowing(unroll=16), f32.nbytes),
    ))  # fmt: skip
    array, op = Operand(type_, (shape[1], 1), alignment), compensated_sum(type_)
    reduction = Reduction([(type_, True)], (), 0, op, type_)
    walk = rowwise.walk_of(reduction.passes(shape, (1,), [array], Operand(type_, (1,)), device))
    if walk is None:
        return
    *_, batch, is_short, join = walk
    sums = [RowReduction(0, op, type_, batch, is_short, join, None)] * count
    items = [*sums, Instr(joined, type_, (0, 1))]  # so that rows are held
    results = [Output(1 + i, Operand(type_, (1, 0))) for i in range(count)]
    results.append(Output(1 + count, Operand(type_, (shape[1], 1))))
    rowwise.plan(shape, 1, [array], items, results, walk, device)


def sparse_rows_without_room(p: Problem) -> None:
    """Rows of sparse products that are added in shared memory where a block has it."""
    value = p.choice((f64, c128))
    types = ProductTypes(i64, value, value, value)
    sparse.spgemm_dense.spec_for(p.choice((10_000, 16_384)), types, planning.backend().capability.max_shared_nbytes)


SELDOM = (
    emulation_without_room,
    products_that_are_not_emulated,
    emulated_products_of_odd_rows,
    legacy_normals,
    products_of_single_precision,
    batches_in_bf16x3,
    products_of_growing_sizes,
    long_scans,
    batches_whose_epilogue_is_irregular,
    impossible_products,
    tf32_products_of_odd_rows,
    long_epilogues_of_wide_results,
    draws_that_are_reduced,
    columns_into_another_vector,
    lines_that_go_back,
    rows_far_apart,
    rows_of_two_loops,
    rows_in_clusters,
    indices_of_whole_strips,
    reads_by_many_indices,
    krylov_steps_with_many_vectors,
    sparse_rows_without_room,
)


def seldom(p: Problem) -> Any:
    """Ask for one of the above after the other."""
    function = p.in_turn(SELDOM)
    p.text = function.__name__
    return function(p)
