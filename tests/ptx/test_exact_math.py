"""The exact functions of the kernel language against NumPy's ufuncs, bit for bit, for every type of theirs."""

import itertools

import numpy as np
import pytest

from oxinp._ptx import Builder
from oxinp._ptx.math import choose, division, integers, parts
from oxinp._ptx.types import ALL, bf16, from_dtype, i32, i64
from tests.comparator import assert_same
from tests.ptx.launch import launch
from tests.ptx.specimens import specimens

NUM = 1024  # enough for every special value with every other
BLOCK = 256
INTEGERS = [type for type in ALL if type.is_integer]
FLOATS = [type for type in ALL if type.is_float and type is not bf16]

# (ufunc, which of its outputs, function, types)
OF_INTEGERS = [
    (np.floor_divide, 0, integers.floor_divide),
    (np.remainder, 0, integers.remainder),
    (np.fmod, 0, integers.fmod),
    (np.power, 0, integers.power),
    (np.gcd, 0, integers.gcd),
    (np.lcm, 0, integers.lcm),
    (np.left_shift, 0, integers.left_shift),
    (np.right_shift, 0, integers.right_shift),
    (np.bitwise_count, 0, integers.bitwise_count),
    (np.sign, 0, integers.sign),
    (np.reciprocal, 0, integers.reciprocal),
    (np.minimum, 0, choose.minimum),
    (np.maximum, 0, choose.maximum),
    (np._core.umath.clip, 0, choose.clip),
]
OF_FLOATS = [
    (np.floor_divide, 0, division.floor_divide),
    (np.remainder, 0, division.remainder),
    (np.fmod, 0, division.fmod),
    (np.rint, 0, parts.rint),
    (np.floor, 0, parts.floor),
    (np.ceil, 0, parts.ceil),
    (np.trunc, 0, parts.trunc),
    (np.sign, 0, parts.sign),
    (np.signbit, 0, parts.signbit),
    (np.copysign, 0, parts.copysign),
    (np.isnan, 0, parts.isnan),
    (np.isinf, 0, parts.isinf),
    (np.isfinite, 0, parts.isfinite),
    (np.heaviside, 0, parts.heaviside),
    (np.nextafter, 0, parts.nextafter),
    (np.spacing, 0, parts.spacing),
    (np.frexp, 0, parts.frexp_mantissa),
    (np.frexp, 1, parts.frexp_exponent),
    (np.modf, 0, parts.modf_fraction),
    (np.modf, 1, parts.trunc),
    (np.minimum, 0, choose.minimum),
    (np.maximum, 0, choose.maximum),
    (np.fmin, 0, choose.fmin),
    (np.fmax, 0, choose.fmax),
    (np._core.umath.clip, 0, choose.clip),
]
CASES = [
    pytest.param(ufunc, output, function, type, id=f"{ufunc.__name__}-{output}-{type}")
    for cases, types in ((OF_INTEGERS, INTEGERS), (OF_FLOATS, FLOATS))
    for ufunc, output, function in cases
    for type in types
]


def kernel_of(function, out_type, types, name="function"):
    """Return the kernel that applies a function to one element per thread."""
    k = Builder(name, block=BLOCK)
    out = k.pointer("out", out_type, "w")
    inputs = [k.pointer(f"in{i}", type, "r") for i, type in enumerate(types)]
    n = k.ctaid * BLOCK + k.tid
    out[n] = function(k, *[pointer[n] for pointer in inputs])
    return k.build()


