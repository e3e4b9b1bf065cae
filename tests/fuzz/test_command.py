"""The command line: exit code, last line, and a report that is a script which shows the difference."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.generate import generate_seeded
from tests.fuzz.minimise import minimise
from tests.fuzz.planted import late_reader
from tests.fuzz.twin import InvalidProgramError, find_difference, raising_statements

ROOT = Path(__file__).resolve().parents[2]


def _fuzz(namespace, *options):
    command = [sys.executable, "-m", "tests.fuzz", "--namespace", namespace, "--jobs", "2", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=250)


def _run_script(script, namespace):
    script = script.replace("import oxinp\n", f"from {namespace.replace(':', ' import ')} as oxinp\n")
    script = "\n".join(line for line in script.split("\n") if not line.startswith("oxinp.config"))
    return subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )


def test_no_difference():
    done = _fuzz("numpy", "--programs", "60")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "60 programs, 0 differences"


@pytest.mark.parametrize(
    ("namespace", "what"), [("late_reader", "elements differ"), ("crashing", "the process died with exit code 3")]
)
def test_difference(namespace, what):
    done = _fuzz(f"tests.fuzz.planted:{namespace}", "--programs", "600")
    assert done.returncode == 1, done.stderr
    assert what in done.stdout
    assert "def program(np):" in done.stdout
    assert done.stdout.splitlines()[-1].endswith("programs, 1 difference")


def _late_reader_difference(program):
    try:
        return find_difference(program, late_reader, validate=True)
    except InvalidProgramError:
        return None


def test_script_shows_the_difference():
    found = next(p for p in (generate_seeded(1, i) for i in range(1500)) if _late_reader_difference(p))
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
