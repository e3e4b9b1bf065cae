"""Single blocks of launches on the emulator, over memory that is numbers: every access has to lie in an allocation.

What is written is forgotten, so arrays of gigabytes cost nothing, and the last block of a grid of millions shows
whether 32 bits held its offsets. A block that waits for others is left where it waits. What is read is zeros; an access
that is wrong then counts if it is the same where all bits read are ones, for else it is what is read that is wrong: a
list of rows, of which all are the first.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

from oxinp._ptx import emulate
from oxinp._ptx.emulator.faults import AccessError, DeadlockError, DivergenceError, RaceError
from oxinp._ptx.emulator.machine import Machine
from oxinp._ptx.emulator.space import Fault, Memory

if TYPE_CHECKING:
    from oxinp._ptx.kernel import Kernel

MAX_ACCESSES = 300  # of one block: loops over rows of millions are not followed to their end
IDLE_ROUNDS = 3
# Kernels that reach what they should only if what they read is true: rows that change places, as lists say.
BELIEVING = frozenset({"exchange_rows"})
_TABLES = 1 << 46


class _EnoughError(Exception):
    """The block has been followed for long enough."""


class _Alike:
    """Words of any type, all of whose bytes are the same."""

    def __init__(self, byte: int, dtype: Any = np.uint8) -> None:
        self.dtype = np.dtype(dtype)
        self._byte = byte

    def view(self, dtype: Any) -> _Alike:
        return _Alike(self._byte, dtype)

    def words(self, count: int) -> Any:
        return np.full(count * self.dtype.itemsize, self._byte, np.uint8).view(self.dtype)

    def __getitem__(self, index: Any) -> Any:
        words = self.words(1)
        return words if isinstance(index, slice) else words[0]

    def __setitem__(self, index: Any, value: Any) -> None: ...


class _Untracked:
    """Notes no race: nothing is written."""

    def begin_launch(self) -> None: ...

    def note(self, *args: Any, **kwargs: Any) -> None: ...


class PlannedMemory:
    """Global memory that is allocations and no bytes; of `Memory` what launches ask for.

    Parameters
    ----------
    held : dict
        Sizes of allocations by address.
    byte : int
        What every byte reads as.
    """

    BASE = Memory.BASE

    def __init__(self, held: dict[int, int], byte: int) -> None:
        self._held = held
        self._starts = np.array(sorted(held), np.int64)
        self._ends = np.array([start + held[start] for start in self._starts.tolist()], np.int64)
        self._tables = bytearray()
        self._accesses = 0
        self.clock = 0
        self.tracker, self.data = _Untracked(), _Alike(byte)

    def allocate(self, nbytes: int) -> int:
        """Return an address for a table of a kernel."""
        start = len(self._tables)
        self._tables += bytes(-(-nbytes // 256) * 256)
        return _TABLES + start

    def write(self, address: int, data: Any) -> None:
        """Fill a table."""
        given = bytes(np.ascontiguousarray(data).reshape(-1).view(np.uint8))
        self._tables[address - _TABLES : address - _TABLES + len(given)] = given

    def free(self, address: int) -> None:
        """Keep tables: the memory goes with the launch."""

    def check(
        self, offsets: Any, nbytes: int, numbers: Any, *, is_read: bool, is_sparse: bool = False
    ) -> tuple[int, int]:
        """Fault unless every element is aligned and inside an allocation."""
        del numbers, is_read, is_sparse
        self._accesses += 1
        if self._accesses > MAX_ACCESSES:
            raise _EnoughError
        bad = offsets & (nbytes - 1) != 0
        if bad.any():
            position = int(bad.argmax())
            raise Fault(position, int(offsets[position]), f"misaligned: not a multiple of {nbytes}")
        addresses = offsets + self.BASE
        place = np.searchsorted(self._starts, addresses, "right") - 1
        inside = (place >= 0) & (addresses + nbytes <= self._ends[place])
        inside |= (addresses >= _TABLES) & (addresses + nbytes <= _TABLES + len(self._tables))
        if not inside.all():
            position = int(inside.argmin())
            raise Fault(position, int(offsets[position]), "out of bounds of every allocation")
        return int(offsets.min()), int(offsets.max()) + nbytes

    def load(self, offsets: Any, dtype: Any, width: int, numbers: Any) -> Any:
        """Return what all bytes are, but of tables what they hold."""
        del numbers
        if int(offsets[0]) + self.BASE < _TABLES:
            return self.data.view(dtype).words(width * len(offsets)).reshape(width, len(offsets))
        words = np.frombuffer(bytes(self._tables), dtype)
        first = (offsets + self.BASE - _TABLES) // dtype.itemsize
        return np.stack([words[first + i] for i in range(width)])

    def store(self, offsets: Any, values: Any, numbers: Any) -> None:
        """Forget what is stored."""


class _Block(emulate.Fiber):
    """The threads of one block of a grid, of which the machine knows no other."""

    coordinates: tuple[int, int, int]

    def special(self, register: str) -> Any:
        name, _, axis = register.partition(".")
        if name == "ctaid":
            return np.asarray([self.coordinates["xyz".index(axis)]], np.uint32)
        return super().special(register)


def run_block(
    kernel: Kernel, held: dict[int, int], grid: tuple[int, int, int], place: tuple[int, int, int], parameters: Any
) -> bool:
    """Run one block of a launch; return whether it came to its end, or waits, or was followed far enough.

    Raises
    ------
    EmulationError
        It accesses what is no allocation, or is misaligned.
    """
    if kernel.cluster is not None or kernel.name in BELIEVING:
        return False
    packed = struct.pack(kernel.param_format, *parameters)
    try:
        return _followed(kernel, PlannedMemory(held, 0), grid, place, packed)
    except AccessError as error:
        try:
            _followed(kernel, PlannedMemory(held, 0xFF), grid, place, packed)
        except AccessError as other:
            if str(other) == str(error):
                raise
        return True


def _followed(
    kernel: Kernel, memory: Any, grid: tuple[int, int, int], place: tuple[int, int, int], packed: bytes
) -> bool:
    program = emulate._program(kernel)
    machine = Machine(kernel, memory, (1, 1, 1), packed, program.carried)
    machine.grid = grid
    block = _Block(machine, machine.all_lanes(), program.registers(), [emulate.Entry(program.body)])
    block.coordinates = place
    try:
        with np.errstate(all="ignore"), mock.patch.object(emulate, "_IDLE_ROUNDS", IDLE_ROUNDS):
            program.prologue(block)
            emulate.Scheduler(machine, block).run()
    except (_EnoughError, DeadlockError, DivergenceError, RaceError):
        return True  # it waits for others, or does what data that are all alike make it do
    except NotImplementedError:
        return False  # an instruction that only a GPU has
    return True
