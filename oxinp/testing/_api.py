"""The assertions of `numpy.testing` that compare values: they look for NumPy's own class, so ours become NumPy's.

A comparison needs the elements on the host, so this counts as a transfer, not as a fallback.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oxinp._api.fronts import describe, find_theirs
from oxinp._api.submodule_rows import ASSERTIONS
from oxinp._core.array import dispatch
from oxinp._core.array.scalar import ScalarType
from oxinp._core.lazy.array_protocol import accepted
from oxinp._core.lazy.handle import Handle, fetch
from oxinp._core.lazy.results import is_device_scalar


def _numpys(value: Any) -> Any:
    """Return a value with NumPy's arrays, scalars and scalar types for ours, in lists, tuples and dicts as well."""
    if isinstance(value, Handle):
        return fetch(value)[()] if is_device_scalar(value) else fetch(value)
    if type(value) is ScalarType:
        return value.dtype.type
    if type(value) in (list, tuple):
        return type(value)(map(_numpys, value))
    return {key: _numpys(part) for key, part in value.items()} if type(value) is dict else accepted(value)


def _comparing(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def front(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return theirs(*map(_numpys, args), **{name: _numpys(value) for name, value in kwargs.items()})

    return front


def compare_on_host(module: str) -> None:
    """Register the assertions of a module, as it is called below ``numpy``."""
    for name in ASSERTIONS[module].split():
        theirs = find_theirs(f"{module}.{name}")
        if theirs is not None:
            dispatch.register(theirs, describe(_comparing(theirs), theirs, f"{module}.{name}"))


compare_on_host("testing")
