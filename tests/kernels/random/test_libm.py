"""The logarithm of legacy streams is the C library's, bit for bit."""

import math

import numpy as np

from oxinp._kernels.plan import Launch
from oxinp._kernels.random.libm import log
from oxinp._ptx import Builder
from oxinp._ptx.types import f64
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


def test_logarithms_are_the_c_librarys():
    k = Builder("log", block=BLOCK)
    out, x = k.pointer("out", f64, "w"), k.pointer("x", f64, "r")
    at = k.ctaid * BLOCK + k.tid
    out[at] = log(k, x[at])
    session, numbers, found = Session(machine()), arguments(), np.zeros(SIZE)
    pointers = [session.pointer(found), session.pointer(numbers)]
    session.machine.launch(Launch(k.build(), (SIZE // BLOCK, 1, 1), (), ()), pointers)
    session.fetch([found])
    session.close()
    assert_same(found, np.array([math.log(number) for number in numbers]))
