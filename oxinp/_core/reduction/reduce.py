"""Reductions over any axes, fused with the chain before them."""

from __future__ import annotations

import math
import operator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from oxinp._config import config
from oxinp._core.errors.frames import call_as_user, warn
from oxinp._core.errors.hearing import call_numerical
from oxinp._core.errors.state import current, quiet
from oxinp._core.host.exchange import is_array
from oxinp._core.lazy import explain, placement, schedule
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.calls import Pending, is_waiting
from oxinp._core.lazy.expr import (
    MAX_NDIM,
    Graph,
    Loop,
    Operation,
    Structure,
    Unsupported,
    graph_of,
    new_table,
    remember,
)
from oxinp._core.lazy.flagged import JUDGE, MARK, claim_reduction
from oxinp._core.lazy.handle import Handle, begin_writing, chain, device_value, end_writing, fetch, host_view
from oxinp._core.lazy.masked import Reducible, reducible
from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.lazy.record import COPY, express, is_hosted, settled
from oxinp._core.lazy.results import deferred, types, wrap_host, wrap_pending, wrap_result
from oxinp._core.lazy.selections import Mask
from oxinp._core.lazy.stores import check_writeable, store_result, target_of
from oxinp._core.lazy.views import view
from oxinp._core.memory.dtypes import BOOL, DEVICE_TYPES, FLOAT32, FLOAT64, is_dtype_class, scalar_value
from oxinp._core.memory.layout import Layout, result_layout
from oxinp._core.memory.recent import MEETINGS
from oxinp._core.memory.storage import Value
from oxinp._core.reduction.binding import Dtypes, Wanted, bind
from oxinp._core.reduction.planning import Reduced
from oxinp._core.reduction.table import BY_UFUNC, ReductionRow
from oxinp._kernels.problem import ReduceOp

NO_INITIAL = np._NoValue
"""What `initial` is where none is given."""

_WHERE = new_table()  # (row, graph, dtype, axis, the mask's graph) -> BoundOp, of what a mask selects
_MET = new_table()  # (row, graph, dtype, axis) -> BoundOp, of all elements or along an axis of a matrix
_KEPT = "kept"
"""What stands before an axis there, in a tuple, where results keep it."""


