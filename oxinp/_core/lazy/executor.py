"""The executor: plans, compiled for the backend in use, then only called.

Every kernel that runs for an array runs from here. An `Executable` holds the launchers of a plan's kernels, the sizes
of its outputs and of its workspace, so that running it is an allocation and a launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, count
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._config import config
from oxinp._core.lazy.placement import device, keyed
from oxinp._kernels.plan import Beside, Copy, Fill, Launch, Plan, Read, inputs, outputs
from oxinp._runtime import here

if TYPE_CHECKING:
    from oxinp._kernels.plan import Again, Argument, Step
    from oxinp._ptx.tma import MapSpec
    from oxinp._runtime.memory import Buffer

MAX_KEPT = 256
"""Tensor maps of an argument, and resolved calls, that are kept: memory comes back to the same few addresses."""

_CLOCK = count(1)


class Executable:
    """A plan, ready to run.

    Parameters
    ----------
    plan : Plan
    sizes : sequence of int
        Bytes of every output.
    kinds : sequence of numpy.dtype or None
        Of every input: None for an array, the dtype of a scalar.

    Attributes
    ----------
    launch : callable
        ``launch(*addresses of outputs, *parameters of inputs)`` where `is_single`, else the same as `run_into`.
    is_single : bool
        The plan is one launch, whose parameters are the outputs and the inputs as they come.
    arrays_only : bool
        It is, and no input is a scalar: parameters are addresses.
    version : int
        Of the settings that it was compiled under.
    """

    __slots__ = (
        "_following",
        "_places",
        "_rest",
        "allocate",
        "arguments",
        "arrays_only",
        "flags",
        "is_single",
        "launch",
        "leaf",
        "nbytes",
        "scratch_nbytes",
        "sizes",
        "steps",
        "then",
        "version",
    )

    leaf: Any  # the leaf graph of the first output, for `schedule`

    def __init__(self, plan: Plan, sizes: Sequence[int], kinds: Sequence[Any]) -> None:
        backend = device()
        self.version = config.version
        self.then = plan.then
        self.allocate = backend.allocate
        self.sizes = tuple(sizes)
        self.nbytes = self.sizes[0] if self.sizes else 0
        self.scratch_nbytes = plan.scratch_nbytes
        widths = [2 if kind is not None and kind.kind == "c" else 1 for kind in kinds]
        self.arguments: Callable[[tuple[Any, ...]], list[Any]] = _with_parts if 2 in widths else _addresses
        natural = (*outputs(len(self.sizes)), *inputs(len(widths)))
        launch = plan.steps[0] if len(plan.steps) == 1 else None
        self.is_single = not plan.steps or (type(launch) is Launch and launch.arguments == natural)
        self.arrays_only = self.is_single and all(kind is None for kind in kinds)
        self.steps: list[_Step] = []
        self._following: Plan | None = None  # what was planned last for words that were read, and its steps
        self._rest: list[_Step] = []
        self.flags = 0
        self.launch: Any = _skip
        if not self.is_single:
            self._places = _places(len(self.sizes), widths)
            self.steps = [_compiled(step, self._places) for step in plan.steps]
            self.launch = self._run_steps
            if any(step.has_flags for step in self.steps):
                self.flags = backend.flags
        elif type(launch) is Launch:
            self._launch_briefly(launch, len(self.sizes) + sum(widths))
        self.launch = self._noted(self.launch)

    def _noted(self, launch: Any) -> Any:
        """Return a launch that notes which memory it uses, where that is wanted."""
        pool = device().pool
        if not pool.notes_uses:
            return launch

        def launch_and_note(*values: Any) -> None:
            now = next(_CLOCK)
            for value in values:
                if type(value) is int and (block := pool.block_at(value)) is not None:
                    block.used = now
            launch(*values)

        return launch_and_note

    def _launch_briefly(self, launch: Launch, count: int) -> None:
        """Launch by what is made fastest, and from the second time on by what launches fastest."""
        backend = device()
        shape = (launch.kernel, launch.grid, count, launch.constants, launch.work)
        brief, is_first = backend.launcher(*shape, True), True

        def settle(*parameters: Any) -> None:
            nonlocal is_first
            if is_first:
                brief(*parameters)
                is_first = False
            else:
                self.launch = self._noted(backend.launcher(*shape))
                self.launch(*parameters)

        self.launch = settle

    def run(self, leaves: tuple[Any, ...]) -> Buffer:
        """Enqueue into a new Buffer, the only output."""
        buffer = self.allocate(self.nbytes)
        if self.arrays_only:
            self.launch(buffer.ptr, *[entry.ptr for entry in leaves])
        else:
            self.launch(buffer.ptr, *self.arguments(leaves))
        return buffer

    def run_all(self, leaves: tuple[Any, ...]) -> list[Buffer]:
        """Enqueue into one new Buffer per output."""
        if len(self.sizes) == 1:
            return [self.run(leaves)]
        buffers = [self.allocate(nbytes) for nbytes in self.sizes]
        self.launch(*[buffer.ptr for buffer in buffers], *self.arguments(leaves))
        return buffers

    def run_into(self, ptr: int, leaves: tuple[Any, ...]) -> None:
        """Enqueue into memory that is there, the only output's."""
        self.launch(ptr, *self.arguments(leaves))

    def run_sized(
        self, leaves: tuple[Any, ...], sizes_of: Callable[[tuple[int, ...]], Sequence[int]]
    ) -> tuple[list[Buffer], tuple[int, ...]]:
        """Run a plan that reads words, on whose values the sizes of the outputs depend; return both.

        Parameters
        ----------
        leaves : tuple
        sizes_of : callable
            Words -> bytes of every output; raises where they are a status that says so.
        """
        assert self.then is not None
        arguments = self.arguments(leaves)
        scratch = self.allocate(self.scratch_nbytes)
        nowhere = [0] * len(self.sizes)
        words = _run(self.steps, (*nowhere, scratch.ptr, self.flags, *arguments))
        buffers = [self.allocate(nbytes) for nbytes in sizes_of(words)]
        following = self.then(words)
        if following is not self._following:
            self._rest, self._following = [_compiled(step, self._places) for step in following.steps], following
        _run(self._rest, (*[buffer.ptr for buffer in buffers], scratch.ptr, self.flags, *arguments))
        return buffers, words

    def _run_steps(self, *values: Any) -> None:
        count = len(self.sizes)
        scratch = self.allocate(self.scratch_nbytes) if self.scratch_nbytes else None  # held while steps are queued
        values = (*values[:count], 0 if scratch is None else scratch.ptr, self.flags, *values[count:])
        for step in self.steps:
            step(values)


