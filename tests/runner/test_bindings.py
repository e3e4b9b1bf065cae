"""What imports of NumPy and SciPy give, in every way that a program can import."""

import pickle
import sys
import zipfile

import numpy as np
import pytest

from tests.runner.process import OXINP, both, run, write

DYNAMIC = """
import builtins, doctest, importlib, pickle, runpy, sys, timeit
import numpy as np
from importlib import import_module
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from numpy.typing import NDArray
import installed

def documented():
    '''
    >>> import numpy as np
    >>> np.__name__
    'oxinp'
    '''

def local():
    from numpy import linalg as la, float64
    return la.__name__

if __name__ == "__main__":
    print([importlib.import_module("numpy").__name__, import_module("numpy.linalg").__name__])
    print([import_module(name).__name__ for name in ("numpy._core", "json", "package.inner")])
    print([__import__("numpy.fft").__name__, __import__("numpy.fft", fromlist=["x"]).__name__])
    print(__import__("json").__name__)
    for given in ("import numpy as q", b"import numpy as q", compile("import numpy as q", "<text>", "exec")):
        exec(given)
        print(q.__name__, end=" ")
        names = {}
        exec(given, names)
        print(names["q"].__name__)
    exec("from numpy import *; print(type(zeros(3)) is np.ndarray, 'config' in globals())")
    print(eval("  __import__('numpy').__name__"), eval("1 + 1"))
    print(timeit.timeit("assert np.__name__ == 'oxinp'", "import numpy as np", number=2) > 0)
    print(doctest.testmod())
    print(runpy.run_path("beside.py")["np"].__name__, runpy.run_module("beside")["np"].__name__)
    objects = [np.sum, np.add, np.linalg, np.linalg.inv, np.float64, importlib.import_module, compile]
    print([pickle.loads(pickle.dumps(each)) is each for each in objects])
    with open("numpys.pickle", "rb") as file:
        print(type(pickle.load(file) + np.ones(3)) is np.ndarray)
    print(installed.by_name(), installed.by_text(), compile.__name__, builtins.compile is compile, local())
"""

INSTALLED = """
import importlib
def by_name():
    return importlib.import_module("numpy").__name__, __import__("numpy").__name__
def by_text():
    names = {}
    exec(compile("import numpy", "<string>", "exec"), names)
    exec("import numpy as other", names)
    return names["numpy"].__name__, names["other"].__name__
"""


@pytest.fixture
def folder(tmp_path):
    program = tmp_path / "program"
    write(
        tmp_path,
        program__dynamic=DYNAMIC,
        program__beside="import numpy as np\n",
        program__package__inner="from numpy import linalg\nfrom .. import package\n",
        lib__installed=INSTALLED,
    )
    return program


def test_at_run_time(folder):
    write(folder, package__inner="import numpy.linalg as la\nfrom . import other\n", package__other="import numpy\n")
    (folder / "numpys.pickle").write_bytes(pickle.dumps(np.ones(3)))
    done = run([*OXINP, "dynamic.py"], folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "['oxinp', 'oxinp.linalg']",
        "['numpy._core', 'json', 'package.inner']",
        "['oxinp', 'oxinp.fft']",
        "json",
        *["oxinp oxinp"] * 3,
        "True False",
        "oxinp 2",
        "True",
        "TestResults(failed=0, attempted=2)",
        "oxinp oxinp",
        str([True] * 7),
        "True",
        "('numpy', 'numpy') ('numpy', 'numpy') compile True oxinp.linalg",
    ]


def test_tools_of_the_standard_library(folder):
    assert (
        run([*OXINP, "-m", "timeit", "-n1", "import numpy; assert numpy.__name__ == 'oxinp'"], folder).returncode == 0
    )
    done = run([*OXINP, "-m", "doctest", "dynamic.py"], folder)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "text",
    [
        "eval = len; print(eval('numpy'))",
        "def exec(text): return text\nprint(exec('import numpy'))",
        "from __future__ import annotations\nexec('import numpy\\ndef f(x: y): pass\\nprint(f.__annotations__)')",
        "exec('import numpy; f(:')",
        "__import__('numpy.absent')",
        "from numpy import absent",
        "import importlib; importlib.import_module('.numpy', 'package')",
        "compile('numpy(', 'name', 'eval')",
        "print(compile('1 +', '<input>', 'single', 0x2000 | 0x4000).co_name)",
    ],
)
def test_as_python(folder, text):
    ours, pythons = both(folder, "-c", text)
    assert (ours.returncode, ours.stdout) == (pythons.returncode, pythons.stdout)
    last = [each.stderr.splitlines()[-1:] for each in (ours, pythons)]
    assert str(last[0]).replace("oxinp", "numpy").split(" (")[0] == str(last[1]).split(" (")[0]


def test_zip(folder):
    with zipfile.ZipFile(folder / "app.zip", "w") as archive:
        text = (
            "import sys, numpy, inner\nprint(sys.argv, sys.path[0], __file__)\nprint(numpy.__name__, inner.np.__name__)"
        )
        archive.writestr("__main__.py", text)
        archive.writestr("inner.py", "import numpy as np")
    ours, pythons = both(folder, "app.zip", "x")
    assert ours.stdout.splitlines() == [pythons.stdout.splitlines()[0], "oxinp oxinp"], ours.stderr


