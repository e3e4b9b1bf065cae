"""Small sparse objects on the host, beside which SciPy's are kept: what is written to either is seen by both."""

import random
import warnings

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import oxinp
from asv_benchmarks.host_path import num_calls
from oxinp import scipy as oxinp_scipy
from oxinp._core.lazy.handle import device_value
from oxinp._core.native import install
from oxinp.sparse import _small
from tests.comparator import assert_same

STATEMENTS = """
B = A.T; B = A.tocsc(); B = A.tocsr(); A = A * 2.0; A = A + B.T; B = -A; A = A.copy(); B = A; B = sp.csr_matrix(A)
B = A.real; B = A.todia(); B = abs(A).tocsr(); A = A.T.T; A = A.tocsr().tocsc(); B = A.astype('f4'); B = A.conj()
A.data[0] = 7.0; B.data[-1] = 3.0; A.data *= 0.5; d = A.data; d[1] = 5.0; B.data[:] = 1.0;
A[1, 2] = 9.0; A[0, 0] = 0.0; A *= 2.0; A.sort_indices(); A.eliminate_zeros(); A.data = A.data * 3.0; A.setdiag(2.0)
A.sum_duplicates(); B[2, 2] = 4.0; A.resize(7, 7); A += B; A.data = A.data.copy()
y = A @ b; y = A.dot(b); b = b + A @ b * 0.01; y = A * b; y = b @ A; y = A.T @ b; b[0] = 2.0; y = A @ A
y = A.diagonal(); y = A.sum(axis=0); y = A.toarray(); y = A.max(); y = A[1]; y = A[1, 2]; y = A[[0, 2]]
y = A.nnz; y = A.mean()
y = A @ b[:3]; y = A.multiply(B); y = A.power(2); y = A[:, 1]; y = A.getrow(1) if hasattr(A, 'getrow') else 0
y = sl.spsolve(A.tocsc() + 9 * sp.eye_array(7), b); y = sl.splu((A + 9 * sp.eye_array(7)).tocsc()).solve(b)
y = sl.norm(A); y = sp.find(A)[2]; y = sp.vstack([A, B]); y = A.maximum(B); y = A.argmax(); y = A.trace()
y = A.has_sorted_indices
""".replace("\n", ";").split(";")
STATEMENTS = [each.strip() for each in STATEMENTS if each.strip()]
MOVES = "device(A)", "device(B)", "device(b)"


def _libraries(xp):
    if xp is np:
        return {"sp": scipy.sparse, "sl": scipy.sparse.linalg, "np": np, "device": lambda _: None}
    return {"sp": oxinp_scipy.sparse, "sl": oxinp_scipy.sparse.linalg, "np": oxinp, "device": _move}


def _move(value):
    """Have what something consists of on the device, too."""
    arrays = value._arrays() if hasattr(value, "_arrays") else [value]
    for array in arrays:
        if type(array) is oxinp.ndarray and array.dtype.kind in "fi":
            device_value(array._storage)


def _made(xp, kind, seed):
    names = _libraries(xp)
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((7, 7)) < 0.4, rng.integers(1, 9, (7, 7)), 0.0)
    made = getattr(names["sp"], kind)(xp.array(dense))
    return names | {"A": made, "B": made.copy(), "b": xp.array(rng.random(7)), "d": xp.array(rng.random(60)), "y": 0}


def _run(names, statement):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            exec(statement, names)  # noqa: S102 - of the table
        except (ValueError, TypeError, IndexError, NotImplementedError, AttributeError, RuntimeError) as error:
            return type(error), []
    return None, [each.category for each in heard]


def _assert_alike(ours, theirs):
    if scipy.sparse.issparse(theirs):
        assert (type(ours).__name__, ours.shape, ours.dtype) == (type(theirs).__name__, theirs.shape, theirs.dtype)
        assert_same(ours.toarray(), theirs.toarray())
        if theirs.format in ("csr", "csc", "dia"):
            assert_same(ours.data, theirs.data)
    else:
        assert_same(ours, theirs)


@pytest.mark.parametrize("kind", ["csr_array", "csc_array", "csr_matrix", "dia_array", "coo_array"])
@pytest.mark.parametrize("are_moved", [False, True], ids=["on the host", "moved"])
@pytest.mark.parametrize("seed", range(6))
def test_programs_give_scipys_results(kind, are_moved, seed, config):
    config.offload_threshold = 65536
    draw = random.Random(f"{kind} {seed} {are_moved}")
    ours, theirs = _made(oxinp, kind, seed), _made(np, kind, seed)
    done = []
    for _ in range(60):
        statement = draw.choice(MOVES if are_moved and draw.random() < 0.1 else STATEMENTS)
        done.append(statement)
        found, expected = _run(ours, statement), _run(theirs, statement)
        assert found == expected, done
        if expected[0] is not None:
            continue
        for name in "ABbdy":
            try:
                _assert_alike(ours[name], theirs[name])
            except AssertionError as error:
                raise AssertionError(f"{name} after {'; '.join(done)}") from error


def test_scipys_object_is_kept_as_long_as_it_has_the_memory(config):
    config.offload_threshold = 65536
    a = oxinp_scipy.sparse.csr_array(oxinp.eye(5) * 2.0)
    assert _small.kept(a) is _small.kept(a)
    assert (a @ oxinp.ones(5))[0] == 2.0
    assert _small.kept(a.T).data is not None
    first = _small.kept(a)
    a.data = a.data + 1.0
    assert _small.kept(a) is not first
    device_value(a.data._storage)
    assert _small.kept(a) is None
    large = oxinp_scipy.sparse.csr_array(oxinp.ones((100, 100)))
    assert _small.kept(large) is None


def test_indices_that_are_to_be_put_in_order_are_left_to_the_general_way(config):
    config.offload_threshold = 65536
    arrays = np.array([1.0, 2.0, 3.0]), np.array([2, 0, 1]), np.array([0, 2, 3])
    a = oxinp_scipy.sparse.csr_array(tuple(map(oxinp.array, arrays)), shape=(2, 3))
    theirs = scipy.sparse.csr_array(arrays, shape=(2, 3))
    assert _small.kept(a) is None
    for statement in ("a.max(axis=0)", "a + a", "a[0, 1]", "a @ a.T", "a.indices"):
        _assert_alike(eval(statement, {"a": a}), eval(statement, {"a": theirs}))  # noqa: S307 - of this table


def test_few_functions_are_called_for_a_product(config):
    config.offload_threshold = 65536
    install.install(oxinp.ndarray)
    given = {
        "a": oxinp_scipy.sparse.csr_array(oxinp.eye(5)),
        "b": oxinp.ones(5),
        "s": scipy.sparse.csr_array(np.eye(5)),
    }
    assert num_calls("a @ b", given) <= num_calls("s @ s.data", given) + 8
