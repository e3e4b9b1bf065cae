"""Comparing one result with NumPy's: by how much it differs, and whether rounding explains that."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Distance", "distance", "magnitude", "rounding"]

ROUNDINGS = 64.0  # roundings of the largest number of a line that its results may be off by, whatever their own size

Array = np.ndarray[Any, Any]


class Distance(NamedTuple):
    """How far a result is from NumPy's.

    Attributes
    ----------
    is_wrong : bool
        Further than allowed, or of another shape or dtype.
    message : str
        Where and by how much.
    relative : float
        Largest difference relative to NumPy's value, among those that are allowed.
    ulp : float
        The same in units in the last place.
    """

    is_wrong: bool
    message: str = ""
    relative: float = 0.0
    ulp: float = 0.0


SAME = Distance(False)


def default_rtol(dtype: np.dtype[Any]) -> float:
    """Return half of the digits of a floating dtype."""
    return math.sqrt(float(np.finfo(dtype).eps))


def magnitude(array: Array) -> float:
    """Return the largest finite magnitude among the elements of an array."""
    if array.dtype.kind not in "iufc" or not array.size:
        return 0.0
    with np.errstate(all="ignore"):
        sizes = np.abs(array.astype(np.result_type(array.dtype, np.float64), copy=False))
        largest = float(sizes.max())
        return largest if math.isfinite(largest) else float(np.where(np.isfinite(sizes), sizes, 0).max())


def rounding(operands: list[Array], result: Array) -> float:
    """Return how far rounding may put a result, through cancellation or summation, given its operands."""
    if result.dtype.kind not in "fc":
        return 0.0
    largest = max([magnitude(result), *map(magnitude, operands)])
    summed = max([1, *[operand.size for operand in operands]]) / max(1, result.size)
    return ROUNDINGS * float(np.finfo(result.dtype).eps) * largest * math.sqrt(max(1.0, summed))


def distance(ours: Array, numpys: Array, rtol: float | None, slack: float) -> Distance:
    """Compare two arrays.

    Parameters
    ----------
    ours, numpys : numpy.ndarray
    rtol : float or None
        How far floats may be apart relative to NumPy's; None for half of their digits.
    slack : float
        And in any case (see `rounding`). Everything else has to be equal.
    """
    if ours.dtype != numpys.dtype or ours.shape != numpys.shape:
        return Distance(True, f"oxinp gives {ours.dtype} {ours.shape}, NumPy {numpys.dtype} {numpys.shape}")
    if ours.dtype.names is not None or ours.dtype.kind == "O":
        return SAME if ours.tobytes() == numpys.tobytes() else Distance(True, "the bytes differ")
    with np.errstate(all="ignore"):
        if ours.dtype.kind in "fc":
            return _of_floats(ours, numpys, rtol, slack)
        wrong = ours != numpys
        if ours.dtype.kind in "mM":
            wrong &= ~(np.isnat(ours) & np.isnat(numpys))
    return Distance(True, _first(ours, numpys, wrong)) if wrong.any() else SAME


def _of_floats(ours: Array, numpys: Array, rtol: float | None, slack: float) -> Distance:
    equal = (ours == numpys) | (np.isnan(ours) & np.isnan(numpys))
    if equal.all():
        return SAME
    rtol = default_rtol(ours.dtype) if rtol is None else rtol
    wide = np.result_type(ours.dtype, np.float64)
    sizes = np.abs(numpys.astype(wide))
    absolute = np.where(equal, 0.0, np.abs(ours.astype(wide) - numpys.astype(wide)))
    absolute = np.where(np.isnan(absolute), np.inf, absolute)
    relative = np.where(equal, 0.0, absolute / sizes)
    ulps = np.where(equal, 0.0, absolute / np.spacing(np.abs(numpys)).astype(np.float64))
    # An infinity on either side is right only where both have it.
    wrong = ~equal & ~((absolute <= rtol * sizes + slack) & np.isfinite(sizes) & np.isfinite(absolute))
    if not wrong.any():
        return Distance(False, "", _largest(relative), _largest(ulps))
    sizes_of = f"{_largest(absolute):.3g} absolute, {_largest(relative):.3g} relative, {_largest(ulps):.3g} ulp"
    return Distance(True, f"{_first(ours, numpys, wrong)}; largest difference: {sizes_of}")


def _largest(values: Array) -> float:
    return float(np.max(values[~np.isnan(values)], initial=0.0))


def _first(ours: Array, numpys: Array, wrong: Array) -> str:
    index = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(wrong)))
    values = f"oxinp {np.atleast_1d(ours)[index]!s}, NumPy {np.atleast_1d(numpys)[index]!s}"
    if not wrong.ndim:
        return values
    place = ", ".join(map(str, index))
    return f"{np.count_nonzero(wrong)} of {wrong.size} elements differ, the first at [{place}]: {values}"
