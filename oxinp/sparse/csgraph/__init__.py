"""Graphs as sparse matrices, as `scipy.sparse.csgraph`: what `_api` has not, SciPy computes on the host."""

from oxinp._api.modules import adopt as _adopt
from oxinp.sparse.csgraph import _api, _components, _trees  # noqa: F401 - for what they register

_adopt(__name__)
