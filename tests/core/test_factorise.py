"""Systems, inverses, Cholesky factors, determinants on the device: NumPy's results by LAPACK's ratios, its errors."""

# ruff: noqa: ICN001 - oxinp is np

import numpy
import pytest

import oxinp as np
from oxinp._core.lazy import placement

pytestmark = pytest.mark.usefixtures("on_device")

CODES = "fdFD"
RATIO = 30
SHAPES = [(5, 5), (35, 35), (2, 3, 7, 7)]


def draw(code, *shape):
    rng = numpy.random.default_rng(ord(code) + len(shape))
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if code in "FD" else values).astype(code)


def positive_definite(code, *shape):
    a = draw(code, *shape)
    return a @ a.conj().swapaxes(-1, -2) + numpy.eye(shape[-1], dtype=code)


def norm(x):
    return numpy.linalg.norm(x, 1, axis=(-2, -1))


def check_dtype(found, expected, stats):
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert not set(stats().fallbacks) - {"__array__"}
    return numpy.asarray(found)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_solve(shape, code, stats):
    a, b = draw(code, *shape), draw(code, *shape[:-1], 3)
    x = check_dtype(np.linalg.solve(np.asarray(a), np.asarray(b)), numpy.linalg.solve(a, b), stats)
    allowed = RATIO * shape[-1] * numpy.finfo(code).eps * norm(a) * norm(x)
    assert (norm(b - a @ x) <= allowed).all()


@pytest.mark.parametrize(
    "shapes", [((7, 7), (7,)), ((3, 7, 7), (7,)), ((3, 1, 7, 7), (2, 7, 4)), ((7, 7), (3, 7, 2))], ids=str
)
def test_solve_is_broadcast(shapes, stats):
    a, b = (draw("d", *shape) for shape in shapes)
    x = check_dtype(np.linalg.solve(np.asarray(a), np.asarray(b)), numpy.linalg.solve(a, b), stats)
    numpy.testing.assert_allclose(x, numpy.linalg.solve(a, b), rtol=1e-11)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_inv(shape, code, stats):
    a = draw(code, *shape)
    x = check_dtype(np.linalg.inv(np.asarray(a)), numpy.linalg.inv(a), stats)
    allowed = RATIO * shape[-1] * numpy.finfo(code).eps * norm(a) * norm(x)
    assert (norm(a @ x - numpy.eye(shape[-1])) <= allowed).all()


@pytest.mark.parametrize("upper", [False, True], ids=["lower", "upper"])
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_cholesky(shape, code, upper, stats):
    a = positive_definite(code, *shape)
    expected = numpy.linalg.cholesky(a, upper=upper)
    given = numpy.where(numpy.tri(shape[-1], dtype=bool) != upper, a, 7)
    given = numpy.where(numpy.eye(shape[-1], dtype=bool), a, given)
    found = check_dtype(np.linalg.cholesky(np.asarray(given), upper=upper), expected, stats)
    assert not (numpy.tril(found, -1) if upper else numpy.triu(found, 1)).any()
    left, right = found, found.conj().swapaxes(-1, -2)
    product = right @ left if upper else left @ right
    assert (norm(a - product) <= RATIO * shape[-1] * numpy.finfo(code).eps * norm(a)).all()


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_determinants(shape, code, stats):
    a = draw(code, *shape)
    ours = np.asarray(a)
    result = np.linalg.slogdet(ours)
    expected = numpy.linalg.slogdet(a.astype("D" if code in "FD" else "d"))
    assert not set(stats().fallbacks) - {"__array__"}
    eps = numpy.finfo(code).eps * shape[-1] * RATIO
    assert result.sign.dtype == numpy.linalg.slogdet(a).sign.dtype
    assert result.logabsdet.dtype == numpy.linalg.slogdet(a).logabsdet.dtype
    numpy.testing.assert_allclose(numpy.asarray(result.sign), expected.sign, atol=eps * 10)
    numpy.testing.assert_allclose(numpy.asarray(result.logabsdet), expected.logabsdet, atol=eps * 10)
    found = np.linalg.det(ours)
    assert found.dtype == numpy.linalg.det(a).dtype
    numpy.testing.assert_allclose(numpy.asarray(found), numpy.linalg.det(a), rtol=eps * 20)


