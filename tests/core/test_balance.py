"""Arrays of middling size go to where the program's work on them is cheaper."""

# ruff: noqa: ICN001 - oxinp is np

import itertools
import sys
import types

import numpy
import pytest

import oxinp as np
from oxinp._core.lazy import balance as balance_module
from oxinp._core.lazy import joint, mirrored, schedule, selections
from oxinp._core.lazy.balance import (
    AGAIN,
    BY_ROWS,
    CACHED_NBYTES,
    CALL,
    COMPARED,
    COPY_RATE,
    EACH,
    FIRST,
    IN_ORDER,
    LAUNCH,
    LEAF,
    LINE,
    LOOP_NBYTES,
    MAX_REST,
    NEAR_NBYTES,
    NEW,
    NUM_SIZES,
    RECORD,
    SAMPLED,
    SWITCH,
    UPLOAD,
    WAIT,
    Balance,
    balance,
    host_nbytes,
    num_moved,
    numpys_microseconds,
)
from oxinp._core.lazy.handle import chain, host_view
from oxinp._core.memory.layout import Layout
from oxinp._core.ops.gather import BYTES_PER_INDEX, SELECT, TAKE
from tests.comparator import assert_same


@pytest.fixture(autouse=True)
def usual(config):
    config.offload_threshold = 65536
    assert config.adaptive_placement
    yield
    balance.begin(config.offload_threshold, is_adaptive=True)  # nothing that is learned here is left


def work_on_rows(_, matrix, times):
    for i in range(times):
        row = matrix[i % len(matrix)]
        row *= 2.0
        row -= matrix[(i + 1) % len(matrix)]
    return matrix


def work_on_all(xp, matrix, times):
    for _ in range(times):
        matrix = xp.sqrt(matrix * matrix + 1.0) * 0.5
    return matrix


def matrix(xp, shape=(20, 1000)):
    return xp.asarray(numpy.random.default_rng(3).random(shape)) + 0.0


def test_rows_of_a_device_array_go_to_the_host(stats):
    ours = matrix(np)
    np.evaluate(ours)
    assert_same(work_on_rows(np, ours, 200), work_on_rows(numpy, matrix(numpy), 200))
    before = stats()
    work_on_rows(np, ours, 50)
    assert stats().launches == before.launches
    assert ours._storage.host is not None
    assert balance.limit > ours.nbytes
    # What would be the device's otherwise is computed on the host as well, and new arrays begin there.
    for made in (ours + 1, ours @ ours.T, ours.sum(axis=0), np.zeros(ours.shape), np.sort(ours)):
        assert made._storage.host is not None
    assert stats().launches == before.launches


def test_whole_expressions_stay_on_the_device(stats):
    ours = matrix(np)
    assert_same(work_on_all(np, ours, 300), work_on_all(numpy, matrix(numpy), 300), ulp=1)
    assert not balance.limit
    assert stats().d2h_bytes == ours.nbytes


def test_rows_of_megabytes_go_to_the_host_later():
    ours = matrix(np, (250, 1500))
    work_on_rows(np, ours, 20)
    assert not balance.limit
    for _ in range(40):
        work_on_rows(np, ours, 100)
        if balance.limit:
            break
    assert balance.limit > ours.nbytes


def test_masks_and_chains_that_are_reduced_weigh_what_their_operands_do():
    x = matrix(np, (300, 1000))
    compared = chain(x * 2.0 > 1.0)[0].structure
    assert host_nbytes(compared) >= 16  # a multiplication of eight bytes, and a comparison of as many
    total = (x * 2.0 + 1.0).sum()._storage.value[1][0].call.bound
    assert total.host_cost() == x.nbytes * 0.5 + host_nbytes(total.graphs[0].structure) * x.size


def products_of_columns(xp, data):
    m = data.shape[1]
    products = xp.zeros((m, m))
    for i in range(m):
        products[i:m, i] = data[:, i] @ data[:, i:m] / 3.0
        products[i, i:m] = products[i:m, i]
    return products


def test_products_and_writes_of_ever_new_sizes_go_to_the_host(config, stats):
    config.offload_threshold = 4096  # so that launches weigh as much as those on arrays 16 times as large
    ours = matrix(np, (160, 280))
    for _ in range(2):
        assert_same(products_of_columns(np, ours), products_of_columns(numpy, matrix(numpy, (160, 280))), ulp=200)
    assert balance.limit > 280 * 280 * 8
    before = stats().launches
    products_of_columns(np, ours)
    assert stats().launches == before


@pytest.mark.usefixtures("unwatched")
def test_writes_of_ever_new_sizes_are_priced_as_what_comes_again(config):
    config.offload_threshold = 4096
    target, source = matrix(np, (20, 2000)), matrix(np, (20, 2000))
    np.evaluate(target, source)

    balance.begin(4096, is_adaptive=True)
    for n in range(1000, 1016):
        target[3, :n] = source[2, :n] * 2.0
    first = sum(balance._weights)
    assert first > -4 * (LAUNCH + AGAIN) - 16 * LAUNCH  # those of a structure that has not been met
    for n in range(1016, 1032):
        target[3, :n] = source[2, :n] * 2.0
    assert sum(balance._weights) - first > -(SAMPLED + 16) * LAUNCH


def test_what_is_gathered_by_ever_new_numbers_of_indices_is_weighed_each_time(monkeypatch):
    ours, seen = matrix(np), []
    np.evaluate(ours)
    monkeypatch.setattr(Balance, "launched", lambda *_, times, **__: seen.append(times))
    for n in range(3, 15):
        np.evaluate(ours[np.asarray(numpy.arange(n))])
    assert seen == [1] * 12


def shared_values(xp, matrix, times):
    total = matrix * 1.0
    for _ in range(times):
        change = matrix * 0.5 - total * 0.25  # held on, and computed on the way to the next
        total += xp.where(matrix > 0.5, change * 1.5, 0.0)
        total[0, 0]
    return total


