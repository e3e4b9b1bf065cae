"""One launch on the emulator: its extents, its shared memory, its barriers and when they opened."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from oxinp._ptx.emulator.races import Epochs
from oxinp._ptx.emulator.space import Memory, Space, steps
from oxinp._ptx.kernel import Kernel, param_layout

Array = npt.NDArray[Any]

WARP = 32
_DYNAMIC_ALIGN = 1024
_NO_SHARED = Space(0, is_shared=True)


class Machine:
    """One launch.

    Attributes
    ----------
    lanes_per_block : int
        Threads per block rounded up to warps; lane numbers count blocks in these.
    num_blocks, block_threads, num_threads : int
        Blocks, and threads of a block and of the launch.
    shared : Space
        Shared memory of all blocks, `shared_stride` bytes each.
    num_registers : int
        Constants follow them in the register file.
    carried : tuple of int
        The registers that lanes which part take along, see `Program`.
    state : dict
        For the modules of asynchronous instructions: what they keep during a launch.
    """

    def __init__(
        self,
        kernel: Kernel,
        memory: Memory,
        grid: tuple[int, int, int],
        param_bytes: bytes,
        carried: tuple[int, ...],
    ) -> None:
        self.kernel, self.memory, self.grid, self.param_bytes = kernel, memory, grid, param_bytes
        num_blocks = grid[0] * grid[1] * grid[2]
        self.block_threads = kernel.num_threads
        self.lanes_per_block = -(-self.block_threads // WARP) * WARP
        self.num_threads = num_blocks * self.block_threads
        self.param_offsets = param_layout(kernel.params)[1]
        self.epochs = Epochs(memory.clock + 1, num_blocks, self.lanes_per_block)
        self.num_registers = kernel.num_registers
        self.carried = carried
        self.num_writes = 0
        self.num_fibers = 1
        self.state: dict[Any, Any] = {}
        self.tables: dict[str, int] = {}  # addresses by name
        self._barriers: dict[int, tuple[Array, Array]] = {}
        self.num_blocks = num_blocks
        self._lay_out_shared()

    def _lay_out_shared(self) -> None:
        kernel = self.kernel
        self.dynamic_base = -(-kernel.static_shared_nbytes // _DYNAMIC_ALIGN) * _DYNAMIC_ALIGN
        end = self.dynamic_base + kernel.shared_nbytes if kernel.shared_nbytes else kernel.static_shared_nbytes
        # a gap behind each block's part
        self.shared_stride = -(-(end + 16) // _DYNAMIC_ALIGN) * _DYNAMIC_ALIGN if end else 0
        self.shared = Space(self.shared_stride * self.num_blocks, is_shared=True) if end else _NO_SHARED
        self.shared_start = np.arange(self.num_blocks, dtype=np.int64) * self.shared_stride
        if end:
            state = self.shared.state.reshape(self.num_blocks, self.shared_stride)
            for array in kernel.shared:
                start = array.offset + (self.dynamic_base if array.is_dynamic else 0)
                state[:, start : start + array.nbytes] = 1

    def barrier(self, number: int) -> tuple[Array, Array]:
        """Arrivals and generation of barrier `number`, per block."""
        pair = self._barriers.get(number)
        if pair is None:
            pair = np.zeros(self.num_blocks, np.int64), np.zeros(self.num_blocks, np.int64)
            self._barriers[number] = pair
        return pair

    def existing_lanes(self, warps: Array) -> Array:
        """Words of the lanes that are threads, (warps, 1)."""
        first = warps % (self.lanes_per_block // WARP) * WARP
        count = np.minimum(self.block_threads - first, WARP).astype(np.uint64)
        words: Array = ((np.uint64(1) << count) - np.uint64(1)).astype(np.uint32)
        return words[:, None]

    def all_lanes(self) -> Array:
        """Lane numbers of every thread."""
        lanes = steps(self.num_blocks * self.lanes_per_block)
        if self.lanes_per_block == self.block_threads:
            return lanes
        return lanes[lanes % self.lanes_per_block < self.block_threads]
