"""The guard of fp16x2 products: whether the result would be as accurate as that of multiply-adds; see `fp16x2.plan`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import i32, i64, u32, u64

TINY_FACTOR = 512  # of the tiny elements
INFINITE = 0x7F800000  # bits of an f32
BLOCK = 1024


@dataclass(frozen=True, slots=True)
class Fp16x2GuardSpec:
    """The one kernel of the family."""


@cache
@retraceable
def make(spec: Fp16x2GuardSpec) -> Kernel:
    """Return the kernel of the guard, one block, which sets the flag to 1 if fp16x2 would not be accurate, else to 0.

    Parameters of the kernel: pointers to the flag, to largest magnitudes and counts of A's rows and of B's columns,
    then as u32 m, n and K.
    """
    del spec
    k = Builder("split_guard", block=BLOCK)
    flag = k.pointer("flag", u32, "w")
    pointers = [(k.pointer(f"{name}_max", i32, "r"), k.pointer(f"{name}_counts", i64, "r")) for name in ("a", "b")]
    extents = [k.scalar(name, u32) for name in ("m", "n")]
    depth = k.scalar("depth", u32)
    # Per operand: the largest magnitude, and the largest counts of small and of tiny elements.
    shared = k.shared(u32, (6,))
    with k.when(k.tid < 6):
        shared[k.tid] = k.const(0, u32)
    k.barrier()
    for number, ((maxima, counts), extent) in enumerate(zip(pointers, extents, strict=True)):
        most = [k.var(0, u32) for _ in range(3)]
        with k.range(k.tid, extent, BLOCK) as line:
            magnitude, count = k.bitcast(maxima[line], u32), k.bitcast(counts[line], u64)
            count = k.where(magnitude == 0, k.const(0, u64), count)
            for var, value in zip(most, (magnitude, k.cast(count, u32), k.cast(k.shr(count, 32), u32)), strict=True):
                var.set(k.max(var, value))
        for i, var in enumerate(most):
            shared.atomic("max", 3 * number + i, var)
    k.barrier()
    with k.when(k.tid == 0):
        (a_max, a_small, a_tiny), (b_max, b_small, b_tiny) = (
            (shared.load(i)[0] for i in range(3)),
            (shared.load(3 + i)[0] for i in range(3)),
        )
        small, tiny, wide = (k.cast(value, u64) for value in (a_small + b_small, a_tiny + b_tiny, depth))
        room = k.where(small < wide, wide - small, 0) * wide
        is_unfit = (tiny * TINY_FACTOR > room) | (small * 8 > wide * 7) | (k.max(a_max, b_max) >= INFINITE)
        flag[0] = k.where(is_unfit, k.const(1, u32), k.const(0, u32))
    return k.build()


__all__ = ["Fp16x2GuardSpec", "make"]
