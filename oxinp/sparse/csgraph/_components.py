"""Components of graphs on the device, weak and strong."""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._api.fronts import implements
from oxinp._core.array import dispatch
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.ops import creation, graph
from oxinp._core.ops.perform import perform_on_device
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.scan import accumulate
from oxinp._core.reduction.table import ANY, CUMSUM
from oxinp.sparse._rows import INT32, Rows, taken
from oxinp.sparse.csgraph._graphs import checked_rows

NONE = np.int32(np.iinfo(np.int32).max)
"""Above every vertex."""
MAX_ROUNDS = 2000
"""Passes over a graph after which strong components are left to SciPy, whose search takes as long on any graph."""


@implements("scipy.sparse.csgraph.connected_components")
def connected_components(
    csgraph: Any, directed: bool = True, connection: str = "weak", return_labels: bool = True
) -> Any:
    """See `scipy.sparse.csgraph.connected_components`; components are numbered by their first vertices."""
    kind = str(connection).lower()
    if kind not in ("weak", "strong"):
        raise Unsupported("what SciPy refuses")
    rows = checked_rows(csgraph)
    is_strong = directed and kind == "strong"
    roots = _strong(rows, checked_rows(csgraph, is_transposed=True)) if is_strong else _weak(rows)
    numbers = accumulate(CUMSUM, roots == _vertices(rows), 0, INT32)
    count = int(numbers[-1])
    return (count, taken(numbers, roots) - np.int32(1)) if return_labels else count


def _vertices(rows: Rows) -> Any:
    return creation.arange(0, rows.num_rows, 1, INT32)


def _weak(rows: Rows) -> Any:
    """Return of every vertex the first one of its component."""
    roots, has_changed = _vertices(rows), True
    while has_changed:
        roots, changed = perform_on_device(graph.HOOK, (rows.indptr, rows.indices, roots))
        has_changed = bool(int(changed[0]))
    return roots


class _Rounds:
    """Counts passes over a graph."""

    def __init__(self) -> None:
        self._count = 0

    def pass_on(self) -> None:
        """Count one.

        Raises
        ------
        Unsupported
            There have been too many.
        """
        self._count += 1
        if self._count > MAX_ROUNDS:
            raise Unsupported("strong components along very long paths")


def _strong(rows: Rows, back: Rows) -> Any:
    """Return of every vertex the first one of its strong component.

    Every vertex takes the color of the first one that reaches it; those of a color that reach the vertex which it is
    named after are its component, which is left out from then on. What nobody reaches, or what reaches nobody, is a
    component of its own at once.

    Source: S. Orzan, On distributed verification and verified distribution, 2004 (coloring), with the trimming of W.
    McLendon et al., Finding strongly connected components in distributed graphs, J. Parallel Distrib. Comput. 65, 2005.
    """
    where, rounds, vertices = dispatch.functions[np.where], _Rounds(), _vertices(rows)
    found = where(vertices < 0, vertices, NONE)
    while True:
        found = _trimmed(rows, back, found, rounds)
        is_open = found == NONE
        if not bool(reduce(ANY, is_open)):
            return found
        colors = where(is_open, vertices, NONE)
        while True:
            rounds.pass_on()
            after = where(is_open, _least(back, colors), NONE)
            has_changed = bool(reduce(ANY, after != colors))
            colors = after
            if not has_changed:
                break
        marked = is_open & (colors == vertices)
        while True:
            rounds.pass_on()
            after = perform_on_device(graph.REACH, (rows.indptr, rows.indices, colors, marked)) & is_open
            has_changed = bool(reduce(ANY, after != marked))
            marked = after
            if not has_changed:
                break
        found = where(marked, colors, found)


def _trimmed(rows: Rows, back: Rows, found: Any, rounds: _Rounds) -> Any:
    """Return the components with those vertices that have no open neighbour on one side."""
    where, vertices = dispatch.functions[np.where], _vertices(rows)
    while True:
        rounds.pass_on()
        is_open = found == NONE
        is_alone = is_open & ~(_names_open(rows, is_open) & _names_open(back, is_open))
        if not bool(reduce(ANY, is_alone)):
            return found
        found = where(is_alone, vertices, found)


def _names_open(rows: Rows, is_open: Any) -> Any:
    """Return whether each row names an open vertex."""
    return _least(rows, dispatch.functions[np.where](is_open, np.int32(0), NONE), has_own=False) == 0


def _least(rows: Rows, keys: Any, *, has_own: bool = True) -> Any:
    return perform_on_device(graph.LEAST, (rows.indptr, rows.indices, keys), (has_own,))


__all__ = ["connected_components"]
