"""Sorts of rows of some hundred to some thousand elements of 4 bytes: a bitonic network over the threads of a block.

Data layout: rows of elements, one after the other. Who owns what: a block a row, a thread `ITEMS` elements that end up
side by side. Algorithm: elements become unsigned keys whose order is NumPy's; threads sort theirs by Batcher's odd-even
merges; of each merge of more, steps between threads of a warp are shuffles, those between neighbours stay in a thread,
and the farthest four go by way of shared memory, which makes them steps within a thread, too. Keys that every other
merge has to leave in falling order are inverted meanwhile. Bytes per element: the element, read and written.

Keys have one meaning each, so that the network need not be stable: a row in which zeros have both signs, or NaNs other
bits than the hardware's, is left out and marked, for a stable sort behind it.

Source: Batcher, Sorting networks and their applications, AFIPS 1968.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sort.keys import ALL_ONES, SIGN
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, f32, i32, i64, u32
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value, Var

ITEM_BITS = 4
ITEMS = 1 << ITEM_BITS  # of a thread
LANE_BITS = WARP.bit_length() - 1
MAX_BITS = ITEM_BITS + LANE_BITS + ITEM_BITS  # of places in a row: warps are as many as shared memory brings together
NAN = 0x7FC00000
ZERO, MINUS_ZERO, OTHER = 1, 2, 4  # what is in a row


class BitonicSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
        Of elements, of 4 bytes.
    bits : int
        Of places in a row: it has up to ``2**bits`` elements.
    """

    type: Type
    bits: int

    @property
    def block(self) -> int:
        """Threads."""
        return 1 << (self.bits - ITEM_BITS)

    @property
    def marks(self) -> bool:
        """Whether rows may be left out."""
        return self.type.is_float


def spec_of(length: int, type_: Type) -> BitonicSpec | None:
    """Return the Spec for rows of a length; None where there is none."""
    bits = max((length - 1).bit_length(), ITEM_BITS + LANE_BITS)
    return BitonicSpec(type_, bits) if type_.nbytes == u32.nbytes and bits <= MAX_BITS else None


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: BitonicSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _Bitonic(spec).build()


