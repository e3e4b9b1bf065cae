"""Sums at indices in any order: those of integers wrap, those of floats are exact but for one rounding."""

import math

import numpy as np
import pytest

from oxinp._kernels.index import buckets, sums
from oxinp._ptx.types import f32, f64, from_dtype, i32, i64
from tests.comparator import assert_same
from tests.kernels.machine import TINY_DEVICE, Session, machine
from tests.thinned import thinned

SHIFT = 7


@pytest.fixture
def session():
    session = Session(machine())
    yield session
    session.close()


def add(session, x, index, values, shift=SHIFT, **options):
    """Add to a vector; return the address of the report and what is in it."""
    report = session.machine.upload(np.zeros(2, np.int64))
    is_scalar = not isinstance(values, np.ndarray)
    plan = sums.add(
        index.size, x.size, x.strides[0] // x.itemsize, shift, from_dtype(x.dtype), from_dtype(index.dtype),
        is_scalar=is_scalar, items=1, **options,
    )  # fmt: skip
    given = int(np.array(values, x.dtype).view(f"u{x.itemsize}")) if is_scalar else session.pointer(values)
    session.run(plan, [x], [session.pointer(index), given, report])
    return report, session.machine.download(report, 16).view(np.int64)


def exact(x, index, values):
    """The sums in extended precision, rounded once."""
    wide = x.astype("g")
    np.add.at(wide, index, values)
    with np.errstate(over="ignore"):
        return wide.astype(x.dtype)


@pytest.mark.parametrize(("piece", "dtype", "index_dtype"), thinned([0, 600], ["i4", "u4", "i8", "u8"], ["i8", "i4"]))
def test_integers(session, dtype, index_dtype, piece):
    rng, info = np.random.default_rng(piece), np.iinfo(dtype)
    x = rng.integers(info.min, info.max, 1000, dtype)
    index, values = rng.integers(-1000, 1000, 3000).astype(index_dtype), rng.integers(info.min, info.max, 3000, dtype)
    index[::3] = 17
    expected = x.copy()
    np.add.at(expected, index, values)
    assert not add(session, x, index, values, piece=piece)[1].any()
    assert_same(x, expected)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("piece", "scale"), [(0, 5), (600, 5), (0, 2.0**20), (0, -0.0)])
def test_floats_are_rounded_once(session, dtype, piece, scale):
    rng = np.random.default_rng(piece)
    x = (rng.standard_normal(1000) * scale).astype(dtype)  # far from values, or negative zeros, they take another way
    index = rng.integers(-1000, 1000, 3000)
    index[::3] = 17
    values = (rng.standard_normal(3000) * 2.0 ** rng.integers(-3, 3, 3000)).astype(dtype)
    added = [values[index % 1000 == i].tolist() for i in range(1000)]
    expected = np.array([math.fsum([there, *more]) if more else there for there, more in zip(x, added, strict=True)])
    assert not add(session, x, index, values, piece=piece)[1].any()
    assert x.tobytes() == expected.astype(dtype).tobytes()


