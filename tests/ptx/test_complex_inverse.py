"""Inverse functions and powers of complex numbers: both parts against mpmath, special values against NumPy."""

from functools import partial

import mpmath
import numpy as np
import pytest

from oxinp._ptx import Builder, isa
from oxinp._ptx.math import complex as complex_math
from oxinp._ptx.math import complex_inverse
from oxinp._ptx.math.complex_power import power
from oxinp._ptx.types import c64, c128
from tests.ptx.elementary import off_by
from tests.ptx.test_compound import apply, specials

INVERSE = {
    "arcsin": mpmath.asin,
    "arccos": mpmath.acos,
    "arctan": mpmath.atan,
    "arcsinh": mpmath.asinh,
    "arccosh": mpmath.acosh,
    "arctanh": mpmath.atanh,
}
TYPES = pytest.mark.parametrize("type_", [pytest.param(c64, marks=pytest.mark.slow), c128], ids=repr)
NUM = 512
BOUND = 6.0


def points(type_, seed=0):
    """Numbers of all sizes, around 1 and next to the points where branch cuts begin, and on the unit circle."""
    rng = np.random.default_rng(seed)
    digits = 12 if type_ is c64 else 40

    def sizes(low, high, num):
        return 10.0 ** rng.uniform(low, high, num) * rng.choice([1, -1], num)

    z = sizes(-digits, digits / 2, NUM) + 1j * sizes(-digits, digits / 2, NUM)
    z[::4] = rng.uniform(-3, 3, NUM // 4) + 1j * rng.uniform(-3, 3, NUM // 4)
    near = rng.choice([1, -1], NUM // 8) * (1 + sizes(-15, -1, NUM // 8))
    z[1::8] = near + 1j * sizes(-20, 0, NUM // 8)
    z[2::8] = sizes(-20, 0, NUM // 8) + 1j * near
    z[3::16] = np.exp(1j * rng.uniform(-4, 4, NUM // 16))
    return z.astype(type_.dtype)


def exactly(z):
    return mpmath.mpc(float(z.real), float(z.imag))


def ulp_of(exact, info):
    exponent = max(int(mpmath.floor(mpmath.log(abs(exact), 2))), info.minexp)
    return mpmath.mpf(2) ** (exponent - info.nmant)


def distance(part, exact, unit):
    """How far a part is off, in units of the last place of `unit`."""
    return float(abs(mpmath.mpf(float(part)) - exact) / unit) if np.isfinite(part) else np.inf


@TYPES
@pytest.mark.parametrize("name", INVERSE)
def test_both_parts_of_inverse_functions(name, type_):
    z, info = points(type_), np.finfo(type_.dtype)
    with mpmath.workprec(300):
        for argument, value in zip(z, apply(getattr(complex_inverse, name), type_, z), strict=True):
            exact = INVERSE[name](exactly(argument))
            for part, true in ((value.real, exact.real), (value.imag, exact.imag)):
                assert true == part == 0 or distance(part, true, ulp_of(true, info)) <= BOUND, (argument, value, exact)


@pytest.mark.parametrize("factor", [-1, 1], ids=["below", "above"])
@pytest.mark.parametrize("type_", [c64, c128], ids=repr)
def test_bits_of_approximations_do_not_matter(type_, factor, monkeypatch):
    """The hardware's differ from the emulator's, within what PTX says of them."""
    part = type_.parts[0]
    error = {c64: 2.0**-22.9, c128: 2.0**-20}[type_]
    for name in ("rcp_approx", "rsqrt_approx_ftz"):
        op = isa.find(name, (part,))
        monkeypatch.setitem(isa._OPS, (name, (part,)), op.replace(ref=partial(off_by, op.ref, factor * error)))
    z, info = np.resize(points(type_, 5)[::2], 256), np.finfo(type_.dtype)
    with mpmath.workprec(300):
        for name in ("arcsin", "arccosh", "arctanh"):
            for argument, value in zip(z, apply(getattr(complex_inverse, name), type_, z), strict=True):
                exact = INVERSE[name](exactly(argument))
                for part, true in ((value.real, exact.real), (value.imag, exact.imag)):
                    assert true == part == 0 or distance(part, true, ulp_of(true, info)) <= BOUND, (name, argument)


def same_parts(ours, numpys, rtol):
    """Where parts agree, with the signs of zeros and infinities."""
    agree = np.isclose(ours, numpys, rtol=rtol, atol=0, equal_nan=True)
    return agree & ((np.signbit(ours) == np.signbit(numpys)) | np.isnan(numpys))


@TYPES
@pytest.mark.parametrize("name", INVERSE)
def test_special_values_are_numpys(name, type_):
    z = np.resize(specials(type_), 256)
    given = apply(getattr(complex_inverse, name), type_, z)
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(z)
    same = same_parts(given.real, wanted.real, 1e-5) & same_parts(given.imag, wanted.imag, 1e-5)
    assert same.all(), [(z[i], given[i], wanted[i]) for i in np.flatnonzero(~same)[:6]]


@TYPES
def test_ends_of_the_range(type_):
    info = np.finfo(type_.dtype)
    ends = np.array([info.max, info.max / 2, info.tiny, info.smallest_subnormal, np.sqrt(info.max), 1.0])
    z = np.empty(36, type_.dtype)
    z.real, z.imag = np.repeat(ends, 6), np.tile(ends, 6)
    z = np.resize(z, 256)
    with mpmath.workprec(3000 if type_ is c128 else 600):
        for name, function in INVERSE.items():
            given = apply(getattr(complex_inverse, name), type_, z)
            for argument, value in zip(z[:36], given, strict=False):
                exact = function(exactly(argument))
                for part, true in ((value.real, exact.real), (value.imag, exact.imag)):
                    assert true == part == 0 or distance(part, true, ulp_of(true, info)) <= BOUND, (name, argument)


@TYPES
@pytest.mark.parametrize(("name", "bound"), [("exp2", 5), ("expm1", 5), ("log1p", 4)])
def test_next_to_exponentials_and_logarithms(name, bound, type_):
    """In units of the larger part."""
    info = np.finfo(type_.dtype)
    z = points(type_, 4)
    if name != "log1p":
        limit = 100 if type_ is c64 else 740
        z = z[(np.abs(z.real) < limit) & (np.abs(z.imag) < 2e3)]
        z = np.resize(z, NUM)
        z[::9] = z[::9].imag + 1j * z[::9].real
        z[1::9] = np.linspace(-limit, limit, z[1::9].size) + 1j
    functions = {"exp2": lambda w: mpmath.power(2, w), "expm1": mpmath.expm1, "log1p": mpmath.log1p}
    with mpmath.workprec(600):
        for argument, value in zip(z, apply(getattr(complex_math, name), type_, z), strict=True):
            exact = functions[name](exactly(argument))
            larger = max(abs(exact.real), abs(exact.imag))
            if larger < mpmath.mpf(2) ** info.maxexp:
                for part, true in ((value.real, exact.real), (value.imag, exact.imag)):
                    assert distance(part, true, ulp_of(larger, info)) <= bound, (argument, value, exact)


@TYPES
def test_powers(type_):
    rng, info = np.random.default_rng(1), np.finfo(type_.dtype)
    a = points(type_, 2)
    scale = 10.0 ** rng.uniform(-3, 1.5, NUM)
    b = (scale * (rng.standard_normal(NUM) + 1j * rng.standard_normal(NUM))).astype(type_.dtype)
    b[::5] = b[::5].real
    b[1::7] = rng.integers(100, 130, b[1::7].size) * rng.choice([1, -1], b[1::7].size)
    b[2::9] = 1j * b[2::9].imag
    count = 0
    with mpmath.workprec(300):
        for base, exponent, value in zip(a, b, apply(power, type_, a, b), strict=True):
            exact = mpmath.power(exactly(base), exactly(exponent))
            larger = max(abs(exact.real), abs(exact.imag))
            if not mpmath.mpf(2) ** info.minexp < larger < mpmath.mpf(2) ** (info.maxexp - 1):
                continue
            count += 1
            unit = ulp_of(larger, info)
            for part, true in ((value.real, exact.real), (value.imag, exact.imag)):
                assert distance(part, true, unit) <= BOUND, (base, exponent, value, exact)
    assert count > NUM // 2


@TYPES
def test_small_integer_powers_are_numpys(type_):
    a = points(type_, 3)
    b = np.resize(np.arange(-99, 100), NUM).astype(type_.dtype)
    with np.errstate(all="ignore"):
        wanted = np.power(a, b)
    assert np.array_equal(apply(power, type_, a, b), wanted, equal_nan=True)


@TYPES
def test_special_powers_are_numpys(type_):
    parts = np.array([0, -0.0, 1, -1, 0.5, 3, np.inf, -np.inf, np.nan])
    z = np.empty(81, type_.dtype)
    z.real, z.imag = np.repeat(parts, 9), np.tile(parts, 9)
    a, b = (np.resize(x.ravel(), 26 * 256) for x in np.meshgrid(z, z))
    given = apply(power, type_, a, b)
    with np.errstate(all="ignore"):
        wanted = np.power(a, b)
    # Beside a part that is not 0 NumPy's other one may be a rounding error, for which ours has 0.
    size = np.where(np.isfinite(wanted), np.abs(wanted), 0) * (2e-6 if type_ is c64 else 1e-13)
    for ours, numpys in ((given.real, wanted.real), (given.imag, wanted.imag)):
        wrong = ~same_parts(ours, numpys, 1e-4) & ~((np.abs(ours) < size) & (np.abs(numpys) < size) & (numpys != 0))
        assert not wrong.any(), [(a[i], b[i], given[i], wanted[i]) for i in np.flatnonzero(wrong)[:6]]


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_assembles(assembled, target):
    kernels = []
    for type_ in (c64, c128):
        for name in (*INVERSE, "power"):
            k = Builder(f"{name}_{type_.name}", target=target)
            out, x, y = k.pointer("out", type_, "w"), k.pointer("x", type_, "r"), k.pointer("y", type_, "r")
            function = getattr(complex_inverse, name, None)
            out[k.tid] = power(k, x[k.tid], y[k.tid]) if function is None else function(k, x[k.tid])
            kernels.append(k.build())
    assembled(kernels)
