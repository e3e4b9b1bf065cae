"""Matrix products on the device against NumPy's: shapes, dtypes, layouts, errors, and where they ran."""

# ruff: noqa: ICN001, ARG005 - oxinp is np, programs of one signature

import contextlib
import itertools
import operator

import numpy
import pytest

import oxinp as np
from oxinp._core.memory.recent import MEETINGS
from oxinp._core.ops import matmul as by_layouts
from oxinp._core.ops import product as by_tiles
from oxinp._core.ops import vector_product
from oxinp._kernels.blas3 import plan as blas3
from oxinp._kernels.blas3.plan import plan_rank_k
from oxinp._kernels.gemm import select as kernels
from oxinp._kernels.gemm.fp16x2 import plan as fp16x2
from oxinp._kernels.gemm.ozaki import plan as ozaki
from oxinp._kernels.plan import SCRATCH, Fill, Plan
from tests.comparator import assert_same
from tests.core.matrices import draw
from tests.thinned import thinned

DTYPES = ["?", "i1", "u2", "i4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
SHAPES = [
    ((30, 40), (40, 20)),
    ((5, 30, 40), (40, 20)),
    ((40, 30), (5, 30, 40)),
    ((2, 1, 30, 40), (3, 40, 20)),
    ((40,), (40, 20)),
    ((3, 20, 40), (40,)),
    ((40,), (40,)),
    ((5, 40), (5, 40, 20)),
    ((1, 40), (40, 20)),
    ((30, 40), (40, 1)),
    ((3, 1), (1, 20)),
    ((1,), (1,)),
    ((0, 4), (4, 3)),
    ((3, 0), (0, 3)),
    ((0,), (0,)),
    ((64, 2000), (2000, 40)),
    ((129, 17), (17, 131)),
    ((5, 6, 1, 40), (40, 20)),
    ((5, 6, 3, 40), (1, 40, 20)),
    ((30, 40), (5, 6, 40, 1)),
]
LAYOUTS = {
    "plain": lambda x: x,
    "transposed": lambda x: x.swapaxes(-1, -2).copy().swapaxes(-1, -2) if x.ndim > 1 else x,
    "every second": lambda x: x[..., ::2],
    "backwards": lambda x: x[..., ::-1],
    "from the second": lambda x: x[..., 1:],
}


@pytest.fixture(autouse=True)
def on_device(config):
    config.offload_threshold = 0


def bound(dtype, depth):
    """Relative to the sum of magnitudes: halves are added in single precision, complex products are two."""
    single = numpy.finfo("f4").eps * depth
    eps = numpy.finfo(dtype).eps
    return {"f2": eps + single, "c8": 3 * (depth + 2) * eps, "c16": 3 * (depth + 2) * eps}.get(dtype, (depth + 2) * eps)


def assert_close(ours, exact, dtype, magnitude, depth):
    """Within the bound of a chain of FMAs; exact for all but floats."""
    got = numpy.asarray(ours)
    assert got.dtype == exact.dtype
    assert got.shape == exact.shape
    if numpy.dtype(dtype).kind not in "fc":
        numpy.testing.assert_array_equal(got, exact)
    else:
        assert (numpy.abs(got - exact) <= bound(dtype, depth) * magnitude).all()


def check(function, a, b, dtype):
    """`function(namespace, a, b)`, which multiplies."""
    wide = {"f": numpy.longdouble, "c": numpy.clongdouble}.get(numpy.dtype(dtype).kind, dtype)
    exact = function(numpy, a, b)
    magnitude = function(numpy, numpy.abs(a).astype(wide), numpy.abs(b).astype(wide)) if wide != dtype else 0
    if wide != dtype:
        exact = function(numpy, a.astype(wide), b.astype(wide)).astype(exact.dtype)
    before = np.cuda.stats().fallbacks
    result = function(np, np.asarray(a), np.asarray(b))
    np.evaluate(result)
    assert np.cuda.stats().fallbacks == before
    assert_close(result, exact, dtype, magnitude, a.shape[-1] if a.ndim else 1)


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_matmul_of_every_shape(shapes, dtype):
    rng = numpy.random.default_rng(1)
    check(lambda n, x, y: x @ y, *[draw(rng, shape, dtype) for shape in shapes], dtype)


@pytest.mark.parametrize(
    ("sides", "dtype"), thinned(list(itertools.product(LAYOUTS, repeat=2)), ["f4", "f8", "i8"]), ids=str
)
def test_matmul_of_every_layout(sides, dtype):
    left, right = sides
    rng = numpy.random.default_rng(2)
    sizes = {"every second": 80, "from the second": 41}
    a = draw(rng, (3, 33, sizes.get(left, 40)), dtype)
    b = draw(rng, (3, 40, 66), dtype)
    check(lambda n, x, y: n.matmul(LAYOUTS[left](x), LAYOUTS[right](y)), a, b, dtype)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda n, x, y: n.dot(x, y), ((3, 4, 5), (2, 5, 6))),
        (lambda n, x, y: n.dot(x, y), ((3, 4, 5), (5,))),
        (lambda n, x, y: x.dot(y), ((30, 40), (40, 20))),
        (lambda n, x, y: n.inner(x, y), ((3, 4, 5), (6, 5))),
        (lambda n, x, y: n.vdot(x, y), ((6, 5), (5, 6))),
        (lambda n, x, y: n.outer(x, y), ((6, 5), (7,))),
        (lambda n, x, y: n.vecdot(x, y), ((3, 4, 5), (4, 5))),
        (lambda n, x, y: n.tensordot(x, y, 1), ((3, 4, 5), (5, 6))),
        (lambda n, x, y: n.tensordot(x, y, ([1, 0], [0, 1])), ((3, 4, 5), (4, 3, 2))),
        (lambda n, x, y: n.tensordot(x, y, 0), ((3, 4), (2,))),
        (lambda n, x, y: n.linalg.multi_dot([x, y, x]), ((6, 5), (5, 6))),
        (lambda n, x, y: n.linalg.outer(x, y), ((6,), (7,))),
        (lambda n, x, y: n.linalg.vecdot(x, y, axis=0), ((5, 3), (5, 3))),
        (lambda n, x, y: n.linalg.vecdot(x, y), ((5, 3), (5, 3))),
        (lambda n, x, y: n.linalg.matmul(x, y), ((5, 3), (3, 5))),
        (lambda n, x, y: n.linalg.tensordot(x, y, axes=1), ((5, 3), (3, 5))),
        (lambda n, x, y: n.kron(x, y), ((5, 3), (3, 5))),
        (lambda n, x, y: n.dot(x, y, out=n.zeros((6, 6), n.result_type(x, y))), ((6, 5), (5, 6))),
        (lambda n, x, y: n.matmul(x, y, axes=[(0, 1), (1, 0), (1, 0)]), ((6, 5), (4, 5))),
        (lambda n, x, y: n.matmul(x, y, axes=[(0, 2), (-2, -1), (0, 1)]), ((6, 2, 5), (5, 4))),
        (lambda n, x, y: n.matmul(x, y, axes=[(0, 1), 0, 0]), ((6, 5), (5,))),
        (lambda n, x, y: n.vecdot(x, y, axis=0, keepdims=True), ((5, 3), (5, 3))),
        (lambda n, x, y: n.vecdot(x, y, keepdims=True), ((5,), (5,))),
        (lambda n, x, y: n.vecdot(x, y, axes=[0, 1]), ((5, 3), (3, 5))),
        (lambda n, x, y: n.vecdot(x, y, axes=[0, 1, 0], keepdims=True), ((5, 3), (3, 5))),
        (lambda n, x, y: n.matmul(x, y, order="F"), ((5, 3), (3, 5))),
    ],
)
@pytest.mark.parametrize("dtype", ["i8", "f8", "c8"])
def test_what_is_made_of_products(function, shapes, dtype):
    rng = numpy.random.default_rng(3)
    check(function, *[draw(rng, shape, dtype) for shape in shapes], dtype)


