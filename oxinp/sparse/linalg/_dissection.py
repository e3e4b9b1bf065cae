"""Nested dissection of the graph of a matrix, and what its elimination fills in: on the host, of patterns alone.

Vertices get coordinates: their distances from three vertices that lie far apart, *landmarks*, and half of these
distances' sums and differences. Along an edge a coordinate changes by one at most. So in any part of the graph the
vertices at which a coordinate has some value cut those below it from those above it, and no part has to be searched
again. Each part is cut where a coordinate has few vertices at one value and many on either side. Parts that coordinates
cut badly get landmarks of their own, component by component.

The vertices of a cut, or of a part that is small enough, are a *front*: they are eliminated together, after all fronts
below. Its *boundary* are the vertices of fronts above that the elimination joins.

Source: A. George, Nested dissection of a regular finite element mesh, SIAM J. Numer. Anal. 10, 1973; A. George and
J. Liu, An automatic nested dissection algorithm for irregular finite element problems, SIAM J. Numer. Anal. 15, 1978
(distances from one vertex, for each part).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import breadth_first_order, connected_components

from oxinp._core.lazy.expr import Unsupported

LEAF = 64
"""Vertices of a part that is not cut any more."""
MAX_LEVELS = 20_000
"""Levels of a search: more have graphs that are long and thin."""
MAX_VALUES = 64
"""Values that a coordinate has in all parts together, per vertex: more have parts that are long and thin."""
MAX_SHARE = 1 / 3
"""Vertices of a part that its cut may take before the part gets landmarks of its own."""

MIN_PARTS = 128
"""Parts from which on coordinates that cut none of them best are not looked at any more."""
COORDINATES = (*((i, i, 0) for i in range(3)), *((i, j, sign) for i, j in ((0, 1), (0, 2), (1, 2)) for sign in (1, -1)))
"""Of each coordinate the two landmarks, and what the second distance is multiplied by before half of both is taken."""

Host = np.ndarray[Any, Any]


class Fronts(NamedTuple):
    """What is eliminated together; fronts are numbered from the last one on, those of a depth in a row.

    Attributes
    ----------
    front_of : numpy.ndarray, (n,)
        Of each vertex.
    parents : numpy.ndarray, (fronts,)
        The front above, one depth above; -1 where there is none.
    starts : numpy.ndarray, (depths + 1,)
        The first front of each depth.
    """

    front_of: Host
    parents: Host
    starts: Host


class Parts(NamedTuple):
    """Parts of a graph.

    Attributes
    ----------
    vertices : numpy.ndarray
        Those of the first part, of the second one, and so on.
    sizes : numpy.ndarray, (parts,)
    above : numpy.ndarray, (parts,)
        The front that cut each part off last, -1 where there is none.
    """

    vertices: Host
    sizes: Host
    above: Host

    @property
    def starts(self) -> Host:
        """Where the vertices of each part begin."""
        return np.cumsum(self.sizes) - self.sizes

    def over(self, of_parts: Host) -> Host:
        """Return what is known of parts, for each of their vertices."""
        return np.repeat(of_parts, self.sizes)

    def chosen(self, which: Host) -> Parts:
        """Return some of the parts."""
        return self if which.all() else Parts(self.vertices[self.over(which)], self.sizes[which], self.above[which])


class Cuts(NamedTuple):
    """Where parts are cut: the number of the coordinate and its value, how many vertices have it, and how bad that is.

    What is infinitely bad cuts nothing off.
    """

    coordinate: Host
    value: Host
    count: Host
    badness: Host


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
    growing = _Growing(n)
    graph = scipy.sparse.csr_array((np.ones(indices.size), indices, indptr), shape=(n, n))
    names, above = np.arange(n), np.full(n, -1, np.int64)
    while names.size:
        rest = _cut(graph, names, above, growing, narrowest)
        order = np.argsort(rest.vertices)
        vertices, above = rest.vertices[order], rest.over(rest.above)[order]
        graph, names = graph[vertices][:, vertices], names[vertices]
        narrowest = 0
    return growing.fronts()


class _Growing:
    """Fronts, numbered as they are found."""

    def __init__(self, n: int) -> None:
        self.front_of = np.full(n, -1, np.int64)
        self.parents = np.zeros(0, np.int64)

    def add(self, vertices: Host, owners: Host, above: Host) -> Host:
        """Make fronts of vertices by their owners; return each owner's front, or what is above it if it has none."""
        is_used = np.bincount(owners, minlength=above.size) > 0
        numbers = np.where(is_used, self.parents.size + np.cumsum(is_used) - 1, above)
        self.parents = np.concatenate([self.parents, above[is_used]])
        self.front_of[vertices] = numbers[owners]
        return numbers

    def add_parts(self, names: Host, parts: Parts) -> None:
        """Make a front of each part."""
        self.add(names[parts.vertices], parts.over(np.arange(parts.sizes.size)), parts.above)

    def fronts(self) -> Fronts:
        """Return the fronts, numbered by their depths."""
        depths, above = np.zeros(self.parents.size, np.int64), self.parents
        while (is_below := above >= 0).any():
            depths += is_below
            above = np.where(is_below, self.parents[above], -1)
        order = np.argsort(depths, kind="stable")
        numbers = np.empty(order.size + 1, np.int64)
        numbers[order], numbers[-1] = np.arange(order.size), -1
        starts = np.searchsorted(depths[order], np.arange(depths.max(initial=-1) + 2))
        return Fronts(numbers[self.front_of], numbers[self.parents[order]], starts)


