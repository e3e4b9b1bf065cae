"""Floating-point errors of device work: the same flags as NumPy's loops raise, told as `numpy.errstate` says."""

import contextlib
import itertools
import operator
import threading
import types
import warnings

import numpy  # noqa: ICN001 - beside ours
import pytest

import oxinp
from oxinp._core.errors.state import KINDS
from oxinp._core.lazy import flagged, record, results
from oxinp._core.ufunc import exceptions
from oxinp._core.ufunc.objects import ROWS, UFUNC_OBJECTS

WORDS = {"divide by zero": 1, "overflow": 2, "underflow": 4, "invalid value": 8}


@pytest.fixture
def device(backend_settings):
    """Everything is computed on the device, which tells of what NumPy tells of."""
    del backend_settings
    with oxinp.config.override(offload_threshold=0, floating_point_errors="numpy"):
        yield


@pytest.fixture
def backend_settings():
    """The emulator, unless the suite runs on a GPU."""
    if oxinp.config.backend == "host":
        pytest.skip("the host has NumPy's own")


def specials(dtype):
    if dtype.kind == "f":
        limits = numpy.finfo(dtype)
        few = [0.0, -0.0, 1, -1, 2, -2, 0.5, 3.75, -3.75, 1e3, -1e3, numpy.inf, -numpy.inf, numpy.nan]
        ends = [limits.max, -limits.max, limits.tiny, limits.smallest_subnormal, -limits.tiny, limits.max / 2]
        return numpy.array([*few, *ends], dtype)
    limits = numpy.iinfo(dtype)
    return numpy.array(sorted({0, 1, 2, 7, limits.max, limits.min, *([-1] if limits.min else [])}), dtype)


def flags_of_numpy(ufunc, operands):
    """Return the flags of every element, computed alone, as many times as vectors have elements."""
    said = []
    log = types.SimpleNamespace(write=said.append)
    found = []
    with numpy.errstate(all="log", call=log):
        for each in zip(*operands, strict=True):
            said.clear()
            ufunc(*[numpy.full(16, value) for value in each])
            found.append(sum({WORDS[line.removeprefix("Warning: ").partition(" encountered")[0]] for line in said}))
    return numpy.array(found)


def address_of(array):
    return array._storage.value[1][0].ptr


def flags_of_device(operation, rule, kinds, operands, output=None):
    """Return the flags of every element: each makes its own claim."""
    count = len(operands[0])
    reports = oxinp.zeros((count, 2), numpy.uint64)
    oxinp.evaluate(reports)
    own = numpy.zeros((count, 2), numpy.uint64)
    own[:, 1] = address_of(reports) + 16 * numpy.arange(count)
    words = oxinp.array(own) + 0
    oxinp.evaluate(words)
    claims = oxinp.array(address_of(words) + 16 * numpy.arange(count, dtype=numpy.uint64))
    variant = flagged._variant(operation, rule, kinds, False, output)
    value = record.express(variant, (*[oxinp.array(x) for x in operands], claims))
    oxinp.evaluate(results.wrap_pending(value, as_array=True))
    oxinp.cuda.synchronize()
    flags = numpy.asarray(words)[:, 0].astype(int)
    told = numpy.asarray(reports)[:, 1].copy().view(numpy.uint8).reshape(count, 8)
    assert (sum((told[:, i] != 0) << i for i in range(4)) == flags).all()
    return flags


