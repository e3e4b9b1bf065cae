"""DeviceScalar: like NumPy's scalar, and lazy."""

# ruff: noqa: ARG005, ICN001 - fixtures that set up, programs of one signature, and oxinp is np

import collections.abc
import contextlib
import copy
import datetime
import fractions
import math
import operator
import pickle
import sqlite3
import statistics

import numpy
import pytest

import oxinp as np
from oxinp._core.array import slots
from oxinp._core.lazy.handle import Handle
from tests.comparator import assert_same
from tests.thinned import thinned

pytestmark = [pytest.mark.usefixtures("on_device"), pytest.mark.filterwarnings("ignore:.*encountered")]

DTYPES = [numpy.bool_, numpy.int32, numpy.int64, numpy.float32, numpy.float64]


def scalar(dtype, value=3):
    """Return the same scalar of ours, pending on the device, and NumPy's."""
    ours = (np.asarray(numpy.full(4, value).astype(dtype)) * numpy.bool_(1)).astype(dtype).max()
    assert ours._storage.host is None
    return ours, dtype(value)


def _stored(value):
    """Return a value as a database gives it back, with an adapter for NumPy's int64 alone, as programs register one."""
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        return str(database.execute("select ?", (value,)).fetchall())


QUESTIONS = {
    "isinstance": lambda s: [isinstance(s, t) for t in (numpy.generic, numpy.number, numpy.floating, float, int)],
    "isinstance array": lambda s: isinstance(s, numpy.ndarray),
    "class": lambda s: s.__class__,
    "attributes": lambda s: (s.dtype, s.shape, s.ndim, s.size, s.itemsize, s.nbytes, s.strides),
    "hash": hash,
    "equal hashes": lambda s: {3: 1, 0: 2, 1: 4}[s],
    "repr": repr,
    "str": str,
    "f-string": lambda s: f"{s} {s!r} {s:>20} {s!s:_^12}",
    "format number": lambda s: f"{s:08.3f}" if s.dtype.kind == "f" else f"{s:4}",
    "percent": lambda s: "%s %r" % (s, s),  # noqa: UP031
    "bool": lambda s: (bool(s), not s, s and 5),
    "int": int,
    "float": float,
    "complex": complex,
    "index": operator.index,
    "as index": lambda s: ["a", "b", "c", "d"][s],
    "as slice": lambda s: [1, 2, 3, 4, 5][:s],
    "range": lambda s: list(range(s)),
    "negation": operator.neg,
    "abs": abs,
    "positive": operator.pos,
    "invert": operator.invert,
    "round": round,
    "round to digits": lambda s: round(s, 1),
    "floor": math.floor,
    "trunc": math.trunc,
    "ceil": math.ceil,
    "sqrt": math.sqrt,
    "sum": lambda s: sum([s, s], 0),
    "max": lambda s: max(s, 2, s),
    "item": lambda s: s.item(),
    "tolist": lambda s: s.tolist(),
    "astype": lambda s: s.astype(numpy.float32),
    "real": lambda s: (s.real, s.imag, s.T, s.conj()),
    "methods": lambda s: (s.sum(), s.max(), s.any(), s.reshape(1), s.ravel(), s.copy(), s.round()),
    "is_integer": lambda s: s.is_integer(),
    "tobytes": lambda s: s.tobytes(),
    "index with tuple": lambda s: (s[()], s[...], s[None]),
    "index with number": lambda s: s[0],
    "len": len,
    "iter": list,
    "setitem": lambda s: operator.setitem(s, (), 1),
    "setattr": lambda s: setattr(s, "dtype", None),
    "divmod": lambda s: (divmod(s, 2), divmod(7, s)),
    "contains": lambda s: (s in [1, 3], s in {3: 1}, [s].index(s)),
    "sorted": lambda s: sorted([s, 5, 1]),
    "pickle": lambda s: pickle.loads(pickle.dumps(s)),  # noqa: S301
    "copies": lambda s: (copy.copy(s), copy.deepcopy(s)),
    "json": lambda s: __import__("json").dumps(float(s)),
    "numpy array": lambda s: (numpy.array(s), numpy.asarray(s, dtype=float), numpy.array([s, s])),
    "numpy functions": lambda s: (numpy.sqrt(s), numpy.isnan(s), numpy.add(s, 1), numpy.maximum(s, 2.5)),
    "numpy array functions": lambda s: (numpy.sum(s), numpy.shape(s), numpy.ndim(s), numpy.isscalar(1)),
    "numpy scalar types": lambda s: (numpy.float32(s), numpy.int64(s), numpy.bool_(s), numpy.complex64(s)),
    "issubdtype": lambda s: numpy.issubdtype(s.dtype, numpy.floating),
    "result_type": lambda s: numpy.result_type(s, numpy.float32),
    "full": lambda s: numpy.full(3, s),
    "type": lambda s: (type(s).__name__, type(s).__module__, repr(type(s)), type(s) in (type(s.item()), type(s[()]))),
    "type as dtype": lambda s: (
        numpy.dtype(type(s)),
        numpy.zeros(2, type(s)),
        numpy.issubdtype(type(s), numpy.floating),
    ),
    "type called": lambda s: (type(s)(5), type(type(s)(5)) is type(s[()])),
    "type pickled": lambda s: pickle.loads(pickle.dumps(type(s))) is type(s[()]),  # noqa: S301
    "limits": lambda s: (numpy.finfo if s.dtype.kind == "f" else numpy.iinfo)(type(s)).max,
    "iterable": lambda s: (hasattr(s, "__iter__"), numpy.iterable(s), isinstance(s, collections.abc.Iterable)),
    "unpacked": lambda s: [*s],
    "mean of it": lambda s: (statistics.mean([s, s]), statistics.mean([s, 1]), statistics.median([s, 5, 9])),
    "deviation of it": lambda s: (statistics.stdev([s, s, 1]), statistics.fmean([s, 4.5])),
    "fraction": lambda s: str(fractions.Fraction(s)),
    "time": lambda s: str(datetime.datetime.fromtimestamp(s, datetime.UTC)) if s.dtype.kind != "f" else "",
    "sqlite": _stored,
    "arange": numpy.arange,
    "zeros": numpy.zeros,
}


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_answers_as_numpys_scalar(question, dtype):
    ours, numpys = scalar(dtype)
    results = []
    for s in (ours, numpys):
        try:
            results.append(question(s))
        except Exception as error:  # noqa: BLE001 - the exception is the outcome
            results.append(error)
    assert_same(*[list(map(_held, r)) if isinstance(r, (tuple, list)) else _held(r) for r in results])