def mirrored_updates(_, matrix, times):
    part = (matrix.reshape(-1) * 1.0)[2:]
    for _ in range(times):
        part += 0.5 * part[::-1] + 1.0
    return part


@pytest.mark.usefixtures("unwatched")
@pytest.mark.parametrize(
    ("work", "module"), [(shared_values, joint), (mirrored_updates, mirrored)], ids=["shared", "mirrored"]
)
def test_chains_that_are_computed_with_others_are_weighed_whole(work, module, monkeypatch):
    monkeypatch.setattr(module, "is_sampled", lambda: True)
    ours = matrix(np)
    np.evaluate(ours)
    seen = []
    note = balance.computed_call if module is mirrored else balance.computed_chain
    monkeypatch.setattr(Balance, note.__name__, lambda _, *given, **__: seen.append(given))
    expected = work(numpy, matrix(numpy), 10)
    found = work(np, ours, 10)
    assert_same(found, expected)
    ways = [given[1] if module is mirrored else host_nbytes(given[1]) * given[2] for given in seen]
    assert max(ways) >= 3 * 8 * ours.size  # of three operations at least


def fluxes(xp, fields, times):
    """Do steps like those of a finite volume scheme, whose chains have so many operands that few are one kernel."""
    for _ in range(times):
        sides = [
            (field - slope * 0.1, field + slope * 0.1) for field, slope in zip(fields[:4], fields[4:], strict=True)
        ]
        (rho, other), (u, v), (p, q), (e, f) = sides
        energies = p / 0.4 + 0.5 * rho * (u * u + e * e), q / 0.4 + 0.5 * other * (v * v + f * f)
        mean, momentum, energy = 0.5 * (rho + other), 0.5 * (rho * u + other * v), 0.5 * (energies[0] + energies[1])
        speed = xp.maximum(abs(u) + p * rho, abs(v) + q * other)
        flux = momentum * momentum / mean - speed * 0.5 * (rho * u - other * v)
        work = (energy + p) * momentum / mean - speed * 0.5 * (energies[0] - energies[1])
        fields = [fields[0] + 1e-3 * (momentum - speed * 0.5 * (rho - other)), fields[1] + 1e-3 * flux, *fields[2:]]
        fields[2] = fields[2] + 1e-3 * work
    return fields


@pytest.mark.usefixtures("unwatched")
def test_operations_that_are_done_for_several_kernels_are_weighed_once(monkeypatch, usual):
    """NumPy does each of them once, so that what the device does again is nothing that it gains."""
    del usual
    monkeypatch.setattr(schedule, "is_sampled", lambda: True)
    monkeypatch.setattr(joint, "is_sampled", lambda: True)
    draw = numpy.random.default_rng(6)
    theirs = [draw.random((128, 128)) + 1 for _ in range(8)]
    ours = [np.asarray(each) for each in theirs]
    np.evaluate(*ours)
    seen = []

    def note(_, size, structure, num_elements, *, num_recorded=0, **__):
        del size, num_elements
        seen.append((len(structure.nodes), num_recorded or len(structure.nodes)))

    monkeypatch.setattr(Balance, "computed_chain", note)
    found = fluxes(np, ours, 10)
    np.evaluate(*found)
    for x, y in zip(found, fluxes(numpy, theirs, 10), strict=True):
        assert_same(x, y)
    num_operations = 10 * (4 * 4 + 2 * 9 + 3 + 5 + 6 + 8 + 8 + 6 + 2 + 4)
    assert sum(nodes for nodes, _ in seen) > 1.3 * num_operations
    assert sum(recorded for _, recorded in seen) == pytest.approx(num_operations, rel=0.2)


def launch(learned, size, gain):
    """Note a launch as those do that weigh each."""
    learned.each = 1
    found = learned.ran(65536 << size >> 1, ())
    if found < NUM_SIZES:
        learned.launched(found, gain, extra=0.0, times=1)
    return found


def test_what_has_long_proved_right_is_noted_now_and_then():
    learned = Balance()
    learned.begin(65536, is_adaptive=True)
    sizes = [launch(learned, 3, 60.0) for _ in range(4000)]
    assert 3 in sizes[:100]
    assert NUM_SIZES not in sizes[:100]
    assert 0.02 < sizes[1000:].count(3) / 3000 < 0.3
    after = next(number for number in range(20_000) if launch(learned, 3, -60.0) == 3 and learned._level)
    assert after < 2 * MAX_REST  # once the device loses, each is noted


def test_leaves_beyond_a_few_are_priced():
    learned = Balance()
    learned.begin(65536, is_adaptive=True)
    gains = []
    for num_leaves in (6, 16):
        kinds = (numpy.dtype(float),) * num_leaves
        structure = types.SimpleNamespace(nodes=[None] * 12, kinds=kinds, host_nbytes=96.0)
        before = learned._weights[2]
        learned.computed_chain(2, structure, 16384, is_first=False, times=1)
        gains.append(learned._weights[2] - before)
    assert gains[0] - gains[1] == pytest.approx(LEAF * 10 * (1 + 12 / COMPARED))


def test_gains_of_large_arrays_are_remembered_as_long_as_moving_them_takes():
    learned = Balance()
    learned.begin(65536, is_adaptive=True)
    size = NUM_SIZES - 2  # arrays of 16 MB and more, which take milliseconds to move
    for _ in range(10):  # of a factorisation: its parts are small, then large, then small
        for gain in (*[-LAUNCH] * 80, *[4 * LAUNCH] * 80, *[-LAUNCH] * 80):
            learned.computed_call(size, 0.0, price=-gain)
            assert learned.limit == 0
    for _ in range(1000):
        learned.computed_call(size, 0.0)
    assert learned.limit > 16 << 20


