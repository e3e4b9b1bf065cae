"""Functions of `scipy.sparse.csgraph` on the device: breadth-first order, shortest paths, the Laplacian.

What they give is what SciPy gives: vertices in the order of a queue, distances that are least over all paths of sums
from the start on. Where several vertices lead to one on a shortest path, the predecessor is the nearest one.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from oxinp._api.fronts import implements
from oxinp._core.array import dispatch
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.results import types
from oxinp._core.manipulation.copy import astype
from oxinp._core.memory.dtypes import FLOAT64, INT64
from oxinp._core.ops import creation, gather, graph
from oxinp._core.ops import sparse as ops
from oxinp._core.ops.perform import perform_on_device, perform_sized
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.table import ALL, ANY, MIN, SUM
from oxinp.sparse import _rows
from oxinp.sparse._base import COMPRESSED, as_ours, sibling
from oxinp.sparse._compressed import canonical_rows
from oxinp.sparse._executed import composed
from oxinp.sparse._rows import Rows, taken
from oxinp.sparse.csgraph._graphs import checked_rows

INT32 = np.dtype(np.int32)
NOBODY = -9999  # SciPy's predecessor of what has none
MAX_SOURCES = 16

composed("scipy.sparse.csgraph.laplacian", "scipy.sparse.csgraph._laplacian")


@implements("scipy.sparse.csgraph.breadth_first_order")
def breadth_first_order(csgraph: Any, i_start: Any, directed: bool = True, return_predecessors: bool = True) -> Any:
    """See `scipy.sparse.csgraph.breadth_first_order`: level by level, each in the order in which a queue has it."""
    rows, start = checked_rows(csgraph), operator.index(i_start)
    if not directed or not 0 <= start < rows.num_rows:
        raise Unsupported("edges in both directions, or what SciPy refuses")
    reached = creation.full((rows.num_rows,), np.iinfo(np.int64).max, INT64)
    reached[start] = -1
    level, base = types.from_host(np.array([start])), 0
    levels, before = [level], []
    while True:
        picked, (count, _) = perform_sized(ops.PICKED, (level, rows.indptr, rows.indices, rows.indices))
        if not count:
            break
        indptr, ends, *_ = picked
        number = types.from_host(np.array([base]))
        reached = perform_on_device(graph.FIRST, (reached, ends, number))
        edges = creation.arange(0, count, 1, INT64)
        winners = gather.flatnonzero(taken(reached, ends) == edges + np.int64(base))
        if not winners.size:
            break
        origins = perform_on_device(ops.ROW_NUMBERS, (indptr,), (count,))
        before.append(taken(level, taken(origins, winners)))
        level = astype(taken(ends, winners), INT64)
        levels.append(level)
        base += count
    concatenate = dispatch.functions[np.concatenate]
    order = astype(concatenate(levels), INT32)
    if not return_predecessors:
        return order
    predecessors = creation.full((rows.num_rows,), NOBODY, INT32)
    if before:
        predecessors[order[1:]] = astype(concatenate(before), INT32)
    return order, predecessors


@implements("scipy.sparse.csgraph.breadth_first_tree")
def breadth_first_tree(csgraph: Any, i_start: Any, directed: bool = True) -> Any:
    """See `scipy.sparse.csgraph.breadth_first_tree`."""
    csgraph = as_ours(csgraph)
    _, before = breadth_first_order(csgraph, i_start, directed)
    rows = canonical_rows(csgraph if csgraph.format in COMPRESSED else csgraph.tocsr())
    rows = rows._replace(data=astype(rows.data, FLOAT64))
    tree = _rows.kept(rows, taken(before, rows.indices) == _rows.numbers(rows))
    parts = {"data": tree.data, "indices": tree.indices, "indptr": tree.indptr}
    return sibling(csgraph, "csr", parts, csgraph.shape, canonical=True)


def _paths(csgraph: Any, directed: bool, indices: Any, unweighted: bool, return_predecessors: bool) -> Any:
    """Return the distances from some vertices to all, by rounds of relaxation until nothing changes.

    With predecessors, those are second: the nearest of what leads to a vertex on a shortest path, then the first.
    """
    starts = np.asarray(indices) if indices is not None else None
    if starts is None or starts.dtype.kind not in "iu" or starts.ndim > 1 or not 0 < starts.size <= MAX_SOURCES:
        raise Unsupported("distances from very many vertices, or what SciPy refuses")
    sides = [checked_rows(csgraph, is_transposed=True)]
    if not directed:
        sides.append(checked_rows(csgraph))
    n = sides[0].num_rows
    if int(starts.min()) < -n or int(starts.max()) >= n:
        raise Unsupported("vertices that SciPy refuses")
    data = sides[0].data
    if data.dtype.kind == "f" and not bool(reduce(ALL, data >= 0)):
        raise Unsupported("negative weights")
    if data.dtype.kind == "i" and int(reduce(MIN, data)) < 0:
        raise Unsupported("negative weights")
    if unweighted:
        sides = [side._replace(data=creation.ones((side.data.size,), FLOAT64)) for side in sides]
    stack = dispatch.functions[np.stack]
    found = [_from_one(sides, n, int(start) % n) for start in starts.reshape(-1)]
    distances = stack(found) if starts.ndim else found[0]
    if not return_predecessors:
        return distances
    before = [_before(sides, each) for each in found]
    return distances, stack(before) if starts.ndim else before[0]


def _before(sides: list[Rows], distances: Any) -> Any:
    """Return the predecessors on shortest paths from a vertex.

    Raises
    ------
    Unsupported
        Edges that make no distance longer lead somewhere: the order in which SciPy meets them decides.
    """
    where = dispatch.functions[np.where]
    before: Any = None
    for side in sides:
        found = perform_on_device(graph.PREDECESSORS, (*side.parts, distances))
        if before is None:
            before = found
            continue
        lengths = [where(each < 0, np.inf, taken(distances, where(each < 0, 0, each))) for each in (before, found)]
        is_nearer = (lengths[1] < lengths[0]) | ((lengths[1] == lengths[0]) & (found >= 0) & (found < before))
        before = where(is_nearer, found, before)
    reached = int(reduce(SUM, distances < np.inf))
    if int(reduce(SUM, before >= 0)) != reached - 1:
        raise Unsupported("edges without a length")
    return before


def _from_one(sides: list[Rows], n: int, start: int) -> Any:
    distances = creation.full((n,), np.inf, FLOAT64)
    distances[start] = 0.0
    while True:
        after = distances
        for side in sides:
            after = perform_on_device(graph.RELAX, (*side.parts, after))
        if not bool(reduce(ANY, after != distances)):
            return after
        distances = after


@implements("scipy.sparse.csgraph.bellman_ford")
def bellman_ford(
    csgraph: Any,
    directed: bool = True,
    indices: Any = None,
    return_predecessors: bool = False,
    unweighted: bool = False,
) -> Any:
    """See `scipy.sparse.csgraph.bellman_ford`; from few vertices, without negative weights."""
    return _paths(csgraph, directed, indices, unweighted, return_predecessors)


@implements("scipy.sparse.csgraph.dijkstra")
def dijkstra(
    csgraph: Any,
    directed: bool = True,
    indices: Any = None,
    return_predecessors: bool = False,
    unweighted: bool = False,
    limit: float = np.inf,
    min_only: bool = False,
) -> Any:
    """See `scipy.sparse.csgraph.dijkstra`, whose distances any order of relaxation gives; see `bellman_ford`."""
    if min_only or limit != np.inf:
        raise Unsupported("a limit, or the nearest of several starts")
    return _paths(csgraph, directed, indices, unweighted, return_predecessors)


@implements("scipy.sparse.csgraph.shortest_path")
def shortest_path(
    csgraph: Any,
    method: str = "auto",
    directed: bool = True,
    return_predecessors: bool = False,
    unweighted: bool = False,
    overwrite: bool = False,  # noqa: ARG001 - a permission, of which no use is made
    indices: Any = None,
) -> Any:
    """See `scipy.sparse.csgraph.shortest_path`; see `bellman_ford`."""
    if method not in ("auto", "D", "BF"):
        raise Unsupported("all pairs")
    return _paths(csgraph, directed, indices, unweighted, return_predecessors)


__all__ = ["bellman_ford", "breadth_first_order", "breadth_first_tree", "dijkstra", "shortest_path"]
