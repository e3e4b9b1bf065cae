"""Chains: how elementwise graphs run, and what kernels know of them.

A chain is planned once per graph and set of outputs; `lazy.executor` runs it. Which kernel serves which layouts is
`_kernels`' business; this module only translates.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._config import config
from oxinp._core.lazy.building import missing
from oxinp._core.lazy.executor import Executable, anywhere, load, run_again, run_again_into
from oxinp._core.lazy.expr import Graph, Node, Structure, Unsupported, cast, graph_of, leaf, reading, structure_of
from oxinp._core.lazy.op import RENTED, Op, RowWalk, kinds_of
from oxinp._core.lazy.placement import device, keyed
from oxinp._core.memory.dtypes import BOOL, DEVICE_TYPES, MOVED_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.storage import Leaf, next_mask
from oxinp._kernels.problem import Instr, Operand, ScalarOperand
from oxinp._runtime import hooks
from oxinp._runtime.memory import Buffer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._core.memory.storage import Value
    from oxinp._kernels.plan import Again, Plan
    from oxinp._ptx.types import Type


ELEMENTWISE = "oxinp._kernels.elementwise.plan"  # imported while the driver starts, see `hooks.while_starting`

MAX_OUTPUTS = 8
MAX_PROGRAMS = 256  # of one graph: outputs into that many layouts

hooks.while_starting.append(lambda: importlib.import_module(ELEMENTWISE))


def find(graph: Graph, interior: tuple[tuple[int, Layout], ...] = (), target: Layout | None = None) -> Executable:
    """Return what runs a graph under the present settings.

    Parameters
    ----------
    graph : Graph
    interior : tuple of (int, Layout)
        Numbers of interior values to store as well, each into a new Buffer in that layout.
    target : Layout or None
        Where the result goes, if not into a new contiguous Buffer.
    """
    if target is not None:
        target = target.form
    key = keyed(target or interior)
    found: Executable | None = None if graph.programs is None else graph.programs.get(key)
    if found is None or found.version != config.version:
        outputs = ((graph.result, graph.layout if target is None else target), *interior)
        missing(lambda: _build(graph, key, outputs))
        assert graph.programs is not None
        found = graph.programs[key]
    return found


def _build(graph: Graph, key: Any, outputs: tuple[tuple[int, Layout], ...]) -> None:
    made = _compiled(graph, outputs)
    keep_program(graph, key, made)
    if not key:
        graph.program = made


def keep_program(graph: Graph, key: Any, program: Executable) -> None:
    """Keep a compiled program of a graph by its key; where there are `MAX_PROGRAMS`, the others are dropped first."""
    if graph.programs is None:
        graph.programs = {}
    if len(graph.programs) >= MAX_PROGRAMS:
        graph.programs.clear()
    graph.programs[key] = program


def _compiled(graph: Graph, outputs: tuple[tuple[int, Layout], ...]) -> Executable:
    plan = _planned(graph, outputs)
    made = Executable(plan, [layout.nbytes for _, layout in outputs], kinds_of(graph))
    made.leaf = leaf(outputs[0][1])
    load(plan)
    return made


def _planned(graph: Graph, outputs: tuple[tuple[int, Layout], ...]) -> Plan:
    structure = graph.structure
    key = tuple([(number, layout.dtype) for number, layout in outputs])
    planner = structure.plans.get(key)
    if planner is None:
        module = importlib.import_module(ELEMENTWISE)
        types = _types_of(structure)
        for dtype in (*[np.dtype(kind) for kind in structure.kinds], *[dtype for _, dtype in key]):
            if dtype not in types:
                raise Unsupported(f"dtype {dtype} has no kernels yet")
        planner = structure.plans[key] = module.Elementwise(
            input_types(structure, types),
            instructions(structure) if types is DEVICE_TYPES else _instructions(structure, types),
            [(number, types[dtype]) for number, dtype in key],
        )
    layouts = [layout for _, layout in outputs]
    layouts += [entry for entry in graph.leaves if type(entry) is Layout]
    line = line_of(layouts)
    if line is not None:
        plan: Plan = planner.plan_line(*line, device().capability)
    else:
        plan = planner.plan(graph.shape, _operands(structure, layouts), device().capability)
    return plan


def _types_of(structure: Structure) -> dict[np.dtype[Any], Type]:
    """Return what a structure's elements are in its kernels, by dtype."""
    if structure.are_arrays == (True,) and all(node.name == "copy" for node in structure.nodes):
        return MOVED_TYPES
    return DEVICE_TYPES


