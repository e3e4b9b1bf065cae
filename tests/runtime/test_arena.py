import gc
import random
import sys
import threading
from itertools import pairwise

import pytest

from oxinp._runtime import pool as pool_module
from oxinp._runtime.arena import Arena, Ranges
from oxinp._runtime.cuda import CudaBackend
from oxinp._runtime.pool import Pool
from tests.driver.fake_library import FakeLibrary, open_context
from tests.patience import PATIENCE

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
UNIT = 2 * MIB


class Full(Exception):
    """What the fake driver raises when it has no memory left."""


class FakeSpace:
    """Addresses with so much memory to put behind them, which it shares with others."""

    def __init__(self, driver):
        self.driver, self.ptr, self.nbytes = driver, driver.next_ptr, 1 << 40
        driver.next_ptr += 1 << 44
        self.mapped = {}

    def commit(self, offset, nbytes):
        assert offset % UNIT == nbytes % UNIT == 0
        self.driver.interrupt()
        assert not any(start < offset + nbytes and offset < start + size for start, size in self.mapped.items())
        if self.driver.used + nbytes > self.driver.total:
            raise Full
        self.mapped[offset] = nbytes
        self.driver.used += nbytes
        self.driver.peak = max(self.driver.peak, self.driver.used)
        self.driver.commits += 1

    def decommit(self, offset):
        assert self.driver.has_waited
        self.driver.used -= self.mapped.pop(offset)

    def wait(self):
        self.driver.has_waited = True

    def holds(self, ptr, nbytes):
        """Whether there is memory behind all of it."""
        offset, end = ptr - self.ptr, ptr - self.ptr + nbytes
        while offset < end:
            step = next((s + n - offset for s, n in self.mapped.items() if s <= offset < s + n), 0)
            if not step:
                return False
            offset += step
        return True


class FakeDriver:
    def __init__(self, total=140 * GIB):
        self.total, self.used, self.peak, self.commits = total, 0, 0, 0
        self.next_ptr, self.has_waited, self.spaces = 1 << 45, False, []
        self.loose, self.interrupt = {}, lambda: None

    def make_arena(self):
        self.spaces.append(FakeSpace(self))
        return Arena(self.spaces[-1], UNIT)

    def pool(self):
        info = lambda: (self.total - self.used, self.total)  # noqa: E731
        return Pool(self.allocate, self.loose.pop, info, Full, make_arena=self.make_arena)

    def allocate(self, nbytes):
        self.loose[self.next_ptr - nbytes] = nbytes
        return self.next_ptr - nbytes


@pytest.fixture
def driver():
    return FakeDriver()


@pytest.fixture
def pool(driver):
    return driver.pool()


# Ranges


def test_ranges_join_and_split():
    ranges = Ranges()
    ranges.add(100, 10)
    ranges.add(120, 10)
    ranges.add(110, 10)
    assert ranges.take(30) == 100
    assert ranges.take(1) is None
    assert ranges.total == 0


def test_the_smallest_range_that_fits_is_taken():
    ranges = Ranges()
    for start, size in ((0, 50), (100, 20), (200, 30)):
        ranges.add(start, size)
    assert ranges.take(15) == 100
    assert ranges.take(25) == 200
    assert ranges.take(25) == 0
    assert ranges.take(25) == 25
    assert ranges.total == 5 + 5


def test_a_given_range_is_cut_out_or_not_at_all():
    ranges = Ranges()
    ranges.add(0, 100)
    assert ranges.cut(40, 20)
    assert not ranges.cut(30, 20)
    assert ranges.total == 80
    ranges.add(40, 20)
    assert ranges.take(100) == 0


def test_ranges_against_a_model():
    generator, ranges, free, held = random.Random(0), Ranges(), set(range(2000)), []
    ranges.add(0, 2000)
    for _ in range(3000):
        if held and generator.random() < 0.5:
            start, size = held.pop(generator.randrange(len(held)))
            ranges.add(start, size)
            assert free.isdisjoint(range(start, start + size))
            free.update(range(start, start + size))
        else:
            size = generator.randint(1, 90)
            start = ranges.take(size)
            if start is not None:
                assert free.issuperset(range(start, start + size))
                free.difference_update(range(start, start + size))
                held.append((start, size))
        assert ranges.total == len(free)


