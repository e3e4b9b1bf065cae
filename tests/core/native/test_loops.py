"""NumPy's loops, called by machine code: the bits, warnings and errors of NumPy, and of ours that Python computes."""

import contextvars
import operator
import sys
import warnings
from functools import partial
from itertools import product

import numpy as np
import pytest

import oxinp
from oxinp import config
from oxinp._core.lazy.balance import SAMPLED, Balance, balance
from oxinp._core.native import loops, objects, reductions
from oxinp._core.ufunc.table import UFUNCS
from tests.comparator import assert_same

pytestmark = [
    pytest.mark.usefixtures("usual_threshold"),
    pytest.mark.skipif(not objects.ARE_KNOWN, reason="this Python's objects are laid out in another way"),
]


@pytest.fixture(scope="module")
def usual_threshold():
    with config.override(offload_threshold=65536):
        yield


OF_ONE = [row.numpy for row in UFUNCS if row.numpy.nin == 1 and row.numpy.nout == 1]
OF_TWO = [row.numpy for row in UFUNCS if row.numpy.nin == 2 and row.numpy.nout == 1]
DTYPES = [np.dtype(kind) for kind in loops.TYPES]
SHAPES = {
    "vector": lambda x: x[:37],
    "every other": lambda x: x[:74:2],
    "backwards": lambda x: x[36::-1],
    "matrix": lambda x: x[:40].reshape(5, 8),
    "part": lambda x: x.reshape(10, 10)[1:7, 2:9],
    "column": lambda x: x.reshape(10, 10)[:, 3],
    "transposed": lambda x: x.reshape(10, 10).T,
    "row": lambda x: x[:8].reshape(1, 8),
    "none": lambda x: x[:0],
    "cube": lambda x: x[:48].reshape(2, 3, 8),
}
OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "&": operator.and_,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "<": operator.lt,
    "==": operator.eq,
    ">=": operator.ge,
}
IN_PLACE = {
    "+=": operator.iadd,
    "-=": operator.isub,
    "*=": operator.imul,
    "/=": operator.itruediv,
    "&=": operator.iand,
    "//=": operator.ifloordiv,
    "%=": operator.imod,
    "<<=": operator.ilshift,
}
NUMBERS = (
    *(0.1, 1e-45, -1e-46, 3.4028235e38, -3.4028236e38, 3.5e38, 2**24, 2**24 + 1, -(2**24) - 1, float("-inf")),
    *(2.0, 0.0, -0.0, 1e308, float("nan"), float("inf"), 3, 0, -7, 2**53 + 1, 2**62, 2**70, True),
    *(127, 128, -128, -129, 255, 256, 32768, -32769, 65535, 65536, 2**31, 2**32 - 1, 2**32, -(2**31) - 1, 2**63, -1),
    *(np.float64(1.5), np.int64(3), np.float32(0.1), np.bool_(True), np.complex128(1j), np.int32(2), 1j),
)


def _values(dtype, seed, *, size=100, is_special=False):
    """Return numbers of a dtype, the same 100 again and again, for some of which arithmetic raises flags if special."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return np.resize(rng.random(100) < 0.5, size)
    if dtype.kind in "iu":
        x = rng.integers(-50, 50, 100).astype(dtype) if is_special else rng.integers(1, 50, 100).astype(dtype)
        return np.resize(x, size)
    x = rng.uniform(0.1, 3.0, 100)
    if dtype.kind == "c":
        x = x + 1j * rng.uniform(0.1, 3.0, 100)
    if is_special:
        x[rng.integers(0, 100, 30)] = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e308, -1e-308, 1e38, -2.5], 30)
    with np.errstate(over="ignore", under="ignore"):
        return np.resize(x.astype(dtype), size)


def _told(compute):
    """Return what is computed, and what is warned of or raised."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            found = compute()
        except (TypeError, ValueError, OverflowError, FloatingPointError) as error:
            found = type(error)
    return found, [(each.category, str(each.message)) for each in heard]


