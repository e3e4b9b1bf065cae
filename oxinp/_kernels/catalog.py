"""The Specs that ship: those that planning chooses for representative problems of every type, layout and size.

Tests assemble them for every architecture that is supported. A Spec also holds the instructions of the problem, of
which there is no list; the problems here have plain ones, and the longest ones, which need the most registers.
"""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.blas3 import trsm, trsm_dmma
from oxinp._kernels.blas3.trsm import TrsmSpec
from oxinp._kernels.blas3.trsm_dmma import TrsmDmmaSpec
from oxinp._kernels.convolve import direct
from oxinp._kernels.convolve.direct import ConvolveSpec
from oxinp._kernels.elementwise import access, addressed, joined, linear, part, tile
from oxinp._kernels.elementwise import plan as elementwise
from oxinp._kernels.elementwise.addressed import AddressedSpec
from oxinp._kernels.elementwise.chain import STRIDED, UNIT, Chain, OperandSpec
from oxinp._kernels.elementwise.joined import JoinedSpec
from oxinp._kernels.elementwise.linear import LinearSpec
from oxinp._kernels.elementwise.part import PartSpec
from oxinp._kernels.elementwise.tile import TileSpec
from oxinp._kernels.fft import catalog as fft
from oxinp._kernels.gemm import catalog as gemm
from oxinp._kernels.gemm.epilogue import Epilogue
from oxinp._kernels.index import (
    buckets,
    distinct,
    gather,
    grouped_take,
    latest,
    ordered,
    regions,
    resident_scatter,
    scatter,
    sums,
    windows,
)
from oxinp._kernels.index import select as select_by_mask
from oxinp._kernels.index.bucket_sums import SumsSpec
from oxinp._kernels.index.buckets import BucketsSpec
from oxinp._kernels.index.claims import ClaimSpec
from oxinp._kernels.index.distinct import DistinctSpec
from oxinp._kernels.index.gather import TakeSpec
from oxinp._kernels.index.grouped_take import GroupedTakeSpec
from oxinp._kernels.index.latest import LatestSpec
from oxinp._kernels.index.loops import MAX_VECTOR_NBYTES, LoopsSpec
from oxinp._kernels.index.ordered import KeysSpec, OrderedSpec
from oxinp._kernels.index.regions import RegionKeysSpec
from oxinp._kernels.index.resident_scatter import ResidentScatterSpec
from oxinp._kernels.index.scatter import ATOMIC_TYPES, INVERTIBLE, TAKES_BACK, TRIES, CheckSpec, WriteSpec
from oxinp._kernels.index.select import MaskWordsSpec, SelectSpec
from oxinp._kernels.index.windows import WindowsSpec
from oxinp._kernels.problem import Instr, Operand, Output, ReduceOp, ScalarOperand
from oxinp._kernels.random import fill as random_fill
from oxinp._kernels.random import find as random_find
from oxinp._kernels.random import (
    interval,
    libm_log1p,
    quasi,
    reduced,
    shuffle,
    twister_draw,
    twister_fill,
    twister_formats,
    twister_jump,
    twister_leave,
    twister_polar,
)
from oxinp._kernels.random import philox as random_philox
from oxinp._kernels.random import place as random_place
from oxinp._kernels.random import tiles as random_tiles
from oxinp._kernels.random.fill import FORMATS, FillSpec
from oxinp._kernels.random.find import FindSpec
from oxinp._kernels.random.interval import IntervalSpec
from oxinp._kernels.random.lcg import GENERATORS
from oxinp._kernels.random.philox import VARIANTS, PhiloxSpec
from oxinp._kernels.random.place import PlaceSpec
from oxinp._kernels.random.quasi import HaltonSpec, SobolSpec
from oxinp._kernels.random.reduced import ReducedSpec
from oxinp._kernels.random.segments import CAPACITY, COUNTED_ITEMS, COUNTED_ITEMS_OF_FEW, ITEMS, ITEMS_OF_FEW
from oxinp._kernels.random.shuffle import ShuffleSpec
from oxinp._kernels.random.stored_plan import kind_of
from oxinp._kernels.random.tiles import TilesSpec
from oxinp._kernels.random.twister_draw import DrawSpec
from oxinp._kernels.random.twister_fill import TwisterFillSpec
from oxinp._kernels.random.twister_jump import JumpSpec
from oxinp._kernels.random.twister_leave import LeaveSpec
from oxinp._kernels.random.twister_polar import ENDS, POINTS, VALUES, PolarSpec
from oxinp._kernels.random.variates import VARIATES, Variate
from oxinp._kernels.random.words import BLOCK
from oxinp._kernels.reduce import columns, operators, rows
from oxinp._kernels.reduce import plan as reduce
from oxinp._kernels.reduce.columns import ColumnsSpec
from oxinp._kernels.reduce.rows import RowsSpec
from oxinp._kernels.rowwise import kernel as rowwise_kernel
from oxinp._kernels.rowwise import plan as rowwise
from oxinp._kernels.rowwise.kernel import RowwiseSpec
from oxinp._kernels.rowwise.program import RowReduction
from oxinp._kernels.scan import ahead as scan_ahead
from oxinp._kernels.scan import chained as scan_chained
from oxinp._kernels.scan import chained_columns
from oxinp._kernels.scan import columns as scan_columns
from oxinp._kernels.scan import plan as scan
from oxinp._kernels.scan import rows as scan_rows
from oxinp._kernels.scan.ahead import ScanAheadSpec
from oxinp._kernels.scan.chained import ScanChainedSpec
from oxinp._kernels.scan.chained_columns import ScanChainedColumnsSpec
from oxinp._kernels.scan.columns import ScanColumnsSpec
from oxinp._kernels.scan.rows import ScanRowsSpec
from oxinp._kernels.sort import (
    bins,
    bitonic,
    count,
    histogram,
    network,
    onesweep,
    partition,
    search,
    search_tree,
    select,
)
from oxinp._kernels.sort import block as sort_block
from oxinp._kernels.sort import plan as sort
from oxinp._kernels.sort.bins import BinsSpec
from oxinp._kernels.sort.bitonic import BitonicSpec
from oxinp._kernels.sort.block import BlockSpec
from oxinp._kernels.sort.count import CountSpec
from oxinp._kernels.sort.histogram import HistogramSpec, RouteSpec
from oxinp._kernels.sort.keys import carrier
from oxinp._kernels.sort.network import NetworkSpec
from oxinp._kernels.sort.onesweep import OnesweepSpec
from oxinp._kernels.sort.partition import PartitionSpec
from oxinp._kernels.sort.search import SearchSpec
from oxinp._kernels.sort.search_tree import SearchTablesSpec, SearchTreeSpec
from oxinp._kernels.sort.select import SelectRanksSpec
from oxinp._kernels.sparse import catalog as sparse
from oxinp._ptx.math import complex as complex_math
from oxinp._ptx.math import exponential
from oxinp._ptx.types import Type, c64, c128, f16, f32, f64, i8, i16, i32, i64, pred, u8, u16, u32, u64

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxinp._ptx import Builder, Kernel
    from oxinp._ptx.value import Value

