"""Every row of the ufunc table, every loop that the device has, against NumPy: values, layouts, scalars, keywords."""

import itertools

import numpy as np
import pytest

import oxinp
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.ufunc.objects import UFUNC_OBJECTS
from oxinp._core.ufunc.table import UFUNCS
from tests.comparator import assert_same

pytestmark = [pytest.mark.usefixtures("on_device"), pytest.mark.filterwarnings("ignore")]

ROWS = {row.name: row for row in UFUNCS}
FLOATS = [
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 3.0, -7.0, 1e-3, 180.0, 1e5, -1e9),
    *(np.inf, -np.inf, np.nan),
]


def special(dtype):
    """Values of a dtype where functions are likely to go wrong."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        values = [0, 1, 2, 3, 7, 31, 63, 100, info.max, info.max - 1, info.min, info.min + 1]
        return np.unique(np.array(values + ([-1, -2, -7] if info.min < 0 else []), dtype))
    if dtype.kind == "c":
        parts = np.array([0.0, -0.0, 1.0, -2.5, 0.25, 8.0, np.inf, -np.inf, np.nan]).astype(dtype)
        made = np.empty((parts.size, parts.size), dtype)
        made.real, made.imag = parts.real[:, None], parts.real
        return made.ravel()
    info = np.finfo(dtype)
    edges = [info.max, info.tiny, info.smallest_subnormal, info.eps, 1 - info.epsneg, -info.max, -info.tiny]
    with np.errstate(all="ignore"):
        return np.concatenate([np.array(FLOATS).astype(dtype), np.array(edges, dtype)])


def loops(row):
    """Return the input dtypes of the loops that the device has, each once."""
    found = {}
    for loop in row.numpy.types:
        inputs, outputs = loop.split("->")
        dtypes = [np.dtype(char) for char in inputs + outputs]
        if any(dtype.kind == "c" for dtype in dtypes) and row.complex_ulp:
            continue  # judged by what is true, in tests/core/test_dtypes.py
        if all(dtype in DEVICE_TYPES for dtype in dtypes) and dtypes[0].kind in row.lowerings[0]:
            found.setdefault(tuple(dtypes[: len(inputs)]))
    return list(found)


CASES = [
    pytest.param(row, dtypes, id=f"{row.name}-{'-'.join(map(str, dtypes))}") for row in UFUNCS for dtypes in loops(row)
]


USUAL = set("?bilfdD")  # that meet every rule of promotion; the others with --full, but for their values


def mostly(cases):
    """Return cases, slow where their dtypes, which are last, are less usual."""
    return [
        case
        if USUAL.issuperset(dtype.char for dtype in case.values[-1])
        else pytest.param(*case.values, marks=pytest.mark.slow, id=case.id)
        for case in cases
    ]


def first_of_each(cases):
    """Return cases, slow where there is one of the same ufunc before that is not."""
    found, seen = [], set()
    for case in cases:
        is_first = not case.marks and case.values[0].name not in seen
        if is_first:
            seen.add(case.values[0].name)
        found.append(case if is_first else pytest.param(*case.values, marks=pytest.mark.slow, id=case.id))
    return found


MOSTLY = mostly(CASES)


def operands(row, dtypes):
    """Every special value of every operand with all of the others; exponents of integers are not negative."""
    sets = [special(dtype) for dtype in dtypes]
    if row.numpy is np.power and dtypes[1].kind == "i":
        sets[1] = sets[1][sets[1] >= 0]
    if len(sets) == 3:
        sets = [values[:: 1 + i] for i, values in enumerate(sets)]
    pairs = list(itertools.product(*sets))
    arrays = [np.array([pair[i] for pair in pairs], dtype) for i, dtype in enumerate(dtypes)]
    if row.either_zero:  # of one sign only
        arrays = [np.where(array == 0, array.dtype.type(0), array) for array in arrays]
    return arrays


def check(row, ours, numpys, where=""):
    """Compare results, of which there may be several, within the row's bound and NumPy's own."""
    floats = [x for x in (numpys if isinstance(numpys, tuple) else (numpys,)) if x.dtype.kind in "fc"]
    assert_same(ours, numpys, row.ulp + row.numpy_ulp if floats else 0, where=where)


def fallbacks(stats):
    """Return what NumPy computed, but for what this test read."""
    return set(stats().fallbacks) - {"__array__", "ndarray.__getitem__"}


def twins(arrays):
    """Return arrays of ours with the same elements, on the device."""
    return [oxinp.asarray(array) for array in arrays]


@pytest.mark.parametrize(("row", "dtypes"), CASES)
def test_values(row, dtypes, stats):
    arrays = operands(row, dtypes)
    given = twins(arrays)
    check(row, UFUNC_OBJECTS[row.name](*given), row.numpy(*arrays))
    assert not fallbacks(stats)
    assert stats().launches


@pytest.mark.parametrize(("row", "dtypes"), MOSTLY)
def test_layouts(row, dtypes, stats):
    rows = [array[: array.size // 6 * 6] for array in operands(row, dtypes)]
    if not rows[0].size:
        rows = [np.resize(array, 6) for array in operands(row, dtypes)]
    arrays = [array.reshape(6, -1) for array in rows]
    given = twins(arrays)
    ufunc = UFUNC_OBJECTS[row.name]
    for name, change in {
        "reversed": lambda x: x[::-1, ::-1],
        "stepped": lambda x: x[1::2, ::3],
        "transposed": lambda x: x.T,
        "empty": lambda x: x[:0],
        "one": lambda x: x[3:4, :1],
    }.items():
        check(row, ufunc(*map(change, given)), row.numpy(*map(change, arrays)), name)
    if len(arrays) > 1:
        mixed = [lambda x: x, *[lambda x: x[2:3]] * (len(arrays) - 1)]
        turned = [lambda x: x[:, :1], lambda x: x[0], *[lambda x: x] * (len(arrays) - 2)]
        for name, changes in (("broadcast", mixed), ("outer", turned)):
            ours = ufunc(*[change(x) for change, x in zip(changes, given, strict=True)])
            check(row, ours, row.numpy(*[change(x) for change, x in zip(changes, arrays, strict=True)]), name)
    assert not fallbacks(stats)


@pytest.mark.parametrize(("row", "dtypes"), first_of_each(case for case in MOSTLY if case.values[0].numpy.nin == 2))
def test_scalar_operands(row, dtypes):
    arrays = operands(row, dtypes)
    given = twins(arrays)
    ufunc = UFUNC_OBJECTS[row.name]
    for value in (2, 3, 0, 1, 0.5, True, arrays[1].dtype.type(3), np.int32(2), np.float32(1.5)):
        for numpys, ours in (((arrays[0], value), (given[0], value)), ((value, arrays[1]), (value, given[1]))):
            with np.errstate(all="ignore"):
                try:
                    expected = row.numpy(*numpys)
                except TypeError:
                    with pytest.raises(TypeError):
                        ufunc(*ours)
                    continue
                except (OverflowError, ValueError) as error:
                    with pytest.raises(type(error)):
                        ufunc(*ours)
                    continue
            check(row, ufunc(*ours), expected, f"{value!r}")


OPERATORS = [
    pytest.param(row, special_method, dtypes, id=f"{special_method}-{'-'.join(map(str, dtypes))}")
    for row in UFUNCS
    for special_method in row.operators
    for dtypes in loops(row)
    if special_method
]


@pytest.mark.parametrize(("row", "special_method", "dtypes"), mostly(OPERATORS))
def test_operators(row, special_method, dtypes, stats):
    arrays = operands(row, dtypes)
    if special_method == "__rpow__":
        arrays = arrays[::-1]
    given = twins(arrays)
    expected = getattr(arrays[0], special_method)(*arrays[1:])
    check(row, getattr(given[0], special_method)(*given[1:]), expected)
    for ours, numpys in zip(given, arrays, strict=True):
        check(row, ours, numpys)  # in place, or not at all
    assert not fallbacks(stats)


@pytest.mark.parametrize(("row", "dtypes"), first_of_each(MOSTLY))
def test_outputs_and_masks(row, dtypes, stats):
    arrays = operands(row, dtypes)
    mask = np.arange(arrays[0].size) % 3 != 0
    given, our_mask = twins(arrays), oxinp.asarray(mask)
    ufunc = UFUNC_OBJECTS[row.name]
    results = row.numpy(*arrays)
    results = results if isinstance(results, tuple) else (results,)

    def outs(xp):
        made = [xp.zeros((2, result.size), result.dtype) for result in results]
        return tuple(x[1] for x in made), made

    for keywords in ({}, {"where": mask}, {"where": mask[:1]}, {"where": False}, {"order": "F"}, {"casting": "safe"}):
        into, held = outs(np)
        our_into, our_held = outs(oxinp)
        expected = row.numpy(*arrays, out=into, **keywords)
        ours = {key: oxinp.asarray(x) if isinstance(x, np.ndarray) else x for key, x in keywords.items()}
        check(row, ufunc(*given, out=our_into, **ours), expected, str(keywords))
        for ours_whole, numpys_whole in zip(our_held, held, strict=True):
            check(row, ours_whole, numpys_whole, str(keywords))
    masked = ufunc(*given, where=our_mask, out=None if ufunc.nout == 1 else (None,) * ufunc.nout)
    masked = masked if isinstance(masked, tuple) else (masked,)
    for ours_result, result in zip(masked, results, strict=True):
        check(row, ours_result[our_mask], result[mask])
    assert not fallbacks(stats)


@pytest.mark.parametrize("name", ["add", "divide", "maximum", "floor_divide", "less", "sqrt", "divmod", "bitwise_and"])
@pytest.mark.parametrize("threshold", [0, float("inf")])
@pytest.mark.parametrize(
    "keywords",
    [
        {"dtype": np.float32},
        {"dtype": "f8"},
        {"dtype": np.int32, "casting": "unsafe"},
        {"dtype": np.int64},
        {"signature": "dd->d"},
        {"signature": (None, None, np.float64)},
        {"sig": "ii->i", "casting": "unsafe"},
        {"dtype": np.bool_},
        {"casting": "no"},
        {"casting": "nonsense"},
        {"order": "Q"},
        {"order": "F"},
        {"order": "A"},
        {"order": "C"},
        {"subok": False},
        {"nonsense": 1},
        {"where": 3},
        {"where": [True, False, True]},
        {"dtype": "f4", "signature": "dd->d"},
        {"out": 3},
        {"out": (None, None, None)},
        {"dtype": object},
    ],
    ids=str,
)
def test_keywords(name, threshold, keywords, config):
    config.offload_threshold = threshold
    row = ROWS[name]

    def call(xp, ufunc):
        x = xp.arange(12.0).reshape(4, 3)
        k = xp.arange(3, dtype=np.int32) + 1
        args = [x.T if keywords.get("order") == "A" else x, 2.0 if keywords.get("order") == "A" else k][: row.numpy.nin]
        if name == "bitwise_and":
            args = [xp.arange(12).reshape(4, 3), k]
        given = dict(keywords)
        if "where" in given and given["where"] != 3:
            given["out"] = tuple(xp.zeros((4, 3)) for _ in range(row.numpy.nout))
        return ufunc(*args, **given)

    try:
        expected = call(np, row.numpy)
    except Exception as error:  # noqa: BLE001 - whatever NumPy raises
        with pytest.raises(type(error).__mro__[1] if type(error).__name__.startswith("_") else type(error)):
            call(oxinp, UFUNC_OBJECTS[name])
        return
    ours = call(oxinp, UFUNC_OBJECTS[name])
    assert_same(ours, expected)
    for mine, theirs in zip(*[x if isinstance(x, tuple) else (x,) for x in (ours, expected)], strict=True):
        assert mine.strides == theirs.strides


def test_outputs_that_are_inputs(twin):
    def body(xp):
        a, b = xp.arange(1.0, 9), xp.arange(2.0, 10)
        xp.divmod(a, b, out=(b, a))
        c = xp.arange(10.0)
        xp.modf(c[1:] / 2, out=(c[:-1], None))
        xp.add(c[::-1], c, out=c)
        xp.add(c[:-1], 1, out=c[1:], where=c[1:] > 3)
        d = xp.arange(4.0)
        xp.sqrt(d, d)
        xp.frexp(d, d)
        return a, b, c, d

    twin(body)


def test_scalars_are_no_outputs(twin):
    twin(lambda xp: xp.add(0.5, 1.0, out=xp.arange(3.0)[1], where=xp.arange(3.0) > 1))
    twin(lambda xp: xp.sqrt(xp.arange(3.0).sum(), out=xp.arange(3.0).max()))


def test_clip_as_a_ufunc(twin, launches):
    x = oxinp.arange(-4.0, 5)
    assert launches(lambda: oxinp.clip(x * 2, -1, 1) + 1) == 1
    for low, high in ((0.0, 1.0), (-1, None), (None, 2), (np.nan, 1), (None, None), (2, 1), ([0.0] * 9, 1.0)):
        twin(lambda xp: xp.clip(xp.array([-0.0, 0.0, np.nan, -5, 5, 1, 2, -1, 0.5]), low, high))  # noqa: B023
        twin(lambda xp: xp.clip(xp.arange(9, dtype="i4"), low, high))  # noqa: B023
    twin(lambda xp: xp.arange(9).clip(-(2**70), 5, out=xp.zeros(9, int)))
    twin(lambda xp: xp.clip(xp.arange(9.0), 2, 3, where=xp.arange(9) > 4, out=xp.ones(9)))
    twin(lambda xp: xp.clip(xp.arange(9.0), 2, 3, dtype="f4"))


def test_outer(twin, stats):
    twin(lambda xp: xp.multiply.outer(xp.arange(3.0), xp.arange(6).reshape(2, 3)))
    twin(lambda xp: xp.less.outer(xp.arange(3.0), xp.arange(6), dtype=bool))
    assert not fallbacks(stats)


@pytest.mark.parametrize("exponent", [2, 0.5, -1, 1, 0, 3, 2.0, -1.0, np.float32(2), np.float64(0.5), np.int64(2), -2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.bool_])
def test_scalar_powers(twin, dtype, exponent):
    def body(xp):
        values = [0.0, -0.0, 1.0, -1.0, 3.5, np.inf, -np.inf, np.nan, 1e-30]
        x = xp.array(values if np.dtype(dtype).kind == "f" else [0, 1, 2, 3, 7], dtype=dtype)
        y = x.copy()
        y **= exponent
        return x**exponent, xp.power(x, exponent), y

    twin(body, ulp=ROWS["power"].ulp)


@pytest.mark.parametrize("threshold", [0, 65536, float("inf")])
def test_negative_integer_powers_are_refused(twin, config, threshold):
    config.offload_threshold = threshold
    for body in (
        lambda xp: xp.arange(5) ** -1,
        lambda xp: xp.ones((2, 0), int) ** -1,
        lambda xp: xp.arange(5) ** -xp.arange(5),
        lambda xp: 2 ** xp.arange(-1, 3),
        lambda xp: xp.power(xp.arange(3), xp.array([1, 2, -3])),
        lambda xp: xp.arange(5).__ipow__(-2),
        lambda xp: xp.power(xp.arange(3), xp.array(-1)),
        lambda xp: xp.power(xp.arange(3, dtype="f4"), xp.array([1, 0, -1])) * 0,
        lambda xp: xp.power(
            xp.arange(1, 4), xp.array([1, 2, -3]), where=xp.array([True, True, False]), out=xp.zeros(3, int)
        ),
        lambda xp: xp.power(
            xp.arange(1, 4), xp.array([1, -2, 3]), where=xp.array([True, True, False]), out=xp.zeros(3, int)
        ),
    ):
        twin(body)


@pytest.mark.parametrize("name", sorted(ROWS))
def test_weights_are_positive_and_operators_exist(name):
    row = ROWS[name]
    assert row.weight > 0
    for special_method in row.operators:
        assert not special_method or hasattr(np.ndarray, special_method)


def test_scalars_of_the_device_stay_there(stats):
    x = oxinp.arange(10.0)
    total = x.sum()
    chain = (-abs(total) // 4 % 7) - 2.0 / total
    assert type(chain) is type(total)
    assert stats().d2h_bytes == 0
    assert_same(chain, (-abs(np.float64(45)) // 4 % 7) - 2.0 / np.float64(45))


@pytest.mark.parametrize(
    "code", ["xp.sin(x)", "x * x", "-x", "x + 2", "xp.maximum(x.real, 1.0)", "xp.add(x, y, dtype='c16')"]
)
@pytest.mark.parametrize("dtype", ["c8", "c16", "f8", "f4"])
def test_fields_of_records_are_computed_as_copies_of_them(code, dtype, stats):
    """Where elements lie has no say in their last bits: kernels read copies."""
    rng = np.random.default_rng(5)
    records = np.zeros(200, [("a", "i1" if dtype == "f8" else "i4"), ("b", dtype)])
    records["b"] = rng.normal(size=200) * (1 + 2j if dtype[0] == "c" else 1)
    names = {"xp": oxinp, "y": oxinp.arange(200.0)}
    packed, dense = oxinp.array(records)["b"], oxinp.array(records["b"])
    before = dict(stats().fallbacks)
    given = eval(code, {**names, "x": packed})  # noqa: S307 - our own code
    oxinp.evaluate(given)
    assert set(stats().fallbacks) <= {*before, "ndarray.real"}
    expected = eval(code, {**names, "x": dense})  # noqa: S307
    assert oxinp.asnumpy(given).tobytes() == oxinp.asnumpy(expected).tobytes()
