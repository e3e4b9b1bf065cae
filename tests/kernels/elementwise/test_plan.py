import operator

import numpy as np
import pytest

from oxinp._kernels.elementwise import access, staging
from oxinp._kernels.problem import Instr
from oxinp._ptx.types import from_dtype, i64, pred
from tests.comparator import assert_same
from tests.kernels.layouts import DTYPES, random_shape, random_values, random_view
from tests.kernels.machine import Session, machine


@pytest.fixture
def session():
    session = Session(machine())
    yield session
    session.close()


ignores_lost_parts = pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")


def lower(operation):
    return lambda _, *args: operation(*args)


ADD, SUB, MUL, LT = (lower(f) for f in (operator.add, operator.sub, operator.mul, operator.lt))


def where(k, p, a, b):
    return k.where(p, a, b)


def sqrt(k, a):
    return k.sqrt(a)


CASTS = {target: (lambda k, a, target=target: k.cast(a, from_dtype(target))) for target in DTYPES}


def fresh_output(rng, shape, dtype):
    """Return a contiguous array, or a random view that is no broadcast."""
    return np.empty(shape, dtype) if rng.random() < 0.5 else random_view(rng, shape, dtype, may_broadcast=False)


def check(session, shape, inputs, instrs, outputs, expected):
    """Run, and compare whole arrays: what is written, and that nothing beside it is."""
    wanted = []
    for (_, view), values in zip(outputs, expected, strict=True):
        before = view.copy()
        view[...] = values
        wanted.append((view, root(view).copy()))
        view[...] = before
    launch = session.elementwise(shape, inputs, instrs, outputs)
    for view, whole in wanted:
        assert_same(root(view), whole)
    return launch


def root(view):
    while isinstance(view.base, np.ndarray):
        view = view.base
    return view


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("seed", range(12))
def test_copies_in_every_layout(session, dtype, seed):
    rng = np.random.default_rng([seed, dtype.num])
    shape = random_shape(rng)
    x = random_view(rng, shape, dtype, specials=True)
    check(session, shape, [x], [], [(0, fresh_output(rng, shape, dtype))], [x])


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
@pytest.mark.parametrize("seed", range(8))
def test_chains_in_every_layout(session, dtype, seed):
    rng = np.random.default_rng([seed, dtype.num])
    shape = random_shape(rng)
    a, b, c = (random_view(rng, shape, dtype, specials=True) for _ in range(3))
    s = random_values(rng, (), dtype)[()]
    kind = from_dtype(dtype)
    # Products of complex numbers are not the same in all of NumPy's loops.
    combine, numpys = (SUB, np.subtract) if dtype.kind == "c" else (MUL, np.multiply)
    instrs = [
        Instr(combine, kind, (0, 1)),
        Instr(ADD, kind, (4, 2)),
        Instr(LT, pred, (5, 3)),
        Instr(where, kind, (6, 5, 4)),
    ]
    with np.errstate(all="ignore"):
        product = numpys(a, b)
        total = product + c
        is_less = total < s
        chosen = np.where(is_less, total, product)
    outputs = [(7, fresh_output(rng, shape, dtype)), (6, fresh_output(rng, shape, np.dtype(bool)))]
    check(session, shape, [a, b, c, s], instrs, outputs, [chosen, is_less])


