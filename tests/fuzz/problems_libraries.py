"""Random problems for the planners of sparse matrices and of random numbers."""

from __future__ import annotations

from typing import Any

import numpy  # noqa: ICN001 - np is ours
import scipy.sparse as scipy_sparse

import oxinp as np
from tests.fuzz.problem import Problem


def sparse(p: Problem) -> Any:
    """Sparse matrices by vectors, by matrices and by each other, and what solves and walks them."""
    library = np.scipy.sparse
    sizes = (5, 6, 33, 100, 777, 5000, 100_003)
    m, n = p.choice(sizes), p.choice(sizes)
    if p.chance(50):
        m = n
    count = min(m * n, p.choice((1, 100, 5000, 100_000)))
    dtype, index = p.dtype(("f4", "f8", "c8", "c16", "i4", "i8", "?", "f4", "f8")), p.dtype(("i4", "i8", "i4"))
    made = p.choice(("csr", "csr", "csc", "coo"))
    # The places of elements are known on the host: there they are looked at.
    numbers = numpy.random.default_rng(count).integers(0, m * n, count)
    if p.chance(20):
        numbers //= n  # rows of every length
    places = numpy.sort(numbers) // n, (numpy.sort(numbers) % n)
    elements = numpy.ones(count, dtype), tuple(each.astype(index) for each in places)
    A = getattr(library, f"{made}_array")(getattr(scipy_sparse, f"{made}_array")(elements, shape=(m, n)))
    columns = p.choice((1, 2, 3, 16, 64, 100))
    x, y = p.array((n,), dtype), p.array((n, columns), dtype)
    if p.chance(20):
        y = p.array((columns, n), dtype).T
    linalg, graph = library.linalg, library.csgraph
    return p.call(
        (
            "A @ x",
            "A @ x",
            "A @ y",
            "A @ y",
            "A.T @ A",
            "A @ A.T",
            "A + A",
            "A.multiply(2)",
            "A.T.tocsr()",
            "A.tocsr()",
            "A.tocoo()",
            "A.sum(axis=0)",
            "A.sum(axis=1)",
            "A.tocsc()",
            "A.T @ A[:, :1].toarray()",
            "A.diagonal()",
            "A.sum()",
            "2 * A - A",
            "A.multiply(A)",
            "abs(A)",
            "A[:1]",
            "A.tocsr()[1:3, ::2]",
            "A.max(axis=1)",
            "A.maximum(A)",
            "A != A",
            "A > A * 2",
            "A.astype('f4') + A.astype('f8')",
            "linalg.cg(A, x, maxiter=2)",
            "linalg.cg(A, x, x, maxiter=3, rtol=1e-5)",
            "linalg.bicgstab(A, x, maxiter=2)",
            "linalg.cgs(A, x, maxiter=2)",
            "linalg.gmres(A, x, maxiter=2, restart=5)",
            "linalg.minres(A, x, maxiter=2)",
            "library.hstack([A, A])",
            "library.vstack([A, A])",
            "linalg.spsolve_triangular(A.tocsr(), x)",
            "linalg.spsolve_triangular(A.tocsr(), y, lower=False)",
            "linalg.spsolve_triangular(A.tocsr(), x, unit_diagonal=True)",
            "A.astype('f8') @ x",
            "x @ A.T",
            "graph.connected_components(A)",
            "graph.connected_components(A, connection='strong')",
            "A.tocsr().sort_indices()",
            "graph.breadth_first_order(A, 0)",
            "graph.shortest_path(A, indices=0)",
            "graph.shortest_path(A, indices=0, unweighted=True)",
            "graph.minimum_spanning_tree(A)",
            "graph.dijkstra(A, indices=[0, 1])",
            "graph.bellman_ford(A, indices=0)",
            "library.sddmm(A.tocsr(), y[: A.shape[0]], y)",
            "library.linalg.ilu0(A.tocsr()).solve(x)",
            "library.linalg.ic0(A.tocsr())",
            "library.linalg.eigsh(A, k=1, maxiter=2)",
            "library.kron(A, A[:2, :2])",
            "library.triu(A) + library.tril(A)",
            "A.power(2)",
            "A.tocsr()[[0, 1, 0]]",
            "A.mean(axis=0)",
            "A.T @ (A @ x)",
            "A.conj().T @ y[: A.shape[0]]",
            "A.argmax(axis=1)",
            "A.reshape(-1, 1)",
            "A.toarray()",
            "A.eliminate_zeros()",
            "A.tocsr().sum_duplicates()",
        ),
        A=A,
        x=x,
        y=y,
        library=library,
        linalg=linalg,
        graph=graph,
    )


