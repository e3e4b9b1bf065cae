"""Plans of products by mma.sync on Hopper, of f64, c128 and f32, and of f32 and c64 in bf16x3; their cost model.

TMA reads matrices whose lines begin at multiples of 16 bytes. Other matrices, and products that are too small for these
tiles, are left to the multistage kernels.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.choice import Choice, decide, nominal
from oxinp._kernels.gemm.operand import StridedBatch
from oxinp._kernels.gemm.sm90_mma import kernel as mma_kernel
from oxinp._kernels.gemm.sm90_mma import stacked
from oxinp._kernels.gemm.sm90_mma.spec import MmaSpec
from oxinp._kernels.gemm.sm90_mma.stacked import SIDE, StackedSpec
from oxinp._kernels.plan import Plan, Work
from oxinp._ptx.tma import ALIGN, SWIZZLE_NBYTES
from oxinp._ptx.types import c64, c128, f32, f64

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oxinp._kernels.choice import Device
    from oxinp._kernels.gemm.epilogue import EpilogueSpec
    from oxinp._kernels.gemm.operand import Source
    from oxinp._kernels.gemm.sm90_mma.staged import StagedEpilogue
    from oxinp._kernels.plan import Resized
    from oxinp._ptx.types import Type

ARCHITECTURE = (9, 0)
# Share of the multiprocessors that there have to be tiles for: of f64 and c128, in bf16x3, and of f32 or batches.
MIN_BUSY, MIN_BF16X3_BUSY, MANY = 0.12, 0.3, 0.6
MIN_FULL = 0.5  # share of the tiles that has to be inside C
# Multiply-adds below which multistage kernels are as fast; with an epilogue, by which these do not split K.
MIN_PRODUCTS, MIN_EPILOGUE_PRODUCTS = {f64: 1 << 24, c128: 1 << 19, f32: 1 << 29}, 1 << 19
MIN_BF16X3_EXTENT, MIN_BF16X3_PRODUCTS, MAX_BF16X3_WAVES = 128, 1 << 24, 2  # beyond, fp16x2 is faster
# Of multistage kernels with split-K, for products of few tiles: multiply-adds per second and multiprocessor, and their
# overhead in seconds beyond that of the kernels here.
SPLIT_K_RATES = {f32: (0.14e12, 3e-6), f64: (0.17e12, 3.5e-6), c128: (0.045e12, 3.5e-6)}
MIN_WARPS = 8  # small products per multiprocessor
RESERVED_NBYTES = 1024  # of shared memory, per block
MAX_KEPT = 4096  # Specs that are kept, of all products


# Elements of K after which f32 sums are promoted. Where C is more than a wave of tiles of `MAX_SIDE`, multistage
# kernels are faster, whose warps have larger tiles.
PROMOTION, MAX_SIDE = 256, 128


class MmaConfig(NamedTuple):
    """A config of the mma.sync kernels: fields of `MmaSpec`."""

    tile_m: int
    tile_n: int
    warp_m: int
    warp_n: int
    num_stages: int
    cluster: int
    blocks_per_sm: int
    num_k_groups: int = 1
    is_bf16x3: bool = False
    is_wgmma: bool = False


class MeasuredMma(NamedTuple):
    """A config with its measured rate, in multiply-adds per second and multiprocessor.

    `alone` is the share of the rate that a single tile on a multiprocessor reaches, `stepwise` that of a mainloop which
    is not unrolled; `overhead` are the seconds of a tile that its epilogue takes beside the multiply-adds.
    """

    config: MmaConfig
    rate: float
    alone: float = 1.0
    stepwise: float = 1.0
    overhead: float = 0.0


# Measured on the H200.
MEASURED = {
    f64: (
        MeasuredMma(MmaConfig(64, 128, 32, 32, 8, 2, 1), 0.238e12, 1.0, 0.97),
        MeasuredMma(MmaConfig(64, 64, 32, 32, 6, 1, 2), 0.22e12, 0.65),
        MeasuredMma(MmaConfig(32, 64, 16, 16, 8, 2, 2), 0.21e12, 0.95, 0.9),
        MeasuredMma(MmaConfig(32, 32, 16, 16, 8, 1, 3), 0.17e12, 0.5),
    ),
    c128: (
        MeasuredMma(MmaConfig(64, 64, 16, 16, 8, 2, 1), 0.0589e12, 1.0, 0.97),
        MeasuredMma(MmaConfig(48, 96, 24, 16, 8, 2, 1), 0.0592e12),
        MeasuredMma(MmaConfig(48, 64, 24, 16, 8, 2, 1), 0.057e12),
        MeasuredMma(MmaConfig(32, 64, 16, 16, 8, 2, 2), 0.0571e12, 1.0, 0.85),
        MeasuredMma(MmaConfig(32, 64, 16, 8, 8, 2, 1), 0.056e12),
        MeasuredMma(MmaConfig(32, 48, 16, 8, 8, 2, 1), 0.053e12),
        MeasuredMma(MmaConfig(24, 48, 8, 8, 8, 2, 1), 0.049e12),
        MeasuredMma(MmaConfig(16, 32, 8, 8, 8, 2, 1), 0.038e12),
        # For batches: clusters are whole.
        MeasuredMma(MmaConfig(64, 64, 16, 16, 8, 1, 1), 0.0585e12, 1.0, 0.97),
        MeasuredMma(MmaConfig(32, 32, 16, 16, 8, 1, 3), 0.045e12, 0.8),
    ),
    f32: (
        MeasuredMma(MmaConfig(64, 128, 32, 64, 6, 2, 1, num_k_groups=2), 0.161e12),
        MeasuredMma(MmaConfig(64, 64, 32, 64, 4, 2, 2, num_k_groups=2), 0.165e12, 0.6),
        MeasuredMma(MmaConfig(64, 128, 16, 64, 4, 1, 1, 1, is_bf16x3=True, is_wgmma=True), 0.3e12),
        MeasuredMma(MmaConfig(32, 64, 32, 32, 8, 1, 1, 2, is_bf16x3=True), 0.159e12),
        MeasuredMma(MmaConfig(16, 32, 16, 32, 8, 1, 1, 2, is_bf16x3=True), 0.087e12),
    ),
    c64: (  # as reals
        MeasuredMma(MmaConfig(64, 128, 16, 64, 4, 1, 1, 1, is_bf16x3=True, is_wgmma=True), 0.3e12),
        MeasuredMma(MmaConfig(32, 64, 32, 32, 6, 2, 2, 2, is_bf16x3=True), 0.179e12, 0.85),
        MeasuredMma(MmaConfig(32, 96, 16, 96, 8, 2, 1, 2, is_bf16x3=True), 0.167e12),
        MeasuredMma(MmaConfig(16, 64, 16, 32, 8, 2, 1, 2, is_bf16x3=True), 0.116e12),
    ),
}
# With an epilogue, tiles of the matrix that it reads take memory of the ring's.
WITH_EPILOGUE = {
    f64: (
        MeasuredMma(MmaConfig(64, 128, 32, 32, 6, 2, 1), 0.246e12, 1.0, 0.97, 1.9e-6),
        MeasuredMma(MmaConfig(64, 64, 32, 32, 4, 1, 2), 0.242e12, 0.65, 1.0, 1.1e-6),
        MeasuredMma(MmaConfig(32, 64, 16, 16, 8, 2, 2), 0.235e12, 0.95, 0.9, 0.6e-6),
        MeasuredMma(MmaConfig(32, 32, 16, 16, 8, 1, 3), 0.151e12, 0.5),
    ),
    c128: (
        MeasuredMma(MmaConfig(64, 64, 16, 16, 8, 2, 1), 0.0607e12, 1.0, 0.97, 2.8e-6),
        MeasuredMma(MmaConfig(32, 64, 16, 16, 4, 2, 2), 0.057e12, 1.0, 0.85, 1.5e-6),
        MeasuredMma(MmaConfig(32, 48, 16, 8, 8, 2, 1), 0.056e12, 1.0, 1.0, 1.1e-6),
        MeasuredMma(MmaConfig(16, 32, 8, 8, 8, 2, 1), 0.0388e12, 1.0, 1.0, 0.6e-6),
        MeasuredMma(MmaConfig(32, 32, 16, 16, 4, 1, 3), 0.0594e12, 0.8, 1.0, 0.7e-6),
    ),
}


def plan(
    a: Source, b: Source, device: Device, *, in_bf16x3: bool = False, epilogue: StagedEpilogue | None = None
) -> Plan | None:
    """Return the plan of C = A @ B in C order, of f64, c128, f32 or c64; None if the family is not faster.

    Parameters
    ----------
    a, b : Source
    device : Device
    in_bf16x3 : bool
        f32 or c64 are to be multiplied in bf16x3.
    epilogue : StagedEpilogue, optional
        Of f64 and c128 products.
    """
    if a.type is f32 and not in_bf16x3 and max(a.lines, a.run, b.lines, b.run) <= SIDE:
        return _plan_stacked(a, b, device)
    found = problem(a, b, device, in_bf16x3=in_bf16x3, epilogue=epilogue)
    return None if found is None else found.plan()


def problem(
    a: Source, b: Source, device: Device, *, in_bf16x3: bool = False, epilogue: StagedEpilogue | None = None
) -> Problem | None:
    """Return a product as the family sees it, where it has kernels for such; parameters as for `plan`."""
    if not _has_kernels(a, b, device):
        return None
    if a.type is c64:
        if not in_bf16x3 or (a.major, b.major) != ("k", "mn"):
            return None
        a, b = (x._replace(type=f32, run=2 * x.run, pitch=2 * x.pitch, distance=2 * x.distance) for x in (a, b))
        return Problem(a, b, (a.lines, b.run, a.run), device, in_bf16x3=True, is_complex=True)
    return Problem(a, b, _extents(a, b), device, in_bf16x3=in_bf16x3, epilogue=epilogue)


def _has_kernels(a: Source, b: Source, device: Device) -> bool:
    """Whether there may be kernels for operands that lie like this."""
    return device.cc == ARCHITECTURE and a.type is b.type and _is_readable(a) and _is_readable(b)


def _extents(a: Source, b: Source) -> tuple[int, int, int]:
    """M, N and K."""
    m, depth = (a.lines, a.run) if a.major == "k" else (a.run, a.lines)
    return m, b.lines if b.major == "k" else b.run, depth


def _is_readable(x: Source) -> bool:
    """Whether TMA can load an operand, and what lies behind its lines does not matter."""
    steps = (x.run if x.major == "k" else 0) | x.pitch | x.distance  # of which the lowest bits count
    is_aligned = not (x.alignment % ALIGN or steps * x.type.nbytes % ALIGN)
    return is_aligned and x.pitch >= x.run and x.distance >= 0 and not x.batch


def _batch(a: Source, b: Source) -> StridedBatch:
    return StridedBatch(a.num_c, *(x.distance * x.type.nbytes for x in (a, b)))


def _work(a: Source, b: Source, shape: tuple[int, int, int]) -> Work:
    m, n, depth = shape
    elements = a.num_c * m * n + sum(x.num_matrices * x.lines * x.run for x in (a, b))
    return Work((8 if a.type.is_complex else 2) * a.num_c * m * n * depth, elements * a.type.nbytes)


def _plan_stacked(a: Source, b: Source, device: Device) -> Plan | None:
    """The plan of many small f32 products, whose matrices are more than a quarter of what a warp multiplies."""
    shape = _extents(a, b)
    if not _has_kernels(a, b, device) or max(shape) <= SIDE // 2 or (a.major, b.major) != ("k", "mn"):
        return None
    if a.num_c < device.num_sms * MIN_WARPS or shape[1] * f32.nbytes % ALIGN:
        return None
    strides = (a.pitch * f32.nbytes, b.pitch * f32.nbytes)
    plan = stacked.plan(StackedSpec(), shape, device.num_sms, strides, _batch(a, b))
    return plan.with_work(_work(a, b, shape))


class _Structure(NamedTuple):
    """What the kernels of a product have in common; fields as in `MmaSpec`."""

    type: Type
    a_major: str
    b_major: str
    is_complex: bool
    promotion: int
    is_batched: bool
    is_paired: bool
    epilogue: EpilogueSpec | None


@lru_cache(MAX_KEPT)
def _spec(structure: _Structure, config: MmaConfig, num_rounds: int) -> MmaSpec:
    """Return the Spec of a config; K is a whole multiple of so many stages."""
    type_, a_major, b_major, is_complex, promotion, is_batched, is_paired, epilogue = structure
    promotion = 0 if config.is_bf16x3 else promotion
    spec = MmaSpec(type_, a_major, b_major, *config, is_complex, promotion, is_batched, is_paired, epilogue=epilogue)
    return spec.fitted(num_rounds * spec.depth)


@lru_cache(MAX_KEPT)
def _fits(spec: MmaSpec, max_shared_nbytes: int) -> bool:
    """Whether there is such a kernel, and a multiprocessor has room for its blocks."""
    try:
        spec.check()
    except ValueError:
        return False
    nbytes = spec.blocks_per_sm * (spec.shared_nbytes + RESERVED_NBYTES)
    return nbytes <= max_shared_nbytes + RESERVED_NBYTES


class _Way(NamedTuple):
    """What a legal config comes to for products of a structure and of a K.

    Attributes
    ----------
    config : MmaConfig
    rows : int
        Of the tiles of a cluster.
    num_sms : int
        Multiprocessors that clusters fill.
    alone : float
        How long a single tile on a multiprocessor takes, in shares of the next.
    seconds : float
        That the tiles of a multiprocessor take, for each of them.
    """

    config: MmaConfig
    rows: int
    num_sms: int
    alone: float
    seconds: float


_NOMINAL: dict[Any, Problem] = {}
_WAYS: dict[Any, tuple[_Way, ...]] = {}


class Problem:
    """A product, or a batch of such; a complex one in bf16x3 as a real one, see `MmaSpec`."""

    def __init__(
        self,
        a: Source,
        b: Source,
        shape: tuple[int, int, int],
        device: Device,
        *,
        in_bf16x3: bool = False,
        is_complex: bool = False,
        epilogue: StagedEpilogue | None = None,
    ) -> None:
        self.sources, self.shape, self.device, self.epilogue = (a, b), shape, device, epilogue
        self.in_bf16x3, self.is_complex = in_bf16x3, is_complex
        self.type = a.type
        self.count = a.num_c
        self.tile_depth = SWIZZLE_NBYTES // a.type.nbytes
        self.structure = _Structure(
            a.type,
            a.major,
            b.major,
            is_complex,
            PROMOTION if a.type is f32 and shape[2] > PROMOTION else 0,
            a.num_c > 1,
            epilogue is not None or shape[1] * a.type.nbytes % ALIGN == 0,
            None if epilogue is None else epilogue.spec,
        )
        self.choice: Choice | None = None  # of a nominal one

    def plan(self) -> Plan | None:
        """Return the plan; None where there are too few tiles, or too little work."""
        a, b = self.sources
        config = self.nominal(*self.shape[:2]).decided()
        if config is None:
            return None
        spec = self.spec(config)
        strides = (a.pitch * self.type.nbytes, b.pitch * self.type.nbytes)
        num_sms = self.device.num_sms
        batch = _batch(a, b) if spec.is_batched else None
        if self.epilogue is not None:
            m, n, _ = self.shape
            work = _work(a, b, self.shape)
            work = work._replace(nbytes=work.nbytes + self.count * m * n * self.type.nbytes)
            return mma_kernel.plan(spec, self.shape, num_sms, strides, batch, work, self.epilogue)
        if spec.is_batched:
            return mma_kernel.plan(spec, self.shape, num_sms, strides, batch, _work(a, b, self.shape))
        if self.is_complex:  # whose columns are real and imaginary parts
            return mma_kernel.plan(spec, self.shape, num_sms, strides, None, _work(a, b, self.shape))
        planned = mma_kernel.plan(spec, self.shape, num_sms, strides, None, _work(a, b, self.shape))
        return planned.resizing(mma_kernel.resizing(spec, self.shape[2], num_sms, strides))

    def resized(self, config: MmaConfig) -> Callable[[int, int], Resized] | None:
        """Return how products of any extents are launched with a config; None where no kernel has been made for it."""
        a, b = self.sources
        strides = a.pitch * self.type.nbytes, b.pitch * self.type.nbytes
        return mma_kernel.RESIZED.get((self.spec(config), self.shape[2], self.device.num_sms, strides))

    def decided(self) -> MmaConfig | None:
        """Return the config of a nominal product; None where other families are faster."""
        if self.choice is None:
            return None
        config: MmaConfig = decide(self.choice, self.device)
        return config if self.is_meant(config) else None

    @property
    def has_epilogue(self) -> bool:
        """Whether there is an epilogue."""
        return self.structure.epilogue is not None

    def nominal(self, m: int, n: int) -> Problem:
        """Return the product of nominal extents that one like this of others is computed like; with its k-blocks."""
        shape = nominal(m), nominal(n), -(-self.shape[2] // self.tile_depth) * self.tile_depth
        device = self.device
        key = (self.structure, self.in_bf16x3, self.count, shape, device.num_sms, device.max_shared_nbytes)
        found = _NOMINAL.get(key)
        if found is None:
            if len(_NOMINAL) >= MAX_KEPT:
                _NOMINAL.clear()
            found = _NOMINAL[key] = Problem.__new__(Problem)
            vars(found).update(vars(self), shape=shape)
            found.choice = found.asked()
        return found

    def asked(self) -> Choice | None:
        """Return the choice among the configs; None where none is faster than other families."""
        ranked = self.ranked()
        if not ranked:
            return None
        return Choice(
            "matmul/mma",
            (
                self.type.name,
                *("bf16x3",) * self.in_bf16x3,
                *("complex",) * self.is_complex,
                *("epilogue",) * self.has_epilogue,
            ),
            (self.structure.a_major, self.structure.b_major),
            (self.count, *self.shape),
            MmaConfig,
            self.is_legal,
            lambda: ranked[0],
            self.candidates,
        )

    def spec(self, config: MmaConfig) -> MmaSpec:
        """Return the kernel's Spec of a config."""
        # Rounds of the ring are all that depends on K.
        num_rounds = math.gcd(-(-self.shape[2] // self.tile_depth), config.num_stages)
        return _spec(self.structure, config, num_rounds)

    def is_legal(self, config: MmaConfig) -> bool:
        """Whether there is a kernel for a config that fits the device, and multiplies as asked."""
        return config.is_bf16x3 is self.in_bf16x3 and _fits(self.spec(config), self.device.max_shared_nbytes)

    def is_worth(self, config: MmaConfig) -> bool:
        """Whether configs like this one were measured to be faster than other families for such a product."""
        m, n, depth = self.shape
        num_products = self.count * m * n * depth
        if config.is_bf16x3:
            num_waves = 1 if self.is_complex else MAX_BF16X3_WAVES
            is_small = self.num_tiles(config) <= num_waves * self.device.num_sms * config.blocks_per_sm
            return is_small and min(self.shape) >= MIN_BF16X3_EXTENT and num_products >= MIN_BF16X3_PRODUCTS
        is_wave = self.count * -(-m // MAX_SIDE) * -(-n // MAX_SIDE) <= self.device.num_sms
        least = MIN_EPILOGUE_PRODUCTS if self.has_epilogue else MIN_PRODUCTS[self.type]
        return num_products >= least and (self.type is not f32 or is_wave)

    def is_meant(self, config: MmaConfig, num_tiles: int = 0) -> bool:
        """Whether there are tiles for most multiprocessors, and most of the tiles, which may be known, is inside C."""
        m, n, _ = self.shape
        num_tiles = num_tiles or self.num_tiles(config)
        is_full = self.count * m * n >= MIN_FULL * num_tiles * config.tile_m * config.tile_n
        busy = MIN_BF16X3_BUSY if config.is_bf16x3 else MANY if self.type is f32 else MIN_BUSY
        return is_full and num_tiles >= busy * self.device.num_sms

    def num_tiles(self, config: MmaConfig) -> int:
        """Return the number of tiles, in whole clusters."""
        m, n, _ = self.shape
        return self.count * -(-m // (config.tile_m * config.cluster)) * config.cluster * -(-n // config.tile_n)

    def ranked(self) -> list[MmaConfig]:
        """Return the legal configs with measured rates, the fastest first."""
        ways = self.ways()
        if not ways or not (self.in_bf16x3 or self.is_worth(ways[0].config)):  # which is the same for all then
            return []
        m, n, _ = self.shape
        most = math.inf if self.has_epilogue else self.multistage_seconds()  # which do not split K with an epilogue
        ranks = []
        for i, (config, rows, num_sms, alone, seconds_per_wave) in enumerate(ways):
            if self.in_bf16x3 and not self.is_worth(config):
                continue
            blocks_per_sm = config.blocks_per_sm
            num_tiles = self.count * -(-m // rows) * config.cluster * -(-n // config.tile_n)
            # In the last wave, blocks that have a multiprocessor for themselves run faster.
            full, rest = divmod(num_tiles, num_sms * blocks_per_sm)
            seconds = (full * blocks_per_sm + (max(-(-rest // num_sms), alone) if rest else 0)) * seconds_per_wave
            if seconds <= most or (self.count > 1 and self.is_busy_batch(config)):
                ranks.append((not self.is_meant(config, num_tiles), seconds, i))
        return [ways[i].config for *_, i in sorted(ranks)]

    def ways(self) -> tuple[_Way, ...]:
        """Return the legal configs with measured rates, and what they come to for this K."""
        device, (*_, depth) = self.device, self.shape
        key = self.structure, self.in_bf16x3, depth, device.num_sms, device.max_shared_nbytes
        found = _WAYS.get(key)
        if found is None:
            options = (WITH_EPILOGUE if self.has_epilogue else MEASURED)[c64 if self.is_complex else self.type]
            if len(_WAYS) >= MAX_KEPT:
                _WAYS.clear()
            found = _WAYS[key] = tuple([self.way(option) for option in options if self.is_legal(option.config)])
        return found

    def way(self, option: MeasuredMma) -> _Way:
        """Return what a config comes to for the k-blocks that there are."""
        config = option.config
        spec = self.spec(config)
        rate = option.rate * (option.stepwise if spec.unroll_k == 1 else 1)
        products = config.tile_m * config.tile_n * -(-self.shape[2] // spec.depth) * spec.depth
        cluster, seconds = config.cluster, products / rate + option.overhead
        num_sms = self.device.num_sms // cluster * cluster
        return _Way(config, config.tile_m * cluster, num_sms, 1 / option.alone, seconds)

    def is_busy_batch(self, config: MmaConfig) -> bool:
        """Whether it has tiles enough for a batch, which the multistage kernels then do not split along K."""
        return not self.in_bf16x3 and self.num_tiles(config) >= MANY * self.device.num_sms

    def multistage_seconds(self) -> float:
        """Return the expected time of the multistage kernels, which are faster for few tiles and large K."""
        rate, beside = SPLIT_K_RATES[self.type]
        return self.count * math.prod(self.shape) / (self.device.num_sms * rate) + beside

    def candidates(self) -> Iterator[MmaConfig]:
        """Yield the legal configs that tuning tries."""
        yield from self.ranked()
        tiles, warps = (16, 24, 32, 48, 64, 96, 128, 192), (8, 16, 24, 32, 48, 64)
        groups = (1, 2) if self.type is f32 else (1,)
        for sizes in product(tiles, tiles, warps, warps, (4, 6, 8, 12), (1, 2), (1, 2, 3)):
            for num_k_groups in groups:
                config = MmaConfig(*sizes, num_k_groups, self.in_bf16x3)
                if self.is_legal(config):
                    yield config


__all__ = ["MEASURED", "MeasuredMma", "MmaConfig", "Problem", "plan", "problem"]
