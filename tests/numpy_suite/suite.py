"""Running NumPy's test modules with a binding of `numpy`, and judging the outcomes."""

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.numpy_suite import BINDING, LEFT_OUT, OUTCOMES, PART

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
NUMPY = Path(np.__file__).parent
EXPECTED = FOLDER / "expected.toml"
SECONDS_OF_A_TEST = 300
MAX_DEATHS = 20  # of processes in one module
# What NumPy's tests are told that there is of memory: those that want more are skipped in both runs.
AVAILABLE_MEMORY = "1GB"
# The modules of which the tests are about NumPy's arrays, not about its build, its command lines or its source files.
PACKAGES = ("_core", "lib", "linalg", "fft", "random", "ma", "matrixlib", "polynomial", "testing")
OTHERS = ("tests/test_ctypeslib", "tests/test_matlib")
# Modules whose tests take longest on a device, which begin first -> how many processes share one; others have one.
PARTS = {
    "_core/tests/test_umath": 12,
    "_core/tests/test_multiarray": 10,
    "_core/tests/test_ufunc": 6,
    "ma/tests/test_core": 6,
    "linalg/tests/test_linalg": 5,
    "lib/tests/test_nanfunctions": 4,
    "fft/tests/test_pocketfft": 3,
    "_core/tests/test_indexing": 3,
    "_core/tests/test_nditer": 3,
    "random/tests/test_smoke": 3,
    "lib/tests/test_function_base": 3,
    "_core/tests/test_numeric": 3,
    "_core/tests/test_multithreading": 2,
    "_core/tests/test_regression": 2,
    "random/tests/test_generator_mt19937": 2,
}
# Settings by which errors of device work are raised, and warnings given, where NumPy does it.
AS_NUMPYS = {"OXINP_SYNCHRONOUS": "1", "OXINP_FLOATING_POINT_ERRORS": "numpy"}
PASSED, FAILED, DIED = "passed", "failed", "died"


class Outcome(NamedTuple):
    """What became of a test: passed, failed, skipped, xfailed or died; and the first line that says why."""

    result: str
    message: str = ""


class Difference(NamedTuple):
    """A row of `expected.toml`: tests that NumPy passes and oxinp does not, and why that is to stay."""

    reason: str
    tests: tuple[str, ...]
    backends: tuple[str, ...] = ("cuda", "emulator", "host")
    before_python: str = "9"  # the version from which on they pass
    is_run: bool = True  # what would end the process, or take longer than all the others, is not


class Judgement(NamedTuple):
    """A module's outcomes beside NumPy's.

    Attributes
    ----------
    numpys, ours : int
        How many tests NumPy passes, and how many of these oxinp passes.
    expected : int
        How many of the others are listed.
    failures : dict
        Those which are not, by test, with oxinp's message.
    passes : list of str
        What is listed for this module, and passes.
    """

    numpys: int
    ours: int
    expected: int
    failures: dict[str, str]
    passes: list[str]


def find_modules(names: list[str]) -> list[str]:
    """Return the test modules whose names begin with one of those given, as ``_core/tests/test_umath``; all, if none.

    Raises
    ------
    ValueError
        A name is no module's beginning.
    """
    found = [path for package in PACKAGES for path in sorted((NUMPY / package / "tests").glob("test_*.py"))]
    every = [str(path.relative_to(NUMPY).with_suffix("")) for path in found] + list(OTHERS)
    shortened = [name.removeprefix("numpy/").removesuffix(".py") for name in names]
    for name in shortened:
        if not any(module.startswith(name) for module in every):
            raise ValueError(f"NumPy {np.__version__} has no test module {name}")
    return [module for module in every if not names or any(module.startswith(name) for name in shortened)]


class Task(NamedTuple):
    """A part of a module's tests, which one process runs."""

    module: str
    binding: str
    part: int
    count: int


def make_tasks(modules: Sequence[str], bindings: Sequence[str]) -> list[Task]:
    """Return what is to be run, what takes longest first."""
    tasks = [
        Task(module, binding, part, PARTS.get(module, 1))
        for module in modules
        for binding in bindings
        for part in range(PARTS.get(module, 1))
    ]
    places = {module: place for place, module in enumerate(PARTS)}
    return sorted(tasks, key=lambda task: places.get(task.module, len(places)))