def compute(function, out_type, *arrays):
    """Run one function over arrays."""
    result = np.zeros(NUM, out_type.dtype)
    kernel = kernel_of(function, out_type, [from_dtype(array.dtype) for array in arrays])
    launch(kernel, result, *arrays, grid=NUM // BLOCK)
    return result


def test_every_function_assembles(assembled):
    kernels = []
    for case in CASES:
        ufunc, output, function, type = case.values
        dtypes = ufunc.resolve_dtypes((type.dtype,) * ufunc.nin + (None,) * ufunc.nout)
        out_type = from_dtype(dtypes[ufunc.nin + output])
        name = f"{ufunc.__name__}_{output}_{type}"
        kernels.append(kernel_of(function, out_type, [type] * ufunc.nin, name))
    for type, exponent in itertools.product(FLOATS, (i32, i64)):
        kernels.append(kernel_of(parts.ldexp, type, [type, exponent], f"ldexp_{type}_{exponent}"))
    said = assembled(kernels)
    assert said.count("Compiling entry function") == len(kernels)
    assert "spill stores" not in said.replace("0 bytes spill stores", "")


def operands(ufunc, type):
    """Special values of one operand against those of the others, and random bits."""
    arrays = [specimens(type, seed, NUM) for seed in range(ufunc.nin)]
    if ufunc.nin > 1:  # every special value with every other
        special = np.unique(specimens(type, 0, NUM)[: NUM // 2])
        for i, array in enumerate(arrays):
            shift = len(special) ** i
            picked = special[(np.arange(NUM // 2) // shift) % len(special)]
            array[NUM // 2 :][::2] = picked[: NUM // 4]
    if ufunc is np.power:
        arrays[1] = np.abs(arrays[1] >> 1) if type.kind == "i" else arrays[1]
    if ufunc in (np.left_shift, np.right_shift):
        arrays[1] = (arrays[1] % 80).astype(type.dtype)
    return arrays


@pytest.mark.parametrize(("ufunc", "output", "function", "type"), CASES)
def test_same_as_numpy(ufunc, output, function, type):
    arrays = operands(ufunc, type)
    with np.errstate(all="ignore"):
        wanted = ufunc(*arrays)
    wanted = wanted[output] if ufunc.nout > 1 else wanted
    if ufunc in (np.fmin, np.fmax):  # of +0 and -0 NumPy gives whichever its vector width meets first
        arrays = [np.abs(array) for array in arrays]
        wanted = np.abs(ufunc(*arrays))
    given = compute(function, from_dtype(wanted.dtype), *arrays)
    assert_same(given, wanted)


@pytest.mark.parametrize("exponent", [np.int32, np.int64])
@pytest.mark.parametrize("type", FLOATS, ids=repr)
def test_ldexp(type, exponent):
    mantissas = specimens(type, 0, NUM)
    exponents = np.random.default_rng(1).integers(-2200, 2200, NUM).astype(exponent)
    exponents[::3] = np.random.default_rng(2).integers(-80, 80, NUM)[::3]
    exponents[1::5] //= 16
    exponents[:4] = [np.iinfo(exponent).min, np.iinfo(exponent).max, 0, 1]
    with np.errstate(all="ignore"):
        wanted = np.ldexp(mantissas, exponents)
    assert_same(compute(parts.ldexp, type, mantissas, exponents), wanted)


@pytest.mark.parametrize("type", FLOATS, ids=repr)
def test_clip_between_constants(type):
    values = specimens(type, 0, NUM)
    for low, high in ((0.0, 1.0), (-1.0, -0.0), (np.nan, 1.0), (0.0, np.nan), (2.0, 1.0), (-np.inf, np.inf)):
        low, high = type.dtype.type(low), type.dtype.type(high)  # noqa: PLW2901
        given = compute(choose.clip_between_constants, type, values, np.full(NUM, low), np.full(NUM, high))
        assert_same(given, np.clip(values, low, high))


@pytest.mark.parametrize("function", [division.fmod, division.remainder, division.floor_divide])
@pytest.mark.parametrize("type", FLOATS, ids=repr)
def test_quotients_of_every_size(function, type):
    rng = np.random.default_rng(3)
    info = np.finfo(type.dtype)
    spread = rng.uniform(info.minexp - info.nmant, info.maxexp, (2, NUM))
    a, b = (np.ldexp(rng.uniform(-1, 1, NUM), part.astype(int)).astype(type.dtype) for part in spread)
    b[::4] = (a[::4] / rng.integers(1, 1 << 20, NUM)[::4]).astype(type.dtype)  # nearly whole quotients
    b[b == 0] = info.smallest_subnormal
    with np.errstate(all="ignore"):
        wanted = getattr(np, function.__name__)(a, b)
    assert_same(compute(function, type, a, b), wanted)
