"""Steps of the Arnoldi method with a CSR matrix: a Krylov space's orthonormal vectors and the components along them.

Data layout: vectors are the rows of a matrix, components those of another one; per block partial sums of inner
products. Who owns what: `vectors`. Algorithm, of a step: w is the product of the matrix and the last vector; partial
sums of its inner products with the vectors, each warp's in shared memory; w less its components, with the partial sums
of its square; both a second time if less than half of the square of w was left (classical Gram-Schmidt with the
criterion of Daniel, Gragg, Kaufman and Stewart; with less, errors would grow from step to step), which blocks find out
themselves; the next vector. Bytes of a step: the matrix, and
the vectors twice.

Source: J. Daniel, W. Gragg, L. Kaufman, G. Stewart, Reorthogonalization and stable algorithms for updating the
Gram-Schmidt QR factorization, Math. Comp. 30, 1976.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.plan import Argument, Copy, Fill, Launch, Plan, Scratch, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sparse.types import BLOCK
from oxinp._kernels.sparse.vectors import UNROLL, add, each, each_together, whole
from oxinp._ptx import Builder, Kernel, block_reduce, warp_reduce
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, f32, i64, u32
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from oxinp._kernels.plan import Step
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

MAX_BLOCKS = 528
ROWS = 4
"""Vectors whose elements are on their way at a time."""
MAX_VECTORS = 512
NUM_WARPS = BLOCK // WARP
LEFT = 0.5
"""The share of the square of w from which on what was left is orthogonal enough."""


class ArnoldiDotsSpec(Frozen):
    """The kernel of inner products with the vectors, and of w with itself; `is_second` if it may be left out."""

    value: Type
    is_second: bool


class ArnoldiUpdateSpec(Frozen):
    """The kernel that subtracts the components; `is_second` if it may be left out."""

    value: Type
    is_second: bool


class ArnoldiNextSpec(Frozen):
    """The kernel of the next vector."""

    value: Type


def plan(size: int, first: int, count: int, matvec: Plan, value: Type, num_parts: int = 3) -> Plan:
    """Return the plan of the steps from `first` to `count`.

    Outputs are the vectors, (count + 1, size), and the components, (count, count + 2); inputs are the `num_parts`
    arrays of what is multiplied by, and the vectors up to the first. `matvec` is the plan of a product; its last input
    is the vector.
    """
    num_blocks = min(MAX_BLOCKS, -(-size // (BLOCK * UNROLL)))
    scratch, row = Scratch(), size * value.nbytes
    w, workspace = scratch.take(row), scratch.take(matvec.scratch_nbytes)
    dots, again = (scratch.take((count + 1) * num_blocks * value.nbytes) for _ in range(2))
    left, finally_left = (scratch.take(num_blocks * value.nbytes) for _ in range(2))
    vectors, components = outputs(2)
    *parts, given = inputs(num_parts + 1)
    names = {f"in{i}": part for i, part in enumerate(parts)}
    steps: list[Step] = [Copy(vectors, given, (first + 1) * row)]
    steps.append(Fill(components, count * (count + 2) * value.nbytes, 0))
    grid = (num_blocks, 1, 1)
    first_dots, second_dots = (make(ArnoldiDotsSpec(value, is_second)) for is_second in (False, True))
    first_update, second_update = (make(ArnoldiUpdateSpec(value, is_second)) for is_second in (False, True))
    for column in range(first, count):
        known = column + 1
        last = Argument(vectors.buffer, vectors.offset + column * row)
        following = Argument(vectors.buffer, vectors.offset + known * row)
        line = Argument(components.buffer, components.offset + column * (count + 2) * value.nbytes)
        sizes = (size, known)
        steps += [
            *matvec.on(**names, **{f"in{num_parts}": last}, out0=w, scratch=workspace),
            Launch(first_dots, grid, (dots, vectors, w), sizes),
            Launch(first_update, grid, (w, left, line, dots, vectors), sizes),
            Launch(second_dots, grid, (again, vectors, w, dots, left), sizes),
            Launch(second_update, grid, (w, finally_left, line, again, vectors, dots, left), sizes),
            Launch(make(ArnoldiNextSpec(value)), grid, (following, line, w, dots, finally_left), sizes),
        ]
    return scratch.plan(steps)


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: ArnoldiDotsSpec | ArnoldiUpdateSpec | ArnoldiNextSpec) -> Kernel:
    """Build the kernel of a Spec."""
    if isinstance(spec, ArnoldiDotsSpec):
        return _dots(spec)
    return _update(spec) if isinstance(spec, ArnoldiUpdateSpec) else _next(spec)


def _is_enough(k: Builder, dots: Pointer, left: Pointer, known: Value, value: Type) -> Value:
    """Return whether enough of w was left the first time."""
    return whole(k, left, value) > whole(k, dots, value, known) * LEFT


def _dots(spec: ArnoldiDotsSpec) -> Kernel:
    value = spec.value
    k = Builder("arnoldi_dots", block=BLOCK, max_registers=64)  # or ptxas spills to have fewer
    partial = k.pointer("partial", value, "w")
    vectors, w = (k.pointer(name, value, "r") for name in ("vectors", "w"))
    before = [k.pointer(name, value, "r") for name in ("dots", "left")] if spec.is_second else []
    size, known = k.scalar("size", i64), k.scalar("known", u32)
    runs = ~_is_enough(k, before[0], before[1], known, value) if before else k.const(0, u32) == 0
    sums = k.shared(value, (MAX_VECTORS + 1) * NUM_WARPS)
    with k.when(runs):
        with k.range(k.tid + 0, (known + 1) * NUM_WARPS, BLOCK) as slot:
            sums[slot] = k.const(0, value)
        k.barrier()

        def use(places: list[Value], valid: list[Value]) -> None:
            mine = [w[place] for place in places]
            with k.range(k.const(0, u32), known + 1, ROWS) as first:
                starts = [k.cast(k.min(first + i, known - 1), i64) * size for i in range(ROWS)]
                loaded = [[vectors[start + place] for place in places] for start in starts]
                for i, found in enumerate(loaded):
                    total = k.const(0, value)
                    for element, other, is_valid in zip(mine, found, valid, strict=True):
                        factor = k.where(first + i < known, other, element)  # after the vectors, w itself
                        total = k.where(is_valid, total + factor * element, total)
                    added = warp_reduce(k, total, add)
                    with k.when((k.lane == 0) & (first + i <= known)):
                        slot = (first + i) * NUM_WARPS + k.warp
                        sums[slot] = sums[slot] + added

        each_together(k, size, use)
        k.barrier()
        with k.range(k.tid + 0, known + 1, BLOCK) as row:
            total = sums[row * NUM_WARPS]
            for i in range(1, NUM_WARPS):
                total = total + sums[row * NUM_WARPS + i]
            partial[row * k.nctaid + k.ctaid] = total
    return k.build()


def _update(spec: ArnoldiUpdateSpec) -> Kernel:
    value = spec.value
    k = Builder("arnoldi_update", block=BLOCK, max_registers=64)  # or ptxas spills to have fewer
    w, squares = k.pointer("w", value), k.pointer("squares", value, "w")
    line, partial = k.pointer("line", value), k.pointer("partial", value, "r")
    vectors = k.pointer("vectors", value, "r")
    before = [k.pointer(name, value, "r") for name in ("dots", "left")] if spec.is_second else []
    size, known = k.scalar("size", i64), k.scalar("known", u32)
    components = k.shared(value, MAX_VECTORS)
    total = k.var(k.const(0, value))
    runs = ~_is_enough(k, before[0], before[1], known, value) if before else k.const(0, u32) == 0
    with k.when(runs):
        with k.range(k.warp, known, NUM_WARPS) as row:
            added = k.var(k.const(0, value))
            with k.range(k.lane, k.nctaid, WARP) as place:
                added.set(added + partial[row * k.nctaid + place])
            k.warp_sync()
            component = warp_reduce(k, k.emit("mov", added), add)
            with k.when(k.lane == 0):
                components[row] = component
                with k.when(k.ctaid == 0):
                    line[row] = line[row] + component
        k.barrier()

        def use(places: list[Value], valid: list[Value]) -> None:
            sums = [k.var(w[place]) for place in places]
            with k.range(k.const(0, u32), known, ROWS) as first:
                rows = [k.min(first + i, known - 1) for i in range(ROWS)]
                found = [[vectors[k.cast(row, i64) * size + place] for place in places] for row in rows]
                for i, (row, others) in enumerate(zip(rows, found, strict=True)):
                    component = components[row]
                    factor = k.where(first + i < known, component, k.const(0, value)) if i else component
                    for left, other in zip(sums, others, strict=True):
                        left.set(left - factor * other)
            for place, left, is_valid in zip(places, sums, valid, strict=True):
                with k.when(is_valid):
                    w[place] = left.get()
                    total.set(total + left * left)

        each(k, size, use)
    whole = block_reduce(k, k.emit("mov", total), add)
    with k.when(k.tid == 0):
        squares[k.ctaid] = k.where(runs, whole, before[1][k.ctaid]) if before else whole
    return k.build()


def _next(spec: ArnoldiNextSpec) -> Kernel:
    value = spec.value
    k = Builder("arnoldi_next", block=BLOCK)
    following, line = k.pointer("following", value, "w"), k.pointer("line", value, "w")
    w, dots, left = (k.pointer(name, value, "r") for name in ("w", "dots", "left"))
    size, known = k.scalar("size", i64), k.scalar("known", u32)
    norm, before = k.sqrt(whole(k, left, value)), k.sqrt(whole(k, dots, value, known))
    leads = norm > before * (2.0**-23 if value is f32 else 2.0**-52)
    nothing = k.const(0, value)
    with k.when((k.ctaid == 0) & (k.tid == 0)):
        line[known] = k.where(leads, norm, nothing)

    def use(places: list[Value], valid: list[Value]) -> None:
        loaded = [w[place] for place in places]
        for place, element, is_valid in zip(places, loaded, valid, strict=True):
            with k.when(is_valid):
                following[place] = k.where(leads, element / norm, nothing)

    each(k, size, use)
    return k.build()


__all__ = ["MAX_VECTORS", "ArnoldiDotsSpec", "ArnoldiNextSpec", "ArnoldiUpdateSpec", "make", "plan"]
