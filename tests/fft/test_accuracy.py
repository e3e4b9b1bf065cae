"""Root-mean-square errors of Fourier transforms over random data: below limits, and no larger than pocketfft's."""

import numpy as np
import pytest
import scipy.fft

import oxinp
from tests.thinned import thinned

pytestmark = pytest.mark.usefixtures("on_device")

NUM_ELEMENTS = 1 << 14  # of all rows of a length
LIMITS = {"F": 0.45e-7, "D": 0.9e-16}  # times the root of log2 n
LIMITS_REAL = {"F": 0.48e-7, "D": 0.95e-16}  # with a step between real and complex sequences
LIMITS_CONVOLVED = {"F": 0.78e-7, "D": 1.4e-16}  # of Rader's and Bluestein's convolutions
RANDOM = 1.02  # times pocketfft's error that ours may seem
LENGTHS = (9, 49, 121, 169, 343, 625, 23, 67, 73, 101, 109)
COMPARED = (
    8,
    16,
    64,
    1024,
    4096,
    27,
    243,
    25,
    1000,
    4095,
    17,
    31,
    37,
    61,
    97,
    257,
    1009,
)  # to pocketfft
SUMMED = (67, 97, 113, 157, 241, 269)
POWERS_OF_2 = (8, 16, 32, 64, 128, 1024, 2048, 4096, 1 << 16)  # the last by a kernel for the last step
FACTORED = (58, 87, 134, 201)  # of single precision from 134 on
CONVOLVED = (113, 227, 257, 509, 1009)


def numbers(n, code):
    rng = np.random.default_rng(n)
    return rng.standard_normal((-(-NUM_ELEMENTS // n), 2 * n)).astype(code.lower()).view(code)


def error(found, exact):
    return np.sqrt(np.mean(abs(found - exact) ** 2) / np.mean(abs(exact) ** 2))


@pytest.mark.parametrize(("n", "code"), thinned(sorted({*LENGTHS, *COMPARED, *CONVOLVED}), "FD"))
def test_complex_transforms(n, code):
    x = numbers(n, code)
    exact = scipy.fft.fft(x.astype(np.clongdouble))
    limits = LIMITS_CONVOLVED if n in CONVOLVED else LIMITS
    for a in (oxinp.asarray(x), oxinp.asarray(x.T.copy()).T):
        ours = error(np.asarray(oxinp.fft.fft(a)), exact)
        assert ours <= limits[code] * np.sqrt(np.log2(n))
        assert n not in COMPARED or ours <= RANDOM * error(scipy.fft.fft(x), exact)


@pytest.mark.parametrize("n", [117, 143, 169, 187, 207, 221, 253, 403, 481, 493])
def test_odd_lengths_of_single_precision(n):
    """Real sequences that are transformed two at a time err less than pocketfft's, by more than chance."""
    x = np.random.default_rng(n).standard_normal(((1 << 18) // n // 2 * 2, n)).astype("f")
    half = scipy.fft.rfft(x.astype(np.longdouble))
    given = half.astype("F")
    real = scipy.fft.irfft(given.astype(np.clongdouble), n)
    for found, theirs, exact in (
        (oxinp.fft.rfft(oxinp.asarray(x)), scipy.fft.rfft(x), half),
        (oxinp.fft.irfft(oxinp.asarray(given), n), scipy.fft.irfft(given, n), real),
    ):
        assert error(np.asarray(found), exact) < error(theirs, exact)


@pytest.mark.parametrize(
    ("n", "code"),
    thinned(
        sorted({*POWERS_OF_2, *range(9, 40), *FACTORED, *SUMMED, 51, 80, 100, 111, 243, 625, 1000, 257, 1009}), "fd"
    ),
)
def test_real_transforms(n, code):
    x = numbers(n, code.upper()).real.copy()
    limits = LIMITS_CONVOLVED if n in (257, 1009) else LIMITS_REAL
    limit = limits[code.upper()] * np.sqrt(np.log2(n))
    half = scipy.fft.rfft(x.astype(np.longdouble))
    given = half.astype(code.upper())
    real = scipy.fft.irfft(given.astype(np.clongdouble), n)
    for found, theirs, exact in (
        (oxinp.fft.rfft(oxinp.asarray(x)), scipy.fft.rfft(x), half),
        (oxinp.fft.irfft(oxinp.asarray(given), n), scipy.fft.irfft(given, n), real),
    ):
        ours = error(np.asarray(found), exact)
        assert ours <= limit
        assert ours <= RANDOM * error(theirs, exact)
