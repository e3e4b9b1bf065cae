"""`python -m oxinp` against plain Python, in fresh processes: the same program, the same behaviour."""

import os
import platform
import py_compile
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import scipy

import oxinp
from oxinp._config import SETTINGS
from tests.runner.process import OXINP, PYTHON, ROOT, assert_same_run, both, environment, run, write

SCRIPT = """
import os.path, numpy.linalg, sys
import numpy as np, numpy.random as nr
import numpy.linalg as la
from numpy import linalg, hypot as h
from numpy.random import default_rng
from numpy import *
import pickle
import beside, installed
import package.inner as inner

class Defined:
    pass

def local():
    import numpy
    return numpy.__name__

if __name__ == "__main__":
    copy = pickle.loads(pickle.dumps(Defined()))
    modules = [numpy, np, nr, la, linalg, beside.np, inner.numpy, installed.np, sys.modules["numpy"]]
    print([m.__name__ for m in modules], local())
    print(type(copy) is Defined, type(array([1])) is np.ndarray, h is np.hypot, "config" in globals())
    print("oxinp" in globals(), default_rng(0).__class__.__module__, np.linalg.inv(eye(2)).tolist())
    print(sys.argv, sys.path[0], __file__, __spec__, __package__, __doc__, sys.modules["__main__"].local is local)
"""


@pytest.fixture
def folder(tmp_path):
    texts = {
        "script.py": SCRIPT,
        "beside.py": "import numpy as np\ndef call(f):\n    return f()\n",
        "package/__init__.py": "",
        "package/inner.py": "import numpy.linalg\n",
        "site-packages/installed.py": "import numpy as np\n",
        "../lib/installed.py": "import numpy as np\n",
        "broken.py": "import numpy\ndef f(:\n",
        "empty/file.txt": "",
    }
    program = tmp_path / "program"
    program.mkdir()
    for name, text in texts.items():
        (program / name).parent.mkdir(exist_ok=True)
        (program / name).write_text(text, encoding="utf-8")
    return program


def test_script(folder):
    ours, pythons = both(folder, "script.py", "a", "--strict")
    assert ours.returncode == 0, ours.stderr
    names, kinds, values, main = ours.stdout.splitlines()
    users = ["oxinp", "oxinp", "oxinp.random", "oxinp.linalg", "oxinp.linalg", "oxinp", "oxinp"]
    assert names == f"{[*users, 'numpy', 'numpy']} oxinp"
    assert kinds == "True True True False"
    assert values.startswith("False oxinp.random._api ")
    assert values.endswith("[[1.0, 0.0], [0.0, 1.0]]")
    assert main == pythons.stdout.splitlines()[-1]


def test_bytecode_files_are_plain_pythons(folder):
    text = "from package import inner; print(inner.numpy.__name__)"
    printed = [run([*each, "-c", text], folder, PYTHONDONTWRITEBYTECODE="").stdout for each in (OXINP, PYTHON, OXINP)]
    assert printed == ["oxinp\n", "numpy\n", "oxinp\n"]
    assert len(list((folder / "package" / "__pycache__").glob("inner.*"))) == 1


def test_installed_library_below_the_script(folder):
    (folder.parent / "lib" / "installed.py").unlink()
    text = "import sys; sys.path.append('site-packages'); import installed; print(installed.np.__name__)"
    assert run([*OXINP, "-c", text], folder).stdout == "numpy\n"


def test_module(folder):
    (folder / "package" / "__main__.py").write_text(
        "import sys, numpy\nfrom . import inner\nprint(sys.argv, sys.path[0], __package__, __spec__.name)\n"
        "print(numpy.__name__, inner.numpy.__name__)\n",
        encoding="utf-8",
    )
    ours, pythons = both(folder, "-m", "package", "x")
    assert ours.stdout.splitlines()[0] == pythons.stdout.splitlines()[0]
    assert ours.stdout.splitlines()[1:] == ["oxinp oxinp"], ours.stderr


