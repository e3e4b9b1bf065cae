"""``python -m oxinp tune``: what it prints, keeps and ends with."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from oxinp._runtime import tuned
from oxinp._runtime.tuned import Database, Row
from oxinp._tune import command, problems
from oxinp._tune.crossovers import Crossovers
from tests.tune.toys import Toy, toy, tuner_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def data(tmp_path, config):
    config.cache_dir = str(tmp_path / "cache")
    (tmp_path / "shipped").mkdir()
    return Database((8, 0), tmp_path / "shipped")


def options(*arguments):
    return command._options(arguments)


def searches_of(backend):
    return command.Searches(tuner_of(backend), Crossovers(backend))


def test_what_is_found_is_told_and_kept(backend, data, capsys, tmp_path):
    file = tmp_path / "found.json"
    wrong = Toy(1, factor=3)
    status = command._tune(searches_of(backend), data, [toy(), toy([wrong])], options("--json", str(file)))
    out, err = capsys.readouterr()
    assert status == 1
    head, row, *rest = out.splitlines()
    assert head.split() == ["problem", "default", "best", "gain", "rate", "tried", "answer"]
    assert " ".join(row.split()) == "toy 5.0 us 2.0 us 2.50 8 GB/s 4 launches=2 factor=2 fault="
    assert "WRONG: toy: launches=1 factor=3 fault=: never used" in rest
    assert rest[-1] == f"kept in {data.path}"
    assert err.splitlines() == [
        "tune: 1/2 toy: 4 tried, 2.50 times as fast",
        "tune: 2/2 toy: 2 tried, 2.50 times as fast",
    ]
    first, second = json.loads(file.read_text())
    assert (first["tried"], first["wrong"], first["is_complete"]) == (4, [], True)
    assert second["wrong"] == [wrong._asdict()]
    assert [row.answer for row, _ in data.rows()] == [Toy(2)._asdict()]


def test_ctrl_c(backend, data, capsys, monkeypatch):
    searches = searches_of(backend)
    tells = []

    def tell(_, outcome):
        tells.append(outcome)
        if len(tells) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(command._Progress, "tell", tell)
    assert command._tune(searches, data, [toy(), toy()], options()) == command.INTERRUPTED
    out = capsys.readouterr().out
    assert "+: the time was over" in out
    assert [row.answer for row, _ in data.rows()] == [Toy(3)._asdict()]


def test_no_folder(backend, data, capsys, config):
    config.cache_dir = ""
    assert command._tune(searches_of(backend), data, [toy()], options()) == 1
    out, err = capsys.readouterr()
    assert "launches=2" in out
    assert "kept in" not in out
    assert "what was found cannot be kept: there is no folder for it: set config.cache_dir or OXINP_CACHE_DIR" in err


def test_progress_at_a_terminal(backend, data, capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    command._tune(searches_of(backend), data, [toy()], options("--seconds", "50"))
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "\rtune: 1/1 toy: 3 tried, " in err


def test_show(backend, data, capsys):
    config = {"tile_m": 64, "tile_n": 64, "warp_m": 32, "warp_n": 32, "depth": 16, "num_stages": 3, "split_k": 1}
    rows = [
        Row("matmul/multistage", ("f64", "f64"), ("k", "mn"), (1, 16, 16, 16), config, 1e-4, 2e-4, "a device"),
        Row("matmul/multistage", ("f64", "f64"), ("k", "mn"), (1, 512, 512, 512), config, 2e-3, 2e-3, "a device"),
    ]
    data.store(rows)
    chosen = list(problems.problems(["matmul"], ["f8"], [(12, 12, 12), (100, 100, 100)]))
    command._show(searches_of(backend), data, chosen)
    out = capsys.readouterr().out
    assert "matmul/multistage  f64 f64  k mn    1x16x16x16     100.0 us  2.00  tile_m=64" in out
    near, far = out.split("\n\n")[1:]
    assert near.startswith(
        "matmul float64 12x12x12 nn: matmul/multistage\n  nearest k mn 1x16x16x16 at 1.25 doublings, not taken"
    )
    assert str(data.path) in near
    assert "the planner's own: tile_m=64" in far
    command._show(searches_of(backend), data, list(problems.problems(["matmul"], ["f8"], [(14, 16, 16)])))
    assert "at 0.19 doublings, taken: tile_m=64" in capsys.readouterr().out


def run(*arguments):
    command = [sys.executable, "-m", "oxinp", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_without_a_gpu():
    done = run("--backend", "host", "tune")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tune: tuning measures on a GPU, and there is none in use: config.backend is 'host'")
    assert done.stderr.count("\n") == 1


def test_options_that_are_none():
    for arguments, said in (
        (("--family", "sort"), "there is no family 'sort'; there are matmul"),
        (("--dtype", "float33"), "there is no dtype 'float33'"),
        (("--sizes", "3x"), "'3x' is no size"),
    ):
        done = run("tune", *arguments)
        assert done.returncode == 2
        assert said in done.stderr
    assert "--family" in run("tune", "--help").stdout
    assert "tune   " in run("--help").stdout


def test_sizes_alone_are_those_of_products(monkeypatch, config):
    config.backend = "host"
    asked = []
    monkeypatch.setattr(command, "problems", lambda names, *_: asked.append(names) or ())
    for arguments in ([], ["--sizes", "200"], ["--layout", "tn"], ["--family", "reduce", "--sizes", "20x30"]):
        assert command.main(arguments) == 2
    assert asked == [list(problems.FAMILIES), ["matmul"], ["matmul"], ["reduce"]]


@pytest.mark.gpu
def test_on_a_gpu(tmp_path, config):
    config.cache_dir = str(tmp_path)
    assert command.main(["--dtype", "float64", "--sizes", "200", "--seconds", "4"]) == 0
    (path,) = (tmp_path / "tuned").iterdir()
    (row,) = tuned.load(path)
    assert 1e-6 < row.seconds <= row.default_seconds < 1e-3
