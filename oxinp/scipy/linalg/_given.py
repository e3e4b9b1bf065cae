"""What the functions of `scipy.linalg` are given: arrays, finite where that is checked, of dtypes with kernels."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from oxinp._api.fronts import as_ours
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.table import ALL
from oxinp._core.ufunc.objects import UFUNC_OBJECTS

LAPACK = "fdFDilqILQ"
"""dtypes of which SciPy's LAPACK computes in their own precision, or in double."""


def given(*arrays: Any, check_finite: bool) -> tuple[Any, ...]:
    """Return arrays as ours.

    Raises
    ------
    ValueError
        There are infinities or NaNs, and `check_finite`.
    Unsupported
        One is of a subclass.
    """
    if any(isinstance(x, np.ndarray) and type(x) is not np.ndarray for x in arrays):
        raise Unsupported("a subclass")
    ours = tuple(map(as_ours, arrays))
    if check_finite:
        for x in ours:
            if x.dtype.kind in "fc" and x.size and not bool(reduce(ALL, UFUNC_OBJECTS["isfinite"](x))):
                raise ValueError("array must not contain infs or NaNs")
    return ours


def matrices(*arrays: Any, check_finite: bool, are_square: bool = False) -> tuple[Any, ...]:
    """Return stacks of matrices with elements, of dtypes that SciPy computes in, or in double.

    Raises
    ------
    ValueError
        There are infinities or NaNs, and `check_finite`.
    Unsupported
        They are not: SciPy says what is wrong, or computes.
    """
    ours = given(*arrays, check_finite=False)
    for x in ours:
        if x.ndim < 2 or not x.size or x.dtype.char not in LAPACK or (are_square and x.shape[-1] != x.shape[-2]):
            raise Unsupported("shapes or dtypes of which SciPy says what is wrong, or computes")
    return given(*ours, check_finite=check_finite)


def or_scipy(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let SciPy say in its words, on the host, that a matrix is singular, or not positive definite."""

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except np.linalg.LinAlgError as error:
            raise Unsupported(str(error)) from None

    return wrapped


__all__ = ["given", "matrices", "or_scipy"]
