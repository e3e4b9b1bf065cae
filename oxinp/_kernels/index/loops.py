"""Loops of elements by index: those outside the index, the index itself, those inside, and where each operand lies.

A kernel numbers units of `vector` innermost elements in the order of the loops. An operand has a stride per loop; the
indexed one has, for the index, the stride of the axis that is indexed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.elementwise.chain import Splitter
from oxinp._kernels.nest import MAX_INDEX_32
from oxinp._kernels.plan import REPORT_ADDRESS_BITS
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.memory import Pointer
from oxinp._ptx.types import UNSIGNED, Type, i32, i64, u32, u64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value

BLOCK = 256
UNROLL = 4
MAX_VECTOR_NBYTES = 16

Loop = tuple[int, ...]
"""The extent of a loop, then the stride of every operand, in elements."""


class LoopsSpec(Frozen):
    """The properties of loops that a kernel's code depends on.

    Attributes
    ----------
    num_outer, num_inner : int
        Loops outside the index and inside.
    vector : int
        Elements per unit.
    bits : int
        32 where every distance in elements fits, else 64.
    width : int
        Consecutive indices per unit, where nothing is inside the index.
    """

    num_outer: int
    num_inner: int
    vector: int
    bits: int
    width: int = 1

    @property
    def unroll(self) -> int:
        """Units per thread."""
        return max(1, (UNROLL if self.num_outer + self.num_inner < 3 else UNROLL // 2) // self.width)

    @property
    def type(self) -> Type:
        """Of numbers and of distances."""
        return i32 if self.bits == i32.bits else i64


class Loops(NamedTuple):
    """Loops, and how many elements of an operand they go through.

    Attributes
    ----------
    spec : LoopsSpec
    num_units : int
    constants : tuple of int
        Values of the parameters that `BoundLoops` declares.
    """

    spec: LoopsSpec
    num_units: int
    constants: tuple[int, ...]

    @property
    def grid(self) -> tuple[int, int, int]:
        """Blocks of a kernel."""
        return (-(-self.num_units // (BLOCK * self.spec.unroll)), 1, 1)


def merged(loops: Sequence[Loop]) -> list[Loop]:
    """Return the same loops with neighbours joined that all operands go through as through one."""
    result: list[Loop] = []
    for extent, *strides in loops:
        if extent == 1:
            continue
        if result and all(a == b * extent for a, b in zip(result[-1][1:], strides, strict=True)):
            result[-1] = (result[-1][0] * extent, *strides)
        else:
            result.append((extent, *strides))
    return result


def loops_of(
    outer: Sequence[Loop], index: Loop, inner: Sequence[Loop], extent: int, nbytes: int, alignments: Sequence[int],
    width: int = 1,
) -> Loops:  # fmt: skip
    """Return loops over elements by index.

    Parameters
    ----------
    outer, inner : sequence of Loop
        The first operand is the indexed one.
    index : Loop
        How many indices there are, and the strides of all operands.
    extent : int
        Of what is indexed.
    nbytes : int
        Of an element.
    alignments : sequence of int
        Of the operands, in bytes.
    width : int, optional
        Consecutive indices per unit, of loops with none inside; the extent of the index is a multiple.
    """
    outer, inner = merged(outer), merged(inner)
    vector = max(1, MAX_VECTOR_NBYTES // nbytes) if inner else 1
    others = [*outer, index, *inner[:-1]]
    while vector > 1 and not _fits(vector, inner[-1], others, nbytes, alignments):
        vector //= 2
    shape = [loop[0] for loop in (*outer, index, *inner)]
    size = 1
    for each in shape:
        size *= each
    spans = [
        sum(abs(loop[i]) * (loop[0] - 1) for loop in (*outer, *inner)) + abs(index[i]) * max(extent, index[0])
        for i in range(1, len(index))
    ]
    bits = 32 if max(size, extent, *spans) < MAX_INDEX_32 else 64
    shape[-1] //= vector * width
    spec = LoopsSpec(len(outer), len(inner), vector, bits, width)
    index = (*index[:2], *(stride * width for stride in index[2:]))
    strides = [loop[i] for i in range(1, len(index)) for loop in (*outer, index, *inner)]
    num_units = size // (vector * width)
    return Loops(spec, num_units, (num_units, *strides, *Splitter.constants(shape, bits)))


def _fits(vector: int, last: Loop, others: Sequence[Loop], nbytes: int, alignments: Sequence[int]) -> bool:
    """Whether units of `vector` elements lie where they can be loaded and stored whole, in every operand."""
    extent, *strides = last
    return (
        not extent % vector
        and all(stride == 1 for stride in strides)
        and not any(alignment % (vector * nbytes) for alignment in alignments)
        and not any(stride % vector for loop in others for stride in loop[1:])
    )


class BoundLoops:
    """Loops in a kernel: the parameters, declared, and a thread's units.

    Parameters
    ----------
    k : Builder
    spec : LoopsSpec
    num_operands : int
    """

    def __init__(self, k: Builder, spec: LoopsSpec, num_operands: int) -> None:
        self.k, self.spec = k, spec
        num_loops = spec.num_outer + 1 + spec.num_inner
        self.num_units = k.scalar("num_units", spec.type)
        self.strides = [
            [k.scalar(f"stride{i}_{loop}", spec.type) for loop in range(num_loops)] for i in range(num_operands)
        ]
        self._splitter = Splitter(k, "units", num_loops, spec.type)

    def units(self, block: Value | None = None) -> tuple[list[Value], list[Value], list[list[Value]]]:
        """Return the numbers of a thread's units, whether they exist, and their indices of every loop.

        Those that do not exist have the indices of the last one. `block` is another number of the block than its own.
        """
        k, type_, unroll = self.k, self.spec.type, self.spec.unroll
        first = k.cast(k.ctaid if block is None else block, type_) * (BLOCK * unroll) + k.cast(k.tid, type_)
        numbers = [first + BLOCK * i if i else first for i in range(unroll)]
        clamped = [k.min(number, self.num_units - 1) for number in numbers]
        return numbers, [number < self.num_units for number in numbers], [self._splitter.split(n) for n in clamped]

    def index_of(self, place: list[Value]) -> Value:
        """Return the number of the index."""
        return place[self.spec.num_outer]

    def offset(self, operand: int, place: list[Value], found: Value | None = None) -> Value:
        """Return the distance of a unit in an operand, in elements; `found` takes the place of the index."""
        spec, total = self.spec, None
        for loop, at in enumerate(place):
            value = found if found is not None and loop == spec.num_outer else at
            is_last = loop == len(place) - 1 and spec.num_inner and spec.vector > 1
            step = value * self.strides[operand][loop]
            if is_last:
                step = step * spec.vector
            total = step if total is None else total + step
        assert total is not None
        return total


def resolve(k: Builder, value: Value, extent: Value, bits: int, *, wraps: bool = True) -> tuple[Value, Value]:
    """Return an index as a distance from the first element, and whether it is out of bounds.

    Parameters
    ----------
    value : Value
        As it is stored; negative ones count from the end.
    extent : Value
        i64.
    bits : int
        Of distances, in which a valid index fits.
    wraps : bool
        Negative ones do; else they are out of bounds.
    """
    is_narrow = bits == i32.bits and (value.type.bits < i32.bits or value.type is i32)
    type_ = i32 if is_narrow else i64
    limit = k.cast(extent, type_)
    found = k.bitcast(value, i64) if value.type is u64 else k.cast(value, type_)
    if wraps and (value.type.kind == "i" or value.type is u64):  # which NumPy takes for i64, too
        found = k.where(found < 0, found + limit, found)
    unsigned = UNSIGNED[type_.bits]
    is_beyond = k.bitcast(found, unsigned) >= k.bitcast(limit, unsigned)
    return k.cast(found, i32 if bits == i32.bits else i64), is_beyond


def report(k: Builder, status: Value, value: Value) -> None:
    """Leave an index that is out of bounds for the host to see, after `status`, which has its address."""
    words = Pointer(k, status & ((1 << REPORT_ADDRESS_BITS) - 1), i64, "global", "w")
    number = k.bitcast(value, i64) if value.type is u64 else k.cast(value, i64)
    words.store(1, [number], order="relaxed.sys")
    words.store(0, [k.bitcast(status, i64)], order="relaxed.sys")


def is_clear(k: Builder, flag: Pointer) -> Value:
    """Return whether no index was out of bounds."""
    return flag[0] == k.const(0, u32)


__all__ = [
    "BLOCK",
    "UNROLL",
    "BoundLoops",
    "Loop",
    "Loops",
    "LoopsSpec",
    "is_clear",
    "loops_of",
    "report",
    "resolve",
]
