"""Shipped Specs assemble for every architecture that is claimed, without spills and as they are meant to be.

One in 24 of them does here, each for one architecture; all of them for all with OXINP_EVERY_SPEC=1, which takes
minutes more.
"""

import importlib
import inspect
import pkgutil
import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

import oxinp._kernels as kernels_package
from oxinp._kernels import catalog
from oxinp._kernels.elementwise.linear import LinearSpec
from oxinp._kernels.fft.chirp import ChirpSpec
from oxinp._kernels.fft.pairs import PairsSpec
from oxinp._kernels.fft.slabs import SlabsSpec
from oxinp._kernels.fft.spec import TransformSpec
from oxinp._kernels.gemm.multistage.spec import MultistageSpec
from oxinp._kernels.gemm.ozaki.crt import CrtSpec
from oxinp._kernels.gemm.sm90_mma.spec import MmaSpec
from oxinp._kernels.gemm.sm90_wgmma import kernel as wgmma
from oxinp._kernels.gemm.sm90_wgmma.spec import WgmmaSpec
from oxinp._kernels.index.scatter import WriteSpec
from oxinp._kernels.reduce.columns import ColumnsSpec
from oxinp._kernels.reduce.rows import RowsSpec
from oxinp._kernels.rowwise.kernel import RowwiseSpec
from oxinp._kernels.scan.ahead import ScanAheadSpec
from oxinp._kernels.scan.chained import ScanChainedSpec
from oxinp._kernels.scan.chained_columns import ScanChainedColumnsSpec
from oxinp._kernels.scan.columns import ScanColumnsSpec
from oxinp._kernels.scan.kernel import CHAINED, WHOLE
from oxinp._kernels.scan.rows import ScanRowsSpec
from oxinp._kernels.sort.partition import PartitionSpec
from oxinp._ptx.types import bf16, f16, f32, f64, i64, u64
from tests.kernels.assembled import check_assembled
from tests.ptx.assembler import is_every_spec, sampled

TARGETS = {"sm_80": "7.4", "sm_90": "7.8", "sm_90a": "8.0"}  # with PTX versions that know them
PORTABLE = "sm_80"  # the target of kernels that are assembled for others, too
PER_MODULE = 24


def renamed(kernel, number, target):
    name = f"{kernel.name}_{number}"
    text = kernel.ptx.replace(f" {kernel.name}(", f" {name}(", 1)
    text = text.replace(f"{kernel.name}_table_", f"{name}_table_")
    text = re.sub(r"\.version 7\.[0-7]\n", f".version {TARGETS[target]}\n", text, count=1)
    return kernel.replace(name=name, target=target, ptx=text)


def spills_of(spec):
    """The bytes that threads of a kernel may spill: none, but where no register is left for a word or a few."""
    if isinstance(spec, MultistageSpec) and spec.mma in {"dmma", "hmma"} and spec.a_copy < 16:
        return 28  # many narrow copies: operands are not aligned
    if isinstance(spec, MmaSpec) and spec.is_batched:
        return 8 if spec.epilogue is None else 40  # the loop over tiles has to know the matrices, too
    if isinstance(spec, TransformSpec) and spec.is_convolved:
        return 64  # the products of convolutions take registers that numbers need as well
    if isinstance(spec, PairsSpec | ChirpSpec):
        return 16  # likewise roots of unity that are computed, of doubles above all
    if isinstance(spec, SlabsSpec):
        return max(map(spills_of, spec.passes))
    if isinstance(spec, TransformSpec):
        return 32  # ptxas has one more block per multiprocessor instead
    if isinstance(spec, ScanAheadSpec):
        return 8  # around look-backs, of one warp, on sm_80
    if isinstance(spec, ScanChainedSpec) and spec.levels > 4:
        return 16  # rows of more than a million tiles, on sm_80
    if isinstance(spec, ScanChainedSpec) and spec.target.type == f16:
        return 8  # each of many numbers of a thread is converted to f64 and back
    if isinstance(spec, WriteSpec) and spec.claim is not None and (spec.claim.type == u64 or spec.loops.bits == 64):
        return 8  # positions of more than 2^32 indices, or of elements beyond 2^32 bytes
    if isinstance(spec, PartitionSpec) and spec.type.nbytes == 1:
        return 16  # a thread holds many elements
    if isinstance(spec, RowsSpec) and spec.op.name == "moments":
        return 8  # ptxas has one more block per multiprocessor instead
    if isinstance(spec, RowwiseSpec):
        return 16  # ptxas has one more block per multiprocessor instead
    return 8 if spec == CrtSpec(15, is_complex=True, has_pairs=True) else 0


