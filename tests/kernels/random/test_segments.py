"""Draws that take as many words as it needs are NumPy's, bit for bit, and end where NumPy's end."""

import numpy as np
import pytest

from oxinp._core.ops.c_library import form_of
from oxinp._kernels.random import find, segments, variates
from oxinp._kernels.random.libm_log1p import OWN
from oxinp._kernels.random.variates import VARIATES, Begun, Variate
from oxinp._ptx.types import u32, u64
from tests.comparator import assert_same
from tests.kernels.machine import Session, machine
from tests.kernels.random.streams import ZIGGURATS, Stream

# Where the C library has a log1p that is unknown, tails are within an ulp.
ULPS = {name: int(form_of(f"log1p_f{VARIATES[name].type.nbytes}") == OWN) for name in ZIGGURATS}


@pytest.fixture
def session():
    session = Session(machine())
    yield session
    session.close()


def assert_end(stream, name, taken):
    ours, numpys = stream.state_after(name, taken), stream.rng.bit_generator.state
    if not numpys["has_uint32"]:
        ours["uinteger"] = numpys["uinteger"]
    assert ours == numpys


@pytest.mark.parametrize("name", ZIGGURATS)
@pytest.mark.parametrize("has_half", [False, True])
@pytest.mark.parametrize("items", [1, 8])
def test_ziggurats_are_numpys(session, name, has_half, items):
    for size in (1, 100, 900 * items):
        stream = Stream(session, "PCG64", size + items, has_half=has_half)
        ours, (taken, status) = stream.segments(name, size, items=items)
        assert_same(ours, ZIGGURATS[name](stream.rng, size), ulp=ULPS[name])
        assert status == 0
        assert_end(stream, name, taken)


@pytest.mark.parametrize("name", ["normal_f64", "exponential_f32"])
def test_the_tiles_that_are_shipped(session, name):
    stream = Stream(session, "PCG64", 12)
    ours, (taken, status) = stream.segments(name, 20_000, items=segments.ITEMS)
    assert_same(ours, ZIGGURATS[name](stream.rng, 20_000), ulp=ULPS[name])
    assert status == 0
    assert_end(stream, name, taken)


@pytest.mark.parametrize("seed", range(3))
def test_another_generator(session, seed):
    stream = Stream(session, "PCG64DXSM", seed)
    ours, (taken, status) = stream.segments("normal_f64", 3000, items=2)
    assert_same(ours, stream.rng.standard_normal(3000), ulp=ULPS["normal_f64"])
    assert status == 0
    assert_end(stream, "normal_f64", taken)


INTEGERS = [
    # variate, dtype, high
    ("lemire_u32", "u4", 3 * 2**30),
    ("lemire_u32", "u4", 6),
    ("lemire_u64", "u8", 3 * 2**62),
    ("lemire_u32_as_u64", "u8", 5 * 2**29 + 1),
    ("lemire_u16", "u2", 40_000),
    ("lemire_u8", "u1", 200),
    ("lemire_u8", "u1", 2),
]


@pytest.mark.parametrize(("name", "dtype", "high"), INTEGERS)
@pytest.mark.parametrize("has_half", [False, True])
def test_integers_are_numpys(session, name, dtype, high, has_half):
    bits = 32 if name.endswith("as_u64") else np.dtype(dtype).itemsize * 8
    threshold = 2**bits % high
    for size in (1, 3, 2000):
        stream = Stream(session, "PCG64", size, has_half=has_half)
        expected = 2**bits / (2**bits - threshold)
        ours, (taken, status) = stream.segments(name, size, (high, threshold, 0), expected=expected, items=2)
        assert_same(ours, stream.rng.integers(0, high, size, dtype))
        assert status == 0
        assert_end(stream, name, taken)


# A variate whose segments overlap all the time: of a word the two lowest bits say that it is slow, the third
# whether it gives something; it goes on while the fourth bit of the words that follow is set, for three at most.


def _begin(_k, piece, _parameters):
    low, high = piece
    return Begun((low & 3) != 0, high, (low & 3) == 0)


def _slow(k, piece, reader, _parameters, outcome):
    low, high = piece
    outcome.value.set(high)
    outcome.is_own.set(1)
    outcome.is_accepted.set((low >> 2) & 1)
    for length in (2, 3, 4):
        goes_on = (reader.next()[0] & 8) != 0
        reached = outcome.length == length - 1
        outcome.length.set(k.where(reached & goes_on, k.const(length, u32), outcome.length))


VARIATE = Variate(
    "overlapping",
    u32,
    1,
    1.6,
    _begin,
    _slow,
    is_candidate=lambda _k, piece, _tops: (piece[0] & 3) == 0,
    value=lambda _k, piece, _widths: piece[1],
)


def _model(words, size):
    """The same, one word after the other."""
    values, at = [], 0
    while len(values) < size:
        low, high = int(words[at]) & 0xFFFFFFFF, int(words[at]) >> 32
        length = 1
        if low & 3 == 0:
            while length < 4 and int(words[at + length]) & 8:
                length += 1
        if low & 3 or low & 4:
            values.append(high)
        at += length
    return np.array(values, np.uint32), at


@pytest.mark.parametrize("seed", range(3))
def test_overlapping_segments(session, seed, monkeypatch):
    monkeypatch.setitem(variates.VARIATES, "overlapping", VARIATE)
    for size, items in ((1, 1), (300, 1), (1500, 1 + seed % 2)):
        stream = Stream(session, "PCG64", [seed, size])
        ours, (taken, status) = stream.segments("overlapping", size, items=items, capacity=1024)
        numpys, at = _model(stream.rng.bit_generator.random_raw(3 * size + 64), size)
        assert_same(ours, numpys)
        assert (taken, status) == (at, 0)


def test_a_list_that_is_too_long_is_reported(session):
    _, (_, status) = Stream(session, "PCG64", 0).segments("exponential_f64", 3000, capacity=16)
    assert status == 1


def test_tiles_suffice_as_good_as_always():
    for size in (1, 1000, 10**6, 10**9):
        tiles = segments.num_tiles(size, 1.0222, 2048)
        # The mean and the deviation of what a normal takes, from areas and from NumPy
        assert tiles * 2048 >= size * 1.02206 + 10 * 0.21 * size**0.5 + 8


def test_words_of_64_bits(session):
    stream = Stream(session, "PCG64", 1)
    ours, _ = stream.segments("lemire_u64", 100, (2**63, 0, 5), expected=1.0, items=1)
    assert ours.dtype == u64.dtype
    assert_same(ours, stream.rng.integers(5, 5 + 2**63, 100, "u8"))


@pytest.mark.parametrize("name", ZIGGURATS)
def test_wedges_whose_estimate_is_never_trusted(session, name, monkeypatch):
    monkeypatch.setattr(variates, "MARGIN", 2.0**40)
    monkeypatch.setattr(find, "make", find.make.__wrapped__)
    stream = Stream(session, "PCG64", 5)
    ours, (taken, status) = stream.segments(name, 4000, items=4)
    assert_same(ours, ZIGGURATS[name](stream.rng, 4000), ulp=ULPS[name])
    assert status == 0
    assert_end(stream, name, taken)
