"""`numpy.where` of three operands."""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._core.host.fallback import call
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import Handle
from oxinp._core.lazy.operands import operand
from oxinp._core.lazy.placement import may_be_host
from oxinp._core.lazy.record import WHERE, apply, express, settled
from oxinp._core.lazy.results import types, wrap_pending
from oxinp._core.memory.dtypes import WEAK_TYPES


def where(condition: Any, x: Any, y: Any) -> Any:
    """Return elements of `x` where `condition` holds, else of `y`; see `numpy.where`."""
    operands = tuple([operand(value) for value in (condition, x, y)])
    if any(value is NotImplemented for value in operands):
        return call(np.where, (condition, x, y), {}, name="where")
    if not any(isinstance(value, Handle) for value in operands):
        operands = (types.from_host(np.asarray(operands[0])), *operands[1:])
    try:
        return apply(WHERE, np.where, operands, as_array=True)
    except (Unsupported, ValueError):  # of shapes: NumPy looks at integers' sizes first
        return call(np.where, (condition, x, y), {}, name="where")


def of_known(condition: Any, *choices: Any, **options: Any) -> Any:
    """Return what `where` does of arrays of ours and Python's numbers; None for anything else.

    Parameters
    ----------
    condition : ndarray
        Ours.
    """
    if len(choices) != 2 or options:
        return None
    for each in choices:
        if type(each) is not types.ndarray and type(each) not in WEAK_TYPES:
            return None
    operands = condition, *choices
    try:
        if may_be_host(condition._held or condition._storage):
            return apply(WHERE, np.where, operands, as_array=True)
        return settled(wrap_pending(express(WHERE, operands), as_array=True))  # as that does
    except (Unsupported, ValueError):  # `where` tells
        return None
