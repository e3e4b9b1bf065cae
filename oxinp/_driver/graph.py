"""Graphs: work that is described once, by hand or by capturing a stream, and launched as a whole again and again."""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import TYPE_CHECKING

from oxinp._driver import enums, errors
from oxinp._driver.callback import ENTRY, HostFunction
from oxinp._driver.copy import Place, block_copy
from oxinp._driver.handle import Handle
from oxinp._driver.launch import LaunchAttribute
from oxinp._driver.work_structures import GraphUpdateInfo, HostNodeParams, KernelNodeParams, MemsetNodeParams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from oxinp._driver.context import Context
    from oxinp._driver.launch import Launcher
    from oxinp._driver.stream import Stream

__all__ = ["CAPTURE_MODES", "Executable", "Graph", "Node", "capture", "is_capturing"]

CAPTURE_MODES = {
    "global": enums.CaptureMode.GLOBAL,  # no thread may make calls that a capture cannot hold
    "thread_local": enums.CaptureMode.THREAD_LOCAL,  # this thread may not
    "relaxed": enums.CaptureMode.RELAXED,  # every thread may, and has to know what it does
}
"""Numbers of the CU_STREAM_CAPTURE_MODE_*, by the names used here."""

_NODE_TYPES = {number: name.lower() for name, number in vars(enums.GraphNodeType).items() if isinstance(number, int)}
_UPDATE_FAILURES = {
    number: name.lower().replace("_", " ")
    for name, number in vars(enums.GraphUpdateResult).items()
    if isinstance(number, int)
}


