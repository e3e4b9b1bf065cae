"""Graphs as CSR matrices: components, breadth-first levels, relaxation of distances.

Data layout: CSR, vertices i32 or i64. `HookSpec` and `RootSpec` are a round of Shiloach and Vishkin's components: every
edge hooks the larger of the two trees' roots under the smaller (an atomic minimum of integers: the result does not
depend on the order), then every vertex finds its root. `FirstSpec` notes for each vertex the first of the numbered
edges that reach it. `RelaxSpec` lowers each vertex' distance to the least over its stored row of a neighbour's distance
plus the weight: a minimum of sums, the same in any order. `lanes` threads own a row. Bytes: the matrix once a round.

Source: Y. Shiloach and U. Vishkin, An O(log n) parallel connectivity algorithm, Journal of Algorithms 3, 1982.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oxinp._kernels.plan import Copy, Fill, Launch, Plan, Scratch, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sparse.rows import lanes_for
from oxinp._kernels.sparse.types import BLOCK
from oxinp._ptx import Builder, Kernel, warp_reduce
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i32, i64

if TYPE_CHECKING:
    from oxinp._ptx.value import Value


class HookSpec(Frozen):
    """The kernel that joins the trees of an edge's ends."""

    index: Type
    lanes: int


class RootSpec(Frozen):
    """The kernel that finds every vertex' root."""

    vertex: Type


class FirstSpec(Frozen):
    """The kernel that notes which edge reaches a vertex first."""

    index: Type


class RelaxSpec(Frozen):
    """The kernel that lowers distances.

    Attributes
    ----------
    index, distance : Type
    value : Type or None
        Of weights, or there are none.
    lanes : int
    has_own : bool
        A vertex' own distance counts, too.
    """

    index: Type
    value: Type | None
    distance: Type
    lanes: int
    has_own: bool = True


def _grid(num_rows: int, lanes: int) -> tuple[int, int, int]:
    return -(-num_rows * lanes // BLOCK), 1, 1


def hook(num_rows: int, count: int, index: Type) -> Plan:
    """Return the plan of a round of components.

    Outputs are the roots, i32, and whether anything has changed, i32; inputs are indptr, indices and the roots before.
    """
    lanes, scratch = lanes_for(num_rows, count), Scratch()
    parents = scratch.take(num_rows * i32.nbytes)
    (roots, changed), (indptr, indices, before) = outputs(2), inputs(3)
    joined = Launch(
        make(HookSpec(index, lanes)), _grid(num_rows, lanes), (parents, changed, indptr, indices), (num_rows,)
    )
    return scratch.plan(
        (
            Copy(parents, before, num_rows * i32.nbytes),
            Fill(changed, i32.nbytes, 0),
            joined,
            Launch(make(RootSpec(i32)), _grid(num_rows, 1), (roots, parents), (num_rows,)),
        )
    )


def first(num_vertices: int, count: int, index: Type) -> Plan:
    """Return the plan that notes for vertices the first of `count` edges, numbered from a base on, that reach them.

    The output is the numbers, i64; inputs are those before, the vertices that the edges reach, and the base, an array.
    """
    (out,), (before, reached, base) = outputs(1), inputs(3)
    launch = Launch(make(FirstSpec(index)), _grid(count, 1), (out, reached, base), (count,))
    return Plan((Copy(out, before, num_vertices * i64.nbytes), launch))


def relax(num_rows: int, count: int, index: Type, value: Type | None, distance: Type, *, has_own: bool = True) -> Plan:
    """Return the plan of a relaxation; inputs are indptr, indices, weights, if any, and the distances before."""
    lanes = lanes_for(num_rows, count)
    given = (*outputs(1), *inputs(3 if value is None else 4))
    launch = Launch(make(RelaxSpec(index, value, distance, lanes, has_own)), _grid(num_rows, lanes), given, (num_rows,))
    return Plan((launch,))


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: HookSpec | RootSpec | FirstSpec | RelaxSpec) -> Kernel:
    """Build the kernel of a Spec."""
    kernel: Kernel = _BUILDERS[type(spec)](spec)
    return kernel


