"""Masked arrays, as `numpy.ma`: NumPy's own, of NumPy's arrays."""

from oxinp._api.modules import adopt as _adopt

_adopt(__name__)
