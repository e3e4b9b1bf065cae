"""Statements whose parts overlap what they read: the whole array is written anew, by one launch."""

import numpy as np
import pytest

import oxinp
from oxinp._core.lazy import rewriting
from oxinp._core.lazy.balance import balance
from oxinp._runtime.memory import Buffer
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("on_device", "unwatched")

STATEMENTS = {
    "a[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])": (160, 170),
    "a[1:, 2:] = a[:-1, :-2] * 0.5 + c[2:]": (160, 170),
    "a[:-1] = (a[1:] + a[:-1]) * 0.5": (160, 170),
    "a[1:-1] = 0.33 * (a[:-2] + a[1:-1] + a[2:])": (30_000,),
    "a[1:-1, 1:-1, 1:-1] = a[:-2, 1:-1, 1:-1] * 0.5 + a[1:-1, 2:, 1:-1] * 0.25": (14, 30, 60),
    "a[:, 1:, :, 1:] = a[:, :-1, :, :-1] + 0.1": (6, 14, 30, 9),
    "a[1:, 1:] = a[:-1, :-1] * 2.0 + a[0, 0]": (160, 170),
}


def step_of(statement):
    code = compile(statement, "statement", "exec")

    def step(xp, a, c):
        exec(code, {"np": xp, "a": a, "c": c})  # noqa: S102 - a table of statements

    return step


def given(shape, dtype="f8"):
    rng = np.random.default_rng(7)
    return [(rng.random(n) * 8).astype(dtype) for n in (shape, shape[-1:])]


@pytest.fixture(autouse=True)
def _stays():
    with balance.suspended():
        yield


@pytest.mark.parametrize("machine_code", [False, True])
@pytest.mark.parametrize("dtype", ["f8", "f4", "c16"])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_what_overlaps_is_written_by_one_launch(statement, dtype, machine_code, launches, config):
    config.machine_code = machine_code
    numpys = given(STATEMENTS[statement], dtype)
    ours = [oxinp.array(x) * 1 for x in numpys]
    oxinp.evaluate(*ours)
    step, counts = step_of(statement), []
    for _ in range(12):
        counts.append(launches(lambda: step(oxinp, *ours)))
        step(np, *numpys)
    if dtype != "c16":  # numbers of which are two parameters
        assert counts[-1] == 1, counts
    assert_same(ours[0], numpys[0])


def repeat(a, times=12):
    for _ in range(times):
        a[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])


def test_views_see_what_is_written_and_readers_what_was():
    found = []
    for xp in (np, oxinp):
        a = xp.array(given((160, 170))[0])
        row, column = a[5], a[:, 7]
        repeat(a)
        before, total = a[3:] * 2.0, a.max(axis=1)
        held = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
        later = held + 1.0
        a[1:-1, 1:-1] = held
        row[9] = 3.0
        a[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
        column += 1.0
        found.append([a, row, column, before, total, held, later, held * 2.0])
    for ours, wanted in zip(found[1], found[0], strict=True):
        assert_same(ours, wanted)


def test_settings_that_change_are_heeded(config):
    wanted = given((160, 170))[0]
    a = oxinp.array(wanted) * 1.0
    for _ in range(3):
        repeat(a)
        repeat(wanted)
        config.renew()
    assert_same(a, wanted)


def test_where_there_is_no_memory_for_all_the_part_is_computed_elsewhere(monkeypatch):
    wanted = given((160, 170))[0]
    a = oxinp.array(wanted) * 1.0
    repeat(a)
    tried = []

    def fail(*_):
        tried.append(1)
        raise MemoryError

    step = step_of("a[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])")
    with monkeypatch.context() as patch:
        patch.setattr(rewriting.Executable, "run", fail)
        assert not rewriting.assign(
            a, (slice(1, -1),) * 2, 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
        )
    assert tried
    step(oxinp, a, None)
    repeat(wanted, 13)
    assert_same(a, wanted)


def test_small_parts_are_not_worth_all_of_it():
    numpys = given((160, 170))
    ours = [oxinp.array(x) * 1 for x in numpys]
    step = step_of("a[1:9, 1:] = a[:8, :-1] * 0.5")
    for _ in range(12):
        step(oxinp, *ours)
        step(np, *numpys)
    assert type(ours[0]._storage.value[1][0]) is Buffer
    before = ours[0]._storage.value[1][0]
    step(oxinp, *ours)
    step(np, *numpys)
    assert ours[0]._storage.value[1][0] is before
    assert_same(ours[0], numpys[0])
