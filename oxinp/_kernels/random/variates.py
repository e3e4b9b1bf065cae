"""Variates that take as many words as it needs, in segments: what NumPy does with a word, and with those that follow.

A segment starts at a word (or at a piece of one) and gives one variate or none: a strip of the ziggurat that accepts at
once is one word long, a wedge two, the tail an odd number; a number that Lemire's method rejects is a segment of one
that gives nothing. NumPy draws a variate by going from segment to segment until one gives it.

Source: NumPy's src/distributions/distributions.c.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from oxinp._kernels.random.fill import uniform_f32, uniform_f64
from oxinp._kernels.random.ziggurat_tables import table
from oxinp._ptx import math
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.types import f32, f64, u8, u16, u32, u64

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._ptx import Builder
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value, Var

STRIPS = 256
TABLE_WORDS = 3 * STRIPS
NORMAL_R, NORMAL_INVERSE_R = 3.6541528853610087963519472518, 0.27366123732975827203338247596
EXPONENTIAL_R = 7.69711747013104972


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
    """Variables for the end of a slow segment: its length in pieces, whether it gives a value, and which."""

    length: Var
    is_accepted: Var  # u32, 0 or 1
    value: Var


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
        ``slow(k, piece, following, parameters, outcome)``: ends a slow segment; ``following()`` gives the next piece.
    parameters : tuple of Type
        Scalars of the kernel, the last inputs of a plan.
    has_table : bool
        Before these, a ziggurat's table is an input.
    """

    name: str
    type: Type
    pieces: int
    expected: float
    begin: Callable[..., Begun]
    slow: Callable[..., None] | None = None
    parameters: tuple[Type, ...] = ()
    has_table: bool = False


class Strips(NamedTuple):
    """A ziggurat's table: in shared memory what every word asks for, in global memory the densities."""

    edges: Pointer
    densities: Pointer

    def edge(self, strip: Value) -> tuple[Value, Value]:
        """Return below which mantissa a strip accepts at once, and the width of a unit of the mantissa."""
        first, second = self.edges.load(strip * 2, 2)
        return first, second


