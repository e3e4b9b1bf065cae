"""Steps of plans, compiled for the backend in use, then only called with the values of a run."""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._core.lazy.placement import device
from oxinp._kernels.plan import Beside, Copy, Fill, Launch, Plan, Read, in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from oxinp._kernels import plan
    from oxinp._kernels.plan import Argument
    from oxinp._ptx.tma import MapSpec

MAX_KEPT = 256
"""Tensor maps of an argument, and resolved calls, that are kept: memory comes back to the same few addresses."""

MIN_RECORDED = 32
"""Steps from which on a plan that runs again with the same memory is recorded; see `_Again`."""

RUNS_UNRECORDED = 2
"""Runs with the same memory before the one that is recorded, which takes the host about twice as long as they do."""

MIN_WITHIN = 0.75
"""Share of a plan's steps that use the workspace alone from which on only these are recorded, so that it makes no
difference where operands and results are."""

MAX_RECORDED = 4
"""Recordings of a plan that are kept: results take turns at two or three addresses where the last one is let go."""

BRIEF_LAUNCHES = 32
"""What launches fastest takes as long to make as so many launches by what is made fastest take longer."""


def places_of(num_outputs: int, widths: Sequence[int]) -> dict[str, range]:
    """Where the buffers that arguments name stand among the values of a run."""
    places = {f"out{i}": range(i, i + 1) for i in range(num_outputs)}
    places["scratch"] = range(num_outputs, num_outputs + 1)
    places["flags"] = range(num_outputs + 1, num_outputs + 2)
    start = num_outputs + 2
    for i, width in enumerate(widths):
        places[f"in{i}"] = range(start, start + width)
        start += width
    return places


def run_steps(steps: Sequence[Step], values: tuple[Any, ...]) -> tuple[int, ...]:
    """Run steps on the values of outputs, workspace, flags and inputs; return the words that they read."""
    words: list[int] = []
    for step in steps:
        words += step(values) or ()
    return tuple(words)


def _run_silent(steps: Sequence[Step], values: tuple[Any, ...]) -> None:
    """Run steps that read no words, or whose words nobody asks for."""
    for step in steps:
        kind = type(step)
        if kind is _MOST:  # spelled out
            step.launch(*step.pick(values))  # type: ignore[attr-defined]
        elif kind is MappedLaunchStep:
            call = step.calls.get(step.pick(values))  # type: ignore[attr-defined]
            step.launch(*(call or step.made(values)))  # type: ignore[attr-defined]
        else:
            step(values)


def queued(
    whole: Plan, steps: Sequence[Step], places: Mapping[str, range], *, is_of_arrays: bool
) -> Callable[[tuple[Any, ...]], tuple[int, ...] | None]:
    """Return what queues the compiled steps of a plan, given the values of a run, and returns the words they read."""
    num_queued = next((i for i, step in enumerate(whole.steps) if type(step) is Read), len(steps))
    count = len([*in_order(whole.steps[:num_queued])])
    low, high = _within(whole.steps[:num_queued])
    num_within = len([*in_order(whole.steps[low:high])])
    if num_within >= MIN_RECORDED and (not is_of_arrays or num_within >= MIN_WITHIN * count):
        own = itemgetter(*[places[name].start for name in _OWN])
        return _Again(steps[low:high], steps[high:], steps[:low], own)
    if is_of_arrays and count >= MIN_RECORDED:
        return _Again(steps[:num_queued], steps[num_queued:])
    return partial(_run_silent if num_queued == len(steps) else run_steps, steps)


def is_silent(queue: Callable[..., object]) -> bool:
    """Whether what `queued` returned runs the steps one by one, and no words are asked for."""
    return type(queue) is partial and queue.func is _run_silent


def brief_run(
    step: LaunchStep, num_outputs: int, scratch_nbytes: int, flags: int, allocate: Callable[[int], Any]
) -> Callable[..., None]:
    """Return what runs the only step of a plan, given the values of outputs and inputs."""
    order = (*range(2, 2 + num_outputs), 0, 1)  # where workspace and flags come first, which takes no slices
    places = [order[place] if place < len(order) else place for place in step.places]
    pick: Any = itemgetter(*places) if len(places) > 1 else itemgetter(slice(places[0], places[0] + 1))

    def run(*values: Any, scratch: Any = None) -> None:
        if scratch_nbytes and scratch is None:
            scratch = allocate(scratch_nbytes)  # held while the step is queued
        step.launch(*pick((0 if scratch is None else scratch.ptr, flags, *values)))

    return run


_OWN = "scratch", "flags"


