"""Where everything lies when a matrix is eliminated front by front: groups of fronts of like sizes, padded to one size.

A front is a dense matrix: its vertices first, then its boundary. The fronts of a depth are cut into groups, whose
fronts are padded: vertices that are not there have ones on the diagonal, those of boundaries zeros. Groups are merged
where that costs less than calls for one more. What a front gets from the ones below is looked up from its side: which
front is its first one below, its second one, ..., and where each of its vertices is in that one's boundary. So sums
have one order, and no two threads write to one place.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from oxinp._core.lazy.expr import Unsupported
from oxinp.sparse.linalg._dissection import Boundaries, Fronts, order_of, runs

GROWTH = 1.3
"""Fronts whose sizes differ less than by this factor are in one group."""
ELEMENT_COST = 60
"""Operations that take as long as it takes to assemble and read an element of a front."""
GROUP_COST = 2e9
"""Operations that take as long as the calls for one more group: a millisecond of the host's."""
MAX_ENTRIES = 1 << 30
"""Elements of all fronts."""
MAX_BELOW = 64
"""Fronts right below one."""

Host = np.ndarray[Any, Any]


class Below(NamedTuple):
    """What the fronts of a group get from one front below each: where that is among those of the depth below.

    Attributes
    ----------
    bases, row_bases : numpy.ndarray, (count,)
        Where its matrix of the boundary begins, and its vector; 0 where there is none.
    extents : numpy.ndarray, (count,)
        The rows of that matrix.
    places : numpy.ndarray, (count, size + width)
        Of each vertex of the front, in the boundary of the one below; -1 where it is not there.
    """

    bases: Host
    row_bases: Host
    extents: Host
    places: Host


class Group(NamedTuple):
    """Fronts of one depth, padded to one size.

    Attributes
    ----------
    count, size, width : int
        How many there are, and how many vertices and boundary vertices each one has.
    targets, sources : numpy.ndarray
        Where elements of the matrix go, among those of all fronts, and which ones; one after the last is a one.
    below : list of Below
    own : numpy.ndarray, (count, size)
        The vertices; numbers above n for padding, each once.
    boundary : numpy.ndarray, (count, width)
        Those of the boundary; n for padding.
    num_padded : int
        Vertices that are not there.
    """

    count: int
    size: int
    width: int
    targets: Host
    sources: Host
    below: list[Below]
    own: Host
    boundary: Host
    num_padded: int


def entries(fronts: Fronts, edges: Boundaries) -> tuple[int, float]:
    """Return how many elements all fronts have, and how many operations their elimination takes."""
    sizes = np.bincount(fronts.front_of, minlength=fronts.parents.size).astype(float)
    widths = edges.sizes.astype(float)
    return int(((sizes + widths) ** 2).sum()), float(_work(sizes, widths).sum())


def _work(sizes: Host, widths: Host) -> Host:
    """Return the operations that eliminate fronts: an inverse, and products with what is right of it and below."""
    return 2 * sizes * (sizes**2 + sizes * widths + widths**2)


def arrange(fronts: Fronts, edges: Boundaries, indptr: Host, indices: Host) -> list[list[Group]]:
    """Return the groups of each depth, the lowest first.

    Parameters
    ----------
    fronts, edges
        Of the matrix' pattern and its transpose's.
    indptr, indices : numpy.ndarray
        Of the matrix.

    Raises
    ------
    Unsupported
        There is no room, or a front has too many below.
    """
    return _Arranged(fronts, edges, indptr, indices).depths()


