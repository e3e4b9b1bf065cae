"""Programs: how a graph runs on the backend. Built once per graph and set of outputs, then only called.

A program holds its launcher, its launch geometry and the size of its result, so that running it is an allocation and a
launch. Which kernel serves which layouts is `_kernels`' business; this module only translates.
"""

from __future__ import annotations

import importlib
from itertools import chain
from typing import TYPE_CHECKING, Any

from oxinp._config import config
from oxinp._core.dtypes import DEVICE_TYPES
from oxinp._core.expr import Graph, Node, Unsupported, cast, leaf
from oxinp._core.layout import Layout
from oxinp._core.placement import device, keyed
from oxinp._core.storage import Leaf, next_mask
from oxinp._kernels.problem import Instr, Operand, Output, ScalarOperand
from oxinp._runtime import hooks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from oxinp._core.storage import Value
    from oxinp._kernels.plan import Plan
    from oxinp._runtime.memory import Buffer


ELEMENTWISE = "oxinp._kernels.elementwise.plan"  # imported while the driver starts, see `hooks.while_starting`

MAX_OUTPUTS = 8
MAX_PROGRAMS = 256  # of one graph: outputs into that many layouts


class Program:
    """An elementwise graph, compiled for its layouts."""

    __slots__ = ("allocate", "arguments", "arrays_only", "launch", "leaf", "nbytes", "sizes", "version")

    def __init__(self, graph: Graph, outputs: tuple[tuple[int, Layout], ...]) -> None:
        backend = device()
        self.allocate = backend.allocate
        self.leaf = leaf(outputs[0][1])
        self.sizes = [layout.nbytes for _, layout in outputs]
        self.nbytes = self.sizes[0]
        self.arrays_only = all(isinstance(entry, Layout) for entry in graph.leaves)
        self.arguments, count = arguments_of(graph)
        self.launch: Any = _skip
        if outputs[0][1].size:
            launch = (
                importlib.import_module(ELEMENTWISE)
                .plan(graph.shape, inputs(graph), instructions(graph), _outputs(outputs), backend.capability)
                .launch
            )
            num_varying = len(outputs) + count
            self.launch = backend.launcher(launch.kernel, launch.grid, num_varying, launch.constants, launch.work)

    def run(self, leaves: tuple[Any, ...]) -> Buffer:
        """Enqueue into a new Buffer."""
        buffer = self.allocate(self.nbytes)
        if self.arrays_only:
            self.launch(buffer.ptr, *[entry.ptr for entry in leaves])
        else:
            self.run_into(buffer.ptr, leaves)
        return buffer

    def run_all(self, leaves: tuple[Any, ...]) -> list[Buffer]:
        """Enqueue into one new Buffer per output."""
        buffers = [self.allocate(nbytes) for nbytes in self.sizes]
        self.launch(*[buffer.ptr for buffer in buffers], *self.arguments(leaves))
        return buffers

    def run_into(self, ptr: int, leaves: tuple[Any, ...]) -> None:
        """Enqueue into memory that is there."""
        self.launch(ptr, *self.arguments(leaves))


hooks.while_starting.append(lambda: importlib.import_module(ELEMENTWISE))


def _skip(*_: Any) -> None:
    """Launch nothing, for arrays without elements."""


def arguments_of(graph: Graph) -> tuple[Callable[[tuple[Any, ...]], list[Any]], int]:
    """Return the function that makes kernel parameters of a graph's leaves, and how many it makes."""
    num_complex = sum(not isinstance(entry, Layout) and entry.kind == "c" for entry in graph.leaves)
    return _with_parts if num_complex else _arguments, len(graph.leaves) + num_complex


def _arguments(leaves: tuple[Any, ...]) -> list[Any]:
    return [getattr(entry, "ptr", entry) for entry in leaves]


def _with_parts(leaves: tuple[Any, ...]) -> list[Any]:
    """Complex scalars are two parameters."""
    parts = [
        (entry.real, entry.imag) if type(entry) is complex else (getattr(entry, "ptr", entry),) for entry in leaves
    ]
    return list(chain.from_iterable(parts))


