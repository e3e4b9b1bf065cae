"""The executor: plans, compiled for the backend in use, then only called.

Every kernel that runs for an array runs from here. An `Executable` holds the launchers of a plan's kernels, the sizes
of its outputs and of its workspace, so that running it is an allocation and a launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, count
from typing import TYPE_CHECKING, Any

from oxinp._config import config
from oxinp._core.lazy.placement import device, keyed
from oxinp._core.lazy.steps import (
    LaunchStep,
    Step,
    brief_launch,
    brief_run,
    compiled,
    is_silent,
    places_of,
    queued,
    run_steps,
)
from oxinp._kernels.plan import Fill, Flagged, Joined, Launch, Plan, Read, inputs, outputs
from oxinp._runtime import here

if TYPE_CHECKING:
    from oxinp._kernels.plan import Again, Resized
    from oxinp._runtime.memory import Buffer

_CLOCK = count(1)

MIN_BOUNDED = 1 << 24
"""Bytes of outputs of unknown sizes from which on there is room for the largest, so that nobody waits for sizes."""

LAUNCHES_PER_LOOK = 256
"""Launches that note which memory they use between two looks at whether that is still wanted."""


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
    is_silent : bool
        The plan is steps that run one after the other and read nothing back, and no launch notes which memory it uses.
    arrays_only : bool
        It is, and no input is a scalar: parameters are addresses.
    plan : Plan or None
        None where it `is_single`.
    version : int
        Of the settings that it was compiled under.
    """

    __slots__ = (
        "_bounded",
        "_following",
        "_places",
        "_queue",
        "_rest",
        "allocate",
        "arguments",
        "arrays_only",
        "flags",
        "is_silent",
        "is_single",
        "launch",
        "leaf",
        "nbytes",
        "plan",
        "scratch_nbytes",
        "sizes",
        "steps",
        "then",
        "version",
    )

    leaf: Any  # the leaf graph of the first output, for `schedule`

    later = None  # see `chains.ByArithmetic`

    def __init__(self, plan: Plan, sizes: Sequence[int], kinds: Sequence[Any]) -> None:
        backend = device()
        self.version = config.version
        self.then = plan.then
        self._bounded: Any = None
        self.allocate = backend.allocate
        self.sizes = tuple(sizes)
        self.nbytes = self.sizes[0] if self.sizes else 0
        self.scratch_nbytes = plan.scratch_nbytes
        widths = [2 if kind is not None and kind.kind == "c" else 1 for kind in kinds]
        self.arguments: Callable[[tuple[Any, ...]], list[Any]] = _with_parts if 2 in widths else addresses
        natural = (*outputs(len(self.sizes)), *inputs(len(widths)))
        launch = plan.steps[0] if len(plan.steps) == 1 else None
        self.is_single = not plan.steps or (type(launch) is Launch and launch.arguments == natural)
        self.arrays_only = self.is_single and all(kind is None for kind in kinds)
        self.steps: list[Step] = []
        self.plan = None if self.is_single else plan
        self._following: Plan | None = None  # what was planned last for words that were read, and its steps
        self._rest: list[Step] = []
        self.flags = 0
        self.launch: Any = _skip
        if not self.is_single:
            self._places = places_of(len(self.sizes), widths)
            self.steps = [compiled(step, self._places) for step in plan.steps]
            self.launch = self._run_steps
            self._queue = queued(plan, self.steps, self._places, is_of_arrays=all(kind is None for kind in kinds))
            if plan.bounded is not None and sum(plan.bounded[1]) >= MIN_BOUNDED:
                self._bounded = self._before_words(plan, *plan.bounded)
            if any(step.has_flags for step in self.steps):
                self.flags = backend.flags
        elif type(launch) is Launch:
            self.launch = brief_launch(launch, len(self.sizes) + sum(widths), self._settle)
        self.is_silent = not self.is_single and is_silent(self._queue) and not backend.pool.notes_uses
        if self.is_silent and len(self.steps) == 1 and type(self.steps[0]) is LaunchStep:
            self.launch = brief_run(self.steps[0], len(self.sizes), self.scratch_nbytes, self.flags, self.allocate)
        self.launch = self._noted(self.launch)

    def _noted(self, launch: Any) -> Any:
        """Return a launch that notes which memory it uses, where that is wanted."""
        pool = device().pool
        if not pool.notes_uses:
            return launch

        def launch_and_note(*values: Any, **workspace: Any) -> None:
            now = next(_CLOCK)
            if not now % LAUNCHES_PER_LOOK and pool.ends_to_note():
                config.renew()
            for value in values:
                if type(value) is int and (block := pool.block_at(value)) is not None:
                    block.used = now
            launch(*values, **workspace)

        return launch_and_note

    def _settle(self, launch: Any) -> None:
        """Launch by what launches fastest from now on."""
        self.launch = self._noted(launch)

    def run(self, leaves: tuple[Any, ...]) -> Buffer:
        """Enqueue into a new Buffer, the only output."""
        buffer = self.allocate(self.nbytes)
        if self.arrays_only:
            self.launch(buffer.ptr, *[entry.ptr for entry in leaves])
        elif self.arguments is addresses:  # spelled out
            self.launch(buffer.ptr, *[getattr(entry, "ptr", entry) for entry in leaves])
        else:
            self.launch(buffer.ptr, *self.arguments(leaves))
        return buffer

    def run_all(self, leaves: tuple[Any, ...]) -> list[Buffer]:
        """Enqueue into one new Buffer per output."""
        if len(self.sizes) == 1:
            buffer = self.allocate(self.nbytes)  # `run`, spelled out
            if self.arrays_only:
                self.launch(buffer.ptr, *[entry.ptr for entry in leaves])
            elif self.arguments is addresses:
                self.launch(buffer.ptr, *[getattr(entry, "ptr", entry) for entry in leaves])
            else:
                self.launch(buffer.ptr, *self.arguments(leaves))
            return [buffer]
        buffers = [self.allocate(nbytes) for nbytes in self.sizes]
        self.launch(*[buffer.ptr for buffer in buffers], *self.arguments(leaves))
        return buffers

    def run_into(self, ptr: int, leaves: tuple[Any, ...]) -> None:
        """Enqueue into memory that is there, the only output's."""
        self.launch(ptr, *self.arguments(leaves))

    def run_over(self, ptr: int, arguments: Sequence[Any], scratch: Buffer | None) -> None:
        """Do as `run_into` with arguments and a workspace that are there: nothing but launches is left to do."""
        if scratch is None:
            self.launch(ptr, *arguments)
        else:
            self.launch(ptr, *arguments, scratch=scratch)

    def run_sized(
        self, leaves: tuple[Any, ...], sizes_of: Callable[[tuple[int, ...]], Sequence[int]]
    ) -> tuple[list[Buffer], tuple[int, ...]]:
        """Run a plan that reads words, on whose values the sizes of the outputs depend; return both.

        Where nothing follows the words they are a status, and the outputs are there before.

        Parameters
        ----------
        leaves : tuple
        sizes_of : callable
            Words -> bytes of every output; raises where they are a status that says so.
        """
        arguments = self.arguments(leaves)
        if self.then is None:
            buffers = [self.allocate(nbytes) for nbytes in self.sizes]
            scratch = self.allocate(self.scratch_nbytes)
            words = self._queue((*[buffer.ptr for buffer in buffers], scratch.ptr, self.flags, *arguments)) or ()
            sizes_of(words)
            return buffers, words
        scratch = self.allocate(self.scratch_nbytes)
        nowhere = [0] * len(self.sizes)
        if self._bounded is not None and not here.are_several:
            found: tuple[list[Buffer], tuple[int, ...]] | None
            found = self._bounded((scratch.ptr, self.flags, *arguments), sizes_of)
            if found is not None:
                return found
        words = self._queue((*nowhere, scratch.ptr, self.flags, *arguments)) or ()
        buffers = [self.allocate(nbytes) for nbytes in sizes_of(words)]
        following = self.then(words)
        if following is not self._following:
            self._rest, self._following = [compiled(step, self._places) for step in following.steps], following
        run_steps(self._rest, (*[buffer.ptr for buffer in buffers], scratch.ptr, self.flags, *arguments))
        return buffers, words

    def _before_words(self, plan: Plan, following: Plan, bounds: tuple[int, ...]) -> Callable[..., Any]:
        """Return what does as `run_sized` where there is room, but runs what follows before the words are read.

        So the device has work while the host is told how much of the outputs is used.
        """
        num_reads = sum(type(step) is Read for step in plan.steps)
        steps, reads = self.steps[: len(self.steps) - num_reads], self.steps[len(self.steps) - num_reads :]
        rest = [compiled(step, self._places) for step in following.steps]

        def run(values: tuple[Any, ...], sizes_of: Any) -> tuple[list[Buffer], tuple[int, ...]] | None:
            pool = device().pool
            if not pool.has_room(sum(bounds)):
                return None
            run_steps(steps, (*[0] * len(bounds), *values))
            try:
                with pool.keeping_arrays:
                    buffers = [self.allocate(nbytes) for nbytes in bounds]
            except MemoryError:  # others have taken the room
                return None
            run_steps(rest, values := (*[buffer.ptr for buffer in buffers], *values))
            words = run_steps(reads, values)
            for buffer, nbytes in zip(buffers, sizes_of(words), strict=True):
                pool.shrink(buffer, nbytes)
            return buffers, words

        return run

    def _run_steps(self, *values: Any, scratch: Buffer | None = None) -> None:
        count = len(self.sizes)
        if self.scratch_nbytes and scratch is None:
            scratch = self.allocate(self.scratch_nbytes)  # held while steps are queued
        self._queue((*values[:count], 0 if scratch is None else scratch.ptr, self.flags, *values[count:]))


