"""The generalised ufuncs, which work on vectors and matrices inside arrays. One row each."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from oxinp._config import config
from oxinp._core.errors.hearing import attributed, call_numerical
from oxinp._core.host.fallback import call
from oxinp._core.lazy import explain, placement
from oxinp._core.lazy.array_protocol import numpys
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import Handle, host_view, is_writeable, stored
from oxinp._core.lazy.inlining import compiled
from oxinp._core.lazy.operands import declined, declined_in_place, operand, operand_in_place, other_side
from oxinp._core.lazy.record import is_hosted
from oxinp._core.lazy.results import as_array, types, wrap_host
from oxinp._core.lazy.stores import check_writeable
from oxinp._core.lazy.views import view
from oxinp._core.manipulation.copy import assign, astype, copy, order_of
from oxinp._core.memory.layout import Layout
from oxinp._core.ops import matmul
from oxinp._core.ops.product import HOST_WEIGHT
from oxinp._core.subclass import SUBCLASSES, leader
from oxinp._core.ufunc.object import ufunc
from oxinp._core.ufunc.table import UfuncRow


class GufuncRow(NamedTuple):
    """A generalised ufunc of two operands.

    Attributes
    ----------
    numpy : numpy.ufunc
    compute : callable
        (array, array) -> its result, on the device; raises Unsupported where that has no kernel. With `widened`, a
        third argument is the loop's dtype.
    cost : callable
        (layout, layout) -> what placement compares to the threshold; raises what NumPy raises for their shapes.
    widened : dict
        For a dtype of both operands the dtypes of loops that take them as they are.
    """

    numpy: np.ufunc
    compute: Callable[..., Any]
    cost: Callable[[Layout, Layout], float]
    widened: dict[np.dtype[Any], tuple[np.dtype[Any], ...]] = {}  # noqa: RUF012 - a NamedTuple's default, never written to


def _nbytes(left: Layout, right: Layout) -> float:
    return max(left.nbytes, right.nbytes)


_COMPUTE: dict[str, tuple[Any, ...]] = {
    "matmul": (matmul.matmul, matmul.cost, matmul.WIDENED),
    "vecdot": (matmul.vecdot, _nbytes),
    "matvec": (matmul.matvec, _nbytes),
    "vecmat": (matmul.vecmat, _nbytes),
}
# THE TABLE, of those that this NumPy has
GUFUNCS = {name: GufuncRow(getattr(np, name), *row) for name, row in _COMPUTE.items() if hasattr(np, name)}


_KEYWORDS = {"axes", "axis", "keepdims", "dtype", "signature", "casting", "order", "subok"}


# What an element of matrices of few elements costs is below 16 bytes; of others placement asks for more.
_PRODUCT_TEXT = """
def make(others, general, function, bound, is_host, weight):
    def operator(a, b):
        if type(b) is not ndarray or type(a) is not ndarray:
            return others(a, b)
        if REPORTS:
            return general(a, b)
        x = seen(a) else return general(a, b)
        y = seen(b) else return general(a, b)
        known = None
        if x.ndim == 1 or y.ndim == 1:  # elements are used once: their bytes are what it takes
            if a._known is FEW is b._known:
                known = FEW
            else:
                m = x.size
                n = y.size
                cost = (m if m > n else n) * (8 if x.itemsize <= 8 >= y.itemsize else 16)
                if cost >= config.offload_threshold and not is_host(cost, weight):
                    return general(a, b)
        elif not 0 < x.size * y.size * 16 < config.offload_threshold:
            limit = config.offload_threshold
            n = x.size * y.size
            k = len(y) if y.ndim == 2 else 0  # of matrices, `bound` spelled out
            is_small = 0 < n * 16 < limit * k * k and n < limit * k * FLOPS_PER_BYTE and x.nbytes < limit > y.nbytes
            if not is_small and not is_host(bound(x, y), weight):
                return general(a, b)
        result = called(function, x, y) else return general(a, b)
        return array_of(result, known)
    return operator