def reduce(
    row: ReductionRow,
    array: Handle,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    *,
    keepdims: Any = False,
    initial: Any = NO_INITIAL,
    where: Any = True,
    ddof: Any = 0,
    mean: Any = None,
) -> Any:
    """Reduce `array`.

    Parameters
    ----------
    row : ReductionRow
    array : Handle
    axis : int, tuple of int or None
        None: all.
    dtype : dtype, optional
        In which elements are accumulated, where the row has a say in it.
    out : ndarray of ours, optional
    keepdims : bool
    initial : scalar, optional
        What the reduction starts from.
    where : array_like of bool
        Which elements count; an array of ours, or True.
    ddof : float
        Of variances: what is taken off the count that the squares are divided by.
    mean : Handle, optional
        Of variances: what deviations are from.

    Raises
    ------
    AxisError, TypeError, ValueError
        As NumPy.
    Unsupported
        Where the device has no kernel, and where elements of `out` overlap.
    """
    is_usual = (
        out is None
        and type(keepdims) is bool
        and initial is NO_INITIAL
        and mean is None
        and type(ddof) is int
        and ddof == 0
        and array._storage.host is None
        and array._layout.nbytes >= balance.limit
        and current() is quiet.state
    )
    is_plain = is_usual and where is True
    if (
        is_plain
        and not keepdims
        and (dtype is None or dtype is array._layout.dtype)
        and (axis is None or (type(axis) is int and array._layout.ndim == 2))
    ):
        total = reduced(row, chain(array), dtype, axis)
        if total is not None:
            return total
    if out is not None:
        if not is_array(out):
            raise Unsupported("an output that is no array of ours")
        check_writeable(out)
    layout = array._layout
    if dtype is not None and is_dtype_class(dtype):
        raise Unsupported("a class of dtypes, of which NumPy takes the right one")
    dtype = None if dtype is None else np.dtype(dtype)
    has_kernel = layout.dtype in DEVICE_TYPES
    hosted = is_hosted((array, out, where, mean)) and not (has_kernel and out is None and _is_at_work_on(array))
    if (hosted and (not has_kernel or placement.is_host(layout.nbytes, 0.5))) or not layout.size:
        if explain.REPORTS:
            explain.note("host", row.name, placement.why_host(layout.nbytes if has_kernel else -1))
        options = {"axis": axis, "dtype": dtype, "keepdims": keepdims, "where": where, "ddof": ddof, "mean": mean}
        return _on_host(row, array, out, options | {"initial": initial})
    shape = layout.shape
    axes = _axes(row, axis, len(shape), layout.dtype.kind)
    if mean is not None:
        if row.about is None or not isinstance(mean, Handle):
            raise Unsupported("a mean that is given")
        row = row.about
    if current() is not quiet.state and row.ufunc is not None and dtype is not None and where is True:
        array = _cast_before(array, dtype)
    try:
        value, is_masked = _elements(array, where, mean)
        source = value[0].layout.dtype
        dtypes = _dtypes(row, source, source.num, dtype, None if out is None else out._layout.dtype)
    except (ValueError, TypeError):
        _let_raise(row, array, out, {"axis": axis, "dtype": dtype, "keepdims": keepdims, "where": where})
        raise
    claim = None
    if current() is not quiet.state and row.name in _TOLD and out is None and not is_masked and mean is None:
        warning = _TOLD[row.name]
        is_told = source.kind == dtypes.result.kind == "f" or (source.kind == "c" and warning is not None)
        claim = claim_reduction(warning) if is_told else None
        value = value if claim is None else express(MARK, (array, claim))
    starts = initial is not NO_INITIAL
    bound = bind(Wanted(row, value[0], axes, dtypes, bool(keepdims), is_masked, starts))
    result = bound.layouts[0]
    if out is not None:
        _require_shape(row, array, out, result.shape, {"axis": axis, "dtype": dtype, "keepdims": keepdims})
    count = math.prod([shape[a] for a in axes])
    op = bound.parameters.op
    leaves = value[1]
    if op.num_parameters:
        leaves = (*leaves, *_parameters(row, op, count, ddof, dtypes.accumulated, initial))
    if row.is_average:
        _tell_of_few(row, array, where, axes, ddof, has_axes=result.ndim > 0)
    if is_usual and (is_plain or is_masked):
        _keep(row, value[0], dtype, axis, bound, is_kept=keepdims)
    total = _deferred(bound, leaves, value[2])
    if claim is not None:
        result = wrap_result(total, as_array=True)
        return settled(wrap_pending(express(JUDGE, (result, claim))))
    if out is None:
        return wrap_result(total)
    store_result(out, total)
    return out


def _require_shape(
    row: ReductionRow, array: Handle, out: Handle, shape: tuple[int, ...], options: dict[str, Any]
) -> None:
    """Refuse an output of another shape than results have, as NumPy does."""
    if target_of(out).shape != shape:
        _let_raise(row, array, out, options)
        raise ValueError(
            f"output parameter for reduction operation {row.name} has wrong shape: {out._layout.shape}, not {shape}"
        )


_CAST = Operation("reduce", COPY.find_loop)
_CAST.raises = COPY.raises


def _cast_before(array: Handle, dtype: np.dtype[Any]) -> Any:
    """Return what integers are summed of as floats, which tells of those that are none; else the array as it is."""
    layout = array._layout
    if layout.dtype.kind != "f" or dtype.kind not in "iu" or layout.dtype not in DEVICE_TYPES:
        return array
    return wrap_pending(express(_CAST, (array,), Layout.of(dtype, layout.shape)), as_array=True)


def _deferred(bound: BoundOp, leaves: tuple[Any, ...], mask: int) -> Value:
    """Ask for a reduction, or for what makes and reduces elements in one, if nothing has asked for these yet."""
    for entry in leaves:
        if type(entry) is Pending:
            call = entry.call
            asked = None if call is None else call.bound.op.reduced
            found = None if asked is None else asked(bound, leaves)
            if found is not None:
                bound, leaves, mask = *found, 0
            break
    (total,) = schedule.defer(bound, leaves, mask, depth=5)
    return total


class _Known(NamedTuple):
    """What reducing all elements of a chain, or a matrix along an axis, is, whatever its size."""

    op: Op
    structure: Structure
    accumulated: np.dtype[Any]
    parameters: Reduced
    result: Layout


