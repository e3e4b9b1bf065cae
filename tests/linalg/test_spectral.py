"""Eigenvalues, singular values and what is made of them: NumPy's results, shapes, dtypes and errors, no fallback."""

import importlib

import numpy as np
import pytest

import oxinp
from oxinp.linalg import _normal_equations, _spectral
from tests.comparator import same_outcome
from tests.thinned import thinned

RANDOM = np.random.default_rng(5)
REAL = RANDOM.standard_normal((2, 5, 5))
COMPLEX = REAL + 1j * RANDOM.standard_normal((2, 5, 5))
WIDE, TALL = RANDOM.standard_normal((4, 7)), RANDOM.standard_normal((9, 3))
LOW = np.outer(np.arange(1.0, 7), np.arange(1.0, 5))

slow = pytest.mark.slow
pytestmark = pytest.mark.usefixtures("on_device")


def both(code, **arrays):
    """Results under NumPy and under oxinp, as NumPy's arrays."""
    expected = eval(code, {"np": np, **arrays})  # noqa: S307 - our own code
    with oxinp.config.override(fallback="error"):
        ours = eval(code, {"np": oxinp, **{name: oxinp.asarray(x) for name, x in arrays.items()}})  # noqa: S307
    assert type(ours).__name__ == type(expected).__name__
    if not isinstance(expected, tuple):
        expected, ours = (expected,), (ours,)
    return expected, tuple(map(np.asarray, ours))


def check(code, **arrays):
    """Compare results, of which vectors may have other signs."""
    for expected, ours in zip(*both(code, **arrays), strict=True):
        assert ours.dtype == expected.dtype
        assert ours.shape == np.shape(expected)
        accuracy = 1e-4 if ours.dtype.char in "fF" else 1e-11
        assert np.allclose(np.abs(ours), np.abs(expected), rtol=accuracy, atol=accuracy)


def hermitian(a):
    return a + a.conj().swapaxes(-1, -2)


@pytest.mark.parametrize("a", [REAL.astype("f4"), (REAL * 9).astype("i4"), COMPLEX])
def test_eigh(a):
    h = hermitian(a)
    check("np.linalg.eigh(h)", h=h)
    check("np.linalg.eigvalsh(h)", h=h)
    lower_is_wrong = h + np.tril(np.ones((5, 5), h.dtype), -1)
    check("np.linalg.eigh(h, 'U')", h=lower_is_wrong)
    check("np.linalg.eigvalsh(h, UPLO='u')", h=lower_is_wrong)


@pytest.mark.parametrize(
    "a", [COMPLEX, WIDE, TALL.astype("f4"), pytest.param(RANDOM.standard_normal((6, 5)) + 1j, marks=slow)]
)
@pytest.mark.parametrize("full", [True, False])
def test_svd(full, a):
    (_, values, _), (u, s, vh) = both(f"np.linalg.svd(a, full_matrices={full})", a=a)
    expected = np.linalg.svd(a, full_matrices=full)
    accuracy = 1e-5 if a.dtype.char == "f" else 1e-12
    assert [x.shape for x in (u, s, vh)] == [x.shape for x in expected]
    assert [x.dtype for x in (u, s, vh)] == [x.dtype for x in expected]
    assert np.allclose(s, values, rtol=accuracy, atol=accuracy)
    depth = s.shape[-1]
    assert np.allclose(u[..., :depth] * s[..., None, :] @ vh[..., :depth, :], a, rtol=0, atol=accuracy * 10)
    for q in (u, vh.conj().swapaxes(-1, -2)):
        assert np.allclose(q.conj().swapaxes(-1, -2) @ q, np.eye(q.shape[-1]), rtol=0, atol=accuracy * 10)
    check("np.linalg.svdvals(a)", a=a)


@pytest.mark.parametrize(
    "a", [LOW.T, *(pytest.param(x, marks=slow) for x in (LOW, np.zeros((3, 5)), np.zeros((4, 4))))]
)
def test_svd_of_what_has_no_full_rank(a):
    u, s, vh = map(np.asarray, oxinp.linalg.svd(oxinp.asarray(a)))
    assert np.allclose(s, np.linalg.svd(a)[1], rtol=0, atol=1e-13)
    assert np.allclose(u.T @ u, np.eye(len(u)), rtol=0, atol=1e-14)
    assert np.allclose(vh @ vh.T, np.eye(len(vh)), rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    "code",
    [
        "np.linalg.svd(h, hermitian=True)[1]",
        "np.linalg.pinv(w)",
        "np.linalg.pinv(w, rtol=0.5)",
        "np.linalg.pinv(h, hermitian=True)",
        "np.linalg.matrix_rank(low)",
        "np.linalg.matrix_rank(h)",
        "np.linalg.cond(h)",
        "np.linalg.cond(w)",
        "np.linalg.cond(h, -2)",
        "np.linalg.cond(h, 1)",
        "np.linalg.cond(h, 'nuc')",
        "np.linalg.norm(w, 2)",
        "np.linalg.norm(h, 'nuc', axis=(1, 2))",
        "np.linalg.matrix_power(h, 3)",
        "np.linalg.matrix_power(h, -2)",
        "np.linalg.multi_dot([w, w.T, w])",
        "np.linalg.tensorinv(w.reshape(4, 7)[:, :4].reshape(2, 2, 4), 2)",
        "np.linalg.tensorsolve(h[0].reshape(5, 1, 5), h[1, 0].reshape(5, 1))",
        "np.linalg.lstsq(low, low[:, 0])",
        "np.linalg.lstsq(w, w[:, :2])",
        "np.linalg.lstsq(w.T, w.T[:, 0] + 1)",
        "np.linalg.lstsq(w.T.astype('f4'), w.T[:, :2].astype('f4'), rcond=1e-6)",
    ],
)
def test_what_is_made_of_them(code):
    check(code, h=hermitian(REAL), w=WIDE, low=LOW)


