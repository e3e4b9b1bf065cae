"""What instructions mean, against Python's own integers and fractions: an oracle that shares nothing with NumPy."""
# ruff: noqa: ARG001, ARG005  (the meanings share one signature)

import math
import struct
from fractions import Fraction

import numpy as np
import pytest

from oxinp._ptx import fused, isa, reference
from oxinp._ptx.types import f16, f32, f64, i16, i32, i64, u16, u32, u64
from tests.comparator import assert_same
from tests.ptx.specimens import operands, shift_counts, specimens

INTEGERS = (i16, i32, i64, u16, u32, u64)
WORDS = (i32, i64, u32, u64)


def wrap(value, type):
    """The integer that `type` holds of the low bits of `value`."""
    value &= (1 << type.bits) - 1
    return value - (1 << type.bits) if type.kind == "i" and value >> (type.bits - 1) else value


def truncating_divide(a, b):
    """C's quotient; all bits set for a division by zero."""
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def unsigned(value, type):
    """The bits of an integer as a number."""
    return value & ((1 << type.bits) - 1)


def leading_one(value, type):
    """Position of the highest bit unlike the sign, or all ones."""
    magnitude = ~value if value < 0 else value
    return magnitude.bit_length() - 1


BINARY = {
    "add": lambda a, b, t: a + b,
    "sub": lambda a, b, t: a - b,
    "mul": lambda a, b, t: a * b,
    "div": lambda a, b, t: truncating_divide(a, b),
    "rem": lambda a, b, t: a - truncating_divide(a, b) * b if b else a,
    "mulhi": lambda a, b, t: a * b >> t.bits,
    "and_": lambda a, b, t: a & b,
    "or_": lambda a, b, t: a | b,
    "xor_": lambda a, b, t: a ^ b,
    "min": lambda a, b, t: min(a, b),
    "max": lambda a, b, t: max(a, b),
    "shl": lambda a, b, t: a << b,
    "shr": lambda a, b, t: a >> b,
}
UNARY = {
    "neg": lambda a, t: -a,
    "abs": lambda a, t: abs(a),
    "not_": lambda a, t: ~a,
    "popc": lambda a, t: unsigned(a, t).bit_count(),
    "clz": lambda a, t: t.bits - unsigned(a, t).bit_length(),
    "brev": lambda a, t: int(f"{unsigned(a, t):0{t.bits}b}"[::-1], 2),
    "bfind": leading_one,
}


def forms(names):
    """(name, type) of the integer rows that the table has."""
    return [(name, type) for name in names for type in INTEGERS if isa.find(name, (type,))]


@pytest.mark.parametrize(("name", "type"), forms(BINARY))
def test_binary_integer(name, type):
    op = isa.find(name, (type,))
    sources = operands(op)
    with np.errstate(all="ignore"):
        got = op.ref(*sources)
    wanted = [wrap(BINARY[name](int(a), int(b), type), type) for a, b in zip(*sources, strict=True)]
    assert_same(got, np.asarray(wanted, type.dtype))


@pytest.mark.parametrize(("name", "type"), forms(UNARY))
def test_unary_integer(name, type):
    op = isa.find(name, (type,))
    (source,) = operands(op)
    with np.errstate(all="ignore"):
        got = op.ref(source)
    out = op.dst[0]
    assert_same(got, np.asarray([wrap(UNARY[name](int(a), type), out) for a in source], out.dtype))


@pytest.mark.parametrize("type", [i16, i32, u16, u32])
def test_wide_products(type):
    a, b = specimens(type, 0), specimens(type, 1)
    products = [int(x) * int(y) for x, y in zip(a, b, strict=True)]
    wide = isa.find("mul_wide", (type,))
    assert_same(wide.ref(a, b), np.asarray(products, wide.dst[0].dtype))
    c = specimens(wide.dst[0], 2)
    with np.errstate(all="ignore"):
        got = isa.find("mad_wide", (type,)).ref(a, b, c)
    sums = [wrap(p + int(z), wide.dst[0]) for p, z in zip(products, c, strict=True)]
    assert_same(got, np.asarray(sums, wide.dst[0].dtype))


def test_funnel_shifts():
    low, high, count = specimens(u32, 0), specimens(u32, 1), shift_counts()
    words = [(int(h) << 32 | int(lo), int(c) & 31) for lo, h, c in zip(low, high, count, strict=True)]
    assert_same(
        isa.find("shf_l").ref(low, high, count), np.asarray([w << c >> 32 & 0xFFFFFFFF for w, c in words], "u4")
    )
    assert_same(isa.find("shf_r").ref(low, high, count), np.asarray([w >> c & 0xFFFFFFFF for w, c in words], "u4"))


