"""What computes small arrays in the place of NumPy's functions: the same elements, dtypes, layouts and warnings."""

# ruff: noqa: ARG005, ICN001 - cases of one signature, and oxinp is np

import itertools
import operator
import warnings

import numpy
import pytest

import oxinp
import oxinp as np
from oxinp._core.host.spellings import SPELLINGS

DTYPES = ("?", "i1", "u1", "i4", "i8", "u8", "f2", "f4", "f8", "c8", "c16", "M8[s]", "m8[s]", "U3", ">f8")
VALUES = numpy.array([3, -0.0, 0, 120, -7, 2.5, 1, 1e30, numpy.inf, numpy.nan, -1e300, 1e308])


def values_of(dtype, count):
    """Return elements of a dtype, among them those of floats that have no order, and that overflow."""
    kind = numpy.dtype(dtype).kind
    chosen = VALUES[:count] if kind in "fcO" else numpy.arange(count) - (3 if kind == "i" else 0)
    with numpy.errstate(all="ignore"):
        return chosen.astype(dtype)


SHAPES = {
    "vector": lambda x: x,
    "backwards": lambda x: x[::-1],
    "every other": lambda x: x[::2],
    "matrix": lambda x: x.reshape(4, 3),
    "transposed": lambda x: x.reshape(3, 4).T,
    "row": lambda x: x.reshape(1, 12),
    "single": lambda x: x[3:4].reshape(()),
    "none": lambda x: x[:0],
}
X = object()  # the array
NOT_TAKEN = object()
CALLS = {
    "sum": [(X,), (X, 0), (X, 1), (X, -1), (X, 2), (X, (0,)), (X, (-1, 0)), (X, ())],
    "max": [(X,), (X, 0), (X, -1)],
    "min": [(X,), (X, 0), (X, -1)],
    "all": [(X,), (X, 0), (X, -1)],
    "any": [(X,), (X, 0), (X, -1)],
    "mean": [(X,), (X, 0), (X, 1), (X, -1), (X, 2), (X, -3), (X, (0,)), (X, True)],
    "cumsum": [(X,), (X, 0), (X, 1), (X, -1), (X, ()), (X, (0,))],
    "argmax": [(X,), (X, 0), (X, 1), (X, -1), (X, 2), (X, (0,))],
    "argmin": [(X,), (X, 0), (X, 1), (X, -1), (X, 2), (X, (0,))],
    "append": [(X, X), (X, 2), (X, 2.5), (X, 2**70), (X, "u"), (X, numpy.ones((2, 2), "f4"))],
    "argsort": [(X,)],
    "clip": [
        (X, -1.5, 2.0),
        (X, 2.0, -1.5),
        (X, 0, 100),
        (X, 0, 2.5),
        (X, 10**400, 3),
        (X, float("nan"), 1.0),
        (X, 0.0, -0.0),
    ],
    "concatenate": [([X, X],), (X,)],
    "stack": [([X, X],), ([X],), ([X, numpy.ones(3)],), ([X, numpy.ones(12, bool)],), (X,)],
    "diag": [(X,), (X, 1), (X, -2), (X, 30), (X, 1.5), (X, True)],
    "dot": [(X, X), (X, 2.5)],
    "einsum": [
        *(("ij->ji", X), ("i->", X), ("ij,ij->i", X, X), ("ij,kj->ik", X, X), ("ij,kj", X, X), ("i,j->ji", X, X)),
        *(
            ("i, i", X, X),
            ("...i,...i", X, X),
            ("ij->i", X),
            ("ii", X),
            ("ij,j", X, numpy.ones(3)),
            ("ij,j", X, numpy.ones(5)),
        ),
    ],
    "empty_like": [(X,)],
    "full_like": [(X, 2.5), (X, 3), (X, -0.0), (X, 2**70), (X, X)],
    "hstack": [([X, X],), ([X],), ([X, numpy.ones(3)],), ([X, numpy.ones((4, 2), "i2")],), (X,)],
    "inner": [(X, X), (X, 2.5), (X, numpy.arange(3.0)), (X, numpy.arange(12))],
    "outer": [(X, X), (X, numpy.arange(3.0)), (X, 2.5)],
    "norm": [(X,)],
    "prod": [(X,), (X, 0), (X, 1), (X, -1), (X, 2), (X, (0,)), (X, (-1, 0)), (X, ())],
    "repeat": [(X, 2), (X, 0), (X, -1), (X, 2.5), (X, numpy.arange(12)), (X, True)],
    "searchsorted": [(X, 2.5), (X, X), (X, 3, "right"), (X, 3, "middle"), (X, numpy.arange(3), "left"), (X, [X, X])],
    "sort": [(X,), (X, 0), (X, 1), (X, -1), (X, -2), (X, 2), (X, None), (X, (0,))],
    "take": [(X, 3), *[(X, numpy.array(at)) for at in (2, [1, 5], [[-1], [0]], [99], [0.5], [True], [])]],
    "vdot": [(X, X), (X, 2.5), (X, numpy.arange(3.0)), (X, numpy.arange(12) * 1j)],
    "vstack": [([X, X],), ([X],), ([X, numpy.ones(3)],), ([X, numpy.ones((2, 3), "i2")],), (X,)],
    "where": [(X, X, X), (X, 1, 2.5), (numpy.arange(12) > 5, X, 3)],
    "zeros_like": [(X,)],
}