def _operands(structure: Structure, layouts: list[Layout]) -> list[Operand]:
    types = _types_of(structure) if layouts[0].dtype == BOOL else DEVICE_TYPES
    return [operand(layout, types) for layout in layouts]


ELEMENTWISE_CALL = Op(
    "chain",
    lambda bound: _planned(bound.graphs[0], ((bound.graphs[0].result, bound.layouts[0]),)),
    infer=lambda layouts, _: layouts,
    plan_again=lambda bound, _: launch_of(
        bound.graphs[0].structure, bound.layouts[0], bound.graphs[0].leaves, is_new=not bound.has_run
    ),
    takes_chains=True,
    takes_views=True,
    rows=lambda _: RowWalk(),
)
"""A chain as an operation that waits, where what it is an operand of has another shape, see `schedule.postpone`."""


class ByArithmetic:
    """What a graph has for a program as long as it has run by arithmetic alone.

    Attributes
    ----------
    later : ByArithmetic or None
        What it has after one more run; None where it has run as often as is worth it.
    launch : Again or None
        Kernel, grid and constants that the graph was launched with last, where they are kept.
    """

    __slots__ = ("later", "launch")
    version = -1

    def __init__(self, later: ByArithmetic | None, launch: Again | None = None) -> None:
        self.later = later
        self.launch = launch


def _rented() -> Any:
    """What a graph has that has run once."""
    later = None
    for _ in range(RENTED):
        later = ByArithmetic(later)
    return later


ONCE: Any = _rented()


def run_first(
    graph: Graph,
    leaves: tuple[Any, ...],
    target: Layout | None = None,
    ptr: int | None = None,
    program: ByArithmetic | None = None,
) -> Any:
    """Run a graph that has seldom run, whose structure has run on operands that lie alike; None where that is not so.

    Of sizes that are never met again nothing is kept: the launch that the plan would have comes of a few integers.
    What has run `RENTED` times is planned, and has a launcher of its own.

    Parameters
    ----------
    graph : Graph
    leaves : tuple
    target, ptr : Layout or None, int
        Where the result goes, if not into a new Buffer, and its address.
    program : ByArithmetic or None
        What the graph has for a program there; None where it has not run.

    Returns
    -------
    Buffer, bool or None
        The new Buffer; True where there is a target.
    """
    layout = graph.layout if target is None else target
    launch = None if program is None else program.launch
    if launch is None:
        launch = launch_of(graph.structure, layout, graph.leaves, is_new=program is None)
    if launch is None:
        return None
    if target is None:
        graph.program = ONCE if program is None else run_with(launch, program)
    return run_again(launch, layout.nbytes, leaves, ptr, has_parts=graph.structure.has_parts)


def run_with(launch: Again, program: Any) -> ByArithmetic:
    """Return what takes the place of a graph's program after one more launch by arithmetic, and keeps that launch."""
    return ByArithmetic(program.later.later, launch)


def run_first_with(
    graph: Graph, leaves: tuple[Any, ...], interior: tuple[tuple[int, Layout], ...]
) -> list[Buffer] | None:
    """Run a graph as `run_first` does, storing interior values as well, each into a new Buffer; see `find`."""
    key = keyed(interior)
    program = None if graph.programs is None else graph.programs.get(key)
    if program is not None and program.later is None:
        return None
    outputs = ((graph.result, graph.layout), *interior)
    planner = graph.structure.plans.get(tuple([(number, layout.dtype) for number, layout in outputs]))
    if planner is None:
        return None
    layouts = [layout for _, layout in outputs]
    line = line_of((*layouts, *graph.leaves))
    launch = None if line is None else planner.plan_again(*line)
    if launch is None:
        return None
    sizes = [layout.nbytes for layout in layouts]
    made: list[Buffer] | None = run_again_into(launch, sizes, leaves, has_parts=graph.structure.has_parts)
    if made is not None:
        if graph.programs is None:
            graph.programs = {}
        graph.programs[key] = ONCE if program is None else program.later
    return made


