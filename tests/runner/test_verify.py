"""`--verify`: quiet where oxinp gives what NumPy gives, and exact about the line where it does not.

The differences come from stand-ins that break one function of oxinp before the runner starts.
"""

import os
import re

import numpy as np
import pytest

from oxinp._runner import compare
from tests.runner.process import OXINP, ROOT, run, write

PROGRAM = """
import numpy as np
from numpy.random import default_rng
import beside

rng = default_rng(3)
np.random.seed(0)
a = rng.standard_normal((150, 100)); b = np.random.rand(150, 100)
c = (a + b) * np.sqrt(np.abs(b)) - a / 3
c[1:-1, ::2] += a[1:-1, ::2] * 2
d = c[::2].T; d *= 2
d[c[::2].T > 1] = 0
assert isinstance(c, np.ndarray) and np.concat is np.concatenate
print(float(c.sum()), c.max(), np.linalg.norm(c))
e = np.concatenate([c, a]); e.sort(axis=0)
u = np.vectorize(lambda x: np.float64(x) + 1)(e[:2, :2])
g = np.apply_along_axis(lambda row: beside.double(row).sum(), 1, e)
for i in range(5): e[i] = e[i - 1] + a[i]
rng.shuffle(e); np.random.shuffle(e)
unseeded = default_rng().random(20000) + np.random.default_rng().standard_normal(20000)
x = np.float32(3) * np.ones(40000, np.float32); x += np.sin(x); s = x.sum(); y = x * s
np.add.at(y, [1, 2, 1], 5.0); np.multiply(y, 2, out=y); y.fill(3); x.flat[3] = 7
for wrong in (lambda: a @ b, lambda: a + b[:7], lambda: a[1000], lambda: a.reshape(7)):
    try:
        wrong()
    except (ValueError, IndexError) as error:
        print(type(error).__name__)
f = x[1:].flat; f[2] = 7; p = x + 1
v = x[2:]; x.flat[5] = 9; p = x + v[0]; v = x[3:]
memoryview(x)[4] = 2; p = x * 2
host = memoryview(b"abcd"); k = np.asarray(host).astype(int) << 3
w = np.where(c > np.std(c, axis=1, keepdims=True), c, np.nan); np.nanmean(w)
o = np.array([1, "a", None], dtype=object); o2 = o == 1
t = np.array(["2020-01-01", "NaT"], "M8[D]"); t + 1
r = np.array([(1, 2.0)], dtype=[("i", int), ("f", float)]); r["f"] += 1
near = 1e16 * np.ones(20000) + 1 - 1e16
total = rng.standard_normal(200_000).astype(np.float32).sum()
np.save("saved.npy", a); z = np.load("saved.npy")
print(z.shape, [[float(v) for v in row[:2]] for row in y.reshape(200, 200)[:1]], f"{s:.1f}")
"""

BROKEN = """
import oxinp
from oxinp._core.lazy.results import types

def breaks(owner, name):
    def decorate(change):
        real = getattr(owner, name)
        def broken(*args, **kwargs):
            return change(real, *args, **kwargs)
        setattr(owner, name, broken)
    return decorate
"""


@pytest.fixture
def folder(tmp_path):
    program = tmp_path / "program"
    write(tmp_path, program__program=PROGRAM, program__beside="import numpy as np\ndef double(x):\n    return x * 2\n")
    return program


def verified(folder, script, *options, broken=""):
    write(folder.parent, stand_in__sitecustomize=BROKEN + broken)
    path = os.pathsep.join([str(ROOT), str(folder.parent / "stand_in")])
    variables = {"PYTHONPATH": path, "OXINP_BACKEND": "emulator"}
    return run([*OXINP, *(options or ("--verify",)), script], folder, **variables)