_ANYWHERE: dict[Any, tuple[int, Any, Callable[[int], Buffer]]] = {}
"""Kernels -> the version of the settings, what launches them with any grid and parameters, and what allocates."""

MAX_KERNELS = 1 << 12
_OUTPUTS = tuple([argument.buffer for argument in outputs(64)])
_INPUTS = tuple([argument.buffer for argument in inputs(64)])


def load(plan: Plan) -> None:
    """Make the kernels of a plan ready for plans like it, see `anywhere`."""
    for step in plan.steps:
        if type(step) is Launch and anywhere(step.kernel) is None:
            if len(_ANYWHERE) >= MAX_KERNELS:
                _ANYWHERE.clear()
            num_varying = len(step.kernel.params) - len(step.constants)
            backend, version = device(), config.version  # read before what it is the version of
            launch = None if backend.pool.notes_uses else backend.relauncher(step.kernel, num_varying)
            _ANYWHERE[keyed(step.kernel)] = version, launch, backend.allocate


def anywhere(kernel: Any) -> Any:
    """Return ``launch(grid, *parameters)`` of a kernel; None where it is not loaded, or launches are watched."""
    found = _ANYWHERE.get(keyed(kernel))
    return None if found is None or found[0] != config.version else found[1]


def run_again(
    again: Again, nbytes: int, leaves: tuple[Any, ...], ptr: int | None = None, *, has_parts: bool = False
) -> Any:
    """Run what `run_once` runs, of one launch whose parameters are as they come, with one output.

    Parameters
    ----------
    again : Again
    nbytes : int
        Of the output.
    leaves : tuple
    ptr : int, optional
        Address of the output, if it is there.
    has_parts : bool
        There are complex scalars.

    Returns
    -------
    Buffer, bool or None
        The output; True where it was there. None where the kernel is not loaded, or launches are watched.
    """
    kernel, grid, constants = again
    version, launch, allocate = _ANYWHERE.get(keyed(kernel) if here.are_several else kernel, _NOWHERE)
    if launch is None or version != config.version:
        return None
    parameters = _with_parts(leaves) if has_parts else [getattr(entry, "ptr", entry) for entry in leaves]
    if ptr is not None:
        launch(grid, ptr, *parameters, *constants)
        return True
    buffer: Buffer = allocate(nbytes)
    launch(grid, buffer.ptr, *parameters, *constants)
    return buffer


