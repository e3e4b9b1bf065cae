"""One call, at least, of every function in NumPy's namespace: what the coverage table promises, tried.

An example is an expression in `np` (the namespace under test), the arrays of `arrays`, and `io`. Arrays are made anew
for each, so an example may write to them.
"""

import types

import numpy as np

# The floats are such that every elementwise function is defined for some of them, and not for all.
_ARRAYS = {
    "f": [[0.5, -1.25, 2.0, 3.5], [-0.75, 4.0, 0.0, 1.5], [2.5, -3.0, 1.0, 0.25]],
    "g": [[1.5, 2.0, 0.5, 1.0], [3.0, 1.25, 2.5, 0.75], [1.0, 2.0, 4.0, 0.5]],
    "h": [[np.nan, 1.0, 2.0], [4.0, np.nan, 0.5]],
    "v": [-2.0, -0.5, 0.25, 1.0, 3.0],
    "w": [1.0, 4.0, 2.0, 0.5, 3.0],
    "s": [[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]],
    "i": [3, 0, 2, 1, 4],
    "j": [1, 1, 4, 2, 4],
    "k": [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]],
    "b": [[True, False, True, False], [False, False, True, True], [True, True, False, False]],
    "m": [True, False, True, True, False],
    "c": [1 + 2j, -0.5j, 3 + 0j],
    "o": [[1.0], [2.0]],
}


_OTHERS = {
    "u": ([3, 200, 7, 255, 0, 1, 128, 64], "uint8"),
    "d": (["2026-01-05", "2026-02-28", "2026-07-04"], "datetime64[D]"),
    "t": (["ab", "c", "def"], None),
}


def arrays(xp, code):
    """Return the arrays that an example names, of a namespace's own kind."""
    named = _names_in(compile(code, "<example>", "eval"))
    given = {name: (values, None) for name, values in _ARRAYS.items()} | _OTHERS
    return {name: xp.array(values, dtype=dtype) for name, (values, dtype) in given.items() if name in named}


def _names_in(code):
    """Names that code looks up, functions inside it included."""
    return set(code.co_names).union(*(_names_in(part) for part in code.co_consts if isinstance(part, types.CodeType)))


_UNARY = (
    "abs absolute arccos arccosh arcsin arcsinh arctan arctanh acos acosh asin asinh atan atanh cbrt ceil conj "
    "conjugate cos cosh deg2rad degrees exp exp2 expm1 fabs floor frexp isfinite isinf isnan log log10 log1p log2 "
    "logical_not modf negative positive rad2deg radians reciprocal rint sign signbit sin sinh spacing sqrt square "
    "tan tanh trunc"
)
_BINARY = (
    "add arctan2 atan2 copysign divide divmod equal float_power floor_divide fmax fmin fmod greater greater_equal "
    "heaviside hypot less less_equal logaddexp logaddexp2 logical_and logical_or logical_xor maximum minimum mod "
    "multiply nextafter not_equal pow power remainder subtract true_divide"
)
_INTEGERS = (
    "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift gcd lcm left_shift right_shift ldexp"
)
_OF_FLOATS = (  # functions of one array, with an axis where that says more
    "all amax amin any argmax argmin argsort argpartition(f,1) argwhere around array_repr array_str array2string "
    "average atleast_1d atleast_2d atleast_3d copy count_nonzero cumprod cumsum cumulative_prod(v) "
    "cumulative_sum(v) diag diagflat diagonal diff ediff1d empty_like(f).shape fix flatnonzero flip fliplr flipud "
    "gradient i0 imag iscomplex iscomplexobj isneginf isposinf isreal isrealobj isfortran matrix_transpose max mean "
    "median min nan_to_num(h) nanargmax(g) nanargmin(g) nancumprod(h) nancumsum(h) nanmax(h) nanmean(h) "
    "nanmedian(h) nanmin(h) nanpercentile(h,30) nanprod(h) nanquantile(h,0.3) nanstd(h) nansum(h) nanvar(h) ndim "
    "nonzero ones_like percentile(f,30) prod ptp quantile(f,0.3) ravel real real_if_close rot90 round shape sinc "
    "size sort sort_complex(c) squeeze(o) std sum trace transpose permute_dims trim_zeros(v) tril triu unique "
    "unique_all unique_counts unique_inverse unique_values unstack unwrap(v) vander(v) var zeros_like asarray "
    "asanyarray ascontiguousarray asfortranarray asarray_chkfinite asmatrix array bitwise_count(k) "
    "bitwise_invert(k) bitwise_not(k) invert(k) isnat(d) angle(c) min_scalar_type diag_indices_from(s) "
    "tril_indices_from(s) triu_indices_from(s) datetime_as_string(d) is_busday(d) packbits(b) unpackbits(u) "
    "bincount(j) poly(v) roots(w) polyder(w) polyint(w) result_type common_type bmat([[s,s]])"
)

