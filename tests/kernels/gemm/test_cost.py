"""What the cost models choose, against their straightforward evaluation: every candidate built, checked and timed."""

import math
import random
from typing import NamedTuple

import pytest

from oxinp._kernels.choice import nominal
from oxinp._kernels.gemm import select
from oxinp._kernels.gemm.multistage import choose, tile_config
from oxinp._kernels.gemm.multistage import cost as multistage_cost
from oxinp._kernels.gemm.multistage.spec import TileConfig
from oxinp._kernels.gemm.nearby import Nearby
from oxinp._kernels.gemm.operand import Matrices, sources
from oxinp._kernels.gemm.sm90_mma import plan as sm90_mma
from oxinp._kernels.gemm.sm90_mma.spec import MmaSpec
from oxinp._kernels.gemm.sm90_wgmma import cost as wgmma_cost
from oxinp._kernels.gemm.sm90_wgmma import plan as sm90_wgmma
from oxinp._kernels.plan import Argument, inputs, outputs
from oxinp._ptx.tma import ALIGN
from oxinp._ptx.types import bf16, c64, c128, f16, f32, f64, i8, i32, i64, u8


class Device(NamedTuple):
    num_sms: int
    cc: tuple[int, int]
    max_shared_nbytes: int

    def tuned(self, _):
        return None


H200, A100 = Device(132, (9, 0), 232448), Device(108, (8, 0), 166912)
EXTENTS = (1, 2, 5, 16, 17, 33, 64, 65, 100, 128, 192, 200, 256, 300, 384, 512, 777, 1000, 1024, 1500, 2048, 4096, 8192)


def problems(seed, types, count=150):
    """Yield random products."""
    draw = random.Random(seed)
    for _ in range(count):
        type_, *others = draw.choice(types)
        batch = draw.choice(((), (), (), (3,), (100,)))
        m, n, depth = draw.choices(EXTENTS, k=3)
        yield (
            (*batch, m, n),
            depth,
            matrices(draw, type_, batch, m, depth),
            matrices(draw, type_, batch, depth, n),
            others,
        )


def matrices(draw, type_, batch, rows, columns):
    """A random layout."""
    is_transposed, pad = draw.random() < 0.4, draw.choice((0, 0, 0, 4, 16))
    pitch = (rows if is_transposed else columns) + pad
    distance = pitch * (columns if is_transposed else rows) * draw.choice((1, 1, 0))
    strides = (*(distance for _ in batch), *((1, pitch) if is_transposed else (pitch, 1)))
    return Matrices(type_, strides, draw.choice((256, 256, 16)))


# -- multistage --------------------------------------------------------------------------------------------------------


