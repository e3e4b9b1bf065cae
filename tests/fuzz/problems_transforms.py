"""Transforms that planners have ways of their own for, which few random ones take: one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxinp._kernels.fft import axes, cosine_plan, filters
from oxinp._kernels.fft import plan as fft
from oxinp._kernels.fft.axes import COMPLEX, HALF, REAL, Array
from oxinp._kernels.fft.sides import Chained, Loop, Side
from oxinp._kernels.plan import ALIGNMENT, Argument
from oxinp._kernels.problem import Instr
from oxinp._ptx.types import Type, c64, c128, f32, f64
from tests.fuzz import planning
from tests.fuzz.operand import joined
from tests.fuzz.problems_fourier import strides_in_order

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fuzz.problem import Problem

ARRAY, NUMBER = "an array", "an array and a number"  # that a chain has beside
# Kinds, types and shapes of transforms of the last axis, with what chains before and behind have, and parts.
LAST_AXES = (
    (COMPLEX, c64, (40, 16_807), "", "", 1),
    (COMPLEX, c64, (40, 16_384), "", "", 1),
    (COMPLEX, c64, (40, 2 * 4001), "", "", 1),
    (COMPLEX, c64, (3000, 139), "", "", 1),
    (COMPLEX, c128, (1, 15_485_863), "", "", 1),
    (COMPLEX, c128, (15_485_863,), "", "", 1),
    (COMPLEX, c64, (300, 1 << 17), ARRAY, "", 2),
    (COMPLEX, c64, (300, 1 << 17), NUMBER, "", 2),
    (COMPLEX, c64, (300, 1 << 17), "", ARRAY, 2),
    (HALF, c64, (40, 1 << 15), "", "", 1),
    (HALF, c128, (1 << 26,), "", "", 2),
    (REAL, c64, (3, 1 << 20), "", ARRAY, 1),
    (HALF, c64, (3, 1 << 20), ARRAY, "", 1),
    (REAL, c64, (2048, 1 << 21), "", "", 1),
    (REAL, c128, (300, 241), "", "", 1),
)
# Transforms of rows or columns: how long, how many, from one to the next, and whether each is of the same numbers.
LINES = (
    (c64, 16_807, 3000, (1, 16_807), False),
    (c64, 281, 3000, (1, 289), False),
    (c64, 10_007, 3000, (1, 10_007), False),
    (c64, 10_891, 3000, (1, 10_891), False),
    (c64, 9397, 40, (1, 9397), False),
    (c64, 2501, 3000, (1, 2501), False),
    (c64, 15_000, 3, (3, 1), False),
    (c128, 4001, 3, (1, 4001), False),
    (c128, 1_000_003, 4096, (4096, 1), False),
    (c64, 6_000_000, 1, (1, 1), False),
    (c64, 4096, 40, (1, 4096), True),
    (c64, 1 << 26, 2, (1, 1 << 26), False),
)
# One transform or a few: of what, how long, how much of it is given and kept, what is rotated, and how many.
PARTIAL = (
    (c128, c128, 1 << 26, 1 << 26, (1 << 25) + 1, (False, False), 0),
    (c64, c64, 1 << 26, (1 << 25) + 1, 1 << 26, (False, False), 0),
    (c128, c128, 1 << 26, 1 << 26, 1 << 26, (True, True), 0),
    (c128, c128, 1 << 26, 1 << 26, 1 << 26, (False, False), 0),
    (c64, c64, 1 << 26, 1 << 26, 1 << 26, (False, False), 0),
    (c128, f64, 2 * 3**12, 2 * 3**12, 2 * 3**12, (True, False), 0),
    (c128, c128, 700, 700, 700, (True, True), 0),
    (c64, f32, 486, 486, 486, (False, True), 16),
    (c64, c64, 33_614, 33_614, 33_614, (True, False), 3),
    (c64, c64, 33_614, 33_614, 33_614, (False, True), 100),
    (c128, f64, 20_000, 20_000, 20_000, (True, False), 4096),
)
# Several axes: of a shape, one after the other, and the strides of what is given and of what is made.
PLANES = (
    (c64, (100, 1, 512, 512), (2, 3), (262_144, 262_144, 512, 1), (262_144, 26_214_400, 512, 1)),
    (c64, (200_000, 16, 16), (0, 2), (256, 1, 16), (16, 3_200_000, 1)),
    (c128, (200_000, 16, 16), (1, 2), (256, 1, 16), (256, 16, 1)),
    (c128, (200_000, 16, 16), (2, 1), (256, 1, 16), (256, 16, 1)),
    (c64, (4, 5, 256, 256), (2, 3), (348_160, 69_632, 272, 1), (1, 1024, 4, 5120)),
    (c64, (1, 300, 64, 320), (0, 3), (6_144_000, 20_480, 1, 64), (6_144_000, 20_480, 320, 1)),
    (c128, (5000, 100, 96), (2, 1, 0), (9600, 96, 1), (9600, 96, 1)),
)
# There and back: axes, the length back, whether numbers are real, strides of what is made and of what a chain between
# has beside, where these are not in order, and what a chain behind has.
BACK = (
    (c64, (4, 2048, 2048), (0, 1, 2), 2048, False, (2048, 1, 8192), (), ""),
    (c64, (8192, 40), (0,), 8192, False, None, (), ""),
    (c64, (8192, 4096), (1, 0), 30, False, None, (), ""),
    (c64, (1 << 26,), (0,), 1 << 26, False, None, (0,), ""),
    (c64, (30,), (0,), 30, True, None, (1,), ""),
    (c128, (2048,), (0,), 2048, True, None, (1,), ""),
    (c128, (2, 1 << 26), (1,), 1 << 26, False, (1, 2), (0, 0), ""),
    (c128, (64, 1024, 512), (2, 1, 0), 64, False, None, (524_288, 1, 1024), ARRAY),
    (c64, (6, 1 << 24), (1,), 1 << 24, False, (1, 6), None, ""),
    (c64, (6, 1 << 24), (1,), 1 << 24, False, None, None, ""),
    (c128, (40, 3971), (1,), 3971, False, None, (0, 0), ""),
    (c64, (3, 689 * 689), (1,), 689 * 689, False, None, None, ""),
    (c64, (3, 1_000_003), (1,), 1_000_003, False, None, None, ARRAY),
    (c64, (40, 100), (1,), 30, False, None, None, ""),
    (c64, (1 << 26,), (0,), 1 << 26, True, None, (0,), ""),
)
# Real sequences of odd strides, and of odd numbers: kind, type, length, loops of what is given and made, and strides.
REAL_LINES = (
    (HALF, c128, 823_543, ((33, 80, 80), (16, 5, 5), (5, 1, 1)), 2640, 2640),
    (HALF, c128, 17, ((5, 1, 17),), 5, 1),
    (HALF, c64, 6_000_000, ((1, 3_000_001, 6_000_000),), 1, 1),
    (REAL, c128, 600, ((1, 1200, 602), (2, 600, 301)), 1, 1),
    (REAL, c128, 600, ((1, 1198, 1), (2, 599, 301)), 1, 1),
)


def _with(kind: str, array: Array, first: int) -> Array:
    """Return an array that a chain reads together with others, or makes of the results and another one."""
    if not kind:
        return array
    held = array.buffer.buffer == "in0"
    arguments = ((array.buffer,) if held else ()) + (Argument(f"in{first}"),)
    others, are_arrays = (array.steps,) * len(arguments), (True,) * len(arguments)
    instrs = (Instr(joined, array.type, (0, 1)),)
    if kind == NUMBER:
        arguments, are_arrays = (*arguments, Argument(f"in{first + 1}")), (*are_arrays, False)
        instrs = (*instrs, Instr(joined, array.type, (2, 3)))
    types = (array.type,) * len(arguments)
    chain = Chained(types, arguments, are_arrays, instrs, 2 * len(instrs), array.type)
    return array._replace(chain=chain, others=others)


def _in_order(name: str, type_: Type, shape: tuple[int, ...], steps: tuple[int, ...] | None = None) -> Array:
    return Array(Argument(name), type_, shape, steps or strides_in_order(shape), ALIGNMENT)


def _last_axes(p: Problem, case: Any) -> None:
    kind, type_, shape, before, behind, num_parts = case
    halved, real = (*shape[:-1], shape[-1] // 2 + 1), type_.parts[0]
    source = _in_order("in0", *((real, shape) if kind == REAL else (type_, halved if kind == HALF else shape)))
    target = _in_order("out0", *((real, shape) if kind == HALF else (type_, halved if kind == REAL else shape)))
    p.text = f"{kind} {type_} {shape} {before} {behind} {num_parts}"
    problem = axes.Problem(kind, (len(shape) - 1,), shape[-1], kind != HALF)
    ends = _with(before, source, 1), _with(behind, target, 3)
    axes.plan_axes(*ends, type_, problem, planning.backend().capability, num_parts)


def _transform(p: Problem, type_: Type, types: tuple[Type, Type], length: int, *given: Any, **more: Any) -> None:
    p.text = f"{type_} {types} {length} {given} {more}"
    steps, loops = given
    ends = (Side(Argument(name), step, ALIGNMENT) for name, step in zip(("in0", "out0"), steps, strict=True))
    fft.plan(fft.Transform(length, type_, *types, *ends, loops, **more), planning.backend().capability)


def _lines(p: Problem, case: Any) -> None:
    type_, length, count, (step, move), is_same = case
    loops = (Loop(count, 0 if is_same else move, move),)
    _transform(p, type_, (type_, type_), length, (step, step), loops, num_valid=length, num_stored=length)


def _partial(p: Problem, case: Any) -> None:
    type_, source, length, valid, stored, (is_rotated, is_source_rotated), count = case
    step, device = max(count, 1), planning.backend().capability
    is_rotating = is_rotated or is_source_rotated
    if is_rotating and not fft.rotates(length, type_, device, at_both_ends=is_rotated and is_source_rotated):
        return
    _transform(
        p, type_, (source, type_), length, (step, step), (Loop(count, 1, 1),) if count else (),
        num_valid=valid, num_stored=stored, is_rotated=is_rotated, is_source_rotated=is_source_rotated,
    )  # fmt: skip


def _planes(p: Problem, case: Any) -> None:
    type_, shape, chosen, *steps = case
    source, target = (_in_order(name, type_, shape, each) for name, each in zip(("in0", "out0"), steps, strict=True))
    p.text = f"{type_} {shape} {chosen} {steps}"
    problem = axes.Problem(COMPLEX, chosen, shape[chosen[-1]], is_forward=True)
    axes.plan_axes(source, target, type_, problem, planning.backend().capability)


def _there_and_back(p: Problem, case: Any) -> None:
    type_, shape, chosen, back_length, is_real, steps, others, behind = case
    last, goes, device = chosen[-1], p.chance(50), planning.backend().capability
    own = type_.parts[0] if is_real else type_
    made = tuple(back_length if i == last else n for i, n in enumerate(shape))
    source, target = _in_order("in0", own, shape), _with(behind, _in_order("out0", own, made, steps), 3)
    pitches = strides_in_order((*shape[:-1], shape[-1] // 2 + 1)) if is_real else strides_in_order(shape)
    others = pitches if others is None else others
    chain = Chained((type_,), (Argument("in1"),), (True,), (Instr(joined, type_, (0, 1)),), 2, type_)
    if not others:
        chain = Chained((), (), (), (), 0, type_)
    kinds = (REAL, HALF) if is_real else (COMPLEX, COMPLEX)
    there, back = (
        axes.Problem(kind, chosen, n, is_forward)
        for kind, n, is_forward in zip(kinds, (shape[last], back_length), (goes or is_real, not goes), strict=True)
    )
    wanted = filters.Filter(there, back, chain, (others,) if others else ())
    p.text = f"{type_} {shape} {chosen} {back_length} {is_real} {steps} {others} {behind}"
    if filters.is_filter(source, target, type_, wanted, device):
        filters.plan_filter(source, target, type_, wanted, device)


def _real_lines(p: Problem, case: Any) -> None:
    kind, type_, length, loops, *steps = case
    real, half = type_.parts[0], length // 2 + 1
    types = (real, type_) if kind == REAL else (type_, real)
    valid, stored = (length, half) if kind == REAL else (half, length)
    more = {"num_valid": valid, "num_stored": stored, "is_forward": kind == REAL, "is_half": kind == HALF}
    _transform(p, type_, types, length, steps, tuple([Loop(*loop) for loop in loops]), **more)


def _cosine(p: Problem, case: None) -> None:
    """A cosine transform of what is half as long."""
    del case
    p.text = "dct3"
    ends = (_in_order(name, f32, (n, 40)) for name, n in (("in0", 4), ("out0", 8)))
    assert cosine_plan.has_cosine(8, c64.nbytes, planning.backend().capability, is_apart=False)
    cosine_plan.plan_cosine(*ends, c64, "dct3", 0, (1.0, 1.0), planning.backend().capability)


TABLES: tuple[tuple[Callable[[Problem, Any], None], tuple[Any, ...]], ...] = (
    (_last_axes, LAST_AXES), (_lines, LINES), (_partial, PARTIAL), (_planes, PLANES), (_there_and_back, BACK),
    (_real_lines, REAL_LINES), (_cosine, (None,)),
)  # fmt: skip
CASES = tuple((function, case) for function, table in TABLES for case in table)


def seldom_transforms(p: Problem) -> Any:
    """Ask for one of the transforms after the other."""
    function, case = p.in_turn(CASES)
    function(p, case)
