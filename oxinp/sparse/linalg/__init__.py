"""Linear algebra with sparse matrices, as `scipy.sparse.linalg`: what `_api` has not, SciPy computes on the host."""

from oxinp._api.modules import adopt as _adopt
from oxinp.sparse.linalg import _api  # noqa: F401 - for what it registers

_adopt(__name__)

# What SciPy has not: preconditioners that are made and applied on the device.
from oxinp.sparse.linalg._incomplete import ic0, ilu0  # noqa: E402 - names beside SciPy's
from oxinp.sparse.linalg._multigrid import smoothed_aggregation  # noqa: E402

__all__ += ["ic0", "ilu0", "smoothed_aggregation"]  # type: ignore[name-defined]  # noqa: F821
