"""Graphs as sparse matrices, as `scipy.sparse.csgraph`: what `_api` has not, SciPy computes on the host."""

from oxinp._api.modules import adopt as _adopt
from oxinp.sparse.csgraph import _api, _components, _trees  # noqa: F401 - for what they register

_adopt(__name__)

# What SciPy has not.
from oxinp.sparse.csgraph._coloring import greedy_coloring  # noqa: E402 - a name beside SciPy's

__all__ += ["greedy_coloring"]  # type: ignore[name-defined]  # noqa: F821
