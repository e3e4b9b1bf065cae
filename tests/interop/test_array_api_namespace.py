"""What `__array_namespace__` returns is the array API standard's namespace: names, arguments, dtypes, 0-d results."""

import inspect

import numpy as np
import pytest

import oxinp
from oxinp import array_api
from tests.interop.array_api_standard import TABLE, rows_of_strict

ROWS = TABLE.read_text("utf-8").splitlines()


def _find(module, path):
    for name in path.split("."):
        module = getattr(module, name)
    return module


def test_the_table_is_the_standards():
    pytest.importorskip("array_api_strict")
    assert rows_of_strict() == ROWS


def test_the_version():
    assert f"__array_api_version__ = {array_api.__array_api_version__}" == ROWS[0]
    assert oxinp.__array_api_version__ == np.__array_api_version__
    assert oxinp.ones(2).__array_namespace__(api_version=array_api.__array_api_version__) is array_api


@pytest.mark.parametrize("row", ROWS[1:])
def test_every_name_takes_what_the_standard_gives_it(row):
    path, *parameters = row.replace("(", "").replace(")", "").split()
    value = _find(array_api, path)
    assert path.rpartition(".")[2] in dir(_find(array_api, path.rpartition(".")[0]) if "." in path else array_api)
    if not parameters or not inspect.isroutine(value):
        return
    signature = inspect.signature(value)
    names = [name.lstrip("/*.") for name in parameters]
    by_position = [name for name, given in zip(names, parameters, strict=True) if not given.startswith("*")]
    by_name = [name for name, given in zip(names, parameters, strict=True) if given.startswith("*")]
    signature.bind(*by_position, **dict.fromkeys(by_name))
    either = [name for name, given in zip(names, parameters, strict=True) if given[0] not in "/*."]
    assert set(either) <= set(signature.parameters)