def multistage_seconds(problem, tile, split_k, spec, device):
    count, m, n, depth = problem
    rows, columns = -(-m // tile.tile_m), -(-n // tile.tile_n)
    tiles = (rows * columns + max(rows, columns)) // 2 if spec.is_triangle_only else rows * columns
    tiles *= count * split_k
    full, rest = divmod(tiles, device.num_sms * tile.blocks_per_sm)
    waves = max(full * tile.blocks_per_sm + -(-rest // device.num_sms), 1 / tile.alone)
    steps = -(-depth // (split_k * tile.depth)) + tile.num_stages
    time = waves * tile.tile_m * tile.tile_n * steps * tile.depth / tile.rate
    if split_k > 1:
        nbytes = 2 * split_k * count * m * n * spec.acc.nbytes
        time += multistage_cost.SECONDS_PER_PASS + nbytes / multistage_cost.BYTES_PER_SECOND
    return time


def multistage_ranked(spec, problem, device):
    counts, split_k = [], 1
    while split_k == 1 or (split_k <= 16 and problem[3] >= multistage_cost.MIN_SPLIT_DEPTH * split_k):
        counts.append(split_k)
        split_k *= 2
    ways = [
        (multistage_seconds(problem, tile, split_k, spec, device), tile.config(split_k))
        for tile in multistage_cost.measured_tiles(spec.type, spec.acc, device)[1]
        if tile_config.is_legal(spec.with_config(tile.config()), device)
        and multistage_cost.is_meant(tile, problem, device)
        for split_k in counts
    ]
    return [config for _, config in sorted(ways, key=lambda way: way[0])]


@pytest.mark.parametrize("device", [H200, A100], ids=["H200", "A100"])
def test_multistage_choices(device):
    types = [(f64, f64), (c128, c128), (f32, f32), (c64, c64), (f16, f32), (i32, i32), (i64, i64), (i8, i32)]
    draw, seen = random.Random(1), set()
    for (*batch, m, n), depth, a, _, (acc,) in problems(2, types):
        problem = (math.prod(batch), m, n, depth)
        majors, copies = tuple(draw.choices(("k", "mn"), k=2)), (draw.choice((16, 8, 0)), draw.choice((16, 8, 0)))
        spec = choose.multistage_spec(a.type, acc, acc, majors, copies, problem, device)
        config = choose.config_of(spec, problem, device)
        assert isinstance(config, TileConfig)
        assert config == multistage_ranked(spec, problem, device)[0]
        seen.add((a.type, config))
    assert len(seen) > 20


# -- Hopper's MMA ------------------------------------------------------------------------------------------------------


def mma_ranked(product):
    """What `ranked` gives, of Specs that are made and checked each time."""
    a, b = product.sources
    device, depth = product.device, product.shape[2]

    def spec_of(config):
        promotes = product.type is f32 and not config.is_bf16x3 and depth > sm90_mma.PROMOTION
        return MmaSpec(
            product.type,
            a.major,
            b.major,
            *config,
            promotion=sm90_mma.PROMOTION if promotes else 0,
            is_complex=product.is_complex,
            is_batched=product.count > 1,
            is_paired=product.shape[1] * product.type.nbytes % ALIGN == 0,
        ).fitted(depth)

    def is_legal(config):
        if config.is_bf16x3 is not product.in_bf16x3:
            return False
        spec = spec_of(config)
        try:
            spec.check()
        except ValueError:
            return False
        nbytes = config.blocks_per_sm * (spec.shared_nbytes + sm90_mma.RESERVED_NBYTES)
        return nbytes <= device.max_shared_nbytes + sm90_mma.RESERVED_NBYTES

    def seconds(option):
        config, num_sms = option.config, device.num_sms // option.config.cluster * option.config.cluster
        full, rest = divmod(product.num_tiles(config), num_sms * config.blocks_per_sm)
        waves = full * config.blocks_per_sm + max(-(-rest // num_sms), 1 / option.alone if rest else 0)
        spec = spec_of(config)
        rate = option.rate * (option.stepwise if spec.unroll_k == 1 else 1)
        return waves * config.tile_m * config.tile_n * -(-depth // spec.depth) * spec.depth / rate

    options = sm90_mma.MEASURED[c64 if product.is_complex else product.type]
    legal = [x for x in options if product.is_worth(x.config) and is_legal(x.config)]
    legal = [
        x
        for x in legal
        if (product.count > 1 and product.is_busy_batch(x.config)) or seconds(x) <= product.multistage_seconds()
    ]
    for option in legal:
        assert product.spec(option.config) == spec_of(option.config)
    return [x.config for x in sorted(legal, key=lambda x: (not product.is_meant(x.config), seconds(x)))]


def test_mma_choices():
    seen = set()
    for shape, depth, a, b, (in_parts, is_complex) in problems(
        3, [(f64, False, False), (c128, False, False), (f32, False, False), (f32, True, False), (f32, True, True)], 400
    ):
        left, right = sources(shape, depth, a, b)[0]
        if not all(sm90_mma._is_readable(x) for x in (left, right)) or (is_complex and depth % 2):
            continue
        extents = (*shape[-2:], depth)
        product = sm90_mma.Problem(left, right, extents, H200, in_bf16x3=in_parts, is_complex=is_complex)
        ranked = product.ranked()
        assert ranked == mma_ranked(product)
        seen.update((a.type, config) for config in ranked[:1])
    assert len(seen) > 10


# -- wgmma -------------------------------------------------------------------------------------------------------------


def wgmma_seconds(option, problem, split_k, num_sms, *, is_serial_split_k=False):
    model = wgmma_cost
    tile = (model.TILE_M, option.tile_n)
    halves = 2 if option.shared == "c" else 1
    together = (option.cluster if option.shared == "b" else 1, option.cluster if option.shared == "a" else 1)
    tiles = model._tiles(option, problem)
    num_in_all = math.prod(tiles) * problem.num_matrices * split_k
    waves = -(-num_in_all // (num_sms // option.cluster))
    steps = -(-problem.depth_nbytes // (split_k * halves * model.DEPTH_NBYTES))
    if halves > 1 and waves > 1:
        return math.inf
    multiplying = waves * (
        model.SECONDS_PER_TILE + model.TILE_M * option.tile_n * steps * model.DEPTH_NBYTES / option.rate
    )
    moved, copying, lines_outside, lines_nbytes = float(problem.c_nbytes), 0.0, 0.0, 0.0
    num_blocks = min(num_sms, num_in_all * option.cluster)
    sides = zip(problem[:2], tiles, tiles[::-1], tile, together, together[::-1], strict=True)
    for side, num, others, x, y, multicast in sides:
        outside = (num * x * y - side.extent) // side.box * side.box / (num * y)
        nbytes = waves * steps * (x - outside) * model.DEPTH_NBYTES
        is_far = waves > 1 and side.nbytes > model.NEAR_NBYTES
        copying += nbytes / multicast / model.FAR_BYTES_PER_SECOND if is_far else nbytes / model.NEAR_BYTES_PER_SECOND
        is_shared = side.box == 1 and others > 1
        cost = model.COST_OF_LOW_TILES if x < model.TILE_M else model.COST_OF_SHARED_ROWS if is_shared else 1
        moved += side.nbytes * (cost if side.nbytes > model.NEAR_NBYTES else 1)
        lines_nbytes += nbytes / multicast * (model.COST_OF_TWO_LINES if side.is_unaligned else 1) * num_blocks
        lines_outside += waves * steps * outside / multicast
    bound = max(
        multiplying, copying, moved / model.MEMORY_BYTES_PER_SECOND, lines_nbytes / model.LINES_BYTES_PER_SECOND
    )
    seconds = option.seconds + bound + lines_outside * model.SECONDS_PER_LINE_OUTSIDE
    if is_serial_split_k:
        sums_nbytes = model.TILE_M * option.tile_n * model.SUM_NBYTES
        seconds += (split_k - 1) * (model.SECONDS_PER_SEMAPHORE + sums_nbytes / model.PARTIAL_BYTES_PER_SECOND)
    elif split_k > 1:
        seconds += model.SECONDS_PER_PASS + 2 * split_k * problem.sums_nbytes / model.PASS_BYTES_PER_SECOND
    return seconds


def one_by_one(option, problem, counts, max_serial, num_sms):
    """What `_seconds` of the cost model yields."""
    for split_k in counts:
        yield wgmma_seconds(option, problem, split_k, num_sms), split_k, False
    for split_k in range(2, max_serial + 1):
        yield wgmma_seconds(option, problem, split_k, num_sms, is_serial_split_k=True), split_k, True


def test_wgmma_choices(monkeypatch):
    types = [(f16, f16, f16), (bf16, f32, bf16), (i8, i32, i8), (u8, i32, u8), (f32, f32, f32)]
    products = []
    for shape, depth, a, b, (out, type_) in problems(4, types, 200):
        seen = sources(shape, depth, a, b)[0]
        if all(x.is_readable for x in seen):
            extents = (*shape[-2:], depth, math.prod(shape[:-2]))
            products.append(sm90_wgmma.WgmmaProduct(type_, out, seen, extents, H200))
    chosen = [product.preferred() for product in products]
    assert len(set(chosen)) > 10
    monkeypatch.setattr(wgmma_cost, "_seconds", one_by_one)
    for product, config in zip(products, chosen, strict=True):
        assert config == next(x for _, x in product.ways() if product.is_legal(x))


# -- other extents of the same structure -------------------------------------------------------------------------------


@pytest.mark.parametrize("type_", [f64, c128, f32, c64, i32], ids=str)
@pytest.mark.parametrize("majors", [("k", "mn"), ("mn", "mn"), ("k", "k")], ids=str)
def test_resized_plans_are_those_of_their_extents(type_, majors):
    draw, seen = random.Random(7), set()
    a_strides, b_strides = [
        (8192, 1) if major == way else (1, 8192) for major, way in zip(majors, ("k", "mn"), strict=True)
    ]
    a, b = Matrices(type_, a_strides, 256), Matrices(type_, b_strides, 256)

    def planned(m, n, depth):
        steps = select.plan_steps((m, n), depth, a, b, type_, H200, "native", 0)
        return steps or select.plan((m, n), depth, a, b, type_, type_, H200)

    for _ in range(12):
        m, n, depth = draw.choice((40, 130, 300, 700)), draw.choice((64, 128, 520)), draw.choice((64, 100, 512))
        first = planned(m, n, depth)
        for other in range(m - 20, m + 20, 3):
            if first.resized is not None and nominal(other) == nominal(m):
                kernel, grid, constants, maps, has_addresses = first.resized(other, n)
                launch = planned(other, n, depth).launch
                assert (kernel, grid, constants) == (launch.kernel, launch.grid, launch.constants)
                of_maps = [Argument(f"in{i}", 0, alike.spec(extents)) for i, (alike, extents) in enumerate(maps)]
                assert launch.arguments == (*outputs(1), *of_maps, *inputs(2 if has_addresses else 0))
                seen.add(first.launch.kernel.name)
    assert seen


@pytest.mark.parametrize("setting", ["auto", "native", "tf32"])
@pytest.mark.parametrize("device", [H200, A100], ids=["H200", "A100"])
@pytest.mark.parametrize("type_", [f64, c128, f32, c64, i32], ids=str)
def test_what_is_found_nearby_is_planned_alike(type_, device, setting):
    draw, num_found = random.Random(11), 0
    majors = draw.choice([("k", "mn"), ("mn", "mn"), ("k", "k")]) if setting == "tf32" else ("k", "mn")
    a_strides, b_strides = [
        (8192, 1) if major == way else (1, 8192) for major, way in zip(majors, ("k", "mn"), strict=True)
    ]
    a, b = Matrices(type_, a_strides, 256), Matrices(type_, b_strides, 256)

    def planned(m, n):
        steps = select.plan_steps((m, n), depth, a, b, type_, device, setting, 4 << 30)
        return steps or select.plan((m, n), depth, a, b, type_, type_, device)

    for depth in (64, 300, 2048):
        for n in (64, 400, 1200):
            planned(300, n)
            if not Nearby.serves(type_, type_, setting):
                continue
            nearby = Nearby((300, n), depth, a, b, type_, type_, device, setting)
            for m in (256, 260, *draw.choices(range(1, 1500), k=12)):
                found = nearby(m, n)
                if found is not None:
                    kernel, grid, constants, _, _ = found(m, n)
                    launch = planned(m, n).launch
                    assert (kernel, grid, constants) == (launch.kernel, launch.grid, launch.constants)
                    num_found += 1
                elif (plan := planned(m, n)).resized is not None:  # whose kernel has been made now
                    again = nearby(m, n)
                    assert again is not None or not is_found(type_, setting, m, n, depth)
                    assert again is None or again(m, n) == plan.resized(m, n)
    assert num_found or not Nearby.serves(type_, type_, setting)


def is_found(type_, setting, *extents):
    """Whether `Nearby` decides on extents of which no emulation is asked."""
    least = 1024 // (2 if type_ is c64 else 1)
    return setting == "native" or min(extents) < least - 16
