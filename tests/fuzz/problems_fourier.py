"""Random problems for the planners of transforms along several axes: with chains at their ends, there and back."""

from __future__ import annotations

import math
from typing import Any

from oxinp._kernels.fft import axes, cosine_plan, filters
from oxinp._kernels.fft import plan as fft
from oxinp._kernels.fft.axes import COMPLEX, HALF, REAL, Array
from oxinp._kernels.fft.sides import Chained, Loop, Side
from oxinp._kernels.fft.spec import TRIGONOMETRIC
from oxinp._kernels.plan import ALIGNMENT, Argument
from oxinp._kernels.problem import Instr
from oxinp._ptx.types import Type, c64, c128
from tests.fuzz import planning
from tests.fuzz.operand import ALIGNMENTS, joined, perform, strides_of
from tests.fuzz.problem import Problem

EXTENTS = (1, 2, 3, 5, 16, 30, 33, 64, 100, 241, 257, 400, 1009, 2048, 4096, 6000, 8192, 1 << 17, 1 << 21)
SQUARES = (
    (2048, 2048), (4, 2048, 2048), (64, 1024, 512), (16, 256, 256), (8192, 4096), (300, 64, 64), (5000, 100, 96),
    (1 << 26,), (1 << 26,), (1 << 24, 2), (1 << 22, 5), (3**13, 7), (1 << 18, 6), (16_384, 200), (40, 60), (6, 1 << 20),
)  # fmt: skip
# Arrays of which two axes may be one launch.
PLANES = (
    (4, 5, 256, 256),
    (200_000, 16, 16),
    (1, 300, 64, 320),
    (12, 300, 1, 320),
    (100, 1, 512, 512),
    (9, 64, 64, 97),
)
IN_PARTS = ((300, 1 << 17), (1 << 17, 300), (5, 1 << 22), (7, 50, 1 << 16))
LINES = (1 << 26, 1 << 26, 1 << 26, 1 << 24, 3**13, 2 * 3**12, 1 << 20, 700, 768)
ROWS = (
    101, 191, 281, 600, 1009, 2048, 4001, 4096, 6000, 8192, 8209, 10_007, 15_000, 16_384, 16_384, 16_807, 20_000,
    30_030,
)  # fmt: skip
EVEN = (2, 8, 30, 64, 100, 1000, 2048, 4096, 8192)
MOST = 1 << 27


def _shape(p: Problem) -> tuple[int, ...]:
    if p.chance(40):
        return p.choice(SQUARES)
    if p.chance(2):
        return (5, 0, 8)
    while True:
        shape = tuple(p.choice(EXTENTS) for _ in range(p.integer(1, 3)))
        if math.prod(shape) <= MOST:
            return shape


def _array(p: Problem, name: str, type_: Type, shape: tuple[int, ...]) -> Array:
    steps = strides_of(p, shape) if p.chance(40) else strides_in_order(shape)
    return Array(Argument(name), type_, shape, steps, p.choice(ALIGNMENTS))


