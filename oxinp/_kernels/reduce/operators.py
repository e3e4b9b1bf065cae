"""Reduction operators whose accumulators have several parts: compensated sums, moments, extrema with their index.

Accumulators are tuples of registers (`types.compound`); the function that returns an operator says what they hold.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from oxinp._kernels.problem import Element, ReduceOp
from oxinp._kernels.reduce.accumulate import tree
from oxinp._ptx.math.parts import ldexp
from oxinp._ptx.types import Compound, Type, c64, c128, compound, f32, f64, i32, i64, u32, u64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value

LAST = (1 << 63) - 1  # the index of no element
NUM_CHAINS = 4  # of dependent additions over a batch


def add(k: Builder, a: Value, b: Value) -> Value:
    """The sum."""
    del k
    return a + b


def _counting(k: Builder, elements: Sequence[Element], type: Type, identity: complex = 0) -> list[Any]:
    """The elements' values, 0 for those that do not count."""
    zero = k.const(identity, type)
    values = [k.cast(element.value, type) for element in elements]
    return [v if e.is_valid is None else k.where(e.is_valid, v, zero) for v, e in zip(values, elements, strict=True)]


def _count(k: Builder, elements: Sequence[Element]) -> Value:
    """How many elements count, f64."""
    flags = [element.is_valid for element in elements if element.is_valid is not None]
    if not flags:
        return k.const(len(elements), f64)
    number = tree(k, add, [k.cast(flag, i32) for flag in flags])
    return k.cast(number + (len(elements) - len(flags)), f64)


# -- sums --------------------------------------------------------------------------------------------------------------


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """The rounded sum of two floats and its rounding error (Knuth, TAOCP 2, 4.2.2)."""
    total = a + b
    seen = total - a
    return total, (a - (total - seen)) + (b - seen)


def settled(k: Builder, total: Any, error: Any) -> Any:
    """The sum of a rounded sum and its error; after an infinity the error is NaN, and the sum what IEEE says."""
    return k.where(k.abs(error) > 0, total + error, total)  # a sum of -0 without an error stays one


@cache
def compensated_sum(type: Type, *, starts: bool = False) -> ReduceOp:
    """Return the sum of floats or complex numbers, for which only the first few additions of a thread round.

    Parameters
    ----------
    type : Type
        In which elements are added.
    starts : bool
        Whether there is a value to start from: the sum of nothing is then -0, which keeps the sign of any zero.

    Notes
    -----
    The accumulator is, per part, a sum and its error. What a thread has at hand is added in a tree, without errors;
    from there on every addition keeps its own.
    """
    acc = compound(*[part for part in type.parts for _ in range(2)])
    nothing = -0.0 if starts else 0
    zero = complex(nothing, nothing) if starts and type.is_complex else nothing

    def gather(k: Builder, elements: Sequence[Element]) -> Value:
        total = tree(k, add, _counting(k, elements, type, zero))
        return k.compound(acc, *[x for part in total.parts for x in (part, k.const(0, part.type))])

    def lift(k: Builder, value: Value) -> Value:
        parts = k.cast(value, type).parts
        return k.compound(acc, *[x for part in parts for x in (part, k.const(0, part.type))])

    def finish(k: Builder, total: Value) -> Value:
        parts = [settled(k, s, e) for s, e in _pairs(total)]
        return k.compound(type, *parts) if type.is_complex else parts[0]

    return ReduceOp("sum", acc, (nothing, 0) * len(type.parts), _combine_sums, lift, gather, finish)


def starting(op: ReduceOp) -> ReduceOp:
    """Return what an operator is where there is a value to start from."""
    plain = {compensated_sum(type): type for type in (f32, f64, c64, c128)}
    return compensated_sum(plain[op], starts=True) if op in plain else op


def _combine_sums(k: Builder, a: Value, b: Value) -> Value:
    parts: list[Value] = []
    for (s, e), (t, f) in zip(_pairs(a), _pairs(b), strict=True):
        total, error = two_sum(s, t)
        parts += [total, e + f + error]
    return k.compound(a.type, *parts)


