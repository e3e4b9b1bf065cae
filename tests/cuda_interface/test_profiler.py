import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import oxinp
from oxinp import _runtime, cuda
from oxinp.cuda import profiler

ROOT = Path(__file__).resolve().parents[2]


def evaluated(x):
    oxinp.evaluate(x)
    return x


@pytest.fixture
def _emulator(config):
    config.backend = "emulator"


@pytest.fixture(scope="module")
def profile():
    """A profile of a kernel, copies both ways and a fallback, which tests only read."""
    with oxinp.config.override(backend="emulator"), profiler.profile() as profile:
        x = oxinp.ones(50_000) * 3
        oxinp.asarray(np.arange(50_000.0)) + x
        x.tolist()
        oxinp.polydiv(x, x[:2] + 1)
    return profile


def test_everything_is_there_with_the_users_line(profile):
    kinds = {span.kind for span in profile.spans}
    assert kinds == {"kernel", "copy", "allocation", "fallback"}
    assert {span.name for span in profile.spans if span.kind == "fallback"} >= {"numpy.polydiv"}
    assert all(f"{Path(__file__).name}:" in span.line for span in profile.spans)
    starts = [span.begin for span in profile.spans]
    assert starts == sorted(starts)
    assert all(span.begin >= 0 and span.seconds >= 0 for span in profile.spans)
    copies = [span for span in profile.spans if span.kind == "copy"]
    assert any(span.nbytes == 400_000 for span in copies)


@pytest.mark.usefixtures("_emulator")
def test_kernels_are_named_by_what_they_do():
    """Beside an open report, too, and by several threads each its own."""

    def work():
        evaluated((oxinp.ones(50_000) * 2 + 1).sum())

    with profiler.profile() as profile, oxinp.explain() as report:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        evaluated(oxinp.sort(oxinp.arange(50_000)))
    kernels = {span.name: span.what for span in profile.spans if span.kind == "kernel"}
    assert kernels["reduce_rows"] == "copy multiply add sum -> float64 ()"
    assert kernels["sort_histogram"] == kernels["sort_onesweep"] == "sort -> int64 (50000,)"
    assert {entry.what for entry in report.entries} >= set(kernels.values())
    events = {event["name"]: event["args"] for event in profile.events() if event.get("cat") == "kernel"}
    assert events["copy multiply add sum -> float64 ()"]["kernel"] == "reduce_rows"


@pytest.mark.usefixtures("_emulator")
def test_work_for_numpys_code_is_put_down_to_the_line_that_called_it():
    with profiler.profile() as profile:
        np.apply_along_axis(lambda row: evaluated(oxinp.asarray(row) * 2), 0, np.ones((9_000, 2)))
    assert {span.line.rpartition(":")[0] for span in profile.spans} == {__file__}


@pytest.mark.usefixtures("_emulator")
def test_kernels_are_counted_as_the_statistics_count_them(stats):
    before = stats().launches
    with profiler.profile() as profile:
        x = oxinp.ones(50_000)
        for _ in range(3):
            x = evaluated(x + 1)
    kernels = [span for span in profile.spans if span.kind == "kernel"]
    assert len(kernels) == stats().launches - before >= 3


@pytest.mark.usefixtures("_emulator")
def test_after_the_block_nothing_is_watched(profile):
    backend, count = _runtime.current(), len(profile.spans)
    assert not {"launcher", "upload", "download", "copy"} & set(vars(backend))
    (oxinp.ones(50_000) + 4).tolist()
    oxinp.partition(oxinp.ones(10), 1)
    assert len(profile.spans) == count


@pytest.mark.usefixtures("_emulator")
def test_a_profile_ends_with_an_exception():
    profile = profiler.profile()

    def work():
        with profile:
            oxinp.evaluate(oxinp.ones(50_000) + 1)
            raise KeyError("inside")

    with pytest.raises(KeyError):
        work()
    assert any(span.kind == "kernel" for span in profile.spans)
    with profiler.profile(), pytest.raises(RuntimeError, match="another profile, trace"), profiler.profile():
        pytest.fail("two at once")
    assert "launcher" not in vars(_runtime.current())


