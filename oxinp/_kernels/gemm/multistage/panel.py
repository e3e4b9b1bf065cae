"""Operand panels of the multistage kernels: the ring of tiles in shared memory, and the copies that fill it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from oxinp._kernels.gemm.multistage.spec import SECTOR_NBYTES
from oxinp._ptx.memory import Pointer
from oxinp._ptx.types import Type, i64, pred, u64

if TYPE_CHECKING:
    from oxinp._kernels.gemm.multistage.spec import MultistageSpec
    from oxinp._ptx import Builder
    from oxinp._ptx.async_copy import AsyncCopies
    from oxinp._ptx.value import Value


class Panel:
    """The ring of tiles of one operand: `extent` rows or columns by a k-block."""

    def __init__(
        self,
        k: Builder,
        spec: MultistageSpec,
        name: str,
        major: str,
        copy_nbytes: int,
        extent: int,
        is_conjugated: bool,
        source: Pointer | None = None,
    ) -> None:
        self.builder, self.spec, self.extent, self.is_conjugated = k, spec, extent, is_conjugated
        # Layout of the operand in global memory, and of its tiles in shared memory.
        self.is_source_k_major = major == "k"
        self.is_smem_transposed = spec.transposes(major, is_conjugated)
        self.is_k_major = self.is_source_k_major and not self.is_smem_transposed
        self.copy_nbytes = min(copy_nbytes, spec.type.nbytes) if self.is_smem_transposed else copy_nbytes
        self.source = k.pointer(name, spec.type, "r") if source is None else source
        self.pitch, self.size = spec.pitch_of(major, extent, is_conjugated)
        self.memory = k.dynamic_shared(spec.type, (spec.num_stages, self.size), align=128)
        self.chunk = max(1, self.copy_nbytes // spec.type.nbytes)  # elements

    def declare(self, name: str, size: Value, depth: Value) -> None:
        """Declare the stride, after every pointer; `size` is the extent of the matrix along M or N."""
        self.measure(self.builder.scalar(f"{name}_stride", i64), size, depth)

    def measure(self, stride: Value, size: Value, depth: Value) -> None:
        """Set the stride and the extents of the matrix."""
        self.stride = stride
        self.limit(size, depth)

    def limit(self, size: Value, depth: Value) -> None:
        """Set the extents beyond which elements are zeros."""
        self.limits = (size, depth) if self.is_source_k_major else (depth, size)

    def place(self, extent: Value, depth: Value) -> Pointer:
        """Return a pointer to an element of the tile in the first buffer of the ring."""
        index = extent * self.pitch + depth if self.is_k_major else depth * self.pitch + extent
        return self.memory.at(index)

    def offset(self, extent: int, depth: int) -> int:
        """Return the distance, in elements, between places of a tile at known distances."""
        return extent * self.pitch + depth if self.is_k_major else depth * self.pitch + extent

    def start_at(self, base: Pointer, extent_start: Value, depth_start: Value, copies: AsyncCopies) -> None:
        """Locate this thread's share of the first k-block."""
        k, spec = self.builder, self.spec
        self.copies = copies
        run = spec.depth if self.is_source_k_major else self.extent
        per_row = SECTOR_NBYTES // spec.type.nbytes if self.is_smem_transposed else run // self.chunk
        # Along a row of the operand: distances from the first copy of a thread to its others.
        self.shifts = range(0, run, per_row) if self.is_smem_transposed else range(1)
        self.rows_at_once = max(1, spec.num_threads // per_row)
        self.num_rows = self.extent if self.is_source_k_major else spec.depth
        own_row, own_column = k.tid / per_row, k.tid % per_row * self.chunk
        self.own_row = own_row
        self.target = self.memory.at(self.index(own_row, own_column))
        starts = (extent_start, depth_start) if self.is_source_k_major else (depth_start, extent_start)
        # This thread's first row, its column and their address in the next k-block.
        self.row, self.column = k.var(starts[0] + own_row), k.var(starts[1] + own_column)
        source = base.at(k.cast(self.row, i64) * self.stride).at(k.cast(self.column, i64))
        self.address = k.var(source.address())
        nbytes = spec.type.nbytes
        self.row_step = self.stride * (self.rows_at_once * nbytes)
        self.tile_step = (
            k.const(spec.depth * nbytes, u64)
            if self.is_source_k_major
            else k.bitcast(self.stride * (spec.depth * nbytes), u64)
        )

    def index(self, row: Any, column: Any) -> Any:
        """Return where in a tile an element of the operand goes."""
        return column * self.pitch + row if self.is_smem_transposed else row * self.pitch + column

    def copy(self, stage: Value) -> None:
        """Start this thread's share of the copies of the next k-block."""
        k, spec = self.builder, self.spec
        row_limit, limit = self.limits
        columns = [self.column + shift if shift else self.column.get() for shift in self.shifts]
        present = [k.min(limit - k.min(column, limit), self.chunk) * spec.type.nbytes for column in columns]
        target = self.target.at(stage * self.size)
        address = self.address.get()
        for i in range(0, self.num_rows, self.rows_at_once):
            row = self.row + i if i else self.row.get()
            for shift, inside in zip(self.shifts, present, strict=True):
                source = Pointer(k, address, spec.type, "global", "r").at(shift)
                self._copy_chunk(target.at(self.index(i, shift)), source, k.where(row < row_limit, inside, 0), i)
            if i + self.rows_at_once < self.num_rows:
                address = address + k.bitcast(self.row_step, u64)
        along = self.column if self.is_source_k_major else self.row
        along.set(along + spec.depth)
        self.address.set(self.address + self.tile_step)

    def _copy_chunk(self, target: Pointer, source: Pointer, nbytes: Value, first: int) -> None:
        k, type = self.builder, self.spec.type
        is_whole = first + self.rows_at_once <= self.num_rows
        with nullcontext() if is_whole else k.when(self.own_row + first < self.num_rows):
            if self.copy_nbytes:
                self.copies.start(target, source, self.copy_nbytes, nbytes)
                return
            value = k.var(k.const(_zero(type), type))
            with k.when(nbytes > 0):
                value.set(source[0])
            target[0] = value.get()

    def complete(self, stage: Value) -> None:
        """Conjugate what this thread has copied of a k-block, if the operand is the conjugate."""
        if not self.is_conjugated or not self.spec.type.is_complex:
            return
        k = self.builder
        target = self.target.at(stage * self.size)
        for i in range(0, self.num_rows, self.rows_at_once):
            is_whole = i + self.rows_at_once <= self.num_rows
            with nullcontext() if is_whole else k.when(self.own_row + i < self.num_rows):
                for shift in range(self.chunk):
                    place = i * self.pitch + shift
                    real, imag = target[place].parts
                    target[place] = k.compound(self.spec.type, real, -imag)


def _zero(type: Type) -> bool | int:
    return False if type is pred else 0
