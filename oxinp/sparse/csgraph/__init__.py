"""Graphs as sparse matrices, as `scipy.sparse.csgraph`: what `_api` has not, SciPy computes on the host."""

from oxinp._api.modules import adopt as _adopt
from oxinp.sparse.csgraph import _api  # noqa: F401 - for what it registers

_adopt(__name__)
