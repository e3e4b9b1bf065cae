"""The class of ufuncs: what `oxinp.add` is, made from a row of the ufunc table."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable
from math import ceil, prod
from operator import attrgetter
from typing import Any

import numpy as np

from oxinp._config import config
from oxinp._core import documentation
from oxinp._core.errors.frames import call_as_user
from oxinp._core.errors.hearing import call_numerical
from oxinp._core.host.exchange import PLAIN
from oxinp._core.host.fallback import call, placed_on_host
from oxinp._core.lazy.array_protocol import REFUSAL
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.explain import REPORTS
from oxinp._core.lazy.expr import Operation, Placed, Unsupported
from oxinp._core.lazy.handle import Handle, compute_into, host_view
from oxinp._core.lazy.inlining import HEAVY, MISSING, compiled
from oxinp._core.lazy.masked import into
from oxinp._core.lazy.operands import mask_operand, of_sequence, operand
from oxinp._core.lazy.placement import is_recorded_on_host
from oxinp._core.lazy.record import apply, paired
from oxinp._core.lazy.results import as_array, is_device_scalar, types, wrap_host, wrap_pending
from oxinp._core.lazy.stores import apply_into, check_writeable, is_host_only
from oxinp._core.manipulation.copy import order_of, readable
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.scan import accumulate
from oxinp._core.reduction.table import BY_UFUNC, SCANS
from oxinp._core.subclass import SUBCLASSES, leader
from oxinp._core.ufunc.along import method_along
from oxinp._core.ufunc.call_texts import CALL_TEXT, INTO_TEXT
from oxinp._core.ufunc.calls import Call, evaluate, signature_of, variant
from oxinp._core.ufunc.into import into_device
from oxinp._core.ufunc.operations import operations_of
from oxinp._core.ufunc.operators import operators, plain_call
from oxinp._core.ufunc.table import UfuncRow


def _describe(kind: type) -> None:
    """Let the instances of a class of ufuncs have NumPy's documentation and signature, and the class its own."""
    made = documentation.OfInstances(kind.__doc__, lambda self: self._documentation())
    kind.__doc__ = made  # type: ignore[assignment]
    kind.__signature__ = documentation.OfInstances(  # type: ignore[attr-defined]
        documentation.NO_PARAMETERS, lambda self: self._row.numpy.__signature__
    )


_module = functools.cache(importlib.import_module)  # late: most programs never ask for it


class UfuncType(type):
    """Makes ``isinstance(numpy_ufunc, oxinp.ufunc)`` true: programs ask whether it is one, not whose it is."""

    def __instancecheck__(cls, instance: object) -> bool:
        return type.__instancecheck__(cls, instance) or (cls is ufunc and type.__instancecheck__(np.ufunc, instance))


