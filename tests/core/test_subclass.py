"""Users' classes over our arrays, as NumPy's documentation has them over NumPy's."""

# ruff: noqa: ICN001 - oxinp is np where programs are written

import copy
import pickle
import warnings

import numpy
import pytest

import oxinp

pytestmark = pytest.mark.usefixtures("offload_threshold")


def make_info(np):
    """Return NumPy's documentation's example of a class with an attribute."""

    class Info(np.ndarray):
        def __new__(cls, values, info=None):
            made = np.asarray(values).view(cls)
            made.info = info
            return made

        def __array_finalize__(self, source):
            if source is not None:
                self.info = getattr(source, "info", "none given")

    return Info


EXPRESSIONS = """
a a[0] a[:,1:] a[0,0] a[[0]] a[a>1] a[...,0] a.T a.mT a.reshape(3,2) a.ravel() a.flatten() a.transpose()
a.swapaxes(0,1) a[:1].squeeze() a.view() a.view(np.ndarray) a.view("i8") a.view(Info) a.view("i8",Info)
a.view(type=Info) a.real a.imag a.diagonal() a+1 1+a a+np.ones(3) np.ones(3)+a a*a -a abs(a) a==1 a<2 a**2 a//2
divmod(a,2) a@a.T a.__iadd__(1) ~(a>1) np.rint(a) np.add(a,1) np.add(1,a) np.add(a,a,np.ones((2,3))) np.add(1,1,out=a)
np.add(a,1,out=a) np.sqrt(a,a) np.hypot(a,a) np.add.reduce(a) np.add.accumulate(a) np.multiply.outer(a,a)
np.add.reduceat(a,[0,1]) np.add.at(a,0,1) np.frexp(a) a.sum() a.sum(0) a.mean() a.mean(0) a.std(0) a.max(1) a.min()
a.any() a.all(0) a.argmax() a.argmax(0) a.cumsum(0) a.round() np.sum(a,0) np.sum(a) np.mean(a,axis=0) np.max(a,0)
np.cumsum(a) np.fix(a) np.fix(a[0,0,...]) np.median(a) np.std(a,0) np.argmax(a,0) np.count_nonzero(a) a.copy()
np.copy(a) np.copy(a,subok=True) np.lib.stride_tricks.as_strided(a,(2,))
np.lib.stride_tricks.as_strided(a,(2,),subok=True)
np.lib.stride_tricks.sliding_window_view(a,2,0) np.lib.stride_tricks.sliding_window_view(a,2,0,subok=True)
np.asarray(a) np.asanyarray(a) np.array(a) np.array(a,subok=True) a.astype("f4") np.zeros_like(a)
np.ones_like(a,subok=False) np.full_like(a,3) np.empty_like(a).shape np.concatenate([a,a]) np.stack([a,a])
np.hstack([a,a]) np.where(a>1,a,0) np.sort(a) a.argsort() np.argsort(a) np.dot(a,a.T) a.dot(a.T) np.outer(a,a)
a.clip(1,2) np.clip(a,1,2) np.repeat(a,2) a.repeat(2) np.expand_dims(a,0) np.reshape(a,(3,2)) np.transpose(a)
np.squeeze(a) np.ravel(a) np.broadcast_to(a,(2,2,3)) np.broadcast_to(a,(2,2,3),subok=True) a.nonzero()[0] np.unique(a)
np.linalg.norm(a) a.take([0]) np.ndarray.__new__(Info,(2,)).info np.ndarray.__new__(Info,(2,),"f8",bytearray(16))
isinstance(a,np.ndarray) type(a.base).__name__ a[0].base.info repr(a) str(a) a.item(0) a.tolist() len(a) copy.copy(a)
copy.deepcopy(a) list(a)[0] a.sort() a.fill(3) a.__setitem__(0,9) a.__setitem__(0,a[1]) a.flat[2] a.resize(2,2)
np.exp(a).info np.isnan(a) np.diff(a) np.roll(a,1) np.flip(a)
""".split()  # noqa: SIM905 - readable as it is


def outcome(np, expression):
    Info = make_info(np)
    a = Info([[1.0, 2, 3], [4, 5, 6]], info="given")
    try:
        value = eval(expression, {"np": np, "a": a, "Info": Info, "copy": copy})  # noqa: S307
    except Exception as error:  # noqa: BLE001 - the exception is the outcome
        return [type(error).__name__]
    return [
        [
            "plain" if type(part) is np.ndarray else "Info" if isinstance(part, Info) else "other",
            getattr(part, "info", None),
            part if isinstance(part, str | type(None)) else numpy.asarray(part).tolist(),
        ]
        for part in [*(value if type(value) is tuple else (value,)), a]
    ]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_as_in_numpy(expression):
    with numpy.errstate(all="ignore"):
        assert outcome(oxinp, expression) == outcome(numpy, expression)


def test_big_arrays_stay_on_the_device(stats):
    kind = make_info(oxinp)
    a = kind(oxinp.ones((300, 300)), info=1)
    b = oxinp.sqrt(a * 2 + a) + oxinp.ones(300)
    assert type(b) is kind
    assert b.info == 1
    assert abs(b.sum(axis=0)[0] - 300 * (numpy.sqrt(3.0) + 1)) < 1e-9
    assert not stats().fallbacks


