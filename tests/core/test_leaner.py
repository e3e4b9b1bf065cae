"""What does the same as NumPy's functions in fewer steps: the same elements, dtypes, layouts, warnings and errors."""

# ruff: noqa: ICN001 - oxinp is np

import warnings
from operator import attrgetter, setitem

import numpy
import pytest

import oxinp
import oxinp as np
from oxinp._core.host.leaner import NUMERICAL
from tests.comparator import assert_same, outcome
from tests.core.test_spellings import SHAPES, values_of

DTYPES = ("?", "u1", "i8", "f4", "f8", "c16", ">f8", "O")
X, Y = object(), object()
"""The array, and one like it with other elements."""
MODES = ("constant", "edge", "wrap", "symmetric", "reflect", "linear_ramp", "mean", "empty")
CALLS = {
    "allclose": [((X, Y), {}), ((X, X), {}), ((X, X), {"equal_nan": True}), ((X, 2.5), {}), ((X, 2.5, 1.0, 2), {})],
    "isclose": [((X, Y), {}), ((X, X), {"atol": -1.0}), ((X, X), {"rtol": numpy.inf}), ((X, 3.0), {"rtol": 0.5})],
    "average": [((X,), {}), ((X, None, Y), {}), ((X,), {"weights": X}), ((X, 0), {"weights": X})],
    "clip": [
        *(
            ((X, low, high), {})
            for low, high in ((0, 2), (2, 0), (-1, 2.5), (0, None), (numpy.nan, 1.0), (0, 300), (X, 5))
        ),
        *(((X, low, high), {}) for low, high in ((-(2**63), 5), (0, 255), (0, 2**63), (False, 1))),
        ((X,), {"a_min": 0, "a_max": 5}),
        ((X, 1), {"a_max": 5}),
        ((X,), {"min": 1, "max": 5}),
        ((X, 1, 5), {"dtype": "f4"}),
    ],
    "cross": [((X, Y), {}), ((X, Y), {"axis": 0})],
    "delete": [*(((X, i), {}) for i in (0, 2, -1, 11, 12, -12, -13, True, [1, 2])), ((X, 1, 0), {}), ((X, 1, 1), {})],
    "gradient": [((X,), {}), ((X, 2), {}), ((X, 0.1), {}), ((X, 0), {}), ((X, 1.0, 2.0), {}), ((X,), {"axis": 0})],
    "insert": [*(((X, i, 2), {}) for i in (0, 2, -1, 12, -12, 13, True)), ((X, 1, 2.5), {}), ((X, 1, [1, 2]), {})],
    "kron": [((X, Y), {}), ((X, X), {})],
    "linalg.norm": [
        ((X,), {}),
        *(((X, order), {}) for order in (1, 2, 0, 3, 2.5, -1, numpy.inf, -numpy.inf, "fro", True, None)),
        *(((X,), {"axis": axis, "keepdims": keep}) for axis in (0, 1, -1, 2, (0, 1), None) for keep in (False, True)),
        *(((X, order, 0), {}) for order in (1, 2, numpy.inf)),
    ],
    "median": [((X,), {}), ((X, 0), {}), ((X,), {"keepdims": True})],
    "meshgrid": [((X, Y), {}), ((X, Y), {"indexing": "ij"}), ((X, Y), {"indexing": "x"}), ((X,), {}), ((X, X, X), {})],
    "pad": [
        *(
            ((X, width), {})
            for width in (0, 1, 3, -1, (1, 2), ((1, 2),), ((1, 2), (0, 3)), [[0, 1], [2, 0]], 1.5, True)
        ),
        *(((X, width, mode), {}) for mode in MODES for width in (0, 2, (0, 1), ((0, 2), (1, 0)), 20)),
        *(((X, 1), {"constant_values": value}) for value in (0, 2, -0.0, numpy.nan, 300, -1, (1, 2))),
    ],
    **{
        name: [
            ((X,), {}),
            *(((X, axis), {}) for axis in (0, 1, -1, 2, None, (0, 1))),
            *(((X,), {"ddof": ddof}) for ddof in (0, 1, 12, 20, 0.5)),
            ((X, 0), {"keepdims": True}),
            ((X,), {"keepdims": True, "ddof": 1}),
            ((X, None, "f4"), {}),
        ]
        for name in ("std", "var")
    },
    "tile": [((X, reps), {}) for reps in (0, 1, 2, (2,), (1, 1), (2, 1), (1, 3), (2, 2), (2, 2, 2), [2, 2], -1, True)],
    **{
        name: [
            ((n, *rest), {})
            for n in (0, 1, 4, -1, 2.0, True)
            for rest in ((), (1,), (-2,), (9,), (0, 3), (1, 6), (1, 0))
        ]
        for name in ("tril_indices", "triu_indices")
    },
    "trapezoid": [
        ((X,), {}),
        ((X, Y), {}),
        ((X,), {"dx": 0.5}),
        ((X,), {"dx": 2}),
        ((X, X, 1.0, 0), {}),
        ((X, [1, 2]), {}),
    ],
}


