"""Cost model of the wgmma kernels: their configs, measured rates, and the expected time of a product."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.sm90_wgmma.scheduler import DEPTH_NBYTES, TILE_M

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_SPLIT_K = 64  # ranges of K that one reduction sums up
SPLIT_COUNTS = tuple([1 << i for i in range(MAX_SPLIT_K.bit_length())])
# All measured on the H200. Seconds of a tile, and of the reduction of parallel split-K, beside their work:
SECONDS_PER_TILE, SECONDS_PER_PASS = 0.3e-6, 3.5e-6
PASS_BYTES_PER_SECOND = 5e12  # of that reduction
# Of serial split-K: latency from a block to the next one, and what a multiprocessor reads of its sums.
SECONDS_PER_SEMAPHORE, PARTIAL_BYTES_PER_SECOND = 2.8e-6, 60e9
MAX_SERIAL_SPLIT_K, SUM_NBYTES = 4, 4
MEMORY_BYTES_PER_SECOND = 4.2e12
# TMA loads of a multiprocessor from L2, and of what L2 does not hold: what is read for the first time, and operands of
# more than `NEAR_NBYTES` that are read again in another wave.
NEAR_BYTES_PER_SECOND, FAR_BYTES_PER_SECOND, NEAR_NBYTES = 107e9, 64e9, 1 << 24
LINES_BYTES_PER_SECOND = 14e12  # L2 bandwidth of all multiprocessors, in lines of 128 bytes
COST_OF_TWO_LINES = 2.4  # of a TMA line that lies in two cache lines
# Factors of the memory traffic of large operands: where tiles have less than 128 of their rows or columns, and where
# K-major rows are read by more than one cluster.
COST_OF_LOW_TILES, COST_OF_SHARED_ROWS = 1.08, 1.35
SECONDS_PER_LINE_OUTSIDE = 2.7e-9  # of a TMA line outside the array, which reads as zeros
# M / N or N / M from which the transpose of C is computed: for bulk stores, and for direct ones.
MIN_THINNESS, MIN_THINNESS_DIRECT = 4, 8


class WgmmaConfig(NamedTuple):
    """A config of the wgmma kernels: plain fields, from which `WgmmaProduct.spec` makes a Spec.

    Attributes
    ----------
    tile_n, num_stages : int
        As in `WgmmaSpec`.
    cluster : int
        Blocks of a cluster, 1 or 2.
    split_k : int
        Ranges of K, at most.
    shared : str
        What the blocks of a cluster share: tiles of ``"a"`` or ``"b"``, or of ``"c"``.
    is_transposed : bool
        The kernel computes the transpose of C, B^T A^T.
    is_serial_split_k : bool
        Ranges of K add up inside the kernel, see `split_k`; else a reduction follows.
    """

    tile_n: int
    num_stages: int
    cluster: int
    split_k: int = 1
    shared: str = "b"
    is_transposed: bool = False
    is_serial_split_k: bool = False


class MeasuredWgmma(NamedTuple):
    """A tile with its measured rate.

    Attributes
    ----------
    tile_n, num_stages, cluster, shared
        As in `WgmmaConfig`.
    rate : float
        Bytes of K times elements of C per second and multiprocessor.
    seconds : float
        Prologue and epilogue: the time to the first wgmma, and from the last one.
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
# Few rows by many columns, transposed, and the other way round: one tile, or two side by side, is as wide as there are
# rows. By tile_n, the stages that fit: without a cluster, with split-K over a cluster, with tiles of A by multicast.
_STAGES = {
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
MAX_THIN_RATE, MAX_CLUSTER_RATE = 6.5e12, 5.2e12
MEASURED_THIN = tuple(
    MeasuredWgmma(
        tile_n,
        num_stages,
        cluster,
        shared,
        min(tile_n * 0.069e12, MAX_CLUSTER_RATE if shared == "c" else MAX_THIN_RATE),
        seconds + tile_n**2 * 0.3e-10,
    )
    for tile_n, numbers in _STAGES.items()
    for num_stages, cluster, shared, seconds in zip(numbers, (1, 2, 2), "bca", (2.6e-6, 4.1e-6, 4.1e-6), strict=True)
    if num_stages
)
# The transpose is also considered where there are as many rows as columns: a width between those of `MEASURED`.
(MEASURED_TRANSPOSED,) = (x for x in MEASURED_THIN if (x.tile_n, x.cluster) == (160, 1))
# Of f32 operands that come through registers.
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
    """An operand, as the cost model knows it.

    Attributes
    ----------
    extent : int
        Rows of A or columns of B.
    nbytes : int
        Of all its matrices.
    box : int
        Rows or columns that a TMA line covers: 1 if lines run along K.
    is_unaligned : bool
        A TMA line lies in two cache lines.
    """

    extent: int
    nbytes: int
    box: int
    is_unaligned: bool


class CostProblem(NamedTuple):
    """A product, as the cost model knows it.

    Attributes
    ----------
    a, b : Side
    depth_nbytes : int
        Of K.
    num_matrices : int
        Of C.
    c_nbytes, sums_nbytes : int
        Of all of them, and of their partial sums.
    is_bulk : bool
        The transpose can be stored in bulk.
    """

    a: CostOperand
    b: CostOperand
    depth_nbytes: int
    num_matrices: int
    c_nbytes: int
    sums_nbytes: int
    is_bulk: bool

    def transposed(self) -> CostProblem:
        """Return the transposed problem."""
        return self._replace(a=self.b, b=self.a)


def candidates(
    problem: CostProblem, num_sms: int, *, is_through_registers: bool
) -> Iterator[tuple[float, WgmmaConfig]]:
    """Yield configs with their expected seconds, not all of them legal."""
    fewest = min(problem.a.extent, problem.b.extent)
    ways: list[tuple[tuple[MeasuredWgmma, ...], bool]] = [(MEASURED_REGISTERS, True)]
    if not is_through_registers:
        # The transpose is worth it where the other operand is then read once.
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
            # After clusters, reductions were slower.
            counts = SPLIT_COUNTS if option.cluster == 1 else (1,)
            most = MAX_SERIAL_SPLIT_K if option.shared != "c" else 1
            most = min(num_sms // option.cluster // _num_tiles(option, seen), most)
            for seconds, split_k, is_serial in _seconds(option, seen, counts, most, num_sms):
                yield seconds, config._replace(split_k=split_k, is_serial_split_k=is_serial)


def _tiles(option: MeasuredWgmma, problem: CostProblem) -> tuple[int, int]:
    """Tiles along M and N of each matrix, those of a cluster counted as one."""
    above, beside = (option.cluster if option.shared == x else 1 for x in "ba")
    return -(-problem.a.extent // (TILE_M * above)), -(-problem.b.extent // (option.tile_n * beside))


def _num_tiles(option: MeasuredWgmma, problem: CostProblem) -> int:
    """Tiles of all matrices."""
    return math.prod(_tiles(option, problem)) * problem.num_matrices


def _seconds(
    option: MeasuredWgmma, problem: CostProblem, counts: Sequence[int], max_serial: int, num_sms: int
) -> Iterator[tuple[float, int, bool]]:
    """Yield the expected seconds of a product for split-K factors, and for serial ones from 2 to `max_serial`."""
    tile_n, _, cluster, shared, rate, least = option
    halves = 2 if shared == "c" else 1
    tiles = _tiles(option, problem)
    num_tiles = math.prod(tiles) * problem.num_matrices
    slots, depth_nbytes = num_sms // cluster, problem.depth_nbytes
    moved = float(problem.c_nbytes)
    # Of both operands, what does not depend on how K is split.
    sides = []
    together = cluster if shared == "b" else 1, cluster if shared == "a" else 1
    for i, (side, x) in enumerate(((problem.a, TILE_M), (problem.b, tile_n))):
        num, others, multicast = tiles[i], tiles[1 - i], together[1 - i]
        # In whole boxes, on average.
        outside = (num * x * together[i] - side.extent) // side.box * side.box / (num * together[i])
        is_large = side.nbytes > NEAR_NBYTES
        cost = COST_OF_LOW_TILES if x < TILE_M else COST_OF_SHARED_ROWS if side.box == 1 and others > 1 else 1
        moved += side.nbytes * (cost if is_large else 1)
        sides.append((x - outside, outside, multicast, is_large, COST_OF_TWO_LINES if side.is_unaligned else 1))
    moving = moved / MEMORY_BYTES_PER_SECOND
    for split_k, is_serial in (*[(x, False) for x in counts], *[(x, True) for x in range(2, max_serial + 1)]):
        num_in_all = num_tiles * split_k
        waves = -(-num_in_all // slots)
        if halves > 1 and waves > 1:
            yield math.inf, split_k, is_serial  # a cluster multiplies nothing while it adds up its sums
            continue
        steps = -(-depth_nbytes // (split_k * halves * DEPTH_NBYTES))
        multiplying = waves * (SECONDS_PER_TILE + TILE_M * tile_n * steps * DEPTH_NBYTES / rate)
        num_blocks = min(num_sms, num_in_all * cluster)
        copying = lines_outside = lines_nbytes = 0.0
        for inside, outside, multicast, is_large, num_lines in sides:
            nbytes = waves * steps * inside * DEPTH_NBYTES
            is_far = waves > 1 and is_large
            copying += nbytes / multicast / FAR_BYTES_PER_SECOND if is_far else nbytes / NEAR_BYTES_PER_SECOND
            lines_nbytes += nbytes / multicast * num_lines * num_blocks
            lines_outside += waves * steps * outside / multicast
        bound = max(multiplying, copying, moving, lines_nbytes / LINES_BYTES_PER_SECOND)
        seconds = least + bound + lines_outside * SECONDS_PER_LINE_OUTSIDE
        if is_serial:
            sums_nbytes = TILE_M * tile_n * SUM_NBYTES
            seconds += (split_k - 1) * (SECONDS_PER_SEMAPHORE + sums_nbytes / PARTIAL_BYTES_PER_SECOND)
        elif split_k > 1:
            seconds += SECONDS_PER_PASS + 2 * split_k * problem.sums_nbytes / PASS_BYTES_PER_SECOND
        yield seconds, split_k, is_serial


__all__ = ["MAX_SPLIT_K", "CostOperand", "CostProblem", "WgmmaConfig", "candidates"]
