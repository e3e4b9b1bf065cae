"""Elementary functions on the emulator: within their bound of the true value, special values as NumPy's, no spills."""

import re
from itertools import repeat

import numpy as np
import pytest

from oxinp._ptx import math
from oxinp._ptx.types import f16, f32, f64
from tests.ptx.elementary import BLOCK, FUNCTIONS, arguments, distance, distances32, exact_values
from tests.ptx.launch import launch

NAMES = [function.name for function in FUNCTIONS]
BOUND = 1.0
MOST_REGISTERS = 64
FRAME = re.compile(r"Function properties for (\w+)\s+(\d+) bytes stack frame, (\d+) bytes spill stores")
REGISTERS = re.compile(r"Used (\d+) registers")


def evaluate(function, type, *args):
    out = np.empty(len(args[0]), type.dtype)
    launch(function.kernel(type), out, *args, len(out), grid=-(-len(out) // BLOCK), memory=None)
    return out


def report(function, args, got, errors):
    worst = int(np.argmax(errors))
    return f"{function.name}({', '.join(repr(arg[worst]) for arg in args)}) = {got[worst]!r}: {errors[worst]} ulp"


def test_every_function_is_tested():
    assert sorted(NAMES) == sorted(math.__all__)


@pytest.mark.parametrize("function", FUNCTIONS, ids=NAMES)
@pytest.mark.parametrize("type", [f16, f32], ids=repr)
def test_single_precision(function, type):
    args = arguments(function, type.dtype, 2**15)
    got = evaluate(function, type, *args)
    errors = distances32(got, args, function)
    assert errors.max() <= BOUND, report(function, args, got, errors)


@pytest.mark.parametrize("function", FUNCTIONS, ids=NAMES)
def test_double_precision(function):
    args = arguments(function, np.float64, 800)
    got = evaluate(function, f64, *args)
    exact = exact_values(function, *args)
    errors = np.array(list(map(distance, got, exact, repeat(np.float64), function.unit(args))))
    assert errors.max() <= BOUND, report(function, args, got, errors)


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_assembles_without_spills(assembled, target):
    kernels = [function.kernel(type, target=target) for function in FUNCTIONS for type in (f16, f32, f64)]
    said = assembled(kernels)
    frames = {name: (int(frame), int(spills)) for name, frame, spills in FRAME.findall(said)}
    assert frames == {kernel.name: (0, 0) for kernel in kernels}
    registers = [int(count) for count in REGISTERS.findall(said)]
    assert len(registers) == len(kernels)
    assert max(registers) <= MOST_REGISTERS
