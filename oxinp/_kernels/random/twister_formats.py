"""What draws from MT19937 make of its words: numbers of a fixed count of words, and attempts that may be rejected.

Source: NumPy's src/mt19937 and src/legacy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.random.fill import uniform_f32
from oxinp._kernels.random.libm import log
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.types import f32, f64, u32, u64

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._ptx import Builder
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value

RESULT_WORDS = 4  # words taken, number of the first word that is left, a normal that is left over, whether there is one


def tempered(word: Value) -> Value:
    """What the generator gives for a word."""
    word = word ^ (word >> 11)
    word = word ^ ((word << 7) & 0x9D2C5680)
    word = word ^ ((word << 15) & 0xEFC60000)
    result: Value = word ^ (word >> 18)
    return result


def _scaled(k: Builder, first: Value, second: Value, exponent: int, offset: float) -> Value:
    """``((first >> 5) * 2**26 + (second >> 6)) * 2**(exponent - 53) + offset``, if that is exact.

    Both parts are mantissas of numbers whose exponents make a unit worth what it is.
    """
    upper = k.bitcast(k.pack(first >> 5, k.const((1023 + 25 + exponent) << 20, u32)), f64)
    lower = k.bitcast(k.pack(second >> 6, k.const((1023 - 1 + exponent) << 20, u32)), f64)
    result: Value = (upper - (2.0 ** (25 + exponent) + 2.0 ** (exponent - 1) - offset)) + lower
    return result


def double(k: Builder, first: Value, second: Value) -> Value:
    """A uniform number from 0 to 1, of 53 bits."""
    return _scaled(k, first, second, 0, 0.0)


class Attempt(NamedTuple):
    """What an attempt says.

    Attributes
    ----------
    is_accepted : Value
    values : callable
        ``values()`` -> the results, where it is accepted.
    """

    is_accepted: Value | None
    values: Callable[[], list[Value]]


class Cutting(NamedTuple):
    """Into what a draw may be cut; more streams keep the device busier, and take longer to make.

    Attributes
    ----------
    most : int
        Streams.
    odds : tuple of int
        Factors of a stream's length beside a power of two; each takes polynomials of its own.
    """

    most: int
    odds: tuple[int, ...]


OF_FIXED = Cutting(256, (1, 3))  # where no attempt is rejected, two streams per multiprocessor keep it busy
OF_REJECTED = Cutting(512, (1, 3))
OF_POINTS = Cutting(264, (1, 3, 5, 7))  # two again, as nearly as lengths allow


class Format(Frozen, eq=False):
    """What is made of words.

    Attributes
    ----------
    name : str
    type : Type
        Of elements.
    words : int
        That an attempt takes.
    make : callable
        ``make(k, words, parameters)`` -> `Attempt`.
    gives : int
        Results of an attempt.
    rejects : bool
        Attempts may be rejected.
    point : callable or None
        ``point(k, first, second)``: what a pair of words gives, if an attempt is made of two such, in place of words.
    parameters : tuple of Type
    cutting : Cutting
    """

    name: str
    type: Type
    words: int
    make: Callable[..., Attempt]
    gives: int = 1
    rejects: bool = False
    point: Callable[..., Value] | None = None
    parameters: tuple[Type, ...] = ()
    cutting: Cutting = OF_FIXED


def _always(make: Callable[..., Value]) -> Callable[..., Attempt]:
    return lambda k, words, _: Attempt(None, lambda: [make(k, *words)])


def _positive(k: Builder, words: list[Value], _: Any) -> Attempt:
    """A uniform number that is not 0, where NumPy draws another one."""
    number = double(k, *words)
    return Attempt(number != 0.0, lambda: [number])


def coordinate(k: Builder, first: Value, second: Value) -> Value:
    """A uniform number from -1 to 1."""
    return _scaled(k, first, second, 1, -1.0)


def _polar(k: Builder, point: list[Value], _: Any) -> Attempt:
    """Marsaglia's polar method; the second result is the one that NumPy keeps for the next call."""
    x, y = point
    square = x * x + y * y

    return Attempt((square < 1.0) & (square != 0.0), lambda: polar_values(k, x, y, square, log))


def polar_values(k: Builder, x: Value, y: Value, square: Value, log: Callable[[Builder, Value], Value]) -> list[Value]:
    """The normals of a point of which `square` is the distance from 0, squared; the first is NumPy's first."""
    factor = k.sqrt((log(k, square) * -2.0) / square)
    return [factor * y, factor * x]


def _masked(type_: Type) -> Callable[..., Attempt]:
    def make(k: Builder, words: list[Value], parameters: Any) -> Attempt:
        mask, largest, offset = parameters
        value = words[0] & mask
        return Attempt(value <= largest, lambda: [(value if type_ is u32 else k.cast(value, u64)) + offset])

    return make


def _lemire(type_: Type) -> Callable[..., Attempt]:
    def make(k: Builder, words: list[Value], parameters: Any) -> Attempt:
        count, threshold, offset = parameters
        low, high = k.unpack(k.mul_wide(words[0], count))
        return Attempt(low >= threshold, lambda: [(high if type_ is u32 else k.cast(high, u64)) + offset])

    return make


def _integers(name: str, type_: Type, make: Callable[[Type], Callable[..., Attempt]]) -> Format:
    return Format(name, type_, 1, make(type_), rejects=True, parameters=(u32, u32, type_), cutting=OF_REJECTED)


FORMATS = {
    each.name: each
    for each in (
        Format("uniform_f64", f64, 2, _always(double)),
        Format("uniform_f32", f32, 1, _always(uniform_f32)),
        Format("halves", u32, 1, _always(lambda k, word: word)),  # noqa: ARG005 - one signature
        Format("words", u64, 2, _always(lambda k, high, low: k.pack(low, high))),
        Format("positive_f64", f64, 2, _positive, rejects=True, cutting=OF_REJECTED),
        Format("polar_f64", f64, 4, _polar, gives=2, rejects=True, point=coordinate, cutting=OF_POINTS),
        _integers("lemire_u32", u32, _lemire),
        _integers("lemire_u32_as_u64", u64, _lemire),
        _integers("masked_u32", u32, _masked),
        _integers("masked_u64", u64, _masked),
    )
}


__all__ = [
    "FORMATS",
    "OF_FIXED",
    "RESULT_WORDS",
    "Attempt",
    "Cutting",
    "Format",
    "coordinate",
    "double",
    "polar_values",
    "tempered",
]