class _Arranged:
    """What is known of all fronts while they are arranged."""

    def __init__(self, fronts: Fronts, edges: Boundaries, indptr: Host, indices: Host) -> None:
        self.fronts, self.edges = fronts, edges
        self.n = n = fronts.front_of.size
        sizes = np.bincount(fronts.front_of, minlength=fronts.parents.size)
        self.order = order_of(fronts.front_of, sizes.size)
        self.first = np.concatenate([[0], np.cumsum(sizes)])
        self.local = np.empty(n, np.int64)
        self.local[self.order] = np.arange(n) - np.repeat(self.first[:-1], sizes)
        self.sizes, self.widths = sizes, edges.sizes
        self.group_of, self.padded_sizes, self.padded_widths = _grouped(sizes, self.widths, fronts.starts)
        self.extents = self.padded_sizes + self.padded_widths
        if (self.extents**2).sum() > MAX_ENTRIES:
            raise Unsupported("fronts without room")
        self.matrix_base, self.row_base, self.number = (np.zeros(sizes.size, np.int64) for _ in range(3))
        self._find_owners(indptr, indices)

    def _find_owners(self, indptr: Host, indices: Host) -> None:
        """Find for each element of the matrix its front, and where it is there; and the elements of each group."""
        front_of, lengths = self.fronts.front_of, np.diff(indptr)
        above = np.repeat(front_of, lengths), front_of[indices]
        self.owner = np.maximum(*above)
        rows = np.repeat(np.arange(self.n), lengths)
        row = self._place(self.owner, rows, above[0] == self.owner)
        column = self._place(self.owner, indices, above[1] == self.owner)
        self.offsets = row * self.extents[self.owner] + column
        groups = self.group_of[self.owner]
        self.sources = np.argsort(groups, kind="stable")  # by radix: groups have 16 bits
        counts = np.bincount(groups, minlength=int(self.group_of.max()) + 1)
        self.element_starts = np.concatenate([[0], np.cumsum(counts)])

    def _place(self, owner: Host, vertices: Host, is_own: Host) -> Host:
        """Return where vertices are in fronts: among the fronts' own, or in their boundaries."""
        keys, starts = self.edges
        found = self.local[vertices]
        others = np.flatnonzero(~is_own)
        fronts = owner[others]
        ranks = np.searchsorted(keys, fronts * self.n + vertices[others]) - starts[fronts]
        found[others] = self.padded_sizes[fronts] + ranks
        return found

    def depths(self) -> list[list[Group]]:
        """Return the groups of each depth, the lowest first."""
        starts = self.fronts.starts
        made = []
        for first, last in zip(starts[-2::-1], starts[:0:-1], strict=True):
            groups, base, row_base = [], 0, 0
            for group in np.unique(self.group_of[first:last]):
                members = first + np.flatnonzero(self.group_of[first:last] == group)
                self.number[members] = np.arange(members.size)
                groups.append(self._group(int(group), members))
                width = groups[-1].width
                self.matrix_base[members] = base + np.arange(members.size) * width**2
                self.row_base[members] = row_base + np.arange(members.size) * width
                base, row_base = base + members.size * width**2, row_base + members.size * width
            made.append(groups)
        return made

    def _group(self, group: int, members: Host) -> Group:
        size, width = (int(each[members[0]]) for each in (self.padded_sizes, self.padded_widths))
        extent = size + width
        elements = self.sources[self.element_starts[group] : self.element_starts[group + 1]]
        targets = [self.number[self.owner[elements]] * extent**2 + self.offsets[elements]]
        sources = [elements]
        is_missing = np.arange(size) >= self.sizes[members][:, None]
        missing, at = np.nonzero(is_missing)
        targets.append(missing * extent**2 + at * (extent + 1))
        sources.append(np.full(missing.size, self.owner.size))
        own = np.empty((members.size, size), np.int64)
        own[is_missing] = self.n + 1 + np.arange(missing.size)
        which, places = runs(self.first, members)
        own[which, self.local[self.order[places]]] = self.order[places]
        boundary = np.full((members.size, width), self.n)
        which, places = runs(self.edges.starts, members)
        boundary[which, places - self.edges.starts[members[which]]] = self.edges.keys[places] % self.n
        below = self._below(group, members, extent)
        elements = np.concatenate(targets), np.concatenate(sources)
        return Group(members.size, size, width, *elements, below, own, boundary, missing.size)

    def _below(self, group: int, members: Host, extent: int) -> list[Below]:
        """Return what fronts get from their first front below, their second one, and so on."""
        parents = self.fronts.parents
        children = np.flatnonzero((parents >= 0) & (self.group_of[parents] == group) & (self.widths > 0))
        children = children[np.argsort(parents[children], kind="stable")]
        owners = parents[children]
        ranks = np.arange(children.size) - np.searchsorted(owners, owners)
        if children.size and ranks.max() >= MAX_BELOW:
            raise Unsupported("a front with many below")
        made = []
        for rank in range(int(ranks.max(initial=-1)) + 1):
            chosen = children[ranks == rank]
            at = self.number[parents[chosen]]
            bases, row_bases, extents = (np.zeros(members.size, np.int64) for _ in range(3))
            bases[at], row_bases[at] = self.matrix_base[chosen], self.row_base[chosen]
            extents[at] = self.padded_widths[chosen]
            places = np.full((members.size, extent), -1, np.int64)
            which, keys = runs(self.edges.starts, chosen)
            owner = parents[chosen[which]]
            vertices = self.edges.keys[keys] % self.n
            where = self._place(owner, vertices, self.fronts.front_of[vertices] == owner)
            places[self.number[owner], where] = keys - self.edges.starts[chosen[which]]
            made.append(Below(bases, row_bases, extents, places))
        return made


