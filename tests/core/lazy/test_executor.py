"""The executor: steps of plans, on a backend that notes what it is asked for, and on the emulator."""

# ruff: noqa: ICN001 - oxinp is np

from types import SimpleNamespace

import numpy
import pytest

import oxinp as np
from oxinp import _runtime
from oxinp._core.lazy import executor, steps
from oxinp._core.lazy.executor import Executable
from oxinp._kernels.plan import FLAGS, SCRATCH, Argument, Beside, Copy, Fill, Launch, Plan, Read


class Noting:
    """A backend whose launches, maps and allocations are noted."""

    flags = 77
    pool = SimpleNamespace(notes_uses=False)

    def __init__(self):
        self.made, self.launched, self.allocated, self.shapes, self.relaunched = [], [], [], [], []
        self.is_recording, self.num_recorded, self.num_queued = True, 0, 0

    def launcher(self, *given):
        self.shapes.append(given)
        return lambda *values: self.launched.append(values)

    def relauncher(self, *given):
        self.relaunched.append(given)
        return lambda _, *values: self.launched.append(values)

    def tensor_map(self, spec, address):
        self.made.append((spec, address))
        return self.made[-1]

    def record(self, queue):
        if not self.is_recording:
            return None
        self.num_recorded += 1

        def queue_again():
            self.num_queued += 1
            queue()

        return queue_again

    def allocate(self, nbytes):
        self.allocated.append(nbytes)
        return SimpleNamespace(ptr=1000 * len(self.allocated))


@pytest.fixture
def noting(monkeypatch):
    backend = Noting()
    monkeypatch.setattr(executor, "device", lambda: backend)
    monkeypatch.setattr(steps, "device", lambda: backend)
    return backend


KERNEL = SimpleNamespace(cluster=None)


def launch(*arguments, constants=()):
    return Launch(KERNEL, (1, 1, 1), arguments, constants)


def test_parameters_of_launches_are_made_once_per_address(noting):
    arguments = (Argument("out0"), Argument("in0", 8, "map"), Argument("in2"))
    run = Executable(Plan((launch(*arguments),)), (4,), [None] * 3)
    for c, a in ((100, 200), (101, 200), (100, 200)):
        run.launch(c, a, 300, 7)
        assert noting.launched[-1] == (c, ("map", a + 8), 7)
    run = Executable(Plan((launch(*arguments[:2]),)), (4,), [None])
    for a in (*range(2 * steps.MAX_KEPT), 200):
        run.launch(100, a)
        assert noting.launched[-1] == (100, ("map", a + 8))
        assert len(run.steps[0].calls) <= steps.MAX_KEPT
    assert len(noting.made) == 1 + 2 * steps.MAX_KEPT + 1


def test_first_launches_go_by_what_launches_anywhere(noting):
    run = Executable(Plan((launch(Argument("out0"), Argument("in0"), constants=(7, 8)),)), (4,), [None])
    for i in range(steps.BRIEF_LAUNCHES):
        run.launch(100, i)
    assert noting.launched == [(100, i, 7, 8) for i in range(steps.BRIEF_LAUNCHES)]
    assert noting.relaunched == [(KERNEL, 2, True)]
    assert not noting.shapes
    run.launch(100, 5)
    assert noting.launched[-1] == (100, 5)  # by one of its own, which has its grid and constants
    assert len(noting.shapes) == 1


def test_launches_that_are_watched_go_one_way(noting):
    noting.relauncher = lambda *_: None
    run = Executable(Plan((launch(Argument("out0"), Argument("in0"), constants=(7, 8)),)), (4,), [None])
    for i in range(steps.BRIEF_LAUNCHES + 2):
        run.launch(100, i)
    assert noting.launched == [(100, i) for i in range(steps.BRIEF_LAUNCHES + 2)]
    assert len(noting.shapes) == 1


def test_a_plan_of_many_launches_runs_all_of_them(noting):
    many = [launch(Argument("out0"), SCRATCH, Argument("in0"), Argument("flags")) for _ in range(5)]
    run = Executable(Plan(tuple(many), 64), (8,), [None])
    run.run((SimpleNamespace(ptr=5),))
    assert noting.allocated == [8, 64]
    assert noting.launched == [(1000, 2000, 5, 77)] * 5


def test_a_plan_of_one_launch_is_given_its_workspace_and_flags(noting):
    arguments = (Argument("in1"), SCRATCH, Argument("out0"), Argument("flags"), Argument("in0"))
    run = Executable(Plan((launch(*arguments),), 64), (8,), [None, None])
    run.launch(100, 5, 6)
    assert noting.allocated == [64]
    assert noting.launched == [(6, 1000, 100, 77, 5)]
    run.launch(100, 5, 6, scratch=SimpleNamespace(ptr=3))
    assert noting.allocated == [64]
    assert noting.launched[1:] == [(6, 3, 100, 77, 5)]
    run = Executable(Plan((launch(Argument("in0")),)), (), [None])
    run.launch(9)
    assert noting.launched[2:] == [(9,)]