# The pool over arenas


def test_a_request_in_the_middle_of_another_is_served_beside_the_arena(pool, driver):
    """As that of a finaliser which the garbage collector runs while an arena grows."""
    within = []
    driver.interrupt = lambda: within.append(pool.allocate(3 * MIB)) if not within else None
    whole = pool.allocate(40 * MIB)
    (inner,) = within
    assert driver.loose == {inner.ptr: 3 * MIB}
    assert pool.held_nbytes == driver.used + 3 * MIB
    assert driver.spaces[0].holds(whole.ptr, 40 * MIB)
    inner_ptr = inner.ptr
    del inner
    within[:] = [None]
    assert pool.allocate(3 * MIB).ptr == inner_ptr
    del whole
    pool.trim()
    assert (pool.held_nbytes, driver.used, driver.loose) == (0, 0, {})


def test_a_block_is_reused_and_its_neighbours_join(pool, driver):
    a, b = pool.allocate(MIB), pool.allocate(MIB)
    first = a.ptr
    assert b.ptr == first + MIB
    del a
    again = pool.allocate(MIB)
    assert again.ptr == first
    del again, b
    assert pool.allocate(16 * MIB).ptr == first
    assert driver.commits == pool.driver_allocations == 1


def test_a_buffer_is_cut_and_its_parts_are_one_again(pool, driver):
    a = pool.allocate(16 * MIB)
    ptr = a.ptr
    pool.shrink(a, 5 * MIB)
    assert (a.nbytes, a.ptr) == (5 * MIB, ptr)
    assert pool.used_nbytes == 5 * MIB
    now = pool.stats()
    assert (now.num_blocks, now.cached_nbytes) == (2, driver.used - 5 * MIB)
    assert pool.block_at(ptr + 6 * MIB).ptr == ptr + 5 * MIB
    b = pool.allocate(16 * MIB)  # the first is in use, what was cut off is a part of this
    assert b.ptr == ptr + 5 * MIB
    del a, b
    assert pool.allocate(5 * MIB).ptr == ptr
    begin = pool.driver_allocations
    places = set()
    for _ in range(10):  # as a loop does
        c = pool.allocate(16 * MIB)
        places.add(c.ptr)
        pool.shrink(c, 3 * MIB)
        del c
    assert pool.driver_allocations == begin
    assert len(places) <= 2
    pool.trim()
    now = pool.stats()
    assert (now.used_nbytes, now.num_blocks, pool.held_nbytes) == (0, 0, 0)


def test_parts_that_are_used_are_not_joined(pool):
    a = pool.allocate(16 * MIB)
    pool.shrink(a, 5 * MIB)
    rest = pool.allocate(11 * MIB)
    assert rest.ptr == a.ptr + 5 * MIB
    ptr = a.ptr
    del a
    assert pool.allocate(16 * MIB).ptr > ptr
    del rest
    pool.trim()
    assert pool.stats().num_blocks == 0


@pytest.mark.parametrize("is_first", [True, False])
def test_parts_that_were_cut_again_are_joined_in_turn(is_first, pool):
    """What is left of a part is not the part: a block of it would reach into others' memory."""
    a = pool.allocate(16 * MIB)
    pool.shrink(a, 8 * MIB)
    if not is_first:
        held, a = a, pool.allocate(8 * MIB)  # what was cut off
        assert a.ptr == held.ptr + 8 * MIB
        del held
    pool.shrink(a, 2 * MIB)
    del a
    whole = pool.allocate(16 * MIB)
    assert whole._block.nbytes == 16 * MIB
    del whole
    pool.trim()
    assert pool.stats().num_blocks == 0


def test_little_is_not_cut_off(pool):
    a = pool.allocate(16 * MIB)
    pool.shrink(a, 16 * MIB - 512)
    assert (a.nbytes, pool.stats().num_blocks) == (16 * MIB - 512, 1)


def test_rounding_is_small(pool):
    for nbytes in (1, 511, 4096, 100_000, 3 * MIB + 1, 10**8):
        buffer = pool.allocate(nbytes)
        assert nbytes <= buffer._block.nbytes <= max(nbytes * (1 + 1 / 64), nbytes + 512)
        assert buffer.ptr % 512 == 0