def launch_of(
    structure: Structure, layout: Layout, leaves: tuple[Any, ...], *, is_new: bool = True, is_looked_for: bool = True
) -> Again | None:
    """The launch of a structure on leaves into a layout, if it has run on operands that lie alike.

    To look for it among what is known of more dimensions takes about as long as to prepare it: that is done once.

    Parameters
    ----------
    structure, layout, leaves
    is_new : bool
        It has not run on these yet.
    is_looked_for : bool
        Whether to do more than arithmetic for it.
    """
    planner = structure.planner
    if planner is None or layout.dtype is not structure.dtype:
        planner = structure.plans.get(((structure.result, layout.dtype),))
        if planner is None:
            return None
        if layout.dtype is structure.dtype:
            structure.planner = planner
    launch: Again | None = line_again(planner, entries := (layout, *leaves))
    if launch is not None:
        return launch
    line = line_of(entries)
    if line is not None:
        return planner.line_known(*line, device().capability) if is_looked_for else None
    is_new = is_new and is_looked_for
    shape = layout.shape
    layouts = [layout, *[entry for entry in leaves if type(entry) is Layout]]
    if len(shape) == 2 and (matrix := matrix_of(layouts)) is not None:
        launch = planner.matrix_again(shape, *matrix, device().capability)
        if launch is None and is_new:
            launch = planner.plan_known(shape, _operands(structure, layouts), device().capability)
    elif is_new and all([each.is_aligned for each in layouts]):  # noqa: C419 - what goes through them one by one takes longer
        launch = planner.plan_known(shape, _operands(structure, layouts), device().capability)
    else:
        launch = None
    return launch


def prepare(graph: Graph, target: Layout) -> None:
    """Build what is missing to run a graph into a layout."""
    form = target.form
    program = None if graph.programs is None else graph.programs.get(form)
    if program is None or program.later is not None:
        launch = launch_of(graph.structure, form, graph.leaves)
        if launch is not None and anywhere(launch[0]) is not None:
            return
    if program is None or program.version != config.version:
        find(graph, target=target)


def run_into(graph: Graph, leaves: tuple[Any, ...], target: Layout, ptr: int) -> tuple[bool, bool]:
    """Run a graph, its result going to a layout at an address.

    Returns
    -------
    is_first, is_planned : bool
        It is the first time there, and takes more than arithmetic.
    """
    programs = graph.programs
    if programs is None:
        programs = graph.programs = {}
        if run_first(graph, leaves, target, ptr):
            return True, False
    form = target.form
    program = programs.get(form)
    is_first = program is None
    if (program is None or program.later is not None) and run_first(graph, leaves, form, ptr, program):
        note_run(graph, form, program)
        return is_first, False
    if program is None or program.version != config.version:
        program = find(graph, target=target)
    if program.arrays_only:  # `program.run_into`, spelled out
        program.launch(ptr, *[entry.ptr for entry in leaves])
    else:
        program.run_into(ptr, leaves)
    return is_first, is_first


def note_run(graph: Graph, form: Layout, program: ByArithmetic | None) -> None:
    """Note that a graph has run into a form by arithmetic, where it has had this in place of a program until now."""
    programs = graph.programs
    if programs is None:
        programs = graph.programs = {}
    if program is not None:
        programs[form] = program.later
    elif len(programs) < MAX_PROGRAMS:
        programs[form] = ONCE


def note_again(graph: Graph, layout: Layout) -> None:
    """Do what `note_run` does of a graph that has run into a layout by arithmetic."""
    form = layout._form or layout.form
    note_run(graph, form, None if graph.programs is None else graph.programs.get(form))


