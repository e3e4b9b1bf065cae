"""Draws that are reduced as they are made: a chain of elementwise operations on draws and numbers, and what reduces it.

Nothing is stored but an accumulator per block. Data layout: a draw has a stream of its own, of which a unit is what two
words give; the elements of all draws go side by side. Who owns what: as in `fill`, a thread owns the units whose number
is its own plus multiples of the number of threads, and keeps two states per draw. Algorithm: a thread combines its
elements with one accumulator, those of a unit first; the accumulators of a block are combined in a tree, and the last
block that ends combines those of all, likewise. Sizes and the number of multiprocessors fix the order: the same call
gives the same bits. Bytes per element: none. Work per word: that of `fill`, and the chain's.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oxinp._kernels.elementwise.chain import BoundChain, Chain
from oxinp._kernels.plan import FLAGS, Launch, Plan, Scratch, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS, Element, ReduceOp
from oxinp._kernels.random.fill import BLOCK, FEWEST_PER_SM, FORMATS, NUM_THREAD_BITS, UNITS_PER_JUMP, WORDS
from oxinp._kernels.random.lcg import GENERATORS, Increment, Wide, factor, multiply_add
from oxinp._kernels.reduce.accumulate import Running
from oxinp._ptx import Builder, Kernel, block_reduce
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import i64, pred, u32, u64

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._kernels.problem import Instr
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value

BLOCKS_PER_SM = 4


class ReducedSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    generator : str
        A key of `lcg.GENERATORS`.
    format : str
        A key of `fill.FORMATS`: of all draws.
    leaves : tuple of Type or None
        Of the chain: numbers of a type, and draws; the last ones may be parameters of `op`.
    instrs : tuple of Instr
    value : int
        Number of the value that is reduced.
    mask : int or None
        Number of the value that says which elements count.
    op : ReduceOp
    type : Type
        Of the result.
    """

    generator: str
    format: str
    leaves: tuple[Type | None, ...]
    instrs: tuple[Instr, ...]
    value: int
    mask: int | None
    op: ReduceOp
    type: Type


