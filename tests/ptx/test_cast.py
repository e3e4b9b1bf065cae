"""Casts of the language against NumPy's, over special values and random bits."""

import numpy as np
import pytest

from oxinp._ptx import Builder
from oxinp._ptx.types import ALL, bf16, f16, f32, f64, i8, i16, i32, i64, pred, u32, u64
from tests.comparator import assert_same
from tests.ptx.launch import launch
from tests.ptx.specimens import NUM_LANES, specimens

TYPES = [type for type in ALL if type is not bf16]


def cast_on_device(values, source, to):
    """Run one cast over an array."""
    k = Builder("cast", block=NUM_LANES)
    out, x = k.pointer("out", to, "w"), k.pointer("x", source, "r")
    out[k.tid] = k.cast(x[k.tid], to)
    result = np.zeros(NUM_LANES, to.dtype)
    launch(k.build(), result, values)
    return result


@pytest.mark.parametrize("to", TYPES, ids=repr)
@pytest.mark.parametrize("source", TYPES, ids=repr)
def test_same_as_numpy(source, to):
    values = specimens(source)
    if source.is_float and to is u32:
        # NumPy's own scalar and vector loops differ outside this range
        wide = values.astype(np.float64)
        values = np.where((wide >= -(2.0**31)) & (wide < 2.0**32), values, values.dtype.type(1))
    with np.errstate(all="ignore"):
        wanted = values.astype(to.dtype)
    assert_same(cast_on_device(values, source, to), wanted)


@pytest.mark.parametrize("source", [f32, f64], ids=repr)
@pytest.mark.parametrize(("to", "lowest"), [(i32, -(2**31)), (i64, -(2**63))], ids=repr)
def test_out_of_range_is_the_lowest_integer(source, to, lowest):
    values = np.full(NUM_LANES, np.nan, source.dtype)
    values[:5] = [np.inf, -np.inf, 1e30, -1e30, 2.0 ** (to.bits - 1)]
    assert_same(cast_on_device(values, source, to), np.full(NUM_LANES, lowest, to.dtype))


def test_u64_above_the_signed_range():
    values = np.linspace(2.0**62, 2.0**64 - 2**12, NUM_LANES)
    assert_same(cast_on_device(values, f64, u64), values.astype(np.uint64))


@pytest.mark.parametrize("type", [f16, f32, f64, i8, i16, i64, pred], ids=repr)
def test_bf16_goes_through_f32(type):
    values = specimens(type)
    with np.errstate(all="ignore"):
        rounded = cast_on_device(values.astype(np.float32), f32, bf16)
    assert_same(cast_on_device(values, type, bf16), rounded)
    with np.errstate(all="ignore"):
        back = (rounded.astype(np.uint32) << 16).view(np.float32).astype(type.dtype)
    assert_same(cast_on_device(rounded, bf16, type), back)


def test_raw_conversion_saturates():
    k = Builder("cvt", block=NUM_LANES)
    out, x = k.pointer("out", i32, "w"), k.pointer("x", f32, "r")
    out[k.tid] = k.cvt(x[k.tid], i32, "rzi")
    values = np.full(NUM_LANES, np.nan, np.float32)
    values[:3] = [np.inf, -1e20, 2.9]
    result = np.zeros(NUM_LANES, np.int32)
    launch(k.build(), result, values)
    assert result[:4].tolist() == [2**31 - 1, -(2**31), 2, 0]


@pytest.mark.parametrize(
    ("rounding", "numpys"), [("rni", np.rint), ("rmi", np.floor), ("rpi", np.ceil), ("rzi", np.trunc)]
)
def test_rounding_to_integral_floats(rounding, numpys):
    k = Builder("round", block=NUM_LANES)
    out, x = k.pointer("out", f64, "w"), k.pointer("x", f64, "r")
    out[k.tid] = k.cvt(x[k.tid], f64, rounding)
    values = specimens(f64)
    result = np.zeros_like(values)
    launch(k.build(), result, values)
    assert_same(result, numpys(values))


CONSTANTS = [0.1, -0.1, 1 / 3, 1.0, -0.0, 1e-40, 65504.0, 3.4e38, 1e300, -1e300, float("inf"), float("nan")]
# Halfway between two bf16, of which the even one is the lower and the upper; and a little above halfway.
CONSTANTS += [1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-20]


@pytest.mark.parametrize("constant", CONSTANTS)
def test_bf16_constants_are_rounded_as_casts_round(constant):
    k = Builder("constant", block=NUM_LANES)
    k.pointer("out", bf16, "w")[k.tid] = constant
    result = np.zeros(NUM_LANES, bf16.dtype)
    launch(k.build(), result)
    with np.errstate(over="ignore"):
        values = np.full(NUM_LANES, constant).astype(np.float32)
    assert_same(result, cast_on_device(values, f32, bf16))
