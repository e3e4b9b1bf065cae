"""SciPy by changing one import: ``from oxinp import scipy``. Submodules without a folder here are made from a table."""

from oxinp._api.modules import adopt as _adopt

_adopt(__name__)
