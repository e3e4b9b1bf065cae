"""Functions of `scipy.fft` on the device: orders of frequencies."""

from __future__ import annotations

from typing import Any

from oxinp import fft
from oxinp._api.fronts import implements
from oxinp._core.lazy.expr import Unsupported


@implements("scipy.fft.fftshift")
def fftshift(x: Any, axes: Any = None) -> Any:
    """See `scipy.fft.fftshift`."""
    return fft.fftshift(x, axes=axes)


@implements("scipy.fft.ifftshift")
def ifftshift(x: Any, axes: Any = None) -> Any:
    """See `scipy.fft.ifftshift`."""
    return fft.ifftshift(x, axes=axes)


@implements("scipy.fft.fftfreq", is_hosted=False)
def fftfreq(n: int, d: float = 1.0, *, xp: Any = None, device: Any = None) -> Any:
    """See `scipy.fft.fftfreq`."""
    _check(xp, device)
    return fft.fftfreq(n, d)


@implements("scipy.fft.rfftfreq", is_hosted=False)
def rfftfreq(n: int, d: float = 1.0, *, xp: Any = None, device: Any = None) -> Any:
    """See `scipy.fft.rfftfreq`."""
    _check(xp, device)
    return fft.rfftfreq(n, d)


def _check(xp: Any, device: Any) -> None:
    if xp is not None or device is not None:
        raise Unsupported("another library's arrays, or what SciPy refuses")
