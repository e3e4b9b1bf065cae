"""Graphs as their functions take them: checked rows."""

from __future__ import annotations

from typing import Any

from oxinp._core.lazy.expr import Unsupported
from oxinp.sparse import _compressed, _rows
from oxinp.sparse._base import as_ours, is_ours, is_small
from oxinp.sparse._rows import Rows


def checked_rows(csgraph: Any, *, is_transposed: bool = False) -> Rows:
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
    rows, _ = _compressed.of_rows(csgraph, is_transposed=is_transposed)
    return rows


__all__ = ["checked_rows"]
