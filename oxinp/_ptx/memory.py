"""Pointers, loads, stores and atomics.

Addresses are 64-bit in global and 32-bit in shared memory. A pointer knows its element type, so indices count
elements; `pred` elements are one byte in memory.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from oxinp._ptx import isa
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.isa import Op
from oxinp._ptx.types import Compound, Type, bf16, f16, f32, f64, i32, i64, pred, u8, u32, u64
from oxinp._ptx.value import Language, Value, immediate

# Cache operators: name -> (suffix after the space, PTX version). Names are PTX's own.
LOAD_CACHES: dict[str, tuple[str, isa.Version]] = {
    "": ("", (7, 0)),
    "nc": (".nc", (7, 0)),
    "nc.L1::no_allocate": (".nc.L1::no_allocate", (7, 4)),
    "nc.L1::evict_last": (".nc.L1::evict_last", (7, 4)),
    "L1::no_allocate": (".L1::no_allocate", (7, 4)),
    **{name: (f".{name}", (7, 0)) for name in ("ca", "cg", "cs", "lu", "cv")},
}
STORE_CACHES: dict[str, tuple[str, isa.Version]] = {
    "": ("", (7, 0)),
    "L1::no_allocate": (".L1::no_allocate", (7, 4)),
    **{name: (f".{name}", (7, 0)) for name in ("wb", "cg", "cs", "wt")},
}
# Memory orders: a loop around a load of these may be waiting for another thread.
_SCOPES = ("cta", "cluster", "gpu", "sys")
LOAD_ORDERS = ("", "volatile", *(f"{order}.{scope}" for order in ("relaxed", "acquire") for scope in _SCOPES))
STORE_ORDERS = ("", "volatile", *(f"{order}.{scope}" for order in ("relaxed", "release") for scope in _SCOPES))
ATOMIC_ORDERS = tuple(f"{order}.{scope}" for order in ("relaxed", "acquire", "release", "acq_rel") for scope in _SCOPES)
_INTEGER_ATOMICS = (i32, i64, u32, u64)
ATOMICS: dict[str, tuple[Type, ...]] = {
    "add": (i32, u32, u64, f32, f64),
    "min": _INTEGER_ATOMICS,
    "max": _INTEGER_ATOMICS,
    "and": (u32, u64),
    "or": (u32, u64),
    "xor": (u32, u64),
    "exch": (u32, u64),
    "cas": (u32, u64),
}
MAX_VECTOR_NBYTES = 16
CLUSTER = "shared::cluster"
"""The space of what lies in the shared memory of another block of the cluster."""
RANK_BIT = 24
"""Of an address there, as the emulator has it: above the bytes within a block, the other block's rank and 1."""


class Access(Frozen):
    """What a memory instruction touches: `width` elements of `type` in `space`, with a PTX memory order."""

    space: str
    type: Type
    width: int
    order: str
    atomic: str = ""

    @cached_property
    def nbytes(self) -> int:
        """Bytes of one access."""
        return self.type.nbytes * self.width


def _load(frame: Any, op: Op, address: Any, offset: Any) -> Any:
    rows = frame.load(op.detail, address, offset)
    return rows[0] if len(rows) == 1 else rows


def _store(frame: Any, op: Op, address: Any, offset: Any, *values: Any) -> None:
    frame.store(op.detail, address, offset, values)


def _atomic(frame: Any, op: Op, address: Any, offset: Any, *values: Any) -> Any:
    return frame.atomic(op.detail, address, offset, values)


_OPS: dict[tuple[Any, ...], Op] = {}


def _suffix(type: Type, width: int) -> str:
    vector = "" if width == 1 else f".v{width}"
    # ld and st have no 16-bit float types
    return f"{vector}.{type.untyped if type in (f16, bf16) else type.ptx}"


def _legal(what: str, name: str, legal: Any) -> None:
    if name not in legal:
        raise ValueError(f"{what} {name!r} is not one of {', '.join(repr(x) for x in legal)}")


def _no_cache_in_shared(cache: str, space: str) -> None:
    if cache and space != "global":
        raise ValueError(f"cache operator {cache!r}: only accesses to global memory have one")


