"""THE METHOD TABLE: what the device computes of a method of SciPy's sparse classes. One row, one method.

A method without a row is SciPy's, on the host. A function here raises `Unsupported`, before anything is written, for
what SciPy is to compute after all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from oxinp.sparse._base import COMPRESSED
from oxinp.sparse._compressed import copied, is_number
from oxinp.sparse._conversions import (
    add_duplicates,
    dia_to_compressed,
    dia_to_coo,
    drop_zeros,
    sort_indices,
    sorted_indices,
    to_array,
    to_compressed,
    to_coo,
    transpose,
)
from oxinp.sparse._elements import count_nonzero, diagonal, extremum, get_item, mean, set_diagonal, total
from oxinp.sparse._operators import (
    as_type,
    combine,
    compare,
    conjugated,
    divide,
    map_data,
    matmul,
    matrix_multiply,
    matrix_rmultiply,
    multiply,
    power,
    raised,
    rmatmul,
)


class MethodRow(NamedTuple):
    """What becomes of a method.

    Attributes
    ----------
    compute : callable or None
        ``compute(self, *args, **kwargs)``; None where SciPy does.
    formats : tuple of str
        Of objects that it is for.
    writes : bool
        SciPy's method writes to the object.
    """

    compute: Callable[..., Any] | None = None
    formats: tuple[str, ...] = COMPRESSED
    writes: bool = False


WITH_COO = (*COMPRESSED, "coo")
WITH_DATA = (*WITH_COO, "bsr", "dia")

# Names of ufuncs that keep zeros, which are methods of SciPy's classes.
_MAPPED = "sin tan arcsin arctan sinh tanh arcsinh arctanh rint sign expm1 log1p deg2rad rad2deg floor ceil trunc sqrt"
_LINEAR = {"__neg__": "negative", "__abs__": "absolute"}
_SYMMETRIC = {"maximum": "maximum", "minimum": "minimum"}

# THE ROWS.
METHODS: dict[str, MethodRow] = {
    "__matmul__": MethodRow(matmul, WITH_DATA),
    "__rmatmul__": MethodRow(rmatmul, WITH_DATA),
    "__mul__": MethodRow(matrix_multiply),
    "__rmul__": MethodRow(matrix_rmultiply),
    "__truediv__": MethodRow(divide, WITH_COO),
    "__add__": MethodRow(combine("add"), WITH_DATA),
    "__radd__": MethodRow(combine("add"), WITH_DATA),
    "__sub__": MethodRow(combine("subtract"), WITH_DATA),
    "__ne__": MethodRow(compare("not_equal", combine("not_equal")), WITH_DATA),
    "__lt__": MethodRow(compare("less", combine("less")), WITH_DATA),
    "__gt__": MethodRow(compare("greater", combine("greater")), WITH_DATA),
    "__le__": MethodRow(compare("less_equal")),
    "__ge__": MethodRow(compare("greater_equal")),
    "__eq__": MethodRow(compare("equal")),
    "__pow__": MethodRow(raised),
    "__getitem__": MethodRow(get_item),
    "dot": MethodRow(lambda self, other: multiply(self, other) if is_number(other) else matmul(self, other), WITH_DATA),
    "multiply": MethodRow(multiply),
    "tocsr": MethodRow(to_compressed("csr"), WITH_COO),
    "tocsc": MethodRow(to_compressed("csc"), WITH_COO),
    "tocoo": MethodRow(to_coo, WITH_COO),
    "toarray": MethodRow(to_array, WITH_COO),
    "transpose": MethodRow(transpose, WITH_COO),
    "T": MethodRow(transpose, WITH_COO),
    "astype": MethodRow(as_type, WITH_DATA),
    "copy": MethodRow(copied, WITH_DATA),
    "conj": MethodRow(conjugated, WITH_DATA),
    "conjugate": MethodRow(conjugated, WITH_DATA),
    "diagonal": MethodRow(diagonal),
    "power": MethodRow(power),
    "mean": MethodRow(mean),
    "max": MethodRow(extremum("max"), WITH_COO),
    "min": MethodRow(extremum("min"), WITH_COO),
    "trace": MethodRow(lambda self, offset=0: diagonal(self, offset).sum()),
    "sum": MethodRow(total),
    "count_nonzero": MethodRow(count_nonzero, WITH_COO, writes=True),
    "sum_duplicates": MethodRow(add_duplicates, WITH_COO, writes=True),
    "sort_indices": MethodRow(sort_indices, writes=True),
    "sorted_indices": MethodRow(sorted_indices),
    "eliminate_zeros": MethodRow(drop_zeros, writes=True),
    **{name: MethodRow(map_data(name), WITH_COO) for name in _MAPPED.split()},
    **{name: MethodRow(map_data(ufunc, is_linear=True), WITH_DATA) for name, ufunc in _LINEAR.items()},
    **{name: MethodRow(combine(ufunc)) for name, ufunc in _SYMMETRIC.items()},
    **{
        name: MethodRow(writes=True)
        for name in (
            *("__setitem__", "__delitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__", "resize", "setdiag"),
            *("prune", "set_shape", "has_canonical_format", "has_sorted_indices", "check_format"),
        )
    },
}

# What other formats do otherwise: format -> method -> row.
OTHERS: dict[str, dict[str, MethodRow]] = {
    "coo": {"setdiag": MethodRow(set_diagonal, ("coo",), writes=True)},
    "dia": {
        "tocoo": MethodRow(dia_to_coo, ("dia",)),
        "tocsr": MethodRow(dia_to_compressed("csr"), ("dia",)),
        "tocsc": MethodRow(dia_to_compressed("csc"), ("dia",)),
    },
}


__all__ = ["METHODS", "OTHERS", "MethodRow"]
