"""Small arrays on the host: the first lines of operators, methods and functions do what the general way does.

Every statement is run by NumPy, by us, and by us while a report is open, which no shortcut is taken under. Results have
to be the same, and so have views: what is written to a result afterwards is seen in the same places.
"""

# ruff: noqa: ICN001, S102, SIM905 - oxinp is np, and programs are texts

import operator
import warnings

import numpy
import pytest

import oxinp as np
from asv_benchmarks.host_path import num_calls
from oxinp._core.lazy.explain import REPORTS
from oxinp._core.lazy.handle import device_value
from oxinp._core.ufunc import operator_texts
from tests.comparator import assert_same
from tests.thinned import thinned


@pytest.fixture(autouse=True)
def _settings(config):
    config.offload_threshold = 65_536


def read_only(x):
    view = x[:]
    view.flags.writeable = False
    return view


# How a matrix of 4 by 6 is made what a statement is about.
ARRAYS = {
    "whole": lambda x: x,
    "transposed": lambda x: x.T,
    "part": lambda x: x[1:, ::-2],
    "copied in Fortran order": lambda x: x.copy("F"),
    "read-only": read_only,
    "vector": lambda x: x[1],
    "column": lambda x: x[:, 2],
    "empty": lambda x: x[:, 6:],
    "of no dimensions": lambda x: x[1, 2, ...],
    "broadcast": None,
}
DTYPES = ["f8", "i8", "?", "c16", "O", [("p", "i4"), ("q", "f8")], ">f8"]

