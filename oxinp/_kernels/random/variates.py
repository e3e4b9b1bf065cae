"""Variates that take as many words as it needs, in segments: what NumPy does with a word, and with those that follow.

A segment starts at a word (or at a piece of one) and gives one variate or none: a strip of the ziggurat that accepts at
once is one word long, a wedge two, the tail an odd number; a number that Lemire's method rejects is a segment of one
that gives nothing. NumPy draws a variate by going from segment to segment until one gives it.

Source: NumPy's src/distributions/distributions.c.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from oxinp._kernels.random import libm_exp
from oxinp._kernels.random.fill import uniform_f64
from oxinp._kernels.random.libm_log1p import log1p
from oxinp._kernels.random.ziggurat_tables import table
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.types import f32, f64, u8, u16, u32, u64

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._ptx import Builder
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value, Var

STRIPS = 256
NORMAL_R, NORMAL_INVERSE_R = 3.6541528853610087963519472518, 0.27366123732975827203338247596
EXPONENTIAL_R = 7.69711747013104972
LOG2_E = 1.4426950408889634
MARGIN = 2.0**-16  # of an estimate


class Begun(NamedTuple):
    """What the first piece of a segment says.

    Attributes
    ----------
    is_done : Value
        The segment is one piece long and gives the value.
    value : Value
    is_slow : Value or None
        More has to be looked at; None where that never is: what is not done gives nothing.
    """

    is_done: Value
    value: Value
    is_slow: Value | None


class Outcome(NamedTuple):
    """Variables for the end of a slow segment.

    Attributes
    ----------
    length : Var
        In pieces, u32.
    is_accepted : Var
        Whether it gives a value, u32, 0 or 1.
    value : Var
    is_own : Var
        The value is not that of the first piece, or the length is not 2; u32, 0 or 1.
    """

    length: Var
    is_accepted: Var
    value: Var
    is_own: Var


class Variate(Frozen, eq=False):
    """A kind of variate.

    Attributes
    ----------
    name : str
    type : Type
        Of elements.
    pieces : int
        That a word is divided into.
    expected : float
        Expected pieces per variate; 0 where that depends on parameters.
    begin : callable
        ``begin(k, piece, parameters)`` -> `Begun`; a piece is the halves of a word, a half, or less, as a tuple.
    slow : callable or None
        ``slow(k, piece, reader, parameters, outcome)``: ends a slow segment; ``reader.next()`` gives the next piece,
        ``reader.uniform()`` the uniform number of it.
    tail, is_tail : callable or None
        ``tail(k, piece, reader, outcome, form)``: ends a slow segment of which ``is_tail(k, piece)`` holds, in place
        of `slow`; these are few, always give a value, and it is their own. It is a form of `libm_log1p.log1p`.
    parameters : tuple of Type
        Scalars of the kernel, the last inputs of a plan.
    has_table : bool
        Before these, a ziggurat's table is an input.
    is_candidate : callable or None
        ``is_candidate(k, piece, tops)``: whether a segment may be slow, from fewer instructions than `begin` takes.
    value : callable or None
        ``value(k, piece, widths)``: the value of `begin` alone.
    widths : callable or None
        ``widths(k, word)`` -> what `value` looks up, `STRIPS` apart in words of 64 bits, of a width in the table.
    """

    name: str
    type: Type
    pieces: int
    expected: float
    begin: Callable[..., Begun]
    slow: Callable[..., None] | None = None
    tail: Callable[..., None] | None = None
    is_tail: Callable[..., Value] | None = None
    parameters: tuple[Type, ...] = ()
    has_table: bool = False
    is_candidate: Callable[..., Value] | None = None
    value: Callable[..., Value] | None = None
    widths: Callable[..., list[Value]] | None = None


class Strips(NamedTuple):
    """A ziggurat's table in global memory: limits, widths and densities of its strips."""

    type: Type  # of a mantissa
    words: Pointer

    def limit(self, number: Value) -> Value:
        """Below which mantissa a strip accepts at once."""
        limit: Value = self.words.builder.cast(self.words[number], self.type)
        return limit

    def width(self, number: Value) -> Value:
        """The width of a unit of the mantissa, as bits."""
        width: Value = self.words.builder.cast(self.words[number + STRIPS], self.type)
        return width

    def density(self, number: Value, before: int = 0) -> Value:
        """The density at the right end of a strip, or of one before it, as bits."""
        return self.words[number + (2 * STRIPS - before)]


