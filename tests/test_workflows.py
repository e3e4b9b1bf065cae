"""What GitHub's workflows name exists: actions' inputs, jobs, extras, modules, files, and the programs' options."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = {
    path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))
}
# The versions whose `action.yml` says ``using: node24``, with some of the inputs that it lists.
ACTIONS = {
    "actions/checkout@v6": {"repository", "ref", "token", "persist-credentials", "fetch-depth", "submodules"},
    "actions/setup-python@v6": {"python-version", "cache", "cache-dependency-path", "allow-prereleases"},
    "actions/upload-artifact@v6": {"name", "path", "if-no-files-found", "retention-days", "overwrite"},
    "actions/download-artifact@v7": {"name", "path", "pattern", "merge-multiple"},
    "actions/upload-pages-artifact@v5": {"name", "path", "retention-days", "include-hidden-files"},
    "actions/deploy-pages@v5": {"token", "timeout", "artifact_name"},
    "pypa/gh-action-pypi-publish@release/v1": {"packages-dir", "repository-url", "skip-existing", "attestations"},
}
JOB = re.compile(r"^  (\w+):.*\n((?:(?:    .*)?\n)*)", re.MULTILINE)
STEP = re.compile(r"^      - (?:.*\n)(?:        .*\n|\n)*", re.MULTILINE)


def _jobs(text):
    """Return the lines of each job."""
    return dict(JOB.findall(text.partition("\njobs:\n")[2]))


JOBS = [pytest.param(body, id=f"{name}/{job}") for name, text in WORKFLOWS.items() for job, body in _jobs(text).items()]


def _commands(body):
    """Return the words of each command of a job."""
    lines = re.findall(r"^(?:      - |        )run: (?!\|)(.*)$|^          ([^\s#].*)$", body, re.MULTILINE)
    commands = [first or second for first, second in lines if first or not re.match(r"[\w-]+: ", second)]
    return [shlex.split(command.replace("${{ matrix.numpy }}", "numpy")) for command in commands]


def _installed(words):
    """Return the names of the packages that a command of pip installs."""
    found = set()
    for word in words[words.index("install") + 1 :]:
        extras = re.fullmatch(r"\.\[(.*)\]", word)
        named = (
            [each for extra in extras[1].split(",") for each in PROJECT["optional-dependencies"][extra]]
            if extras
            else [word]
        )
        found |= {re.match(r"[\w./*-]+", each)[0] for each in named}
    return found


@pytest.mark.parametrize("text", WORKFLOWS.values(), ids=WORKFLOWS)
def test_every_line_belongs_to_a_job(text):
    """As these tests read them."""
    jobs = _jobs(text)
    assert len(jobs) == len(re.findall(r"^    runs-on: ", text, re.MULTILINE)) > 0
    assert text.endswith("\n".join(jobs.popitem()[1].splitlines()[-2:]) + "\n")


@pytest.mark.parametrize("body", JOBS)
def test_actions_have_their_inputs(body):
    for step in STEP.findall(body):
        used = re.search(r"uses: (\S+)", step)
        if used is not None:
            given = re.findall(r"^          ([\w-]+):", step.partition("with:\n")[2], re.MULTILINE)
            assert set(given) <= ACTIONS[used[1]], step


@pytest.mark.parametrize("text", WORKFLOWS.values(), ids=WORKFLOWS)
def test_jobs_need_jobs_and_what_these_uploaded(text):
    jobs = _jobs(text)
    for body in jobs.values():
        needed = re.findall(r"^    needs: (\w+)$", body, re.MULTILINE)
        assert set(needed) <= set(jobs)
        for name in re.findall(r"download-artifact\S+\n +with:\n +name: (\S+)", body):
            assert any(re.search(rf"upload-artifact\S+\n +with:\n +name: {name}\n", jobs[each]) for each in needed)
        if "deploy-pages" in body:
            assert any("upload-pages-artifact" in jobs[each] for each in needed)
            assert {"pages: write", "id-token: write"} <= set(re.findall(r"^      ([\w-]+: \w+)", body, re.MULTILINE))


@pytest.mark.parametrize("body", JOBS)
def test_modules_are_installed_before_they_run(body):
    installed = {"pip"}
    for words in _commands(body):
        if "install" in words:
            installed |= _installed(words)
        elif words[:2] == ["python", "-m"]:
            name = words[2]
            assert name in sys.stdlib_module_names or name in installed or (ROOT / name).is_dir(), words
        elif words[0] in ("ruff", "mypy", "pyright"):
            assert words[0] in installed, words


@pytest.mark.parametrize("body", JOBS)
def test_files_that_commands_name_are_there(body):
    for words in _commands(body):
        names = [word for word in words if re.match(r"(\.ci|tests|examples|docs)(/|$)", word)]
        assert all((ROOT / name).exists() for name in names), words
        if words[0].startswith(".ci/"):
            assert (ROOT / words[0]).stat().st_mode & 0o100 or sys.platform == "win32"


def test_the_program_of_the_wheel_runs():
    """With the options that it is given there."""
    (words,) = [words for words in _commands(_jobs(WORKFLOWS["tests"])["wheel"]) if words[1:3] == ["-m", "oxinp"]]
    subprocess.run([sys.executable, *words[1:]], cwd=ROOT, check=True, timeout=PATIENCE, stdout=subprocess.DEVNULL)
