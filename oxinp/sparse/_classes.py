"""The classes: SciPy's names, with the methods of the table where it has a row and SciPy's own everywhere else.

`make_classes` goes through what SciPy's class has, so that a method of another version of SciPy's is there without a
line here.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

from oxinp._api.fronts import as_ours
from oxinp._core.array import dispatch
from oxinp._core.host import exchange, fallback
from oxinp._core.host.exchange import is_array
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.results import types
from oxinp._core.manipulation.copy import astype, copy
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.table import MAX
from oxinp.sparse import _foreign, _rows
from oxinp.sparse._base import (
    BUILDERS,
    CLASSES,
    COMPRESSED,
    FORMATS,
    Sparse,
    SparseType,
    build,
    delegate,
    given,
    is_ours,
    is_small,
    sparray,
    spmatrix,
    taken,
)
from oxinp.sparse._base import as_ours as as_ours_sparse
from oxinp.sparse._methods import METHODS, OTHERS, MethodRow
from oxinp.sparse._small import MISSING, ask, kept

MODULE = "oxinp.scipy.sparse"
_OPERATORS = (
    "add eq ge gt iadd imul ior isub itruediv le lt matmul mul ne or pow radd rmatmul rmul ror rsub rtruediv sub"
)
_OTHERS = "abs bool contains delitem getitem iter len neg repr reversed round setitem str truediv"
_SPECIAL = frozenset([f"__{name}__" for name in f"{_OPERATORS} {_OTHERS}".split()])
_OWN = frozenset({"shape", "ndim", "dtype", "format", "maxprint", "coords", "data", "indices", "indptr", "offsets"})


# -- methods -----------------------------------------------------------------------------------------------------------


def _method(name: str, theirs: Any) -> Callable[..., Any]:
    """Return the method of a name: the row's, and SciPy's for what is small or where that raises `Unsupported`."""
    row = OTHERS.get(theirs.__name__[:3], {}).get(name) or METHODS.get(name, MethodRow())

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not (kwargs or row.writes) and (found := ask(self, name, args)) is not MISSING:
            return found
        compute = row.compute
        if compute is not None and self.format in row.formats and not is_small(self, args, tuple(kwargs.values())):
            try:
                return compute(self, *args, **kwargs)
            except Unsupported:
                pass
        return delegate(self, name, args, kwargs, writes=row.writes)

    method.__name__ = name
    method.__qualname__ = f"{theirs.__name__}.{name}"
    method.__doc__ = getattr(getattr(theirs, name), "__doc__", None)
    return method


def _property(name: str) -> property:
    """Return the property of a name: computed as a method of the table, or read off SciPy's object."""
    row = METHODS.get(name, MethodRow())

    def read(self: Any) -> Any:
        if not row.writes and (found := ask(self, "__getattribute__", (name,))) is not MISSING:
            return found
        if row.compute is not None and self.format in row.formats and not is_small(self):
            with contextlib.suppress(Unsupported):
                return row.compute(self)
        return delegate(self, "__getattribute__", (name,), {}, writes=row.writes)

    def write(self: Any, value: Any) -> None:
        delegate(self, "__setattr__", (name, value), {}, writes=True)

    return property(read, write)


def _part(name: str) -> property:
    def read(self: Any) -> Any:
        return self._parts[name]

    def write(self: Any, value: Any) -> None:
        Sparse.__setattr__(self, name, value)

    return property(read, write, doc=f"The array ``{name}``, which may be written to.")


def _coordinate(axis: int) -> property:
    def read(self: Any) -> Any:
        return self._parts["coords"][axis]

    def write(self: Any, value: Any) -> None:
        coords = list(self._parts["coords"])
        coords[axis] = value
        Sparse.__setattr__(self, "coords", tuple(coords))

    return property(read, write)