def test_what_follows_a_change_of_placement_is_not_held_against_it():
    learned = Balance()
    learned._settle(7)
    for _ in range(8):
        learned.fetched(3 << 20)
    for _ in range(8):
        learned._judge()
    assert learned.limit == 4 << 20
    for _ in range(20):  # what comes again and again is
        learned.ran(8 << 20, ())
        learned.fetched(3 << 20)
        learned._judge()
    assert learned.limit != 4 << 20


def test_what_is_known_of_larger_arrays_outlasts_a_way_to_the_host():
    learned = Balance()
    learned.begin(65536, is_adaptive=True)
    while not learned.limit:
        learned._weigh(5, -50.0)
        learned._weigh(1, -50.0)  # of smaller arrays moving takes less: they go first
    assert learned.limit == 65536 << 1
    known = learned._weights[5]
    assert known < -300.0
    assert learned._weights[1] == 0.0
    learned._settle(3)
    assert learned._weights[5] == known
    learned._settle(1)  # and back: how much what was on the host gains there is not known
    assert not any(learned._weights)


def test_what_is_learned_while_nothing_learned_counts_counts_afterwards():
    learned = Balance()
    learned._settle(2)
    with learned.suspended():
        assert not learned.limit
        with learned.suspended():
            learned._settle(3)
        assert not learned.limit
    assert learned.limit == 4 * 65536


def test_arrays_without_elements_are_indexed_where_arrays_belong_on_the_host():
    balance._settle(3)
    x = np.zeros((0, 4))
    assert_same(x[np.asarray([], int), np.asarray([], int)], numpy.zeros(0))
    x[np.asarray([], int)] = 1.0
    assert_same(x[np.zeros(0, bool)], numpy.zeros((0, 4)))


def test_what_results_cost_is_forgotten_with_what_they_gained():
    learned = Balance()
    learned._settle(1)
    learned.waited()
    for _ in range(400):
        learned.computed_call(learned.ran(160_000, ()), 64.0 * 160_000, times=1)
        learned.fetched(1000)
        assert learned.limit == 65536


@pytest.mark.parametrize("num_small", [0, 2])
def test_copies_count_less_for_what_small_work_between_larger_work_lost_on_the_device(num_small):
    """As for the frontier of a graph whose matrix is on the device: who looks for its end waits on either side."""
    learned = Balance()
    learned.begin(65536, is_adaptive=True)
    for _ in range(400):
        learned.launched(learned.ran(9 << 20, ()), 50.0, extra=0.0, times=1)
        for _ in range(num_small):
            learned.launched(learned.ran(3000, ()), -35.0, extra=0.0, times=1)
        if num_small:
            learned.waited()
        if learned.limit:
            break
    assert bool(learned.limit) == bool(num_small)
    if not num_small:
        learned._settle(1)
    for _ in range(300):
        learned.launched(learned.ran(9 << 20, ()), 50.0, extra=0.0, times=1)
        learned.fetched(3000)
        learned.uploaded(3000, 3000)
    assert bool(learned.limit) == bool(num_small)


def test_what_is_copied_in_turn_is_not_forgotten_with_what_larger_work_gains():
    learned = Balance()
    learned._settle(1)
    learned.waited()
    for _ in range(400):
        learned.computed_call(learned.ran(160_000, ()), 64.0 * 160_000, times=1)
        learned.fetched(1000)
        learned.uploaded(1000, 1000)
    assert learned.limit == 0


def test_what_is_copied_in_turn_does_not_outlast_what_larger_work_gains():
    learned = Balance()
    learned._settle(2)
    learned.waited()
    for _ in range(3000):
        learned.takes(100_000, price=200.0, times=1)  # the host's small work gains more than the copies take
        learned.computed_call(
            learned.ran(320_000, ()), 64.0 * 320_000, times=1
        )  # and so does the device's large work, in each turn
        learned.fetched(1000)
        learned.uploaded(1000, 1000)
        assert learned.limit == 131072


def test_views_are_weighed_less_often_once_placement_is_settled_and_count_for_more():
    learned = Balance()
    learned._settle(4)
    learned._moving = 0.0
    assert learned.period == SAMPLED
    while learned.period == SAMPLED:
        learned.viewed(8000, 1 << 18, learned.period)
        assert learned._since <= 16
    before = learned._weights[3]
    learned.viewed(8000, 1 << 18)
    once = learned._weights[3] - before
    learned.viewed(8000, 1 << 18, learned.period)
    assert learned._weights[3] - before == pytest.approx(once * (1 + learned.period / SAMPLED))
    learned._settle(0)
    assert learned.period == SAMPLED


def test_copies_from_larger_arrays_count_against_what_the_host_gains():
    learned = Balance()
    learned._settle(NUM_SIZES)
    learned._moving = 0.0
    for _ in range(300):
        learned.takes(100_000)  # some of it weighs for the host
        learned.viewed(8000, 1 << 20)
        learned.uploaded(1000, 1000)
    assert learned.limit == learned.reach
    for _ in range(20_000):
        learned.uploaded(1000, 1000)
    assert learned.limit == 0


def test_what_weighs_much_is_weighed_each_time(config, monkeypatch):
    config.offload_threshold = 4096
    weighed = []
    launched = Balance.launched
    monkeypatch.setattr(
        Balance, "launched", lambda *args, **how: (weighed.append(how.get("times")), launched(*args, **how))
    )
    keys = matrix(np, (1000,))
    np.evaluate(np.argsort(keys))  # whose first launch weighs more
    weighed.clear()
    balance.begin(4096, is_adaptive=True)
    for _ in range(10):
        np.evaluate(np.argsort(keys))
    balance.note_launches()
    assert weighed == [1] * 10