def test_interactive_afterwards(folder):
    done = run([sys.executable, "-i", *OXINP[1:], "-c", "import numpy as np; x = np.ones(2)"], folder, PYTHONSTARTUP="")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "statement",
    [
        "from numpy.lib import user_array as found",
        "from numpy.ma import mrecords as found",
        "import numpy, numpy.ma.mrecords; found = numpy.ma.mrecords",
    ],
)
def test_what_oxinp_has_not_is_theirs_at_the_first_import(folder, statement):
    text = f"{statement}\nimport sys; assert sys.modules[found.__name__] is found; print(found.__name__)"
    done = run([*OXINP, "-c", text], folder)
    assert (done.returncode, done.stdout.partition(".")[0]) == (0, "numpy"), done.stderr


def test_a_module_of_functions_is_ours_at_the_first_import(folder):
    text = "from numpy.lib import recfunctions as rfn\nimport numpy as np; print(rfn.merge_arrays(np.array([1, 2])))"
    done = run([*OXINP, "-c", text], folder)
    assert (done.returncode, done.stdout) == (0, "[(1,) (2,)]\n"), done.stderr


@pytest.mark.slow
def test_scipy_computes(folder):
    text = """
import numpy as np, scipy, scipy.linalg as la
from scipy import ndimage
from scipy.special import erf
a = np.eye(200) * 2
print(scipy.__name__, type(a) is np.ndarray)
print(float(la.solve(a, np.ones(200))[7]), ndimage.gaussian_filter(a, 1).shape, float(erf(a).sum()) > 0)
print(scipy.optimize.minimize(lambda x: ((x - 3) ** 2).sum(), np.zeros(2)).x.round(3).tolist())
"""
    write(folder, uses=text)
    done = run([*OXINP, "--backend", "emulator", "uses.py"], folder, OXINP_OFFLOAD_THRESHOLD="1000")
    assert done.stdout.splitlines() == ["oxinp.scipy True", "0.5 (200, 200) True", "[3.0, 3.0]"], done.stderr


def test_scipy_is_ours(folder):
    """Every form of import gives `oxinp.scipy`; what oxinp has not stays SciPy's, in SciPy's words."""
    text = """
import importlib, pickle, scipy, scipy.special, scipy.special as sp, scipy.linalg as la, json
import scipy._lib, scipy.stats.qmc
from scipy import special, linalg, fft as transforms
from scipy.special import erf, erfc as c
from scipy.special import *
import numpy as np
print(erf(1) > 0.8, c(0.0), scipy.special.erf is erf is sp.erf, scipy.special.erfc is c)
print(sp is special is scipy.special, pickle.loads(pickle.dumps(scipy.special)) is sp, "erfc" in dir(sp))
print(la is linalg is scipy.linalg, la.__name__, scipy.__version__ > "1", gamma(3.0), type(json).__name__)
print(importlib.import_module("scipy.special") is sp, __import__("scipy.special") is scipy)
print(scipy._lib.__name__, scipy.stats.qmc.__name__, transforms.__name__)
print([type(each) is np.ndarray for each in (la.lu(np.eye(3))[0], erf(np.ones(3)), transforms.fftshift(np.ones(3)))])
print(pickle.loads(pickle.dumps(la.lu)) is la.lu, pickle.loads(pickle.dumps(erf)) is erf)
def local():
    import scipy.special
    from scipy.sparse import csr_array
    return scipy.special is sp, csr_array is scipy.sparse.csr_array
print(local())
exec("from scipy import special as s; import scipy.ndimage; print(s is sp, scipy.ndimage.__name__)")
try:
    from scipy.special import absent
except ImportError as error:
    print(str(error).split(" (")[0])
import scipy.absent
"""
    write(folder, uses=text)
    done = run([*OXINP, "uses.py"], folder)
    assert done.stdout.splitlines() == [
        "True 1.0 True True",
        "True True True",
        "True oxinp.scipy.linalg True 2.0 module",
        "True True",
        "scipy._lib oxinp.scipy.stats.qmc oxinp.scipy.fft",
        "[True, True, True]",
        "True True",
        "(True, True)",
        "True oxinp.scipy.ndimage",
        "cannot import name 'absent' from 'oxinp.scipy.special'",
    ], done.stderr
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'scipy.absent'"


def test_what_oxinp_has_of_scipy_runs_on_the_device(folder):
    text = """
import numpy as np
from scipy.fft import fftshift
import scipy.linalg
print(fftshift(np.arange(6.0)).tolist())
scipy.linalg.fiedler_companion(np.ones(3))
"""
    write(folder, uses=text)
    done = run([*OXINP, "--strict", "--backend", "emulator", "uses.py"], folder, OXINP_OFFLOAD_THRESHOLD="0")
    assert done.stdout.splitlines() == ["[3.0, 4.0, 5.0, 0.0, 1.0, 2.0]"], done.stderr
    frames = [line for line in done.stderr.splitlines() if line.startswith("  File")]
    assert len(frames) == 1
    assert "uses.py" in frames[0]
    assert "scipy.linalg.fiedler_companion has no kernel here" in done.stderr.splitlines()[-1]


def test_errors_of_scipy_are_the_programs(folder):
    write(folder, uses="import numpy as np, scipy.linalg\nscipy.linalg.cholesky(-np.eye(2))\n")
    done = run([*OXINP, "uses.py"], folder)
    frames = [line for line in done.stderr.splitlines() if line.startswith("  File")]
    assert len(frames) == 1, done.stderr
    assert "LinAlgError" in done.stderr.splitlines()[-1]


def test_scipy_is_not_imported_unasked(folder):
    write(folder, uses="import numpy, sys\nprint([name for name in sys.modules if name.startswith('scipy')])\n")
    assert run([*OXINP, "uses.py"], folder).stdout == "[]\n"
