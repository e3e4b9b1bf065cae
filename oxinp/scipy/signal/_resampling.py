"""Resampling in frequency: `hilbert`, `resample`, `czt`, `zoom_fft`.

Source: L. R. Rabiner, R. W. Schafer and C. M. Rader, The chirp z-transform algorithm, IEEE Trans. Audio
Electroacoustics 17, 1969.
"""

from __future__ import annotations

import cmath
from typing import Any, NamedTuple

import numpy as np
from scipy.fft import next_fast_len
from scipy.signal import get_window

from oxinp._api.fronts import implements
from oxinp._core.host.exchange import is_array
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.manipulation.copy import copy
from oxinp._core.ops import creation
from oxinp.scipy.signal._operands import axis_of, operand, table, transformed


def _last(x: Any, axis: int) -> Any:
    """The array with an axis last."""
    return np.moveaxis(x, axis, -1) if x.ndim > 1 else x


def _back(x: Any, axis: int) -> Any:
    """The array with its last axis where it was."""
    return copy(np.moveaxis(x, -1, axis)) if axis != x.ndim - 1 else x


@implements("scipy.signal.hilbert")
def hilbert(x: Any, N: Any = None, axis: Any = -1) -> Any:
    """See `scipy.signal.hilbert`."""
    x = operand(x)
    axis = axis_of(axis, x.ndim)
    n = x.shape[axis] if N is None else N
    if x.dtype.kind == "c" or not isinstance(n, int) or n <= 0:
        raise Unsupported("what SciPy refuses")
    half = transformed("rfft", x, n, axis)
    weights = np.full(n // 2 + 1, 2.0)
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    shape = [1] * x.ndim
    shape[axis] = -1
    # Of negative frequencies nothing is left: the transform back continues with zeros.
    return transformed("ifft", half * table(weights, half.real.dtype).reshape(shape), n, axis)


def _window_of(window: Any, n: int) -> Any:
    """The weights of all frequencies; None for no window."""
    if window is None:
        return None
    if callable(window):
        return np.asarray(window(np.fft.fftfreq(n)))
    if hasattr(window, "shape"):
        found = np.array(np.asarray(window))
        if found.shape != (n,):
            raise Unsupported("a window that SciPy refuses")
        return found
    return np.fft.fftshift(get_window(window, n))


def _resampled_half(x: Any, num: int, weights: Any) -> Any:
    """A real sequence from the first half of its transform: one product, cropped or continued with zeros."""
    n = x.shape[-1]
    m = min(num, n)
    factors = np.ones(n // 2 + 1)
    if weights is not None:
        if weights.dtype.kind == "c":
            raise Unsupported("a complex window of a real sequence")
        count = len(factors)
        factors = weights[:count].astype(float)
        factors[1:] = (weights[1:count] + weights[-count + 1 :][::-1]) / 2
    factors = factors[: m // 2 + 1] * (num / n)
    if m % 2 == 0 and num != n:
        factors[-1] *= 2 if num < n else 0.5
    half = transformed("rfft", x)[..., : m // 2 + 1]
    return transformed("irfft", half * table(factors, half.real.dtype), num)


def _resampled_whole(whole: Any, num: int, weights: Any) -> Any:
    """A complex sequence from its transform."""
    n = whole.shape[-1]
    m = min(num, n)
    middle = m // 2 + 1
    if weights is not None:
        whole = whole * table(weights, whole.real.dtype)
    result = creation.zeros((*whole.shape[:-1], num), whole.dtype)
    result[..., :middle] = whole[..., :middle]
    if middle < m:
        result[..., middle - m :] = whole[..., middle - m :]
    if m % 2 == 0 and num < n:
        result[..., -(m // 2)] += whole[..., -(m // 2)]
    elif m % 2 == 0 and num > n:
        result[..., m // 2] /= 2
        result[..., num - m // 2] = result[..., m // 2]
    return transformed("ifft", result * (num / n), num)


@implements("scipy.signal.resample")
def resample(x: Any, num: Any, t: Any = None, axis: Any = 0, window: Any = None, domain: Any = "time") -> Any:
    """See `scipy.signal.resample`."""
    x = operand(x)
    axis = axis_of(axis, x.ndim)
    if domain not in ("time", "freq") or not isinstance(num, int | np.integer) or num < 1:
        raise Unsupported("what SciPy refuses")
    num = int(num)
    moved = _last(x, axis)
    n = moved.shape[-1]
    weights = _window_of(window, n)
    if domain == "time" and x.dtype.kind != "c":
        result = _resampled_half(moved, num, weights)
    else:
        if x.dtype.kind != "c":
            raise Unsupported("a real transform")
        result = _resampled_whole(transformed("fft", moved) if domain == "time" else moved, num, weights)
    result = _back(result, axis)
    if t is None:
        return result
    first, step = (float(np.asarray(t[i])) for i in (0, 1))
    return result, creation.arange(num) * ((step - first) * n / num) + first


class Chirp(NamedTuple):
    """A transform along a spiral of the z-plane: sequences of n elements, m results, and factors of both."""

    n: int
    m: int
    before: Any
    roots: Any

    def of(self, x: Any, axis: int) -> Any:
        """The transform of an array, by a convolution with the chirp."""
        moved = _last(x, axis)
        length = int(next_fast_len(self.n + self.m - 1))
        filter_ = np.zeros(length, complex)
        filter_[: self.n + self.m - 1] = 1 / np.hstack((self.roots[self.n - 1 : 0 : -1], self.roots[: self.m]))
        factors = transformed("fft", creation.asarray(filter_))
        spread = transformed("fft", moved * creation.asarray(self.before), length)
        found = transformed("ifft", spread * factors)[..., self.n - 1 : self.n + self.m - 1]
        return _back(found * creation.asarray(self.roots[: self.m]), axis)


def _sizes(x: Any, m: Any) -> tuple[Any, int, int]:
    """Counts of elements and results, and the numbers of both, whose squares are exact."""
    m = x if m is None else m
    if isinstance(m, bool) or not isinstance(m, int | np.integer) or m < 1:
        raise Unsupported("a count that SciPy refuses")
    return np.arange(max(int(m), x), dtype=np.int64), x, int(m)


def _is_number(*values: Any) -> bool:
    return all(isinstance(x, int | float | complex | np.number) for x in values)


@implements("scipy.signal.czt")
def czt(x: Any, m: Any = None, w: Any = None, a: Any = 1 + 0j, *, axis: Any = -1) -> Any:
    """See `scipy.signal.czt`."""
    x = operand(x)
    axis = axis_of(axis, x.ndim)
    k, n, m = _sizes(x.shape[axis], m)
    if not _is_number(a) or not (w is None or _is_number(w)):
        raise Unsupported("parameters that are no numbers")
    squares = k**2
    roots = np.exp(-(1j * np.pi * (squares % (2 * m))) / m) if w is None else w ** (squares / 2.0)
    return Chirp(n, m, (1.0 * a) ** -k[:n] * roots[:n], roots).of(x, axis)


@implements("scipy.signal.zoom_fft")
def zoom_fft(x: Any, fn: Any, m: Any = None, *, fs: Any = 2, endpoint: Any = False, axis: Any = -1) -> Any:
    """See `scipy.signal.zoom_fft`."""
    x = operand(x)
    axis = axis_of(axis, x.ndim)
    k, n, m = _sizes(x.shape[axis], m)
    ends = [fn] if _is_number(fn) else list(fn)
    if not _is_number(fs, *ends) or len(ends) > 2 or is_array(fn) or (endpoint and m == 1):
        raise Unsupported("parameters that are no numbers, or that SciPy refuses")
    first, last = (0.0, ends[0]) if len(ends) == 1 else ends
    scale = (last - first) * (m / (m - 1) if endpoint else 1) / fs
    roots = np.exp(-(1j * np.pi * scale * k**2) / m)
    before = np.exp(-2j * cmath.pi * first / fs * k[:n]) * roots[:n]
    return Chirp(n, m, before, roots).of(x, axis)
