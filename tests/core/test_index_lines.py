"""Arrays of integers beside integers and slices of everything: lines of an array by an index, as NumPy has them."""

# ruff: noqa: ICN001 - oxinp is np

import numpy
import pytest

import oxinp as np
from oxinp._core.ops import advanced
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("on_device")

PLACES = numpy.array([3, -1, 0, 3])


def computed(x):
    """Return an array that the device alone has."""
    made = np.asarray(x) + x.dtype.type(0)
    np.evaluate(made)
    return made


KEYS = {
    "column": lambda i: (i, 2),
    "last column": lambda i: (i, -1),
    "row": lambda i: (1, i),
    "trailing axis": lambda i: (i, 2),
    "number of NumPy's": lambda i: (i, numpy.int64(2)),
    "rows": lambda i: (i, slice(None)),
    "one of a tuple": lambda i: (i,),
    "rows, ellipsis": lambda i: (i, ...),
    "columns": lambda i: (slice(None), i),
    "truth": lambda i: (i, True),
    "two": lambda i: (i, i),
}


@pytest.mark.parametrize("shape", [(5, 6), (5, 6, 4), (6, 6, 4, 3)], ids=str)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("name", KEYS)
def test_reads_and_writes(name, order, shape):
    x = numpy.arange(numpy.prod(shape), dtype="f8").reshape(shape)
    ours = computed(x.copy()) if order == "C" else np.asfortranarray(computed(x))
    x = numpy.array(x, order=order)
    for turn in range(3):
        i = numpy.roll(PLACES, turn)
        key, own = KEYS[name](i), KEYS[name](computed(i))
        expected = x[key]
        found = ours[own]
        assert_same(found, expected)
        assert found.strides == expected.strides
        for value in (numpy.arange(expected.size).reshape(expected.shape) + turn, numpy.float64(turn)):
            x[key] = value
            ours[own] = np.asarray(value) if value.ndim else value
            assert_same(ours, x)


@pytest.mark.parametrize("use", ["read", "write"])
def test_columns_are_as_one(use, monkeypatch):
    x = numpy.random.default_rng(0).random((300, 70))
    ours = computed(x)
    order = numpy.argsort(x[:, 0])
    index = computed(order)
    select = advanced.selection
    asked = []
    monkeypatch.setattr(advanced, "selection", lambda *args, **options: asked.append(1) or select(*args, **options))
    for j in range(70):
        if use == "read":
            assert_same(ours[index, j], x[order, j])
        else:
            ours[index, j] = np.arange(300)
            x[order, j] = numpy.arange(300)
    assert_same(ours, x)
    assert len(asked) < 40  # the first of them lie as others do not, by the alignment of their offsets


@pytest.mark.parametrize("dtype", ["f4", "i4", "c8", "?"])
def test_values_are_cast_as_assignments_cast_them(dtype):
    x = numpy.zeros((40, 3), dtype)
    ours, i = computed(x) if dtype != "?" else np.asarray(x), numpy.arange(40)[::-1].copy()
    for j in (0, 1, 2, 0, 1):
        value = numpy.random.default_rng(j).integers(-2, 3, 40) * 0.75
        x[i, j] = value
        ours[computed(i), j] = computed(value)
        assert_same(ours, x)
    if dtype in ("f4", "i4"):
        given = numpy.ones(40, "c16")
        for _ in range(2):
            with pytest.warns(numpy.exceptions.ComplexWarning) as found:
                ours[computed(i), 1] = computed(given)
            assert len(found) == 1
        x[:, 1] = 1
        assert_same(ours, x)


def test_sums_at_an_index_of_values_of_another_dtype():
    x, i = numpy.zeros(40, "i8"), numpy.arange(40)
    ours, index = computed(x), computed(i)
    for value in (numpy.ones(40, "i8"), numpy.ones(40, "i8"), numpy.full(40, 1.5), numpy.full(40, 1.5)):
        numpy.add.at(x, i, value)
        np.add.at(ours, index, computed(value))
        assert_same(ours, x)


