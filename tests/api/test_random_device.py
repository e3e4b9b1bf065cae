"""Random numbers that the device draws: NumPy's, whatever was drawn before on either side."""

import pickle

import numpy as np
import pytest

import oxinp
from oxinp._core.ops.c_library import OWN, form_of
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("on_device")
# What goes through the C library is its own, bit for bit, where that has functions that are known.
OF_LIBM = 8 * (form_of("log1p_f8") == OWN)
CALLS = [
    # call, by how many units in the last place it may differ
    ("random(500)", 0),
    ("random((7, 3), dtype='f4')", 0),
    ("random(dtype='f4')", 0),
    ("random(dtype=np.float32, size=4)", 0),
    ("standard_normal(300)", OF_LIBM),
    ("standard_normal((2, 41), dtype='f4')", OF_LIBM),
    ("standard_exponential(100)", OF_LIBM),
    ("standard_exponential(100, method='inv')", OF_LIBM),
    ("standard_exponential(101, dtype='f4')", OF_LIBM),
    ("uniform(-2, 5.5, size=64)", 0),
    ("normal(3, 0.5, (4, 4))", OF_LIBM),
    ("exponential(0.25, 33)", OF_LIBM),
    ("lognormal(0.5, 0.75, 40)", OF_LIBM),
    ("rayleigh(2.0, 40)", OF_LIBM),
    ("standard_exponential((3, 70), np.float32, 'inv')", OF_LIBM),
    ("standard_cauchy((3, 20))", OF_LIBM),
    ("standard_cauchy()", 0),
    ("gumbel(size=500)", OF_LIBM),
    ("logistic(size=100)", OF_LIBM),
    ("power(0.1, 300)", OF_LIBM),
    ("pareto(0.1, 300)", OF_LIBM),
    ("pareto(3.0, 40)", OF_LIBM),
    ("weibull(1.5, 40)", OF_LIBM),
    ("weibull(0.0, 4)", 0),
    ("power(2.5, 40)", OF_LIBM),
    ("logistic(40.0, 2.0, 40)", OF_LIBM),
    ("laplace(40.0, 2.0, 40)", OF_LIBM),
    ("gumbel(40.0, 2.0, 40)", OF_LIBM),
    ("triangular(-1, 0.5, 2, 40)", OF_LIBM),
    ("integers(0, 1000, 300)", 0),
    ("integers(-5, 2**40, 300)", 0),
    ("integers(0, 2**32, 31)", 0),
    ("integers(-2**63, 2**63 - 1, 30, endpoint=True)", 0),
    ("integers(7, size=31, dtype='i4')", 0),
    ("integers(0, 2**32, 31, dtype='u4')", 0),
    ("integers(-2**31, 2**31, 31, dtype='i4')", 0),
    ("integers(-100, 100, 31, dtype='i2')", 0),
    ("integers(0, 256, 31, dtype='u1')", 0),
    ("integers(-3, 3, 5, dtype='i1')", 0),
    ("integers(0, 2, 5, dtype=bool)", 0),
    ("integers(3, 4, 5)", 0),
    ("normal(np.arange(40.0), 0.5)", OF_LIBM),
    ("normal(np.ones((3, 1)), np.arange(1, 5), size=(2, 3, 4))", OF_LIBM),
    ("uniform(np.arange(7), np.float32(9), (3, 7))", 0),
    ("exponential(np.linspace(0, 1, 33))", OF_LIBM),
    ("weibull(np.arange(4.0))", OF_LIBM),
    ("pareto(np.arange(1, 5), size=(3, 4))", OF_LIBM),
    ("triangular(-1, np.zeros(3), np.arange(1, 4), (5, 3))", OF_LIBM),
    ("lognormal(np.zeros(()), 1, 3)", OF_LIBM),
    ("normal([0.0, 1.0], 1.0)", OF_LIBM),
    ("normal(0, np.array([1.0, np.nan]))", OF_LIBM),
    ("gamma(2.0, size=3)", 0),
    ("bytes(5)", 0),
    ("bytes(0)", 0),
    ("bytes(703)", 0),
    ("bytes(-1)", 0),
    ("permutation(5)", 0),
    ("random((3, 0))", 0),
    ("standard_normal(0)", 0),
    ("integers(0, 9, 0)", 0),
    ("integers(np.arange(300), 1000)", 0),
    ("integers(np.arange(40, dtype='u1'), np.arange(50, 90), (5, 40), endpoint=True)", 0),
    ("integers(-5, np.full((3, 40), 7), dtype='i4')", 0),
    ("integers(np.full((30, 1), 2**32 - 9, 'u4'), 2**32 - 1, (30, 9), dtype='u4')", 0),
    ("integers(np.full(90, -2**63), np.arange(90) + (2 - 2**63))", 0),
    ("integers(np.zeros(90), 80)", 0),
    ("integers(0, np.array([2**28 + 1] * 70 + [2**27 + 5] * 70))", 0),
    ("integers(0, np.array([2**31 + 1] * 300))", 0),
    ("integers(0, np.array([2**32, 5] * 30), dtype='u8')", 0),
    ("integers(np.arange(40), 40)", 0),
    ("integers(np.zeros(40, int), np.full(40, 2**40))", 0),
    ("integers(0, np.arange(1, 40), dtype='u2')", 0),
    ("choice(1000, 64)", 0),
    ("choice(np.arange(7.0), (3, 5))", 0),
    ("choice(np.arange(24).reshape(4, 6), 9, axis=1)", 0),
    ("choice(3, 33, p=[0.5, 0.25, 0.25])", 0),
    ("choice(np.arange(5, dtype='f4'), 33, p=np.array([0.1, 0.2, 0.3, 0.0, 0.4]))", 0),
    ("choice(9, 4, replace=False)", 0),
    ("choice(1, 4)", 0),
    ("permutation(np.arange(9.0).reshape(3, 3), axis=1)", 0),
    ("permuted(np.arange(9.0).reshape(3, 3), axis=1)", 0),
]


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937"])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_any_sequence_of_calls(kind, seed):
    order = np.random.default_rng(seed).permutation(len(CALLS))
    ours, numpys = (xp.random.Generator(getattr(np.random, kind)(seed)) for xp in (oxinp, np))
    for i in order[: len(CALLS) // 2]:
        call, ulp = CALLS[i]
        results = [eval(f"g.{call}", {"g": g, "np": np}) for g in (ours, numpys)]  # noqa: S307 - our own code
        assert_same(*results, ulp=ulp)
        state, expected = ours.bit_generator.state, numpys.bit_generator.state
        if expected.get("has_uint32") == 0:  # then this is whatever was left before
            state["uinteger"] = expected["uinteger"]
        assert _flat(state) == _flat(expected), call


def _flat(state):
    """What a state dictionary holds, as numbers that compare."""
    return [x.tolist() if isinstance(x, np.ndarray) else _flat(x) if isinstance(x, dict) else x for x in state.values()]


@pytest.mark.parametrize(("call", "ulp"), CALLS)
def test_every_call(call, ulp):
    results = []
    for xp in (oxinp, np):
        g = xp.random.default_rng(11)
        g.random(dtype="f4")
        names = {"g": g, "np": np}
        results.append([eval(f"g.{call}", names), g.random(3, dtype="f4"), g.random(3)])  # noqa: S307
    for ours, numpys in zip(*results, strict=True):
        assert_same(ours, numpys, ulp=ulp)


def test_a_draw_is_one_launch_and_waits_for_nothing(stats):
    g = oxinp.random.default_rng(1)
    x = g.random(1000)
    assert g.bit_generator.state == _numpys_after(lambda rng: rng.random(1000))
    assert stats().launches == 0
    oxinp.evaluate(x)
    assert (stats().launches, stats().d2h_bytes) == (1, 0)
    assert_same(x, np.random.default_rng(1).random(1000))


def _numpys_after(draw):
    rng = np.random.default_rng(1)
    draw(rng)
    return rng.bit_generator.state


def test_the_end_of_a_ziggurat_is_read_when_it_is_needed():
    g = oxinp.random.default_rng(1)
    x = g.standard_normal(1000)
    assert g._ending is not None
    y = g.standard_normal(10)
    rng = np.random.default_rng(1)
    assert_same([x, y], [rng.standard_normal(1000), rng.standard_normal(10)], ulp=OF_LIBM)
    bit_generator = g.bit_generator
    assert g._ending is None
    g.standard_normal(10), rng.standard_normal(10)
    assert bit_generator.state == rng.bit_generator.state


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "Philox"])
def test_integers_between_arrays_are_drawn_on_the_device(kind, stats):
    """Of ranges of which one word in 16 is rejected, and of small ones."""
    highs = np.array([2**28 + 1] * 100 + [1000] * 200)
    g, rng = (xp.random.Generator(getattr(np.random, kind)(8)) for xp in (oxinp, np))
    for x in (g, rng):
        x.random(dtype="f4")
    drawn = [g.integers(0, oxinp.array(highs)), g.integers(highs, 2**28 + 5, dtype="u4"), g.random(3)]
    assert_same(drawn, [rng.integers(0, highs), rng.integers(highs, 2**28 + 5, dtype="u4"), rng.random(3)])
    assert "random.Generator.integers" not in stats().fallbacks


