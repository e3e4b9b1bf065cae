"""Shuffles of every kind, of small and of large arrays, give NumPy's order and NumPy's state."""

import numpy as np
import pytest

import oxinp
from oxinp.random import shuffling
from tests.comparator import assert_same

GENERATORS = {
    "PCG64": lambda xp: xp.random.default_rng(5),
    "DXSM": lambda xp: xp.random.Generator(xp.random.PCG64DXSM(5)),
    "Philox": lambda xp: xp.random.Generator(xp.random.Philox(5)),
    "MT19937": lambda xp: xp.random.Generator(xp.random.MT19937(5)),
    "RandomState": lambda xp: xp.random.RandomState(5),
}
OF_BOTH = (
    "g.permutation(2000)",
    "g.permutation(x)",
    "g.permutation(wide)",
    "g.shuffle(x)",
    "g.shuffle(wide)",
    "g.shuffle(x[::2])",
)
OF_GENERATORS = (
    "g.permutation(wide, axis=1)",
    "g.permutation(tall, axis=-1)",
    "g.shuffle(tall, axis=1)",
    "g.permuted(wide)",
    "g.permuted(x, axis=0)",
    "g.permuted(x, out=y)",
    "g.choice(x, 2000, replace=False)",
)
OF_STATES = (
    "g.choice(2000, 300, replace=False)",
    "g.choice(x, (30, 5), replace=False)",
    "g.choice(tall, 1, replace=False)",
)
CASES = [(name, code) for name in GENERATORS for code in OF_BOTH]
CASES += [("PCG64", code) for code in OF_GENERATORS] + [("RandomState", code) for code in OF_STATES]


def outcomes(name, code, xp):
    """Return what a call gives, what it has done to its arrays, and what the generator draws next."""
    g = GENERATORS[name](xp)
    x, y = xp.arange(4000.0), xp.zeros(4000)
    wide, tall = xp.arange(6000).reshape(2000, 3), xp.arange(6000).reshape(2, 3000)
    if name == "PCG64":
        g.random(dtype="f4")  # half a word is left over
    try:
        given = eval(code)  # noqa: S307 - our own code
    except (TypeError, ValueError) as error:
        given = repr(error)
    return [given, x, y, wide, tall, g.random(3) if name == "RandomState" else g.integers(0, 99, 5)]


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize(("name", "code"), CASES)
def test_orders_are_numpys(name, code):
    assert_same(outcomes(name, code, oxinp), outcomes(name, code, np))


@pytest.mark.usefixtures("on_device")
def test_the_shared_state(monkeypatch):
    asked = []
    drawn = shuffling.permutation
    monkeypatch.setattr(shuffling, "permutation", lambda *given: asked.append(given) or drawn(*given))
    found = []
    for xp in (oxinp, np):
        xp.random.seed(7)
        x = xp.arange(3000)
        xp.random.shuffle(x)
        found.append([x, xp.random.permutation(1500), xp.random.rand(2)])
    assert_same(*found)
    assert len(asked) == 2
