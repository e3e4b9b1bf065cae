"""Our own bit generator: the same numbers from host and device, states, jumps, pickles."""

import pickle

import numpy as np
import pytest

import oxinp
from oxinp._kernels.random.philox import VARIANTS
from tests.comparator import assert_same

CALLS = (
    "random(100)",
    "random(7, dtype='f4')",
    "random((3, 5), dtype='f4')",
    "integers(0, 2**32, 9, dtype='u4')",
    "random(2)",
    "standard_normal(11)",
    "random()",
    "random(64, dtype='f4')",
)


def test_host_and_device_draw_the_same(config):
    drawn = []
    for threshold in (0, float("inf")):
        config.offload_threshold = threshold
        g = oxinp.random.Generator(oxinp.random.Philox4x32(5))
        drawn.append([eval(f"g.{call}", {"g": g}) for call in CALLS] + [g.bit_generator.state["taken"]])  # noqa: S307
    assert_same(*drawn)


def test_words_are_those_of_counters():
    bit_generator = oxinp.random.Philox4x32(key=7, counter=2**128 - 1)
    words = VARIANTS["Philox4x32"].block(2**128 - 1, 7) + VARIANTS["Philox4x32"].block(0, 7)
    assert bit_generator.random_raw(4).tolist() == [words[i] | words[i + 1] << 32 for i in range(0, 8, 2)]


def test_states_pickles_and_jumps():
    bit_generator = oxinp.random.Philox4x32(3)
    g = oxinp.random.Generator(bit_generator)
    g.random(5, dtype="f4")
    state = bit_generator.state
    twin = pickle.loads(pickle.dumps(bit_generator))  # noqa: S301 - our own bytes
    assert twin.state == state
    expected = g.random(9)
    assert_same(oxinp.random.Generator(twin).random(9), expected)
    bit_generator.state = state
    assert_same(g.random(9), expected)
    assert bit_generator.jumped().state["state"]["counter"] == bit_generator.state["state"]["counter"] + 2**64
    bit_generator.state = state
    assert bit_generator.advance(5).state["taken"] == 2
    assert type(bit_generator.spawn(1)[0]) is type(bit_generator)


def test_what_is_refused():
    for arguments in ({"seed": 1, "key": 1}, {"key": -1}, {"counter": 2**128}):
        with pytest.raises(ValueError, match=r"key|counter"):
            oxinp.random.Philox4x32(**arguments)
    bit_generator = oxinp.random.Philox4x32(1)
    with pytest.raises(ValueError, match="Philox4x32"):
        bit_generator.state = np.random.PCG64(1).state
    with pytest.raises(TypeError, match="dict"):
        bit_generator.state = 3


def test_uniform_numbers_look_uniform():
    x = np.asarray(oxinp.random.Generator(oxinp.random.Philox4x32(0)).random(1 << 18, dtype="f4"))
    counts = np.bincount((x * 256).astype(int), minlength=256)
    expected = x.size / 256
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert 150 < chi_square < 380  # 255 degrees of freedom
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.01
