"""Epilogues of the wgmma kernels: what they make of sums, on the emulator; kernels with them, planned and assembled.

The tensor cores and the copy engine need Hopper, so the emulator is given sums that lie in memory, and a copy engine
of a few lines. What the kernels write as a whole is checked there: `asv_benchmarks.kernels.wgmma_epilogue`.
"""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from asv_benchmarks.kernels import wgmma_epilogue as program
from oxinp._kernels.gemm import select
from oxinp._kernels.gemm.epilogue import BoundEpilogue, bind
from oxinp._kernels.gemm.sm90_wgmma import epilogue_rows
from oxinp._kernels.gemm.sm90_wgmma import kernel as wgmma_kernel
from oxinp._kernels.gemm.sm90_wgmma.epilogue import DirectTile, FragmentEpilogue
from oxinp._kernels.gemm.sm90_wgmma.epilogue_rows import RowEpilogue, RowsTile
from oxinp._kernels.gemm.sm90_wgmma.sharing import Single
from oxinp._kernels.gemm.sm90_wgmma.spec import WgmmaSpec
from oxinp._kernels.gemm.sm90_wgmma.store import BulkColumns16, BulkRows, DirectRows, RolledRows
from oxinp._kernels.plan import Launch
from oxinp._ptx import Builder, tile
from oxinp._ptx.memory import Pointer
from oxinp._ptx.tile import ColumnsTile, ResultTile
from oxinp._ptx.types import f16, f32, i32, i64, u32
from tests.kernels.assembled import check_assembled
from tests.kernels.gemm.sm90_wgmma.epilogue_case import RECIPES, operands
from tests.kernels.gemm.sm90_wgmma.test_plan import H200
from tests.kernels.machine import Emulated, machine
from tests.ptx.assembler import sampled
from tests.thinned import thinned

ROWS = 64  # of sums in a warpgroup
EMULATED = {name: recipe for name, recipe in RECIPES.items() if recipe.ulp == 0}
ROLLED = [name for name, recipe in EMULATED.items() if recipe.written.nbytes in epilogue_rows.NBYTES]


