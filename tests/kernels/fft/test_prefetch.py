"""What later tiles read is fetched into the cache: all rows but the first tiles', and nothing beside them."""

from types import SimpleNamespace

import numpy as np
import pytest

from oxinp._kernels.fft import kernel as kernels
from oxinp._kernels.fft.spec import RADER
from oxinp._ptx.kernel import traced_with
from tests.kernels.fetched import noted, times_fetched
from tests.kernels.fft.test_plan import random, transformed
from tests.kernels.machine import REQUIRE_GPU, Session, machine

DEVICE = SimpleNamespace(num_sms=2, cc=(9, 0), max_shared_nbytes=16 * 1024, tuned=lambda _: None)
OLDER = SimpleNamespace(**{**vars(DEVICE), "cc": (8, 0)})


def run(x, target, device, axis=-1):
    """Transform on a device; return the plan and where the operand was."""
    session = Session(machine())
    try:
        made = transformed(session, x, target, axis, device=device)
        return made, session.pointer(x)
    finally:
        session.close()


@pytest.mark.skipif(REQUIRE_GPU, reason="nobody sees what a GPU fetches")
@pytest.mark.parametrize(
    ("shape", "real"),
    [
        ((40, 1600), ""),
        ((3, 20, 1287), ""),  # rows that begin within the 16 bytes that fetches begin at
        ((20, 1601), RADER),
    ],
)
def test_what_is_fetched(monkeypatch, shape, real):
    x = random(shape, "F")
    found, expected = (np.empty_like(x) for _ in range(2))
    run(x, expected, OLDER)
    asked = noted(monkeypatch, kernels)
    try:
        made, begin = run(x, found, DEVICE)
    finally:
        kernels.make.cache_clear()
    assert (found == expected).all()
    (step,) = made.steps
    spec = traced_with(step.kernel)[0]
    assert (spec.is_fetching, spec.real) == (True, real)
    ahead, _ = step.constants[-2:]
    is_fetched = times_fetched(asked, begin, x.nbytes)
    tile = spec.columns * shape[-1] * x.itemsize
    assert not is_fetched[: ahead * tile].any()
    assert is_fetched.max() == 1
    assert (is_fetched[ahead * tile :] == 0).sum() < 32 * -(-x.nbytes // tile)


@pytest.mark.parametrize(
    ("shape", "axis", "device"), [((60, 600), 0, DEVICE), ((300, 256), 1, DEVICE), ((40, 1600), 1, OLDER)]
)
def test_what_is_not(shape, axis, device):
    x = random(shape, "F")
    made, _ = run(x, np.empty_like(x), device, axis)
    assert not any(traced_with(step.kernel)[0].is_fetching for step in made.steps)
