"""THE METHOD TABLE: what the device computes of a method of SciPy's sparse classes. One row, one method.

A method without a row is SciPy's, on the host. A function here raises `Unsupported`, before anything is written, for
what SciPy is to compute after all.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from oxinp._core.array import dispatch
from oxinp._core.host.exchange import is_array
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.record import is_device_scalar, types
from oxinp._core.manipulation.copy import astype, copy
from oxinp._core.memory.dtypes import BOOL, DEVICE_TYPES, FLOAT64, INT64
from oxinp._core.ops import creation, gather
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.table import ALL, MAX, MIN, SUM
from oxinp._core.ufunc.object import OBJECTS
from oxinp.sparse import _products, _rows
from oxinp.sparse._base import COMPRESSED, Sparse, as_ours, delegate, is_ours, rebuilt, sibling, sparray
from oxinp.sparse._rows import Rows, Shape


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

# -- matrices as rows --------------------------------------------------------------------------------------------------


def _major(self: Sparse) -> tuple[Rows, Shape]:
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
        rows, found = _major(self)
        return rows, found.longest
    name = "converted" if self.format in COMPRESSED else f"rows {is_transposed}"
    made: tuple[Rows, int] = self._cached(
        name, tuple(self._parts), lambda: _converted(self, is_transposed=is_transposed)
    )
    return made


def _converted(self: Sparse, *, is_transposed: bool) -> tuple[Rows, int]:
    if self.format in COMPRESSED:
        rows = _rows.transposed(_major(self)[0])
    elif self.format == "coo":
        row, column, shape = _coordinates(self)
        places = (column, row, shape[::-1]) if is_transposed else (row, column, shape)
        rows = _rows.from_coordinates(*places[:2], self._parts["data"], places[2])
    else:
        return of_rows(self.tocsr(), is_transposed=is_transposed)
    return rows, _rows.survey(rows.indptr, rows.indices, rows.num_columns).longest


def _coordinates(self: Sparse) -> tuple[Any, Any, tuple[int, int]]:
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


def _canonical(self: Sparse) -> Rows:
    """Return what `_major` does, in canonical format."""
    rows, found = _major(self)
    if found.is_canonical:
        return rows
    made: Rows = self._cached("canonical", tuple(self._parts), lambda: _rows.canonical(rows))
    return made


def canonical_rows(self: Sparse) -> Rows:
    """Return the rows of a matrix in canonical format."""
    if self.format == "csr":
        return _canonical(self)
    rows, _ = of_rows(self)  # whose columns ascend
    return rows if _major(self)[1].is_canonical else _rows.canonical(rows)


def _build(self: Sparse, format_: str, rows: Rows, shape: tuple[int, ...], *, is_canonical: bool = True) -> Any:
    parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
    return sibling(self, format_, parts, shape, **({"canonical": True} if is_canonical else {}))


def _width(rows: Rows, format_: str) -> tuple[int, int]:
    """Return the shape of a matrix from its rows, or columns."""
    shape = rows.num_rows, rows.num_columns
    return shape if format_ == "csr" else shape[::-1]


# -- products ----------------------------------------------------------------------------------------------------------


def _let_raise(
    self: Sparse, operation: Callable[[Any, Any], Any], shape: tuple[int, ...], *, flip: bool = False
) -> None:
    """Let SciPy raise for shapes that do not go together, on objects without elements."""
    theirs = self._theirs(self.shape)
    other = np.broadcast_to(np.zeros(()), shape)
    operation(*((other, theirs) if flip else (theirs, other)))


def matmul(self: Sparse, other: Any) -> Any:
    """``self @ other``."""
    other = as_ours(other)
    if is_ours(other):
        return _product(self, other)
    other = _dense(other)
    if other.ndim not in (1, 2) or other.shape[0] != self.shape[1]:
        _let_raise(self, operator.matmul, other.shape)
        raise Unsupported("a product of more dimensions")
    rows, longest = of_rows(self)
    return _times(rows, longest, other)


def rmatmul(self: Sparse, other: Any) -> Any:
    """``other @ self``."""
    other = _dense(other)
    if other.ndim not in (1, 2) or other.shape[-1] != self.shape[0]:
        _let_raise(self, operator.matmul, other.shape, flip=True)
        raise Unsupported("a product of more dimensions")
    rows, longest = of_rows(self, is_transposed=True)
    if other.ndim == 1:
        return _times(rows, longest, other)
    return copy(_times(rows, longest, other.T).T)


def _dense(other: Any) -> Any:
    if isinstance(other, np.ndarray) and type(other) is np.ndarray:
        other = types.from_host(other)
    if not is_array(other) or other.dtype not in DEVICE_TYPES or not other.size:
        raise Unsupported("what is no array, or has no kernels")
    return other


def _times(rows: Rows, longest: int, other: Any) -> Any:
    if other.ndim == 1:
        return _rows.matvec(rows, other, longest)
    if other.shape[1] == 1:
        return _rows.matvec(rows, other.ravel(), longest).reshape(-1, 1)
    return _rows.matmat(rows, other)


def _product(self: Sparse, other: Sparse) -> Any:
    if other.ndim != 2 or self.ndim != 2:
        raise Unsupported("vectors")
    if self.shape[1] != other.shape[0]:
        _ = self._theirs(self.shape) @ other._theirs(other.shape)
    self = self if self.format in COMPRESSED else self.tocsr()
    other = _as_format(other, self.format)
    a, b = (_canonical(each) for each in (self, other))
    shape = (self.shape[0], other.shape[1])
    longest = [_major(each)[1].longest for each in (self, other)]
    if self.format == "csc":
        a, b, longest = b, a, longest[::-1]
    made = _products.product(a, b, *longest)
    return _build(self, self.format, made, shape)


def _as_format(other: Sparse, format_: str) -> Any:
    return other if other.format == format_ else getattr(other, f"to{format_}")()


# -- elementwise -------------------------------------------------------------------------------------------------------


def combine(name: str) -> Callable[[Sparse, Any], Any]:
    """Return the method that combines two sparse objects by an operator of `union.OPERATORS`."""

    def method(self: Sparse, other: Any) -> Any:
        other = as_ours(other)
        if not is_ours(other) or other.shape != self.shape:
            raise Unsupported("what is not sparse, or of another shape")
        self = self if self.format in COMPRESSED else self.tocsr()
        other = _as_format(other, self.format)
        a, b = (_canonical(each) for each in (self, other))
        if name == "subtract" and np.result_type(a.data.dtype, b.data.dtype) == BOOL:
            raise Unsupported("a difference of truth values, which NumPy refuses")
        made = _rows.combined(a, b, name)
        return _build(self, self.format, made, self.shape)

    return method


_MULTIPLIED = combine("multiply")


def multiply(self: Sparse, other: Any) -> Any:
    """``self.multiply(other)``: by a number, by what is sparse as well, by a dense matrix, row or column."""
    if _is_number(other):
        return _with_data(self, self._parts["data"] * other)
    if is_ours(as_ours(other)):
        return _MULTIPLIED(self, other)
    return _multiplied_by_dense(self, _dense(other))


def _multiplied_by_dense(self: Sparse, other: Any) -> Any:
    """Multiply elements by those of a dense array at their places; what SciPy gives is in COO."""
    shape = (1, *other.shape)[-2:]
    if shape == (1, 1) or any(n not in (1, extent) for n, extent in zip(shape, self.shape, strict=True)):
        raise Unsupported("a shape that broadcasts the matrix, or that SciPy refuses")
    made = to_coo(self)
    row, column = made._parts["coords"]
    if shape[0] == 1:
        places = column
    elif shape[1] == 1:
        places = row
    else:
        places = astype(row, INT64) * np.int64(shape[1]) + column
    made._parts["data"] = made._parts["data"] * _rows.taken(other.ravel(), places)
    return made


def divide(self: Sparse, other: Any) -> Any:
    """``self / other``, by a number."""
    if not _is_number(other):
        raise Unsupported("a quotient that is dense")
    data = self._parts["data"]
    if np.can_cast(data.dtype, np.float64):
        data = astype(data, FLOAT64, copy_wanted=False)
    return _with_data(self, data * (1.0 / other))


def matrix_multiply(self: Sparse, other: Any) -> Any:
    """``self * other``: of arrays elementwise, of matrices their product."""
    return multiply(self, other) if isinstance(self, sparray) or _is_number(other) else matmul(self, other)


def matrix_rmultiply(self: Sparse, other: Any) -> Any:
    """``other * self``; see `matrix_multiply`."""
    return multiply(self, other) if isinstance(self, sparray) or _is_number(other) else rmatmul(self, other)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | complex | np.number) or (
        is_device_scalar(value) and value.dtype.kind in "iufc"
    )


def _with_data(self: Sparse, data: Any) -> Any:
    """Return an object with other elements at the same places, which are copied."""
    parts = {
        name: tuple(map(copy, part)) if isinstance(part, tuple) else copy(part)
        for name, part in self._parts.items()
        if name != "data"
    }
    return rebuilt(self, {"data": data, **parts})


def map_data(name: str, *, is_linear: bool = False) -> Callable[[Sparse], Any]:
    """Return the method that applies a ufunc which keeps zeros; linear ones do not ask for duplicates."""

    def method(self: Sparse) -> Any:
        if self._parts["data"].dtype not in DEVICE_TYPES:
            raise Unsupported("elements without kernels")
        if not is_linear:
            add_duplicates(self)
        return _with_data(self, OBJECTS[name](self._parts["data"]))

    return method


def as_type(self: Sparse, dtype: Any, casting: str = "unsafe", copy: bool = True) -> Any:
    """``self.astype(dtype)``."""
    wanted = np.dtype(dtype)
    if wanted == self.dtype and not copy:
        return self
    return _with_data(self, astype(self._parts["data"], wanted, casting=casting))


def conjugated(self: Sparse, copy: bool = True) -> Any:
    """``self.conj()``."""
    if self.dtype.kind != "c":
        return copied(self) if copy else self
    return _with_data(self, OBJECTS["conjugate"](self._parts["data"]))


def copied(self: Sparse) -> Any:
    """``self.copy()``."""
    return _with_data(self, copy(self._parts["data"]))


# -- conversions -------------------------------------------------------------------------------------------------------


def to_compressed(format_: str) -> Callable[..., Any]:
    """Return the method that converts to CSR or CSC."""

    def method(self: Sparse, copy: bool = False) -> Any:
        if self.format == format_:
            return copied(self) if copy else self
        rows, _ = _converted(self, is_transposed=format_ == "csc")
        return _build(self, format_, rows, self.shape, is_canonical=self.format == "coo" or _is_canonical(self))

    return method


def _is_canonical(self: Sparse) -> bool:
    return _major(self)[1].is_canonical


def to_coo(self: Sparse, copy: bool = True) -> Any:
    """``self.tocoo()``."""
    if self.format == "coo":
        return copied(self) if copy else self
    rows, found = _major(self)
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


def power(self: Sparse, n: Any, dtype: Any = None) -> Any:
    """``self.power(n)``."""
    if not _is_number(n) or n == 0 or dtype is not None:
        raise Unsupported("what SciPy refuses, or another dtype")
    add_duplicates(self)
    return _with_data(self, self._parts["data"] ** n)


def to_array(self: Sparse, order: Any = None, out: Any = None) -> Any:
    """``self.toarray()``."""
    if out is not None or order not in (None, "C", "F"):
        raise Unsupported("an output")
    if self.format == "coo":
        rows, is_columns = of_rows(self)[0], False
    else:
        rows, is_columns = _canonical(self), self.format == "csc"
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


# -- duplicates, order, zeros ------------------------------------------------------------------------------------------


def _replace(self: Sparse, rows: Rows, *, is_canonical: bool) -> None:
    self._parts.update(data=rows.data, indices=rows.indices, indptr=rows.indptr)
    if is_canonical:
        self._flags["canonical"] = True


def add_duplicates(self: Sparse) -> None:
    """``self.sum_duplicates()``."""
    if self.format == "coo":
        if self._flags.get("canonical"):
            return
        row, column, shape = _coordinates(self)
        rows = _rows.from_coordinates(column, row, self._parts["data"], shape[::-1])  # SciPy's order: by columns
        self._parts.update(data=rows.data, coords=(rows.indices, _rows.numbers(rows)))
        self._flags["canonical"] = True
    elif self.format in COMPRESSED:
        rows, found = _major(self)
        if not found.is_canonical:
            rows = _rows.canonical(rows)
        _replace(self, rows, is_canonical=True)


def sort_indices(self: Sparse) -> None:
    """``self.sort_indices()``."""
    rows, found = _major(self)
    if not found.is_sorted:
        _replace(self, _rows.ordered(rows), is_canonical=False)


def sorted_indices(self: Sparse) -> Any:
    """``self.sorted_indices()``."""
    made = copied(self)
    sort_indices(made)
    return made


def set_diagonal(self: Sparse, values: Any, k: int = 0) -> None:
    """``self.setdiag(values, k)`` of COO: what is there goes, the diagonal comes last."""
    row, column, (num_rows, num_columns) = _coordinates(self)
    if not (_is_number(values) or (is_array(values) and values.ndim == 1 and values.size)):
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


def drop_zeros(self: Sparse) -> None:
    """``self.eliminate_zeros()``."""
    _replace(self, _rows.without_zeros(_major(self)[0]), is_canonical=False)


def count_nonzero(self: Sparse, axis: Any = None) -> Any:
    """``self.count_nonzero()``."""
    if axis is not None:
        raise Unsupported("counts along an axis")
    add_duplicates(self)
    return np.int64(reduce(SUM, self._parts["data"] != 0))


# -- elements ----------------------------------------------------------------------------------------------------------


def diagonal(self: Sparse, k: int = 0) -> Any:
    """``self.diagonal(k)``."""
    rows, _ = _major(self)
    return _rows.diagonal(rows, k if self.format == "csr" else -k)


def total(self: Sparse, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """``self.sum(axis)``."""
    data = self._parts["data"]
    if out is not None or dtype is not None or data.dtype.kind not in "fc" or not data.size:
        raise Unsupported("an output, or sums in another dtype")
    if axis is None:
        _major(self)
        return reduce(SUM, data)
    if axis not in (0, 1, -1, -2) or not isinstance(self, sparray):
        raise Unsupported("what SciPy gives as a matrix, or refuses")
    return _rows.sums(*of_rows(self, is_transposed=axis in (0, -2)))


def mean(self: Sparse, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """``self.mean(axis)``."""
    found = total(self, axis, dtype, out)
    extents = self.shape if axis is None else self.shape[axis : axis + 1 or None]
    return found * self.dtype.type(1.0 / math.prod(extents))


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
    """``self[key]``: rows of CSR and columns of CSC by slices and arrays, single ones, slices of the other axis."""
    if type(key) is not tuple:
        key = (key, slice(None))
    if len(key) != 2:
        raise Unsupported("another number of indices")
    major, minor = key if self.format == "csr" else key[::-1]
    rows, found = _major(self)
    if isinstance(major, int | np.integer):  # one row is small enough for SciPy
        number = operator.index(major) + (rows.num_rows if major < 0 else 0)
        if not 0 <= number < rows.num_rows:
            raise Unsupported("an index that SciPy refuses")
        made = _rows.slice_rows(rows, number, number + 1)
        one = _build(self, self.format, made, _width(made, self.format), is_canonical=found.is_canonical)
        return delegate(one, "__getitem__", ((0, minor) if self.format == "csr" else (minor, 0),), {}, writes=False)
    if isinstance(minor, slice) and minor == slice(None):
        made = _selected(rows, major)
        return _build(self, self.format, made, _width(made, self.format), is_canonical=found.is_canonical)
    if isinstance(minor, slice) and isinstance(major, slice) and major == slice(None):
        made = _selected(of_rows(self, is_transposed=self.format == "csr")[0], minor)
        if made.indices.size:
            made = _rows.transposed(made)
            return _build(self, self.format, made, _width(made, self.format), is_canonical=found.is_canonical)
    raise Unsupported("a selection of both")


def _selected(rows: Rows, key: Any) -> Rows:
    """Return the rows that a slice or an array of integers or truth values selects."""
    if not isinstance(key, slice):
        return _rows.pick_rows(rows, _numbers_of(key, rows.num_rows))
    start, stop, step = key.indices(rows.num_rows)
    if step != 1 or stop <= start:
        raise Unsupported("another step, or nothing")
    return _rows.slice_rows(rows, start, stop)


def _numbers_of(key: Any, extent: int) -> Any:
    """Return the rows that an array of integers or truth values picks, int64, in bounds."""
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
    wide = astype(given, INT64)
    if not bool(reduce(ALL, (wide >= -extent) & (wide < extent))):
        raise IndexError(f"index ({int(wide.max())}) out of range")
    return astype(wide + (wide < 0) * np.int64(extent), INT64)


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
    "__ne__": MethodRow(combine("not_equal"), WITH_DATA),
    "__lt__": MethodRow(combine("less"), WITH_DATA),
    "__gt__": MethodRow(combine("greater"), WITH_DATA),
    "__getitem__": MethodRow(get_item),
    "dot": MethodRow(
        lambda self, other: multiply(self, other) if _is_number(other) else matmul(self, other), WITH_DATA
    ),
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

__all__ = ["METHODS", "OTHERS", "MethodRow", "canonical_rows", "of_rows"]
