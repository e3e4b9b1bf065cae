"""Sorts of rows: which kernels serve which length, and the passes of a radix sort.

Rows are C-contiguous. Elements keep their bits, and equal ones their order, so the result is that of NumPy's stable
sort. Rows that fit registers or shared memory are sorted by one kernel, floats of 4 bytes by two: the second one sorts
the rows that the network of the first, which is not stable, leaves out. Longer rows take a pass per 8 bits of the keys.

Beside its result a sort of long rows needs memory of the size of its keys, once, an argsort twice and 4 bytes per
element more; both 1 KB per tile of some thousand keys, twice. Rows that two kernels sort take 4 bytes, others none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.plan import Argument, Fill, Launch, Plan, Scratch, Step, Work
from oxinp._kernels.sort import bitonic, block, histogram, network, onesweep
from oxinp._kernels.sort.bitonic import BitonicSpec
from oxinp._kernels.sort.block import BlockSpec
from oxinp._kernels.sort.histogram import HistogramSpec, RouteSpec, counter
from oxinp._kernels.sort.keys import NUM_BINS, num_digits
from oxinp._kernels.sort.network import NetworkSpec
from oxinp._kernels.sort.onesweep import OnesweepSpec
from oxinp._kernels.sort.rank import BALLOT, MATCH
from oxinp._ptx.types import Type, i64, u32, u64
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device

MAX_LENGTH_32 = 1 << 30  # keys of a row up to which published words of 32 bits hold any count
MAX_BLOCK_LENGTH = 8192
MAX_BLOCK_NBYTES = 65536  # of elements of a row that a block sorts,
MAX_WIDE_BLOCK_NBYTES = 32768  # of elements of more than 8 bytes, of which registers hold fewer
BLOCK_ITEMS = (2, 3, 4, 6, 8, 12, 16)
HISTOGRAM_BLOCKS_PER_SM = 6


Count = Callable[[Argument], Launch]
"""Where counts of digits go, zeros before -> what counts them."""


class Tile(NamedTuple):
    """How a pass is cut: threads, keys of each, blocks per multiprocessor, how lanes find each other.

    Eight votes take the same time whatever the digits; the one instruction takes longer the more differ: of 2^27 f32
    a pass takes 0.6 ms in place of 1.05 (H200).
    """

    block: int
    items: int
    min_blocks: int
    matching: str = BALLOT


TILES = {
    # bytes of key, of value
    (1, 0): Tile(256, 20, 4),
    (2, 0): Tile(256, 20, 4),
    (4, 0): Tile(256, 22, 4),
    (8, 0): Tile(256, 14, 4),
    (16, 0): Tile(256, 8, 3),
    (1, 4): Tile(256, 16, 3),
    (2, 4): Tile(256, 16, 3),
    (4, 4): Tile(256, 16, 3),
    (8, 4): Tile(256, 12, 3),
    (16, 4): Tile(256, 6, 3),
    (1, 8): Tile(256, 12, 3),
    (2, 8): Tile(256, 12, 3),
    (4, 8): Tile(256, 12, 3),
    (8, 8): Tile(256, 9, 3),
    (16, 8): Tile(256, 5, 3),
}


def sort(
    num_rows: int, length: int, type_: Type, device: Device, tile: Tile | None = None, *, is_descending: bool = False
) -> Plan:
    """Return the plan that sorts the elements of every row; the input is the array.

    Parameters
    ----------
    num_rows, length : int
        At least 1 each.
    type_ : Type
        Of elements.
    device : Device
    tile : Tile, optional
        Of a radix sort, where somebody wants another one, or rows are short.
    is_descending : bool
        The greatest elements come first, equal ones in their order, NaNs last.
    """
    return _plan(num_rows, length, type_, None, device, tile, is_descending)


def argsort(
    num_rows: int, length: int, type_: Type, device: Device, tile: Tile | None = None, *, is_descending: bool = False
) -> Plan:
    """Return the plan that finds where the elements of sorted rows are, i64; see `sort`."""
    return _plan(num_rows, length, type_, i64, device, tile, is_descending)


def sort_pairs(length: int, type_: Type, value: Type | None, device: Device) -> Plan:
    """Return the plan that sorts keys and what goes with them; see `sort`.

    The inputs are keys and values, the outputs likewise.

    Parameters
    ----------
    length : int
    type_ : Type
        Of keys.
    value : Type or None
        Of 4 or 8 bytes; None for the places of keys, without an input: u32 or, of more than those number, u64.
    device : Device
    """
    return _radix(1, length, pairs_spec(length, type_, value), device)


def sort_counted(
    length: int, value: Type | None, digits: int, device: Device, count: Count, *, is_iota: bool, key: Type = u32
) -> Plan:
    """Return the plan that sorts keys by their lowest digits, and what goes with them.

    Parameters
    ----------
    length : int
        Less than `MAX_LENGTH_32`.
    value : Type or None
        Of input 1, of 4 or 8 bytes; None where nothing goes with the keys, but where `is_iota`.
    digits : int
    device : Device
    count : callable
        Counts per digit -> the launch that makes the keys, input 0, and adds up how often each digit has each value.
    is_iota : bool
        The places of keys go with them, u32.
    key : Type
        Of keys, unsigned.
    """
    spec = counted_spec(length, value, digits, is_iota=is_iota, key=key)
    return _radix(1, length, spec, device, count)


def counted_spec(length: int, value: Type | None, digits: int, *, is_iota: bool, key: Type = u32) -> OnesweepSpec:
    """Return the Spec of the passes of `sort_counted`."""
    if value is None and not is_iota:
        return _radix_spec(length, key, None, None, is_descending=False).replace(digits=digits)
    return pairs_spec(length, key, None if is_iota else value).replace(digits=digits)


def pairs_spec(length: int, type_: Type, value: Type | None) -> OnesweepSpec:
    """Return the Spec of the passes of `sort_pairs`."""
    kept = value or (u32 if length <= 1 << u32.bits else u64)
    tile = TILES[type_.nbytes, kept.nbytes]
    bits = 32 if length < MAX_LENGTH_32 else 64
    min_blocks = tile.min_blocks - (bits > 32)  # wide places take registers
    return OnesweepSpec(type_, kept, kept, value is None, True, bits, tile.block, tile.items, tile.matching, min_blocks)


def specs(length: int, type_: Type, result: Type | None, device: Device, *, is_descending: bool = False) -> list[Any]:
    """Return the Specs of the kernels that sort rows of a length, in the order of their launches."""
    if in_block := _specs_in_block(length, type_, result, device, is_descending):
        return in_block
    spec = _radix_spec(length, type_, result, None, is_descending)
    return [HistogramSpec(type_, spec.bits, is_descending), RouteSpec(num_digits(type_), spec.bits), spec]


def _plan(
    num_rows: int,
    length: int,
    type_: Type,
    result: Type | None,
    device: Device,
    tile: Tile | None,
    is_descending: bool,
) -> Plan:
    in_block = _specs_in_block(length, type_, result, device, is_descending) if tile is None else []
    if not in_block:
        return _radix(num_rows, length, _radix_spec(length, type_, result, tile, is_descending), device)
    out, elements = Argument("out0"), Argument("in0")
    work = Work(nbytes=num_rows * length * (type_.nbytes + (type_ if result is None else result).nbytes))
    if isinstance(in_block[0], NetworkSpec):
        num_blocks = -(-num_rows * in_block[0].lanes // network.BLOCK)
        kernel = network.make(in_block[0])
        return Plan((Launch(kernel, (num_blocks, 1, 1), (out, elements), (num_rows, length), work),))
    scratch = Scratch()
    marks = (scratch.take(num_rows * u32.nbytes),) if len(in_block) > 1 else ()
    families = {BitonicSpec: bitonic, BlockSpec: block}
    return scratch.plan(
        [
            Launch(families[type(spec)].make(spec), (num_rows, 1, 1), (out, *marks, elements), (length,), work)
            for spec in in_block
        ]
    )


def _specs_in_block(length: int, type_: Type, result: Type | None, device: Device, is_descending: bool) -> list[Any]:
    """The kernels for rows that a warp or a block sorts alone, the second for what the first leaves out; maybe none."""
    if length <= network.MAX_LENGTH:
        size = max(2, 1 << (length - 1).bit_length())
        items = min(network.MAX_ITEMS, max(2, size // WARP, min(4, size // 4)))
        return [NetworkSpec(type_, result, size // items, items, is_descending)]
    most = MAX_BLOCK_NBYTES if type_.nbytes <= u64.nbytes else MAX_WIDE_BLOCK_NBYTES
    if length > MAX_BLOCK_LENGTH or length * type_.nbytes > most:
        return []
    unstable = bitonic.spec_of(length, type_) if result is None and not is_descending else None
    if unstable is not None and not unstable.marks:
        return [unstable]
    threads = 128 if length <= 1024 else 256 if length <= 4096 else 512
    items = next(each for each in BLOCK_ITEMS if each * threads >= length)
    spec = BlockSpec(type_, result, threads, items, MATCH, is_descending, unstable is not None)
    if block.make(spec).shared_nbytes > device.max_shared_nbytes:
        return []
    return [spec] if unstable is None else [unstable, spec]


def _radix_spec(length: int, type_: Type, result: Type | None, tile: Tile | None, is_descending: bool) -> OnesweepSpec:
    bits = 32 if length < MAX_LENGTH_32 else 64
    value = None if result is None else u32 if length <= 1 << u32.bits else u64
    if tile is None:
        tile = TILES[type_.nbytes, 0 if value is None else value.nbytes]
    return OnesweepSpec(
        type=type_,
        value=value,
        result=result,
        is_iota=value is not None,
        keeps_keys=result is None,
        bits=bits,
        block=tile.block,
        items=tile.items,
        matching=tile.matching,
        # Keys of 8 bytes that are turned round take a register too many for as many blocks.
        min_blocks=max(1, tile.min_blocks - (is_descending and type_.nbytes == u64.nbytes)),
        is_descending=is_descending,
    )


def _radix(num_rows: int, length: int, spec: OnesweepSpec, device: Device, count: Count | None = None) -> Plan:
    """The plan of long rows, whose digits are counted by a launch of the caller's if there is one."""
    type_, value, bits = spec.type, spec.value, spec.bits
    place, digits, size = counter(bits), spec.num_digits, num_rows * length
    tiles_per_row = -(-length // spec.tile)
    num_tiles = num_rows * tiles_per_row

    scratch = Scratch()
    starts = scratch.take(num_rows * digits * NUM_BINS * place.nbytes)
    tickets = scratch.take(digits * u32.nbytes)
    even = scratch.take(num_tiles * NUM_BINS * place.nbytes)
    zeros = Fill(starts, scratch.nbytes - starts.offset, 0)
    odd = scratch.take(num_tiles * NUM_BINS * place.nbytes)
    routes = scratch.take(num_rows * digits * u32.nbytes)
    out, keys = Argument("out0"), Argument("in0")
    targets = (out if spec.keeps_keys else scratch.take(size * type_.nbytes), scratch.take(size * type_.nbytes))
    values: tuple[Argument, ...] = ()
    if value is not None:  # between passes they lie where the result will be, and beside it
        result = Argument("out1") if spec.keeps_keys else out
        given = () if spec.is_iota else (Argument("in1"),)
        values = (*given, result, result, scratch.take(size * value.nbytes))

    per_pass = Work(nbytes=2 * size * (type_.nbytes + (0 if value is None else value.nbytes)))
    arguments = (keys, *targets, *values, starts, routes, tickets, even, odd)
    steps: list[Step] = [
        zeros,
        _count(num_rows, length, spec, device, keys, starts) if count is None else count(starts),
        Launch(histogram.make(RouteSpec(digits, bits)), (num_rows, 1, 1), (starts, routes), (length,)),
        *(
            Launch(onesweep.make(spec), (num_tiles, 1, 1), arguments, (length, tiles_per_row, digit), per_pass)
            for digit in range(digits)
        ),
    ]
    return scratch.plan(steps)


def _count(num_rows: int, length: int, spec: OnesweepSpec, device: Device, keys: Argument, starts: Argument) -> Launch:
    """The launch that counts all digits of the keys."""
    type_ = spec.type
    unit = histogram.BLOCK * histogram.num_in_flight(type_)
    blocks_per_row = max(1, min(-(-length // unit), HISTOGRAM_BLOCKS_PER_SM * device.num_sms // num_rows))
    share = -(-length // (blocks_per_row * unit)) * unit
    blocks_per_row = -(-length // share)
    return Launch(
        histogram.make(HistogramSpec(type_, spec.bits, spec.is_descending)),
        (num_rows * blocks_per_row, 1, 1),
        (keys, starts),
        (length, share, blocks_per_row),
        Work(nbytes=num_rows * length * type_.nbytes),
    )


__all__ = [
    "MAX_LENGTH_32",
    "TILES",
    "Count",
    "Tile",
    "argsort",
    "counted_spec",
    "pairs_spec",
    "sort",
    "sort_counted",
    "sort_pairs",
]