# What NumPy's C code raises on the way, of results that are as they have to be: a known few.
UNTOLD = {"arctan2", "nextafter", "spacing", "logaddexp", "logaddexp2", "sin", "cos", "hypot"}
UNTOLD |= {"floor_divide", "divmod", "ldexp", "exp", "float_power", "power"}
# Where a result is next to its operand, C's library tells of underflow of subnormal ones, which the vectors that NumPy
# has for some processors do not.
LIKE_THEIR_OPERAND = {"arcsin", "arctanh", "expm1", "log1p", "sinh", "tan"}
RULED = [row for row in ROWS.values() if exceptions.OF_UFUNCS.get(row.numpy) is not None]


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("dtype", ["e", "f", "d", "i", "B", "l"])
@pytest.mark.parametrize("row", RULED, ids=lambda row: row.name)
def test_flags_are_numpys(row, dtype):
    values = specials(numpy.dtype(dtype))
    if row.name == "ldexp":
        pairs = itertools.product(values, numpy.array([0, 1, -1, 100, -100, 3000, -3000], "i"))
    else:
        pairs = itertools.product(values, repeat=row.numpy.nin)
    operands = [numpy.array(column) for column in zip(*pairs, strict=True)]
    if values.dtype.kind != "f" and row.name in ("power", "ldexp"):
        pytest.skip("integers raise an exception of their own, or have no loop")
    try:
        row.numpy.resolve_dtypes((*[x.dtype for x in operands], *[None] * row.numpy.nout))
    except TypeError:
        pytest.skip("no loop")
    if "power" in row.name:  # of infinite operands, vectorised powers raise what C's own does not
        are_finite = numpy.isfinite(operands[0]) & numpy.isfinite(operands[1])
        operands = [x[are_finite] for x in operands]
    if row.name in LIKE_THEIR_OPERAND and dtype in "fd":
        operands = [x[(x == 0) | ~(abs(x) < numpy.finfo(dtype).tiny)] for x in operands]
    expected = flags_of_numpy(row.numpy, operands)
    kinds = 15 if dtype in "fd" and row.name not in UNTOLD else 15 & ~KINDS["under"]
    operation = UFUNC_OBJECTS[row.name].operations[0]
    found = flags_of_device(operation, operation.raises, kinds, operands)
    wrong = (found & kinds) != (expected & kinds)
    shown = [(*[float(x[i]) for x in operands], int(found[i]), int(expected[i])) for i in wrong.nonzero()[0]]
    assert not shown


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("target", ["e", "f", "b", "B", "h", "i", "I", "l", "L"])
@pytest.mark.parametrize("source", ["e", "f", "d", "l"])
def test_flags_of_casts_are_numpys(source, target):
    source, target = numpy.dtype(source), numpy.dtype(target)
    if not flagged._may_not_fit(source, target):
        pytest.skip("all values are kept")
    edges = [sign * (2.0**power + step) for sign in (1, -1) for power in (7, 15, 31, 32, 63, 64) for step in (0, -1, 1)]
    with numpy.errstate(all="ignore"):
        given = numpy.unique(numpy.concatenate([specials(source), numpy.array(edges).astype(source)]))
    if target.char in "IL":  # whose negative numbers NumPy's vectors judge otherwise than its single ones
        given = given[~(given < 0)]
    expected = flags_of_numpy(lambda x: x.astype(target), [given])
    found = flags_of_device(record.COPY, record.COPY.raises, 15, [given], target)
    kinds = 15 & ~KINDS["under"] if target.char == "e" else 15
    wrong = (found & kinds) != (expected & kinds)
    assert [(given[i], found[i], expected[i]) for i in wrong.nonzero()[0]] == []


COMPLEX = numpy.array([complex(a, b) for a in (0, 1, -2, 1e300, numpy.inf) for b in (0, 1, 1e300, numpy.nan)])


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide"])
def test_complex_arithmetic_raises_where_a_part_does(name):
    operands = [numpy.array(column) for column in zip(*itertools.product(COMPLEX, repeat=2), strict=True)]
    operation = UFUNC_OBJECTS[name].operations[0]
    found = flags_of_device(operation, operation.raises, 11, operands)
    with numpy.errstate(all="ignore"):
        result = ROWS[name].numpy(*operands)
    are_numbers = ~numpy.isnan(operands[0]) & ~numpy.isnan(operands[1])
    assert ((found & 8 != 0) >= (numpy.isnan(result) & are_numbers)).all()
    are_finite = numpy.isfinite(operands[0]) & numpy.isfinite(operands[1])
    assert ((found & 3 != 0) >= (numpy.isinf(result) & are_finite)).all()
    assert not found[numpy.isfinite(result)].any()


# -- how it is told ----------------------------------------------------------------------------------------------------

PROGRAM = """\
def run(np):
    ones, zeros = np.ones(300), np.zeros(300)
    a = ones / zeros
    b = np.log(zeros) + np.sqrt(-ones)
    c = (a - a) * 2.0
    ones += a; ones -= a
    d = np.exp(ones * 1000.0)
    e = np.arange(300) // np.zeros(300, int)
    f = np.divide(ones, zeros, where=zeros > 0)
    g = np.divide(ones, ones, out=zeros)
    h = (np.zeros(300) + np.inf).astype(int)
    i = (np.ones(300) * 1e300).astype("f4")
    j = np.ones(300, "f4") * 3e38; j += j
    m = np.where(j > 0, j, 1e150) + (np.ones(300, "f4") > 1e150) + np.add(np.ones(300, "f2"), 1e5)
    n = np.ones(300, "f4") + np.inf
    k = np.divmod(np.ones(300), np.zeros(300))
    zeros[...] = 0; zeros[::2] /= 0.0
    l = -(1.0 / zeros)
    return [str(x[1]) for x in (a, b, c, d, e, ones, g, h, i, j, *k, l, m, n)]
"""


