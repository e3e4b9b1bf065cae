"""Methods of sparse classes that read or write some elements, or reduce them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from oxinp._core.array import dispatch
from oxinp._core.host.exchange import is_array
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.results import types
from oxinp._core.manipulation.copy import astype
from oxinp._core.memory.dtypes import BOOL, INT64
from oxinp._core.ops import creation, gather
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.table import MAX, MIN, SUM
from oxinp.sparse import _rows
from oxinp.sparse._base import Sparse, delegate, sparray
from oxinp.sparse._compressed import build_rows, coordinates, is_number, major_rows, of_rows, shape_of
from oxinp.sparse._conversions import add_duplicates
from oxinp.sparse._rows import Rows


def set_diagonal(self: Sparse, values: Any, k: int = 0) -> None:
    """``self.setdiag(values, k)`` of COO: what is there goes, the diagonal comes last."""
    row, column, (num_rows, num_columns) = coordinates(self)
    if not (is_number(values) or (is_array(values) and values.ndim == 1 and values.size)):
        raise Unsupported("what SciPy converts")
    size = min(num_rows + min(k, 0), num_columns - max(k, 0), *([values.size] if is_array(values) else []))
    if size <= 0:
        raise Unsupported("no such diagonal, which SciPy refuses")
    data = self._parts["data"]
    keep = (column - row != k) | ((column if k < 0 else row) >= size)
    concatenate = dispatch.functions[np.concatenate]
    first = max(0, -k), max(0, k)
    along = values[:size] if is_array(values) else creation.full((size,), values, data.dtype)
    coords = [
        concatenate([gather.select(index, keep), creation.arange(start, start + size, 1, index.dtype)])
        for index, start in zip((row, column), first, strict=True)
    ]
    self._parts.update(data=concatenate([gather.select(data, keep), astype(along, data.dtype)]), coords=tuple(coords))
    self._flags.clear()


def count_nonzero(self: Sparse, axis: Any = None) -> Any:
    """``self.count_nonzero()``."""
    if axis is not None:
        raise Unsupported("counts along an axis")
    add_duplicates(self)
    return np.int64(reduce(SUM, self._parts["data"] != 0))


def diagonal(self: Sparse, k: int = 0) -> Any:
    """``self.diagonal(k)``."""
    rows, _ = major_rows(self)
    return _rows.diagonal(rows, k if self.format == "csr" else -k)


def total(self: Sparse, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """``self.sum(axis)``."""
    data = self._parts["data"]
    if out is not None or dtype is not None or data.dtype.kind not in "fc" or not data.size:
        raise Unsupported("an output, or sums in another dtype")
    if axis is None:
        major_rows(self)
        return reduce(SUM, data)
    if axis not in (0, 1, -1, -2) or not isinstance(self, sparray):
        raise Unsupported("what SciPy gives as a matrix, or refuses")
    return _rows.sums(*of_rows(self, is_transposed=axis in (0, -2)))


def mean(self: Sparse, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """``self.mean(axis)``."""
    if self.dtype.kind not in "fc":
        raise Unsupported("means in another dtype")
    extents = self.shape if axis is None else self.shape[axis : axis + 1 or None]
    # Elements are divided before the sum, as in SciPy.
    return total(self * (1.0 / math.prod(extents)), axis, dtype, out)


def extremum(name: str) -> Callable[..., Any]:
    """Return the method ``max`` or ``min`` over all elements, those that are not stored among them."""
    row = {"max": MAX, "min": MIN}[name]

    def method(self: Sparse, axis: Any = None, out: Any = None, *, explicit: bool = False) -> Any:
        if axis is not None or out is not None:
            raise Unsupported("extrema along an axis")
        add_duplicates(self)
        data = self._parts["data"]
        found = data.dtype.type(reduce(row, data))
        if explicit or data.size == math.prod(self.shape):
            return found
        return (np.maximum if name == "max" else np.minimum)(data.dtype.type(0), found)

    return method


def get_item(self: Sparse, key: Any) -> Any:
    """``self[key]``: rows and columns by slices and arrays, not both by arrays; single rows of CSR, columns of CSC."""
    if type(key) is not tuple:
        key = (key, slice(None))
    if len(key) != 2:
        raise Unsupported("another number of indices")
    major, minor = key if self.format == "csr" else key[::-1]
    rows, found = major_rows(self)
    if isinstance(major, int | np.integer):  # one row is small enough for SciPy
        number = operator.index(major) + (rows.num_rows if major < 0 else 0)
        if not 0 <= number < rows.num_rows:
            raise Unsupported("an index that SciPy refuses")
        made = _rows.slice_rows(rows, number, number + 1)
        one = build_rows(self, self.format, made, shape_of(made, self.format), is_canonical=found.is_canonical)
        return delegate(one, "__getitem__", ((0, minor) if self.format == "csr" else (minor, 0),), {}, writes=False)
    if isinstance(minor, slice) and minor == slice(None):
        made = _selected(rows, major)
        return build_rows(self, self.format, made, shape_of(made, self.format), is_canonical=found.is_canonical)
    if not isinstance(major, slice) and not isinstance(minor, slice):
        raise Unsupported("elements, or rows and columns that are broadcast")
    if isinstance(major, slice) and major == slice(None):
        made = _selected(of_rows(self, is_transposed=self.format == "csr")[0], minor)
        if made.indices.size:
            made = _rows.transposed(made)
            return build_rows(self, self.format, made, shape_of(made, self.format), is_canonical=found.is_canonical)
        raise Unsupported("nothing")
    made = _selected(rows, major)
    some = build_rows(self, self.format, made, shape_of(made, self.format), is_canonical=found.is_canonical)
    return some[:, minor] if self.format == "csr" else some[minor]


def _selected(rows: Rows, key: Any) -> Rows:
    """Return the rows that a slice or an array of integers or truth values selects."""
    if not isinstance(key, slice):
        return _rows.pick_rows(rows, _numbers_of(key, rows.num_rows))
    start, stop, step = key.indices(rows.num_rows)
    if not range(start, stop, step):
        raise Unsupported("nothing")
    if step != 1:
        return _rows.pick_rows(rows, creation.arange(start, stop, step, INT64))
    return _rows.slice_rows(rows, start, stop)


def _numbers_of(key: Any, extent: int) -> Any:
    """Return the numbers, int64, of the rows that an array of integers or truth values picks."""
    given = types.from_host(np.asarray(key)) if isinstance(key, list | np.ndarray) else key
    if not is_array(given) or given.ndim != 1 or not given.size or given.dtype.kind not in "bi":
        raise Unsupported("what is no array of integers")
    if given.dtype == BOOL:
        if given.size != extent:
            raise Unsupported("a mask of another length, which SciPy refuses")
        found = gather.flatnonzero(given)
        if not found.size:
            raise Unsupported("nothing")
        return found
    return astype(given, INT64, copy_wanted=False)


__all__ = ["count_nonzero", "diagonal", "extremum", "get_item", "mean", "set_diagonal", "total"]
