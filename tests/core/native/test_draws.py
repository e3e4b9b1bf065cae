"""Small draws of random numbers in machine code: NumPy's numbers and errors, and the generator's lock is free again."""

import sys
import threading

import numpy as np
import pytest

import oxinp
from oxinp import config
from oxinp._core.native import objects
from tests.comparator import assert_same
from tests.random.test_small import DRAWS, LEGACY

pytestmark = [
    pytest.mark.skipif(objects.VECTORCALL is None, reason="this Python calls functions in another way"),
    pytest.mark.usefixtures("written"),
]

MORE = [
    lambda r: r.normal(size=3),
    lambda r: r.normal(0, 1, 2**13),
    lambda r: r.normal(0, 1, size=(2**10, 2**10, 0)),
    lambda r: r.normal(0, 1, True),
    lambda r: r.normal(0, 1, np.int64(3)),
    lambda r: r.normal(0, 1, (np.int64(3), 2)),
    lambda r: r.normal(0, 1, ()),
    lambda r: r.normal(0, 1, 2.0),
    lambda r: r.normal(0, 1, size=2.0),
    lambda r: r.normal(2**70, 1, 2),
    lambda r: r.normal(loc=3, scale=2, size=2),
    lambda r: r.normal(0, 1, 2, 3),
    lambda r: r.normal(0, 1, None),
    lambda r: r.uniform(-5, 5, (2, 3)),
    lambda r: r.exponential(1.0),
    lambda r: r.exponential(-1.0),
    lambda r: r.exponential(wrong=1.0),
]
_OF_GENERATORS = [
    lambda r: r.integers(0, 5),
    lambda r: r.integers(-5, 2**40, 3),
    lambda r: r.integers(5, endpoint=True),
]


def _told(draw, *given):
    try:
        return draw(*given)
    except (TypeError, ValueError) as error:
        return type(error)


def _generators(kind):
    if kind == "Generator":
        return oxinp.random.default_rng(3), np.random.default_rng(3)
    if kind == "RandomState":
        return oxinp.random.RandomState(3), np.random.RandomState(3)
    oxinp.random.seed(3)
    return oxinp.random, np.random.RandomState(3)


@pytest.mark.parametrize("threshold", [0, 65536])
@pytest.mark.parametrize("kind", ["functions", "RandomState", "Generator"])
def test_draws_are_numpys(kind, threshold):
    draws = MORE + (DRAWS + _OF_GENERATORS if kind == "Generator" else [])
    with config.override(offload_threshold=threshold):
        ours, numpys = _generators(kind)
        for _ in range(3):
            for draw in draws:
                assert_same(_told(draw, ours), _told(draw, numpys), ulp=4)
        if kind != "Generator":
            for draw in LEGACY:
                assert_same(_told(draw, ours, oxinp), _told(draw, numpys, np), ulp=4)


def test_what_follows_a_draw_on_the_device():
    with config.override(offload_threshold=65536):
        ours, numpys = oxinp.random.default_rng(5), np.random.default_rng(5)
        for _ in range(3):
            assert_same(ours.random(20_000), numpys.random(20_000))
            assert ours.random() == numpys.random()
            assert_same(ours.random(3), numpys.random(3))


def test_errors_leave_the_generator_to_others():
    ours = oxinp.random.default_rng(5)
    for _ in range(3):
        with pytest.raises(ValueError, match="scale < 0"):
            ours.normal(0.0, -1.0)
    found = []
    thread = threading.Thread(target=lambda: found.append(ours.random()))
    thread.start()
    thread.join(10)
    assert found == [np.random.default_rng(5).random()]


def test_a_generator_that_another_thread_holds_is_waited_for():
    ours, is_held, is_over = oxinp.random.default_rng(5), threading.Event(), threading.Event()

    def hold():
        with ours._mutex:
            is_held.set()
            is_over.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    is_held.wait()
    threading.Timer(0.05, is_over.set).start()
    assert ours.random() == np.random.default_rng(5).random()
    assert is_over.is_set()
    holder.join()


def test_references_are_given_back():
    ours, size = oxinp.random.default_rng(5), (2, 3)
    loc = 0.5
    for draw in (lambda: ours.normal(loc, 1.0, size), lambda: oxinp.random.normal(loc, 1.0, size), ours.random):
        draw()
        before = [sys.getrefcount(each) for each in (loc, size, ours, ours._mutex)]
        for _ in range(100):
            draw()
        assert [sys.getrefcount(each) for each in (loc, size, ours, ours._mutex)] == before
    with pytest.raises(ValueError, match="scale"):
        ours.normal(loc, -1.0, size)


@pytest.mark.parametrize(
    "text", ["r.random()", "r.normal(size=3)", "np.random.randn(3)", "np.random.uniform(0, 1, (2, 3))"]
)
def test_no_function_of_ours_is_entered(text):
    with config.override(offload_threshold=65536):
        names, entered = {"np": oxinp, "r": oxinp.random.default_rng(5)}, []
        code = compile(text, "<program>", "eval")
        eval(code, names)  # noqa: S307
        sys.setprofile(lambda frame, event, _: entered.append(frame) if event == "call" else None)
        try:
            eval(code, names)  # noqa: S307
        finally:
            sys.setprofile(None)
    assert [each.f_code.co_filename for each in entered] == ["<program>"]
