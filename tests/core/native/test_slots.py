"""Slots in machine code: what they do is what the methods in Python do, which is what NumPy does."""

import gc
import operator
import subprocess
import sys
import threading
import tracemalloc
import warnings

import numpy as np
import pytest

import oxinp
from oxinp import config
from oxinp._core.native import install, objects
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("usual_threshold")
needs_slots = pytest.mark.skipif(not objects.ARE_KNOWN, reason="this Python's objects are laid out in another way")

READS = (
    *("a[2]", "a[-1]", "a[1:3]", "a[::-2]", "a[4:1]", "a[1:5][1:3]", "M[1]", "M[1, 2]", "M[-1, -2]", "M[:, 1]"),
    *("M[1:, ::2]", "M[1][2]", "M[()]", "M[...]", "M[None]", "M[1, ...]", "M[True]", "a[99]", "M[1, 9]", "M[1, 2, 3]"),
    *("Z[()]", "Z[0]", "E[0:2]", "a[a > 2]", "a[[1, 2]]", "L[3, 4]", "L[3]", "L[3, :9]", "L[:, 4]", "L[3][4:9][1:3]"),
    *(
        "a[2:1, 3]",
        "a['x']",
        "a[1.5]",
        "h[1:3]",
        "c[1]",
        "m[2]",
        "t[1]",
        "o[1]",
        "o[1:3]",
        "r[1:3]",
        "T[2]",
        "T[1:, 1]",
    ),
)
EXPRESSIONS = (
    *("a + b", "a - b", "a * b", "a / b", "a // b", "a % b", "i & i", "i | 3", "3 ^ i", "~i", "m & m", "-a", "abs(-a)"),
    *("a + 2", "a * 2.0", "2.0 - a", "1 / b", "a * 0.0", "a + -0.0", "0 - a", "a * x", "x * a", "i * 2", "i * 2.5"),
    *("i * x", "i + 2**40", "i + 2**70", "a + 2**70", "h * 2.0", "h * 70000", "h + x", "c * 2", "c + a", "a + 1j"),
    *("a + True", "m + 1", "m * 2.5", "a + M[0, :1]", "M + a[:4]", "M + b[:3]", "M * M[:, :1]", "a + Z", "Z + Z"),
    *(
        "M - M[1:2]",
        "M[:, :1] - M[:1]",
        "M[:1] * a[:3]",
        "M[:1] * M[:2, :1]",
        "M[:, :0] + M[:1, :1]",
        "M == M[:1, 1:2]",
    ),
    *("M[None] * M[:, None]", "M[:, :1] / M[:1]", "i[:1] + i[None, :3]", "M[:2] - M[:, :1]", "a[:1] - M", "M < a[:1]"),
    *("a > b", "a == 2.0", "a != b", "2 < a", "i >= 3", "m == m", "a == 'x'", "t == t", "t + t", "a == None"),
    *("M @ M.T", "M @ a[:4]", "a[:3] @ M", "a @ b", "M @ M", "a @ 2", "Z @ a", "M.T @ M", "M[None] @ M.T", "i @ i"),
    *("np.sqrt(a)", "np.exp(b)", "np.maximum(a, b)", "np.minimum(a, 2.5)", "np.maximum(3, i)", "np.add(a, 1)"),
    *(
        "np.sqrt(Z)",
        "np.maximum(a, M)",
        "np.sqrt(m)",
        "np.hypot(a, b)",
        "np.ldexp(a, 2)",
        "np.ldexp(a, 2.0)",
        "np.maximum(a, 2)",
        "np.isnan(a)",
        "np.equal(a, b)",
        "np.sin(c)",
    ),
    *("L + L", "L[3, :6] + a", "L[3, :6] @ a", "L * 2", "a * K", "K[:, :1] + a", "o + o", "o * 2", "a + [1, 2]"),
    *("a + r", "T @ M", "a**2", "divmod(a, b)", "np.sqrt(a, dtype='f4')", "np.add(a, b, out=None)"),
)
WRITES = (
    *(
        "a[2] = 7",
        "a[-1] = 2.5",
        "a[1:3] = b[1:3]",
        "a[1:3] = 0.5",
        "a[:] = 1",
        "a[...] = b",
        "a[99] = 1",
        "M[1] = M[0]",
    ),
    *("M[1, 2] = x", "M[:, 1] = a[:3]", "M[1] = a[:4]", "M[1] = a[:3]", "M[1:, 1:] -= M[:2, :3]", "a += b", "a -= 2"),
    *("a *= x", "a /= b", "i &= 3", "i += 2", "i += 2.5", "m |= m", "a[1] += 5", "M[1, 2] *= 3", "M[1] -= M[0] * 2"),
    *("i[2] = 3", "i[2] = 2.5", "i[1] = 2**70", "h[1] = 70000", "h[:] = 1e300", "m[1] = 2", "c[1] = 1j", "a[1] = 1j"),
    *("t[1] = 'xyz'", "o[1] = 5", "r[1] = 2", "r += 1", "r[1:3] = 0", "a[2:] = a[:4]", "a[::-1] = a", "L[3, 4] = 1"),
    *("L[3] = L[4]", "L[3, :9] = L[4, :9]", "L[:, 2] = 0.0", "L[3, :5] *= 2", "L[:] = 0", "Z[()] = 3", "Z += 1"),
    *(
        "E[:] = 1",
        "a[1:2] = b[3]",
        "a[1] = b[1:2]",
        "a[1] = Z",
        "T[1] = 5",
        "T[0] -= T[1]",
        "K[0, :3] = i[:3]",
        "del a[1]",
    ),
    *(
        "f[1] = 0.1",
        "f[1:] = 0.1",
        "f[2] = x",
        "f += 0.1",
        "f += x",
        "a += f",
        "f += a",
        "u[1] = 300",
        "u += 300",
        "u[1] = -1",
    ),
    *("a[1:3] = 'x'", "a[0:2] = [5, 6]", "a[1], a[2] = a[2], a[1]", "a += a[::-1]", "a += M", "a += 1j", "i /= 2"),
)


