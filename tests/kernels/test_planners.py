"""Planners that are kept: whatever they have planned before, the next plan is that of a new one."""

import random

import pytest

from oxinp._kernels.elementwise.plan import Elementwise
from oxinp._kernels.plan import Launch
from oxinp._kernels.problem import Instr, Operand
from oxinp._kernels.reduce import operators
from oxinp._kernels.reduce.plan import Reduction
from oxinp._kernels.scan.plan import Scan
from oxinp._ptx.types import f32, f64
from tests.kernels.machine import TINY_DEVICE

EXTENTS = (1, 2, 3, 5, 8, 16, 17, 31, 32, 40, 64, 100, 257, 1024, 4096, 70000)
MAX_SIZE = 1 << 26


def _add(k, x, y):  # noqa: ARG001
    return x + y


def _with_index(k, index, x, y):
    return x + y + k.cast(index, y.type)


_with_index.wants_index = True


def shapes(draw, count):
    """Yield random shapes."""
    while count:
        shape = tuple(draw.choices(EXTENTS, k=draw.choice((1, 1, 2, 2, 3))))
        size = 1
        for n in shape:
            size *= n
        if size < MAX_SIZE:
            yield shape
            count -= 1


def operand(draw, type_, shape, *, is_output=False):
    """An operand that is mostly contiguous, else in another order of axes, apart, turned round or broadcast."""
    axes, way = list(range(len(shape))), draw.randrange(6)
    if way == 3:
        draw.shuffle(axes)
    strides, step = [0] * len(shape), 1
    for axis in reversed(axes):
        strides[axis] = step
        step *= shape[axis] + (way == 4)
    if way == 5 and not is_output:
        strides = [step * draw.choice((1, -1, 0)) for step in strides]
    return Operand(type_, tuple(strides), draw.choice((256, 256, 16, 8)))


def same(a, b):
    """Whether two plans launch the same kernels alike."""
    return a.steps == b.steps and a.scratch_nbytes == b.scratch_nbytes


INPUTS = [(f32, True), (f64, True)]


def test_empty_reductions_share_a_kernel():
    planner = Reduction([(f64, True)], (), 0, operators.compensated_sum(f64), f64)
    kernels = [
        planner.plan((0, n), (0,), [Operand(f64, (n, 1))], Operand(f64, (1,)), TINY_DEVICE).launch.kernel
        for n in (300, 400, 300)
    ]
    assert len(set(map(id, kernels))) == 1


@pytest.mark.parametrize("lower", [_add, _with_index])
def test_reductions(lower):
    draw = random.Random(5)
    instrs = [Instr(lambda k, x: k.cast(x, f64), f64, (0,)), Instr(lower, f64, (2, 1))]

    def new():
        return Reduction(INPUTS, instrs, 3, op, f64)

    op = operators.compensated_sum(f64)
    kept, kernels = new(), set()
    for shape in shapes(draw, 120):
        axes = draw.choice((tuple(range(len(shape))), (0,), (len(shape) - 1,)))
        arrays = [operand(draw, type_, shape) for type_, _ in INPUTS]
        output = operand(draw, f64, tuple(n for axis, n in enumerate(shape) if axis not in axes), is_output=True)
        plans = [planner.plan(shape, axes, arrays, output, TINY_DEVICE) for planner in (kept, new())]
        assert same(*plans)
        kernels.update(step.kernel for step in plans[0].steps)
    assert len(kernels) > 10


@pytest.mark.parametrize("lower", [_add, _with_index])
def test_scans(lower):
    draw = random.Random(6)
    instrs = [Instr(lambda k, x: k.cast(x, f64), f64, (0,)), Instr(lower, f64, (2, 1))]

    def new():
        return Scan(INPUTS, instrs, 3, op)

    op = operators.scannable(operators.compensated_sum(f64))
    kept, kernels = new(), set()
    for shape in shapes(draw, 60):
        arrays = [operand(draw, type_, shape) for type_, _ in INPUTS]
        output, axis = operand(draw, f64, shape, is_output=True), draw.randrange(len(shape))
        plans = [planner.plan(shape, axis, arrays, output, TINY_DEVICE) for planner in (kept, new())]
        assert same(*plans)
        kernels.update(step.kernel for step in plans[0].steps if isinstance(step, Launch))
    assert len(kernels) > 10
    assert {kernel.name for kernel in kernels} == {"scan_rows", "scan_columns", "scan_chained", "scan_chained_columns"}


@pytest.mark.parametrize("lower", [_add, _with_index])
def test_chains(lower):
    draw = random.Random(7)
    instrs = [Instr(lambda k, x: k.cast(x, f64), f64, (0,)), Instr(lower, f64, (2, 1))]

    def new():
        return Elementwise(INPUTS, instrs, [(3, f64)])

    kept, kernels = new(), set()
    for shape in shapes(draw, 60):
        operands = [operand(draw, f64, shape, is_output=True)]
        operands += [operand(draw, type_, shape) for type_, _ in INPUTS]
        plans = [planner.plan(shape, operands, TINY_DEVICE) for planner in (kept, new())]
        assert same(*plans)
        kernels.update(step.kernel for step in plans[0].steps)
    assert len(kernels) > 5