def test_drawing_into_arrays():
    for dtype in ("f4", "f8"):
        for method in ("random", "standard_normal", "standard_exponential"):
            out, expected = oxinp.zeros((5, 30), dtype), np.zeros((5, 30), dtype)
            g, rng = oxinp.random.default_rng(2), np.random.default_rng(2)
            assert getattr(g, method)(out=out, dtype=dtype) is out
            getattr(rng, method)(out=expected, dtype=dtype)
            assert_same(out, expected, ulp=OF_LIBM)
            part = oxinp.zeros((4, 30), dtype)
            getattr(g, method)(out=part[1:3], dtype=dtype)
            assert_same(part[1:3], getattr(rng, method)((2, 30), dtype=dtype), ulp=OF_LIBM)
            assert not part[0].any()


def test_pickles_and_states():
    g, rng = oxinp.random.default_rng(4), np.random.default_rng(4)
    g.standard_normal(200), rng.standard_normal(200)
    twin = pickle.loads(pickle.dumps(g))  # noqa: S301 - our own bytes
    assert twin.bit_generator.state == rng.bit_generator.state
    assert_same(twin.random(100), rng.random(100))
    g.bit_generator.state = np.random.default_rng(9).bit_generator.state
    assert_same(g.random(100), np.random.default_rng(9).random(100))


