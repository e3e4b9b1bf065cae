"""exp, exp2 and expm1.

``x = n ln 2 + r`` with ``|r| <= ln(2) / 2`` (Cody and Waite: ln 2 in two parts; FMA makes the first step exact),
a polynomial for ``exp(r)``, and a scaling by ``2**n`` in two steps, so that subnormal results are rounded and not lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from oxinp._ptx.math.floats import nearest, polynomial, power_of_two, scale
from oxinp._ptx.math.widen import widened
from oxinp._ptx.types import Type, f32, f64
from oxinp._ptx.value import Value

if TYPE_CHECKING:
    from oxinp._ptx.builder import Builder

LOG2_E = 1.4426950408889634
NARROW = 0.42  # expm1: below it, the polynomial alone

# Of r in [-0.347, 0.347]: the quotient (exp(r) - 1 - r) / r**2.
EXP_F32 = (
    0.49999994,
    0.166665211,
    0.0416682661,
    0.00836867746,
    0.00138207304,
)
EXP_F64 = (
    0.50000000000000111,
    0.16666666666666458,
    0.041666666666528261,
    0.0083333333334733029,
    0.0013888888943901936,
    0.00019841269542483059,
    2.4801492929475631e-05,
    2.7557560061983974e-06,
    2.7630288142049831e-07,
    2.5007130840883136e-08,
)
# Of r in [-0.5, 0.5]: the quotient (2**r - 1) / r.
EXP2_F32 = (
    0.693147182,
    0.240226477,
    0.0555035956,
    0.00961849932,
    0.00133909762,
    0.000153293455,
)
EXP2_F64 = (
    0.69314718055994529,
    0.24022650695910108,
    0.055504108664821722,
    0.0096181291076015973,
    0.0013333558146546522,
    0.0001540353044904882,
    1.5252733633695832e-05,
    1.3215438828928218e-06,
    1.0178160174483251e-07,
    7.0732343001845201e-09,
    4.4388428968428279e-10,
)
# The same for r in [-0.42, 0.42].
EXPM1_F32 = (
    0.5,
    0.166666657,
    0.041666273,
    0.00833349861,
    0.00139538583,
    0.000198223526,
)
EXPM1_F64 = (
    0.5,
    0.16666666666666727,
    0.041666666666666061,
    0.0083333333332823549,
    0.0013888888889139444,
    0.00019841269978089642,
    2.4801586972413778e-05,
    2.7557160688856487e-06,
    2.7557467085571188e-07,
    2.5135013172038659e-08,
    2.0879501403886039e-09,
)


class Constants(NamedTuple):
    """What differs between the types.

    Attributes
    ----------
    ln2 : pair of float
        ln 2 in two parts of the type's precision.
    exp, exp2, expm1 : tuple of float
        Polynomials.
    exp_range, exp2_range : pair of float
        From the first one down the result is 0, from the second one up it is infinite.
    minus_one : float
        From it down expm1 is -1.
    """

    ln2: tuple[float, float]
    exp: tuple[float, ...]
    exp2: tuple[float, ...]
    expm1: tuple[float, ...]
    exp_range: tuple[float, float]
    exp2_range: tuple[float, float]
    minus_one: float


CONSTANTS: dict[Type, Constants] = {
    f32: Constants(
        (0.6931471824645996, -1.9046542121259336e-09), EXP_F32, EXP2_F32, EXPM1_F32, (-104, 89), (-151, 128), -20
    ),
    f64: Constants(
        (0.6931471805599453, 2.3190468138462996e-17), EXP_F64, EXP2_F64, EXPM1_F64, (-746, 710), (-1076, 1024), -40
    ),
}


def reduced(k: Builder, x: Value) -> tuple[Value, Value]:
    """``r, n`` with ``x = n ln 2 + r``, r in [-0.35, 0.35]."""
    high, low = CONSTANTS[x.type].ln2
    multiple, number = nearest(k, x, LOG2_E)
    return k.fma(multiple, -low, k.fma(multiple, -high, x)), number


@widened
def exp(k: Builder, x: Value) -> Value:
    """``e**x``; at most 0.95 ulp (f32), 0.9 ulp (f64) from the true value.

    Method: see the module.
    """
    return saturated(k, x, scale(k, *exp_parts(k, x)), CONSTANTS[x.type].exp_range)


def exp_parts(k: Builder, x: Value) -> tuple[Value, Value]:
    """``p, n`` with ``e**x = p * 2**n``, p near 1."""
    r, number = reduced(k, x)
    return polynomial(k, r, (1.0, 1.0, *CONSTANTS[x.type].exp)), number


@widened
def exp2(k: Builder, x: Value) -> Value:
    """``2**x``, exact for integers; at most 0.9 ulp from the true value.

    Method: see the module; the reduction is exact.
    """
    return saturated(k, x, scale(k, *exp2_parts(k, x)), CONSTANTS[x.type].exp2_range)


def exp2_parts(k: Builder, x: Value) -> tuple[Value, Value]:
    """``p, n`` with ``2**x = p * 2**n``, p near 1."""
    multiple, number = nearest(k, x, 1.0)
    return polynomial(k, x - multiple, (1.0, *CONSTANTS[x.type].exp2)), number


def saturated(k: Builder, x: Value, result: Value, bounds: tuple[float, float]) -> Value:
    """`result`, 0 from the first bound down and infinity from the second up."""
    low, high = bounds
    result = k.where(x >= high, float("inf"), result)
    return k.where(x <= low, 0.0, result)


@widened
def expm1(k: Builder, x: Value) -> Value:
    """``e**x - 1``; at most 0.95 ulp from the true value.

    Method: ``2**n * q + (2**n - 1)`` with a polynomial ``q = exp(r) - 1``; n is 0 for ``|x| < 0.42``, where the sum
    would cancel.
    """
    constants = CONSTANTS[x.type]
    high, low = constants.ln2
    multiple, number = nearest(k, x, LOG2_E)
    is_narrow = k.abs(x) < NARROW
    multiple = k.where(is_narrow, 0.0, multiple)
    first = k.fma(multiple, -high, x)
    r = k.fma(multiple, -low, first)
    r_low = k.fma(multiple, -low, first - r)
    q = r + k.fma(r * r, polynomial(k, r, constants.expm1), r_low)
    # half of 2**n, since 2**n itself may be infinite; not so where q may be subnormal
    one, two = k.const(1.0, x.type), k.const(2.0, x.type)
    unit = k.where(is_narrow, one, 0.5)
    part = power_of_two(k, k.where(is_narrow, 0, number - 1), x.type)
    whole = part - unit
    lost = (part - whole) - unit
    result = (whole + k.fma(part, q, lost)) * k.where(is_narrow, one, two)
    result = k.where(x >= constants.exp_range[1], float("inf"), result)
    return k.emit("copysign", x, k.where(x <= constants.minus_one, -1.0, result))
