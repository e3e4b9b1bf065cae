"""Products of arrays on the device that machine code asks for or launches: those of Python, bit for bit."""

import itertools
import sys
import threading

import numpy  # noqa: ICN001
import pytest

import oxinp
from oxinp._core.lazy import calls
from oxinp._core.lazy.balance import balance
from oxinp._core.native import objects
from oxinp._core.ops import near_products
from tests.thinned import thinned

pytestmark = [
    pytest.mark.skipif(objects.VECTORCALL is None, reason="calls of functions have no other code"),
    pytest.mark.usefixtures("unwatched", "written"),
]
N = 96
PRODUCTS = [
    "u[i:] @ a[i:, i:]",
    "(u[i:] * 2) @ a[i:, i:]",
    "a[i:, i:].T @ u[i:]",
    "a[i:, :].T @ (u[i:] - v[i:])",
    "a[i:, i:] @ u[i:]",
    "a[i:, i:] @ (u[i:] * 2)",
    "a[i:, i:] @ u[:-i or None][::-1]",
    "u[:i + 2] @ a[:i + 2]",
    "a[:i + 2] @ u",
    "a @ u",
    "a @ (u + v)",
    "u @ a",
    "(u * 2) @ a",
    "(a * 2) @ u",
    "u @ (a * 2)",
    "a @ (a @ u)",
    "u[i:] @ a[i:, :1]",
    "u[:1] @ a[:1]",
    "u[:0] @ a[:0]",
    "u[i:] @ v[i:]",
    "(u[i:] + 1) @ v[i:]",
    "(w := u[i:] + 1) @ w",
    "u @ (a @ v)",
    "u @ u",
    "u[:0] @ u[:0]",
    "u[:1] @ u[:1]",
    "a @ a",
    "a[i:] @ a",
    "(a + 1) @ a.T",
    "a[i:, i] @ a[i:, i]",
    "a[i:] @ u[1:]",
    "u @ a[1:]",
    "u @ u[1:]",
    "a @ f",
    "f @ a",
    "a[::2, ::2] @ u[::2]",
    "u @ a[::-1]",
    "a[i] @ u",
    "u @ h",
    "h @ a",
    "a @ h[i:].repeat(2)[:N]",
    "u @ a.reshape(2, N // 2, N)[0].T",
    "xp.matmul(u, a)",
    "a.reshape(4, -1, N) @ u",
    "u.view('u1')[1:1 - u.itemsize].view(u.dtype) @ a[1:, 1:]",
]


def given(xp, kind, n=N):
    rng = numpy.random.default_rng(3)
    made = {name: xp.array(rng.integers(-5, 9, n).astype(kind)) for name in "uv"}
    made |= {"a": xp.array(rng.integers(-5, 9, (n, n)).astype(kind)), "f": xp.array(rng.random(n).astype("f4"))}
    if xp is oxinp:
        oxinp.evaluate(*[each + xp.zeros(1, each.dtype) for each in made.values()])
    return made | {"xp": xp, "N": n, "h": numpy.arange(n).astype(kind)}


def ran(code, xp, kind):
    """Return what comes of code that runs some times, while what it reads is updated before that is computed."""
    names, kept = given(xp, kind), []
    for turn in range(26):
        names["i"] = 2 * turn + 1 if turn < 22 else 3
        try:
            with numpy.errstate(all="ignore"):
                kept.append(eval(code, names))  # noqa: S307 - a table's
        except Exception as error:  # noqa: BLE001 - whatever it is
            kept.append(type(error).__name__)
            continue
        names["u"][1:] += names["v"][1:]
        names["a"][:, turn] *= names["v"]
    return [each if isinstance(each, str) else numpy.asarray(each) for each in kept]