def _prefix(order: str) -> str:
    return f".{order}" if order else ""


def _order_version(order: str) -> tuple[int, isa.Version]:
    return (90, (7, 8)) if order.endswith("cluster") else (80, (7, 0))


def load_op(space: str, type: Type, width: int, cache: str, order: str) -> Op:
    """Instruction form of one (vector) load."""
    key = ("ld", space, type, width, cache, order)
    op = _OPS.get(key)
    if op is None:
        _legal("load cache operator", cache, LOAD_CACHES)
        _legal("load order", order, LOAD_ORDERS)
        _no_cache_in_shared(cache, space)
        suffix, ptx = LOAD_CACHES[cache]
        sm, order_ptx = _order_version(order)
        names = [f"{{{i}}}" for i in range(width)]
        to = names[0] if width == 1 else "{{" + ", ".join(names) + "}}"
        text = f"ld{_prefix(order)}.{space}{suffix}{_suffix(type, width)} {to}, [{{{width}}}+{{{width + 1}}}];"
        op = _OPS[key] = Op(
            "ld",
            text,
            (type,) * width,
            (_address_type(space), i32),
            _load,
            isa.EFFECT,
            sm,
            max(ptx, order_ptx),
            spins=bool(order),
            detail=Access(space, type, width, order),
        )
    return op


def store_op(space: str, type: Type, width: int, cache: str, order: str) -> Op:
    """Instruction form of one (vector) store."""
    key = ("st", space, type, width, cache, order)
    op = _OPS.get(key)
    if op is None:
        _legal("store cache operator", cache, STORE_CACHES)
        _legal("store order", order, STORE_ORDERS)
        _no_cache_in_shared(cache, space)
        suffix, ptx = STORE_CACHES[cache]
        sm, order_ptx = _order_version(order)
        names = [f"{{{i + 2}}}" for i in range(width)]
        values = names[0] if width == 1 else "{{" + ", ".join(names) + "}}"
        text = f"st{_prefix(order)}.{space}{suffix}{_suffix(type, width)} [{{0}}+{{1}}], {values};"
        op = _OPS[key] = Op(
            "st",
            text,
            (),
            (_address_type(space), i32, *(type,) * width),
            _store,
            isa.EFFECT,
            sm,
            max(ptx, order_ptx),
            detail=Access(space, type, width, order),
        )
    return op


def atomic_op(space: str, name: str, type: Type, order: str) -> Op:
    """Instruction form of one atomic read-modify-write."""
    key = ("atom", space, name, type, order)
    op = _OPS.get(key)
    if op is None:
        _legal("atomic", name, ATOMICS)
        _legal("atomic order", order, ATOMIC_ORDERS)
        if type not in ATOMICS[name]:
            raise TypeError(f"atomic {name} has no {type} form; it has {', '.join(t.name for t in ATOMICS[name])}")
        num_values = 2 if name == "cas" else 1
        suffix = type.untyped if name in ("and", "or", "xor", "exch", "cas") else type.ptx
        values = ", ".join(f"{{{i + 3}}}" for i in range(num_values))
        sm, ptx = _order_version(order)
        op = _OPS[key] = Op(
            "atom",
            f"atom.{order}.{space}.{name}.{suffix} {{0}}, [{{1}}+{{2}}], {values};",
            (type,),
            (_address_type(space), i32, *(type,) * num_values),
            _atomic,
            isa.EFFECT,
            sm,
            ptx,
            spins=True,
            detail=Access(space, type, 1, order, name),
        )
    return op


def _address_type(space: str) -> Type:
    return u64 if space == "global" else u32


