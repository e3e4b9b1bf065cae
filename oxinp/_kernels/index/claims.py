"""Claims: which of several writes to an element is the last one.

An element's claim is the greatest number, from 1 on, of an index that names it: in a word per element, or, where
elements are many more than indices, in a hash table with open addressing, whose entries have the element in their upper
half and the number below, so that the greatest entry of an element has its last number.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, NamedTuple

from oxinp._ptx.types import Type, u32, u64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value, Var

ELEMENTS_PER_INDEX = 8
"""Elements per index up to which a word for each is filled with zeros faster than a table is searched."""
MAX_HASHED, MAX_HASHED_EXTENT = 1 << 29, 1 << 32
ENTRIES_PER_INDEX = 4
"""Entries of the table per index: a warp waits for the longest search of its lanes."""
MAX_COUNT_32 = (1 << 32) - 2
MULTIPLIER = 0x9E3779B1  # the odd number nearest to 2^32 over the golden ratio


class ClaimSpec(NamedTuple):
    """What claims a kernel has.

    Attributes
    ----------
    type : Type
        Of claims.
    is_hashed : bool
        They are entries of a table.
    """

    type: Type
    is_hashed: bool


class ClaimRoom(NamedTuple):
    """The room of claims.

    Attributes
    ----------
    spec : ClaimSpec
    number : int
        Of claims.
    """

    spec: ClaimSpec
    number: int

    @property
    def nbytes(self) -> int:
        """What they take, zeros at first."""
        return self.number * self.spec.type.nbytes

    @property
    def constants(self) -> tuple[int, ...]:
        """Values of the parameters that `Claims` declares."""
        return (u32.bits + 1 - self.number.bit_length(),) if self.spec.is_hashed else ()


def room_for(count: int, extent: int) -> ClaimRoom:
    """Return the room for the claims of some indices on as many elements."""
    if extent > ELEMENTS_PER_INDEX * count and count <= MAX_HASHED and extent <= MAX_HASHED_EXTENT:
        return ClaimRoom(ClaimSpec(u64, is_hashed=True), 1 << (ENTRIES_PER_INDEX * count - 1).bit_length())
    return ClaimRoom(ClaimSpec(u32 if count <= MAX_COUNT_32 else u64, is_hashed=False), extent)


class Claims:
    """Claims in a kernel: the pointer, declared, and with `declare` the other parameters.

    Parameters
    ----------
    k : Builder
    spec : ClaimSpec
    access : str
        Of the pointer.
    """

    def __init__(self, k: Builder, spec: ClaimSpec, access: str) -> None:
        self.k, self.spec = k, spec
        self.pointer = k.pointer("claims", spec.type, access)
        self.shift: Value | None = None

    def declare(self) -> None:
        """Declare what follows pointers."""
        if self.spec.is_hashed:
            self.shift = self.k.scalar("shift", u32)

    def enter(self, at: Value, number: Value) -> None:
        """Claim an element for the index of a number."""
        k, pointer = self.k, self.pointer
        if not self.spec.is_hashed:
            pointer.atomic("max", at, k.cast(number + 1, self.spec.type))
            return
        element, slot = self._slot(at)
        entry = k.pack(k.cast(number + 1, u32), element)
        with k.loop():
            found = pointer.atomic("cas", slot.get(), entry, compare=0)
            is_own = k.unpack(found)[1] == element
            with k.when(is_own & (found != 0)):
                pointer.atomic("max", slot.get(), entry)
            k.break_if(is_own | (found == 0))
            slot.set(self._next(slot.get()))

    def enter_all(self, places: Sequence[Value], numbers: Sequence[Value], there: Sequence[Value]) -> list[Value]:
        """Claim elements for the indices of some numbers, where there are such; return where their claims lie.

        The first looks at the table are all under way before the first one's answer is waited for.
        """
        k, pointer = self.k, self.pointer
        if not self.spec.is_hashed:
            for at, number, is_there in zip(places, numbers, there, strict=True):
                with k.when(is_there):
                    pointer.atomic("max", at, k.cast(number + 1, self.spec.type))
            return list(places)
        slots = [self._slot(at) for at in places]
        entries = [k.pack(k.cast(each + 1, u32), slot[0]) for each, slot in zip(numbers, slots, strict=True)]
        founds = [k.var(0, u64) for _ in places]
        for found, entry, (_, slot), is_there in zip(founds, entries, slots, there, strict=True):
            with k.when(is_there):
                found.set(pointer.atomic("cas", slot.get(), entry, compare=0))
        left = [
            k.var(k.cast(is_there & (found.get() != 0), u32)) for found, is_there in zip(founds, there, strict=True)
        ]
        with k.loop():  # of all that are left at once, each of which waits for its own answers alone
            k.break_if(reduce(or_, [each.get() for each in left]) == 0)
            for found, entry, (element, slot), is_left in zip(founds, entries, slots, left, strict=True):
                with k.when(is_left.get() != 0):
                    is_own = k.unpack(found.get())[1] == element
                    with k.when(is_own):
                        pointer.atomic("max", slot.get(), entry)
                        is_left.set(0)
                    with k.otherwise():
                        slot.set(self._next(slot.get()))
                        found.set(pointer.atomic("cas", slot.get(), entry, compare=0))
            for found, is_left in zip(founds, left, strict=True):
                is_left.set(k.where(found.get() != 0, is_left.get(), k.const(0, u32)))
        return [slot.get() for _, slot in slots]

    def are_last(self, entries: Sequence[Value], numbers: Sequence[Value]) -> list[Value]:
        """Whether nothing after the indices of some numbers claims their elements, given where their claims lie."""
        found = [self.pointer.load(entry, order="relaxed.gpu")[0] for entry in entries]
        if self.spec.is_hashed:
            return [self.k.unpack(each)[0] == self.k.cast(x + 1, u32) for each, x in zip(found, numbers, strict=True)]
        return [each == self.k.cast(x + 1, self.spec.type) for each, x in zip(found, numbers, strict=True)]

    def is_last(self, at: Value, number: Value) -> Value:
        """Whether nothing after the index of a number claims the element; that index has."""
        k, pointer = self.k, self.pointer
        if not self.spec.is_hashed:
            has_claim: Value = pointer[at] == k.cast(number + 1, self.spec.type)
            return has_claim
        element, slot = self._slot(at)
        with k.loop():
            found = pointer[slot.get()]
            k.break_if((k.unpack(found)[1] == element) | (found == 0))
            slot.set(self._next(slot.get()))
        is_last: Value = k.unpack(pointer[slot.get()])[0] == k.cast(number + 1, u32)
        return is_last

    def _slot(self, at: Value) -> tuple[Value, Var]:
        """The element, and a variable with where its entry may be."""
        k, element = self.k, self.k.cast(at, u32)
        assert self.shift is not None
        return element, k.var(k.shr(element * MULTIPLIER, self.shift))

    def _next(self, slot: Value) -> Value:
        k = self.k
        assert self.shift is not None
        return (slot + 1) & k.shr(k.const(0xFFFFFFFF, u32), self.shift)


__all__ = ["ClaimRoom", "ClaimSpec", "Claims", "room_for"]
