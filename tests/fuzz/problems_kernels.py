"""Random problems for planners as programs of kernels ask for them: operands given by strides, of every layout."""

from __future__ import annotations

import math
from typing import Any

import numpy  # noqa: ICN001 - np is ours

import oxinp as np
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._kernels.elementwise import plan as elementwise
from oxinp._kernels.fft import plan as fft
from oxinp._kernels.fft.batch import Loop, Side
from oxinp._kernels.gemm import select
from oxinp._kernels.gemm.catalog import SUMS, mma_specs
from oxinp._kernels.gemm.epilogue import bind, scaled, subtracted
from oxinp._kernels.gemm.operand import Matrices, contiguous
from oxinp._kernels.gemm.sm90_mma.spec import MmaSpec
from oxinp._kernels.gemm.sm90_wgmma.sharing import SHARINGS
from oxinp._kernels.gemm.sm90_wgmma.spec import WgmmaSpec
from oxinp._kernels.gemm.sm90_wgmma.store import (
    BulkColumns16,
    BulkColumns32,
    BulkRows,
    DirectColumns,
    DirectRows,
    RolledRows,
)
from oxinp._kernels.gemm.variant import Variant
from oxinp._kernels.index import gather, ordered, scatter
from oxinp._kernels.lapack import pivoted, spectrum, symmetric
from oxinp._kernels.lapack import plan as lapack
from oxinp._kernels.plan import ALIGNMENT, Argument
from oxinp._kernels.problem import Instr, Operand, Output, ReduceOp, ScalarOperand
from oxinp._kernels.reduce import plan as reduce
from oxinp._kernels.reduce.operators import (
    add,
    compensated_sum,
    extremum_at,
    extremum_of_bytes,
    product,
    scannable,
    starting,
)
from oxinp._kernels.scan import plan as scan
from oxinp._kernels.sort import count, search
from oxinp._kernels.sort import plan as sort
from oxinp._ptx.types import Type, bf16, c64, c128, f16, f32, f64, i8, i32, i64, u8, u32, u64
from tests.fuzz import planning
from tests.fuzz.problem import DTYPES, HUGE_SIZE, Problem

ALIGNMENTS = (ALIGNMENT, ALIGNMENT, 64, 16, 8)
EXTENTS = (1, 2, 3, 5, 16, 33, 100, 1000, 4096)
LENGTHS = (
    1,
    2,
    3,
    4,
    7,
    8,
    15,
    16,
    17,
    30,
    37,
    45,
    64,
    74,
    97,
    105,
    111,
    128,
    243,
    256,
    385,
    512,
    600,
    1000,
    1009,
    1024,
)
LENGTHS += (
    1155,
    1922,
    2048,
    2187,
    2209,
    3072,
    4096,
    5929,
    6000,
    6561,
    8191,
    8192,
    10_201,
    14_641,
    16_384,
    30_030,
    32_768,
)
LENGTHS += (50_653, 65_536, 65_537, 100_003, 1 << 17, 7**6, 3**11, 1 << 18, 6_000_000, 2 * 37**3, 97 * 1024, 1 << 20)
LENGTHS += (1_000_003, 7**7, 3**14, 1 << 22, 1 << 24)
ROTATED = (6, 10, 30, 74, 486, 4374, 2 * 7**5, 2 * 3**9, 2 * 3**12, 2 * 37**3, 2 * 5**8, 20_000, 6_000_000, 2 * 11**5)
ORDERS = (
    1,
    2,
    3,
    4,
    5,
    8,
    16,
    17,
    31,
    32,
    33,
    48,
    64,
    65,
    100,
    127,
    128,
    129,
    200,
    256,
    300,
    512,
    513,
    700,
    1024,
    1500,
)
ORDERS += (2048, 2500, 4096, 4500, 6000, 8192, 10_000)