READS = """
a[1] a[-1] a[1:3] a[::-1] a[...] a[()] a[None] a[1:,None] a[0,1] a[0,-1:] a[:,1] a[...,0] a[numpy.int64(1)] a[True] a[9]
a[(k,),0] a[[k,k],0] a[((0,1),k),1] a[([0],[1.5]),1] a[(m,),0]
a['p'] a[[1,0]] a[k] a[k,0] a[:,k] a[k,k] a[m] a[1.5] a[k,None] a[a==a] len(a) a.shape a.T a.mT a.dtype a.nbytes a.size
a+a a-a a*2 2.5*a a/3 1-a -a abs(a) ~a a**2 a**0.5 a**-1 a//2 a%2 a==a a!=a a<a a>1 a&a a|True a@a a@a.T a[0]@a[1] a.T@a
a+1j a+b a@b b@a a==None
a+[1,2,3,4,5,6] (1,2,3,4,5,6)-a a==[1,2,3,4,5,6] a<(2,)*6 np.add(a,[1,2,3,4,5,6]) np.add((1,2),[3,4]) np.sqrt([1,4])
np.maximum((2,)*6,a) a*[a[0],a[0],a[0],a[0]] a+['x'] a+[[1],[2,3]] np.add([1,2],'x') a**[2] [None]==a a+[] np.sin([])
a.sum() a.sum(0) a.max() a.min(axis=0) a.mean() a.any() a.all() a.cumsum() a.prod() a.argmax() a.std()
a.argsort(kind='stable')
a.nonzero() a.trace() a.repeat(2) a.take(k) a.dot(a) a.searchsorted(1) a.choose([1,2])
np.sum(a) np.sum(a,axis=0) np.max(a,keepdims=True) np.mean(a,axis=-1) np.cumsum(a) np.sort(a) np.all(a)
np.argsort(a,kind='stable')
np.concatenate((a,a)) np.concatenate([a,b]) np.stack([a,a]) np.where(a==a,a,a) np.clip(a,0,1) np.abs(a) np.sqrt(a)
np.maximum(a,a) np.exp(a) np.outer(a,a) np.dot(a,a) np.inner(a,a) np.linalg.norm(a) np.zeros_like(a) np.copy(a)
np.transpose(a) np.transpose(a,(1,0)) np.reshape(a,-1) np.reshape(a,(2,-1)) np.swapaxes(a,0,1) np.squeeze(a) np.ravel(a)
np.diagonal(a) np.asarray(a) np.asarray(a,'f4') np.array(a) np.array(a,copy=None) np.moveaxis(a,0,-1) np.flip(a)
a.reshape(-1) a.reshape(2,-1) a.reshape((3,8)) a.reshape(a.shape) a.ravel() a.ravel('F') a.ravel('K') a.flatten()
a.transpose() a.squeeze() a.swapaxes(0,-1) a.copy() a.copy('F') a.copy('K') a.astype('f4') a.astype(int,copy=False)
a.astype('f8','F') a.astype('i4',casting='safe') list(a) [*a.T] np.zeros(a.shape) np.empty((2,0))  np.ones(3,'i4')
np.zeros(3) np.zeros((2,3),'f4') np.zeros(-1) np.ones((2,),order='F') np.arange(5) np.arange(5,dtype='f4') np.arange(-3)
np.arange(2,9,3) np.arange(3,step=1) np.array([1,2.5,True]) np.array([[1,2],[3,4]],'f4') np.array((1,2),ndmin=3)
np.array([a]) np.array([a[0],b]) np.array([a[0],a[1]]) np.array([b[::2],b[1::2],b[:3]]) np.array([b,[1]])
np.full(3,2) np.full((2,3),1.5) np.full(3,-0.0) np.full(-1,1.0) np.full((-2,-1),1.0) np.full((),1.5)
np.full([2],1.5) np.full((2,True),1.5) a.argsort(axis=0,kind='stable') np.bincount(k,minlength=9) np.full((0,3),1.5)
np.sort(a,kind='stable') np.asarray([1,2]) np.array([]) np.array([1j,None])
np.add.reduce(a) np.add.reduce(a,1) np.add.reduce(a,-1) np.add.reduce(a,axis=0) np.add.reduce(a,2) np.add.reduce(a,None)
np.maximum.reduce(a) np.logical_or.reduce(a,-2) np.maximum.accumulate(a) np.add.accumulate(a,1) np.add.accumulate(a,9)
np.prod(a) np.prod(a,axis=0) a.prod(1) np.take(a,k) np.take(a,k,axis=0) np.vdot(a,a) np.vdot(a,b) np.full_like(a,2.5)
np.where(a==a,a,0.5) np.where(a==a,1,a) np.where(a==a,2,0.5) np.matmul(a,a.T) np.matmul(a,2.5) np.power(a,2)
np.power(2.0,a) np.power(a,a) np.power(a,-1) a.item(1) a.item(0,1) a.item(99) a.item(-1) a.item(1,2,3) a.item(True)
np.searchsorted(a[0],1) np.searchsorted(b,b,'right') a.sum(axis=-1) a.max(1) np.sum(a,1) np.sum(a,True) a.max(axis=9)
np.add.accumulate(a,axis=-1) np.multiply.accumulate(a,-1) np.arctan2.reduce(a) np.add.reduce(a,dtype='f8') a.argmax(1)
a.argmin(axis=0) a.argmax(9) a.mean(-1) a.mean(axis=9)
numpy.float64(2.5)*a numpy.float64(2.5)<a numpy.float64(1)==a numpy.int64(1)!=a numpy.float32(1)-a numpy.array(2.0)>=a
numpy.float64(2)**a numpy.float64(1)/a numpy.True_&a numpy.equal(numpy.float64(1),a) numpy.add(numpy.array(1),a)
numpy.maximum(numpy.int8(2),a) numpy.multiply(2.5,a) numpy.array([2.0])*a numpy.complex64(1j)*a
""".split()

WRITES = """
a[1]=1 a[0,1]=0 a[-1]=a[0] a[:,1]=a[:,0] a[1:3]=0 a[::-1]=a a[...]=1 a[()]=1 a[1,2]-=0.5 a[1]+=a[0] a[9]=1 a[0,9]=1
a[m]=0 a[k]=1 a[k]=a[k] a[a==a]=0 a[k,k]=1 a[1]=[1,2] a[0]=numpy.ones(9) a[0,0]=1j a[0]=None a[0,1]='x' a[0,0]=300
a+=1 a-=a a*=2.5 a/=2 a+=b a[0,0]=numpy.nan a[0]=b a[0,:2]=True a[numpy.int64(1)]=1 a['p']=1 a[:]=a[0] a[0,0]=b
a[1,...]=a[0] a[0,[1,2]]=0 a[1.5]=0 a[k]=a a[0,1]=a[1,:1] a.sort() a.fill(1) a[0]=2**70 a[:3,0]=k a[:,1]=m a[k,1]=k
a[0,:3]=k a[(k,),1]=7 a[(k,),1]*=-1 a[[k,k],0]=k a[([0,1],k),1]=2 a[(m,),0]=1 a+=[1,2,3,4,5,6] a*=(2,)*6
a-=[a[0]]*4 a+=['x']
""".split()