def test_complex_vectors_are_conjugated(twin):
    def body(n):
        a = (n.arange(12) + 1j * n.arange(12)[::-1]).reshape(3, 4).astype("c16")
        products = [n.vecdot(a, a[1]), n.vdot(a, a), n.linalg.vecdot(a, a, axis=0)]
        return [*products, n.matvec(a, a[0]), n.vecmat(a[:, 0], a)] if hasattr(numpy, "matvec") else products

    twin(body)


@pytest.mark.parametrize(
    "body",
    [
        lambda n, a: n.matmul(a, a.T, dtype="f4"),
        lambda n, a: n.matmul(a, a.T, dtype="i4", casting="unsafe"),
        lambda n, a: n.matmul(a, a.T, signature="ff->f"),
        lambda n, a: n.matmul(a, a.T, out=n.zeros((6, 6), "i8"), casting="unsafe"),
        lambda n, a: n.matmul(a, a.T, out=(n.zeros((6, 6)),), axes=[(0, 1), (0, 1), (1, 0)]),
        lambda n, a: n.matmul(a, a.T, order="F").strides,
        lambda n, a: n.matmul(a, a[0], axes=[(0, 1), 0, 0], dtype="f4"),
        lambda n, a: n.vecdot(a, a, keepdims=True).flags.owndata,
        lambda n, a: n.linalg.trace(a),
        lambda n, a: n.linalg.trace(a, offset=1, dtype="f4"),
        lambda n, a: n.linalg.diagonal(a, offset=-1),
        lambda n, a: n.trace(n.stack([a, a]), 1, 1, 2),
        lambda n, a: n.cross(a[:, :3], a[::-1, 1:4]),
        lambda n, a: n.cross(a[:3], a[1, :3], axisa=0),
        lambda n, a: n.linalg.cross(a[:, :3], a[::-1, 1:4]),
        lambda n, a: n.linalg.cross(a[:3], a[3:], axis=0),
        lambda n, a: n.dot(a, 3, out=n.zeros((6, 5))),
        lambda n, a: n.dot(a[0], a[1], out=n.zeros(())),
    ],
)
def test_nothing_goes_to_the_host(twin, stats, body):
    before = stats().fallbacks
    ours, _ = twin(lambda n: body(n, n.arange(30.0).reshape(6, 5)))
    assert not isinstance(ours, Exception)
    went = {name: n - before.get(name, 0) for name, n in stats().fallbacks.items() if name != "__array__"}
    assert not any(went.values())


