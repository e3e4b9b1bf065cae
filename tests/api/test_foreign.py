"""Containers and classes of other libraries: what NumPy's functions, operators and methods do with them, ours do."""

# ruff: noqa: ARG002, ICN001 - signatures are NumPy's, and oxinp is np where programs are written

import contextlib
import warnings

import numpy
import pytest
import scipy.sparse.linalg

import oxinp
from tests.comparator import assert_same

pytestmark = [
    pytest.mark.usefixtures("offload_threshold"),
    pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning"),
]


class Column:
    """Is to NumPy what a pandas.Series is: it has methods of its own and a say in ufuncs, and knows NumPy's arrays."""

    __array_priority__ = 1000

    def __init__(self, values):
        self.values = numpy.asarray(values)

    def __array__(self, dtype=None, copy=None):
        return numpy.array(self.values, dtype)

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
        if any(
            not isinstance(x, numpy.ndarray | numpy.generic | Column | int | float) for x in (*inputs, *(out or ()))
        ):
            return NotImplemented
        given = [x.values if isinstance(x, Column) else x for x in inputs]
        result = getattr(ufunc, method)(*given, **kwargs)
        if out is None:
            return Column(result)
        out[0][...] = result
        return out[0]

    def cumsum(self, axis=None, dtype=None, out=None):
        return Column(self.values.cumsum(axis, dtype))

    def round(self, decimals=0, out=None):
        return Column(self.values.round(decimals))

    def clip(self, min=None, max=None, out=None):
        return Column(self.values.clip(min, max))

    def repeat(self, repeats, axis=None):
        return Column(self.values.repeat(repeats, axis))

    def transpose(self, *axes):
        return self

    def sum(self, axis=None, dtype=None, out=None, **_):
        return Column([self.values.sum(axis)])

    def mean(self, axis=None, dtype=None, out=None, **_):
        return Column([self.values.mean(axis)])

    def compress(self, condition, axis=None, out=None):
        return Column(self.values.compress(numpy.asarray(condition), axis))

    def max(self, axis=None, out=None, **_):
        return Column([self.values.max(axis)])


class Sparse:
    """Is to NumPy what a scipy.sparse array is: no array_like, before arrays by priority, with NumPy's arrays alone."""

    __array_priority__ = 10.1

    def __init__(self, values):
        self.values = values

    def _with(self, other, operation):
        return operation(self.values, other) if type(other) is numpy.ndarray else NotImplemented

    def __add__(self, other):
        return self._with(other, numpy.add)

    __radd__ = __add__

    def __rsub__(self, other):
        return self._with(other, lambda mine, theirs: theirs - mine)

    def __rmatmul__(self, other):
        return self._with(other, lambda mine, theirs: theirs @ mine)

    def __rdivmod__(self, other):
        return self._with(other, lambda mine, theirs: divmod(theirs, mine))

    def __rpow__(self, other):
        return self._with(other, lambda mine, theirs: theirs**mine)

    def __eq__(self, other):
        return self._with(other, numpy.equal)

    def __gt__(self, other):
        return self._with(other, numpy.greater)

    __hash__ = None

    def sum(self, axis=None, dtype=None, out=None):
        return self.values.sum(axis)

    def mean(self, axis=None, dtype=None, out=None):
        return self.values.mean(axis)


class Asked:
    """Has a say in NumPy's functions."""

    def __array_function__(self, function, kinds, args, kwargs):
        return "asked", function.__name__, len(args)


class Wraps:
    """Has its results wrapped, as NumPy did before there were other protocols."""

    def __init__(self, values):
        self.values = numpy.asarray(values)

    def __array__(self, dtype=None, copy=None):
        return numpy.array(self.values, dtype)

    def __array_wrap__(self, array, context=None, return_scalar=False):
        return Wraps(array)


class Forbids:
    """Leaves nothing to ufuncs."""

    __array_ufunc__ = None

    def __rmul__(self, other):
        return "times", numpy.shape(other)

    def __lt__(self, other):
        return "below", numpy.shape(other)


class Insists(Forbids):
    """Knows NumPy's arrays alone."""

    def __rmul__(self, other):
        return ("times", other.shape) if type(other) is numpy.ndarray else NotImplemented


