"""`where` on the host: what machine code chooses of two arrays, or of one and a number, is what NumPy does."""

import threading

import numpy as np
import pytest

import oxinp
from oxinp._core.native import install, loops, objects
from tests.comparator import assert_same
from tests.core.native.test_masks import DTYPES, MASKS, SHAPES, VALUES
from tests.machine_code import write_all

pytestmark = pytest.mark.skipif(not objects.ARE_KNOWN, reason="this Python's objects are laid out in another way")


@pytest.fixture(autouse=True)
def _written(config):
    config.offload_threshold = 1 << 20
    write_all()
    assert install.is_installed(oxinp.ndarray)


def elements(rng, dtype, shape):
    nbytes = np.dtype(dtype).itemsize * int(np.prod(shape))
    made = rng.integers(0, 2 if dtype == "?" else 256, nbytes).astype("u1")
    return made.view(dtype).reshape(shape)


def chosen(xp, given):
    """Return what `where` makes of arguments, or raises; arrays are copied to others that are laid out alike."""

    def ours(each):
        return xp.asarray(each) if isinstance(each, np.ndarray) else each

    with np.errstate(all="ignore"):
        try:
            return xp.where(*map(ours, given))
        except Exception as error:  # noqa: BLE001
            return error


def check(*given):
    expected, found = chosen(np, given), chosen(oxinp, given)
    assert_same(found, expected)
    if isinstance(expected, np.ndarray):
        assert found.strides == expected.strides
        assert found.flags.writeable
        assert found.tobytes() == expected.tobytes()  # NaNs, too


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_of_either_array_are_chosen_bit_for_bit(dtype, mask):
    rng = np.random.default_rng(5)
    for shape in SHAPES:
        chooses = MASKS[mask](int(np.prod(shape)), rng).reshape(shape)
        x, y = elements(rng, dtype, shape), elements(rng, dtype, shape)
        check(chooses, x, y)
        check(chooses, x, x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_number_may_stand_on_either_side(dtype):
    rng = np.random.default_rng(6)
    for shape in ((5,), (256,), (30, 17)):
        chooses = rng.random(shape) < 0.4
        x = elements(rng, dtype, shape)
        for value in (*VALUES, 0.0, -0.0, float("nan"), 1e300, 2**63 - 1, -(2**63), 2**64 - 1):
            check(chooses, x, value)
            check(chooses, value, x)


@pytest.mark.parametrize("other", DTYPES)
def test_arrays_of_two_dtypes_become_one(other):
    rng = np.random.default_rng(7)
    chooses = rng.random(40) < 0.5
    for dtype in DTYPES:
        check(chooses, np.ones(40, dtype), np.zeros(40, other))


def test_what_does_not_lie_in_order_or_is_broadcast_is_left_to_numpy():
    rng = np.random.default_rng(8)
    mask, x, y = rng.random((12, 10)) < 0.5, rng.random((12, 10)), rng.random((12, 10))
    apart = np.zeros(8 * 120 + 1, "u1")[1:].view(float).reshape(12, 10)
    for given in (
        *((mask.T, x.T, y.T), (np.asfortranarray(mask), x, y), (mask, np.asfortranarray(x), np.asfortranarray(y))),
        *((mask[:, ::2], x[:, ::2], y[:, ::2]), (mask[::-1], x, y), (mask, x[0], y), (mask[0], x, y), (mask, x, y[:1])),
        *((mask[:, :1], x, 0.0), (mask, x[:, 0], y), (mask, apart, y), (x > 2, x, y), (x, x, y), (mask, x, y[:5])),
        *((mask[:0], x[:0], y[:0]), (mask[:0], x[:0], 1.0), (mask[0, 0], x, y), (mask, 1.0, 2.0), (mask, 1, True)),
        *((mask.view("i1"), x, y), (mask.ravel(), x.ravel(), y.ravel()[1:]), (mask, x.astype(">f8"), y)),
        *((mask.reshape(3, 4, 10), x.reshape(3, 4, 10), y.reshape(3, 4, 10)), (mask.reshape(120), x, y)),
    ):
        check(*given)
    frozen = x.copy()
    frozen.flags.writeable = False
    check(mask, frozen, y)


@pytest.mark.parametrize("size", [loops.MOST - 1, loops.MOST, loops.MOST + 1, *range(1, 10)])
def test_all_elements_are_gone_over(size):
    rng = np.random.default_rng(size)
    mask, x, y = rng.random(size) < 0.5, rng.random(size), rng.random(size)
    check(mask, x, y)
    check(mask, 2.0, y)
    check(mask, x, 1)


def test_results_are_arrays_of_their_own():
    x, y = oxinp.arange(50.0), oxinp.zeros(50)
    found = oxinp.where(x > 20, x, y)
    found += 1.0
    assert_same(x, np.arange(50.0))
    assert_same(y, np.zeros(50))
    x[:] = oxinp.where(x > 20, x, y)
    assert_same(x, np.where(np.arange(50) > 20, np.arange(50.0), 0.0))


def test_threads_choose_at_the_same_time():
    x, y = oxinp.arange(3000.0), oxinp.zeros(3000)
    expected = np.where(np.arange(3000) > 1000, np.arange(3000.0), 0.0)
    found = []

    def work():
        found.extend(bool((np.asarray(oxinp.where(x > 1000, x, y)) == expected).all()) for _ in range(200))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [True] * 800
