"""Fourier transforms on the device: NumPy's shapes, dtypes and errors, values within rounding."""

# ruff: noqa: ICN001 - oxinp is np

import importlib
import threading
from types import SimpleNamespace

import numpy
import pytest

import oxinp as np
from oxinp import _runtime
from oxinp._kernels.plan import Launch
from tests.little_memory import limited
from tests.patience import PATIENCE

pytestmark = pytest.mark.usefixtures("on_device")

ONE_AXIS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
SEVERAL_AXES = ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn")
ROUNDINGS = 8  # of the largest result


def values(code, shape):
    rng = numpy.random.default_rng(ord(code))
    x = rng.standard_normal(shape) * 9
    if code in "FD":
        x = x + 1j * rng.standard_normal(shape)
    return abs(x).astype(code) if code in "?BHIQ" else x.astype(code)


def check(name, x, *args, **kwargs):
    """Compare one call; NumPy's value is that of wider numbers, but of float16, whose factors NumPy rounds."""
    ours = getattr(np.fft, name)(np.asarray(x), *args, **kwargs)
    theirs = getattr(numpy.fft, name)(x, *args, **kwargs)
    assert isinstance(ours, np.ndarray)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    wide = x.astype(numpy.clongdouble if x.dtype.kind == "c" else numpy.longdouble)
    exact = theirs if x.dtype == "e" else getattr(numpy.fft, name)(wide, *args, **kwargs)
    bound = ROUNDINGS * numpy.finfo(theirs.dtype).eps * abs(exact).max()
    assert abs(numpy.asarray(ours) - exact).max() <= bound


def codes_of(name):
    return "?bHiQefd" if name in ("rfft", "ihfft", "rfft2", "rfftn") else "?bHiQefdFD"


@pytest.mark.parametrize("name", ONE_AXIS)
def test_dtypes(name, stats):
    for code in codes_of(name):
        check(name, values(code, (3, 12)))
    assert not set(stats().fallbacks) - {"__array__"}


@pytest.mark.parametrize("name", [*ONE_AXIS, *SEVERAL_AXES])
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_factors_of_float16(name, norm, stats):
    """NumPy computes that of the axis it begins with in float16, and those of the others in float32."""
    check(name, values("e", (5, 7, 3)), norm=norm)
    check(name, values("e", (3, 10)), norm=norm)
    assert not set(stats().fallbacks) - {"__array__"}


def test_factors_that_float16_does_not_hold(stats):
    x = numpy.ones(70000, "e")
    with pytest.warns(RuntimeWarning, match="overflow"):
        found = np.fft.fft(np.asarray(x), norm="ortho")
    assert not numpy.asarray(found).any()
    assert stats().fallbacks["fft.fft"] == 1
    assert numpy.asarray(np.fft.fft(np.asarray(x)))[0] == 70000


@pytest.mark.parametrize("name", ONE_AXIS)
@pytest.mark.parametrize(("n", "axis"), [(None, 0), (5, -1), (16, 1), (30, 0), (1, 2)])
@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
def test_lengths_and_axes(name, n, axis, norm, stats):
    check(name, values(codes_of(name)[-1], (6, 7, 9)), n, axis, norm)
    assert not set(stats().fallbacks) - {"__array__"}


@pytest.mark.parametrize("name", SEVERAL_AXES)
@pytest.mark.parametrize(
    "kwargs", [{}, {"s": (4, 9)}, {"axes": (2, 0)}, {"s": (9, 4), "axes": (1, 2), "norm": "ortho"}]
)
@pytest.mark.filterwarnings("ignore:.*axes.*:DeprecationWarning")
def test_several_axes(name, kwargs, stats):
    check(name, values(codes_of(name)[-1], (6, 7, 9)), **kwargs)
    assert not set(stats().fallbacks) - {"__array__"}


def test_views_and_chains(stats):
    x = values("D", (8, 10, 12))
    a = np.asarray(x)
    ours = np.fft.fft((a[::2, ::-1] * 2).transpose(2, 0, 1), axis=0)
    exact = numpy.fft.fft((x[::2, ::-1] * 2).transpose(2, 0, 1).astype(numpy.clongdouble), axis=0)
    assert abs(numpy.asarray(ours) - exact).max() < 1e-13
    assert abs(numpy.asarray(np.fft.fft(a[1, ::-3, 5:])) - numpy.fft.fft(x[1, ::-3, 5:])).max() < 1e-13
    assert not set(stats().fallbacks) - {"__array__"}


