"""Outer products that machine code records, and the updates by them."""

import sys

import numpy  # noqa: ICN001
import pytest

import oxinp
from oxinp._core.lazy import calls, straight
from oxinp._core.lazy.balance import balance
from oxinp._core.native import objects
from oxinp._core.ops import outer
from oxinp._runtime import select
from tests.comparator import assert_same

pytestmark = [
    pytest.mark.skipif(objects.VECTORCALL is None, reason="calls of functions have no other code"),
    pytest.mark.usefixtures("unwatched", "written"),
]
N = 160
PRODUCTS = [
    "xp.outer(u, v)",
    "xp.outer(u[i:], v[:-1])",
    "xp.outer(u[i:], u[i:])",
    "xp.outer(u[::-1], v[i::2])",
    "xp.outer(a[i], a[:, i])",
    "xp.outer(a[i:, 3], a[i])",
    "xp.outer(u * 2, v)",
    "xp.outer(u, v[i:] * 2)",
    "xp.outer(u[i:] * 2, v[i:] - v[i:])",
    "xp.outer(2 * (u + v), u)",
    "xp.outer(u[i:] + 1, v) * 2 - xp.outer(u[i:], v)",
    "xp.outer(a[i] * 2, v)",
    "xp.outer((u + v)[i:], v)",
    "xp.outer(xp.sqrt(xp.abs(u)), v)",
    "xp.outer(a @ u, v @ a)",
    "xp.outer((a @ u)[i:], 2 * (v @ a))",
    "xp.outer(u[:1], v)",
    "xp.outer(u, v[:0])",
    "xp.outer(a[:3], v)",
    "xp.outer(u, 3)",
    "xp.outer(u, b=v)",
    "xp.outer(u, w)",
    "xp.outer(w, w)",
    "xp.outer(n, u)",
    "xp.outer(n, n[::-1])",
    "xp.outer(u.view('u1')[1:1 - u.itemsize].view(u.dtype), v)",
    "xp.outer(xp.arange(i, i + N), u)",
]


def given(xp, kind):
    rng = numpy.random.default_rng(3)
    made = {name: xp.array(rng.integers(-5, 9, N).astype(kind)) for name in "uv"}
    made |= {"a": xp.array(rng.integers(-5, 9, (N, N)).astype(kind)), "w": xp.array(rng.random(N).astype("f4"))}
    if xp is oxinp:
        oxinp.evaluate(*[each + xp.zeros(1, each.dtype) for each in made.values()])
    return made | {"xp": xp, "N": N, "n": numpy.arange(N).astype(kind)}


def ran(code, xp, kind):
    """Return what comes of code that runs some times, while what it reads is updated before that is computed."""
    names, kept = given(xp, kind), []
    for turn in range(12):
        names["i"] = turn // 2 if turn < 6 else 3
        try:
            with numpy.errstate(all="ignore"):
                kept.append(eval(code, names))  # noqa: S307 - a table's
        except Exception as error:  # noqa: BLE001 - whatever it is
            kept.append(type(error).__name__)
            continue
        names["u"][1:] += names["v"][1:]
        names["a"][:, turn] *= names["v"]
    return kept


@pytest.mark.parametrize("threshold", [0, 65536])
@pytest.mark.parametrize("kind", ["f8", "i4", "c16"])
@pytest.mark.parametrize("code", PRODUCTS)
def test_results_are_numpys(code, kind, threshold, config):
    config.offload_threshold = threshold
    for one, other in zip(ran(code, oxinp, kind), ran(code, numpy, kind), strict=True):
        if isinstance(other, str):
            assert one == other
        else:
            assert_same(one, other, ulp=20_000 if "@" in code else 0)
            assert one.strides == other.strides


UPDATES = [
    "a[i:, i:] -= xp.outer(u[i:], v[i:])",
    "a[i:, i:] -= xp.outer(a[i:, i], a[i, i:])",
    "a[i + 1:, i + 1:] -= xp.outer(a[i + 1:, i], a[i, i + 1:])",
    "a[i:, i:] -= 2 * xp.outer(u[i:], v[i:] @ a[i:, i:])",
    "a[:, i:] -= 2 * xp.outer(a[:, i:] @ v[i:], v[i:])",
    "a[i:, i:] += xp.outer(u[i:], v[i:] * 2)",
    "a -= xp.outer(u, v)",
    "a += xp.outer(a[i], u) + xp.outer(u, a[:, i])",
    "a[::2, i:] *= xp.outer(u[::2], v[i:])",
    "u[i:] *= 2; b = xp.outer(u, v); u[i:] -= v[i:]; a += b",
]