@pytest.fixture(autouse=True, scope="module")
def adapter_of_integers():
    """Let sqlite3 take NumPy's int64, as programs do."""
    key = (numpy.int64, sqlite3.PrepareProtocol)
    sqlite3.register_adapter(numpy.int64, int)
    yield
    sqlite3.adapters.pop(key, None)


def test_an_indexed_class_can_refuse_iteration():
    assert slots.ARE_KNOWN

    class Indexed:
        def __getitem__(self, key):
            return [1, 2, 3][key]

    class Below(Indexed):
        pass

    assert list(Below()) == [1, 2, 3]
    slots.forbid_iteration(Below)
    assert Below()[1] == 2
    with pytest.raises(TypeError, match="not iterable"):
        iter(Below())
    assert list(Indexed()) == [1, 2, 3]


def test_classes_of_scalars_are_those_of_their_dtypes():
    (a, theirs), (b, _), (c, _) = scalar(numpy.float64), scalar(numpy.float64, 5), scalar(numpy.int64)
    assert type(a) is type(b) is not type(theirs)
    assert operator.eq(type(a), type(theirs))
    assert operator.eq(type(theirs), type(a))
    assert operator.ne(type(a), type(c))
    assert operator.ne(type(a), numpy.float32)
    assert isinstance(b, type(a))
    with pytest.raises(TypeError, match=r"object of type 'numpy.float64' has no len\(\)"):
        len(a)


def _held(value):
    """Return what a DeviceScalar's or an array's value is, as NumPy's object."""
    return numpy.asarray(value)[()] if isinstance(value, Handle) else value


COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
OPERATORS = [
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow),
    *COMPARISONS,
    *(operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift),
]
OTHERS = {
    "bool": lambda xp: True,
    "int": lambda xp: 2,
    "float": lambda xp: 2.5,
    "complex": lambda xp: 1 + 2j,
    "huge int": lambda xp: 2**40,
    "int8": lambda xp: numpy.int8(2),
    "int64": lambda xp: numpy.int64(2),
    "float32": lambda xp: numpy.float32(2.5),
    "float64": lambda xp: numpy.float64(2.5),
    "bool_": lambda xp: numpy.bool_(1),
    "array": lambda xp: xp.arange(1, 4),
    "float array": lambda xp: xp.arange(1.0, 4.0),
    "float32 array": lambda xp: xp.arange(1, 4, dtype=numpy.float32),
    "0-d array": lambda xp: xp.asarray(2.5),
    "numpy array": lambda xp: numpy.arange(1, 4),
    "list": lambda xp: [1, 2],
    "None": lambda xp: None,
    "string": lambda xp: "a",
}


@pytest.mark.parametrize(("name", "dtype"), thinned(list(OTHERS), DTYPES), ids=lambda x: getattr(x, "__name__", x))
def test_arithmetic(name, dtype, twin):
    other = OTHERS[name]
    for op in OPERATORS:
        for reverse in (False, True):
            if reverse and isinstance(other(np), complex) and op in COMPARISONS:
                continue  # Python asks the scalar the same as the other way round, where NumPy's float64 is a float

            def body(xp, op=op, reverse=reverse):
                s = xp.arange(4).astype(dtype).max()
                return op(other(xp), s) if reverse else op(s, other(xp))

            twin(body)


