"""Functions of submodules through the fallback: our arrays go in, our arrays come out, and what is written is seen."""

import inspect

import numpy as np
import pytest
import scipy

import oxinp
from oxinp._api import modules
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("offload_threshold")
RANDOM = np.random.default_rng(3)
MATRIX = RANDOM.normal(size=(5, 5)) + 5 * np.eye(5)
VECTOR = RANDOM.normal(size=16)


def is_ours(value):
    return type(value) is oxinp.ndarray


# Functions of SciPy's, one at least of each submodule, on `a` (a matrix), `v` (a vector) and `w` (positive).
CALLS = """
cluster.hierarchy.linkage(a)
cluster.vq.whiten(a)
constants.convert_temperature(v, "C", "K")
fftpack.fft(v)
integrate.cumulative_trapezoid(v)
integrate.simpson(v, dx=0.5)
interpolate.pchip_interpolate(x, v, x[1:3])
linalg.qr_delete(a, s, 0)
linalg.cossin(s, 2, 2)
linalg.fiedler_companion(v)
linalg.qr_update(a, s, v[:5], v[5:10])
linalg.blas.dgemv(1.0, a, v)
linalg.lapack.dgebal(a)
ndimage.gaussian_filter(a, 1.0)
ndimage.label(a > 0)
signal.lfilter([1.0, 0.5], [1.0], v)
signal.find_peaks(v, height=0)
signal.windows.hann(8)
spatial.distance.cdist(a, a)
spatial.procrustes(a, a + 1)
special.gammaln(w)
special.erf(v)
special.comb(w, 2)
stats.zscore(v)
stats.mode(a, axis=0)
stats.ttest_ind(a, a + 1)
stats.linregress(v, w)
stats.describe(a)
stats.rankdata(v)
stats.qmc.scale(w.reshape(8, 2) / 20, [0, 0], [1, 2])
optimize.minimize(lambda t: ((t - 1) ** 2).sum(), v[:2])
optimize.linear_sum_assignment(a)
sparse.csgraph.floyd_warshall(abs(a))
sparse.linalg.spsolve(sparse.csr_array(a), v[:5])
""".strip().splitlines()


PLACED = {"sparse.linalg.spsolve"}
"""What has a way on the device, where large systems are solved: that small ones are not is no fallback."""


