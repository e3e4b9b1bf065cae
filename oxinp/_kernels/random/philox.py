"""Draws of the counter-based Philox generators: NumPy's of four words of 64 bits, and a faster one of four of 32.

A block of four words is a function of a counter and a key. Data layout: the result is contiguous; a unit is what a
block gives, so that a thread stores 16 bytes or more at once. Where a draw begins inside a block, units begin before
the result, whose first `skip` elements are not stored, and where it begins with half a word that was left over, that
is the first element. Who owns what: a thread owns the units whose number is its own plus multiples of the number of
threads. Bytes per element: itself, once. Work per word: five products of 32 x 32 bits, or of 64 x 64.

Source: J. Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (2011).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from oxinp._kernels.plan import Launch, Plan, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.random.fill import FORMATS
from oxinp._kernels.random.finish import BoundFinish, Finish
from oxinp._kernels.random.lcg import MASK_64
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.memory import Pointer
from oxinp._ptx.types import i64, u32, u64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.choice import Device
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value

BLOCK = 256
BLOCKS_PER_SM = 8
NUM_ROUNDS = 10


class Variant(NamedTuple):
    """A generator.

    Attributes
    ----------
    name : str
    type : Type
        Of words.
    multipliers, weyl : tuple of int
        Of rounds, and of what keys grow by.
    num_counters, num_keys : int
        Inputs of u64 that the counter and the key are.
    """

    name: str
    type: Type
    multipliers: tuple[int, int]
    weyl: tuple[int, int]
    num_counters: int
    num_keys: int

    @property
    def halves(self) -> int:
        """Of words of 64 bits that a block gives."""
        return 4 * self.type.bits // 32

    def block(self, counter: int, key: int) -> list[int]:
        """Return the four words of a counter, on the host."""
        bits, mask = self.type.bits, (1 << self.type.bits) - 1
        words = [counter >> (bits * i) & mask for i in range(4)]
        keys = [key >> (bits * i) & mask for i in range(2)]
        for _ in range(NUM_ROUNDS):
            first, second = self.multipliers[0] * words[0], self.multipliers[1] * words[2]
            words = [
                (second >> bits) ^ words[1] ^ keys[0],
                second & mask,
                (first >> bits) ^ words[3] ^ keys[1],
                first & mask,
            ]
            keys = [(each + step) & mask for each, step in zip(keys, self.weyl, strict=True)]
        return words

    def blocks(self, counter: int, key: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
        """Return the words of some counters that follow each other, of 32 bits, on the host."""
        numbers = np.arange(count, dtype=np.uint64) + np.uint64(counter & MASK_64)
        upper = np.full(count, counter >> 64 & MASK_64, np.uint64)
        upper += numbers < np.uint64(counter & MASK_64)
        low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
        words = [numbers & low, numbers >> shift, upper & low, upper >> shift]
        for i in range(NUM_ROUNDS):
            keys = [np.uint64((key >> (32 * j)) + self.weyl[j] * i & 0xFFFFFFFF) for j in range(2)]
            first, second = np.uint64(self.multipliers[0]) * words[0], np.uint64(self.multipliers[1]) * words[2]
            words = [
                (second >> shift) ^ words[1] ^ keys[0],
                second & low,
                (first >> shift) ^ words[3] ^ keys[1],
                first & low,
            ]
        return np.stack(words, 1).reshape(-1).astype(np.uint32)


VARIANTS = {
    each.name: each
    for each in (
        Variant(
            "Philox",
            u64,
            (0xD2E7470EE14C6C93, 0xCA5A826395121157),
            (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B),
            4,
            2,
        ),
        Variant("Philox4x32", u32, (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85), 2, 1),
    )
}


class PhiloxSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    generator : str
        A key of `VARIANTS`.
    format : str
        A key of `fill.FORMATS`.
    is_shifted : bool
        The first element is a half word that is given.
    vector : int
        Elements of a store.
    finish : Finish or None
        A chain that they go through.
    """

    generator: str
    format: str
    is_shifted: bool
    vector: int
    finish: Finish | None = None