@pytest.mark.parametrize(("code", "case"), thinned(PRODUCTS, [("f8", 0), ("i4", 0), ("c16", 0), ("f8", 4096)]), ids=str)
def test_results_are_those_of_python(code, case, config):
    kind, threshold = case
    config.offload_threshold = threshold
    found = ran(code, oxinp, kind)
    config.machine_code = False
    for one, other, numpys in zip(found, ran(code, oxinp, kind), ran(code, numpy, kind), strict=True):
        if isinstance(numpys, str):
            assert one == other == numpys
            continue
        assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
        assert (one.dtype, one.shape) == (numpys.dtype, numpys.shape)
        numpy.testing.assert_allclose(
            one, numpys, rtol=1e-9, atol=1e-3 if "f" in code else 1e-9 * abs(numpys).max(initial=1)
        )


def entered(code, names, numbers, last):
    """Return the functions of operations that are entered for the last turns of code, in order, by name."""
    found = []

    def note(frame, event, argument):
        del argument
        if event == "call" and "/_core/ops/" in frame.f_code.co_filename:
            found.append(frame.f_code.co_name)

    code = compile(code, "statement", "exec")
    with balance.suspended():
        for turn, names["i"] in enumerate(numbers):
            sys.setprofile(note if turn >= len(numbers) - last else None)
            try:
                exec(code, names)  # noqa: S102 - a table's
            finally:
                sys.setprofile(None)
    return found


UNMET = itertools.count(150)
"""Extents of arrays of which no test has met any parts."""
LAUNCHED = ["columns_read", "_key", "columns_launch", "_launch_of"]


@pytest.mark.parametrize("code", ["u[i:] @ a[i:, i:]", "a[i:, i:].T @ u[i:]"])
@pytest.mark.usefixtures("on_device")
def test_what_is_like_others_is_launched_by_machine_code(code):
    names = given(oxinp, "f8", next(UNMET))
    entered(f"xp.evaluate({code})", names, range(1, 50), 0)
    assert entered(code, names, range(50, 53), 1) == LAUNCHED


@pytest.mark.parametrize(
    ("code", "wanted"),
    [("a @ u", []), ("u @ a", []), ("a.T @ (u * 2)", []), ("a @ (a @ u)", []), ("u @ v", []), ("a @ a", ["launch"])],
)
@pytest.mark.usefixtures("on_device")
def test_what_has_been_met_is_looked_up(code, wanted):
    assert entered(code, given(oxinp, "f8"), [0] * 20, 1) == wanted


@pytest.fixture
def launched():
    """Return a vector and a matrix whose products are launched by machine code."""
    names = given(oxinp, "f8", next(UNMET))
    u, a = names["u"], names["a"]
    for i in range(1, 50):
        oxinp.evaluate(u[i:] @ a[i:, i:])
    for near in near_products._columns.values():
        if near[1] is not None:
            near[2][near_products.ASKED] = 0
    return u, a


def is_launched(made):
    entry = made._storage.value[1][0]
    return type(entry) is calls.Pending and entry.call is None


@pytest.mark.usefixtures("on_device")
def test_one_in_so_many_waits(launched):
    u, a = launched
    found = [is_launched(u[51:] @ a[51:, 51:]) for _ in range(near_products.LOOKS)]
    assert found == [True] * (near_products.LOOKS - 1) + [False]


@pytest.mark.usefixtures("on_device")
def test_what_cannot_be_launched_at_once_is_left_to_python(launched, held_elsewhere):
    u, a = launched
    wanted = numpy.asarray(u[51:] @ a[51:, 51:])
    with held_elsewhere(0.2):
        made = u[51:] @ a[51:, 51:]
    assert numpy.asarray(made).tobytes() == wanted.tobytes()


class Backend:
    """Has no memory, or is interrupted when it is asked for some."""

    def __init__(self, error):
        self.error = error

    def allocate(self, _):
        raise self.error


@pytest.fixture
def asked_of(launched, monkeypatch):
    """Return what lets another backend be asked for memory for products."""

    def ask(backend):
        for key, near in near_products._columns.items():
            if near[1] is not None:
                monkeypatch.setitem(near_products._columns, key, (near[0], backend, *near[2:]))

    del launched
    return ask


