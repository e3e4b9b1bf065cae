"""Grouped products: every problem of a launch right, whatever its size."""

from types import SimpleNamespace

import numpy as np
import pytest

from oxinp._kernels.gemm.multistage import grouped
from oxinp._kernels.gemm.multistage.grouped import Group, GroupedProblem
from oxinp._ptx.types import c64, f16, f32, f64, i64
from tests.kernels.machine import execute, machine

DEVICE = SimpleNamespace(num_sms=2, cc=(8, 6), max_shared_nbytes=99 * 1024, tuned=lambda _: None)
MMA_SHAPES = [(40, 70, 20), (1, 1, 1), (100, 33, 130), (64, 64, 64), (5, 200, 7)]


def draw(rng, dtype, *shape):
    if dtype.kind == "i":
        return rng.integers(-(2**62), 2**62, shape, dtype)
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if dtype.kind == "c" else values).astype(dtype)


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("majors", [("k", "mn"), ("mn", "k")], ids=str)
@pytest.mark.parametrize(("type_", "acc"), [(f64, f64), (f32, f32), (f16, f32), (c64, c64), (i64, i64)], ids=str)
def test_every_problem(type_, acc, majors, count):
    here, rng = machine(), np.random.default_rng(count)
    problems, operands, held = [], [], []
    for m, n, depth in MMA_SHAPES[:count]:
        a, b = draw(rng, type_.dtype, m, depth), draw(rng, type_.dtype, depth, n)
        stored = [np.ascontiguousarray(x) for x in (a if majors[0] == "k" else a.T, b if majors[1] == "mn" else b.T)]
        addresses = [here.upload(x) for x in (np.zeros((m, n), type_.dtype), *stored)]
        problems.append(GroupedProblem(*addresses, (m, n, depth), (n, *[x.shape[1] for x in stored])))
        operands.append((a, b))
        held += addresses
    plan, table = grouped.plan(Group(type_, acc, type_, *majors), problems, DEVICE)
    held.append(here.upload(table))
    execute(here, plan, inputs=held[-1:])
    for problem, (a, b) in zip(problems, operands, strict=True):
        shape = problem.shape[:2]
        found = here.download(problem.c, a.itemsize * shape[0] * shape[1]).view(a.dtype).reshape(shape)
        if type_ is i64:
            np.testing.assert_array_equal(found, a @ b)
        else:
            bound = np.finfo(a.dtype).eps + 2 * a.shape[1] * np.finfo(acc.dtype).eps
            wide = np.complex128 if type_ is c64 else np.longdouble
            exact = a.astype(wide) @ b.astype(wide)
            assert (np.abs(found - exact) <= bound * (np.abs(a).astype(np.float64) @ np.abs(b))).all()
    for address in held:
        here.free(address)


def test_long_problems_come_first_and_work_is_counted():
    problems = [GroupedProblem(0, 0, 0, shape, (shape[1], shape[2], shape[1])) for shape in MMA_SHAPES]
    plan, table = grouped.plan(Group(f32, f32, f32), problems, DEVICE)
    assert table[:, 5].tolist() == sorted((shape[2] for shape in MMA_SHAPES), reverse=True)
    assert plan.launch.work.flops == sum(2 * m * n * depth for m, n, depth in MMA_SHAPES)
    assert table[0, -1] == 0
