"""Arguments that are rare, and legal or not: what NumPy makes of them."""

# ruff: noqa: ICN001, ARG005 - oxinp is np where programs are written, of one signature

import datetime
import operator
import pickle
import re
import warnings
import weakref
from fractions import Fraction

import numpy
import pytest

import oxinp as np
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("offload_threshold")


class Index:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


SFLOAT = numpy._core._multiarray_umath._get_sfloat_dtype()
HOLDER = []
HOLDER.append(HOLDER)


def named_matrix(np):
    left, right = np.ones((2, 1)), np.zeros((2, 1))
    return [np.bmat("left, right; right, left"), np.bmat("left right", {"left": left, "right": right}, {})]


PROGRAMS = {
    "bytes": lambda np: [
        bytes(np.arange(3)),
        bytes(np.arange(6.0).reshape(2, 3).T),
        bytes(np.arange(6, dtype="u1")[::2]),
    ],
    "bytes of a scalar": lambda np: [bytes(np.array(3)), bytes(np.array([7], "u1"))],
    "shape of objects": lambda np: [
        f(shape).shape for f in (np.zeros, np.ones, np.empty) for shape in (Index(2), (Index(2), 1), [2, Index(3)])
    ],
    "full with a shape of objects": lambda np: [np.full(Index(2), 7.0), np.full((Index(2), 2), 1)],
    "negative shape of objects": lambda np: np.zeros(Index(-2)),
    "shape that is none": lambda np: np.zeros("a"),
    "fill with a sequence": lambda np: np.zeros(3).fill([1, 2, 3]),
    "fill with an array": lambda np: np.zeros(3).fill(np.ones(3)),
    "fill with what does not fit": lambda np: np.zeros(3, "i1").fill(1000),
    "fill with text": lambda np: np.zeros(3).fill("a"),
    "dtype of a ufunc's reduction": lambda np: [
        np.logical_or.reduce(np.arange(3.0) > 1, dtype=bool),
        np.logical_and.reduce(np.arange(6.0).reshape(2, 3) > 1, axis=1, dtype=bool),
    ],
    "round of integers": lambda np: [np.round(5), np.round(numpy.int64(5)), np.array(5).round(), np.round([5, 6])],
    "round of bool": lambda np: np.round(np.array([True, False])),
    "a view within its array": lambda np: np.lib.stride_tricks.as_strided(
        np.arange(20)[2:4], (2,), (40,), check_bounds=True
    ),
    "a view beyond its array": lambda np: np.lib.stride_tricks.as_strided(
        np.arange(20)[2:4], (5,), (40,), check_bounds=True
    ),
    "a view before its array": lambda np: np.lib.stride_tricks.as_strided(
        np.arange(20)[2:4], (5,), (-8,), check_bounds=True
    ),
    "numbers of no elements": lambda np: [
        np.flatnonzero(np.arange(5.0)[:0] * 2 > 0),
        np.nonzero((np.ones((3, 4))[:, :0] + 1) > 0),
        np.argwhere(np.zeros((0, 2)) + 1),
    ],
    "texts beside numbers": lambda np: np.equal(np.array(["1"]), np.array([1])),
    "a text beside a number": lambda np: np.not_equal(np.array("1"), 1),
    "operators of texts and numbers": lambda np: [np.array("1") == 1, np.array(["1"]) != np.array([1.0])],
    "too many new axes": lambda np: np.zeros(3)[(None,) * 70],
    "too many new axes of one element": lambda np: np.zeros(())[(None,) * 70],
    "too large for an address": lambda np: np.empty((3037000500, 3037000500), "i1"),
    "zeros too large for an address": lambda np: np.zeros((3037000500, 3037000500), "i1"),
    "a result that is broadcast": lambda np: np.vecdot(*[np.arange(3.0)[None]] * 2, out=np.zeros((5, 4))),
    "a core dimension that is not": lambda np: np.matmul(np.ones((2, 3)), np.ones((3, 1)), out=np.zeros((2, 4))),
    "outputs in a tuple": lambda np: np.add.reduce(np.ones((3, 2)), out=(np.zeros(2),)),
    "an ellipsis in a tuple": lambda np: np.add.reduce(np.ones(3), out=(...,)),
    "arrays of scalars": lambda np: np.divmod(np.float64(7), 2, out=...),
    "parts of objects": lambda np: [np.array([1 + 2j, 3.0], dtype=object).real, np.array([2j], dtype=object).imag],
    "a list in itself": lambda np: np.array(HOLDER, dtype=object).shape,
    "a matrix of names": named_matrix,
    "merged arrays": lambda np: np.lib.recfunctions.merge_arrays(np.array([1, 2])),
    "an element that must be copied": lambda np: np.array(np.arange(3.0).sum(), copy=False),
    "putmask of a keyword": lambda np: np.putmask(a=np.zeros(2), mask=[0, 1], values=[1, 2]),
    "signs of what is no number": lambda np: [
        np.signbit(f(np.array([-numpy.nan, numpy.nan, -0.0, -1.0], code)))
        for f in (np.abs, np.fabs)
        for code in "efd"
        if numpy.lib.NumpyVersion(numpy.__version__) >= "2.5.0" or f is np.fabs
    ],
    "a range without an end": lambda np: np.arange(0, numpy.inf),
    "a range without an end, of a dtype": lambda np: np.arange(0, numpy.inf, 1, "f4"),
    "elements of an iterator deleted": lambda np: operator.delitem(np.ones(3).flat, 1),
    "a product of differences of times": lambda np: np.dot(np.ones((2, 2), "m8[s]"), np.ones((2, 2), "i8")),
    "differences of times into themselves": lambda np: (b := np.ones(2, "m8[s]"), np.dot(np.ones((2, 2), "m8[s]"), b)),
    "an outer product of too many axes": lambda np: np.add.outer(np.ones((1,) * 33), np.ones((1,) * 33)),
    "dtypes that no array interface names": lambda np: [
        np.arange(3.0).view(SFLOAT(2.0)).view("f8"),
        np.sort(np.array([3.0, 1.0, 2.0]).view(SFLOAT(1.0))).view("f8"),
        np.arange(6.0).reshape(2, 3).T.view(SFLOAT(2.0))[1:].astype("f8"),
    ],
    "records that are read only": lambda np: (
        a := np.array([(1, 2), (1, 2)], "i1,i2"),
        setattr(a.flags, "writeable", False),
        hash(a[0]) == hash(a[1]),
        operator.setitem(a[0], 0, 3),
    ),
    "a view of no elements where its dtype does not fit": lambda np: (
        np.zeros(11, "u1")[3:3].view("f8").__array_interface__["strides"],
    ),
    "a sum of a class of dtypes": lambda np: np.multiply.reduce(np.array([2, 3]), dtype=np.dtypes.Float32DType),
}

