"""How products on Hopper's tensor cores are cut, and how long that is expected to take where nothing was measured."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.sm90_wgmma.scheduler import DEPTH_NBYTES, TILE_M

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_CHUNKS = 64  # one pass joins them
# What was measured on the H200. Seconds of a tile and of a pass beside their work:
SECONDS_PER_TILE, SECONDS_PER_PASS = 0.3e-6, 3.5e-6
PASS_BYTES_PER_SECOND = 5e12  # that joins chunks
# Of sums that a block leaves to the next in line: until they are there, and what a multiprocessor reads of them.
SECONDS_PER_RELAY, RELAYED_BYTES_PER_SECOND = 2.8e-6, 60e9
MAX_RELAYED, SUM_NBYTES = 4, 4
MEMORY_BYTES_PER_SECOND = 4.2e12
# What a multiprocessor copies of what the second-level cache holds, and of what it does not: what nobody has read yet,
# and operands of more bytes than that that are read again in another wave. And for a line outside the array, which
# reads as zeros.
NEAR_BYTES_PER_SECOND, FAR_BYTES_PER_SECOND, NEAR_NBYTES = 107e9, 64e9, 1 << 24
LINES_BYTES_PER_SECOND = 14e12  # that all of them together get from the cache, in lines of 128 bytes
COST_OF_TWO_LINES = 2.4  # in which what is copied of a line lies
# Of large operands in memory, where tiles have less than 128 of their rows or columns, and where such rows, that run
# along K, are read by more than one cluster.
COST_OF_LOW_TILES, COST_OF_SHARED_ROWS = 1.08, 1.35
SECONDS_PER_LINE_OUTSIDE = 2.7e-9
# Columns per row, or the other way round, of what is turned: where rows are stored in bulk, and element by element.
MIN_THINNESS, MIN_THINNESS_DIRECT = 4, 8


class WgmmaConfig(NamedTuple):
    """How a product is cut: the fields of `WgmmaSpec`, and into how many chunks of K.

    What is turned is computed as the transpose, B.T by A.T. Chunks that are relayed add up in one launch, see
    `split_k`.
    """

    tile_n: int
    num_stages: int
    cluster: int
    split_k: int = 1
    shared: str = "b"
    is_transposed: bool = False
    is_serial_split_k: bool = False


class MeasuredWgmma(NamedTuple):
    """A cut, and what was measured of it: bytes of K times elements of C that a multiprocessor takes per second.

    `seconds` is what there is beside that: the way to the first product, and from the last one.
    """

    tile_n: int
    num_stages: int
    cluster: int
    shared: str
    rate: float
    seconds: float


MEASURED = (
    MeasuredWgmma(256, 4, 2, "b", 6.5e12, 4.2e-6),
    MeasuredWgmma(256, 4, 1, "b", 6.5e12, 3.3e-6),
    MeasuredWgmma(192, 4, 1, "b", 6.7e12, 3.0e-6),
    MeasuredWgmma(192, 4, 2, "c", 5.2e12, 6e-6),
    MeasuredWgmma(128, 6, 2, "b", 5.9e12, 3.7e-6),
    MeasuredWgmma(128, 6, 1, "b", 6.3e12, 2.9e-6),
    MeasuredWgmma(128, 5, 2, "c", 4.8e12, 4.7e-6),
    MeasuredWgmma(64, 8, 1, "b", 5.2e12, 2.6e-6),
    MeasuredWgmma(64, 8, 2, "c", 4.4e12, 4.2e-6),
)
# Few rows by many columns, turned, and the other way round: one tile is as wide as there are rows, or two side by side
# are. With the buffers that there is room for: of one block, of two with halves of K, of two side by side.
_BUFFERS = {
    16: (12, 12, 0),
    32: (9, 9, 9),
    48: (8, 8, 8),
    64: (8, 8, 8),
    80: (8, 7, 7),
    96: (7, 6, 6),
    112: (7, 6, 6),
    128: (6, 5, 6),
    160: (5, 4, 5),
    192: (4, 4, 4),
    256: (4, 0, 4),
}
MAX_THIN_RATE, MAX_HALVED_RATE = 6.5e12, 5.2e12
MEASURED_THIN = tuple(
    MeasuredWgmma(
        tile_n,
        num_stages,
        cluster,
        shared,
        min(tile_n * 0.069e12, MAX_HALVED_RATE if shared == "c" else MAX_THIN_RATE),
        seconds + tile_n**2 * 0.3e-10,
    )
    for tile_n, numbers in _BUFFERS.items()
    for num_stages, cluster, shared, seconds in zip(numbers, (1, 2, 2), "bca", (2.6e-6, 4.1e-6, 4.1e-6), strict=True)
    if num_stages
)
# Turned, too, where there are as many rows as columns: between the widths of the tilings above.
(MEASURED_TRANSPOSED,) = (x for x in MEASURED_THIN if (x.tile_n, x.cluster) == (160, 1))
# f32 that comes through registers.
MEASURED_REGISTERS = (
    MeasuredWgmma(256, 4, 2, "b", 5.6e12, 3.7e-6),
    MeasuredWgmma(256, 4, 1, "b", 5.6e12, 3.0e-6),
    MeasuredWgmma(192, 4, 2, "b", 5.5e12, 3.7e-6),
    MeasuredWgmma(192, 4, 1, "b", 5.5e12, 3.0e-6),
    MeasuredWgmma(128, 6, 2, "b", 5.2e12, 3.7e-6),
    MeasuredWgmma(128, 6, 1, "b", 5.2e12, 2.9e-6),
    MeasuredWgmma(128, 4, 2, "c", 5.2e12, 4.7e-6),
    MeasuredWgmma(64, 8, 1, "b", 4.1e12, 2.6e-6),
)


class CostOperand(NamedTuple):
    """An operand, as the model knows it.

    Attributes
    ----------
    extent : int
        Rows of A or columns of B.
    nbytes : int
        Of all its matrices.
    box : int
        Rows or columns that are copied together: 1, or where they lie along a line, those of one.
    is_split_k : bool
        What is copied of a line lies in two of the cache.
    """

    extent: int
    nbytes: int
    box: int
    is_split_k: bool


class CostProblem(NamedTuple):
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
    is_bulk : bool
        Rows of what is turned are stored in bulk.
    """

    a: CostOperand
    b: CostOperand
    depth_nbytes: int
    num_matrices: int
    c_nbytes: int
    sums_nbytes: int
    is_bulk: bool

    def transposed(self) -> CostProblem:
        """The transpose."""
        return self._replace(a=self.b, b=self.a)


