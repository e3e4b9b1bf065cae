"""Functions of `scipy.signal` on the device: SciPy's shapes and dtypes, values within rounding, and no fallback."""

import numpy as np
import pytest
import scipy.signal

import oxinp
from tests.comparator import same_outcome

pytestmark = pytest.mark.usefixtures("on_device")

ERRORS = {4: 2e-6, 8: 1e-12}  # of the largest result, by bytes of a part


def array(code, *shape):
    """Return random numbers of a dtype."""
    rng = np.random.default_rng(sum(shape))
    x = rng.standard_normal(shape) * 9
    return (x + 1j * rng.standard_normal(shape)).astype(code) if code in "FD" else x.astype(code)


def parts(value):
    return value if isinstance(value, tuple) else (value,)


def check(call, *given, factor=1):
    """Compare what a function of the module and of arrays returns."""
    expected = parts(call(scipy.signal, *given))
    with oxinp.config.override(fallback="error"):
        found = parts(call(oxinp.scipy.signal, *map(oxinp.asarray, given)))
        oxinp.evaluate(*found)
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert isinstance(ours, oxinp.ndarray)
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        size = theirs.real.dtype.itemsize
        assert abs(np.asarray(ours) - theirs).max() <= factor * ERRORS[size] * max(abs(theirs).max(), 1e-300)


MODES = ("full", "same", "valid")


@pytest.mark.parametrize("mode", MODES)
def test_convolution_by_transforms(mode):
    check(lambda s, a, b: s.fftconvolve(a, b, mode), array("f", 40), array("f", 9))
    check(lambda s, a, b: s.fftconvolve(a, b, mode), array("d", 12, 15), array("i", 5, 7))
    check(lambda s, a, b: s.fftconvolve(a, b, mode, axes=1), array("D", 4, 30), array("D", 4, 7))
    check(lambda s, a, b: s.fftconvolve(a, b, mode, axes=[0]), array("d", 12, 3), array("d", 5, 1))
    check(lambda s, a, b: s.fftconvolve(a, b, mode), array("d", 6, 9), array("d", 1, 1))


@pytest.mark.parametrize("mode", MODES)
def test_convolution_by_blocks(mode):
    check(lambda s, a, b: s.oaconvolve(a, b, mode), array("d", 1000), array("d", 9))
    check(lambda s, a, b: s.oaconvolve(a, b, mode, axes=0), array("D", 500, 3), array("D", 20, 1))
    check(lambda s, a, b: s.oaconvolve(a, b, mode), array("f", 8, 700), array("f", 3, 19))


@pytest.mark.parametrize("mode", MODES)
def test_convolution_as_scipy_chooses(mode):
    for code in "dif":
        check(lambda s, a, b: s.convolve(a, b, mode), array(code, 100), array(code, 9))
    check(lambda s, a, b: s.convolve(a, b, mode, "fft"), array("i", 100), array("h", 9))
    check(lambda s, a, b: s.convolve(a, b, mode), array("d", 9), array("d", 100))
    check(lambda s, a, b: s.convolve(a, b, mode), array("l", 7, 9) * (1 << 40), array("l", 3, 2))
    check(lambda s, a, b: s.correlate(a, b, mode), array("D", 100), array("D", 9))
    check(lambda s, a, b: s.correlate(a, b, mode), array("D", 9), array("D", 100))
    check(lambda s, a, b: s.correlate(a, b, mode, "fft"), array("d", 9, 8), array("d", 3, 4))


def test_direct_convolution_is_exact_and_keeps_what_is_not_finite_where_it_is():
    x, kernel = array("l", 100) << 40, array("l", 5) << 10
    with np.errstate(over="ignore"):
        expected = scipy.signal.convolve(x, kernel)
    assert (np.asarray(oxinp.scipy.signal.convolve(oxinp.asarray(x), oxinp.asarray(kernel))) == expected).all()
    y = array("d", 50)
    y[20] = np.nan
    found = np.asarray(oxinp.scipy.signal.convolve(oxinp.asarray(y), oxinp.ones(3)))
    assert (np.flatnonzero(np.isnan(found)) == [20, 21, 22]).all()


@pytest.mark.parametrize("n", [24, 25])
def test_analytic_signals(n):
    check(lambda s, x: s.hilbert(x), array("d", 3, n))
    check(lambda s, x: s.hilbert(x, N=40, axis=0), array("f", n, 3))


@pytest.mark.parametrize("n", [24, 25])
@pytest.mark.parametrize("num", [12, 13, 24, 36, 37])
def test_resampling(n, num):
    check(lambda s, x: s.resample(x, num, axis=1), array("d", 3, n))
    check(lambda s, x: s.resample(x, num, window="hamming"), array("f", n, 2))
    check(lambda s, x: s.resample(x, num, window=("kaiser", 3.0)), array("D", n, 2))
    check(lambda s, x: s.resample(x, num, domain="freq"), array("D", n))
    check(lambda s, x, t: s.resample(x, num, t), array("d", n), np.arange(n) * 0.5)


@pytest.mark.parametrize("n", [24, 25])
def test_chirp_transforms(n):
    check(lambda s, x: s.czt(x, 17), array("d", 3, n))
    check(lambda s, x: s.czt(x, 40, np.exp(-0.02j), 1.01, axis=0), array("D", n, 2))
    check(lambda s, x: s.zoom_fft(x, [0.1, 0.4], 30, endpoint=True), array("d", 2, n))
    check(lambda s, x: s.zoom_fft(x, 0.4, fs=3), array("D", n))


SPECTRAL = (
    {},
    {"fs": 3.0, "window": "hamming", "detrend": "linear"},
    {"return_onesided": False, "scaling": "spectrum"},
)