def _keep(
    row: ReductionRow, graph: Graph, dtype: np.dtype[Any] | None, axis: Any, bound: BoundOp, *, is_kept: bool
) -> None:
    """Let `reduced` know a reduction of a chain, and others like it if it is of all, or along an axis of a matrix."""
    wanted: Reduced = bound.parameters
    own, ndim = bound.graphs[0], graph.layout.ndim
    is_whole = len(wanted.axes) == ndim
    if bound.met >= MEETINGS and dtype is None and _is_plain_axis(axis):
        remember(_MET, (row, graph, None, (_KEPT, axis) if is_kept else axis), bound)
    if is_kept:
        return
    if is_whole or (type(axis) is int and ndim == 2):
        known = _Known(bound.op, own.structure, own.dtype, wanted, bound.layouts[0])
        graph.structure.plans[row, ndim, dtype, None if is_whole else axis] = known


def again(
    row: ReductionRow, array: Handle, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: np.dtype[Any] | None = None
) -> Any:
    """Return what `reduce` does of an array that is on the device, where its like has been reduced; else None.

    Parameters
    ----------
    row : ReductionRow
    array : Handle
    args, kwargs
        What a method is given: an axis at most, and that it is kept.
    dtype : numpy.dtype, optional
        As of `reduce`.
    """
    is_kept = bool(kwargs) and kwargs.get("keepdims") is True
    if len(args) + len(kwargs) - is_kept > 1 or (len(kwargs) > is_kept and "axis" not in kwargs):
        return None
    axis = args[0] if args else kwargs.get("axis")
    if (
        not is_kept
        and array._known is None
        and row.name in _OF_CHOSEN
        and (chosen := reducible(array, axis)) is not None
    ):
        return _reduced_where(row, chosen, dtype)
    if (array._known or array._layout).nbytes < balance.limit or current() is not quiet.state:
        return None
    if axis is not None and type(axis) is not int and not _is_plain_axis(axis):
        return None
    if is_kept:
        axis = _KEPT, axis
    graph, leaves, mask = value = chain(array)
    bound = _MET.get((row, graph, dtype, axis))
    if bound is None or bound.parameters.op.num_parameters or Pending in map(type, leaves):
        return reduced(row, value, dtype, axis)
    return deferred(bound, leaves, mask)  # as that does


def _reduced_where(row: ReductionRow, chosen: Reducible, dtype: np.dtype[Any] | None) -> Any:
    """Return the reduction of elements that are selected where a mask is true, for whom all are read."""
    elements, axis, mask, share = chosen
    layout = elements._known or elements._layout
    is_large = layout.nbytes >= balance.limit
    total = _met_where(row, elements, axis, mask, dtype) if is_large else None
    if total is None:
        where = mask.among(layout.ndim)
        if is_large and (axis is None or type(axis) is int or _is_plain_axis(axis)):
            total = reduced(row, express(_MASKED, (elements, where), layout), dtype, axis)
            if total is not None:
                _keep_where(row, elements, axis, mask, dtype, total)
        if total is None:
            total = reduce(row, elements, axis, dtype, where=where)
    if share < 1 and isinstance(total, Handle) and total._held is not None:
        value = total._held.value
        entry = None if value is None else value[1][0]
        if type(entry) is Pending and entry.call is not None:
            entry.call.share = share
    return total


def _met_where(row: ReductionRow, elements: Handle, axis: Any, mask: Mask, dtype: np.dtype[Any] | None) -> Any:
    """Return what `_reduced_where` does of arrays that are computed, where their like has been met; else None."""
    u = (elements._held or elements._storage).value
    if u is None or u[0].nodes or u[0].layout is not elements._known:
        return None
    kept = mask.now()
    storage = kept._held or kept._storage
    v = storage.value or device_value(storage)
    bound = _WHERE.get((row, u[0], dtype, axis, v[0]))
    if bound is None or v[0].layout is not kept._known or u[1][0] is v[1][0]:
        return None
    leaves = *u[1], *v[1]
    if Pending in map(type, leaves):
        return None
    return deferred(bound, leaves, u[2] | v[2])