def test_a_vector_and_a_matrix_weigh_the_same_on_either_side(monkeypatch):
    x, ours = matrix(np, (300,)), matrix(np, (300, 1000))
    np.evaluate(x, ours)
    on_device = (x @ ours)._storage.value[1][0].call.bound.host_cost()
    asked = []
    monkeypatch.setattr(Balance, "takes", lambda _, cost, weight=1.0, _price=0.0: asked.append(cost * weight) or True)
    host_view(x), host_view(ours)
    assert (x @ ours)._storage.host is not None
    assert asked == [on_device]


def test_a_matrix_by_a_vector_weighs_what_blas_takes():
    x, ours = matrix(np, (1000,)), matrix(np, (300, 1000))
    np.evaluate(x, ours, ours @ x)
    assert (ours @ x)._storage.value[1][0].call.bound.host_cost() == ours.nbytes / 4
    rows = (299 + 300) * LOOP_NBYTES  # which it begins with one after the other, to multiply and to add them
    assert (ours * x).sum(axis=1)._storage.value[1][0].call.bound.host_cost() == ours.nbytes * 1.5 + rows


def test_larger_arrays_are_not_weighed(config, stats):
    config.offload_threshold = 4096
    ours = matrix(np, (400, 1500))
    work_on_rows(np, ours, 500)
    assert not balance.limit
    assert stats().launches >= 500


def test_numpy_takes_twice_as_long_for_bytes_that_its_caches_do_not_hold():
    near, far = numpys_microseconds(NEAR_NBYTES), numpys_microseconds(2 * NEAR_NBYTES)
    assert near < NEAR_NBYTES / 1000
    assert far - near == pytest.approx(2 * (near - CALL))


@pytest.mark.parametrize(
    ("shape", "axis", "num_loops"),
    [
        ((30, 400), 0, 30),
        ((30, 400), 1, 30),
        ((30, 400), None, 1),
        ((20, 30, 400), (1, 2), 20),
        ((20, 30, 400), 0, 20),
        ((20, 30, 400), 1, 600),
        ((20, 30, 400), (0, 2), 600),
        ((50_000,), 0, 1),
    ],
)
def test_a_reduction_weighs_what_numpy_takes_to_begin_with_its_rows(shape, axis, num_loops):
    ours = matrix(np, shape)
    np.evaluate(ours)
    cost = ours.max(axis, keepdims=True)._storage.value[1][0].call.bound.host_cost()
    assert cost == pytest.approx(ours.nbytes / 2 + LOOP_NBYTES * (num_loops - 1))


def test_beginning_with_rows_takes_no_longer_for_what_caches_do_not_hold():
    x = np.asarray(numpy.ones((6240, 2)))
    np.evaluate(x)
    bound = chain((x * x).sum(axis=1))[1][0].call.bound
    begun = LOOP_NBYTES * 6240
    assert bound.begun_nbytes() == pytest.approx(begun, rel=0.01)
    assert bound.gains() == pytest.approx(
        numpys_microseconds(bound.host_cost() - begun) + begun / 20_000 - bound.op.price
    )


def test_a_chain_weighs_what_numpy_takes_to_begin_with_rows_that_are_repeated_or_have_gaps():
    ours, row, column = matrix(np, (300, 40)), matrix(np, (40,)), matrix(np, (300, 1))
    number = row[:1].reshape(1, 1)
    np.evaluate(ours, row, column, number)
    costs = [(ours * x).max()._storage.value[1][0].call.bound.host_cost() for x in (ours, number, row, column)]
    costs.append((ours[:, ::2] * row[:20]).max()._storage.value[1][0].call.bound.host_cost())
    even, one, repeated, spread, part = costs
    assert one == even
    assert repeated == spread == even + 300 * LOOP_NBYTES
    assert part == even / 2 + 2 * 300 * LOOP_NBYTES


def sums_along_rows(xp, points):
    n = len(points)
    found = xp.ones((n, n))
    for i in range(0, n, 10):
        difference = points[i:] - points[i]
        found[i, i:] = xp.exp(-0.5 * (difference * difference).sum(axis=1))
        found[i:, i] = found[i, i:]
    return found


def test_sums_along_ever_fewer_rows_stay_on_the_device():
    ours = matrix(np, (1200, 40))
    np.evaluate(ours)
    sums_along_rows(np, ours)
    assert not balance.limit
    assert sum(balance._weights) > 0


def test_sorts_that_are_to_be_stable_take_numpy_longer():
    keys = matrix(np, (10_000,))
    np.evaluate(keys)
    orders = [np.argsort(keys, kind=kind) for kind in ("quicksort", "stable", "mergesort")]
    quick, *others = [order._storage.value[1][0].call.bound.host_cost() for order in orders]
    assert others == [112 / 64 * quick] * 2
    assert np.argsort(keys.reshape(100, 100), stable=True)._storage.value[1][0].call.bound.host_cost() == others[0]


def test_what_is_planned_anew_counts_whole_where_that_goes_on():
    learned = Balance()
    learned.begin(65536, is_adaptive=True)
    for _ in range(5):
        learned.computed_call(9, 0.0, price=CALL, extra=FIRST, times=1)
    assert -5 * 2 * AGAIN < learned._weights[9] <= -5 * AGAIN
    for _ in range(200):
        before = learned._weights[9]
        learned.computed_call(9, 0.0, price=CALL, extra=FIRST, times=1)
    assert before - learned._weights[9] == pytest.approx(FIRST)


def test_a_program_of_which_the_device_does_more_stays_there_for_good():
    learned = Balance()
    learned.begin(65536, is_adaptive=True)
    changes, before = [], 0
    for turn in range(12):  # whose arrays are large at first, and then small: the host is better for the latter
        for gain in (*[300.0] * 200, *[-150.0] * 200):
            if learned.limit:
                learned._weigh(5, gain)
            else:
                learned.computed_call(5, 0.0, price=CALL - gain, times=1)
            if learned.limit != before:
                changes.append(turn)
                before = learned.limit
    assert not learned.limit
    assert max(changes, default=0) <= 4


