"""Orders of frequencies of `numpy.fft` and `scipy.fft` on the device: NumPy's results, and no fallback."""

import numpy as np
import pytest
import scipy

import oxinp
from tests.comparator import assert_same, same_outcome

PACKAGES = ((oxinp.fft, np.fft), (oxinp.scipy.fft, scipy.fft))
IDS = ["numpy", "scipy"]


def strictly(function, *args, **kwargs):
    """Call a function where a fallback is an error."""
    with oxinp.config.override(fallback="error"):
        result = function(*args, **kwargs)
        oxinp.evaluate(result)
    return result


@pytest.mark.parametrize(("ours", "theirs"), PACKAGES, ids=IDS)
@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
@pytest.mark.parametrize("axes", [None, 0, -1, (0, 2), [1], ()])
@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "complex128"])
@pytest.mark.usefixtures("on_device")
def test_shifts(ours, theirs, name, axes, dtype):
    x = np.arange(3 * 4 * 5).reshape(3, 4, 5).astype(dtype)
    expected = getattr(theirs, name)(x, axes)
    assert_same(strictly(getattr(ours, name), oxinp.asarray(x), axes), expected)
    transposed = getattr(theirs, name)(x.T, axes=axes)
    assert_same(strictly(getattr(ours, name), oxinp.asarray(x).T, axes=axes), transposed)


@pytest.mark.usefixtures("on_device")
def test_numpys_own_functions_come_to_ours():
    x = oxinp.arange(7.0)
    assert_same(strictly(np.fft.fftshift, x), np.fft.fftshift(np.arange(7.0)))
    assert_same(strictly(np.fft.ifftshift, x, axes=0), np.fft.ifftshift(np.arange(7.0)))


@pytest.mark.parametrize(("ours", "theirs"), PACKAGES, ids=IDS)
@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
@pytest.mark.parametrize("arguments", [(1,), (2,), (7,), (8, 0.25), (9, 3), (1000, np.float32(0.1)), (np.int64(6), 2j)])
@pytest.mark.usefixtures("on_device")
def test_frequencies(ours, theirs, name, arguments):
    given = strictly(getattr(ours, name), *arguments)
    assert type(given) is oxinp.ndarray
    assert_same(given, getattr(theirs, name)(*arguments))
    assert_same(getattr(ours, name)(n=5, d=0.5), getattr(theirs, name)(n=5, d=0.5))


@pytest.mark.usefixtures("on_device")
def test_frequencies_are_made_on_the_device(stats):
    oxinp.evaluate(oxinp.fft.fftfreq(1000, 0.1), oxinp.fft.rfftfreq(1000, 0.1))
    counts = stats()
    assert counts.launches >= 2
    assert not counts.h2d_bytes


REFUSED = """
fft.fftfreq(2.5)
fft.fftfreq("a")
fft.rfftfreq(x)
fft.fftfreq()
fft.fftfreq(4, 0)
fft.fftfreq(4, device="gpu")
fft.fftfreq(-3)
fft.rfftfreq(-3)
fft.fftshift(x, 2)
fft.fftshift(x, "a")
fft.ifftshift(x, axes=(0, 1))
fft.fftshift(x, nonsense=1)
fft.fftshift([1, 2, 3])
fft.fftshift(x[:0])
""".strip().splitlines()


@pytest.mark.parametrize("code", REFUSED)
@pytest.mark.parametrize(("ours", "theirs"), PACKAGES, ids=IDS)
@pytest.mark.usefixtures("offload_threshold")
def test_exceptions(code, ours, theirs):
    names = {id(ours): {"fft": ours, "x": oxinp.arange(3.0)}, id(theirs): {"fft": theirs, "x": np.arange(3.0)}}
    with np.errstate(all="ignore"):
        same_outcome(lambda fft: eval(code, names[id(fft)]), ours, theirs)  # noqa: S307 - our own code


def test_scipys_other_arguments():
    assert_same(oxinp.scipy.fft.fftfreq(4, xp=oxinp), np.fft.fftfreq(4))
    assert type(oxinp.scipy.fft.fftfreq(4, xp=oxinp)) is oxinp.ndarray