@pytest.mark.parametrize("name", ["fft", "rfft", "irfft", "fft2", "irfft2"])
def test_no_elements(name, stats):
    x = numpy.empty((0, 4, 6), "f")
    ours, theirs = (getattr(xp.fft, name)(xp.asarray(x)) for xp in (np, numpy))
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    assert not set(stats().fallbacks) - {"__array__"}


def test_result_to_write_to(stats):
    x = values("D", (4, 10))
    out = np.empty((4, 10), complex)
    assert np.fft.ifft(np.asarray(x), out=out) is out
    assert abs(numpy.asarray(out) - numpy.fft.ifft(x)).max() < 1e-14
    assert not set(stats().fallbacks) - {"__array__"}


def test_numpys_function_finds_ours():
    assert isinstance(numpy.fft.rfft(np.asarray(values("d", 20))), np.ndarray)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((0,), {}), ((-3,), {}), ((4, 3), {}), ((4, -1, "half"), {}), ((2.5,), {}), ((4, 1.5), {}), ((4,), {"norm": 3})],
)
def test_errors(args, kwargs, twin):
    x = values("D", (4, 10))
    twin(lambda xp: xp.fft.fft(xp.asarray(x), *args, **kwargs))


@pytest.mark.parametrize("name", ["fft2", "ifft2", "rfft2", "irfft2", "fftn"])
def test_more_lengths_than_axes(name, twin):
    x = values("d", (4, 10))
    twin(lambda xp: getattr(xp.fft, name)(xp.asarray(x), (2, 3, 4), axes=(0, 1)))


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_truth_values_are_no_lengths_where_numpy_says_so(name, twin):
    x = values("d", (4, 10))
    twin(lambda xp: getattr(xp.fft, name)(xp.asarray(x), True))


def test_linearity_shift_and_parseval():
    x, y = values("D", 48), values("D", 48)[::-1].copy()
    f = np.fft.fft
    whole, parts = f(np.asarray(2 * x + y)), 2 * f(np.asarray(x)) + f(np.asarray(y))
    assert float(abs(whole - parts).max()) < 1e-12
    turned = numpy.asarray(f(np.asarray(numpy.roll(x, 5)))) * numpy.exp(2j * numpy.pi * 5 * numpy.arange(48) / 48)
    assert abs(turned - numpy.asarray(f(np.asarray(x)))).max() < 1e-12
    assert abs((abs(numpy.asarray(f(np.asarray(x)))) ** 2).sum() / 48 / (abs(x) ** 2).sum() - 1) < 1e-14


@pytest.mark.parametrize("code", ["F", pytest.param("D", marks=pytest.mark.slow)])
@pytest.mark.parametrize("n", [17, 27, 60, 101, 343, 400, 509, 1009, 2187, 16384])
def test_batches_have_the_same_bits(n, code):
    """In every place of a batch, and every run."""
    x = values(code, n)
    alone = numpy.asarray(np.fft.fft(np.asarray(x)))
    for count in (1, 2, 13) if n < 10000 else (3,):
        rows = np.asarray(numpy.tile(x, (count, 1)))
        for _ in range(2):
            assert (numpy.asarray(np.fft.fft(rows)) == alone).all()


@pytest.mark.parametrize("n", [17, 60, 101, 509, 1024])
def test_columns_have_the_same_bits(n):
    """The same of transforms that lie side by side."""
    x = values("F", (n, 1))
    alone = numpy.asarray(np.fft.fft(np.asarray(numpy.tile(x, (1, 4))), axis=0))[:, :1]
    for count in (7, 40):
        columns = np.asarray(numpy.tile(x, (1, count)))
        for _ in range(2):
            assert (numpy.asarray(np.fft.fft(columns, axis=0)) == alone).all()


# Views that kernels read as they lie, and the axis of the transform.
STRIDED = {
    "every second": ("x[:, :, ::2]", -1),
    "backwards": ("x[:, ::-1]", 1),
    "first axis": ("x", 0),
    "middle axis": ("x", 1),
    "transposed": ("x.transpose(2, 0, 1)", 0),
    "diagonal": ("x[:, 3:27:2, 1:].T", 2),
    "one row for all": ("np.broadcast_to(x[0, 0], (5, 31))", 1),
}