def test_arrays_go_back_to_the_device(stats):
    ours = matrix(np, (40, 1500))
    work_on_rows(np, ours, 300)
    assert balance.limit > ours.nbytes
    for _ in range(3000):
        ours = np.sqrt(ours * ours + 1.0) * 0.5
        if not balance.limit:
            break
    assert not balance.limit
    before = stats().launches
    np.evaluate(ours + 1.0)
    assert stats().launches == before + 1


def test_the_way_back_gets_longer_where_the_device_loses_more():
    learned = Balance()
    learned.begin(65536, is_adaptive=True)
    learned._switch = 16 * SWITCH  # the way to the host has been in vain

    def returned():
        while not learned.limit:
            learned._weigh(5, -400.0)
        count = 0
        while learned.limit:
            learned._weigh(5, 100.0)
            count += 1
        return count

    first, second = returned(), returned()
    assert second > 2 * first


def test_what_moves_to_and_fro_belongs_on_the_host(stats):
    """As a matrix that is filled by the host, row by row, and that the device does little with."""

    def work(xp, n):
        found = xp.zeros((n, n))
        for i in range(n):
            found[i, : i + 1] = float(i)
        return found.mean(axis=0)

    for _ in range(8):
        assert_same(work(np, 400), work(numpy, 400), ulp=8)
    assert balance.limit > 400 * 400 * 8
    before = stats().launches
    work(np, 400)
    assert stats().launches == before


def test_uploads_count_for_what_they_are_made_for():
    learned = Balance()
    large, middling = (types.SimpleNamespace(buffer=types.SimpleNamespace(nbytes=n)) for n in (1 << 30, 300_000))
    for _ in range(1000):
        learned.uploaded(300_000, 300_000)
        learned.ran(1 << 10, (middling, large))
        learned.fetched(300_000)
    assert not learned.limit
    for _ in range(40):
        learned.uploaded(300_000, 300_000)
        learned.ran(1 << 10, (middling,))
    assert learned.limit > 300_000


def test_waits_for_arrays_that_are_not_weighed_make_no_launch_dearer():
    learned = Balance()
    learned.begin(65536, is_adaptive=True)
    learned.ran(1 << 30, ())
    for _ in range(100):
        learned.waited()
    assert learned._more == 0.0
    learned.ran(1 << 20, ())
    learned.waited()
    assert learned._more > 0.0


def test_small_uploads_count_for_being_asked_for():
    learned = Balance()
    learned.begin(65536, is_adaptive=True)
    size = learned.ran(1 << 20, ())
    for _ in range(4):
        learned.uploaded(80, 80)
    learned.ran(1 << 20, ())
    assert learned._weights[size] == pytest.approx(-4 * (UPLOAD + 80 / COPY_RATE))


def test_a_program_that_waits_for_every_result_has_it_on_the_host():
    ours = matrix(np)
    np.evaluate(ours)
    for _ in range(100):
        assert float((ours * 0.5).sum()) > 0
    assert balance.limit > ours.nbytes


def test_results_of_larger_work_are_fetched_once(stats):
    large, x = matrix(np, (300, 1000)), matrix(np, (1000,))
    for _ in range(60):
        y = large @ x
        for i in range(8):
            y = y * 0.5 + i
            np.evaluate(y)
        x = x * (1 / y.max())
    assert balance.limit == 65536
    before = stats()
    y = large @ x
    z = (y + 1) * y - 2
    assert z._storage.host is not None
    assert stats().launches == before.launches + 1
    assert stats().d2h_bytes == before.d2h_bytes + y.nbytes


def test_a_view_counts_as_the_array_that_it_is_of(config):
    config.offload_threshold = 4096
    large = matrix(np, (600, 1000))
    np.evaluate(large)
    np.evaluate(large[3, 7:11] * 2)
    entry = (large[3, 7:11])._storage.value[1][0]
    learned = Balance()
    assert learned.ran(32, (2.0, entry)) == learned.ran(32, (chain(large[3, 7:11])[1][0],)) == NUM_SIZES


def test_what_is_waited_for_is_all_that_was_launched_since():
    learned = Balance()
    large, small = (types.SimpleNamespace(buffer=types.SimpleNamespace(nbytes=n)) for n in (1 << 30, 1 << 10))
    for _ in range(1000):
        learned.ran(1 << 10, (large,))
        learned.ran(1 << 10, (small,))
        learned.waited()
    assert not learned.limit
    for _ in range(3000):
        learned.ran(1 << 10, (small,))
        learned.waited()
    assert learned.limit


def test_what_is_selected_is_waited_for_once_as_the_array_it_is_from(config, monkeypatch):
    config.offload_threshold = 4096
    large, small = matrix(np, (700_000,)), matrix(np, (600,))
    mask = large < 1e-3
    np.evaluate(large, mask, small)
    told = []
    np.evaluate(small + 1)
    monkeypatch.setattr(selections, "MAX_NBYTES", 0)  # so that elements are selected at once
    monkeypatch.setattr(Balance, "_weigh", lambda _, size, microseconds: told.append((size, microseconds)))
    assert 0 < large[mask].size < 4096
    assert [size for size, microseconds in told if microseconds == -WAIT] == [NUM_SIZES]


