"""Functions that are made of device operations: NumPy's values and errors, and nothing computed by NumPy."""

# ruff: noqa: ICN001 - oxinp is np

import numpy
import pytest
from numpy.testing import assert_allclose

import oxinp as np
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("on_device")

RNG = numpy.random.default_rng(0)
X, V, W = RNG.random((6, 7)), RNG.random(40), RNG.random(9)
J, N = RNG.integers(0, 6, (3, 7)), RNG.integers(0, 9, 50)
S, BYTES = numpy.sort(V), N.reshape(10, 5).astype("u1")


def written(array, write):
    """Return an array that a function has written to."""
    made = array * 1
    write(made)
    return made


# (xp, A) -> result; A makes an array of the library of one of NumPy's.
MANY = numpy.arange(120) % 11 - 5
EXACT = {
    "take_along_axis": lambda xp, A: xp.take_along_axis(A(X), A(J), 0),
    "put_along_axis": lambda xp, A: written(A(X), lambda y: xp.put_along_axis(y, A(J), 7.0, 0)),
    "argwhere": lambda xp, A: xp.argwhere(A(X) > 0.5),
    "an array of arrays": lambda xp, A: (xp.array([A(X), A(X) * 2]), xp.asarray([A(V), A(V)]), xp.array((A(V),), "f4")),
    "an array of arrays in Fortran order": lambda xp, A: xp.array([A(X), A(X)], order="F", ndmin=4),
    "columns by c_": lambda xp, A: (xp.c_[A(V), A(V)], xp.c_[A(X), A(X)]),
    "rows by r_": lambda xp, A: (xp.r_[A(V), 0, 5:1:-1, A(W)], xp.r_[A(X), A(X)]),
    "delete": lambda xp, A: xp.delete(A(X), A(numpy.array([1, 3])), 0),
    "repeat by counts": lambda xp, A: (xp.repeat(A(V), A(N[:40])), xp.repeat(A(X), A(N[:7] > 3), 1)),
    "repeat": lambda xp, A: (xp.repeat(A(V), 3), xp.repeat(A(X), 2), xp.repeat(A(X).T, 2, 0), xp.repeat(A(X), 1, -1)),
    "tile": lambda xp, A: tuple(
        xp.tile(A(x), reps)
        for x in (V, X, J[None, :, ::2], X.T, X[:0])
        for reps in (3, (2, 1), (1, 2, 3, 1, 2), [2, 2], 1, (0, 2), numpy.array([2, 3]), ())
    ),
    "reduceat by an array": lambda xp, A: xp.maximum.reduceat(A(V), A(numpy.array([3, 1, 9])) * 1),
    "delete a slice": lambda xp, A: xp.delete(A(X), slice(1, 5, 2), 1),
    "insert": lambda xp, A: xp.insert(A(X), A(numpy.array([1, 3])), 5.0, 0),
    "insert a column": lambda xp, A: xp.insert(A(X), 1, A(W[:6]), 1),
    "piecewise": lambda xp, A: xp.piecewise(A(X), [A(X) < 0.3, A(X) > 0.6], [lambda q: q * 2, -1.0, lambda q: q - 5]),
    "polyadd": lambda xp, A: xp.polyadd(A(V), A(W)),
    "polymul": lambda xp, A: (xp.polymul(A(MANY[5:] + 0), A(N[:9] * 3)), xp.polymul(A(N[:3] * 0), A(N))),
    "polyder": lambda xp, A: xp.polyder(A(V)),
    **{
        f"unique along an axis, {i}": lambda xp, A, x=x, axis=axis: xp.unique(A(x), True, True, True, axis=axis)
        for i, (x, axis) in enumerate(
            [(J.T % 2, 0), (J % 2, 1), (N.reshape(5, 5, 2) % 2, 1), (X[[0, 1, 0]], -2), (N > 3, 0), (-0.0 * X[:2], 0)]
        )
    },
    "apply_along_axis": lambda xp, A: (
        xp.apply_along_axis(xp.sort, 0, A(X)),
        xp.apply_along_axis(numpy.max, -1, A(X)),
        xp.apply_along_axis(xp.cumsum, 1, A(J)),
        xp.apply_along_axis(xp.diff, 0, A(J)),
        xp.apply_along_axis(xp.argmin, 1, A(X)),
    ),
    "intersect1d, where": lambda xp, A: xp.intersect1d(A(N), A(N[:5] + 3), return_indices=True),
    "intersect1d of distinct elements, where": lambda xp, A: xp.intersect1d(
        A(MANY[:11]), A(MANY[3:9]), assume_unique=True, return_indices=True
    ),
    "isin by a sort": lambda xp, A: xp.isin(A(N), A(N[:5]), kind="sort"),
    "lexsort along axes": lambda xp, A: tuple(xp.lexsort((A(J % 2), A(J % 3)), axis) for axis in (0, 1, -2)),
    "lexsort of one array": lambda xp, A: xp.lexsort(A(N.reshape(2, 5, 5))),
    "interp, periodic": lambda xp, A: tuple(
        xp.interp(A(X * 9), A(V), A(W[:1] + V), left=3.0, period=period) for period in (2, -0.75)
    ),
    "reduceat of truth": lambda xp, A: tuple(
        getattr(xp, name).reduceat(A(x), [0, 4, 1, 20], axis)
        for name in ("logical_or", "logical_and")
        for x, axis in ((N > 3, 0), (numpy.outer(N % 3, N[:5] % 2), 0))
    ),
    "reduceat of bits": lambda xp, A: tuple(
        xp.bitwise_and.reduceat(A(x), [0, 4, 1, 20]) for x in (N, N.astype("u1"), N.astype("u8"))
    ),
    "unique rows alone": lambda xp, A: xp.unique(A(J.T % 3), axis=0),
    "setxor1d": lambda xp, A: xp.setxor1d(A(N), A(N[:5] + 3)),
    "trim_zeros": lambda xp, A: xp.trim_zeros(A(numpy.array([0, 0, 1, 2, 0, 3, 0]))),
    "tril_indices": lambda xp, _: xp.tril_indices(5, 1),
    "diag_indices_from": lambda xp, A: xp.diag_indices_from(A(X[:6, :6])),
    "mask_indices": lambda xp, _: xp.mask_indices(5, xp.triu),
    "ix_": lambda xp, A: xp.ix_(A(N[:3]), A(N[:4] > 3)),
    "apply_over_axes": lambda xp, A: xp.apply_over_axes(xp.sum, A(N.reshape(5, 10)), (0, 1)),
    "put": lambda xp, A: written(A(X), lambda y: xp.put(y, A(J), A(W))),
    "put wrapped": lambda xp, A: written(A(X), lambda y: xp.put(y.T, A(J) + 90, 3.0, mode="wrap")),
    "put clipped": lambda _, A: written(A(X), lambda y: y.put(A(J) - 90, A(W), mode="clip")),
    "putmask": lambda xp, A: written(A(X), lambda y: xp.putmask(y, y > 0.5, A(W))),
    "putmask a number": lambda xp, A: written(A(X), lambda y: xp.putmask(y, y > 0.5, 0.0)),
    "place": lambda xp, A: written(A(X), lambda y: xp.place(y, y > 0.5, A(W))),
    "fill_diagonal": lambda xp, A: written(A(X), lambda y: xp.fill_diagonal(y[:, :2], A(W[:4]))),
    "fill_diagonal wrapped": lambda xp, A: written(
        A(V.reshape(10, 4)), lambda y: xp.fill_diagonal(y, A(W[:2]), wrap=True)
    ),
    "choose": lambda xp, A: xp.choose(A(J) % 3, [A(X[:3]), A(X[3:]), 7.0]),
    "choose wrapped": lambda _, A: (A(J) + 40).choose([A(X[:3]), A(N[:7])], mode="wrap"),
    "compress": lambda _, A: A(X).compress(A(X[0] > 0.5), 1),
    "ravel_multi_index": lambda xp, A: xp.ravel_multi_index((A(J), A(J[::-1])), (6, 7)),
    "ravel_multi_index, other modes": lambda xp, A: xp.ravel_multi_index(
        (A(J) + 5, A(J[::-1])), (6, 7), mode=("wrap", "clip"), order="F"
    ),
    "unravel_index": lambda xp, A: xp.unravel_index(A(J * 5), (3, 4, 5)),
    "unravel_index, F": lambda xp, A: xp.unravel_index(A(J * 5), (3, 4, 5), order="F"),
    "interp": lambda xp, A: xp.interp(A(X * 2 - 0.4), A(S), A(V)),
    "interp, ends": lambda xp, A: xp.interp(A(numpy.r_[S[::3], -1, 2, numpy.nan]), A(S), A(V), left=-1, right=9.0),
    **{
        f"{name}, {mode}, {i}": lambda xp, A, name=name, mode=mode, pair=pair: getattr(xp, name)(*map(A, pair), mode)
        for name in ("convolve", "correlate")
        for mode in ("full", "same", "valid")
        for i, pair in enumerate([(N, N[:6]), (N[:8], N[:8]), (N * (1 + 2j), N[:5] * (2 - 1j)), (MANY, MANY[::-3])])
    },
    "convolve, the longer one last": lambda xp, A: xp.convolve(A(N[:7]), A(N)),
    "correlate, the longer one last": lambda xp, A: xp.correlate(A(N[:5]), A(N), "full"),
    "packbits": lambda xp, A: xp.packbits(A(N)),
    "packbits, little": lambda xp, A: xp.packbits(A(BYTES), axis=0, bitorder="little"),
    "unpackbits": lambda xp, A: xp.unpackbits(A(BYTES)),
    "unpackbits, little": lambda xp, A: xp.unpackbits(A(BYTES), axis=0, count=13, bitorder="little"),
    "unpackbits, fewer": lambda xp, A: xp.unpackbits(A(BYTES), axis=1, count=-3),
    "unpackbits, more": lambda xp, A: xp.unpackbits(A(BYTES), axis=1, count=50),
}
NEAR = {
    "i0": lambda xp, A: xp.i0(A(X * 20)),
    "kaiser": lambda xp, _: xp.kaiser(30, 14.0),
    "hamming": lambda xp, _: xp.hamming(30),
    "bartlett": lambda xp, _: xp.bartlett(30),
    "geomspace": lambda xp, _: xp.geomspace(1, 1000, 30),
    "vander": lambda xp, A: xp.vander(A(W), 4),
    "polyint": lambda xp, A: xp.polyint(A(V)),
    **{
        f"{module}.{prefix}{work}": lambda xp, A, module=module, name=prefix + work, given=given: getattr(
            getattr(xp.polynomial, module), name
        )(*[A(x) if isinstance(x, numpy.ndarray) else x for x in given])
        for module, prefix in (
            ("polynomial", "poly"),
            ("chebyshev", "cheb"),
            ("hermite_e", "herme"),
            ("laguerre", "lag"),
        )
        for work, given in (
            ("val", (X, W[:5])),
            ("val2d", (V, V[::-1], X[:3, :3])),
            ("grid2d", (W, V, X[:3, :2])),
            ("vander", (V, 3)),
            ("mul", (W, W[:4])),
            ("der", (W,)),
            ("int", (W,)),
        )
    },
}
COUNTS = {
    "histogram_bin_edges": lambda xp, A: xp.histogram_bin_edges(A(V), 7),
    "histogram_bin_edges, estimated": lambda xp, A: xp.histogram_bin_edges(A(V), "fd"),
    "histogram, estimated": lambda xp, A: xp.histogram(A(V), "auto"),
    "histogram, given edges": lambda xp, A: xp.histogram(A(V), A(S[::7])),
    "histogram, given edges, density": lambda xp, A: xp.histogram(A(V), A(S[::7]), density=True),
    "histogram_bin_edges, stone": lambda xp, A: xp.histogram_bin_edges(A(V), "stone"),
    "histogram2d": lambda xp, A: xp.histogram2d(A(V), A(V[::-1]), 5)[0],
    "histogramdd": lambda xp, A: xp.histogramdd([A(V), A(V[::-1].astype("f4"))], 4)[0],
    "block": lambda xp, A: xp.block([[A(X), A(X)], [A(X), A(X * 2)]]),
}
FITS = {
    "polyfit": lambda xp, A: xp.polyfit(A(S), A(V), 3),
    "polyfit, weights": lambda xp, A: xp.polyfit(A(S), A(V), 2, w=A(V + 1)),
    **{
        f"{module}.{prefix}fit": lambda xp, A, module=module, name=f"{prefix}fit": getattr(
            getattr(xp.polynomial, module), name
        )(A(S), A(V), 3)
        for module, prefix in (("polynomial", "poly"), ("chebyshev", "cheb"), ("legendre", "leg"), ("hermite", "herm"))
    },
}
ULP = 4  # of functions that NumPy's libm and our kernels round, each in its way
REFUSED = {
    "choose": lambda xp, A: xp.choose(A(J) + 40, [A(X[:3]), A(N[:7])]),
    "ravel_multi_index": lambda xp, A: xp.ravel_multi_index((A(J), A(J[::-1])), (3, 7)),
    "unravel_index": lambda xp, A: xp.unravel_index(A(J * 50), (3, 4, 5)),
    "put": lambda xp, A: xp.put(A(X), A(J), A(W), mode="nonsense"),
    "putmask": lambda xp, A: xp.putmask(A(X), A(X[0]) > 0, 1),
    "convolve": lambda xp, A: xp.convolve(A(X), A(V)),
    "interp": lambda xp, A: xp.interp(A(X), A(S), A(V[1:])),
    "packbits": lambda xp, A: xp.packbits(A(X)),
    "unpackbits": lambda xp, A: xp.unpackbits(A(N)),
    "fill_diagonal": lambda xp, A: xp.fill_diagonal(A(V), 1),
    "piecewise": lambda xp, A: xp.piecewise(A(X), [A(X) > 0], [1, 2, 3]),
    "partition": lambda _, A: A(X).partition(50),
}