"""
_product = compiled("products", _PRODUCT_TEXT, may_warn=True, names={"FLOPS_PER_BYTE": matmul.FLOPS_PER_BYTE})


class gufunc(ufunc):  # noqa: N801 - as `ufunc`
    """A generalised ufunc; see `numpy.ufunc`."""

    __slots__ = ("_cost", "_loops", "_of_hosts", "_product", "_widened")

    def __init__(self, row: GufuncRow) -> None:
        self._stand_for(UfuncRow(row.numpy, {}))
        self._product = row.compute
        self._cost = row.cost
        self._of_hosts = attributed(row.numpy, 2)
        self._widened = row.widened
        self._loops: dict[Any, tuple[Any, tuple[Any, ...]]] = {}
        self._plain = self.of_two
        if row.numpy is np.matmul:
            self._plain = operator.matmul  # by the slot

    def __call__(self, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is None and not kwargs and len(args) == 2 and type(args[0]) is type(args[1]) is types.ndarray:
            return self._plain(*args)
        numpy_ufunc = self._row.numpy
        if out is ... and len(args) == numpy_ufunc.nin:
            return as_array(self(*args, **kwargs))
        if type(out) is tuple and len(out) == 1:
            out = out[0]
        if out is None and len(args) == numpy_ufunc.nin + 1:
            *args, out = args  # type: ignore[assignment]
        if SUBCLASSES and leader((*args, out)) is not None:
            return numpy_ufunc(*args, **kwargs, **({} if out is None else {"out": out}))  # which asks users' classes
        operands = [operand(value) for value in args]
        given = {**kwargs, **({} if out is None else {"out": out})}
        if any(value is NotImplemented for value in operands):
            return numpy_ufunc(*args, **given)  # which asks them
        if (
            not kwargs.keys() <= _KEYWORDS
            or len(args) != numpy_ufunc.nin
            or not (out is None or type(out) is types.ndarray)
            or (out is not None and out._layout.dtype.hasobject)  # those before one that raises are written
        ):
            return call(numpy_ufunc, tuple(args), given, name=self.__name__)
        if out is None and not any(isinstance(value, Handle) for value in operands):
            return numpy_ufunc(*operands)
        arrays = [value if isinstance(value, Handle) else types.from_host(numpys(value)) for value in operands]
        if out is not None:
            check_writeable(out)  # before NumPy refuses anything else of it
        try:
            if kwargs:
                return self._with_keywords(arrays, out, kwargs)
            if out is not None:  # NumPy refuses dtypes before shapes
                numpy_ufunc.resolve_dtypes((*[array._layout.dtype for array in arrays], out._layout.dtype))
            result = self._of_arrays(arrays)
        except Unsupported:
            return call(numpy_ufunc, tuple(args), given, name=self.__name__)
        if out is None:
            return result
        shape = np.shape(result)
        if out._layout.shape[out._layout.ndim - len(shape) :] != shape:
            numpy_ufunc(*[_repeated(array) for array in arrays], out=np.empty(out._layout.shape, out._layout.dtype))
        return _into(out, result)

    accuracy = "sums in another order than NumPy's, at least as accurate as pairwise ones"

    @property
    def note(self) -> str:
        """See `ufunc`."""
        return f"Computed on the device: {self.accuracy}."

    def of_two(self, a: Any, b: Any) -> Any:
        """Return what becomes of two arrays of ours: nothing is to be found out, which takes longer than a launch."""
        x = (a._held or stored(a)).host
        y = (b._held or stored(b)).host
        try:
            if (x is None or y is None) and not (balance.limit and is_hosted((a, b))):
                return self._product(a, b)
            x, y = host_view(a), host_view(b)
            limit = config.offload_threshold
            m, n = x.size * 16, y.size  # at most what an element costs
            is_light = (m < limit and n * 16 < limit) if y.ndim == 1 else 0 < m * n < limit
            is_light = is_light or (bound := matmul.bound(x, y)) < limit or balance.takes(bound, HOST_WEIGHT)
            if is_light and not explain.REPORTS:
                return wrap_host(self._of_hosts(x, y))
            return self._of_arrays((a, b))
        except Unsupported:
            return call(self._row.numpy, (a, b), {}, name=self.__name__)

    def _with_keywords(self, arrays: list[Any], out: Any, keywords: dict[str, Any]) -> Any:
        """Compute in the dtypes and along the axes that are asked for."""
        numpy_ufunc = self._row.numpy
        if out is None and keywords.keys() == {"dtype"} and isinstance(keywords["dtype"], str | type | np.dtype):
            return self._in_loop(arrays, keywords["dtype"])
        # NumPy refuses what it refuses on two elements per axis.
        numpy_ufunc(*map(_miniature, arrays), **keywords, **({} if out is None else {"out": _miniature(out)}))
        signature = keywords.get("signature")
        if keywords.get("dtype") is not None:
            signature = (*[None] * numpy_ufunc.nin, np.dtype(keywords["dtype"]))
        casting = keywords.get("casting", "same_kind")
        loop, dtypes = self._resolved(tuple(array._layout.dtype for array in arrays), signature, casting)
        arrays = _cast(arrays, dtypes)
        *inputs, last = _core_axes(numpy_ufunc, [array._layout.ndim for array in arrays], keywords)
        moved = [_with_axes(x, axes, is_source=True) for x, axes in zip(arrays, inputs, strict=True)]
        result = self._of_arrays(moved, loop)
        if keywords.get("keepdims"):
            result = view(types.from_host(np.asarray(result)) if not isinstance(result, Handle) else result, _kept)
        if isinstance(result, Handle):
            result = _with_axes(result, last, is_source=False)
        if out is not None:
            return _into(out, result, casting)
        if order_of(keywords.get("order"), "K") == "F":
            return copy(result, "F") if np.ndim(result) else result
        if isinstance(result, types.ndarray) and result._view is not None:
            result._view = (None, True)  # nobody else has what it is a view of
        return result

    def _in_loop(self, arrays: list[Any], dtype: Any) -> Any:
        """Compute in a dtype; what NumPy makes of it is asked once."""
        key = (dtype, *[array._layout.dtype for array in arrays])
        found = self._loops.get(key)
        if found is None:
            signature = (*[None] * self._row.numpy.nin, np.dtype(dtype))
            found = self._loops[key] = self._resolved(key[1:], signature, "same_kind")
        loop, dtypes = found
        return self._of_arrays(_cast(arrays, dtypes), loop)

    def _resolved(self, given: tuple[Any, ...], signature: Any, casting: Any) -> tuple[Any, tuple[Any, ...]]:
        """The dtype of a loop that takes operands as they are, else None; what they are cast to before."""
        options = {} if signature is None else {"signature": signature}
        dtypes = self._row.numpy.resolve_dtypes((*given, None), casting=casting, **options)
        if len({*given}) == len({*dtypes}) == 1 and dtypes[-1] in self._widened.get(given[0], ()):
            return dtypes[-1], given
        return None, dtypes[:-1]

    def _of_arrays(self, arrays: Sequence[Any], loop: Any = None) -> Any:
        if is_hosted(arrays) and placement.takes_to_host(
            self.__name__, self._cost(arrays[0]._layout, arrays[1]._layout), HOST_WEIGHT
        ):
            return wrap_host(call_numerical(self._row.numpy, [host_view(x) for x in arrays], {"dtype": loop}))
        return self._product(*arrays) if loop is None else self._product(*arrays, loop)

    def __reduce__(self) -> Any:
        return _named, (self.__name__,)


def _cast(arrays: list[Any], dtypes: tuple[Any, ...]) -> list[Any]:
    return [
        array if array._layout.dtype is dtype else astype(array, dtype, copy_wanted=False)
        for array, dtype in zip(arrays, dtypes, strict=True)
    ]


def _kept(seen: Any) -> Any:
    return seen[..., None]


def _core_axes(numpy_ufunc: np.ufunc, ndims: list[int], keywords: dict[str, Any]) -> list[tuple[int, ...]]:
    """Return where the core dimensions of every operand and of the result are; -1 is the last axis."""
    terms = [re.findall(r"\w+\??", term) for term in re.findall(r"\(.*?\)", numpy_ufunc.signature or "")]
    absent = {
        name
        for term, ndim in zip(terms, ndims, strict=False)
        for name in term
        if name.endswith("?") and ndim < len(term)
    }
    cores = [sum(name not in absent for name in term) for term in terms]
    if keywords.get("keepdims"):
        cores[-1] = cores[0]
    if "axis" in keywords:
        return [(keywords["axis"],) * core for core in cores]
    given = keywords.get("axes")
    if given is None:
        return [tuple(range(-core, 0)) for core in cores]
    if len(given) < len(cores) and cores[-1]:
        raise Unsupported("axes of the result that are left out")
    entries = [entry if isinstance(entry, tuple) else (entry,) for entry in given]
    return [*entries, *[()] * (len(cores) - len(entries))]


def _with_axes(array: Any, axes: tuple[int, ...], *, is_source: bool) -> Any:
    """Move axes to the end (or, of a result, from there)."""
    last = tuple(range(-len(axes), 0))
    if axes == last:
        return array
    moves = (axes, last) if is_source else (last, axes)
    return view(array, lambda seen: np.moveaxis(seen, *moves))


def _miniature(array: Any) -> Any:
    """Return an array of ones with the dtype of one of ours and at most two elements along each axis."""
    return np.ones([min(n, 2) for n in array._layout.shape], array._layout.dtype)


def _repeated(array: Any) -> Any:
    """Return an array for NumPy to judge by its shape, of one element."""
    return np.broadcast_to(np.zeros((), array._layout.dtype), array._layout.shape)


def _into(out: Any, result: Any, casting: Any = "same_kind") -> Any:
    """Write a result that was computed beside `out` into it, as a ufunc's; it may overlap the operands."""
    check_writeable(out)
    dtype, shape = result.dtype, np.shape(result)
    if not np.can_cast(dtype, out._layout.dtype, casting):
        np.add(np.empty(0, dtype), np.empty(0, dtype), out=np.empty(0, out._layout.dtype))
    if out._layout.shape[out._layout.ndim - len(shape) :] != shape:
        np.broadcast_to(np.empty(shape, np.bool_), out._layout.shape)  # NumPy has looked at what is no loop
    assign(out, result)
    return out


