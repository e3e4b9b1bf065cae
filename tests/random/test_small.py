"""Small draws: NumPy's numbers and errors, in few functions; larger ones are the device's as ever."""

import sys

import numpy as np
import pytest

import oxinp
from oxinp import config
from oxinp.cuda import stats
from tests.comparator import assert_same

DRAWS = [
    lambda r: r.random(),
    lambda r: r.random(7),
    lambda r: r.random((2, 3)),
    lambda r: r.random(size=4, dtype=np.float32),
    lambda r: r.random(0),
    lambda r: r.random(-1),
    lambda r: r.random((2, -1)),
    lambda r: r.random("x"),
    lambda r: r.random([2, 3]),
    lambda r: r.random(3, 4, 5, 6),
    lambda r: r.integers(9),
    lambda r: r.integers(0, 9, 5),
    lambda r: r.integers(0, 9, size=(2, 2), dtype=np.uint8),
    lambda r: r.integers(9, 3),
    lambda r: r.normal(),
    lambda r: r.normal(1.0, 2.0, 5),
    lambda r: r.normal((1.0, 2.0), 2.0),
    lambda r: r.normal(size=(2,)),
    lambda r: r.normal(0, -1),
    lambda r: r.uniform(1, 2, (2, 2)),
    lambda r: r.exponential(2.0),
    lambda r: r.standard_normal(3),
    lambda r: r.standard_exponential(3, method="inv"),
    lambda r: r.poisson(3.0, 4),
    lambda r: r.standard_normal(out=None),
]


@pytest.mark.parametrize("threshold", [0, 65536])
def test_small_draws_are_numpys(threshold):
    def told(draw, generator):
        try:
            return draw(generator)
        except (TypeError, ValueError) as error:
            return type(error)

    with config.override(offload_threshold=threshold):
        ours, numpys = oxinp.random.default_rng(5), np.random.default_rng(5)
        for _ in range(2):
            for draw in DRAWS:
                assert_same(told(draw, ours), told(draw, numpys), ulp=4)
            assert_same(ours.random(20_000), numpys.random(20_000))  # on the device: the next ones follow


def test_small_draws_enter_few_functions():
    with config.override(offload_threshold=65536):
        rng, entered = oxinp.random.default_rng(1), []
        for draw in (lambda: rng.random(50), lambda: rng.normal(0.0, 1.0, 50), lambda: rng.integers(0, 9), rng.random):
            draw()
            sys.setprofile(lambda frame, event, _: event == "call" and entered.append(frame.f_code))
            try:
                draw()
            finally:
                sys.setprofile(None)
            assert len([code for code in entered if "/oxinp/" in code.co_filename]) <= 2
            entered.clear()


def test_larger_draws_are_the_devices():
    with config.override(offload_threshold=65536):
        rng = oxinp.random.default_rng(1)
        launches = stats().launches
        oxinp.evaluate(rng.random(8192))
        assert stats().launches > launches
