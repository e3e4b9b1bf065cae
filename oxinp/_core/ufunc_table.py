"""THE UFUNC TABLE: one row per ufunc that the device computes.

A row creates the namespace entry, the operators, fusion, the tests and the benchmark of its ufunc. Loops, result types
and identities are NumPy's own (`numpy.ufunc.resolve_dtypes`, asked once per combination of operands).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from oxinp._ptx.types import i64, u64

Lowering = Callable[..., Any]  # (builder, *values) -> value


@dataclass(frozen=True, slots=True, eq=False)
class UfuncRow:
    """What the device knows of a ufunc.

    Attributes
    ----------
    numpy : numpy.ufunc
        Whose loops, casting and errors ours are.
    lowering : dict of str to callable
        By the dtype of a loop's first input, its name or its kind: (builder, values of the loop's dtypes) -> value.
        That of kind "f" serves float16 too, in float32 and rounded, as NumPy does it.
    python : callable or None
        The fastest spelling on host arrays (`operator.add` beats `numpy.add`).
    operators : tuple of str
        Special methods: the plain, the reflected and the in-place one; "" where there is none.
    ulp : float
        Bound against the true value; 0 is bit-identical to NumPy.
    complex_ulp : float
        The same for complex loops, in units of the larger part; 0 is bit-identical to NumPy on a CPU with FMA.
    weight : float
        Cost of an element, in additions, for placement.
    takes_any_integer : bool
        Python integers beyond the loop's dtype are no error.
    """

    numpy: np.ufunc
    lowering: dict[str, Lowering]
    python: Callable[..., Any] | None = None
    operators: tuple[str, str, str] = ("", "", "")
    ulp: float = 0.0
    complex_ulp: float = 0.0
    weight: float = 1.0
    takes_any_integer: bool = False

    def __post_init__(self) -> None:
        for lower in self.lowering.values():
            lower.__name__ = self.name  # what `explain` calls it

    @property
    def name(self) -> str:
        """NumPy's name."""
        return self.numpy.__name__


def _kinds(kinds: str, lower: Lowering) -> dict[str, Lowering]:
    return dict.fromkeys(kinds, lower)


def _binary(operation: Callable[[Any, Any], Any]) -> Lowering:
    def lower(k: Any, a: Any, b: Any) -> Any:  # noqa: ARG001 - every lowering takes the builder
        return operation(a, b)

    return lower


def _sqrt(k: Any, a: Any) -> Any:
    return k.sqrt(a)


def _of_integers(operation: Callable[[Any, Any], Any]) -> Lowering:
    """Comparison of integers, also of signed with unsigned ones (NumPy has loops for 64 bits)."""

    def lower(k: Any, a: Any, b: Any) -> Any:
        if a.type is b.type:
            return operation(a, b)
        # Negative numbers are below 0; the others are the same in both types.
        is_negative = (a if a.type is i64 else b) < 0
        below = operation(0, 1) if a.type is i64 else operation(1, 0)
        same = operation(k.cast(a, u64), k.cast(b, u64))
        return is_negative | same if below else ~is_negative & same

    return lower


def _comparison(ufunc: np.ufunc, operation: Callable[[Any, Any], Any], on_bool: Lowering, special: str) -> UfuncRow:
    """Comparisons have no in-place form, and Python reflects them itself."""
    lowering = _kinds("fc", _binary(operation)) | _kinds("iu", _of_integers(operation)) | {"b": on_bool}
    return UfuncRow(ufunc, lowering, operation, (special, "", ""), takes_any_integer=True)


UFUNCS: tuple[UfuncRow, ...] = (
    UfuncRow(
        np.add,
        _kinds("iufc", _binary(operator.add)) | {"b": _binary(operator.or_)},
        operator.add,
        ("__add__", "__radd__", "__iadd__"),
    ),
    UfuncRow(np.subtract, _kinds("iufc", _binary(operator.sub)), operator.sub, ("__sub__", "__rsub__", "__isub__")),
    UfuncRow(
        np.multiply,
        _kinds("iufc", _binary(operator.mul)) | {"b": _binary(operator.and_)},
        operator.mul,
        ("__mul__", "__rmul__", "__imul__"),
    ),
    UfuncRow(
        np.true_divide,
        _kinds("fc", _binary(operator.truediv)),
        operator.truediv,
        ("__truediv__", "__rtruediv__", "__itruediv__"),
        weight=2.0,
    ),
    UfuncRow(np.sqrt, _kinds("fc", _sqrt), None, complex_ulp=1.0, weight=2.0),
    _comparison(np.equal, operator.eq, lambda k, a, b: ~(a ^ b), "__eq__"),  # noqa: ARG005
    _comparison(np.not_equal, operator.ne, lambda k, a, b: a ^ b, "__ne__"),  # noqa: ARG005
    _comparison(np.less, operator.lt, lambda k, a, b: ~a & b, "__lt__"),  # noqa: ARG005
    _comparison(np.less_equal, operator.le, lambda k, a, b: ~a | b, "__le__"),  # noqa: ARG005
    _comparison(np.greater, operator.gt, lambda k, a, b: a & ~b, "__gt__"),  # noqa: ARG005
    _comparison(np.greater_equal, operator.ge, lambda k, a, b: a | ~b, "__ge__"),  # noqa: ARG005
)
