"""Cost model of the Ozaki scheme: block sizes that fit a workspace, and the expected time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.ozaki.kernel import MAX_DEPTH, OzakiSpec
from oxinp._kernels.gemm.ozaki.moduli import COUNTS, MODULI
from oxinp._kernels.gemm.ozaki.residues import GROUP, SPAN, padded
from oxinp._kernels.gemm.sm90_wgmma.scheduler import TILE_M
from oxinp._kernels.plan import ALIGNMENT

if TYPE_CHECKING:
    from oxinp._ptx.types import Type

# Measured on the H200: multiply-adds per second of f64 and of int8; seconds per number of A or B for residues, and per
# number of C for the products' residues and the CRT, per plane of a modulus; launches.
F64_RATE, BYTES_RATE = 28e12, 0.8e15
SECONDS_PER_NUMBER, SECONDS_PER_RESULT, SECONDS_TO_LAUNCH = 13e-12, 18e-12, 40e-6
SECONDS_PER_SUM, SECONDS_PER_BLOCK = 10e-12, 20e-6  # per accumulated number of C; for the launches of a block
NUM_SMS, TILE = 132, (TILE_M, OzakiSpec().tile_n)
STEP = 256  # rows and columns of blocks of C are multiples of this


def expected_gain(type: Type, m: int, n: int, depth: int, workspace_nbytes: int) -> float:
    """Return the expected speedup over f64 multiply-adds, with the fewest moduli; 0 if the workspace is too small."""
    sizes = best_block_sizes(type, m, n, depth, workspace_nbytes)
    return 0 if sizes is None else m * n * depth * len(type.parts) ** 2 / F64_RATE / sizes.seconds(type, m, n, depth)


def planes_per_modulus(type: Type) -> int:
    """Return the planes per modulus: three for complex numbers."""
    return 3 if type.is_complex else 1


class BlockSizes(NamedTuple):
    """Sizes of the blocks of C, and of the ranges of K in bytes, that are multiplied at a time."""

    rows: int
    columns: int
    chunk: int

    @property
    def lines(self) -> int:
        """Columns, padded."""
        return -(-self.columns // GROUP) * GROUP

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Bytes of a plane of A, of B and of C."""
        return self.rows * self.chunk, self.lines * self.chunk, self.rows * self.lines

    def seconds(self, type: Type, m: int, n: int, depth: int) -> float:
        """Return the expected time of a product."""
        above, beside, num = -(-m // self.rows), -(-n // self.columns), -(-depth // self.chunk)
        parts = COUNTS[0] * planes_per_modulus(type)
        # Tiles are computed in waves over the multiprocessors.
        waves = -(-(-(-self.rows // TILE[0]) * -(-self.columns // TILE[1]) * parts) // NUM_SMS)
        share = self.rows * self.columns * parts / (waves * NUM_SMS * TILE[0] * TILE[1])
        # Residues of A are kept if all of K fits, those of B if all columns of C do as well.
        numbers = depth * (m * (beside if num > 1 else 1) + n * (above if num > 1 or beside > 1 else 1))
        return (
            parts * m * n * depth / (BYTES_RATE * share)
            + numbers * planes_per_modulus(type) * SECONDS_PER_NUMBER
            + planes_per_modulus(type) * m * n * (SECONDS_PER_RESULT + (num - 1) * SECONDS_PER_SUM)
            + SECONDS_TO_LAUNCH
            + (above * beside * num - 1) * SECONDS_PER_BLOCK
        )


def best_block_sizes(type: Type, m: int, n: int, depth: int, workspace_nbytes: int) -> BlockSizes | None:
    """Return the fastest block sizes that fit a workspace; None if none does."""
    room = (workspace_nbytes - 3 * ALIGNMENT) // (len(MODULI) * planes_per_modulus(type))
    best: tuple[float, BlockSizes] | None = None
    for rows in _extents(m):
        for columns in _extents(n):
            lines = -(-columns // GROUP) * GROUP
            most = min((room - rows * lines) // (rows + lines) // SPAN * SPAN, MAX_DEPTH)
            if most <= 0:
                continue
            # As few ranges of K as possible, of the same size.
            sizes = BlockSizes(rows, columns, padded(-(-depth // -(-depth // most))))
            seconds = sizes.seconds(type, m, n, depth)
            if best is None or seconds < best[0]:
                best = seconds, sizes
            if sizes == (m, n, padded(depth)):
                return sizes
    return None if best is None else best[1]


def _extents(n: int) -> list[int]:
    """Extents of blocks to consider, the largest first: equal parts, in steps of `STEP`."""
    return list(dict.fromkeys(min(n, -(-n // (num * STEP)) * STEP) for num in range(1, -(-n // STEP) + 1)))


__all__ = ["BlockSizes", "best_block_sizes", "expected_gain", "planes_per_modulus"]
