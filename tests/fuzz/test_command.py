"""The command line: exit code, last line, and a report that is a script which shows the difference."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.generate import ARRAY_RULES, generate_seeded
from tests.fuzz.minimise import minimise
from tests.fuzz.planted import late_reader
from tests.fuzz.regressions import PROGRAMS
from tests.fuzz.twin import InvalidProgramError, find_difference, raising_statements
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


def _fuzz(namespace, *options):
    command = [sys.executable, "-m", "tests.fuzz", "--namespace", namespace, "--jobs", "2", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE)


def _run_script(script, namespace):
    script = script.replace("import oxinp\n", f"from {namespace.replace(':', ' import ')} as oxinp\n")
    script = "\n".join(line for line in script.split("\n") if not line.startswith("oxinp.config"))
    return subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE
    )


def _summary(done):
    """Programs, seed and differences of the last line."""
    last = done.stdout.splitlines()[-1]
    return tuple(map(int, re.fullmatch(r"(\d+) programs of seed (\d+), (\d+) differences?", last).groups()))


def test_no_difference():
    done = _fuzz("numpy", "--programs", "60", "--seed", "5")
    assert done.returncode == 0, done.stderr
    assert _summary(done) == (60 + len(PROGRAMS), 5, 0)


def test_new_programs_each_time():
    shown = [_fuzz("numpy", "--programs", "1") for _ in range(2)]
    seeds = {_summary(done)[1] for done in shown}
    assert len(seeds) == 2
    for done, seed in zip(shown, [_summary(done)[1] for done in shown], strict=True):
        assert done.stdout.splitlines()[0] == f"seed {seed}: --seed {seed} repeats this run"


def test_ends_when_time_is_up():
    done = _fuzz("numpy", "--programs", "1000000", "--seconds", "2")
    assert done.returncode == 0, done.stderr
    programs, _, differences = _summary(done)
    assert 0 < programs < 1_000_000
    assert differences == 0


@pytest.mark.parametrize(
    ("namespace", "what", "num"),
    [
        pytest.param("late_reader", "elements differ", 400, marks=pytest.mark.slow),
        pytest.param("crashing", "the process died with exit code 3", 14, marks=pytest.mark.slow),
    ],
)
def test_goes_on_after_a_difference_and_reports_all(namespace, what, num):
    done = _fuzz(f"tests.fuzz.planted:{namespace}", "--programs", str(num), "--seed", "1")
    assert done.returncode == 1, done.stderr
    programs, _, differences = _summary(done)
    assert programs == num + len(PROGRAMS)
    assert differences >= 2
    told, explained = done.stdout.split("statements:")
    origins = "|".join([r"program \d+ of seed 1", *[re.escape(program.origin) for program in PROGRAMS]])
    assert len(re.findall(f"^({origins}): ", told, re.MULTILINE)) == differences
    assert what in told
    assert "def program(np):" in explained


def _late_reader_difference(program):
    try:
        return find_difference(program, late_reader, validate=True)
    except InvalidProgramError:
        return None


def test_script_shows_the_difference():
    found = next(
        p for p in (generate_seeded(1, i, rules=ARRAY_RULES) for i in range(1500)) if _late_reader_difference(p)
    )
    shortest = minimise(found, lambda program: _late_reader_difference(program) is not None)
    script = shortest.script({"offload_threshold": float("inf")}, raising_statements(shortest))
    done = _run_script(script, "tests.fuzz.planted:late_reader")
    assert "AssertionError: a" in done.stderr, script
    done = _run_script(script, "tests.fuzz.planted:sound")
    assert done.returncode == 0, done.stderr


def _first_with(kind):
    return next(i for i in range(2000) if generate_seeded(3, i).kinds()[kind])


@pytest.mark.parametrize("index", [0, 1, 2, _first_with("reduce_inexact"), _first_with("failing")])
def test_script_of_any_program_runs(index):
    program = generate_seeded(3, index)
    done = _run_script(program.script({}, raising_statements(program)), "tests.fuzz.planted:sound")
    assert done.returncode == 0, done.stderr
