"""logaddexp and logaddexp2: ``m + log(1 + b**d)``, m the larger argument, d the smaller one less it, b the base.

The difference, the power and the logarithm are sums of two numbers, so that only the last addition rounds. Where it
cancels, m being next to minus the logarithm, a result is as exact as a unit in the last place of m.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._ptx.math.exponential import CONSTANTS, LOG2_E
from oxinp._ptx.math.floats import Sum, nearest, polynomial, scale
from oxinp._ptx.math.logarithm import LOG2_E as LOG2_E_PARTS
from oxinp._ptx.math.logarithm import log1p_sum
from oxinp._ptx.math.widen import widened
from oxinp._ptx.value import Value

if TYPE_CHECKING:
    from oxinp._ptx.builder import Builder


def two_sum(k: Builder, a: Value, b: Value) -> Sum:  # noqa: ARG001 - as all that computes
    """Rounded sum and its exact error (Knuth)."""
    total = a + b
    other = total - a
    return Sum(total, (a - (total - other)) + (b - other))


def power_sum(k: Builder, terms: Sum, low: Value, number: Value, is_nothing: Value) -> Sum:
    """``2**number * (1 + terms) * (1 + low)``, or 0; the second term may be a third of the first."""
    tail = terms.high + terms.low
    high = tail + 1.0
    rest = ((1.0 - high) + tail) + k.fma(low, high, (terms.high - tail) + terms.low)
    return Sum(*(k.where(is_nothing, 0.0, scale(k, part, number)) for part in (high, rest)))


@widened
def logaddexp(k: Builder, x: Value, y: Value) -> Value:
    """``log(e**x + e**y)``; at most 1 ulp of the result or of the larger argument from the true value.

    Method: see the module.
    """
    constants = CONSTANTS[x.type]
    more, difference = ordered(k, x, y)
    multiple, number = nearest(k, difference.high, LOG2_E)
    high, low = constants.ln2
    start = k.fma(multiple, -high, difference.high)
    r = k.fma(multiple, -low, start)
    r_low = k.fma(multiple, -low, start - r) + difference.low
    terms = Sum(r, r * r * polynomial(k, r, constants.expm1))
    power = power_sum(k, terms, r_low, number, difference.high < constants.exp_range[0])
    return added(k, x, y, more, log1p_sum(k, power))


@widened
def logaddexp2(k: Builder, x: Value, y: Value) -> Value:
    """``log2(2**x + 2**y)``; at most 1 ulp of the result or of the larger argument from the true value.

    Method: see the module.
    """
    constants = CONSTANTS[x.type]
    more, difference = ordered(k, x, y)
    multiple, number = nearest(k, difference.high, 1.0)
    r = difference.high - multiple
    slope, *rest = constants.exp2
    head = r * slope
    terms = Sum(head, k.fma(r * r, polynomial(k, r, rest), k.fma(r, slope, -head)))
    power = power_sum(k, terms, difference.low * slope, number, difference.high < constants.exp2_range[0])
    log = log1p_sum(k, power)
    factor, factor_low = LOG2_E_PARTS[x.type]
    whole = log.high + log.low
    rest_of_log = (log.high - whole) + log.low
    product = whole * factor
    low = k.fma(whole, factor, -product) + k.fma(whole, factor_low, rest_of_log * factor)
    # so that 2**-1 + 2**-1 is 1, and its logarithm 0
    return k.where(x == y, x + 1.0, added(k, x, y, more, Sum(product, low)))


def ordered(k: Builder, x: Value, y: Value) -> tuple[Value, Sum]:
    """The larger one, and what the smaller one is less."""
    is_less = x < y
    more, less = k.where(is_less, y, x), k.where(is_less, x, y)
    return more, two_sum(k, less, -more)


def added(k: Builder, x: Value, y: Value, more: Value, log: Sum) -> Value:
    """``more + log``; infinities and NaN as they are."""
    total = two_sum(k, more, log.high)
    result = total.high + (total.low + log.low)
    # infinite arguments: their differences are no numbers
    plain = k.where(k.abs(more) < float("inf"), result, more)
    return k.where(k.emit("isnan", x, y), x + y, plain)