@pytest.mark.parametrize("a", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("b", DTYPES, ids=lambda t: t.__name__)
def test_arithmetic_of_two(a, b, twin):
    for op in OPERATORS:
        twin(lambda xp, op=op: op(xp.arange(4).astype(a).max(), xp.arange(3).astype(b).max()))


def test_arithmetic_with_arrays_and_numbers_does_not_wait(stats):
    x = np.arange(100.0)
    s = x.sum()
    t = 2 * s / 3 - s
    x = (x - t) * s
    t += 1
    x /= t
    np.evaluate(x, t)
    assert (stats().d2h_bytes, stats().h2d_bytes) == (0, 0)


def test_in_place_operators_rebind():
    s = np.arange(5.0).sum()
    t = s
    t += 1
    t *= 2
    assert (float(s), float(t)) == (10, 22)


def test_value_is_fetched_once(stats):
    s = np.arange(5.0).sum()
    for _ in range(5):
        assert s == 10
        assert float(s) + int(s) == 20
    assert (stats().d2h_bytes, stats().launches) == (8, 1)


def test_indexes_arrays(twin):
    def body(xp):
        x = xp.arange(12).reshape(3, 4)
        i = x.max() - 10
        y = xp.zeros((3, 4))
        y[i] = i
        y[i, i + 1] = 5
        y[: i + 1, i] += x[i, i]
        return x[i], x[i, i], x[i:], x[:i, ::i], x[..., i], x[i, None], x[-i], y

    twin(body)


def test_indexes_beyond_the_end(twin):
    twin(lambda xp: xp.arange(5)[xp.arange(6).max()])
    twin(lambda xp: xp.arange(5)[xp.arange(6.0).max()])
    twin(lambda xp: xp.arange(5)[(xp.arange(6) > 2).max()])


def test_is_captured_before_a_write(twin):
    def body(xp):
        x = xp.arange(10.0)
        first, last, total = x[0], x[-1], x.sum()
        x[0] = 5
        x[...] = 1
        return first, last, total, first + last, x[0]

    twin(body)


def test_numpy_arrays_take_it():
    theirs = numpy.arange(4.0)
    s = np.arange(5.0).sum()
    theirs[1] = s
    theirs += s
    theirs[2:] *= s
    theirs[int(s) - 10] = 0
    assert_same(theirs, numpy.array([0, 20, 120, 130.0]))
    assert_same(numpy.asarray(theirs + s), theirs + 10)


def test_in_lists_and_creation(twin):
    def body(xp):
        s = xp.arange(5.0).sum()
        return (
            xp.array([s, 1, s]),
            xp.full(3, s),
            xp.zeros(3) + [s, 0, s],  # noqa: RUF005 - an array
            xp.stack([s, s]),
            xp.asarray(s),
            xp.where(s > 1, s, 0),
        )

    twin(body)


def test_match_statement_and_isinstance_dispatch():
    match np.arange(5.0).sum():
        case float():
            pass
        case _:
            pytest.fail("a float64 scalar is a float")


def test_float_formatting_of_each_spec():
    ours, numpys = scalar(numpy.float64, 1234.5678)
    for spec in ("", ".2f", "e", "g", "+.1f", ",", "010.3f", "%"):
        assert format(ours, spec) == format(numpys, spec)


def test_what_chooses_among_scalars_is_one():
    for ours, numpys in [
        (np.choose(0, [np.array(3.0)]), numpy.choose(0, [numpy.array(3.0)])),
        (np.choose(1, [2, 3]), 3),
    ]:
        assert not isinstance(ours, np.ndarray)
        assert ours == numpys


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("op", [operator.mul, operator.add, operator.sub, operator.truediv])
def test_arrays_of_numpys_subclasses_keep_their_class(op):
    for other in (numpy.matrix([[1.0, 2], [3, 4]]), numpy.ma.array([1.0, 2], mask=[0, 1])):
        for place in (lambda s, x: (s, x), lambda s, x: (x, s)):
            ours, numpys = (op(*place(module.arange(3.0).sum(), other)) for module in (np, numpy))
            assert type(ours) is type(numpys) is type(other)
            assert numpy.array_equal(numpy.asarray(ours), numpy.asarray(numpys))


def test_numpys_ufuncs_take_scalars_as_what_says_where(twin):
    def body(np):
        a, b, is_less = np.arange(3)[1], np.add(np.array(2.0), np.array(3.0)), np.array(0.2) < 0.5
        return numpy.subtract(a, b, out=numpy.array(0.0), where=is_less), numpy.add(a, b, where=is_less)

    twin(body)


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_products_of_complex_scalars_are_rounded_as_numpys(dtype):
    rng = numpy.random.default_rng(3)
    values = (rng.standard_normal(64) + 1j * rng.standard_normal(64)).astype(dtype)
    x = np.array(values)
    for i, a in enumerate(values[:-1]):
        assert_same(x[i] * x[i + 1], a * values[i + 1])
        assert_same(x[i] ** 2, a**2)
        assert_same(x[i] ** -1, a**-1)
        assert_same(x[i] * 2.5, a * 2.5)


@pytest.mark.parametrize("key", [2, slice(0, 3), ...])
@pytest.mark.parametrize("dtype", ["u1", "i4", "f2", "c8", "M8[s]"])
def test_written_to_the_host_it_is_numpys(key, dtype, config):
    found = []
    for xp in (np, numpy):
        config.offload_threshold = 0
        value = scalar(numpy.float64, numpy.nan)[xp is numpy]
        config.offload_threshold = 1 << 16
        target = xp.zeros(5, dtype)
        try:
            with numpy.errstate(all="ignore"):
                target[key] = value
        except (TypeError, ValueError) as error:
            found.append((type(error), str(error)))
        else:
            found.append(numpy.asarray(target).tobytes())
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "compute", [operator.add, operator.sub, operator.mul, operator.truediv], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("kind", [numpy.float64, numpy.float32], ids=lambda kind: kind.__name__)
def test_numpys_numbers_wait_for_no_scalar(compute, kind, stats):
    for dtype in (numpy.float64, numpy.float32):
        theirs = numpy.full(1000, 0.3, dtype)
        ours = np.asarray(theirs) + dtype(0)
        for order in (lambda s: (s, kind(1.7)), lambda s: (kind(1.7), s)):
            before = stats().d2h_bytes
            found = compute(*order(ours.max()))
            assert stats().d2h_bytes == before
            wanted = compute(*order(theirs.max()))
            assert found.dtype == wanted.dtype
            assert float(found) == float(wanted)