def test_what_is_computed_from_a_selection_counts_as_the_array_it_is_from(config):
    config.offload_threshold = 4096
    large = matrix(np, (700_000,))
    mask = large < 1e-3
    np.evaluate(large, mask)
    chosen = large[mask]
    assert 0 < chosen.nbytes < 8192
    gathered = matrix(np, (300,))[np.nonzero(mask)[0] % 300]
    np.evaluate(gathered)
    leaves = chain(chosen * 2.0)[1]
    learned = Balance()
    assert learned.ran(chosen.nbytes, leaves) == NUM_SIZES
    assert learned.ran(chosen.nbytes, chain(gathered * 2.0)[1]) < NUM_SIZES  # by what was computed of a selection
    numbers = np.nonzero(mask)[0]
    gathered = large[numbers]
    np.evaluate(gathered)
    assert learned.ran(chosen.nbytes, chain(gathered * 2.0)[1]) == NUM_SIZES
    before = len(balance_module._SELECTED)
    del leaves, chosen, gathered, numbers
    assert len(balance_module._SELECTED) < before


def test_a_loop_over_what_is_selected_moves_nothing(stats):
    """Ever new sizes are dear on the device: no reason to fetch each selection and upload it again."""

    def work(z):
        for i in range(60):
            inside = z < 1.0 - i / 100
            z[inside] = z[inside] * 1.01 + 0.001
        return z

    ours = matrix(np, (150, 1000))
    np.evaluate(ours)
    for _ in range(3):
        before = stats()
        work(ours)
        assert stats().d2h_bytes - before.d2h_bytes < ours.nbytes


def test_a_mask_on_the_host_weighs_what_it_does_on_the_device(monkeypatch):
    ours = matrix(np, (150, 1000))
    mask = ours < 0.5
    host_view(ours), host_view(mask)
    balance._settle(NUM_SIZES)
    asked = []
    monkeypatch.setattr(Balance, "takes", lambda _, cost, weight=1.0, _price=0.0: asked.append(cost * weight) or True)
    ours[mask] = 2.0
    assert asked[-1] == pytest.approx(SELECT.host_weight * mask.nbytes)


def test_writes_by_index_may_be_waited_for_where_they_are_not_sampled(config, monkeypatch):
    """A wait after a write to a large array is not charged to the small ones from which the values were computed."""
    config.offload_threshold = 4096
    large, index = matrix(np, (40_000,)), np.arange(0, 30_000, 3)
    values = np.sqrt(index * 1.0)
    np.evaluate(large, index, values)
    told = []
    monkeypatch.setattr(Balance, "ran", lambda *given: told.append(given[1]) or NUM_SIZES)
    for _ in range(4):
        large[index] = values
    assert told == [large.nbytes] * 4


def test_copies_of_what_larger_work_leaves_are_no_reason_to_have_more_on_the_host():
    learned = Balance()
    large, middling = (types.SimpleNamespace(buffer=types.SimpleNamespace(nbytes=n)) for n in (1 << 30, 300_000))
    while not learned.limit:
        learned.waited()
        learned.ran(1 << 10, ())
    for _ in range(20):
        learned.computed_call(learned.ran(0, (middling,)), 1e5, extra=40.0, times=1)  # which costs the device more
        learned.ran(1 << 10, (large,))
        learned.fetched(1 << 10)
        learned.uploaded(1 << 10, 1 << 10)
        assert learned.limit <= 65536


def test_products_with_what_is_on_the_device_alone(stats):
    large, ours = matrix(np, (300, 1000)), matrix(np)
    work_on_rows(np, ours, 200)
    assert balance.limit > ours.nbytes
    x = large @ np.ones(1000)
    assert x._storage.host is None
    before = stats().launches
    small = np.ones((20, 300)) * 2
    y = small @ x
    assert y._storage.host is not None
    assert_same(y, numpy.asarray(x) @ numpy.full((300, 20), 2.0), ulp=8)
    assert stats().launches == before + 1  # the large product


@pytest.mark.parametrize("use", [lambda part: part.copy(), lambda part: part.astype("f4")], ids=["copy", "astype"])
def test_parts_of_what_belongs_on_the_host_are_copied_there(use, stats):
    theirs = numpy.arange(float(900 * 100)).reshape(900, 100)
    ours = np.arange(float(900 * 100)).reshape(900, 100)
    np.evaluate(ours)
    balance._settle(NUM_SIZES)
    before = stats()
    for i in range(20):
        assert_same(use(ours[:, i]), use(theirs[:, i]))
    assert stats().launches == before.launches
    assert stats().d2h_bytes - before.d2h_bytes == ours.nbytes


def written_by_a_mask(_xp, x, _places, mask):
    x[mask] = x[mask] * 2


def written(_xp, x, places, mask):
    x[places] = 3
    x[mask] = 4


BY_INDEX = {
    "elements": lambda _xp, x, places, _mask: x[places],
    "chosen": lambda _xp, x, _places, mask: x[mask],
    "written": written,
    "written by a mask": written_by_a_mask,
    "added to": lambda xp, x, places, _mask: xp.add.at(x, places, 2.0),
    "added in slices": lambda xp, x, places, _mask: xp.add.reduceat(x, places),
}


@pytest.mark.parametrize("is_learned", [False, True], ids=["small", "learned"])
@pytest.mark.parametrize("use", BY_INDEX.values(), ids=BY_INDEX)
def test_elements_by_index_that_belong_on_the_host_are_no_fallback(use, is_learned, config, stats):
    config.fallback = "error"
    given = numpy.arange(16384.0 if is_learned else 100.0)
    places, mask = numpy.array([5, 2, 90]), given % 3 > 1
    x, expected = np.asarray(given) * 2, given * 2
    if is_learned:
        np.evaluate(x)
        balance._settle(NUM_SIZES)
    before = stats()
    found, wanted = use(np, x, np.asarray(places), np.asarray(mask)), use(numpy, expected, places, mask)
    assert stats().launches == before.launches
    assert not stats().fallbacks
    config.fallback = "silent"
    for ours, theirs in ((x, expected), *([] if wanted is None else [(found, wanted)])):
        assert_same(ours, theirs)


