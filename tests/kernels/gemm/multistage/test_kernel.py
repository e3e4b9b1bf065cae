"""The multistage kernels: against a reference of higher precision, exact for integers; their choice by planning."""

from typing import NamedTuple

import numpy as np
import pytest

from asv_benchmarks.kernels import multistage as program
from oxinp._kernels.gemm import select
from oxinp._kernels.gemm.multistage import choose
from oxinp._kernels.gemm.multistage import kernel as multistage
from oxinp._kernels.gemm.multistage.cost import measured_tiles
from oxinp._kernels.gemm.multistage.spec import MultistageSpec
from oxinp._ptx.types import bf16, c64, c128, f16, f32, f64, i8, i32, i64, pred, u8, u32, u64
from tests.kernels.machine import REQUIRE_GPU, execute, machine
from tests.thinned import thinned


def spec(type_, acc, mma, a="k", b="mn", copy=(0, 0), batch=0, split=False, tile=(64, 64, 16, 32), depth=16, stages=3):
    return MultistageSpec(type_, acc, acc if split else type_, a, b, *copy, mma, *tile, depth, stages, batch, split)


class Device(NamedTuple):
    num_sms: int
    cc: tuple[int, int]
    max_shared_nbytes: int

    def tuned(self, _):
        return None


TENSOR = (64, 64, 32, 32)
SPECS = [
    *(spec(f64, f64, "dmma_sm80", a, b, (8, 8), tile=TENSOR) for a in ("k", "mn") for b in ("k", "mn")),
    spec(f64, f64, "dmma_sm80", "k", "mn", (16, 8), tile=(64, 32, 32, 16), depth=32),
    spec(f32, f32, "fma", "k", "mn", (4, 16)),
    spec(f32, f32, "fma", "mn", "k", (16, 4), stages=2),
    spec(f64, f64, "fma", "k", "k", (8, 8)),
    spec(c64, c64, "fma", "mn", "mn", (8, 16), depth=8),
    spec(c128, c128, "fma", "k", "mn", (16, 16), depth=8),
    spec(f32, f32, "fma", "k", "k", (16, 16), tile=(64, 64, 64, 64), stages=2),
    spec(f32, f32, "fma", "mn", "mn", (16, 16), tile=(64, 64, 32, 64), depth=8),
    spec(c64, c64, "fma", "k", "k", (16, 16), tile=(64, 64, 32, 32), depth=8),
    spec(c128, c128, "dmma_sm80", "k", "mn", (16, 16), tile=TENSOR, depth=8),
    spec(c128, c128, "dmma_sm80", "mn", "k", (16, 16), tile=TENSOR, depth=8),
    spec(f16, f32, "fma"),
    spec(f16, f32, "hmma", tile=TENSOR),
    spec(f16, f32, "hmma", "mn", "k", (4, 8), tile=TENSOR, depth=32),
    spec(i8, i8, "fma", "k", "k"),
    spec(u8, u8, "fma", "mn", "mn"),
    spec(pred, i32, "fma", "k", "mn"),
    spec(i32, i32, "fma", "mn", "k", (4, 4)),
    spec(i64, i64, "fma", "k", "mn", (8, 8)),
    spec(u64, u64, "fma", "mn", "mn", (16, 16)),
]
SPECS += [
    spec(type_, type_, "fma", *majors, copy, tile=tile, depth=8).replace(is_smem_transposed=True)
    for type_, majors, copy, tile in (
        (f32, ("k", "k"), (16, 4), (64, 64, 64, 64)),
        (f32, ("k", "mn"), (0, 16), (64, 64, 16, 32)),
        (c64, ("k", "k"), (16, 8), (64, 64, 32, 64)),
        (c64, ("mn", "k"), (16, 0), (64, 64, 16, 32)),
        (i64, ("k", "mn"), (8, 8), (64, 64, 16, 32)),
        (u32, ("k", "k"), (4, 4), (64, 64, 16, 32)),
    )
]
MMA_SHAPES = [(1, 1, 1), (64, 64, 16), (67, 76, 44), (130, 40, 100)]


def name_of(x):
    return (
        f"{x.mma}-{x.type}-{x.a_major}{x.b_major}-{x.tile_m}x{x.tile_n}{'-transposed' * x.is_smem_transposed}"
        if isinstance(x, MultistageSpec)
        else str(x)
    )


def draw(spec, *shape):
    """Random elements, of any size for integers: products wrap around."""
    rng, dtype = np.random.default_rng(sum(shape)), spec.type.dtype
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.1
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if dtype.kind == "c" else values).astype(dtype)


