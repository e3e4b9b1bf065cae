"""Operands of kernels for random problems, their types, strides and alignments; chains and operators over them."""

from __future__ import annotations

from typing import Any

import numpy  # noqa: ICN001 - np is ours

from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._kernels.gemm.operand import Matrices
from oxinp._kernels.plan import ALIGNMENT
from oxinp._kernels.problem import Instr, ReduceOp
from oxinp._kernels.reduce.operators import add, compensated_sum, extremum_of_bytes, product, starting
from oxinp._ptx.types import Type, c64, c128, f32, f64, pred, u8
from tests.fuzz import planning
from tests.fuzz.problem import DTYPES, Problem

ALIGNMENTS = (ALIGNMENT, ALIGNMENT, 64, 16, 8)


def type_of(p: Problem, dtypes: tuple[str, ...] = DTYPES) -> Type:
    """Return a random type of elements."""
    return DEVICE_TYPES[numpy.dtype(p.dtype(dtypes))]


def perform(plan: Any, *sizes: int, num_outputs: int = 1) -> None:
    """Judge a plan of arrays of so many bytes, the outputs first."""
    if plan is not None:
        planning.backend().perform(plan, list(sizes[:num_outputs]), list(sizes[num_outputs:]), u8)


def strides_of(p: Problem, extents: tuple[int, ...]) -> tuple[int, ...]:
    """Return strides of any order of axes, rows perhaps padded."""
    order = p.draw.sample(range(len(extents)), len(extents)) if p.chance(50) else range(len(extents))
    strides, step = [0] * len(extents), 1
    for place in reversed(list(order)):
        strides[place] = step
        step *= extents[place] + (p.choice((1, 2, 16)) if p.chance(10) else 0)
    return tuple(strides)


def reach_of(extents: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Return how many elements of memory an operand goes over."""
    return 1 + sum((n - 1) * abs(step) for n, step in zip(extents, strides, strict=True))


def joined(k: Any, x: Any, y: Any) -> Any:
    """Return a value made of two, as an instruction computes it."""
    return k.max(x, y) if x.type.kind in "iu" else x | y if x.type is pred else x + y


def chain_of(p: Problem, type_: Type, count: int) -> tuple[int, list[Instr]]:
    """Return instructions that join so many inputs, and the number of the value that they make."""
    total, instrs = 0, []
    for number in range(1, count):
        instrs.append(Instr(joined, type_, (total, number)))
        total = count + number - 1
    if p.chance(15):
        instrs.append(Instr(numbered, type_, (total,)))
        total = count + len(instrs) - 1
    return total, instrs


def squared(k: Any, x: Any) -> Any:
    """Return a value times itself, as an instruction computes it."""
    return _multiplied(k, x, x)


def _multiplied(k: Any, x: Any, y: Any) -> Any:
    del k
    return x * y


def numbered(k: Any, index: Any, x: Any) -> Any:
    """Return a value joined with the index of its element, as an instruction computes it."""
    return joined(k, k.cast(index, x.type), x)


numbered.wants_index = True  # type: ignore[attr-defined]


def operator_of(p: Problem, type_: Type) -> ReduceOp:
    """Return an operator that combines elements of a type."""
    if type_.nbytes == 1 and p.chance(50):
        return extremum_of_bytes(type_, 0 if type_.kind == "u" else -128, is_max=p.chance(50))
    if type_.is_complex and p.chance(50):
        return ReduceOp("prod", type_, 1, _multiplied) if p.chance(70) else ReduceOp("sum", type_, 0, add)
    if type_ in (f32, f64, c64, c128):
        if p.chance(40) and not type_.is_complex:
            return product(type_)
        op = compensated_sum(type_)
        return starting(op) if p.chance(50) else op
    return ReduceOp("sum", type_, 0, add)


def matrices_of(p: Problem, type_: Type, shape: tuple[int, ...]) -> Matrices:
    """Return matrices of any layout in which one axis is contiguous."""
    *batch, rows, columns = shape
    is_transposed = p.chance(35)
    run, lines = (rows, columns) if is_transposed else (columns, rows)
    pitch = run + (p.choice((1, 4, 8, 16, -run % 16)) if p.chance(25) else 0)
    own = (1, pitch) if is_transposed else (pitch, 1)
    if 1 in (rows, columns) and p.chance(30):  # of an axis of one element the stride is any number
        own = (pitch, 7) if columns == 1 else (7, 1)
    kept = tuple(1 if p.chance(20) else n for n in batch)
    order = strides_of(p, kept)
    moves = tuple(step * lines * pitch if n > 1 else 0 for n, step in zip(kept, order, strict=True))
    return Matrices(type_, (*moves, *own), p.choice((ALIGNMENT, ALIGNMENT, ALIGNMENT, 16, type_.parts[0].nbytes)))