# Expressions, by the function they are examples of, where it is not the first name in them.
_EXPRESSIONS = """
np.allclose(f, f + 1e-9)
np.append(f, g, axis=0)
np.apply_along_axis(lambda row: row[::-1], 1, f)
np.apply_along_axis(np.cumsum, 1, f)
np.apply_over_axes(np.sum, f, [0])
np.arange(2, 9, 2)
np.array([f, g])
np.array(f, ndmin=4, order="F")
np.array(f, order="F").strides
np.array_equal(f, f)
np.array_equiv(f, f[0])
np.array_split(f, 2, axis=1)
np.astype(f, np.int32)
np.astype(f, f.dtype, copy=False)
np.bartlett(5)
np.base_repr(10, 3)
np.binary_repr(10)
np.blackman(5)
np.block([[s, s], [s, s]])
np.broadcast(f, v[:4]).shape
np.broadcast_arrays(f, f[0])
np.broadcast_to(v, (2, 5))
np.busday_count(d[0], d)
np.busday_offset(d, 1, roll="forward")
np.c_[v, w]
np.can_cast(f.dtype, np.float32)
np.choose(j % 3, [v, w, v])
np.clip(f, -1, 1)
np.clip(f, -1, 1, f)
np.column_stack([v, f[:, 0].repeat(2)[:5], w])
np.compress([True, False, True], f, axis=0)
np.concat([f, g])
np.concatenate([f, g], axis=1)
np.concatenate((f, g), None)
np.concatenate([f, k], dtype=np.float32)
np.concatenate([v, w], 0, np.zeros(10))
np.convolve(v, w)
np.copyto(f, g)
np.copyto(f, 3)
np.copyto(f, g, where=b)
np.copyto(f[1:], f[:-1])
np.correlate(v, w, "full")
np.cross(s, s[::-1])
np.cumsum(v, 0, None, w)
np.delete(f, 1, axis=0)
np.diag(v, 1)
np.diag_indices(3)
np.digitize(f, v)
np.dot(f, g.T)
np.dot(v, w)
np.dot(s, s, np.zeros((3, 3)))
np.dsplit(f.reshape(1, 3, 4), 2)
np.dstack([f, g])
np.einsum("ij,ij->i", f, g)
np.einsum("ii->i", s)
np.einsum_path("ij,jk->ik", f, g.T)[0]
np.empty((2, 3)).shape
np.exp(f, f)
np.exp(f, where=b, out=g)
np.expand_dims(f, 1)
np.extract(b, f)
np.eye(3, 4, 1)
np.eye(6, 3, 1)
np.eye(6, 3, -5)
np.eye(4, k=-2, dtype=int)
np.fill_diagonal(f, 9)
np.from_dlpack(v)
np.frombuffer(b"12345678")
np.fromfile(__file__, dtype="u1", count=4)
np.fromfunction(lambda x, y: x + y, (2, 3))
np.fromiter(range(3), float)
np.frompyfunc(lambda x, y: x + y, 2, 1)(v, w)
np.fromregex(io.StringIO("1 2 3"), r"(\\d)", [("n", int)])
np.fromstring("1 2", sep=" ")
np.full((2, 2), 7)
np.full_like(f, 7)
np.genfromtxt(io.StringIO("1 2\\n3 4"))
np.geomspace(1, 8, 4)
np.hamming(5)
np.hanning(5)
np.histogram(f, 3)
np.histogram2d(v, w, 2)
np.histogram_bin_edges(f, 3)
np.histogramdd(f, 2)
np.hsplit(f, 2)
np.hstack([f, g])
np.hstack([v, w])
np.identity(3)
np.in1d(v, w)
np.indices((2, 3))
np.inner(v, w)
np.insert(f, 1, 9, axis=1)
np.interp(f, v, w)
np.intersect1d(v, w)
np.isclose(f, g)
np.isin(f, v)
np.ix_(i[:2], j[:2])
np.kaiser(5, 2)
np.kron(s, s)
np.lexsort((v, w))
np.linspace(0, 1, 50)
np.linspace(0, 1, 7)
np.linspace(-3, 5, 11, endpoint=False, retstep=True)
np.linspace(v, w, 4)
np.linspace(1, 2, 5, dtype=np.float32)
np.logspace(0, 2, 3)
np.load((np.save(file := io.BytesIO(), f), file.seek(0), file)[2])
np.loadtxt(io.StringIO("1 2\\n3 4"))
np.mask_indices(3, np.triu)
np.matmul(f, g.T)
np.matmul(s, s, s)
np.matvec(f, v[:4])
np.maximum.accumulate(f, axis=1)
np.may_share_memory(f, f[1:])
np.median(f, axis=0, overwrite_input=True)
np.meshgrid(v, w)
np.meshgrid(v, w, copy=False)
np.mgrid[0:3, 1:3]
np.mgrid[0:1:5j, -1:1]
np.mgrid[2:9:3]
np.mgrid[-1:1:3j]
np.moveaxis(f, 0, 1)
np.nan_to_num(h, copy=False)
np.ndenumerate(f).__class__.__name__
list(np.ndenumerate(f))
[float(x) for x in np.nditer(f)]
[x for x in f.flat if np.flatiter.__name__]
[x.shape for x in np.nested_iters(f, [[0], [1]])[0]]
np.ogrid[0:3, 1:3]
np.ogrid[0:1:5j, -1:1:3j]
np.ones((2, 3), order="F").strides
np.outer(v, w)
np.pad(f, 1)
np.partition(f, 2)
np.percentile(f, 30, 0, None, True)
np.piecewise(v, [v < 0, v >= 0], [lambda x: -x, 1])
np.place(f, b, [7, 8])
np.polyadd(v, w)
np.polydiv(v, w)
np.polyfit(v, w, 1).round(6)
np.polymul(v, w)
np.polysub(v, w)
np.polyval(v, w)
np.put(f, [0, 5], [7, 8])
np.put_along_axis(f, f.argmax(1)[:, None], 0, axis=1)
np.putmask(f, f > 1, g)
np.r_[0:3, v]
np.ravel(f[:, ::2])
np.ravel(f.T, "K")
np.ravel_multi_index((i % 3, j % 4), (3, 4))
np.repeat(f, 2, axis=0)
np.require(f, requirements=["C"])
np.reshape(f, (4, 3))
np.reshape(f, (2, -1), "F")
np.resize(f, (5, 2))
np.roll(f, 1, axis=1)
np.rollaxis(f, 1)
np.round(f, 1, g)
np.row_stack([v, w])
np.save(io.BytesIO(), f)
np.savetxt(io.StringIO(), f)
np.savez(io.BytesIO(), f)
np.savez_compressed(io.BytesIO(), x=f)
np.searchsorted(v, w)
np.select([f > 1, f < 0], [f, g], 5)
np.setdiff1d(v, w)
np.setxor1d(v, w)
np.shares_memory(f, f.T)
np.split(v, [2, 3])
np.split(v, i[4:])
np.array_split(v, indices_or_sections=k[0, :2])
np.stack([f, g], axis=-1)
np.sum(f, 0, None, v[:4])
np.max(f, 1, v[:3])
np.sum(f, where=b)
np.sum(f, axis=(0, 1), keepdims=True)
np.swapaxes(f, 0, 1)
np.take(f, [2, 0], axis=1)
np.take_along_axis(f, f.argsort(1), axis=1)
np.tensordot(f, g, axes=([0, 1], [0, 1]))
np.tile(f, (2, 1))
np.trapezoid(v)
np.trapz(v)
np.tri(3)
np.tril_indices(3)
np.triu_indices(3)
np.union1d(v, w)
np.unravel_index(i, (3, 4))
np.vdot(c, c)
np.vecdot(f, g)
np.vecmat(v[:3], f)
np.vectorize(lambda x, y: x + y)(v, w)
np.vsplit(f, 3)
np.vstack([f, v[:4]])
np.where(b, f, g)
np.where(b, f, 1.5)
np.where(b)
np.zeros((2, 3), int)
np.linalg.svd(s, compute_uv=False)
np.linalg.eigvalsh(s)
np.linalg.solve(s, v[:3])
np.linalg.diagonal(f)
np.fft.rfft(v)
np.fft.fft(c, out=c)
np.strings.upper(t)
np.char.add(t, t)
np.emath.sqrt(v)
np.lib.stride_tricks.as_strided(v, (2, 3), (8, 8))
np.lib.stride_tricks.sliding_window_view(f, (2, 2))
np.polynomial.polynomial.polyval(v, w)
np.polynomial.Polynomial(w)(v)
np.rec.fromarrays([v, w], names="x,y").x
np.random.default_rng(7).normal(size=(2, 3))
np.random.default_rng(7).choice(v, 3)
np.random.default_rng(7).shuffle(v)
np.random.default_rng(7).permuted(f, axis=1, out=f)
np.random.default_rng(7).random(5, None, v)
np.random.RandomState(7).rand(3)
np.random.RandomState(7).shuffle(v)
(np.random.seed(3), np.random.rand(2), np.random.shuffle(v))
np.add.reduce(f, axis=1)
np.add.outer(v, w)
np.add.at(v, j, w)
np.multiply.reduceat(v, [0, 2])
np.divmod(f, g, f, g)
np.frexp(v, v)
np.ma.array(f).sum()
np.append(v, 3)
np.clip(f, None, 1)
np.clip(f, min=g, max=2)
np.clip(u, -5, 100)
np.clip(k, 2.5, 7)
np.copyto(f, g[0], where=b[:, :1])
np.copyto(k, -1, where=b)
np.cross(s, s[0])
np.diag(s, -1)
np.diag(v[::2], -2)
np.diagflat(f, 2)
np.diff(f, 2, axis=0)
np.diff(b)
np.diff(v, prepend=0, append=w[:2])
np.dot(f, v[:4])
np.dot(v[:3], f)
np.dot(v[:3], 2.5)
np.dot(i, j)
np.dot(m, m)
np.gradient(f, 0.5, axis=1, edge_order=2)
np.gradient(v, w.cumsum())
np.indices((2, 3), sparse=True)
np.inner(f, v[:4])
np.isclose(h, h, equal_nan=True)
np.matmul(f, v[:4])
np.matmul(v[:3], f)
np.matmul(v, w)
np.matmul(f, g[0].reshape(4, 1))
np.meshgrid(v, w, i, indexing="ij")
np.meshgrid(v, w, sparse=True)
np.nan_to_num(h, nan=7.5)
np.outer(f, v, np.zeros((12, 5)))
np.block([[s, v[:3, None]], [v[:3], 1.0]])
np.corrcoef(f).round(9)
np.cov(f).round(9)
np.cov(v, w, ddof=0).round(9)
np.polyval([1, -2, 0.5], f)
np.pad(f, ((1, 2), (3, 0)), constant_values=7)
np.pad(f, 2, mode="edge")
np.pad(v, (2, 4), mode="reflect")
np.pad(f, 1, mode="symmetric")
np.pad(k, (2, 1), mode="wrap")
np.pad(f, 1, mode="mean")
np.pad(v, 3, mode="linear_ramp", end_values=(5, -4))
np.repeat(v, 3)
np.repeat(f, i[:3], axis=0)
np.repeat(f, 0, axis=1)
np.roll(f, 5)
np.roll(f, (1, -2), axis=(0, 1))
np.round(k, 2)
np.round(k, -1)
np.round(f, 1)
np.round(f * 100, -1)
np.select([b, b[:1], f > 9], [f, 1, g[0]], v[0])
np.tensordot(s, v[:3], axes=1)
np.tile(v, 3)
np.tile(f, (2, 1, 3))
np.trace(f, 1)
np.trace(k, dtype=float)
np.trapezoid(f, v[:4], axis=1)
np.tri(3, 5, -1, dtype=int)
np.tril(f, -1)
np.triu(k, 1)
np.vdot(v, w)
"""


def examples():
    """Return {name of the function: its expressions}."""
    found = {}
    for name in _UNARY.split():
        found.setdefault(name, []).append(f"np.{name}(f)")
    for name in _BINARY.split():
        found.setdefault(name, []).append(f"np.{name}(f, g)")
    for name in _INTEGERS.split():
        found.setdefault(name, []).append(f"np.{name}(i, j)")
    for call in _OF_FLOATS.split():
        name = call.partition("(")[0]
        found.setdefault(name, []).append(f"np.{call}" if "(" in call else f"np.{call}(f)")
    for expression in _EXPRESSIONS.strip().split("\n"):
        name = expression.replace("\\\\", "\\").partition("np.")[2]
        name = name[: min(name.find(mark) for mark in "([." if mark in name)]
        found.setdefault(name, []).append(expression.replace("\\\\", "\\"))
    return found
