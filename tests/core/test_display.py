"""Printing, iteration, conversion to Python and copies."""

# ruff: noqa: ARG001, ARG005, ICN001 - fixtures that set up, programs of one signature, and oxinp is np

import copy
import pickle

import numpy
import pytest

import oxinp as np
from tests.comparator import assert_same

SHAPES = [(), (0,), (1,), (7,), (3, 0), (0, 4), (2, 3), (1, 1, 1), (2, 3, 4), (1001,), (1000,), (7, 200), (40, 50)]
LARGE = [(2000,), (6, 400), (7, 400), (8, 400), (400, 7), (3, 1000, 2), (20, 20, 20), (2, 2, 2, 2, 2, 100), (1, 5000)]
DTYPES = [numpy.bool_, numpy.int32, numpy.int64, numpy.float32, numpy.float64, numpy.complex64, numpy.int8]


def _filled(shape, dtype, rng):
    size = int(numpy.prod(shape))
    values = rng.standard_normal(size) * 10.0 ** rng.integers(-6, 7, size)
    if numpy.dtype(dtype).kind == "f" and size > 3:
        values[rng.integers(0, size, 3)] = [numpy.nan, numpy.inf, -0.0]
    with numpy.errstate(all="ignore"):
        return values.reshape(shape).astype(dtype)


@pytest.mark.usefixtures("offload_threshold")
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("shape", [*SHAPES, *LARGE], ids=str)
def test_text_is_numpys(shape, dtype):
    theirs = _filled(shape, dtype, numpy.random.default_rng(0))
    ours = np.asarray(theirs)
    assert repr(ours) == repr(theirs)
    assert str(ours) == str(theirs)
    assert f"{ours}" == f"{theirs}"
    if theirs.ndim:
        for view in (lambda x: x.T, lambda x: x[::-1], lambda x: x[..., ::2], lambda x: x[:0]):
            assert repr(view(ours)) == repr(view(theirs))


@pytest.mark.parametrize("linewidth", [20, 40, 74, 75, 76, 77, 78, 90, 120])
@pytest.mark.parametrize("options", [{}, {"edgeitems": 1}, {"edgeitems": 5}, {"precision": 2, "suppress": True}])
def test_text_follows_print_options(on_device, linewidth, options):
    rng = numpy.random.default_rng(1)
    with numpy.printoptions(threshold=50, linewidth=linewidth, **options):
        for shape in ((51,), (100,), (5000,), (9, 9), (100_000,), (11, 3, 4), (4, 100)):
            for dtype in (numpy.float64, numpy.float32, numpy.int32, numpy.bool_):
                theirs = _filled(shape, dtype, rng)
                assert repr(np.asarray(theirs)) == repr(theirs)
                assert str(np.asarray(theirs)) == str(theirs)


def test_format_spec(offload_threshold, twin):
    twin(lambda xp: format(xp.arange(3.0), ".2f"))
    twin(lambda xp: format(xp.asarray(2.5), ".2f"))
    twin(lambda xp: format(xp.arange(3.0), ""))


def test_print_fetches_what_it_shows(on_device, stats):
    x, y = np.ones(1_000_000), np.ones((1000, 1000))
    np.evaluate()
    assert repr(x * 2)
    assert str(y.T)
    assert stats().d2h_bytes <= 7 * 8 + 49 * 8


