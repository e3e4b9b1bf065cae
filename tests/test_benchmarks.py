"""The benchmarks run, judge and gate: at toy sizes, on whatever this machine has."""

import copy
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from asv_benchmarks import compare, requirement, sides, statements, table
from asv_benchmarks.case import DeviceCase, Measurement, median
from asv_benchmarks.programs import lines
from tests.fake_peers import fake_jax, fake_torch

MEASURED = Path(compare.__file__).parent / "baseline" / "h200.json"
QUICK = {name: (case, params) for name, case, params in compare.discover(quick=True)}
SLOW = {"examples.Program", "examples.ProfileCost", "scans.Scan", "products.Square", "reductions.Wide"}
CLASSES = [
    pytest.param(name, marks=pytest.mark.slow if name in SLOW else ())
    for name in sorted({name.partition("[")[0] for name in QUICK})
]


@pytest.mark.parametrize("name", CLASSES)
def test_every_case_runs_and_measures_something(name, tmp_path):
    path = tmp_path / "quick.json"
    status = compare.main(["--quick", "--rounds", "1", "--filter", rf"^{name}\[", "--json", str(path)])
    result = json.loads(path.read_text())
    errors = {each: case["errors"] for each, case in result["cases"].items() if case["errors"]}
    assert errors == {}
    assert status == 0
    assert set(result["cases"]) == {each for each in QUICK if each.startswith(name + "[")}
    for case in result["cases"].values():
        assert "oxinp" in case["sides"] or "oxinp" in case["left_out"]
        assert all(math.isfinite(side["value"]) for side in case["sides"].values())


def test_filter_and_rounds(capsys):
    assert (
        compare.main(["--quick", "--peers", "numpy", "--filter", r"host_path\.Small\[operation=add", "--rounds", "1"])
        == 0
    )
    printed = capsys.readouterr().out
    assert "host_path.Small[operation=add]" in printed
    assert "elementwise" not in printed


def test_toy_sizes_are_not_judged(capsys):
    assert compare.main(["--quick", "--peers", "numpy", "--filter", r"host_path\.Small\[operation=add"]) == 0
    printed = capsys.readouterr().out
    (case,) = (line for line in printed.splitlines() if line.startswith("host_path.Small[operation=add]"))
    assert case.split()[1:] == ["runs", "runs"]
    assert not re.search("pass|MISS|judged|ours", printed)


def test_a_bad_filter_is_told_without_a_traceback(capsys):
    with pytest.raises(SystemExit, match="2"):
        compare.main(["--filter", "("])
    assert "'(' is no regular expression" in capsys.readouterr().err


@pytest.mark.skipif(sides.load("oxinp").backend == "cuda", reason="there is a device")
def test_asv_takes_no_host_times_for_device_times():
    taken = set()
    for name, (case, params) in QUICK.items():
        try:
            case.setup(*params)
        except NotImplementedError:
            continue
        taken.add(name.partition("[")[0])
    assert taken == {"host_path.Small", "host_path.ElementLoop", "imports.Import"}


def test_table(tmp_path):
    measured, page = MEASURED, tmp_path / "page.md"
    result = json.loads(measured.read_text())
    page.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n")
    table.main([str(measured), "--page", str(page)])
    written = page.read_text()
    assert written.startswith("before\n")
    assert written.endswith("\nafter\n")
    assert "old" not in written
    rows = [line for line in written.splitlines() if line.startswith("| `")]
    assert len(rows) == len(result["cases"])
    assert len({row.count("|") for row in rows}) == 1


def test_unknown_library():
    with pytest.raises(SystemExit, match="fortran"):
        compare.main(["--peers", "fortran"])


class Recorded:
    """NumPy, and which of its names were asked for."""

    def __init__(self):
        self.names = set()

    def __getattr__(self, name):
        self.names.add(name)
        return getattr(np, name)


def test_every_side_has_every_operation_that_cases_use():
    recorded = Recorded()
    for case, params in QUICK.values():
        if isinstance(case, DeviceCase) and set(case.peers) - {"numpy"}:
            case.body(recorded, [host.copy() for host in case.inputs(*params)], *params)
    assert recorded.names <= set(sides.OPERATIONS)
    for name in sides.OPERATIONS:
        assert callable(getattr(np, name))


