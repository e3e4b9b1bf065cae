"""Floating-point flags: instructions that also tell which exceptions an element raises, as IEEE 754 and NumPy have it.

A flagging instruction takes one more operand, a claim: the address of two words in device memory, and above it, in the
upper bits, which claim this is. The first word has the flags that have been raised so far, the second is the address of
a report in the host's memory. Per element the instruction costs a comparison and a branch that is hardly ever taken:
only a result that is infinite or NaN (or tiny, where underflow counts) is looked at again. Whatever is found there is
compared with the first word, so that kernels in which every element divides by zero do not cross the bus for each.

In a report of flags, the first word is the claim, and in the second each byte that is not 0 is a flag.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import reduce
from operator import and_, or_
from typing import Any, NamedTuple

import numpy as np

from oxinp._kernels.plan import REPORT_ADDRESS_BITS
from oxinp._ptx.types import Type, f16, f32, pred, u8, u32, u64

DIVIDE, OVER, UNDER, INVALID = 1, 2, 4, 8
INFINITE, NAN = 16, 32
"""Flags of what a reduction reads, which say that its result may be infinite or NaN."""
NUM_FLAGS = 6


def _pointer(k: Any, address: Any, type_: Type, space: str, access: str) -> Any:
    # Which only who compiles pays for.
    return importlib.import_module("oxinp._ptx.memory").Pointer(k, address, type_, space, access)


Found = list[tuple[int, Any]]  # flags, and the predicate that raises them


class Rule(NamedTuple):
    """Which elements of an operation raise which flags.

    Of floats a result that is NaN is invalid where no operand is; one that is infinite has overflowed where all
    operands are finite, unless it is a pole, which is a division by zero.

    Attributes
    ----------
    pole : callable or None
        (builder, *operands) -> predicate.
    tiny : callable or None
        (builder, result, *operands) -> whether a result below the smallest normal number is inexact.
    over : int
        Flags of a result that overflows, but for f16.
    more : callable or None
        (builder, *operands) -> flags that operands raise whose results are infinite or NaN, but for NaN operands.
    integers : callable or None
        (builder, *operands) -> the same of operands that are integers.
    kinds : str
        Of the dtypes of loops in which this holds.
    may_grow : bool
        Only the first operand has to be finite for an infinite result to have overflowed.
    """

    pole: Callable[..., Any] | None = None
    tiny: Callable[..., Any] | None = None
    over: int = OVER
    more: Callable[..., Found] | None = None
    integers: Callable[..., Found] | None = None
    kinds: str = "fc"
    may_grow: bool = False


def flagging(lower: Callable[..., Any], rule: Rule, kinds: int, *, is_masked: bool) -> Callable[..., Any]:
    """Return an instruction's lowering that also raises flags.

    Parameters
    ----------
    lower : callable
        (builder, *operands) -> value.
    rule : Rule
    kinds : int
        The flags that count.
    is_masked : bool
        Behind the operands there is a truth value: whether the element counts. Behind that there is the claim.
    """

    def flagged(k: Any, *values: Any) -> Any:
        *operands, claim = values
        mask = operands.pop() if is_masked else None
        result = lower(k, *operands)
        if _parts(result) or any(_parts(x) for x in operands):
            _flag_floats(k, rule, kinds, result, operands, mask, claim)
        elif rule.integers is not None:
            _raise(k, rule.integers(k, *operands), kinds, mask, claim)
        return result

    flagged.__name__ = lower.__name__
    flagged.is_flagging = True  # type: ignore[attr-defined]
    return flagged


def _parts(value: Any) -> list[Any]:
    """Return the real numbers that a value is made of; none of an integer."""
    if value.type.kind == "c":
        return [value.real, value.imag]
    return [value] if value.type.kind == "f" else []


def _wide(k: Any, value: Any) -> Any:
    return k.cast(value, f32) if value.type is f16 else value


def mark_operand(k: Any, value: Any, claim: Any) -> Any:
    """Return an element that is reduced, and flag what is infinite or NaN."""
    _flag_special(k, value, claim, INFINITE, NAN)
    return value


def judge_result(k: Any, value: Any, claim: Any) -> Any:
    """Return the result of a reduction, and flag what is infinite or NaN."""
    _flag_special(k, value, claim, OVER, INVALID)
    return value


mark_operand.is_flagging = judge_result.is_flagging = True  # type: ignore[attr-defined]


def _flag_special(k: Any, value: Any, claim: Any, infinite: int, nan: int) -> None:
    parts = [_wide(k, x) for x in _parts(value)]
    suspect = _any([~(abs(x) < np.inf) for x in parts])
    with k.when(suspect):
        is_nan = _any([k.isnan(x) for x in parts])
        _raise(k, [(nan, is_nan), (infinite, ~is_nan)], nan | infinite, None, claim)


def _flag_floats(k: Any, rule: Rule, kinds: int, result: Any, operands: list[Any], mask: Any, claim: Any) -> None:
    results = [_wide(k, x) for x in _parts(result)]
    is_cast = rule is CASTS and result.type.kind != "c"  # of complex numbers, the real part is
    given = [[_wide(k, x) for x in _parts(operand)[: 1 if is_cast else None]] for operand in operands]
    reals = [x for parts in given for x in parts]
    own = [parts[0] for parts in given if len(parts) == 1]
    suspect = _any([~(abs(x) < np.inf) for x in results]) if results else None
    if suspect is None:  # a cast to integers
        if kinds & INVALID:
            is_beyond = _is_beyond(own[0], result.type)
            with k.when(is_beyond if mask is None else is_beyond & mask):
                _raise(k, [(INVALID, is_beyond)], kinds, None, claim)
        return
    counts_tiny = bool(kinds & UNDER) and rule.tiny is not None and len(results) == 1 and result.type is not f16
    if counts_tiny:
        suspect |= abs(results[0]) < _least(result)
    with k.when(suspect if mask is None else suspect & mask):
        are_numbers = _all(k, [~k.isnan(x) for x in reals])
        are_finite = _all(k, [abs(x) < np.inf for x in (given[0] if rule.may_grow else reals)])
        is_nan = _any([k.isnan(x) for x in results]) & are_numbers
        is_infinite = _any([abs(x) == np.inf for x in results]) & are_finite
        found: Found = [(INVALID, is_nan)]
        over = OVER if result.type is f16 else rule.over
        if rule.pole is None:
            found.append((over, is_infinite))
        else:
            is_pole = rule.pole(k, *(own or given))
            found += [(DIVIDE, is_infinite & is_pole), (over, is_infinite & ~is_pole)]
        if rule.more is not None:
            found += [(flags, raised & are_numbers) for flags, raised in rule.more(k, *own)]
        if counts_tiny:
            assert rule.tiny is not None
            is_tiny = abs(results[0]) < _least(result)
            found.append((UNDER, is_tiny & are_finite & rule.tiny(k, results[0], *own)))
        _raise(k, found, kinds, None, claim)


def _least(value: Any) -> Any:
    """The smallest normal number of a value's type."""
    return float(np.finfo(value.type.dtype).tiny)