# What the general way does otherwise: an empty result's strides, and elements of records.
OTHERWISE = {"a.repeat(2)", "a[0,1]=a[1,:1]"}


def made(np, dtype, form):
    rng = numpy.random.default_rng(3)
    theirs = rng.integers(0, 5, (4, 6)).astype(dtype if dtype != [("p", "i4"), ("q", "f8")] else "i4")
    if dtype == [("p", "i4"), ("q", "f8")]:
        records = numpy.zeros((4, 6), dtype)
        records["p"] = theirs
        theirs = records
    whole = theirs if np is numpy else np.asarray(theirs)
    if form == "broadcast":
        return whole, np.broadcast_to(whole[0], (3, 6))
    return whole, ARRAYS[form](whole)


def outcome(np, dtype, form, statement):
    """Return what becomes of a statement, of its arrays, and of these when its result is written to."""
    whole, a = made(np, dtype, form)
    given = numpy.array([2, 0, 1]), numpy.array([True, False, True, True])
    k, m = given if np is numpy else map(np.asarray, given)
    names = {"np": np, "numpy": numpy, "a": a, "k": k, "m": m, "b": np.ones(6, "f4")}
    with numpy.errstate(all="ignore"):
        try:
            if statement in WRITES:
                exec(statement, names)
                return names["a"], whole
            result = eval(statement, names)  # noqa: S307
        except Exception as error:  # noqa: BLE001 - whatever NumPy raises
            return type(error), whole
    shown = result
    if isinstance(result, np.ndarray):
        flags = result.flags
        steps = [step for step, n in zip(result.strides, result.shape, strict=True) if n > 1 and result.size]
        shown = result.copy(), (steps, flags.writeable), (flags.owndata, result.base is None, result.strides)
        if flags.writeable and result.dtype.kind in "bifcu":
            result[...] = 1
    elif isinstance(result, list | tuple):
        shown = [x.copy() if isinstance(x, np.ndarray) else x for x in result]
    return shown, whole


def same(found, expected, *, is_general=False):
    """Assert that two outcomes are equal; those of different ways to NumPy may be other exceptions."""
    (result, whole), (wanted, wanted_whole) = found, expected
    if isinstance(wanted, type):
        assert isinstance(result, type)
        assert result is wanted or is_general
    elif isinstance(wanted, tuple):
        assert_same(result[0], wanted[0], ulp=2)
        assert result[1] == wanted[1]
    else:
        assert_same(result, wanted, ulp=2)
    assert_same(whole, wanted_whole)


@pytest.mark.parametrize(("form", "dtype"), thinned(list(ARRAYS), DTYPES), ids=str)
def test_the_first_lines_do_what_the_general_way_does(dtype, form, stats):
    for statement in (*READS, *WRITES):
        expected = outcome(numpy, dtype, form, statement)
        found = outcome(np, dtype, form, statement)
        with np.explain():
            assert REPORTS
            general = outcome(np, dtype, form, statement)
        try:
            same(found, expected)
            if statement not in OTHERWISE:
                same(found, general, is_general=True)
                if isinstance(found[0], tuple):
                    assert found[0][2] == general[0][2]
        except AssertionError as error:
            raise AssertionError(f"{statement}: {error}") from None
    assert stats().launches == 0


def test_a_diagonal_is_filled_by_a_matrix_where_there_is_no_device(config):
    config.backend = "host"
    ours, theirs = np.zeros((2, 2)), numpy.zeros((2, 2))
    np.fill_diagonal(ours, np.arange(4.0).reshape(2, 2) + 1)
    numpy.fill_diagonal(theirs, numpy.arange(4.0).reshape(2, 2) + 1)
    assert_same(ours, theirs)