def ziggurat_table(name: str) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return the table of a variate: limits and widths in turn, then densities."""
    distribution, bits = name.rsplit("_", 1)
    accepts, widths, densities = (table(distribution, bits, part) for part in ("accepts", "widths", "densities"))
    return np.concatenate([np.stack([accepts, widths], 1).reshape(-1), densities])


class _Strip(NamedTuple):
    """Where a word falls: number of the strip, the mantissa as bits and the abscissa."""

    number: Value
    mantissa: Value
    x: Value
    limit: Value


def _as_float(k: Builder, bits: Value, type_: Type) -> Value:
    result: Value = k.bitcast(bits if type_ is f64 else k.cast(bits, u32), type_)
    return result


def _of_f64(k: Builder, mantissa: Value) -> Value:
    """A number below ``2**53`` as f64, exactly, without a conversion where it is below ``2**52``."""
    result: Value = k.bitcast(mantissa | 0x4330000000000000, f64) - float(1 << 52)
    return result


def _normal_f64(k: Builder, piece: Any, strips: Strips) -> _Strip:
    low, high = piece
    number = low & 0xFF
    mantissa = k.pack(k.shf_r(low, high, 9), (high >> 9) & 0xFFFFF)
    limit, width = strips.edge(number)
    x = _of_f64(k, mantissa) * k.bitcast(width, f64)
    sign = (low & 0x100) << 23
    x_low, x_high = k.unpack(k.bitcast(x, u64))
    return _Strip(number, mantissa, k.bitcast(k.pack(x_low, x_high ^ sign), f64), limit)


def _normal_f32(k: Builder, piece: Any, strips: Strips) -> _Strip:
    (half,) = piece
    number, mantissa = half & 0xFF, half >> 9
    limit, width = strips.edge(number)
    x = k.cvt(mantissa, f32) * k.bitcast(width, f32)
    return _Strip(number, mantissa, k.bitcast(k.bitcast(x, u32) ^ ((half & 0x100) << 23), f32), limit)


def _exponential_f64(k: Builder, piece: Any, strips: Strips) -> _Strip:
    low, high = piece
    number = (low >> 3) & 0xFF
    mantissa = k.pack(k.shf_r(low, high, 11), high >> 11)
    limit, width = strips.edge(number)
    return _Strip(number, mantissa, k.cvt(mantissa, f64) * k.bitcast(width, f64), limit)


def _exponential_f32(k: Builder, piece: Any, strips: Strips) -> _Strip:
    (half,) = piece
    number, mantissa = (half >> 1) & 0xFF, half >> 9
    limit, width = strips.edge(number)
    return _Strip(number, mantissa, k.cvt(mantissa, f32) * k.bitcast(width, f32), limit)


def _uniform(k: Builder, piece: Any) -> Value:
    return uniform_f64(k, *piece) if len(piece) == 2 else uniform_f32(k, *piece)


def _log1p(k: Builder, x: Value) -> Value:
    """``log1p``, of f32 rounded once, as nearly as C libraries do."""
    return math.log1p(k, x) if x.type is f64 else k.cvt(math.log1p(k, k.cvt(x, f64)), f32)


def _ziggurat(strip_of: Callable[..., _Strip]) -> Callable[..., Begun]:
    def begin(k: Builder, piece: Any, strips: Strips) -> Begun:
        strip = strip_of(k, piece, strips)
        is_done = strip.mantissa < strip.limit
        return Begun(is_done, strip.x, ~is_done)

    return begin


def _wedge(k: Builder, strip: _Strip, piece: Any, strips: Strips, limit: Value, outcome: Outcome) -> None:
    """Accept under the density: `limit` is its value at the abscissa, f64 or the type of the variate."""
    type_ = strip.x.type
    above, below = (_as_float(k, strips.densities[strip.number - i], type_) for i in (1, 0))
    height = (above - below) * _uniform(k, piece) + below
    is_accepted = (height if limit.type is type_ else k.cvt(height, f64)) < limit
    outcome.length.set(2)
    outcome.is_accepted.set(k.cast(is_accepted, u32))
    outcome.value.set(strip.x)


def _slow_normal(strip_of: Callable[..., _Strip], type_: Type) -> Callable[..., None]:
    inverse, radius = (float(type_.dtype.type(x)) for x in (NORMAL_INVERSE_R, NORMAL_R))

    def slow(k: Builder, piece: Any, following: Callable[[], Any], strips: Strips, outcome: Outcome) -> None:
        strip = strip_of(k, piece, strips)
        with k.when(strip.number == 0):
            outcome.length.set(1)
            outcome.is_accepted.set(1)
            with k.loop():
                x = -inverse * _log1p(k, -_uniform(k, following()))
                y = -_log1p(k, -_uniform(k, following()))
                outcome.length.set(outcome.length + 2)
                is_negative = (strip.mantissa & 0x100) != 0
                outcome.value.set(k.where(is_negative, -(x + radius), x + radius))
                k.break_if(y + y > x * x)
        with k.otherwise():
            x = k.cvt(strip.x, f64) if type_ is f32 else strip.x
            _wedge(k, strip, following(), strips, math.exp(k, (x * -0.5) * x), outcome)

    return slow


def _slow_exponential(strip_of: Callable[..., _Strip], type_: Type) -> Callable[..., None]:
    radius = float(type_.dtype.type(EXPONENTIAL_R))

    def slow(k: Builder, piece: Any, following: Callable[[], Any], strips: Strips, outcome: Outcome) -> None:
        strip = strip_of(k, piece, strips)
        second = following()
        with k.when(strip.number == 0):
            outcome.length.set(2)
            outcome.is_accepted.set(1)
            outcome.value.set(radius - _log1p(k, -_uniform(k, second)))
        with k.otherwise():
            limit = math.exp(k, -strip.x if type_ is f64 else k.cvt(-strip.x, f64))
            _wedge(k, strip, second, strips, limit if type_ is f64 else k.cvt(limit, f32), outcome)

    return slow


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


def _variates() -> list[Variate]:
    strips = {
        ("normal", f64): (_normal_f64, _slow_normal, 1.0222),
        ("normal", f32): (_normal_f32, _slow_normal, 1.0223),
        ("exponential", f64): (_exponential_f64, _slow_exponential, 1.0336),
        ("exponential", f32): (_exponential_f32, _slow_exponential, 1.0338),
    }
    found = [
        Variate(
            f"{name}_{type_.name}",
            type_,
            1 if type_ is f64 else 2,
            expected,
            _ziggurat(strip_of),
            slow(strip_of, type_),
            has_table=True,
        )
        for (name, type_), (strip_of, slow, expected) in strips.items()
    ]
    for type_, pieces in ((u8, 8), (u16, 4), (u32, 2), (u64, 1)):
        word = u64 if type_ is u64 else u32
        found.append(Variate(f"lemire_{type_.name}", type_, pieces, 0, _lemire(type_), parameters=(word,) * 3))
    found.append(Variate("lemire_u32_as_u64", u64, 2, 0, _lemire_wide, parameters=(u32, u32, u64)))
    return found


VARIATES = {variate.name: variate for variate in _variates()}

__all__ = ["STRIPS", "TABLE_WORDS", "VARIATES", "Begun", "Outcome", "Strips", "Variate", "ziggurat_table"]
