"""Functions of `scipy.sparse` over our classes; importing it makes these."""

from __future__ import annotations

from typing import Any

import scipy.sparse

from oxinp._api.fronts import implements
from oxinp._core.array import dispatch
from oxinp.sparse import _classes  # noqa: F401 - which makes the classes
from oxinp.sparse._base import CLASSES, Sparse

_FORMATS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")


def issparse(x: Any) -> bool:
    """See `scipy.sparse.issparse`."""
    return isinstance(x, Sparse)


def isspmatrix(x: Any) -> bool:
    """See `scipy.sparse.isspmatrix`."""
    return isinstance(x, scipy.sparse.spmatrix | CLASSES["csr_matrix"].__mro__[1])


def _is_matrix_of(format_: str) -> Any:
    def front(x: Any) -> bool:
        return isinstance(x, CLASSES[f"{format_}_matrix"])

    return front


def _enter(name: str, function: Any) -> None:
    theirs = getattr(scipy.sparse, name)
    function.__doc__ = theirs.__doc__
    function.__module__, function.__name__, function.__qualname__ = "oxinp.scipy.sparse", name, name
    dispatch.register(theirs, function)


_enter("issparse", issparse)
_enter("isspmatrix", isspmatrix)
for _format in _FORMATS:
    _enter(f"isspmatrix_{_format}", _is_matrix_of(_format))

__all__ = ["implements"]
