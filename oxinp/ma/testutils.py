"""Assertions about masked arrays, as `numpy.ma.testutils`: NumPy's own, which compare ours as NumPy's arrays."""

from oxinp._api.modules import adopt as _adopt
from oxinp.testing._api import compare_on_host as _compare_on_host

_compare_on_host("ma.testutils")
_adopt(__name__)
