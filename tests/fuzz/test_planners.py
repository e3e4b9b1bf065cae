"""Random problems through every planner: a few every time, with ``--full`` more, of a seed that nobody has used."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.branches import Branches
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


def _plan(*options):
    """Run in a process of its own: kernels and launchers that are kept are those of no device."""
    command = [sys.executable, "-m", "tests.fuzz.planners", *map(str, options)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OXINP_")}
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("device", ["h200", "a100"])
def test_planners(device):
    said = _plan("--problems", 4, "--seed", 1, "--device", device)
    problems, launches, failed = map(int, re.findall(r"\d+", said.splitlines()[-1]))
    assert problems == 48
    assert launches > 100
    assert failed == 0


@pytest.mark.slow
@pytest.mark.parametrize("device", ["h200", "a100", "rtx"])
def test_planners_with_new_problems(device):
    _plan("--problems", 150, "--seed", os.environ["OXINP_FUZZ_SEED"], "--device", device)


def test_impossible_plans_are_found():
    code = """
import numpy
from tests.fuzz import planners, planning
planners.np.config.backend, planners.np.config.offload_threshold = "emulator", 0
planning.use("h200")
judge = planning.PlanningBackend._judge
planning.PlanningBackend._judge = lambda self, kernel, grid, given: judge(self, kernel, (*grid[:2], 70000), given)
error = planners.solve(1, 0, "chains")[1]
assert type(error) is planning.ImpossiblePlanError, error
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=PATIENCE)


def _decide(x, y=None):
    return (1 if x else 2) if y is None else 3


def test_branches_that_nothing_took_are_listed(monkeypatch):
    branches = Branches()
    monkeypatch.setattr(branches, "filenames", [__file__])
    monkeypatch.setattr(branches, "_names", frozenset([__file__]))
    line = _decide.__code__.co_firstlineno + 1
    before = sys.gettrace()
    branches.start()
    _decide(True)
    branches.stop()
    sys.settrace(before)
    never = {missed.never for missed in branches.missed()[0] if missed.line == line}
    assert never == {"false"}
    branches.start()
    _decide(False)
    _decide(False, 1)
    branches.stop()
    sys.settrace(before)
    assert not [missed for missed in branches.missed()[0] if missed.line == line]