def _nnz(self: Any) -> int:
    """Number of stored elements, zeros among them counted."""
    if self.format in COMPRESSED:
        return int(self._parts["indptr"][-1])
    if self.format == "coo":
        return int(self._parts["data"].size)
    return int(delegate(self, "__getattribute__", ("nnz",), {}, writes=False))


def _repr(self: Any) -> str:
    if self.format not in (*COMPRESSED, "coo"):
        return str(delegate(self, "__repr__", (), {}, writes=False))
    title = scipy.sparse._base._formats[self.format][1]
    kind = "array" if isinstance(self, sparray) else "matrix"
    return f"<{title} sparse {kind} of dtype '{self.dtype}'\n\twith {self.nnz} stored elements and shape {self.shape}>"


def _has_format(name: str) -> property:
    """Return the property that says whether indices are sorted, or canonical, of compressed formats."""

    def read(self: Any) -> bool:
        if self._flags.get("canonical"):
            return True
        if not is_small(self):
            try:
                return bool(getattr(_survey(self), f"is_{name}"))
            except Unsupported:
                pass
        theirs = "has_canonical_format" if name == "canonical" else "has_sorted_indices"
        return bool(delegate(self, "__getattribute__", (theirs,), {}, writes=False))

    def write(self: Any, value: Any) -> None:
        self._flags.pop("canonical", None)
        if value and name == "canonical":
            self._flags["canonical"] = True

    return property(read, write)


def _survey(self: Any) -> Any:
    indptr, indices = self._parts["indptr"], self._parts["indices"]
    if self.ndim != 2 or not indices.size or indptr.size < 2:
        raise Unsupported("no elements")
    width = self.shape[1 if self.format == "csr" else 0]
    return self._cached("shape", ("indptr", "indices"), lambda: _rows.survey(indptr, indices, width))


# -- constructors ------------------------------------------------------------------------------------------------------


