"""Operations on values that are more than one row of the instruction table, and those of warps and blocks."""

from __future__ import annotations

from operator import is_, methodcaller
from typing import Any

from oxinp._ptx.isa import ALIAS, Op
from oxinp._ptx.kernel import Instr
from oxinp._ptx.tracer import Tracer
from oxinp._ptx.types import UNSIGNED, Type, f64, i32, pred, u16, u32
from oxinp._ptx.value import Value
from oxinp._ptx.warp import FULL, shuffle

# ptxas 13.0 makes one instruction of max(max(a, -b), c) for sm_90 and loses the sign. Of 32 bits it finds the negation
# in products and other sums too, so that these extrema are compared and chosen; from others `isa` keeps it.
_MISCOMPILED = frozenset({i32})


class Operations(Tracer):
    """The part of `Builder` that computes."""

    def compare(self, name: str, a: Any, b: Any) -> Value:
        """``lt le gt ge eq ne``; predicates have ``eq`` and ``ne``."""
        if isinstance(a, Value) and a.type is pred and name in ("eq", "ne"):
            different = self.emit("xor_", a, b)
            return different if name == "ne" else ~different
        return self.emit(name, a, b)

    def neg(self, a: Value) -> Value:
        """Negation; that of integers wraps."""
        return self.emit("sub", 0, a) if a.type.is_integer else self.emit("neg", a)

    def abs(self, a: Value) -> Value:
        """Absolute value; the value itself for unsigned integers."""
        if a.type.kind == "u":
            return a
        return self.emit("abs", a)

    def isnan(self, a: Value) -> Value:
        """Whether a float is NaN."""
        return self.emit("isnan", a, a)

    def where(self, predicate: Value, a: Any, b: Any) -> Value:
        """`a` where the predicate holds, else `b`."""
        first = a if isinstance(a, Value) else b
        if not isinstance(first, Value):
            raise TypeError("k.where of two constants: say their type with k.const(value, type)")
        if first.type is pred:
            chosen: Value = (predicate & a) | (~predicate & b)
            return chosen
        return self.emit("selp", a, b, predicate, types=(first.type,))

    def min(self, a: Any, b: Any) -> Value:
        """Smaller of two; of a number and NaN the number."""
        return self._least_or_greatest("min", "lt", a, b)

    def max(self, a: Any, b: Any) -> Value:
        """Larger of two; of a number and NaN the number."""
        return self._least_or_greatest("max", "gt", a, b)

    def _least_or_greatest(self, name: str, comparison: str, a: Any, b: Any) -> Value:
        first = a if isinstance(a, Value) else b
        if first.type not in _MISCOMPILED:
            return self.emit(name, a, b)
        a, b = self.as_value(a, first.type), self.as_value(b, first.type)
        return self.where(self.compare(comparison, a, b), a, b)

    def min_nan(self, a: Any, b: Any) -> Value:
        """Smaller of two, NaN if either is (``numpy.minimum``)."""
        return self._extremum("min", a, b)

    def max_nan(self, a: Any, b: Any) -> Value:
        """Larger of two, NaN if either is (``numpy.maximum``)."""
        return self._extremum("max", a, b)

    def _extremum(self, name: str, a: Any, b: Any) -> Value:
        first = a if isinstance(a, Value) else b
        if not first.type.is_float:
            return self.min(a, b) if name == "min" else self.max(a, b)
        if first.type is not f64:
            return self.emit(name + "_nan", a, b)
        # f64 has no .NaN form: a NaN operand is its own sum with the other
        a, b = self.as_value(a, f64), self.as_value(b, f64)
        return self.where(self.emit("isnan", a, b), a + b, self.emit(name, a, b))

    def shl(self, a: Value, count: Any) -> Value:
        """Left shift; counts of the width and above give 0."""
        return self.emit("shl", a, self._count(count), types=(a.type,))

    def shr(self, a: Value, count: Any) -> Value:
        """Right shift, arithmetic on signed types."""
        return self.emit("shr", a, self._count(count), types=(a.type,))

    def _count(self, count: Any) -> Any:
        return self.cast(count, u32) if isinstance(count, Value) and count.type is not u32 else count

    def cvt(self, value: Value, to: Type, rounding: str = "") -> Value:
        """PTX conversion; `rounding` is ``rzi rni rmi rpi`` for float to integer (saturating) or to integral float."""
        return self.emit(f"cvt_{rounding}" if rounding else "cvt", value, types=(to, value.type))

    def bitcast(self, value: Value, to: Type) -> Value:
        """The same bits as another type of the same width; costs nothing."""
        if value.type is to:
            return value
        if value.type.register != to.register or value.type.bits != to.bits:
            raise TypeError(f"bitcast from {value.type} to {to}: the widths differ")
        self.operand(value, value.type)
        result = Value(self, self._num_registers, to, value.text, self._current.scope)
        self._num_registers += 1
        op = _BITCASTS.get((value.type, to)) or _bitcast(value.type, to)
        self._current.nodes.append(Instr(op, (result,), (value,)))
        return result

    def split_word(self, word: Value, type: Type) -> list[Value]:
        """The 2 or 4 narrow elements of a u32."""
        if type.bits == 16:
            values = [self.bitcast(half, type) for half in self.unpack(word, types=(u32,))]
        else:
            values = [self.cast(word >> shift if shift else word, type) for shift in (0, 8, 16, 24)]
        self._split[id(values[0])] = word, values
        return values

    def join_word(self, values: list[Any], type: Type) -> Value:
        """A u32 of 2 or 4 narrow elements; the word that they were split from, if they were."""
        word, parts = self._split.get(id(values[0]), (None, ()))
        if word is not None and len(values) == len(parts) and all(map(is_, values, parts)):
            return word
        values = [self.as_value(v, type) for v in values]
        if type.bits == 16:
            return self.emit("pack", *[self.bitcast(v, u16) for v in values], types=(u16,))
        words = [self.cast(self.bitcast(v, UNSIGNED[8]), u32) for v in values]
        low, high = (self.emit("prmt", words[i], words[i + 1], 0x0040) for i in (0, 2))
        return self.emit("prmt", low, high, 0x5410)

    # -- warps and blocks

    def shfl_up(self, value: Value, lane: Any, width: int = 32, members: Any = FULL) -> Value:
        """`value` of the lane `lane` below."""
        return shuffle(self, "up", value, lane, width, members)

    def shfl_down(self, value: Value, lane: Any, width: int = 32, members: Any = FULL) -> Value:
        """`value` of the lane `lane` above."""
        return shuffle(self, "down", value, lane, width, members)

    def shfl_bfly(self, value: Value, lane: Any, width: int = 32, members: Any = FULL) -> Value:
        """`value` of the lane whose number is this one's xor `lane`."""
        return shuffle(self, "bfly", value, lane, width, members)

    def shfl_idx(self, value: Value, lane: Any, width: int = 32, members: Any = FULL) -> Value:
        """`value` of lane number `lane`."""
        return shuffle(self, "idx", value, lane, width, members)

    def ballot(self, predicate: Value, members: Any = FULL) -> Value:
        """Word of the lanes in which the predicate holds."""
        return self.emit("vote_ballot", predicate, members)

    def any(self, predicate: Value, members: Any = FULL) -> Value:
        """Whether the predicate holds in any lane of the warp."""
        return self.emit("vote_any", predicate, members)

    def all(self, predicate: Value, members: Any = FULL) -> Value:
        """Whether the predicate holds in all lanes of the warp."""
        return self.emit("vote_all", predicate, members)

    def redux(self, name: str, value: Value, members: Any = FULL) -> Value:
        """Reduction over the warp in one instruction: ``add min max`` (i32, u32), ``and or xor`` (u32)."""
        return self.emit(f"redux_{name}", value, members)

    def warp_sync(self, members: Any = FULL) -> None:
        """Wait for the warp's lanes and order their memory accesses."""
        self.emit("warp_sync", members, types=())

    def barrier(self, number: Any = 0, count: Any = None) -> None:
        """Wait for the block's threads, or for `count` of them at barrier `number`; orders memory accesses."""
        if count is None:
            self.emit("barrier", number, types=())
        else:
            self.emit("barrier_count", number, count, types=())

    def fence(self, scope: str = "gpu", order: str = "acq_rel") -> None:
        """Memory fence; scope ``cta``, ``cluster``, ``gpu`` or ``sys``."""
        self.emit(f"fence_{order}_{scope}", types=())


_BITCASTS: dict[tuple[Type, Type], Op] = {}


def _bitcast(source: Type, to: Type) -> Op:
    op = _BITCASTS[source, to] = Op("bitcast", "", (to,), (source,), methodcaller("view", to.dtype), ALIAS)
    return op
