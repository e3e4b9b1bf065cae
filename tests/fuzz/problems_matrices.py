"""Random problems for the planners of products as programs of kernels ask for them."""

from __future__ import annotations

from typing import Any

from oxinp._kernels import workspace
from oxinp._kernels.gemm import select
from oxinp._kernels.gemm.catalog import SUMS, mma_specs
from oxinp._kernels.gemm.epilogue import Epilogue, bind, scaled, subtracted
from oxinp._kernels.gemm.multistage import grouped
from oxinp._kernels.gemm.operand import Matrices, StridedBatch, contiguous, sources
from oxinp._kernels.gemm.sm90_mma import kernel as mma_kernel
from oxinp._kernels.gemm.sm90_mma import plan as sm90_mma
from oxinp._kernels.gemm.sm90_mma.spec import MmaSpec
from oxinp._kernels.gemm.sm90_wgmma import kernel as wgmma_kernel
from oxinp._kernels.gemm.sm90_wgmma.sharing import SHARINGS
from oxinp._kernels.gemm.sm90_wgmma.spec import WgmmaSpec
from oxinp._kernels.gemm.sm90_wgmma.store import (
    BulkColumns16,
    BulkColumns32,
    BulkRows,
    DirectColumns,
    DirectRows,
    RolledRows,
)
from oxinp._kernels.gemm.variant import Variant
from oxinp._kernels.plan import ALIGNMENT
from oxinp._kernels.problem import Instr, ScalarOperand
from oxinp._ptx.types import Type, bf16, c64, c128, f16, f32, f64, i8, i32, u8, u16
from oxinp._ptx.wgmma import FORMS
from tests.fuzz import planning
from tests.fuzz.operand import matrices_of, squared, strides_of, type_of
from tests.fuzz.problem import Problem

# What is multiplied by each family of kernels: the dtypes, batches and sides that are its own.
ALL_SIDES = (
    (1, 5, 20, 32, 33, 64, 100),
    (64, 127, 128, 256, 512, 1000, 1001),
    (1024, 2048, 3000, 4095, 4096, 8192),
)
BATCHES = ((), (), (), (1,), (3,), (200,), (20_000,), (2, 3), (4, 5, 2))
FEW = ((), (), (), (3,))
WORKSPACES = (4 << 30, 1 << 28, 1 << 24, 0)
WAYS = {
    "steps": (("f4", "f4", "f8", "c8", "c8", "c16", "f2", "i1", "u2", "i4", "u8"), BATCHES, ALL_SIDES),
    "plan": (("f4", "f8", "c8", "c16", "f2", "i1", "i4", "i8"), BATCHES, ALL_SIDES),
    "ozaki": (("f8", "f8", "c16", "c16", "f4"), FEW, ALL_SIDES[1:]),
    "limbs": (("u2", "i2", "u4", "i4", "i8", "u8"), FEW, ((128, 200, 512), (128, 1000, 20_000))),
    "tf32": (("f4",), FEW, ((128, 132, 1001),)),
    "fp16x2": (("f4", "c8", "c8", "f8"), FEW, ALL_SIDES[1:]),
    "wgmma": (("f2", "i1", "u1", "u2", "i2", "u4", "i8", "f4", "f4"), BATCHES, ALL_SIDES),
    "update": (("f8", "f8", "c16", "f4", "c8"), BATCHES, ALL_SIDES),
    "product": (("f8", "c16", "f4", "c8", "f2"), BATCHES, ALL_SIDES),
    "mma": (("f8", "c16", "f4", "c8"), ((), (3,), (200,), (20_000,)), ALL_SIDES),
}
DEPTHS = (1, 64, 10_000, 100_000, 1 << 20, 1 << 29, 1 << 31)


def _long(type_: Type, result: Type) -> Epilogue:
    """Return an epilogue of so many instructions that kernels which unroll it refuse it."""
    instrs = [Instr(squared, type_, (i,)) for i in range(40)]
    if result is not type_:
        instrs.append(Instr(lambda k, x: k.cast(x, result), result, (40,)))
    return Epilogue((), tuple(instrs), len(instrs))


def _second(k: Any, x: Any, y: Any) -> Any:
    del k, x
    return y


def _given(type_: Type) -> Epilogue:
    """Return the epilogue that leaves one number of another type."""
    return Epilogue((ScalarOperand(type_),), (Instr(_second, type_, (0, 1)),), 2)


