"""The mma.sync kernels of f64, c128 and small f32 matrices: warp MMA of tiles on the emulator, and plans.

The copy engine is not emulated: tiles are written as it would write them. `asv_benchmarks.kernels.sm90_mma` checks the
kernels on a GPU.
"""

import math
import re
from types import SimpleNamespace

import numpy as np
import pytest

from asv_benchmarks.kernels.multistage import draw
from oxinp._kernels.gemm.epilogue import subtracted
from oxinp._kernels.gemm.fp16x2 import kernel as fp16x2_kernel
from oxinp._kernels.gemm.fp16x2.kernel import Fp16x2Spec
from oxinp._kernels.gemm.operand import Matrices, StridedBatch, contiguous
from oxinp._kernels.gemm.ozaki import kernel as ozaki_kernel
from oxinp._kernels.gemm.ozaki.kernel import OzakiSpec
from oxinp._kernels.gemm.select import plan_steps, plan_update
from oxinp._kernels.gemm.sm90_mma import kernel as mma_kernel
from oxinp._kernels.gemm.sm90_mma import plan as sm90_mma
from oxinp._kernels.gemm.sm90_mma import stacked
from oxinp._kernels.gemm.sm90_mma.spec import MmaSpec
from oxinp._kernels.gemm.sm90_mma.stacked import StackedSpec
from oxinp._kernels.gemm.sm90_mma.staged import StagedTile
from oxinp._kernels.gemm.sm90_mma.staged import staged as staged_epilogue
from oxinp._kernels.gemm.sm90_wgmma import kernel as wgmma_kernel
from oxinp._kernels.gemm.sm90_wgmma.spec import WgmmaSpec
from oxinp._kernels.gemm.sm90_wgmma.store import BulkRows, DirectRows
from oxinp._kernels.gemm.variant import Variant
from oxinp._kernels.plan import Launch
from oxinp._ptx import Builder
from oxinp._ptx.mbarrier import Buffer
from oxinp._ptx.memory import Pointer
from oxinp._ptx.synchronize import GRID_WAIT
from oxinp._ptx.tile import ATOM_NBYTES, OperandTile
from oxinp._ptx.tma import SWIZZLE_NBYTES
from oxinp._ptx.types import c128, f16, f32, f64, u32
from tests.kernels.machine import machine

MAJORS = [("k", "mn"), ("mn", "k"), ("k", "k"), ("mn", "mn")]


def fill(k, to, source, num_rows, row_nbytes):
    """Copy a box of rows of up to 128 bytes to where the copy engine puts it; swizzled."""
    chunks = row_nbytes // 16
    with k.range(k.tid, num_rows * chunks, k.block[0]) as i:
        row, chunk = i / chunks, i % chunks
        place = to + row * SWIZZLE_NBYTES + ((chunk ^ (row & 7)) << 4)
        width = 16 // source.type.nbytes
        Pointer(k, place, source.type, "shared").store(0, source.at(i * width).load(0, width))


