"""What runs over a program's whole life: memory, tables, settings, reports, starting work early."""

# ruff: noqa: ARG001, ICN001 - fixtures that set up, and oxinp is np

import gc
import threading
from weakref import ref

import numpy
import pytest

import oxinp as np
from oxinp import _runtime
from oxinp._core.lazy import chains, explain, expr, fused_views, placement, schedule
from oxinp._core.lazy.building import Missing
from oxinp._core.memory import layout
from tests.comparator import assert_same


def _used_nbytes():
    np.evaluate()
    gc.collect()
    return np.cuda.memory_stats().used_nbytes


def _mixed(rng, arrays):
    """Do one operation of a program that reads, writes, views, copies and forgets."""
    x, y = (arrays[int(i)] for i in rng.integers(0, len(arrays), 2))
    low = int(rng.integers(0, 40))
    match int(rng.integers(0, 13)):
        case 0:
            arrays[low % len(arrays)] = x + y
        case 1:
            arrays[low % len(arrays)] = np.sqrt(x * x) * 0.5
        case 2:
            x[low : low + 10] = y[5:15]
        case 3:
            x *= 0.5
        case 4:
            x[1:] = x[:-1]
        case 5:
            arrays[low % len(arrays)] = np.where(x > y, x, y[::-1])
        case 6:
            x[low] = float(y.sum())
        case 7:
            x -= y.max()
        case 8:
            arrays[low % len(arrays)] = x.copy()
        case 9:
            x[low] += y[low]
        case 10:
            repr(x[low:])
        case 11:
            np.cumsum(x, out=y)
            y[...] = x
        case 12:
            arrays[low % len(arrays)] = np.asarray(numpy.asarray(x)).astype(np.float32).astype(np.float64)


@pytest.mark.parametrize("threshold", [0, 400])
@pytest.mark.filterwarnings("ignore")
def test_memory_returns_to_where_it_began(config, threshold):
    config.offload_threshold = threshold
    rng = numpy.random.default_rng(5)
    began = _used_nbytes()
    arrays = [np.arange(100.0) + i for i in range(4)]
    with numpy.errstate(all="ignore"):
        for _ in range(1200):
            _mixed(rng, arrays)
            assert len(schedule.PENDING) <= schedule.MAX_PENDING + 1
    # Four arrays, some of them twice (an outdated copy on the device beside the host's).
    assert _used_nbytes() - began <= 4 * 2 * 1024
    arrays.clear()
    assert _used_nbytes() == began
    assert not schedule.pending_storages()


def test_pending_temporaries_do_not_pile_up(on_device):
    x = np.arange(10.0)
    for _ in range(3 * schedule.MAX_PENDING):
        x + 1
    assert len(schedule.PENDING) <= schedule.MAX_PENDING + 1


def test_many_pending_arrays_are_flushed_together(on_device, stats):
    x = np.arange(10.0)
    np.evaluate()
    before = stats().launches
    kept = [x + i for i in range(schedule.MAX_ALIVE + 20)]
    x[0] = 5
    y = kept[7] * 2
    np.evaluate(y)
    assert stats().launches - before <= len(kept) + 2
    assert_same(kept[-1], numpy.arange(10.0) + schedule.MAX_ALIVE + 19)
    assert_same(y, (numpy.arange(10.0) + 7) * 2)


def test_views_of_a_chain_are_bounded(on_device):
    x = np.asarray(numpy.arange(5000.0))
    np.evaluate(x * 2)  # what runs once is not kept
    for i in range(fused_views.MAX_VIEWS + 50):
        assert ((x * 2)[i : i + 20] + 1).shape == (20,)
    graph = (x * 2)._storage.value[0]
    assert 0 < len(graph.views) <= fused_views.MAX_VIEWS


def test_tables_of_records_are_bounded(on_device, monkeypatch):
    monkeypatch.setattr(expr, "MAX_RECORDS", 100)
    before = max(len(layout.INTERNED), len(layout.CONTIGUOUS))
    for n in range(2, 200):
        x = np.arange(float(n))
        y = x[1:] + x[:-1]
        assert_same(y + x[0], numpy.arange(1.0, 2 * n - 2, 2))
        assert sum(map(len, expr._TABLES)) <= 200
        assert max(len(layout.INTERNED), len(layout.CONTIGUOUS)) <= before + 4000


def test_places_in_an_array_share_programs(on_device, monkeypatch):
    backend = _runtime.current()
    made = []
    make = backend.launcher
    monkeypatch.setitem(vars(backend), "launcher", lambda *args: made.append(args[:5]) or make(*args))
    x, y = np.zeros((100, 32)), np.arange(32.0)
    np.evaluate()
    made.clear()
    for i in range(99):
        x[i + 1] = x[i] + y
    assert len({str(args) for args in made}) <= 2
    theirs = numpy.arange(32.0) * numpy.arange(100)[:, None]
    assert_same(x, theirs)


