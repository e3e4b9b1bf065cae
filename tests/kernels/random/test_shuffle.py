"""Permutations made on the device are NumPy's, and end where NumPy's end."""

import numpy as np
import pytest

from oxinp._kernels.plan import Launch
from oxinp._kernels.random import interval, shuffle
from tests.kernels.machine import Session, execute, machine


@pytest.fixture
def session():
    session = Session(machine())
    yield session
    session.close()


def permutation(session, words, size, *, is_shifted=False, **how):
    """Return what a plan gives for some words, and the words that say how it ended."""
    plan = shuffle.plan(size, len(words), session.device, is_shifted=is_shifted, **how)
    out, result = np.zeros(size, np.int64), np.zeros(2, np.int64)
    outputs = [session.pointer(array) for array in (out, result)]
    execute(session.machine, plan, outputs, [session.pointer(words)])
    session.fetch([out, result])
    return out, result.tolist()


CASES = [
    # size, bits of the numbers that one block draws, of those whose lists are made at a time
    (2, 15, 22),
    (3, 15, 1),
    (700, 15, 7),
    (3000, 11, 22),
    (20_011, 12, 13),
]


@pytest.mark.parametrize(("size", "tail_bits", "range_bits"), CASES)
def test_permutations_are_numpys(session, size, tail_bits, range_bits):
    rng, numpys, after = (np.random.default_rng(size) for _ in range(3))
    words = rng.integers(0, 2**32, shuffle.num_words(size), dtype=np.uint32)
    ours, (taken, status) = permutation(session, words, size, tail_bits=tail_bits, range_bits=range_bits)
    assert status == 0
    np.testing.assert_array_equal(ours, numpys.permutation(size))
    after.integers(0, 2**32, taken, dtype=np.uint32)
    assert after.bit_generator.state == numpys.bit_generator.state


@pytest.mark.parametrize("range_bits", [22, 4])
def test_too_few_words_are_told(session, range_bits):
    _, (_, status) = permutation(session, np.full(200, 0xFFFFFFFE, np.uint32), 100, range_bits=range_bits)
    assert status == shuffle.RAN_OUT


def test_a_range_that_too_many_steps_draw_is_told(session):
    words = np.zeros(shuffle.num_words(9000), np.uint32)
    _, (_, status) = permutation(session, words, 9000, tail_bits=15, range_bits=10)
    assert status == shuffle.RANGE_IS_FULL


def test_words_that_are_accepted_too_often_are_told(session):
    _, (_, status) = permutation(session, np.zeros(shuffle.num_words(9000), np.uint32), 9000, tail_bits=13)
    assert status == interval.LEFT_RANGE


def test_segments_that_are_joined(session, monkeypatch):
    # Many short segments, so that paths below i differ from it in most
    monkeypatch.setattr(shuffle, "SEGMENTS_PER_SM", 8)
    monkeypatch.setattr(shuffle, "WINDOWS_PER_STEP", 64)
    rng, numpys = (np.random.default_rng(5) for _ in range(2))
    words = rng.integers(0, 2**32, shuffle.num_words(13_000), dtype=np.uint32)
    ours, (_, status) = permutation(session, words, 13_000, tail_bits=10, is_shifted=True)
    assert status == 0
    np.testing.assert_array_equal(ours, numpys.permutation(13_000))


def test_steps_that_are_listed_already_are_left(session):
    num_steps = 500
    rng = np.random.default_rng(3)
    numbers = np.array([rng.integers(0, step + 1) for step in range(1, num_steps + 1)], np.uint32)
    first, following = (np.full(num_steps + 1, 0xFFFFFFFF, np.uint32) for _ in range(2))
    result, end, status = np.zeros(2, np.int64), np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    arrays = [session.pointer(array) for array in (first, following, result, numbers, end, status)]
    launch = Launch(shuffle.make(shuffle.ShuffleSpec("links")), (1, 1, 1), (), (0, num_steps, 0))
    for _ in range(2):
        session.machine.launch(launch, arrays)
        session.fetch([first, following])
        for number in range(num_steps + 1):
            found, step = [], first[number]
            while step != 0xFFFFFFFF:
                found.append(step)
                step = following[step]
            assert found == [step for step in range(1, num_steps + 1) if numbers[step - 1] == number]


def test_lists_of_slots_in_any_order(session):
    """Pairs that come in an order of their own, so that steps are put in before others and after them."""
    num_steps, offset = 500, 40
    rng = np.random.default_rng(4)
    numbers = np.array([rng.integers(0, min(step, 60) + 1) for step in range(1, num_steps + 1)], np.uint32)
    steps = rng.permutation(np.arange(1, num_steps + 1, dtype=np.uint32))
    pairs = np.stack([numbers[steps - 1], steps], 1).reshape(-1)
    slots = np.zeros(num_steps + 1, np.uint32)
    slots[steps] = np.arange(offset, offset + num_steps)
    first = np.full(num_steps + 1, 0xFFFFFFFF, np.uint32)
    following = np.full(offset + num_steps, 0xFFFFFFFF, np.uint32)
    result, end, status = np.zeros(2, np.int64), np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    count = np.array([num_steps], np.uint32)
    arrays = [session.pointer(x) for x in (first, following, slots, result, pairs, end, status, count)]
    kernel = shuffle.make(shuffle.ShuffleSpec("links", has_slots=True))
    session.machine.launch(Launch(kernel, (1, 1, 1), (), (0, num_steps, offset)), arrays)
    session.fetch([first, following])
    for number in range(num_steps + 1):
        found, step = [], first[number]
        while step != 0xFFFFFFFF:
            found.append(step)
            step = following[slots[step]]
        assert found == [step for step in range(1, num_steps + 1) if numbers[step - 1] == number]
