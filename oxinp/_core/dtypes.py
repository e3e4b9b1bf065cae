"""dtypes: which ones live on the device, and what the kernel language calls them. One row per dtype.

dtype objects, scalar types and promotion rules are NumPy's own; nothing here decides a result type.
"""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._ptx.types import Type

# THE DTYPE TABLE: NumPy's dtype -> the name of the kernel language's type. bool is one byte in memory, a predicate in
# registers.
DEVICE_TYPES: dict[np.dtype[Any], str] = {
    np.dtype(np.bool_): "pred",
    np.dtype(np.int32): "i32",
    np.dtype(np.int64): "i64",
    np.dtype(np.float32): "f32",
    np.dtype(np.float64): "f64",
}


@functools.cache
def kernel_type(dtype: np.dtype[Any]) -> Type:
    """Return the kernel language's type; the language is imported when the first kernel is built."""
    found: Type = getattr(importlib.import_module("oxinp._ptx.types"), DEVICE_TYPES[dtype])
    return found


BOOL = np.dtype(np.bool_)
INT64 = np.dtype(np.int64)
FLOAT64 = np.dtype(np.float64)

# Python's own scalar types, which promote weakly (NEP 50), and the scalar they become in a loop of a dtype kind.
WEAK_TYPES: frozenset[type] = frozenset({int, float, complex})


def scalar_value(dtype: np.dtype[Any]) -> Callable[[Any], int | float]:
    """Return the function that turns a Python or NumPy scalar into the value a kernel parameter of `dtype` takes.

    Raises OverflowError, as NumPy does, for a Python integer that `dtype` cannot hold.
    """
    if dtype.kind == "f":
        scalar_type = dtype.type

        def as_float(value: Any) -> float:
            with np.errstate(over="ignore"):
                return float(scalar_type(value))

        return as_float
    if dtype.kind == "b":
        return bool
    info = np.iinfo(dtype)
    low, high = int(info.min), int(info.max)

    def as_int(value: Any) -> int:
        number = int(value)
        if not low <= number <= high:
            msg = f"Python integer {number} out of bounds for {dtype}"
            raise OverflowError(msg)
        return number

    return as_int