def test_programs_of_one_expression_are_bounded(on_device, monkeypatch):
    monkeypatch.setattr(chains, "MAX_PROGRAMS", 20)
    x, y = np.zeros(6000), np.arange(3.0)
    np.evaluate()
    graph = (y * 2)._storage.value[0]
    most = 0
    for step in range(1, 100):
        chains.find(graph, target=x[: 3 * step : step]._layout)
        most = max(most, len(graph.programs))
        x[: 3 * step : step] = y * 2
        most = max(most, len(graph.programs))
    assert most == 20
    assert_same(x[:4], numpy.array([0, 2, 2, 2.0]))


def test_tables_that_are_emptied_change_no_value(on_device, twin, monkeypatch):
    monkeypatch.setattr(layout.INTERNED, "room", 3)
    monkeypatch.setattr(expr, "MAX_RECORDS", 2)

    def body(xp):
        x = xp.arange(30.0).reshape(5, 6)
        y = x * 2
        v = y[1:]
        z = (y + x)[::2] - x[::2].sum(axis=0)
        v += 1
        y[:, 1] = x[:, 2]
        y *= y
        return x, y, v, z, y.T.max(axis=0), y[2, 2]

    twin(body)


def test_evaluate_starts_work_and_waits_for_none(on_device, stats):
    x = np.arange(10.0)
    y, z, s = x + 1, x + 2, (x * 2).sum()
    before = stats().launches
    np.evaluate(y, 5, None, [z])
    assert stats().launches == before + 1  # y, and x on the way
    assert not x._storage.value[0].nodes
    np.evaluate(s)
    np.evaluate(s, y)
    assert stats().launches == before + 2
    np.evaluate()
    assert stats().launches == before + 3
    assert stats().d2h_bytes == 0
    assert np.evaluate(np.ones(0)) is None


def test_synchronize_computes_what_is_pending(on_device, stats):
    y = np.arange(10.0) * 2
    assert stats().launches == 0
    np.cuda.synchronize()
    assert stats().launches == 1
    assert not y._storage.value[0].nodes


def test_synchronous_is_switched_in_mid_program(config, offload_threshold, twin):
    def body(xp):
        x = xp.arange(10.0)
        y = x * 2
        config.synchronous = True
        z = y + x
        x[3:] = z[:-3]
        config.synchronous = False
        return x, y, z, (x + z).sum()

    twin(body)


def test_backend_is_switched_off_and_on(config, on_device, twin):
    def body(xp):
        x = xp.arange(10.0)
        y = x * 2
        host = numpy.asarray(x).sum()
        config.backend = "host"
        made = xp.arange(4.0) + 1
        config.backend = "emulator" if _runtime.current() is None else config.backend
        return y + 1, made, host

    if _runtime.current().name != "emulator":
        pytest.skip("other backends are not opened beside it")
    twin(body)


def test_explain_says_where_and_why(config):
    config.offload_threshold = 400
    x = np.asarray(numpy.arange(100.0))
    small = np.asarray(numpy.arange(3.0))
    with np.explain() as report:
        y = (x * 2 + 1).sum()
        assert float(y) > 0
        small + 1
        np.poly(small)
    where = [entry.where for entry in report.entries]
    assert where == ["device", "copy", "host", "fallback"]
    assert all(entry.line.rpartition(":")[0] == __file__ for entry in report.entries)
    assert "multiply add sum -> float64 ()" in str(report)
    assert str(report) == repr(report)
    count = len(report.entries)
    x + 1
    assert len(report.entries) == count
    assert not explain.REPORTS


def test_reports_nest_and_change_no_result(offload_threshold, twin):
    def body(xp):
        x = xp.arange(20.0)
        y = x * 2
        with np.explain():
            z = y + x
            with np.explain() as inner:
                x[2:] = z[2:]
                s = x.sum()
            z *= s
        assert inner.entries or xp is numpy
        return x, y, z, s

    twin(body)


def test_element_loops_of_two_arrays_fetch_both_once(config, stats):
    config.offload_threshold = 4096
    a, b = np.arange(1000.0), np.zeros(1000)
    for i in range(300):
        b[i] = a[i] * 2
    assert stats().d2h_bytes <= a.nbytes + b.nbytes + 2 * placement.ACCESSES_BEFORE_MIRROR * 8
    assert_same(b[290:301], numpy.array([*numpy.arange(580.0, 600, 2), 0]))