@ignores_lost_parts
@pytest.mark.parametrize("source", DTYPES, ids=str)
@pytest.mark.parametrize("target", DTYPES, ids=str)
def test_casts(session, source, target):
    rng = np.random.default_rng([source.num, target.num])
    for shape in [(1037,), (9, 33)]:
        x = random_view(rng, shape, source, specials=True)
        if target == np.uint32 and source.kind in "fc":  # NumPy's scalar and vector loops differ on what does not fit
            x = x.copy()
            x[~np.isfinite(x)] = 1
        with np.errstate(all="ignore"):
            expected = x.astype(target)
        instrs = [Instr(CASTS[target], from_dtype(target), (0,))]
        check(session, shape, [x], instrs, [(1, fresh_output(rng, shape, target))], [expected])


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 255, 256, 1023, 1024, 1025, 2048, 4097, 8192, 9001])
@pytest.mark.parametrize("dtype", [np.dtype("?"), np.dtype("f4"), np.dtype("f8")], ids=str)
def test_every_length(session, n, dtype):
    rng = np.random.default_rng(n)
    for start in (0, 1, 2):
        x, y = random_values(rng, (n + 3,), dtype), random_values(rng, (n + 3,), dtype)
        out = random_values(rng, (n + 3,), dtype)
        chain = lower(operator.xor if dtype.kind == "b" else operator.sub)
        u, v = x[start : start + n], y[start : start + n]
        instrs = [Instr(chain, from_dtype(dtype), (0, 1))]
        check(session, (n,), [u, v], instrs, [(2, out[start : start + n])], [u ^ v if dtype.kind == "b" else u - v])


def test_no_elements(session):
    x, out = np.empty((3, 0, 4)), np.empty((3, 0, 4))
    check(session, (3, 0, 4), [x], [], [(0, out)], [x])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_fills(session, dtype):
    value = dtype.type(1)
    for shape in [(), (5,), (4099,), (3, 50)]:
        check(session, shape, [value], [], [(0, np.empty(shape, dtype))], [value])
    out = np.zeros((9, 70), dtype)
    check(session, (5, 35), [value], [], [(0, out[::2, ::-2])], [value])


def index_plus(_, index, start):
    return index + start


index_plus.wants_index = True


@pytest.mark.parametrize("shape", [(1,), (2053,), (7, 33, 9)])
def test_the_index_is_that_of_the_shape(session, shape):
    instrs = [Instr(index_plus, i64, (0,))]
    expected = np.arange(np.prod(shape)).reshape(shape) + 5
    check(session, shape, [np.int64(5)], instrs, [(1, np.empty(shape, np.int64))], [expected])
    strange = np.zeros(shape[::-1], np.int64).T[::-1]
    check(session, shape, [np.int64(5)], instrs, [(1, strange)], [expected])


def test_reading_and_writing_in_place(session):
    rng = np.random.default_rng(0)
    x = random_values(rng, (50, 67), np.dtype("f4"))
    view = x[::2, 1:-1]
    kind = from_dtype(x.dtype)
    check(session, view.shape, [view, view], [Instr(ADD, kind, (0, 1))], [(2, view)], [view + view])


@pytest.mark.parametrize("dtype", [np.dtype("f4"), np.dtype("f8")], ids=str)
def test_stencils(session, dtype):
    rng = np.random.default_rng(1)
    u = random_values(rng, (70, 101), dtype)
    v = random_values(rng, (70, 101), dtype)
    views = [u[1:-1, 1:-1], u[:-2, 1:-1], u[2:, 1:-1], u[1:-1, :-2], u[1:-1, 2:]]
    kind = from_dtype(dtype)
    instrs = [Instr(ADD, kind, (a, b)) for a, b in ((1, 2), (6, 3), (7, 4))]
    instrs += [Instr(MUL, kind, (8, 5)), Instr(SUB, kind, (9, 0))]
    quarter = dtype.type(0.25)
    expected = (views[1] + views[2] + views[3] + views[4]) * quarter - views[0]
    check(session, (68, 99), [*views, quarter], instrs, [(10, v[1:-1, 1:-1])], [expected])


TILES = [
    # shape, axes of the view, kernel
    ((64, 96), (1, 0), "elementwise_tile"),
    ((130, 67), (1, 0), "elementwise_tile"),
    ((40, 3, 50), (2, 1, 0), "elementwise_tile"),
    ((5, 40, 50), (0, 2, 1), "elementwise_tile"),
    ((5, 40, 50), (1, 0, 2), "elementwise_linear"),
    ((3, 4, 50), (2, 1, 0), "elementwise_linear"),
]