def plan(spec: ReducedSpec, size: int, device: Device) -> Plan:
    """Return the plan that reduces a chain of `size` elements of each draw, at least one.

    The inputs are, for every leaf, its number, or the halves of state and increment, low ones first, as scalars of u64.
    The output is one element.
    """
    per_unit = WORDS * 2 // FORMATS[spec.format].halves
    num_units = -(-size // per_unit)
    most = max(FEWEST_PER_SM * device.num_sms, num_units // (BLOCK * UNITS_PER_JUMP))
    blocks = min(-(-num_units // BLOCK), most, BLOCKS_PER_SM * device.num_sms, (1 << NUM_THREAD_BITS) // BLOCK)
    power, total = GENERATORS[spec.generator].jump(blocks * BLOCK * WORDS)
    words = [part for number in (power, total) for part in (number & (1 << 64) - 1, number >> 64)]
    scratch = Scratch()
    partials = scratch.take(blocks * spec.op.acc.nbytes)
    given = inputs(sum(4 if leaf is None else 1 for leaf in spec.leaves))
    launch = Launch(
        make(spec), (blocks, 1, 1), (*outputs(1), partials, FLAGS, *given), (size, size // per_unit, *words)
    )
    return scratch.plan((launch,))


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: ReducedSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _Reduced(spec).build()


class _Draw:
    """A stream in a kernel: the two states of a unit."""

    def __init__(self, k: Builder, spec: ReducedSpec, name: str) -> None:
        self.k, self.lcg, self.format = k, GENERATORS[spec.generator], FORMATS[spec.format]
        self.increment = Increment(k, self.lcg, name)

    def begin(self, thread: Value, power: Wide, total: Wide) -> None:
        """Go to the thread's first unit; `power` and `total` lead to the next one."""
        k = self.k
        first = self.increment.jumped_by(self.increment.state, thread, WORDS, NUM_THREAD_BITS)
        states = [self.increment.jumped(first, 1) if self.lcg.lead else first]
        for _ in range(WORDS - 1):
            states.append(self.increment.jumped(states[-1], 1))
        self._states = [(k.var(state.low), k.var(state.high)) for state in states]
        self._by, self._plus = factor(k, power), self.increment.constant(total)

    def elements(self) -> list[Value]:
        """The elements of the unit."""
        k, make = self.k, self.format.make
        words = [self.lcg.output(k, Wide(low.get(), high.get())) for low, high in self._states]
        if self.format.halves == 2:
            return [make(k, *word) for word in words]
        return [make(k, half) for word in words for half in word]

    def advance(self) -> None:
        """Go to the next unit."""
        for low, high in self._states:
            following = multiply_add(self.k, Wide(low.get(), high.get()), self._by, self._plus)
            low.set(following.low)
            high.set(following.high)


class _Reduced:
    """The kernel while it is built."""

    def __init__(self, spec: ReducedSpec) -> None:
        self.spec = spec
        self.k = k = Builder("random_reduced", block=BLOCK)
        self.out = k.pointer("out", spec.type, "w")
        self.partials, self.flags = k.pointer("partials", spec.op.acc), k.pointer("flags", u32)
        self.leaves = [
            _Draw(k, spec, f"in{i}_") if t is None else k.scalar(f"in{i}", t) for i, t in enumerate(spec.leaves)
        ]
        self.draws: list[Any] = [leaf for leaf in self.leaves if isinstance(leaf, _Draw)]
        self.size, self.num_whole = k.scalar("size", i64), k.scalar("num_whole", i64)
        self.chain = BoundChain(k, Chain((), spec.instrs, (), 1, 64))

    def build(self) -> Kernel:
        k = self.k
        names = ("power_low", "power_high", "total_low", "total_high")
        power_low, power_high, total_low, total_high = (k.scalar(name, u64) for name in names)
        thread = k.ctaid * BLOCK + k.tid
        for draw in self.draws:
            draw.begin(thread, Wide(power_low, power_high), Wide(total_low, total_high))
        running = Running(k, self.spec.op)
        unit = k.var(k.cast(thread, i64))
        with k.loop():
            k.break_if(unit >= self.num_whole)
            running.take(self.elements())
            for draw in self.draws:
                draw.advance()
            unit.set(unit + BLOCK * k.cast(k.nctaid, i64))
        per_unit = WORDS * 2 // FORMATS[self.spec.format].halves
        first = unit * per_unit
        with k.when(first < self.size):
            running.take(self.elements(first))
        self.join(running.total())
        return k.build()

    def elements(self, first: Value | None = None) -> list[Element]:
        """The elements of a unit; if the number of the first is given, those that are there."""
        spec, elements = self.spec, []
        drawn = [leaf.elements() if isinstance(leaf, _Draw) else leaf for leaf in self.leaves]
        for i in range(WORDS * 2 // FORMATS[spec.format].halves):
            values = self.chain.evaluate([leaf[i] if isinstance(leaf, list) else leaf for leaf in drawn])
            counts = None if spec.mask is None else values[spec.mask]
            if first is not None:
                is_there = first + i < self.size
                counts = is_there if counts is None else counts & is_there
            elements.append(Element(values[spec.value], None, counts))
        return elements

    def join(self, total: Value) -> None:
        """Combine the accumulators of threads, and those of blocks in the last of them."""
        k, op = self.k, self.spec.op

        def combine(a: Value, b: Value) -> Value:
            value: Value = op.combine(k, a, b)
            return value

        own = block_reduce(k, total, combine)
        is_last = k.shared(pred, 1)
        with k.when(k.tid == 0):
            self.partials[k.ctaid] = own
            k.fence("gpu")
            ended = self.flags.atomic("add", 0, k.const(1, u32), order="acq_rel.gpu")
            is_last[0] = ended + 1 == k.nctaid
        k.barrier()
        with k.when(is_last[0]):
            k.fence("gpu")
            rest = Running(k, op)
            with k.range(k.tid, k.nctaid, BLOCK) as i:
                rest.join(self.partials[i])
            found = block_reduce(k, rest.total(), combine)
            with k.when(k.tid == 0):
                self.flags[0] = k.const(0, u32)
                if op.finish is not None:
                    parameters = self.leaves[len(self.leaves) - op.num_parameters :]
                    found = op.finish(k, found, *parameters)
                self.out[0] = k.cast(found, self.spec.type)


__all__ = ["ReducedSpec", "make", "plan"]
