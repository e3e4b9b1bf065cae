"""Placement: host or device. A pure function of what an operation costs and of where its operands are valid.

Nothing of it is the calling thread's: what there is lies where its Buffer does (`device_of`). A thread has a say only
in where new work goes, which is the device that it is on (`device`).

Small arrays live on the host, large ones on the device. An operation on operands that are all valid on the host runs
there if its cost, the bytes of its largest operand or result times its row's weight, is below
`config.offload_threshold`, or, where it is elementwise, if those bytes are and it costs little more (`is_light`); any
other operation runs on the device. Loops over single elements of a device array fetch a host mirror first, unless
larger work there takes the elements; small results of the device that are written into an array with one are fetched,
too, so that the mirror stays, as long as they are not uploaded again. A small array that results of the device are
written to, element by element, goes there instead of having the program wait for each. Where
`balance` has learned that larger arrays belong on the host as well, that is the threshold, and what is smaller and on
the device is fetched for operations that cost less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ref

from oxinp import _runtime
from oxinp._config import config
from oxinp._core.lazy import explain
from oxinp._core.lazy.balance import COPY_RATE, LAUNCH, RECORDED, WAIT, balance
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.storage import SHARED, Leaf
from oxinp._runtime import here, select

if TYPE_CHECKING:
    from oxinp._core.lazy.expr import Graph
    from oxinp._core.memory.storage import Storage
    from oxinp._runtime.backend import Backend

# After this many accesses to single elements (or other views under 4 KB) of one storage it gets a mirror: the loop they
# come from may go over a few storages in turn, but does nothing else to them.
ACCESSES_BEFORE_MIRROR = 16
ACCESSES_OF_ANOTHER = 4
"""The same where another array of its shape and dtype has got a mirror: a function that is called again begins with new
ones. Each gets its first one so, unless it is large: a mirror for each of few accesses would take longer than those."""
MAX_HASTY_NBYTES = 32 << 20
MIRRORED_NBYTES = int(2 * WAIT * COPY_RATE)
"""Of the mirror of a large array for each access before it: the larger it is, the more it takes."""
WRITTEN_NBYTES = int(LAUNCH * COPY_RATE / 2)
"""The same where it is for what is written: nobody waits for that, and the device may have use for all of it again."""
MIN_WINDOWED_NBYTES = 1 << 20
"""Arrays below that are fetched whole as often as need be."""
MAX_MIRRORED = 64
SMALL_NBYTES = 4096
MAX_ELEMENT_NBYTES = 16
MAX_IN_TURN = 8

MAX_WORK = 4
"""Thresholds below which the cost of an elementwise operation is the host's, where its bytes are below one.

