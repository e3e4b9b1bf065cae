"""Triangular systems on the device: SciPy's solutions, broadcasting and errors."""

# ruff: noqa: ICN001 - oxinp is np

import warnings

import numpy
import pytest
import scipy.linalg

import oxinp as np
from oxinp._core.ops.triangular import Triangle, solve_triangular
from oxinp.scipy import linalg

pytestmark = pytest.mark.usefixtures("on_device")

DTYPES = "fdFD"
BOOLS = [False, True]


def draw(rng, code, *shape):
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if code in "FD" else values).astype(code)


def well_conditioned(rng, code, *shape):
    n = shape[-1]
    return draw(rng, code, *shape) / n + 2 * numpy.eye(n, dtype=code)


def operator_of(a, trans, lower, unit):
    """The matrix that a call means."""
    kept = numpy.tril(a) if lower else numpy.triu(a)
    if unit:
        kept = kept - kept * numpy.eye(a.shape[-1]) + numpy.eye(a.shape[-1], dtype=a.dtype)
    turned = kept.swapaxes(-1, -2) if trans else kept
    return turned.conj() if trans == 2 else turned


def check(a, b, trans=0, lower=False, unit=False, place=np.asarray):
    """Compare with SciPy: dtype, shape and order, and the residual with what rounding every step may leave."""
    found = solve_triangular(place(a), place(b), Triangle(trans, lower, unit))
    expected = scipy.linalg.solve_triangular(a, b, trans, lower, unit)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    x = numpy.asarray(found)
    meant, right = operator_of(a, trans, lower, unit), b
    if b.ndim == 1:
        x, right = x[:, None], b[:, None]
    wide = numpy.clongdouble if found.dtype.kind == "c" else numpy.longdouble
    residual = numpy.abs(meant.astype(wide) @ x - right)
    bound = numpy.abs(meant) @ numpy.abs(x) + numpy.abs(right)
    assert (residual <= (a.shape[-1] + 4) * numpy.finfo(found.dtype).eps * bound).all()


@pytest.mark.parametrize("unit", BOOLS, ids=["general", "unit"])
@pytest.mark.parametrize("lower", BOOLS, ids=["upper", "lower"])
@pytest.mark.parametrize("trans", [0, 1, 2])
@pytest.mark.parametrize("code", "fD")
def test_matrices(code, trans, lower, unit, stats):
    rng = numpy.random.default_rng(1)
    a, b = well_conditioned(rng, code, 40, 40), draw(rng, code, 40, 5)
    if unit:
        numpy.fill_diagonal(a, 0)  # not referenced
    check(a, b, trans, lower, unit)
    assert not set(stats().fallbacks) - {"__array__"}


@pytest.mark.parametrize("code", DTYPES)
def test_vectors_and_single_elements(code):
    rng = numpy.random.default_rng(2)
    for n in (1, 7, 45):
        check(well_conditioned(rng, code, n, n), draw(rng, code, n), lower=True)


@pytest.mark.parametrize("code", ["d", "F"])
def test_several_blocks(code):
    rng = numpy.random.default_rng(3)
    check(well_conditioned(rng, code, 150, 150), draw(rng, code, 150, 3), lower=True)


@pytest.mark.parametrize(
    ("first", "second"), [((3,), (3,)), ((), (3,)), ((3,), ()), ((2, 1), (3,)), ((2, 3), (2, 3))], ids=str
)
def test_stacks_are_broadcast(first, second):
    rng = numpy.random.default_rng(4)
    check(well_conditioned(rng, "d", *first, 20, 20), draw(rng, "d", *second, 20, 2), 1, lower=True)