def test_multiply_add_bytes():
    a, b, c = specimens(u32, 0), specimens(u32, 1), specimens(u32, 2)
    wanted = [
        (sum(x * y for x, y in zip(struct.pack("<I", a), struct.pack("<I", b), strict=True)) + c) % (1 << 32)
        for a, b, c in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    ]
    assert_same(isa.find("dp4a", (u32,)).ref(a, b, c), np.asarray(wanted, np.uint32))


def test_permute_bytes():
    a, b, selector = specimens(u32, 0), specimens(u32, 1), specimens(u32, 2)

    def permute(x, y, s):
        source = struct.pack("<II", x, y)
        picked = []
        for nibble in (s >> shift & 15 for shift in (0, 4, 8, 12)):
            byte = source[nibble & 7]
            picked.append((255 if byte & 128 else 0) if nibble & 8 else byte)
        return struct.unpack("<I", bytes(picked))[0]

    evaluate = isa.find("prmt").ref
    wanted = [permute(int(x), int(y), int(s)) for x, y, s in zip(a, b, selector, strict=True)]
    assert_same(evaluate(a, b, selector), np.asarray(wanted, np.uint32))
    # one selector for all lanes, and one word
    for i, s in enumerate(selector[:64].tolist()):
        one = selector[i : i + 1]
        assert_same(
            evaluate(a, b, one), np.asarray([permute(int(x), int(y), s) for x, y in zip(a, b, strict=True)], np.uint32)
        )
        assert_same(evaluate(a, b[:1], one), np.asarray([permute(int(x), int(b[0]), s) for x in a], np.uint32))


@pytest.mark.parametrize("type", [u32, u64])
def test_extract_bits(type):
    a, start, length = specimens(type), shift_counts(1), shift_counts(2)
    wanted = [int(x) >> int(s) & ((1 << int(n)) - 1) for x, s, n in zip(a, start, length, strict=True)]
    assert_same(isa.find("bfe", (type,)).ref(a, start, length), np.asarray(wanted, type.dtype))


# --------------------------------------------------------------------------------------------------------------
# floating point

FLOATS = {
    f16: (11, -24, 65504),
    f32: (24, -149, float(np.finfo(np.float32).max)),
    f64: (53, -1074, float(np.finfo("f8").max)),
}


def round_to(value, type):
    """A fraction rounded to nearest even in the type, as a Python float."""
    precision, lowest, largest = FLOATS[type]
    if value == 0:
        return 0.0
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - precision + 1, lowest)
    rounded = round(magnitude / unit) * unit  # Python rounds fractions to even
    result = float("inf") if rounded > Fraction(largest) else float(rounded)
    return -result if value < 0 else result


def test_round_to_is_what_floats_do():
    for value in specimens(f64):
        if np.isfinite(value):
            assert round_to(Fraction(float(value)), f64) == value
            with np.errstate(over="ignore", under="ignore"):
                assert round_to(Fraction(float(value)), f32) == float(np.float32(value))


