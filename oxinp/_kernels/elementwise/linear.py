"""Elementwise kernels that go through elements in the order of the nest: the family for every layout.

Data layout: a unit is `vector` elements along the innermost loop, which one instruction loads (one element, where a
stride or an alignment does not allow more); the units of all loops are numbered in order. Who owns what: a block
computes `block * unroll` consecutive units, a thread every `block`-th of them. Algorithm: in full blocks, a thread
issues the loads of all its units before it uses the first, so that about 32 bytes per thread are in flight; threads of
the last block compute one unit at a time, and the first threads of the grid the elements after the last full unit. In
nests of several loops, a unit's number is converted to loop indices by multiplications. Where no input moves along the
outermost loop and few iterations of it are many bytes, a thread stores what it computed in every one of them. Bytes per
element: those of every operand, once.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.elementwise.chain import UNIT, BoundChain, Chain, Position, Splitter, locate
from oxinp._kernels.prefetch import fetch
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import u32

if TYPE_CHECKING:
    from oxinp._kernels.choice import Processors
    from oxinp._kernels.nest import Nest
    from oxinp._kernels.plan import Grid
    from oxinp._ptx.value import Value

BLOCK = 256
FETCHED_BLOCKS = 8  # per multiprocessor
FETCHED_FROM = 16  # bytes of an element; half of it where what is computed is costly
COSTLY_LINES = 450  # of a kernel's text


class LinearSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    chain : Chain
    vector : int
        Elements per unit; above 1, operands are UNIT, OUTER, BROADCAST, SCALAR or INDEX.
    unroll : int
        Units per thread.
    repeats : bool
        Units are those of one iteration of the outermost loop, which inputs do not move along.
    ahead : int
        Blocks after which one reads what this one has the L2 cache fetch; 0: nothing is fetched. In one loop.
    """

    chain: Chain
    vector: int
    unroll: int
    repeats: bool = False
    ahead: int = 0


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: LinearSpec) -> Kernel:
    """Build the kernel of a Spec."""
    chain, vector, unroll = spec.chain, spec.vector, spec.unroll
    type_, innermost = chain.index_type, chain.ndim - 1
    k = Builder("elementwise_linear", block=BLOCK, target="sm_90" if spec.ahead else "sm_80")
    bound = BoundChain(k, chain)
    num_units, num_rest = k.scalar("num_units", type_), k.scalar("num_rest", type_)
    count = k.scalar("count", type_) if spec.repeats else None
    loops = range(int(spec.repeats), chain.ndim)
    splitter = Splitter(k, "units", len(loops), type_)
    tid = k.cast(k.tid, type_)
    first = k.cast(k.ctaid, type_) * (BLOCK * unroll) + tid

    def at(unit: Value) -> Position:
        *outer, inner = splitter.split(unit)
        return locate(bound.origin(), loops, [*outer, inner * vector if vector > 1 else inner])

    if spec.ahead:
        each = BLOCK * unroll * vector
        own = k.cast(k.ctaid, type_) * each
        with k.when(num_units * vector - own >= (spec.ahead + 1) * each):
            for spot in bound.origin().moved(innermost, own + spec.ahead * each).inputs:
                if spot.operand.spec.kind == UNIT:
                    fetch(k, spot.place, k.const(each, u32), each)
    with k.when(first + BLOCK * (unroll - 1) < num_units):
        if len(loops) == 1:
            start = at(first)
            positions = [start.moved(innermost, BLOCK * vector * i) for i in range(unroll)]
        else:
            positions = [at(first + BLOCK * i if i else first) for i in range(unroll)]
        loaded = [position.load(vector) for position in positions]
        for position, values in zip(positions, loaded, strict=True):
            position.compute(values, vector, count)
    with k.otherwise(), k.range(first, num_units, BLOCK) as unit:
        position = at(unit)
        position.compute(position.load(vector), vector, count)
    if vector > 1 and chain.ndim == 1:
        with k.when((k.ctaid == 0) & (tid < num_rest)):
            position = bound.origin().moved(0, num_units * vector + tid)
            position.compute(position.load())
    return k.build()


@lru_cache(MAX_KERNELS)
def is_costly(spec: LinearSpec) -> bool:
    """Whether a kernel computes so much of its elements that threads do not keep the memory busy."""
    return make(spec).ptx.count("\n") >= COSTLY_LINES


def fetching(spec: LinearSpec, device: Processors) -> LinearSpec:
    """Return the Spec of many elements, which fetches ahead elements of 16 bytes that something is computed of.

    Threads that compute for long and hold many registers do not keep the memory busy: of 2^26 complex128, `exp` takes
    0.515 ms in place of 0.560, `arcsin` 0.774 of 0.901, `arctanh` 0.580 of 0.665, `log` as long, `square` 0.513 of
    0.506, a copy 0.508 (H200). So do those of float64 whose kernels are long: of 2^26, `log1p` takes 0.277 in place of
    0.308, `sin` 0.310 of 0.386, `tan` 0.358 of 0.417, `sinh`, `cosh` and `tanh` 0.274 to 0.281 of 0.306 to 0.310,
    `arcsin` as long, but `exp` 0.298 of 0.284, and float32 mostly longer.
    """
    chain = spec.chain
    if device.cc < (9, 0) or chain.ndim > 1 or not chain.instrs:
        return spec
    widest = max([x.type.nbytes for x in chain.inputs if x.kind == UNIT], default=0)
    if widest < FETCHED_FROM and not (2 * widest >= FETCHED_FROM and is_costly(spec)):
        return spec
    return spec.replace(ahead=FETCHED_BLOCKS * device.num_sms)


def flat_geometry(spec: LinearSpec, size: int) -> tuple[Grid, tuple[int, ...]]:
    """Return grid and constants for operands that are all contiguous, so that strides are no parameters."""
    num_units = size // spec.vector
    return (max(1, -(-num_units // (BLOCK * spec.unroll))), 1, 1), (num_units, size - num_units * spec.vector)


def geometry(spec: LinearSpec, nest: Nest) -> tuple[Grid, tuple[int, ...]]:
    """Return grid and constants for a nest; if it has several loops, the innermost extent is a multiple of `vector`."""
    bits, vector = spec.chain.index_bits, spec.vector
    count = nest.shape[: int(spec.repeats)]
    *outer, inner = nest.shape[len(count) :]
    size = nest.size // math.prod(count)
    num_units = size // vector
    constants = (
        *spec.chain.constants(nest),
        num_units,
        size - num_units * vector,
        *count,
        *Splitter.constants((*outer, inner // vector), bits),
    )
    return (max(1, -(-num_units // (BLOCK * spec.unroll))), 1, 1), constants
