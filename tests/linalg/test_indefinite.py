"""`scipy.linalg.ldl`: SciPy's factors, orders and warnings, on the device; every matrix of a stack."""

import numpy as np
import pytest
import scipy.linalg

import oxinp

RANDOM = np.random.default_rng(4)
X = RANDOM.standard_normal((7, 7))
Z = X + 1j * RANDOM.standard_normal((7, 7))
SYMMETRIC, COMPLEX_SYMMETRIC, HERMITIAN = X + X.T, Z + Z.T, Z + Z.conj().T
INTEGERS = np.rint(SYMMETRIC * 9).astype("i8")

slow = pytest.mark.slow
pytestmark = pytest.mark.usefixtures("on_device")
ours = oxinp.scipy.linalg.ldl


def same(found, expected, scale=1e4):
    assert len(found) == len(expected)
    for x, y in zip(map(np.asarray, found), expected, strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        tolerance = 0 if x.dtype.kind == "i" else scale * np.finfo(x.dtype).eps
        assert np.allclose(x, y, rtol=0, atol=tolerance * np.abs(y).max(initial=0))


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize(
    ("a", "hermitian"),
    [
        (SYMMETRIC, True),
        (HERMITIAN, True),
        pytest.param(COMPLEX_SYMMETRIC, False, marks=slow),
        pytest.param(SYMMETRIC.astype("f4"), False, marks=slow),
        pytest.param(HERMITIAN.astype("c8"), True, marks=slow),
        pytest.param(INTEGERS, True, marks=slow),
        pytest.param(SYMMETRIC[::-1, ::-1], True, marks=slow),
        pytest.param(X, True, marks=slow),  # of which a triangle is read
        pytest.param(SYMMETRIC[:1, :1], True, marks=slow),
        pytest.param(np.zeros((4, 4)), True, marks=slow),
    ],
)
def test_factors_are_scipys(a, lower, hermitian, stats):
    found = ours(oxinp.asarray(a), lower=lower, hermitian=hermitian)
    assert not stats().fallbacks
    same(found, scipy.linalg.ldl(a, lower=lower, hermitian=hermitian))


def test_stacks_of_any_shape(stats):
    stack = np.stack([SYMMETRIC, SYMMETRIC @ SYMMETRIC, np.eye(7)]).reshape(3, 1, 7, 7)
    found = ours(oxinp.asarray(stack))
    assert not stats().fallbacks
    same(found, scipy.linalg.ldl(stack))


def test_imaginary_diagonals_are_told_of_at_the_users_line():
    a = HERMITIAN + 1j * np.eye(7)
    with pytest.warns(np.exceptions.ComplexWarning, match="imaginary parts of the diagonal") as told:
        found = ours(oxinp.asarray(a))
    assert told[0].filename == __file__
    with pytest.warns(np.exceptions.ComplexWarning):
        same(found, scipy.linalg.ldl(a))


@pytest.mark.filterwarnings("ignore:Calling ldl with arguments of dtype=float16:DeprecationWarning")
@pytest.mark.parametrize("a", [np.full((3, 3), np.nan), np.ones((2, 3)), np.ones((3, 3), "f2") * np.inf])
def test_what_scipy_refuses(a):
    with pytest.raises(ValueError) as theirs:
        scipy.linalg.ldl(a)
    with pytest.raises(ValueError) as found:
        ours(oxinp.asarray(a))
    assert str(found.value) == str(theirs.value)


def test_without_elements_and_unchecked(stats):
    same(ours(oxinp.zeros((0, 0))), scipy.linalg.ldl(np.zeros((0, 0))))
    a = SYMMETRIC.copy()
    a[3, 2] = np.inf
    ours(oxinp.asarray(a), check_finite=False)
    assert stats().fallbacks["scipy.linalg.ldl"] == 2
