"""Draws into arrays that are there, whole or in part, and shuffles along axes, beside NumPy's."""

import numpy as np
import pytest

import oxinp
from tests.comparator import assert_same


def into_a_part(g, xp):
    x = xp.arange(1000.0)
    part = x[100:700]
    before = part + 1  # of what was there
    assert g.random(out=part) is part
    return before, x, part * 2


def into_rows(g, xp):
    x = xp.zeros((20, 30))
    rows = x[3:9]
    g.standard_normal(out=rows)
    return x, rows


def into_another_shape(g, xp):
    x = xp.zeros(600, "f4")
    wide = x.reshape(20, 30)
    g.standard_exponential(out=wide, dtype="f4")
    first = x.copy()
    g.random(out=x, dtype=np.float32)
    return first, wide


def with_a_size(g, xp):
    x = xp.zeros((20, 30))
    g.random(size=(20, 30), out=x)
    return x


def into_columns_first(g, xp):
    x = xp.zeros((30, 20), order="F")
    g.random(out=x)
    return x


def into_numpys(g, _):
    x = np.zeros(500)
    g.standard_normal(out=x)
    return x


def permuted_into_a_part(g, xp):
    x = xp.zeros(4000)
    part = x[500:3500]
    g.permuted(xp.arange(3000.0), out=part)
    first = x.copy()
    g.shuffle(part)
    return first, x


def rows_by_themselves(g, xp):
    x = xp.arange(6000.0).reshape(3, 2000)
    g.permuted(x, axis=1, out=x)
    first = x.copy()
    g.permuted(x.T, axis=0, out=x.T)
    return first, x


def columns(g, xp):
    x = xp.arange(6000.0).reshape(3, 2000)
    g.shuffle(x, axis=1)
    first = x.copy()
    g.shuffle(x[:, ::2], axis=1)
    return first, x, g.permutation(x, axis=-1)


DRAWS = (
    *(into_a_part, into_rows, into_another_shape, with_a_size, into_columns_first, into_numpys),
    *(permuted_into_a_part, rows_by_themselves, columns),
)


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("kind", ["PCG64", "Philox", "MT19937"])
@pytest.mark.parametrize("draw", DRAWS, ids=lambda draw: draw.__name__)
def test_what_is_written_is_numpys(kind, draw):
    found = []
    for xp in (oxinp, np):
        g = xp.random.Generator(getattr(np.random, kind)(5))
        found.append([draw(g, xp), g.integers(0, 99, 5)])
    assert_same(*found)
