"""How a name of NumPy's becomes one of ours: the ways that the coverage table's kinds name.

A native or composed function is written in the chapters with NumPy's signature and entered by `implements`, so that
NumPy's own function finds it too when it is called on our arrays. A host function is made from NumPy's when the name is
first used.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import GeneratorType
from typing import Any

import numpy as np

from oxinp._core.array import dispatch
from oxinp._core.host.exchange import is_array
from oxinp._core.host.fallback import OUT, Mutated, call
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.ops.creation import asarray
from oxinp._core.ops.gufuncs import GUFUNC_OBJECTS, GUFUNCS
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.scan import accumulate
from oxinp._core.reduction.table import ReductionRow, ScanRow
from oxinp._core.subclass import SUBCLASSES, call_function, leader
from oxinp._core.ufunc.object import ufunc
from oxinp._core.ufunc.objects import ROWS, UFUNC_OBJECTS
from oxinp._core.ufunc.table import UfuncRow

Function = Callable[..., Any]


def implements(*names: str, is_hosted: bool = True) -> Callable[[Function], Function]:
    """Enter a function under NumPy's names, dotted below ``numpy``; where it raises `Unsupported`, NumPy computes.

    Parameters
    ----------
    *names : str
    is_hosted : bool
        Let NumPy compute on what is small and on the host, without asking the function; not for what makes views.

    Returns
    -------
    callable
        A decorator that leaves the function as it is: other chapters build on it.
    """

    def enter(function: Function) -> Function:
        for name in names:
            module, _, last = f"numpy.{name}".rpartition(".")
            numpys = getattr(operator.attrgetter(module[6:])(np) if module != "numpy" else np, last, None)
            if numpys is not None:
                _enter(name, numpys, dispatch.with_fallback(function, numpys, name, is_hosted=is_hosted), function)
        return function

    return enter


def enter_without_reading(numpys: Function, name: str, *, all_arguments: bool = False) -> None:
    """Enter a function of NumPy's that makes views or looks at shapes and dtypes: NumPy's own code, no element moved.

    Parameters
    ----------
    numpys : callable
    name : str
        Its dotted name below ``numpy``.
    all_arguments : bool
        Whether every argument is only looked at, or the first alone.
    """
    _enter(name, numpys, dispatch.without_reading(numpys, name, all_arguments=all_arguments), numpys)


def _enter(name: str, numpys: Function, front: Function, signature: Function) -> None:
    # One object per function, as in NumPy, where concat is concatenate.
    dispatch.functions.setdefault(numpys, describe(front, numpys, name, signature))


def describe(front: Any, numpys: Any, name: str, signature: Any = None) -> Any:
    """Give a function the name (dotted, below ``numpy``), documentation and signature of NumPy's."""
    module, _, last = f"oxinp.{name}".rpartition(".")
    own = getattr(numpys, "__name__", last)
    # An alias, like permute_dims, has its function's name; what is called otherwise than it can be found, its own.
    front.__name__ = front.__qualname__ = own if getattr(np, own, None) is numpys else last
    front.__module__ = module
    front.__doc__ = numpys.__doc__
    front.__wrapped__ = numpys if signature is None else signature
    return front


def host_function(numpys: Function, name: str, mutates: tuple[Mutated, ...] = OUT) -> Function:
    """Return a function that NumPy computes on the host, counted as `name`: ``cumsum``, ``linalg.svd``."""

    def front(*args: Any, **kwargs: Any) -> Any:
        if SUBCLASSES and (result := call_function(numpys, args, kwargs)) is not NotImplemented:
            return result
        result = call(numpys, args, kwargs, name=name, mutates=mutates)
        return HostUfunc.of(result) if type(result) is np.ufunc else result

    described: Function = describe(front, numpys, name)
    return described


class HostUfunc(ufunc):
    """A ufunc that NumPy computes on the host; see `numpy.ufunc`."""

    __slots__ = ()

    _made: dict[Any, Any] = {  # noqa: RUF012
        **{row.numpy: UFUNC_OBJECTS[name] for name, row in ROWS.items()},
        **{row.numpy: GUFUNC_OBJECTS[name] for name, row in GUFUNCS.items()},
    }

    def __init__(self, numpy_ufunc: np.ufunc) -> None:
        self._row = UfuncRow(numpy_ufunc, {})
        self.operations = self.methods = ()
        self._plain = None

    @classmethod
    def of(cls, numpy_ufunc: np.ufunc) -> Any:
        """Return ours for a ufunc of NumPy's, one object for each."""
        made = cls._made.get(numpy_ufunc)
        if made is None:
            made = cls._made[numpy_ufunc] = cls(numpy_ufunc)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if SUBCLASSES and leader((*args, *kwargs.values())) is not None:
            return self._row.numpy(*args, **kwargs)  # which asks users' classes
        return call(self._row.numpy, args, kwargs, name=self.__name__)

    def __reduce__(self) -> Any:
        return HostUfunc.of, (self._row.numpy,)


def refused(name: str, reason: str) -> Function:
    """Return a function that says why there is none."""

    def front(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"oxinp has no {name}: {reason}")

    described: Function = describe(front, getattr(np, name), name)
    return described


def as_ours(value: Any) -> Any:
    """Return an array_like as an array of ours."""
    if isinstance(value, GeneratorType):
        raise Unsupported("a generator")
    return value if is_array(value) else asarray(value)


def cumulated(row: ScanRow, a: Any, axis: Any, dtype: Any, out: Any) -> Any:
    """Return the scan of an array_like; see `ops.scan.accumulate` for the arguments."""
    if (out is not None and not is_array(out)) or (isinstance(a, np.ndarray) and type(a) is not np.ndarray):
        raise Unsupported("a NumPy array to write to, or a subclass to pass through")
    return accumulate(row, as_ours(a), axis, dtype, out)


def reduced(row: ReductionRow, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, **options: Any) -> Any:
    """Return the reduction of an array_like; see `ops.reduce.reduce` for the arguments, `np._NoValue` for none."""
    if (out is not None and not is_array(out)) or (isinstance(a, np.ndarray) and type(a) is not np.ndarray):
        raise Unsupported("a NumPy array to write to, or a subclass to pass through")
    given = {name: value for name, value in options.items() if value is not np._NoValue}
    for name in ("where", "mean"):
        if name in given and type(given[name]) is not bool:
            given[name] = as_ours(given[name])
    return reduce(row, as_ours(a), axis, dtype, out, **given)
