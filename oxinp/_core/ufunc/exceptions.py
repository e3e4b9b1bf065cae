"""THE TABLE OF FLOATING-POINT EXCEPTIONS: which elements of a ufunc raise which, as NumPy's loops do.

`numpy.spacing`, `numpy.logaddexp` and `numpy.logaddexp2` raise what their C code happens to compute on the way; on the
device they raise nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oxinp._kernels.flags import (
    DIVIDE,
    INVALID,
    OVER,
    Found,
    Rule,
    is_inexact,
    product_is_inexact,
    quotient_is_inexact,
    reciprocal_is_inexact,
    square_is_inexact,
)


def _where(place: int, value: float, part: Callable[[Any], Any] = lambda x: x) -> Callable[..., Any]:
    """Poles at a value of an operand, whose parts come as a list where it is complex."""

    def pole(k: Any, *operands: Any) -> Any:  # noqa: ARG001 - every predicate takes the builder
        x = operands[place]
        return (part(x[0]) == value) & (x[1] == 0) if isinstance(x, list) else part(x) == value

    return pole


def _divided_by_zero(k: Any, a: Any, b: Any) -> Found:  # noqa: ARG001
    return [(DIVIDE, b == 0)]


def _quotient_of_integers(k: Any, a: Any, b: Any) -> Found:
    found = _divided_by_zero(k, a, b)
    if a.type.kind == "i":
        found.append((OVER, (a == int(np.iinfo(a.type.dtype).min)) & (b == -1)))
    return found


def _without_remainder(k: Any, a: Any, b: Any) -> Found:  # noqa: ARG001
    return [(INVALID, (b == 0) | (abs(a) == np.inf))]


def _inverse_of_zero(k: Any, a: Any) -> Found:  # noqa: ARG001
    return [(DIVIDE | INVALID, a == 0)]


_PLAIN = Rule()
_LOGARITHM = Rule(pole=_where(0, 0))
_PRODUCT = Rule(tiny=product_is_inexact)
_ROUNDED = Rule(tiny=is_inexact)
_REMAINDER = Rule(integers=_divided_by_zero)
_POWER = Rule(pole=_where(0, 0), tiny=lambda k, result, a, b: is_inexact(k, result, a, b) & (b != 1))

OF_UFUNCS: dict[np.ufunc, Rule | None] = {
    np.add: _PLAIN,
    np.subtract: _PLAIN,
    np.multiply: _PRODUCT,
    np.divide: Rule(pole=_where(1, 0), tiny=quotient_is_inexact),
    np.floor_divide: Rule(pole=_where(1, 0), over=OVER | INVALID, integers=_quotient_of_integers),
    np.remainder: _REMAINDER,
    np.divmod: Rule(pole=_where(1, 0), over=OVER | INVALID, more=_without_remainder, integers=_quotient_of_integers),
    np.fmod: _REMAINDER,
    np.power: _POWER,
    np.float_power: _POWER,
    np.square: Rule(tiny=square_is_inexact),
    np.reciprocal: Rule(pole=_where(0, 0), tiny=reciprocal_is_inexact, integers=_inverse_of_zero),
    np.sqrt: _PLAIN,
    np.nextafter: Rule(may_grow=True),
    np.spacing: None,
    np.ldexp: _PLAIN,
    np.deg2rad: _ROUNDED,
    np.radians: _ROUNDED,
    np.rad2deg: _ROUNDED,
    np.degrees: _ROUNDED,
    np.exp: _ROUNDED,
    np.exp2: _ROUNDED,
    np.expm1: _PLAIN,
    np.log: _LOGARITHM,
    np.log2: _LOGARITHM,
    np.log10: _LOGARITHM,
    np.log1p: Rule(pole=_where(0, -1)),
    np.sin: _PLAIN,
    np.cos: _PLAIN,
    np.tan: _PLAIN,
    np.sinh: _PLAIN,
    np.cosh: _PLAIN,
    np.arcsin: _PLAIN,
    np.arccos: _PLAIN,
    np.arccosh: _PLAIN,
    np.arctanh: Rule(pole=_where(0, 1, abs)),
    np.arctan2: None,
    np.hypot: _PLAIN,
    np.logaddexp: None,
    np.logaddexp2: None,
}
"""None where nothing is raised on the device."""
