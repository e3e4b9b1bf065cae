"""dtypes: which ones live on the device, and what the kernel language calls them. One row per dtype.

dtype objects, scalar types and promotion rules are NumPy's own; nothing here decides a result type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._ptx import types

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._ptx.types import Type

# THE DTYPE TABLE: NumPy's dtype -> the kernel language's type. bool is one byte in memory, a predicate in registers.
DEVICE_TYPES: dict[np.dtype[Any], Type] = {
    np.dtype(np.bool_): types.pred,
    np.dtype(np.int8): types.i8,
    np.dtype(np.int16): types.i16,
    np.dtype(np.int32): types.i32,
    np.dtype(np.int64): types.i64,
    np.dtype(np.uint8): types.u8,
    np.dtype(np.uint16): types.u16,
    np.dtype(np.uint32): types.u32,
    np.dtype(np.uint64): types.u64,
    np.dtype(np.float16): types.f16,
    np.dtype(np.float32): types.f32,
    np.dtype(np.float64): types.f64,
    np.dtype(np.complex64): types.c64,
    np.dtype(np.complex128): types.c128,
}

# What an element is while it is only moved: a byte that is viewed as bool need not be 0 or 1.
MOVED_TYPES: dict[np.dtype[Any], Type] = {**DEVICE_TYPES, np.dtype(np.bool_): types.u8}

# dtypes of other packages, by name. Their arrays stay on the host, but products read the bits on the device.
MULTIPLIED_BITS: dict[str, tuple[np.dtype[Any], Type]] = {"bfloat16": (np.dtype(np.uint16), types.bf16)}

# dtypes by whose kernels elements without any are moved, by their size.
CARRIERS: dict[int, np.dtype[Any]] = {
    np.dtype(each).itemsize: np.dtype(each) for each in ("u1", "u2", "u4", "u8", "c16")
}

BOOL = np.dtype(np.bool_)
INT64 = np.dtype(np.int64)
FLOAT16 = np.dtype(np.float16)
FLOAT32 = np.dtype(np.float32)
FLOAT64 = np.dtype(np.float64)

# Python's own scalar types, which promote weakly (NEP 50), and the scalar they become in a loop of a dtype kind.
WEAK_TYPES: frozenset[type] = frozenset({int, float, complex})


_LONG = np.iinfo(np.long)
_LEAST_LONG, _LARGEST_LONG = int(_LONG.min), int(_LONG.max)


def _as_bool(value: Any) -> bool:
    """Return a value's truth; raises what NumPy's logical functions do for Python integers beyond C's long."""
    if type(value) is int and not _LEAST_LONG <= value <= _LARGEST_LONG:
        return bool(np.logical_and(True, value))
    return bool(value)


def scalar_value(dtype: np.dtype[Any]) -> Callable[[Any], complex]:
    """Return the function that turns a Python or NumPy scalar into the value a kernel parameter of `dtype` takes.

    Raises OverflowError, as NumPy does, for a Python integer that `dtype` cannot hold.
    """
    if dtype == FLOAT64:
        return float
    if dtype.kind in "fc":
        scalar_type = dtype.type
        plain: type[complex] = float if dtype.kind == "f" else complex
        largest = float(np.finfo(dtype).max)

        def as_float(value: Any) -> complex:
            if type(value) is float and -largest <= value <= largest:  # what is entered for that costs as much as five
                return plain(scalar_type(value))
            with np.errstate(over="ignore"):
                return plain(scalar_type(value))

        as_float.scalar_type = scalar_type  # type: ignore[attr-defined]
        return as_float
    if dtype.kind == "b":
        return _as_bool
    info = np.iinfo(dtype)
    low, high = int(info.min), int(info.max)

    def as_int(value: Any) -> int:
        number = int(value)
        if not low <= number <= high:
            np.zeros(1, dtype) + number  # raises, in NumPy's words
            msg = f"Python integer {number} out of bounds for {dtype}"
            raise OverflowError(msg)
        return number

    return as_int


def is_dtype_class(dtype: Any) -> bool:
    """Whether a dtype is given by its class, as `numpy.dtypes.BytesDType`: which one it is depends on the elements."""
    return isinstance(dtype, type) and issubclass(dtype, np.dtype)