class _Bitonic:
    """The kernel while it is built; parameters are result, marks of rows where there are any, elements, length."""

    def __init__(self, spec: BitonicSpec) -> None:
        self.spec = spec
        self.k = k = Builder("sort_bitonic", block=spec.block, min_blocks=max(1, 1024 // spec.block))
        self.out = k.pointer("out", u32, "w")
        self.marks = k.pointer("marks", u32, "w") if spec.marks else None
        self.elements = k.pointer("elements", u32, "r")
        self.length = k.scalar("length", u32)
        size = 1 << spec.bits
        self.room = k.dynamic_shared(u32, size + size // WARP)
        self.num_warps = spec.block // WARP
        self.found = k.dynamic_shared(u32, self.num_warps) if spec.marks else None
        # Where the thread's elements are loaded and stored, side by side with those of its neighbours.
        self.positions = [k.tid + i * spec.block if i else k.tid for i in range(ITEMS)]

    def build(self) -> Kernel:
        k = self.k
        origin = k.cast(k.ctaid, i64) * k.cast(self.length, i64)
        source, target = self.elements.at(origin), self.out.at(origin)
        loaded = [source[k.min(position, self.length - 1)] for position in self.positions]
        if self.found is None:
            self.sort(loaded, target)
        else:
            assert self.marks is not None
            seen = self.look_at(loaded)
            is_plain = (seen & OTHER == 0) & (seen & (ZERO | MINUS_ZERO) != ZERO | MINUS_ZERO)
            with k.when(k.tid == 0):
                self.marks[k.ctaid] = k.cast(~is_plain, u32)
            with k.when(is_plain):
                self.sort(loaded, target)
        return k.build()

    def look_at(self, loaded: list[Value]) -> Value:
        """What is in the row that unsigned keys do not order as NumPy does."""
        k = self.k
        assert self.found is not None
        none = k.const(0, u32)
        seen = none
        for bits in loaded:
            is_other = k.isnan(k.bitcast(bits, f32)) & (bits != NAN)
            seen = seen | k.where(bits == 0, k.const(ZERO, u32), k.where(bits == SIGN, k.const(MINUS_ZERO, u32), none))
            seen = seen | k.where(is_other, k.const(OTHER, u32), none)
        own = k.redux("or", seen)
        with k.when(k.lane == 0):
            self.found[k.warp] = own
        k.barrier()
        total: Value = k.redux("or", self.found[k.min(k.lane, self.num_warps - 1)])
        return total

    def sort(self, loaded: list[Value], target: Pointer) -> None:
        """Sort a row."""
        k, bits = self.k, self.spec.bits
        keys = [self.key(value) for value in loaded]
        keys = [
            k.where(position < self.length, key, k.const(ALL_ONES, u32))
            for position, key in zip(self.positions, keys, strict=True)
        ]
        first = self.falling(k.const(ITEM_BITS, u32))
        held = [k.var(key) for key in _sorted(k, [key ^ first for key in keys])]
        with k.range(k.const(ITEM_BITS + 1, u32), k.const(bits + 1, u32)) as stage:
            turn = self.falling(stage - 1) ^ self.falling(stage)
            for key in held:
                key.set(key ^ turn)
            self.merge(held, stage)
        self.put(held, self.own_places())
        k.barrier()
        for position in self.positions:
            with k.when(position < self.length):
                target[position] = self.element(self.room[_padded(position)])

    def falling(self, bit: Value) -> Value:
        """All bits, in threads whose places have a bit set."""
        return self.k.const(0, u32) - ((self.k.tid >> (bit - ITEM_BITS)) & 1)

    def merge(self, held: list[Var], stage: Value) -> None:
        """Merge runs of half of ``2**stage`` keys."""
        k = self.k
        distance = k.var(k.shl(k.const(1, u32), stage - (ITEM_BITS + 1)))
        if self.spec.bits > ITEM_BITS + LANE_BITS:
            with k.when(stage > ITEM_BITS + LANE_BITS):
                self.merge_far(held, stage - ITEM_BITS)
                distance.set(k.shl(k.const(1, u32), stage - (2 * ITEM_BITS + 1)))
        with k.loop():
            k.break_if(distance == 0)
            is_upper = (k.lane & distance) != 0
            others = [k.shfl_bfly(key.get(), distance.get()) for key in held]
            for key, other in zip(held, others, strict=True):
                key.set(k.where((other < key) ^ is_upper, other, key.get()))
            distance.set(distance >> 1)
        self.merge_near(held)

    def merge_near(self, held: list[Var]) -> None:
        """The steps of a merge between keys of one thread."""
        keys = [key.get() for key in held]
        for bit in reversed(range(ITEM_BITS)):
            for i in range(ITEMS):
                if not i >> bit & 1:
                    _order(self.k, keys, i, i | 1 << bit)
        for variable, key in zip(held, keys, strict=True):
            variable.set(key)

    def merge_far(self, held: list[Var], lowest: Value) -> None:
        """The first `ITEM_BITS` steps, of keys whose places differ from bit `lowest` on."""
        k = self.k
        self.put(held, self.own_places())
        k.barrier()
        low = k.tid & (k.shl(k.const(1, u32), lowest) - 1)
        start = k.shl(k.shr(k.tid, lowest), lowest + ITEM_BITS) | low
        places = [_padded(start + k.shl(k.const(i, u32), lowest)) for i in range(ITEMS)]
        for key, place in zip(held, places, strict=True):
            key.set(self.room[place])
        self.merge_near(held)
        self.put(held, places)
        k.barrier()
        for key, place in zip(held, self.own_places(), strict=True):
            key.set(self.room[place])

    def own_places(self) -> list[Value]:
        """Where the thread's keys are in shared memory."""
        start = _padded(self.k.tid << ITEM_BITS)
        return [start + i for i in range(ITEMS)]

    def put(self, held: list[Var], places: list[Value]) -> None:
        """Store the thread's keys in shared memory."""
        for key, place in zip(held, places, strict=True):
            self.room[place] = key.get()

    def key(self, bits: Value) -> Value:
        """An element's bits as an unsigned key."""
        k, type_ = self.k, self.spec.type
        if type_.is_float:
            return bits ^ (k.bitcast(k.bitcast(bits, i32) >> 31, u32) | SIGN)
        return bits ^ SIGN if type_.kind == "i" else bits

    def element(self, key: Value) -> Value:
        """The bits of a key's element."""
        k, type_ = self.k, self.spec.type
        if type_.is_float:
            return key ^ (k.bitcast(~(k.bitcast(key, i32) >> 31), u32) | SIGN)
        return self.key(key)


def _padded(place: Value) -> Value:
    """Where a key is in shared memory: a word is left out behind every 32, so that 32 threads meet all banks."""
    return place + (place >> LANE_BITS)


def _order(k: Builder, keys: list[Value], i: int, j: int) -> None:
    """Put the lesser of two keys first."""
    keys[i], keys[j] = k.min(keys[i], keys[j]), k.max(keys[i], keys[j])


def _sorted(k: Builder, keys: list[Value]) -> list[Value]:
    """The keys of a thread in order."""
    keys = list(keys)
    for i, j in _odd_even_merges(len(keys)):
        _order(k, keys, i, j)
    return keys


def _odd_even_merges(count: int) -> Iterator[tuple[int, int]]:
    """Yield the pairs that Batcher's odd-even merges of a power of two of keys compare."""
    size = 1
    while size < count:
        distance = size
        while distance:
            for start in range(distance % size, count - distance, 2 * distance):
                for i in range(start, min(start + distance, count - distance)):
                    if i // (2 * size) == (i + distance) // (2 * size):
                        yield i, i + distance
            distance //= 2
        size *= 2


__all__ = ["ITEMS", "BitonicSpec", "make", "spec_of"]
