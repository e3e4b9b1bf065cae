"""Discrete Fourier transforms, as `scipy.fft`: what `_api` has not, SciPy computes on the host."""

from oxinp._api.modules import adopt as _adopt
from oxinp.scipy.fft import _api, _cosine, _hankel, _transforms  # noqa: F401 - for what they register

_adopt(__name__)