TYPES = (pred, i32, i64, f32, f64)  # in every layout
OTHER_TYPES = (
    i8,
    i16,
    u8,
    u16,
    u32,
    u64,
    f16,
    c64,
    c128,
)  # in a few layouts: their code is like that of the types above
EVERY = 5  # other types have every fifth layout and reduction
MAX_INPUTS, MAX_OUTPUTS, MAX_INSTRS = 24, 8, 64
DEVICE = SimpleNamespace(num_sms=132, cc=(9, 0), max_shared_nbytes=232448, tuned=lambda _: None)
AMPERE = SimpleNamespace(num_sms=108, cc=(8, 0), max_shared_nbytes=166912, tuned=lambda _: None)


class _Layout(NamedTuple):
    """A shape, with strides and alignment of inputs and outputs."""

    shape: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    alignment: int = 256


N, HUGE = 1 << 20, 1 << 33
LAYOUTS = (
    _Layout((N,), (1,), (1,)),
    _Layout((N,), (1,), (1,), 8),
    _Layout((N,), (1,), (1,), 1),
    _Layout((N,), (3,), (1,)),
    _Layout((N,), (-1,), (1,)),
    _Layout((N,), (1,), (-2,)),
    _Layout((N,), (0,), (1,)),
    _Layout((HUGE,), (1,), (1,)),
    _Layout((HUGE,), (-2,), (1,)),
    _Layout((1024, 1024), (2048, 1), (1024, 1)),
    _Layout((1024, 1022), (2048, 1), (2048, 1)),
    _Layout((1024, 1023), (2048, 1), (1023, 1), 8),
    _Layout((1024, 1024), (1, 0), (1024, 1)),
    _Layout((1024, 1024), (1, 1024), (1024, 1)),
    _Layout((1024, 1024), (-2, 2048), (1024, 1)),
    _Layout((HUGE >> 10, 1024), (2048, 1), (1024, 1)),
    _Layout((HUGE >> 10, 1024), (1, HUGE >> 10), (1024, 1)),
    _Layout((N, 5), (8, 1), (5, 1)),
    _Layout((N, 3), (-8, 2), (3, 1)),
    _Layout((64, 100, 90), (1, 64, 6400), (9000, 90, 1)),
    _Layout((3, 4, 5, 6, 7), (13440, 2688, 480, 32, 2), (840, 210, 42, 7, 1)),
    _Layout((3,) * 8, (1, 4, 16, 64, 256, 1024, 4096, 16384), (2187, 729, 243, 81, 27, 9, 3, 1)),
    _Layout((1 << 12,) * 3, (1 << 26, 1 << 13, 2), (1 << 24, 1 << 12, 1)),
)


def _both(k: Builder, a: Value, b: Value) -> Value:
    del k
    return a ^ b if a.type is pred else a + b


def _at(k: Builder, index: Value, value: Value) -> Value:
    return _both(k, k.cast(index, value.type), value)


_at.wants_index = True  # type: ignore[attr-defined]


def _to(type_: Type) -> Any:
    return _CASTS[type_]


_CASTS = {type_: (lambda k, a, type_=type_: k.cast(a, type_)) for type_ in (*TYPES, *OTHER_TYPES)}


def _greatest(k: Builder, a: Value, b: Value) -> Value:
    return a | b if a.type is pred else k.max_nan(a, b)


def _operand(layout: _Layout, type_: Type, strides: tuple[int, ...]) -> Operand:
    return Operand(type_, strides, max(layout.alignment, type_.nbytes))


