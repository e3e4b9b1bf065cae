"""Transforms of `scipy.fft` on the device: SciPy's shapes, dtypes and errors, values within rounding, no fallback."""

import numpy as np
import pytest
import scipy

import oxinp
from tests.comparator import same_outcome

pytestmark = pytest.mark.usefixtures("on_device")

ROUNDINGS = 8  # of the largest result
FOURIER = [f"{name}{suffix}" for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft") for suffix in ("", "2", "n")]
TYPES = (1, 2, 3, 4)


def values(code, shape):
    rng = np.random.default_rng(ord(code))
    x = rng.standard_normal(shape) * 9
    return (x + 1j * rng.standard_normal(shape)).astype(code) if code in "FD" else x.astype(code)


def check(name, x, *args, **kwargs):
    """Compare one call with SciPy's, whose value is that of wider numbers."""
    with oxinp.config.override(fallback="error"):
        ours = getattr(oxinp.scipy.fft, name)(oxinp.asarray(x), *args, **kwargs)
        oxinp.evaluate(ours)
    theirs = getattr(scipy.fft, name)(x, *args, **kwargs)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    wide = x.astype(np.clongdouble if x.dtype.kind == "c" else np.longdouble)
    exact = getattr(scipy.fft, name)(wide, *args, **kwargs)
    error = abs(np.asarray(ours) - exact).max()
    assert error <= ROUNDINGS * np.finfo(theirs.dtype).eps * abs(exact).max()


@pytest.mark.parametrize("name", FOURIER)
def test_dtypes_of_fourier_transforms(name):
    for code in "eif" if name.startswith(("rfft", "ihfft")) else "eifF":
        check(name, values(code, (3, 12)), norm="ortho", workers=2)


@pytest.mark.parametrize("name", ["hfft2", "ihfftn", "irfftn", "fft2"])
@pytest.mark.parametrize("kwargs", [{"s": (4, -1), "axes": (2, 0)}, {"s": (9, 4), "axes": (1, 2), "norm": "forward"}])
def test_lengths_of_fourier_transforms(name, kwargs):
    check(name, values("d", (6, 7, 9)), **kwargs, overwrite_x=True)


@pytest.mark.parametrize("name", ["dct", "idct", "dst", "idst"])
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("n", [2, 9, 20])
def test_cosine_and_sine_transforms(name, kind, n):
    check(name, values("d", (3, n)), kind)
    check(name, values("f", (3, n)), kind, norm="ortho")
    check(name, values("d", (3, n)), kind, norm="forward", orthogonalize=True)
    check(name, values("d", (3, n)), kind, norm="ortho", orthogonalize=False)


@pytest.mark.parametrize("name", ["dctn", "idctn", "dstn", "idstn"])
@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"s": (8, 9), "axes": (2, 0), "type": 3, "norm": "ortho"},
        {"s": (4, 6), "axes": (1, 2)},
        {"type": 4, "axes": 1},
        {"type": 1, "s": [5], "axes": [0]},
    ],
)
def test_several_axes(name, kwargs):
    check(name, values("d", (6, 3, 8)), **kwargs)


@pytest.mark.parametrize("code", "?eiFD")
def test_dtypes_of_cosine_transforms(code):
    check("dct", values(code, (4, 10)), 2, 12, 1)
    check("idst", values(code, (4, 10)), 3, 6, 0)


@pytest.mark.parametrize("kind", [2, 3])
@pytest.mark.parametrize("n", [40, 256])
def test_lengths_in_one_kernel(kind, n, stats):
    x = values("f", (2, n))
    check("dct", x, kind, n)
    check("dst", x[:, : n // 2 + 1], kind, n)
    oxinp.cuda.reset_stats()
    a = oxinp.asarray(x)
    oxinp.evaluate(oxinp.scipy.fft.dct(a, kind))
    oxinp.evaluate(oxinp.scipy.fft.dst(a.T, kind, axis=0))
    assert stats().launches == 2


@pytest.mark.parametrize("name", ["fht", "ifht"])
@pytest.mark.parametrize(("n", "bias"), [(16, 0.0), (15, 0.3)])
def test_hankel_transforms(name, n, bias):
    x = values("d", (2, n))
    with oxinp.config.override(fallback="error"):
        ours = getattr(oxinp.scipy.fft, name)(oxinp.asarray(x), 0.1, 0.5, 0.2, bias)
    theirs = getattr(scipy.fft, name)(x, 0.1, 0.5, 0.2, bias)
    assert abs(np.asarray(ours) - theirs).max() <= 1e-13 * abs(theirs).max()


def test_singular_hankel_transforms_warn():
    x = values("d", 8)
    with pytest.warns(UserWarning, match="singular transform") as ours:
        found = oxinp.scipy.fft.fht(oxinp.asarray(x), 0.1, -0.5, 0.0, -0.5)
    with pytest.warns(UserWarning, match="singular transform") as theirs:
        expected = scipy.fft.fht(x, 0.1, -0.5, 0.0, -0.5)
    assert str(ours[0].message) == str(theirs[0].message)
    assert abs(np.asarray(found) - expected).max() <= 1e-13 * abs(expected).max()


REFUSED = """
fft(x, 0)
fft(x, -1)
fft(x, workers=0)
fft(x, plan=1)
fft(x, norm="half")
rfft(x + 1j)
fftn(x, s=(1, 2, 3))
fft2(x[0])
fft2(x, s=(2, 3, 4))
irfft2(x, (2, 3, 4))
dctn(x, s=(2, 3, 4), axes=(0, 1))
idstn(x, s=(2, 3), axes=(1,))
dct(x, 5)
dct(x, 2, 0)
dct(x, 1, 1)
dct(x, norm="half")
dct(x, axis=3)
dct(x, axis=None)
dct(x, 2.0)
idct(x, 3, 0)
idct(x[:, :1], 1)
idst(x[:, :0], 2)
idctn(x, s=(0, 2))
dst(x, workers="a")
dctn(x, axes=(0, 0))
idct(x[:0])
""".strip().splitlines()


@pytest.mark.parametrize("code", REFUSED)
def test_exceptions(code):
    x = values("d", (3, 8))
    names = {id(oxinp.scipy.fft): oxinp.asarray(x), id(scipy.fft): x}
    same_outcome(lambda fft: eval(f"fft.{code}", {"fft": fft, "x": names[id(fft)]}), oxinp.scipy.fft, scipy.fft)  # noqa: S307 - our own code