def _keep_where(
    row: ReductionRow, elements: Handle, axis: Any, mask: Mask, dtype: np.dtype[Any] | None, total: Handle
) -> None:
    """Let `_met_where` know a reduction of an array and a mask that are read as they are, once it has been kept."""
    u, v = (elements._held or elements._storage).value, mask.now()._storage.value
    entry = total._held.value[1][0]  # type: ignore[union-attr,index]
    call = entry.call if type(entry) is Pending else None
    if call is None or u is None or v is None or u[0].nodes or v[0].nodes or call.bound.met < MEETINGS:
        return
    leaves = call.leaves or ()
    if len(leaves) == 2 and leaves[0] is u[1][0] and leaves[1] is v[1][0]:
        remember(_WHERE, (row, u[0], dtype, axis, v[0]), call.bound)


def _is_plain_axis(axis: Any) -> bool:
    """Whether an axis means the same as one that is equal to it: True is no axis, and 1 is."""
    return axis is None or type(axis) is int or (type(axis) is tuple and {int}.issuperset(map(type, axis)))


def reduced(row: ReductionRow, value: Value, dtype: np.dtype[Any] | None = None, axis: Any = None) -> Any:
    """Return the reduction of a chain that is on the device; None where `reduce` has to find out how.

    It is what `reduce` does without other arguments, where a chain of that structure has been reduced before, of all
    elements, or of a matrix along an axis; or this very one has, along others.
    """
    graph, leaves, mask = value
    key = row, graph, dtype, axis
    bound = _MET.get(key) or (_MET.recall(key) if key in _MET.old else None)
    if bound is None:
        source = graph.layout
        known: _Known | None = graph.structure.plans.get((row, source.ndim, dtype, axis))
        if known is None or not source.size or not (graph.nodes or source.is_aligned):
            return None
        op, structure, accumulated, parameters, result = known
        shape = source.shape
        if axis is not None:
            result = Layout.of(result.dtype, (shape[1 - axis % 2],))
        whole = (source._dense or source.dense) if source.dtype is accumulated else Layout.of(accumulated, shape)
        entries = graph.leaves + structure.kinds[len(graph.leaves) :]
        bound = BoundOp(op, (graph_of(structure, whole, entries),), (result,), parameters)
        if _MET.has_met((row, graph.structure, shape, axis), graph):
            remember(_MET, key, bound)
            bound.met = MEETINGS
    if bound.parameters.op.num_parameters:
        count = math.prod([graph.layout.shape[each] for each in bound.parameters.axes])
        leaves += row.parameters(count, 0.0)[: bound.parameters.op.num_parameters]
    for entry in leaves:
        if type(entry) is Pending:
            if (call := entry.call) is not None and call.bound.op.reduced is not None:
                return wrap_result(_deferred(bound, leaves, mask))
            break
    return deferred(bound, leaves, mask)


_AVERAGES = (np.mean, np.var, np.std)
_OF_CHOSEN = frozenset({"sum", "prod", "any", "all"})
"""Reductions that are those of some elements where a mask says which: others have to know whether there are any."""


def _tell_of_few(
    row: ReductionRow, array: Handle, where: Any, axes: tuple[int, ...], ddof: Any, *, has_axes: bool
) -> None:
    """Warn of slices with too few elements for an average; those that a mask leaves are counted at once, if at all."""
    shape = array._layout.shape
    count = math.prod([shape[axis] for axis in axes])
    if where is True:
        if ddof >= count:
            warn("Degrees of freedom <= 0 for slice", RuntimeWarning)
        return
    if row.numpy not in _AVERAGES or current() is quiet.state or config.floating_point_errors != "numpy":
        return
    if isinstance(where, Handle):
        mask = view(where, lambda seen: np.broadcast_to(seen, shape), writeable=False)
        least = int(fetch(reduce(BY_UFUNC["add"], mask, axes)).min())
    else:
        least = count if where else 0
    if least <= ddof:
        few = np.zeros((least + 1, 1) if has_axes else least + 1, array._layout.dtype)
        chosen = (np.arange(least + 1) < least).reshape(few.shape)
        options = {} if row.numpy is np.mean else {"ddof": ddof}
        call_as_user(row.numpy, (few,), {"axis": 0, "where": chosen, **options})


