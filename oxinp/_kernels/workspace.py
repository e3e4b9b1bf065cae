"""Smaller workspaces: arrays of a plan that are never in use at the same time share memory.

A plan's workspace has an array after the other, as they were asked for. Where the device's memory is short, arrays
whose steps do not overlap get the same bytes, and those that are used up before an output is first written lie in the
output.
What is computed, and in which order, stays the same.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.plan import ALIGNMENT, Argument, Beside, Copy, Launch, Plan, Read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from oxinp._kernels.choice import Choice, Device
    from oxinp._kernels.plan import Step

EMULATION = "matmul/emulation"
"""The family of the choice of products that need workspace as large as their operands."""


class Sparing:
    """A device that is short of memory: what takes much of it, and is faster, is not chosen.

    Parameters
    ----------
    device : Device
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self.cc, self.max_shared_nbytes, self.num_sms = device.cc, device.max_shared_nbytes, device.num_sms

    def tuned(self, choice: Choice, /) -> Mapping[str, Any] | None:
        """Return what the device answers, but products without emulation."""
        return {"is_emulated": False} if choice.family == EMULATION else self._device.tuned(choice)


def is_sparing(device: Device) -> bool:
    """Whether a plan is to take little workspace."""
    return isinstance(device, Sparing)


class _Array(NamedTuple):
    """An array of the workspace, and the first and the last step that use it."""

    start: int
    nbytes: int
    first: int
    last: int


class _Place(NamedTuple):
    """Where an array is to lie: in the workspace, or in an output."""

    array: _Array
    buffer: str
    offset: int


def _arguments(step: Step) -> Iterator[Argument]:
    """Yield what a step reads and writes."""
    if isinstance(step, Launch):
        yield from step.arguments
    elif isinstance(step, Beside):
        for side in step:
            for inner in side:
                yield from _arguments(inner)
    elif isinstance(step, Copy):
        yield step.target
        yield step.source
    else:
        yield step.source if isinstance(step, Read) else step.target


def _arrays(plan: Plan) -> list[_Array]:
    """Return the arrays of a plan's workspace that are used, in order of their places."""
    parts = [*plan.parts, (plan.scratch_nbytes, 0)]
    found = []
    for (start, nbytes), (end, _) in pairwise(parts):
        uses = [
            number
            for number, step in enumerate(plan.steps)
            if any(x.buffer == "scratch" and start <= x.offset < end for x in _arguments(step))
        ]
        if uses:
            found.append(_Array(start, nbytes, uses[0], uses[-1]))
    return found


def _first_uses(plan: Plan, count: int) -> dict[str, int]:
    """Return the first step that uses each output."""
    first = {f"out{i}": len(plan.steps) for i in range(count)}
    for number, step in enumerate(plan.steps):
        for x in _arguments(step):
            if x.buffer in first:
                first[x.buffer] = min(first[x.buffer], number)
    return first


def _lowest(array: _Array, placed: Sequence[_Place]) -> int:
    """Return the lowest offset at which an array overlaps none that is in use at the same time."""
    offset = 0
    for other, _, start in sorted(placed, key=lambda place: place.offset):
        if other.last < array.first or other.first > array.last:
            continue
        if start - offset >= array.nbytes:
            break
        offset = max(offset, -(-(start + other.nbytes) // ALIGNMENT) * ALIGNMENT)
    return offset


def compacted(plan: Plan, output_nbytes: Sequence[int]) -> Plan:
    """Return a plan whose workspace is as small as the order of its steps allows, nearly.

    Parameters
    ----------
    plan : Plan
        With the `parts` of its workspace; each step that uses an array has the address of one of its elements.
    output_nbytes : sequence of int
        Sizes of the outputs that are there before the plan runs.

    Notes
    -----
    The largest arrays are placed first, each at the lowest offset that is free while it is in use.
    """
    if not plan.parts or plan.then is not None:
        return plan
    first = _first_uses(plan, len(output_nbytes))
    placed: dict[str, list[_Place]] = {}
    for array in sorted(_arrays(plan), key=lambda array: -array.nbytes):
        for name, nbytes in zip(first, output_nbytes, strict=True):
            offset = _lowest(array, placed.setdefault(name, []))
            if array.last < first[name] and offset + array.nbytes <= nbytes:
                placed[name].append(_Place(array, name, offset))
                break
        else:
            own = placed.setdefault("scratch", [])
            own.append(_Place(array, "scratch", _lowest(array, own)))
    scratch_nbytes = max((x.offset + x.array.nbytes for x in placed.get("scratch", ())), default=0)
    if scratch_nbytes >= plan.scratch_nbytes:
        return plan
    found = sorted((place for places in placed.values() for place in places), key=lambda place: place.array.start)
    return Plan(tuple(_moved(step, found) for step in plan.steps), scratch_nbytes, plan.is_guarded)


def _moved(step: Step, places: Sequence[_Place]) -> Step:
    """Return a step with the arrays of the workspace at other places."""

    def at(x: Argument) -> Argument:
        if x.buffer != "scratch":
            return x
        (array, buffer, offset) = next(place for place in reversed(places) if place.array.start <= x.offset)
        return Argument(buffer, offset + x.offset - array.start, x.map)

    if isinstance(step, Launch):
        return step._replace(arguments=tuple(map(at, step.arguments)))
    if isinstance(step, Beside):
        urgent, rest = (tuple(_moved(inner, places) for inner in side) for side in step)
        return Beside(urgent, rest)
    if isinstance(step, Copy):
        return step._replace(target=at(step.target), source=at(step.source))
    return step._replace(source=at(step.source)) if isinstance(step, Read) else step._replace(target=at(step.target))


__all__ = ["Sparing", "compacted", "is_sparing"]
