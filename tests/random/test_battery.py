"""The battery passes our own stream and streams that are known to be good, and notices bad ones."""

import numpy as np
import pytest

from tests.random import battery

SIZE = 1 << 18


def test_our_own_stream_passes():
    found = battery.p_values(battery.drawn(1, 2 * SIZE, SIZE))
    assert all(battery.LEAST < p < 1 - battery.LEAST for p in found.values()), found


def test_a_good_stream_passes():
    words = np.random.default_rng(5).integers(0, 1 << 32, SIZE, np.uint32)
    found = battery.p_values([words])
    assert all(battery.LEAST < p < 1 - battery.LEAST for p in found.values()), found


def _good():
    return np.random.default_rng(1).integers(0, 1 << 32, SIZE, np.uint32)


BAD = {  # what is wrong with a stream, and the tests that have to notice
    "bytes": lambda: (
        _good() & ~np.uint32(np.uint32(1) << np.uint32(8)) | (np.arange(SIZE, dtype=np.uint32) % 3 == 0) << 8
    ),
    "bits": lambda: _good() | (np.arange(SIZE, dtype=np.uint32) % 16 == 0),
    "uniformity": lambda: (_good() * 0.99).astype(np.uint32),
    "serial, high": lambda: np.repeat(_good()[::2], 2),
    "serial, low": lambda: np.arange(SIZE, dtype=np.uint32) * np.uint32(69069),
    "gaps, high": lambda: np.arange(SIZE, dtype=np.uint32) * np.uint32(0x9E3779B1),
    "gaps, low": lambda: np.arange(SIZE, dtype=np.uint32) * np.uint32(0x9E3779B1),
    "runs": lambda: np.arange(SIZE, dtype=np.uint32) * np.uint32(0x9E3779B1),
    "ranks": lambda: np.where(np.arange(SIZE) % 32 == 31, np.roll(_good(), 1), _good()),
    "weights": lambda: np.repeat(_good()[::2], 2),
    "spectrum": lambda: _good() // 2 + (np.arange(SIZE, dtype=np.uint32) % 8 << np.uint32(28)),
    "birthdays": lambda: np.arange(SIZE, dtype=np.uint32) * np.uint32(0x9E3779B1),
}


@pytest.mark.parametrize("name", battery.TESTS)
def test_bad_streams_are_noticed(name):
    p = battery.TESTS[name](BAD[name]().astype(np.uint32))
    assert not battery.LEAST < p < 1 - battery.LEAST
