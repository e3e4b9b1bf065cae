"""Steps of the stabilised method of biconjugate gradients: eight launches each, in one plan.

Data layout: the matrix in CSR; x, r, p and v, which are written in place; three numbers, those of the step before (rho,
alpha, omega), and the outcome (0 while the method runs, 1 once it has converged, SciPy's code of a breakdown), of which
a kernel reads some slots and writes others. Who owns what and how inner products are added: `vectors`. Algorithm: inner
products of r; p; v = A p and its inner product with the shadow residual; s, in the place of r; t = A s and its inner
products; x and r. Once the outcome is not 0, nothing is written any more. Bytes of a step: the matrix twice, and 19
vectors.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.plan import Argument, Copy, Launch, Plan, Scratch, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sparse.types import BLOCK
from oxinp._kernels.sparse.vectors import UNROLL, each, leave, whole
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, f32, i32, i64

if TYPE_CHECKING:
    from oxinp._kernels.plan import Step
    from oxinp._ptx.value import Value

MAX_BLOCKS = 1024
CONVERGED, NO_RHO, NO_OMEGA = 1, -10, -11
"""Outcomes, beside 0: SciPy's codes."""


class BicgstabSpec(Frozen):
    """One kernel: ``dots``, ``direction``, ``half`` or ``update``; see the module."""

    name: str
    value: Type


