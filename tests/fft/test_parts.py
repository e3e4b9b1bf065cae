"""Transforms of arrays that the device's memory does not hold: in parts, with the library's results, and reports."""

import numpy as np
import pytest
import scipy.fft

import oxinp
from oxinp._core.ops import fft_parts

pytestmark = pytest.mark.usefixtures("on_device")


@pytest.fixture
def limited(monkeypatch):
    """Let transforms have so many bytes of the device's memory: of a real limit, what other tests left has some."""

    monkeypatch.setattr(fft_parts, "WORKSPACE", 1)  # larger parts, of which there are fewer

    def limit(nbytes):
        oxinp.cuda.limit_memory(1 << 30)
        monkeypatch.setattr(fft_parts, "memory", lambda: nbytes)

    yield limit
    oxinp.cuda.limit_memory(None)


def values(code, shape, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape)).astype(code) if code in "FD" else x.astype(code)


def check(name, x, *args, **kwargs):
    with oxinp.explain() as report:
        ours = np.asarray(getattr(oxinp.scipy.fft, name)(x.copy(), *args, **kwargs))
    expected = getattr(scipy.fft, name)(x, *args, **kwargs)
    assert (ours.dtype, ours.shape) == (expected.dtype, expected.shape)
    assert abs(ours - expected).max() <= 32 * np.finfo(ours.dtype).eps * abs(expected).max()
    return [entry for entry in report.entries if entry.what.startswith("part of")]


@pytest.mark.parametrize(
    ("name", "code", "axis"), [("fft", "D", 0), ("fft", "F", 1), ("rfft", "d", 1), ("irfft", "D", 0), ("ihfft", "d", 0)]
)
def test_many(limited, name, code, axis):
    x = values(code, (24, 12) if axis else (12, 24))
    limited(x.nbytes * 6 // 5)
    assert len(check(name, x, axis=axis, overwrite_x=axis == 1)) > 2


def test_operands_are_overwritten_where_they_may_be(limited):
    x = values("D", (12, 24))
    expected = scipy.fft.fft(x, axis=0)
    limited(x.nbytes)
    found = oxinp.scipy.fft.fft(x, axis=0, overwrite_x=True)
    assert np.shares_memory(np.asarray(found), x)
    assert abs(np.asarray(found) - expected).max() <= 1e-14 * abs(expected).max()


@pytest.mark.parametrize("name", ["fftn", "rfft2", "irfftn", "hfft2"])
def test_several_axes(limited, name):
    limited(2_500)
    assert check(name, values("d" if name == "rfft2" else "D", (6, 3, 8)), norm="ortho")


@pytest.mark.parametrize(
    ("name", "code", "n"),
    [("ifft", "F", 120), ("rfft", "d", 99), ("hfft", "D", 120)],
)
def test_long(limited, name, code, n):
    limited(1_400)
    assert len(check(name, values(code, (1, n - 20)), n, norm="ortho")) > 4


def test_lengths_beyond_kernels(monkeypatch):
    monkeypatch.setattr(fft_parts, "MAX_LENGTH", 100)
    monkeypatch.setattr(fft_parts, "MAX_SPLIT", 10_000)
    assert len(check("fft", values("D", (6, 20)), 120)) == 12


def test_primes_say_what_is_missing(limited):
    limited(12_000)
    needed = 1009 * 16 * 3  # the workspace that `limited` lets transforms have, too
    message = rf"a transform of 1009 elements needs {needed} bytes .* the smaller factors are 1 and 1009"
    with pytest.raises(MemoryError, match=message):
        oxinp.fft.fft(values("D", (1009,)))


def test_exceptions_are_the_librarys(limited):
    limited(1000)
    with pytest.raises(ValueError, match="Invalid number of FFT data points"):
        oxinp.fft.fft(values("D", (400,)), 0)


@pytest.mark.parametrize(
    ("name", "code", "shape", "nbytes"),
    [
        ("fft", "D", (12, 24), 5_000),
        ("irfft", "D", (12, 24), 5_000),
        ("fft", "D", (120,), 1_400),
        ("rfft", "d", (99,), 1_400),
    ],
)
def test_progress_comes_to_all(limited, monkeypatch, name, code, shape, nbytes):
    """Along each axis what has been done grows to the bytes of what is transformed."""
    told = []

    class Progress(fft_parts.Progress):
        def __init__(self, what, total):
            super().__init__(what, total)
            told.append(self)

    monkeypatch.setattr(fft_parts, "Progress", Progress)
    limited(nbytes)
    assert len(check(name, values(code, shape))) > 1
    assert [(each._what, each._total) for each in told] == [(name, values(code, shape).nbytes)]
    assert told[0]._done == told[0]._total


def test_parts_take_half_of_the_memory(limited, monkeypatch):
    """All that are computed at a time, with their results and the workspace."""
    sizes, compute = [], fft_parts.transform

    def transform(x, request):
        sizes.append(x.nbytes)
        return compute(x, request)

    monkeypatch.setattr(fft_parts, "transform", transform)
    limited(12_000)
    assert check("fft", values("D", (24, 36)), axis=1)
    taken = max(sizes) * (2 + fft_parts.WORKSPACE) * fft_parts.NUM_LANES
    assert 4_000 < taken <= 6_000
