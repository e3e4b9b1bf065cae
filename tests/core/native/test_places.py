"""Single elements that machine code reads and writes: NumPy's values, types and errors."""

import sys
import warnings
from itertools import product

import numpy as np
import pytest

import oxinp
from oxinp import config
from oxinp._core.native import objects

pytestmark = pytest.mark.skipif(not objects.ARE_KNOWN, reason="this Python's objects are laid out in another way")

DTYPES = ("f8", "i8", "?", "f4", "i4", "c16", "u1", "U3", "M8[s]", ">f8", "O")
KEYS = (
    *(0, 1, 2, -1, -3, -4, 3, 2**30 - 1, 2**30, -(2**30), 2**62, 2**63, -(2**70), True, None, 1.0, "x"),
    *(
        np.int64(1),
        (0,),
        (1, 2),
        (-1, -4),
        (2, 3),
        (3, 0),
        (0, 4),
        (0, -5),
        (1, 2, 0),
        (0, slice(1, 2)),
        (slice(0, 2), 1),
    ),
    *((1, True), (1, np.int64(2)), (1, None), (..., 1), (1, ...), (2**40, 1), (), (1, 2**30), (-1, -1), (1, 1.0)),
    *(np.int64(-1), np.int64(-4), np.int64(2**62), np.int32(1), (np.int64(-1), 2), (np.int64(1), np.int64(-9))),
    *((np.int64(0), slice(1, 3)), (None, np.int64(1)), (slice(None), np.int64(1)), (np.int64(2), True)),
    *([0, 2], [-1], [], [7], [True, False, True], [1.0], [np.int64(1), 0], ["x"], [[0, 1], [1, 0]], [2**70], [1] * 600),
    *((slice(None), [0, 1]), ([0, 1], [1, 0]), ([0],), (0, [1, 2]), (..., [0, 1]), ([0, 1], None), ([0, 9], 1)),
    *(([0, 1], slice(1, 3)), (np.int64(1), [0, 1]), ([], [0]), ([True, False, True], 0), ([0, 1], 1.5)),
)
VALUES = (
    *(
        0.0,
        -0.0,
        1.5,
        float("nan"),
        float("-inf"),
        5e-324,
        1e400,
        0,
        1,
        -1,
        2**30 - 1,
        2**30,
        -(2**30),
        2**53 + 1,
        2**62,
    ),
    *(
        2**63,
        -(2**63),
        2**70,
        True,
        False,
        np.float64(-2.5),
        np.int64(-7),
        np.float32(0.1),
        np.bool_(True),
        1j,
        None,
        "y",
    ),
)


def _arrays(xp, dtype):
    rng = np.random.default_rng(0)
    host = rng.integers(0, 2, (3, 4)).astype(dtype)
    given = xp.asarray(host)
    return given, given[0], given[:, 1], given[::-1, ::2], given.T, given[1:, 1:], given[0, :1], given[:0]


def _told(compute):
    try:
        return compute()
    except Exception as error:  # noqa: BLE001 - whatever NumPy raises
        return type(error), str(error)


@pytest.fixture(autouse=True)
def usual_threshold():
    with config.override(offload_threshold=65536):
        yield


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning", "ignore:overflow", "ignore:invalid")
@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_are_numpys(dtype):
    for ours, numpys in zip(_arrays(oxinp, dtype), _arrays(np, dtype), strict=True):
        for key in KEYS:
            found, expected = _told(lambda a=ours, k=key: a[k]), _told(lambda a=numpys, k=key: a[k])
            if isinstance(expected, np.ndarray):
                assert np.array_equal(np.asarray(found), expected), key
                assert found.dtype == expected.dtype, key
            else:
                assert found == expected, key
                assert type(found) is type(expected), key


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning", "ignore:overflow", "ignore:invalid")
@pytest.mark.parametrize("dtype", DTYPES)
def test_written_elements_are_numpys(dtype):
    def write(x, key, value):
        x[key] = value

    for which, key, value in product((0, 1, 3), KEYS, VALUES):
        ours, numpys = _arrays(oxinp, dtype), _arrays(np, dtype)
        if dtype == "O" and ((which, key) != (0, 1) or value != value):  # noqa: PLR0124 - is it a NaN?
            continue
        found = _told(lambda a=ours[which], k=key, v=value: write(a, k, v))
        assert found == _told(lambda a=numpys[which], k=key, v=value: write(a, k, v)), (which, key, value)
        host = np.asarray(ours[0])
        assert host.tobytes() == numpys[0].tobytes() if dtype != "O" else np.array_equal(host, numpys[0]), (key, value)


