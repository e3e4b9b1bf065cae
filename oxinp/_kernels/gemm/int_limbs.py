"""Products of 16 to 64-bit integers from products of their 8-bit limbs on Hopper's tensor cores; exact.

An integer of `size` bytes is the sum of 256**i times its limb number i. Modulo 2**(8 size), which is what NumPy keeps::

    A @ B = sum over d < size of 256**d S[d],    S[d] = sum over i + j = d of A_i @ B_j

The limbs of A are stored one after the other along K, A_0 first, those of B in reverse order: every S[d] is one u8
product with i32 sums, of the first d + 1 limbs of A and the last d + 1 limbs of B. For 64-bit integers, 64 - 8 d bits
of S[d] matter: at most 32 for d >= 4; for smaller d, K is split into ranges whose sums fit into 32 bits. Limbs of A are
padded along K with zeros up to the alignment of TMA; the padding of B may hold anything.

There are size (size + 1) / 2 products of limbs. Per element of C and range of K, 4 `size` bytes are written and read.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from oxinp._kernels.elementwise import plan as elementwise
from oxinp._kernels.gemm.operand import Source
from oxinp._kernels.gemm.sm90_wgmma import plan as sm90_wgmma
from oxinp._kernels.gemm.sm90_wgmma.plan import WgmmaProduct
from oxinp._kernels.plan import ALIGNMENT, Argument, Launch, Plan, Scratch, Step
from oxinp._kernels.problem import Instr, Operand, Output
from oxinp._ptx.tma import ALIGN
from oxinp._ptx.types import Type, i16, i32, i64, u8, u16, u32, u64

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxinp._kernels.choice import Device
    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value

UNSIGNED: dict[Type, Type] = {i16: u16, u16: u16, i32: u32, u32: u32, i64: u64, u64: u64}
MAX_DEPTH = 16384  # of a range of K for 64-bit integers: 4 K 255**2 is below 2**32
MIN_PRODUCTS = 1 << 28  # multiply-adds from which this is faster than multistage kernels
MIN_EXTENT = 128
MAX_SUMS_NBYTES = 1 << 30  # of workspace for S, beside that for the limbs


def plan(a: Source, b: Source, out: Type, device: Device) -> Plan | None:
    """Return the plan of C = A @ B in C order; None if the product is too small, or one of a batch.

    Parameters
    ----------
    a, b : Source
        Of a key of `UNSIGNED`.
    out : Type
    device : Device
    """
    m, n = (x.lines if x.major == "k" else x.run for x in (a, b))
    depth = a.run if a.major == "k" else a.lines
    if device.cc != sm90_wgmma.ARCHITECTURE or a.type is not out or a.num_c > 1:
        return None
    if min(m, n, depth) < MIN_EXTENT or m * n * depth < MIN_PRODUCTS:
        return None
    return _Limbs(a, b, (m, n, depth), device).plan()


class _Limbs:
    """A product while it is planned, in bands of rows of C and ranges of K."""

    def __init__(self, a: Source, b: Source, shape: tuple[int, int, int], device: Device) -> None:
        self.type = UNSIGNED[a.type]
        self.size = self.type.nbytes
        self.operands = (a, b)
        self.m, self.n, self.depth = shape
        self.device = device
        self.max_depth = min(self.depth, MAX_DEPTH) if self.size == u64.nbytes else self.depth
        self.band = max(1, min(self.m, MAX_SUMS_NBYTES // (self.size * self.n * u32.nbytes)))
        self.scratch = Scratch()
        self.rows = tuple(self.scratch.take(x * self.size * _padded(self.max_depth)) for x in (self.m, self.n))
        self.sums = self.scratch.take(self.size * self.band * self.n * u32.nbytes)

    def plan(self) -> Plan:
        """Return the plan."""
        steps: list[Step] = []
        for start in range(0, self.depth, self.max_depth):
            depth = min(self.max_depth, self.depth - start)
            for number in range(2):
                steps += self.spread(number, start, depth)
            if depth < _padded(depth):
                steps += self.filled(depth)
            for row in range(0, self.m, self.band):
                steps += self.multiplied(row, depth, is_first=start == 0)
        return self.scratch.plan(steps)

    def spread(self, number: int, start: int, depth: int) -> tuple[Step, ...]:
        """The launch that stores the limbs of an operand, of a range of K from `start` on."""
        source, to, pitch = self.operands[number], self.rows[number], _padded(depth)
        is_k_major = source.major == "k"
        extent = source.lines if is_k_major else source.run
        strides = (source.pitch, 1) if is_k_major else (1, source.pitch)
        offset = start * strides[1] * self.size
        inputs = Operand(self.type, strides, _alignment(offset, source.alignment))
        target = Operand(u8, (self.size * pitch, 1), ALIGN)
        outputs = [Output(1 + i, target) for i in range(self.size)]
        spread = elementwise.plan((extent, depth), (inputs,), _limbs_of(self.type), outputs, self.device)
        order = range(self.size) if number == 0 else reversed(range(self.size))
        places = {f"out{i}": to.at(place * pitch) for i, place in enumerate(order)}
        return spread.on(**places, in0=Argument(source.buffer, offset))

    def filled(self, depth: int) -> tuple[Step, ...]:
        """The launch that pads the rows of A's limbs with zeros."""
        pitch = _padded(depth)
        end = Output(0, Operand(u8, (self.size * pitch, pitch, 1), _alignment(depth)))
        zeros = elementwise.plan((self.m, self.size, pitch - depth), (), (_ZERO,), [end], self.device)
        return zeros.on(out0=self.rows[0].at(depth))

    def multiplied(self, row: int, depth: int, *, is_first: bool) -> Iterator[Step]:
        """Yield the launches that compute the rows of C from `row` on, or add a range of K to them."""
        height, pitch = min(self.band, self.m - row), _padded(depth)
        nbytes = height * self.n * u32.nbytes
        sums = [self.sums.at(d * nbytes) for d in range(self.size)]
        left, right = self.rows
        line = self.size * pitch
        for d in range(self.size):
            run = (d + 1) * pitch
            sources = (
                Source("in0", u8, "k", height, run, line, 0, 1, ALIGN),
                Source("in1", u8, "k", self.n, run, line, 0, 1, ALIGN),
            )
            places = (sums[d], left.at(row * line), right.at(line - run))
            product = WgmmaProduct(u8, i32, sources, (height, self.n, run, 1), self.device)
            for each in product.steps(places, self.scratch):
                assert isinstance(each, Launch)
                if each.work.flops:
                    # The flops of the product that is asked for, once.
                    flops = 2 * height * self.n * depth if d == 0 else 0
                    yield each._replace(work=each.work._replace(flops=flops))
                else:
                    yield each
        c = Argument("out0", row * self.n * self.size)
        operand = Operand(self.type, (1,), _alignment(c.offset))
        inputs = [Operand(u32, (1,), _alignment(nbytes))] * self.size + [operand] * (not is_first)
        output = [Output(len(inputs), operand)]
        joined = (_joined(self.type, len(inputs)),)
        joining = elementwise.plan((height * self.n,), inputs, joined, output, self.device)
        yield from joining.on(out0=c, **{f"in{i}": place for i, place in enumerate((*sums, c))})


