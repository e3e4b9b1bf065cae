"""Elementary functions on the emulator: within their bound of the true value, special values as NumPy's, no spills."""

import re
from functools import partial
from itertools import repeat

import numpy as np
import pytest

from oxinp._ptx import isa, math
from oxinp._ptx.types import f16, f32, f64
from tests.ptx.elementary import BLOCK, FUNCTIONS, arguments, distance, distances32, exact_values, off_by
from tests.ptx.launch import launch
from tests.thinned import thinned

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
@pytest.mark.parametrize("count", [2**12, pytest.param(2**15, marks=pytest.mark.slow)])
def test_single_precision(function, type, count):
    args = arguments(function, type.dtype, count)
    got = evaluate(function, type, *args)
    errors = distances32(got, args, function)
    assert errors.max() <= BOUND, report(function, args, got, errors)


@pytest.mark.parametrize("function", FUNCTIONS, ids=NAMES)
@pytest.mark.parametrize("count", [300, pytest.param(800, marks=pytest.mark.slow)])
def test_double_precision(function, count):
    args = arguments(function, np.float64, count)
    got = evaluate(function, f64, *args)
    exact = exact_values(function, *args)
    errors = np.array(list(map(distance, got, exact, repeat(np.float64), function.unit(args))))
    assert errors.max() <= BOUND, report(function, args, got, errors)


@pytest.mark.parametrize(
    ("function", "factor"), thinned(FUNCTIONS, [-1, 1]), ids=lambda each: getattr(each, "name", each)
)
def test_bits_of_approximate_reciprocals_do_not_matter(function, factor, monkeypatch):
    """The hardware's differ from the emulator's, within what PTX says of them."""
    if not any("rcp.approx" in function.kernel(type).ptx for type in (f32, f64)):
        return  # it takes none: the other tests are enough
    for type, error in ((f32, 2.0**-23), (f64, 2.0**-20)):
        op = isa.find("rcp_approx", (type,))
        off = op.replace(ref=partial(off_by, op.ref, factor * error))
        monkeypatch.setitem(isa._OPS, ("rcp_approx", (type,)), off)
    args = arguments(function, np.float32, 2**12)
    got = evaluate(function, f32, *args)
    errors = distances32(got, args, function)
    assert errors.max() <= BOUND, report(function, args, got, errors)
    args = arguments(function, np.float64, 100)
    got = evaluate(function, f64, *args)
    exact = exact_values(function, *args)
    errors = np.array(list(map(distance, got, exact, repeat(np.float64), function.unit(args))))
    assert errors.max() <= BOUND, report(function, args, got, errors)


@pytest.mark.parametrize("function", FUNCTIONS, ids=NAMES)
def test_single_precision_stays_single(function):
    instructions = re.findall(
        r"^\t(?:cvt|add|sub|mul|fma|div|sqrt|rcp)\S*f64\b", function.kernel(f32).ptx, re.MULTILINE
    )
    # the long way of large angles alone rounds 64 bits through f64
    assert len(instructions) == (6 if function.name in {"sin", "cos", "tan"} else 0)


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_assembles_without_spills(assembled, target):
    kernels = [function.kernel(type, target=target) for function in FUNCTIONS for type in (f16, f32, f64)]
    said = assembled(kernels)
    frames = {name: (int(frame), int(spills)) for name, frame, spills in FRAME.findall(said)}
    assert frames == {kernel.name: (0, 0) for kernel in kernels}
    registers = [int(count) for count in REGISTERS.findall(said)]
    assert len(registers) == len(kernels)
    assert max(registers) <= MOST_REGISTERS