def test_the_trace_is_what_the_format_says(profile, tmp_path):
    profile.write(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    events = trace["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "X", "i"}
    for event in events:
        if event["ph"] == "X":
            assert event["dur"] >= 0
            assert event["ts"] >= 0
            assert event["args"]["line"]
    assert len([event for event in events if event["ph"] != "M"]) == len(profile.spans)


def test_summary_adds_up(profile):
    head, *rows = profile.summary().splitlines()
    assert head.split() == ["what", "name", "count", "ms", "bytes", "flops", "GB/s", "TFLOP/s"]
    assert any(row.startswith("kernel") for row in rows)
    assert len(rows) == len({(span.kind, span.name) for span in profile.spans})


def work_of(compute):
    """Flops and bytes of the kernels that something launches."""
    with profiler.profile() as profile:
        oxinp.evaluate(compute())
    kernels = [span for span in profile.spans if span.kind == "kernel"]
    return sum(span.flops for span in kernels), sum(span.nbytes for span in kernels)


@pytest.mark.usefixtures("_emulator")
def test_flops_and_bytes_of_products(config):
    config.offload_threshold = 0
    a, b = oxinp.ones((20, 30)), oxinp.ones((30, 40))
    oxinp.evaluate(a, b)
    read, written = 8 * (20 * 30 + 30 * 40), 8 * 20 * 40
    assert work_of(lambda: a @ b) == (2 * 20 * 30 * 40, read + written)
    assert work_of(lambda: a @ b) == (2 * 20 * 30 * 40, read + written)  # planned before
    x, y = (v.astype("c16") for v in (a, b))
    oxinp.evaluate(x, y)
    assert work_of(lambda: x @ y) == (8 * 20 * 30 * 40, 2 * (read + written))
    stack = oxinp.ones((5, 20, 30))
    oxinp.evaluate(stack)
    assert work_of(lambda: stack @ b) == (2 * 5 * 20 * 30 * 40, 8 * (5 * 20 * 30 + 30 * 40 + 5 * 20 * 40))


@pytest.mark.usefixtures("_emulator")
def test_bytes_of_everything_else(config):
    config.offload_threshold = 0
    x, row = oxinp.ones((100, 60)), oxinp.ones(60, "f4")
    oxinp.evaluate(x, row)
    assert work_of(lambda: x * 2 + row) == (0, 2 * 48000 + 240)
    assert work_of(lambda: x[::2]) == (0, 0)
    assert work_of(lambda: x[::2] + 1) == (0, 48000)
    assert work_of(lambda: x.astype("f4")) == (0, 48000 + 24000)
    assert work_of(lambda: x.sum(axis=0)) == (0, 48000 + 480)
    flops, nbytes = work_of(lambda: oxinp.cumsum(x, axis=1))
    assert flops == 0
    assert nbytes >= 2 * 48000


def test_the_trace_says_how_fast():
    span = profiler.Span("kernel", "gemm", 0.0, 1e-3, 3 * 10**9, "a.py:1", 5 * 10**10)
    profile = profiler.profile()
    profile.spans.append(span)
    (event,) = [event for event in profile.events() if event["ph"] == "X"]
    assert event["args"] == {
        "line": "a.py:1",
        "kernel": "gemm",
        "nbytes": 3 * 10**9,
        "flops": 5 * 10**10,
        "TFLOP/s": "50",
        "GB/s": "3000",
    }
    assert profile.summary().splitlines()[1].split()[-2:] == ["3e+03", "50"]


def test_on_the_host_only_fallbacks_are_seen(config):
    config.backend = "host"
    with cuda.profiler.profile() as profile:
        oxinp.partition(oxinp.ones(100_000), 1)
    assert {span.kind for span in profile.spans} <= {"fallback"}


def test_the_option(tmp_path):
    (tmp_path / "program.py").write_text("import numpy as np\nprint(float((np.ones(50_000) + 1).sum()))\n")
    command = [sys.executable, "-m", "oxinp", "--backend", "emulator", "--trace", "out.json", "program.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "100000.0\n"
    events = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    lines = {event["args"]["line"] for event in events if event["ph"] == "X"}
    assert {line.rpartition("/")[2] for line in lines} == {"program.py:2"}


@pytest.mark.gpu
def test_kernels_have_device_time(config):
    config.backend = "cuda"
    with profiler.profile() as profile:
        x = oxinp.ones(10_000_000)
        for _ in range(5):
            x = evaluated(x * 1.5)
        float(x.sum())
    kernels = [span for span in profile.spans if span.kind == "kernel"]
    assert len(kernels) >= 6
    assert all(1e-6 < span.seconds < 1 for span in kernels)