class PassesProgram:
    """What ends in a reduction or a scan, compiled for its layouts: one launch, or two that share a scratch buffer.

    Parameters
    ----------
    graph : Graph
    plan : Plan
    counts : sequence of int
        Parameters of each launch that vary.
    """

    __slots__ = ("allocate", "arguments", "first", "leaf", "nbytes", "scratch_nbytes", "second", "version")

    arrays_only = False  # what `schedule.materialise` may not spell out
    version: int

    def __init__(self, graph: Graph, plan: Plan, counts: Sequence[int]) -> None:
        backend = device()
        self.leaf = leaf(graph.layout)
        self.nbytes = graph.layout.nbytes
        self.allocate = backend.allocate
        self.scratch_nbytes = plan.scratch_nbytes
        self.arguments, _ = arguments_of(graph)
        launches: Any = plan.steps
        first, *second = [
            backend.launcher(launch.kernel, launch.grid, count, launch.constants, launch.work)
            for launch, count in zip(launches, counts, strict=False)
        ]
        self.first = first
        self.second: Any = second[0] if second else None

    def run(self, leaves: tuple[Any, ...]) -> Buffer:
        """Enqueue into a new Buffer."""
        buffer = self.allocate(self.nbytes)
        self.run_into(buffer.ptr, leaves)
        return buffer

    def run_into(self, ptr: int, leaves: tuple[Any, ...]) -> None:
        """Enqueue into memory that is there."""
        arguments = self.arguments(leaves)
        if self.second is None:
            self.first(ptr, *arguments)
        else:
            scratch = self.allocate(self.scratch_nbytes)
            self.run_both(ptr, scratch.ptr, arguments)

    def run_both(self, ptr: int, scratch: int, arguments: list[Any]) -> None:
        """Enqueue the two launches, each with what it takes."""
        raise NotImplementedError


def find(graph: Graph, interior: tuple[tuple[int, Layout], ...] = (), target: Layout | None = None) -> Any:
    """Return the program that `build` makes, from the graph where it was made before under the present settings."""
    if target is not None:
        target = target.form
    key = keyed(target or interior)
    program = graph.programs.get(key)
    if program is None or program.version != config.version:
        if len(graph.programs) >= MAX_PROGRAMS:
            graph.programs.clear()
        program = graph.programs[key] = build(graph, interior, target)
        program.version = config.version
        if not key:
            graph.program = program
    return program


def build(graph: Graph, interior: tuple[tuple[int, Layout], ...] = (), target: Layout | None = None) -> Any:
    """Compile `graph`.

    Parameters
    ----------
    graph : Graph
    interior : tuple of (int, Layout)
        Numbers of interior values to store as well, each into a new Buffer in that layout.
    target : Layout or None
        The form of where the result goes, if not into a new contiguous Buffer.
    """
    if graph.reduction is not None:
        return graph.reduction.build(graph, target)
    return Program(graph, ((graph.result, graph.layout if target is None else target), *interior))


def describe(graph: Graph) -> str:
    """Say in a few words what one kernel computes."""
    names = [node.name for node in graph.nodes] or ["copy"]
    if graph.reduction is not None:
        names[-1] = graph.reduction.row.name
    return f"{' '.join(names)} -> {graph.dtype} {graph.layout.shape}"


def inputs(graph: Graph) -> tuple[Any, ...]:
    """Return the graph's leaves as kernel operands."""
    return tuple(
        operand(entry) if isinstance(entry, Layout) else ScalarOperand(DEVICE_TYPES[entry]) for entry in graph.leaves
    )


def operand(layout: Layout) -> Operand:
    """Return a layout as a kernel operand.

    Raises
    ------
    Unsupported
        Elements do not lie at multiples of their size: a kernel that touched them would end the context.
    """
    if not layout.is_aligned:
        raise Unsupported("elements that do not lie at multiples of their size")
    return Operand(DEVICE_TYPES[layout.dtype], layout.element_strides, layout.alignment)


def instructions(graph: Graph) -> tuple[Instr, ...]:
    """Return the graph's nodes as kernel instructions."""
    return tuple(Instr(node.lower, DEVICE_TYPES[node.dtype], node.args) for node in graph.nodes)


def _outputs(outputs: tuple[tuple[int, Layout], ...]) -> tuple[Output, ...]:
    return tuple(Output(number, operand(layout)) for number, layout in outputs)


def copying(layout: Layout, dtype: np.dtype[Any]) -> Graph:
    """Return the graph that copies and casts what lies in `layout` to a new array; one per layout and dtype."""
    source = leaf(layout)
    graph: Graph | None = source.programs.get(("copy", dtype))
    if graph is None:
        node = Node(cast(layout.dtype, dtype), dtype, (0,))
        graph = source.programs["copy", dtype] = Graph(Layout.of(dtype, layout.shape), (layout,), (node,), 1)
        graph.is_copy = dtype == layout.dtype
    return graph


def on_device(layout: Layout, buffer: Buffer) -> Value:
    """Return the value of a storage whose elements lie in `layout` in a Buffer that is new."""
    return leaf(layout), (buffer,), next_mask()


def read(layout: Layout, value: Value) -> Value:
    """Return what lies in `layout` in the Buffer of a storage that is on the device."""
    buffer = value[1][0]
    graph = layout.read
    if graph is None:
        graph = layout.read = leaf(layout.form)
    offset = layout.offset
    if offset == 0:
        return graph, (buffer,), value[2]
    entry = Leaf()
    entry.buffer = buffer
    entry.ptr = buffer.ptr + offset
    return graph, (entry,), value[2]