@pytest.mark.parametrize("threshold", ["0", pytest.param("65536", marks=pytest.mark.slow), "inf"])
def test_agrees(folder, threshold):
    variables = {"OXINP_BACKEND": "emulator", "OXINP_OFFLOAD_THRESHOLD": threshold}
    plain = run([*OXINP, "program.py"], folder, **variables)
    done = run([*OXINP, "--verify", "program.py"], folder, **variables)
    assert done.returncode == 0, done.stderr
    assert done.stdout == plain.stdout
    last = done.stderr.splitlines()[-1]
    found = re.fullmatch(r"verify: (\d+) results of (\d+) lines agree with NumPy's(; largest difference: .*)?", last)
    assert found, done.stderr
    assert int(found[1]) > 45
    assert int(found[2]) >= 20


QUIET = {
    "a class of the program's": """
class Tagged(np.ndarray):
    def __array_finalize__(self, other): self.tag = getattr(other, "tag", "none")
    def double(self): return self * 2
x = np.arange(3.).view(Tagged)
x.tag = "mine"
y = x.double()[1:] + 1
assert type(y) is Tagged and y.tag == "mine"
z = y.view(np.ndarray).sum() + np.add(y, y).max()
""",
    "a class with protocols": """
class Logged(np.ndarray):
    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        plain = [np.asarray(each).view(np.ndarray) for each in inputs]
        return getattr(ufunc, method)(*plain, **kwargs) * 10
x = np.arange(3.).view(Logged)
y = x + 1
assert float(y.sum()) == 60.0
z = np.add(x, x) + 1
""",
    "an iterator that writes": """
a = np.arange(5)
b = a[1:]
f = a.flat
f[1] = 7
c = a + 1
f[2:4] = 9
d = b * 2 + a.flat[1]
a.flat = 3
""",
    "memory that others write": """
a = np.arange(30000.0)
b = a * 2
view = np.frombuffer(b.data)
view[4] = -1
c = b + 1
b.ctypes.data
d = b[::2]
view[:] = 0
assert (b == 0).all()
""",
    "parts that are assigned": """
x = np.arange(4) * (1 + 2j)
y = x * 2
y.real = 0
y.imag[1] = 5
z = y + x
""",
}


def test_no_false_alarms(folder):
    write(folder, quiet="".join(["import numpy as np\n", *[f"# {what}{text}" for what, text in QUIET.items()]]))
    done = run([*OXINP, "--verify", "quiet.py"], folder, OXINP_BACKEND="emulator")
    assert done.returncode == 0, done.stderr


def test_on_the_host_it_says_what_it_compares(folder):
    write(folder, short="import numpy as np\nx = np.ones(3) + 1\n")
    for backend, said in (("host", 2), ("emulator", 1)):
        done = run([*OXINP, "--backend", backend, "--verify", "short.py"], folder)
        assert done.returncode == 0, done.stderr
        lines = done.stderr.splitlines()
        assert len(lines) == said
        assert lines[0].startswith("verify: without a GPU it is NumPy that computes") == (said == 2)


VALUES = """
@breaks(oxinp, "cumsum")
def cumsum(real, *args):
    result = real(*args)
    result[5] += 1e-3
    return result
"""

USES = """
import numpy as np
x = np.ones(20000)
def total(values):
    try:
        y = np.cumsum(values) * 2
        z = y + 1
        return z
    except Exception:
        print("caught")
print("before")
total(x)
print("after")
"""


def test_first_line_that_differs(folder):
    write(folder, uses=USES)
    done = verified(folder, "uses.py", broken=VALUES)
    assert (done.returncode, done.stdout) == (1, "before\n")
    assert done.stderr.splitlines() == [
        f"verify: {folder / 'uses.py'}:6: y = np.cumsum(values) * 2",
        (
            "  y: 1 of 20000 elements differ, the first at [5]: oxinp 12.002, NumPy 12.0; largest difference: "
            "0.002 absolute, 0.000167 relative, 1.13e+12 ulp"
        ),
    ]


def test_tolerance(folder):
    write(folder, uses=USES)
    done = verified(folder, "uses.py", "--verify=0.01", broken=VALUES)
    assert (done.returncode, done.stdout) == (0, "before\nafter\n"), done.stderr
    assert "largest difference: 0.00017 relative" in done.stderr
    assert verified(folder, "uses.py", "--verify=1e-5", broken=VALUES).returncode == 1
    for bad in ("-1", "x", "nan"):
        done = verified(folder, "uses.py", f"--verify={bad}")
        assert done.returncode == 2
        assert done.stderr.startswith("--verify: ")


