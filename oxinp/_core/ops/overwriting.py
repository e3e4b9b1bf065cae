"""Operations whose result may take its operand's place: in memory that nothing else has, one array less is needed.

An operand is used for the last time where the call alone still holds its Buffer: no array has it any more, nothing that
is pending reads it, no other library has seen it.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from sys import getrefcount
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from oxinp._core.lazy import calls, schedule
from oxinp._core.lazy.building import attempt
from oxinp._core.lazy.calls import Call, Pending
from oxinp._core.lazy.expr import new_table, remember
from oxinp._core.lazy.handle import operand_chain
from oxinp._core.lazy.lost import LostBuffer, lose
from oxinp._core.lazy.op import SPARE, BoundOp
from oxinp._core.lazy.placement import device, keyed
from oxinp._core.lazy.record import is_hosted
from oxinp._core.lazy.results import wrap_result
from oxinp._core.lazy.stores import store_result
from oxinp._core.memory.storage import SHARED
from oxinp._core.ops.perform import perform
from oxinp._runtime import here
from oxinp._runtime.counters import stats
from oxinp._runtime.memory import Buffer

if TYPE_CHECKING:
    from collections.abc import Hashable

    from oxinp._core.lazy.expr import Graph
    from oxinp._core.lazy.handle import Handle
    from oxinp._core.lazy.op import Op
    from oxinp._core.memory.layout import Layout
    from oxinp._core.memory.storage import Value

SHARE = 2  # part of the device's memory that a workspace may have, beyond which the spare plan is run
FEWEST = 1 << 28  # bytes of a workspace from which on it is asked how much memory there is


class Overwriting(BoundOp):
    """An operation with one operand and one result, which its plan may be given the same memory for.

    Parameters
    ----------
    op : Op
        With a spare plan.
    graph : Graph
        The operand's.
    layout : Layout
        The result's.
    parameters : hashable
    """

    __slots__ = ("may_overwrite",)

    def __init__(self, op: Op, graph: Graph, layout: Layout, parameters: Hashable) -> None:
        super().__init__(op, (graph,), (layout,), parameters)
        self.may_overwrite = not graph.nodes and graph.layout.same(layout)

    def run(self, leaves: tuple[Any, ...]) -> list[Buffer]:
        """Enqueue it, into a new Buffer or the operand's."""
        if not self.may_overwrite or here.are_several:
            return self._enqueue(leaves)
        first = leaves[0]
        first.ptr  # noqa: B018 - which has it computed
        is_pending = type(first) is Pending
        if _holders(leaves) != _fewest(is_pending, calls.is_watched):
            return self._enqueue(leaves)
        buffer = first._buffer if is_pending else first
        if type(buffer) is not Buffer or buffer.nbytes != self.layouts[0].nbytes or device().is_captured:
            return self._enqueue(leaves)  # what a graph reads has to be there when it is launched again
        return self._overwrite(leaves, buffer)

    def lost(self, leaves: tuple[Any, ...]) -> list[Buffer] | None:
        """Return what stands for the result where it failed when it had begun to overwrite its operand."""
        first = leaves[0]
        buffer = first._buffer if type(first) is Pending else first
        return [buffer] if type(buffer) is LostBuffer else None

    def _enqueue(self, leaves: tuple[Any, ...]) -> list[Buffer]:
        """Enqueue it into a new Buffer, with less workspace where there is little memory."""
        if self.executables is None:
            is_large = self.planned is not None and _is_too_large(self.planned[2].scratch_nbytes)
            made = None if is_large else self.run_first(None, leaves)
            if made is not None:
                return made
        executable = self.executable()
        self.has_run = True
        if not executable.scratch_nbytes:
            if not (self.may_overwrite or here.are_several):
                self.run_directly(executable)
            return [executable.run(leaves)]
        if not _is_too_large(executable.scratch_nbytes):
            with suppress(MemoryError), device().pool.keeping_arrays:
                return [executable.run(leaves)]
        return [self.executable(SPARE).run(leaves)]

    def _overwrite(self, leaves: tuple[Any, ...], target: Buffer) -> list[Buffer]:
        """Enqueue it into the operand's Buffer; all that may be short is there before the first launch."""
        executable = self.executable()
        self.has_run = True
        scratch = None
        if executable.scratch_nbytes:
            if not _is_too_large(executable.scratch_nbytes):
                with suppress(MemoryError), device().pool.keeping_arrays:
                    scratch = executable.allocate(executable.scratch_nbytes)
            if scratch is None:
                executable = self.executable(SPARE)
                scratch = executable.allocate(executable.scratch_nbytes)
        arguments = executable.arguments(leaves)  # whatever has to be computed, or built, for them first
        num_launches = stats.launches
        try:
            executable.run_over(target.ptr, arguments, scratch)
        except BaseException as error:
            lose(target, error, num_launches)
            raise
        return [target]


