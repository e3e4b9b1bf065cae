"""SciPy's modules that are written in Python, executed a second time, over our arrays and classes.

Most of `scipy.sparse` that is no compiled loop is Python on top of NumPy: constructions, linear operators, iterative
solvers. Such a module's source is executed again, with imports bound to ours: NumPy's and SciPy's public modules are
oxinp's, modules of `MODULES` are executed as well, and of other private ones objects are replaced by what is registered
for them. So vectors stay on the device, with SciPy's own steps and iteration counts.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import importlib.util
import inspect
import operator
from collections.abc import Callable
from threading import RLock
from types import ModuleType
from typing import Any

import numpy as np
import scipy

from oxinp._api.fronts import find_theirs, implements
from oxinp._api.modules import adapted
from oxinp._api.submodule_rows import SUBMODULES
from oxinp._core.array import dispatch
from oxinp._core.host.exchange import is_array
from oxinp._core.host.fallback import placed_on_host
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.ops import sort
from oxinp._core.ops import sparse as ops
from oxinp._core.ops.perform import perform_on_device
from oxinp._runtime.forking import free_in_children
from oxinp.sparse._base import is_small
from oxinp.sparse._rows import taken

_LINALG = "scipy.sparse.linalg."

MODULES = frozenset(
    {
        "scipy.sparse._construct",
        "scipy.sparse._extract",
        "scipy.sparse._sputils",
        "scipy.sparse.csgraph._laplacian",
        *[f"{_LINALG}{name}" for name in ("_interface", "_norm", "_onenormest", "_expm_multiply", "_matfuncs")],
        f"{_LINALG}_eigen.lobpcg.lobpcg",
        *[
            f"{_LINALG}_isolve.{name}"
            for name in ("utils", "iterative", "_gcrotmk", "lgmres", "lsmr", "lsqr", "minres", "tfqmr")
        ],
    }
)

_executed: dict[str, ModuleType] = {}
_executing: dict[str, ModuleType] = {}
_LOCK = free_in_children(RLock())


def executed(name: str) -> ModuleType:
    """Return SciPy's module of a name, one of `MODULES`, over our arrays; executed when it is first asked for.

    Raises
    ------
    Unsupported
        The installed SciPy's module imports what there is no other of: SciPy's own has to do.
    """
    made = _executed.get(name)
    if made is None:
        with _LOCK:
            made = _executed.get(name) or _execute(name)
    return made


def _execute(name: str) -> ModuleType:
    made = _executing.get(name)  # from inside, a circle of imports sees what is there, as in Python
    if made is not None:
        return made
    theirs = importlib.import_module(name)
    made = _executing[name] = ModuleType(name, theirs.__doc__)
    scope = {**vars(builtins), "__import__": _import}
    made.__dict__.update(__package__=name.rpartition(".")[0], __file__=theirs.__file__, __builtins__=scope)
    try:
        code = compile(inspect.getsource(theirs), str(theirs.__file__), "exec", dont_inherit=True)
        exec(code, made.__dict__)  # noqa: S102 - the installed SciPy's own source
    except (ImportError, AttributeError) as error:
        raise Unsupported(f"{name} of SciPy {scipy.__version__} cannot be executed again: {error}") from error
    finally:
        del _executing[name]
    _executed[name] = made  # whole: other threads use it from here on
    return made


def _import(name: str, globals_: Any = None, locals_: Any = None, fromlist: Any = (), level: int = 0) -> Any:
    """Import as Python does, what is ours in the place of NumPy's and SciPy's."""
    if level:
        name = importlib.util.resolve_name("." * level + name, (globals_ or {})["__package__"])
    if name.partition(".")[0] not in ("numpy", "scipy"):
        return builtins.__import__(name, globals_, locals_, fromlist)
    return _module(name if fromlist else name.partition(".")[0])


def _module(name: str) -> Any:
    """Return what stands for a module of NumPy's or SciPy's, or for the one of ours that has its place."""
    ours = SUBMODULES.get(name.removeprefix("oxinp.")) if name.startswith("oxinp.") else None
    if ours is not None:
        return _module(ours.source)
    if name in MODULES:
        return executed(name)
    return _bound(name)


@functools.cache
def _bound(name: str) -> Any:
    """Return the one object that stands for a module which is not executed: SciPy compares namespaces by identity."""
    package, _, below = name.partition(".")
    path = below if package == "numpy" else name
    if not path or path in SUBMODULES:
        return _Bound(name, importlib.import_module(f"oxinp.{path}".rstrip(".")))
    return _Bound(name, importlib.import_module(name))


class _Bound:
    """A module of SciPy's with what is registered for its objects in their place; of public ones, ours has that."""

    def __init__(self, name: str, module: ModuleType) -> None:
        self._name, self._module = name, module

    def __getattr__(self, name: str) -> Any:
        full = f"{self._name}.{name}"
        value = getattr(self._module, name)
        if full in _REPLACED:
            made = _REPLACED[full]
        elif full == f"{_ARRAY_API}np_compat":
            made = _module("numpy")
        elif isinstance(value, ModuleType):
            # A module may be there under another name, as SciPy's `np_compat` is.
            made = value if value.__name__.startswith(_HELPERS) else _module(value.__name__)
        else:
            made = _adapted(value, full) if self._module.__name__ == self._name else value
        setattr(self, name, made)
        return made