def _cut(graph: Any, names: Host, above: Host, growing: _Growing, narrowest: int) -> Parts:
    """Cut the components of a graph into fronts; return the parts that are to get landmarks of their own."""
    parts = _components(graph, above)
    landmarks, numbers, later = None, list(range(len(COORDINATES))), []
    while parts.sizes.size:
        is_large = parts.sizes > LEAF
        growing.add_parts(names, parts.chosen(~is_large))
        parts = parts.chosen(is_large)
        is_first = landmarks is None
        if is_first:
            landmarks = _landmarks(graph, parts)
        distances = np.take(landmarks, parts.vertices, axis=1)
        cuts = _best_cuts(distances, numbers, parts)
        is_cut = np.isfinite(cuts.badness)
        if is_first:
            growing.add_parts(names, parts.chosen(~is_cut))
        else:
            is_cut &= cuts.count <= MAX_SHARE * parts.sizes
            later.append(parts.chosen(~is_cut))
        sides = _sides(distances, parts, cuts)[parts.over(is_cut)]
        if is_cut.sum() >= MIN_PARTS:
            numbers = np.unique(cuts.coordinate[is_cut]).tolist()
        parts = _split(graph, names, parts.chosen(is_cut), sides, growing)
        if is_first and (growing.front_of >= 0).sum() < narrowest:
            raise Unsupported("a graph that a few vertices cut in halves")
    none = np.zeros(0, np.int64)
    return Parts(*map(np.concatenate, zip(Parts(none, none, none), *later, strict=True)))


def _components(graph: Any, above: Host) -> Parts:
    """Return the components of a graph, of whose vertices the fronts above are known."""
    _, labels = connected_components(graph, directed=False)
    sizes = np.bincount(labels)
    vertices = order_of(labels, sizes.size)
    return Parts(vertices, sizes, above[vertices[np.cumsum(sizes) - sizes]])


# -- coordinates -------------------------------------------------------------------------------------------------------


