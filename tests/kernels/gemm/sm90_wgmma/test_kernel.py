"""16-bit and 8-bit products against float64.

The sm_80 kernels run on the emulator, or on the GPU with the rest of the suite. The wgmma kernels need Hopper; on other
machines they are assembled. Their larger check is `asv_benchmarks.kernels.sm90_wgmma`.
"""

import re

import numpy as np
import pytest

from asv_benchmarks.kernels import sm90_wgmma as program
from oxinp._kernels.gemm.multistage import kernel as multistage
from oxinp._kernels.gemm.multistage.spec import MultistageSpec
from oxinp._kernels.gemm.sm90_wgmma import kernel as wgmma_kernel
from oxinp._kernels.gemm.sm90_wgmma.scheduler import TILE_M
from oxinp._kernels.gemm.sm90_wgmma.sharing import ClusterSplitK, Single
from oxinp._kernels.gemm.sm90_wgmma.spec import WgmmaSpec
from oxinp._kernels.gemm.sm90_wgmma.store import BulkColumns16, BulkColumns32, DirectRows
from oxinp._ptx.types import bf16, f16, f32, f64, i8, i32, u8
from tests.kernels.assembled import check_assembled
from tests.kernels.gemm.sm90_wgmma.case import draw
from tests.kernels.machine import execute, machine
from tests.ptx.assembler import sampled


def hmma_spec(type, out, a_major, b_major, *measured):
    """A Spec of `multistage` on tensor cores."""
    return MultistageSpec(type, f32, out, a_major, b_major, 16, 16, "hmma", *measured)


MMA_SPECS = [
    hmma_spec(bf16, bf16, "k", "mn", 128, 128, 64, 32, 32, 4),
    hmma_spec(f16, f32, "mn", "k", 128, 256, 64, 64, 32, 3),
    hmma_spec(f16, f16, "k", "k", 64, 64, 32, 32, 32, 4),
    hmma_spec(bf16, f32, "mn", "mn", 64, 64, 32, 16, 64, 2),
    hmma_spec(bf16, bf16, "k", "mn", 32, 32, 16, 16, 64, 4),
]
# Below one tile, whole tiles, odd numbers of tiles in every direction, nothing a multiple of anything.
SHAPES = [(1, 1, 1), (128, 128, 64), (200, 136, 72), (67, 77, 45), (321, 72, 520)]
WGMMA_SPECS = [
    *program.CHECKED_SPECS,
    *[spec for spec, _ in program.TIMED],
    WgmmaSpec(f16, f16, is_batched=True),
    WgmmaSpec(bf16, f32, tile_n=128, num_stages=6, store=DirectRows),
    WgmmaSpec(u8, i32, b_major="k", tile_n=192, is_batched=True, store=DirectRows),
]
H200_SMS = 132


def name_of(spec):
    if isinstance(spec, MultistageSpec):
        return f"{spec.type}-{spec.out}-{spec.a_major}{spec.b_major}-{spec.tile_m}x{spec.tile_n}"
    return spec.name


def run_mma(spec, case):
    """Fill a copy of C."""
    here, result = machine(), np.empty_like(case.c)
    addresses = [here.upload(array) for array in (case.c, case.a, case.b)]
    execute(here, multistage.plan(spec, case.shape, case.pitches), addresses[:1], addresses[1:])
    result.reshape(-1).view(np.uint8)[:] = here.download(addresses[0], result.nbytes)
    for address in addresses:
        here.free(address)
    return result


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("spec", MMA_SPECS, ids=name_of)
def test_mma_against_float64(spec, shape):
    case = draw(spec, *shape, np.random.default_rng(sum(shape)))
    assert case.worst(run_mma(spec, case), spec.out) <= 1


def test_the_bound_notices_a_missing_product():
    spec = MMA_SPECS[1]
    case = draw(spec, 64, 64, 520, np.random.default_rng(1))
    case.a[7, :] = 0  # a is stored (K, M)
    assert case.worst(run_mma(spec, case), spec.out) > 1


@pytest.mark.hopper
@pytest.mark.parametrize("spec", program.CHECKED_SPECS, ids=name_of)
def test_wgmma_against_float64(spec):
    backend, rng = machine().backend, np.random.default_rng(7)
    for shape in program.shapes_of(spec):
        assert program.check(backend, spec, shape, rng) <= 1, shape


@pytest.mark.parametrize("spec", sampled(dict.fromkeys(WGMMA_SPECS)), ids=name_of)
def test_wgmma_assembles_cleanly(spec):
    kernel = wgmma_kernel.make(spec)
    assert kernel.target == "sm_90a"
    # Static shared memory would shift the tiles off their alignment.
    assert kernel.static_shared_nbytes == 0
    check_assembled([kernel])