def _elementwise_problems() -> Iterator[tuple[Any, ...]]:
    for layout in LAYOUTS:
        for type_ in (*TYPES, *(OTHER_TYPES if layout in LAYOUTS[::EVERY] else ())):
            x, out = _operand(layout, type_, layout.inputs), _operand(layout, type_, layout.outputs)
            both = tuple(Instr(_both, type_, (0 if i == 0 else 2 + i, i + 1)) for i in range(2))
            yield layout.shape, (x,), (), (Output(0, out),)
            yield layout.shape, (x, out, ScalarOperand(type_)), both, (Output(4, out),)
        mixed = (
            Instr(_to(f64), f64, (0,)),
            Instr(_both, f64, (2, 1)),
            Instr(_at, f64, (3,)),
            Instr(_to(pred), pred, (4,)),
        )
        inputs = (_operand(layout, f32, layout.inputs), _operand(layout, f64, layout.outputs))
        outputs = (Output(5, _operand(layout, pred, layout.outputs)), Output(4, _operand(layout, f64, layout.outputs)))
        yield layout.shape, inputs, mixed, outputs
        for type_ in (f32, f64):  # as large as fused problems may be
            x, out = _operand(layout, type_, layout.inputs), _operand(layout, type_, layout.outputs)
            many = tuple(x if i % 2 else out for i in range(MAX_INPUTS))
            instrs = tuple(Instr(_both, type_, (max(0, MAX_INPUTS + i - 3), i % MAX_INPUTS)) for i in range(MAX_INSTRS))
            last = MAX_INPUTS + MAX_INSTRS - 1
            yield layout.shape, many, instrs, tuple(Output(last - 9 * i, out) for i in range(MAX_OUTPUTS))


def elementwise_specs() -> list[LinearSpec | TileSpec]:
    """Return the distinct Specs of the elementwise families."""
    specs = dict.fromkeys(elementwise.choose(*problem)[1] for problem in _elementwise_problems())
    of_many = [linear.fetching(spec, DEVICE) for spec in specs if isinstance(spec, LinearSpec)]
    return list(dict.fromkeys([*specs, *of_many]))


def part_specs() -> Iterator[PartSpec]:
    """Return Specs of parts: five-point stencils, and a broadcast row, in each width of indices."""
    for type_ in (*TYPES, *OTHER_TYPES):
        for ndim, bits in ((1, 32), (2, 32), (3, 32), (2, 64)):
            read = [*[OperandSpec(type_, UNIT, True)] * 4, OperandSpec(type_, STRIDED, True)]
            parts = OperandSpec(type_, UNIT, False), *read
            instrs = tuple([Instr(_both, type_, (1 if i == 0 else 5 + i, i + 2)) for i in range(4)])
            yield PartSpec(Chain(parts, instrs, ((9, OperandSpec(type_, UNIT, False)),), ndim, bits))


REDUCTIONS = (
    # shape, axes, strides of the input, alignment
    ((N,), (0,), (1,), 256),
    ((1 << 27,), (0,), (1,), 256),
    ((1 << 27,), (0,), (1,), 1),
    ((1 << 27,), (0,), (-3,), 256),
    ((HUGE,), (0,), (1,), 256),
    *(((N, n), (1,), (n, 1), 256) for n in (3, 4, 8, 20, 32, 64, 128, 256, 1000, 4096)),
    ((8, N), (1,), (N, 1), 256),
    ((8, 1 << 24), (1,), (1 << 24, 1), 256),
    ((4, N), (0,), (N, 1), 256),
    ((N, 4), (0,), (4, 1), 256),
    ((4, 999), (0,), (1000, 1), 1),
    ((8192, 16384), (0,), (16384, 1), 256),
    ((8192, 16383), (0,), (16384, 1), 1),
    ((1 << 17, 1 << 16), (0,), (1 << 16, 1), 256),
    ((64, 500, 70, 80), (1, 3), (500 * 5600, 5600, 80, 1), 256),
    ((64, 500, 70, 80), (0, 2), (500 * 5600, 5600, 80, 1), 256),
    ((3,) * 8, (0, 2, 4, 6), (4374, 1458, 486, 162, 54, 18, 6, 2), 256),
    ((64,) * 4, (0, 1), (64**3, 64**2, 64, 1), 256),
)


def _accumulator(type_: Type) -> Type:
    """The type in which sums of a type are accumulated."""
    if type_.is_integer:
        return i64 if type_.kind == "i" else u64
    return {pred: i64, f16: f32}.get(type_, type_)


def _variance(k: Builder, count: Value, squares: Value, ddof: Value) -> Value:
    del k
    return squares / (count - ddof)


