"""Transforms along one axis, alone: lengths, layouts, passes, padding, directions."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from oxinp._kernels.fft import batch, convolved, kernel, tiling
from oxinp._kernels.fft import plan as plans
from oxinp._kernels.fft.axes import COMPLEX, HALF, REAL, Array, Problem, plan_axes
from oxinp._kernels.fft.codelets import MAX_PRIME, multiply
from oxinp._kernels.fft.plan import Transform, plan
from oxinp._kernels.fft.sides import Chained, Loop, Side
from oxinp._kernels.fft.spec import COLUMNS, RADER, SUMMED
from oxinp._kernels.plan import Argument
from oxinp._kernels.problem import Instr
from oxinp._ptx.kernel import traced_with
from oxinp._ptx.synchronize import GRID_WAIT
from oxinp._ptx.types import c64, c128, f32, f64, from_dtype
from tests.kernels.machine import Session, machine, root_of
from tests.thinned import thinned

DEVICE = SimpleNamespace(num_sms=2, cc=(8, 0), max_shared_nbytes=96 * 1024, tuned=lambda _: None)
SMALL = SimpleNamespace(num_sms=2, cc=(8, 0), max_shared_nbytes=8 * 1024, tuned=lambda _: None)
ERROR = {"F": 0.6e-7, "D": 1.1e-16}  # root mean square, per root of the number of binary digits


@pytest.fixture
def session():
    session = Session(machine())
    yield session
    session.close()


def random(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def transformed(session, x, target, axis=-1, n=None, *, is_forward=True, scale=1.0, device=DEVICE, is_half=False):
    """Transform `x` along an axis into the view `target`; return the plan."""
    axis %= x.ndim
    num_stored, num_valid = target.shape[axis], x.shape[axis]
    steps = [tuple(step // view.itemsize for step in view.strides) for view in (x, target)]
    loops = tuple(Loop(x.shape[i], steps[0][i], steps[1][i]) for i in range(x.ndim) if i != axis)
    made = plan(
        Transform(
            n or num_stored,
            {"f": c64, "d": c128}[target.dtype.char.lower()],
            from_dtype(x.dtype),
            from_dtype(target.dtype),
            *[
                Side(Argument(name), own[axis], own_view.ctypes.data & -own_view.ctypes.data)
                for name, own, own_view in zip(("in0", "out0"), steps, map(root_of, (x, target)), strict=True)
            ],
            loops,
            is_forward,
            scale,
            num_valid,
            num_stored,
            is_half,
        ),
        device,
    )
    session.run(made, [target], [session.pointer(x)])
    return made


def check(result, x, axis=-1, *, is_forward=True, scale=1.0, factor=1.0):
    exact = x.astype(np.clongdouble)
    n = result.shape[axis]
    exact = (np.fft.fft if is_forward else np.fft.ifft)(exact, n, axis) * (scale if is_forward else scale * n)
    error = rms(result, exact)
    assert error <= ERROR[result.dtype.char] * np.sqrt(max(1, np.log2(n))) * factor


def rms(result, exact):
    return np.sqrt(np.mean(abs(result - exact) ** 2) / np.mean(abs(exact) ** 2))


LENGTHS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 19, 26, 31, 51, 64, 77, 100, 360, 1024, 4095]


@pytest.mark.parametrize(("n", "dtype"), thinned(LENGTHS, ["F", "D"]))
def test_lengths(session, n, dtype):
    x = random((5 if n < 1000 else 2, n), dtype)
    target = np.empty_like(x)
    transformed(session, x, target)
    check(target, x)


def test_rows_of_several_axes_are_one_piece(session):
    x = random((7, 5, 6, 27), "F")
    target = np.empty_like(x)
    made = transformed(session, x, target)
    (spec,) = traced_with(made.launch.kernel)
    assert spec.is_dense
    assert made.launch.grid[0] == -(-7 * 5 * 6 // spec.columns)
    check(target, x)


def test_large_radices(session):
    x = random((1, 15625), "F")
    target = np.empty_like(x)
    device = SimpleNamespace(**{**vars(DEVICE), "max_shared_nbytes": 227 * 1024})
    made = transformed(session, x, target, device=device)
    assert traced_with(made.launch.kernel)[0].radices == (25, 25, 25)
    check(target, x)


@pytest.mark.parametrize("n", [17, 27, 60, 100, 128])
@pytest.mark.parametrize("kind", ["pieces", "apart", "real parts"])
def test_staged_rows(session, n, kind):
    """Tiles that are full and one that is not, in one piece or with gaps between rows, of numbers with odd strides."""
    rows = 2 * 128 + 1 if n == 17 else 64 + 5
    x = random((rows, n), "F") if kind == "pieces" else random((rows, n + 3), "F")[:, 1:-2]
    x = x.real if kind == "real parts" else x
    target = np.empty((rows, n), "F")
    made = transformed(session, x, target, scale=0.5)
    (spec,) = traced_with(made.steps[0].kernel)
    assert spec.is_staged
    assert spec.is_dense == (kind == "pieces")
    assert spec.columns < rows
    check(target, x, scale=0.5)


@pytest.mark.parametrize(
    ("case", "n"),
    thinned(list(itertools.product(["CC", "CF", "FC", "reversed", "stepped"], [0, 1, 2])), [9, 60, 64]),
    ids=str,
)
def test_layouts(session, case, n):
    order, axis = case
    shape = [3, 4, 5]
    shape[axis] = n
    x = random([2 * m for m in shape], "F")
    x = x[::2, ::2, ::2] if order == "stepped" else x[::-2, ::2, ::-2] if order == "reversed" else random(shape, "F")
    if order == "FC":
        x = random(shape[::-1], "F").T
    target = np.empty(shape, "F") if order != "CF" else np.empty(shape[::-1], "F").T
    transformed(session, x, target, axis)
    check(target, x, axis)


@pytest.mark.parametrize("n", [12, 20, 60])
@pytest.mark.parametrize("num_valid", [1, 7, 100])
def test_padding_and_cropping(session, n, num_valid):
    x = random((4, num_valid), "D")
    target = np.empty((4, n), "D")
    transformed(session, x[:, :n], target)
    whole = np.zeros((4, n), "D")
    whole[:, :num_valid] = x[:, :n]
    check(target, whole)


@pytest.mark.parametrize("dtype", ["?", "b", "i", "Q", "e", "f", "d", "F"])
def test_types_that_are_read(session, dtype):
    x = (random((3, 24), "d") * 9).astype(dtype) if dtype not in "?FQ" else random((3, 24), "F")
    x = abs(x).astype(dtype) if dtype in "?Q" else x.astype(dtype)
    target = np.empty((3, 24), "D")
    transformed(session, x, target)
    check(target, x)


def test_backwards_with_scale(session):
    x = random((3, 48), "D")
    target = np.empty_like(x)
    transformed(session, x, target, is_forward=False, scale=1 / 48)
    check(target, x, is_forward=False, scale=1 / 48)


@pytest.mark.parametrize(
    ("case", "dtype"), thinned([(2048, 1, 2), (1500, 0, 2), (1500, 1, 2), (20480, 1, 3)], ["F", "D"]), ids=str
)
def test_passes(session, case, dtype):
    n, axis, num_passes = case
    if dtype == "F" and num_passes == 3:
        n *= 4
    shape = (n, 6) if axis == 0 else (2, n)
    x = random(shape, dtype)
    target = np.empty_like(x)
    device = SMALL if num_passes == 2 else SimpleNamespace(**{**vars(SMALL), "max_shared_nbytes": 3 * 1024})
    made = transformed(session, x, target, axis, device=device)
    assert len(made.steps) == num_passes
    check(target, x, axis)


@pytest.mark.parametrize(("shape", "axes"), [((1, 8192), (1,)), ((24, 1024), (0, 1))])
def test_only_ends_have_signs_and_scales(session, shape, axes):
    """Between passes, and between axes, nothing is conjugated and nothing scaled."""
    x = random(shape, "F")
    target = np.empty_like(x)
    arrays = [Array(Argument(name), c64, shape, (shape[1], 1), 256) for name in ("in0", "out0")]
    made = plan_axes(*arrays, c64, Problem(COMPLEX, axes, shape[-1], is_forward=False, scale=0.25), SMALL)
    session.run(made, [target], [session.pointer(x)])
    specs = [traced_with(step.kernel)[0] for step in made.steps]
    between = [(False, False)] * (len(specs) - 2)
    assert [(spec.is_signed, spec.is_scaled) for spec in specs] == [(True, False), *between, (False, True)]
    exact = 0.25 * np.fft.ifftn(x.astype(np.clongdouble), axes=axes, norm="forward")
    assert rms(target, exact) <= ERROR["F"] * np.sqrt(np.log2(x.size))


@pytest.mark.parametrize(("dtype", "limit"), [("F", 0.37e-7), ("D", 0.68e-16)])
def test_roots_between_passes_are_products(session, dtype, limit):
    """Of one that a thread has and one that the threads of a column share; errors grow by a fiftieth."""
    x = random((1, 65536), dtype)
    target = np.empty_like(x)
    made = transformed(session, x, target, device=SMALL)
    assert [traced_with(step.kernel)[0].num_factors > 0 for step in made.steps][:-1] == [True] * (len(made.steps) - 1)
    exact = np.fft.fft(x.astype(np.clongdouble))
    assert rms(target, exact) <= limit * np.sqrt(16)


def test_odd_lengths_that_take_all_registers(session):
    x = random((1, 19683), "F")
    target = np.empty_like(x)
    made = transformed(session, x, target, device=SimpleNamespace(**{**vars(DEVICE), "max_shared_nbytes": 227 * 1024}))
    assert made.launch.kernel.name == "fft_19683"
    check(target, x)


def test_passes_of_padded_backwards(session):
    x = random((2, 1111), "F")
    target = np.empty((2, 2048), "F")
    made = transformed(session, x, target, is_forward=False, device=SMALL)
    assert len(made.steps) == 2
    check(target, x, is_forward=False)


@pytest.mark.parametrize(
    ("shape", "s", "axes"),
    [
        ((6, 10), (6, 10), (0, 1)),
        ((5, 6, 7), (5, 8, 4), (1, 2)),
        ((4, 5, 6), (7, 3, 9), (0, 2, 1)),
        ((3, 7), (3, 4), (1,)),
    ],
)
@pytest.mark.parametrize("kind", [COMPLEX, REAL, HALF])
def test_several_axes(session, shape, s, axes, kind):
    x = random(shape, "d" if kind == REAL else "D")
    lengths = [s[axis] for axis in axes]
    wide = x.astype(np.longdouble if kind == REAL else np.clongdouble)
    function = {COMPLEX: np.fft.ifftn, REAL: np.fft.rfftn, HALF: np.fft.irfftn}[kind]
    exact = function(wide, lengths, axes, "backward" if kind == REAL else "forward") * 0.5
    target = np.empty(exact.shape, "d" if kind == HALF else "D")
    arrays = [
        Array(Argument(name), from_dtype(a.dtype), a.shape, tuple(step // a.itemsize for step in a.strides))
        for name, a in (("in0", x), ("out0", target))
    ]
    made = plan_axes(*arrays, c128, Problem(kind, axes, lengths[-1], kind == REAL, 0.5), DEVICE)
    session.run(made, [target], [session.pointer(x)])
    assert rms(target, exact) <= ERROR["D"] * np.sqrt(np.log2(target.size))


@pytest.mark.parametrize(
    ("case", "dtype"), thinned([(37, 0), (37, 1), (74, 1), (101, 0), (331, 1), (1009, 1)], ["F", "D"]), ids=str
)
def test_lengths_without_codelets(session, case, dtype):
    n, axis = case
    x = random((n, 3) if axis == 0 else (3, n), dtype)
    target = np.empty_like(x)
    transformed(session, x, target, axis, is_forward=axis == 0)
    # Two transforms of more than twice the length, and three products.
    check(target, x, axis, is_forward=axis == 0, factor=1.5)


@pytest.mark.parametrize(("n", "dtype", "columns"), [(101, "D", 8), (103, "F", 16), (1010, "D", 8)])
def test_sums_where_memory_is_short(session, n, dtype, columns):
    """Of fewer transforms in a block: convolutions err more."""
    device = SimpleNamespace(**{**vars(DEVICE), "max_shared_nbytes": 32 * 1024})
    x = random((70, n), dtype)
    target = np.empty_like(x)
    made = transformed(session, x, target, device=device)
    spec, *_ = [traced_with(step.kernel)[0] for step in made.steps]
    assert (spec.real, spec.columns) == (SUMMED, columns)
    check(target, x)


@pytest.mark.parametrize(
    ("case", "dtype", "is_forward"),
    thinned([(113, 70), (257, 33), (331, 9), (1009, 3)], ["F", "D"], [True, False]),
    ids=str,
)
def test_primes_by_powers(session, case, dtype, is_forward):
    """Their errors are below those of Bluestein's convolutions."""
    n, rows = case
    x = random((rows, n), dtype)
    target = np.empty_like(x)
    made = transformed(session, x, target, is_forward=is_forward, scale=0.5)
    assert [step.kernel.name for step in made.steps] == [f"fft_rader_{n}"]
    check(target, x, is_forward=is_forward, scale=0.5, factor=0.95)