@pytest.mark.usefixtures("on_device")
def test_without_memory_products_wait(launched, asked_of, monkeypatch):
    u, a = launched
    wanted = numpy.asarray(u[51:] @ a[51:, 51:])
    asked_of(Backend(MemoryError))
    made = u[51:] @ a[51:, 51:]
    assert not is_launched(made)
    monkeypatch.undo()
    assert numpy.asarray(made).tobytes() == wanted.tobytes()


@pytest.mark.usefixtures("on_device")
def test_what_is_raised_otherwise_is_raised(launched, asked_of, monkeypatch):
    u, a = launched
    wanted = numpy.asarray(u[51:] @ a[51:, 51:])
    asked_of(Backend(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        u[51:] @ a[51:, 51:]
    monkeypatch.undo()
    assert numpy.asarray(u[51:] @ a[51:, 51:]).tobytes() == wanted.tobytes()


@pytest.mark.parametrize("code", ["a @ u", "u @ a", "a @ (u * 2)", "(u * 2) @ a"])
@pytest.mark.usefixtures("on_device")
def test_references_are_given_back_of_what_has_been_met(code):
    names, counts = given(oxinp, "f8"), []
    u, a = names["u"], names["a"]
    for _ in range(6):
        for _ in range(30):
            oxinp.evaluate(eval(code, names))  # noqa: S307 - one of the table's
        kept = u, a, u._storage, a._storage, u._storage.value[1][0], a._storage.value[1][0], u._known, a._known
        counts.append([sys.getrefcount(each) for each in kept])
    assert counts[-2] == counts[-1]


@pytest.mark.usefixtures("on_device")
def test_products_that_nobody_asks_for_are_forgotten():
    names = given(oxinp, "f8")
    u, a = names["u"], names["a"]
    for _ in range(20):
        made = [a[i:, i:] @ u[i:] for i in range(1, 9)]
        waiting = len(calls.CALLS)
        del made
        assert len(calls.CALLS) == waiting - 8


@pytest.mark.usefixtures("on_device")
def test_settings_that_change_are_heeded(launched):
    u, a = launched
    assert is_launched(u[51:] @ a[51:, 51:])
    wanted = numpy.asarray(a @ u)
    oxinp.config.renew()
    assert not is_launched(u[51:] @ a[51:, 51:])
    assert numpy.asarray(a @ u).tobytes() == wanted.tobytes()


@pytest.mark.usefixtures("on_device")
def test_subclasses_are_asked():
    class Named(oxinp.ndarray):
        pass

    names = given(oxinp, "f8")
    u, a = names["u"], names["a"]
    for _ in range(5):
        wanted = numpy.asarray(u @ a)
    for pair in ((u.view(Named), a), (u, a.view(Named))):
        made = pair[0] @ pair[1]
        assert type(made) is Named
        assert numpy.asarray(made).tobytes() == wanted.tobytes()


@pytest.mark.usefixtures("on_device")
def test_references_are_given_back():
    names = given(oxinp, "f8")
    u, v, a, counts = names["u"], names["v"], names["a"], []
    for _ in range(5):
        for i in range(21, 40):
            for x, y in ((u[i:], a[i:, i:]), (u[i:] * 2, a[i:, i:]), (u, a), (a, u + 1), (u, v), (u + 1, v), (a, a)):
                x @ y
        oxinp.evaluate()
        kept = [(each, each._storage, each._storage.value[1][0], each._known) for each in (u, v, a)]
        counts.append([sys.getrefcount(each) for row in kept for each in row])
    assert counts[3] == counts[4]


@pytest.mark.usefixtures("on_device")
def test_threads_multiply_what_others_update():
    names = given(oxinp, "f8")
    a, failed = names["a"], []

    def multiply():
        try:
            u = oxinp.ones(N) + 0
            for i in range(21, 70):
                made = numpy.asarray(u[i:] @ a[i:, i:])
                if not (made == made.round()).all():
                    failed.append(i)
        except Exception as error:  # noqa: BLE001 - whatever it is
            failed.append(error)

    threads = [threading.Thread(target=multiply) for _ in range(3)]
    for each in threads:
        each.start()
    for turn in range(60):
        a[turn:, turn] += 1
    for each in threads:
        each.join()
    assert not failed
