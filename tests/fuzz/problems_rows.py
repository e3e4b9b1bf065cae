"""Random row programs for their planner: reductions along rows and what is made of them, by one kernel."""

from __future__ import annotations

import math
from typing import Any

from oxinp._kernels.plan import ALIGNMENT
from oxinp._kernels.problem import Instr, Operand, Output
from oxinp._kernels.reduce.operators import compensated_sum, extremum_at, mean
from oxinp._kernels.reduce.plan import Reduction
from oxinp._kernels.rowwise import plan as rowwise
from oxinp._kernels.rowwise.program import RowReduction
from oxinp._ptx.types import Type, i64, pred
from tests.fuzz import planning
from tests.fuzz.operand import ALIGNMENTS, joined, numbered, perform, strides_of, type_of
from tests.fuzz.problem import Problem

KEPT = ((), (1,), (2,), (32,), (36,), (40,), (100,), (132,), (5000,), (7, 20), (1, 300), (2, 1, 3))
ROWS = (
    (1,), (2,), (33,), (64,), (1000,), (1024,), (4096,), (5000,), (16_384,), (16_388,), (32_768,), (40_000,), (65_536,),
    (100_003,), (1 << 18,), (1 << 20,), (3_000_001,), (1 << 22,), (20, 50), (64, 256), (512, 512), (3, 1),
)  # fmt: skip


class _Rows:
    """Arrays of rows, and what goes through them."""

    def __init__(self, p: Problem) -> None:
        self.p, self.type = p, type_of(p, ("f2", "f4", "f4", "f8", "c8"))
        self.kept, self.row = p.choice(KEPT), p.choice(ROWS)
        self.shape, self.reach = (*self.kept, *self.row), 1
        self.operands = [self.operand() for _ in range(p.choice((1, 1, 2, 3)))]
        self.items: list[Any] = []
        self.walks: list[rowwise.Walk] = []

    def operand(self) -> Operand:
        """Return rows of elements, one for all rows, one element for each row, or strided ones."""
        whole, nothing = strides_of(self.p, self.shape), (0,) * len(self.row)
        dense = tuple(math.prod(self.shape[i + 1 :]) for i in range(len(self.shape)))
        along = dense[len(self.kept) :]
        strides = self.p.choice((
            dense, dense, dense, dense, whole, (*dense[: len(self.kept)], *nothing),
            (0,) * len(self.shape), ((0,) * len(self.kept)) + along,
            tuple(2 * step for step in dense), *[(*dense[: len(self.kept)], *(-step for step in along))] * 2,
        ))  # fmt: skip
        reach = sum((n - 1) * abs(step) for n, step in zip(self.shape, strides, strict=True))
        self.reach = max(self.reach, 1 + reach)
        return Operand(self.type, strides, self.p.choice((ALIGNMENT, *ALIGNMENTS, self.type.nbytes)))

    def number(self) -> int:
        """Return the number of the value that is computed next."""
        return len(self.operands) + len(self.items)

    def instr(self, *args: int) -> int:
        """Append what joins values; return its number."""
        self.items.append(Instr(joined, self.type, args))
        return self.number() - 1

    def reduction(self, value: int, device: Any) -> int | None:
        """Append a reduction of a value; return its number, None where its kernel goes through rows otherwise."""
        p, axes = self.p, tuple(range(len(self.kept), len(self.shape)))
        type_, op, mask = self.type, compensated_sum(self.type), None
        if type_.is_float and p.chance(30):
            op = mean(type_, is_masked=p.chance(50))
        elif p.chance(8) and not type_.is_complex:
            op, type_ = extremum_at(type_, 0, is_max=True), i64
        if op.num_parameters:
            return None
        dense = Operand(self.type, tuple(math.prod(self.shape[i + 1 :]) for i in range(len(self.shape))))
        given = [self.operands[value] if value < len(self.operands) else dense]
        if p.chance(20):
            self.items.append(Instr(_is_some, pred, (value,)))
            mask = self.number() - 1
            given.append(given[0].replace(type=pred, alignment=8))
        target = Operand(type_, tuple(math.prod(self.kept[i + 1 :]) for i in range(len(self.kept))))
        instrs = (Instr(numbered, self.type, (0,)),) if p.chance(5) else ()
        total, place = len(given) if instrs else 0, None if mask is None else 1
        reduction = Reduction([(x.type, True) for x in given], instrs, total, op, type_, place)
        walk = rowwise.walk_of(reduction.passes(self.shape, axes, given, target, device))
        if walk is None or (self.walks and walk.common != self.walks[0].common):
            return None
        self.walks.append(walk)
        *_, batch, is_short, join = walk
        self.items.append(RowReduction(value, op, type_, batch, is_short, join, mask))
        return self.number() - 1


def _is_some(k: Any, x: Any) -> Any:
    del k
    return x.parts[0] > 0 if x.type.is_complex else x > 0


def row_programs(p: Problem) -> Any:
    """A reduction, what is made of it and of the rows, and perhaps others of that."""
    device, rows = planning.backend().capability, _Rows(p)
    p.text = f"{rows.shape} {rows.operands}"
    values = list(range(len(rows.operands)))
    made: list[int] = []
    for _ in range(p.choice((1, 1, 2, 3))):
        if p.chance(50):
            values.append(rows.instr(p.choice(values), p.choice(values)))
        found = rows.reduction(p.choice(values), device)
        if found is None:
            continue
        made.append(found)
        if rows.items[-1].type is rows.type:
            values.append(rows.instr(p.choice(values), found))
    if not rows.walks:
        return
    last = p.choice(made) if p.chance(25) else values[-1]
    outputs = [number for number in (p.choice(made), last) if number >= len(rows.operands)]
    is_reduced = {number: number in made for number in outputs}
    results = [Output(number, _target(rows, is_reduced[number], rows.items[number - len(rows.operands)].type))
               for number in is_reduced]  # fmt: skip
    items = rows.items if p.chance(97) else [item for item in rows.items if isinstance(item, Instr)]
    p.text += f" {rows.items} {outputs}"
    if len(items) != len(rows.items):
        assert rowwise.choose(rows.shape, len(rows.row), rows.operands, items, results, rows.walks[0], device) is None
        return
    plan = rowwise.plan(rows.shape, len(rows.row), rows.operands, items, results, rows.walks[0], device)
    sizes = [math.prod(rows.kept if is_reduced[x.value] else rows.shape) * x.operand.type.nbytes for x in results]
    if all(step >= 0 for x in rows.operands for step in x.strides):
        perform(plan, *sizes, *[rows.reach * rows.type.nbytes] * len(rows.operands), num_outputs=len(sizes))


def _target(rows: _Rows, is_reduced: bool, type_: Type) -> Operand:
    """Return where a value goes, in C order."""
    own = rows.kept if is_reduced else rows.shape
    strides = tuple(math.prod(own[i + 1 :]) for i in range(len(own)))
    return Operand(type_, (*strides, *(0,) * len(rows.row)) if is_reduced else strides)
