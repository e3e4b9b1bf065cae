"""`evaluate`: enqueue what is pending, now."""

from __future__ import annotations

from typing import Any

from oxinp._core.lazy.handle import Handle
from oxinp._core.lazy.schedule import flush_all, materialise


def evaluate(*arrays: Any) -> None:
    """Enqueue the kernels that compute these arrays, without waiting for them.

    Lazy work runs by itself when something needs its result; this is for timing, and for starting it early.

    Parameters
    ----------
    *arrays : ndarray or scalar
        Anything without pending work is left alone. With no argument, everything that is pending is enqueued.

    Examples
    --------
    >>> import oxinp as np
    >>> x = np.ones(100_000) * 2
    >>> np.evaluate(x)
    """
    for array in arrays:
        if isinstance(array, Handle):
            storage = array._held or array._storage
            if storage.value is not None:
                materialise(storage)
    if not arrays:
        flush_all()