@pytest.mark.parametrize(
    ("spec", "waits"),
    [
        (WgmmaSpec(f16, f16, tile_n=64, sharing=Single), ["0"]),
        (WgmmaSpec(bf16, bf16, b_major="k", tile_n=192), ["0", "1", "1"]),
        (WgmmaSpec(bf16, bf16), ["1"] * 4),
        (WgmmaSpec(bf16, f32), ["1"] * 8),
    ],
    ids=str,
)
def test_no_box_is_overwritten_while_tma_stores_it(spec, waits):
    # Two boxes in turn: after an odd number of them the next tile begins in the one used last.
    found = re.findall(r"cp\.async\.bulk\.wait_group\.read (\d)", wgmma_kernel.make(spec).ptx)
    assert found == [*waits, "0"]  # and all of them before the block ends


@pytest.mark.parametrize("shape", [(8, 8, 8), (8192, 8192, 8192), (136, 264, 72), (100_000, 8, 8)], ids=str)
@pytest.mark.parametrize("spec", program.CHECKED_SPECS, ids=name_of)
def test_plan_covers_the_result(spec, shape):
    m, n, depth = shape = tuple(x * (2 if spec.type.nbytes == 1 else 1) for x in shape)
    if spec.sharing is ClusterSplitK and depth <= spec.depth:
        with pytest.raises(ValueError, match="halves"):
            wgmma_kernel.plan(spec, *shape, H200_SMS)
        return
    strides = tuple(-(-columns * 4 // 16) * 16 for columns in (n, max(m, depth), max(n, depth)))
    launch = wgmma_kernel.plan(spec, *shape, H200_SMS, strides).launch
    num_m, num_n, num_k = launch.constants[:3]
    beside, above = spec.multicast
    assert num_m % above == num_n % beside == launch.grid[0] % spec.cluster == 0
    assert launch.grid[0] <= H200_SMS
    assert (num_m - above) * TILE_M < m <= num_m * TILE_M
    assert (num_n - beside) * spec.tile_n < n <= num_n * spec.tile_n
    assert (num_k - 1) * spec.depth < depth <= num_k * spec.depth
    # The bytes the barriers wait for are those of the boxes.
    a, b = (argument.map for argument in launch.arguments[1:3])
    expected = int(re.search(r"expect_tx.*, (\d+);", launch.kernel.ptx).group(1))
    num_boxes = [
        len(re.findall(rf"bulk\.tensor\.2d\.shared.*\[{register}, ", launch.kernel.ptx))
        for register in map_registers(launch.kernel.ptx)
    ]
    assert expected == num_boxes[0] * a.box_nbytes * beside + num_boxes[1] * b.box_nbytes * above


def map_registers(ptx):
    """Registers of the maps of A and B."""
    return [re.search(rf"mov\.b64 (%d\d+), {name};", ptx).group(1) for name in ("a_map", "b_map")]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: wgmma_kernel.make(WgmmaSpec(f64, f64)), "multiplies"),
        (lambda: wgmma_kernel.make(WgmmaSpec(bf16, f16)), "multiplies"),
        (lambda: wgmma_kernel.make(WgmmaSpec(bf16, bf16, tile_n=100)), "tile_n"),
        (lambda: wgmma_kernel.make(WgmmaSpec(i8, i8, "k", "k", 64)), "tile_n"),
        (
            lambda: wgmma_kernel.make(WgmmaSpec(bf16, bf16, sharing=ClusterSplitK, is_serial_split_k=True)),
            "serially, not both",
        ),
        (lambda: wgmma_kernel.make(WgmmaSpec(f16, f32, is_promoted=True)), "totals"),
        (lambda: wgmma_kernel.make(WgmmaSpec(f16, f32, store=DirectRows)), "directly"),
        (lambda: wgmma_kernel.make(WgmmaSpec(i8, i32)), "K-major only"),
        (lambda: wgmma_kernel.make(WgmmaSpec(f32, f32, b_major="mn")), "K-major only"),
        (lambda: wgmma_kernel.make(WgmmaSpec(f32, f32, a_major="mn", b_major="k")), "columns of f32"),
        (lambda: wgmma_kernel.make(WgmmaSpec(f32, f32, "mn", "k", 112, store=BulkColumns32)), "through registers"),
        (lambda: wgmma_kernel.make(WgmmaSpec(f16, f32, b_major="k", store=BulkColumns16)), "directly"),
        (lambda: wgmma_kernel.plan(WgmmaSpec(bf16, bf16), 8, 9, 8, 132), "multiples of 16"),
        (lambda: wgmma_kernel.plan(WgmmaSpec(bf16, bf16), 8, 9, 8, 132, (32, 16, 32)), "multiples of 16"),
        (lambda: wgmma_kernel.plan(WgmmaSpec(bf16, bf16), 0, 8, 8, 132), "nothing to multiply"),
    ],
)
def test_illegal_specs_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