def _landmarks(graph: Any, components: Parts) -> Host:
    """Return the distances of vertices from three of their component that lie far apart, as rows."""
    vertices, starts = components.vertices, components.starts
    if not starts.size:
        return np.zeros((3, graph.shape[0]), np.int32)
    search = _Search(graph, starts.size)

    def farthest(distances: Host) -> Host:
        """Return the first vertex of each component that lies farthest."""
        found = distances[vertices]
        places = np.flatnonzero(found == components.over(np.maximum.reduceat(found, starts)))
        return vertices[places[np.searchsorted(places, starts)]]

    first = search.distances(farthest(search.distances(vertices[starts])))
    nearest = np.minimum(first, search.distances(farthest(first)))  # of the first one and the one opposite
    second = search.distances(farthest(nearest))
    third = search.distances(farthest(np.minimum(nearest, second)))
    return np.stack([first, second, third])


class _Search:
    """Breadth-first searches from a vertex of each component: from one more vertex, which has edges to them."""

    def __init__(self, graph: Any, num_roots: int) -> None:
        n = graph.shape[0]
        indptr = np.append(graph.indptr, graph.indptr[-1] + num_roots)
        indices = np.append(graph.indices, np.zeros(num_roots, graph.indices.dtype))
        self._joined = scipy.sparse.csr_array((np.ones(indices.size), indices, indptr), shape=(n + 1, n + 1))

    def distances(self, roots: Host) -> Host:
        """Return the distance of each vertex from the nearest root, -1 where there is none; int32."""
        joined, n = self._joined, self._joined.shape[0] - 1
        joined.indices[joined.indptr[n] :] = roots
        order, before = breadth_first_order(joined, n)
        places = np.empty(n + 1, np.int64)
        places[order] = np.arange(order.size)
        found_from = places[before[order[1:]]]  # ascending
        bounds = [0, 1]
        while bounds[-1] < order.size:
            if len(bounds) > MAX_LEVELS:
                raise Unsupported("a graph that is long and thin")
            bounds.append(1 + int(found_from.searchsorted(bounds[-1])))
        levels = np.full(n + 1, -1, np.int32)
        levels[order] = np.repeat(np.arange(-1, len(bounds) - 2, dtype=np.int32), np.diff(bounds))
        return levels[:n]


def _coordinates(distances: Host, numbers: Iterable[int]) -> Iterator[tuple[int, Host]]:
    """Yield some coordinates of vertices, with their numbers, by their distances from landmarks."""
    for number in numbers:
        first, second, sign = COORDINATES[number]
        yield number, (distances[first] + sign * distances[second]) >> 1 if sign else distances[first]


# -- cuts --------------------------------------------------------------------------------------------------------------


def _best_cuts(distances: Host, numbers: list[int], parts: Parts) -> Cuts:
    """Return the best cut of each part."""
    if not parts.sizes.size:
        none = np.zeros(0, np.int64)
        return Cuts(none, none, none, none)
    found = [_cuts(number, values, parts) for number, values in _coordinates(distances, numbers)]
    best = np.argmin([each.badness for each in found], axis=0)
    return Cuts(*(np.stack(each)[best, np.arange(best.size)] for each in zip(*found, strict=True)))


def _cuts(number: int, values: Host, parts: Parts) -> Cuts:
    """Return where a coordinate cuts each part best: at few vertices, with many on either side."""
    starts = parts.starts
    lowest, highest = (each.reduceat(values, starts) for each in (np.minimum, np.maximum))
    extents = (highest - lowest + 1).astype(np.int64)  # a counter for each value that may be there
    ends = np.cumsum(extents)
    if ends[-1] > MAX_VALUES * (values.size + MAX_LEVELS):
        raise Unsupported("parts that are long and thin")
    bases = ends - extents
    counts = np.bincount(values + parts.over(bases - lowest), minlength=int(ends[-1]))
    through = np.cumsum(counts)
    low, high = through - counts - np.repeat(starts, extents), np.repeat(starts + parts.sizes, extents) - through
    smaller, larger = np.minimum(low, high), np.maximum(low, high)
    badness = np.full(counts.size, np.inf)
    np.divide(counts, smaller * np.sqrt(larger), out=badness, where=(smaller > 0) & (counts > 0))
    least = np.minimum.reduceat(badness, bases)
    places = np.flatnonzero(badness == np.repeat(least, extents))
    places = places[np.searchsorted(places, bases)]
    return Cuts(np.full(least.size, number), lowest + places - bases, counts[places], least)


