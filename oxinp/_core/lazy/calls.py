"""Operations that have been asked for and have not run, so that what is made of their results can become part of them.

A `Pending` stands where the Buffer of a result would: in the value of the result's storage, and among the leaves of
what is recorded on it. Nothing else knows of it. Whoever asks where it lies has the operation run; and what is pending,
elementwise, and the only one to use the result, is computed in the operation's own kernel instead.

It is sound as recording is (see `schedule`): the operands are Buffers, whose bytes change only after every call that
reads them has run. Whether something else uses a result decides speed alone: one that was wrongly thought to be used by
nothing else would be computed again.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import TYPE_CHECKING, Any
from weakref import ref

from oxinp._config import config
from oxinp._core.lazy.balance import FIRST, HEAVY, IN_ORDER, NUM_SIZES, SAMPLED, balance, is_sampled
from oxinp._core.lazy.building import Missing, attempt, is_finaliser, is_locked, spells_attempt
from oxinp._core.lazy.explain import REPORTS, note
from oxinp._core.lazy.op import BoundOp
from oxinp._runtime import here
from oxinp._runtime.backend import FIRST_LOCK
from oxinp._runtime.memory import Buffer

if TYPE_CHECKING:
    from oxinp._core.memory.storage import Storage, Value

CALLS: dict[ref[Call], None] = {}
"""The calls that have not run, in their order: a weak set takes microseconds to ask."""

MAX_CALLS = 64
"""Calls that wait: beyond, all are run, for they keep their operands."""

_OF_BUFFERS = frozenset({"_block", "backend", "nbytes", "ptr"})


class AtWork(threading.local):
    """What the calling thread computes now, or writes to; its storage is kept while somebody watches.

    Attributes
    ----------
    storage : Storage, Call or None
    flushes_many : bool
        It computes what is pending, which is so much that nothing is looked for on the way to something else.
    """

    storage: Any = None
    flushes_many = False


at_work = AtWork()
is_watched = False
"""Whether somebody looks at it; `schedule.watch` sets it, once and for all."""


class Call:
    """An operation that has been asked for.

    Attributes
    ----------
    bound : BoundOp
    leaves : tuple or None
        What it is applied to: Buffers, Leaves, Pendings and scalars; None once it has run.
    mask : int
        Of the leaves, see `storage`.
    results : tuple of weak references
        To a Pending per result.
    buffers : sequence of Buffer or None
        Where the results are, once it has run and one of the references led to nothing: the garbage collector clears
        those to what is part of a cycle before finalisers run, which may read the result yet.
    lines, offset, origin
        As a storage's.
    share : float
        Where a mask of the host is read, the share of elements that NumPy would read.
    """

    __slots__ = (
        "__weakref__",
        "_entry",
        "bound",
        "buffers",
        "leaves",
        "lines",
        "mask",
        "offset",
        "origin",
        "results",
        "share",
    )

    lines: Any
    offset: int
    origin: Any
    share: float

    def __init__(self, bound: BoundOp, leaves: tuple[Any, ...], mask: int) -> None:
        self.bound = bound
        self.leaves: tuple[Any, ...] | None = leaves
        self.mask = mask
        self.results: tuple[ref[Pending], ...] = ()
        self.buffers: Sequence[Buffer] | None = None
        self._entry: ref[Call] | None = None

    def wait(self) -> None:
        """Enter it among `CALLS`, from which other threads may run it at once."""
        self._entry = ref(self, forget)
        CALLS[self._entry] = None

    @spells_attempt
    def run(self) -> None:
        """Enqueue the operation, if that has not been done, where it was asked for."""
        if here.are_several and self.leaves is not None and not self.is_from_here():
            with here.on(self.origin):
                attempt(self._run)
            return
        leaves, bound = self.leaves, self.bound
        is_planned = bound.executables is not None or bound.op.plan_again is not None
        if not is_planned and leaves is not None and not here.are_several and not is_locked():
            bound.plan_ahead(leaves)
        if here.are_several:
            attempt(self._run)
            return
        try:
            with FIRST_LOCK:  # `attempt`, spelled out
                self._run()
                return
        except Missing:
            if FIRST_LOCK._is_owned() and not is_finaliser(sys._getframe(0)):
                raise  # a part of what has taken the lock is repeated with it
        attempt(self._run)  # which builds it, once no traceback keeps what may be overwritten

    def _run(self) -> None:
        leaves = self.leaves
        if leaves is None:
            return
        CALLS.pop(self._entry, None)  # type: ignore[arg-type] # there is one as long as there are leaves
        bound = self.bound
        is_first, direct = not bound.has_run, bound.direct
        try:
            buffers: Sequence[Buffer]
            is_usual, near = not (is_watched or here.are_several), bound.op.run_near
            if is_usual and direct is not None and direct.version == config.version:
                buffers = (direct.run(leaves),)
            elif is_usual and near is not None and (buffer := near(bound, leaves)) is not None:
                buffers = (buffer,)
            else:
                buffers = self._watched(leaves) if is_watched else bound.run(leaves)
        except BaseException:
            self.fail()
            raise
        if self.leaves is None:  # it was run to free memory for these very Buffers
            return
        if len(buffers) == 1 and (result := self.results[0]()) is not None:  # `_settle`, spelled out
            self.leaves = self._entry = None
            result._buffer = buffer = buffers[0]
            result.ptr, result.nbytes, result.call = buffer.ptr, buffer.nbytes, None
        else:
            self._settle(buffers)
        is_selected = bound.op.gathers and balance.gathered(buffers[0], leaves)
        size = balance.ran(bound.layouts[0].nbytes, leaves)
        if size < NUM_SIZES:  # `BoundOp.weigh`, spelled out
            extra = bound.extra if is_first else 0.0
            times = 1 if extra == FIRST or bound.op.gathers or bound.op.host_weight >= HEAVY else SAMPLED
            if times == 1 or is_sampled() or balance.each:
                if is_selected or hasattr(self, "share"):
                    self._weigh(size, extra, times, is_selected=is_selected)
                else:
                    gain = bound.gains() if bound.gain is None else bound.gain
                    balance.launched(size, gain, extra=extra, times=times)
        if REPORTS:
            nbytes = sum(layout.nbytes for layout in self.bound.layouts)
            note("device", self.bound.describe(), f"{nbytes} B result, {len(leaves)} inputs")

    def _weigh(self, size: int, extra: float, times: int, *, is_selected: bool) -> None:
        """Do what `BoundOp.weigh` does where only a share is needed, or the elements that are gathered are in order."""
        bound = self.bound
        share, op = getattr(self, "share", 1.0), bound.op
        cost = share * bound.host_cost()
        if is_selected:
            cost -= (1 - IN_ORDER) * max(cost - bound.layouts[0].nbytes, 0.0)
        begun = share * bound.begun_nbytes()
        balance.computed_call(size, cost, weight=op.host_weight, price=op.price, extra=extra, times=times, begun=begun)

    def fail(self) -> None:
        """Let it wait to be run again, after an error, unless it has run, or operands have been overwritten."""
        leaves = self.leaves
        if leaves is None:
            return
        lost = self.bound.lost(leaves)
        if lost is None:
            self.wait()
        else:
            self._settle(lost)

    def finish(self, buffers: Sequence[Buffer]) -> None:
        """Say where the results are, unless that has been said."""
        if self.leaves is not None:
            CALLS.pop(self._entry, None)  # type: ignore[arg-type]
            self._settle(buffers)

    def _settle(self, buffers: Sequence[Buffer]) -> None:
        self.leaves = self._entry = None  # nobody has to be told any more when it goes
        for reference, buffer in zip(self.results, buffers, strict=True):
            result = reference()
            if result is None:
                self.buffers = buffers
            else:
                result._buffer = buffer
                result.call = None
                if type(buffer) is Buffer:  # one that has been lost refuses
                    result.ptr, result.nbytes = buffer.ptr, buffer.nbytes

    def _watched(self, leaves: tuple[Any, ...]) -> list[Buffer]:
        outer, at_work.storage = at_work.storage, self
        try:
            return self.bound.run(leaves)
        finally:
            at_work.storage = outer

    def is_from_here(self) -> bool:
        """Whether it was asked for on the calling thread's stream, whose kernels may then compute it as well."""
        if not here.are_several:
            return True
        origin = getattr(self, "origin", here.thread.timeline)
        return origin is here.thread.timeline or origin.is_closed

    def reads(self, entry: Any) -> bool:
        """Whether it is applied to a leaf."""
        for leaf in self.leaves or ():  # noqa: SIM110 - `any` costs more than the rest
            if leaf is entry:
                return True
        return False