def _is_too_large(nbytes: int) -> bool:
    """Whether a workspace would have more of the memory than it may."""
    if nbytes < FEWEST:
        return False
    pool = device().pool
    most = pool.stats().total_nbytes if pool.limit_nbytes is None else pool.limit_nbytes
    return nbytes * SHARE > most


def _holders(leaves: tuple[Any, ...]) -> tuple[int, ...]:
    """How many references there are to the leaves, to the first, and to its Buffer if it is another call's result."""
    first = leaves[0]
    own = getrefcount(first._buffer) if type(first) is Pending else 0
    return getrefcount(leaves), getrefcount(first), own


class _Counted(Exception):
    """What `_holders` found."""


class _Counting:
    """In a call, what an operation is that finds out how many references the call itself has to its leaves."""

    op = SimpleNamespace(plan_again=None, run_near=None)
    direct = None
    executables: dict[Any, Any] = {}  # noqa: RUF012 - none: it has been planned
    has_run = True

    def run(self, leaves: tuple[Any, ...]) -> list[Buffer]:
        """As `Overwriting.run` begins."""
        first = leaves[0]
        first.ptr  # noqa: B018
        raise _Counted(*_holders(leaves))

    def lost(self, leaves: tuple[Any, ...]) -> None:
        """None: nothing was overwritten."""


@lru_cache(4)
def _fewest(is_pending: bool, is_watched: bool) -> tuple[int, ...]:  # noqa: ARG001 - it changes what a call does
    """What `_holders` finds where nothing but the call has its leaves, which depends on the interpreter's version."""
    call = _call_of(is_pending)
    try:
        call.run()
    except _Counted as found:
        call.leaves = None
        call.finish(())
        return found.args
    raise AssertionError("a call that did not run")


def _call_of(is_pending: bool) -> Call:
    """A call that nothing else has the leaves of."""
    if not is_pending:
        return Call(_Counting(), (SimpleNamespace(ptr=0),), 0)  # type: ignore[arg-type]
    result = Pending(None)  # type: ignore[arg-type]
    result._buffer = SimpleNamespace(ptr=0)
    return Call(_Counting(), (result,), 0)  # type: ignore[arg-type]


BOUND = new_table()
"""Operations by what they are, their operand's graph, and parameters."""


def bind_overwriting(op: Op, graph: Graph, parameters: Hashable) -> Overwriting:
    """Return an operation bound to an operand; raises what `Op.infer` raises."""
    key = keyed((op, graph, parameters)) if here.are_several else (op, graph, parameters)
    bound: Overwriting | None = BOUND.get(key) or BOUND.recall(key)
    if bound is None:
        assert op.infer is not None
        (layout,) = op.infer((graph.layout,), parameters)
        bound = Overwriting(op, graph, layout, parameters)
        remember(BOUND, key, bound)
    return bound


def perform_overwriting(op: Op, x: Handle, parameters: tuple[Hashable, ...]) -> Any:
    """Compute an operation as `perform` does, with its result in the operand's place where that is its last use."""
    if is_hosted((x,)):
        return perform(op, (x,), parameters)
    return wrap_result(attempt(_asked, op, x, parameters), as_array=True)


def _asked(op: Op, x: Handle, parameters: tuple[Hashable, ...]) -> Value:
    storage = x._held or x._storage
    value: Any = storage.value
    if getattr(storage, "is_updated", False) and value is not None and Pending in map(type, value[1]):
        schedule.materialise(storage)  # somebody keeps it: the results of calls that it reads would grow in number
    graph, leaves, mask = operand_chain(x)
    return schedule.defer(bind_overwriting(op, graph, parameters), leaves, mask, depth=4)[0]


def defer_like(call: Call, bound: BoundOp, leaves: tuple[Any, ...], given: tuple[Any, ...], mask: int) -> Value | None:
    """Ask for an operation on what a call is applied to, in an attempt; None if that has run meanwhile.

    Parameters
    ----------
    call : Call
    bound : BoundOp
        What is asked for instead of it, or as well.
    leaves : tuple
        The call's.
    given : tuple
        What the operation is applied to.
    mask : int
        Of these.
    """
    return schedule.defer(bound, given, mask, depth=5)[0] if call.leaves is leaves else None


def take_over(target: Handle, result: Handle) -> bool:
    """Give an array that is whole, and on the device, the value of a result, which may lie in its memory then.

    Returns False, and does nothing, where the array or the result is no such thing.
    """
    storage = target._storage
    value = result._storage.value
    if value is None or value[0].nodes or storage.value is None or storage.value[2] & SHARED:
        return False
    if target._view is not None or result._view is not None or not value[0].layout.same(target._layout):
        return False
    store_result(target, value)
    return True


__all__ = ["BOUND", "Overwriting", "bind_overwriting", "defer_like", "perform_overwriting", "take_over"]
