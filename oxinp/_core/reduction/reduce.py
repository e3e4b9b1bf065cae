"""Reductions over any axes, fused with the chain before them."""

from __future__ import annotations

import importlib
import math
import warnings
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from oxinp._core.host.fallback import user_frame
from oxinp._core.lazy import explain, placement, schedule
from oxinp._core.lazy.expr import (
    MAX_NDIM,
    Graph,
    Loop,
    Node,
    Operation,
    Record,
    Unsupported,
    cast,
    new_table,
    remember,
)
from oxinp._core.lazy.handle import Handle, expression, host_view, writes_host
from oxinp._core.lazy.placement import device
from oxinp._core.lazy.programs import PassesProgram, arguments_of, inputs, instructions, operand
from oxinp._core.lazy.record import check_writeable, express, store, wrap_host, wrap_pending
from oxinp._core.memory.dtypes import BOOL, DEVICE_TYPES, FLOAT32, FLOAT64, scalar_value
from oxinp._core.memory.layout import Layout, result_layout
from oxinp._core.memory.storage import Value
from oxinp._core.reduction.table import ReductionRow, with_initial
from oxinp._kernels.problem import ReduceOp

NO_INITIAL = np._NoValue
"""What `initial` is where none is given."""

_RECORDS = new_table()


class Reduction:
    """A trailing reduction of a graph: over which axes of `shape`, by which row and op, of which elements."""

    __slots__ = ("axes", "mask", "op", "row", "shape")

    def __init__(
        self, row: ReductionRow, op: ReduceOp, shape: tuple[int, ...], axes: tuple[int, ...], mask: int | None
    ) -> None:
        self.row = row
        self.op = op
        self.shape = shape
        self.axes = axes
        self.mask = mask

    def build(self, graph: Graph, target: Layout | None) -> ReductionProgram:
        """Compile the chain and the reduction after it."""
        return ReductionProgram(self, graph, graph.layout if target is None else target)


class ReductionProgram(PassesProgram):
    """A reduction, compiled for its layouts."""

    __slots__ = ("num_inputs",)

    def __init__(self, reduction: Reduction, graph: Graph, target: Layout) -> None:
        kept = [axis for axis in range(len(reduction.shape)) if axis not in reduction.axes]
        output = operand(target)
        if target.ndim != len(kept):  # keepdims
            output = type(output)(output.type, tuple(output.strides[axis] for axis in kept), output.alignment)
        plan = importlib.import_module("oxinp._kernels.reduce.plan").plan(  # which only who reduces pays for
            reduction.shape,
            reduction.axes,
            inputs(graph),
            instructions(graph),
            graph.result,
            reduction.op,
            output,
            device().capability,
            mask=reduction.mask,
        )
        _, count = arguments_of(graph)
        parameters = graph.leaves[len(graph.leaves) - reduction.op.num_parameters :]
        num_parameters = sum(2 if dtype.kind == "c" else 1 for dtype in parameters)
        self.num_inputs = count - num_parameters
        pointers = 1 + bool(plan.scratch_nbytes)
        super().__init__(graph, plan, (pointers + count, pointers + num_parameters))

    def run_both(self, ptr: int, scratch: int, arguments: list[Any]) -> None:
        """Enqueue the reduction of chunks, and that of what they come to."""
        self.first(ptr, scratch, *arguments)
        self.second(ptr, scratch, *arguments[self.num_inputs :])


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
        Where the device has no kernel.
    """
    if out is not None:
        if not isinstance(out, Handle):
            raise Unsupported("an output that is no array of ours")
        check_writeable(out)
    layout = array._layout
    dtype = None if dtype is None else np.dtype(dtype)
    others = [x for x in (out, where, mean) if isinstance(x, Handle)]
    hosted = array._storage.host is not None and all(x._storage.host is not None for x in others)
    has_kernel = layout.dtype in DEVICE_TYPES
    if (hosted and (not has_kernel or placement.is_host(layout.nbytes))) or not layout.size:
        if explain.REPORTS:
            explain.note("host", row.name, placement.why_host(layout.nbytes if has_kernel else -1))
        options = {"axis": axis, "dtype": dtype, "keepdims": keepdims, "where": where, "ddof": ddof, "mean": mean}
        return _on_host(row, array, out, options | {"initial": initial})
    shape = layout.shape
    axes = _axes(row, axis, len(shape))
    if mean is not None:
        if row.about is None or not isinstance(mean, Handle):
            raise Unsupported("a mean that is given")
        row = row.about
    value, is_masked = _elements(array, where, mean)
    source = value[0].dtype
    dtypes = _dtypes(row, source, source.num, dtype, None if out is None else out._layout.dtype)
    starts = initial is not NO_INITIAL
    record = _record(_Wanted(row, value[0], axes, dtypes, bool(keepdims), is_masked, starts))
    if record.graph is None:
        raise Unsupported(record.reason)
    if out is not None and out._layout.shape != record.graph.layout.shape:
        raise ValueError(
            f"output parameter for reduction operation {row.name} has wrong shape: {out._layout.shape}, "
            f"not {record.graph.layout.shape}"
        )
    count = math.prod(shape[a] for a in axes)
    leaves = (*value[1], *_parameters(row, record.graph, count, ddof, dtypes.accumulated, initial))
    if row.is_average and not is_masked and ddof >= count:
        frame = user_frame()
        line = frame.f_code.co_filename, frame.f_lineno
        warnings.warn_explicit("Degrees of freedom <= 0 for slice", RuntimeWarning, *line)
    result = (record.graph, leaves, value[2])
    if out is None:
        return wrap_pending(result)
    store(out, result)
    return out


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


def _on_host(row: ReductionRow, array: Handle, out: Any, options: dict[str, Any]) -> Any:
    seen = host_view(array) if array._layout.size else np.empty(array._layout.shape, array._layout.dtype)
    arguments = {
        name: host_view(value) if isinstance(value, Handle) else value
        for name, value in options.items()
        if value is not _DEFAULTS[name]
    }
    if out is None:
        return wrap_host(row.numpy(seen, **arguments))
    with schedule.LOCK:
        row.numpy(seen, out=writes_host(out), **arguments)
    return out


def _axes(row: ReductionRow, axis: Any, ndim: int) -> tuple[int, ...]:
    """Return the reduced axes, in ascending order."""
    if axis is None or (not ndim and axis in (0, -1)):  # NumPy lets scalars have an axis
        return tuple(range(ndim))
    if row.takes_one_axis and isinstance(axis, tuple):
        raise Unsupported("NumPy takes one axis here, and says so")
    return tuple(sorted(normalize_axis_tuple(axis, ndim, "axis")))


# -- what is reduced ---------------------------------------------------------------------------------------------------


def _elements(array: Handle, where: Any, mean: Any) -> tuple[Value, bool]:
    """Return the chain whose elements are reduced, and whether its last node is a mask's (see `_MASKED`)."""
    value = expression(array)
    if value[0].reduction is not None:
        value = schedule.materialise(array._storage)
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