DIFFERENCES = {
    "in place": (
        "@breaks(types.ndarray, 'sort')\ndef sort(real, self):\n    real(self)\n    self[0] = -5\n",
        "x = np.arange(5.0)\nx.sort()",
        (
            "x: 1 of 5 elements differ, the first at [0]: oxinp -5.0, NumPy 0.0; largest difference: "
            "5 absolute, inf relative, inf ulp"
        ),
    ),
    "integers": (
        "@breaks(oxinp, 'cumsum')\ndef cumsum(real, *a):\n    return real(*a) + 1\n",
        "x = np.cumsum(np.arange(3))",
        "x: 3 of 3 elements differ, the first at [0]: oxinp 1, NumPy 0",
    ),
    "dtype": (
        "@breaks(oxinp, 'cumsum')\ndef cumsum(real, *a):\n    return real(*a).astype('f4')\n",
        "x = np.cumsum(np.ones(3))",
        "oxinp gives float32 (3,), NumPy float64 (3,)",
    ),
    "shape": (
        "@breaks(oxinp, 'cumsum')\ndef cumsum(real, *a):\n    return real(*a)[:2]\n",
        "x = np.cumsum(np.ones(3))",
        "oxinp gives float64 (2,), NumPy float64 (3,)",
    ),
    "scalar": (
        "@breaks(oxinp, 'median')\ndef median(real, *a):\n    return real(*a) + 1\n",
        "x = np.median(np.ones(3))",
        "oxinp 2.0, NumPy 1.0; largest difference: 1 absolute, 1 relative, 4.5e+15 ulp",
    ),
    "NaN": (
        "@breaks(oxinp, 'cumsum')\ndef cumsum(real, *a):\n    return real(*a) * float('nan')\n",
        "x = np.cumsum(np.ones(1))",
        (
            "x: 1 of 1 elements differ, the first at [0]: oxinp nan, NumPy 1.0; largest difference: "
            "inf absolute, inf relative, inf ulp"
        ),
    ),
    "raises": (
        "@breaks(oxinp, 'cumsum')\ndef cumsum(real, *a):\n    raise ValueError('mine')\n",
        "x = np.cumsum(np.ones(1))",
        "oxinp raises ValueError: mine; NumPy raises nothing",
    ),
    "raises nothing": (
        "@breaks(oxinp, 'cumsum')\ndef cumsum(real, *a):\n    return 1\n",
        "x = np.cumsum(np.ones(1), 5)",
        "oxinp raises nothing; NumPy raises AxisError: axis 5 is out of bounds for array of dimension 1",
    ),
    "copy for a view": (
        "@breaks(types.ndarray, 'ravel')\ndef ravel(real, self):\n    return real(self).copy()\n",
        "x = np.ones((3, 3))\ny = x.ravel()",
        "oxinp gives a copy of an argument, NumPy a view",
    ),
    "view for a copy": (
        "@breaks(types.ndarray, 'flatten')\ndef flatten(real, self):\n    return self.ravel()\n",
        "x = np.ones((3, 3))\ny = x.flatten()",
        "oxinp gives a view of an argument, NumPy a copy",
    ),
    "a ufunc": (
        "@breaks(type(oxinp.add), '__call__')\ndef call(real, self, *a):\n    return real(self, *a) + 1\n",
        "x = np.add(np.ones(2), 1)",
        (
            "x: 2 of 2 elements differ, the first at [0]: oxinp 3.0, NumPy 2.0; largest difference: "
            "1 absolute, 0.5 relative, 2.25e+15 ulp"
        ),
    ),
    "a line before memory is lent": (
        "@breaks(oxinp, 'cumsum')\ndef cumsum(real, *a):\n    return real(*a) + 1\n",
        "x = np.cumsum(np.arange(3)); f = x.flat",
        "x: 3 of 3 elements differ, the first at [0]: oxinp 1, NumPy 0",
    ),
    "an operator of a class of the program's": (
        "@breaks(types.dressed, '__neg__')\ndef neg(real, self):\n    return real(self) + 1\n",
        "class Tagged(np.ndarray): pass\nx = np.arange(3).view(Tagged)\ny = -x",
        "y: 3 of 3 elements differ, the first at [0]: oxinp 1, NumPy 0",
    ),
    "an operator": (
        "@breaks(types.ndarray, '__mul__')\ndef mul(real, self, other):\n    return real(self, other) - 1\n",
        "f = lambda x: x * 2\nx = np.ones(2); y = f(x)",
        (
            "2 of 2 elements differ, the first at [0]: oxinp 1.0, NumPy 2.0; largest difference: "
            "1 absolute, 0.5 relative, 2.25e+15 ulp"
        ),
    ),
    "inside a function that is called back": (
        "@breaks(oxinp, 'cumsum')\ndef cumsum(real, *a):\n    return real(*a) + 1\n",
        "np.apply_along_axis(lambda row: np.cumsum(np.asarray(list(row))), 0, np.ones((2, 2)))",
        (
            "2 of 2 elements differ, the first at [0]: oxinp 2.0, NumPy 1.0; largest difference: "
            "1 absolute, 1 relative, 4.5e+15 ulp"
        ),
    ),
    "printed": (
        "@breaks(types.ndarray, '__mul__')\ndef mul(real, self, other):\n    return real(self, other) - 1\n",
        "print(np.ones(2) * 2)",
        "2 of 2 elements differ, the first at [0]: oxinp 1.0, NumPy 2.0",
    ),
    "a printed scalar": (
        "@breaks(types.ndarray, 'sum')\ndef sum(real, self):\n    return real(self) * 2\n",
        "print(np.ones(20000).sum())",
        "oxinp 40000.0, NumPy 20000.0",
    ),
    "random numbers": (
        (
            "import oxinp.random\n@breaks(oxinp.random.Generator, 'random')\ndef random(real, self, *a):\n"
            "    real(self)\n    return real(self, *a)\n"
        ),
        "x = np.random.default_rng(0).random(3) > 2\ny = np.random.default_rng(0).random(3)",
        "3 of 3 elements differ, the first at [0]: ",
    ),
}


