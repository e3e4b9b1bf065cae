"""Nested dissection of the graph of a matrix, and what its elimination fills in: on the host, of patterns alone.

Vertices are cut by the middle one of the levels in which a breadth-first search from a vertex far outside reaches them;
what is left falls apart, and each part is cut again. All parts of a depth are searched at once, from one more vertex
that has edges to where each begins. The vertices of a cut, or of a part that is small enough, are a *front*: they are
eliminated together, after all fronts below. Its *boundary* are the vertices of fronts above that the elimination joins.

Source: A. George, Nested dissection of a regular finite element mesh, SIAM J. Numer. Anal. 10, 1973; A. George and
J. Liu, An automatic nested dissection algorithm for irregular finite element problems, SIAM J. Numer. Anal. 15, 1978.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import breadth_first_order, connected_components

from oxinp._core.lazy.expr import Unsupported

LEAF = 64
"""Vertices of a part that is not cut any more."""
MAX_LEVELS = 20_000
"""Levels of a search, and of all parts together per vertex: more have graphs that are long and thin."""

Host = np.ndarray[Any, Any]


class Fronts(NamedTuple):
    """What is eliminated together; fronts are numbered from the last one on, those of a depth in a row.

    Attributes
    ----------
    front_of : numpy.ndarray, (n,)
        Of each vertex.
    parents : numpy.ndarray, (fronts,)
        The front above, -1 where there is none.
    starts : numpy.ndarray, (depths + 1,)
        The first front of each depth.
    """

    front_of: Host
    parents: Host
    starts: Host


def dissect(indptr: Host, indices: Host, *, narrowest: int = 0) -> Fronts:
    """Return the fronts of a symmetric pattern without a diagonal.

    Parameters
    ----------
    indptr, indices : numpy.ndarray
        Of the pattern's rows.
    narrowest : int
        The least number of vertices of the first cut.

    Raises
    ------
    Unsupported
        The graph is long and thin, or its first cut is: the host eliminates it fast.
    """
    n = indptr.size - 1
    front_of, above = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    parents, starts, left = [np.zeros(0, np.int64)], [0], np.arange(n)
    graph = scipy.sparse.csr_array((np.ones(indices.size), indices, indptr), shape=(n, n))
    while left.size:
        count, labels = connected_components(graph, directed=False)
        firsts = np.full(count, -1, np.int64)
        firsts[labels[::-1]] = np.arange(left.size)[::-1]
        is_in_front = _cut(graph, labels, firsts)
        if len(starts) == 1 and is_in_front.sum() < narrowest:
            raise Unsupported("a graph that a few vertices cut in halves")
        numbers = starts[-1] + labels
        front_of[left[is_in_front]] = numbers[is_in_front]
        parents.append(above[left[firsts]])
        starts.append(starts[-1] + count)
        rest = np.flatnonzero(~is_in_front)
        above[left[rest]] = numbers[rest]
        graph, left = graph[rest][:, rest], left[rest]
    return Fronts(front_of, np.concatenate(parents), np.array(starts))


def _cut(graph: Any, labels: Host, firsts: Host) -> Host:
    """Return which vertices are in their parts' fronts: all of small parts, those that cut the others in halves."""
    sizes = np.bincount(labels)
    is_cut = sizes > LEAF
    if not is_cut.any():
        return np.ones(labels.size, bool)
    _, order = _levels(graph, firsts[is_cut])
    ends = np.full(sizes.size, -1, np.int64)
    ends[labels[order]] = order  # the last one of each part
    levels, _ = _levels(graph, ends[is_cut])
    num_levels = int(levels.max()) + 1
    if num_levels * sizes.size > 64 * (labels.size + MAX_LEVELS):
        raise Unsupported("parts that are long and thin")
    counts = np.bincount(labels * num_levels + np.maximum(levels, 0), minlength=num_levels * sizes.size)
    through = counts.reshape(-1, num_levels).cumsum(1)
    last = (through < sizes[:, None]).sum(1)
    middle = np.minimum((2 * through < sizes[:, None]).sum(1), last - 1)
    is_cut &= last > 1
    at = middle[labels]
    rows = np.repeat(np.arange(labels.size), np.diff(graph.indptr))
    is_across = (levels[rows] == at[rows]) & (levels[graph.indices] > levels[rows])
    is_in_front = ~is_cut[labels]
    ends_across = rows[is_across]
    is_in_front[ends_across[is_cut[labels[ends_across]]]] = True
    return is_in_front


def _levels(graph: Any, roots: Host) -> tuple[Host, Host]:
    """Return the distance of each vertex from the root of its part, -1 if there is none; and the order of a search."""
    n = graph.shape[0]
    indptr = np.append(graph.indptr, graph.indptr[-1] + roots.size)
    indices = np.append(graph.indices, roots.astype(graph.indices.dtype))
    joined = scipy.sparse.csr_array((np.ones(indices.size), indices, indptr), shape=(n + 1, n + 1))
    order, before = breadth_first_order(joined, n)
    places = np.empty(n + 1, np.int64)
    places[order] = np.arange(order.size)
    found_from = places[before[order[1:]]]  # ascending
    bounds = [0, 1]
    while bounds[-1] < order.size:
        if len(bounds) > MAX_LEVELS:
            raise Unsupported("a graph that is long and thin")
        bounds.append(1 + int(np.searchsorted(found_from, bounds[-1])))
    levels = np.full(n + 1, -1, np.int64)
    levels[order] = np.repeat(np.arange(-1, len(bounds) - 2), np.diff(bounds))
    return levels[:n], order[1:]


class Boundaries(NamedTuple):
    """The boundaries of all fronts, as ascending keys: the front times n, plus the vertex."""

    keys: Host
    starts: Host

    @property
    def sizes(self) -> Host:
        """How many vertices each has."""
        return np.diff(self.starts)


def boundaries(fronts: Fronts, indptr: Host, indices: Host) -> Boundaries:
    """Return what elimination joins the fronts to, by the pattern and the boundaries of the fronts below."""
    front_of, parents, starts = fronts
    n = front_of.size
    from_ = np.repeat(front_of, np.diff(indptr))
    is_up = front_of[indices] < from_
    keys = np.unique(from_[is_up] * n + indices[is_up])
    found: list[Host] = []
    below = keys[:0]
    for first, last in zip(starts[-2::-1], starts[:0:-1], strict=True):
        begin, end = np.searchsorted(keys, (first * n, last * n))
        owners, vertices = parents[below // n], below % n
        is_kept = front_of[vertices] != owners
        below = np.unique(np.concatenate([keys[begin:end], (owners * n + vertices)[is_kept]]))
        found.append(below)
    every = np.concatenate(found[::-1])
    return Boundaries(every, np.searchsorted(every, np.arange(parents.size + 1) * n))


__all__ = ["Boundaries", "Fronts", "boundaries", "dissect"]
