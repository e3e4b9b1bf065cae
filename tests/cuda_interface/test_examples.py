"""The examples under examples/cuda run, with a GPU and without."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(path.name for path in (ROOT / "examples" / "cuda").glob("*.py"))


def run(name, *arguments, **environment):
    command = [sys.executable, str(ROOT / "examples" / "cuda" / name), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_are_four():
    assert len(EXAMPLES) == 4


@pytest.mark.parametrize("name", EXAMPLES)
def test_without_a_gpu_an_example_does_what_it_can_and_says_so(name):
    printed = run(name, "--size", "20000", OXINP_BACKEND="emulator")
    assert "need" in printed
    assert "WRONG" not in printed
    if name == "vector_add.py":
        assert "language: exact" in printed


def test_vector_add_without_a_device_runs_on_the_emulator():
    assert "language: exact" in run("vector_add.py", "--size", "20000", OXINP_BACKEND="host")


@pytest.mark.gpu
def test_vector_add():
    printed = run("vector_add.py", OXINP_BACKEND="cuda")
    assert "language: exact" in printed
    assert "PTX: exact" in printed
    assert "registers" in printed


@pytest.mark.gpu
def test_graph_replay():
    printed = run("graph_replay.py", "--size", "256", "--steps", "2000", OXINP_BACKEND="cuda")
    sys.stdout.write(printed)
    assert "the same temperatures" in printed
    assert float(printed.splitlines()[1].split("x faster")[0]) > 1


@pytest.mark.gpu
@pytest.mark.exclusive
def test_overlap():
    printed = run("overlap.py", "--times", "4000", OXINP_BACKEND="cuda")  # kernels that take as long as copies
    sys.stdout.write(printed)
    assert float(printed.splitlines()[-1].split("x faster")[0]) > 1.2


@pytest.mark.multi_gpu
def test_two_gpus():
    printed = run("two_gpus.py", OXINP_BACKEND="cuda")
    sys.stdout.write(printed)
    assert printed.endswith("exact\n")
