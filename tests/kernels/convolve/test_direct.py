"""Convolutions by their definition: every type, ranges of the full one, more taps than a chunk, infinities."""

import numpy as np
import pytest

from oxinp._kernels.convolve import direct
from oxinp._ptx.types import from_dtype
from tests.comparator import assert_same
from tests.kernels.machine import Session, machine


@pytest.fixture
def session():
    session = Session(machine())
    yield session
    session.close()


def run(session, x, taps, start, count):
    output = np.empty(count, x.dtype)
    plan = direct.convolve(x.size, taps.size, start, count, from_dtype(x.dtype))
    session.run(plan, [output], [session.pointer(x), session.pointer(taps)])
    return output


@pytest.mark.parametrize("code", "bBhHiIlLefdFD")
def test_types(session, code):
    size, num_taps = 400, 23
    rng = np.random.default_rng(size)
    x, taps = (rng.integers(0, 100, n).astype(code) for n in (size, num_taps))
    if code == "e":
        x, taps = x % 8, taps % 8
    assert_same(run(session, x, taps, 0, size + num_taps - 1), np.convolve(x, taps))


@pytest.mark.parametrize(("size", "num_taps", "start", "count"), [
    (4000, 600, 0, 4599), (4000, 600, 599, 3401), (4000, 600, 300, 4000), (300, 300, 0, 599), (2500, 257, 2000, 1),
    (700, 1, 0, 700),
])  # fmt: skip
def test_many_taps(session, size, num_taps, start, count):
    rng = np.random.default_rng(num_taps)
    x, taps = (rng.integers(-1000, 1000, n) for n in (size, num_taps))
    expected = np.convolve(x, taps)[start : start + count]
    assert_same(run(session, x, taps, start, count), expected)
    assert_same(run(session, x.astype("f8"), taps.astype("f8"), start, count), expected.astype("f8"))


def test_infinities_stay_where_they_are(session):
    x, taps = np.ones(900), np.ones(300)
    taps[7], x[800] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        expected = np.convolve(x, taps)
    assert_same(run(session, x, taps, 0, 1199), expected)
