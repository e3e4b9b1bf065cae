"""Plans of operations on stacks of matrices: of all at once, or part after part where memory is short."""

from __future__ import annotations

import importlib
import math
from typing import TYPE_CHECKING, Any

from numpy.linalg import LinAlgError

from oxinp._core.lazy.op import BoundOp
from oxinp._core.lazy.placement import device
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._kernels.plan import ALIGNMENT, Argument, Plan, Read, Scratch

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._kernels.plan import Step
    from oxinp._kernels.problem import Operand

STATUS_NBYTES = 8
PARTS = 16  # of a stack whose workspace has no room at once


def operand(layout: Layout, shape: tuple[int, ...] | None = None) -> Operand:
    """Return how an operand lies, broadcast to a shape."""
    wide = layout if shape is None else layout.broadcast(shape)
    made: Operand = importlib.import_module("oxinp._kernels.problem").Operand(
        DEVICE_TYPES[layout.dtype], wide.element_strides, layout.alignment
    )
    return made


def planner() -> Any:
    """Return the module that plans, imported for the first operation."""
    return importlib.import_module("oxinp._kernels.lapack.plan")


def planned(
    bound: BoundOp, batch: tuple[int, ...], operands: tuple[Operand, ...], made: Callable[..., Plan], num_parts: int
) -> Plan:
    """Return the plan of a stack, of all matrices at once, or part after part in the same workspace.

    Parameters
    ----------
    bound : BoundOp
    batch : tuple of int
        The stack's.
    operands : tuple of Operand
        Broadcast to it.
    made : callable
        ``made(batch, *operands)`` -> Plan of a stack. Its outputs are the operation's, then a status if that is read.
    num_parts : int
        At most as many.
    """
    axis = next((i for i, n in enumerate(batch) if n > 1), 0)
    extent = batch[axis] if batch else 1
    each = [layout.nbytes // extent for layout in bound.layouts]
    aligned = math.lcm(*(ALIGNMENT // math.gcd(ALIGNMENT, nbytes) for nbytes in each))
    size = min(extent, -(-extent // num_parts // aligned) * aligned)
    starts = range(0, extent, size)
    steps_in = [x.strides[axis] * x.type.nbytes if batch else 0 for x in operands]
    if len(starts) > 1:
        operands = tuple(
            x._replace(alignment=math.gcd(x.alignment, size * step)) for x, step in zip(operands, steps_in, strict=True)
        )
    plans = {
        n: made((*batch[:axis], n, *batch[axis + 1 :]) if batch else batch, *operands)
        for n in {size, extent - starts[-1]}
    }
    scratch, has_status = Scratch(), bound.op.sized is not None
    steps: list[Step] = []
    status = scratch.take(STATUS_NBYTES * len(starts)) if has_status else None
    more = scratch.take(max(plan.scratch_nbytes for plan in plans.values()))
    for number, start in enumerate(starts):
        places = {f"out{i}": Argument(f"out{i}", start * nbytes) for i, nbytes in enumerate(each)}
        places |= {f"in{i}": Argument(f"in{i}", start * step) for i, step in enumerate(steps_in)}
        if status is not None:
            places[f"out{len(each)}"] = status.at(STATUS_NBYTES * number)
        steps += plans[min(size, extent - start)].on(**places, scratch=more)
    if status is not None:
        steps.append(Read(status, len(starts)))
    return scratch.plan(steps)


def plan_of(name: str) -> Callable[[BoundOp, int], Plan]:
    """Return what plans an operation on stacks of matrices, of a function of `planner`."""

    def plan(bound: BoundOp, num_parts: int) -> Plan:
        layout = bound.graphs[0].layout
        *batch, rows, columns = layout.shape
        function, limits = getattr(planner(), name), device().capability

        def made(batch: tuple[int, ...], a: Operand) -> Plan:
            found: Plan = function((*batch, rows, columns), a, limits, *bound.parameters)
            return found

        return planned(bound, tuple(batch), (operand(layout),), made, num_parts)

    return plan


def in_parts(plan: Callable[[BoundOp, int], Plan]) -> dict[str, Any]:
    """Return what an `Op` is told whose plan takes a number of parts: one, or several where memory is short."""
    return {
        "plan": lambda bound: plan(bound, 1),
        "plan_variant": lambda bound, _: plan(bound, PARTS),
        "has_spare": True,
    }


def raising(message: str) -> Any:
    """Return what an operation does with its status: raise where there is a number."""

    def sized(bound: BoundOp, words: tuple[int, ...]) -> tuple[Layout, ...]:
        if any(word >= 0 for word in words):
            raise LinAlgError(message)
        return bound.layouts

    return sized


__all__ = ["in_parts", "operand", "plan_of", "planned", "planner", "raising"]
