"""What kernels have the L2 cache fetch, as the emulator sees it."""

from types import SimpleNamespace

import numpy as np

from oxinp._kernels import prefetch
from oxinp._ptx.isa import EFFECT, Op
from oxinp._ptx.types import u32, u64

# One multiprocessor, so that few blocks are ahead of others.
DEVICE = SimpleNamespace(num_sms=1, cc=(9, 0), max_shared_nbytes=48 * 1024, tuned=lambda _: None)


def noted(monkeypatch, family):
    """Have kernels of a family note what they ask for; return the list of addresses and bytes, and forget kernels.

    Call ``family.make.cache_clear()`` again at the end.
    """
    asked = []

    def note(frame, op, address, nbytes):  # noqa: ARG001 - as instructions are called
        pairs = np.broadcast_arrays(address, nbytes, np.empty(frame.shape))[:2]
        asked.extend(zip(*[x[... if frame.mask is None else frame.mask].ravel().tolist() for x in pairs], strict=True))

    probe = Op("probe", "", (), (u64, u32), note, EFFECT, 90)
    monkeypatch.setattr(prefetch, "bulk_prefetch", lambda k, *operands: k.emit_op(probe, *operands))
    family.make.cache_clear()
    return asked


def times_fetched(asked, begin, nbytes):
    """Return how often each byte of an array was fetched; nothing may have been beside it."""
    times = np.zeros(nbytes, int)
    for address, count in asked:
        assert address % 16 == count % 16 == 0
        assert 0 <= address - begin < address - begin + count <= nbytes
        times[address - begin : address - begin + count] += 1
    return times
