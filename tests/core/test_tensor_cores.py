"""Products on Hopper's tensor cores through `matmul`, against exact ones; and loops wider than their operands."""

# ruff: noqa: ICN001 - oxinp is np

import numpy
import pytest

import oxinp as np
from oxinp._kernels.gemm import select as kernels

# How a matrix is stored, and the view of that which is multiplied.
LAYOUTS = {
    "plain": (lambda x: x, lambda x: x),
    "transposed": (lambda x: x.swapaxes(-1, -2).copy(), lambda x: x.swapaxes(-1, -2)),
    "every second row": (lambda x: numpy.repeat(x, 2, axis=-2), lambda x: x[..., ::2, :]),
    "inside": (
        lambda x: numpy.pad(x, [(0, 0)] * (x.ndim - 2) + [(8, 0), (16, 32)]),
        lambda x: x[..., 8:, 16:-32],
    ),
    "off by one": (lambda x: numpy.pad(x, [(0, 0)] * (x.ndim - 1) + [(1, 0)]), lambda x: x[..., 1:]),
}
SHAPES = [
    ((200, 72), (72, 136)),
    ((201, 77), (77, 133)),
    ((1031, 520), (520, 1288)),
    ((64, 8200), (8200, 80)),
    ((100, 8200), (8200, 33)),
    ((3, 200, 72), (3, 72, 136)),
    ((3, 200, 96), (96, 136)),
    ((190, 96), (4, 96, 136)),
    ((5, 165, 170), (5, 170, 133)),
    ((2, 3, 64, 80), (2, 3, 80, 64)),
    ((300, 2, 2), (300, 2, 2)),
]


@pytest.fixture(autouse=True)
def on_device(config):
    config.offload_threshold = 0


@pytest.fixture
def plans(monkeypatch):
    """What was planned for tensor cores, None where that was refused."""
    made, original = [], kernels.plan_wgmma

    def plan_wgmma(*args):
        made.append(original(*args))
        return made[-1]

    monkeypatch.setattr(kernels, "plan_wgmma", plan_wgmma)
    return made


def draw(rng, shape, dtype):
    if numpy.dtype(dtype).kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    if dtype == "?":
        return rng.random(shape) < 0.05
    info = numpy.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def assert_product(got, a, b, unit):
    """Exact, or within `unit` and what the units cut off of the sum of magnitudes."""
    got = numpy.asarray(got)
    if unit is None:
        numpy.testing.assert_array_equal(got, numpy.matmul(a, b, dtype=got.dtype))
        return
    magnitude = numpy.abs(a).astype("f8") @ numpy.abs(b).astype("f8")
    depth = a.shape[-1]
    cut = (depth / 8 + 1) * 2.0**-21
    assert (numpy.abs(got - a.astype("f8") @ b.astype("f8")) <= (unit + cut) * magnitude).all()


@pytest.mark.hopper
@pytest.mark.parametrize("layouts", [*zip(LAYOUTS, LAYOUTS, strict=True), ("plain", "transposed")], ids=str)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["f2", "i1", "u1", "?", "f4"])
def test_products_on_tensor_cores(plans, config, dtype, shapes, layouts):
    if dtype == "f4":
        config.matmul = "tf32"
    rng = numpy.random.default_rng(sum(shapes[0]))
    a, b = (draw(rng, shape, dtype) for shape in shapes)
    x, y = (
        LAYOUTS[layout][1](np.asarray(LAYOUTS[layout][0](value))) for value, layout in zip((a, b), layouts, strict=True)
    )
    unit = {"f2": 2.0**-11, "f4": 2.0**-10}.get(dtype)
    for _ in range(2):  # the second time with everything prepared
        assert_product(x @ y, a, b, unit)
    if max(shapes[0]) >= 1000:
        assert plans[-1] is not None


@pytest.mark.hopper
@pytest.mark.parametrize("dtypes", [("i1", "i4"), ("u1", "i4"), ("u1", "u4")], ids=str)
@pytest.mark.parametrize("shapes", SHAPES[:7], ids=str)
def test_exact_sums_of_bytes(plans, dtypes, shapes):
    narrow, wide = dtypes
    a, b = (draw(numpy.random.default_rng(5), shape, narrow) for shape in shapes)
    got = np.matmul(np.asarray(a), np.asarray(b), dtype=wide)
    assert got.dtype == wide
    numpy.testing.assert_array_equal(numpy.asarray(got), numpy.matmul(a, b, dtype=wide))
    assert len(plans) == 1


