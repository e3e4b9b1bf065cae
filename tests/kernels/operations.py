"""The reductions that these tests run, as the table of the core will have them."""

import numpy as np

from oxinp._kernels.problem import ReduceOp
from oxinp._kernels.reduce.operators import compensated_sum
from oxinp._ptx.types import from_dtype

ACCUMULATORS = {"b": "i8", "i": "i8", "u": "u8", "f": "f8", "c": "c16"}


def add(_, a, b):
    return a + b


def greatest(k, a, b):
    return (a | b) if a.type.kind == "p" else k.max_nan(a, b)


def sum_op(dtype):
    """Return the sum of an array of `dtype` as NumPy types it."""
    accumulator = np.dtype(ACCUMULATORS[dtype.kind])
    if accumulator.kind in "fc":
        return compensated_sum(from_dtype(accumulator))
    return ReduceOp("sum", from_dtype(accumulator), 0, add)


def max_op(dtype):
    """Return the maximum."""
    lowest = {"b": False, "f": -np.inf, "c": complex(-np.inf, -np.inf)}
    identity = int(np.iinfo(dtype).min) if dtype.kind in "iu" else lowest[dtype.kind]
    return ReduceOp("max", from_dtype(dtype), identity, greatest)
