"""`pad` on the device: NumPy's results, in few launches."""

import numpy as np
import pytest

import oxinp
from oxinp import config
from oxinp.cuda import stats
from tests.comparator import assert_same
from tests.thinned import thinned

WIDTHS = (
    1,
    3,
    0,
    70,
    (2, 5),
    ((1, 2),),
    [[4, 1], [0, 2]],
    ((1,), (2,)),
    np.array([[1, 0], [0, 1]]),
    -1,
    1.5,
    (1, 2, 3),
)
MODES = ("edge", "reflect", "symmetric", "wrap", "constant", "maximum", "nonsense")


@pytest.fixture(autouse=True)
def device():
    with config.override(offload_threshold=0):
        yield


def outcome(xp, x, *args, **options):
    try:
        return xp.pad(x, *args, **options)
    except Exception as error:  # noqa: BLE001 - NumPy's is ours
        return type(error)


@pytest.mark.parametrize(
    ("case", "shape"),
    thinned(
        [(mode, dtype) for mode in MODES for dtype in ("f8", "f4", "i8", "u1", "?", "c16", "f2")],
        [(64, 65), (7, 9), (1, 300)],
    ),
    ids=str,
)
def test_padded_matrices_are_numpys(case, shape):
    mode, dtype = case
    x = (np.random.default_rng(1).random(shape) * 100).astype(dtype)
    for width in WIDTHS:
        for theirs in (x, x.T, x[:, ::2]):
            expected = outcome(np, theirs, width, mode)
            found = outcome(oxinp, oxinp.array(theirs, order="K"), width, mode)
            if isinstance(expected, type):
                assert found is expected
            else:
                assert_same(found, expected)
                assert found.strides == expected.strides


def test_other_arguments_are_numpys():
    x = np.arange(2000.0).reshape(40, 50)
    ours = oxinp.asarray(x)
    assert_same(oxinp.pad(ours, 1, constant_values=3), np.pad(x, 1, constant_values=3))
    assert_same(oxinp.pad(ours, 2, "reflect", reflect_type="odd"), np.pad(x, 2, "reflect", reflect_type="odd"))
    assert_same(oxinp.pad(ours[0], (1, 2), "wrap"), np.pad(x[0], (1, 2), "wrap"))
    assert_same(oxinp.pad(ours.reshape(2, 20, 50), 2, "edge"), np.pad(x.reshape(2, 20, 50), 2, "edge"))
    assert_same(oxinp.pad(array=ours, pad_width=1), np.pad(x, 1))
    assert_same(oxinp.pad(ours[:0], 1), np.pad(x[:0], 1))
    found = oxinp.pad(ours, 1)
    found += 1.0
    assert_same(ours, x)


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap", "constant"])
def test_a_matrix_is_padded_in_two_launches(mode):
    ours = oxinp.asarray(np.ones((200, 300))) * 2.0
    oxinp.evaluate(ours)
    before = stats()
    oxinp.evaluate(oxinp.pad(ours, 3, mode))
    assert stats().launches - before.launches <= 2
    assert stats().fallbacks == before.fallbacks


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap"])
def test_axes_that_are_alike_share_what_is_uploaded(mode):
    x = np.random.default_rng(2).random((200, 200))
    ours = oxinp.asarray(x) * 2.0
    oxinp.evaluate(ours)
    before = stats().h2d_bytes
    found = oxinp.pad(ours, 3, mode)
    oxinp.evaluate(found)
    assert stats().h2d_bytes - before <= 206 * 8
    assert_same(found, np.pad(x * 2.0, 3, mode))