def _is_beyond(value: Any, type_: Type) -> Any:
    """Whether a float is one that x86-64 takes for no integer of a type: narrow ones are converted by way of i32."""
    bits = max(type_.bits, 32)
    low, high = -(2.0 ** (bits - 1)), 2.0 ** (bits - (type_.kind == "i" or type_.bits < bits))
    is_above = value >= low if value.type.bits == 32 or bits == 64 else value > low - 1
    return ~(is_above & (value < high))


def _any(predicates: list[Any]) -> Any:
    return reduce(or_, predicates)


def _all(k: Any, predicates: list[Any]) -> Any:
    return reduce(and_, predicates) if predicates else k.const(value=True, type=pred)


def _raise(k: Any, found: Found, kinds: int, mask: Any, claim: Any) -> None:
    """Report the flags whose predicates hold, as far as they count and have not been reported."""
    found = [(flags & kinds, raised) for flags, raised in found if flags & kinds]
    if not found:
        return
    none = k.const(0, u32)
    bits = reduce(or_, [k.where(raised, k.const(flags, u32), none) for flags, raised in found])
    if mask is not None:
        bits = k.where(mask, bits, none)
    with k.when(bits != 0):
        words = _pointer(k, claim & ((1 << REPORT_ADDRESS_BITS) - 1), u64, "global", "rw")
        flags = words.view(u32)
        (seen,) = flags.load(0, order="relaxed.gpu")
        with k.when((seen & bits) != bits):
            before = flags.atomic("or", 0, bits)
            news = bits & ~before
            with k.when(news != 0):
                (address,) = words.load(1)
                report = _pointer(k, address, u64, "global", "w")
                for i in range(NUM_FLAGS):
                    if 1 << i & kinds:
                        with k.when((news & (1 << i)) != 0):
                            report.view(u8).store(8 + i, [k.const(1, u8)], order="relaxed.sys")
                report.store(0, [claim], order="relaxed.sys")


# -- what is inexact below the smallest normal number ------------------------------------------------------------------

_SCALES = {32: 87, 64: 600}  # powers of two that take what is tiny to where products and their errors are normal


def product_is_inexact(k: Any, result: Any, a: Any, b: Any) -> Any:
    """Return whether a tiny product has been rounded: the smaller factor, scaled, gives the same digits if not."""
    scale = 2.0 ** _SCALES[result.type.bits]
    is_first = abs(a) > abs(b)
    large, small = k.where(is_first, a, b), k.where(is_first, b, a) * scale
    product = large * small
    is_rounded = (result * scale != product) | (k.fma(large, small, -product) != 0)
    return is_rounded | ((result == 0) & (a != 0) & (b != 0))


def square_is_inexact(k: Any, result: Any, a: Any) -> Any:
    """Return whether a tiny square has been rounded."""
    return product_is_inexact(k, result, a, a)


def quotient_is_inexact(k: Any, result: Any, a: Any, b: Any) -> Any:
    """Return whether a tiny quotient has been rounded: the dividend, scaled, gives the same digits if not."""
    scale = 2.0 ** _SCALES[result.type.bits]
    quotient = a * scale / b
    is_rounded = (result * scale != quotient) | (k.fma(quotient, b, -(a * scale)) != 0)
    return is_rounded | ((result == 0) & (a != 0))


def reciprocal_is_inexact(k: Any, result: Any, a: Any) -> Any:
    """Return whether a tiny reciprocal has been rounded."""
    return quotient_is_inexact(k, result, k.const(1.0, a.type), a)


def is_inexact(k: Any, result: Any, *operands: Any) -> Any:
    """Return that the tiny values of a function, all but few, are rounded."""
    del result
    return _all(k, [x != 0 for x in operands])


def _is_another(k: Any, result: Any, a: Any) -> Any:
    return k.cast(result, a.type) != a


CASTS = Rule(tiny=_is_another)
"""Of casts, to integers as well."""

NOTHING = Rule(over=0)
"""Of what raises nothing itself, but that its result may be cast."""
