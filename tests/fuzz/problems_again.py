"""Random problems one after the other, for planners that know others like them.

What they make of a new size by arithmetic alone has to be what a new planner makes of it.
"""

from __future__ import annotations

from itertools import starmap
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.elementwise import plan as elementwise
from oxinp._kernels.plan import Flagged, Joined, Plan
from oxinp._kernels.problem import Instr, Operand, ReduceOp
from oxinp._kernels.reduce import plan as reduce
from oxinp._kernels.reduce.operators import extremum_at
from oxinp._ptx.types import Type, i64
from tests.fuzz import planning
from tests.fuzz.operand import ALIGNMENTS, chain_of, operator_of, type_of
from tests.fuzz.problem import Problem

if TYPE_CHECKING:
    from oxinp._kernels.choice import Choice

MOST_PROBLEMS = (24, 24, 80)
FAR = 1 << 31
TYPES = ("i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16")
SIZES = (0, 1, 2, 3, 100, 100, 101, 1000, 3000, 4000, 5000, 6000, 100_003, 1 << 20, 50_000_000, 1 << 31, 1 << 33)
NEAR = (3001, 3500, 4000, 4100, 5000, 6000, 8190)
POWERS = tuple(1 << bits for bits in range(10, 20))
STEPS = (1, 1, 1, 1, 0, 2, 3, 5, 7, -1, -1, 1000, -3, 1 << 20)
WIDE = tuple(range(2, 40))  # which one kernel is for
ROWS = (1, 2, 9, 40, 64, 700, 3000, 100_003)
NUM_WAYS = 18  # of `_matrix_steps`
COLUMNS = (1, 2, 3, 31, 32, 48, 64, 96, 100, 101, 128, 301, 1008, 100_003, 1 << 21)


def _steadily(choice: Choice) -> Any:
    """Answer the same whenever it is asked the same: what comes last of the candidates."""
    answers = list(choice.candidates())
    return answers[-1]._asdict() if answers else None


class _Chain(NamedTuple):
    """What is computed of inputs of one type, and by which operator that is reduced."""

    type: Type
    count: int
    total: int
    instrs: list[Instr]
    op: ReduceOp
    result: Type
    has_flags: bool

    @classmethod
    def drawn(cls, p: Problem) -> _Chain:
        type_, count = type_of(p, TYPES), p.choice((1, 1, 2, 3))
        op = operator_of(p, type_)
        if not type_.is_complex and p.chance(25):
            op = extremum_at(type_, 0, is_max=True)
        result = i64 if op.wants_index else type_
        return cls(type_, count, *chain_of(p, type_, count), op, result, p.chance(50))

    def elementwise(self) -> elementwise.Elementwise:
        return elementwise.Elementwise([(self.type, True)] * self.count, self.instrs, [(self.total, self.type)])

    def reduction(self) -> reduce.Reduction:
        given = [(self.type, True)] * self.count
        return reduce.Reduction(given, self.instrs, self.total, self.op, self.result, has_flags=self.has_flags)

    def operands(self, steps: tuple[tuple[int, ...], ...], alignments: tuple[int, ...]) -> list[Operand]:
        return list(starmap(Operand, zip([self.type] * len(steps), steps, alignments, strict=True)))


def _alignments(p: Problem, type_: Type, count: int) -> tuple[int, ...]:
    return tuple(p.choice((*ALIGNMENTS, type_.nbytes)) for _ in range(count))


def _device(p: Problem) -> Any:
    """Return the device, measured or not: it answers the same each time, for what is planned twice."""
    return planning.backend().capability.replace(tuned=_steadily if p.chance(40) else lambda _: None)


def _hold(again: Any, wanted: Plan) -> None:
    """Hold what arithmetic made beside what a new planner planned: nothing, a plan, or its launches."""
    if again is None or isinstance(again, Plan):
        assert again in (None, wanted), (again, wanted)
        return
    launches = [(step.kernel, step.grid, step.constants) for step in wanted.steps]
    if isinstance(again, Flagged | Joined):
        made, scratch_nbytes = [again.again] if isinstance(again, Flagged) else [*again[:2]], again.scratch_nbytes
        assert scratch_nbytes == wanted.scratch_nbytes, (scratch_nbytes, wanted)
    else:
        made = [again]
    assert made == launches, (made, launches)


