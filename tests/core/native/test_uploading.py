"""Small arrays that machine code uploads: what becomes of them, of what they lie in, and of what goes wrong."""

import gc
import sys
import threading

import numpy  # noqa: ICN001
import pytest

import oxinp
from oxinp._core.lazy import explain, handle
from oxinp._core.lazy.balance import balance
from oxinp._core.memory.storage import SIDES, Stale, Storage
from oxinp._core.native import objects
from oxinp._driver import errors
from oxinp._runtime import here, select
from oxinp._runtime.brief_uploads import MOST_NBYTES, NUM_PARTS, RENTED, BriefUploads
from oxinp._runtime.counters import stats, unwatch, watch
from tests.comparator import assert_same
from tests.core.native.test_nodes import _code
from tests.driver.fake_library import open_context
from tests.runtime.test_brief_uploads import LateDevice

pytestmark = pytest.mark.skipif(objects.VECTORCALL is None, reason="calls of functions have no other code")


@pytest.fixture
def backend(config):
    """The emulator, as the backend that has been decided on."""
    config.offload_threshold = 65536
    return select.current()


@pytest.fixture
def upload_first(backend):
    del backend
    return _code("upload_first")


def on_host(host):
    """Return a storage that is on the host alone."""
    made = Storage.__new__(Storage)
    made.host, made.value, made.stale, made.has_objects = host, None, None, False
    return made


def downloaded(backend, buffer, like):
    found = numpy.empty_like(like)
    backend.download(found, buffer.ptr)
    return found


@pytest.mark.parametrize("kind", ["f8", "f4", "f2", "c16", "c8", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"])
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 4), (2, 1, 5)])
def test_the_value_is_what_python_makes(kind, shape, backend, upload_first):
    host = numpy.random.default_rng(1).integers(0, 100, shape).astype(kind)
    storage, other = on_host(host), on_host(host)
    moved = stats.h2d_bytes
    found, expected = upload_first(storage), handle.upload_first(other)
    assert stats.h2d_bytes - moved == 2 * host.nbytes
    assert storage.value is found
    assert storage.stale is None
    assert storage.host is host
    graph, (buffer,), mask = found
    assert graph is expected[0]
    assert type(mask) is int
    assert buffer.nbytes == host.nbytes
    assert downloaded(backend, buffer, host).tobytes() == host.tobytes()


def test_what_is_not_as_usual_is_left_to_python(backend, upload_first, monkeypatch):
    host = numpy.arange(12.0).reshape(3, 4)
    for given in (host.T, host.astype(">f8"), host[:0], host.astype("M8[s]"), numpy.ma.array(host), None):
        assert upload_first(on_host(given)) is None
    for name, value in (("stale", Stale(None, 0, 96)), ("value", handle.upload_first(on_host(host)))):
        storage = on_host(host)
        setattr(storage, name, value)
        assert upload_first(storage) is None
        assert getattr(storage, name) is value
    assert upload_first(object()) is None
    storage = on_host(host)
    for module, name, value in (
        (here, "are_several", True),
        (select, "_decided", (oxinp.config.version - 1, backend)),
        (select, "_decided", (oxinp.config.version, None)),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, value)
            assert upload_first(storage) is None
    explain.REPORTS.append(print)
    try:
        assert upload_first(storage) is None
    finally:
        explain.REPORTS.clear()
    assert (storage.value, storage.stale) == (None, None)
    assert upload_first(storage) is storage.value


def test_who_writes_to_the_host_side_is_waited_for(upload_first):
    storage, is_held, is_over = on_host(numpy.arange(9.0)), threading.Event(), threading.Event()

    def hold():
        with SIDES:
            is_held.set()
            is_over.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    is_held.wait()
    assert upload_first(storage) is None
    is_over.set()
    holder.join()
    assert (storage.value, storage.stale) == (None, None)
    assert upload_first(storage) is storage.value is not None
    assert not SIDES._is_owned()


@pytest.mark.usefixtures("uploaded_at_once")
def test_a_copy_of_what_has_been_written_to_meanwhile_is_not_kept(backend, upload_first, monkeypatch):
    host, upload = numpy.arange(9.0), backend.upload
    storage, lines = on_host(host), on_host(host)
    pinned, pin = on_host(host), Stale(None, 0, 0)

    def upload_and_write(ptr, array):
        upload(ptr, array)
        assert all(each.stale is None or each.stale.is_uploading or each.stale is pin for each in (storage, lines))
        if storage.stale:
            storage.stale.cover(8, 16)
        elif lines.stale:
            lines.stale.lines = 0, 8, 8, 1
        else:
            pinned.stale = pin

    monkeypatch.setattr(backend, "upload", upload_and_write)
    for each in (storage, lines, pinned):
        found = upload_first(each)
        assert downloaded(backend, found[1][0], host).tolist() == host.tolist()
        assert each.value is None
    assert [each.stale for each in (storage, lines, pinned)] == [None, None, pin]


