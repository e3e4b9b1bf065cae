"""What later tiles read is fetched into the cache: all rows but the first tiles', and nothing beside them."""

from types import SimpleNamespace

import numpy as np
import pytest

from oxinp._kernels.fft import batch, prefetch
from oxinp._kernels.fft import kernel as kernels
from oxinp._kernels.fft.spec import MERGE, RADER, SPLIT, SUMMED
from oxinp._ptx.isa import EFFECT, Op
from oxinp._ptx.kernel import traced_with
from oxinp._ptx.types import u32, u64
from tests.kernels.fft.test_plan import random, transformed
from tests.kernels.machine import REQUIRE_GPU, Session, machine

DEVICE = SimpleNamespace(num_sms=2, cc=(9, 0), max_shared_nbytes=16 * 1024, tuned=lambda _: None)
OLDER = SimpleNamespace(**{**vars(DEVICE), "cc": (8, 0)})


def run(x, target, device, axis=-1, n=None):
    """Transform on a device; return the plan and where the operand was."""
    session = Session(machine())
    try:
        is_half = target.dtype.kind == "f"
        made = transformed(session, x, target, axis, n, device=device, is_half=is_half)
        return made, session.pointer(x)
    finally:
        session.close()


@pytest.mark.skipif(REQUIRE_GPU, reason="nobody sees what a GPU fetches")
@pytest.mark.parametrize(
    ("shape", "dtypes", "n", "real"),
    [
        ((300, 256), "FF", None, ""),
        ((4, 60, 227), "FF", None, ""),  # by a convolution
        ((900, 113), "FF", None, RADER),
        ((600, 67), "FF", None, SUMMED),
        ((31, 405), "FF", None, ""),  # rows that begin within the 16 bytes that fetches begin at
        ((70, 600), "fF", 600, SPLIT),
        ((70, 301), "Ff", 600, MERGE),
    ],
)
def test_what_is_fetched(monkeypatch, shape, dtypes, n, real):
    asked = []

    def note(frame, op, address, nbytes):  # noqa: ARG001 - as instructions are called
        pairs = np.broadcast_arrays(address, nbytes, np.empty(frame.shape))[:2]
        asked.extend(zip(*[x[... if frame.mask is None else frame.mask].ravel().tolist() for x in pairs], strict=True))

    probe = Op("probe", "", (), (u64, u32), note, EFFECT, 90)
    x = random(shape, dtypes[0])
    length = {SPLIT: shape[-1] // 2 + 1, MERGE: n}.get(real, shape[-1])
    found, expected = (np.empty((*shape[:-1], length), dtypes[1]) for _ in range(2))
    run(x, expected, OLDER, n=n)
    monkeypatch.setattr(prefetch, "bulk_prefetch", lambda k, *operands: k.emit_op(probe, *operands))
    kernels.make.cache_clear()
    try:
        made, begin = run(x, found, DEVICE, n=n)
    finally:
        kernels.make.cache_clear()
    assert (found == expected).all()
    (step,) = made.steps
    spec = traced_with(step.kernel)[0]
    assert (spec.is_fetching, spec.real) == (True, real)
    ahead, _ = step.constants[-2:]
    is_fetched = np.zeros(x.nbytes, int)
    for address, nbytes in asked:
        assert address % 16 == nbytes % 16 == 0
        assert 0 <= address - begin < address - begin + nbytes <= x.nbytes
        is_fetched[address - begin : address - begin + nbytes] += 1
    tile = spec.columns * shape[-1] * x.itemsize
    assert not is_fetched[: ahead * tile].any()
    assert is_fetched.max() == 1
    assert (is_fetched[ahead * tile :] == 0).sum() < 32 * -(-x.nbytes // tile)


@pytest.mark.parametrize(("shape", "axis", "device"), [((60, 600), 0, DEVICE), ((300, 256), 1, OLDER)])
def test_what_is_not(shape, axis, device):
    x = random(shape, "F")
    made, _ = run(x, np.empty_like(x), device, axis)
    assert not any(traced_with(step.kernel)[0].is_fetching for step in made.steps)


def test_setting(monkeypatch):
    monkeypatch.setattr(batch, "FETCHES", False)
    x = random((300, 256), "F")
    made, _ = run(x, np.empty_like(x), DEVICE)
    assert not traced_with(made.launch.kernel)[0].is_fetching
