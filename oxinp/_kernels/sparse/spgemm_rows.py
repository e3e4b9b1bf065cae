"""Products of two CSR matrices, each row of the result by a team of threads that expands, sorts and adds its products.

Data layout: A and B in CSR, B without duplicates; a row of the result goes to its place in a staging area, columns
ascending, and how many there are to its count. Who owns what: a team of `lanes` threads, up to a block, owns a row with
at most ``lanes * items`` products, and has shared memory for them.

Algorithm: the team takes as many elements of A as it has threads, scans the lengths of the rows of B that they meet,
and deals out products evenly: a thread finds the element of its product by bisection. Products are numbered in the
order of the inner index. Teams within a warp sort columns with these numbers behind by a bitonic network in registers;
blocks sort columns by radix, which keeps the order of equal ones. Then runs of a column are found, and one thread adds
each in the order of the inner index, which is SciPy's. There are no tables, no order that varies, and no second pass
that multiplies. Bytes: A, per element of A a row of B from the caches; the result.

Source: expansion, sorting and compression of S. Dalton, L. Olson and N. Bell, Optimizing sparse matrix-matrix
multiplication for the GPU, ACM TOMS 41, 2015, without leaving the multiprocessor.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.plan import Launch
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sort.keys import ALL_ONES, DIGIT_BITS, Digit
from oxinp._kernels.sort.network import sort_registers
from oxinp._kernels.sort.rank import MATCH, Ranks
from oxinp._kernels.sparse.types import ProductTypes
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import i64, u16, u32, u64
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from oxinp._kernels.plan import Argument
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value, Var

MIN_BLOCK = 128
AHEAD = 4
"""Products of a thread that are on their way at a time."""
MAX_COLUMNS = 1 << u32.bits


class Bin(NamedTuple):
    """Rows with at most ``lanes * items`` products, which a team of `lanes` threads multiplies."""

    lanes: int
    items: int

    @property
    def most(self) -> int:
        """Products of a row."""
        return self.lanes * self.items


BINS = (
    *(Bin(8, 2), Bin(8, 4), Bin(16, 4), Bin(32, 4), Bin(32, 8)),
    *(Bin(128, 4), Bin(128, 6), Bin(128, 8), Bin(256, 8), Bin(256, 16), Bin(512, 16)),
)
"""By ascending sizes; a device without the shared memory for the last ones has fewer."""


class SpgemmRowsSpec(Frozen):
    """The kernel of a bin.

    Attributes
    ----------
    types : ProductTypes
        `value` and `operand` are those of A and B.
    lanes, items : int
        Of a `Bin`.
    is_packed : bool
        A column and the number of a product share 32 bits; of teams within a warp.
    """

    types: ProductTypes
    lanes: int
    items: int
    is_packed: bool

    @property
    def tile(self) -> int:
        """Products that a row may have."""
        return self.lanes * self.items

    @property
    def block(self) -> int:
        """Threads of a block."""
        return max(self.lanes, MIN_BLOCK)

    @property
    def max_registers(self) -> int:
        """Registers of a thread: without a limit ptxas spills to have fewer."""
        return 64 if self.items <= 8 else 128

    @property
    def number_bits(self) -> int:
        """Bits of the number of a product."""
        return (self.tile - 1).bit_length()


def spec_of(bin_: Bin, types: ProductTypes, num_columns: int) -> SpgemmRowsSpec:
    """Return the Spec of a bin."""
    spec = SpgemmRowsSpec(types, *bin_, is_packed=False)
    fits = bin_.lanes <= WARP and num_columns <= MAX_COLUMNS >> spec.number_bits
    return spec.replace(is_packed=fits)


@lru_cache(MAX_KERNELS)
def bins_for(types: ProductTypes, max_shared_nbytes: int) -> tuple[Bin, ...]:
    """Return the bins whose kernels have enough shared memory; those within a warp always have."""
    specs = [SpgemmRowsSpec(types, *each, is_packed=False) for each in BINS]
    fits = [spec.lanes <= WARP or make(spec).shared_nbytes <= max_shared_nbytes for spec in specs]
    return tuple([each for each, is_possible in zip(BINS, fits, strict=True) if is_possible])


def launch(num_rows: int, spec: SpgemmRowsSpec, num_columns: int, arguments: tuple[Argument, ...]) -> Launch:
    """Return the launch that multiplies `num_rows` rows of a bin.

    Arguments are the counts, indices and data of the staging area, where rows begin there, i64, then indptr, indices
    and data of A and of B, and the list of rows.
    """
    teams = spec.block // spec.lanes
    digits = max(1, -(-(num_columns - 1).bit_length() // DIGIT_BITS))
    constants = (num_rows, digits) if spec.lanes > WARP else (num_rows,)
    return Launch(make(spec), (-(-num_rows // teams), 1, 1), arguments, constants)


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: SpgemmRowsSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _Rows(spec).build()


class _Rows:
    """The kernel while it is built."""

    def __init__(self, spec: SpgemmRowsSpec) -> None:
        self.spec = spec
        types = spec.types
        name = f"spgemm_rows_{spec.lanes}_{spec.items}"
        self.k = k = Builder(name, block=spec.block, max_registers=spec.max_registers)
        self.counts, self.out_indices = (k.pointer(name, types.index, "w") for name in ("counts", "out_indices"))
        self.out_data = k.pointer("out_data", types.result, "w")
        self.begins = k.pointer("begins", i64, "r")
        self.a_indptr, self.a_indices = (k.pointer(f"a_{part}", types.index, "r") for part in ("indptr", "indices"))
        self.a_data = k.pointer("a_data", types.value, "r")
        self.b_indptr, self.b_indices = (k.pointer(f"b_{part}", types.index, "r") for part in ("indptr", "indices"))
        self.b_data = k.pointer("b_data", types.operand, "r")
        self.rows = k.pointer("rows", types.index, "r")
        self.num_rows = k.scalar("num_rows", u32)
        self.is_block = spec.lanes > WARP
        self.team, self.lane = k.tid / spec.lanes, k.tid % spec.lanes
        self.values = self.shared(types.result, spec.tile)
        self.factors = self.shared(types.result, spec.lanes)
        self.sources = self.shared(types.index, spec.lanes)
        self.ends = self.shared(u32, spec.lanes)
        self.keys = self.shared(u32 if self.is_block or spec.is_packed else u64, spec.tile)
        self.runs = self.shared(u16, spec.tile + 2)
        if self.is_block:
            self.num_digits = k.scalar("num_digits", u32)
            self.numbers = self.shared(u16, spec.tile)
            self.totals = k.dynamic_shared(u32, WARP)
            self.ranks = Ranks(k, MATCH)
            first, stride = k.warp * (WARP * spec.items) + k.lane, WARP
        else:
            first, stride = self.lane, spec.lanes
        self.positions = [first + i * stride if i else first for i in range(spec.items)]

    def shared(self, type_: Any, size: int) -> Pointer:
        """Return the team's part of a shared array."""
        made: Pointer = self.k.dynamic_shared(type_, self.spec.block // self.spec.lanes * size).at(self.team * size)
        return made

    def synchronize(self) -> None:
        """Wait for the team, and for those that share its warp."""
        if self.is_block:
            self.k.barrier()
        else:
            self.k.warp_sync()

    def build(self) -> Kernel:
        k, spec = self.k, self.spec
        number = k.ctaid * (spec.block // spec.lanes) + self.team
        has_row = number < self.num_rows
        row = self.rows[k.min(number, self.num_rows - 1)]
        # Teams without a row make the last one and store nothing: there is no row here without products.
        total = self.expand(self.a_indptr[row], self.a_indptr[row + 1])
        if self.is_block:
            self.sort_block(total)
        else:
            self.sort_warp(total)
        count = self.find_runs(total)
        self.add(self.begins[row], k.where(has_row, count, k.const(0, u32)))
        with k.when(has_row & (self.lane == 0)):
            self.counts[row] = k.cast(count, spec.types.index)
        return k.build()

    # -- expansion

    def expand(self, begin: Value, end: Value) -> Value:
        """Leave columns and values of all products in shared memory; return how many there are."""
        k, spec = self.k, self.spec
        index = spec.types.index
        place, before = k.var(begin), k.var(0, u32)
        with k.loop():  # as long as any team of the warp has elements
            k.break_if(place >= end if self.is_block else ~k.any(place < end))
            here = place + k.cast(self.lane, index)
            is_here = here < end
            at = k.where(is_here, here, begin)
            inner = self.a_indices.load(at, 1, "nc")[0]
            start = self.b_indptr.load(inner, 1, "nc")[0]
            stop = self.b_indptr.load(inner + 1, 1, "nc")[0]
            length = k.where(is_here, k.cast(stop - start, u32), k.const(0, u32))
            through = self.scan(length)
            self.ends[self.lane] = through
            self.sources[self.lane] = start - k.cast(through - length, index)
            self.factors[self.lane] = k.cast(self.a_data.load(at, 1, "nc")[0], spec.types.result)
            self.synchronize()
            total = self.shown(self.ends, spec.lanes - 1)
            with k.range(self.lane, total, spec.lanes * AHEAD) as first:
                self.multiply(first, total, before.get())
            self.synchronize()
            before.set(before + total)
            place.set(place + spec.lanes)
        return k.emit("mov", before)

    def scan(self, value: Value) -> Value:
        """Return the inclusive scan over the team."""
        k = self.k
        value = self.scan_lanes(value, min(WARP, self.spec.lanes))
        if not self.is_block:
            return value
        num_warps = self.spec.lanes // WARP
        with k.when(k.lane == WARP - 1):
            self.totals[k.warp] = value
        k.barrier()
        totals = self.scan_lanes(self.totals[k.min(k.lane, num_warps - 1)], 1 << (num_warps - 1).bit_length())
        before = k.shfl_idx(totals, k.max(k.warp, 1) - 1)
        return value + k.where(k.warp == 0, k.const(0, u32), before)

    def scan_lanes(self, value: Value, width: int) -> Value:
        """Return the inclusive scan over groups of lanes of a warp."""
        k, distance = self.k, 1
        lane = k.lane & (width - 1)
        while distance < width:
            value = value + k.where(lane >= distance, k.shfl_up(value, distance), k.const(0, u32))
            distance *= 2
        return value

    def multiply(self, first: Value, total: Value, before: Value) -> None:
        """Compute some products, `first` and others a team apart, of `total` that the elements at hand have."""
        k, spec = self.k, self.spec
        numbers = [first + i * spec.lanes if i else first for i in range(AHEAD)]
        found = []
        for number in numbers:
            near = k.min(number, total - 1)
            owner = self.owner_of(near)
            found.append((owner, self.shown(self.sources, owner) + k.cast(near, spec.types.index)))
        columns = [self.b_indices.load(at, 1, "nc")[0] for _, at in found]
        operands = [self.b_data.load(at, 1, "nc")[0] for _, at in found]
        for number, (owner, _), column, operand in zip(numbers, found, columns, operands, strict=True):
            with k.when(number < total):
                to = before + number
                self.keys[to] = self.key_of(k.cast(column, u32), to)
                self.values[to] = self.shown(self.factors, owner) * k.cast(operand, spec.types.result)

    def shown(self, words: Pointer, thread: Any) -> Value:
        """Return what a thread shows the team; several lanes may read one word."""
        (word,) = words.load(thread, order="relaxed.cta")
        return word

    def owner_of(self, number: Value) -> Value:
        """Return the thread whose element a product belongs to."""
        k = self.k
        owner, step = k.const(0, u32), self.spec.lanes // 2
        while step:
            is_later = self.shown(self.ends, owner + (step - 1)) <= number
            owner = owner + k.where(is_later, k.const(step, u32), k.const(0, u32))
            step //= 2
        return owner

    # -- keys: the column, and of teams within a warp the number of the product

    def key_of(self, column: Value, number: Value) -> Value:
        """Return the key of a product."""
        if self.is_block:
            return column
        if self.spec.is_packed:
            return (column << self.spec.number_bits) | number
        made: Value = self.k.pack(number, column)
        return made

    def column_at(self, position: Value) -> Value:
        """Return the column at a place in the order."""
        key = self.keys[position]
        if self.is_block:
            return key
        if self.spec.is_packed:
            return key >> self.spec.number_bits
        column: Value = self.k.unpack(key)[1]
        return column

    def number_at(self, position: Value) -> Value:
        """Return the number of the product at a place in the order."""
        if self.is_block:
            return self.k.cast(self.numbers[position], u32)
        key = self.keys[position]
        if self.spec.is_packed:
            return key & ((1 << self.spec.number_bits) - 1)
        number: Value = self.k.unpack(key)[0]
        return number

    # -- order

    def unsorted(self, total: Value, last: Value) -> list[Var]:
        """Return the keys of a thread, and what is behind all others where there are no more."""
        k = self.k
        keys = [k.var(last) for _ in self.positions]
        for key, position in zip(keys, self.positions, strict=True):
            with k.when(position < total):
                key.set(self.keys[position])
        return keys

    def sort_warp(self, total: Value) -> None:
        """Order keys by a network over the lanes of the team."""
        k, spec = self.k, self.spec
        last = k.const((1 << self.keys.type.bits) - 1, self.keys.type)
        keys = self.unsorted(total, last)
        k.warp_sync()
        ordered = sort_registers(k, [(key.get(),) for key in keys], self.lane, spec.lanes, spec.items)
        self.keys.store(self.lane * spec.items, [key for (key,) in ordered])
        k.warp_sync()

    def sort_block(self, total: Value) -> None:
        """Order columns by radix, one digit after the other, and the numbers of products with them."""
        k = self.k
        last = k.const(ALL_ONES, u32)
        keys = self.unsorted(total, last)
        numbers = [k.var(k.cast(position, u16)) for position in self.positions]
        with k.range(k.const(0, u32), self.num_digits) as number:
            digit = Digit(k, u32, number, False)
            self.ranks.clear()
            k.barrier()
            now = [key.get() for key in keys]
            self.ranks.count(now, digit)
            k.barrier()
            self.ranks.scan()
            k.barrier()
            for key, own, place in zip(now, numbers, self.ranks.places(now, digit), strict=True):
                self.keys[place] = key
                self.numbers[place] = own.get()
            k.barrier()
            for key, own, position in zip(keys, numbers, self.positions, strict=True):
                key.set(self.keys[position])
                own.set(self.numbers[position])

    # -- sums

    def find_runs(self, total: Value) -> Value:
        """Leave where runs of a column begin, and the end of the last one; return how many there are."""
        k, spec = self.k, self.spec
        words = []
        for position in self.positions:
            is_new = (position == 0) | (self.column_at(position) != self.column_at(k.max(position, 1) - 1))
            word = k.ballot((position < total) & is_new)
            if spec.lanes < WARP:
                word = k.shr(word, k.lane & (WARP - spec.lanes)) & ((1 << spec.lanes) - 1)
            words.append(word)
        sums = [k.popc(word) for word in words]
        own = sums[0]
        for each in sums[1:]:
            own = own + each
        rank, count = k.const(0, u32), own
        if self.is_block:
            through = self.scan(k.where(k.lane == 0, own, k.const(0, u32)))
            rank = k.shfl_idx(through, 0) - own
            with k.when(k.tid == spec.block - 1):
                self.ends[0] = through
        lower = (k.const(1, u32) << (self.lane & (WARP - 1))) - 1
        for word, each, position in zip(words, sums, self.positions, strict=True):
            with k.when((k.shr(word, self.lane & (WARP - 1)) & 1) != 0):
                self.runs[rank + k.popc(word & lower)] = k.cast(position, u16)
            rank = rank + each
        self.synchronize()
        found: Value = self.ends[0] if self.is_block else count
        with k.when(self.lane == 0):
            self.runs[found] = k.cast(total, u16)
        self.synchronize()
        return found

    def add(self, origin: Value, count: Value) -> None:
        """Store the sum of every run, and its column."""
        k, spec = self.k, self.spec
        out_indices, out_data = self.out_indices.at(origin), self.out_data.at(origin)
        with k.range(self.lane, count, spec.lanes) as run:
            first, last = k.cast(self.runs[run], u32), k.cast(self.runs[run + 1], u32)
            total = k.var(k.const(0, spec.types.result))
            with k.range(first, last) as position:
                total.set(total + self.values[self.number_at(position)])
            out_indices[run] = k.cast(self.column_at(first), spec.types.index)
            out_data[run] = total.get()


__all__ = ["BINS", "MAX_COLUMNS", "Bin", "SpgemmRowsSpec", "bins_for", "launch", "make", "spec_of"]