def test_matrix_power(twin):
    twin(lambda n: n.linalg.matrix_power(n.arange(16).reshape(4, 4), 7))


def test_products_of_nothing_are_scalars(twin):
    twin(lambda n: [n.arange(0) @ n.arange(0), n.arange(0).dot(n.arange(0)), n.vdot(n.ones((2, 0)), n.ones((2, 0)))])


def test_result_goes_into_out(twin):
    def body(n):
        a, b = n.arange(12).reshape(3, 4), n.arange(20).reshape(4, 5)
        wide, part = n.zeros((2, 3, 5)), n.zeros((5, 7))
        n.matmul(a, b, out=wide)
        n.matmul(a, b, out=part[1:4, ::-1][:, 2:])
        square = n.arange(9).reshape(3, 3)
        n.matmul(square, square.T, square)
        square @= square
        return wide, part, square

    twin(body)


@pytest.mark.parametrize(
    "body",
    [
        lambda n, x: n.matmul(x, x),
        lambda n, x: x @ 2.0,
        lambda n, x: 2 @ x,
        lambda n, x: x @ n.ones((3, 5, 2, 9)),
        lambda n, x: n.ones((2, 3, 4)) @ n.ones((3, 4, 5)),
        lambda n, x: n.dot(x, n.ones((7, 7, 7))),
        lambda n, x: n.tensordot(x, x, 1),
        lambda n, x: n.inner(x, n.ones(3)),
        lambda n, x: n.matmul(x, x.T, out=n.zeros((5, 6))),
        lambda n, x: n.matmul(x, x.T, out=n.zeros((6, 6), int)),
        lambda n, x: n.dot(x, x.T, out=n.zeros((6, 6), "f4")),
        lambda n, x: n.linalg.matrix_power(x, 2),
        lambda n, x: n.matmul(x, x.T, axis=0),
        lambda n, x: n.matmul(x, x.T, axes=[(0, 1), (0, 1)]),
        lambda n, x: n.matmul(x, x.T, axes=[(0, 2), (0, 1), (0, 1)]),
        lambda n, x: n.matmul(x, x.T, axes=[(0, 1), (1, 0), (0, 1)]),
        lambda n, x: n.matmul(x, x.T, keepdims=True),
        lambda n, x: n.matmul(x, x.T, dtype="i4"),
        lambda n, x: n.matmul(x, x.T, dtype="f4", casting="no"),
        lambda n, x: n.matmul(x, x.T, order="Q"),
        lambda n, x: n.matmul(x, x.T, foo=1),
        lambda n, x: operator.imatmul(x, x[0]),
        lambda n, x: operator.imatmul(x[0], x[0]),
        lambda n, x: n.vecdot(x, x, axis=2),
        lambda n, x: n.vecdot(x, x, axis=0, axes=[0, 0]),
        lambda n, x: n.dot(x, x.T, out=n.zeros((6, 7))[:, :6]),
        lambda n, x: n.linalg.multi_dot([x]),
        lambda n, x: n.linalg.multi_dot([x, x]),
    ],
)
def test_errors_are_numpys(twin, body):
    twin(lambda n: body(n, n.arange(30.0).reshape(6, 5)))