USUAL = ("in place", "dtype", "raises", "view for a copy", "a ufunc", "an operator", "printed", "random numbers")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in USUAL else pytest.mark.slow) for name in DIFFERENCES]
)
def test_differences(folder, name):
    broken, text, message = DIFFERENCES[name]
    write(folder, uses=f"import numpy as np\n{text}\n")
    done = verified(folder, "uses.py", broken=broken)
    assert done.returncode == 1, done.stderr
    place, found = done.stderr.splitlines()
    assert place.startswith(f"verify: {folder / 'uses.py'}:")
    assert message in found


def test_last_line_and_ends(folder):
    write(folder, last="import numpy as np, sys\nx = np.cumsum(np.ones(3))\nsys.exit(0)\n")
    assert verified(folder, "last.py", broken=VALUES.replace("[5]", "[1]")).returncode == 1
    write(folder, last="import numpy as np\nx = np.cumsum(np.ones(3))\n1 / 0\n")
    done = verified(folder, "last.py", broken=VALUES.replace("[5]", "[1]"))
    assert done.returncode == 1
    assert "last.py:2: x = np.cumsum(np.ones(3))" in done.stderr
    assert done.stderr.splitlines()[-1] == "ZeroDivisionError: division by zero"
    write(folder, last="import numpy as np, sys\nx = np.cumsum(np.ones(3))\nsys.exit(5)\n")
    assert verified(folder, "last.py").returncode == 5


