"""sinh, cosh and tanh.

sinh and cosh: ``|x| = n ln 2 + r``, and with ``a = 2**n / 2``, ``b = 2**-n / 2``, by the addition theorems,

* ``sinh |x| = (a - b) cosh r + (a + b) sinh r``,
* ``cosh x = (a + b) cosh r + (a - b) sinh r``,

which do not cancel: n is 0 for ``|x| < 0.55``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._ptx.math.exponential import CONSTANTS, LOG2_E
from oxinp._ptx.math.floats import nearest, polynomial, power_of_two, quotient
from oxinp._ptx.math.widen import widened
from oxinp._ptx.types import f32, f64
from oxinp._ptx.value import Value

if TYPE_CHECKING:
    from oxinp._ptx.builder import Builder

NARROW = 0.55
OVERFLOW = {f32: 89.5, f64: 710.5}
ONE_FROM = {f32: 10.0, f64: 20.0}  # tanh is 1

# Of z = r**2: the quotient (sinh(r) / r - 1) / z.
SINH_F32 = (
    0.166666687,
    0.008332978,
    0.000200216804,
)
SINH_F64 = (
    0.16666666666666666,
    0.0083333333333338692,
    0.00019841269840237299,
    2.7557320137640781e-06,
    2.5051700221561772e-08,
    1.6148559876005652e-10,
)
# Of z = r**2: the quotient (cosh(r) - 1) / z.
COSH_F32 = (
    0.500000119,
    0.0416641943,
    0.00140321453,
)
COSH_F64 = (
    0.49999999999999994,
    0.041666666666670717,
    0.0013888888887967858,
    2.4801588240449825e-05,
    2.7556841382353904e-07,
    2.099551384292891e-09,
)

SINH = {f32: SINH_F32, f64: SINH_F64}
COSH = {f32: COSH_F32, f64: COSH_F64}


@widened
def sinh(k: Builder, x: Value) -> Value:
    """Hyperbolic sine; at most 0.95 ulp from the true value.

    Method: see the module.
    """
    result = added(k, x, is_odd=True)
    return k.emit("copysign", x, result)


@widened
def cosh(k: Builder, x: Value) -> Value:
    """Hyperbolic cosine; at most 0.95 ulp from the true value.

    Method: see the module.
    """
    return added(k, x, is_odd=False)


def added(k: Builder, x: Value, *, is_odd: bool) -> Value:
    """The addition theorem of sinh (``is_odd``) or cosh at ``|x|``."""
    type = x.type
    magnitude = k.abs(x)
    is_narrow = magnitude < NARROW
    multiple, number = nearest(k, magnitude, LOG2_E)
    multiple, number = k.where(is_narrow, 0.0, multiple), k.where(is_narrow, 0, number)
    high, low = CONSTANTS[type].ln2
    start = k.fma(multiple, -high, magnitude)
    r = k.fma(multiple, -low, start)
    r_low = k.fma(multiple, -low, start - r)
    z = r * r
    sine_tail = k.fma(r * z, polynomial(k, z, SINH[type]), r_low)
    cosine_tail = z * polynomial(k, z, COSH[type])
    # both halved, since 2**n / 2 may be infinite; not so where the result may be subnormal
    shift = k.where(is_narrow, k.const(1, number.type), 2)
    a = power_of_two(k, number - shift, type)
    b = power_of_two(k, -k.min(number, 60) - shift, type)
    first, second = a + b, a - b
    first_low, second_low = (a - first) + b, (a - second) - b
    if is_odd:
        first, first_low, second, second_low = second, second_low, first, first_low
    small = k.fma(cosine_tail, first, k.fma(sine_tail, second, k.fma(r, second_low, first_low)))
    result = (first + k.fma(r, second, small)) * k.where(is_narrow, k.const(1.0, type), 2.0)
    return k.where(magnitude >= OVERFLOW[type], float("inf"), result)


@widened
def tanh(k: Builder, x: Value) -> Value:
    """Hyperbolic tangent; at most 0.85 ulp from the true value.

    Method: ``t / (t + 2)`` with ``t = exp(2 |x|) - 1 = 2**n q + (2**n - 1)`` as a sum of two numbers.
    """
    constants = CONSTANTS[x.type]
    magnitude = k.abs(x)
    high, low = constants.ln2
    argument = magnitude + magnitude
    multiple, number = nearest(k, argument, LOG2_E)
    start = k.fma(multiple, -high, argument)
    r = k.fma(multiple, -low, start)
    tail = k.fma(r * r, polynomial(k, r, constants.expm1), k.fma(multiple, -low, start - r))
    q = r + tail
    q_low = (r - q) + tail
    part = power_of_two(k, number, x.type)
    whole = part - 1.0
    t = k.fma(part, q, whole)
    t_low = k.fma(part, q_low, k.fma(part, q, whole - t))
    below = t + 2.0
    below_low = (k.max(t, 2.0) - below) + k.min(t, 2.0)
    result = quotient(k, t, below, t_low, t_low + below_low)
    return k.emit("copysign", x, k.where(magnitude >= ONE_FROM[x.type], 1.0, result))
