"""Complex arithmetic on pairs of registers, as NumPy's loops do it.

Sums are those of the parts. Products have one rounding less than the schoolbook's, as NumPy's vector loops with FMA
(AVX2, AVX-512) have; its scalar loops round every product. Quotients are Smith's. Comparisons order by real part, then
by imaginary part, and NaN anywhere makes them false.

Source: NumPy, ``loops_arithm_fp.dispatch.c.src`` (products), ``loops.c.src`` (quotients, comparisons, extrema);
R. L. Smith, Algorithm 116: complex division, CACM 5 (1962); C. F. Borges, Algorithm 1014: an improved algorithm for
hypot(x, y), TOMS 47 (2020), and W. Kahan, Branch cuts for complex elementary functions, 1987 (square roots).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxinp._ptx.math.roots import hypot
from oxinp._ptx.types import Compound, Type, f32, f64, pred
from oxinp._ptx.value import Language, Value

if TYPE_CHECKING:
    from collections.abc import Callable


def _add(k: Language, a: Any, b: Any) -> Value:
    return k.compound(a.type, a.real + b.real, a.imag + b.imag)


def _subtract(k: Language, a: Any, b: Any) -> Value:
    return k.compound(a.type, a.real - b.real, a.imag - b.imag)


def _multiply(k: Language, a: Any, b: Any) -> Value:
    real = k.fma(a.real, b.real, -(a.imag * b.imag))
    imag = k.fma(a.real, b.imag, a.imag * b.real)
    return k.compound(a.type, real, imag)


def _divide(k: Language, a: Any, b: Any) -> Value:
    """Smith's quotient with its two cases merged: the smaller component of the divisor over the larger one."""
    is_real = k.abs(b.real) >= k.abs(b.imag)
    large, small = k.where(is_real, b.real, b.imag), k.where(is_real, b.imag, b.real)
    ratio = small / large
    scale = 1.0 / (large + small * ratio)
    along, across = k.where(is_real, a.real, a.imag), k.where(is_real, a.imag, a.real)
    product = along * ratio
    real = (along + across * ratio) * scale
    # One subtraction of chosen operands: of equal ones both orders give +0.
    imag = (k.where(is_real, across, product) - k.where(is_real, product, across)) * scale
    zero = k.abs(large)
    is_zero = is_real & (zero == 0)
    return k.compound(a.type, k.where(is_zero, a.real / zero, real), k.where(is_zero, a.imag / zero, imag))


def _negate(k: Language, a: Any) -> Value:
    return k.compound(a.type, -a.real, -a.imag)


def _is_nan(k: Language, a: Any, b: Any) -> Value:
    return k.emit("isnan", a.real, a.imag) | k.emit("isnan", b.real, b.imag)


def _equal(k: Language, a: Any, b: Any) -> Value:
    return k.compare("eq", a.real, b.real) & k.compare("eq", a.imag, b.imag)


def _not_equal(k: Language, a: Any, b: Any) -> Value:
    return k.compare("ne", a.real, b.real) | k.compare("ne", a.imag, b.imag)


def _ordering(strict: str, name: str) -> Callable[..., Value]:
    """Lexicographic order of (real, imaginary); NaN in an imaginary part makes every comparison false."""

    def compare(k: Language, a: Any, b: Any) -> Value:
        by_real = k.compare(strict, a.real, b.real) & ~k.emit("isnan", a.imag, b.imag)
        return by_real | (k.compare("eq", a.real, b.real) & k.compare(name, a.imag, b.imag))

    return compare


_greater_equal, _less_equal = _ordering("gt", "ge"), _ordering("lt", "le")


def _maximum(k: Language, a: Any, b: Any) -> Value:
    """The larger operand; the first one of equal operands, and of NaNs."""
    return k.where(_greater_equal(k, a, b) | _is_nan(k, a, a), a, b)


def _minimum(k: Language, a: Any, b: Any) -> Value:
    return k.where(_less_equal(k, a, b) | _is_nan(k, a, a), a, b)


# Beyond these, squares are scaled: lower and upper bound of what is not, and the powers of two for either side.
_SCALES = {f32: (2.0**-45, 2.0**60, 2.0**100, 2.0**-64), f64: (2.0**-450, 2.0**500, 2.0**600, 2.0**-540)}


