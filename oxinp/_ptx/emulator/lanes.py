"""Lanes in lockstep: who they are, their registers and mask, what they read of themselves, and their warps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from oxinp._ptx.emulator.faults import DivergenceError
from oxinp._ptx.emulator.machine import WARP, Machine
from oxinp._ptx.emulator.space import steps
from oxinp._ptx.truths import all_of, any_of

if TYPE_CHECKING:
    from oxinp._ptx.kernel import Instr, SharedArray, Table

Array = npt.NDArray[Any]

PARAMETER_SPACE = 0x6000_0000_0000  # generic addresses of by-value parameters

# Special registers of whole launches, which most others of one shape read as well.
_SPECIALS: dict[tuple[Any, ...], Array] = {}
_MAX_SPECIALS = 64


class LoopState:
    """Lanes that left a running loop, and lanes that wait for its next iteration; None stands for no lane."""

    __slots__ = ("left", "skipped")

    def __init__(self) -> None:
        self.left: Array | None = None
        self.skipped: Array | None = None


class Lanes:
    """Lanes in lockstep.

    A register is an array over the frame's lanes, or of length 1 where all lanes agree; arrays are never written in
    place. Values of inactive lanes are computed too and mean nothing.

    Attributes
    ----------
    lanes : int64 array
        Global lane numbers, ascending; ``lane // machine.lanes_per_block`` is the block.
    mask : bool array or None
        Active lanes; None is all of them.
    registers : list of array
        By register index; immediates follow.
    instr : Instr
        The instruction running, for messages.
    """

    def __init__(self, machine: Machine, lanes: Array, registers: list[Any]) -> None:
        self.machine = machine
        self.lanes = lanes
        self.num_lanes = len(lanes)
        self.shape = (self.num_lanes,)
        self.mask: Array | None = None
        self.is_dead = False
        self.registers = registers
        self.loops: list[LoopState] = []
        self.instr: Instr | None = None
        self._warp_places: tuple[int, Array, Array] | None = None
        self._whole_warps: bool | None = None
        self._places: tuple[Array, Array] | None = None  # of which mask
        self._active: tuple[Array, Array] | None = None  # likewise
        self._warps: tuple[Array | None, Array] | None = None  # likewise
        self._shared_start: Array | None = None
        self._active_shared_start: tuple[Array, Array] | None = None  # of which mask
        self._blocks: Array | None = None
        self._found: tuple[Array | None, Array] | None = None  # the members that were all found here, of which mask

    # -- identity

    @property
    def is_everyone(self) -> bool:
        """Whether these are all threads of the launch."""
        return self.mask is None and self.num_lanes == self.machine.num_threads

    @property
    def places(self) -> Array:
        """Indices of the active lanes, where some are not: they select and assign in half of the time of a mask."""
        mask = self.mask
        if self._places is None or self._places[0] is not mask:
            assert mask is not None
            self._places = mask, mask.nonzero()[0]
        return self._places[1]

    @property
    def active(self) -> Array:
        """Global numbers of the active lanes."""
        mask = self.mask
        if mask is None:
            return self.lanes
        if self._active is None or self._active[0] is not mask:
            self._active = mask, self.lanes[self.places]
        return self._active[1]

    @property
    def active_warp_numbers(self) -> Array:
        """Numbers of the warps that have active lanes."""
        if self._warps is None or self._warps[0] is not self.mask:
            self._warps = self.mask, distinct(self.active // WARP)
        return self._warps[1]

    @property
    def blocks(self) -> Array:
        """Linear block number of every lane of the frame."""
        if self._blocks is None:
            self._blocks = self.lanes // self.machine.lanes_per_block
        return self._blocks

    def describe(self, lane: int) -> str:
        """``thread (x, y, z) of block (x, y, z)``."""
        machine = self.machine
        block, thread = divmod(int(lane), machine.lanes_per_block)
        return f"thread {_unravel(thread, machine.kernel.block)} of block {_unravel(block, machine.grid)}"

    def where(self) -> str:
        """Kernel and instruction, for messages."""
        text = self.instr.text if self.instr is not None else "?"
        return f"kernel {self.machine.kernel.name}, `{text}`"

    def over_lanes(self, values: Array) -> Array:
        """Give a register to all lanes of the frame."""
        return (
            values if len(values) == self.num_lanes else values.repeat(self.num_lanes)
        )  # 1/8 of `broadcast_to`'s time

    # -- what the prologue reads

    def special(self, register: str) -> Array:
        """Value of a special register; all lanes of a launch read it once, at its beginning."""
        machine = self.machine
        kernel = machine.kernel
        key = register, machine.grid, kernel.block, kernel.cluster
        value = _SPECIALS.get(key) if self.num_lanes == machine.num_threads else None
        if value is None:
            value = self._special(register)
            if self.num_lanes == machine.num_threads:
                if len(_SPECIALS) > _MAX_SPECIALS:
                    _SPECIALS.clear()
                _SPECIALS[key] = value
        return value

    def _special(self, register: str) -> Array:
        machine = self.machine
        if register == "laneid":
            return (self.lanes % machine.lanes_per_block % WARP).astype(np.uint32)
        name, _, axis = register.partition(".")
        position = "xyz".index(axis) if axis else -1
        block, grid = machine.kernel.block, machine.grid
        if name == "ntid":
            return np.asarray([block[position]], np.uint32)
        if name == "nctaid":
            return np.asarray([grid[position]], np.uint32)
        if name == "tid":
            return _coordinate(self.lanes % machine.lanes_per_block, block, position)
        if name == "ctaid":
            return _coordinate(self.blocks, grid, position)
        return self._cluster_special(name, position)

    def _cluster_special(self, name: str, position: int) -> Array:
        machine = self.machine
        cluster, grid = machine.kernel.cluster or (1, 1, 1), machine.grid
        axes = [_coordinate(self.blocks, grid, axis) for axis in range(3)]
        inside = [axes[axis] % np.uint32(cluster[axis]) for axis in range(3)]
        if name == "cluster_ctarank":
            rank = inside[0] + np.uint32(cluster[0]) * (inside[1] + np.uint32(cluster[1]) * inside[2])
            return rank.astype(np.uint32)
        if name == "cluster_nctarank":
            return np.asarray([cluster[0] * cluster[1] * cluster[2]], np.uint32)
        if name == "cluster_ctaid":
            return inside[position]
        if name == "cluster_nctaid":
            return np.asarray([cluster[position]], np.uint32)
        if name == "clusterid":
            return axes[position] // np.uint32(cluster[position])
        return np.asarray([grid[position] // cluster[position]], np.uint32)

    def parameter(self, index: int) -> Array:
        """Value of a parameter; a by-value block gives its address."""
        machine = self.machine
        param, offset = machine.kernel.params[index], machine.param_offsets[index]
        if param.type is None:
            return np.asarray([PARAMETER_SPACE + offset], np.uint64)
        dtype = np.dtype(np.uint64) if param.is_pointer else param.type.dtype
        return np.frombuffer(machine.param_bytes, dtype, 1, offset)

    def shared_address(self, array: SharedArray) -> Array:
        """Address of a shared array; the dynamic ones start at a common base."""
        return np.asarray([self.machine.dynamic_base if array.is_dynamic else array.offset], np.uint32)

    def table_address(self, table: Table) -> Array:
        """Address of a table of the kernel's module, which lies in memory during the launch."""
        machine = self.machine
        address = machine.tables.get(table.name)
        if address is None:
            address = machine.tables[table.name] = machine.memory.allocate(table.values.nbytes)
            machine.memory.write(address, table.values)
        return np.asarray([address], np.uint64)

    # -- warps

    @property
    def whole_warps(self) -> bool:
        """Whether the frame holds all 32 lanes of each of its warps."""
        if self._whole_warps is None:
            lanes = self.lanes
            self._whole_warps = self.num_lanes % WARP == 0 and all_of(
                lanes.reshape(-1, WARP) == (lanes[::WARP] // WARP * WARP)[:, None] + steps(WARP)
            )
        return self._whole_warps

    def _rows_and_columns(self) -> tuple[int, Array, Array]:
        """Number of warps, and the row and column of every lane."""
        if self._warp_places is None:
            warps = self.lanes // WARP
            rows = np.cumsum(warps[1:] != warps[:-1])
            self._warp_places = int(rows[-1]) + 1 if len(rows) else 1, np.concatenate(([0], rows)), self.lanes % WARP
        return self._warp_places

    def to_warps(self, values: Array) -> Array:
        """Values as (warps, 32); 0 where the frame has no lane."""
        values = self.over_lanes(values)
        if self.whole_warps:
            return values.reshape(-1, WARP)
        num_warps, rows, columns = self._rows_and_columns()
        grid = np.zeros((num_warps, WARP), values.dtype)
        grid[rows, columns] = values
        return grid

    def from_warps(self, grid: Array) -> Array:
        """The inverse of `to_warps`."""
        if self.whole_warps:
            return grid.reshape(-1)
        _, rows, columns = self._rows_and_columns()
        return grid[rows, columns]

    def spread(self, per_warp: Array) -> Array:
        """One value per warp, given to each of its lanes."""
        if self.whole_warps:
            return per_warp.repeat(WARP)
        return per_warp[self._rows_and_columns()[1]]

    def active_warps(self) -> Array:
        """Active lanes as (warps, 32)."""
        return self.to_warps(np.ones(1, np.bool_) if self.mask is None else self.mask)

    def check_members(self, members: Array) -> None:
        """Raise unless the lanes that `members` names are here and active."""
        if self.mask is None and self.whole_warps:
            return
        found = self._found
        if found is not None and found[0] is self.mask and found[1] is members:
            return
        active = self.active_warps()
        words = np.packbits(active, axis=1, bitorder="little").view(np.uint32)
        wanted = self.to_warps(members) & self.machine.existing_lanes(self._warp_numbers())
        missing = active & ((wanted & ~words) != 0)
        if any_of(missing):
            warp, column = np.unravel_index(int(missing.argmax()), missing.shape)
            absent = int(wanted[warp, column] & ~words[warp, 0])
            lane = int(self._warp_numbers()[warp]) * WARP
            raise DivergenceError(
                f"{self.where()}: {self.describe(lane + int(column))} names lanes {absent:#010x} of its warp, "
                "which are not at this instruction"
            )
        self._found = self.mask, members

    def _warp_numbers(self) -> Array:
        return distinct(self.lanes // WARP)

    def check_sources(self, source: Array) -> None:
        """Raise if an active lane reads from an inactive one (columns as (warps, 32), or (32,) for all warps)."""
        if self.mask is None and self.whole_warps:
            return
        active = self.active_warps()
        source = np.broadcast_to(source, active.shape)
        bad = active & ~active[steps(len(active))[:, None], source]
        if any_of(bad):
            warp, column = np.unravel_index(int(bad.argmax()), bad.shape)
            lane = int(self._warp_numbers()[warp]) * WARP + int(column)
            raise DivergenceError(
                f"{self.where()}: {self.describe(lane)} reads lane {int(source[warp, column])}, which is not active"
            )


def distinct(numbers: Array) -> Array:
    """The distinct ones of ascending numbers."""
    if numbers[0] == numbers[-1]:
        return numbers[:1]
    is_new = np.ones(len(numbers), np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=is_new[1:])
    return numbers[is_new]


def _unravel(number: int, extents: tuple[int, int, int]) -> tuple[int, int, int]:
    return number % extents[0], number // extents[0] % extents[1], number // (extents[0] * extents[1])


def _coordinate(numbers: Array, extents: tuple[int, int, int], axis: int) -> Array:
    if axis:
        numbers = numbers // (extents[0] if axis == 1 else extents[0] * extents[1])
    if axis < 2 and max(extents[axis + 1 :]) > 1:
        numbers = numbers % extents[axis]
    return numbers.astype(np.uint32)