def outcomes_in(folder: Path, module: str, kind: str) -> Path:
    """Return the file of a module's outcomes with NumPy ("numpy") or on a backend."""
    return folder / f"{module.replace('/', '.')}.{kind}.jsonl"


def run_task(task: Task, settings: Mapping[str, str], outcomes: Path) -> None:
    """Run a part of a module's tests in a process of its own, and in another one from where the first died.

    Parameters
    ----------
    task : Task
        Its module as `find_modules` names it; what `numpy` is in it: numpy or oxinp.
    settings : mapping
        Environment variables.
    outcomes : Path
        Where the outcomes of all parts are written; what is there already is not run.
    """
    backend = settings.get("OXINP_BACKEND")  # of NumPy's own run none
    left_out = [name for row in read_expected() if not row.is_run and backend in row.backends for name in row.tests]
    command = [sys.executable, "-m", "pytest", "-q", "--assert=plain", "--no-header", "--tb=short", "-m", "not slow"]
    command += ["-c", str(FOLDER / "pytest.ini"), f"--rootdir={NUMPY.parent}", f"--confcutdir={NUMPY}"]
    command += ["-p", "tests.numpy_suite.plugin", "-p", "no:cacheprovider", "-p", "no:benchmark", "-p", "no:randomly"]
    command += [f"--timeout={SECONDS_OF_A_TEST}", str(NUMPY / f"{task.module}.py")]
    environment = {**os.environ, **settings, BINDING: task.binding, OUTCOMES: str(outcomes)}
    environment |= {PART: f"{task.part}/{task.count}", LEFT_OUT: json.dumps(left_out)}
    environment |= {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "NPY_AVAILABLE_MEM": AVAILABLE_MEMORY}
    for _ in range(MAX_DEATHS):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode in {0, 1, 2, 5}:  # passed, failed, not to be collected, nothing left to run
            break
        if not outcomes.exists():
            raise RuntimeError(f"{task.module} did not start with {task.binding}:\n{done.stdout}\n{done.stderr}")


def read(outcomes: Path) -> dict[str, Outcome]:
    """Return the outcomes that a run wrote, by test; what fails anywhere, in its fixtures say, has failed."""
    found: dict[str, Outcome] = {}
    for line in outcomes.read_text("utf-8").splitlines() if outcomes.exists() else ():
        entry = json.loads(line)
        test = (entry.get("begun") or entry["test"]).removeprefix("numpy/")
        if "begun" in entry:
            found[test] = Outcome(DIED)
        elif found.get(test, Outcome(DIED)).result != FAILED:
            found[test] = Outcome(entry["outcome"], entry["message"])
    return found


def read_expected(path: Path = EXPECTED) -> list[Difference]:
    """Return the differences that are meant to stay, and are there in this version of Python."""
    rows = tomllib.loads(path.read_text("utf-8"))["difference"]
    found = [Difference(row.pop("reason"), tuple(row.pop("tests")), **row) for row in rows]
    return [row for row in found if sys.version_info < tuple(map(int, row.before_python.split(".")))]


def is_listed(test: str, name: str) -> bool:
    """Whether a test is the one that a name says: itself, one of its parameters', or one of its class's or module's."""
    return test == name or (test.startswith(name) and test[len(name)] in "[:")


def judge(
    module: str, numpys: dict[str, Outcome], ours: dict[str, Outcome], expected: list[Difference], backend: str
) -> Judgement:
    """Compare a module's outcomes with NumPy's and with what is expected."""
    wanted = [test for test, outcome in numpys.items() if outcome.result == PASSED]
    got = {test: ours.get(test, Outcome("missing")) for test in wanted}
    failing = {test: outcome for test, outcome in got.items() if outcome.result != PASSED}
    names = [name for row in expected if backend in row.backends for name in row.tests if f"{module}.py" in name]
    listed = {name: [test for test in failing if is_listed(test, name)] for name in names}
    known = {test for tests in listed.values() for test in tests}
    failures = {test: f"{outcome.result}: {outcome.message}" for test, outcome in failing.items() if test not in known}
    # What this version of NumPy has not, or does not pass, is no news.
    passes = [name for name, tests in listed.items() if not tests and any(is_listed(test, name) for test in wanted)]
    return Judgement(len(wanted), len(wanted) - len(failing), len(known), failures, passes)