def _root_of_squares(k: Language, a: Value, b: Value) -> tuple[Value, Value]:
    """``sqrt(a*a + b*b)`` of ``a >= b >= 0``, and how far the root is above the true one."""
    root = k.sqrt(k.fma(a, a, b * b))
    square, a_square = root * root, a * a
    excess = k.fma(-b, b, square - a_square) + k.fma(root, root, -square) - k.fma(a, a, -a_square)
    return root, excess / (root + root)


def _square_root(k: Language, z: Any) -> Value:
    """The root with a real part that is not negative, both parts within 1 ulp, special values as in C99, annex G."""
    x, y = k.abs(z.real), k.abs(z.imag)
    type_, infinity = x.type, float("inf")
    zero = k.const(0, type_)
    large, small = k.max(x, y), k.min(x, y)
    low, high, up, down = _SCALES[type_]
    one = k.const(1, type_)
    scale = k.where(large < low, k.const(up, type_), k.where(large > high, k.const(down, type_), one))
    back = k.where(large < low, k.const(up**-0.5, type_), k.where(large > high, k.const(down**-0.5, type_), one))
    # The larger part is sqrt((|x| + |z|) / 2), the other |y| / 2 over it: both in two registers until the end.
    a = x * scale
    root, excess = _root_of_squares(k, large * scale, small * scale)
    total = root + a
    rest = ((a - (total - root)) - excess) * 0.5
    half = total * 0.5
    part = k.sqrt(half)
    error = (k.fma(-part, part, half) + rest) / (part + part)
    # Scaled up, |y| is exact; scaled down, it might not be.
    is_small = large < low
    before, after = k.where(is_small, one, back * 2.0), k.where(is_small, back * 0.5, one)
    dividend, divisor, divisor_error = k.where(is_small, y * scale, y), part * before, error * before
    quotient = dividend / divisor
    other = (quotient + (k.fma(-quotient, divisor, dividend) - quotient * divisor_error) / divisor) * after
    nothing = k.compare("eq", large, 0)
    part, other = k.where(nothing, zero, (part + error) * back), k.where(nothing, zero, other)
    other = k.where(k.compare("eq", y, 0), zero, other)
    # Infinities and NaN
    nan = k.const(float("nan"), type_)
    is_nan = k.emit("isnan", x, y)
    part, other = k.where(is_nan, nan, part), k.where(is_nan, nan, other)
    is_infinite = k.compare("eq", x, infinity)
    part = k.where(is_infinite, x, part)
    other = k.where(is_infinite, k.where(k.compare("eq", y, y), zero, nan), other)
    is_positive = z.real >= 0
    real, imag = k.where(is_positive, part, other), k.where(is_positive, other, part)
    is_infinite = k.compare("eq", y, infinity)
    real, imag = k.where(is_infinite, y, real), k.where(is_infinite, y, imag)
    return k.compound(z.type, real, k.copysign(z.imag, imag))


def _absolute(k: Language, a: Any) -> Value:
    value: Value = hypot(k, a.real, a.imag)
    return value


OPERATIONS: dict[str, Callable[..., Value]] = {
    "add": _add,
    "sub": _subtract,
    "mul": _multiply,
    "div": _divide,
    "neg": _negate,
    "abs": _absolute,
    "sqrt": _square_root,
    "eq": _equal,
    "ne": _not_equal,
    "lt": _ordering("lt", "lt"),
    "le": _less_equal,
    "gt": _ordering("gt", "gt"),
    "ge": _greater_equal,
    "isnan": _is_nan,
    "max": _maximum,
    "min": _minimum,
}
"""Instructions of the table, for complex operands: name -> ``operation(k, *operands)``."""


def cast(k: Language, value: Value, to: Type) -> Value:
    """Cast from or to a complex type as NumPy does: to a real type without the imaginary part, to bool with it.

    Raises
    ------
    TypeError
        One of the types is a tuple that is not complex.
    """
    source = value.type
    if any(isinstance(type, Compound) and not type.is_complex for type in (source, to)):
        raise TypeError(f"no cast from {source} to {to}")
    if not source.is_complex:
        part = to.parts[0]
        return k.compound(to, k.cast(value, part), k.const(0, part))
    real, imag = value.parts
    if to is pred:
        return k.cast(real, pred) | k.cast(imag, pred)
    if not to.is_complex:
        return k.cast(real, to)
    return k.compound(to, *[k.cast(part, to.parts[0]) for part in (real, imag)])
