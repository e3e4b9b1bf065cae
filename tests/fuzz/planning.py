"""A device on which nothing runs: plans are made as for a GPU, their kernels traced, their launches judged.

Memory is numbers: arrays of gigabytes cost nothing. What is read back is one number, `PlanningBackend.word`.
"""

from __future__ import annotations

import bisect
from typing import Any

import numpy as np

from oxinp._config import config
from oxinp._runtime import select
from oxinp._runtime.backend import NUM_FLAGS, NUM_REPORTS, Capability
from oxinp._runtime.emulator import EmulatorBackend, EmulatorEvent
from oxinp._runtime.pool import Pool

TOTAL_NBYTES = 141 << 30
DEVICES = {
    "h200": Capability((9, 0), 132, 227 << 10, 50 << 20, TOTAL_NBYTES, "planned H200"),
    "a100": Capability((8, 0), 108, 163 << 10, 40 << 20, TOTAL_NBYTES, "planned A100"),
    "mig": Capability((9, 0), 16, 227 << 10, 6 << 20, TOTAL_NBYTES, "planned slice of an H100"),
    "rtx5090": Capability((12, 0), 170, 99 << 10, 96 << 20, TOTAL_NBYTES, "planned RTX 5090"),
    "rtx": Capability((8, 9), 24, 99 << 10, 32 << 20, TOTAL_NBYTES, "planned RTX 4060"),
}
ADDRESS_BITS = 48
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_THREADS = 1024
MAX_STATIC_SHARED = 48 << 10
_FIRST = 1 << 21
_GAP = 1 << 16  # between allocations, which nobody may reach


class ImpossiblePlanError(Exception):
    """A launch that a device would refuse, or that would reach memory nobody has."""


