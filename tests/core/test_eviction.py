"""Arrays that leave the device when its memory is short, and come back when they are used."""

# ruff: noqa: ICN001 - oxinp is np

import gc
import os
from contextlib import ExitStack

import numpy
import pytest

import oxinp as np
from oxinp import _runtime
from oxinp._core.host.sharing import share
from oxinp._core.lazy import executor
from oxinp._core.lazy.handle import fetch_storage
from oxinp._runtime import pool as pool_module
from tests.comparator import assert_same
from tests.little_memory import limited

pytestmark = pytest.mark.usefixtures("on_device")

COUNT = 1 << (18 if os.environ.get("OXINP_REQUIRE_GPU") == "1" else 15)  # a GPU's pool takes memory by 2 MiB
NBYTES = 8 * COUNT


@pytest.fixture
def room():
    """Return a function that gives the pool room for so many more arrays, while others may hold some that stay."""
    np.evaluate()
    _runtime.current().pool.notes_uses = False
    with ExitStack() as stack:
        yield lambda count, num_others=0: stack.enter_context(limited(count * NBYTES, NBYTES, num_others))


def made(number):
    """Return an array that is on the device only, and what it holds."""
    theirs = numpy.arange(COUNT, dtype=numpy.float64) * number
    array = np.arange(float(COUNT)) * number
    np.evaluate(array)
    return array, theirs


def is_there(array):
    return array._storage.value is not None


@pytest.mark.parametrize("num_others", [0, 8])
def test_arrays_that_do_not_fit_go_to_the_host_and_come_back(room, stats, num_others):
    room(4, num_others)
    pairs = [made(number) for number in range(12)]
    assert stats().evicted_bytes >= 8 * NBYTES
    assert 0 < sum(is_there(ours) for ours, _ in pairs) <= 4
    for ours, theirs in pairs:
        assert_same(ours, theirs)
    total, expected = pairs[0]
    for ours, theirs in pairs[1:]:
        total = total + ours * 2
        expected = expected + theirs * 2
    assert_same(total, expected)


def test_what_was_used_least_recently_goes_first(room, stats):
    room(6)
    short = [made(number) for number in range(8)]  # for the first time: uses are noted from now on
    assert len(short) == 8
    del short
    arrays = [made(number)[0] for number in range(4)]
    for used in (2, 0):
        np.evaluate(arrays[used] + 1)
    gc.collect()
    before = stats().evicted_bytes
    others = [made(10)[0], made(11)[0], made(12)[0]]
    assert stats().evicted_bytes > before
    assert [is_there(x) for x in arrays] == [True, False, True, True]
    assert all(map(is_there, others))


def test_uses_are_noted_until_memory_has_been_ample_for_a_while(room, stats, monkeypatch):
    monkeypatch.setattr(pool_module, "_CALM_LOOKS", 3)
    room(6)
    pool = _runtime.current().pool
    short = [made(number)[0] for number in range(8)]
    assert stats().evicted_bytes > 0
    assert pool.notes_uses
    kept, limit, enough = short[-1], pool.limit_nbytes, (pool_module._CALM_LOOKS + 1) * executor.LAUNCHES_PER_LOOK
    for _ in range(enough):  # most of the memory is in use all the time
        np.evaluate(kept + 1)
    assert pool.notes_uses
    del short
    gc.collect()
    pool.limit_nbytes, version = None, np.config.version
    for _ in range(enough):
        np.evaluate(kept + 1)
    assert not pool.notes_uses
    assert np.config.version != version  # launches that note nothing are made
    pool.limit_nbytes = limit
    others = [made(number)[0] for number in range(8)]
    assert len(others) == 8
    assert pool.notes_uses


def test_arrays_that_are_valid_on_the_host_leave_without_a_copy(room, stats):
    room(4)
    arrays = [made(number)[0] for number in range(4)]
    for x in arrays[2:]:
        fetch_storage(x._storage)
    other, _ = made(7)
    assert stats().evicted_bytes == 0
    assert is_there(other)
    assert [is_there(x) for x in arrays[:2]] == [True, True]
    assert sum(map(is_there, arrays)) == 3
    for number, x in enumerate(arrays):
        assert_same(x, numpy.arange(COUNT) * float(number))


