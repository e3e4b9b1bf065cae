"""A device on which nothing runs: plans are made as for a GPU, their kernels traced, their launches judged.

Memory is numbers: arrays of gigabytes cost nothing. What is read back is one number, `PlanningBackend.word`,
but for what has been uploaded.
"""

from __future__ import annotations

import bisect
import importlib
import itertools
import math
import pkgutil
import random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import oxinp._kernels
from oxinp._config import config
from oxinp._kernels.choice import decide
from oxinp._kernels.plan import Copy, Fill, Launch, in_order
from oxinp._runtime import select
from oxinp._runtime.backend import MARKS_NBYTES, NUM_FLAGS, NUM_REPORTS, Capability
from oxinp._runtime.emulator import EmulatorBackend, EmulatorEvent
from oxinp._runtime.memory import Block
from oxinp._runtime.pool import Pool
from tests.fuzz.edges import run_block

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oxinp._kernels.choice import Choice
    from oxinp._kernels.plan import Argument, Plan
    from oxinp._ptx.types import Type

TOTAL_NBYTES = 141 << 30
DEVICES = {
    "h200": Capability((9, 0), 132, 227 << 10, 50 << 20, TOTAL_NBYTES, "planned H200"),
    "a100": Capability((8, 0), 108, 163 << 10, 40 << 20, TOTAL_NBYTES, "planned A100"),
    "b300": Capability((10, 3), 160, 227 << 10, 126 << 20, TOTAL_NBYTES, "planned B300"),
    "mig": Capability((9, 0), 16, 227 << 10, 6 << 20, TOTAL_NBYTES, "planned slice of an H100"),
    "rtx5090": Capability((12, 0), 170, 99 << 10, 96 << 20, TOTAL_NBYTES, "planned RTX 5090"),
    "rtx": Capability((8, 9), 24, 99 << 10, 32 << 20, TOTAL_NBYTES, "planned RTX 4060"),
}
ADDRESS_BITS = 48
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_THREADS = 1024
MAX_CLUSTER = 16
MAX_MAP_AXES = 5
MAX_STATIC_SHARED = 48 << 10
TUNED = 2  # tenths of the choices have an answer of `_tuned`
MAX_CANDIDATES = 30
WRONG_ANSWERS = 20  # of each choice, held against what kernels there are
WRONG_FIELDS = (0, -1, 1, 2, 3, 4, 5, 8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1 << 20, False, True, "no such way")
MAX_LAUNCHES = 300  # of one problem
MAX_WORDS_NBYTES = 16
MAX_REMEMBERED = 1 << 24
MAX_DOWNLOADED = 1 << 21
_FIRST = 1 << 21
_GAP = 1 << 16  # between allocations, which nobody may reach


class ImpossiblePlanError(Exception):
    """A launch that a device would refuse, or that would reach memory nobody has."""


class LaunchesSpentError(Exception):
    """A program that goes on for as long as what it reads is the same, or on the host with all of an array."""


