"""Operations that are not elementwise: the record that one is, and an operation bound to operands.

Products, reductions, scans, gathers, sorts, transforms and factorisations are all `Op` records. NumPy's functions, the
methods of arrays and SciPy's names are thin fronts over them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._config import config
from oxinp._core.lazy.balance import (
    AGAIN,
    FIRST,
    HEAVY,
    LAUNCH,
    LOOP_NBYTES,
    SAMPLED,
    balance,
    host_nbytes,
    is_sampled,
    lies_apart,
    numpys_microseconds,
)
from oxinp._core.lazy.building import missing
from oxinp._core.lazy.executor import RUNS, Executable, load, run_once
from oxinp._core.lazy.expr import Graph, new_table, remember
from oxinp._core.lazy.placement import device, keyed
from oxinp._core.lazy.sized import run_sized_once
from oxinp._core.memory.layout import Layout
from oxinp._ptx.frozen import Frozen
from oxinp._runtime import here

if TYPE_CHECKING:
    from oxinp._kernels.plan import Again, Flagged, Joined, Plan
    from oxinp._kernels.problem import ReduceOp
    from oxinp._runtime.memory import Buffer

RENTED = 12
"""Runs by arithmetic alone of what has been met before, until what runs it is prepared.

These take a few microseconds more each, and preparation as long as so many of them; what is prepared is kept, and the
garbage collector looks at it. A loop over ever new sizes that runs a few times is done sooner without.
"""

SPARE = "spare"
"""The variant of a plan that is run where there is no memory for the workspace of another."""


class RowWalk(NamedTuple):
    """How an operation goes through the rows of its only operand.

    Attributes
    ----------
    op : ReduceOp or None
        None for an elementwise operation on results, of one element per row.
    axes : tuple of int
        That are reduced.
    mask : int or None
        Number of the value of the operand's graph that says which elements count.
    walk : Walk or None
        See `_kernels.rowwise.plan`.
    """

    op: ReduceOp | None = None
    axes: tuple[int, ...] = ()
    mask: int | None = None
    walk: Any = None


def _largest(layouts: tuple[Layout, ...], parameters: Any) -> float:  # noqa: ARG001 - the rows' one signature
    """Return the bytes of the largest operand."""
    return max([layout.nbytes for layout in layouts])


class Op(Frozen, eq=False):
    """An operation that is not elementwise, on N arrays, with N results.

    Attributes
    ----------
    name : str
        As users know it.
    plan : callable
        ``plan(bound)`` -> Plan, for the device in use. Inputs are numbered as the leaves of all operands' graphs, one
        after the other.
    infer : callable
        ``infer(layouts, parameters)`` -> layouts of the results. Raises NumPy's errors and `Unsupported`: nothing has
        run.
    host : callable or None
        ``host(*arrays, *parameters)``: NumPy's or SciPy's function, of NumPy's arrays.
    cost : callable
        ``cost(layouts, parameters)`` -> what placement compares to the threshold.
    host_weight : float
        How much longer NumPy takes than to add so many bytes, for `balance`.
    num_loops : callable or None
        ``num_loops(bound)``: over how many pieces of memory NumPy goes after the first, where beginning with one takes
        as long as some elements do.
    price : float
        Microseconds that the host takes for one on the device, of sizes that it has met before; for `balance`.
    weighs_chains : bool
        Whether NumPy takes longer for the chains that it is applied to.
    plan_again : callable or None
        ``plan_again(bound, variant)`` -> the same Plan, or what an `Again`, a `Flagged` or a `Joined` says of it, if
        that takes arithmetic alone because an operation of this kind has been planned for other sizes; else None.
    run_near : callable or None
        ``run_near(bound, leaves)`` -> the Buffer of the only result, if it has been run by one look-up, of one that
        differs in sizes alone from others that have run; else None. There is one device.
    takes_chains : bool or tuple of int
        Operands, or those of these numbers, may be chains of elementwise operations, which run in the operation's own
        kernel; else they are computed before.
    takes_views : bool
        Operands may lie in memory anyhow; else they are made contiguous.
    fuse : callable or None
        ``fuse(bound, graph, place)`` -> the Plan of the operation and of what a graph makes of its first result, the
        leaf of that graph at a place; None where no kernel does both. Its inputs are the operation's own, then the
        graph's other leaves.
    may_fuse : callable or None
        ``may_fuse(bound, leaves)``: whether that is worth asking for these leaves.
    reduced : callable or None
        ``reduced(bound, leaves)`` -> an operation that computes what a reduction does, whose leaves are results of this
        one that nothing has asked for yet, and its leaves; None where no kernel does both.
    rows : callable or None
        ``rows(bound)`` -> `RowWalk`: how the operation is part of a kernel that computes what is made of its result
        and of its operand's rows, see `rowwise`; None where it is part of none.
    along_rows : callable or None
        ``along_rows(bound)`` -> `AlongRows`: the same where sizes like it have been planned for, by arithmetic; None
        where it is no reduction of a matrix to a vector, or of a vector.
    gives_views : bool
        The plan may be asked for a first result that lies in any layout: the variant is then that layout. One step of
        it writes the result, so that a view is never half written.
    variant : callable or None
        ``variant(bound, leaves)``: which of several plans is run for these leaves; None for the usual one.
    plan_variant : callable or None
        ``plan_variant(bound, variant)`` -> Plan, where there are others than the usual one.
    has_spare : bool
        There is a plan, of variant `SPARE`, with less workspace.
    sized : callable or None
        ``sized(bound, words)`` -> layouts of the results, of an operation whose plan reads words: sizes, or a status,
        for which it raises. Such an operation runs at once.
    mutates : tuple of int
        Operands that are written to.
    gathers : bool
        The result is as many elements as an operand that may have been selected, see `Balance.gathered`. It is
        weighed each time, as what is planned anew: few of them stand for large arrays.
    linear_in, vjp, batch, draws : object
        Room for gradients, batching and tracing: operands that the results are linear in, the rule of the
        vector-Jacobian product with what it keeps, the rule of batching, whether random numbers are drawn.
    """

    name: str
    plan: Callable[[BoundOp], Plan]
    infer: Callable[[tuple[Layout, ...], Any], tuple[Layout, ...]] | None = None
    host: Callable[..., Any] | None = None
    cost: Callable[[tuple[Layout, ...], Any], float] = _largest
    host_weight: float = 1.0
    num_loops: Callable[[BoundOp], int] | None = None
    price: float = LAUNCH
    weighs_chains: bool = True
    plan_again: Callable[[BoundOp, Any], Plan | Again | Flagged | Joined | None] | None = None
    run_near: Callable[[BoundOp, tuple[Any, ...]], Buffer | None] | None = None
    takes_chains: bool | tuple[int, ...] = False
    takes_views: bool = False
    fuse: Callable[[BoundOp, Graph, int], Plan | None] | None = None
    may_fuse: Callable[[BoundOp, tuple[Any, ...]], bool] | None = None
    reduced: Callable[[BoundOp, tuple[Any, ...]], tuple[BoundOp, tuple[Any, ...]] | None] | None = None
    rows: Callable[[BoundOp], RowWalk | None] | None = None
    along_rows: Callable[[BoundOp], AlongRows | None] | None = None
    gives_views: bool = False
    variant: Callable[[BoundOp, tuple[Any, ...]], Hashable] | None = None
    plan_variant: Callable[[BoundOp, Any], Plan] | None = None
    has_spare: bool = False
    sized: Callable[[BoundOp, tuple[int, ...]], tuple[Layout, ...]] | None = None
    mutates: tuple[int, ...] = ()
    gathers: bool = False
    linear_in: tuple[int, ...] = ()
    vjp: Any = None
    batch: Any = None
    draws: bool = False


class AlongRows(NamedTuple):
    """A reduction along the rows of a matrix into a vector, or of a vector: what plans it, and for which operands.

    Attributes
    ----------
    planner : KnownPasses
        One for all that compute the same.
    shape : tuple of int
    steps : tuple of (int, int), or of int
        Strides of the arrays that the matrix or the vector is made of, in elements.
    alignments : tuple of int
        Of these arrays.
    """

    planner: Any
    shape: tuple[int, ...]
    steps: tuple[Any, ...]
    alignments: tuple[int, ...]


along: Any = partial(tuple.__new__, AlongRows)  # of its fields, without a frame of Python's


class BoundOp:
    """An operation on operands of given graphs: what it gives, and how it runs, found once.

    Parameters
    ----------
    op : Op
    graphs : tuple of Graph
        The operands'.
    layouts : tuple of Layout
        The results'; C order at offset 0 where the op says nothing else.
    parameters : object
        Of the operation: axes, flags.

    Attributes
    ----------
    found : tuple or None
        What it has run by arithmetic with, by its variant.
    gain : float or None
        Microseconds that a launch gains over NumPy, once that has been asked for, see `gains`.
    extra : float
        Microseconds that it took more than `Op.price` when it ran for the first time, for `balance`.
    met : int
        See `Recent.has_met`.
    rented : int
        Times that it may run by arithmetic yet, see `RENTED`.
    direct : Executable or None
        What all there is to running it is to run, under the settings that that is of.
    told : (float, int)
        What placement is told of a launch of it where it is `direct`, which machine code does: the microseconds that
        it gains, and how many launches it stands for where they are sampled.
    is_written : bool
        The result, or what is made of it, has been seen to go into a part of an array.
    """

    __slots__ = (
        "_cost",
        "direct",
        "executables",
        "extra",
        "found",
        "fused",
        "gain",
        "graphs",
        "has_run",
        "is_written",
        "layouts",
        "met",
        "op",
        "parameters",
        "planned",
        "rented",
        "told",
    )

    told: tuple[float, int]

    def __init__(self, op: Op, graphs: tuple[Graph, ...], layouts: tuple[Layout, ...], parameters: Any = ()) -> None:
        self.op = op
        self.graphs = graphs
        self.layouts = layouts
        self.parameters = parameters
        self.is_written = self.has_run = False
        self.met = 0
        self.rented = RENTED
        self.extra = FIRST
        self.planned: tuple[Any, int, Plan] | None = None
        self.executables: dict[Any, Executable] | None = None
        self.found: tuple[Hashable, Any] | None = None
        self.fused: dict[tuple[Graph, int], tuple[int, Executable | None]] | None = None
        self.direct: Executable | None = None
        self._cost: float | None = None
        self.gain: float | None = None

    def host_cost(self) -> float:
        """Return the bytes that NumPy adds in as long as it takes for this and the chains that it is applied to."""
        if self._cost is None:
            graphs = self.graphs
            cost = self.op.host_weight * self.op.cost(tuple([x.layout for x in graphs]), self.parameters)
            for graph in graphs if self.op.weighs_chains else ():
                if graph.nodes:
                    cost += host_nbytes(graph.structure) * graph.layout.size
            self._cost = cost + self.begun_nbytes()
        return self._cost

    def begun_nbytes(self) -> float:
        """Return what of these bytes is for beginning with rows and other pieces, which no cache is too small for."""
        num_loops = 0.0 if self.op.num_loops is None else self.op.num_loops(self)
        if self.op.weighs_chains:
            num_loops += sum([_num_rows(graph) for graph in self.graphs if graph.nodes])
        return LOOP_NBYTES * num_loops

    def gains(self) -> float:
        """Return the microseconds that a launch gains over NumPy, by what placement reckons with."""
        if self.gain is None:
            begun = self.begun_nbytes()
            self.gain = numpys_microseconds(self.host_cost(), self.op.host_weight, begun) - self.op.price
        return self.gain

    def weigh(self, size: int, *, is_first: bool = False) -> None:
        """Let placement learn that it has run, if it weighs much, has been planned for that, or is sampled.

        Parameters
        ----------
        size : int
            See `Balance.ran`.
        is_first : bool
            It had not run before.
        """
        extra = self.extra if is_first else 0.0
        times = 1 if extra == FIRST or self.op.gathers or self.op.host_weight >= HEAVY else SAMPLED
        if times == 1 or is_sampled() or balance.each:
            balance.launched(size, self.gains(), extra=extra, times=times)

    def run_directly(self, executable: Executable) -> None:
        """Let it be run by nothing but an Executable from now on; what is gathered is asked where it comes from."""
        op = self.op
        if not op.gathers:
            self.told = self.gains(), 1 if op.host_weight >= HEAVY else SAMPLED
        self.direct = executable

    def alike(self) -> tuple[Any, tuple[int, ...]]:
        """Return what operations have in common that differ in sizes, and the size."""
        graph = self.graphs[0]
        return graph.structure, graph.shape

    def executable(self, variant: Hashable = None) -> Executable:
        """Return what runs it under the present settings."""
        key = keyed(variant) if here.are_several else variant
        if self.executables is None:
            self.executables = {}
        found = self.executables.get(key)
        if found is None or found.version != config.version:
            missing(lambda: self._build(key, variant))
            found = self.executables[key]
        return found

    def _build(self, key: Any, variant: Hashable) -> None:
        assert self.executables is not None
        plan = self._planned_for(variant) or self._plan(variant)
        self.executables[key] = Executable(plan, [layout.nbytes for layout in self.layouts], _kinds(self.graphs))
        load(plan)
        if plan.bounded is not None:
            load(plan.bounded[0])

    def _plan(self, variant: Hashable) -> Plan:
        if variant is None:
            return self.op.plan(self)
        assert self.op.plan_variant is not None
        return self.op.plan_variant(self, variant)

    def plan_ahead(self, leaves: tuple[Any, ...]) -> None:
        """Plan what has not run, for these leaves: before the lock is taken."""
        op = self.op
        if self.executables is None and not self.has_run:
            variant = None if op.variant is None else op.variant(self, leaves)
            self.planned = keyed(variant), config.version, self._plan(variant)

    def _planned_for(self, variant: Hashable) -> Plan | None:
        """Return what was planned ahead, if it was that."""
        if self.planned is None:
            return None
        key, version, plan = self.planned
        self.planned = None
        return plan if key == keyed(variant) and version == config.version else None

    def run_first(self, variant: Hashable, leaves: tuple[Any, ...], ptr: int | None = None) -> list[Buffer] | None:
        """Run it if it has seldom run, and others of its kind have; None where there is more to do than arithmetic.

        Parameters
        ----------
        variant : hashable
        leaves : tuple
        ptr : int, optional
            Address of the only result, if it is not to be new.
        """
        again = self.op.plan_again
        if not self.rented or (again is None and self.planned is None) or self.has_scalar_parts():
            return None
        layouts = self.layouts
        plan: Any
        if self.found is not None and self.found[0] == variant:
            plan = self.found[1]
        else:
            plan = self._planned_for(variant) if again is None else self.plan_again(variant)
        if plan is None:
            return None
        made: list[Buffer] | None
        if isinstance(plan, tuple):
            buffer = RUNS[type(plan)](plan, layouts[0].nbytes, leaves, ptr)
            made = None if buffer is None else [buffer] if ptr is None else []
            self.found = variant, plan
            self.extra = AGAIN
            self.rented -= 1
        else:
            self.rented = 0
            sizes = (layouts[0].nbytes,) if len(layouts) == 1 else [layout.nbytes for layout in layouts]
            made = run_once(plan, sizes, leaves, ptr)
            if made is None and again is None:
                self.planned = keyed(variant), config.version, plan  # for what is compiled of it
        if made is None:
            self.rented = 0
        else:
            self.has_run = True
        return made

    def plan_again(self, variant: Hashable) -> Plan | Again | Flagged | Joined | None:
        """Return what `Op.plan_again` does."""
        again = self.op.plan_again
        return None if again is None else again(self, variant)

    def along_rows(self) -> AlongRows | None:
        """Return what `Op.along_rows` does."""
        along = self.op.along_rows
        return None if along is None else along(self)

    def has_scalar_parts(self) -> bool:
        """Whether an operand is made of a complex scalar, which is two parameters."""
        for graph in self.graphs:  # noqa: SIM110 - `any` costs more than the rest
            if graph.structure.has_parts:
                return True
        return False

    def describe(self) -> str:
        """Say in a few words what it computes."""
        names = [node.name for graph in self.graphs for node in graph.nodes]
        result = ", ".join(f"{layout.dtype} {layout.shape}" for layout in self.layouts)
        return f"{' '.join([*names, self.op.name])} -> {result}"

    def run(self, leaves: tuple[Any, ...]) -> list[Buffer]:
        """Enqueue it, into a new Buffer for every result."""
        op = self.op
        variant = None if op.variant is None else op.variant(self, leaves)
        try:
            if self.executables is None and (made := self.run_first(variant, leaves)) is not None:
                return made
            executable = self.executable(variant)
            self.has_run = True
            if not (op.has_spare and executable.scratch_nbytes):
                if op.variant is None and len(self.layouts) == 1 and not here.are_several:
                    self.run_directly(executable)
                return executable.run_all(leaves)
            with device().pool.keeping_arrays:  # the other way costs less than their eviction
                return executable.run_all(leaves)
        except MemoryError:
            if not op.has_spare:
                raise
        return self.executable(SPARE).run_all(leaves)  # here, where no traceback keeps what the first way has allocated

    def lost(self, leaves: tuple[Any, ...]) -> list[Buffer] | None:  # noqa: ARG002 - of those that overwrite operands
        """Return what stands for the results where it failed and cannot be tried again; None where it can."""
        return None

    def run_sized(
        self, leaves: tuple[Any, ...], sizes_of: Callable[[tuple[int, ...]], Sequence[int]]
    ) -> tuple[list[Buffer], tuple[int, ...]]:
        """Do as `run` where words are read, see `Executable.run_sized`."""
        again = self.op.plan_again
        if again is not None and not self.has_run and self.executables is None and not self.has_scalar_parts():
            kept = self._planned_for(None)
            plan: Any = kept or self.plan_again(None)
            made = None if plan is None else run_sized_once(plan, leaves, sizes_of)
            if made is not None:
                self.planned = keyed(None), config.version, plan
                self.has_run = kept is not None  # what runs a third time is worth more preparation
                return made
        try:
            executable = self.executable()
            if not self.op.has_spare:
                return executable.run_sized(leaves, sizes_of)
            with device().pool.keeping_arrays:
                return executable.run_sized(leaves, sizes_of)
        except MemoryError:
            if not self.op.has_spare:
                raise
        return self.executable(SPARE).run_sized(leaves, sizes_of)

    def fused_with(self, graph: Graph, place: int) -> Executable | None:
        """Return what runs it and a graph of its first result in one; None where no kernel does both."""
        key = keyed((graph, place))
        if self.fused is None:
            self.fused = {}
        version, found = self.fused.get(key, (-1, None))
        if version != config.version:
            missing(lambda: self._build_fused(key, graph, place))
            _, found = self.fused[key]
        return found

    def _build_fused(self, key: Any, graph: Graph, place: int) -> None:
        assert self.op.fuse is not None
        assert self.fused is not None
        made, version = None, config.version  # read before what it is the version of
        plan = self.op.fuse(self, graph, place)
        if plan is not None:
            kinds = kinds_of(graph)
            made = Executable(plan, (graph.layout.nbytes,), [*_kinds(self.graphs), *kinds[:place], *kinds[place + 1 :]])
        if len(self.fused) >= MAX_FUSED:
            self.fused.clear()
        self.fused[key] = version, made


MAX_FUSED = 64
"""Graphs of which an operation keeps how it runs with them."""


def _num_rows(graph: Graph) -> int:
    """Return with how many rows NumPy begins, of all the operands that are repeated along a matrix or have gaps."""
    shape = graph.shape
    if len(shape) < 2:
        return 0
    return sum(map(lies_apart, graph.leaves)) * math.prod(shape[:-1])


def kinds_of(graph: Graph) -> list[Any]:
    """Return for every leaf of a graph None if it is an array, else the dtype of the scalar."""
    return [None if isinstance(entry, Layout) else entry for entry in graph.leaves]


def _kinds(graphs: tuple[Graph, ...]) -> list[Any]:
    """Return the same for every leaf of several graphs."""
    return [kind for graph in graphs for kind in kinds_of(graph)]


_BOUND = new_table()


def bind(op: Op, graphs: tuple[Graph, ...], parameters: Hashable = ()) -> BoundOp:
    """Return an operation bound to operands; raises what `Op.infer` raises."""
    key = keyed((op, graphs, parameters))
    bound: BoundOp | None = _BOUND.get(key) or _BOUND.recall(key)
    if bound is None:
        assert op.infer is not None
        layouts = op.infer(tuple([graph.layout for graph in graphs]), parameters)
        bound = BoundOp(op, graphs, layouts, parameters)
        remember(_BOUND, key, bound)
    return bound