def test_it_can_be_turned_off(config, stats):
    config.adaptive_placement = False
    work_on_rows(np, matrix(np), 200)
    assert not balance.limit
    assert stats().launches >= 200


def test_another_threshold_begins_anew(config):
    work_on_rows(np, matrix(np), 200)
    assert balance.limit
    config.offload_threshold = 32768
    assert not balance.limit
    config.offload_threshold = 0
    work_on_rows(np, matrix(np), 200)
    assert not balance.limit


def test_explain_says_so():
    with np.explain() as report:
        ours = work_on_rows(np, matrix(np), 200)
        ours = ours + 1
        ours = np.tanh(ours - 2 * ours)  # whose cost is beyond, but not its bytes
    assert all(entry.why for entry in report.entries)
    assert "belong on the host" in str(report)
    assert "little to do with larger arrays" in str(report)


def test_what_the_device_computes_is_reduced_before_it_is_fetched(stats):
    large = matrix(np, (300, 1000))
    work_on_rows(np, matrix(np), 200)
    chosen = np.arange(20)
    assert 65536 <= 20 * 8000 < balance.limit
    before = stats().d2h_bytes
    total = large[chosen].sum(axis=0)
    assert_same(total + 0, matrix(numpy, (300, 1000))[:20].sum(axis=0), ulp=16)
    assert stats().d2h_bytes == before + total.nbytes


def test_a_product_with_a_vector_that_belongs_on_the_host_takes_few_calls():
    x, ours = matrix(np, (300,)), matrix(np, (300, 100))
    host_view(x), host_view(ours)
    balance._settle(4)
    made = x @ ours
    counted = []
    for _ in range(3):
        calls = []
        sys.setprofile(lambda frame, event, _, calls=calls: event == "call" and calls.append(frame.f_code.co_name))
        try:
            made = x @ ours
        finally:
            sys.setprofile(None)
        counted.append(calls)
    assert made._storage.host is not None
    assert min(map(len, counted)) <= 3, counted  # the operator, and placement, which weighs one in `SAMPLED`


def test_functions_of_several_arrays_go_by_the_largest(monkeypatch):
    """Three arrays of 96 KB are the host's where such arrays are, and take the short way there."""
    counts = []
    monkeypatch.setattr(Balance, "takes", lambda _, nbytes, *_rest: counts.append(nbytes) or True)
    arrays = [np.asarray(numpy.arange(12_000.0)) for _ in range(3)]
    for array in arrays:
        host_view(array)
    np.where(*arrays)
    assert counts == [96_000]


def test_a_way_to_the_host_that_did_not_pay_is_gone_later():
    """Small vectors are copied that were not seen to be worked on in turn with large matrices."""
    learned = Balance()

    def step():
        learned.computed_call(0, 32_000, times=1)
        learned.computed_call(8, 400_000, times=1)
        if learned.limit:
            for _ in range(6):
                learned.fetched(32_000)

    changes = [0]
    for i in range(3000):
        before = learned.limit
        step()
        if learned.limit != before:
            changes.append(i)
    assert len(changes) > 3
    stays = [after - before for before, after in itertools.pairwise(changes)]
    there, here = stays[::2], stays[1::2]
    assert all(2 * first < second for first, second in itertools.pairwise(there[:3]))  # on the device, ever longer
    assert max(here) < 2 * min(here)


@pytest.mark.parametrize("nbytes", [9_600_000, 128 << 20], ids=["weighed", "larger"])
def test_what_larger_work_gains_by_far_is_not_given_up_for_small_results(nbytes):
    """Vectors that large matrices are multiplied by stay on the device, whatever has been spared with them by now."""
    learned = Balance()
    num_steps, num_there = 20_000, 0
    for _ in range(num_steps):
        learned.computed_call(learned.ran(32_000, ()), 32_000, times=1)
        learned.computed_call(learned.ran(nbytes, ()), 40 * nbytes, times=1)
        if learned.limit:
            num_there += 1
            learned.fetched(32_000)
            learned.uploaded(32_000, 32_000)
    assert num_there < 0.05 * num_steps
    assert not learned.limit


def test_only_what_is_moved_of_what_belongs_on_the_host_counts():
    learned = Balance()
    learned._settle(9)
    learned._moving = 0.0
    learned.uploaded(9 << 20, 24_000)
    assert learned._between == UPLOAD + 24_000 / COPY_RATE


def test_what_the_host_spares_for_long_is_not_given_up_for_copies_that_cost_less():
    """Rows of a matrix are worked on there, and one in each turn is an operand of larger work."""
    learned = Balance()
    learned._settle(9)
    learned._moving = 0.0
    for _ in range(1000):
        learned.ran(128 << 20, ())
        learned.uploaded(9 << 20, 24_000)
        learned.fetched(24_000)
        for _ in range(4):
            learned.viewed(24_000, 9 << 20)
        assert learned.limit > 9 << 20


def turn(learned, *, is_waited_for=False):
    """Do some work on small vectors with the result of a large matrix, on which the next such work is done."""
    for _ in range(5):
        learned.computed_call(learned.ran(32_000, ()), 32_000, times=1)
    if is_waited_for:
        learned.waited()
    learned.computed_call(learned.ran(9_600_000, ()), 4_000_000, times=1)


def test_small_work_between_large_work_stays_on_the_device():
    learned = Balance()
    for _ in range(3000):
        turn(learned)
        assert not learned.limit


def test_small_work_that_is_waited_for_goes_to_the_host_from_between_large_work():
    learned = Balance()
    for _ in range(200):
        turn(learned, is_waited_for=True)
    assert learned.limit == 65536


def test_what_is_lost_beside_large_gains_does_not_add_up():
    learned = Balance()
    learned.begin(65536, is_adaptive=True)
    for _ in range(1000):
        learned.ran(128 << 10, ())
        learned.waited()  # for what the program begins with
        for _ in range(40):
            learned.computed_call(3, 10_000_000, times=1)
        assert not learned.limit