def test_one_launch_for_a_matrix_and_for_a_vector(launches):
    a, x = np.asarray(numpy.ones((100, 60))), np.asarray(numpy.ones(60))
    assert launches(lambda: a @ a.T) == 1
    assert launches(lambda: (a + 1) @ x) == 1


@pytest.mark.parametrize(
    ("multiply", "shapes", "extents"),
    [
        (lambda n, x, y: x @ y, ((5, 6, 1, 40), (40, 20)), (30, 40, 20)),
        (lambda n, x, y: x @ y, ((5, 6, 3, 40), (1, 40, 20)), (90, 40, 20)),
        (lambda n, x, y: x.transpose(1, 0, 2, 3) @ y, ((5, 6, 1, 40), (40, 20)), (30, 40, 20)),
        (lambda n, x, y: x @ y, ((20, 40), (5, 6, 40, 1)), (30, 40, 20)),
        (lambda n, x, y: n.matvec(x, y), ((20, 40), (5, 6, 40)), (30, 40, 20)),
        (lambda n, x, y: n.vecmat(x, y), ((5, 6, 40), (40, 20)), (30, 40, 20)),
    ],
)
@pytest.mark.parametrize("dtype", ["f4", "c16", "i8"])
def test_a_matrix_that_a_stack_shares_is_multiplied_once(multiply, shapes, extents, dtype, monkeypatch):
    products, launch = [], by_layouts.launch
    monkeypatch.setattr(by_layouts, "launch", lambda product, *args: products.append(product) or launch(product, *args))
    rng = numpy.random.default_rng(11)
    check(multiply, *[draw(rng, shape, dtype) for shape in shapes], dtype)
    assert [(*product.left.shape, product.right.shape[1]) for product in products] == [extents]


@pytest.mark.parametrize("turned", [False, True])
def test_chains_that_are_multiplied_by_vectors_again_are_computed_once(turned, stats):
    a = numpy.random.default_rng(12).random((100, 60))
    ours, x = np.asarray(a), np.asarray(numpy.ones(100 if turned else 60))
    matrix, before = ours / 3, stats().launches
    counts = []
    for _ in range(3):
        np.evaluate(x @ matrix if turned else matrix @ x)
        counts.append(stats().launches - before)
        assert not matrix._storage.value[0].nodes if len(counts) > 1 else matrix._storage.value[0].nodes
    assert counts == [1, 3, 4]
    assert_same(np.asnumpy(matrix), a / 3)


def test_chains_before_a_product_are_computed_once(launches):
    a = np.asarray(numpy.ones((100, 60)))

    def body():
        chain = a + 1
        return chain @ chain.T, chain

    assert launches(body) == 2


def without_tensor_cores(plan):
    """The plan without the kernel that the emulator has no units for."""
    return plan.replace(steps=tuple(s for s in plan.steps if s.kernel.target != "sm_90a"))


@pytest.fixture
def splits(monkeypatch):
    """Let f32 and c64 products of 40 and more be planned as on Hopper, without the tensor cores' part; the plans."""
    plans, original = [], kernels.plan_fp16x2

    def plan_fp16x2(shape, depth, a, b, device, _):
        hopper = device.replace(cc=(9, 0))
        plan = original(shape, depth, a, b, hopper)
        if plan is not None:
            plans.append(plan)
            return without_tensor_cores(plan)
        return None

    monkeypatch.setattr(fp16x2, "MIN_EXTENT", 40)
    monkeypatch.setattr(kernels, "MIN_FP16X2_PRODUCTS", 40**3)
    monkeypatch.setattr(kernels, "plan_fp16x2", plan_fp16x2)
    return plans


def operands(m=50, n=44, depth=61, dtype="f4"):
    rng = numpy.random.default_rng(1)
    num_parts = numpy.dtype(dtype).itemsize // 4
    a, b = (rng.standard_normal((*shape, num_parts), "f4") for shape in ((m, depth), (depth, n)))
    return a.view(dtype)[..., 0], b.view(dtype)[..., 0]


def assert_product(got, a, b):
    wide = "c16" if a.dtype.kind == "c" else "f8"
    with numpy.errstate(invalid="ignore"):
        expected = a.astype(wide) @ b.astype(wide)
    numpy.testing.assert_allclose(numpy.asarray(got), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["f4", "c8"])
