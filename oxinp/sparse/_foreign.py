"""Sparse objects of CuPy and PyTorch as ours, over the same memory.

Neither library is imported: their objects are known by the attributes that hold their arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._core.array import dispatch
from oxinp.sparse._base import build, is_ours

# THE LAYOUTS OF PYTORCH. The name of one -> our format, and the methods that return its parts in the order of ours.
LAYOUTS = {
    "torch.sparse_csr": ("csr", ("values", "col_indices", "crow_indices")),
    "torch.sparse_csc": ("csc", ("values", "row_indices", "ccol_indices")),
    "torch.sparse_coo": ("coo", ("_values", "_indices")),
}
CUPYS = "cupyx.scipy.sparse"
# Formats of CuPy -> the attributes that are its arrays, in the order of ours.
FORMATS = {
    "csr": ("data", "indices", "indptr"),
    "csc": ("data", "indices", "indptr"),
    "coo": ("data", "row", "col"),
    "dia": ("data", "offsets"),
}


def as_ours(value: Any) -> Any:
    """Return a sparse object of CuPy's or PyTorch's as one of ours over its arrays; anything else as it is.

    Raises
    ------
    ValueError
        It has other than two dimensions.
    """
    if is_ours(value):
        return value
    layout = LAYOUTS.get(str(getattr(value, "layout", None))) if hasattr(value, "is_sparse") else None
    if layout is not None:
        format_, methods = layout
        if value.dim() != 2 or value.dense_dim():
            raise ValueError("a sparse tensor of two dimensions, none of them dense, is needed")
        return _made(format_, [getattr(value, name)() for name in methods], tuple(value.shape))
    if type(value).__module__.startswith(CUPYS) and value.format in FORMATS:
        return _made(value.format, [getattr(value, name) for name in FORMATS[value.format]], tuple(value.shape))
    return value


def _made(format_: str, arrays: list[Any], shape: tuple[int, ...]) -> Any:
    asarray = dispatch.functions[np.asarray]
    data, *others = map(asarray, arrays)
    if format_ == "coo":
        return build("coo_array", {"data": data, "coords": tuple(others[0] if len(others) == 1 else others)}, shape)
    names = ("offsets",) if format_ == "dia" else ("indices", "indptr")
    return build(f"{format_}_array", {"data": data, **dict(zip(names, others, strict=True))}, shape)


__all__ = ["as_ours"]
