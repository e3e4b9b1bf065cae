"""Functions of parts of arrays on the device, of sizes that are met once or again: NumPy's results and memory order."""

# ruff: noqa: ARG005, ICN001 - cases of one signature, and oxinp is np

import numpy
import pytest

import oxinp as np
from oxinp._core.host import fallback
from oxinp._core.memory.layout import Layout, result_layout
from tests.comparator import assert_same
from tests.core.test_sort import fallbacks

pytestmark = pytest.mark.usefixtures("on_device")

RNG = numpy.random.default_rng(0)
A, B = (RNG.integers(-9, 10, (40, 40)) / 2 for _ in range(2))  # whose sums are exact
CUBE = RNG.integers(-9, 10, (6, 7, 8)) / 2

JOINED = {
    "concatenate": lambda xp, a, b, i: xp.concatenate([a[i:, i:], b[i:, i:]]),
    "concatenate of lines": lambda xp, a, b, i: xp.concatenate((a[i], b[i, i:], a[i:, i])),
    "concatenate columns": lambda xp, a, b, i: xp.concatenate([a[:, i:], b[:, : i + 1]], axis=1),
    "concatenate single columns": lambda xp, a, b, i: xp.concatenate([a[:, i : i + 1], b[:, i : i + 1]], -1),
    "concatenate reversed": lambda xp, a, b, i: xp.concatenate([a[::-1, i:], b[:, i:]]),
    "concatenate columns as rows": lambda xp, a, b, i: xp.concatenate([a.T[i:], b.T[i:]]),
    "concatenate rows of one": lambda xp, a, b, i: xp.concatenate([a[i : i + 1, ::2], b[i : i + 1, ::2]]),
    "concatenate with what is empty": lambda xp, a, b, i: xp.concatenate([a[:0, i:], b[i:, i:]]),
    "concatenate dtypes": lambda xp, a, b, i: xp.concatenate([a[i:, i:], b[i:, i:].astype("f4")]),
    "concatenate chains": lambda xp, a, b, i: xp.concatenate([a[i:, i:] + 1, b[i:, i:] * a[i:, i:]]),
    "concatenate all": lambda xp, a, b, i: xp.concatenate([a[i:, i:], b[i:]], axis=None),
    "stack": lambda xp, a, b, i: xp.stack([a[i, i:], b[i, i:]]),
    "stack columns": lambda xp, a, b, i: xp.stack([a[i:, i], b[i:, i]], axis=1),
    "stack matrices": lambda xp, a, b, i: xp.stack((a[i:, i:], b[i:, i:])),
    "stack matrices between": lambda xp, a, b, i: xp.stack((a[i:, i:], b[i:, i:]), 1),
    "stack behind": lambda xp, a, b, i: xp.stack((a[i:, i:], b[i:, i:]), -1),
    "stack transposed": lambda xp, a, b, i: xp.stack((a[i:].T, b[i:].T)),
    "vstack of matrices": lambda xp, a, b, i: xp.vstack([a[i:, i:], b[:i, i:]]),
    "hstack of lines": lambda xp, a, b, i: xp.hstack([a[i, i:], b[i:, i]]),
    "hstack of elements": lambda xp, a, b, i: xp.hstack([a[i, i : i + 1].reshape(()), b[i, 0:1].reshape(())]),
    "hstack of both": lambda xp, a, b, i: xp.hstack([a[i, i:], b[0]]),
    "vstack": lambda xp, a, b, i: xp.vstack([a[i, i:], b[i, i:]]),
    "hstack": lambda xp, a, b, i: xp.hstack([a[i:, i:], b[i:, :i]]),
    "column_stack": lambda xp, a, b, i: xp.column_stack([a[i:, i], b[i:, i]]),
}
OTHERS = {
    "reshape": lambda xp, a, b, i: a[i:, i:].reshape(-1),
    "reshape to two": lambda xp, a, b, i: a[::2, i:].reshape(40 - i, -1),
    "ravel": lambda xp, a, b, i: a[i:, i:].ravel(),
    "ravel in Fortran's order": lambda xp, a, b, i: a[i:, i:].ravel("F"),
    "ravel in memory order": lambda xp, a, b, i: xp.ravel(a.T[i:, i:], "K"),
    "flatten": lambda xp, a, b, i: a[i:, i:].flatten(),
    "astype": lambda xp, a, b, i: a[i:, i:].astype("f4"),
    "astype of columns": lambda xp, a, b, i: a.T[i:, i:].astype("f4"),
    "astype of a row": lambda xp, a, b, i: a[i : i + 1, ::2].astype("f4"),
    "copy": lambda xp, a, b, i: a[i:, i:].copy("K"),
    "zeros": lambda xp, a, b, i: xp.zeros((i, i + 1)),
    "ones": lambda xp, a, b, i: xp.ones((i, 30), "i4") * 2,
    "full": lambda xp, a, b, i: xp.full((i, 3), 7, "f4"),
    "arange": lambda xp, a, b, i: xp.arange(i * 10.0),
    "arange of integers": lambda xp, a, b, i: xp.arange(-i, i * 100, 3),
    "arange of both": lambda xp, a, b, i: xp.arange(i, i * 10, 0.5),
    "triu": lambda xp, a, b, i: xp.triu(a[i:, i:], 1),
    "tril": lambda xp, a, b, i: xp.tril(a[i:, ::2], -i),
    "norm": lambda xp, a, b, i: xp.linalg.norm(a[i:, i:] - b[i:, i:]),
    "norm of a part": lambda xp, a, b, i: xp.linalg.norm(a[i:, i:]),
    "norm of columns": lambda xp, a, b, i: xp.linalg.norm(a.T[i:, i:]),
    "dot": lambda xp, a, b, i: xp.dot(a[i:, i:], b[i:, i:]),
    "dot a vector": lambda xp, a, b, i: xp.dot(a[i:, i:], b[i, i:]),
    "dot of a vector": lambda xp, a, b, i: xp.dot(b[i, i:], a[i:, i:]),
    "dot one column": lambda xp, a, b, i: xp.dot(a[i:, :1], b[:1, i:]),
    "method dot": lambda xp, a, b, i: a[i:, i:].dot(b[i:, i]),
    "tensordot": lambda xp, a, b, i: xp.tensordot(a[i:, i:], b[i:, i:], axes=1),
    "tensordot of axes": lambda xp, a, b, i: xp.tensordot(a[i:, i:], b[i:, i:], ((0,), (1,))),
    "trace": lambda xp, a, b, i: xp.trace(a[i:, i:], 1),
    "einsum": lambda xp, a, b, i: xp.einsum("ij,j->i", a[i:, i:], b[i, i:]),
    "einsum of columns": lambda xp, a, b, i: xp.einsum("ji,j->i", a.T[i:, i:], b[i, i:]),
    "einsum to all": lambda xp, a, b, i: xp.einsum("ij,ji", a[i:, i:], b[i:, i:]),
    "einsum of rows": lambda xp, a, b, i: xp.einsum("ij,ij->i", a[i:, i:], b[i:, i:]),
    "einsum to columns": lambda xp, a, b, i: xp.einsum("ij,kj->ki", a[i:, i:], b[i:, i:]),
    "einsum of one row": lambda xp, a, b, i: xp.einsum("ij,j->i", a[i : i + 1, i:], b[i, i:]),
    "einsum reversed": lambda xp, a, b, i: xp.einsum("ij,j->i", a[i:, i:][::-1, ::-1], b[i, i:]),
    "diff": lambda xp, a, b, i: xp.diff(a[i:, i:]),
    "diff of rows": lambda xp, a, b, i: xp.diff(a[i:, i:], axis=0),
    "diff of one row": lambda xp, a, b, i: xp.diff(a[i : i + 1, i:], 1, 0),
    "diff of columns": lambda xp, a, b, i: xp.diff(a.T[i:, i:], axis=-2),
    "diff twice": lambda xp, a, b, i: xp.diff(a[i:, i:], 2),
    "diff of what is after": lambda xp, a, b, i: xp.diff(a[i:, i:], append=0.0),
    "diff of truth": lambda xp, a, b, i: xp.diff(a[i:, i:] > 0),
    "cumsum": lambda xp, a, b, i: xp.cumsum(a[i:, i:], axis=1),
    "sum in a dtype": lambda xp, a, b, i: a[i:, i:].sum(axis=1, dtype="f8"),
}
CALLS = JOINED | OTHERS


