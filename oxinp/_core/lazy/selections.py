"""Elements where a mask is true, of which nobody has asked how many there are: ``z[m] = z[m] ** 2 + c[m]``.

Only the device knows how many, and to wait for it and to bring them together takes longer than what is done with them.
So ``z[m]`` is at first all of ``z`` and the mask. What is computed of such arrays and numbers, element by element, is
recorded of all elements; and written where the same mask is true it is ``where(m, new, z)``, one kernel. Whoever asks
for a shape or for elements has them selected then, of what the array and the mask were: so a storage that holds a
selection selects as soon as its value is read, and is like any other from then on. Who asks only how many there are
has them counted, and selected if they are few.

A mask of selected elements, as in ``z = z[~out]`` again and again, selects of all elements where both are true.

Whether that pays is told by what became of those before.
"""

from __future__ import annotations

from collections import deque
from operator import is_
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from oxinp._core.errors.state import current, quiet
from oxinp._core.lazy import explain, schedule
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.calls import Pending
from oxinp._core.lazy.chains import copying
from oxinp._core.lazy.handle import Handle, expression, host_view
from oxinp._core.lazy.results import types, wrap_host, wrap_pending
from oxinp._core.lazy.views import view_at
from oxinp._core.memory.dtypes import BOOL, DEVICE_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.storage import SHARED, Storage, Value
from oxinp._runtime import here
from oxinp._runtime.memory import Buffer

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_KINDS = 256
MAX_SCORE = 4
"""What is remembered at most of selections of a kind: how many more were written back than two times those that were
wanted on their own. One in `RETRIED` that would not pay is tried again."""
RETRIED = 64
UNCOUNTED = 16
"""Masks one after the other, of which at least one is counted."""
FEW = 4
"""How many times more elements there are than are selected, from which on they are selected."""
SHARE_OF_ROWS = 1 / FEW
"""What is taken to be selected where that is whole rows, and not known: NumPy reads no others."""
MAX_WAITING = 48
"""Selections that wait at most, for each keeps all elements."""
MAX_NBYTES = 1 << 30
"""Of an array: of larger ones waiting takes little beside the work, and all elements may find no room."""
MAX_NBYTES_READ, MAX_NBYTES_COPIED = 1 << 26, 1 << 16
"""The same where the mask is on the host, which knows how many there are: to read all takes no longer than to tell the
device which; and of such a mask, which is copied."""
ON_HOST = "on the host"
"""What masks there are made by."""
PRICE = 30.0
"""Microseconds that the host takes to select or to write what has been selected, beside launches."""
BYTES_PER_ELEMENT = 15.0
"""Bytes that NumPy adds in as long as it takes to select or write by an element of a mask, those of the copy or choice
included that does it in a chain: where neighbours are mostly selected together, as in regions of a plane."""
NUMBERS = frozenset({bool, int, float, complex})
_scores: dict[Any, float] = {}
_WRITTEN_OUT: set[Any] = set()
"""Kinds of masks that programs write out again, as in ``x[x > 0] = x[x > 0] / 2``: what they are made of is computed
first, so that both times they are made of the same."""
_own_value: Any = vars(Storage)["value"]