@pytest.mark.parametrize("is_mixed", [False, True], ids=["heavy", "mixed"])
def test_what_the_host_is_better_at_counts_against_what_the_device_is(is_mixed):
    learned = Balance()
    learned._settle(6)
    for _ in range(1000):
        learned.takes(200_000, 16.0)
        for _ in range(50 if is_mixed else 0):
            learned.takes(100_000, times=1)
    assert bool(learned.limit) == is_mixed


def test_the_first_launches_are_weighed_each_and_those_after_a_wait():
    learned = Balance()
    gain = numpys_microseconds(1_000) - LAUNCH  # which is little, or what is remembered would be less
    for first in (NEW, EACH):
        before = learned._weights[9]
        for number in range(1, first + 3):
            learned.computed_call(9, 1_000)
            expected = number if number <= first else first + SAMPLED * (number - first)
            assert learned._weights[9] == pytest.approx(before + expected * gain)
        learned.waited()
    learned._settle(3)
    assert learned.each == NEW


@pytest.mark.parametrize(("size", "is_sooner"), [(6, True), (9, False)])
def test_middling_arrays_go_sooner_where_the_device_has_gained_nothing(size, is_sooner):
    lost = []
    for gains in (0, 60):
        learned = Balance()
        for number in range(gains):
            learned._weigh(size, 100.0 if number < 50 else -100.0 * 5)  # as much again
        learned._weights[size] = 0.0
        lost.append(0)
        while not learned.limit:
            learned._weigh(size, -100.0)
            lost[-1] += 1
    assert (lost[0] < 0.7 * lost[1]) == is_sooner  # large ones may have begun with small parts


def test_arrays_that_are_back_on_the_device_do_not_leave_at_once():
    learned = Balance()
    learned._settle(5)
    while learned.limit:
        learned._weigh(4, 100.0)
    for _ in range(20):
        learned._weigh(4, -50.0)
    assert not learned.limit


def test_elements_of_large_arrays_that_lie_apart_are_moved_with_what_is_between():
    n = CACHED_NBYTES
    assert num_moved(Layout.at(numpy.dtype(bool), (1000,), (7,), 0), n) == 7000
    assert num_moved(Layout.at(numpy.dtype(bool), (1000,), (700,), 0), n) == 1000 * LINE
    assert num_moved(Layout.at(numpy.dtype(float), (1000,), (-8000,), 8_000_000), n) == 1000 * LINE / 8
    assert num_moved(Layout.at(numpy.dtype(float), (30, 20), (8000, 8), 0), n) == 600
    assert num_moved(Layout.at(numpy.dtype(bool), (1000,), (7,), 0), n - 1) == 1000  # which the host's caches hold


@pytest.mark.parametrize(
    ("work", "is_by_rows"),
    [
        (lambda m, _: m * 2 + m, False),
        (lambda m, _: m[1:] * m[:-1], False),
        (lambda m, v: m * v[0], False),
        (lambda m, v: m * v, True),
        (lambda _, v: v[:, None] * v, True),
        (lambda m, _: m[1:, 1:] + m[1:, :-1], True),
        (lambda m, _: m.__setitem__((slice(None), slice(1, None)), m[:, 1:] * m[0, 0]), True),
        (lambda m, _: m.__setitem__(slice(1, None), m[1:] * m[0, 0]), False),
    ],
)
@pytest.mark.usefixtures("unwatched")
def test_numpy_is_known_to_take_longer_row_by_row(work, is_by_rows, monkeypatch):
    ours = matrix(np)
    vector = np.sqrt(ours[0])
    np.evaluate(ours, vector)
    seen = []
    monkeypatch.setattr(Balance, "computed_chain", lambda *_, is_by_rows=False, **__: seen.append(is_by_rows))
    for _ in range(3 * NEW):
        if (made := work(ours, vector)) is not None:
            np.evaluate(made)
    assert seen
    assert set(seen) == {is_by_rows}


def test_rows_take_numpy_longer():
    graph, *_ = chain(matrix(np))
    weights = []
    for is_by_rows in (False, True):
        learned = Balance()
        learned.begin(65536, is_adaptive=True)
        learned.computed_chain(2, graph.structure, graph.layout.size, is_first=False, is_by_rows=is_by_rows)
        weights.append(learned._weights[2] - (CALL - RECORD - LAUNCH))
    assert weights[1] == pytest.approx(BY_ROWS * weights[0])


def test_what_a_mask_selects_is_weighed_as_in_order(config, monkeypatch):
    config.offload_threshold = 4096
    ours, indices = matrix(np, (5000,)), np.asarray(numpy.arange(2000)[::-1].copy())
    mask = ours > 0.5
    np.evaluate(ours, indices, mask)
    gains = []
    monkeypatch.setattr(Balance, "launched", lambda _, __, gain, **___: gains.append(gain))
    np.evaluate(ours[indices])
    assert gains == [numpys_microseconds(2000 * (BYTES_PER_INDEX + 8)) - TAKE.price]
    places = np.flatnonzero(mask)
    found = ours[places]
    np.evaluate(found)
    cost = found.size * (IN_ORDER * BYTES_PER_INDEX + 8)
    assert gains[-1] == pytest.approx(numpys_microseconds(cost) - TAKE.price)


def test_the_way_to_the_host_gets_longer_where_the_device_gains_more():
    def lengths():
        for _ in range(3):
            ours, count = matrix(np, (40, 1500)), 0
            while not balance.limit:
                work_on_rows(np, ours, 10)
                count += 1
            yield count
            ours = matrix(np, (40, 1500))
            while balance.limit:
                ours = np.sqrt(ours * ours + 1.0) * 0.5

    _, second, third = lengths()  # at first there is more to learn
    assert third > 1.5 * second
