"""Routines of BLAS and LAPACK under SciPy's names: its results, arguments by position and by name, and its errors."""

import numpy as np
import pytest
import scipy.linalg.blas
import scipy.linalg.lapack

import oxinp
import oxinp.scipy.linalg.blas
import oxinp.scipy.linalg.lapack
from oxinp.scipy.linalg import _low_level
from tests.comparator import outcome

RANDOM = np.random.default_rng(8)
A = RANDOM.standard_normal((5, 5))
DATA = {
    "a": A,
    "b": RANDOM.standard_normal((5, 3)),
    "e": RANDOM.standard_normal((3, 5)),
    "p": A @ A.T + 20 * np.eye(5),
    "s": A + A.T,
    "w": RANDOM.standard_normal((5, 5)),
    "t": np.triu(A) + 5 * np.eye(5),
}
MODULES = {"blas": _low_level.BLAS, "lapack": _low_level.LAPACK}
slow = pytest.mark.slow


def typed(array, letter):
    """An array in the dtype of a routine, Hermitian where the real one is symmetric."""
    if letter in "sd":
        return array.astype("f4" if letter == "s" else "f8")
    imag = np.triu(array, 1) - np.triu(array, 1).T if np.array_equal(array, array.T) else array[::-1] * 0.5
    made = array + 1j * (imag if len(array) == 5 or array.shape[0] == 3 else array)
    if np.array_equal(array, np.triu(array)):
        made = np.triu(array + 0.5j * array)
    return made.astype("c8" if letter == "c" else "c16")


CALLS = {
    "gemm": ["(2, a, b)", "(1.5, e, b, 0.5, w[:3, :3])", "(1, b, e, trans_a=1, trans_b=2)"],
    "syrk": ["(2, b)", "(1, b, 0.5, w, lower=1)", "(1, e, trans=1)"],
    "herk": ["(2, b)", "(1, e, trans=2, lower=1)"],
    "trsm": [
        "(2, t, b)",
        "(1, t, e, side=1)",
        "(1, t.T, b, lower=1, trans_a=2)",
        "(1, t, e, 1, 0, 2)",
        "(1, t, e, 1, 0, 1, 1)",
    ],
    "potrf": ["(p)", "(p, lower=1, clean=0)"],
    "potrs": ["(t, b)", "(t.T, b, lower=1)"],
    "posv": ["(p, b)", "(p, b, 1)"],
    "getrf": ["(a)", "(b)"],
    "getrs": ["(a, np.array([2, 1, 4, 3, 4], np.int32), b)", "(a, np.array([2, 1, 4, 3, 4], np.int32), b, trans=1)"],
    "gesv": ["(a, b)"],
    "getri": ["(t, np.arange(5, dtype=np.int32))"],
    "geqrf": ["(b)"],
    "trtrs": ["(t, b)", "(t, b, trans=2, unitdiag=1)"],
    "syevd": ["(s)"],
    "heevd": ["(s, lower=1)"],
    "gesdd": ["(b)", "(e, full_matrices=0)"],
    "gesvd": ["(b)", "(e, full_matrices=0)"],
    "syev": ["(s, lower=1)"],
    "heev": ["(s)"],
    "geqp3": ["(b)", "(e)"],
    "trtri": ["(t)", "(w, lower=1, unitdiag=1)"],
    "potri": ["(p)", "(p, lower=1)"],
    "lauum": ["(p)", "(p, 1)"],
    "lange": ["('M', b)", "('1', b)", "('i', b)", "('F', a)", "('F', a * 0)"],
    "symm": ["(2, s, b)", "(1, w, e, 0.5, e, 1, 1)"],
    "hemm": ["(2, w, b)", "(1j, w, e, side=1, lower=1)"],
    "trmm": ["(2, w, b)", "(1, w, e, 1, 1, 2, 1)", "(1, w, b, trans_a=1)"],
    "syr2k": ["(2, b, b * 2)", "(1, e, b.T, 0.5, w, 1, 1)"],
    "her2k": ["(2, b, b * 2)", "(1j, e, e[::-1], trans=2, lower=1)"],
    "gemv": ["(2, a, a[0])", "(1, b, a[0], 0.5, e[:, 0], trans=2)"],
    "symv": ["(2, w, a[0], 0.5, a[1], lower=1)", "(1, w, a[0])"],
    "hemv": ["(2, w, a[0], 0.5, a[1], lower=1)", "(1j, w, a[0])"],
    "trmv": ["(w, a[0])", "(w, a[0], lower=1, trans=2, diag=1)"],
    "trsv": ["(t, a[0])", "(t, a[0], trans=2, diag=1)"],
    "ger": ["(2, a[0], e[:, 1])"],
    "geru": ["(2j, a[0], e[:, 1])"],
    "gerc": ["(2j, a[0], e[:, 1])"],
    "dot": ["(a[0], a[1])"],
    "dotu": ["(a[0], a[1])"],
    "dotc": ["(a[0], a[1])"],
}
TABLE = [(module, letter, *row) for module, rows in MODULES.items() for row in rows for letter in row[1]]
CASES = [
    pytest.param(
        module,
        letter + name,
        code,
        marks=() if letter == "d" or name in ("herk", "heevd", "hemm", "gerc", "hemv") else slow,
    )
    for module, letter, name, _, _ in TABLE
    for code in CALLS[name]
]