class PlanningBackend(EmulatorBackend):
    """A device that judges launches and does nothing else.

    Parameters
    ----------
    capability : Capability

    Attributes
    ----------
    word : int
        What is read, wherever that is: of a few numbers each one, of more zeros.
    launches : int
        How many have been judged.
    launches_left : int
        How many more there may be.
    follows_blocks : bool
        Whether blocks are followed.
    total_nbytes : int
        How much memory there is.
    blocks : int
        Of how many launches a block has been followed, see `edges`.
    """

    def __init__(self, capability: Capability) -> None:
        self._next = _FIRST
        self._starts: list[int] = []
        self._blocks: dict[int, int] = {}  # sizes by address, as the driver gave them
        self._held: dict[int, int] = {}  # and as they were asked for; nothing of what was let go
        self._uploaded: dict[int, np.ndarray] = {}  # what was uploaded, until something writes there
        self.total_nbytes = TOTAL_NBYTES
        super().__init__(1 << 20)
        self.capability = capability
        self.word = 0
        self.random = random.Random(1)
        self.launches = self.blocks = 0
        self.launches_left = MAX_LAUNCHES
        self.follows_blocks = True
        self.pool = Pool(
            self._driver_allocate,
            self._driver_free,
            self._memory_info,
            MemoryError,
            make_free_list=lambda: _FreeList(self._held),
        )
        self.pool.owner = self

    @property
    def flags(self) -> int:
        if self._flags is None:
            self._flags = self.allocate(4 * NUM_FLAGS + MARKS_NBYTES)
        return self._flags.ptr

    @property
    def reports(self) -> Any:
        if self._reports is None:
            self._reports = _Reports(self)  # type: ignore[assignment]
        return self._reports

    def allocate(self, nbytes: int) -> Any:
        buffer = self.pool.allocate(nbytes)
        self._held[buffer.ptr] = nbytes
        self._uploaded.pop(buffer.ptr, None)
        return buffer

    def upload(self, ptr: int, array: np.ndarray) -> None:
        self._check_range(ptr, array.nbytes, "an upload")
        if array.nbytes <= MAX_REMEMBERED:
            self._uploaded[ptr] = array.reshape(-1).view("u1").copy()

    def download(self, array: np.ndarray, ptr: int) -> None:
        self._check_range(ptr, array.nbytes, "a download")
        if array.nbytes > MAX_DOWNLOADED:
            raise LaunchesSpentError  # what the host would make of it is not what is asked
        flat = array.reshape(-1).view("u1")
        start = self._starts[bisect.bisect_right(self._starts, ptr) - 1]
        known = self._uploaded.get(start, flat[:0])[ptr - start :][: flat.size]
        if known.size == flat.size:
            flat[:] = known
            return
        flat[:] = 0
        if flat.size <= MAX_WORDS_NBYTES:  # no more: SciPy's compiled code believes what indices say
            size = 8 if flat.size % 8 == 0 else 4 if flat.size % 4 == 0 else 1
            flat.view(f"i{size}")[:] = self.word

    def copy(self, dst_ptr: int, src_ptr: int, nbytes: int) -> None:
        self._check_range(dst_ptr, nbytes, "a copy")
        self._check_range(src_ptr, nbytes, "a copy")

        self._forget(dst_ptr)

    def fill(self, ptr: int, byte: int, nbytes: int) -> None:
        assert 0 <= byte < 256, byte
        self._check_range(ptr, nbytes, "a fill")
        self._forget(ptr)

    def let_be_read(self, ptr: int, nbytes: int) -> None:
        self._check_range(ptr, nbytes, "a reading")

    def launcher(
        self,
        kernel: Any,
        grid: tuple[int, int, int],
        num_varying: int,
        constants: tuple[Any, ...],
        work: Any = None,
        overlaps: bool = True,
    ) -> Any:
        del work, overlaps
        if len(constants) != len(kernel.params) - num_varying:
            raise ImpossiblePlanError(f"{kernel.name}: {len(constants)} constants and {num_varying} other parameters")

        def launch(*varying: Any) -> None:
            self._judge(kernel, grid, (*varying, *constants))

        return launch

    def relauncher(self, kernel: Any, num_varying: int, overlaps: bool = True) -> Any:
        del num_varying, overlaps

        def launch(grid: tuple[int, int, int], *parameters: Any) -> None:
            self._judge(kernel, grid, parameters)

        return launch

    def tensor_map(self, spec: Any, ptr: int) -> bytes:
        reach = sum(
            (n - 1) * step for n, step in zip(spec.shape, (*spec.strides_nbytes, spec.type.nbytes), strict=True)
        )
        self._check_range(ptr, reach + spec.type.nbytes, f"a tensor map {spec}")
        is_possible = ptr % 16 == 0 and len(spec.shape) <= MAX_MAP_AXES and all(0 < n <= 1 << 32 for n in spec.shape)
        if not is_possible or not all(0 <= step < 1 << 40 for step in spec.strides_nbytes):
            raise ImpossiblePlanError(f"a tensor map {spec} at {ptr:#x}")
        return bytes(128)

    def check_address(self, ptr: int) -> None:
        self._check_range(ptr, 0, "an address")

    def record_event(self) -> EmulatorEvent:
        return EmulatorEvent()

    def _driver_allocate(self, nbytes: int) -> int:
        if nbytes > self._memory_info()[0]:
            raise MemoryError(f"{nbytes} bytes of {self.total_nbytes}")
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
        self._held.pop(ptr, None)
        self._uploaded.pop(ptr, None)

    def _memory_info(self) -> tuple[int, int]:
        return self.total_nbytes - sum(self._blocks.values()), self.total_nbytes

    def leave(self, nbytes: int) -> None:
        """Have no more than so much memory left beside what is in use."""
        self.pool.trim()
        self.total_nbytes = min(TOTAL_NBYTES, sum(self._blocks.values()) + nbytes)

    def perform(self, plan: Plan, outputs: list[int], inputs: list[int], type_: Type) -> None:
        """Judge a plan that was asked for without a program, of arrays of so many elements of one type."""
        names = {f"{kind}{i}": n for kind, sizes in (("out", outputs), ("in", inputs)) for i, n in enumerate(sizes)}
        buffers = {name: self.allocate(n * type_.nbytes) for name, n in names.items()}
        buffers["scratch"] = self.allocate(plan.scratch_nbytes)
        pointers = {"flags": self.flags, **{name: buffer.ptr for name, buffer in buffers.items()}}

        def address(argument: Argument) -> Any:
            ptr = pointers[argument.buffer] + argument.offset
            return ptr if argument.map is None else self.tensor_map(argument.map, ptr)

        steps = list(in_order(plan.steps))
        last = {step.kernel: step for step in steps if isinstance(step, Launch)}
        for step in steps:
            if isinstance(step, Launch):
                given = (*map(address, step.arguments), *step.constants)
                self._judge(step.kernel, step.grid, given, follows=last[step.kernel] is step)
            elif isinstance(step, Fill):
                self.fill(address(step.target), step.byte, step.nbytes)
            elif isinstance(step, Copy):
                self.copy(address(step.target), address(step.source), step.nbytes)

    def _judge(
        self, kernel: Any, grid: tuple[int, int, int], parameters: tuple[Any, ...], *, follows: bool = True
    ) -> None:
        """Raise where a device would refuse a launch; a plan's last launch of a kernel is followed for all of them."""
        self.launches += 1
        self.launches_left -= 1
        if self.launches_left < 0:
            raise LaunchesSpentError
        kernel.blocks()
        what = f"{kernel.name}, grid {grid}, block {kernel.block}"
        if not all(1 <= n <= most for n, most in zip(grid, MAX_GRID, strict=True)):
            raise ImpossiblePlanError(f"{what}: the grid")
        if not 1 <= kernel.num_threads <= MAX_THREADS or kernel.block[2] > 64:
            raise ImpossiblePlanError(f"{what}: the block")
        needed = int(kernel.target.strip("sm_a"))
        own = 10 * self.capability.cc[0] + self.capability.cc[1]
        if own < needed or (kernel.target.endswith("a") and own != needed):
            raise ImpossiblePlanError(f"{what}: for {kernel.target}")
        cluster = kernel.cluster or (1, 1, 1)
        if math.prod(cluster) > MAX_CLUSTER or any(n % size for n, size in zip(grid, cluster, strict=True)):
            raise ImpossiblePlanError(f"{what}: clusters of {cluster}")
        if kernel.static_shared_nbytes > MAX_STATIC_SHARED:
            raise ImpossiblePlanError(f"{what}: {kernel.static_shared_nbytes} bytes of static shared memory")
        if kernel.shared_nbytes + kernel.static_shared_nbytes > self.capability.max_shared_nbytes:
            raise ImpossiblePlanError(f"{what}: {kernel.shared_nbytes} bytes of shared memory")
        if len(parameters) != len(kernel.params):
            raise ImpossiblePlanError(f"{what}: {len(parameters)} parameters of {len(kernel.params)}")
        for param, value in zip(kernel.params, parameters, strict=True):
            if param.is_pointer:
                address = value & ((1 << ADDRESS_BITS) - 1)
                self._check_range(address, 0, f"{what}: {param.name}")
                # Accumulators of several parts need not be a power of two of bytes.
                if param.type is not None and address % (param.type.nbytes & -param.type.nbytes):
                    raise ImpossiblePlanError(f"{what}: {param.name} at {address:#x}, of {param.type}")
                if param.access != "r":
                    self._forget(address)
            elif isinstance(value, bytes):
                if len(value) != param.nbytes:
                    raise ImpossiblePlanError(f"{what}: {len(value)} bytes for {param.name}")
            elif param.type is not None and param.type.is_integer:
                bits = param.type.bits
                low = -(1 << (bits - 1)) if param.type.kind == "i" else 0
                if not low <= int(value) < low + (1 << bits):
                    raise ImpossiblePlanError(f"{what}: {param.name} is {value}")
        if not (follows and self.follows_blocks):
            return
        x, y, z = (n - 1 for n in grid)
        drawn = self.random.randint(0, x), self.random.randint(0, y), self.random.randint(0, z)
        for place in {(x, y, z), drawn}:
            try:
                self.blocks += run_block(kernel, self._held, grid, place, parameters)
            except Exception as error:
                raise ImpossiblePlanError(f"{what}: block {place}: {error}") from error

    def _forget(self, ptr: int) -> None:
        """Do not know any longer what lies where something writes."""
        place = bisect.bisect_right(self._starts, ptr) - 1
        if place >= 0:
            self._uploaded.pop(self._starts[place], None)

    def _check_range(self, ptr: int, nbytes: int, what: str) -> None:
        place = bisect.bisect_right(self._starts, ptr) - 1
        start = self._starts[place] if place >= 0 else 0
        held = self._held.get(start, 0)
        if ptr + nbytes > start + held:
            raise ImpossiblePlanError(f"{what} of {nbytes} bytes at {ptr:#x}, where {held} are allocated")


