"""The transpose of a CSR matrix: elements sorted by their columns, each with its row in the key.

Data layout: CSR; a key has the column in its low and the row in its high word, and the element goes with it. Who owns
what: a block of `TransposeKeysSpec` tiles of the merge of ends of rows and elements (see `merge`), in turns; a thread
of `TransposeEndsSpec` sorted keys. Algorithm: one kernel finds every element's row, makes keys and counts digits; a
stable radix sort by the digits that columns have; a last kernel takes keys apart, and writes where columns begin where
keys differ, with all lanes of a warp where columns between are empty. Elements of a column keep their order. Bytes:
twice key and element in each pass of the sort, and 24 of an element with 32-bit indices beside it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.plan import Argument, Launch, Plan, Scratch, Work, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sort.keys import DIGIT_BITS, NUM_BINS, carrier
from oxinp._kernels.sort.plan import MAX_LENGTH_32, sort_counted
from oxinp._kernels.sparse import merge
from oxinp._kernels.sparse.types import BLOCK
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i32, i64, u32, u64
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

BLOCKS_PER_SM = 6
COPIES = 4
"""Of counters in shared memory, which lanes take in turns."""
UNROLL = 4


class TransposeKeysSpec(Frozen):
    """The kernel that makes keys, and counts so many digits of them."""

    index: Type
    digits: int


class TransposeEndsSpec(Frozen):
    """The kernel that takes keys apart."""

    index: Type


def has_keys(num_rows: int, num_columns: int, count: int, value: Type) -> bool:
    """Return whether rows and columns fit into a key, and elements beside it."""
    return max(num_rows, num_columns) <= 1 << u32.bits and 0 < count < MAX_LENGTH_32 and value.nbytes in (4, 8)


def plan(num_rows: int, num_columns: int, count: int, index: Type, value: Type, device: Device) -> Plan:
    """Return the plan of a transpose, see `has_keys`; inputs are indptr, indices and data, outputs likewise."""
    digits = max(1, -(-(num_columns - 1).bit_length() // DIGIT_BITS))
    num_tiles = merge.num_tiles_of(num_rows, count)
    scratch = Scratch()
    starts = scratch.take((num_tiles + 1) * index.nbytes)
    given, keys = (scratch.take(count * u64.nbytes) for _ in range(2))
    (out_indptr, out_indices, out_data), (indptr, indices, data) = outputs(3), inputs(3)
    blocks = min(num_tiles, BLOCKS_PER_SM * device.num_sms)

    def launch(counts: Argument) -> Launch:
        arguments = (Argument("keys"), counts, *map(Argument, ("starts", "indptr", "indices")))
        work = Work(nbytes=count * (index.nbytes + u64.nbytes))
        return Launch(
            make(TransposeKeysSpec(index, digits)), (blocks, 1, 1), arguments, (num_rows, count, num_tiles), work
        )

    sort = sort_counted(count, carrier(value), digits, device, launch, is_iota=False, key=u64)
    places = {"in0": given, "in1": data, "out0": keys, "out1": out_data, "scratch": scratch.take(sort.scratch_nbytes)}
    places |= {"keys": given, "starts": starts, "indptr": indptr, "indices": indices}
    grid = (-(-count // (BLOCK * UNROLL)), 1, 1)
    work = Work(nbytes=count * (index.nbytes + u64.nbytes) + num_columns * index.nbytes)
    ends = make(TransposeEndsSpec(index))
    return scratch.plan(
        (
            merge.partition(starts, indptr, num_rows, count, index),
            *sort.on(**places),
            Launch(ends, grid, (out_indptr, out_indices, keys), (num_columns, count), work),
        )
    )


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: TransposeKeysSpec | TransposeEndsSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _keys(spec) if isinstance(spec, TransposeKeysSpec) else _ends(spec)


def _keys(spec: TransposeKeysSpec) -> Kernel:
    index = spec.index
    k = Builder("sparse_transpose_keys", block=BLOCK)
    keys, counts = k.pointer("keys", u64, "w"), k.pointer("counts", u32)
    starts, indptr, indices = (k.pointer(name, index, "r") for name in ("starts", "indptr", "indices"))
    num_rows, count, num_tiles = (k.scalar(name, index) for name in ("num_rows", "count", "num_tiles"))
    bins = k.shared(u32, spec.digits * NUM_BINS * COPIES)
    ends, rows = k.shared(i32, merge.TILE + 1), k.shared(i32, merge.TILE)
    for i in range(0, spec.digits * NUM_BINS * COPIES, BLOCK):
        bins[k.tid + i] = 0
    own = bins.at(k.lane & (COPIES - 1))
    thread = k.cast(k.tid, i32)
    numbers = [thread + i * BLOCK if i else thread for i in range(merge.ITEMS)]
    with k.range(k.cast(k.ctaid, index), num_tiles, k.cast(k.nctaid, index)) as tile:
        first_row, last_row = starts[tile], starts[tile + 1]
        first = tile * merge.TILE - first_row
        last = k.min((tile + 1) * merge.TILE, num_rows + count) - last_row
        num_ends, num_elements = k.cast(last_row - first_row, i32), k.cast(last - first, i32)
        columns = [k.cast(indices[k.min(first + k.cast(number, index), count - 1)], u32) for number in numbers]
        k.barrier()
        merge.load_ends(k, ends, indptr, (first_row, first, num_ends, num_elements), numbers)
        k.barrier()
        merge.own_elements(k, ends, rows, num_ends, num_elements)
        k.barrier()
        for number, column in zip(numbers, columns, strict=True):
            with k.when(number < num_elements):
                row = k.cast(first_row, u32) + k.cast(rows[number], u32)
                keys[first + k.cast(number, index)] = k.pack(column, row)
                for i in range(spec.digits):
                    digit = k.shr(column, i * DIGIT_BITS) & (NUM_BINS - 1) if i else column & (NUM_BINS - 1)
                    own.atomic("add", (digit + i * NUM_BINS) * COPIES, 1, order="relaxed.cta")
    k.barrier()
    for i in range(spec.digits):
        values = bins.load((k.tid + i * NUM_BINS) * COPIES, COPIES)
        found = values[0]
        for value in values[1:]:
            found = found + value
        with k.when(found != 0):
            counts.atomic("add", k.tid + i * NUM_BINS, found)
    return k.build()


def _ends(spec: TransposeEndsSpec) -> Kernel:
    index = spec.index
    k = Builder("sparse_transpose_ends", block=BLOCK)
    indptr, rows, keys = k.pointer("indptr", index, "w"), k.pointer("rows", index, "w"), k.pointer("keys", u64, "r")
    num_columns, count = k.scalar("num_columns", i64), k.scalar("count", i64)
    first = k.cast(k.ctaid, i64) * (BLOCK * UNROLL) + k.cast(k.tid, i64)
    numbers = [first + i * BLOCK if i else first for i in range(UNROLL)]
    mine = [keys[k.min(number, count - 1)] for number in numbers]
    before = [keys[k.min(k.max(number, 1), count) - 1] for number in numbers]
    for number, key, earlier in zip(numbers, mine, before, strict=True):
        column, row = k.unpack(key)
        begins = k.where(number == 0, k.const(0, i64), k.cast(k.unpack(earlier)[0], i64) + 1)
        is_there, ends = number < count, k.cast(column, i64) + 1
        with k.when(is_there):
            rows[number] = k.cast(row, index)
        with k.when(is_there & (begins + 1 == ends)):
            indptr[begins] = k.cast(number, index)
        _fill(k, indptr, is_there & (begins + 1 < ends), begins, ends, k.cast(number, index))
        _fill(k, indptr, number == count - 1, ends, num_columns + 1, k.cast(count, index))
    return k.build()


def _fill(k: Builder, target: Pointer, is_asked: Value, begin: Value, end: Value, value: Value) -> None:
    """Write a value from one place to another, for each lane that asks for it, by all lanes of the warp."""
    left = k.var(k.ballot(is_asked))
    with k.loop():
        k.break_if(left == 0)
        leader = k.emit("bfind", left & (0 - left))
        its_begin, its_end, its_value = (k.shfl_idx(each, leader) for each in (begin, end, value))
        with k.range(its_begin + k.cast(k.lane, i64), its_end, WARP) as place:
            target[place] = its_value
        k.warp_sync()
        left.set(left & (left - 1))


__all__ = ["TransposeEndsSpec", "TransposeKeysSpec", "has_keys", "make", "plan"]