def test_counters_and_trim(pool, driver):
    a, b = pool.allocate(20 * MIB), pool.allocate(MIB)
    now = pool.stats()
    assert now.used_nbytes == 21 * MIB
    assert now.used_nbytes + now.cached_nbytes == driver.used
    assert now.num_blocks == 2
    del a
    pool.trim()
    assert pool.stats().num_blocks == 1
    del b
    gc.collect()
    pool.trim()
    now = pool.stats()
    assert (now.used_nbytes, now.cached_nbytes, now.num_blocks, driver.used) == (0, 0, 0, 0)
    assert pool.allocate(MIB).ptr == driver.spaces[0].ptr


def test_trim_keeps_chunks_that_are_in_use_and_fills_the_holes_later(pool, driver):
    buffers = [pool.allocate(16 * MIB) for _ in range(8)]
    kept = buffers[::2]
    del buffers
    pool.trim()
    assert driver.used == 4 * 16 * MIB
    (space,) = driver.spaces
    end = max(space.mapped) + space.mapped[max(space.mapped)]
    more = [pool.allocate(16 * MIB) for _ in range(4)]
    assert all(space.holds(buffer.ptr, 16 * MIB) for buffer in kept + more)
    assert max(buffer.ptr for buffer in more) < space.ptr + end + 16 * MIB


def test_nothing_waits_where_nothing_is_given_back(pool, driver):
    buffer = pool.allocate(MIB)
    pool.trim()
    assert not driver.has_waited
    del buffer


def test_growth_takes_no_more_than_there_is(driver):
    driver.total = 18 * MIB
    pool = driver.pool()
    first = pool.allocate(15 * MIB)  # 16 MiB, as it likes to grow
    second = pool.allocate(3 * MIB)  # 2 MiB, since there is no more
    assert driver.used == 18 * MIB
    with pytest.raises(MemoryError, match=r"out of memory: 1\.00 MiB asked for"):
        pool.allocate(MIB)
    del first, second
    assert pool.allocate(17 * MIB)


def test_free_blocks_are_joined_before_new_memory_is_cut(pool, driver):
    pieces = [pool.allocate(MIB) for _ in range(16)]
    pieces[2:4] = []
    assert pool.allocate(2 * MIB).ptr == driver.spaces[0].ptr + 2 * MIB


def test_idle_blocks_of_other_streams_are_spilled_before_memory_runs_out(driver):
    driver.total = 64 * MIB
    pool = driver.pool()
    pool.allocate(60 * MIB)
    assert pool.stock(7).allocate(60 * MIB)
    assert driver.used <= 64 * MIB


def test_a_limit(pool, driver):
    pool.limit_nbytes = 32 * MIB
    buffer = pool.allocate(31 * MIB)
    with pytest.raises(MemoryError, match=r"pool may hold 32\.00 MiB"):
        pool.allocate(8 * MIB)
    assert driver.used <= 32 * MIB
    del buffer
    pool.allocate(32 * MIB)
    assert pool.stats().limit_nbytes == 32 * MIB
    pool.limit_nbytes = None
    assert pool.allocate(64 * MIB)


def test_growth_goes_on_where_memory_at_the_end_was_given_back(pool, driver):
    first, second = pool.allocate(24 * MIB), pool.allocate(24 * MIB)
    del second
    pool.trim()
    pool.limit_nbytes = 60 * MIB
    small = pool.allocate(6 * MIB)  # 16 MiB, of which 10 are left for what follows
    large = pool.allocate(24 * MIB)
    assert driver.used <= 60 * MIB
    del first, small, large


def test_a_limit_on_driver_allocations():
    free = []
    pool = Pool(lambda _: 4096, free.append, lambda: (0, 0), Full)
    pool.limit_nbytes = 2 * MIB
    first = pool.allocate(MIB)
    with pytest.raises(MemoryError, match="pool may hold"):
        pool.allocate(2 * MIB)
    del first
    assert pool.allocate(2 * MIB)
    assert free == [4096]