class _FreeList(list[Block]):
    """A free list; what is in it is out of bounds."""

    def __init__(self, held: dict[int, int]) -> None:
        super().__init__()
        self._held = held

    def append(self, block: Block, append: Any = list.append) -> None:
        self._held.pop(block.ptr, None)
        append(self, block)


class _Reports:
    """Reports that nobody makes."""

    ring: Any = None

    def __init__(self, backend: PlanningBackend) -> None:
        self._buffer = backend.allocate(32 * NUM_REPORTS)
        self.ptr = self._buffer.ptr
        self.flags = self.ptr + 16 * NUM_REPORTS

    def are_empty(self) -> bool:
        return True

    def read(self) -> np.ndarray:
        return np.zeros(NUM_REPORTS, np.int64)

    def take(self, number: int) -> int:
        del number
        return 0


_current: list[PlanningBackend] = []


def _tuned(choice: Choice) -> Mapping[str, Any] | None:
    """Answer what is fastest with one of the candidates, with nothing, or with what no kernel exists for."""
    draw = _current[0].random
    form = draw.randrange(10)
    if form > TUNED:
        return None
    answers = list(itertools.islice(choice.candidates(), MAX_CANDIDATES))
    if not answers or not form:
        return {"of_another_version": 1}
    for _ in range(WRONG_ANSWERS):
        told: Any = _Told(_wrong(answers, draw))
        decide(choice, told)
    return _wrong(answers, draw) if form == 1 else draw.choice(answers)._asdict()