@pytest.mark.parametrize(
    "code",
    [
        "np.linalg.eigh(a)",
        "np.linalg.eigh(a[:2, :2], 'x')",
        "np.linalg.eigh(a[0])",
        "np.linalg.svd(a[0])",
        "np.linalg.svd(a * np.nan)",
        "np.linalg.svdvals(a.astype('f2'))",
        "np.linalg.lstsq(a, a[:2])",
    ],
)
def test_errors(code):
    same_outcome(lambda xp: eval(code, {"np": xp, "a": xp.asarray(WIDE)}), oxinp, np)  # noqa: S307


@pytest.mark.parametrize("rank", [2, *(pytest.param(rank, marks=slow) for rank in (5, 0))])
def test_svd_by_polar_factors(rank):
    a = RANDOM.standard_normal((5, rank)) @ RANDOM.standard_normal((rank, 5))
    with oxinp.config.override(fallback="error"):
        found = _spectral._by_polar(oxinp.asarray(a))
    u, s, vh = map(np.asarray, found)
    assert np.allclose(s, np.linalg.svdvals(a), rtol=0, atol=1e-13)
    assert np.allclose(u * s @ vh, a, rtol=0, atol=1e-13)
    for q in (u, vh):
        assert np.allclose(q @ q.T, np.eye(5), rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("dtype", "is_near"),
    [("f8", False), ("f8", True), *(pytest.param(dtype, False, marks=slow) for dtype in ("c8", "c16"))],
)
def test_matrices_of_more_rows_than_a_panel_has(dtype, is_near, monkeypatch):
    """By Cholesky's factors in double precision, but where columns depend on each other, nearly."""
    tall = importlib.import_module("oxinp._core.ops.tall")
    monkeypatch.setattr(tall, "GROUP", 50)
    if dtype in ("f8", "c16") and not is_near:
        monkeypatch.delattr(tall, "_by_groups")
    limits = importlib.import_module("oxinp._kernels.lapack.plan")
    monkeypatch.setattr(limits, "is_possible", lambda _type, num_rows, _device: num_rows <= 60)
    monkeypatch.setattr(limits, "MIN_GROUP", 20)
    rng = np.random.default_rng(3)
    a = rng.standard_normal((233, 3)).astype(dtype)
    if a.dtype.kind == "c":
        a.imag = rng.standard_normal(a.shape)
    if is_near:
        a[:, 2] = a[:, 0] + a[:, 1] * 1e-12
    (q, r), (our_q, our_r) = both("np.linalg.qr(a)", a=a)
    if is_near:  # the last column is what rounding makes of it
        assert np.allclose(our_q.T @ our_q, np.eye(3), rtol=0, atol=1e-13)
        assert np.allclose(our_q @ our_r, a, rtol=0, atol=1e-13)
        return
    assert np.allclose(our_r, r, rtol=0, atol=np.finfo(dtype).eps * 1e3)  # its signs too
    assert np.allclose(our_q, q, rtol=0, atol=np.finfo(dtype).eps * 1e3)
    check("np.linalg.qr(a, 'r')", a=a)
    check("np.linalg.lstsq(a, b, rcond=None)[0]", a=a, b=a[:, 0] + 1)


@pytest.mark.parametrize(("condition", "dtype"), thinned([1, 20, 60], ["c16", "f8", "f4"]))
def test_tall_least_squares(condition, dtype, monkeypatch):
    """By the normal equations where columns are nearly independent; both ways have NumPy's accuracy."""
    monkeypatch.setattr(_normal_equations, "LEAST_ROWS", 100)
    ways = []
    solve = _normal_equations.solve
    monkeypatch.setattr(_normal_equations, "solve", lambda *given: ways.append(solve(*given)) or ways[-1])
    left, right = (np.linalg.qr(x)[0] for x in (RANDOM.standard_normal((230, 5)), REAL[0]))
    a = left @ np.diag(np.geomspace(1, 1 / condition, 5)) @ right
    b = RANDOM.standard_normal((230, 3)) + 4
    if dtype == "c16":
        a, b = a * np.exp(1j), b + 1j * a[:, :3]
    a, b = a.astype(dtype), b.astype(dtype)
    for given in (b, b[:, 0], a @ np.ones((5, 1), dtype)):
        check("np.linalg.lstsq(a, b)", a=a, b=given)
    if condition > 1:
        check("np.linalg.lstsq(a, b, rcond=0.99)", a=a, b=b)
    is_near = condition <= _normal_equations.MOST_CONDITION
    assert [way is not None for way in ways] == ([is_near] * 3 + [False] * (condition > 1)) * (dtype != "c16")


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_tall_least_squares_far_from_one(scale, monkeypatch):
    monkeypatch.setattr(_normal_equations, "LEAST_ROWS", 100)
    a = RANDOM.standard_normal((230, 5)) * scale
    check("np.linalg.lstsq(a, b)[0] * scale", a=a, b=a[:, 0] / scale + 1, scale=scale)
