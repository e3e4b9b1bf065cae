"""What Fourier transforms are by definition: round trips, Parseval, linearity, shifts, of lengths that are drawn."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies

import oxinp

LENGTHS = strategies.integers(1, 400)
SETTINGS = settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
ERRORS = {"F": 3e-6, "D": 6e-15}  # of the largest number

pytestmark = pytest.mark.usefixtures("on_device")


def values(n, code, seed=0):
    rng = np.random.default_rng(n + seed)
    return (rng.standard_normal((2, n)) + 1j * rng.standard_normal((2, n))).astype(code)


def check(found, expected, code):
    assert abs(np.asarray(found) - expected).max() <= ERRORS[code] * max(1, abs(np.asarray(expected)).max())


@SETTINGS
@given(LENGTHS, strategies.sampled_from("FD"))
def test_properties(n, code):
    x, y, fft = values(n, code), values(n, code, 1), oxinp.scipy.fft
    a, b = oxinp.asarray(x), oxinp.asarray(y)
    transform = fft.fft(a)
    check(fft.ifft(transform), x, code)
    check(fft.fft(a * 2 + b), 2 * np.asarray(transform) + np.asarray(fft.fft(b)), code)
    energy = (abs(np.asarray(transform)) ** 2).sum() / n
    assert abs(energy / (abs(x) ** 2).sum() - 1) <= ERRORS[code] * 10
    turned = np.asarray(transform) * np.exp(-2j * np.pi * 3 * np.arange(n) / n)
    check(fft.fft(oxinp.asarray(np.roll(x, 3, axis=1))), turned, code)


@SETTINGS
@given(LENGTHS, strategies.sampled_from("fd"), strategies.integers(1, 4))
def test_round_trips_of_real_transforms(n, code, kind):
    x, fft = values(n, code.upper()).real.copy(), oxinp.scipy.fft
    a = oxinp.asarray(x)
    check(fft.irfft(fft.rfft(a), n), x, code.upper())
    if n > 1:
        check(fft.idct(fft.dct(a, kind), kind), x, code.upper())
    check(fft.idst(fft.dst(a, kind, norm="ortho"), kind, norm="ortho"), x, code.upper())


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2"])
def test_lengths_without_axes_are_warned_of(name):
    x = np.arange(100.0).reshape(10, 10)
    with pytest.warns(DeprecationWarning, match="`axes` should not be `None`"):
        expected = getattr(np.fft, name)(x, (-1, 5), None)
    with pytest.warns(DeprecationWarning, match="`axes` should not be `None`") as caught:
        found = getattr(oxinp.fft, name)(oxinp.asarray(x), (-1, 5), None)
    assert len(caught) == 1
    check(found, expected, "D")
