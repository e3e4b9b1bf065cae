"""How products on Hopper's tensor cores are cut, and how long that is expected to take where nothing was measured."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm_tiles import DEPTH_NBYTES, TILE_M

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_CHUNKS = 64  # one pass joins them
# What was measured on the H200. Seconds of a tile and of a pass beside their work:
SECONDS_PER_TILE, SECONDS_PER_PASS = 0.3e-6, 2.5e-6
PASS_BYTES_PER_SECOND = 5e12  # that joins chunks
MEMORY_BYTES_PER_SECOND = 4.2e12
# What a multiprocessor copies of what the second-level cache holds, and of what it does not: what nobody has read yet,
# and operands of more bytes than that that are read again in another wave. And for a line outside the array, which
# reads as zeros.
NEAR_BYTES_PER_SECOND, FAR_BYTES_PER_SECOND, NEAR_NBYTES = 107e9, 64e9, 1 << 24
SECONDS_PER_LINE_OUTSIDE = 2.7e-9
MIN_THINNESS = 8  # columns per row, or the other way round


class Cut(NamedTuple):
    """How a product is cut: the fields of `GemmSpec`, and into how many chunks of K.

    What is turned is computed as the transpose, B.T by A.T.
    """

    tile_n: int
    num_stages: int
    cluster: int
    num_chunks: int = 1
    shared: str = "b"
    is_turned: bool = False


class Tiling(NamedTuple):
    """A cut, and what was measured of it: bytes of K times elements of C that a multiprocessor takes per second.

    `seconds` is what there is beside that: the way to the first product, and from the last one.
    """

    tile_n: int
    num_stages: int
    cluster: int
    shared: str
    rate: float
    seconds: float


TILINGS = (
    Tiling(256, 4, 2, "b", 7.2e12, 4.2e-6),
    Tiling(256, 4, 1, "b", 7.1e12, 3.3e-6),
    Tiling(192, 4, 1, "b", 6.7e12, 3.0e-6),
    Tiling(192, 4, 2, "c", 6.7e12, 6e-6),
    Tiling(128, 6, 2, "b", 6.7e12, 3.7e-6),
    Tiling(128, 6, 1, "b", 6.7e12, 2.9e-6),
    Tiling(128, 5, 2, "c", 6.7e12, 4.7e-6),
    Tiling(64, 8, 1, "b", 4.4e12, 2.6e-6),
    Tiling(64, 8, 2, "c", 4.4e12, 4.2e-6),
)
# Few rows by many columns, turned, and the other way round: one tile is as wide as there are rows, or two side by side
# are. With the buffers that there is room for: of one block, of two with halves of K, of two side by side.
_BUFFERS = {16: (12, 12, 0), 32: (9, 9, 0), 48: (8, 8, 0), 64: (8, 8, 8), 80: (8, 7, 7), 96: (7, 6, 6), 112: (7, 6, 6)}
THIN_TILINGS = tuple(
    Tiling(tile_n, num_stages, cluster, shared, tile_n * 0.069e12, seconds + tile_n**2 * 1.8e-10)
    for tile_n, numbers in _BUFFERS.items()
    for num_stages, cluster, shared, seconds in zip(numbers, (1, 2, 2), "bca", (2.6e-6, 4.1e-6, 4.1e-6), strict=True)
    if num_stages
)
# f32 that comes through registers.
REGISTER_TILINGS = (
    Tiling(256, 4, 2, "b", 5.6e12, 3.7e-6),
    Tiling(256, 4, 1, "b", 5.6e12, 3.0e-6),
    Tiling(192, 4, 2, "b", 5.5e12, 3.7e-6),
    Tiling(192, 4, 1, "b", 5.5e12, 3.0e-6),
    Tiling(128, 6, 2, "b", 5.2e12, 3.7e-6),
    Tiling(128, 6, 1, "b", 5.2e12, 2.9e-6),
    Tiling(128, 4, 2, "c", 5.2e12, 4.7e-6),
    Tiling(64, 8, 1, "b", 4.1e12, 2.6e-6),
)


class Side(NamedTuple):
    """An operand, as the model knows it.

    Attributes
    ----------
    extent : int
        Rows of A or columns of B.
    nbytes : int
        Of all its matrices.
    box : int
        Rows or columns that are copied together: 1, or where they lie along a line, those of one.
    """

    extent: int
    nbytes: int
    box: int


class Problem(NamedTuple):
    """A product, as the model knows it.

    Attributes
    ----------
    a, b : Side
    depth_nbytes : int
        Of K.
    num_matrices : int
        Of C.
    c_nbytes, sums_nbytes : int
        Of all of them, and of their sums.
    """

    a: Side
    b: Side
    depth_nbytes: int
    num_matrices: int
    c_nbytes: int
    sums_nbytes: int

    def turned(self) -> Problem:
        """The transpose."""
        return self._replace(a=self.b, b=self.a)


def candidates(problem: Problem, num_sms: int, *, is_through_registers: bool) -> Iterator[tuple[float, Cut]]:
    """Yield cuts with the seconds that the model expects, not all of them legal."""
    fewest = min(problem.a.extent, problem.b.extent)
    ways: list[tuple[tuple[Tiling, ...], bool]] = [(REGISTER_TILINGS, True)]
    if not is_through_registers:
        # Turned products are stored element by element, and are worth it where the other operand is read once.
        is_thin = fewest * MIN_THINNESS <= max(problem.a.extent, problem.b.extent)
        thin = tuple(x for x in THIN_TILINGS if is_thin and fewest <= x.tile_n * (1 + (x.shared == "a")))
        ways = [(TILINGS, False), (thin, problem.a.extent <= problem.b.extent)]
    for tilings, is_turned in ways:
        seen = problem.turned() if is_turned else problem
        for tiling in tilings:
            num_chunks = 1
            while num_chunks <= (MAX_CHUNKS if tiling.cluster == 1 else 1):  # chunks by clusters were slower
                cut = Cut(tiling.tile_n, tiling.num_stages, tiling.cluster, num_chunks, tiling.shared, is_turned)
                yield _seconds(tiling, seen, num_chunks, num_sms), cut
                num_chunks *= 2


def _seconds(tiling: Tiling, problem: Problem, num_chunks: int, num_sms: int) -> float:
    """What the model expects a cut to take."""
    tile = (TILE_M, tiling.tile_n)
    halves = 2 if tiling.shared == "c" else 1
    together = (tiling.cluster if tiling.shared == "b" else 1, tiling.cluster if tiling.shared == "a" else 1)
    tiles = [-(-side.extent // (x * y)) for side, x, y in zip(problem[:2], tile, together, strict=True)]
    waves = -(-tiles[0] * tiles[1] * problem.num_matrices * num_chunks // (num_sms // tiling.cluster))
    if halves > 1 and waves > 1:
        return math.inf  # nothing is multiplied while sums meet
    steps = -(-problem.depth_nbytes // (num_chunks * halves * DEPTH_NBYTES))
    multiplying = waves * (SECONDS_PER_TILE + TILE_M * tiling.tile_n * steps * DEPTH_NBYTES / tiling.rate)
    copying = lines_outside = 0.0
    num_blocks = tiles[0] * tiles[1] * problem.num_matrices * num_chunks * tiling.cluster
    for side, num, x, y, parts in zip(problem[:2], tiles, tile, together, together[::-1], strict=True):
        outside = (num * x * y - side.extent) // side.box * side.box / (num * y)  # of whole boxes, on average
        nbytes = waves * steps * (x - outside) * DEPTH_NBYTES
        is_far = waves > 1 and side.nbytes > NEAR_NBYTES
        far = nbytes if is_far else min(nbytes, side.nbytes / num_blocks)
        copying += far / parts / FAR_BYTES_PER_SECOND + (nbytes - far) / NEAR_BYTES_PER_SECOND
        lines_outside += waves * steps * outside / parts
    moving = (problem.a.nbytes + problem.b.nbytes + problem.c_nbytes) / MEMORY_BYTES_PER_SECOND
    seconds = tiling.seconds + max(multiplying, copying, moving) + lines_outside * SECONDS_PER_LINE_OUTSIDE
    if num_chunks > 1:
        seconds += SECONDS_PER_PASS + 2 * num_chunks * problem.sums_nbytes / PASS_BYTES_PER_SECOND
    return seconds


__all__ = ["MAX_CHUNKS", "Cut", "Problem", "Side", "candidates"]
