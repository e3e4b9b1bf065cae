"""Sparse arrays, as `scipy.sparse`: its classes over our arrays; what `_api` has not, SciPy computes on the host."""

from oxinp._api.modules import adopt as _adopt
from oxinp.sparse import _api  # noqa: F401 - for what it registers

_adopt(__name__)

# What SciPy has not.
from oxinp.sparse._sampled import sddmm  # noqa: E402 - a name beside SciPy's

__all__ += ["sddmm"]  # type: ignore[name-defined]  # noqa: F821
