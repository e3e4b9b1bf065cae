"""Which Specs there are kernels of."""

import pytest

from oxinp._kernels.gemm.catalog import mma_specs
from oxinp._ptx.types import f32, f64

IN_BF16X3 = [spec for spec in mma_specs() if spec.is_bf16x3 and not spec.is_complex]


@pytest.mark.parametrize(
    "spec",
    [
        IN_BF16X3[0]._replace(type=f64),
        next(spec for spec in IN_BF16X3 if spec.is_wgmma)._replace(is_bf16x3=False),
        next(spec for spec in mma_specs() if spec.type is f64)._replace(promotion=128),
    ],
    ids=["f64 in bf16x3", "wgmma of f32", "totals of f64"],
)
def test_specs_without_kernels_are_refused(spec):
    with pytest.raises(ValueError, match="bf16x3 and totals are of f32"):
        spec.check()


def test_specs_of_the_catalog_are_not():
    specs = list(mma_specs())
    assert {spec.type for spec in specs} >= {f32, f64}
    for spec in specs:
        spec.check()