def _within(steps: Sequence[plan.Step]) -> tuple[int, int]:
    """Return the first and the one past the last of the most steps in a row that use the workspace and flags alone."""
    found, low = (0, 0), 0
    for i, step in enumerate((*steps, None)):
        if step is None or not all(_names(part) <= {*_OWN} for part in in_order((step,))):
            found = max(found, (low, i), key=lambda span: span[1] - span[0])
            low = i + 1
    return found


def _names(step: Launch | Fill | Copy | Read) -> set[str]:
    """Return the names of the buffers that a step uses."""
    if isinstance(step, Launch):
        return {argument.buffer for argument in step.arguments}
    if isinstance(step, Copy):
        return {step.target.buffer, step.source.buffer}
    return {(step.target if isinstance(step, Fill) else step.source).buffer}


def _all(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return values


class _Again:
    """Steps that are many, and others around them: from the third run with the same memory on, they are one.

    Parameters
    ----------
    steps, rest, before : sequence of Step
        The many, those behind them, of which some may read words, and those before.
    own : callable
        Of the values of a run, returns those that the many use: results are as a rule somewhere else in each run of a
        loop, and the workspace where it was.
    """

    __slots__ = ("before", "counts", "own", "recorded", "rest", "steps")

    def __init__(
        self,
        steps: Sequence[Step],
        rest: Sequence[Step],
        before: Sequence[Step] = (),
        own: Callable[[tuple[Any, ...]], tuple[Any, ...]] = _all,
    ) -> None:
        self.steps, self.rest, self.before, self.own = steps, rest, before, own
        self.counts: dict[tuple[Any, ...], int] = {}  # runs with some values, of which the last one is the newest
        self.recorded: dict[tuple[Any, ...], Callable[[], object]] = {}

    def __call__(self, values: tuple[Any, ...]) -> tuple[int, ...]:
        own = self.own(values)
        _run_silent(self.before, values)
        queue = self.recorded.pop(own, None)
        if queue is None and self._is_due(own):
            queue = device().record(partial(_run_silent, self.steps, values))
        if queue is None:
            _run_silent(self.steps, values)
        else:
            if len(self.recorded) >= MAX_RECORDED:
                del self.recorded[next(iter(self.recorded))]
            self.recorded[own] = queue
            queue()
        return run_steps(self.rest, values)

    def _is_due(self, values: tuple[Any, ...]) -> bool:
        """Whether to record a run; not that one alone whose memory has not come back while many others did."""
        count = self.counts.pop(values, 0)
        if count == RUNS_UNRECORDED:
            return True
        if len(self.counts) >= 4 * MAX_RECORDED:
            del self.counts[next(iter(self.counts))]
        self.counts[values] = count + 1
        return False


def brief_launch(
    step: Launch, num_parameters: int, settle: Callable[[Any], None], *, is_beside: bool = False
) -> Callable[..., None]:
    """Return what launches a step, made in little time; `settle` is given what launches faster after some launches.

    Where it `is_beside` others, it begins when the one before it has ended: blocks that wait would take their room.
    """
    backend, kernel, grid, constants = device(), step.kernel, step.grid, step.constants
    shape = (kernel, grid, num_parameters, constants, step.work, not is_beside)
    anywhere = backend.relauncher(kernel, num_parameters, not is_beside) if kernel.cluster is None else None
    if anywhere is None:
        return backend.launcher(*shape)
    num_left = BRIEF_LAUNCHES

    def launch(*parameters: Any) -> None:
        nonlocal num_left
        if num_left:
            num_left -= 1
            anywhere(grid, *parameters, *constants)
        else:
            fastest = backend.launcher(*shape)
            settle(fastest)
            fastest(*parameters)

    return launch


class Step:
    """A step of a plan, called with the values of a run."""

    __slots__ = ("has_flags",)

    has_flags: bool

    def __call__(self, values: tuple[Any, ...]) -> Sequence[int] | None:
        raise NotImplementedError


class LaunchStep(Step):
    """A launch whose parameters are values as they are."""

    __slots__ = ("launch", "pick", "places")

    def __init__(self, step: Launch, places: Sequence[int], *, is_beside: bool) -> None:
        self.places = places
        self.launch = brief_launch(step, len(places), self.settle, is_beside=is_beside)
        self.pick: Any = itemgetter(*places) if len(places) > 1 else lambda values: (values[places[0]],)

    def settle(self, launch: Any) -> None:
        """Launch by this from now on."""
        self.launch = launch

    def __call__(self, values: tuple[Any, ...]) -> None:
        self.launch(*self.pick(values))


class MappedLaunchStep(LaunchStep):
    """A launch whose parameters are addresses inside buffers, or tensor maps of what lies there."""

    __slots__ = ("calls", "parameters")

    def __init__(self, step: Launch, parameters: Sequence[tuple[int, int, MapSpec | None]], *, is_beside: bool) -> None:
        self.launch = brief_launch(step, len(parameters), self.settle, is_beside=is_beside)
        maps: list[dict[int, bytes]] = [{} for _ in parameters]
        self.parameters = [(*parameter, kept) for parameter, kept in zip(parameters, maps, strict=True)]
        places = sorted({place for place, _, _ in parameters})
        self.pick = itemgetter(*places)
        self.calls: dict[Any, tuple[Any, ...]] = {}  # what was launched with these values

    def __call__(self, values: tuple[Any, ...]) -> None:
        self.launch(*(self.calls.get(self.pick(values)) or self.made(values)))

    def made(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the parameters of a launch with values that it has not been launched with lately."""
        if len(self.calls) >= MAX_KEPT:
            self.calls.clear()
        # As a rule a number has changed, and addresses take no call each.
        found = [
            (values[place] + offset if offset else values[place])
            if spec is None
            else maps.get(values[place] + offset) or _map(values[place] + offset, spec, maps)
            for place, offset, spec, maps in self.parameters
        ]
        call = self.calls[self.pick(values)] = tuple(found)
        return call


def _map(address: int, spec: MapSpec, maps: dict[int, bytes]) -> bytes:
    """Return the tensor map of what lies at an address, kept in `maps`."""
    known = maps.get(address)
    if known is None:
        if len(maps) >= MAX_KEPT:
            maps.clear()
        known = maps[address] = device().tensor_map(spec, address)
    return known


_MOST = LaunchStep
"""What most steps are."""


class _FillStep(Step):
    __slots__ = ("byte", "nbytes", "offset", "place")

    def __init__(self, fill: Fill, places: dict[str, range]) -> None:
        (self.place,), self.offset = places[fill.target.buffer], fill.target.offset
        self.nbytes, self.byte = fill.nbytes, fill.byte

    def __call__(self, values: tuple[Any, ...]) -> None:
        device().fill(values[self.place] + self.offset, self.byte, self.nbytes)


class _CopyStep(Step):
    __slots__ = ("nbytes", "source", "target")

    def __init__(self, copy: Copy, places: dict[str, range]) -> None:
        self.target = places[copy.target.buffer][0], copy.target.offset
        self.source = places[copy.source.buffer][0], copy.source.offset
        self.nbytes = copy.nbytes

    def __call__(self, values: tuple[Any, ...]) -> None:
        (target, moved), (source, shifted) = self.target, self.source
        device().copy(values[target] + moved, values[source] + shifted, self.nbytes)


class _ReadStep(Step):
    __slots__ = ("count", "offset", "place")

    def __init__(self, read: Read, places: dict[str, range]) -> None:
        (self.place,), self.offset, self.count = places[read.source.buffer], read.source.offset, read.count

    def __call__(self, values: tuple[Any, ...]) -> Sequence[int]:
        words = np.empty(self.count, np.int64)
        device().download(words, values[self.place] + self.offset)
        return words.tolist()


class _BesideStep(Step):
    __slots__ = ("rest", "urgent")

    def __init__(self, beside: Beside, places: dict[str, range]) -> None:
        self.urgent, self.rest = ([compiled(step, places, is_beside=True) for step in side] for side in beside)
        self.has_flags = any(step.has_flags for step in (*self.urgent, *self.rest))

    def __call__(self, values: tuple[Any, ...]) -> None:
        device().beside(partial(_run_silent, self.urgent, values), partial(_run_silent, self.rest, values))


def compiled(step: plan.Step, places: dict[str, range], *, is_beside: bool = False) -> Step:
    """Return a step, ready to be called; whether it is beside others."""
    made: Step
    if isinstance(step, Beside):
        return _BesideStep(step, places)
    if isinstance(step, Launch):
        found = [(place, argument) for argument in step.arguments for place in places[argument.buffer]]
        if _is_plain(step.arguments):
            made = LaunchStep(step, [place for place, _ in found], is_beside=is_beside)
        else:
            parameters = [(place, argument.offset, argument.map) for place, argument in found]
            made = MappedLaunchStep(step, parameters, is_beside=is_beside)
        made.has_flags = any(argument.buffer == "flags" for argument in step.arguments)
        return made
    made = {Fill: _FillStep, Copy: _CopyStep, Read: _ReadStep}[type(step)](step, places)
    made.has_flags = False
    return made


def _is_plain(arguments: Sequence[Argument]) -> bool:
    """Whether parameters are buffers and values as they are."""
    return not any(argument.offset or argument.map is not None for argument in arguments)
