"""Choices that planning leaves to measurement: several answers are right, and one is the fastest on a device.

A planner describes the choice and its own default; `decide` asks the device whether a problem near this one has been
measured. While `python -m oxinp tune` searches, the device answers with the candidate that is being timed: so every
choice that is decided here can be tuned, and answers are stored by their fields.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


MIN_TUNED_NBYTES = 1 << 22
"""Bytes from which kernels that are bound by memory are tuned: launches of less take longer than the work."""


class Limits(Protocol):
    """What of a device decides which kernels there are."""

    @property
    def cc(self) -> tuple[int, int]:
        """Compute capability."""

    @property
    def max_shared_nbytes(self) -> int:
        """Largest shared memory of a block."""


class Processors(Limits, Protocol):
    """What of a device decides which kernel is the fastest, where nothing was measured."""

    @property
    def num_sms(self) -> int:
        """Streaming multiprocessors."""


class Device(Processors, Protocol):
    """The properties of a device that planning needs."""

    def tuned(self, choice: Choice, /) -> Mapping[str, Any] | None:
        """Fields of the answer that was measured to be best here, None where nothing near was measured."""


class Choice(NamedTuple):
    """A choice that planning leaves to measurement.

    Attributes
    ----------
    family : str
        The kernel family, as ``"matmul/multistage"``; `tune` takes the part before the slash.
    key : tuple of str
        Properties that a measured answer has to share: dtypes.
    layout : tuple of str
        Properties that it should share: an answer for another layout is used where there is none for this one.
    shape : tuple of int
        Extents, at least 1 each: of the answers, the one for the nearest extents is used.
    answer : callable
        The class of answers, a NamedTuple of plain fields (numbers, texts, truth values).
    is_legal : callable
        ``is_legal(answer)``: whether a kernel exists for the answer, and fits the device.
    default : callable
        ``default()``: the answer of the cost model.
    candidates : callable
        ``candidates()`` yields the answers worth timing, the most promising first; all are legal.
    """

    family: str
    key: tuple[str, ...]
    layout: tuple[str, ...]
    shape: tuple[int, ...]
    answer: Callable[..., Any]
    is_legal: Callable[[Any], bool]
    default: Callable[[], Any]
    candidates: Callable[[], Iterable[Any]]


NOMINAL_STEP, MIN_NOMINAL = 16, 128


def nominal(extent: int) -> int:
    """Return the extent in whose place one is planned: what is chosen for it is good for those next to it."""
    return extent if extent <= MIN_NOMINAL else -(-extent // NOMINAL_STEP) * NOMINAL_STEP


def decide(choice: Choice, device: Device) -> Any:
    """Return the answer that was measured to be best near this problem; the default where nothing was."""
    fields = device.tuned(choice)
    return choice.default() if fields is None else _answer(choice, fields)


def _answer(choice: Choice, fields: Mapping[str, Any]) -> Any:
    """Return the answer of some fields; the default where they are none of this choice's."""
    try:
        answer = choice.answer(**fields)
        is_legal = tuple(map(type, answer)) == _types_of(choice.answer) and choice.is_legal(answer)
    except (TypeError, ArithmeticError):  # of another version, where answers have other fields
        return choice.default()
    return answer if is_legal else choice.default()


@cache
def _types_of(answer: Callable[..., Any]) -> tuple[type, ...]:
    """Return the types of the fields of a class of answers."""
    return tuple(get_type_hints(answer).values())


class Unroll(NamedTuple):
    """How many units a thread loads before it uses the first."""

    unroll: int


_unroll = cache(Unroll)
_choice = partial(tuple.__new__, Choice)  # of its fields, without a frame of Python's


@cache
def _unrolls(most: int) -> tuple[Unroll, ...]:
    """Every power of two up to `most`."""
    return tuple([Unroll(1 << i) for i in range(most.bit_length())])


def unrolling(spec: Any, family: str, key: tuple[str, ...], layout: tuple[str, ...], most: int) -> Choice:
    """Return the choice of a Spec's `unroll`, a power of two up to `most`, but for the shape: it is of any."""
    answers, default = _unrolls(most), _unroll(spec.unroll)
    return Choice(family, key, layout, (), Unroll, answers.__contains__, lambda: default, lambda: [default, *answers])


def may_be_unrolled(choice: Choice, device: Device) -> bool:
    """Whether anything was measured of a Spec's `unroll`, see `unrolling`; so it is where who answers does not say."""
    knows = getattr(device.tuned, "knows", None)
    return knows is None or knows(_choice((*choice[:3], (1, 1), *choice[4:])))


def unrolled(spec: Any, choice: Choice, shape: tuple[int, ...], device: Device) -> Any:
    """Return a Spec with the `unroll` that was measured to be best near a problem of a shape, see `unrolling`."""
    choice = _choice((*choice[:3], shape, *choice[4:]))
    fields = device.tuned(choice)  # `decide`, spelled out
    if fields is None:
        return spec
    unroll = _answer(choice, fields).unroll
    return spec if unroll == spec.unroll else spec.replace(unroll=unroll)