def ziggurat_table(name: str) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return the table of a variate: limits, widths and densities."""
    distribution, bits = name.rsplit("_", 1)
    return np.concatenate([table(distribution, bits, part) for part in ("accepts", "widths", "densities")])


class _Strip(NamedTuple):
    """Where a word falls.

    Attributes
    ----------
    word : Value
        Whose lowest 8 bits are the number of the strip; the next one is the sign, where there is one.
    top : Value
        The upper bits of the mantissa, as many as u32 holds.
    mantissa : Value
    as_float : callable
        ``as_float()``: the mantissa as a number of the variate's type.
    is_signed : bool
        Abscissas have a sign.
    """

    word: Value
    top: Value
    mantissa: Value
    as_float: Callable[[], Value]
    is_signed: bool

    @property
    def number(self) -> Value:
        """Of the strip."""
        return self.word & (STRIPS - 1)

    def looked_up(self, array: Pointer, type_: Type, *, with_sign: bool = False) -> Value:
        """What an array in shared memory has of the strip, or of that and the sign."""
        count = 2 * STRIPS if with_sign else STRIPS
        nbytes = array.type.nbytes
        found: Value = array.offset_bytes((self.word << (nbytes.bit_length() - 1)) & (count - 1) * nbytes).view(type_)[
            0
        ]
        return found

    def x(self, k: Builder, width: Value) -> Value:
        """The abscissa, with its sign."""
        number = self.as_float()
        product: Value = number * k.bitcast(width, number.type)
        if not self.is_signed:
            return product
        sign = (self.word << 23) & 0x80000000
        if number.type is f32:
            return k.bitcast(k.bitcast(product, u32) ^ sign, f32)
        low, high = k.unpack(k.bitcast(product, u64))
        return k.bitcast(k.pack(low, high ^ sign), f64)


class _Kind(NamedTuple):
    """How a word is read.

    Attributes
    ----------
    strip_of : callable
        ``strip_of(k, piece)`` -> `_Strip`.
    type : Type
        Of elements.
    dropped, cleared : int
        Bits of a mantissa that are not in its top, and lowest bits of that which are zeros.
    is_signed : bool
        See `_Strip`.
    """

    strip_of: Callable[..., _Strip]
    type: Type
    dropped: int
    cleared: int
    is_signed: bool

    def strips(self, words: Pointer) -> Strips:
        """The table in global memory."""
        return Strips(u64 if self.type is f64 else u32, words)


def _as_float(k: Builder, bits: Value, type_: Type) -> Value:
    result: Value = k.bitcast(bits if type_ is f64 else k.cast(bits, u32), type_)
    return result


def _normal_f64(k: Builder, piece: Any) -> _Strip:
    low, high = piece
    top = high << 3

    def as_float() -> Value:
        # Without a conversion, of which a cycle does few: an exponent is shifted in from above
        return k.bitcast(k.pack(k.shf_r(low, high, 9), k.shf_r(top, k.const(0x433, u32), 12)), f64) - float(1 << 52)

    mantissa = k.pack(k.shf_r(low, high, 9), (high >> 9) & 0xFFFFF)
    return _Strip(low, top, mantissa, as_float, is_signed=True)


def _normal_f32(k: Builder, piece: Any) -> _Strip:
    (half,) = piece
    mantissa = half >> 9
    return _Strip(half, mantissa, mantissa, lambda: _as_f32(k, half), is_signed=True)


def _as_f32(k: Builder, half: Value) -> Value:
    """The upper 23 bits as a number."""
    result: Value = k.bitcast(k.shf_r(half, k.const(0x96, u32), 9), f32) - float(1 << 23)
    return result


def _exponential_f64(k: Builder, piece: Any) -> _Strip:
    low, high = piece
    words = k.shf_r(low, high, 11), high >> 11

    def as_float() -> Value:
        upper = k.bitcast(k.pack(words[1], k.const(0x45300000, u32)), f64)
        lower = k.bitcast(k.pack(words[0], k.const(0x43300000, u32)), f64)
        number: Value = (upper - float((1 << 84) + (1 << 52))) + lower
        return number

    return _Strip(low >> 3, high, k.pack(*words), as_float, is_signed=False)


def _exponential_f32(k: Builder, piece: Any) -> _Strip:
    (half,) = piece
    mantissa = half >> 9
    return _Strip(half >> 1, mantissa, mantissa, lambda: _as_f32(k, half), is_signed=False)


def tops(name: str) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """Return the upper bits of a ziggurat's limits: from them on a segment may be slow."""
    distribution, bits = name.rsplit("_", 1)
    kind = _KINDS[name]
    whole = table(distribution, bits, "accepts") >> np.uint64(kind.dropped + kind.cleared)
    return (whole << np.uint64(kind.cleared)).astype(np.uint32)


