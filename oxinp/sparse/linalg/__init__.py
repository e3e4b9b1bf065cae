"""Linear algebra with sparse matrices, as `scipy.sparse.linalg`: on the host."""

from oxinp._api.modules import adopt as _adopt

_adopt(__name__)
