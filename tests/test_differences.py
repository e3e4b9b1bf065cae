"""Every difference that docs/differences.md lists is one: a test for each bullet, and no bullet without."""

# ruff: noqa: ICN001 - oxinp is np

import datetime
import decimal
import hashlib
import importlib
import json
import operator
import pickle
import re
import statistics
import subprocess
import sys
import warnings
from pathlib import Path

import mpmath
import numpy
import pytest
import scipy.linalg
import scipy.linalg.interpolative
import scipy.sparse

import oxinp as np
from oxinp import _runtime
from oxinp._core.host import nominal

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "differences.md").read_text(encoding="utf-8")
LARGE = 20_000  # elements; more than 64 KB in float64
BACKED = {}

pytestmark = pytest.mark.usefixtures("default_placement")


@pytest.fixture
def default_placement(config):
    """Place arrays as a program finds them placed, before placement has learned from it."""
    config.offload_threshold = 65536
    config.adaptive_placement = False


def backs(beginning):
    """Enter a test as that of the bullet that begins so."""

    def enter(test):
        BACKED[beginning] = test
        return test

    return enter


def test_every_bullet_is_backed():
    bullets = [" ".join(bullet.split()) for bullet in re.findall(r"^\* (.*(?:\n  .*)*)", PAGE, re.MULTILINE)]
    assert len(bullets) > 12
    for bullet in bullets:
        assert len([beginning for beginning in BACKED if bullet.startswith(beginning)]) == 1, bullet
    assert len(bullets) == len(BACKED)


@backs("A reduction to a scalar, or one element of a large array, is a *device scalar*")
def test_device_scalar():
    x = np.arange(float(LARGE))
    expected = numpy.float64(LARGE - 1)
    for scalar in (x.max(), x[-1]):
        assert isinstance(scalar, numpy.float64)
        assert type(scalar) is not numpy.float64
        assert hash(scalar) == hash(expected)
        assert f"{scalar:.1f} {scalar}" == f"{expected:.1f} {expected}"
        assert scalar == expected
        assert scalar + 1 == LARGE
        assert operator.eq(type(scalar), numpy.float64)
        assert np.zeros(2, type(scalar)).dtype == numpy.float64
        assert not issubclass(type(scalar), numpy.floating)
    assert np.ones(8 * LARGE, "?").any() is not numpy.True_
    assert range(5)[np.arange(LARGE)[3]] == 3
    assert type(np.arange(4.0).max()) is numpy.float64


@backs("Code in C that tells a float by the memory of its class")
@pytest.mark.parametrize(
    "use",
    [
        json.dumps,
        decimal.Decimal,
        lambda s: datetime.timedelta(seconds=s),
        lambda s: datetime.datetime.fromtimestamp(s, datetime.UTC),
        float.hex,
        lambda s: statistics.mean([1.0, s]),
    ],
)
def test_code_in_c(use):
    """That pandas' constructors and json take them in programs that are run is in tests/runner/test_scalars.py."""
    scalar = np.arange(float(LARGE)).max()
    with pytest.raises(TypeError):
        use(scalar)
    assert use(float(scalar)) == use(numpy.float64(LARGE - 1))


@backs("`x.setflags(write=True)` succeeds")
def test_flags_of_windows():
    for xp in (np, numpy):
        x = xp.ones(5)
        windows = xp.lib.stride_tricks.sliding_window_view(x, 2)
        assert not windows.flags.writeable
        if xp is np:
            windows.setflags(write=True)
            windows[1, 1] = 7
            assert x[2] == 7
        else:
            with pytest.raises(ValueError, match="cannot set WRITEABLE"):
                windows.setflags(write=True)


@backs("The wording of an error differs where Python raises it")
def test_words():
    kinds, words = [], []
    for x in (np.ones(2), numpy.ones(2)):
        with pytest.raises(TypeError) as raised:
            x.reshape(2, foo=1)
        kinds.append(raised.type)
        words.append(str(raised.value))
    assert kinds[0] is kinds[1]
    assert words[0] != words[1]