class Mask:
    """A mask as it was when elements were selected by it.

    Attributes
    ----------
    array : Handle
        The user's.
    storage : Storage or None
        Its own; None of one that is on the host, which anybody may write to there.
    layout : Layout
    value : tuple
        The storage's: it has another one as soon as it is written to.
    kept : Handle
        The mask's elements, pending or on the host, whatever is written to it.
    kind : object
        By which it is remembered whether this pays.
    depth : int
        Of how many masks it is one after the other, but for the first one.
    num : int or None
        How many elements it selects, where that is known.
    share : float
        Of elements that it selects, of a mask of the host; 1 of others, see `share_of`.
    """

    __slots__ = ("__weakref__", "array", "depth", "kept", "kind", "layout", "num", "share", "storage", "value")

    def __init__(self, array: Handle, kind: Any, depth: int = 0) -> None:
        storage: Any = array._held
        self.array, self.layout, self.kind, self.depth = array, array._known or array._layout, kind, depth
        self.storage: Any = None
        self.value: Any = None
        self.num: int | None = None
        self.share = 1.0
        if kind is ON_HOST:
            seen = array._seen if storage is None else host_view(array)
            self.kept = wrap_host(seen.copy())
            self.num = int(np.count_nonzero(self.kept._seen))
            self.share = self.num / self.layout.size
            self.kept._known = self.layout._dense or self.layout.dense
            return
        self.kept = all_of(array)
        value = storage.value
        self.value = getattr(value, "made_of", None) or schedule.materialise(storage)
        self.storage = storage

    def is_as_it_was(self, array: Handle) -> bool:
        """Whether an array is this mask, to which nothing has been written since, or written out again as in ``~m``."""
        storage: Any = array._held
        if self.storage is None:
            return array is self.array and _is_equal(array, self.kept)
        if storage is self.storage:
            value: Any = storage.value
            is_value = value is self.value or getattr(value, "made_of", None) is self.value  # see `masks.Chosen`
            return array._known is self.layout and is_value
        value = None if storage is None else storage.value
        kept: Any = self.kept._storage.value
        if not value or not kept or not value[0].nodes or array._known is not value[0].layout:
            return False
        # What is pending and reads the same has the same elements: who writes to that has both computed before.
        graph, other = value[0], kept[0]
        is_alike = graph.structure is other.structure and graph.shape == other.shape
        is_alike = is_alike and all(map(is_, graph.leaves, other.leaves))
        return is_alike and all(map(_is_same, value[1], kept[1]))

    def count(self) -> int:
        """Return how many elements it selects, waiting for the device the first time."""
        if self.num is None:
            self.num = types.count_true(self.now())
        return self.num

    def share_of(self, ndim: int) -> float:
        """Return what NumPy reads of an array of so many axes that it selects from, as far as that is known."""
        return SHARE_OF_ROWS if self.num is None and self.layout.ndim < ndim else self.share

    def selects_few(self) -> bool:
        """Whether it is known to select so few elements that all should not be computed any longer."""
        return self.num is not None and self.num * FEW <= self.layout.size

    def now(self) -> Handle:
        """Return the mask as it was, in an array that nobody writes to or has not."""
        return self.kept if self.storage is None or not self.is_as_it_was(self.array) else self.array

    def among(self, ndim: int) -> Handle:
        """Return the mask for all elements of what has more axes than the mask."""
        array, more = self.now(), ndim - self.layout.ndim
        if more:
            own = array._known or array._layout
            layout = Layout.at(own.dtype, (*own.shape, *[1] * more), (*own.strides, *[0] * more), own.offset)
            array = view_at(array, layout)
        return array


class Selection:
    """What is selected from what; an array that is updated has another one from then on.

    Attributes
    ----------
    all : Handle
        All elements, pending; whether the others mean anything does not matter.
    layout : Layout
        Of these.
    mask : Mask
    kind : tuple
    source : Handle or None
        The array that these are the elements of, as long as it has the value: nothing has been computed of them yet.
    value : tuple
    within : Mask or None
        Of truth values, the mask of the elements that are selected where they are true.
    inverted : Selection or None
        Of truth values, those that are not true.
    """

    __slots__ = ("all", "inverted", "kind", "layout", "mask", "source", "value", "within")

    def __init__(self, elements: Handle, mask: Mask, kind: Any, source: Handle | None = None) -> None:
        self.all, self.layout = elements, elements._known or elements._layout
        self.mask, self.kind, self.source = mask, kind, source
        self.inverted: Selection | None = None
        self.within: Mask | None = None
        self.value: Any = None if source is None else (source._held or source._storage).value

    @property
    def shape_behind(self) -> tuple[int, ...]:
        """Of what is selected, but for how many there are."""
        return self.layout.shape[self.mask.layout.ndim :]

    def of(self) -> Handle:
        """Return the array that the elements are selected from, as it was."""
        source = self.source
        is_source = source is not None and (source._held or source._storage).value is self.value
        return source if is_source else self.all  # type: ignore[return-value]

    def selected(self) -> Any:
        """Return the elements."""
        return types.selected(self.of(), self.mask.now())


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
        if not (selection.mask.depth and selection.mask.selects_few()):  # what was masked again and again has paid
            count(selection.kind, -2)
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
    storage: Any = array._held
    own, held = mask._known, mask._held
    if type(held) is Masked:
        return _select_within(array, held.selection)
    layout = array._layout if type(storage) is Masked else array._known
    if not (storage and layout) or storage.host is not None:
        return None
    given: Any = storage.value
    made_by: Any
    is_on_host = held is None or held.host is not None
    if is_on_host:
        own, most, made_by = own or mask._layout, MAX_NBYTES_READ, ON_HOST
    elif own:
        value: Any = held.value  # type: ignore[union-attr] # there is one
        most, made_by = MAX_NBYTES, value[0].structure if value[0].nodes else None
    else:
        return None
    if own.dtype is not BOOL or layout.shape[: own.ndim] != own.shape or not layout.size:
        return None
    if not balance.limit <= layout.nbytes <= most or layout.dtype not in DEVICE_TYPES or not layout.is_aligned:
        return None
    if here.are_several or explain.REPORTS or current() is not quiet.state or given[2] & SHARED:
        return None
    known = _latest()
    if known is not None and known.is_as_it_was(mask):
        made_by = known.kind
    else:
        known = None
    kind = made_by, layout.ndim, layout.dtype
    if _scores.get(kind, 0) < 0:
        count(kind, 1 / RETRIED)
        return None
    if known is None:
        if is_on_host:
            if own.nbytes > MAX_NBYTES_COPIED:
                return None
        elif value[2] & SHARED:
            return None
        if made_by in _WRITTEN_OUT:
            schedule.materialise(storage)
        known = Mask(mask, made_by)
        _latest = ref(known)
    given = storage.value
    if given[0].nodes or type(given[1][0]) is not Buffer:  # which the mask may have been made of, and is computed with
        schedule.materialise(storage)
    moved = layout.nbytes * known.share_of(layout.ndim) if own.ndim < layout.ndim else 0
    balance.recorded(layout.nbytes, beside_chains(layout) * own.size + moved, PRICE)
    return made(Selection(all_of(array), known, kind, array))


