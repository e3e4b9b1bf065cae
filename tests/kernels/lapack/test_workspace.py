"""Smaller workspaces: the same bits from arrays that share memory, and which arrays may."""

from types import SimpleNamespace

import numpy as np
import pytest

from oxinp._kernels import workspace
from oxinp._kernels.lapack import exponential, pivoted, symmetric
from oxinp._kernels.lapack import plan as lapack
from oxinp._kernels.plan import Argument, Copy, Fill, Plan, Read, Scratch, beside
from oxinp._kernels.problem import Operand
from oxinp._ptx.types import f32, f64
from tests.kernels.lapack.case import draw, operand_of, run, status
from tests.kernels.machine import machine

DEVICE = SimpleNamespace(num_sms=3, cc=(8, 0), max_shared_nbytes=160 * 1024, tuned=lambda _: None)
KB = 1 << 10


def copied(target, source):
    return Copy(target, source, KB)


def test_arrays_of_different_steps_share_memory():
    scratch, (source, out) = Scratch(), (Argument("in0"), Argument("out0"))
    first, second, third = (scratch.take(KB) for _ in range(3))
    steps = (copied(first, source), copied(second, first), copied(third, second), copied(out, third))
    plan = workspace.compacted(scratch.plan(steps), [0])
    assert plan.scratch_nbytes == 2 * KB
    places = [step.target.offset for step in plan.steps[:3]]
    assert places[0] == places[2] != places[1]
    assert [step.source for step in plan.steps[1:]] == [step.target for step in plan.steps[:3]]


def test_arrays_lie_in_outputs_before_these_are_written():
    scratch, out = Scratch(), Argument("out0")
    first, second = scratch.take(KB), scratch.take(KB)
    steps = (copied(first, Argument("in0")), copied(second, first), copied(out, second))
    plan = workspace.compacted(scratch.plan(steps), [KB])
    assert plan.scratch_nbytes == KB
    assert plan.steps[0].target == out
    # Not one that the step which writes the output reads, nor one that is larger.
    assert workspace.compacted(scratch.plan(steps[1:]), [KB]).steps[-1].source.buffer == "scratch"
    assert workspace.compacted(scratch.plan(steps), [KB - 1]).scratch_nbytes == 2 * KB


def test_arrays_of_steps_beside_others_are_apart():
    scratch, source = Scratch(), Argument("in0")
    first, second = scratch.take(KB), scratch.take(KB)
    steps = beside([copied(first, source)], [Fill(second, KB, 0)])
    assert workspace.compacted(scratch.plan(steps), []).scratch_nbytes == 2 * KB
    one_by_one = (*steps[0].urgent, *steps[0].rest, Read(second))
    assert workspace.compacted(scratch.plan(one_by_one), []).scratch_nbytes == KB


def test_workspace_of_a_plan_in_another_one():
    inner = Scratch()
    parts = [inner.take(n) for n in (100, 1000)]
    made = inner.plan([copied(*parts)])
    scratch = Scratch()
    scratch.take(1)
    assert scratch.take_of(made) == Argument("scratch", 256)
    assert scratch.take_of(Plan((), 300)).offset == 256 + made.scratch_nbytes
    assert scratch.parts == [(0, 1), (256, 100), (512, 1000), (1536, 300)]


def _outputs(name, a):
    order = len(a)
    square, column = np.full_like(a, np.nan), np.full(order, np.nan, a.dtype)
    return {
        "inv": [square, status()],
        "solve": [square, status()],
        "qr": [square, square],
        "pivoted": [np.zeros(order, np.int32), square, square],
        "eigh": [column.real.copy(), square],
    }[name]


def _planned(name, a, device):
    given = operand_of(a)
    if name == "solve":
        return lapack.plan_solve(a.shape, given, given, device)
    if name == "pivoted":
        return pivoted.plan(a.shape, given, device, "reduced")
    if name == "eigh":
        return symmetric.plan(a.shape, given, device, has_vectors=True)
    return (lapack.plan_invert if name == "inv" else lapack.plan_qr)(a.shape, given, device)


@pytest.mark.parametrize(
    ("name", "dtype", "order", "most"),
    [
        ("inv", "f8", 48, 0.55),
        ("qr", "f8", 32, 0.9),
        ("pivoted", "f4", 32, 0.9),
        ("eigh", "f8", 18, 0.9),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (("inv", "c8", 33, 0.65), ("qr", "c16", 32, 0.9), ("eigh", "c16", 19, 0.9))
        ),
    ],
)
def test_same_bits_in_less_memory(name, dtype, order, most):
    a = draw(np.random.default_rng(order), dtype, order, order)
    a = a + a.conj().T
    plan, outputs = _planned(name, a, DEVICE), _outputs(name, a)
    less = workspace.compacted(plan, [x.nbytes for x in outputs])
    assert less.scratch_nbytes < most * plan.scratch_nbytes
    for found, wanted in zip(run(machine(), less, outputs, [a]), run(machine(), plan, outputs, [a]), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ["f4", "c16"])
def test_systems_beside_their_matrices(dtype):
    a = draw(np.random.default_rng(5), dtype, 40, 40)
    device, outputs = workspace.Sparing(DEVICE), _outputs("solve", a)
    assert workspace.is_sparing(device)
    plan = _planned("solve", a, device)
    assert plan.scratch_nbytes < 0.65 * _planned("solve", a, DEVICE).scratch_nbytes
    x, _ = run(machine(), plan, outputs, [a, a])
    np.testing.assert_allclose(x, np.eye(40), atol=500 * np.finfo(dtype).eps)


HOPPER = SimpleNamespace(num_sms=132, cc=(9, 0), max_shared_nbytes=232448, tuned=lambda _: None)


@pytest.mark.parametrize("type", [f32, f64])
def test_products_are_not_emulated_where_memory_is_short(type):
    shape, settings = (4096, 4096), ("auto", 4 << 30)
    plans = [exponential.plan_powers(shape, type, device, settings) for device in (HOPPER, workspace.Sparing(HOPPER))]
    assert plans[0].scratch_nbytes > 4096**2 * type.nbytes > plans[1].scratch_nbytes


def test_single_precision_is_not_widened_where_memory_is_short():
    shape = 8192, 8192
    for planned in (
        lambda device: lapack.plan_cholesky(shape, Operand(f32, (8192, 1), 256), device),
        lambda device: lapack.plan_solve((8192, 1), Operand(f32, (8192, 1), 256), Operand(f32, (1, 1), 256), device),
    ):
        wide, narrow = planned(HOPPER), planned(workspace.Sparing(HOPPER))
        assert wide.scratch_nbytes > 2 * 8192**2 * f32.nbytes > narrow.scratch_nbytes
