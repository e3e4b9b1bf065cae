"""QR on the device: NumPy's factors, signs included, in all its modes."""

# ruff: noqa: ICN001 - oxinp is np

import numpy
import pytest

import oxinp as np

pytestmark = pytest.mark.usefixtures("on_device")

CODES = "fdFD"
SHAPES = [(6, 6), (36, 9), (9, 36), (2, 3, 9, 8)]


def draw(code, *shape):
    rng = numpy.random.default_rng(ord(code) + len(shape))
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if code in "FD" else values).astype(code)


def check(found, expected, code):
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    allowed = 300 * numpy.finfo(code).eps * max(1, numpy.abs(expected).max())
    assert numpy.abs(numpy.asarray(found) - expected).max() <= allowed


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_reduced(shape, code, stats):
    a = draw(code, *shape)
    found, expected = np.linalg.qr(np.asarray(a)), numpy.linalg.qr(a)
    check(found.Q, expected.Q, code)
    check(found.R, expected.R, code)
    assert not numpy.tril(numpy.asarray(found.R), -1).any()
    assert not set(stats().fallbacks) - {"__array__"}


@pytest.mark.parametrize("mode", ["complete", "r", "raw"])
@pytest.mark.parametrize("shape", SHAPES[:3], ids=str)
def test_modes(shape, mode):
    a = draw("d", *shape)
    found, expected = np.linalg.qr(np.asarray(a), mode), numpy.linalg.qr(a, mode)
    for ours, numpys in zip(*((x,) if mode == "r" else x for x in (found, expected)), strict=True):
        check(ours, numpys, "d")
    if mode == "raw":
        assert found[0].strides == expected[0].strides


@pytest.mark.parametrize("code", "dD")
def test_columns_that_depend_on_others(code):
    a = draw(code, 20, 6)
    a[:, 2] = 0
    a[:, 4] = a[:, 1]
    q, r = map(numpy.asarray, np.linalg.qr(np.asarray(a)))
    assert numpy.abs(q @ r - a).max() <= 1e-13
    assert numpy.abs(q.conj().T @ q - numpy.eye(6)).max() <= 1e-13
    zero = numpy.zeros((5, 3), code)
    q, r = np.linalg.qr(np.asarray(zero))
    assert numpy.array_equal(q, numpy.eye(5, 3))
    assert not numpy.asarray(r).any()


def test_what_numpy_refuses():
    for a, mode in ((np.ones(3), "r"), (np.ones((3, 3)), "other"), (np.ones((3, 3), "e"), "r")):
        with pytest.raises(Exception) as ours:
            np.linalg.qr(a, mode)
        with pytest.raises(Exception) as numpys:
            numpy.linalg.qr(numpy.asarray(a), mode)
        assert (ours.type, str(ours.value)) == (numpys.type, str(numpys.value))