class ufunc(metaclass=UfuncType):  # noqa: N801 - NumPy's name
    """A function that works element by element, with NumPy's signature; see `numpy.ufunc`.

    Calls run where placement puts them. What NumPy computes on the host because it has no kernel is counted as a
    fallback.
    """

    __slots__ = (
        *("_arity", "_direct", "_is_light", "_num_inputs", "_numpys", "_plain", "_reach", "_reflected", "_row"),
        *("methods", "operations", *(("__dict__",) if "__dict__" in np.ufunc.__dict__ else ())),
    )

    # Of calls that are operators, which are told apart by the first four.
    _arity: int  # how many operands they have; 0 where calls of arrays are no operators
    _is_light: bool  # of few elements they are the host's
    _numpys: np.ufunc
    _plain: Callable[..., Any]
    _reflected: Callable[..., Any] | None
    _direct: Operation | None  # what they record where the result goes to an array; None where operands have a say

    def __init__(self, row: UfuncRow) -> None:
        self._stand_for(row)
        self._num_inputs = row.numpy.nin
        self._reach = ceil(row.weight * 16)  # at most what an element costs: none has more bytes; ints compare faster
        self._is_light = self._reach <= HEAVY
        self.operations = operations_of(row)
        self._direct = self.operations[0]
        self.methods = operators(self.operations[0], row) if row.numpy.nout == 1 and row.numpy.nin <= 2 else ()
        if self.methods:
            plain, reflected = plain_call(self.operations[0], row), self.methods[-1 if row.numpy.nin == 1 else 1]
            if row.numpy in (np.equal, np.not_equal):
                plain, reflected = self._of_numbers(plain), self._of_numbers(reflected, is_reflected=True)
            self._plain, self._reflected, self._arity = plain, reflected, row.numpy.nin

    def _stand_for(self, row: UfuncRow) -> None:
        """Be the ufunc of a row, with what NumPy says of that in attributes of its own."""
        self._row = row
        self._numpys = row.numpy
        self._arity = 0
        self._reflected = None
        if hasattr(row.numpy, "__dict__"):  # since NumPy 2.4
            self.__dict__.update(row.numpy.__dict__)
            self.__dict__.pop("__doc__", None)  # ours says what we make of it, too

    def _of_numbers(self, operator: Callable[..., Any], *, is_reflected: bool = False) -> Callable[..., Any]:
        """Return what an operator computes of numbers, and NumPy's ufunc of anything else: texts do not just differ."""

        def compute(a: Any, b: Any) -> Any:
            if a._layout.dtype.kind in "biufc" and (type(b) is not types.ndarray or b._layout.dtype.kind in "biufc"):
                return operator(a, b)
            return self._call((b, a) if is_reflected else (a, b), {})

        return compute

    def __eq__(self, other: object) -> bool:
        """Whether the other is this function, or NumPy's: what programs look up by NumPy's is found by ours."""
        return other is self or other is self._row.numpy

    def __hash__(self) -> int:
        return hash(self._row.numpy)

    def __init_subclass__(cls) -> None:
        _describe(cls)

    def _documentation(self) -> str | None:
        return documentation.appended(self._row.numpy.__doc__, self.note)

    @property
    def accuracy(self) -> str:
        """How exact results are, in words."""
        row = self._row
        numpys = f", NumPy's within {row.numpy_ulp:g}" if row.numpy_ulp else ""
        told = f"within {row.ulp:g} ulp of the true value{numpys}" if row.ulp else "NumPy's, bit for bit"
        return told + (
            f"; those of complex numbers within {row.complex_ulp:g} ulp of the larger part" if row.complex_ulp else ""
        )

    @property
    def note(self) -> str:
        """What is to be said of where it is computed and of how exact it is."""
        return f"Computed on the device, in one kernel with the operations around it. Results are {self.accuracy}."

    __call__ = compiled("calls of ufuncs", CALL_TEXT, may_warn=True)(
        lambda values: leader(values) if SUBCLASSES else None, types
    )

    _into = compiled(
        "outputs of ufuncs",
        INTO_TEXT,
        may_warn=True,
        names={"into_device": into_device, "is_recorded_on_host": is_recorded_on_host},
    )()

    def _operations_for(self, operands: tuple[Any, ...]) -> tuple[Operation, ...]:  # noqa: ARG002
        """Return what is recorded for operands."""
        return self.operations

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        numpy_ufunc = self._row.numpy
        num_inputs = numpy_ufunc.nin
        if not kwargs and not REPORTS:
            if len(args) == num_inputs and _NUMBERS.issuperset(map(type, args)):
                return call_numerical(numpy_ufunc, args, kwargs)
            if len(args) == num_inputs and _are_sequences(args):
                return self(*[of_sequence(x) if type(x) in _SEQUENCES else x for x in args])
            has_output = len(args) == num_inputs + 1 and numpy_ufunc.nout == 1 and type(args[-1]) is types.ndarray
            if has_output and numpy_ufunc not in WARNING_OF_OUTPUTS:
                return self(*args[:-1], out=args[-1])
        if num_inputs == len(args) == 2 and not kwargs and numpy_ufunc.nout == 1:
            a, b = args
            are_ours = (type(a) is types.ndarray or type(type(a)) is types.scalar_type) and (
                type(b) is types.ndarray or type(type(b)) is types.scalar_type
            )
            if are_ours and ((a._held or a._storage).host is None or (b._held or b._storage).host is None):
                value = paired(self._operations_for(args)[0], a, b)
                if value is not None and value[0].layout.nbytes >= balance.limit:
                    return wrap_pending(value)
        if kwargs.get("out") is ... and len(args) == num_inputs:
            if not any(isinstance(x, Handle) for x in (*args, *kwargs.values())):
                given = numpy_ufunc(*args, **kwargs)
                return tuple(map(_ours, given)) if type(given) is tuple else _ours(given)
            del kwargs["out"]
            result = self(*args, **kwargs)
            return tuple(map(as_array, result)) if type(result) is tuple else as_array(result)
        if len(args) > num_inputs and numpy_ufunc in WARNING_OF_OUTPUTS:
            call_as_user(numpy_ufunc, (0, 0, np.empty(())), {})  # which NumPy does since 2.4
        if not kwargs and len(args) == num_inputs + 1 and args[-1] is None:  # as NumPy's own functions say it
            return self(*args[:-1])
        outs = _outputs(args, kwargs, numpy_ufunc)
        if outs is None or (SUBCLASSES and leader((*args, *kwargs.values(), *outs)) is not None):
            return numpy_ufunc(*args, **kwargs)  # NumPy's own error, or NumPy asks a user's class
        out: Any = outs[0] if len(outs) == 1 and kwargs.keys() <= _OUT else None
        if type(out) is types.ndarray and out._known is None and into(self, args[:num_inputs], out):
            return out
        if not REPORTS:
            if type(out) is types.ndarray and len(args) > num_inputs and self._direct is not None:  # else it was asked
                result = NotImplemented
                if out._storage.host is None:
                    a, b = (*args[:num_inputs], MISSING)[:2]
                    result = into_device(self, self._direct, a, b, out)
                if result is not NotImplemented:
                    return result
            result = self._on_small_hosts(args, outs, kwargs)
            if result is not NotImplemented:
                return result
        where = kwargs.get("where", True)
        operands = tuple([operand(x) for x in args[:num_inputs]])
        mask = None if where is True else mask_operand(where)
        if any(x is NotImplemented for x in (*operands, mask)):
            try:
                return numpy_ufunc(*args, **kwargs)  # which asks them
            except ValueError as error:
                if str(error) != REFUSAL:
                    raise
            return self._fall_back(args, kwargs)
        if not all(out is None or (isinstance(out, Handle) and not is_device_scalar(out)) for out in outs):
            return self._fall_back(args, kwargs)
        options = {name: value for name, value in kwargs.items() if name not in ("out", "where")} if kwargs else kwargs
        if mask is not None and kwargs.get("out", ()) is None:
            options["out"] = None  # said, which NumPy takes for knowing what that means
        if not any(isinstance(x, Handle) for x in operands) and not isinstance(mask, Handle):
            return self._of_scalars(args[:num_inputs], outs, kwargs)
        if num_inputs == 1 and type(operands[0]) is int:
            # A Python integer alone has the dtype of an array of it: uint64, where int64 is too small.
            single: Any = np.asarray(operands[0])[()]
            if type(single) is int:
                return self._fall_back(args, kwargs)
            operands = (single,)
        try:
            return self._compute(operands, outs, mask, options)
        except Unsupported:
            copies = readable(operands)
        if copies is not None:
            with contextlib.suppress(Unsupported):
                return self._compute(copies, outs, mask, options)
        return self._fall_back(args, kwargs)

    def _on_small_hosts(self, args: tuple[Any, ...], outs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute what is small and on the host as far as it has elements; NotImplemented where it is not."""
        kind = types.ndarray
        sizes = {}  # by shape
        given = []
        for value in (*args[: self._num_inputs], *kwargs.values()):
            if type(value) is kind:
                if value._storage.host is None:
                    return NotImplemented
                seen = host_view(value)
                sizes[seen.shape] = seen.size
                given.append(seen)
            elif type(value) is tuple or type(value) in PLAIN:
                given.append(value)
            else:
                return NotImplemented
        size = prod(sizes.values())
        for out in outs:
            if out is not None:
                if type(out) is not kind or not is_host_only(out):
                    return NotImplemented
                size = max(size, out.size)
        weight = self._row.weight
        if size * self._reach >= config.offload_threshold and not is_recorded_on_host(size * 8 * weight, weight):
            return NotImplemented
        operands = given[: self._num_inputs]
        keywords: dict[str, Any] = dict(zip(kwargs, given[self._num_inputs :], strict=True))
        if all(out is None for out in outs):
            results = call_numerical(self._row.numpy, operands, keywords)
            return tuple(map(wrap_host, results)) if type(results) is tuple else wrap_host(results)
        results = compute_into(self._row.numpy, operands, keywords, outs)
        if len(outs) == 1:
            return outs[0]
        return tuple(wrap_host(x) if out is None else out for x, out in zip(results, outs, strict=True))

    def _compute(
        self,
        operands: tuple[Any, ...],
        outs: tuple[Any, ...],
        mask: Any,
        options: dict[str, Any],
        on_host: Callable[..., Any] | None = None,
    ) -> Any:
        """Compute where placement says, on the host by NumPy's ufunc if not another function is given.

        `Unsupported` is raised before anything is written.
        """
        row = self._row
        operations = self._operations_for(operands)
        if mask is None and not options and len(outs) == 1:
            if outs[0] is None:
                return apply(operations[0], on_host or row.ufunc_on_host, operands)
            return apply_into(operations[0], row.numpy, row.numpy, operands, outs[0])
        signature = signature_of(row.numpy, options)
        casting = options.get("casting", "same_kind")
        if signature is not None or casting != "same_kind":
            operations = variant(row, signature, casting)
            # Scalars of NumPy's are cast as arrays are.
            operands = tuple([types.from_host(np.asarray(x)) if isinstance(x, np.generic) else x for x in operands])
        return evaluate(Call(row, operations, operands, outs, mask, order_of(options.get("order"), "K"), options))

    def _of_scalars(self, operands: tuple[Any, ...], outs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute on scalars alone, which is nobody's work but NumPy's."""
        keywords = {name: value for name, value in kwargs.items() if name != "out"}
        if all(out is None for out in outs):
            return call_numerical(self._row.numpy, operands, keywords)
        for out in outs:
            if out is not None:
                check_writeable(out)
        return self._fall_back(operands, kwargs if "out" in kwargs else {**kwargs, "out": outs})

    def _fall_back(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return call(self._row.numpy, args, kwargs, name=self.counted_name, mutates=("out",))

    @method_along(BY_UFUNC)
    def reduce(
        self,
        array: Any,
        axis: Any = 0,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = np._NoValue,
        where: Any = True,
    ) -> Any:
        """Reduce over an axis; see `numpy.ufunc.reduce`."""
        if type(out) is tuple and any(x is ... for x in out):
            self._row.numpy.reduce(0, out=out)  # type: ignore[arg-type] # which NumPy refuses
        if out is ...:
            return as_array(self.reduce(array, axis, dtype, None, keepdims, initial, where))
        row = BY_UFUNC.get(self.__name__)
        if type(out) is tuple and len(out) == 1 and out[0] is not None:
            out = out[0]
        kwargs: dict[str, Any] = {} if where is True else {"where": where}
        if initial is not np._NoValue:
            kwargs["initial"] = initial
        if row is not None and type(array) is types.ndarray and array.dtype in DEVICE_TYPES:
            try:
                return reduce(row, array, axis, dtype, out, keepdims=keepdims, **kwargs)
            except Unsupported:
                pass
        given = (("axis", axis, 0), ("dtype", dtype, None), ("out", out, None), ("keepdims", keepdims, False))
        return self._method("reduce", (array,), kwargs | _said(*given))

    @method_along(SCANS)
    def accumulate(self, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """Accumulate along an axis; see `numpy.ufunc.accumulate`."""
        row = SCANS.get(self.__name__)
        if out is ...:
            out = None
        elif type(out) is tuple and len(out) == 1 and out[0] is not None:
            out = out[0]
        if row is not None and type(array) is types.ndarray and array.ndim and axis is not None:
            try:
                return accumulate(row, array, axis, dtype, out)
            except Unsupported:
                pass
        return self._method(
            "accumulate", (array,), _said(("axis", axis, 0), ("dtype", dtype, None), ("out", out, None))
        )

    def reduceat(self, array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """Reduce over slices of an axis; see `numpy.ufunc.reduceat`."""
        out = None if out is ... else out
        if out is None and type(array) is types.ndarray and not (SUBCLASSES and leader((indices,)) is not None):
            updates = _module("oxinp._core.ops.updates")
            try:
                return updates.reduceat(self.__name__, array, indices, axis, dtype)
            except Placed:
                return placed_on_host(
                    self._row.numpy.reduceat, (array, indices), _said(("axis", axis, 0), ("dtype", dtype, None))
                )
            except Unsupported:
                pass
        return self._method(
            "reduceat", (array, indices), _said(("axis", axis, 0), ("dtype", dtype, None), ("out", out, None))
        )

    def outer(self, a: Any, b: Any, /, **kwargs: Any) -> Any:
        """Apply to all pairs; see `numpy.ufunc.outer`."""
        if self._row.numpy.nin == 2 and type(a) is types.ndarray and type(b) is types.ndarray:
            m, n = a.ndim, b.ndim
            if m + n > MAX_DIMS:
                self._row.numpy.outer(np.empty((1,) * m), np.empty((1,) * n))  # raises
            # Slices say where a part lies, which an ellipsis has NumPy asked for.
            return self(a[(*(slice(None),) * m, *(None,) * n) if m else (..., *(None,) * n)], b, **kwargs)
        return self._method("outer", (a, b), kwargs)

    def at(self, a: Any, indices: Any, b: Any = None, /) -> None:
        """Apply in place, unbuffered, at indices; see `numpy.ufunc.at`."""
        if b is not None and type(a) is types.ndarray and not (SUBCLASSES and leader((indices, b)) is not None):
            try:
                _module("oxinp._core.ops.updates").at(self.__name__, a, indices, b)
            except Placed:
                placed_on_host(self._row.numpy.at, (a, indices, b), {}, mutates=(0,))
                return
            except Unsupported:
                pass
            else:
                return
        args = (a, indices) if b is None else (a, indices, b)
        call(self._row.numpy.at, args, {}, name=f"{self.counted_name}.at", mutates=(0,))

    def resolve_dtypes(self, dtypes: Any, /, **kwargs: Any) -> Any:
        """Find the dtypes NumPy would compute in; see `numpy.ufunc.resolve_dtypes`."""
        return self._row.numpy.resolve_dtypes(dtypes, **kwargs)

    def _method(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if SUBCLASSES and leader((*args, kwargs.get("out"))) is not None:
            given = {key: value for key, value in kwargs.items() if value is not None}
            return getattr(self._row.numpy, method)(*args, **given)
        name = f"{self.counted_name}.{method}"
        return call(getattr(self._row.numpy, method), args, kwargs, name=name, mutates=("out",))

    @property
    def __name__(self) -> str:
        return self._row.name

    @property
    def counted_name(self) -> str:
        """The name that a fallback is counted by."""
        return self.__name__

    def __reduce__(self) -> Any:
        return _of_name, (self.__name__,)

    def __repr__(self) -> str:
        return f"<ufunc '{self.__name__}'>"


for _name in ("__call__", "reduce", "accumulate", "reduceat", "outer", "at", "resolve_dtypes"):
    getattr(ufunc, _name).__doc__ = getattr(np.ufunc, _name).__doc__
    getattr(ufunc, _name).__wrapped__ = getattr(np.ufunc, _name)  # whose signature it has
for _name in {*dir(np.ufunc)} - {*dir(ufunc)}:  # not by `__getattr__`, with which any access takes longer
    if not _name.startswith("__"):
        setattr(ufunc, _name, property(attrgetter(f"_numpys.{_name}")))
_describe(ufunc)
documentation.set_module(ufunc)


_OUT = {"out"}
_NUMBERS = frozenset({bool, int, float, complex, *(np.dtype(code).type for code in "?bBhHiIlLqQefdFD")})
_SEQUENCES = frozenset({list, tuple})
_WITH_SEQUENCES = _NUMBERS | _SEQUENCES
WARNING_OF_OUTPUTS = (np.maximum, np.minimum)  # where these are given by position


def _are_sequences(args: tuple[Any, ...]) -> bool:
    """Whether a list or tuple is among operands, and nothing that has a say of its own."""
    kinds = {*map(type, args)} - {types.ndarray}
    return kinds <= _WITH_SEQUENCES and not _SEQUENCES.isdisjoint(kinds)


def _of_name(name: str) -> Any:
    return OBJECTS[name]


MAX_DIMS = 64  # of NumPy's arrays

OBJECTS: dict[str, ufunc] = {}  # by name, entered by `ufuncs`


def _ours(given: Any) -> Any:
    return types.from_host(given) if type(given) is np.ndarray else given


def _said(*given: tuple[str, Any, Any]) -> dict[str, Any]:
    """Return the keywords that differ from their defaults: a class that is asked sees what the user said."""
    return {name: value for name, value, default in given if value is not default}


def _outputs(args: tuple[Any, ...], kwargs: dict[str, Any], numpy_ufunc: np.ufunc) -> tuple[Any, ...] | None:
    """Return where each output goes, None for a new array; no tuple where the arguments are not a ufunc's."""
    num_inputs, num_outputs = numpy_ufunc.nin, numpy_ufunc.nout
    given = args[num_inputs:]
    if len(args) < num_inputs or len(given) > num_outputs or (given and "out" in kwargs):
        return None
    out = kwargs.get("out")
    if out is not None:
        given = out if type(out) is tuple else (out,)
        if len(given) != num_outputs:
            return None
    return (*given, *(None,) * (num_outputs - len(given)))
