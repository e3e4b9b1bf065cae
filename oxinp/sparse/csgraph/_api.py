"""Functions of `scipy.sparse.csgraph` on the device: components, breadth-first order, shortest paths, the Laplacian.

What they give is what SciPy gives: labels in the order of each component's first vertex, vertices in the order of a
queue, distances that are least over all paths of sums from the start on.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from oxinp._api.fronts import implements
from oxinp._core.array import dispatch
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.record import types
from oxinp._core.manipulation.copy import astype
from oxinp._core.memory.dtypes import FLOAT64, INT64
from oxinp._core.ops import creation, gather, graph
from oxinp._core.ops import sparse as ops
from oxinp._core.ops.perform import perform_on_device
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.scan import accumulate
from oxinp._core.reduction.table import ALL, ANY, CUMSUM, MIN
from oxinp.sparse import _methods, _rows
from oxinp.sparse._base import as_ours, is_ours, is_small
from oxinp.sparse._executed import composed
from oxinp.sparse._rows import Rows, taken

INT32 = np.dtype(np.int32)
NOBODY = -9999  # SciPy's predecessor of what has none
MAX_SOURCES = 16

composed("scipy.sparse.csgraph.laplacian", "scipy.sparse.csgraph._laplacian")


def _graph(csgraph: Any, *, is_transposed: bool = False) -> Rows:
    """Return the rows of a graph, or what leads to each vertex, checked.

    Raises
    ------
    Unsupported
        It is dense or small, or not square, which SciPy refuses.
    """
    csgraph = as_ours(csgraph)
    if not is_ours(csgraph) or is_small(csgraph) or csgraph.ndim != 2 or csgraph.shape[0] != csgraph.shape[1]:
        raise Unsupported("a small or a dense graph, or what SciPy refuses")
    if csgraph.dtype.kind not in "fiub" or csgraph.shape[0] > _rows.MAX_INT32:
        raise Unsupported("weights that are no numbers")
    rows, _ = _methods.of_rows(csgraph, is_transposed=is_transposed)
    return rows


@implements("scipy.sparse.csgraph.connected_components")
def connected_components(
    csgraph: Any, directed: bool = True, connection: str = "weak", return_labels: bool = True
) -> Any:
    """See `scipy.sparse.csgraph.connected_components`; strong components are SciPy's work."""
    if str(connection).lower() != "weak" and directed:
        raise Unsupported("strong components, or what SciPy refuses")
    rows = _graph(csgraph)
    vertices = creation.arange(0, rows.num_rows, 1, INT32)
    roots, has_changed = vertices, True
    while has_changed:
        roots, changed = perform_on_device(graph.HOOK, (rows.indptr, rows.indices, roots))
        has_changed = bool(int(changed[0]))
    numbers = accumulate(CUMSUM, roots == vertices, 0, INT32)
    count = int(numbers[-1])
    return (count, taken(numbers, roots) - np.int32(1)) if return_labels else count


@implements("scipy.sparse.csgraph.breadth_first_order")
def breadth_first_order(csgraph: Any, i_start: Any, directed: bool = True, return_predecessors: bool = True) -> Any:
    """See `scipy.sparse.csgraph.breadth_first_order`: level by level, each in the order in which a queue has it."""
    rows, start = _graph(csgraph), operator.index(i_start)
    if not directed or not 0 <= start < rows.num_rows:
        raise Unsupported("edges in both directions, or what SciPy refuses")
    reached = creation.full((rows.num_rows,), np.iinfo(np.int64).max, INT64)
    reached[start] = -1
    level, base = types.from_host(np.array([start])), 0
    levels, before = [level], []
    while True:
        lengths = taken(rows.indptr, level + 1) - taken(rows.indptr, level)
        indptr = _rows.pointers(lengths, rows.indptr.dtype)
        count = int(indptr[-1])
        if not count:
            break
        ends, _ = perform_on_device(ops.PICK_ROWS, (indptr, level, rows.indptr, rows.indices, rows.indices), (count,))
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


def _distances(csgraph: Any, directed: bool, indices: Any, unweighted: bool) -> Any:
    """Return the distances from some vertices to all, by rounds of relaxation until nothing changes."""
    starts = np.asarray(indices) if indices is not None else None
    if starts is None or starts.dtype.kind not in "iu" or starts.ndim > 1 or not 0 < starts.size <= MAX_SOURCES:
        raise Unsupported("distances from very many vertices, or what SciPy refuses")
    sides = [_graph(csgraph, is_transposed=True)]
    if not directed:
        sides.append(_graph(csgraph))
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
    found = [_from_one(sides, n, int(start) % n) for start in starts.reshape(-1)]
    return found[0] if not starts.ndim else dispatch.functions[np.stack](found)


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
    """See `scipy.sparse.csgraph.bellman_ford`; from few vertices, without negative weights and predecessors."""
    if return_predecessors:
        raise Unsupported("predecessors")
    return _distances(csgraph, directed, indices, unweighted)


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
    if return_predecessors or min_only or limit != np.inf:
        raise Unsupported("predecessors, or a limit")
    return _distances(csgraph, directed, indices, unweighted)


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
    if return_predecessors or method not in ("auto", "D", "BF"):
        raise Unsupported("predecessors, or all pairs")
    return _distances(csgraph, directed, indices, unweighted)


__all__ = ["bellman_ford", "breadth_first_order", "connected_components", "dijkstra", "shortest_path"]
