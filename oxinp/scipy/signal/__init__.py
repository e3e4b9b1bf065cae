"""Signal processing, as `scipy.signal`: what the modules here have not, SciPy computes on the host."""

from oxinp._api.modules import adopt as _adopt
from oxinp.scipy.signal import (  # noqa: F401 - for what they register
    _convolution,
    _resampling,
    _short_time,
    _spectral,
)

_adopt(__name__)