@pytest.mark.hopper
@pytest.mark.parametrize("dtype", ["i2", "u2", "i4", "u4", "i8", "u8"])
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True)], ids=str)
@pytest.mark.parametrize("shape", [(701, 603, 700), (130, 128, 20001)], ids=str)
def test_wide_integers(plans, shape, turned, dtype):
    m, n, depth = shape
    rng = numpy.random.default_rng(10)
    a, b = draw(rng, (m, depth), dtype), draw(rng, (depth, n), dtype)
    x, y = (np.asarray(v.T.copy()).T if t else np.asarray(v) for v, t in zip((a, b), turned, strict=True))
    numpy.testing.assert_array_equal(numpy.asarray(x @ y), a @ b)
    assert plans[-1] is not None


@pytest.mark.hopper
@pytest.mark.parametrize("shapes", SHAPES[:9], ids=str)
def test_halves_summed_up_in_single_precision(plans, shapes):
    a, b = (draw(numpy.random.default_rng(11), shape, "f2") + numpy.float16(0.5) for shape in shapes)
    got = np.matmul(np.asarray(a), np.asarray(b), dtype="f4")
    assert got.dtype == "f4"
    exact, magnitude = a.astype("f8") @ b.astype("f8"), numpy.abs(a).astype("f8") @ numpy.abs(b).astype("f8")
    # As chains of multiply-adds, at most one rounding per term.
    assert (numpy.abs(numpy.asarray(got) - exact) <= shapes[0][-1] * 2.0**-24 * magnitude).all()
    assert len(plans) == 1


@pytest.mark.hopper
@pytest.mark.parametrize("dtype", ["f2", "i1"])
def test_stacks_in_another_order(plans, dtype):
    """As of attention: heads beside each other in memory."""
    rng = numpy.random.default_rng(13)
    stored = [draw(rng, (3, 200, 4, 64), dtype) for _ in range(2)]
    a, b = (x.swapaxes(1, 2) for x in stored)
    x, y = (np.asarray(v).swapaxes(1, 2) for v in stored)
    assert_product(x @ y.swapaxes(-1, -2), a, b.swapaxes(-1, -2), 2.0**-11 if dtype == "f2" else None)
    assert_product(x @ y[:1].swapaxes(-1, -2), a, b[:1].swapaxes(-1, -2), 2.0**-11 if dtype == "f2" else None)
    assert None not in plans


@pytest.mark.hopper
def test_blocks_that_go_on_with_the_tiles_of_others(plans):
    """Flags that they set for each other are shared by all products of the device."""
    rng = numpy.random.default_rng(14)
    a, b = (rng.integers(-1, 2, shape).astype("f2") for shape in ((192, 5000), (5000, 3000)))
    want = (a.astype("f4") @ b.astype("f4")).astype("f2")
    x, y = np.asarray(a), np.asarray(b)
    numpy.testing.assert_array_equal(numpy.asarray(x @ y), want)
    assert plans[-1].steps[0].kernel.name.endswith("_runs")
    with np.cuda.Graph.capture() as graph:
        captured = x @ y
        np.evaluate(captured)
    streams = [np.cuda.Stream() for _ in range(3)]
    for _ in range(3):
        results = []
        for stream in streams:
            with stream:
                results.append(x @ y)
                np.evaluate(results[-1])
        graph.launch()
        for result in (*results, captured):
            numpy.testing.assert_array_equal(numpy.asarray(result), want)


@pytest.mark.hopper
def test_infinite_and_missing_halves():
    a, b = (draw(numpy.random.default_rng(6), (256, 256), "f2") for _ in range(2))
    a[3, 5], a[7, 8], b[9, 100] = numpy.inf, numpy.nan, -numpy.inf
    a[12] *= 1000
    with numpy.errstate(all="ignore"):
        expected = (a.astype("f4") @ b.astype("f4")).astype("f2")
    got = numpy.asarray(np.asarray(a) @ np.asarray(b))
    numpy.testing.assert_array_equal(numpy.isnan(got), numpy.isnan(expected))
    numpy.testing.assert_array_equal(numpy.isinf(got), numpy.isinf(expected))


@pytest.mark.parametrize(
    "dtypes", [("i1", "i4"), ("u1", "i4"), ("u1", "u4"), ("i1", "i8"), ("u1", "f4"), ("f2", "f8")], ids=str
)
@pytest.mark.parametrize("shapes", [((30, 40), (40, 20)), ((2, 30, 40), (40, 20)), ((40,), (40, 20)), ((3, 1), (1, 4))])
def test_loops_wider_than_their_operands(twin, dtypes, shapes):
    narrow, wide = dtypes
    a, b = (draw(numpy.random.default_rng(7), shape, narrow) for shape in shapes)
    twin(lambda n: n.matmul(n.asarray(a), n.asarray(b), dtype=wide))


def test_narrow_operands_are_not_cast_first(launches):
    a, b = (np.asarray(draw(numpy.random.default_rng(8), (40, 40), "i1")) for _ in range(2))
    assert launches(lambda: np.matmul(a, b, dtype="i4")) == 1
    assert launches(lambda: np.matmul(a, b, dtype="i4", axes=[(1, 0), (0, 1), (0, 1)])) == 1
