"""What was launched, moved, compiled and left to NumPy, counted."""

from __future__ import annotations

__all__ = ["Stats", "stats"]


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

    def copy(self) -> Stats:
        """Return the counts as they are now, as an object that no longer changes."""
        snapshot = Stats()
        for name in ("launches", "h2d_bytes", "d2h_bytes", "compiled", "cache_hits"):
            setattr(snapshot, name, getattr(self, name))
        snapshot.fallbacks.update(self.fallbacks)
        return snapshot

    def __repr__(self) -> str:
        return (
            f"Stats(launches={self.launches}, h2d_bytes={self.h2d_bytes}, d2h_bytes={self.d2h_bytes}, "
            f"fallbacks={self.fallbacks}, compiled={self.compiled}, cache_hits={self.cache_hits})"
        )


stats = Stats()
