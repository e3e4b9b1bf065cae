"""Sums of two numbers and of their products with a root of unity, rounded once: the step of real transforms.

That step adds twice and multiplies in between. Rounded each time, it errs by as much as three levels of butterflies,
and a real transform by more than one that has real butterflies only. Rounding errors of sums and of products are
floats themselves, and are added to the results before these are rounded. Kernels wait for memory, not for that.

Source: D. E. Knuth, The Art of Computer Programming 2, 4.2.2; T. J. Dekker, A floating-point technique for extending
the available precision, 1971.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._kernels.reduce.operators import settled, two_sum

if TYPE_CHECKING:
    from oxinp._kernels.fft.codelets import Number
    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value

    Part = tuple[Value, Value]  # a rounded value and what it lacks


def butterfly(k: Builder, even: tuple[Part, Part], odd: tuple[Part, Part], root: Number) -> tuple[Number, Number]:
    """``even + root * odd`` and the conjugate of ``even - root * odd``; parts of both are sums with their errors."""
    (re, im), (cos, sin) = odd, root
    turned_re, turned_im = _difference(k, (re, cos), (im, sin)), _difference(k, (im, cos), (re, -sin))
    total = _rounded(k, even[0], turned_re), _rounded(k, even[1], turned_im)
    return total, (_rounded(k, even[0], _negated(turned_re)), _rounded(k, turned_im, _negated(even[1])))


def _negated(part: Part) -> Part:
    return -part[0], -part[1]


def _difference(k: Builder, one: tuple[Part, Value], other: tuple[Part, Value]) -> Part:
    """The difference of two products."""
    products, errors = [], []
    for (value, low), factor in (one, other):
        product = value * factor
        products.append(product)
        errors.append(k.fma(low, factor, k.fma(value, factor, -product)))
    total, error = two_sum(products[0], -products[1])
    return total, error + (errors[0] - errors[1])


def _rounded(k: Builder, a: Part, b: Part) -> Value:
    """The sum of two, infinite where that of their values is."""
    total, error = two_sum(a[0], b[0])
    rounded: Value = settled(k, total, error + (a[1] + b[1]))
    return rounded


__all__ = ["butterfly", "two_sum"]
