"""LU factors of large sparse matrices by fronts, on the device: dense blocks of one size are factored together.

The order and what fills in are found on the host (`_dissection`, `_elimination`) and kept with the matrix' pattern. On
the device a depth's fronts are assembled from the matrix and from the fronts below; of each, the inverse of its
vertices' block and products with it are kept. Rows are not exchanged between fronts, which takes a matrix whose
diagonal dominates by rows or columns, or a Hermitian positive definite one. Systems are solved twice, the second time
for the residual of the first.

Source: I. Duff and J. Reid, The multifrontal solution of indefinite sparse symmetric linear systems, ACM Trans. Math.
Software 9, 1983.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.linalg import LinAlgError

from oxinp._core.array import dispatch
from oxinp._core.lazy.evaluate import evaluate
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import fetch
from oxinp._core.lazy.results import types
from oxinp._core.manipulation.copy import astype, copy
from oxinp._core.memory.dtypes import FLOAT64
from oxinp._core.ops import creation, factorise, gather, scatter
from oxinp._core.ops.advanced import Selection
from oxinp._core.ops.perform import perform_on_device
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.table import ALL
from oxinp._core.ufunc.object import OBJECTS
from oxinp.sparse import _compressed, _rows
from oxinp.sparse._base import COMPRESSED, is_ours, is_small
from oxinp.sparse._rows import Rows
from oxinp.sparse.linalg._dissection import boundaries, dissect
from oxinp.sparse.linalg._elimination import Group, arrange, entries

MIN_ROWS = 8192
NARROWEST = 350
"""Vertices of the first cut from which on the device is asked at all."""
MIN_WORK = 1e9
"""Operations from which on it gains: SuperLU on the host takes half a second, in which the analysis is done."""


class Below(NamedTuple):
    """`_elimination.Below` on the device; `rows` are the places in the vectors of the depth below, the last is zero."""

    bases: Any
    extents: Any
    places: Any
    rows: Any


class Placed(NamedTuple):
    """`_elimination.Group` on the device."""

    count: int
    size: int
    width: int
    targets: Any
    sources: Any
    below: list[Below]
    own: Any
    boundary: Any
    num_padded: int


class Block(NamedTuple):
    """The factors of a group: of each front the inverse, the inverse times what is right of it, and what is below."""

    group: Placed
    inverse: Any
    right: Any
    low: Any


class FrontalFactorisation:
    """The factors of a sparse matrix by fronts; see `scipy.sparse.linalg.SuperLU`, whose attributes it has.

    Parameters
    ----------
    A : csr_array, csc_array or the matrices of these names, (n, n)
    make : callable
        Factorises by SciPy, for the attributes of its factors.

    Raises
    ------
    Unsupported
        SciPy is to factorise it: it is small or fills in little, needs rows exchanged, or is singular.
    """

    def __init__(self, A: Any, make: Callable[[Any], Any]) -> None:
        if not is_ours(A) or A.format not in COMPRESSED or A.ndim != 2 or A.shape[0] != A.shape[1] or is_small(A):
            raise Unsupported("no square matrix in rows or columns, or a small one")
        if A.shape[0] < MIN_ROWS or not A.nnz:
            raise Unsupported("few rows")
        given, A = A, A.astype(A.dtype if A.dtype.char in "fdFD" else FLOAT64)  # a copy: that may be written to
        rows, is_definite = _compressed.canonical_rows(A), False
        if not _is_dominant(rows):
            is_definite = _is_hermitian(rows)
            if not is_definite:
                raise Unsupported("a matrix whose rows are exchanged")
        depths = given._cached("fronts", ("indptr", "indices"), lambda: _analysed(rows))
        self.shape, self._matrix, self._make = A.shape, A, make
        self._num_padded = max(group.num_padded for groups in depths for group in groups)
        try:
            self._depths = list(_factored(depths, rows.data, is_definite=is_definite))
        except LinAlgError as error:
            raise Unsupported("a matrix that is singular, or not definite") from error

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._theirs, name)

    @cached_property
    def _theirs(self) -> Any:
        """SciPy's factors, for who asks for them."""
        return self._make(self._matrix)

    def solve(self, rhs: Any, trans: str = "N") -> Any:
        """Return the solution of linear systems; see `Factorisation.solve`."""
        rhs = dispatch.functions[np.asarray](rhs)
        if trans not in ("N", "T", "H"):
            raise ValueError("trans must be N, T, or H")
        if rhs.ndim not in (1, 2) or rhs.shape[0] != self.shape[0]:
            raise ValueError("b is of incompatible size")
        b = astype(rhs, self._matrix.dtype, casting="safe", copy_wanted=False)
        if trans == "H" and b.dtype.kind == "c":
            return OBJECTS["conjugate"](self.solve(OBJECTS["conjugate"](b), "T"))
        b = b if b.ndim == 2 else b.reshape(-1, 1)
        is_transposed = trans != "N"
        matrix = self._matrix.T if is_transposed else self._matrix
        x = self._solved(b, is_transposed=is_transposed)
        x = x + self._solved(b - matrix @ x, is_transposed=is_transposed)
        return x.reshape(rhs.shape)

    def _solved(self, b: Any, *, is_transposed: bool) -> Any:
        """Return the solution by the factors: from the lowest depth up, then down."""
        n, concatenate = self.shape[0], dispatch.functions[np.concatenate]
        nothing = creation.zeros((1, b.shape[1]), b.dtype)
        x = concatenate([b, creation.zeros((1 + self._num_padded, b.shape[1]), b.dtype)])
        above, solved = nothing, []
        for blocks in self._depths:
            found, updates = [], []
            for block in blocks:
                own, at_boundary = _right_sides(block.group, x, above)
                if not is_transposed:
                    own = block.inverse @ own
                found.append(own)
                if block.group.width:
                    factor = block.right.swapaxes(1, 2) if is_transposed else block.low
                    update = factor @ own
                    update = -update if at_boundary is None else at_boundary - update
                    updates.append(update.reshape(-1, b.shape[1]))
            above = concatenate([*updates, nothing])
            solved.append(found)
        for blocks, found in zip(self._depths[::-1], solved[::-1], strict=True):
            for block, own in zip(blocks, found, strict=True):
                _write(x, block, own, is_transposed=is_transposed)
        evaluate(x)
        return x[:n]


