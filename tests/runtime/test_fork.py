"""A process forked from one that uses a device says so at once, hangs nowhere, and its host arrays go on working."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

# What the scripts share. `in_child` forks, and returns the exit code of the child: that of a signal if it hangs.
PROLOGUE = """
import gc, os, signal, sys, threading, traceback
import numpy
import oxinp
import oxinp as np

def in_child(body, leave=sys.exit):
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    signal.alarm(30)
    try:
        body()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    leave(0)

def refused(use, *parts):
    try:
        use()
    except RuntimeError as error:
        for part in ("forked", "multiprocessing.get_context('spawn')", *parts):
            assert part in str(error), str(error)
    else:
        raise AssertionError("not refused")

def same(ours, numpys):
    assert numpy.array_equal(numpy.asarray(ours), numpys), (ours, numpys)
"""

EMULATOR = "oxinp.config.backend = 'emulator'\n"

# A driver without a GPU, whose functions refuse in forked children as those of the real one are made to.
CUDA = """
from oxinp._driver import driver
from tests.driver.fake_library import FakeLibrary

class Library(FakeLibrary):
    def watch_fork(self):
        os.register_at_fork(after_in_child=self.refuse)

    def refuse(self):
        self.is_forked = True

    def _result(self, name):
        return 3 if self.is_forked else super()._result(name)

library = Library(num_devices=2, results={"cuPointerGetAttribute": 1})
driver._loaded = driver.start(library)
oxinp.config.cache_dir = ""
oxinp.config.backend = "cuda"
"""

DEVICES = {"emulator": EMULATOR, "cuda": CUDA}


def run(*parts):
    script = "".join(textwrap.dedent(part) for part in (PROLOGUE, *parts))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert "Exception ignored" not in done.stderr, done.stderr
    return done.stdout


@pytest.fixture(params=DEVICES.values(), ids=DEVICES)
def device(request):
    return request.param


def test_the_first_use_of_the_device_says_what_to_do(device):
    run(
        device,
        """
        large = numpy.arange(100_000.0)
        x = np.asarray(large) * 1
        np.evaluate(x)
        pending = x + 1
        product = np.asarray(numpy.ones((200, 200))) @ np.asarray(numpy.ones((200, 200)))

        def child():
            refused(lambda: np.ones(100_000) + 1)
            refused(lambda: np.asarray(large) * 2)
            refused(lambda: numpy.asarray(x))
            refused(lambda: float(x[5]))
            refused(lambda: numpy.asarray(x * 2))
            refused(lambda: numpy.asarray(pending))
            refused(lambda: numpy.asarray(product + 1))
            refused(lambda: x.__setitem__(3, 1.0))
            refused(lambda: np.cuda.synchronize())
            refused(lambda: np.evaluate(pending))
            assert not np.cuda.is_available()
            np.config.fallback = "warn"  # another setting changes nothing
            refused(lambda: np.ones(100_000) + 1)

        assert in_child(child) == 0
        assert in_child(child, leave=os._exit) == 0
        """,
    )


def test_host_arrays_go_on_working(device):
    run(
        device,
        """
        small = np.arange(8.0)
        x = np.asarray(numpy.arange(100_000.0)) * 1
        mirrored = np.asarray(numpy.arange(40.0))
        with np.config.override(offload_threshold=0):
            pending = mirrored * 3  # which leaves it on both sides
            assert mirrored._storage.value is not None

        def child():
            same(small + small, numpy.arange(8.0) * 2)
            small[2] = 5
            assert small.sum() == 31
            small.sort()
            assert small[-1] == 7
            mirrored[0] = 7.0
            same(mirrored[:2] + 1, [8.0, 2.0])
            assert np.linalg.norm(np.ones(4)) == 2
            np.config.backend = "host"
            same(np.ones(100_000) + 1, numpy.full(100_000, 2.0))
            same(mirrored + np.ones((5000, 40)), numpy.r_[7.0, 1:40.0] + numpy.ones((5000, 40)))
            refused(lambda: numpy.asarray(x))  # what was on the device stays out of reach
            np.config.backend = "auto"
            refused(lambda: np.ones(100_000) + 1)

        assert in_child(child) == 0
        """,
    )


def test_the_parent_goes_on(device):
    run(
        device,
        """
        x = np.asarray(numpy.arange(100_000.0)) * 1
        np.evaluate(x)
        y = x + 1
        assert in_child(lambda: refused(lambda: numpy.asarray(y))) == 0
        np.evaluate(y)
        z = numpy.asarray(x * 2 + y)
        """,
        "same(z, numpy.arange(100_000.0) * 3 + 1)\n" if device is EMULATOR else "",
    )


LOCKS = """
from oxinp._runtime import forking, select
import oxinp.cuda.profiler

x = np.asarray(numpy.arange(100_000.0)) * 1
np.evaluate(x)
profile = np.cuda.profiler.profile()
backend = select.current()
locks = [select._lock, profile._lock, backend.pool.lock._lock, *forking._locks]
assert len(set(map(id, locks))) == len(set(map(id, forking._locks))), "a lock that is not free in children"
taken, over = threading.Event(), threading.Event()

def hold():
    for lock in {id(lock): lock for lock in locks}.values():
        lock.acquire()
    taken.set()
    over.wait()

