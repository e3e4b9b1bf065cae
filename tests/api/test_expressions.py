"""Expressions that give what NumPy gives, errors included, whatever the size and the place of the arrays.

NumPy's own suite (`python -m tests.numpy_suite`) found a difference in each of them once.
"""

import inspect
import warnings

import numpy as np
import pytest

import oxinp
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("offload_threshold")


def _holder(array):
    """Return an object whose `__array__` gives an array, ours where the program's NumPy is oxinp."""

    class Holder:
        def __array__(self, dtype=None, copy=None):
            return array

    return Holder()


EXPRESSIONS = """
np.arange(3.0).astype("i4", casting="same_value")
np.array([1.5]).astype("i4", casting="same_value")
np.array(1.25, dtype="O").astype(type(numpy.dtype("S")))
np.array(np.array([1.25, 10], dtype="O"), dtype=type(numpy.dtype("S")))
np.arange(6).reshape(2, 3).astype("f4", order="F", copy=False).astype("f4", order="C", copy=False)
np.array(holder(np.arange(3)))
np.array([holder(np.arange(3)), holder(np.arange(3))])
np.add(holder(np.arange(3)), 1)
np.arange(3) + holder(np.arange(3))
np.sum(holder(np.arange(3)))
np.intersect1d(holder(np.arange(3)), np.arange(2))
np.array(np.arange(3), copy=np._CopyMode.IF_NEEDED)
np.array(np.arange(3), copy=np._CopyMode.ALWAYS)
np.array([1, 2], copy=np._CopyMode.NEVER)
np.count_nonzero(np.zeros(3, "i4,i4"))
np.count_nonzero(np.ones(3, "i4,i4"))
np.flatnonzero(np.ones(3, "i4,i4"))
np.nonzero(np.array([(0, 1), (0, 0)], "i4,i4"))[0]
np.count_nonzero(np.arange(9, dtype="u1")[1:].view("i4"))
np.count_nonzero(np.arange(17, dtype="u1")[1:].view("i4").reshape(2, 2), axis=0)
np.flatnonzero(np.arange(9, dtype="u1")[1:].view("i4"))
np.array([0, 1]).choose(np.array([1, 2]), np.array([3, 4]))
np.array([0, 1]).choose([np.array([1, 2]), np.array([3, 4])])
np.lexsort(1)
np.linspace(0, 1, num=0.5)
np.array([1, 0], dtype=object).any(dtype=object)
np.array([[1, 2], [3, 4]]).any(dtype=object, keepdims=True)
np.round(np.asfortranarray(np.arange(6).reshape(2, 3))).flags.f_contiguous
np.array([1, 2, 3], ndmax=0).ndim
np.intersect1d(np.arange(20000), np.arange(5, 20005))
np.intersect1d(np.arange(20000), np.arange(5, 20005), assume_unique=True)
np.setdiff1d(np.arange(20000), np.arange(5, 20005))
np.setdiff1d(np.array([1, 2, 2]), np.array([2]), assume_unique=True)
np.random.default_rng(np.arange(3)).integers(100, size=3)
np.random.RandomState(np.arange(3)).randint(100, size=3)
np.arange(3).__array_wrap__(np.array(3, dtype=np.int8), None, True).dtype
np.arange(3).__array_wrap__(np.array([3]))
np.conjugate(np.array([thing]))[0]
np.add == numpy.add
hash(np.add) == hash(numpy.add)
isinstance(numpy.add, np.ufunc), isinstance(len, np.ufunc), isinstance(np.add, np.ufunc)
[np.invert, np.add].index(numpy.add)
""".strip().splitlines()
STATEMENTS = {
    "a string repeated in place": "x = np.array(['ab', 'c']).astype('U6')\nx *= 2",
    "a string repeated in place, by an array": "x = np.array(['ab', 'c']).astype('U6')\nx *= np.array([2, 1])",
    "a record assigned": "x = np.zeros(2, 'i4,f8')\nx[0] = np.array((1, 2.5), 'i4,f8')",
    "records assigned": "x = np.zeros(2, 'i4,f8')\nx[...] = np.array([(1, 2.5), (3, 4.5)], 'i4,f8')",
}


class Answering:
    """An object that says something of every name it is asked for."""

    def __getattr__(self, name):
        return lambda: name


def _value(expression, module):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return eval(expression, {"np": module, "numpy": np, "holder": _holder, "thing": Answering()})  # noqa: S307 - our own code
        except Exception as error:  # noqa: BLE001 - compared
            return error


def _assert_same(ours, numpys):
    if isinstance(numpys, Exception):
        assert type(ours) is type(numpys), ours
        assert str(ours) == str(numpys)
    elif isinstance(numpys, np.ndarray | np.generic):
        assert_same(ours, numpys)
        assert np.asarray(ours).flags.f_contiguous == np.asarray(numpys).flags.f_contiguous
    else:
        assert ours == numpys


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions(expression):
    if "same_value" in expression and np.lib.NumpyVersion(np.__version__) < "2.4.0":
        pytest.skip("NumPy has this casting from 2.4 on")
    if "ndmax" in expression and np.lib.NumpyVersion(np.__version__) < "2.4.0":
        pytest.skip("NumPy has this argument from 2.4 on")
    _assert_same(_value(expression, oxinp), _value(expression, np))


@pytest.mark.parametrize("code", STATEMENTS.values(), ids=STATEMENTS)
def test_statements(code):
    values = []
    for module in (oxinp, np):
        names = {"np": module}
        exec(code, names)  # noqa: S102 - our own code
        values.append(np.asarray(names["x"]))
    assert values[0].dtype == values[1].dtype
    assert values[0].tolist() == values[1].tolist()


def test_methods_have_numpys_signatures():
    for name in ("sum", "astype", "choose", "reshape", "sort"):
        if getattr(getattr(np.ndarray, name), "__text_signature__", None) is not None:
            assert inspect.signature(getattr(oxinp.ndarray, name)) == inspect.signature(getattr(np.ndarray, name))


class TestAssertions:
    """`numpy.testing` looks for NumPy's own class: what compares takes ours, too."""

    @pytest.mark.parametrize("module", [oxinp.testing, oxinp.ma.testutils])
    def test_arrays(self, module):
        x = oxinp.arange(4.0)
        module.assert_equal(x, x + 0)
        module.assert_array_equal(x, [0, 1, 2, 3])
        module.assert_equal({"a": [x, (x, 1)]}, {"a": [x, (x, 1)]})
        with pytest.raises(AssertionError):
            module.assert_equal(x, x + 1)
        with pytest.raises(AssertionError):
            module.assert_array_less(x, x)

    def test_values(self):
        x = oxinp.arange(4.0)
        oxinp.testing.assert_allclose(x, np.arange(4.0))
        oxinp.testing.assert_equal(x[1], 1.0)
        oxinp.testing.assert_equal(x.sum(), 6.0)
        assert oxinp.testing.assert_raises is np.testing.assert_raises


def test_private_names_of_numpys_are_found():
    assert oxinp._core.umath is np._core.umath
    assert oxinp.__config__ is np.__config__
    with pytest.raises(AttributeError, match="no_such_name"):
        oxinp._core.no_such_name  # noqa: B018
