"""Graphs as sparse matrices, as `scipy.sparse.csgraph`: on the host."""

from oxinp._api.modules import adopt as _adopt

_adopt(__name__)
