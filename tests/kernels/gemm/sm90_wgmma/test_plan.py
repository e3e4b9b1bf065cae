"""Plans of products on Hopper's tensor cores: the copies and sums around them, which run anywhere, and the choice.

The products themselves need Hopper: `tests/core/test_tensor_cores.py`.
"""

import dataclasses
import functools
import itertools
import random
from types import SimpleNamespace

import numpy as np
import pytest

from oxinp._kernels.gemm import int_limbs, select
from oxinp._kernels.gemm.operand import Source
from oxinp._kernels.gemm.sm90_wgmma import kernel as wgmma_kernel
from oxinp._kernels.gemm.sm90_wgmma import plan as sm90_wgmma
from oxinp._kernels.gemm.sm90_wgmma.plan import WgmmaConfig
from oxinp._kernels.gemm.sm90_wgmma.scheduler import TILE_M
from oxinp._kernels.gemm.sm90_wgmma.spec import OUTS
from oxinp._kernels.plan import Argument, Scratch
from oxinp._ptx import Builder
from oxinp._ptx.tile import OperandTile
from oxinp._ptx.types import bf16, f16, f32, from_dtype, i8, i32, pred, u8
from tests.kernels import machine as machine_module
from tests.kernels.machine import TINY_DEVICE, execute, machine

H200 = type(TINY_DEVICE)(**{**vars(TINY_DEVICE), "num_sms": 132, "cc": (9, 0), "max_shared_nbytes": 227 * 1024})


NOTHING = np.zeros(0, np.uint8)  # in place of C, where nobody looks at it


def source(buffer, type, major, extent, depth, *, count=1, pitch=None, moves=True, alignment=256):
    lines, run = (extent, depth) if major == "k" else (depth, extent)
    pitch = run if pitch is None else pitch
    return Source(buffer, type, major, lines, run, pitch, lines * pitch if moves and count > 1 else 0, count, alignment)


def run(plan, out, *arrays):
    """Run the plan, with NumPy in place of tensor cores where there are none; the scratch memory and C."""
    here = machine()
    addresses = [here.upload(array) for array in (out, *arrays)]
    scratch = here.upload(np.full(max(plan.scratch_nbytes, 1), 0xA5, np.uint8))
    buffers = dict(zip(("out0", "in0", "in1", "scratch"), (*addresses, scratch), strict=True))
    stand_in = None if machine_module.REQUIRE_GPU and out.size else functools.partial(multiply, here, out, buffers)
    execute(here, plan, addresses[:1], addresses[1:], scratch, stand_in)
    left, c = here.download(scratch, plan.scratch_nbytes), here.download(addresses[0], out.nbytes)
    for address in (*addresses, scratch):
        here.free(address)
    return left, c


def multiply(here, out, buffers, launch):
    """What the kernel of a launch does to matrices of bytes, one at a time; nothing where nobody looks at C."""
    if not out.size:
        return
    assert launch.kernel.name.startswith("gemm_u8_i32_kk_")
    a, b = (
        read(here, buffers[argument.buffer] + argument.offset, argument.map)
        for argument in operands_of(launch, launch.arguments)
    )
    c = (a.astype(np.int64) @ b.astype(np.int64).T).astype(np.int32)
    place = launch.arguments[0]
    here.write(buffers[place.buffer] + place.offset, c)


def operands_of(step, arguments):
    """Return the arguments of A and of B, in reverse where C is computed as its transpose."""
    of_a, of_b = arguments[1:]
    return (of_b, of_a) if step.kernel.name.endswith("_columns") else (of_a, of_b)


def read(here, address, spec):
    """The matrix that a map describes."""
    (lines, length), (pitch,) = spec.shape, spec.strides_nbytes
    stored = here.download(address, (lines - 1) * pitch + length)
    return np.lib.stride_tricks.as_strided(stored, (lines, length), (pitch, 1))


