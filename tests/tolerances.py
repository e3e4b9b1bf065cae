"""How far a reduction may be from NumPy's: one row per reduction.

NumPy and a device add in different orders, so float sums are compared by an error bound. Everything that is not listed
here is compared bit for bit.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

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


def zero_bound(x: np.ndarray, axis: Axis, keepdims: bool) -> np.ndarray:  # noqa: ARG001 - the rows' one signature
    """Equal values; the sign of a zero is free."""
    return np.float64(0.0)


REDUCTIONS = {
    row.name: row
    for row in (
        ReductionBound("sum", sum_bound, "the order of summation differs"),
        ReductionBound("max", zero_bound, "of +0 and -0 NumPy keeps whichever its vector width meets first"),
        ReductionBound("min", zero_bound, "of +0 and -0 NumPy keeps whichever its vector width meets first"),
    )
}