def test_lists_of_integers_choose_from_large_arrays():
    numpys = np.random.default_rng(3).random((30, 20, 50))
    ours = oxinp.array(numpys)
    for key in ([3, 1], (slice(None), [1, 0, 2]), (slice(None), slice(None), [0, 5]), ([2, 1], slice(None), [0, 5])):
        found = ours[key]
        assert np.array_equal(np.asarray(found), numpys[key])
        found += 1.0
        assert np.array_equal(np.asarray(ours), numpys)
        ours[key] = 2.0
        ours[key] = found
        numpys[key] += 1.0
        assert np.array_equal(np.asarray(ours), numpys)


def test_elements_keep_their_bits():
    bits = np.array([0x7FF8000000000001, 0xFFF0000000000000, 0x8000000000000000, 1], np.uint64)
    x = oxinp.asarray(bits.view(np.float64))
    assert np.array([x[i] for i in range(4)]).view(np.uint64).tolist() == bits.tolist()
    y = oxinp.zeros(4)
    for i in range(4):
        y[i] = x[i]
    assert np.asarray(y).view(np.uint64).tolist() == bits.tolist()


def test_elements_are_given_back():
    x, y = oxinp.zeros((3, 3)), oxinp.zeros(3)
    x[1, 1] = y[1] = 1.5
    key, value, seen, place, rows = (1, 1), 2.25, x._seen, np.int64(2), [2, 0]
    x[rows] = x[1:]  # by now it has a storage
    before = [sys.getrefcount(each) for each in (x, y, key, value, seen, seen.dtype, place, rows)]
    for _ in range(1000):
        x[key] = value
        y[1] = x[key]
        y[place] = x[place, place]
        x[rows] = x[rows]
        x[:, rows] = x[rows, :].T
    assert [sys.getrefcount(each) for each in (x, y, key, value, seen, seen.dtype, place, rows)] == before


def test_parts_that_may_not_be_written_to_are_not():
    x = oxinp.broadcast_to(oxinp.zeros(3), (2, 3))
    with pytest.raises(ValueError, match="read-only"):
        x[1, 1] = 2.0
    assert x[1, 1] == 0.0


def _cast_and_told(xp, given, dtype, key):
    """Return what has been written, the warnings, by how far from the line, and what is raised where errors are."""
    target, value = xp.zeros((3, 4), dtype), xp.zeros(4)
    value[2] = given
    value = value[2:] if isinstance(key, tuple) and len(key) > 1 else value
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        target[key] = value
        line = sys._getframe().f_lineno - 1
    told = [(each.category, str(each.message), each.filename, each.lineno - line) for each in caught]
    raised = None
    with np.errstate(all="raise"):
        try:
            target[2] = value[:1] if len(value) < 4 else value
        except FloatingPointError as error:
            raised = str(error)
    return np.asarray(target).tobytes(), told, raised


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("machine_code", [True, False])
@pytest.mark.parametrize("key", [(0,), (slice(1), slice(2, 4)), 1], ids=str)
@pytest.mark.parametrize(
    ("given", "dtype"), [(1e300, "f4"), (np.nan, "i8"), (1e30, "i4"), (-1.5, "u1"), (3e38, "f4")], ids=str
)
def test_casts_that_warn_name_the_users_line_and_have_written(given, dtype, key, machine_code):
    with config.override(machine_code=machine_code):
        found = [_cast_and_told(xp, given, dtype, key) for xp in (np, oxinp)]
    assert found[0] == found[1]
    if given not in (3e38, -1.5):
        assert found[0][1][0][2:] == (__file__, 0)