def test_outdated_copies_go_first(room, stats):
    room(4)
    arrays = [made(number)[0] for number in range(4)]
    fetch_storage(arrays[0]._storage)
    with np.config.override(offload_threshold=float("inf")):
        arrays[0][:5] = 7.0
    assert arrays[0]._storage.stale.buffer is not None
    other, _ = made(7)
    assert arrays[0]._storage.stale is None
    assert stats().evicted_bytes == 0
    assert all(map(is_there, [*arrays[1:], other]))
    expected = numpy.zeros(COUNT)
    expected[:5] = 7
    assert_same(arrays[0] + 0, expected)


def test_views_see_what_is_written_after_an_eviction(room):
    room(3)
    x, theirs = made(3)
    part, their_part = x[5:900], theirs[5:900]
    others = [made(number)[0] for number in range(3)]
    assert not is_there(x)
    part[::2] = -1.0
    their_part[::2] = -1.0
    x += 1
    theirs += 1
    assert_same([x, part], [theirs, their_part])
    assert len(others) == 3


def test_what_is_pending_keeps_what_it_reads(room):
    room(6)
    x, theirs = made(3)
    y = x * 2 + 1
    del x
    others = [made(number)[0] for number in range(6)]
    assert_same(y, theirs * 2 + 1)
    assert len(others) == 6


def test_nothing_is_left_to_evict(room, stats):
    room(1)
    x, theirs = made(3)
    with pytest.raises(MemoryError, match=r"the device is out of memory: .* asked for"):
        np.evaluate(np.ones(5 * COUNT) + 1)
    assert_same(x, theirs)
    with pytest.raises(MemoryError):  # the operand itself takes the room
        np.evaluate(x + 1)
    assert_same(x, theirs)
    assert stats().evicted_bytes


def test_a_request_that_has_another_way_leaves_arrays_alone(room, stats):
    room(4)
    arrays = [made(number)[0] for number in range(4)]
    backend = _runtime.current()
    with pytest.raises(MemoryError), backend.pool.keeping_arrays:
        backend.allocate(NBYTES)
    assert stats().evicted_bytes == 0
    assert all(map(is_there, arrays))
    backend.allocate(NBYTES)
    assert stats().evicted_bytes == NBYTES


def test_where_a_buffer_lies():
    x, _ = made(3)
    buffer = x._storage.value[1][0]
    assert buffer.pages == ((0, NBYTES, "device", _runtime.current()),)
    assert buffer.backend is _runtime.current()


def test_shared_memory_stays(room):
    room(3)
    x, theirs = made(3)
    buffer = share(x)
    others = [made(number)[0] for number in range(4)]
    assert x._storage.value[1][0] is buffer
    assert_same(x, theirs)
    assert len(others) == 4


def test_pending_work_that_keeps_much_is_done_before_memory_grows(room, config, stats):
    room(16)
    config.pending_share = 0.25
    pool = _runtime.current().pool
    pool.reset_peak()
    before = pool.used_nbytes
    expected, chain = numpy.zeros(COUNT), np.zeros(COUNT)
    for number in range(12):
        chain = chain + made(number)[0]  # which nobody else has
        expected += numpy.arange(COUNT) * float(number)
    assert pool.peak_nbytes <= before + 9 * NBYTES
    assert_same(chain, expected)
    assert stats().evicted_bytes == 0


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3, 4))])
def test_random_programs_in_little_memory(room, seed, stats):
    room(6)  # what is pending keeps what it reads
    random = numpy.random.default_rng(seed)
    pairs = [made(number) for number in range(7)]
    for _ in range(40):
        (x, a), (y, b) = (pairs[i] for i in random.integers(7, size=2))
        match random.integers(6):
            case 0:
                pairs[random.integers(7)] = x * 0.5 + y, a * 0.5 + b
            case 1:
                x += y
                a += b
            case 2:
                x[10:] = y[:-10] * 0.5
                a[10:] = b[:-10] * 0.5
            case 3:
                assert_same(x[3:77], a[3:77])
            case 4:
                x[4] = a[4] = 7.0
            case 5:
                x[:50] = numpy.arange(50.0)
                a[:50] = numpy.arange(50.0)
    for ours, theirs in pairs:
        assert_same(ours, theirs)
    assert stats().evicted_bytes or COUNT > 1 << 15  # a GPU's pool maps ranges of memory whole
