"""Plans of operations on matrices and stacks of them: of all at once, or of less workspace where memory is short."""

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

    from oxinp._kernels.choice import Device
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


def workspace() -> Any:
    """Return the module that makes workspaces smaller, imported where memory is short."""
    return importlib.import_module("oxinp._kernels.workspace")


def planned(
    bound: BoundOp,
    batch: tuple[int, ...],
    operands: tuple[Operand, ...],
    made: Callable[..., Plan],
    *,
    is_short: bool,
    num_words: int = 1,
) -> Plan:
    """Return the plan of a stack, of all matrices at once, or of as little workspace as there may be.

    That is part after part in the same workspace, whose arrays share memory where no step uses both, on a device of
    which planners know that it is short of memory.

    Parameters
    ----------
    bound : BoundOp
    batch : tuple of int
        The stack's; empty for one matrix.
    operands : tuple of Operand
        Broadcast to it.
    made : callable
        ``made(device, batch, *operands)`` -> Plan of a stack. Its outputs are the operation's, then a status if that is
        read.
    is_short : bool
        Whether memory is.
    num_words : int
        Of the status.
    """
    axis = next((i for i, n in enumerate(batch) if n > 1), 0)
    extent = batch[axis] if batch else 1
    each = [layout.nbytes // extent for layout in bound.layouts]
    size, limits = extent, device().capability
    if is_short:
        aligned = math.lcm(*(ALIGNMENT // math.gcd(ALIGNMENT, nbytes) for nbytes in each))
        size, limits = min(extent, -(-extent // PARTS // aligned) * aligned), workspace().Sparing(limits)
    starts = range(0, extent, size)
    steps_in = [x.strides[axis] * x.type.nbytes if batch else 0 for x in operands]
    if len(starts) > 1:
        operands = tuple(
            x._replace(alignment=math.gcd(x.alignment, size * step)) for x, step in zip(operands, steps_in, strict=True)
        )
    plans = {
        n: made(limits, (*batch[:axis], n, *batch[axis + 1 :]) if batch else batch, *operands)
        for n in {size, extent - starts[-1]}
    }
    if is_short:
        plans = {n: workspace().compacted(plan, [nbytes * n for nbytes in each]) for n, plan in plans.items()}
    scratch, has_status, status_nbytes = Scratch(), bound.op.sized is not None, STATUS_NBYTES * num_words
    steps: list[Step] = []
    status = scratch.take(status_nbytes * len(starts)) if has_status else None
    more = scratch.take(max(plan.scratch_nbytes for plan in plans.values()))
    for number, start in enumerate(starts):
        places = {f"out{i}": Argument(f"out{i}", start * nbytes) for i, nbytes in enumerate(each)}
        places |= {f"in{i}": Argument(f"in{i}", start * step) for i, step in enumerate(steps_in)}
        if status is not None:
            places[f"out{len(each)}"] = status.at(status_nbytes * number)
        steps += plans[min(size, extent - start)].on(**places, scratch=more)
    if status is not None:
        steps.append(Read(status, num_words * len(starts)))
    return scratch.plan(steps)


def plan_of(name: str) -> Callable[..., Plan]:
    """Return what plans an operation on stacks of matrices, of a function of `planner`."""

    def plan(bound: BoundOp, *, is_short: bool) -> Plan:
        layout = bound.graphs[0].layout
        *batch, rows, columns = layout.shape
        function = getattr(planner(), name)

        def made(device: Device, batch: tuple[int, ...], a: Operand) -> Plan:
            found: Plan = function((*batch, rows, columns), a, device, *bound.parameters)
            return found

        return planned(bound, tuple(batch), (operand(layout),), made, is_short=is_short)

    return plan


def alone(made: Callable[[BoundOp, Device], Plan]) -> Callable[..., Plan]:
    """Return what plans an operation that is not computed in parts, of what makes its plan for a device."""

    def plan(bound: BoundOp, *, is_short: bool) -> Plan:
        return planned(bound, (), (), lambda device, _: made(bound, device), is_short=is_short)

    return plan


def sparing(plan: Callable[..., Plan]) -> dict[str, Any]:
    """Return what an `Op` is told that takes less workspace where memory is short.

    Parameters
    ----------
    plan : callable
        ``plan(bound, is_short=...)``, see `planned`.
    """
    return {
        "plan": lambda bound: plan(bound, is_short=False),
        "plan_variant": lambda bound, _: plan(bound, is_short=True),
        "has_spare": True,
    }


def raising(message: str, error: type[Exception] = LinAlgError) -> Any:
    """Return what an operation does with its status: raise where there is a number."""

    def sized(bound: BoundOp, words: tuple[int, ...]) -> tuple[Layout, ...]:
        if any(word >= 0 for word in words):
            raise error(message)
        return bound.layouts

    return sized


__all__ = ["alone", "operand", "plan_of", "planned", "planner", "raising", "sparing", "workspace"]
