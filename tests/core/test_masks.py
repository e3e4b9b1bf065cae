"""Masks that are used more than once: the device is waited for once to know how many elements are chosen."""

# ruff: noqa: ICN001, ARG001 - oxinp is np, and programs take either

import gc
import weakref

import numpy
import pytest

import oxinp as np
from oxinp._core.ops import masks
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("on_device")


def values(kind, shape):
    draw = numpy.random.default_rng(4)
    x = draw.normal(0, 2, shape)
    return (x + 1j * draw.normal(0, 2, shape) if kind == "D" else x).astype(kind)


def escape(np, c, steps):
    z = np.zeros_like(c)
    count = np.zeros(c.shape, int)
    for n in range(steps):
        inside = np.abs(z) < 2.0
        count[inside] = n
        z[inside] = z[inside] ** 2 + c[inside]
    return z, count


@pytest.mark.parametrize("shape", [(3000,), (40, 70)], ids=str)
def test_a_loop_over_masks_never_waits(shape, stats):
    given = values("D", shape) / 60
    c = np.asarray(given) * 1
    np.evaluate(c)
    fetched = []
    for steps in (4, 9):
        before = stats().d2h_bytes
        ours = escape(np, c, steps)
        np.evaluate(*ours)
        fetched.append(stats().d2h_bytes - before)
        for mine, theirs in zip(ours, escape(numpy, given, steps), strict=True):
            assert_same(mine, theirs)
    assert fetched == [0, 0]


def read_and_changed(np, x, y, keep):
    yield x[keep], y[keep], x[keep], y[keep]
    keep[3:50] = False
    yield x[keep], y[keep]
    keep ^= True
    yield x[keep], y[keep], x[keep]
    x[keep] = y[keep]
    yield (x[keep],)
    keep[keep] = False
    yield x[keep], keep
    keep[...] = x > 0
    keep[7] = True
    x[keep] += 1
    yield x, x[keep]


@pytest.mark.parametrize("times", [1, 3])
def test_what_a_mask_chooses_follows_what_is_written_to_it(times):
    pairs = [values(kind, (40, 30)) for kind in "dd"]
    for _ in range(times):
        theirs = [x.copy() for x in pairs] + [pairs[0] > 1]
        ours = [np.asarray(x) * 1 for x in pairs] + [np.asarray(pairs[0]) > 1]
        for mine, wanted in zip(read_and_changed(np, *ours), read_and_changed(numpy, *theirs), strict=True):
            for x, y in zip(mine, wanted, strict=True):
                assert_same(x, y)


def test_views_of_a_mask_are_masks_of_their_own():
    given = values("d", (60, 50))
    for _ in range(3):
        x, keep = np.asarray(given) * 1, np.asarray(given) > 1
        for part in (slice(0, 30), slice(30, 60), slice(None, None, 2)):
            for _ in range(3):
                assert_same(x[part][keep[part]], given[part][(given > 1)[part]])
        assert_same(x[keep], given[given > 1])
        assert_same(x.T[keep.T], given.T[(given > 1).T])


def test_numbers_go_with_the_mask():
    x = np.asarray(values("d", (3000,))) * 1
    keep = x > 1
    for _ in range(4):
        np.evaluate(x[keep])
    numbers = weakref.ref(keep._storage.value.uses.numbers)
    assert numbers() is not None
    keep[0] = True
    np.evaluate(keep)
    gc.collect()
    assert numbers() is None
    for _ in range(4):
        np.evaluate(x[keep])
    numbers = weakref.ref(keep._storage.value.uses.numbers)
    del keep
    gc.collect()
    assert numbers() is None


def shrinking(np, z, steps):
    at = np.arange(len(z))
    found = np.zeros(len(z), int)
    for n in range(steps):
        z = z * z + 0.1
        is_out = np.abs(z) > 2.0
        found[at[is_out]] = n + 1
        at, z = at[~is_out], z[~is_out]
    return found, at, z


def test_a_mask_that_is_written_out_twice_is_waited_for_once(stats):
    given = values("d", (3000,)) / 3
    z = np.asarray(given) * 1
    np.evaluate(z)
    fetched = []
    for steps in (4, 9, 9):
        before = stats().d2h_bytes
        ours = shrinking(np, z, steps)
        np.evaluate(*ours)
        fetched.append(stats().d2h_bytes - before)
        for mine, theirs in zip(ours, shrinking(numpy, given, steps), strict=True):
            assert_same(mine, theirs)
    assert fetched[2] == 9 * 2 * 8  # counts of what is out and what is not, of ever fewer elements


def written_between(np, x, y):
    for _ in range(3):
        out = x > 0.5
        yield x[out], x[~out], y[~out]
        x[3:90] = 2.0
        yield x[~out], y[~out]
        out[5:60] = False
        yield x[~out], y[~out], y[out]
        x[~out] += 1
        out ^= y < 1
        yield x[~out], y[out & (x > 0)], x[out & (x > 0)], y[~out]


def test_masks_of_the_same_arrays_follow_what_is_written_to_those():
    pairs = [values("d", (40, 30)) for _ in range(2)]
    theirs, ours = [x.copy() for x in pairs], [np.asarray(x) * 1 for x in pairs]
    for mine, wanted in zip(written_between(np, *ours), written_between(numpy, *theirs), strict=True):
        for x, y in zip(mine, wanted, strict=True):
            assert_same(x, y)


def parts_of_one(np, x):
    for _ in range(4):
        low, high = x[:1500] > 0, x[1500:] > 0
        yield x[:1500][low], x[1500:][~high], x[:1500][~low], x[:1500][~low]
        x[2000:] *= -1  # which only one of them reads
        yield x[:1500][low], x[:1500][~low], x[1500:][x[1500:] > 0], x[1500:][~(x[1500:] > 0)]


def test_masks_of_other_parts_of_an_array_are_not_taken_for_each_other():
    given = values("d", (3000,))
    for mine, wanted in zip(parts_of_one(np, np.asarray(given) * 1), parts_of_one(numpy, given.copy()), strict=True):
        for x, y in zip(mine, wanted, strict=True):
            assert_same(x, y)


def test_what_is_known_of_a_mask_is_looked_up_before_anything_else(monkeypatch):
    given = [values(kind, (40, 30)) for kind in "dD"]
    keep = given[0] > 1
    ours, mine = [np.asarray(x) * 1 for x in given], np.asarray(given[0]) > 1
    np.evaluate(*ours, *[ours[0][mine] for _ in range(4)])
    monkeypatch.setattr(masks, "select", None)
    for x, y in zip(ours, given, strict=True):
        assert_same(x[mine], y[keep])
        assert_same((x + 1)[mine] * 2, (y + 1)[keep] * 2)
        assert_same(x.T[::-1].T[mine], y.T[::-1].T[keep])
    monkeypatch.undo()
    for other in (ours[0][:30], ours[0].ravel()):
        with pytest.raises(IndexError):
            other[mine]
    mine[3] = True
    keep[3] = True
    assert_same(ours[1][mine], given[1][keep])


def test_a_mask_that_is_used_once_takes_no_more_than_it_did(launches):
    x = np.asarray(values("d", (3000,))) * 1
    np.evaluate(x, x[x > 0.5])
    first = launches(lambda: x[x > 0.5])
    assert [launches(lambda: x[x > 0.5]) for _ in range(4)] == [first] * 4