def candidates(
    problem: CostProblem, num_sms: int, *, is_through_registers: bool
) -> Iterator[tuple[float, WgmmaConfig]]:
    """Yield cuts with the seconds that the model expects, not all of them legal."""
    fewest = min(problem.a.extent, problem.b.extent)
    ways: list[tuple[tuple[MeasuredWgmma, ...], bool]] = [(MEASURED_REGISTERS, True)]
    if not is_through_registers:
        # Turned products are worth it where the other operand is read once.
        thinness = MIN_THINNESS if problem.is_bulk else MIN_THINNESS_DIRECT
        is_thin = fewest * thinness <= max(problem.a.extent, problem.b.extent)
        thin = tuple(x for x in MEASURED_THIN if is_thin and fewest <= x.tile_n * (1 + (x.shared == "a")))
        ways = [(MEASURED, False), (thin, problem.a.extent <= problem.b.extent)]
        if problem.is_bulk and not is_thin:
            ways.append(((MEASURED_TRANSPOSED,), True))
    for options, is_transposed in ways:
        seen = problem.transposed() if is_transposed else problem
        for option in options:
            config = WgmmaConfig(option.tile_n, option.num_stages, option.cluster, 1, option.shared, is_transposed)
            split_k = 1
            while split_k <= (MAX_CHUNKS if option.cluster == 1 else 1):  # passes over those by clusters were slower
                yield _seconds(option, seen, split_k, num_sms), config._replace(split_k=split_k)
                split_k *= 2
            most = MAX_RELAYED if option.shared != "c" else 1
            for number in range(2, min(num_sms // option.cluster // _num_tiles(option, seen), most) + 1):
                seconds = _seconds(option, seen, number, num_sms, is_serial_split_k=True)
                yield seconds, config._replace(split_k=number, is_serial_split_k=True)


def _tiles(option: MeasuredWgmma, problem: CostProblem) -> tuple[int, int]:
    """Tiles along M and N of each matrix, those of a cluster as one."""
    above, beside = (option.cluster if option.shared == x else 1 for x in "ba")
    return -(-problem.a.extent // (TILE_M * above)), -(-problem.b.extent // (option.tile_n * beside))


def _num_tiles(option: MeasuredWgmma, problem: CostProblem) -> int:
    """Of all matrices."""
    return math.prod(_tiles(option, problem)) * problem.num_matrices


def _seconds(
    option: MeasuredWgmma, problem: CostProblem, split_k: int, num_sms: int, *, is_serial_split_k: bool = False
) -> float:
    """What the model expects a cut to take."""
    tile = (TILE_M, option.tile_n)
    halves = 2 if option.shared == "c" else 1
    together = (option.cluster if option.shared == "b" else 1, option.cluster if option.shared == "a" else 1)
    tiles = _tiles(option, problem)
    num_in_all = _num_tiles(option, problem) * split_k
    waves = -(-num_in_all // (num_sms // option.cluster))
    steps = -(-problem.depth_nbytes // (split_k * halves * DEPTH_NBYTES))
    if halves > 1 and waves > 1:
        return math.inf  # nothing is multiplied while sums meet
    multiplying = waves * (SECONDS_PER_TILE + TILE_M * option.tile_n * steps * DEPTH_NBYTES / option.rate)
    moved, copying, lines_outside, lines_nbytes = float(problem.c_nbytes), 0.0, 0.0, 0.0
    num_blocks = min(num_sms, num_in_all * option.cluster)
    sides = zip(problem[:2], tiles, tiles[::-1], tile, together, together[::-1], strict=True)
    for side, num, others, x, y, multicast in sides:
        outside = (num * x * y - side.extent) // side.box * side.box / (num * y)  # of whole boxes, on average
        nbytes = waves * steps * (x - outside) * DEPTH_NBYTES
        is_far = waves > 1 and side.nbytes > NEAR_NBYTES
        copying += nbytes / multicast / FAR_BYTES_PER_SECOND if is_far else nbytes / NEAR_BYTES_PER_SECOND
        cost = COST_OF_LOW_TILES if x < TILE_M else COST_OF_SHARED_ROWS if side.box == 1 and others > 1 else 1
        moved += side.nbytes * (cost if side.nbytes > NEAR_NBYTES else 1)
        lines_nbytes += nbytes / multicast * (COST_OF_TWO_LINES if side.is_split_k else 1) * num_blocks
        lines_outside += waves * steps * outside / multicast
    bound = max(multiplying, copying, moved / MEMORY_BYTES_PER_SECOND, lines_nbytes / LINES_BYTES_PER_SECOND)
    seconds = option.seconds + bound + lines_outside * SECONDS_PER_LINE_OUTSIDE
    if is_serial_split_k:
        sums_nbytes = TILE_M * option.tile_n * SUM_NBYTES
        seconds += (split_k - 1) * (SECONDS_PER_RELAY + sums_nbytes / RELAYED_BYTES_PER_SECOND)
    elif split_k > 1:
        seconds += SECONDS_PER_PASS + 2 * split_k * problem.sums_nbytes / PASS_BYTES_PER_SECOND
    return seconds


__all__ = ["MAX_CHUNKS", "CostOperand", "CostProblem", "WgmmaConfig", "candidates"]
