"""Writes and updates sorted by region: the last of equal indices, values in order, regions that are cut."""

import numpy as np
import pytest

from oxinp._kernels.index import latest, regions, windows
from oxinp._ptx.types import from_dtype, i64
from tests.comparator import assert_same
from tests.kernels.machine import TINY_DEVICE, Session, machine


@pytest.fixture
def session():
    session = Session(machine())
    yield session
    session.close()


def add(k, x, y):
    del k
    return x + y


def write(session, x, index, values, **options):
    """Write to a vector; return the address of the report and what is in it."""
    report = session.machine.upload(np.zeros(2, np.int64))
    is_scalar = not isinstance(values, np.ndarray)
    plan = latest.latest(
        index.size, x.size, x.strides[0] // x.itemsize, from_dtype(x.dtype), i64, TINY_DEVICE, is_scalar=is_scalar,
        **options,
    )  # fmt: skip
    given = values if is_scalar else session.pointer(values)
    session.run(plan, [x], [session.pointer(index), given, report])
    return report, session.machine.download(report, 16).view(np.int64)


def update(session, x, index, values, **options):
    """Add to a vector; return the address of the report and what is in it."""
    report = session.machine.upload(np.zeros(2, np.int64))
    is_scalar = not isinstance(values, np.ndarray)
    plan = windows.update(
        index.size, x.size, x.strides[0] // x.itemsize, from_dtype(x.dtype), i64, add, TINY_DEVICE,
        is_scalar=is_scalar, **options,
    )  # fmt: skip
    given = int(np.array(values, x.dtype).view(f"u{x.itemsize}")) if is_scalar else session.pointer(values)
    session.run(plan, [x], [session.pointer(index), given, report])
    return report, session.machine.download(report, 16).view(np.int64)


@pytest.mark.parametrize(
    ("extent", "most", "expected"),
    [(1, 8, (8, 1, 1)), (256, 8, (8, 1, 1)), (257, 8, (8, 1, 2)), (1 << 20, 8, (8, 2, 4096)),
     (1 << 27, 11, (11, 2, 1 << 16)), (1 << 32, 11, (8, 3, 1 << 24)), ((1 << 20) + 1, 11, (11, 2, 513))],
)  # fmt: skip
def test_every_element_has_a_region(extent, most, expected):
    assert regions.regions_of(extent, most) == expected
    assert (expected[2] - 1) << expected[0] < extent <= expected[2] << expected[0]
    assert expected[2] <= 1 << 8 * expected[1]
    assert expected[0] + 8 * expected[1] <= 32


@pytest.mark.parametrize("dtype", [np.dtype(name) for name in ("?", "i2", "f4", "f8", "c16")], ids=str)
@pytest.mark.parametrize(("extent", "most"), [(700, 11), (3000, 2)], ids=str)
def test_the_last_of_equal_indices(session, extent, most, dtype):
    rng = np.random.default_rng(extent)
    x = np.zeros(extent, dtype)
    index = rng.integers(-extent, extent, 5000)
    values = rng.integers(0, 2 if dtype.kind == "b" else 100, 5000).astype(dtype)
    expected = x.copy()
    expected[index] = values
    assert not write(session, x, index, values, most=most)[1].any()
    assert_same(x, expected)


def test_one_number_for_all_and_strides(session):
    rng = np.random.default_rng(3)
    whole = rng.random((900, 2)).astype("f4")
    x, expected, index = whole[::-1, 1], whole.copy(), rng.integers(-900, 900, 500)
    expected[::-1, 1][index] = 1
    write(session, x, index, int(np.float32(1).view("u4")), most=4)
    assert_same(whole, expected)


@pytest.mark.parametrize("run", [write, update])
@pytest.mark.parametrize("beyond", [40, -41, 2**40])
def test_nothing_is_written_where_an_index_is_out_of_bounds(session, run, beyond):
    x, index = np.zeros(40), np.arange(700) % 40
    index[500] = beyond
    report, written = run(session, x, index, np.ones(700))
    assert_same(written, np.array([report, beyond]))
    assert_same(x, np.zeros(40))


@pytest.mark.parametrize("dtype", [np.dtype(name) for name in ("f2", "f4", "f8", "c8", "c16")], ids=str)
def test_values_in_order(session, dtype):
    rng = np.random.default_rng(dtype.num)
    x = (rng.random(1000) - 0.5).astype(dtype)
    index, values = rng.integers(-1000, 1000, 2000), (rng.random(2000) - 0.5).astype(dtype)
    index[::9] = 7
    expected = x.copy()
    np.add.at(expected, index, values)
    assert not update(session, x, index, values)[1].any()
    assert x.tobytes() == expected.tobytes()


def test_one_number_for_all_updates(session):
    rng = np.random.default_rng(4)
    whole = rng.random((600, 3))
    x, expected, index = whole[::-1, 1], whole.copy(), rng.integers(-600, 600, 1000)
    np.add.at(expected[::-1, 1], index, 0.1)
    update(session, x, index, 0.1)
    assert_same(whole, expected)


@pytest.mark.parametrize("piece", [32, 96])
def test_regions_that_are_cut(session, piece):
    rng = np.random.default_rng(piece)
    x = np.zeros(2000, "i8")
    index = np.where(rng.random(1500) < 0.5, 300, rng.integers(0, 2000, 1500))
    values = rng.integers(-100, 100, 1500)
    expected = x.copy()
    np.add.at(expected, index, values)
    update(session, x, index, values, piece=piece)
    assert_same(x, expected)
    found = []
    for _ in range(2):
        y = np.zeros(2000, "f4")
        update(session, y, index, values.astype("f4") / 7, piece=piece)
        found.append(y.tobytes())
    assert found[0] == found[1]
