"""The operators spell out what `record` does in general: both ways are walked for every ufunc, and compared.

What is compared is what is recorded (the structure, where each leaf lies and which object it is, the layout and the
mask), where the result is computed, and which exception is raised. That a shortcut is taken where it is meant to be is
checked, too: an operator that always handed over would be equal and slow.
"""

# ruff: noqa: ARG005, ICN001 - cases of one signature, and oxinp is np

import contextlib
import itertools
import sys

import numpy
import pytest

import oxinp as np
from oxinp._api import creation
from oxinp._core.lazy import expr, placement, record, results
from oxinp._core.lazy.combining import combine
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.record import cost_of, express
from oxinp._core.lazy.stores import target_of
from oxinp._core.ufunc import operators
from oxinp._core.ufunc.object import ufunc
from oxinp._core.ufunc.objects import ROWS, UFUNC_OBJECTS

# Of powers, `power` decides which operation they are.
NAMES = [name for name, row in ROWS.items() if row.operators and type(UFUNC_OBJECTS[name]) is ufunc]
NAMES = [name for name in NAMES if UFUNC_OBJECTS[name].methods]
UNARY = [name for name in NAMES if ROWS[name].numpy.nin == 1]
BINARY = [name for name in NAMES if ROWS[name].numpy.nin == 2]
IN_PLACE = [name for name in BINARY if len(UFUNC_OBJECTS[name].methods) == 3]


class HandedOver(Exception):
    """The operator left it to the general way."""


def operation_of(name):
    return UFUNC_OBJECTS[name].operations[0]


def on_device(dtype, shape=(40,)):
    return np.asarray(numpy.ones(shape, dtype)) if numpy.dtype(dtype) != bool else np.asarray(numpy.ones(shape, bool))


def described(value):
    """Return what tells values apart: what is computed, on what, and where the result lies."""
    graph, leaves, mask = value
    return (
        id(graph.structure),
        [where if isinstance(where, numpy.dtype | type) else repr(where) for where in graph.leaves],
        [entry if isinstance(entry, int | float | complex) else (entry.ptr, id(entry.buffer)) for entry in leaves],
        repr(graph.layout),
        mask,
    )


# What an operator meets on the device, made from arrays of a dtype.
PAIRS = {
    "two arrays": lambda x, y: (x, y),
    "one array twice": lambda x, y: (x, x),
    "a chain and its leaf": lambda x, y: (x + x, x),
    "an array and a chain of it": lambda x, y: (x, x + x),
    "two chains of the same arrays": lambda x, y: (x + y, y + x),
    "two chains of other arrays": lambda x, y: (x + x, y + y),
    "a chain with a scalar": lambda x, y: (x + x.dtype.type(1), y),
    "views": lambda x, y: (x[1:], y[:-1]),
    "views of one array": lambda x, y: (x[1:], x[:-1]),
    "a view and its array's chain": lambda x, y: ((x + y)[2:], x[2:]),
    "broadcast": lambda x, y: (x[:, None], y),
    "shapes that do not fit": lambda x, y: (x, y[:7]),
    "a scalar of the device": lambda x, y: (x, y.sum()),
    "both sides valid": lambda x, y: (mirrored(x), y),
    "an array of the host": lambda x, y: (x, hosted(y)),
    "another dtype": lambda x, y: (x, on_device("i2")),
    "a transposed array": lambda x, y: (np.stack([x, y]).T, np.stack([y, x]).T),
}


def mirrored(x):
    list(x)
    assert x._storage.host is not None
    return x


def hosted(x):
    with np.config.override(offload_threshold=float("inf")):
        return np.asarray(numpy.ones(x.shape, x.dtype))


SCALARS = {
    "an int": 3,
    "a float": 2.5,
    "a negative int": -1,
    "a large int": 2**31 - 1,
    "a huge int": 2**63,
    "true": True,
}


@contextlib.contextmanager
def handing_over():
    """Let operators raise `HandedOver` where they would leave the work to the general way."""

    def apply(*_, **__):
        raise HandedOver

    with pytest.MonkeyPatch.context() as patch:
        for name in ("apply", "apply_into"):
            patch.setattr(operators, name, apply)
        patch.setattr(results.types, "fall_back", apply)
        yield


def general(name, operands, target=None):
    """Return what `express` records, or the type of what it raises."""
    try:
        return described(express(operation_of(name), operands, target, is_checked=target is not None))
    except (Unsupported, TypeError, ValueError, OverflowError) as error:
        return type(error)


