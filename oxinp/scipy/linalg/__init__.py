"""Linear algebra, as `scipy.linalg`: what `_api` has not, SciPy computes on the host."""

from oxinp._api.modules import adopt as _adopt
from oxinp.scipy.linalg import _api, _low_level  # noqa: F401 - for what they register

_adopt(__name__)