@pytest.mark.parametrize(("run", "is_scalar", "dtype"), thinned([1, 5, 300], [True, False], ["i4", "i8", "f4", "f8"]))
def test_updates_in_order(session, run, is_scalar, dtype):
    rng = np.random.default_rng(run)
    index = np.sort(rng.integers(0, 6000 // run, 6000))
    x, values = np.zeros(6000 // run, dtype), (rng.standard_normal(6000) * 99).astype(dtype)
    expected = exact(x, index, 3 if is_scalar else values)
    assert not add(session, x, index, 3 if is_scalar else values)[1].any()
    assert_same(x, expected)


@pytest.mark.parametrize("dtype", ["i4", "f4", "f8"])
def test_more_buckets_than_most_kernels_count(session, dtype):
    rng = np.random.default_rng(5)
    x, index, values = np.zeros(700, dtype), rng.integers(-700, 700, 4000), rng.integers(-99, 99, 4000).astype(dtype)
    expected = x.copy()
    np.add.at(expected, index, values)
    assert buckets.FEW < x.size >> 1 <= buckets.MANY
    assert not add(session, x, index, values, shift=1)[1].any()
    assert_same(x, expected)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_order_does_not_matter(session, dtype):
    rng = np.random.default_rng(1)
    index, found = rng.integers(0, 1500, 2000), []
    index %= 700
    values = (rng.standard_normal(2000) * 10.0 ** rng.integers(-20, 20, 2000)).astype(dtype)
    for order in (slice(None), rng.permutation(2000)):
        x = np.zeros(1500, dtype)
        add(session, x, index[order].copy(), values[order].copy())
        found.append(x.tobytes())
    assert found[0] == found[1]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("piece", [0, 512])
def test_what_is_no_plain_number(session, dtype, piece):
    info = np.finfo(dtype)
    tiny, huge = info.smallest_subnormal, info.max
    cases = [  # what is there, what is added
        (-0.0, [-0.0, -0.0]), (-0.0, [0.0]), (0.0, [-0.0]), (-0.0, []), (1.5, [-1.5]), (tiny, [tiny, tiny]),
        (info.tiny, [-tiny]), (huge, [huge]), (-huge, [-huge, 1]), (huge, [huge / 2, -huge]), (1, [np.inf]),
        (1, [-np.inf, 2]), (np.inf, [-np.inf]), (np.inf, [1]), (np.nan, [1]), (1, [np.nan, np.inf]), (huge, [-huge]),
        (1, [info.eps / 2]), (1, [info.eps / 2, tiny]), (1, [info.eps]), (-1, [-info.eps / 2, -info.eps / 4]),
        (1e-30, [1e30, -1e30]), (tiny, [1, -1]), (3 * tiny, [-5 * tiny]),
    ]  # fmt: skip
    x = np.array([there for there, _ in cases], dtype)
    index = np.repeat(np.arange(len(cases)), [len(added) for _, added in cases])
    values = np.array([each for _, added in cases for each in added], dtype)
    if piece:  # so many that the bucket is cut
        index, values = np.append(index, np.full(1500, len(cases))), np.append(values, np.full(1500, 0.1, dtype))
        x = np.append(x, dtype == "f8").astype(dtype)
    with np.errstate(invalid="ignore"):
        expected = exact(x, index, values)
    lost = cases.index((1e-30, [1e30, -1e30])), cases.index((tiny, [1, -1]))
    expected[list(lost)] = 0, 0  # less than the smallest part of what the largest addend counts in
    add(session, x, index, values, piece=piece)
    assert_same(x, expected)


@pytest.mark.parametrize("dtype", ["i4", "i8", "f4", "f8"])
def test_one_number_for_all_and_strides(session, dtype):
    rng = np.random.default_rng(4)
    whole = rng.integers(0, 9, (600, 3)).astype(dtype)
    x, expected, index = whole[::-1, 1], whole.copy(), rng.integers(-600, 600, 1000)
    np.add.at(expected[::-1, 1], index, 3)
    add(session, x, index, 3)
    assert_same(whole, expected)


@pytest.mark.parametrize("dtype", ["i8", "f4"])
@pytest.mark.parametrize("beyond", [40, -41, 2**40])
def test_nothing_is_added_where_an_index_is_out_of_bounds(session, dtype, beyond):
    x, index = np.zeros(40, dtype), np.arange(700) % 40
    index[500] = beyond
    report, written = add(session, x, index, np.ones(700, dtype), piece=256)
    assert_same(written, np.array([report, beyond]))
    assert_same(x, np.zeros(40, dtype))


def test_long_runs_and_empty_buckets(session):
    x, index = np.zeros(60_000, "i4"), np.full(700, 59_990)
    index[::5] = 3
    expected = x.copy()
    np.add.at(expected, index, 1)
    for room in (8, 7):  # fewer and more buckets than fit few counters
        y = x.copy()
        add(session, y, index, np.ones(700, "i4"), shift=room, piece=512)
        assert_same(y, expected)


@pytest.mark.parametrize("dtype", ["i4", "f4"])
def test_few_elements_are_shared_by_many_blocks(session, monkeypatch, dtype):
    monkeypatch.setattr(sums, "MIN_PIECE", 1)
    x, index, values = np.zeros(2, dtype), np.arange(3000) % 2, np.arange(3000).astype(dtype)
    plan = sums.add(3000, 2, 1, 0, from_dtype(x.dtype), i64, is_scalar=False, items=1)
    assert plan.steps[-1].grid[0] > sums.NUM_PARTS // 4
    add(session, x, index, values, shift=0)
    assert_same(x, np.array([values[::2].sum(dtype="f8"), values[1::2].sum(dtype="f8")], dtype))


def test_where_sums_are_grouped():
    assert sums.shift_of(1 << 24, 1 << 20, i32, TINY_DEVICE) == 12
    assert sums.shift_of(1 << 24, 1 << 20, f32, TINY_DEVICE) == 11
    assert sums.shift_of(1 << 24, 1 << 20, f64, TINY_DEVICE) == 11
    assert sums.shift_of(1 << 24, 1 << 23, f64, TINY_DEVICE) is None
    assert sums.shift_of(1 << 12, 1 << 8, i32, TINY_DEVICE) is None
    assert sums.shift_of(1 << 24, 3, i32, TINY_DEVICE) == 0
    assert sums.shift_of(1 << 24, 3, f32, TINY_DEVICE) is None
    assert sums.shift_of(1 << 24, 1 << 20, from_dtype(np.dtype("c8")), TINY_DEVICE) is None
    assert sums.shift_of(buckets.MAX_COUNT, 1 << 20, i64, TINY_DEVICE) is None
