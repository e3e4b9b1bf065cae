"""Random problems for the planners of transforms and indices as programs of kernels ask for them: of any strides."""

from __future__ import annotations

import math
from typing import Any

from oxinp._kernels.fft import plan as fft
from oxinp._kernels.fft.sides import Loop, Side
from oxinp._kernels.gemm.operand import contiguous
from oxinp._kernels.index import gather, ordered, scatter, sums
from oxinp._kernels.plan import ALIGNMENT, Argument
from oxinp._ptx.types import Type, c64, c128, f16, i32
from tests.fuzz import planning
from tests.fuzz.operand import ALIGNMENTS, joined, perform, reach_of, strides_of, type_of
from tests.fuzz.problem import HUGE_SIZE, Problem

EXTENTS = (1, 2, 3, 5, 16, 33, 100, 1000, 4096)
LENGTHS = (
    1, 2, 3, 4, 7, 8, 15, 16, 17, 30, 37, 45, 64, 74, 97, 105, 111, 128, 243, 256, 385, 512, 600, 1000, 1009,
    1024, 1155, 1922, 2048, 2187, 2209, 3072, 4096, 5929, 6000, 6561, 8191, 8192, 10201, 14641, 16384, 30030,
    32768, 50653, 65536, 65537, 100003, 131072, 117649, 177147, 262144, 6000000, 101306, 99328, 1048576,
    1000003, 823543, 4782969, 4194304, 16777216,
)  # fmt: skip
ROTATED = (6, 10, 30, 74, 486, 4374, 2 * 7**5, 2 * 3**9, 2 * 3**12, 2 * 37**3, 2 * 5**8, 20_000, 6_000_000, 2 * 11**5)


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
    source_type: Type = type_
    target_type: Type = type_
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
    source, target = (strides_of(p, (*loops, n)) for n in held)
    if p.chance(30):  # transforms lie side by side
        source, target = ((*contiguous((n, *loops))[1:], math.prod(loops)) for n in held)
    p.text = f"{kind} {type_} {length} {loops} {source} {target} {held} {rotated} {source_type} {target_type}"
    transform = fft.Transform(
        length,
        type_,
        source_type,
        target_type,
        Side(Argument("in0"), source[-1], p.choice(ALIGNMENTS)),
        Side(Argument("out0"), target[-1], p.choice(ALIGNMENTS)),
        tuple(map(Loop, loops, source, target)),
        kind != "merge" and p.chance(70),
        p.choice((1.0, 0.5)),
        num_valid,
        num_stored,
        kind == "merge",
        is_rotated=rotated[0],
        is_source_rotated=rotated[1],
    )
    reaches = [reach_of((*loops, n), steps) for n, steps in zip(held, (source, target), strict=True)]
    perform(fft.plan(transform, device), reaches[1] * target_type.nbytes, reaches[0] * source_type.nbytes)


def indexed_elements(p: Problem) -> Any:
    """Reads and writes by index, their loops of any strides."""
    device, type_, index_type = planning.backend().capability, type_of(p), type_of(p, ("i8", "i8", "i4"))
    count = p.choice((1, 5, 33, 1000, 65_536, 1 << 20, 3_000_001, 1 << 24, 1 << 28, 1 << 33))
    extent = p.choice((1, 7, 256, 5000, 100_003, 1 << 20, 50_000_000, 1 << 28, 1 << 33))
    outer, inner = (
        [(n, *steps) for n, *steps in _loops(p)] if p.chance(40) and count < 1 << 20 else [] for _ in range(2)
    )
    index = (count, p.choice((1, 1, 1, 3, -1, 100)), p.choice((1, 1, 1, 0, 2)))
    if p.chance(30):  # rows, of contiguous arrays
        row = p.choice((1, 4, 16, 100))
        inner, index = [(row, 1, 1)], (count, row, row)
        outer = [(3, extent * row, count * row)] if p.chance(30) else []
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
        gather.take_along(
            outer,
            index,
            inner if p.chance(30) else [],
            extent,
            type_,
            index_type,
            index_alignment=p.choice((1, 16, 256)),
        )
    elif type_.kind != "p":  # truth values are not combined
        ordered.update(
            count, extent, index[1], type_, index_type, joined, device, is_scalar=is_scalar, is_sum=p.chance(50)
        )


def grouped_elements(p: Problem) -> Any:
    """Reads and writes of vectors by so many indices that these are sorted or grouped first."""
    device, index_type = planning.backend().capability, type_of(p, ("i8", "i8", "i4"))
    type_ = type_of(p, ("f4", "f8", "i4", "u4", "i8", "u8", "i1", "f2", "c16"))
    count = p.choice((1 << 17, 1 << 20, 1 << 21, 1 << 22, 3_000_001, 1 << 24, 1 << 27, 1 << 30, (1 << 31) + 5))
    extent = p.choice((
        100, 300, 5000, 1 << 17, 1 << 20, 3_000_001, 1 << 24, 30_000_000, 50_000_000, 400_000_000, 1 << 31, 1 << 33
    ))  # fmt: skip
    stride, is_scalar = p.choice((1, 1, 3)), p.chance(30) and not type_.is_complex
    way = p.choice(("scatter", "add", "take", "bounded"))
    p.text = f"{way} {type_} {index_type} {count} {extent} {stride} {is_scalar}"
    sizes = [extent * stride * type_.nbytes, count * index_type.nbytes, count * type_.nbytes]
    if way == "take":
        plan = gather.take([], (count, stride), [], extent, type_, index_type, ALIGNMENT, is_checked=p.chance(80),
                           may_group=p.chance(80))  # fmt: skip
        sizes = [sizes[2], sizes[0], sizes[1]]
    elif way == "bounded":
        shift = sums.shift_of(count, extent, type_, device)
        if shift is None:
            return
        plan = sums.add(count, extent, stride, shift, type_, index_type, is_scalar=is_scalar, wraps=p.chance(50))
    else:
        operator = "add" if way == "add" and type_ in (*scatter.ATOMIC_TYPES["add"], *sums.TYPES) else ""
        if (
            operator
            and type_ not in scatter.ATOMIC_TYPES["add"]
            and sums.shift_of(count, extent, type_, device) is None
        ):
            return
        plan = scatter.scatter(
            [], (count, stride, 1), [], extent, type_, index_type, (ALIGNMENT, ALIGNMENT), device,
            is_scalar=is_scalar, operator=operator,
        )  # fmt: skip
    if not is_scalar and sum(sizes) <= planning.TOTAL_NBYTES // 2:  # a scalar is bits, no place
        perform(plan, *sizes, 8)


def _loops(p: Problem) -> list[tuple[int, int, int]]:
    """Return loops, some of which are one."""
    extents = tuple(p.choice((1, 2, 3, 16, 100)) for _ in range(p.integer(1, 3)))
    steps = strides_of(p, extents)
    second = steps if p.chance(60) else strides_of(p, extents) if p.chance(60) else (0,) * len(extents)
    return list(zip(extents, steps, second, strict=True))
