"""Arrays copied behind each other by one launch."""

import numpy as np
import pytest

from oxinp._kernels.elementwise import joined
from oxinp._ptx.kernel import traced_with
from tests.kernels.machine import Session, machine

TILE = joined.BLOCK * joined.ITEMS


@pytest.mark.parametrize(
    ("lengths", "offset", "unit"),
    [
        ((16,), 0, 16),
        ((16 * TILE, 16), 0, 16),
        ((16 * TILE - 16, 16 * TILE, 16 * TILE + 16, 16), 0, 16),
        ((8 * TILE + 8, 16, 24), 0, 8),
        ((3 * TILE * 4 + 4, 4, 4, 8, 16, 4, 4, 20), 0, 4),
        ((2 * TILE + 2, 6), 0, 2),
        ((5, TILE + 3, 1), 0, 1),
        ((32, 64), 8, 8),
        ((32, 64), 1, 1),
    ],
)
def test_joined(lengths, offset, unit):
    rng = np.random.default_rng(sum(lengths))
    sources = [rng.integers(0, 256, offset + nbytes).astype(np.uint8)[offset:] for nbytes in lengths]
    out, session = np.zeros(sum(lengths) + 16, np.uint8), Session(machine())
    try:
        plan = joined.plan(lengths, 16 if not offset else offset & -offset)
        (launch,) = plan.steps
        assert traced_with(launch.kernel)[0] == joined.JoinedSpec(len(lengths), unit)
        session.run(plan, [out], [session.pointer(x) for x in sources])
    finally:
        session.close()
    assert out[: sum(lengths)].tobytes() == b"".join(x.tobytes() for x in sources)
    assert not out[sum(lengths) :].any()
