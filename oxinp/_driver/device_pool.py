"""A choice of devices for work that can go to any of them."""

from __future__ import annotations

import itertools
from threading import Lock
from typing import TYPE_CHECKING

from oxinp._driver import errors
from oxinp._driver.memory import DeviceMemory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._driver.context import Context

__all__ = ["POLICIES", "DevicePool", "Lease"]

POLICIES = ("round_robin", "least_loaded", "most_free")


class DevicePool:
    """Devices that take turns.

    Parameters
    ----------
    contexts : sequence of Context
        One per device.
    policy : {"round_robin", "least_loaded", "most_free"}
        The next one, the one with the fewest leases, or the one with the most free memory.

    Attributes
    ----------
    contexts : tuple of Context
    loads : list of int
        Leases that each has now.
    """

    def __init__(self, contexts: Sequence[Context], policy: str = "round_robin") -> None:
        if not contexts:
            raise errors.InvalidValue("contexts is empty: a pool has at least one device")
        if policy not in POLICIES:
            raise errors.InvalidValue(f"policy={policy!r}: known are {', '.join(POLICIES)}")
        self.contexts = tuple(contexts)
        self.policy = policy
        self.loads = [0] * len(self.contexts)
        self._lock = Lock()
        self._turns = itertools.cycle(range(len(self.contexts)))
        self._memories = [DeviceMemory(context) for context in self.contexts]

    def lease(self) -> Lease:
        """Return the device whose turn it is, for the time of a `with` block; threads may ask at once."""
        free = [memory.info()[0] for memory in self._memories] if self.policy == "most_free" else []
        with self._lock:
            index = self._choose(free)
            self.loads[index] += 1
        return Lease(self, index)

    def give_back(self, index: int) -> None:
        """End a lease."""
        with self._lock:
            self.loads[index] -= 1

    def _choose(self, free: list[int]) -> int:
        if self.policy == "round_robin":
            return next(self._turns)
        if self.policy == "most_free":
            return max(range(len(free)), key=free.__getitem__)
        return min(range(len(self.loads)), key=self.loads.__getitem__)


class Lease:
    """A device for the time of a `with` block, current in the thread meanwhile.

    Attributes
    ----------
    context : Context
    index : int
        Its place in the pool.
    """

    def __init__(self, pool: DevicePool, index: int) -> None:
        self._pool: DevicePool | None = pool
        self.index = index
        self.context = pool.contexts[index]

    def close(self) -> None:
        """Give the device back; once is enough, more does nothing."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.give_back(self.index)

    def __enter__(self) -> Context:
        try:
            return self.context.__enter__()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *exception: object) -> None:
        try:
            self.context.__exit__(*exception)
        finally:
            self.close()