def plan(
    generator: str,
    name: str,
    size: int,
    alignment: int,
    device: Device,
    *,
    skip: int = 0,
    is_shifted: bool = False,
    finish: Finish | None = None,
) -> Plan:
    """Return the plan of `size` elements, the first of which is element `skip` of the counter's block.

    The inputs are the counter and the key as scalars of u64, low ones first, then, if shifted, the half word that takes
    the place of the first element, as u32, then the scalars of the chain that elements go through.
    """
    if not size:
        return Plan(())
    variant, made = VARIANTS[generator], FORMATS[name]
    per_unit = variant.halves // made.halves
    type_ = made.type if finish is None else finish.type
    vector = min(per_unit, 16 // type_.nbytes)
    while alignment % (vector * type_.nbytes) or skip % vector:
        vector //= 2
    num_units = -(-(size + skip) // per_unit)
    blocks = min(-(-num_units // BLOCK), BLOCKS_PER_SM * device.num_sms)
    num_scalars = 0 if finish is None else len(finish.epilogue.chain.inputs)
    arguments = (*outputs(1), *inputs(variant.num_counters + variant.num_keys + is_shifted + num_scalars))
    kernel = make(PhiloxSpec(generator, name, is_shifted, vector, finish))
    return Plan((Launch(kernel, (blocks, 1, 1), arguments, (size, skip, num_units)),))


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: PhiloxSpec) -> Kernel:
    """Build the kernel of a Spec."""
    k = Builder("random_philox", block=BLOCK)
    variant, made = VARIANTS[spec.generator], FORMATS[spec.format]
    out = k.pointer("out", made.type if spec.finish is None else spec.finish.type, "w")
    rounds = Rounds(k, variant)
    given = k.scalar("given", u32) if spec.is_shifted else None
    finish = BoundFinish(k, spec.finish)
    size, skip, num_units = (k.scalar(name, i64) for name in ("size", "skip", "num_units"))
    per_unit = variant.halves // made.halves
    rest = (_Rest if variant.type is u32 else _Whole)(k, variant, rounds.counters, rounds.begin())

    def elements(words: list[Value], start: Value | None = None) -> list[Value]:
        halves = [half for word in words for half in k.unpack(word)] if variant.type is u64 else words
        if given is not None and start is not None:
            halves = [k.where(start + i == 0, given, half) for i, half in enumerate(halves)]
        step = made.halves
        return finish.apply([made.make(k, *halves[i : i + step]) for i in range(0, len(halves), step)])

    # Units of which all is stored and nothing is given: all but the first and the last, perhaps
    is_cut = skip > 0
    fewest = k.cast(is_cut, i64) if given is None else k.const(1, i64)
    end = (size + skip) >> (per_unit.bit_length() - 1)
    thread = k.ctaid * BLOCK + k.tid
    stride = BLOCK * k.nctaid
    unit = k.var(fewest + k.cast(thread, i64))
    rest.begin(unit.get())
    own = k.var(out.address(unit * per_unit - skip))
    with k.loop():
        k.break_if(unit >= end)
        values = elements(rest.block())
        target = Pointer(k, own.get(), out.type, "global", "w")
        for i in range(0, per_unit, spec.vector):
            target.store(i, values[i : i + spec.vector])
        own.set(own + k.cast(stride, u64) * (per_unit * out.type.nbytes))
        unit.set(unit + k.cast(stride, i64))
        rest.advance(stride, unit.get())
    number = k.cast(thread, i64)
    edge = k.where(number == 0, k.const(0, i64), num_units - 1)
    with k.when((number < k.min(num_units, 2)) & ((edge < fewest) | (edge >= end))):
        start = edge * per_unit - skip
        words = rounds.block(k.cast(edge, u64))
        for i, value in enumerate(elements(words, start)):
            with k.when((start + i >= 0) & (start + i < size)):
                out[start + i] = value
    return k.build()


class Rounds:
    """The counter and the key that are inputs of a kernel, and the keys of all rounds."""

    def __init__(self, k: Builder, variant: Variant) -> None:
        self._k, self._variant = k, variant
        self.counters = [k.scalar(f"counter_{i}", u64) for i in range(variant.num_counters)]
        self.keys = [[k.scalar(f"key_{i}", u64) for i in range(variant.num_keys)]]

    def begin(self) -> list[list[Value]]:
        """Make the keys of a round after the other, where all that follows sees them."""
        if self._variant.type is u32:
            self.keys = [list(self._k.unpack(self.keys[0][0]))]
        for _ in range(NUM_ROUNDS - 1):
            self.keys.append([key + step for key, step in zip(self.keys[-1], self._variant.weyl, strict=True)])
        return self.keys

    def block(self, number: Value) -> list[Value]:
        """The four words of a counter some numbers on."""
        k, variant = self._k, self._variant
        return _block(k, variant, _words_of(k, variant, _counted(k, self.counters, number)), self.keys)

    def words(self, number: Value) -> list[Value]:
        """The same as words of 64 bits."""
        words = self.block(number)
        if self._variant.type is u64:
            return words
        return [self._k.pack(*words[i : i + 2]) for i in (0, 2)]


class _Whole:
    """A counter as it goes on, all rounds of which are made anew: of 64-bit words that is faster."""

    def __init__(self, k: Builder, variant: Variant, counters: Sequence[Value], rounds: list[list[Value]]) -> None:
        self.k, self.variant, self.counters, self.rounds = k, variant, counters, rounds
        self.unit = k.var(0, u64)

    def begin(self, unit: Value) -> None:
        """Begin with the counter of a unit."""
        self.unit.set(self.k.cast(unit, u64))

    def block(self) -> list[Value]:
        """The four words of the counter."""
        k = self.k
        counter = _counted(k, self.counters, self.unit.get())
        return _block(k, self.variant, _words_of(k, self.variant, counter), self.rounds)

    def advance(self, stride: Value, unit: Value) -> None:
        """Go on to the counter of a unit, which is `stride` after that at hand."""
        del stride
        self.begin(unit)


class _Rest:
    """The first of a counter's words as it goes on, and what the first two rounds make of the others.

    As these stay what they are until the first one wraps around, one product of a round is the same for many counters.
    """

    def __init__(self, k: Builder, variant: Variant, counters: Sequence[Value], rounds: list[list[Value]]) -> None:
        self.k, self.variant, self.counters, self.rounds = k, variant, counters, rounds
        self.first, *self.kept = (k.var(0, variant.type) for _ in range(5))

    def begin(self, unit: Value) -> None:
        """Begin with the counter of a unit."""
        k, keys = self.k, self.rounds
        first, *others = _words_of(k, self.variant, _counted(k, self.counters, k.cast(unit, u64)))
        low, high = _product(k, others[1], self.variant.multipliers[1])
        same = _product(k, high ^ others[0] ^ keys[0][0], self.variant.multipliers[0])
        self.first.set(first)
        for var, value in zip(
            self.kept, (others[2] ^ keys[0][1], low ^ keys[1][0], same[1] ^ keys[1][1], same[0]), strict=True
        ):
            var.set(value)

    def block(self) -> list[Value]:
        """The four words of the counter."""
        k, (a, b, c, d) = self.k, (var.get() for var in self.kept)
        first = _product(k, self.first.get(), self.variant.multipliers[0])
        second = _product(k, first[1] ^ a, self.variant.multipliers[1])
        return _block(k, self.variant, [second[1] ^ b, second[0], first[0] ^ c, d], self.rounds[2:])

    def advance(self, stride: Value, unit: Value) -> None:
        """Go on to the counter of a unit, which is `stride` after that at hand."""
        by = self.k.cast(stride, self.variant.type)
        self.first.set(self.first + by)
        with self.k.when(self.first < by):
            self.begin(unit)


def _counted(k: Builder, counters: Sequence[Value], number: Value) -> list[Value]:
    """A counter some numbers on, of as many bits as it has."""
    result = [counters[0] + number]
    carries = result[0] < number
    for counter in counters[1:]:
        following = counter + k.cast(carries, u64)
        carries = carries & (following == 0)
        result.append(following)
    return result


def _words_of(k: Builder, variant: Variant, counter: list[Value]) -> list[Value]:
    """The four words that a counter is."""
    return counter if variant.type is u64 else [half for each in counter for half in k.unpack(each)]


def _block(k: Builder, variant: Variant, words: list[Value], rounds: list[list[Value]]) -> list[Value]:
    """What some rounds make of four words."""
    for keys in rounds:
        first, second = (_product(k, word, m) for word, m in zip(words[::2], variant.multipliers, strict=True))
        words = [second[1] ^ words[1] ^ keys[0], second[0], first[1] ^ words[3] ^ keys[1], first[0]]
    return words


def _product(k: Builder, word: Value, multiplier: int) -> tuple[Value, Value]:
    """The halves of a product, the low one first."""
    if word.type is u32:
        low, high = k.unpack(k.mul_wide(word, multiplier))
        return low, high
    return word * multiplier, k.mulhi(word, multiplier)


__all__ = ["VARIANTS", "PhiloxSpec", "Rounds", "Variant", "make", "plan"]
