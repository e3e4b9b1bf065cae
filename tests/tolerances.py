"""How far a reduction may be from NumPy's: one row per reduction.

NumPy and a device add in different orders, so float sums are compared by an error bound. Everything that is not listed
here is compared bit for bit.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from oxinp._core.ufunc.table import UFUNCS

Axis = int | tuple[int, ...] | None


@dataclass(frozen=True)
class ReductionBound:
    """What may differ in one reduction.

    Attributes
    ----------
    name : str
        NumPy's name.
    bound : callable(x, axis, keepdims)
        Largest absolute difference from NumPy's result, float64, of the result's shape; `x` already has the dtype that
        is accumulated.
    why : str
        Why it cannot be bit for bit.
    """

    name: str
    bound: Callable[[np.ndarray, Axis, bool], np.ndarray]
    why: str


def sum_bound(x: np.ndarray, axis: Axis, keepdims: bool) -> np.ndarray:
    """n eps sum|x|: twice the (n - 1) u sum|x| within which any order of summation lies (Higham 2002, 4.2)."""
    with np.errstate(all="ignore"):
        magnitude = np.abs(x).astype(np.float64)
        total = np.sum(np.where(np.isfinite(magnitude), magnitude, 0.0), axis=axis, keepdims=keepdims)
    count = x.size // max(total.size, 1)
    return count * float(np.finfo(x.dtype).eps) * total


def prod_bound(x: np.ndarray, axis: Axis, keepdims: bool) -> np.ndarray:
    """n eps |product|, and what underflows."""
    with np.errstate(all="ignore"):
        magnitude = np.abs(np.nanprod(x.astype(np.result_type(x.dtype, np.float64)), axis=axis, keepdims=keepdims))
    count = x.size // max(magnitude.size, 1)
    info = np.finfo(x.dtype)
    return 2 * count * float(info.eps) * np.where(np.isfinite(magnitude), magnitude, 0.0) + count * float(info.tiny)


def mean_bound(x: np.ndarray, axis: Axis, keepdims: bool) -> np.ndarray:
    """The sum's bound over n, and the rounding of the quotient."""
    total = sum_bound(x, axis, keepdims)
    count = max(x.size // max(total.size, 1), 1)
    return total * (1 / count + 1 / count**2)


def var_bound(x: np.ndarray, axis: Axis, keepdims: bool) -> np.ndarray:
    """n eps var + (n eps mean|x|)^2, within which two passes lie (Chan, Golub, LeVeque 1983, section 2)."""
    with np.errstate(all="ignore"):
        finite = np.where(np.isfinite(x), x, 0).astype(np.result_type(x.dtype, np.float64))
        squares = np.mean(np.abs(finite) ** 2, axis=axis, keepdims=keepdims)
    mean_error = mean_bound(x, axis, keepdims)
    count = x.size // max(squares.size, 1)
    return 4 * (count + 4) * float(np.finfo(x.dtype).eps) * squares + mean_error**2


def std_bound(x: np.ndarray, axis: Axis, keepdims: bool) -> np.ndarray:
    """The root of the variance's bound."""
    bound: np.ndarray = np.sqrt(var_bound(x, axis, keepdims))
    return bound


def zero_bound(x: np.ndarray, axis: Axis, keepdims: bool) -> np.ndarray:  # noqa: ARG001 - the rows' one signature
    """Equal values; the sign of a zero is free."""
    return np.float64(0.0)


REDUCTIONS = {
    row.name: row
    for row in (
        ReductionBound("sum", sum_bound, "the order of summation differs"),
        ReductionBound("prod", prod_bound, "the order of multiplication differs"),
        ReductionBound("mean", mean_bound, "the order of summation differs"),
        ReductionBound("average", mean_bound, "the order of summation differs"),
        ReductionBound("var", var_bound, "one pass with joined moments against two passes"),
        ReductionBound("std", std_bound, "one pass with joined moments against two passes"),
        ReductionBound("max", zero_bound, "of +0 and -0 NumPy keeps whichever its vector width meets first"),
        ReductionBound("min", zero_bound, "of +0 and -0 NumPy keeps whichever its vector width meets first"),
    )
}

SMALL_ULP = {
    "average": 2,
    "mean": 2,
    "nanmean": 2,
    "nanstd": 4,
    "nanvar": 4,
    "std": 4,
    "var": 4,
    "fft.fft": 4,
    "linalg.eigvalsh": 16,
    "linalg.svd": 16,
}
"""How far functions of a few well-conditioned floats may be from NumPy's, which round in another order."""

# Functions that are made of ufuncs which are not exact: what they use most.
COMPOSED = {"geomspace": "power", "logspace": "power", "sinc": "sin", "**": "power"}


def ulp_of(code: str) -> float:
    """How many ulp the result of an expression may be from NumPy's: the bounds of the inexact ufuncs in it."""
    names = [COMPOSED.get(name, name) for name in re.findall(r"[a-z_]\w*|\*\*", code)]
    used = {getattr(np, name) for name in names if name in np.__all__}
    return max((row.ulp + row.numpy_ulp for row in UFUNCS if row.numpy in used), default=0.0)