def _padded(depth: int) -> int:
    return -(-depth // ALIGN) * ALIGN


def _alignment(offset: int, alignment: int = ALIGNMENT) -> int:
    """Alignment of a pointer that is moved by `offset` bytes."""
    return min(alignment, offset & -offset) if offset else alignment


@cache
def _limbs_of(type_: Type) -> tuple[Instr, ...]:
    """Instructions that take an integer apart into limbs."""

    def limb(i: int) -> Instr:
        return Instr(lambda k, x: k.cast(k.shr(x, 8 * i) if i else x, u8), u8, (0,))

    return tuple(limb(i) for i in range(type_.nbytes))


@cache
def _joined(type_: Type, num_inputs: int) -> Instr:
    """The instruction that sums up 256**d S[d], and C as it was if there is one input more."""

    def join(k: Builder, *values: Value) -> Value:
        sums = [k.cast(value, type_) for value in values]
        total = sums[0]
        for d, value in enumerate(sums[1:], 1):
            total = total + (k.shl(value, 8 * d) if d < type_.nbytes else value)
        return total

    return Instr(join, type_, tuple(range(num_inputs)))


def _zero(k: Builder) -> Value:
    return k.const(0, u8)


_ZERO = Instr(_zero, u8, ())


__all__ = ["UNSIGNED", "plan"]