def block_kernel(spec):
    """A product of one tile of K, of operands stored box by box, twice: the second time after a promotion."""
    k = Builder("one_block", block=spec.block, target="sm_90")
    c, a, b = (k.pointer(name, spec.type, "w" if name == "c" else "r") for name in "cab")
    staged = d = None
    if spec.epilogue is not None:
        d = k.pointer("d", spec.type, "r")
        staged = StagedTile(k, spec)
    m, n = (k.scalar(name, u32) for name in "mn")
    tiles = []
    if staged is not None:
        box_nbytes = spec.tile_m * SWIZZLE_NBYTES
        for box in range(staged.num_boxes):
            source = d.at(box * box_nbytes // spec.type.nbytes)
            fill(k, staged.memory.address() + box * box_nbytes, source, spec.tile_m, SWIZZLE_NBYTES)
    for major, extent, source in ((spec.a_major, spec.tile_m, a), (spec.b_major, spec.tile_n, b)):
        tile = OperandTile(k, spec.type, extent, spec.depth, major, 2)
        fill(
            k, tile.address(k.const(1, u32)), source, extent, SWIZZLE_NBYTES
        )  # mn-major: boxes follow each other, as many rows in all
        tiles.append(tile)
    k.barrier()
    warp = k.shfl_idx(k.warp, 0)
    with k.when(warp > 0):
        group, place = mma_kernel.place_of(k, spec, warp - 1)
        own = mma_kernel.WARPS[spec.type](k, spec, tuple(tiles), place, group)
        own.reset()
        second, of_second = Buffer(k.const(0, u32), 1), Buffer(k.const(1, u32))
        own.begin(second)
        own.multiply(second, lambda: of_second)
        own.promote()
        own.multiply(of_second, lambda: second)
        if spec.type is f32:
            own.promote()
        own.store(c, *place, m, n, *([staged] if staged is not None else []))
    return k.build()


def run(kernel, arrays, constants):
    """Launch one block; the first array is written."""
    here = machine()
    addresses = [here.upload(x) for x in arrays]
    here.launch(Launch(kernel, (1, 1, 1), (), constants), addresses)
    return here.download(addresses[0], arrays[0].nbytes).view(arrays[0].dtype).reshape(arrays[0].shape)


def boxes(x, major):
    """An operand (extent, depth) as boxes of rows of 128 bytes."""
    if major == "k":
        return np.ascontiguousarray(x)
    depth = x.shape[1]
    return np.ascontiguousarray(x.T.reshape(depth, -1, depth).transpose(1, 0, 2))


def check(spec, m, n):
    """Compare a block's product with NumPy's."""
    rng = np.random.default_rng(3)
    dtype = spec.type.dtype
    a, b = (draw(dtype, *extents, rng=rng) for extents in ((spec.tile_m, spec.depth), (spec.depth, spec.tile_n)))
    c = run(
        block_kernel(spec),
        [np.full((m, n), np.nan, dtype), boxes(a, spec.a_major), boxes(b.T, spec.b_major)],
        (m, n),
    )
    wide = np.result_type(dtype, float)
    expected, bound = (2 * (x.astype(wide) @ y)[:m, :n] for x, y in ((a, b), (np.abs(a), np.abs(b))))
    assert (np.abs(c - expected) <= 16 * np.finfo(dtype).eps * bound).all()


@pytest.mark.parametrize("majors", MAJORS, ids=str)
def test_warps_multiply_f64(majors):
    check(MmaSpec(f64, *majors, 64, 48, 32, 48), 62, 46)


@pytest.mark.parametrize("majors", MAJORS, ids=str)
def test_warps_multiply_c128(majors):
    check(MmaSpec(c128, *majors, 32, 24, 16, 24), 31, 21)


@pytest.mark.parametrize("majors", MAJORS[:2], ids=str)
@pytest.mark.parametrize(("type", "sizes"), [(f64, (32, 64, 32, 32)), (c128, (16, 24, 16, 24))], ids=["f64", "c128"])
def test_warps_subtract_sums_from_a_tile(type, sizes, majors):
    rng, pitch = np.random.default_rng(4), 66
    epilogue = staged_epilogue(subtracted(type, (pitch, 1)), ())
    spec = MmaSpec(type, *majors, *sizes, epilogue=epilogue.spec)
    tile_m, tile_n = sizes[:2]
    m, n, columns = tile_m - 3, tile_n - 2, SWIZZLE_NBYTES // type.nbytes
    a, b, d = (
        draw(type.dtype, *extents, rng=rng)
        for extents in ((tile_m, spec.depth), (spec.depth, tile_n), (tile_m, tile_n))
    )
    beside = np.ascontiguousarray(d.reshape(tile_m, -1, columns).transpose(1, 0, 2))
    c = np.full((m, pitch), np.nan, type.dtype)
    found = run(block_kernel(spec), [c, boxes(a, majors[0]), boxes(b.T, majors[1]), beside], (bytes(128), pitch, m, n))
    np.testing.assert_allclose(found[:, :n], d[:m, :n] - 2 * (a @ b)[:m, :n], rtol=1e-12, atol=1e-12)
    assert np.isnan(found[:, n:]).all()


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("majors", MAJORS, ids=str)
def test_warps_multiply_f32(majors, groups):
    check(MmaSpec(f32, *majors, 64, 64, 32, 64, num_k_groups=groups), 62, 60)


@pytest.mark.parametrize("type", [f32, f64])
def test_rows_of_odd_length_are_stored_one_by_one(type):
    check(MmaSpec(type, "k", "mn", 32, 32, 32, 32, is_paired=False), 32, 31)


@pytest.mark.parametrize(("m", "n"), [(32, 32), (5, 12)])
def test_a_warp_multiplies_small_matrices(m, n):
    k = Builder("one_warp", block=32, target="sm_90")
    pointers = [k.pointer(name, f32, "w" if name == "c" else "r") for name in "cab"]
    extents = [k.scalar(name, u32) for name in "mn"]
    a, b = (k.dynamic_shared(f32, 1024, ATOM_NBYTES) for _ in range(2))
    fill(k, a.address(), pointers[1], 32, SWIZZLE_NBYTES)
    with k.range(k.tid, 1024, 32) as i:
        b[i] = pointers[2][i]
    k.barrier()
    sums = stacked._multiply(k, a.address(), b.address())
    stacked._store(k, pointers[0], k.const(1, u32), sums, *extents)
    rng = np.random.default_rng(5)
    left, right = (rng.standard_normal((32, 32)).astype(np.float32) for _ in range(2))
    c = run(k.build(), [np.full((3, m, n), np.nan, np.float32), left, right], (m, n))
    np.testing.assert_allclose(c[1], (left.astype(float) @ right)[:m, :n], rtol=1e-5, atol=1e-5)
    assert np.isnan(c[[0, 2]]).all()


def name_of(spec):
    return spec.name


@pytest.mark.parametrize(
    ("family", "spec"),
    [
        *[(mma_kernel, MmaSpec(type, "k", "mn", *sm90_mma.MEASURED[type][0].config)) for type in (f64, c128, f32)],
        *[(wgmma_kernel, WgmmaSpec(f16, f16, tile_n=128, store=store)) for store in (DirectRows, BulkRows)],
        (ozaki_kernel, OzakiSpec(is_accumulated=True)),
        (stacked, StackedSpec()),
        (fp16x2_kernel, Fp16x2Spec("k", "mn", has_pairs=True)),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_loads_and_stores_wait_for_the_kernel_before(family, spec):
    before, *behind = family.make(spec).ptx.split(GRID_WAIT)
    touching = re.compile(r"bulk\.tensor|(ld|st)\.(acquire\.gpu\.|release\.gpu\.|cs\.|)(global|v\d)")
    assert not touching.search(before)
    assert all(touching.search(part) for part in behind)


@pytest.mark.parametrize(("type", "depth", "length"), [(f64, 1024, 8), (f64, 1000, 1), (f64, 600, 2), (c128, 72, 1)])
def test_k_blocks_are_unrolled_as_far_as_k_allows(type, depth, length):
    spec = MmaSpec(type, "k", "mn", *sm90_mma.MEASURED[type][0].config)
    assert spec.fitted(depth).unroll_k == length
    with pytest.raises(ValueError, match="no multiple of the unrolled"):
        mma_kernel.plan(spec._replace(unroll_k=8), (64, 64, 520), 132, (1024, 1024))
    batched, batch = spec._replace(unroll_k=8, is_batched=True), StridedBatch(1, 0, 0, split_k=3)
    with pytest.raises(ValueError, match="no multiple of the unrolled"):
        mma_kernel.plan(batched, (64, 64, 1024), 132, (1024, 1024), batch)


def test_k_blocks_are_not_unrolled_if_that_takes_long_to_compile():
    assert MmaSpec(c128, "k", "k", 64, 64, 64, 64).fitted(1024).unroll_k == 1


H200 = SimpleNamespace(num_sms=132, cc=(9, 0), max_shared_nbytes=227 * 1024, tuned=lambda _: None)


def planned(type, shape, depth, *, a=None, b=None, alignment=256, device=H200):
    """What is planned for a product, with other strides if given."""
    *batch, m, n = shape
    operands = [
        Matrices(type, strides or contiguous((*batch, *extents)), alignment)
        for strides, extents in ((a, (m, depth)), (b, (depth, n)))
    ]
    return plan_steps(shape, depth, *operands, type, device, "native", 1 << 30)


@pytest.mark.parametrize(
    ("type", "shape", "depth", "others"),
    [
        (f64, (1024, 1024), 1024, {}),
        (f64, (1024, 1023), 1024, {"b": (1024, 1)}),
        (f64, (1024, 1024), 1024, {"a": (1, 1024), "b": (1, 1026)}),
        (c128, (1024, 1024), 1024, {}),
        (c128, (505, 509), 515, {"a": (1, 600)}),
        (c128, (7, 512, 513), 511, {"b": (0, 1, 511)}),
        (f64, (320, 320), 320, {}),
        (c128, (96, 96), 96, {}),
        (f64, (4096, 64, 64), 64, {}),
        (f64, (4096, 64, 64), 64, {"b": (0, 64, 1)}),
        (f32, (16384, 32, 32), 32, {}),
        (f32, (16384, 20, 28), 24, {}),
    ],
    ids=str,
)
def test_operands_that_tma_reads_are_planned(type, shape, depth, others):
    (step,) = planned(type, shape, depth, **others).steps
    assert step.kernel.name.startswith(("gemm_native", "gemm_small"))
    assert [argument.buffer for argument in step.arguments] == ["out0", "in0", "in1"]
    assert len(step.kernel.params) == len(step.arguments) + len(step.constants)
    assert step.work.flops == 2 * len(type.parts) ** 2 * math.prod(shape) * depth


@pytest.mark.parametrize(
    ("type", "shape", "depth", "others"),
    [
        (f64, (1024, 1024), 1024, {"alignment": 8}),
        (f64, (1024, 1024), 1023, {"a": (1023, 1)}),
        (f64, (1024, 1024), 1024, {"device": SimpleNamespace(**{**vars(H200), "cc": (8, 0)})}),
        (c128, (1024, 1024), 1024, {"a": (2048, 2)}),
        (c128, (64, 64), 64, {}),
        (f64, (320, 320), 1 << 17, {}),
        (f64, (64, 64), 64, {}),
        (f64, (64, 64), 1 << 20, {}),
        (f32, (16384, 32, 30), 32, {}),
        (f32, (16384, 32, 36), 32, {}),
        (f32, (16384, 32, 32), 32, {"b": (1024, 1, 32)}),
        (f32, (100, 32, 32), 32, {}),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else str(value),  # a device's has its address
)
def test_problems_of_other_families_are_not_planned(type, shape, depth, others):
    assert planned(type, shape, depth, **others) is None


@pytest.mark.parametrize("type", [f64, c128])
@pytest.mark.parametrize(("shape", "pitch"), [((1024, 1001), 1008), ((3, 512, 512), 512)], ids=["odd", "batch"])
def test_updates_are_one_launch_in_place(type, shape, pitch):
    *batch, m, n = shape
    c = Matrices(type, (*[m * pitch] * len(batch), pitch, 1), 256)
    a = Matrices(type, (*[m * 128] * len(batch), 128, 1), 256)
    (step,) = plan_update(shape, 128, a, c, c, H200).steps
    assert step.kernel.name.endswith("_epilogue")
    assert [argument.buffer for argument in step.arguments] == ["out0", "in0", "in1", "in2"]
    assert step.arguments[3].map.shape == (*batch, m, -(-n // 2) * 2 if type is f64 else n)
    assert len(step.kernel.params) == len(step.arguments) + len(step.constants)
    flops = 2 * len(type.parts) ** 2 * math.prod(shape) * 128
    assert step.work.flops == flops


@pytest.mark.parametrize(
    ("pitch", "alignment", "is_conjugated"),
    [(1001, 256, False), (1024, 8, False), (1024, 256, True)],
    ids=["pitch", "pointer", "conjugate"],
)
def test_other_updates_are_left_to_the_multistage_kernels(pitch, alignment, is_conjugated):
    c, a = Matrices(c128 if is_conjugated else f64, (pitch, 1), alignment), Matrices(f64, (128, 1), 256)
    a = a._replace(type=c.type)
    (step,) = plan_update((1024, 1000), 128, a, c._replace(alignment=256), c, H200, Variant(is_conjugated)).steps
    assert step.kernel.name == "gemm_any"
