"""Keys that are lists of a few integers, of arrays on the device: rows that change places, and what is like them."""

import numpy  # noqa: ICN001
import pytest

import oxinp
from oxinp._core.lazy.balance import balance
from oxinp._runtime.counters import stats
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("on_device")
N = 40

STATEMENTS = [
    "a[[k, p]] = a[[p, k]]",
    "a[[p, k]] = a[[p, k]]",
    "a[[k, p], :] = a[[p, k], :]",
    "a[[k, p], k:] = a[[p, k], k:]",
    "a[[k, p], ::-2] = a[[p, k], 1::2]",
    "a[k:, k:][[0, p - k]] = a[k:, k:][[p - k, 0]]",
    "v[[k, p]] = v[[p, k]]",
    "v[[-k - 1, p]] = v[[p, -k - 1]]",
    "v[::-1][[p, k]] = v[[p, k]]",
    "v[[k]] = v[[p]]",
    "v[[k, k]] = v[[p, k]]",
    "a[[k, k]] = a[[p, k]]",
    "a[[k, k], 1:] = a[[p, k], 1:]",
    "a[[k, p]] = a[[k, k]]",
    "a[[numpy.int64(k), p]] = a[[p, numpy.int32(k)]]",
    "a[[numpy.uint8(k), p]] = a[[p, numpy.uint8(k)]]",
    "a[[k, k + 1, k + 2]] = a[[k + 2, k + 1, k]]",
    "a[[k, k + 1, k + 3]] = a[[k + 3, k + 1, k]]",
    "a[[k, p]] = a[[p, k]] * 2",
    "a[[k, p]] = a[k:k + 2]",
    "a[[k, p]] = a[p]",
    "a[[k, p]] = 3",
    "a[[k, p]] = a[[p, k], ::-1]",
    "a[[k, p]] = a.T[[p, k]]",
    "a.T[[k, p]] = a.T[[p, k]]",
    "a[[k, p]] = numpy.ones((2, N))",
    "a[[k, p]] = w[[p, k]]",
    "a[[k, p]] = a[[p, k]][None]",
    "a[[True, False]] = a[[p, k]]",
    "a[[k, 40]] = a[[p, k]]",
    "a[[k, -41]] = a[[p, k]]",
    "a[[k, p]] = a[[p, 99]]",
    "a[[k, 0, -40]] = a[[p, k, 40]]",
    "a[[k, p]] = a[[p, k, k]]",
    "a[[k, p], k] = a[[p, k], p]",
    "a[[k, p], None] = a[[p, k], None]",
    "a[[k, p], ...] = a[[p, k], ...]",
    "a[[k, p], :, :] = 1",
    "a[[]] = a[[]]",
    "a[[1.0, 2]] = 1",
    "a[[[k, p]]] = a[[[p, k]]]",
    "a[[k, p], [p, k]] = a[[p, k], [k, p]]",
    "c[[k, p]] = c[[p, k]]",
    "c[[k, p], 1:] = c[[p, k], 1:]",
    "c.transpose(1, 2, 0)[[1, 0]] = c.transpose(1, 2, 0)[[0, 1]]",
    "x = a[[k, p]]; a[k] += 1; a[[p, k]] = x; a[k] -= x[0]",
    "x = a[[p, k]]; x += 1; a[p] *= 2; a[[k, p]] = x",
    "s[()][[0, 1]] = 2",
    "a[[k, p, k + 1, p]] = a[[p, k, p, k + 2]]",
    "c[[k, p], 1] = c[[p, k], 1]",
    "c[[k, p], 1:2, 2:] = c[[p, k], 1:2, 2:]",
    "a[[k, p]] = a[[p, k]][:, :]",
    "a[[k, p]] = a[[p, k, k]][1:]",
    "a[:, :3][[k, p]] = a[:, 3:6][[p, k]]",
    "a[::-1][[k, p]] = a[[p, k]]",
    "a[[k, p], :0] = a[[p, k], :0]",
]


def given(xp, kind):
    rng = numpy.random.default_rng(7)
    shapes = {"a": (N, N), "v": N, "c": (N, 3, 5), "w": (N, N)}
    made = {name: xp.array(rng.integers(0, 90, shape).astype(kind)) for name, shape in shapes.items()}
    made["w"] = xp.array(rng.integers(0, 90, (N, N)).astype("f4"))
    if xp is oxinp:
        oxinp.evaluate(*[each + xp.zeros(1, each.dtype) for each in made.values()])
    return made | {"xp": xp, "numpy": numpy, "N": N, "s": xp.array(3)}


