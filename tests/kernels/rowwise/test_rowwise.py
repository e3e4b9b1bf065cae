"""Row-wise kernels give the bits of the kernels that compute the same in several launches."""

from types import SimpleNamespace

import numpy as np
import pytest

from oxinp._kernels.problem import Instr, Output
from oxinp._kernels.reduce.operators import compensated_sum, mean, moments
from oxinp._kernels.reduce.plan import Reduction
from oxinp._kernels.rowwise import plan as rowwise
from oxinp._kernels.rowwise import sharing
from oxinp._kernels.rowwise.program import Program, RowReduction
from oxinp._ptx.math import exponential
from oxinp._ptx.types import f32, f64, from_dtype
from tests.kernels.machine import REQUIRE_GPU, Session, machine
from tests.kernels.operations import max_op

SINGLE = SimpleNamespace(num_sms=1, cc=(8, 0), max_shared_nbytes=48 * 1024, tuned=lambda _: None)


def subtract(_, a, b):
    return a - b


def divide(_, a, b):
    return a / b


def exp(k, a):
    return exponential.exp(k, a)


def scaled(k, a, b, c):
    return k.fma(a, b, c)


def variance(_, count, squares, ddof):
    return squares / (count - ddof)


@pytest.fixture
def session():
    session = Session(machine())
    yield session
    session.close()


class Case:
    """A row program that is built step by step, each step computed by the kernels that there are for it alone."""

    def __init__(self, session, inputs, num_axes=1, device=None):
        self.session, self.arrays, self.num_axes = session, inputs, num_axes
        self.device = session.device if device is None else device
        self.shape = np.broadcast_shapes(*[x.shape for x in inputs if isinstance(x, np.ndarray)])
        self.values = list(inputs)
        self.items = []
        self.walks = []

    def instr(self, lower, dtype, *args):
        """Append an instruction, computed by an elementwise kernel; return its number."""
        given = [self.whole(self.values[a]) for a in args]
        result = np.empty(self.shape, dtype)
        instr = Instr(lower, from_dtype(result.dtype), tuple(range(len(args))))
        self.session.elementwise(self.shape, given, [instr], [(len(args), result)])
        self.values.append(result)
        self.items.append(Instr(lower, instr.type, args))
        return len(self.values) - 1

    def whole(self, x):
        return np.broadcast_to(x, self.shape) if isinstance(x, np.ndarray) else x

    def reduction(self, op, dtype, value, *parameters, mask=None):
        """Append a reduction, computed by the kernels of reductions; return its number."""
        axes = tuple(range(len(self.shape) - self.num_axes, len(self.shape)))
        kept = self.shape[: len(self.shape) - self.num_axes]
        result = np.empty((*kept, *(1,) * self.num_axes), dtype)
        flat = result.reshape(kept)
        taken = [self.whole(self.values[value])] + ([] if mask is None else [self.whole(self.values[mask])])
        given = [*taken, *[self.values[p] for p in parameters]]
        operands, pointers = self.session.inputs(given)
        types = [(x.type, isinstance(y, np.ndarray)) for x, y in zip(operands, given, strict=True)]
        planner = Reduction(types, (), 0, op, from_dtype(result.dtype), None if mask is None else 1)
        arrays, target = operands[: len(taken)], self.session.operand(flat)
        self.session.run(planner.plan(self.shape, axes, arrays, target, self.device), [flat], pointers)
        walk = rowwise.walk_of(planner.passes(self.shape, axes, arrays, target, self.device))
        self.walks.append(walk)
        self.values.append(result)
        if walk is not None:
            type_ = from_dtype(result.dtype)
            *_, batch, is_short, join = walk
            self.items.append(RowReduction(value, op, type_, batch, is_short, join, mask, parameters))
        return len(self.values) - 1

    def run(self, *numbers):
        """Compute values by a row-wise kernel; return the Spec. They have the very bits that there were before."""
        expected = [self.values[n] for n in numbers]
        results = [np.empty_like(x) for x in expected]
        operands, pointers = self.session.inputs([self.whole(x) for x in self.arrays])
        targets = [Output(n, self.session.operand(self.whole(x))) for n, x in zip(numbers, results, strict=True)]
        assert len({walk.common for walk in self.walks}) == 1
        problem = (self.shape, self.num_axes, operands, self.items, targets, self.walks[0], self.device)
        found = rowwise.choose(*problem)
        if found is None:
            return None
        self.session.run(rowwise.plan(*problem), results, pointers)
        for result, other in zip(results, expected, strict=True):
            assert result.tobytes() == other.tobytes()
        return found[0]