def _assert_told_the_same(ours, numpys):
    (found, heard), (expected, expected_heard) = _told(ours), _told(numpys)
    assert heard == expected_heard
    if isinstance(expected, type):
        assert found is expected
    else:
        assert_same(found, expected)
        if isinstance(expected, np.ndarray) and expected.size:
            host = np.asarray(found)
            assert host.tobytes() == expected.tobytes()
            assert all(a == b for a, b, n in zip(host.strides, expected.strides, expected.shape, strict=True) if n > 1)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ufunc", OF_ONE, ids=lambda ufunc: ufunc.__name__)
def test_ufuncs_of_one_are_numpys(ufunc, shape):
    for dtype, is_special in product(DTYPES, (False, True)):
        theirs = SHAPES[shape](_values(dtype, 1, is_special=is_special))
        ours = SHAPES[shape](oxinp.array(_values(dtype, 1, is_special=is_special)))
        _assert_told_the_same(partial(ufunc, ours), partial(ufunc, theirs))


@pytest.mark.parametrize("ufunc", OF_TWO, ids=lambda ufunc: ufunc.__name__)
def test_ufuncs_of_two_are_numpys(ufunc):
    for (one, first), (other, second) in product(SHAPES.items(), repeat=2):
        for dtype, is_special in product(DTYPES, (False, True)):
            if one != other and (is_special or dtype.kind != "f"):
                continue
            x, y = (_values(dtype, seed, is_special=is_special) for seed in (2, 3))
            a, b = first(oxinp.array(x)), second(oxinp.array(y))
            _assert_told_the_same(partial(ufunc, a, b), partial(ufunc, first(x), second(y)))


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("ufunc", [*OF_ONE, *OF_TWO], ids=lambda ufunc: ufunc.__name__)
def test_ufuncs_of_numbers_are_numpys(ufunc):
    ours = getattr(oxinp, ufunc.__name__)
    for numbers in product((*NUMBERS, np.float64(-2.5), -1.5, 710.0), repeat=ufunc.nin):
        if {float, np.float64}.isdisjoint(map(type, numbers)):
            continue
        (found, heard), (expected, expected_heard) = _told(partial(ours, *numbers)), _told(partial(ufunc, *numbers))
        assert heard == expected_heard, numbers
        assert type(found) is type(expected), numbers
        assert found is expected or found.tobytes() == expected.tobytes(), numbers


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_numpys(name):
    for dtype, shape in product(DTYPES, SHAPES.values()):
        for is_special in (False, True):
            x, y = (_values(dtype, seed, is_special=is_special) for seed in (4, 5))
            a, b = shape(oxinp.array(x)), shape(oxinp.array(y))
            compute = OPERATORS[name]
            _assert_told_the_same(partial(compute, a, b), partial(compute, shape(x), shape(y)))


@pytest.mark.parametrize("number", NUMBERS, ids=repr)
def test_numbers_are_numpys(number):
    for dtype, is_reflected, name in product(DTYPES, (False, True), OPERATORS):
        x = _values(dtype, 6)
        a, compute = oxinp.array(x), OPERATORS[name]
        for _ in range(2):
            ours, numpys = ((number, each) if is_reflected else (each, number) for each in (a, x))
            _assert_told_the_same(partial(compute, *ours), partial(compute, *numpys))


@pytest.mark.parametrize("name", IN_PLACE)
def test_writing_in_place_is_numpys(name):
    def write(x, other):
        IN_PLACE[name](x, other)
        return x

    for dtype, (turn, (kind, shape)), is_special in product(DTYPES, enumerate(SHAPES.items()), (False, True)):
        # Of numbers a third: those that one shape leaves out have others.
        for other in (*NUMBERS[turn % 3 :: 3], _values(dtype, 7, is_special=is_special)):
            x = _values(dtype, 8, is_special=is_special)
            a = oxinp.array(x)
            y, b = (shape(other), shape(oxinp.array(other))) if isinstance(other, np.ndarray) else (other, other)
            _assert_told_the_same(partial(write, shape(a), b), partial(write, shape(x), y))
            assert np.asarray(a).tobytes() == x.tobytes(), (dtype, kind, other)


