"""Random problems for the planners of chains, reductions, scans and sorts as programs of kernels ask for them."""

from __future__ import annotations

from typing import Any

import oxinp as np
from oxinp._kernels.elementwise import plan as elementwise
from oxinp._kernels.gemm.operand import contiguous
from oxinp._kernels.problem import Operand, Output, ReduceOp, ScalarOperand
from oxinp._kernels.reduce import plan as reduce
from oxinp._kernels.reduce.operators import add, extremum_at, scannable
from oxinp._kernels.scan import plan as scan
from oxinp._kernels.sort import count, partition, search, select
from oxinp._kernels.sort import plan as sort
from oxinp._ptx.types import f32, f64, i64, u32, u64
from tests.fuzz import planning
from tests.fuzz.operand import ALIGNMENTS, chain_of, operator_of, strides_of, type_of
from tests.fuzz.problem import HUGE_SIZE, Problem


def strided_passes(p: Problem) -> Any:
    """Chains, reductions and scans over operands of any strides, some without elements."""
    device, shape = planning.backend().capability, p.shape(most=p.choice((1 << 20, 1 << 28, HUGE_SIZE)))
    if p.chance(12):
        shape = tuple(0 if p.chance(40) else n for n in shape)
    is_narrow = p.chance(25)
    if is_narrow:  # or few long rows
        shape = (p.choice((1 << 20, 3 << 18, 1 << 24, 10_000)), p.choice((2, 3, 5, 8, 64, 128, 300)))
        shape = shape if p.chance(80) else shape[::-1]
    type_ = type_of(p, ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"))
    axes = tuple(sorted(p.draw.sample(range(len(shape)), p.choice((1, 1, p.integer(1, len(shape)))))))
    moves = _moves
    if p.chance(10):  # columns of several loops
        shape, axes, moves = p.choice(((50, 60, 300), (50, 3000, 60), (7, 40, 60, 300))), (0, 1), _of_larger
    if is_narrow and p.chance(60):
        axes, moves = (0,), _lying_or_still
    inputs: list[Operand | ScalarOperand] = [
        ScalarOperand(type_) if p.chance(10) else Operand(type_, moves(p, shape), p.choice(ALIGNMENTS))
        for _ in range(p.choice((1, 1, 2, 4, 12)))
    ]
    total, instrs = chain_of(p, type_, len(inputs))
    kept = tuple(n for axis, n in enumerate(shape) if axis not in axes)
    output, reduced = (Operand(type_, _targets(p, extents)) for extents in (shape, kept))
    op = operator_of(p, type_)
    way = p.choice(("chain", "reduction", "extremum", "scan", "choose"))
    p.text = f"{way} {shape} {axes} {op.name} {inputs} {instrs}"
    if way == "chain":
        elementwise.plan(shape, inputs, instrs, [Output(total, output)], device)
    elif way == "reduction":
        reduce.plan(shape, axes, inputs, instrs, total, op, reduced, device, has_flags=p.chance(50))
    elif way == "extremum":
        place, found = reduced.replace(type=i64), extremum_at(type_, 0, is_max=p.chance(50))
        reduce.plan(shape, axes, inputs, instrs, total, found, place, device, has_flags=p.chance(50))
    elif way == "scan":
        if type_.is_integer and p.chance(40):
            op, output = ReduceOp("sum", i64, 0, add), output.replace(type=i64)
        scan.plan(shape, axes[0], inputs, instrs, total, scannable(op), output, device)
    elif 0 not in shape:
        elementwise.choose(shape, inputs, instrs, [Output(total, output)])
        reduce.choose(shape, axes, inputs, instrs, total, op, reduced, device, has_flags=p.chance(50))
        scan.choose(shape, axes[0], inputs, instrs, total, scannable(op), output, device)


def repeated_rows(p: Problem) -> Any:
    """Chains that give few long rows, all of which are the same."""
    type_, shape, count = type_of(p, ("u1", "i4", "f4", "c16")), (p.choice((2, 5, 16, 17)), 1 << 21), p.choice((1, 2))
    inputs = [Operand(type_, p.choice(((0, 1), (0, 0), (0, 2))), p.choice(ALIGNMENTS)) for _ in range(count)]
    total, instrs = chain_of(p, type_, count)
    output = Operand(type_, (shape[1] + p.choice((0, 16)), 1))
    p.text = f"{type_} {shape} {inputs} {instrs}"
    elementwise.plan(shape, inputs, instrs, [Output(total, output)], planning.backend().capability)


def _moves(p: Problem, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return strides of an input: of any order, reversed, broadcast."""
    strides = contiguous(shape) if p.chance(50) else strides_of(p, shape)
    if p.chance(20):  # one row, one element of each row, or one element for all
        kept = p.integer(0, len(shape))
        return (0,) * kept + strides[kept:] if p.chance(50) else strides[:kept] + (0,) * (len(shape) - kept)
    return tuple(p.choice((step, step, step, step, step, -step, 0)) for step in strides)


def _of_larger(p: Problem, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return strides of an input that is part of a larger array."""
    return contiguous([n + p.choice((0, 1, 4)) for n in shape])


def _lying_or_still(p: Problem, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return strides of an input in C order, or of one element for all."""
    return contiguous(shape) if p.chance(70) else (0,) * len(shape)


def _targets(p: Problem, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return strides of an output: of any order, padded or reversed."""
    strides = strides_of(p, shape) if p.chance(70) else tuple(2 * step for step in contiguous(shape))
    return tuple(-step if p.chance(8) else step for step in strides)


def sorted_rows(p: Problem) -> Any:
    """Sorts of rows and searches, also as someone would have them who times them."""
    device, type_ = planning.backend().capability, type_of(p)
    num_rows, length = p.shape(2, most=p.choice((1 << 20, 1 << 27, HUGE_SIZE)))
    if p.chance(30):
        num_rows, length = p.choice((1, 1 << 18)), p.shape(1, most=HUGE_SIZE)[0]
    elif p.chance(50):  # what a block sorts
        num_rows = p.choice((1, 5, 3000))
        length = p.choice((65, 100, 256, 600, 1024, 1500, 2048, 2049, 3000, 4096, 4097, 6000, 8192, 10_000))
    is_descending, is_right = p.chance(30), p.chance(50)
    p.text = f"{type_} {num_rows} {length} {is_descending}"
    if not num_rows * length:
        return
    way = p.choice(("sort", "sort", "argsort", "pairs", "search", "searches", "count", "specs", "partition"))
    key = p.choice((u32, u64))
    if way == "sort":
        tile = p.choice((None, None, sort.TILES[type_.nbytes, 0]))
        sort.sort(num_rows, length, type_, device, tile, is_descending=is_descending)
    elif way == "argsort":
        sort.argsort(num_rows, length, type_, device, is_descending=is_descending)
    elif way == "pairs":
        sort.sort_pairs(length, key, p.choice((None, u32, u64)), device)
    elif way == "search":
        search.search(length, num_rows, type_, device, is_right=is_right)
    elif way == "searches":  # of so many values that a tree is made
        sizes = p.choice((200, 5000, 100_003, 1 << 20, 1 << 24)), p.choice((1 << 20, 1 << 22, 1 << 24))
        search.search(*sizes, type_, device, is_right=is_right)
    elif way == "partition":
        if num_rows <= select.MAX_ROWS and length <= partition.MAX_LENGTH and not type_.is_complex:
            part = p.choice((partition.partition, partition.argpartition))
            part(num_rows, length, p.integer(0, length - 1), type_, device)
    elif way == "count":
        count.count(length, num_rows, p.choice((f32, f64)), p.choice((f32, f64)), device, is_uniform=p.chance(50))
    else:
        sort.specs(length, type_, p.choice((None, i64)), device, is_descending=is_descending)


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
