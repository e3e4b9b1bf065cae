"""The method table is NumPy's array, and every method of it is NumPy's."""

import copy
import pickle

import numpy as np
import pytest

import oxinp
from oxinp._core.array import methods
from tests.api.test_functions import assert_left_as
from tests.comparator import assert_same, is_array, outcome
from tests.tolerances import ulp_of

OBJECT = set(dir(object)) - {
    "__doc__",
    "__eq__",
    "__ge__",
    "__gt__",
    "__hash__",
    "__le__",
    "__lt__",
    "__ne__",
    "__new__",
}


def present(row):
    release = tuple(map(int, np.__version__.split(".")[:2]))
    since, until = (tuple(map(int, v.split("."))) if v else release for v in (row.since, row.until))
    return since <= release <= until


ROWS = {row.name: row for row in methods.ROWS if present(row)}


def test_rows_are_numpys_attributes():
    written_by_python = OBJECT - {"__reduce__", "__repr__", "__str__", "__format__", "__sizeof__"}
    assert set(ROWS) == set(dir(np.ndarray)) - written_by_python


def test_one_row_per_name():
    assert len(methods.ROWS) == len({row.name for row in methods.ROWS})


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
def test_the_class_has_what_the_rows_say(row):
    has = any(row.name in vars(kind) for kind in oxinp.ndarray.__mro__[:-1])
    assert has == (row.kind != methods.REFUSED or not row.name.startswith("_"))
    if row.kind == methods.REFUSED:
        assert not hasattr(oxinp.arange(3), row.name)


@pytest.mark.parametrize("name", sorted(name for name, row in ROWS.items() if row.kind == methods.HOST))
def test_methods_are_documented(name):
    assert getattr(oxinp.ndarray, name).__doc__ or getattr(np.ndarray, name).__doc__ is None


_EXPRESSIONS = """
x.all(1) x.any(0) x.argmax(1) x.argmin() x.argsort(0) x.argpartition(1) x.mean(1) x.min(0) x.prod() x.ptp() x.std(0)
x.var() x.cumprod(0) x.cumsum(1) x.cumsum(1,None,y) x.all(1,m) x.min(0,v) x.mean(1,None,y[:,0]) x.trace() x.diagonal()
x.diagonal(1) x.choose([x,y]) x.clip(1,2) x.clip(1,2,y) x.compress([1,0,1],0) x.conj() x.conjugate() x.dot(y.T)
x.nonzero() x.repeat(2,1) x.round(1) x.round(0,y) v.searchsorted(2) x.take([0,5]) x.take([1,0],1,y[:,:2]) x.tobytes()
x.byteswap() x.byteswap(True) x.byteswap(inplace=True) x.sort() x.sort(0) x.sort(axis=0) x.T.sort() x.partition(2)
x.put([1,3],[8,9]) x.setfield(3,float) x.getfield("i4",4) x.imag x.real x.flat[3] list(x.flat)[:3]
x.__setattr__("flat",5) x.flat.__setitem__(2,7) x.item(2) x**2 2**x x//2 5//y x%2 7%y divmod(x,2) divmod(9,y) x@y.T
x.__matmul__(v) k&3 k|8 k^5 6&k k<<1 k>>1 1<<k 64>>k ~k -x +x abs(x) x.__ipow__(2) x.__ifloordiv__(2) x.__imod__(2)
k.__iand__(3) k.__ior__(3) k.__ixor__(3) k.__ilshift__(1) k.__irshift__(1) x.__imatmul__(x[:,:3]@x.T@x/100) c.imag
c.real c.conj() c.__setattr__("imag",2) x.__setattr__("imag",2) x.resize(2,3) x.resize((5,)) x[1:].resize(2)
x.tolist() x.data.nbytes x.data.tolist() x.to_device("cpu")is(x) x.to_device("gpu") x.device x.__sizeof__()>90
x.__array_namespace__().__name__[-3:] np.from_dlpack(x) x.dumps()[:2] len(x) (3)in(x)
x.__delitem__(0) x.setflags(write=False) x.setflags(align=True) x.flags.writeable x.flags["C"] x.T.flags.f_contiguous
x.flags.num x[:,1:].flags.num x.T.flags.num repr(x.flags) x.flags.__setitem__("W",False) x.flags["Q"]
x.flags.__setattr__("owndata",True) x.flags.nonsense np.broadcast_to(v,(2,3)).flags.num x.ctypes.shape[:]
x.ctypes.strides[1] x.swapaxes(0,1) x.view("i8") x.itemset(0,1) x.newbyteorder() int(v) float(v[0])
x.__array_wrap__(h) x.__setstate__((1,(2,),np.dtype("f8"),False,bytes(16))) hash(x) bool(x) complex(v[:1])
x.tostring()
"""
CALLS = _EXPRESSIONS.split()