@backs("`isinstance(a_numpy_array, np.ndarray)` is true")
def test_numpys_arrays_are_instances():
    assert isinstance(numpy.ones(3), np.ndarray)
    assert type(numpy.ones(3)) is not np.ndarray
    assert type(np.ones(3)) is np.ndarray


@backs("`isinstance(ours, numpy.ndarray)` is false")
def test_ours_are_no_instances_of_numpys():
    assert not isinstance(np.ones(3), numpy.ndarray)
    assert "is_bool_indexer" in nominal.INSISTING
    assert type(numpy.asarray(np.ones(3))) is numpy.ndarray


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="says why since Python 3.12")
@backs("Before Python 3.12 asking for a buffer")
def test_buffers_that_cannot_be_had():
    for xp, error in ((np, SystemError), (numpy, ValueError)):
        for make in (lambda xp=xp: hashlib.sha256(xp.ones((3, 2)).T), lambda xp=xp: memoryview(xp.zeros(2, "M8[s]"))):
            with pytest.raises(error):
                make()


@backs("Classes that inherit from `np.ndarray` get what NumPy's would")
def test_users_classes():
    class Ours(np.ndarray):
        def __array_finalize__(self, other):
            self.unit = getattr(other, "unit", "m")

    x = np.arange(float(LARGE)).view(Ours)
    x.unit = "s"
    assert [(type(part), part.unit) for part in (x[3:], x + 1, np.sqrt(x))] == [(Ours, "s")] * 3
    assert np.ndarray not in Ours.__bases__
    assert np.ndarray in Ours.__mro__


@backs("`np.asarray(a_numpy_array)` copies")
def test_asarray_copies():
    theirs = numpy.zeros(3)
    assert numpy.asarray(theirs) is theirs
    ours = np.asarray(theirs)
    ours += 1
    assert theirs.sum() == 0


@pytest.mark.parametrize("size", [3, LARGE])
@backs("`numpy.asarray(ours)`, a buffer")
def test_numpys_asarray_is_the_memory(size, stats):
    ours = np.zeros(size)
    theirs = numpy.asarray(ours)
    assert sum(stats().fallbacks.values()) == 1
    theirs += 1
    assert float(ours.sum()) == size
    ours *= 2
    assert theirs[-1] == 2
    np.asnumpy(ours)[:] = 7
    numpy.array(ours)[:] = 7
    assert float(ours.sum()) == 2 * size


@backs("`np.unique_values` is sorted")
def test_unique_values_are_sorted():
    values = [float(x) for x in np.unique_values(np.array([3.0, 1.0, 2.0, 3.0, 1.0]))]
    assert values == [1.0, 2.0, 3.0]


@backs("`np.__version__` is NumPy's")
def test_versions():
    assert np.__version__ == numpy.__version__
    assert np.cuda.__version__ in (ROOT / "oxinp" / "_version.py").read_text(encoding="utf-8")


@backs("Classes and objects of `oxinp.scipy`")
def test_scipys_objects_give_numpys_arrays():
    seen = []
    x = np.arange(5.0)
    spline = np.scipy.interpolate.CubicSpline(x, x**2)
    assert type(spline(x)) is type(np.scipy.stats.norm.cdf(x)) is numpy.ndarray
    found = np.scipy.optimize.root(lambda t: (seen.append(type(t)), t - 3)[1], x)
    assert set(seen) == {numpy.ndarray}
    assert type(found.x) is np.ndarray


@backs("Sparse arrays are ours")
def test_sparse_arrays():
    theirs = scipy.sparse.csr_array(numpy.eye(3) * 2)
    a = np.sparse.csr_array(theirs)
    assert type(a) is np.sparse.csr_array is not type(theirs)
    assert isinstance(theirs, np.sparse.csr_array)
    assert not scipy.sparse.issparse(a)
    assert type(a.get()) is scipy.sparse.csr_array
    theirs.data[:] = 5
    assert a.sum() == 6.0
    assert type(a @ np.arange(3.0)) is np.ndarray