FILLS = [1, 2.5, True, numpy.float32(1.5), "3", numpy.array(4.0), 1 + 0j, None]


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_as_numpy(twin, program):
    twin(program)


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("value", FILLS, ids=repr)
@pytest.mark.parametrize("dtype", ["f8", "i4", "?", "c16", "O", "U3"])
def test_fill(twin, dtype, value):
    def body(np):
        a = np.zeros((2, 3), dtype)
        view = a[:, 1]
        a.fill(value)
        b = np.zeros((2, 3), dtype)
        b[:, ::2].fill(value)
        return a, view, b

    twin(body)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(3, 2), (2, 2), (4, 3), 6, (0, 2), (1, 3, 2)])
def test_resize(twin, order, shape):
    def body(np):
        a = np.array(np.arange(6.0).reshape(2, 3), order=order)
        a.resize(shape)
        return a, a.flags.f_contiguous, a.flags.c_contiguous

    twin(body)


STRIDED = {
    "contiguous": lambda np: np.arange(6.0).reshape(2, 3),
    "Fortran": lambda np: np.arange(6.0).reshape(2, 3).T,
    "permuted": lambda np: np.arange(24.0).reshape(2, 3, 4).transpose(1, 0, 2),
    "a part": lambda np: np.arange(12).reshape(3, 4)[:, :2],
    "reversed": lambda np: np.arange(5)[::-1],
    "broadcast": lambda np: np.broadcast_to(np.arange(3), (2, 3)),
    "empty": lambda np: np.zeros((2, 0)),
}


@pytest.mark.parametrize("make", STRIDED.values(), ids=STRIDED)
def test_parts_are_pickled_in_band(make):
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        buffers = []
        pickled = pickle.dumps(make(np), protocol, buffer_callback=buffers.append if protocol >= 5 else None)
        assert_same(pickle.loads(pickled, buffers=buffers), make(numpy))  # noqa: S301 - our own
        assert not buffers or make not in (STRIDED["a part"], STRIDED["reversed"], STRIDED["broadcast"])


