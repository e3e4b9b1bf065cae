"""Functions of `scipy.sparse` over our classes; importing it makes these."""

from __future__ import annotations

from typing import Any

import scipy.sparse

from oxinp._api.fronts import implements
from oxinp._core.array import dispatch
from oxinp._core.lazy.expr import Unsupported
from oxinp.sparse import _classes  # noqa: F401 - which makes the classes
from oxinp.sparse._base import CLASSES, Sparse
from oxinp.sparse._executed import composed, executed

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

# THE FUNCTIONS that are SciPy's own code over our arrays, by the module that defines them.
_COMPOSED = {
    "_construct": (
        "eye eye_array identity diags diags_array spdiags kron kronsum hstack vstack bmat block_array block_diag "
        "random random_array rand expand_dims swapaxes"
    ),
    "_extract": "find tril triu",
}
for _module, _names in _COMPOSED.items():
    for _name in _names.split():
        if hasattr(scipy.sparse, _name):
            composed(f"scipy.sparse.{_name}", f"scipy.sparse.{_module}")


@implements("scipy.sparse.permute_dims", is_hosted=False)
def permute_dims(A: Any, axes: Any = None, copy: bool = False) -> Any:  # noqa: ARG001 - SciPy's signature
    """See `scipy.sparse.permute_dims`; what is given stays as it is, where SciPy's function may change its shape."""
    if not isinstance(A, Sparse):
        raise Unsupported("what is no sparse object of ours")
    return executed("scipy.sparse._construct").permute_dims(A, axes, copy=True)
