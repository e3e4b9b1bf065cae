"""Conversion of f64 matrices to residues: lines scaled by powers of two, rounded to integers, taken modulo every p.

Data layout: the matrix is f64 or c128, contiguous along K or along M or N. A line is a row of A or a column of B. The
result is one plane of bytes per modulus, of c128 three: of real parts, of imaginary parts and of their sums. Lines of
planes run along K; in every 128 of K, byte 4 g + j is element 32 j + g, which does not matter to sums over K as it is
the same for both operands. Lines may be permuted within each 64 (`spread`), so that the accumulators of a thread of
wgmma are neighbours in memory.

Who owns what: a warp converts 128 elements of a line to 32 words per plane. From K-major matrices it reads them as they
lie; otherwise the block first brings 128 x 32 numbers to shared memory.

Algorithm: x = rint(2**e a), made unsigned by adding 2**63. The sum of its bytes times 256**i modulo p is two
instructions; what that leaves, below 2**20, is reduced by multiplying with the reciprocal. So that all residues fit
signed bytes, whatever p is, they are those in -128 to p - 129.

Per number: 8 bytes read, one byte per modulus written, 7 integer instructions per modulus; of c128 half as many more.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from oxinp._kernels.gemm.ozaki.moduli import COUNTS, MODULI
from oxinp._kernels.plan import Launch, Plan, Work, inputs, outputs
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import f64, i32, i64, u32, u64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

WARP = 32
NUM_WARPS = 8
SPAN = 128  # elements of K that a warp converts at a time
MAX_CHUNK = 16  # spans of a warp, one after the other
BLOCKS_PER_SM = 8
GROUP = 64  # lines that are permuted among themselves
TURN = 0x80808080  # xor that makes bytes 0 to 255 signed, 128 less
TOP = 1 << 63


@dataclass(frozen=True, slots=True)
class ResidueSpec:
    """One kernel of the family.

    Attributes
    ----------
    major : str
        The contiguous axis of the matrix: ``"k"`` or ``"mn"``.
    is_spread : bool
        Lines are permuted, see `spread`.
    is_complex : bool
        The matrix is c128, its elements at multiples of 16 bytes.
    """

    major: str
    is_spread: bool
    is_complex: bool = False

    @property
    def name(self) -> str:
        """Entry name."""
        return f"residues_{self.major}{'_c128' * self.is_complex}{'_spread' * self.is_spread}"

    @property
    def planes_per_modulus(self) -> int:
        """Planes per modulus."""
        return 3 if self.is_complex else 1

    @property
    def width(self) -> int:
        """Real numbers per element."""
        return 2 if self.is_complex else 1


def plan(spec: ResidueSpec, lines: int, depth: int, pitch: int, plane_nbytes: int, num_sms: int) -> Plan:
    """Return the plan for `lines` lines of `depth` elements: one launch.

    `pitch` is from one line of memory to the next. The output is the planes; the inputs are the matrix, the exponents
    of the lines' scales and the number of moduli (i32; 0: nothing is done).
    """
    wide = NUM_WARPS if spec.major == "k" else WARP // spec.width
    num_spans, across = padded(depth) // SPAN, -(-lines // wide)
    chunk = max(1, min(MAX_CHUNK, num_spans * across // (num_sms * BLOCKS_PER_SM)))
    grid = (across, -(-num_spans // chunk), 1)
    work = Work(0, lines * depth * (spec.width * f64.nbytes + spec.planes_per_modulus * COUNTS[0]))
    constants = (pitch, plane_nbytes // 4, lines, depth, chunk)
    return Plan((Launch(make(spec), grid, (*outputs(1), *inputs(3)), constants, work),))


def padded(depth: int) -> int:
    """Return the pitch of planes in bytes; lines are padded with zeros."""
    return -(-depth // SPAN) * SPAN


def spread(k: Builder, line: Value) -> Value:
    """Return the place of a line, so that column 8 i + 2 q + c of 64 of wgmma's accumulators is line 16 q + 2 i + c."""
    within = line & (GROUP - 1)
    return (line - within) | ((within & 14) << 2) | (k.shr(within, 4) << 1) | (within & 1)


