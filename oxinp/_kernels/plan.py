"""Plans: the launches, fills, copies and reads that solve a problem, in order, and the buffers that they name.

Every family of kernels returns a `Plan`; who runs one needs to know nothing else of the family. A plan that is made of
others has their steps on its own buffers, see `Plan.on`.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from oxinp._ptx.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from oxinp._ptx import Kernel
    from oxinp._ptx.tma import MapSpec, MatrixMaps

ALIGNMENT = 256
REPORT_ADDRESS_BITS = 48
"""Of what a kernel is given for a report: its address; the bits above are the host's, to know whose report it is."""

Grid = tuple[int, int, int]

Again = tuple["Kernel", Grid, tuple[int, ...]]
"""A plan of one launch like one before: the kernel, the grid, and the parameters after outputs and inputs."""


class Joined(NamedTuple):
    """A plan of two launches like one before.

    Attributes
    ----------
    first : Again
        Its parameters are the output, the workspace, the inputs and constants; it leaves results in the workspace.
    second : Again
        Its parameters are the output, the workspace, the last inputs and constants.
    scratch_nbytes : int
    num_taken : int
        How many inputs the second launch takes.
    """

    first: Again
    second: Again
    scratch_nbytes: int
    num_taken: int = 0


class Flagged(NamedTuple):
    """A plan of one launch like one before, which uses the flags.

    Attributes
    ----------
    again : Again
        Its parameters are the output, the workspace, the flags, the inputs and constants.
    scratch_nbytes : int
    """

    again: Again
    scratch_nbytes: int


flagged: Any = partial(tuple.__new__, Flagged)
"""`Flagged` of its fields, likewise."""
joined: Any = partial(tuple.__new__, Joined)
"""`Joined` of its fields, without a frame of Python's."""

Resized = tuple["Kernel", Grid, tuple[int, ...], tuple[tuple["MatrixMaps", tuple[int, int]], ...], bool]
"""The launch of a product like one before, of other extents.

The kernel, the grid, the constants, of the first inputs the tensor maps with their extents, which are parameters after
the output, and whether the addresses of all inputs are parameters after those.
"""


class Work(NamedTuple):
    """What a launch does, for those who profile.

    Attributes
    ----------
    flops : int
        Of products: two per multiply-add, eight where numbers are complex; of the product that is asked for, whatever
        computes it. 0 for everything else.
    nbytes : int
        Every operand's, once: elements that are broadcast count once, those of two operands twice.
    """

    flops: int = 0
    nbytes: int = 0


NO_WORK = Work()


class Argument(NamedTuple):
    """A parameter at launch: the address `offset` bytes into a buffer, the value of an input, or a tensor map.

    Attributes
    ----------
    buffer : str
        ``"out0"`` and so on are the outputs, ``"in0"`` and so on the inputs of the problem, in order. A scalar input is
        passed by value, a complex one as two parameters. ``"scratch"`` is the plan's workspace, whose contents do not
        matter before or after. ``"flags"`` are zeros that a kernel leaves behind as zeros, and marks behind them (see
        `MARKS`), shared by all launches, which run one after the other.
    offset : int
        In bytes.
    map : MapSpec, optional
        The parameter is the tensor map of what lies at the address.
    """

    buffer: str
    offset: int = 0
    map: MapSpec | None = None

    def at(self, nbytes: int) -> Argument:
        """Return the argument some bytes further into its buffer."""
        return self._replace(offset=self.offset + nbytes)

    def on(self, places: Mapping[str, Argument]) -> Argument:
        """Return the argument, which has no tensor map, with its buffer at a place in another one."""
        place = places.get(self.buffer)
        return self if place is None else place.at(self.offset)


class Launch(NamedTuple):
    """A kernel with its geometry; its parameters at launch are the arguments, then the constants."""

    kernel: Kernel
    grid: Grid
    arguments: tuple[Argument, ...]
    constants: tuple[int, ...]
    work: Work = NO_WORK

    def on(self, places: Mapping[str, Argument]) -> Launch:
        """Return the launch with buffers at places in others."""
        kernel, grid, arguments, constants, work = self
        moved = tuple(
            [
                x
                if x[0] not in places
                else places[x[0]]
                if not x[1] and x[2] is None
                else Argument(places[x[0]][0], places[x[0]][1] + x[1], x[2])
                for x in arguments  # most are the places themselves
            ]
        )
        return Launch(kernel, grid, moved, constants, work)


