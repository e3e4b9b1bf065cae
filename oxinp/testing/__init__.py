"""Assertions about arrays, as `numpy.testing`: NumPy's own, which compare ours as NumPy's arrays."""

from oxinp._api.modules import adopt as _adopt
from oxinp.testing import _api  # noqa: F401 - for what it registers

_adopt(__name__)