def _epilogue(p: Problem, acc: Type, shape: tuple[int, ...]) -> Epilogue | None:
    """Return what is made of sums: nothing, what is scaled and added to C of any layout, or what is long."""
    m, n = shape[-2:]
    still = (0,) * (len(shape) - 2)
    layouts = (
        contiguous(shape), contiguous(shape), strides_of(p, shape), (*still, 0, 1), (*still, 1, 0), (*still, 0, 0),
        (*still, 2 * n, 2), (*still, n + 1, 1), (*still, 1, m),
    )  # fmt: skip
    strides = p.choice(layouts)
    other = p.choice((c64, f64, f16))
    found: Epilogue | None = p.choice((
        None, None, scaled(acc), scaled(acc, strides), subtracted(acc, strides),
        _long(acc, acc if acc.is_complex else p.choice((acc, f64))), _given(other),
    ))  # fmt: skip
    return found


def _operands(p: Problem, way: str) -> tuple[tuple[int, ...], int, Matrices, Matrices]:
    """Return the shape of C, the depth, A and B of a product that is asked for in one of `WAYS`."""
    dtypes, batches, ranges = WAYS[way]
    type_, batch, sides = type_of(p, dtypes), p.choice(batches), p.choice(ranges)
    second = type_ if p.chance(90) else type_of(p)
    m, n, k = (p.choice(sides) for _ in range(3))
    if p.chance(20):
        k = p.choice(DEPTHS)
    return (*batch, m, n), k, matrices_of(p, type_, (*batch, m, k)), matrices_of(p, second, (*batch, k, n))


def _sums(type_: Type) -> Type:
    return i32 if type_ in (u8, u16) else SUMS.get(type_, type_)


def strided_products(p: Problem) -> Any:
    """Products by the fastest kernels, or by multistage ones, of matrices of any layout."""
    device: Any = planning.backend().capability
    device = workspace.Sparing(device) if p.chance(8) else device
    way = p.choice(("steps", "steps", "steps", "plan", "update", "product"))
    shape, k, a, b = _operands(p, way)
    acc = _sums(a.type)
    epilogue = _epilogue(p, acc, shape)
    p.text = f"{way} {shape} {k} {a} {b} {epilogue and epilogue.inputs}"
    if way == "steps":
        out = a.type if p.chance(85) else p.choice((acc, c64))
        setting, nbytes = p.choice(("auto", "auto", "native", "tf32")), p.choice(WORKSPACES)
        select.plan_steps(shape, k, a, b, out, device, setting, nbytes, epilogue)
    elif b.type is not a.type:
        return
    elif way == "plan":
        variant = Variant(epilogue=epilogue, has_plain_sums=p.chance(50))
        select.plan(shape, k, a, b, acc, p.choice((a.type, acc)), device, variant)
    elif way == "product":
        select.plan_product(shape, k, a, b, device)
    else:
        *batch, m, n = shape
        pitch = n + p.choice((0, 0, 1, 8))
        moves = tuple(step * m * pitch for step in strides_of(p, tuple(batch)))
        c = Matrices(a.type, (*moves, pitch, 1), p.choice((ALIGNMENT, ALIGNMENT, a.type.nbytes)))
        select.plan_update(shape, k, a, b, c, device)


def products_on_tensor_cores(p: Problem) -> Any:
    """Products by each family of kernels for tensor cores, whether others are faster or not."""
    device: Any = planning.backend().capability
    if p.chance(5):
        device = planning.DEVICES["a100"].replace(tuned=device.tuned)
    way = p.choice(("ozaki", "ozaki", "fp16x2", "limbs", "tf32", "tf32", "wgmma", "mma"))
    shape, k, a, b = _operands(p, way)
    acc = _sums(a.type)
    out, epilogue = a.type if p.chance(85) else p.choice((acc, c64)), None
    if way in ("tf32", "wgmma"):
        epilogue = _epilogue(p, acc, shape)
    p.text = f"{way} {shape} {k} {a} {b} {epilogue and epilogue.inputs}"
    if way == "ozaki":
        select.plan_ozaki(shape, k, a, b, device, p.choice(WORKSPACES))
    elif way == "fp16x2":
        select.plan_fp16x2(shape, k, a, b, device)
    elif way == "mma":
        sm90_mma.plan(*sources(shape, k, a, b)[0], device, in_bf16x3=p.chance(50))
    else:
        select.plan_wgmma(shape, k, a, b, out, device, epilogue)