def finish_each(calls: Sequence[Call], buffers: Sequence[Buffer]) -> None:
    """Say of each of some calls with one result where that is, as `Call.finish` does."""
    for place, call in enumerate(calls):  # a `zip` that is strict takes as long as the rest
        if call.leaves is not None:
            CALLS.pop(call._entry, None)  # type: ignore[arg-type]
            call.leaves = call._entry = None
            buffer, result = buffers[place], call.results[0]()
            if result is None:
                call.buffers = (buffer,)
            else:
                result._buffer, result.call = buffer, None
                result.ptr, result.nbytes = buffer.ptr, buffer.nbytes


def forget(entry: ref[Call]) -> None:
    """Take a call that is gone from `CALLS`."""
    CALLS.pop(entry, None)


class Pending:
    """A result of a call: the memory that it will be in, computed when `ptr` is first read.

    Attributes
    ----------
    ptr, nbytes : int
        As a Buffer's, there from when the call has run; before, `__getattr__` has it run for whoever asks.
    call : Call or None
        None once it has run.
    owner : weak reference or None
        To the storage whose value it is.
    place : int
        Among the call's results.
    """

    __slots__ = ("__weakref__", "_buffer", "call", "nbytes", "owner", "place", "ptr")

    ptr: int
    nbytes: int

    def __init__(self, call: Call, place: int = 0) -> None:
        self.call: Call | None = call
        self.place = place
        self.owner: ref[Storage] | None = None
        self._buffer: Any = None

    @property
    def buffer(self) -> Any:
        """What entries that read the same memory have in common: the Buffer, or this as long as there is none."""
        return self if self._buffer is None else self._buffer

    def __getattr__(self, name: str) -> Any:
        """What a Buffer has."""
        if name not in _OF_BUFFERS:
            raise AttributeError(name)
        call = self.call
        if call is not None:
            call.run()
            if self.call is not None:
                self._settle(call)
        return getattr(self._buffer, name)

    def _settle(self, call: Call) -> None:
        """Find out from a call that has run where this is, if the call did not know of it any more."""
        if self._buffer is None and call.buffers is not None:
            self._buffer = call.buffers[self.place]
            self.call = None

    def is_held(self) -> bool:
        """Whether an array has the result itself."""
        owner = None if self.owner is None else self.owner()
        value = None if owner is None else owner.value
        return value is not None and not value[0].nodes and value[1][0] is self

    def is_read_once(
        self, storages: Callable[[], Sequence[Storage]], most: int = 1, references: Callable[..., int] = getrefcount
    ) -> bool:
        """Whether nothing but a tuple of leaves that the caller has reads it; it alone where few references are left.

        Parameters
        ----------
        storages : callable
            Finds those that may have pending values that read it.
        most : int
            How many of these, and of the calls that wait, do so by that tuple.
        references : callable
            Counts references, of which the caller has no other.
        """
        return references(self) <= _FEWEST or self.num_readers(storages()) <= most

    def num_readers(self, storages: Sequence[Storage]) -> int:
        """How many of these have pending values that read it, and how many calls that wait do."""
        values = [value for storage in storages if (value := storage.value) is not None]
        count = sum([any(entry is self for entry in value[1]) for value in values])
        return count + sum([call.reads(self) for call in waiting() if call is not self.call])


