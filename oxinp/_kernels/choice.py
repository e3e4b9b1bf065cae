"""Choices that planning leaves to measurement: where several ways are right, and one is fastest on this device.

A planner describes what it has to choose, and what it would choose by itself; `decide` asks the device whether anything
near has been measured. While `python -m oxinp tune` searches, it is the device that is asked, and answers with the
candidate that is timed: so whatever is decided here can be tuned, and is stored by its fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


MIN_TUNED_NBYTES = 1 << 22
"""Of what only moves bytes: below, launches take longer than the work, and nothing is asked."""


class Limits(Protocol):
    """What of a device decides which kernels there are."""

    @property
    def cc(self) -> tuple[int, int]:
        """Compute capability."""

    @property
    def max_shared_nbytes(self) -> int:
        """Most shared memory of a block."""


class Device(Limits, Protocol):
    """What planning needs to know of a device."""

    @property
    def num_sms(self) -> int:
        """Streaming multiprocessors."""

    def tuned(self, choice: Choice, /) -> Mapping[str, Any] | None:
        """Fields of the answer that was measured to be best here, None where nothing near was measured."""


class Choice(NamedTuple):
    """Something to choose.

    Attributes
    ----------
    family : str
        What chooses, ``"matmul/multistage"``; tuning is asked for by the part before the slash.
    key : tuple of str
        What answers depend on in kind: dtypes.
    layout : tuple of str
        What they depend on in kind, but not much: what was measured of another layout is better than nothing.
    shape : tuple of int
        What they depend on by degrees: extents, at least 1 each.
    answer : callable
        The class of answers, a NamedTuple of plain fields (numbers, texts, truth values).
    is_legal : callable
        ``is_legal(answer)``: whether it is right for this problem and fits the device.
    default : callable
        ``default()``: what the planner chooses by itself.
    candidates : callable
        ``candidates()`` yields what is worth trying, the most promising first; all of it legal.
    """

    family: str
    key: tuple[str, ...]
    layout: tuple[str, ...]
    shape: tuple[int, ...]
    answer: Callable[..., Any]
    is_legal: Callable[[Any], bool]
    default: Callable[[], Any]
    candidates: Callable[[], Iterable[Any]]


def decide(choice: Choice, device: Device) -> Any:
    """Return the answer that was measured to be best near this problem; the default where nothing was."""
    fields = device.tuned(choice)
    if fields is None:
        return choice.default()
    try:
        answer = choice.answer(**fields)
        is_legal = choice.is_legal(answer)
    except (TypeError, ArithmeticError):  # of another version, where answers have other fields
        return choice.default()
    return answer if is_legal else choice.default()


class Unroll(NamedTuple):
    """How many units of its work a thread has in flight."""

    unroll: int


def unrolled(
    spec: Any,
    family: str,
    key: tuple[str, ...],
    layout: tuple[str, ...],
    shape: tuple[int, ...],
    most: int,
    device: Device,
) -> Any:
    """Return a Spec with the `unroll`, a power of two up to `most`, that was measured to be best near this problem."""
    answers = [Unroll(1 << i) for i in range(most.bit_length())]
    default = Unroll(spec.unroll)
    choice = Choice(
        family, key, layout, shape, Unroll, answers.__contains__, lambda: default, lambda: [default, *answers]
    )
    answer = decide(choice, device)
    return spec if answer == default else spec.replace(unroll=answer.unroll)
