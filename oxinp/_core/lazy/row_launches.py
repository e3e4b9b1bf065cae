"""Chains of reductions along rows of sizes that have not been met: one launch, by arithmetic on layouts.

`rowwise` plans a program for given layouts, which takes longer than a loop over ever new sizes gains by it. But what a
kernel computes of the rows of a matrix depends on their length alone: ``np.sqrt((x[i:] ** 2).sum(axis=1))`` runs the
same one for any number of rows. And one of a single row, as in ``v / np.linalg.norm(v)``, serves all lengths of which
each thread has as many units. So what is launched is kept by structures and strides, and where the reductions by
themselves would run the same kernels as when it was planned, so does this: it gives the same bits as they do.
"""

from __future__ import annotations

import importlib
import math
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

from oxinp._config import config
from oxinp._core.lazy.balance import CALL, HOST_RATE, LAUNCH, NUM_SIZES, RELAUNCHED, balance, host_nbytes, is_sampled
from oxinp._core.lazy.building import missing
from oxinp._core.lazy.calls import CALLS, Pending
from oxinp._core.lazy.executor import loaded
from oxinp._core.lazy.expr import new_table
from oxinp._core.lazy.op import BoundOp
from oxinp._core.lazy.placement import device
from oxinp._core.lazy.row_programs import merged
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.recent import MEETINGS
from oxinp._kernels.nest import MAX_INDEX_32

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._core.lazy.calls import Call
    from oxinp._core.lazy.expr import Graph
    from oxinp._core.lazy.op import AlongRows
    from oxinp._core.lazy.row_programs import RowProgram
    from oxinp._core.memory.storage import Storage
    from oxinp._runtime.backend import Backend

CHOICE = "oxinp._kernels.choice"  # which only who needs it pays for
ONE = 1, 1, 1
ACCESS = 16  # bytes: whether an address is a multiple of more makes no difference
MAX_RANGES = 16
NEAR, NEAR_MEASURED = 2, 8
"""By which part numbers of rows differ between which reductions run the same kernels if they do at both; and where the
kernels are those that were measured near the problem, in steps of 2."""
NEARBY, MAX_NEARBY = "rows of which but the number differs", 16
"""By which a structure keeps what was last found, by strides and alignment of what that was written to, and of how many
of these."""
LENGTHS = "lengths of rows"  # by which a structure keeps the latest matrix, and how many in turn had rows of new ones
LENGTHS_OF_SHORT = "lengths of short vectors"  # by which it keeps the same of what numbers are made of
NO_ROWS = "no reductions along rows"  # by which it keeps that it has been met with what is none
MAX_LENGTHS, LOOKS = 8, 16  # beyond which chains of the structure are looked at one time in so many
OFTEN = 9  # times that chains are met before a kernel is made of them and their reductions
LOOKED_UP, FOUND = LAUNCH + RELAUNCHED, LAUNCH + 2 * RELAUNCHED
"""Microseconds of a launch that one look-up leads to, and of one that takes arithmetic."""
CALL_NBYTES = CALL * HOST_RATE
"""Bytes that NumPy adds in the time of a call."""
SHORT, OFTEN_OF_SHORT = 1 << 8, 999
"""Elements of vectors of which kernels serve a few lengths, and the same for those."""
MAX_REUSED = 3
"""Times that the result of a reduction was asked for after the chain had been computed without it."""

_ALIKE = new_table()
_KNOWN: Any = new_table()
"""Graphs of lines, and what gives the results that they are made of, that have come again -> the version of the
settings, what launches both, its backend and constants, and what they are alike."""


class RowLaunch(NamedTuple):
    """A chain and its reductions as one launch.

    Attributes
    ----------
    run : callable
        Launches the kernel with any grid and parameters.
    backend : Backend
        Of the device that it runs on.
    grid : tuple of int
    entries : tuple
        Of the leaves of the chain and of those of the reductions what the kernel reads.
    constants : tuple of int
    alike : Alike
    calls : list of Call
        The reductions.
    price : float
        Microseconds that it takes the host, by how it was found.
    """

    run: Any
    backend: Backend
    grid: tuple[int, int, int]
    entries: tuple[Any, ...]
    constants: tuple[int, ...]
    alike: Alike
    calls: list[Call]
    price: float