def outcome(call, *args):
    """Return what a call gives: elements, dtype and strides or the exception, and the warnings."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            result = call(*args)
        except Exception as error:  # noqa: BLE001 - which is compared
            return type(error), str(error), []
    if result is NotImplemented:
        return NOT_TAKEN
    array = np.asnumpy(result)
    if call is numpy.empty_like or call is SPELLINGS[numpy.empty_like].function:
        array = numpy.zeros_like(array)
    elements = array.tolist() if array.dtype.hasobject else array.tobytes()
    kind = type(result) if not isinstance(result, np.ndarray) else "array"
    return (array.dtype.str, array.shape, getattr(result, "strides", ()), str(elements), kind), [
        (each.category, str(each.message)) for each in told
    ]


@pytest.mark.parametrize("theirs", SPELLINGS, ids=lambda function: getattr(function, "__qualname__", str(function)))
def test_spellings_are_numpys(theirs):
    """Bit for bit, in the same layout, with the same warnings and exceptions; every row takes something."""
    taken = 0
    for dtype, shape, call in itertools.product(DTYPES, SHAPES, CALLS[theirs.__name__]):
        x = SHAPES[shape](values_of(dtype, 12))
        args = [
            x if arg is X else [x if part is X else part for part in arg] if type(arg) is list else arg for arg in call
        ]
        spelling = SPELLINGS[theirs]
        if x.size and len(args) >= spelling.least:
            found = outcome(spelling.function, *args)
            if found != NOT_TAKEN:
                wanted = outcome(theirs, *args)
                assert found == wanted, (dtype, shape, call)
                assert found[1] == [] or spelling.may_warn or isinstance(found[0], type)
                taken += 1
    assert taken


MADE = {
    "zeros": lambda np: np.zeros(5),
    "zeros of a row": lambda np: np.zeros((1, 5)),
    "zeros of three dimensions": lambda np: np.zeros((2, 1, 3)),
    "more zeros": lambda np: np.zeros((90, 100)),
    "zeros of a dtype": lambda np: np.zeros((2, 3), dtype="i4"),
    "zeros of a class": lambda np: np.zeros((2, 3), np.float32),
    "zeros of text": lambda np: np.zeros(3, "U5"),
    "zeros of objects": lambda np: np.zeros(3, object),
    "fewer than none": lambda np: np.zeros(-1),
    "a shape of two kinds": lambda np: np.zeros((2, 1.5)),
    "empty": lambda np: np.empty((0, 3)),
    "ones": lambda np: np.ones(4),
    "ones of a dtype": lambda np: np.ones((2, 2), bool),
    "arange": lambda np: np.arange(7),
    "arange of none": lambda np: np.arange(-3),
    "arange, backwards": lambda np: np.arange(7, 1, -2),
    "arange in steps": lambda np: np.arange(2, 900, 3),
    "arange of no step": lambda np: np.arange(2, 9, 0),
    "arange of floats": lambda np: np.arange(2, 9.5, 0.5),
    "arange of large integers": lambda np: np.arange(2**40, 2**40 + 3),
    "eye": lambda np: np.eye(4),
    "eye of none": lambda np: np.eye(0),
    "eye of one": lambda np: np.eye(1),
    "eye of less": lambda np: np.eye(-2),
    "identity": lambda np: np.identity(3),
    "wide eye": lambda np: np.eye(3, 5, 1),
    "full": lambda np: np.full((2, 3), 1.5),
    "full of an integer": lambda np: np.full(4, 7),
    "full of a large integer": lambda np: np.full(4, 2**70),
    "full of truth": lambda np: np.full((), True),
    "many zeros of a dtype": lambda np: np.zeros(5000, np.int16),
    "linspace of integers": lambda np: np.linspace(-3, 5, 9),
    "linspace of large integers": lambda np: np.linspace(2**60, 2**61, 9),
    "linspace": lambda np: np.linspace(0.1, 2.7, 7),
    "linspace of one": lambda np: np.linspace(0.1, 2.7, 1),
    "linspace of no length": lambda np: np.linspace(0.1, 0.1, 4),
    "list": lambda np: np.array([1.5, 2, True]),
    "rows": lambda np: np.array([[1, 2], [3, 4]]),
    "rows that do not fit": lambda np: np.array([[1, 2], [3]]),
    "large integers": lambda np: np.array([2**63, 1]),
    "larger integers": lambda np: np.array([2**70, 1]),
    "nothing": lambda np: np.array([]),
    "too few arguments": lambda np: np.zeros(),
    "unknown arguments": lambda np: np.zeros(3, colour=1),
}


@pytest.mark.parametrize("name", MADE)
def test_what_is_made_is_numpys(name):
    wanted, found = (outcome(MADE[name], module) for module in (numpy, np))
    assert found[0] == wanted[0]


PARTS = {
    "reshape": lambda np, x: x.reshape(2, -1),
    "reshape by a tuple": lambda np, x: x.reshape((x.size,)),
    "reshape in another order": lambda np, x: x.reshape(-1, order="F"),
    "reshape to what does not fit": lambda np, x: x.reshape(7, 5),
    "reshape to nothing": lambda np, x: x.reshape(),
    "numpy.reshape": lambda np, x: np.reshape(x, (-1, 1)),
    "ravel": lambda np, x: x.ravel(),
    "ravel in another order": lambda np, x: x.ravel("F"),
    "numpy.ravel": lambda np, x: np.ravel(x),
    "transpose": lambda np, x: x.transpose(),
    "transpose by axes": lambda np, x: x.transpose(tuple(range(x.ndim))),
    "numpy.transpose": lambda np, x: np.transpose(x),
    "T": lambda np, x: x.T,
    "first": lambda np, x: x[:1],
    "column": lambda np, x: x[:, 0],
    "copy": lambda np, x: x.copy(),
    "f4": lambda np, x: x.astype("f4"),
    "float": lambda np, x: x.astype(float),
    "i2": lambda np, x: x.astype(np.int16),
    "bool": lambda np, x: x.astype(bool),
    "complex": lambda np, x: x.astype("complex64"),
    "itself": lambda np, x: np.asarray(x),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_and_casts_are_numpys(name):
    for dtype, shape in itertools.product((*DTYPES, "O"), SHAPES):
        memories = [np.asarray(values_of(dtype, 12)) if ours else values_of(dtype, 12) for ours in (False, True)]
        wanted, found = (
            outcome(PARTS[name], module, SHAPES[shape](x)) for module, x in zip((numpy, oxinp), memories, strict=True)
        )
        assert found[0] == wanted[0], (dtype, shape)
        assert found[1:] == wanted[1:], (dtype, shape)


@pytest.mark.parametrize("name", list(PARTS)[:15])
def test_views_are_views(name):
    x = np.asarray(numpy.arange(12.0).reshape(3, 4))
    try:
        part = PARTS[name](np, x)
    except (ValueError, TypeError):
        return
    part[...] = -1
    seen = numpy.arange(12.0).reshape(3, 4)
    PARTS[name](numpy, seen)[...] = -1
    assert np.asnumpy(x).tolist() == seen.tolist()


NUMBERS = (2, -3, 2.5, 0, 0.0, -0.0, float("nan"), float("inf"), 2**31, -(2**40), 2**63, -(2**63) - 1, 2**70, True)


@pytest.mark.parametrize(
    "name", ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "lshift", "lt", "eq"]
)
def test_operators_with_numbers_are_numpys(name):
    """Twice, for numbers become arrays when they are met: that must not change dtypes, signs of zero or what fails."""
    plain, in_place = getattr(operator, name), getattr(operator, f"i{name.strip('_')}", None)
    for dtype, number, _ in itertools.product(("?", "i1", "i8", "u8", "f4", "f8", "c16"), NUMBERS, range(2)):
        given = values_of(dtype, 9)
        for call in (plain, lambda x, y: plain(y, x), in_place):
            if call is not None:
                wanted, found = outcome(call, given.copy(), number), outcome(call, np.asarray(given), number)
                assert found == wanted, (dtype, number)


def test_warnings_name_the_line():
    x = np.array([1e308, 1e308])
    for compute in (x.sum, lambda: np.sum(x, axis=0), lambda: np.cumsum(x), lambda: x + x, lambda: x * 2.5):
        with pytest.warns(RuntimeWarning, match="overflow") as told:
            compute()
        assert told[0].filename == __file__
        with np.errstate(over="raise"), pytest.raises(FloatingPointError):
            compute()
