"""Elements gathered by their addresses."""

import numpy as np
import pytest

from oxinp._kernels.elementwise import addressed
from tests.kernels.machine import Session, machine


@pytest.mark.parametrize(("nbytes", "width"), [(1, 1), (2, 1), (4, 1), (8, 1), (4, 2), (8, 2)])
@pytest.mark.parametrize("count", [1, addressed.BLOCK, addressed.BLOCK + 3])
def test_addressed(nbytes, width, count):
    itemsize = nbytes * width
    rng = np.random.default_rng(count)
    source = rng.integers(0, 256, 999 * itemsize).astype(np.uint8)
    places = rng.integers(0, 999, count)
    out, session = np.zeros((count + 1) * itemsize, np.uint8), Session(machine())
    try:
        table = session.pointer(source) + places * itemsize
        session.run(addressed.plan(count, nbytes, width), [out], [session.pointer(table)])
    finally:
        session.close()
    assert out[: count * itemsize].tobytes() == source.reshape(-1, itemsize)[places].tobytes()
    assert not out[count * itemsize :].any()
