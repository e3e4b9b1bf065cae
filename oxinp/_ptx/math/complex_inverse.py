"""Inverse circular and hyperbolic functions of complex numbers, c64 and c128, in the precision of their parts.

All are odd or even in each part, so they are found in the first quadrant and turned where they belong. Special values
and branch cuts are those of C99, annex G, as in NumPy. Both parts are within a few ulp of their own true values: all
terms of a sum have one sign.

Source: T. E. Hull, T. F. Fairgrieve and P. T. P. Tang, Implementing the complex arcsine and arccosine functions using
exception handling, 1997, without its regions: lanes that differ would take the time of all.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from oxinp._ptx.math.complex import log
from oxinp._ptx.math.floats import inverse, quotient
from oxinp._ptx.math.inverse_trigonometric import angle, arctan2, plain_ratio
from oxinp._ptx.math.logarithm import log as real_log
from oxinp._ptx.math.logarithm import log1p_above
from oxinp._ptx.math.roots import plain_root
from oxinp._ptx.types import f32, f64
from oxinp._ptx.value import Value

if TYPE_CHECKING:
    from oxinp._ptx.builder import Builder

INFINITY = float("inf")
# From here on, 1 does not count beside a square.
LARGE = {f32: 2.0**30, f64: 2.0**60}
# Imaginary parts below this are near the branch point, where the real part is 1.
SMALL = {f32: 2.0**-60, f64: 2.0**-500}


def _angle_and_height(k: Builder, x: Value, y: Value, of: Any, is_behind: Value | None = None) -> tuple[Value, Value]:
    """Real and imaginary part of arcsin in the first quadrant; with `is_behind` the real part is that of arccos.

    arccos is that of the point mirrored to the other side where `is_behind` holds.

    Method: of ``xi + i eta = arcsin(x + i y)``, cosh(eta) is half the sum of the distances r and s from -1 and 1, and

    * ``2 (cosh(eta) - 1) = (r - (1 + x)) + (s - (1 - x))``,
    * ``2 (cosh(eta) - x) = (r - (1 + x)) + (s + (1 - x))`` where x is at most 1, and the other way round beyond.

    The differences are ``y**2`` over the sums, so the first line is ``2 y**2 h`` with
    ``h = (1 / (r + (1 + x)) + 1 / (s + (1 - x))) / 2``, whose root does not underflow.
    """
    is_left = x <= 1
    away, beyond = k.abs(1.0 - x), x + 1.0
    square = y * y
    right = plain_root(k, k.fma(beyond, beyond, square)) + beyond
    left = plain_root(k, k.fma(away, away, square))
    left = k.where(left > y, left, y) + away  # where x is 1, the square may vanish
    product = right * left
    over = inverse(k, product)
    over = k.fma(k.fma(-product, over, 1.0), over, over)
    h, wide = (right + left) * over * 0.5, k.fma(square, left * over, left) * 0.5
    excess = k.where(is_left, square * h, wide)  # cosh(eta) - 1
    first = plain_root(k, k.where(is_left, h, wide) * (excess + 2.0))
    second = plain_root(k, k.where(is_left, wide, h) * (excess + beyond))
    across = k.where(is_left, second, y * second)  # cos(xi) cosh(eta), where x is sin(xi) cosh(eta)
    height = k.var(log1p_above(k, excess + k.where(is_left, y * first, first)))
    ratio = plain_ratio(k, x, across) if is_behind is None else plain_ratio(k, across, x)
    found = k.var(angle(k, ratio, is_behind))
    is_near = k.compare("eq", x, 1) & (y < SMALL[x.type])
    with k.when(~((x < LARGE[x.type]) & (y < LARGE[x.type])) | is_near):
        modulus: Any = log(k, k.compound(of, x, y))
        small = k.sqrt(y)
        height.set(k.where(is_near, small, modulus.real + math.log(2)))
        found.set(_far_angle(k, x, k.where(is_near, small, y), is_behind))
    return found.get(), height.get()


def _far_angle(k: Builder, x: Value, across: Value, is_behind: Value | None) -> Value:
    """The angle where coordinates are large or small, or none."""
    if is_behind is None:
        return k.where(k.compare("eq", x, 0), x, arctan2(k, x, across))
    quarter = k.const(math.pi / 2, x.type)
    found = arctan2(k, across, k.where(is_behind, -x, x))
    return k.where(k.compare("eq", x, 0) & k.isnan(across), quarter, found)


def _is_negative(k: Builder, x: Value) -> Value:
    is_negative: Value = k.copysign(x, k.const(1, x.type)) < 0
    return is_negative


def arcsin(k: Builder, z: Any) -> Value:
    """Inverse sine; each part within 6 ulp."""
    angle, height = _angle_and_height(k, k.abs(z.real), k.abs(z.imag), z.type)
    return k.compound(z.type, k.copysign(z.real, angle), k.copysign(z.imag, height))


def arccos(k: Builder, z: Any) -> Value:
    """Inverse cosine; each part within 6 ulp."""
    angle, height = _angle_and_height(k, k.abs(z.real), k.abs(z.imag), z.type, _is_negative(k, z.real))
    return k.compound(z.type, angle, k.copysign(-z.imag, height))


def arcsinh(k: Builder, z: Any) -> Value:
    """Inverse hyperbolic sine; each part within 6 ulp."""
    angle, height = _angle_and_height(k, k.abs(z.imag), k.abs(z.real), z.type)
    return k.compound(z.type, k.copysign(z.real, height), k.copysign(z.imag, angle))


def arccosh(k: Builder, z: Any) -> Value:
    """Inverse hyperbolic cosine, with a real part not below 0; each part within 6 ulp."""
    angle, height = _angle_and_height(k, k.abs(z.real), k.abs(z.imag), z.type, _is_negative(k, z.real))
    return k.compound(z.type, k.abs(height), k.copysign(z.imag, angle))


def _area(k: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """Both parts of arctanh in the first quadrant."""
    type_ = x.type
    away = 1.0 - x
    square = y * y
    real = k.var(log1p_above(k, quotient(k, x * 4.0, k.fma(away, away, square))) * 0.25)
    along = k.fma(away, x + 1.0, -square)
    imag = k.var(angle(k, plain_ratio(k, y + y, k.abs(along)), along < 0) * 0.5)
    is_pole = k.compare("eq", x, 1) & (y < SMALL[type_])
    with k.when(~((x < LARGE[type_]) & (y < LARGE[type_])) | is_pole):
        far_real, far_imag = _far_area(k, x, y)
        real.set(k.where(is_pole, (math.log(2) - real_log(k, y)) * 0.5, far_real))
        imag.set(k.where(is_pole, arctan2(k, y, k.const(0, type_)) * 0.5, far_imag))
    return real.get(), imag.get()


def _far_area(k: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """``x / (x**2 + y**2)`` and a right angle."""
    zero, quarter = k.const(0, x.type), k.const(math.pi / 2, x.type)
    size = k.max(x, y)
    along, across = x / size, y / size
    far = along / k.fma(along, along, across * across) / size
    far = k.where(k.compare("eq", x, 0), x, k.where(k.compare("eq", size, INFINITY), zero, far))
    return far, k.where(k.isnan(y), y, k.where(k.isnan(x) & (y < INFINITY), x, quarter))


def arctanh(k: Builder, z: Any) -> Value:
    """Inverse hyperbolic tangent; each part within 6 ulp."""
    real, imag = _area(k, k.abs(z.real), k.abs(z.imag))
    return k.compound(z.type, k.copysign(z.real, real), k.copysign(z.imag, imag))


def arctan(k: Builder, z: Any) -> Value:
    """Inverse tangent; each part within 6 ulp."""
    imag, real = _area(k, k.abs(z.imag), k.abs(z.real))
    return k.compound(z.type, k.copysign(z.real, real), k.copysign(z.imag, imag))
