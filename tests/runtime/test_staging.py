import signal
import threading
import time

import numpy as np
import pytest

from oxinp._runtime.staging import StagingRing
from tests.patience import PATIENCE

KIB = 1 << 10
MIB = 1 << 20


class LazyStream:
    """A stream whose copies happen as late as they may: when somebody waits for an event behind them."""

    def __init__(self):
        self.lock = threading.RLock()
        self.queue = []
        self.done = 0

    def put(self, operation):
        with self.lock:
            self.queue.append(operation)

    def run_until(self, position):
        with self.lock:
            while self.done < position:
                operation, self.queue[self.done] = self.queue[self.done], None
                operation()
                self.done += 1


class LazyEvent:
    def __init__(self):
        self.mark = None

    def record(self, stream):
        with stream.lock:
            self.mark = (stream, len(stream.queue))

    def synchronize(self):
        if self.mark is not None:
            self.mark[0].run_until(self.mark[1])


class FakePort:
    """Device memory is one array; pointers are offsets into it."""

    def __init__(self, nbytes):
        self.device = np.zeros(nbytes, np.uint8)
        self.pinned = {}
        self.threads = set()
        self.copies = []
        self.fail_at = None

    def enter_thread(self):
        self.threads.add(threading.get_ident())

    def allocate_pinned(self, nbytes):
        address = 1000 + len(self.pinned)
        self.pinned[address] = np.full(nbytes, 0xEE, np.uint8)
        return address, self.pinned[address]

    def make_event(self):
        return LazyEvent()

    def _check(self, nbytes):
        assert threading.get_ident() in self.threads
        self.copies.append(nbytes)
        if self.fail_at is not None and len(self.copies) >= self.fail_at:
            raise OSError("the bus broke")

    def upload_async(self, ptr, address, nbytes, stream):
        self._check(nbytes)

        def land():
            self.device[ptr : ptr + nbytes] = self.pinned[address][:nbytes]

        stream.put(land)

    def download_async(self, address, ptr, nbytes, stream):
        self._check(nbytes)

        def land():
            self.pinned[address][:nbytes] = self.device[ptr : ptr + nbytes]

        stream.put(land)


@pytest.fixture
def data():
    return np.random.default_rng(3).integers(0, 256, 9 * MIB + 12_345, np.uint8)


@pytest.mark.parametrize("num_workers", [1, 3])
@pytest.mark.parametrize("slot_nbytes", [512 * KIB, 4 * MIB])
def test_round_trip(data, num_workers, slot_nbytes):
    port, stream = FakePort(data.size + 100), LazyStream()
    ring = StagingRing(port, num_workers, slot_nbytes)
    source = data.copy()
    ring.upload(100, source, stream)
    source[:] = 0  # its owner may change it now
    back = np.empty_like(data)
    ring.download(back, 100, stream)  # the stream runs the upload before the download, both late
    np.testing.assert_array_equal(back, data)
    assert not port.device[:100].any()
    assert len(port.pinned) == 2 * num_workers
    assert sum(port.copies) == 2 * data.size
    assert max(port.copies) <= slot_nbytes


def test_work_is_shared(data):
    port = FakePort(data.size)
    barrier = threading.Barrier(3, timeout=PATIENCE)
    met = set()

    def meet():
        if threading.get_ident() not in met:  # the first copy of each worker waits for the other workers'
            met.add(threading.get_ident())
            barrier.wait()

    plain = port.upload_async
    port.upload_async = lambda *arguments: (meet(), plain(*arguments))
    StagingRing(port, 3).upload(0, data, LazyStream())
    assert len(port.threads) == 3


def test_slots_are_not_reused_across_streams_too_early(data):
    port = FakePort(2 * data.size)
    ring = StagingRing(port, 1, 512 * KIB)
    first, second = LazyStream(), LazyStream()
    ring.upload(0, data, first)
    back = np.empty_like(data)
    ring.download(back, data.size, second)  # must not overwrite slots that `first` has yet to read
    first.run_until(len(first.queue))
    np.testing.assert_array_equal(port.device[: data.size], data)
    assert not back.any()


@pytest.mark.parametrize("direction", ["upload", "download"])
def test_error_reaches_the_caller_and_the_ring_goes_on(data, direction):
    port, stream = FakePort(data.size), LazyStream()
    ring = StagingRing(port, 2, 512 * KIB)
    port.fail_at = 5
    with pytest.raises(OSError, match="the bus broke"):
        ring.upload(0, data, stream) if direction == "upload" else ring.download(data, 0, stream)
    port.fail_at = None
    ring.upload(0, data, stream)
    back = np.empty_like(data)
    ring.download(back, 0, stream)
    np.testing.assert_array_equal(back, data)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals of POSIX")
def test_interrupted_transfer_leaves_nobody_at_work(data):
    port, stream = FakePort(data.size), LazyStream()
    ring = StagingRing(port, 2, 512 * KIB)
    main, plain = threading.get_ident(), port.upload_async
    begun, interrupted = threading.Event(), threading.Event()

    def slow(*arguments):
        begun.set()
        interrupted.wait(PATIENCE)
        time.sleep(0.2)  # by then the interrupt has reached the caller, on a busy machine, too
        plain(*arguments)

    def handle(*_):
        if not interrupted.is_set():
            interrupted.set()
            raise KeyboardInterrupt

    def interrupt():
        begun.wait(PATIENCE)
        while not interrupted.wait(0.02):  # one that comes just before the thread falls asleep does not wake it
            signal.pthread_kill(main, signal.SIGINT)

    port.upload_async = slow
    before = signal.signal(signal.SIGINT, handle)
    interrupter = threading.Thread(target=interrupt)
    try:
        interrupter.start()
        with pytest.raises(KeyboardInterrupt):
            ring.upload(0, data, stream)
        interrupter.join()
    finally:
        signal.signal(signal.SIGINT, before)
    num_copies = len(port.copies)
    assert 0 < num_copies < 19
    time.sleep(0.1)
    assert len(port.copies) == num_copies
    port.upload_async = plain
    ring.upload(0, data, stream)
    back = np.empty_like(data)
    ring.download(back, 0, stream)
    np.testing.assert_array_equal(back, data)


def test_pinned_memory_that_is_not_to_be_had(data):
    port, stream = FakePort(data.size), LazyStream()
    ring = StagingRing(port, 2)
    plain, port.allocate_pinned = port.allocate_pinned, lambda _: (_ for _ in ()).throw(MemoryError("none pinned"))
    with pytest.raises(MemoryError, match="none pinned"):
        ring.upload(0, data, stream)
    port.allocate_pinned = plain
    ring.upload(0, data, stream)
    assert len(port.pinned) == 4


def test_threads_share_one_ring(data):
    port = FakePort(4 * data.size)
    ring = StagingRing(port, 2, 512 * KIB)
    results = {}

    def work(i):
        stream, mine = LazyStream(), data + np.uint8(i)
        ring.upload(i * data.size, mine, stream)
        back = np.empty_like(mine)
        ring.download(back, i * data.size, stream)
        results[i] = np.array_equal(back, mine)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == dict.fromkeys(range(4), True)


def test_workers_let_go_of_the_array(data):
    port = FakePort(data.size)
    ring = StagingRing(port, 1)
    source = data.copy()
    released = []

    class Owner:
        def __del__(self):
            released.append(1)

    array = np.frombuffer(source, np.uint8).view(type("Held", (np.ndarray,), {}))
    array.owner = Owner()
    ring.upload(0, array, LazyStream())
    del array
    deadline = time.monotonic() + PATIENCE
    while not released and time.monotonic() < deadline:
        time.sleep(0.01)
    assert released
