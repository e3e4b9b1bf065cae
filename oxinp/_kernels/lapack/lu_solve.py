"""Linear systems and inverses by LU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._kernels.blas3 import plan as blas3
from oxinp._kernels.blas3 import trsm
from oxinp._kernels.blas3.plan import TriangularSystem
from oxinp._kernels.gemm import select
from oxinp._kernels.gemm.operand import TRIANGULAR, Form
from oxinp._kernels.lapack import back_substitution, lu, lu_strips, rows
from oxinp._kernels.lapack.lu import Stack, contiguous
from oxinp._kernels.plan import Argument, Plan, Scratch

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._kernels.lapack.lu import Fills
    from oxinp._kernels.plan import Step

UPPER = Form(TRIANGULAR, is_lower=False)


def plan_solve(stack: Stack, device: Device, fill: Fills | None = None) -> Plan:
    """Return the launches that solve A X = B, where [A B] are matrices with more columns than rows, in place.

    Eliminating A takes what lies beside it along: rows change places, and L Y = B is solved. Outputs are the matrices,
    X in the place of B, and the status; what becomes of A is of no use. Parameters are those of `lu.plan_factor`.
    """
    strips = lu_strips.choose(stack, device)
    if strips is not None:
        return lu_strips.plan(strips, stack, device, fill)
    scratch = Scratch()
    order, count = stack.num_rows, stack.count
    pivots, permutation = scratch.take(4 * order * count), scratch.take(4 * order * count)
    factor = lu.plan_factor(stack, device, fill, keeps_lower=False)
    more = scratch.take_of(factor)
    a, status = (Argument(f"out{i}") for i in range(2))
    columns = (order, stack.num_columns)
    x = a.at(stack.at(0, order))
    spec = back_substitution.choose(stack.type, order, stack.num_columns - order, device) if count == 1 else None
    if spec is None:
        above = lu.solved(stack, 0, order, columns, UPPER, device).on(in0=a, out0=x)
    else:
        flags = scratch.take(-(-order // spec.length) * 4)
        above = back_substitution.steps(spec, order, stack.pitch, (a, x, flags), device)
    return scratch.plan((*factor.on(out0=a, out1=pivots, out2=permutation, out3=status, scratch=more), *above))


def plan_solve_apart(stack: Stack, num_columns: int, b_strides: tuple[int, int, int], device: Device) -> Plan:
    """Return the launches that solve A X = B with X where B is not.

    Outputs are X, in C order, what takes the place of A, and the status; the input is B. Rows of B are permuted as
    they are copied, so that nothing but the matrices is in the workspace; elimination beside A has larger products.

    Parameters
    ----------
    stack : Stack
        Square matrices.
    num_columns : int
        Of B.
    b_strides : (int, int, int)
        Elements from one matrix, row and column of B to the next.
    device : Device
    """
    scratch = Scratch()
    order, count = stack.num_rows, stack.count
    pivots, permutation = scratch.take(4 * order * count), scratch.take(4 * order * count)
    factor = lu.plan_factor(stack, device)
    more = scratch.take_of(factor)
    x, a, status = (Argument(f"out{i}") for i in range(3))
    shape = (count, order, num_columns)
    steps: list[Step] = [
        *factor.on(out0=a, out1=pivots, out2=permutation, out3=status, scratch=more),
        rows.permute(stack.type, shape, x, permutation, Argument("in0"), b_strides),
    ]
    size = order * num_columns
    for form in (lu.UNIT_LOWER, UPPER):
        system = TriangularSystem(shape[1:], stack.matrices, form, True, num_columns, 256, count, stack.move, size)
        steps += blas3.plan_solve(system, device).on(in0=a, out0=x)
    return scratch.plan(steps)


def plan_invert(stack: Stack, device: Device, fill: Fills | None = None) -> Plan:
    """Return the launches that invert matrices.

    Outputs are the inverses, in C order, what takes the place of A, and the status. Parameters are those of
    `lu.plan_factor`.
    """
    scratch = Scratch()
    order, count, type_ = stack.num_rows, stack.count, stack.type
    pivots, permutation = scratch.take(4 * order * count), scratch.take(4 * order * count)
    factor = lu.plan_factor(stack, device, fill)
    more = scratch.take_of(factor)
    start = scratch.take(4 * order * count)
    middle = scratch.take(order * order * count * type_.nbytes)
    x, a, status = (Argument(f"out{i}") for i in range(3))
    whole = contiguous(type_, count, order, order)
    steps: list[Step] = [
        *factor.on(out0=a, out1=pivots, out2=permutation, out3=status, scratch=more),
        rows.start(start, order, count),
        rows.permute(type_, (count, order, order), middle, start, None),
    ]
    _invert_lower(stack, whole, 0, order, device, steps, (a, middle))
    system = TriangularSystem((order, order), stack.matrices, UPPER, True, order, 256, count, stack.move, order * order)
    steps += blas3.plan_solve(system, device).on(in0=a, out0=middle)
    strides = (order * order, order, 1)
    steps.append(rows.permute(type_, (count, order, order), x, permutation, middle, strides, is_inverse=True))
    return scratch.plan(steps)


def _invert_lower(
    factors: Stack,
    x: Stack,
    low: int,
    high: int,
    device: Device,
    steps: list[Step],
    places: tuple[Argument, Argument],
) -> None:
    """Append what makes rows `low` to `high` of the inverse of L of those of the identity, by halves.

    Of these rows, only columns up to `high` are not zero.
    """
    a, target = places
    length = trsm.length(factors.type)
    if high - low <= length:
        system = TriangularSystem(
            (high - low, high),
            factors.part(low, low),
            lu.UNIT_LOWER,
            True,
            x.pitch,
            x.part(low, 0).alignment,
            x.count,
            factors.move,
            x.move,
        )
        place = {"in0": a.at(factors.at(low, low)), "out0": target.at(x.at(low, 0))}
        steps += blas3.plan_solve(system, device).on(**place)
        return
    middle = low + -(-(high - low) // (2 * length)) * length
    _invert_lower(factors, x, low, middle, device, steps, places)
    left, above, c = factors.part(middle, low), x.part(low, 0), x.part(middle, 0)
    batch = (x.count,) if x.count > 1 else ()
    plan = select.plan_update((*batch, high - middle, middle), middle - low, left, above, c, device)
    out = target.at(x.at(middle, 0))
    steps += plan.on(out0=out, in0=a.at(factors.at(middle, low)), in1=target.at(x.at(low, 0)), in2=out)
    _invert_lower(factors, x, middle, high, device, steps, places)


__all__ = ["plan_invert", "plan_solve", "plan_solve_apart"]
