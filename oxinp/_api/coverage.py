"""THE COVERAGE TABLE: one row per public name of NumPy's, saying what oxinp makes of it.

Names in submodules, SciPy's among them, have theirs in `submodule_rows`; the kinds are the same.

========== ============================================================================================================
kind       meaning
========== ============================================================================================================
native     has kernels, or makes views and looks at shapes and dtypes, for which no element is read
composed   made of native operations
host       NumPy or SciPy computes on the host; the result is ours, the call is counted (`cuda.stats().fallbacks`)
own        their own object, with nothing to compute: constants, dtypes, settings, classes that stay theirs
refused    there, but raises, for a reason
========== ============================================================================================================
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from oxinp._api.fronts import CALLS_BACK
from oxinp._core.host.fallback import KEPT, Mutated
from oxinp._core.ops.gufuncs import GUFUNCS
from oxinp._core.ufunc.table import UFUNCS

NATIVE = "native"
COMPOSED = "composed"
HOST = "host"
OWN = "own"
REFUSED = "refused"
KINDS = (NATIVE, COMPOSED, HOST, OWN, REFUSED)


class CoverageRow(NamedTuple):
    """One public name of NumPy's.

    Attributes
    ----------
    name, chapter, kind : str
    mutates : tuple
        The arguments a host function writes to, beside `out` (see `fallback.Mutated`).
    since, until : str
        The first and the last version that have it, of those that we support; "" for all.
    reason : str
        Why it is refused.
    note : str
        What of it is not of its kind.
    """

    name: str
    chapter: str
    kind: str
    mutates: tuple[Mutated, ...] = ()
    since: str = ""
    until: str = ""
    reason: str = ""
    note: str = ""


def _rows(chapter: str, **names: str) -> list[CoverageRow]:
    """Return rows that say nothing but their kind, from names separated by spaces; a ufunc's is in the ufunc table."""
    return [
        CoverageRow(name, chapter, _kind_of_ufunc(name) if kind == "ufunc" else kind)
        for kind, listed in names.items()
        for name in listed.split()
    ]


_UFUNCS = {row.numpy for row in (*UFUNCS, *GUFUNCS.values())}


def _kind_of_ufunc(name: str) -> str:
    return NATIVE if getattr(np, name, None) in _UFUNCS else HOST


_OVERWRITE: tuple[Mutated, ...] = (("a", "overwrite_input", True),)

