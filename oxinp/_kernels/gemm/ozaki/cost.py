"""How products of residues are cut to the memory there is: blocks of C, chunks of K, and the time that is expected."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.ozaki.kernel import MAX_DEPTH, OzakiSpec
from oxinp._kernels.gemm.ozaki.moduli import COUNTS, MODULI
from oxinp._kernels.gemm.ozaki.residues import GROUP, SPAN, padded
from oxinp._kernels.gemm.sm90_wgmma.scheduler import TILE_M
from oxinp._kernels.plan import ALIGNMENT

if TYPE_CHECKING:
    from oxinp._ptx.types import Type

# As measured on the H200: multiply-adds per second, native and of bytes; what a number of A or B takes on its way to
# bytes, and one of C on its way to residues and back, per part; launches.
NATIVE_RATE, BYTES_RATE = 28e12, 0.8e15
SECONDS_PER_NUMBER, SECONDS_PER_RESULT, SECONDS_TO_LAUNCH = 13e-12, 18e-12, 40e-6
SECONDS_PER_SUM, SECONDS_PER_PART = 10e-12, 20e-6  # for a number of C to be added to; for the launches of a part
NUM_SMS, TILE = 132, (TILE_M, OzakiSpec().tile_n)
STEP = 256  # of rows and columns of C that blocks are multiples of


def expected_gain(type: Type, m: int, n: int, depth: int, workspace_nbytes: int) -> float:
    """How many times faster than native products those of residues are expected to be, with as few moduli as may be."""
    config = fitting(type, m, n, depth, workspace_nbytes)
    return (
        0 if config is None else m * n * depth * len(type.parts) ** 2 / NATIVE_RATE / config.seconds(type, m, n, depth)
    )


def num_parts(type: Type) -> int:
    """Planes per modulus."""
    return 3 if type.is_complex else 1


class BlockSizes(NamedTuple):
    """The blocks of C, and the chunks of K in bytes, that are multiplied at a time."""

    rows: int
    columns: int
    chunk: int

    @property
    def lines(self) -> int:
        """Columns, and what fills them up."""
        return -(-self.columns // GROUP) * GROUP

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Bytes of planes of A, B and C."""
        return self.rows * self.chunk, self.lines * self.chunk, self.rows * self.lines

    def seconds(self, type: Type, m: int, n: int, depth: int) -> float:
        """What the product is expected to take."""
        above, beside, num = -(-m // self.rows), -(-n // self.columns), -(-depth // self.chunk)
        parts = COUNTS[0] * num_parts(type)
        # The units work in waves of tiles.
        waves = -(-(-(-self.rows // TILE[0]) * -(-self.columns // TILE[1]) * parts) // NUM_SMS)
        share = self.rows * self.columns * parts / (waves * NUM_SMS * TILE[0] * TILE[1])
        # A chunk of A stays while all of K fits, one of B while all of C does as well.
        numbers = depth * (m * (beside if num > 1 else 1) + n * (above if num > 1 or beside > 1 else 1))
        return (
            parts * m * n * depth / (BYTES_RATE * share)
            + numbers * num_parts(type) * SECONDS_PER_NUMBER
            + num_parts(type) * m * n * (SECONDS_PER_RESULT + (num - 1) * SECONDS_PER_SUM)
            + SECONDS_TO_LAUNCH
            + (above * beside * num - 1) * SECONDS_PER_PART
        )


def fitting(type: Type, m: int, n: int, depth: int, workspace_nbytes: int) -> BlockSizes | None:
    """The cut that takes the least time of those whose planes have room."""
    room = (workspace_nbytes - 3 * ALIGNMENT) // (len(MODULI) * num_parts(type))
    best: tuple[float, BlockSizes] | None = None
    for rows in _extents(m):
        for columns in _extents(n):
            lines = -(-columns // GROUP) * GROUP
            most = min((room - rows * lines) // (rows + lines) // SPAN * SPAN, MAX_DEPTH)
            if most <= 0:
                continue
            # As many chunks as there have to be, of the same size.
            config = BlockSizes(rows, columns, padded(-(-depth // -(-depth // most))))
            seconds = config.seconds(type, m, n, depth)
            if best is None or seconds < best[0]:
                best = seconds, config
            if config == (m, n, padded(depth)):
                return config
    return None if best is None else best[1]


def _extents(n: int) -> list[int]:
    """What blocks may be, the largest first: parts that are alike, in steps of `STEP`."""
    return list(dict.fromkeys(min(n, -(-n // (num * STEP)) * STEP) for num in range(1, -(-n // STEP) + 1)))


__all__ = ["BlockSizes", "expected_gain", "fitting", "num_parts"]
