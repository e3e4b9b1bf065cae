"""Algebraic multigrid by smoothed aggregation, as a preconditioner, set up and applied on the device."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from oxinp._core.array import dispatch
from oxinp._core.lazy.evaluate import evaluate
from oxinp._core.lazy.handle import fetch
from oxinp._core.lazy.results import types
from oxinp._core.manipulation.copy import astype
from oxinp._core.memory.dtypes import INT64
from oxinp._core.ops import creation, graph
from oxinp._core.ops.perform import perform_on_device
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.scan import accumulate
from oxinp._core.reduction.table import ANY, CUMSUM, MAX
from oxinp._core.ufunc.object import OBJECTS
from oxinp.sparse import _products, _rows
from oxinp.sparse._rows import Rows, taken
from oxinp.sparse.linalg._api import LinearOperator
from oxinp.sparse.linalg._incomplete import as_matrix, square_rows

ROOT, EXCLUDED = 0, np.iinfo(np.int64).max
"""Keys of vertices that are in a maximal independent set, and of those that cannot be any more."""
SMOOTHING = 4.0 / 3.0
"""Times the inverse of the spectral radius: the weight of Jacobi steps, of prolongators too (P. Vaněk et al.)."""


class Operator(NamedTuple):
    """A matrix in rows, and the length of the longest."""

    rows: Rows
    longest: int

    def __matmul__(self, x: Any) -> Any:
        return _rows.matvec(self.rows, x, self.longest)


class Level(NamedTuple):
    """One level of the hierarchy but the coarsest.

    Attributes
    ----------
    a, p, r : Operator
        The matrix, the prolongator, and the restriction, which is its transpose.
    weights : ndarray, (n,)
        Of a Jacobi step: the inverse diagonal times `SMOOTHING` over the spectral radius.
    """

    a: Operator
    p: Operator
    r: Operator
    weights: Any


class SmoothedAggregation(LinearOperator):  # type: ignore[misc]  # of SciPy's source
    """A V-cycle of algebraic multigrid, as a linear operator: what `smoothed_aggregation` returns.

    Attributes
    ----------
    sizes : list of int
        Of the levels, from the finest on.
    shape : tuple of int
    dtype : dtype
    """

    def __init__(self, levels: list[Level], coarsest: Rows, sweeps: int) -> None:
        finest = levels[0].a.rows if levels else coarsest
        super().__init__(finest.data.dtype, (finest.num_rows, finest.num_rows))
        self._levels, self._sweeps = levels, sweeps
        self._inverse = types.from_host(np.linalg.pinv(fetch(_rows.to_dense(coarsest)), hermitian=True))
        self.sizes = [level.a.rows.num_rows for level in levels] + [coarsest.num_rows]

    @property
    def operators(self) -> list[Any]:
        """The matrices of all levels but the coarsest, as sparse arrays."""
        return [as_matrix(level.a.rows) for level in self._levels]

    def _matvec(self, x: Any) -> Any:
        return self._cycle(0, astype(x.ravel(), self.dtype, copy_wanted=False))

    _rmatvec = _matvec  # it is symmetric

    def _cycle(self, number: int, b: Any) -> Any:
        """Return the approximate solution of a level's system: as many Jacobi steps after the coarse one as before."""
        if number == len(self._levels):
            return self._inverse @ b
        a, p, r, weights = self._levels[number]
        x = weights * b
        for _ in range(self._sweeps - 1):
            x = x + weights * (b - a @ x)
        x = x + p @ self._cycle(number + 1, r @ (b - a @ x))
        for _ in range(self._sweeps):
            x = x + weights * (b - a @ x)
        evaluate(x)
        return x


def smoothed_aggregation(
    A: Any, B: Any = None, *, theta: float = 0.0, sweeps: int = 1, max_levels: int = 20, max_coarse: int = 400
) -> SmoothedAggregation:
    """Return a V-cycle of algebraic multigrid by smoothed aggregation, as a preconditioner.

    Parameters
    ----------
    A : sparse array or matrix, (n, n), float
        Symmetric and positive definite or semidefinite; integers are computed in float64.
    B : array_like, (n,), optional
        A vector that `A` makes almost zero; ones unless told.
    theta : float
        Elements count as connections where ``abs(a_ij) > theta * sqrt(abs(a_ii * a_jj))``.
    sweeps : int
        Jacobi steps before and after each coarse correction.
    max_levels, max_coarse : int
        Coarsening ends at so many levels, or so few rows, whose system is solved by the pseudo-inverse.

    Returns
    -------
    SmoothedAggregation
        A symmetric `LinearOperator`, for the parameter `M` of `cg`.

    Raises
    ------
    TypeError, ValueError
        The matrix is complex, not sparse, not square, has a zero in its diagonal, or an option makes no sense.

    Notes
    -----
    Aggregates are the neighbourhoods of a maximal independent set of distance two, found in rounds on the device with
    keys that are the same every time; so is the hierarchy. Everything but the inverse of the coarsest matrix is done on
    the device, and a cycle waits for nothing on the host.

    Source: P. Vaněk, J. Mandel, M. Brezina, Algebraic multigrid by smoothed aggregation for second and fourth order
    elliptic problems, Computing 56, 1996; N. Bell, S. Dalton, L. Olson, Exposing fine-grained parallelism in algebraic
    multigrid methods, SIAM J. Sci. Comput. 34, 2012.
    """
    rows = square_rows(A)
    if rows.data.dtype.kind == "c":
        raise TypeError("smoothed aggregation is of real matrices")
    if sweeps < 1 or max_levels < 1 or max_coarse < 1 or theta < 0:
        raise ValueError("sweeps, max_levels and max_coarse are positive, theta is not negative")
    dtype, n = rows.data.dtype, rows.num_rows
    near_null = creation.ones((n,), dtype) if B is None else astype(dispatch.functions[np.asarray](B), dtype)
    if near_null.shape != (n,):
        raise ValueError(f"B is of shape {near_null.shape}, not {(n,)}")
    levels: list[Level] = []
    while rows.num_rows > max_coarse and len(levels) < max_levels - 1:
        level, near_null, coarser = _coarsened(_operator(rows), near_null, theta)
        if coarser.num_rows == rows.num_rows:  # no connections
            break
        levels.append(level)
        rows = coarser
    return SmoothedAggregation(levels, rows, sweeps)