@pytest.mark.usefixtures("uploaded_at_once")
@pytest.mark.parametrize("name", ["allocate", "upload_brief", "upload"])
def test_what_goes_wrong_is_raised_and_the_storage_is_as_before(name, backend, upload_first, monkeypatch):
    storage = on_host(numpy.arange(9.0))
    upload_first(on_host(numpy.arange(9.0)))

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(backend, name, fail)
    before = sys.getrefcount(storage), sys.getrefcount(storage.host)
    for _ in range(100):
        with pytest.raises(KeyboardInterrupt):
            raise_of(upload_first, storage)
    gc.collect()
    assert (sys.getrefcount(storage), sys.getrefcount(storage.host)) == before
    assert (storage.value, storage.stale) == (None, None)
    assert not SIDES._is_owned()


def raise_of(ask, *given):
    """Raise what code has raised, which returned nothing."""
    assert ask(*given) is None
    raise AssertionError("nothing was raised")


def test_nothing_leaks(backend, upload_first):
    host = numpy.arange(9.0)
    upload_first(on_host(host))
    uploaded = on_host(host)
    graph = upload_first(uploaded)[0]
    gc.collect()
    used, before = backend.pool.used_nbytes, [sys.getrefcount(each) for each in (host, backend, graph, Stale, Storage)]
    for _ in range(1000):
        upload_first(on_host(host))
    gc.collect()
    assert [sys.getrefcount(each) for each in (host, backend, graph, Stale, Storage)] == before
    assert backend.pool.used_nbytes == used


@pytest.fixture
def upload():
    return _code("briefuploads_upload")


def bought(device):
    """Uploads for which there is memory by now."""
    uploads = BriefUploads(device)
    for _ in range(RENTED):
        uploads.upload(0, numpy.zeros(1), 8)
    assert uploads.upload(0, numpy.zeros(1), 8)
    return uploads


def test_memory_is_used_as_by_python(upload):
    rng, device, other = numpy.random.default_rng(1), LateDevice(), LateDevice()
    uploads, others = bought(device), bought(other)
    expected, num_answered = bytearray(len(device.memory)), 0
    for turn in range(5 * NUM_PARTS * NUM_PARTS):
        nbytes = int(rng.integers(1, MOST_NBYTES + 1))
        ptr = int(rng.integers(64, len(expected) - nbytes))
        array = rng.integers(0, 256, nbytes, numpy.uint8)
        array.flags.writeable = turn % 2 == 0
        expected[ptr : ptr + nbytes] = array.tobytes()
        moved = stats.h2d_bytes
        is_answered = upload(uploads, ptr, array, nbytes)
        num_answered += is_answered is True
        assert is_answered or uploads.upload(ptr, array, nbytes)
        assert stats.h2d_bytes - moved == nbytes
        assert others.upload(ptr, array, nbytes)
        array.flags.writeable = True
        array[:] = 0  # it has been read
    assert num_answered > 4 * NUM_PARTS * NUM_PARTS
    places = [
        [(ptr, at - each._first, nbytes) for ptr, at, nbytes in each._port.queued[-num_answered:]]
        for each in (uploads, others)
    ]
    assert places[0] == places[1]
    device.run_until(len(device.queued))
    assert device.memory[64:] == expected[64:]


def test_uploads_that_are_not_as_usual_are_left_to_python(upload):
    device = LateDevice()
    uploads, array = BriefUploads(device), numpy.arange(8.0)
    assert upload(uploads, 0, array, 64) is None  # there is no memory yet
    uploads = bought(device)
    for given in (
        (uploads, 0, array[::2], 32),
        (uploads, 0, numpy.zeros(MOST_NBYTES + 1, "u1"), MOST_NBYTES + 1),
        (uploads, 0, array, 0),
        (uploads, 0, array, True),
        (uploads, 0, bytes(64), 64),
        (object(), 0, array, 64),
    ):
        assert upload(*given) is None
    with_lock = uploads._acquire()
    assert upload(uploads, 0, array, 64) is None
    assert not uploads.upload(0, array, 64)
    uploads._release()
    assert with_lock
    told = []
    watch(tell := lambda *what: told.append(what))
    try:
        assert upload(uploads, 0, array, 64) is None
    finally:
        unwatch(tell)
    assert len(device.queued) == 1
    assert upload(uploads, 0, array, 64) is True
    assert len(device.queued) == 2


def test_what_the_driver_raises_is_raised_and_the_next_one_goes_well(upload):
    device = LateDevice()
    uploads, array, queue = bought(device), numpy.arange(8.0), device.upload_async

    def refuse(*_):
        raise KeyboardInterrupt

    uploads._upload_async = refuse
    moved = stats.h2d_bytes
    with pytest.raises(KeyboardInterrupt):
        raise_of(upload, uploads, 0, array, 64)
    assert stats.h2d_bytes == moved
    uploads._upload_async = queue
    assert upload(uploads, 64, array, 64) is True


