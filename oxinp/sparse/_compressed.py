"""Sparse objects as checked rows, and objects made of rows, or of other elements at the same places."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.results import is_device_scalar
from oxinp._core.manipulation.copy import copy
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.table import ALL, MAX
from oxinp.sparse import _rows
from oxinp.sparse._base import COMPRESSED, Sparse, rebuilt, sibling
from oxinp.sparse._rows import Rows, Shape


def major_rows(self: Sparse) -> tuple[Rows, Shape]:
    """Return the rows of a CSR matrix, or the columns of a CSC one as rows; and what their indices say, checked."""
    indptr, indices, data = (self._parts[name] for name in ("indptr", "indices", "data"))
    if self.ndim != 2 or not indices.size or indptr.size < 2 or data.dtype not in DEVICE_TYPES:
        raise Unsupported("no elements, or none that the device knows")
    width = self.shape[1 if self.format == "csr" else 0]
    found = self._cached("shape", ("indptr", "indices"), lambda: _rows.survey(indptr, indices, width))
    if not found.count == indices.size == data.size:
        indices, data = indices[: found.count], data[: found.count]
    if not found.count:
        raise Unsupported("no elements")
    return Rows(indptr, indices, data, width), found


def of_rows(self: Sparse, *, is_transposed: bool = False) -> tuple[Rows, int]:
    """Return a matrix, or its transpose, in rows, and the length of the longest; conversions are kept."""
    if self.format in COMPRESSED and (self.format == "csc") == is_transposed:
        rows, found = major_rows(self)
        return rows, found.longest
    name = "converted" if self.format in COMPRESSED else f"rows {is_transposed}"

    def make() -> tuple[Rows, int]:
        rows = converted(self, is_transposed=is_transposed)
        return rows, int(reduce(MAX, rows.indptr[1:] - rows.indptr[:-1]))

    made: tuple[Rows, int] = self._cached(name, tuple(self._parts), make)
    return made


def narrow_rows(self: Sparse) -> tuple[Rows, int]:
    """Return what `of_rows` does, for many products with vectors, with narrow indices where they can be; it is kept."""

    def make() -> tuple[Rows, int]:
        rows, longest = of_rows(self)
        with suppress(MemoryError):
            return _rows.narrow(rows, longest), longest
        return rows, longest

    made: tuple[Rows, int] = self._cached("narrow", tuple(self._parts), make)
    return made


def converted(self: Sparse, *, is_transposed: bool) -> Rows:
    """Return a matrix, or its transpose, in rows, which it is not in."""
    if self.format in COMPRESSED:
        return _rows.transposed(major_rows(self)[0])
    if self.format != "coo":
        return of_rows(self.tocsr(), is_transposed=is_transposed)[0]
    row, column, shape = coordinates(self)
    places = (column, row, shape[::-1]) if is_transposed else (row, column, shape)
    return _rows.from_coordinates(*places[:2], self._parts["data"], places[2])


def coordinates(self: Sparse) -> tuple[Any, Any, tuple[int, int]]:
    """Return rows, columns and shape of a COO matrix, checked."""
    coords, data = self._parts["coords"], self._parts["data"]
    if self.ndim != 2 or not data.size or data.dtype not in DEVICE_TYPES:
        raise Unsupported("no matrix, or no elements")
    self._cached("bounds", ("coords",), lambda: _check_bounds(coords, self.shape))
    return (*coords, self.shape)


def _check_bounds(coords: tuple[Any, ...], shape: tuple[int, ...]) -> None:
    for axis, (index, extent) in enumerate(zip(coords, shape, strict=True)):
        inside = (index >= 0) & (index < extent)
        if not bool(reduce(ALL, inside)):
            which = "negative" if bool((index < 0).any()) else "exceeds matrix dimension"
            name = ("row", "column")[axis] if len(shape) == 2 else f"axis {axis}"
            if which == "negative":
                raise ValueError(f"negative {name} index found")
            raise ValueError(f"{name} index exceeds matrix dimension")


def canonical_major(self: Sparse) -> Rows:
    """Return what `major_rows` does, in canonical format."""
    rows, found = major_rows(self)
    if found.is_canonical:
        return rows
    made: Rows = self._cached("canonical", tuple(self._parts), lambda: _rows.canonical(rows))
    return made


def canonical_rows(self: Sparse) -> Rows:
    """Return the rows of a matrix in canonical format."""
    if self.format == "csr":
        return canonical_major(self)
    rows, _ = of_rows(self)  # whose columns ascend
    return rows if major_rows(self)[1].is_canonical else _rows.canonical(rows)


def build_rows(self: Sparse, format_: str, rows: Rows, shape: tuple[int, ...], *, is_canonical: bool = True) -> Any:
    parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
    return sibling(self, format_, parts, shape, **({"canonical": True} if is_canonical else {}))


def shape_of(rows: Rows, format_: str) -> tuple[int, int]:
    """Return the shape of a matrix from its rows, or columns."""
    shape = rows.num_rows, rows.num_columns
    return shape if format_ == "csr" else shape[::-1]


def is_number(value: Any) -> bool:
    return isinstance(value, int | float | complex | np.number) or (
        is_device_scalar(value) and value.dtype.kind in "iufc"
    )


def with_data(self: Sparse, data: Any) -> Any:
    """Return an object with other elements at the same places, which are copied."""
    parts = {
        name: tuple(map(copy, part)) if isinstance(part, tuple) else copy(part)
        for name, part in self._parts.items()
        if name != "data"
    }
    return rebuilt(self, {"data": data, **parts})


def copied(self: Sparse) -> Any:
    """``self.copy()``."""
    return with_data(self, copy(self._parts["data"]))


__all__ = [
    "build_rows",
    "canonical_major",
    "canonical_rows",
    "converted",
    "coordinates",
    "copied",
    "is_number",
    "major_rows",
    "narrow_rows",
    "of_rows",
    "shape_of",
    "with_data",
]
