"""Draws of a fixed number of words are NumPy's, bit for bit."""

import pytest

from tests.comparator import assert_same
from tests.kernels.machine import Session, machine
from tests.kernels.random.streams import FILLS, Stream


@pytest.fixture
def session():
    session = Session(machine())
    yield session
    session.close()


@pytest.mark.parametrize("generator", ["PCG64", "PCG64DXSM"])
@pytest.mark.parametrize("name", FILLS)
@pytest.mark.parametrize("has_half", [False, True])
def test_numbers_are_numpys(session, generator, name, has_half):
    for size in (1, 2, 3, 4, 5, 63, 1000, 20_001):
        for offset in (0, 1, 2):
            stream = Stream(session, generator, size, has_half=has_half)
            assert_same(stream.fill(name, size, offset), FILLS[name](stream.rng, size))


def test_states_at_the_ends_of_their_range(session):
    for state, increment in ((0, 1), (2**128 - 1, 2**128 - 1), (2**64 - 1, 2**64 + 1), (1 << 127, 1)):
        stream = Stream(session, "PCG64", 0)
        stream.before["state"] = {"state": state, "inc": increment}
        stream.rng.bit_generator.state = stream.before
        assert_same(stream.fill("uniform_f64", 700), stream.rng.random(700))


def test_nothing_to_draw(session):
    assert Stream(session, "PCG64", 0).fill("uniform_f64", 0).size == 0
