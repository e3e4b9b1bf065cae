"""Methods of sparse classes that convert: formats, dense arrays, transposes, canonical format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oxinp._core.lazy.expr import Unsupported
from oxinp._core.manipulation.copy import astype
from oxinp._core.memory.dtypes import DEVICE_TYPES, INT64
from oxinp._core.ops import creation, gather
from oxinp.sparse import _rows
from oxinp.sparse._base import COMPRESSED, Sparse, sibling
from oxinp.sparse._compressed import build_rows, canonical_major, converted, coordinates, copied, major_rows, of_rows
from oxinp.sparse._rows import Rows


def to_compressed(format_: str) -> Callable[..., Any]:
    """Return the method that converts to CSR or CSC."""

    def method(self: Sparse, copy: bool = False) -> Any:
        if self.format == format_:
            return copied(self) if copy else self
        rows = converted(self, is_transposed=format_ == "csc")
        return build_rows(
            self, format_, rows, self.shape, is_canonical=self.format == "coo" or major_rows(self)[1].is_canonical
        )

    return method


def to_coo(self: Sparse, copy: bool = True) -> Any:
    """``self.tocoo()``."""
    if self.format == "coo":
        return copied(self) if copy else self
    rows, found = major_rows(self)
    major, minor = _rows.numbers(rows), rows.indices
    given = [each.copy() if copy else each for each in (rows.data, minor)]
    coords = (major, given[1]) if self.format == "csr" else (given[1], major)
    return sibling(self, "coo", {"data": given[0], "coords": coords}, self.shape, canonical=found.is_canonical)


def dia_to_coo(self: Sparse, copy: bool = False) -> Any:  # noqa: ARG001 - SciPy's signature
    """``self.tocoo()`` of diagonals."""
    data, offsets = self._parts["data"], self._parts["offsets"]
    if not data.size or data.dtype not in DEVICE_TYPES:
        raise Unsupported("no elements, or elements without kernels")
    num_rows, num_columns = self.shape
    kept = _rows.index_dtype(num_rows, num_columns)
    column = creation.arange(0, data.shape[1], 1, kept)[None]
    row = column - astype(offsets, kept)[:, None]
    mask = (row >= 0) & (row < num_rows) & (column < num_columns) & (data != 0)
    numbers = gather.flatnonzero(mask.ravel())
    if not numbers.size:
        raise Unsupported("no elements")
    width = np.int64(data.shape[1])
    columns = numbers % width
    rows = columns - _rows.taken(astype(offsets, INT64), numbers // width)
    coords = (astype(rows, kept), astype(columns, kept))
    return sibling(self, "coo", {"data": _rows.taken(data.ravel(), numbers), "coords": coords}, self.shape)


def dia_to_compressed(format_: str) -> Callable[..., Any]:
    """Return the method that converts diagonals to CSR or CSC."""
    convert = to_compressed(format_)
    return lambda self, copy=False: convert(dia_to_coo(self))  # noqa: ARG005


def to_array(self: Sparse, order: Any = None, out: Any = None) -> Any:
    """``self.toarray()``."""
    if out is not None or order not in (None, "C", "F"):
        raise Unsupported("an output")
    if self.format == "coo":
        rows, is_columns = of_rows(self)[0], False
    else:
        rows, is_columns = canonical_major(self), self.format == "csc"
    if rows.data.dtype.kind in "fc":  # SciPy adds to zeros, so that none is negative
        rows = rows._replace(data=rows.data + rows.data.dtype.type(0))
    made = _rows.to_dense(rows, is_fortran=is_columns != (order == "F"))
    return made.T if order == "F" else made


def transpose(self: Sparse, axes: Any = None, copy: bool = False) -> Any:
    """``self.transpose()``: the other compressed format, of the same arrays."""
    if axes not in (None, (1, 0)) or self.ndim != 2:
        raise Unsupported("what SciPy refuses")
    if self.format == "coo":
        parts = {"data": self._parts["data"], "coords": self._parts["coords"][::-1]}
        made = sibling(self, "coo", parts, self.shape[::-1])
    else:
        made = sibling(self, "csc" if self.format == "csr" else "csr", dict(self._parts), self.shape[::-1])
        made._flags.update(self._flags)
        made._known = self._known  # of the same arrays
    return copied(made) if copy else made


def _replace(self: Sparse, rows: Rows, *, is_canonical: bool) -> None:
    self._parts.update(data=rows.data, indices=rows.indices, indptr=rows.indptr)
    if is_canonical:
        self._flags["canonical"] = True


def add_duplicates(self: Sparse) -> None:
    """``self.sum_duplicates()``."""
    if self.format == "coo":
        if self._flags.get("canonical"):
            return
        row, column, shape = coordinates(self)
        rows = _rows.from_coordinates(column, row, self._parts["data"], shape[::-1])  # SciPy's order: by columns
        self._parts.update(data=rows.data, coords=(rows.indices, _rows.numbers(rows)))
        self._flags["canonical"] = True
    elif self.format in COMPRESSED:
        rows, found = major_rows(self)
        if not found.is_canonical:
            rows = _rows.canonical(rows)
        _replace(self, rows, is_canonical=True)


def sort_indices(self: Sparse) -> None:
    """``self.sort_indices()``."""
    rows, found = major_rows(self)
    if not found.is_sorted:
        _replace(self, _rows.ordered(rows), is_canonical=False)


def sorted_indices(self: Sparse) -> Any:
    """``self.sorted_indices()``."""
    made = copied(self)
    sort_indices(made)
    return made


def drop_zeros(self: Sparse) -> None:
    """``self.eliminate_zeros()``."""
    _replace(self, _rows.without_zeros(major_rows(self)[0]), is_canonical=False)


__all__ = [
    "add_duplicates",
    "dia_to_compressed",
    "dia_to_coo",
    "drop_zeros",
    "sort_indices",
    "sorted_indices",
    "to_array",
    "to_compressed",
    "to_coo",
    "transpose",
]