def spelled_out(call, *operands):
    """Return what an operator records; None where it hands over."""
    try:
        with handing_over():
            return described(call(*operands)._storage.value)
    except HandedOver:
        return None
    except (Unsupported, TypeError, ValueError, OverflowError) as error:
        return type(error)


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("dtype", ["f8", "i4", "?"])
@pytest.mark.parametrize("case", PAIRS.values(), ids=PAIRS)
def test_two_operands(case, dtype):
    x, y = on_device(dtype), on_device(dtype)
    with numpy.errstate(all="ignore"):
        a, b = case(x, y)
    np.evaluate(*[z for z in (a, b) if z._layout.ndim == 0])
    taken = 0
    for name in BINARY:
        expected = general(name, (a, b))
        recorded = spelled_out(UFUNC_OBJECTS[name].methods[0], a, b)
        assert recorded in (expected, None), name
        taken += recorded is not None and isinstance(expected, tuple)
    known = [name for name in BINARY if isinstance(general(name, (a, b)), tuple)]
    if a._storage.value is not None and b._storage.value is not None and type(b) is np.ndarray:
        share = 0 if sum(x is y for x in a._storage.value[1] for y in b._storage.value[1]) > 1 else len(known)
        assert taken >= share


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1", "?", "c8"])
@pytest.mark.parametrize("scalar", SCALARS.values(), ids=SCALARS)
def test_a_number_on_either_side(scalar, dtype):
    x = on_device(dtype)
    y = x[3:]
    for name, a in itertools.product(BINARY, (x, y, +x if dtype != "?" else x)):
        plain, reflected, *_ = UFUNC_OBJECTS[name].methods
        for operands, call in (((a, scalar), plain), ((scalar, a), reflected)):
            expected = general(name, operands)
            recorded = spelled_out(call, a, scalar)
            assert recorded in (expected, None), (name, operands)
            if type(scalar) in (int, float) and abs(scalar) < 2**31 and isinstance(expected, tuple):
                assert recorded is not None, name


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("kind", [3, 2.5, "the array itself", "another array"])
def test_what_was_met_before_the_tables_aged_is_known(kind, monkeypatch):
    monkeypatch.setattr(expr, "_num_entered", 0)  # they do not age twice
    for name in BINARY:
        call = UFUNC_OBJECTS[name].methods[0]
        for n in (1040, 1041):  # of which nothing else makes arrays: the second has no entry when it is asked for
            x = on_device("f4", (n,))
            other = {"the array itself": x, "another array": on_device("f4", (n,))}.get(kind, kind)
            if n == 1041:
                for table in expr._TABLES:
                    table.age()
                recorded = spelled_out(call, x, other)
            expected = general(name, (x, other))
        assert recorded == expected or expected is TypeError, name  # of bits of floats


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("is_reflected", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_numbers_of_numpy_are_met_once(dtype, is_reflected):
    """As a program does that takes elements from an array on the host, and whose chains met no number of Python's."""
    x, scalar = on_device(dtype), numpy.dtype(dtype).type(1.25)
    for name in BINARY:
        call = UFUNC_OBJECTS[name].methods[is_reflected]
        chain = np.sinh(x + np.arctan(x)) * x  # of which nothing else has made more
        if isinstance(general(name, (chain, scalar.item())), tuple):
            chain = np.cosh(chain) - np.tanh(x)
            first = call(chain, scalar)
            assert spelled_out(call, chain, scalar) == described(first._storage.value), name


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("name", ["empty_like", "ones_like", "zeros_like"])
def test_what_is_like_a_contiguous_array_is_made_by_its_layout(name, monkeypatch):
    """NumPy is asked of which shape and order it is where that may be another one."""
    asked = []
    give = creation.StandIns.give
    monkeypatch.setattr(creation.StandIns, "give", lambda self, x: asked.append(x) or give(self, x))
    x, make = on_device("f4", (5, 40)), getattr(np, name)
    for like in (x, x[1:4], x[2, 3:], x[:, :1]):
        expected = getattr(numpy, name)(numpy.asarray(like))
        made = make(like)
        assert (made.shape, made.dtype, made.strides) == (expected.shape, expected.dtype, expected.strides)
        assert type(made) is np.ndarray
        if name != "empty_like":
            assert (numpy.asarray(made) == expected).all()
    assert len(asked) == 1  # the column, which has gaps


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1", "?", "c16"])
def test_one_operand(name, dtype):
    x = on_device(dtype)
    for a in (x, x[1:], x[::2], np.equal(x, x)):
        expected = general(name, (a,))
        recorded = spelled_out(UFUNC_OBJECTS[name].methods[0], a)
        assert recorded in (expected, None)
        if isinstance(expected, tuple):
            assert recorded is not None


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("dtype", ["f8", "i4", "?"])
@pytest.mark.parametrize("case", ["whole", "view", "chain", "itself", "a chain of itself", "overlapping"])
def test_in_place(case, dtype, monkeypatch):
    stored = []
    monkeypatch.setattr(operators, "store", lambda out, value, *_: stored.append((out, described(value))))
    x, y = on_device(dtype), on_device(dtype)
    a, b = {
        "whole": lambda: (x, y),
        "view": lambda: (x[2:], y[2:]),
        "chain": lambda: (x, y + y),
        "itself": lambda: (x, x),
        "a chain of itself": lambda: (x, x + y),
        "overlapping": lambda: (x[1:], x[:-1]),
    }[case]()
    for name in IN_PLACE:
        expected = general(name, (a, b), target_of(a))
        stored.clear()
        try:
            with handing_over():
                assert UFUNC_OBJECTS[name].methods[2](a, b) is a
        except HandedOver:
            assert not stored
            assert case in {"itself", "a chain of itself", "overlapping"} or not isinstance(expected, tuple), name
        else:
            assert stored == [(a, expected)], name


@pytest.mark.parametrize("threshold", [0, 64, 256, 700, 65536])
@pytest.mark.parametrize("dtypes", [("f8", "f8"), ("f4", "i8"), ("?", "?"), ("u1", "f2"), ("c16", "f8")])
def test_what_stays_on_the_host_stays_there_in_general(dtypes, threshold, config):
    shapes = [
        ((1,), (1,)),
        ((3,), (3,)),
        ((40,), (40,)),
        ((30, 1), (1, 30)),
        ((40,), ()),
        ((0, 1), (40,)),
        ((3,), (2,)),
    ]
    config.offload_threshold = float("inf")
    pairs = [tuple(np.asarray(numpy.ones(s, d)) for s, d in zip(shape, dtypes, strict=True)) for shape in shapes]
    config.offload_threshold = threshold
    small = 0
    for name, (a, b) in itertools.product(BINARY, pairs):
        plain, reflected, *_ = UFUNC_OBJECTS[name].methods
        for call, operands, given in (
            (plain, (a, b), (a, b)),
            (plain, (a, 2), (a, 2)),
            (reflected, (2.0, a), (a, 2.0)),
        ):
            try:
                with numpy.errstate(all="ignore"), handing_over():
                    result = call(*given)
            except (HandedOver, TypeError, ValueError, OverflowError):
                continue
            small += 1
            operation = operation_of(name)
            assert placement.is_recorded_on_host(cost_of(operation, operands), operation.weight), (name, operands)
            assert getattr(result, "_storage", None) is None or result._storage.value is None
    assert small or not threshold


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("is_reflected", [False, True])
def test_numbers_of_numpy_that_have_been_met_are_recorded_without_a_call_more(dtype, is_reflected):
    x, scalar = on_device(dtype), numpy.dtype(dtype).type(1.25)
    call = UFUNC_OBJECTS["multiply"].methods[is_reflected]
    call(x, scalar)
    entered = []
    sys.setprofile(lambda frame, event, _: entered.append(frame.f_code.co_name) if event == "call" else None)
    try:
        call(x, scalar)
    finally:
        sys.setprofile(None)
    assert not {"general", "general_reflected", "with_number"} & {*entered}


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("is_in_place", [False, True])
def test_chains_that_grow_too_long_are_computed_without_being_combined_again(is_in_place, monkeypatch):
    """Which has been found of their structures in the first loop; of an accumulated sum no kernel computes all."""

    def accumulated(n, image):
        total, weight = n.zeros((60, 60)), n.zeros((60, 60))
        for i in range(24):
            shifted = image[i : i + 60, 3:63]
            w = n.exp(-((shifted - image[:60, :60]) ** 2) / 0.5)
            if is_in_place:
                total += w * shifted
                weight += w
            else:
                total = total + w * shifted
                weight = weight + w
        return total / weight

    given = numpy.random.default_rng(3).random((90, 70))
    image = np.asarray(given)
    for _ in range(4):
        np.evaluate(accumulated(np, image))
    combined = []
    monkeypatch.setattr(record, "combine", lambda *args: combined.append(args) or combine(*args))
    with handing_over():
        result = accumulated(np, image)
    numpy.testing.assert_allclose(numpy.asarray(result), accumulated(numpy, given), rtol=1e-12)
    assert not combined


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("case", ["no leaf in common", "leaves in common", "the same leaf twice"])
def test_what_is_added_to_a_whole_array_is_looked_up(case, monkeypatch):
    """As in ``path *= step; total += path``, whose chains have ever more leaves in common."""

    def run(x, y):
        total, path = x * 0.5, y + 1.0
        for _ in range(3):
            step = {"no leaf in common": y * 2.0, "leaves in common": path * x, "the same leaf twice": x * y + x}[case]
            path *= step
            total += path
            total -= x
        return total, path

    given = [numpy.random.default_rng(seed).random((13, 5)) for seed in (1, 2)]
    found = [np.asarray(x) * 1 for x in given]
    np.evaluate(*found)
    for _ in range(12):  # until what is found is kept, whatever the tables have put aside meanwhile
        run(*found)
    for mine, wanted in zip(run(*found), run(*given), strict=True):
        numpy.testing.assert_array_equal(numpy.asarray(mine), wanted)
    monkeypatch.setattr(operators, "expression", None)  # which the general way begins with
    run(*found)


@pytest.mark.usefixtures("on_device")
def test_numbers_of_numpy_beside_an_array_of_the_device_are_spelled_out(monkeypatch):
    x, scalar = on_device("f8"), numpy.float64(2.5)
    assert [(f(x)).dtype for f in (lambda x: x * scalar, lambda x: scalar - x)] == [x.dtype] * 2
    monkeypatch.setattr(operators, "chain", None)  # which `with_number` begins with
    chained = np.arctan(x)
    made = chained * scalar, scalar - chained
    monkeypatch.undo()
    for mine, wanted in zip(made, (chained * 2.5, 2.5 - chained), strict=True):
        assert described(mine._storage.value) == described(wanted._storage.value)
