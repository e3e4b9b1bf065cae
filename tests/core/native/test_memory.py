"""Memory of a device that machine code hands out again: what `Stock.allocate` does."""

import gc
import random
import sys
import weakref

import pytest

import oxinp
from oxinp._core.native import install, objects
from oxinp._runtime.memory import Block, Buffer
from oxinp._runtime.pool import Pool
from oxinp._runtime.stock import Stock
from tests.core.native.test_nodes import _code

pytestmark = pytest.mark.skipif(objects.VECTORCALL is None, reason="calls of functions have no other code")


def _pool(make_free_list=list):
    """Return a pool of memory that is nowhere."""
    addresses = iter(range(1 << 40, 1 << 60, 1 << 32))
    return Pool(lambda _: next(addresses), lambda _: None, lambda: (1 << 40, 1 << 40), MemoryError, make_free_list)


def test_memory_that_is_free_is_handed_out_as_python_does():
    ask, draw = _code("allocate"), random.Random(3)
    one, other = _pool(), _pool()
    sizes = [1, 511, 512, 513, 5000, 70_000, (1 << 20) + 7, 3 << 30, 5 << 31]
    held = [], []
    num_answered = 0
    for _ in range(400):
        if draw.random() < 0.4 and held[0]:
            place = draw.randrange(len(held[0]))
            for buffers in held:
                del buffers[place]
            continue
        nbytes = draw.choice(sizes)
        stock = one.stock(0)
        found = ask(stock, nbytes)
        num_answered += found is not None
        found, expected = found or Stock.allocate(stock, nbytes), other.stock(0).allocate(nbytes)
        assert type(found) is Buffer
        for name in ("ptr", "nbytes"):
            assert getattr(found, name) == getattr(expected, name)
        assert type(found._block) is Block
        assert found._block.ptr == expected._block.ptr
        assert sys.getrefcount(found) == 2
        held[0].append(found)
        held[1].append(expected)
        del found, expected
        for name in ("used_nbytes", "peak_nbytes"):
            assert getattr(one, name) == getattr(other, name)
        assert [len(blocks) for blocks in one.stock(0).classes.values()] == [
            len(blocks) for blocks in other.stock(0).classes.values()
        ]
    assert num_answered > 100


def test_everything_else_is_left_to_python():
    class Free(list):
        pass

    ask, pool = _code("allocate"), _pool(Free)
    buffer = pool.allocate(1000)
    assert ask(pool.stock(0), 1000) is None
    del buffer
    assert ask(pool.stock(0), 1000) is None  # a list of somebody's own
    for nbytes in (0, -5, 1.0, True, 1 << 70):
        assert ask(_pool().stock(0), nbytes) is None
    assert ask(pool, 1000) is None


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


def test_nothing_leaks():
    ask, pool = _code("allocate"), _pool()
    stock = pool.stock(0)
    buffer = pool.allocate(1000)
    block = buffer._block
    del buffer
    ask(stock, 1000)
    before = [sys.getrefcount(each) for each in (stock, pool, block, Buffer, block.home)]
    for _ in range(10_000):
        assert ask(stock, 1000) is not None
        ask(stock, 10_000_000)
    assert [sys.getrefcount(each) for each in (stock, pool, block, Buffer, block.home)] == before
    assert pool.used_nbytes == 0
    assert len(block.home) == 1