_ANYWHERE: dict[Any, tuple[int, Any, Any]] = {}
"""Kernels -> the version of the settings, what launches them with any grid and parameters, and the backend."""

MAX_KERNELS = 1 << 12
OUTPUT_NAMES = tuple([argument.buffer for argument in outputs(64)])
INPUT_NAMES = tuple([argument.buffer for argument in inputs(64)])


def load(plan: Plan) -> None:
    """Make the kernels of a plan ready for plans like it, see `anywhere`."""
    for step in plan.steps:
        if type(step) is Launch and anywhere(step.kernel) is None:
            if len(_ANYWHERE) >= MAX_KERNELS:
                _ANYWHERE.clear()
            num_varying = len(step.kernel.params) - len(step.constants)
            backend, version = device(), config.version  # read before what it is the version of
            launch = None if backend.pool.notes_uses else backend.relauncher(step.kernel, num_varying)
            _ANYWHERE[keyed(step.kernel)] = version, launch, backend


def anywhere(kernel: Any) -> Any:
    """Return ``launch(grid, *parameters)`` of a kernel; None where it is not loaded, or launches are watched."""
    version, launch, _ = _ANYWHERE.get(keyed(kernel) if here.are_several else kernel, _NOWHERE)
    return launch if version == config.version else None


def loaded(kernel: Any) -> tuple[Any, Any]:
    """Return what `anywhere` does, and the backend of the device that it launches on."""
    version, launch, backend = _ANYWHERE.get(keyed(kernel) if here.are_several else kernel, _NOWHERE)
    return (launch, backend) if version == config.version else (None, None)


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
    version, launch, backend = _ANYWHERE.get(keyed(kernel) if here.are_several else kernel, _NOWHERE)
    if launch is None or version != config.version:
        return None
    parameters = _with_parts(leaves) if has_parts else [getattr(entry, "ptr", entry) for entry in leaves]
    if ptr is not None:
        launch(grid, ptr, *parameters, *constants)
        return True
    buffer: Buffer = backend.allocate(nbytes)
    launch(grid, buffer.ptr, *parameters, *constants)
    return buffer


