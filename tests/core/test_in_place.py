"""In-place operators beside arrays of other classes: they write, whatever the other side is."""

# ruff: noqa: ICN001 - oxinp is np where programs are written

import operator

import numpy
import pytest

import oxinp as np
from oxinp._core.ufunc.objects import UFUNC_OBJECTS
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("offload_threshold")

OPERATORS = {
    name: getattr(operator, name)
    for name in ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul")
}


class Hooked:
    """Neither NumPy's array nor ours, with a say of its own in ufuncs."""

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **_):
        return ufunc.__name__, method, [type(x) is Hooked for x in inputs], out is not None


class HookedArray(numpy.ndarray):
    def __array_ufunc__(self, ufunc, method, *_, out=None, **__):
        return ufunc.__name__, method, out is not None


class Forbidden:
    __array_ufunc__ = None

    def __radd__(self, other):
        return "added"


def _mapped(path):
    mapped = numpy.memmap(path / "values", "f8", "w+", shape=(2, 2))
    mapped[:] = [[5.0, 6.0], [7.0, 8.0]]
    return mapped


OTHERS = {
    "memmap": _mapped,
    "masked": lambda _: numpy.ma.array([[1.0, 2.0], [3.0, 4.0]], mask=[[0, 1], [0, 0]]),
    "matrix": lambda _: numpy.matrix([[1.0, 2.0], [3.0, 4.0]]),
    "char": lambda _: numpy.array([["1", "2"], ["3", "4"]]).view(numpy.char.chararray),
    "hooked": lambda _: Hooked(),
    "hooked array": lambda _: numpy.ones((2, 2)).view(HookedArray),
    "forbidden": lambda _: Forbidden(),
}


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("name", OPERATORS)
def test_the_array_itself_is_written(twin, tmp_path, make, name):
    def body(np):
        a = np.array([[3.0, 5.0], [7.0, 9.0]])
        alias, part = a, a[0]
        result = OPERATORS[name](a, make(tmp_path))
        return alias is result, result, alias, part

    twin(body)


@pytest.mark.parametrize("make", [OTHERS["masked"], OTHERS["matrix"]], ids=["masked", "matrix"])
def test_views_and_integers(twin, tmp_path, make):
    def failing(np):
        b = np.arange(4).reshape(2, 2)
        b -= make(tmp_path)  # whose floats integers do not take

    def writing(np):
        a = np.arange(16).reshape(4, 4)
        a[1:3, ::2] += make(tmp_path).astype(int)
        return a

    twin(writing)
    twin(failing)


def test_nothing_leaves_the_device(config, stats, tmp_path):
    config.offload_threshold = 0
    a = np.ones((2, 2)) * 1
    a += OTHERS["masked"](tmp_path)
    assert_same(a, numpy.array([[2.0, 3.0], [4.0, 5.0]]))
    assert not stats().fallbacks.keys() - {"__array__"}


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x[3:]], ids=["whole", "part"])
@pytest.mark.parametrize("other", ["number", "array"])
def test_a_small_array_that_is_written_to_on_the_host_keeps_no_copy(view, other, config):
    """As in ``r -= alpha * q``, where `r` has been multiplied by a large matrix before."""
    config.offload_threshold = 65536
    large = np.asarray(numpy.random.default_rng(1).random((300, 1200))) * 1
    np.evaluate(large)
    x, wanted = np.zeros(1200), numpy.zeros(1200)
    given = {"number": (2.5, 2.5), "array": (np.arange(1200.0), numpy.arange(1200.0))}[other]
    for _ in range(2):
        np.evaluate(large @ x)
        assert x._storage.value is not None
        mine, theirs = (view(g) if other == "array" else g for g in given)
        part, same = view(x), view(wanted)
        UFUNC_OBJECTS["add"].methods[2](part, mine)  # which has machine code where it has been called often
        same += theirs
        assert x._storage.value is x._storage.stale is None
        assert_same(x, wanted)
        numpy.testing.assert_allclose(numpy.asarray(large @ x), numpy.asarray(large) @ wanted)
