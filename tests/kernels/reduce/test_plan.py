import math
import operator
from types import SimpleNamespace

import numpy as np
import pytest

from oxinp._kernels.elementwise import access
from oxinp._kernels.plan import FLAGS, SCRATCH, outputs
from oxinp._kernels.problem import Instr, Operand
from oxinp._kernels.reduce import columns, passes, rows
from oxinp._kernels.reduce.operators import extremum_of_bytes
from oxinp._kernels.reduce.plan import Reduction
from oxinp._ptx.types import f64, from_dtype, i64
from tests.comparator import assert_same, assert_within
from tests.kernels.layouts import DTYPES, random_shape, random_values, random_view
from tests.kernels.machine import Session, machine, new_flags
from tests.kernels.operations import add, max_op, sum_op
from tests.thinned import thinned
from tests.tolerances import REDUCTIONS


@pytest.fixture
def session():
    session = Session(machine())
    yield session
    session.close()


def reduce(session, x, axes, op, output, *, inputs=None, instrs=(), value=0):
    return session.reduce(x.shape, axes, [x] if inputs is None else inputs, instrs, value, op, output)


def check_sum(session, x, axes, output=None):
    expected = np.asarray(np.sum(x, axis=axes))
    output = np.empty(expected.shape, expected.dtype) if output is None else output
    plan = reduce(session, x, axes, sum_op(x.dtype), output)
    if expected.dtype.kind in "fc":
        assert_within(output, expected, REDUCTIONS["sum"].bound(x, axes, keepdims=False))
    else:
        assert_same(output, expected)
    return plan


def check_max(session, x, axes):
    expected = np.asarray(np.max(x, axis=axes))
    output = np.empty(expected.shape, expected.dtype)
    plan = reduce(session, x, axes, max_op(x.dtype), output)
    assert_within(output, expected, 0.0)
    return plan


MULTIPLIED = Instr(lambda k, x, y: k.mul(x, y), f64, (0, 1))


def random_axes(rng, ndim):
    return tuple(int(d) for d in np.flatnonzero(rng.random(ndim) < 0.5))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 16))])
def test_any_layout_over_any_axes(session, dtype, seed):
    rng = np.random.default_rng([seed, dtype.num])
    shape = random_shape(rng)
    x = random_view(rng, shape, dtype)
    axes = random_axes(rng, len(shape))
    check_sum(session, x, axes)
    check_max(session, x, axes)


FAMILIES = [
    # shape, axes, family, launches
    ((4099,), (0,), rows, 1),
    ((300_003,), (0,), rows, 2),
    ((3, 300_000), (1,), rows, 2),
    ((40, 5000), (1,), rows, 1),
    ((700, 100), (1,), rows, 1),
    ((3000, 64), (0,), columns, 2),
    ((3000, 65), (0,), columns, 2),
    ((12, 700), (0,), columns, 1),
    ((300, 3), (1,), rows, 1),
    ((300, 4), (1,), rows, 1),
    ((301, 9), (1,), rows, 1),
    ((77, 30), (1,), rows, 1),
    ((5, 400, 6, 64), (1, 2), columns, 2),
    ((6, 200, 5, 40), (1, 3), rows, 1),
    ((90_000, 3), (0,), columns, 2),  # rows side by side
    ((70_001, 3), (0,), rows, 2),  # of which no number divides 70 001
    ((20, 30), (), columns, 1),
]


@pytest.mark.parametrize(
    ("case", "dtype"),
    thinned(FAMILIES, [np.dtype("f4"), np.dtype("f8"), np.dtype("i4")]),
    ids=lambda each: str(each[:2]) if isinstance(each, tuple) else str(each),
)
def test_every_path(session, case, dtype):
    shape, axes, family, num_launches = case
    x = random_values(np.random.default_rng(0), shape, dtype)
    for plan in (check_sum(session, x, axes), check_max(session, x, axes)):
        assert plan.steps[0].kernel.name == {rows: "reduce_rows", columns: "reduce_columns"}[family]
        assert len(plan.steps) == num_launches
        assert (plan.scratch_nbytes > 0) == (num_launches == 2)


def test_a_second_pass_is_the_last(session):
    session.device = SimpleNamespace(num_sms=64, cc=(9, 0), max_shared_nbytes=48 * 1024, tuned=lambda _: None)
    x = random_values(np.random.default_rng(0), (60_000, 32), np.dtype("i4"))
    plan = check_sum(session, x, (0,))
    assert plan.scratch_nbytes > 400 * 32 * 8


DEVICE = SimpleNamespace(num_sms=64, cc=(9, 0), max_shared_nbytes=48 * 1024, tuned=lambda _: None)


