"""Sorts of rows that fit into the shared memory of a block: radix sorts that never leave it.

Data layout: rows of elements, one after the other. Who owns what: a block a row, a warp consecutive elements of it, see
`Ranks`. Algorithm: by one digit after the other, elements are ranked and put in order in shared memory; digits that all
elements share are left out. Bytes per element: the element, read and written, or read, and its place written.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sort.keys import DIGITS_PER_WORD, Digit, carrier, largest, num_digits, words
from oxinp._kernels.sort.rank import Ranks
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u16, u32
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from oxinp._ptx.value import Value, Var


class BlockSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
        Of elements.
    result : Type or None
        Of places, where these are wanted instead of elements.
    block, items : int
        Threads, and elements of each.
    matching : str
        See `Ranks`.
    is_descending : bool
        The greatest elements come first, NaNs last.
    is_marked : bool
        Only rows are sorted whose mark is not 0.
    """

    type: Type
    result: Type | None
    block: int
    items: int
    matching: str
    is_descending: bool = False
    is_marked: bool = False

    @property
    def tile(self) -> int:
        """Elements that a row may have."""
        return self.block * self.items


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: BlockSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _BlockSort(spec).build()


class _BlockSort:
    """The kernel while it is built; parameters are result, marks of rows where they count, elements, length of rows."""

    def __init__(self, spec: BlockSpec) -> None:
        self.spec = spec
        self.k = k = Builder("sort_block", block=spec.block, min_blocks=max(1, 512 // spec.block))
        bits = carrier(spec.type)
        self.out = k.pointer("out", bits if spec.result is None else spec.result, "w")
        self.marks = k.pointer("marks", u32, "r") if spec.is_marked else None
        self.elements = k.pointer("elements", bits, "r")
        self.length = k.scalar("length", u32)
        self.ordered = k.dynamic_shared(bits, spec.tile)
        self.ordered_places = None if spec.result is None else k.dynamic_shared(u16, spec.tile)
        self.ranks = Ranks(k, spec.matching)
        num_words = -(-num_digits(spec.type) // DIGITS_PER_WORD)
        self.differences = k.dynamic_shared(u32, num_words)
        lane = k.warp * (WARP * spec.items) + k.lane
        self.positions = [lane + i * WARP if i else lane for i in range(spec.items)]

    def build(self) -> Kernel:
        k = self.k
        if self.marks is None:
            self.sort_row()
        else:
            with k.when(self.marks[k.ctaid] != 0):
                self.sort_row()
        return k.build()

    def sort_row(self) -> None:
        """Sort the row of the block."""
        k, spec = self.k, self.spec
        origin = k.cast(k.ctaid, i64) * k.cast(self.length, i64)
        source = self.elements.at(origin)
        loaded = [source[k.min(position, self.length - 1)] for position in self.positions]
        last = largest(k, spec.type, spec.is_descending)
        keys = [
            k.var(k.where(position < self.length, value, last))
            for position, value in zip(self.positions, loaded, strict=True)
        ]
        places = [] if spec.result is None else [k.var(k.cast(position, u16)) for position in self.positions]
        self.find_differences(loaded, source[0])
        with k.range(k.const(0, u32), k.const(num_digits(spec.type), u32)) as number:
            difference = self.differences[number >> 2] >> ((number & 3) * 8)
            with k.when((difference & 255) != 0):
                self.sort(Digit(k, spec.type, number, spec.is_descending), keys, places)
        target = self.out.at(origin)
        for i, position in enumerate(self.positions):
            with k.when(position < self.length):
                target[position] = keys[i].get() if spec.result is None else k.cast(places[i].get(), spec.result)

    def find_differences(self, loaded: list[Value], first: Value) -> None:
        """Leave, per word, the bits in which keys differ from the first one."""
        k, spec = self.k, self.spec
        own = words(k, first, spec.type, spec.is_descending)
        differences = [k.const(0, u32) for _ in own]
        for value in loaded:
            found = words(k, value, spec.type, spec.is_descending)
            differences = [d | (word ^ mine) for d, word, mine in zip(differences, found, own, strict=True)]
        with k.when(k.tid < len(own)):
            self.differences[k.tid] = 0
        k.barrier()
        totals = [k.redux("or", difference) for difference in differences]
        with k.when(k.lane == 0):
            for i, total in enumerate(totals):
                self.differences.atomic("or", i, total, order="relaxed.cta")
        k.barrier()

    def sort(self, digit: Digit, keys: list[Var], places: list[Var]) -> None:
        """Order the elements by one digit."""
        k = self.k
        self.ranks.clear()
        k.barrier()
        now = [key.get() for key in keys]
        self.ranks.count(now, digit)
        k.barrier()
        self.ranks.scan()
        k.barrier()
        for i, place in enumerate(self.ranks.places(now, digit)):
            self.ordered[place] = now[i]
            if self.ordered_places is not None:
                self.ordered_places[place] = places[i].get()
        k.barrier()
        for i, position in enumerate(self.positions):
            keys[i].set(self.ordered[position])
            if self.ordered_places is not None:
                places[i].set(self.ordered_places[position])


__all__ = ["BlockSpec", "make"]
