"""Reductions of lines of ever other lengths: launched by a few integers, with the bits of their plans."""

import numpy  # noqa: ICN001
import pytest

import oxinp as np
from oxinp._core.reduction import near_lines, planning

pytestmark = pytest.mark.usefixtures("on_device", "unwatched")


def pivot(xp, a, k):
    return k + xp.argmax(xp.abs(a[k:, k]))


def last_of_all(xp, a, k):
    return xp.argmin(a[k:, 2])


def total(xp, a, k):  # noqa: ARG001 - the programs' one signature
    return (a[k:, k] * 2.0).sum()


def mean(xp, a, k):
    return xp.mean(a[k, k:] + 1)


def largest_kept(xp, a, k):  # noqa: ARG001
    return a[k, k:].max(keepdims=True)


def of_rows(xp, a, k):
    return xp.sum(a[:k] - 1)


def backwards(xp, a, k):
    return xp.argmax(a[k::-1, 1])


def any_above(xp, a, k):
    return xp.any(a[k:, k] > 0.5)


PROGRAMS = (pivot, last_of_all, total, mean, largest_kept, of_rows, backwards, any_above)
SIZE = 160


def run(xp, program, given):
    a = xp.array(given) + 0
    if xp is np:
        np.evaluate(a)
    return [numpy.array(program(xp, a, k)) for k in range(1, SIZE - 1)]


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_reductions_of_nearby_lengths_have_the_bits_of_their_plans(program, dtype, monkeypatch):
    given = (numpy.random.default_rng(3).standard_normal((SIZE, SIZE)) * 9).astype(dtype)
    if dtype != "i4":
        given[40, 2] = given[90, 1] = numpy.nan
    first = run(np, program, given)
    made = run(np, program, given)
    monkeypatch.setattr(planning, "keep_near", lambda *_: None)
    monkeypatch.setattr(near_lines, "_LINES", "none")
    wanted = run(np, program, given)
    bits = [(each.dtype, each.shape, each.tobytes()) for each in wanted]
    assert [(each.dtype, each.shape, each.tobytes()) for each in made] == bits
    assert [(each.dtype, each.shape, each.tobytes()) for each in first] == bits
    numpys = run(numpy, program, given)
    for own, each in zip(wanted, numpys, strict=True):
        assert (own.dtype, own.shape) == (each.dtype, each.shape)
        numpy.testing.assert_allclose(own, each, rtol=1e-4 if dtype == "f4" else 1e-12, atol=1e-3)


def test_few_of_ever_smaller_ones_are_planned(monkeypatch):
    planned = []
    before = planning.line_of
    monkeypatch.setattr(planning, "line_of", lambda leaves: planned.append(leaves) or before(leaves))
    run(np, pivot, numpy.random.default_rng(4).standard_normal((SIZE, SIZE)))
    assert 0 < len(planned) < SIZE // 2


def test_what_is_kept_is_forgotten_with_the_settings(config):
    given = numpy.random.default_rng(5).standard_normal((SIZE, SIZE))
    wanted = [each.tolist() for each in run(numpy, pivot, given)]
    for _ in range(2):
        assert [each.tolist() for each in run(np, pivot, given)] == wanted
        config.renew()
