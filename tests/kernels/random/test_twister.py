"""The Mersenne twister on the host: words, states and polynomials, against NumPy's."""

import numpy as np
import pytest

from oxinp._kernels.random import twister


@pytest.fixture(scope="module")
def key():
    generator = np.random.MT19937(3)
    generator.random_raw(1000)
    return generator.state["state"]["key"]


def test_words_follow_each_other(key):
    generator = np.random.MT19937(0)
    generator.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": 624}}
    generator.random_raw(1)
    assert twister.following(key, 1248)[624:].tolist() == generator.state["state"]["key"].tolist()


def test_words_before(key):
    words = twister.following(key, 4000)
    before = twister.preceding(words[2000:2624], 1100)
    assert before.tolist() == words[900:2000].tolist()


@pytest.mark.parametrize("position", [1, 300, 623, 624])
@pytest.mark.parametrize("taken", [1, 324, 1248, 1871])
def test_states_are_numpys(key, position, taken):
    window = twister.window_at(key, position)
    words = twister.following(window, 4000)
    generator = np.random.MT19937(0)
    generator.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": position}}
    generator.random_raw(taken)
    expected = generator.state["state"]
    start = (taken - 1) // 624 * 624
    found, at = twister.key_at(words[start : start + 624], start, position, taken)
    assert (found.tolist(), at) == (expected["key"].tolist(), expected["pos"])


def test_polynomials_lead_ahead(key):
    words = twister.following(key, 70_000)
    assert len(twister.characteristic()) == 134
    for odd, exponent, times in ((1, 14, 1), (3, 12, 3), (1, 13, 5)):
        polynomial = twister.multiple(odd, exponent, times)
        ahead = np.zeros(624, np.uint32)
        for i in range(twister.DEGREE):
            if polynomial >> i & 1:
                ahead ^= words[1 + i : 625 + i]
        assert ahead.tolist() == words[1 + (odd * times << exponent) :][:624].tolist()