@backs("Arrays of NumPy's own classes (`matrix`, `MaskedArray`, `recarray`) stay NumPy's")
def test_numpys_classes(tmp_path):
    x = np.arange(4.0).reshape(2, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        matrix = np.asmatrix(x)
    mapped = np.memmap(tmp_path / "file", mode="w+", shape=3)
    made = [
        (matrix, numpy.matrix),
        (np.ma.array(x), numpy.ma.MaskedArray),
        (np.rec.fromarrays([x[0], x[1]], names="a,b"), numpy.recarray),
        (mapped, numpy.memmap),
    ]
    assert all(type(array) is kind for array, kind in made)
    matrix += 1
    assert float(x.sum()) == 10
    assert type(np.concatenate([mapped, mapped])) is np.ndarray


class Particular:
    """Adds itself to NumPy's arrays, and to nothing else."""

    __array_ufunc__ = None

    def __init__(self):
        self.asked = []

    def __radd__(self, other):
        self.asked.append(type(other))
        return "added" if type(other) is numpy.ndarray else NotImplemented


@backs("An object that overrides operators and functions")
def test_who_does_not_know_our_arrays_is_asked_again():
    particular = Particular()
    assert np.ones(3) + particular == "added"
    assert particular.asked == [np.ndarray, numpy.ndarray]


@backs("Memory that others hold stays where they see it")
def test_memory_of_others(stats):
    x = np.zeros(LARGE)
    np.evaluate(x)
    view = x.flat
    x += 1
    np.cuda.synchronize()
    before = stats().h2d_bytes
    total = float((x * 2).sum())
    uploaded = stats().h2d_bytes - before
    assert (total, view[0]) == (2 * LARGE, 1)
    assert uploaded >= x.nbytes
    memory = bytearray(8 * LARGE)
    y = np.frombuffer(memory)
    y += 1
    assert bytes(memory[:8]) == numpy.float64(1).tobytes()


@backs("Errors in shapes, dtypes and casting are raised where the operation is written")
def test_errors_are_raised_where_they_are_written():
    x, i = np.ones(LARGE), np.ones(LARGE, dtype=int)
    with pytest.raises(ValueError, match="broadcast"):
        x + np.ones(LARGE + 1)
    with pytest.raises(TypeError, match="Cannot cast"):
        i += x
    with pytest.raises(IndexError):
        x[LARGE]


@backs("What the device reports late")
def test_late_errors(config, monkeypatch):
    def refuse(_):
        raise MemoryError

    x = np.ones(LARGE) * 3
    np.evaluate(x)
    y = x + 1
    with monkeypatch.context() as patch:
        patch.setattr(_runtime.current(), "allocate", refuse)
        config.offload_threshold = 65536  # programs hold what allocates, and are made anew for new settings
        for use in (lambda: float(y[0]), lambda: np.evaluate(y), lambda: str(y)):
            with pytest.raises(MemoryError):
                use()
    config.offload_threshold = 65536
    assert float(y[0]) == 4


@backs("An index out of bounds in an array that is on the device alone")
def test_index_errors_are_late(config):
    x, index = np.arange(float(LARGE)), np.arange(LARGE) + 1
    read = x[index]
    with pytest.raises(IndexError, match=f"index {LARGE} is out of bounds") as raised:
        float(read[0])
    assert "test_differences.py" in raised.value.__notes__[0]
    x[index] = 3
    with pytest.raises(IndexError, match=f"index {LARGE} is out of bounds"):
        np.cuda.synchronize()
    assert float(x[1]) == 1
    with pytest.raises(IndexError):
        x[numpy.array([LARGE])]
    config.synchronous = True
    with pytest.raises(IndexError):
        x[index]


@backs("Floating-point errors of device work follow `np.errstate`")
def test_floating_point_errors(config):
    with warnings.catch_warnings(), numpy.errstate(divide="warn", invalid="warn"):
        warnings.simplefilter("error")
        zeros = np.zeros(LARGE)
        assert float((1 / zeros).max()) == numpy.inf
        with numpy.errstate(all="raise"):
            quotient = zeros / zeros
            product = (zeros + 1e200).reshape(-1, 8) @ (zeros[:64].reshape(8, 8) + 1e200)
            root = np.sqrt(np.zeros(LARGE) * 1j)
        with pytest.raises(FloatingPointError, match="invalid value encountered in divide"):
            float(quotient[0])
        assert float(product[0, 0]) == numpy.inf
        assert root[0].item() == 0
        with pytest.raises(RuntimeWarning, match="divide by zero"):
            1 / np.zeros(3)
        config.floating_point_errors = "numpy"
        with pytest.raises(RuntimeWarning, match="divide by zero encountered in divide"):
            float((1 / zeros)[0])


@backs("`+ - * /`, `sqrt`, comparisons and casts give the same bits. Sums, those in `a @ b` too, use a different order")
def test_numbers():
    random = numpy.random.default_rng(1)
    a, b = random.standard_normal((2, LARGE))
    x, y = np.asarray(a), np.asarray(b)
    for operation in ("__add__", "__sub__", "__mul__", "__truediv__", "__lt__", "__ge__", "__eq__"):
        numpys, ours = getattr(a, operation)(b), getattr(x, operation)(y)
        assert numpy.asarray(ours).tobytes() == numpys.tobytes()
    assert numpy.asarray(np.sqrt(x * x)).tobytes() == numpy.sqrt(a * a).tobytes()
    assert numpy.asarray(x.astype(np.float32)).tobytes() == a.astype(numpy.float32).tobytes()
    exact = float(numpy.sum(a.astype(numpy.longdouble)))
    assert abs(float(x.sum()) - exact) <= max(abs(float(a.sum()) - exact), 1e-12)
    assert len({float((x * 1).sum()) for _ in range(5)}) == 1
    assert abs(float(x @ y) - float(a @ b)) <= 1e-12 * float(abs(a) @ abs(b))
    assert len({float(x @ y) for _ in range(5)}) == 1


@backs("Products of complex numbers round each part once less")
def test_complex_numbers():
    rng = numpy.random.default_rng(0)
    a, b = rng.standard_normal((2, LARGE)) + 1j * rng.standard_normal((2, LARGE))
    x, y = np.array(a), np.array(b)
    product = numpy.asarray(x * y)
    assert (abs(product - a * b) <= 4 * numpy.spacing(abs(a * b))).all()
    assert numpy.asarray(x / y).tobytes() == (a / b).tobytes()
    ours, numpys, wide = numpy.asarray(np.sqrt(x)), numpy.sqrt(a), numpy.sqrt(a.astype(numpy.clongdouble))
    for part in ("real", "imag"):
        ulp = numpy.spacing(abs(getattr(numpys, part)))
        assert (abs(getattr(ours, part) - getattr(wide, part)) <= ulp).all()
        assert (abs(getattr(numpys, part) - getattr(wide, part)) <= 2.5 * ulp).all()
    exponents = 40 * b[:2000]
    with mpmath.workprec(200):
        exact = [mpmath.power(mpmath.mpc(p), mpmath.mpc(q)) for p, q in zip(a[:2000:20], exponents[::20], strict=True)]
        errors = [
            max(float(abs(mpmath.mpc(value) - true) / abs(true)) for value, true in zip(values, exact, strict=True))
            for values in (numpy.asarray(x[:2000] ** np.array(exponents))[::20], a[:2000:20] ** exponents[::20])
        ]
    assert errors[0] < 1e-15
    assert errors[1] > 5e-15


@backs("The largest or smallest of complex numbers with NaN")
def test_largest_of_complex_nan():
    a = numpy.full(LARGE, 3 - 1j)
    a[[7, 9000]] = complex(numpy.nan, 1), complex(5, numpy.nan)
    assert numpy.isnan(numpy.max(a).real)
    assert numpy.isnan(np.array(a).max())


@backs("Cumulative sums of floats are rounded once per element")
def test_cumulative_sums():
    a = numpy.full(5000, 1.0, numpy.float16)
    assert numpy.cumsum(a)[-1] == 2048
    assert float(np.cumsum(np.tile(np.array(a), 10))[4999]) == 5000
    b = numpy.full(LARGE, 0.1, numpy.float32)
    exact = numpy.cumsum(b.astype(numpy.float64))
    assert (numpy.asarray(np.array(b).cumsum()) == exact.astype(numpy.float32)).all()
    assert (numpy.cumsum(b) != exact.astype(numpy.float32)).any()
    c = numpy.repeat([1e-30, 1e30], LARGE)
    assert numpy.cumprod(c)[-1] == 0
    assert float(np.cumprod(np.array(c))[-1]) == pytest.approx(1)
    assert float(np.prod(np.array(c))) == pytest.approx(1)
    d = numpy.repeat(numpy.array([2e38, -2e38], numpy.float32), LARGE)[LARGE - 2 : LARGE + 2].repeat(LARGE // 4)
    with numpy.errstate(all="ignore"):
        assert not numpy.isfinite(numpy.cumsum(d)[-1])
    assert float(np.cumsum(np.array(d))[-1]) == 0


@backs("Unbuffered sums of floats")
@pytest.mark.usefixtures("on_device")
def test_unbuffered_sums():
    values = numpy.random.default_rng(0).random(3000)
    index = np.array(numpy.zeros(3000, int))
    found = []
    for _ in range(2):
        total = np.zeros(3000)
        np.add.at(total, index, np.array(values))
        found.append(float(total[0]))
    assert found[0] == found[1] == pytest.approx(values.sum(), rel=1e-14)


@backs("`np.partition` and `np.argpartition` leave")
def test_partition():
    x = numpy.random.default_rng(0).random(2 * LARGE, "f4")
    for rank, size in ((5, LARGE), (LARGE, 2 * LARGE), ([3, 9], 2 * LARGE)):  # sorted, in three parts, sorted
        found, expected = numpy.asarray(np.partition(np.array(x[:size]), rank)), numpy.partition(x[:size], rank)
        assert (found != expected).any()
        assert (numpy.sort(found) == numpy.sort(expected)).all()
        assert (found[rank] == expected[rank]).all()


@backs("Sums of float16 round once")
def test_sums_of_float16():
    a = numpy.full((2048, 64), 0.5, numpy.float16)
    a[0] = 2048
    assert (numpy.sum(a, axis=0) == 2048).all()  # 2048 + 0.5 is 2048 in float16, time and again
    assert (numpy.asarray(np.array(a).sum(0)) == numpy.float16(2048 + 2047 / 2)).all()


@backs("Products of float16 matrices are summed up in single precision")
@pytest.mark.usefixtures("on_device")
def test_products_of_float16():
    a, b = (
        numpy.random.default_rng(seed).random((n, m)).astype("f2") for seed, (n, m) in enumerate(((40, 500), (500, 24)))
    )
    exact = a.astype("f8") @ b.astype("f8")  # all terms are positive: their sum is that of magnitudes
    x, y = np.array(a), np.array(b)
    rounded = numpy.abs(numpy.asarray(x @ y) - exact)
    assert (rounded <= exact * (2.0**-11 + 4 * 500 * 2.0**-24)).all()
    assert (numpy.abs(numpy.asarray(np.matmul(x, y, dtype="f4")) - exact) <= exact * 500 * 2.0**-24).all()


@backs("Means, variances and deviations of float16")
def test_variances():
    a = numpy.full(LARGE * 2, 300, numpy.float16)
    a[::2] = 0
    with numpy.errstate(over="ignore"):
        assert numpy.isinf(numpy.var(a * numpy.float16(2)))
    assert float(np.std(np.array(a))) == 150
    b = numpy.full(LARGE, 1e8, numpy.float32)
    b[::2] += 8
    b[:100] += 24
    exact = float(b.astype(numpy.float64).var())
    assert abs(float(np.var(np.array(b))) - exact) <= 1e-6 * exact < abs(float(numpy.var(b)) - exact)


@backs("Fourier, cosine and sine transforms err less than pocketfft's")
@pytest.mark.usefixtures("on_device")
def test_transforms():
    x = numpy.random.default_rng(3).standard_normal(1000)
    exact = numpy.fft.fft(x.astype(numpy.longdouble))
    ours = numpy.asarray(np.fft.fft(np.asarray(x)))
    assert numpy.linalg.norm(ours - exact) <= numpy.linalg.norm(numpy.fft.fft(x) - exact)
    _, power = np.scipy.signal.welch(np.asarray(x.astype("f4")), nperseg=64)
    assert power.dtype == "f4"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.scipy.signal.convolve(np.asarray(numpy.where(x > 2, numpy.inf, x)), np.asarray(x[:300]))


@backs("A sum into an `out` of another dtype")
def test_output_of_another_dtype():
    a = numpy.full((2, 2**17), 2.0**-40)
    a[:, 0] = 1
    ours, numpys = np.zeros(2, np.float32), numpy.zeros(2, numpy.float32)
    np.sum(np.array(a), axis=1, out=ours)
    numpy.sum(a, axis=1, out=numpys)
    exact = numpy.float32(a[0].sum())
    assert (numpy.asarray(ours) == exact).all()
    assert (numpys != exact).all()


@backs("Reductions on the device warn of shapes")
def test_warnings_of_values(config):
    a = numpy.full((LARGE, 2), numpy.nan)
    with pytest.warns(RuntimeWarning, match="All-NaN"):
        numpy.nanmax(a, axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert numpy.isnan(numpy.asarray(np.nanmax(np.array(a), axis=1))).all()
    with pytest.warns(RuntimeWarning, match="Degrees of freedom"):
        np.var(np.array(a), axis=1, ddof=2)
    config.floating_point_errors = "numpy"
    with pytest.warns(RuntimeWarning, match="All-NaN"):
        numpy.asarray(np.nanmax(np.array(a), axis=1))
    with pytest.warns(RuntimeWarning, match="overflow encountered in reduce"):
        float((np.zeros(LARGE) + 1e308).sum())


@backs("`einsum` of three or more operands contracts them in pairs")
def test_einsum_in_pairs():
    small, large = numpy.full((200, 200), 1e-300), numpy.full((200, 200), 1e300)
    operands = small, large, large[0]
    assert numpy.isfinite(numpy.einsum("ij,jk,k->i", *operands)).all()
    assert numpy.isinf(numpy.asarray(np.einsum("ij,jk,k->i", *map(np.asarray, operands)))).all()


@backs("A cast to uint32 of floats that uint32 does not hold")
def test_casts_to_uint32():
    a = numpy.full(LARGE, numpy.nan)
    a[::2] = 3.0
    with numpy.errstate(invalid="ignore"):
        numpys = a.astype(numpy.uint32)
    ours = numpy.asarray(np.array(a).astype(np.uint32))
    assert (ours[::2] == 3).all()
    assert (numpys[::2] == 3).all()
    assert len(set(ours[1::2].tolist())) == 1  # NumPy's are what its loop on this processor makes of NaN


@backs("Elementary functions of floats (`exp`, `log`, `sin`, ...) are within 1 ulp of the true value")
def test_elementary_functions():
    a = numpy.random.default_rng(2).uniform(0.1, 50.0, LARGE).astype(numpy.float32)
    for name in ("exp", "log", "sin", "cos", "tanh"):
        ours = numpy.asarray(getattr(np, name)(np.asarray(a)))
        exact = getattr(numpy, name)(a.astype(numpy.float64))
        error = numpy.abs(ours.astype(numpy.float64) - exact) / numpy.spacing(numpy.abs(exact.astype(numpy.float32)))
        assert ours.dtype == numpy.float32
        assert error.max() <= 1


@backs("Parts of complex matrix products that are zero are +0")
def test_zeros_of_complex_products(config):
    config.offload_threshold = 0
    x, y = numpy.full((2, 1), -0.0, complex), numpy.ones((1, 2), complex)
    assert not numpy.signbit(numpy.asarray(np.dot(np.asarray(x), np.asarray(y))).real).any()
    assert not numpy.dot(x, y).any()


@backs("A NaN that the device makes has other bits")
def test_bits_of_nan():
    zeros = np.zeros(LARGE)
    ours = numpy.asarray(zeros / zeros)
    with numpy.errstate(invalid="ignore"):
        numpys = numpy.zeros(LARGE) / numpy.zeros(LARGE)
    assert numpy.isnan(ours).all()
    # Which bits a processor makes is its own affair; of the device's, only that they are one NaN's.
    assert len(set(ours.view(numpy.uint64).tolist())) == 1
    assert numpy.array_equal(ours, numpys, equal_nan=True)


@pytest.mark.gpu
@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@backs("After `fork` the child cannot use the GPU and says so")
def test_after_fork():
    text = """
import os, warnings
import oxinp as np
warnings.simplefilter("ignore")
x = np.ones(20_000)
np.evaluate(x)
child = os.fork()
if child == 0:
    try:
        float((x + 1).sum())
    except Exception as error:
        os._exit(3 if "spawn" in str(error) else 4)
    os._exit(5)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "3\n"


@backs("Assignments whose two sides overlap are done as if the right side were copied first, always")
def test_overlapping_assignments(config):
    config.offload_threshold = 0
    results = []
    for xp in (np, numpy):
        a = xp.arange(5)
        a[::2] = a[:3]
        results.append([int(x) for x in a])
    assert results == [[0, 1, 1, 3, 2], [0, 1, 1, 3, 1]]


@backs("What `where` leaves out of an output stays as it is")
def test_what_where_leaves_out(config):
    config.offload_threshold = 0
    results = []
    for xp in (np, numpy):
        x = xp.array([-1, 0, 2, 5, 7], dtype="i4")
        xp.equal(x, 5, out=x[::-1], where=x > 1)
        results.append(x.tolist())
    assert results == [[0, 1, 0, 5, 7], [0, 1, 0, 1, 1]]


@backs("The arrays of `np.nonzero` and `np.unravel_index` in several dimensions lie in memory")
def test_memory_of_nonzero(config):
    config.offload_threshold = 0
    found = [xp.nonzero(xp.ones((2, 3))) for xp in (np, numpy)]
    found += [xp.unravel_index(xp.arange(6), (2, 3)) for xp in (np, numpy)]
    assert [[x.strides for x in arrays] for arrays in found] == [[(8,)] * 2, [(16,)] * 2] * 2


@backs("A pickle that NumPy wrote names NumPy's own functions and generators")
def test_pickles_of_numpys():
    assert pickle.loads(pickle.dumps(numpy.add)) is numpy.add is not np.add  # noqa: S301 - its own
    given = pickle.loads(pickle.dumps(numpy.random.default_rng(1)))  # noqa: S301
    assert type(given) is numpy.random.Generator
    assert pickle.loads(pickle.dumps(np.add)) is np.add  # noqa: S301


@pytest.mark.filterwarnings("ignore:The chararray class")  # since NumPy 2.5
@backs("Records are NumPy's scalars, whose `base` is NumPy's array over the same memory")
def test_records():
    a = np.zeros(3, "i4,f4")
    assert type(a[0]) is numpy.void
    assert type(a[0].base) is numpy.ndarray
    a[0]["f0"] = 7
    assert a["f0"].tolist() == [7, 0, 0]
    assert numpy.zeros(3, "i4,f4")[0].base is not None
    assert type(np.asarray(["a"]).view(np.char.chararray)).__module__.startswith("numpy")


@backs("A NumPy scalar on the left of an operator asks a class that inherits from `np.ndarray`")
def test_methods_of_users_classes():
    results = []
    for xp in (np, numpy):

        class Other(xp.ndarray):  # noqa: PLW1641 - an array has no hash
            def __eq__(self, other):
                return "OK"

            def mean(self, *args, **kwargs):  # noqa: ARG002 - NumPy's
                return -7.0

        x = xp.array([1, 2, 3]).view(Other)
        results.append([x == 10, isinstance(numpy.int32(10) == x, str), float(xp.median(x))])
    assert results == [["OK", False, 2.0], ["OK", True, -7.0]]


@backs("`x.__array_namespace__()` is `oxinp.array_api`, the standard's namespace")
def test_namespace_of_arrays():
    assert np.arange(3).__array_namespace__() is importlib.import_module("oxinp.array_api")
    assert numpy.arange(3).__array_namespace__() is numpy


@backs("Writing to a result of `np.broadcast_arrays`")
def test_writes_to_broadcast_arrays(config):
    config.offload_threshold = 0
    said = []
    for xp in (np, numpy):
        x, _ = xp.broadcast_arrays(xp.zeros(3), xp.zeros((3, 3)))
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            x[0, 0] = 1
        said.append(len(found))
        assert x[:, 0].tolist() == [1, 1, 1]
    assert said == [0, 1]


def with_nan(order, row):
    a = numpy.eye(order) + 0.25
    a[row, row] = numpy.nan
    return a


@backs("Of matrices with NaN or infinities, what LAPACK would iterate on is a LinAlgError")
def test_iterations_on_what_is_not_finite(config):
    config.offload_threshold = 0
    with pytest.raises(np.linalg.LinAlgError, match="SVD did not converge"):
        np.linalg.svd(np.full((3, 3), np.inf))
    w, _ = np.linalg.eigh(np.asarray(with_nan(26, 7)))
    assert np.isnan(w).all()
    assert not numpy.isnan(numpy.linalg.eigh(with_nan(26, 7))[0]).all()
    assert np.isnan(np.linalg.eigvalsh(np.asarray(with_nan(2, 1)))).all()


@backs("In factors (`lu`, `qr`), and in what is solved with them (`solve`, `inv`)")
def test_nan_in_factors(config):
    config.offload_threshold = 0
    a = with_nan(5, 2)
    for name in ("inv", "qr"):
        ours, numpys = getattr(np.linalg, name)(np.asarray(a)), getattr(numpy.linalg, name)(a)
        ours, numpys = (x if name == "inv" else x[0] for x in (ours, numpys))
        assert np.isnan(ours).sum() >= numpy.isnan(numpys).sum() > 0


@backs("`scipy.linalg.eig` and `eigvals` of one matrix refuse what is not finite")
def test_matrices_that_are_not_balanced(config):
    config.offload_threshold = 0
    with pytest.raises(ValueError, match="must not contain infs or NaNs"):
        np.scipy.linalg.eigvals(np.asarray(with_nan(3, 1)), check_finite=False)


@backs("Pairs of homogeneous eigenvalues of a pencil are as large as A x and B x")
def test_pairs_of_numbers(config):
    config.offload_threshold = 0
    a, b = numpy.random.default_rng(0).standard_normal((2, 3, 3))
    ours = np.asnumpy(np.scipy.linalg.eigvals(np.asarray(a), np.asarray(b), homogeneous_eigvals=True))
    scipys = scipy.linalg.eigvals(a, b, homogeneous_eigvals=True)
    assert ours.shape == scipys.shape
    assert not numpy.allclose(numpy.sort(numpy.abs(ours[1])), numpy.sort(numpy.abs(scipys[1])))
    assert numpy.allclose(*(numpy.sort_complex(numpy.round(x[0] / x[1], 9)) for x in (ours, scipys)))


@backs("`scipy.linalg.logm`, `expm_frechet`, `expm_cond`, `solve_sylvester` and other matrix equations")
def test_single_precision_in_double(config):
    config.offload_threshold = 0
    a, q = (x.astype("f4") for x in numpy.random.default_rng(0).standard_normal((2, 4, 4)))
    a += 5 * numpy.eye(4, dtype="f4")
    exact = scipy.linalg.solve_sylvester(*(x.astype("f8") for x in (a, a, q)))
    ours = np.asnumpy(np.scipy.linalg.solve_sylvester(*map(np.asarray, (a, a, q))))
    scipys = scipy.linalg.solve_sylvester(a, a, q)
    assert ours.dtype == scipys.dtype == numpy.float32
    assert numpy.abs(ours - exact).max() < numpy.abs(scipys - exact).max()


@backs("`scipy.linalg.interpolative` draws no random samples")
def test_ranks_without_samples(config):
    config.offload_threshold = 0
    a = numpy.outer(numpy.arange(1.0, 13), numpy.arange(1.0, 10))
    assert np.scipy.linalg.interpolative.estimate_rank(np.asarray(a), 1e-10) == 1
    assert scipy.linalg.interpolative.estimate_rank(a, 1e-10) > 1
