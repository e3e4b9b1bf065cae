"""Series in the six bases of `numpy.polynomial`: values, fits, matrices of powers, products, roots, by NumPy's code."""

from __future__ import annotations

from oxinp._api.fronts import find_theirs, implements
from oxinp._api.rebound import rebound
from oxinp._api.submodule_rows import SERIES

for _row in SERIES:
    implements(_row)(rebound(find_theirs(_row)))
