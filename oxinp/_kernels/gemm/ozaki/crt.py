"""The Chinese remainder theorem: matrices of f64 or c128 from the residues of scaled integers.

Data layout: one plane of bytes per modulus, rows `pitch` bytes apart; C is f64 in C order. Where C is c128, three
planes: of the products of real parts, D, of those of imaginary ones, E, and of those of sums, F.

Who owns what: a thread has 4 neighbours of a row, one word of each plane, then those of another block's share.

Algorithm (Chinese remainder theorem): the integer is V = sum of residue x weight, less a multiple of P, the product of
the moduli. Words of four planes are transposed to words of four residues per element, and each byte of the weights
takes one dp4a per word: sums of products of bytes, below 2**20, which are then put together in 128 bits. The multiple
of P is the rounded quotient, computed in f64 from the upper half. The rest is exact, and rounded once to f64; scaling
it back by a power of two does not round again, since the guard has kept norms away from the ends of the range. V is
linear in the residues: for c128, real parts follow from V of D less that of E, imaginary ones from V of F less both.

Per number: one byte per modulus read (of c128 three for two), 8 written, about 10 integer instructions per byte.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.gemm.ozaki.moduli import COUNTS, reconstruction
from oxinp._kernels.plan import Launch, Plan, Work, inputs, outputs
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import f64, i32, i64, u32, u64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

BLOCK = 256
WIDTH = 4  # elements of a thread
LIMB = 1 << 32
SHIFT = 1 << 13  # multiples of P that are added so that the quotient is not negative
BLOCKS_PER_SM = 16


class Residues(NamedTuple):
    """Planes of residues: `rows` x `columns` elements, rows `pitch` bytes apart, planes `plane_nbytes` apart."""

    rows: int
    columns: int
    pitch: int
    plane_nbytes: int


class CrtSpec(NamedTuple):
    """One kernel of the family.

    Attributes
    ----------
    num_moduli : int
    is_complex : bool
        C is c128.
    has_pairs : bool
        The columns of C and its pitch are even in number, or it is complex.
    """

    num_moduli: int
    is_complex: bool
    has_pairs: bool


def plan(count: int, source: Residues, c_pitch: int, num_sms: int, *, is_complex: bool = False) -> Plan:
    """Return the plan for `count` moduli, one launch; `c_pitch` elements are from one row of C to the next.

    The inputs are the planes, the exponents of C's rows and of its columns and the number of moduli (i32; if it is
    another, nothing is done).
    """
    rows, columns, pitch, plane_nbytes = source
    parts = -(-columns // (BLOCK * WIDTH))
    has_pairs = is_complex or (columns % 2 == 0 and c_pitch % 2 == 0)
    # Counted for the fewest moduli: only one of the launches does anything.
    nbytes = rows * columns * (3 * count + 16 if is_complex else count + 8) if count == COUNTS[0] else 0
    constants = (c_pitch, plane_nbytes // 4, pitch // 4, columns, parts, rows * parts)
    grid = (min(rows * parts, num_sms * BLOCKS_PER_SM), 1, 1)
    kernel = make(CrtSpec(count, is_complex, has_pairs))
    return Plan((Launch(kernel, grid, (*outputs(1), *inputs(4)), constants, Work(0, nbytes)),))


@cache
@retraceable
def make(spec: CrtSpec) -> Kernel:
    """Return the kernel of a Spec; for its parameters see `plan`."""
    count, is_complex, has_pairs = spec
    k = Builder(f"reconstruct_{count}{'_c128' * is_complex}{'_v2' * has_pairs}", block=BLOCK)
    c, planes = k.pointer("c", f64, "w"), k.pointer("planes", u32, "r")
    row_exponents, column_exponents = (k.pointer(f"{name}_exponents", i32, "r") for name in ("row", "column"))
    chosen = k.pointer("count", i32, "r")
    c_pitch, plane_words = k.scalar("c_pitch", i64), k.scalar("plane_words", i64)
    pitch_words, columns, parts, total = (k.scalar(x, u32) for x in ("pitch_words", "columns", "parts", "total"))
    width, planes_per_modulus = (2, 3) if is_complex else (1, 1)
    with k.range(k.ctaid, k.where(chosen[0] == count, total, 0), k.nctaid) as number:
        row = number / parts
        word = (number - row * parts) * BLOCK + k.tid
        column = word * WIDTH
        with k.when(column < columns):
            place = k.cast(row, i64) * k.cast(pitch_words, i64) + k.cast(word, i64)
            words = []
            for _ in range(count * planes_per_modulus):
                words.append(planes[place])
                place = place + plane_words
            exponents = [row_exponents[row] + column_exponents[k.min(column + i, columns - 1)] for i in range(WIDTH)]
            transposed = [_transposed_words(k, words[part::planes_per_modulus]) for part in range(planes_per_modulus)]
            numbers = []
            for i, exponent in enumerate(exponents):
                sums = _complex_parts([_limbs(k, elements[i], count) for elements in transposed])
                numbers += [_scaled_back(k, *_integer(k, limbs, count), exponent, count) for limbs in sums]
            line = c.at((k.cast(row, i64) * c_pitch + k.cast(column, i64)) * width)
            _store(k, line, (columns - column) * width, numbers, has_pairs=has_pairs)
    return k.build()


def _transposed_words(k: Builder, words: list[Value]) -> list[list[Value]]:
    """Per element, the words of its residues, from words of 4 elements of each plane."""
    rows = []
    for start in range(0, len(words), 4):
        four = [*words[start : start + 4], *[k.const(0, u32)] * 3][:4]
        low = [k.prmt(four[i], four[i + 1], 0x5140) for i in (0, 2)]  # elements 0, 0, 1, 1
        high = [k.prmt(four[i], four[i + 1], 0x7362) for i in (0, 2)]
        rows.append([k.prmt(*pair, select) for pair in (low, high) for select in (0x5410, 0x7632)])
    return [list(column) for column in zip(*rows, strict=True)]


def _complex_parts(limbs: list[list[Value]]) -> list[list[Value]]:
    """V of the real and the imaginary part, from V of D, E and F."""
    if len(limbs) == 1:
        return limbs
    d, e, f = limbs
    real = [x - y for x, y in zip(d, e, strict=True)]
    imaginary = [z - (x + y) for x, y, z in zip(d, e, f, strict=True)]
    return [real, imaginary]


def _limbs(k: Builder, residues: list[Value], count: int) -> list[Value]:
    """V as the sum of four i64 times powers of 2**32."""
    weights = reconstruction(count).weights
    return [_limb(k, residues, weights, 4 * number) for number in range(4)]


def _integer(k: Builder, limbs: list[Value], count: int) -> tuple[Value, Value]:
    """The integer, -P / 2 to P / 2, as the high (i64) and the low half (u64) of 128 bits."""
    product = reconstruction(count).product
    # How often P goes into V, by the upper limbs: the lower ones are less than 2**-30 of P.
    quotient = k.fma(k.cast(limbs[3], f64), 2.0**96 / product, k.cast(limbs[2], f64) * (2.0**64 / product))
    times = k.cvt(quotient + SHIFT, u32, "rni")
    # Modulo 2**128: a multiple of 2**128 - P is added instead of subtracting one of P.
    negative, shifted = (1 << 128) - product, SHIFT * product
    carried = []
    carry = None
    for i, limb in enumerate(limbs):
        part = k.mad_wide(times, negative >> (32 * i) & (LIMB - 1), k.const(shifted >> (32 * i) & (LIMB - 1), u64))
        total = limb + k.bitcast(part, i64)
        carried.append(total if carry is None else total + carry)
        carry = k.shr(carried[-1], 32)
    low, high = (
        k.emit("pack", *[k.cast(limb, u32) for limb in carried[start : start + 2]], types=()) for start in (0, 2)
    )
    return k.bitcast(high, i64), low


def _limb(k: Builder, residues: list[Value], weights: Sequence[int], first: int) -> Value:
    """A limb of V: bytes `first` to `first` + 3 of the weights times the residues; i64, below 2**45."""
    total = k.const(0, u64)
    for number in range(4):
        packed = [
            sum((weight >> (8 * (first + number)) & 255) << (8 * i) for i, weight in enumerate(weights[4 * j :][:4]))
            for j in range(len(residues))
        ]
        part = k.const(0, u32)
        for residue, bytes_ in zip(residues, packed, strict=True):
            if bytes_:
                part = k.dp4a(residue, bytes_, part)
        total = k.mad_wide(part, 1 << (8 * number), total)
    return k.bitcast(total, i64)


def _scaled_back(k: Builder, high: Value, low: Value, exponent: Value, count: int) -> Value:
    """The integer times 2**-exponent, rounded to nearest even, as the sum of two parts that f64 holds."""
    # Below 2**84: the parts are all but the last 32 bits, and these.
    words: list[Any] = [k.emit("unpack", k.bitcast(half, u64), types=(u64,)) for half in (low, high)]
    (l0, l1), (h0, _) = words
    is_short = k.bitcast(high + (1 << 20), u64) < 1 << 21
    short_upper, short_lower = k.emit("pack", l1, h0, types=()), k.cast(l0, u64)
    # Else the upper 53 bits or so, and 53 of the others, with a sticky bit for those cut off.
    move = max(0, reconstruction(count).product.bit_length() - 1 - 64 - 53)
    sizes = (1 << (11 + move)) - 1
    lower = low & ((1 << 64) - 1 - sizes) | k.where((low & sizes) == 0, k.const(0, u64), k.const(sizes + 1, u64))
    if move:
        lower = k.shl(k.bitcast(high, u64), 64 - move) | k.shr(lower, move)
        high = k.shr(high, move)
    upper = k.where(is_short, k.bitcast(short_upper, i64), high)
    lower = k.where(is_short, short_lower, lower)
    power = k.where(is_short, k.const(2.0**32, f64), k.const(2.0**64, f64))
    unit = k.where(is_short, k.const(1023, i32), 1023 + move)
    total: Value = k.fma(k.cast(upper, f64), power, k.cast(lower, f64))
    scale = k.bitcast(k.shl(k.cast(unit - exponent, i64), 52), f64)
    return total * scale


def _store(k: Builder, line: Pointer, room: Value, numbers: list[Value], *, has_pairs: bool) -> None:
    """Store as many numbers as there is room for."""
    step = 2 if has_pairs else 1
    for i in range(0, len(numbers), step):
        with k.when(room > i):
            line.store(i, numbers[i : i + step])


__all__ = ["CrtSpec", "Residues", "make", "plan"]
