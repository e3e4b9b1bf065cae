"""Statistics, as `scipy.stats`: what has no folder here, SciPy computes on the host."""

from oxinp._api.modules import adopt as _adopt

_adopt(__name__)