@pytest.fixture
def usual_threshold():
    with config.override(offload_threshold=65536):
        yield


def given(xp):
    """Return what the statements are about, the same for both libraries."""
    random = np.random.default_rng(5)
    numbers = {
        "a": random.normal(size=6) * 3,
        "b": random.normal(size=6),
        "M": random.normal(size=(3, 4)),
        "L": random.normal(size=(150, 150)),
        "K": random.normal(size=(40, 6)),
        "Z": np.array(2.5),
        "E": np.zeros((0, 3)),
        "i": np.arange(1, 7),
        "u": np.arange(6, dtype=np.uint8),
        "h": random.normal(size=5).astype(np.float16),
        "f": random.normal(size=5).astype(np.float32),
        "c": random.normal(size=4) + 1j,
        "m": np.arange(6) % 2 == 0,
        "t": np.array(["a", "bc", "d"]),
        "o": np.array([1, None, "x", (2,)], dtype=object),
    }
    names = {name: xp.array(value) for name, value in numbers.items()}
    names["r"] = xp.array(numbers["a"])[:5]
    names["r"].flags.writeable = False
    names["T"] = xp.array(numbers["M"]).T
    return {"np": xp, "x": np.float64(1.25), **names}


def outcome(xp, run):
    """Return what a statement gives: its value, or what it raises; what it warns of, and all arrays afterwards."""
    names = given(xp)
    for each in (names["a"], names["M"], names["L"]):
        each[0]
        each[1:2]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value = run(names)
        except Exception as error:  # noqa: BLE001 - which is compared
            value = type(error)
    arrays = {name: each for name, each in names.items() if isinstance(each, xp.ndarray)}
    return value, [(str(each.message), each.filename, each.lineno) for each in caught], arrays


def assert_same_outcome(run):
    found, told, arrays = outcome(oxinp, run)
    expected, warned, numpys = outcome(np, run)
    assert told == warned
    assert (found is NotImplemented) == (expected is NotImplemented)
    if isinstance(expected, type):
        assert found is expected
    else:
        assert isinstance(found, oxinp.ndarray) == isinstance(expected, np.ndarray)
        assert_same(found, expected)
    for name, each in numpys.items():
        if each.dtype != object:
            assert_same(arrays[name], each)