EXPRESSIONS = """
np.cumsum(column) np.round(column) np.around(column) np.clip(column,1,2) np.clip(column,x,x+1) np.repeat(column,2)
np.sum(column) np.mean(column) np.max(column) np.amax(column) np.transpose(column) np.sort(column) np.median(column)
np.cumprod(column) np.argmax(column) np.concatenate([x,column]) np.where(x>1,column,0) np.dot(column,x) np.diff(column)
x+column column+x x-column x*column x@column x==column x<column np.hypot(x,column) np.hypot(column,x) np.exp(column)
np.logaddexp(x,column) np.add(x,1,out=y) np.add(column,1,out=y) np.add(x,column,out=y) np.add.outer(x,column)
np.add.reduce(column) np.multiply(x,column,out=y) divmod(x,column) x**column x+sparse x-sparse x@sparse x==sparse
x!=sparse x<sparse sparse+x divmod(x,sparse) x**sparse x*sparse x>sparse np.sum(sparse) np.mean(sparse)
np.sum(sparse,axis=0) np.mean(sparse,axis=0) x[:1].sum()+sparse np.sum(asked) np.zeros_like(asked)
np.concatenate([asked,x]) np.concatenate([x,asked]) np.stack((x,asked)) np.linalg.solve(x,asked) np.where(asked,x,x)
np.sort(asked) np.linalg.norm(asked) np.expand_dims(asked,0) np.broadcast_arrays(x,asked) np.block([[x,asked]])
np.einsum("i,i",x,asked) np.sum(x,out=asked) np.fft.fft(asked) np.pad(asked,1) np.may_share_memory(x,asked)
np.shape(asked) np.iscomplexobj(asked) np.save(0,asked) np.sum(x,where=asked) np.asarray(asked).dtype np.copyto(x,asked)
np.nanmax(asked) np.quantile(asked,0.5) x+wraps wraps+x np.add(x,wraps) np.exp(wraps) np.hypot(wraps,x) x@wraps
np.cumsum(wraps) np.round(wraps) np.sum(wraps) np.repeat(wraps,2) np.linalg.inv(square) np.linalg.solve(square,x)
np.concatenate([x,wraps]) np.where(x>1,wraps,0) x*forbids x+forbids forbids+x x>forbids x<forbids np.multiply(x,forbids)
x*insists np.vstack([matrix,x]) np.vstack([x,matrix]) np.hstack([matrix,x[None]]) np.concatenate([matrix,x[None]])
np.stack([matrix,x[None]]) np.dot(matrix,x[:,None]) np.linalg.solve(square_matrix,x[:,None])
np.linalg.inv(square_matrix) np.sum(matrix,axis=1) np.mean(matrix,0) np.cumsum(matrix) np.sort(matrix)
np.transpose(matrix) np.atleast_1d(matrix) np.kron(matrix,x) np.where(matrix>1,matrix,x) np.multiply(matrix,x)
x[None]*matrix.T matrix*x[:,None] x+matrix x@matrix.T np.sum(masked) np.mean(masked) np.concatenate([masked,x])
np.median(masked) np.cumsum(masked) np.max(masked) x+masked np.where(x>1,masked,x) np.round(masked) np.sort(masked)
masked*x np.clip(masked,0,1) np.repeat(masked,2) np.diff(masked) np.clip(x,column,column) np.searchsorted(x,column)
np.compress(x>1,column) np.sum(a=column) np.cumsum(x,out=y) np.take(column,[0]) np.squeeze(column) np.real(column)
np.std(column) np.add(x,1,where=column,out=y) np.add(x,1,where=masked,out=y) np.add(x,1,where=wraps,out=y)
np.add(x,1,where=matrix,out=y) np.add(x,1,where=forbids,out=y) np.prod(column) np.ptp(column) np.any(column)
""".split()  # noqa: SIM905 - readable as it is


def named(value):
    """Return what tells outcomes apart: the class, ours and NumPy's arrays being one, and what it consists of."""
    kind = "array" if type(value) is oxinp.ndarray else "scalar" if isinstance(value, numpy.generic) else None
    kind = kind or ("array" if type(value) is numpy.ndarray else type(value).__name__)
    if isinstance(value, Column | Wraps):
        return kind, named(value.values)
    if isinstance(value, list | tuple):
        return kind, [named(part) for part in value]
    if isinstance(value, numpy.ma.MaskedArray):
        return kind, value.tolist()
    if isinstance(value, oxinp.ndarray | numpy.ndarray | numpy.generic):
        return kind, str(value.dtype), numpy.asarray(value).tolist()
    return kind, value if isinstance(value, str | int | float | type(None)) else ""


