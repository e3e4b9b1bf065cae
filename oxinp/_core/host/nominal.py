"""Libraries that take NumPy's own class alone: what they find when they ask an array of ours what it is.

``isinstance(x, numpy.ndarray)`` is false of our arrays, so that libraries that know other arrays by the array API or by
NumPy's protocols leave them on the device. Others ask nothing else before they refuse an array, or take it for what it
is not: pandas takes a mask for positions. There, and nowhere else, the array says that it is of NumPy's class, which
`isinstance` believes; what comes of it is the library's own `numpy.asarray`, or methods and operators.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# THE TABLE. Functions that ask -> the beginning of their module's name. Nothing compiled gets the array of them.
INSISTING = {
    **dict.fromkeys(("assert_equal", "assert_almost_equal"), "numpy.testing."),  # of arrays in lists and dicts
    "from_param": "numpy.ctypeslib",  # arguments that a function in C declares by `ndpointer`
    "is_bool_indexer": "pandas.core.common",  # series[mask], frame[mask], .loc[mask], .iloc[mask]
    "is_array_like_deprecate_non_pandas": "pandas.core.dtypes.common",  # which warns of others
    **dict.fromkeys(("_ensure_arraylike", "factorize"), "pandas.core.algorithms"),  # unique, factorize
    **dict.fromkeys(("_convert_grouper", "__init__", "<genexpr>"), "pandas.core.groupby.grouper"),  # groupby(keys)
    "aslinearoperator": "scipy.sparse.linalg.",  # svds, eigsh
    "_validate_interp_indexers": "xarray.core.dataset",  # interp(x=array)
}


def reported_class(kind: type, frame: Any) -> type:
    """Return what an array of a class of ours says that its class is.

    Parameters
    ----------
    kind : type
        Its class.
    frame : frame
        Of who asks, a function that the table names.
    """
    module = frame.f_globals.get("__name__", "")
    return np.ndarray if module.startswith(INSISTING[frame.f_code.co_name]) else kind