# -- dtypes and parameters ---------------------------------------------------------------------------------------------


class Dtypes(NamedTuple):
    """What is accumulated, and what results."""

    accumulated: np.dtype[Any]
    result: np.dtype[Any]


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
    row: ReductionRow, graph: Graph, count: int, ddof: Any, accumulated: np.dtype[Any], initial: Any
) -> list[Any]:
    """Return the values of the parameters that the reduction's op has."""
    starts = initial is not NO_INITIAL
    op = graph.reduction.op
    own: list[Any] = [float(x) for x in row.parameters(count, ddof)][: op.num_parameters - starts]
    if starts:
        fits = (int, bool, np.bool_, np.integer, *(() if accumulated.kind in "biu" else (float, np.floating)))
        if not isinstance(initial, fits):
            raise Unsupported("something to start from that is no such number")
        try:
            own.append(scalar_value(accumulated)(initial))
        except OverflowError as error:
            raise Unsupported(str(error)) from None
    return own


# -- recording ---------------------------------------------------------------------------------------------------------


class _Wanted(NamedTuple):
    """What of a reduction its graph depends on: all but the values."""

    row: ReductionRow
    chain: Graph
    axes: tuple[int, ...]
    dtypes: Dtypes
    keepdims: bool
    is_masked: bool
    starts: bool


def _record(wanted: _Wanted) -> Record:
    record = _RECORDS.get(wanted)
    if record is None:
        record = _reduction_of(wanted)
        remember(_RECORDS, wanted, record)
    return record


def _reduction_of(wanted: _Wanted) -> Record:
    row, chain, axes, dtypes, keepdims, is_masked, starts = wanted
    shape = chain.layout.shape
    for needed in (chain.dtype, *dtypes):
        if needed not in DEVICE_TYPES:
            return Record(None, reason=f"dtype {needed} has no kernels yet")
    if len(shape) > MAX_NDIM or (not chain.nodes and not chain.layout.is_aligned):
        return Record(None, reason="the layout has no kernel")
    if is_masked and not row.has_identity and not starts:
        return Record(None, reason="NumPy says that a mask needs something to start from")
    skips_nan = row.skips_nan and chain.dtype.kind in "fc"
    op = row.op(chain.dtype, dtypes.accumulated, is_masked or skips_nan)
    if op is None:
        return Record(None, reason=f"{row.name} has no kernel for {chain.dtype}")
    parameters = [FLOAT64] * op.num_parameters
    if starts:
        op = with_initial(op)
        parameters.append(dtypes.accumulated)
    nodes, value, mask = _with_room(chain, len(parameters), is_masked=is_masked)
    first = len(chain.leaves) + len(parameters)

    def append(node: Node) -> int:
        nodes.append(node)
        return first + len(nodes) - 1

    if skips_nan:
        number = append(Node(_is_number, BOOL, (value,)))
        mask = number if mask is None else append(Node(_both, BOOL, (number, mask)))
    # A cast even to the same dtype: a graph without nodes would be a leaf.
    value = append(Node(cast(chain.dtype, dtypes.accumulated), dtypes.accumulated, (value,)))
    kept = [axis for axis in range(len(shape)) if keepdims or axis not in axes]
    source = chain.layout
    along = Layout.at(
        dtypes.result, tuple(1 if a in axes else shape[a] for a in kept), tuple(source.strides[a] for a in kept), 0
    )
    layout = result_layout(dtypes.result, along.shape, [along])
    leaves = (*chain.leaves, *parameters)
    return Record(Graph(layout, leaves, tuple(nodes), value, Reduction(row, op, shape, axes, mask)))


def _with_room(chain: Graph, count: int, *, is_masked: bool) -> tuple[list[Node], int, int | None]:
    """Return the chain's nodes, its value and its mask, numbered for `count` more leaves behind its own."""
    own = len(chain.leaves)

    def moved(number: int) -> int:
        return number if number < own else number + count

    nodes = [Node(node.lower, node.dtype, tuple(map(moved, node.args))) for node in chain.nodes]
    if not is_masked:
        return nodes, moved(chain.result), None
    assert chain.result == own + len(nodes) - 1
    value, mask = nodes.pop().args
    return nodes, value, mask


def _is_number(k: Any, value: Any) -> Any:
    return ~k.isnan(value)


def _both(k: Any, a: Any, b: Any) -> Any:  # noqa: ARG001
    return a & b
