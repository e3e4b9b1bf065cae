"""f64 and c128 products by the Ozaki scheme: residues, CRT and guard on the emulator, the wgmma kernel in NumPy.

The whole, on the GPU, is `asv_benchmarks.kernels.ozaki`'s.
"""

import itertools
import random
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from asv_benchmarks.kernels import ozaki as program
from oxinp._kernels.gemm import select
from oxinp._kernels.gemm.operand import Source
from oxinp._kernels.gemm.ozaki import cost as ozaki_cost
from oxinp._kernels.gemm.ozaki import crt, guard, residues
from oxinp._kernels.gemm.ozaki import kernel as ozaki_kernel
from oxinp._kernels.gemm.ozaki import plan as ozaki
from oxinp._kernels.gemm.ozaki.moduli import COUNTS, MODULI, reconstruction
from oxinp._kernels.plan import Plan
from oxinp._ptx.types import c128, f64
from tests.kernels.gemm.guarded_case import H200_SHARED_NBYTES, GuardedPlan, fixture_of
from tests.kernels.gemm.ozaki.case import CASES, FIT, UNFIT, Reference, draw, embedded, multiply, order, signed_residues
from tests.kernels.machine import Emulated, execute, machine
from tests.thinned import thinned

DEVICE = SimpleNamespace(num_sms=4, cc=(9, 0), max_shared_nbytes=H200_SHARED_NBYTES, tuned=lambda _: None)
SHAPE = (17, 13, 514)
COMPLEX = {"normal", "uniform", "empty_lines", "spikes", "nan"}  # the real ones stand for the others
USUAL = {"uniform", "nan"}  # of the complex ones
OTHERS = {"constant", "lognormal", "decades", "opposite", "same_way", "spikes", "rectified", "sparse", "permuted"}
CASES_OF = [
    pytest.param(np.float64, case, marks=pytest.mark.slow if case.__name__ in {*OTHERS, "uniform"} else ())
    for case in CASES
]
CASES_OF += [
    pytest.param(np.complex128, case, marks=() if case.__name__ in USUAL else pytest.mark.slow)
    for case in CASES
    if case.__name__ in COMPLEX
]
MAJORS = list(itertools.product(("k", "mn"), repeat=2))


