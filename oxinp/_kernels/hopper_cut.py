"""How products on Hopper's tensor cores are cut, and how long that is expected to take where nothing was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm_tiles import DEPTH_NBYTES, TILE_M

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_CHUNKS = 64  # one pass joins them
# What was measured on the H200. Seconds of a tile and of a pass beside their work:
SECONDS_PER_TILE, SECONDS_PER_PASS = 0.3e-6, 2.5e-6
PASS_BYTES_PER_SECOND = 5e12  # that joins chunks
MEMORY_BYTES_PER_SECOND = 4.2e12
# What a multiprocessor copies of operands that the second-level cache holds, and of others; and for a line outside the
# array, which reads as zeros.
NEAR_BYTES_PER_SECOND, FAR_BYTES_PER_SECOND, NEAR_NBYTES = 107e9, 64e9, 1 << 24
SECONDS_PER_LINE_OUTSIDE = 3.3e-9


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
    Tiling(128, 6, 2, "b", 6.7e12, 3.7e-6),
    Tiling(128, 6, 1, "b", 6.7e12, 2.9e-6),
    Tiling(128, 5, 2, "c", 6.7e12, 4.7e-6),
    Tiling(64, 8, 1, "b", 4.4e12, 2.6e-6),
    Tiling(64, 8, 2, "c", 4.4e12, 4.2e-6),
)
# Few rows by many columns, turned, and the other way round.
THIN_TILINGS = (
    Tiling(64, 8, 1, "b", 4.4e12, 2.6e-6),
    Tiling(64, 8, 2, "c", 4.4e12, 4.2e-6),
    Tiling(32, 9, 1, "b", 2.2e12, 2.6e-6),
    Tiling(32, 9, 2, "c", 2.2e12, 4.2e-6),
    Tiling(16, 12, 1, "b", 1.1e12, 2.6e-6),
    Tiling(16, 12, 2, "c", 1.1e12, 4.2e-6),
)
# f32 that comes through registers; tiles of 256 columns take half a second to compile, and are no faster.
REGISTER_TILINGS = (
    Tiling(192, 4, 2, "b", 5.5e12, 3.7e-6),
    Tiling(192, 4, 1, "b", 5.5e12, 3.0e-6),
    Tiling(128, 6, 2, "b", 5.4e12, 3.7e-6),
    Tiling(128, 6, 1, "b", 5.4e12, 2.9e-6),
    Tiling(128, 4, 2, "c", 5.4e12, 4.7e-6),
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
    is_along_k : bool
    """

    extent: int
    nbytes: int
    is_along_k: bool


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
        # A turned product is stored element by element, and one operand is to be read once.
        thin = tuple(x for x in THIN_TILINGS if fewest <= x.tile_n)
        ways = [(TILINGS, False), (thin, problem.a.extent <= problem.b.extent)]
    for tilings, is_turned in ways:
        seen = problem.turned() if is_turned else problem
        for tiling in tilings:
            num_chunks = 1
            while num_chunks <= (MAX_CHUNKS if tiling.shared != "c" else 1):
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
    steps = -(-problem.depth_nbytes // (num_chunks * halves * DEPTH_NBYTES))
    multiplying = waves * (SECONDS_PER_TILE + TILE_M * tiling.tile_n * steps * DEPTH_NBYTES / tiling.rate)
    copying = 0.0
    for side, num, x, y, parts in zip(problem[:2], tiles, tile, together, together[::-1], strict=True):
        outside = max(0, num * x * y - side.extent) / (num * y) if side.is_along_k else 0.0
        speed = NEAR_BYTES_PER_SECOND if side.nbytes <= NEAR_NBYTES else FAR_BYTES_PER_SECOND
        per_step = (x - outside) * DEPTH_NBYTES / speed + outside * SECONDS_PER_LINE_OUTSIDE
        copying += waves * steps * per_step / parts
    moving = (problem.a.nbytes + problem.b.nbytes + problem.c_nbytes) / MEMORY_BYTES_PER_SECOND
    seconds = tiling.seconds + max(multiplying, copying, moving)
    if num_chunks > 1:
        seconds += SECONDS_PER_PASS + 2 * num_chunks * problem.sums_nbytes / PASS_BYTES_PER_SECOND
    return seconds


__all__ = ["MAX_CHUNKS", "Cut", "Problem", "Side", "candidates"]