def many_steps(kinds=(None,), num_steps=steps.MIN_RECORDED):
    step = launch(Argument("out0"), Argument("in0"))
    half = num_steps // 2
    return Executable(Plan((Beside((step,) * half, (step,) * (num_steps - half)),)), (8,), list(kinds))


def run_at(noting, run, *addresses):
    """Run at addresses of outputs; return how many runs were queued as one."""
    before, noting.num_queued = noting.num_queued, 0
    for address in addresses:
        noting.launched.clear()
        run.launch(address, 5)
        assert noting.launched == [(address, 5)] * len(noting.launched)
        assert len(noting.launched) == steps.MIN_RECORDED
    found, noting.num_queued = noting.num_queued, before
    return found


@pytest.fixture
def beside(noting):
    noting.beside = lambda urgent, rest: (urgent(), rest())
    return noting


def test_many_steps_with_the_same_memory_are_recorded(beside):
    run = many_steps()
    before = [1] * steps.RUNS_UNRECORDED
    assert run_at(beside, run, *before) == 0
    assert run_at(beside, run, 1, 1, 1) == 3
    assert beside.num_recorded == 1
    assert run_at(beside, run, *[2, 3] * steps.RUNS_UNRECORDED) == 0
    assert run_at(beside, run, 1, 2, 3, 1, 2, 3) == 6
    assert beside.num_recorded == 3


def test_few_recordings_are_kept(beside):
    run = many_steps()
    places = range(1, steps.MAX_RECORDED + 2)
    for address in places:
        run_at(beside, run, *[address] * (steps.RUNS_UNRECORDED + 1))
    assert beside.num_recorded == len(places)
    assert run_at(beside, run, *places[1:]) == len(places) - 1
    assert run_at(beside, run, *[places[0]] * steps.RUNS_UNRECORDED) == 0
    assert run_at(beside, run, places[0]) == 1


def test_memory_that_never_comes_back_is_not_remembered(beside):
    run = many_steps()
    assert run_at(beside, run, *range(1, 100), 1) == 0
    assert len(run._queue.counts) <= 4 * steps.MAX_RECORDED
    assert not beside.num_recorded


