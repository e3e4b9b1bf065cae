"""Interpolative decompositions, as `scipy.linalg.interpolative`: what `_api` has not, SciPy computes on the host."""

from oxinp._api.modules import adopt as _adopt
from oxinp.scipy.linalg.interpolative import _api  # noqa: F401 - for what it registers

_adopt(__name__)