_launch = partial(tuple.__new__, RowLaunch)  # of its fields, without a frame of Python's


class Alike:
    """Chains that differ in the number of rows, or in the length of a single one.

    Attributes
    ----------
    version : int
        Of the settings.
    ranges : list of (int, int, AnyRows, AnyLine or None)
        Numbers of rows, or lengths, from one to another one, and what computes them.
    by_kernels : dict
        The same by the kernels that the reductions are by themselves. Of vectors the elements of a unit, the units of
        which each thread has a batch, and by the number of those batches what computes them.
    order : tuple of int
        The parameters among the leaves of the chain and then those of the reductions.
    size : int
        The latest number of rows, or length.
    met : dict
        How often they have been met, by the same kernels.
    last : weak reference or None
        To the latest reduction that has not run.
    reused : int
        How many of these have run later: what needs them besides would have them computed twice.
    """

    __slots__ = ("by_kernels", "last", "met", "order", "ranges", "reused", "size", "version")

    def __init__(self) -> None:
        self.version = config.version
        self.ranges: list[tuple[int, int, Any]] = []
        self.by_kernels: dict[tuple[Any, ...], Any] = {}
        self.order: tuple[int, ...] = ()
        self.met: dict[tuple[Any, ...], int] = {}
        self.reused = self.size = 0
        self.last: ref[Call] | None = None

    def find(self, graph: Graph, target: Layout, calls: dict[int, Call], reductions: Sequence[AlongRows]) -> Any:
        """Return what computes a graph of a size that is in none of the `ranges`; None where nothing does."""
        find = self._find if len(reductions[0].shape) > 1 else self._find_line
        return find(graph, target, calls, reductions)

    def _find(self, graph: Graph, target: Layout, calls: dict[int, Call], reductions: Sequence[AlongRows]) -> Any:
        """Return what computes a graph of so many rows, which are in none of the ranges; None where nothing does."""
        num_rows = target.shape[0]
        kernels = _kernels_of(reductions, num_rows)
        if kernels is None:
            return None
        if kernels not in self.by_kernels:
            if not self._has_met(kernels, num_rows, OFTEN):
                return None
            missing(lambda: self._build(graph, target, calls, kernels))
        found = self.by_kernels[kernels]
        self._extend(reductions, num_rows, kernels, found)
        return found

    def _has_met(self, kernels: tuple[Any, ...], size: int, times: int) -> bool:
        """Whether chains have been met some times whose reductions run these kernels; those of another size count more.

        What is compiled for them takes as long as thousands of launches; it is of no use for a few.
        """
        count = self.met[kernels] = self.met.get(kernels, 0) + (1 if size == self.size else MEETINGS)
        self.size = size
        return count > times

    def _build(self, graph: Graph, target: Layout, calls: dict[int, Call], kernels: tuple[Any, ...]) -> None:
        program = self._merged(graph, calls)
        self.by_kernels[kernels] = None if program is None else program.any_size(graph, target)

    def _merged(self, graph: Graph, calls: dict[int, Call]) -> RowProgram | None:
        """Return the program of a chain and all its reductions; None where there is none."""
        count = len(graph.leaves)
        bound: dict[int, Any] = {}
        for place, call in calls.items():
            leaves = call.leaves or ()
            bound[place] = call.bound, tuple(range(count, count + len(leaves)))
            count += len(leaves)
        program = merged(graph, tuple(range(len(graph.leaves))), bound)
        if program is None or len(program.absorbed) < len(calls):
            return None
        self.order = tuple(program.entries)
        return program

    def _extend(self, reductions: Sequence[AlongRows], num_rows: int, kernels: tuple[Any, ...], found: Any) -> None:
        """Note numbers of rows around one for which the reductions run the same kernels, as they do at both ends."""
        nbytes = num_rows * max([each.shape[1] * each.planner.nbytes for each in reductions])
        least_tuned: int = importlib.import_module(CHOICE).MIN_TUNED_NBYTES
        share = NEAR if nbytes < least_tuned else NEAR_MEASURED
        ends = max(2, num_rows - num_rows // share), num_rows + num_rows // share
        least, most = [end if _kernels_of(reductions, end) == kernels else num_rows for end in ends]
        if least < most:
            self._enter(least, most, found)

    def _enter(self, least: int, most: int, found: Any) -> None:
        if len(self.ranges) >= MAX_RANGES:
            self.ranges.clear()
        self.ranges.append((least, most if found is None else min(most, found.most), found))

    def _find_line(self, graph: Graph, target: Layout, calls: dict[int, Call], reductions: Sequence[AlongRows]) -> Any:
        """Return what computes a graph of so long vectors, see `AnyLine`; None where nothing does."""
        (size,) = reductions[0].shape
        kernels = _kernels_of_lines(reductions, size)
        if kernels is None:
            return None
        if kernels not in self.by_kernels:
            if not self._has_met(kernels, size, OFTEN if size >= SHORT else OFTEN_OF_SHORT):
                return None
            missing(lambda: self._build_line(graph, target, calls, kernels))
        vector, per_round, lines = self.by_kernels[kernels]
        count = -(-(size // vector) // per_round)
        if count not in lines:
            missing(lambda: self._build_line(graph, target, calls, kernels))
        found = lines[count]
        least, most = max(2, ((count - 1) * per_round + 1) * vector), (count * per_round + 1) * vector - 1
        while least < size and _kernels_of_lines(reductions, least) != kernels:
            least = (least + size + 1) // 2
        while most > size and _kernels_of_lines(reductions, most) != kernels:
            most = (most + size) // 2
        self._enter(least, most, found)
        return found

    def _build_line(self, graph: Graph, target: Layout, calls: dict[int, Call], kernels: tuple[Any, ...]) -> None:
        program = self._merged(graph, calls)
        if program is None:  # whatever the length
            self.by_kernels[kernels] = 1, MAX_INDEX_32, {1: None}
            return
        (size,) = program.rows.shape
        vector, per_round, lines = self.by_kernels.setdefault(kernels, (*program.units_of_round(), {}))
        lines[-(-(size // vector) // per_round)] = program.any_size(graph, target)


def _kernels_of_lines(reductions: Sequence[AlongRows], size: int) -> tuple[Any, ...] | None:
    """Return the kernels of reductions of vectors of a size; None where one has none, or takes more than one launch."""
    num_sms = device().capability.num_sms
    kernels: tuple[Any, ...] = ()
    for planner, _, steps, alignments in reductions:
        again = planner.line_again(size, steps, alignments, num_sms)
        if again is None:
            return None
        kernels += (again[0],)
    return kernels


def _kernels_of(reductions: Sequence[AlongRows], num_rows: int) -> tuple[Any, ...] | None:
    """Return the kernels of reductions of so many rows; None where one has none, or takes more than one launch."""
    capability = device().capability
    kernels: tuple[Any, ...] = ()
    for planner, (_, length), steps, alignments in reductions:
        again = planner.rows_again((num_rows, length), steps, alignments, 1, capability)
        if type(again) is not tuple:
            return None
        kernels += (again[0],)
    return kernels


def row_launch(graph: Graph, entries: tuple[Any, ...], target: Layout, others: Sequence[Storage]) -> RowLaunch | None:
    """Return the launch of a chain of reductions that have not run into a layout of a dimension or none; else None.

    Parameters
    ----------
    graph : Graph
    entries : tuple
        Its leaves.
    target : Layout
    others : sequence of Storage
        What else may be pending.
    """
    kind = target.strides, target.alignment % ACCESS
    nearby = graph.structure.plans.get(NEARBY) if target.shape else None
    near = None if nearby is None else nearby.get(kind)
    if near is not None and (found := _find_near(near, graph, entries, target, others)) is not None:
        return found
    calls: list[Call] = []
    waiting: list[Pending] = []
    key: tuple[Any, ...] = graph, *kind
    given = entries
    for entry in entries:
        if type(entry) is Pending and (call := entry.call) is not None and call.leaves is not None:
            key += (call.bound,)
            waiting.append(entry)
            calls.append(call)
            given += call.leaves
    known = _KNOWN.get(key) or (_KNOWN.recall(key) if _KNOWN.old else None)
    if known is None or known[0] != config.version or (len(calls) > 1 and len(set(calls)) < len(calls)):
        return _find(graph, entries, target, others)
    if any(map(_is_needed, waiting, calls, repeat(others))):
        return None
    _, run, backend, constants, alike = known
    if _is_reused(alike):
        return None
    read = tuple([given[place] for place in alike.order])
    return _launch((run, backend, ONE, read, constants, alike, calls, LOOKED_UP))


def _find_near(
    near: tuple[Any, ...], graph: Graph, entries: tuple[Any, ...], target: Layout, others: Sequence[Storage]
) -> RowLaunch | None:
    """Return what `_find` does where but the number of rows is as when it last found something, see `_note`."""
    version, place, op, parameters, structure, kinds, (least, most, run, backend, found, alike) = near
    entry = entries[place]
    if version != config.version or type(entry) is not Pending or (call := entry.call) is None:
        return None
    bound, leaves = call.bound, call.leaves
    if type(bound) is not BoundOp or bound.op is not op or bound.parameters is not parameters or leaves is None:
        return None
    (rows,) = bound.graphs
    (size, length), where = rows.shape, graph.leaves[place]
    if rows.structure is not structure or target.shape != (size,) or where.strides != (where.dtype.itemsize,):
        return None
    if not least <= size <= most or length != kinds[0] or bound.layouts[0].ndim != 1:
        return None
    at = 1
    for read in rows.leaves:  # `_kinds_of`, spelled out
        if type(read) is Layout:
            if read.strides != kinds[at] or read.alignment % ACCESS != kinds[at + 1]:
                return None
            at += 2
    owner = entry.owner
    if (others or len(CALLS) > 1 or (owner is not None and owner() is not None)) and _is_needed(entry, call, others):
        return None
    last = alike.last
    if alike.reused >= MAX_REUSED or (last is not None and last() is not None and _is_reused(alike)):
        return None
    plans = graph.structure.plans
    (last_size, last_length), count = plans[LENGTHS]
    if count and last_length == length and last_size != size:  # as `_has_rows_of_ever_new_lengths` has it
        plans[LENGTHS] = rows.shape, 0
    _, before, after, per_block, cluster, _ = found
    given, constants = entries + leaves, (*before, size, *after)
    gathered = tuple([given[each] for each in alike.order])
    return _launch(
        (run, backend, (-(-size // per_block) * cluster, 1, 1), gathered, constants, alike, [call], LOOKED_UP)
    )


def _kinds_of(rows: Graph) -> list[Any]:
    """Return how rows are read, whatever their number."""
    kinds: list[Any] = [rows.shape[1]]
    for where in rows.leaves:
        if type(where) is Layout:
            kinds += where.strides, where.alignment % ACCESS
    return kinds


def _note(graph: Graph, target: Layout, calls: dict[int, Call], known: tuple[Any, ...]) -> None:
    """Note what has been found of the only array of a chain, a reduction, for any number of rows from one to another.

    So it takes one look at the structure of the chain, and nothing is hashed.
    """
    ((place, call),) = calls.items()
    bound = call.bound
    if type(bound) is BoundOp and sum(graph.structure.are_arrays) == 1:
        (rows,) = bound.graphs
        made_of = place, bound.op, bound.parameters, rows.structure, _kinds_of(rows)
        nearby = graph.structure.plans.setdefault(NEARBY, {})
        if len(nearby) >= MAX_NEARBY:
            nearby.clear()
        nearby[target.strides, target.alignment % ACCESS] = config.version, *made_of, known


def _find(graph: Graph, entries: tuple[Any, ...], target: Layout, others: Sequence[Storage]) -> RowLaunch | None:
    """Return what `row_launch` does of what has not been met often; of vectors it is known from then on."""
    extents = target.shape
    lengths = graph.structure.plans.get(LENGTHS if extents else LENGTHS_OF_SHORT)
    kinds: tuple[Any, ...] = target.strides, target.alignment % ACCESS
    calls: dict[int, Call] = {}
    reductions: list[AlongRows] = []
    given, place, first = entries, -1, None
    for where in graph.leaves:
        place += 1
        if type(where) is not Layout:
            continue
        entry = entries[place]
        call = entry.call if type(entry) is Pending else None
        if call is None or call.leaves is None:
            if not where.is_aligned:
                return None
            kinds += (where.strides, where.alignment % ACCESS)
            continue
        along = _along_rows(graph, call)
        if along is None or call in calls.values() or _is_needed(entry, call, others):
            return None
        planner, own, steps, alignments = along
        if first is None:
            first = own
            if len(own) == 2 and _has_rows_of_ever_new_lengths(graph, own):
                return None
        is_line = len(own) == 1
        if len(first) != len(own) or first[0] != own[0]:
            return None
        if where.strides != (_STILL[len(extents)] if is_line else (where.dtype.itemsize,)):
            return None
        calls[place] = call
        reductions.append(along)
        kinds += (planner, own[1:], steps, *[alignment % ACCESS for alignment in alignments])
        given += call.leaves
    if first is None or (extents != first[:1] and (extents or len(first) > 1)) or graph.structure.has_parts:
        return None
    alike = _alike((graph.structure, kinds))
    if alike is None:
        return None
    size = first[0]
    for least, most, known in alike.ranges:
        if least <= size <= most:
            found = known
            break
    else:
        least = most = size
        found = alike.find(graph, target, calls, reductions)
        if found is None and size < SHORT and not extents:  # it is not soon that kernels are made for these
            graph.structure.plans[LENGTHS_OF_SHORT] = (0, 0), (0 if lengths is None else lengths[1]) + 1
    if found is None or size > found.most:
        return None
    run, backend = loaded(found[0])
    if run is None:
        return None
    grid = ONE
    if len(first) == 1:
        _, before, vector, has_rest, _ = found
        count = size // vector
        constants = (*before, 1, count, size - count * vector) if has_rest else (*before, 1, count)
    else:
        _, before, after, per_block, cluster, _ = found
        grid, constants = (-(-size // per_block) * cluster, 1, 1), (*before, size, *after)
        if len(calls) == 1:
            _note(graph, target, calls, (least, most, run, backend, found, alike))
    read = tuple([given[place] for place in alike.order])
    if len(first) == 1:
        bounds = [call.bound for call in calls.values()]
        if _KNOWN.has_met((graph.structure, size, target.strides), graph, *bounds):
            key = (graph, target.strides, target.alignment % ACCESS, *bounds)
            _KNOWN.remember(key, (config.version, run, backend, constants, alike))
    price = LOOKED_UP if grid is ONE else FOUND  # of vectors it is mostly looked up, too
    return _launch((run, backend, grid, read, constants, alike, [*calls.values()], price))


def _along_rows(graph: Graph, call: Call) -> AlongRows | None:
    """Return how what a chain waits for goes along rows; it is kept by its structure where it does not."""
    along: AlongRows | None = call.bound.along_rows()
    if along is None:
        graph.structure.plans[NO_ROWS] = True
    return along


def is_worth_a_look(graph: Graph, entries: tuple[Any, ...], target: Layout) -> bool:
    """Whether to ask for the launch of a chain: nearly never where its like is met with ever new lengths.

    Not where the first that waits among the leaves is no reduction along rows, if that has been so before.

    Of elements that are so where the first reduction among the leaves that has not run is of a short vector.
    """
    plans, kind = graph.structure.plans, LENGTHS if target.shape else LENGTHS_OF_SHORT
    lengths = plans.get(kind)
    if lengths is None or lengths[1] <= MAX_LENGTHS:
        return NO_ROWS not in plans or not _waits_for_no_rows(entries)
    if not target.shape:
        for entry in entries:
            if type(entry) is Pending and (call := entry.call) is not None:
                if math.prod(call.bound.alike()[1]) >= SHORT:
                    return True
                break
    plans[kind] = lengths[0], lengths[1] + 1
    return not lengths[1] % LOOKS


def _waits_for_no_rows(entries: tuple[Any, ...]) -> bool:
    """Whether the first of some leaves that has not run is no reduction along rows."""
    for entry in entries:
        if type(entry) is Pending and (call := entry.call) is not None:
            return call.bound.along_rows() is None
    return False


def _has_rows_of_ever_new_lengths(graph: Graph, shape: tuple[int, ...]) -> bool:
    """Whether a structure is met with rows of another length nearly each time, each of which would take a kernel."""
    plans = graph.structure.plans
    last, count = plans.get(LENGTHS, ((0, 0), 0))
    if shape[1] != last[1]:
        count += 1
    elif shape[0] != last[0]:
        count = 0
    elif count == 0:
        return False
    plans[LENGTHS] = shape, count
    is_new: bool = count > MAX_LENGTHS
    return is_new


_STILL = (), (0,), (0, 0)
"""Strides of an element that is broadcast, by the number of dimensions."""


def run_rows(launch: RowLaunch, ptr: int, graph: Graph, nbytes: int) -> None:
    """Enqueue it, its result going to an address, and let placement learn that.

    Parameters
    ----------
    launch : RowLaunch
    ptr : int
    graph : Graph
        The chain.
    nbytes : int
        Of the array that is written to.
    """
    run, _, grid, entries, constants, alike, calls, _ = launch
    run(grid, ptr, *[getattr(entry, "ptr", entry) for entry in entries], *constants)
    alike.last = ref(calls[0])
    weigh_rows(launch, graph, nbytes)


def weigh_rows(launch: RowLaunch, graph: Graph, nbytes: int, is_due: bool = False) -> None:
    """Let placement know of a launch for a chain into an array of so many bytes; it is weighed if it is due."""
    size = balance.ran(nbytes, launch.entries)
    if size < NUM_SIZES and (is_due or is_sampled() or balance.each):
        cost = host_nbytes(graph.structure) * graph.layout.size
        cost += sum([call.bound.host_cost() for call in launch.calls])
        num_calls = len(graph.nodes) + sum([len(chain.nodes) for call in launch.calls for chain in call.bound.graphs])
        begun = sum([call.bound.begun_nbytes() for call in launch.calls])
        balance.computed_call(size, cost + num_calls * CALL_NBYTES, price=launch.price, begun=begun)


def _alike(key: Any) -> Alike | None:
    """Return what is known of chains by a key; None where their reductions are needed besides."""
    alike: Alike | None = _ALIKE.get(key) or _ALIKE.recall(key)
    if alike is None or alike.version != config.version:
        alike = Alike()
        _ALIKE.remember(key, alike)
    return None if _is_reused(alike) else alike


def _is_reused(alike: Alike) -> bool:
    """Whether reductions are needed besides as a rule; note it of the latest one."""
    call = None if alike.last is None else alike.last()
    if call is not None and call.leaves is None:
        alike.reused += 1
        alike.last = None
    return alike.reused >= MAX_REUSED


def _is_needed(entry: Pending, call: Call, others: Sequence[Storage]) -> bool:
    """Whether an array has the result of a reduction, or something else that waits reads it."""
    owner = None if entry.owner is None else entry.owner()  # `Pending.is_held`, spelled out
    value = None if owner is None else owner.value
    if value is not None and not value[0].nodes and value[1][0] is entry:
        return True
    for other in others:
        value = other.value
        if value is not None and value[0].nodes and entry in value[1]:
            return True
    if len(CALLS) > 1:
        for reference in list(CALLS):
            reader = reference()
            if reader is not None and reader is not call and reader.reads(entry):
                return True
    return False


__all__ = ["RowLaunch", "row_launch", "run_rows"]
