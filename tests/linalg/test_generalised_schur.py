"""`scipy.linalg.qz` and `ordqz`: forms, vectors and residuals as LAPACK's; orders as SciPy's."""

import numpy as np
import pytest
import scipy.linalg

import oxinp

RANDOM = np.random.default_rng(6)
A, B = RANDOM.standard_normal((2, 7, 7))
COMPLEX = A + 1j * RANDOM.standard_normal((7, 7))
SINGULAR = np.where(np.arange(7) < 2, 0.0, B)
KINDS = {
    "real": (A, B),
    "complex": (COMPLEX, B),
    "singular": (A, SINGULAR),
    "single": (A.astype("f4"), B.astype("f4")),
    "integers": ((A * 9).astype("i8"), (B * 9).astype("i4")),
    "huge": (A * 1e200, B * 1e-100),
    "real values": (A + A.T, B @ B.T + np.eye(7)),
}
slow = pytest.mark.slow
pytestmark = pytest.mark.usefixtures("on_device")
linalg = oxinp.scipy.linalg


def check(a, b, form, expected, *, is_reordered=False):
    s, t, q, z = form
    assert [x.dtype for x in form] == [x.dtype for x in expected]
    unit = len(a) * np.finfo(s.dtype).eps
    for x, y in ((a, s), (b, t)):
        assert np.linalg.norm(q @ y @ z.conj().T - x, 1) <= 10 * unit * np.linalg.norm(x, 1)
    for x in (q, z):
        assert np.linalg.norm(x.conj().T @ x - np.eye(len(a)), 1) <= 10 * unit
    assert not np.tril(t, -1).any()
    assert not np.tril(s, -2).any()
    diagonal = np.diagonal(t)
    first = np.flatnonzero(np.diagonal(s, -1))
    assert not (np.diff(first) == 1).any()
    if not is_reordered:  # LAPACK leaves signs and more in blocks of two rows then
        assert (diagonal.real >= 0).all()
        assert not np.imag(diagonal).any()
        assert not np.diagonal(t, 1)[first].any()  # the second matrix is diagonal in blocks
    if s.dtype.kind == "c":
        assert not len(first)


def in_order(values):
    return np.sort_complex(np.round(values, 9))


@pytest.mark.parametrize("output", ["real", pytest.param("complex", marks=slow)])
@pytest.mark.parametrize("kind", [pytest.param(kind, marks=() if kind == "real" else slow) for kind in KINDS])
def test_forms_are_lapacks(kind, output, stats):
    a, b = KINDS[kind]
    found = linalg.qz(oxinp.asarray(a), oxinp.asarray(b), output=output)
    assert set(stats().fallbacks) == {"scipy.linalg.qz: QR iterations"}
    check(a, b, tuple(map(np.asarray, found)), scipy.linalg.qz(a, b, output=output))


@pytest.mark.parametrize(
    ("sort", "output"),
    [
        ("lhp", "real"),
        *(pytest.param(*case, marks=slow) for case in (("rhp", "complex"), ("iuc", "real"), ("ouc", "real"))),
        pytest.param(lambda x, y: np.abs(x) > 2 * np.abs(y), "real", marks=slow),
    ],
)
def test_orders_are_scipys(sort, output, stats):
    found = linalg.ordqz(oxinp.asarray(A), oxinp.asarray(B), sort, output)
    assert set(stats().fallbacks) == {"scipy.linalg.ordqz: QR iterations", "scipy.linalg.ordqz: order"}
    s, t, alpha, beta, q, z = map(np.asarray, found)
    expected = scipy.linalg.ordqz(A, B, sort, output)
    check(A, B, (s, t, q, z), (*expected[:2], *expected[4:]), is_reordered=True)
    assert (alpha.dtype, beta.dtype) == (expected[2].dtype, expected[3].dtype)
    ours, theirs = alpha / beta, expected[2] / expected[3]
    assert np.allclose(in_order(ours), in_order(theirs))
    count = np.count_nonzero(sort(expected[2], expected[3])) if callable(sort) else SORTED[sort](theirs)
    assert np.allclose(in_order(ours[:count]), in_order(theirs[:count]))


SORTED = {
    "lhp": lambda w: np.count_nonzero(w.real < 0),
    "rhp": lambda w: np.count_nonzero(w.real > 0),
    "iuc": lambda w: np.count_nonzero(np.abs(w) < 1),
    "ouc": lambda w: np.count_nonzero(np.abs(w) > 1),
}


def test_infinite_eigenvalues_are_outside_the_circle():
    *_, alpha, beta, _, _ = map(np.asarray, linalg.ordqz(oxinp.asarray(A), oxinp.asarray(SINGULAR), "ouc"))
    assert np.count_nonzero(np.abs(beta) < 1e-13) == 2
    is_outside = np.abs(alpha) > np.abs(beta)
    assert (np.diff(is_outside.astype(int)) <= 0).all()


def test_what_is_not_accurate_is_lapacks(stats):
    a, b = (np.where(np.arange(7) < 2, 0.0, x) for x in (A, B))
    found = linalg.qz(oxinp.asarray(a), oxinp.asarray(b))
    assert stats().fallbacks["scipy.linalg.qz"] == 1
    check(a, b, tuple(map(np.asarray, found)), scipy.linalg.qz(a, b))


def test_stacks(stats):
    a = np.stack([A, A.T])
    found = linalg.qz(oxinp.asarray(a), oxinp.asarray(B))
    assert set(stats().fallbacks) == {"scipy.linalg.qz: QR iterations"}
    expected = scipy.linalg.qz(a, B)
    for i in range(2):
        check(a[i], B, tuple(np.asarray(x[i]) for x in found), tuple(x[i] for x in expected))


@pytest.mark.parametrize(
    ("a", "b", "options"),
    [(A, B[:3, :3], {}), (A * np.nan, B, {}), (A, B, {"output": "other"}), (A, B, {"sort": "lhp"})],
)
def test_what_scipy_refuses(a, b, options):
    with pytest.raises(ValueError) as theirs:
        scipy.linalg.qz(a, b, **options)
    with pytest.raises(ValueError) as found:
        linalg.qz(oxinp.asarray(a), oxinp.asarray(b), **options)
    assert str(found.value) == str(theirs.value)
    with pytest.raises(ValueError, match="sort parameter must be"):
        linalg.ordqz(oxinp.asarray(A), oxinp.asarray(B), sort="up")
