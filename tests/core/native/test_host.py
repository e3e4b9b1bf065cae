"""Where everything is the host's by the user's setting, arrays of all sizes are small: machine code computes them."""

import sys

import numpy as np
import pytest

import oxinp
from oxinp import config
from oxinp._core.lazy import inlining
from oxinp._core.native import install, loops, objects
from oxinp.cuda import stats
from tests.comparator import assert_same

needs_slots = pytest.mark.skipif(not objects.ARE_KNOWN, reason="this Python's objects are laid out in another way")

EXPRESSIONS = (
    *("a + b", "a / b", "a * 2.0", "1.0 - a", "-a", "abs(b)", "a**2", "a % b", "a // 0.3", "a > b", "a == 0.5", "~m"),
    *("np.sqrt(a)", "np.exp(a)", "np.maximum(a, b)", "np.hypot(a, 1.0)", "M + M[0]", "M - M[:, :1]", "M.T + M.T"),
    *("a[m]", "a[1:-1]", "a[5]", "len(a)", "M @ M[0]", "M @ M.T", "a @ b", "c * c", "c / 2", "u + u", "u == u[::-1]"),
    *("np.where(m, a, b)", "np.where(m, a, 0.0)", "a.sum()", "a.max()", "np.mean(a)", "m.any()", "M.sum(axis=0)"),
    *("a.copy()", "a.astype(int)", "M.T", "a.reshape(400, 500)", "np.zeros(200_000)", "np.concatenate((a, b))"),
)
STATEMENTS = ("a += b", "a *= 0.5", "a[1:] -= b[:-1]", "a[m] = 0.0", "a[:] = b", "M -= M[:, :1]", "u[3] = 7")


@pytest.fixture(autouse=True)
def nothing_but_the_host():
    with config.override(backend="host", offload_threshold=65536):
        yield


def given(xp):
    random = np.random.default_rng(8)
    a, b = random.uniform(0.1, 1.0, 200_000), random.uniform(0.1, 1.0, 200_000)
    numbers = {
        "a": a,
        "b": b,
        "m": a > 0.5,
        "M": a[:160_000].reshape(400, 400),
        "c": a + 1j * b,
        "u": random.integers(0, 255, 200_000).astype(np.uint8),
    }
    return {"np": xp, **{name: xp.array(value) for name, value in numbers.items()}}


def arrays(names):
    return {name: value for name, value in names.items() if name != "np"}


@pytest.mark.parametrize("is_native", [True, False], ids=["machine code", "Python"])
@pytest.mark.parametrize("text", EXPRESSIONS + STATEMENTS)
def test_large_arrays_are_numpys(text, is_native):
    with config.override(machine_code=is_native):
        code = compile(text, "users.py", "eval" if text in EXPRESSIONS else "exec")
        ours, numpys = given(oxinp), given(np)
        for _ in range(2):
            found, expected = eval(code, ours), eval(code, numpys)  # noqa: S307 - our own text
            if text in EXPRESSIONS:
                assert_same(found, expected)
                assert isinstance(found, oxinp.ndarray) == isinstance(expected, np.ndarray)
        for name, each in arrays(numpys).items():
            assert_same(ours[name], each)


@needs_slots
@pytest.mark.parametrize("text", ["a + b", "a / b", "np.exp(a)", "a > 0.5", "a += b", "M - M[0]", "a[1:]", "u != u"])
def test_no_function_of_ours_is_entered(text):
    names, code, entered = given(oxinp), compile(text, "users.py", "exec"), []
    for _ in range(3):
        exec(code, names)  # noqa: S102 - our own text
    sys.setprofile(lambda frame, event, _: entered.append(event == "call" and "oxinp" in frame.f_code.co_filename))
    try:
        exec(code, names)  # noqa: S102
    finally:
        sys.setprofile(None)
    assert not any(entered)


@needs_slots
def test_only_so_many_elements_are_computed_with_pythons_lock():
    """Above that NumPy computes them, and lets other threads run."""
    assert install.is_installed(oxinp.ndarray)
    for count in (loops.MOST - 1, loops.MOST, loops.MOST + 1):
        x = np.linspace(0.0, 1.0, count)
        a = oxinp.array(x)
        assert_same(a + a, x + x)
        assert_same(a.sum(), x.sum())
        assert_same(a[None] @ a, x[None] @ x)


@pytest.mark.parametrize("backend", ["emulator", "host"])
def test_what_was_few_there_is_so_nowhere_else(backend):
    with config.override(backend=backend):
        a = oxinp.array(np.arange(100_000.0))
        a + a
    with config.override(backend="emulator", adaptive_placement=False):
        before = stats().launches
        for _ in range(2):
            found = a + a
            assert_same(found, np.arange(100_000.0) * 2)
        assert stats().launches - before == 2
        assert a._known is not inlining.meaning("FEW")
        assert len(a) == 100_000