def test_views():
    rng = numpy.random.default_rng(5)
    a, b = well_conditioned(rng, "d", 24, 24), draw(rng, "d", 24, 24)
    place = np.asarray
    for turned_a, turned_b in ((lambda x: x.T, lambda x: x.T), (lambda x: x[::-1, ::-1], lambda x: x[::2, ::3][:, :4])):
        left, right = turned_a(a), turned_b(numpy.concatenate([b, b]) if turned_b(b).shape[0] != 24 else b)
        found = solve_triangular(
            turned_a(place(a)),
            turned_b(place(numpy.concatenate([b, b]) if turned_b(b).shape[0] != 24 else b)),
            Triangle(is_lower=True),
        )
        expected = scipy.linalg.solve_triangular(left, right, lower=True)
        numpy.testing.assert_allclose(numpy.asarray(found), expected, rtol=1e-12, atol=1e-13)


def test_other_dtypes():
    rng = numpy.random.default_rng(6)
    a = (rng.integers(1, 4, (9, 9)) + 9 * numpy.eye(9)).astype(int)
    for first, second in (("l", "l"), ("f", "l"), ("b", "f"), ("f", "F"), ("i", "F"), ("d", "F"), ("?", "e")):
        left = numpy.eye(9).astype(first) if first == "?" else a.astype(first)
        right = rng.integers(0, 2, (9, 2)).astype(second)
        found = solve_triangular(np.asarray(left), np.asarray(right), Triangle())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of SciPy's, for half precision
            expected = scipy.linalg.solve_triangular(left, right)
        assert found.dtype == expected.dtype
        numpy.testing.assert_allclose(numpy.asarray(found), expected, rtol=1e-4 if expected.itemsize < 9 else 1e-12)


def outcome(function, *arguments):
    with pytest.raises((ValueError, numpy.linalg.LinAlgError)) as caught:
        function(*arguments)
    return caught.type, str(caught.value)


@pytest.mark.parametrize("position", [0, 3, 8])
def test_a_zero_on_the_diagonal(position):
    rng = numpy.random.default_rng(7)
    a, b = well_conditioned(rng, "d", 9, 9), draw(rng, "d", 9)
    a[position, position] = 0
    ours = outcome(solve_triangular, np.asarray(a), np.asarray(b), Triangle(is_lower=True))
    assert ours == outcome(lambda: scipy.linalg.solve_triangular(a, b, lower=True))
    stack = numpy.stack([numpy.eye(9), a, numpy.zeros((9, 9))])
    ours = outcome(solve_triangular, np.asarray(stack), np.asarray(numpy.eye(9)), Triangle())
    assert ours == outcome(scipy.linalg.solve_triangular, stack, numpy.eye(9))


@pytest.mark.parametrize(
    ("a", "b"), [((3, 4), (3,)), ((3, 3), (4,)), ((3, 3), (4, 2)), ((2, 3, 3), (3, 3, 2))], ids=str
)
def test_shapes_that_do_not_go_together(a, b):
    ours = outcome(solve_triangular, np.ones(a), np.ones(b), Triangle())
    assert ours[0] is outcome(scipy.linalg.solve_triangular, numpy.ones(a), numpy.ones(b))[0]


def test_nothing_to_solve_for():
    found = solve_triangular(np.eye(3), np.zeros((3, 0)), Triangle())
    expected = scipy.linalg.solve_triangular(numpy.eye(3), numpy.zeros((3, 0)))
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)


def test_scipys_name(stats):
    rng = numpy.random.default_rng(8)
    a, b = well_conditioned(rng, "d", 9, 9), draw(rng, "d", 9)
    ours = linalg.solve_triangular(np.asarray(a), np.asarray(b), trans="T", lower=True, overwrite_b=True)
    numpy.testing.assert_allclose(ours, scipy.linalg.solve_triangular(a, b, trans="T", lower=True), rtol=1e-12)
    assert not set(stats().fallbacks) - {"__array__"}
    b[3] = numpy.nan
    expected = outcome(scipy.linalg.solve_triangular, a, b)
    assert outcome(linalg.solve_triangular, np.asarray(a), np.asarray(b)) == expected
    found = linalg.solve_triangular(np.asarray(a), np.asarray(b), check_finite=False)
    assert numpy.isnan(numpy.asarray(found)).any()
