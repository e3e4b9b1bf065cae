"""What is asked of eigenvalues and singular values: matrices with any strides in, ordered values and vectors out.

Every plan has as its last output a status of two words i64: the number of the first matrix of which nothing was found,
negative where there is none; and how many singular vectors were left zero, because their values are.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from oxinp._kernels.elementwise import plan as elementwise
from oxinp._kernels.gemm.operand import contiguous as contiguous_strides
from oxinp._kernels.lapack import jacobi, symmetric
from oxinp._kernels.lapack.jacobi import EIGEN, SINGULAR, Problem
from oxinp._kernels.plan import Argument, Fill, Plan, Scratch
from oxinp._kernels.problem import Operand, Output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.choice import Device
    from oxinp._kernels.plan import Step
    from oxinp._ptx.types import Type

WORD_NBYTES = 8


def is_possible(type: Type, shape: Sequence[int], what: str, device: Device, *, has_vectors: bool) -> bool:
    """Whether there is a kernel for matrices of a shape."""
    if jacobi.side_of(type, max(shape[-2:]), what, has_vectors=has_vectors, limits=device) is not None:
        return True
    return what == EIGEN and symmetric.is_possible(type, math.prod(shape[:-2]), shape[-1], device)


def _regular(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int, int] | None:
    """Return elements from one row, column and matrix to the next; None where matrices are at various distances."""
    *batch, row, column = strides
    loops = [(n, move) for n, move in zip(shape[:-2], batch, strict=True) if n > 1]
    if any(outer != n * inner for (_, outer), (n, inner) in pairwise(loops)):
        return None
    return row, column, loops[-1][1] if loops else 0


def _read(
    shape: Sequence[int], a: Operand, device: Device, scratch: Scratch
) -> tuple[tuple[int, int, int], Argument, tuple[Step, ...]]:
    """Return how matrices lie, where, and the launch that copies them where they do not lie regularly."""
    found = _regular(shape, a.strides)
    if found is not None:
        return found, Argument("in0"), ()
    strides = contiguous_strides(tuple(shape))
    place = scratch.take(math.prod(shape) * a.type.nbytes)
    copied = elementwise.plan(tuple(shape), (a,), (), (Output(0, Operand(a.type, strides)),), device)
    rows, columns = shape[-2:]
    return (columns, 1, rows * columns), place, copied.on(out0=place)


def _started(status: Argument) -> tuple[Fill, Fill]:
    return Fill(status, WORD_NBYTES, 0xFF), Fill(status.at(WORD_NBYTES), WORD_NBYTES, 0)


def plan_eigh(shape: Sequence[int], a: Operand, device: Device, *, has_vectors: bool) -> Plan:
    """Return the launches of the eigenvalues, ascending, of Hermitian matrices.

    Outputs are the values, where they are asked for the vectors, one a column, and the status.

    Parameters
    ----------
    shape : sequence of int
        The batch, and the order twice; at least 1 each.
    a : Operand
        Of which lower triangles are read.
    device : Device
    has_vectors : bool
    """
    order, count, scratch = shape[-1], math.prod(shape[:-2]), Scratch()
    status = Argument("out2" if has_vectors else "out1")
    if jacobi.side_of(a.type, order, EIGEN, has_vectors=has_vectors, limits=device) is None:
        found = symmetric.plan(shape, a, device, has_vectors=has_vectors)
        return found.replace(steps=(*_started(status), *found.steps))
    strides, place, copied = _read(shape, a, device, scratch)
    left = (order, 1, order * order) if has_vectors else None
    problem = Problem(a.type, EIGEN, count, order, order, strides, left)
    side = problem.side(device)
    assert side is not None
    places = {"a": place, "values": Argument("out0"), "status": status}
    if has_vectors:
        places["left"] = Argument("out1")
    return scratch.plan((*copied, *_started(status), jacobi.launch(problem, side, places)))


def plan_svd(shape: Sequence[int], a: Operand, device: Device, *, has_vectors: bool) -> Plan:
    """Return the launches of the singular values, descending, of matrices.

    Outputs are the values and the status, or, where vectors are asked for, U, (rows, depth), the values, V^H, (depth,
    columns), and the status.

    Parameters
    ----------
    shape : sequence of int
        The batch, rows, columns; at least 1 each.
    a : Operand
    device : Device
    has_vectors : bool
    """
    *batch, rows, columns = shape
    count, scratch, depth = math.prod(batch), Scratch(), min(rows, columns)
    (down, along, move), place, copied = _read(shape, a, device, scratch)
    # Of a matrix with more columns than rows the transpose is factored: what it has on the left is V^H, transposed.
    left, right = (depth, 1, rows * depth), (1, columns, depth * columns)
    names = ("left", "right")
    if columns > rows:
        rows, columns, down, along, names = columns, rows, along, down, ("right", "left")
        left, right = (1, rows, depth * rows), (depth, 1, columns * depth)
    strides = (down, along, move)
    problem = Problem(a.type, SINGULAR, count, rows, columns, strides, *((left, right) if has_vectors else ()))
    side = problem.side(device)
    assert side is not None
    outputs = (names[0], "values", names[1], "status") if has_vectors else ("values", "status")
    places = {"a": place} | {name: Argument(f"out{i}") for i, name in enumerate(outputs)}
    return scratch.plan((*copied, *_started(places["status"]), jacobi.launch(problem, side, places)))


__all__ = ["is_possible", "plan_eigh", "plan_svd"]
