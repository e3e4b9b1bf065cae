"""Chains that compute others on their way: what is found of their structures is asked for once."""

# ruff: noqa: ICN001 - oxinp is np where programs are written

import numpy

import oxinp as np
from oxinp._core.lazy import joint, record

N = 40_000


def _draws(seed, count):
    rng = numpy.random.default_rng(seed)
    return [rng.standard_normal(N) for _ in range(count)]


def _whole_and_part(given):
    """Return a chain, and another one that it computes on its way."""
    a, b, c = given
    part = a * b + 0.5
    return part * c - a, part


def test_a_part_is_found_by_its_structure(monkeypatch):
    """Of other arrays than before, and with no search for their places."""
    for turn in range(3):
        given = _draws(turn, 3)
        whole, part = _whole_and_part([np.asarray(each) for each in given])
        if turn == 2:
            monkeypatch.setattr(joint, "_places", None)
        before = np.cuda.stats().launches
        np.evaluate(whole)
        np.evaluate(part)
        assert np.cuda.stats().launches - before == 1
        expected = _whole_and_part(given)
        numpy.testing.assert_array_equal(numpy.asarray(whole), expected[0])
        numpy.testing.assert_array_equal(numpy.asarray(part), expected[1])


def test_alike_of_other_arrays_is_no_part():
    """Nor of the same arrays in another order, nor of other parts of them."""
    for turn in range(3):
        given = _draws(turn, 3)
        a, b, c = [np.asarray(each) for each in given]
        np.evaluate(a, b, c)
        whole, _ = _whole_and_part((a, b, c))
        others = _others(a, b, c)
        np.evaluate(whole)
        for found, expected in zip(others, _others(*given), strict=True):
            numpy.testing.assert_array_equal(numpy.asarray(found), expected)


def _others(a, b, c):
    return [c * b + 0.5, b * a + 0.5, a * b + 0.25, a[::-1] * b + 0.5]


def test_a_part_with_leaves_that_are_one():
    for turn in range(4):
        a, b, _ = _draws(turn, 3)
        x, y = np.asarray(a), np.asarray(b)
        u = x if turn % 2 else y
        part = x * u + 1.0
        whole = part * y
        np.evaluate(whole)
        numpy.testing.assert_array_equal(numpy.asarray(part), a * (a if turn % 2 else b) + 1.0)
        numpy.testing.assert_array_equal(numpy.asarray(whole), (a * (a if turn % 2 else b) + 1.0) * b)


def test_other_operations_are_no_part_whatever_they_read(monkeypatch):
    """Once that is known, no leaf is looked at."""
    for turn in range(2):
        a, b, c = _draws(turn, 3)
        x, y, z = map(np.asarray, (a, b, c))
        other = np.floor(x)
        whole = x * y + z
        if turn:
            monkeypatch.setattr(joint, "_may_compute", None)
        np.evaluate(whole)
        numpy.testing.assert_array_equal(numpy.asarray(whole), a * b + c)
        numpy.testing.assert_array_equal(numpy.asarray(other), numpy.floor(a))


def _summed(xp, given, turns):
    """Return sums that are too long for one kernel, of a product that is updated meanwhile."""
    path, total = given[0].copy(), xp.zeros_like(given[0])
    for i in range(turns):
        path *= xp.exp(0.001 * given[1 + i % 2] - i)
        total += path
    return path, total


def test_long_chains_are_computed_as_before(monkeypatch):
    """What is longer than a kernel is computed at the same places again, with no leaf compared."""
    launches = []
    for turn in range(3):
        given = _draws(turn, 3)
        arrays = [np.asarray(each) for each in given]
        np.evaluate(*arrays)
        before = np.cuda.stats().launches
        path, total = _summed(np, arrays, 40)
        if turn == 2:
            monkeypatch.setattr(joint, "_places", None)
        np.evaluate(path, total)
        launches.append(np.cuda.stats().launches - before)
        for found, expected in zip((path, total), _summed(numpy, given, 40), strict=True):
            numpy.testing.assert_allclose(numpy.asarray(found), expected, rtol=1e-12)
    assert launches[0] == launches[1] == launches[2]


def test_what_was_too_long_is_computed_without_a_search(monkeypatch):
    given = _draws(0, 3)
    arrays = [np.asarray(each) for each in given]
    np.evaluate(*arrays)
    for _ in range(2):
        np.evaluate(*_summed(np, arrays, 40))
    positions = []
    compute = record.compute_what_is_long

    def computed(operation, operands, graphs, given=None, *rest):
        is_computed = compute(operation, operands, graphs, given, *rest)
        if is_computed:
            positions.append(given)
        return is_computed

    monkeypatch.setattr("oxinp._core.ufunc.operators.compute_what_is_long", computed)
    np.evaluate(*_summed(np, arrays, 40))
    assert len(positions) > 4
    assert record.ANYHOW in positions
    assert not any(type(each) is tuple for each in positions)