@pytest.mark.parametrize("name", STRIDED)
@pytest.mark.parametrize("function", ["fft", "rfft", "irfft"])
def test_strides_cost_no_copy(name, function, stats):
    code, axis = STRIDED[name]
    numbers = values("d" if function == "rfft" else "D", (6, 28, 31))
    x, theirs = np.asarray(numbers), eval(code, {"x": numbers, "np": numpy})  # noqa: S307 - our own code
    np.evaluate(x)
    ours = eval(code, {"x": x, "np": np})  # noqa: S307
    np.cuda.reset_stats()
    found = getattr(np.fft, function)(ours, axis=axis)
    np.evaluate(found)
    assert stats().launches == 1
    assert not set(stats().fallbacks)
    expected = getattr(numpy.fft, function)(theirs, axis=axis)
    assert abs(numpy.asarray(found) - expected).max() <= 1e-14 * abs(expected).max()


REAL_PRIMES = (
    "abs(np.fft.rfft(r * h)) ** 2",
    "np.fft.rfft(r[:, :40], 113)",
    "np.fft.rfft(r.T, axis=0, norm='ortho')",
    "np.fft.irfft(z[:, :31], 113) + 1",
    "np.fft.hfft(z.T, 113, axis=0)",
    "np.fft.ihfft(r)",
    "np.fft.fft(r)",
)


@pytest.mark.parametrize("code", REAL_PRIMES)
def test_real_sequences_of_primes_are_one_kernel(code, stats):
    numbers = {"r": values("d", (5, 113)), "h": values("d", (113,)), "z": values("D", (5, 113))}
    given = {name: np.asarray(x) for name, x in numbers.items()}
    np.evaluate(*given.values())
    np.cuda.reset_stats()
    ours = eval(code, {"np": np, **given})  # noqa: S307 - our own code
    np.evaluate(ours)
    assert stats().launches == 1
    theirs = eval(code, {"np": numpy, **numbers})  # noqa: S307
    assert abs(numpy.asarray(ours) - theirs).max() <= 1e-14 * abs(theirs).max()


def test_kernels_serve_other_batches_and_layouts():
    """A kernel depends on the length, and on which elements lie side by side."""
    kernels = importlib.import_module("oxinp._kernels.fft.kernel")
    np.evaluate(np.fft.fft(np.asarray(values("F", (70, 400)))))
    num_made = kernels.make.cache_info().misses
    x = np.asarray(values("F", (4, 40, 500)))
    np.evaluate(np.fft.fft(x[:, :, :400]), np.fft.fft(x[0, 1:, 50:450]), np.fft.ifft(x[1:, ::2, 100:]))
    assert kernels.make.cache_info().misses == num_made


# An expression of arrays, and how many launches it takes for lengths of one pass and of two.
FUSED = {
    "filter": ("np.fft.ifft(np.fft.fft(x) * h)", 2, 3),
    "backwards first": ("np.fft.fft(np.fft.ifft(x * 2, norm='ortho') * h * 0.5j) + h", 2, 3),
    "power in between": ("np.fft.ifft(abs(np.fft.fft(r)) ** 2).real", 2, 3),
    "power": ("abs(np.fft.fft(x)) ** 2", 1, 2),
    "window": ("np.fft.rfft(r * h.real) * 2.5", 1, 2),
    "real power": ("abs(np.fft.rfft(r - 1.5)) ** 2", 1, 2),
    "real result": ("np.fft.irfft(x * h, 60) + 1", 1, 2),
    "cast": ("np.fft.fft((r * 9).astype('i4'))", 1, 2),
    "along axis 0": ("abs(np.fft.fft((x * h).T, axis=0))", 1, 2),
    "padded": ("np.fft.fft((x * h)[:, ::-1], n=2 * x.shape[1]) * 3j", 1, 2),
    "convolved": ("np.fft.fft((x * h)[:, :37]) * h[:37]", 1, 1),
    "two axes": ("np.fft.ifft2(np.fft.fft2(x) * h)", 3, 5),
    "two real axes": ("np.fft.irfft2(np.fft.rfft2(r) * h[: h.size // 2 + 1])", 3, 5),
    "long real power": ("abs(np.fft.rfft(r)) ** 2 * 0.5", 1, 3),
    "long real filter": ("np.fft.irfft(np.fft.rfft(r) * h[: h.size // 2 + 1])", 2, 6),
    "real axes": ("abs(np.fft.rfft2(r * 0.5)) - 1", 2, 3),
}


