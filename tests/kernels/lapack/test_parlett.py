"""Parlett's recurrence, diagonal by diagonal: as SciPy's loops, also where elements of the diagonal are equal."""

from types import SimpleNamespace

import numpy as np
import pytest

from oxinp._kernels.lapack import parlett
from oxinp._ptx.types import c64, c128
from tests.kernels.lapack.case import draw, operand_of, run
from tests.kernels.lapack.spills import check_assembled
from tests.kernels.machine import machine

DEVICE = SimpleNamespace(num_sms=3, cc=(8, 0), max_shared_nbytes=160 * 1024, tuned=lambda _: None)


def recurred(t, diagonal):
    plan = parlett.plan(len(t), operand_of(t), DEVICE)
    (found,) = run(machine(), plan, [np.full(t.shape, np.nan, t.dtype)], (t, diagonal))
    return found


@pytest.mark.parametrize("dtype", ["c16", "c8"])
@pytest.mark.parametrize("order", [1, 2, 9, pytest.param(150, marks=pytest.mark.slow)])
def test_squares(order, dtype):
    t = np.triu(draw(np.random.default_rng(order), dtype, order, order)) / 10
    t[np.arange(order), np.arange(order)] = np.arange(1, order + 1)
    found = recurred(t, np.diagonal(t) ** 2)
    tolerance = 1000 * order * np.finfo(t.dtype).eps * order * order
    assert np.allclose(found, t @ t, rtol=0, atol=tolerance)
    assert not np.tril(found, -1).any()


def test_equal_elements_divide_nothing():
    t = np.array([[2, 3, 5], [0, 2, 7], [0, 0, 4]], "c16")
    found = recurred(t, np.array([1, 1, 6], "c16"))
    inner = 7 * (6 - 1) / (4 - 2)
    assert np.allclose(found, [[1, 0, (5 * (6 - 1) + 3 * inner - 0 * 7) / (4 - 2)], [0, 1, inner], [0, 0, 6]])


def test_kernels_assemble_without_spills():
    kernels = [make(type_) for type_ in (c64, c128) for make in (parlett.make, parlett.make_diagonal)]
    check_assembled(kernels)