MIDDLING = {
    "vector": lambda x: x[:3000],
    "every other": lambda x: x[::2],
    "matrix": lambda x: x[:3000].reshape(50, 60),
    "part": lambda x: x.reshape(60, 101)[1:51, 2:62],
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_is_not_small_is_numpys(dtype):
    for (kind, shape), is_special in product(MIDDLING.items(), (False, True)):
        x, y = (_values(dtype, seed, size=6060, is_special=is_special) for seed in (12, 13))
        a, b = shape(oxinp.array(x)), shape(oxinp.array(y))
        for compute in (*OPERATORS.values(), operator.floordiv, operator.xor, operator.ne, np.maximum, np.arctan2):
            _assert_told_the_same(partial(compute, a, b), partial(compute, shape(x), shape(y)))
            for number in (2, 300, -1, 0.5, 1j, x[3]):
                _assert_told_the_same(partial(compute, a, number), partial(compute, shape(x), number))
                _assert_told_the_same(partial(compute, number, a), partial(compute, number, shape(x)))
        for compute in (operator.neg, operator.abs, operator.invert, np.sqrt, np.exp, np.square, partial(pow, exp=2)):
            _assert_told_the_same(partial(compute, a), partial(compute, shape(x)))
        for name, compute in IN_PLACE.items():
            for other, theirs in ((b, shape(y)), (2, 2), (0.5, 0.5)):
                _assert_told_the_same(partial(compute, a, other), partial(compute, shape(x), theirs))
                assert np.asarray(a).tobytes() == shape(x).tobytes(), (kind, name)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_mixed_dtypes_are_numpys(dtype):
    shapes = {"few": lambda x: x[:50], "more": lambda x: x}
    for other, (kind, shape) in product(DTYPES, shapes.items()):
        x, y = shape(_values(dtype, 14, size=3000)), shape(_values(other, 15, size=3000))
        a, b = oxinp.array(x), oxinp.array(y)
        for compute in (*OPERATORS.values(), *IN_PLACE.values(), np.maximum, np.hypot):
            _assert_told_the_same(partial(compute, a, b), partial(compute, x, y))
            assert np.asarray(a).tobytes() == x.tobytes(), kind


def test_writing_to_what_is_read_reads_what_was_there():
    x = np.arange(1.0, 101.0)
    a = oxinp.array(x)
    for z in (x, a):
        z[1:] += z[:-1]
        z[:-1] *= z[1:]
        z[::-1] -= z
        part = z[::3]
        part /= z[:34]
    assert np.asarray(a).tobytes() == x.tobytes()


def test_errors_of_arithmetic_are_numpys_to_report():
    a = oxinp.array([1.0, 0.0, 2.0])
    with np.errstate(divide="raise"):
        with pytest.raises(FloatingPointError, match="divide by zero encountered in divide"):
            1.0 / a
        with pytest.raises(FloatingPointError, match="divide by zero encountered in divide"):
            a /= 0.0
    with np.errstate(all="ignore"):
        assert_same(1.0 / oxinp.array([1.0, 0.0]), np.array([1.0, np.inf]))
    with pytest.warns(RuntimeWarning, match="invalid value encountered in sqrt"):
        np.sqrt(-a - 1.0)


def test_read_only_arrays_stay_as_they_are():
    a = oxinp.broadcast_to(oxinp.array([1.0, 2.0]), (2, 2))[0]
    with pytest.raises(ValueError, match="read-only"):
        a += 1.0
    assert_same(a, np.array([1.0, 2.0]))


def test_loops_are_called():
    """Without them the rest would test NumPy."""
    assert loops.ARE_KNOWN
    assert loops.rows(np.add) != loops.rows(np.subtract)
    assert {each.nin for each in (np.add, np.sqrt) if len(loops.rows(each)) > len(loops.rows(np.ldexp))} == {1, 2}


@pytest.mark.parametrize("name", [*reductions.REDUCTIONS, "prod", "std"])
def test_reductions_are_numpys(name):
    for dtype, shape, is_special in product(DTYPES, SHAPES.values(), (False, True)):
        x = _values(dtype, 9, is_special=is_special)
        a = shape(oxinp.array(x))
        _assert_told_the_same(getattr(a, name), getattr(shape(x), name))
        _assert_told_the_same(partial(getattr(oxinp, name), a), partial(getattr(np, name), shape(x)))


def test_sums_of_zeros_have_their_sign():
    for x in (np.array([-0.0]), np.array([-0.0, -0.0]), np.array([-0.0] * 9), np.array([0.0, -0.0])):
        for name in reductions.REDUCTIONS:
            _assert_told_the_same(getattr(oxinp.array(x), name), getattr(x, name))


MATRICES = {
    "vector": lambda x: x[:7],
    "every third": lambda x: x[:21:3],
    "backwards": lambda x: x[6::-1],
    "of one": lambda x: x[:1],
    "of none": lambda x: x[:0],
    "square": lambda x: x[:49].reshape(7, 7),
    "part": lambda x: x.reshape(10, 10)[1:8, 2:9],
    "transposed": lambda x: x.reshape(10, 10)[:7, 1:8].T,
    "columns": lambda x: x.reshape(10, 10)[:7, ::4],
    "rows": lambda x: x.reshape(10, 10)[:3, :7],
    "column": lambda x: x.reshape(10, 10)[:7, 3:4],
    "row": lambda x: x[:7].reshape(1, 7),
    "single": lambda x: x[:1].reshape(1, 1),
    "upside down": lambda x: x.reshape(10, 10)[6::-1, :7],
    "stack": lambda x: x[:98].reshape(2, 7, 7),
    "broadcast": lambda x: np.broadcast_to(x[:7], (7, 7)),
}


@pytest.mark.parametrize(
    ("compute", "one"),  # products of stacks by `dot` are summed in another order, and never by a loop
    [each for each in product((operator.matmul, np.dot), MATRICES) if each != (np.dot, "stack")],
)
def test_products_are_numpys(compute, one):
    for dtype, other, is_special in product(DTYPES, MATRICES, (False, True)):
        x, y = (_values(dtype, seed, is_special=is_special) for seed in (10, 11))
        first, second = MATRICES[one], MATRICES[other]
        ours = partial(compute, first(oxinp.array(x)), second(oxinp.array(y)))
        _assert_told_the_same(ours, partial(compute, first(x), second(y)))


@pytest.mark.parametrize("is_native", [False, True])
def test_both_ways_are_one(is_native):
    x = np.linspace(0.0, 5.0, 33)
    with config.override(machine_code=is_native):
        a = oxinp.array(x)
        assert_same((a * 2.0 + a) / (1.0 + a) - np.sqrt(a), (x * 2.0 + x) / (1.0 + x) - np.sqrt(x))


@pytest.mark.parametrize("size", [20_000, 80_000])
@pytest.mark.parametrize(
    "statement",
    [
        "a + b",
        "a * 2.0",
        "1.0 - a",
        "a / b",
        "-a",
        "abs(a)",
        "a**2",
        "a > b",
        "a == 2.0",
        "a += b",
        "a *= 0.5",
        "a[1:] += b[1:]",
        "a**0.5",
        "np.where(a > 1.5, a, b)",
        "np.where(a > 1.5, 2.0, b)",
        "a.copy()",
        "a.astype(int)",
        "np.roll(a, 3)",
        "a.reshape(-1, 200) @ b[:200]",
        "a @ b",
        "np.maximum(a, b)",
        "np.minimum(a, 1.5)",
        "np.absolute(a)",
        "np.add.outer(a[:150], b[:150])",
        "np.add(a, b, out=a)",
        "a[:] = b",
        "a[5:] = 2.0",
        "a.reshape(-1, 50)[b[:9].astype(int), 3] = b[:9]",
        "a.reshape(-1, 50)[b[:9].astype(int), 3]",
        "a.reshape(-1, 50)[b[:9].astype(int)]",
        "a[b[:9].astype(int)]",
        "a[a > 1.5]",
        "a.reshape(-1, 50)[a.reshape(-1, 50) > 1.5]",
        "a.reshape(-1, 50)[a.reshape(-1, 50)[:, 0] > 1.5]",
        "(1j * a)[a > 1.5]",
        "(a > 1.5).reshape(-1, 50)[(a > 1.5)[::50]]",
        "(a > 1.5).reshape(-1, 50)[b[:9].astype(int)]",
        "a[a > 1.5] = 2.0",
    ],
)
def test_what_has_been_learned_to_be_the_hosts_is_weighed(statement, size):
    x, y = np.linspace(1.0, 2.0, size), np.linspace(3.0, 4.0, size)
    with config.override(offload_threshold=65536, adaptive_placement=True):
        balance.begin(65536, is_adaptive=True)
        try:
            ours, numpys = {"a": oxinp.array(x), "b": oxinp.array(y), "np": oxinp}, {"a": x.copy(), "b": y, "np": np}
            np.asarray(ours["a"]), np.asarray(ours["b"])
            balance._settle(5)
            mode = "exec" if "= " in statement and "==" not in statement else "eval"
            code = compile(statement, "<program>", mode)
            for _ in range(3 * SAMPLED):
                found, expected = eval(code, ours), eval(code, numpys)  # noqa: S307 - what this test is about
            if mode == "eval":
                assert_same(found, expected)
            assert_same(ours["a"], numpys["a"])
        finally:
            balance.begin(65536, is_adaptive=True)


def test_one_operation_in_so_many_is_weighed():
    with config.override(offload_threshold=65536, adaptive_placement=True):
        balance.begin(65536, is_adaptive=True)
        try:
            a = oxinp.asarray(np.linspace(1.0, 2.0, 20_000))
            balance._settle(3)
            before = balance._weights[:]
            for _ in range(4 * SAMPLED):
                a + a
            assert balance._weights != before
        finally:
            balance.begin(65536, is_adaptive=True)


def test_one_view_in_as_many_as_it_counts_for_is_weighed(monkeypatch):
    told = []
    monkeypatch.setattr(Balance, "viewed", lambda _, *given: told.append(given[2]))
    with config.override(offload_threshold=65536, adaptive_placement=True):
        balance.begin(65536, is_adaptive=True)
        try:
            balance._settle(5)
            a = oxinp.asarray(np.ones((300, 300)))
            for period in (SAMPLED, 191):
                monkeypatch.setattr(balance, "period", period)
                for _ in range(2 * 191):  # until what was counted before is over
                    a[3]
                told.clear()
                for _ in range(4 * period):
                    a[3]
                assert told == [period] * 4
        finally:
            balance.begin(65536, is_adaptive=True)


@pytest.mark.parametrize("statement", ["a + a", "a * 2.0", "m @ v", "v @ m.T", "a @ a", "a[::2] @ a[1::2]"])
def test_larger_operations_are_weighed_as_often_as_they_count(statement, monkeypatch):
    weighed = []
    monkeypatch.setattr(Balance, "takes", lambda _, __, *given: weighed.append(given[-1]) or True)
    with config.override(offload_threshold=65536, adaptive_placement=True):
        balance.begin(65536, is_adaptive=True)
        try:
            balance._settle(5)
            a = oxinp.asarray(np.linspace(1.0, 2.0, 80_000))
            names = {"a": a, "m": a.reshape(400, 200), "v": oxinp.asarray(np.ones(200))}
            code = compile(statement, "<program>", "eval")
            for _ in range(3):
                eval(code, names)  # noqa: S307 - what this test is about
            entered = []
            del weighed[:]
            sys.setprofile(lambda frame, event, _: event == "call" and entered.append(frame.f_code.co_name))
            try:
                for _ in range(4 * SAMPLED):
                    eval(code, names)  # noqa: S307
            finally:
                sys.setprofile(None)
        finally:
            balance.begin(65536, is_adaptive=True)
    assert abs(sum(weighed) - 4 * SAMPLED) <= 4
    assert len(weighed) < 2 * SAMPLED
    assert "operator" not in entered


NARROW = (
    *("u + u", "u * 2", "2 - u", "u == u", "u < 3", "-u", "u[:, 1:] + u[:, :-1]", "b & b", "~b", "b | b", "u ** 2"),
    *("f + f", "f * 0.5", "f > f", "np.maximum(u, 1)", "np.logical_not(b)", "np.abs(f)", "h - h", "h >> 1", "u.copy()"),
    *("u[b]", "np.zeros_like(b)", "b + b", "f[b]", "np.add(u, u, out=w)", "u += 1"),
)


@pytest.mark.parametrize("text", NARROW)
def test_arrays_of_short_elements_count_by_their_bytes(text):
    """Those of half the threshold are the host's, however many elements there are."""
    random = np.random.default_rng(6)
    with config.override(offload_threshold=65536, adaptive_placement=True):
        balance.begin(65536, is_adaptive=True)
        numpys = {"u": random.integers(0, 200, (100, 320)).astype(np.uint8), "b": random.random((100, 320)) < 0.5}
        numpys["w"], numpys["f"] = numpys["u"].copy(), random.random((80, 100)).astype(np.float32)
        numpys["h"] = random.integers(0, 200, (160, 100)).astype(np.int16)
        if "f[b]" in text:
            numpys["b"] = numpys["b"][:80, :100].copy()
        ours = {name: oxinp.array(value) for name, value in numpys.items()}
        code, entered = compile(text, "<program>", "exec" if "+=" in text else "eval"), []
        for _ in range(2):
            found, expected = (eval(code, {**names, "np": xp}) for names, xp in ((ours, oxinp), (numpys, np)))  # noqa: S307
        sys.setprofile(lambda frame, event, _: event == "call" and entered.append(frame.f_code.co_filename))
        try:
            eval(code, {**ours, "np": oxinp})  # noqa: S307 - our own text
        finally:
            sys.setprofile(None)
    if expected is not None:
        assert_same(found, expected)
    if objects.VECTORCALL is not None or "(" not in text:
        assert not [name for name in entered if "oxinp" in name]


@pytest.mark.parametrize("text", ["u / 2", "u * 0.5", "b + 1", "np.sqrt(u)", "u + i", "u.astype(float)"])
def test_what_makes_longer_elements_of_short_ones_counts_by_those(text):
    """So many as take more than the threshold are the device's."""
    with config.override(offload_threshold=65536, adaptive_placement=False):
        u = np.random.default_rng(6).integers(0, 200, 60_000).astype(np.uint8)
        numpys = {"u": u, "b": u > 100, "i": u[:1].astype(int)}
        ours = {name: oxinp.array(value) for name, value in numpys.items()}
        found = eval(text, {**ours, "np": oxinp})  # noqa: S307 - our own text
        assert found._held is not None
        assert found._held.host is None
        np.testing.assert_allclose(np.asarray(found), eval(text, {**numpys, "np": np}))  # noqa: S307


def test_few_elements_of_what_belongs_on_the_host_are_read_by_machine_code():
    with config.override(offload_threshold=65536, adaptive_placement=True):
        balance.begin(65536, is_adaptive=True)
        try:
            balance._settle(5)
            a, k = oxinp.asarray(np.linspace(1.0, 2.0, 60_000)), oxinp.asarray(np.arange(5))
            mask = a > 1.5
            for _ in range(40):
                a[k], a[mask]
            entered = []
            sys.setprofile(lambda frame, event, _: event == "call" and entered.append(frame.f_code.co_name))
            try:
                for _ in range(40):
                    a[k], a[mask]
            finally:
                sys.setprofile(None)
        finally:
            balance.begin(65536, is_adaptive=True)
    assert "__getitem__" not in entered, set(entered)


@pytest.mark.parametrize("number", [1e-46, -1e-46, 1e-40, 1e-30, 0.0, -0.0])
def test_numbers_that_vanish_among_short_floats_are_true_as_numpys(number):
    given = np.array([3.0, 0.0, -1.0], np.float32)
    for ufunc in (np.logical_and, np.logical_or, np.logical_xor, np.equal, np.greater, np.multiply):
        ours = getattr(oxinp, ufunc.__name__)
        for one, other in ((given, number), (number, given)):
            ours_given = [oxinp.array(x) if isinstance(x, np.ndarray) else x for x in (one, other)]
            assert_same(ours(*ours_given), ufunc(one, other))


@pytest.mark.parametrize(
    "text", ["np.sin(a)", "np.hypot(a, a)", "np.sqrt(a)", "np.sin(b)", "np.cos(a, out=c)", "np.arccosh(d)"]
)
def test_ufuncs_that_cost_much_are_weighed_each_time_by_machine_code(text, monkeypatch):
    """Where their arrays are the host's by what has been learned, however small they are."""
    weighed = []
    takes = Balance.takes
    monkeypatch.setattr(Balance, "takes", lambda *given: weighed.append(given[1:3]) or takes(*given))
    random = np.random.default_rng(1)
    numpys = {"a": random.random(20_000), "b": random.random(15_000, np.float32), "d": random.random(6000) + 1.0}
    numpys["c"] = numpys["a"].copy()
    with config.override(offload_threshold=65536, adaptive_placement=True):
        balance.begin(65536, is_adaptive=True)
        balance._settle(4)
        ours = {name: oxinp.array(value) for name, value in numpys.items()}
        code, entered = compile(text, "<program>", "eval"), []
        for _ in range(3):
            eval(code, {**ours, "np": oxinp})  # noqa: S307 - our own text
        del weighed[:]
        sys.setprofile(lambda frame, event, _: event == "call" and entered.append(frame.f_code.co_name))
        try:
            for _ in range(5):
                found = eval(code, {**ours, "np": oxinp})  # noqa: S307
        finally:
            sys.setprofile(None)
        balance._settle(0)
    assert_same(found, eval(code, {**numpys, "np": np}))  # noqa: S307
    weight = 2.0 if "sqrt" in text else 8.0
    assert weighed == [(found.nbytes, weight)] * 5
    assert "__call__" not in entered


def _into(operate):
    def run(x, y):
        x = x.copy()
        operate(x, y)
        return x

    return run


UNDERFLOWS = {
    "operator": lambda x, y: x * y,
    "number": lambda x, _: x * 1e-300,
    "in place": _into(operator.imul),
    "part in place": _into(lambda x, y: operator.imul(x[1:, 2:], y[1:, 2:])),
    "part": lambda x, y: x[1:, 2:] * y[1:, 2:],
    "ufunc": np.multiply,
    "exp": lambda x, _: np.exp(-x * 1e305),
    "product": lambda x, y: x @ y,
    "inner product": lambda x, y: x[0] @ y[0],
    "reduction": lambda x, _: x.prod(),
    "mean": lambda x, _: (x / 2e150).mean(),
    "overflow, too": lambda x, y: np.multiply(x * y, y) + x * 1e308 * 1e308,
}
STATES = {
    "as ever": {},
    "ignored": {"all": "ignore"},
    "warned of": {"under": "warn"},
    "raised": {"under": "raise"},
    "others raised": {"over": "raise"},
}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
@pytest.mark.parametrize("compute", UNDERFLOWS.values(), ids=UNDERFLOWS)
def test_underflows_are_told_of_to_who_has_asked_for_it(compute, state):
    theirs = np.linspace(1e-302, 3e-302, 36).reshape(6, 6)
    ours = oxinp.array(theirs)
    with np.errstate(**state):
        for _ in range(3):
            _assert_told_the_same(partial(compute, ours, ours), partial(compute, theirs, theirs))
    assert oxinp.geterr()["under"] == "ignore"
    _assert_told_the_same(partial(compute, ours, ours), partial(compute, theirs, theirs))


def test_underflows_are_told_of_by_the_state_of_the_context():
    ours = oxinp.array(np.full(8, 1e-200))
    found = []

    def compute():
        found.append(_told(lambda: ours * ours)[1])

    with np.errstate(under="warn"):
        compute()
        contextvars.Context().run(compute)
    compute()
    assert [len(heard) for heard in found] == [1, 0, 0]


def test_underflows_of_the_usual_state_leave_no_reference():
    ours = oxinp.array(np.full(8, 1e-200))
    kept = contextvars.Context().run(loops.state.get)
    before = sys.getrefcount(kept)
    for _ in range(100):
        ours * ours
    assert abs(sys.getrefcount(kept) - before) < 10
    with np.errstate(under="ignore", over="raise"):
        other = loops.state.get()
        before = sys.getrefcount(other)
        for _ in range(100):
            ours * ours
        assert abs(sys.getrefcount(other) - before) < 10
