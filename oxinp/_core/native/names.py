"""What there is machine code for, by name: apart from what writes it, which is imported when the first is wanted."""

from __future__ import annotations

import numpy as np

BINARY = {
    "add": ("add", "add"),
    "subtract": ("sub", "subtract"),
    "multiply": ("mul", "multiply"),
    "true_divide": ("truediv", "divide"),
    "floor_divide": ("floordiv", "floor_divide"),
    "remainder": ("mod", "remainder"),
    "and": ("and", "bitwise_and"),
    "or": ("or", "bitwise_or"),
    "xor": ("xor", "bitwise_xor"),
    "lshift": ("lshift", "left_shift"),
    "rshift": ("rshift", "right_shift"),
}
"""Slots of operators, and what their methods and their ufuncs are called."""
UNARY = ("negative", "absolute", "invert")
ASKING = {
    "matrix_multiply": ("__matmul__", "__rmatmul__"),
    "power": ("__pow__", "__rpow__"),
    **{name: (f"__{method}__", f"__r{method}__") for name, (method, _) in BINARY.items()},
}
"""Slots whose function of Python's asks whether it is in the slot itself, and the methods that it calls."""
SLOTS = (
    *("length", "subscript", "ass_subscript", "compare"),
    *ASKING,
    *(f"inplace_{name}" for name in BINARY),
    *UNARY,
)
"""Slots of arrays whose calls are counted."""
RETURNING_INTEGERS = ("length", "ass_subscript")
"""Those that return no object."""

NUMBERS = (np.float64, np.float32, np.int64, np.complex128, np.int32, np.uint8)
"""Types of NumPy's numbers that ask an array at once, by these slots."""
OF_NUMBERS = ("add", "subtract", "multiply", "true_divide")

REDUCTIONS = ("sum", "mean", "max", "min", "any", "all")
"""Functions and methods that make a number of an array."""
ANEW = (
    *("allclose", "angle", "append", "argmax", "argmin", "argpartition", "argsort", "argwhere", "array_equal"),
    *("average", "bincount", "choose", "clip", "column_stack", "compress", "convolve", "copy", "corrcoef", "correlate"),
    *("count_nonzero", "cov", "cross", "cumprod", "cumsum", "delete", "diff", "digitize", "dstack", "ediff1d"),
    *("einsum", "extract", "flatnonzero", "full_like", "gradient", "histogram", "hstack", "inner", "insert", "interp"),
    *("intersect1d", "isclose", "iscomplex", "isin", "isreal", "lexsort", "median", "nan_to_num", "nanmax", "nanmean"),
    *("nanmin", "nanstd", "nansum", "nanvar", "partition", "percentile", "polyfit", "polyval", "prod", "ptp"),
    *("quantile", "round", "searchsorted", "select", "setdiff1d", "sinc", "sort", "stack", "std", "take"),
    *("take_along_axis", "tensordot", "trace", "trapezoid", "tril", "triu", "union1d", "unique", "var", "vdot"),
    *("vstack",),
)
"""Functions that make something new, as large as what they are given at most, or a tuple of such."""
TELLING = (
    *("can_cast", "common_type", "iscomplexobj", "isfortran", "isrealobj", "may_share_memory", "result_type"),
    "shares_memory",
)
"""Functions that tell something of arrays and make none."""
WRITING = ("copyto", "place", "put", "putmask")
"""Functions that write to their first argument."""
TAKING_OUT = frozenset(
    (
        *REDUCTIONS,
        *("argmax", "argmin", "choose", "clip", "compress", "cumprod", "cumsum", "dot", "prod", "ptp", "round", "std"),
        *("take", "var"),
    )
)
"""Functions and methods that write to ``out`` where it is given, and return that."""
DECOMPOSITIONS = (
    *("cond", "eig", "eigh", "eigvals", "eigvalsh", "lstsq", "matrix_power", "matrix_rank", "pinv", "qr", "slogdet"),
    "svd",
)
"""Those of `numpy.linalg`."""
TRANSFORMS = (
    *("fft", "ifft", "rfft", "irfft", "fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"),
    *("fftshift", "ifftshift"),
)
"""Those of `numpy.fft`."""
FUNCTIONS = (
    *(
        "arange",
        "array",
        "asarray",
        "ascontiguousarray",
        "atleast_1d",
        "atleast_2d",
        "concatenate",
        "dot",
        "empty",
        "empty_like",
        "eye",
        "full",
    ),
    *("identity", "linalg.norm"),
    *("nonzero", "ones", "ones_like", "outer", "repeat", "roll", "where", "zeros", "zeros_like"),
    *("expand_dims", "flip", "fliplr", "flipud", "imag", "matrix_transpose", "moveaxis", "ravel", "real", "reshape"),
    *("rollaxis", "rot90", "squeeze", "swapaxes", "transpose"),
    *REDUCTIONS,
    *ANEW,
    *TELLING,
    *WRITING,
    *("diagonal",),
    *(f"linalg.{name}" for name in DECOMPOSITIONS),
    *(f"fft.{name}" for name in TRANSFORMS),
)
"""Functions of NumPy's whose likes of ours have code, in its submodules, too."""
METHODS_ANEW = (
    *("clip", "cumprod", "cumsum", "dot", "flatten", "prod", "round", "std", "take", "tolist", "trace", "var"),
)
"""Methods that make something new, in the same way."""
METHODS_OF_ONE = ("argmax", "argmin", "argsort", "copy")
"""Those that are mostly called with nothing else."""
METHODS = (
    *(
        "astype",
        "diagonal",
        "item",
        "nonzero",
        "put",
        "ravel",
        "repeat",
        "reshape",
        "squeeze",
        "swapaxes",
        "transpose",
        "view",
    ),
    *REDUCTIONS,
    *METHODS_OF_ONE,
    *METHODS_ANEW,
)
"""Methods of arrays."""
ATTRIBUTES = ("T", "imag", "real")
"""Attributes of arrays that are views."""
OF_UFUNCS = ("outer", "reduce", "accumulate", "reduceat")
"""Methods of ufuncs."""

__all__ = [
    "ANEW",
    "ASKING",
    "ATTRIBUTES",
    "BINARY",
    "DECOMPOSITIONS",
    "FUNCTIONS",
    "METHODS",
    "METHODS_ANEW",
    "METHODS_OF_ONE",
    "NUMBERS",
    "OF_NUMBERS",
    "OF_UFUNCS",
    "REDUCTIONS",
    "RETURNING_INTEGERS",
    "SLOTS",
    "TAKING_OUT",
    "TELLING",
    "TRANSFORMS",
    "UNARY",
    "WRITING",
]
