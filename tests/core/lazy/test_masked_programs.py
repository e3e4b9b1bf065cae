"""Random programs of selections by masks, written to, updated, selected from and asked for in any order."""

# ruff: noqa: ICN001 - oxinp is np, and programs take either

import random

import numpy
import pytest

import oxinp as np
from oxinp._core.lazy import selections
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("on_device")
SHAPES = [(600,), (40, 30)]
STATEMENTS = [
    "s = x[m]",
    "s = y[m]",
    "t = x[m]",
    "t = y[~m]",
    "s = s + 1",
    "s = s * t if s.shape == t.shape else s - 1",
    "s = np.abs(s) - t if len(s) == len(t) else -s",
    "t = s[s > 0]",
    "s = s[~(s > 3)]",
    "k = s > 1; t = s[k]; s = s[~k]",
    "k = s > 1; u = s[k]; k ^= s < 4; t = s[k]",
    "t = t[t < 5]; t = t[t > -4]",
    "s += 0.5",
    "s *= s",
    "s /= 4; t = s",
    "np.negative(s, s)",
    "np.add(s, 1, out=s)",
    "s[s > 2] = 1.0",
    "s[1:4] = 0.25",
    "x[m] = x[m] * 0.5 + y[m]",
    "x[m] += 1",
    "y[~m] = -y[~m]",
    "x[m] = s if s.size == m.sum() else 2.0",
    "x[x > 3] = x[x > 3] - 3",
    "x[2:9] = y[2:9]",
    "x *= 0.75",
    "y += x",
    "m = x > y",
    "m = y > 0.5",
    "m[3:30] = True",
    "m ^= x > 1",
    "m[...] = y > x",
    "m = np.asarray((x < y).tolist())",
    "n = len(s)",
    "n = s.sum()",
    "n = (s > 1).any()",
    "n = t.size, t.shape",
    "n = np.all(t < 9)",
    "n = s[:3]",
    "n = float(s[0]) if len(s) else 0",
    "i = at[m]; z[i,] = 2.5",
    "i = at[m]; z[i,] = y.ravel()[m.ravel()]",
    "i = at[m]; z[i[i > 50],] = 1",
    "w = [x[m], y[m] + 1, s * 1]",
    "w = w[1:] + [s]",
]


def start(xp, shape, seed):
    draw = numpy.random.default_rng(seed)
    given = {name: draw.integers(-9, 10, shape) / 4 for name in "xy"}
    given |= {"at": numpy.arange(given["x"].size).reshape(shape), "z": draw.integers(-9, 10, given["x"].size) / 4}
    names = {name: xp.asarray(value) * value.dtype.type(1) for name, value in given.items()}
    x, y = names["x"], names["y"]
    m = x > y
    return {
        **names,
        "m": m,
        "s": x[m],
        "t": y[m],
        "k": x[m] > 0,
        "w": [],
        "n": 0,
        "u": y[m],
        "i": names["at"][m],
        "np": xp,
    }


def step(statement, names):
    try:
        exec(statement, names)  # noqa: S102 - from the list above
    except Exception as error:  # noqa: BLE001 - which is compared
        return type(error)
    return None


def compare(ours, theirs, name, where):
    if name == "w":
        for mine, wanted in zip(ours[name], theirs[name], strict=True):
            assert_same(np.asarray(mine), numpy.asarray(wanted), where=where)
    elif name == "n" and isinstance(theirs[name], tuple):
        assert ours[name] == theirs[name], where
    else:
        ulp = 64 if name == "n" else 0  # which may be a sum, added up in another order
        assert_same(np.asarray(ours[name]), numpy.asarray(theirs[name]), ulp=ulp, where=where)


@pytest.mark.parametrize("threshold", [0, 2048])  # below which masks that come from Python stay on the host
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(i, marks=pytest.mark.slow) for i in range(12, 25))])
def test_random_programs(seed, shape, threshold, config):
    config.offload_threshold = threshold
    chosen = random.Random(f"{seed} {shape}")
    ours, theirs = start(np, shape, seed), start(numpy, shape, seed)
    done = []
    with numpy.errstate(all="ignore"):
        for _ in range(40):
            if chosen.random() < 0.2:
                selections._scores.clear()
            done.append(chosen.choice(STATEMENTS))
            assert step(done[-1], ours) == step(done[-1], theirs), done
            if chosen.random() < 0.05:
                name = chosen.choice("xymstukinz")
                compare(ours, theirs, name, f"{name} after {done}")
        for name in "xymstkzwniu":
            compare(ours, theirs, name, f"{name} after {done}")
