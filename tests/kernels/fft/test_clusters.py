"""Transforms that several blocks share, exchanging by each other's shared memory."""

from types import SimpleNamespace

import numpy as np
import pytest

from oxinp._kernels.fft import batch, tiling
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
    ("shape", "dtype", "expected"),
    [
        ((256, 19), "F", [16]),  # the last columns are cut off
        ((256, 8), "F", [8]),
        ((256, 3), "F", [4]),
        ((256, 5), "D", [16]),
        ((240, 9), "F", [1, 1]),  # fifteen butterflies of the first stage cannot be dealt
        ((128, 9), "F", [1]),
    ],
)
@pytest.mark.parametrize("is_forward", [True, False])
def test_shared_transforms(session, shape, dtype, expected, is_forward):
    x = random(shape, dtype)
    target = np.empty_like(x)
    made = transformed(session, x, target, 0, is_forward=is_forward, device=DEVICE)
    assert clusters(made) == expected
    check(target, x, 0, is_forward=is_forward)


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"), [((2, 3, 16384), "F", [8, 1]), ((1, 8192), "D", [8, 1]), ((1, 65536), "F", [8, 8])]
)
def test_shared_passes(session, monkeypatch, shape, dtype, expected):
    """Columns to columns, and rows to columns."""
    monkeypatch.setattr(tiling, "MOST_IN_PASSES", 8)
    x = random(shape, dtype)
    target = np.empty_like(x)
    # What another test has planned is kept by the memory of its device.
    made = transformed(
        session, x, target, device=SimpleNamespace(**{**vars(DEVICE), "max_shared_nbytes": 8 * 1024 + 8})
    )
    assert clusters(made) == expected
    check(target, x)


def test_without_clusters(session):
    x = random((256, 19), "F")
    target = np.empty_like(x)
    made = transformed(session, x, target, 0, device=WITHOUT)
    assert clusters(made) == [1, 1]
    check(target, x, 0)


@pytest.mark.parametrize("is_far", [False, True])
def test_parts_of_sequences(session, is_far, monkeypatch):
    """Zeros behind a source, results that are not stored; distances of 64 bits."""
    if is_far:
        monkeypatch.setattr(batch, "MAX_INDEX_32", 0)
    n = 256
    given, target = random((n // 3, 9), "F"), np.empty((n // 2, 9), "F")
    made = transformed(session, given, target, 0, n, device=DEVICE)
    assert clusters(made) == [16]
    exact = np.fft.fft(given.astype(np.clongdouble), n, 0)[: n // 2]
    assert rms(target, exact) <= 0.6e-7 * np.sqrt(np.log2(n))


@pytest.mark.parametrize("rotated", ["stored", "read", "both"])
@pytest.mark.parametrize(("shape", "axis"), [((256, 16), 0), ((1, 65536), 1)])
def test_rotated(session, rotated, shape, axis):
    """Frequency 0 in the middle."""
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


def test_rows_to_columns_take_passes(session):
    """What blocks would exchange lies apart in each other's memory."""
    x = random((9, 256), "F").T
    target = np.empty((256, 9), "F")
    made = transformed(session, x, target, 0, device=DEVICE)
    assert clusters(made) == [1, 1]
    check(target, x, 0)
