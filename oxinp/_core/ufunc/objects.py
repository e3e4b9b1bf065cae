"""The ufunc objects, one per row of the ufunc table, and the special methods of arrays that they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oxinp._core.lazy.expr import Operation
from oxinp._core.lazy.handle import Handle
from oxinp._core.lazy.operands import declined, other_side
from oxinp._core.lazy.results import types
from oxinp._core.ufunc.object import OBJECTS, ufunc
from oxinp._core.ufunc.operations import operations_of
from oxinp._core.ufunc.operator_texts import reach_of
from oxinp._core.ufunc.operators import itemsizes_of
from oxinp._core.ufunc.power import Power
from oxinp._core.ufunc.table import UFUNCS, UfuncRow
from oxinp._ptx.math import choose


class _Clip(ufunc):
    """`numpy.clip` as a ufunc, which keeps the zeros of values between limits that are scalars."""

    __slots__ = ("_between_constants",)

    def __init__(self, row: UfuncRow) -> None:
        super().__init__(row)
        kept = dict.fromkeys(("f", "float16"), choose.clip_between_constants)
        assert isinstance(row.lowering, dict)
        self._between_constants = operations_of(row._replace(lowering=row.lowering | kept))

    def _operations_for(self, operands: tuple[Any, ...]) -> tuple[Operation, ...]:
        for limit in operands[1:]:
            if isinstance(limit, Handle):
                return self.operations
        return self._between_constants


# Ufuncs that are more than their row.
_CLASSES: dict[str, type[ufunc]] = {"power": Power, "clip": _Clip}

UFUNC_OBJECTS = OBJECTS
UFUNC_OBJECTS |= {row.name: _CLASSES.get(row.name, ufunc)(row) for row in UFUNCS}
types.invert = UFUNC_OBJECTS["invert"].methods[0]
ROWS: dict[str, UfuncRow] = {row.name: row for row in UFUNCS}


def _with_number(called: ufunc) -> Callable[[Any, Any], Any]:
    """Return what computes a ufunc of (number, array) from the array and a number of NumPy's."""
    return called._reflected or (lambda array, number: called(number, array))


WITH_NUMBERS: dict[Any, Callable[[Any, Any], Any]] = {
    called._row.numpy: _with_number(called)
    for called in UFUNC_OBJECTS.values()
    if called._row.numpy.nin == 2 and called._row.numpy.nout == 1
}
"""NumPy's ufunc -> what computes it for an array of ours with a number of NumPy's on its left."""

OF_TWO: dict[Any, tuple[int, Callable[..., int], bool]] = {
    ufunc: (reach_of(UFUNC_OBJECTS[name]._row), itemsizes_of(ufunc), ufunc in (np.equal, np.not_equal))
    for name, ufunc in ((called.__name__, called._row.numpy) for called in UFUNC_OBJECTS.values())
    if ufunc in WITH_NUMBERS
}
"""NumPy's ufunc -> what `takes` asks of it where it computes an array and a number, and whether it tells if equal."""


def operator_methods() -> dict[str, Any]:
    """Return the special methods of all rows, by name, for the class body of `ndarray`."""
    return {
        special: method
        for name, row in ROWS.items()
        if row.operators
        for special, method in zip(row.operators, UFUNC_OBJECTS[name].methods or _calls(name), strict=False)
        if special
    }


def _calls(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the plain and the reflected operator of a ufunc of several outputs."""
    called, row = UFUNC_OBJECTS[name], ROWS[name]

    def operator(a: Any, b: Any) -> Any:
        other = other_side(b)
        return declined(row.numpy, row.python, a, b) if other is NotImplemented else called(a, other)

    def reflected(a: Any, b: Any) -> Any:
        other = other_side(b)
        return declined(row.numpy, row.python, b, a) if other is NotImplemented else called(other, a)

    return operator, reflected