@pytest.mark.parametrize("name", EXACT | NEAR | COUNTS)
def test_function(name, stats):
    call, ulp = (NEAR[name], ULP) if name in NEAR else ((EXACT | COUNTS)[name], 0)
    found, expected = call(np, np.asarray), call(numpy, lambda x: x)
    computed = set(stats().fallbacks) - (
        {"subtract"} if name.endswith(("estimated", "stone")) else set()
    )  # of two numbers, since NumPy 2.5
    several = isinstance(expected, tuple)
    assert type(found) is tuple if several else isinstance(found, np.ndarray)
    for a, b in zip(found, expected, strict=True) if several else [(found, expected)]:
        assert_same(a, b, ulp=ulp)
    assert not computed


@pytest.mark.parametrize("name", FITS)
def test_fit(name, stats):
    found, expected = FITS[name](np, np.asarray), FITS[name](numpy, lambda x: x)
    assert not stats().fallbacks
    assert type(found) is np.ndarray
    assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("degree", [1, 2, 5])
def test_roots(degree):
    coefficients = W[: degree + 1] + 1
    wanted = numpy.sort_complex(numpy.roots(coefficients))
    assert_allclose(np.sort_complex(np.roots(np.asarray(coefficients))), wanted, rtol=1e-9)
    wanted = numpy.sort_complex(numpy.polynomial.polynomial.polyroots(coefficients))
    assert_allclose(np.sort_complex(np.polynomial.polynomial.polyroots(np.asarray(coefficients))), wanted, rtol=1e-9)


@pytest.mark.parametrize("name", REFUSED)
def test_what_numpy_refuses(name):
    with pytest.raises(Exception) as expected:
        REFUSED[name](numpy, lambda x: x.copy())
    with pytest.raises(expected.type) as raised:
        REFUSED[name](np, np.asarray)
    assert str(raised.value) == str(expected.value)


def test_results_that_numpy_gives_as_views_can_be_written():
    """NumPy computes what is made of scalars, and its histogram is a part of a larger array."""
    x = np.asarray(numpy.array(2, "i1"))
    counts = np.histogram2d((x > 0).ravel(), (x > 2).ravel(), 2)[0]
    counts[...] *= 2
    assert_same(counts, numpy.histogram2d([True], [False], 2)[0] * 2)


def test_several_indices_of_no_dimensions_are_refused():
    for xp in (np, numpy):
        with pytest.raises(ValueError, match="0d arrays"):
            xp.unravel_index(xp.asarray(numpy.arange(1)), ())


def test_repeats_along_several_axes_are_one_launch(stats):
    x = np.asarray(X)
    np.evaluate(x)
    before = stats().launches
    np.evaluate(np.tile(x, (3, 2)), np.tile(x, (2, 1, 4)))
    assert stats().launches - before == 2
