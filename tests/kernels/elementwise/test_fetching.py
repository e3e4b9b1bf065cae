"""What later blocks read of wide elements is fetched into the cache: all of it, once, and nothing beside it."""

import numpy as np
import pytest

from oxinp._kernels.elementwise import linear
from oxinp._kernels.elementwise import plan as elementwise
from oxinp._kernels.plan import Launch
from oxinp._kernels.problem import Instr
from oxinp._ptx import math as ptx_math
from oxinp._ptx.kernel import traced_with
from oxinp._ptx.types import c128, f32, f64
from tests.comparator import assert_same
from tests.kernels.fetched import DEVICE, noted, times_fetched
from tests.kernels.machine import REQUIRE_GPU, TINY_DEVICE, Session, machine

SUM = Instr(lambda _, a, b: a + b, c128, (0, 1))


@pytest.fixture
def asked(monkeypatch):
    monkeypatch.setattr(elementwise, "MIN_TUNED_NBYTES", 1)
    yield noted(monkeypatch, linear)
    linear.make.cache_clear()


def run(device, inputs, instrs):
    """Compute the last value; return the result, where the inputs are, and the launch."""
    session, output = Session(machine(), device), np.empty_like(inputs[0])
    try:
        plan = session.elementwise(output.shape, inputs, instrs, [(len(inputs) + len(instrs) - 1, output)])
        (launch,) = [step for step in plan.steps if isinstance(step, Launch)]
        return output, [session.pointer(x) for x in inputs], launch
    finally:
        session.close()


@pytest.mark.skipif(REQUIRE_GPU, reason="nobody sees what a GPU fetches")
@pytest.mark.parametrize(
    ("name", "type_", "is_fetched"), [("sin", f64, True), ("exp", f64, False), ("sin", f32, False)]
)
def test_costly_functions(asked, name, type_, is_fetched):
    x = np.linspace(-9, 9, 20_000).astype(type_.dtype)
    _, (begin,), launch = run(DEVICE, [x], [Instr(getattr(ptx_math, name), type_, (0,))])
    spec = traced_with(launch.kernel)[0]
    each = linear.BLOCK * spec.unroll * spec.vector
    assert (spec.ahead > 0) == is_fetched
    times = times_fetched(asked, begin, x.nbytes)
    assert times.sum() == max(0, x.size // each - spec.ahead) * each * x.itemsize * is_fetched
    assert not is_fetched or asked


@pytest.mark.skipif(REQUIRE_GPU, reason="nobody sees what a GPU fetches")
@pytest.mark.parametrize("size", [1500, 4097, 6400])
def test_wide_elements(asked, size):
    rng = np.random.default_rng(size)
    x, y = (rng.standard_normal(size) + 1j * rng.standard_normal(size) for _ in range(2))
    found, places, launch = run(DEVICE, [x, y], [SUM])
    assert_same(found, x + y)
    spec = traced_with(launch.kernel)[0]
    each = linear.BLOCK * spec.unroll * spec.vector
    assert spec.ahead == linear.FETCHED_BLOCKS * DEVICE.num_sms
    for begin in places:
        own = [(address, nbytes) for address, nbytes in asked if begin <= address < begin + x.nbytes]
        times = times_fetched(own, begin, x.nbytes).reshape(-1, x.itemsize)
        assert (times[spec.ahead * each : size // each * each] == 1).all()
        assert times.sum() == max(0, size // each - spec.ahead) * each * x.itemsize
    assert size // each <= spec.ahead or asked


@pytest.mark.parametrize(
    ("type_", "has_function", "device"), [(f64, True, DEVICE), (c128, False, DEVICE), (c128, True, TINY_DEVICE)]
)
def test_nothing_is_fetched(asked, type_, has_function, device):
    inputs = [np.ones(6000, type_.dtype) for _ in range(1 + has_function)]
    *_, launch = run(device, inputs, [SUM.replace(type=type_)] if has_function else [])
    assert traced_with(launch.kernel)[0].ahead == 0
    assert not asked
