"""Which Specs of products ship: every measured config, and what planning chooses for representative problems.

See `oxinp._kernels.catalog`. Configs that tuning finds are not among them: the search assembles what it times.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

from oxinp._kernels.gemm.epilogue import Epilogue, scaled, subtracted
from oxinp._kernels.gemm.fp16x2 import convert
from oxinp._kernels.gemm.fp16x2 import guard as fp16x2_guard
from oxinp._kernels.gemm.fp16x2 import kernel as fp16x2
from oxinp._kernels.gemm.fp16x2.convert import ConvertSpec
from oxinp._kernels.gemm.fp16x2.guard import Fp16x2GuardSpec
from oxinp._kernels.gemm.fp16x2.kernel import Fp16x2Spec
from oxinp._kernels.gemm.multistage import choose, grouped, tile_config
from oxinp._kernels.gemm.multistage import kernel as multistage
from oxinp._kernels.gemm.multistage.cost import measured_tiles
from oxinp._kernels.gemm.multistage.grouped import Group, GroupedSpec
from oxinp._kernels.gemm.multistage.spec import MultistageSpec
from oxinp._kernels.gemm.operand import GENERAL, HERMITIAN, MIN_COPY_NBYTES, SYMMETRIC, WHOLE, Form, Source
from oxinp._kernels.gemm.ozaki import crt, residues
from oxinp._kernels.gemm.ozaki import guard as ozaki_guard
from oxinp._kernels.gemm.ozaki import kernel as ozaki
from oxinp._kernels.gemm.ozaki.crt import CrtSpec
from oxinp._kernels.gemm.ozaki.guard import OzakiGuardSpec
from oxinp._kernels.gemm.ozaki.kernel import OzakiSpec
from oxinp._kernels.gemm.ozaki.moduli import COUNTS
from oxinp._kernels.gemm.ozaki.residues import ResidueSpec
from oxinp._kernels.gemm.sm90_mma import kernel as sm90_mma
from oxinp._kernels.gemm.sm90_mma import stacked
from oxinp._kernels.gemm.sm90_mma.plan import MEASURED, PROMOTION, WITH_EPILOGUE
from oxinp._kernels.gemm.sm90_mma.spec import MmaSpec
from oxinp._kernels.gemm.sm90_mma.stacked import StackedSpec
from oxinp._kernels.gemm.sm90_mma.staged import staged
from oxinp._kernels.gemm.sm90_wgmma import kernel as sm90_wgmma
from oxinp._kernels.gemm.sm90_wgmma.plan import WgmmaProduct
from oxinp._kernels.gemm.sm90_wgmma.spec import OUTS, WgmmaSpec
from oxinp._kernels.gemm.variant import Variant, varied
from oxinp._kernels.plan import ALIGNMENT
from oxinp._kernels.problem import Instr, Operand
from oxinp._ptx.types import Type, bf16, c64, c128, f16, f32, f64, i8, i16, i32, i64, u8

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxinp._kernels.choice import Device

BOTH = (False, True)
MAJORS = (("k", "mn"), ("mn", "k"), ("k", "k"), ("mn", "mn"))
# Types of operands that the multistage kernels multiply, with those of the sums.
SUMS: dict[Type, Type] = {
    **{type_: type_ for type_ in (f64, f32, c64, c128, i32, i64)},
    **dict.fromkeys((f16, bf16), f32),
    **dict.fromkeys((i8, i16), i32),
}
SIDES = (64, 4096)
# Batch, M, N and K of products by wgmma: large, one wave, few tiles and a large K, few columns, a batch, odd.
SHAPES = (
    (1, 8192, 8192, 8192),
    (1, 2048, 2048, 2048),
    (1, 1024, 1024, 1024),
    (1, 256, 512, 16384),
    (1, 8192, 16, 4096),
    (1, 32, 8192, 4096),
    (64, 512, 512, 512),
    (1, 1000, 1001, 3000),
)


def multistage_specs(device: Device) -> Iterator[MultistageSpec]:
    """Yield every measured tile config of every type and layout, then variants of one for each type."""
    for type_, majors, side in product(SUMS, MAJORS, SIDES):
        for spec in _of_tiles(type_, majors, side, device):
            yield spec
            if majors == MAJORS[0] and side == SIDES[0]:
                narrowest = type_.nbytes if type_.nbytes >= MIN_COPY_NBYTES else 0
                yield spec.replace(a_copy=narrowest, b_copy=narrowest)
    for type_, acc in SUMS.items():
        spec = next(_of_tiles(type_, MAJORS[0], max(SIDES), device))
        yield spec.replace(num_batch=1)
        yield spec.replace(num_batch=3, out=acc, is_split_k=True)
        yield spec.replace(is_guarded=True)
        if type_ not in (f32, f64, c64, c128):
            continue
        epilogue = scaled(type_, (256, 1))
        for is_conjugated, c_form in ((True, WHOLE), (False, Form(SYMMETRIC)), (True, Form(HERMITIAN))):
            variant = Variant(is_conjugated, False, c_form, is_mirrored_out=c_form.kind != GENERAL, epilogue=epilogue)
            varying, _ = varied(spec, variant, [(256, 1)])
            tiles = [tile.config() for tile in measured_tiles(type_, type_, device)[1]]
            yield next(
                varying.with_config(tile) for tile in tiles if tile_config.is_legal(varying.with_config(tile), device)
            )


def _of_tiles(type_: Type, majors: tuple[str, str], side: int, device: Device) -> Iterator[MultistageSpec]:
    acc = SUMS[type_]
    spec = choose.multistage_spec(type_, acc, type_, majors, (16, 16), (1, side, side, side), device)
    for tile in measured_tiles(type_, acc, device)[1]:
        found = spec.with_config(tile.config()).replace(num_batch=int(tile.max_side > 0))  # such are for batches
        if tile_config.is_legal(found, device):
            yield found


def grouped_specs(device: Device) -> Iterator[GroupedSpec]:
    """Yield the Specs of groups in C order, of every type and tile."""
    for type_, acc in SUMS.items():
        yield from (spec for _, spec in grouped.configs(Group(type_, acc, type_), (16, 16), device))


def wgmma_specs(device: Device) -> Iterator[WgmmaSpec]:
    """Yield the Specs of the configs that the cost model prefers, without and with an epilogue."""
    for type_, majors, shape in product((f16, bf16, f32, i8, u8), MAJORS, SHAPES):
        is_through_registers = type_ is f32 and majors == ("k", "mn") and shape[2] % 4 == 0
        if type_ not in (f16, bf16) and majors != ("k", "k") and not is_through_registers:
            continue
        sources = _sources(type_, majors, shape)
        for out in OUTS[type_]:
            plain = WgmmaProduct(type_, out, sources, shape, device)
            config = plain.choose()
            yield plain.spec(config)
            if out is type_ and out.is_float:
                biased = WgmmaProduct(type_, out, sources, shape, device, _biased(out))
                if biased.is_legal(config):
                    yield biased.spec(config)


@cache
def _biased(type_: Type) -> Epilogue:
    """The epilogue that adds a bias along rows to sums of f32, and casts them to the bias' type."""
    widened = Instr(lambda k, x: k.cast(x, f32), f32, (1,))
    biased = Instr(lambda k, x, y: x + y, f32, (0, 2))  # noqa: ARG005 - every lowering takes the builder
    cast = Instr(lambda k, x: k.cast(x, type_), type_, (3,))
    return Epilogue((Operand(type_, (0, 0, 1)),), (widened, biased, cast), 4)