# Every function of the standard at least once, as it is called with nothing but the standard's own arguments.
CALLS = """
abs(-x) acos(h) acosh(x+1.) add(x,1) add(x,x) asin(h) asinh(x) atan(x) atan2(x,h) atanh(h) ceil(x/2.) conj(c)
copysign(x,-h) cos(x) cosh(x) divide(x,h) exp(h) expm1(h) floor(x/2) floor_divide(x,2.) hypot(x,h) imag(c) isfinite(x)
isinf(x) isnan(x) log(x+1) log10(x+1) log1p(x) log2(x+1) logaddexp(x,h) maximum(x,h) minimum(x,h) multiply(x,h)
negative(x) nextafter(x,h) positive(x) pow(x,h) real(c) reciprocal(x+1) remainder(x,h) round(x/3) sign(c) sign(-x)
signbit(-x) sin(x) sinh(h) sqrt(x) square(x) subtract(x,h) tan(x) tanh(x) trunc(x/2) ceil(i) floor(i) trunc(i)
round(i) equal(x,h) greater(x,h) greater_equal(x,h) less(x,h) less_equal(x,h) not_equal(x,h) logical_and(b,b)
logical_not(b) logical_or(b,~b) logical_xor(b,b) bitwise_and(i,3) bitwise_invert(i) bitwise_left_shift(i,1)
bitwise_or(i,i) bitwise_right_shift(i,1) bitwise_xor(i,i) clip(x,1.,2.) clip(i,1,3) clip(f,None,1.5) clip(x,h,None)
clip(i,-1000,None) argsort(x,descending=True) argsort(i,axis=0,descending=True,stable=True) argsort(t,descending=True)
argsort(t) sort(x,descending=True) sort(i,axis=0) sort(t,descending=True,stable=False) searchsorted(v,x)
searchsorted(v,x,side="right") argmax(x) argmax(x,axis=1) argmin(x,axis=0,keepdims=True) count_nonzero(x)
count_nonzero(x,axis=0) nonzero(x) where(b,x,h) where(b,x,0.) unique_all(t) unique_counts(t) unique_inverse(t)
unique_values(t) isin(i,t) isin(i,3) all(b) all(b,axis=0) any(b) any(b,axis=1,keepdims=True) max(x) max(x,axis=0)
mean(x) mean(f,axis=1) min(x) prod(h) prod(f,dtype=xp.float64) std(x) std(x,axis=0,correction=1.) sum(x) sum(f)
sum(i,axis=1) sum(x,axis=(0,1),keepdims=True) var(x) var(x,correction=1) cumulative_sum(v) cumulative_sum(x,axis=1)
cumulative_sum(v,include_initial=True) cumulative_prod(v) diff(v) diff(x,axis=0) diff(v,n=2)
diff(v,prepend=xp.zeros(1)) arange(3) arange(1.,3.,.5) asarray([1,2]) asarray(2.5) asarray(x,copy=True) asarray(True)
empty_like(x)*0 empty((0,2)) eye(3) eye(2,3,k=1) full((2,),3.) full((),3) full_like(x,2.) linspace(0.,1.,5)
linspace(0.,1.,4,endpoint=False) meshgrid(v,v+1) meshgrid(v,v+1,indexing="ij") ones((2,3)) ones(()) ones_like(i)
tril(x) tril(x,k=-1) triu(x) zeros((2,)) zeros((),dtype=xp.int8) zeros_like(c) astype(x,xp.float32) astype(b,xp.int8)
broadcast_arrays(x,x[0,:]) broadcast_to(v,(2,5)) concat([x,x]) concat([x,x],axis=None) expand_dims(x,axis=1)
expand_dims(x,axis=(0,2)) flip(x) flip(x,axis=1) moveaxis(x,0,1) permute_dims(x,(1,0)) repeat(v,2) repeat(x,2,axis=1)
reshape(x,(12,)) reshape(x,(12,),copy=True) roll(x,1) roll(x,(1,1),axis=(0,1)) squeeze(x[:1,:],0) stack([x,x])
stack([x,x],axis=1) tile(v,(2,)) unstack(x) unstack(x,axis=1) take(v,xp.asarray([1,0])) take(x,xp.asarray([1]),axis=1)
take_along_axis(x,xp.argsort(x,axis=1),axis=1) matmul(x,xp.matrix_transpose(x)) matmul(v,v) matrix_transpose(x)
tensordot(x,xp.matrix_transpose(x),axes=1) vecdot(x,x) vecdot(c,c,axis=-2) add(xp.sum(x),1) multiply(xp.sum(x),x)
sum(x)/2 sum(x)-xp.max(h) max(x)**2. sum(x)>3 sum(x)*x mean(x)[()] mean(x)[...] abs(xp.min(-x))
asarray(3)+xp.asarray(4) asarray(3)//2 zeros(()) linalg.cholesky(s) linalg.cholesky(s,upper=True)
linalg.cross(x[:,:3],h[:,:3]) linalg.det(s) linalg.diagonal(x) linalg.diagonal(x,offset=1) linalg.eigvalsh(s)
linalg.eigh(s).eigenvalues linalg.inv(s) linalg.matmul(s,s) linalg.matrix_norm(x) linalg.matrix_norm(x,ord=1)
linalg.matrix_norm(x,ord="nuc") linalg.matrix_power(s,2) linalg.matrix_rank(x) linalg.matrix_transpose(x)
linalg.outer(v,v) linalg.pinv(s) linalg.qr(s).R*0 linalg.slogdet(s) linalg.solve(s,s[:,0]) linalg.svdvals(x)
linalg.svd(x).S linalg.svd(x,full_matrices=False).S linalg.tensordot(x,xp.matrix_transpose(x),axes=1) linalg.trace(x)
linalg.trace(i,offset=1) linalg.vecdot(x,x) linalg.vector_norm(x) linalg.vector_norm(x,axis=0,keepdims=True)
linalg.vector_norm(x,ord=1) fft.fft(c) fft.fft(c,n=8,norm="ortho") fft.ifft(c) fft.fftn(c) fft.ifftn(c) fft.rfft(v)
fft.irfft(c) fft.rfftn(x) fft.irfftn(c) fft.hfft(c) fft.ihfft(v) fft.fftfreq(5) fft.rfftfreq(5,d=.5) fft.fftshift(v)
fft.ifftshift(x,axes=(0,)) fft.fftfreq(4,dtype=xp.float32)
""".split()  # noqa: SIM905 - readable as it is
SCALARS = """
can_cast(xp.int8,xp.int16) can_cast(x,xp.float32) isdtype(xp.int8,"integral") isdtype(xp.float32,("bool",xp.float32))
finfo(xp.float32).bits finfo(xp.float32).eps finfo(x).max finfo(c).smallest_normal iinfo(xp.int8).max iinfo(i).bits
broadcast_shapes((2,1),(3,)) e pi inf newaxis
""".split()  # noqa: SIM905


