"""Steps of the conjugate gradient method: four launches each, in one plan.

Data layout: the matrix in CSR; x, r and p, which are written in place; two slots each for the square of the residual's
norm and for the outcome (0 while the method runs, 1 once it has converged), of which a step reads one and writes the
other. Who owns what and how inner products are added: `vectors`. Algorithm: q = A p by the kernels of products; p.q; x
and r, with r.r; p. Once the outcome is not 0, nothing is written any more. Bytes of a step: the matrix, and 11 vectors.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.plan import Copy, Launch, Plan, Scratch, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sparse.types import BLOCK
from oxinp._kernels.sparse.vectors import UNROLL, each, leave, whole
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i32, i64

if TYPE_CHECKING:
    from oxinp._kernels.plan import Step
    from oxinp._ptx.value import Value

MAX_BLOCKS = 1024


class CgDotSpec(Frozen):
    """The kernel of the partial sums of an inner product."""

    value: Type


class CgUpdateSpec(Frozen):
    """The kernel of x and r."""

    value: Type


class CgDirectionSpec(Frozen):
    """The kernel of p, which also says whether the method has converged."""

    value: Type


def plan(size: int, count: int, matvec: Plan, value: Type) -> Plan:
    """Return the plan of `count` steps.

    Outputs are x, r, p, the square of the residual's norm and the outcome, i32; inputs are indptr, indices and data,
    the five before, and the tolerance of the norm. `matvec` is the plan of a product.
    """
    num_blocks = min(MAX_BLOCKS, -(-size // (BLOCK * UNROLL)))
    scratch = Scratch()
    q = scratch.take(size * value.nbytes)
    workspace = scratch.take(matvec.scratch_nbytes)
    pq, rr = (scratch.take(num_blocks * value.nbytes) for _ in range(2))
    squares, outcomes = ([scratch.take(type_.nbytes) for _ in range(2)] for type_ in (value, i32))
    x, r, p, last_square, last_outcome = outputs(5)
    indptr, indices, data, *before, tolerance = inputs(9)
    product = matvec.on(out0=q, scratch=workspace, in0=indptr, in1=indices, in2=data, in3=p)
    steps: list[Step] = [Copy(to, given, size * value.nbytes) for to, given in zip((x, r, p), before[:3], strict=True)]
    steps += [Copy(squares[0], before[3], value.nbytes), Copy(outcomes[0], before[4], i32.nbytes)]
    grid = (num_blocks, 1, 1)
    for step in range(count):
        now, then = step % 2, 1 - step % 2
        steps += [
            *product,
            Launch(make(CgDotSpec(value)), grid, (pq, p, q), (size,)),
            Launch(make(CgUpdateSpec(value)), grid, (x, r, rr, p, q, pq, squares[now], outcomes[now]), (size,)),
            Launch(
                make(CgDirectionSpec(value)),
                grid,
                (p, squares[then], outcomes[then], r, rr, squares[now], outcomes[now], tolerance),
                (size,),
            ),
        ]
    end = count % 2
    steps += [Copy(last_square, squares[end], value.nbytes), Copy(last_outcome, outcomes[end], i32.nbytes)]
    return scratch.plan(steps)


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: CgDotSpec | CgUpdateSpec | CgDirectionSpec) -> Kernel:
    """Build the kernel of a Spec."""
    if isinstance(spec, CgDotSpec):
        return _dot(spec)
    return _update(spec) if isinstance(spec, CgUpdateSpec) else _direction(spec)


def _dot(spec: CgDotSpec) -> Kernel:
    k = Builder("cg_dot", block=BLOCK)
    partial = k.pointer("partial", spec.value, "w")
    a, b = (k.pointer(name, spec.value, "r") for name in ("a", "b"))
    size = k.scalar("size", i64)
    total = k.var(k.const(0, spec.value))

    def use(places: list[Value], valid: list[Value]) -> None:
        loaded = [(a[place], b[place]) for place in places]
        for (one, other), is_valid in zip(loaded, valid, strict=True):
            total.set(k.where(is_valid, total + one * other, total))

    each(k, size, use)
    leave(k, partial, k.emit("mov", total))
    return k.build()


def _update(spec: CgUpdateSpec) -> Kernel:
    k = Builder("cg_update", block=BLOCK)
    x, r, rr = k.pointer("x", spec.value), k.pointer("r", spec.value), k.pointer("rr", spec.value, "w")
    p, q, pq = (k.pointer(name, spec.value, "r") for name in ("p", "q", "pq"))
    square, outcome = k.pointer("square", spec.value, "r"), k.pointer("outcome", i32, "r")
    size = k.scalar("size", i64)
    alpha = square[0] / whole(k, pq, spec.value)
    total = k.var(k.const(0, spec.value))

    def use(places: list[Value], valid: list[Value]) -> None:
        loaded = [(x[place], r[place], p[place], q[place]) for place in places]
        for place, is_valid, (x_i, r_i, p_i, q_i) in zip(places, valid, loaded, strict=True):
            left = r_i - alpha * q_i
            with k.when(is_valid):
                x[place], r[place] = x_i + alpha * p_i, left
                total.set(total + left * left)

    with k.when(outcome[0] == 0):
        each(k, size, use)
    leave(k, rr, k.emit("mov", total))
    return k.build()


def _direction(spec: CgDirectionSpec) -> Kernel:
    k = Builder("cg_direction", block=BLOCK)
    p = k.pointer("p", spec.value)
    next_square, next_outcome = k.pointer("next_square", spec.value, "w"), k.pointer("next_outcome", i32, "w")
    r, rr, square = (k.pointer(name, spec.value, "r") for name in ("r", "rr", "square"))
    outcome, tolerance = k.pointer("outcome", i32, "r"), k.pointer("tolerance", spec.value, "r")
    size = k.scalar("size", i64)
    after, before = whole(k, rr, spec.value), square[0]
    runs = outcome[0] == 0
    beta = after / before
    with k.when((k.ctaid == 0) & (k.tid == 0)):
        next_square[0] = k.where(runs, after, before)
        has_converged = k.sqrt(after) < tolerance[0]
        next_outcome[0] = k.where(runs & ~has_converged, k.const(0, i32), k.const(1, i32))

    def use(places: list[Value], valid: list[Value]) -> None:
        loaded = [(r[place], p[place]) for place in places]
        for place, is_valid, (r_i, p_i) in zip(places, valid, loaded, strict=True):
            with k.when(is_valid):
                p[place] = r_i + beta * p_i

    with k.when(runs):
        each(k, size, use)
    return k.build()


__all__ = ["CgDirectionSpec", "CgDotSpec", "CgUpdateSpec", "make", "plan"]
