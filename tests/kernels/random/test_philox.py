"""Philox: NumPy's of 64 bits from any place in a block; that of 32 bits against its authors' numbers and a model."""

import numpy as np
import pytest

from oxinp._kernels.random import fill, philox
from oxinp._kernels.random.lcg import MASK_64
from tests.comparator import assert_same
from tests.kernels.machine import Session, machine
from tests.kernels.random.streams import FILLS


@pytest.fixture
def session():
    session = Session(machine())
    yield session
    session.close()


def draw(session, generator, name, size, counter, key, skip, given=None, offset=0):
    variant, made = philox.VARIANTS[generator], fill.FORMATS[name]
    base = np.zeros(size + offset + 9, made.type.dtype)
    out = base[offset : offset + size]
    pointer = session.pointer(out)
    is_shifted = given is not None
    device = session.device
    plan = philox.plan(generator, name, size, pointer & -pointer, device, skip=skip, is_shifted=is_shifted)
    values = [counter >> (64 * i) & MASK_64 for i in range(variant.num_counters)]
    values += [key >> (64 * i) & MASK_64 for i in range(variant.num_keys)]
    session.run(plan, [out], [*values, given] if is_shifted else values)
    assert not base[:offset].any()
    assert not base[offset + size :].any()
    return out


@pytest.mark.parametrize("name", FILLS)
@pytest.mark.parametrize("has_half", [False, True])
def test_numbers_are_numpys(session, name, has_half):
    halves = fill.FORMATS[name].halves
    for size in (1, 3, 8, 9, 4000):
        for taken in (0, 1, 2, 3, 4, 5):
            bit_generator = np.random.Philox(counter=(2**256 - 5 if size == 9 else size), key=7 << 70 | 5)
            rng = np.random.Generator(bit_generator)
            rng.random(taken)
            if has_half:
                rng.random(dtype="f4")
            state = bit_generator.state
            counter, key = (
                sum(int(word) << (64 * i) for i, word in enumerate(state["state"][part])) for part in ("counter", "key")
            )
            is_shifted = has_half and halves == 1
            skip = state["buffer_pos"] * 2 // halves - is_shifted
            per_block = 8 // halves
            counter, skip = (counter + skip // per_block) % 2**256, skip % per_block
            given = state["uinteger"] if is_shifted else None
            ours = draw(session, "Philox", name, size, counter, key, skip, given, taken % 3)
            assert_same(ours, FILLS[name](rng, size))


# From the authors' own tests: counter, key, words.
KNOWN = [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_known_answers(session, counter, key, words):
    counter, key = (sum(word << (32 * i) for i, word in enumerate(each)) for each in (counter, key))
    assert philox.VARIANTS["Philox4x32"].block(counter, key) == words
    assert draw(session, "Philox4x32", "halves", 4, counter, key, 0).tolist() == words


@pytest.mark.parametrize("skip", [0, 1, 2, 3])
def test_words_of_32_bits(session, skip):
    counter, key, size = 2**64 - 3, 0x0123456789ABCDEF, 1000
    variant = philox.VARIANTS["Philox4x32"]
    words = [word for i in range(size // 4 + 2) for word in variant.block(counter + i, key)]
    assert variant.blocks(counter, key, size // 4 + 2).tolist() == words
    halves = np.array(words, np.uint32)[skip : skip + size]
    assert_same(draw(session, "Philox4x32", "halves", size, counter, key, skip), halves)
    uniform = ((halves >> 8) * np.float32(2.0**-24)).astype(np.float32)
    assert_same(draw(session, "Philox4x32", "uniform_f32", size, counter, key, skip, offset=skip), uniform)
    if skip < 2:
        pairs = np.array(words, np.uint32).view(np.uint64)[skip : skip + size // 2]
        assert_same(draw(session, "Philox4x32", "uniform_f64", size // 2, counter, key, skip), (pairs >> 11) * 2.0**-53)