def told_of(namespace, action="always"):
    module = types.ModuleType("users")
    exec(compile(PROGRAM, "users.py", "exec"), module.__dict__)  # noqa: S102
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        values = module.run(namespace)
        if namespace is oxinp:
            oxinp.cuda.synchronize()
    return values, sorted((w.lineno, str(w.message), w.filename) for w in caught if w.category is RuntimeWarning)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("action", ["always", "default"])
def test_warnings_are_numpys(action):
    expected = told_of(numpy, action)
    assert len(expected[1]) > 12
    assert told_of(oxinp, action) == expected


@pytest.mark.usefixtures("device")
def test_chains_of_several_lines_warn_by_line():
    x, zeros = oxinp.ones(300), oxinp.zeros(300)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first = oxinp.sqrt(x - 2)
        chain = x / zeros
        chain = chain - oxinp.inf * x
        assert not caught  # nothing has been computed
        (chain + first).sum().item()
    lines = [(w.lineno - caught[0].lineno, str(w.message)) for w in caught]
    assert lines == [
        (0, "invalid value encountered in sqrt"),
        (1, "divide by zero encountered in divide"),
        (2, "invalid value encountered in subtract"),
    ]
    assert {w.filename for w in caught} == {__file__}


@pytest.mark.usefixtures("device")
def test_errors_are_raised_at_the_next_wait_or_at_the_line():
    ones, zeros = oxinp.ones(300), oxinp.zeros(300)
    with oxinp.errstate(divide="raise"):
        x = ones / zeros
    with pytest.raises(FloatingPointError, match=r"^divide by zero encountered in divide") as caught:
        x[0].item()
    assert __file__ in caught.value.__notes__[0]
    assert x[0].item() == numpy.inf  # once
    with oxinp.config.override(synchronous=True), oxinp.errstate(all="raise"):
        for ask in (lambda: ones / zeros, lambda: oxinp.log(zeros), lambda: oxinp.divide(ones, 0.0, out=ones)):
            with pytest.raises(FloatingPointError, match="divide by zero"):
                ask()


@pytest.mark.usefixtures("device")
def test_what_is_written_on_the_host_and_sums_in_integers_are_left_alone():
    with oxinp.config.override(synchronous=True), oxinp.errstate(all="raise"):
        x = oxinp.array(numpy.ones(3))
        pinned = memoryview(x.data)
        x *= numpy.ones(3)
        assert x.sum(dtype=int).item() == (x * 0.5).sum(dtype=numpy.int32).item() + 3 == 3
        del pinned


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("how", ["call", "log", "print"])
def test_calls_logs_and_prints_are_numpys(how, capfd):
    def told(namespace):
        said = []
        call = {"call": lambda *args: said.append(args), "log": types.SimpleNamespace(write=said.append)}.get(how)
        with numpy.errstate(all=how, call=call):
            x = namespace.ones(300) / namespace.zeros(300)
            y = namespace.divmod(namespace.ones(300), namespace.zeros(300))[0]
        oxinp.evaluate()
        oxinp.cuda.synchronize()
        del x, y
        return said, capfd.readouterr().err

    assert told(oxinp) == told(numpy) != ([], "")


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("has_out", [False, True])
def test_elements_that_are_left_out_raise_nothing(has_out):
    divisors = oxinp.arange(300.0) % 3
    out = oxinp.zeros(300) if has_out else None
    with pytest.warns(UserWarning, match="'where' used without 'out'") as caught:
        oxinp.divide(1.0, divisors, where=divisors != 0)
    assert caught[0].filename == __file__
    with oxinp.errstate(all="raise"):
        x = oxinp.divide(1.0, divisors, out=out, where=divisors != 0)
        assert x[1].item() == 1
        y = oxinp.divide(1.0, divisors, out=out, where=divisors != 1)
    with pytest.raises(FloatingPointError, match="divide by zero"):
        y[0].item()


@pytest.mark.usefixtures("device")
def test_views_do_not_hide_what_raises():
    with oxinp.errstate(all="raise"):
        x = 1.0 / (oxinp.arange(300.0).reshape(20, 15) - 299)
        view = x.T[:2, ::3]
    with pytest.raises(FloatingPointError, match="divide by zero"):
        view[0, 0].item()


@pytest.mark.usefixtures("device")
def test_a_callback_that_is_missing_is_an_error():
    with numpy.errstate(divide="call", call=None):
        x = oxinp.ones(300) / oxinp.zeros(300)
    with pytest.raises(NameError, match="no function found"):
        x[0].item()