class _Told(NamedTuple):
    """A device, as far as a choice asks for it, that knows one answer."""

    fields: dict[str, Any]

    def tuned(self, choice: Choice) -> dict[str, Any]:
        del choice
        return self.fields


def _wrong(answers: list[Any], draw: random.Random) -> dict[str, Any]:
    """Return the fields of an answer, a few of them any number, or those of other answers."""
    fields: dict[str, Any] = draw.choice(answers)._asdict()
    for name in draw.sample(list(fields), draw.randint(1, min(2, len(fields)))):
        fields[name] = draw.choice((*WRONG_FIELDS, draw.choice(answers)._asdict()[name]))
    return fields


def use(device: str) -> PlanningBackend:
    """Have everything planned for a device from now on."""
    _current[:] = [PlanningBackend(DEVICES[device].replace(tuned=_tuned))]
    _keep_little()
    select._MODULES["emulator"] = __name__
    select._opened.clear()
    select._decided = (-1, None)
    config.renew()
    return _current[0]


def _keep_little() -> None:
    """Have what planners keep be let go after a few problems, not after a thousand."""
    for info in pkgutil.walk_packages(oxinp._kernels.__path__, "oxinp._kernels."):
        module = importlib.import_module(info.name)
        for name in ("MAX_KEPT", *("MAX_KERNELS",) * hasattr(module, "RESIZED")):
            if hasattr(module, name):
                vars(module)[name] = 8


def backend() -> PlanningBackend:
    """Return the device that is planned for."""
    return _current[0]


open_backend = backend  # what is asked for where a module of backends is found