def _root(k: Builder, parents: Any, vertex: Value) -> Value:
    """Return the root of a vertex' tree, which others may be joining to another one."""
    at = k.var(vertex)
    with k.loop():
        above = parents.load(at.get(), order="relaxed.gpu")[0]
        k.break_if(above == at)
        at.set(above)
    return k.emit("mov", at)


def _hook(spec: HookSpec) -> Kernel:
    k = Builder("graph_hook", block=BLOCK)
    parents, changed = k.pointer("parents", i32), k.pointer("changed", i32)
    indptr, indices = (k.pointer(name, spec.index, "r") for name in ("indptr", "indices"))
    num_rows = k.scalar("num_rows", spec.index)
    row = k.cast(k.ctaid, spec.index) * (BLOCK // spec.lanes) + k.cast(k.tid / spec.lanes, spec.index)
    with k.when(row < num_rows):
        begin = indptr[row] + k.cast(k.tid % spec.lanes, spec.index)
        with k.range(begin, indptr[row + 1], spec.lanes) as place:
            a = _root(k, parents, k.cast(row, i32))
            b = _root(k, parents, k.cast(indices[place], i32))
            with k.when(a != b):
                parents.atomic("min", k.max(a, b), k.min(a, b))
                changed.atomic("max", 0, 1)
    return k.build()


def _roots(spec: RootSpec) -> Kernel:
    k = Builder("graph_roots", block=BLOCK)
    out, parents = k.pointer("out", spec.vertex, "w"), k.pointer("parents", spec.vertex, "r")
    num_rows = k.scalar("num_rows", i64)
    vertex = k.cast(k.ctaid, i64) * BLOCK + k.cast(k.tid, i64)
    with k.when(vertex < num_rows):
        out[vertex] = _root(k, parents, k.cast(vertex, spec.vertex))
    return k.build()


def _first(spec: FirstSpec) -> Kernel:
    k = Builder("graph_first", block=BLOCK)
    out, reached, base = k.pointer("out", i64), k.pointer("reached", spec.index, "r"), k.pointer("base", i64, "r")
    count = k.scalar("count", i64)
    edge = k.cast(k.ctaid, i64) * BLOCK + k.cast(k.tid, i64)
    with k.when(edge < count):
        out.atomic("min", k.cast(reached[edge], i64), base[0] + edge)
    return k.build()


def _relax(spec: RelaxSpec) -> Kernel:
    k = Builder("graph_relax", block=BLOCK)
    out = k.pointer("out", spec.distance, "w")
    indptr, indices = (k.pointer(name, spec.index, "r") for name in ("indptr", "indices"))
    weights = k.pointer("weights", spec.value, "r") if spec.value is not None else None
    before = k.pointer("before", spec.distance, "r")
    num_rows = k.scalar("num_rows", spec.index)
    row = k.cast(k.ctaid, spec.index) * (BLOCK // spec.lanes) + k.cast(k.tid / spec.lanes, spec.index)
    lane = k.cast(k.tid % spec.lanes, spec.index)
    is_float = spec.distance.kind == "f"
    least = k.var(k.const(float("inf") if is_float else (1 << (spec.distance.bits - 1)) - 1, spec.distance))
    with (
        k.when(row < num_rows),
        k.range(indptr[row] + lane, indptr[row + 1], spec.lanes) as place,
    ):
        found = before[indices[place]]
        if weights is not None:
            found = found + k.cast(weights[place], spec.distance)
        least.set(k.min(least.get(), found))
    k.warp_sync()
    whole = warp_reduce(k, k.emit("mov", least), k.min, spec.lanes)
    with k.when((row < num_rows) & (lane == 0)):
        out[row] = k.min(whole, before[row]) if spec.has_own else whole
    return k.build()


_BUILDERS: dict[type, Any] = {
    HookSpec: _hook,
    RootSpec: _roots,
    FirstSpec: _first,
    RelaxSpec: _relax,
}

__all__ = [
    "FirstSpec",
    "HookSpec",
    "RelaxSpec",
    "RootSpec",
    "first",
    "hook",
    "make",
    "relax",
]
