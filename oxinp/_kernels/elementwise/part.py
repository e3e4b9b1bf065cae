"""Chains that are written to a part of an array, whose other elements stay: the whole array, in new memory.

So is computed what reads elements of the part beside the very one that it writes, as stencils in place do: by one
launch that moves every byte twice, where a chain computed elsewhere and copied back moves those of the part four
times. Data layout: every element of the array is one of the nest's, in C's order; the chain's operands are addressed by
the indices of the whole array, from where they would lie for the first of them. Who owns what: a thread
computes `UNITS` elements, a block of `BLOCK` threads those next to each other. Algorithm: an element's number is
converted to loop indices by multiplications; inside the part the chain's operands are loaded and it is computed,
outside the old element is copied. Bytes per element: those of the chain's operands, once, and itself twice.
"""

from __future__ import annotations

import operator
from functools import lru_cache, reduce
from typing import TYPE_CHECKING

from oxinp._kernels.elementwise.access import classify, contiguous_strides, index_bits
from oxinp._kernels.elementwise.chain import BoundChain, Chain, Splitter, locate
from oxinp._kernels.elementwise.planner import Planner
from oxinp._kernels.nest import Nest
from oxinp._kernels.plan import Launch, Plan, Work, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS, Operand, touched_nbytes
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import u32, u64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.problem import Instr
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value

BLOCK = 256
UNITS = 4


class PartSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    chain : Chain
        Its first input is the array as it was, which no instruction reads.
    """

    chain: Chain


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: PartSpec) -> Kernel:
    """Build the kernel of a Spec."""
    chain = spec.chain
    type_, word = chain.index_type, u32 if chain.index_bits == 32 else u64
    k = Builder("elementwise_part", block=BLOCK)
    bound = BoundChain(k, chain)
    size = k.scalar("size", type_)
    bounds = [(k.scalar(f"low{d}", type_), k.scalar(f"length{d}", word)) for d in range(chain.ndim)]
    splitter = Splitter(k, "loop", chain.ndim, type_)
    first = k.cast(k.ctaid, type_) * (BLOCK * UNITS) + k.cast(k.tid, type_)

    def compute(number: Value) -> None:
        indices = splitter.split(number)
        position = locate(bound.origin(), range(chain.ndim), indices)
        # Nor does it lie below, which would be a large number.
        tests = [k.bitcast(i - low, word) < length for i, (low, length) in zip(indices, bounds, strict=True)]
        with k.when(reduce(operator.and_, tests)):
            position.compute(position.load())
        with k.otherwise():
            position.outputs[0].store(position.inputs[0].load(1))

    for i in range(UNITS):
        number = first + BLOCK * i if i else first
        with k.when(number < size):
            compute(number)
    return k.build()


class PartChains(Planner):
    """Instructions whose result is written to parts of arrays, to be planned for any shapes and any layouts.

    Parameters
    ----------
    type_ : Type
        Of the array.
    given : sequence of (Type, bool)
        Of every input of the instructions, and whether it is an array.
    instrs : sequence of Instr
    result : int
        Number of the value that is written.
    """

    def __init__(self, type_: Type, given: Sequence[tuple[Type, bool]], instrs: Sequence[Instr], result: int) -> None:
        behind = [instr.replace(args=tuple([number + 1 for number in instr.args])) for instr in instrs]
        super().__init__([(type_, True), *given], behind, [(result + 1, type_)])

    def plan(self, shape: Sequence[int], bounds: Sequence[tuple[int, int]], operands: Sequence[Operand]) -> Plan:
        """Return the plan of an array.

        Parameters
        ----------
        shape : sequence of int
            Of the array, without gaps.
        bounds : sequence of (int, int)
            Where the part begins along each axis, and its length.
        operands : sequence of Operand
            The input arrays, over the part.

        Returns
        -------
        Plan
            One launch; its arguments are the new array, the old one, and the inputs.
        """
        whole = Operand(self.types[0], contiguous_strides(shape))
        arrays = [whole, whole, *operands]
        shifts = [-sum([low * step for (low, _), step in zip(bounds, x.strides, strict=True)]) for x in operands]
        nest = Nest(tuple(shape), tuple([array.strides for array in arrays]), (0, 0, *shifts))
        bits = index_bits(nest)
        spec: PartSpec = self.spec(PartSpec, self.chain(classify(arrays, nest), len(shape), bits))
        ends = [number for pair in bounds for number in pair]
        constants = (*spec.chain.constants(nest), nest.size, *ends, *Splitter.constants(shape, bits))
        grid = -(-nest.size // (BLOCK * UNITS)), 1, 1
        arguments = (*outputs(1), *inputs(len(self.inputs)))
        work = Work(0, touched_nbytes(shape, arrays))
        return Plan((Launch(make(spec), grid, arguments, constants, work),))


__all__ = ["BLOCK", "UNITS", "PartChains", "PartSpec", "make"]