@pytest.mark.parametrize("np", [oxinp, numpy], ids=["oxinp", "numpy"])
class TestProtocols:
    def test_array_ufunc(self, np):
        calls = []

        class Logged(np.ndarray):
            def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
                calls.append((ufunc.__name__, method))
                inputs = [x.view(np.ndarray) if isinstance(x, Logged) else x for x in inputs]
                if out is not None:
                    kwargs["out"] = tuple(x.view(np.ndarray) if isinstance(x, Logged) else x for x in out)
                result = super().__array_ufunc__(ufunc, method, *inputs, **kwargs)
                if method != "__call__":
                    return result
                return result.view(Logged) if out is None else out[0]

        a = np.arange(4.0).view(Logged)
        b = np.add(a, 1) * 2 + np.ones(4)
        assert type(b) is Logged
        a += 1
        assert numpy.asarray(b).tolist() == [3, 5, 7, 9]
        np.add.reduce(a)
        numpy.sin(a)
        assert calls == [
            *[("add", "__call__"), ("multiply", "__call__"), ("add", "__call__"), ("add", "__call__")],
            *[("add", "reduce"), ("sin", "__call__")],
        ]

    @pytest.mark.parametrize(
        "expression",
        """
        a.sum() a.sum(0) a.prod() a.any() a.all() a.max() a.min(axis=1) a.mean() a.mean(0) a.std() a.var(0) a.cumsum()
        a.cumsum(1) a.cumprod(0) a.clip(1,2) a.clip(max=2) np.sum(a) np.mean(a,axis=0) np.std(a) np.max(a) np.any(a,0)
        np.cumsum(a) np.clip(a,0,1) np.sum(a,out=np.zeros(())) a.sum(keepdims=True) np.var(a,ddof=1) np.argmax(a)
        """.split(),  # noqa: SIM905 - readable as it is
    )
    def test_methods_go_through_ufuncs(self, np, expression):
        """And through methods of the class's own, where functions ask them; NumPy's calls are the expected ones."""

        def calls(np):
            found = []

            class Logged(np.ndarray):
                def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
                    found.append((ufunc.__name__, method, len(inputs), out is not None))
                    inputs = [x.view(np.ndarray) if isinstance(x, Logged) else x for x in inputs]
                    if out is not None:
                        kwargs["out"] = tuple(x.view(np.ndarray) if isinstance(x, Logged) else x for x in out)
                    return getattr(ufunc, method)(*inputs, **kwargs)

                def argmax(self, axis=None, out=None):  # noqa: ARG002 - NumPy's arguments
                    return "argmax"

            value = eval(expression, {"np": np, "a": np.arange(6.0).reshape(2, 3).view(Logged)})  # noqa: S307
            return found, value if isinstance(value, str) else numpy.asarray(value).tolist()

        assert calls(np) == calls(numpy)

    def test_array_function(self, np):
        calls = []

        class Logged(np.ndarray):
            def __array_function__(self, function, types, args, kwargs):
                calls.append(function.__name__)
                return super().__array_function__(function, types, args, kwargs)

        a = np.arange(4.0).view(Logged)
        assert float(np.sum(a)) == 6
        np.concatenate([a, a])
        np.sort(a)
        np.expand_dims(a, 0)
        assert {"sum", "concatenate", "sort", "expand_dims"} <= set(calls)

    def test_array_wrap_and_priority(self, np):
        class First(np.ndarray):
            __array_priority__ = 1.0

        class Second(np.ndarray):
            __array_priority__ = 2.0

            def __array_wrap__(self, array, context=None, return_scalar=False):
                wrapped = super().__array_wrap__(array, context, return_scalar)
                wrapped.is_wrapped = True
                return wrapped

        a, b = np.arange(4.0).view(First), np.arange(4.0).view(Second)
        for result in (a + b, b + a, np.add(a, b)):
            assert type(result) is Second
            assert result.is_wrapped
        assert type(a + np.ones(4)) is First

    def test_super_and_inheritance(self, np):
        class Doubled(np.ndarray):
            def __add__(self, other):
                result = super().__add__(other)
                result.was_added = True
                return result

            def sum(self, *args, **kwargs):
                return super().sum(*args, **kwargs) * 2

        class Further(Doubled):
            pass

        a = np.arange(4.0).view(Further)
        assert isinstance(a, Doubled)
        assert issubclass(Further, np.ndarray)
        assert (a + 1).was_added
        assert type(a + 1) is Further
        assert float(a.sum()) == 12

    def test_pickle_with_state(self, np):
        a = np.arange(6.0).reshape(2, 3).view(globals()[f"Kept{np.__name__}"])
        a.info = "kept"
        for protocol in range(2, 6):
            again = pickle.loads(pickle.dumps(a, protocol))  # noqa: S301 - its own
            assert type(again) is type(a)
            assert again.info == "kept"
            assert numpy.asarray(again).tolist() == [[0, 1, 2], [3, 4, 5]]


