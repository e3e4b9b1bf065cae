"""Elements where a mask is true, of which nobody has asked how many there are: ``z[m] = z[m] ** 2 + c[m]``.

Only the device knows how many, and to wait for it and to bring them together takes longer than what is done with them.
So ``z[m]`` is at first all of ``z`` and the mask. What is computed of such arrays and numbers, element by element, is
recorded of all elements; and written where the same mask is true it is ``where(m, new, z)``, one kernel. Whoever asks
for a shape or for elements has them selected then, of what the array and the mask were: so a storage that holds a
selection selects as soon as its value is read, and is like any other from then on.

Whether that pays is told by what became of those before.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

import numpy as np

from oxinp._core.errors.state import current, quiet
from oxinp._core.lazy import explain, schedule
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.calls import Pending
from oxinp._core.lazy.chains import copying
from oxinp._core.lazy.handle import Handle, expression
from oxinp._core.lazy.results import is_device_scalar, types, wrap_pending
from oxinp._core.lazy.views import view
from oxinp._core.memory.dtypes import BOOL, DEVICE_TYPES
from oxinp._core.memory.storage import SHARED, Storage, Value
from oxinp._runtime import here

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_KINDS = 256
MAX_SCORE = 4
"""What is remembered at most of selections of a kind: how many more were written back than two times those that were
wanted on their own. One in `RETRIED` that would not pay is tried again."""
RETRIED = 64
MAX_WAITING = 16
"""Selections that wait at most, for each keeps all elements."""
_NUMBERS = frozenset({bool, int, float, complex})
_scores: dict[Any, float] = {}
_own_value: Any = vars(Storage)["value"]


class Mask:
    """A mask as it was when elements were selected by it.

    Attributes
    ----------
    array : Handle
        The user's.
    storage : Storage
    layout : Layout
    value : tuple
        The storage's: it has another one as soon as it is written to.
    kept : Handle
        The mask's elements, pending, whatever is written to it.
    kind : tuple
        By which it is remembered whether this pays.
    """

    __slots__ = ("__weakref__", "array", "kept", "kind", "layout", "storage", "value")

    def __init__(self, array: Handle) -> None:
        storage: Any = array._held
        self.value: Any
        self.kind = _structure_of(storage.value)
        self.kept = _all_of(array)
        value = storage.value
        self.value = getattr(value, "made_of", None) or schedule.materialise(storage)
        self.array, self.storage, self.layout = array, storage, array._layout

    def is_as_it_was(self, array: Handle) -> bool:
        """Whether an array is this mask, to which nothing has been written since, or written out again as in ``~m``."""
        storage: Any = array._held
        if storage is self.storage:
            value: Any = storage.value
            is_value = value is self.value or getattr(value, "made_of", None) is self.value  # see `masks.Chosen`
            return array._known is self.layout and is_value
        value = None if storage is None else storage.value
        kept: Any = self.kept._storage.value
        # What is pending and reads the same has the same elements: who writes to that has both computed before.
        return bool(value and value[0] is kept[0] and value[0].nodes and array._known is value[0].layout) and (
            all(map(_is_same, value[1], kept[1]))
        )

    def now(self) -> Handle:
        """Return the mask as it was, in an array that nobody writes to or has not."""
        return self.array if self.is_as_it_was(self.array) else self.kept

    def among(self, ndim: int) -> Handle:
        """Return the mask for all elements of what has more axes than the mask."""
        array = self.now()
        if ndim > self.layout.ndim:
            array = view(array, lambda x: x[(..., *(None,) * (ndim - self.layout.ndim))])
        return array


class Selection:
    """What is selected from what.

    Attributes
    ----------
    all : Handle
        All elements, pending; whether the others mean anything does not matter.
    mask : Mask
    kind : tuple
    source : Handle or None
        The array that these are the elements of, as long as it has the value: nothing has been computed of them yet.
    value : tuple
    """

    __slots__ = ("all", "kind", "mask", "source", "value")

    def __init__(self, elements: Handle, mask: Mask, kind: Any, source: Handle | None = None) -> None:
        self.all, self.mask, self.kind, self.source = elements, mask, kind, source
        self.value: Any = None if source is None else source._storage.value

    def selected(self) -> Any:
        """Return the elements."""
        mask, source = self.mask, self.source
        is_source = source is not None and source._storage.value is self.value
        return types.selected(source if is_source else self.all, mask.now())


class Masked(Storage):
    """The storage of elements that have not been selected; as soon as somebody asks for its value, it is a Storage."""

    __slots__ = ()

    @property
    def value(self) -> Value | None:
        """The device side of what is selected now."""
        selection = self.selection
        held = selection.selected()._storage
        value = held.value
        if value is not None and value[0].nodes:
            value = schedule.materialise(held)
        _count(selection.kind, -2)
        if type(self) is Masked:  # else another thread has selected them meanwhile
            self.host, self.stale = held.host, held.stale
            _own_value.__set__(self, value)
            self.__class__ = Storage  # type: ignore[assignment]
            if value is not None and type(value[1][0]) is Pending:
                value[1][0].owner = ref(self)
            self.selection = None
        return _own_value.__get__(self)  # type: ignore[no-any-return]

    @value.setter
    def value(self, value: Value | None) -> None:
        _own_value.__set__(self, value)
        self.__class__ = Storage  # type: ignore[assignment]


def _nothing() -> None:
    """Do as a weak reference to what is gone."""


_latest: Callable[[], Mask | None] = _nothing
"""The mask that was used last, which is most often used again."""
_waiting: deque[Callable[[], Storage | None]] = deque([_nothing] * MAX_WAITING, MAX_WAITING)
"""The storages of the latest selections."""


def select(array: Handle, mask: Handle) -> Any:
    """Return the elements of an array where a mask is true, not selected yet; None if they had better be now."""
    global _latest
    storage, layout, own = array._held, array._known, mask._known
    held = mask._held
    if not (storage and held and layout and own) or storage.host is not None or held.host is not None:
        return None
    if own.dtype is not BOOL or layout.shape[: own.ndim] != own.shape or not layout.size:
        return None
    if layout.nbytes < balance.limit or layout.dtype not in DEVICE_TYPES or not layout.is_aligned:
        return None
    if here.are_several or explain.REPORTS or current() is not quiet.state:
        return None
    value: Any = held.value
    given: Any = storage.value
    known = _latest()
    if known is not None and not known.is_as_it_was(mask):
        known = None
    kind = _structure_of(value) if known is None else known.kind, layout.ndim, layout.dtype
    if (value[2] | given[2]) & SHARED or not _pays(kind):
        return None
    if known is None:
        known = Mask(mask)
        _latest = ref(known)
    schedule.materialise(storage)  # which the mask may have been made of, and is computed with
    return _made(Selection(_all_of(array), known, kind, array))


def applied(function: Callable[..., Any], *operands: Any) -> Any:
    """Return what a function of elements makes of some that have not been selected; None where they have to be.

    Parameters
    ----------
    function : callable
    *operands : object
    """
    given: list[Any] = []
    mask = kind = shape = None
    for operand in operands:
        if type(operand) is not types.ndarray:
            if type(operand) not in _NUMBERS and not isinstance(operand, np.generic) and not is_device_scalar(operand):
                return None
            given.append(operand)
            continue
        held = operand._held
        if type(held) is not Masked:
            return None
        selection = held.selection
        if mask is None:
            mask, kind, shape = selection.mask, selection.kind, selection.all._layout.shape
        elif selection.mask is not mask or selection.all._layout.shape != shape:
            return None
        given.append(selection.all)
    elements = function(*given)
    if mask is None or type(elements) is not types.ndarray or elements._storage.host is not None:
        return None
    return _made(Selection(elements, mask, kind))


def update(function: Callable[..., Any], array: Handle, operand: Any) -> bool:
    """Update elements that have not been selected by an operator in place; tell whether that has been done."""
    if type(array._held) is not Masked:
        return False
    selection = array._held.selection
    if type(operand) is types.ndarray:
        held = operand._held
        if type(held) is not Masked or held.selection.mask is not selection.mask:
            return False
        operand = held.selection.all
        if operand._layout.shape != selection.all._layout.shape:
            return False
    elif type(operand) not in _NUMBERS and not isinstance(operand, np.generic):
        return False
    function(selection.all, operand)
    selection.source = None
    return True


def written(array: Handle, key: Handle, value: Handle) -> tuple[Handle, Handle] | None:
    """Return the mask and all elements of what is written where a mask is true, if that is how they were selected."""
    held = value._held
    if type(held) is not Masked or (array._held or array._storage).host is not None:
        return None
    selection = held.selection
    layout, given = array._layout, selection.all._layout
    if layout.shape != given.shape or not selection.mask.is_as_it_was(key):
        return None
    if given.dtype != layout.dtype and not _is_cast(given.dtype, layout.dtype):
        return None
    _count(selection.kind, 1)
    return selection.mask.among(layout.ndim), selection.all


class Reducible(NamedTuple):
    """What is reduced for elements that have not been selected: all of them, over some axes, where a mask is true."""

    elements: Handle
    axis: tuple[int, ...] | None
    mask: Handle


def reducible(array: Handle, axis: Any) -> Reducible | None:
    """Return what is reduced where elements are that have not been selected; None where they have to be."""
    held: Any = array._held
    if type(held) is not Masked or not (axis is None or (type(axis) is int and axis == 0)):
        return None
    selection = held.selection
    mask, ndim = selection.mask, selection.all._layout.ndim
    _count(selection.kind, 1)
    return Reducible(selection.all, axis if axis is None else tuple(range(mask.layout.ndim)), mask.among(ndim))


def _is_same(entry: Any, other: Any) -> bool:
    """Whether two leaves of a chain are one, or numbers that are alike."""
    kind = type(entry)
    return entry is other or (kind is type(other) and kind in _NUMBERS and repr(entry) == repr(other))


def _is_cast(dtype: np.dtype[Any], target: np.dtype[Any]) -> bool:
    """Whether ``where`` of two dtypes, cast to the second, is what a cast of the first makes, and keeps the second."""
    return np.can_cast(dtype, target, "same_kind") and np.result_type(dtype, target) in (dtype, target)


def _all_of(array: Handle) -> Handle:
    """Return a copy of an array that is pending: what is written to the array has it computed before."""
    graph, leaves, mask = expression(array)
    if not graph.nodes:
        graph = copying(graph.leaves[0], graph.layout.dtype)
    return wrap_pending((graph, leaves, mask), as_array=True)  # type: ignore[no-any-return]


def _structure_of(value: Any) -> Any:
    return value[0].structure if value[0].nodes else None


def _made(selection: Selection) -> Any:
    oldest = _waiting[0]()
    if oldest is not None and type(oldest) is Masked:
        oldest.value  # noqa: B018 - selects
    storage = Masked()
    storage.has_objects = False
    storage.host = storage.stale = None
    storage.selection = selection
    _waiting.append(ref(storage))
    array = next(types.bare)
    array._held = storage
    array._known = array._view = array._host = array._seen = None
    return array


def _pays(kind: Any) -> bool:
    score = _scores.get(kind, 0)
    if score >= 0:
        return True
    _count(kind, 1 / RETRIED)
    return False


def _count(kind: Any, change: float) -> None:
    if kind not in _scores and len(_scores) >= MAX_KINDS:
        _scores.clear()
    _scores[kind] = max(-1, min(_scores.get(kind, 0) + change, MAX_SCORE))


__all__ = ["Masked", "applied", "reducible", "select", "update", "written"]
