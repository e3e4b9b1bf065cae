"""Factorisations on a machine: matrices in memory, planned and run."""

import math

import numpy as np

from oxinp._kernels.lapack import cholesky, lu, lu_solve
from oxinp._kernels.lapack import plan as lapack
from oxinp._kernels.plan import Beside
from oxinp._kernels.problem import Operand
from oxinp._ptx.types import from_dtype
from tests.kernels.machine import REQUIRE_GPU, execute

RATIO = 30  # LAPACK's own tests allow as much


def draw(rng, dtype, *shape):
    """Random elements."""
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else values).astype(dtype)


def stack_of(array):
    """How matrices in C order lie."""
    return lu.contiguous(from_dtype(array.dtype), math.prod(array.shape[:-2]), *array.shape[-2:])


def run(machine, plan, outputs, inputs=()):
    """Run a plan on arrays; return the outputs, and let the inputs be.

    The emulator refuses reads of workspace that has not been written; on a GPU the workspace is full of rubbish.
    """
    places = [machine.upload(np.ascontiguousarray(x)) for x in (*outputs, *inputs)]
    scratch = machine.allocate(plan.scratch_nbytes) if plan.scratch_nbytes and not REQUIRE_GPU else None
    execute(machine, plan, places[: len(outputs)], places[len(outputs) :], scratch)
    if scratch is not None:
        machine.free(scratch)
    found = [
        machine.download(place, x.nbytes).view(x.dtype).reshape(x.shape)
        for place, x in zip(places, outputs, strict=False)
    ]
    for place in places:
        machine.free(place)
    return found


def watch_plans(monkeypatch, module, name, *, is_late):
    """Return the list that a planner's plans go to; `is_late` has what is urgent done behind what may run beside it."""
    planner, plans = getattr(module, name), []

    def planned(*given, **options):
        made = planner(*given, **options)
        if is_late:
            swapped = [Beside(step.rest, step.urgent) if isinstance(step, Beside) else step for step in made.steps]
            made = made.replace(steps=tuple(swapped))
        plans.append(made)
        return made

    monkeypatch.setattr(module, name, planned)
    return plans


def status():
    """A word that has not been written."""
    return np.full(1, 12345, np.int64)


def factored(machine, device, a):
    """Factors, pivots, permutation and status of matrices."""
    *batch, rows, columns = a.shape
    plan = lu.plan_factor(stack_of(a), device)
    pivots = np.full((*batch, min(rows, columns)), 9999, np.uint32)
    permutation = np.full((*batch, rows), 9999, np.uint32)
    return run(machine, plan, (a, pivots, permutation, status()))


def cholesky_of(machine, device, a):
    """What is left of matrices, factors in their lower triangles, and the status."""
    stack = stack_of(a)
    return run(machine, cholesky.plan_factor(stack, cholesky.outer(stack, device).width, device), (a, status()))


def lower_of(machine, device, a, *, is_transposed=False):
    """The factor as it is asked for, and the status; the matrix lies in memory as it is, or column by column."""
    given = a.T.copy() if is_transposed else a
    plan = lapack.plan_cholesky(a.shape, operand_of(given.T if is_transposed else a), device)
    return run(machine, plan, (np.full(a.shape, np.nan, a.dtype), status()), (given,))


def small_cholesky_of(machine, a):
    """Factors and status."""
    stack = stack_of(a)
    return run(machine, cholesky.plan_small(stack, stack), (np.full_like(a, np.nan), status()), (a,))


def operand_of(array):
    """How an array lies."""
    return Operand(from_dtype(array.dtype), tuple(step // array.itemsize for step in array.strides), array.itemsize)


def solution(machine, device, a, b):
    """X, status."""
    plan = lapack.plan_solve(b.shape, operand_of(a), operand_of(b), device)
    return run(machine, plan, (np.full_like(b, np.nan), status()), (a, b))


def inverse(machine, device, a):
    """The inverses, status."""
    x, _, word = run(machine, lu_solve.plan_invert(stack_of(a), device), (np.full_like(a, np.nan), a, status()))
    return x, word


def qr_of(machine, device, a, mode="reduced"):
    """What a mode gives."""
    *batch, rows, columns = a.shape
    depth = min(rows, columns)
    height = rows if mode == "complete" else depth
    shapes = {
        "r": [(*batch, depth, columns)],
        "raw": [a.shape, (*batch, depth)],
    }.get(mode, [(*batch, rows, height), (*batch, height, columns)])
    plan = lapack.plan_qr(a.shape, operand_of(a), device, mode)
    return run(machine, plan, [np.full(shape, np.nan, a.dtype) for shape in shapes], (a,))
