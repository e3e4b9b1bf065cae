import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from oxinp._config import SETTINGS, Config, default_cache_dir, unknown


def test_defaults():
    config = Config({})
    assert (config.backend, config.offload_threshold, config.fallback, config.synchronous) == (
        "auto",
        65536,
        "silent",
        False,
    )


@pytest.mark.parametrize(
    ("variable", "text", "value"),
    [
        ("OXINP_BACKEND", "emulator", "emulator"),
        ("OXINP_OFFLOAD_THRESHOLD", "0", 0),
        ("OXINP_OFFLOAD_THRESHOLD", "inf", math.inf),
        ("OXINP_FALLBACK", "warn", "warn"),
        ("OXINP_SYNCHRONOUS", "on", True),
        ("OXINP_SYNCHRONOUS", "0", False),
        ("OXINP_CACHE_DIR", "", ""),
    ],
)
def test_environment(variable, text, value):
    got = getattr(Config({variable: text}), variable.removeprefix("OXINP_").lower())
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("OXINP_BACKEND", "gpu"),
        ("OXINP_OFFLOAD_THRESHOLD", "-1"),
        ("OXINP_OFFLOAD_THRESHOLD", "64k"),
        ("OXINP_OFFLOAD_THRESHOLD", "nan"),
        ("OXINP_FALLBACK", ""),
        ("OXINP_SYNCHRONOUS", "maybe"),
        ("OXINP_CACHE_DIR", "a\0b"),
    ],
)
def test_bad_environment_names_variable_value_and_legal_values(variable, text):
    with pytest.raises(ValueError) as info:
        Config({variable: text})
    row = next(row for row in SETTINGS if row.variable == variable)
    assert variable in str(info.value)
    assert repr(text) in str(info.value)
    assert row.legal in str(info.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("backend", None),
        ("backend", []),
        ("offload_threshold", 1.5),
        ("offload_threshold", True),
        ("offload_threshold", math.nan),
        ("offload_threshold", -math.inf),
        ("synchronous", 1),
        ("cache_dir", 3),
    ],
)
def test_bad_value_leaves_the_old_one(name, value):
    config = Config({})
    before, version = getattr(config, name), config.version
    with pytest.raises(ValueError, match=name):
        setattr(config, name, value)
    assert getattr(config, name) == before
    assert config.version == version


def test_assignment_bumps_version():
    config = Config({})
    versions = [config.version]
    for _ in range(2):
        config.fallback = "error"
        versions.append(config.version)
    assert versions[0] < versions[1] < versions[2]


def test_unknown_setting():
    with pytest.raises(AttributeError, match="offload_threshold"):
        Config({}).offload_treshold = 3


def test_override_restores_also_after_an_error():
    config = Config({})
    with pytest.raises(ValueError), config.override(backend="host", fallback="loud"):
        pass
    assert config.backend == "auto"
    with config.override(backend="host", offload_threshold=0):
        assert (config.backend, config.offload_threshold) == ("host", 0)
    assert (config.backend, config.offload_threshold) == ("auto", 65536)


def test_cache_dir_is_absolute(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    config = Config({"OXINP_CACHE_DIR": "kernels"})
    assert config.cache_dir == str(tmp_path / "kernels")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX paths")
def test_platform_cache_dirs(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert default_cache_dir("linux") == "/home/me/.cache/oxinp"
    monkeypatch.setenv("XDG_CACHE_HOME", "/fast/cache")
    assert default_cache_dir("linux") == "/fast/cache/oxinp"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert default_cache_dir("linux") == "/home/me/.cache/oxinp"
    assert default_cache_dir("darwin") == "/home/me/Library/Caches/oxinp"
    monkeypatch.setenv("LOCALAPPDATA", "/c/Local")
    assert default_cache_dir("win32") == "/c/Local/oxinp"
    monkeypatch.delenv("LOCALAPPDATA")
    assert default_cache_dir("win32") == ""


def test_repr_lists_every_setting():
    text = repr(Config({}))
    assert [line.split(" = ")[0] for line in text.splitlines()] == [row.name for row in SETTINGS]


def imported(command, **variables):
    """Run Python in a fresh process with variables in its environment."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **variables}
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False, env=environment)


def test_a_bad_variable_is_one_line_of_the_command():
    done = imported(["-m", "oxinp", "info"], OXINP_BACKEND="gpu")
    said = "the environment variable OXINP_BACKEND cannot be 'gpu'; legal values: auto, cuda, emulator, host\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"oxinp: {said}")
    program = imported(["-c", "import oxinp"], OXINP_BACKEND="gpu").stderr.splitlines()
    assert program[-1] == f"ValueError: {said.strip()}"
    assert len([line for line in program if line.startswith("  File ")]) == 2  # the program's line and the package


def test_an_unknown_variable_is_named_once():
    said = "there is no setting for the environment variable OXINP_BACKENT: did you mean OXINP_BACKEND?"
    done = imported(["-m", "oxinp", "-c", "import numpy"], OXINP_BACKENT="host")
    assert (done.returncode, done.stderr) == (0, f"oxinp: {said}\n")
    done = imported(["-c", "import oxinp, oxinp.cuda"], OXINP_BACKENT="host")
    first, *source = done.stderr.splitlines()  # from Python 3.13 on with the line of the program
    assert (first, len(source)) == (f"<string>:1: UserWarning: {said}", sys.version_info >= (3, 13))
    variables = ", ".join(row.variable for row in SETTINGS)
    assert unknown({"OXINP_NONSENSE": "", "OXINP_FALLBACK": "warn", "OXINP_REQUIRE_GPU": "1", "PATH": ""}) == [
        f"there is no setting for the environment variable OXINP_NONSENSE: there are {variables}"
    ]