def _sources(type_: Type, majors: tuple[str, str], shape: tuple[int, int, int, int]) -> tuple[Source, Source]:
    count, m, n, depth = shape
    a, b = (
        Source(
            f"in{i}",
            type_,
            major,
            depth if major == "mn" else extent,
            extent if major == "mn" else depth,
            -(-(extent if major == "mn" else depth) // 16) * 16,
            extent * depth if count > 1 else 0,
            count,
            ALIGNMENT,
        )
        for i, (extent, major) in enumerate(zip((m, n), majors, strict=True))
    )
    return a, b


def mma_specs() -> Iterator[MmaSpec]:
    """Yield every measured config of the mma.sync kernels, of every layout that has a kernel."""
    for type_, options in MEASURED.items():
        for option, (a_major, b_major), is_batched in product(options, MAJORS, BOTH):
            config = option.config
            spec = MmaSpec(
                f32 if type_ is c64 else type_,
                a_major,
                b_major,
                *config,
                is_complex=type_ is c64,
                promotion=PROMOTION if type_ is f32 and not config.is_bf16x3 else 0,
                is_batched=is_batched,
                is_paired=not is_batched or type_ is c128,
            ).fitted(1 << 12)
            if _has_kernel(spec):
                yield spec


def mma_epilogue_specs() -> Iterator[MmaSpec]:
    """Yield every measured config of the mma.sync kernels with an epilogue, of every layout, and of batches."""
    for type_, options in WITH_EPILOGUE.items():
        found = staged(subtracted(type_, (256, 1)), ())
        assert found is not None
        for option, (a_major, b_major) in product(options, MAJORS):
            spec = MmaSpec(type_, a_major, b_major, *option.config, epilogue=found.spec).fitted(1 << 12)
            if _has_kernel(spec):
                yield spec
                yield spec._replace(is_batched=True)


def _has_kernel(spec: MmaSpec) -> bool:
    """Whether there is a kernel of a Spec: not every layout has one of every config."""
    try:
        spec.check()
    except ValueError:
        return False
    return True


def emulation_specs() -> Iterator[Any]:
    """Yield all Specs of fp16x2 and of the Ozaki scheme."""
    yield from (Fp16x2Spec(*majors, has_pairs, type_) for majors, has_pairs, type_ in product(MAJORS, BOTH, (f32, c64)))
    yield from (ConvertSpec(*each) for each in product((f32, c64), BOTH, BOTH))
    yield Fp16x2GuardSpec()
    yield from (
        OzakiSpec(planes_per_modulus=planes, is_accumulated=is_accumulated)
        for planes, is_accumulated in product((1, 3), BOTH)
    )
    yield from (ResidueSpec(*each) for each in product(("k", "mn"), BOTH, BOTH))
    yield from (CrtSpec(*each) for each in product(COUNTS, BOTH, BOTH))
    yield OzakiGuardSpec()


FAMILIES: dict[type, Any] = {
    MultistageSpec: multistage,
    GroupedSpec: grouped,
    WgmmaSpec: sm90_wgmma,
    MmaSpec: sm90_mma,
    StackedSpec: stacked,
    Fp16x2Spec: fp16x2,
    ConvertSpec: convert,
    Fp16x2GuardSpec: fp16x2_guard,
    OzakiSpec: ozaki,
    ResidueSpec: residues,
    CrtSpec: crt,
    OzakiGuardSpec: ozaki_guard,
}


def specs(device: Device, older: Device) -> list[Any]:
    """Return the distinct Specs of products that ship, for a device with the instructions of Hopper and one without."""
    families = (
        (*multistage_specs(device), *multistage_specs(older)),
        grouped_specs(device),
        wgmma_specs(device),
        mma_specs(),
        mma_epilogue_specs(),
        (StackedSpec(),),
        emulation_specs(),
    )
    return [spec for family in families for spec in dict.fromkeys(family)]