threading.Thread(target=hold, daemon=True).start()
taken.wait()
"""


def test_locks_of_other_threads_hold_nothing_up(device):
    run(
        device,
        LOCKS,
        """
        small = np.arange(8.0)

        def child():
            small[2:4] = np.ones(2)
            small.sort()
            np.add(small, 1, out=small, casting="unsafe")
            with np.config.override(backend="host"):
                same(np.ones(100_000) + small[0], numpy.full(100_000, 2.0))
            refused(lambda: numpy.asarray(x))
            refused(lambda: np.ones(100_000) + 1)
            np.cuda.stats()

        assert in_child(child) == 0
        """,
    )


def test_code_that_another_thread_writes_is_left_to_it(device):
    run(
        device,
        """
        from types import SimpleNamespace
        from oxinp._core.native import install

        x = np.asarray(numpy.arange(100_000.0)) * 1
        np.evaluate(x)
        taken, over = threading.Event(), threading.Event()

        def never_ends(_):
            taken.set()
            over.wait()

        install.importlib = SimpleNamespace(import_module=never_ends)
        natives = install._known[np.ndarray]
        threading.Thread(target=natives._try_to_write, args=(natives,), daemon=True).start()
        taken.wait()

        def child():
            small = np.arange(8.0)
            for _ in range(3000):
                small[3] + small[4]
            same(small, numpy.arange(8.0))

        assert in_child(child) == 0
        """,
    )


def test_forks_while_other_threads_compute(device):
    run(
        device,
        """
        import time
        is_over = []

        def busy():
            y = np.asarray(numpy.arange(100_000.0))
            while not is_over:
                np.evaluate(y * 2 + 1)

        x = np.asarray(numpy.arange(100_000.0)) * 1
        np.evaluate(x)
        threads = [threading.Thread(target=busy) for _ in range(2)]
        for thread in threads:
            thread.start()

        def child():
            small = np.arange(8.0)
            small += 1
            assert small[0] == 1
            refused(lambda: numpy.asarray(x))

        try:
            for _ in range(10):
                assert in_child(child) == 0
                time.sleep(0.01)
        finally:
            is_over.append(True)
        """,
    )


def test_objects_of_the_device_end_quietly():
    run(
        CUDA,
        """
        from oxinp import _runtime, cuda
        from oxinp._driver import errors

        from oxinp._runtime import transfers

        transfers._default_workers = lambda: 2
        backend = _runtime.current()
        large = numpy.zeros(32 << 20, numpy.uint8)
        x = np.asarray(large)
        stream, event = cuda.Stream(), cuda.Event()
        with stream:
            y = x + 1
            np.evaluate(y)
        staging = [thread for thread in threading.enumerate() if thread.name == "oxinp-staging"]
        assert len(staging) == 2  # which the child has not
        pinned = cuda.pinned_empty(1000)
        with cuda.Graph.capture(x) as graph:
            x += 1

        def child():
            global stream, event, pinned, graph, x, y
            for use in (
                stream.synchronize,
                graph.launch,
                lambda: backend.upload(0x1000, large),
                lambda: backend.download(large, 0x1000),
                cuda.Stream,
                lambda: cuda.pinned_empty(1 << 20),
            ):
                refused(use)
            del stream, event, pinned, graph, x, y
            gc.collect()

        assert in_child(child) == 0
        assert in_child(lambda: None) == 0  # all are let go at exit
        """,
    )


def test_a_pool_of_workers(device):
    run(
        device,
        """
        import multiprocessing

        def work(n):
            try:
                return float((np.ones(n) * 2).sum())
            except RuntimeError as error:
                return str(error)

        np.evaluate(np.asarray(numpy.arange(100_000.0)) * 1)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(work, [4, 5]) == [8, 10]
            assert "'spawn'" in pool.apply(work, (100_000,))
        """,
    )


@pytest.mark.parametrize("used", ["", "x = np.arange(4.0) + 1\n", "np.config.backend = 'host'; np.ones(100_000) + 1\n"])
def test_a_child_of_a_process_that_used_no_device_may_use_one(used):
    run(
        used,
        EMULATOR,
        """
        def child():
            same(np.asarray(numpy.arange(100_000.0)) * 2, numpy.arange(100_000.0) * 2)
            assert np.cuda.stats().launches == 1

        assert in_child(child) == 0
        """,
    )


def test_every_lock_is_free_in_children():
    made = re.compile(r"\bR?Lock\(\)")
    # Not the driver's package, which no child can use, and which frees the lock that says so itself.
    paths = [path for path in (ROOT / "oxinp").rglob("*.py") if "_driver" not in path.parts]
    lines = [line for path in paths for line in path.read_text("utf-8").splitlines()]
    found = [line.strip() for line in lines if made.search(line)]
    assert found
    assert [line for line in found if "free_in_children(" not in line] == []


def test_generators_go_on_in_a_child_where_they_were():
    run(
        EMULATOR,
        """
        oxinp.config.offload_threshold = 0
        pairs = []
        for make in ("default_rng(1)", "RandomState(1)"):
            ours, numpys = (eval("random." + make, {"random": xp.random}) for xp in (np, numpy))
            ours.standard_normal(400), numpys.standard_normal(400)
            assert ours._ending is not None
            pairs.append((ours, numpys))

        def child():
            oxinp.config.offload_threshold = 1 << 30
            for ours, numpys in pairs:
                assert ours.bytes(8) == numpys.bytes(8)

        assert in_child(child) == 0
        child()
        """,
    )


def test_a_generator_that_cannot_be_settled_lets_the_process_fork():
    run(
        EMULATOR,
        """
        oxinp.config.offload_threshold = 0
        rng = np.random.default_rng(1)
        rng.standard_normal(400)

        class Lost:
            def position(self):
                raise RuntimeError("lost")

        rng._ending = Lost()

        def child():
            try:
                rng.gamma(2.0)
            except RuntimeError as error:
                assert str(error) == "lost"
            else:
                raise AssertionError("not refused")

        assert in_child(child) == 0
        """,
    )
