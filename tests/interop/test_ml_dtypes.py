"""bfloat16 arrays of ml_dtypes: NumPy multiplies them in float32, and so do we, on the device."""

import numpy as np
import pytest

import oxinp

ml_dtypes = pytest.importorskip("ml_dtypes")
pytestmark = pytest.mark.usefixtures("on_device")


def draw(shape, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(ml_dtypes.bfloat16)


@pytest.mark.parametrize(
    "shapes",
    [
        ((40, 30), (30, 20)),
        ((2, 40, 30), (30, 20)),
        ((3, 40, 30), (3, 30, 7)),
        ((40,), (40, 3)),
        ((300, 520), (520, 264)),
    ],
)
def test_products(shapes, stats):
    a, b = draw(shapes[0], 1), draw(shapes[1], 2)
    x, y = oxinp.asarray(a), oxinp.asarray(b)
    before = stats()
    got = x @ y
    assert isinstance(got, oxinp.ndarray)
    values = np.asarray(got)
    assert stats().launches > before.launches
    assert stats().fallbacks.get("matmul") == before.fallbacks.get("matmul")
    expected = a @ b
    assert got.dtype == expected.dtype
    magnitude = np.abs(a).astype("f8") @ np.abs(b).astype("f8")
    exact = a.astype("f8") @ b.astype("f8")
    assert (np.abs(values - exact) <= (shapes[0][-1] + 1) * 2.0**-24 * magnitude).all()


def test_views_and_writes_are_seen():
    a, b = draw((40, 30), 3), draw((30, 20), 4)
    x, y = oxinp.asarray(a), oxinp.asarray(b)
    for _ in range(2):
        for key in ((slice(None), slice(None)), (slice(None, None, 2), slice(None, None, -1))):
            expected = a[key].astype("f8") @ b[key[1]].astype("f8")
            np.testing.assert_allclose(np.asarray(x[key] @ y[key[1]]), expected, rtol=1e-4, atol=1e-4)
        for array in (a, x):
            array[3] = 2
            np.add(array, 1, out=array)
    np.testing.assert_array_equal(np.asarray(x), a)


def test_the_result_may_be_asked_for_in_float64():
    a = draw((20, 30), 5)
    x = oxinp.asarray(a)
    np.testing.assert_allclose(
        np.asarray(oxinp.matmul(x, x.T, dtype="f8")), a.astype("f8") @ a.T.astype("f8"), rtol=1e-12
    )
