"""CI's script: its last line is that of the last command, its exit status that of the first one that fails."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the script is for bash")


@pytest.fixture
def checkout(tmp_path):
    """A folder with the script, and a README of two commands."""

    def make(*commands):
        (tmp_path / ".ci").mkdir()
        shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
        lines = [f"python3 -m venv --help >/dev/null && {command}" for command in commands]
        (tmp_path / "README.md").write_text("\n".join(["# A library", *lines, ""]))
        return tmp_path

    return make


def run(folder, *options):
    done = subprocess.run([folder / ".ci" / "run", *options], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def test_all_is_well(checkout):
    status, lines = run(checkout("echo ran the example", "echo 7 passed"))
    assert status == 0
    assert lines[-1] == "7 passed"
    assert "ran the example" in lines


def test_a_test_fails(checkout):
    status, lines = run(checkout("true", "sh -c 'echo 1 failed, 6 passed; exit 1'"))
    assert (status, lines[-1]) == (1, "1 failed, 6 passed")


def test_the_first_command_fails(checkout):
    status, lines = run(checkout("sh -c 'echo cannot install; exit 3'", "echo 7 passed"))
    assert (status, lines[-1]) == (3, "cannot install")


def test_full_runs_the_tests_with_everything(checkout):
    folder = checkout("true", "echo -m pytest -n auto")
    assert run(folder, "--full") == (0, [*run(folder)[1][:-2], *[f"{line} --full" for line in run(folder)[1][-2:]]])
    assert run(folder, "--full", "--list")[1][1].endswith("echo -m pytest -n auto --full")


def test_it_works_on_a_copy(checkout):
    folder = checkout("touch made_by_the_example", "test -e made_by_the_example")
    assert run(folder)[0] == 0
    assert not (folder / "made_by_the_example").exists()


@pytest.mark.parametrize("options", [["--fast"], ["--full", "--fast"]])
def test_unknown_options_are_refused(checkout, options):
    assert run(checkout("true", "echo -m pytest -n auto"), *options) == (2, [])


def test_a_readme_of_other_commands_is_refused(checkout):
    assert run(checkout("true"))[0] == 2