def _kept(np):
    class Kept(np.ndarray):
        def __reduce__(self):
            function, args, state = super().__reduce__()
            return function, args, (*state, self.info)

        def __setstate__(self, state):
            self.info = state[-1]
            super().__setstate__(state[:-1])

    Kept.__qualname__ = Kept.__name__ = f"Kept{np.__name__}"
    return Kept


Keptoxinp, Keptnumpy = _kept(oxinp), _kept(numpy)


def test_views_that_writing_makes_are_not_finalized(twin):
    """A class that fills itself when it is finalized, as NumPy's own tests have one."""

    def body(np):
        class Filling(np.ndarray):
            def __array_finalize__(self, other):
                self.fill(9)

        a = np.arange(6.0).reshape(2, 3)
        b = a.copy().view(type=Filling)
        c = a.copy().view(type=Filling)
        c[1:] = 2
        c[0][...] = 3
        return np.asarray(b) + 0, np.asarray(c) + 0

    twin(body)


def _advanced(np):
    a = make_info(np)([1.0, 2, 3])
    parts = [a[[0, 1]], a[a > 1]]
    return [(type(part).__name__, type(part.base).__name__, part.base is a) for part in parts]


def _cast(np):
    a = make_info(np)([1.0, 2, 3])
    plain = a.astype("f8", subok=False, copy=False)
    return plain is a, type(plain) is np.ndarray, a.astype("f8", copy=False) is a, type(a.astype("f4")).__name__


def _of_objects(np):
    class Wraps(np.ndarray):
        def __array_wrap__(self, *args, **kwargs):
            made = super().__array_wrap__(*args, **kwargs)
            made.is_wrapped = True
            return made

    element = np.array([3])
    a = np.array([None, element, 2.5], dtype=object).view(Wraps)
    return a[1] is element, [type(x).__name__ for x in a], getattr(a.real, "is_wrapped", None)


def _in_lists(np):
    a = make_info(np)([[1.0, 2], [3, 4]])
    ragged = np.array([a, [a]], dtype=object)
    single = np.array([a[0, 0, ...]], dtype=object)
    return ragged.shape, ragged[0] is a, type(ragged[1]), single.shape, type(single[0]).__name__


def _required(np):
    a = make_info(np)([1.0, 2])
    return type(np.require(a, None, ["E"])) is np.ndarray, np.require(a) is a, np.require(a, None, ["C", "e"]) is a


def _own_dtypes(np):
    class Own(np.ndarray):
        @property
        def dtype(self):
            return super().dtype

        @dtype.setter
        def dtype(self, new):
            self.was_set = str(new)
            super(Own, type(self)).dtype.__set__(self, new)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seen = np.arange(6).view(Own).view("f8")
    return seen.was_set, seen.dtype == "f8", type(seen) is Own


@pytest.mark.parametrize("what", [_advanced, _cast, _of_objects, _in_lists, _required, _own_dtypes])
def test_classes_of_users_are_kept_and_left_where_numpy_does(what):
    assert what(oxinp) == what(numpy)


def test_a_ufunc_tells_array_wrap_its_context(twin):
    def body(np):
        class Wrapping(np.ndarray):
            context = None

            def __array_wrap__(self, array, context=None, return_scalar=False):
                Wrapping.context = context[0] == numpy.add, len(context[1]), context[1][-1] is self, context[2]
                return array

        a = np.ones(2).view(Wrapping)
        found = []
        for call in (
            lambda: np.add(1, a),
            lambda: np.add(1, a, out=None),
            lambda: np.add(0, 0, a),
            lambda: np.add(0, 0, out=(a,)),
        ):
            call()
            found.append(Wrapping.context)
        return found

    twin(body)


def test_a_hook_that_is_no_function(twin):
    def body(np):
        class Hooked(np.ndarray):
            @property
            def __array_finalize__(self):
                raise RuntimeError

        np.arange(3).view(Hooked)

    twin(body)


def test_a_priority_that_raises(twin):
    def body(np):
        class Bad:
            @property
            def __array_priority__(self):
                raise RuntimeError

            def __radd__(self, other):
                return "added"

        class Low(np.ndarray):
            __array_priority__ = -1000

        return (np.arange(3).view(Low) + Bad()).tolist()

    twin(body)


def test_results_of_several_arguments_get_their_classes(twin):
    def body(np):
        class Kind(np.ndarray):
            pass

        class Other(np.ndarray):
            __array_priority__ = 5

        a, b, c = np.arange(4).view(Kind), np.arange(3).reshape(-1, 1), np.arange(4.0).view(Other)
        results = [
            *np.broadcast_arrays(a, b, c, subok=True),
            *np.broadcast_arrays(a, b),
            *np.atleast_1d(b, a),
            *np.atleast_3d(b, a, c),
            *np.meshgrid(a, b, c),
            *np.meshgrid(b, a, sparse=True, copy=False),
            *np.ix_(b.ravel(), a),
        ]
        return [(type(x).__name__, x.shape, x.tolist()) for x in results]

    twin(body)
