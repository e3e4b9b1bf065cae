"""Sparse arrays, as `scipy.sparse`: its classes, which take our arrays, and its functions on the host."""

from oxinp._api.modules import adopt as _adopt

_adopt(__name__)