def run_again_into(again: Again, sizes: Sequence[int], leaves: tuple[Any, ...], *, has_parts: bool) -> Any:
    """Do as `run_again` with several outputs, of so many bytes; return them."""
    kernel, grid, constants = again
    version, launch, allocate = _ANYWHERE.get(keyed(kernel), _NOWHERE)
    if launch is None or version != config.version:
        return None
    parameters = _with_parts(leaves) if has_parts else [getattr(entry, "ptr", entry) for entry in leaves]
    buffers = [allocate(nbytes) for nbytes in sizes]
    launch(grid, *[buffer.ptr for buffer in buffers], *parameters, *constants)
    return buffers


_NOWHERE: tuple[int, Any, Any] = (-1, None, None)


def run_once(plan: Plan, sizes: Sequence[int], leaves: tuple[Any, ...], ptr: int | None = None) -> list[Buffer] | None:
    """Run a plan that may never run again: nothing is compiled, and nothing is kept.

    Parameters
    ----------
    plan : Plan
    sizes : sequence of int
        Bytes of every output.
    leaves : tuple
        Arrays and scalars that are one parameter.
    ptr : int, optional
        Address of the only output, if it is there.

    Returns
    -------
    list of Buffer or None
        The outputs that are new. None where an `Executable` is needed: a kernel is not loaded, or there are other steps
        than launches.
    """
    launches = []
    for step in plan.steps:
        launch = anywhere(step.kernel) if type(step) is Launch else None
        if launch is None:
            return None
        launches.append(launch)
    backend = device()
    values: dict[str, Any] = {}
    made: list[Buffer] = []
    if ptr is None:
        for name, nbytes in zip(_OUTPUTS, sizes, strict=False):
            buffer = backend.allocate(nbytes)
            made.append(buffer)
            values[name] = buffer.ptr
    else:
        values["out0"] = ptr
    for name, entry in zip(_INPUTS, leaves, strict=False):
        values[name] = getattr(entry, "ptr", entry)
    scratch = None
    if plan.scratch_nbytes:
        scratch = backend.allocate(plan.scratch_nbytes)  # held while the steps are queued
        values["scratch"] = scratch.ptr
    for step, launch in zip(plan.steps, launches, strict=True):
        _, grid, arguments, constants, _ = step  # type: ignore[misc]
        parameters = []
        for name, offset, spec in arguments:
            value = backend.flags if name == "flags" else values[name]
            if offset:
                value += offset
            parameters.append(value if spec is None else backend.tensor_map(spec, value))
        launch(grid, *parameters, *constants)
    return made


def _skip(*_: Any) -> None:
    """Launch nothing, for arrays without elements."""


def _addresses(leaves: tuple[Any, ...]) -> list[Any]:
    """Return kernel parameters of leaves: the addresses of arrays, the values of scalars."""
    return [getattr(entry, "ptr", entry) for entry in leaves]


def _with_parts(leaves: tuple[Any, ...]) -> list[Any]:
    """Return the same where there are complex scalars, which are two parameters."""
    parts = [
        (entry.real, entry.imag) if type(entry) is complex else (getattr(entry, "ptr", entry),) for entry in leaves
    ]
    return list(chain.from_iterable(parts))


def _places(num_outputs: int, widths: Sequence[int]) -> dict[str, range]:
    """Where the buffers that arguments name stand among the values of a run."""
    places = {f"out{i}": range(i, i + 1) for i in range(num_outputs)}
    places["scratch"] = range(num_outputs, num_outputs + 1)
    places["flags"] = range(num_outputs + 1, num_outputs + 2)
    start = num_outputs + 2
    for i, width in enumerate(widths):
        places[f"in{i}"] = range(start, start + width)
        start += width
    return places


def _run(steps: Sequence[_Step], values: tuple[Any, ...]) -> tuple[int, ...]:
    """Run steps on the values of outputs, workspace, flags and inputs; return the words that they read."""
    words: list[int] = []
    for step in steps:
        words += step(values) or ()
    return tuple(words)


class _Step:
    """A step of a plan, called with the values of a run."""

    __slots__ = ("has_flags",)

    has_flags: bool

    def __call__(self, values: tuple[Any, ...]) -> Sequence[int] | None:
        raise NotImplementedError


class _LaunchStep(_Step):
    """A launch whose parameters are values as they are."""

    __slots__ = ("launch", "pick")

    def __init__(self, launch: Any, places: Sequence[int]) -> None:
        self.launch = launch
        self.pick: Any = itemgetter(*places) if len(places) > 1 else lambda values: (values[places[0]],)

    def __call__(self, values: tuple[Any, ...]) -> None:
        self.launch(*self.pick(values))