@pytest.mark.parametrize(
    ("dtype", "shape"), thinned(DTYPES, [(2500, 48), (3001, 70), (2999, 130), (1500, 1003)]), ids=str
)
def test_the_last_block_of_a_tile_joins_chunks(session, dtype, shape):
    session.device, session.flags = DEVICE, new_flags(session.machine)
    x = random_values(np.random.default_rng(2), shape, dtype)
    x = x / np.float16(64) if dtype == np.float16 else x  # whose sums are finite
    for given, is_strided in ((x, False), (x[:, :-1], False), (x, True)):
        expected = np.asarray(np.sum(given, axis=0))
        target = np.empty((len(expected), 3), expected.dtype)[:, 1] if is_strided else np.empty_like(expected)
        operation = sum_op(given.dtype)
        plan = session.reduce(given.shape, (0,), [given], (), 0, operation, target, has_flags=True)
        (launch,) = plan.steps
        assert launch.arguments[:3] == (*outputs(1), SCRATCH, FLAGS)
        assert plan.scratch_nbytes > 0
        if expected.dtype.kind in "fc":
            assert_within(target, expected, REDUCTIONS["sum"].bound(given, (0,), keepdims=False))
        else:
            assert_same(target, expected)
        first = target.copy()
        session.reduce(given.shape, (0,), [given], (), 0, operation, target, has_flags=True)
        assert_same(target, first)


def test_chunks_of_several_kept_loops_and_of_folded_rows_are_joined_by_a_second_launch(session):
    session.device = DEVICE
    for shape, axes in (((5, 4000, 6, 64), (1, 2)), ((90_000, 3), (0,)), ((20, 1 << 17), (1,))):
        x = random_values(np.random.default_rng(3), shape, np.dtype("i4"))
        expected = x.sum(axis=axes, dtype=np.int64)
        target = np.empty(expected.shape, expected.dtype)
        plan = session.reduce(x.shape, axes, [x], (), 0, sum_op(x.dtype), target, has_flags=True)
        assert_same(target, expected)
        assert not any(FLAGS in step.arguments for step in plan.steps)


@pytest.mark.parametrize("shape", [(70_001,), (513, 130), (130, 513)])
def test_the_same_call_gives_the_same_bits(session, shape):
    x = random_values(np.random.default_rng(1), shape, np.dtype("f8"))
    for axes in [(0,), tuple(range(len(shape)))]:
        results = []
        for _ in range(2):
            output = np.empty(np.shape(x.sum(axes)))
            reduce(session, x, axes, sum_op(x.dtype), output)
            results.append(output)
        assert_same(*results)


@pytest.mark.parametrize("shape", [(200_000,), (2, 90_000), (20_000, 64)])
def test_sums_are_better_than_pairwise(session, shape):
    rng = np.random.default_rng(2)
    for dtype, roundings in [(np.dtype("f4"), 1), (np.dtype("f8"), 24)]:
        x = (rng.standard_normal(shape) * 10.0 ** rng.integers(-8, 9, shape)).astype(dtype)
        axis = 0 if shape[0] > 2 else 1
        output = np.empty(np.shape(x.sum(axis)), dtype)
        reduce(session, x, (axis,), sum_op(dtype), output)
        columns_of_x = np.moveaxis(x, axis, -1).reshape(-1, shape[axis])
        for result, values in zip(output.reshape(-1), columns_of_x, strict=True):
            exact = math.fsum(values.tolist())
            bound = roundings * float(np.finfo(dtype).eps) / 2
            magnitude = abs(exact) if dtype == np.float32 else math.fsum(np.abs(values).tolist())
            assert abs(float(result) - exact) <= bound * magnitude + 1e-12 * abs(exact) * (dtype == np.float32)


@pytest.mark.parametrize("dtype", [np.dtype("f4"), np.dtype("f8")], ids=str)
@pytest.mark.parametrize("shape", [(9,), (5000,), (100, 40)])
def test_infinities_and_nans(session, dtype, shape):
    for specials in [(np.inf,), (-np.inf,), (np.inf, -np.inf), (np.nan,), (np.nan, np.inf), (0.0, -0.0)]:
        x = random_values(np.random.default_rng(3), shape, dtype)
        x.reshape(-1)[2 : 2 + len(specials)] = specials
        axes = tuple(range(x.ndim))
        with np.errstate(invalid="ignore"):
            check_sum(session, x, axes)
            check_sum(session, x, (0,))
            check_max(session, x, axes)
            check_max(session, x, (0,))


@pytest.mark.filterwarnings("ignore:overflow")
def test_overflow_and_zeros(session):
    check_sum(session, np.full(3000, np.float64(1e308)), (0,))
    check_sum(session, np.full(3000, np.float32(1e38)), (0,))
    check_sum(session, np.full(3000, 2**30, np.int32), (0,))
    check_sum(session, np.full(3000, 2**62, np.int64), (0,))
    assert_same(np.sum(np.full(70, -0.0)), np.float64(0.0))
    output = np.empty(())
    reduce(session, np.full(70, -0.0), (0,), sum_op(np.dtype("f8")), output)
    assert_same(output, np.zeros(()))


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0)])
def test_no_elements(session, shape, axes):
    x = np.empty(shape)
    expected = np.asarray(np.sum(x, axis=axes))
    output = np.full(expected.shape, 7.0)
    plan = reduce(session, x, axes, sum_op(x.dtype), output)
    assert_same(output, expected)
    assert len(plan.steps) == (expected.size > 0)