def test_folder(folder):
    text = "import sys, numpy\nprint(sys.argv, sys.path[0])\nprint(numpy.__name__)\n"
    (folder / "package" / "__main__.py").write_text(text, encoding="utf-8")
    ours, pythons = both(folder, "package", "x")
    assert ours.stdout.splitlines() == [pythons.stdout.splitlines()[0], "oxinp"], ours.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["-c", "import sys, numpy; print(sys.argv, sys.path[0], __name__); sys.exit(3)", "-x"], 3),
        (["-c", "import numpy; raise SystemExit('why')"], 1),
        (["-c", "def f(:"], 1),
        (["-m", "absent"], 1),
        (["-m", "package"], 1),
        (["absent.py"], 2),
        (["empty"], 1),
        (["broken.py"], 1),
        (["imports_broken.py"], 1),
        (["raises.py"], 1),
        (["-m", "raises"], 1),
        (["chained.py"], 1),
        (["interrupted.py"], -signal.SIGINT if sys.platform != "win32" else None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_ends_as_python_does(folder, arguments, code):
    raises = "import numpy as np\nimport beside\ndef f():\n    return np.zeros(3)[5]\nbeside.call(f)\n"
    (folder / "raises.py").write_text(raises, encoding="utf-8")
    (folder / "imports_broken.py").write_text("import broken\n", encoding="utf-8")
    chained = "import numpy as np\ntry:\n    np.ones(2) + np.ones(3)\nexcept ValueError:\n    np.ones(2).reshape(3)\n"
    (folder / "chained.py").write_text(chained, encoding="utf-8")
    (folder / "interrupted.py").write_text("import numpy\nraise KeyboardInterrupt\n", encoding="utf-8")
    done = assert_same_run(folder, *arguments)
    assert code in {None, done.returncode}


def test_bytecode(folder):
    (folder / "plain.py").write_text("import sys\nprint(sys.argv, __file__, __name__)\n1 / 0\n", encoding="utf-8")
    py_compile.compile(str(folder / "plain.py"), str(folder / "plain.pyc"))
    (folder / "plain.py").unlink()
    assert assert_same_run(folder, "plain.pyc", "x").returncode == 1


@pytest.mark.skipif(sys.platform == "win32", reason="a terminal as POSIX has it")
def test_at_a_terminal(folder):
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [*OXINP, "-"], cwd=folder, stdin=theirs, stdout=subprocess.PIPE, env=environment(folder)
    ) as run:
        os.write(ours, b"import numpy as np, beside\nprint(np.__name__, beside.np.__name__, __name__)\nexit(3)\n")
        printed = run.stdout.read()
    os.close(ours)
    os.close(theirs)
    assert b"oxinp oxinp __main__\n" in printed
    assert run.returncode == 3


def test_hook_of_the_program(folder):
    text = "import sys\nsys.excepthook = lambda kind, error, tb: print(kind.__name__, tb.tb_frame.f_code.co_name)\n1/0"
    assert run([*OXINP, "-c", text], folder).stdout == "ZeroDivisionError <module>\n"


def test_strict(folder):
    text = "import numpy as np\nnp.linalg.eigvals(np.ones((4, 4)))\n"
    (folder / "eigvals.py").write_text(text, encoding="utf-8")
    variables = {"OXINP_OFFLOAD_THRESHOLD": "0"}
    relaxed = run([*OXINP, "--backend", "emulator", "eigvals.py"], folder, **variables)
    assert relaxed.returncode == 0, relaxed.stderr
    strict = run([*OXINP, "--strict", "--backend=emulator", "eigvals.py"], folder, **variables)
    assert strict.returncode == 1
    assert "FallbackError: " in strict.stderr
    assert re.findall(r'File "(.*)", line (\d+)', strict.stderr) == [(str(folder / "eigvals.py"), "2")]


