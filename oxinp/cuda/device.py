"""Devices: the GPUs of the machine, and which of them arrays go to."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from oxinp._driver import device as driver_device
from oxinp._driver import errors, peer, topology
from oxinp._driver.memory import DeviceMemory
from oxinp._driver.topology import BusPlace, Link
from oxinp._runtime import here, select, timeline
from oxinp.cuda import current

if TYPE_CHECKING:
    from typing import Self

    from oxinp._runtime.cuda import CudaBackend

__all__ = ["BusPlace", "Device", "Link", "MemoryInfo", "best_device", "current_device", "links", "list_devices"]


class MemoryInfo(NamedTuple):
    """Memory of a device, all processes considered, in bytes."""

    free_nbytes: int
    total_nbytes: int


class Device:
    """A GPU; inside ``with device:`` new arrays and array operations of the calling thread go to it.

    Arrays stay where they are and can be used on every device: kernels read and write another one's memory over the
    link between the two. Where there is none, using an array of another device raises `PeerError`.

    Parameters
    ----------
    ordinal : int
        Counted from 0, as CUDA_VISIBLE_DEVICES leaves and orders them.

    Raises
    ------
    DeviceNotFound
        There is none of that number.
    Unavailable
        There is no GPU, or none can be used; says why.

    Examples
    --------
    >>> import oxinp.cuda
    >>> for device in oxinp.cuda.list_devices() if oxinp.cuda.is_available() else []:
    ...     with device:
    ...         pass
    """

    __slots__ = ("_device",)

    def __init__(self, ordinal: int = 0) -> None:
        self._device = driver_device.Device(ordinal)

    @property
    def ordinal(self) -> int:
        """Its number."""
        return self._device.ordinal

    @property
    def name(self) -> str:
        """What the driver calls it."""
        return self._device.name

    @property
    def uuid(self) -> str:
        """What tells it from every other GPU, as nvidia-smi prints it."""
        return self._device.uuid

    @property
    def compute_capability(self) -> tuple[int, int]:
        """Major and minor."""
        return self._device.compute_capability

    @property
    def total_nbytes(self) -> int:
        """Size of its memory."""
        return self._device.total_nbytes

    @property
    def pci_address(self) -> str:
        """Where it is on the bus, "0000:1b:00.0"."""
        return self._device.pci_address

    def attributes(self) -> dict[str, int]:
        """Return its properties by name: sizes in bytes, rates in kHz, 0 and 1 for no and yes."""
        return self._device.attributes()

    def memory_info(self) -> MemoryInfo:
        """Return the free and the total bytes of its memory, all processes considered."""
        return MemoryInfo(*DeviceMemory(self._backend().context).info())

    def can_reach(self, other: Device) -> bool:
        """Return whether kernels here can use arrays of another device, over the link between the two."""
        return self == other or peer.can_access(self._device, other._device)

    def bus_place(self) -> BusPlace:
        """Return where it sits in the machine: its bus, the speed of that, and the processors and memory next to it."""
        return topology.bus_place(self._device)

    def __enter__(self) -> Self:
        if not here.are_several:  # else what is pending knows its device
            current.flush()
        now, line = current.cuda_backend(), None
        if now is not None and (here.are_several or now.device != self._device):
            new = self._backend()
            timeline.separate(now)
            line = timeline.latest(new)
            new.context.make_current()
        here.enter(line)
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            current.flush()
        finally:
            here.leave()
            before = current.cuda_backend()
            if before is not None and before.device != self._device:
                before.context.make_current()

    def _backend(self) -> CudaBackend:
        return cast("CudaBackend", select.device_backend(self.ordinal))

    def __eq__(self, other: object) -> bool:
        return self._device == other._device if isinstance(other, Device) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._device)

    def __repr__(self) -> str:
        return f"<Device {self.ordinal}: {self.name}>"


def list_devices() -> list[Device]:
    """Return every GPU that the process can see; none where there is no GPU."""
    try:
        return [Device(device.ordinal) for device in driver_device.list_devices()]
    except errors.Unavailable:
        return []


def best_device() -> Device:
    """Return the GPU with the newest architecture, of these the one with the most multiprocessors, then memory.

    Raises
    ------
    Unavailable
        There is none; says why.
    """
    return Device(driver_device.best_device().ordinal)


def links() -> list[Link]:
    """Return what lies between each two GPUs: NVLink, the bus, or the host's memory only."""
    try:
        return topology.links(driver_device.list_devices())
    except errors.Unavailable:
        return []


def current_device() -> Device | None:
    """Return the GPU that arrays go to, None where there is none."""
    backend = current.cuda_backend()
    return None if backend is None else Device(backend.device.ordinal)
