"""Functions that are asked first for arrays of the device: what they leave to the general way, and that they do it."""

# ruff: noqa: ARG005, ICN001 - cases of one signature, and oxinp is np

import numpy
import pytest

import oxinp as np
from oxinp._core.host import fallback
from tests.comparator import assert_same
from tests.core.test_sort import fallbacks

pytestmark = pytest.mark.usefixtures("on_device")

RNG = numpy.random.default_rng(0)
MATRIX = RNG.integers(-9, 10, (30, 40)) / 2  # whose sums are exact
NUMBERS = RNG.integers(-100, 100, (30, 40))

CALLS = {
    "cumsum": lambda xp, x: xp.cumsum(x[0]),
    "cumsum of all": lambda xp, x: xp.cumsum(x),
    "cumsum of rows": lambda xp, x: xp.cumsum(x, 1),
    "cumsum from behind": lambda xp, x: xp.cumsum(x, axis=-2),
    "cumsum in a dtype": lambda xp, x: xp.cumsum(x, 0, "f4"),
    "cumprod": lambda xp, x: xp.cumprod(x[:6, 3]),
    "method": lambda xp, x: x.cumsum(axis=1),
    "method of all": lambda xp, x: x.cumsum(),
    "into": lambda xp, x: xp.cumsum(x, 0, None, xp.empty_like(x)),
    "of a chain": lambda xp, x: xp.cumsum(2 * x + 1, axis=1),
    "sort": lambda xp, x: xp.sort(x[:, -1]),
    "sort of rows": lambda xp, x: xp.sort(x),
    "stable": lambda xp, x: xp.sort(x[3], 0, "stable"),
    "argsort": lambda xp, x: xp.argsort(x[3], kind="stable"),
    "clip": lambda xp, x: xp.clip(x, 2, 10),
    "clip to floats": lambda xp, x: xp.clip(x, -0.5, 1.5),
    "clip to nothing": lambda xp, x: xp.clip(x, 5, -5),
    "clip to what is no number": lambda xp, x: xp.clip(x, 1, numpy.nan),
    "clip beyond": lambda xp, x: xp.clip(x, -(2**80), 2**70) if x.dtype.kind == "i" else x + 0,
    "clip below": lambda xp, x: xp.clip(x, None, 3),
    "clip by arrays": lambda xp, x: xp.clip(x, x[0], x[0] + 1),
    "reshape": lambda xp, x: xp.reshape(x, (40, -1)) + 1,
    "reshape of columns": lambda xp, x: xp.reshape(x.T, (20, 60)) + 1,
    "to one axis": lambda xp, x: xp.reshape(x, -1) * 2,
    "to a list": lambda xp, x: xp.reshape(x, [20, 60]) * 2,
    "cast": lambda xp, x: x.astype("f4"),
    "cast of columns": lambda xp, x: x.T.astype(xp.int32),
    "cast in C order": lambda xp, x: x.T.astype("f4", "C"),
    "cast in Fortran's": lambda xp, x: x.astype("f4", order="F"),
    "cast to complex": lambda xp, x: x.astype(complex),
    "where": lambda xp, x: xp.where(x > 0, x, -1),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("given", [MATRIX, NUMBERS], ids=["floats", "integers"])
def test_as_numpy(call, given, stats):
    expected = call(numpy, given)
    for _ in range(3):
        found = call(np, np.asarray(given))
        assert_same(found, expected)
        assert found.flags.f_contiguous == expected.flags.f_contiguous
    assert not fallbacks(stats) or call is CALLS["to a list"]


WRONG = [
    lambda xp, x: xp.cumsum(x, 2),
    lambda xp, x: xp.cumsum(x, wrong=1),
    lambda xp, x: x.cumsum((0, 1)),
    lambda xp, x: xp.sort(x[0], kind="none"),
    lambda xp, x: xp.sort(x[0], 1),
    lambda xp, x: xp.reshape(x, (7, -1)),
    lambda xp, x: xp.reshape(x, (30, 41)),
    lambda xp, x: x.astype("i4", casting="safe"),
    lambda xp, x: x.astype("i4", order="Q"),
]


@pytest.mark.parametrize("call", WRONG)
def test_refused_as_numpy_does(call):
    with pytest.raises((TypeError, ValueError)) as expected:
        call(numpy, MATRIX)
    for _ in range(2):
        with pytest.raises(type(expected.value)) as ours:
            call(np, np.asarray(MATRIX))
        assert str(ours.value) == str(expected.value)


@pytest.mark.parametrize("name", ["cumsum of rows", "method", "sort", "clip", "clip to floats", "reshape"])
def test_general_way_is_not_gone(name, monkeypatch):
    given = np.asarray(MATRIX)
    for _ in range(2):
        np.evaluate(CALLS[name](np, given))
    monkeypatch.setattr("oxinp._core.array.dispatch.on_hosts", None)
    monkeypatch.setattr("oxinp._core.reduction.methods.on_hosts", None)
    monkeypatch.setattr("oxinp._core.array.dispatch.are_known", None)
    monkeypatch.setattr(fallback, "call", None)
    assert_same(CALLS[name](np, given), CALLS[name](numpy, MATRIX))


class Both:
    """Arrays of the host and of the device together."""

    def __init__(self, size=300):
        rng = numpy.random.default_rng(1)
        self.a, self.v = rng.standard_normal((size, size)), rng.standard_normal(size)


@pytest.fixture
def halves(config):
    """A matrix on the device and a vector on the host."""
    config.offload_threshold = 1 << 16
    given = Both()
    return given, np.asarray(given.a) * 1.0, np.asarray(given.v)


@pytest.mark.parametrize("is_pending", [False, True])
@pytest.mark.parametrize("turns", [1, 3])
def test_vector_on_the_host_times_matrix(halves, is_pending, turns, stats):
    given, a, v = halves
    for _ in range(turns):
        a, expected = (a + 1, given.a + 1) if is_pending else (a, given.a)
        if not is_pending:
            np.evaluate(a)
        for found, wanted in (
            (1.2 * v @ a + v, 1.2 * given.v @ expected + given.v),
            (a @ v, expected @ given.v),
            (a.T @ v, expected.T @ given.v),
            (v[::-1] @ a, given.v[::-1] @ expected),
            (a @ v[:, None], expected @ given.v[:, None]),
        ):
            numpy.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
        given.a = expected
    assert not fallbacks(stats)


def test_what_is_recorded_with_the_host_does_not_change(halves):
    given, a, v = halves
    wanted = given.v + given.a, given.a - given.v, given.v @ (given.a + 1)
    found = v + a, np.subtract(a, v), v @ (a + 1)
    v[:] = 7
    a += 1
    for mine, theirs in zip(found, wanted, strict=True):
        numpy.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)
    assert_same(v, numpy.full(v.shape, 7.0))


