"""NumPy's functions called on our arrays come back to us, unless another class has a say."""

import re

import numpy as np
import pytest

import oxinp
from oxinp._core.array import dispatch
from tests.api.examples import arrays
from tests.comparator import assert_same

# NumPy's and SciPy's, without routines of BLAS and LAPACK, which are registered on first use and have longer names.
FUNCTIONS = [function for function in dispatch.functions if type(function).__name__ != "fortran"]


def is_ours(value):
    return type(value) is oxinp.ndarray


@pytest.mark.usefixtures("offload_threshold")
@pytest.mark.parametrize(
    "code",
    [
        "numpy.sum(f, axis=0)",
        "numpy.cumsum(f)",
        "numpy.flip(f, 1)",
        "numpy.concatenate([f, f[:1]])",
        "numpy.where(b, f, 0)",
        "numpy.zeros_like(f)",
        "numpy.copy(f)",
        "numpy.linalg.inv(s)",
        "numpy.fft.fft(v)",
        "numpy.add(f, f)",
        "numpy.exp(f)",
        "numpy.add(1, f)",
        "numpy.add.reduce(f)",
        "numpy.multiply.outer(v, w)",
        "numpy.lib.stride_tricks.sliding_window_view(v, 2)",
        "numpy.zeros(3, like=f)",
        "numpy.asarray([1, 2], like=f)",
        "numpy.full((2,), 3, like=f)",
        "numpy.eye(2, like=f)",
        "numpy.stack([f, f])",
    ],
)
def test_gives_ours(code):
    ours = eval(code, {"numpy": np, **arrays(oxinp, code)})  # noqa: S307 - our own code
    numpys = eval(code, {"numpy": np, **arrays(np, code)})  # noqa: S307
    assert is_ours(ours)
    assert_same(ours, numpys)


@pytest.mark.usefixtures("offload_threshold")
def test_mixed_with_numpy_arrays():
    host, ours = np.arange(4.0), oxinp.arange(4.0)
    for give in (
        lambda: host + ours,
        lambda: ours + host,
        lambda: np.hypot(host, ours),
        lambda: np.concatenate([host, ours]),
        lambda: oxinp.concatenate([host, ours]),
        lambda: np.where(host > 1, ours, host),
        lambda: oxinp.interp(host, ours, host),
    ):
        assert is_ours(give())
    assert_same(host + ours, host * 2)


def test_functions_are_looked_up_by_object(config):
    config.fallback = "error"
    assert_same(np.amax(oxinp.arange(3.0)), np.float64(2))
    assert np.ndim(oxinp.zeros((2, 2))) == 2


def test_a_function_that_wants_to_know_gets_an_answer():
    x = oxinp.arange(3.0)
    assert np.result_type(x, np.complex64) == np.complex128
    assert np.can_cast(x.dtype, np.float32) is False
    assert np.may_share_memory(x, x[:2]) is np.shares_memory(x, x[:2]) is True


class Duck:
    """Implements NumPy's functions its own way."""

    def __array_function__(self, function, kinds, args, kwargs):
        return "quack", function.__name__


def test_another_class_with_array_function_is_asked():
    x = oxinp.arange(3.0)
    assert np.concatenate([x, Duck()]) == ("quack", "concatenate")
    assert dispatch.array_function(np.concatenate, (oxinp.ndarray, Duck), ([x],), {}) is NotImplemented


class Silent:
    """Takes no part."""

    def __array_function__(self, function, kinds, args, kwargs):
        return NotImplemented

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return NotImplemented


def test_nobody_knows():
    x = oxinp.arange(3.0)
    with pytest.raises(TypeError, match="no implementation found"):
        np.concatenate([x, Silent()])
    with pytest.raises(TypeError, match="operand type"):
        np.exp2(x, out=Silent())
    with pytest.raises(TypeError, match="operand type"):
        np.add(x, Silent())


class Metres:
    """Has operators of its own, and is no array."""

    __array_priority__ = 100

    def __rmul__(self, other):
        return "metres", other

    def __radd__(self, other):
        return NotImplemented

    def __rpow__(self, other):
        return "power", other

    def __rdivmod__(self, other):
        return "divmod", other


def test_operators_are_left_to_what_claims_priority():
    x, metres = oxinp.arange(4.0), Metres()
    assert x * metres == ("metres", x)
    assert x**metres == ("power", x)
    assert divmod(x, metres) == ("divmod", x)
    with pytest.raises(TypeError) as refused:
        np.arange(4.0) + metres
    with pytest.raises(TypeError, match=re.escape(str(refused.value))):
        x + metres
    x *= metres
    assert x[0] == "metres"


def test_array_likes_without_protocols_are_converted():
    class Plain:
        def __array__(self, dtype=None, copy=None):
            return np.arange(3.0)

    x = oxinp.arange(3.0)
    assert_same(x + Plain(), np.arange(3.0) * 2)
    assert_same(np.hypot(x, Plain()), np.hypot(np.arange(3.0), np.arange(3.0)))


@pytest.mark.usefixtures("on_device")
def test_device_scalars_are_passed_on():
    x = oxinp.arange(4.0)
    total = x.sum()
    assert_same(np.minimum(total, 3), np.float64(3))
    assert_same(np.hypot(x, total), np.hypot(np.arange(4.0), 6.0))
    assert_same(oxinp.full(3, total), np.full(3, 6.0))
    assert_same(np.clip(x, 0, total), np.arange(4.0))
    assert_same(oxinp.stack([x.max(), total]), np.array([3.0, 6.0]))


def test_fronts_have_numpys_name():
    # A routine of BLAS says "function sgemm".
    assert [f for f in FUNCTIONS if dispatch.functions[f].__name__ != f.__name__.split()[-1]] == []
