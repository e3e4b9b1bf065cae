"""f32 products in bf16x3: warp MMA of tiles of numbers of every kind, compared with chains in double.

As in `test_kernel`, tiles are written as the copy engine would write them; `asv_benchmarks.kernels.bf16x3` checks the
kernels on a GPU.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from oxinp._kernels.gemm.operand import Matrices, contiguous
from oxinp._kernels.gemm.select import plan_steps
from oxinp._kernels.gemm.sm90_mma import bf16x3, bf16x3_wgmma
from oxinp._kernels.gemm.sm90_mma import kernel as mma_kernel
from oxinp._kernels.gemm.sm90_mma.bf16x3 import Bf16x3Operand
from oxinp._kernels.gemm.sm90_mma.bf16x3_fixup import FixupChains
from oxinp._kernels.gemm.sm90_mma.spec import WGMMA_TILE_M, WGMMA_TILE_N, WGMMA_WARP_M, MmaSpec
from oxinp._ptx import Builder
from oxinp._ptx.mbarrier import Buffer
from oxinp._ptx.memory import Pointer
from oxinp._ptx.tile import OperandTile
from oxinp._ptx.tma import SWIZZLE_NBYTES
from oxinp._ptx.types import c64, f32, u32
from tests.kernels.gemm.fp16x2.case import CASES, Reference, draw, embedded
from tests.kernels.gemm.sm90_mma.test_kernel import boxes, fill, run
from tests.thinned import thinned

MAJORS = [("k", "mn"), ("mn", "k"), ("k", "k"), ("mn", "mn")]
BY_WARPGROUPS = MmaSpec(f32, "k", "mn", 64, 128, 16, 64, 4, 1, is_bf16x3=True, is_wgmma=True)
SMALL_TERMS = MmaSpec(f32, tile_m=32, tile_n=32, warp_m=32, warp_n=32, is_bf16x3=True)
COMPLEX = SMALL_TERMS._replace(tile_n=64, is_complex=True)


def block_kernel(spec):
    """A product of one tile of K, of operands stored box by box beside their own way."""
    k = Builder("one_block", block=spec.block, target="sm_90")
    c, a_boxes, b_boxes = (k.pointer(name, f32, "w" if name == "c" else "r") for name in ("c", "a_boxes", "b_boxes"))
    chains = FixupChains(k, spec)
    m, n = (k.scalar(name, u32) for name in "mn")
    tiles = []
    for major, extent, depth, source in (
        (spec.a_major, spec.tile_m, spec.depth, a_boxes),
        (spec.b_major, spec.tile_n, spec.b_depth, b_boxes),
    ):
        tile = OperandTile(k, f32, extent, depth, major, 1)
        fill(k, tile.address(k.const(0, u32)), source, tile.nbytes // SWIZZLE_NBYTES, SWIZZLE_NBYTES)
        tiles.append(tile)
    k.barrier()
    warp = k.shfl_idx(k.warp, 0)
    with k.when(warp > 0):
        group, place = mma_kernel.place_of(k, spec, warp - 1)
        own = bf16x3.Bf16x3Consumer(k, spec, tuple(tiles), place, group, chains)
        own.reset()
        buffer = Buffer(k.const(0, u32))
        own.begin(buffer)
        own.multiply(buffer, lambda: buffer)
        own.store(c, *place, m, n)
    return k.build()


def product(spec, a, b):
    """What a block makes of A (m, 32) and B (32, n), or of complex ones, half as deep, seen as reals."""
    if spec.is_complex:
        return product_of_complex(spec, a, b)
    m, n = len(a), b.shape[1]
    padded = [np.pad(x, ((0, extent - len(x)), (0, 0))) for x, extent in ((a, spec.tile_m), (b.T, spec.tile_n))]
    majors = spec.a_major, spec.b_major
    stored = [np.ascontiguousarray(x if major == "k" else x.T) for x, major in zip((a, b.T), majors, strict=True)]
    kernel = block_kernel(spec._replace(is_paired=n % 4 == 0))
    arrays = [np.full((m, n), np.nan, np.float32), *map(boxes, padded, majors), *stored]
    return run(kernel, arrays, (a.shape[1], *(x.shape[1] for x in stored), m, n))


def product_of_complex(spec, a, b):
    """See `product`."""
    left, right = (np.ascontiguousarray(x).view(np.float32) for x in (a, b))
    (m, depth), (rows, n) = left.shape, right.shape
    padded = np.pad(left, ((0, spec.tile_m - m), (0, 0))), np.pad(right, ((0, 0), (0, spec.tile_n - n)))
    beside = np.ascontiguousarray(padded[1].reshape(rows, -1, 32).transpose(1, 0, 2))
    kernel = block_kernel(spec._replace(is_paired=n % 4 == 0))
    arrays = [np.full((m, n), np.nan, np.float32), padded[0], beside, left, right]
    return run(kernel, arrays, (depth, depth, n, m, n)).view(np.complex64)


def chain(a, b):
    """The product by fused multiply-adds of f32, one after the other along K; of complex matrices as `embedded`."""
    a, b = embedded(a, b)
    total = np.zeros((len(a), b.shape[1]), np.float32)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        for left, right in zip(a.T.astype(np.float64), b.astype(np.float64), strict=True):
            total = (np.outer(left, right) + total).astype(np.float32)
    return total


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("majors", MAJORS, ids=str)
def test_products_are_as_exact_as_multiply_adds(majors, groups):
    a, b = draw(CASES[0], np.random.default_rng(3), 62, 60, 32)
    spec = MmaSpec(f32, *majors, 64, 64, 32, 64, num_k_groups=groups, is_bf16x3=True)
    reference = Reference(a, b)
    assert reference.error(product(spec, a, b)) <= reference.error(chain(a, b))


@pytest.mark.parametrize("groups", [1, 2])
def test_complex_products_are_as_exact_as_multiply_adds(groups):
    a, b = draw(CASES[0], np.random.default_rng(3), 31, 30, 16, np.complex64)
    spec = COMPLEX._replace(num_k_groups=groups)
    reference = Reference(a, b)
    assert reference.error(product(spec, a, b)) <= reference.error(chain(a, b))


@pytest.mark.parametrize(
    ("case", "spec"),
    thinned(CASES, [SMALL_TERMS, COMPLEX]),
    ids=lambda each: each.__name__ if callable(each) else "complex" if each.is_complex else "real",
)
def test_numbers_of_every_sort(case, spec):
    n, depth, dtype = (31, 16, np.complex64) if spec.is_complex else (31, 32, np.float32)
    a, b = draw(case, np.random.default_rng(3), 32, n, depth, dtype)
    reference = Reference(a, b)
    # What an element is mostly one product of is rounded twice, in units of half of what that may bring. Where the
    # others of 16 along K are small beside it, tensor cores cut off bits that the emulator keeps: 3.24 was measured.
    bound = 4 if case.__name__ == "same_way" else 2
    assert reference.error(product(spec, a, b)) <= max(bound, reference.error(chain(a, b)))


@pytest.mark.parametrize("is_paired", [True, False])
def test_complex_elements_are_computed_one_by_one(is_paired):
    m, n, depth = 8, 6 if is_paired else 5, 7
    spec = BY_WARPGROUPS._replace(is_complex=True, is_paired=is_paired)
    k = Builder("complex_chains", block=32, target="sm_90")
    c, chains = k.pointer("c", f32, "w"), FixupChains(k, spec)
    row, column = k.tid / 4, k.tid % 4 * 4
    with k.when(column < 2 * n):
        for i, value in enumerate(chains.multiply(row, column, k.const(2 * n, u32))):
            with k.when(column + i < 2 * n):
                c.at(row * (2 * n) + column + i).store(0, [value])
    rng = np.random.default_rng(3)
    a, b = (
        rng.standard_normal((*shape, 2)).astype(np.float32).view(np.complex64) for shape in ((m, depth), (depth, n))
    )
    operands = [x[..., 0].view(np.float32) for x in (a, b)]
    found = run(k.build(), [np.full((m, 2 * n), np.nan, np.float32), *operands], (2 * depth, 2 * depth, 2 * n))
    np.testing.assert_allclose(found.view(np.complex64), a[..., 0].astype(complex) @ b[..., 0], atol=1e-5)


@pytest.mark.parametrize(("major", "is_complex"), [("k", False), ("mn", False), ("mn", True)])
def test_warps_store_bf16x3_terms_as_wgmma_reads_them(major, is_complex):
    depth = 16 if is_complex else 32
    k = Builder("parts_of_b", block=256, target="sm_90")
    to, source = k.pointer("to", u32, "w"), k.pointer("source", f32, "r")
    tile = OperandTile(k, f32, WGMMA_TILE_N, depth, major, 2)
    fill(k, tile.address(k.const(1, u32)), source, WGMMA_TILE_N * depth // 32, SWIZZLE_NBYTES)
    k.barrier()
    own = bf16x3_wgmma.SplitB(k, tile, k.shfl_idx(k.warp, 0), is_complex=is_complex)
    own.write(k.const(1, u32), k.const(2, u32))
    k.barrier()
    num_words = own.num_tiles * own.parts.nbytes // 4
    written = Pointer(k, own.parts.address(k.const(2 * own.num_tiles, u32)), u32, "shared", "r")
    with k.range(k.tid, num_words, 256) as i:
        is_unused = (i >= num_words // 2) & (
            (((i >> 2) ^ (i >> 5)) & 7) >= 4
        )  # of lines along K, beside the third part
        with k.when(~is_unused if major == "k" else i >= 0):
            to[i] = written[i]
    b = np.random.default_rng(3).standard_normal((WGMMA_TILE_N, depth)).astype(np.float32)
    stored = np.ascontiguousarray(b if major == "k" else b.T.reshape(depth, -1, 32).transpose(1, 0, 2))
    words = run(k.build(), [np.zeros(num_words, np.uint32), stored], ())
    if is_complex:
        transposed = np.stack([-b[1::2], b[::2]], axis=1).reshape(b.shape)
        b = np.stack([b, transposed], axis=2).reshape(len(b), -1)
    # Rows of 128 bytes, whose chunk c of 8 elements is at c ^ (row % 8); boxes of 64 along N.
    chunks = words.view(np.uint16).reshape(own.num_tiles, -1, 8, 8)
    row, chunk = np.ogrid[: chunks.shape[1], :8]
    halves = (chunks[:, row, chunk ^ (row % 8)].astype(np.uint32) << 16).view(np.float32)
    if major == "k":
        beside = halves.reshape(2, -1, 2, 32)
        parts = np.stack([beside[0, :, 0], beside[0, :, 1], beside[1, :, 0]])
    else:
        parts = halves.reshape(3, 2, 32, 64).transpose(0, 1, 3, 2).reshape(3, -1, 32)
    np.testing.assert_array_equal(parts.sum(axis=0, dtype=np.float64), b)
    assert (np.abs(parts[1:]) <= np.abs(parts[:-1]) * 2.0**-8).all()


@pytest.mark.parametrize("major", ["k", "mn"])
def test_lanes_load_fragments_of_a(major):
    k = Builder("fragments_of_a", block=128, target="sm_90")
    to, source = k.pointer("to", f32, "w"), k.pointer("source", f32, "r")
    tile = OperandTile(k, f32, WGMMA_TILE_M, 32, major, 1)
    fill(k, tile.address(k.const(0, u32)), source, WGMMA_TILE_M, SWIZZLE_NBYTES)
    k.barrier()
    first = k.shfl_idx(k.warp, 0) * WGMMA_WARP_M
    own = Bf16x3Operand(k, tile, first, 16) if major == "k" else bf16x3_wgmma.TransposedBf16x3Operand(k, tile, first)
    for step in range(2):
        for eight, pairs in enumerate(own.load(Buffer(k.const(0, u32)), step)):
            line = to.at((first + own.line(eight, k.lane >> 2)) * 32)
            for half, pair in enumerate(pairs):
                line.at(2 * (k.lane & 3)).store(16 * step + 8 * half, list(pair))
    a = np.random.default_rng(3).standard_normal((WGMMA_TILE_M, 32)).astype(np.float32)
    np.testing.assert_array_equal(run(k.build(), [np.zeros_like(a), boxes(a, major)], ()), a)


H200 = SimpleNamespace(num_sms=132, cc=(9, 0), max_shared_nbytes=227 * 1024, tuned=lambda _: None)


def planned(shape, depth, setting="auto", type=f32):
    """What is planned for a product of matrices in C order."""
    *batch, m, n = shape
    operands = [Matrices(type, contiguous((*batch, *extents)), 256) for extents in ((m, depth), (depth, n))]
    return plan_steps(shape, depth, *operands, type, H200, setting, 1 << 30)


@pytest.mark.parametrize("shape", [(256, 256), (512, 512), (768, 768), (1024, 1024), (3, 512, 512)], ids=str)
def test_bf16x3_is_planned(shape):
    (step,) = planned(shape, shape[-1]).steps
    assert step.kernel.name.count("_parts") == 1
    assert [argument.buffer for argument in step.arguments] == ["out0", "in0", "in1", "in0", "in1"]
    assert [argument.map is None for argument in step.arguments] == [True, False, False, True, True]
    assert len(step.kernel.params) == len(step.arguments) + len(step.constants)
    assert step.work.flops == 2 * np.prod(shape) * shape[-1]


@pytest.mark.parametrize(
    ("m", "n", "by_warpgroups"), [(256, 256, False), (384, 384, False), (512, 512, False), (640, 640, True)], ids=str
)
def test_small_complex_matrices_are_multiplied_as_reals(m, n, by_warpgroups):
    (step,) = planned((m, n), 512, type=c64).steps
    assert step.kernel.name.endswith("_warpgroups_complex" if by_warpgroups else "_parts_complex")
    assert len(step.kernel.params) == len(step.arguments) + len(step.constants)
    assert step.work == (8 * m * n * 512, 8 * (m * 512 + 512 * n + m * n))


@pytest.mark.parametrize(
    ("shape", "depth", "setting"),
    [
        ((1024, 1024), 1024, "native"),
        ((1024, 1024), 64, "auto"),
        ((128, 128), 128, "auto"),
        ((256, 256), 1 << 14, "auto"),
    ],
    ids=str,
)
def test_other_problems_are_left_to_multiply_adds(shape, depth, setting):
    plan = planned(shape, depth, setting)
    assert plan is None or not any("_parts" in step.kernel.name for step in plan.steps)
