"""Stacks of matrices where the device's memory is short: in parts, and the message where not even that helps."""

import numpy as np
import pytest

import oxinp
from oxinp import _runtime

pytestmark = pytest.mark.usefixtures("on_device")


def drawn(count, *shape):
    """A stack; a GPU's memory comes in larger pieces than the emulator's."""
    count *= 1 if _runtime.current().name == "emulator" else 4096
    return np.random.default_rng(0).standard_normal((count, *shape))


def limited(nbytes, function, *arrays):
    """Return what a function gives where the device has room for so many bytes beside its operands."""
    given = [oxinp.asarray(x) * 1 for x in arrays]
    oxinp.evaluate(*given)
    oxinp.cuda.trim()
    oxinp.cuda.limit_memory(oxinp.cuda.memory_stats().used_nbytes + nbytes)
    try:
        oxinp.cuda.reset_stats()
        with oxinp.config.override(fallback="error"):
            found = function(*given)
            oxinp.evaluate(found)
        assert not oxinp.cuda.stats().evicted_bytes
        return found, oxinp.cuda.stats().launches
    finally:
        oxinp.cuda.limit_memory(None)


def test_stacks_go_in_parts():
    a = drawn(2, 40, 40)
    room = a.nbytes * 11 // 4  # the inverses, and workspace of one matrix, or a little more
    found, launches = limited(room, oxinp.linalg.inv, a)
    np.testing.assert_allclose(np.asarray(found), np.linalg.inv(a), atol=1e-11)
    _, launches_at_once = limited(16 * a.nbytes, oxinp.linalg.inv, a[:1])
    assert launches == 2 * launches_at_once
    a[-1] = 0
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        limited(room, oxinp.linalg.inv, a)


def test_what_was_needed_is_said():
    a = drawn(2, 40, 40)
    with pytest.raises(MemoryError, match="asked for"):
        limited(a.nbytes // 4, oxinp.linalg.inv, a)