@pytest.fixture(params=[True, False], ids=["machine code", "Python"])
def slots(request):
    with config.override(machine_code=request.param):
        yield request.param


@pytest.mark.parametrize("text", READS + EXPRESSIONS)
@pytest.mark.usefixtures("slots")
def test_expressions_are_numpys(text):
    code = compile(text, "users.py", "eval")
    assert_same_outcome(lambda names: eval(code, names))  # noqa: S307 - our own text


@pytest.mark.parametrize("text", WRITES)
@pytest.mark.usefixtures("slots")
def test_statements_are_numpys(text):
    code = compile(text, "users.py", "exec")
    assert_same_outcome(lambda names: exec(code, names))  # noqa: S102 - our own text


def calls_of_ours(text):
    """Return how many functions of ours Python enters for a statement, once everything has been met."""
    names = given(oxinp)
    code, count = compile(text, "users.py", "exec"), 0

    def note(frame, event, _):
        nonlocal count
        count += event == "call" and "oxinp" in frame.f_code.co_filename

    for _ in range(40):
        exec(code, names)  # noqa: S102
    sys.setprofile(note)
    try:
        exec(code, names)  # noqa: S102
    finally:
        sys.setprofile(None)
    return count


@needs_slots
@pytest.mark.parametrize(
    "text",
    [
        *(
            "a[2]",
            "a[1:3]",
            "M[1]",
            "M[1, 2]",
            "M[:, 1]",
            "a + b",
            "a * 2.0",
            "2.0 - a",
            "a / b",
            "-a",
            "a > 2",
            "i & 3",
        ),
        *(
            "M @ M.T[:, :2]",
            "np.sqrt(a * a)",
            "np.maximum(a, 0.5)",
            "a[2] = 7",
            "a[1:3] = b[1:3]",
            "a += b",
            "M[1] -= M[0]",
        ),
        *(
            "L[3, 4]",
            "L[3, :9] = L[4, :9]",
            "L[3, :9] -= 1.5",
            "M[1, 2] -= x",
            "a * x",
            "i * 2",
            "x * a",
            "x - M",
            "M - M[1:2]",
            "M[:, 1:2] * M",
            "M[:, :1] - M[:1]",
            "M[0] * M[:, 2:3]",
            "M < M[2:]",
        ),
    ],
)
def test_no_function_of_ours_is_entered(text):
    numbers = [calls_of_ours(text) for _ in range(3)]  # one view in so many of a large array is weighed
    assert min(numbers) == (1 if ".T" in text else 0)


@needs_slots
def test_setting_changes_slots_at_once():
    oxinp.ones(3)
    assert install.is_installed(oxinp.ndarray)
    with config.override(machine_code=False):
        assert not install.is_installed(oxinp.ndarray)
        assert calls_of_ours("a + b")
    assert not calls_of_ours("a + b")


@needs_slots
def test_without_executable_pages_python_does_it(monkeypatch):
    with config.override(machine_code=False):
        monkeypatch.setattr(install, "_mapped", lambda _: None)
        monkeypatch.setattr(install, "_made", install._made.__wrapped__)
        assert not install.install(oxinp.ndarray)
        assert float((oxinp.ones(3) + 1).sum()) == 6.0


def test_methods_that_are_replaced_are_called(monkeypatch):
    a = oxinp.arange(4.0)
    a[1:2]
    called = []

    def replaced(_, other):
        called.append(other)
        return NotImplemented

    monkeypatch.setattr(oxinp.ndarray, "__and__", replaced)
    with pytest.raises(TypeError):
        a & 1
    assert called == [1]


def test_users_classes_keep_their_operators():
    class Metres(oxinp.ndarray):
        def __radd__(self, other):
            return "reflected"

        def __getitem__(self, key):
            return "part", key

    a, b = oxinp.arange(3.0), oxinp.arange(3.0).view(Metres)
    assert operator.add(a, b) == "reflected"
    assert b[1] == ("part", 1)
    assert type(b * 2.0) is Metres
    assert type(a[1:]) is oxinp.ndarray


