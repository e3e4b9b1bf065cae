"""Blocks of Buffers that are gone, which machine code gives back to their pool."""

import gc
import sys
import weakref

import pytest

import oxinp
from oxinp._core.native import install, objects
from oxinp._runtime.memory import Buffer
from tests.core.native.test_memory import _pool

pytestmark = pytest.mark.skipif(not objects.ARE_KNOWN, reason="this Python's objects are laid out in another way")


@pytest.fixture
def finalised():
    """Have Buffers finalised by machine code; return what counts those that Python finalises."""
    entered, code = [], Buffer.__del__.__code__
    install.install(oxinp.ndarray)

    def note(frame, event, _):
        if event == "call" and frame.f_code is code:
            entered.append(event)

    sys.setprofile(note)
    yield entered
    sys.setprofile(None)


def test_blocks_go_back_to_their_pool_by_machine_code(finalised):
    pool = _pool()
    for nbytes in (1, 5000, 1 << 20, 3 << 30):
        buffers = [pool.allocate(nbytes) for _ in range(3)]
        blocks = [buffer._block for buffer in buffers]
        assert pool.used_nbytes == sum(block.nbytes for block in blocks)
        peak = pool.peak_nbytes
        counts = [sys.getrefcount(block) for block in blocks]
        told = []
        watch = weakref.ref(buffers[0], told.append)
        del buffers
        assert told == [watch]
        assert pool.used_nbytes == 0
        assert pool.peak_nbytes == peak
        assert all(block in block.home for block in blocks)
        assert [sys.getrefcount(block) for block in blocks] == counts  # the list's in place of the Buffer's
        assert pool.allocate(nbytes)._block in blocks
    assert not finalised


def test_what_is_finalised_otherwise_is_left_to_python(finalised):
    class Free(list):
        pass

    pool = _pool(Free)
    del pool
    pool = _pool(Free)
    buffer = pool.allocate(1000)
    block = buffer._block
    del buffer
    assert block.home == [block]
    assert len(finalised) == 1


def test_buffers_in_cycles_and_amid_errors_go_back_too():
    install.install(oxinp.ndarray)
    pool = _pool()
    cycle = [pool.allocate(1000)]
    cycle.append(cycle)
    del cycle
    gc.collect()
    assert pool.used_nbytes == 0
    with pytest.raises(KeyError):
        {}[pool.allocate(1000)]
    assert pool.used_nbytes == 0