class Fill(NamedTuple):
    """Set `nbytes` bytes to a value."""

    target: Argument
    nbytes: int
    byte: int

    def on(self, places: Mapping[str, Argument]) -> Fill:
        """Return the fill with buffers at places in others."""
        return self._replace(target=self.target.on(places))


class Copy(NamedTuple):
    """Copy `nbytes` bytes within the device."""

    target: Argument
    source: Argument
    nbytes: int

    def on(self, places: Mapping[str, Argument]) -> Copy:
        """Return the copy with buffers at places in others."""
        return self._replace(target=self.target.on(places), source=self.source.on(places))


class Read(NamedTuple):
    """Read `count` words of type i64 to the host: a size, or a status."""

    source: Argument
    count: int = 1  # type: ignore[assignment]  # instead of the method of tuples

    def on(self, places: Mapping[str, Argument]) -> Read:
        """Return the read with buffers at places in others."""
        return self._replace(source=self.source.on(places))


class Beside(NamedTuple):
    """Steps that may run at the same time as others: neither writes what the other reads or writes.

    The step has ended when both sides have. In order, the urgent steps first, they do the same.

    Attributes
    ----------
    urgent : tuple of Launch, Fill, Copy or Beside
        What later steps wait for longest: few blocks at a time, which go before those of the rest where both could be
        launched.
    rest : tuple of the same
        Only one of the two sides uses the ``"flags"``.
    """

    urgent: tuple[Step, ...]
    rest: tuple[Step, ...]

    def on(self, places: Mapping[str, Argument]) -> Beside:
        """Return the step with buffers at places in others."""
        urgent, rest = (tuple([step.on(places) for step in side]) for side in self)
        return Beside(urgent, rest)


Step = Launch | Fill | Copy | Read | Beside


def beside(urgent: Iterable[Step], rest: Iterable[Step]) -> tuple[Step, ...]:
    """Return steps that may run beside others with these, if there are others; see `Beside`."""
    urgent, rest = tuple(urgent), tuple(rest)
    return (Beside(urgent, rest),) if rest else urgent


def in_order(steps: Iterable[Step]) -> Iterator[Launch | Fill | Copy | Read]:
    """Yield steps one by one, those that run beside others first."""
    for step in steps:
        if isinstance(step, Beside):
            yield from in_order(step.urgent)
            yield from in_order(step.rest)
        else:
            yield step


class Plan(Frozen):
    """How a problem is solved.

    Attributes
    ----------
    steps : tuple of Launch, Fill, Copy, Read or Beside
        In order. None where there is nothing to compute.
    scratch_nbytes : int
        Size of the workspace.
    is_guarded : bool
        The last launch does the work where the device finds that the others would not do it well enough.
    then : callable, optional
        ``then(words)`` returns the plan of what is left to do, for the words that the steps have read, in order. Its
        inputs and its workspace are those of this plan; outputs may be allocated when it is known.
    parts : tuple of (int, int)
        Where the arrays of the workspace begin, in order, and how many bytes they have; empty where that is not known.
    bounded : (Plan, tuple of int) or None
        A plan that does what `then` returns whatever is read, and the bytes that outputs have at most with it: it may
        run before anything is read, into outputs of which what is not used is given back.
    resized : callable or None
        Of a product: ``resized(m, n)`` returns the launch of one of other extents that is nominally alike (see
        `choice.nominal`), which takes arithmetic alone. A plan that is made of this one does not have it.
    """

    steps: tuple[Step, ...]
    scratch_nbytes: int = 0
    is_guarded: bool = False
    then: Callable[[tuple[int, ...]], Plan] | None = None
    parts: tuple[tuple[int, int], ...] = ()
    bounded: tuple[Plan, tuple[int, ...]] | None = None
    resized: ClassVar[Any] = None

    def __init__(
        self,
        steps: tuple[Step, ...],
        scratch_nbytes: int = 0,
        is_guarded: bool = False,
        then: Callable[[tuple[int, ...]], Plan] | None = None,
        parts: tuple[tuple[int, int], ...] = (),
        bounded: tuple[Plan, tuple[int, ...]] | None = None,
    ) -> None:
        # What `Frozen` does for any fields; plans are made all the time.
        vars(self).update(
            steps=steps,
            scratch_nbytes=scratch_nbytes,
            is_guarded=is_guarded,
            then=then,
            parts=parts,
            bounded=bounded,
        )

    @property
    def launch(self) -> Launch:
        """The launch of a plan that is a single one."""
        (step,) = self.steps
        assert isinstance(step, Launch)
        return step

    def resizing(self, resized: Callable[[int, int], Resized]) -> Plan:
        """Return this very plan, which from now on knows how it is `resized`."""
        vars(self)["resized"] = resized
        return self

    def with_work(self, work: Work) -> Plan:
        """Return the plan of a single launch, which does this work."""
        return self.replace(steps=(self.launch._replace(work=work),))

    def on(self, **places: Argument) -> tuple[Step, ...]:
        """Return the steps with buffers, by their names, at places in others."""
        return tuple([step.on(places) for step in self.steps])


