"""Draws that are reduced as they are made, against NumPy's draws and reductions."""

import numpy as np
import pytest

import oxinp
from oxinp._kernels.random import fill, reduced
from tests.comparator import assert_same


@pytest.fixture
def kernels(monkeypatch):
    """The sizes of draws that a kernel has reduced, and of those that were stored."""
    sizes = {"reduced": [], "stored": []}
    for module, name, place in ((reduced, "reduced", 1), (fill, "stored", 2)):
        planned = module.plan
        monkeypatch.setattr(
            module, "plan", lambda *a, _f=planned, _n=name, _p=place, **kw: sizes[_n].append(a[_p]) or _f(*a, **kw)
        )
    return sizes


def inside(g, n):
    x, y = g.random(n), g.random(n)
    return (x * x + y * y < 1).sum()


CASES = {
    "a count": lambda g: (g.random(5001) < 0.25).sum(),
    "points in a circle": lambda g: inside(g, 4099),
    "a mean of truths": lambda g: (g.random(3001) < 0.5).mean(),
    "f32": lambda g: g.random(3003, dtype="f4").max(),
    "any": lambda g: (g.random(2000) > 0.999).any(),
    "two dimensions": lambda g: (g.random((51, 40)) < g.random((51, 40))).sum(),
    "a number to start from": lambda g: g.random(2222).min(initial=0.25),
    "count_nonzero": lambda g: np.count_nonzero(g.random(4001) < 0.5),
    "one element": lambda g: g.random(1).max(),
    "DXSM": lambda g: (g.random(2500) * 8 // 1).max(),
}


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("name", CASES)
def test_nothing_is_stored(kernels, name):
    """One launch makes the result, and no draw is stored."""
    found = []
    for xp in (oxinp, np):
        g = xp.random.Generator(getattr(xp.random, "PCG64DXSM" if name == "DXSM" else "PCG64")(5))
        g.random(7 if xp is np else (7,))
        kernels["stored"].clear()
        before = oxinp.cuda.stats().launches
        result = CASES[name](g)
        if xp is oxinp:
            oxinp.evaluate(result)
            assert oxinp.cuda.stats().launches == before + 1
        found.append([result, g.integers(0, 9, 3)])
    assert_same(*found)
    assert len(kernels["reduced"]) == 1
    assert not kernels["stored"]


@pytest.mark.usefixtures("on_device")
def test_sums_of_floats():
    ours, numpys = oxinp.random.default_rng(1), np.random.default_rng(1)
    with oxinp.errstate(all="ignore"):
        total, mean = ours.random(10_001).sum(), ours.random(5000).mean()
        assert_same([total, mean], [numpys.random(10_001).sum(), numpys.random(5000).mean()], ulp=8)


@pytest.mark.usefixtures("on_device")
def test_what_is_read_later_is_the_same(kernels):
    ours, numpys = oxinp.random.default_rng(1), np.random.default_rng(1)
    x, expected = ours.random(3000), numpys.random(3000)
    assert_same([(x < 0.5).sum(), x, (x < 0.5).sum()], [(expected < 0.5).sum(), expected, (expected < 0.5).sum()])
    assert len(kernels["reduced"]) >= 1


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize(
    "code",
    [
        "(g.random(4000) * v).sum()",
        "g.random((40, 100)).sum(axis=0)",
        "(g.random(4000) < g.random(4000, dtype='f4')).sum()",
        "g.random((40, 100)).T.sum()",
        "g.random(4000).argmax()",
        "g.random(4000)[1:].max()",
        "(g.random((40, 100)) < g.random(100)).sum()",
    ],
)
def test_what_has_no_such_kernel(code):
    found = [
        eval(code, {"g": xp.random.default_rng(4), "v": xp.arange(4000.0)})  # noqa: S307 - our own code
        for xp in (oxinp, np)
    ]
    assert_same(*found, ulp=16)