class OzakiPlan(GuardedPlan):
    """Of a product of residues, whose part for the wgmma kernel NumPy takes: never on a GPU."""

    def __init__(self, a, b, majors=("k", "mn"), workspace_nbytes=1 << 30):
        self.workspace_nbytes, self.num_products = workspace_nbytes, 0
        super().__init__(Emulated(), a, b, majors, a.itemsize)

    def planned(self, fallback):
        return ozaki.plan(*self.sources, fallback, DEVICE, self.workspace_nbytes)

    def multiply(self, step):
        c, count, a, b = step.arguments
        m, a_lines, b_lines = step.constants[3:]
        planes_per_modulus = 3 if self.dtype.kind == "c" else 1
        is_accumulated = step.kernel.name.endswith("_added")
        for number in range(self.read(count, np.int32, ()) * planes_per_modulus):
            p = MODULI[number // planes_per_modulus]
            planes = []
            for x, lines in ((a, a_lines), (b, b_lines)):
                pitch = x.map.shape[1]
                place = x._replace(offset=x.offset + number * lines * pitch)
                planes.append(self.read(place, np.int8, (lines, pitch)))
            result = multiply(planes[0][:m], planes[1], b_lines, p)
            place = c._replace(offset=c.offset + number * m * b_lines)
            if is_accumulated:
                result = ((self.read(place, np.uint8, result.shape).astype(int) + result) % p).astype(np.uint8)
            self.here.write(self.buffers[c.buffer] + place.offset, result)
            self.num_products += 1


planned = fixture_of(OzakiPlan)


def chained(a, b):
    """The product by fused multiply-adds, one after the other (rounded twice, to 64 bits first)."""
    total = np.zeros((len(a), b.shape[1]))
    a, b = a.astype(np.longdouble), b.astype(np.longdouble)
    for k in range(a.shape[1]):
        total = (a[:, k : k + 1] * b[k] + total).astype(np.float64)
    return total


def as_complex(parts, dtype):
    """What `embedded` matrices multiply to, as the product of the complex ones."""
    if dtype.kind != "c":
        return parts
    real, imaginary = np.split(parts, 2, axis=1)
    return real + 1j * imaginary


@pytest.mark.parametrize(("dtype", "case"), CASES_OF, ids=lambda x: x.__name__)
def test_errors_are_those_of_multiply_adds_or_less(planned, dtype, case):
    a, b = draw(case, np.random.default_rng(4), *SHAPE, dtype)
    plan = planned(a, b)
    plan.run()
    plan.check_guard(case.__name__, FIT, UNFIT)
    reference = Reference(a, b)
    error = reference.error(plan.result)
    assert error <= reference.depth
    assert (plan.num_products == 0) == plan.is_unfit
    if not plan.is_unfit:
        chain = as_complex(chained(*embedded(a, b)), plan.dtype)
        assert error <= max(reference.error(chain), 1)


@pytest.mark.parametrize(("majors", "dtype"), thinned(MAJORS, [np.float64, np.complex128]), ids=str)
def test_every_layout_gives_the_same_bits(planned, majors, dtype):
    a, b = draw(CASES[0], np.random.default_rng(3), *SHAPE, dtype)
    plans = [planned(a, b, *rest) for rest in ((majors,), (("k", "mn"),))]
    for plan in plans:
        plan.run()
    assert np.array_equal(*[plan.result for plan in plans])


# What there is room for, C being 100 x 70 and K 300: all of C and most of K, then less; how many products that makes.
ROOMS = {
    "ranges of K": ((100, 70, 256), 2, ("k", "mn")),
    "small ranges of K": ((100, 70, 128), 3, ("mn", "k")),
    "blocks": ((64, 70, 384), 2, ("k", "k")),
    "blocks and ranges of K": ((64, 64, 256), 2 * 2 * 2, ("mn", "mn")),
}


AT_ONCE = {("ranges of K", np.complex128), ("small ranges of K", np.float64), ("blocks and ranges of K", np.float64)}


@pytest.mark.parametrize(
    ("room", "dtype"),
    [
        pytest.param(*case, marks=() if case in AT_ONCE else pytest.mark.slow)
        for case in itertools.product(ROOMS, [np.float64, np.complex128])
    ],
    ids=str,
)
def test_workspaces_give_the_same_bits(planned, monkeypatch, room, dtype):
    config, num_products, majors = ROOMS[room]
    monkeypatch.setattr(ozaki_cost, "best_block_sizes", lambda *_: ozaki_cost.BlockSizes(*config))
    a, b = draw(CASES[0], np.random.default_rng(5), 100, 70, 300, dtype)
    parts = planned(a, b, majors)
    monkeypatch.undo()
    whole = planned(a, b)
    for plan in (whole, parts):
        plan.run()
    per_modulus = COUNTS[0] * (3 if dtype is np.complex128 else 1)
    assert (whole.num_products, parts.num_products) == (per_modulus, num_products * per_modulus)
    assert np.array_equal(whole.result, parts.result)


@pytest.mark.parametrize("depth", [1024, pytest.param(ozaki_kernel.MAX_DEPTH, marks=pytest.mark.slow)])
def test_depth_whose_sums_would_leave_32_bits(planned, monkeypatch, depth):
    assert ozaki_kernel.MAX_DEPTH * 2**7 * 2**7 <= 2**31  # of bytes with signs
    monkeypatch.setattr(ozaki_cost, "MAX_DEPTH", depth)
    rng, depth = np.random.default_rng(5), depth + 100
    a, b = rng.integers(2**18, 2**19, (2, depth)), rng.integers(2**7, 2**8, (depth, 1))
    plan = planned(a.astype(float), b.astype(float))
    plan.run()
    assert plan.num_products == 2 * COUNTS[0]
    assert np.array_equal(plan.result, a @ b)


@pytest.mark.parametrize("is_fit", [True, False])
def test_smallest_workspace(planned, monkeypatch, is_fit):
    monkeypatch.setattr(ozaki_cost, "STEP", 64)
    a, b = draw(CASES[0], np.random.default_rng(5), 70, 66, 200)
    if not is_fit:
        a[3, 190] = np.inf
    workspace_nbytes = 16 * (2 * 64 * 128 + 64 * 64) + 2**14
    plan = planned(a, b, ("k", "mn"), workspace_nbytes)
    plan.run()
    assert plan.plan.scratch_nbytes <= workspace_nbytes
    assert plan.is_unfit != is_fit
    assert plan.num_products == (2 * 2 * 2 * COUNTS[0] if is_fit else 0)
    whole = planned(a, b)
    whole.run()
    assert np.array_equal(plan.result, whole.result)


def test_integers_are_exact(planned):
    rng = np.random.default_rng(6)
    a, b = (rng.integers(-(2**20), 2**20, shape) for shape in ((24, 514), (514, 21)))
    plan = planned(a.astype(float), b.astype(float))
    plan.run()
    assert not plan.is_unfit
    assert np.array_equal(plan.result, a @ b)


def test_complex_integers_are_exact(planned):
    rng = np.random.default_rng(6)
    parts = [rng.integers(-(2**18), 2**18, shape) for shape in ((24, 514), (24, 514), (514, 21), (514, 21))]
    plan = planned(parts[0] + 1j * parts[1], parts[2] + 1j * parts[3])
    plan.run()
    assert not plan.is_unfit
    assert np.array_equal(plan.result.real, parts[0] @ parts[2] - parts[1] @ parts[3])
    assert np.array_equal(plan.result.imag, parts[0] @ parts[3] + parts[1] @ parts[2])


@pytest.mark.parametrize("count", [0, *COUNTS])
@pytest.mark.parametrize("is_spread", [False, True])
@pytest.mark.parametrize("major", ["k", "mn"])
def test_residues(major, is_spread, count):
    rng, here = np.random.default_rng(7), machine()
    lines, depth, num_lines = 70, 300, 128
    exponents = rng.integers(-70, -9, lines).astype(np.int32)
    numbers = rng.integers(-(2**62), 2**62, (lines, depth)) >> rng.integers(9, 62, (lines, 1))
    x = np.ldexp(numbers.astype(np.float64), -exponents[:, None])
    source = np.ascontiguousarray(np.pad(x if major == "k" else x.T, ((0, 0), (0, 3)), constant_values=np.nan))
    planes = np.zeros((len(MODULI), num_lines, residues.padded(depth)), np.int8)
    arrays = (planes, source, exponents, np.array([count], np.int32))
    pointers = [here.upload(array) for array in arrays]
    plan = residues.plan(residues.ResidueSpec(major, is_spread), lines, depth, source.shape[1], planes[0].size, 1)
    execute(here, plan, pointers[:1], pointers[1:])
    found = here.download(pointers[0], planes.nbytes).view(np.int8).reshape(planes.shape)
    numbers = np.rint(np.ldexp(x, exponents[:, None])).astype(np.int64)
    at = order(depth)
    wide = np.where(at < depth, numbers[:, np.minimum(at, depth - 1)], 0)
    within = np.arange(lines) % 64
    places = np.arange(lines) - within + ((within & 14) << 2) + ((within >> 4) << 1) + (within & 1)
    for number, p in enumerate(MODULI):
        expected = signed_residues(wide, p) if number < count else np.zeros_like(wide)
        assert np.array_equal(found[number, places if is_spread else slice(lines)], expected)
    for pointer in pointers:
        here.free(pointer)


@pytest.mark.parametrize("columns", [37, 64])
@pytest.mark.parametrize("count", COUNTS)
def test_reconstruction_rounds_once(count, columns):
    rng, here, numbers = np.random.default_rng(8), machine(), random.Random(8)
    rows, pitch, c_pitch = 5, 64, columns + columns % 2 * 3
    limit = int(reconstruction(count).product // 2 * (1 - 2.0**-20))

    def number():
        end = 2 ** numbers.randrange(1, limit.bit_length())
        return numbers.choice([numbers.randrange(-limit, limit), numbers.randrange(-end, end), 0, limit, -limit])

    values = np.array([[number() for _ in range(columns)] for _ in range(rows)], object)
    planes = np.zeros((len(MODULI), rows, pitch), np.uint8)
    for i, p in enumerate(MODULI[:count]):
        planes[i, :, :columns] = values % p
    exponents = [rng.integers(-400, 400, extent).astype(np.int32) for extent in (rows, columns)]
    c = np.full((rows, c_pitch), np.nan)
    pointers = [here.upload(array) for array in (c, planes, *exponents, np.array([count], np.int32))]
    source = crt.Residues(rows, columns, pitch, rows * pitch)
    for other in COUNTS:
        execute(here, crt.plan(other, source, c_pitch, 1), pointers[:1], pointers[1:])
    found = here.download(pointers[0], c.nbytes).view(np.float64).reshape(c.shape)
    powers = exponents[0][:, None] + exponents[1]
    expected = [
        [float(Fraction(value) * Fraction(2) ** -int(power)) for value, power in zip(*pair, strict=True)]
        for pair in zip(values, powers, strict=True)
    ]
    assert np.array_equal(found[:, :columns], expected)
    assert np.isnan(found[:, columns:]).all()
    for pointer in pointers:
        here.free(pointer)


@pytest.mark.parametrize("count", COUNTS)
def test_weights(count):
    product, weights, limit = reconstruction(count)
    assert limit**2 < product / 2
    for p, weight in zip(MODULI[:count], weights, strict=True):
        assert weight % p == 1
        assert weight % (product // p) == 0


@pytest.mark.parametrize(
    ("shape", "type_", "cc", "is_planned"),
    [
        ((4096, 4096, 4096), f64, (9, 0), True),
        ((2048, 2048, 2048), f64, (9, 0), False),
        ((2048, 2048, 2048), c128, (9, 0), True),
        ((8192, 8192, 1023), f64, (9, 0), False),
        ((16384, 16384, 1024), f64, (9, 0), False),
        ((1024, 1024, 8192), f64, (9, 0), False),
        ((4096, 4096, 4096), f64, (8, 0), False),
        ((4096, 4096, 4096), f64, (10, 0), False),
    ],
)
def test_planned_kernels(shape, type_, cc, is_planned):
    m, n, depth = shape
    device = SimpleNamespace(num_sms=132, cc=cc, max_shared_nbytes=H200_SHARED_NBYTES, tuned=lambda _: None)
    a, b = select.Matrices(type_, (depth, 1), 256), select.Matrices(type_, (n, 1), 256)
    for setting in ("auto", "native"):
        plan = select.plan_steps((m, n), depth, a, b, type_, device, setting, 4 << 30)
        assert (plan is not None and plan.is_guarded) == (is_planned and setting == "auto")
    plan = select.plan_steps((m, n), depth, a, b, type_, device, "auto", 1 << 20)
    assert plan is None or not plan.is_guarded


def test_workspace_and_depth_that_do_not_suffice():
    source = [Source(buffer, f64, "k", 4096, 4096, 4096, 0, 1, 256) for buffer in ("in0", "in1")]
    assert ozaki.plan(*source, None, DEVICE, 1 << 20) is None
    deep = [Source(buffer, f64, "k", 1024, guard.MAX_TERMS + 1, 1 << 22, 0, 1, 256) for buffer in ("in0", "in1")]
    assert ozaki.plan(*deep, None, DEVICE, 1 << 40) is None


SHAPES = [
    (16384, 16384, 16384),
    (8192, 8192, 8192),
    (1024, 60000, 8192),
    (60000, 1024, 65536),
    (2048, 2048, 131072),
    (1025, 1337, 1_000_000),
]


@pytest.mark.parametrize(
    "workspace_nbytes", [4 << 30, 1 << 30, 256 << 20, pytest.param(32 << 20, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("type_", [f64, c128], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_workspace_is_what_was_allowed_at_most(shape, type_, workspace_nbytes):
    m, n, depth = shape
    sources = [
        Source("in0", type_, "k", m, depth, depth, 0, 1, 256),
        Source("in1", type_, "mn", depth, n, n, 0, 1, 256),
    ]
    plan = ozaki.plan(*sources, Plan(()), DEVICE, workspace_nbytes)
    assert plan.scratch_nbytes <= workspace_nbytes
    config = ozaki_cost.best_block_sizes(type_, m, n, depth, workspace_nbytes)
    assert config.chunk <= ozaki_kernel.MAX_DEPTH
    # The planes take most of it, unless all of them fit.
    planes = 16 * (3 if type_.is_complex else 1) * sum(config.sizes)
    is_whole = config[:2] == (m, n) and config.chunk in (residues.padded(depth), ozaki_kernel.MAX_DEPTH)
    assert is_whole or planes >= workspace_nbytes // 3


@pytest.mark.parametrize(
    ("shape", "workspace_nbytes", "config"),
    [
        ((8192, 8192, 8192), 4 << 30, (8192, 8192, 8192)),
        ((2048, 2048, 131072), 4 << 30, (2048, 2048, 43776)),
        ((2048, 2048, 131072), 8 << 30, (2048, 2048, 65536)),
    ],
)
def test_depth_is_split_first(shape, workspace_nbytes, config):
    assert ozaki_cost.best_block_sizes(f64, *shape, workspace_nbytes) == config


def test_small_workspaces_leave_products_to_multiply_adds():
    gains = [ozaki_cost.expected_gain(f64, 8192, 8192, 8192, nbytes) for nbytes in (4 << 30, 1 << 30, 1 << 25, 1 << 20)]
    assert gains == sorted(gains, reverse=True)
    assert gains[1] > select.MIN_OZAKI_GAIN > gains[2] > gains[3] == 0


@pytest.mark.hopper
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_against_twice_the_precision(case, monkeypatch):
    monkeypatch.setattr(select, "MIN_OZAKI_GAIN", 0)
    assert program.check(machine().backend, case, (False, True), np.random.default_rng(8), None)
