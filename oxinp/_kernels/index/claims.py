"""Claims: which of several writes to an element is the last one.

An element's claim is the greatest number, from 1 on, of an index that names it: in a word per element, or, where
elements are many more than indices, in a hash table with open addressing, whose entries have the element in their upper
half and the number below, so that the greatest entry of an element has its last number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from oxinp._ptx.types import Type, u32, u64

if TYPE_CHECKING:
    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value, Var

ELEMENTS_PER_INDEX = 8
"""Elements per index up to which a word for each is filled with zeros faster than a table is searched."""
MAX_HASHED, MAX_HASHED_EXTENT = 1 << 30, 1 << 32
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
        return ClaimRoom(ClaimSpec(u64, is_hashed=True), 1 << (2 * count - 1).bit_length())
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