MMA_FIELDS = {
    "type": (f64, c128, f32),
    "a_major": ("k", "mn"),
    "b_major": ("k", "mn"),
    "tile_m": (24, 32, 64, 96, 128, 192, 256),
    "tile_n": (24, 32, 64, 96, 128, 192, 256),
    "warp_m": (12, 16, 24, 32, 64, 128),
    "warp_n": (12, 16, 24, 32, 64, 128),
    "num_stages": (2, 3, 4, 6, 8),
    "cluster": (1, 2, 4),
    "blocks_per_sm": (0, 1, 2),
    "num_k_groups": (1, 2, 3),
    "is_bf16x3": (False, True),
    "is_wgmma": (False, True),
    "is_complex": (False, True),
    "promotion": (0, 256, 5),
    "unroll_k": (0, 1, 2, 4),
    "is_batched": (False, True),
    "epilogue": (
        None,
        bind(scaled(f64), ())[0],
        bind(subtracted(f64, (256, 1)), [(256, 1)], is_staged=True)[0],
    ),
}
WGMMA_FIELDS = {
    "type": (f16, bf16, f32, i8, f64),
    "out": (f16, bf16, f32, f64, i32, c64),
    "a_major": ("k", "mn"),
    "b_major": ("k", "mn"),
    "tile_n": (8, 40, 64, 96, 128, 192, 256),
    "num_stages": (1, 2, 4),
    "sharing": tuple(SHARINGS.values()),
    "store": (BulkRows, RolledRows, BulkColumns16, BulkColumns32, DirectRows, DirectColumns),
    "epilogue": (False, True),
    "is_promoted": (False, True),
    "is_serial_split_k": (False, True),
}
MMA_OF_ODD_TILES = MmaSpec(
    f32, "k", "k", 96, 24, 16, 24, num_stages=4, cluster=1, num_k_groups=2, is_bf16x3=True
)  # which threads that take four elements at a time do not divide
WGMMA_BASES = (
    *[WgmmaSpec(*types, "k", "k") for types in ((f16, f16), (f16, f32), (f32, f32), (i8, i32))],
    *[WgmmaSpec(f32, f32, "mn", "k", tile_n, store=BulkColumns32) for tile_n in (128, 96)],
)


def kernel_specs(p: Problem) -> Any:
    """Specs of products as a search may put them together: most of them are refused."""
    fields: dict[str, Any]
    base: Any
    if p.chance(50):
        base, fields = p.choice((*mma_specs(), *[MMA_OF_ODD_TILES] * 5)), MMA_FIELDS
    else:
        base, fields = p.choice(WGMMA_BASES), WGMMA_FIELDS
    given = {name: p.choice(fields[name]) for name in p.draw.sample(tuple(fields), p.integer(0, 3))}
    if given.get("epilogue") in (False, True):
        sums = FORMS[given.get("type", base.type)].sums[0] if given.get("type", base.type) in FORMS else f32
        given["epilogue"] = bind(scaled(sums), ())[0] if given["epilogue"] else None
    p.text = f"{type(base).__name__} {given}"
    spec = base._replace(**given)
    spec.check()
    m, n, depth = (p.choice((1, 64, 100, 1000, 4096)) for _ in range(3))
    if isinstance(spec, WgmmaSpec):
        batch = StridedBatch(3, 1 << 20, 0, p.choice((1, 2))) if spec.is_batched else None
        strides = p.choice((None, (8192, 1 << 14, 1 << 14)))
        wgmma_kernel.plan(spec, p.choice((0, m)), n, depth, 132, strides, batch, split_k=p.choice((1, 4)))
    elif spec.epilogue is None:
        batch = StridedBatch(3, 1 << 20, 0, p.choice((1, 3))) if spec.is_batched else None
        mma_kernel.plan(spec, (m, n, depth), 132, (1 << 16, 1 << 16), batch)


def grouped_products(p: Problem) -> Any:
    """Products of many sizes by one launch: nothing in the package asks for them, programs of kernels may."""
    type_, count = type_of(p, ("f2", "f4", "f8", "c8", "c16", "i8")), p.choice((1, 2, 30))
    problems, address = [], 1 << 30
    for _ in range(count):
        m, n, k = (p.choice((1, 7, 64, 100, 1000)) for _ in range(3))
        problems.append(grouped.GroupedProblem(address, address, address, (m, n, k), (n, k, n)))
        address += p.choice((ALIGNMENT, type_.nbytes))
    p.text = f"{type_} {problems}"
    group = grouped.Group(type_, SUMS.get(type_, type_), type_)
    grouped.plan(group, problems, planning.backend().capability)
