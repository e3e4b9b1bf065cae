"""`evaluate`: enqueue what is pending, now."""

from __future__ import annotations

from typing import Any

from oxinp._core import schedule
from oxinp._core.handle import Handle


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
    if not arrays:
        schedule.flush_all()
    for array in arrays:
        if isinstance(array, Handle) and array._storage.value is not None:
            schedule.materialise(array._storage)