@pytest.mark.usefixtures("device")
def test_threads_have_states_of_their_own():
    found = {}

    def work(name, how):
        with numpy.errstate(divide=how):
            found[name] = oxinp.ones(300) / oxinp.zeros(300)

    threads = [threading.Thread(target=work, args=each) for each in (("a", "ignore"), ("b", "raise"))]
    for thread in threads:
        thread.start()
        thread.join()
    assert found["a"][0].item() == numpy.inf
    with pytest.raises(FloatingPointError):
        found["b"][0].item()


@pytest.mark.usefixtures("device")
def test_functions_written_in_terms_of_others_tell_nothing_of_these():
    with numpy.errstate(all="raise"):
        x = oxinp.concatenate([oxinp.ones(300), oxinp.array([numpy.nan])])
        assert oxinp.nanmean(x).item() == 1
        assert oxinp.var(oxinp.ones(300)).item() == 0


@pytest.mark.usefixtures("device")
def test_nothing_is_compiled_for_what_is_ignored(kernels):
    def run():
        x = oxinp.ones(300) / oxinp.zeros(300) + oxinp.exp(oxinp.ones(300))
        return x.sum().item()

    with numpy.errstate(all="ignore"):
        run()
    ignored = set(kernels)
    with oxinp.config.override(floating_point_errors="ignore"):
        run()
    with oxinp.config.override(floating_point_errors="explicit"):
        run()  # what is NumPy's default is not explicit
        assert set(kernels) == ignored
        with numpy.errstate(divide="raise"), pytest.raises(FloatingPointError):
            run()
    assert len(kernels) > len(ignored)
    assert not any("atom" in text for text in ignored)


