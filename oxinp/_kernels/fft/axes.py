"""Transforms along several axes as plans: complex ones, and those whose source or result is real."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.fft.batch import Loop, Side
from oxinp._kernels.fft.plan import Transform
from oxinp._kernels.plan import Argument, Launch, Plan, Scratch

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._ptx.types import Type

COMPLEX = "complex"  # to complex
REAL = "real"  # to the first half of a complex result along the last axis
HALF = "half"  # the first half along the last axis, to a real result


class Array(NamedTuple):
    """An array that is transformed, or what it is transformed to.

    Attributes
    ----------
    buffer : Argument
    type : Type
    shape : tuple of int
    steps : tuple of int
        Strides in elements.
    alignment : int
        A power of two that divides the buffer's address.
    """

    buffer: Argument
    type: Type
    shape: tuple[int, ...]
    steps: tuple[int, ...]
    alignment: int = 1


class Problem(NamedTuple):
    """What is computed.

    Attributes
    ----------
    kind : str
        One of the constants above.
    axes : tuple of int
        At least one, none twice; the last is the one that is halved.
    length : int
        Of the last axis' transform; of the others, it is the result's extent.
    is_forward : bool
    scale : float
        By which all results are multiplied.
    """

    kind: str
    axes: tuple[int, ...]
    length: int
    is_forward: bool = True
    scale: float = 1.0


def plan_axes(source: Array, target: Array, type_: Type, problem: Problem, device: Device) -> Plan:
    """Return the plan of transforms along several axes.

    Parameters
    ----------
    source, target : Array
        Of as many dimensions; along axes that are transformed, the source is cut off or continued with zeros.
    type_ : Type
        c64 or c128, in which everything is computed.
    problem : Problem
    device : Device

    Returns
    -------
    Plan
        Its input is the source, its output the target.
    """
    if 0 in target.shape:
        return Plan(())
    scratch = Scratch()
    *others, last = problem.axes
    extents = list(map(min, source.shape, target.shape))
    extents[last] = min(source.shape[last], problem.length // 2 + 1 if problem.kind == HALF else problem.length)
    middle = target
    if problem.kind == HALF and others:
        shape = tuple(extents[i] if i == last else target.shape[i] for i in range(len(extents)))
        steps = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
        middle = Array(scratch.take(math.prod(shape) * type_.nbytes), type_, shape, steps)
    order = [*others, last] if problem.kind == HALF else [last, *reversed(others)]
    launches: list[Launch] = []
    used = scratch.nbytes
    for number, axis in enumerate(order):
        is_last = number == len(order) - 1
        given, result = source if number == 0 else middle, target if is_last else middle
        is_halved = axis == last and problem.kind != COMPLEX
        length = problem.length if axis == last else target.shape[axis]
        transform = Transform(
            length,
            type_,
            given.type,
            result.type,
            Side(given.buffer, given.steps[axis], given.alignment),
            Side(result.buffer, result.steps[axis], result.alignment),
            tuple(Loop(extents[i], given.steps[i], result.steps[i]) for i in range(len(extents)) if i != axis),
            problem.is_forward,
            problem.scale if is_last else 1.0,
            extents[axis],
            target.shape[axis] if is_halved else length,
            is_halved and problem.kind == HALF,
        )
        # Passes through the workspace follow each other: each axis may have all of it.
        own = Scratch()
        own.nbytes = used
        launches += transform.launches(device, own)
        scratch.nbytes = max(scratch.nbytes, own.nbytes)
        extents[axis] = target.shape[axis]
    return scratch.plan(launches)


__all__ = ["COMPLEX", "HALF", "REAL", "Array", "Problem", "plan_axes"]
