"""Shipped Specs assemble for every architecture that is claimed, and keep their registers.

An eighth of them does here; all of them with OXINP_EVERY_SPEC=1, which takes minutes more.
"""

import re
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from oxinp._kernels import catalog
from oxinp._kernels.reduce.columns import ColumnsSpec
from oxinp._kernels.reduce.rows import RowsSpec
from oxinp._kernels.scan.chained import ScanChainedSpec
from oxinp._kernels.scan.columns import ScanColumnsSpec
from oxinp._kernels.scan.kernel import CHAINED, PREFIXED, TOTALS, WHOLE
from oxinp._kernels.scan.rows import ScanRowsSpec
from tests.ptx.assembler import assemble, sampled

TARGETS = {"sm_80": "7.0", "sm_90": "7.8"}  # with the PTX versions that know them
PER_MODULE = 24
CACHE = Path(tempfile.gettempdir()) / "oxinp-assembled"
FRAME = re.compile(
    r"Function properties for (\w+)\s+(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill"
)


def renamed(kernel, number, target):
    name = f"{kernel.name}_{number}"
    text = kernel.ptx.replace(f" {kernel.name}(", f" {name}(", 1)
    text = text.replace(f"{kernel.name}_table_", f"{name}_table_")
    text = re.sub(r"\.version 7\.[0-7]\n", f".version {max(TARGETS[target], '7.4')}\n", text, count=1)
    return kernel.replace(name=name, target=target, ptx=text)


@pytest.mark.parametrize("target", TARGETS)
def test_shipped_kernels_assemble_without_spills(target):
    kernels = [renamed(kernel, i, target) for i, kernel in enumerate(map(catalog.make, sampled(catalog.specs())))]
    modules = [kernels[i : i + PER_MODULE] for i in range(0, len(kernels), PER_MODULE)]
    with ThreadPoolExecutor(2) as pool:
        said = "".join(pool.map(lambda module: assemble(module, CACHE), modules))
    found = {name: tuple(map(int, numbers)) for name, *numbers in FRAME.findall(said)}
    assert found.keys() == {kernel.name for kernel in kernels}
    assert {name: numbers for name, numbers in found.items() if any(numbers)} == {}


def test_shipped_specs_cover_what_planning_can_choose():
    specs = [*catalog.elementwise_specs(), *catalog.reduce_specs(), *catalog.scan_specs()]
    others = [*catalog.gather_specs(), *catalog.sort_specs(), *catalog.random_specs()]
    assert {type(spec) for spec in (*specs, *others)} == set(catalog.FAMILIES)
    for family in catalog.FAMILIES.keys() - {type(spec) for spec in others}:
        own = [spec for spec in specs if type(spec) is family]
        assert {spec.chain.index_bits for spec in own} == {32, 64}
        assert {spec.vector for spec in own} >= {1, 2, 4}
        types = {operand.type for spec in own for operand in spec.chain.inputs}
        assert types >= {*catalog.TYPES, *catalog.OTHER_TYPES}
    kinds = {operand.kind for spec in specs for operand in spec.chain.inputs}
    assert kinds == {"unit", "strided", "outer", "broadcast", "scalar", "index", "transposed", "stepped"}
    assert {spec.group for spec in specs if type(spec) is RowsSpec} == {1, 2, 4, 8, 16, 32, 256, 1024}
    assert {spec.down for spec in specs if type(spec) is ColumnsSpec} == {1, 8}
    assert {spec.is_split for spec in specs if type(spec) is ColumnsSpec} == {True, False}
    assert {spec.is_split for spec in specs if type(spec) is RowsSpec} == {True, False}
    parts = {ScanRowsSpec: {WHOLE}, ScanChainedSpec: {CHAINED}, ScanColumnsSpec: {WHOLE, TOTALS, PREFIXED}}
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
