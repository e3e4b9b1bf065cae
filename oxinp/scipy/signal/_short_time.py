"""`ShortTimeFFT`: SciPy's class, whose windows and borders stay on the host, and whose transforms are ours."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.signal

from oxinp._core.array import dispatch
from oxinp._core.host.fallback import call
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.ops import creation
from oxinp.scipy.signal._operands import operand, transformed
from oxinp.scipy.signal._segments import added_up, detrended, segments

_PADS: dict[str, dict[str, str]] = {
    "zeros": {"mode": "constant"},
    "edge": {"mode": "edge"},
    "even": {"mode": "reflect", "reflect_type": "even"},
    "odd": {"mode": "reflect", "reflect_type": "odd"},
}


def _or_on_host(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let SciPy's own class do what a method of ours raises `Unsupported` for; that is counted."""
    name = method.__name__

    @functools.wraps(getattr(scipy.signal.ShortTimeFFT, name))
    def done(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except Unsupported:
            plain = copy.copy(self)
            plain.__class__ = scipy.signal.ShortTimeFFT
            return call(getattr(plain, name), args, kwargs, name=f"scipy.signal.ShortTimeFFT.{name}")

    return done


class ShortTimeFFT(scipy.signal.ShortTimeFFT):  # type: ignore[misc]
    """See `scipy.signal.ShortTimeFFT`; `stft`, `stft_detrend`, `spectrogram` and `istft` return arrays of ours."""

    def _shift(self) -> int:
        """Elements by which a segment is rolled before its transform."""
        return 0 if self.phase_shift is None else (self.phase_shift + self.m_num_mid) % self.m_num

    def _fft_func(self, x: Any) -> Any:
        """See `scipy.signal.ShortTimeFFT`; of all segments at once."""
        if self._shift():
            missing = self.mfft - x.shape[-1]
            if missing > 0:
                x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, missing)])
            x = np.roll(x, -self._shift(), axis=-1)
        if not self.onesided_fft:
            found = transformed("fft", x, self.mfft)
            return np.fft.fftshift(found, axes=-1) if self.fft_mode == "centered" else found
        found = transformed("rfft", x, self.mfft)
        return found if self.fft_mode == "onesided" else found * self._doubled(inverse=False)

    def _doubled(self, *, inverse: bool) -> Any:
        """Factors of frequencies that stand for two."""
        factors = np.ones(self.f_pts)
        factor = np.sqrt(2) if self.scaling == "psd" else 2
        factors[1 : -1 if self.mfft % 2 == 0 else None] = 1 / factor if inverse else factor
        return creation.asarray(factors)

    def _ifft_func(self, X: Any) -> Any:
        """See `scipy.signal.ShortTimeFFT`; of all segments at once."""
        if self.onesided_fft:
            if self.fft_mode == "onesided2X":
                X = X * self._doubled(inverse=True)
            x = transformed("irfft", X, self.mfft)
        else:
            x = transformed("ifft", np.fft.ifftshift(X, axes=-1) if self.fft_mode == "centered" else X, self.mfft)
        return (np.roll(x, self._shift(), axis=-1) if self._shift() else x)[..., : self.m_num]

    @_or_on_host
    def stft_detrend(
        self,
        x: Any,
        detr: Any,
        p0: Any = None,
        p1: Any = None,
        *,
        k_offset: int = 0,
        padding: Any = "zeros",
        axis: int = -1,
    ) -> Any:
        """See `scipy.signal.ShortTimeFFT.stft_detrend`."""
        x = operand(x)
        if self.onesided_fft and x.dtype.kind == "c":
            raise ValueError(
                f"Complex-valued `x` not allowed for {self.fft_mode=}'! Set property `fft_mode` to 'twosided' or "
                "'centered'."
            )
        if not (detr is None or callable(detr) or detr in ("linear", "constant")):
            raise ValueError(f"Parameter {detr=} is not a str, function or None!")
        if padding not in _PADS:
            raise ValueError(f"Parameter {padding=} not in {tuple(_PADS)}!")
        n = x.shape[axis]
        least = self.m_num - self.m_num_mid
        if n < least:
            where = f"{len(x)=}" if x.ndim == 1 else f"of {axis=} of {x.shape}"
            raise ValueError(f"{where} must be >= ceil(m_num/2) = {least}!")
        x = np.moveaxis(x, axis, -1).astype(complex if x.dtype.kind == "c" else float, copy=False)
        p0, p1 = self.p_range(n, p0, p1)
        parts = self._segments(x, k_offset, p0, p1, _PADS[padding])
        parts = detr(parts) if callable(detr) else detrended(parts, detr)
        found = self._fft_func(parts * creation.asarray(self.win.conj()))
        found = np.moveaxis(found.astype(complex, copy=False), -1, -2)
        return np.moveaxis(found, -2, axis if axis >= 0 else axis - 1) if x.ndim > 1 else found

    def _segments(self, x: Any, k_offset: int, p0: int, p1: int, pad: dict[str, str]) -> Any:
        """The segments p0 to p1 of sequences along the last axis, continued at both ends."""
        n, start = x.shape[-1], p0 * self.hop - self.m_num_mid + k_offset
        end = start + (p1 - p0 - 1) * self.hop + self.m_num
        inner = x[..., max(start, 0) : min(end, n)]
        widths = -min(start, 0), max(end - n, 0)
        if any(widths):
            inner = np.pad(inner, [(0, 0)] * (x.ndim - 1) + [widths], **pad)  # type: ignore[call-overload]
        return segments(inner, self.m_num, self.hop)

    @_or_on_host
    def istft(self, S: Any, k0: int = 0, k1: Any = None, *, f_axis: int = -2, t_axis: int = -1) -> Any:
        """See `scipy.signal.ShortTimeFFT.istft`."""
        s = operand(S)
        if f_axis == t_axis:
            raise ValueError(f"{f_axis=} may not be equal to {t_axis=}!")
        if s.shape[f_axis] != self.f_pts:
            raise ValueError(f"S.shape[f_axis]={s.shape[f_axis]} must be equal to {self.f_pts=} (S.shape={s.shape})!")
        least = self.m_num - self.m_num_mid
        count = self.p_num(least)
        if s.shape[t_axis] < count:
            raise ValueError(
                f"S.shape[t_axis]={s.shape[t_axis]} needs to have at least {count} slices (S.shape={s.shape})!"
            )
        f_axis, t_axis = f_axis % s.ndim, t_axis % s.ndim
        s = np.moveaxis(s, (t_axis, f_axis), (-2, -1))
        most = s.shape[-2] + self.p_min
        k_max = (most - 1) * self.hop + self.m_num - self.m_num_mid
        k1 = k_max if k1 is None else k1
        if not self.k_min <= k0 < k1 <= k_max:
            raise ValueError(f"({self.k_min=}) <= ({k0=}) < ({k1=}) <= ({k_max=}) is false!")
        if k1 - k0 < least:
            raise ValueError(f"({k1=}) - ({k0=}) = {k1 - k0} has to be at least the half the window length {least}!")
        first = k0 // self.hop + (self.p_min if k0 >= 0 else 0)
        last = min(self.p_max(k1), most)
        parts = self._ifft_func(s[..., first - self.p_min : last - self.p_min, :])
        whole = added_up(parts * creation.asarray(self.dual_win), self.hop)
        # Where the first segment begins, and so the sums.
        start = first * self.hop - self.m_num_mid
        x = whole[..., k0 - start : k1 - start]
        missing = k1 - k0 - x.shape[-1]
        if missing > 0:
            x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, missing)])
        return np.moveaxis(x, -1, f_axis if f_axis < x.ndim else t_axis) if x.ndim > 1 else x


ShortTimeFFT.__module__ = "oxinp.scipy.signal"
ShortTimeFFT.__doc__ = scipy.signal.ShortTimeFFT.__doc__
dispatch.register(scipy.signal.ShortTimeFFT, ShortTimeFFT)