def _sides(distances: Host, parts: Parts, cuts: Cuts) -> Host:
    """Return for each vertex whether it is below the cut of its part, -1, above it, 1, or on it, 0."""
    sides = np.empty(parts.vertices.size, np.int8)
    at = parts.over(cuts.value)
    for number, values in _coordinates(distances, np.unique(cuts.coordinate)):
        is_cut_by = parts.over(cuts.coordinate == number)
        np.copyto(sides, np.sign(values - at), where=is_cut_by, casting="unsafe")
    return sides


def _split(graph: Any, names: Host, parts: Parts, sides: Host, growing: _Growing) -> Parts:
    """Make fronts of the vertices on the cuts that have edges to the other side; return what they leave."""
    part = parts.over(np.arange(parts.sizes.size))
    places = np.full(graph.shape[0], -2, np.int64)  # -2 elsewhere, which no side of a part is
    places[parts.vertices] = 3 * part + sides
    on_cut = np.flatnonzero(sides == 0)
    vertices = parts.vertices[on_cut]
    which, edges = runs(graph.indptr, vertices)
    is_across = places[graph.indices[edges]] == places[vertices[which]] + 1
    is_in_front = np.zeros(vertices.size, bool)
    is_in_front[which[is_across]] = True
    sides[on_cut[~is_in_front]] = -1
    on_cut = on_cut[is_in_front]
    above = growing.add(names[parts.vertices[on_cut]], part[on_cut], parts.above)
    halves = 2 * part + (sides > 0)
    rest = np.flatnonzero(sides)
    halves, num_halves = halves[rest], 2 * parts.sizes.size
    rest = rest[order_of(halves, num_halves)]
    sizes = np.bincount(halves, minlength=num_halves)
    return Parts(parts.vertices[rest], sizes, np.repeat(above, 2))


def order_of(keys: Host, count: int) -> Host:
    """Return the stable order of keys below a number: NumPy sorts by radix where 16 bits hold them."""
    return np.argsort(keys.astype(np.min_scalar_type(count)), kind="stable")


def runs(starts: Host, chosen: Host) -> tuple[Host, Host]:
    """Return the numbers of what some runs of a list have, and before, which of the chosen runs each is in."""
    lengths = starts[chosen + 1] - starts[chosen]
    which = np.repeat(np.arange(chosen.size), lengths)
    return which, np.arange(which.size) + np.repeat(starts[chosen] - np.cumsum(lengths) + lengths, lengths)


# -- what is filled in -------------------------------------------------------------------------------------------------


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
    keys = _distinct(from_[is_up] * n + indices[is_up])
    found: list[Host] = []
    below = keys[:0]
    for first, last in zip(starts[-2::-1], starts[:0:-1], strict=True):
        begin, end = np.searchsorted(keys, (first * n, last * n))
        owners, vertices = parents[below // n], below % n
        is_kept = front_of[vertices] != owners
        below = _distinct(np.concatenate([keys[begin:end], (owners * n + vertices)[is_kept]]))
        found.append(below)
    every = np.concatenate(found[::-1])
    return Boundaries(every, np.searchsorted(every, np.arange(parents.size + 1) * n))


def _distinct(keys: Host) -> Host:
    """Return keys once each, ascending: by sorting, which is faster than `numpy.unique` by hashing."""
    keys = np.sort(keys)
    return keys[np.concatenate([[True], keys[1:] != keys[:-1]])] if keys.size else keys


__all__ = ["Boundaries", "Fronts", "boundaries", "dissect", "order_of", "runs"]