@pytest.mark.parametrize("turned", [(False, False), (True, True)], ids=str)
def test_multiply_adds_do_what_halves_cannot(splits, turned, dtype):
    a, b = operands(dtype=dtype)
    a[:, 0], b[0] = 1e9, 0  # beside which nothing is left of the others
    x, y = (np.asarray(v.T.copy()).T if t else np.asarray(v) for v, t in zip((a, b), turned, strict=True))
    for _ in range(MEETINGS + 2):  # at first nothing is kept, the last time everything is prepared
        assert_product(x @ y, a, b)
    assert len(splits) <= MEETINGS + 1


def test_every_launch_is_accounted_for(splits):
    """The tensor cores' part, which has the flops, is not launched here; the bytes of all others are told of."""
    x, y = (np.asarray(v) for v in operands())
    np.evaluate(x @ y)
    with np.cuda.profiler.profile() as profile:
        np.evaluate(x @ y)
    (plan, *_) = splits
    told = [span.nbytes for span in profile.spans if span.kind == "kernel"]
    assert told == [each.work.nbytes for each in without_tensor_cores(plan).steps]
    assert sum(told) > 4 * (50 * 61 + 61 * 44)
    assert [each.work.flops for each in plan.steps if each.work.flops] == [2 * 50 * 44 * 61]


def test_native_turns_halves_off(splits, config):
    a, b = operands()
    config.matmul = "native"
    assert_product(np.asarray(a) @ np.asarray(b), a, b)
    assert not splits


@pytest.mark.parametrize("case", ["f8", "batch", "small"])
def test_others_stay_native(splits, case):
    a, b = operands(30 if case == "small" else 50)
    a = {"f8": a.astype("f8"), "batch": numpy.stack([a, a]), "small": a}[case]
    b = (numpy.stack([b, b]) if case == "batch" else b).astype(a.dtype)
    assert_product(np.asarray(a) @ np.asarray(b), a, b)
    assert not splits


def test_without_memory_for_halves_there_is_a_way(monkeypatch):
    a, b = operands(51, 43, 62)
    monkeypatch.setattr(kernels, "plan_fp16x2", lambda *_: Plan((Fill(SCRATCH, 4, 0),), 1 << 50))
    assert_product(np.asarray(a) @ np.asarray(b), a, b)


@pytest.fixture
def residues(monkeypatch):
    """Let f64 and c128 products of 40 and more be planned as on Hopper; the plans made."""
    plans, original = [], kernels.plan_ozaki

    def plan_ozaki(shape, depth, a, b, device, workspace, _):
        hopper = device.replace(cc=(9, 0))
        plan = original(shape, depth, a, b, hopper, workspace)
        plans.append(plan)
        return plan and without_tensor_cores(plan)

    monkeypatch.setattr(ozaki, "MIN_EXTENT", 40)
    monkeypatch.setattr(kernels, "MIN_OZAKI_GAIN", 0)
    monkeypatch.setattr(kernels, "plan_ozaki", plan_ozaki)
    return plans


@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize("turned", [(False, False), (True, True)], ids=str)
def test_multiply_adds_do_what_bytes_cannot(residues, turned, dtype):
    a, b = (x.astype(dtype) for x in operands())
    a[3, 5] = numpy.inf
    x, y = (np.asarray(v.T.copy()).T if t else np.asarray(v) for v, t in zip((a, b), turned, strict=True))
    for _ in range(2):
        with numpy.errstate(invalid="ignore"):
            numpy.testing.assert_allclose(numpy.asarray(x @ y), a @ b, rtol=1e-13, atol=1e-13)
    assert len(residues) <= 2  # nothing is kept of sizes that are met once


def test_settings_turn_bytes_off(residues, config):
    a, b = (x.astype("f8") for x in operands())
    config.matmul = "native"
    numpy.testing.assert_allclose(numpy.asarray(np.asarray(a) @ np.asarray(b)), a @ b, rtol=1e-13, atol=1e-13)
    assert residues == []
    config.matmul, config.matmul_workspace = "auto", 1 << 10
    numpy.testing.assert_allclose(numpy.asarray(np.asarray(a) @ np.asarray(b)), a @ b, rtol=1e-13, atol=1e-13)
    assert residues == [None]


