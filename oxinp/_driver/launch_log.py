"""The log of a context's latest launches, whose kernels the message of a fault names."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol
from weakref import ref

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LaunchCounter", "LaunchLog"]


class LaunchCounter(Protocol):
    """Something that counts launches."""

    launches: int


class LaunchLog:
    """The latest launches of a context, by which the message of a fault names suspects.

    Nothing is written at a launch but its number, into a variable of the launcher's own: the log asks the launchers,
    each at last when it goes.

    Attributes
    ----------
    launches : int
        Launches by those that were given no counter of their own.
    """

    __slots__ = ("_counters", "_gone", "_launchers", "_settled", "launches")

    MOST = 8
    """More names than this help nobody."""

    def __init__(self) -> None:
        self.launches = 0
        self._counters: list[LaunchCounter] = []
        self._settled: list[int] = []  # what each counter was when the device was last waited for
        self._launchers: dict[ref[Callable[..., None]], tuple[str, Callable[[], int], int]] = {}
        self._gone: deque[tuple[str, int, int]] = deque(maxlen=self.MOST)

    def add(self, launch: Callable[..., None], name: str, last: Callable[[], int], counter: LaunchCounter) -> None:
        """Remember a launcher: its kernel, and a function that gives what its counter was after its last launch."""
        place = next((place for place, known in enumerate(self._counters) if known is counter), len(self._counters))
        if place == len(self._counters):
            self._counters.append(counter)
            self._settled.append(counter.launches)
        self._launchers[ref(launch, self._let_go)] = name, last, place

    def _let_go(self, launcher: ref[Callable[..., None]]) -> None:
        name, last, place = self._launchers.pop(launcher)
        self._gone.append((name, last(), place))

    def settle(self) -> None:
        """Forget the launches so far: the device was synchronised without a fault."""
        self._settled[:] = [counter.launches for counter in self._counters]

    def suspects(self) -> tuple[str, ...]:
        """Return the names of the kernels launched since `settle`, the last one first."""
        launched = [*self._gone, *[(name, last(), place) for name, last, place in list(self._launchers.values())]]
        recent = []
        for name, number, place in launched:
            now, settled = self._counters[place].launches, self._settled[place]
            # A counter below what it was has been set back by somebody.
            if (settled if settled <= now else 0) < number <= now:
                recent.append((number, name))
        return tuple(dict.fromkeys(name for _, name in sorted(recent, reverse=True)))[: self.MOST]