def _statements(names):
    a, b, M, L, i, x = (names[name] for name in "abMLix")
    a + b, a * 2.0, 2.0 - a, a / b, -a, a > b, a == 2.0, M @ M.T, a @ b, oxinp.sqrt(b * b), oxinp.maximum(a, 0.5)
    a[1], a[1:4][1:2], M[1], M[1, 2], L[3, :9], L[3, 4], i & i, ~i, x * a, a * x
    a[2], a[1:3], L[3, :9], L[3, 5], M[0] = 7, b[1:3], L[4, :9], 2.0, M[1]
    a += b
    a -= b
    M[1, 2] += 2.0
    for wrong in (lambda: a + M, lambda: a[99], lambda: a @ M, lambda: operator.setitem(a, 99, 1.0)):
        with pytest.raises((ValueError, IndexError)):
            wrong()


def test_nothing_is_kept_or_given_back_twice():
    names = given(oxinp)
    watched = [
        names["a"],
        names["M"],
        names["L"],
        names["x"],
        names["a"]._seen,
        None,
        ...,
        oxinp.ndarray,
        np.ndarray,
    ]

    def run(times):
        for _ in range(times):
            _statements(names)
        gc.collect()
        return tracemalloc.get_traced_memory()[0], [sys.getrefcount(each) for each in watched]

    tracemalloc.start()
    try:
        run(100)
        before, counts = run(10)
        after, again = run(500)
    finally:
        tracemalloc.stop()
    assert after - before < 50_000
    assert all(abs(x - y) < 100 for x, y in zip(counts, again, strict=True))


def test_threads_see_whole_writes():
    a, stop, wrong = oxinp.zeros(400), threading.Event(), []

    def read():
        while not stop.is_set():
            found = a[:].copy()
            if float(found.min()) != float(found.max()):
                wrong.append(found)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for each in readers:
        each.start()
    for i in range(3000):
        a[:] = float(i)
        a += 1.0
    stop.set()
    for each in readers:
        each.join()
    assert not wrong


@pytest.mark.usefixtures("slots")
@pytest.mark.parametrize("shape", [(150, 160), (24000,)])
def test_elements_of_what_the_device_has_a_copy_of(shape):
    """What is written on the host is what the device computes with next."""
    random = np.random.default_rng(3)
    numpys = random.normal(size=shape)
    ours = oxinp.array(numpys)
    for _ in range(4):
        for key in random.integers(0, min(shape), size=(30, len(shape))):
            place = tuple(int(each) for each in key) if len(shape) > 1 else int(key[0])
            numpys[place] = ours[place] = random.normal()
            assert ours[place] == numpys[place]
        numpys[(-1,) * len(shape)] = ours[(-1,) * len(shape)] = 2.0
        with pytest.raises(IndexError):
            ours[shape[0] if len(shape) == 1 else (0, shape[1])] = 1.0
        assert_same(ours * 2 + 1, numpys * 2 + 1)


@pytest.mark.usefixtures("slots")
def test_who_takes_hold_of_an_array_while_it_is_written_to():
    a, held = oxinp.full(1500, 1e308), []
    a[1:2]
    with oxinp.errstate(over="call", call=lambda *_: held.append(np.asarray(memoryview(a)))):
        a *= 10.0
    assert len(held) == 1
    assert a._held.stale.num_writers == 0
    held[0][3] = 5.0
    assert a[3] == 5.0
    a += 1.0
    assert held[0][3] == 6.0


def test_a_process_without_machine_code():
    code = (
        "import oxinp; a = oxinp.arange(4.0); a[1] = 5; print(a + 1); "
        "from oxinp._core.native import install; print(install.is_installed(oxinp.ndarray))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={
            "OXINP_MACHINE_CODE": "0",
            "OXINP_BACKEND": "host",
            "PATH": "",
            "PYTHONPATH": ":".join(filter(None, sys.path)),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split("\n")[:2] == ["[1. 6. 3. 4.]", "False"]