def plan(size: int, count: int, matvec: Plan, value: Type) -> Plan:
    """Return the plan of `count` steps.

    Outputs are x, r, p, v, the three numbers and the outcome, i32; inputs are indptr, indices and data, the six before,
    the shadow residual, and the tolerance of the norm. `matvec` is the plan of a product.
    """
    num_blocks = min(MAX_BLOCKS, -(-size // (BLOCK * UNROLL)))
    scratch, nbytes = Scratch(), size * value.nbytes
    t, workspace = scratch.take(nbytes), scratch.take(matvec.scratch_nbytes)
    of_r, of_v, of_s, of_t = (scratch.take(2 * num_blocks * value.nbytes) for _ in range(4))
    numbers = [scratch.take(3 * value.nbytes) for _ in range(2)]
    after_rho, after_alpha = (scratch.take(i32.nbytes) for _ in range(2))
    outcomes = [scratch.take(i32.nbytes) for _ in range(2)]
    *vectors, last_numbers, last_outcome = outputs(6)
    x, r, p, v = vectors
    indptr, indices, data, *before, shadow, tolerance = inputs(11)
    steps: list[Step] = [Copy(to, given, nbytes) for to, given in zip(vectors, before[:4], strict=True)]
    steps += [Copy(numbers[0], before[4], 3 * value.nbytes), Copy(outcomes[0], before[5], i32.nbytes)]
    grid = (num_blocks, 1, 1)

    def product(to: Argument, of: Argument) -> tuple[Step, ...]:
        return matvec.on(out0=to, scratch=workspace, in0=indptr, in1=indices, in2=data, in3=of)

    def launch(name: str, *arguments: Argument) -> Launch:
        return Launch(make(BicgstabSpec(name, value)), grid, arguments, (size,))

    for step in range(count):
        now, then = step % 2, 1 - step % 2
        steps += [
            launch("dots", of_r, r, shadow),
            launch("direction", p, numbers[then], after_rho, r, v, of_r, numbers[now], outcomes[now], tolerance),
            *product(v, p),
            launch("dots", of_v, v, shadow),
            launch("half", r, of_s, numbers[then], after_alpha, v, of_v, after_rho),
            *product(t, r),
            launch("dots", of_t, t, r),
            launch("update", x, r, numbers[then], outcomes[then], p, t, of_s, of_t, after_alpha, tolerance),
        ]
    end = count % 2
    steps += [Copy(last_numbers, numbers[end], 3 * value.nbytes), Copy(last_outcome, outcomes[end], i32.nbytes)]
    return scratch.plan(steps)


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: BicgstabSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return {"dots": _dots, "direction": _direction, "half": _half, "update": _update}[spec.name](spec.value)


def _is_first(k: Builder) -> Value:
    """Return whether this is the thread that writes numbers."""
    return (k.ctaid == 0) & (k.tid == 0)


def _dots(value: Type) -> Kernel:
    """The partial sums of a.a and a.b."""
    k = Builder("bicgstab_dots", block=BLOCK)
    partial = k.pointer("partial", value, "w")
    a, b = (k.pointer(name, value, "r") for name in ("a", "b"))
    size = k.scalar("size", i64)
    square, product = (k.var(k.const(0, value)) for _ in range(2))

    def use(places: list[Value], valid: list[Value]) -> None:
        loaded = [(a[place], b[place]) for place in places]
        for (one, other), is_valid in zip(loaded, valid, strict=True):
            square.set(k.where(is_valid, square + one * one, square))
            product.set(k.where(is_valid, product + one * other, product))

    each(k, size, use)
    leave(k, partial, k.emit("mov", square))
    leave(k, partial, k.emit("mov", product), 1)
    return k.build()


def _direction(value: Type) -> Kernel:
    """The new p, if the method goes on."""
    k = Builder("bicgstab_direction", block=BLOCK)
    p, then = k.pointer("p", value), k.pointer("then", value, "w")
    after = k.pointer("after", i32, "w")
    r, v, of_r, now = (k.pointer(name, value, "r") for name in ("r", "v", "of_r", "now"))
    before, tolerance = k.pointer("before", i32, "r"), k.pointer("tolerance", value, "r")
    size = k.scalar("size", i64)
    square, rho = whole(k, of_r, value), whole(k, of_r, value, 1)
    omega = now[2]
    tiny = (2.0**-23 if value is f32 else 2.0**-52) ** 2
    code = k.where(abs(omega) < tiny, k.const(NO_OMEGA, i32), k.const(0, i32))
    code = k.where(abs(rho) < tiny, k.const(NO_RHO, i32), code)
    code = k.where(k.sqrt(square) < tolerance[0], k.const(CONVERGED, i32), code)
    code = k.where(before[0] == 0, code, before[0])
    beta = (rho / now[0]) * (now[1] / omega)
    with k.when(_is_first(k)):
        then[0] = rho
        after[0] = code

    def use(places: list[Value], valid: list[Value]) -> None:
        loaded = [(r[place], p[place], v[place]) for place in places]
        for place, is_valid, (r_i, p_i, v_i) in zip(places, valid, loaded, strict=True):
            with k.when(is_valid):
                p[place] = r_i + beta * (p_i - omega * v_i)

    with k.when(code == 0):
        each(k, size, use)
    return k.build()


def _half(value: Type) -> Kernel:
    """The residual s after half a step, in the place of r."""
    k = Builder("bicgstab_half", block=BLOCK)
    r, of_s, then = k.pointer("r", value), k.pointer("of_s", value, "w"), k.pointer("then", value)
    after = k.pointer("after", i32, "w")
    v, of_v = (k.pointer(name, value, "r") for name in ("v", "of_v"))
    before = k.pointer("before", i32, "r")
    size = k.scalar("size", i64)
    shadowed = whole(k, of_v, value, 1)
    alpha = then[0] / shadowed
    code = k.where((before[0] == 0) & (shadowed == 0), k.const(NO_OMEGA, i32), before[0])
    with k.when(_is_first(k)):
        then[1] = alpha
        after[0] = code
    square = k.var(k.const(0, value))

    def use(places: list[Value], valid: list[Value]) -> None:
        loaded = [(r[place], v[place]) for place in places]
        for place, is_valid, (r_i, v_i) in zip(places, valid, loaded, strict=True):
            s_i = r_i - alpha * v_i
            with k.when(is_valid):
                r[place] = s_i
                square.set(square + s_i * s_i)

    with k.when(code == 0):
        each(k, size, use)
    leave(k, of_s, k.emit("mov", square))
    return k.build()


def _update(value: Type) -> Kernel:
    """The new x and r; x of half a step where that was enough."""
    k = Builder("bicgstab_update", block=BLOCK)
    x, r, then = k.pointer("x", value), k.pointer("r", value), k.pointer("then", value)
    outcome = k.pointer("outcome", i32, "w")
    p, t, of_s, of_t = (k.pointer(name, value, "r") for name in ("p", "t", "of_s", "of_t"))
    before, tolerance = k.pointer("before", i32, "r"), k.pointer("tolerance", value, "r")
    size = k.scalar("size", i64)
    is_half_enough = k.sqrt(whole(k, of_s, value)) < tolerance[0]
    omega = whole(k, of_t, value, 1) / whole(k, of_t, value)
    alpha = then[1]
    code = k.where((before[0] == 0) & is_half_enough, k.const(CONVERGED, i32), before[0])
    with k.when(_is_first(k)):
        then[2] = omega
        outcome[0] = code

    def use(places: list[Value], valid: list[Value]) -> None:
        loaded = [(x[place], p[place], r[place], t[place]) for place in places]
        for place, is_valid, (x_i, p_i, s_i, t_i) in zip(places, valid, loaded, strict=True):
            half = x_i + alpha * p_i
            with k.when(is_valid):
                x[place] = k.where(is_half_enough, half, half + omega * s_i)
                r[place] = k.where(is_half_enough, s_i, s_i - omega * t_i)

    with k.when(before[0] == 0):
        each(k, size, use)
    return k.build()


__all__ = ["BicgstabSpec", "make", "plan"]
