"""`RandomState` and the functions of `numpy.random`: NumPy's numbers and states, whoever draws."""

import pickle

import numpy as np
import pytest

import oxinp
from oxinp._kernels.random import twister_plan
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("on_device")
CALLS = [
    # call, by how many units in the last place it may differ
    ("rand(300)", 0),
    ("rand(3, 41)", 0),
    ("rand()", 0),
    ("randn(301)", 0),
    ("randn(2, 50)", 0),
    ("randn(1)", 0),
    ("rand(1, 1)", 0),
    ("random_sample((5, 7))", 0),
    ("random(11)", 0),
    ("standard_normal(33)", 0),
    ("standard_normal(size=33)", 0),
    ("standard_normal()", 0),
    ("normal(3.0, 0.5, size=(3, 5))", 0),
    ("normal([1.0, 2.0], 0.5)", 0),
    ("uniform(-2, 5.5, 64)", 0),
    ("standard_exponential(40)", 0),
    ("exponential(2.5, 40)", 0),
    ("lognormal(0.5, 0.75, 40)", 0),
    ("rayleigh(2.0, 40)", 0),
    ("standard_cauchy(41)", 0),
    ("gumbel(size=500)", 0),
    ("weibull(1.5, 40)", 0),
    ("weibull(0.0, 4)", 0),
    ("pareto(3.0, 40)", 0),
    ("power(2.5, 40)", 0),
    ("logistic(40.0, 2.0, 40)", 0),
    ("laplace(40.0, 2.0, 40)", 0),
    ("gumbel(40.0, 2.0, 40)", 0),
    ("triangular(-1, 0.5, 2, 40)", 0),
    ("randint(1000, size=300)", 0),
    ("randint(-5, 2**31, 300)", 0),
    ("randint(0, 2**40, 30)", 0),
    ("randint(7, size=31, dtype='i4')", 0),
    ("randint(0, 2**32, 31, dtype='u4')", 0),
    ("randint(0, 10, 31, dtype='u1')", 0),
    ("randint(3, 4, 5)", 0),
    ("randint(5)", 0),
    ("gamma(2.0, size=3)", 0),
    ("permutation(5)", 0),
    ("choice(1000, 64)", 0),
    ("choice(np.arange(7.0), (3, 5))", 0),
    ("choice(3, 33, p=[0.5, 0.25, 0.25])", 0),
    ("choice(1, 4)", 0),
    ("choice(10, 3)", 0),
    ("bytes(5)", 0),
    ("bytes(1102)", 0),
    ("choice(np.arange(5.0), 4, replace=False)", 0),
]


def flat(state):
    """What a state holds."""
    return [state["state"]["key"].tolist(), state["state"]["pos"], state["has_gauss"], state["gauss"]]


def assert_states(ours, numpys):
    assert flat(ours.get_state(legacy=False)) == flat(numpys.get_state(legacy=False))


@pytest.mark.parametrize("seed", range(3))
def test_any_sequence_of_calls(seed):
    ours, numpys = oxinp.random.RandomState(seed), np.random.RandomState(seed)
    for i in np.random.default_rng(seed).permutation(len(CALLS))[:14]:
        call, ulp = CALLS[i]
        results = [eval(f"g.{call}", {"g": g, "np": np}) for g in (ours, numpys)]  # noqa: S307 - our own code
        assert_same(*results, ulp=ulp)
        assert_states(ours, numpys)


@pytest.mark.parametrize(("call", "ulp"), CALLS)
def test_every_call(call, ulp):
    results = []
    for xp in (oxinp, np):
        g = xp.random.RandomState(11)
        g.randn(3)
        results.append([eval(f"g.{call}", {"g": g, "np": np}), g.randn(3), g.rand(3)])  # noqa: S307 - our own code
    for ours, numpys, most in zip(*results, (ulp, 0, 0), strict=True):
        assert_same(ours, numpys, ulp=most)


@pytest.mark.parametrize("call", ["rand(3000)", "randn(1501)", "randint(1000, size=3000)"])
def test_draws_of_several_streams(call, monkeypatch):
    monkeypatch.setattr(twister_plan, "FEWEST_WORDS", 512)
    ours, numpys = oxinp.random.RandomState(1), np.random.RandomState(1)
    for g in (ours, numpys):
        g.bytes(50)
    assert_same(*[eval(f"g.{call}", {"g": g}) for g in (ours, numpys)])  # noqa: S307
    assert_states(ours, numpys)


def test_the_state_that_all_share():
    np.random.seed(3)  # noqa: NPY002 - what is tested
    expected = [np.random.randn(101), np.random.rand(5), np.random.ranf(3), np.random.randint(9, size=40)]  # noqa: NPY002
    state = np.random.get_state(legacy=False)  # noqa: NPY002
    oxinp.random.seed(3)
    ours = [oxinp.random.randn(101), np.random.rand(5), oxinp.random.ranf(3)]  # noqa: NPY002 - the same state
    ours.append(oxinp.random.randint(9, size=40))
    assert all(type(x) is oxinp.ndarray for x in (ours[0], ours[2], ours[3]))
    assert_same(ours[1], expected[1])
    for i in (0, 2, 3):
        assert_same(ours[i], expected[i])
    assert flat(np.random.get_state(legacy=False)) == flat(state)  # noqa: NPY002


def test_the_end_is_read_when_it_is_needed():
    g, rng = oxinp.random.RandomState(2), np.random.RandomState(2)
    x = g.rand(500)
    assert g._ending is not None
    twin = pickle.loads(pickle.dumps(g))  # noqa: S301 - our own bytes
    assert g._ending is None
    assert_same(x, rng.rand(500))
    assert_same(twin.rand(4), rng.rand(4))
    g.rand(100)
    g.seed(5)
    assert_same(g.rand(100), np.random.RandomState(5).rand(100))
    state = g.get_state()
    g.rand(100)
    g.set_state(state)
    assert_same(g.rand(3), np.random.RandomState(5).rand(103)[100:])