A launch and an upload take as long as NumPy's addition of 300 KB, and what is done with the result is the host's again.
"""

# Storage -> its accesses in a row, the mask of the value they were to (another one has been computed since if that
# differs), the bytes of the smallest of them, and how many single elements had been used before, of any array.
accesses: dict[ref[Storage], tuple[int, int, int, int]] = {}
alike: dict[tuple[Any, ...], tuple[ref[Storage], ...]] = {}
"""Shapes and dtypes of arrays that have got mirrors -> the last one and the one before."""
_NO_ACCESS = 0, 0, 0, 0

FOLLOWED_AFTER, MAX_PATIENCE = 2, 64
"""Results of the device that are waited for, at first and at most, until what they are written to goes there."""
WORTH_FOLLOWING = 4
"""Results that are written to such an array on the device, until it is wanted on the host, for that to have paid."""
MAX_FOLLOWERS = 64


class Follower:
    """A small array that single results of the device are written to.

    Attributes
    ----------
    is_away : bool
        It has gone to the device for them, and has not been seen to be back.
    num_writes : int
        Of them, since it went there or came back.
    num_reads, num_fetched : int
        Elements of it that were read since it went there, and how many of any array's had been fetched by then.
    patience : int
        How many are waited for on the host.
    """

    __slots__ = ("is_away", "num_fetched", "num_reads", "num_writes", "patience")

    def __init__(self) -> None:
        self.is_away = False
        self.num_writes = self.num_reads = self.num_fetched = 0
        self.patience = FOLLOWED_AFTER

    def is_wanted_back(self) -> bool:
        """Count an element that is read on the device; whether those are waited for, as the results would be."""
        if not self.num_reads:
            self.num_fetched = singles.num_fetched
        self.num_reads += 1
        if self.num_reads <= WORTH_FOLLOWING or singles.num_fetched - self.num_fetched < self.num_reads - 1:
            return False
        self.is_away, self.num_writes, self.patience = False, 0, MAX_PATIENCE
        return True


class Singles:
    """Single elements.

    Attributes
    ----------
    num_fetched : int
        How many were fetched: read from arrays, or computed. Threads may lose some of the counts.
    num_used : int
        And how many others were computed of, or written: not those that are operands of larger work.
    """

    __slots__ = ("num_fetched", "num_used")

    def __init__(self) -> None:
        self.num_fetched = self.num_used = 0

    def count(self, graph: Graph, leaves: tuple[Any, ...]) -> None:
        """Count the elements that a chain of one element is computed of, unless it is of something else.

        What a call gives, as a sum, is none of an array's.
        """
        count, are_given = 0, False
        for where, entry in zip(graph.leaves, leaves, strict=True):
            if type(where) is Layout:
                if where.size != 1:
                    return
                count += 1
            if type(entry) is not Leaf and hasattr(entry, "call"):
                count -= 1
                are_given = True
        self.num_used += count if are_given else count or 1


singles = Singles()
followers: dict[ref[Storage], Follower] = {}

mirrored: dict[ref[Storage], int] = {}
"""How often large arrays have been fetched whole for accesses in a row; a few that are gone may be among them."""


MAX_RETURNED = 8
returned: dict[ref[Storage], tuple[bool, int]] = {}
"""Of arrays that keep a mirror, whether a result of the device was written there that has not been uploaded since, and
how many were."""
_NEVER = False, 0


def device() -> Backend:
    """Return the backend that there is, even if new work goes to the host by now.

    Raises
    ------
    Unsupported
        There never was one: NumPy computes.
    """
    version, backend = select._decided  # `latest`, spelled out
    if version == config.version and backend is not None:
        return backend
    backend = _runtime.latest()
    if backend is None:
        raise Unsupported("there is no device")
    return backend


def device_of(entry: Any) -> Backend:
    """Return the backend of the device that a Buffer, or what is read from one, lies on: transfers go to that."""
    backend: Backend = entry.buffer.backend
    return backend


def keyed(key: Any) -> Any:
    """Return what launchers are kept by: a key of the caller's, and the device where there is more than one."""
    return (key, here.thread.timeline.backend) if here.are_several else key


def is_host(cost: float, weight: float = 1.0, price: float = LAUNCH) -> bool:
    """Whether an operation of this cost on operands that are valid on the host runs there; see `Op`."""
    return cost < config.offload_threshold or balance.takes(cost, weight, price) or _runtime.current() is None


def takes_to_host(name: str, cost: float, weight: float = 1.0, price: float = LAUNCH) -> bool:
    """Return what `is_host` does of an operation of this name; note why it is, for who asks."""
    if not is_host(cost, weight, price):
        return False
    if explain.REPORTS:
        explain.note("host", name, why_host(cost))
    return True


def is_light(nbytes: float, weight: float) -> bool:
    """Whether an elementwise operation is the host's wherever larger arrays belong, if its operands are there.

    Parameters
    ----------
    nbytes : float
        Of its largest operand or result.
    weight : float
        Its row's.
    """
    threshold = config.offload_threshold
    cost = nbytes * weight
    return cost < threshold or (nbytes < threshold and cost < MAX_WORK * threshold)


def is_recorded_on_host(cost: float, weight: float, times: int = 0) -> bool:
    """Whether an elementwise operation is computed there; its cost is bytes times its row's weight.

    For `times`, see `Balance.takes`.
    """
    nbytes, threshold = cost / weight, config.offload_threshold
    if cost < threshold or (nbytes < threshold and cost < MAX_WORK * threshold):  # `is_light`, spelled out
        return True
    if nbytes < balance.limit and balance.takes(nbytes, weight, RECORDED, times):
        return True
    version, backend = select._decided  # `current`, spelled out
    return (backend if version == config.version else _runtime.current()) is None


def may_be_host(storage: Storage) -> bool:
    """Whether what a storage holds may be an operand on the host: it is valid there, or small enough to be fetched."""
    if storage.host is not None:
        return True
    value = storage.value
    if value is None:
        return True
    is_small = value[0].layout.nbytes < balance.limit or ref(storage) in followers
    return is_small and not value[2] & SHARED


