"""What machine code tells placement of launches: what Python would."""

import numpy  # noqa: ICN001
import pytest

import oxinp
from oxinp._config import config
from oxinp._core.lazy.balance import AWAKE, NUM_SIZES, REST, Balance, balance
from oxinp._core.native import objects
from oxinp._core.ops import vector_product
from tests.comparator import assert_same

pytestmark = [
    pytest.mark.skipif(objects.VECTORCALL is None, reason="calls of functions have no other code"),
    pytest.mark.usefixtures("on_device", "unwatched", "written"),
]
N = 64
SHAPES = {"a": (N, N), "b": (N, N), "c": (21, N), "large": (600, 900)}
STATE = "_last", "_upload", "has_waited", "each", "_beyond", "reach"

PROGRAMS = {
    "one size": "a[1:-1] = b[:-2] * 0.5 + b[2:]",
    "through what is computed first": "a[1:-1] = 0.5 * (a[:-2] + a[2:])",
    "two sizes": "a[1:-1] = b[:-2] * 0.5; c[1:] = b[2:22] * 2.0",
    "a part of something larger": "c[1:] = b[2:22] * 2.0",
    "with numbers": "a[i % 50] += 0.5",
    "waiting": "a[1:-1] = b[:-2] * 0.5; float(a[3, 3]) if i % 7 == 0 else None",
    "with uploads": "a[1:-1] = b[:-2] * h[:62]; h += 1.0 if i % 5 == 0 else 0.0",
    "not weighed": "large[1:] = large[:-1] * 0.5",
    "what is small and what is not weighed": "large[1:] = large[:-1] * 0.5; a[1:-1] = b[:-2] * 0.5",
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_placement_learns_what_it_does_from_python(program, monkeypatch):
    code, outcomes = compile(program, "program", "exec"), []
    monkeypatch.setattr(Balance, "_judge", lambda _: None)  # by when a few are weighed nothing moves
    before, count = Balance.computed_chain, 30 if "large" in program else 80
    for is_native in (True, False):
        told = []

        def note(self, size, *given, told=told, **more):
            told.append(size)
            return before(self, size, *given, **more)

        monkeypatch.setattr(Balance, "computed_chain", note)
        rng = numpy.random.default_rng(3)
        made = {name: rng.random(shape) for name, shape in SHAPES.items() if name in program}
        with config.override(machine_code=is_native, offload_threshold=4096, adaptive_placement=True):
            given = {name: oxinp.array(array) + 0.0 for name, array in made.items()}
            oxinp.evaluate(*given.values())
            given["h"], states = numpy.ones((62, N)), []
            for i in range(2 * count):
                if i == count:  # there are programs for all
                    balance.begin(4096, is_adaptive=True)
                    balance.each = 0
                    told.clear()
                exec(code, {**given, "i": i})  # noqa: S102 - a table of programs
                states.append([getattr(balance, name) for name in STATE])
            outcomes.append((states[count:], balance._crossings.last, {*told}, len(told), given))
        balance.begin(config.offload_threshold, is_adaptive=config.adaptive_placement)
    (states, last, sizes, num, ours), (pythons, pythons_last, pythons_sizes, pythons_num, others) = outcomes
    assert states == pythons
    assert last == pythons_last
    assert sizes == pythons_sizes
    assert abs(num - pythons_num) <= 2  # one in so many, of what else is sampled, too
    for name, array in ours.items():
        assert_same(array, numpy.asarray(others[name]))


def told_of(seed, *, is_native):
    """Return the sizes of some launches, and what placement knows after each."""
    rng, found = numpy.random.default_rng(seed), []
    with config.override(machine_code=is_native, offload_threshold=4096, adaptive_placement=True):
        arrays = [oxinp.array(rng.random(shape)) + 0.0 for shape in SHAPES.values()]
        oxinp.evaluate(*arrays)
        whole = [vector_product.operand(each)[0] for each in arrays]
        entries = [*whole, *(vector_product.operand(each[1:])[0] for each in arrays), 2.0, 3, numpy.float64(4), True]
        balance.begin(4096, is_adaptive=True)
        balance.each = 0
        sizes = [8, 8, 9000, 9000, 1 << 15, int(balance.reach), int(balance.reach) + 800]
        for turn in range(300):
            if turn % 23 == 7:
                balance.has_waited = True
            if turn % 31 == 3:
                balance._upload = 2.0
            picked = rng.integers(len(entries), size=turn % 4) if turn % 50 < 30 else [0, -4]
            nbytes = sizes[rng.integers(len(sizes))] if turn % 50 < 30 else sizes[turn // 50]
            size = balance.ran(nbytes, tuple(entries[place] for place in picked))
            found.append((size, balance._crossings.last, [getattr(balance, name) for name in STATE]))
        balance.begin(config.offload_threshold, is_adaptive=config.adaptive_placement)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_what_ran_is_noted_as_in_python(seed, monkeypatch):
    monkeypatch.setattr(Balance, "_judge", lambda _: None)
    assert told_of(seed, is_native=True) == told_of(seed, is_native=False)


@pytest.mark.parametrize("is_native", [True, False])
def test_a_rest_ends_after_so_many_launches(is_native):
    with config.override(machine_code=is_native, offload_threshold=4096, adaptive_placement=True):
        array = oxinp.array(numpy.random.default_rng(0).random(5000))
        oxinp.evaluate(array)
        leaves = (vector_product.operand(array)[0],)
        balance.begin(4096, is_adaptive=True)
        for _ in range(100):  # of which the last are told in machine code
            balance.each = 0
            known = balance.ran(40000, leaves)
        balance._num_awake = AWAKE
        balance._begin_rest()
        found = [balance.ran(40000, leaves) for _ in range(REST * AWAKE)]
        reach = balance.reach
        again = balance.ran(40000, leaves)
        balance.begin(config.offload_threshold, is_adaptive=config.adaptive_placement)
    assert {*found} == {NUM_SIZES}
    assert reach > 0
    assert again == known < NUM_SIZES