def _line_steps(p: Problem, drawn: _Chain, several: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return strides, and alignments, of an output and of inputs of one dimension."""
    steps = tuple(p.choice(several) for _ in range(1 + drawn.count))
    return steps, _alignments(p, drawn.type, len(steps))


def lines(p: Problem) -> None:
    """Chains and reductions of one dimension."""
    drawn, device = _Chain.drawn(p), _device(p)
    chain, reduction = drawn.elementwise(), drawn.reduction()
    if p.chance(5):  # without arrays there is no line
        alone = reduce.Reduction([(drawn.type, False)], (), 0, drawn.op, drawn.result)
        assert alone.line_again(p.choice(SIZES), (), (), device.num_sms) is None
    several = p.choice((STEPS, WIDE))
    some = [_line_steps(p, drawn, several) for _ in range(p.choice((1, 3, 40)))]
    if p.chance(50):
        some = [(steps, some[0][1]) for steps, _ in some]
    sizes = p.choice((SIZES, NEAR, POWERS))
    for _ in range(p.choice(MOST_PROBLEMS)):
        size, (steps, alignments) = p.choice(sizes), p.choice(some)
        p.text = f"{drawn} {size} {steps} {alignments}"
        operands = drawn.operands(tuple((step,) for step in steps), alignments)
        if p.chance(50):
            steps = (steps[0] or 1, *steps[1:])
            operands[0] = operands[0].replace(strides=steps[:1])
            again = [chain.plan_again(size, steps, alignments), chain.plan_known((size,), operands, device)]
            wanted = drawn.elementwise().plan((size,), operands, device)
            again.append(chain.plan_line(size, steps, alignments, device))
        else:
            problem = (size,), (0,), operands[1:], Operand(drawn.result, ()), device
            again = [reduction.line_again(size, steps[1:], alignments[1:], device.num_sms)]
            again += [reduction.plan_again(*problem), reduction.plan(*problem)]
            wanted = drawn.reduction().plan(*problem)
        for each in again if size else ():  # what stores identities is made each time
            _hold(each, wanted)


def _matrix_steps(shape: tuple[int, int], pitch: int) -> tuple[tuple[int, int], ...]:
    """Return strides of operands of which most go along their rows."""
    return (
        *[(pitch, 1)] * 6, (0, 1), (0, 1), (512, 1), (1, 0), (512, 0), (0, 0), (1, shape[0]), (-pitch, 1), (1, 1),
        (pitch, 2), (shape[1], 1), (pitch, -1),
    )  # fmt: skip


def matrices(p: Problem) -> None:
    """Chains over matrices, and their reductions along either axis or both."""
    drawn, device = _Chain.drawn(p), _device(p)
    chain, reduction = drawn.elementwise(), drawn.reduction()
    ways = tuple(p.draw.sample(range(len(COLUMNS)), p.choice((1, 3, len(COLUMNS)))))
    places = [p.integer(0, NUM_WAYS - 1) for _ in range(drawn.count)]
    some = [_alignments(p, drawn.type, 1 + drawn.count) for _ in range(2)]
    apart = p.choice((0, 4, 4, 16, 1, 1200, FAR))
    for _ in range(p.choice(MOST_PROBLEMS)):
        shape, alignments = (p.choice(ROWS), COLUMNS[p.choice(ways)]), p.choice(some)
        pitch = shape[1] + (apart if apart < FAR else FAR // shape[0])
        if p.chance(20):
            places[p.integer(0, drawn.count - 1)] = p.integer(0, NUM_WAYS - 1)
        own = p.choice((*[(pitch, 1)] * 8, (1, shape[0]), (pitch, 2)))
        steps = (own, *(_matrix_steps(shape, pitch)[place] for place in places))
        operands = drawn.operands(steps, alignments)
        axes = p.choice(((0,), (0,), (1,), (1,), (0, 1)))
        p.text = f"{drawn} {shape} {axes} {steps} {alignments}"
        if p.chance(50):
            again: list[Any] = [
                chain.matrix_again(shape, steps, alignments, device),
                chain.plan_known(shape, operands, device),
            ]
            wanted = drawn.elementwise().plan(shape, operands, device)
            again.append(chain.plan(shape, operands, device))
        else:
            written = p.choice((1, 1, 1, 7, 7, -1))
            problem = shape, axes, operands[1:], Operand(drawn.result, (written,) * (2 - len(axes))), device
            again = [reduction.plan_again(*problem)]
            if axes != (0, 1):
                matrix_again = reduction.rows_again if axes == (1,) else reduction.columns_again
                again.append(matrix_again(shape, steps[1:], alignments[1:], written, device))
            wanted = drawn.reduction().plan(*problem)
            again.append(reduction.plan(*problem))
        for each in again:
            _hold(each, wanted)


def planned_again(p: Problem) -> Any:
    """Ask one of the above."""
    p.choice((lines, matrices))(p)