@pytest.mark.parametrize("target", TARGETS)
def test_shipped_kernels_assemble_cleanly(target):
    targets = {target, PORTABLE} if target != "sm_90a" else {target}
    kernels, spills = [], {}
    for number, spec in enumerate(sampled(catalog.specs())):
        kernel = catalog.make(spec)
        if not is_every_spec() and kernel.target == PORTABLE and target != ("sm_80", "sm_90")[number % 2]:
            continue
        if kernel.target in targets:
            kernels.append(renamed(kernel, number, target))
            spills[kernels[-1].name] = spills_of(spec)
    modules = [kernels[i : i + PER_MODULE] for i in range(0, len(kernels), PER_MODULE)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(partial(check_assembled, spills=spills), modules))


def test_the_check_notices_what_ptxas_mends():
    kernel = wgmma.make(WgmmaSpec(bf16, bf16))
    broken = kernel.replace(ptx=kernel.ptx.replace("wgmma.wait_group.sync.aligned 0;", ""))
    with pytest.raises(AssertionError, match="serialises"):
        check_assembled([broken])


# Families that are assembled by tests of their own.
ELSEWHERE = {"lapack"}


def test_every_family_is_in_the_catalog():
    """Every Spec that some `make` in `oxinp._kernels` takes has its family in the catalog."""
    named = {}
    for module in pkgutil.walk_packages(kernels_package.__path__, f"{kernels_package.__name__}."):
        make = getattr(importlib.import_module(module.name), "make", None)
        if make is not None and module.name.split(".")[2] not in {*ELSEWHERE, "catalog"}:
            named |= dict.fromkeys(re.findall(r"\w+", inspect.get_annotations(make)["spec"]), module.name)
    assert named == {spec.__name__: family.__name__ for spec, family in catalog.FAMILIES.items()}


VECTORS = {ScanChainedColumnsSpec: {1, 2}, ScanAheadSpec: {2, 4}}
COPIED = {i64, u64, f32, f64}  # types of which sums are found ahead


def test_shipped_specs_cover_what_planning_can_choose():
    specs = [*catalog.elementwise_specs(), *catalog.reduce_specs(), *catalog.scan_specs()]
    assert {type(spec) for spec in catalog.specs()} == set(catalog.FAMILIES)
    for family in {type(spec) for spec in specs}:
        own = [spec for spec in specs if type(spec) is family]
        assert {spec.chain.index_bits for spec in own} == {32, 64}
        assert {spec.vector for spec in own} >= VECTORS.get(family, {1, 2, 4})
        types = {operand.type for spec in own for operand in spec.chain.inputs}
        assert types >= (COPIED if family is ScanAheadSpec else {*catalog.TYPES, *catalog.OTHER_TYPES})
    kinds = {operand.kind for spec in specs for operand in spec.chain.inputs}
    assert kinds == {"unit", "strided", "outer", "broadcast", "scalar", "index", "transposed", "stepped"}
    assert {spec.group for spec in specs if type(spec) is RowsSpec} == {1, 2, 4, 8, 16, 32, 256, 1024}
    assert {spec.down for spec in specs if type(spec) is ColumnsSpec} == {1, 8}
    assert {spec.is_split for spec in specs if type(spec) is ColumnsSpec} == {True, False}
    assert {spec.is_split for spec in specs if type(spec) is RowsSpec} == {True, False}
    parts = {ScanRowsSpec: {WHOLE}, ScanChainedSpec: {CHAINED}, ScanColumnsSpec: {WHOLE}}
    parts[ScanChainedColumnsSpec] = {CHAINED}
    assert {(spec.part, spec.op.name) for spec in specs if type(spec) is ScanAheadSpec} == {(CHAINED, "sum")}
    assert any(spec.ahead for spec in specs if type(spec) is LinearSpec)
    for family, expected in parts.items():
        assert {spec.part for spec in specs if type(spec) is family} == expected
        assert {spec.op.name for spec in specs if type(spec) is family} == {"sum", "prod"}
    assert {(spec.group, spec.unroll) for spec in specs if type(spec) is ScanRowsSpec} >= {
        (8, 1),
        (32, 1),
        (32, 4),
        (256, 4),
    }
    for family in (RowsSpec, ColumnsSpec):
        assert {spec.op.name for spec in specs if type(spec) is family} == {"sum", "max", "argmax", "mean", "moments"}
