"""The logarithms and exponentials that draws go through are the C library's, bit for bit."""

import ctypes.util
import math

import numpy as np
import pytest

from oxinp._core.ops import c_library
from oxinp._kernels.plan import Launch
from oxinp._kernels.random import variates
from oxinp._kernels.random.libm import log
from oxinp._kernels.random.libm_exp import exp, exp_f32
from oxinp._kernels.random.libm_expm1 import expm1
from oxinp._kernels.random.libm_log1p import FORMS, FUSED, OWN, PLAIN, log1p
from oxinp._kernels.random.libm_pow import power
from oxinp._ptx import Builder
from oxinp._ptx.types import f32, f64
from tests.comparator import assert_same
from tests.kernels.machine import Session, machine

BLOCK, SIZE = 256, 256 * 100


def arguments():
    """Return numbers from 0 to 1, some close to either, and the ends of the interval that is near 1."""
    rng = np.random.default_rng(19)
    numbers = 1 - rng.random(SIZE)
    numbers[: SIZE // 4] = 1 - numbers[: SIZE // 4] * 2.0 ** -rng.integers(0, 53, SIZE // 4)
    numbers[SIZE // 4 : SIZE // 2] *= 2.0 ** -rng.integers(0, 110, SIZE // 4)
    ends = np.array([0.9375, 1.0, 1 + 1.03515625 / 16, 0.6875, 0.5])
    numbers[-15:] = np.concatenate([ends, np.nextafter(ends, 0), np.nextafter(ends, 2)])
    return np.where(numbers == 0, 0.5, numbers)


def of_numbers(function, numbers, type_=f64):
    """What a kernel makes of each number."""
    k = Builder("logarithm", block=BLOCK)
    out, x = k.pointer("out", type_, "w"), k.pointer("x", type_, "r")
    at = k.ctaid * BLOCK + k.tid
    out[at] = function(k, x[at])
    padded = np.resize(numbers, -(-numbers.size // BLOCK) * BLOCK)
    session, found = Session(machine()), np.zeros_like(padded)
    pointers = [session.pointer(found), session.pointer(padded)]
    session.machine.launch(Launch(k.build(), (padded.size // BLOCK, 1, 1), (), ()), pointers)
    session.fetch([found])
    session.close()
    return found[: numbers.size]


def test_logarithms_are_the_c_librarys():
    numbers = arguments()
    assert_same(of_numbers(log, numbers), np.array([math.log(number) for number in numbers]))


def test_exponentials_are_the_c_librarys():
    rng = np.random.default_rng(21)
    numbers = rng.standard_normal(SIZE)
    numbers[: SIZE // 4] *= 2.0 ** -rng.integers(0, 60, SIZE // 4)
    numbers[SIZE // 4 : SIZE // 2] *= 200
    numbers[-10:] = [0.0, -0.0, 512.0, -512.0, 511.9, -511.9, 707.9, -707.9, 1.0, -1.0]
    numbers = numbers[np.abs(numbers) < 708]
    assert_same(of_numbers(exp, numbers), np.array([math.exp(number) for number in numbers]))
    special = np.array([710.0, -746.0, np.inf, -np.inf, np.nan])
    assert_same(of_numbers(exp, special), np.array([np.inf, 0.0, np.inf, 0.0, np.nan]))


def test_exponentials_of_f32_are_the_c_librarys():
    expf = ctypes.CDLL(ctypes.util.find_library("m")).expf
    expf.argtypes, expf.restype = [ctypes.c_float], ctypes.c_float
    numbers = -np.random.default_rng(24).random(SIZE, "f4") * 8
    found = of_numbers(lambda k, x: exp_f32(k, k.cvt(x, f64)), numbers, f32)
    assert_same(found, np.array([expf(number) for number in numbers], "f4"))


@pytest.mark.parametrize("y", [1 / 1.5, 0.4, 2.0, 10.0, 1 / 3, 40.0, 1e-3, 1.0])
def test_powers_are_the_c_librarys(y):
    rng = np.random.default_rng(22)
    numbers = rng.standard_exponential(SIZE // 4)
    numbers[: SIZE // 8] = -np.expm1(-numbers[: SIZE // 8])
    numbers[-50:] *= 2.0 ** -np.arange(50)
    assert_same(
        of_numbers(lambda k, x: power(k, x, k.const(y, f64)), numbers), np.array([math.pow(x, y) for x in numbers])
    )
    special = np.array([0.0, np.inf, np.nan, 1.0])
    assert_same(of_numbers(lambda k, x: power(k, x, k.const(y, f64)), special), special**y)


@pytest.mark.parametrize("form", [FUSED, PLAIN])
def test_expm1_is_the_c_librarys(form):
    rng = np.random.default_rng(23)
    numbers = rng.standard_exponential(SIZE) * np.where(rng.random(SIZE) < 0.5, -1, 1)
    numbers[: SIZE // 4] *= 2.0 ** -rng.integers(0, 60, SIZE // 4)
    numbers[SIZE // 4 : SIZE // 2] *= 60
    ends = np.array([0.5, 1.5, 19.5, 20.5, 56.5, 57.0]) * np.log(2)
    numbers[-24:] = np.concatenate([ends, -ends, np.nextafter(ends, 0), -np.nextafter(ends, 9)])
    ours = of_numbers(lambda k, x: expm1(k, x, form), numbers)
    expected = np.array([math.expm1(number) for number in numbers])
    assert_same(ours, expected, ulp=int(form != c_library.form_of("expm1_f8")))
    special = np.array([0.0, -0.0, 800.0, -800.0, np.inf, -np.inf, np.nan])
    found = of_numbers(lambda k, x: expm1(k, x, form), special)
    assert_same(found, np.array([0.0, -0.0, np.inf, -1.0, np.inf, -1.0, np.nan]))


def uniforms(bits):
    """Return uniform numbers as integers, among them small and large ones, and close to where the reduction changes."""
    rng = np.random.default_rng(20)
    words = rng.integers(0, 1 << bits, SIZE)
    words[: SIZE // 4] >>= rng.integers(0, bits, SIZE // 4)
    words[SIZE // 4 : SIZE // 2] = (1 << bits) - 1 - words[: SIZE // 4]
    ends = np.array([0.2928932188, 0.5, 0.75, 0.6464466094, 0.875, 2.0**-20, 2.0**-29 if bits > 29 else 0.25])
    near = (ends * 2.0**bits).astype(np.int64)[:, None] + np.arange(-60, 60)
    words[-near.size :] = near.clip(0).ravel()
    return words


def test_those_of_f64_are_what_numpy_draws_with():
    form, words = c_library.form_of("log1p_f8"), uniforms(53)
    found = of_numbers(lambda k, x: -log1p(k, x, form), -(words * 2.0**-53))
    assert_same(found, c_library.drawn("log1p_f8", words), ulp=int(form == OWN))


def test_those_of_f32_are_what_numpy_draws_with():
    form, words = c_library.form_of("log1p_f4"), uniforms(24)
    radius = np.float32(variates.EXPONENTIAL_R)
    found = of_numbers(lambda k, x: radius - log1p(k, x, form), -(words * 2.0**-24).astype("f4"), f32)
    assert_same(found, c_library.drawn("log1p_f4", words), ulp=int(form == OWN))


@pytest.mark.parametrize(("type_", "form"), [(type_, form) for type_, forms in FORMS.items() for form in forms])
def test_every_form_is_told_from_the_others(type_, form, monkeypatch):
    """What tells forms apart are their own numbers: were NumPy's exponentials these, the form would be found."""
    kind, bits, base = ("f8", 53, 0.0) if type_ is f64 else ("f4", 24, np.float32(variates.EXPONENTIAL_R))
    words = np.array(c_library._PROBES[f"log1p_{kind}"].numbers)
    numbers = -(words * 2.0**-bits).astype(kind)
    given = of_numbers(lambda k, x: base - log1p(k, x, form), numbers, type_)
    monkeypatch.setattr(c_library, "drawn", lambda *_: given)
    assert c_library.form_of.__wrapped__(f"log1p_{kind}") == form


@pytest.mark.parametrize("form", FORMS[f64])
def test_every_form_of_expm1_is_told_from_the_others(form, monkeypatch):
    drawn = c_library.drawn
    probe = c_library._PROBES["expm1_f8"]
    exponentials = probe._replace(draw=lambda generator, count: generator.standard_exponential(count))
    monkeypatch.setitem(c_library._PROBES, "expm1_f8", exponentials)
    numbers = drawn("expm1_f8", probe.numbers)
    monkeypatch.setattr(c_library, "drawn", lambda *_: of_numbers(lambda k, x: expm1(k, x, form), numbers))
    assert c_library.form_of.__wrapped__("expm1_f8") == form
