"""The lanes that run together: their registers, their mask, and what instructions with effects ask of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from oxinp._ptx.atomics import read_modify_write
from oxinp._ptx.faults import AccessError, DivergenceError, RaceError
from oxinp._ptx.machine import WARP, Machine
from oxinp._ptx.space import Fault, Memory, Space, is_contiguous, steps
from oxinp._ptx.truths import all_of, any_of

if TYPE_CHECKING:
    from oxinp._ptx.kernel import Instr, SharedArray, Table
    from oxinp._ptx.memory import Access

Array = npt.NDArray[Any]

PARAMETER_SPACE = 0x6000_0000_0000  # generic addresses of by-value parameters


class LoopState:
    """Lanes that left a running loop, and lanes that wait for its next iteration; None stands for no lane."""

    __slots__ = ("left", "skipped")

    def __init__(self) -> None:
        self.left: Array | None = None
        self.skipped: Array | None = None


class Frame:
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
        self._active: tuple[Array, Array] | None = None  # of which mask
        self._shared_start: Array | None = None
        self._blocks: Array | None = None

    # -- identity

    @property
    def is_everyone(self) -> bool:
        """Whether these are all threads of the launch."""
        return self.mask is None and self.num_lanes == self.machine.num_threads

    @property
    def active(self) -> Array:
        """Global numbers of the active lanes."""
        mask = self.mask
        if mask is None:
            return self.lanes
        if self._active is None or self._active[0] is not mask:
            self._active = mask, self.lanes[mask]
        return self._active[1]

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

    # -- what the prologue reads

    def special(self, register: str) -> Array:
        """Value of a special register."""
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

    # -- memory

    def over_lanes(self, values: Array) -> Array:
        """Broadcast a register to all lanes of the frame."""
        return values if len(values) == self.num_lanes else np.broadcast_to(values, self.shape)

    def locate(self, space: str, address: Array, offset: int = 0) -> Array:
        """Positions in the space's bytes: (lanes,), or (1,) for one address common to all."""
        if space == "global":
            return address.view(np.int64) + (offset - Memory.BASE)
        machine = self.machine
        positions = np.add(address, offset, dtype=np.int64)
        outside = positions.view(np.uint64) >= machine.shared_stride
        if self.mask is not None:
            outside = outside & self.mask
        if any_of(outside):
            position = int(self.over_lanes(outside).argmax())
            self.fail_access(position, int(self.over_lanes(positions)[position]), "out of shared memory")
        return positions if machine.num_blocks == 1 else positions + self.shared_start

    @property
    def shared_start(self) -> Array:
        """Where the shared memory of each lane's block begins."""
        if self._shared_start is None:
            self._shared_start = self.machine.shared_start[self.blocks]
        return self._shared_start

    def space(self, name: str) -> Space:
        """Memory space by PTX name."""
        return self.machine.memory if name == "global" else self.machine.shared

    def _address(self, space: str, offset: int) -> int:
        return offset + Memory.BASE if space == "global" else offset % self.machine.shared_stride

    def fail_access(self, position: int, address: int, what: str) -> NoReturn:
        """Raise for a bad access by lane number `position` of the frame."""
        lane = self.describe(self.lanes[position])
        raise AccessError(f"{self.where()}: {lane}, address {address:#x}: {what}")

    def prepare(
        self, space_name: str, positions: Array, nbytes: int, *, is_write: bool, is_weak: bool
    ) -> tuple[Space, Array, Array, bool]:
        """Check one element of `nbytes` bytes per active lane and note it for race detection.

        Returns
        -------
        space : Space
        positions : int64 array
            Of the active lanes; of length 1 if all of them read one element.
        lanes : int64 array
            The active lanes.
        contiguous : bool
        """
        lanes = self.active
        if self.mask is not None and len(positions) != 1:
            positions = positions[self.mask]
        uniform = len(positions) == 1 and len(lanes) != 1
        space = self.space(space_name)
        contiguous = not uniform and is_contiguous(positions, nbytes)
        try:
            bounds = space.check(positions, nbytes, contiguous=contiguous or uniform, is_read=not is_write)
        except Fault as fault:
            position = int(np.searchsorted(self.lanes, lanes[fault.position]))
            self.fail_access(position, self._address(space_name, fault.offset), fault.what)
        if is_weak:
            if space is not self.machine.memory:
                bounds = self._inside_block(positions, nbytes, bounds)
            conflict = space.tracker.note(
                self.machine.epochs, positions, nbytes, lanes, bounds, is_write=is_write, is_contiguous=contiguous
            )
            if conflict is not None:
                address = self._address(space_name, conflict.offset)
                other = "several threads" if conflict.other is None else self.describe(conflict.other)
                raise RaceError(
                    f"{self.where()}: {conflict.kind} at address {address:#x} by {self.describe(conflict.lane)}; "
                    f"before, without synchronisation in between, by {other}"
                )
        return space, positions, lanes, contiguous

    def _inside_block(self, positions: Array, nbytes: int, bounds: tuple[int, int]) -> tuple[int, int]:
        """Bounds of positions in shared memory relative to their block: blocks do not see each other's."""
        machine = self.machine
        if machine.num_blocks == 1:
            return bounds
        low, high = bounds
        if high - low > machine.shared_stride:
            inside = positions % machine.shared_stride
            return int(np.minimum.reduce(inside)), int(np.maximum.reduce(inside)) + nbytes
        start = low // machine.shared_stride * machine.shared_stride
        return low - start, high - start

    def load(self, access: Access, address: Array, offset: Array) -> Array:
        """Elements as (width, lanes) or (width, 1)."""
        positions = self.locate(access.space, address, int(offset[0]))
        space, positions, lanes, contiguous = self.prepare(
            access.space, positions, access.nbytes, is_write=False, is_weak=not access.order
        )
        values = space.load(positions, access.type.dtype, access.width, contiguous=contiguous)
        if access.order.startswith("acquire"):
            self.machine.epochs.synchronize_grid()
        if self.mask is None or (len(positions) == 1 and len(lanes) != 1):
            return values
        spread = np.zeros((access.width, self.num_lanes), values.dtype)
        spread[:, self.mask] = values
        return spread

    def store(self, access: Access, address: Array, offset: Array, values: Sequence[Array]) -> None:
        """Store one element per active lane."""
        positions = self.over_lanes(self.locate(access.space, address, int(offset[0])))
        space, positions, _, contiguous = self.prepare(
            access.space, positions, access.nbytes, is_write=True, is_weak=not access.order
        )
        rows = np.empty((len(values), self.num_lanes), access.type.dtype)
        for i, value in enumerate(values):
            rows[i] = value
        if self.mask is not None:
            rows = rows[:, self.mask]
        space.store(positions, rows, contiguous=contiguous)
        self.machine.num_writes += 1

    def atomic(self, access: Access, address: Array, offset: Array, values: Sequence[Array]) -> Array:
        """Read-modify-write, lane after lane; what was there before."""
        positions = self.over_lanes(self.locate(access.space, address, int(offset[0])))
        dtype = access.type.dtype
        space, positions, _, _ = self.prepare(access.space, positions, dtype.itemsize, is_write=False, is_weak=False)
        operands = [self.over_lanes(value) for value in values]
        if self.mask is not None:
            operands = [operand[self.mask] for operand in operands]
        words = space.data.view(dtype)
        old = read_modify_write(access.atomic, words, positions // dtype.itemsize, operands)
        self.machine.num_writes += 1
        if access.order.startswith(("acquire", "acq_rel")):
            self.machine.epochs.synchronize_grid()
        if self.mask is None:
            return old
        spread = np.zeros(self.shape, dtype)
        spread[self.mask] = old
        return spread

    def fence(self) -> None:
        """Order what this frame did against everything later."""
        self.machine.epochs.synchronize_grid()

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

    def _places(self) -> tuple[int, Array, Array]:
        """Number of warps, and the row and column of every lane."""
        if self._warp_places is None:
            warps, rows = np.unique(self.lanes // WARP, return_inverse=True)
            self._warp_places = len(warps), rows, self.lanes % WARP
        return self._warp_places

    def to_warps(self, values: Array) -> Array:
        """Values as (warps, 32); 0 where the frame has no lane."""
        values = self.over_lanes(values)
        if self.whole_warps:
            return values.reshape(-1, WARP)
        num_warps, rows, columns = self._places()
        grid = np.zeros((num_warps, WARP), values.dtype)
        grid[rows, columns] = values
        return grid

    def from_warps(self, grid: Array) -> Array:
        """The inverse of `to_warps`."""
        if self.whole_warps:
            return grid.reshape(-1)
        _, rows, columns = self._places()
        return grid[rows, columns]

    def spread(self, per_warp: Array) -> Array:
        """One value per warp, given to each of its lanes."""
        if self.whole_warps:
            return np.repeat(per_warp, WARP)
        return per_warp[self._places()[1]]

    def active_warps(self) -> Array:
        """Active lanes as (warps, 32)."""
        return self.to_warps(np.ones(1, np.bool_) if self.mask is None else self.mask)

    def check_members(self, members: Array) -> None:
        """Raise unless the lanes that `members` names are here and active."""
        if self.mask is None and self.whole_warps:
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

    def _warp_numbers(self) -> Array:
        return np.unique(self.lanes // WARP)

    def check_sources(self, source: Array) -> None:
        """Raise if an active lane reads from an inactive one (columns as (warps, 32), or (32,) for all warps)."""
        if self.mask is None and self.whole_warps:
            return
        active = self.active_warps()
        source = np.broadcast_to(source, active.shape)
        bad = active & ~np.take_along_axis(active, source, axis=1)
        if any_of(bad):
            warp, column = np.unravel_index(int(bad.argmax()), bad.shape)
            lane = int(self._warp_numbers()[warp]) * WARP + int(column)
            raise DivergenceError(
                f"{self.where()}: {self.describe(lane)} reads lane {int(source[warp, column])}, which is not active"
            )

    def synchronize_warps(self) -> None:
        """Order the memory accesses of the active lanes' warps."""
        self.machine.epochs.synchronize_warps(np.unique(self.active // WARP))

    def synchronize_blocks(self) -> None:
        """Order the memory accesses within the blocks of the active lanes."""
        self.machine.epochs.synchronize_blocks(np.unique(self.active // self.machine.lanes_per_block))

    # -- barriers

    def arrive_barrier(self, number: Array, count: Array | None) -> Array | None:
        """Count the active lanes in at their block's barrier; a token for `barrier_passed`, None if it opened."""
        machine = self.machine
        machine.num_writes += 1
        if count is None and len(number) == 1 and self.is_everyone:
            machine.epochs.synchronize_blocks(slice(None))
            return None
        numbers = self.over_lanes(number)
        tokens = np.zeros(self.shape, np.int64)
        blocks = self.blocks
        for value in np.unique(numbers):
            here = numbers == value
            arrived, generation = machine.barrier(int(value))
            tokens[here] = generation[blocks[here]]
            arrived += np.bincount(blocks[here], minlength=len(arrived))
            expected = machine.block_threads if count is None else int(self.over_lanes(count)[here][0])
            if any_of(arrived > expected):
                raise DivergenceError(f"{self.where()}: more threads arrive than the {expected} this barrier expects")
            opened = np.flatnonzero(arrived == expected)
            arrived[opened] = 0
            generation[opened] += 1
            if len(opened):
                machine.epochs.synchronize_blocks(opened)
        return tokens

    def barrier_passed(self, token: Array | None, number: Array) -> Array:
        """Which lanes' barrier has opened since they arrived."""
        if token is None:
            return np.ones(self.shape, np.bool_)
        numbers = self.over_lanes(number)
        passed = np.zeros(self.shape, np.bool_)
        blocks = self.blocks
        for value in np.unique(numbers):
            here = numbers == value
            passed[here] = self.machine.barrier(int(value))[1][blocks[here]] != token[here]
        return passed


def _unravel(number: int, extents: tuple[int, int, int]) -> tuple[int, int, int]:
    return number % extents[0], number // extents[0] % extents[1], number // (extents[0] * extents[1])


def _coordinate(numbers: Array, extents: tuple[int, int, int], axis: int) -> Array:
    if axis:
        numbers = numbers // (extents[0] if axis == 1 else extents[0] * extents[1])
    if axis < 2 and max(extents[axis + 1 :]) > 1:
        numbers = numbers % extents[axis]
    return numbers.astype(np.uint32)