def reduced_over(row: ReductionRow, value: Value, axes: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return the reduction of a chain that is on the device over some axes; None where `reduce` has to find out how."""
    graph, leaves, mask = value
    source = graph.layout.dtype
    if not graph.layout.size:
        return None
    bound = bind(Wanted(row, graph, axes, _dtypes(row, source, source.num, dtype, None), False, False, False))
    return None if bound.parameters.op.num_parameters else wrap_result(_deferred(bound, leaves, mask))


_TOLD = dict.fromkeys(("sum", "prod", "mean", "nansum", "nanprod")) | {
    "nanmax": "All-NaN slice encountered",
    "nanmin": "All-NaN slice encountered",
    "nanmean": "Mean of empty slice",
    "nanvar": "Degrees of freedom <= 0 for slice.",
    "nanstd": "Degrees of freedom <= 0 for slice.",
}
"""Reductions that tell of what becomes of floats, and what NumPy's Python code says of a result that is NaN."""

_NOT_GIVEN = object()
_DEFAULTS = {
    "axis": _NOT_GIVEN,
    "dtype": None,
    "keepdims": False,
    "where": True,
    "ddof": 0,
    "mean": None,
    "initial": NO_INITIAL,
}


_UFUNCS = {row: getattr(np, name) for name, row in BY_UFUNC.items()}  # whose `reduce` takes more than the function
_HARMLESS = {"axis", "dtype", "keepdims"}
"""Arguments of averages that leave no slice without elements."""


def _on_host(row: ReductionRow, array: Handle, out: Any, options: dict[str, Any]) -> Any:
    seen = host_view(array) if array._layout.size else np.empty(array._layout.shape, array._layout.dtype)
    arguments = {
        name: host_view(value) if isinstance(value, Handle) else value
        for name, value in options.items()
        if value is not _DEFAULTS[name]
    }
    numpys = _UFUNCS[row].reduce if row in _UFUNCS and arguments.keys() & {"dtype", "initial"} else row.numpy
    # Where slices are empty, or may be, NumPy's Python code warns as well.
    is_plain = row.ufunc is not None or row.is_average
    warns = row.skips_nan or _TOLD.get(row.name) is not None
    is_numerical = is_plain and not warns and seen.size and arguments.keys() <= _HARMLESS
    call = call_numerical if is_numerical else call_as_user
    if out is None:
        return wrap_host(call(numpys, (seen,), arguments))
    held = begin_writing(out)
    try:
        call(numpys, (seen,), {**arguments, "out": held})
    finally:
        end_writing(out._storage)
    return out


def _let_raise(row: ReductionRow, array: Handle, out: Any, options: dict[str, Any]) -> None:
    """Let NumPy refuse, on arrays of one element that is repeated, what does not go together."""
    given = {name: _stand_in(value) for name, value in options.items() if value is not _DEFAULTS[name]}
    row.numpy(_stand_in(array), **given, **({} if out is None else {"out": np.empty(out._layout.shape, out.dtype)}))


def _stand_in(value: Any) -> Any:
    return (
        np.broadcast_to(np.ones((), value._layout.dtype), value._layout.shape) if isinstance(value, Handle) else value
    )


_ALL_AXES = [tuple(range(ndim)) for ndim in range(MAX_NDIM + 1)]


def _is_at_work_on(array: Handle) -> bool:
    """Whether the device is to compute an array yet, of which it is to fetch no more than what it is reduced to."""
    storage = array._held or array._storage
    value = storage.value
    is_large = array._layout.nbytes >= config.offload_threshold
    return is_large and storage.host is None and value is not None and is_waiting(value)


def _axes(row: ReductionRow, axis: Any, ndim: int, kind: str) -> tuple[int, ...]:
    """Return the reduced axes, in ascending order."""
    if axis is None:
        return _ALL_AXES[ndim] if ndim <= MAX_NDIM else tuple(range(ndim))
    if type(axis) is int and -ndim <= axis < ndim:
        return (axis if axis >= 0 else axis + ndim,)
    if row.takes_one_axis and isinstance(axis, tuple):
        raise Unsupported("NumPy takes one axis here, and says so")
    is_mean = row.is_average and not (row.skips_nan and kind in "fc")  # also of what has no NaN, such as integers
    if not ndim and type(axis) is int and axis in (0, -1) and not is_mean:
        return ()  # NumPy lets scalars have an axis
    listed = axis if isinstance(axis, tuple) else (axis,)
    if any(isinstance(x, bool) for x in listed):
        raise TypeError("an integer is required")
    axes = {normalize_axis_index(operator.index(x), ndim) for x in listed}
    if isinstance(axis, tuple) and len(axes) < len(axis):
        raise ValueError("duplicate value in 'axis'")
    return tuple(sorted(axes))


# -- what is reduced ---------------------------------------------------------------------------------------------------


def _elements(array: Handle, where: Any, mean: Any) -> tuple[Value, bool]:
    """Return the chain whose elements are reduced, and whether its last node is a mask's (see `_MASKED`)."""
    value = chain(array)
    if mean is not None:
        dtype = _deviation_loop((array._layout.dtype, mean._layout.dtype)).output
        target = result_layout(dtype, array._layout.shape, [array._layout])
        value = express(_DEVIATION, (array, mean), target)
    if where is True:
        return value, False
    if not isinstance(where, bool | np.bool_) and (not isinstance(where, Handle) or where._layout.dtype != BOOL):
        raise Unsupported("a mask that is no bool array of ours")
    if mean is not None:
        raise Unsupported("a mask and a mean")
    return express(_MASKED, (array, where), array._layout), True


def _first(k: Any, value: Any, mask: Any) -> Any:  # noqa: ARG001 - every lowering takes the builder
    return value


def _masked_loop(kinds: tuple[Any, ...]) -> Loop:
    return Loop((kinds[0], BOOL), kinds[0], _first)


_MASKED = Operation("masked", _masked_loop)
"""An array and its mask, recorded as one node: `_reduction_of` takes it apart."""


def _squared_deviation(k: Any, value: Any, mean: Any) -> Any:  # noqa: ARG001
    deviation = value - mean
    return deviation * deviation


def _deviation_loop(kinds: tuple[Any, ...]) -> Loop:
    dtype = np.subtract.resolve_dtypes((*kinds, None))[-1]
    if dtype.kind != "f":
        raise Unsupported("deviations that are not real floats")
    return Loop((dtype, dtype), dtype, _squared_deviation)


_DEVIATION = Operation("squared_deviation", _deviation_loop)


@cache
def _dtypes(row: ReductionRow, source: np.dtype[Any], num: int, dtype: Any, out: np.dtype[Any] | None) -> Dtypes:
    """Ask NumPy which dtypes a reduction has; raises what NumPy raises for dtypes that do not go together.

    `num` tells dtypes apart that are equal and have scalar types of their own.
    """
    del num
    if dtype is not None and row.ufunc is None and not row.is_average:
        raise Unsupported("NumPy takes no dtype here, or for another loop")
    one = np.ones(1, source)
    given = {} if dtype is None else {"dtype": dtype}
    if out is not None:
        row.numpy(one, axis=0, out=np.empty((), out), **given)
    result = row.numpy(one, axis=0, **given).dtype if out is None else out
    if row.is_average and dtype is None:
        dtype = {"f": FLOAT32 if source.itemsize == 2 else None, "c": None}.get(source.kind, FLOAT64)
    if dtype is not None:
        accumulated = dtype
    elif row.ufunc is None or (row.is_average and out is None):
        accumulated = source
    elif out is not None:
        accumulated = row.ufunc.resolve_dtypes((out, source, None))[-1]
    else:
        accumulated = result
    if row.is_average and accumulated.kind not in "fc":
        raise Unsupported("an average in integers")
    if out is not None and not row.has_identity and row.ufunc is not None and out != source:
        raise Unsupported("NumPy compares with what it has cast to the dtype of `out`")
    return Dtypes(accumulated, result)


def _parameters(
    row: ReductionRow, op: ReduceOp, count: int, ddof: Any, accumulated: np.dtype[Any], initial: Any
) -> list[Any]:
    """Return the values of the parameters that the reduction's op has."""
    starts = initial is not NO_INITIAL
    if not isinstance(ddof, int | float | np.integer | np.floating):
        raise Unsupported("degrees of freedom that are no number")
    own: list[Any] = [float(x) for x in row.parameters(count, float(ddof))][: op.num_parameters - starts]
    if starts:
        fits = (int, bool, np.bool_, np.integer, *(() if accumulated.kind in "biu" else (float, np.floating)))
        if not isinstance(initial, fits):
            raise Unsupported("something to start from that is no such number")
        try:
            own.append(scalar_value(accumulated)(initial))
        except OverflowError as error:
            raise Unsupported(str(error)) from None
    return own


def count_true(mask: Handle) -> int:
    """Return how many elements of a mask are true, waiting for the device."""
    return int(reduce(BY_UFUNC["add"], mask, None, np.dtype(np.int64)))


types.count_true = count_true
