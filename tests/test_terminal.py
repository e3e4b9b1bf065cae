"""Tables fit the terminal, and closed pipes are quiet."""

import io
import os
import subprocess
import sys

import pytest

from oxinp import _terminal
from oxinp._core.lazy.explain import Entry, Explanation
from oxinp._terminal import Columns, columns, shortened, table
from tests.runner.process import OXINP, environment

SOURCE = "relax.py:7: x[1:-1] = inside + 0.25 * (x[:-2] + x[2:] - 2 * inside)"
ROWS = [("time", "launches", "flops", "line"), ("20.839 s", "40", "", SOURCE), ("3.345 s", "100", "", "relax.py:8")]
ADVICE = "reads single values from the device 20 times, and waits for each: keep them in arrays"


def draw(width):
    return table(ROWS, width=width, right=range(3), notes=lambda i: [ADVICE] * (i == 2)).splitlines()


def test_without_a_width_nothing_is_cut():
    head, first, second, note = draw(None)
    assert head == "    time  launches  line"  # no flops: no column
    assert first == f"20.839 s        40  {SOURCE}"
    assert second == " 3.345 s       100  relax.py:8"
    assert note == " " * 20 + ADVICE


@pytest.mark.parametrize("width", range(24, 120, 5))
def test_lines_fit(width):
    lines = draw(width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    for number in ("20.839 s", "40", "100", "relax.py:8"):
        assert number in text
    assert " ".join(" ".join(lines).split()).endswith(ADVICE)


def test_a_column_of_text_goes_below_before_it_is_illegible():
    lines = draw(45)
    assert lines[:3] == ["    time  launches", "    line", "20.839 s        40"]
    assert lines[3] == f"    {SOURCE[:38]}..."


def test_paths_keep_their_end():
    assert shortened("/home/ada/script.py:12", 15, keep_end=True) == "...script.py:12"
    assert shortened("abcdef", 5) == "ab..."
    assert shortened("abcdef", 6) == "abcdef"
    rows = [("what", "line"), ("add", "/home/ada/some/deep/folder/script.py:12")]
    assert table(rows, width=40, paths=[1]).endswith("folder/script.py:12")


def test_columns_of_known_width_for_rows_to_come():
    drawn = Columns([8, 4, 0], width=30, right=[1])
    assert drawn.draw(["a", "12", "left out"]) == "a           12"


def test_what_must_not_be_cut_goes_on_below():
    drawn = Columns([30, 12, 12], width=50, right=[1, 2], text=[])
    assert drawn.draw(["a name of thirty characters...", "1.5 ms", "2.5 ms"]).splitlines() == [
        "a name of thirty characters...        1.5 ms",
        "          2.5 ms",
    ]


@pytest.fixture
def terminal(monkeypatch):
    """Take standard output for a terminal of 60 columns."""
    real, size = sys.stdout, _terminal.os.terminal_size((60, 20))
    monkeypatch.setattr(_terminal.os, "get_terminal_size", lambda file: {7: size}[file])
    monkeypatch.setattr(real, "fileno", lambda: 7, raising=False)


@pytest.mark.usefixtures("terminal")
def test_reports_fit():
    report = Explanation()
    report.entries.append(Entry("device", "multiply", "the operands are on the device " * 3, "/home/ada/long/x.py:3"))
    assert columns() == 60
    assert max(map(len, str(report).splitlines())) <= 60


def test_what_is_no_terminal_has_no_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")  # readline sets it for whatever is started next
    assert columns(io.StringIO()) is None
    with open(os.devnull, "w") as file:  # noqa: PTH123 - a device
        assert columns(file) is None


@pytest.mark.skipif(sys.platform == "win32", reason="pipes as POSIX has them")
@pytest.mark.parametrize("arguments", [["-h"], ["info"]], ids=" ".join)
def test_a_closed_pipe_is_quiet(tmp_path, arguments):
    variables = environment(tmp_path)
    with subprocess.Popen(
        [*OXINP, *arguments], cwd=tmp_path, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as run:
        run.stdout.close()
        assert run.stderr.read() == b""
    assert run.returncode == _terminal.BROKEN_PIPE
