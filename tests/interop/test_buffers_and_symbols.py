"""Libraries that take elements by their address, or scalars by what they can do: h5py, Pillow, numba, sympy."""

import numpy as np
import pytest

import oxinp

pytestmark = pytest.mark.usefixtures("offload_threshold")


def test_h5py_writes_and_reads(tmp_path):
    h5py = pytest.importorskip("h5py")
    expected = np.arange(12.0).reshape(3, 4) * 2
    y = oxinp.zeros((3, 4))
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["x"] = oxinp.arange(12.0).reshape(3, 4) * 2
        with pytest.raises(TypeError, match=r"expected numpy\.ndarray"):  # no array of NumPy's own, and nothing is lost
            file["x"].read_direct(y)
        assert not y.any()
        file["x"].read_direct(np.asarray(y), np.s_[1:], np.s_[:2])
        assert np.array_equal(np.asarray(y[:2] + 1), expected[1:] + 1)
        assert not y[2].any()
        file["x"][1:] = y[:2] * 3
        assert np.array_equal(file["x"][1:], expected[1:] * 3)


def test_pillow_takes_and_gives_pictures():
    Image = pytest.importorskip("PIL.Image")
    x = (oxinp.arange(60).reshape(4, 5, 3) * 4).astype(np.uint8)
    picture = Image.fromarray(x)
    assert picture.size == (5, 4)
    again = oxinp.asarray(picture)
    assert type(again) is oxinp.ndarray
    assert np.array_equal(np.asarray(again + 1), (np.arange(60).reshape(4, 5, 3) * 4 + 1).astype(np.uint8))


def test_numba_compiles_for_the_elements():
    numba = pytest.importorskip("numba", exc_type=ImportError)

    @numba.njit
    def double(a):
        for i in range(a.size):
            a[i] *= 2

    x = oxinp.arange(5.0) + 1
    double(oxinp.asnumpy(x))  # a copy
    assert x.tolist() == [1, 2, 3, 4, 5]
    shared = np.asarray(x)
    double(shared)
    assert (x + 1).tolist() == [3, 5, 7, 9, 11]


@pytest.mark.parametrize("expression", ["s + v.sum()", "v.sum() + s", "s * v.max()", "sympy.Integer(2) * v.sum()"])
def test_sympy_takes_scalars_as_numpys(expression):
    sympy = pytest.importorskip("sympy")
    found = [
        eval(expression, {"s": sympy.Symbol("s"), "sympy": sympy, "v": xp.arange(3)})  # noqa: S307 - our own code
        for xp in (oxinp, np)
    ]
    assert str(found[0]) == str(found[1])


def test_sympy_makes_functions_of_arrays():
    sympy = pytest.importorskip("sympy")
    s = sympy.Symbol("s")
    function = sympy.lambdify(s, s**2 + 1, modules=oxinp)
    assert function(oxinp.arange(3.0)).tolist() == [1, 2, 5]
    assert oxinp.zeros(sympy.Integer(2)).shape == (2,)
