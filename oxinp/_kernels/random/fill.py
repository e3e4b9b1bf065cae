"""Draws that take a fixed number of words each: uniform numbers, raw words.

Data layout: the result is contiguous. A unit is what two words give, so that a thread stores 16 bytes at once; the
elements of the last unit that are beyond the result are not stored. Who owns what: a thread owns the units whose number
is its own plus multiples of the number of threads, and keeps the two states of a unit, which jump to the next unit by
one multiplication of 128 bits each. Where the first element is half of a word that an earlier draw left over, units
begin in the middle of a word, and a third state gives its first half. Bytes per element: itself, once. Work per word:
ten products of 32 bits and about 25 other instructions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oxinp._kernels.plan import Launch, Plan, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.random.finish import BoundFinish, Finish
from oxinp._kernels.random.lcg import GENERATORS, Increment, Wide, factor, multiply_add
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import f32, f64, i64, u32, u64

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._kernels.choice import Device
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value

BLOCK = 256
BLOCKS_PER_SM, FEWEST_PER_SM = 8, 2
UNITS_PER_JUMP = 8
NUM_THREAD_BITS = 20  # of the number of a thread
WORDS = 2  # of a unit


def uniform_f64(k: Builder, low: Value, high: Value) -> Value:
    """``(word >> 11) * 2**-53``: the lower 52 bits are those of a number from 1/2 to 1, of which 1/2 is taken away."""
    mantissa = k.pack(k.shf_r(low, high, 11), ((high >> 11) & 0xFFFFF) | 0x3FE00000)
    excess = k.where(high < 0x80000000, k.const(0.5, f64), k.const(0.0, f64))
    result: Value = k.bitcast(mantissa, f64) - excess
    return result


def uniform_f32(k: Builder, half: Value) -> Value:
    """``(half >> 8) * 2**-24``: the upper 16 bits and the next 8, behind leading ones that are subtracted."""
    # Grids have one layer: an unknown factor keeps the mark in a register, as `prmt` has one immediate operand.
    mark = k.nctaid.z * k.const(0x4B000000, u32)
    upper = k.bitcast(k.emit("prmt", half, mark, 0x7432), f32)  # 2**23 + bits
    lower = k.bitcast(k.emit("prmt", half, mark, 0x7441), f32)
    most = k.fma(upper, 2.0**-16, -(2.0**7) - 0.5)
    result: Value = k.fma(lower, 2.0**-24, most)
    return result


def _half(k: Builder, half: Value) -> Value:
    del k
    return half


class Format(Frozen, eq=False):
    """What is made of words.

    Attributes
    ----------
    name : str
    type : Type
        Of elements.
    halves : int
        Halves of a word that an element takes: 1 or 2.
    make : callable
        ``make(k, *halves)``.
    """

    name: str
    type: Type
    halves: int
    make: Callable[..., Any]


FORMATS = {
    each.name: each
    for each in (
        Format("uniform_f64", f64, 2, uniform_f64),
        Format("uniform_f32", f32, 1, uniform_f32),
        Format("words", u64, 2, lambda k, low, high: k.pack(low, high)),
        Format("halves", u32, 1, _half),
    )
}


class FillSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    generator : str
        A key of `lcg.GENERATORS`.
    format : str
        A key of `FORMATS`.
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
    is_shifted: bool = False,
    finish: Finish | None = None,
) -> Plan:
    """Return the plan of `size` elements from a state on; `alignment` is the result's.

    The inputs are the halves of state and increment, low ones first, as scalars of u64; then, if shifted, the half
    word as u32; then the scalars of the chain that elements go through.
    """
    if not size:
        return Plan(())
    made = FORMATS[name]
    per_unit = WORDS * 2 // made.halves
    type_ = made.type if finish is None else finish.type
    vector = min(per_unit, 16 // type_.nbytes)
    while alignment % (vector * type_.nbytes):
        vector //= 2
    spec = FillSpec(generator, name, is_shifted, vector, finish)
    num_units = -(-size // per_unit)
    # The jump to a thread's first unit costs as much as a few units.
    most = max(FEWEST_PER_SM * device.num_sms, num_units // (BLOCK * UNITS_PER_JUMP))
    blocks = min(-(-num_units // BLOCK), most, BLOCKS_PER_SM * device.num_sms, (1 << NUM_THREAD_BITS) // BLOCK)
    power, total = GENERATORS[generator].jump(blocks * BLOCK * WORDS)
    words = [part for number in (power, total) for part in (number & (1 << 64) - 1, number >> 64)]
    num_scalars = 0 if finish is None else len(finish.epilogue.chain.inputs)
    arguments = (*outputs(1), *inputs(4 + is_shifted + num_scalars))
    return Plan((Launch(make(spec), (blocks, 1, 1), arguments, (size, size // per_unit, *words)),))


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: FillSpec) -> Kernel:
    """Build the kernel of a Spec."""
    k = Builder("random_fill", block=BLOCK)
    lcg, made = GENERATORS[spec.generator], FORMATS[spec.format]
    out = k.pointer("out", made.type if spec.finish is None else spec.finish.type, "w")
    increment = Increment(k, lcg)
    given = k.scalar("given", u32) if spec.is_shifted else None
    finish = BoundFinish(k, spec.finish)
    size, num_whole = k.scalar("size", i64), k.scalar("num_whole", i64)
    power, total = (Wide(k.scalar(f"{name}_low", u64), k.scalar(f"{name}_high", u64)) for name in ("power", "total"))
    thread = k.ctaid * BLOCK + k.tid
    first = increment.jumped_by(increment.state, thread, WORDS, NUM_THREAD_BITS)
    if lcg.lead > spec.is_shifted:
        first = increment.jumped(first, 1)
    elif spec.is_shifted and not lcg.lead:
        first = increment.jumped(first, -1)
    states = [first]
    for _ in range(WORDS - 1 + spec.is_shifted):
        states.append(increment.jumped(states[-1], 1))
    variables = [(k.var(state.low), k.var(state.high)) for state in states]
    by, plus = factor(k, power), increment.constant(total)
    per_unit = WORDS * 2 // made.halves

    def elements(unit: Value) -> list[Value]:
        words = [lcg.output(k, Wide(low.get(), high.get())) for low, high in variables]
        if made.halves == 2:
            return finish.apply([made.make(k, *word) for word in words])
        halves = [half for word in words for half in word]
        if given is not None:
            halves = [k.where(unit == 0, given, halves[1]), *halves[2:-1]]
        return finish.apply([made.make(k, half) for half in halves])

    unit = k.var(k.cast(thread, i64))
    with k.loop():
        k.break_if(unit >= num_whole)
        values = elements(unit)
        for i in range(0, per_unit, spec.vector):
            out.store(unit * per_unit + i, values[i : i + spec.vector])
        for low, high in variables:
            following = multiply_add(k, Wide(low.get(), high.get()), by, plus)
            low.set(following.low)
            high.set(following.high)
        unit.set(unit + BLOCK * k.cast(k.nctaid, i64))
    with k.when(unit * per_unit < size):
        for i, value in enumerate(elements(unit)):
            with k.when(unit * per_unit + i < size):
                out[unit * per_unit + i] = value
    return k.build()


__all__ = ["FORMATS", "FillSpec", "Format", "make", "plan", "uniform_f32", "uniform_f64"]