class Sums:
    """What is in registers as `wgmma.Accumulator` has it: a matrix in memory, of 64 rows."""

    def __init__(self, k, source, extent, thread):
        self.k, self.source, self.extent, self.thread = k, source, extent, thread

    def pairs(self):
        row, column = (self.thread >> 5) * 16 + ((self.thread >> 2) & 7), (self.thread & 3) * 2
        places = [(i, j) for j in range(self.extent // 8) for i in range(2)]
        return [
            (i, j, *self.source.at(self.k.cast((row + 8 * i) * self.extent + column + 8 * j, i64)).load(0, width=2))
            for i, j in places
        ]


class CopyEngine:
    """Stores boxes of swizzled rows of 128 bytes, and leaves out what is outside of C."""

    def __init__(self, k, c, extents, num_rows=ROWS):
        self.k, self.c, (self.m, self.n), self.num_rows = k, c, extents, num_rows

    def store(self, position, source):
        k, nbytes = self.k, self.c.type.nbytes
        *outer, first_row, first = position
        with k.range(k.const(0, u32), self.num_rows) as row, k.range(k.const(0, u32), 128 // nbytes) as column:
            byte = column * nbytes ^ ((row & 7) << 4)
            value = Pointer(k, source + row * 128 + byte, self.c.type, "shared").load(0)[0]
            with k.when((first_row + row < self.m) & (first + column < self.n)):
                line = first_row + row if not outer else outer[0] * self.m + first_row + row
                self.c.at(k.cast(line * self.n + first + column, i64)).store(0, [value])


def stored(recipe, sums, held, corner, extents, way):
    """What a warpgroup writes into C, zeros elsewhere, of sums whose first is element `corner` of matrix 1 of 2.

    By ``"columns"`` rows of sums are columns of C.
    """
    here, out = Emulated(), recipe.written
    m, n = extents
    epilogue = recipe.epilogue(m, n, 2)
    strides = [x.strides for x in epilogue.arrays]
    if way == "columns":
        strides = [(matrix, column, row) for matrix, row, column in strides]
    spec, constants = bind(epilogue, strides, is_paired=way in {"bulk", "rolled"})
    k = Builder("store", block=128)
    c = k.pointer("c", out, "w")
    source = k.pointer("sums", f32 if sums.dtype == np.float32 else i32, "r")
    bound = BoundEpilogue(k, spec)
    own = tuple(k.scalar(name, u32) for name in ("m", "n"))
    row, column = (k.scalar(name, u32) for name in ("row", "column"))
    outer = (k.const(1, u32),)
    tile_epilogue = (
        RowEpilogue(bound, out, own)
        if way == "rolled"
        else FragmentEpilogue(bound, out, own[::-1] if way == "columns" else own, k.tid, 1 + (way == "bulk"))
    )
    if way == "columns":
        row, column = column, row
    visitor = tile_epilogue.at(row, column, outer)
    accumulator = Sums(k, source, sums.shape[1], k.tid)
    if way == "direct":
        DirectTile(k, own, k.tid).store(c, accumulator, row, column, outer, visitor)
    elif way == "columns":
        width = sums.shape[1]
        engine = CopyEngine(k, c, own, ColumnsTile.columns_box(out, width)[0])
        ColumnsTile(k, out, width, 1, k.const(0, u32), k.tid).store(engine, accumulator, row, column, outer, visitor)
    else:
        result = (RowsTile if way == "rolled" else ResultTile)(k, out, 1, k.const(0, u32), k.tid)
        result.store(CopyEngine(k, c, own), accumulator, row, column, outer, visitor)
    addresses = [here.upload(x) for x in (np.zeros((2, m, n), out.dtype), sums, *held)]
    scalars = [type.dtype.type(value).item() for type, value in recipe.scalars]
    here.launch(Launch(k.build(), (1, 1, 1), (), (*constants, m, n, *corner)), [*addresses, *scalars])
    return here.download(addresses[0], 2 * m * n * out.nbytes).view(out.dtype).reshape(2, m, n)


@pytest.fixture
def no_engine(monkeypatch):
    """Without the instructions that wait for the copy engine."""
    for name in ("publish_shared", "commit_stores", "wait_stores"):
        for module in (tile, epilogue_rows):
            monkeypatch.setattr(module, name, lambda *_, **__: None)


@pytest.mark.usefixtures("no_engine")
@pytest.mark.parametrize(
    ("name", "way", "corner"),
    [
        *thinned([*EMULATED], ["bulk", "direct"], [(0, 0), (64, 32)]),
        *((name, "rolled", (64, 32)) for name in ROLLED),
    ],
    ids=str,
)
def test_sums_are_stored_with_an_epilogue(name, way, corner):
    recipe, rng = EMULATED[name], np.random.default_rng(2)
    unit = 16 // recipe.written.nbytes
    width = (128 << (way == "rolled")) // recipe.written.nbytes  # one box, or two
    m, n = (71, 32 + unit) if corner[1] else (130, 144)
    n += way == "direct"
    _, _, sums = operands(recipe.type, rng, ROWS, width, 16)
    held = recipe.draw(rng, m, n, 2)
    whole = np.zeros((2, m, n), sums.dtype)
    rows, columns = (
        slice(start, min(start + size, end)) for start, size, end in zip(corner, (ROWS, width), (m, n), strict=True)
    )
    whole[1, rows, columns] = sums[0, : rows.stop - rows.start, : columns.stop - columns.start]
    expected = np.zeros((2, m, n), recipe.written.dtype)
    expected[1, rows, columns] = recipe.expected(whole, held)[1, rows, columns]
    found = stored(recipe, sums[0], held, corner, (m, n), way)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.usefixtures("no_engine")
@pytest.mark.parametrize(("width", "corner", "extents"), [(16, (0, 0), (20, 72)), (80, (40, 64), (110, 104))], ids=str)
@pytest.mark.parametrize("name", [name for name, recipe in EMULATED.items() if recipe.written.nbytes == 2])
def test_sums_are_stored_with_an_epilogue_by_columns(name, width, corner, extents):
    recipe, rng = EMULATED[name], np.random.default_rng(4)
    m, n = extents
    _, _, sums = operands(recipe.type, rng, ROWS, width, 16)
    held = recipe.draw(rng, m, n, 2)
    rows, columns = slice(corner[0], min(corner[0] + width, m)), slice(corner[1], min(corner[1] + ROWS, n))
    whole = np.zeros((2, m, n), sums.dtype)
    whole[1, rows, columns] = sums[0].T[: rows.stop - rows.start, : columns.stop - columns.start]
    expected = np.zeros((2, m, n), recipe.written.dtype)
    expected[1, rows, columns] = recipe.expected(whole, held)[1, rows, columns]
    np.testing.assert_array_equal(stored(recipe, sums[0], held, corner, extents, "columns"), expected)


@pytest.mark.hopper
@pytest.mark.parametrize("name", RECIPES)
def test_products_with_epilogues(name):
    rng = np.random.default_rng(3)
    for shape in program.SHAPES[:-1]:
        error = program.check(machine().backend, RECIPES[name], shape, rng)
        assert error is None or error <= RECIPES[name].ulp, shape


def kernel_of(name, *, store=BulkRows, **fields):
    """The kernel of a recipe in the tiles of a Spec."""
    recipe = RECIPES[name]
    epilogue = recipe.epilogue(512, 512)
    strides = [x.strides[::-1] if store.is_column_major else x.strides for x in epilogue.arrays]
    bound, _ = bind(epilogue, strides, is_paired=store in {BulkRows, RolledRows})
    spec = WgmmaSpec(recipe.type, recipe.written, b_major="k", epilogue=bound, store=store)
    return wgmma_kernel.make(spec._replace(**fields))


KERNELS = [
    *[(name, {}) for name in RECIPES if name not in {"in f32", "tanh", "tanh of f16"}],
    ("in f32", {"tile_n": 128, "num_stages": 6, "is_promoted": True}),
    ("bias and relu", {"store": DirectRows, "tile_n": 192}),
    ("bytes that wrap around", {"store": DirectRows, "tile_n": 128, "num_stages": 6, "is_batched": True}),
    ("rounded as NumPy", {"tile_n": 128, "num_stages": 6, "is_batched": True}),
    ("tanh", {"tile_n": 128, "num_stages": 6, "is_promoted": True, "store": RolledRows}),
    ("tanh of f16", {"store": RolledRows}),
    (
        "bias and relu",
        {"a_major": "mn", "tile_n": 160, "num_stages": 5, "store": BulkColumns16, "is_serial_split_k": True},
    ),
    ("alpha and beta", {"a_major": "mn", "tile_n": 256, "sharing": Single, "store": BulkColumns16}),
    ("alpha, beta and bias along columns", {"store": RolledRows, "is_batched": True}),
]


@pytest.mark.parametrize(("name", "fields"), sampled(KERNELS), ids=str)
def test_kernels_assemble_cleanly(name, fields):
    check_assembled([kernel_of(name, **fields)])


@pytest.mark.parametrize("shape", program.SHAPES, ids=str)
@pytest.mark.parametrize("name", RECIPES)
def test_plans_with_an_epilogue_have_the_sums_of_those_without(name, shape):
    recipe, backend = RECIPES[name], SimpleNamespace(capability=H200)
    m, n, _, count = shape
    plan = program.planned(backend, recipe.type, recipe.out, shape, recipe.epilogue(m, n, count))
    if "tanh" in name and n % 8:  # long, and not stored in bulk
        assert plan is None
        return
    (finished,) = plan.steps
    (plain,) = program.planned(backend, recipe.type, recipe.out, shape).steps
    names = [re.sub(r"_direct|_finished|_rolled", "", step.kernel.name) for step in (finished, plain)]
    assert names[0].split("_", 3)[3] == names[1].split("_", 3)[3]
    assert finished.work.flops == plain.work.flops
    sizes = {"row": n, "all": count * m * n, "second": count * m * n, "column": m, "one": 1}
    read = sum(type.nbytes * sizes[kind] for type, kind in recipe.arrays)
    resized = count * m * n * (recipe.written.nbytes - recipe.out.nbytes)
    assert finished.work.nbytes - plain.work.nbytes == read + resized


def test_transposed_products_in_serial_split_k_have_epilogues():
    recipe, backend = RECIPES["bias and relu"], SimpleNamespace(capability=H200)
    shape = (300, 3000, 5000, 1)
    (step,) = program.planned(backend, f16, f16, shape, recipe.epilogue(300, 3000)).steps
    assert step.kernel.name.endswith("_columns_finished_runs")
    assert [argument.buffer for argument in step.arguments] == ["out0", "in1", "in0", "scratch", "flags", "in2", "in3"]
    assert step.constants[-2:] == (3000, 300)  # rows of the transpose are columns of C


def test_where_there_is_no_epilogue():
    recipe, backend = RECIPES["bias and relu"], SimpleNamespace(capability=H200)
    deep = (64, 64, 1 << 16, 1)  # split along K
    assert len(program.planned(backend, f16, f16, deep).steps) > 1
    assert program.planned(backend, f16, f16, deep, recipe.epilogue(64, 64)) is None
    assert program.planned(backend, i64, i64, (512, 512, 1024, 1), RECIPES["bytes"].epilogue(512, 512)) is None
    a, b = (select.Matrices(f16, (8000, 4000, *strides), 256) for strides in ((80, 1), (1, 80)))
    epilogue = recipe.epilogue(40, 24)
    uneven = epilogue.along([(7, 1000, 0, 1)])  # the bias's matrices do not follow each other
    even = epilogue.along([(48, 24, 0, 1)])
    plans = [select.plan_wgmma((3, 2, 40, 24), 80, a, b, f16, H200, each) for each in (even, uneven)]
    assert [plan is None for plan in plans] == [False, True]
