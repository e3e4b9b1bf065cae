"""Functions of `numpy.linalg` on the device: products and norms."""

from __future__ import annotations

import numpy as np

from oxinp._api.fronts import enter_without_reading, implements
from oxinp._api.rebound import rebound

# Written in Python by NumPy, in terms of functions that we have. The result of these may be larger than their arrays,
for _name in ("cross", "matmul", "matrix_power", "multi_dot", "outer", "tensordot", "trace", "vecdot"):
    implements(f"linalg.{_name}", is_hosted=False)(rebound(getattr(np.linalg, _name)))
# that of these is not. Norms that are singular values ask `svd` for them.
for _name in ("matrix_norm", "norm", "vector_norm"):
    implements(f"linalg.{_name}")(rebound(getattr(np.linalg, _name)))
# Views.
for _name in ("diagonal", "matrix_transpose"):
    enter_without_reading(getattr(np.linalg, _name), f"linalg.{_name}")
