"""Random problems through every planner: a few every time, with ``--full`` more, of a seed that nobody has used."""

import itertools
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import CodeType

import pytest

from oxinp._kernels.gemm import select
from oxinp._kernels.gemm.operand import Matrices
from oxinp._ptx import Builder
from oxinp._ptx.emulator.faults import AccessError
from oxinp._ptx.types import c64, f32, f64, i32, i64
from tests.fuzz.branches import ENTERED, MONITORING, PACKAGE, Branches, Missed, explain
from tests.fuzz.edges import run_block
from tests.fuzz.planning import DEVICES
from tests.fuzz.problems import FAMILIES, LARGE
from tests.fuzz.tracing import Tracing
from tests.fuzz.unreached import REASONS
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
PROBLEMS = 1  # of each family
# How many problems lead to every branch: by device and family. Those that are seldom are listed, and come in turn.
COVERING = (
    ("h200", 40, "chains sizes copies reductions rows scans large_products rank_k_products"),
    ("h200", 60, "products random_numbers sorts slices triangular_systems transforms fourier_axes fourier_transforms"),
    ("h200", 70, "seldom_factorisations seldom_transforms"),
    ("h200", 100, "grouped_products planned_again gathers repeated_rows"),
    ("h200", 140, "seldom"),
    ("h200", 250, "products_on_tensor_cores grouped_elements indexed_elements strided_passes sorted_rows"),
    ("h200", 350, "strided_products kernel_specs row_programs"),
    ("h200", 500, "data_sized_plans smaller_workspaces"),
    ("h200", 20, "sparse sparse_products narrow_reductions rows_at_once searches updates chains_of_products corners"),
    ("h200", 10, "factorisations matrix_functions strided_factorisations tall_inner_products many_bands"),
    ("h200", 10, "spectra fourier_lengths fourier_filters"),
    ("h200", 3, "large_systems"),
    ("rtx", 100, "data_sized_plans strided_products seldom row_programs sorted_rows grouped_elements"),
    ("rtx", 70, "triangular_systems grouped_products seldom_factorisations seldom_transforms tall_inner_products"),
    ("a100", 70, "products_on_tensor_cores strided_passes sorted_rows seldom triangular_systems"),
    ("a100", 70, "seldom_factorisations seldom_transforms"),
    ("b300", 70, "seldom_transforms"),
    ("rtx5090", 70, "seldom_transforms"),
)
monitored = pytest.mark.skipif(MONITORING is None, reason="branches are seen from Python 3.12 on")


def _plan(*options, returns=0):
    """Run in a process of its own: kernels and launchers that are kept are those of no device."""
    command = [sys.executable, "-m", "tests.fuzz.planners", *map(str, options)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OXINP_")}
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE, env=environment
    )
    assert done.returncode <= returns, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("device", ["h200", pytest.param("a100", marks=pytest.mark.slow)])
def test_planners(device):
    families = [name for name in FAMILIES if name not in LARGE]
    said = _plan(*families, "--problems", PROBLEMS, "--seed", 4, "--device", device)
    problems, launches, blocks, failed = map(int, re.findall(r"\d+", said.splitlines()[-1]))
    assert problems == PROBLEMS * len(families)
    assert launches > 60
    assert blocks > 60
    assert failed == 0


@pytest.mark.slow
@pytest.mark.parametrize("device", list(DEVICES))
def test_planners_with_new_problems(device):
    _plan("--problems", 150, "--seed", os.environ["OXINP_FUZZ_SEED"], "--device", device)


def test_every_family_has_its_part_in_covering_branches():
    assert {name for *_, families in COVERING for name in families.split()} == set(FAMILIES)


@monitored
@pytest.mark.slow
def test_every_branch_is_taken_or_has_a_reason(tmp_path):
    said = ""
    for device, problems, families in COVERING:
        options = "--problems", problems, "--seed", 1, "--device", device, "--coverage", tmp_path / "branches.json"
        said = _plan(*families.split(), *options, returns=1)
        assert re.search(r", 0 failed\n", said), said
    places = re.findall(r"line \d+ of (.*)|(.*) has a reason, but", said)
    assert [place for pair in places for place in pair if place] == []


