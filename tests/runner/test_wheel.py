"""The runner as users have it: out of the installed wheel, in another folder than the checkout's."""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.runner.process import ROOT, write


@pytest.fixture(scope="session")
def python(tmp_path_factory):
    """Return the interpreter of a fresh virtual environment with the wheel, and NumPy and SciPy from this one."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    venv.create(folder / "env", symlinks=sys.platform != "win32")
    (wheel,) = folder.glob("oxinp-*.whl")
    base = {"base": str(folder / "env"), "platbase": str(folder / "env")}
    packages = Path(sysconfig.get_path("purelib", "venv", base))
    with zipfile.ZipFile(wheel) as file:  # all that installing a wheel without scripts is
        file.extractall(packages)
    (packages / "installed_before.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    return str(Path(sysconfig.get_path("scripts", "venv", base), Path(sys.executable).name))


@pytest.fixture
def run(python, tmp_path):
    """Return what runs the runner in a folder, with the wheel alone on the path."""
    outside = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}
    variables = {name: value for name, value in os.environ.items() if name not in outside}

    def run(*arguments, **options):
        command = [python, "-m", *arguments]
        given = {"capture_output": True, "text": True, **options}
        done = subprocess.run(command, cwd=tmp_path, env=variables | {"OXINP_BACKEND": "host"}, check=False, **given)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_package(python, tmp_path):
    write(tmp_path, _driver="raise RuntimeError('of the user')", where="import oxinp\nprint(oxinp.__file__)\n")
    done = subprocess.run([python, "where.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    folder = Path(done.stdout.strip()).parents[1]
    assert folder.name == "site-packages"
    assert ROOT not in folder.parents
    assert {path.name.partition("-")[0] for path in folder.iterdir() if path.is_dir()} == {"oxinp"}


def test_script(run, tmp_path):
    write(tmp_path, beside="import numpy as np\n", script="import beside, numpy\nprint(numpy.__name__, beside.np.pi)\n")
    write(tmp_path, raises="import numpy as np\nnp.ones(3).reshape(2)\n")
    assert run("oxinp", "script.py") == "oxinp 3.141592653589793\n"
    with pytest.raises(AssertionError) as caught:
        run("oxinp", "raises.py")
    assert str(caught.value).count("File ") == 1  # the program's own line alone, none of ours


@pytest.mark.parametrize(
    ("arguments", "text", "expected"),
    [
        (["-m", "timeit", "-n1", "-r1", "-s", "import numpy as np", "print(np.__name__)"], "", "oxinp\n1 loop, "),
        (["-m", "code"], "import numpy as np\nprint(np.__name__)\n", "oxinp\n"),
        (["-m", "doctest", "documented.py"], "", ""),
        (["-c", "import numpy; print(numpy.__name__)"], "", "oxinp\n"),
    ],
    ids=lambda value: value[1] if isinstance(value, list) else "",
)
def test_modules_that_run_programs(run, tmp_path, arguments, text, expected):
    write(tmp_path, documented="'''\n>>> import numpy\n>>> numpy.__name__\n'oxinp'\n'''\n")
    assert expected in run("oxinp", *arguments, input=text)


def test_pytest(run, tmp_path):
    """Its rewriting of assertions, and the code that it keeps, are as ever; plain pytest has its own."""
    text = "import numpy, sys\ndef test(): assert numpy.__name__ == sys.argv[-1].split('=')[1]\n"
    example = "\n>>> import numpy, sys\n>>> numpy.__name__ == sys.argv[-1].split('=')[1]\nTrue\n"
    write(tmp_path, test_bound=f"{example!r}\n{text}")
    for runner, name in (((), "numpy"), (("oxinp", "-m"), "oxinp")):
        options = ["-q", "--doctest-modules", "-p", "no:cacheprovider", f"--basetemp={name}"]
        assert "2 passed" in run(*runner, "pytest", "test_bound.py", *options)
    assert len(list((tmp_path / "__pycache__").glob("test_bound.*"))) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="a terminal as POSIX has it")
def test_at_a_terminal(run):
    ours, theirs = os.openpty()
    os.write(ours, b"import numpy as np\nprint(np.__name__)\nexit()\n")
    assert "oxinp\n" in run("oxinp", "-", stdin=theirs, capture_output=False, stdout=subprocess.PIPE)
    os.close(ours)
    os.close(theirs)


@pytest.mark.skipif(importlib.util.find_spec("IPython") is None, reason="IPython is not installed")
def test_ipython(run, tmp_path):
    write(tmp_path, beside="import numpy as np\n")
    (tmp_path / "profile").mkdir()
    cell = "import numpy as np, beside; print(np.__name__, beside.np.__name__)"
    quiet = ["--ipython-dir", str(tmp_path / "profile"), "--no-banner", "--simple-prompt"]
    assert run("oxinp", "-m", "IPython", *quiet, "-c", cell) == "oxinp oxinp\n"


@pytest.mark.slow
def test_the_runners_tests_pass_outside_the_checkout(python, tmp_path):
    shutil.copytree(ROOT / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__", "test_wheel.py"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/runner"]
    done = subprocess.run(command, cwd=tmp_path, env=variables, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
