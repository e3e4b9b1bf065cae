"""Graphs of the driver made of Python functions: nodes run one after the other when the graph is launched."""

# ruff: noqa: ARG002 - parameters are the driver's

import ctypes

from oxinp._driver.work_structures import HostNodeParams, KernelNodeParams, Memcpy3D, MemsetNodeParams

_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def _store(address, ctype, value):
    ctype.from_address(address).value = value


def _copied(structure, address):
    return structure.from_buffer_copy(ctypes.string_at(address, ctypes.sizeof(structure)))


class FakeNode:
    def __init__(self, kind, params, after):
        self.kind, self.params, self.after = kind, params, list(after)
        self.attributes = {}


class FakeGraphs:
    """The driver functions that graphs need.

    Attributes
    ----------
    graphs : dict of int to dict of int to FakeNode
        Nodes by handle, of graphs by handle.
    executables : dict of int to dict of int to FakeNode
    capturing : dict of int to (int, int)
        Modes and contexts by the stream that is captured.
    spoilt : set of int
        Captured streams that somebody has waited for.
    ends : dict of int to (int, set of int)
        Of streams whose work goes into a graph: the captured stream, and the nodes that come last.
    marks : dict of int to (int, set of int)
        The same of events that were recorded there.
    """

    def init_graphs(self):
        self.graphs, self.executables, self.capturing, self.captured = {}, {}, {}, {}
        self.graph_launches, self.spoilt, self.ends, self.marks = [], set(), {}, {}

    # Waiting for what is captured is refused, and ends the capture

    def do_cuCtxSynchronize(self, result):
        context = getattr(self._thread, "context", 0)
        return self._refuse({stream for stream, (_, home) in self.capturing.items() if home == context})

    def do_cuStreamSynchronize(self, result, stream):
        return self._refuse(self.capturing.keys() & {stream})

    def _refuse(self, streams):
        self.spoilt |= streams
        return 900 if streams else 0

    def _call_host(self, function, number):
        _CALLBACK(function)(number)

    def do_cuGraphCreate(self, result, address, flags):
        if not result:
            self._give_handle(result, address)
            self.graphs[ctypes.c_void_p.from_address(address).value] = {}

    def do_cuGraphDestroy(self, result, graph):
        if not result:
            del self.graphs[graph]

    def _add(self, result, address, graph, dependencies, count, kind, params):
        if result:
            return
        after = (ctypes.c_void_p * count).from_address(dependencies) if count else ()
        self._give_handle(result, address)
        self.graphs[graph][ctypes.c_void_p.from_address(address).value] = FakeNode(kind, params, after)

    def do_cuGraphAddKernelNode_v2(self, result, address, graph, dependencies, count, params):
        self._add(result, address, graph, dependencies, count, 0, self._kernel(params))

    def _kernel(self, address):
        params = _copied(KernelNodeParams, address)
        extra = (ctypes.c_void_p * 5).from_address(params.extra)
        packed = ctypes.string_at(extra[1], ctypes.c_size_t.from_address(extra[3]).value)
        grid = params.gridDimX, params.gridDimY, params.gridDimZ
        return params.func, grid, (params.blockDimX, params.blockDimY, params.blockDimZ), packed

    def do_cuGraphAddMemcpyNode(self, result, address, graph, dependencies, count, params, context):
        self._add(result, address, graph, dependencies, count, 1, _copied(Memcpy3D, params))

    def do_cuGraphAddMemsetNode(self, result, address, graph, dependencies, count, params, context):
        self._add(result, address, graph, dependencies, count, 2, _copied(MemsetNodeParams, params))

    def do_cuGraphAddHostNode(self, result, address, graph, dependencies, count, params):
        self._add(result, address, graph, dependencies, count, 3, _copied(HostNodeParams, params))

    def do_cuGraphAddChildGraphNode(self, result, address, graph, dependencies, count, child):
        self._add(result, address, graph, dependencies, count, 4, dict(self.graphs[child]))

    def do_cuGraphAddEmptyNode(self, result, address, graph, dependencies, count):
        self._add(result, address, graph, dependencies, count, 5, None)

    def do_cuGraphKernelNodeSetAttribute(self, result, node, attribute, value):
        found = next(nodes[node] for nodes in list(self.graphs.values()) if node in nodes)
        found.attributes[attribute] = ctypes.c_uint.from_address(value).value

    def do_cuGraphAddDependencies(self, result, graph, first, then, count):
        firsts = (ctypes.c_void_p * count).from_address(first)
        thens = (ctypes.c_void_p * count).from_address(then)
        for a, b in zip(firsts, thens, strict=True):
            self.graphs[graph][b].after.append(a)

    def do_cuGraphNodeGetType(self, result, node, address):
        found = next(nodes[node] for nodes in list(self.graphs.values()) if node in nodes)
        _store(address, ctypes.c_int, found.kind)

    def _list(self, found, array, count):
        if array:
            (ctypes.c_void_p * len(found)).from_address(array)[:] = found
        _store(count, ctypes.c_size_t, len(found))

    def do_cuGraphGetNodes(self, result, graph, array, count):
        self._list(list(self.graphs[graph]), array, count)

    def do_cuGraphGetRootNodes(self, result, graph, array, count):
        self._list([handle for handle, node in self.graphs[graph].items() if not node.after], array, count)

    def do_cuGraphGetEdges(self, result, graph, first, then, count):
        edges = [(a, b) for b, node in self.graphs[graph].items() for a in node.after]
        self._list([a for a, _ in edges], first, count)
        self._list([b for _, b in edges], then, count)

    def do_cuGraphDebugDotPrint(self, result, graph, path, flags):
        with open(path, "w", encoding="ascii") as file:  # noqa: PTH123 - bytes, as the driver takes them
            file.write(f"digraph {{ {len(self.graphs[graph])} }} // {flags}")

    def do_cuGraphInstantiateWithFlags(self, result, address, graph, flags):
        if not result:
            self._give_handle(result, address)
            self.executables[ctypes.c_void_p.from_address(address).value] = dict(self.graphs[graph])

    def do_cuGraphExecDestroy(self, result, executable):
        if not result:
            del self.executables[executable]

    def do_cuGraphExecUpdate_v2(self, result, executable, graph, info):
        if result:
            _store(info, ctypes.c_int, 2)
        else:
            self.executables[executable] = dict(self.graphs[graph])

    def do_cuGraphExecKernelNodeSetParams_v2(self, result, executable, node, params):
        before = self.executables[executable][node]
        self.executables[executable][node] = FakeNode(0, self._kernel(params), before.after)

    def do_cuGraphExecMemcpyNodeSetParams(self, result, executable, node, params, context):
        before = self.executables[executable][node]
        self.executables[executable][node] = FakeNode(1, _copied(Memcpy3D, params), before.after)

    def do_cuGraphLaunch(self, result, executable, stream):
        if not result:
            self.graph_launches.append((executable, stream or 0))
            self._run(self.executables[executable])

    def _run(self, nodes):
        done = set()
        while len(done) < len(nodes):
            ready = [h for h, node in nodes.items() if h not in done and set(node.after) <= done]
            assert ready, "a circle"
            for handle in ready:
                self._run_node(nodes[handle])
                done.add(handle)

    def _run_node(self, node):
        if node.kind == 1:
            self._copy_rows(node.params)
        elif node.kind == 2:
            value = node.params.value.to_bytes(node.params.elementSize, "little")
            ctypes.memmove(node.params.dst, value * node.params.width, len(value) * node.params.width)
        elif node.kind == 3:
            self._call_host(node.params.fn, node.params.userData)
        elif node.kind == 4:
            self._run(node.params)

    # Capture: of what the stream is given, launches become nodes

    def do_cuStreamBeginCapture_v2(self, result, stream, mode):
        if not result:
            self.capturing[stream] = mode, getattr(self._thread, "context", 0)
            self.captured[stream] = {}
            self.ends[stream] = stream, set()

    def capture_launch(self, stream, launch):
        """Take a launch if its stream is captured, or waits for one that is; return whether it does."""
        if stream not in self.ends:
            return False
        origin, after = self.ends[stream]
        handle = next(self._handles)
        self.captured[origin][handle] = FakeNode(0, launch, after)
        self.ends[stream] = origin, {handle}
        return True

    def do_cuEventRecord(self, result, event, stream):
        self.marks.pop(event, None)
        if stream in self.ends:
            self.marks[event] = self.ends[stream]

    def do_cuStreamWaitEvent(self, result, stream, event, flags):
        if event in self.marks:
            origin, after = self.marks[event]
            self.ends[stream] = origin, self.ends.get(stream, (origin, set()))[1] | after

    def do_cuStreamEndCapture(self, result, stream, address):
        self.capturing.pop(stream, None)
        _, before = self.ends.pop(stream, (stream, set()))
        nodes = self.captured.pop(stream, {})
        beside = {other for other, (origin, _) in self.ends.items() if origin == stream}
        last = set().union(*(self.ends.pop(other)[1] for other in beside))
        self.marks = {event: mark for event, mark in self.marks.items() if mark[0] != stream}
        if stream in self.spoilt:
            return 901
        reached, new = set(), before
        while new:
            reached |= new
            new = {x for node in new for x in nodes[node].after} - reached
        if last - reached:
            return 904
        if not result:
            self.do_cuGraphCreate(0, address, 0)
            self.graphs[ctypes.c_void_p.from_address(address).value] = nodes
        return result

    def do_cuStreamIsCapturing(self, result, stream, address):
        _store(address, ctypes.c_int, int(stream in self.capturing))
