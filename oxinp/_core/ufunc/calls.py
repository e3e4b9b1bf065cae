"""Ufunc calls with everything that NumPy allows: several outputs, `out=`, `where=`, `dtype=`, `casting=`, `order=`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from oxinp._core.errors.hearing import call_numerical
from oxinp._core.lazy import placement
from oxinp._core.lazy.expr import Operation, Unsupported
from oxinp._core.lazy.handle import Handle, compute_into, host_view
from oxinp._core.lazy.record import COPY, WHERE, cost_of, express, is_hosted, settled
from oxinp._core.lazy.results import wrap_host, wrap_pending
from oxinp._core.lazy.stores import check_writeable, store, target_of
from oxinp._core.memory.broadcast import broadcast_shapes
from oxinp._core.memory.layout import Layout, contiguous_strides
from oxinp._core.ufunc.operations import operations_of
from oxinp._core.ufunc.table import UfuncRow


class Call(NamedTuple):
    """One call of a ufunc.

    Attributes
    ----------
    row : UfuncRow
    operations : tuple of Operation
        What is recorded, for every output.
    operands : tuple of Handle or scalar
    outs : tuple of Handle or None
        Where every output goes; None for a new array.
    where : Handle, scalar or None
        Which elements are computed; None for all.
    order : str
        Of new arrays: C, F, A or K.
    options : dict
        The keywords as given, but for `out` and `where`.
    """

    row: UfuncRow
    operations: tuple[Operation, ...]
    operands: tuple[Any, ...]
    outs: tuple[Any, ...]
    where: Any
    order: str
    options: dict[str, Any]


def signature_of(ufunc: np.ufunc, options: dict[str, Any]) -> tuple[Any, ...] | None:
    """Return what `dtype=`, `signature=` or `sig=` ask for, as `numpy.ufunc.resolve_dtypes` takes it.

    Raises
    ------
    Unsupported
        In a way that only NumPy understands.
    """
    dtype = options.get("dtype")
    given = options.get("signature", options.get("sig"))
    if dtype is not None:
        return (None,) * ufunc.nin + (np.dtype(dtype),) * ufunc.nout
    if given is None:
        return None
    characters = given.replace("->", "") if isinstance(given, str) else given
    if len(characters) != ufunc.nargs or (isinstance(given, str) and "->" not in given):
        raise Unsupported("a signature of another form")
    return tuple(None if kind is None else np.dtype(kind) for kind in characters)


_VARIANTS: dict[Any, tuple[Operation, ...]] = {}


def variant(row: UfuncRow, signature: tuple[Any, ...] | None, casting: str) -> tuple[Operation, ...]:
    """Return the operations of a row with a signature prescribed; the same objects each time."""
    key = (row.numpy, signature, casting)
    found = _VARIANTS.get(key)
    if found is None:
        found = _VARIANTS[key] = operations_of(row, signature, casting)
    return found


def evaluate(call: Call) -> Any:
    """Compute a call where placement puts it, and return what NumPy returns.

    Raises
    ------
    Unsupported
        The device cannot, and nothing has been written.
    ValueError, TypeError
        As NumPy.
    """
    for out in call.outs:
        if out is not None:
            check_writeable(out)
    given = tuple(out for out in call.outs if out is not None)
    try:
        cost = cost_of(call.operations[0], call.operands)
    except (TypeError, ValueError):  # NumPy converts numbers first, then looks at dtypes, and names all that is given
        _check(call)
        _check_shapes(call)
        raise
    cost = max(cost, *(out._layout.nbytes for out in given), 0.0) if cost >= 0 else cost
    if is_hosted((*call.operands, *given, call.where)) and placement.is_recorded_on_host(
        cost, call.operations[0].weight
    ):
        return _on_host(call)
    if given or call.options or call.where is not None:
        _check(call)
    pending = [_express(call, i) for i in range(len(call.operations))]
    if len(pending) == 1 and given:
        store(call.outs[0], pending[0])
        return settled(call.outs[0])
    made = [wrap_pending(value, as_array=bool(given)) for value in pending]
    for i, out in enumerate(call.outs):
        if out is not None:
            store(out, express(COPY, (made[i],), target_of(out)))
            made[i] = out
        elif given and not made[i]._layout.ndim:
            made[i] = wrap_pending(express(COPY, (made[i],)))
    settled(made[0])
    return tuple(made) if len(made) > 1 else made[0]


def _on_host(call: Call) -> Any:
    keywords = dict(call.options)
    if call.where is not None:
        keywords["where"] = _seen(call.where)
    operands = [_seen(x) for x in call.operands]
    if all(out is None for out in call.outs):
        results = call_numerical(call.row.numpy, operands, keywords)
    else:
        results = compute_into(call.row.numpy, operands, keywords, call.outs)
    if len(call.outs) == 1:
        return wrap_host(results) if call.outs[0] is None else call.outs[0]
    return tuple(wrap_host(result) if out is None else out for result, out in zip(results, call.outs, strict=True))


def _seen(value: Any) -> Any:
    return host_view(value) if isinstance(value, Handle) else value


def _check(call: Call) -> None:
    """Let NumPy itself raise, on arrays without elements, for dtypes and keywords that do not go together."""
    keywords = dict(call.options)
    if call.where is not None:
        keywords["where"] = _stand_in(call.where)
    if any(out is not None for out in call.outs):
        keywords["out"] = tuple(None if out is None else _stand_in(out) for out in call.outs)
    call_numerical(call.row.numpy, [_stand_in(x) for x in call.operands], keywords)
    if call.where is not None:
        _check_shapes(call)


def _check_shapes(call: Call) -> None:
    given = [x for x in (*call.operands, *call.outs, call.where) if x is not None]
    broadcast_shapes([x._layout.shape if isinstance(x, Handle) else () for x in given], None)


def _stand_in(value: Any) -> Any:
    return np.empty((0,), value._layout.dtype) if isinstance(value, Handle) else value


def _express(call: Call, output: int) -> Any:
    """Record one output, in the dtype and shape of where it goes."""
    out = call.outs[output]
    operation = call.operations[output]
    target = None if out is None else target_of(out)
    if call.where is None:
        value = express(operation, call.operands, target)
        return value if out is not None else _ordered(call, operation, value)
    if out is None:  # elements that are not computed may be anything
        value = express(operation, call.operands, where=call.where)
        other = value[0].layout.dtype.type(0)
        selected = express(WHERE, (call.where, wrap_pending(value, as_array=True), other))
        return _ordered(call, COPY, selected)
    assert target is not None
    value = express(operation, call.operands, Layout.of(target.dtype, target.shape), where=call.where)
    return express(WHERE, (call.where, wrap_pending(value, as_array=True), out), target)


def _ordered(call: Call, operation: Operation, value: Any) -> Any:
    """Return a new array's value in the order that is asked for."""
    layout = value[0].layout
    if call.order == "K" or layout.ndim < 2:
        return value
    arrays = [x._layout for x in call.operands if isinstance(x, Handle)]
    is_fortran = call.order == "F" or (call.order == "A" and all(x.is_fortran for x in arrays))
    wanted = Layout.of(layout.dtype, layout.shape)
    if is_fortran:
        strides = contiguous_strides(layout.shape[::-1], layout.dtype.itemsize)[::-1]
        wanted = Layout.at(layout.dtype, layout.shape, strides, 0)
    if wanted is layout:
        return value
    operands = call.operands if operation is not COPY else (wrap_pending(value, as_array=True),)
    return express(operation, operands, wanted)
