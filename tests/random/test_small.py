"""Small draws: NumPy's numbers and errors, in few functions; larger ones are the device's as ever."""

# ruff: noqa: ARG005, NPY002 - cases of one signature, and the legacy generator is what is tested

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


def _shuffled(r, x):
    r.shuffle(x)
    return x


# Of numbers alone, of arrays, and what raises; ``m`` is the library.
LEGACY = [
    lambda r, m: r.rand(),
    lambda r, m: r.rand(3, 2),
    lambda r, m: r.rand(-1),
    lambda r, m: r.randn(),
    lambda r, m: r.randn(5),
    lambda r, m: r.random(4),
    lambda r, m: r.random(size=(2, 3)),
    lambda r, m: r.standard_normal(3),
    lambda r, m: r.randint(5),
    lambda r, m: r.randint(0, 9, 5),
    lambda r, m: r.randint(0, 9, size=(2, 2), dtype=np.uint8),
    lambda r, m: r.randint(9, 3),
    lambda r, m: r.uniform(-1, 1),
    lambda r, m: r.uniform(-1, 1, (2, 2)),
    lambda r, m: r.normal(0.0, 2.0, 3),
    lambda r, m: r.normal(0.0, -2.0),
    lambda r, m: r.uniform(m.arange(3.0), 4.0),
    lambda r, m: r.choice(5),
    lambda r, m: r.choice(5, 3),
    lambda r, m: r.choice(5, 3, False),
    lambda r, m: r.choice(m.arange(5.0)),
    lambda r, m: r.choice(m.arange(5.0), 3),
    lambda r, m: r.choice(m.arange(5.0), (2, 2)),
    lambda r, m: r.choice(m.arange(5.0), p=[0.2] * 5),
    lambda r, m: r.choice(0),
    lambda r, m: r.choice([1, 2, 3]),
    lambda r, m: r.choice(m.arange(6).reshape(2, 3)),
    lambda r, m: r.permutation(6),
    lambda r, m: r.permutation(-6),
    lambda r, m: r.permutation(m.arange(6.0)),
    lambda r, m: r.permutation(m.arange(6.0)[::2]),
    lambda r, m: r.permutation(m.arange(6).reshape(3, 2)),
    lambda r, m: _shuffled(r, m.arange(6)),
    lambda r, m: _shuffled(r, m.arange(12)[::2]),
    lambda r, m: _shuffled(r, m.arange(6).reshape(3, 2)),
    lambda r, m: _shuffled(r, [1, 2, 3]),
    lambda r, m: _shuffled(r, m.broadcast_to(m.arange(2), (3, 2))),
    lambda r, m: _shuffled(r, m.array([[1], {}, None], dtype=object)),
]
_COMMON = ["random", "uniform", "choice", "permutation", "shuffle"]


def _told(draw, *given):
    try:
        return draw(*given)
    except (TypeError, ValueError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("threshold", [0, 65536])
@pytest.mark.parametrize("kind", ["functions", "RandomState", "Generator"])
def test_small_draws_of_elements_and_of_the_legacy_generator_are_numpys(kind, threshold):
    draws = LEGACY
    if kind == "functions":
        ours, numpys = oxinp.random, np.random
    elif kind == "RandomState":
        ours, numpys = oxinp.random.RandomState(3), np.random.RandomState(3)
    else:
        ours, numpys = oxinp.random.default_rng(3), np.random.default_rng(3)
        draws = [draw for draw in LEGACY if {*draw.__code__.co_names} & {*_COMMON}]
        draws += [draw for draw in LEGACY if "_shuffled" in draw.__code__.co_names]
    with config.override(offload_threshold=threshold):
        for draw in draws:
            if kind == "functions":
                oxinp.random.seed(4)
            found = _told(draw, ours, oxinp)
            if kind == "functions":
                np.random.seed(4)
            assert_same(found, _told(draw, numpys, np), ulp=4)


def test_small_legacy_draws_enter_few_functions():
    with config.override(offload_threshold=65536):
        entered = []
        state = oxinp.random.RandomState(1)
        for draw in (oxinp.random.rand, lambda: oxinp.random.uniform(0, 1, 5), lambda: state.randint(0, 9), state.rand):
            draw()
            sys.setprofile(lambda frame, event, _: event == "call" and entered.append(frame.f_code))
            try:
                draw()
            finally:
                sys.setprofile(None)
            assert len([code for code in entered if "/oxinp/" in code.co_filename]) <= 3
            entered.clear()


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
            assert len([code for code in entered if "/oxinp/" in code.co_filename]) <= 3
            entered.clear()


def test_permutations_of_no_elements_are_numpys():
    for draw in (
        lambda xp, x: xp.random.RandomState(0).permutation(x),
        lambda xp, x: xp.random.permutation(x),
        lambda xp, x: xp.random.default_rng(0).permutation(x),
    ):
        for make in (
            lambda xp: xp.zeros(0),
            lambda xp: xp.zeros(4)[:0],
            lambda xp: xp.ones((), "f2")[None][:0],
            lambda xp: xp.zeros((4, 2))[:0],
            lambda xp: xp.zeros((2, 0)),
            lambda xp: xp.zeros(4)[1:],
        ):
            is_same = []
            for xp in (oxinp, np):
                given = make(xp)
                is_same.append(draw(xp, given) is given)
            assert is_same[0] == is_same[1]


def test_larger_draws_are_the_devices():
    with config.override(offload_threshold=65536):
        rng = oxinp.random.default_rng(1)
        launches = stats().launches
        oxinp.evaluate(rng.random(8192))
        assert stats().launches > launches
