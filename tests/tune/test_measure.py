"""Recording and timing, over a driver made of Python functions and on the emulator."""

import pytest

from oxinp._runtime import cuda
from oxinp._tune.measure import Call, GraphTimer, Recording, Refused, inspect
from tests.driver.fake_library import FakeLibrary, open_context
from tests.runtime.test_backend import build_scale


@pytest.fixture
def library():
    return FakeLibrary(results={"cuPointerGetAttribute": 1})


@pytest.fixture
def backend(library, config, tmp_path, one_stream):  # noqa: ARG001
    config.cache_dir = tmp_path
    context, _ = open_context(library)
    return cuda.CudaBackend(context, 0)


def recording(kernel, *pointers):
    made = Recording()
    made.calls += [Call(kernel, (1, 1, 1), (1.5, 300), (pointer, 0x2000, 2.0)) for pointer in pointers]
    return made


def test_runs_in_turn_are_one_graph(backend, library):
    kernel = build_scale()
    recordings = [recording(kernel, 0x1000, 0x3000), recording(kernel, 0x5000, 0x7000)]
    seconds = GraphTimer(backend)(recordings, 0.0, 3)
    assert seconds > 0
    counts = library.count()
    # One graph of two runs to see how long they take, one of a single run: launched once to warm up, then timed.
    assert counts["cuGraphAddKernelNode_v2"] == 4 + 2
    assert counts["cuGraphLaunch"] == (1 + 1) + (1 + 3)
    assert counts["cuGraphDestroy"] == counts["cuGraphExecDestroy"] == 2
    assert counts["cuLaunchKernelEx"] == 0
    first = [library.graph_launches[0], library.graph_launches[1]]
    assert first[0] == first[1]


def test_what_spills_is_refused(backend):
    kernel = build_scale()
    with pytest.raises(Refused, match="registers spill"):
        inspect(backend, kernel)


def test_compiling_ahead_fills_the_cache(backend, library):
    kernel = build_scale()
    backend.compile(kernel)
    backend.compile(kernel)
    assert library.count()["cuLinkComplete"] == 1
    assert library.count()["cuModuleLoadDataEx"] == 0
    backend.function(kernel)
    assert library.count()["cuLinkComplete"] == 1
