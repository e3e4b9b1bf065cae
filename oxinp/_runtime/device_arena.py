"""Arenas on a GPU: their addresses, and memory that is mapped behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._config import config
from oxinp._driver.virtual import AddressRange, PhysicalMemory, granularity
from oxinp._runtime.arena import Arena

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._driver.context import Context
    from oxinp._driver.device import Device

__all__ = ["arena_maker"]


class _Space(AddressRange):
    """Addresses of a device as an arena sees them."""

    __slots__ = ("guests", "wait")

    def __init__(self, context: Context, nbytes: int, wait: Callable[[], None]) -> None:
        super().__init__(context, nbytes)
        self.wait = wait  # until the device is done with everything
        self.guests: list[Device] = []  # other devices that use it

    def commit(self, offset: int, nbytes: int) -> None:
        """Put memory behind part of it."""
        self.map(offset, PhysicalMemory(self.context, nbytes), self.guests)

    def let_in(self, device: Device) -> None:
        """Let another device use it."""
        self.guests.append(device)
        self.share(self.guests)

    def decommit(self, offset: int) -> None:
        """Take the memory at an offset away."""
        self.unmap(offset)


def arena_maker(context: Context, total_nbytes: int, wait: Callable[[], None]) -> Callable[[], Arena] | None:
    """Return what makes arenas on a device, None where blocks are driver allocations; `wait` waits for the device."""
    if config.memory_pool != "arena" or not context.device.attribute("has_virtual_memory"):
        return None
    unit = granularity(context)
    # Twice the memory: chunks that were given back leave holes in which later ones may not fit.
    nbytes = -(-2 * total_nbytes // unit) * unit
    return lambda: Arena(_Space(context, nbytes, wait), unit)