@cache
@retraceable
def make(spec: ResidueSpec) -> Kernel:
    """Return the kernel of a Spec; for its parameters see `plan`."""
    k = Builder(spec.name, block=NUM_WARPS * WARP)
    planes, x = k.pointer("planes", u32, "w"), k.pointer("x", f64, "r")
    exponents, count_at = k.pointer("exponents", i32, "r"), k.pointer("count", i32, "r")
    pitch, plane_words = k.scalar("pitch", i64), k.scalar("plane_words", i64)
    lines, depth, chunk = (k.scalar(name, u32) for name in ("lines", "depth", "chunk"))
    count = count_at[0]
    num_spans = (depth + (SPAN - 1)) / SPAN
    first = k.ctaid.y * chunk
    last = k.where(count > 0, k.min(num_spans, first + chunk), 0)
    warp = k.tid / WARP
    own = _Line(k, spec, planes, exponents, num_spans, plane_words, count)
    if spec.major == "k":
        line = k.ctaid * NUM_WARPS + warp
        with k.when(line < lines), k.range(first, last) as span:
            run = x.at(k.cast(line, i64) * (pitch * spec.width))
            places = [span * SPAN + k.lane + WARP * j for j in range(4)]
            own.store(line, span, [_element(k, run, at, at < depth, spec.width) for at in places])
        return k.build()
    # An odd pitch: neither along rows nor along columns do lanes have bank conflicts.
    tile = k.shared(f64, (WARP, SPAN + 1))
    num_lines = WARP // spec.width
    base = k.ctaid * num_lines
    column = base * spec.width + k.lane
    with k.range(first, last) as span:
        for i in range(SPAN // NUM_WARPS):
            row = warp + NUM_WARPS * i
            at = span * SPAN + row
            run = x.at(k.cast(at, i64) * (pitch * spec.width))
            (value,) = _element(k, run, column, (at < depth) & (column < lines * spec.width))
            tile[k.lane, row] = value
        k.barrier()
        for i in range(num_lines // NUM_WARPS):
            row = warp + NUM_WARPS * i
            with k.when(base + row < lines):
                parts = range(spec.width)
                own.store(
                    base + row,
                    span,
                    [[tile[row * spec.width + part, k.lane + WARP * j] for part in parts] for j in range(4)],
                )
        k.barrier()
    return k.build()


def _element(k: Builder, run: Pointer, at: Value, is_inside: Value, width: int = 1) -> list[Value]:
    """The numbers of an element, 0 outside."""
    values = [k.var(0.0, f64) for _ in range(width)]
    with k.when(is_inside):
        for value, loaded in zip(values, run.load(k.cast(at * width, i64), width), strict=True):
            value.set(loaded)
    return [value.get() for value in values]


class _Line:
    """Converts elements of a line, and stores them to the planes."""

    def __init__(
        self,
        k: Builder,
        spec: ResidueSpec,
        planes: Pointer,
        exponents: Pointer,
        num_spans: Value,
        plane_words: Value,
        count: Value,
    ) -> None:
        self.k, self.spec, self.planes, self.exponents = k, spec, planes, exponents
        self.num_spans, self.plane_words, self.count = num_spans, plane_words, count

    def store(self, line: Value, span: Value, elements: list[list[Value]]) -> None:
        """Store the word of 4 elements to each plane."""
        k = self.k
        scale = k.bitcast(k.shl(k.cast(self.exponents[line] + 1023, i64), 52), f64)
        numbers = [[k.cvt(value * scale, i64, "rni") for value in values] for values in elements]
        if self.spec.is_complex:
            numbers = [[real, imaginary, real + imaginary] for real, imaginary in numbers]
        halves = [[k.emit("unpack", k.bitcast(number, u64) ^ TOP, types=(u64,)) for number in x] for x in numbers]
        to = spread(k, line) if self.spec.is_spread else line
        place = k.cast(to * self.num_spans + span, i64) * WARP + k.cast(k.lane, i64)
        for number, p in enumerate(MODULI):
            with k.when(self.count > number) if number >= COUNTS[0] else nullcontext():
                for part in range(self.spec.planes_per_modulus):
                    target = place + self.plane_words * part if part else place
                    self.planes[target] = _residues(k, [each[part] for each in halves], p)
            place = place + self.plane_words * self.spec.planes_per_modulus


def _residues(k: Builder, halves: Sequence[Any], p: int) -> Value:
    """The word of the residues of 4 numbers, each given as low and high 32 bits."""
    if p == 256:
        return _joined(k, [low for low, _ in halves])
    weights = [sum(pow(256, 4 * half + i, p) << (8 * i) for i in range(4)) for half in range(2)]
    start = (128 - TOP) % p
    residues = []
    for low, high in halves:
        value = k.dp4a(low, weights[0], k.dp4a(high, weights[1], start))
        residues.append(k.mad(k.mulhi(value, (1 << 32) // p + 1), (1 << 32) - p, value))
    return _joined(k, residues) ^ TURN


def _joined(k: Builder, values: list[Value]) -> Value:
    """The low bytes of 4 words in one."""
    low, high = (k.prmt(values[i], values[i + 1], 0x0040) for i in (0, 2))
    word: Value = k.prmt(low, high, 0x5410)
    return word


__all__ = ["GROUP", "SPAN", "ResidueSpec", "make", "padded", "plan", "spread"]
