"""Stacks of matrices where the device's memory is short: in parts, and the message where not even that helps."""

import numpy as np
import pytest

import oxinp
from oxinp import _runtime
from oxinp._core.ops import stacks
from oxinp._runtime import hooks

pytestmark = pytest.mark.usefixtures("on_device")

LEAST = 1 << 20  # pieces of memory that are smaller hold no result of these tests


def drawn(count, *shape):
    """A stack; a GPU's memory comes in larger pieces than the emulator's."""
    count *= 1 if _runtime.current().name == "emulator" else 4096
    return np.random.default_rng(0).standard_normal((count, *shape))


@pytest.fixture
def plans(monkeypatch):
    """Plans of stacks as they are made."""
    made, planned = [], stacks.planned

    def keeping(*arguments):
        made.append(planned(*arguments))
        return made[-1]

    monkeypatch.setattr(stacks, "planned", keeping)
    return made


def taken():
    """Have the pending work of other tests done, and take what the pool then has free but cannot give back."""
    for hook in hooks.before_out_of_memory:
        hook()
    oxinp.cuda.trim()
    oxinp.cuda.limit_memory(0)
    backend, held = _runtime.current(), []
    size = 1 << oxinp.cuda.memory_stats().cached_nbytes.bit_length()
    with backend.pool.keeping_arrays():
        while size >= LEAST:
            try:
                held.append(backend.allocate(size))
            except MemoryError:
                size //= 2
    return held


def limited(nbytes, function, *arrays):
    """Return what a function gives where the device has room for so many bytes beside its operands."""
    given = [oxinp.asarray(x) * 1 for x in arrays]
    oxinp.evaluate(*given)
    try:
        held = taken()
        stats = oxinp.cuda.memory_stats()
        oxinp.cuda.limit_memory(stats.used_nbytes + stats.cached_nbytes + nbytes)
        oxinp.cuda.reset_stats()
        with oxinp.config.override(fallback="error"):
            found = function(*given)
            oxinp.evaluate(found)
        assert not oxinp.cuda.stats().evicted_bytes
        return found
    finally:
        oxinp.cuda.limit_memory(None)
        del held


def test_stacks_go_in_parts(plans):
    a = drawn(2, 40, 40)
    room = a.nbytes * 11 // 4  # the inverses, and workspace of one matrix, or a little more
    found = limited(room, oxinp.linalg.inv, a)
    np.testing.assert_allclose(np.asarray(found), np.linalg.inv(a), atol=1e-11)
    at_once, in_parts = plans
    assert in_parts.scratch_nbytes <= room - a.nbytes < at_once.scratch_nbytes
    assert [plan.steps[-1].count for plan in plans] == [1, min(len(a), stacks.PARTS)]  # a status for each part
    a[-1] = 0
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        limited(room, oxinp.linalg.inv, a)


def test_what_was_needed_is_said(monkeypatch):
    monkeypatch.setattr(hooks, "to_evict", [])  # arrays that other tests have left would make room
    a = drawn(2, 40, 40)
    with pytest.raises(MemoryError, match="asked for"):
        limited(a.nbytes // 4, oxinp.linalg.inv, a)