def follows(storage: Storage) -> bool:
    """Count a result of the device that is written to an element of an array on the host; whether that goes there.

    One that is written to again and again would have the program wait each time. What it is used for with others on the
    host is still done there.
    """
    host = storage.host
    if host is None or host.nbytes >= config.offload_threshold or balance.limit or here.are_several:
        return False
    if host.dtype not in DEVICE_TYPES or (storage.stale is not None and storage.stale.is_pin):
        return False
    follower = followers.get(ref(storage))
    if follower is None:
        if len(followers) >= MAX_FOLLOWERS:
            followers.clear()
        follower = followers[ref(storage, _forget)] = Follower()
    if follower.is_away:
        has_paid = follower.num_writes >= WORTH_FOLLOWING
        follower.patience = FOLLOWED_AFTER if has_paid else min(2 * follower.patience, MAX_PATIENCE)
        follower.is_away, follower.num_writes = False, 0
    follower.num_writes += 1
    if follower.num_writes <= follower.patience:
        return False
    follower.is_away, follower.num_writes, follower.num_reads = True, 0, 0
    return True


def _forget(reference: ref[Storage]) -> None:
    followers.pop(reference, None)


def is_near(storage: Storage) -> bool:
    """Whether what a storage holds is on the host, or so small that fetching it takes as long as any of it would."""
    value = storage.value
    if storage.host is not None or value is None:
        return True
    return value[0].layout.nbytes <= SMALL_NBYTES and not value[2] & SHARED


def why_host(cost: float) -> str:
    """Say why `is_host` holds."""
    if cost < 0:
        return "no kernel"
    if cost < config.offload_threshold:
        return f"cost {cost:.0f} B below the threshold of {config.offload_threshold} B, all operands on the host"
    return _runtime.why_host() or f"below {balance.limit} B: the program has little to do with larger arrays"


def starts_on_device(nbytes: int) -> bool:
    """Whether a new array of this size that has a kernel to fill it begins on the device."""
    return nbytes >= config.offload_threshold and nbytes >= balance.limit and _runtime.current() is not None


def keeps_mirror(storage: Storage, nbytes: int) -> bool:
    """Whether what the device has computed for `nbytes` of a storage is fetched, for the host side to stay valid.

    A loop over elements and rows has had it fetched, and would again: that moves all of it. Not so where what was
    fetched had to be uploaded again each time, for what is computed next.
    """
    host = storage.host
    if host is None or nbytes > SMALL_NBYTES or host.nbytes < config.offload_threshold:
        return False
    return not returned or returned.get(ref(storage), _NEVER)[1] < MAX_RETURNED


def note_written(storage: Storage) -> None:
    """Note that what the device has computed for part of a storage was fetched, and written on the host."""
    if len(returned) >= MAX_MIRRORED:
        returned.clear()
    returned[ref(storage)] = True, returned.get(ref(storage), _NEVER)[1]


def note_uploaded(storage: Storage) -> None:
    """Note that a storage has been brought up to date on the device."""
    was_written, times = returned.get(ref(storage), _NEVER)
    if was_written:
        returned[ref(storage)] = False, times + 1


def wants_mirror(
    storage: Storage,
    nbytes: int,
    is_read_by_elements: bool = False,
    is_given_result: bool = False,
    is_written: bool = False,
) -> bool:
    """Count an access to `nbytes` of a storage that is only on the device; whether to fetch a host mirror now.

    `native.reading` counts few of them alike, in machine code.

    Parameters
    ----------
    storage : Storage
    nbytes : int
    is_read_by_elements : bool
        For who does so, that may be a window of a large array, see `windows`.
    is_given_result : bool
        It is a write of what the device computes.
    is_written : bool
        It is a write.
    """
    reference = ref(storage)  # one object per storage
    value = storage.value
    mask = 0 if value is None else value[2]
    if value is not None and value[0].layout.nbytes < balance.limit and not mask & SHARED:
        return True
    if is_read_by_elements and followers and (follower := followers.get(reference)) and follower.is_wanted_back():
        return True
    if nbytes > SMALL_NBYTES or mask & SHARED:
        accesses.pop(reference, None)
        return False
    known = accesses.get(reference)
    if known is None or not known[0] or known[1] != mask:  # the first one
        if (known is None or not known[0]) and len(accesses) >= MAX_IN_TURN:
            accesses.clear()
        accesses[reference] = 1, mask, nbytes, singles.num_used
        return False
    count, _, least, used = known
    count += 1
    if nbytes < least:  # noqa: PLR1730 - a call costs as much as the rest
        least = nbytes
    if count > ACCESSES_BEFORE_MIRROR or (
        count > ACCESSES_OF_ANOTHER and _is_another(reference, value, is_read_by_elements)
    ):
        is_element = is_read_by_elements or (is_given_result and nbytes <= MAX_ELEMENT_NBYTES)
        if is_element and not are_elements_used(value, count, used):
            if count > ACCESSES_BEFORE_MIRROR:  # rows that were read between elements are not forgotten
                count, used = count // 2, (used + singles.num_used) // 2
        elif _is_worth_mirror(reference, value, count, is_read_by_elements, is_written):
            accesses.pop(reference, None)
            if value is not None:  # else parts of it are lent on the host
                _note_mirror(reference, value)
            return True
    accesses[reference] = count, mask, least, used
    return False


