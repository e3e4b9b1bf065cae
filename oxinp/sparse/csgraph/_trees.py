"""Spanning trees of graphs on the device."""

from __future__ import annotations

from typing import Any

from oxinp._api.fronts import implements
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.manipulation.copy import astype
from oxinp._core.memory.dtypes import BOOL, FLOAT64
from oxinp._core.ops import creation, graph, sort
from oxinp._core.ops.perform import perform_on_device
from oxinp.sparse import _rows
from oxinp.sparse._base import as_ours, sibling
from oxinp.sparse._rows import INT32
from oxinp.sparse.csgraph._graphs import checked_rows

MAX_EDGES = 0x7F7F7F7F
"""Ranks below it are what kernels tell from none."""


@implements("scipy.sparse.csgraph.minimum_spanning_tree")
def minimum_spanning_tree(
    csgraph: Any,
    overwrite: bool = False,  # noqa: ARG001 - a permission, of which no use is made
) -> Any:
    """See `scipy.sparse.csgraph.minimum_spanning_tree`; of edges of one weight the first stored is the lighter one."""
    rows = checked_rows(csgraph)
    count = rows.indices.size
    if count >= MAX_EDGES:
        raise Unsupported("more edges than ranks")
    order = sort.argsort(rows.data)
    ranks = creation.empty((count,), INT32)
    ranks[order] = creation.arange(0, count, 1, INT32)
    edges = (rows.indptr, rows.indices, _rows.numbers(rows), ranks, astype(order, rows.indices.dtype))
    roots, entered = creation.arange(0, rows.num_rows, 1, INT32), creation.zeros((count,), BOOL)
    has_changed = True
    while has_changed:
        roots, entered, changed = perform_on_device(graph.SPAN, (*edges, roots, entered))
        has_changed = bool(int(changed[0]))
    weights = astype(rows.data, FLOAT64)
    made = _rows.kept(rows._replace(data=weights), entered & (weights != 0))
    parts = {"data": made.data, "indices": made.indices, "indptr": made.indptr}
    return sibling(as_ours(csgraph), "csr", parts, (rows.num_rows, rows.num_columns))


__all__ = ["minimum_spanning_tree"]
