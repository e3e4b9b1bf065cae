"""`--profile`: what each line cost, counted exactly and put down to the line that recorded the work."""

import json
import re
import sys

import pytest

import oxinp
from oxinp._core.lazy import calls, schedule
from oxinp._runner import advice, profile
from oxinp._runtime import counters
from tests.runner.process import OXINP, assert_same_run, run, write

PROGRAM = """
import sys, threading, time
import numpy as np
import beside

def chain(x):
    y = x * 2
    y = y + 1
    return y

a = np.ones(20000)
b = chain(a)
print(float(b.sum()))
c = beside.double(b)
print(c[5], c[6])
np.poly(c[:3])
np.polydiv(c, c[:2])
time.sleep(0.4)
thread = threading.Thread(target=lambda:
    time.sleep(0.3))
thread.start()
thread.join()
d = np.arange(20000.0) + c; e = d * 3; del d
print(e[1])
"""

LOOPS = """
import numpy as np

def loop(x):
    total = 0.0
    for i in range(len(x)):
        total += x[i] * 2
    return total

def grow(x):
    found = np.zeros(0)
    for i in range(290):
        found = np.append(found, x[i * 100 : i * 100 + 10])
    return found

x = np.linspace(0.0, 1.0, 30000)
loop(x)
grow(x * 2)
for _ in range(20):
    if (x * 3).sum() < 0:
        break
for _ in range(20):
    np.emath.logn(2, x * 4 + 1)
plain = {}
for i in range(300000):
    plain[i] = i
"""


@pytest.fixture
def folder(tmp_path):
    program = tmp_path / "program"
    write(program, program=PROGRAM, loops=LOOPS, beside="def double(x):\n    return x + x\n")
    return program


def profiled(folder, script, *arguments, **variables):
    done = run([*OXINP, "--backend", "emulator", "--profile=profile.json", script, *arguments], folder, **variables)
    assert done.returncode == 0, done.stderr
    profile = json.loads((folder / "profile.json").read_text(encoding="utf-8"))
    return profile, {line["source"]: line for line in profile["lines"]}


def test_counts_go_to_the_line_that_recorded(folder):
    profile, lines = profiled(folder, "program.py", "argument")
    assert profile["program"] == ["program.py", "argument"]
    launches = {source: line["launches"] for source, line in lines.items() if line["launches"]}
    # The sum is one kernel with the chain before it. What is printed was recorded, and so launched for, elsewhere.
    assert launches.pop("print(float(b.sum()))") >= 1
    assert launches == {"return x + x": 1, "d = np.arange(20000.0) + c; e = d * 3; del d": 1}
    assert sum(line["launches"] for line in lines.values()) == profile["total"]["launches"]
    assert lines["return x + x"]["file"].endswith("beside.py")
    assert lines["print(float(b.sum()))"]["d2h_bytes"] == 8
    assert lines["print(c[5], c[6])"]["d2h_bytes"] == 16
    assert lines["print(c[5], c[6])"]["num_d2h"] == 2
    assert lines["np.polydiv(c, c[:2])"]["fallbacks"] == {"polydiv": 1}
    assert lines["np.poly(c[:3])"]["fallbacks"] == {"poly": 1}
    assert sum(line["d2h_bytes"] for line in lines.values()) == profile["total"]["d2h_bytes"]
    assert sum(line["h2d_bytes"] for line in lines.values()) == profile["total"]["h2d_bytes"]


WRITES = """
import threading
import numpy as np

def scaled(x):
    return 3.0 * x

def step(a):
    b = scaled(a)[1:] + a[1:]
    a[1:] += b * 2.0 - scaled(b)
    a[0] = a[1]

a = np.ones((200, 200))
a[2] = 5.0
for _ in range(3):
    step(a)
arrays = [a * k for k in (2.0, 3.0)]
for array in arrays:
    array[5] = 1.0
threads = [threading.Thread(target=step, args=(array,)) for array in arrays]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(a[0, 0])
"""


def test_writes_go_to_the_line_that_writes(folder):
    """Also where functions of the program's are called in between, and by several threads at once."""
    write(folder, writes=WRITES)
    profile, lines = profiled(folder, "writes.py")
    launches = {source: line["launches"] for source, line in lines.items() if line["launches"]}
    assert launches == {
        "a = np.ones((200, 200))": 1,  # and then a part of it is written
        "a[2] = 5.0": 1,
        "b = scaled(a)[1:] + a[1:]": 5,  # which reads what is about to be written, and scales a part of it
        "a[1:] += b * 2.0 - scaled(b)": 5,  # with what is added
        "a[0] = a[1]": 5,
        "arrays = [a * k for k in (2.0, 3.0)]": 2,
        "array[5] = 1.0": 2,
    }
    assert sum(line["launches"] for line in lines.values()) == profile["total"]["launches"]