def padded(array):
    """Rows of a length that every copy takes."""
    pitch = -(-array.shape[-1] // 16) * 16
    wide = np.zeros((*array.shape[:-1], pitch), array.dtype)
    wide[..., : array.shape[-1]] = array
    return wide


def product(spec, a, b, split_k=1):
    """What the kernel makes of A (..., M, K) and B (..., K, N)."""
    here = machine()
    *batch, m, depth = a.shape
    n = b.shape[-1]
    held = [
        padded(x if is_straight else x.swapaxes(-1, -2))
        for x, is_straight in ((a, spec.a_major == "k"), (b, spec.b_major == "mn"))
    ]
    c = np.zeros((split_k, *batch, m, n), spec.out.dtype)
    addresses = [here.upload(x) for x in (c, *held)]
    batch_strides = [(x[0].size,) if batch else () for x in (c[0], *held)]
    plan = multistage.plan(
        spec, (m, n, depth), (n, held[0].shape[-1], held[1].shape[-1]), tuple(batch), tuple(batch_strides), split_k
    )
    # Partial results are looked at instead of being joined.
    execute(here, plan, addresses[:1], addresses[1:], addresses[0])
    result = here.download(addresses[0], c.nbytes).view(c.dtype).reshape(c.shape)
    for address in addresses:
        here.free(address)
    return result if spec.is_split_k else result[0]


def check(spec, result, a, b):
    if spec.type.dtype.kind in "iub":
        np.testing.assert_array_equal(result, a @ b)
        return
    wide = np.clongdouble if spec.type.is_complex else np.longdouble
    exact = a.astype(wide) @ b.astype(wide)
    eps = np.finfo(spec.out.dtype).eps + a.shape[-1] * np.finfo(spec.acc.dtype).eps
    assert (np.abs(result - exact) <= eps * (np.abs(a).astype(np.longdouble) @ np.abs(b))).all()


@pytest.mark.parametrize(("spec", "shape"), thinned(SPECS, MMA_SHAPES), ids=name_of)
def test_against_higher_precision(spec, shape):
    m, n, depth = shape
    a, b = draw(spec, m, depth), draw(spec, depth, n)
    check(spec, product(spec, a, b), a, b)


@pytest.mark.parametrize("type_", [f64, i64], ids=str)
def test_batches(type_):
    chosen = spec(type_, type_, "fma", "k", "mn", (8, 8), batch=1)
    a, b = draw(chosen, 5, 33, 20), draw(chosen, 5, 20, 70)
    check(chosen, product(chosen, a, b), a, b)


@pytest.mark.parametrize("type_", [f32, c64], ids=str)
@pytest.mark.parametrize("tile", [(64, 64, 16, 32), (32, 32, 8, 8), (24, 32, 12, 8)])
def test_promotion_adds_totals_of_k_blocks(type_, tile):
    chosen = spec(type_, type_, "fma", "k", "mn", (16, 16), tile=tile, depth=8).replace(promotion=32)
    a, b = draw(chosen, 70, 203), draw(chosen, 203, 66)
    a[:, :40:2] *= 4096  # large first, so that small ones are lost
    result, plain = product(chosen, a, b), product(chosen.replace(promotion=0), a, b)
    check(chosen, result, a, b)
    exact = a.astype(np.clongdouble) @ b.astype(np.clongdouble)
    assert np.abs(result - exact).max() < 0.8 * np.abs(plain - exact).max()


def test_parallel_split_k_stores_partial_products():
    chosen = spec(i64, i64, "fma", "k", "mn", (8, 8), split=True)
    a, b = draw(chosen, 33, 100), draw(chosen, 100, 40)
    parts = product(chosen, a, b, split_k=3)
    np.testing.assert_array_equal(parts.sum(axis=0), a @ b)
    np.testing.assert_array_equal(parts[0], a[:, :48] @ b[:48])


@pytest.mark.hopper
@pytest.mark.parametrize("spec", [spec for spec, _ in program.TIMED], ids=name_of)
def test_tensor_cores_against_higher_precision(spec):
    for m, n, depth in [*MMA_SHAPES, (300, 270, 1001)]:
        a, b = draw(spec, m, depth), draw(spec, depth, n)
        check(spec, product(spec, a, b), a, b)


@pytest.mark.skipif(REQUIRE_GPU, reason="the instruction is run by the hardware there")
@pytest.mark.parametrize("type_", [f64, c128], ids=str)
@pytest.mark.parametrize("mma", ["dmma", "dmma_k4"])
def test_mma_of_sm90_on_the_emulator(type_, mma):
    chosen = spec(type_, type_, mma, "k", "mn", (16, 16), tile=TENSOR, depth=8)
    a, b = draw(chosen, 70, 40), draw(chosen, 40, 66)
    check(chosen, product(chosen, a, b), a, b)


H200 = Device(132, (9, 0), 232448)


@pytest.mark.parametrize("count", [1, 3000])
@pytest.mark.parametrize("type_", [f64, f32], ids=str)
def test_tiles_for_batches_are_chosen_for_many_small_matrices(type_, count):
    for side in (32, 64, 96):
        problem = (count, side, side, side)
        config = choose.config_of(
            choose.multistage_spec(type_, type_, type_, ("k", "mn"), (16, 16), problem, H200), problem, H200
        )
        small = [measured.config() for measured in measured_tiles(type_, type_, H200)[1] if measured.max_side]
        assert (config in small) == (count > 1 and side <= 64)


@pytest.mark.parametrize("cc", [(8, 0), (8, 9), (10, 0), (12, 0)], ids=str)
@pytest.mark.parametrize("type_", [f16, bf16], ids=str)
def test_16_bit_products_are_planned_on_tensor_cores_of_any_gpu(type_, cc):
    device, matrices = Device(100, cc, 99 * 1024), select.Matrices(type_, (130, 1), 2)
    assert select.plan_steps((64, 130), 130, matrices, matrices, type_, device, "auto", 0) is None
    plan = select.plan((64, 130), 130, matrices, matrices, f32, type_, device)
    assert f"mma.sync.aligned.m16n8k16.row.col.f32.{type_}" in plan.launch.kernel.ptx