def product_of(plan):
    (step,) = [step for step in plan.steps if step.kernel.target == "sm_90a"]
    return step


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(
    ("type", "major", "run_length"),
    [(f16, "k", 77), (f16, "mn", 131), (i8, "mn", 90), (pred, "mn", 128), (f32, "mn", 36)],
)
def test_operands_that_cannot_be_read_are_copied_and_padded(monkeypatch, type, major, run_length, count):
    monkeypatch.setattr(sm90_wgmma, "MIN_COPIED", 0)
    m, depth = (20, run_length) if major == "k" else (run_length, 45)
    a = source("in0", type, major, m, depth, count=count)
    dtype = np.dtype(np.bool_) if type is pred else type.dtype
    rng = np.random.default_rng(3)
    stored = (rng.standard_normal((count, a.lines, a.run)) * 50).astype(dtype)
    unit = 16 // dtype.itemsize
    out = OUTS[sm90_wgmma.MULTIPLIED[type]][0]
    b = source("in1", type, "k", 64, depth, pitch=-(-depth // unit) * unit, count=count, moves=False)
    b = b._replace(run=b.pitch) if depth % unit else b
    plan = sm90_wgmma.plan(a, b, out, H200)
    step = product_of(plan)
    of_a, _ = operands_of(step, step.arguments)
    assert of_a.buffer == "scratch"
    left = run(plan, NOTHING, stored, np.zeros(1, dtype))[0]
    expected = stored if major == "k" or type is f16 else stored.swapaxes(1, 2)
    lines, length = expected.shape[1:]
    pitch = -(-length // unit) * unit
    start = of_a.offset
    copied = left[start : start + count * lines * pitch * dtype.itemsize].view(dtype).reshape(count, lines, pitch)
    np.testing.assert_array_equal(copied[..., :length], expected)
    if major == "k" or type is not f16:  # contiguous along K
        assert not copied[..., length:].any()
    assert of_a.map.shape[-2:] == (lines, pitch)
    assert of_a.map.strides_nbytes[-1] == pitch * dtype.itemsize


def test_batches_in_another_order_are_copied(monkeypatch):
    monkeypatch.setattr(sm90_wgmma, "MIN_COPIED", 0)
    stored = np.random.default_rng(12).standard_normal((3, 20, 2, 24)).astype(np.float16)
    # Matrices (i, :, j, :) in the order of i, then j; those of B for all i.
    a = select.Matrices(f16, (20 * 48, 24, 48, 1), 256)
    b = select.Matrices(f16, (0, 24 * 16, 16, 1), 256)
    plan = select.plan_wgmma((3, 2, 20, 16), 24, a, b, f16, H200)
    step = product_of(plan)
    of_a, of_b = operands_of(step, step.arguments)
    left = run(plan, NOTHING, stored, np.arange(2 * 24 * 16, dtype=np.float16))[0].view(np.float16)
    assert of_a.map.shape == (6, 20, 24)
    np.testing.assert_array_equal(left[of_a.offset // 2 :][: stored.size], stored.swapaxes(1, 2).ravel())
    assert of_b.map.shape == (6, 24, 16)
    expected = np.tile(np.arange(2 * 24 * 16, dtype=np.float16), 3)
    np.testing.assert_array_equal(left[of_b.offset // 2 :][: expected.size], expected)


def test_parallel_split_k():
    m, n, depth = 40, 24, 1 << 16
    plan = sm90_wgmma.plan(source("in0", f16, "k", m, depth), source("in1", f16, "mn", n, depth), f16, H200)
    step = product_of(plan)
    assert step.arguments[0].buffer == "scratch"
    split_k = step.constants[4]
    assert split_k > 1
    here = machine()
    partial = np.random.default_rng(4).standard_normal((split_k, m, n)).astype(np.float32)
    scratch = np.zeros(plan.scratch_nbytes, np.uint8)
    scratch[: partial.nbytes] = partial.view(np.uint8).ravel()
    addresses = [here.upload(np.zeros((m, n), np.float16)), here.upload(scratch)]
    joined = plan.replace(steps=plan.steps[plan.steps.index(step) + 1 :])
    execute(here, joined, addresses[:1], scratch=addresses[1])
    got = here.download(addresses[0], m * n * 2).view(np.float16).reshape(m, n)
    np.testing.assert_allclose(got, partial.sum(0).astype(np.float16), rtol=2e-3, atol=1e-4)
    for address in addresses:
        here.free(address)


@pytest.mark.parametrize(
    "shape",
    [(128, 128, 128), (256, 256, 256), (1024, 1024, 1024), (8192, 8192, 8192), (64, 64, 65536), (8, 100_000, 64)],
)
@pytest.mark.parametrize("types", [(f16, f16), (f16, f32), (i8, i32), (i8, i8), (u8, pred), (f32, f32)], ids=str)
def test_every_choice_is_a_kernel_that_fits(shape, types):
    m, n, depth = shape
    type, out = types
    plan = sm90_wgmma.plan(source("in0", type, "k", m, depth), source("in1", type, "k", n, depth), out, H200)
    step = product_of(plan)
    assert step.kernel.shared_nbytes <= H200.max_shared_nbytes
    assert not any(step.kernel.target == "sm_90a" for step in plan.steps[1:])


@pytest.mark.parametrize(
    ("types", "majors"),
    [
        *itertools.product([(f16, f16), (f16, f32), (bf16, f32)], ["kk", "km", "mk", "mm"]),
        *itertools.product([(i8, i32), (u8, pred), (f32, f32)], ["kk"]),
        ((f32, f32), "km"),
    ],
    ids=str,
)
def test_every_legal_config_can_be_planned(monkeypatch, types, majors):
    type, out = types
    monkeypatch.setattr(
        wgmma_kernel, "make", lambda spec: SimpleNamespace(name=spec.name, target="sm_90a", tiles=checked(spec))
    )
    num_legal, draw = 0, random.Random(5)
    every = list(
        itertools.product(
            (16, 32, 64, 96, 128, 192, 256, 320),
            (1, 2, 3, 4, 8),
            (1, 2, 3),
            (1, 3, 16),
            "abcd",
            (False, True),
        )
    )
    for shape in ((512, 256, 4096, 1), (100, 77, 4096, 3)):
        m, n, depth, count = shape
        operands = [
            source(name, type, "mn" if major == "m" else "k", extent, depth, pitch=8192, count=count)
            for name, major, extent in zip(("in0", "in1"), majors, (m, n), strict=True)
        ]
        product = sm90_wgmma.WgmmaProduct(type, out, tuple(operands), shape, H200)
        for sizes in draw.sample(every, 2000):
            config = WgmmaConfig(*sizes)
            if product.is_legal(config):
                num_legal += 1
                monkeypatch.setattr(product, "choose", lambda config=config: config)
                pointers = (Argument("out0"), Argument("in0"), Argument("in1"))
                assert any(step.kernel.target == "sm_90a" for step in product.steps(pointers, Scratch()))
    assert num_legal > 20


def checked(spec):
    """Tiles as the kernel makes them."""
    k = Builder("tiles", block=384, target="sm_90a")
    extents, majors = (TILE_M, spec.tile_n), (spec.a_major, spec.b_major)
    return [
        OperandTile(k, spec.type, extent, spec.depth, major, spec.num_stages, multicast)
        for extent, major, multicast in zip(extents, majors, spec.multicast, strict=True)
    ]


def test_problems_without_a_plan():
    a, b = source("in0", f16, "k", 64, 64), source("in1", f16, "mn", 64, 64)
    assert sm90_wgmma.plan(a, b, f16, H200) is not None
    assert sm90_wgmma.plan(a, b, f16, type(H200)(**{**vars(H200), "cc": (8, 0)})) is None
    assert sm90_wgmma.plan(a, b, i32, H200) is None
    odd = source("in0", f16, "k", 64, 63), source("in1", f16, "mn", 64, 63)
    assert sm90_wgmma.plan(*odd, f16, H200) is None  # too small to be copied


def test_measured_answers_are_chosen():
    asked = []

    def tuned(choice):
        asked.append(choice)
        return {"tile_n": 64, "num_stages": 5, "cluster": 1, "split_k": 1}

    device = type(H200)(**{**vars(H200), "tuned": tuned})
    a, b = source("in0", f16, "k", 256, 256), source("in1", f16, "mn", 256, 256)
    assert "128x64_s5_c1" in product_of(sm90_wgmma.plan(a, b, f16, device)).kernel.name
    (choice,) = asked
    assert choice.shape == (1, 256, 256, 256)
    assert not choice.is_legal(WgmmaConfig(256, 9, 1))
    assert not choice.is_legal(WgmmaConfig(100, 2, 1))
    assert all(map(choice.is_legal, choice.candidates()))


@pytest.mark.parametrize(
    ("shape", "kernel"),
    [
        ((16, 8192, 8192), "128x16_s12_c1_columns"),  # B is read once, by half of the multiprocessors
        ((16, 11008, 4096), "128x16_s12_c2_c_columns"),  # or by pairs of them
        ((128, 8192, 8192), "128x64_s8_c2_a_columns"),
        # Fewer tiles than multiprocessors: two ranges of K per tile.
        ((192, 11008, 4096), "128x96_s6_c2_a_columns_runs"),
        ((300, 5000, 3000), "128x160_s5_c2_a_columns_runs"),
        ((192, 4096, 11008), "128x192_s4_c1_columns"),
        ((1024, 4096, 1024), "128x64_s8_c1"),
        ((1024, 1024, 1024), "128x64_s8_c1"),
        ((8192, 8192, 8192), "128x256_s4_c2"),
    ],
)
def test_choices_of_the_cost_model(shape, kernel):
    m, depth, n = shape
    plan = sm90_wgmma.plan(source("in0", f16, "k", m, depth), source("in1", f16, "mn", n, depth), f16, H200)
    (step,) = plan.steps
    assert step.kernel.name.endswith(kernel)
    # Every block has a tile, or two of them have one.
    assert step.grid[0] <= H200.num_sms


def test_tf32_takes_row_major_operands_as_they_are():
    a, b = source("in0", f32, "k", 512, 256), source("in1", f32, "mn", 1024, 256)
    plan = sm90_wgmma.plan(a, b, f32, H200)
    assert plan.scratch_nbytes == 0
    (step,) = plan.steps
    assert [argument.buffer for argument in step.arguments] == ["out0", "in1", "in0"]
    assert step.arguments[0].map.shape == (512, 1024)
    assert step.kernel.name.endswith("_columns")
    # Both along M and N, or rows of C that bulk copies cannot store: one is copied.
    for others in ((a, b._replace(run=1022)), (source("in0", f32, "mn", 512, 256), b)):
        assert len(sm90_wgmma.plan(*others, f32, H200).steps) > 1


def test_tf32_takes_wide_tiles():
    # The most that the registers hold beside what comes through them: one wave of 2048 x 2048.
    for n in (2048, 4096, 8192):
        plan = sm90_wgmma.plan(source("in0", f32, "k", n, n), source("in1", f32, "mn", n, n), f32, H200)
        assert "_128x256_s4_" in product_of(plan).kernel.name


def test_results_at_any_alignment_are_stored_directly():
    plan = sm90_wgmma.plan(source("in0", f16, "k", 128, 512), source("in1", f16, "k", 101, 512), f16, H200)
    step = product_of(plan)
    assert step.kernel.name.endswith("_direct")
    assert step.arguments[0].map is None
    assert dataclasses.asdict(step.arguments[1].map)["shape"] == (128, 512)


@pytest.mark.parametrize("majors", ["kk", "km", "mk", "mm"])
@pytest.mark.parametrize("dtype", ["i2", "u4", "i8", "u8"])
@pytest.mark.parametrize("shape", [(20, 24, 64), (33, 7, 77)], ids=str)
def test_products_of_wide_integers(monkeypatch, shape, dtype, majors):
    m, n, depth = shape
    monkeypatch.setattr(int_limbs, "MIN_PRODUCTS", 0)
    monkeypatch.setattr(int_limbs, "MIN_EXTENT", 1)
    monkeypatch.setattr(int_limbs, "MAX_DEPTH", 40)
    monkeypatch.setattr(int_limbs, "MAX_SUMS_NBYTES", 4096)
    rng, info = np.random.default_rng(9), np.iinfo(dtype)
    a, b = (rng.integers(info.min, info.max, x, dtype, endpoint=True) for x in ((m, depth), (n, depth)))
    sources = [
        source(name, from_dtype(dtype), "mn" if major == "m" else "k", extent, depth)
        for name, major, extent in zip(("in0", "in1"), majors, (m, n), strict=True)
    ]
    plan = int_limbs.plan(*sources, from_dtype(dtype), H200)
    stored = [np.ascontiguousarray(x.T if major == "m" else x) for x, major in zip((a, b), majors, strict=True)]
    _, c = run(plan, np.zeros((m, n), dtype), *stored)
    np.testing.assert_array_equal(c.view(dtype).reshape(m, n), a @ b.T)
    assert sum(each.work.flops for each in plan.steps) == 2 * m * n * depth


def test_sums_of_bytes_are_held_by_32_bits():
    assert 4 * int_limbs.MAX_DEPTH * 255**2 < 2**32


def test_small_products_of_integers_have_no_wgmma_plan():
    i8s = [source(name, from_dtype("i8"), "k", 64, 64) for name in ("in0", "in1")]
    assert int_limbs.plan(*i8s, from_dtype("i8"), H200) is None
