"""Functions of `numpy.linalg` on the device: products, norms, systems and factorisations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.linalg import _linalg as numpys

from oxinp._api.fronts import as_ours, enter_without_reading, implements
from oxinp._api.rebound import rebound
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.ops import factorise

# Written in Python by NumPy, in terms of functions that we have. The result of these may be larger than their arrays,
for _name in ("cross", "matmul", "matrix_power", "multi_dot", "outer", "tensordot", "trace", "vecdot"):
    implements(f"linalg.{_name}", is_hosted=False)(rebound(getattr(np.linalg, _name)))
# that of these is not. Norms that are singular values ask `svd` for them.
for _name in ("matrix_norm", "norm", "vector_norm"):
    implements(f"linalg.{_name}")(rebound(getattr(np.linalg, _name)))
# Views.
for _name in ("diagonal", "matrix_transpose"):
    enter_without_reading(getattr(np.linalg, _name), f"linalg.{_name}")


def _checked(*arrays: Any) -> tuple[Any, ...]:
    if any(isinstance(x, np.ndarray) and type(x) is not np.ndarray for x in arrays):
        raise Unsupported("a subclass to pass through")
    return tuple(as_ours(x) for x in arrays)


@implements("linalg.cholesky")
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """See `numpy.linalg.cholesky`."""
    return factorise.cholesky(*_checked(a), upper=upper)


@implements("linalg.inv")
def inv(a: Any) -> Any:
    """See `numpy.linalg.inv`."""
    return factorise.inv(*_checked(a))


@implements("linalg.solve")
def solve(a: Any, b: Any) -> Any:
    """See `numpy.linalg.solve`."""
    return factorise.solve(*_checked(a, b))


@implements("linalg.det")
def det(a: Any) -> Any:
    """See `numpy.linalg.det`."""
    return factorise.det(*_checked(a))


@implements("linalg.slogdet")
def slogdet(a: Any) -> Any:
    """See `numpy.linalg.slogdet`."""
    sign, logarithm = factorise.slogdet(*_checked(a))
    return numpys.SlogdetResult(sign, logarithm)


@implements("linalg.qr")
def qr(a: Any, mode: str = "reduced") -> Any:
    """See `numpy.linalg.qr`."""
    if mode not in ("reduced", "complete", "r", "raw"):
        raise Unsupported("a mode that NumPy refuses, or deprecates")
    (a,) = _checked(a)
    result = factorise.qr(a, mode)
    return result if mode in ("r", "raw") else numpys.QRResult(*result)
