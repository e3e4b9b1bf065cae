"""`scipy.linalg.interpolative`, name by name: matrices of known rank, SciPy's dtypes and shapes."""

import numpy as np
import pytest
import scipy.linalg.interpolative as scipys

import oxinp
import oxinp.scipy.linalg.interpolative as ours

RANK, EPSILON = 3, 1e-10
slow = pytest.mark.slow
pytestmark = pytest.mark.usefixtures("on_device")


def drawn(rows, columns, dtype):
    """A matrix of known rank, and its norm."""
    random = np.random.default_rng(rows)
    left, right = random.standard_normal((rows, RANK)), random.standard_normal((RANK, columns))
    a = left @ right
    return a * (1 + 2j) if dtype == "D" else a


MATRICES = [
    pytest.param(rows, columns, dtype, marks=() if (rows, columns, dtype) in ((9, 6, "d"), (6, 9, "D")) else slow)
    for rows, columns in ((9, 6), (6, 9), (14, 9), (9, 14), (10, 10))
    for dtype in "dD"
]


def close(found, expected):
    assert np.linalg.norm(oxinp.asnumpy(found) - expected) <= 1e-12 * np.linalg.norm(expected)


def same_kinds(found, expected):
    for x, y in zip(found, expected, strict=True):
        if isinstance(y, np.ndarray):
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
        else:
            assert (type(x), x) == (type(y), y)


@pytest.mark.parametrize(("rows", "columns", "dtype"), MATRICES)
def test_decompositions(rows, columns, dtype, stats):
    a = drawn(rows, columns, dtype)
    there = oxinp.asarray(a)
    by_error, by_rank = ours.interp_decomp(there, EPSILON), ours.interp_decomp(there, RANK)
    assert not stats().fallbacks
    same_kinds(by_error, scipys.interp_decomp(a, EPSILON, rand=False))
    same_kinds(by_rank, scipys.interp_decomp(a, RANK, rand=False))
    columns_, projection = by_rank
    assert sorted(oxinp.asnumpy(columns_).tolist()) == list(range(columns))
    skeleton = ours.reconstruct_skel_matrix(there, RANK, columns_)
    given = oxinp.asnumpy(columns_), oxinp.asnumpy(projection)
    assert np.array_equal(oxinp.asnumpy(skeleton), scipys.reconstruct_skel_matrix(a, RANK, given[0]))
    interpolation = ours.reconstruct_interp_matrix(columns_, projection)
    assert np.array_equal(oxinp.asnumpy(interpolation), scipys.reconstruct_interp_matrix(*given))
    close(ours.reconstruct_matrix_from_id(skeleton, columns_, projection), a)
    close(skeleton @ interpolation, a)
    u, s, v = ours.id_to_svd(skeleton, columns_, projection)
    same_kinds((u, s, v), scipys.id_to_svd(oxinp.asnumpy(skeleton), *given))
    close(u * s @ v.conj().T, a)
    close(s, np.linalg.svdvals(a)[:RANK])


@pytest.mark.parametrize(("rows", "columns", "dtype"), MATRICES)
def test_singular_values_and_estimates(rows, columns, dtype, stats):
    a = drawn(rows, columns, dtype)
    there = oxinp.asarray(a)
    for wanted in (EPSILON, RANK, 1):
        u, s, v = ours.svd(there, wanted)
        assert not stats().fallbacks
        same_kinds((u, s, v), scipys.svd(a, wanted, rand=False))
        close(s, np.linalg.svdvals(a)[: len(s)])
        assert np.allclose(oxinp.asnumpy(u.conj().T @ u), np.eye(len(s)))
        if wanted != 1:
            close(u * s @ v.conj().T, a)
        oxinp.cuda.reset_stats()
    assert ours.estimate_rank(there, EPSILON) == RANK
    norm, half = ours.estimate_spectral_norm(there), ours.estimate_spectral_norm_diff(there, there / 2)
    assert not stats().fallbacks
    assert type(norm) is type(half) is float
    assert np.isclose(norm, np.linalg.norm(a, 2), rtol=1e-13)
    assert np.isclose(half, norm / 2, rtol=1e-13)
    assert norm >= scipys.estimate_spectral_norm(a) * (1 - 1e-12)


@pytest.mark.parametrize("name", ["interp_decomp", "svd", "estimate_rank"])
def test_single_precision_is_refused(name):
    a = drawn(9, 9, "d").astype("f")
    for module, asarray in ((ours, oxinp.asarray), (scipys, np.asarray)):
        with pytest.raises(ValueError, match="invalid input dtype"):
            getattr(module, name)(asarray(a), 0.1)