def outcome(np, functions, expression):
    # What comes from libraries is made of NumPy's arrays in either case.
    names = {
        "column": Column([1.5, 2.0, 0.5]),
        "sparse": Sparse(numpy.array([1.0, 2.0, 3.0])),
        "asked": Asked(),
        "wraps": Wraps([1.0, 2.0, 3.0]),
        "forbids": Forbids(),
        "insists": Insists(),
        "square": Wraps(numpy.eye(3) * 2),
        "matrix": numpy.matrix([[1.0, 2.0, 0.5]]),
        "square_matrix": numpy.matrix(numpy.eye(3) * 2),
        "masked": numpy.ma.array([1.0, 2.0, 0.5], mask=[0, 1, 0]),
    }
    x, y = np.array([0.5, 1.5, 2.5]), np.zeros(3)
    try:
        value = eval(expression, {"np": functions, "x": x, "y": y, **names})  # noqa: S307 - our own code
    except Exception as error:  # noqa: BLE001 - the exception is the outcome
        return type(error).__name__
    return named(value), value is y, named(x), named(y)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_as_in_numpy(expression):
    expected = outcome(numpy, numpy, expression)
    assert outcome(oxinp, oxinp, expression) == expected
    assert outcome(oxinp, numpy, expression) == expected


@pytest.mark.parametrize("other", [Column([1.0, 2.0, 3.0]), Wraps([1.0, 2.0, 3.0])], ids=["column", "wraps"])
@pytest.mark.parametrize("operator", ["__iadd__", "__imul__", "__ipow__"])
def test_in_place_the_array_is_written(operator, other):
    outcomes = []
    for np in (oxinp, numpy):
        a = np.full(3, 2.0)
        alias = a[:2]
        result = getattr(a, operator)(other)
        outcomes.append([result is a, named(a), named(alias)])
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0]