def test_a_watcher_that_begins_meanwhile_is_told(upload):
    device, told = LateDevice(), []
    uploads, array, queue = bought(device), numpy.arange(8.0), device.upload_async
    tell = lambda *what: told.append(what)  # noqa: E731

    def queue_and_watch(*given):
        queue(*given)
        watch(tell)

    uploads._upload_async = queue_and_watch
    try:
        assert upload(uploads, 64, array, 64) is True
    finally:
        unwatch(tell)
    assert told == [("h2d_bytes", 64)]


def test_references_are_given_back(upload):
    device = LateDevice()
    device.upload_async = lambda *_: None
    uploads, array = bought(device), numpy.arange(8.0)
    kept = array, uploads, uploads._upload_async, BriefUploads
    before = [sys.getrefcount(each) for each in kept]
    for _ in range(1000):
        upload(uploads, 0, array, 64)
    assert [sys.getrefcount(each) for each in kept] == before


@pytest.fixture
def to_driver():
    """Uploads by a driver's own function, and the library that it is of."""
    context, library = open_context()
    device = LateDevice()
    device.memory = numpy.zeros(1 << 10, "u1")
    device.upload_async = context.driver.cuMemcpyHtoDAsync_v2
    uploads = BriefUploads(device)
    target = numpy.zeros(16)
    for _ in range(RENTED + 1):
        uploads.upload(target.ctypes.data, numpy.zeros(1), 8)
    return uploads, target, context, library


def test_the_driver_is_called_as_by_python(to_driver, upload):
    uploads, target, context, library = to_driver
    array = numpy.arange(1.0, 17.0)
    del library.calls[:]
    assert upload(uploads, target.ctypes.data, array, array.nbytes) is True
    assert target.tolist() == array.tolist()
    assert [name for name, _ in library.calls] == ["cuMemcpyHtoDAsync_v2"]
    library.results["cuMemcpyHtoDAsync_v2"] = 1
    with pytest.raises(errors.CudaError):
        raise_of(upload, uploads, target.ctypes.data, array, array.nbytes)
    library.results["cuMemcpyHtoDAsync_v2"] = 0
    target[:] = 0
    assert upload(uploads, target.ctypes.data, array, array.nbytes) is True
    assert target.tolist() == array.tolist()
    context.driver.retire(errors.CudaError("gone"))
    del library.calls[:]
    with pytest.raises(errors.CudaError):
        raise_of(upload, uploads, target.ctypes.data, array, array.nbytes)
    assert not library.calls


def test_the_context_is_made_current_where_there_is_none(to_driver, upload):
    uploads, target, _, _ = to_driver
    array, found = numpy.arange(1.0, 17.0), []
    thread = threading.Thread(target=lambda: found.append(upload(uploads, target.ctypes.data, array, array.nbytes)))
    thread.start()
    thread.join()
    assert found == [True]
    assert target.tolist() == array.tolist()


FRESH = {
    "a[i:, i:] - v[i:] * 2.0": 13,
    "a[i:, i:] / (v[i:] + 1.0)[:, None]": 19,
    "(v * 2.0) * a": 12,
    "v[:, None] * 2.0 - a": 20,
    "(v * 2.0)[:, None] - v[i:] * 3.0": None,  # both are the host's
}
"""Expressions of which an operand is new on the host each time, and the functions that they enter at most."""


@pytest.mark.parametrize("expression", FRESH)
def test_vectors_that_are_new_on_the_host_are_operands_of_matrices(expression, config):
    config.offload_threshold = 65536
    rng, code = numpy.random.default_rng(5), compile(expression, "expression", "eval")
    matrix, vector = rng.random((300, 300)), rng.random(300)
    a, v = oxinp.array(matrix), oxinp.array(vector)
    for i in range(12):
        for _ in range(2):
            found, expected = (eval(code, {"i": i, "a": x, "v": y}) for x, y in ((a, v), (matrix, vector)))  # noqa: S307
            assert_same(found, expected)
        v += 0.5
        vector += 0.5


@pytest.mark.parametrize("expression", [each for each, most in FRESH.items() if most])
def test_they_take_few_steps(expression, config, entered):
    config.offload_threshold = 65536
    code = compile(expression, "expression", "eval")
    with balance.suspended():
        given = {"a": oxinp.ones((600, 600)) * 1.0, "v": oxinp.ones(600) * 2.0}
        for i in range(60):
            oxinp.evaluate(eval(code, {"i": i, **given}))  # noqa: S307
        names = entered(lambda: eval(code, {"i": 71, **given}))  # noqa: S307
    assert len(names) <= FRESH[expression], names
