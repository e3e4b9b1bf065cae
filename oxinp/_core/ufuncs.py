"""The ufunc objects: what `oxinp.add` is. Made from the rows of the ufunc table."""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._core.dtypes import DEVICE_TYPES
from oxinp._core.expr import Loop, Operation, Unsupported
from oxinp._core.fallback import call
from oxinp._core.handle import Handle
from oxinp._core.operators import operators
from oxinp._core.ops.reduce import reduce
from oxinp._core.reduction_table import BY_UFUNC
from oxinp._core.subclass import SUBCLASSES, leader
from oxinp._core.ufunc import apply, apply_into, check_writeable, operand, operation_of, types
from oxinp._core.ufunc_table import UFUNCS, UfuncRow


class ufunc:  # noqa: N801 - NumPy's name
    """A function that works element by element, with NumPy's signature; see `numpy.ufunc`.

    Calls without keywords, or with `out` alone, run where placement puts them; other keywords are NumPy's business, on
    the host, and counted as a fallback.
    """

    __slots__ = ("_row", "operation")

    def __init__(self, row: UfuncRow) -> None:
        self._row = row
        self.operation = operation_of(row)

    def __call__(self, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        numpy_ufunc = self._row.numpy
        if SUBCLASSES and leader((*args, *kwargs.values(), *(out if type(out) is tuple else (out,)))) is not None:
            return numpy_ufunc(*args, **kwargs, **({} if out is None else {"out": out}))  # which asks users' classes
        if len(args) != numpy_ufunc.nin:
            if len(args) == numpy_ufunc.nin + 1 and out is None:
                *args, out = args  # type: ignore[assignment]
            else:
                return numpy_ufunc(*args, **kwargs)  # NumPy's own error
        if type(out) is tuple:
            out = out[0] if len(out) == 1 else out
        if kwargs or (out is not None and not isinstance(out, types.ndarray)):
            return self._fall_back((*args,), {**kwargs, **({} if out is None else {"out": out})})
        operands = tuple([operand(x) for x in args])
        if any(x is NotImplemented for x in operands):
            return numpy_ufunc(*args, **({} if out is None else {"out": out}))  # which asks them
        if not any(isinstance(x, Handle) for x in operands):
            return self._of_scalars(operands, out)
        try:
            if out is None:
                return apply(self.operation, self._row.python or numpy_ufunc, operands)
            if not isinstance(out, Handle):
                return self._fall_back((*args,), {"out": out})
            return apply_into(self.operation, numpy_ufunc, numpy_ufunc, operands, out)
        except Unsupported:
            return self._fall_back((*args,), {} if out is None else {"out": out})

    def _of_scalars(self, operands: tuple[Any, ...], out: Any) -> Any:
        """Compute on scalars alone, which is nobody's work but NumPy's."""
        if out is None:
            return self._row.numpy(*operands)
        if not isinstance(out, Handle):
            return self._row.numpy(*operands, out=out)
        check_writeable(out)
        return self._fall_back(operands, {"out": out})

    def _fall_back(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return call(self._row.numpy, args, kwargs, name=self.__name__, mutates=("out",))

    def reduce(
        self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False, **kwargs: Any
    ) -> Any:
        """Reduce over an axis; see `numpy.ufunc.reduce`."""
        row = BY_UFUNC.get(self.__name__)
        if type(out) is tuple:
            out = out[0]
        if row is not None and type(array) is types.ndarray and array.dtype in DEVICE_TYPES:
            try:
                return reduce(row, array, axis, dtype, out, keepdims=keepdims, **kwargs)
            except Unsupported:
                pass
        kwargs |= {"axis": axis, "dtype": dtype, "out": out, "keepdims": keepdims}
        return self._method("reduce", (array,), kwargs)

    def accumulate(self, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """Accumulate along an axis; see `numpy.ufunc.accumulate`."""
        return self._method("accumulate", (array,), {"axis": axis, "dtype": dtype, "out": out})

    def reduceat(self, array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """Reduce over slices of an axis; see `numpy.ufunc.reduceat`."""
        return self._method("reduceat", (array, indices), {"axis": axis, "dtype": dtype, "out": out})

    def outer(self, a: Any, b: Any, /, **kwargs: Any) -> Any:
        """Apply to all pairs; see `numpy.ufunc.outer`."""
        return self._method("outer", (a, b), kwargs)

    def at(self, a: Any, indices: Any, b: Any = None, /) -> None:
        """Apply in place, unbuffered, at indices; see `numpy.ufunc.at`."""
        args = (a, indices) if b is None else (a, indices, b)
        call(self._row.numpy.at, args, {}, name=f"{self.__name__}.at", mutates=(0,))

    def _method(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if SUBCLASSES and leader((*args, kwargs.get("out"))) is not None:
            given = {key: value for key, value in kwargs.items() if value is not None}
            return getattr(self._row.numpy, method)(*args, **given)
        name = f"{self.__name__}.{method}"
        return call(getattr(self._row.numpy, method), args, kwargs, name=name, mutates=("out",))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._row.numpy, name)

    @property
    def __name__(self) -> str:
        return self._row.name

    def __reduce__(self) -> Any:
        return _named, (self.__name__,)

    def __repr__(self) -> str:
        return f"<ufunc '{self.__name__}'>"


def _named(name: str) -> ufunc:
    return UFUNC_OBJECTS[name]


UFUNC_OBJECTS: dict[str, ufunc] = {row.name: ufunc(row) for row in UFUNCS}
ROWS: dict[str, UfuncRow] = {row.name: row for row in UFUNCS}


def operator_methods() -> dict[str, Any]:
    """Return the special methods of all rows, by name, for the class body of `ndarray`."""
    return {
        special: method
        for name, row in ROWS.items()
        for special, method in zip(row.operators, operators(UFUNC_OBJECTS[name].operation, row), strict=True)
        if special
    }


def _where_loop(kinds: tuple[Any, ...]) -> Loop:
    stand_ins = [np.empty(0, kind) if isinstance(kind, np.dtype) else kind(0) for kind in kinds[1:]]
    dtype = np.result_type(*stand_ins)
    return Loop((np.dtype(np.bool_), dtype, dtype), dtype, _where)


def _where(k: Any, condition: Any, x: Any, y: Any) -> Any:
    return k.where(condition, x, y)


_WHERE = Operation("where", _where_loop, takes_any_integer=True)


def where(condition: Any, x: Any, y: Any) -> Any:
    """Return elements of `x` where `condition` holds, else of `y`; see `numpy.where`."""
    operands = tuple([operand(value) for value in (condition, x, y)])
    if any(value is NotImplemented for value in operands):
        return call(np.where, (condition, x, y), {}, name="where")
    if not any(isinstance(value, Handle) for value in operands):
        operands = (types.from_host(np.asarray(operands[0])), *operands[1:])
    try:
        return apply(_WHERE, np.where, operands, as_array=True)
    except Unsupported:
        return call(np.where, (condition, x, y), {}, name="where")
