"""Low-discrepancy points are SciPy's, wherever they are made."""

import copy
import pickle

import numpy as np
import pytest
from scipy.stats import qmc

import oxinp
from tests.comparator import assert_same

COUNTS = (64, 1, 2, 31, 0, 300)


@pytest.mark.usefixtures("offload_threshold")
@pytest.mark.parametrize("name", ["Sobol", "Halton", "LatinHypercube"])
@pytest.mark.parametrize("scramble", [True, False])
@pytest.mark.parametrize("d", [1, 5])
def test_points_are_scipys(name, scramble, d):
    ours, scipys = (getattr(module, name)(d, scramble=scramble, rng=3) for module in (oxinp.scipy.stats.qmc, qmc))
    for n in COUNTS if name != "LatinHypercube" else (7, 40):
        assert_same(np.array(ours.random(n)), np.array(scipys.random(n)))
    assert_same(np.array(ours.reset().random(16)), np.array(scipys.reset().random(16)))
    assert_same(np.array(ours.fast_forward(9).random(8)), np.array(scipys.fast_forward(9).random(8)))


@pytest.mark.parametrize("bits", [12, 32, 40, 64])
def test_bits_of_sobol(config, bits):
    config.offload_threshold = 0
    ours, scipys = (module.Sobol(3, bits=bits, rng=8) for module in (oxinp.scipy.stats.qmc, qmc))
    assert_same(np.array(ours.random_base2(6)), np.array(scipys.random_base2(6)))
    with pytest.warns(UserWarning, match="power of 2"):
        ours.reset().random(3)
    if bits == 12:
        with pytest.raises(ValueError, match="distinct points"):
            ours.random(1 << 12)


def test_one_launch_makes_them(config, stats):
    config.offload_threshold = 0
    for engine in (oxinp.scipy.stats.qmc.Sobol(2, rng=1), oxinp.scipy.stats.qmc.Halton(2, rng=1)):
        points = engine.random(128)
        assert type(points) is oxinp.ndarray
        before = stats().launches
        oxinp.evaluate(points)
        assert stats().launches == before + 1


def test_engines_are_scipys_kind(config):
    config.offload_threshold = 0
    engine = oxinp.scipy.stats.qmc.Sobol(2, seed=oxinp.random.default_rng(4))
    assert isinstance(engine, qmc.Sobol)
    assert_same(np.array(engine.random(8)), qmc.Sobol(2, seed=np.random.default_rng(4)).random(8))
    for twin in (copy.deepcopy(engine), pickle.loads(pickle.dumps(engine))):  # noqa: S301 - our own bytes
        assert_same(np.array(twin.random(8)), qmc.Sobol(2, seed=np.random.default_rng(4)).random(16)[8:])
    optimized = oxinp.scipy.stats.qmc.Halton(2, rng=1, optimization="random-cd").random(8)
    assert_same(np.array(optimized), qmc.Halton(2, rng=1, optimization="random-cd").random(8))
