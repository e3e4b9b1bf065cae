"""Products that take several launches and memory between them: what is launched, with which arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from oxinp._ptx.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._ptx import Kernel
    from oxinp._ptx.tma import MapSpec

ALIGNMENT = 256

Grid = tuple[int, int, int]


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


class Launch(Frozen):
    """A kernel with its geometry; parameters at launch are the output pointers, the inputs in order, the constants."""

    kernel: Kernel
    grid: Grid
    constants: tuple[int, ...]
    work: Work = NO_WORK


class PassesPlan(Frozen):
    """How a reduction or a scan runs.

    Attributes
    ----------
    launches : tuple of Launch
        None where there is nothing to compute, one, or two that share a scratch buffer; `plan` says what they take.
    scratch_nbytes : int
        0 if there is one launch. Contents need not be kept or set.
    """

    launches: tuple[Launch, ...]
    scratch_nbytes: int = 0


class Argument(NamedTuple):
    """A parameter at launch: an address `offset` bytes from ``"c"``, ``"scratch"``, ``"a"`` or ``"b"``, or a map.

    ``"in0"`` and so on are inputs of a finish: addresses or values. ``"flags"`` are zeros that a kernel leaves behind
    as such, shared by all launches, which follow each other.
    """

    base: str
    offset: int = 0
    map: MapSpec | None = None


class Step(NamedTuple):
    """A launch; its parameters are the arguments and the constants."""

    kernel: Kernel
    grid: Grid
    arguments: tuple[Argument, ...]
    constants: tuple[int, ...]
    work: Work = NO_WORK


def step(launch: Launch, arguments: Sequence[Argument]) -> Step:
    """A launch that was planned, with its arguments."""
    return Step(launch.kernel, launch.grid, tuple(arguments), launch.constants, launch.work)


@dataclass(frozen=True, slots=True)
class StepsPlan:
    """Launches, in order.

    Attributes
    ----------
    steps : tuple of Step
    scratch_nbytes : int
    is_guarded : bool
        The last launch does the work where the device finds that the others would not do it well enough.
    """

    steps: tuple[Step, ...]
    scratch_nbytes: int
    is_guarded: bool = False


class Scratch:
    """The workspace, as it is given out."""

    def __init__(self) -> None:
        self.nbytes = 0

    def take(self, nbytes: int) -> Argument:
        """Memory for an array."""
        start = self.nbytes
        self.nbytes += -(-nbytes // ALIGNMENT) * ALIGNMENT
        return Argument("scratch", start)


__all__ = ["ALIGNMENT", "Argument", "Scratch", "Step", "StepsPlan", "step"]