@pytest.mark.parametrize(("key", "axis", "size"), [(lambda i: (i, 1), 0, 5), (lambda i: (1, i), 1, 6)])
def test_what_is_out_of_bounds_names_its_axis(key, axis, size):
    x = computed(numpy.zeros((5, 6)))
    wrong = computed(numpy.array([0, 9]))
    for _ in range(3):
        found = x[key(wrong)]
        with pytest.raises(IndexError, match=f"index 9 is out of bounds for axis {axis} with size {size}"):
            numpy.asarray(found)
        x[key(wrong)] = 1.0
        with pytest.raises(IndexError, match=f"index 9 is out of bounds for axis {axis} with size {size}"):
            numpy.asarray(x)
    with pytest.raises(IndexError, match="index 7 is out of bounds for axis 1 with size 6"):
        x[computed(numpy.array([0])), 7]
    with pytest.raises(IndexError, match="too many indices"):
        x[computed(numpy.array([0])), :, :]
    with pytest.raises(ValueError, match="shape mismatch"):
        x[computed(numpy.array([0, 1])), 1] = computed(numpy.ones(3))
    assert_same(x, numpy.zeros((5, 6)))


def test_a_column_that_is_given_itself():
    x = numpy.random.default_rng(0).random((40, 3))
    ours, order = computed(x), numpy.argsort(x[:, 0])
    for _ in range(3):
        ours[computed(order), 1] = ours[:, 1]
        x[order, 1] = x[:, 1].copy()
        ours[computed(order), 1] = ours[:, 0]
        x[order, 1] = x[:, 0].copy()
        assert_same(ours, x)


def test_rows_of_a_mask_and_all_that_is_behind():
    x = numpy.random.default_rng(0).random((6, 7, 3))
    solid = x[:, :, 0] > 0.5
    ours = computed(x)
    for _ in range(3):
        mask = ours[:, :, 0] > 0.5
        assert_same(ours[mask, :], x[solid, :])
        assert_same(ours[mask, ...], x[solid, ...])
        ours[mask, :] = ours[mask, :] * 2
        x[solid, :] = x[solid, :] * 2
        assert_same(ours, x)
        solid = x[:, :, 0] > 0.5
    with pytest.raises(IndexError):
        ours[mask, :, :]


def test_numbers_of_numpys_as_keys():
    x = numpy.arange(60.0).reshape(3, 4, 5)
    ours = computed(x)
    for key in (numpy.int64(1), numpy.uint8(2), (numpy.int8(-1), slice(1, 3)), (0, numpy.int32(2), numpy.int64(3))):
        assert_same(ours[key], x[key])
        ours[key] = 7.0
        x[key] = 7.0
        assert_same(ours, x)
    for key in (numpy.int64(3), numpy.uint64(2**63), (0, numpy.int64(-5)), (0, 0, 0, numpy.int64(0))):
        with pytest.raises((IndexError, OverflowError)) as expected:
            x[key]
        with pytest.raises(expected.type) as found:
            ours[key]
        assert str(found.value) == str(expected.value)


def test_vectors_are_sorted_where_they_lie():
    rng = numpy.random.default_rng(0)
    x = rng.integers(0, 50, (300, 40)).astype("f8")
    ours = computed(x)
    for part in (numpy.s_[:, 3], numpy.s_[::-1, 5], numpy.s_[4], numpy.s_[7, ::-2]):
        assert_same(np.argsort(ours[part], kind="stable"), numpy.argsort(x[part], kind="stable"))
        assert_same(np.argsort(ours[part], 0, "stable"), numpy.argsort(x[part], 0, "stable"))
    for wrong in ({"kind": "worst"}, {"axis": 1}, {"order": "a"}, {"kind": "stable", "stable": True}):
        with pytest.raises(ValueError) as expected:
            numpy.argsort(x[0], **wrong)
        with pytest.raises(ValueError) as found:
            np.argsort(ours[0], **wrong)
        assert str(found.value) == str(expected.value)
    dates = ours.astype("i8").astype("M8[s]")
    assert_same(np.argsort(dates[:, 1], kind="stable"), numpy.argsort(x[:, 1].astype("i8"), kind="stable"))