def test_determinants_of_what_is_fetched(monkeypatch):
    a = draw("d", 5, 5)
    monkeypatch.setattr(placement, "wants_mirror", lambda *_, **__: True)
    found = np.linalg.det(np.array(a) + 0.0)
    assert float(found) == pytest.approx(numpy.linalg.det(a), rel=1e-12)


def test_determinants_of_singular_matrices():
    a = numpy.stack([numpy.zeros((4, 4)), numpy.eye(4), numpy.eye(4)[::-1], numpy.ones((4, 4))])
    assert numpy.array_equal(np.linalg.det(np.asarray(a)), numpy.linalg.det(a))
    assert numpy.array_equal(np.linalg.slogdet(np.asarray(a)).logabsdet, numpy.linalg.slogdet(a).logabsdet)


@pytest.mark.parametrize("n", [1, 3, 70])
@pytest.mark.parametrize("code", CODES)
def test_what_numpy_computes_is_numpys(code, n, config):
    config.offload_threshold = float("inf")
    a = positive_definite(code, n, n) / n
    assert numpy.array_equal(np.linalg.det(np.asarray(a)), numpy.linalg.det(a))
    assert numpy.array_equal(np.linalg.cholesky(np.asarray(a), upper=True), numpy.linalg.cholesky(a, upper=True))


def test_integers_and_views(stats):
    a = (numpy.random.default_rng(0).integers(0, 9, (12, 12)) + 20 * numpy.eye(12)).astype(int)
    b = numpy.arange(12)
    x = check_dtype(np.linalg.solve(np.asarray(a), np.asarray(b)), numpy.linalg.solve(a, b), stats)
    numpy.testing.assert_allclose(x, numpy.linalg.solve(a, b), rtol=1e-12)
    turned = a.T[::-1, ::-1]
    numpy.testing.assert_allclose(
        numpy.asarray(np.linalg.inv(np.asarray(a).T[::-1, ::-1])), numpy.linalg.inv(turned), rtol=1e-11, atol=1e-15
    )


def outcome(function, *arguments, **keywords):
    with pytest.raises(Exception) as caught:
        function(*arguments, **keywords)
    return caught.type, str(caught.value)


@pytest.mark.parametrize("n", [4, 40])
def test_matrices_that_will_not_do(n):
    zero = numpy.eye(n)
    zero[n // 2, n // 2] = 0
    stack = numpy.stack([numpy.eye(n), zero])
    for name in ("inv", "cholesky"):
        ours, numpys = getattr(np.linalg, name), getattr(numpy.linalg, name)
        assert outcome(ours, np.asarray(stack)) == outcome(numpys, stack)
    assert outcome(np.linalg.solve, np.asarray(stack), np.ones(n)) == outcome(numpy.linalg.solve, stack, numpy.ones(n))


@pytest.mark.parametrize("shape", [(3,), (3, 4), ()], ids=str)
@pytest.mark.parametrize("name", ["inv", "cholesky", "det", "slogdet"])
def test_shapes_that_will_not_do(name, shape):
    ours, numpys = getattr(np.linalg, name), getattr(numpy.linalg, name)
    assert outcome(ours, np.ones(shape)) == outcome(numpys, numpy.ones(shape))


def test_dtypes_that_will_not_do():
    for name in ("inv", "cholesky", "det"):
        ours, numpys = getattr(np.linalg, name), getattr(numpy.linalg, name)
        assert outcome(ours, np.ones((3, 3), "e")) == outcome(numpys, numpy.ones((3, 3), "e"))


@pytest.mark.parametrize("shape", [(0, 0), (0, 3, 3), (2, 0, 0)], ids=str)
def test_matrices_without_elements(shape):
    a = numpy.ones(shape)
    for name in ("inv", "cholesky", "det"):
        ours, numpys = getattr(np.linalg, name)(np.ones(shape)), getattr(numpy.linalg, name)(a)
        assert numpy.shape(ours) == numpys.shape
        assert numpy.array_equal(ours, numpys)
