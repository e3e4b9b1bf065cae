"""The 128-bit linear congruential generators of PCG64 and PCG64DXSM: jumps on the host, steps and outputs in kernels.

``s <- A s + c`` modulo 2**128. A jump by n is ``s <- A**n s + G(n) c`` with ``G(n) = (A**n - 1) / (A - 1)``, of which
both factors are the same for all seeds. Word number w of a generator in state s is made of the state after ``w + 1``
steps by PCG64, after w steps by PCG64DXSM.

Source: M. O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms for Random Number
Generation" (2014); NumPy's src/pcg64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._ptx.types import u64
from oxinp._ptx.wide import multiply_add_128

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value

MASK_64 = (1 << 64) - 1
MASK_128 = (1 << 128) - 1
DXSM_MULTIPLIER = 0xDA942042E4DD58B5


class Lcg(NamedTuple):
    """A generator.

    Attributes
    ----------
    name : str
        NumPy's name of the bit generator.
    multiplier : int
    lead : int
        Steps before the state that the first word is made of.
    output : callable
        ``output(k, state)`` -> the two halves of a word, the low one first, u32.
    word : callable
        The same on the host: ``word(state)``.
    """

    name: str
    multiplier: int
    lead: int
    output: Callable[[Builder, Wide], tuple[Value, Value]]
    word: Callable[[int], int]

    def jump(self, count: int) -> tuple[int, int]:
        """Return ``A**count`` and ``G(count)``."""
        modulus = (self.multiplier - 1) << 128
        power = pow(self.multiplier, count, modulus)
        return power & MASK_128, (power - 1) // (self.multiplier - 1) & MASK_128

    def advanced(self, state: int, increment: int, count: int) -> int:
        """Return a state after some steps; negative counts go back."""
        power, total = self.jump(count & MASK_128)
        return (power * state + total * increment) & MASK_128

    def word_at(self, state: int, increment: int, number: int) -> int:
        """Return a word, counted from the state."""
        return self.word(self.advanced(state, increment, number + self.lead))


class Wide(NamedTuple):
    """A number of 128 bits in two registers."""

    low: Value
    high: Value


Factor = tuple[Any, Any, Any, Any]  # limbs of 32 bits, low ones first: known, or in registers


def factor(k: Builder, value: int | Wide) -> Factor:
    """Return a number prepared for `multiply_add`."""
    if isinstance(value, Wide):
        return (*k.unpack(value.low), *k.unpack(value.high))
    return tuple(value >> shift & 0xFFFFFFFF for shift in (0, 32, 64, 96))  # type: ignore[return-value]


def multiply_add(k: Builder, a: Wide, by: Factor, plus: Wide | None) -> Wide:
    """``a by + plus`` modulo 2**128."""
    if plus is None:
        plus = Wide(k.const(0, u64), k.const(0, u64))
    return Wide(*multiply_add_128(k, a, by, plus))


class Increment:
    """The generator's parameters in a kernel: the state to start from and the increment.

    Parameters
    ----------
    k : Builder
    lcg : Lcg
    name : str
        What the names of its parameters begin with, in a kernel of several.

    Attributes
    ----------
    state : Wide
    """

    def __init__(self, k: Builder, lcg: Lcg, name: str = "") -> None:
        self._k, self._lcg = k, lcg
        low, high, increment_low, increment_high = (
            k.scalar(name + part, u64) for part in ("state_low", "state_high", "increment_low", "increment_high")
        )
        self.state = Wide(low, high)
        self._increment = Wide(increment_low, increment_high)

    def constant(self, total: int | Wide) -> Wide:
        """What a jump adds: `total`, the G of its steps, times the increment."""
        if isinstance(total, int) and total == 1:
            return self._increment
        return multiply_add(self._k, self._increment, factor(self._k, total), None)

    def jumped(self, state: Wide, steps: int) -> Wide:
        """A state after a number of steps that is known."""
        k, (power, total) = self._k, self._lcg.jump(steps)
        return multiply_add(k, state, factor(k, power), self.constant(total))

    def jumped_by(self, state: Wide, number: Value, scale: int, num_bits: int) -> Wide:
        """A state after ``number * scale`` steps; `number` is u32 and below ``2**num_bits``."""
        k = self._k
        low, high = k.var(state.low), k.var(state.high)
        for bit in range(num_bits):
            power, total = self._lcg.jump(scale << bit)
            with k.when((number & (1 << bit)) != 0):
                at = multiply_add(k, Wide(low, high), factor(k, power), self.constant(total))
                low.set(at.low)
                high.set(at.high)
        return Wide(low.get(), high.get())


def rotated_right(k: Builder, low: Value, high: Value, count: Value) -> tuple[Value, Value]:
    """The halves of a word rotated by up to 63 bits."""
    swaps = (count & 32) != 0
    a, b = k.where(swaps, high, low), k.where(swaps, low, high)
    return k.shf_r(a, b, count), k.shf_r(b, a, count)


def _xsl_rr(k: Builder, state: Wide) -> tuple[Value, Value]:
    low, high = k.unpack(state.low)
    low_2, high_2 = k.unpack(state.high)
    return rotated_right(k, low ^ low_2, high ^ high_2, high_2 >> 26)


def _xsl_rr_word(state: int) -> int:
    value, count = (state >> 64) ^ (state & MASK_64), state >> 122
    return (value >> count | value << (64 - count)) & MASK_64


def _dxsm(k: Builder, state: Wide) -> tuple[Value, Value]:
    high = state.high
    high = (high ^ (high >> 32)) * DXSM_MULTIPLIER
    high = (high ^ (high >> 48)) * (state.low | 1)
    low, top = k.unpack(high)
    return low, top


def _dxsm_word(state: int) -> int:
    high, low = state >> 64, state & MASK_64 | 1
    high = (high ^ (high >> 32)) * DXSM_MULTIPLIER & MASK_64
    return (high ^ (high >> 48)) * low & MASK_64


PCG64 = Lcg("PCG64", 0x2360ED051FC65DA44385DF649FCCF645, 1, _xsl_rr, _xsl_rr_word)
PCG64DXSM = Lcg("PCG64DXSM", DXSM_MULTIPLIER, 0, _dxsm, _dxsm_word)
GENERATORS = {lcg.name: lcg for lcg in (PCG64, PCG64DXSM)}

__all__ = [
    "GENERATORS",
    "MASK_64",
    "MASK_128",
    "PCG64",
    "PCG64DXSM",
    "Factor",
    "Increment",
    "Lcg",
    "Wide",
    "factor",
    "multiply_add",
]
