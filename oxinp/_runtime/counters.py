"""What was launched, moved, compiled and left to NumPy, counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NO_WORK", "Stats", "counter_of", "stats", "watch"]

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


class WatchedStats(Stats):
    """Counts that tell whoever watches of each thing that is counted."""

    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> None:
        amount = value - getattr(self, name)
        super().__setattr__(name, value)
        if amount > 0:
            for tell in _watchers:
                tell(name, amount, NO_WORK)

    def count_fallback(self, name: str) -> None:
        """Count a call that NumPy did, by NumPy's name."""
        super().count_fallback(name)
        for tell in _watchers:
            tell(name, 0, NO_WORK)


class WatchedLaunches:
    """The launches of one launcher while somebody watches, who is told what each of them does.

    `stats` counts them, too.
    """

    __slots__ = ("_work", "launches")

    launches: int
    _work: tuple[int, int]

    def __init__(self, work: tuple[int, int]) -> None:
        object.__setattr__(self, "_work", work)
        object.__setattr__(self, "launches", 0)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        _set_launches(stats, stats.launches + 1)
        for tell in _watchers:
            tell("launches", 1, self._work)


_watchers: list[Callable[[str, int, tuple[int, int]], None]] = []
_set_launches = vars(Stats)["launches"].__set__  # without telling, as `WatchedStats` would
stats = Stats()


def counter_of(work: tuple[int, int]) -> Stats | WatchedLaunches:
    """Return what a launcher counts its launches with, given the flops and bytes of each."""
    return WatchedLaunches(work) if _watchers else stats


def watch(tell: Callable[[str, int, tuple[int, int]], None]) -> None:
    """Call `tell` for each thing that is counted, in the frames that count it, until the end of the process.

    Parameters
    ----------
    tell : callable(name, amount, work)
        The attribute of `Stats` and what was added to it; for a fallback NumPy's name and 0. Of launches whose
        launchers were made since, flops and bytes; zeros else.

    Notes
    -----
    The one object changes its class, so that counting costs nothing more as long as nobody watches.
    """
    _watchers.append(tell)
    stats.__class__ = WatchedStats