def test_element_loops_with_everything_on_the_device(on_device, stats):
    a, b = np.arange(1000.0), np.zeros(1000)
    for i in range(100):
        b[i] = a[i] * 2 + b[i]
    # What is written is written there, which ends its mirror; what is only read keeps its own.
    num_accesses = 2 * 100
    assert stats().d2h_bytes <= a.nbytes + b.nbytes * num_accesses // placement.ACCESSES_BEFORE_MIRROR
    assert_same(b[:3], numpy.array([0, 2, 4.0]))


def test_mirrors_of_forgotten_arrays_are_forgotten(on_device):
    for _ in range(50):
        x = np.arange(10.0)
        x[3]
    assert len(placement.accesses) <= placement.MAX_IN_TURN


def test_elements_that_a_loop_keeps_are_computed_in_turn(on_device, stats):
    """Or each flush would look at all of them."""
    x, kept, turns = np.arange(100_000.0), [], 3 * schedule.MAX_ELEMENTS
    np.evaluate(x)
    before = stats().launches
    for i in range(turns):
        y = x * float(i)
        kept.append(-np.mean(y))
        np.evaluate(y)
        assert len(schedule.pending_storages()) <= schedule.MAX_ELEMENTS + 1
    np.evaluate()
    assert stats().launches - before <= 4 * turns
    assert [float(element) for element in kept] == [-numpy.mean(numpy.arange(100_000.0) * i) for i in range(turns)]


def test_elements_made_of_each_other_are_computed_once(on_device, stats):
    x = np.arange(100_000.0)
    mean = np.mean(x * 2.0)
    kept = [mean * float(i) for i in range(schedule.MAX_ELEMENTS + 4)]
    np.evaluate(x + 1.0)
    before = stats().launches
    np.evaluate(x + 2.0)
    assert stats().launches == before + 1  # all others have been computed
    assert [float(element) for element in kept] == [99_999.0 * i for i in range(len(kept))]


def test_what_threads_record_while_calls_flush_stays_known(on_device, monkeypatch):
    """Memory for a call that waits may take a flush, during which another thread records: neither forgets for both."""
    a, b = np.ones(64), np.arange(64.0)
    np.evaluate(a, b)
    kept = [b + float(i) for i in range(schedule.MAX_TOGETHER + 8)]
    recorded, flushes, run_calls = [], [], schedule.run_calls

    def run_calls_with_a_flush(is_meant=None):
        if not flushes:
            flushes.append(True)
            try:
                schedule.flush_device()
            except Missing:  # a kernel: all of this is done again
                flushes.clear()
                raise
            thread = threading.Thread(target=lambda: recorded.append(a + 1.0))
            thread.start()
            thread.join()
        run_calls(is_meant)

    monkeypatch.setattr(schedule, "run_calls", run_calls_with_a_flush)
    schedule.flush_all()
    a[:10] = 99.0
    assert recorded[0].tolist() == [2.0] * 64
    assert kept[-1][1] == schedule.MAX_TOGETHER + 8


@pytest.mark.parametrize("make", [
    lambda xp, x: [xp.fft.fft(x)],
    lambda xp, x: [xp.sort(x)],
    lambda xp, x: [xp.cumsum(x) + 1],
    lambda xp, x: list(xp.linalg.slogdet(xp.eye(5) * (x + 1))),
], ids=["transform", "sort", "chain", "two results"])  # fmt: skip
def test_finalisers_of_cycles_read_what_is_pending(make, on_device):
    """The garbage collector clears weak references to all that goes before it calls the first of them."""
    found = {}

    class Node:
        def __init__(self, xp):
            self.own = self
            self.name = xp.__name__
            self.results = make(xp, xp.arange(5.0))

        def __del__(self):
            found[self.name] = [(numpy.asarray(x), abs(x).sum()) for x in self.results]

    Node(numpy)
    Node(np)
    gc.collect()
    assert found.keys() == {"numpy", "oxinp"}
    for (ours, total), (theirs, expected) in zip(found["oxinp"], found["numpy"], strict=True):
        numpy.testing.assert_allclose(abs(ours), abs(theirs), atol=1e-12)
        numpy.testing.assert_allclose(total, expected)


def test_what_finalisers_record_is_known_as_a_reader(on_device, monkeypatch):
    """The collector may run where a weak reference is allocated, while the list of what is pending is replaced."""
    x = np.arange(40.0)
    np.evaluate(x)
    others = [x + i for i in range(3)]
    found = []

    class Node:
        def __init__(self):
            self.own = self

        def __del__(self):
            np.evaluate(*others[1:])
            found.append(x * 3)

    def collecting(storage):
        if not found:
            Node()
            gc.collect()
        return ref(storage)

    monkeypatch.setattr(schedule, "ref", collecting)
    np.evaluate(others[0])
    monkeypatch.undo()
    x[0] = 100
    theirs = numpy.arange(40.0)
    assert_same([*found, *others], [theirs * 3, *[theirs + i for i in range(3)]])
