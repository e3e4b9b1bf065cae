"""The suite of whole programs: each gives NumPy's results, and the table says what was measured."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from asv_benchmarks import sides
from asv_benchmarks.programs import __main__ as programs
from asv_benchmarks.programs import lines, measure, npbench, turns


@pytest.fixture(scope="module")
def side():
    return sides.load("oxinp")


PLACEMENTS = {"host": ("host", 1 << 16), "device": ("emulator", 0)}
LONG = {("green_functions", "device")}


@pytest.mark.parametrize(
    ("name", "placement"),
    [
        pytest.param(name, place, marks=pytest.mark.slow if (name, place) in LONG else ())
        for name in measure.names()
        for place in PLACEMENTS
    ],
)
def test_a_program_gives_numpys_results(side, name, placement, config, tmp_path):
    config.backend, config.offload_threshold = PLACEMENTS[placement]
    plain = sides.load("numpy")
    for each in (side, plain):
        folder = tmp_path / each.name
        folder.mkdir()
        found = measure.results(measure.load(name, each).run(*measure.start(each, name, "tiny")))
        np.savez(folder / f"{name}.npz", *[each.to_host(x) if hasattr(x, "shape") else np.asarray(x) for x in found])
    assert programs.difference(name, tmp_path / "oxinp", tmp_path / "numpy") is None


def test_the_command(tmp_path, capsys):
    path = tmp_path / "programs.json"
    arguments = ["--sizes", "tiny", "--filter", "^(lu|life)$", "--peers", "", "--json", str(path)]
    assert programs.main(arguments) == 0
    printed = capsys.readouterr().out
    assert "oxinp slower in" in printed
    assert json.loads(path.read_text())["tiny"].keys() == {"life", "lu"}


def test_a_program_that_is_not_done_does_not_keep_the_others(tmp_path):
    rows = programs.run("numpy", "large", ["lu", "durbin"], tmp_path, 0.01)
    assert all("not done after" in row["error"] for row in rows.values())


def test_results_that_differ_are_named(tmp_path):
    for folder, value in (("oxinp", 1.0), ("numpy", 1.1)):
        (tmp_path / folder).mkdir()
        np.savez(tmp_path / folder / "lu.npz", np.array([value, 2.0]))
    assert "off by 5.0e-02" in programs.difference("lu", tmp_path / "oxinp", tmp_path / "numpy")


@pytest.mark.skipif(sys.version_info < (3, 12), reason="functions are counted from Python 3.12 on")
def test_functions_and_launches_are_counted_by_line(config, capsys):
    config.backend, config.offload_threshold = "emulator", 0
    lines.main(["tiny", "life", "--share", "0"])
    head, _, *rows = capsys.readouterr().out.splitlines()
    own = [line.strip() for line in Path(measure.load("life").__file__).read_text(encoding="utf-8").splitlines()]
    counts = {int(row.split()[0]): row.split() for row in rows}
    assert head.startswith("life, tiny: ")
    assert all(counts[line][-1] in own[line - 1] for line in counts)
    assert any(float(functions) > 2 and float(launches) >= 1 for _, _, functions, launches, *_ in counts.values())
    found, _ = lines.counted("life", "tiny")
    assert abs(sum(found.functions.values()) - int(head.split()[2])) <= 8  # but for what placement samples
    assert found.functions.total() > found.launches.total() > 0


def test_libraries_take_turns(capsys):
    turns.main(["tiny", "life", "--row"])
    (row,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert row["name"] == "life"
    assert len(row["ours"]) - turns.FIRST == len(row["peers"]) >= 3
    steady = {"name": "steady", "ours": [9.0, 9.0, 1.0, 2.0, 1.0], "peers": [2.0, 4.0, 8.0]}
    assert turns.ratio(steady) == 2.0
    turns.main(["tiny", "durbin", "life", "--jobs", "2"])
    printed = capsys.readouterr().out
    assert re.search(r"^durbin .* [\d.]+\n", printed, re.MULTILINE)
    assert "oxinp slower in" in printed
    assert " of 2" in printed


PUBLISHED = {
    "bench_info/scaled.json": """{"benchmark": {"relative_path": "deep/scaled", "module_name": "scaled_by",
        "func_name": "kernel", "parameters": {"S": {"N": 6, "factor": 3.0}},
        "init": {"func_name": "initialize", "input_args": ["N"], "output_args": ["x", "y"]},
        "input_args": ["factor", "x", "y"], "output_args": ["y"]}}""",
    "npbench/benchmarks/deep/scaled/scaled_by.py": """
import numpy as np
def initialize(N, datatype=np.float64):
    return np.arange(N, dtype=datatype), np.zeros(N)
""",
    "npbench/benchmarks/deep/scaled/scaled_by_numpy.py": """
import numpy as np
def kernel(factor, x, y):
    y[:] = factor * x
    return np.sum(x)
""",
}


@pytest.fixture
def checkout(tmp_path):
    for name, text in PUBLISHED.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("library", ["numpy", "oxinp"])
def test_published_programs_run_as_they_are(checkout, library):
    side, programs = sides.load(library), npbench.Checkout(checkout)
    assert programs.names() == ["scaled"]
    given = programs.start(side, "scaled", "small")
    total, y = programs.load("scaled", side).run(*given)
    assert type(y) is side.xp.ndarray
    assert total == 15
    assert side.to_host(y).tolist() == [0.0, 3.0, 6.0, 9.0, 12.0, 15.0]


def test_published_programs_take_turns(checkout, capsys):
    turns.main(["small", "--npbench", str(checkout)])
    assert re.search(r"^scaled .* [\d.]+\n", capsys.readouterr().out, re.MULTILINE)
