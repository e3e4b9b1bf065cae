"""Epilogues with a matrix of the shape of C, ``C = f(A @ B, D)``: tiles of D, which may be C itself, by TMA.

Data layout: in shared memory, a tile of D is boxes side by side, each of `tile_m` rows of 128 bytes, swizzled as
operands are (see `warps`): a quarter of a warp reads eight elements of 16 bytes from different banks.

Who owns what: the producer thread loads the tile of D once it has issued the last k-block of the tile of C, while the
consumers have those of the whole ring to multiply; it waits until the warps have read the tile before. A lane reads,
combines and stores the elements whose sums it has, so that C may lie where D does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.epilogue import BoundEpilogue, bind
from oxinp._kernels.gemm.operand import is_regular
from oxinp._kernels.plan import Argument
from oxinp._ptx.mbarrier import Consumer, Pipeline, Producer
from oxinp._ptx.memory import Pointer
from oxinp._ptx.tile import ATOM_NBYTES
from oxinp._ptx.tma import ALIGN, SWIZZLE_NBYTES, MapSpec, TensorMap
from oxinp._ptx.types import f64, i64

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from oxinp._kernels.gemm.epilogue import Epilogue, EpilogueSpec
    from oxinp._kernels.gemm.sm90_mma.fragments import Index
    from oxinp._kernels.gemm.sm90_mma.spec import MmaSpec
    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value

LINES_AT_ONCE = 4  # that are read before the first is used
CHUNK_MASK, CHUNK_SHIFT = SWIZZLE_NBYTES - ALIGN, 4  # of bytes in a row, and log2 of those of a chunk


class StagedEpilogue(NamedTuple):
    """An epilogue with D, and where D and C lie.

    Attributes
    ----------
    spec : EpilogueSpec
        Of an epilogue whose input is D.
    pitch, distance : int
        Elements from one row of D and of C to the next, and from one matrix to the next.
    """

    spec: EpilogueSpec
    pitch: int
    distance: int

    def arguments(self, spec: MmaSpec, shape: tuple[int, int], num_matrices: int) -> tuple[Argument, ...]:
        """Return the arguments of the kernel that `StagedTile` declares, behind A and B."""
        m, n = shape
        nbytes = spec.type.nbytes
        unit = ALIGN // nbytes
        extents, box = (m, -(-n // unit) * unit), (spec.tile_m, SWIZZLE_NBYTES // nbytes)
        if spec.is_batched:
            strides = (self.distance * nbytes, self.pitch * nbytes)
            own = MapSpec(spec.type, (num_matrices, *extents), strides, (1, *box))
        else:
            own = MapSpec(spec.type, extents, (self.pitch * nbytes,), box)
        return (Argument("in2", 0, own),)

    def constants(self, spec: MmaSpec) -> tuple[int, ...]:
        """Return the values of the parameters that follow."""
        return (self.pitch, self.distance) if spec.is_batched else (self.pitch,)


def staged(epilogue: Epilogue, batch: tuple[int, ...]) -> StagedEpilogue | None:
    """Return the epilogue of products of a batch, C lying as D does, its input; None if TMA cannot load that."""
    (d,) = epilogue.arrays
    nbytes = d.type.nbytes
    *moves, pitch, _ = d.strides
    distance = moves[-1] if moves else 0
    is_loadable = not (d.alignment % ALIGN or pitch * nbytes % ALIGN or distance * nbytes % ALIGN)
    if not is_loadable or not is_regular(tuple(moves), batch):
        return None
    bound, _ = bind(epilogue, [d.strides[-2:]], is_staged=True)
    return StagedEpilogue(bound, pitch, distance)


class StagedTile:
    """The tiles of D in a kernel, and the epilogue; its parameter is a tensor map.

    Attributes
    ----------
    pitch, distance : Value
        Elements from one row of C to the next, and from one matrix to the next.
    """

    def __init__(self, k: Builder, spec: MmaSpec) -> None:
        self.builder, self.spec = k, spec
        self.map = TensorMap(k, "d_map", 3 if spec.is_batched else 2)
        assert spec.epilogue is not None
        self._epilogue = BoundEpilogue(k, spec.epilogue)
        self.pitch = k.scalar("c_pitch", i64)
        self.distance = k.scalar("c_distance", i64) if spec.is_batched else k.const(0, i64)
        self._box_nbytes = spec.tile_m * SWIZZLE_NBYTES
        self._columns = SWIZZLE_NBYTES // spec.type.nbytes  # of a box
        self.num_boxes = spec.tile_n // self._columns
        self.memory = k.dynamic_shared(f64, self.num_boxes * self._box_nbytes // f64.nbytes, align=ATOM_NBYTES)

    def pipeline(self) -> Pipeline:
        """Make the barriers, in all threads of the block."""
        nbytes = self.num_boxes * self._box_nbytes
        return Pipeline(self.builder, 1, self.spec.num_warps, nbytes, is_shared=False)

    def loads(self, pipeline: Pipeline) -> Callable[[Value | None, Value, Value], None]:
        """Return what issues the loads of the tile of a slice at a row and a column; for the producer thread."""
        self.map.prefetch()
        producer, start = Producer(pipeline), self.memory.address()

        def load(number: Value | None, row: Value, column: Value) -> None:
            slot = producer.acquire()
            outer = () if number is None else (number,)
            for box in range(self.num_boxes):
                first = (column + box * self._columns) * len(self.spec.type.parts)
                self.map.load(start + box * self._box_nbytes, (*outer, row, first), slot)

        return load

    def consumer(self, pipeline: Pipeline) -> Consumer:
        """Return the consumer side of the pipeline, of a warp."""
        return Consumer(pipeline, self.builder.lane)

    def read(self, row: Index, column: Index, place: tuple[Value, Value], width: int) -> Sequence[Value]:
        """Return `width` neighbours in a row of a part of the tile that begins at `place`, at the start of a box."""
        k, nbytes = self.builder, self.spec.type.nbytes
        distance = column.distance * nbytes
        # The bits of first and distance are apart, so that swizzling takes them apart, too.
        flip = (distance & CHUNK_MASK) ^ (row.distance << CHUNK_SHIFT & CHUNK_MASK)
        key = (id(row.first), id(column.first), flip)
        if key not in self._pointers:
            byte = column.first * nbytes
            chunk = (byte & CHUNK_MASK) ^ (row.first << CHUNK_SHIFT & CHUNK_MASK)
            box = place[1] / self._columns * self._box_nbytes
            first = self.memory.address() + (place[0] + row.first) * SWIZZLE_NBYTES + box
            start = first + ((chunk ^ flip if flip else chunk) | (byte & (ALIGN - 1)))
            self._pointers[key] = Pointer(k, start, self.spec.type, "shared", "r")
        beside = distance // SWIZZLE_NBYTES * self._box_nbytes + distance % ALIGN
        return self._pointers[key].offset_bytes(row.distance * SWIZZLE_NBYTES + beside).load(0, width)

    def applied(
        self, lines: Sequence[tuple[Index, Sequence[tuple[Index, Value]]]], place: tuple[Value, Value], width: int
    ) -> list[tuple[Index, list[tuple[Index, Value]]]]:
        """Return lines of cells (column, sum) with the epilogue's results instead of sums.

        `width` cells are neighbours; `place` is the row and the column of the tile that indices count from.
        """
        type_ = self.spec.type
        self._pointers: dict[tuple[int, int, int], Pointer] = {}
        results = []
        for first in range(0, len(lines), LINES_AT_ONCE):
            some = lines[first : first + LINES_AT_ONCE]
            read = [
                [self.read(line, cells[i][0], place, width) for i in range(0, len(cells), width)]
                for line, cells in some
            ]
            for (line, cells), own in zip(some, read, strict=True):
                values: list[Value] = []
                for i, neighbours in enumerate(own):
                    sums = [value for _, value in cells[i * width : (i + 1) * width]]
                    values += self._epilogue.apply(sums, [neighbours], type_)
                results.append((line, [(column, value) for (column, _), value in zip(cells, values, strict=True)]))
        return results


__all__ = ["StagedEpilogue", "StagedTile", "staged"]