def _begins(kind: _Kind) -> Callable[..., Begun]:
    def begin(k: Builder, piece: Any, words: Pointer) -> Begun:
        strips, strip = kind.strips(words), kind.strip_of(k, piece)
        is_done = strip.mantissa < strips.limit(strip.number)
        return Begun(is_done, strip.x(k, strips.width(strip.number)), ~is_done)

    return begin


def _is_candidate(kind: _Kind) -> Callable[..., Value]:
    def is_candidate(k: Builder, piece: Any, tops: Pointer) -> Value:
        strip = kind.strip_of(k, piece)
        return strip.top >= strip.looked_up(tops, u32)

    return is_candidate


def _value(kind: _Kind) -> Callable[..., Value]:
    def value(k: Builder, piece: Any, widths: Pointer) -> Value:
        strip = kind.strip_of(k, piece)
        # The sign of a width is that of the product
        result: Value = strip.as_float() * strip.looked_up(widths, kind.type, with_sign=strip.is_signed)
        return result

    return value


def _widths(kind: _Kind) -> Callable[..., list[Value]]:
    """Make the widths that `_value` looks up of one in a table: itself, and its negative."""

    def widths(k: Builder, word: Value) -> list[Value]:
        width = _as_float(k, word, kind.type)
        return [width, -width] if kind.is_signed else [width]

    return widths


def _wedge(kind: _Kind, exponent: Callable[[Value], Value]) -> Callable[..., None]:
    """Accept under the density, ``exp(exponent(x))``: where that is not close to the height, as estimated.

    The estimate is of f32: of exponents from -12 on its error is below 2**-19 of it.
    """
    type_ = kind.type

    def slow(k: Builder, piece: Any, reader: Any, words: Pointer, outcome: Outcome) -> None:
        strips, strip = kind.strips(words), kind.strip_of(k, piece)
        x = strip.x(k, strips.width(strip.number))
        above, below = (_as_float(k, strips.density(strip.number, before), type_) for before in (1, 0))
        height = (above - below) * reader.uniform() + below
        power = exponent(k.cvt(x, f64) if type_ is f32 else x)
        estimate = k.cvt(k.emit("ex2_approx", k.cvt(power * LOG2_E, f32)), f64)
        distance = (k.cvt(height, f64) if type_ is f32 else height) - estimate
        is_accepted = k.var(k.cast(distance < 0.0, u32))
        with k.when(k.abs(distance) <= estimate * MARGIN):
            if kind.is_signed or type_ is f64:
                is_below = (k.cvt(height, f64) if type_ is f32 else height) < libm_exp.exp_of_sum(k, power)
            else:
                is_below = height < libm_exp.exp_f32(k, power)
            is_accepted.set(k.cast(is_below, u32))
        outcome.length.set(2)
        outcome.is_accepted.set(is_accepted.get())
        outcome.value.set(x)

    return slow


def _is_tail(kind: _Kind) -> Callable[..., Value]:
    def is_tail(k: Builder, piece: Any) -> Value:
        return kind.strip_of(k, piece).number == 0

    return is_tail


