"""arcsinh, arccosh and arctanh: logarithms of ``1 + u``, u a sum of two numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._ptx.math.floats import Sum, quotient_sum, root_sum
from oxinp._ptx.math.logarithm import log_of_sum
from oxinp._ptx.math.widen import widened
from oxinp._ptx.types import f32, f64
from oxinp._ptx.value import Value

if TYPE_CHECKING:
    from oxinp._ptx.builder import Builder

LARGE = {f32: 2.0**14, f64: 2.0**30}  # from here on, cosh x and sinh |x| are exp(|x|) / 2, rounded


@widened
def arcsinh(k: Builder, x: Value) -> Value:
    """Inverse hyperbolic sine; at most 0.95 ulp from the true value.

    Method: ``log(1 + u)`` with ``u = a + a**2 / (1 + sqrt(1 + a**2))`` and ``a = |x|``; ``log(2 a)`` for large a.
    """
    a = k.abs(x)
    is_large = a > LARGE[x.type]
    square = a * a
    square_low = k.fma(a, a, -square)
    is_above = square > 1
    more, less = k.where(is_above, square, 1.0), k.where(is_above, 1.0, square)
    total = more + less
    root = root_sum(k, total, ((more - total) + less) + square_low)
    below = root.high + 1.0
    below_low = ((root.high - below) + 1.0) + root.low
    v = quotient_sum(k, square, below, square_low, below_low)
    u = a + v.high
    return k.emit("copysign", x, logarithm(k, Sum(u, ((a - u) + v.high) + v.low), is_large, a))


def logarithm(k: Builder, u: Sum, is_large: Value, x: Value) -> Value:
    """``log(1 + u)``, or ``log(2 x)`` where `is_large` holds."""
    return log_of_sum(k, Sum(k.where(is_large, x, u.high), k.where(is_large, 0.0, u.low)), is_large)


@widened
def arccosh(k: Builder, x: Value) -> Value:
    """Inverse hyperbolic cosine, NaN below 1; at most 0.95 ulp from the true value.

    Method: ``log(1 + u)`` with ``u = t + sqrt(t (t + 2))`` and ``t = x - 1``; ``log(2 x)`` for large x.
    """
    t = x - 1.0
    above = t + 2.0
    above_low = (2.0 - above) + t
    product = t * above
    root = root_sum(k, product, k.fma(t, above, -product) + t * above_low)
    u = root.high + t
    result = logarithm(k, Sum(u, ((root.high - u) + t) + root.low), x > LARGE[x.type], x)
    return k.where(x < 1, float("nan"), result)


@widened
def arctanh(k: Builder, x: Value) -> Value:
    """Inverse hyperbolic tangent, infinite at 1, NaN beyond; at most 0.95 ulp from the true value.

    Method: half of ``log(1 + u)`` with ``u = 2 a / (1 - a)`` and ``a = |x|``.
    """
    a = k.abs(x)
    below = 1.0 - a
    result = log_of_sum(k, quotient_sum(k, a + a, below, None, (1.0 - below) - a)) * 0.5
    result = k.where(a == 1, float("inf"), k.where(a > 1, float("nan"), result))
    return k.emit("copysign", x, result)
