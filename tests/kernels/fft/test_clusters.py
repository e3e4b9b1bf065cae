"""Transforms that several blocks share, exchanging by each other's shared memory."""

from types import SimpleNamespace

import numpy as np
import pytest

from oxinp._kernels.fft import batch
from oxinp._kernels.fft.axes import COMPLEX, Array, Problem, plan_axes
from oxinp._kernels.plan import Argument
from oxinp._ptx.kernel import traced_with
from oxinp._ptx.types import from_dtype
from tests.kernels.fft.test_plan import check, random, rms, transformed
from tests.kernels.machine import Session, machine

# Lengths of a few hundred take all of a block's memory there.
DEVICE = SimpleNamespace(num_sms=2, cc=(9, 0), max_shared_nbytes=8 * 1024, tuned=lambda _: None)
WITHOUT = SimpleNamespace(**{**vars(DEVICE), "cc": (8, 0)})


@pytest.fixture
def session():
    session = Session(machine())
    yield session
    session.close()


def clusters(made):
    """Blocks of a cluster, per launch."""
    return [traced_with(step.kernel)[0].cluster for step in made.steps]


@pytest.mark.parametrize(
    ("shape", "axis", "dtype", "expected"),
    [
        ((128, 19), 0, "F", [4]),  # along columns, the last of which are cut off
        ((256, 8), 0, "F", [8]),
        ((144, 9), 0, "F", [4]),
        ((128, 5), 0, "D", [4]),
        ((160, 9), 0, "F", [1]),  # ten butterflies of the first stage cannot be dealt to eight blocks
        ((3, 512), 1, "F", [2]),  # along rows
        ((1, 65536), 1, "F", [8, 8]),  # passes: columns to columns, rows to columns
        ((1, 8192), 1, "D", [8, 1]),
        ((2, 3, 16384), 2, "F", [8, 1]),
    ],
)
@pytest.mark.parametrize("is_forward", [True, False])
def test_shared_transforms(session, shape, axis, dtype, expected, is_forward):
    x = random(shape, dtype)
    target = np.empty_like(x)
    made = transformed(session, x, target, axis, is_forward=is_forward, device=DEVICE)
    assert clusters(made) == expected
    check(target, x, axis, is_forward=is_forward)


def test_without_clusters(session):
    x = random((128, 19), "F")
    target = np.empty_like(x)
    made = transformed(session, x, target, 0, device=WITHOUT)
    assert clusters(made) == [1]
    check(target, x, 0)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("is_far", [False, True])
def test_parts_of_sequences(session, axis, is_far, monkeypatch):
    """Zeros behind a source, results that are not stored; distances of 64 bits."""
    if is_far:
        monkeypatch.setattr(batch, "MAX_INDEX_32", 0)
    n = (256, 512)[axis]
    shape = (n, 9) if axis == 0 else (2, n)
    x = random(shape, "F")
    given = x[: n // 3] if axis == 0 else x[:, : n // 3]
    target = np.empty((n // 2, 9) if axis == 0 else (2, n // 2), "F")
    made = transformed(session, given.copy(), target, axis, n, device=DEVICE)
    assert clusters(made)[0] > 1
    exact = np.fft.fft(given.astype(np.clongdouble), n, axis)
    exact = exact[: n // 2] if axis == 0 else exact[:, : n // 2]
    assert rms(target, exact) <= 0.6e-7 * np.sqrt(np.log2(n))


@pytest.mark.parametrize("rotated", ["stored", "read", "both"])
@pytest.mark.parametrize(("shape", "axis"), [((144, 16), 0), ((128, 16), 0), ((1, 65536), 1)])
def test_rotated(session, rotated, shape, axis):
    """Frequency 0 in the middle, also where the last radix would be odd."""
    x = random(shape, "F")
    target = np.empty_like(x)
    source, result = (Array(Argument(name), from_dtype(x.dtype), shape, (shape[1], 1), 256) for name in ("in0", "out0"))
    ends = [(axis,) if rotated in (name, "both") else () for name in ("stored", "read")]
    problem = Problem(COMPLEX, (axis,), shape[axis], True, 1.0, *ends)
    made = plan_axes(source, result, from_dtype(x.dtype), problem, DEVICE)
    session.run(made, [target], [session.pointer(x)])
    given = np.fft.ifftshift(x, axis) if ends[1] else x
    exact = np.fft.fft(given.astype(np.clongdouble), axis=axis)
    exact = np.fft.fftshift(exact, axis) if ends[0] else exact
    assert rms(target, exact) <= 0.6e-7 * np.sqrt(np.log2(shape[axis]))


def test_real_transforms_stay_in_a_block(session):
    """They read, or write, an element and its mirrored one together."""
    x = random((256, 9), "f")
    half = np.empty((129, 9), "F")
    made = transformed(session, x, half, 0, n=256, device=DEVICE)
    assert clusters(made) == [1]
    assert rms(half, np.fft.rfft(x.astype(np.longdouble), axis=0)) <= 0.6e-7 * np.sqrt(8)
