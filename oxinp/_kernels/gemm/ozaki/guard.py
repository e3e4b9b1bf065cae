"""The guard of the Ozaki scheme: how many moduli make the result as accurate as multiply-adds; see `ozaki.plan`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from oxinp._kernels.gemm.ozaki.moduli import COUNTS, reconstruction
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import f64, i32, i64, u32

if TYPE_CHECKING:
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

LEVELS = (1, 2, 5)  # elements are small below 2**-level of the root mean square
FIELD = 21  # bits of a count in the packed counts
MAX_TERMS = (1 << FIELD) - 1
MIN_SHARE = 8  # one in so many terms has to be large
ROOM = 8 * 2.0**-53  # |a| |b| / S may be this times T
LEAST, MOST = 2.0**-350, 2.0**350  # norms whose scales, and those of their products, f64 can hold
BLOCK = 1024


@dataclass(frozen=True, slots=True)
class OzakiGuardSpec:
    """The one kernel of the family."""


@cache
@retraceable
def make(spec: OzakiGuardSpec) -> Kernel:
    """Return the kernel of the guard, one block, which sets the flag, the number of moduli, and the scales' exponents.

    The flag is 1 and the number 0 if the scheme would not be accurate, else the flag is 0.

    Parameters of the kernel: pointers to the flag and to the number, to the sums of squares, the counts and the
    exponents of A's rows, to those of B's columns, then as u32 m, n and the number of terms.
    """
    del spec
    k = Builder("ozaki_guard", block=BLOCK)
    flag, chosen = k.pointer("flag", u32, "w"), k.pointer("chosen", i32, "w")
    pointers = [
        (
            k.pointer(f"{name}_squares", f64, "r"),
            k.pointer(f"{name}_counts", i64, "r"),
            k.pointer(f"{name}_exponents", i32, "w"),
        )
        for name in ("a", "b")
    ]
    extents = [k.scalar(name, u32) for name in ("m", "n")]
    depth = k.scalar("depth", u32)
    # Per operand and level: the largest count of small elements of any line; then, whether a norm is out of range, and
    # the number of moduli.
    shared = k.shared(u32, (2 * len(LEVELS) + 2,))
    wrong, number = 2 * len(LEVELS), 2 * len(LEVELS) + 1
    with k.when(k.tid < 2 * len(LEVELS) + 2):
        shared[k.tid] = k.const(0, u32)
    k.barrier()
    for operand, ((squares, counts, _), extent) in enumerate(zip(pointers, extents, strict=True)):
        most, is_wrong = [k.var(0, u32) for _ in LEVELS], k.var(0, u32)
        with k.range(k.tid, extent, BLOCK) as line:
            total, count = squares[line], counts[line]
            is_right = (total == 0) | ((total >= LEAST * LEAST) & (total <= MOST * MOST))
            is_wrong.set(k.where(is_right, is_wrong.get(), 1))
            for i, var in enumerate(most):
                var.set(k.max(var, k.cast(k.shr(count, FIELD * i), u32) & ((1 << FIELD) - 1)))
        for i, var in enumerate(most):
            shared.atomic("max", operand * len(LEVELS) + i, var)
        shared.atomic("max", wrong, is_wrong)
    k.barrier()
    with k.when(k.tid == 0):
        most_small = [shared.load(i)[0] for i in range(2 * len(LEVELS))]
        count = k.where(shared.load(wrong)[0] == 0, _number_of_moduli(k, most_small, depth), 0)
        shared[number] = k.bitcast(count, u32)
        chosen[0] = count
        flag[0] = k.where(count == 0, k.const(1, u32), k.const(0, u32))
    k.barrier()
    count = k.bitcast(shared.load(number)[0], i32)
    limit = k.const(0.0, f64)
    for each in COUNTS:
        limit = k.where(count == each, k.const(reconstruction(each).limit ** 2, f64), limit)
    for (squares, _, exponents), extent in zip(pointers, extents, strict=True):
        with k.when(count > 0), k.range(k.tid, extent, BLOCK) as line:
            _set_exponent(k, exponents, line, squares[line], limit)
    return k.build()


def _number_of_moduli(k: Builder, most_small: list[Value], depth: Value) -> Value:
    """The number of moduli that are needed, 0 if no number suffices."""
    levels = len(LEVELS)
    total = k.const(0.0, f64)
    for i, level in enumerate(LEVELS):
        small = most_small[i] + most_small[levels + i]
        # Terms that were counted at the level before add what they are larger.
        worth = 4.0**-level - (4.0 ** -LEVELS[i + 1] if i + 1 < levels else 0)
        has_enough = small <= depth - (depth + (MIN_SHARE - 1)) / MIN_SHARE
        total = total + k.where(has_enough, k.cast(depth - small, f64) * worth, 0.0)
    depth_bits = 32 - k.cast(k.clz(depth - 1), i32)
    wide = k.bitcast(k.shl(k.cast(depth_bits + 1023, i64), 52), f64)
    result = k.const(0, i32)
    for each in reversed(COUNTS):
        result = k.where(total * (ROOM * reconstruction(each).limit) >= wide, k.const(each, i32), result)
    return result


def _set_exponent(k: Builder, exponents: Pointer, line: Value, squares: Value, limit: Value) -> None:
    """Store the exponent of the largest scale with a norm within the limit, whose square is given; 0 for zeros."""
    is_empty = squares == 0
    quotient = limit / k.where(is_empty, limit, squares)
    exponent = k.cast(k.shr(k.bitcast(quotient, i64), 52), i32) - 1023
    exponents[line] = k.shr(exponent, 1)


__all__ = ["OzakiGuardSpec", "make"]