def line_of(entries: Sequence[Any]) -> tuple[int, tuple[int, ...], tuple[int, ...]] | None:
    """Size, strides and alignments of operands that are one loop over their elements; None where they are not.

    Entries are layouts; what is none, as scalars are, is passed over.
    """
    first: Any = None
    steps: tuple[int, ...] = ()
    alignments: tuple[int, ...] = ()
    for layout in entries:
        if type(layout) is not Layout:
            continue
        if first is None:
            first = layout
        if not layout.is_aligned:
            return None
        if layout.is_contiguous:
            steps += (1,)
        elif layout.ndim == 1:
            steps += (layout.strides[0] // layout.dtype.itemsize,)
        else:
            return None
        alignments += (layout.alignment,)
    if first is None or first.size < 2:
        return None
    if first.ndim > 1 and steps.count(1) < len(steps):
        return None
    return first.size, steps, alignments


def line_again(planner: Any, entries: tuple[Any, ...]) -> Again | None:
    """Return the launch of operands that are one loop, if a planner of chains has planned others; see `line_of`."""
    line = line_of(entries)
    return None if line is None else planner.plan_again(*line)


def matrix_of(layouts: list[Layout]) -> tuple[tuple[tuple[int, int], ...], tuple[int, ...]] | None:
    """Strides in elements and alignments of matrices; None where some are not aligned."""
    steps: tuple[tuple[int, int], ...] = ()
    alignments: tuple[int, ...] = ()
    for layout in layouts:
        if not layout.is_aligned:
            return None
        (down, along), itemsize = layout.strides, layout.dtype.itemsize
        steps += ((down // itemsize, along // itemsize),)
        alignments += (layout.alignment,)
    return steps, alignments


def describe(graph: Graph) -> str:
    """Say in a few words what one kernel computes."""
    names = [node.name for node in graph.nodes] or ["copy"]
    return f"{' '.join(names)} -> {graph.dtype} {graph.layout.shape}"


def inputs(graph: Graph) -> tuple[Any, ...]:
    """Return the graph's leaves as kernel operands."""
    return tuple(
        [operand(entry) if isinstance(entry, Layout) else ScalarOperand(DEVICE_TYPES[entry]) for entry in graph.leaves]
    )


def input_types(structure: Structure, types: dict[np.dtype[Any], Type] = DEVICE_TYPES) -> list[tuple[Type, bool]]:
    """Return of every leaf the type, and whether it is an array."""
    kinds = [types[np.dtype(kind)] for kind in structure.kinds]
    return list(zip(kinds, structure.are_arrays, strict=True))


def arrays(graph: Graph) -> list[Operand]:
    """Return the graph's leaves that are arrays as kernel operands."""
    return [operand(entry) for entry in graph.leaves if isinstance(entry, Layout)]


def operand(layout: Layout, types: dict[np.dtype[Any], Type] = DEVICE_TYPES) -> Operand:
    """Return a layout as a kernel operand.

    Raises
    ------
    Unsupported
        Elements do not lie at multiples of their size: a kernel that touched them would end the context.
    """
    if not layout.is_aligned:
        raise Unsupported("elements that do not lie at multiples of their size")
    return Operand(types[layout.dtype], layout.element_strides, layout.alignment)


def instructions(graph: Graph | Structure) -> tuple[Instr, ...]:
    """Return the graph's nodes as kernel instructions."""
    structure = graph.structure if isinstance(graph, Graph) else graph
    made: tuple[Instr, ...] | None = structure.plans.get("instructions")
    if made is None:
        made = structure.plans["instructions"] = _instructions(structure, DEVICE_TYPES)
    return made


def _instructions(structure: Structure, types: dict[np.dtype[Any], Type]) -> tuple[Instr, ...]:
    return tuple([Instr(node.lower, types[node.dtype], node.args) for node in structure.nodes])


def copying(layout: Layout, dtype: np.dtype[Any]) -> Graph:
    """Return the graph that copies and casts what lies in `layout` to a new array; one per layout and dtype."""
    source = leaf(layout)
    if source.programs is None:
        source.programs = {}
    graph: Graph | None = source.programs.get(("copy", dtype))
    if graph is None:
        structure = copy_structure(layout.dtype, layout.dtype.num, dtype, dtype.num)
        graph = source.programs["copy", dtype] = graph_of(structure, Layout.of(dtype, layout.shape), (layout,))
        graph.is_copy = dtype == layout.dtype
    return graph


def copy_of(layout: Layout, result: Layout) -> Graph:
    """Return a graph of its own that copies what lies in a layout to a result of the same dtype and shape."""
    dtype = layout.dtype
    graph = graph_of(copy_structure(dtype, dtype.num, dtype, dtype.num), result, (layout,))
    graph.is_copy = True
    return graph


@cache
def copy_structure(source: np.dtype[Any], source_num: int, dtype: np.dtype[Any], num: int) -> Structure:
    """Return the structure of a copy; the numbers tell equal dtypes of other scalar types apart."""
    del source_num, num
    return structure_of((source,), (True,), (Node(cast(source, dtype), dtype, (0,)),), 1)


def on_device(layout: Layout, buffer: Buffer) -> Value:
    """Return the value of a storage whose elements lie in `layout` in a Buffer that is new."""
    return leaf(layout), (buffer,), next_mask()


def read(layout: Layout, value: Value) -> Value:
    """Return what lies in `layout` in the Buffer of a storage that is on the device."""
    graph = layout.read or reading(layout)
    _, (buffer,), mask = value
    offset = layout.offset
    if offset == 0:
        return graph, (buffer,), mask
    entry = Leaf()  # `entry_at`, spelled out
    entry.ptr = buffer.ptr + offset
    entry.buffer = buffer if type(buffer) is Buffer else buffer.buffer
    return graph, (entry,), mask


def entry_at(offset: int, buffer: Buffer) -> Any:
    """Return what stands for a Buffer that is read from a byte on: itself from the first one."""
    if offset == 0:
        return buffer
    entry = Leaf()
    entry.ptr = buffer.ptr + offset  # first: the result of a call has its Buffer then
    entry.buffer = buffer if type(buffer) is Buffer else buffer.buffer
    return entry