OTHERS = {
    "text": lambda np: "a",
    "bytes": lambda np: b"a",
    "list of texts": lambda np: ["a", "b"],
    "array of texts": lambda np: np.array(["a", "b"]),
    "texts of another shape": lambda np: np.array([["a"], ["b"], ["c"]]),
    "texts that do not broadcast": lambda np: np.array(["a", "b", "c"]),
    "dates": lambda np: np.array(["2020", "2021"], "M8[Y]"),
    "record": lambda np: numpy.array([(1, 2), (3, 4)], "i4,i4"),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("compare", [operator.eq, operator.ne, operator.lt], ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "make", [lambda np: np.arange(2), lambda np: np.ones(2) * 1, lambda np: np.array(3.0)], ids="ifs"
)
def test_comparisons_without_a_loop(twin, make, compare, other):
    twin(lambda np: compare(make(np), other(np)))
    twin(lambda np: compare(other(np), make(np)))


def test_texts_are_in_no_numbers(twin):
    twin(lambda np: "a" in np.arange(2))


WHERE = [0, 1, 2.5, "a", "", None, (1, 0), [True, 0], [[1], [0]], [2.5, 0], numpy.int64(1), numpy.float64(0)]
WHERE += [numpy.array([1, 0]), numpy.array(1), numpy.array([True, False]), True, numpy.bool_(False)]
MASKED = {
    "copyto": lambda np, where: (a := np.zeros((2, 2)), np.copyto(a, 7, where=where)),
    "copyto of itself": lambda np, where: (a := np.ones((2, 2)), np.copyto(a, a, where=where)),
    "copyto of what is read-only": lambda np, where: np.copyto(np.broadcast_to(np.ones(1), (2, 2)), 1, where=where),
    "copyto of itself, read-only": lambda np, where: (
        a := np.broadcast_to(np.ones(1), (2, 2)),
        np.copyto(a, a, where=where),
    ),
    "copyto of an array": lambda np, where: (a := np.zeros((2, 2)), np.copyto(a, np.ones(2), where=where)),
    "ufunc": lambda np, where: np.add(np.ones((2, 2)), 1, out=np.zeros((2, 2)), where=where),
    "unary": lambda np, where: np.sqrt(np.ones((2, 2)) + 3, out=np.zeros((2, 2)), where=where),
    "out of itself": lambda np, where: (a := np.ones((2, 2)), np.less(a, a, out=(a[None].astype(bool),), where=where)),
}


@pytest.mark.parametrize("where", WHERE, ids=repr)
@pytest.mark.parametrize("call", MASKED.values(), ids=MASKED)
def test_where(twin, call, where):
    twin(lambda np: call(np, where))


def test_where_that_was_computed(twin):
    twin(lambda np: np.add(np.ones(3), 1, out=np.zeros(3), where=np.arange(3).sum()))
    twin(lambda np: np.add(np.ones(3), 1, out=np.zeros(3), where=np.arange(3) > 1))
    twin(lambda np: np.add(np.ones(3), 1, out=np.zeros(3), where=np.arange(3)))


@pytest.mark.parametrize("make", [
    lambda np: np.arange(1, 1e30),
    lambda np: np.arange(2**62),
    lambda np: np.arange(0, 2**62, 2, dtype=complex),
    lambda np: np.linspace(0, 1, 2**62),
])  # fmt: skip
def test_ranges_that_no_memory_holds_are_refused_at_once(make):
    with pytest.raises(ValueError, match="size") as theirs:
        make(numpy)
    with pytest.raises(ValueError, match=re.escape(str(theirs.value))):
        make(np)


@pytest.mark.parametrize("code", "efd")
def test_a_range_from_minus_zero_begins_with_it(code):
    for stop, step in ((3, 1), (-3, -1)):
        ours, numpys = np.arange(-0.0, stop, step, code), numpy.arange(-0.0, stop, step, code)
        assert numpy.asarray(ours).tobytes() == numpys.tobytes()


def _restrided(np, make):
    a = make(np)
    b = a[1:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of NumPy 2.4
        b.strides = (0,) * b.ndim
    a[1] = 7
    return a, b, b.strides, b.flags.c_contiguous, b.base is None


def _retyped(np, make, dtype):
    a = make(np)
    b = a[1:]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        b.dtype = dtype
    b[..., :1] = 3
    return a, b, b.strides, b.dtype, b.base is None, [(str(one.message), one.category, one.filename) for one in told]


@pytest.mark.parametrize("shape", [(6,), (4, 6)], ids=str)
def test_strides_and_dtypes_that_are_set(twin, shape):
    def make(np):
        return np.arange(float(numpy.prod(shape))).reshape(shape).copy()

    twin(lambda np: _restrided(np, make))
    for dtype in ("i8", "f4", "u1", "c16"):
        twin(lambda np, dtype=dtype: _retyped(np, make, dtype))
        twin(lambda np, dtype=dtype: _retyped(np, lambda np: make(np) + 1, dtype))


ORDERED = {
    "flatten": lambda np, a, order: a.flatten(order),
    "ravel": lambda np, a, order: np.ravel(a, order),
    "reshape": lambda np, a, order: a.reshape((6, 4), order=order),
    "copy": lambda np, a, order: a.copy(order),
    "array": lambda np, a, order: np.array(a, order=order),
    "asarray": lambda np, a, order: np.asarray(a, order=order),
    "astype": lambda np, a, order: a.astype("f4", order=order),
    "ufunc": lambda np, a, order: np.add(a, 1, order=order),
    "ndarray": lambda np, a, order: np.ndarray((2, 3), "f8", order=order)[:0],
    "zeros": lambda np, a, order: np.zeros((2, 3), order=order),
    "zeros_like": lambda np, a, order: np.zeros_like(a, order=order),
    "matmul": lambda np, a, order: np.matmul(a, a.swapaxes(1, 2), order=order),
}


@pytest.mark.parametrize("call", ORDERED.values(), ids=ORDERED)
def test_orders(twin, call):
    """In capitals or not, as bytes, and what is none."""
    values = numpy.arange(24.0).reshape(2, 3, 4)

    def body(np, order, given):
        made = call(np, np.array(given), order)
        return made, made.strides

    for order in [*"CFAKcfak", None, b"F", "x", "Fo", 5]:
        for given in (values, values.T):
            twin(lambda np, order=order, given=given: body(np, order, given))


@pytest.mark.parametrize("wanted", [False, numpy.False_, numpy._CopyMode.NEVER, None, numpy.True_], ids=repr)
def test_copies_of_arrays_as_they_are_asked_for(twin, wanted):
    def body(np):
        a = np.arange(6.0)
        b = np.array(a, copy=wanted)
        return b is a, b

    twin(body)


LISTS = {
    "text": ("f8", [1, 2, "x"]),
    "dict": ("f8", [1, None, {}]),
    "too large": ("i1", [1, 2, 1000]),
    "imaginary": ("f4", [1, 2j, 3]),
    "matrix": ("f8", [[1, 2, 3], [4, 5, "x"]]),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_that_is_refused_is_written_as_far_as_it_goes(twin, name):
    dtype, given = LISTS[name]

    def body(np):
        a = np.zeros((2, 3), dtype)
        messages = []
        for target in (a, a[:, ::-1]) if name == "matrix" else (a[1], a[0, ::-1]):
            with pytest.raises((ValueError, TypeError, OverflowError)) as raised:
                target[:] = given
            messages.append(str(raised.value))
        return a, messages

    twin(body)


@pytest.mark.parametrize("other", ["i8", "f4", "c16"])
def test_cross_products_of_two_dtypes(twin, other):
    for shape in ((3,), (2, 3)):
        twin(lambda np, shape=shape: np.cross(np.arange(3), np.ones(shape, other)))
        twin(lambda np, shape=shape: np.cross(np.ones(shape, other), np.arange(3.0)))


def test_a_result_into_an_ellipsis_is_an_array(twin, stats):
    def body(np):
        x, y = np.arange(3.0), np.array(2.0)
        made = [np.add(y, 1, out=...), np.add(x, y, out=...), *np.divmod(y, 2, out=...), np.vecdot(x, x, out=...)]
        made += [np.add.reduce(x, out=...), np.add.reduce(x, 0, None, None, True, 5.0, x > 0), x @ x]
        made[0] += 1
        return made, y, [isinstance(each, np.ndarray) for each in made]

    twin(body)
    assert not stats().fallbacks.keys() - {"__array__"}


def test_classes_of_dtypes(twin):
    for kind in (numpy.dtypes.StrDType, numpy.dtypes.Float32DType):
        twin(lambda np, kind=kind: [make((2, 3), dtype=kind).dtype for make in (np.zeros, np.ones, np.empty)])
        twin(lambda np, kind=kind: np.full(3, 1.5, dtype=kind))


def test_lists_of_arrays_as_objects_hold_those_arrays():
    x, y = np.arange(3), np.arange(4)
    held = np.array([None, x, [y]], dtype=object)
    assert held[1] is x
    assert held[2][0] is y or type(held[2][0]) is numpy.ndarray


READ_ONLY = ["T", "base", "ctypes", "data", "device", "flags", "itemsize", "mT", "nbytes", "ndim", "size"]


@pytest.mark.parametrize("name", READ_ONLY)
def test_attributes_that_cannot_be_set_say_so_in_numpys_words(name):
    messages = []
    for xp in (np, numpy):
        with pytest.raises(AttributeError) as raised:
            setattr(xp.ones((2, 2)), name, 3)
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


def _resized(np, shape, prepare=lambda x: x, **keywords):
    x = np.arange(6).reshape(2, 3).copy()
    held = prepare(x)  # a reference to it, say
    x.resize(shape, **keywords)
    return x, held is None


RESIZED = {
    "a second name": lambda np: _resized(np, (5,)),
    "no second name": lambda np: _resized(np, (3, 3), lambda x: None),
    "as large": lambda np: _resized(np, (3, 2)),
    "unchecked": lambda np: _resized(np, (7,), refcheck=False),
    "a weak reference": lambda np: _resized(np, (7,), weakref.ref),
    "no shape": lambda np: _resized(np, "hi", lambda x: None),
    "negative": lambda np: _resized(np, -1, lambda x: None),
    "no flag": lambda np: _resized(np, 7, lambda x: None, refcheck="hi"),
    "an empty view": lambda np: (x := np.zeros((10, 0))[...]).resize((0, 100)) or x.shape,
}


@pytest.mark.parametrize("program", RESIZED.values(), ids=RESIZED)
def test_resize_in_place(twin, program):
    twin(program)


def test_astype_takes_no_mode_of_copying(twin):
    twin(lambda np: np.arange(3).astype("f8", copy=numpy._CopyMode.NEVER))
    twin(lambda np: [np.arange(3).astype("f8", copy=copy) for copy in (1, 0, numpy.True_)])


def test_as_many_dimensions_as_numpy_has(twin):
    twin(lambda np: ((a := np.ones((1,) * 64)) + 1).shape == a.shape)
    twin(lambda np: (np.ones((1,) * 63 + (3,)) + np.ones((2,) + (1,) * 63)).ravel())
    twin(lambda np: np.ones((1,) * 40 + (3,)) + np.ones(2))


RARE = {
    "the largest, into the third argument": lambda np: np.maximum(np.ones(3), np.zeros(3), np.empty(3)),
    "a fraction, as an array": lambda np: np.true_divide(Fraction(1, 2), 4, out=...).shape,
    "a percentile": lambda np: np.percentile(np.arange(10), Fraction(50)),
    "arange of dates' differences": lambda np: np.arange(datetime.timedelta(0), datetime.timedelta(microseconds=5)),
    "arange of NumPy's": lambda np: np.arange(numpy.timedelta64(3, "D")),
    "a class of no dtype": lambda np: np.ndarray[()],
    "a class of three": lambda np: np.ndarray[int, int, int],
}


@pytest.mark.parametrize("program", RARE.values(), ids=RARE)
def test_rare_arguments(twin, program):
    def body(np):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            result = program(np)
        return result, [(one.category, str(one.message), one.filename) for one in told]

    twin(body)


def test_classes_that_programs_test_for(twin):
    def body(np):
        x = np.arange(6.0).reshape(2, 3)
        both, seen = np.broadcast(x, x[0]), np.nditer(x)
        names = sorted(name for name in vars(np.nditer) if not name.startswith("_"))
        return isinstance(both, np.broadcast), isinstance(seen, np.nditer), isinstance(x, np.nditer), names

    twin(body)
    twin(lambda np: [a + b for a, b in np.broadcast(np.arange(3), np.ones((2, 1)))])
    twin(lambda np: [float(a) for a in np.nditer(np.arange(3.0), order="F")])


@pytest.mark.parametrize("form", [repr, str])
def test_an_array_of_objects_that_holds_itself_is_shown(form):
    a = np.array(None, dtype=object)
    a[()] = a
    assert "..." in form(a)