def _named(name: str) -> gufunc:
    return GUFUNC_OBJECTS[name]


GUFUNC_OBJECTS = {name: gufunc(row) for name, row in GUFUNCS.items()}


def operator_methods() -> dict[str, Any]:
    """Return ``a @ b``, ``b @ a`` and ``a @= b``, for the class body of `ndarray`."""
    product = GUFUNC_OBJECTS["matmul"]

    def __matmul__(self: Any, other: Any) -> Any:  # noqa: N807 - what it becomes
        if other_side(other) is NotImplemented:
            return declined(np.matmul, operator.matmul, self, other)
        return product(self, other)

    def __rmatmul__(self: Any, other: Any) -> Any:  # noqa: N807
        if other_side(other) is NotImplemented:
            return declined(np.matmul, operator.matmul, other, self)
        return product(other, self)

    def __imatmul__(self: Any, other: Any) -> Any:  # noqa: N807
        given, other = other, operand_in_place(other)
        if other is NotImplemented:
            return declined_in_place(np.matmul, self, given)
        if not self.ndim or np.ndim(other) < 2:
            dtype = other.dtype if hasattr(other, "dtype") else np.asarray(other).dtype
            stand_in = np.zeros([1] * self.ndim, self.dtype)
            stand_in.flags.writeable = is_writeable(self)
            stand_in @= np.zeros([1] * np.ndim(other), dtype)  # NumPy's own error
        return product(self, other, out=self)

    made = _product(__matmul__, product.of_two, np.matmul, matmul.bound, placement.is_host, HOST_WEIGHT)
    return {"__matmul__": made, "__rmatmul__": __rmatmul__, "__imatmul__": __imatmul__}
