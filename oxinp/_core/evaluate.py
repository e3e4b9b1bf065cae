"""`evaluate`: enqueue what is pending, now."""

from __future__ import annotations

from typing import Any

from oxinp._core.handle import Handle
from oxinp._core.schedule import flush_all, materialise


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
            value = array._storage.value
            if value is None:
                continue
            if value[0].nodes:
                materialise(array._storage)
            else:
                value[1][0].ptr  # noqa: B018 - which has a deferred product computed
    if not arrays:
        flush_all()