@pytest.mark.parametrize("name", ["welch", "periodogram", "spectrogram", "stft"])
def test_spectra(name):
    for kwargs in SPECTRAL:
        check(lambda s, x, kwargs=kwargs: getattr(s, name)(x, **kwargs), array("d", 2, 400), factor=10)
    check(lambda s, x: getattr(s, name)(x, axis=0), array("f", 400, 2))
    check(lambda s, x: getattr(s, name)(x, return_onesided=False), array("D", 400), factor=10)
    check(lambda s, x: getattr(s, name)(x, nfft=300), array("h", 400))


def test_averages_and_modes_of_spectra():
    check(lambda s, x: s.welch(x, average="median"), array("d", 1000), factor=10)
    check(lambda s, x, y: s.csd(x, y, nperseg=100), array("d", 2, 400), array("d", 2, 350), factor=10)
    check(
        lambda s, x, y: s.csd(x, y, nperseg=99, noverlap=9, axis=0), array("D", 400, 2), array("D", 400, 2), factor=10
    )
    check(lambda s, x, y: s.coherence(x, y, nperseg=100), array("d", 400), array("d", 400), factor=100)
    check(lambda s, x, y: s.csd(x, y, detrend=False), array("d", 400), array("f", 400))
    for mode in ("complex", "magnitude", "angle", "phase"):
        check(lambda s, x, mode=mode: s.spectrogram(x, mode=mode), array("d", 2, 400), factor=100)
    for boundary in ("even", "odd", "constant", None):
        check(lambda s, x, boundary=boundary: s.stft(x, nperseg=50, boundary=boundary), array("d", 2, 110))


@pytest.mark.parametrize(
    "kwargs",
    [{}, {"nperseg": 100, "noverlap": 75}, {"nperseg": 101, "noverlap": 60}, {"window": "boxcar", "noverlap": 0}],
)
def test_signals_from_their_spectra(kwargs):
    _, _, z = scipy.signal.stft(array("d", 2, 600), **kwargs)
    check(lambda s, z: s.istft(z, **kwargs), z)
    check(lambda s, z: s.istft(z, time_axis=0, freq_axis=1, **kwargs), np.moveaxis(z, (-1, -2), (0, 1)).astype("F"))


def test_windows_that_leave_elements_out_warn():
    _, _, z = scipy.signal.stft(array("d", 600))
    for module in (scipy.signal, oxinp.scipy.signal):
        with pytest.warns(UserWarning, match="NOLA condition failed, STFT may not be invertible. Possibly due"):
            module.istft(z if module is scipy.signal else oxinp.asarray(z), boundary=False)


@pytest.mark.parametrize("mode", ["onesided", "twosided", "centered", "onesided2X"])
@pytest.mark.parametrize(("phase", "length"), [(None, None), (0, 80), (3, 64)])
def test_short_time_transforms(mode, phase, length):
    def made(module):
        options = {"fft_mode": mode, "mfft": length, "phase_shift": phase, "scale_to": "psd"}
        return module.ShortTimeFFT(np.hanning(64) + 0.1, 16, 2.0, **options)

    check(lambda s, x: made(s).stft(x), array("d", 2, 200))
    check(lambda s, x: made(s).spectrogram(x, detr="linear", padding="even", axis=0), array("d", 200, 2), factor=10)
    spectra = made(scipy.signal).stft(array("d", 2, 200))
    check(lambda s, z: made(s).istft(z, k1=200), spectra)
    check(lambda s, z: made(s).istft(z, k0=37, k1=150), spectra)


def test_scipys_own_class_does_what_ours_cannot(stats):
    x, transform = array("d", 100).astype("g"), oxinp.scipy.signal.ShortTimeFFT(np.ones(16), 8, 1.0)
    found = transform.stft(oxinp.asarray(x))
    assert np.allclose(np.asarray(found), scipy.signal.ShortTimeFFT(np.ones(16), 8, 1.0).stft(x))
    assert stats().fallbacks["scipy.signal.ShortTimeFFT.stft_detrend"] == 1


REFUSED = """
fftconvolve(x, x, "half")
fftconvolve(x, x[0])
fftconvolve(x, x, axes=[])
fftconvolve(x, x[:, :3], axes=0)
fftconvolve(x[:2], x[:, :3], "valid")
oaconvolve(x, x[0])
convolve(x, x, method="fast")
convolve(x.astype("e"), x.astype("e"), method="direct")
correlate(x.astype("e"), x.astype("e"), method="direct")
correlate(x, x, "half")
hilbert(x, 0)
hilbert(x + 1j)
resample(x, 5, domain="space")
resample(x[0], 5, window=x[0][:3])
czt(x, 0)
zoom_fft(x, [1, 2, 3])
welch(x[0], nperseg=0)
welch(x[0], scaling="none")
csd(x[0], x[0], noverlap=9, nperseg=9)
spectrogram(x[0], nperseg=4, mode="none")
spectrogram(x[0], nperseg=2.5)
stft(x[0], nperseg=4, boundary="none")
istft(x[0])
istft(x, time_axis=1, freq_axis=1)
ShortTimeFFT(x[0], 2, 1).stft(x[:, :2])
ShortTimeFFT([1.0, 1.0, 1.0], 2, 1).stft(x + 1j)
""".strip().splitlines()


@pytest.mark.parametrize("code", REFUSED)
def test_exceptions(code):
    x = array("d", 4, 9)
    names = {id(oxinp.scipy.signal): oxinp.asarray(x), id(scipy.signal): x}
    names = {key: {"x": value} for key, value in names.items()}

    def outcome(module):
        return eval(f"module.{code}", {"module": module, **names[id(module)]})  # noqa: S307 - our own code

    same_outcome(outcome, oxinp.scipy.signal, scipy.signal)