def _operands(xp):
    values = np.arange(12.0).reshape(3, 4)
    return {
        "xp": xp,
        "x": xp.asarray(values.tolist()),
        "h": xp.asarray((np.cos(values) / 2 + 0.01).tolist()),
        "f": xp.asarray((values / 7).tolist(), dtype=xp.float32),
        "c": xp.asarray((values + 1j * np.sin(values)).tolist()),
        "i": xp.asarray((values * 5 % 7).astype(int).tolist()),
        "b": xp.asarray((values % 3 == 0).tolist()),
        "s": xp.asarray((np.eye(3) * 4 + np.ones((3, 3))).tolist()),
        "t": xp.asarray([3, 1, 3, 2, 1]),
        "v": xp.asarray([0.5, 1.0, 2.0, 4.0, 8.0]),
    }


def _parts(value):
    return value if isinstance(value, tuple) else (value,)


def _evaluate(call, xp):
    return eval(f"xp.{call}", _operands(xp))  # noqa: S307 - our own code


@pytest.mark.parametrize("call", CALLS)
def test_calls(call):
    strict = pytest.importorskip("array_api_strict")
    ours, expected = _evaluate(call, array_api), _evaluate(call, strict)
    assert len(_parts(ours)) == len(_parts(expected))
    for mine, theirs in zip(_parts(ours), _parts(expected), strict=True):
        assert isinstance(mine, oxinp.ndarray)
        assert isinstance(mine, array_api.ZeroDimensionalArray) == (mine.ndim == 0)
        assert mine.dtype == getattr(np, str(theirs.dtype).rpartition(".")[2])
        assert mine.shape == theirs.shape
        assert np.allclose(np.asarray(mine), np.asarray(theirs), rtol=1e-5, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("call", SCALARS)
def test_what_is_no_array(call):
    strict = pytest.importorskip("array_api_strict")
    ours, expected = _evaluate(call, array_api), _evaluate(call, strict)
    assert type(ours) is type(expected)
    assert ours == expected


@pytest.mark.usefixtures("on_device")
def test_results_without_dimensions_stay_pending_on_the_device(stats):
    x = array_api.ones((40, 50))
    launches = stats().launches
    total = array_api.sum(x * 2) / 4 + 1
    assert stats().launches - launches <= 1
    assert type(x - total) is oxinp.ndarray
    assert float(total) == 1001


@pytest.mark.usefixtures("on_device")
def test_scalars_of_arrays_on_the_device_are_ours():
    x = oxinp.ones(4)
    assert x[0].__array_namespace__() is array_api
    assert x.sum().__array_namespace__() is array_api


def test_what_the_namespace_says_of_itself():
    info = array_api.__array_namespace_info__()
    assert info.devices() == ("cpu",)
    assert info.default_device() == "cpu"
    assert set(info.dtypes()) == set(np.__array_namespace_info__().dtypes())


def test_special_functions_are_where_scipy_looks():
    scipy_special = pytest.importorskip("scipy.special")
    x = array_api.asarray([0.5, 1.5])
    assert np.allclose(np.asarray(array_api.special.gammaln(x)), scipy_special.gammaln([0.5, 1.5]))


def test_operators_of_results_without_dimensions():
    x = array_api.asarray([1.0, 2.0, 4.0])
    total = array_api.sum(x)
    for made in (-total, total + 1, 1 / total, total**2, total > 1, ~array_api.all(x > 0), total[()], total.copy()):
        assert type(made) is array_api.ZeroDimensionalArray
    assert type(total + x) is type(x * total) is type(total[None]) is oxinp.ndarray
    x -= total
    assert x.tolist() == [-6, -5, -3]
    assert type(x) is oxinp.ndarray
    total[...] = 5
    assert total == 5
    assert [array_api.isin(x, -6, invert=True).tolist()] == [[False, True, True]]


def test_arrays_from_dlpack():
    x = array_api.from_dlpack(np.arange(3.0))
    assert type(x) is oxinp.ndarray
    assert np.from_dlpack(oxinp.arange(3.0)).tolist() == [0, 1, 2]


def test_other_names_are_oxinps():
    assert array_api.nanmax(oxinp.asarray([1.0, np.nan])) == 1
    with pytest.raises(AttributeError, match="no_such_name"):
        array_api.no_such_name  # noqa: B018
