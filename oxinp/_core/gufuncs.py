"""The generalised ufuncs, which work on vectors and matrices inside arrays. One row each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from oxinp._core import explain, placement
from oxinp._core.expr import Unsupported
from oxinp._core.fallback import call
from oxinp._core.handle import Handle, host_view
from oxinp._core.ops import matmul
from oxinp._core.ufunc import is_hosted, operand, types, wrap_host
from oxinp._core.ufunc_table import UfuncRow
from oxinp._core.ufuncs import ufunc


class GufuncRow(NamedTuple):
    """A generalised ufunc of two operands.

    Attributes
    ----------
    numpy : numpy.ufunc
    compute : callable
        (array, array) -> its result, on the device; raises Unsupported where that has no kernel.
    """

    numpy: np.ufunc
    compute: Callable[[Handle, Handle], Any]


_COMPUTE = {
    "matmul": matmul.matmul,
    "vecdot": matmul.vecdot,
    "matvec": matmul.matvec,
    "vecmat": matmul.vecmat,
}
# THE TABLE, of those that this NumPy has
GUFUNCS = {name: GufuncRow(getattr(np, name), compute) for name, compute in _COMPUTE.items() if hasattr(np, name)}


class gufunc(ufunc):  # noqa: N801 - as `ufunc`
    """A generalised ufunc; see `numpy.ufunc`. Calls with keywords are NumPy's business, on the host."""

    __slots__ = ("_compute",)

    def __init__(self, row: GufuncRow) -> None:
        self._row = UfuncRow(row.numpy, {})
        self._compute = row.compute

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        numpy_ufunc = self._row.numpy
        if kwargs or len(args) != numpy_ufunc.nin:
            return call(numpy_ufunc, args, kwargs, name=self.__name__)
        operands = [operand(value) for value in args]
        if any(value is NotImplemented for value in operands):
            return numpy_ufunc(*args)  # which asks them
        if not any(isinstance(value, Handle) for value in operands):
            return numpy_ufunc(*operands)
        arrays = [value if isinstance(value, Handle) else types.from_host(np.asarray(value)) for value in operands]
        cost = max(array._layout.nbytes for array in arrays)
        if is_hosted(tuple(arrays)) and placement.is_host(cost):
            if explain.REPORTS:
                explain.note("host", self.__name__, placement.why_host(cost))
            return wrap_host(numpy_ufunc(*map(host_view, arrays)))
        try:
            return self._compute(*arrays)
        except Unsupported:
            return call(numpy_ufunc, args, kwargs, name=self.__name__)

    def __reduce__(self) -> Any:
        return _named, (self.__name__,)


def _named(name: str) -> gufunc:
    return GUFUNC_OBJECTS[name]


GUFUNC_OBJECTS = {name: gufunc(row) for name, row in GUFUNCS.items()}


def operator_methods() -> dict[str, Any]:
    """Return ``a @ b`` and ``b @ a``, for the class body of `ndarray`."""
    product = GUFUNC_OBJECTS["matmul"]

    def __matmul__(self: Any, other: Any) -> Any:  # noqa: N807 - what it becomes
        return NotImplemented if operand(other) is NotImplemented else product(self, other)

    def __rmatmul__(self: Any, other: Any) -> Any:  # noqa: N807
        return NotImplemented if operand(other) is NotImplemented else product(other, self)

    return {"__matmul__": __matmul__, "__rmatmul__": __rmatmul__}