def test_without_memory_for_bytes_there_is_a_way(monkeypatch):
    a, b = (x.astype("f8") for x in operands(51, 43, 62))
    monkeypatch.setattr(kernels, "plan_ozaki", lambda *_: Plan((Fill(SCRATCH, 4, 0),), 1 << 50))
    numpy.testing.assert_allclose(numpy.asarray(np.asarray(a) @ np.asarray(b)), a @ b, rtol=1e-13, atol=1e-13)


def memory_of_product(x, y):
    """The product, and the most bytes that were needed beside it and the operands."""
    numpy.asarray(x @ y)  # brings them to the device
    np.cuda.reset_peak()
    product = x @ y
    found, stats = numpy.asarray(product), np.cuda.memory_stats()
    return found, stats.peak_nbytes - stats.used_nbytes


@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_bytes_take_the_workspace_that_is_allowed(residues, config, dtype):
    a, b = (x.astype(dtype) for x in operands(50, 60, 300))
    a[3, 5] = numpy.inf
    x, y = np.asarray(a), np.asarray(b)
    num_steps = []
    for config.matmul_workspace in (1 << 22, 1 << 20):
        with numpy.errstate(invalid="ignore"):
            product, nbytes = memory_of_product(x, y)
            numpy.testing.assert_allclose(product, a @ b, rtol=1e-13, atol=1e-13)
        assert residues[-1].scratch_nbytes <= nbytes <= config.matmul_workspace
        num_steps.append(len(residues[-1].steps))
    assert dtype == "f8" or num_steps[0] < num_steps[1]


@pytest.mark.hopper
@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_workspaces_bound_memory_and_leave_bits_alone(monkeypatch, config, dtype):
    monkeypatch.setattr(kernels, "MIN_OZAKI_GAIN", 0)
    rng = numpy.random.default_rng(3)
    a, b = (rng.standard_normal((1100, 2 * 70000)).view("c16" if dtype == "c16" else "f8") for _ in range(2))
    x, y = np.asarray(a[:, :70000]), np.asarray(b[:, :70000]).T
    products = []
    for config.matmul_workspace in (16 << 30, 1 << 30, 1 << 27, 1 << 24):
        product, nbytes = memory_of_product(x, y)
        assert 0 < nbytes <= config.matmul_workspace
        products.append(product)
    for other in products[1:]:
        numpy.testing.assert_array_equal(products[0], other)


@pytest.mark.hopper
@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_large_f64_products(dtype, config):
    rng = numpy.random.default_rng(3)
    a, b = (rng.standard_normal((3328, 2 * 3328)).view("c16" if dtype == "c16" else "f8") for _ in range(2))
    a, b = a[:, :3328], b[:, :3328]
    x, y = np.asarray(a), np.asarray(b)
    rows = slice(None, None, 311)
    with numpy.errstate(all="ignore"):
        exact = a[rows].astype("g" if dtype == "f8" else "G") @ b[:, rows].astype("g" if dtype == "f8" else "G")
    scale = numpy.abs(a[rows]) @ numpy.abs(b[:, rows])
    errors = {}
    for config.matmul in ("auto", "native"):
        errors[config.matmul] = (numpy.abs(numpy.asarray(x @ y)[rows, rows] - exact) / scale).max()
    assert errors["auto"] < errors["native"] < 1e-14


@pytest.mark.hopper
@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_products_wait_for_what_they_read(dtype):
    """Kernels that begin before those before them have ended, between others that do not."""
    n = 512
    a, b = (numpy.linalg.qr(draw(numpy.random.default_rng(i), (n, n), dtype))[0] for i in range(2))
    x, y = np.asarray(a), np.asarray(b)
    for i in range(12):
        a, x = a @ b, x @ y
        if i % 3 == 0:
            a, x = a - b, x - y
    numpy.testing.assert_allclose(numpy.asarray(x), a, rtol=0, atol=1e-11)


@pytest.mark.hopper
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize(
    "sides", [(256,) * 3, (384,) * 3, (512,) * 3, (640, 512, 520), (768,) * 3, (1024,) * 3], ids=str
)
def test_products_that_no_planner_may_get_wrong(sides, dtype):
    """Each size is of another kernel, or another tiling; chains of multiply-adds err by 5 units."""
    rng = numpy.random.default_rng(2)
    m, n, depth = sides
    a, b = (draw(rng, shape, dtype) for shape in ((m, depth), (depth, n)))
    wide = numpy.result_type(dtype, "g")
    got = numpy.asarray(np.asarray(a) @ np.asarray(b))[::17]
    a = a[::17]
    exact, scale = a.astype(wide) @ b.astype(wide), numpy.abs(a).astype("f8") @ numpy.abs(b)
    assert (numpy.abs(got - exact) / scale).max() < 4 * numpy.finfo(dtype).eps


