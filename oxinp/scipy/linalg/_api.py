"""Functions of `scipy.linalg` on the device: triangular systems."""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._api.fronts import as_ours, implements
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.ops.triangular import Triangle
from oxinp._core.ops.triangular import solve_triangular as _solve_triangular
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.table import ALL
from oxinp._core.ufunc.objects import UFUNC_OBJECTS

_TRANS = {"N": 0, "T": 1, "C": 2, 0: 0, 1: 1, 2: 2}


@implements("scipy.linalg.solve_triangular")
def solve_triangular(
    a: Any,
    b: Any,
    trans: Any = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,  # noqa: ARG001 - a permission, of which no use is made
    check_finite: bool = True,
) -> Any:
    """See `scipy.linalg.solve_triangular`."""
    if any(isinstance(x, np.ndarray) and type(x) is not np.ndarray for x in (a, b)) or trans not in _TRANS:
        raise Unsupported("a subclass, or what SciPy refuses")
    arrays = as_ours(a), as_ours(b)
    if check_finite:
        for x in arrays:
            if x._layout.dtype.kind in "fc" and x._layout.size and not bool(reduce(ALL, UFUNC_OBJECTS["isfinite"](x))):
                raise ValueError("array must not contain infs or NaNs")
    return _solve_triangular(arrays[0], arrays[1], Triangle(_TRANS[trans], bool(lower), bool(unit_diagonal)))
