"""What later tiles read is fetched into the cache: the pieces of all tiles but the first ones, each once."""

from types import SimpleNamespace

import numpy as np
import pytest

from oxinp._kernels.fft import batch, prefetch
from oxinp._kernels.fft import kernel as kernels
from oxinp._kernels.fft.spec import COLUMNS, ROWS
from oxinp._ptx.isa import EFFECT, Op
from oxinp._ptx.kernel import traced_with
from oxinp._ptx.types import u32, u64
from tests.kernels.fft.test_plan import check, random, transformed
from tests.kernels.machine import Session, machine

DEVICE = SimpleNamespace(num_sms=2, cc=(9, 0), max_shared_nbytes=8 * 1024, tuned=lambda _: None)


@pytest.mark.parametrize(
    ("shape", "axis", "cluster"), [((256, 64), 0, 16), ((60, 600), 0, 1), ((300, 256), 1, 1), ((8, 60, 96), 1, 1)]
)
def test_what_is_fetched(monkeypatch, shape, axis, cluster):
    asked = []

    def note(frame, op, address, nbytes):  # noqa: ARG001 - as instructions are called
        every = np.broadcast_to(address, frame.shape)
        asked.extend(int(x) for x in (every if frame.mask is None else every[frame.mask]).ravel())

    probe = Op("probe", "", (), (u64, u32), note, EFFECT, 90)
    sizes = set()

    def ask(k, source, nbytes):
        sizes.add(nbytes)
        k.emit_op(probe, source.address(), nbytes)

    monkeypatch.setattr(batch, "PREFETCHES", (COLUMNS, ROWS))
    monkeypatch.setattr(prefetch, "bulk_prefetch", ask)
    kernels.make.cache_clear()
    x = random(shape, "F")
    target = np.empty_like(x)
    session = Session(machine())
    try:
        made = transformed(session, x, target, axis, device=DEVICE)
        begin = session.pointer(x)
    finally:
        session.close()
        kernels.make.cache_clear()
    check(target, x, axis)
    (step,) = made.steps
    spec, (nbytes,) = traced_with(step.kernel)[0], sizes
    assert (spec.is_fetching, spec.cluster) == (True, cluster)
    ahead, num_tiles = step.constants[-2:]
    assert len(asked) * nbytes == x.nbytes * (num_tiles - ahead) // num_tiles
    offsets = np.array(sorted(asked)) - begin
    assert len(set(offsets)) == len(asked)
    assert offsets.min() >= 0
    assert offsets.max() + nbytes <= x.nbytes
    assert not (offsets % nbytes).any()