@pytest.mark.parametrize("threshold", [0, 65536])
@pytest.mark.parametrize("kind", ["f8", "i4"])
@pytest.mark.parametrize("statement", UPDATES)
def test_what_is_updated_by_them_is_numpys(statement, kind, threshold, config):
    config.offload_threshold = threshold
    code = compile(statement, "statement", "exec")
    both = [given(xp, kind) for xp in (oxinp, numpy)]
    for turn in range(24):
        for names in both:
            names["i"] = turn if turn < 12 else 7
            names["v"][turn] += 1
            exec(code, names)  # noqa: S102 - a table of statements
            if kind == "f8":
                names["a"] *= 0.01
    for name in "auv":
        assert_same(both[0][name], both[1][name], ulp=20_000 if "@" in statement and kind == "f8" else 0)


def entered(code, names, numbers, last):
    """Return the functions that are entered for the last turns of code, by name."""
    found = []

    def note(frame, event, argument):
        del argument
        if event == "call":
            found.append(frame.f_code.co_name)

    with balance.suspended():
        for turn, names["i"] in enumerate(numbers):
            sys.setprofile(note if turn >= len(numbers) - last else None)
            try:
                exec(code, names)  # noqa: S102 - a table's
            finally:
                sys.setprofile(None)
    return set(found) - {"<module>"}


@pytest.mark.parametrize("called", ["xp.outer(u[i:], v[i:])", "xp.outer(u, v)", "xp.outer(2 * u, v)"])
@pytest.mark.usefixtures("on_device")
def test_no_function_is_entered_for_what_is_like_what_has_been_met(called):
    code = compile(called, "called", "exec")
    assert not entered(code, given(oxinp, "f8"), [7] * 20, 2)
    assert not entered(code, given(oxinp, "f8"), range(20), 2) - {"has_met"}


def test_arrays_of_the_host_are_uploaded_and_nothing_else_is_done_in_python(config):
    config.offload_threshold = 65536
    names = given(oxinp, "f8")
    code = compile("xp.outer(u[i:], v[i:] * 2.0)", "called", "exec")
    found = entered(code, names, [7] * 20, 2)
    assert "uploaded" in found
    assert not found & {"outer", "front", "attempt", "found", "stored", "upload_first"}


@pytest.mark.usefixtures("on_device")
def test_updates_that_come_again_are_found_by_machine_code(monkeypatch):
    names = given(oxinp, "f8")
    code = compile("a[i:, i:] -= xp.outer(u[i:], v[i:])", "statement", "exec")
    with balance.suspended():
        for names["i"] in [5] * 30:
            exec(code, names)  # noqa: S102 - one of ours
        monkeypatch.setattr(straight, "_chain", None)
        for names["i"] in [5] * 3:
            exec(code, names)  # noqa: S102


@pytest.mark.usefixtures("on_device")
def test_references_are_given_back():
    names = given(oxinp, "f8")
    u, v, counts = names["u"], names["v"], []
    for _ in range(4):
        for i in range(20):
            oxinp.outer(u[i:], v[i:] * 2)
            oxinp.outer(u, v)
            oxinp.outer(u[:1], v)
        oxinp.evaluate()
        kept = [(each, each._storage, each._storage.value[1][0], each._known) for each in (u, v)]
        structures = [structure for structure in outer.STRUCTURES.values() if structure is not None]
        counts.append([sys.getrefcount(each) for row in kept for each in row] + [len(structures)])
    assert counts[2] == counts[3]


def test_references_to_what_is_on_the_host_are_given_back(config):
    config.offload_threshold = 65536
    names = given(oxinp, "f8")
    u, counts = names["u"], []
    for _ in range(4):
        for i in range(20):
            made = oxinp.outer(u[i:], (v := u[i:] * 2))
            counts.append([sys.getrefcount(each) for each in (v, v._held, v._known, v._seen, v._held.value)])
            del made
    assert counts[-20:] == counts[-40:-20]


