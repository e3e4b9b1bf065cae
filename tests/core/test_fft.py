"""Fourier transforms on the device: NumPy's shapes, dtypes and errors, values within rounding."""

# ruff: noqa: ICN001 - oxinp is np

import numpy
import pytest

import oxinp as np

pytestmark = pytest.mark.usefixtures("on_device")

ONE_AXIS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
SEVERAL_AXES = ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn")
ROUNDINGS = 8  # of the largest result


def values(code, shape):
    rng = numpy.random.default_rng(ord(code))
    x = rng.standard_normal(shape) * 9
    if code in "FD":
        x = x + 1j * rng.standard_normal(shape)
    return abs(x).astype(code) if code in "?BHIQ" else x.astype(code)


def check(name, x, *args, **kwargs):
    """Compare one call; NumPy's value is that of wider numbers."""
    ours = getattr(np.fft, name)(np.asarray(x), *args, **kwargs)
    theirs = getattr(numpy.fft, name)(x, *args, **kwargs)
    assert isinstance(ours, np.ndarray)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    wide = x.astype(numpy.clongdouble if x.dtype.kind == "c" else numpy.longdouble)
    exact = getattr(numpy.fft, name)(wide, *args, **kwargs)
    bound = ROUNDINGS * numpy.finfo(theirs.dtype).eps * abs(exact).max()
    assert abs(numpy.asarray(ours) - exact).max() <= bound


def codes_of(name):
    return "?bHiQfd" if name in ("rfft", "ihfft", "rfft2", "rfftn") else "?bHiQfdFD"


@pytest.mark.parametrize("name", ONE_AXIS)
def test_dtypes(name, stats):
    for code in codes_of(name):
        check(name, values(code, (3, 12)))
    assert not set(stats().fallbacks) - {"__array__"}


@pytest.mark.parametrize("name", ONE_AXIS)
@pytest.mark.parametrize(("n", "axis"), [(None, 0), (5, -1), (16, 1), (30, 0), (1, 2)])
@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
def test_lengths_and_axes(name, n, axis, norm, stats):
    check(name, values(codes_of(name)[-1], (6, 7, 9)), n, axis, norm)
    assert not set(stats().fallbacks) - {"__array__"}


@pytest.mark.parametrize("name", SEVERAL_AXES)
@pytest.mark.parametrize(
    "kwargs", [{}, {"s": (4, 9)}, {"axes": (2, 0)}, {"s": (9, 4), "axes": (1, 2), "norm": "ortho"}]
)
@pytest.mark.filterwarnings("ignore:.*axes.*:DeprecationWarning")
def test_several_axes(name, kwargs, stats):
    check(name, values(codes_of(name)[-1], (6, 7, 9)), **kwargs)
    assert not set(stats().fallbacks) - {"__array__"}


def test_views_and_chains(stats):
    x = values("D", (8, 10, 12))
    a = np.asarray(x)
    ours = np.fft.fft((a[::2, ::-1] * 2).transpose(2, 0, 1), axis=0)
    exact = numpy.fft.fft((x[::2, ::-1] * 2).transpose(2, 0, 1).astype(numpy.clongdouble), axis=0)
    assert abs(numpy.asarray(ours) - exact).max() < 1e-13
    assert abs(numpy.asarray(np.fft.fft(a[1, ::-3, 5:])) - numpy.fft.fft(x[1, ::-3, 5:])).max() < 1e-13
    assert not set(stats().fallbacks) - {"__array__"}


def test_result_to_write_to(stats):
    x = values("D", (4, 10))
    out = np.empty((4, 10), complex)
    assert np.fft.ifft(np.asarray(x), out=out) is out
    assert abs(numpy.asarray(out) - numpy.fft.ifft(x)).max() < 1e-14
    assert not set(stats().fallbacks) - {"__array__"}


def test_numpys_function_finds_ours():
    assert isinstance(numpy.fft.rfft(np.asarray(values("d", 20))), np.ndarray)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((0,), {}), ((-3,), {}), ((4, 3), {}), ((4, -1, "half"), {}), ((2.5,), {}), ((4, 1.5), {}), ((4,), {"norm": 3})],
)
def test_errors(args, kwargs, twin):
    x = values("D", (4, 10))
    twin(lambda xp: xp.fft.fft(xp.asarray(x), *args, **kwargs))


def test_linearity_shift_and_parseval():
    x, y = values("D", 48), values("D", 48)[::-1].copy()
    f = np.fft.fft
    whole, parts = f(np.asarray(2 * x + y)), 2 * f(np.asarray(x)) + f(np.asarray(y))
    assert float(abs(whole - parts).max()) < 1e-12
    turned = numpy.asarray(f(np.asarray(numpy.roll(x, 5)))) * numpy.exp(2j * numpy.pi * 5 * numpy.arange(48) / 48)
    assert abs(turned - numpy.asarray(f(np.asarray(x)))).max() < 1e-12
    assert abs((abs(numpy.asarray(f(np.asarray(x)))) ** 2).sum() / 48 / (abs(x) ** 2).sum() - 1) < 1e-14


def test_batches_have_the_same_bits():
    x = values("F", 60)
    alone = numpy.asarray(np.fft.fft(np.asarray(x)))
    rows = numpy.asarray(np.fft.fft(np.asarray(numpy.tile(x, (5, 1)))))
    assert (rows == alone).all()
