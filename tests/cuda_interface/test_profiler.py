import json
import os
import subprocess
import sys
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


@pytest.fixture
def profile(config):
    """A profile of a kernel, copies both ways and a fallback."""
    config.backend = "emulator"
    with profiler.profile() as profile:
        x = oxinp.ones(50_000) * 3
        oxinp.asarray(np.arange(50_000.0)) + x
        x.tolist()
        oxinp.median(x)
    return profile


def test_everything_is_there_with_the_users_line(profile):
    kinds = {span.kind for span in profile.spans}
    assert kinds == {"kernel", "copy", "allocation", "fallback"}
    assert {span.name for span in profile.spans if span.kind == "fallback"} >= {"numpy.median"}
    assert all(f"{Path(__file__).name}:" in span.line for span in profile.spans)
    starts = [span.begin for span in profile.spans]
    assert starts == sorted(starts)
    assert all(span.begin >= 0 and span.seconds >= 0 for span in profile.spans)
    copies = [span for span in profile.spans if span.kind == "copy"]
    assert any(span.nbytes == 400_000 for span in copies)


@pytest.mark.usefixtures("_emulator")
def test_kernels_are_counted_as_the_statistics_count_them(stats):
    before = stats().launches
    with profiler.profile() as profile:
        x = oxinp.ones(50_000)
        for _ in range(3):
            x = evaluated(x + 1)
    kernels = [span for span in profile.spans if span.kind == "kernel"]
    assert len(kernels) == stats().launches - before >= 3


def test_after_the_block_nothing_is_watched(profile):
    backend, count = _runtime.current(), len(profile.spans)
    assert not {"launcher", "upload", "download", "copy"} & set(vars(backend))
    (oxinp.ones(50_000) + 4).tolist()
    oxinp.median(oxinp.ones(10))
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
    assert head.split() == ["what", "name", "count", "ms", "bytes"]
    assert any(row.startswith("kernel") for row in rows)
    assert len(rows) == len({(span.kind, span.name) for span in profile.spans})


def test_on_the_host_only_fallbacks_are_seen(config):
    config.backend = "host"
    with cuda.profiler.profile() as profile:
        oxinp.median(oxinp.ones(100_000))
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