def run_joined(joined: Joined, nbytes: int, leaves: tuple[Any, ...], ptr: int | None = None) -> Any:
    """Run two launches like ones before; parameters and what is returned are as of `run_again`."""
    (kernel, grid, constants), (joining, joining_grid, last), scratch_nbytes, num_taken = joined
    version, launch, backend = _ANYWHERE.get(keyed(kernel) if here.are_several else kernel, _NOWHERE)
    joining_version, launch_joining, _ = _ANYWHERE.get(keyed(joining) if here.are_several else joining, _NOWHERE)
    if launch is None or launch_joining is None or not version == joining_version == config.version:
        return None
    scratch = backend.allocate(scratch_nbytes)  # held while the launches are queued
    buffer = backend.allocate(nbytes) if ptr is None else None
    out = ptr if buffer is None else buffer.ptr
    parameters = [getattr(entry, "ptr", entry) for entry in leaves]
    launch(grid, out, scratch.ptr, *parameters, *constants)
    launch_joining(joining_grid, out, scratch.ptr, *parameters[len(parameters) - num_taken :], *last)
    return buffer or True


def run_flagged(flagged: Flagged, nbytes: int, leaves: tuple[Any, ...], ptr: int | None = None) -> Any:
    """Run a launch like one before that uses the flags; parameters and what is returned are as of `run_again`."""
    (kernel, grid, constants), scratch_nbytes = flagged
    version, launch, backend = _ANYWHERE.get(keyed(kernel) if here.are_several else kernel, _NOWHERE)
    if launch is None or version != config.version:
        return None
    parameters = [getattr(entry, "ptr", entry) for entry in leaves]
    scratch = backend.allocate(scratch_nbytes)  # held while the launch is queued
    buffer = backend.allocate(nbytes) if ptr is None else None
    launch(grid, ptr if buffer is None else buffer.ptr, scratch.ptr, backend.flags, *parameters, *constants)
    return buffer or True