REDUCED = {
    "sum": lambda np, x: (x["large"].sum(), np.sum(x["large"]), (x["ones"] * 1e308).sum(axis=1, keepdims=True)),
    "prod": lambda np, x: (x["large"].prod(), np.prod(x["ones"] * 1e300, axis=0)),
    "mean": lambda np, x: (x["large"].mean(), np.mean(x["ones"] + 1.0)),
    "infinite": lambda _, x: (x["infinite"].sum(), x["both"].sum(), x["nans"].sum(), x["infinite"].prod()),
    "chain": lambda np, x: ((x["ones"] / 0).sum(), (x["large"] / x["large"]).mean(), np.sqrt(-x["ones"]).sum(axis=0)),
    "nansum": lambda np, x: (np.nansum(x["large"]), np.nansum(x["nans"]), np.nanprod(x["large"])),
    "nanmax": lambda np, x: (np.nanmax(x["nans"], axis=1), np.nanmax(x["ones"]), np.nanmin(x["nans"])),
    "nanmean": lambda np, x: (np.nanmean(x["nans"]), np.nanmean(x["ones"]), np.nanmean(x["infinite"])),
    "masked": lambda np, x: (
        x["ones"].mean(axis=0, where=x["half"]),
        np.mean(x["ones"], where=x["half"]),
        np.mean(x["nans"], where=np.array([False])),
        x["ones"].std(axis=1, where=x["half"][:1]),
    ),
    "few": lambda np, x: (
        np.var(x["ones"], axis=0, where=x["half"]),
        x["ones"].std(where=False),
        x["ones"].var(where=True),
    ),
    "fewer": lambda _, x: (
        x["ones"].var(ddof=x["ones"].size // 2, where=x["half"]),
        x["ones"].std(ddof=1, where=x["half"]),
    ),
    "nanvar": lambda np, x: (np.nanvar(x["nans"]), np.nanstd(x["nans"], axis=0), np.nanvar(x["ones"])),
}


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("shape", [(30, 40), (3, 700), (1500, 3)])
@pytest.mark.parametrize("name", REDUCED)
def test_reductions_warn_as_numpys(name, shape):
    def told(namespace):
        given = {"ones": 1.0, "large": 1e308, "nans": numpy.nan, "infinite": numpy.inf}
        x = {kind: namespace.array(numpy.full(shape, value)) for kind, value in given.items()}
        both = numpy.full(shape, numpy.inf)
        both[0] = -numpy.inf
        x["both"] = namespace.array(both)
        x["half"] = namespace.array(numpy.arange(shape[1]) % 2 == 0) & (x["ones"] > 0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            results = REDUCED[name](namespace, x)
            results = [numpy.asarray(result) for result in results]
        return sorted(str(w.message) for w in caught), results

    (ours, our_results), (numpys, their_results) = told(oxinp), told(numpy)
    assert ours == numpys
    for found, expected in zip(our_results, their_results, strict=True):
        numpy.testing.assert_allclose(found, expected, rtol=1e-12)


X = [1e20, 2.0, numpy.nan, 1e10]


def into(make):
    def body(np, x):
        out = np.zeros(4, "i4")
        make(np, x, out)
        return out

    return body


CASTING = {
    "array": lambda np, x: np.array(x, dtype="i4"),
    "asarray": lambda np, x: np.asarray(x, dtype="i4"),
    "slice": into(lambda _, x, out: out.__setitem__(slice(None), x)),
    "index": into(lambda np, x, out: out.__setitem__(np.array([3, 1, 0, 2]), x)),
    "mask": into(lambda np, x, out: out.__setitem__(np.array([True] * 4), x)),
    "copyto": into(lambda np, x, out: np.copyto(out, x, casting="unsafe")),
    "copyto of some": into(
        lambda np, x, out: np.copyto(out, x, casting="unsafe", where=np.array([False, True, True, False]))
    ),
    "copyto of those that fit": into(
        lambda np, x, out: np.copyto(out, x, casting="unsafe", where=np.array([False, True, False, False]))
    ),
    "put": into(lambda np, x, out: np.put(out, [0, 1, 2, 3], x)),
    "concatenate": lambda np, x: np.concatenate([x, x], dtype="i4", casting="unsafe"),
    "result": into(lambda np, x, out: np.add(x, 1, out=out, casting="unsafe")),
    "result of single precision": lambda np, x: np.add(x * 1e200, 1, out=np.zeros(4, "f4"), casting="same_kind"),
    "in place": lambda np, x: operator.iadd(np.ones(4, "f4"), x * 1e200),
    "operand": lambda np, x: np.add(np.tile(x, 3000), 1, dtype="i4", casting="unsafe"),
    "masked result": into(
        lambda np, x, out: np.add(x, 1, out=out, casting="unsafe", where=np.array([False, True, True, False]))
    ),
    "masked result that fits": into(
        lambda np, x, out: np.add(x, 1, out=out, casting="unsafe", where=np.array([False, True, False, False]))
    ),
    "clip": into(lambda np, x, out: np.clip(x, -1e30, 1e30, out=out, casting="unsafe")),
    "clip that fits": into(lambda np, x, out: np.clip(x[1:2], 0, 1, out=out[:1], casting="unsafe")),
    "maximum": into(lambda np, x, out: np.maximum(x, 0, out=out, casting="unsafe")),
    "sum": lambda _, x: x.sum(dtype="i4"),
    "sum of rows": lambda _, x: x.reshape(2, 2).sum(1, dtype="i4"),
    "cumsum": lambda _, x: x.cumsum(dtype="i4"),
    "complex": lambda _, x: (x + 0j).astype("c8").real.astype("i4"),
}


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("name", CASTING)
def test_casts_of_what_does_not_fit_are_told_of_wherever_they_are(name):
    said = []
    for np in (numpy, oxinp):
        with warnings.catch_warnings(record=True) as found, np.errstate(all="warn"):
            warnings.simplefilter("always")
            result = CASTING[name](np, np.array(X))
            if np is oxinp:
                oxinp.evaluate(result)
                oxinp.cuda.synchronize()
        said.append({str(each.message) for each in found})
        with np.errstate(all="raise"):
            try:
                result = CASTING[name](np, np.array(X))
                if np is oxinp:
                    oxinp.evaluate(result)
                    oxinp.cuda.synchronize()
                raised = ""
            except FloatingPointError as error:
                raised = str(error)
        said.append(raised)
    assert said[:2] == said[2:]
    assert bool(said[0]) == ("fit" not in name)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("target", ["i4", "u1", "f4", "i8"])
def test_casts_of_complex_numbers_tell_of_their_real_parts(target):
    x = oxinp.array([1 + 1e300j, 2])
    with warnings.catch_warnings(), oxinp.errstate(all="raise"):
        warnings.simplefilter("ignore", numpy.exceptions.ComplexWarning)
        oxinp.evaluate(x.astype(target))
        oxinp.cuda.synchronize()
        x[1] = 1e300
        oxinp.evaluate(x.astype(target))
        with pytest.raises(FloatingPointError, match="overflow" if target == "f4" else "invalid value"):
            oxinp.cuda.synchronize()


@pytest.mark.parametrize("value", [2e300, 2e300j, numpy.longdouble(2e300), 10**400])
@pytest.mark.usefixtures("device")
def test_a_number_that_complex64_does_not_hold_overflows_and_nothing_else(value):
    array = oxinp.zeros(3, "c8")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with contextlib.suppress(OverflowError):  # of Python's integers
            array[0] = value
            array.fill(value)
            array[...] = value
    assert {str(each.message) for each in told} <= {"overflow encountered in cast"}