def plain(value):
    """Return a result with tuples for SciPy's own tuples and dicts for its own dicts; drop what is no result."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items() if not hasattr(part, "matvec")}
    if isinstance(value, tuple):
        return tuple(plain(part) for part in value)
    return value


@pytest.mark.parametrize("code", CALLS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_scipys_functions(code, stats):
    results = []
    for xp, package in ((oxinp, oxinp.scipy), (np, scipy)):
        names = {name: getattr(package, name) for name in package.__all__ if name in code}
        arrays = {"a": MATRIX, "s": MATRIX @ MATRIX.T, "v": VECTOR, "w": abs(VECTOR), "x": np.arange(16.0)}
        arrays = {name: xp.array(array) for name, array in arrays.items()}
        results.append(eval(code, {**names, **arrays}))  # noqa: S307 - our own code
    ours, theirs = results
    assert type(ours) is type(theirs) or is_ours(ours)
    assert_same(plain(ours), plain(theirs))
    name = code.partition("(")[0]
    assert stats().fallbacks.get(f"scipy.{name}", 0) == (name not in PLACED or oxinp.config.offload_threshold == 0)


def test_results_of_scipys_classes_keep_their_class():
    given = oxinp.scipy.stats.ttest_ind(oxinp.array(MATRIX), oxinp.array(MATRIX[::-1] + 1))
    expected = scipy.stats.ttest_ind(MATRIX, MATRIX[::-1] + 1)
    assert type(given) is type(expected)
    assert all(map(is_ours, (given.statistic, given.pvalue, given.df)))
    assert_same(given.df, expected.df)
    assert_same(given.confidence_interval().low, expected.confidence_interval().low)
    found = oxinp.scipy.optimize.root(lambda t: t**2 - 2, oxinp.array([1.0, 2.0]))
    assert type(found) is scipy.optimize.OptimizeResult
    assert is_ours(found.x)
    assert is_ours(found["x"])


def test_what_is_written_is_seen():
    a = oxinp.array(MATRIX)
    out = oxinp.zeros((5, 5))
    assert oxinp.scipy.ndimage.gaussian_filter(a, 1, output=out) is out
    assert_same(out + 0, scipy.ndimage.gaussian_filter(MATRIX, 1))
    oxinp.scipy.ndimage.gaussian_filter(out, 1, 0, out[:])
    assert_same(out + 0, scipy.ndimage.gaussian_filter(scipy.ndimage.gaussian_filter(MATRIX, 1), 1))
    assert oxinp.scipy.special.erf(a, a) is a
    assert_same(a + 0, scipy.special.erf(MATRIX))
    distances = oxinp.zeros((5, 5))
    oxinp.scipy.spatial.distance.cdist(a, a, out=distances)
    assert_same(distances * 1, scipy.spatial.distance.cdist(np.asarray(a), np.asarray(a)))


OVERWRITING = """
linalg.solve_banded((1, 1), a[:3], b, overwrite_ab=True, overwrite_b=True)
linalg.blas.dscal(3.0, b)
linalg.qr_insert(a, a.copy(), b, 1, overwrite_qru=True)
signal.detrend(b, overwrite_data=True)
fftpack.fft(b, overwrite_x=True)
""".strip().splitlines()


@pytest.mark.parametrize("code", OVERWRITING)
def test_overwritten_arguments_are_the_same_on_both_sides(code):
    """What SciPy leaves in an argument that it may overwrite, the device sees too."""
    a, b = oxinp.asfortranarray(oxinp.array(MATRIX)) + 0, oxinp.array(VECTOR[:5]) + 0
    names = {name: getattr(oxinp.scipy, name) for name in ("fft", "fftpack", "linalg", "signal")}
    result = eval(code, {**names, "a": a, "b": b})  # noqa: S307 - our own code
    names = {name: getattr(scipy, name) for name in names}
    host = {"a": np.asfortranarray(MATRIX), "b": VECTOR[:5].copy()}
    assert_same(result, eval(code, {**names, **host}))  # noqa: S307
    for array in (a, b):
        assert_same(array + 0, np.asarray(array) + 0)


def test_functions_of_blas_write_whatever_their_signature_is_said_to_be(monkeypatch):
    monkeypatch.setattr(inspect, "signature", lambda _: inspect.Signature())
    assert modules._written(scipy.linalg.blas.dscal) == ("*",)


def test_a_function_that_is_called_back_may_write():
    seen = []

    def filtered(values):
        seen.append(type(values))
        values[:] = 0
        return values.sum()

    a = oxinp.array(MATRIX) + 0
    assert_same(oxinp.scipy.ndimage.generic_filter(a, filtered, 1), np.zeros((5, 5)))
    assert set(seen) == {np.ndarray}
    b = oxinp.arange(3.0) + 0

    def differ(_, given):
        given[:] = 7
        return given

    oxinp.scipy.integrate.solve_ivp(differ, (0, 1), b)
    assert_same(b + 0, np.asarray(b))


def test_what_is_kept_sees_later_writes():
    a = oxinp.array(MATRIX) + 0
    linear = oxinp.sparse.linalg.aslinearoperator(a)
    a[...] = 1
    assert_same(linear.matvec(np.ones(5)), np.full(5, 5.0))


def test_classes_take_our_arrays():
    x = oxinp.arange(16.0)
    spline = oxinp.scipy.interpolate.CubicSpline(x, oxinp.array(VECTOR))
    assert_same(spline(x[1:4]), scipy.interpolate.CubicSpline(np.arange(16.0), VECTOR)(np.arange(1.0, 4)))
    assert_same(oxinp.scipy.stats.norm.cdf(x), scipy.stats.norm.cdf(np.arange(16.0)))
    tree = oxinp.scipy.spatial.KDTree(oxinp.array(MATRIX))
    assert_same(tree.query(oxinp.array(MATRIX[2]))[1], scipy.spatial.KDTree(MATRIX).query(MATRIX[2])[1])


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (oxinp.poly, "numpy.poly"),
        (oxinp.scipy.fftpack.dct, "scipy.fftpack.dct"),
        (oxinp.random.permutation, "numpy.random.permutation"),
        (oxinp.scipy.linalg.fiedler_companion, "scipy.linalg.fiedler_companion"),
        (oxinp.scipy.special.erf, "scipy.special.erf"),
        (scipy.special.erf, "scipy.special.erf"),
        (lambda x: oxinp.sparse.linalg.spilu(oxinp.sparse.csc_array(x)), "scipy.sparse.linalg.spilu"),
    ],
)
def test_error_names_the_function(call, name, config):
    x = oxinp.ones((3, 3))
    config.fallback = "error"
    with pytest.raises(oxinp.FallbackError, match=f"^{name} has no kernel here"):
        call(x)


@pytest.mark.parametrize("name", ["next_fast_len", "get_workers"])
def test_what_touches_no_array_is_no_fallback(name, config):
    config.fallback = "error"
    arguments = (17,) if name == "next_fast_len" else ()
    assert getattr(oxinp.scipy.fft, name)(*arguments) == getattr(scipy.fft, name)(*arguments)
    assert oxinp.sparse.issparse(oxinp.ones(3)) is False


@pytest.mark.parametrize(
    "body",
    [
        lambda package, a: package.linalg.cholesky(-a @ a.T),
        lambda package, a: package.linalg.solve(a, a[:3]),
        lambda package, a: package.linalg.inv(a[:3]),
        lambda package, a: package.fft.fft(a, n=-1),
        lambda package, a: package.ndimage.gaussian_filter(a, 1, mode="nonsense"),
        lambda package, a: package.special.erf(a, a, a),
        lambda package, a: package.signal.lfilter([1.0], [0.0], a),
    ],
)
def test_scipys_exceptions(body):
    errors = []
    for xp, package in ((oxinp, oxinp.scipy), (np, scipy)):
        with pytest.raises(Exception) as caught:
            body(package, xp.array(MATRIX))
        errors.append((caught.type, str(caught.value)))
    assert errors[0] == errors[1]


class Tagged(oxinp.ndarray):
    """A user's class."""


def test_users_classes_are_counted_and_named_alike(stats):
    tagged = oxinp.array(MATRIX).view(Tagged)
    balanced = oxinp.scipy.linalg.lapack.dgebal(tagged)[0]
    oxinp.scipy.linalg.fiedler_companion(tagged[0])
    assert stats().fallbacks == {"scipy.linalg.lapack.dgebal": 1, "scipy.linalg.fiedler_companion": 1}
    assert_same(balanced, scipy.linalg.lapack.dgebal(MATRIX)[0])
