"""Polynomials, as `numpy.polynomial`: what `_api` has not, NumPy computes on the host."""

from oxinp._api.modules import adopt as _adopt
from oxinp.polynomial import _api  # noqa: F401 - for what it registers

_adopt(__name__)