@pytest.fixture
def peers(monkeypatch):
    """PyTorch and JAX that are made of NumPy, as if they were installed."""
    jax, numpys = fake_jax()
    for name, module in {"torch": fake_torch(), "jax": jax, "jax.numpy": numpys}.items():
        monkeypatch.setitem(sys.modules, name, module)
    return [sides.load(name) for name in ("torch", "jax")]


# Which cases PyTorch and JAX have nothing for, and what they say.
REFUSED = {
    "elementwise.Stencil": {"jax": "JAX: JAX arrays are immutable"},
    "gathers.Gather[form=fill": {"jax": "JAX: JAX arrays are immutable"},
    "memory.ChainPeak": {"jax": "does not know its peak"},
    "products.Square[dtype=int64": {"torch": "PyTorch: \"addmm_cuda\" not implemented for 'Long'"},
    "reductions.Narrow[operation=argmax, dtype=uint16": {"torch": 'PyTorch: "argmax_cuda" not implemented'},
    "reductions.Narrow[operation=max, dtype=uint16": {"torch": 'PyTorch: "max_cuda" not implemented'},
}
OF_PEERS = [name for name, (case, _) in QUICK.items() if {"torch", "jax"} <= set(case.peers)]


@pytest.mark.parametrize("name", OF_PEERS)
def test_peers_run_every_case_or_say_that_they_cannot(name, peers):
    case, params = QUICK[name]
    row = compare.run_case(name, case, params, peers, 1.0, rounds=1, verify=True)
    assert row.errors == {}
    refused = next((said for start, said in REFUSED.items() if name.startswith(start)), {})
    assert row.left_out.keys() == refused.keys()
    assert all(refused[side] in text for side, text in row.left_out.items())
    assert row.peers.keys() == {"torch", "jax"} - refused.keys()
    assert "error" not in compare.line(row, ["torch", "jax"])


def test_jax_computes_in_full_precision(peers):
    assert peers[1].jax.settings == {"jax_enable_x64": True, "jax_default_matmul_precision": "highest"}


def test_a_missing_name_is_no_error_but_ours_is():
    numpy, ours = sides.load("numpy"), sides.load("oxinp")
    for side, lacks in ((numpy, True), (ours, False)):
        row = compare.Row("case", "ms")
        with pytest.raises(AttributeError) as caught:
            _ = side.xp.no_such_name
        row.note(side, caught.value)
        assert (side.name in row.left_out) == lacks
        assert (side.name in row.errors) != lacks
    lines = [compare.line(compare.Row("case", "ms", **what), ["numpy"]) for what in ({}, {"errors": {"numpy": "x"}})]
    assert ["error" in line for line in lines] == [False, True]


def test_a_failing_peer_is_an_error(peers):
    row = compare.Row("case", "ms")
    row.note(peers[0], RuntimeError("CUDA error"))
    row.note(peers[1], TypeError("add() takes 2 operands"))
    assert set(row.errors) == {"torch", "jax"}


def test_full_sizes_have_the_documented_cases():
    names = {name.split("[", maxsplit=1)[0] for name, _, _ in compare.discover()}
    assert names >= {
        "copies.SlicedRows",
        "copies.StridedCopy",
        "copies.TransposedCopy",
        "elementwise.ComplexFunction",
        "elementwise.MultiplyAdd",
        "elementwise.Norm",
        "elementwise.NormSine",
        "elementwise.Stencil",
        "examples.ProfileCost",
        "examples.Program",
        "gathers.Gather",
        "host_path.ElementLoop",
        "host_path.Small",
        "hot_path.Chain",
        "imports.FirstKernel",
        "imports.Import",
        "memory.ChainPeak",
        "memory.MixedLoop",
        "reductions.Matrix",
        "reductions.Narrow",
        "reductions.Vector",
        "scans.MatrixScan",
        "scans.Scan",
        "transfers.ToDevice",
        "transfers.ToHost",
    }


def row(ours, **peers):
    named = {name: Measurement(value) for name, value in peers.items()}
    return compare.Row("case", "ms", ours=Measurement(ours, launches=1), peers=named, share=0.8)


