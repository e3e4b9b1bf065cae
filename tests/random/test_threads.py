"""Generators that several threads use: no number is drawn twice, and no seed is lost."""

import threading

import numpy as np
import pytest

import oxinp
from oxinp._core.ops import draws, twister
from tests.patience import PATIENCE

pytestmark = pytest.mark.usefixtures("on_device")
# The generator, the function that the device draws with, a large draw, what another thread does meanwhile.
CASES = {
    "shared, seed": (lambda _: oxinp.random, (twister, "draw"), lambda g: g.seed(7)),
    "shared, NumPy draws": (lambda xp: xp.random, (twister, "draw"), lambda g: g.random_sample()),
    "own, draws": (lambda xp: xp.random.default_rng(1), (draws, "variates"), lambda g: g.random()),
    "own, falls back": (lambda xp: xp.random.default_rng(1), (draws, "variates"), lambda g: g.permutation(3)),
    "own, bytes": (lambda xp: xp.random.default_rng(1), (draws, "variates"), lambda g: g.bytes(8)),
    "own, bit generator": (
        lambda xp: xp.random.default_rng(1),
        (draws, "variates"),
        lambda g: g.bit_generator.random_raw(),
    ),
    "legacy, seed": (lambda xp: xp.random.RandomState(1), (twister, "draw"), lambda g: g.seed(7)),
    "legacy, draws": (lambda xp: xp.random.RandomState(1), (twister, "draw"), lambda g: g.randint(9)),
    "legacy, bytes": (lambda xp: xp.random.RandomState(1), (twister, "draw"), lambda g: g.bytes(8)),
    "legacy, set_state": (
        lambda xp: xp.random.RandomState(1),
        (twister, "draw"),
        lambda g: g.set_state(np.random.RandomState(7).get_state()),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_nothing_comes_between_a_draw_and_its_end(monkeypatch, case):
    """A thread stops after its draw on the device; another's call waits for it, and is not undone."""
    make, (module, name), meanwhile = CASES[case]
    oxinp.random.seed(1)
    ours, numpys = make(oxinp), np.random.RandomState(1) if "shared" in case else make(np)
    real, is_drawn, may_end = getattr(module, name), threading.Event(), threading.Event()

    def draw(*args, **kwargs):
        drawn = real(*args, **kwargs)
        is_drawn.set()
        may_end.wait(PATIENCE)
        return drawn

    monkeypatch.setattr(module, name, draw)
    large = threading.Thread(target=lambda: ours.standard_normal(500))
    large.start()
    assert is_drawn.wait(PATIENCE)
    small = threading.Thread(target=lambda: meanwhile(ours))
    small.start()
    small.join(0.1)
    may_end.set()
    large.join(PATIENCE)
    small.join(PATIENCE)
    assert not large.is_alive()
    assert not small.is_alive()
    numpys.standard_normal(500)
    meanwhile(numpys)
    assert ours.bytes(16) == numpys.bytes(16)
