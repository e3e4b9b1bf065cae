"""Order statistics: the elements that have some ranks among those of a row, NaN last."""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import Handle
from oxinp._core.lazy.views import view
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.ops import creation, gather, sort


def at_ranks(rows: Handle, ranks: np.ndarray[Any, Any]) -> Any:
    """Return the elements of some ranks.

    Parameters
    ----------
    rows : Handle, (M, N)
        Real numbers.
    ranks : numpy.ndarray, (R,), int64
        From 0 to N - 1.

    Returns
    -------
    Handle, (R, M)
    """
    layout = rows._layout
    if layout.dtype not in DEVICE_TYPES or not layout.size or not layout.is_aligned:
        raise Unsupported(f"dtype {layout.dtype} has no kernels, or there are no elements")
    ordered = sort.sort(rows)
    return gather.take(view(ordered, lambda x: x.T), creation.asarray(ranks), is_checked=False)
