"""Cost model of the multistage kernels: waves of tiles over the multiprocessors, at measured rates."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.multistage.spec import TileConfig
from oxinp._ptx.types import Type, bf16, c128, f16, f32, f64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.choice import Limits, Processors
    from oxinp._kernels.gemm.multistage.spec import MultistageSpec

MAX_SPLIT_K = 16  # ranges of K that one reduction sums up
MIN_SPLIT_DEPTH = 128  # of K per range
SECONDS_PER_PASS = 3e-6  # of the reduction of split-K, beside its bytes
BYTES_PER_SECOND = 3e12


class MeasuredTile(NamedTuple):
    """A tile config with its measured rate.

    Attributes
    ----------
    tile_m, tile_n, warp_m, warp_n, depth, num_stages : int
    blocks_per_sm : int
    rate : float
        Multiply-adds per second of a multiprocessor that works on `blocks_per_sm` tiles.
    max_side : int
        Largest M, N and K for which the rate holds, if there are tiles for all multiprocessors; 0: any.
    alone : float
        Share of the rate that a single tile on a multiprocessor reaches.

    Notes
    -----
    The rates were measured on the H200.
    """

    tile_m: int
    tile_n: int
    warp_m: int
    warp_n: int
    depth: int
    num_stages: int
    blocks_per_sm: int
    rate: float
    max_side: int = 0
    alone: float = 1.0

    def config(self, split_k: int = 1) -> TileConfig:
        """Return the tile config."""
        return TileConfig(*self[:6], split_k)


_DMMA = (
    MeasuredTile(128, 128, 64, 32, 16, 4, 1, 0.222e12),  # 32 deep it spills where both operands run along K
    MeasuredTile(128, 64, 32, 32, 32, 4, 1, 0.182e12),
    MeasuredTile(64, 64, 32, 16, 32, 3, 2, 0.178e12),
    MeasuredTile(64, 32, 32, 16, 32, 4, 2, 0.15e12),
    MeasuredTile(32, 32, 16, 16, 32, 4, 3, 0.13e12),
    # Batches of small matrices: few threads each, and as many of them at a time as possible.
    MeasuredTile(64, 64, 32, 64, 16, 3, 4, 0.133e12, 64),
    MeasuredTile(32, 32, 32, 16, 32, 3, 4, 0.153e12, 64),
)
_DMMA_SM80 = (MeasuredTile(128, 128, 64, 32, 16, 3, 1, 0.08e12), MeasuredTile(64, 64, 32, 32, 16, 3, 2, 0.07e12))
_HMMA = (
    MeasuredTile(128, 256, 64, 64, 32, 3, 1, 0.9e12),
    MeasuredTile(128, 128, 64, 32, 32, 4, 1, 0.75e12),
    MeasuredTile(128, 128, 64, 64, 32, 3, 2, 0.8e12),
    MeasuredTile(64, 64, 32, 32, 32, 4, 3, 0.5e12),
    MeasuredTile(32, 32, 16, 16, 64, 4, 4, 0.2e12),
)
_DMMA_COMPLEX = (
    MeasuredTile(128, 64, 32, 32, 8, 4, 1, 0.055e12),
    MeasuredTile(64, 64, 32, 32, 8, 4, 2, 0.054e12),
    MeasuredTile(64, 32, 32, 16, 8, 4, 2, 0.049e12),
    MeasuredTile(32, 32, 16, 16, 16, 4, 2, 0.046e12),
)
# By the bytes of an accumulator.
_FMA = {
    4: (
        MeasuredTile(128, 128, 64, 64, 8, 4, 2, 0.188e12, alone=0.54),
        MeasuredTile(128, 128, 32, 64, 16, 3, 1, 0.14e12),
        MeasuredTile(64, 64, 32, 32, 32, 3, 3, 0.16e12, alone=0.5),
        MeasuredTile(64, 64, 32, 32, 16, 4, 4, 0.16e12, alone=0.5),
        MeasuredTile(32, 32, 16, 32, 32, 3, 4, 0.06e12),
        MeasuredTile(32, 32, 32, 32, 32, 2, 12, 0.184e12, 64),
    ),
    8: (
        MeasuredTile(64, 64, 32, 32, 8, 4, 3, 0.049e12, alone=0.5),
        MeasuredTile(32, 32, 16, 16, 16, 3, 4, 0.03e12),
    ),
}


def measured_tiles(type: Type, acc: Type, device: Limits) -> tuple[str, tuple[MeasuredTile, ...]]:
    """Return the warp MMA for types of operands and accumulators, and its tiles with measured rates."""
    is_hopper = device.cc >= (9, 0)
    if type is f64:
        return ("dmma", _DMMA) if is_hopper else ("dmma_sm80", _DMMA_SM80)
    if type in (f16, bf16) and acc is f32:
        return "hmma", _HMMA
    if acc is c128:
        return "dmma_k4" if is_hopper else "dmma_sm80", _DMMA_COMPLEX
    return "fma", _FMA[max(4, acc.nbytes)]


def is_meant(tile: MeasuredTile, problem: tuple[int, int, int, int], device: Processors) -> bool:
    """Return whether a tile's rate was measured on problems like this one: count, M, N and K."""
    if not tile.max_side:
        return True
    count, m, n, depth = problem
    tiles = count * -(-m // tile.tile_m) * -(-n // tile.tile_n)
    return max(m, n, depth) <= tile.max_side and tiles >= device.num_sms * tile.blocks_per_sm


def split_counts(depth: int) -> tuple[int, ...]:
    """Return the split-K factors that the cost model compares: powers of two."""
    most = max(1, min(MAX_SPLIT_K, depth // MIN_SPLIT_DEPTH))
    return _POWERS[: most.bit_length()]


_POWERS = tuple([1 << i for i in range(MAX_SPLIT_K.bit_length())])


def expected(
    problem: tuple[int, int, int, int],
    tiles: Sequence[MeasuredTile],
    counts: Sequence[int],
    spec: MultistageSpec,
    device: Processors,
    *,
    are_meant: bool = True,
) -> list[tuple[float, MeasuredTile, int]]:
    """Return the expected times of a product in seconds, with the tile and the split-K factor that take them.

    Parameters
    ----------
    problem : (count, M, N, K)
    tiles : sequence of MeasuredTile
    counts : sequence of int
        Split-K factors.
    spec : MultistageSpec
    device : Processors
    are_meant : bool
        Leave out the tiles that were not measured on problems like this one.
    """
    count, m, n, depth = problem
    num_sms, is_triangle_only = device.num_sms, spec.is_triangle_only
    ways = []
    for tile in tiles:
        tile_m, tile_n, _, _, tile_depth, num_stages, blocks_per_sm, rate, _, alone = tile
        if are_meant and not is_meant(tile, problem, device):
            continue
        rows, columns = -(-m // tile_m), -(-n // tile_n)
        # Of a triangle half of the tiles count, those on the diagonal whole.
        num_tiles = (rows * columns + max(rows, columns)) // 2 if is_triangle_only else rows * columns
        least, slots = 1 / alone, num_sms * blocks_per_sm
        for split_k in counts:
            # In the last wave, blocks that have a multiprocessor for themselves run faster.
            blocks = num_tiles * count * split_k
            full, rest = blocks // slots, blocks % slots
            waves = max(full * blocks_per_sm + -(-rest // num_sms), least)
            steps = -(-depth // (split_k * tile_depth)) + num_stages
            time = waves * tile_m * tile_n * steps * tile_depth / rate
            if split_k > 1:
                time += SECONDS_PER_PASS + 2 * split_k * count * m * n * spec.acc.nbytes / BYTES_PER_SECOND
            ways.append((time, tile, split_k))
    return ways


__all__ = ["MAX_SPLIT_K", "MIN_SPLIT_DEPTH", "MeasuredTile", "expected", "is_meant", "measured_tiles", "split_counts"]