def test_what_follows_a_draw_is_computed_from_it():
    g, rng = oxinp.random.default_rng(5), np.random.default_rng(5)
    assert int((g.random(3000) < 0.25).sum()) == int((rng.random(3000) < 0.25).sum())


CHAINS = [
    # a chain of a draw `u`, by how many units in the last place it may differ
    ("u < 0.25", 0),
    ("u * 3 - 1", 0),
    ("-np.log(1.0 - u)", 4),
    ("(u * 10).astype('i4')", 0),
    ("np.where(u < 0.5, u, -u)", 0),
    ("(u > 0.25) & (u < 0.75)", 0),
    ("u.astype('f4')", 0),
    ("(u + 1j)", 0),
]


@pytest.mark.parametrize(("chain", "ulp"), CHAINS)
@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "Philox"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_chain_of_a_draw_is_one_launch(chain, ulp, kind, dtype, stats):
    results = []
    for xp in (oxinp, np):
        g = xp.random.Generator(getattr(np.random, kind)(6))
        g.random(dtype="f4")
        for shape in ((37, 11), 300):
            before = stats().launches
            result = eval(chain, {"u": g.random(shape, dtype=dtype), "np": xp})  # noqa: S307 - our own code
            if xp is oxinp:
                oxinp.evaluate(result)
                assert stats().launches == before + 1
            results.append(result)
        results.append(g.random(3))
    for ours, numpys in zip(results[:3], results[3:], strict=True):
        assert_same(ours, numpys, ulp=ulp)


def test_a_draw_that_is_kept_is_not_drawn_twice():
    g, rng = oxinp.random.default_rng(5), np.random.default_rng(5)
    u, v = g.random(300), rng.random(300)
    part = u < 0.5
    assert_same([part, u, u[::2] + 1, g.random(4)], [v < 0.5, v, v[::2] + 1, rng.random(4)])
    w, z = g.random((20, 5)), rng.random((20, 5))
    row, numpys = oxinp.arange(5.0), np.arange(5.0)
    assert_same([w * row, w.T + 1], [z * numpys, z.T + 1])
