"""Colors of vertices, which SciPy has not."""

from __future__ import annotations

from typing import Any

from oxinp import _runtime
from oxinp._core.memory.dtypes import BOOL
from oxinp._core.ops import creation, graph
from oxinp._core.ops.perform import perform_on_device
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.table import ANY
from oxinp._driver import errors
from oxinp.sparse import _compressed, _rows
from oxinp.sparse._base import COMPRESSED, as_ours, is_ours
from oxinp.sparse._rows import INT32

ROUNDS_PER_LOOK = (4, 8, 16, 32)
"""Rounds between looks at whether all vertices have a color, the last again and again."""


def greedy_coloring(csgraph: Any) -> Any:
    """Return colors of the vertices of a graph of which no two neighbors have the same.

    Parameters
    ----------
    csgraph : sparse array or matrix, (n, n)
        An element is an edge, whatever its value and its direction; those in the diagonal do not count.

    Returns
    -------
    ndarray, (n,), int32
        Colors, from 0 on, at most one more than a vertex has neighbors.

    Raises
    ------
    TypeError, ValueError
        The graph is not sparse, or not square.
    NotSupported
        There is no device.

    Notes
    -----
    Vertices take the least color that none of their neighbors has, one after the other in an order that looks random
    and depends on nothing but their numbers: the same colors every time. On the device all go on at a time that have
    not to wait for a neighbor; a graph of n vertices with few neighbors each takes about log n rounds.

    Source: M. Jones and P. Plassmann, A parallel graph coloring heuristic, SIAM J. Sci. Comput. 14, 1993.

    Examples
    --------
    >>> import numpy as np
    >>> from oxinp import sparse
    >>> ring = np.roll(np.eye(6), 1, axis=0)
    >>> colors = sparse.csgraph.greedy_coloring(sparse.csr_array(ring))
    >>> bool((colors != np.roll(colors, 1)).all()), int(colors.max()) < 3
    (True, True)
    """
    if _runtime.current() is None:
        raise errors.NotSupported(f"coloring needs a GPU: {_runtime.why_host()}")
    csgraph = as_ours(csgraph)
    if not is_ours(csgraph):
        raise TypeError("a sparse array or matrix is needed")
    if csgraph.ndim != 2 or csgraph.shape[0] != csgraph.shape[1] or csgraph.shape[0] > _rows.MAX_INT32:
        raise ValueError(f"a graph has as many rows as columns, not shape {csgraph.shape}")
    if not csgraph.nnz:
        return creation.zeros((csgraph.shape[0],), INT32)
    rows = _compressed.canonical_rows(csgraph if csgraph.format in COMPRESSED else csgraph.tocsr())
    edges = rows._replace(data=creation.ones((rows.indices.size,), BOOL))
    edges = _rows.combined(edges, _rows.transposed(edges), "add")
    priorities, colors = _rows.scrambled(edges.num_rows), creation.full((edges.num_rows,), -1, INT32)
    looks = list(ROUNDS_PER_LOOK)
    while True:
        for _ in range(looks[0]):
            colors = perform_on_device(graph.COLOR, (edges.indptr, edges.indices, priorities, colors))
        if not bool(reduce(ANY, colors < 0)):
            return colors
        looks = looks[1:] or looks


__all__ = ["greedy_coloring"]
