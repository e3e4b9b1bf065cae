"""Elements where a mask is true, for masks that are used more than once: ``z[inside] = z[inside] ** 2 + c[inside]``.

How many there are only the device knows, which has to be waited for each time. So the numbers of a mask's true elements
are found once, and kept with its storage until it has another value. A mask that is written out each time, as in
``x[~out], y[~out]``, is kept with a mask of the same arrays that is still there, which ``out`` is: what they read is as
it was while that has its value. Whether a mask will be used again is judged by the one before that is computed as it
is, or lies as it does: in a loop they are alike, and what is computed on ever fewer elements is so, too.
"""

from __future__ import annotations

from collections import deque
from operator import is_
from typing import TYPE_CHECKING, Any
from weakref import ref

from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.building import attempt
from oxinp._core.lazy.results import wrap_result
from oxinp._core.lazy.windows import Windowed
from oxinp._core.manipulation.shape import flat
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.storage import SHARED
from oxinp._core.ops import gather
from oxinp._runtime import here

if TYPE_CHECKING:
    from oxinp._core.lazy.expr import Structure
    from oxinp._core.lazy.handle import Handle
    from oxinp._core.memory.layout import Layout
    from oxinp._core.memory.storage import Value

MAX_SIZE = 1 << 23
"""Elements of a mask up to which its numbers are kept, of 8 bytes each."""
MAX_LATEST = 64
USES = 2
"""Of a mask of which nothing is expected, that are waited for one by one."""
MAX_BESIDE = 2
"""Masks that are kept with another one."""


class Uses:
    """What is known of a mask.

    Attributes
    ----------
    comes_again : bool
        Whether the one before was used more than once.
    count : list of int
        How many uses there were, one number.
    numbers : ndarray or None
        The numbers of its true elements, in C order, int64.
    """

    __slots__ = ("comes_again", "count", "numbers")

    def __init__(self, kind: Any) -> None:
        before = _latest.get(kind)
        self.comes_again = before is not None and before[0] > 1
        self.count = [0]
        self.numbers: Any = None
        if len(_latest) >= MAX_LATEST:
            _latest.clear()
        _latest[kind] = self.count


class Chosen(tuple[Any, ...]):  # noqa: SLOT001 - tuples have room for none
    """A storage's value, a mask of which it is known how often it has been used; any other value knows nothing of it.

    Attributes
    ----------
    layout : Layout
        How the mask lies in the storage.
    made_of : tuple
        The value as it was before anything was known of the mask.
    uses : Uses
    beside : dict
        By what they are computed, the uses of other masks of the same arrays.
    """

    layout: Layout
    made_of: Value
    uses: Uses
    beside: dict[Structure, Uses]


_latest: dict[Any, list[int]] = {}
"""By what computes them, or by their layout, how often the masks have been used that were the last ones."""
_known: deque[ref[Any]] = deque(maxlen=2)
"""The storages of the masks that were used first most lately."""


def select(array: Handle, mask: Handle) -> Any:
    """Return what `gather.select` does; of a mask that is used more than once, without waiting for the device again."""
    layout = array._known or array._layout
    if (mask._known or mask._layout).shape != layout.shape or not layout.size:
        return gather.select(array, mask)
    uses = _used(mask)
    if uses is None or not (uses.comes_again or uses.count[0] > USES):
        return gather.select(array, mask)
    gather.need_kernel(layout)
    return gather.chosen(flat(array), _numbers(mask, uses))


def read_known(array: Handle, mask: Handle) -> Any:
    """Return what `select` does of an array of the device and a mask whose numbers are known; None of others."""
    storage, held = array._held, mask._held
    layout: Any = array._known
    own: Any = mask._known
    if storage is None or storage.host is not None or held is None or layout is None or own is None:
        return None
    value: Any = held.value
    if value is None or layout.shape != own.shape or layout.nbytes < balance.limit or here.are_several:
        return None
    known = type(value) is Chosen and value.layout is own
    uses = value.uses if known else None if value[2] & SHARED else _beside(value, own)
    if uses is None or uses.numbers is None or layout.dtype not in DEVICE_TYPES or not layout.is_aligned:
        return None
    found = uses.numbers
    if not found.size:
        return None
    uses.count[0] += 1
    taken = attempt(gather.taken, array if layout.ndim == 1 else flat(array), found)
    return None if taken is None else wrap_result(taken, as_array=True)


def numbers(mask: Handle) -> Handle:
    """Return the numbers, in C order, of the true elements of a mask, int64."""
    uses = _used(mask)
    return gather.flatnonzero(mask) if uses is None else _numbers(mask, uses)


def _numbers(mask: Handle, uses: Uses) -> Handle:
    """Return the numbers of a mask's true elements as they are known, or known from now on."""
    if uses.numbers is None:
        storage = mask._held or mask._storage
        value = storage.value
        found = gather.flatnonzero(mask)
        if storage.value is not value:  # as a thread may do now: whose numbers these are is not known
            return found  # type: ignore[no-any-return]
        uses.numbers = found
        uses.comes_again = True
    return uses.numbers  # type: ignore[no-any-return]


def _used(mask: Handle) -> Uses | None:
    """Count a use of a mask, and return what is known of it; None where nothing can be."""
    storage, layout = mask._held or mask._storage, mask._known or mask._layout
    value: Any = storage.value
    if value is None or here.are_several or layout.size > MAX_SIZE or value[2] & SHARED or type(value) is Windowed:
        return None
    if type(value) is not Chosen or value.layout is not layout:
        uses = _beside(value, layout)
        if uses is None:
            graph = value[0]
            chosen = Chosen(value)
            chosen.layout, chosen.made_of = layout, getattr(value, "made_of", value)
            chosen.uses = uses = Uses((graph.structure, layout.ndim) if graph.nodes else layout)
            chosen.beside = {}
            if storage.value is not value:  # a thread has written to it; nothing is called from here to the assignment
                return None
            storage.value = chosen
            _known.append(ref(storage))
    else:
        uses = value.uses
    uses.count[0] += 1
    return uses


def _beside(value: Value, layout: Layout) -> Uses | None:
    """Return what is known of a mask that is still to be computed, with another one of the same arrays; else None."""
    graph, leaves, _ = value
    if not graph.nodes or graph.layout is not layout or graph.structure.wants_pointer:
        return None
    for reference in _known:
        storage = reference()
        other: Any = None if storage is None else storage.value
        if type(other) is not Chosen or len(other[1]) != len(leaves) or other[0].leaves != graph.leaves:
            continue
        if all(map(is_, other[1], leaves)):
            uses = other.beside.get(graph.structure)
            if uses is None and len(other.beside) < MAX_BESIDE:
                uses = other.beside[graph.structure] = Uses((graph.structure, layout.ndim))
            return uses
    return None


__all__ = ["numbers", "read_known", "select"]
