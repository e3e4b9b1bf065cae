"""Programs that run every time, whatever the seed: each gave something else than NumPy once."""

from tests.fuzz.program import Program, Statement

_CODE = {
    "a factor on the host, in a tuple beside what is no array": """
a1 = np.array([[4.0, 2.0], [2.0, 5.0]])
a2 = np.array([[8.0], [4.0]])
a3 = foreign.scipy(np, 'linalg').cho_solve((np.array([[2.0, 0.0], [1.0, 2.0]]), True), a2)
""",
    "a sum of negative zeros, which begins at +0.0": """
a1 = np.array([[-0.0, -0.0]])
a2 = np.array([[1.0], [1.0]])
a3 = np.tensordot(a1, a2, 1)
a4 = np.tensordot(np.array([-0.0]), np.array([1.0]), 1)
""",
    "an input that is a view of the output, and nothing to write": """
a1 = np.zeros((3,), '?')
np.less(a1, a1, out=(a1[None],), where=0)
""",
    "shapes that do not go together where dtypes do not, either: of a mask, of an output": """
a1 = np.ones((3, 3), dtype='i4')
np.add(a1, [0, 0], out=a1, where=a1)
np.add(a1, [0, 0], where=a1)
np.add(a1, [0.5, 0], out=a1, where=a1 > 0)
""",
    "the diagonal of what `broadcast_arrays` gave": """
a1 = np.ones((2, 2), dtype='i4')
a2, a3 = np.broadcast_arrays(a1, a1[:1])
np.fill_diagonal(a3, a2 + 1)
""",
    "a write to an index out of bounds, of a value of another shape": """
a1 = np.zeros((0, 0))
a1[[0]] = a1
a1[[0]] = np.ones((1, 0))
""",
    "a complex square, whose products are rounded in NumPy's order": """
a1 = (np.arange(5, dtype='f4') / 3 + 1j * np.arange(5, dtype='f4') / 7).astype('c8')
a2 = np.hstack([a1, a1])[::-1]
a3 = a2 * a2
""",
    "a view read before and after a write through another one": """
a1 = np.arange(12.0).reshape(3, 4)
a2 = a1[::-1, 1:] * 2
a3 = a1.T
a1[1:] += a1[:-1]
a3[0] = a2[0].sum()
a4 = a3 + a1.T
""",
    "a Python integer that int64 does not hold, alone and masked": """
a1 = np.array([1.0, 3.0], dtype='f4')
np.negative(9223372036854775808, out=a1, where=a1 > 2.0)
""",
    "medians of negative zeros, which are means": """
a1 = -np.zeros((2, 3))
a2 = np.median(a1[0])
a3 = np.median(a1, axis=0)
a4 = np.nanmedian(a1, axis=1)
""",
    "a diagonal filled with what `flat` casts, and with a list, whose numbers must fit": """
a1 = np.zeros((3, 3), dtype='i4')
np.fill_diagonal(a1, np.float64(numpy.nan))
a2 = np.zeros((3, 3), dtype='i4')
np.fill_diagonal(a2, [numpy.nan])
""",
    "a product in place of arrays without dimensions, of a dtype it cannot be cast to": """
a1 = np.array(True)
a1 @= a1 + 0
""",
    "draws of no dimensions, which are arrays where a size is given": """
a1 = np.random.default_rng(3).uniform(0, 2, ())
a2 = np.random.RandomState(3).exponential(2.0, ())
a3 = np.random.default_rng(3).gumbel(0, 1, size=())
a4 = np.random.RandomState(3).standard_exponential(())
""",
    "indices of a user's class, which do not count, keywords nobody gave, a solver that takes a pair": """
a1 = np.arange(6.0)
o2 = foreign.described(np.take(a1, np.array([0, 1]).view(foreign.tagged(np))))
o3 = foreign.described(np.maximum.reduce(foreign.Overriding()))
a4 = np.eye(3) * 4
a5 = foreign.scipy(np, 'linalg').cho_solve((a4, False), a4)
""",
    "values of no dimensions that may not be cast": """
a1 = np.zeros(3, dtype='?')
np.putmask(a1, a1 < 1, np.array(0.5))
""",
    "a mask of all dimensions, to which only a row may be assigned": """
a1 = np.arange(12.0).reshape(3, 4)
a1[a1 > 3] = np.ones((1, 1))
a2 = a1[0]
a2[a2 >= 0] = [[1.0]]
""",
    "a transform of float16 along the only axis": """
a1 = np.ones(4, dtype='f2')
o2 = np.fft.irfftn(a1).dtype, np.fft.rfftn(a1).dtype, np.fft.irfftn(a1[None]).dtype
""",
    "a function that is a method of arrays, asked for a list of them": """
a1 = np.array([3, 0, 7])
o2 = np.argmax([a1, a1]), np.argmin([a1]), np.argsort([a1, a1]).tolist()
""",
    "an array that is read-only before it is anything else": """
a1 = np.broadcast_to(np.zeros((1, 0), dtype='u8'), (0, 1, 0))
np.copyto(a1, 0.5, where=0)
a2 = np.array(3)
a2.setflags(write=False)
np.copyto(a2.T, a2)
""",
    "an unpickled array, whose dtype is NumPy's own, as its dtype": """
a1 = pickle.loads(pickle.dumps(np.array([1.0, 3.0])))
a2 = np.asarray(a1, dtype=np.float64)
a2[0] = 7
""",
    "a choice among Python numbers, which are cast as arrays are": """
a1 = np.array([1, 0, 7], dtype='u1')
a2 = np.select([a1 > 5, a1 < 1], [a1, -2], -1)
a3 = np.select([a1 > 5], [a1.astype('f4')], 1e-50)
""",
    "a product into an array that is read-only, and of a dtype it cannot be cast to": """
a1 = np.diagonal(np.ones((1, 1), dtype='?'))[:, None]
a1 @= a1 + 1
np.matmul(a1 + 1, a1 + 1, out=a1, casting='safe')
""",
    "an array written while sums of it are pending": """
a1 = np.arange(40, dtype='i4').reshape(5, 8)
a2 = a1.sum(0)
a1[a1 % 3 == 0] = 7
a3 = a1.sum(0) - a2
np.add(a1, 1, out=a1)
""",
    "products with a scalar that is zero, which BLAS skips": """
a1 = np.array([0.0, np.nan, np.inf])
a2 = np.dot(a1, a1[0])
a3 = np.inner(np.zeros((), 'f4'), a1.astype('f4'))
a4 = a1.T.dot(a1[0])
""",
    "the order of what argsort returns, which shapes see": """
a1 = np.arange(6, dtype='i4').reshape(3, 2).T
a2 = np.argsort(a1, axis=0, kind='stable')
a2.shape = (-1,)
""",
    "what broadcast_arrays gave, written to as a whole and seen in other strides": """
a1 = np.ones((3,), dtype='i2')
a2, a3 = np.broadcast_arrays(a1, a1[:1])
a3[...] = a2 * 0.5j
a4 = np.lib.stride_tricks.as_strided(a3, (2, 3), (0, 2))
a4[1, -3] *= a4[1, 2]
""",
    "shapes and an integer that both do not fit, of which NumPy names one": """
a1 = np.resize([0], (5, 17, 3)).astype('i4')
a2 = np.where([0, 0], a1, 2**31)
""",
    "reductions and scans into elements that overlap": """
a1 = np.ones((2,), dtype=np.bool_)
a2 = np.lib.stride_tricks.as_strided(a1, (2, 2), (0, 1))
np.max(a2, axis=0, out=a2[:, 0, ...])
a3 = np.arange(3.0)
a4 = np.lib.stride_tricks.as_strided(a3, (2, 2), (0, 8))
np.cumsum(np.ones((2, 2)), axis=0, out=a4)
""",
    "a choice between operands of three shapes, of sizes that grow": """
a1 = np.arange(40.0) % 7 - 3
a2 = [np.where(a1[:2, None] > 0, a1[:k], 2.0) for k in range(2, 12)]
a3 = [np.where(a1[:1], a1[: 2 * k].reshape(2, k), a1[:k]) for k in range(2, 12)]
a4 = [np.clip(2, a1[:k], a1[: 3 * k].reshape(k, 3).T + 9) for k in range(2, 12)]
""",
    "an array of NumPy's own, which arithmetic with its scalar gives, copied where it is made one of ours": """
a1 = np.array([3, 0], dtype='i4')
h2 = numpy.ones((2,))
a3 = a1[1]
a3 += h2
a4 = a3[a3 > 0]
a5 = np.ascontiguousarray(a4)
a5[0] = 7
a6 = a4 + 1
""",
    "positions of extrema, which are in C order": """
a1 = np.resize([0.5, 0.001], (2, 3, 3)).astype('f4')
a2 = np.argmax(a1.T, axis=0)
a3 = np.reshape(a2, -1)
a3 -= a3
a4 = np.nanargmin(a1.transpose(1, 0, 2), axis=2, keepdims=True)
a4.ravel()[...] = 7
""",
    "values that do not fit, written by an index that does not exist": """
a1 = np.resize([0, -1], (1, 16, 16)).astype('f4')
a1[[1]] = a1[[0], [0], [0, 1]]
""",
    "an index of many dimensions": """
a1 = np.arange(90).reshape(3, 1, 5, 6)
a2 = a1[..., np.array([2]).reshape((1,) * 25), :]
a1[:, np.zeros((1,) * 25, dtype='i8'), 1] = 5
""",
    "draws that go through the C library's log1p": """
_rng = np.random.Generator(np.random.PCG64(5))
a1 = _rng.standard_exponential(40, 'f4')
a2 = _rng.standard_exponential(40)
""",
    "a scalar that the device holds, NaN, written to elements and parts on the host": """
a1 = np.zeros(40000, dtype='u1')
a2 = np.sum(a1 / a1)
a3 = np.zeros(5, dtype='u1')
a3[2] = a2
a4 = np.zeros(5, dtype='i4')
a4[:3] = a2
""",
    "a part without elements, from beyond the end of what it is a part of": """
a1 = np.zeros((0, 2))
a2 = a1[:, 1:]
h3 = numpy.array(a2)
""",
    "a Python integer that int32 does not hold, copied to what is read-only": """
a1 = np.zeros(2, dtype='i4')
a1.flags.writeable = False
np.copyto(a1, 2147483648)
""",
    "negative zeros that a sparse matrix stores, which are added to zeros": """
_S = foreign.scipy(np, 'sparse')
a2 = np.array([-0.0, 2.0, -0.0])
_m = _S.coo_array((a2, (np.array([0, 1, 1]), np.array([0, 0, 1]))), shape=(2, 2))
a3 = _m.toarray()
a4 = _m.tocsr().T.toarray()
a5 = _S.block_diag([_S.csr_array(np.eye(2)), np.array([[-0.0, 1.0]])]).toarray()
""",
    "a product with a Toeplitz matrix of single precision, which SciPy computes in double": """
a1 = np.ones((3, 3), dtype='f4')
o2 = foreign.scipy(np, 'linalg').matmul_toeplitz(a1[0], a1).dtype
o3 = foreign.scipy(np, 'linalg').matmul_toeplitz((a1[0] * 1j, a1[0]), a1[0]).dtype
""",
    "points of a Halton sequence, which are in Fortran order": """
a1 = foreign.scipy(np, 'stats.qmc').Halton(2, scramble=False).random(5)
a2 = a1.reshape(-1, order='F')
a2[:2] += 3
""",
    "a power of a matrix, complex where eigenvalues are": """
a1 = np.array([[120.0, -3.0, 4.0], [5.0, 120.0, 2.0], [-7.0, 1.0, 120.0]])
o2 = foreign.scipy(np, 'linalg').fractional_matrix_power(a1, 0.5).dtype
o3 = foreign.scipy(np, 'linalg').fractional_matrix_power(a1 + a1.T, 1.3).dtype
""",
    "an update by an index out of bounds, with an integer that does not fit either": """
a1 = np.zeros(3, dtype='i8')
np.add.at(a1, [7], 5**28)
np.add.at(a1, [0], 5**28)
""",
    "scalars of C's other integer of 64 bits, which keep it where arrays do not": """
a1 = np.full((1,), 9223372036854775808)
a2, a3 = a1[0] % 1, a1[0] // np.arange(3, 5, dtype='u8')[0]
a4, a5 = np.arange(3, 5, dtype='u8')[1] & a1[0], a1[0] % a1
""",
    "large integers of a sequence that is no list": """
a1 = np.array([5, 18446744073709551615], dtype='u8')
a1[...] = foreign.Listed(a1)
""",
    "writes along strided vectors": """
a1 = np.zeros((125,))
np.put_along_axis(a1[2::2], np.argsort(a1[2::2], axis=0, kind='stable'), 2, axis=0)
""",
    "a power of a matrix whose eigenvalues are real": """
a1 = np.array([[3.0, 2.0, 4.0], [8.0, 13.0, 12.0], [16.0, 18.0, 23.0]])
o2 = foreign.scipy(np, 'linalg').fractional_matrix_power(a1, 0.5).dtype
""",
    "pieces of an array in Fortran order": """
a1 = np.array([[-1.0, 0.0], [2.0, 3.0]])
a2 = np.piecewise(a1.T, [a1.T > 0], [2])
o3 = a2.flags.c_contiguous
""",
    "a logical function of an integer beyond C's long": """
a1 = np.ones((), dtype='f4')
np.logical_and(a1, 5**28)
np.logical_xor(5**28, np.ones(3, dtype='u1'))
o2 = np.logical_or.reduce(np.zeros(3, dtype='?'), initial=5**28)
""",
    "integers to negative powers as floats": """
a1 = np.power(np.arange(1, 4), -1, dtype=np.float64)
""",
    "updates of signed integers with unsigned ones of 64 bits, which NumPy adds up as floats": """
a1 = np.array([2**53 + 1, 100, 3])
np.add.at(a1, [0, 1, 0], np.array([1, 2**53 + 1, 3], dtype='u8'))
np.subtract.at(a1, [2, 1], np.array([7], dtype='u8')[0])
""",
    "extrema but for NaN of a complex scalar and of a list, where there is no number": """
a1 = np.array([complex(np.nan, np.nan)])
a2 = np.nanmin(a1[0], axis=0)
a3 = np.nanmax([complex(np.nan, np.nan)])
a4 = np.nanmin(a1)
a5 = np.nanmax([np.nan, 1.0], initial=2.0)
a6 = np.nanmax(np.array([np.nan])[0], initial=2.0)
""",
    "an array of NumPy's, or of another class, that sees the elements of a read-only one, copied there": """
a1 = np.broadcast_to(np.ones((2, 3), dtype='?'), (4, 2, 3))
_f = np.ma.array(a1, mask=a1 > 1)
np.copyto(a1, _f)
np.copyto(a1, numpy.asarray(a1))
np.copyto(a1, numpy.ones((4, 2, 3), dtype='?'))
np.copyto(np.broadcast_to(a1[0], (3, 2, 3)), _f[0])
""",
    "averages but for NaN along an axis that integers of no dimensions have not": """
a1, a2 = np.array(1), np.array(1.0)
np.nanmean(a1, axis=0)
np.nanvar(a1, axis=-1)
a3 = np.nanstd(a2, axis=0)
""",
    "a product in place, into a vector that is read-only and of another dtype": """
a1 = np.broadcast_to(np.ones(3, dtype='?'), (3,))
a1 @= np.arange(3)
a2 = np.ones(3, dtype='?')
a2 @= np.arange(3)
""",
}
PROGRAMS = tuple(
    Program(tuple(Statement("regression", line) for line in code.strip().splitlines()), origin)
    for origin, code in _CODE.items()
)
