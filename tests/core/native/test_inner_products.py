"""Products of two vectors and norms of one that machine code records: those of Python, bit for bit."""

import itertools
import sys

import numpy  # noqa: ICN001
import pytest

import oxinp
from oxinp._core.lazy.balance import balance
from oxinp._core.native import objects

pytestmark = [
    pytest.mark.skipif(objects.VECTORCALL is None, reason="calls of functions have no other code"),
    pytest.mark.usefixtures("on_device", "unwatched", "written"),
]
N, MANY = 200, 640
CODES = [
    "xp.linalg.norm(u)",
    "xp.linalg.norm(u[i:])",
    "xp.linalg.norm(a[:, i])",
    "xp.linalg.norm(a[i, i:])",
    "xp.linalg.norm(u[::-1])",
    "xp.linalg.norm(u[i:] - v[i:])",
    "xp.linalg.norm(a @ v)",
    "xp.linalg.norm(u[:1])",
    "xp.linalg.norm(u[:0])",
    "xp.linalg.norm(a)",
    "xp.linalg.norm(h)",
    "xp.linalg.norm(u, 1)",
    "xp.linalg.norm(u, axis=0)",
    "u @ v",
    "u[i:] @ v[i:]",
    "u @ u",
    "u @ u[::-1]",
    "(a @ v) @ v[:64]",
    "(a @ v) @ (a @ u)",
    "(u - v) @ u",
    "u.sum() * (u[:64] @ (a @ v))",
    "v / xp.linalg.norm(u) * (u @ v)",
]


def given(xp, kind, n=N):
    rng = numpy.random.default_rng(3)
    made = {name: xp.array(rng.integers(-9, 9, shape).astype(kind)) for name, shape in (("u", n), ("v", n))}
    made["a"] = xp.array(rng.integers(-9, 9, (64, n)).astype(kind))
    if xp is oxinp:
        made = {name: each + each.dtype.type(0) for name, each in made.items()}
        oxinp.evaluate(*made.values())
    return made | {"xp": xp, "h": xp.array(numpy.arange(n).astype(kind))}


def ran(code, xp, kind):
    names, kept = given(xp, kind), []
    code = compile(code, "code", "eval")
    for i in (*range(1, 9), 3, 3, 3, 3):
        kept.append(eval(code, names | {"i": i}))  # noqa: S307 - a table's
        names["u"][3] += 1  # what waits is of the elements before
    return [numpy.asarray(each) for each in kept]


OF_FEW = [f"xp.linalg.norm({part})" for part in ("u[:90]", "u[:90] - v[:90]")] + ["u[:90] @ v[:90]"]
CASES = [*itertools.product(CODES, ["f8", "i4"]), *itertools.product(OF_FEW, ["f4", "c16"])]


@pytest.mark.parametrize(("code", "kind"), CASES)
def test_results_are_those_of_python(code, kind, config):
    found = ran(code, oxinp, kind)
    config.machine_code = False
    for one, other, numpys in zip(found, ran(code, oxinp, kind), ran(code, numpy, kind), strict=True):
        assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
        assert (one.dtype, one.shape) == (numpys.dtype, numpys.shape)
        numpy.testing.assert_allclose(one, numpys, rtol=1e-5 if kind == "f4" else 1e-12)


def entered(code, names):
    """Return the functions that are entered for code that has run some times, but for lists and the like."""
    found = []

    def note(frame, event, argument):
        del argument
        if event == "call" and "/oxinp/" in frame.f_code.co_filename:
            found.append(frame.f_code.co_name)

    code = compile(f"for i in numbers:\n    {code}", "code", "exec")
    with balance.suspended():
        exec(code, names | {"numbers": [*range(1, 9)] * 12})  # noqa: S102 - a table's
        sys.setprofile(note)
        try:
            exec(code, names | {"numbers": range(1, 9)})  # noqa: S102 - a table's
        finally:
            sys.setprofile(None)
    return found


@pytest.mark.parametrize(
    "code",
    [
        "xp.linalg.norm(u[i:])",
        "u[i:] @ v[i:]",
        "v / xp.linalg.norm(u)",
        "w = a @ v; w @ v[:64]",
        "w = u - v; w @ w",
        "w = a @ u; x = a @ v; w @ x",
    ],
)
def test_no_function_is_entered_for_what_has_been_met(code):
    assert not {"front", "inner", "operand", "norm", "paired"} & {*entered(code, given(oxinp, "f8", MANY))}


def test_references_are_given_back():
    names = given(oxinp, "f8", MANY)
    u, v = names["u"], names["v"]
    counts = []
    for _ in range(6):
        for _ in range(40):
            oxinp.linalg.norm(u)
            u @ v
        oxinp.evaluate()
        kept = u, v, u._storage, u._storage.value[1][0], u._known
        counts.append([sys.getrefcount(x) for x in kept])
    assert counts[-2] == counts[-1]