VIEWS = {
    "matrix": lambda x: x.view(numpy.matrix),
    "masked": lambda x: x.view(numpy.ma.MaskedArray),
    "records": lambda x: x.view(numpy.recarray),
    "by keyword": lambda x: x.view(type=numpy.matrix),
    "with a dtype": lambda x: x.view("i8", numpy.matrix),
    "of a part": lambda x: x[1:, ::2].view(numpy.matrix),
    "transposed": lambda x: x.T.view(numpy.matrix),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_views_of_numpys_subclasses_share_the_elements(view):
    outcomes = []
    for np in (oxinp, numpy):
        x = np.arange(12.0).reshape(3, 4) * 1
        seen = view(x)
        kind = type(seen).__mro__[:-1]
        x += 1
        before = seen.tolist()
        seen[0, 0] = 77
        as_matrix = np.asmatrix(x)
        as_matrix[1, 1] = 78
        product = None if seen.shape[0] != seen.shape[1] else (seen * seen).tolist()
        outcomes.append([kind, before, named(x), product, type(as_matrix)])
    assert outcomes[0] == outcomes[1]


def test_a_matrix_view_multiplies_as_a_matrix():
    a = (oxinp.arange(4) * 1).reshape(2, 2).view(numpy.matrix)
    assert numpy.asarray(a * a).tolist() == [[2, 3], [6, 11]]


def test_read_only_arrays_give_read_only_views():
    x = oxinp.broadcast_to(oxinp.arange(3.0), (2, 3))
    with pytest.raises(ValueError, match="read-only"):
        x.view(numpy.matrix)[0, 0] = 1


def test_nobody_is_asked_of_plain_arguments(config):
    """What is only made of elements is computed on the device as ever."""
    config.fallback = "error"
    config.offload_threshold = 0
    x = oxinp.arange(3.0)

    class Elements:
        def __array__(self, dtype=None, copy=None):
            return numpy.arange(3.0)

    results = [
        oxinp.sum(Elements()),
        oxinp.concatenate([x, Elements()]),
        oxinp.dot(x, range(3)),
        oxinp.cumsum([numpy.uint8(1), True]),
    ]
    config.fallback = "silent"
    expected = [numpy.float64(3), numpy.array([0, 1, 2, 0, 1, 2.0]), numpy.float64(5), numpy.array([1, 2], "u8")]
    for result, value in zip(results, expected, strict=True):
        assert_same(result, value)


ASKS = "def {name}(x):\n    return isinstance(x, numpy.ndarray), isinstance(x, list), x.__class__ is type(x)\n"


def test_a_priority_that_is_no_number_is_none():
    class Proxy:
        def __getattr__(self, name):
            if name.startswith("__array_") and name != "__array_priority__":
                raise AttributeError(name)
            return lambda *_: None

    proxy = Proxy()
    with pytest.raises(TypeError, match="unsupported operand"):
        numpy.ones(2) + proxy
    with pytest.raises(TypeError, match="unsupported operand"):
        oxinp.ones(2) + proxy


def test_who_is_not_asked_leaves_the_result_ours():
    class Mask(Asked):
        def __array__(self, dtype=None, copy=None):
            return numpy.array([True, False])

    assert type(oxinp.sum([[1, 2]], axis=0, where=Mask())) is oxinp.ndarray


def test_a_users_class_comes_before_a_matrix():
    """Python asks the right side first if its class is below the left one's, as a matrix is below an array alone."""
    x = oxinp.array([[1.0, 2], [3, 4]])
    matrix = numpy.matrix([[1.0, 2], [3, 4]])
    assert (x * matrix).tolist() == [[7, 10], [15, 22]]
    assert (x.view(Kept) * matrix).tolist() == [[1, 4], [9, 16]]


def asked_by(module, name):
    """Return a function of another library's that asks an array what it is."""
    names = {"__name__": module, "numpy": numpy}
    exec(ASKS.format(name=name), names)  # noqa: S102 - our own code
    return names[name]


@pytest.mark.parametrize("make", [lambda: oxinp.arange(3), lambda: oxinp.arange(3).view(Kept)], ids=["plain", "kept"])
def test_who_takes_numpys_class_alone_finds_it(make):
    x = make()
    assert asked_by("pandas.core.common", "is_bool_indexer")(x) == (True, False, False)
    for module, name in (("pandas.core.common", "other"), ("__main__", "is_bool_indexer"), ("xarray.core", "interp")):
        assert asked_by(module, name)(x) == (False, False, True)
    assert isinstance(x, type(x))
    assert not isinstance(x, numpy.ndarray)


class Kept(oxinp.ndarray):
    pass


def test_arrays_in_containers_are_compared():
    x = oxinp.arange(2)
    numpy.testing.assert_equal({"a": x, "b": [x]}, {"a": [0, 1], "b": [x]})
    oxinp.testing.assert_equal({"a": x}, {"a": oxinp.arange(2)})
    for other in ({"a": [0, 2]}, {"a": oxinp.arange(1, 3)}):
        with pytest.raises(AssertionError, match="Mismatched elements"):
            oxinp.testing.assert_equal({"a": x}, other)


def test_scipys_linear_operators():
    operator = scipy.sparse.linalg.aslinearoperator(oxinp.diag(oxinp.arange(1.0, 6)))
    assert operator.shape == (5, 5)
    assert_same(numpy.asarray(operator.matvec(numpy.ones(5))), numpy.arange(1.0, 6))


def test_a_class_of_numpys_module_is_among_an_arrays():
    """By which SymPy tells arrays from numbers, to which it would convert them."""
    x = oxinp.arange(6.0) * 2
    for value in (x, x.sum()):
        assert any(kind.__module__ == "numpy" for kind in type(value).__mro__)
    assert type(x).__module__.startswith("oxinp")


class _Implementing:
    """A class whose `__array_function__` looks for functions as this module, which has ours, names them."""

    def __array_function__(self, function, types, args, kwargs):
        if function is oxinp.concatenate or getattr(oxinp, function.__name__) is not function:
            return NotImplemented
        return function.__name__, types, len(args), sorted(kwargs)


def test_classes_that_know_ours_are_asked_with_ours():
    value = _Implementing()
    assert oxinp.sum(value, axis=0) == ("sum", (_Implementing,), 1, ["axis"])
    assert oxinp.stack([oxinp.ones(3), value]) == ("stack", (_Implementing,), 1, [])
    for name, args in (("asarray", (1,)), ("zeros", (3,)), ("fromiter", ([1.0], float)), ("loadtxt", ("x",))):
        assert getattr(oxinp, name)(*args, like=value) == (name, (_Implementing,), len(args), [])
    with pytest.raises(TypeError, match="unexpected keyword"):
        oxinp.zeros(3, no_such=1, like=value)
    with pytest.raises(TypeError, match=r"no implementation found for 'numpy\.concatenate' on types"):
        oxinp.concatenate([value])


def test_array_function_refuses_what_is_no_tuple_and_no_dict():
    for xp in (numpy, oxinp):
        x = xp.ones(3)
        with pytest.raises(TypeError, match="args must be a tuple"):
            x.__array_function__(numpy.sum, (numpy.ndarray,), x, {})
        with pytest.raises(TypeError, match="kwargs must be a dict"):
            x.__array_function__(func=numpy.sum, types=(numpy.ndarray,), args=(x,), kwargs=())


class Giving:
    """Gives its array by `__array__`, and takes no part in copying it."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None):
        return self.array


class GivingCopies(Giving):
    def __array__(self, dtype=None, copy=None):
        return self.array


class Wrapping(GivingCopies):
    """Wraps what ufuncs make of its array, and keeps what it is told."""

    told = None

    def __array_wrap__(self, array, context=None, return_scalar=False):
        made = Wrapping(array)
        made.told = None if context is None else (context[1][-1] is self, context[2])
        return made


@pytest.mark.parametrize("call", [
    lambda np, a: np.minimum(a, a),
    lambda np, a: np.minimum(np.zeros(1), a),
    lambda np, a: np.sqrt(a),
    lambda np, a: np.add.reduce(a),
    lambda np, a: np.max(a, keepdims=True),
    lambda np, a: np.cumsum(a),
    lambda np, a: np.reshape(a, (1, 1)),
], ids=["both", "beside an array", "alone", "reduced", "function", "method", "view"])  # fmt: skip
def test_an_object_that_gives_ours_wraps_results(call):
    theirs, ours = (call(np, Wrapping(np.ones(1))) for np in (numpy, oxinp))
    assert type(ours) is type(theirs) is Wrapping
    assert type(ours.array) is oxinp.ndarray
    assert_same(ours.array, theirs.array)
    assert ours.told == theirs.told


@pytest.mark.parametrize("parameters", [("array",), ("array", "context"), ("array", "context", "return_scalar")])
def test_what_wraps_results_is_told_as_much_as_it_takes(parameters):
    told = {}

    def wrap(_, *given):
        if len(given) != len(parameters):
            raise TypeError
        told.update(zip(parameters, given, strict=True))
        return "wrapped"

    kind = type("Kind", (Giving,), {"__array__": GivingCopies.__array__, "__array_wrap__": wrap})
    expectation = contextlib.nullcontext() if len(parameters) == 3 else pytest.warns(DeprecationWarning, match="wrap")
    with expectation:
        assert oxinp.negative(kind(oxinp.ones(2))) == "wrapped"
    assert type(told["array"]) is oxinp.ndarray
    if "context" in parameters:
        assert told["context"][0] is oxinp.negative


def test_subclasses_of_ours_are_told_our_ufuncs():
    class Told(oxinp.ndarray):
        ufuncs = []  # noqa: RUF012 - of this class alone

        def __array_wrap__(self, array, context=None, return_scalar=False):
            self.ufuncs.append(context[0])
            return array

    oxinp.add(oxinp.ones(2).view(Told), 1)
    assert Told.ufuncs[0] is oxinp.add


def _copied(np, kind, dtype, copy):
    base = np.arange(4)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        try:
            made = np.array(kind(base), dtype, copy=copy)
            told = made is base, str(made.dtype)
        except ValueError as error:
            told = str(error)
    return told, [(each.category, str(each.message)) for each in given]


@pytest.mark.parametrize("copy", [True, None, False])
@pytest.mark.parametrize("dtype", [None, "i8", "f4"])
@pytest.mark.parametrize("kind", [Giving, GivingCopies])
def test_what_an_object_gives_is_copied_as_numpy_copies_it(kind, dtype, copy):
    assert _copied(oxinp, kind, dtype, copy) == _copied(numpy, kind, dtype, copy)


@pytest.mark.skipif(not numpy.ndarray.__flags__ & 1 << 5, reason="this NumPy's arrays match no sequence pattern")
def test_arrays_match_sequence_patterns():
    class Kind(oxinp.ndarray):
        pass

    for x in (oxinp.arange(2) + 1, (oxinp.arange(2) + 1).view(Kind)):
        match x:
            case [a, b]:
                assert_same([a, b], [numpy.int64(1), numpy.int64(2)])
            case _:
                pytest.fail("no sequence")