def told(array):
    """Return how an array lies, and whether it is a view."""
    return array.strides, array.flags.owndata, array.base is None, array.flags.writeable


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_as_numpy(call, stats):
    a, b = np.asarray(A) * 1, np.asarray(B) * 1
    np.evaluate(a, b)
    for i in (1, 2, 3, 4, 5, 5, 5, 11):
        found, expected = call(np, a, b, i), call(numpy, A, B, i)
        if call in (OTHERS["norm"], OTHERS["norm of a part"], OTHERS["norm of columns"]):
            numpy.testing.assert_allclose(found, expected, rtol=1e-14)
            continue
        assert_same(found, expected)
        if isinstance(expected, numpy.ndarray):
            assert told(found) == told(expected)
    assert not fallbacks(stats)


@pytest.mark.parametrize(
    "name",
    [
        "vstack",
        "hstack",
        "concatenate",
        "concatenate columns",
        "stack",
        "stack matrices",
        "dot",
        "tensordot",
        "norm",
        "triu",
        "cumsum",
    ],
)
def test_general_front_is_not_asked(name, monkeypatch):
    a, b = np.asarray(A) * 1, np.asarray(B) * 1
    for _ in range(3):
        np.evaluate(CALLS[name](np, a, b, 5))
    monkeypatch.setattr("oxinp._core.array.dispatch.on_hosts", None)
    monkeypatch.setattr("oxinp._core.array.dispatch.are_known", None)
    monkeypatch.setattr(fallback, "call", None)
    found = CALLS[name](np, a, b, 5)
    monkeypatch.undo()
    numpy.testing.assert_allclose(found, CALLS[name](numpy, A, B, 5), rtol=1e-14)


