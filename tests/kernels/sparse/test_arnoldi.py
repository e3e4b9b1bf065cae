"""Steps of the Arnoldi method: vectors are orthonormal, and products with the operator have the components told."""

import numpy as np
import pytest

from oxinp._kernels.sparse import arnoldi, arnoldi_s_step, spmv
from oxinp._ptx.types import from_dtype
from tests.kernels.machine import Session, machine
from tests.kernels.sparse.test_products import parts, types_of
from tests.sparse.matrices import KINDS


@pytest.fixture
def session():
    session = Session(machine())
    yield session
    session.close()


@pytest.mark.parametrize(
    ("dtype", "kind", "first"), [("f8", "random", 0), ("f4", "laplacian-2d", 0), ("f8", "banded", 3)]
)
def test_steps(session, dtype, kind, first):
    """Of the Laplacian shifted far away hardly anything is left of a product: it is made orthogonal twice."""
    matrix = KINDS[kind].astype(dtype)
    if kind == "banded":
        matrix.data[np.repeat(np.arange(300), np.diff(matrix.indptr)) == matrix.indices] += 1e5
    size, count = matrix.shape[0], 9
    given = np.linalg.qr(np.random.default_rng(0).normal(size=(size, first + 1)))[0].T.astype(dtype)
    vectors, components = np.full((count + 1, size), np.nan, dtype), np.full((count, count + 2), np.nan, dtype)
    matvec = spmv.stream(size, matrix.nnz, types_of(dtype, dtype))
    plan = arnoldi.plan(size, first, count, matvec, from_dtype(np.dtype(dtype)))
    arrays = (*parts(matrix), np.ascontiguousarray(given))
    session.run(plan, [vectors, components], [session.pointer(x) for x in arrays])
    tolerance = 1e-12 if dtype == "f8" else 1e-5
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(count + 1), atol=tolerance)
    np.testing.assert_allclose(vectors[: first + 1], given)
    products = (matrix @ vectors[first:count].T).T
    along = np.tril(np.ones((count, count + 1)), 1)[first:] * components[first:, :-1]
    np.testing.assert_allclose(along @ vectors, products, atol=tolerance * abs(products).max())
    assert (components[first:, :-1] == along).all()


def test_orthogonality_does_not_fade(session):
    """It would by a factor per step, if vectors were made orthogonal but once."""
    matrix, count = KINDS["laplacian-2d"], 30
    size = matrix.shape[0]
    given = np.random.default_rng(0).normal(size=(1, size))
    vectors, components = np.full((count + 1, size), np.nan), np.full((count, count + 2), np.nan)
    plan = arnoldi.plan(size, 0, count, spmv.stream(size, matrix.nnz, types_of("f8", "f8")), from_dtype(np.dtype("f8")))
    arrays = (*parts(matrix), given / np.linalg.norm(given))
    session.run(plan, [vectors, components], [session.pointer(x) for x in arrays])
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(count + 1), atol=1e-13)


def test_nothing_new(session):
    """An operator that leads nowhere: the rest is zero."""
    matrix = KINDS["laplacian-2d"] * 0
    matrix.setdiag(2.0)
    matrix = matrix.tocsr()
    size = matrix.shape[0]
    given = np.full((1, size), size**-0.5)
    vectors, components = np.full((4, size), np.nan), np.full((3, 5), np.nan)
    plan = arnoldi.plan(size, 0, 3, spmv.stream(size, matrix.nnz, types_of("f8", "f8")), from_dtype(np.dtype("f8")))
    session.run(plan, [vectors, components], [session.pointer(x) for x in (*parts(matrix), given)])
    np.testing.assert_allclose(components[0], [2, 0, 0, 0, 0])
    assert not vectors[1:].any()


def steps_of(session, matrix, count, steps, dtype="f8", max_shared_nbytes=227 << 10):
    """Return the first vectors, made several at a time, and the components."""
    size = matrix.shape[0]
    given = np.random.default_rng(0).normal(size=(1, size))
    given = (given / np.linalg.norm(given)).astype(dtype)
    vectors, components = np.full((count + 1, size), np.nan, dtype), np.full((count, count + 2), np.nan, dtype)
    matvec = spmv.stream(size, matrix.nnz, types_of(dtype, dtype))
    plan = arnoldi_s_step.plan(size, count, steps, matvec, from_dtype(np.dtype(dtype)), max_shared_nbytes)
    session.run(plan, [vectors, components], [session.pointer(x) for x in (*parts(matrix), given)])
    return vectors, components


def assert_components(matrix, vectors, components, steps, tolerance):
    """Every row but the first of some steps has the components of the product of the matrix and the product before."""
    count = len(components)
    assert not components[:, -1].any()
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(count + 1), atol=tolerance)
    product = None
    for row in range(count):
        product = matrix @ (product if row % steps else vectors[row])
        np.testing.assert_allclose(components[row, :-1] @ vectors, product, atol=tolerance * abs(product).max())
    assert not np.triu(components[:, :-1], 2).any()


@pytest.mark.parametrize(
    ("dtype", "kind", "steps"),
    [("f8", "laplacian-2d", 2), ("f4", "laplacian-2d", 2), ("f8", "random", 2), ("f8", "laplacian-2d", 3)],
)
def test_steps_several_at_a_time(session, dtype, kind, steps):
    matrix, count = KINDS[kind].astype(dtype), 12
    vectors, components = steps_of(session, matrix, count, steps, dtype)
    assert_components(matrix, vectors, components, steps, 1e-11 if dtype == "f8" else 1e-4)


@pytest.mark.parametrize(
    ("size", "count", "steps"), [(288, 11, 2), (277, 36, 2), (277, 8, 3), (288, 34, 3), (260, 9, 4)]
)
def test_steps_of_other_sizes(session, size, count, steps):
    """Vectors of even and of odd sizes, and counts that leave some of those that are multiplied at a time."""
    matrix = KINDS["laplacian-2d"]
    matrix = matrix[:size, :size].tocsr()
    vectors, components = steps_of(session, matrix, count, steps)
    assert_components(matrix, vectors, components, steps, 1e-9 if steps == 4 else 1e-11)


@pytest.mark.parametrize(("max_shared_nbytes", "elements"), [(227 << 10, 4), (60 << 10, 2), (36 << 10, 1)])
def test_steps_with_less_shared_memory(session, max_shared_nbytes, elements):
    spec = arnoldi_s_step.dots_spec(from_dtype(np.dtype("f8")), 3, 3, 30, max_shared_nbytes)
    assert spec.elements == elements
    matrix = KINDS["laplacian-2d"]
    vectors, components = steps_of(session, matrix, 6, 3, max_shared_nbytes=max_shared_nbytes)
    assert_components(matrix, vectors, components, 3, 1e-11)


@pytest.mark.parametrize("steps", [2, 3])
def test_steps_of_which_too_little_is_left_are_marked(session, steps):
    matrix = KINDS["laplacian-2d"] * 0
    matrix.setdiag(1e5 + np.arange(matrix.shape[0]) / 100)
    vectors, components = steps_of(session, matrix.tocsr(), 2 * steps, steps)
    assert components[::steps, -1].all()
    assert np.isfinite(components).all()
    assert not vectors[1:].any()