def test_shapes_that_do_not_go_together_are_refused(halves):
    _, a, v = halves
    for wrong in (lambda: v[:-1] + a, lambda: v[:-1] @ a):
        with pytest.raises(ValueError, match=r"shapes|mismatch"):
            wrong()


@pytest.mark.parametrize("dtype", ["d", "f"])
def test_whole_array_is_assigned_what_is_reshaped(dtype):
    x, m = MATRIX.reshape(6, 5, 40).astype(dtype), RNG.integers(-3, 4, (40, 40)).astype(dtype)
    a, b = np.asarray(x), np.asarray(m)
    alias, before = a[1:], a * 1
    a[:] = np.reshape(np.reshape(a, (6, 5, 1, 40)) @ b, (6, 5, 40))
    expected = (x.reshape(6, 5, 1, 40) @ m).reshape(6, 5, 40)
    numpy.testing.assert_allclose(a, expected, rtol=1e-5, atol=1e-5)
    numpy.testing.assert_allclose(alias, expected[1:], rtol=1e-5, atol=1e-5)
    assert_same(before, x)


def test_whole_array_is_assigned_part_of_itself():
    x = MATRIX[:, :30].copy()
    a = np.asarray(x)
    a[:] = a.T
    assert_same(a, x.T.copy())
    a[...] = a[::-1]
    assert_same(a, x.T[::-1].copy())
    other = a.copy()
    a[:] = other
    other += 1
    assert_same(a, x.T[::-1].copy())
    a[:] = other[:1]
    assert_same(a, numpy.broadcast_to(x.T[::-1][:1] + 1, x.shape).copy())