def test_what_cannot_be_uploaded_at_once_is_left_to_python(config, held_elsewhere):
    config.offload_threshold = 65536
    names = given(oxinp, "f8")
    u, v = names["u"], names["v"]
    for _ in range(5):
        oxinp.outer(u, v * 2)
    with held_elsewhere(0.2):
        made = oxinp.outer(u, v * 3)
    assert_same(made, numpy.outer(numpy.array(u), numpy.array(v) * 3))


@pytest.mark.usefixtures("uploaded_at_once")
def test_what_uploading_raises_is_raised_by_python(config, monkeypatch):
    config.offload_threshold = 65536
    names = given(oxinp, "f8")
    u, v = names["u"], names["v"]
    for _ in range(5):
        oxinp.outer(u, v * 2)

    def upload(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(select.current()), "upload", upload)
    with pytest.raises(KeyboardInterrupt):
        oxinp.outer(u, v * 3)
    monkeypatch.undo()
    assert_same(oxinp.outer(u, v * 3), numpy.outer(numpy.array(u), numpy.array(v) * 3))


def test_products_are_where_they_belong_by_now(config):
    config.offload_threshold = 65536
    names = given(oxinp, "f8")
    u, v = names["u"], names["v"]
    for _ in range(5):
        assert oxinp.outer(u + 1, v)._storage.host is None
    config.offload_threshold = 1 << 30
    assert oxinp.outer(u + 1, v)._storage.host is not None
    config.offload_threshold = float("inf")
    assert_same(oxinp.outer(u + 1, v), numpy.outer(numpy.array(u) + 1, numpy.array(v)))


def test_subclasses_are_asked(config):
    config.offload_threshold = 0

    class Named(oxinp.ndarray):
        pass

    u = oxinp.arange(float(N))
    for _ in range(5):
        oxinp.outer(u, u)
    for pair in ((u.view(Named), u), (u, u.view(Named))):
        assert_same(oxinp.asarray(oxinp.outer(*pair)), numpy.outer(numpy.arange(float(N)), numpy.arange(float(N))))


READERS = ["u @ a", "a @ u", "u[1:] @ a[1:, i:]", "(a * 2).sum(axis=0)", "(u @ a, a[0] * 2)", "xp.roll(a, 1, 0)"]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.usefixtures("on_device")
def test_calls_that_read_what_is_updated_run_first_and_others_wait(reader):
    both = [given(xp, "f8") | {"b": xp.ones((N, N))} for xp in (oxinp, numpy)]
    results = []
    for turn in range(16):
        for names in both:
            names["i"] = turn % 5
            kept = eval(reader, names), names["v"] @ names["b"]  # noqa: S307 - a table's
            exec("a[i:, i:] -= xp.outer(u[i:], v[i:])", names)  # noqa: S102
            results.append(kept[0] if type(kept[0]) is tuple else kept[:1])
            if names is both[0]:
                assert calls.is_waiting(kept[1]._storage.value)
    for one, other in zip(results[::2], results[1::2], strict=True):
        for ours, numpys in zip(one, other, strict=True):
            assert_same(ours, numpys, ulp=200)
    assert_same(both[0]["a"], both[1]["a"])


@pytest.mark.usefixtures("on_device")
def test_calls_are_run_by_machine_code():
    code = compile("a[i:, i:] -= 2 * xp.outer(u[i:], v[i:] @ a[i:, i:])", "statement", "exec")
    found = entered(code, given(oxinp, "f8"), [5] * 30, 2)
    assert not found & {"flush_readers", "update", "outer"}


@pytest.mark.usefixtures("on_device")
def test_calls_that_fail_are_left_to_python(monkeypatch):
    names = given(oxinp, "f8")
    statement = compile("a[i:, i:] -= xp.outer(u[i:], u[i:])", "statement", "exec")
    names["i"] = 3
    for _ in range(8):
        exec(statement, names)  # noqa: S102 - one of ours
    before = numpy.array(names["a"])
    waiting = names["v"] @ names["a"]
    monkeypatch.setattr(calls.Call, "_run", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        exec(statement, names)  # noqa: S102
    monkeypatch.undo()
    assert_same(names["a"], before)
    assert_same(waiting, numpy.array(names["v"]) @ before, ulp=200)
