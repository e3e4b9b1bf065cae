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


@pytest.mark.parametrize("kind", ["Generator", "RandomState"])
@pytest.mark.parametrize("name", ["PCG64", "MT19937"])
def test_generators_are_pickled_with_their_bit_generators(kind, name):
    ours, numpys = getattr(oxinp.random, kind), getattr(np.random, kind)
    made, expected = ours(getattr(np.random, name)(7)), numpys(getattr(np.random, name)(7))
    for generator in (made, expected):
        generator.standard_normal(3)
    again = pickle.loads(pickle.dumps(made))  # noqa: S301
    assert type(again) is ours
    assert again.standard_normal(5).tolist() == expected.standard_normal(5).tolist()
    make, (bit_generator,), state = made.__reduce__()
    by_name = make(type(bit_generator).__name__)  # as pickles of NumPy 1.23 and before have it
    assert isinstance(by_name, ours)
    assert (state is None) == (kind == "Generator")


@pytest.mark.parametrize("kind", ["Generator", "RandomState"])
def test_numpys_generators_are_instances_of_ours(kind):
    ours, numpys = getattr(oxinp.random, kind), getattr(np.random, kind)

    class Below(ours):
        pass

    made = numpys(np.random.MT19937(3))
    assert isinstance(made, ours)
    assert not isinstance(made, Below)
    assert isinstance(Below(np.random.MT19937(3)), ours)
    assert type(oxinp.random.default_rng(np.random.default_rng(3))) is oxinp.random.Generator
