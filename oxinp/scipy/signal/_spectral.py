"""Spectra: `periodogram`, `welch`, `csd`, `coherence`, `spectrogram`, `stft`, `istft`."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import numpy as np
import scipy.signal

from oxinp._api.fronts import implements
from oxinp._core.errors.frames import warn
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.ops import creation
from oxinp.scipy.signal._operands import axis_of, operand, transformed
from oxinp.scipy.signal._segments import added_up, detrended, overlap_sums, repeated, segments, spectra

FUNCTIONS = ("coherence", "csd", "istft", "periodogram", "spectrogram", "stft", "welch")
# The window that each takes by default, which is called otherwise in some versions of SciPy.
USUAL: dict[str, Any] = {
    name: inspect.signature(getattr(scipy.signal, name)).parameters["window"].default for name in FUNCTIONS
}


class Segmentation(NamedTuple):
    """How sequences are cut and what of: a window, and distances in elements."""

    window: Any
    step: int
    n: int
    detrend: str | None
    is_onesided: bool

    @property
    def length(self) -> int:
        """Of a segment."""
        return len(self.window)

    def spectra(self, x: Any) -> Any:
        """The transforms of all segments along the last axis."""
        cut = detrended(segments(x, self.length, self.step), self.detrend)
        return spectra(cut, self.window, self.n, is_onesided=self.is_onesided)

    def frequencies(self, fs: float) -> Any:
        """Of the transforms."""
        made = (np.fft.rfftfreq if self.is_onesided else np.fft.fftfreq)(self.n, 1 / fs)
        return creation.asarray(made)

    def scale(self, scaling: str, fs: float) -> float:
        """By which the squares of absolute values are multiplied."""
        squared = (self.window * self.window).sum()
        return float(1 / (fs * squared) if scaling == "density" else 1 / self.window.sum() ** 2)


def _segmentation(
    size: int,
    window: Any,
    lengths: tuple[Any, Any, Any],
    detrend: Any,
    *,
    is_onesided: bool,
) -> Segmentation:
    """Resolve arguments; `lengths` are nperseg, noverlap and nfft, None for what the caller left out.

    Raises
    ------
    Unsupported
        SciPy refuses them, warns, or calls a function of the user's.
    """
    length, overlap, n = (None if x is None else int(x) for x in lengths)
    if isinstance(window, str | tuple):
        length = 256 if length is None else length
        if not 0 < length <= size:
            raise Unsupported("a length of which SciPy warns, or that it refuses")
        found = scipy.signal.get_window(window, length)
    else:
        found = np.asarray(window)
        if found.ndim != 1 or found.dtype.kind not in "fiu" or length not in (None, len(found)):
            raise Unsupported("a window that SciPy refuses or treats in a way of its own")
    length = len(found)
    overlap = length // 2 if overlap is None else overlap
    n = length if n is None else n
    if not 0 < length <= size or not 0 <= overlap < length or n < length:
        raise Unsupported("lengths that SciPy refuses")
    if detrend is not False and detrend is not None and detrend not in ("constant", "linear"):
        raise Unsupported("a function that takes off the trend")
    kind = detrend if isinstance(detrend, str) else None
    return Segmentation(found.astype(float), length - overlap, n, kind, is_onesided)


def _signals(x: Any, y: Any, axis: Any) -> tuple[Any, Any, int]:
    """The operands with an axis last, the shorter one continued with zeros, and that axis."""
    is_same = y is x
    x = operand(x)
    y = x if is_same else operand(y)
    axis = int(axis)
    if not is_same and (x.ndim != y.ndim or _outer(x, axis) != _outer(y, axis)):
        raise Unsupported("operands that are broadcast")
    x, y = (_floating(np.moveaxis(a, axis_of(axis, a.ndim), -1)) for a in (x, y))
    wide = np.result_type(x.real.dtype, y.real.dtype)
    x, y = (a.astype(np.result_type(a.dtype, wide), copy=False) for a in (x, y))
    if x.shape[-1] != y.shape[-1]:
        size = max(x.shape[-1], y.shape[-1])
        x, y = (np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, size - a.shape[-1])]) for a in (x, y))
    return x, x if is_same else y, axis


def _outer(x: Any, axis: int) -> tuple[int, ...]:
    place = axis_of(axis, x.ndim)
    return (*x.shape[:place], *x.shape[place + 1 :])


def _floating(x: Any) -> Any:
    """Other numbers as floats of the precision that SciPy returns for them."""
    if x.dtype.kind == "c":
        return x
    return x.astype(np.float32 if np.result_type(x.dtype, np.complex64) == np.complex64 else np.float64, copy=False)


def _doubled(cut: Segmentation, dtype: np.dtype[Any]) -> Any:
    """Weights of frequencies that stand for two; None where each is there itself."""
    if not cut.is_onesided:
        return None
    weights = np.full(cut.n // 2 + 1, 2.0)
    weights[0] = 1
    if cut.n % 2 == 0:
        weights[-1] = 1
    return creation.asarray(weights.astype(dtype))


def _power(x: Any, y: Any, cut: Segmentation, scale: float, *, is_same: bool) -> Any:
    """The cross spectra of all segments, (..., segment, frequency)."""
    spectrum = cut.spectra(x)
    power = spectrum.real**2 + spectrum.imag**2 if is_same else spectrum.conj() * cut.spectra(y)
    weights = _doubled(cut, power.real.dtype)
    return power * scale if weights is None else power * (weights * scale)


def _cross(x: Any, y: Any, fs: float, cut_of: Any, scaling: Any, average: Any, axis: Any) -> tuple[Any, Any]:
    """Frequencies and averaged cross spectra."""
    if scaling not in ("density", "spectrum") or average not in ("mean", "median"):
        raise Unsupported("what SciPy refuses")
    is_same = y is x
    x, y, axis = _signals(x, y, axis)
    cut = cut_of(x.shape[-1], "c" not in x.dtype.kind + y.dtype.kind)
    power = _power(x, y, cut, cut.scale(scaling, fs), is_same=is_same)
    if power.shape[-2] == 1:
        found = power[..., 0, :]
    elif average == "mean":
        found = power.mean(axis=-2)
    else:
        pairs = 2 * np.arange(1.0, (power.shape[-2] - 1) // 2 + 1)
        bias = float(1 + np.sum(1 / (pairs + 1) - 1 / pairs))
        if power.dtype.kind == "c":
            found = (np.median(power.real, axis=-2) + np.median(power.imag, axis=-2) * 1j) / bias
        else:
            found = np.median(power, axis=-2) / bias
    return cut.frequencies(fs), np.moveaxis(found, -1, axis)


@implements("scipy.signal.csd")
def csd(
    x: Any,
    y: Any,
    fs: Any = 1.0,
    window: Any = USUAL["csd"],
    nperseg: Any = None,
    noverlap: Any = None,
    nfft: Any = None,
    detrend: Any = "constant",
    return_onesided: Any = True,
    scaling: Any = "density",
    axis: Any = -1,
    average: Any = "mean",
) -> Any:
    """See `scipy.signal.csd`; computed in the precision of the operands."""

    def cut_of(size: int, is_real: bool) -> Segmentation:
        lengths = nperseg, noverlap, nfft
        return _segmentation(size, window, lengths, detrend, is_onesided=bool(return_onesided) and is_real)

    frequencies, found = _cross(x, y, float(fs), cut_of, scaling, average, axis)
    return frequencies, found if y is x else found.astype(np.result_type(found.dtype, np.complex64), copy=False)


@implements("scipy.signal.welch")
def welch(
    x: Any,
    fs: Any = 1.0,
    window: Any = USUAL["welch"],
    nperseg: Any = None,
    noverlap: Any = None,
    nfft: Any = None,
    detrend: Any = "constant",
    return_onesided: Any = True,
    scaling: Any = "density",
    axis: Any = -1,
    average: Any = "mean",
) -> Any:
    """See `scipy.signal.welch`, and `csd`."""
    return csd(x, x, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average)


@implements("scipy.signal.periodogram")
def periodogram(
    x: Any,
    fs: Any = 1.0,
    window: Any = USUAL["periodogram"],
    nfft: Any = None,
    detrend: Any = "constant",
    return_onesided: Any = True,
    scaling: Any = "density",
    axis: Any = -1,
) -> Any:
    """See `scipy.signal.periodogram`, and `csd`."""
    x = operand(x)
    place = axis_of(axis, x.ndim)
    size = x.shape[place]
    length = size
    if nfft is not None and nfft < size:
        x, length, nfft = x[(slice(None),) * place + (slice(nfft),)], nfft, None
    if window is None:
        window = "boxcar"
    return welch(x, fs, window, length, 0, nfft, detrend, return_onesided, scaling, axis)


@implements("scipy.signal.coherence")
def coherence(
    x: Any,
    y: Any,
    fs: Any = 1.0,
    window: Any = USUAL["coherence"],
    nperseg: Any = None,
    noverlap: Any = None,
    nfft: Any = None,
    detrend: Any = "constant",
    axis: Any = -1,
) -> Any:
    """See `scipy.signal.coherence`, and `csd`."""
    x, y = operand(x), operand(y)
    frequencies, cross = csd(x, y, fs, window, nperseg, noverlap, nfft, detrend, axis=axis)
    _, own = welch(x, fs, window, nperseg, noverlap, nfft, detrend, axis=axis)
    _, other = welch(y, fs, window, nperseg, noverlap, nfft, detrend, axis=axis)
    return frequencies, (cross.real**2 + cross.imag**2) / own / other


_EXTENSIONS: dict[Any, Any] = {
    "zeros": lambda x, n: np.pad(x, [(0, 0)] * (x.ndim - 1) + [(n, n)]),
    "even": lambda x, n: np.concatenate([x[..., n:0:-1], x, x[..., -2 : -n - 2 : -1]], axis=-1),
    "odd": lambda x, n: np.concatenate(
        [2 * x[..., :1] - x[..., n:0:-1], x, 2 * x[..., -1:] - x[..., -2 : -n - 2 : -1]], axis=-1
    ),
    "constant": lambda x, n: np.pad(x, [(0, 0)] * (x.ndim - 1) + [(n, n)], "edge"),
    None: None,
}


def _times(cut: Segmentation, size: int, fs: float, *, is_extended: bool) -> Any:
    """The middles of segments."""
    half = cut.length / 2
    made = np.arange(half, size - half + 1, cut.step) / fs
    return creation.asarray(made - half / fs if is_extended else made)


@implements("scipy.signal.spectrogram")
def spectrogram(
    x: Any,
    fs: Any = 1.0,
    window: Any = USUAL["spectrogram"],
    nperseg: Any = None,
    noverlap: Any = None,
    nfft: Any = None,
    detrend: Any = "constant",
    return_onesided: Any = True,
    scaling: Any = "density",
    axis: Any = -1,
    mode: Any = "psd",
) -> Any:
    """See `scipy.signal.spectrogram`; computed in the precision of the operand."""
    if mode not in ("psd", "complex", "magnitude", "angle", "phase") or scaling not in ("density", "spectrum"):
        raise Unsupported("what SciPy refuses")
    x, _, axis = _signals(x, x, axis)
    fs, is_real, size = float(fs), x.dtype.kind != "c", x.shape[-1]
    if return_onesided and not is_real:
        raise Unsupported("complex numbers, of which SciPy warns")
    if not isinstance(nperseg, int | np.integer | None):
        raise Unsupported("a length that is no integer, which SciPy refuses here")
    if noverlap is None:
        length = len(window) if not isinstance(window, str | tuple) else 256 if nperseg is None else int(nperseg)
        noverlap = length // 8
    lengths = nperseg, noverlap, nfft
    cut = _segmentation(size, window, lengths, detrend, is_onesided=bool(return_onesided) and is_real)
    scale = cut.scale(scaling, fs)
    if mode == "psd":
        found = _power(x, x, cut, scale, is_same=True)
    else:
        found = cut.spectra(x) * float(np.sqrt(scale))
        if mode == "magnitude":
            found = abs(found)
        elif mode != "complex":
            found = np.angle(found)
            if mode == "phase":
                # SciPy's axis, of the result with its frequencies moved: the segments' where that is the last.
                found = np.unwrap(found, axis=-1)
    place = axis - 1 if axis < 0 else axis
    return cut.frequencies(fs), _times(cut, size, fs, is_extended=False), np.moveaxis(found, -1, place)


@implements("scipy.signal.stft")
def stft(
    x: Any,
    fs: Any = 1.0,
    window: Any = USUAL["stft"],
    nperseg: Any = 256,
    noverlap: Any = None,
    nfft: Any = None,
    detrend: Any = False,
    return_onesided: Any = True,
    boundary: Any = "zeros",
    padded: Any = True,
    axis: Any = -1,
    scaling: Any = "spectrum",
) -> Any:
    """See `scipy.signal.stft`; computed in the precision of the operand."""
    kinds = {"spectrum": "spectrum", "psd": "density"}
    if scaling not in kinds or boundary not in _EXTENSIONS:
        raise Unsupported("what SciPy refuses")
    x, _, axis = _signals(x, x, axis)
    fs, is_real = float(fs), x.dtype.kind != "c"
    if return_onesided and not is_real:
        raise Unsupported("complex numbers, of which SciPy warns")
    lengths = nperseg, noverlap, nfft
    cut = _segmentation(x.shape[-1], window, lengths, detrend, is_onesided=bool(return_onesided) and is_real)
    half = cut.length // 2
    if boundary in ("even", "odd") and half >= x.shape[-1]:
        raise Unsupported("an extension that SciPy refuses")
    if boundary is not None and half:
        x = _EXTENSIONS[boundary](x, half)
    if padded:
        missing = (-(x.shape[-1] - cut.length) % cut.step) % cut.length
        if missing:
            x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, missing)])
    found = cut.spectra(x) * float(np.sqrt(cut.scale(kinds[scaling], fs)))
    place = axis - 1 if axis < 0 else axis
    times = _times(cut, x.shape[-1], fs, is_extended=boundary is not None)
    return cut.frequencies(fs), times, np.moveaxis(found, -1, place)


@implements("scipy.signal.istft")
def istft(
    Zxx: Any,
    fs: Any = 1.0,
    window: Any = USUAL["istft"],
    nperseg: Any = None,
    noverlap: Any = None,
    nfft: Any = None,
    input_onesided: Any = True,
    boundary: Any = True,
    time_axis: Any = -1,
    freq_axis: Any = -2,
    scaling: Any = "spectrum",
) -> Any:
    """See `scipy.signal.istft`."""
    given = operand(Zxx)
    if given.ndim < 2 or int(freq_axis) == int(time_axis) or scaling not in ("spectrum", "psd"):
        raise Unsupported("what SciPy refuses")
    places = axis_of(time_axis, given.ndim), axis_of(freq_axis, given.ndim)
    z = np.moveaxis(given, places, (-2, -1))
    usual = 2 * (z.shape[-1] - 1) if input_onesided else z.shape[-1]
    length = usual if nperseg is None else int(nperseg)
    if nfft is None:
        nfft = length if input_onesided and length == usual + 1 else usual
    if isinstance(window, str | tuple) and length > 0:
        found = scipy.signal.get_window(window, length)
    else:
        found = np.asarray(window)
    overlap = length // 2 if noverlap is None else int(noverlap)
    is_valid = found.shape == (length,) and found.dtype.kind == "f" and 0 <= overlap < length <= int(nfft)
    if not is_valid or (boundary and length == 1):
        raise Unsupported("a window or lengths that SciPy refuses")
    step, number = length - overlap, z.shape[-2]
    sequences = transformed("irfft" if input_onesided else "ifft", z, int(nfft))[..., :length]
    factor = found.sum() if scaling == "spectrum" else np.sqrt(fs * sum(found**2))
    real = sequences.real.dtype
    x = added_up(sequences * creation.asarray((found * factor).astype(real)), step)
    sums = overlap_sums((found**2).astype(real), number, step)
    _check_overlaps(sums, length // 2 if boundary else 0, boundary=bool(boundary))
    norm = repeated(tuple(np.where(part > NEGLIGIBLE, part, 1.0) for part in sums), x.shape[-1], real)  # type: ignore[arg-type]
    x = x / norm
    if boundary:
        x = x[..., length // 2 : x.shape[-1] - length // 2]
    if input_onesided:
        x = x.real
    if x.ndim > 1 and places[0] != given.ndim - 1:
        x = np.moveaxis(x, -1, places[0] - (places[1] < places[0]))
    return creation.arange(x.shape[0]) / float(fs), x


NEGLIGIBLE = 1e-10  # sums of squared windows that nothing is divided by


def _check_overlaps(sums: tuple[Any, Any, Any], margin: int, *, boundary: bool) -> None:
    """Warn, as SciPy does, where windows leave elements out."""
    every = np.concatenate(sums)
    if (every[margin : len(every) - margin] > NEGLIGIBLE).all():
        return
    more = "" if boundary else " Possibly due to missing boundary"
    warn(f"NOLA condition failed, STFT may not be invertible.{more}", UserWarning)