def _tail_normal(kind: _Kind) -> Callable[..., None]:
    type_ = kind.type
    inverse, radius = (float(type_.dtype.type(x)) for x in (NORMAL_INVERSE_R, NORMAL_R))

    def tail(k: Builder, piece: Any, reader: Any, outcome: Outcome, form: str) -> None:
        strip = kind.strip_of(k, piece)
        is_negative = (strip.mantissa & 0x100) != 0
        outcome.length.set(1)
        with k.loop():
            x = -inverse * log1p(k, -reader.uniform(), form)
            y = -log1p(k, -reader.uniform(), form)
            outcome.length.set(outcome.length + 2)
            outcome.value.set(k.where(is_negative, -(x + radius), x + radius))
            k.break_if(y + y > x * x)

    return tail


def _tail_exponential(kind: _Kind) -> Callable[..., None]:
    radius = float(kind.type.dtype.type(EXPONENTIAL_R))

    def tail(k: Builder, _: Any, reader: Any, outcome: Outcome, form: str) -> None:
        outcome.length.set(2)
        outcome.value.set(radius - log1p(k, -reader.uniform(), form))

    return tail


def _positive(k: Builder, piece: Any, _: Any) -> Begun:
    """A uniform number that is not 0, where NumPy draws another one."""
    low, high = piece
    return Begun(((low >> 11) | high) != 0, uniform_f64(k, low, high), None)


def _lemire(type_: Type) -> Callable[..., Begun]:
    """``(piece * (range + 1)) >> bits``, rejected where the lower bits are below a threshold."""

    def begin(k: Builder, piece: Any, parameters: Any) -> Begun:
        count, threshold, offset = parameters
        if type_ is u64:
            word = k.pack(*piece)
            low, high = word * count, k.mulhi(word, count)
            return Begun(low >= threshold, high + offset, None)
        (part,) = piece
        if type_ is u32:
            low, high = k.unpack(k.mul_wide(part, count))
        else:
            product = part * count
            low, high = product & ((1 << type_.bits) - 1), product >> type_.bits
        value = high + offset
        return Begun(low >= threshold, value if type_ is u32 else k.cast(value, type_), None)

    return begin


def _lemire_wide(k: Builder, piece: Any, parameters: Any) -> Begun:
    """A number from 32 bits for elements of 64."""
    count, threshold, offset = parameters
    low, high = k.unpack(k.mul_wide(piece[0], count))
    return Begun(low >= threshold, k.cast(high, u64) + offset, None)


_KINDS = {
    "normal_f64": _Kind(_normal_f64, f64, 20, 3, is_signed=True),
    "normal_f32": _Kind(_normal_f32, f32, 0, 0, is_signed=True),
    "exponential_f64": _Kind(_exponential_f64, f64, 21, 0, is_signed=False),
    "exponential_f32": _Kind(_exponential_f32, f32, 0, 0, is_signed=False),
}
_EXPECTED = {"normal_f64": 1.0222, "normal_f32": 1.0223, "exponential_f64": 1.0336, "exponential_f32": 1.0338}


def _variates() -> list[Variate]:
    found = [
        Variate(
            name,
            kind.type,
            1 if kind.type is f64 else 2,
            _EXPECTED[name],
            _begins(kind),
            _wedge(kind, (lambda x: (x * -0.5) * x) if kind.is_signed else operator.neg),
            (_tail_normal if kind.is_signed else _tail_exponential)(kind),
            _is_tail(kind),
            has_table=True,
            is_candidate=_is_candidate(kind),
            value=_value(kind),
            widths=_widths(kind),
        )
        for name, kind in _KINDS.items()
    ]
    for type_, pieces in ((u8, 8), (u16, 4), (u32, 2), (u64, 1)):
        word = u64 if type_ is u64 else u32
        found.append(Variate(f"lemire_{type_.name}", type_, pieces, 0, _lemire(type_), parameters=(word,) * 3))
    found.append(Variate("positive_f64", f64, 1, 1.0, _positive))
    found.append(Variate("lemire_u32_as_u64", u64, 2, 0, _lemire_wide, parameters=(u32, u32, u64)))
    return found


VARIATES = {variate.name: variate for variate in _variates()}

__all__ = ["STRIPS", "VARIATES", "Begun", "Outcome", "Strips", "Variate", "tops", "ziggurat_table"]
