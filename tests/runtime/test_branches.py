"""Branches over a driver made of Python functions: they begin behind what they need, and are waited for."""

import pytest

from oxinp._driver import errors
from oxinp._runtime import cuda, here, timeline
from oxinp._runtime.branch import Branch
from tests.driver.fake_library import FakeLibrary, open_context
from tests.runtime.test_backend import build_scale

INVALID_VALUE = 1
OUT_OF_RESOURCES = 701


@pytest.fixture
def library():
    return FakeLibrary(results={"cuPointerGetAttribute": INVALID_VALUE})


@pytest.fixture
def backend(library, config, tmp_path, one_stream):  # noqa: ARG001
    config.cache_dir = tmp_path
    context, _ = open_context(library)
    return cuda.CudaBackend(context, 0)


@pytest.fixture
def launch(backend):
    kernel = build_scale()
    return lambda: backend.launcher(kernel, (1, 1, 1), 2, (1.0, 0.0, 64))(1, 2)


def ordering(library):
    """What was recorded, waited for and launched, in order: events and streams by letters as they are met."""
    names, found, launches = {}, [], iter(library.launches)
    name = lambda kind, value: names.setdefault((kind, value), f"{kind}{sum(x[0] == kind for x in names)}")  # noqa: E731
    for call, arguments in library.calls:
        if call == "cuLaunchKernelEx":
            found.append(("launch", name("stream", next(launches).stream)))
        elif call == "cuEventRecord":
            found.append(("record", name("event", arguments[0]), name("stream", arguments[1] or 0)))
        elif call == "cuStreamWaitEvent":
            found.append(("wait", name("stream", arguments[0] or 0), name("event", arguments[1])))
    return found


BESIDE = [
    ("launch", "stream0"),
    ("record", "event0", "stream0"),
    ("wait", "stream1", "event0"),
    ("record", "event1", "stream1"),
    ("wait", "stream0", "event1"),
    ("launch", "stream1"),
    ("launch", "stream1"),
    ("launch", "stream0"),
    ("record", "event2", "stream1"),
    ("wait", "stream0", "event2"),
    ("launch", "stream0"),
]


def twice(launch):
    launch()
    launch()


@pytest.mark.parametrize("are_several", [False, True])
def test_a_branch_is_forked_and_joined(backend, library, launch, are_several):
    if are_several:
        timeline.separate(backend)
        here.enter(backend.timeline(0x77))
    library.calls.clear()
    launch()
    backend.beside(lambda: twice(launch), launch)
    launch()
    assert ordering(library) == BESIDE
    assert library.launches[0].stream == (0x77 if are_several else 0)
    ((_, priority),) = [arguments[1:] for name, arguments in library.calls if name == "cuStreamCreateWithPriority"]
    assert priority == -5


def test_a_stream_has_one_branch(backend, library, launch):
    for _ in range(3):
        backend.beside(launch, launch)
    assert library.count()["cuStreamCreateWithPriority"] == 1


def test_branches_of_a_branch_are_in_order(backend, library, launch):
    library.calls.clear()
    launch()
    backend.beside(lambda: backend.beside(launch, launch), launch)
    launch()
    assert ordering(library) == BESIDE


@pytest.mark.parametrize("failing", [0, 1])
def test_an_error_on_either_side_leaves_both_joined(backend, library, launch, failing):
    library.results["cuLaunchKernelEx"] = [0] * failing + [OUT_OF_RESOURCES]
    library.calls.clear()
    with pytest.raises(errors.CudaError):
        backend.beside(launch, launch)
    assert [row for row in ordering(library) if row[0] != "launch"] == [row for row in BESIDE if row[0] != "launch"]
    launch()
    assert library.launches[-1].stream == 0
    backend.beside(launch, launch)
    assert library.launches[-2].stream != library.launches[-1].stream == 0


def test_work_that_is_waited_for_one_by_one_does_not_branch(backend, library, launch, config):
    config.synchronous = True
    library.calls.clear()
    backend.beside(launch, launch)
    assert {x.stream for x in library.launches} == {0}
    assert not library.count()["cuEventRecord"]


def test_others_wait_for_an_open_branch(backend, library, launch):
    timeline.separate(backend)
    line, other = backend.timeline(0), backend.timeline(0x77)

    def look():
        with here.on(other):
            launch()

    library.calls.clear()
    backend.beside(launch, look)
    branch = library.launches[0].stream
    found = ordering(library)
    assert found[5:8] == [
        ("record", "event2", "stream1"),
        ("wait", "stream0", "event2"),
        ("record", "event3", "stream0"),
    ]
    assert (line.branch.stream.handle, line.branch.is_open) == (branch, False)


def test_an_open_branch_waits_for_others(backend, library, launch):
    timeline.separate(backend)

    def look():
        with here.on(backend.timeline(0x77)):
            launch()

    look()
    line = backend.timeline(0)
    branch = line.branch = Branch(backend.context, 0)
    branch.fork()
    library.calls.clear()
    launch()
    waits = [arguments[:2] for name, arguments in library.calls if name == "cuStreamWaitEvent"]
    assert [stream or 0 for stream, _ in waits] == [0, branch.stream.handle]
    assert waits[0][1] == waits[1][1]


def test_a_closed_stream_takes_its_branch_along(backend, library, launch):
    stream = cuda.Stream(backend.context)
    timeline.separate(backend)
    with here.on(backend.timeline(stream.handle)):
        backend.beside(launch, launch)
    branch = library.launches[0].stream
    backend.close_stream(stream)
    assert (branch,) in [arguments for name, arguments in library.calls if name == "cuStreamDestroy_v2"]
