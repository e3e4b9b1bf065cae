"""The sampled product of two dense matrices, which SciPy has not."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from oxinp._core.array import dispatch
from oxinp._core.lazy.handle import host_view
from oxinp._core.lazy.results import types
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp.sparse import _compressed, _rows
from oxinp.sparse._base import as_ours, build, given, is_ours, is_small, taken


def sddmm(A: Any, x: Any, y: Any) -> Any:
    """Return the elements of ``x @ y`` at the places of a sparse matrix' elements, times these (SDDMM).

    The same as ``A.multiply(x @ y)``, without the other elements of the dense product being computed.

    Parameters
    ----------
    A : sparse array or matrix, (m, n)
    x : array_like, (m, k)
    y : array_like, (k, n)

    Returns
    -------
    csr_array, (m, n)
        In canonical format, of the dtype that the three have in common.

    Raises
    ------
    TypeError
        The matrix is not sparse, or the device has no products in a dtype.
    ValueError
        Shapes do not go together.

    Notes
    -----
    A sum is over 32 interleaved parts of the inner dimension, then of these as a tree; the same bits every time.

    Examples
    --------
    >>> import numpy as np
    >>> from oxinp import sparse
    >>> A = sparse.csr_array(np.array([[1.0, 0], [0, 2]]))
    >>> sparse.sddmm(A, np.array([[1.0], [2]]), np.array([[3.0, 4]])).toarray()
    array([[ 3.,  0.],
           [ 0., 16.]])
    """
    A = as_ours(A)
    x, y = (dispatch.functions[np.asarray](each) for each in (x, y))
    if not is_ours(A) or A.ndim != 2:
        raise TypeError("a sparse array or matrix of two dimensions is needed")
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[0] or (x.shape[0], y.shape[1]) != A.shape:
        raise ValueError(f"matrix of shape {A.shape}, and dense ones of shapes {x.shape} and {y.shape}")
    dtype = np.result_type(A.dtype, x.dtype, y.dtype)
    if dtype not in DEVICE_TYPES or dtype.kind == "b" or dtype == np.float16:
        raise TypeError(f"no products in {dtype}")
    if not A.nnz or not x.shape[1]:
        return A.tocsr().astype(dtype) * 0
    if is_small(A, x, y):
        return _on_host(A, x, y)
    rows = _compressed.canonical_rows(A if A.format in ("csr", "csc") else A.tocsr())
    made = _rows.sampled(rows, x, y)
    parts = {"data": made.data, "indices": made.indices, "indptr": made.indptr}
    return build("csr_array", parts, A.shape, canonical=True)


def _on_host(A: Any, x: Any, y: Any) -> Any:
    """Let SciPy multiply: what is small, or all where there is no device."""
    theirs = scipy.sparse.csr_array(given(A, host_view))
    theirs.sum_duplicates()
    product = scipy.sparse.csr_array(theirs.multiply(host_view(x) @ host_view(y)))
    product.sort_indices()
    return taken(product, types.from_host)


__all__ = ["sddmm"]
