"""Quasi-Monte Carlo, as `scipy.stats.qmc`: engines whose points are our arrays, large ones made on the device."""

from oxinp._api.modules import adopt as _adopt
from oxinp.scipy.stats.qmc import _api  # noqa: F401 - for what it registers

_adopt(__name__)