def _adapted(value: Any, name: str) -> Any:
    """Return what stands for an object of a private module: functions about arguments and versions stay SciPy's."""
    return value if name.startswith(_HELPERS) else adapted(value, name)


_HELPERS = ("scipy._lib.", "scipy._external.")


# -- BLAS of vectors, which SciPy looks up by the types of arrays ------------------------------------------------------


def _axpy(x: Any, y: Any, n: Any = None, a: Any = 1.0) -> Any:  # noqa: ARG001 - BLAS' signature
    y += a * x
    return y


def _scal(a: Any, x: Any) -> Any:
    x *= a
    return x


def _ours(theirs: Any) -> Callable[..., Any]:
    def function(*vectors: Any) -> Any:
        return dispatch.functions[theirs](*vectors)

    return function


_BLAS: dict[str, Callable[..., Any]] = {
    "axpy": _axpy,
    "scal": _scal,
    "dot": _ours(np.dot),
    "dotc": _ours(np.vdot),
    "nrm2": _ours(np.linalg.norm),
}


def get_blas_funcs(names: Any, arrays: Any = (), dtype: Any = None, **options: Any) -> Any:
    """Return BLAS' functions of vectors, over our arrays; see `scipy.linalg.get_blas_funcs`."""
    wanted = [names] if isinstance(names, str) else list(names)
    if not all(name in _BLAS for name in wanted) or not any(map(is_array, arrays)):
        return importlib.import_module("scipy.linalg").get_blas_funcs(names, arrays, dtype, **options)
    is_complex = any(array.dtype.kind == "c" for array in arrays)
    found = [_BLAS["dotc" if name == "dot" and is_complex else name] for name in wanted]
    return found[0] if isinstance(names, str) else found


# -- compiled loops of SciPy's that write to arrays --------------------------------------------------------------------


def _csr_hstack(count: int, num_rows: int, widths: Any, indptrs: Any, indices: Any, data: Any, *outputs: Any) -> None:
    """Put matrices in CSR side by side; their arrays, one after the other, and the result's."""
    rows, columns, counts, shift, start = [], [], [], 0, 0
    for i in range(count):
        indptr = indptrs[i * (num_rows + 1) : (i + 1) * (num_rows + 1)].copy()
        size = int(indptr[-1])
        counts.append(indptr)
        if size:
            rows.append(perform_on_device(ops.ROW_NUMBERS, (indptr,), (size,)))
            columns.append(indices[start : start + size] + indices.dtype.type(shift))
        start, shift = start + size, shift + int(widths[i])
    out_indptr, out_indices, out_data = outputs
    out_indptr[...] = functools.reduce(operator.add, counts)
    if rows:
        concatenate = dispatch.functions[np.concatenate]
        order = sort.argsort(concatenate(rows))
        out_indices[...] = taken(concatenate(columns), order)
        out_data[...] = taken(data, order)


def _asarray(value: Any, dtype: Any = None, **options: Any) -> Any:
    """As `numpy.asarray`; lists of sparse objects are NumPy's arrays of objects, which nobody computes with."""
    asarray: Any = np.asarray if dtype in ("object", object) else dispatch.functions[np.asarray]
    return asarray(value, dtype, **options)


def _asarray_of(value: Any, dtype: Any = None, order: Any = None, **options: Any) -> Any:  # noqa: ARG001 - SciPy's
    return _asarray(value, dtype)


def _namespace_of(*arrays: Any, **options: Any) -> Any:  # noqa: ARG001 - SciPy's signature
    return _module("numpy")


_ARRAY_API = "scipy._lib._array_api."
_REPLACED: dict[str, Any] = {
    "numpy.asarray": _asarray,
    f"{_ARRAY_API}_asarray": _asarray_of,
    f"{_ARRAY_API}array_namespace": _namespace_of,
    "scipy.linalg.get_blas_funcs": get_blas_funcs,
    "scipy.sparse._sparsetools.csr_hstack": _csr_hstack,
}


def composed(name: str, module: str, compute: Callable[..., Any] | None = None) -> None:
    """Register SciPy's own code of a function, over our arrays; small problems stay SciPy's.

    Parameters
    ----------
    name : str
        Dotted, of a function of SciPy's.
    module : str
        One of `MODULES`, which defines it.
    compute : callable, optional
        Does the same faster, where there is no ``callback``.
    """
    theirs, last = find_theirs(name), name.rpartition(".")[2]

    def function(*args: Any, **kwargs: Any) -> Any:
        values = (*args, *kwargs.values())
        if is_small(*values) and not any(map(_is_active, values)):
            return placed_on_host(theirs, args, kwargs)
        if compute is not None and kwargs.get("callback") is None:
            return compute(*args, **{key: value for key, value in kwargs.items() if not key.startswith("callback")})
        return getattr(executed(module), last)(*args, **kwargs)

    function.__wrapped__ = theirs  # type: ignore[attr-defined] # whose signature it has
    implements(name)(function)


def _is_active(value: Any) -> bool:
    """Whether a value is a function of the user's, or an operator, which is to get our arrays."""
    return callable(value) or hasattr(value, "matvec")


__all__ = ["MODULES", "composed", "executed"]
