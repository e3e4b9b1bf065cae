"""Views of what is pending: a view of a chain is the chain of views of its leaves, so that nothing is computed before.

A view of a dense result is decoded into what it does to every axis: which axis of the result each of its own follows,
in which steps, and from which index. The same is then done to the leaves' layouts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxinp._core.lazy.calls import Pending
from oxinp._core.lazy.expr import Graph
from oxinp._core.memory.layout import Layout, contiguous_strides, result_layout
from oxinp._core.memory.storage import Leaf

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._core.memory.storage import Storage, Value

MAX_VIEWS = 256
"""Views of a chain that are remembered."""

MAX_VIEWED = 16
"""Views of one pending value that compute their own elements; for the next one all are computed."""

MAX_NODES = 6
"""Operations of a chain that are computed again for a view rather than once before it: more may take longer than that.

What is viewed may be wanted as it is, too, or by several views; a few operations cost less than a pass over memory.
"""

SHARE = 2
"""Of an array's copy parts that are more than one in so many are read from the copy: what is copied is soon written."""

Move = tuple[tuple[tuple[int, int] | None, ...], tuple[int, ...]]
"""Of every axis of a view the axis that it follows and in which steps, or None; the index where that begins."""

_NO_VIEW = object()


def fused_view(storage: Storage, value: Value, layout: Layout) -> Value | None:
    """Return a view of a pending chain's result as a chain of its own; None where it has to be computed first.

    Parameters
    ----------
    storage : Storage
    value : tuple
        Graph, leaves and mask of the chain that it is.
    layout : Layout
        Of the view, inside the memory that the result would have.
    """
    graph, leaves, mask = value
    if len(graph.nodes) > MAX_NODES or _views_of(storage, value) > MAX_VIEWED:
        return None
    for entry in leaves:
        if type(entry) is Pending and entry.call is not None:
            return None
    if graph.views is None:
        graph.views = {}
    known = graph.views.get(layout)
    if known is None:
        if len(graph.views) >= MAX_VIEWS:
            graph.views.clear()
        known = graph.views[layout] = _view(graph, layout) or _NO_VIEW
    if known is _NO_VIEW:
        return None
    viewed, distances = known
    return viewed, tuple([_moved(entry, nbytes) for entry, nbytes in zip(leaves, distances, strict=True)]), mask


def _views_of(storage: Storage, value: Value) -> int:
    """Count one more view of a pending value; return how many have been read."""
    number, count = getattr(storage, "viewed", (0, 0))
    count = count + 1 if number == id(value) else 1
    storage.viewed = id(value), count
    return count


def _moved(entry: Any, nbytes: int | None) -> Any:
    """The leaf some bytes further; None for a scalar."""
    if not nbytes:
        return entry
    leaf = Leaf()
    leaf.ptr = entry.ptr + nbytes  # first, see `chains.entry_at`
    leaf.buffer = entry.buffer
    return leaf


def _is_copy(graph: Graph) -> bool:
    """Whether a chain only copies an array, for somebody who asked for a copy."""
    return len(graph.nodes) == 1 and graph.nodes[0].name == "copy" and not graph.is_copy


def _view(graph: Graph, layout: Layout) -> tuple[Graph, tuple[int | None, ...]] | None:
    """The chain that a view is, and how many bytes its leaves have moved."""
    base = graph.layout
    if layout.dtype != base.dtype or not layout.size or graph.structure.wants_index:
        return None
    if layout.size < base.size < SHARE * layout.size and _is_copy(graph):
        return None
    move = _decode(base, layout)
    change: Callable[[Layout], tuple[tuple[int, ...], int] | None]
    if move is not None:
        found = move

        def change(leaf: Layout) -> tuple[tuple[int, ...], int] | None:
            return _followed(leaf, found)

    elif base.is_contiguous and layout.is_contiguous and layout.size == base.size:

        def change(leaf: Layout) -> tuple[tuple[int, ...], int] | None:
            return _reshaped(leaf, layout.shape)

    else:
        return None
    leaves: list[Any] = []
    distances: list[int | None] = []
    for leaf in graph.leaves:
        if not isinstance(leaf, Layout):
            leaves.append(leaf)
            distances.append(None)
            continue
        changed = change(leaf)
        if changed is None:
            return None
        strides, nbytes = changed
        leaves.append(Layout.at(leaf.dtype, layout.shape, strides, min(leaf.alignment, nbytes & -nbytes or 256) % 256))
        distances.append(nbytes)
    # The order of axes that NumPy's results have that are computed from the view.
    dense = result_layout(base.dtype, layout.shape, [layout])
    return Graph(graph.structure, dense, tuple(leaves)), tuple(distances)


def _decode(base: Layout, view: Layout) -> Move | None:
    """What a view of dense memory does to its axes; None where it does more than to select and permute."""
    axes = sorted([a for a in range(base.ndim) if base.shape[a] > 1], key=lambda a: -base.strides[a])
    starts = [0] * base.ndim
    offset = view.offset
    for axis in axes:
        starts[axis], offset = divmod(offset, base.strides[axis])
        if starts[axis] >= base.shape[axis]:
            return None
    if offset:
        return None
    free = set(axes)
    followed: list[tuple[int, int] | None] = []
    for n, stride in zip(view.shape, view.strides, strict=True):
        if n == 1 or not stride:
            followed.append(None)
            continue
        for axis in free:
            step, rest = divmod(stride, base.strides[axis])
            if not rest and 0 <= starts[axis] + step * (n - 1) < base.shape[axis]:
                free.remove(axis)
                followed.append((axis, step))
                break
        else:
            return None
    return tuple(followed), tuple(starts)


def _followed(leaf: Layout, move: Move) -> tuple[tuple[int, ...], int]:
    """Strides of a leaf, and bytes that it moves, where a view selects and permutes."""
    followed, starts = move
    strides = tuple([0 if way is None else leaf.strides[way[0]] * way[1] for way in followed])
    return strides, sum([start * step for start, step in zip(starts, leaf.strides, strict=True)])


def _reshaped(leaf: Layout, shape: tuple[int, ...]) -> tuple[tuple[int, ...], int] | None:
    """Strides of a leaf of another shape, of as many elements; None where it would have to be copied."""
    if leaf.is_contiguous:
        return contiguous_strides(shape, leaf.dtype.itemsize), 0
    return None if any(leaf.strides) else ((0,) * len(shape), 0)
