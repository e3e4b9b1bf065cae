"""The benchmarks run, judge and gate: at toy sizes, on whatever this machine has."""

import copy
import json
import math
from pathlib import Path

import pytest

from asv_benchmarks import compare, requirement, table
from asv_benchmarks.case import Measurement, median

MEASURED = Path(compare.__file__).parent / "baseline" / "h200.json"


def test_every_case_runs_and_measures_something(tmp_path):
    path = tmp_path / "quick.json"
    status = compare.main(["--quick", "--rounds", "1", "--peers", "cupy,torch,numpy", "--json", str(path)])
    result = json.loads(path.read_text())
    errors = {name: case["errors"] for name, case in result["cases"].items() if case["errors"]}
    assert errors == {}
    assert status == 0
    assert set(result["cases"]) == {name for name, _, _ in compare.discover(quick=True)}
    for name, case in result["cases"].items():
        assert "oxinp" in case["sides"] or "oxinp" in case["left_out"], name
        assert all(math.isfinite(side["value"]) for side in case["sides"].values()), name


def test_filter_and_rounds(capsys):
    assert (
        compare.main(["--quick", "--peers", "numpy", "--filter", r"host_path\.Small\[operation=add", "--rounds", "1"])
        == 0
    )
    printed = capsys.readouterr().out
    assert "host_path.Small[operation=add]" in printed
    assert "elementwise" not in printed


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
    with pytest.raises(SystemExit, match="jax"):
        compare.main(["--peers", "jax"])


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
