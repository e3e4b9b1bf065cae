"""Host memory that what is fetched lies in."""

import gc
import os
import subprocess
import sys

import numpy as np
import pytest

import oxinp
from oxinp import config
from oxinp._core.lazy.handle import fetch_storage
from oxinp._runtime import host_blocks

MIB = 1 << 20


class Bus:
    """A device that pins memory, and knows which is."""

    def __init__(self):
        self.pinned = set()

    def pin(self, memory):
        return Pin(self.pinned, memory.ctypes.data)


class Pin:
    def __init__(self, pinned, address):
        self.pinned, self.address = pinned, address
        pinned.add(address)

    def __del__(self):
        self.pinned.discard(self.address)


@pytest.fixture(autouse=True)
def _nothing_kept():
    gc.collect()
    host_blocks.trim()
    yield
    host_blocks.trim()


@pytest.fixture
def bus():
    return Bus()


def address_of(array):
    return array.ctypes.data


def test_freed_memory_is_used_again(bus):
    first = address_of(host_blocks.empty(5 * MIB, bus))
    again = host_blocks.empty(5 * MIB, bus)
    assert address_of(again) == first
    assert again.nbytes == 5 * MIB
    assert again.flags.writeable


def test_memory_of_which_a_view_is_left_is_not(bus):
    whole = host_blocks.empty(5 * MIB, bus)
    part = np.ndarray((7,), np.float64, whole, 64)[2:]
    seen = np.asarray(whole.data)[MIB:]
    first = address_of(whole)
    for held in (part, seen):
        del whole
        whole = host_blocks.empty(5 * MIB, bus)
        assert address_of(whole) != first
        assert held.size


def test_a_smaller_array_takes_part_of_a_block_that_is_hardly_larger(bus):
    first = address_of(host_blocks.empty(9 * MIB, bus))
    assert address_of(host_blocks.empty(8 * MIB, bus)) == first
    assert address_of(host_blocks.empty(7 * MIB, bus)) != first


def test_the_smallest_block_that_is_large_enough_is_taken(bus):
    blocks = [host_blocks.empty(nbytes * MIB, bus) for nbytes in (18, 16, 17)]
    wanted = address_of(blocks[2])
    del blocks
    assert address_of(host_blocks.empty(17 * MIB, bus)) == wanted


def test_a_block_is_pinned_when_it_serves_again(bus):
    first = host_blocks.empty(5 * MIB, bus)
    assert not bus.pinned
    del first
    again = host_blocks.empty(5 * MIB, bus)
    assert bus.pinned == {address_of(again)}
    del again
    assert bus.pinned
    host_blocks.trim()
    assert not bus.pinned


def test_no_more_is_pinned_than_is_kept(bus):
    with config.override(host_memory_kept=11 * MIB):
        del [host_blocks.empty(5 * MIB, bus) for _ in range(2)][:]
        held = [host_blocks.empty(5 * MIB, bus) for _ in range(2)]
        assert len(bus.pinned) == 2
        more = [host_blocks.empty(5 * MIB, bus) for _ in range(3)]
        del more[:]
        held += [host_blocks.empty(5 * MIB, bus) for _ in range(2)]
        assert len(bus.pinned) == 2


def test_what_has_waited_longest_goes_first(bus):
    with config.override(host_memory_kept=11 * MIB):
        blocks = [host_blocks.empty(5 * MIB, bus) for _ in range(3)]
        addresses = [address_of(block) for block in blocks]
        while blocks:
            del blocks[0]
        kept = {address_of(block) for block in [host_blocks.empty(5 * MIB, bus) for _ in range(2)]}
        assert kept == set(addresses[1:])


def test_nothing_is_kept_where_the_setting_says_so(bus):
    with config.override(host_memory_kept=0):
        host_blocks.empty(5 * MIB, bus)
        assert not host_blocks._free


def test_the_heap_has_what_is_small(bus):
    host_blocks.empty(MIB, bus)
    assert not host_blocks._free


def test_nothing_is_pinned_while_the_process_forks(bus):
    del [host_blocks.empty(5 * MIB, bus) for _ in range(2)][:]
    held = host_blocks.empty(5 * MIB, bus)
    assert bus.pinned
    host_blocks._unpin_all()
    assert not bus.pinned
    held[:] = 1


@pytest.mark.usefixtures("on_device")
def test_arrays_are_fetched_into_memory_that_others_left():
    n = 6 * MIB // 8
    wanted = np.arange(n) * 2
    x = oxinp.arange(n) * 2
    host = fetch_storage(x._storage)
    assert np.array_equal(host, wanted)
    first = address_of(host)
    part = np.asarray(x)[7:9]
    del x, host
    y = oxinp.arange(n) * 2
    assert address_of(fetch_storage(y._storage)) != first
    assert np.array_equal(np.asarray(y), wanted)
    assert part.tolist() == [14, 16]
    del part
    z = oxinp.arange(n) * 2
    assert address_of(fetch_storage(z._storage)) == first


def test_nothing_is_said_of_what_is_in_use_at_the_end():
    text = """
import oxinp
from oxinp._core.lazy.handle import fetch_storage

oxinp.config.offload_threshold = 0
x = oxinp.arange(1 << 20) * 2
held = fetch_storage(x._storage)
del x
kept = [fetch_storage((oxinp.arange(1 << 20) * 3)._storage)]
kept.append(kept)
"""
    environment = {**os.environ, "OXINP_BACKEND": "emulator"}
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, env=environment)
    assert not done.stderr


def test_a_block_has_its_pages_for_itself(bus):
    """No other memory of the process is pinned with it."""
    others = set(host_blocks._lent)  # which what ran before may have left to the garbage collector
    first = address_of(host_blocks.empty(3 * MIB - 5, bus))
    block = host_blocks.empty(3 * MIB - 5, bus)
    assert first == address_of(block)
    assert not first % 4096
    (pinned,) = host_blocks._lent - others
    assert pinned.memory.nbytes == 3 * MIB


VIEWS = {
    "itself": lambda lent: lent,
    "of another dtype": lambda lent: np.ndarray((16,), np.float64, lent, 64, (8,)),
    "a part of it": lambda lent: np.ndarray((4, 4), np.float64, lent, 0, (32, 8))[1:, 2],
    "a buffer": memoryview,
    "its elements": lambda lent: lent.view("f4").reshape(-1, 1).T,
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_memory_that_any_view_sees_is_not_lent_again(bus, view):
    lent = host_blocks.empty(5 * MIB, bus)
    address = address_of(lent)
    seen = view(lent)
    del lent
    gc.collect()
    other = host_blocks.empty(5 * MIB, bus)
    assert address_of(other) != address
    del seen
    gc.collect()
    assert address_of(host_blocks.empty(5 * MIB, bus)) == address


@pytest.mark.usefixtures("on_device")
def test_arrays_that_are_fetched_one_after_the_other_keep_their_values():
    count = host_blocks.MIN_NBYTES // 8 + 3
    made = [oxinp.arange(float(count)) * k for k in range(4)]
    oxinp.evaluate(*made)
    fetched = [np.asarray(each) for each in made]
    parts = [oxinp.asnumpy(each)[1:] for each in made]
    stored = [fetch_storage(each._storage) for each in made]
    for k in range(4):
        for found, first in ((fetched[k], 0), (parts[k], 1), (stored[k], 0)):
            np.testing.assert_array_equal(found, np.arange(float(first), count) * k)