def _type(p: Problem, dtypes: tuple[str, ...] = DTYPES) -> Type:
    return DEVICE_TYPES[numpy.dtype(p.dtype(dtypes))]


def _perform(plan: Any, *sizes: int, num_outputs: int = 1) -> None:
    """Judge a plan of arrays of so many bytes, the outputs first."""
    if plan is not None:
        planning.backend().perform(plan, list(sizes[:num_outputs]), list(sizes[num_outputs:]), u8)


def _strides(p: Problem, extents: tuple[int, ...]) -> tuple[int, ...]:
    """Return strides of any order of axes, rows perhaps padded."""
    order = p.draw.sample(range(len(extents)), len(extents)) if p.chance(50) else range(len(extents))
    strides, step = [0] * len(extents), 1
    for place in reversed(list(order)):
        strides[place] = step
        step *= extents[place] + (p.choice((1, 2, 16)) if p.chance(10) else 0)
    return tuple(strides)


def _reach(extents: tuple[int, ...], strides: tuple[int, ...]) -> int:
    return 1 + sum((n - 1) * abs(step) for n, step in zip(extents, strides, strict=True))


def fourier_transforms(p: Problem) -> Any:
    """Transforms along one axis: complex ones, those from and to real numbers, cut, continued, rotated."""
    type_, length, device = p.choice((c64, c128)), p.choice(LENGTHS), planning.backend().capability
    kind, is_rotated = p.choice(("complex", "complex", "split", "merge")), p.chance(30)
    if is_rotated and kind == "complex" and p.chance(50):
        length = p.choice(ROTATED)
    real, half = type_.parts[0], length // 2 + 1
    most = p.choice((1 << 26, 1 << 26, HUGE_SIZE)) // length
    loops = tuple(p.choice(EXTENTS) for _ in range(p.integer(0, 3)))
    while math.prod(loops) > most:
        loops = loops[1:]
    if p.chance(2):
        loops = (*loops, 0)
    num_valid = num_stored = length
    source_type = target_type = type_
    if kind == "split":
        source_type, num_stored = p.choice((real, real, real, f16, i32)), half
    elif kind == "merge":
        target_type, num_valid, num_stored = real, half, p.choice((0, length))
    else:
        source_type, num_stored = p.choice((type_, type_, real)), 0 if is_rotated else p.choice((0, 0, half))
    if p.chance(25) and not is_rotated:
        num_valid = max(1, p.choice((num_valid // 2, num_valid - 1)))
    rotated = [False, False]
    if kind == "complex" and is_rotated:
        ends = p.choice(((True, False), (False, True), (True, True)))
        rotated = list(ends) if fft.rotates(length, type_, device, at_both_ends=all(ends)) else rotated
    held = (num_valid, num_stored or length)
    source, target = (_strides(p, (*loops, n)) for n in held)
    p.text = f"{kind} {type_} {length} {loops} {source} {target} {held} {rotated} {source_type} {target_type}"
    sides = [
        Side(Argument(name), step, p.choice(ALIGNMENTS)) for name, step in (("in0", source[-1]), ("out0", target[-1]))
    ]
    transform = fft.Transform(
        length,
        type_,
        source_type,
        target_type,
        *sides,
        tuple(map(Loop, loops, source, target)),
        kind != "merge" and p.chance(70),
        p.choice((1.0, 0.5)),
        num_valid,
        num_stored,
        kind == "merge",
        is_rotated=rotated[0],
        is_source_rotated=rotated[1],
    )
    reaches = [_reach((*loops, n), steps) for n, steps in zip(held, (source, target), strict=True)]
    _perform(fft.plan(transform, device), reaches[1] * target_type.nbytes, reaches[0] * source_type.nbytes)


def _matrices(p: Problem, type_: Type, shape: tuple[int, ...]) -> Matrices:
    """Return matrices of any layout in which one axis is contiguous."""
    *batch, rows, columns = shape
    is_transposed = p.chance(35)
    run, lines = (rows, columns) if is_transposed else (columns, rows)
    pitch = run + (p.choice((1, 4, 8, 16)) if p.chance(25) else 0)
    own = (1, pitch) if is_transposed else (pitch, 1)
    kept = tuple(1 if p.chance(20) else n for n in batch)
    order = _strides(p, kept)
    moves = tuple(step * lines * pitch if n > 1 else 0 for n, step in zip(kept, order, strict=True))
    return Matrices(type_, (*moves, *own), p.choice((ALIGNMENT, ALIGNMENT, ALIGNMENT, 16, type_.nbytes)))


# What is multiplied by each family of kernels: the dtypes, batches and sides that are its own.
ALL_SIDES = ((1, 5, 33, 64, 100), (64, 128, 256, 512, 1000), (1024, 2048, 3000, 4096, 8192))
BATCHES = ((), (), (), (1,), (3,), (200,), (20_000,), (2, 3), (4, 5, 2))
WAYS = {
    "steps": (("f4", "f8", "c8", "c16", "f2", "i1", "u2", "i4", "u8"), BATCHES, ALL_SIDES),
    "plan": (("f4", "f8", "c8", "c16", "f2", "i1", "i4", "i8"), BATCHES, ALL_SIDES),
    "ozaki": (("f8", "c16", "c16", "f4"), ((), (), (), (3,)), ALL_SIDES[1:]),
    "fp16x2": (("f4", "c8", "c8", "f8"), ((), (), (), (3,)), ALL_SIDES[1:]),
    "wgmma": (("f2", "i1", "u1", "u2", "i2", "u4", "i8", "f4"), BATCHES, ALL_SIDES),
}


def strided_products(p: Problem) -> Any:
    """Products by every family of kernels that takes them, or none, of matrices of any layout."""
    device, way = planning.backend().capability, p.choice(("steps", "steps", *WAYS))
    dtypes, batches, ranges = WAYS[way]
    type_, batch, sides = _type(p, dtypes), p.choice(batches), p.choice(ranges)
    second = type_ if p.chance(90) else _type(p)
    m, n, k = (p.choice(sides) for _ in range(3))
    if p.chance(20):
        k = p.choice((1, 64, 10_000, 100_000, 1 << 20))
    shape = (*batch, m, n)
    a, b = _matrices(p, type_, (*batch, m, k)), _matrices(p, second, (*batch, k, n))
    setting, nbytes = p.choice(("auto", "native", "tf32")), p.choice((4 << 30, 1 << 28, 1 << 24, 0))
    strides = p.choice((contiguous(shape), (*[0] * len(batch), 0, 1), (*[0] * len(batch), 1, 0), (0,) * len(shape)))
    acc = SUMS.get(type_, type_)
    epilogue = p.choice((None, None, scaled(acc), scaled(acc, strides), subtracted(acc, strides)))
    p.text = f"{way} {shape} {k} {a} {b} {setting} {nbytes} {epilogue and epilogue.inputs}"
    if way == "steps":
        select.plan_steps(shape, k, a, b, type_, device, setting, nbytes, epilogue)
    elif way == "plan" and second is type_:
        variant = Variant(epilogue=epilogue, has_plain_sums=p.chance(50))
        select.plan(shape, k, a, b, acc, p.choice((type_, acc)), device, variant)
    elif way == "ozaki":
        select.plan_ozaki(shape, k, a, b, device, nbytes)
    elif way == "fp16x2":
        select.plan_fp16x2(shape, k, a, b, device)
    elif way == "wgmma":
        select.plan_wgmma(shape, k, a, b, type_, device, epilogue)


def strided_factorisations(p: Problem) -> Any:
    """Factorisations of matrices of any layout."""
    device, type_ = planning.backend().capability, _type(p, ("f4", "f8", "c8", "c16"))
    largest = p.choice((5, 33, 130, 700, 3000, 10_000))
    m, n = (p.choice([each for each in ORDERS if each <= largest]) for _ in range(2))
    batch = p.choice(((), (), (1,), (3,), (2, 3), (100,)) if largest <= 700 else ((), (), (3,)))
    has_vectors, mode = p.chance(50), p.choice(("reduced", "complete", "r", "raw"))

    def operand(*shape: int) -> Operand:
        matrices = _matrices(p, type_, (*batch, *shape))
        return Operand(type_, matrices.strides, matrices.alignment)

    square, tall = (*batch, n, n), (*batch, m, n)
    plans = {
        "cholesky": lambda: lapack.plan_cholesky(square, operand(n, n), device),
        "solve": lambda: lapack.plan_solve((*batch, n, m), operand(n, n), operand(n, m), device),
        "invert": lambda: lapack.plan_invert(square, operand(n, n), device),
        "lu": lambda: lapack.plan_lu(tall, operand(m, n), device),
        "slogdet": lambda: lapack.plan_slogdet(square, operand(n, n), device),
        "qr": lambda: lapack.plan_qr(tall, operand(m, n), device, mode),
    }
    if n <= 32 and m <= 32:
        plans["eigh"] = lambda: spectrum.plan_eigh(square, operand(n, n), device, has_vectors=has_vectors)
        plans["svd"] = lambda: spectrum.plan_svd(tall, operand(m, n), device, has_vectors=has_vectors)
    if symmetric.is_possible(type_, math.prod(batch), n, device):
        plans["symmetric"] = lambda: symmetric.plan(square, operand(n, n), device, has_vectors=has_vectors)
    if not batch and pivoted.is_possible(type_, (m, n), device):
        plans["pivoted"] = lambda: pivoted.plan((m, n), operand(m, n), device, mode)
    name = p.choice(tuple(plans))
    p.text = f"{name} {type_} {batch} {m} {n} {mode} {has_vectors}"
    plans[name]()


def indexed_elements(p: Problem) -> Any:
    """Reads and writes by index, their loops of any strides."""
    device, type_, index_type = planning.backend().capability, _type(p), _type(p, ("i8", "i8", "i4"))
    count = p.choice((1, 5, 33, 1000, 65_536, 1 << 20, 3_000_001, 1 << 24, 1 << 28, 1 << 33))
    extent = p.choice((1, 7, 256, 5000, 100_003, 1 << 20, 50_000_000, 1 << 28, 1 << 33))
    outer, inner = (
        [(n, *steps) for n, *steps in _loops(p)] if p.chance(40) and count < 1 << 20 else [] for _ in range(2)
    )
    index = (count, p.choice((1, 1, 1, 3, -1, 100)), p.choice((1, 1, 1, 0, 2)))
    is_scalar, is_checked = p.chance(30) and not type_.is_complex, p.chance(70)  # of complex numbers no bits are given
    operators = [name for name, types in scatter.ATOMIC_TYPES.items() if type_ in types]
    operator = p.choice(("", "", *operators, *(("add",) * 3 if "add" in operators else ())))
    alignments = p.choice(((ALIGNMENT, ALIGNMENT), (16, 8)))
    p.text = f"{type_} {index_type} {outer} {index} {inner} {extent} {is_scalar} {is_checked} {operator}"
    way = p.choice(("scatter", "scatter", "take", "take_along", "update"))
    if way == "scatter":
        may_repeat = p.chance(70)
        scatter.scatter(
            outer, index, inner, extent, type_, index_type, alignments, device,
            is_scalar=is_scalar, is_checked=is_checked, may_repeat=may_repeat, operator=operator,
        )  # fmt: skip
    elif way == "take":
        loops = [[loop[:2] for loop in each] for each in (outer, inner)]
        gather.take(loops[0], index[:2], loops[1], extent, type_, index_type, alignments[0], is_checked=is_checked)
    elif way == "take_along":
        gather.take_along(outer, index, inner, extent, type_, index_type)
    else:
        ordered.update(
            count, extent, index[1], type_, index_type, _joined, device, is_scalar=is_scalar, is_sum=p.chance(50)
        )


def _joined(k: Any, x: Any, y: Any) -> Any:
    return k.max(x, y) if x.type.kind in "iu" else x + y


def _loops(p: Problem) -> list[tuple[int, int, int]]:
    """Return loops, some of which are one."""
    extents = tuple(p.choice((1, 2, 3, 16, 100)) for _ in range(p.integer(1, 3)))
    steps = _strides(p, extents)
    second = steps if p.chance(60) else _strides(p, extents) if p.chance(60) else (0,) * len(extents)
    return list(zip(extents, steps, second, strict=True))


def strided_passes(p: Problem) -> Any:
    """Chains, reductions and scans over operands of any strides, some without elements."""
    device, shape = planning.backend().capability, p.shape(most=p.choice((1 << 20, 1 << 28, HUGE_SIZE)))
    if p.chance(12):
        shape = tuple(0 if p.chance(40) else n for n in shape)
    type_ = _type(p, ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"))
    axes = tuple(sorted(p.draw.sample(range(len(shape)), p.integer(1, len(shape)))))
    inputs: list[Operand | ScalarOperand] = [
        ScalarOperand(type_) if p.chance(10) else Operand(type_, _moves(p, shape), p.choice(ALIGNMENTS))
        for _ in range(p.choice((1, 1, 2, 4, 12)))
    ]
    total, instrs = _chain(p, type_, len(inputs))
    kept = tuple(n for axis, n in enumerate(shape) if axis not in axes)
    output, reduced = Operand(type_, _moves(p, shape)), Operand(type_, _strides(p, kept))
    op = _operator(p, type_)
    way = p.choice(("chain", "reduction", "extremum", "scan", "choose"))
    p.text = f"{way} {shape} {axes} {op.name} {inputs} {instrs}"
    if way == "chain":
        elementwise.plan(shape, inputs, instrs, [Output(total, output)], device)
    elif way == "reduction":
        reduce.plan(shape, axes, inputs, instrs, total, op, reduced, device)
    elif way == "extremum":
        place, found = reduced.replace(type=i64), extremum_at(type_, 0, is_max=p.chance(50))
        reduce.plan(shape, axes, inputs, instrs, total, found, place, device)
    elif way == "scan":
        scan.plan(shape, axes[0], inputs, instrs, total, scannable(op), output, device)
    elif 0 not in shape:
        elementwise.choose(shape, inputs, instrs, [Output(total, output)])
        reduce.choose(shape, axes, inputs, instrs, total, op, reduced, device)
        scan.choose(shape, axes[0], inputs, instrs, total, scannable(op), output, device)


def _chain(p: Problem, type_: Type, count: int) -> tuple[int, list[Instr]]:
    """Return instructions that join so many inputs, and the number of the value that they make."""
    total, instrs = 0, []
    for number in range(1, count):
        instrs.append(Instr(_joined, type_, (total, number)))
        total = count + number - 1
    if p.chance(15):
        instrs.append(Instr(_numbered, type_, (total,)))
        total = count + len(instrs) - 1
    return total, instrs


def _multiplied(k: Any, x: Any, y: Any) -> Any:
    del k
    return x * y


def _numbered(k: Any, index: Any, x: Any) -> Any:
    return _joined(k, k.cast(index, x.type), x)


_numbered.wants_index = True  # type: ignore[attr-defined]


def _operator(p: Problem, type_: Type) -> ReduceOp:
    """Return an operator that combines elements of a type."""
    if type_.nbytes == 1 and p.chance(50):
        return extremum_of_bytes(type_, 0 if type_.kind == "u" else -128, is_max=p.chance(50))
    if type_.is_complex and p.chance(40):
        return ReduceOp("prod", type_, 1, _multiplied)
    if type_ in (f32, f64, c64, c128):
        if p.chance(40) and not type_.is_complex:
            return product(type_)
        op = compensated_sum(type_)
        return starting(op) if p.chance(50) else op
    return ReduceOp("sum", type_, 0, add)


def lines(p: Problem) -> Any:
    """Chains and reductions of one dimension, of one size after the other, as far as it takes arithmetic alone."""
    device, type_ = planning.backend().capability, _type(p, ("i1", "u2", "i4", "u8", "f4", "f8"))
    count = p.choice((1, 1, 2, 3))
    total, instrs = _chain(p, type_, count)
    chain = elementwise.Elementwise([(type_, True)] * count, instrs, [(total, type_)])
    op = p.choice((_operator(p, type_), extremum_at(type_, 0, is_max=True)))
    result = i64 if op.wants_index else type_
    reduction = reduce.Reduction([(type_, True)] * count, instrs, total, op, result)
    for _ in range(24):
        size = p.choice((0, 1, 2, 100, 100, 1000, 6000, 1 << 20, 50_000_000, 1 << 31, 1 << 33))
        steps = tuple(p.choice((1, 1, 1, 0, 2, -1, 1000, -3)) for _ in range(1 + count))
        alignments = tuple(p.choice((ALIGNMENT, ALIGNMENT, 8)) for _ in steps)
        p.text = f"{type_} {op.name} {size} {steps} {alignments}"
        operands = [Operand(type_, (step,), each) for step, each in zip(steps, alignments, strict=True)]
        if p.chance(50):
            chain.plan_line(size, (steps[0] or 1, *steps[1:]), alignments, device)
            chain.plan_known((size,), operands, device)
            continue
        given, output = operands[1:], Operand(result, ())
        reduction.line_again(size, steps[1:], alignments[1:], device.num_sms)
        reduction.plan_again((size,), (0,), given, output, device)
        reduction.plan((size,), (0,), given, output, device)


def _moves(p: Problem, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return strides of an input: of any order, reversed, broadcast."""
    strides = contiguous(shape) if p.chance(50) else _strides(p, shape)
    return tuple(p.choice((step, step, step, step, step, -step, 0)) for step in strides)


def sorted_rows(p: Problem) -> Any:
    """Sorts of rows and searches, also as someone would have them who times them."""
    device, type_ = planning.backend().capability, _type(p)
    num_rows, length = p.shape(2, most=p.choice((1 << 20, 1 << 27, HUGE_SIZE)))
    is_descending, is_right = p.chance(30), p.chance(50)
    p.text = f"{type_} {num_rows} {length} {is_descending}"
    if not num_rows * length:
        return
    way = p.choice(("sort", "argsort", "pairs", "search", "count", "specs"))
    key = p.choice((u32, u64))
    if way == "sort":
        tile = p.choice((None, None, sort.TILES[type_.nbytes, 0]))
        sort.sort(num_rows, length, type_, device, tile, is_descending=is_descending)
    elif way == "argsort":
        sort.argsort(num_rows, length, type_, device, is_descending=is_descending)
    elif way == "pairs":
        sort.sort_pairs(length, key, p.choice((None, u32, u64)), device)
    elif way == "search":
        spec = p.choice((None, search.spec_of(length, num_rows, type_, is_right=is_right)))
        search.search(length, num_rows, type_, device, is_right=is_right, spec=spec)
    elif way == "count":
        count.count(length, num_rows, p.choice((f32, f64)), p.choice((f32, f64)), device, is_uniform=p.chance(50))
    else:
        sort.specs(length, type_, p.choice((None, i64)), device, is_descending=is_descending)


MMA_FIELDS = {
    "type": (f64, c128, f32),
    "a_major": ("k", "mn"),
    "b_major": ("k", "mn"),
    "tile_m": (24, 32, 64, 96, 128, 192, 256),
    "tile_n": (24, 32, 64, 96, 128, 192, 256),
    "warp_m": (12, 16, 24, 32, 64, 128),
    "warp_n": (12, 16, 24, 32, 64, 128),
    "num_stages": (2, 3, 4, 6, 8),
    "cluster": (1, 2, 4),
    "blocks_per_sm": (0, 1, 2),
    "num_k_groups": (1, 2, 3),
    "is_bf16x3": (False, True),
    "is_wgmma": (False, True),
    "is_complex": (False, True),
    "promotion": (0, 256, 5),
    "unroll_k": (0, 1, 2, 4),
}
WGMMA_FIELDS = {
    "type": (f16, bf16, f32, i8, f64),
    "out": (f16, bf16, f32, i32, c64),
    "a_major": ("k", "mn"),
    "b_major": ("k", "mn"),
    "tile_n": (8, 40, 64, 96, 128, 192, 256),
    "num_stages": (1, 2, 4),
    "sharing": tuple(SHARINGS.values()),
    "store": (BulkRows, RolledRows, BulkColumns16, BulkColumns32, DirectRows, DirectColumns),
    "epilogue": (None, bind(scaled(f16), ())[0]),
    "is_promoted": (False, True),
    "is_serial_split_k": (False, True),
}


def kernel_specs(p: Problem) -> Any:
    """Specs of products as a search may put them together: most of them are refused."""
    made, fields = p.choice(((MmaSpec, MMA_FIELDS), (WgmmaSpec, WGMMA_FIELDS)))
    given: dict[str, Any] = {}
    wgmma = [WgmmaSpec(*types, "k", "k") for types in ((f16, f16), (f16, f32), (f32, f32), (i8, i32))]
    base = p.choice(wgmma if made is WgmmaSpec else list(mma_specs()))
    for name in p.draw.sample(tuple(fields), p.integer(0, 4)):
        given[name] = p.choice(fields[name])
    p.text = f"{made.__name__} {given}"
    base._replace(**given).check()


def slices(p: Problem) -> Any:
    """One statement on slices of any step, again and again: what was planned is planned again by arithmetic."""
    code = p.choice(
        (
            "x[i] * 2 + y[j]",
            "x[i] + 1",
            "x[i].sum()",
            "(x[i] * y[j]).sum()",
            "x[i].max()",
            "x[i].argmax()",
            "x[i].mean()",
            "np.add(x[i], 1, out=z[j])",
            "z.__setitem__(j, x[i])",
            "z[j].fill(1)",
            "np.cumsum(x[i])",
            "np.sqrt(x[i]) - y[j] * x[i]",
            "x[i].astype('f4') + np.broadcast_to(y[:1], n)",
            "(x[i] - np.broadcast_to(y[:1], n)).sum()",
        )
    )
    largest = p.choice((1000, 6000, 100_003, 3_000_001, 1 << 24))
    x, y, z = (p.empty((3 * largest + 3,), p.dtype()) for _ in range(3))
    p.text, compiled = code, compile(code, "<problem>", "eval")
    for _ in range(p.integer(4, 24)):
        n = p.choice((0, 1, 2, 3, 16, 17, 40, 255, 256, 299, 777, largest, largest - 1))
        i, j = (_slice(p, n, 3 * largest + 3) for _ in range(2))
        made = eval(compiled, {"np": np, "x": x, "y": y, "z": z, "i": i, "j": j, "n": n})  # noqa: S307 - our own code
        if made is not None:
            np.evaluate(made) if isinstance(made, np.ndarray) else float(made.real)


def _slice(p: Problem, count: int, size: int) -> slice:
    """Return a slice of so many elements of a vector."""
    step, first = p.choice((1, 1, 1, 2, 3, -1, -1, -2)), p.integer(0, 2)
    if step < 0:
        return slice(size - 1 - first, size - 1 - first + count * step, step)
    return slice(first, first + count * step, step)