@pytest.mark.parametrize("n", [401, 541, 769])
def test_primes_by_powers_of_many_rows(session, n):
    """Neighbouring lanes have different rows where a block has room for 16, so that no permuted access conflicts."""
    device = SimpleNamespace(**{**vars(DEVICE), "max_shared_nbytes": 227 * 1024})
    x = random((34, n), "F")
    target = np.empty_like(x)
    made = transformed(session, x, target, device=device)
    spec = traced_with(made.launch.kernel)[0]
    assert (spec.real, spec.columns, spec.loads, spec.stores) == (RADER, 16, COLUMNS, COLUMNS)
    check(target, x, factor=0.95)


@pytest.mark.parametrize(("n", "dtype"), thinned([331, 509, 1499], ["F", "D"]))
def test_large_filters_are_read_from_both_sides(session, n, dtype, monkeypatch):
    """Half of what is symmetric is in the workspace, up to the middle of the last stage's butterflies."""
    found = []
    for large in (1 << 20, 0):
        monkeypatch.setattr(tiling, "LARGE_TABLE", large)
        monkeypatch.setattr(tiling, "LARGE_CHIRP", {8: large, 16: large})
        kernel.make.cache_clear()
        x = random((n, 3), dtype)
        target = np.empty_like(x)
        made = transformed(session, x, target, 0)
        (spec,) = traced_with(made.steps[0].kernel)
        found.append(spec.num_filter)
        check(target, x, 0, factor=1.1)
    kernel.make.cache_clear()
    half = -(-spec.radices[-1] // 2) * (spec.convolution // spec.radices[-1]) + 1
    assert found == [spec.convolution + 1, half]


@pytest.mark.parametrize("dtype", ["F", "D"])
def test_lengths_convolved_over_the_same_one_share_a_kernel(session, dtype):
    """What differs is in their chirps: nothing is compiled but what copies these."""
    kernels = []
    for n in (331, 337):
        x = random((n, 3), dtype)
        target = np.empty_like(x)
        tables, convolution = transformed(session, x, target, 0, scale=0.5).steps
        assert traced_with(tables.kernel)[0].length == n
        kernels.append(convolution.kernel)
        check(target, x, 0, scale=0.5, factor=1.1)
    assert kernels[0] is kernels[1]


@pytest.mark.parametrize("n", [181, 211])
def test_the_last_piece_of_a_convolution_may_have_one_element(session, n):
    x = random((n, 3), "F")
    target = np.empty_like(x)
    tables, _ = transformed(session, x, target, 0).steps
    (spec,) = traced_with(tables.kernel)
    assert spec.num_chirp - n == spec.convolution // spec.radices[0] - 1
    check(target, x, 0, factor=1.1)


@pytest.mark.parametrize("n", [331, 1009])
def test_convolutions_by_products_of_roots(session, n, monkeypatch):
    monkeypatch.setattr(tiling, "LARGE_TABLE", 0)
    monkeypatch.setattr(tiling, "LARGE_CHIRP", {8: 0, 16: 0})
    x = random((n, 3), "F")
    target = np.empty_like(x)
    made = transformed(session, x, target, 0)
    assert traced_with(made.steps[-1].kernel)[0].is_factored
    check(target, x, 0, factor=1.1)


@pytest.mark.parametrize("dtype", ["F", pytest.param("D", marks=pytest.mark.slow)])
@pytest.mark.parametrize("n", [29, 37, 61, 97])
@pytest.mark.parametrize("order", ["rows", "columns", "padded", "cropped", "backwards"])
def test_primes_that_are_summed_up(session, n, dtype, order):
    """Errors are those of a few roundings: pocketfft's grow with the prime."""
    shape = (n, 35) if order == "columns" else (5, n)
    x, axis = random(shape, dtype), 0 if order == "columns" else 1
    given = x[:, : n // 2].copy() if order == "padded" else x.real.copy() if order == "cropped" else x
    size = n // 2 + 1 if order == "cropped" else n
    target = np.empty(shape if axis == 0 else (5, size), dtype)
    is_forward = order != "backwards"
    device = SimpleNamespace(**{**vars(DEVICE), "max_shared_nbytes": 160 * 1024})
    made = transformed(session, given, target, axis, n, is_forward=is_forward, scale=0.5, device=device)
    # What registers hold needs no sums where rows are staged, nor where two real ones go as one.
    is_held = dtype == "F" and n <= MAX_PRIME
    name = "staged" if is_held and order in ("rows", "backwards") else "summed"
    assert f"fft_{name}_{n}" in {step.kernel.name for step in made.steps} or (order == "cropped" and is_held)
    wide = np.zeros(shape, np.clongdouble)
    wide[:, : given.shape[1]] = given
    exact = np.fft.fft(wide, axis=axis) if is_forward else np.fft.ifft(wide, axis=axis) * n
    exact = 0.5 * (exact if axis == 0 else exact[:, :size])
    assert rms(target, exact) <= 0.7 * ERROR[dtype] * np.sqrt(np.log2(n))


@pytest.mark.parametrize("dtype", ["F", pytest.param("D", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("n", "num_passes"), [(16 * 37, 2), (37 * 41, 2), (2 * 37 * 53, 3), (16 * 67, 2)])
@pytest.mark.parametrize("order", ["rows", "columns", "padded", "cropped", "backwards"])
def test_lengths_with_larger_primes(session, n, num_passes, dtype, order):
    """Passes of sums and of codelets, with roots of unity between them; one where codelets have registers."""
    if dtype == "F" and n % 67:
        num_passes = 1
    elif n > 2000 and order in ("columns", "padded"):
        n //= 2
        num_passes = 2
    shape = (n, 3) if order == "columns" else (2, n)
    x, axis = random(shape, dtype), 0 if order == "columns" else 1
    given = x[:, : n // 3].copy() if order == "padded" else x.real.copy() if order == "cropped" else x
    size = n // 2 + 1 if order == "cropped" and n % 2 else n
    target = np.empty(shape if axis == 0 else (2, size), dtype)
    is_forward = order != "backwards"
    device = SimpleNamespace(**{**vars(DEVICE), "max_shared_nbytes": 160 * 1024})
    made = transformed(session, given, target, axis, n, is_forward=is_forward, scale=0.5, device=device)
    assert len(made.steps) == num_passes
    wide = np.zeros(shape, np.clongdouble)
    wide[:, : given.shape[1]] = given
    exact = np.fft.fft(wide, axis=axis) if is_forward else np.fft.ifft(wide, axis=axis) * n
    exact = 0.5 * (exact if axis == 0 else exact[:, :size])
    assert rms(target, exact) <= 0.8 * ERROR[dtype] * np.sqrt(np.log2(n))


@pytest.mark.parametrize("n", [9, 10, 41, 60, 2048])
@pytest.mark.parametrize("num_valid", [4, 5, 600])
def test_half_of_a_sequence(session, n, num_valid):
    """The first half stored of real sequences' transforms, and read of those whose transforms are real."""
    x = random((2, min(n, num_valid)), "d")
    half = np.empty((2, n // 2 + 1), "D")
    transformed(session, x, half, n=n, device=SMALL)
    exact = np.fft.fft(x.astype(np.clongdouble), n)[:, : n // 2 + 1]
    assert rms(half, exact) <= ERROR["D"] * np.sqrt(np.log2(n)) * 1.5
    y = random((2, min(n // 2 + 1, num_valid)), "D")
    target = np.empty((2, n), "d")
    transformed(session, y, target, is_forward=False, device=SMALL, is_half=True)
    exact = np.fft.irfft(y.astype(np.clongdouble), n) * n
    assert rms(target, exact) <= ERROR["D"] * np.sqrt(np.log2(n)) * 1.5


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("num_launches", [6, 10])
def test_long_lengths_without_codelets(session, axis, num_launches, monkeypatch):
    """Three passes and three kernels for the filter, or kernels around passes."""
    tiny = SimpleNamespace(**{**vars(SMALL), "max_shared_nbytes": 4 * 1024})
    if num_launches > 6:
        monkeypatch.setattr(convolved, "COLUMNS", ())
        convolved.lengths_of.cache_clear()
    x = random((331, 2) if axis == 0 else (2, 331), "D")
    target = np.empty_like(x)
    made = transformed(session, x, target, axis, is_forward=False, device=tiny, scale=0.5)
    assert len(made.steps) == num_launches
    check(target, x, axis, is_forward=False, factor=1.5, scale=0.5)
    half = np.empty([n // 2 + 1 if i == axis else n for i, n in enumerate(x.shape)], "D")
    transformed(session, x.real.copy(), half, axis, n=331, device=tiny)
    exact = np.fft.rfft(x.real.astype(np.longdouble), axis=axis)
    assert rms(half, exact) <= ERROR["D"] * np.sqrt(np.log2(331)) * 1.5
    back = np.empty(x.shape, "d")
    transformed(session, half, back, axis, n=331, is_forward=False, is_half=True, device=tiny)
    assert rms(back, 331 * x.real.astype(np.longdouble)) <= ERROR["D"] * np.sqrt(np.log2(331)) * 2
    convolved.lengths_of.cache_clear()


@pytest.mark.parametrize(
    ("case", "code", "is_cut"),
    thinned(list(itertools.product([2, 4, 6, 32, 60, 270], [0, 1])), ["f", "d"], [False, True]),
    ids=str,
)
def test_real_of_even_lengths(session, case, code, is_cut):
    n, axis = case
    shape = (n, 5) if axis == 0 else (3, n)
    num_valid = n // 2 if is_cut else n
    x = random(shape, code)[: num_valid if axis == 0 else None, : num_valid if axis == 1 else None]
    half = np.empty([m // 2 + 1 if i == axis else m for i, m in enumerate(shape)], code.upper())
    made = transformed(session, x, half, axis, n=n)
    assert made.launch.kernel.name == f"fft_split_{n}"
    exact = np.fft.rfft(x.astype(np.longdouble), n, axis)
    bound = ERROR[code.upper()] * np.sqrt(np.log2(2 * n))
    assert rms(half, exact) <= bound
    y = random(half.shape, code.upper())[: num_valid if axis == 0 else None, : num_valid if axis == 1 else None]
    target = np.empty(shape, code)
    transformed(session, y, target, axis, is_forward=False, scale=1 / n, is_half=True)
    assert rms(target, np.fft.irfft(y.astype(np.clongdouble), n, axis)) <= bound


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("n", "count", "code"), thinned([17, 19, 105, 675], [2, 5, 8], ["f", "d"]))
def test_real_of_odd_lengths(session, n, axis, code, count):
    """Two at a time, and one that is left."""
    shape = (n, count) if axis == 0 else (count, n)
    x = random(shape, code)
    half = np.empty([m // 2 + 1 if i == axis else m for i, m in enumerate(shape)], code.upper())
    made = transformed(session, x, half, axis, n=n)
    assert made.steps[0].kernel.name == f"fft_twin_split_{n}"
    assert len(made.steps) == 1 + count % 2
    bound = ERROR[code.upper()] * np.sqrt(np.log2(2 * n))
    assert rms(half, np.fft.rfft(x.astype(np.longdouble), n, axis)) <= bound
    transformed(session, x, half, axis, n=n, is_forward=False, scale=1 / n)
    assert rms(half, np.fft.rfft(x.astype(np.longdouble), n, axis).conj() / n) <= bound
    y, target = random(half.shape, code.upper()), np.empty(shape, code)
    made = transformed(session, y, target, axis, is_forward=False, scale=1 / n, is_half=True)
    assert made.steps[0].kernel.name == f"fft_twin_merge_{n}"
    assert rms(target, np.fft.irfft(y.astype(np.clongdouble), n, axis)) <= bound
    transformed(session, y, target, axis, scale=1.0, is_half=True)
    assert rms(target, np.fft.irfft(y.conj().astype(np.clongdouble), n, axis) * n) <= bound


@pytest.mark.parametrize("code", ["f", "d"])
def test_long_real_sequences(session, code):
    n, tiny = 1 << 11, SimpleNamespace(**{**vars(SMALL), "max_shared_nbytes": 4 * 1024})
    x = random((2, 2, n), code)
    half = np.empty((2, 2, n // 2 + 1), code.upper())
    made = transformed(session, x, half, n=n, is_forward=False, scale=0.5, device=tiny)
    assert [step.kernel.name for step in made.steps][-1] == "fft_split"
    exact = np.fft.rfft(x.astype(np.longdouble), n).conj() * 0.5
    bound = ERROR[code.upper()] * np.sqrt(np.log2(2 * n))
    assert rms(half, exact) <= bound
    y = random((2, 2, n // 2 - 5), code.upper())
    target = np.empty((2, 2, n), code)
    made = transformed(session, y, target, is_forward=True, is_half=True, device=tiny)
    assert next(step.kernel.name for step in made.steps) == "fft_merge"
    assert rms(target, np.fft.hfft(y.astype(np.clongdouble), n)) <= bound


def test_far_elements(session, monkeypatch):
    """Distances of 64 bits, in every kind of kernel."""
    for module in (batch, plans):
        monkeypatch.setattr(module, "MAX_INDEX_32", 0)
    tiny = SimpleNamespace(**{**vars(SMALL), "max_shared_nbytes": 4 * 1024})
    x = random((2, 3, 16), "F")
    for shape, axis in (((2, 3, 16), 2), ((2, 3, 16), 1), ((2, 3, 41), 2), ((2, 3, 14), 2)):
        target = np.empty(shape, "F")
        transformed(session, x, target, axis)
        exact = np.zeros(shape, "F")
        exact[..., : min(16, shape[2])] = x[..., : shape[2]]
        check(target, exact, axis, factor=1.5)
    for n in (2048, 331):
        y = random((2, n), "f")
        half, back = np.empty((2, n // 2 + 1), "F"), np.empty((2, n), "f")
        transformed(session, y, half, n=n, device=tiny)
        assert rms(half, np.fft.rfft(y.astype(np.longdouble))) <= ERROR["F"] * np.sqrt(np.log2(n)) * 1.5
        transformed(session, half, back, is_forward=False, scale=1 / n, is_half=True, device=tiny)
        assert rms(back, y) <= 2 * ERROR["F"] * np.sqrt(np.log2(n)) * 1.5


def _product(k, a, b):
    return k.compound(a.type, *multiply(k, a.parts, b.parts))


def _weighted_power(k, a, b):
    real, imag = a.parts
    return k.fma(real, real, imag * imag) * b


@pytest.mark.parametrize("code", ["f", "d"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_chains_beside_long_real_sequences(session, code, order):
    """Products before the step that merges pairs, and powers after the one that splits them."""
    n, type_ = 1 << 11, {"f": c64, "d": c128}[code]
    tiny = SimpleNamespace(**{**vars(SMALL), "max_shared_nbytes": 4 * 1024})
    bound = 10 * np.finfo(code).eps
    x, w = random((2, n), code), random((n // 2 + 1, 2), code).T if order == "F" else random((2, n // 2 + 1), code)
    made = np.empty((2, n // 2 + 1), code)
    source, beside, target = (
        Array(Argument(name), from_dtype(a.dtype), a.shape, tuple(step // a.itemsize for step in a.strides), 256)
        for name, a in (("in0", x), ("in1", w), ("out0", made))
    )
    real = from_dtype(x.dtype)
    chain = Chained((real,), (Argument("in1"),), (True,), (Instr(_weighted_power, real, (0, 1)),), 2, real)
    given = target._replace(type=type_, chain=chain, others=(beside.steps,))
    plan_ = plan_axes(source, given, type_, Problem(REAL, (1,), n), tiny)
    assert plan_.steps[-1].kernel.name == "fft_split"
    session.run(plan_, [made], [session.pointer(x), session.pointer(w)])
    exact = abs(np.fft.rfft(x.astype(np.longdouble))) ** 2 * w
    assert abs(made - exact).max() <= bound * abs(exact).max()

    z, h = random((2, n // 2 + 1), code.upper()), random(n // 2 + 1, code.upper())
    back = np.empty((2, n), code)
    chain = Chained(
        (type_, type_), (Argument("in0"), Argument("in1")), (True, True), (Instr(_product, type_, (0, 1)),), 2, type_
    )
    steps = (n // 2 + 1, 1)
    given = Array(Argument("in0"), type_, z.shape, steps, 256, chain, (steps, (0, 1)))
    target = Array(Argument("out0"), real, back.shape, (n, 1), 256)
    plan_ = plan_axes(given, target, type_, Problem(HALF, (1,), n, False, 1 / n), tiny)
    assert plan_.steps[0].kernel.name == "fft_merge"
    session.run(plan_, [back], [session.pointer(z), session.pointer(h)])
    exact = np.fft.irfft((z * h).astype(np.clongdouble), n)
    assert abs(back - exact).max() <= bound * abs(exact).max()


@pytest.mark.parametrize("axis", [0, 1])
def test_chains_beside_transforms_in_parts(session, axis):
    """Products with a row before, powers times an array after, which take half of what numbers take."""
    n, count = 1500, 5
    shape, h = ((n, count), random((n, 1), "F")) if axis == 0 else ((count, n), random(n, "F"))
    x, w, made = random(shape, "F"), random(shape[::-1], "f").T, np.empty(shape, "f")
    power = Chained((f32,), (Argument("in2"),), (True,), (Instr(_weighted_power, f32, (0, 1)),), 2, f32)
    product = Chained(
        (c64, c64), (Argument("in0"), Argument("in1")), (True, True), (Instr(_product, c64, (0, 1)),), 2, c64
    )
    steps, along = (shape[1], 1), (1, 0) if axis == 0 else (0, 1)
    source = Array(Argument("in0"), c64, shape, steps, 256, product, (steps, along))
    target = Array(Argument("out0"), c64, shape, steps, 256, power, ((1, shape[0]),))
    made_plan = plan_axes(source, target, c64, Problem(COMPLEX, (axis,), n), SMALL, 2)
    assert len(made_plan.steps) == 4
    session.run(made_plan, [made], [session.pointer(a) for a in (x, h, w)])
    exact = abs(np.fft.fft((x * h).astype(np.clongdouble), axis=axis)) ** 2 * w
    assert abs(made - exact).max() <= 10 * np.finfo("f").eps * abs(exact).max()


@pytest.mark.parametrize("n", [17, 27, 100, 113])
def test_chains_beside_staged_rows(session, n):
    """Products with a row before, powers times an array after."""
    x, h, w = random((40, n), "F"), random(n, "F"), random((n, 40), "f").T
    made = np.empty((40, n), "f")
    power = Chained((f32,), (Argument("in2"),), (True,), (Instr(_weighted_power, f32, (0, 1)),), 2, f32)
    product = Chained(
        (c64, c64), (Argument("in0"), Argument("in1")), (True, True), (Instr(_product, c64, (0, 1)),), 2, c64
    )
    source = Array(Argument("in0"), c64, x.shape, (n, 1), 256, product, ((n, 1), (0, 1)))
    target = Array(Argument("out0"), c64, made.shape, (n, 1), 256, power, ((1, 40),))
    made_plan = plan_axes(source, target, c64, Problem(COMPLEX, (1,), n), DEVICE)
    (spec,) = traced_with(made_plan.launch.kernel)
    assert spec.is_staged
    session.run(made_plan, [made], [session.pointer(a) for a in (x, h, w)])
    exact = abs(np.fft.fft((x * h).astype(np.clongdouble))) ** 2 * w
    assert abs(made - exact).max() <= 10 * np.finfo("f").eps * abs(exact).max()


@pytest.mark.parametrize("length", [6000, 5600])
def test_padding_leaves_shared_memory_within_bounds(length):
    """Transforms that lie side by side at one end, in another order at the other: as many as fit, and no more."""
    device = SimpleNamespace(num_sms=132, cc=(9, 0), max_shared_nbytes=227 << 10, tuned=lambda _: None)
    half = length // 2 + 1
    source, target = Side(Argument("in0"), 52_800, 256), Side(Argument("out0"), 100, 256)
    loops = (Loop(33, 16, 1600 * half), Loop(100, 528, 1), Loop(16, 1, 100 * half))
    transform = Transform(length, c128, f64, c128, source, target, loops, num_valid=length, num_stored=half)
    kernel = plan(transform, device).launch.kernel
    assert kernel.shared_nbytes <= device.max_shared_nbytes


def test_convolutions_begin_while_their_tables_are_copied(session):
    """Both kernels wait for the one before; devices without that have kernels that do not."""
    x = random((331, 3), "F")
    newer = SimpleNamespace(**{**vars(DEVICE), "cc": (9, 0)})
    for device in (DEVICE, newer):
        target = np.empty_like(x)
        made = transformed(session, x, target, 0, device=device)
        assert [GRID_WAIT in step.kernel.ptx for step in made.steps] == [device is newer] * 2
        check(target, x, 0, factor=1.1)