def test_time_goes_to_the_innermost_line(folder):
    profile, lines = profiled(folder, "program.py")
    assert 0.35 < lines["time.sleep(0.4)"]["seconds"] < profile["seconds"] - 0.25
    assert lines["time.sleep(0.3))"]["seconds"] > 0.25  # in its thread, and ...
    # ... where the main one waits for it, or has not yet come to that
    assert sum(lines[line]["seconds"] for line in ("thread.start()", "thread.join()") if line in lines) > 0.25
    assert profile["seconds"] > 0.7


def test_work_goes_to_the_line_that_recorded(folder):
    text = "import numpy as np\na = np.ones((150, 200))\nb = a.T\nc = a @ b\nd = a * 2\nprint(c[0, 0], d[0, 0])\n"
    write(folder, work=text)
    _, lines = profiled(folder, "work.py")
    assert (lines["c = a @ b"]["flops"], lines["d = a * 2"]["flops"]) == (2 * 150 * 150 * 200, 0)
    assert lines["c = a @ b"]["device_bytes"] == 8 * (2 * 150 * 200 + 150 * 150)
    assert lines["d = a * 2"]["device_bytes"] == 2 * 8 * 150 * 200
    done = run([*OXINP, "--backend=emulator", "--profile", "work.py"], folder)
    assert "9 M flops, " in done.stderr
    (row,) = [row.split() for row in done.stderr.splitlines() if row.endswith("work.py:4: c = a @ b")]
    assert row[5:9] == ["9", "M", "644.5", "KiB"]


def test_advice(folder):
    _, lines = profiled(folder, "loops.py", OXINP_ADAPTIVE_PLACEMENT="0")
    told = {source: " ".join(line["advice"]) for source, line in lines.items()}
    assert "append copies the whole array each time" in told["found = np.append(found, x[i * 100 : i * 100 + 10])"]
    assert "reads single values from the device 20 times" in told["if (x * 3).sum() < 0:"]
    assert "lib.scimath.logn ran on the host" in told["np.emath.logn(2, x * 4 + 1)"]
    assert "20 copies to the host" in told["np.emath.logn(2, x * 4 + 1)"]
    assert told.get("plain[i] = i", "") == ""


def test_slow_loops_over_elements_are_told_by_their_source(folder):
    """Of how long a line took, and inside of what, nothing is measured here: that is up to how busy the machine is."""
    path = str(folder / "loops.py")
    told = []
    for number, source in enumerate(LOOPS.splitlines(), 1):
        slow, fast, of_others = profile.Line(path, number), profile.Line(path, number), profile.Line(path, number)
        slow.seconds, slow.seconds_inside = 2.0, 1.0
        fast.seconds, fast.seconds_inside = 0.1, 0.1
        of_others.seconds = 5.0
        if any("loops over elements" in each for each in advice.advise(slow, 10.0)):
            told.append(source.strip())
        for line in (fast, of_others):
            assert not any("loops over elements" in each for each in advice.advise(line, 10.0))
    assert told == ["total += x[i] * 2", "plain[i] = i"]


def test_table(folder):
    done = run([*OXINP, "--backend=emulator", "--profile", "program.py"], folder)
    assert done.stdout.splitlines()[0] == "60000.0"
    title, head, *rows = done.stderr.splitlines()[1:]
    assert re.fullmatch(
        r"profile: \d+\.\d\d s, \d+ launches, 0 flops, .+ moved, .+ to the device, .+ to the host, 2 fallbacks, "
        r"0 compiled",
        title,
    )
    assert head.split() == ["time", "launches", "moved", "to", "host", "line"]  # all that is not empty
    slept = next(row for row in rows if row.endswith("program.py:18: time.sleep(0.4)"))
    seconds = re.match(r"(\d+\.\d\d\d?) s +\d+ % ", slept)
    assert seconds
    assert float(seconds[1]) > 0.35
    assert any(row.strip() == "on the host: polydiv x 1" for row in rows)


def test_text_and_ends(folder):
    for text, code in (("import sys, numpy as np; np.ones(3); sys.exit(4)", 4), ("import numpy; numpy.ones(3)[9]", 1)):
        done = run([*OXINP, "--profile", "-c", text], folder)
        assert done.returncode == code
        assert re.search(r"\nprofile: \d+\.\d\d s", done.stderr)