class PlanningBackend(EmulatorBackend):
    """A device that judges launches and does nothing else.

    Parameters
    ----------
    capability : Capability

    Attributes
    ----------
    word : int
        What is read, wherever that is.
    launches : int
        How many have been judged.
    """

    def __init__(self, capability: Capability) -> None:
        self._next = _FIRST
        self._starts: list[int] = []
        self._blocks: dict[int, int] = {}
        super().__init__(1 << 20)
        self.capability = capability
        self.word = 0
        self.launches = 0
        self.pool = Pool(self._driver_allocate, self._driver_free, self._memory_info, MemoryError)
        self.pool.owner = self

    @property
    def flags(self) -> int:
        if self._flags is None:
            self._flags = self.allocate(4 * NUM_FLAGS)
        return self._flags.ptr

    @property
    def reports(self) -> Any:
        if self._reports is None:
            self._reports = _Reports(self)  # type: ignore[assignment]
        return self._reports

    def allocate(self, nbytes: int) -> Any:
        return self.pool.allocate(nbytes)

    def upload(self, ptr: int, array: np.ndarray) -> None:
        self._check_range(ptr, array.nbytes, "an upload")

    def download(self, array: np.ndarray, ptr: int) -> None:
        self._check_range(ptr, array.nbytes, "a download")
        flat = array.reshape(-1).view("u1")
        flat[:] = 0
        if flat.size % 8 == 0:
            flat.view(np.int64)[:] = self.word

    def copy(self, dst_ptr: int, src_ptr: int, nbytes: int) -> None:
        self._check_range(dst_ptr, nbytes, "a copy")
        self._check_range(src_ptr, nbytes, "a copy")

    def fill(self, ptr: int, byte: int, nbytes: int) -> None:
        assert 0 <= byte < 256, byte
        self._check_range(ptr, nbytes, "a fill")

    def let_be_read(self, ptr: int, nbytes: int) -> None:
        self._check_range(ptr, nbytes, "a reading")

    def launcher(
        self,
        kernel: Any,
        grid: tuple[int, int, int],
        num_varying: int,
        constants: tuple[Any, ...],
        work: Any = None,
        is_brief: bool = False,
    ) -> Any:
        del work, is_brief
        if len(constants) != len(kernel.params) - num_varying:
            raise ImpossiblePlanError(f"{kernel.name}: {len(constants)} constants and {num_varying} other parameters")

        def launch(*varying: Any) -> None:
            self._judge(kernel, grid, (*varying, *constants))

        return launch

    def relauncher(self, kernel: Any, num_varying: int) -> Any:
        del num_varying

        def launch(grid: tuple[int, int, int], *parameters: Any) -> None:
            self._judge(kernel, grid, parameters)

        return launch

    def tensor_map(self, spec: Any, ptr: int) -> bytes:
        self._check_range(ptr, 1, f"a tensor map {spec}")
        return bytes(128)

    def check_address(self, ptr: int) -> None:
        self._check_range(ptr, 0, "an address")

    def record_event(self) -> EmulatorEvent:
        return EmulatorEvent()

    def _driver_allocate(self, nbytes: int) -> int:
        if nbytes > self._memory_info()[0]:
            raise MemoryError(f"{nbytes} bytes of {TOTAL_NBYTES}")
        ptr = self._next
        self._next += -(-nbytes // _GAP) * _GAP + _GAP
        if self._next >> (ADDRESS_BITS - 1):
            raise MemoryError("all addresses have been given")
        self._blocks[ptr] = nbytes
        self._starts.append(ptr)
        return ptr

    def _driver_free(self, ptr: int) -> None:
        del self._blocks[ptr]
        self._starts.remove(ptr)

    def _memory_info(self) -> tuple[int, int]:
        return TOTAL_NBYTES - sum(self._blocks.values()), TOTAL_NBYTES

    def _judge(self, kernel: Any, grid: tuple[int, ...], parameters: tuple[Any, ...]) -> None:
        """Raise where a device would refuse a launch."""
        self.launches += 1
        kernel.blocks()
        what = f"{kernel.name}, grid {grid}, block {kernel.block}"
        if not all(1 <= n <= most for n, most in zip(grid, MAX_GRID, strict=True)):
            raise ImpossiblePlanError(f"{what}: the grid")
        if not 1 <= kernel.num_threads <= MAX_THREADS or kernel.block[2] > 64:
            raise ImpossiblePlanError(f"{what}: the block")
        if kernel.static_shared_nbytes > MAX_STATIC_SHARED:
            raise ImpossiblePlanError(f"{what}: {kernel.static_shared_nbytes} bytes of static shared memory")
        if kernel.shared_nbytes + kernel.static_shared_nbytes > self.capability.max_shared_nbytes:
            raise ImpossiblePlanError(f"{what}: {kernel.shared_nbytes} bytes of shared memory")
        if len(parameters) != len(kernel.params):
            raise ImpossiblePlanError(f"{what}: {len(parameters)} parameters of {len(kernel.params)}")
        for param, value in zip(kernel.params, parameters, strict=True):
            if param.is_pointer:
                self._check_range(value & ((1 << ADDRESS_BITS) - 1), 0, f"{what}: {param.name}")
            elif isinstance(value, bytes):
                if len(value) != param.nbytes:
                    raise ImpossiblePlanError(f"{what}: {len(value)} bytes for {param.name}")
            elif param.type is not None and param.type.is_integer:
                bits = param.type.bits
                low = -(1 << (bits - 1)) if param.type.kind == "i" else 0
                if not low <= int(value) < low + (1 << bits):
                    raise ImpossiblePlanError(f"{what}: {param.name} is {value}")

    def _check_range(self, ptr: int, nbytes: int, what: str) -> None:
        place = bisect.bisect_right(self._starts, ptr) - 1
        start = self._starts[place] if place >= 0 else 0
        held = self._blocks.get(start, 0)
        if ptr + nbytes > start + held:
            raise ImpossiblePlanError(f"{what} of {nbytes} bytes at {ptr:#x}, where {held} are allocated")


class _Reports:
    """Reports that nobody makes."""

    ring: Any = None

    def __init__(self, backend: PlanningBackend) -> None:
        self._buffer = backend.allocate(32 * NUM_REPORTS)
        self.ptr = self._buffer.ptr
        self.flags = self.ptr + 16 * NUM_REPORTS

    def read(self) -> np.ndarray:
        return np.zeros(NUM_REPORTS, np.int64)

    def take(self, number: int) -> int:
        del number
        return 0


_current: list[PlanningBackend] = []


def use(device: str) -> PlanningBackend:
    """Have everything planned for a device from now on."""
    _current[:] = [PlanningBackend(DEVICES[device])]
    select._MODULES["emulator"] = __name__
    select._opened.clear()
    select._decided = (-1, None)
    config.renew()
    return _current[0]


def backend() -> PlanningBackend:
    """Return the device that is planned for."""
    return _current[0]


open_backend = backend  # what is asked for where a module of backends is found