def beside_chains(layout: Layout) -> float:
    """Return the bytes that NumPy adds in the time of an element of a mask, but for what a chain counts of that."""
    return max(BYTES_PER_ELEMENT - layout.dtype.itemsize, 0.0)


def weigh(selection: Selection) -> None:
    """Let placement know that elements have been selected from a selection, or that it has been written."""
    mask = selection.mask
    num = mask.layout.size if mask.num is None else mask.num
    balance.recorded(selection.layout.nbytes, beside_chains(selection.layout) * num, PRICE)


def write_out(selection: Selection) -> None:
    """Note that what was selected by a mask is written where the same mask has been made of something else."""
    kind = selection.mask.kind
    if kind is not None and not selection.mask.depth and kind not in _WRITTEN_OUT:
        if len(_WRITTEN_OUT) >= MAX_KINDS:
            _WRITTEN_OUT.clear()
        _WRITTEN_OUT.add(kind)
        count(selection.kind, 2)


def _select_within(array: Handle, key: Selection) -> Any:
    """Return the elements of a selection where another one of the same elements is true; None if none is possible."""
    held: Any = array._held
    mask = key.mask
    if type(held) is not Masked or held.selection.mask is not mask or key.layout.shape != mask.layout.shape:
        return None
    chosen = held.selection
    kind = mask.kind if mask.depth else ("within", mask.kind), *chosen.kind[1:]
    if mask.depth % UNCOUNTED == UNCOUNTED - 1:
        mask.count()
    if mask.num is not None and mask.selects_few():
        return None
    if _scores.get(kind, 0) < 0:
        count(kind, 1 / RETRIED)
        return None
    if key.within is None:
        both = mask.now() & key.all
        if not is_on_device(both):
            return None
        key.within = Mask(both, kind[0], mask.depth + 1)
    count(chosen.kind, 1)
    weigh(chosen)
    return made(Selection(chosen.all, key.within, kind))


def _is_same(entry: Any, other: Any) -> bool:
    """Whether two leaves of a chain are one, or numbers that are alike."""
    kind = type(entry)
    return entry is other or (kind is type(other) and kind in NUMBERS and repr(entry) == repr(other))


def _is_equal(array: Handle, kept: Handle) -> bool:
    """Whether a mask that is on the host has the elements that have been kept of it."""
    if array._held is not None and array._held.host is None:
        return False
    seen = host_view(array)
    return seen.shape == kept._seen.shape and bool((seen == kept._seen).all())


def is_on_device(elements: Any) -> bool:
    """Whether a result is an array that is on the device alone."""
    return type(elements) is types.ndarray and elements._held is not None and elements._held.host is None


def all_of(array: Handle) -> Handle:
    """Return a copy of an array that is pending: what is written to the array has it computed before."""
    held = array._held
    value = None if held is None else held.value
    if value is None or value[0].layout is not array._known:
        value = expression(array)
    graph, leaves, mask = value
    if not graph.nodes:
        programs = graph.programs  # `copying`, spelled out
        known = None if programs is None else programs.get(("copy", graph.layout.dtype))
        graph = known or copying(graph.leaves[0], graph.layout.dtype)
    return wrap_pending((graph, leaves, mask), as_array=True)  # type: ignore[no-any-return]


def made(selection: Selection) -> Any:
    """Return an array of what is selected."""
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


def count(kind: Any, change: float) -> None:
    """Remember what became of a selection of a kind."""
    if kind not in _scores and len(_scores) >= MAX_KINDS:
        _scores.clear()
    _scores[kind] = max(-1, min(_scores.get(kind, 0) + change, MAX_SCORE))


__all__ = [
    "NUMBERS",
    "Mask",
    "Masked",
    "Selection",
    "all_of",
    "count",
    "is_on_device",
    "made",
    "select",
    "write_out",
]