class _MappedLaunchStep(_Step):
    """A launch whose parameters are addresses inside buffers, or tensor maps of what lies there."""

    __slots__ = ("calls", "launch", "parameters", "pick")

    def __init__(self, launch: Any, parameters: Sequence[tuple[int, int, MapSpec | None]]) -> None:
        self.launch = launch
        maps: list[dict[int, bytes]] = [{} for _ in parameters]
        self.parameters = [(*parameter, kept) for parameter, kept in zip(parameters, maps, strict=True)]
        places = sorted({place for place, _, _ in parameters})
        self.pick = itemgetter(*places)
        self.calls: dict[Any, list[Any]] = {}  # what was launched with these values

    def __call__(self, values: tuple[Any, ...]) -> None:
        key = self.pick(values)
        call = self.calls.get(key)
        if call is None:
            if len(self.calls) >= MAX_KEPT:
                self.calls.clear()
            call = self.calls[key] = [
                _parameter(values[place], offset, spec, maps) for place, offset, spec, maps in self.parameters
            ]
        self.launch(*call)


def _parameter(base: Any, offset: int, spec: MapSpec | None, maps: dict[int, bytes]) -> Any:
    """An address, or the tensor map of what lies there, kept in `maps`."""
    address = base + offset if offset else base
    if spec is None:
        return address
    known = maps.get(address)
    if known is None:
        if len(maps) >= MAX_KEPT:
            maps.clear()
        known = maps[address] = device().tensor_map(spec, address)
    return known


class _FillStep(_Step):
    __slots__ = ("byte", "nbytes", "offset", "place")

    def __init__(self, fill: Fill, places: dict[str, range]) -> None:
        (self.place,), self.offset = places[fill.target.buffer], fill.target.offset
        self.nbytes, self.byte = fill.nbytes, fill.byte

    def __call__(self, values: tuple[Any, ...]) -> None:
        device().fill(values[self.place] + self.offset, self.byte, self.nbytes)


class _CopyStep(_Step):
    __slots__ = ("nbytes", "source", "target")

    def __init__(self, copy: Copy, places: dict[str, range]) -> None:
        self.target = places[copy.target.buffer][0], copy.target.offset
        self.source = places[copy.source.buffer][0], copy.source.offset
        self.nbytes = copy.nbytes

    def __call__(self, values: tuple[Any, ...]) -> None:
        (target, moved), (source, shifted) = self.target, self.source
        device().copy(values[target] + moved, values[source] + shifted, self.nbytes)


class _ReadStep(_Step):
    __slots__ = ("count", "offset", "place")

    def __init__(self, read: Read, places: dict[str, range]) -> None:
        (self.place,), self.offset, self.count = places[read.source.buffer], read.source.offset, read.count

    def __call__(self, values: tuple[Any, ...]) -> Sequence[int]:
        words = np.empty(self.count, np.int64)
        device().download(words, values[self.place] + self.offset)
        return words.tolist()


class _BesideStep(_Step):
    __slots__ = ("rest", "urgent")

    def __init__(self, beside: Beside, places: dict[str, range]) -> None:
        self.urgent, self.rest = ([_compiled(step, places) for step in side] for side in beside)
        self.has_flags = any(step.has_flags for step in (*self.urgent, *self.rest))

    def __call__(self, values: tuple[Any, ...]) -> None:
        device().beside(partial(_run, self.urgent, values), partial(_run, self.rest, values))


def _compiled(step: Step, places: dict[str, range]) -> _Step:
    made: _Step
    if isinstance(step, Beside):
        return _BesideStep(step, places)
    if isinstance(step, Launch):
        found = [(place, argument) for argument in step.arguments for place in places[argument.buffer]]
        launch = device().launcher(step.kernel, step.grid, len(found), step.constants, step.work)
        if _is_plain(step.arguments):
            made = _LaunchStep(launch, [place for place, _ in found])
        else:
            made = _MappedLaunchStep(launch, [(place, argument.offset, argument.map) for place, argument in found])
        made.has_flags = any(argument.buffer == "flags" for argument in step.arguments)
        return made
    made = {Fill: _FillStep, Copy: _CopyStep, Read: _ReadStep}[type(step)](step, places)
    made.has_flags = False
    return made


def _is_plain(arguments: Sequence[Argument]) -> bool:
    """Whether parameters are buffers and values as they are."""
    return not any(argument.offset or argument.map is not None for argument in arguments)