@pytest.mark.hopper
@pytest.mark.parametrize("dtype", ["f4", "c8"])
@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False)], ids=str)
def test_large_products_of_halves(turned, dtype, config):
    a, b = operands(1500, 1640, 1310, dtype)
    wide = numpy.result_type(dtype, "f8")
    x, y = (np.asarray(v.T.copy()).T if t else np.asarray(v) for v, t in zip((a, b), turned, strict=True))
    exact, scale = a.astype(wide) @ b, numpy.abs(a).astype("f8") @ numpy.abs(b)
    errors = {}
    for config.matmul in ("auto", "native"):
        errors[config.matmul] = (numpy.abs(numpy.asarray(x @ y) - exact) / scale).max()
    assert errors["auto"] < errors["native"] < 1e-5


@pytest.mark.parametrize(("dtype", "shape"), thinned(["f4", "f8", "c8", "c16"], [(70, 33), (3, 40, 70)]), ids=str)
def test_a_matrix_by_its_own_transpose_is_computed_by_half(shape, dtype, monkeypatch):
    monkeypatch.setattr(by_tiles, "MIN_SYMMETRIC", 1)
    planned = []
    monkeypatch.setattr(blas3, "plan_rank_k", lambda *a, **k: planned.append(a[0]) or plan_rank_k(*a, **k))
    rng = numpy.random.default_rng(1)
    x = draw(rng, shape, dtype)
    a = np.array(x)
    turned = x.swapaxes(-1, -2)
    for left, right, expected in (
        (a, a.swapaxes(-1, -2), x @ turned),
        (a.swapaxes(-1, -2), a, turned @ x),
        (a[..., 1:, :], a[..., 1:, :].swapaxes(-1, -2), x[..., 1:, :] @ turned[..., 1:]),
    ):
        found = numpy.asarray(left @ right)
        numpy.testing.assert_allclose(found, expected, rtol=0, atol=numpy.abs(expected).max() * bound(dtype, shape[-1]))
        assert numpy.array_equal(found, found.swapaxes(-1, -2))
    assert len(planned) == 3
    for left, right, expected in (
        (a, a.conj().swapaxes(-1, -2) + 0, x @ turned.conj()),
        (a, np.array(x).swapaxes(-1, -2), x @ turned),
        (a[..., 1:, :], a[..., :-1, :].swapaxes(-1, -2), x[..., 1:, :] @ turned[..., :-1]),
    ):
        found = numpy.asarray(left @ right)
        numpy.testing.assert_allclose(found, expected, rtol=0, atol=numpy.abs(expected).max() * bound(dtype, shape[-1]))
    assert len(planned) == 3