@pytest.mark.parametrize("kind", ["f8", "i4", "c16"])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_results_and_errors_are_numpys(statement, kind):
    code = compile(statement, "statement", "exec")
    one, other = given(oxinp, kind), given(numpy, kind)
    for k in range(N - 4):
        raised = []
        for names in (one, other):
            names |= {"k": k, "p": (7 * k + 3) % (N - k) + k}
            try:
                exec(code, names)  # noqa: S102 - a table of statements
                raised.append(None)
            except (IndexError, TypeError, ValueError) as error:
                raised.append((type(error), str(error)))
        assert raised[0] == raised[1]
    for name in ("a", "v", "c"):
        assert_same(one[name], other[name])


@pytest.mark.parametrize(
    "code",
    [
        *("a[[k, p]]", "a[[p, p]]", "a[[k, p], 2:]", "a[[p, k], ::-1]", "v[[p, k]]", "v[::2][[1, 0]]", "a.T[[k, p]]"),
        *("a.T[[k, p], 1:]", "c[[k, p]]", "c[[k, k]]", "c[[k, p], :, 1:]", "c.T[[1, 0]]", "a[[k]]", "a[[0, 2, 4]]"),
        *("c[:, ::-1][[k, p]]", "a[::-1, ::-1][[k, p], 1:]", "a[:0][[k, p]]", "a[:, :0][[k, p]]"),
    ],
)
@pytest.mark.parametrize("kind", ["f8", "?", "M8[s]"])
def test_what_is_read_is_a_copy_in_numpys_order(code, kind):
    one, other = ({**given(xp, "f8"), "k": 2, "p": 5} for xp in (oxinp, numpy))
    results = []
    for names in (one, other):
        names |= {name: names[name].astype(kind) for name in "avc"}
        try:
            found = eval(code, names)  # noqa: S307 - a table's
        except IndexError as error:
            results.append(str(error))
            continue
        assert found.base is None
        results.append(found)
    if isinstance(results[1], str):
        assert results[0] == results[1]
        return
    assert_same(*results)
    assert results[0].strides == results[1].strides
    assert results[0].flags.owndata == results[1].flags.owndata


def test_values_are_of_when_they_were_read():
    for xp in (numpy, oxinp):
        names, kept = given(xp, "f8"), []
        a = names["a"]
        for k in range(N - 1):
            kept.append(a[[k, N - 1 - k]])
            a[k] += 1
            a[[k, k + 1]] = kept[-1]
            a[[k + 1, k]] = a[[k, k + 1]]
        if xp is numpy:
            expected = kept
    for found, wanted in zip(kept, expected, strict=True):
        assert_same(found, wanted)


def test_subclasses_are_kept():
    class Named(oxinp.ndarray):
        pass

    a = (oxinp.arange(40.0).reshape(8, 5) + 0.0).view(Named)
    assert type(a[[1, 2]]) is Named
    a[[1, 2]] = a[[2, 1]]
    assert_same(oxinp.asarray(a[1]), numpy.arange(10.0, 15))


@pytest.mark.parametrize(
    ("statement", "launches"),
    [
        *(("a[[k, p]] = a[[p, k]]", 0), ("v[[k, p]] = v[[p, k]]", 0), ("a[[k, p], k:] = a[[p, k], k:]", 0)),
        *(("a[[k, k, 5, p]] = a[[p, 1, k, 0]]", 0), ("a[[k, p], ::2] = a[[p, k], ::2]", 2)),
        ("a.T[[k, p]] = a.T[[p, k]]", 2),
    ],
)
def test_nothing_is_gathered_or_uploaded(statement, launches):
    names = given(oxinp, "f8")
    code = compile(statement, "statement", "exec")
    names |= {"k": 3, "p": 9}
    with balance.suspended():
        for _ in range(20):
            exec(code, names)  # noqa: S102 - a table of statements
        oxinp.evaluate(names["a"])
        before = stats.launches, stats.h2d_bytes
        for _ in range(20):
            exec(code, names)  # noqa: S102
    assert stats.h2d_bytes == before[1]
    assert stats.launches - before[0] == 20 * launches


def test_readers_that_wait_have_what_was_there():
    for xp in (numpy, oxinp):
        names = given(xp, "f8")
        a, kept = names["a"], []
        for k in range(N - 1):
            kept += [a[k] * 2, a[k, k] + 1, a[k:].sum(axis=0)]
            a[[k, N - 1]] = a[[N - 1, k]]
        if xp is numpy:
            expected = kept
    for found, wanted in zip(kept, expected, strict=True):
        assert_same(found, wanted)


def test_rows_of_what_others_hold():
    a = oxinp.arange(40.0).reshape(8, 5) + 0.0
    held = oxinp.from_dlpack(a)
    a[[1, 2]] = a[[2, 1]]
    assert_same(held, a)
    held[[0, 7]] = held[[7, 0]]
    assert_same(held, a)
    expected = numpy.arange(40.0).reshape(8, 5)[[7, 2, 1, 3, 4, 5, 6, 0]]
    assert_same(a, expected)