def arrays(xp):
    return {
        "x": xp.array([[0.5, 3.0, 1.0, 2.0], [2.5, 0.0, 3.5, 1.5], [1.0, 2.0, 0.25, 3.0]]),
        "y": xp.array([[1.0, 2.0, 4.0, 3.0], [2.0, 1.0, 3.0, 1.0], [1.0, 5.0, 2.0, 4.0]]),
        "v": xp.array([1.0, 2.0, 3.0, 4.0]),
        "k": xp.array([[1, 2, 3], [4, 5, 6]]),
        "m": xp.array([True, True, False]),
        "c": xp.array([1 + 2j, 3 - 1j]),
        "h": np.ones(3),
    }


def run(xp, code):
    names = {"np": xp, **arrays(xp)}
    if "choose" in code:
        names["x"] = xp.array([[0, 1], [1, 0]])
    if "__array_namespace__" in code or "__sizeof__" in code:
        return outcome(lambda _: type(eval(code, names)), xp), {}  # noqa: S307 - our own code
    with np.errstate(all="ignore"):
        given = outcome(lambda _: eval(code, names), xp)  # noqa: S307
    return given, {name: value for name, value in names.items() if is_array(value)}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("offload_threshold", [0, float("inf")], indirect=True)
@pytest.mark.usefixtures("offload_threshold")
@pytest.mark.parametrize("code", CALLS)
def test_is_numpys(code):
    ours, our_arrays = run(oxinp, code)
    numpys, numpy_arrays = run(np, code)
    if isinstance(ours, Exception) and not isinstance(numpys, Exception):
        raise ours
    assert_same(ours, numpys, ulp_of(code), where=code)
    assert_left_as(our_arrays, numpy_arrays, f"after {code}")


def test_every_host_method_is_called():
    called = " ".join(CALLS)
    special = {"__rpow__": "2**x", "__neg__": "-x"}
    for name, row in ROWS.items():
        if row.kind == methods.HOST and not name.startswith("__"):
            assert f".{name}" in called or name in ("dump", "tofile"), name
        elif row.kind == methods.HOST and name in special:
            assert special[name] in called


@pytest.mark.usefixtures("on_device")
def test_views_without_kernels_move_nothing(stats):
    x = oxinp.zeros((100, 100))
    before = stats().d2h_bytes
    x.diagonal(), x.getfield("i4", 4), x.device, x.setflags(write=False), np.flip(x), np.split(x, 4), np.shape(x)
    oxinp.lib.stride_tricks.sliding_window_view(x, (3, 3))
    oxinp.broadcast_arrays(x, x[0])
    assert stats().d2h_bytes == before
    assert x._storage.host is None


def test_resize_refuses_what_others_view():
    x = oxinp.arange(4.0)
    view = x[1:]
    for array in (x, view):
        with pytest.raises(ValueError, match="cannot resize"):
            array.resize(8)
    del view, array
    x.resize(6)
    assert_same(x, np.array([0.0, 1, 2, 3, 0, 0]))


def test_writeable_follows_the_base():
    x = oxinp.arange(4.0)
    x.flags.writeable = False
    view = x[1:]
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        view.flags.writeable = True
    x.flags.writeable = True
    view.flags.writeable = True
    view[0] = 9
    x += 1
    assert_same(x, np.array([1.0, 10, 3, 4]))


def test_dump_and_tofile(tmp_path):
    x = oxinp.arange(4.0)
    x.dump(tmp_path / "x.pickle")
    x.tofile(tmp_path / "x.raw")
    assert_same(np.load(tmp_path / "x.pickle", allow_pickle=True), np.arange(4.0))
    assert_same(np.fromfile(tmp_path / "x.raw"), np.arange(4.0))


@pytest.mark.usefixtures("offload_threshold")
def test_copies_of_all_sorts():
    x = oxinp.arange(6.0).reshape(2, 3)
    for twin in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.copy("F"), oxinp.array(x)):  # noqa: S301
        twin[0] = 0
        assert twin.flags.owndata
    assert_same(x, np.arange(6.0).reshape(2, 3))
    assert x.copy("F").flags.f_contiguous


class Foreign:
    """Takes part in ufuncs and operators itself."""

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return "theirs", ufunc.__name__, [type(x).__name__ for x in inputs]


class Declining:
    """Forbids ufuncs, so that Python asks it."""

    __array_ufunc__ = None

    def __radd__(self, other):
        return "theirs"

    __rpow__ = __radd__


@pytest.mark.parametrize("threshold", [0, float("inf")])
def test_other_classes_are_asked(config, threshold):
    config.offload_threshold = threshold
    x = oxinp.arange(3.0)
    assert x ** Foreign() == ("theirs", "power", ["ndarray", "Foreign"])
    assert np.exp2(x) is not NotImplemented
    assert np.add(x, Foreign()) == oxinp.add(x, Foreign()) == ("theirs", "add", ["ndarray", "Foreign"])
    assert oxinp.maximum(x, Foreign()) == ("theirs", "maximum", ["ndarray", "Foreign"])
    assert x + Declining() == x ** Declining() == "theirs"
    for refused in (
        lambda: np.add(x, Declining()),
        lambda: oxinp.add(x, Declining()),
        lambda: oxinp.hypot(x, Declining()),
    ):
        with pytest.raises(TypeError):
            refused()
