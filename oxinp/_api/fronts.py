"""How a name of NumPy's or SciPy's becomes one of ours: the ways that the coverage table's kinds name.

A native or composed function is written in a chapter here, or in the `_api` of a public package, with NumPy's or
SciPy's signature, and registered by `implements`, so that NumPy's own function finds it too when it is called on our
arrays. A host function is made from NumPy's or SciPy's when the name is first used.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from inspect import unwrap
from types import FunctionType, GeneratorType
from typing import Any

import numpy as np

from oxinp._core import documentation
from oxinp._core.array import dispatch
from oxinp._core.host.exchange import PLAIN, is_array
from oxinp._core.host.fallback import KEPT, OUT, Mutated, call
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.operands import mask_operand
from oxinp._core.lazy.results import types
from oxinp._core.ops.creation import asarray
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.scan import accumulate
from oxinp._core.reduction.table import ReductionRow, ScanRow
from oxinp._core.subclass import SUBCLASSES, call_function, leader
from oxinp._core.ufunc.object import ufunc
from oxinp._core.ufunc.table import UfuncRow

Function = Callable[..., Any]

# What a function that calls back a function of the user's may write to: the views that it calls it with.
CALLS_BACK: tuple[Mutated, ...] = ("*",)


def implements(
    *names: str,
    is_hosted: bool = True,
    most: Callable[[tuple[Any, ...]], float] | None = None,
    ahead: Callable[..., Any] | None = None,
    of_lists: bool = False,
) -> Callable[[Function], Function]:
    """Register a function for NumPy's or SciPy's; where it raises `Unsupported`, they compute.

    Parameters
    ----------
    *names : str
        Of theirs, as `find_theirs` takes them; what the installed version has not is passed over.
    is_hosted : bool
        Let NumPy compute on what is small and on the host, without asking the function; not for what makes views.
    most : callable, optional
        How many elements results have at most, see `dispatch.with_fallback`.
    ahead : callable, optional
        What is asked before of arrays that are on the device, see `dispatch.with_fallback`.
    of_lists : bool
        It is asked of lists and tuples.

    Returns
    -------
    callable
        A decorator that leaves the function as it is: other chapters build on it.
    """

    def enter(function: Function) -> Function:
        for name in names:
            theirs = find_theirs(name)
            if theirs is not None:
                front = dispatch.with_fallback(
                    function, theirs, name, is_hosted=is_hosted, most=most, ahead=ahead, of_lists=of_lists
                )
                _enter(name, theirs, front, function)
        return function

    return enter


def find_theirs(name: str) -> Any:
    """Return NumPy's or SciPy's object of a name, None where the installed version has none.

    Parameters
    ----------
    name : str
        Dotted, of NumPy's below ``numpy``: ``sum``, ``linalg.solve``, ``scipy.linalg.lu``.
    """
    module, _, last = (name if name.startswith("scipy.") else f"numpy.{name}").rpartition(".")
    return getattr(importlib.import_module(module), last, None)


def enter_without_reading(numpys: Function, name: str, *, all_arguments: bool = False) -> None:
    """Register a function that makes views or looks at shapes and dtypes: NumPy's own code, no element moved.

    Parameters
    ----------
    numpys : callable
    name : str
        Its dotted name below ``numpy``.
    all_arguments : bool
        Whether every argument is only looked at, or the first alone.
    """
    _enter(name, numpys, dispatch.without_reading(numpys, name, all_arguments=all_arguments), numpys)


def _enter(name: str, theirs: Function, front: Function, signature: Function) -> None:
    # One object per function, as in NumPy, where concat is concatenate.
    dispatch.register(theirs, describe(front, theirs, name, signature))


def describe(front: Any, numpys: Any, name: str, signature: Any = None) -> Any:
    """Give a function the name (see `find_theirs`), documentation and signature of NumPy's or SciPy's."""
    module, _, last = f"oxinp.{name}".rpartition(".")
    own = getattr(numpys, "__name__", last)
    # An alias, like permute_dims, has its function's name; what is called otherwise than it can be found, its own.
    front.__name__ = front.__qualname__ = own if getattr(np, own, None) is numpys else last
    front.__module__ = module
    front.__doc__ = numpys.__doc__
    # The signature is theirs; before NumPy 2.4 its functions in C tell none.
    is_told = signature is None or _TELLS_SIGNATURES or isinstance(unwrap(numpys), FunctionType)
    front.__wrapped__ = numpys if is_told else signature
    for told in ("__signature__", "__text_signature__"):  # attributes that NumPy's functions in C have
        value = getattr(numpys, told, None)
        if value is not None:
            setattr(front, told, value)
    front.ours = signature
    return front


_TELLS_SIGNATURES = np.lib.NumpyVersion(np.__version__) >= "2.4.0"


def host_function(numpys: Function, name: str, mutates: tuple[Mutated, ...] = OUT) -> Function:
    """Return a function that NumPy or SciPy computes on the host.

    Parameters
    ----------
    numpys : callable
        Theirs.
    name : str
        What it is counted as: ``cumsum``, ``linalg.svd``, ``scipy.linalg.lu``.
    mutates : tuple
        The arguments that it writes to; a function among them may write to all others, with which it is called.
    """
    dispatch.names.setdefault(numpys, name)
    if mutates is not OUT:
        dispatch.mutates.setdefault(numpys, mutates)

    def front(*args: Any, **kwargs: Any) -> Any:
        if SUBCLASSES and (result := call_function(numpys, args, kwargs)) is not NotImplemented:
            return result
        if "like" in kwargs and (result := dispatch.ask_like(numpys, args, kwargs)) is not dispatch.NOT_DONE:
            return result
        written = CALLS_BACK if any(map(_is_callback, (*args, *kwargs.values()))) and KEPT not in mutates else mutates
        result = call(numpys, args, kwargs, name=name, mutates=written)
        return HostUfunc.of(result) if type(result) is np.ufunc else result

    described: Function = describe(front, numpys, name)
    return described


def _is_callback(value: Any) -> bool:
    return callable(value) and not isinstance(value, type)


class HostUfunc(ufunc):
    """A ufunc that NumPy or SciPy computes on the host; see `numpy.ufunc`."""

    __slots__ = ("_counted_name",)

    def __init__(self, numpy_ufunc: np.ufunc, name: str) -> None:
        self._stand_for(UfuncRow(numpy_ufunc, {}))
        self.operations = self.methods = ()
        self._counted_name = name

    @classmethod
    def of(cls, numpy_ufunc: np.ufunc, name: str = "") -> Any:
        """Return ours for a ufunc of NumPy's or SciPy's, one object for each; `name` is what it is counted as."""
        made = dispatch.ufuncs.get(numpy_ufunc)
        return dispatch.register(numpy_ufunc, cls(numpy_ufunc, name or numpy_ufunc.__name__)) if made is None else made

    @property
    def counted_name(self) -> str:
        """See `ufunc`."""
        return self._counted_name

    accuracy = "NumPy's or SciPy's own"

    @property
    def note(self) -> str:
        """See `ufunc`."""
        return documentation.ON_THE_HOST

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if SUBCLASSES and leader((*args, *kwargs.values())) is not None:
            return self._row.numpy(*args, **kwargs)  # which asks users' classes
        if not kwargs and all(type(x) in PLAIN for x in args):
            return self._row.numpy(*args)  # scalars are nobody's work but NumPy's
        return call(self._row.numpy, args, kwargs, name=self.counted_name)

    def __reduce__(self) -> Any:
        return HostUfunc.of, (self._row.numpy, self._counted_name)


def refused(theirs: Any, name: str, reason: str) -> Function:
    """Return a function that says why there is none."""

    def front(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"oxinp has no {name}: {reason}")

    described: Function = describe(front, theirs, name)
    return described


def as_ours(value: Any) -> Any:
    """Return an array_like as an array of ours."""
    if type(value) is types.ndarray:
        return value
    if isinstance(value, GeneratorType):
        raise Unsupported("a generator")
    return value if is_array(value) else asarray(value)


def cumulated(row: ScanRow, a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the scan of an array_like; see `ops.scan.accumulate` for the arguments."""
    if (out is not None and not is_array(out)) or (isinstance(a, np.ndarray) and type(a) is not np.ndarray):
        raise Unsupported("a NumPy array to write to, or a subclass to pass through")
    return accumulate(row, as_ours(a), axis, dtype, out)


def reduced(row: ReductionRow, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, **options: Any) -> Any:
    """Return the reduction of an array_like; see `ops.reduce.reduce` for the arguments, `np._NoValue` for none."""
    if (out is not None and not is_array(out)) or (isinstance(a, np.ndarray) and type(a) is not np.ndarray):
        raise Unsupported("a NumPy array to write to, or a subclass to pass through")
    given = {name: value for name, value in options.items() if value is not np._NoValue}
    for name, convert in (("where", mask_operand), ("mean", as_ours)):
        if name in given and type(given[name]) is not bool:
            given[name] = convert(given[name])
            if given[name] is NotImplemented:
                raise Unsupported("a mask that has a say of its own")
    if "correction" in given:
        if given.get("ddof", 0) != 0:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        given["ddof"] = given.pop("correction")
    return reduce(row, as_ours(a), axis, dtype, out, **given)
