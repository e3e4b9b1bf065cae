"""Chains of reductions along rows of sizes that have not been met: one launch, by arithmetic on layouts.

`rowwise` plans a program for given layouts, which takes longer than a loop over ever new sizes gains by it. But what a
kernel computes of the rows of a matrix depends on their length alone: ``np.sqrt((x[i:] ** 2).sum(axis=1))`` runs the
same one for any number of rows. So what is launched is kept by structures and strides, and where the reductions by
themselves would run the same kernels as when it was planned, so does this: it gives the same bits as they do.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

from oxinp._config import config
from oxinp._core.lazy.balance import NUM_SIZES, balance, host_nbytes, is_sampled
from oxinp._core.lazy.building import missing
from oxinp._core.lazy.calls import CALLS, Pending, waiting
from oxinp._core.lazy.executor import anywhere
from oxinp._core.lazy.expr import new_table
from oxinp._core.lazy.placement import device
from oxinp._core.lazy.row_programs import merged
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.recent import MEETINGS
from oxinp._kernels.choice import MIN_TUNED_NBYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._core.lazy.calls import Call
    from oxinp._core.lazy.expr import Graph
    from oxinp._core.lazy.op import AlongRows
    from oxinp._core.memory.storage import Storage

ACCESS = 16  # bytes: whether an address is a multiple of more makes no difference
MAX_RANGES = 16
NEAR, NEAR_MEASURED = 2, 8
"""By which part numbers of rows differ between which reductions run the same kernels if they do at both; and where the
kernels are those that were measured near the problem, in steps of 2."""
MAX_REUSED = 3
"""Times that the result of a reduction was asked for after the chain had been computed without it."""

_ALIKE = new_table()


class RowLaunch(NamedTuple):
    """A chain and its reductions as one launch.

    Attributes
    ----------
    run : callable
        Launches the kernel with any grid and parameters.
    grid : tuple of int
    parameters : list
        Addresses and scalars behind the output's.
    constants : tuple of int
    alike : Alike
    calls : list of Call
        The reductions.
    """

    run: Any
    grid: tuple[int, int, int]
    parameters: list[Any]
    constants: tuple[int, ...]
    alike: Alike
    calls: list[Call]


_launch = partial(tuple.__new__, RowLaunch)  # of its fields, without a frame of Python's


class Alike:
    """Chains that differ in the number of rows.

    Attributes
    ----------
    version : int
        Of the settings.
    ranges : list of (int, int, AnyRows or None)
        Numbers of rows from one to another one, and what computes them.
    by_kernels : dict
        The same by the kernels that the reductions are by themselves.
    order : tuple of int
        The parameters among the leaves of the chain and then those of the reductions.
    met : int
    last : weak reference or None
        To the latest reduction that has not run.
    reused : int
        How many of these have run later: what needs them besides would have them computed twice.
    """

    __slots__ = ("by_kernels", "last", "met", "order", "ranges", "reused", "version")

    def __init__(self) -> None:
        self.version = config.version
        self.ranges: list[tuple[int, int, Any]] = []
        self.by_kernels: dict[tuple[Any, ...], Any] = {}
        self.order: tuple[int, ...] = ()
        self.met = self.reused = 0
        self.last: ref[Call] | None = None

    def find(self, graph: Graph, target: Layout, calls: dict[int, Call], reductions: Sequence[AlongRows]) -> Any:
        """Return what computes a graph of so many rows, which are in none of the ranges; None where nothing does."""
        num_rows = target.shape[0]
        kernels = _kernels_of(reductions, num_rows)
        if kernels is None:
            return None
        if kernels not in self.by_kernels:
            self.met += 1
            if self.met < MEETINGS:
                return None
            missing(lambda: self._build(graph, target, calls, kernels))
        found = self.by_kernels[kernels]
        self._extend(reductions, num_rows, kernels, found)
        return found

    def _build(self, graph: Graph, target: Layout, calls: dict[int, Call], kernels: tuple[Any, ...]) -> None:
        count = len(graph.leaves)
        bound: dict[int, Any] = {}
        for place, call in calls.items():
            leaves = call.leaves or ()
            bound[place] = call.bound, tuple(range(count, count + len(leaves)))
            count += len(leaves)
        program = merged(graph, tuple(range(len(graph.leaves))), bound)
        found = None
        if program is not None and len(program.absorbed) == len(calls):
            found = program.any_rows(graph, target)
            self.order = tuple(program.entries)
        self.by_kernels[kernels] = found

    def _extend(self, reductions: Sequence[AlongRows], num_rows: int, kernels: tuple[Any, ...], found: Any) -> None:
        """Note numbers of rows around one for which the reductions run the same kernels, as they do at both ends."""
        nbytes = num_rows * max([each.shape[1] * each.nbytes for each in reductions])
        share = NEAR if nbytes < MIN_TUNED_NBYTES else NEAR_MEASURED
        ends = max(2, num_rows - num_rows // share), num_rows + num_rows // share
        least, most = [end if _kernels_of(reductions, end) == kernels else num_rows for end in ends]
        if least < most:
            if len(self.ranges) >= MAX_RANGES:
                self.ranges.clear()
            self.ranges.append((least, most, found))


def _kernels_of(reductions: Sequence[AlongRows], num_rows: int) -> tuple[Any, ...] | None:
    """Return the kernels of reductions of so many rows; None where one has none, or takes more than one launch."""
    capability = device().capability
    kernels: tuple[Any, ...] = ()
    for planner, (_, length), steps, alignments, _ in reductions:
        again = planner.rows_again((num_rows, length), steps, alignments, 1, capability)
        if type(again) is not tuple:
            return None
        kernels += (again[0],)
    return kernels


def launch_of(graph: Graph, entries: tuple[Any, ...], target: Layout, others: Sequence[Storage]) -> RowLaunch | None:
    """Return the launch of a chain of reductions that have not run into a layout of one dimension; else None.

    Parameters
    ----------
    graph : Graph
    entries : tuple
        Its leaves.
    target : Layout
    others : sequence of Storage
        What else may be pending.
    """
    (num_rows,) = target.shape
    kinds: tuple[Any, ...] = ()
    calls: dict[int, Call] = {}
    reductions: list[AlongRows] = []
    given = entries
    for place, (where, entry) in enumerate(zip(graph.leaves, entries, strict=True)):
        if type(where) is not Layout:
            continue
        call = entry.call if type(entry) is Pending else None
        if call is None or call.leaves is None:
            if not where.is_aligned:
                return None
            kinds += (where.strides, where.alignment % ACCESS)
            continue
        along = call.bound.along_rows()
        if along is None or along[1][0] != num_rows or where.strides != (where.dtype.itemsize,):
            return None
        for other in call.leaves:
            if type(other) is Pending and other.call is not None:
                return None
        if call in calls.values() or _is_needed(entry, others):
            return None
        calls[place] = call
        reductions.append(along)
        planner, (_, length), steps, alignments, _ = along
        kinds += (planner, length, steps, *[alignment % ACCESS for alignment in alignments])
        given += call.leaves
    if not calls or graph.structure.has_parts:
        return None
    alike = _alike((graph.structure, kinds, target.strides, target.alignment % ACCESS))
    if alike is None:
        return None
    for least, most, known in alike.ranges:
        if least <= num_rows <= most:
            found = known
            break
    else:
        found = alike.find(graph, target, calls, reductions)
    if found is None or num_rows > found[-1]:
        return None
    kernel, before, after, per_block, cluster, _ = found  # `AnyRows.again`, spelled out
    run = anywhere(kernel)
    if run is None:
        return None
    grid = -(-num_rows // per_block) * cluster, 1, 1
    parameters = [getattr(given[place], "ptr", given[place]) for place in alike.order]
    return _launch((run, grid, parameters, (*before, num_rows, *after), alike, [*calls.values()]))


def run(launch: RowLaunch, ptr: int, graph: Graph, nbytes: int, entries: tuple[Any, ...]) -> None:
    """Enqueue it, its result going to an address, and let placement learn that.

    Parameters
    ----------
    launch, ptr
    graph, entries
        The chain and its leaves.
    nbytes : int
        Of the array that is written to.
    """
    run, grid, parameters, constants, alike, calls = launch
    run(grid, ptr, *parameters, *constants)
    alike.last = ref(calls[0])
    for call in calls:
        entries += call.leaves or ()
    size = balance.ran(nbytes, entries)
    if size < NUM_SIZES and is_sampled():
        cost = host_nbytes(graph.structure) * graph.layout.size
        balance.computed_call(size, cost + sum([call.bound.host_cost() for call in calls]))


def _alike(key: Any) -> Alike | None:
    """Return what is known of chains by a key; None where their reductions are needed besides."""
    alike: Alike | None = _ALIKE.get(key) or _ALIKE.recall(key)
    if alike is None or alike.version != config.version:
        alike = Alike()
        _ALIKE.remember(key, alike)
    call = None if alike.last is None else alike.last()
    if call is not None and call.leaves is None:
        alike.reused += 1
        alike.last = None
    return None if alike.reused >= MAX_REUSED else alike


def _is_needed(entry: Pending, others: Sequence[Storage]) -> bool:
    """Whether an array has the result of a reduction, or something else that waits reads it."""
    owner = None if entry.owner is None else entry.owner()  # `Pending.is_held`, spelled out
    value = None if owner is None else owner.value
    if value is not None and not value[0].nodes and value[1][0] is entry:
        return True
    for other in others:
        value = other.value
        if value is not None and value[0].nodes and entry in value[1]:
            return True
    return len(CALLS) > 1 and any(call.reads(entry) for call in waiting())


__all__ = ["RowLaunch", "launch_of", "run"]