@pytest.mark.parametrize("option", [["--profile=absent/report.json"], ["--trace", "absent/report.json"]], ids="=".join)
def test_file_that_cannot_be_written(folder, option):
    """It is said before the program runs, not after."""
    done = run([*OXINP, *option, "-c", "print(1)"], folder)
    assert (done.returncode, done.stdout) == (2, "")
    name = option[0].partition("=")[0]
    said = f": {name}: can't write to 'absent/report.json': [Errno 2] No such file or directory\n"
    assert done.stderr == f"{sys.executable} -m oxinp{said}"


@pytest.mark.parametrize("option", [["--profile=report.json"], ["--trace", "report.json"]], ids="=".join)
def test_file_of_a_program_that_goes_elsewhere(folder, option):
    (folder / "elsewhere").mkdir()
    done = run([*OXINP, *option, "-c", "import os; os.chdir('elsewhere')"], folder)
    assert done.returncode == 0
    assert json.loads((folder / "report.json").read_text(encoding="utf-8"))


def test_counts_are_the_same_without(folder):
    """Watching changes nothing of what is counted."""
    text = "import numpy as np, oxinp.cuda\nx = np.ones(20000) * 2\nprint(x.sum())\nprint(oxinp.cuda.stats())\n"
    write(folder, counts=text + "oxinp.cuda.reset_stats()\nprint(oxinp.cuda.stats())\n")
    plain, watched = (
        run([*OXINP, "--backend=emulator", *option, "counts.py"], folder).stdout for option in ([], ["--profile"])
    )
    assert plain == watched
    assert "launches=" in plain


def test_after_a_profile_nothing_is_watched(config):
    """Notebooks profile many cells in one process."""
    config.backend = "emulator"
    before = list(schedule.RECORDERS), list(counters._watchers), schedule.room, schedule.make_room, calls.is_watched
    for _ in range(2):
        watched = profile.Profile()
        watched.start()
        assert (calls.is_watched, schedule.room) == (True, -1)
        oxinp.evaluate(oxinp.ones(20_000) * 2)
        watched.stop()
        launches = sum(line.launches for line in watched.lines())
        assert launches == 1
    assert before == (
        list(schedule.RECORDERS),
        list(counters._watchers),
        schedule.room,
        schedule.make_room,
        calls.is_watched,
    )
    oxinp.evaluate(oxinp.ones(20_000) * 2)
    assert sum(line.launches for line in watched.lines()) == launches


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_forked_by_the_program(folder):
    """One report, of the process that was started."""
    text = "import os, sys, numpy as np\nx = np.ones(3)\nif not os.fork():\n    sys.exit(0)\nos.wait()\n"
    write(folder, forks=text)
    done = run([*OXINP, "--profile", "forks.py"], folder)
    assert done.returncode == 0
    assert done.stderr.count("profile: ") == 1


def test_traces_name_what_runs_and_the_programs_lines(folder):
    """Also what a library between the program and oxinp asks for."""
    library = "import numpy as np\ndef twice(x):\n    return float((x * 2).sum())\n"
    write(folder.parent / "lib", library=library)
    write(folder, traced="import numpy as np, library\nx = np.ones(20000)\nlibrary.twice(x)\n")
    done = run([*OXINP, "--backend=emulator", "--trace", "trace.json", "traced.py"], folder)
    assert done.returncode == 0, done.stderr
    events = json.loads((folder / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
    named = {event["name"]: event["args"] for event in events if event.get("cat") == "kernel"}
    assert named.keys() >= {"copy multiply sum -> float64 ()"}
    assert named["copy multiply sum -> float64 ()"]["line"] == f"{folder / 'traced.py'}:3"
    assert named["copy -> float64 (20000,)"]["line"] == f"{folder / 'traced.py'}:2"  # although it ran at the end


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_traces_are_not_written_by_forked_children(folder):
    text = "import os, sys, numpy as np\nx = np.ones(3)\nif not os.fork():\n    sys.exit(0)\nos.wait()\n"
    write(folder, forks=text + "print(os.path.getsize('trace.json'))\n")
    done = run([*OXINP, "--trace", "trace.json", "forks.py"], folder)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
    assert (folder / "trace.json").stat().st_size


def test_without_arrays(folder):
    write(folder, plain="print('nothing')\n")
    assert assert_same_run(folder, "plain.py").returncode == 0
