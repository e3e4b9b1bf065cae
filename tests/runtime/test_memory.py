import gc
import itertools
import subprocess
import sys
import threading
import weakref

import pytest

from oxinp._runtime import hooks
from oxinp._runtime.memory import Buffer, class_nbytes, format_nbytes
from oxinp._runtime.pool import Pool
from tests.turns import taking_turns

MIB = 1 << 20


class Full(Exception):
    """What the fake driver raises when it has no memory left."""


class FakeDriver:
    """A driver with so much memory and no device."""

    def __init__(self, total=64 * MIB):
        self.total = total
        self.live = {}
        self.log = []
        self.ptrs = itertools.count(0x7001_0000_0000, 1 << 32)  # an address for each of several threads

    def allocate(self, nbytes):
        if sum(self.live.values()) + nbytes > self.total:
            self.log.append(("full", nbytes))
            raise Full
        ptr = next(self.ptrs)
        self.live[ptr] = nbytes
        self.log.append(("allocate", nbytes))
        return ptr

    def free(self, ptr):
        self.log.append(("free", self.live.pop(ptr)))

    def memory_info(self):
        return self.total - sum(self.live.values()), self.total

    def pool(self):
        return Pool(self.allocate, self.free, self.memory_info, Full)


@pytest.fixture
def driver():
    return FakeDriver()


@pytest.fixture
def pool(driver):
    return driver.pool()


@pytest.fixture(autouse=True)
def _restore_hooks():
    before = list(hooks.before_out_of_memory)
    yield
    hooks.before_out_of_memory[:] = before


@pytest.mark.parametrize("nbytes", [0, 1, 511, 512, 513, 4096, 4097, 8191, 8193, 100_000, MIB, MIB + 1, 3 * MIB + 7])
def test_class_holds_request_and_wastes_little(nbytes):
    size = class_nbytes(nbytes)
    assert size >= max(nbytes, 512)
    assert size % 512 == 0
    assert class_nbytes(size) == size
    assert size - nbytes <= max(512, nbytes / 8)


def test_classes_per_power_of_two():
    assert len({class_nbytes(n) for n in range(MIB + 1, 2 * MIB + 1, 512)}) == 8


def test_block_is_reused(pool, driver):
    first = pool.allocate(1000)
    ptr = first.ptr
    del first
    second = pool.allocate(900)
    assert second.ptr == ptr
    assert second.nbytes == 900
    assert driver.log == [("allocate", 1024)]


def test_counters_are_exact(pool):
    a, b = pool.allocate(100), pool.allocate(5000)
    assert (pool.stats().used_nbytes, pool.stats().cached_nbytes) == (512 + 5120, 0)
    del a
    assert (pool.stats().used_nbytes, pool.stats().cached_nbytes) == (5120, 512)
    assert pool.stats().peak_nbytes == 512 + 5120
    pool.reset_peak()
    assert pool.stats().peak_nbytes == 5120
    c = pool.allocate(1)
    assert pool.stats().peak_nbytes == 512 + 5120
    assert pool.stats().driver_allocations == 2
    del b, c
    assert pool.stats().num_blocks == 2
    pool.trim()
    now = pool.stats()
    assert (now.used_nbytes, now.cached_nbytes, now.num_blocks) == (0, 0, 0)
    assert now.free_nbytes == now.total_nbytes


def test_trim_keeps_what_is_in_use(pool, driver):
    kept, dropped = pool.allocate(MIB), pool.allocate(2 * MIB)
    del dropped
    pool.trim()
    assert list(driver.live) == [kept.ptr]


def test_large_request_takes_a_slightly_larger_block(pool):
    block = pool.allocate(10 * MIB)
    ptr = block.ptr
    del block
    smaller = pool.allocate(9 * MIB)
    assert smaller.ptr == ptr
    assert pool.stats().used_nbytes == 10 * MIB
    del smaller
    assert pool.allocate(10 * MIB).ptr == ptr  # it went home to its own class


def test_large_request_leaves_a_much_larger_block(pool):
    block = pool.allocate(10 * MIB)
    ptr = block.ptr
    del block
    assert pool.allocate(7 * MIB).ptr != ptr


def test_waste_of_a_larger_block_is_bounded(pool):
    for nbytes in range(MIB, 8 * MIB, 300_007):
        for other in range(nbytes, 8 * MIB, 100_003):
            block = pool.allocate(other)
            del block
            assert pool.allocate(nbytes)._block.nbytes <= 1.25 * class_nbytes(nbytes)
            pool.trim()


def test_streams_do_not_share_blocks(pool):
    first, other = pool.stock(0), pool.stock(7)
    block = first.allocate(MIB)
    ptr = block.ptr
    del block  # goes home to the stream it was made on
    assert other.allocate(MIB).ptr != ptr
    assert first.allocate(MIB).ptr == ptr
    assert pool.allocate(MIB).ptr == ptr
    pool.trim()
    assert pool.stats().num_blocks == 0


def test_many_request_sizes_stay_bounded(pool):
    for nbytes in range(20_000):
        pool.allocate(nbytes)
    assert len(pool.stock(0).by_request) <= 4096
    assert pool.stats().used_nbytes == 0
    assert pool.stats().num_blocks <= len({class_nbytes(n) for n in range(20_000)})


def test_out_of_memory_gives_cached_blocks_back_first(pool, driver):
    called = []
    hooks.before_out_of_memory.append(lambda: called.append(1))
    cached = pool.allocate(40 * MIB)
    del cached
    driver.log.clear()
    pool.allocate(60 * MIB)
    assert driver.log == [("full", 60 * MIB), ("free", 40 * MIB), ("allocate", 60 * MIB)]
    assert not called


