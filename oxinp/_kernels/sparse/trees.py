"""Graphs as CSR matrices: rounds of spanning trees, reachability within classes, and predecessors on shortest paths.

Data layout: CSR, vertices i32; edges are numbered as they are stored, and ranked by weight, i32. `lanes` threads own a
row. `LightestSpec` and `JoinSpec` are a round of Borůvka's algorithm: an atomic minimum of ranks, which are all
different, finds the lightest edge that leaves each tree (the result does not depend on the order), then each root
enters its edge and hooks its tree to the other one, the smaller of two roots that chose the same edge staying one.
`ReachSpec` marks vertices with an edge to a marked one of their class. `PredecessorSpec` finds for each vertex a nearer
one from which its distance is that of the shortest path: the nearest, then the first. Bytes: the matrix once a round.

Source: O. Borůvka, 1926, as V. Vineet et al. have it on GPUs, Fast minimum spanning tree for large graphs on the GPU,
HPG 2009.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oxinp._kernels.plan import Copy, Fill, Launch, Plan, Scratch, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sparse import graph
from oxinp._kernels.sparse.rows import lanes_for
from oxinp._kernels.sparse.types import BLOCK
from oxinp._ptx import Builder, Kernel, warp_reduce
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, f64, i32, pred

if TYPE_CHECKING:
    from oxinp._ptx.value import Value

LAST = 2**31 - 1
"""Above every rank and every vertex."""
NOBODY = -9999
"""SciPy's predecessor of what has none."""


class LightestSpec(Frozen):
    """The kernel that finds the rank of the lightest edge that leaves each tree."""

    index: Type
    lanes: int


class JoinSpec(Frozen):
    """The kernel that enters these edges and hooks the trees."""

    index: Type


class ReachSpec(Frozen):
    """The kernel that marks what reaches a marked vertex of its class in one step."""

    index: Type
    lanes: int


class PredecessorSpec(Frozen):
    """The kernel that finds predecessors; weights are of `value`, distances f64."""

    index: Type
    value: Type
    lanes: int


def _grid(num_rows: int, lanes: int) -> tuple[int, int, int]:
    return -(-num_rows * lanes // BLOCK), 1, 1


def span(num_rows: int, count: int, index: Type) -> Plan:
    """Return the plan of a round of a spanning forest.

    Outputs are the roots, i32, which edges are in the forest, bool, and whether any was entered, i32. Inputs are
    indptr and indices, the row of each edge, its rank, i32, edges by rank, and the first two outputs of the round
    before.
    """
    lanes, scratch = lanes_for(num_rows, count), Scratch()
    parents, lightest = (scratch.take(num_rows * i32.nbytes) for _ in range(2))
    (roots, entered, changed), (indptr, indices, rows, ranks, by_rank, before, known) = outputs(3), inputs(7)
    return scratch.plan(
        (
            Copy(parents, before, num_rows * i32.nbytes),
            Copy(entered, known, count),
            Fill(changed, i32.nbytes, 0),
            Fill(lightest, num_rows * i32.nbytes, 0x7F),
            Launch(
                make(LightestSpec(index, lanes)),
                _grid(num_rows, lanes),
                (lightest, indptr, indices, ranks, before),
                (num_rows,),
            ),
            Launch(
                make(JoinSpec(index)),
                _grid(num_rows, 1),
                (parents, entered, changed, lightest, indices, rows, by_rank, before),
                (num_rows,),
            ),
            Launch(graph.make(graph.RootSpec(i32)), _grid(num_rows, 1), (roots, parents), (num_rows,)),
        )
    )


def reach(num_rows: int, count: int, index: Type) -> Plan:
    """Return the plan of a step back; inputs are indptr, indices, classes and what is marked before, bool."""
    lanes = lanes_for(num_rows, count)
    launch = Launch(make(ReachSpec(index, lanes)), _grid(num_rows, lanes), (*outputs(1), *inputs(4)), (num_rows,))
    return Plan((launch,))


def predecessors(num_rows: int, count: int, index: Type, value: Type) -> Plan:
    """Return the plan of predecessors; inputs are indptr, indices and weights of what leads to vertices, distances."""
    lanes = lanes_for(num_rows, count)
    spec = PredecessorSpec(index, value, lanes)
    return Plan((Launch(make(spec), _grid(num_rows, lanes), (*outputs(1), *inputs(4)), (num_rows,)),))


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: LightestSpec | JoinSpec | ReachSpec | PredecessorSpec) -> Kernel:
    """Build the kernel of a Spec."""
    kernel: Kernel = _BUILDERS[type(spec)](spec)
    return kernel


