import ctypes
import gc

import pytest

from oxinp._driver import errors
from oxinp._driver.callback import _functions
from oxinp._driver.copy import Place
from oxinp._driver.graph import Graph, capture, is_capturing
from oxinp._driver.launch import Launcher
from oxinp._driver.module import Module
from oxinp._driver.stream import Stream


def make_launcher(context, **options):
    function = Module.from_ptx(context, "x").function("axpy")
    return Launcher(function, (3, 1, 1), (64, 1, 1), 0, "<QQI", 2, (7,), **options)


def test_nodes_run_in_the_order_of_their_dependencies(context, fake):
    graph, order = Graph(context), []
    last = graph.add_host(lambda: order.append("last"))
    middle = graph.add_host(lambda: order.append("middle"))
    first = graph.add_host(lambda: order.append("first"))
    graph.add_dependency(middle, last)
    graph.add_dependency(first, middle)
    assert {node.kind for node in graph.nodes()} == {"host"}
    assert graph.roots() == [first]
    assert set(graph.edges()) == {(first, middle), (middle, last)}
    executable = graph.instantiate()
    del graph, first, middle, last
    gc.collect()  # the executable keeps the functions
    executable.launch(0x77)
    executable.launch(0x77)
    assert order == ["first", "middle", "last"] * 2
    assert [stream for _, stream in fake.graph_launches] == [0x77, 0x77]
    executable.close()
    del executable
    gc.collect()
    assert not _functions
    assert not fake.graphs
    assert not fake.executables


def test_a_kernel_node_has_the_launchers_shape_parameters_and_attributes(context, fake):
    graph, launcher = Graph(context), make_launcher(context, cluster=(2, 1, 1), is_cooperative=True)
    node = graph.add_kernel(launcher, 1, 2)
    launcher.pack(3, 4)  # the node has read its own
    (made,) = fake.graphs[graph.handle].values()
    assert made.params == (launcher.function.handle, (3, 1, 1), (64, 1, 1), made.params[3])
    assert made.params[3] == b"".join(n.to_bytes(s, "little") for n, s in ((1, 8), (2, 8), (7, 4)))
    assert made.attributes == {4: 2, 2: 1}
    assert node.kind == "kernel"


def test_a_graph_keeps_the_module_of_its_kernels(context, fake):
    graph = Graph(context)
    graph.add_kernel(make_launcher(context), 1, 2)
    executable = graph.instantiate()
    del graph
    gc.collect()
    assert "cuModuleUnload" not in fake.names()
    del executable
    gc.collect()
    assert "cuModuleUnload" in fake.names()


def test_parameters_of_an_executable_are_set_without_instantiating_it_anew(context, fake):
    graph, launcher = Graph(context), make_launcher(context)
    node = graph.add_kernel(launcher, 1, 2)
    executable = graph.instantiate()
    executable.set_kernel(node, launcher, 8, 9)
    packed = fake.executables[executable.handle][node.handle].params[3]
    assert packed[:16] == (8).to_bytes(8, "little") + (9).to_bytes(8, "little")
    assert fake.count()["cuGraphInstantiateWithFlags"] == 1


def test_copies_and_fills(context):
    source, target = ctypes.create_string_buffer(b"abcdefgh"), ctypes.create_string_buffer(8)
    a, b = Place(ctypes.addressof(source), is_host=True), Place(ctypes.addressof(target), is_host=True)
    graph = Graph(context)
    copied = graph.add_copy(b, a, 8)
    graph.add_fill(b.ptr + 4, 0x5A59, 1, value_nbytes=2, after=[copied])
    executable = graph.instantiate()
    executable.launch()
    assert target.raw == b"abcdYZgh"
    executable.set_copy(copied, b, Place(a.ptr + 1, is_host=True), 4)
    executable.launch()
    assert target.raw == b"bcdeYZgh"


def test_a_graph_inside_a_graph(context):
    inner, outer, order = Graph(context), Graph(context), []
    inner.add_host(lambda: order.append("inner"))
    node = outer.add_graph(inner)
    outer.add_host(lambda: order.append("outer"), after=[node, outer.add_empty()])
    executable = outer.instantiate()
    del inner, outer, node
    gc.collect()
    executable.launch()
    assert order == ["inner", "outer"]


def test_updating_takes_the_parameters_of_another_graph_or_says_what_changed(context, fake):
    first, second, order = Graph(context), Graph(context), []
    first.add_host(lambda: order.append(1))
    second.add_host(lambda: order.append(2))
    executable = first.instantiate()
    executable.update(second)
    executable.launch()
    assert order == [2]
    fake.results["cuGraphExecUpdate_v2"] = 910
    with pytest.raises(errors.CaptureError, match=r"GRAPH_EXEC_UPDATE_FAILURE.*error topology changed"):
        executable.update(first)


def test_writing_dot(context, tmp_path):
    graph = Graph(context)
    graph.add_empty()
    graph.write_dot(tmp_path / "graph.dot")
    assert (tmp_path / "graph.dot").read_text() == "digraph { 1 } // 0"
    graph.write_dot(tmp_path / "graph.dot", is_verbose=True)
    assert (tmp_path / "graph.dot").read_text().endswith("// 1")


def test_bad_arguments(context):
    graph, other = Graph(context), Graph(context)
    with pytest.raises(errors.InvalidValue, match=r"after=.*another graph"):
        graph.add_empty(after=[other.add_empty()])
    with pytest.raises(errors.InvalidValue, match="value_nbytes=3"):
        graph.add_fill(0, 0, 1, value_nbytes=3)
    with pytest.raises(errors.InvalidValue, match="mode='eager'"), capture(Stream(context), "eager"):
        pytest.fail("there is no such mode")


def test_capture(context, fake):
    stream = Stream(context)
    assert not is_capturing(stream)
    with capture(stream) as graph:
        assert is_capturing(stream)
        assert fake.capturing[stream.handle][0] == 1
    assert not is_capturing(stream)
    assert graph.handle in fake.graphs
    assert len(fake.graphs) == 1  # the empty one that stood for it is gone
    graph.instantiate().launch(stream.handle)


def test_an_exception_inside_ends_the_capture_and_leaves_nothing(context, fake):
    stream = Stream(context)
    with pytest.raises(KeyError), capture(stream):
        raise KeyError("inside")
    gc.collect()
    assert not fake.capturing
    assert not fake.graphs


def test_a_spoilt_capture_says_so_and_leaves_nothing(context, fake):
    stream = Stream(context)
    fake.results["cuStreamEndCapture"] = 901
    with pytest.raises(errors.CaptureError, match="STREAM_CAPTURE_INVALIDATED"), capture(stream):
        pass
    gc.collect()
    assert not fake.graphs


def test_a_python_function_in_a_stream_is_called_once_and_forgotten(context, fake):
    called = []
    Stream(context).call(lambda: called.append(1))
    assert called == [1]
    assert not _functions
    fake.results["cuLaunchHostFunc"] = 1
    fake.do_cuLaunchHostFunc = lambda *_: None
    with pytest.raises(errors.InvalidValue):
        Stream(context).call(lambda: None)
    assert not _functions
