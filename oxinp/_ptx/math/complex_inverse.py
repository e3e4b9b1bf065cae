"""Inverse circular and hyperbolic functions of complex numbers, c64 and c128, in the precision of their parts.

All are odd or even in each part, so they are found in the first quadrant and turned where they belong. Special values
and branch cuts are those of C99, annex G, as in NumPy. Both parts are within a few ulp of their own true values: sums
of products have no terms of different signs, and square roots both parts within 1 ulp.

Source: W. Kahan, Branch cuts for complex elementary functions, 1987.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._ptx.math.complex import log
from oxinp._ptx.math.inverse_hyperbolic import arcsinh as real_arcsinh
from oxinp._ptx.math.inverse_trigonometric import arctan2
from oxinp._ptx.math.logarithm import log as real_log
from oxinp._ptx.math.logarithm import log1p as real_log1p
from oxinp._ptx.types import f32, f64
from oxinp._ptx.value import Value

if TYPE_CHECKING:
    from oxinp._ptx.builder import Builder

INFINITY = float("inf")
# From here on, 1 does not count beside a square.
LARGE = {f32: 2.0**30, f64: 2.0**60}
# Below, squares vanish.
SMALL = {f32: 2.0**-60, f64: 2.0**-500}


class _Roots(NamedTuple):
    """Of z in the first quadrant: parts of sqrt(1 - z) (the second negated) and of sqrt(1 + z), and z itself."""

    p: Value
    q: Value
    r: Value
    s: Value
    x: Value
    y: Value
    is_large: Value
    size: Value  # log(2 abs(z)), where z is large


def _roots(k: Builder, x: Value, y: Value, of: Any) -> _Roots:
    """The roots of 1 - z and 1 + z, with parts not below 0."""
    type_ = x.type
    one = k.const(1, type_)
    is_large = k.max(x, y) > LARGE[type_]
    # Kept from overflow where they are not used.
    a, b = k.where(is_large, one, x), k.where(is_large, one, y)
    below: Any = k.sqrt(k.compound(of, 1.0 - a, b))
    above: Any = k.sqrt(k.compound(of, 1.0 + a, b))
    size = k.var(one)
    with k.when(is_large):
        modulus: Any = log(k, k.compound(of, x, y))
        size.set(modulus.real + math.log(2))
    return _Roots(below.real, below.imag, above.real, above.imag, x, y, is_large, size.get())


def _height(k: Builder, z: _Roots) -> Value:
    """The imaginary part of arcsin."""
    return k.where(z.is_large, z.size, real_arcsinh(k, z.p * z.s + z.q * z.r))


def _arcsine(k: Builder, z: _Roots) -> Value:
    """The real part of arcsin."""
    across = k.where(z.is_large, z.y, z.p * z.r + z.q * z.s)
    return k.where(k.compare("eq", z.x, 0), z.x, arctan2(k, z.x, across))


def _arccosine(k: Builder, z: _Roots, is_behind: Value) -> Value:
    """The real part of arccos, that of the point mirrored to the other side where `is_behind` holds."""
    along = k.where(is_behind, -z.x, z.x)
    small, large = k.where(is_behind, z.r, z.p), k.where(is_behind, z.p, z.r)
    # Halves of angles, but of large numbers, which are doubled in vain.
    factor = k.where(z.is_large, k.const(1, z.x.type), k.const(2, z.x.type))
    angle = factor * arctan2(k, k.where(z.is_large, z.y, small), k.where(z.is_large, along, large))
    quarter = k.const(math.pi / 2, z.x.type)
    return k.where(k.compare("eq", z.x, 0) & k.isnan(z.y), quarter, angle)


def _is_negative(k: Builder, x: Value) -> Value:
    is_negative: Value = k.copysign(x, k.const(1, x.type)) < 0
    return is_negative


def arcsin(k: Builder, z: Any) -> Value:
    """Inverse sine; each part within 6 ulp."""
    roots = _roots(k, k.abs(z.real), k.abs(z.imag), z.type)
    return k.compound(z.type, k.copysign(z.real, _arcsine(k, roots)), k.copysign(z.imag, _height(k, roots)))


def arccos(k: Builder, z: Any) -> Value:
    """Inverse cosine; each part within 6 ulp."""
    roots = _roots(k, k.abs(z.real), k.abs(z.imag), z.type)
    real = _arccosine(k, roots, _is_negative(k, z.real))
    return k.compound(z.type, real, k.copysign(-z.imag, _height(k, roots)))


def arcsinh(k: Builder, z: Any) -> Value:
    """Inverse hyperbolic sine; each part within 6 ulp."""
    roots = _roots(k, k.abs(z.imag), k.abs(z.real), z.type)
    return k.compound(z.type, k.copysign(z.real, _height(k, roots)), k.copysign(z.imag, _arcsine(k, roots)))


def arccosh(k: Builder, z: Any) -> Value:
    """Inverse hyperbolic cosine, with a real part not below 0; each part within 6 ulp."""
    roots = _roots(k, k.abs(z.real), k.abs(z.imag), z.type)
    angle = _arccosine(k, roots, _is_negative(k, z.real))
    return k.compound(z.type, k.abs(_height(k, roots)), k.copysign(z.imag, angle))


def _area(k: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """Both parts of arctanh in the first quadrant."""
    type_ = x.type
    one, zero, quarter = k.const(1, type_), k.const(0, type_), k.const(math.pi / 2, type_)
    size = k.max(x, y)
    is_large = size > LARGE[type_]
    a, b = k.where(is_large, one, x), k.where(is_large, one, y)
    away = 1.0 - a
    near = k.var(real_log1p(k, 4.0 * a / k.fma(away, away, b * b)) * 0.25)
    with k.when(k.compare("eq", a, 1) & (b < SMALL[type_])):  # the pole
        near.set((math.log(2) - real_log(k, b)) * 0.5)
    real = near.get()
    imag = arctan2(k, b + b, k.fma(away, 1.0 + a, -(b * b))) * 0.5
    # far out x / (x**2 + y**2), and a right angle
    along, across = x / size, y / size
    far = along / k.fma(along, along, across * across) / size
    far = k.where(k.compare("eq", size, INFINITY), zero, far)
    real = k.where(is_large, far, real)
    beyond = k.where(k.isnan(x) & (y < INFINITY), x, quarter)
    imag = k.where(is_large, k.where(k.isnan(y), y, beyond), imag)
    return k.where(k.compare("eq", x, 0), x, real), imag


def arctanh(k: Builder, z: Any) -> Value:
    """Inverse hyperbolic tangent; each part within 6 ulp."""
    real, imag = _area(k, k.abs(z.real), k.abs(z.imag))
    return k.compound(z.type, k.copysign(z.real, real), k.copysign(z.imag, imag))


def arctan(k: Builder, z: Any) -> Value:
    """Inverse tangent; each part within 6 ulp."""
    imag, real = _area(k, k.abs(z.imag), k.abs(z.real))
    return k.compound(z.type, k.copysign(z.real, real), k.copysign(z.imag, imag))