def _row(k: Builder, index: Type, lanes: int) -> tuple[Value, Value]:
    """Return the row that a thread works on, and its lane."""
    row = k.cast(k.ctaid, index) * (BLOCK // lanes) + k.cast(k.tid / lanes, index)
    return row, k.cast(k.tid % lanes, index)


def _lightest(spec: LightestSpec) -> Kernel:
    k = Builder("graph_lightest", block=BLOCK)
    lightest = k.pointer("lightest", i32)
    indptr, indices = (k.pointer(name, spec.index, "r") for name in ("indptr", "indices"))
    ranks, roots = k.pointer("ranks", i32, "r"), k.pointer("roots", i32, "r")
    num_rows = k.scalar("num_rows", spec.index)
    row, lane = _row(k, spec.index, spec.lanes)
    with k.when(row < num_rows):
        mine = roots[row]
        least = k.var(LAST, i32)
        with k.range(indptr[row] + lane, indptr[row + 1], spec.lanes) as edge:
            other = roots[indices[edge]]
            with k.when(other != mine):
                rank = ranks[edge]
                least.set(k.min(least.get(), rank))
                with k.when(rank < lightest.load(other, order="relaxed.gpu")[0]):
                    lightest.atomic("min", other, rank)
        with k.when(least < lightest.load(mine, order="relaxed.gpu")[0]):
            lightest.atomic("min", mine, least.get())
    return k.build()


def _join(spec: JoinSpec) -> Kernel:
    k = Builder("graph_join", block=BLOCK)
    parents, entered, changed = k.pointer("parents", i32), k.pointer("entered", pred, "w"), k.pointer("changed", i32)
    lightest = k.pointer("lightest", i32, "r")
    indices, rows = k.pointer("indices", spec.index, "r"), k.pointer("rows", spec.index, "r")
    by_rank, roots = k.pointer("by_rank", spec.index, "r"), k.pointer("roots", i32, "r")
    num_rows = k.scalar("num_rows", i32)
    vertex = k.cast(k.ctaid, i32) * BLOCK + k.cast(k.tid, i32)
    with k.when(vertex < num_rows):
        rank = lightest[vertex]
        with k.when((roots[vertex] == vertex) & (rank < 0x7F7F7F7F)):
            edge = by_rank[rank]
            ends = roots[rows[edge]], roots[indices[edge]]
            other = k.where(ends[0] == vertex, ends[1], ends[0])
            with k.when((lightest[other] != rank) | (other < vertex)):  # one of two that chose each other
                entered[edge] = k.const(True, pred)
                parents[vertex] = other
                changed.store(0, [k.const(1, i32)], order="relaxed.gpu")
    return k.build()


def _reach(spec: ReachSpec) -> Kernel:
    k = Builder("graph_reach", block=BLOCK)
    out = k.pointer("out", pred, "w")
    indptr, indices = (k.pointer(name, spec.index, "r") for name in ("indptr", "indices"))
    classes, before = k.pointer("classes", i32, "r"), k.pointer("before", pred, "r")
    num_rows = k.scalar("num_rows", spec.index)
    row, lane = _row(k, spec.index, spec.lanes)
    has_row = row < num_rows
    near = k.min(row, num_rows - 1)
    mine = classes[near]
    found = k.var(k.where(before[near], k.const(1, i32), k.const(0, i32)))
    place = k.var(indptr[near] + lane)
    with k.when(has_row), k.loop():
        k.break_if((found != 0) | (place >= indptr[near + 1]))
        other = indices[place.get()]
        with k.when((classes[other] == mine) & before[other]):
            found.set(1)
        place.set(place + spec.lanes)
    k.warp_sync()
    whole = warp_reduce(k, k.emit("mov", found), k.max, spec.lanes)
    with k.when(has_row & (lane == 0)):
        out[row] = whole != 0
    return k.build()


def _predecessors(spec: PredecessorSpec) -> Kernel:
    k = Builder("graph_predecessors", block=BLOCK)
    out = k.pointer("out", i32, "w")
    indptr, indices = (k.pointer(name, spec.index, "r") for name in ("indptr", "indices"))
    weights, distances = k.pointer("weights", spec.value, "r"), k.pointer("distances", f64, "r")
    num_rows = k.scalar("num_rows", spec.index)
    row, lane = _row(k, spec.index, spec.lanes)
    has_row = row < num_rows
    near = k.min(row, num_rows - 1)
    mine = distances[near]
    infinite = k.const(float("inf"), f64)
    nearest, vertex = k.var(infinite), k.var(LAST, i32)
    with k.when(has_row & (mine < infinite)), k.range(indptr[near] + lane, indptr[near + 1], spec.lanes) as place:
        other = indices[place]
        distance = distances[other]
        leads = (distance < mine) & (distance + k.cast(weights[place], f64) == mine)
        number = k.cast(other, i32)
        with k.when(leads & ((distance < nearest) | ((distance == nearest) & (number < vertex)))):
            nearest.set(distance)
            vertex.set(number)
    k.warp_sync()
    least = warp_reduce(k, k.emit("mov", nearest), k.min, spec.lanes)
    first = warp_reduce(k, k.where(nearest == least, vertex.get(), k.const(LAST, i32)), k.min, spec.lanes)
    with k.when(has_row & (lane == 0)):
        out[row] = k.where(first == LAST, k.const(NOBODY, i32), first)
    return k.build()


_BUILDERS: dict[type, Any] = {
    LightestSpec: _lightest,
    JoinSpec: _join,
    ReachSpec: _reach,
    PredecessorSpec: _predecessors,
}

__all__ = [
    "NOBODY",
    "JoinSpec",
    "LightestSpec",
    "PredecessorSpec",
    "ReachSpec",
    "make",
    "predecessors",
    "reach",
    "span",
]