def _note_mirror(reference: ref[Storage], value: Any) -> None:
    """Note that an array gets a mirror."""
    layout = value[0].layout
    if len(alike) >= MAX_MIRRORED:
        alike.clear()
    key = layout.shape, layout.dtype
    alike[key] = (reference, *alike.get(key, ())[:1])


def _is_another(reference: ref[Storage], value: Any, is_read_by_elements: bool) -> bool:
    """Whether an array that has got no mirror yet is like one that has, and that is gone: it takes its place.

    A result may be kept until there is the next one. Not so of a large one whose parts large work is done with.
    """
    if value is None or not config.adaptive_placement:
        return False
    layout = value[0].layout
    if layout.nbytes > (MAX_HASTY_NBYTES if is_read_by_elements else config.offload_threshold):
        return False
    known = alike.get((layout.shape, layout.dtype), ())
    return reference not in known and any(other() is None for other in known)


def are_elements_used(value: Any, count: int, used: int) -> bool:
    """Whether elements of a large array are used by themselves, of which so many were read since so many had been.

    A loop that has larger work read them on the device has no use for the array on the host.
    """
    nbytes = 0 if value is None else value[0].layout.nbytes
    return nbytes < MIN_WINDOWED_NBYTES or 2 * (singles.num_used - used) >= count


def _is_worth_mirror(
    reference: ref[Storage], value: Any, count: int, is_read_by_elements: bool, is_written: bool
) -> bool:
    """Whether so many accesses in a row are worth a mirror: the more the larger the array.

    Who reads elements of a large array waits for each, and gets a window where it has lost a mirror to a write.
    """
    nbytes = 0 if value is None else value[0].layout.nbytes
    if nbytes < MIN_WINDOWED_NBYTES:
        return True
    times = mirrored.get(reference, 0)
    if not is_read_by_elements and count <= nbytes // (WRITTEN_NBYTES if is_written else MIRRORED_NBYTES):
        return False
    if not times and len(mirrored) >= MAX_MIRRORED:
        mirrored.clear()
    mirrored[reference] = times + 1
    return True


def has_lost_mirror(storage: Storage) -> bool:
    """Whether a large array for which `wants_mirror` has just said so had a mirror before, which a write has ended."""
    return mirrored.get(ref(storage), 0) > 1


def wants_mirror_to_write(storage: Storage, nbytes: int, source: Storage | None) -> bool:
    """Do what `wants_mirror` does for a write of what another storage holds, if any does; whether it is the host's.

    What large work gives is written where that is computed, and begins the count anew: the views between were its
    operands, or copied. Not so where single elements were read between, each of which would be waited for.
    """
    if source is not None and source.host is None and followers:
        follower = followers.get(ref(storage))
        if follower is not None and follower.is_away:
            follower.num_writes += 1
            return False
    value = None if source is None else source.value
    for entry in () if value is None else value[1]:
        call = getattr(entry, "call", None)
        if call is None:
            continue
        bound = call.bound
        # It waits for what is made of more than small arrays, which is the device's wherever it is wanted; it may be
        # small itself, as a product of a vector and a matrix is.
        if bound.host_cost() < config.offload_threshold * min(bound.op.host_weight, 1.0):
            continue
        bound.is_written = True
        if accesses and accesses.get(ref(storage), _NO_ACCESS)[2] > MAX_ELEMENT_NBYTES:
            accesses.pop(ref(storage), None)
        return False
    is_given_result = source is not None and source.host is None
    return wants_mirror(storage, nbytes, is_given_result=is_given_result, is_written=True) and is_host(nbytes)


def note_update(storage: Storage, leaves: tuple[Any, ...]) -> None:
    """Begin the count of accesses anew where a part has been updated by what large work gave; see `wants_mirror`.

    That is a small array on the device, which is there for no other reason, and would be waited for on the host.
    """
    reference, value = ref(storage), storage.value
    if reference not in accesses or value is None:
        return
    own = value[1][0].buffer
    for entry in leaves:  # neither numbers nor parts of arrays, which are read from some byte of a Buffer on
        buffer = None if type(entry) is Leaf else getattr(entry, "buffer", None)
        if buffer is not None and buffer is not own and entry.nbytes < config.offload_threshold:
            accesses.pop(reference, None)
            return
