"""Tile configs of the multistage kernels: which are legal on a device, and which compile fast enough to be tried."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from oxinp._kernels.gemm.multistage.spec import MMA_SHAPES, SECTOR_NBYTES, WARP, TileConfig
from oxinp._kernels.gemm.multistage.warp_mma import WARP_MMAS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxinp._kernels.choice import Limits
    from oxinp._kernels.gemm.multistage.spec import MultistageSpec

MAX_THREADS, MAX_REGISTERS, SM_REGISTERS = 1024, 255, 65536
MAX_UNROLLED = 1024  # multiply-adds of a thread per k-block, which is unrolled
OTHER_REGISTERS = 40  # beside accumulators and fragments


def all_configs() -> Iterator[TileConfig]:
    """Yield the tile configs that tuning tries, legal or not."""
    tiles, warps = (32, 64, 128, 256), (8, 16, 32, 64)
    for sizes in product(tiles, tiles, warps, warps, (8, 16, 32, 64), (2, 3, 4, 5, 6)):
        yield TileConfig(*sizes)


def is_legal(spec: MultistageSpec, device: Limits) -> bool:
    """Return whether a Spec has a kernel, and that fits a multiprocessor without spills as far as can be told."""
    if min(spec.tile_m, spec.tile_n, spec.warp_m, spec.warp_n, spec.depth) < 1:
        return False
    shape, threads = MMA_SHAPES[spec.mma], spec.num_threads
    if spec.tile_m % spec.warp_m or spec.tile_n % spec.warp_n or not WARP <= threads <= MAX_THREADS:
        return False
    if (
        spec.promotion % spec.depth
        or spec.num_stages < 2
        or any(
            size % step
            for size, step in zip(
                (spec.warp_m, spec.warp_n, spec.depth), (shape.height, shape.width, shape.step), strict=True
            )
        )
    ):
        return False
    for major, extent, copy in ((spec.a_major, spec.tile_m, spec.a_copy), (spec.b_major, spec.tile_n, spec.b_copy)):
        # A row of a tile is copied by consecutive threads.
        run, chunk = spec.depth if major == "k" else extent, max(1, copy // spec.type.nbytes)
        if spec.is_smem_transposed and major == "k":
            run, chunk = SECTOR_NBYTES // spec.type.nbytes, 1
            if spec.depth % run:
                return False
        if run % chunk or threads % (run // chunk):
            return False
    sums = spec.warp_m * spec.warp_n // WARP
    words = max(1, spec.acc.nbytes // 4)
    registers = words * (sums + WARP_MMAS[spec.mma].num_held(spec)) + OTHER_REGISTERS
    return registers <= min(MAX_REGISTERS, SM_REGISTERS // threads) and spec.shared_nbytes <= device.max_shared_nbytes


def is_brief(spec: MultistageSpec) -> bool:
    """Return whether the kernel, whose k-block is unrolled, compiles within a quarter of a second (on the H200)."""
    weight = 4.0 if spec.acc.is_complex or (spec.acc.is_integer and spec.acc.bits > 32) else 1.0
    if MMA_SHAPES[spec.mma].step > 1:  # an instruction does several multiply-adds of a thread
        weight /= 2
    return spec.warp_m * spec.warp_n // WARP * spec.depth * weight <= MAX_UNROLLED


__all__ = ["all_configs", "is_brief", "is_legal"]
