"""Where everything lies when a matrix is eliminated front by front: groups of fronts of like sizes, padded to one size.

A front is a dense matrix: its vertices first, then its boundary. The fronts of a depth are cut into groups, whose
fronts are padded: vertices that are not there have ones on the diagonal, those of boundaries zeros. What a front gets
from the ones below is looked up from its side: which front is its first one below, its second one, ..., and where each
of its vertices is in that one's boundary. So sums have one order, and no two threads write to one place.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from oxinp._core.lazy.expr import Unsupported
from oxinp.sparse.linalg._dissection import Boundaries, Fronts

GROWTH = 1.3
"""Sizes that fronts are padded to: each is so many times the one before."""
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
    work = 2 * sizes * (sizes**2 + sizes * widths + widths**2)
    return int(((sizes + widths) ** 2).sum()), float(work.sum())


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
        self.order = np.argsort(fronts.front_of, kind="stable")
        sizes = np.bincount(fronts.front_of, minlength=fronts.parents.size)
        self.first = np.concatenate([[0], np.cumsum(sizes)])
        self.local = np.empty(n, np.int64)
        self.local[self.order] = np.arange(n) - np.repeat(self.first[:-1], sizes)
        self.sizes, self.widths = sizes, edges.sizes
        self.padded_sizes, self.padded_widths = _padded(sizes), _padded(self.widths)
        self.extents = self.padded_sizes + self.padded_widths
        if (self.extents**2).sum() > MAX_ENTRIES:
            raise Unsupported("fronts without room")
        self.matrix_base, self.row_base = (np.zeros(sizes.size, np.int64) for _ in range(2))
        self._find_owners(indptr, indices)

    def _find_owners(self, indptr: Host, indices: Host) -> None:
        """Find for each element of the matrix its front, and where it is there; sorted by fronts."""
        front_of = self.fronts.front_of
        rows = np.repeat(np.arange(self.n), np.diff(indptr))
        owner = np.maximum(front_of[rows], front_of[indices])
        places = [self._place(owner, each) for each in (rows, indices)]
        self.sources = np.argsort(owner, kind="stable")
        self.offsets = (places[0] * self.extents[owner] + places[1])[self.sources]
        self.element_starts = np.searchsorted(owner[self.sources], np.arange(self.sizes.size + 1))

    def _place(self, owner: Host, vertices: Host) -> Host:
        """Return where vertices are in the fronts that have them, or have them in their boundaries."""
        keys, starts = self.edges
        found = self.local[vertices]
        others = np.flatnonzero(self.fronts.front_of[vertices] != owner)
        fronts = owner[others]
        ranks = np.searchsorted(keys, fronts * self.n + vertices[others]) - starts[fronts]
        found[others] = self.padded_sizes[fronts] + ranks
        return found

    def depths(self) -> list[list[Group]]:
        """Return the groups of each depth, the lowest first."""
        starts = self.fronts.starts
        made = []
        for first, last in zip(starts[-2::-1], starts[:0:-1], strict=True):
            shapes = self.padded_sizes[first:last] << 32 | self.padded_widths[first:last]
            groups, base, row_base = [], 0, 0
            for shape in np.unique(shapes):
                members = first + np.flatnonzero(shapes == shape)
                groups.append(self._group(members, int(shape >> 32), int(shape & 0xFFFFFFFF)))
                width = groups[-1].width
                self.matrix_base[members] = base + np.arange(members.size) * width**2
                self.row_base[members] = row_base + np.arange(members.size) * width
                base, row_base = base + members.size * width**2, row_base + members.size * width
            made.append(groups)
        return made

    def _group(self, members: Host, size: int, width: int) -> Group:
        numbers = np.full(self.sizes.size, -1, np.int64)
        numbers[members] = np.arange(members.size)
        extent = size + width
        which, places = _runs(self.element_starts, members)
        targets = [which * extent**2 + self.offsets[places]]
        sources = [self.sources[places]]
        is_missing = np.arange(size) >= self.sizes[members][:, None]
        missing, at = np.nonzero(is_missing)
        targets.append(missing * extent**2 + at * (extent + 1))
        sources.append(np.full(missing.size, self.sources.size))
        own = np.empty((members.size, size), np.int64)
        own[is_missing] = self.n + 1 + np.arange(missing.size)
        which, places = _runs(self.first, members)
        own[which, self.local[self.order[places]]] = self.order[places]
        boundary = np.full((members.size, width), self.n)
        which, places = _runs(self.edges.starts, members)
        boundary[which, places - self.edges.starts[members[which]]] = self.edges.keys[places] % self.n
        below = self._below(members, numbers, extent)
        elements = np.concatenate(targets), np.concatenate(sources)
        return Group(members.size, size, width, *elements, below, own, boundary, missing.size)

    def _below(self, members: Host, numbers: Host, extent: int) -> list[Below]:
        """Return what fronts get from their first front below, their second one, and so on."""
        parents = self.fronts.parents
        children = np.flatnonzero((parents >= 0) & (numbers[parents] >= 0) & (self.widths > 0))
        children = children[np.argsort(parents[children], kind="stable")]
        owners = parents[children]
        ranks = np.arange(children.size) - np.searchsorted(owners, owners)
        if children.size and ranks.max() >= MAX_BELOW:
            raise Unsupported("a front with many below")
        made = []
        for rank in range(int(ranks.max(initial=-1)) + 1):
            chosen = children[ranks == rank]
            at = numbers[parents[chosen]]
            bases, row_bases, extents = (np.zeros(members.size, np.int64) for _ in range(3))
            bases[at], row_bases[at] = self.matrix_base[chosen], self.row_base[chosen]
            extents[at] = self.padded_widths[chosen]
            places = np.full((members.size, extent), -1, np.int64)
            which, keys = _runs(self.edges.starts, chosen)
            owner = parents[chosen[which]]
            where = self._place(owner, self.edges.keys[keys] % self.n)
            places[numbers[owner], where] = keys - self.edges.starts[chosen[which]]
            made.append(Below(bases, row_bases, extents, places))
        return made


def _padded(sizes: Host) -> Host:
    """Return the sizes that are padded to: 0, 4, and so on, each `GROWTH` times the one before, in fours."""
    ladder = [0, 4]
    while ladder[-1] < sizes.max(initial=0):
        ladder.append(max(ladder[-1] + 4, int(ladder[-1] * GROWTH) // 4 * 4))
    steps = np.array(ladder)
    found: Host = steps[np.searchsorted(steps, sizes)]
    return found


def _runs(starts: Host, chosen: Host) -> tuple[Host, Host]:
    """Return the numbers of what some runs of a list have, and before, which of the chosen runs each is in."""
    lengths = starts[chosen + 1] - starts[chosen]
    which = np.repeat(np.arange(chosen.size), lengths)
    ends = np.cumsum(lengths)
    return which, np.arange(which.size) - np.repeat(ends - lengths, lengths) + np.repeat(starts[chosen], lengths)


__all__ = ["Below", "Group", "arrange", "entries"]
