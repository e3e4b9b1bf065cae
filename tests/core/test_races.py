"""What another thread does in the very moment in which it matters, done there: each of these was seen to go wrong."""

# ruff: noqa: ICN001 - oxinp is np

import gc
import os
import subprocess
import sys
import threading
import types
import weakref

import numpy
import pytest

import oxinp as np
from oxinp._core.lazy import building, calls, eviction, reports, results
from oxinp._runtime.backend import NUM_REPORTS
from oxinp.cuda import current
from oxinp.cuda.kernel import Out, f64, jit, u32
from tests.comparator import assert_same
from tests.patience import PATIENCE


@pytest.fixture(autouse=True)
def on_device(config):
    config.offload_threshold = 0


def test_what_is_being_recorded_reads_what_was_there(config, monkeypatch):
    """Another thread gets the host side between the look at an operand and the entry among what is pending."""
    config.machine_code = False  # where no other thread runs meanwhile
    x = np.arange(200.0) + 0
    np.evaluate(x)
    lent = []

    def refer_late(storage):
        monkeypatch.setattr(results, "ref", weakref.ref)
        lent.append(numpy.asarray(x))
        return weakref.ref(storage)

    monkeypatch.setattr(results, "ref", refer_late)
    y = np.add(x, 1)
    lent.pop()[10:20] = -1
    np.evaluate(x + 0)
    assert_same(y, numpy.arange(1.0, 201.0))


class Cycle:
    """Something that only the garbage collector frees, with what it holds."""

    def __init__(self, held):
        self.own, self.held = self, held


def test_calls_that_wait_may_be_collected_while_they_are_gone_through():
    """The collector runs where an object is made, in Python 3.11 also inside `tuple`."""
    x = np.arange(300.0)
    np.evaluate(x)
    thresholds = gc.get_threshold()
    for allocations in range(1, 12):
        gc.collect()
        gc.disable()
        for _ in range(5):
            Cycle(np.sort(x))
        assert len(calls.CALLS) >= 5
        gc.enable()
        gc.set_threshold(gc.get_count()[0] + allocations)
        try:
            calls.run_calls(lambda _: False)
        finally:
            gc.set_threshold(*thresholds)


@pytest.mark.parametrize("threshold", [1, 5])
def test_finalisers_run_wherever_something_is_allocated_but_while_something_is_built(threshold):
    """What has never been built is asked for by a `__del__` that the collector runs in the middle of other work."""
    code = f"""
import gc
import oxinp as np

class Sums:
    def __init__(self):
        self.a = np.arange(50.0)
        self.b, self.own = self.a * 2, self
    def __del__(self):
        sums.append(float((self.a + self.b).sum()))

sums = []
gc.set_threshold({threshold})
for i in range(60):
    Sums()
    total = np.ones(30) + i
    assert total.sum().item() == 30 * (i + 1)
gc.collect()
assert sums == [3675.0] * 60, sums
"""
    environment = os.environ | {"OXINP_BACKEND": np.config.backend, "OXINP_OFFLOAD_THRESHOLD": "0"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_missing_for_a_finaliser_is_built_inside_of_an_attempt():
    """The attempt that it interrupts goes on; one of ours in another one ends both, and all of it is repeated."""
    built, begun = [], []

    def find():
        if not built:
            building.missing(lambda: built.append(1))
        return len(built)

    def inner():
        return building.attempt(find)

    def interrupted():
        begun.append(1)
        return inner()

    assert building.attempt(interrupted) == 1
    assert len(begun) == 1

    built.clear()
    begun.clear()
    inner, interrupted = (
        types.FunctionType(each.__code__, globals() | {"__name__": "oxinp._core"}, closure=each.__closure__)
        for each in (inner, interrupted)
    )
    assert building.attempt(interrupted) == 1
    assert len(begun) == 2


def test_what_a_kernel_writes_is_seen_by_who_reads_the_rest_meanwhile(monkeypatch):
    """Another thread reads the other half by NumPy, between the look where the array lies and the launch."""

    @jit(block=64)
    def fill(k, x: Out[f64], n: u32):
        with k.grid_stride(n) as i:
            x[i] = 7.0

    x = np.arange(200.0) + 0
    np.evaluate(x)
    flush, threads = current.flush, []

    def flush_late():
        threads.append(threading.Thread(target=numpy.asarray, args=(x,)))
        threads[-1].start()
        threads[-1].join(0.1)
        flush()

    monkeypatch.setattr(current, "flush", flush_late)
    fill[2](x, 100)
    threads[0].join()
    assert_same(x, numpy.concatenate([numpy.full(100, 7.0), numpy.arange(100.0, 200.0)]))


def test_what_a_kernel_reports_is_raised_once():
    """Two threads wait for the device at once."""

    class Reports:
        ring, ptr = None, 1 << 12

        def __init__(self):
            self.words = numpy.zeros((NUM_REPORTS, 2), numpy.int64)

        def are_empty(self):
            return not self.words.any()

        def read(self):
            return self.words[:, 0].copy()

        def take(self, place):
            if not threads:
                threads.append(threading.Thread(target=check))
                threads[0].start()
                threads[0].join(0.1)
            word = int(self.words[place, 1])
            self.words[place] = 0
            return word

    def check():
        try:
            ring.check()
        except IndexError as error:
            raised.append(error.args[0])

    threads, raised, device = [], [], Reports()
    ring = reports._Ring(device)
    claimed = ring.claim(device.ptr, IndexError, None)
    device.words[(claimed - device.ptr) // 16] = claimed, 900
    check()
    threads[0].join()
    assert raised == [900]


def test_looking_for_storages_disturbs_no_tuple_that_another_thread_fills():
    """Nothing else may refer to it when it is finished."""
    has_begun, may_end, made, num_steps = threading.Event(), threading.Event(), [], 0

    def parts():
        yield 1
        has_begun.set()
        may_end.wait(PATIENCE)

    def fill():
        try:
            made.append(tuple(parts()))
        except SystemError as error:
            made.append(error)

    def trace(frame, event, _):
        nonlocal num_steps
        if frame.f_code.co_filename != eviction.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "call":
            sys.settrace(trace)  # which Python 3.12 needs to see a frame's opcodes as well
        num_steps += event == "opcode"
        if num_steps == 100:
            may_end.set()
            other.join(PATIENCE)
        return trace

    kept = [np.arange(300.0) + number for number in range(20)]
    other = threading.Thread(target=fill)
    other.start()
    has_begun.wait(PATIENCE)
    gc.collect()  # what is there now is listed first
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        found = eviction.storages()
    finally:
        sys.settrace(before)
    assert {id(x._storage) for x in kept} <= set(map(id, found))
    assert num_steps > 100
    assert made == [(1,)]
