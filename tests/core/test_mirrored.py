"""Updates of lines by chains that read them backwards: one launch, in place, as if NumPy had copied what it reads."""

# ruff: noqa: ARG001 - bodies all take the same

import numpy as np
import pytest

import oxinp

pytestmark = pytest.mark.usefixtures("on_device")

SIZES = (4, 5, 64, 127, 515, 1024, 3001)


def add_backwards(np, x, y, a):
    y += a * np.flip(y)


def subtract_own_and_backwards(np, x, y, a):
    y -= y[::-1] * (y + 1.0)


def multiply_by_others(np, x, y, a):
    y *= x[: len(y)] - y[::-1]


def add_others_backwards(np, x, y, a):
    y += x[: len(y)][::-1] * y[::-1] + x[3 : 2 * len(y) + 3 : 2]


def divide_by_one_element(np, x, y, a):
    y /= x[5:6] + y[::-1]


def add_cast(np, x, y, a):
    y += (y[::-1] > 0).astype("i1")


BODIES = (
    add_backwards,
    subtract_own_and_backwards,
    multiply_by_others,
    add_others_backwards,
    divide_by_one_element,
    add_cast,
)


def arrays(seed, dtype=np.float64):
    draw = np.random.default_rng(seed)
    return [(4 * draw.standard_normal(6500)).astype(dtype) for _ in range(2)]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("key", [slice(0, None), slice(3, None), slice(1, None, 3)])
def test_values_are_those_of_a_copy(body, key, launches):
    x, y = arrays(1)
    ours = [oxinp.array(x), oxinp.array(y)]
    scalar = oxinp.array([1.0, 0.75])[1]
    for size in SIZES[::-1]:
        stop = (key.start or 0) + (size - 1) * (key.step or 1) + 1
        part = slice(key.start, stop, key.step)
        with np.errstate(all="ignore"), oxinp.errstate(all="ignore"):
            body(np, x, y[part], np.float64(0.75))
        assert launches(lambda: body(oxinp, ours[0], ours[1][part], scalar)) == 1  # noqa: B023 - called at once
        np.testing.assert_array_equal(np.asarray(ours[1]), y)
        ours[1] = oxinp.array(y)


@pytest.mark.parametrize("dtype", ["f4", "i2", "u8", "c16", "f2"])
def test_dtypes(dtype):
    x, y = arrays(2, dtype)
    ours = oxinp.array(y)
    for size in SIZES:
        y[:size] += y[:size][::-1] * x[:size]
        ours[:size] += ours[:size][::-1] * oxinp.array(x)[:size]
        np.testing.assert_array_equal(np.asarray(ours), y)


def test_what_is_added_keeps_its_values(launches):
    _, y = arrays(3)
    ours = oxinp.array(y)
    for size in (1000, 1001):
        reader = ours[:size] * 3.0
        added = 0.5 * ours[:size][::-1]
        wanted = 0.5 * y[:size][::-1]
        ours[:size] += added
        assert launches(lambda: (added, reader)) == 0  # noqa: B023 - called at once
        np.testing.assert_array_equal(np.asarray(added), wanted)
        np.testing.assert_array_equal(np.asarray(reader), y[:size] * 3.0)
        y[:size] += wanted
        np.testing.assert_array_equal(np.asarray(ours), y)


def test_a_product_of_vectors_and_an_update_are_two_launches(launches):
    r, y = [1e-3 * x for x in arrays(4)]
    ours = [oxinp.array(r), oxinp.array(y)]

    def step(np, r, y, size):
        a = np.dot(np.flip(r[:size]), y[:size])
        y[:size] += a * np.flip(y[:size])

    for size in range(600, 640):
        step(np, r, y, size)
        assert launches(lambda: step(oxinp, *ours, size)) == 2  # noqa: B023 - called at once
    np.testing.assert_allclose(np.asarray(ours[1]), y, rtol=1e-9)


def test_results_that_do_not_fit_raise():
    ours = oxinp.array(np.arange(100))
    with pytest.raises(TypeError, match="same_kind"):
        ours[:50] += 0.5 * ours[:50][::-1]
    np.testing.assert_array_equal(np.asarray(ours), np.arange(100))


def test_elements_that_are_not_aligned():
    given = np.zeros(8 * 100 + 8, np.uint8)
    ours = oxinp.array(given)
    for np_, x in ((np, given), (oxinp, ours)):
        y = x[4:804].view("f8")
        y += np_.arange(100.0)
        y += 0.5 * y[::-1]
    np.testing.assert_array_equal(np.asarray(ours), given)


def test_lines_that_overlap_otherwise_are_copied():
    _, y = arrays(5)
    ours = oxinp.array(y)
    y[:900] += 2.0 * y[1:901][::-1]
    ours[:900] += 2.0 * ours[1:901][::-1]
    y[:900] += 2.0 * y[:1800:2][::-1]
    ours[:900] += 2.0 * ours[:1800:2][::-1]
    y[899::-1] += 2.0 * y[:900]
    ours[899::-1] += 2.0 * ours[:900]
    np.testing.assert_array_equal(np.asarray(ours), y)