@pytest.mark.parametrize("name", ["concatenate", "concatenate columns", "stack", "stack matrices"])
def test_launches_of_joins(name, launches):
    a, b = np.asarray(A) * 1, np.asarray(B) * 1
    np.evaluate(a, b)
    assert launches(lambda: CALLS[name](np, a, b, 3)) == 2


@pytest.mark.parametrize("key", [np.s_[:], ..., np.s_[1:]], ids=str)
def test_views_are_written_to_in_place(key, launches):
    mine, theirs = [np.asarray(x) * 1 for x in (A, B)], [A.copy(), B.copy()]
    np.evaluate(*mine)
    before = mine[0] * 1
    for a, b in (mine, theirs):
        part = a[5:, 3:]
        part[key] = b[5:, 3:][key]
        a[:5][...] = b[1:6]
        a.T[...][7:, :2] = b[7:, :2]
    assert_same(mine[0], theirs[0])
    assert_same(before, A)
    part = mine[0][5:, 3:]
    assert launches(lambda: np.copyto(part, mine[1][5:, 3:])) == 1
    assert launches(lambda: np.copyto(part, part)) == 0


def test_views_that_overlap_are_copied_as_a_whole():
    for move in (
        lambda xp, x: xp.copyto(x[1:, 1:], x[:-1, :-1]),
        lambda xp, x: xp.copyto(x[:, 1:], x[:, :-1]),
        lambda xp, x: xp.copyto(x[:-1], x[1:]),
        lambda xp, x: x[2:, 2:].__setitem__(..., x[2:, 2:].T),
    ):
        mine, theirs = np.asarray(A) * 1, A.copy()
        np.evaluate(mine)
        for _ in range(2):
            move(np, mine)
            move(numpy, theirs)
        assert_same(mine, theirs)


def test_view_of_the_whole_is_assigned():
    mine, theirs = np.asarray(A) * 1, A.copy()
    other = np.asarray(B) * 1
    np.evaluate(mine, other)
    for a, b in ((mine, other), (theirs, B)):
        whole = a[:]
        whole[...] = b
        a[0] = 5
        whole[...] = whole + b
        numpy.testing.assert_array_equal(whole, a)
    assert_same(mine, theirs)
    assert_same(other, B)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda xp, a: xp.concatenate([a[1:, 1:], a[1:, 2:]]),
        lambda xp, a: xp.concatenate([a[1:, 1:], a[1]]),
        lambda xp, a: xp.concatenate([a[1:, 1:], a[2:, 1:]], 2),
        lambda xp, a: xp.concatenate([]),
        lambda xp, a: xp.stack([a[1:, 1:], a[2:, 1:]]),
        lambda xp, a: xp.stack([a[1:, 1:], a[1:, 1:]], 3),
        lambda xp, a: a[1:, 1:].reshape(7, -1),
        lambda xp, a: a[1:, 1:].reshape(-1, -1),
        lambda xp, a: xp.dot(a[1:, 1:], a[2:, 2:]),
        lambda xp, a: xp.tensordot(a[1:, 1:], a[2:, 2:], axes=1),
        lambda xp, a: xp.copyto(a[1:, 1:], a[2:, 2:]),
        lambda xp, a: xp.diff(a[1:, 1:], axis=2),
        lambda xp, a: xp.diff(a[1:, 1:], -1),
    ],
)
def test_refused_as_numpy_does(wrong):
    with pytest.raises(ValueError) as expected:
        wrong(numpy, A.copy())
    given = np.asarray(A) * 1
    for _ in range(2):
        with pytest.raises(type(expected.value)) as ours:
            wrong(np, given)
        assert str(ours.value) == str(expected.value)


