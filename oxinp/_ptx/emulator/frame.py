"""What lanes in lockstep do together: their accesses to memory, and their barriers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from oxinp._ptx.emulator.atomics import read_modify_write
from oxinp._ptx.emulator.faults import AccessError, DivergenceError, RaceError
from oxinp._ptx.emulator.lanes import Lanes, distinct
from oxinp._ptx.emulator.numbers import greatest, least, number
from oxinp._ptx.emulator.space import Fault, Memory, Space, element_numbers, is_contiguous
from oxinp._ptx.memory import CLUSTER, RANK_BIT
from oxinp._ptx.truths import any_of

if TYPE_CHECKING:
    from oxinp._ptx.memory import Access

Array = npt.NDArray[Any]

_INT64 = np.dtype(np.int64)


class Frame(Lanes):
    """Lanes in lockstep, as instructions with effects see them."""

    # -- memory

    def locate(self, space: str, address: Array, offset: int = 0) -> Array:
        """Positions in the space's bytes: (lanes,), or (1,) for one address common to all."""
        if space == "global":
            return address.view(_INT64) + number(offset - Memory.BASE)
        machine = self.machine
        if space == CLUSTER:
            ranks = (address >> np.uint32(RANK_BIT)).astype(np.int64) - 1
            start = machine.shared_start[self.blocks // self.cluster_size * self.cluster_size + ranks]
            return (address & np.uint32((1 << RANK_BIT) - 1)).astype(np.int64) + offset + start
        positions = address.astype(_INT64)
        if offset:
            positions += number(offset)
        # of one block there is nobody else's; what lies outside is not allocated
        return positions if machine.num_blocks == 1 else positions + self.shared_start

    def _locate(self, access: Access, address: Array, offset: Array) -> tuple[Array, tuple[int, int] | None]:
        """Positions of the active lanes, or (1,); in shared memory of several blocks also their bounds in a block."""
        mask = self.mask
        if access.space != "shared" or self.machine.num_blocks == 1:
            positions = self.locate(access.space, address, offset.item())
            return positions if mask is None or len(positions) == 1 else positions[self.places], None
        inside = address.astype(_INT64)
        start = offset.item()
        if start:
            inside += number(start)
        if len(inside) == 1:
            low = high = inside.item()
        else:
            if mask is not None:
                inside = inside[self.places]
            low, high = least(inside), greatest(inside)
        if low < 0 or high >= self.machine.shared_stride:
            position = int(((inside < 0) | (inside >= self.machine.shared_stride)).argmax())
            self._fail_access(position, int(inside[position]), "out of shared memory")
        return inside + self.active_shared_start, (low, high + access.nbytes)

    @property
    def cluster_size(self) -> int:
        """Blocks of a cluster, which lie side by side along x."""
        cluster = self.machine.kernel.cluster or (1, 1, 1)
        assert cluster[1:] == (1, 1)
        return cluster[0]

    @property
    def shared_start(self) -> Array:
        """Where the shared memory of each lane's block begins."""
        if self._shared_start is None:
            self._shared_start = self.machine.shared_start[self.blocks]
        return self._shared_start

    @property
    def active_shared_start(self) -> Array:
        """Where the shared memory of each active lane's block begins."""
        mask = self.mask
        if mask is None:
            return self.shared_start
        if self._active_shared_start is None or self._active_shared_start[0] is not mask:
            self._active_shared_start = mask, self.shared_start[self.places]
        return self._active_shared_start[1]

    def _address(self, space: str, offset: int) -> int:
        return offset + Memory.BASE if space == "global" else offset % self.machine.shared_stride

    def _fail_access(self, position: int, address: int, what: str) -> NoReturn:
        """Raise for a bad access by one of the active lanes, counted among them."""
        lane = self.describe(self.active[position])
        raise AccessError(f"{self.where()}: {lane}, address {address:#x}: {what}")

    def _prepare(
        self, access: Access, positions: Array, bounds: tuple[int, int] | None, *, is_write: bool, is_weak: bool
    ) -> tuple[Space, Array | None]:
        """Check one element per active lane and note it for race detection.

        Returns
        -------
        space : Space
        numbers : int64 array or None
            Of the elements; None if they follow each other, or if there is one.
        """
        space_name, nbytes = access.space, access.nbytes
        lanes, machine = self.active, self.machine
        uniform = len(positions) == 1 and len(lanes) != 1
        space = machine.memory if space_name == "global" else machine.shared
        numbers = None if uniform or is_contiguous(positions, nbytes) else element_numbers(positions, nbytes)
        try:
            extent = space.check(positions, nbytes, numbers, is_read=not is_write, is_sparse=bounds is not None)
        except Fault as fault:
            self._fail_access(fault.position, self._address(space_name, fault.offset), fault.what)
        if is_weak and space_name != CLUSTER:  # what blocks of a cluster read of each other is not followed
            is_range = numbers is None and not uniform
            conflict = space.tracker.note(
                machine.epochs, positions, nbytes, lanes, bounds or extent, is_write=is_write, is_contiguous=is_range
            )
            if conflict is not None:
                address = self._address(space_name, conflict.offset)
                other = "several threads" if conflict.other is None else self.describe(conflict.other)
                raise RaceError(
                    f"{self.where()}: {conflict.kind} at address {address:#x} by {self.describe(conflict.lane)}; "
                    f"before, without synchronisation in between, by {other}"
                )
        return space, numbers

    def load(self, access: Access, address: Array, offset: Array) -> Array:
        """Elements as (width, lanes) or (width, 1)."""
        positions, bounds = self._locate(access, address, offset)
        space, numbers = self._prepare(access, positions, bounds, is_write=False, is_weak=not access.order)
        values = space.load(positions, access.type.dtype, access.width, numbers)
        if access.order.startswith("acquire"):
            self.machine.epochs.synchronize_grid()
        if self.mask is None or (len(positions) == 1 and len(self.active) != 1):
            return values
        spread, places = np.zeros((access.width, self.num_lanes), values.dtype), self.places
        for row, some in zip(spread, values, strict=True):
            row[places] = some
        return spread

    def store(self, access: Access, address: Array, offset: Array, values: Sequence[Array]) -> None:
        """Store one element per active lane."""
        positions, bounds = self._locate(access, address, offset)
        if len(positions) == 1:
            positions = positions.repeat(len(self.active))
        space, numbers = self._prepare(access, positions, bounds, is_write=True, is_weak=not access.order)
        if len(values) == 1:
            rows = self._of_active(values[0]).astype(access.type.dtype, copy=False)[None]
        else:
            rows = np.empty((len(values), len(positions)), access.type.dtype)
            for row, value in zip(rows, values, strict=True):
                row[:] = self._of_active(value)
        space.store(positions, rows, numbers)
        self.machine.num_writes += 1

    def atomic(self, access: Access, address: Array, offset: Array, values: Sequence[Array]) -> Array:
        """Read-modify-write, lane after lane; what was there before."""
        positions, bounds = self._locate(access, address, offset)
        if len(positions) == 1:
            positions = positions.repeat(len(self.active))
        dtype = access.type.dtype
        space, _ = self._prepare(access, positions, bounds, is_write=False, is_weak=False)
        operands = [self._of_active(value) for value in values]
        words = space.data.view(dtype)
        old = read_modify_write(access.atomic, words, positions // dtype.itemsize, operands)
        self.machine.num_writes += 1
        if access.order.startswith(("acquire", "acq_rel")):
            self.machine.epochs.synchronize_grid()
        if self.mask is None:
            return old
        spread = np.zeros(self.shape, dtype)
        spread[self.places] = old
        return spread

    def _of_active(self, values: Array) -> Array:
        """Give a register to the active lanes."""
        if len(values) != self.num_lanes:
            return values.repeat(len(self.active))
        return values if self.mask is None else values[self.places]

    def fence(self) -> None:
        """Order what this frame did against everything later."""
        self.machine.epochs.synchronize_grid()

    # -- synchronisation

    def synchronize_warps(self) -> None:
        """Order the memory accesses of the active lanes' warps."""
        self.machine.epochs.synchronize_warps(self.active_warp_numbers)

    def synchronize_blocks(self) -> None:
        """Order the memory accesses within the blocks of the active lanes."""
        self.machine.epochs.synchronize_blocks(distinct(self.active // self.machine.lanes_per_block))

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
        for value in number if len(number) == 1 else np.unique(number):
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
        for value in number if len(number) == 1 else np.unique(number):
            here = numbers == value
            passed[here] = self.machine.barrier(int(value))[1][blocks[here]] != token[here]
        return passed