def test_steps_on_the_workspace_are_recorded_wherever_results_are(beside):
    beside.allocate = lambda nbytes: SimpleNamespace(ptr=nbytes)
    beside.fill = lambda ptr, *_: beside.launched.append(("fill", ptr))
    within = launch(SCRATCH.at(16), Argument("flags"))
    first, last = launch(SCRATCH, Argument("in0")), launch(Argument("out0"), SCRATCH)
    many = (Fill(SCRATCH, 0, 8), *(within,) * steps.MIN_RECORDED)
    wanted = [("fill", 64), *[(80, 77)] * steps.MIN_RECORDED]
    for kinds, given, value in (([None], 5, 5), ([numpy.dtype("f8")], 2.5, 2.5)):
        run = Executable(Plan((first, *many, last), 64), (8,), kinds)
        before = beside.num_recorded, beside.num_queued
        for address in range(100, 100 + steps.RUNS_UNRECORDED + 3):
            beside.launched.clear()
            run.launch(address, given)
            assert beside.launched == [(64, value), *wanted, (address, 64)]
        assert (beside.num_recorded, beside.num_queued) == (before[0] + 1, before[1] + 3)
    few = Executable(Plan((*(first,) * steps.MIN_RECORDED, *many[: steps.MIN_RECORDED // 2], last), 64), (8,), [None])
    for _ in range(steps.RUNS_UNRECORDED + 3):  # most of which read the operand
        few.launch(7, 5)
    assert [*few._queue.recorded] == [(7, 64, 77, 5)]


def test_steps_before_words_that_are_read_are_recorded(beside):
    beside.download = lambda words, address: words.fill(address)
    step = launch(Argument("in0"), SCRATCH)
    following = Plan((launch(Argument("out0"), SCRATCH),))
    beside.allocate = lambda nbytes: SimpleNamespace(ptr=nbytes)
    plan = Plan((*(step,) * steps.MIN_RECORDED, Read(SCRATCH)), 64, then=lambda _: following)
    run = Executable(plan, (8,), [None])
    for _ in range(5):
        beside.launched.clear()
        _, words = run.run_sized((SimpleNamespace(ptr=5),), lambda _: [8])
        assert words == (64,)
        assert beside.launched == [(5, 64)] * steps.MIN_RECORDED + [(8, 64)]
    assert beside.num_recorded == 1
    assert beside.num_queued == 5 - steps.RUNS_UNRECORDED


def test_launches_beside_others_wait_for_the_one_before(beside):
    one, step = launch(Argument("out0")), launch(Argument("in0", 8))
    run = Executable(Plan((one, Beside((one, step), (step,)), one)), (8,), [None])
    run.launch(1, 5)
    assert [overlaps for *_, overlaps in beside.relaunched] == [True, False, False, False, True]
    for _ in range(steps.BRIEF_LAUNCHES):
        run.launch(1, 5)
    assert [overlaps for *_, overlaps in beside.shapes] == [True, False, False, False, True]


def test_what_cannot_be_recorded_is_queued_step_by_step(beside):
    beside.is_recording = False
    assert run_at(beside, many_steps(), *[1] * 10) == 0


@pytest.mark.parametrize("kind", ["f8", "c16"])
def test_steps_with_scalars_are_not_recorded(beside, kind):
    run = many_steps((None, numpy.dtype(kind)))
    for _ in range(10):
        run.launch(1, 5, *(0.0, 0.0)[: 1 + (kind == "c16")])
    assert not beside.num_recorded


def test_few_steps_are_not_recorded(beside):
    run = many_steps(num_steps=steps.MIN_RECORDED - 1)
    for _ in range(10):
        run.launch(1, 5)
    assert not beside.num_recorded


def test_complex_scalars_are_two_parameters(noting):
    kinds = [None, numpy.dtype("c16"), numpy.dtype("f8")]
    run = Executable(Plan((launch(Argument("out0"), Argument("in2"), Argument("in1"), Argument("in0")),)), (8,), kinds)
    run.run((SimpleNamespace(ptr=5), 1 + 2j, 3.0))
    assert noting.launched == [(1000, 3.0, 1.0, 2.0, 5)]
    run = Executable(Plan((launch(Argument("out0"), Argument("in0"), Argument("in1"), Argument("in2")),)), (8,), kinds)
    assert run.is_single
    assert not run.arrays_only
    run.run((SimpleNamespace(ptr=5), 1 + 2j, 3.0))
    assert noting.launched[-1] == (2000, 5, 1.0, 2.0, 3.0)


def test_a_plan_without_steps_launches_nothing(noting):
    run = Executable(Plan(()), (0,), [None])
    run.run((SimpleNamespace(ptr=5),))
    assert not noting.launched


def test_fills_copies_and_reads_do_what_they_say():
    np.ones(3)
    backend = _runtime.current()
    source = numpy.arange(4, dtype=numpy.int64)
    held = backend.allocate(source.nbytes)
    backend.upload(held.ptr, source)
    word = Argument("scratch", 256)
    steps = (Fill(word, 16, 255), Copy(word, Argument("in0", 24), 8), Read(word, 2))
    then = []
    plan = Plan(steps, 512, then=lambda words: then.append(words) or Plan((Copy(Argument("out0"), word, 8),)))
    (made,), words = Executable(plan, (8,), [None]).run_sized((held,), lambda words: [8 * len(words)])
    assert words == (3, -1)
    assert then == [(3, -1)]
    found = numpy.empty(1, numpy.int64)
    backend.download(found, made.ptr)
    assert found == 3


def test_steps_beside_others_are_queued_on_both_sides_of_a_branch(noting):
    def beside(urgent, rest):
        noting.launched.append("fork")
        urgent()
        rest()
        noting.launched.append("join")

    noting.beside = beside
    out, held = Argument("out0"), Argument("in0")
    sides = Beside((launch(out), launch(out, held)), (launch(held, out, held.at(4)),))
    run = Executable(Plan((launch(held), sides, launch(out))), (8,), [None])
    run.launch(100, 200)
    assert noting.launched == [(200,), "fork", (100,), (100, 200), (200, 100, 204), "join", (100,)]


def test_flags_may_be_used_beside_others(noting):
    noting.beside = lambda urgent, rest: (urgent(), rest())
    run = Executable(Plan((Beside((launch(Argument("out0")),), (launch(FLAGS),)),)), (8,), [None])
    run.launch(100, 200)
    assert noting.launched == [(100,), (77,)]


def test_emulated_steps_beside_others():
    np.ones(3)
    backend = _runtime.current()
    sides = Beside((Fill(Argument("out0"), 4, 1),), (Fill(Argument("out1"), 4, 2), Copy(Argument("out2"), SCRATCH, 4)))
    made = Executable(Plan((Fill(SCRATCH, 4, 3), sides), 4), (4, 4, 4), []).run_all(())
    found = numpy.empty(4, numpy.uint8)
    for value, buffer in enumerate(made, 1):
        backend.download(found, buffer.ptr)
        assert found.tolist() == 4 * [value]
