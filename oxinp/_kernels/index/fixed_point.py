"""Sums of floats at indices in fixed point: exact but for one rounding, or nearly, and the same whatever the order.

Algorithm: where all values, and the elements that a bucket has already, are finite and their exponents not too far
apart, they are added as integers relative to the smallest exponent that the words of a sum have room for: such sums are
exact. Otherwise a block first finds the largest exponent of each element, see `exponents`, then adds values as integers
relative to that: `point` bits of a value as large as the largest are in front of the point, and for f64 32 behind it.
An element is its sum rounded once, with what was there among the addends. Infinities and NaNs set flags instead.
Which of both it is depends on the data alone, so that the same input gives the same bits.

Parts of a bucket that is cut are joined in memory in the second way: `WHOLE` finds exponents, `CUT` adds, and the last
part to be joined rounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxinp._kernels.index.bucket_sums import BLOCK, HAS_PARTS, WHOLE, BucketSums, SumsSpec
from oxinp._kernels.index.exponents import BIAS, MANTISSA, NEGATIVE_ZERO, OFFSET, SMALLEST, ZERO, code_of, special
from oxinp._ptx.types import f32, f64, i32, i64, u32, u64

if TYPE_CHECKING:
    from oxinp._ptx.value import Value

SLACK = 10  # by which exponents of elements that are there may exceed those of values
# What floats have that are no finite numbers, in the lowest word of their sum.
POSITIVE, NEGATIVE, NAN = 1, 2, 4


class FixedPointSums(BucketSums):
    """A kernel of floats while it is built."""

    def __init__(self, spec: SumsSpec) -> None:
        super().__init__(spec)
        self.bits = u32 if spec.type is f32 else u64
        self.mantissa, self.bias, self.special = MANTISSA[self.bits], BIAS[self.bits], special(self.bits)
        *self.counted, self.codes = self.words
        self.is_plain = self.k.dynamic_shared(u32, 1)

    def work(self, bucket: Value, part: Value, parts: Value, slot: Value) -> None:
        k, spec = self.k, self.spec
        own, size = self.elements(bucket)
        is_cut = parts > 1
        first = slot * spec.room
        codes, sums = self.kept_codes.at(first), self.kept.at(first * 2)
        if spec.part == WHOLE:
            lowest = self.lowest()
            with k.when(is_cut & (k.tid == 0)):
                self.extremes.store(HAS_PARTS, [k.const(1, u32)], order="relaxed.gpu")
            self.begin_exactly(own, size, lowest, is_cut)
            with k.when(self.is_plain[0] != 0):
                self.sum_exactly(bucket, own, size, lowest)
            with k.otherwise():
                self.find_codes(bucket, part, parts, size)
                with k.when(is_cut), k.range(k.tid, size, BLOCK) as element:
                    code = self.codes[element]
                    with k.when(code != 0):
                        codes.atomic("max", element, code)
                    with k.when(part == 0):  # for the next launch
                        sums[element * 2], sums[element * 2 + 1] = 0, 0
                with k.otherwise():
                    self.sum_up(bucket, part, parts, own, size)
                    with k.range(k.tid, size, BLOCK) as element:
                        code = self.codes[element]
                        with k.when(code != 0):
                            counted = [word[element] for word in self.counted]
                            own[k.cast(element, i64) * self.stride] = self.rounded(code, counted)
        else:
            with k.when(is_cut):
                self.join(bucket, part, parts, own, size, codes, sums)
                with k.when(self.is_last_part(parts, slot)), k.range(k.tid, size, BLOCK) as element:
                    self.finish(element, own, codes, sums)

    # -- exactly

    def lowest(self) -> Value:
        """The lowest code that exact sums have room for; one above all where there are none."""
        k = self.k
        if self.single is not None:
            code = code_of(k, k.bitcast(self.single, self.bits))
            return k.where(code == self.special, code, self.lowest_below(code))
        highest, depth = self.extremes[0], self.extremes[1]
        lowest = self.lowest_below(highest)
        has_room = (highest != self.special) & (self.special - depth >= lowest)
        return k.where(has_room, lowest, k.const(self.special, u32))

    def lowest_below(self, highest: Value) -> Value:
        """The lowest code that there is room for, given the highest one of values."""
        return self.k.max(self.k.max(highest + SLACK, self.limit + SMALLEST) - self.limit, SMALLEST)

    def begin_exactly(self, own: Any, size: Value, lowest: Value, is_cut: Value) -> None:
        """Begin sums with the elements that are there, and find out whether they and all values have room."""
        k = self.k
        may_be = (lowest != self.special) & ~is_cut
        with k.when(k.tid == 0):
            self.is_plain[0] = k.cast(may_be, u32)
        k.barrier()
        with k.when(may_be), k.range(k.tid, size, BLOCK) as element:
            there = own[k.cast(element, i64) * self.stride]
            code = code_of(k, k.bitcast(there, self.bits))
            fits = (code == ZERO) | ((code >= lowest) & (code <= lowest + self.limit))
            with k.when(~fits | (code == self.special)):
                self.is_plain.atomic("min", 0, 0, order="relaxed.cta")
            for word, value in zip(self.words, self.exact(there, lowest), strict=True):
                word[element] = value
        k.barrier()

    def sum_exactly(self, bucket: Value, own: Any, size: Value, lowest: Value) -> None:
        """Add all updates of a bucket that is not cut."""
        k = self.k
        zero, one = k.const(0, u32), k.const(1, u32)
        self.add_up(bucket, zero, one, lambda x: self.exact(x, lowest))
        k.barrier()
        unit = k.cast(lowest, i32) - (OFFSET + self.bias + self.mantissa)
        with k.range(k.tid, size, BLOCK) as element:
            words = [word[element] for word in self.words]
            low = k.pack(words[0], words[1])
            high = self.wide(words[2]) if len(words) == 3 else k.pack(words[2], words[3])
            own[k.cast(element, i64) * self.stride] = self.nearest(high, low, unit)

    def exact(self, x: Value, lowest: Value) -> list[Value]:
        """A value relative to a code, in words, negative ones as complements."""
        k = self.k
        bits = k.bitcast(x, self.bits)
        field = k.shr(bits, self.mantissa) & ((1 << (self.bits.bits - 1 - self.mantissa)) - 1)
        fraction = k.cast(bits & ((1 << self.mantissa) - 1), u64)
        digits = k.where(field != 0, fraction | (1 << self.mantissa), fraction)
        shift = k.max(k.cast(field, u32), 1) + OFFSET - lowest  # of zeros any
        low = k.shl(digits, shift)
        high = k.where(shift == 0, k.const(0, u64), k.shr(digits, 64 - shift))
        is_negative = k.shr(bits, self.bits.bits - 1) != 0
        high = k.where(is_negative, self.complement(high) + k.cast(low == 0, u64), high)
        low = k.where(is_negative, k.const(0, u64) - low, low)
        return [*k.unpack(low), *k.unpack(high)][: len(self.words)]

    # -- relative to the largest

    def find_codes(self, bucket: Value, part: Value, parts: Value, size: Value) -> None:
        """Find the codes of updates alone."""
        k = self.k
        with k.range(k.tid, size, BLOCK) as element:
            self.codes[element] = 0
        k.barrier()

        def take(element: Value, value: Any) -> None:
            self.codes.atomic("max", element, self.code(value), order="relaxed.cta")

        self.go_through(bucket, part, parts, take)
        k.barrier()

    def sum_up(self, bucket: Value, part: Value, parts: Value, own: Any, size: Value) -> None:
        """Add up what elements get; the first part of a bucket also what is there."""
        k = self.k
        with k.range(k.tid, size, BLOCK) as element:
            code = self.codes[element]
            for word in self.counted:
                word[element] = 0
            with k.when(code != 0):
                there = own[k.cast(element, i64) * self.stride]
                code = k.max(code, self.code(there))
                self.codes[element] = code
                with k.when(part == 0):
                    self.take(element, there)
        k.barrier()
        self.go_through(bucket, part, parts, self.take)
        k.barrier()

    def join(
        self, bucket: Value, part: Value, parts: Value, own: Any, size: Value, codes: Any, sums: Any
    ) -> None:  # fmt: skip
        """Add up a part of a bucket that is cut, and add that to what other parts have."""
        k = self.k
        with k.range(k.tid, size, BLOCK) as element:
            self.codes[element] = codes[element]
        k.barrier()
        self.sum_up(bucket, part, parts, own, size)
        with k.range(k.tid, size, BLOCK) as element:
            code = self.codes[element]
            lowest, *others = [word[element] for word in self.counted]
            with k.when(code == self.special):
                sums.atomic("or", element * 2, k.cast(lowest, u64))
            with k.when((code != 0) & (code != self.special)):
                if len(others) > 1:
                    sums.atomic("add", element * 2 + 1, k.pack(*others))
                    sums.atomic("add", element * 2, k.cast(lowest, u64))
                else:
                    sums.atomic("add", element * 2 + 1, k.pack(lowest, others[0]))

    def is_last_part(self, parts: Value, slot: Value) -> Value:
        """Whether all other parts of a bucket have been joined, whose sums are there then."""
        k = self.k
        k.fence("gpu")
        k.barrier()
        with k.when(k.tid == 0):
            before = self.joined.atomic("add", slot, 1)
            self.is_plain[0] = k.cast(before == parts - 1, u32)
            k.fence("gpu")
        k.barrier()
        is_last: Value = self.is_plain[0] != 0
        return is_last

    def finish(self, element: Value, own: Any, codes: Any, sums: Any) -> None:
        """Round what the parts of a bucket that is cut have together."""
        k = self.k
        found = codes[element]
        with k.when(found != 0):
            at = k.cast(element, i64) * self.stride
            code = k.max(found, self.code(own[at]))
            low, high = [sums.load(element * 2 + i, order="relaxed.gpu")[0] for i in range(2)]
            lowest, over = k.unpack(low)
            if len(self.counted) > 2:
                counted = [lowest, *k.unpack(high + k.cast(over, u64))]
            else:
                counted = list(k.unpack(k.where(code == self.special, low, high)))
            own[at] = self.rounded(code, counted)

    def code(self, x: Value) -> Value:
        """The code of a value."""
        return code_of(self.k, self.k.bitcast(x, self.bits))

    def take(self, element: Value, x: Value) -> None:
        """Add a value to the sum of an element."""
        k = self.k
        code = self.codes[element]
        with k.when(code == self.special):
            self.words[0].atomic("or", element, self.flags(x), order="relaxed.cta")
        with k.otherwise():
            self.add(element, self.fixed(x, code))

    def flags(self, x: Value) -> Value:
        """The flags of a value."""
        k = self.k
        is_infinite = k.abs(x) == k.const(float("inf"), x.type)
        infinite = k.where(x > 0, k.const(POSITIVE, u32), k.const(NEGATIVE, u32))
        return k.where(k.isnan(x), k.const(NAN, u32), k.where(is_infinite, infinite, k.const(0, u32)))

    def fixed(self, x: Value, code: Value) -> list[Value]:
        """A value relative to a code, rounded, in words, negative ones as complements."""
        k = self.k
        exponent = self.point + (self.bias + OFFSET) - k.cast(code, i32)  # of what values are multiplied by
        if len(self.counted) == 2:
            scaled = k.cast(x, f64) * self.power(exponent)
            return list(k.unpack(k.bitcast(k.cvt(scaled, i64, "rni"), u64)))
        half = exponent >> 1
        scaled = x * self.power(half) * self.power(exponent - half)
        whole = k.cvt(scaled, i64, "rzi")
        rest = k.cvt((scaled - k.cvt(whole, f64)) * k.const(2.0**32, f64), i64, "rni")
        lowest, _ = k.unpack(k.bitcast(rest, u64))
        return [lowest, *k.unpack(k.bitcast(whole + (rest >> 32), u64))]

    # -- rounding

    def rounded(self, code: Value, counted: list[Value]) -> Value:
        """The value that a sum relative to a code rounds to."""
        k, type_ = self.k, self.spec.type
        unit = k.cast(code, i32) - (self.bias + OFFSET) - self.point
        if len(counted) == 2:
            sign = k.cast(k.bitcast(counted[1], i32) >> 31, i64)
            finite = self.nearest(k.bitcast(sign, u64), k.pack(*counted), unit)
        else:
            finite = self.nearest(self.wide(counted[2]), k.pack(counted[0], counted[1]), unit - 32)
        finite = k.where(code == NEGATIVE_ZERO, k.const(-0.0, type_), finite)
        flags = counted[0]
        infinity = k.const(float("inf"), type_)
        is_nan = (flags >= NAN) | (flags == POSITIVE + NEGATIVE)
        infinite = k.where(flags == POSITIVE, infinity, -infinity)
        return k.where(code == self.special, k.where(is_nan, k.const(float("nan"), type_), infinite), finite)

    def nearest(self, high: Value, low: Value, unit: Value) -> Value:
        """The float next to an integer of 128 bits times a power of two; it is a multiple of the least float."""
        k, type_ = self.k, self.spec.type
        is_negative = k.bitcast(high, i64) < 0
        high = k.where(is_negative, self.complement(high) + k.cast(low == 0, u64), high)
        low = k.where(is_negative, k.const(0, u64) - low, low)
        shift = k.clz(high)
        leading = k.shl(high, shift) | k.where(shift == 0, k.const(0, u64), k.shr(low, 64 - shift))
        leading = leading | k.cast(k.shl(low, shift) != 0, u64)  # what is left counts as more than nothing
        is_small = high == 0
        leading = k.where(is_small, low, leading)
        exponent = unit + k.where(is_small, k.const(0, i32), 64 - k.cast(shift, i32))
        total = k.cvt(k.cvt(leading, f32), f64) if type_ is f32 else k.cvt(leading, f64)
        half = exponent >> 1
        total = k.where(is_negative, -total, total) * self.power(half) * self.power(exponent - half)
        return k.cvt(total, f32) if type_ is f32 else total

    def power(self, exponent: Value) -> Value:
        """A power of two, f64; the exponent is i32 and that of a normal number."""
        k = self.k
        return k.bitcast(k.shl(k.cast(exponent + BIAS[u64], u64), MANTISSA[u64]), f64)

    def wide(self, word: Value) -> Value:
        """The upper half of an integer whose last word this is: its sign, and where there is room the word."""
        return self.k.bitcast(self.k.cast(self.k.bitcast(word, i32), i64), u64)

    def complement(self, value: Value) -> Value:
        """The inverted bits."""
        return value ^ ((1 << 64) - 1)


__all__ = ["FixedPointSums"]