def hard_triples(type):
    """Operands whose products nearly cancel the addend, that round near ties, and near both ends of the range."""
    rng = np.random.default_rng(5)
    num = 400
    precision, lowest, _ = FLOATS[type]
    a = (1 + rng.random(num)).astype(type.dtype)
    b = (1 + rng.random(num)).astype(type.dtype)
    tiny = np.ldexp(np.ones(num), rng.integers(-2 * precision, 3, num))
    with np.errstate(all="ignore"):
        cancel = (-(a * b)).astype(type.dtype)
        near = (rng.choice([-1, 1], num) * tiny).astype(type.dtype)
        small = np.ldexp(a, lowest // 2).astype(type.dtype)
        smaller = np.ldexp(b, lowest - lowest // 2 + 3).astype(type.dtype)
        large = np.ldexp(a, -(lowest + precision) // 2).astype(type.dtype)
        ties = (1 + rng.integers(0, 8, num) * np.finfo(type.dtype).eps).astype(type.dtype)
        # just below a tie above an odd addend: rounding in twice the precision first would meet the tie
        eps = np.finfo(type.dtype).eps
        beside = ((1 + rng.integers(1, 4, num) * eps) * eps / 2).astype(type.dtype)
        odd = (1 + (2 * rng.integers(0, 8, num) + 1) * eps).astype(type.dtype)
        below = np.full(num, 1 - eps, type.dtype)
        greatest = np.full(num, np.finfo(type.dtype).max)
    zeros = np.zeros_like(a)
    triples = [
        (a, b, cancel),
        (a, b, near),
        (small, smaller, near),
        (small, smaller, zeros),
        (large, large, a),
        (ties, ties, near),
        (beside, below, odd),
        (greatest, below, near),
        (greatest, ties, -greatest),
        (large, large, -large),
        (small, smaller, -small),
    ]
    triples.append(tuple(specimens(type, i, num) for i in range(3)))
    return [np.concatenate(column) for column in zip(*triples, strict=True)]


@pytest.mark.parametrize(("type", "has_instruction"), [(f16, True), (f32, True), (f64, True), (f64, False)], ids=str)
def test_fma_rounds_once(type, has_instruction, monkeypatch):
    if not has_instruction:
        monkeypatch.setattr(fused, "_function", lambda: None)
    a, b, c = hard_triples(type)
    with np.errstate(all="ignore"):
        got = reference.fma(a, b, c)
        plain = a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)
    assert got.dtype == type.dtype
    differs_from_two_roundings = 0
    for x, y, z, result, sloppy in zip(a, b, c, got, plain, strict=True):
        if not (np.isfinite(x) and np.isfinite(y) and np.isfinite(z)):
            assert np.isnan(result) == np.isnan(sloppy)
            assert np.isnan(sloppy) or float(result) == float(sloppy)
            continue
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        assert float(result) == round_to(exact, type), (x, y, z)
        if exact == 0:
            # a zero sum is +0 unless both addends are -0
            negative = math.copysign(1, float(x)) * math.copysign(1, float(y)) < 0 and math.copysign(1, float(z)) < 0
            is_zero_sum = float(z) == 0
            assert np.signbit(result) == (negative and is_zero_sum), (x, y, z)
        elif float(result) == 0:
            assert np.signbit(result) == (exact < 0)
        with np.errstate(all="ignore"):
            differs_from_two_roundings += (x * y + z) != result
    assert differs_from_two_roundings > 100


@pytest.mark.parametrize("type", [f16, f32, f64], ids=repr)
def test_minimum_and_maximum(type):
    a, b = specimens(type, 0), specimens(type, 1)
    for name, pick in (("min", min), ("max", max)):
        number = isa.find(name, (type,)).ref(a, b)
        propagating = (reference.minimum_nan if name == "min" else reference.maximum_nan)(a, b)
        for x, y, got, got_nan in zip(a, b, number, propagating, strict=True):
            if np.isnan(x) or np.isnan(y):
                assert np.isnan(got_nan)
                other = y if np.isnan(x) else x
                assert np.isnan(got) if np.isnan(other) else got == other
            else:
                # order zeros by their sign
                want = pick(x, y, key=lambda v: (v, not np.signbit(v)))
                assert got == want == got_nan
                assert np.signbit(got) == np.signbit(want) == np.signbit(got_nan)


@pytest.mark.parametrize("source", [f16, f32, f64], ids=repr)
@pytest.mark.parametrize("to", [i16, i32, i64, u16, u32, u64], ids=repr)
@pytest.mark.parametrize(
    ("rounding", "round_"),
    [
        ("rzi", math.trunc),
        ("rmi", math.floor),
        ("rpi", math.ceil),
        ("rni", round),
    ],
)
def test_float_to_integer_saturates(source, to, rounding, round_):
    info = np.iinfo(to.dtype)
    values = specimens(source)
    with np.errstate(all="ignore"):
        got = isa.find(f"cvt_{rounding}", (to, source)).ref(values)
    for value, result in zip(values, got, strict=True):
        if np.isnan(value):
            # PTX ISA, cvt: zero unless source or destination has 64 bits, then the top bit alone
            want = wrap(1 << (to.bits - 1), to) if source is f64 or to.bits == 64 else 0
        elif np.isinf(value):
            want = info.max if value > 0 else info.min
        else:
            want = min(max(round_(float(value)), info.min), info.max)
        assert int(result) == want, (value, to)


def test_bf16_rounds_to_nearest_even():
    values = specimens(f32)
    got = reference.bf16_to_f32(reference.f32_to_bf16(values))
    for value, result in zip(values, got, strict=True):
        if np.isnan(value):
            assert np.isnan(result)
        elif np.isfinite(value):
            exact = Fraction(float(value))
            if exact == 0:
                assert result == 0
                continue
            exponent = max(math.frexp(float(value))[1] - 8, -133)
            unit = Fraction(2) ** exponent
            want = round(exact / unit) * unit
            assert (np.isinf(result) and abs(want) >= Fraction(2) ** 128) or Fraction(float(result)) == want