class Shouting(numpy.ndarray):
    """A class with a say in what is joined."""

    def __array_function__(self, function, types, args, kwargs):
        return "asked"


def test_others_are_asked():
    ours = np.asarray(A) * 1
    theirs = A.copy().view(Shouting)
    assert np.concatenate([ours, theirs]) == "asked"
    assert np.stack([ours[0], theirs[0]]) == "asked"
    assert_same(np.concatenate([ours, B]), numpy.concatenate([A, B]))


@pytest.mark.parametrize("seed", range(40))
def test_order_of_axes_as_numpy_finds_it(seed):
    rng = numpy.random.default_rng(seed)
    for _ in range(30):
        ndim = int(rng.integers(2, 4))
        operands = []
        for _ in range(int(rng.integers(1, 4))):
            shape = rng.integers(1, 4, ndim)
            steps = rng.integers(1, 3, ndim)
            whole = numpy.zeros(shape * steps)
            operand = whole[tuple(slice(None, None, step) for step in steps)]
            operands.append(operand.transpose(rng.permutation(ndim)) if rng.random() < 0.3 else operand)
        try:
            shape = numpy.broadcast_shapes(*[x.shape for x in operands])
        except ValueError:
            operands, shape = operands[:1], operands[0].shape
        with numpy.nditer(
            [*operands, None],
            [],
            [["readonly"]] * len(operands) + [["writeonly", "allocate"]],
            op_dtypes=["f8"] * (len(operands) + 1),
            order="K",
        ) as iterator:
            expected = iterator.operands[-1].strides
        layouts = [Layout.at(x.dtype, x.shape, x.strides, 0) for x in operands]
        assert result_layout(numpy.dtype("f8"), shape, layouts).strides == expected


@pytest.mark.parametrize(
    "given",
    [
        (5.0,),
        (-3, 90),
        (0, 40, 0.25),
        (2**62, 2**62 + 50),
        (-0.0, 40.0),
        (2**63, 2**63 + 40),
        (1, 60, 7),
        (50, -50, -3),
    ],
    ids=str,
)
def test_ranges(given):
    for _ in range(2):
        assert_same(np.arange(*given), numpy.arange(*given))
    assert_same(np.arange(*map(np.float64, given)), numpy.arange(*map(numpy.float64, given)))


def test_ranges_of_ever_new_sizes_in_chains_and_parts():
    mine, theirs = np.zeros(200), numpy.zeros(200)
    for n in (*range(20, 40), 30, 31):
        for xp, x in ((np, mine), (numpy, theirs)):
            x[: 2 * n : 2] = xp.arange(n * 1.0)
            x[n - 1 :: -1] += xp.arange(n)
            x[60 : 60 + n] = xp.arange(0.0, n * 2.0, 2) * x[:n]
        assert_same(mine, theirs)
        assert_same(np.arange(n * 1.0)[::-1] + np.arange(n), numpy.arange(n * 1.0)[::-1] + numpy.arange(n))


def test_ranges_of_new_sizes_are_not_planned(monkeypatch):
    for n in (50, 51):
        np.evaluate(np.arange(n * 1.0))
    monkeypatch.setattr("oxinp._kernels.elementwise.plan.Elementwise.plan", None)
    for n in (52, 60, 75):
        assert_same(np.arange(n * 1.0), numpy.arange(n * 1.0))


@pytest.mark.parametrize("name", ["sum", "mean", "max", "std", "any"])
def test_reductions_of_ever_new_sizes(name):
    x = numpy.random.default_rng(1).standard_normal((460, 900))
    ours = np.asarray(x) * 1
    np.evaluate(ours)
    for n in (*range(420, 424), 300, 421):
        for axis in (None, 0, 1):
            found = [getattr(part, name)(axis=axis) for part in (ours[:n, n:], ours[:n], ours[:n, ::2] * 2)]
            wanted = [getattr(part, name)(axis=axis) for part in (x[:n, n:], x[:n], x[:n, ::2] * 2)]
            for mine, theirs in zip(found, wanted, strict=True):
                numpy.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-13)
