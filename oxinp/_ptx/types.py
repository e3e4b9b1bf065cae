"""The machine types: what a register or a memory element holds, and tuples of them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from oxinp._ptx.frozen import Frozen


class Type(Frozen, eq=False):
    """One machine type. Types are singletons and compare by identity.

    Attributes
    ----------
    name : str
        NumPy-like name, ``"f32"``.
    ptx : str
        Type suffix of instructions, ``"s32"`` for ``i32``.
    bits : int
        Width of the value; 1 for ``pred``, which occupies one byte in memory.
    kind : str
        ``"p"`` predicate, ``"i"`` signed, ``"u"`` unsigned, ``"f"`` floating point; of a `Compound`, ``"c"`` complex
        and ``"t"`` any other tuple.
    dtype : numpy.dtype
        How the emulator and host arrays hold it. ``bf16``, ``e4m3`` and ``e5m2`` are held as their bits.
    register : str
        Register class: ``"p"``, ``"h"`` (16 bits), ``"r"`` (32) or ``"d"`` (64).
    """

    name: str
    ptx: str
    bits: int
    kind: str
    dtype: np.dtype
    register: str
    struct_code: str

    @cached_property
    def nbytes(self) -> int:
        """Bytes of one element in memory."""
        return self.dtype.itemsize

    @property
    def is_float(self) -> bool:
        """Whether this is a floating-point type."""
        return self.kind == "f"

    @cached_property
    def is_complex(self) -> bool:
        """Whether this is a complex type."""
        return self.kind == "c"

    @property
    def is_integer(self) -> bool:
        """Whether this is a signed or unsigned integer type."""
        return self.kind in "iu"

    @property
    def parts(self) -> tuple[Type, ...]:
        """The machine types that a value consists of: this one."""
        return (self,)

    @property
    def untyped(self) -> str:
        """Suffix of the bit type of its register, ``"b32"``: bytes live in 16 bits; ``"pred"`` for predicates."""
        return "pred" if self.kind == "p" else f"b{max(self.bits, 16)}"

    def __repr__(self) -> str:
        return self.name


class Compound(Type):
    """A fixed tuple of machine types: the type of complex numbers, and of what reductions carry along.

    A value is a tuple of registers (`compound.CompoundValue`). In memory the parts follow each other as in a C
    structure, each at a multiple of its own size: c64 is two f32 in 8 bytes, c128 two f64 in 16, (f32, i64) 16 bytes
    with a gap of 4. Where the parts are 2 or 4 of one type, they are loaded and stored together, in accesses of up to
    16 bytes, and elements have to lie at multiples of that. As a kernel parameter, the parts are parameters, in order.

    Attributes
    ----------
    parts : tuple of Type
        Machine types.
    offsets : tuple of int
        Bytes from the element to each part.
    """

    if TYPE_CHECKING:
        _parts: tuple[Type, ...]
        offsets: tuple[int, ...]

    def __init__(self, name: str, parts: tuple[Type, ...], dtype: np.dtype | None = None) -> None:
        fields = np.dtype([(f"part{i}", part.dtype) for i, part in enumerate(parts)], align=True)
        bits = sum(part.bits for part in parts)
        Type.__init__(self, name, "", bits, "t" if dtype is None else "c", dtype or fields, "", "")
        vars(self).update(_parts=parts, offsets=tuple(field[1] for field in fields.fields.values()))  # type: ignore[union-attr]

    @property
    def parts(self) -> tuple[Type, ...]:
        """The machine types that a value consists of."""
        return self._parts

    @property
    def is_vector(self) -> bool:
        """Whether the parts are 2 or 4 of one type, which one access can take."""
        return len(self._parts) in {2, 4} and len(set(self._parts)) == 1


pred = Type("pred", "pred", 1, "p", np.dtype(np.bool_), "p", "?")
i8 = Type("i8", "s8", 8, "i", np.dtype(np.int8), "h", "b")
i16 = Type("i16", "s16", 16, "i", np.dtype(np.int16), "h", "h")
i32 = Type("i32", "s32", 32, "i", np.dtype(np.int32), "r", "i")
i64 = Type("i64", "s64", 64, "i", np.dtype(np.int64), "d", "q")
u8 = Type("u8", "u8", 8, "u", np.dtype(np.uint8), "h", "B")
u16 = Type("u16", "u16", 16, "u", np.dtype(np.uint16), "h", "H")
u32 = Type("u32", "u32", 32, "u", np.dtype(np.uint32), "r", "I")
u64 = Type("u64", "u64", 64, "u", np.dtype(np.uint64), "d", "Q")
f16 = Type("f16", "f16", 16, "f", np.dtype(np.float16), "h", "e")
bf16 = Type("bf16", "bf16", 16, "f", np.dtype(np.uint16), "h", "H")
f32 = Type("f32", "f32", 32, "f", np.dtype(np.float32), "r", "f")
f64 = Type("f64", "f64", 64, "f", np.dtype(np.float64), "d", "d")

# Held as bits, for wgmma alone: no other instruction here takes them.
e4m3 = Type("e4m3", "e4m3", 8, "f", np.dtype(np.uint8), "h", "B")
e5m2 = Type("e5m2", "e5m2", 8, "f", np.dtype(np.uint8), "h", "B")

c64 = Compound("c64", (f32, f32), np.dtype(np.complex64))
c128 = Compound("c128", (f64, f64), np.dtype(np.complex128))

ALL = (pred, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64)
BY_NAME = {type_.name: type_ for type_ in ALL}

# The 2x wider and the same-width companions that some instructions name.
WIDER = {i8: i16, i16: i32, i32: i64, u8: u16, u16: u32, u32: u64}
UNSIGNED = {8: u8, 16: u16, 32: u32, 64: u64}
SIGNED = {8: i8, 16: i16, 32: i32, 64: i64}

_BY_DTYPE = {type_.dtype: type_ for type_ in (*ALL, c64, c128) if type_ is not bf16}
_COMPOUNDS: dict[tuple[Type, ...], Compound] = {}


def compound(*parts: Type) -> Compound:
    """The type of tuples of these machine types; the same object every time."""
    type_ = _COMPOUNDS.get(parts)
    if type_ is None:
        name = "_".join(part.name for part in parts)
        type_ = _COMPOUNDS[parts] = Compound(name, parts)
    return type_


def from_dtype(dtype: np.dtype | type) -> Type:
    """Type that holds a NumPy dtype in registers (``bool`` gives ``pred``, complex ones a `Compound`).

    Raises
    ------
    TypeError
        No machine type holds it (object, str, longdouble, non-native byte order, ...).
    """
    dtype = np.dtype(dtype)
    try:
        return _BY_DTYPE[dtype]
    except KeyError:
        raise TypeError(f"no machine type holds dtype {dtype}") from None
