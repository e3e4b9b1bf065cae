"""What asking for a transform that has been asked for before takes."""

import sys

import numpy as np
import pytest

import oxinp
from oxinp._core.lazy import steps

pytestmark = pytest.mark.usefixtures("on_device", "one_stream")

MOST_CALLS = 9  # of Python functions, `fft` itself among them
LOOKING = {"call_function", "<listcomp>", "leader"}  # for a class of the user's, where earlier tests have made one


@pytest.fixture
def given():
    x = oxinp.asarray(np.ones((64, 1000), "F")) * 1
    oxinp.evaluate(x)
    for function in (oxinp.fft.fft, oxinp.scipy.fft.fft):
        for _ in range(3):
            oxinp.evaluate(function(x))
    return x


def calls_of(function, *arguments):
    calls = []
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_name) if event == "call" else None)
    try:
        result = function(*arguments)
    finally:
        sys.setprofile(None)
    return calls, result


def test_a_transform_is_found_again_in_few_calls(given):
    # One launch in so many is weighed for placement, which takes calls of its own.
    calls, result = min((calls_of(oxinp.fft.fft, given) for _ in range(2)), key=lambda found: len(found[0]))
    assert sum(name not in LOOKING for name in calls) <= MOST_CALLS, " ".join(calls)
    assert not {"apply", "request"} & set(calls)
    np.testing.assert_allclose(np.asarray(result)[:, 0], 1000)


@pytest.mark.parametrize("arguments", [(None, -1), (1000, -1), (None, 1), (None, -1, "ortho")])
def test_other_arguments_are_not_taken_for_the_usual_ones(given, arguments):
    expected = np.fft.fft(np.ones((64, 1000), "F"), *arguments)
    for _ in range(2):
        result = np.asarray(oxinp.fft.fft(given, *arguments))
        np.testing.assert_allclose(result, expected, atol=1e-3)


@pytest.mark.parametrize("axis", [True, -1.0, np.int64(-1)])
def test_axes_that_equal_the_usual_one_are_what_numpy_makes_of_them(given, axis):
    host = np.ones((64, 1000), "F")
    try:
        expected = np.fft.fft(host, axis=axis)
    except Exception as error:  # noqa: BLE001 - whatever NumPy raises
        with pytest.raises(type(error)):
            oxinp.fft.fft(given, axis=axis)
        return
    np.testing.assert_allclose(np.asarray(oxinp.fft.fft(given, axis=axis)), expected, atol=1e-3)


def test_scipys_transforms_are_found_again_too(given):
    calls, _ = calls_of(oxinp.scipy.fft.fft, given)
    assert "in_parts" not in calls


@pytest.mark.parametrize(
    ("arguments", "keywords"), [((), {}), (((60, 36),), {}), ((), {"axes": (0, 1)}), ((None, (0, 1), "ortho"), {})]
)
def test_filters_are_found_again_in_few_calls(arguments, keywords):
    rng = np.random.default_rng(3)
    theirs = rng.random((60, 36))
    transfer = np.fft.rfft2(rng.random((60, 36)))
    image, own = oxinp.asarray(theirs) * 1, oxinp.asarray(transfer) * 1
    oxinp.evaluate(image, own)

    def filtered(fft, x, h):
        return fft.irfft2(fft.rfft2(x, *arguments, **keywords) * h, *arguments, **keywords)

    for _ in range(4):
        oxinp.evaluate(filtered(oxinp.fft, image, own))
    calls, found = min((calls_of(filtered, oxinp.fft, image, own) for _ in range(3)), key=lambda found: len(found[0]))
    assert sum(name not in LOOKING for name in calls) <= 3 * MOST_CALLS, " ".join(calls)
    assert not {"request", "num_readers", "_bound"} & set(calls)
    np.testing.assert_allclose(np.asarray(found), filtered(np.fft, theirs, transfer), atol=1e-12)


@pytest.mark.parametrize("lengths", [(8.0, 8), (True, 8), [8, 8]])
def test_lengths_that_equal_others_are_what_numpy_makes_of_them(lengths):
    host = np.ones((8, 8))
    given = oxinp.asarray(host) * 1
    for _ in range(3):
        oxinp.evaluate(oxinp.fft.fft2(given, (8, 8)), oxinp.fft.fft2(given, (1, 8)))
    try:
        expected = np.fft.fft2(host, lengths)
    except Exception as error:  # noqa: BLE001 - whatever NumPy raises
        with pytest.raises(type(error)):
            oxinp.fft.fft2(given, lengths)
        return
    np.testing.assert_allclose(np.asarray(oxinp.fft.fft2(given, lengths)), expected, atol=1e-12)


def test_arguments_that_are_not_taken_are_numpys_to_refuse(given):
    with pytest.raises(TypeError, match="wrong"):
        oxinp.fft.fft(given, wrong=1)


def test_plans_of_several_launches_take_no_function_for_each():
    image = oxinp.asarray(np.ones((60, 36))) * 1
    oxinp.evaluate(image)
    for _ in range(4):
        oxinp.evaluate(oxinp.fft.fft2(image))
    found = oxinp.fft.fft2(image)
    before, entered = oxinp.cuda.stats().launches, set()
    sys.setprofile(lambda frame, event, _: event == "call" and entered.add(frame.f_code))
    try:
        oxinp.evaluate(found)
    finally:
        sys.setprofile(None)
    assert oxinp.cuda.stats().launches - before > 1
    assert {code.co_name for code in entered if code.co_filename == steps.__file__} <= {"_run_silent", "launch"}