def test_every_row_has_calls():
    assert NUMERICAL.keys() == CALLS.keys()


def told(function, *args, **kwargs):
    """Return what a call gives, or the type of what it raises, and what is warned."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - which are to be alike
            found = type(error)
    return found, sorted(str(each.message) for each in caught)


def assert_alike(found, wanted):
    assert type(found) is type(wanted)
    if type(found) is tuple:
        assert len(found) == len(wanted)
        for each, other in zip(found, wanted, strict=True):
            assert_alike(each, other)
    elif type(found) is numpy.ndarray:
        assert found.dtype == wanted.dtype
        assert (found.shape, found.strides) == (wanted.shape, wanted.strides)
        assert found.tobytes() == wanted.tobytes()
    else:
        assert str(found) == str(wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CALLS)
def test_what_is_leaner_is_numpys(name, dtype):
    theirs, taken = attrgetter(name)(numpy), 0
    for shape in ("three", *SHAPES):
        whole = values_of(dtype, 12) if dtype != "O" else numpy.array([*map(int, range(12))], object)
        for values in (whole, numpy.arange(12).astype(dtype)):
            x = values[:3] if shape == "three" else SHAPES[shape](values)
            y = x[::-1].copy() if x.ndim else x
            for given, said in CALLS[name]:
                args = [x if value is X else y if value is Y else value for value in given]
                kwargs = {key: x if value is X else y if value is Y else value for key, value in said.items()}
                found, warned = told(NUMERICAL[name], *args, **kwargs)
                if found is NotImplemented:
                    assert not warned
                    continue
                taken += 1
                wanted, theirs_said = told(theirs, *args, **kwargs)
                assert_alike(found, wanted)
                assert set(warned) == set(theirs_said)
                parts = found if type(found) is tuple else (found,)
                assert not any(numpy.may_share_memory(part, x) for part in parts if type(part) is numpy.ndarray)
    assert taken or dtype != "f8"


LISTS = [
    lambda m: m.sum([1, 2, 3]),
    lambda m: m.sum([1.5, True]),
    lambda m: m.sum(((1, 2), (3, 4)), axis=0),
    lambda m: m.sum([2**70]),
    lambda m: m.sum(numpy.float64(3)),
    lambda m: m.max(3),
    lambda m: m.mean([]),
    lambda m: m.sum([[1, 2], [3]]),
    lambda m: m.sort([3, 1, 2]),
    lambda m: m.sort((3, 1, 2)),
    lambda m: m.argsort([[3, 1], [1, 2]]),
    lambda m: m.dot([1, 2], [3, 4]),
    lambda m: m.dot(m.arange(2), [3, 4]),
    lambda m: m.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [1, 2]),
    lambda m: m.linalg.inv([[0.0, 0.0], [0.0, 4.0]]),
    lambda m: m.polyval([1, 2, 3], 2),
    lambda m: m.interp(2.5, [1, 2, 3], [4.0, 5.0, 6.0]),
    lambda m: m.unravel_index(5, (2, 3)),
    lambda m: m.unravel_index(6, (2, 3)),
    lambda m: m.unravel_index([1, 2], (2, 3)),
    lambda m: m.ravel_multi_index((1, 2), (2, 3)),
    lambda m: m.where([True, False], [1, 2], 3),
    lambda m: m.concatenate([[1, 2], [3.0]]),
    *(
        lambda m, axis=axis: m.concatenate([m.ones((2, 2)), m.zeros((2, 1)).T.reshape(2, 1)], axis=axis)
        for axis in (0, 1, -1, 2, None, (0,))
    ),
    *(lambda m, axis=axis: m.concatenate((m.arange(4).reshape(2, 2).T,) * 3, axis) for axis in (0, 1, -2, None)),
    lambda m: m.concatenate([m.ones(2), m.ones((2, 2))], axis=0),
    lambda m: m.concatenate([m.ones(2), m.arange(2)], axis=0),
    lambda m: m.concatenate([m.arange(2), [3.0]]),
    lambda m: m.pad([1, 2], 3),
    lambda m: m.tile([1, 2], 3),
    lambda m: m.repeat([1, 2], 3),
    lambda m: m.unique([3, 1, 3], return_counts=True),
    lambda m: m.allclose([1.0, 2.0], [1.0, 2.0]),
    lambda m: m.eye(3),
    lambda m: m.linspace(0, 1, 3),
    lambda m: m.linspace(0, 1, 7, endpoint=False),
    lambda m: m.linspace(0, 1, num=7),
    lambda m: m.linspace(0, 1),
    lambda m: m.linspace(0.3, -1.7, num=7, endpoint=False),
    lambda m: m.linspace(0, 1, 7, num=7),
    lambda m: m.linspace(0, 1, 1, endpoint=False),
    lambda m: m.linspace(0, 1, 7, endpoint=0),
    lambda m: m.linspace(0, 1, 7, retstep=True),
    lambda m: m.linspace(0, 0, 7),
    lambda m: m.zeros_like(m.ones((2, 3)), dtype=bool),
    lambda m: m.ones_like(m.ones((2, 3)).T, dtype="f4"),
    lambda m: m.ones_like(m.ones((2, 3)), dtype=int),
    lambda m: m.zeros_like(m.ones((2, 3)), dtype=object),
    lambda m: m.zeros_like([1, 2], dtype=float),
    lambda m: m.zeros_like(m.ones(3), shape=(2, 2)),
    lambda m: m.std([1, 2, 4]),
    lambda m: m.median([1, 2, 4]),
    lambda m: m.linalg.norm([3.0, 4.0]),
    lambda m: m.repeat(m.arange(4).reshape(2, 2), 2, axis=0),
    lambda m: m.arange(4).reshape(2, 2).repeat(2, 1),
    lambda m: m.repeat(m.arange(4), 2, axis=1),
    lambda m: m.repeat(m.arange(4), [1, 2, 3, 4]),
    lambda m: m.tri(3),
    lambda m: m.tri(3, 4, 1, dtype=int),
    lambda m: m.triu_indices(4, 1),
    lambda m: m.triu_indices(4, m=6),
    lambda m: m.clip(m.arange(5), 1, 3),
    lambda m: m.clip(m.arange(5.0), a_min=1, a_max=3),
    lambda m: m.clip(m.arange(5.0), 1, 3, dtype="f4"),
    lambda m: m.clip(m.arange(5.0), 1, 3, where=[True] * 5, out=m.zeros(5)),
    lambda m: m.std(m.arange(5.0), where=m.arange(5) > 1),
    lambda m: m.var(m.arange(6.0).reshape(2, 3), axis=1, ddof=1, keepdims=True),
    lambda m: m.var(m.arange(3.0), ddof=3),
    lambda m: m.average(m.arange(3.0), weights=[1, 2, 3]),
    lambda m: m.average(m.arange(3.0), weights=m.zeros(3)),
    lambda m: m.median(m.array([3.0, 1.0, 2.0]), overwrite_input=True),
    lambda m: m.median(m.arange(4.0), out=m.zeros(())),
    lambda m: m.trapezoid(m.arange(4.0), spacing=2),
    lambda m: m.pad(m.arange(3.0), 1, mode="unknown"),
    lambda m: m.arange(5).clip(1, max=3),
    lambda m: m.array([numpy.complex128(1j), 1, numpy.float64(3)]),
    lambda m: m.power(2.0, 3),
    lambda m: m.power(2, -1),
    lambda m: m.exp(1j),
    lambda m: m.log(0),
    lambda m: m.divmod(7, 2),
    lambda m: m.sqrt(2**64),
    lambda m: m.bitwise_and(1, 2.5),
    lambda m: m.add(1, "a"),
    lambda m: m.array(1.5),
    lambda m: m.array(2**70),
    lambda m: m.array(numpy.float32(3)),
    lambda m: m.array(True),
    lambda m: m.array([1, 2], dtype=float),
    lambda m: m.array([1.5, 2], int),
    lambda m: m.array((1, 2)),
    lambda m: m.array([(1, 2), (3, 4)]),
    lambda m: m.array([(1, 2), (3, 4)], dtype=m.float32),
    lambda m: m.array([300], dtype=m.uint8),
    lambda m: m.array([1e300], dtype="f4"),
    lambda m: m.array([1j], dtype=float),
    lambda m: m.array([numpy.nan], dtype=int),
    lambda m: m.array([1, 2], dtype=m.arange(2.0).dtype),
    lambda m: m.array([1, 2], dtype=">f8"),
    lambda m: m.array([1, 2], dtype=object),
    lambda m: m.array([(1, 2)], dtype=[("a", int), ("b", float)]),
    lambda m: m.array([1, "a"]),
    lambda m: m.array([2**70]),
    lambda m: m.array([2**70, 1], dtype=float),
    lambda m: m.array([[1, 2], [3]]),
    lambda m: m.array([]),
    lambda m: m.array([[], []]),
    lambda m: m.array([m.arange(3), m.arange(3)]),
    lambda m: m.array([m.ones((2, 2)), m.zeros((2, 2))]),
    lambda m: m.array([m.ones((2, 2)).T[:, ::-1]] * 2),
    lambda m: m.array([m.ones(2), m.zeros(3)]),
    lambda m: m.array([m.ones(2), m.zeros(2, int)]),
    lambda m: m.array(m.arange(6).reshape(2, 3).T, copy=True),
    lambda m: m.asarray([1, 2], dtype=float),
    lambda m: m.asarray((1, 2)),
    lambda m: m.asarray([[1, 2], [3, 4]], m.float32),
]


@pytest.mark.parametrize("threshold", [0, 65536])
@pytest.mark.parametrize("call", LISTS)
def test_lists_and_numbers_are_taken_as_numpy_takes_them(call, threshold):
    with oxinp.config.override(offload_threshold=threshold), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, wanted = outcome(call, np), outcome(call, numpy)
        assert type(found) is type(wanted) or not isinstance(wanted, Exception)
        if not isinstance(wanted, Exception):
            assert_same(found, wanted, ulp=4)


WRITTEN = [
    (slice(1, 4), (1.5, 2, True)),
    (slice(1, 4), [1, 2, 3]),
    (slice(1, 4), [1, 2]),
    (slice(1, 4), [1, 2j, 3]),
    (slice(1, 4), (numpy.float64(1), 2, numpy.int8(3))),
    (slice(1, 4), [numpy.nan, 1, 2]),
    (slice(1, 4), [300, -300, 1]),
    (slice(1, 4), [2**70, 1, 1]),
    (slice(1, 2), [1]),
    (slice(1, 1), []),
    (..., [7]),
    (2, [7]),
    (2, (1, 2)),
    ([0, 3], [7, 8]),
    ([0, 3], (7, 8)),
    (slice(0, 3), ["1", "2", "x"]),
    (slice(0, 2), [None, 1]),
]


@pytest.mark.parametrize("threshold", [0, 65536])
@pytest.mark.parametrize("dtype", ["?", "u1", "i8", "f4", "f8", "c16", "O"])
def test_lists_of_numbers_are_written_as_numpy_writes_them(dtype, threshold):
    with oxinp.config.override(offload_threshold=threshold):
        for key, value in WRITTEN:
            found, said = told(setitem, ours := np.arange(6).astype(dtype), key, value)
            wanted, theirs_said = told(setitem, theirs := numpy.arange(6).astype(dtype), key, value)
            assert found is wanted
            assert set(said) == set(theirs_said)
            if wanted is None:
                assert_same(ours, theirs)
            part = np.zeros((3, 6), dtype)[1]
            other = numpy.zeros((3, 6), dtype)[1]
            assert told(setitem, part, key, value)[0] is told(setitem, other, key, value)[0]
            if wanted is None:
                assert_same(part, other)


def test_what_cannot_be_written_to_stays():
    ours = np.arange(4.0)
    ours.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        ours[1:3] = 1.0, 2.0
    assert ours.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("threshold", [0, 65536])
def test_outputs_by_position_are_written_to(threshold):
    with oxinp.config.override(offload_threshold=threshold):
        x, out = np.arange(4.0), np.zeros(4)
        assert np.subtract(x, 1.0, out) is out
        assert out.tolist() == [-1, 0, 1, 2]
        assert np.negative(x, x) is x
        assert x.tolist() == [0, -1, -2, -3]
        with pytest.raises(TypeError):
            np.add(x, 0.5, np.zeros(4, int))
        with pytest.raises(ValueError, match="broadcast"):
            np.add(x, 0.5, np.zeros(3))