def _reduce_problems() -> Iterator[tuple[Any, ...]]:
    for reduction in REDUCTIONS:
        shape, axes, strides, alignment = reduction
        kept_shape = tuple(n for d, n in enumerate(shape) if d not in axes)
        kept = access.contiguous_strides(kept_shape)
        for type_ in (*TYPES, *(OTHER_TYPES if reduction in REDUCTIONS[::EVERY] else ())):
            total = _accumulator(type_)
            result = type_ if type_.is_float else total
            x = Operand(type_, strides, max(alignment, type_.nbytes))
            lowest = -float("inf") if type_.is_float or type_.is_complex else 0
            is_narrow = type_.bits < 32 and not type_.is_float
            sum_ = operators.narrow_sum(total) if is_narrow else ReduceOp("sum", total, 0, _both)
            if total.is_float or total.is_complex:
                sum_ = operators.compensated_sum(total)
            yield shape, axes, (x,), (), 0, sum_, Operand(result, kept), DEVICE
            greatest = ReduceOp("max", type_, lowest if type_ is not pred else False, _greatest)
            if type_ in (i8, u8):
                greatest = operators.extremum_of_bytes(type_, lowest, is_max=True)
            yield shape, axes, (x,), (), 0, greatest, Operand(type_, kept), DEVICE
            if not type_.is_complex:
                where = operators.extremum_at(type_, lowest, is_max=True)
                yield shape, axes, (x,), (), 0, where, Operand(i64, kept), DEVICE
        for type_ in (f32, f64, *((c64, c128) if reduction in REDUCTIONS[::EVERY] else ())):
            x = Operand(type_, strides, max(alignment, type_.nbytes))
            real = type_.parts[0]
            variance = operators.moments(_variance, len(type_.parts))
            yield shape, axes, (x, ScalarOperand(f64)), (), 0, variance, Operand(real, kept), DEVICE
            mean = operators.mean(type_, is_masked=False)
            yield shape, axes, (x, ScalarOperand(f64)), (), 0, mean, Operand(type_, kept), DEVICE
        x = Operand(f64, strides, max(alignment, 8))
        inputs = (*([x] * (MAX_INPUTS - 1)), ScalarOperand(f64))
        instrs = tuple(Instr(_both, f64, (max(0, MAX_INPUTS + i - 3), i % MAX_INPUTS)) for i in range(MAX_INSTRS))
        op = operators.compensated_sum(f64)
        yield shape, axes, inputs, instrs, MAX_INPUTS + MAX_INSTRS - 1, op, Operand(f64, kept), DEVICE


def reduce_specs() -> list[RowsSpec | ColumnsSpec]:
    """Return the distinct Specs of the reduction families."""
    passes = (
        each
        for problem in _reduce_problems()
        for has_flags in (False, True)
        for each in reduce.choose(*problem, has_flags=has_flags)
    )
    return list(dict.fromkeys(each.spec for each in passes))