THREADS = """
import threading
import numpy as np
shared = np.zeros((8, 3000))
def fill(i):
    for j in range(5):
        shared[i] = shared[i] + i
        shared[i] *= 2
def wrong():
    global last
    last = np.cumsum(np.ones(6))
threads = [threading.Thread(target=fill, args=(i,)) for i in range(8)]
threads += [threading.Thread(target=wrong)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_threads(folder):
    write(folder, threads=THREADS)
    agrees = verified(folder, "threads.py")
    assert agrees.returncode == 0, agrees.stderr
    differs = verified(folder, "threads.py", broken=VALUES)
    assert differs.returncode == 1
    assert differs.stderr.splitlines()[0] == f"verify: {folder / 'threads.py'}:11: last = np.cumsum(np.ones(6))"


def test_tracebacks_stay(folder):
    write(folder, raises="import numpy as np\ndef f():\n    return np.ones(3).reshape(2)\nf()\n")
    done = verified(folder, "raises.py")
    lines = re.findall(r'File ".*?(\w+\.py)", line (\d+)', done.stderr)
    assert lines == [("raises.py", "4"), ("raises.py", "3")]


def test_fusion_within_a_line_stays(folder):
    text = "import numpy as np, oxinp.cuda\nx = np.ones(20000)\nx + 1\nbefore = oxinp.cuda.stats().launches\n"
    text += "y = x * 2 + x * 3 - 1\nx + 1\nprint(oxinp.cuda.stats().launches - before)\n"
    write(folder, fused=text)
    assert verified(folder, "fused.py").stdout == "1\n"


@pytest.mark.parametrize(
    ("ours", "numpys", "rtol", "slack", "is_wrong"),
    [
        ([1.0, np.nan, np.inf], [1.0, np.nan, np.inf], None, 0, False),
        ([1.0 + 1e-9], [1.0], None, 0, False),
        ([1.0 + 1e-7], [1.0], None, 0, True),
        ([1.0 + 1e-7], [1.0], 1e-6, 0, False),
        ([1e-9], [0.0], 0.1, 0, True),
        ([1e-9], [0.0], 0.1, 1e-8, False),
        ([np.inf], [1e308], 0.1, np.inf, True),
        ([1e308], [np.inf], 0.1, np.inf, True),
        ([-np.inf], [np.inf], 0.1, np.inf, True),
        ([0.0], [np.nan], 0.1, np.inf, True),
        ([1 + 1e-9j], [1 + 0j], None, 0, False),
        ([1 + 1e-7j], [1 + 0j], None, 0, True),
        ([1], [2], 10, 10, True),
        ([True], [False], 10, 10, True),
    ],
)
def test_distance(ours, numpys, rtol, slack, is_wrong):
    assert compare.distance(np.array(ours), np.array(numpys), rtol, slack).is_wrong == is_wrong


def test_rounding():
    a = np.full(1000, 1e8)
    assert 0 < compare.rounding([a], a - a) < 1e-5
    assert compare.rounding([a], np.float64(0)) > compare.rounding([a], a)
    assert compare.rounding([a], np.arange(3)) == 0


SCIPY = """
import numpy as np
from scipy import linalg, ndimage
from scipy.cluster.vq import kmeans
from scipy.fft import fftshift, fftfreq
from scipy.special import erf
x = np.ones((3, 3)); ndimage.gaussian_filter(x, 1, output=x); y = x + 1
a = linalg.solve(x + np.eye(3), np.ones(3), overwrite_a=True) * 2
k = kmeans(np.random.default_rng(0).random((30, 2)), 3)[0] + 1
s = fftshift(erf(a)) + fftfreq(3)
"""


def test_scipy(folder):
    """What SciPy computes is called once (it may draw random numbers, and write); what oxinp has of it, twice."""
    write(folder, uses=SCIPY)
    done = verified(folder, "uses.py")
    assert done.returncode == 0, done.stderr
    broken = (
        "from oxinp.scipy.fft import _api\nimport scipy.fft\nfrom oxinp._core.array import dispatch\n"
        "real = dispatch.functions[scipy.fft.fftshift]\n"
        "def fftshift(x, axes=None):\n    return real(x, axes) + 1\n"
        "dispatch.functions[scipy.fft.fftshift] = fftshift\n"
    )
    done = verified(folder, "uses.py", broken=broken)
    assert done.returncode == 1
    assert "uses.py:10: s = fftshift(erf(a)) + fftfreq(3)" in done.stderr
