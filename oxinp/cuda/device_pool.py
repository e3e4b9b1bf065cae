"""Device pools: a choice of devices for work that can go to any of them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from oxinp._driver import device_pool, errors
from oxinp.cuda.device import list_devices

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from oxinp.cuda.device import Device

__all__ = ["DevicePool"]


class DevicePool:
    """Devices that take turns; threads may ask at once.

    Parameters
    ----------
    devices : sequence of Device, optional
        All that there are if not given.
    policy : {"round_robin", "least_loaded", "most_free"}
        The next one, the one with the fewest leases, or the one with the most free memory.

    Attributes
    ----------
    devices : tuple of Device

    Raises
    ------
    InvalidValue
        There is no device, or no such policy.

    Examples
    --------
    >>> import oxinp as np
    >>> if np.cuda.is_available():
    ...     pool = np.cuda.DevicePool(policy="least_loaded")
    ...     with pool.lease() as device:
    ...         x = np.ones(1_000_000) * 2  # on that device
    """

    def __init__(self, devices: Sequence[Device] | None = None, policy: str = "round_robin") -> None:
        self.devices = tuple(list_devices() if devices is None else devices)
        if not self.devices:
            raise errors.InvalidValue("devices is empty: a pool has at least one device")
        self._pool = device_pool.DevicePool([device._backend().context for device in self.devices], policy)

    @property
    def loads(self) -> tuple[int, ...]:
        """Leases that each device has now."""
        return tuple(self._pool.loads)

    @contextlib.contextmanager
    def lease(self) -> Iterator[Device]:
        """Make the device whose turn it is the calling thread's current one inside a `with` block."""
        lease = self._pool.lease()
        try:
            with self.devices[lease.index] as device:
                yield device
        finally:
            lease.close()

    def __repr__(self) -> str:
        return f"<DevicePool of {len(self.devices)} devices, {self._pool.policy}>"