def draw(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) * 3).astype(dtype)


def softmax(case, dtype):
    """Append a softmax of input 0; return the numbers of the exponentials and of the result."""
    type_ = np.dtype(dtype)
    greatest = case.reduction(max_op(type_), dtype, 0)
    e = case.instr(exp, dtype, case.instr(subtract, dtype, 0, greatest))
    total = case.reduction(compensated_sum(from_dtype(type_)), dtype, e)
    return e, total, case.instr(divide, dtype, e, total)


SHAPES = [
    # shape, units per thread, threads
    ((5, 2), 1, 1),
    ((3, 4), 1, 1),
    ((300, 7), 4, 2),
    ((37, 32), 4, 2),
    ((9, 96), 4, 8),
    ((20, 300), 4, 32),
    ((4, 1001), 4, 256),
    ((4, 1024), 1, 256),
    ((3, 4000), 4, 256),
    ((1, 3000), 1, 1024),
]


@pytest.mark.parametrize(("shape", "units", "group"), SHAPES, ids=str)
def test_softmax(session, shape, units, group):
    case = Case(session, [draw(shape, "f4")])
    e, total, result = softmax(case, "f4")
    spec = case.run(result)
    assert (spec.group, spec.units) == (group, units)
    np.testing.assert_allclose(case.values[result].sum(-1), 1, rtol=1e-5)
    case.run(result, e, total)


@pytest.mark.parametrize(("dtype", "shape"), [("f8", (3, 514)), ("f8", (11, 30)), ("f2", (6, 2064)), ("f2", (5, 24))])
def test_other_dtypes(session, dtype, shape):
    case = Case(session, [draw(shape, dtype)])
    type_ = np.dtype(dtype)
    greatest = case.reduction(max_op(type_), dtype, 0)
    apart = case.instr(subtract, dtype, 0, greatest)
    total = case.reduction(compensated_sum(f32 if dtype == "f2" else f64), dtype, apart)
    assert case.run(apart, total, greatest)
    assert case.run(case.instr(subtract, dtype, apart, total))


def test_rows_beyond_registers_are_read_again(session):
    case = Case(session, [draw((5, 17_000), "f4")], device=SINGLE)
    _, _, result = softmax(case, "f4")
    spec = case.run(result)
    assert (spec.group, spec.units, spec.is_full) == (256, 0, False)
    # One row of a single block: the device has other multiprocessors for its elements.
    alone = Case(session, [draw((1, 40_000), "f4")])
    alone.reduction(max_op(np.dtype("f4")), "f4", 0)
    assert alone.walks[0].group == 1024
    assert alone.run(alone.instr(subtract, "f4", 0, 1)) is None


@pytest.mark.parametrize(("length", "units"), [(900, 1), (9_000, 0), (50_000, 0)])
def test_rows_that_are_read_once_are_not_kept(session, length, units):
    case = Case(session, [draw((5, length), "f4")], device=SINGLE)
    total = case.reduction(compensated_sum(f32), "f4", 0)
    spec = case.run(total)
    assert (spec.group, spec.units) == (256, units)


def hopper(num_sms):
    return SimpleNamespace(num_sms=num_sms, cc=(9, 0), max_shared_nbytes=232448, tuned=lambda _: None)


SHARED = [
    # multiprocessors, rows, dtype, length, how, blocks, whether every thread has as many units
    (1, 8, "f4", 17_000, sharing.BATCHES, 2, False),
    (1, 8, "f4", 32_768, sharing.BATCHES, 2, True),
    (1, 5, "f4", 40_000, sharing.BATCHES, 4, False),
    (1, 5, "f8", 16_384, sharing.BATCHES, 2, True),
    (16, 33, "f4", 32_768, sharing.CHUNKS, 2, True),
    (16, 40, "f4", 45_000, sharing.CHUNKS, 3, False),
    (16, 33, "f8", 16_000, sharing.CHUNKS, 2, False),
    (2, 1, "f4", 40_000, sharing.THREADS, 4, False),
    (3, 2, "f8", 32_768, sharing.THREADS, 4, True),
]