@ignores_lost_parts
@pytest.mark.parametrize(("shape", "axes", "kernel"), TILES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_transposed_inputs(session, shape, axes, kernel, dtype):
    rng = np.random.default_rng(5)
    x = random_values(rng, shape, dtype)
    view = x.transpose(axes)
    plan = check(session, view.shape, [view], [], [(0, np.empty(view.shape, dtype))], [view])
    assert plan.launch.kernel.name == kernel
    wide = random_values(rng, shape, np.dtype("f8")).transpose(axes)
    plain = random_values(rng, view.shape, np.dtype("f8"))
    f64 = from_dtype(np.dtype("f8"))
    instrs = [Instr(CASTS[np.dtype("f8")], f64, (0,)), Instr(ADD, f64, (3, 1)), Instr(ADD, f64, (4, 2))]
    check(
        session,
        view.shape,
        [view, wide, plain],
        instrs,
        [(5, np.empty(view.shape))],
        [view.astype("f8") + wide + plain],
    )


@pytest.mark.parametrize("step", [-1, 2, -3])
def test_transposed_inputs_with_steps(session, step):
    x = random_values(np.random.default_rng(6), (70, 140), np.dtype("f4"))
    view = x[::-1, ::step].T
    plan = check(session, view.shape, [view], [], [(0, np.empty(view.shape, "f4"))], [view])
    assert plan.launch.kernel.static_shared_nbytes


@pytest.mark.parametrize(
    ("shape", "axis", "dtype"),
    [
        ((3, 5000), 0, "f4"),
        ((3, 4099), 0, "u1"),
        ((2, 7, 520), 0, "f4"),
        ((7, 3, 520), 1, "c16"),
        ((9, 2, 5, 65), 1, "f4"),
    ],
)
def test_what_is_stored_several_times_is_computed_once(session, shape, axis, dtype, monkeypatch):
    monkeypatch.setattr(staging, "MIN_REPEATED", 1)
    rng = np.random.default_rng(len(shape))
    lengths = (*shape[:axis], 1, *shape[axis + 1 :])
    a, b = (np.broadcast_to(random_values(rng, lengths, np.dtype(dtype)), shape) for _ in range(2))
    instrs = [Instr(ADD, from_dtype(np.dtype(dtype)), (0, 1))]
    outputs = [(2, np.empty(shape, dtype)), (0, np.empty(shape, dtype))]
    with np.errstate(all="ignore"):
        plan = check(session, shape, [a, b], instrs, outputs, [a + b, a])
    assert "count" in plan.launch.kernel.ptx


@pytest.mark.parametrize("seed", range(20))
def test_wide_indices(session, seed, monkeypatch):
    monkeypatch.setattr(access, "MAX_INDEX_32", 0)
    rng = np.random.default_rng(seed)
    shape = random_shape(rng) if seed else (70, 90)
    x, y = (
        random_view(rng, shape, np.dtype("f4")) if seed else random_values(rng, (90, 70), np.dtype("f4")).T
        for _ in "xy"
    )
    kind = from_dtype(x.dtype)
    instrs = [Instr(ADD, kind, (0, 1)), Instr(index_plus, i64, (2,))]
    expected = np.arange(np.prod(shape)).reshape(shape) + 2**40
    outputs = [(3, fresh_output(rng, shape, x.dtype)), (4, fresh_output(rng, shape, np.dtype("i8")))]
    plan = check(session, shape, [x, y, np.int64(2**40)], instrs, outputs, [x + y, expected])
    for launch in plan.steps:
        assert "in0_stride" not in launch.kernel.ptx or ".param .s64 in0_stride" in launch.kernel.ptx


def test_square_roots_and_signed_zeros(session):
    x = np.array([0.0, -0.0, 2.0, np.inf, np.nan, 5e-324, 0.1] * 100)
    check(session, x.shape, [x], [Instr(sqrt, from_dtype(x.dtype), (0,))], [(1, np.empty_like(x))], [np.sqrt(x)])
