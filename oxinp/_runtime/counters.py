"""What was launched, moved, compiled and left to NumPy, counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Launch = Callable[..., None]
    Work = tuple[int, int]

__all__ = ["NO_WORK", "Stats", "stats", "watch", "watched"]

NO_WORK = (0, 0)
"""Flops and bytes of what does no work that is counted."""

_NUMBERS = ("launches", "h2d_bytes", "d2h_bytes", "compiled", "cache_hits")


class Stats:
    """Counts since the start of the process or the last `reset`.

    Plain slots, incremented in place by whoever does the counted thing: some are on hot paths.

    Attributes
    ----------
    launches : int
        Kernel launches.
    h2d_bytes, d2h_bytes : int
        Bytes copied from the host to the device, and back.
    fallbacks : dict of str to int
        Calls that NumPy did on the host, by NumPy's name.
    compiled : int
        Kernels compiled from PTX.
    cache_hits : int
        Kernels loaded from the cache on disk instead.
    """

    __slots__ = ("cache_hits", "compiled", "d2h_bytes", "fallbacks", "h2d_bytes", "launches")

    launches: int
    h2d_bytes: int
    d2h_bytes: int
    fallbacks: dict[str, int]
    compiled: int
    cache_hits: int

    def __init__(self) -> None:
        self.fallbacks = {}
        self.reset()

    def reset(self) -> None:
        """Set every count to zero, in place: this object and its dictionary stay the ones others hold."""
        self.launches = self.h2d_bytes = self.d2h_bytes = self.compiled = self.cache_hits = 0
        self.fallbacks.clear()

    def count_fallback(self, name: str) -> None:
        """Count a call that NumPy did, by NumPy's name."""
        self.fallbacks[name] = self.fallbacks.get(name, 0) + 1

    def copy(self) -> Stats:
        """Return the counts as they are now, as an object that no longer changes."""
        snapshot = Stats()
        for name in _NUMBERS:
            setattr(snapshot, name, getattr(self, name))
        snapshot.fallbacks.update(self.fallbacks)
        return snapshot

    def __repr__(self) -> str:
        return (
            f"Stats(launches={self.launches}, h2d_bytes={self.h2d_bytes}, d2h_bytes={self.d2h_bytes}, "
            f"fallbacks={self.fallbacks}, compiled={self.compiled}, cache_hits={self.cache_hits})"
        )


_watchers: list[Callable[[str, int], object]] = []
_around_launches: list[Callable[[Launch, Work], Launch]] = []
stats = Stats()


def _told(name: str) -> property:
    """Return a number of `Stats` that tells whoever watches of each thing that is counted."""
    slot = vars(Stats)[name]

    def set_and_tell(self: Stats, value: int) -> None:
        amount = value - slot.__get__(self)
        slot.__set__(self, value)
        if amount > 0:
            for tell in _watchers:
                tell(name, amount)

    return property(slot.__get__, set_and_tell)


class WatchedStats(Stats):
    """Counts that tell whoever watches, all but the launches: those have a work to tell of, see `watched`."""

    __slots__ = ()

    h2d_bytes, d2h_bytes, compiled, cache_hits = map(_told, _NUMBERS[1:])

    def count_fallback(self, name: str) -> None:
        """Count a call that NumPy did, by NumPy's name."""
        super().count_fallback(name)
        for tell in _watchers:
            tell(name, 0)


def watched(launch: Launch, work: Work = NO_WORK) -> Launch:
    """Return what to launch with: what is given, and around it what those who watch have put there.

    Parameters
    ----------
    launch : callable
    work : (int, int)
        Flops and bytes of each launch.
    """
    for around in _around_launches:
        launch = around(launch, work)
    return launch


def watch(tell: Callable[[str, int], object], around_launch: Callable[[Launch, Work], Launch] | None = None) -> None:
    """Tell somebody of each thing that is counted, in the frames that count it, until the end of the process.

    Parameters
    ----------
    tell : callable(name, amount)
        The attribute of `Stats`, `launches` aside, and what was added to it; for a fallback NumPy's name and 0.
    around_launch : callable(launch, work), optional
        Given what launches a kernel, and the flops and bytes of each launch, it returns what is called instead from now
        on, which calls that.

    Notes
    -----
    The one object changes its class, so that counting costs nothing more as long as nobody watches.
    """
    _watchers.append(tell)
    if around_launch is not None:
        _around_launches.append(around_launch)
    stats.__class__ = WatchedStats
