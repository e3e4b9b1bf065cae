"""Fast Hankel transforms of logarithmically spaced sequences: `scipy.fft.fht` and `scipy.fft.ifht`.

Source: A. J. S. Hamilton, Uncorrelated modes of the non-linear power spectrum, MNRAS 312, 2000.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import loggamma, poch

from oxinp._api.fronts import as_ours, implements
from oxinp._core.errors.frames import warn
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.ops.creation import asarray
from oxinp._core.ufunc.objects import UFUNC_OBJECTS
from oxinp.fft._transforms import apply, request


def _coefficients(n: int, dln: float, mu: float, offset: float, bias: float, *, is_inverse: bool) -> Any:
    """Coefficients of the transform, which do not depend on the sequence."""
    y = np.linspace(0, np.pi * (n // 2) / (n * dln), n // 2 + 1)
    plus, minus = (mu + 1 + bias) / 2, (mu + 1 - bias) / 2
    above, below = loggamma(plus + 1j * y), loggamma(minus + 1j * y)
    ln_2 = np.log(2)
    found = np.exp(above.real - below.real + ln_2 * bias + 1j * (above.imag + below.imag + y * 2 * (ln_2 - offset)))
    if n % 2 == 0:
        found.imag[-1] = 0
    if not np.isfinite(found[0]):
        found[0] = 2**bias * poch(minus, plus - minus)
    is_singular = found[0] == 0 if is_inverse else np.isinf(found[0])
    if is_singular:
        found[0] = np.inf if is_inverse else 0
        kind = "singular inverse transform" if is_inverse else "singular transform"
        warn(f"{kind}; consider changing the bias", UserWarning)
    return asarray(found)


def _hankel(a: Any, dln: float, mu: float, offset: float, bias: float, *, is_inverse: bool) -> Any:
    if not all(isinstance(x, int | float | np.number) for x in (dln, mu, offset, bias)):
        raise Unsupported("parameters that are no numbers")
    a = as_ours(a)
    if not a.ndim or not a.shape[-1]:
        raise Unsupported("no sequence")
    n = a.shape[-1]
    places = (np.arange(n, dtype=np.float64) - (n - 1) / 2) * dln
    if bias:
        a = a * asarray(np.exp(bias * (places + offset) if is_inverse else -bias * places))
    factors = _coefficients(n, dln, mu, offset, bias, is_inverse=is_inverse)
    found = apply(a, request("scipy", "rfft", None, (-1,), None))
    if is_inverse:
        found /= UFUNC_OBJECTS["conjugate"](factors)
    else:
        found *= factors
    found = apply(found, request("scipy", "irfft", (n,), (-1,), None))[..., ::-1]
    if bias and is_inverse:
        found /= asarray(np.exp(-bias * places))
    elif bias:
        found *= asarray(np.exp(-bias * (places + offset)))
    return found


@implements("scipy.fft.fht")
def fht(a: Any, dln: float, mu: float, offset: float = 0.0, bias: float = 0.0) -> Any:
    """See `scipy.fft.fht`."""
    return _hankel(a, dln, mu, offset, bias, is_inverse=False)


@implements("scipy.fft.ifht")
def ifht(A: Any, dln: float, mu: float, offset: float = 0.0, bias: float = 0.0) -> Any:
    """See `scipy.fft.ifht`."""
    return _hankel(A, dln, mu, offset, bias, is_inverse=True)
