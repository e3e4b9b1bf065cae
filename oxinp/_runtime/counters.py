"""What was launched, moved, compiled and left to NumPy, counted."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING

from oxinp._runtime.forking import free_in_children

if TYPE_CHECKING:
    from collections.abc import Callable

    Work = tuple[int, int]

__all__ = ["NO_WORK", "Stats", "after_launch", "stats", "unwatch", "watch"]

NO_WORK = (0, 0)
"""Flops and bytes of what does no work that is counted."""

_NUMBERS = ("launches", "h2d_bytes", "d2h_bytes", "compiled", "cache_hits", "evicted_bytes")


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
    evicted_bytes : int
        Bytes of arrays that were copied to the host because the device was out of memory.
    """

    __slots__ = ("cache_hits", "compiled", "d2h_bytes", "evicted_bytes", "fallbacks", "h2d_bytes", "launches")

    launches: int
    h2d_bytes: int
    d2h_bytes: int
    fallbacks: dict[str, int]
    compiled: int
    cache_hits: int
    evicted_bytes: int

    def __init__(self) -> None:
        self.fallbacks = {}
        self.reset()

    def reset(self) -> None:
        """Set every count to zero, in place: this object and its dictionary stay the ones others hold."""
        self.launches = self.h2d_bytes = self.d2h_bytes = self.compiled = self.cache_hits = self.evicted_bytes = 0
        self.fallbacks.clear()

    def count_fallback(self, name: str) -> None:
        """Count a call that NumPy did, by NumPy's name."""
        with _counting:
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
            f"fallbacks={self.fallbacks}, compiled={self.compiled}, cache_hits={self.cache_hits}, "
            f"evicted_bytes={self.evicted_bytes})"
        )


_watching = free_in_children(RLock())
_counting = free_in_children(RLock())  # a finaliser may count where something is counted
_watchers: list[Callable[[str, int], object]] = []
_launch_watchers: list[Callable[[Work], Callable[[], object]]] = []
stats = Stats()


def _told(name: str) -> property:
    """Return a number of `Stats` that tells whoever watches of each thing that is counted."""
    slot = vars(Stats)[name]

    def set_and_tell(self: Stats, value: int) -> None:
        amount = value - slot.__get__(self)
        slot.__set__(self, value)
        if amount > 0:
            for tell in tuple(_watchers):
                tell(name, amount)

    return property(slot.__get__, set_and_tell)


class WatchedStats(Stats):
    """Counts that tell whoever watches, all but the launches: those have a work to tell of, see `after_launch`."""

    __slots__ = ()

    h2d_bytes, d2h_bytes, compiled, cache_hits, evicted_bytes = map(_told, _NUMBERS[1:])

    def count_fallback(self, name: str) -> None:
        """Count a call that NumPy did, by NumPy's name."""
        super().count_fallback(name)
        for tell in tuple(_watchers):
            tell(name, 0)


def after_launch(work: Work = NO_WORK) -> Callable[[], object] | None:
    """Return what is to be called after each launch of a launcher, None where nobody watches.

    Parameters
    ----------
    work : (int, int)
        Flops and bytes of each launch.
    """
    tells = [watcher(work) for watcher in tuple(_launch_watchers)]
    if not tells:
        return None
    return tells[0] if len(tells) == 1 else lambda: [tell() for tell in tells]


def watch(
    tell: Callable[[str, int], object], launch_watcher: Callable[[Work], Callable[[], object]] | None = None
) -> None:
    """Tell somebody of each thing that is counted, in the frames that count it, until `unwatch`.

    Parameters
    ----------
    tell : callable(name, amount)
        The attribute of `Stats`, `launches` aside, and what was added to it; for a fallback NumPy's name and 0.
    launch_watcher : callable(work), optional
        Given flops and bytes of each launch, it returns what is called after every launch by a launcher that is made
        from now on, by what launches.

    Notes
    -----
    The one object changes its class, so that counting costs nothing more as long as nobody watches.
    """
    with _watching:
        _watchers.append(tell)
        if launch_watcher is not None:
            _launch_watchers.append(launch_watcher)
        stats.__class__ = WatchedStats


def unwatch(
    tell: Callable[[str, int], object], launch_watcher: Callable[[Work], Callable[[], object]] | None = None
) -> None:
    """Tell somebody no longer, but of launches by the launchers that were made meanwhile."""
    with _watching:
        _watchers.remove(tell)
        if launch_watcher is not None:
            _launch_watchers.remove(launch_watcher)
        if not _watchers:
            stats.__class__ = Stats
