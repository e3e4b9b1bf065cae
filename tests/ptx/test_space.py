"""Accesses of emulated memory are looked at byte by byte, however its elements are gathered."""

import numpy as np
import pytest

from oxinp._ptx.emulator.space import INITIALISED, UNALLOCATED, UNINITIALISED, Fault, Space, element_numbers

CAPACITY, NUM_LANES = 4096, 24


def outcome(space, offsets, nbytes, *, is_read):
    """What a check of scattered elements finds: their bounds, or which of them is bad and how."""
    try:
        return space.check(offsets, nbytes, element_numbers(offsets, nbytes), is_read=is_read)
    except Fault as fault:
        return fault.position, fault.offset, fault.what


@pytest.mark.parametrize("is_dense", [False, True])
@pytest.mark.parametrize("nbytes", [1, 2, 4, 8, 16])
def test_scattered_elements_with_one_bad_byte(nbytes, is_dense):
    rng = np.random.default_rng(nbytes)
    offsets = rng.permutation(NUM_LANES if is_dense else CAPACITY // nbytes)[:NUM_LANES] * nbytes
    bounds = int(offsets.min()), int(offsets.max()) + nbytes
    for lane in (0, 11, NUM_LANES - 1):
        for byte in {0, nbytes // 2, nbytes - 1}:
            space, place = Space(CAPACITY), int(offsets[lane])
            space.state[:] = INITIALISED
            assert outcome(space, offsets, nbytes, is_read=True) == bounds
            space.state[place + byte] = UNINITIALISED
            assert outcome(space, offsets, nbytes, is_read=True) == (lane, place, "uninitialised")
            assert outcome(space, offsets, nbytes, is_read=False) == bounds
            space.state[place + byte] = UNALLOCATED
            for is_read in (True, False):
                found = outcome(space, offsets, nbytes, is_read=is_read)
                assert found == (lane, place, "out of bounds of every allocation")


@pytest.mark.parametrize(("dtype", "width"), [("u1", 1), ("f2", 2), ("f4", 4), ("f8", 2), ("i8", 1)])
def test_scattered_elements_are_loaded_as_they_were_stored(dtype, width):
    rng = np.random.default_rng(width)
    space, nbytes = Space(CAPACITY), np.dtype(dtype).itemsize * width
    space.state[:] = UNINITIALISED
    offsets = rng.permutation(CAPACITY // nbytes)[:NUM_LANES] * nbytes
    numbers = element_numbers(offsets, nbytes)
    values = rng.integers(0, 100, (width, NUM_LANES)).astype(dtype)
    space.store(offsets, values, numbers)
    np.testing.assert_array_equal(space.load(offsets, values.dtype, width, numbers), values)
    written = np.zeros(CAPACITY, np.bool_)
    for offset in offsets:
        written[offset : offset + nbytes] = True
    np.testing.assert_array_equal(space.state == INITIALISED, written)