def run_resized(resized: Resized, nbytes: int, leaves: tuple[Any, ...]) -> Buffer | None:
    """Run a product like one before; parameters and what is returned are as of `run_again`."""
    kernel, grid, constants, maps, hasaddresses = resized
    version, launch, backend = _ANYWHERE.get(keyed(kernel) if here.are_several else kernel, _NOWHERE)
    if launch is None or version != config.version:
        return None
    addresses = [entry.ptr for entry in leaves]
    parameters = [backend.matrix_map(*each, address) for each, address in zip(maps, addresses, strict=False)]
    if hasaddresses:
        parameters += addresses
    buffer: Buffer = backend.allocate(nbytes)
    launch(grid, buffer.ptr, *parameters, *constants)
    return buffer


def run_again_into(again: Again, sizes: Sequence[int], leaves: tuple[Any, ...], *, has_parts: bool) -> Any:
    """Do as `run_again` with several outputs, of so many bytes; return them."""
    kernel, grid, constants = again
    version, launch, backend = _ANYWHERE.get(keyed(kernel), _NOWHERE)
    if launch is None or version != config.version:
        return None
    parameters = _with_parts(leaves) if has_parts else [getattr(entry, "ptr", entry) for entry in leaves]
    buffers = [backend.allocate(nbytes) for nbytes in sizes]
    launch(grid, *[buffer.ptr for buffer in buffers], *parameters, *constants)
    return buffers


_NOWHERE: tuple[int, Any, Any] = (-1, None, None)
RUNS: dict[type, Callable[..., Any]] = {tuple: run_again, Flagged: run_flagged, Joined: run_joined}
"""What runs a plan like one before, by what tells of it."""


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
        than launches and fills.
    """
    launches = ready(plan.steps)
    if launches is None:
        return None
    backend = device()
    values: dict[str, Any] = {}
    made: list[Buffer] = []
    if ptr is None:
        for name, nbytes in zip(OUTPUT_NAMES, sizes, strict=False):
            buffer = backend.allocate(nbytes)
            made.append(buffer)
            values[name] = buffer.ptr
    else:
        values["out0"] = ptr
    for name, entry in zip(INPUT_NAMES, leaves, strict=False):
        values[name] = getattr(entry, "ptr", entry)
    scratch = None
    if plan.scratch_nbytes:
        scratch = backend.allocate(plan.scratch_nbytes)  # held while the steps are queued
        values["scratch"] = scratch.ptr
    run_ready(plan.steps, launches, values)
    return made


def ready(steps: Sequence[Any]) -> list[Any] | None:
    """Return what launches each of the steps, None for a fill; None where one is of another kind, or not loaded."""
    launches = []
    for step in steps:
        launch = anywhere(step.kernel) if type(step) is Launch else None
        if launch is None and type(step) is not Fill:
            return None
        launches.append(launch)
    return launches


def run_ready(steps: Sequence[Any], launches: Sequence[Any], values: dict[str, Any]) -> None:
    """Run steps, given what launches them and the values of their buffers."""
    backend = device()
    for step, launch in zip(steps, launches, strict=True):
        if launch is None:
            backend.fill(values[step.target.buffer] + step.target.offset, step.byte, step.nbytes)
            continue
        _, grid, arguments, constants, _ = step
        parameters = []
        for name, offset, spec in arguments:
            value = backend.flags if name == "flags" else values[name]
            if offset:
                value += offset
            parameters.append(value if spec is None else backend.tensor_map(spec, value))
        launch(grid, *parameters, *constants)


def _skip(*_: Any) -> None:
    """Launch nothing, for arrays without elements."""


def addresses(leaves: tuple[Any, ...]) -> list[Any]:
    """Return kernel parameters of leaves: the addresses of arrays, the values of scalars."""
    return [getattr(entry, "ptr", entry) for entry in leaves]


def _with_parts(leaves: tuple[Any, ...]) -> list[Any]:
    """Return the same where there are complex scalars, which are two parameters."""
    parts = [
        (entry.real, entry.imag) if type(entry) is complex else (getattr(entry, "ptr", entry),) for entry in leaves
    ]
    return list(chain.from_iterable(parts))