def test_out_of_memory_then_runs_hooks_then_trims_again(pool, driver):
    held = [pool.allocate(40 * MIB)]

    def flush():
        driver.log.append(("hook",))
        held.clear()

    hooks.before_out_of_memory.append(flush)
    driver.log.clear()
    pool.allocate(60 * MIB)
    assert driver.log == [
        ("full", 60 * MIB),
        ("full", 60 * MIB),
        ("hook",),
        ("free", 40 * MIB),
        ("allocate", 60 * MIB),
    ]


def test_out_of_memory_collects_garbage_cycles(pool):
    cycle = [pool.allocate(40 * MIB)]
    cycle.append(cycle)
    gc.disable()
    try:
        del cycle
        assert pool.allocate(60 * MIB).nbytes == 60 * MIB
    finally:
        gc.enable()


def test_out_of_memory_says_how_much(pool):
    kept = pool.allocate(16 * MIB)
    with pytest.raises(MemoryError) as info:
        pool.allocate(100 * MIB)
    text = str(info.value)
    for part in ("104.00 MiB asked", "16.00 MiB in use", "0 B cached", "48.00 MiB free of 64.00 MiB", "delete arrays"):
        assert part in text
    assert isinstance(info.value.__cause__, Full)
    assert pool.stats().used_nbytes == kept.nbytes
    assert pool.allocate(MIB).nbytes == MIB  # and the pool goes on


def test_hook_that_runs_out_of_memory_itself(pool):
    held = [pool.allocate(40 * MIB)]
    depth = []

    def hungry():
        depth.append(1)
        pool.allocate(60 * MIB)

    hooks.before_out_of_memory += [hungry, held.clear]
    pool.allocate(62 * MIB)
    assert len(depth) == 1


def test_other_errors_of_a_hook_are_not_hidden(pool):
    kept = pool.allocate(40 * MIB)

    def broken():
        raise ZeroDivisionError

    hooks.before_out_of_memory.append(broken)
    with pytest.raises(ZeroDivisionError):
        pool.allocate(60 * MIB)
    assert kept.nbytes == 40 * MIB
    hooks.before_out_of_memory.remove(broken)
    with pytest.raises(MemoryError):  # hooks are run again the next time
        pool.allocate(60 * MIB)


def test_buffer_stands_for_itself_and_takes_weak_references(pool):
    buffer = pool.allocate(10)
    assert buffer.buffer is buffer
    reference = weakref.ref(buffer)
    del buffer
    assert reference() is None


def test_threads_never_share_a_block(pool):
    failures = []
    start = threading.Barrier(4)

    def work():
        start.wait()
        for i in range(3000):
            mine = [pool.allocate(512 + (i % 7)) for _ in range(4)]
            with lock:
                failures.extend(buffer for buffer in mine if buffer.ptr in taken)
                taken.update(buffer.ptr for buffer in mine)
            with lock:
                taken.difference_update(buffer.ptr for buffer in mine)
            del mine

    lock, taken = threading.Lock(), set()
    threads = [threading.Thread(target=work) for _ in range(4)]
    with taking_turns():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures
    assert pool.stats().used_nbytes == 0
    assert pool.stats().peak_nbytes <= 4 * 4 * 1024


def test_finaliser_is_silent_at_shutdown():
    code = """
import builtins
from oxinp._runtime.pool import Pool
pool = Pool(lambda nbytes: 4096, lambda ptr: None, lambda: (0, 0), MemoryError)
builtins.kept = pool.allocate(10)
cycle = [pool.allocate(10)]
cycle.append(cycle)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""


class Cycle:
    """What is part of a cycle and keeps what it has from its finaliser on."""

    def __init__(self, buffer, kept):
        self.own, self.buffer, self.kept = self, buffer, kept

    def __del__(self):
        self.kept.append(self.buffer)


def test_what_a_finaliser_keeps_keeps_its_memory(pool):
    """The garbage collector calls a Buffer's finaliser, too, before anything goes."""
    pool.allocate(131072)
    used, kept = pool.stats().used_nbytes, []
    ptr = pool.allocate(131072).ptr
    for _ in range(3):
        Cycle(kept.pop() if kept else pool.allocate(131072), kept)
        gc.collect()
        assert kept[0].ptr == ptr
        assert pool.stats().used_nbytes == used + 131072
        assert pool.allocate(131072).ptr != ptr
    kept.clear()
    assert pool.stats().used_nbytes == used
    assert ptr in [each.ptr for each in [pool.allocate(131072) for _ in range(2)]]
    Cycle(pool.allocate(131072), [])
    gc.collect()
    assert pool.stats().used_nbytes == used


def test_cached_allocation_is_cheap(pool):
    # Interpreter operations, not time: one dictionary hit, one list pop, no other call than the object's creation and,
    # when it goes, whether it does. Machine code has none of them.
    pool.allocate(131072)
    calls = []

    def profile(frame, event, arg):
        if event in ("call", "c_call"):
            calls.append(frame.f_code.co_name if event == "call" else arg.__name__)

    sys.setprofile(profile)
    try:
        pool.allocate(131072)
    finally:
        sys.setprofile(None)
    assert calls[-1] == "setprofile"
    pythons = ["allocate", "pop", "__new__", "__del__", "getrefcount", "append"]
    assert calls[:-1] in (pythons, pythons[:3], pythons[3:], [])


def test_format():
    assert [format_nbytes(n) for n in (0, 1023, 1024, 5 << 19, 1 << 40, 1 << 60)] == [
        "0 B",
        "1023 B",
        "1.00 KiB",
        "2.50 MiB",
        "1.00 TiB",
        "1048576.00 TiB",
    ]


def test_repr(pool):
    assert "10 bytes" in repr(pool.allocate(10))
    assert isinstance(pool.allocate(10), Buffer)