@cache
def outputs(count: int) -> tuple[Argument, ...]:
    """Return the arguments that are the first outputs."""
    return tuple(Argument(f"out{i}") for i in range(count))


@cache
def inputs(count: int, start: int = 0) -> tuple[Argument, ...]:
    """Return the arguments that are some inputs, from number `start` on."""
    return tuple(Argument(f"in{i}") for i in range(start, start + count))


SCRATCH, FLAGS = Argument("scratch"), Argument("flags")

NUM_FLAGS, MARKS_NBYTES = 4096, 1 << 20
"""Words of 4 bytes of the flags, which kernels leave as zeros, and bytes behind them: marks, which tell launches apart.

Marks are words of 64 bits, zeros at first. The first one counts launches in its upper half; others are payload and, in
their upper half, the `mark_of` the launch that wrote them, so that nobody has to clear what others have left.
"""
MARKS = FLAGS.at(4 * NUM_FLAGS)


def mark_of(launch: Any) -> Any:
    """Return the mark of a launch by its number, both of 32 bits: never that of words that nobody has written."""
    return launch * 2 + 1


class Scratch:
    """The workspace, as it is given out."""

    def __init__(self) -> None:
        self.nbytes = 0
        self.parts: list[tuple[int, int]] = []

    def take(self, nbytes: int) -> Argument:
        """Return the place of an array."""
        start = self.nbytes
        self.nbytes += -(-nbytes // ALIGNMENT) * ALIGNMENT
        self.parts.append((start, nbytes))
        return Argument("scratch", start)

    def take_of(self, plan: Plan) -> Argument:
        """Return the place of the workspace of a plan, of whose arrays each counts."""
        start = self.nbytes
        self.nbytes += -(-plan.scratch_nbytes // ALIGNMENT) * ALIGNMENT
        self.parts += [(start + own, nbytes) for own, nbytes in plan.parts] or [(start, plan.scratch_nbytes)]
        return Argument("scratch", start)

    def copy(self) -> Scratch:
        """Return a workspace of which as much has been given out."""
        made = Scratch()
        made.nbytes, made.parts = self.nbytes, list(self.parts)
        return made

    def plan(self, steps: Iterable[Step], *, is_guarded: bool = False) -> Plan:
        """Return the plan of steps that use the workspace as far as it has been given out."""
        steps = tuple(steps)
        return Plan(steps, self.nbytes, is_guarded, parts=tuple(self.parts))


__all__ = [
    "ALIGNMENT",
    "FLAGS",
    "MARKS",
    "MARKS_NBYTES",
    "NO_WORK",
    "NUM_FLAGS",
    "SCRATCH",
    "Again",
    "Argument",
    "Beside",
    "Copy",
    "Fill",
    "Flagged",
    "Grid",
    "Joined",
    "Launch",
    "Plan",
    "Read",
    "Resized",
    "Scratch",
    "Step",
    "Work",
    "beside",
    "in_order",
    "inputs",
    "mark_of",
    "outputs",
]
