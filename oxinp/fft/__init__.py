"""Discrete Fourier transforms, as `numpy.fft`: what `_api` has not, NumPy computes on the host."""

from oxinp._api.modules import adopt as _adopt
from oxinp.fft import _api, _transforms  # noqa: F401 - for what they register

_adopt(__name__)