@pytest.mark.parametrize("how", ["warn", "ignore", "raise", "call"])
def test_operators_warn_once_and_as_the_state_of_errors_says(how):
    def told(np):
        a, zero, heard = np.array([1.0, -1.0, 0.0]), np.array([0.0, 0.0, 2.0]), []
        statements = {
            "a / b": lambda: a / zero,
            "b / c": lambda: a / 0.0,
            "c / b": lambda: 1.0 / zero,
            "log": lambda: np.log(a),
            "a /= b": lambda: zero.__itruediv__(np.array([0.0, 1.0, 0.0])),
        }
        with numpy.errstate(all=how, call=lambda kind, flag: heard.append((kind, flag))), warnings.catch_warnings():
            warnings.simplefilter("always")
            for name, statement in statements.items():
                with warnings.catch_warnings(record=True) as caught:
                    try:
                        heard.append((name, numpy.asarray(statement()).tolist()))
                    except FloatingPointError as error:
                        heard.append((name, str(error)))
                heard += [str(warning.message) for warning in caught]
        return str(heard)

    assert told(np) == told(numpy)


def test_a_refused_warning_leaves_no_trace_where_warnings_are_errors():
    a = np.array([1.0, 2.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="divide by zero") as raised:
            a / 0.0
    assert raised.value.__context__ is None


@pytest.mark.parametrize("function", [operator.sub, np.hypot, np.fmax], ids=lambda function: function.__name__)
def test_few_elements_that_grow_are_placed_by_what_they_grow_to(function, stats):
    column, row = np.array(numpy.ones((1500, 1))) * 3, np.array(numpy.ones((1, 1500))) * 1
    function(column, column)  # which are few from then on
    function(row, row)
    for _ in range(2):
        before = stats().launches
        total = function(column, row).sum()
        assert float(total) == pytest.approx(1500**2 * function(3.0, 1.0))
        assert stats().launches > before
    assert (np.array(numpy.ones(1500)) * 2.0)._known is False
    assert (np.array(numpy.ones((1500, 1))) * 2.0)._known is None  # which others may make more of


COLUMNS = {
    "made": lambda x: np.array(x.reshape(-1, 1)),
    "zeros": lambda x: np.zeros((x.size, 1)),
    "by None": lambda x: np.array(x)[:, None],
    "a slice": lambda x: np.array(numpy.tile(x[:, None], (1, 3)))[:, 1:2],
    "a slice of few": lambda x: np.array(x.reshape(1, -1))[:1].T,
    "reshaped": lambda x: np.array(x).reshape(-1, 1),
    "kept": lambda x: np.array(numpy.tile(x, (2, 1))).sum(axis=0, keepdims=True).T,
    "of numbers": lambda x: np.array(x.reshape(-1, 1)) * 2.0,
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_the_first_that_grow_are_not_computed_on_the_host(column):
    x = numpy.arange(1500.0)
    a, b = column(x), np.array(x)
    for each in (a, b, a.T, b[None]):
        _ = each + each, each * 2.0, -each, each.copy()  # which marks what has few elements
    sizes, general = [], []

    def subtract(x, y):
        sizes.append(numpy.broadcast(x, y).size)
        return numpy.subtract(x, y)

    texts = operator_texts._texts(may_warn=False, is_heavy=False)
    made, _ = texts.of_two(
        subtract, lambda *given: general.append(given), None, lambda *_: False, 16, lambda *_: 8, {}, *(None,) * 2
    )
    for other in (b, a.T, b[None]):
        made(a, other)
        made(other, a)
    assert len(general) == 6
    assert sizes == []
    made(b, b)
    assert sizes == [1500]


def test_parts_are_known_to_be_few_where_they_are():
    a = np.array(numpy.arange(60_000.0).reshape(200, 300))
    a.flat[0] = 0.0  # on the host
    assert a[3]._known is a[3][5:]._known is a[:, 2]._known is False
    assert a[:10]._known is None
    assert_same(a[3] - a[4], numpy.full(300, -300.0))
    assert_same(
        a[:8, 1:] * a[1:9, :-1],
        (numpy.arange(60_000.0).reshape(200, 300)[:9])[:8, 1:] * (numpy.arange(60_000.0).reshape(200, 300)[1:9, :-1]),
    )


def test_parts_of_users_classes_are_of_these_whatever_is_known_of_their_size():
    class Kept(np.ndarray):
        pass

    a = np.array(numpy.arange(24.0).reshape(4, 6)).view(Kept)
    for _ in range(3):
        _ = a + a, -a, a * 2.0, a.sum(), a.copy()
        a[0, 0] = 1.0
        a[1] = a[2]
        assert type(a[1]) is type(np.ndarray.__getitem__(a, 2)) is type(a[:, 1:3]) is Kept


def test_threshold_below_the_usual_forgets_which_arrays_have_few_elements(config, stats):
    a = np.array(numpy.arange(64.0))
    b = a * 2.0
    assert b._known is False
    config.offload_threshold = 0
    before = stats().launches
    assert_same(np.asarray((b + b) * 3.0), numpy.arange(64.0) * 12)
    assert stats().launches > before


def test_a_copy_that_is_made_while_numpy_writes_is_not_kept():
    a = np.array(numpy.arange(8.0))

    def write_later(x, y):
        device_value(a._storage)  # as another thread would, in the middle of the call
        return numpy.add(x, y, out=x)

    made = operator_texts._texts(may_warn=False, is_heavy=False).in_place(write_later, None, 16, lambda *_: 8)
    assert made(a, 1.0) is a
    assert a._storage.value is None
    assert_same(np.asarray(a), numpy.arange(8.0) + 1)
    assert float((a * 2).sum()) == 2 * (numpy.arange(8.0) + 1).sum()


def test_parts_are_assigned_to_where_they_came_from():
    def done(np):
        a, key, row = np.array(numpy.arange(24.0).reshape(4, 6)), (1, slice(None)), slice(1, 3)
        a[key] += 1.0
        a[:, 2] *= np.array(numpy.arange(4.0))
        part = a[row]
        narrower = part[:1]
        narrower += 5.0
        a[row] = narrower  # a part of the part: its elements are copied
        part = a[key]
        part.flags.writeable = False
        a[key] = part
        reshaped = a[row]
        reshaped = reshaped.reshape(2, 6)
        a[row] = reshaped
        other = np.array(numpy.ones((4, 6)))
        other[key] = a[key]
        shrunk = a[1:3]
        a = a.copy()
        a[row] = shrunk * 2
        b = other.T
        b[row] = b[row] * 3
        return a, other

    for ours, theirs in zip(done(np), done(numpy), strict=True):
        assert_same(np.asarray(ours), theirs)


@pytest.mark.parametrize("change", ["shape", "dtype"])
def test_a_part_that_lies_elsewhere_since_is_assigned_as_any_other(change):
    a, key = np.array(numpy.arange(12.0).reshape(3, 4)), slice(0, 2)
    part = a[key]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        if change == "shape":
            part.shape = (4, 2)
        else:
            part.dtype = "i8"
    expected = numpy.asarray(part).copy()
    if change == "shape":
        with pytest.raises(ValueError, match="broadcast"):
            a[key] = part
    else:
        a[key] = part
        assert_same(np.asarray(a[key]), expected.astype("f8"))


LARGER = [
    *(
        "L[k, 3]",
        "L[k]",
        "L[m]",
        "L[k, 3] = w",
        "L[k, 3] = k",
        "L[3] = k",
        "L[k] = 0.5",
        "L[m] = 1.0",
        "L.sum()",
        "L.sum(axis=0)",
        "L.min()",
    ),
    *("L.mean(axis=1)", "L.argmax(axis=1)", "np.linalg.norm(L)", "np.dot(L, w)", "np.concatenate((L, L))"),
    *(
        "np.add.reduce(L)",
        "np.maximum.accumulate(L, 1)",
        "np.clip(L, 0.25, 0.5)",
        "np.zeros_like(L)",
        "np.zeros((100, 110))",
    ),
]


@pytest.mark.parametrize("statement", LARGER)
def test_larger_arrays_take_the_short_way_where_there_is_no_device(statement, config):
    config.backend = "host"

    def given(np):
        values = numpy.random.default_rng(5).random((110, 110))
        return {
            "np": np,
            "L": np.array(values),
            "k": np.array(numpy.arange(110)[::-1]),
            "m": np.array(values > 0.9),
            "w": np.array(values[0]),
        }

    ours, theirs = given(np), given(numpy)
    assert theirs["L"].nbytes > config.offload_threshold
    assert num_calls(statement, ours) <= num_calls(statement, theirs) + 9
    for names in (ours, theirs):
        exec(f"made = {statement}" if "=" not in statement.partition("(")[0] else statement, names)
    assert_same(ours.get("made"), theirs.get("made"))
    assert_same(ours["L"], theirs["L"])


SMALL_ELEMENTS = ("u == 3", "(u == 3) & (u == 0)", "u + u", "~u", "u + 1", "np.minimum(u, 2)", "h * 0.5", "h + h")


def _made(statement, names):
    exec(f"made = {statement}", names)
    return names["made"]


@pytest.mark.parametrize("statement", SMALL_ELEMENTS)
def test_many_small_elements_take_the_short_way(statement):
    def given(np):
        return {"np": np, "u": np.zeros(40_000, "u1"), "h": np.ones(12_000, "f4")}

    ours, theirs = given(np), given(numpy)
    assert num_calls(statement, ours) <= num_calls(statement, theirs) + 7 * (1 + statement.count("&"))
    assert_same(_made(statement, ours), _made(statement, theirs))


@pytest.mark.parametrize("number", [numpy.float64(0.5), numpy.float32(0.5), numpy.int64(3)])
@pytest.mark.parametrize("sign", ["*", "-", "/", "**", "<"])
def test_a_number_of_numpys_on_the_left_takes_the_short_way(number, sign):
    statement = f"f {sign} a"
    for size in (16, 800):
        values = numpy.linspace(1.0, 9.0, size)
        ours = {"f": number, "a": np.array(values)}
        assert num_calls(statement, ours) <= 3
        assert_same(_made(statement, ours), _made(statement, {"f": number, "a": values}))


MADE = ("np.zeros(5000, np.int32)", "np.empty(5000, 'f4')", "np.ones((60, 70), bool)", "np.eye(5)", "np.identity(3)")


@pytest.mark.parametrize("statement", MADE)
def test_small_arrays_are_made_by_the_short_way(statement):
    assert num_calls(statement, {"np": np}) <= 6
    if "empty" not in statement:
        assert_same(_made(statement, {"np": np}), _made(statement, {"np": numpy}))


# Functions of small arrays -> Python functions called beyond NumPy's own.
FUNCTIONS = {
    **dict.fromkeys(("np.linalg.inv(M)", "np.linalg.det(M)", "np.linalg.solve(M, a)", "np.linalg.solve(M, M)"), 0),
    **dict.fromkeys(("np.linalg.cholesky(M @ M.T + np.eye(4))", "np.einsum('ij,j->i', M, a)"), 6),
    **dict.fromkeys(("np.einsum('ij,jk', M, M)", "np.einsum('i,i->', a, a)"), 6),
    **dict.fromkeys(("np.linalg.eigh(M)", "np.linalg.qr(M)", "np.linalg.svd(M)", "np.linalg.matrix_power(M, 3)"), 38),
    **dict.fromkeys(("np.kron(M, M)", "np.tensordot(M, M, 1)", "np.meshgrid(a, a)", "np.tile(a, 3)"), 48),
    **dict.fromkeys(("np.nonzero(a > 0.5)", "np.flatnonzero(a > 0.5)", "np.roll(a, 1)", "np.append(a, 1.0)"), 20),
    **dict.fromkeys(("np.add(a, a, out=s)", "np.sqrt(a, out=s)", "np.multiply(2.0, a, out=s)", "np.sqrt(2)"), 3),
    **dict.fromkeys(("np.maximum(a, 0.5, out=s[1:3])", "np.cross(a[:3], a[1:])", "M[:, [1, 2]]", "M[[1, 2]]"), 24),
    **dict.fromkeys(("np.dot(M, a)", "a.flatten()", "np.arange(2, 9)", "np.clip(a, 0, 1)", "np.full(9, 2)"), 2),
    **dict.fromkeys(("np.linspace(0, 1, 7)", "np.zeros(5000, np.int32)", "np.eye(4)"), 2),
    **dict.fromkeys(("np.hstack((a, a))", "np.vstack((a, a))", "np.vstack((M, M))", "np.append(a, 0.5)"), 5),
    **dict.fromkeys(("np.sort(M, axis=0)", "np.diag(a)"), 5),
    **dict.fromkeys(("np.linalg.multi_dot([M, M, M])", "np.linalg.multi_dot((a, M, a))"), 24),
    **dict.fromkeys(("np.matmul(M, M)", "np.power(a, 2)", "np.where(a > 0.5, a, 0.0)", "a.dot(a)"), 2),
    **dict.fromkeys(("M.sum(axis=1)", "np.max(M, axis=0)", "np.prod(M, 1)", "np.full_like(a, 2.0)"), 1),
    **dict.fromkeys(("np.vdot(a, a)", "np.inner(a, a)", "M.take(np.arange(3))", "np.searchsorted(a, 0.5)"), 4),
    **dict.fromkeys(("a.item(2)", "np.array([a, s])", "np.array([M[0], a[::-1]])"), 9),
    **dict.fromkeys(("np.add.at(s, [0, 2], 1.0)", "divmod(a, s)"), 48),
    **dict.fromkeys(("np.diag(M)", "np.fill_diagonal(M, 0.5)", "np.copyto(s, a)"), 24),
}


COMPLEX_SYSTEMS = tuple(
    f"np.linalg.{call}" for call in ("solve(M, M)", "solve(M, a)", "solve(M, B)", "inv(M)", "det(M)")
)


@pytest.mark.parametrize("statement", [*COMPLEX_SYSTEMS, "np.linalg.cholesky(M @ M.conj().T)"])
@pytest.mark.parametrize("n", [1, 4, 60])
def test_small_systems_of_complex_numbers_take_the_short_way(statement, n):
    random = numpy.random.default_rng(n)
    values = random.random((n, n)) + 1j * random.random((n, n)) + numpy.eye(n)
    many = numpy.resize(values, (n, max(150, 5000 // n)))  # right-hand sides, which take more than small arrays do
    ours, theirs = (
        {"np": each, "M": each.array(values), "a": each.array(values[0]), "B": each.array(many)} for each in (np, numpy)
    )
    if statement in COMPLEX_SYSTEMS:
        assert num_calls(statement, ours) <= 2
    assert_same(_made(statement, ours), _made(statement, theirs))


@pytest.mark.parametrize("name", ["solve", "inv", "cholesky", "det"])
@pytest.mark.parametrize("value", [0.0, numpy.nan, -1.0])
def test_small_systems_of_complex_numbers_are_refused_as_numpys(name, value, twin):
    matrix = numpy.eye(3) * complex(value)
    arguments = (matrix, matrix) if name == "solve" else (matrix,)
    twin(lambda np: getattr(np.linalg, name)(*map(np.array, arguments)))


@pytest.mark.parametrize("statement", FUNCTIONS)
def test_functions_of_small_arrays_take_a_short_way(statement):
    def given(np):
        values = numpy.random.default_rng(7).random((4, 4)) + numpy.eye(4)
        return {"np": np, "M": np.array(values), "a": np.array(values[0]), "s": np.array(values[1])}

    if "s[1:3]" in statement:
        statement = statement.replace("a,", "a[:2],")
    ours, theirs = given(np), given(numpy)
    assert num_calls(statement, ours) <= num_calls(statement, theirs) + FUNCTIONS.get(statement, 24)
    made, expected = _made(statement, ours), _made(statement, theirs)
    for one, other in zip(*[x if isinstance(x, tuple) else (x,) for x in (made, expected)], strict=True):
        assert_same(one, other)
    assert type(made) is (type(expected) if not isinstance(expected, numpy.ndarray) else np.ndarray)
    assert_same(ours["s"], theirs["s"])
    assert_same(ours["M"], theirs["M"])


def test_results_that_share_memory_go_on_sharing_it():
    a = np.arange(6.0)
    parts = np.meshgrid(a, a, copy=False, sparse=True)
    parts[0][0, 0] = 9.0
    assert a[0] == 9.0
    indices = np.arange(3)
    (rows,) = np.ix_(indices)
    rows[0] = 7
    assert indices[0] == 7
    made = np.nonzero(np.eye(3))
    made[0][0] = 5
    assert made[1][0] == 0


@pytest.mark.parametrize("function", ["inv", "cholesky", "solve", "det"])
@pytest.mark.parametrize("state", ["warn", "ignore", "raise"])
def test_singular_matrices_are_told_whatever_the_state_of_errors(function, state):
    def outcome(np):
        a = -np.ones((3, 3))
        given = (a, np.ones(3)) if function == "solve" else (a,)
        with np.errstate(all=state):
            try:
                return float(getattr(np.linalg, function)(*given))
            except (np.linalg.LinAlgError, FloatingPointError) as error:
                return type(error).__name__, str(error)

    assert outcome(np) == outcome(numpy)
