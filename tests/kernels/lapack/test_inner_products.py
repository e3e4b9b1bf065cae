"""Inner products of tall matrices' columns: sums of every row, and no spills."""

from types import SimpleNamespace

import numpy as np
import pytest

from oxinp._kernels.lapack import inner_products
from oxinp._kernels.lapack.inner_products import InnerSpec
from tests.kernels.lapack.case import run
from tests.kernels.lapack.spills import check_assembled
from tests.kernels.machine import machine

DEVICES = {
    "sm_80": SimpleNamespace(num_sms=2, cc=(8, 0), max_shared_nbytes=160 * 1024, tuned=lambda _: None),
    "sm_90": SimpleNamespace(num_sms=1, cc=(9, 0), max_shared_nbytes=232448, tuned=lambda _: None),
}


@pytest.mark.parametrize("target", DEVICES)
@pytest.mark.parametrize(("rows", "columns", "others"), [(700, 8, 1), (131, 5, 3), (300, 21, 8), (90, 48, 1)])
def test_inner_products(rows, columns, others, target):
    device = DEVICES[target]
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((rows, columns)), rng.standard_normal((rows, others))
    plan = inner_products.plan(rows, columns, others, device)
    (sums,) = run(machine(), plan, [np.full(inner_products.spec_of(columns, device).size, np.nan)], (a, b))
    found = inner_products.unpacked(sums, columns, others, device)
    both = np.concatenate([a, b], axis=1)
    assert found.shape == (columns + others,) * 2
    np.testing.assert_allclose(found, both.T @ both, rtol=0, atol=rows * np.finfo("f8").eps * 10)
    assert np.array_equal(found, found.T)


def test_kernels_assemble_without_spills():
    most = inner_products.MOST_COLUMNS // inner_products.TILE
    check_assembled([inner_products.make(InnerSpec(tiles, 8)) for tiles in (1, most)])
    wide = [inner_products.make(InnerSpec(tiles, 16)) for tiles in (1, 4, most)]
    check_assembled(wide, {"sm_90": "7.8"})
