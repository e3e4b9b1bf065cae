"""Crossovers with routines that take as long as the tests say: what is found, what is kept, what is never guessed."""

import json
import math

import numpy as np
import pytest

import oxinp
from oxinp._core.ops.crossover import DEFAULTS, MAX_COUNT, MAX_ORDER, SMALL, Crossover, choice, crossover
from oxinp._runtime.tuned import Database
from oxinp._tune import command, crossovers
from oxinp._tune.problems import problems
from oxinp._tune.routines import ROUTINES, Routine, operands
from tests.tune.toys import tuner_of


class Clock:
    """Seconds that pass while routines run, by the matrices that they are given."""

    def __init__(self):
        self.now = 0.0
        self.calls = []

    def __call__(self):
        return self.now

    def routine(self, host, device):
        """Both sides of a routine, of functions of order and number."""

        def side(seconds):
            def run(a):
                order, count = a.shape[-1], math.prod(a.shape[:-2])
                self.calls.append((seconds is device, order, count))
                self.now += seconds(order, count)
                return a

            return run

        return Routine(side(host), side(device))


def host(order, count):
    return 1e-6 * count * (order / SMALL) ** 3


def device(order, count):
    return 200e-6 + 1e-9 * count * order


def measured(backend, clock, routine, deadline=math.inf, sizes=((2048,),)):
    (problem,) = problems(["placement"], ["float64"], list(sizes), ["inv"])
    search = crossovers.Crossovers(backend, clock, {"inv": routine})
    with search.open():
        return list(search.tune(problem, deadline))


def test_both_crossovers_are_where_the_sides_take_as_long(backend):
    clock = Clock()
    (outcome,) = measured(backend, clock, clock.routine(host, device))
    order, resident, count = outcome.row.answer.values()
    assert resident == pytest.approx(order, rel=0.1)  # fetching takes no time by this clock
    assert host(order, 1) == pytest.approx(device(order, 1), rel=0.05)
    assert host(SMALL, count) == pytest.approx(device(SMALL, count), rel=0.05)
    assert outcome.is_complete
    assert outcome.row[:4] == ("placement/inv", ("f64",), (), (1,))
    assert outcome.row.seconds < outcome.row.default_seconds  # else the row would say nothing
    assert outcome.num_tried <= 12  # by bisection


def test_what_the_device_never_wins_is_the_hosts(backend, monkeypatch):
    monkeypatch.setattr(crossovers, "LARGEST_NBYTES", 1 << 20)
    clock = Clock()
    slow = clock.routine(host, lambda order, count: 2 * host(order, count))
    (outcome,) = measured(backend, clock, slow, sizes=[(256,)])
    assert outcome.row.answer["order"] == MAX_ORDER
    assert max(order for _, order, _ in clock.calls) == 256
    assert Crossover(**outcome.row.answer).cost(8192, 1) < 65536


def test_what_the_device_always_wins_is_its_own(backend):
    clock = Clock()
    (outcome,) = measured(backend, clock, clock.routine(host, lambda *_: 1e-9))
    assert Crossover(**outcome.row.answer) == (SMALL, SMALL, 1)


def test_stacks_without_kernels_are_never_the_devices(backend):
    clock = Clock()
    routine = clock.routine(host, device)._replace(has_stacks=False)
    (outcome,) = measured(backend, clock, routine)
    assert outcome.row.answer["count"] == MAX_COUNT
    assert all(count == 1 for *_, count in clock.calls)
    assert Crossover(**outcome.row.answer).cost(SMALL, 1000) < 65536


def test_no_answer_without_the_time_for_it(backend):
    clock = Clock()
    (outcome,) = measured(backend, clock, clock.routine(host, device), deadline=1e-4)
    assert outcome.row is None
    assert not outcome.is_complete


def test_no_memory_on_the_device_is_no_win(backend):
    clock = Clock()

    def refuse(order, count):
        if order > 128:
            raise MemoryError
        return device(order, count)

    (outcome,) = measured(backend, clock, clock.routine(host, refuse), sizes=[(256,)])
    assert outcome.num_refused
    assert outcome.row.answer["order"] == MAX_ORDER


def test_the_command_keeps_them_and_placement_uses_them(backend, tmp_path, config, capsys):
    config.cache_dir = str(tmp_path)
    data, clock = Database((8, 0), tmp_path), Clock()
    search = crossovers.Crossovers(backend, clock, {"inv": clock.routine(host, device)})
    searches = command.Searches(tuner_of(backend), search)
    options = command._options(["--family", "placement", "--json", str(tmp_path / "found.json")])
    chosen = list(problems(["placement"], ["float64"], [], ["inv"]))
    assert command._tune(searches, data, chosen, options) == 0
    assert "placement/inv float64" in capsys.readouterr().out
    (told,) = json.loads((tmp_path / "found.json").read_text())
    before = backend.capability
    backend.capability = before.replace(tuned=data)
    try:
        found = crossover("inv", np.dtype("f8"))
        assert found._asdict() == told["row"]["answer"]
        assert crossover("inv", np.dtype("f4")) == DEFAULTS["inv"]
    finally:
        backend.capability = before
    command._show(searches, data, chosen)
    assert "placement/inv" in capsys.readouterr().out


def test_a_crossover_by_number_and_order():
    found = Crossover(256, 128, 64)
    assert found.power == 2
    assert found.cost(256, 1) == found.cost(SMALL, 64) == found.cost(128, 4) == 65536
    assert found.cost(64, 4, is_resident=True) == 65536
    assert Crossover(SMALL, 1, 1).cost(SMALL, 1) == 65536
    assert choice("inv", np.dtype("f8")).is_legal(found)
    assert not choice("inv", np.dtype("f8")).is_legal(Crossover(0, 1, 1))


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=() if x in ("solve", "cholesky", "eig") else pytest.mark.slow) for x in ROUTINES]
)
@pytest.mark.usefixtures("on_device", "backend")
def test_every_routine_computes_on_both_sides(name, stats):
    routine = ROUTINES[name]
    count = 1 + routine.has_stacks
    arrays = operands(routine, np.dtype("c8"), 3, count)
    assert arrays[0].shape == ((2, 3, 3) if count > 1 else (3, 3))
    routine.theirs(*arrays)
    crossovers.on_device(routine, arrays)
    held = [oxinp.asarray(x) for x in arrays]
    crossovers.from_device(routine, held)
    crossovers.fetched(held)
    assert stats().launches
    assert all("QR iterations" in fallback for fallback in stats().fallbacks)


def test_every_routine_that_is_measured_has_a_default():
    assert set(ROUTINES) <= set(DEFAULTS)