VALUES = {
    "1-d": lambda xp: xp.arange(5.0) * 2,
    "2-d": lambda xp: xp.arange(6).reshape(2, 3) + 1,
    "0-d": lambda xp: xp.asarray(2.5),
    "one": lambda xp: xp.arange(1, 2) * 7,
    "one, 2-d": lambda xp: xp.ones((1, 1), dtype=bool),
    "empty": lambda xp: xp.zeros((0, 3)),
    "fortran": lambda xp: xp.arange(6.0).reshape(2, 3).T,
    "strided": lambda xp: xp.arange(12.0)[::-3],
    "bool": lambda xp: xp.arange(4) > 1,
    "float32": lambda xp: xp.arange(4, dtype=numpy.float32) / 3,
}
CONVERSIONS = {
    "tolist": lambda xp, x: x.tolist(),
    "list": lambda xp, x: list(x),
    "len": lambda xp, x: len(x),
    "bool": lambda xp, x: bool(x),
    "int": lambda xp, x: int(x),
    "float": lambda xp, x: float(x),
    "complex": lambda xp, x: complex(x),
    "index": lambda xp, x: range(10)[x],
    "item": lambda xp, x: x.item(),
    "item of index": lambda xp, x: x.item(1),
    "item of tuple": lambda xp, x: x.item((1, 2)),
    "unpacking": lambda xp, x: [*x],
    "nested": lambda xp, x: [list(row) for row in x],
    "contains": lambda xp, x: (4 in x, 99 in x),
    "reversed": lambda xp, x: list(reversed(x)),
    "zip": lambda xp, x: list(zip(x, x[::-1], strict=True)),
    "sum": lambda xp, x: sum(x),
    "copy": lambda xp, x: copy.copy(x),
    "deepcopy": lambda xp, x: copy.deepcopy({"a": [x, x]})["a"],
    "pickle": lambda xp, x: pickle.loads(pickle.dumps(x)),  # noqa: S301
    "copy.copy flags": lambda xp, x: [copy.copy(x).flags.f_contiguous, copy.copy(x).flags.writeable],
    "pickle flags": lambda xp, x: pickle.loads(pickle.dumps(x)).flags.f_contiguous,  # noqa: S301
    "tobytes": lambda xp, x: (x.tobytes(), x.tobytes("F")),
    "complex attributes": lambda xp, x: (x.real, x.imag),
    "attributes": lambda xp, x: (x.shape, x.strides, x.ndim, x.size, x.itemsize, x.nbytes, x.dtype),
    "flags": lambda xp, x: (x.flags.c_contiguous, x.flags.f_contiguous, x.flags.owndata, x.flags.writeable),
    "base": lambda xp, x: x.base is None,
    "all": lambda xp, x: (x.all(), x.any(), x.min()),
    "isinstance": lambda xp, x: (isinstance(x, xp.ndarray), issubclass(type(x), xp.ndarray)),
    "equality with list": lambda xp, x: x == [1, 2, 3],
    "none": lambda xp, x: x == None,  # noqa: E711
}


@pytest.mark.usefixtures("offload_threshold")
@pytest.mark.parametrize("make", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("convert", CONVERSIONS.values(), ids=CONVERSIONS)
@pytest.mark.filterwarnings("ignore:Conversion of an array with ndim")
def test_conversion(make, convert, twin):
    twin(lambda xp: convert(xp, make(xp)))


def test_numpy_arrays_are_instances():
    assert isinstance(numpy.zeros(3), np.ndarray)
    assert isinstance(np.zeros(3), np.ndarray)
    assert not isinstance([1], np.ndarray)
    assert not isinstance(np.zeros(3), numpy.ndarray)
    assert not isinstance(numpy.float64(1), np.ndarray)
    assert issubclass(numpy.ndarray, np.ndarray)


def test_iteration_reads_live(offload_threshold, twin):
    def body(xp):
        x, seen = xp.arange(5), []
        for value in x:
            seen.append(int(value))
            x[...] = x[::-1] + 1
        return seen, x

    twin(body)


def test_copies_are_independent(offload_threshold, twin):
    def body(xp):
        x = xp.arange(10.0) + 1
        made = [
            x.copy(),
            copy.copy(x),
            copy.deepcopy(x),
            xp.array(x),
            x[2:].copy(),
            x.astype(float),
            x + 0,
            x.flatten(),
        ]
        x[:] = 0
        made[0][0] = 100
        return made

    twin(body)


def test_deepcopy_of_objects(twin):
    def body(xp):
        inner = [1]
        x = xp.array([inner, None], dtype=object)
        y = copy.deepcopy(x)
        inner.append(2)
        return x.tolist(), y.tolist()

    twin(body)


def test_pickle_names_no_device(on_device):
    text = pickle.dumps(np.arange(10.0) * 2)
    assert b"from_host" in text
    np.config.offload_threshold = float("inf")
    assert_same(pickle.loads(text), numpy.arange(10.0) * 2)  # noqa: S301


@pytest.mark.usefixtures("offload_threshold")
@pytest.mark.parametrize("order", ["C", "F"])
def test_numpy_array_keeps_the_order_of_axes(order):
    ours = np.zeros((3, 2, 4), order=order)
    theirs = numpy.zeros((3, 2, 4), order=order)
    for make in (lambda x: x, lambda x: x.transpose(1, 0, 2), lambda x: x[::2, :, ::-1]):
        assert numpy.array(make(ours)).strides == numpy.array(make(theirs)).strides