def strides_in_order(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a contiguous array."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def _chained(p: Problem, array: Array, *, is_source: bool) -> Array:
    """Return an array whose elements are made of two, or that holds what is made of the results and another one."""
    type_ = array.type
    own = p.choice((array.steps, strides_in_order(array.shape), strides_of(p, array.shape), (0,) * len(array.shape)))
    if is_source:
        arguments, others = (Argument("in0"), Argument("in1")), (array.steps, own)
    else:
        arguments, others = (Argument("in2"),), (own,)
    are_arrays, instrs = (True,) * len(arguments), (Instr(joined, type_, (0, 1)),)
    if p.chance(20):  # a number, too
        arguments, are_arrays = (*arguments, Argument("in3")), (*are_arrays, False)
        instrs = (*instrs, Instr(joined, type_, (2, 3)))
    chain = Chained((type_,) * len(arguments), arguments, are_arrays, instrs, 2 * len(instrs), type_)
    return array._replace(chain=chain, others=others)


def _ends(p: Problem, type_: Type, kind: str, length: int, shape: tuple[int, ...], last: int) -> tuple[Array, Array]:
    real, half = type_.parts[0], length // 2 + 1
    held = {COMPLEX: length, REAL: p.choice((half, half, length)), HALF: length}[kind]
    given = tuple(min(n, held if kind != HALF else half) if i == last else n for i, n in enumerate(shape))
    given = given if p.chance(70) else shape
    made = tuple(held if i == last else n for i, n in enumerate(shape))
    source = _array(p, "in0", p.choice((type_, real)) if kind == COMPLEX else real if kind == REAL else type_, given)
    return source, _array(p, "out0", real if kind == HALF else type_, made)


def _several_axes(p: Problem) -> None:
    type_, kind, shape = p.choice((c64, c128)), p.choice((COMPLEX, COMPLEX, REAL, HALF)), _shape(p)
    chosen = tuple(p.draw.sample(range(len(shape)), p.integer(1, len(shape))))
    length = max(1, shape[chosen[-1]] if p.chance(60) else p.choice(EXTENTS[:14]))
    source, target = _ends(p, type_, kind, length, shape, chosen[-1])
    if p.chance(30):
        source = _chained(p, source, is_source=True)
    if p.chance(30):
        target = _chained(p, target, is_source=False)
    problem = axes.Problem(kind, chosen, length, p.chance(60), p.choice((1.0, 0.5)))
    p.text = f"{kind} {type_} {shape} {chosen} {length} {source.steps} {target.steps}"
    axes.plan_axes(source, target, type_, problem, planning.backend().capability, p.choice((1, 1, 2, 5)))


def _there_and_back(p: Problem) -> None:
    device, type_, shape = planning.backend().capability, p.choice((c64, c128)), _shape(p)
    shape = tuple(max(1, n) for n in shape)
    chosen = tuple(p.draw.sample(range(len(shape)), p.integer(1, len(shape))))
    is_real = p.chance(30)
    last = chosen[-1]
    length = shape[last]
    back_length = length if p.chance(90) else p.choice(EXTENTS[:14])
    kinds = (REAL, HALF) if is_real else (COMPLEX, COMPLEX)
    source = _array(p, "in0", type_.parts[0] if is_real else type_, shape)
    made = tuple(back_length if i == last else n + 3 * (i in chosen and p.chance(10)) for i, n in enumerate(shape))
    target = _array(p, "out0", source.type, made)
    if p.chance(25):
        target = _chained(p, target, is_source=False)
    between = tuple(length // 2 + 1 if is_real and i == last else n for i, n in enumerate(shape))
    others = p.choice((strides_in_order(between), strides_of(p, between), (0,) * len(between)))
    chain = Chained((type_,), (Argument("in1"),), (True,), (Instr(joined, type_, (0, 1)),), 2, type_)
    if p.chance(20):
        chain, others = Chained((), (), (), (), 0, type_), ()
    goes = p.chance(70)
    there, back = (
        axes.Problem(kind, chosen, n, is_forward, p.choice((1.0, 0.5)))
        for kind, n, is_forward in zip(kinds, (length, back_length), (goes, not goes), strict=True)
    )
    wanted = filters.Filter(there, back, chain, (others,) if others else ())
    p.text = f"{type_} {shape} {chosen} {back_length} {is_real} {source.steps} {target.steps} {others}"
    if filters.is_filter(source, target, type_, wanted, device):
        filters.plan_filter(source, target, type_, wanted, device)


def _two_axes(p: Problem) -> None:
    """Two axes of an array, of a part after the other where these lie evenly."""
    type_, shape = p.choice((c64, c64, c128)), p.choice(PLANES)
    ndim = len(shape)
    chosen = p.choice(((ndim - 2, ndim - 1), (ndim - 2, ndim - 1), (ndim - 1, ndim - 2), (0, ndim - 1)))
    source, target = _array(p, "in0", type_, shape), _array(p, "out0", type_, shape)
    if p.chance(40) or shape[-1] <= 16:
        order = strides_in_order((*shape[:-2], shape[-1], shape[-2]))
        source = source._replace(steps=(*order[:-2], order[-1], order[-2]))
    if p.chance(30):
        order = strides_in_order((shape[1], shape[0], *shape[2:]))
        target = target._replace(steps=(order[1], order[0], *order[2:]))
    problem = axes.Problem(COMPLEX, chosen, shape[chosen[-1]], p.chance(60))
    p.text = f"{type_} {shape} {chosen} {source.steps} {target.steps}"
    axes.plan_axes(source, target, type_, problem, planning.backend().capability)


def _in_parts(p: Problem) -> None:
    """Transforms with a chain behind them, in parts."""
    type_, shape = p.choice((c64, c128)), p.choice(IN_PARTS)
    source, target = _array(p, "in0", type_, shape), _chained(p, _array(p, "out0", type_, shape), is_source=False)
    axis, num_parts = p.integer(0, len(shape) - 1), p.choice((2, 5))
    p.text = f"{type_} {shape} {axis} {num_parts} {source.steps} {target.steps}"
    problem = axes.Problem(COMPLEX, (axis,), shape[axis], p.chance(60))
    axes.plan_axes(source, target, type_, problem, planning.backend().capability, num_parts)


def _cosines(p: Problem) -> None:
    """Cosine and sine transforms along one axis."""
    type_, device, axis = p.choice((c64, c128)), planning.backend().capability, p.integer(0, 1)
    length, count = p.choice(EVEN), p.choice((1, 40, 3000))
    shapes = [(n, count) if axis == 0 else (count, n) for n in (p.choice((length, length, length // 2)), length)]
    source, target = (_array(p, name, type_.parts[0], n) for name, n in zip(("in0", "out0"), shapes, strict=True))
    is_apart = any(0 < x.steps[1 - axis] < x.steps[axis] for x in (source, target))
    part = p.choice(tuple(TRIGONOMETRIC))
    p.text = f"{part} {type_} {shapes} {axis} {source.steps} {target.steps}"
    if cosine_plan.has_cosine(length, type_.nbytes, device, is_apart=is_apart):
        cosine_plan.plan_cosine(source, target, type_, part, axis, (1.0, p.choice((1.0, 0.5))), device)


def _lines(p: Problem) -> None:
    """One transform, or two, mostly long, of which parts are given or kept."""
    type_, length, device = p.choice((c64, c128)), p.choice(LINES), planning.backend().capability
    source_type = p.choice((type_, type_.parts[0]))
    valid, stored = (n if p.chance(60) else n // 2 + 1 for n in (length, length))
    rotated = p.choice((*((False, False),) * 4, (True, False), (False, True), (True, True)))
    if not any(rotated) or not fft.rotates(length, type_, device, at_both_ends=all(rotated)):
        rotated = (False, False)
    if any(rotated):
        valid = stored = length
    loops = (Loop(p.choice((0, 2, 2)), length, length),) if p.chance(20) else ()
    ends = (Side(Argument(name), p.choice((1, 1, 2)), ALIGNMENT) for name in ("in0", "out0"))
    p.text = f"{type_} {source_type} {length} {valid} {stored} {rotated}"
    transform = fft.Transform(length, type_, source_type, type_, *ends, loops, num_valid=valid, num_stored=stored)
    fft.plan(transform.replace(is_rotated=rotated[0], is_source_rotated=rotated[1]), device)


def _rows(p: Problem) -> None:
    """Many rows or columns, of lengths of which a block holds few or one."""
    type_, length, count = p.choice((c64, c64, c128)), p.choice(ROWS), p.choice((1, 3, 40, 3000))
    step, move = p.choice(((1, length), (1, length), (1, length + 8), (count, 1)))
    given = 0 if p.chance(25) else move  # of one row, or column, again and again
    reaches = [(1 + (length - 1) * step + (count - 1) * each) * type_.nbytes for each in (move, given)]
    p.text = f"{type_} {length} {count} {step} {given} {move}"
    ends = (Side(Argument(name), step, ALIGNMENT) for name in ("in0", "out0"))
    transform = fft.Transform(
        length,
        type_,
        type_,
        type_,
        *ends,
        (Loop(count, given, move),),
        p.chance(50),
        num_valid=length,
        num_stored=length,
    )
    perform(fft.plan(transform, planning.backend().capability), *reaches)


KINDS = (
    *(_several_axes, _there_and_back) * 3,
    *(_two_axes, _lines, _lines, _rows) * 2,
    _in_parts,
    _cosines,
)


def fourier_axes(p: Problem) -> Any:
    """Ask one of the planners."""
    p.choice(KINDS)(p)
