"""The launches of products that have been planned, called with addresses of C, A, B and scratch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oxinp._ptx.tma import MapSpec
    from oxinp._runtime.backend import Backend, Launch

__all__ = ["Joined", "Steps"]

_BASES = {"out0": 0, "in0": 1, "in1": 2, "scratch": 3, "flags": 4}
MAX_KEPT = 256  # maps of an argument, and calls: memory comes back to the same few addresses


class Joined:
    """Two launches: of chunks of K, and of their sum."""

    __slots__ = ("first", "second")

    def __init__(self, first: Launch, second: Launch) -> None:
        self.first, self.second = first, second

    def __call__(self, c: int, a: int, b: int, scratch: int) -> None:
        self.first(c, scratch, a, b)
        self.second(c, scratch)


class Steps:
    """Launches whose arguments are addresses in C, A, B, scratch or flags, maps of such, or a finish's inputs."""

    __slots__ = ("backend", "calls", "flags", "launches")

    def __init__(self, backend: Backend, steps: Sequence[Any]) -> None:
        self.backend = backend
        has_flags = any(argument.buffer == "flags" for step in steps for argument in step.arguments)
        self.flags = backend.flags if has_flags else 0
        self.launches = []
        self.calls: dict[tuple[int, ...], list[tuple[Launch, list[Any]]]] = {}  # what was launched with these bases
        for step in steps:
            launch = backend.launcher(step.kernel, step.grid, len(step.arguments), step.constants, step.work)
            arguments: list[tuple[int, int, MapSpec | None, dict[int, bytes]]] = [
                (_base(base), offset, spec, {}) for base, offset, spec in step.arguments
            ]
            self.launches.append((launch, arguments))

    def __call__(self, c: int, a: int, b: int, scratch: int = 0, inputs: Sequence[Any] = ()) -> None:
        bases = (c, a, b, scratch)
        calls = self._calls((*bases, *inputs)) if inputs else self.calls.get(bases)
        if calls is None:
            if len(self.calls) >= MAX_KEPT:
                self.calls.clear()
            calls = self.calls[bases] = self._calls(bases)
        for launch, values in calls:
            launch(*values)

    def _calls(self, bases: tuple[Any, ...]) -> list[tuple[Launch, list[Any]]]:
        """The launches, each with its parameters."""
        bases = (*bases[:4], self.flags, *bases[4:])
        return [
            (launch, [self._parameter(bases[number], offset, spec, maps) for number, offset, spec, maps in arguments])
            for launch, arguments in self.launches
        ]

    def _parameter(self, base: Any, offset: int, spec: MapSpec | None, maps: dict[int, bytes]) -> Any:
        """An address, or the map of what lies there, kept in `maps`."""
        address = base + offset if offset else base
        if spec is None:
            return address
        known = maps.get(address)
        if known is None:
            if len(maps) >= MAX_KEPT:
                maps.clear()
            known = maps[address] = self.backend.tensor_map(spec, address)
        return known


def _base(name: str) -> int:
    """Where an argument's base stands among the parameters of a call."""
    return _BASES[name] if name in _BASES else len(_BASES) + int(name[2:]) - 2
