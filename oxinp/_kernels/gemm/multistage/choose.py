"""Which tile config and split-K factor a multistage product takes: a measured one, or the cost model's."""

from __future__ import annotations

from functools import cache, lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.choice import Choice, decide
from oxinp._kernels.gemm.multistage import tile_config
from oxinp._kernels.gemm.multistage.cost import (
    MAX_SPLIT_K,
    MIN_SPLIT_DEPTH,
    MeasuredTile,
    expected,
    measured_tiles,
    split_counts,
)
from oxinp._kernels.gemm.multistage.spec import MultistageSpec, TileConfig
from oxinp._ptx.types import Type, c64, f32

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxinp._kernels.choice import Device, Limits

MAX_SMALL_SIDE = 64  # M, N and K up to which copying element by element takes longer than the multiply-adds
# Sums of f32 are promoted after so much of K where C is one wave of tiles of this side: cuBLAS splits K there, and so
# loses as little.
PROMOTION, PEER_SIDE = 256, 128
MAX_KEPT = 1024  # Specs, and lists of legal tiles, that are kept


class _Limits(NamedTuple):
    """What of a device the legality of tile configs depends on."""

    cc: tuple[int, int]
    max_shared_nbytes: int


class _Processors(NamedTuple):
    """What of a device the cost model depends on."""

    cc: tuple[int, int]
    max_shared_nbytes: int
    num_sms: int


def _limits(device: Limits) -> _Limits:
    return _known_limits(device.cc, device.max_shared_nbytes)


_known_limits = cache(_Limits)
_known_processors = cache(_Processors)


def multistage_spec(
    type: Type,
    acc: Type,
    out: Type,
    majors: tuple[str, str],
    copies: tuple[int, int],
    problem: tuple[int, int, int, int],
    device: Device,
) -> MultistageSpec:
    """The Spec with the first tile config of the cost model."""
    count, m, n, depth = problem
    is_small = max(m, n, depth) <= MAX_SMALL_SIDE
    is_wave = count * -(-m // PEER_SIDE) * -(-n // PEER_SIDE) <= device.num_sms
    return _structure(type, acc, out, *majors, *copies, is_small, is_wave and depth >= 2 * PROMOTION, _limits(device))


@lru_cache(MAX_KEPT)
def _structure(
    type: Type,
    acc: Type,
    out: Type,
    a_major: str,
    b_major: str,
    a_copy: int,
    b_copy: int,
    is_small: bool,
    is_promoted: bool,
    limits: _Limits,
) -> MultistageSpec:
    """The same, kept: of sizes it depends on what fits a copy, and on whether sums of f32 are promoted."""
    mma, tiles = measured_tiles(type, acc, limits)
    spec = MultistageSpec(type, acc, out, a_major, b_major, a_copy, b_copy, mma, *tiles[0][:6])
    if mma != "fma":
        return spec
    is_smem_transposed = type.nbytes == 8 or (type.nbytes == 4 and not is_small)
    promotion = PROMOTION if acc in (f32, c64) and is_promoted else 0
    return spec.replace(is_smem_transposed=is_smem_transposed, promotion=promotion)


@lru_cache(MAX_KEPT)
def _legal_tiles(spec: MultistageSpec, limits: _Limits) -> tuple[MeasuredTile, ...]:
    """The tiles of the cost model that are legal for a Spec, whatever its own tile config."""
    _, tiles = measured_tiles(spec.type, spec.acc, limits)
    return tuple([t for t in tiles if tile_config.is_legal(spec.with_config(t.config()), limits)])


@lru_cache(MAX_KEPT)
def configured(
    spec: MultistageSpec, config: TileConfig, out: Type, num_batch: int, *, is_guarded: bool = False
) -> MultistageSpec:
    """The Spec with a tile config, for batches of so many loops; with split-K, of partial products."""
    is_split_k = config.split_k > 1
    return spec.with_config(config).replace(
        out=spec.acc if is_split_k else out, num_batch=num_batch, is_split_k=is_split_k, is_guarded=is_guarded
    )


def config_of(
    spec: MultistageSpec, problem: tuple[int, int, int, int], device: Device, *, may_split: bool = True
) -> TileConfig:
    """The tile config that was measured to be best, or that the cost model expects to take the least time."""
    choice = _choice(
        spec, problem, _known_processors(device.cc, device.max_shared_nbytes, device.num_sms), may_split=may_split
    )
    config: TileConfig = choice.default() if spec.is_triangle_only else decide(choice, device)
    return config


@lru_cache(MAX_KEPT)
def _choice(
    spec: MultistageSpec, problem: tuple[int, int, int, int], device: _Processors, *, may_split: bool
) -> Choice:
    """The tile configs of a product, of which the cost model is asked once."""
    counts = split_counts(problem[3]) if may_split else (1,)

    def is_legal(config: TileConfig) -> bool:
        return tile_config.is_legal(spec.with_config(config), device) and (
            config.split_k == 1 or (may_split and 1 < config.split_k <= min(MAX_SPLIT_K, problem[3] // MIN_SPLIT_DEPTH))
        )

    def ways() -> list[tuple[float, MeasuredTile, int]]:
        return expected(problem, _legal_tiles(spec, _limits(device)), counts, spec, device)

    @cache
    def best() -> TileConfig:
        _, tile, split_k = min(ways(), key=itemgetter(0))
        return tile.config(split_k)

    def candidates() -> Iterator[TileConfig]:
        for _, tile, split_k in sorted(ways(), key=itemgetter(0)):
            yield tile.config(split_k)
        tiles = [
            config
            for config in tile_config.all_configs()
            if is_legal(config) and tile_config.is_brief(spec.with_config(config))
        ]
        for split_k in counts:
            yield from (config._replace(split_k=split_k) for config in tiles)

    key, layout = (spec.type.name, spec.acc.name), (spec.a_major, spec.b_major)
    return Choice("matmul/multistage", key, layout, problem, TileConfig, is_legal, best, candidates)


def guarded(spec: MultistageSpec, problem: tuple[int, int, int, int], device: Device) -> MultistageSpec:
    """The Spec of the guarded kernel with the tile config that takes the least time."""
    return _guarded(spec, problem, _known_processors(device.cc, device.max_shared_nbytes, device.num_sms))


@lru_cache(MAX_KEPT)
def _guarded(spec: MultistageSpec, problem: tuple[int, int, int, int], device: _Processors) -> MultistageSpec:
    ways = expected(problem, _legal_tiles(spec, _limits(device)), (1,), spec, device, are_meant=False)
    _, _, tile = min([(tile.max_side > 0, time, tile) for time, tile, _ in ways], key=itemgetter(0, 1))
    return configured(spec, tile.config(), spec.out, 0, is_guarded=True)
