"""Philox: NumPy's of 64 bits from any place in a block; that of 32 bits against its authors' numbers and a model."""

import numpy as np
import pytest

from oxinp._core.ops.c_library import form_of
from oxinp._kernels.random import fill, find, philox, segments, stored_plan
from oxinp._kernels.random.lcg import MASK_64
from oxinp._kernels.random.libm_log1p import OWN
from oxinp._kernels.random.variates import VARIATES, ziggurat_table
from tests.comparator import assert_same
from tests.kernels.machine import Session, execute, machine
from tests.kernels.random.streams import FILLS, ZIGGURATS


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


def variates(session, generator, name, size, counter, key, skip, planned=stored_plan.plan, **how):
    """Return the variates of a plan, of words that the kernel makes that finds them, and how it ended."""
    variant, variate = philox.VARIANTS[generator], VARIATES[name]
    out, words = np.zeros(size, variate.type.dtype), np.zeros(2, np.int64)
    form = form_of(f"log1p_f{variate.type.nbytes}")
    plan = planned(segments.Draw(generator, name, size, skip=skip, log1p=form, **how), session.device)
    values = [counter >> (64 * i) & MASK_64 for i in range(variant.num_counters)]
    values += [key >> (64 * i) & MASK_64 for i in range(variant.num_keys)]
    outputs = [session.pointer(array) for array in (out, words)]
    execute(session.machine, plan, outputs, [*values, session.pointer(ziggurat_table(name))])
    session.fetch([out, words])
    return out, words.tolist()


@pytest.mark.parametrize("name", ZIGGURATS)
@pytest.mark.parametrize("items", [4, 28])
def test_variates_of_words_that_find_makes(session, name, items):
    pieces, ulp = VARIATES[name].pieces, int(form_of(f"log1p_f{VARIATES[name].type.nbytes}") == OWN)
    for size, taken in ((1, 4), (700, 1), (2600 if items == 4 else 15_000, 3)):
        bit_generator = np.random.Philox(counter=(2**256 - 5 if size == 1 else size), key=7 << 70 | 5)
        rng = np.random.Generator(bit_generator)
        rng.random(taken)
        state = bit_generator.state
        counter, key = (
            sum(int(word) << (64 * i) for i, word in enumerate(state["state"][part])) for part in ("counter", "key")
        )
        blocks, skip = divmod(state["buffer_pos"], 4)
        start = (counter + blocks) % 2**256, key, skip * pieces
        ours, (count, status) = variates(session, "Philox", name, size, *start, items=items)
        assert_same(ours, ZIGGURATS[name](rng, size), ulp=ulp)
        assert status == 0
        after, halves = np.random.Philox(0), -(-count * 2 // pieces)
        after.state = state
        after.random_raw(-(-halves // 2))
        numpys = bit_generator.state
        assert after.state["buffer_pos"] == numpys["buffer_pos"]
        assert after.state["state"]["counter"].tolist() == numpys["state"]["counter"].tolist()
        assert numpys["has_uint32"] == halves % 2


@pytest.mark.parametrize(("name", "skip"), [("normal_f64", 1), ("normal_f32", 3), ("exponential_f64", 0)])
def test_words_of_32_bits_that_find_makes(session, name, skip):
    draws = "Philox4x32", name, 3000, 2**64 - 9, 0x0123456789ABCDEF, skip
    made, stored = (
        variates(session, *draws, planned, items=4) for planned in (stored_plan.plan, stored_plan.filled_plan)
    )
    assert_same(made, stored)


def test_candidates_that_overlap_tiles_of_words_that_find_makes(session, monkeypatch):
    """Wedges are decided by the C library's function each, and tiles are as short as they can be."""
    monkeypatch.setattr(find, "MOST_UNROLLED", 4)
    monkeypatch.setattr(find, "make", find.make.__wrapped__)
    rng = np.random.Generator(np.random.Philox(counter=-1 % 2**256, key=3))
    ours, (_, status) = variates(session, "Philox", "exponential_f64", 9000, 0, 3, 0, items=4)
    assert status == 0
    assert_same(ours, rng.standard_exponential(9000), ulp=int(form_of("log1p_f8") == OWN))
