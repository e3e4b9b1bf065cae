"""Random numbers, as `numpy.random`: generators whose arrays are ours, and NumPy's streams."""

from oxinp._api.modules import adopt as _adopt
from oxinp.random import _api, bit_generators, legacy  # noqa: F401 - for what they register
from oxinp.random.philox import Philox4x32 as Philox4x32  # which NumPy has not

_adopt(__name__)
