"""Draws from MT19937 on the device are NumPy's, legacy ones too, and end where NumPy's end."""

import itertools

import numpy as np
import pytest

from oxinp._kernels.plan import Launch
from oxinp._kernels.random import twister, twister_jump, twister_plan, twister_polar
from oxinp._kernels.random.twister_formats import FORMATS, RESULT_WORDS
from tests.comparator import assert_same
from tests.kernels.machine import Session, execute, machine


@pytest.fixture
def session():
    session = Session(machine())
    yield session
    session.close()


@pytest.fixture
def short_streams(monkeypatch):
    """Streams so short that jumps are by single terms, and that a draw has many."""
    monkeypatch.setattr(twister_plan, "FEWEST_WORDS", 512)


def draw(session, generator, name, size, parameters=(), given=None, chance=1.0, odds=()):
    """Return what a plan draws from NumPy's state, NumPy's key and position afterwards, and the words that it left."""
    state = generator.state["state"]
    made = FORMATS[name]
    cutting = made.cutting._replace(odds=odds or made.cutting.odds)
    cut = twister_plan.streams(twister_plan.words_for(name, size - (given is not None), chance), cutting)
    plan = twister_plan.plan(name, size, session.device, cut=cut, is_given=given is not None)
    window = twister.window_at(state["key"], state["pos"])
    ours, result, left = np.zeros(size, made.type.dtype), np.zeros(RESULT_WORDS, np.int64), np.zeros(624, np.uint32)
    inputs = [session.pointer(window)]
    if cut.number > 1:
        inputs.append(session.pointer(twister_plan.polynomials(cut)))
    inputs += [] if given is None else [given]
    outputs = [session.pointer(array) for array in (ours, result, left)]
    execute(session.machine, plan, outputs, [*inputs, *parameters])
    session.fetch([ours, result, left])
    taken, start = result[:2].tolist()
    assert taken > 0
    return ours, twister.key_at(left, start, state["pos"], taken), result


def assert_state(found, generator):
    expected = generator.state["state"]
    assert (found[0].tolist(), found[1]) == (expected["key"].tolist(), expected["pos"])


FILLS = [
    ("uniform_f64", lambda rng, n: rng.random(n)),
    ("uniform_f32", lambda rng, n: rng.random(n, "f4")),
    ("words", lambda rng, n: rng.integers(0, 2**64, n, "u8")),
    ("halves", lambda rng, n: rng.integers(0, 2**32, n, "u4")),
]


@pytest.mark.usefixtures("short_streams")
@pytest.mark.parametrize(("name", "numpys"), FILLS)
@pytest.mark.parametrize("skipped", [0, 623])
def test_fixed_numbers_of_words(session, name, numpys, skipped):
    for size in (1, 256, 700 if skipped else 4500):
        generator = np.random.MT19937(size)
        generator.random_raw(skipped + 1)
        ours, found, _ = draw(session, generator, name, size)
        assert_same(ours, numpys(np.random.Generator(generator), size))
        assert_state(found, generator)


@pytest.mark.parametrize(("name", "numpys"), FILLS)
@pytest.mark.parametrize("words", [2 * 3632, 3 * 3632 - 1, 2 * 3632 + 700])
def test_a_stream_whose_state_moves_to_the_front(session, name, numpys, words):
    size = words // FORMATS[name].words
    generator = np.random.MT19937(size)
    generator.random_raw(77)
    ours, found, _ = draw(session, generator, name, size)
    assert_same(ours, numpys(np.random.Generator(generator), size))
    assert_state(found, generator)


@pytest.mark.usefixtures("short_streams")
@pytest.mark.parametrize("has_gauss", [False, True])
def test_polar_normals(session, has_gauss):
    for size in (2, 3, 700, 2001):
        legacy = np.random.RandomState(size)
        legacy.standard_normal(1 if has_gauss else 2)
        before = legacy.get_state(legacy=False)
        generator = np.random.MT19937()
        generator.state = before
        ours, found, result = draw(session, generator, "polar_f64", size, given=before["gauss"] if has_gauss else None)
        assert_same(ours, legacy.standard_normal(size))
        after = legacy.get_state(legacy=False)
        assert (found[0].tolist(), found[1]) == (after["state"]["key"].tolist(), after["state"]["pos"])
        assert result[3] == after["has_gauss"]
        assert_same(result[2:3].view(np.float64), np.array([after["gauss"]]))


@pytest.mark.parametrize("has_gauss", [False, True])
@pytest.mark.parametrize("fewest_words", [512, 6000])
def test_polar_normals_of_points(session, has_gauss, fewest_words, monkeypatch):
    monkeypatch.setattr(twister_plan, "FEWEST_WORDS", fewest_words)
    monkeypatch.setattr(twister_plan, "FEWEST_OF_POINTS", 1)
    monkeypatch.setattr(twister_polar, "CHUNK", 256)
    monkeypatch.setattr(twister_polar, "make", twister_polar.make.__wrapped__)
    for size in (2, 1200 + has_gauss if fewest_words == 512 else 7000):
        legacy = np.random.RandomState(size)
        legacy.standard_normal(1 if has_gauss else 2)
        before = legacy.get_state(legacy=False)
        generator = np.random.MT19937()
        generator.state = before
        ours, found, result = draw(session, generator, "polar_f64", size, given=before["gauss"] if has_gauss else None)
        assert_same(ours, legacy.standard_normal(size))
        after = legacy.get_state(legacy=False)
        assert (found[0].tolist(), found[1]) == (after["state"]["key"].tolist(), after["state"]["pos"])
        assert result[3] == after["has_gauss"]
        assert_same(result[2:3].view(np.float64), np.array([after["gauss"]]))


