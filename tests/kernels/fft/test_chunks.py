"""Parts of a batch, transformed one after the other."""

from types import SimpleNamespace

import numpy as np
import pytest

from oxinp._kernels.fft import chunks
from oxinp._kernels.fft.axes import COMPLEX, HALF, REAL, Array, Problem, plan_axes
from oxinp._kernels.fft.batch import Chained
from oxinp._kernels.fft.codelets import multiply
from oxinp._kernels.plan import Argument
from oxinp._kernels.problem import Instr
from oxinp._ptx.types import c128, f64, from_dtype
from tests.kernels.fft.test_plan import random, rms
from tests.kernels.machine import Session, machine

DEVICE = SimpleNamespace(num_sms=2, cc=(8, 0), max_shared_nbytes=8 * 1024, tuned=lambda _: None)
ROUNDING = 1.1e-16


@pytest.fixture
def session(monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_NBYTES", 1 << 15)
    session = Session(machine())
    yield session
    session.close()


def sides(*arrays):
    return [
        Array(Argument(name), from_dtype(a.dtype), a.shape, tuple(step // a.itemsize for step in a.strides), 256)
        for name, a in zip(("in0", "out0"), arrays, strict=True)
    ]


@pytest.mark.parametrize(
    ("kind", "shape", "axes", "num_launches"),
    [
        (COMPLEX, (7, 2048), (1,), 2 * 7),  # two passes of a sequence each
        (COMPLEX, (7, 1024), (1,), 2 * 4),  # of two, and of the last one
        (COMPLEX, (20, 16, 24), (0, 1, 2), 2 * 4 + 1),  # two axes of five planes, then the third
        (COMPLEX, (11, 16, 24), (1, 2), 2 * 3),  # planes of a batch
        (COMPLEX, (16, 128), (0, 1), 2),  # rows once, columns once: nobody reads again
        (COMPLEX, (3000, 16), (1,), 1),
        (COMPLEX, (2048, 7), (0,), 2),  # columns lie side by side
        (REAL, (20, 16, 24), (0, 1, 2), 2 * 4 + 1),
        (HALF, (13, 16, 24), (1, 2), 2 * 3),
        (REAL, (7, 2048), (1,), 3 * 7),
    ],
)
def test_parts(session, kind, shape, axes, num_launches):
    half = (*shape[:-1], shape[-1] // 2 + 1)
    x = random(half if kind == HALF else shape, "d" if kind == REAL else "D")
    target = np.empty(half if kind == REAL else shape, "d" if kind == HALF else "D")
    made = plan_axes(*sides(x, target), c128, Problem(kind, axes, shape[axes[-1]], kind != HALF), DEVICE)
    assert len(made.steps) == num_launches
    session.run(made, [target], [session.pointer(x)])
    wide = x.astype(np.longdouble if kind == REAL else np.clongdouble)
    if kind == HALF:
        exact = np.fft.irfftn(wide, [shape[axis] for axis in axes], axes, "forward")
    else:
        exact = (np.fft.fftn if kind == COMPLEX else np.fft.rfftn)(wide, axes=axes)
    assert rms(target, exact) <= ROUNDING * np.sqrt(np.log2(target.size)) * (1 if kind == COMPLEX else 1.5)


def _product(k, a, b):
    return k.compound(a.type, *multiply(k, a.parts, b.parts))


def _scaled_power(k, a, b):
    real, imag = a.parts
    return k.fma(real, real, imag * imag) * b


def test_chains_move_along(session):
    """Operands of both ends, one of them the same for all sequences, and results of another type."""
    n, count = 2048, 3
    x, h, w, target = random((count, n), "D"), random(n, "D"), random((count, n), "d"), np.empty((count, n), "d")
    source, result = sides(x, target)
    before = Chained(
        (c128, c128), (Argument("in0"), Argument("in1")), (True, True), (Instr(_product, c128, (0, 1)),), 2, c128
    )
    after = Chained((f64,), (Argument("in2"),), (True,), (Instr(_scaled_power, f64, (0, 1)),), 2, f64)
    source = source._replace(chain=before, others=((n, 1), (0, 1)))
    result = result._replace(type=c128, chain=after, others=((n, 1),))
    made = plan_axes(source, result, c128, Problem(COMPLEX, (1,), n), DEVICE)
    assert len(made.steps) == 2 * count
    session.run(made, [target], [session.pointer(x), session.pointer(h), session.pointer(w)])
    exact = abs(np.fft.fft((x * h).astype(np.clongdouble))) ** 2 * w
    assert abs(target - exact).max() <= 1e-14 * abs(exact).max()


@pytest.mark.usefixtures("session")
def test_workspaces_are_of_a_part():
    x = random((16, 2048), "D")
    made = plan_axes(*sides(x, np.empty_like(x)), c128, Problem(COMPLEX, (1,), 2048), DEVICE)
    assert made.scratch_nbytes == 2048 * 16