@pytest.mark.parametrize("shape", [(), (1,), (2,), (2, 2), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("name", ["dot", "inner"])
def test_zeros_of_products_with_a_scalar_have_numpys_sign(name, dtype, shape):
    ones, zero = numpy.full(shape, -1, dtype), numpy.zeros((), dtype)
    for operands in ((zero, ones), (ones, zero)):
        got = getattr(np, name)(*map(np.asarray, operands))
        assert_same(got, getattr(numpy, name)(*operands))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c16"])
@pytest.mark.parametrize("name", ["dot", "inner", "vdot", "matmul", "vecdot", "tensordot"])
def test_negative_zeros_of_one_product_have_numpys_sign(name, dtype, twin):
    """NumPy's sums start from +0, but for the product of two elements."""
    shapes = [(1,), (1, 1), (2, 1), (1, 2), (1, 1, 1)]
    for left in shapes:
        for right in shapes:
            if dtype == "c16" and max(len(left), len(right)) > 1:
                continue  # the sign of a zero of complex matrix products is BLAS's choice
            twin(lambda n, a=left, b=right: getattr(n, name)(n.full(a, -0.0, dtype), n.ones(b, dtype)))
    if name == "tensordot":
        for axes in (0, 2):
            twin(lambda n, axes=axes: n.tensordot(n.full((1, 2), -0.0), n.ones((1, 2)), axes))


def test_an_output_of_another_dtype_is_refused_before_shapes(twin):
    twin(lambda n: n.matmul(n.ones((2, 3)), n.ones((2, 3)), out=n.ones(5, "?")))
    twin(lambda n: n.matmul(n.ones((2, 3)), n.ones((3, 2)), out=n.ones((2, 2), "i8")))


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16", "i4"])
def test_transposed_matrices_times_vectors_are_sums_along_columns_whichever_way_they_go(dtype, monkeypatch):
    rng = numpy.random.default_rng(9)
    products, multiply = [], vector_product.multiply
    monkeypatch.setattr(vector_product, "multiply", lambda *args: products.append(multiply(*args)) or products[-1])
    for rows, columns, used in ((40, 33, 33), (1000, 130, 130), (64, 200, 190), (700, 64, 33)):
        matrix = rng.standard_normal((rows, columns)).astype(dtype)
        vector = rng.standard_normal(rows).astype(dtype)
        ours, x = np.asarray(matrix) * 1, np.asarray(vector)
        np.evaluate(ours, x)
        waiting = ours[:, :used].T @ x
        assert products[-1] is not None
        summed = (ours + 0)[:, :used].T @ x  # of a pending matrix
        assert products[-1] is None
        assert_same(waiting, np.asnumpy(summed))
        magnitude = numpy.abs(matrix[:, :used].T) @ numpy.abs(vector)
        assert_close(waiting, matrix[:, :used].T @ vector, dtype, magnitude, rows)


@pytest.mark.parametrize("backend", [None, "host"])
def test_objects_before_one_that_raises_are_written(backend, twin):
    def body(np):
        a = np.ones((3, 3)).astype(object)
        b = a.copy()
        b[1, 1] = None
        out = np.zeros(3).astype(object)
        with contextlib.suppress(TypeError):
            np.vecdot(a, b, out=out)
        return out.tolist()

    with np.config.override(backend=backend or np.config.backend):
        twin(body)


def test_products_on_the_host_are_blas_own(config):
    """Of zeros and infinities it leaves out the former, depending on how the product is asked for."""
    config.offload_threshold = numpy.inf
    theirs = numpy.array([[0.0], [numpy.inf], [0.0]])
    ours = np.asarray(theirs)
    with numpy.errstate(invalid="ignore"):
        for name in ("inner", "dot"):
            given = (ours, ours[0]), (theirs, theirs[0])
            assert_same(*[getattr(xp, name)(*pair) for xp, pair in zip((np, numpy), given, strict=True)])
        assert_same(np.inner(ours[0], ours), numpy.inner(theirs[0], theirs))


def test_products_of_large_matrices_are_launched_at_once_where_the_device_has_nothing_to_do(stats, monkeypatch):
    matrix, vector = np.ones((300, 200)) * 0.5, np.ones(200) * 2.0
    np.evaluate(matrix, vector)
    for limit, launched in ((1, 1), (1 << 20, 0)):
        monkeypatch.setattr(vector_product, "EARLY_NBYTES", limit)
        assert float((vector + 1.0).sum()) == 600.0  # which is waited for
        before = stats().launches
        product = matrix @ vector
        assert stats().launches - before == launched
        assert_same(product * 2.0 + 1.0, numpy.full(300, 401.0))
        assert float((vector + 1.0).sum()) == 600.0
        pending, before = vector * 2.0, stats().launches
        product = matrix @ pending  # which is computed for it
        assert stats().launches - before == launched + 1
        assert_same(product, numpy.full(300, 400.0))
    monkeypatch.setattr(vector_product, "EARLY_NBYTES", 1)
    np.evaluate(vector + 1.0)  # which the device may be busy with
    before = stats().launches
    waiting = matrix @ vector
    assert stats().launches == before
    assert_same(waiting, numpy.full(300, 200.0))


def test_products_of_what_has_just_been_computed_are_planned_once(config, monkeypatch):
    config.offload_threshold = 0
    rng = numpy.random.default_rng(8)
    a, b, c = (rng.random(shape) for shape in ((70, 80), (80, 90), (70, 90)))
    planned = []
    for name in ("plan", "plan_steps"):
        made = getattr(kernels, name)
        monkeypatch.setattr(kernels, name, lambda *args, made=made, name=name: planned.append(name) or made(*args))
    for turn in range(3):
        del planned[:]
        given = [np.asarray(each) for each in (a, b, c)]
        np.evaluate(*given)
        found = 1.5 * given[0] @ given[1] + 1.2 * given[2]
        numpy.testing.assert_allclose(numpy.asarray(found), 1.5 * a @ b + 1.2 * c, rtol=1e-13)
        assert turn == 0 or "plan_steps" not in planned
