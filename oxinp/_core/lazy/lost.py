"""Memory whose elements were lost when what wrote to them in place, in several launches, failed in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._kernels.plan import Copy, Fill, Launch, in_order
from oxinp._runtime.counters import stats
from oxinp._runtime.memory import Buffer

if TYPE_CHECKING:
    from oxinp._kernels.plan import Plan, Step


class LostBuffer(Buffer):
    """A Buffer that was partly overwritten: what is there is neither what was nor what should be."""

    __slots__ = ()

    @property
    def ptr(self) -> int:  # type: ignore[override]
        """Refused."""
        raise RuntimeError("what wrote to this array in place was interrupted: its elements are lost")

    def __repr__(self) -> str:
        return f"<Buffer of {self.nbytes} bytes that were lost>"


def lose(buffer: Buffer, error: BaseException, num_launches: int) -> None:
    """Let nobody read a Buffer whose overwriting failed, unless the driver refused the first of the launches.

    Parameters
    ----------
    buffer : Buffer
    error : BaseException
    num_launches : int
        That had been counted before the first one that writes to it.
    """
    if not (isinstance(error, MemoryError) and stats.launches == num_launches):
        buffer.__class__ = LostBuffer


def lose_partly_written(buffer: Buffer, plan: Plan, error: BaseException, num_launches: int) -> None:
    """Do as `lose` for a plan that writes to its only output where arrays lie, if it does so in several steps.

    What one step alone writes is there as a whole or not at all. `num_launches` had been counted before the plan.
    """
    steps = list(in_order(plan.steps))
    writers = [place for place, step in enumerate(steps) if writes(step)]
    if len(writers) > 1:
        lose(buffer, error, num_launches + sum(type(step) is Launch for step in steps[: writers[0]]))


def writes(step: Step) -> bool:
    """Whether a step writes to the output."""
    if isinstance(step, Launch):
        pairs = zip(step.kernel.params, step.arguments, strict=False)
        return any(argument.buffer == "out0" and "w" in param.access for param, argument in pairs)
    return isinstance(step, Copy | Fill) and step.target.buffer == "out0"


__all__ = ["LostBuffer", "lose", "lose_partly_written", "writes"]