def _right_sides(group: Placed, b: Any, above: Any) -> tuple[Any, Any]:
    """Return the right-hand sides of a group's vertices, and of its boundaries; None where nothing is below."""
    own, at_boundary = gather.take(b, group.own, is_checked=False), None
    for below in group.below:
        update = gather.take(above, below.rows, is_checked=False)
        own = own + update[:, : group.size]
        part = update[:, group.size :]
        at_boundary = part if at_boundary is None else at_boundary + part
    return own, at_boundary


def _write(x: Any, block: Block, own: Any, *, is_transposed: bool) -> None:
    """Find the solution at a group's vertices from that at their boundaries, and write it; padding's is nothing."""
    group = block.group
    if group.width:
        at_boundary = gather.take(x, group.boundary, is_checked=False)
        factor = block.low.swapaxes(1, 2) if is_transposed else block.right
        own = own - factor @ at_boundary
    if is_transposed:
        own = block.inverse.swapaxes(1, 2) @ own
    scatter.assign(Selection(x, group.own, own.shape, 0, 1, False, None, True), own)


# -- analysis ----------------------------------------------------------------------------------------------------------


def _is_dominant(rows: Rows) -> bool:
    """Return whether no element of the diagonal is smaller than the others of its row together, or of its column."""
    absolute = OBJECTS["absolute"]
    data = absolute(rows.data)
    twice = 2 * absolute(_rows.diagonal(rows, 0)) * (1 + 16 * np.finfo(data.dtype).eps)
    for each in (rows._replace(data=data), None):
        side = _rows.transposed(rows._replace(data=data)) if each is None else each
        longest = int((side.indptr[1:] - side.indptr[:-1]).max())
        if bool(reduce(ALL, (twice >= _rows.sums(side, longest)) & (twice > 0))):
            return True
    return False