@pytest.mark.parametrize(
    ("arguments", "first"),
    [
        (["-Z", "script.py"], "Unknown option: -Z"),
        (["--foo"], "unknown option --foo"),
        (["-c"], "Argument expected for the -c option"),
        (["--backend"], "Argument expected for the --backend option"),
        (["--backend", "gpu", "script.py"], "--backend: backend cannot be 'gpu'; legal values: auto, "),
        ([], "nothing to run"),
    ],
)
def test_bad_option(folder, arguments, first):
    done = run([*OXINP, *arguments], folder)
    assert done.returncode == 2
    message, usage, advice = done.stderr.splitlines()
    assert message.startswith(first)
    assert usage.startswith(f"usage: {sys.executable} -m oxinp [option] ... [-c cmd | -m mod | file ")
    assert advice == f"Try `{sys.executable} -m oxinp -h' for more information."


# A driver that finds no device, on machines with a GPU too.
NO_GPU = """
import sys
from oxinp._runtime import select
from oxinp._runtime.backend import BackendUnavailable
def refuse():
    raise BackendUnavailable("There is no driver. Install it.")
select._start = refuse
"""


@pytest.mark.parametrize(
    ("options", "text", "said"),
    [
        ([], "print((np.ones(20000) * 2).sum())", 1),
        ([], "print(np.ones(3).sum())", 0),  # which would be the host's anyway
        (["--backend", "host"], "print((np.ones(20000) * 2).sum())", 0),
        ([], "import os; os.fork() or os._exit(0); os.wait(); print((np.ones(20000) * 2).sum())", 1),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="one of these forks")
def test_without_a_gpu_one_line_says_so(folder, options, text, said):
    write(folder.parent, stand_in__sitecustomize=NO_GPU)
    path = os.pathsep.join([str(ROOT), str(folder.parent / "stand_in")])
    done = run([*OXINP, *options, "-c", f"import numpy as np; {text}"], folder, OXINP_BACKEND="auto", PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    lines = ["oxinp: no GPU, so the program runs on the host, on NumPy: There is no driver"]
    assert done.stderr.splitlines() == lines[:said]


def test_info(folder):
    cache = folder / "file"
    cache.write_text("", encoding="utf-8")
    variables = {"OXINP_CACHE_DIR": str(cache), "OXINP_FALLBACK": "warn"}
    done = run([*OXINP, "--backend", "emulator", "info"], folder, **variables)
    rows = dict(re.split(r": +", line, maxsplit=1) for line in done.stdout.splitlines())
    assert done.returncode == 0, done.stderr
    assert rows["python"] == sys.version.split()[0]
    assert rows["backend"] == "emulator"
    assert re.fullmatch(r".+, compute capability \d+\.\d+, \d+ SMs", rows["device"])
    assert "GiB free of" in rows["memory"]
    assert rows["cache"].startswith(f"{cache} (")
    assert rows["scipy"] == scipy.__version__
    assert rows["system"] == platform.platform()
    assert rows["path"] == str(Path(oxinp.__file__).parent)
    assert rows["offload_threshold"] == "65536"
    assert rows["fallback"] == "warn (default: silent)"
    assert {row.name for row in SETTINGS} - {"cache_dir"} <= rows.keys()
    host = run([*OXINP, "info"], folder).stdout
    assert re.search(r"\nbackend: +host: config.backend is 'host'; set it", host)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no owners here")
def test_info_tells_of_files_that_others_may_write(folder):
    def cache_rows():
        lines = run([*OXINP, "info"], folder, OXINP_CACHE_DIR=str(folder / "cache")).stdout.splitlines()
        return [re.sub(": +", ": ", line) for line in lines if line.startswith(("cache:", "tuned:"))]

    assert cache_rows() == [f"cache: {folder / 'cache'}"]
    (folder / "cache" / "tuned").mkdir(mode=0o700)
    kernel, choices = folder / "cache" / "cubins" / "a.cubin", folder / "cache" / "tuned" / "sm_90.json"
    for path in (kernel, choices):
        path.write_text("", encoding="utf-8")
        path.chmod(0o666)
    cache, tuned = cache_rows()
    assert cache.startswith(f"cache: {folder / 'cache'} (1 of the compiled kernels there is not used: ")
    assert tuned.startswith(f"tuned: {choices} is not used: other users may write to it (mode 666); ")
    (folder / "cache" / "cubins").chmod(0o777)
    assert "other users may write to it (mode 777)" in cache_rows()[0]