def random_numbers(p: Problem) -> Any:
    """Random numbers of every generator."""
    bits = p.choice(("PCG64", "PCG64DXSM", "Philox", "MT19937"))
    g = np.random.Generator(getattr(np.random, bits)(3))
    old, shape = np.random.RandomState(3), p.shape()
    a = p.array(p.shape(1, most=1 << 22), p.dtype())
    return p.call(
        (
            "g.random(d)",
            "g.random(d, 'f4')",
            "g.integers(7, size=d)",
            "g.integers(2**40, size=d)",
            "g.integers(0, 99, d, 'u1')",
            "g.standard_normal(d)",
            "g.standard_normal(d, 'f4')",
            "g.standard_exponential(d)",
            "g.normal(1, 2, d)",
            "g.choice(9, d)",
            "g.choice(9, d, p=[0.1] * 8 + [0.2])",
            "g.uniform(0, 2, d) < 1",
            "old.random_sample(d)",
            "old.randn(*d)",
            "old.randint(0, 9, d)",
            "g.exponential(2, d)",
            "g.triangular(0, 1, 2, d)",
            "g.permutation(a)",
            "g.shuffle(a.copy())",
            "g.choice(a, 5)",
            "old.uniform(0, 1, d)",
            "old.standard_exponential(d)",
            "g.gumbel(0, 1, d)",
            "g.integers(0, 2**32, d, 'u4')",
            "np.random.Generator(np.random.Philox4x32(3)).random(d)",
            "g.integers(-2**63, 2**63 - 1, d)",
            "old.randint(0, 2**40, d)",
            "g.laplace(0, 1, d)",
            "old.choice(9, d)",
            "g.permutation(100_000)",
            "g.permutation(a.size)",
            "g.permuted(a)",
            "g.choice(a, 5, replace=False)",
            "g.integers(0, a.size + 1, d)",
            "g.integers(0, 99, d, 'u2')",
            "g.integers(0, 2**32 - 5, d, 'u4')",
            "g.integers(0, 200, d, 'i4', endpoint=True)",
            "g.integers(5, 5 + 2**63, d, 'u8')",
            "g.integers(0, 2, d, bool)",
            "g.lognormal(0, 1, d)",
            "g.rayleigh(2, d)",
            "g.weibull(2, d)",
            "g.logistic(0, 1, d)",
            "g.power(2, d)",
            "g.pareto(2, d)",
            "g.random(d) + g.standard_normal(d)",
            *["g.random(d).sum()", "(g.random(d) ** 2 + g.random(d) ** 2 < 1).sum()"] * 3,
            "g.standard_normal(d).mean()",
            "(philox.random(d) < 0.5).sum()",
            "g.standard_normal(d, 'f4').max(-1)",
            "old.shuffle(a.copy())",
            "old.permutation(a)",
            "old.bytes(17)",
            "old.normal(1, 2, d)",
            "old.random_integers(5, size=d)",
            "old.choice(a, 7)",
            "old.randint(0, 255, d, 'u1')",
            "old.randint(0, 60_000, d, 'u2')",
            "old.randint(0, 2, d, bool)",
            "old.randint(0, 2**32, d, 'u4')",
            "old.gumbel(0, 1, d)",
            "philox.standard_normal(d)",
            "philox.standard_normal(d, 'f4')",
            "philox.integers(0, 99, d)",
            "philox.integers(0, 2**40, d)",
            "philox.standard_exponential(d, 'f4')",
            "philox.random(d, 'f4')",
            "philox.random(d) * 3 - 1",
            "np.exp(philox.random(d, 'f4') * 2)",
            "g.random(d) * 3 - old.rand(1)[0]",
            "philox.integers(0, 99, d, 'u1')",
            "np.scipy.stats.qmc.Sobol(3, rng=3).random(64)",
            "np.scipy.stats.qmc.Halton(3, rng=3).random(100)",
            "[g.random(5), g.random(d), g.standard_normal(7), g.random(d, 'f4')]",
            "[g.integers(9, size=3), g.integers(9, size=d), g.random(d)]",
            "[old.random_sample(5), old.random_sample(d), old.randn(7), old.randint(0, 9, d)]",
        ),
        g=g,
        old=old,
        philox=np.random.Generator(np.random.Philox4x32(3)),
        d=shape,
        a=a,
    )