@pytest.mark.parametrize(
    ("must", "ours", "holds"),
    [
        (requirement.at_most(2, "ms"), 2.0, True),
        (requirement.at_most(2, "ms"), 2.1, False),
        (requirement.launches(1), 1.0, True),
        (requirement.launches(2), 1.0, False),
        (requirement.share_of_limit(0.75), 1.0, True),
        (requirement.share_of_limit(0.85), 1.0, False),
        (requirement.ratio("cupy", 1.5), 2.0, True),
        (requirement.ratio("cupy", 1.5), 2.1, False),
        (requirement.ratio("torch", 1.5), 2.0, None),
        (requirement.at_most_above("cupy", 0.5, "ms"), 3.5, True),
        (requirement.at_most_above("cupy", 0.5, "ms"), 3.6, False),
        (requirement.at_most_above("numpy", 0.5, "ms"), 3.6, None),
        (requirement.throughput(10**9, 25e9), 39.0, True),
        (requirement.throughput(10**9, 25e9), 41.0, False),
    ],
)
def test_requirements(must, ours, holds):
    assert must.holds(row(ours, cupy=3.0)) is holds


def results(**ratios):
    sides = {"oxinp": {"value": 2.0}}
    return {"meta": {"device": "d"}, "cases": {"case": {"sides": sides, "ratios": ratios}}}


def test_gate_passes_what_is_as_fast():
    base = results(cupy=2.0)
    assert compare.regressions(base["cases"], base["meta"], base, 1.05) == []
    assert compare.regressions(results(cupy=1.95)["cases"], base["meta"], base, 1.05) == []


def test_gate_names_what_is_slower():
    base = results(cupy=2.0)
    worse = compare.regressions(results(cupy=1.8)["cases"], base["meta"], base, 1.05)
    assert worse == ["case: cupy/ours worse by 1.111x"]


def test_gate_without_peers_compares_times_on_the_same_device_only():
    base, now = results(), results()
    now["cases"]["case"]["sides"]["oxinp"]["value"] = 3.0
    assert compare.regressions(now["cases"], {"device": "d"}, base, 1.05) == ["case: ours worse by 1.500x"]
    assert compare.regressions(now["cases"], {"device": "other"}, base, 1.05) == []


def test_gate_names_what_no_longer_runs():
    base = results(cupy=2.0)
    now = copy.deepcopy(base)
    now["cases"]["case"]["sides"] = {}
    assert compare.regressions(now["cases"], base["meta"], base, 1.05) == ["case: ran in the baseline, fails now"]


def test_median_ignores_what_was_not_measured():
    assert median([Measurement(1.0, 5.0), Measurement(3.0), Measurement(2.0, 7.0)]) == Measurement(2.0, 6.0, None)


def test_host_time_of_new_sizes_is_measured_without_a_device():
    command = [sys.executable, "-m", "asv_benchmarks.kernels.new_sizes", "--without-device", "--iterations", "8", "sum"]
    root = Path(compare.__file__).parent.parent
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    _, row = done.stdout.splitlines()
    assert row.startswith("x[:k].sum()")
    calls, bytecodes = map(int, row.split()[-2:])
    assert 8 < calls < 100 < bytecodes < 4000  # else something of it is planned anew for each size


def test_statements_on_parts_are_timed_and_counted(monkeypatch, capsys):
    for name, value in {"N": 1200, "FIRST": 8, "LENGTH": 4, "ROUNDS": 2}.items():
        monkeypatch.setattr(statements, name, value)
    statements.main(["--only", "norm", "--peer", "none"])
    head, row, within = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["statement", "new", "us"]
    assert row.startswith("np.linalg.norm(A[i:, i])")
    assert float(row.split()[-1]) > 0
    assert within in {f"within 20 us, of new sizes: {number} of 1" for number in range(2)}


@pytest.mark.skipif(not hasattr(sys, "monitoring"), reason="counting takes Python 3.12 or later")
def test_functions_that_a_line_enters_are_listed_in_order(capsys):
    lines.main(["tiny", "hessenberg", "--line", "16", "--turn", "2"])
    head, *entered = capsys.readouterr().out.splitlines()
    assert head.startswith("hessenberg:16: v[0] += np.copysign(np.linalg.norm(v), v[0]): ")
    assert head.endswith(f" {len([each for each in entered if each])} functions")
    assert all(each.startswith("  ") and " <- " in each for each in entered if each)
