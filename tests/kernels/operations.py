"""The reductions that these tests run, as the table of the core will have them."""

import numpy as np

from oxinp._kernels.problem import ReduceOp
from oxinp._ptx.types import from_dtype

ACCUMULATORS = {"bool": "int64", "int32": "int64", "int64": "int64", "float32": "float64", "float64": "float64"}


def add(_, a, b):
    return a + b


def greatest(k, a, b):
    return (a | b) if a.type.kind == "p" else k.max_nan(a, b) if a.type.is_float else k.max(a, b)


def sum_op(dtype):
    """Return the sum of an array of `dtype` as NumPy types it."""
    accumulator = np.dtype(ACCUMULATORS[dtype.name])
    return ReduceOp("sum", from_dtype(accumulator), 0, add, is_compensated=dtype == np.float64)


def max_op(dtype):
    """Return the maximum."""
    lowest = {"b": False, "i": None, "f": -np.inf}[dtype.kind]
    identity = int(np.iinfo(dtype).min) if lowest is None else lowest
    return ReduceOp("max", from_dtype(dtype), identity, greatest)
