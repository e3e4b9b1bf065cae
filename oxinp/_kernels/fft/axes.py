"""Transforms along several axes as plans: complex ones, and those whose source or result is real."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.fft.plan import Transform
from oxinp._kernels.fft.sides import Chained, Loop, Side
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
    chain : Chained or None
        What the elements of a source are made of, or what is made of the results before they are written.
    others : tuple of tuple of int
        Of the chain's arrays, as `steps`, which are those of the largest one of a source.
    """

    buffer: Argument
    type: Type
    shape: tuple[int, ...]
    steps: tuple[int, ...]
    alignment: int = 1
    chain: Chained | None = None
    others: tuple[tuple[int, ...], ...] = ()

    def along(self, axis: int) -> tuple[int, ...]:
        """Steps of the chain's arrays along an axis."""
        return tuple([steps[axis] for steps in self.others])

    def side(self, axis: int) -> Side:
        """As an end of transforms along an axis."""
        return Side(self.buffer, self.steps[axis], self.alignment, self.along(axis))


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
    rotated, given_rotated : tuple of int
        Axes along which results are stored, and elements read, half of the length further, cyclically; see
        `plan.rotates`.
    """

    kind: str
    axes: tuple[int, ...]
    length: int
    is_forward: bool = True
    scale: float = 1.0
    rotated: tuple[int, ...] = ()
    given_rotated: tuple[int, ...] = ()


def transforms(
    source: Array, target: Array, type_: Type, problem: Problem, scratch: Scratch, *, is_ascending: bool = False
) -> list[Transform]:
    """Return the transforms along one axis after the other; the last axis comes last if these are to ascend."""
    *others, last = problem.axes
    extents = list(map(min, source.shape, target.shape))
    extents[last] = min(source.shape[last], problem.length // 2 + 1 if problem.kind == HALF else problem.length)
    middle = target
    if others and (problem.kind == HALF or target.chain is not None):
        is_cut = problem.kind == HALF
        shape = tuple(extents[i] if i == last and is_cut else target.shape[i] for i in range(len(extents)))
        steps = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
        middle = Array(scratch.take(math.prod(shape) * type_.nbytes), type_, shape, steps)
    order = _order(problem, is_ascending=is_ascending)
    found = []
    for number, axis in enumerate(order):
        is_last = number == len(order) - 1
        given, result = source if number == 0 else middle, target if is_last else middle
        is_halved = axis == last and problem.kind != COMPLEX
        length = problem.length if axis == last else target.shape[axis]
        found.append(
            Transform(
                length,
                type_,
                given.type,
                result.type,
                given.side(axis),
                result.side(axis),
                tuple(
                    Loop(extents[i], given.steps[i], result.steps[i], given.along(i), result.along(i))
                    for i in range(len(extents))
                    if i != axis
                ),
                problem.is_forward,
                problem.scale if is_last else 1.0,
                extents[axis],
                target.shape[axis] if is_halved else length,
                is_halved and problem.kind == HALF,
                given.chain,
                result.chain,
                axis in problem.rotated,
                axis in problem.given_rotated,
            )
        )
        extents[axis] = target.shape[axis]
    return found


def _order(problem: Problem, *, is_ascending: bool = False) -> list[int]:
    """The axes in the order in which they are transformed."""
    *others, last = problem.axes
    return [*others, last] if problem.kind == HALF or is_ascending else [last, *reversed(others)]


def plan_axes(
    source: Array, target: Array, type_: Type, problem: Problem, device: Device, num_parts: int = 1
) -> Plan | None:
    """Return the plan of transforms along several axes; None where their kernels do not take a chain.

    Parameters
    ----------
    source, target : Array
        Of as many dimensions; along axes that are transformed, the source is cut off or continued with zeros. The
        type of a target with a chain is that of the transform's results.
    type_ : Type
        c64 or c128, in which everything is computed.
    problem : Problem
    device : Device
    num_parts : int
        In how many parts transforms are computed that need a workspace, each of which has all of it.

    Returns
    -------
    Plan or None
        Its input is the source, its output the target. There always is one without chains.
    """
    if 0 in target.shape:
        return Plan(())
    scratch = Scratch()
    rest, axes = transforms(source, target, type_, problem, scratch), _order(problem)
    if not all(each.is_fusible(device) for each in rest):
        return None
    if problem.kind == COMPLEX:
        rest = [each.replace(is_signed=each is rest[0], is_scaled=each is rest[-1]) for each in rest]
    launches: list[Launch] = []
    used = scratch.nbytes
    while rest:
        both = rest[0].followed_by(rest[1], axes[:2], device) if len(rest) > 1 else None
        if both is not None:
            launches.append(both)
            rest, axes = rest[2:], axes[2:]
            continue
        # Passes through the workspace follow each other: each axis may have all of it.
        for part in rest[0].parts(num_parts, device) if num_parts > 1 else rest[:1]:
            own = Scratch()
            own.nbytes = used
            launches += part.launches(device, own)
            scratch.nbytes = max(scratch.nbytes, own.nbytes)
        rest, axes = rest[1:], axes[1:]
    return scratch.plan(launches)


__all__ = ["COMPLEX", "HALF", "REAL", "Array", "Problem", "plan_axes", "transforms"]