def _operator(rows: Rows) -> Operator:
    return Operator(rows, int(reduce(MAX, rows.indptr[1:] - rows.indptr[:-1])))


def _product(a: Operator, b: Operator) -> Operator:
    return Operator(*_products.product(a.rows, b.rows, a.longest, b.longest))


def _coarsened(a: Operator, near_null: Any, theta: float) -> tuple[Level, Any, Rows]:
    """Return a level, the next one's near-null vector, and its matrix."""
    rows = a.rows
    diagonal = _rows.diagonal(rows, 0)
    if bool(reduce(ANY, diagonal == 0)):
        raise ValueError("a matrix with zeros in its diagonal")
    absolute = OBJECTS["absolute"]
    sums = _rows.sums(rows._replace(data=absolute(rows.data)), a.longest)
    radius = float(reduce(MAX, sums / absolute(diagonal)))  # Gershgorin's bound
    weights = rows.data.dtype.type(SMOOTHING / radius) / diagonal
    labels, count = aggregate(rows if theta == 0 else _strong(rows, diagonal, theta))
    p, near_null = _prolongator(a, near_null, weights, labels, count)
    r = _operator(_rows.transposed(p.rows))
    coarser = _product(r, _product(a, p)).rows
    return Level(a, p, r, weights), near_null, coarser


def _strong(rows: Rows, diagonal: Any, theta: float) -> Rows:
    """Return the elements that count as connections."""
    numbers = _rows.numbers(rows)
    bound = taken(diagonal, numbers) * taken(diagonal, rows.indices)
    squares = rows.data * rows.data
    return _rows.kept(rows, squares > OBJECTS["absolute"](bound) * rows.data.dtype.type(theta**2))


def _prolongator(a: Operator, near_null: Any, weights: Any, labels: Any, count: int) -> tuple[Operator, Any]:
    """Return the smoothed prolongator, and the near-null vector that it has on the coarse level."""
    rows = a.rows
    dtype, index = rows.data.dtype, rows.indices.dtype
    squares = dispatch.functions[np.bincount](labels, near_null * near_null, count)
    norms = astype(OBJECTS["sqrt"](squares), dtype)
    pointers = creation.arange(0, rows.num_rows + 1, 1, index)
    tentative = Rows(pointers, astype(labels, index), near_null / taken(norms, labels), count)
    smoothed = _product(a, Operator(tentative, 1)).rows
    smoothed = smoothed._replace(data=smoothed.data * taken(weights, _rows.numbers(smoothed)))
    return _operator(_rows.combined(tentative, smoothed, "subtract")), norms


def aggregate(rows: Rows) -> tuple[Any, int]:
    """Return of every vertex of a graph the number of its aggregate, int64, and how many there are.

    An aggregate is what is nearest to a vertex of a maximal independent set of distance two.
    """
    where = dispatch.functions[np.where]
    keys, is_open = _keys(rows.num_rows), True
    while is_open:
        near = _least(rows, _least(rows, keys))
        is_undecided = (keys != ROOT) & (keys != EXCLUDED)
        excluded = where(is_undecided & (near == ROOT), np.int64(EXCLUDED), keys)
        keys = where(is_undecided & (near == keys), np.int64(ROOT), excluded)
        is_open = bool(reduce(ANY, (keys != ROOT) & (keys != EXCLUDED)))
    is_root = keys == ROOT
    through = accumulate(CUMSUM, is_root, 0, INT64)
    beside = _least(rows, where(is_root, through - 1, np.int64(EXCLUDED)))
    return where(beside != EXCLUDED, beside, _least(rows, beside)), int(through[-1])


def _least(rows: Rows, keys: Any) -> Any:
    return perform_on_device(graph.LEAST, (rows.indptr, rows.indices, keys), (True,))


def _keys(n: int) -> Any:
    """Return different numbers above `ROOT` and below `EXCLUDED` in an order that looks random."""
    above = astype(_rows.scrambled(n) >> np.uint32(1), INT64) << np.int64(32)
    return above + creation.arange(1, n + 1, 1, INT64)


__all__ = ["SmoothedAggregation", "aggregate", "smoothed_aggregation"]
