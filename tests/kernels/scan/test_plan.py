"""Scans: every family and path, any layout, exact integers, sums close to the true ones, special values."""

import operator
from types import SimpleNamespace

import numpy as np
import pytest

from oxinp._kernels.plan import NUM_FLAGS, Fill, Launch
from oxinp._kernels.problem import Instr, ReduceOp
from oxinp._kernels.reduce.operators import compensated_sum, extremum_of_bytes, scannable
from oxinp._kernels.scan import plan as scan
from oxinp._ptx.types import from_dtype, i64, u8
from tests.comparator import assert_same
from tests.kernels.layouts import DTYPES, random_shape, random_values, random_view
from tests.kernels.machine import TINY_DEVICE, Session, machine, new_flags
from tests.kernels.operations import add, max_op
from tests.thinned import thinned

HOPPER = SimpleNamespace(num_sms=2, cc=(9, 0), max_shared_nbytes=48 * 1024, tuned=lambda _: None)


@pytest.fixture
def session():
    session = Session(machine())
    yield session
    session.close()


def product(_, a, b):
    return a * b


def scan_op(dtype):
    """The sum of an array of `dtype`, accumulated in itself; of booleans, whether there was one."""
    type_ = from_dtype(dtype)
    if dtype.kind == "b":
        return ReduceOp("any", type_, False, lambda _, a, b: a | b)
    return scannable(compensated_sum(type_)) if dtype.kind in "fc" else ReduceOp("sum", type_, 0, add)


def check(session, x, axis, output=None):
    output = np.empty(x.shape, x.dtype) if output is None else output
    plan = session.scan(x.shape, axis, [x], (), 0, scan_op(x.dtype), output)
    if x.dtype.kind == "b":
        assert_same(output, np.logical_or.accumulate(x, axis))
    elif x.dtype.kind in "iu":
        assert_same(output, np.add.accumulate(x, axis, x.dtype))
    else:
        wide = np.complex256 if x.dtype.kind == "c" else np.longdouble
        exact = np.cumsum(x.astype(wide), axis)
        # Rounded once, from a sum with an error of its own; and the error of the reference.
        eps, own = np.finfo(x.dtype).eps, np.finfo(wide).eps * x.shape[axis]
        bound = eps * np.abs(exact) * 0.51 + np.cumsum(np.abs(x), axis) * (eps * 1e-6 + own)
        assert (np.abs(output - exact) <= bound).all()
    return plan


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(5, 12))])
def test_any_layout_along_any_axis(session, dtype, seed):
    rng = np.random.default_rng([seed, dtype.num])
    shape = random_shape(rng)
    if not shape:
        return
    x, output = random_view(rng, shape, dtype), random_view(rng, shape, dtype)
    if len({step for step, n in zip(output.strides, shape, strict=True) if n > 1}) < sum(n > 1 for n in shape):
        output = np.empty(shape, dtype)
    if 0 in output.strides:
        output = np.empty(shape, dtype)
    check(session, x, int(rng.integers(len(shape))), output)


PATHS = [
    # shape, axis, family, launches
    ((1,), 0, "scan_rows", 1),
    ((3,), 0, "scan_rows", 1),
    ((1030,), 0, "scan_rows", 1),
    ((3500,), 0, "scan_rows", 1),
    ((40_003,), 0, "scan_chained", 1),
    ((2, 16_387), 1, "scan_chained", 1),
    ((40, 3000), 1, "scan_rows", 1),
    ((70, 20), 1, "scan_rows", 1),
    ((9000, 3), 0, "scan_chained", 1),
    ((300, 7), 1, "scan_columns", 1),
    ((12, 700), 0, "scan_columns", 1),
    ((300, 40), 0, "scan_chained_columns", 2),
    ((3000, 64), 0, "scan_chained_columns", 2),
    ((5, 300, 33), 1, "scan_chained_columns", 2),
    ((65, 256), 0, "scan_chained_columns", 2),
    ((4, 5, 6), 1, "scan_rows", 1),
]