def _pairs(value: Value) -> Any:
    return zip(value.parts[::2], value.parts[1::2], strict=True)


# -- products ----------------------------------------------------------------------------------------------------------

FARTHEST = 1 << 29  # of exponents: sums of two are below 2**31
FORMATS = {f32: (u32, 23, 127), f64: (u64, 52, 1023)}  # of its bits: their type, those of the fraction, the bias


@cache
def product(type: Type) -> ReduceOp:
    """Return the product of f32 or f64, which neither overflows nor vanishes on the way.

    Notes
    -----
    The accumulator is a fraction from 1 to below 2, or what has none (zeros, infinities, NaN), and an exponent.
    """
    word, digits, bias = FORMATS[type]
    acc = compound(type, i32)
    exponent_bits = (2 * bias + 1) << digits

    def split(k: Builder, value: Any, exponent: Any) -> Value:
        bits = k.bitcast(value, word)
        field = k.cast((bits >> digits) & (2 * bias + 1), i32)
        is_ordinary = k.abs(value) < float("inf")
        is_ordinary = is_ordinary & (field != 0)
        fraction = k.bitcast((bits & (exponent_bits ^ ((1 << word.bits) - 1))) | (bias << digits), type)
        exponent = k.max(k.min(exponent, FARTHEST), -FARTHEST) + k.where(is_ordinary, field - bias, k.const(0, i32))
        return k.compound(acc, k.where(is_ordinary, fraction, value), exponent)

    def lift(k: Builder, value: Value) -> Value:
        value = k.cast(value, type)
        is_small = k.abs(value) < 2.0 ** (1 - bias)
        scaled = k.where(is_small, value * 2.0 ** (digits + 1), value)
        return split(k, scaled, k.where(is_small, k.const(-(digits + 1), i32), k.const(0, i32)))

    def combine(k: Builder, a: Value, b: Value) -> Value:
        (fraction, exponent), (other, other_exponent) = a.parts, b.parts
        return split(k, fraction * other, exponent + other_exponent)

    def finish(k: Builder, total: Value) -> Value:
        value: Value = ldexp(k, *total.parts)
        return value

    return ReduceOp("prod", acc, (1.0, 0), combine, lift, None, finish)


# -- scans -------------------------------------------------------------------------------------------------------------


_SUMMED_IN: dict[Type, tuple[Type, Type]] = {
    compound(*[part for part in type_.parts for _ in range(2)]): (type_, wide)
    for type_, wide in ((f32, f64), (c64, c128))
}


@cache
def _cast_to(type: Type) -> Any:
    def finish(k: Builder, total: Value) -> Value:
        return k.cast(total, type)

    return finish