def called(module, name, code, xp):
    known = {key: xp.asarray(typed(value, name[0])) for key, value in DATA.items()}
    function = getattr(module, name)
    return eval(f"function{code}", {"function": function, "np": xp, **known})  # noqa: S307


def pairs(found, expected):
    """What two calls have returned, one beside the other, as NumPy's arrays."""
    both = (found, expected) if isinstance(expected, tuple) else ([found], [expected])
    return [(np.asarray(x), np.asarray(y)) for x, y in zip(*both, strict=True)]


def is_close(name, x, y):
    accuracy = 1e-3 if name[0] in "sc" else 1e-10
    if name.endswith(("evd", "eev", "yev", "gesdd", "gesvd")):
        x, y = np.abs(x), np.abs(y)
    if name.endswith(("gesdd", "gesvd")) and x.shape == (5, 5):  # what completes a basis is anyone's
        x, y = x[:3, :3], y[:3, :3]
    assert np.allclose(x, y, rtol=accuracy, atol=accuracy * max(1, np.abs(y).max(initial=0)))


@pytest.mark.parametrize(("module", "name", "code"), CASES)
def test_results_are_scipys(module, name, code, config):
    config.offload_threshold = float("inf")  # where the parts are placed is theirs to test
    package, own = (getattr(x.linalg, module) for x in (scipy, oxinp.scipy))
    expected, table = called(package, name, code, np), MODULES[module]
    front = {row[0]: row[2] for row in table}[name[1:]]
    routine = _low_level._front(name[1:], _low_level.DTYPES[name[0]], front)
    found = called(type("of", (), {name: staticmethod(routine)}), name, code, oxinp)
    through = called(own, name, code, oxinp)
    for ours in (found, through):
        for place, (x, y) in enumerate(pairs(ours, expected)):
            assert x.shape == y.shape
            assert x.dtype == y.dtype or y.dtype.kind == "i"
            if not (name.endswith("geqrf") and place == 2) and not (
                name.endswith("geqp3") and place == 3
            ):  # what was workspace
                is_close(name, x, y)


@pytest.mark.parametrize("name", ["dgemm", "dpotrf", "dgesv"])
def test_the_device_computes(name, config, stats):
    config.offload_threshold = 0
    module = "blas" if name == "dgemm" else "lapack"
    code = CALLS[name[1:]][0]
    with config.override(fallback="error"):
        found = called(getattr(oxinp.scipy.linalg, module), name, code, oxinp)
    for x, y in pairs(found, called(getattr(scipy.linalg, module), name, code, np)):
        assert np.allclose(x, y)
    assert stats().launches


@pytest.mark.parametrize(
    ("module", "name", "code"),
    [
        ("blas", "dgemm", "(1, a, e)"),
        ("blas", "dgemm", "(1, a)"),
        ("blas", "dgemm", "(1, a, b, trans_a=7)"),
        ("blas", "dgemm", "(1, a.astype(np.float32), b)"),
        ("blas", "dtrsm", "(1, a, e)"),
        ("lapack", "dpotrf", "(s)"),
        ("lapack", "dpotrf", "(b)"),
        ("lapack", "dgetrf", "(a * 0)"),
        ("lapack", "dgesv", "(a * 0, b)"),
        ("lapack", "dgetrs", "(a, np.arange(2), b)"),
        ("lapack", "dtrtrs", "(t * 0, b)"),
        ("lapack", "dgeqrf", "(b, lwork=-1)"),
        ("lapack", "dsyevd", "(s, 0)"),
        ("lapack", "dgemm", "(s)"),
        ("lapack", "dlange", "('Q', a)"),
        ("lapack", "dtrtri", "(t * 0)"),
        ("lapack", "zlauum", "(a)"),
        ("blas", "dgemv", "(1, a, b)"),
        ("blas", "dgemv", "(1, a, e[0], incx=2)"),
        ("blas", "dtrsv", "(t, e[:, 0])"),
        ("blas", "ddot", "(a[0], e[:, 0])"),
        ("blas", "dsymv", "(1, b, a[0])"),
    ],
)
def test_what_is_left_to_scipy(module, name, code, config):
    config.offload_threshold = 0
    found, expected = (
        outcome(lambda of: called(getattr(of[0], module), name, code, of[1]), of)
        for of in ((oxinp.scipy.linalg, oxinp), (scipy.linalg, np))
    )
    if isinstance(expected, Exception):
        assert type(found) is type(expected)
    else:
        for x, y in pairs(found, expected):
            assert np.allclose(x, y, equal_nan=True)


@pytest.mark.parametrize("threshold", [0, float("inf")])
def test_matrices_are_overwritten_where_that_is_permitted(threshold, config):
    config.offload_threshold = threshold
    theirs = np.asfortranarray(DATA["p"])
    ours = oxinp.asarray(theirs.copy(order="F"))
    kept = ours + 1
    oxinp.evaluate(kept)
    oxinp.scipy.linalg.lapack.dpotrf(ours, overwrite_a=1)
    scipy.linalg.lapack.dpotrf(theirs, overwrite_a=1)
    assert np.array_equal(np.asarray(ours), theirs)
    assert np.array_equal(np.asarray(ours + 1), theirs + 1)
    assert np.array_equal(np.asarray(kept), DATA["p"] + 1)