ROWS: tuple[CoverageRow, ...] = (
    *_rows(
        "creation",
        native="arange array asanyarray asarray ascontiguousarray asfortranarray copy empty empty_like from_dlpack "
        "frombuffer full full_like ones ones_like zeros zeros_like",
        composed="asarray_chkfinite bmat diagflat eye geomspace identity linspace load loadtxt logspace meshgrid mgrid "
        "ogrid tri require tril triu vander",
        host="fromfile fromiter fromregex fromstring genfromtxt",
        own="matrix",
    ),
    CoverageRow("asmatrix", "creation", HOST, (KEPT,)),
    CoverageRow("fromfunction", "creation", COMPOSED),
    CoverageRow("diag", "creation", COMPOSED),
    *_rows(
        "manipulation",
        native="array_split astype atleast_1d atleast_2d atleast_3d broadcast_arrays broadcast_to dsplit expand_dims "
        "flip fliplr flipud hsplit matrix_transpose moveaxis ndim permute_dims ravel reshape roll rollaxis rot90 "
        "shape size split squeeze swapaxes transpose vsplit",
        composed="append block column_stack concat concatenate delete dstack hstack insert pad repeat resize "
        "stack tile trim_zeros vstack",
        own="broadcast_shapes",
    ),
    CoverageRow("broadcast", "manipulation", HOST, (KEPT,)),
    CoverageRow("copyto", "manipulation", COMPOSED, ("dst",)),
    CoverageRow("unstack", "manipulation", NATIVE, since="2.1"),
    CoverageRow("row_stack", "manipulation", COMPOSED, until="2.4"),
    *_rows(
        "indexing",
        native="compress diagonal extract take take_along_axis",
        composed="argwhere c_ choose diag_indices diag_indices_from indices ix_ r_ ravel_multi_index select "
        "tril_indices tril_indices_from triu_indices triu_indices_from unravel_index",
        host="ndenumerate",
        own="index_exp ndindex newaxis s_",
    ),
    CoverageRow("fill_diagonal", "indexing", COMPOSED, ("a",)),
    CoverageRow("mask_indices", "indexing", COMPOSED, CALLS_BACK),
    CoverageRow("nditer", "indexing", HOST, (KEPT,)),
    CoverageRow("nested_iters", "indexing", HOST, (KEPT,)),
    CoverageRow("place", "indexing", COMPOSED, ("arr",)),
    CoverageRow("put", "indexing", COMPOSED, ("a",)),
    CoverageRow("put_along_axis", "indexing", COMPOSED, ("arr",)),
    CoverageRow("putmask", "indexing", COMPOSED, ("a",)),
    *_rows(
        "mathematics",
        ufunc="abs absolute acos acosh add arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2 "
        "atanh cbrt ceil conj conjugate copysign cos cosh deg2rad degrees divide divmod exp exp2 expm1 fabs "
        "float_power floor floor_divide fmax fmin fmod frexp gcd heaviside hypot lcm ldexp log log10 log1p log2 "
        "logaddexp logaddexp2 maximum minimum mod modf multiply negative nextafter positive pow power rad2deg "
        "radians reciprocal remainder rint sign signbit sin sinh spacing sqrt square subtract tan tanh "
        "true_divide trunc",
        native="amax amin cumprod cumsum max min nancumprod nancumsum nanmax nanmin nanprod nansum prod real sum",
        composed="angle around clip convolve cross diff ediff1d fix gradient i0 imag interp real_if_close round sinc "
        "trapezoid unwrap",
    ),
    CoverageRow("cumulative_prod", "mathematics", COMPOSED, since="2.1"),
    CoverageRow("cumulative_sum", "mathematics", COMPOSED, since="2.1"),
    CoverageRow("nan_to_num", "mathematics", COMPOSED, (("x", "copy", False),)),
    CoverageRow("trapz", "mathematics", HOST, until="2.3"),
    *_rows(
        "bits",
        ufunc="bitwise_and bitwise_count bitwise_invert bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift "
        "bitwise_xor invert left_shift right_shift",
        composed="packbits unpackbits",
        host="base_repr binary_repr",
    ),
    *_rows(
        "logic",
        ufunc="equal greater greater_equal isfinite isinf isnan isnat less less_equal logical_and logical_not "
        "logical_or logical_xor not_equal",
        native="all any iscomplexobj isfortran isrealobj",
        composed="allclose array_equal array_equiv isclose iscomplex isneginf isposinf isreal",
        own="isscalar iterable",
    ),
    *_rows(
        "linear algebra",
        native="einsum_path matmul",
        composed="dot einsum inner kron outer tensordot trace vdot vecdot",
    ),
    CoverageRow("matvec", "linear algebra", COMPOSED, since="2.2"),
    CoverageRow("vecmat", "linear algebra", COMPOSED, since="2.2"),
    *_rows(
        "sorting and searching",
        native="argmax argmin argsort count_nonzero flatnonzero lexsort nanargmax nanargmin nonzero searchsorted sort "
        "where",
        composed="argpartition partition sort_complex",
    ),
    *_rows(
        "statistics",
        native="bincount histogram mean nanmean nanstd nanvar std var",
        composed="average corrcoef correlate cov digitize histogram2d histogram_bin_edges histogramdd ptp",
    ),
    CoverageRow("median", "statistics", COMPOSED, _OVERWRITE),
    *[
        CoverageRow(name, "statistics", COMPOSED, _OVERWRITE)
        for name in ("nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile")
    ],
    *_rows(
        "sets",
        composed="intersect1d isin setdiff1d setxor1d union1d unique unique_all unique_counts unique_inverse "
        "unique_values",
    ),
    CoverageRow("in1d", "sets", HOST, until="2.3"),
    *_rows(
        "polynomials",
        composed="polyadd polyder polyfit polyint polymul polysub polyval roots",
        host="poly polydiv",
        own="poly1d",
    ),
    *_rows("windows", composed="bartlett blackman hamming hanning kaiser"),
    *[
        CoverageRow(name, "functional programming", kind, CALLS_BACK)
        for kind, names in ((COMPOSED, "apply_along_axis apply_over_axes piecewise"), (HOST, "frompyfunc vectorize"))
        for name in names.split()
    ],
    *_rows(
        "input and output",
        composed="save",
        host="array2string array_repr array_str savetxt savez savez_compressed",
        own="format_float_positional format_float_scientific get_printoptions memmap printoptions set_printoptions",
    ),
    *_rows(
        "dates",
        host="busday_count busday_offset datetime_as_string is_busday",
        own="busdaycalendar datetime_data",
    ),
    *_rows(
        "dtypes",
        native="can_cast common_type result_type",
        host="min_scalar_type",
        own="bool bool_ byte bytes_ cdouble character clongdouble complex128 complex192 complex256 complex64 "
        "complexfloating csingle datetime64 double dtype finfo flexible float128 float16 float32 float64 float96 "
        "floating generic half iinfo inexact int16 int32 int64 int8 int_ intc integer intp isdtype issubdtype "
        "long longdouble longlong mintypecode number object_ promote_types recarray record ScalarType sctypeDict "
        "short signedinteger single str_ timedelta64 typecodes typename ubyte uint uint16 uint32 uint64 uint8 "
        "uintc uintp ulong ulonglong unsignedinteger ushort void",
    ),
    *_rows("memory", native="may_share_memory shares_memory", own="get_include getbufsize setbufsize"),
    *_rows("constants", own="False_ True_ e euler_gamma inf little_endian nan pi"),
    *_rows("arrays", native="flatiter ndarray ufunc"),
    *_rows("errors", own="errstate geterr geterrcall seterr seterrcall"),
    *_rows(
        "modules",
        host="char emath fft lib linalg polynomial random rec strings",
        own="core ctypeslib dtypes exceptions f2py ma testing typing",
    ),
    *_rows("about", own="__version__ info show_config show_runtime"),
    CoverageRow("__array_namespace_info__", "about", OWN, since="2.1"),
    CoverageRow("test", "about", REFUSED, reason="it runs NumPy's own tests; use numpy.test()"),
)


# What longdouble is elsewhere.
_OF_SOME_PLATFORMS = {"complex192", "complex256", "float128", "float96"}


def is_in(row: Any, version: str) -> bool:
    """Whether a version of NumPy (of SciPy, where the row is of something of its) has what a row is of."""
    release = _release(version)
    return _release(row.since or "0.0") <= release and (not row.until or release <= _release(row.until))


@functools.cache
def _release(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def rows(version: str = np.__version__) -> dict[str, CoverageRow]:
    """Return the rows of the names that a NumPy version has, by name."""
    return {
        row.name: row
        for row in ROWS
        if is_in(row, version) and (row.name not in _OF_SOME_PLATFORMS or hasattr(np, row.name))
    }