@pytest.mark.parametrize(
    ("case", "dtype"), thinned(PATHS, [np.dtype(name) for name in ("f4", "f8", "i4", "c8")]), ids=str
)
def test_every_path(session, case, dtype):
    shape, axis, family, num_launches = case
    x = random_values(np.random.default_rng(0), shape, dtype)
    plan = check(session, x, axis)
    assert {step.kernel.name for step in plan.steps if isinstance(step, Launch)} == {family}
    assert (plan.scratch_nbytes > 0) == (len(plan.steps) == 2)
    if dtype == np.float32:
        assert len(plan.steps) == num_launches


@pytest.mark.parametrize("device", [TINY_DEVICE, HOPPER], ids=["sm_80", "sm_90"])
def test_what_scans_before_have_left(session, monkeypatch, device):
    """Scans of any sizes and types leave marks for each other, which begin at any number."""
    monkeypatch.setattr(scan, "MAX_ITEMS", 3)
    session.device, session.flags = device, new_flags(session.machine)
    for number in (0, 1 << 31, (1 << 32) - 2):
        session.machine.write(session.flags + 4 * NUM_FLAGS, np.array([0, number], np.uint32))
        shapes = (("f4", (40_003,)), ("c16", (9000,)), ("i4", (2, 16_387)), ("f8", (40_003,)), ("f4", (40_003,)))
        for i, (dtype, shape) in enumerate(shapes):
            rng = np.random.default_rng(i)
            check(session, random_values(rng, shape, np.dtype(dtype)), len(shape) - 1)
            left = session.machine.download(session.flags + 4 * NUM_FLAGS, 8).view(np.uint32)
            assert left.tolist() == [0, (number + i + 1) % (1 << 32)]
    session.machine.free(session.flags)


def test_more_totals_than_marks(session, monkeypatch):
    monkeypatch.setattr(scan, "MARKS_NBYTES", 500)
    plan = check(session, random_values(np.random.default_rng(0), (40_003,), np.dtype("f4")), 0)
    assert [type(step) for step in plan.steps] == [Fill, Launch]


@pytest.mark.parametrize(
    "dtype", [np.dtype(name) for name in ("?", "i1", "i4", "i8", "f4", "f8", "c8", "c16")], ids=str
)
@pytest.mark.parametrize("shape", [(9000,), (3, 1300), (2, 257)])
def test_levels_of_sums(session, monkeypatch, shape, dtype):
    monkeypatch.setattr(scan, "MAX_ITEMS", 1)
    monkeypatch.setattr(scan, "UNITS_PER_LANE", 0)
    plan = check(session, random_values(np.random.default_rng(5), shape, dtype), len(shape) - 1)
    assert {step.kernel.name for step in plan.steps if isinstance(step, Launch)} == {"scan_chained"}


@pytest.mark.parametrize(
    ("dtype", "shape"), [("f8", (300_001,)), ("f4", (3, 40_000)), ("i8", (2, 50_002)), ("i4", (9000,))]
)
def test_totals_ahead(session, monkeypatch, dtype, shape):
    monkeypatch.setattr(scan, "MAX_ITEMS", 1)
    session.device = HOPPER
    plan = check(session, random_values(np.random.default_rng(7), shape, np.dtype(dtype)), len(shape) - 1)
    (launch,) = [step for step in plan.steps if isinstance(step, Launch)]
    assert launch.kernel.name == "scan_ahead"
    *_, lag, num_tiles = launch.constants
    assert launch.grid == (lag + num_tiles, 1, 1)


@pytest.mark.parametrize("dtype", [np.dtype(name) for name in ("i1", "f4", "f8")], ids=str)
def test_levels_of_sums_of_columns(session, monkeypatch, dtype):
    monkeypatch.setattr(scan, "MAX_VALUE_NBYTES", 1)
    x = random_values(np.random.default_rng(6), (1300, 34), dtype)
    plan = check(session, x, 0)
    (launch,) = [step for step in plan.steps if isinstance(step, Launch)]
    assert launch.kernel.name == "scan_chained_columns"
    assert len([param for param in launch.kernel.params if param.name.startswith("level")]) == 3


@pytest.mark.parametrize("shape", [(70_001,), (513, 130)])
def test_the_same_call_gives_the_same_bits(session, shape):
    x = random_values(np.random.default_rng(1), shape, np.dtype("f4"))
    results = [np.empty(shape, np.float32) for _ in range(2)]
    for output in results:
        session.scan(shape, 0, [x], (), 0, scan_op(x.dtype), output)
    assert_same(*results)