def result_in(buffer: Buffer) -> Pending:
    """Return what stands for a result of a call that has been run at once, in a Buffer, as that of one that has waited.

    So it is known to come from large work, as what is written to parts of arrays is asked, see `placement.note_update`.
    """
    entry: Pending = object.__new__(Pending)
    entry.call = entry.owner = None
    entry.place = 0
    entry._buffer = buffer
    entry.ptr, entry.nbytes = buffer.ptr, buffer.nbytes
    return entry


_FEWEST = 0
"""References that `Pending.is_read_once` counts where a tuple and its caller alone have what it is asked of."""


def _count_fewest() -> None:
    global _FEWEST

    def count(entry: Pending) -> int:
        found.append(getrefcount(entry) - 1)
        return 0

    found: list[int] = []
    entries = (Pending(None),)  # type: ignore[arg-type]
    for entry in entries:
        entry.is_read_once(tuple, 1, count)
    (_FEWEST,) = found


_count_fewest()


def settled(value: Value) -> Value:
    """Return the value of a storage that is computed, with the Buffer where the result of a call stands for it.

    The result takes a step more each time that it is asked where it lies.
    """
    graph, leaves, mask = value
    (entry,) = leaves
    return (graph, (entry._buffer,), mask) if type(entry) is Pending and entry._buffer is not None else value


def is_waiting(value: Any) -> bool:
    """Whether a value is pending: a chain that has not been computed, or the result of a call that has not run."""
    if value[0].nodes:
        return True
    entry = value[1][0] if value[1] else None
    return type(entry) is Pending and entry.call is not None


def request(bound: BoundOp, leaves: tuple[Any, ...], mask: int) -> tuple[Call, list[Pending]]:
    """Ask for an operation; return the call and its results, which somebody has to keep or it will not run."""
    if len(CALLS) >= MAX_CALLS:
        run_calls()
    call = Call(bound, leaves, mask)
    results = [Pending(call, place) for place in range(len(bound.layouts))]
    call.results = tuple([ref(result) for result in results])
    call.wait()
    return call, results


def waiting() -> list[Call]:
    """Return the calls that have not run, in their order; a tuple would fail if one of them is collected meanwhile."""
    return [call for reference in list(CALLS) if (call := reference()) is not None]


def run_calls(is_meant: Callable[[Call], object] | None = None) -> None:
    """Run the calls that wait, all or some of them."""
    for reference in list(CALLS):  # not `waiting`, which would keep what nobody wants any more after the first ones
        call = reference()
        if call is not None and (is_meant is None or is_meant(call)):
            call.run()
