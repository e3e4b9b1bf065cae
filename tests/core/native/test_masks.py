"""Elements that masks choose, on the host: what machine code reads and writes is what NumPy does."""

import numpy as np
import pytest

import oxinp
from oxinp._core.native import install, objects
from tests.comparator import assert_same
from tests.machine_code import write_all

pytestmark = pytest.mark.skipif(not objects.ARE_KNOWN, reason="this Python's objects are laid out in another way")
DTYPES = ("?", "u1", "i1", "i2", "u2", "i4", "u4", "f4", "i8", "u8", "f8", "c16", "c8", "f2", "M8[s]")
SHAPES = ((1,), (7,), (255,), (256,), (257,), (30, 17), (3, 40, 5), (40, 90))
MASKS = {
    "nothing": lambda n, _: np.zeros(n, bool),
    "everything": lambda n, _: np.ones(n, bool),
    "scattered": lambda n, rng: rng.random(n) < 0.4,
    "few": lambda n, rng: rng.random(n) < 0.02,
    "in turn": lambda n, _: np.arange(n) % 2 == 0,
    "in runs": lambda n, _: np.arange(n) // 64 % 2 == 0,
    "of other bytes": lambda n, rng: rng.integers(0, 4, n).astype("u1").view(bool),
}
VALUES = (
    0,
    1,
    -1,
    True,
    2.5,
    300,
    2**40,
    1j,
    np.float64(1.5),
    np.int64(3),
    np.uint8(200),
    np.bool_(1),
    np.float32(0.1),
)


@pytest.fixture(autouse=True)
def _written(config):
    config.offload_threshold = 1 << 16
    write_all()
    assert install.is_installed(oxinp.ndarray)


def outcome(body, array):
    """Return what a body does to a copy of an array, or raises."""
    try:
        return body(array), array
    except (ValueError, TypeError, OverflowError, IndexError) as error:
        return type(error), str(error).replace("oxinp", "numpy")


def compare(body, array, mask):
    given = oxinp.array(array), oxinp.array(mask)
    (ours, left), (theirs, right) = (
        outcome(lambda a: body(a, given[1]), given[0]),
        outcome(lambda a: body(a, mask), array.copy()),
    )
    for found, expected in ((ours, theirs), (left, right)):
        if isinstance(expected, np.ndarray | np.generic):
            assert_same(found, expected)
        else:
            assert found == expected


def put(value):
    def body(array, mask):
        array[mask] = value

    return body


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_values_are_numpys(kind, dtype):
    rng = np.random.default_rng(5)
    for shape in SHAPES:
        array = rng.integers(0, 2 if dtype == "?" else 100, shape).astype(dtype)
        mask = MASKS[kind](array.size, rng).reshape(shape)
        compare(lambda a, m: a[m], array, mask)
        compare(put(array[mask]), array, mask)
        compare(put(oxinp.array(array[mask])[::-1]), array, mask)
        for value in VALUES:
            if dtype != "M8[s]":
                compare(put(value), array, mask)

        def doubled(a, m):
            a[m] = a[m] + a[m]

        if dtype != "M8[s]":
            compare(doubled, array, mask)


OTHERS = {
    "too few": lambda a, m: put(a[m][1:])(a, m),
    "one": lambda a, m: put(a[:1, 0])(a, m),
    "too many": lambda a, m: put(a)(a, m),
    "a list": put([1.0]),
    "another dtype": lambda a, m: put(a[m].astype("f4"))(a, m),
    "rows": lambda a, m: put(2.0)(a, m[:, 0]),
    "rows that are read": lambda a, m: a[m[:, 0]],
    "of a part": lambda a, m: put(2.0)(a[:, 1:], m[:, 1:]),
    "by a part": lambda a, m: put(2.0)(a[:, ::2], m[:, ::2]),
    "by columns": lambda a, m: put(2.0)(a.T, m.T),
    "another shape": lambda a, m: put(2.0)(a, m[1:]),
    "more axes": lambda a, m: put(2.0)(a, m[None]),
    "in place": lambda a, m: a[m].__iadd__(1.0),
    "own elements": lambda a, m: put(a.ravel()[: np.count_nonzero(np.asarray(m))])(a, m),
    "a row of it": lambda a, m: put(a[0][m[0]])(a[0], m[0]),
}


@pytest.mark.parametrize("body", OTHERS.values(), ids=OTHERS)
def test_what_numpy_does_itself(body):
    rng = np.random.default_rng(6)
    array = rng.random((40, 30))
    compare(body, array, rng.random((40, 30)) < 0.3)


def test_a_mask_that_is_written_to_is_numpys():
    flags = np.random.default_rng(7).random(3000) < 0.5
    for first, second in ((slice(0, None), slice(0, None)), (slice(1, None), slice(None, -1))):
        ours, theirs = oxinp.array(flags), flags.copy()
        for each in (ours, theirs):
            each[first][each[second]] = np.False_
            each[first][each[second]] = each[first][each[second]]
        assert_same(ours, theirs)


def test_nobody_writes_to_what_is_read_only():
    array, mask = oxinp.array(np.arange(600.0)), oxinp.array(np.arange(600) % 2 == 0)
    array.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        array[mask] = 1.0
    assert_same(array, np.arange(600.0))


def test_other_elements_are_not_written_to():
    array, mask = np.zeros(600), np.arange(600) % 3 == 0
    lent = oxinp.array(array)
    seen = np.asarray(lent)
    lent[oxinp.array(mask)] = 5.0
    assert_same(seen, np.where(mask, 5.0, 0.0))