@pytest.mark.skipif(REQUIRE_GPU, reason="the GPU here may have no clusters")
@pytest.mark.parametrize(("num_sms", "rows", "dtype", "length", "how", "cluster", "is_full"), SHARED, ids=str)
def test_a_cluster_shares_long_rows(session, num_sms, rows, dtype, length, how, cluster, is_full):
    values = [draw((rows, length), dtype), np.float64(length), np.float64(0)]
    case = Case(session, values, device=hopper(num_sms))
    _, total, result = softmax(case, dtype)
    spec = case.run(result, total)
    assert (spec.sharing, spec.cluster, spec.is_full) == (how, cluster, is_full)
    if length * rows < 150_000:
        middle = case.reduction(mean(from_dtype(np.dtype(dtype)), is_masked=False), dtype, 0, 1)
        spread = case.reduction(moments(variance), dtype, 0, 2)
        apart = case.instr(divide, dtype, case.instr(subtract, dtype, 0, middle), spread)
        assert case.run(apart, spread).cluster == cluster


def test_moments_scale_and_shift(session):
    x, weight, bias = draw((6, 1100), "f4"), draw(1100, "f4", 1), draw((6, 1100), "f4", 2)
    case = Case(session, [x, weight, bias, np.float64(1100), np.float64(0)])
    middle = case.reduction(mean(f32, is_masked=False), "f4", 0, 3)
    spread = case.reduction(moments(variance), "f4", 0, 4)
    apart = case.instr(divide, "f4", case.instr(subtract, "f4", 0, middle), spread)
    assert case.run(case.instr(scaled, "f4", apart, 1, 2)).units == 2


def test_masks(session):
    x, mask = draw((5, 700), "f4"), draw((5, 700), "f4", 3) > 0
    case = Case(session, [x, mask])
    total = case.reduction(compensated_sum(f32), "f4", 0, mask=1)
    assert case.run(case.instr(subtract, "f4", 0, total))


def test_rows_of_several_axes(session):
    x = draw((3, 4, 6, 10), "f4")
    case = Case(session, [x, draw((4, 1, 1), "f4", 1)], num_axes=2)
    assert case.run(softmax(case, "f4")[-1])
    case = Case(session, [draw((5, 7, 3), "f4")], num_axes=3)
    assert case.run(softmax(case, "f4")[-1]).rest
    pitched = Case(session, [draw((7, 5, 80), "f4")[:, :, :63]])
    greatest = pitched.reduction(max_op(x.dtype), "f4", 0)
    total = pitched.reduction(compensated_sum(f32), "f4", 0)
    assert pitched.run(pitched.instr(subtract, "f4", pitched.instr(divide, "f4", 0, total), greatest)).rest == 1


@pytest.mark.parametrize("view", [
    lambda x: x[:, ::-1],
    lambda x: x.T,
    lambda x: x[:, :1],
], ids=["reversed", "transposed", "one"])  # fmt: skip
def test_what_takes_several_launches(session, view):
    case = Case(session, [view(draw((64, 64), "f4"))])
    case.reduction(max_op(np.dtype("f4")), "f4", 0)
    assert case.walks[0] is None or case.run(case.instr(subtract, "f4", 0, 1)) is None


def test_passes():
    op = max_op(np.dtype("f4"))
    items = (
        RowReduction(0, op, f32, 4, is_short=False),
        Instr(subtract, f32, (0, 2)),
        RowReduction(3, op, f32, 4, is_short=False),
        Instr(divide, f32, (2, 4)),
        Instr(scaled, f32, (3, 1, 5)),
    )
    program = Program([f32, f32], [False, False], items, [6, 4])
    assert program.num_passes == 3
    assert program.is_uniform == [False, False, True, False, True, True, False]
    assert program.stores == [[], [], [0]]
    assert [program.needed(level) for level in range(3)] == [[0], [0, 2, 3], [0, 1, 2, 3, 5, 6]]
    assert program.needed(2, {0, 3}) == [1, 5, 6]
    assert program.held_words() == 1
