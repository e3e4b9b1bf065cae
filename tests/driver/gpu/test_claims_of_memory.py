"""What the driver layer claims of memory, each claim put to the test; every test prints its figure."""

import contextlib
import ctypes
import gc
import random
import statistics
import time

import pytest

from oxinp._driver.context import Context
from oxinp._driver.debug import TracedLibrary
from oxinp._driver.device import Device
from oxinp._driver.driver import Driver
from oxinp._driver.library import find
from oxinp._driver.memory import DeviceMemory, PinnedMemory
from oxinp._driver.stream import Stream
from oxinp._runtime.cuda import CudaBackend
from tests.driver.gpu.figures import GIB, MIB, allocated, report
from tests.runtime.test_arena import simulate, uniform

pytestmark = pytest.mark.gpu

COPY_NBYTES = 256 * MIB


# H3: copies are byte-exact


def test_h3_copies_are_byte_exact(context, memory):
    generator, copied = random.Random(3), 0
    stream = Stream(context)
    with allocated(memory, 40 * MIB) as a, allocated(memory, 40 * MIB) as b:
        for nbytes in [1, 2, 3, 7, 255, 4095, 4097, MIB - 1, 33 * MIB + 5, *generator.choices(range(1, 3 * MIB), k=24)]:
            offset = generator.randrange(0, 4096)
            data = generator.randbytes(nbytes)
            pageable = ctypes.create_string_buffer(data, nbytes)
            host = ctypes.addressof(pageable)
            if nbytes % 2:
                pinned = PinnedMemory(context, nbytes)
                pinned.view()[:] = data
                host = pinned.ptr
            target = ctypes.create_string_buffer(nbytes)
            if nbytes % 3:
                memory.upload(a + offset, host, nbytes)
                memory.copy(b + offset + 1, a + offset, nbytes)
                memory.download(ctypes.addressof(target), b + offset + 1, nbytes)
            else:
                memory.upload_async(a + offset, host, nbytes, stream.handle)
                memory.copy_async(b + offset + 1, a + offset, nbytes, stream.handle)
                memory.download_async(ctypes.addressof(target), b + offset + 1, nbytes, stream.handle)
                stream.synchronize()
            assert target.raw == data
            copied += 3 * nbytes
    report("H3", f"{copied} bytes copied, all of them right")


@pytest.mark.exclusive
def test_pinned_copies_reach_what_c_reaches(c_program, context, memory):
    theirs = [c_program() for _ in range(2)]
    pinned = PinnedMemory(context, COPY_NBYTES)
    pinned.view()[::4096] = bytes(COPY_NBYTES // 4096)
    with allocated(memory, COPY_NBYTES) as ptr:
        calls = {
            "upload": lambda: memory.upload(ptr, pinned.ptr, COPY_NBYTES),
            "download": lambda: memory.download(pinned.ptr, ptr, COPY_NBYTES),
        }
        for name, call in calls.items():
            call()
            ours = statistics.median(timed(call) for _ in range(12))
            best = min(figures[f"{name}_seconds"] for figures in theirs)
            report("pinned", f"{name} {COPY_NBYTES / ours / 1e9:.1f} GB/s, C {COPY_NBYTES / best / 1e9:.1f} GB/s")
            assert best / ours >= 0.95


def timed(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


# H8 and H12: the pool


@pytest.fixture
def traced(one_stream):  # noqa: ARG001
    """A backend whose driver calls are noted."""
    library = TracedLibrary(find())
    driver = Driver(library)
    driver.cuInit(0)
    return CudaBackend(Context(Device(0, driver)), 0), library


def test_h8_the_pool_asks_the_driver_seldom(traced):
    backend, library = traced
    generator = random.Random(8)
    sizes = [generator.choice((1 * MIB, 4 * MIB, 100_000, 16 * MIB)) for _ in range(400)]

    def work(allocate, free):
        live = []
        for nbytes in sizes:
            live.append(allocate(nbytes))
            if len(live) > 6:
                free(live.pop(0))
        while live:
            free(live.pop())

    memory = DeviceMemory(backend.context)
    with library.counting() as without:
        work(memory.allocate, memory.free)
    with library.counting() as with_pool:
        work(backend.allocate, lambda _: None)
    asked = sum(with_pool[name] for name in ("cuMemAlloc_v2", "cuMemCreate"))
    report("H8", f"{asked} driver allocations with the pool, {without['cuMemAlloc_v2']} without")
    assert without["cuMemAlloc_v2"] > 100
    assert asked < 10


@pytest.mark.exclusive
def test_h12_memory_is_within_a_tenth_of_ideal(traced):
    """On the device's own account of its memory, over 10,000 random allocations and frees of 1 KB to 10 MB, 70/30."""
    backend, _ = traced
    backend.allocate(1)
    backend.trim()
    info = DeviceMemory(backend.context).info
    before = info()[0]
    for seed in range(3):
        pool = Watched(backend.pool, info)
        start = time.perf_counter()
        ideal = simulate(pool, seed, lambda _: 0.7, uniform)
        seconds = time.perf_counter() - start
        held = before - pool.lowest
        gc.collect()
        backend.trim()
        report("H12", f"{held / ideal:.4f} x ideal of {ideal / MIB:.0f} MiB, {seconds * 1e2:.1f} us per operation")
        assert held <= 1.1 * ideal
    assert before - info()[0] <= 64 * MIB


class Watched:
    """A pool, and the least free memory there ever was while it was asked."""

    def __init__(self, pool, info):
        self.pool, self.info, self.lowest, self.asked = pool, info, info()[0], pool.driver_allocations

    def allocate(self, nbytes):
        buffer = self.pool.allocate(nbytes)
        if self.pool.driver_allocations != self.asked:
            self.asked = self.pool.driver_allocations
            self.lowest = min(self.lowest, self.info()[0])
        return buffer


@pytest.mark.exclusive
def test_a_cached_allocation_takes_less_than_a_microsecond(traced):
    backend, _ = traced
    backend.allocate(MIB)
    batches = []
    for _ in range(200):
        start = time.perf_counter()
        for _ in range(100):
            backend.allocate(MIB)
        batches.append((time.perf_counter() - start) / 100)
    seconds = statistics.median(batches)
    report("pool", f"{seconds * 1e9:.0f} ns per cached allocation and free")
    assert seconds < 1e-6


# H9: out of memory is an error


@pytest.mark.exclusive
def test_h9_out_of_memory_is_an_error_and_nothing_is_lost(traced):
    backend, _ = traced
    backend.allocate(1)
    memory = DeviceMemory(backend.context)
    before, total = memory.info()
    assert before <= total
    with pytest.raises(MemoryError, match="out of memory"):
        backend.allocate(total + GIB)
    held = []
    with contextlib.suppress(MemoryError):
        while len(held) < 10_000:
            held.append(memory.allocate(GIB))
    assert len(held) < 10_000
    report("H9", f"{len(held)} GiB were had before the error")
    with pytest.raises(MemoryError, match="the device is out of memory"):
        backend.allocate(2 * GIB)
    for ptr in held:
        memory.free(ptr)
    assert backend.allocate(GIB).ptr
    backend.trim()
    assert before - memory.info()[0] <= 64 * MIB
    backend.context.synchronize()