def new(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return an object of a class, made on the device of what is large, else by SciPy's constructor."""
    bound = cls.__signature__.bind(*args, **kwargs).arguments
    arg1 = bound["arg1"] = _foreign.as_ours(bound["arg1"])
    if not is_small(arg1):
        try:
            return _on_device(cls, **bound)
        except Unsupported:
            fallback.count(f"scipy.sparse.{cls.__name__}")
    used = exchange.Exchange(whole=True)
    try:
        theirs = cls._theirs(**{name: used.give(value) for name, value in bound.items()})
    finally:
        used.settle()
    return used.take(theirs)


def _on_device(cls: Any, arg1: Any, shape: Any = None, dtype: Any = None, copy: bool = False, **options: Any) -> Any:
    format_, copy_wanted = cls.format, copy
    if format_ == "dia" and not options:
        return _of_diagonals(cls, arg1, shape, dtype, copy_wanted=copy_wanted)
    if options or format_ not in (*COMPRESSED, "coo"):
        raise Unsupported("a format of the host, or what only SciPy's constructor knows")
    arg1 = as_ours_sparse(arg1)
    if is_ours(arg1):
        made = getattr(arg1, f"to{format_}")(copy=copy_wanted)
        if shape is not None and tuple(shape) != made.shape:
            raise Unsupported("another shape")
        if dtype is not None:
            made = made.astype(dtype, copy=False)
        return build(cls.__name__, dict(made._parts), made.shape, **made._flags)
    if isinstance(arg1, tuple):
        return _of_parts(cls, arg1, shape, dtype, copy_wanted)
    if not is_array(arg1) or arg1.ndim != 2 or arg1.dtype not in DEVICE_TYPES or shape is not None:
        raise Unsupported("what is no matrix")
    wanted = arg1 if dtype is None else astype(arg1, np.dtype(dtype), copy_wanted=False)
    rows = _rows.from_dense(wanted.T if format_ == "csc" else wanted)
    made = _of_rows(cls, rows, arg1.shape)
    return made if format_ != "coo" else _as_coo(cls, rows, arg1.shape)


def _of_diagonals(cls: Any, arg1: Any, shape: Any, dtype: Any, *, copy_wanted: bool) -> Any:
    """Return the matrix of (data, offsets)."""
    if not isinstance(arg1, tuple) or len(arg1) != 2 or shape is None or not is_array(arg1[0]) or arg1[0].ndim != 2:
        raise Unsupported("a shape, a matrix to convert, or what SciPy refuses")
    offsets = np.atleast_1d(np.asarray(as_ours(arg1[1]).tolist(), np.int32))
    if offsets.ndim != 1 or len(offsets) != arg1[0].shape[0] or len(set(offsets.tolist())) != len(offsets):
        raise Unsupported("offsets that SciPy refuses")
    data = arg1[0] if dtype is None else astype(arg1[0], np.dtype(dtype), copy_wanted=False)
    parts = {"data": copy(data) if copy_wanted else data, "offsets": types.from_host(offsets)}
    return build(cls.__name__, parts, tuple(map(int, shape)))


def _of_rows(cls: Any, rows: Any, shape: tuple[int, ...]) -> Any:
    parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
    return build(cls.__name__, parts, shape, canonical=True)


def _as_coo(cls: Any, rows: Any, shape: tuple[int, ...]) -> Any:
    return build(
        cls.__name__, {"data": rows.data, "coords": (_rows.numbers(rows), rows.indices)}, shape, canonical=True
    )


def _of_parts(cls: Any, arg1: tuple[Any, ...], shape: Any, dtype: Any, copy_wanted: bool) -> Any:
    """Return the matrix of (data, (row, column)) or (data, indices, indptr)."""
    is_compressed = len(arg1) == 3 and cls.format in COMPRESSED
    if not is_compressed and not (len(arg1) == 2 and isinstance(arg1[1], list | tuple) and len(arg1[1]) == 2):
        raise Unsupported("a shape, or what SciPy refuses")
    pair = arg1[1:] if is_compressed else tuple(arg1[1])
    data, *indices = [as_ours(each) for each in (arg1[0], *pair)]
    if any(each.ndim != 1 or each.dtype.kind not in "iu" or each.dtype == np.uint64 for each in indices):
        raise Unsupported("indices that SciPy refuses")
    if data.ndim != 1 or data.dtype not in DEVICE_TYPES or not data.size or any(not each.size for each in indices):
        raise Unsupported("no elements, or elements without kernels")
    if dtype is not None:
        data = astype(data, np.dtype(dtype), copy_wanted=False)
    if data.dtype == np.float16:
        raise Unsupported("elements that SciPy refuses")
    return (_of_compressed if is_compressed else _of_coordinates)(cls, data, indices, shape, copy_wanted)


def _of_coordinates(cls: Any, data: Any, indices: list[Any], shape: Any, copy_wanted: bool) -> Any:
    if not data.size == indices[0].size == indices[1].size:
        raise ValueError("row, column, and data array must all be the same length")
    if shape is None:
        shape = tuple(int(reduce(MAX, each)) + 1 for each in indices)
    shape = tuple(map(int, shape))
    kept = _index_dtype(cls, indices, shape)
    wanted = [copy(each) if copy_wanted else each for each in (data, *indices)]
    coords = tuple(astype(each, kept, copy_wanted=False) for each in wanted[1:])
    kind = "array" if issubclass(cls, sparray) else "matrix"
    made = build(f"coo_{kind}", {"data": wanted[0], "coords": coords}, shape)
    return made if cls.format == "coo" else getattr(made, f"to{cls.format}")()


def _of_compressed(cls: Any, data: Any, indices: list[Any], shape: Any, copy_wanted: bool) -> Any:
    minor, indptr = indices
    if shape is None:
        shape = (indptr.size - 1, int(reduce(MAX, minor)) + 1)
        shape = shape if cls.format == "csr" else shape[::-1]
    shape = tuple(map(int, shape))
    if len(shape) != 2 or indptr.size != shape[0 if cls.format == "csr" else 1] + 1 or minor.size != data.size:
        raise Unsupported("lengths that SciPy refuses")
    kept = _index_dtype(cls, indices, shape)
    parts = {
        "data": data,
        "indices": astype(minor, kept, copy_wanted=False),
        "indptr": astype(indptr, kept, copy_wanted=False),
    }
    if copy_wanted:
        parts = {name: copy(part) for name, part in parts.items()}
    made = build(cls.__name__, parts, shape)
    _survey(made)
    return made


def _index_dtype(cls: Any, indices: list[Any], shape: tuple[int, ...]) -> np.dtype[Any]:
    """Return the dtype that indices are kept in: arrays keep a wide one, matrices what their extents ask for."""
    needed = _rows.index_dtype(*shape, max(each.size for each in indices))
    if not issubclass(cls, sparray) or all(np.can_cast(each.dtype, np.int32) for each in indices):
        return needed
    return np.dtype(np.int64)


BUILDERS["new"] = new

# -- the classes -------------------------------------------------------------------------------------------------------


def _body(theirs: Any, format_: str) -> dict[str, Any]:
    """Return what a class has: SciPy's public names and operators."""
    body: dict[str, Any] = {
        "__signature__": inspect.signature(theirs),
        "_theirs": theirs,
        "format": format_,
        "__module__": MODULE,
        "__doc__": theirs.__doc__,
    }
    names = [name for name in dir(theirs) if not name.startswith("_") or name in _SPECIAL]
    for name in names:
        if name in _OWN:
            continue
        found = inspect.getattr_static(theirs, name)
        if isinstance(found, property):
            body[name] = _property(name)
        elif callable(found) or isinstance(found, staticmethod | classmethod):
            body[name] = _method(name, theirs)
    body.update({name: _part(name) for name in FORMATS[format_]})
    if format_ == "coo":
        body.update(row=_coordinate(-2), col=_coordinate(-1))
    if format_ in (*COMPRESSED, "coo"):
        body.update(nnz=property(_nnz), __repr__=_repr)
    if format_ in COMPRESSED:
        body.update(has_canonical_format=_has_format("canonical"), has_sorted_indices=_has_format("sorted"))
        body["todense"] = _todense
    if format_ == "coo":
        body["has_canonical_format"] = property(
            lambda self: bool(self._flags.get("canonical")),
            lambda self, value: self._flags.update(canonical=bool(value)),
        )
        body["todense"] = _todense
    body.update(asformat=_asformat, get=Sparse.get)
    body["__hash__"] = None
    del body["__len__"], body["__bool__"]  # which ask for the shape alone
    return body


def _asformat(self: Any, format: str | None, copy: bool = False) -> Any:
    """Return this object in another format; see SciPy's."""
    if format is None or format == self.format:
        return self.copy() if copy else self
    convert = getattr(self, f"to{format}", None)
    if convert is None:
        raise ValueError(f"Format {format} is unknown.")
    return convert(copy=copy)


def _todense(self: Any, order: Any = None, out: Any = None) -> Any:
    """Return the dense array, or NumPy's matrix of a matrix."""
    if isinstance(self, sparray):
        return self.toarray(order=order, out=out)
    return delegate(self, "todense", (order, out), {}, writes=False)


def make_classes() -> None:
    """Make the classes, and enter them where SciPy's objects become ours and ours SciPy's."""
    for format_ in FORMATS:
        for base in (sparray, spmatrix):
            name = f"{format_}_{'array' if base is sparray else 'matrix'}"
            theirs = getattr(scipy.sparse, name)
            made: Any = SparseType(name, (base,), _body(theirs, format_))
            CLASSES[name] = made
            exchange.given_as[made] = given
            exchange.taken_as[theirs] = taken
            exchange.kept_as[made] = kept
            dispatch.register(theirs, made)
    for base in (sparray, spmatrix):
        base.__module__ = MODULE
        dispatch.register(base._theirs, base)


make_classes()

__all__ = ["make_classes"]