@pytest.mark.parametrize("seed", range(10))
def test_wide_indices(session, seed, monkeypatch):
    monkeypatch.setattr(access, "MAX_INDEX_32", 0)
    rng = np.random.default_rng(seed)
    shape = [(3000, 64), (70_000,), (300, 9)][seed] if seed < 3 else random_shape(rng)
    x = random_view(rng, shape, np.dtype("i4"))
    plan = check_sum(session, x, random_axes(rng, len(shape)) if seed >= 3 else (0,))
    assert all(".param .s64 num_rows" in launch.kernel.ptx for launch in plan.steps)


def subtract(_, a, b):
    return a - b


def times_index(k, index, a):
    return k.cast(index, a.type) * a


times_index.wants_index = True


@pytest.mark.parametrize("seed", range(10))
def test_chains_before_and_strides_behind(session, seed):
    rng = np.random.default_rng(seed)
    shape = random_shape(rng, max_ndim=4)
    axes = random_axes(rng, len(shape))
    a, b = (random_view(rng, shape, np.dtype("i8")) for _ in range(2))
    instrs = [Instr(subtract, i64, (0, 1)), Instr(times_index, i64, (3,)), Instr(subtract, i64, (4, 2))]
    index = np.arange(math.prod(shape)).reshape(shape)
    expected = np.asarray(np.sum((a - b) * index - 7, axis=axes))
    output = random_view(rng, expected.shape, np.dtype("i8"), may_broadcast=False)
    session.reduce(shape, axes, [a, b, np.int64(7)], instrs, 5, sum_op(np.dtype("i8")), output)
    assert_same(output, expected)


def test_a_sum_of_comparisons_counts(session):
    x = random_values(np.random.default_rng(4), (60, 90), np.dtype("f4"))
    instrs = [Instr(lambda _, a: operator.gt(a, 0.0), from_dtype(np.dtype("?")), (0,))]
    output = np.empty(60, np.int64)
    session.reduce(x.shape, (1,), [x], instrs, 1, sum_op(np.dtype("?")), output)
    assert_same(output, np.sum(x > 0, axis=1))


@pytest.mark.parametrize("dtype", [np.dtype("i1"), np.dtype("u1")], ids=str)
@pytest.mark.parametrize("is_max", [True, False])
def test_extrema_of_bytes(session, dtype, is_max):
    rng = np.random.default_rng(5)
    info = np.iinfo(dtype)
    op = extremum_of_bytes(from_dtype(dtype), int(info.min if is_max else info.max), is_max=is_max)
    for low, high in ((info.min, info.max), (info.max - 3, info.max), (info.min, info.min + 3)):
        for shape, axes in (((70_003,), (0,)), ((40, 333), (1,)), ((333, 64), (0,)), ((1,), (0,)), ((9, 7), (0, 1))):
            x = rng.integers(low, high, shape, dtype, endpoint=True)
            expected = np.asarray((np.max if is_max else np.min)(x, axis=axes))
            output = np.empty(expected.shape, dtype)
            reduce(session, x, axes, op, output)
            assert_same(output, expected)


def test_arrays_of_an_element_per_row_do_not_decide(session):
    """A matrix and several columns of one element per row: lanes go along the rows."""
    rng = np.random.default_rng(0)
    x, columns_ = rng.standard_normal((64, 96)), [rng.standard_normal((64, 1)) for _ in range(3)]
    inputs = [x, *[np.broadcast_to(column, x.shape) for column in columns_]]
    instrs = [Instr(add, from_dtype(x.dtype), (3 + i if i else 0, i + 1)) for i in range(3)]
    output = np.empty(64)
    plan = reduce(session, x, (1,), sum_op(x.dtype), output, inputs=inputs, instrs=instrs, value=6)
    assert [step.kernel.name for step in plan.steps] == ["reduce_rows"]
    np.testing.assert_allclose(output, (x + sum(columns_)).sum(1), rtol=1e-12)


def test_two_loops_are_those_that_collapsing_finds(monkeypatch):
    """A matrix that lies anyhow is reduced by the very launches that its loops, collapsed, are."""
    rng = np.random.default_rng(5)
    planner = Reduction([(f64, True), (f64, True)], (MULTIPLIED,), 2, sum_op(np.dtype("d")), f64)
    taken = passes.pair
    count = 0
    for _ in range(2000):
        shape = tuple(int(n) for n in rng.choice([1, 2, 3, 31, 32, 64, 65, 1400], 2))
        axis = int(rng.integers(2))
        given = [
            tuple(int(s) for s in rng.choice([0, 1, 2, 16, 17, 1024, -3], 2, p=[0.2, 0.3, 0.1, 0.1, 0.1, 0.15, 0.05]))
            for _ in range(2)
        ]
        arrays = [Operand(f64, steps, int(rng.choice([8, 16, 256]))) for steps in given]
        output = Operand(f64, (int(rng.choice([1, 5])),))
        with monkeypatch.context() as patch:
            patch.setattr(passes, "pair", lambda *_: None)
            expected = planner.choose(shape, (axis,), arrays, output, 132)
        assert planner.choose(shape, (axis,), arrays, output, 132) == expected
        count += taken(shape, axis, arrays, output) is not None
    assert count > 900
