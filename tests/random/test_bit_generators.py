"""Bit generators and seed sequences: NumPy's own, from arrays of ours as well."""

import abc
import pickle

import numpy as np
import pytest

import oxinp
from oxinp.random.bit_generators import NAMES


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("length", [1, 4, 700])
def test_seeds_are_arrays_of_ours(name, length):
    ours, numpys = getattr(oxinp.random, name), getattr(np.random, name)
    made, expected = ours(oxinp.arange(length, dtype="u4")), numpys(np.arange(length, dtype="u4"))
    assert type(made) is numpys
    assert isinstance(made, ours)
    if name == "SeedSequence":
        assert np.array_equal(made.generate_state(8), expected.generate_state(8))
    else:
        assert np.array_equal(made.random_raw(8), expected.random_raw(8))
    assert pickle.loads(pickle.dumps(ours)) is ours  # noqa: S301 - our own


def test_keys_counters_and_elements_are_ours_as_well():
    key, counter = oxinp.arange(2, dtype="u8"), oxinp.arange(4, dtype="u8")
    expected = np.random.Philox(key=np.arange(2, dtype="u8"), counter=np.arange(4, dtype="u8"))
    assert oxinp.random.Philox(key=key, counter=counter).random_raw() == expected.random_raw()
    assert oxinp.random.PCG64(counter[3]).random_raw() == np.random.PCG64(3).random_raw()


def test_classes_below_are_classes_of_their_own():
    class Below(oxinp.random.PCG64, abc.ABC):
        pass

    below = Below(oxinp.arange(3))
    assert type(below) is Below
    assert isinstance(below, np.random.PCG64)
    assert not isinstance(np.random.PCG64(1), Below)
    assert issubclass(Below, oxinp.random.PCG64)
    assert issubclass(np.random.PCG64, oxinp.random.PCG64)
    expected = np.random.Generator(np.random.PCG64(np.arange(3))).random()
    assert oxinp.random.Generator(below).random() == expected