ROWS = (
    # shape
    *(((1 << 26) // n, n) for n in (2, 7, 32, 100, 256, 1000, 1024, 2048, 4096, 8192, 16384, 65536)),
    (1 << 12, 1023),
    (100, 16384),
    (1, 4097),
    (256, 65536),
    (64, 65536),
    (1 << 24, 1 << 9),
)


def _less(k: Builder, a: Value, b: Value) -> Value:
    del k
    return a - b


def _over(k: Builder, a: Value, b: Value) -> Value:
    del k
    return a / b


def _scaled(k: Builder, a: Value, b: Value, c: Value) -> Value:
    del k
    return a * b + c


def _row_problems() -> Iterator[tuple[Any, ...]]:
    for shape in ROWS:
        length = shape[1]
        for type_ in (f32, f64, *((f16, c64) if shape in ROWS[::EVERY] else ())):
            x, kept = Operand(type_, (length, 1), 256), Operand(type_, (1,))
            acc = f32 if type_ is f16 else type_
            given = (shape, (1,), (x,), (), 0)
            sum_, greatest = operators.compensated_sum(acc), ReduceOp("max", type_, -float("inf"), _greatest)
            walk = rowwise.walk_of(reduce.choose(*given, sum_, kept, DEVICE))
            if walk is None:
                continue
            *_, batch, is_short, join = walk
            how = batch, is_short, join
            targets = [Output(5, x), Output(3, x), Output(4, Operand(type_, (1, 0)))]
            softmax = [
                RowReduction(0, greatest, type_, *how),
                Instr(_less, type_, (0, 1)),
                Instr(complex_math.exp if type_ is c64 else exponential.exp, type_, (2,)),
                RowReduction(3, sum_, type_, *how),
                Instr(_over, type_, (3, 4)),
            ]
            if type_ is not f16:
                yield shape, 1, (x,), softmax, targets[:1], walk, DEVICE
                yield shape, 1, (x,), softmax, targets, walk, DEVICE
            mean, variance = operators.mean(acc, is_masked=False), operators.moments(_variance, len(type_.parts))
            normalised = [
                RowReduction(0, mean, type_, *how, parameters=(3,)),
                RowReduction(0, variance, type_.parts[0], *how, parameters=(4,)),
                Instr(_less, type_, (0, 5)),
                Instr(_to(type_), type_, (6,)),
                Instr(_over, type_, (7, 8)),
                Instr(_scaled, type_, (9, 1, 2)),
            ]
            along = Operand(type_, (0, 1), 256)
            inputs = (x, along, along, *(ScalarOperand(f64),) * 2)
            yield shape, 1, inputs, normalised, [Output(10, x)], walk, DEVICE


def rowwise_specs() -> list[RowwiseSpec]:
    """Return the distinct Specs of row-wise chains."""
    found = [rowwise.choose(*problem) for problem in _row_problems()]
    return list(dict.fromkeys(each[0] for each in found if each is not None))


SCANS = (
    # shape, axis, strides of the input, alignment
    ((N,), 0, (1,), 256),
    ((1 << 27,), 0, (1,), 256),
    ((1 << 27,), 0, (-3,), 256),
    ((HUGE,), 0, (1,), 256),
    ((N, 4), 0, (4, 1), 256),
    ((N, 3), 1, (3, 1), 256),
    ((N, 20), 1, (20, 1), 256),
    ((N, 100), 1, (100, 1), 256),
    ((N, 512), 1, (512, 1), 256),
    ((1 << 14, N), 1, (N, 1), 256),
    ((8192, 16384), 0, (16384, 1), 256),
    ((8192, 16383), 0, (16384, 1), 1),
    ((N, 4, 8192), 1, (1 << 15, 8192, 1), 256),
    ((1 << 17, 1 << 16), 0, (1 << 16, 1), 256),
    ((300, 70, 80), 1, (1, 24000, 300), 256),
)


def _scan_problems() -> Iterator[tuple[Any, ...]]:
    for shape, axis, strides, alignment in SCANS:
        for type_ in (*TYPES, *OTHER_TYPES):
            total = _accumulator(type_)
            result = type_ if type_.is_float else total
            x = Operand(type_, strides, max(alignment, type_.nbytes))
            sum_ = ReduceOp("sum", total, 0, _both)
            if total.is_float or total.is_complex:
                sum_ = operators.scannable(operators.compensated_sum(total))
            yield shape, axis, (x,), (), 0, sum_, Operand(result, access.contiguous_strides(shape)), DEVICE
        x = Operand(c128, strides, 16)
        product = operators.scannable(ReduceOp("prod", c128, 1, _product))
        yield shape, axis, (x,), (), 0, product, Operand(c128, access.contiguous_strides(shape)), DEVICE


def _product(k: Builder, a: Value, b: Value) -> Value:
    del k
    return a * b


def scan_specs() -> list[ScanRowsSpec | ScanChainedSpec | ScanColumnsSpec | ScanChainedColumnsSpec]:
    """Return the distinct Specs of the scanning families."""
    return list(dict.fromkeys(scan.choose(*problem).spec for problem in _scan_problems()))


def _loops(nbytes: int) -> list[LoopsSpec]:
    """Return loops around an index: none, rows, and a bit of everything."""
    widest = MAX_VECTOR_NBYTES // nbytes
    shapes = ((0, 0, 1), (0, 1, widest), (1, 0, 1), (2, 2, 1))
    return [LoopsSpec(outer, inner, vector, bits) for outer, inner, vector in shapes for bits in (32, 64)]


def gather_specs() -> list[TakeSpec | GroupedTakeSpec | SelectSpec | MaskWordsSpec | DistinctSpec]:
    """Return Specs of elements by index, of every width and distance."""
    takes = [
        TakeSpec(type_, index_type, loops, is_checked)
        for type_ in map(carrier, (u8, i16, f32, f64, c128))
        for loops in _loops(type_.nbytes)
        for index_type, is_checked in ((i64, True), (i64, False), (i32, True), (u8, True))
    ]
    selects = [SelectSpec(type_) for type_ in (None, *TYPES, *OTHER_TYPES)]
    masks = [
        MaskWordsSpec(Chain((OperandSpec(pred, kind),), (), (), 1, bits), 0)
        for kind in (UNIT, STRIDED)
        for bits in (32, 64)
    ]
    integers = (i8, i16, i32, i64, u8, u16, u32)
    bits = [DistinctSpec(None), *(DistinctSpec(type_, words) for type_ in integers for words in (1 << 10, 1 << 15))]
    along = [
        TakeSpec(carrier(type_), index_type, LoopsSpec(outer, inner, 1, bits), is_checked=True, is_along=True)
        for type_ in (u8, f32, f64, c128)
        for index_type in (i64, i32, u8)
        for outer, inner in ((0, 0), (1, 0), (0, 1), (2, 2))
        for bits in (32, 64)
    ]
    finished = [
        TakeSpec(type_, i64, LoopsSpec(0, num_inner, vector, 32), is_checked, is_along, _finish(type_).spec)
        for type_ in (pred, f16, f32, f64, c128)
        for num_inner, vector, is_along in (
            (0, 1, False),
            (1, min(8, MAX_VECTOR_NBYTES // type_.nbytes), False),
            (1, 1, True),
        )
        for is_checked in (True, is_along)
    ]
    grouped = [
        GroupedTakeSpec(part, carrier(type_), index_type, room, grouped_take.ITEMS)
        for part in (grouped_take.GROUP, grouped_take.READ, grouped_take.RETURN)
        for type_ in (f32, f64)
        for index_type in (i64, i32, u8)
        for room in (buckets.FEW, buckets.MANY)
    ]
    return list(dict.fromkeys([*takes, *grouped, *along, *selects, *masks, *bits, *finished]))


def _finish(type_: Type) -> gather.Finish:
    """Return what is made of elements by index with as many others, and a number."""
    others = (Operand(type_, (1,)), ScalarOperand(type_))
    return gather.Finish(Epilogue(others, (Instr(_both, type_, (0, 1)), Instr(_both, type_, (3, 2))), 4), type_)


CLAIMS = (ClaimSpec(u32, is_hashed=False), ClaimSpec(u64, is_hashed=False), ClaimSpec(u64, is_hashed=True))


def scatter_specs() -> list[CheckSpec | WriteSpec]:
    """Return Specs of writes by index."""
    checks = [
        CheckSpec(index_type, claim, reports, bits)
        for index_type in (i64, i32)
        for claim in (None, *CLAIMS)
        for reports in (False, True)
        if reports or claim is not None
        for bits in (32, 64)
    ]
    writes = [
        WriteSpec(type_, i64, loops, is_scalar, claim, is_checked, "")
        for type_ in map(carrier, (u8, i16, f32, f64, c128))
        for loops in _loops(type_.nbytes)
        for is_scalar, claim, is_checked in (
            *((False, claim, True) for claim in CLAIMS),
            (True, None, True),
            (False, None, False),
        )
        if not (is_scalar and type_.nbytes > u64.nbytes)
    ]
    skipping: list[CheckSpec | WriteSpec] = [
        *[CheckSpec(i64, claim, True, 64, skips=True) for claim in (None, *CLAIMS)],
        *[
            WriteSpec(carrier(type_), i64, LoopsSpec(0, 0, 1, 64), claim is None, claim, True, "", skips=True)
            for type_ in (u8, f64)
            for claim in (None, *CLAIMS)
        ],
    ]
    updates = [
        WriteSpec(type_, i64, LoopsSpec(0, 0, 1, 32), is_scalar, None, True, operator, part)
        for operator, types in ATOMIC_TYPES.items()
        for type_ in types
        for is_scalar in (False, True)
        for part in ((TRIES, TAKES_BACK) if operator in INVERTIBLE else ("",))
    ]
    return [*checks, *writes, *skipping, *updates]


def resident_scatter_specs() -> list[ResidentScatterSpec]:
    """Return Specs of writes by index in one launch."""
    return [
        ResidentScatterSpec(type_, index_type, claim, is_checked, items)
        for type_ in map(carrier, (u8, f32, f64, c128))
        for index_type in (i64, i32)
        for items in (1, min(resident_scatter.MAX_ITEMS, resident_scatter.MAX_ITEMS_NBYTES // type_.nbytes))
        for claim in CLAIMS
        for is_checked in (False, True)
    ]


def ordered_specs() -> list[KeysSpec | OrderedSpec | OnesweepSpec]:
    """Return Specs of updates in order, and of the sorts of their pairs."""
    keys = [KeysSpec(index_type, key) for index_type in (i64, i32) for key in (u32, u64)]
    segments = [
        OrderedSpec(type_, key, _both, place, is_scalar, joins)
        for type_ in (*TYPES, *OTHER_TYPES)
        if type_ is not pred
        for key in (u32, u64)
        for place, is_scalar in ((None, False), (u32, False), (u32, True))
        for joins in (False, True)
        if not (is_scalar and type_.is_complex)
    ]
    pairs = [
        sort.pairs_spec(length, key, value)
        for length in (1 << 26, HUGE)
        for key in (u32, u64)
        for value in (u32, u64, None)
    ]
    return list(dict.fromkeys([*keys, *segments, *pairs]))


def region_specs() -> list[RegionKeysSpec | LatestSpec | WindowsSpec | OnesweepSpec]:
    """Return Specs of writes and updates that are sorted by region."""
    keys = [RegionKeysSpec(index_type, digits) for index_type in (i64, i32, u64) for digits in (1, 2, 3)]
    writes = [
        LatestSpec(carrier(type_), shift, has_places, is_scalar)
        for type_ in (u8, f32, f64, c128)
        for shift in (8, 11)
        for has_places, is_scalar in ((False, False), (True, False), (False, True))
        if not (is_scalar and type_.nbytes > u64.nbytes)
    ]
    updates = [
        WindowsSpec(type_, _both, 8, has_places, is_scalar, joins)
        for type_ in (*TYPES, *OTHER_TYPES)
        if type_ is not pred
        for has_places, is_scalar in ((False, False), (True, False), (False, True))
        for joins in (False, True)
        if not (is_scalar and type_.is_complex)
    ]
    sweeps = [
        sort.counted_spec(1 << 26, value, digits, is_iota=is_iota, key=key)
        for key, value, is_iota in (
            *((u32, None, is_iota) for is_iota in (False, True)),
            *((key, value, False) for key in (u32, u64) for value in (u32, u64)),
        )
        for digits in (1, 2, 3)
    ]
    return list(dict.fromkeys([*keys, *writes, *updates, *sweeps]))


def sum_specs() -> list[BucketsSpec | SumsSpec]:
    """Return Specs of sums at indices, whatever the order."""
    groups = [
        buckets.spec_of(room, index_type, value, has_extremes=has_extremes)
        for index_type in (i64, i32)
        for value in (None, u32, u64)
        for room in (buckets.FEW, buckets.MANY)
        for has_extremes in ((False,) if value is None else (False, True))
    ]
    added = [
        SumsSpec(type_, room, is_scalar, part, buckets.TILE)
        for type_ in sums.TYPES
        for room in (1 << 8, 1 << 12)
        for is_scalar in (False, True)
        for part in ((sums.WHOLE, sums.CUT) if type_.is_float else (sums.WHOLE,))
    ]
    return [*groups, *added]


def select_specs() -> list[SelectRanksSpec | PartitionSpec]:
    """Return Specs of order statistics and of partitions."""
    types = [type_ for type_ in (*TYPES, *OTHER_TYPES) if not type_.is_complex]
    partitions = [PartitionSpec(type_, gives_places) for type_ in types for gives_places in (False, True)]
    parts = (select.BEGIN, select.COUNT, select.PICK, select.ZEROS, select.FINISH)
    selects = [
        SelectRanksSpec(part, type_, num_ranks)
        for part in parts
        for type_ in types
        for num_ranks in (1, 3, select.MAX_RANKS)
        if part != select.ZEROS or type_.is_float
    ]
    return [*selects, *partitions]


SORTED = (2, 4, 8, 30, 50, 100, 256, 300, 500, 700, 1000, 1500, 2000, 3000, 4096, 6000, 8192, 1 << 26, 1 << 30, HUGE)
DESCENDING = (30, 300, 1 << 26)


def sort_specs() -> list[Any]:
    """Return the distinct Specs of sorts, of every type and length."""
    types = (*TYPES, *OTHER_TYPES)
    found = (
        spec
        for type_ in types
        for result in (None, i64)
        for length, is_descending in (*((each, False) for each in SORTED), *((each, True) for each in DESCENDING))
        for spec in sort.specs(length, type_, result, DEVICE, is_descending=is_descending)
    )
    searches = [SearchSpec(type_, is_right) for type_ in types for is_right in (False, True)]
    trees = [
        spec
        for type_ in types
        for size in (100, 1000, 1 << 16, 1 << 20, 1 << 24)
        for is_right in (False, True)
        if (spec := search_tree.spec_of(size, 1 << 24, type_, DEVICE, is_right=is_right)) is not None
    ]
    tables = [SearchTablesSpec(spec.type, spec.num_tables) for spec in trees if spec.num_tables]
    counts = (
        count.spec_of(num_bins, type_, edge, DEVICE, is_uniform=is_uniform)
        for num_bins in (10, 1000, 10_000, 1 << 20)
        for type_ in types
        for edge, is_uniform in ((None, False), (f32, False), (f32, True), (f64, False), (f64, True))
        if (type_.is_float and edge is not None) or (type_.is_integer and edge is not f32)
    )
    numbers = (
        BinsSpec(type_, edge)
        for type_ in types
        for edge in (f32, f64)
        if type_.is_float or (type_.is_integer and edge is f64)
    )
    return list(dict.fromkeys([*found, *searches, *trees, *tables, *counts, *numbers]))


def _forms_of_log1p(variate: Variate, *, is_usual: bool) -> tuple[str, ...]:
    """Return the forms that a variate's tail may have, of which unusual kernels are there in the first alone."""
    if variate.tail is None:
        return ("",)
    return libm_log1p.FORMS[variate.type] if is_usual else libm_log1p.FORMS[variate.type][:1]


def random_specs() -> list[Any]:
    """Return Specs of random numbers, of every generator, format and variate."""
    shifts = (False, True)
    fills = [
        FillSpec(generator, name, is_shifted and made.halves == 1, vector)
        for generator in GENERATORS
        for name, made in FORMATS.items()
        for is_shifted in shifts
        for vector in (1, 4 // made.halves)
    ]
    tiles = [
        TilesSpec(generator, is_shifted, BLOCK * items, BLOCK)
        for generator in GENERATORS
        for is_shifted in shifts
        for items in (ITEMS, ITEMS_OF_FEW)
    ]
    finds = [
        FindSpec(generator, name, is_shifted and variate.pieces > 1, items, CAPACITY if variate.slow else 0, form)
        for generator in GENERATORS
        for name, variate in VARIATES.items()
        for is_shifted in shifts
        for items in (ITEMS, ITEMS_OF_FEW)
        for form in _forms_of_log1p(variate, is_usual=items == ITEMS and not is_shifted)
    ]
    finds += [
        FindSpec(kind_of(name), name, False, items, CAPACITY if variate.slow else 0, form)
        for name, variate in VARIATES.items()
        for items in (ITEMS, ITEMS_OF_FEW)
        for form in _forms_of_log1p(variate, is_usual=False)
    ]
    places = dict.fromkeys(PlaceSpec(*(getattr(find, name) for name in PlaceSpec._fields)) for find in finds)
    made = [
        FindSpec(generator, name, False, items, CAPACITY, form)
        for generator in VARIANTS
        for name, variate in VARIATES.items()
        for items in (COUNTED_ITEMS, COUNTED_ITEMS_OF_FEW)
        if variate.slow is not None
        for form in _forms_of_log1p(variate, is_usual=False)
    ]
    finds += made
    for find in made:
        places[PlaceSpec("stored", find.variate, False, find.items, find.most_own, leads=True)] = None
    counted = [
        PhiloxSpec(generator, name, is_shifted and made.halves == 1, vector)
        for generator in VARIANTS
        for name, made in FORMATS.items()
        for is_shifted in shifts
        for vector in (1, 4 // made.halves)
    ]
    jumps = [JumpSpec(is_sequence) for is_sequence in (False, True)]
    twisters = [
        DrawSpec(name, counts, is_given)
        for name, made in twister_formats.FORMATS.items()
        for counts, is_given in ((False, False), (True, False), (False, True))
        if made.rejects and (made.gives > 1 or not is_given)
    ]
    twister_fills = [TwisterFillSpec(name) for name, made in twister_formats.FORMATS.items() if not made.rejects]
    polars = [
        PolarSpec(POINTS),
        *[PolarSpec(part, is_given) for part in (ENDS, VALUES) for is_given in (False, True)],
    ]
    sums = [
        ReducedSpec(
            generator, f"uniform_{t.name}", (None,) * count, instrs, value, None, operators.compensated_sum(t), t
        )
        for generator in GENERATORS
        for t in (f32, f64)
        for count, value in ((1, 0), (2, 2), (3, 4))
        for instrs in [tuple(Instr(_both, t, (0 if i == 0 else 2 + i, i + 1)) for i in range(count - 1))]
    ]
    intervals = [IntervalSpec(role) for role in ("find", "walk", "draw", "tail")]
    shuffles = [
        ShuffleSpec("split", num_ranges=16),
        *[
            ShuffleSpec("links", leaves_key, has_slots=has_slots)
            for leaves_key in (False, True)
            for has_slots in (False, True)
        ],
        ShuffleSpec("marks"),
        *[ShuffleSpec("follow", has_slots=has_slots) for has_slots in (False, True)],
    ]
    points = [kind(flag) for kind in (SobolSpec, HaltonSpec) for flag in (False, True)]
    return list(
        dict.fromkeys(
            [
                *fills,
                *tiles,
                *finds,
                *places,
                *counted,
                *jumps,
                *twisters,
                *twister_fills,
                *[LeaveSpec(pieces) for pieces in (1, 2, 4, 8)],
                *polars,
                *points,
                *intervals,
                *shuffles,
                *sums,
            ]
        )
    )


def trsm_specs() -> list[Any]:
    """Return all Specs of triangular systems."""
    return [
        *(TrsmDmmaSpec(*each) for each in itertools.product((False, True), (8, 16))),
        *(
            TrsmSpec(type_, *flags)
            for type_ in (f32, f64, c64, c128)
            for flags in itertools.product((False, True), repeat=3)
        ),
    ]


FAMILIES: dict[type, Any] = {
    AddressedSpec: addressed,
    PartSpec: part,
    JoinedSpec: joined,
    LinearSpec: linear,
    TileSpec: tile,
    RowsSpec: rows,
    ColumnsSpec: columns,
    RowwiseSpec: rowwise_kernel,
    ScanRowsSpec: scan_rows,
    ScanChainedSpec: scan_chained,
    ScanAheadSpec: scan_ahead,
    ScanColumnsSpec: scan_columns,
    ScanChainedColumnsSpec: chained_columns,
    TakeSpec: gather,
    GroupedTakeSpec: grouped_take,
    SelectSpec: select_by_mask,
    DistinctSpec: distinct,
    MaskWordsSpec: select_by_mask,
    CheckSpec: scatter,
    WriteSpec: scatter,
    ResidentScatterSpec: resident_scatter,
    KeysSpec: ordered,
    OrderedSpec: ordered,
    RegionKeysSpec: regions,
    LatestSpec: latest,
    WindowsSpec: windows,
    BucketsSpec: buckets,
    SumsSpec: sums,
    NetworkSpec: network,
    BitonicSpec: bitonic,
    BlockSpec: sort_block,
    HistogramSpec: histogram,
    RouteSpec: histogram,
    OnesweepSpec: onesweep,
    SearchSpec: search,
    SearchTreeSpec: search_tree,
    SearchTablesSpec: search_tree,
    SelectRanksSpec: select,
    PartitionSpec: partition,
    ConvolveSpec: direct,
    BinsSpec: bins,
    CountSpec: count,
    FillSpec: random_fill,
    TilesSpec: random_tiles,
    FindSpec: random_find,
    PlaceSpec: random_place,
    PhiloxSpec: random_philox,
    DrawSpec: twister_draw,
    PolarSpec: twister_polar,
    TwisterFillSpec: twister_fill,
    SobolSpec: quasi,
    HaltonSpec: quasi,
    JumpSpec: twister_jump,
    LeaveSpec: twister_leave,
    IntervalSpec: interval,
    ShuffleSpec: shuffle,
    ReducedSpec: reduced,
    TrsmSpec: trsm,
    TrsmDmmaSpec: trsm_dmma,
    **gemm.FAMILIES,
    **sparse.FAMILIES,
    **fft.FAMILIES,
}


def specs() -> list[Any]:
    """Return all shipped Specs."""
    return [
        *elementwise_specs(),
        *[AddressedSpec(*each) for each in ((1, 1), (2, 1), (4, 1), (8, 1), (4, 2), (8, 2))],
        *[JoinedSpec(count, unit) for count in (2, 3, joined.MAX_SOURCES) for unit in (1, 2, 4, 8, 16)],
        *part_specs(),
        *reduce_specs(),
        *rowwise_specs(),
        *scan_specs(),
        *gather_specs(),
        *scatter_specs(),
        *resident_scatter_specs(),
        *ordered_specs(),
        *region_specs(),
        *sum_specs(),
        *select_specs(),
        *[ConvolveSpec(type_) for type_ in (*TYPES, *OTHER_TYPES) if type_ is not pred],
        *sort_specs(),
        *random_specs(),
        *trsm_specs(),
        *fft.specs(DEVICE),
        *gemm.specs(DEVICE, AMPERE),
        *sparse.specs(),
    ]


def make(spec: Any) -> Kernel:
    """The kernel of a shipped Spec."""
    kernel: Kernel = FAMILIES[type(spec)].make(spec)
    return kernel
