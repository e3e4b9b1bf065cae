"""The array API standard, as far as NumPy's own namespace gives it, and by the package that makes up for the rest."""

import pickle

import numpy as np
import pytest

import oxinp
from tests.comparator import assert_same
from tests.thinned import thinned

pytestmark = pytest.mark.usefixtures("offload_threshold")
N = 20_000


def test_the_namespace():
    x = oxinp.ones(N)
    assert x.__array_namespace__() is oxinp.array_api
    assert x.__array_namespace__(api_version="2023.12") is oxinp.array_api
    with pytest.raises(ValueError, match="API"):
        x.__array_namespace__(api_version="1999.01")
    info = oxinp.__array_namespace_info__()
    assert info.default_device() == x.device == "cpu"
    assert set(info.dtypes()) == set(np.__array_namespace_info__().dtypes())


def test_devices_and_copies():
    x = oxinp.arange(6.0).reshape(2, 3)
    assert x.to_device("cpu") is x
    assert_same(x.mT, np.arange(6.0).reshape(2, 3).mT)
    assert oxinp.asarray(x, copy=False) is x
    assert oxinp.asarray(x, copy=True) is not x
    for make in (oxinp.zeros, oxinp.ones, oxinp.empty):
        assert make(3, device="cpu").device == "cpu"
        with pytest.raises(ValueError, match="cpu"):
            make(3, device="gpu")
    with pytest.raises(ValueError, match="copy"):
        oxinp.asarray([1, 2], copy=False)


def test_array_api_compat():
    compat = pytest.importorskip("array_api_compat")
    x = oxinp.arange(float(N))
    assert compat.is_array_api_obj(x)
    assert not compat.is_numpy_array(x)
    assert compat.array_namespace(x, x + 1) is oxinp.array_api
    assert compat.device(x) == "cpu"
    assert compat.to_device(x, "cpu") is x
    assert compat.size(x) == N


def test_a_program_for_any_namespace():
    strict = pytest.importorskip("array_api_strict")

    def softmax(x):
        xp = x.__array_namespace__()
        shifted = x - xp.max(x, axis=-1, keepdims=True)
        powers = xp.exp(shifted)
        return xp.concat([powers / xp.sum(powers, axis=-1, keepdims=True), xp.astype(x > 0, xp.float64)], axis=0)

    values = np.random.default_rng(0).normal(size=(100, 50))
    ours = softmax(oxinp.asarray(values))
    assert type(ours) is oxinp.ndarray
    assert np.allclose(np.asarray(ours), np.asarray(softmax(strict.asarray(values))))
    assert np.allclose(np.asarray(oxinp.from_dlpack(strict.asarray(values))), values)


@pytest.mark.parametrize(
    ("protocol", "dtype"),
    thinned([2, 3, 4, 5], ["?", "i2", "f4", "f8", "D", "M8[s]", "U3", "O", [("a", "f4"), ("b", "i8")]]),
)
def test_pickles(protocol, dtype):
    values = np.arange(12).astype("M8[s]" if dtype == "M8[s]" else "i8").astype(dtype).reshape(3, 4)
    for array in (oxinp.asarray(values), oxinp.asarray(values).T, oxinp.asarray(values)[::2, 1:]):
        data, expected = pickle.dumps(array, protocol), np.asarray(array)
        with oxinp.config.override(backend="host"):  # a machine without a GPU
            again = pickle.loads(data)  # noqa: S301 - its own
            assert type(again) is oxinp.ndarray
            assert_same(again, expected)
            assert again.flags.writeable


def test_pickles_with_buffers_beside_them():
    x = oxinp.arange(float(N))
    buffers = []
    data = pickle.dumps(x, 5, buffer_callback=buffers.append)
    assert len(data) < 1000
    assert sum(buffer.raw().nbytes for buffer in buffers) == 8 * N
    again = pickle.loads(data, buffers=buffers)  # noqa: S301 - its own
    again += 1
    assert_same(again, np.arange(float(N)) + 1)
    assert_same(x, np.arange(float(N)))