@pytest.mark.parametrize("name", FUSED)
@pytest.mark.parametrize("n", [60, 16384])
def test_chains_add_no_pass(name, n, stats):
    code, *counts = FUSED[name]
    is_long = n > 10000
    if is_long and name in ("convolved", "real result"):
        return  # there are other ways of these
    x, h, r = values("D", (2, n)), values("D", (n,)), values("d", (2, n))
    given = [np.asarray(a) for a in (x, h, r)]
    np.evaluate(given[1].real)
    np.cuda.reset_stats()
    ours = eval(code, dict(zip(("np", "x", "h", "r"), (np, *given), strict=True)))  # noqa: S307 - our own code
    np.evaluate(ours)
    assert stats().launches <= counts[is_long]
    theirs = eval(code, {"np": numpy, "x": x, "h": h, "r": r})  # noqa: S307
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    assert abs(numpy.asarray(ours) - theirs).max() <= 1e-14 * abs(theirs).max()


def test_long_chains_and_indices_run_before(stats):
    x = values("D", (3, 60))
    a = [np.asarray(x + i) for i in range(4)]
    np.cuda.reset_stats()
    ours = np.fft.fft(a[0] * a[1] + a[2] * a[3])
    np.evaluate(ours)
    assert stats().launches == 2
    exact = numpy.fft.fft(x * (x + 1) + (x + 2) * (x + 3))
    assert abs(numpy.asarray(ours) - exact).max() <= 1e-14 * abs(exact).max()
    ours = np.fft.fft(np.arange(4096) * 0.5)
    assert abs(numpy.asarray(ours) - numpy.fft.fft(numpy.arange(4096) * 0.5)).max() <= 1e-9


def test_results_that_are_held_are_not_computed_again(stats):
    x = values("D", (3, 60))
    a = np.asarray(x)
    np.cuda.reset_stats()
    f = np.fft.fft(a)
    power = abs(f) ** 2
    np.evaluate(power, f)
    assert stats().launches == 2
    assert abs(numpy.asarray(f) - numpy.fft.fft(x)).max() < 1e-12
    assert abs(numpy.asarray(power) - abs(numpy.fft.fft(x)) ** 2).max() < 1e-9


def test_filters_are_one_kernel_where_a_block_holds_the_rows(stats):
    x, h = values("D", (3, 400)), values("D", (400,))
    a, b = np.asarray(x), np.asarray(h)
    expected = numpy.fft.ifft(numpy.fft.fft(x) * h)

    def check_launches(compute, count, theirs=expected):
        np.cuda.reset_stats()
        ours = compute()
        np.evaluate(ours)
        assert stats().launches == count
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        assert abs(numpy.asarray(ours) - theirs).max() <= 1e-14 * abs(theirs).max()

    check_launches(lambda: np.fft.ifft(np.fft.fft(a) * b), 1)
    check_launches(lambda: np.fft.ifft(np.fft.fft(a) * b) * 2, 1, 2 * expected)
    check_launches(lambda: np.fft.ifft(np.fft.fft(a[:, ::-1] + 1) * (2 - 1j)), 1, (x[:, ::-1] + 1) * (2 - 1j))
    scales = numpy.float64(0.5)
    check_launches(lambda: np.fft.ifft(np.fft.fft(a, norm="ortho") * scales, norm="forward"), 1, x * 10)
    check_launches(
        lambda: np.fft.ifft(np.fft.fft(a, axis=0) * b, axis=1), 2, numpy.fft.ifft(numpy.fft.fft(x, axis=0) * h, axis=1)
    )
    r, bins = a.real.copy(), b[:201].copy()
    np.evaluate(r, bins)
    real = numpy.fft.irfft(numpy.fft.rfft(x.real) * h[:201])
    check_launches(lambda: np.fft.irfft(np.fft.rfft(r) * bins) + 1, 1, real + 1)
    check_launches(lambda: np.fft.fft(np.fft.fft(a) * b), 2, numpy.fft.fft(numpy.fft.fft(x) * h))
    check_launches(lambda: np.fft.ifft(np.fft.fft(a) * b, 300), 2, numpy.fft.ifft(numpy.fft.fft(x) * h, 300))