@cache
def scannable(op: ReduceOp) -> ReduceOp:
    """Return `op` with an identity that combines exactly, as a scan needs it: zeros keep their signs, infinities stay.

    Sums of floats begin with -0; products of complex numbers with nothing, which their accumulator says. Those of f32
    are added in f64, where fewer instructions lose less than with errors kept beside.
    """
    acc = op.acc
    if acc in _SUMMED_IN:
        type_, wide = _SUMMED_IN[acc]
        return ReduceOp("sum", wide, -0.0 if wide is f64 else complex(-0.0, -0.0), add, None, None, _cast_to(type_))
    if isinstance(acc, Compound) and not acc.is_complex and op.name == "sum":
        return op.replace(identity=(-0.0, 0.0) * (len(acc.parts) // 2))
    if not acc.is_complex or op.name != "prod":
        return op
    flagged = compound(*acc.parts, i32)

    def lift(k: Builder, value: Value) -> Value:
        return k.compound(flagged, *k.cast(value, acc).parts, k.const(1, i32))

    def combine(k: Builder, a: Value, b: Value) -> Value:
        first, second = (k.compound(acc, *x.parts[:-1]) for x in (a, b))
        joined = op.combine(k, first, second)
        (*_, has_first), (*_, has_second) = a.parts, b.parts
        value = k.where(has_first == 0, second, k.where(has_second == 0, first, joined))
        return k.compound(flagged, *value.parts, has_first | has_second)

    def finish(k: Builder, total: Value) -> Value:
        return k.compound(acc, *total.parts[:-1])

    return ReduceOp(op.name, flagged, (1.0, 0.0, 0), combine, lift, None, finish)


@cache
def mean(type: Type, *, is_masked: bool) -> ReduceOp:
    """Return the mean of floats or complex numbers: a compensated sum, divided in f64.

    Parameters
    ----------
    type : Type
        In which elements are added.
    is_masked : bool
        How many elements count is counted; else it is the parameter.
    """
    plain = compensated_sum(type)
    assert plain.gather is not None
    sums_of = plain.gather

    def divided(k: Builder, total: Value, count: Value) -> Any:
        parts = [settled(k, k.cast(s, f64), k.cast(e, f64)) for s, e in _pairs(total)]
        if not type.is_complex:
            return parts[0] / count
        real, imag = parts
        scale = 1.0 / count  # NumPy divides by a complex count: infinities meet its zero
        return k.compound(c128, (real + imag * 0.0) * scale, (imag - real * 0.0) * scale)

    if not is_masked:
        return ReduceOp(
            "mean", plain.acc, plain.identity, _combine_sums, gather=sums_of, finish=divided, num_parameters=1
        )
    acc = compound(*plain.acc.parts, f64)

    def gather(k: Builder, elements: Sequence[Element]) -> Value:
        return k.compound(acc, *sums_of(k, elements).parts, _count(k, elements))

    def combine(k: Builder, a: Value, b: Value) -> Value:
        sums = [k.compound(plain.acc, *x.parts[:-1]) for x in (a, b)]
        return k.compound(acc, *_combine_sums(k, *sums).parts, a.parts[-1] + b.parts[-1])

    def finish(k: Builder, total: Value) -> Value:
        value: Value = divided(k, k.compound(plain.acc, *total.parts[:-1]), total.parts[-1])
        return value

    return ReduceOp("mean", acc, (*plain.identity, 0), combine, gather=gather, finish=finish)


@cache
def narrow_sum(acc: Type) -> ReduceOp:
    """Return the sum of integers of at most 16 bits, or of predicates: in 32 bits as far as a thread's batch goes."""

    def gather(k: Builder, elements: Sequence[Element]) -> Value:
        return k.cast(tree(k, add, _counting(k, elements, i32)), acc)

    return ReduceOp("sum", acc, 0, add, gather=gather)


# -- moments -----------------------------------------------------------------------------------------------------------


@cache
def moments(finish: Any, num_parts: int = 1) -> ReduceOp:
    """Return the reduction to count, mean and sum of squared deviations, of floats or complex numbers.

    Parameters
    ----------
    finish : callable
        ``finish(k, count, squares, parameter)``, all f64.
    num_parts : int
        2 for complex numbers, whose squares are those of both parts.

    Notes
    -----
    The accumulator is (count, squares), then for each part (mean, the mean's rounding error); all f64. A thread's batch
    is in registers: its rounded mean comes first, then the deviations from that, which are exact or nearly so, their
    sum and the sum of their squares; all in the elements' own precision. Batches are joined in f64. Nothing cancels,
    wherever the mean lies: the relative error is that of adding squares.

    Source: T. F. Chan, G. H. Golub, R. J. LeVeque, Algorithms for computing the sample variance, The American
    Statistician 37 (1983).
    """
    acc = compound(*(f64,) * (2 + 2 * num_parts))

    def gather(k: Builder, elements: Sequence[Element]) -> Value:
        number = _count(k, elements)
        parts = [[Element(e.value.parts[i], None, e.is_valid) for e in elements] for i in range(num_parts)]
        found = [_moments_of(k, part, number) for part in parts]
        squares = tree(k, add, [each[2] for each in found])
        return k.compound(acc, number, squares, *[x for each in found for x in each[:2]])

    def combine(k: Builder, a: Value, b: Value) -> Value:
        (count, squares, *means), (other_count, other_squares, *other_means) = a.parts, b.parts
        whole = count + other_count
        share = other_count / k.max(whole, 1.0)
        squares = squares + other_squares
        # From nothing the other mean is taken as it is: the way there would round off its error.
        is_empty = count == 0
        means = [k.where(is_empty, other, own) for other, own in zip(other_means, means, strict=True)]
        joined: list[Value] = []
        for i in range(0, len(means), 2):
            apart = (other_means[i] - means[i]) + (other_means[i + 1] - means[i + 1])
            joined += two_sum(means[i], means[i + 1] + apart * share)
            squares = squares + apart * apart * (count * share)
        return k.compound(acc, whole, squares, *joined)

    def finished(k: Builder, total: Value, parameter: Value) -> Value:
        value: Value = finish(k, *total.parts[:2], parameter)
        return value

    zeros = (0.0,) * len(acc.parts)
    return ReduceOp("moments", acc, zeros, combine, gather=gather, finish=finished, num_parameters=1)


def _moments_of(k: Builder, elements: Sequence[Element], number: Value) -> tuple[Value, Value, Value]:
    """The rounded mean of a batch of which `number` elements count, its error, and the sum of squared deviations."""
    type_ = f64 if elements[0].value.type is f64 else f32
    values = _counting(k, elements, type_)
    is_masked = any(element.is_valid is not None for element in elements)
    size = len(values)
    share = 1.0 / k.max(number, 1.0) if is_masked else k.const(1.0 / size, f64)
    mean_ = values[0]
    if size > 1:  # the sum of shares, which does not overflow where the elements do not
        mean_ = _dot(k, values, [k.const(1.0 / size, type_)] * size)
        if is_masked:
            mean_ = mean_ * k.cast(share * float(size), type_)
    zero = k.const(0, type_)
    apart = [v - mean_ for v in values]
    apart = [d if e.is_valid is None else k.where(e.is_valid, d, zero) for d, e in zip(apart, elements, strict=True)]
    total = k.cast(tree(k, add, apart), f64)
    error = total * share
    squares = k.cast(_dot(k, apart, apart), f64) - total * error
    return k.cast(mean_, f64), error, k.where(squares < 0, k.const(0, f64), squares)  # NaN stays


def _dot(k: Builder, a: list[Any], b: list[Any]) -> Any:
    """The sum of products, in a few chains of fused multiplications and additions."""
    sums = [x * y for x, y in zip(a[:NUM_CHAINS], b[:NUM_CHAINS], strict=True)]
    for i in range(NUM_CHAINS, len(a)):
        sums[i % NUM_CHAINS] = k.fma(a[i], b[i], sums[i % NUM_CHAINS])
    return tree(k, add, sums)


# -- extrema -----------------------------------------------------------------------------------------------------------


BYTES_PER_WORD = 4
MAX_BYTES_AT_ONCE = 128  # as many loads of 16 bytes in flight as of wider elements
EVEN_BYTES = 0x00FF00FF
SIGN_BITS = 0x80808080


@cache
def extremum_of_bytes(type: Type, lowest: int, *, is_max: bool) -> ReduceOp:
    """Return the largest or smallest of one-byte integers, found two at a time.

    Parameters
    ----------
    type : Type
    lowest : int
        What no element is beyond, in the wrong direction.
    is_max : bool

    Notes
    -----
    Bytes in the halves of a word are f16 below 2**-16, which are ordered as their bits are, and for which there are
    instructions on two halves. Signed bytes get there by a flipped sign bit. The accumulator is such a word.
    """
    sign = SIGN_BITS if type.kind == "i" else 0
    neutral = ((lowest + 128 if sign else lowest) & 0xFF) * 0x10001

    def halves(word: Value) -> tuple[Value, Value]:
        shifted = word >> 8
        if sign:  # of each half: with the choice of bits this is one instruction
            word, shifted = word ^ sign, shifted ^ sign
        return word & EVEN_BYTES, shifted & EVEN_BYTES

    def better(k: Builder, a: Value, b: Value) -> Value:
        best: Value = k.emit("max_f16x2" if is_max else "min_f16x2", a, b)
        return best

    def lift(k: Builder, value: Value) -> Value:
        return better(k, *halves(k.join_word([k.cast(value, type)] * BYTES_PER_WORD, type)))

    def gather(k: Builder, elements: Sequence[Element]) -> Value:
        worst = k.const(lowest, type)
        values = [e.value if e.is_valid is None else k.where(e.is_valid, e.value, worst) for e in elements]
        values += [worst] * (-len(values) % BYTES_PER_WORD)
        words = [k.join_word(values[i : i + 4], type) for i in range(0, len(values), BYTES_PER_WORD)]
        best: Value = tree(k, better, [half for word in words for half in halves(word)])
        return best

    def finish(k: Builder, total: Value) -> Value:
        word = better(k, total, total >> 16)
        return k.cast(word ^ sign if sign else word, type)

    name = "max" if is_max else "min"
    return ReduceOp(name, u32, neutral, better, lift, gather, finish, batch=MAX_BYTES_AT_ONCE)


@cache
def extremum_at(type: Type, lowest: complex, *, is_max: bool) -> ReduceOp:
    """Return the reduction to the first index of the largest or smallest element; of the first NaN if there is one.

    Parameters
    ----------
    type : Type
        Of the elements; what is compared has at least 32 bits.
    lowest : int, float or complex
        What no element is beyond, in the wrong direction.
    is_max : bool

    Notes
    -----
    The accumulator is an element and its index.
    """
    wide = type if type.is_complex or type.bits >= 32 else f32 if type.is_float else i32
    acc = compound(*wide.parts, i64)
    lowest_parts = (lowest.real, lowest.imag) if wide.is_complex else (lowest,)

    def better(k: Builder, a: Any, b: Any) -> Any:
        if not wide.is_float:  # complex numbers: the first of NaN
            return k.max(a, b) if is_max else k.min(a, b)
        return k.max_nan(a, b) if is_max else k.min_nan(a, b)

    def same(k: Builder, a: Value, best: Value) -> Any:
        equal = k.compare("eq", a, best)
        return equal | k.isnan(a) if wide.is_float or wide.is_complex else equal

    def gather(k: Builder, elements: Sequence[Element]) -> Value:
        worst = k.const(lowest, wide)
        values = [k.cast(element.value, wide) for element in elements]
        flags = [element.is_valid for element in elements]
        values = [v if flag is None else k.where(flag, v, worst) for v, flag in zip(values, flags, strict=True)]
        best = tree(k, better, values)
        found = None
        for value, flag, element in zip(values, flags, elements, strict=True):
            index = element.index
            is_best = same(k, value, best) if flag is None else same(k, value, best) & flag
            none = k.const(LAST if index.type is i64 else (1 << 31) - 1, index.type)
            candidate = k.where(is_best, index, none)
            found = candidate if found is None else k.min(found, candidate)
        assert found is not None
        if found.type is not i64:
            none = k.const(LAST, i64)
            found = k.where(found == (1 << 31) - 1, none, k.cast(found, i64))
        return k.compound(acc, *best.parts, found)

    def parts_of(k: Builder, total: Value) -> tuple[Value, Value]:
        *parts, index = total.parts
        return k.compound(wide, *parts) if wide.is_complex else parts[0], index

    def combine(k: Builder, a: Value, b: Value) -> Value:
        (value, index), (other, other_index) = parts_of(k, a), parts_of(k, b)
        best = better(k, value, other)
        none = k.const(LAST, i64)
        own = k.where(same(k, value, best), index, none)
        return k.compound(acc, *best.parts, k.min(own, k.where(same(k, other, best), other_index, none)))

    def finish(k: Builder, total: Value) -> Value:
        del k
        return total.parts[-1]

    return ReduceOp(
        "argmax" if is_max else "argmin",
        acc,
        (*lowest_parts, LAST),
        combine,
        gather=gather,
        finish=finish,
        wants_index=True,
    )