class Node:
    """A piece of work in a graph; it lives as long as the graph does.

    Attributes
    ----------
    graph : Graph
    handle : int
    """

    __slots__ = ("graph", "handle")

    def __init__(self, graph: Graph, handle: int) -> None:
        self.graph = graph
        self.handle = handle

    @property
    def kind(self) -> str:
        """Type of the node: "kernel", "memcpy", "memset", "host", "graph", "empty" and others."""
        number = ctypes.c_int()
        self.graph.driver.cuGraphNodeGetType(self.handle, ctypes.byref(number))
        return _NODE_TYPES.get(number.value, f"type {number.value}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self.handle == other.handle and self.graph is other.graph

    def __hash__(self) -> int:
        return hash(self.handle)

    def __repr__(self) -> str:
        return f"<Node {self.handle:#x}>"


class Graph(Handle):
    """Nodes, and which of them wait for which.

    Parameters
    ----------
    context : Context
    handle : int, optional
        A graph that exists already and nobody else destroys; an empty one is made if not given.

    Attributes
    ----------
    context : Context
    kept : list
        What its nodes need and somebody has to keep alive: kernels, functions, memory.
    """

    __slots__ = ("context", "kept")

    destroyer = "cuGraphDestroy"

    def __init__(self, context: Context, handle: int | None = None) -> None:
        self.context = context
        self.kept: list[object] = []
        if handle is None:
            made = ctypes.c_void_p()
            context.driver.cuGraphCreate(ctypes.byref(made), 0)
            handle = made.value or 0
        super().__init__(context.driver, handle)

    def add_kernel(self, launcher: Launcher, *varying: object, after: Sequence[Node] = ()) -> Node:
        """Add a launch, with the launcher's shape and these leading parameters."""
        launcher.pack(*varying)
        node = self._add("cuGraphAddKernelNode_v2", after, ctypes.byref(_kernel_params(launcher)))
        self.kept.append(launcher.function)
        for attribute in launcher.attributes:
            value = ctypes.addressof(attribute) + LaunchAttribute.value.offset
            self.driver.cuGraphKernelNodeSetAttribute(node.handle, attribute.id, value)
        return node

    def add_copy(self, target: Place, source: Place, nbytes: int, *, after: Sequence[Node] = ()) -> Node:
        """Add a copy of a run of bytes."""
        params = block_copy(target, source, nbytes)
        return self._add("cuGraphAddMemcpyNode", after, ctypes.byref(params), self.context.handle)

    def add_fill(self, ptr: int, value: int, count: int, *, value_nbytes: int = 1, after: Sequence[Node] = ()) -> Node:
        """Add a fill of `count` values of 1, 2 or 4 bytes each."""
        if value_nbytes not in {1, 2, 4}:
            raise errors.InvalidValue(f"value_nbytes={value_nbytes}: values have 1, 2 or 4 bytes")
        params = MemsetNodeParams(dst=ptr, value=value, elementSize=value_nbytes, width=count, height=1)
        return self._add("cuGraphAddMemsetNode", after, ctypes.byref(params), self.context.handle)

    def add_host(self, function: Callable[[], object], *, after: Sequence[Node] = ()) -> Node:
        """Add a call of a Python function, which must not call the driver; what it raises is printed and forgotten."""
        called = HostFunction(function)
        self.kept.append(called)
        return self._add("cuGraphAddHostNode", after, ctypes.byref(HostNodeParams(fn=ENTRY, userData=called.number)))

    def add_empty(self, *, after: Sequence[Node] = ()) -> Node:
        """Add a node that does nothing, for others to wait for."""
        return self._add("cuGraphAddEmptyNode", after)

    def add_graph(self, graph: Graph, *, after: Sequence[Node] = ()) -> Node:
        """Add a copy of another graph as one node."""
        self.kept.append(graph.kept)
        return self._add("cuGraphAddChildGraphNode", after, graph.handle)

    def add_dependency(self, first: Node, then: Node) -> None:
        """Let a node wait for another."""
        self.driver.cuGraphAddDependencies(self.handle, _handles([first]), _handles([then]), 1)

    def nodes(self) -> list[Node]:
        """Return all nodes, in no particular order."""
        return self._list("cuGraphGetNodes")

    def roots(self) -> list[Node]:
        """Return the nodes that wait for none."""
        return self._list("cuGraphGetRootNodes")

    def edges(self) -> list[tuple[Node, Node]]:
        """Return the pairs of nodes of which the second waits for the first."""
        count = ctypes.c_size_t()
        self.driver.cuGraphGetEdges(self.handle, None, None, ctypes.byref(count))
        first, then = (ctypes.c_void_p * count.value)(), (ctypes.c_void_p * count.value)()
        if count.value:
            self.driver.cuGraphGetEdges(self.handle, first, then, ctypes.byref(count))
        return [(Node(self, a or 0), Node(self, b or 0)) for a, b in zip(first, then, strict=True)]

    def instantiate(self) -> Executable:
        """Return the graph in the form that can be launched; later changes to this one do not show there.

        Raises
        ------
        CudaError
            It has a circle, or work that this device cannot do.
        """
        made = ctypes.c_void_p()
        self.driver.cuGraphInstantiateWithFlags(ctypes.byref(made), self.handle, 0)
        return Executable(self.context, made.value or 0, list(self.kept))

    def write_dot(self, path: str | os.PathLike[str], *, is_verbose: bool = False) -> None:
        """Write the graph in the DOT language, for Graphviz to draw.

        Parameters
        ----------
        path : path-like
        is_verbose : bool
            Whether parameters are written too.
        """
        flags = enums.GraphDotFlag.VERBOSE if is_verbose else 0
        self.driver.cuGraphDebugDotPrint(self.handle, os.fsencode(path), flags)

    def take(self, handle: int) -> None:
        """Take ownership of another driver graph."""
        self.driver.cuGraphDestroy(self.handle)
        self._handle = handle

    def _add(self, function: str, after: Sequence[Node], *rest: object) -> Node:
        for node in after:
            if node.graph is not self:
                raise errors.InvalidValue(f"after={node!r}: it is a node of another graph")
        made = ctypes.c_void_p()
        getattr(self.driver, function)(ctypes.byref(made), self.handle, _handles(after), len(after), *rest)
        return Node(self, made.value or 0)

    def _list(self, function: str) -> list[Node]:
        count = ctypes.c_size_t()
        getattr(self.driver, function)(self.handle, None, ctypes.byref(count))
        found = (ctypes.c_void_p * count.value)()
        if count.value:
            getattr(self.driver, function)(self.handle, found, ctypes.byref(count))
        return [Node(self, handle or 0) for handle in found]


class Executable(Handle):
    """A graph that can be launched. Made by `Graph.instantiate`.

    Attributes
    ----------
    context : Context
    """

    __slots__ = ("_kept", "context")

    destroyer = "cuGraphExecDestroy"

    def __init__(self, context: Context, handle: int, kept: list[object]) -> None:
        super().__init__(context.driver, handle)
        self.context = context
        self._kept = kept

    def launch(self, stream: int = 0) -> None:
        """Enqueue the whole graph on a stream; launches of one executable run one after the other."""
        self.driver.cuGraphLaunch(self.handle, stream)

    def upload(self, stream: int = 0) -> None:
        """Prepare the device for the first launch."""
        self.driver.cuGraphUpload(self.handle, stream)

    def update(self, graph: Graph) -> None:
        """Take over the parameters of a graph of the same shape.

        Raises
        ------
        CaptureError
            It has another shape, or other kernels than may be exchanged; says what changed. Instantiate it anew.
        """
        info = GraphUpdateInfo()
        try:
            self.driver.cuGraphExecUpdate_v2(self.handle, graph.handle, ctypes.byref(info))
        except errors.CaptureError as error:
            reason = _UPDATE_FAILURES.get(info.result, f"reason {info.result}")
            told = f"{error} What stands in the way: {reason}."
            raise errors.CaptureError(told, code=error.code, name=error.name, call=error.call) from None
        self._kept = list(graph.kept)

    def set_kernel(self, node: Node, launcher: Launcher, *varying: object) -> None:
        """Give a kernel node of the graph it was made of another shape and other parameters."""
        launcher.pack(*varying)
        params = _kernel_params(launcher)
        self.driver.cuGraphExecKernelNodeSetParams_v2(self.handle, node.handle, ctypes.byref(params))
        self._kept.append(launcher.function)

    def set_copy(self, node: Node, target: Place, source: Place, nbytes: int) -> None:
        """Let a copy node of the graph it was made of copy something else, between memories of the same kinds."""
        params = block_copy(target, source, nbytes)
        context = self.context.handle
        self.driver.cuGraphExecMemcpyNodeSetParams(self.handle, node.handle, ctypes.byref(params), context)


@contextlib.contextmanager
def capture(stream: Stream, mode: str = "thread_local") -> Iterator[Graph]:
    """Record what a stream is given inside a `with` block into a graph, instead of doing it.

    Parameters
    ----------
    stream : Stream
        Not the default one.
    mode : {"global", "thread_local", "relaxed"}
        Who may make calls meanwhile that a capture cannot hold; see `CAPTURE_MODES`.

    Yields
    ------
    Graph
        Empty inside the block, complete after it. What the kernels use has to be kept alive by the caller.

    Raises
    ------
    CaptureError
        From the call that cannot be captured, or at the end where it has spoilt the capture.
    """
    if mode not in CAPTURE_MODES:
        raise errors.InvalidValue(f"mode={mode!r}: known are {', '.join(CAPTURE_MODES)}")
    driver = stream.driver
    graph = Graph(stream.context)
    driver.cuStreamBeginCapture_v2(stream.handle, CAPTURE_MODES[mode])
    made = ctypes.c_void_p()
    try:
        yield graph
    except BaseException:
        # The stream must be usable afterwards; what the capture has become is of no interest any more.
        with contextlib.suppress(errors.CudaError):
            driver.cuStreamEndCapture(stream.handle, ctypes.byref(made))
        if made.value:
            driver.cuGraphDestroy(made)
        raise
    driver.cuStreamEndCapture(stream.handle, ctypes.byref(made))
    graph.take(made.value or 0)


def is_capturing(stream: Stream) -> bool:
    """Return whether a stream's work goes into a graph."""
    status = ctypes.c_int()
    stream.driver.cuStreamIsCapturing(stream.handle, ctypes.byref(status))
    return status.value != enums.CaptureStatus.NONE


def _handles(nodes: Sequence[Node]) -> ctypes.Array[ctypes.c_void_p] | None:
    return (ctypes.c_void_p * len(nodes))(*[node.handle for node in nodes]) if nodes else None


def _kernel_params(launcher: Launcher) -> KernelNodeParams:
    config = launcher.config
    listed, packed = launcher.parameters
    return KernelNodeParams(
        launcher.function.handle, *config.grid, *config.block, config.shared_nbytes, listed or None, packed or None
    )