def test_what_is_updated_by_filters_is_computed_once_for_each(stats):
    """An array that each turn multiplies reads one result of a filter, not those of all turns before."""
    x, h = values("d", (48, 36)) / 9, numpy.fft.rfft2(values("d", (48, 36)) / 90)
    ours, filters = np.asarray(x) * 1, np.asarray(h)
    np.evaluate(ours, filters)
    launches = []
    for _ in range(12):
        np.cuda.reset_stats()
        ours *= 1 + np.fft.irfft2(np.fft.rfft2(ours) * filters, x.shape) * 0.01
        x *= 1 + numpy.fft.irfft2(numpy.fft.rfft2(x) * h, x.shape) * 0.01
        launches.append(stats().launches)
    assert max(launches) <= 3
    assert abs(numpy.asarray(ours) - x).max() <= 1e-12 * abs(x).max()


def test_transforms_that_are_held_are_not_part_of_filters(stats):
    x, h = values("D", (3, 400)), values("D", (400,))
    a, b = np.asarray(x), np.asarray(h)
    np.cuda.reset_stats()
    there = np.fft.fft(a)
    back = np.fft.ifft(there * b)
    np.evaluate(back, there)
    assert stats().launches == 2
    exact = numpy.fft.fft(x)
    product = np.fft.fft(a) * b  # asked for later: of a transform of its own
    again = np.fft.ifft(product)
    a[0] = 7
    filtered = exact * h
    for found, expected in ((there, exact), (back, numpy.fft.ifft(filtered)), (product, filtered), (again, back)):
        assert abs(numpy.asarray(found) - expected).max() <= 1e-14 * abs(expected).max()


@pytest.mark.parametrize("code", ["np.fft.fft(x)", "np.fft.fft(x * h)", "abs(np.fft.fft(x, axis=0)[:, ::2])"])
def test_little_memory_takes_parts(code, stats):
    # A GPU's memory comes in larger pieces; of more rows the workspace is a ring in the cache, for which there is room.
    rows = 6 if _runtime.current().name == "emulator" else 96
    shape = (rows, 16384) if "axis" not in code else (16384, rows)
    x, h = (values("D", shape) for _ in range(2))
    given = {name: np.asarray(array) for name, array in (("x", x), ("h", h)) if name in code}
    np.evaluate(*[array * 1 for array in given.values()])
    with limited(x.nbytes * 11 / 6, x.nbytes):  # all at once takes the result and a workspace as large
        np.cuda.reset_stats()
        ours = eval(code, {"np": np, **given})  # noqa: S307 - our own code
        np.evaluate(ours)
        assert stats().launches >= 12  # of two passes, for each transform
    theirs = eval(code, {"np": numpy, "x": x, "h": h})  # noqa: S307
    assert abs(numpy.asarray(ours) - theirs).max() <= 1e-14 * abs(theirs).max()


class Compiler:
    """A loader that compiles nothing, and says when."""

    def __init__(self, compile):
        self.compile = compile

    def is_loaded(self, kernel):
        return kernel == "loaded"


def plan_of(*kernels):
    return SimpleNamespace(steps=[Launch(kernel, (1, 1, 1), (), ()) for kernel in kernels])


def compiled(monkeypatch, compile, make):
    """What `compiled` returns with a compiler."""
    ops = importlib.import_module("oxinp._core.ops.fft")
    monkeypatch.setattr(ops, "device", lambda: SimpleNamespace(loader=Compiler(compile)))
    with np.config.override(cache_dir="somewhere"):
        return ops.compiled(make)


def test_new_kernels_are_compiled_side_by_side(monkeypatch):
    """Each that is not loaded once, and all at the same time."""
    found, together = [], threading.Barrier(2, timeout=PATIENCE)

    def compile(kernel):
        together.wait()
        found.append(kernel)

    plan = plan_of("one", "loaded", "other", "one")
    assert compiled(monkeypatch, compile, lambda: plan) is plan
    assert sorted(found) == ["one", "other"]


def test_kernels_are_compiled_while_others_are_traced(monkeypatch):
    traced = importlib.import_module("oxinp._kernels.fft.traced")
    is_compiled, found = threading.Event(), []

    def compile(kernel):
        found.append(kernel)
        is_compiled.set()

    @traced.traced
    def make(kernel):
        if kernel != "first":
            assert is_compiled.wait(PATIENCE)
        return kernel

    compiled(monkeypatch, compile, lambda: plan_of(make("first"), make("second")))
    assert sorted(found) == ["first", "second"]
    assert make("third") == "third"  # of no plan


def test_a_single_new_kernel_is_compiled_where_it_is_loaded(monkeypatch):
    traced = importlib.import_module("oxinp._kernels.fft.traced")
    make, found = traced.traced(lambda: "only"), []
    compiled(monkeypatch, found.append, lambda: plan_of(make(), "loaded"))
    assert found == []
