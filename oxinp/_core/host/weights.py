"""What NumPy's functions take on the host: those that it computes itself where their arrays belong there.

Most of these are composed of several operations on the device, each of which would be placed by itself.
"""

from __future__ import annotations

_REDUCING = ("all", "any", "argmax", "argmin", "count_nonzero", "linalg.norm", "max", "mean", "min", "prod", "ptp")

WEIGHTS: dict[str, float] = {
    **dict.fromkeys((*_REDUCING, "std", "sum", "var"), 0.5),
    **dict.fromkeys(("append", "clip", "column_stack", "concatenate", "copy", "cumprod", "cumsum", "delete"), 1.0),
    **dict.fromkeys(("diff", "dstack", "flatten", "full_like", "hstack", "insert", "pad", "round"), 1.0),
    **dict.fromkeys(("stack", "tile", "trace", "tril", "triu", "vstack"), 1.0),
    **dict.fromkeys(("allclose", "array_equal", "average", "isclose", "median"), 1.0),
    **dict.fromkeys(("gradient", "nansum", "repeat", "take_along_axis", "trapezoid"), 2.0),
    **dict.fromkeys(("bincount", "nan_to_num", "polyval"), 3.0),
    "roll": 4.0,
    **dict.fromkeys(("argpartition", "interp", "partition", "percentile", "quantile"), 6.0),
    **dict.fromkeys(("digitize", "histogram", "isin", "searchsorted", "sort", "unique"), 16.0),
    "argsort": 64.0,
}
"""Functions, and methods of arrays -> how much longer they take than adding the largest array of their arguments.

See `Op.host_weight`.
"""

__all__ = ["WEIGHTS"]