def test_a_new_stream_takes_over_the_memory_of_one_that_is_gone(pool, driver):
    kept = pool.stock(5).allocate(MIB)
    pool.retire(5)
    pool.retire(99)
    used = driver.used
    other = pool.stock(6).allocate(MIB)
    assert driver.used == used
    assert other.ptr != kept.ptr


def simulate(pool, seed, share, size, steps=10_000):
    """Allocate and free at random; return the most that was asked for at once."""
    generator, live, now, most = random.Random(seed), [], 0, 0
    for step in range(steps):
        if not live or generator.random() < share(step):
            live.append(pool.allocate(size(generator)))
            now += live[-1].nbytes
            most = max(most, now)
        else:
            place = generator.randrange(len(live))
            live[place], live[-1] = live[-1], live[place]
            now -= live.pop().nbytes
    return most


def uniform(generator):
    return generator.randint(KIB, 10 * MIB)


def by_magnitude(generator):
    return int(KIB * (10 * KIB) ** generator.random())


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("size", [uniform, by_magnitude])
@pytest.mark.parametrize(
    "share", [lambda _: 0.7, lambda step: 0.7 if step // 1000 % 2 == 0 else 0.3], ids=["70/30", "70/30 in turn"]
)
def test_h12_memory_is_within_a_tenth_of_ideal(seed, size, share, driver):
    ideal = simulate(driver.pool(), seed, share, size)
    figures = f"{driver.peak / ideal:.4f} x ideal of {ideal / MIB:.0f} MiB, {driver.commits} driver allocations"
    sys.stdout.write(f"H12: {figures}\n")
    assert driver.peak <= 1.1 * ideal


def test_no_two_buffers_overlap_and_all_have_memory(pool, driver):
    generator, live = random.Random(1), []
    for _ in range(2000):
        if live and generator.random() < 0.45:
            live.pop(generator.randrange(len(live)))
        else:
            live.append(pool.allocate(by_magnitude(generator)))
            if generator.random() < 0.3:
                pool.shrink(live[-1], int(live[-1].nbytes * generator.random()))
        if generator.random() < 0.01:
            pool.trim()
    spans = sorted((buffer.ptr, buffer.ptr + buffer.nbytes) for buffer in live)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    (space,) = driver.spaces
    assert all(space.holds(buffer.ptr, buffer.nbytes) for buffer in live)


def test_threads(pool):
    failures = []

    def work(seed):
        try:
            simulate(pool, seed, lambda _: 0.5, by_magnitude, 400)
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    gc.collect()
    pool.trim()
    assert pool.stats().num_blocks == 0
    assert pool.held_nbytes == 0


# The backend


@pytest.mark.usefixtures("one_stream")
def test_a_backend_has_arenas_where_the_device_has_virtual_memory(config):
    library = FakeLibrary(results={"cuPointerGetAttribute": 1})
    library.attributes[102] = 1
    context, _ = open_context(library)
    backend = CudaBackend(context, 0)
    buffer = backend.allocate(MIB)
    assert [(ptr, size) for ptr, (_, size) in library.mapped.items()] == [(buffer.ptr, 16 * MIB)]
    assert "cuMemAlloc_v2" not in library.names()
    del buffer
    backend.trim()
    assert not library.mapped
    assert library.names().index("cuCtxSynchronize") < library.names().index("cuMemUnmap")
    library.results["cuMemCreate"] = 2
    with pytest.raises(MemoryError, match="the device is out of memory"):
        backend.allocate(MIB)
    config.memory_pool = "blocks"
    assert CudaBackend(context, 0).allocate(MIB).ptr in library.memory


def test_a_device_is_let_in_while_a_stream_opens(driver, monkeypatch):
    guests, threads, make = [], [], pool_module.Stock

    def make_late(*args):
        threads.append(threading.Thread(target=pool.let_in, args=("another device",)))
        threads[-1].start()
        threads[-1].join(0.1)
        return make(*args)

    monkeypatch.setattr(FakeSpace, "let_in", lambda _, device: guests.append(device), raising=False)
    pool = driver.pool()
    monkeypatch.setattr(pool_module, "Stock", make_late)
    pool.stock("another stream")
    threads[0].join(PATIENCE)
    assert guests == ["another device"] * 2