@monitored
@pytest.mark.slow
def test_what_was_covered_is_kept_and_said_when_a_run_is_ended(tmp_path):
    kept = tmp_path / "branches.json"
    command = [sys.executable, "-m", "tests.fuzz.planners", "chains", "--problems", "100000", "--coverage", str(kept)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not kept.exists():
            time.sleep(0.02)
        process.terminate()
        said = process.communicate(timeout=PATIENCE)[0]
    branches = Branches()
    branches.load(kept)
    assert branches._taken
    assert re.search(r"\ninterrupted after \d+ problems\n", said)
    assert re.search(r"\d+ of \d+ branches taken; of \d+ places", said)


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


def _in_steps(index):
    """Return a kernel of one thread per block that stores to element 64 * block, counted in an integer type."""
    k = Builder("in_steps", block=1)
    out = k.pointer("out", f32, "w")
    out[k.cast(k.ctaid, index) * 64] = 1.0
    return k.build()


@pytest.mark.parametrize("bits", [32, 64])
def test_offsets_of_the_last_block_that_32_bits_do_not_hold_are_found(bits):
    kernel, blocks = _in_steps(i32 if bits == 32 else i64), 1 << 26
    held = {1 << 40: 64 * f32.nbytes * blocks}
    grid, last = (blocks, 1, 1), (blocks - 1, 0, 0)
    assert run_block(kernel, held, grid, (0, 0, 0), (1 << 40,))
    if bits == 64:
        assert run_block(kernel, held, grid, last, (1 << 40,))
    else:
        with pytest.raises(AccessError, match="out of bounds"):
            run_block(kernel, held, grid, last, (1 << 40,))


def test_what_traces_kernels_is_no_planning(tmp_path):
    package = tmp_path / "lib" / "kernels"
    package.mkdir(parents=True)
    module = package / "one.py"
    module.write_text(
        "def plan(n):\n    return shared(n), make(n)\n"
        "def shared(n):\n    return n\n"
        "@retraceable\ndef make(n):\n    k = start(shared(n))\n    return lambda k: body(k)\n"
        "def start(n):\n    return n\n"
        "def body(k: Builder):\n    return _Tile(k).load()\n"
        "class _Tile:\n    def __init__(self, k: Builder):\n        self.k = k\n"
        "    def load(self):\n        return _nbytes()\n"
        "class _Wide(_Tile):\n    def widen(self):\n        return 2\n"
        "def _nbytes():\n    return 4\n"
    )
    (tmp_path / "lib" / "other.py").write_text("def told(x):\n    return x._nbytes\n")
    tracing = Tracing(tmp_path / "lib", "lib.kernels")
    lines = {"plan": 1, "shared": 3, "make": 5, "start": 9, "body": 11, "__init__": 14, "load": 16, "<lambda>": 8}
    lines |= {"widen": 19, "_nbytes": 21}
    found = {name for name, line in lines.items() if tracing.is_tracing(str(module), line, name)}
    assert found == {"make", "start", "body", "__init__", "load", "<lambda>", "widen", "_nbytes"}


def _decide(x, y=None):
    return (1 if x else 2) if y is None else 3


def _never(x):
    if x:
        return 1
    return 2 if x is None else 3


@pytest.fixture
def branches(monkeypatch):
    """The branches of this file, until something is collected."""
    collected = Branches()
    monkeypatch.setattr(collected, "filenames", [__file__])
    monkeypatch.setattr(collected, "_names", frozenset([__file__]))
    monkeypatch.setattr("tests.fuzz.branches._traces", lambda _: False)  # to know it of all modules takes long
    return collected


def _missed(branches, function):
    return {(each.never, each.condition) for each in branches.missed()[0] if each.function == function.__name__}


@monitored
def test_branches_that_nothing_took_are_listed(branches):
    branches.start()
    _decide(True)
    branches.stop()
    assert _missed(branches, _decide) == {("false", "x"), ("false", "y is None")}
    assert _missed(branches, _never) == {(ENTERED, "")}
    branches.start()
    _decide(False)
    _decide(False, 1)
    branches.stop()
    assert not _missed(branches, _decide)


def _halve(x):
    while x > 1:
        x //= 2
    return x


@monitored
def test_the_condition_of_a_loop_is_one_branch(branches):
    branches.start()
    _halve(8)
    branches.stop()
    assert not _missed(branches, _halve)


def _all_of(x, y, z):
    return 1 if x is not None and y > 0 and not z else 2


@monitored
def test_operands_of_a_condition_are_branches_of_their_own(branches):
    branches.start()
    _all_of(1, 1, False)
    _all_of(1, 1, True)
    branches.stop()
    assert _missed(branches, _all_of) == {("false", "x is not None"), ("false", "y > 0")}


def test_branches_need_reasons_and_reasons_branches():
    line = _decide.__code__.co_firstlineno + 1
    place = "test_planners.py _decide: never false: x | return (1 if x else 2) if y is None else 3"
    missed = [
        Missed(__file__, line, "_decide", "false", "x"),
        Missed(__file__, _never.__code__.co_firstlineno, "_never", ENTERED),
    ]
    places = [each.place() for each in missed]
    assert places[0].endswith(place)
    assert places[1].endswith("test_planners.py _never: never entered")
    assert explain(missed, {"callers refuse it": places}) == ([], [])
    assert explain(missed, {"callers refuse it": places[:1]}) == (missed[1:], [])
    assert explain(missed[1:], {"callers refuse it": [places[1].replace("entered", "true: if x:")]}) == (missed[1:], [])
    assert explain(missed[:1], {"callers refuse it": places[:1], "no such device": places[1:]}) == ([], places[1:])


def _functions(code):
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _functions(each)


def test_reasons_are_of_branches_that_exist():
    root = Path(PACKAGE.__path__[0])
    for place in itertools.chain(*REASONS.values()):
        name, function, never = re.match(r"(\S+) (.+?): never (.*)", place).groups()
        path = root / name
        codes = [each for each in _functions(compile(path.read_text(), name, "exec")) if each.co_qualname == function]
        assert codes, place
        if never != ENTERED:
            direction, condition, text = re.match(r"(\w+): (.+?) \| (.+)", never).groups()
            lines = path.read_text().splitlines()
            numbers = {n for code in codes for *_, n in code.co_lines() if n is not None}
            assert direction in ("true", "false"), place
            assert text in {lines[n - 1].strip() for n in numbers}, place
            assert condition in " ".join(line.strip() for line in lines), place


def test_halves_multiply_no_operands_of_two_types():
    device = DEVICES["h200"].replace(tuned=lambda _: None)
    a, b = (Matrices(type_, (8192, 1), 256) for type_ in (c64, f64))
    assert select.plan_fp16x2((8192, 8192), 8192, a, b, device) is None
    assert select.plan_fp16x2((8192, 8192), 8192, a, a, device) is not None
