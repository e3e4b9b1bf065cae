"""Products of f32 in parts: what warps do with tiles of numbers of every sort, held against chains in double.

As in `test_gemm_native`, tiles are written as the copy engine would write them; `native_parts_gpu` checks the kernels.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from oxinp._kernels import gemm_native, native_parts
from oxinp._kernels.gemm_native import NativeSpec
from oxinp._kernels.matmul import Matrices, contiguous, plan_steps
from oxinp._kernels.native_checked import Chains
from oxinp._ptx import Builder
from oxinp._ptx.tile import OperandTile
from oxinp._ptx.tma import SWIZZLE_NBYTES
from oxinp._ptx.types import f32, u32
from tests.kernels.split_case import CASES, Reference, draw
from tests.kernels.test_gemm_native import boxes, fill, run

MAJORS = [("k", "mn"), ("mn", "k"), ("k", "k"), ("mn", "mn")]
SMALL = NativeSpec(f32, tile_m=32, tile_n=32, warp_m=32, warp_n=32, is_in_parts=True)


def block_kernel(spec):
    """A product of one tile of K, of operands stored box by box beside their own way."""
    k = Builder("one_block", block=spec.block, target="sm_90")
    c, a_boxes, b_boxes = (k.pointer(name, f32, "w" if name == "c" else "r") for name in ("c", "a_boxes", "b_boxes"))
    chains = Chains(k, spec)
    m, n = (k.scalar(name, u32) for name in "mn")
    tiles = []
    for major, extent, source in ((spec.a_major, spec.tile_m, a_boxes), (spec.b_major, spec.tile_n, b_boxes)):
        tile = OperandTile(k, f32, extent, spec.depth, major, 1)
        fill(k, tile.address(k.const(0, u32)), source, extent, SWIZZLE_NBYTES)
        tiles.append(tile)
    k.barrier()
    warp = k.shfl_idx(k.warp, 0)
    with k.when(warp > 0):
        group, place = gemm_native.place_of(k, spec, warp - 1)
        own = native_parts.PartsWarp(k, spec, tuple(tiles), place, group, chains)
        own.reset()
        stage = k.const(0, u32)
        own.begin(stage)
        own.multiply(stage, lambda: stage)
        own.store(c, *place, m, n)
    return k.build()


def product(spec, a, b):
    """What a block makes of A (m, 32) and B (32, n)."""
    m, n = len(a), b.shape[1]
    padded = [np.pad(x, ((0, extent - len(x)), (0, 0))) for x, extent in ((a, spec.tile_m), (b.T, spec.tile_n))]
    majors = spec.a_major, spec.b_major
    stored = [np.ascontiguousarray(x if major == "k" else x.T) for x, major in zip((a, b.T), majors, strict=True)]
    kernel = block_kernel(spec._replace(is_paired=n % 4 == 0))
    arrays = [np.full((m, n), np.nan, np.float32), *map(boxes, padded, majors), *stored]
    return run(kernel, arrays, (a.shape[1], *(x.shape[1] for x in stored), m, n))


def chain(a, b):
    """The product by fused multiply-adds of f32, one after the other along K."""
    total = np.zeros((len(a), b.shape[1]), np.float32)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        for left, right in zip(a.T.astype(np.float64), b.astype(np.float64), strict=True):
            total = (np.outer(left, right) + total).astype(np.float32)
    return total


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("majors", MAJORS, ids=str)
def test_products_are_as_exact_as_multiply_adds(majors, groups):
    a, b = draw(CASES[0], np.random.default_rng(3), 62, 60, 32)
    spec = NativeSpec(f32, *majors, 64, 64, 32, 64, num_groups=groups, is_in_parts=True)
    reference = Reference(a, b)
    assert reference.error(product(spec, a, b)) <= reference.error(chain(a, b))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_numbers_of_every_sort(case):
    a, b = draw(case, np.random.default_rng(3), 32, 31, 32)
    reference = Reference(a, b)
    # What an element is mostly one product of is rounded twice, in units of half of what that may bring.
    assert reference.error(product(SMALL, a, b)) <= max(2, reference.error(chain(a, b)))


H200 = SimpleNamespace(num_sms=132, cc=(9, 0), max_shared_nbytes=227 * 1024, tuned=lambda _: None)


def planned(shape, depth, setting="auto"):
    """What is planned for a product of f32 in C order."""
    *batch, m, n = shape
    operands = [Matrices(f32, contiguous((*batch, *extents)), 256) for extents in ((m, depth), (depth, n))]
    return plan_steps(shape, depth, *operands, f32, H200, setting, 1 << 30)


@pytest.mark.parametrize("shape", [(256, 256), (512, 512), (768, 768), (1024, 1024), (3, 512, 512)], ids=str)
def test_parts_are_planned(shape):
    (step,) = planned(shape, shape[-1]).steps
    assert step.kernel.name.count("_parts") == 1
    assert [argument.base for argument in step.arguments] == ["c", "a", "b", "a", "b"]
    assert [argument.map is None for argument in step.arguments] == [True, False, False, True, True]
    assert len(step.kernel.params) == len(step.arguments) + len(step.constants)
    assert step.work.flops == 2 * np.prod(shape) * shape[-1]


@pytest.mark.parametrize(
    ("shape", "depth", "setting"),
    [((1024, 1024), 1024, "native"), ((1024, 1024), 64, "auto"), ((128, 128), 128, "auto")],
    ids=str,
)
def test_others_are_left_to_multiply_adds(shape, depth, setting):
    plan = planned(shape, depth, setting)
    assert plan is None or not any("_parts" in step.kernel.name for step in plan.steps)