def _is_hermitian(rows: Rows) -> bool:
    """Return whether a matrix is Hermitian, with a positive diagonal."""
    diagonal = _rows.diagonal(rows, 0)
    if not bool(reduce(ALL, diagonal.real > 0)):
        return False
    other = _rows.transposed(rows)
    pairs = ((rows.indptr, other.indptr), (rows.indices, other.indices), (rows.data, factorise.conjugate(other.data)))
    return all(bool(reduce(ALL, a == b)) for a, b in pairs)


def _analysed(rows: Rows) -> list[list[Placed]]:
    """Return how a matrix is eliminated, on the device.

    Raises
    ------
    Unsupported
        The host eliminates it as fast, or there is no room.
    """
    indptr, indices = fetch(rows.indptr).astype(np.int64), fetch(rows.indices).astype(np.int64)
    n = rows.num_rows
    numbers = np.repeat(np.arange(n), np.diff(indptr))
    is_off = numbers != indices
    ends = numbers[is_off], indices[is_off]
    pattern = scipy.sparse.csr_array((np.ones(ends[0].size, bool), ends), shape=(n, n))
    pattern = pattern + pattern.T
    pattern.sort_indices()
    fronts = dissect(pattern.indptr, pattern.indices, narrowest=NARROWEST)
    edges = boundaries(fronts, pattern.indptr, pattern.indices)
    if entries(fronts, edges)[1] < MIN_WORK:
        raise Unsupported("a matrix that fills in little")
    below, made = 0, []
    for groups in arrange(fronts, edges, indptr, indices):
        made.append([_placed(group, below) for group in groups])
        below = sum(group.count * group.width for group in groups)
    return made


def _placed(group: Group, below: int) -> Placed:
    parts = []
    for each in group.below:
        rows = np.where(each.places >= 0, each.row_bases[:, None] + each.places, below)
        parts.append(Below(*map(types.from_host, (each.bases, each.extents, each.places, rows))))
    arrays = (types.from_host(each) for each in (group.targets, group.sources))
    ends = (types.from_host(each) for each in (group.own, group.boundary))
    return Placed(group.count, group.size, group.width, *arrays, parts, *ends, group.num_padded)


# -- factorisation -----------------------------------------------------------------------------------------------------


def _factored(depths: list[list[Placed]], data: Any, *, is_definite: bool) -> Iterable[list[Block]]:
    """Yield the factors of the groups of each depth, the lowest first."""
    concatenate = dispatch.functions[np.concatenate]
    data = concatenate([data, creation.ones((1,), data.dtype)])
    above = creation.zeros((1,), data.dtype)
    for groups in depths:
        blocks, updates = [], []
        for group in groups:
            block, update = _eliminated(group, _assembled(group, data, above), is_definite=is_definite)
            blocks.append(block)
            if group.width:
                updates.append(update.ravel())
        above = concatenate(updates) if updates else above
        evaluate(above)
        yield blocks


def _assembled(group: Placed, data: Any, above: Any) -> Any:
    """Return the fronts of a group: elements of the matrix, and what is left of the fronts below."""
    where, extent = dispatch.functions[np.where], group.size + group.width
    made = creation.zeros((group.count * extent**2,), data.dtype)
    values = gather.take(data, group.sources, is_checked=False)
    scatter.assign(Selection(made, group.targets, values.shape, 0, 1, False, None, True), values)
    made = made.reshape(group.count, extent, extent)
    for below in group.below:
        row, column = below.places[:, :, None], below.places[:, None, :]
        is_there = (row >= 0) & (column >= 0)
        at = below.bases[:, None, None] + row * below.extents[:, None, None] + column
        found = gather.take(above, where(is_there, at, 0), is_checked=False)
        made = made + where(is_there, found, data.dtype.type(0))
    return made


def _eliminated(group: Placed, front: Any, *, is_definite: bool) -> tuple[Block, Any]:
    """Return a group's factors, and what is left of its fronts' boundaries."""
    size = group.size
    own = copy(front[:, :size, :size])
    if is_definite:
        perform_on_device(factorise.CHOLESKY, (own,))  # raises if they are not
    inverse = perform_on_device(factorise.INV, (own,))
    if not group.width:
        return Block(group, inverse, None, None), None
    right, low = inverse @ front[:, :size, size:], copy(front[:, size:, :size])
    return Block(group, inverse, right, low), front[:, size:, size:] - low @ right


__all__ = ["FrontalFactorisation"]