def test_polar_normals_of_several_states(session):
    legacy = np.random.RandomState(3)
    legacy.random_sample(1)
    generator = np.random.MT19937()
    generator.state = legacy.get_state(legacy=False)
    for size in (3000, 3901, 5200):
        ours, found, _ = draw(session, generator, "polar_f64", size)
        again = np.random.RandomState()
        again.set_state(legacy.get_state(legacy=False))
        assert_same(ours, again.standard_normal(size))
        assert_state(found, again._bit_generator)


@pytest.mark.usefixtures("short_streams")
@pytest.mark.parametrize(("name", "dtype"), [("masked_u64", "i8"), ("masked_u32", "i4")])
@pytest.mark.parametrize("largest", [999, 2**31 - 2, 2**20 - 1])
def test_masked_integers(session, name, dtype, largest):
    mask = (1 << largest.bit_length()) - 1
    for size in (1, 800, 3000):
        legacy = np.random.RandomState(7)
        legacy.randint(5)
        generator = np.random.MT19937()
        generator.state = legacy.get_state(legacy=False)
        low = 2**32 - 2 if dtype == "i4" else 2**64 - 3
        chance = (largest + 1) / (mask + 1)
        ours, found, _ = draw(session, generator, name, size, (mask, largest, low), chance=chance)
        shift = -2 if dtype == "i4" else -3
        assert_same(ours.view(dtype), legacy.randint(shift, largest + shift + 1, size, dtype))
        assert_state(found, legacy._bit_generator)


def test_masked_integers_of_several_states(session):
    legacy = np.random.RandomState(3)
    legacy.random_sample(1)
    for size in (2496, 5001):
        generator = np.random.MT19937()
        generator.state = legacy.get_state(legacy=False)
        ours, found, _ = draw(session, generator, "masked_u32", size, (1023, 700, 0), chance=701 / 1024)
        again = np.random.RandomState()
        again.set_state(legacy.get_state(legacy=False))
        assert_same(ours, again.randint(0, 701, size, "i4").view("u4"))
        assert_state(found, again._bit_generator)


@pytest.mark.usefixtures("short_streams")
@pytest.mark.parametrize(("odds", "radix_bits"), [((1, 3, 5, 7), 5), ((1, 3), 2)])
def test_streams_of_other_lengths_and_rounds(session, odds, radix_bits, monkeypatch):
    monkeypatch.setattr(twister_plan, "RADIX_BITS", radix_bits)
    monkeypatch.setattr(twister_plan, "polynomials", twister_plan.polynomials.__wrapped__)
    size = 5 * 640 if len(odds) > 2 else 5 * 256
    monkeypatch.setattr(twister_plan, "FEWEST_WORDS", 530 if len(odds) > 2 else 512)
    generator = np.random.MT19937(size)
    generator.random_raw(9)
    ours, found, _ = draw(session, generator, "uniform_f64", size, odds=odds)
    assert_same(ours, np.random.Generator(generator).random(size))
    assert_state(found, generator)


def test_a_jump_by_all_coefficients(session):
    """The kernels on a polynomial that is as dense as those of large draws; a sixteenth of its sums."""
    generator = np.random.MT19937(1)
    generator.random_raw(1)
    state = generator.state["state"]
    window = twister.window_at(state["key"], state["pos"])
    polynomial = twister.multiple(1, 14, 3) & ((1 << 1248) - 1)
    words = twister.following(window, 3000)
    expected = np.zeros(624, np.uint32)
    for i in range(1248):
        if polynomial >> i & 1:
            expected ^= words[i : i + 624]
    windows, sequences = np.zeros((2, 624), np.uint32), np.zeros(twister_jump.SEQUENCE, np.uint32)
    windows[0] = window
    coefficients = twister.coefficients(polynomial)
    arrays = [session.pointer(array) for array in (windows, sequences, coefficients)]
    for is_sequence, grid, pointers, constants in (
        (True, (1, 1, 1), arrays[:2], (0, 2496)),
        (False, (2, 1, 1), arrays, (1, 5, 39)),
    ):
        kernel = twister_jump.make(twister_jump.JumpSpec(is_sequence=is_sequence))
        launch = Launch(kernel, grid, (), constants)
        session.machine.launch(launch, pointers)
    session.fetch([windows])
    assert windows[1].tolist() == expected.tolist()


def test_a_draw_has_no_more_streams_than_run_at_once():
    cuttings = {made.cutting for made in FORMATS.values()}
    for words, cutting in itertools.product((1, 10**5, 2**28, 2**28 + 1, 3 * 2**28, 10**10), cuttings):
        most, cut = cutting.most, twister_plan.streams(words, cutting)
        assert cut.number <= most
        assert (cut.number - 1) * cut.length < words <= cut.number * cut.length
        assert cut.length % 4 == 0
        assert words < 10**8 or cut.number > most * 0.6
