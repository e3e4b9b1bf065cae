"""Memory of a device that machine code hands out again: what `Stock.allocate` does."""

import random
import sys

import pytest

from oxinp._core.native import objects
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
    ask, draw = _code("stock_allocate"), random.Random(3)
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

    ask, pool = _code("stock_allocate"), _pool(Free)
    buffer = pool.allocate(1000)
    assert ask(pool.stock(0), 1000) is None
    del buffer
    assert ask(pool.stock(0), 1000) is None  # a list of somebody's own
    for nbytes in (0, -5, 1.0, True, 1 << 70):
        assert ask(_pool().stock(0), nbytes) is None
    assert ask(pool, 1000) is None


def test_nothing_leaks():
    ask, pool = _code("stock_allocate"), _pool()
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