def test_sums_are_rounded_once(session):
    rng = np.random.default_rng(2)
    x = (rng.standard_normal(30_000) * 10.0 ** rng.integers(-8, 9, 30_000)).astype(np.float32)
    output = np.empty_like(x)
    session.scan(x.shape, 0, [x], (), 0, scan_op(x.dtype), output)
    exact = np.cumsum(x.astype(np.longdouble))
    assert (np.abs(output - exact) <= 0.5000001 * np.spacing(np.abs(output))).all()


@pytest.mark.parametrize("dtype", [np.dtype("f4"), np.dtype("f8"), np.dtype("c8")], ids=str)
@pytest.mark.parametrize("shape", [(9,), (5000,), (100, 40)])
def test_special_values(session, dtype, shape):
    for specials in [(np.inf,), (-np.inf,), (np.inf, -np.inf), (np.nan,), (np.nan, np.inf)]:
        x = random_values(np.random.default_rng(3), shape, dtype)
        x.reshape(-1)[2 : 2 + len(specials)] = specials
        for axis in range(x.ndim):
            output = np.empty_like(x)
            session.scan(shape, axis, [x], (), 0, scan_op(dtype), output)
            with np.errstate(invalid="ignore"):
                expected = np.cumsum(x, axis)
            for ours, numpys in ((output.real, expected.real), (output.imag, expected.imag)):
                finite = np.isfinite(numpys)
                assert np.array_equal(finite, np.isfinite(ours))
                assert_same(ours[~finite], numpys[~finite])


def test_zeros_keep_their_signs(session):
    x = np.full(3000, -0.0)
    x[2000] = 0.0
    output = np.empty_like(x)
    session.scan(x.shape, 0, [x], (), 0, scan_op(x.dtype), output)
    assert_same(output, np.cumsum(x))


def test_products_of_complex_numbers_begin_with_the_first(session):
    x = np.array([complex(-0.0, 0.0), 1j, complex(np.inf, 0), 1], np.complex128)[[2, 3, 3, 0]]
    output = np.empty_like(x)
    op = scannable(ReduceOp("prod", from_dtype(x.dtype), 1, product))
    session.scan(x.shape, 0, [x], (), 0, op, output)
    assert_same(output[:1], x[:1])


@pytest.mark.parametrize("is_max", [True, False])
def test_extrema(session, is_max):
    rng = np.random.default_rng(4)
    x = rng.integers(0, 256, (3, 7001), np.uint8)
    output = np.empty_like(x)
    session.scan(x.shape, 1, [x], (), 0, extremum_of_bytes(u8, 0 if is_max else 255, is_max=is_max), output)
    assert_same(output, (np.maximum if is_max else np.minimum).accumulate(x, 1))
    y = rng.standard_normal((300, 40))
    output = np.empty_like(y)
    session.scan(y.shape, 0, [y], (), 0, max_op(y.dtype), output)
    assert_same(output, np.maximum.accumulate(y, 0))


def test_chains_with_indices_scalars_and_broadcasts(session):
    rng = np.random.default_rng(5)
    x, row = rng.integers(-9, 9, (90, 300)), rng.integers(-9, 9, 300)

    def at(k, index, value):
        return k.cast(index, i64) * value

    at.wants_index = True
    instrs = (
        Instr(lambda _, a, b: operator.add(a, b), i64, (0, 1)),
        Instr(lambda _, a, b: operator.mul(a, b), i64, (3, 2)),
        Instr(at, i64, (4,)),
    )
    inputs = [x, np.broadcast_to(row, x.shape), np.int64(3)]
    expected = (x + row) * 3 * np.arange(x.size).reshape(x.shape)
    for axis in (0, 1):
        output = np.empty_like(x)
        session.scan(x.shape, axis, inputs, instrs, 5, scan_op(x.dtype), output)
        assert_same(output, np.cumsum(expected, axis))


def test_no_elements(session):
    for shape in ((0,), (3, 0), (0, 3)):
        plan = session.scan(shape, 0, [np.empty(shape)], (), 0, scan_op(np.dtype("f8")), np.empty(shape))
        assert plan.steps == ()
