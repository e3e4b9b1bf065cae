"""Every dtype of the device in everything that takes dtypes: NumPy's values, on the device, for every pair."""

import operator
import warnings

import numpy as np
import pytest

import oxinp
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.ufunc.objects import UFUNC_OBJECTS
from oxinp._core.ufunc.table import UFUNCS
from tests.comparator import assert_within, same_outcome
from tests.tolerances import REDUCTIONS

CODES = "?bhilBHILefdFD"
SIZE = 1200
ARITHMETIC = (operator.add, operator.sub, operator.mul, operator.truediv)
COMPARISONS = (operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge)
SCALARS = (
    *(1, -1, 300, 2**31, -(2**31) - 1, 2**63, 2**64, 1e6, 1e300, 1 - 2j, True),
    *(np.float32(2.5), np.complex64(1 + 2j), np.uint64(2**63), np.float16(0.1)),
)
RANGES = ((100,), (5, 120), (3, 100, 2), (0.5, 80.5), (0, 1, 0.01), (-5, 100), (300, 500), (10, -90, -1))

pytestmark = [
    pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


@pytest.fixture(autouse=True)
def on_device(config):
    config.offload_threshold = 0


@pytest.fixture
def on_device_only(stats):
    """Fail where NumPy computed anything for us but what it is asked to show."""
    before = dict(stats().fallbacks)
    launches = stats().launches
    yield
    done = {name: count - before.get(name, 0) for name, count in stats().fallbacks.items()}
    assert {name for name, count in done.items() if count} <= {"__array__"}
    assert stats().launches > launches


def values(code, seed=0):
    """Values of all magnitudes, special ones first."""
    dtype, rng = np.dtype(code), np.random.default_rng([seed, ord(code)])
    if code == "?":
        return rng.integers(0, 2, SIZE).astype(bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        numbers = rng.integers(info.min, info.max, SIZE, dtype, endpoint=True)
        numbers[100:300] = rng.integers(0, 3, 200)
        return numbers
    if dtype.kind == "c":
        z = np.empty(SIZE, dtype)
        z.real, z.imag = values(code.lower(), seed), np.roll(values(code.lower(), seed + 1), seed)
        return z
    numbers = (rng.standard_normal(SIZE) * 10.0 ** rng.integers(-3, 4, SIZE)).astype(dtype)
    numbers[:8] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, 2, 3]
    return numbers


def twin(body, ulp=0):
    with np.errstate(all="ignore"):
        same_outcome(body, oxinp, np, ulp)


def product_ulp(function, *codes):
    """NumPy's products of complex numbers depend on the loop: with FMA, as ours, or without."""
    return 3 if function is operator.mul and any(code in "FD" for code in codes) else 0


def test_every_dtype_of_the_device_is_here():
    assert {np.dtype(code) for code in CODES} == set(DEVICE_TYPES)


@pytest.mark.usefixtures("on_device_only")
@pytest.mark.parametrize("right", CODES)
@pytest.mark.parametrize("left", CODES)
def test_operators_casts_and_choices(left, right):
    a, b = values(left), values(right, 1)
    for function in (*ARITHMETIC, *COMPARISONS):
        if left == right == "?" and function is operator.sub:
            continue  # NumPy refuses
        twin(lambda xp, f=function: f(xp.array(a), xp.array(b)), product_ulp(function, left, right))
    condition = values("?")
    twin(lambda xp: xp.where(xp.array(condition), xp.array(a), xp.array(b)))

    def assign(xp):
        x = xp.array(given)
        x[1::2] = xp.array(b)[: SIZE // 2]
        return x

    # NumPy's scalar and vector loops differ on floats that uint32 does not hold.
    given = a[8:] if right == "I" else a
    if right == "I" and left in "efdFD":
        given = given[np.abs(given) < 2.0**31]
    twin(lambda xp: xp.array(given).astype(np.dtype(right)))
    if left != "I" or right not in "efdFD":
        given = a
        twin(assign)


@pytest.mark.parametrize("scalar", SCALARS, ids=repr)
@pytest.mark.parametrize("code", CODES)
def test_scalars(code, scalar):
    """Whether NumPy takes a scalar, what it becomes, and what comes of it, on either side and in place."""
    a = values(code)
    is_complex = np.dtype(type(scalar)).char
    for function in (operator.mul, operator.sub, operator.truediv, operator.ge):
        ulp = product_ulp(function, code, is_complex)
        twin(lambda xp, f=function: f(xp.array(a), scalar), ulp)
        if function is not operator.mul:
            twin(lambda xp, f=function: f(scalar, xp.array(a)), ulp)
        if function is operator.mul:
            in_place = getattr(operator, "i" + function.__name__)
            twin(lambda xp, f=in_place: f(xp.array(a), scalar), ulp)

    def assign(xp):
        x = xp.array(a)
        x[3:900] = scalar
        return x

    twin(assign)
    twin(lambda xp: xp.full(1000, scalar, dtype=np.dtype(code)))


@pytest.mark.usefixtures("on_device_only")
@pytest.mark.parametrize("code", CODES)
def test_reductions(code):
    a = values(code)[16:].reshape(-1, 8, 4)
    x = oxinp.array(a)
    for axis in (None, 0, 1, (0, 2)):
        twin(lambda xp, axis=axis: xp.array(a).max(axis))
        expected = a.sum(axis)
        total = x.sum(axis)
        assert total.dtype == expected.dtype
        bound = REDUCTIONS["sum"].bound(a, axis, keepdims=False) if code in "efdFD" else 0
        if code in "efdFD":
            assert_within(total, expected, bound)
        else:
            twin(lambda xp, axis=axis: xp.array(a).sum(axis))
            twin(lambda xp, axis=axis: xp.array(a).sum(axis, dtype=np.int8))
            twin(lambda xp, axis=axis: xp.array(a).sum(axis, dtype=np.uint16))


@pytest.mark.parametrize("arguments", RANGES, ids=repr)
@pytest.mark.parametrize("code", CODES)
def test_ranges(code, arguments):
    twin(lambda xp: xp.arange(*arguments, dtype=np.dtype(code)))


@pytest.mark.usefixtures("on_device_only")
@pytest.mark.parametrize("code", CODES)
def test_square_roots(code):
    a = values(code)
    twin(lambda xp: xp.sqrt(xp.array(a)), ulp=2 if code in "FD" else 0)


@pytest.mark.usefixtures("on_device_only")
@pytest.mark.parametrize("code", "FD")
def test_parts_are_views(code):
    def body(xp):
        z = xp.array(a)
        z.real[2:] = z.imag[:-2]
        z.imag += 1
        z.imag = z.real + z.imag
        return z, z.real + 1, z.imag, (z - z.real).imag, z.T.real.copy()

    a = values(code)
    twin(body)


@pytest.mark.usefixtures("on_device_only")
@pytest.mark.parametrize("code", "FDdi")
def test_conjugates(code):
    a = values(code)
    twin(lambda xp: (xp.array(a).conj(), xp.conj(xp.array(a)), xp.array(a).conjugate() - xp.array(a)))


@pytest.mark.parametrize("exponent", [2, 1, -1, 0.5, 2.0, 3, 0])
@pytest.mark.parametrize("code", CODES)
def test_powers(code, exponent):
    if code in "FD" and exponent == 2:
        exponent = 2  # with 2.0 NumPy multiplies in its scalar loop
    a = np.abs(values(code)) if code in "efd" else values(code)
    twin(lambda xp: xp.array(a) ** exponent, ulp=5 if code in "FD" or exponent in {3, 0.5} else 0)


def test_lost_imaginary_parts_are_warned_of():
    z = oxinp.array(values("D"))
    x = oxinp.zeros(SIZE)
    for lose in (lambda: z.astype(float), lambda: z.astype("i1"), lambda: x.__setitem__(slice(None), z)):
        with pytest.warns(np.exceptions.ComplexWarning):
            lose()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert z.astype(bool).dtype == bool
        assert z.astype("F").dtype == "F"


def test_integers_that_do_not_fit_a_narrow_dtype():
    """The shortcut for Python integers must not let them through, nor refuse what NumPy takes."""
    x = oxinp.array(values("b"))
    for _ in range(3):
        assert (x + 1).dtype == np.int8
        with pytest.raises(OverflowError):
            x + 300
        assert (x < 1).sum() == (values("b") < 1).sum()
        assert (x < 300).all()


def test_scalars_that_are_still_on_the_device():
    z = oxinp.array(values("F")[8:])
    half = oxinp.array(values("e")[8:])

    def body(xp):
        z, half = xp.array(values("F")[8:]), xp.array(values("e")[8:])
        best, largest = z.max(), half.max()
        return z - best, half / largest, best + 1, best * 2j, largest + 0.5, complex(best), half * best

    twin(body, ulp=3)
    assert isinstance(z.max(), np.complex64)
    assert isinstance(half.sum(), np.float16)


def test_chains_of_float16_round_after_every_operation(launches):
    x, y = (oxinp.array(values("e", seed)) for seed in (0, 1))
    assert launches(lambda: (x + y) * x - y / 3) == 1
    twin(lambda xp: (xp.array(values("e")) + xp.array(values("e", 1))) * xp.array(values("e")) - 1 / 3)


def test_equal_dtypes_of_different_scalar_types():
    """C's unsigned long and unsigned long long are both uint64, equal, and have scalars of different types."""

    def body(xp):
        results = []
        for code in ("Q", "L", "q", "l"):
            x = xp.array([[1, 2], [3, 4]], dtype=code)
            results += [x[0, 0] + x[0, 1], x.sum(), x.max(), (x * x)[1, 1], x.copy()[0, 0], x.T.astype(code)[1, 0]]
        return results

    twin(body)


@pytest.mark.parametrize("numbers", [[300], [[1, -1]], [1.5], [float("nan")], [1j], [np.float64(300)], [np.int64(-1)]])
@pytest.mark.parametrize("code", "bBhiIlLefF")
def test_lists_are_assigned_number_by_number(code, numbers):
    def body(xp):
        x = xp.zeros((3, 2), dtype=np.dtype(code))
        x[...] = numbers
        return x

    twin(body)


COMPLEX = [row for row in UFUNCS if row.complex_ulp and row.numpy.nin == 1]


@pytest.mark.usefixtures("on_device_only")
@pytest.mark.parametrize("code", "FD")
@pytest.mark.parametrize("row", COMPLEX, ids=lambda row: row.name)
def test_complex_functions(row, code):
    """Near NumPy's in twice the precision, in ulp of the larger part; special values are tests/ptx's business."""
    rng = np.random.default_rng(0)
    z = (rng.standard_normal(SIZE) + 1j * rng.standard_normal(SIZE)) * 10.0 ** rng.integers(-3, 2, SIZE)
    z = z.astype(code)
    given = np.asarray(UFUNC_OBJECTS[row.name](oxinp.array(z)))
    wide = row.numpy(z.astype(np.clongdouble))
    larger = np.maximum(abs(wide.real), abs(wide.imag)).astype(given.real.dtype)
    off = np.maximum(abs(given.real - wide.real), abs(given.imag - wide.imag)) / np.spacing(larger)
    assert given.dtype == row.numpy(z).dtype
    assert off.max() <= row.complex_ulp


OBJECTS = {
    "object": lambda np: np.array([[1, "a", None], [2.5, (3,), "b"]], dtype=object),
    "object in Fortran order": lambda np: np.array([[1, "a"], [2.5, None]], dtype=object, order="F"),
    "structured": lambda np: np.array([(1, "a"), (2, None)], dtype=[("n", "i4"), ("o", "O")]),
    "no elements": lambda np: np.array([], dtype=object),
    "strings": lambda np: np.array(["a", "a long string, which lies elsewhere"], dtype="T"),
}


def _set_shape(a):
    a.shape = (*a.shape[::-1], 1)


CHANGES = {
    "setflags": lambda a: a.setflags(write=False),
    "flags": lambda a: setattr(a.flags, "writeable", False),
    "shape": _set_shape,
    "nothing": lambda _: None,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("make", OBJECTS.values(), ids=OBJECTS)
@pytest.mark.usefixtures("offload_threshold")
def test_references_stay_readable(twin, make, change):
    def body(np):
        a = make(np)
        transposed = a.T
        change(a)
        results = [
            a.tolist(),
            transposed.tolist(),
            a.view().tolist(),
            a[:1].tolist(),
            a.T.copy().tolist(),
            a.ravel().tolist(),
        ]
        if a.flags.writeable and a.size:
            a[..., 0] = a[..., -1]
        return (*results, a.tolist(), a.shape, a.flags.writeable)

    twin(body)