class Pointer:
    """A typed address: ``p[i]`` loads, ``p[i] = v`` stores, counted in elements.

    Parameters
    ----------
    builder : Language
    base : Value
        Address, u64 in global memory and u32 in shared.
    type : Type
        Element type.
    space : str
        ``"global"`` or ``"shared"``.
    access : str
        ``"r"``, ``"w"`` or ``"rw"``.
    shape : tuple of int
        Extents of a shared array, for indexing with several integers; empty otherwise.
    offset : int
        Constant bytes added to `base`.
    """

    __slots__ = ("access", "base", "builder", "offset", "shape", "space", "type")

    def __init__(
        self,
        builder: Language,
        base: Value,
        type: Type,
        space: str = "global",
        access: str = "rw",
        shape: tuple[int, ...] = (),
        offset: int = 0,
    ) -> None:
        self.builder = builder
        self.base = base
        self.type = type
        self.space = space
        self.access = access
        self.shape = shape
        self.offset = offset

    def __repr__(self) -> str:
        return f"<{self.space} pointer to {self.type}>"

    def __getitem__(self, index: Any) -> Value:
        return self.load(index)[0]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.store(index, (value,))

    def load(self, index: Any = 0, width: int = 1, cache: str = "", order: str = "") -> tuple[Value, ...]:
        """`width` consecutive elements from `index` on, in instructions of up to 16 bytes.

        The address must be aligned to the smaller of 16 bytes and ``width * type.nbytes``.

        Parameters
        ----------
        index : int, Value or tuple of them
        width : int
            Power of two.
        cache : str
            A key of `LOAD_CACHES`.
        order : str
            One of `LOAD_ORDERS`.
        """
        if "r" not in self.access:
            raise TypeError("this pointer parameter was declared write-only")
        k = self.builder
        base, offset = self._locate(index)
        if isinstance(self.type, Compound):
            return self._load_compound(self.type, base, offset, width, cache, order)
        if self.type is pred:
            return tuple(
                k.cast(v, pred) for v in Pointer(k, base, u8, self.space, "r", (), offset).load(0, width, cache, order)
            )
        values: list[Value] = []
        for start, count, type, parts in _pieces(self.type, width):
            op = load_op(self.space, type, count, cache, order)
            words = k.emit_op(op, base, immediate(offset + start, i32))
            for word in words if isinstance(words, tuple) else (words,):
                values += k.split_word(word, self.type) if parts > 1 else [word]
        return tuple(values)

    def store(self, index: Any, values: Any, cache: str = "", order: str = "") -> None:
        """Store consecutive elements from `index` on; alignment as for `load`."""
        if "w" not in self.access:
            raise TypeError("this pointer parameter was declared read-only")
        k = self.builder
        base, offset = self._locate(index)
        values = list(values)
        if isinstance(self.type, Compound):
            self._store_compound(self.type, base, offset, [k.as_value(v, self.type) for v in values], cache, order)
            return
        if self.type is pred:
            Pointer(k, base, u8, self.space, "w", (), offset).store(
                0, [k.cast(k.as_value(v, pred), u8) for v in values], cache, order
            )
            return
        values = [k.operand(v, self.type) for v in values]
        position = 0
        for start, count, type, parts in _pieces(self.type, len(values)):
            if parts > 1:
                chunk = values[position : position + count * parts]
                words = [k.join_word(chunk[i : i + parts], self.type) for i in range(0, len(chunk), parts)]
            else:
                words = values[position : position + count]
            position += count * parts
            k.emit_op(store_op(self.space, type, count, cache, order), base, immediate(offset + start, i32), *words)

    def _load_compound(
        self, type: Compound, base: Value, offset: int, width: int, cache: str, order: str
    ) -> tuple[Value, ...]:
        k, parts = self.builder, type.parts
        if type.is_vector:
            pointer = Pointer(k, base, parts[0], self.space, "r", (), offset)
            flat = pointer.load(0, width * len(parts), cache, order)
            return tuple(k.compound(type, *flat[i : i + len(parts)]) for i in range(0, len(flat), len(parts)))
        return tuple(
            k.compound(
                type, *[p.load(0, 1, cache, order)[0] for p in self._parts(type, base, offset + i * type.nbytes)]
            )
            for i in range(width)
        )

    def _store_compound(
        self, type: Compound, base: Value, offset: int, values: list[Value], cache: str, order: str
    ) -> None:
        if type.is_vector:
            pointer = Pointer(self.builder, base, type.parts[0], self.space, "w", (), offset)
            pointer.store(0, [part for value in values for part in value.parts], cache, order)
            return
        for i, value in enumerate(values):
            pointers = self._parts(type, base, offset + i * type.nbytes)
            for pointer, part in zip(pointers, value.parts, strict=True):
                pointer.store(0, (part,), cache, order)

    def _parts(self, type: Compound, base: Value, offset: int) -> list[Pointer]:
        """Pointers to the parts of one element."""
        return [
            Pointer(self.builder, base, part, self.space, self.access, (), offset + start)
            for part, start in zip(type.parts, type.offsets, strict=True)
        ]

    def atomic(self, name: str, index: Any, value: Any, *, compare: Any = None, order: str = "relaxed.gpu") -> Value:
        """Atomic read-modify-write of one element; returns what was there.

        Parameters
        ----------
        name : str
            A key of `ATOMICS`; ``"cas"`` stores `value` where the element equals `compare`.
        """
        if self.access != "rw":
            raise TypeError("an atomic reads and writes: declare the pointer parameter 'rw'")
        base, offset = self._locate(index)
        operands = [value] if compare is None else [compare, value]
        op = atomic_op(self.space, name, self.type, order)
        result = self.builder.emit_op(op, base, immediate(offset, i32), *operands)
        assert isinstance(result, Value)
        return result

    def at(self, index: Any) -> Pointer:
        """The pointer moved by `index` elements; negative Python ints move back."""
        base, offset = self._locate(index)
        return Pointer(self.builder, base, self.type, self.space, self.access, (), offset)

    def offset_bytes(self, nbytes: Any) -> Pointer:
        """The pointer moved by a number of bytes."""
        base, offset = self._move(nbytes, 1)
        return Pointer(self.builder, base, self.type, self.space, self.access, (), offset)

    def view(self, type: Type) -> Pointer:
        """The same address as a pointer to another element type."""
        return Pointer(self.builder, self.base, type, self.space, self.access, (), self.offset)

    def address(self, index: Any = 0) -> Value:
        """Address of an element as a number."""
        base, offset = self._locate(index)
        return base + offset if offset else base

    def _locate(self, index: Any) -> tuple[Value, int]:
        if isinstance(index, tuple):
            if len(index) != len(self.shape):
                raise IndexError(f"{len(index)} indices for an array of {len(self.shape)} dimensions")
            flat = index[0]
            for extent, i in zip(self.shape[1:], index[1:], strict=True):
                flat = flat * extent + i
            index = flat
        return self._move(index, self.type.nbytes)

    def _move(self, index: Any, nbytes: int) -> tuple[Value, int]:
        if not isinstance(index, Value):
            return self.base, self.offset + index.__index__() * nbytes
        k = self.builder
        if not index.type.is_integer:
            raise TypeError(f"an index has to be an integer, not {index.type}")
        if index.type.bits < 32:
            index = k.cast(index, i32 if index.type.kind == "i" else u32)
        base_type = self.base.type
        if base_type is u64 and index.type.bits == 32:
            # the addend has the signedness of the index
            wide = i64 if index.type is i32 else u64
            moved = k.emit("mad_wide", index, immediate(nbytes, index.type), k.bitcast(self.base, wide))
            return k.bitcast(moved, u64), self.offset
        if index.type.bits != base_type.bits:
            index = k.cast(index, base_type)
        elif index.type is not base_type:
            index = k.bitcast(index, base_type)
        if nbytes == 1:
            return index + self.base, self.offset
        return k.emit("mad", index, nbytes, self.base), self.offset


def _pieces(type: Type, width: int) -> list[tuple[int, int, Type, int]]:
    """Split `width` elements into instructions: (byte offset, vector length, word type, elements per word)."""
    if width < 1 or width & (width - 1):
        raise ValueError(f"vector width must be a power of two, not {width}")
    nbytes = width * type.nbytes
    parts = 1
    if width * type.bits > 32 and type.bits < 32:  # narrow elements travel in 32-bit words
        type, parts = u32, 32 // type.bits
    per_instruction = min(nbytes, MAX_VECTOR_NBYTES)
    count = per_instruction // type.nbytes
    return [(start, count, type, parts) for start in range(0, nbytes, per_instruction)]


__all__ = ["ATOMICS", "Access", "Pointer", "atomic_op", "load_op", "store_op"]