def _rungs(sizes: Host) -> Host:
    """Return for each size the next one of a ladder: 0, 4, and so on, each `GROWTH` times the one before, in fours."""
    ladder = [0, 4]
    while ladder[-1] < sizes.max(initial=0):
        ladder.append(max(ladder[-1] + 4, int(ladder[-1] * GROWTH) // 4 * 4))
    steps = np.array(ladder)
    found: Host = steps[np.searchsorted(steps, sizes)]
    return found


def _grouped(sizes: Host, widths: Host, starts: Host) -> tuple[Host, Host, Host]:
    """Return the group of each front, uint16, and the sizes and widths that the fronts are padded to."""
    group_of, padded, num_groups = np.empty(sizes.size, np.uint16), np.empty((2, sizes.size), np.int64), 0
    for first, last in pairwise(starts):
        here = slice(first, last)
        keys = _rungs(sizes[here]) << 32 | _rungs(widths[here])
        shapes, shape_of, counts = np.unique(keys, return_inverse=True, return_counts=True)
        groups = _merged(shapes >> 32, shapes & 0xFFFFFFFF, counts)[shape_of]
        group_of[here] = num_groups + groups
        num_groups += int(groups.max()) + 1
        for found, each in zip(padded, (sizes[here], widths[here]), strict=True):
            largest = np.zeros(shapes.size, np.int64)
            np.maximum.at(largest, groups, each)
            found[here] = (-(-largest // 4) * 4)[groups]
    return group_of, *padded


def _merged(sizes: Host, widths: Host, counts: Host) -> Host:
    """Return for each shape its group: two are merged while that saves anything, first those that save most."""
    group_of = np.arange(sizes.size)
    shapes = np.stack([sizes, widths, counts]).astype(float)

    def cost(size: Host, width: Host, count: Host) -> Host:
        return GROUP_COST + count * (_work(size, width) + ELEMENT_COST * (size + width) ** 2)

    while (k := shapes.shape[1]) > 1:
        first, second = np.triu_indices(k, 1)
        largest = np.maximum(shapes[:2, first], shapes[:2, second])
        alone = cost(*shapes)
        change = cost(*largest, shapes[2, first] + shapes[2, second]) - alone[first] - alone[second]
        best = int(np.argmin(change))
        if change[best] >= 0:
            break
        kept, gone = first[best], second[best]
        shapes[:, kept] = *largest[:, best], shapes[2, kept] + shapes[2, gone]
        shapes = np.delete(shapes, gone, axis=1)
        group_of[group_of == gone] = kept
        group_of -= group_of > gone
    return group_of


__all__ = ["Below", "Group", "arrange", "entries"]
