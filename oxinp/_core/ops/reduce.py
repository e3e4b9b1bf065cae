"""Reductions over any axes, fused with the chain before them. One row per reduction."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from oxinp._core import explain, placement, schedule
from oxinp._core.dtypes import DEVICE_TYPES, FLOAT16, FLOAT32
from oxinp._core.expr import MAX_NDIM, Graph, Node, Record, Unsupported, cast, leaf, new_table, remember
from oxinp._core.handle import Handle, expression, host_view, writes_host
from oxinp._core.layout import Layout, result_layout
from oxinp._core.placement import device
from oxinp._core.programs import arguments_of, inputs, instructions, operand
from oxinp._core.ufunc import check_writeable, store, wrap_host, wrap_pending
from oxinp._kernels import reduce as kernels
from oxinp._kernels.problem import ReduceOp
from oxinp._runtime.memory import Buffer


def _add(k: Any, a: Any, b: Any) -> Any:  # noqa: ARG001 - every lowering takes the builder
    return a + b


def _or(k: Any, a: Any, b: Any) -> Any:  # noqa: ARG001
    return a | b


def _max(k: Any, a: Any, b: Any) -> Any:
    return k.max(a, b)


def _max_nan(k: Any, a: Any, b: Any) -> Any:
    return k.max_nan(a, b)


def _sum_op(dtype: np.dtype[Any]) -> ReduceOp:
    if dtype.kind == "b":
        return ReduceOp("sum", DEVICE_TYPES[dtype], identity=False, combine=_or)
    acc = DEVICE_TYPES[FLOAT32 if dtype == FLOAT16 else dtype]  # NumPy adds float16 in float32 as well
    return ReduceOp("sum", acc, 0, _add, is_compensated=dtype.kind in "fc")


def _max_op(dtype: np.dtype[Any]) -> ReduceOp:
    acc = DEVICE_TYPES[dtype]
    if dtype.kind == "b":
        return ReduceOp("max", acc, identity=False, combine=_or)
    if dtype.kind in "fc":
        lowest = complex(-math.inf, -math.inf) if dtype.kind == "c" else -math.inf
        return ReduceOp("max", acc, lowest, _max_nan)
    return ReduceOp("max", acc, int(np.iinfo(dtype).min), _max)


@dataclass(frozen=True, slots=True, eq=False)
class ReductionRow:
    """A reduction the device computes.

    Attributes
    ----------
    name : str
    numpy : callable
        NumPy's own, for the host, for result dtypes and for errors.
    ufunc : numpy.ufunc
        What combines two values.
    op : callable
        dtype that is accumulated -> how values are combined.
    """

    name: str
    numpy: Callable[..., Any]
    ufunc: np.ufunc
    op: Callable[[np.dtype[Any]], ReduceOp]


# THE REDUCTION TABLE
SUM = ReductionRow("sum", np.sum, np.add, _sum_op)
MAX = ReductionRow("max", np.max, np.maximum, _max_op)

_RECORDS = new_table()


class Reduction:
    """A trailing reduction of a graph: over which axes of `shape`, by which row."""

    __slots__ = ("axes", "row", "shape")

    def __init__(self, row: ReductionRow, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
        self.row = row
        self.shape = shape
        self.axes = axes

    def build(self, graph: Graph, target: Layout | None) -> ReductionProgram:
        """Compile the chain and the reduction after it."""
        return ReductionProgram(self, graph, graph.layout if target is None else target)


class ReductionProgram:
    """A reduction, compiled for its layouts: one launch, or two that share a scratch buffer."""

    __slots__ = ("allocate", "arguments", "first", "leaf", "nbytes", "scratch_nbytes", "second", "version")

    arrays_only = False  # what `schedule.materialise` may not spell out

    def __init__(self, reduction: Reduction, graph: Graph, target: Layout) -> None:
        backend = device()
        self.leaf = leaf(graph.layout)
        self.nbytes = graph.layout.nbytes
        kept = [axis for axis in range(len(reduction.shape)) if axis not in reduction.axes]
        output = operand(target)
        if target.ndim != len(kept):  # keepdims
            output = type(output)(output.type, tuple(output.strides[axis] for axis in kept), output.alignment)
        plan = kernels.plan(
            reduction.shape,
            reduction.axes,
            inputs(graph),
            instructions(graph),
            graph.result,
            reduction.row.op(graph.dtype),
            output,
            backend.capability,
        )
        self.allocate = backend.allocate
        self.scratch_nbytes = plan.scratch_nbytes
        pointers = 1 + bool(plan.scratch_nbytes)
        self.arguments, count = arguments_of(graph)
        first, *second = [
            backend.launcher(launch.kernel, launch.grid, pointers + count * (i == 0), launch.constants)
            for i, launch in enumerate(plan.launches)
        ]
        self.first = first
        self.second = second[0] if second else None

    def run(self, leaves: tuple[Any, ...]) -> Buffer:
        """Enqueue into a new Buffer."""
        buffer = self.allocate(self.nbytes)
        self.run_into(buffer.ptr, leaves)
        return buffer

    def run_into(self, ptr: int, leaves: tuple[Any, ...]) -> None:
        """Enqueue into memory that is there."""
        arguments = self.arguments(leaves)
        if self.second is None:
            self.first(ptr, *arguments)
        else:
            scratch = self.allocate(self.scratch_nbytes)
            self.first(ptr, scratch.ptr, *arguments)
            self.second(ptr, scratch.ptr)


def reduce(
    row: ReductionRow, array: Handle, axis: Any = None, dtype: Any = None, out: Any = None, *, keepdims: bool = False
) -> Any:
    """Reduce `array` over `axis` (None: all).

    Raises
    ------
    AxisError, TypeError, ValueError
        As NumPy.
    Unsupported
        Where the device has no kernel for the dtypes.
    """
    if out is not None:
        check_writeable(out)
    layout = array._layout
    hosted = array._storage.host is not None and (out is None or out._storage.host is not None)
    has_kernel = layout.dtype in DEVICE_TYPES
    if (hosted and (not has_kernel or placement.is_host(layout.nbytes))) or not layout.size:
        if explain.REPORTS:
            explain.note("host", row.name, placement.why_host(layout.nbytes if has_kernel else -1))
        return _on_host(row, array, axis, dtype, out, keepdims=keepdims)
    shape = layout.shape
    if axis is None or (not shape and axis in (0, -1)):  # NumPy lets scalars have an axis
        axes = tuple(range(len(shape)))
    else:
        axes = normalize_axis_tuple(axis, len(shape), "axis")
    result_dtype = _result_dtype(row, layout.dtype, dtype, out)
    if out is not None and (
        out._layout.dtype != result_dtype or (row.ufunc.identity is None and out._layout.dtype != layout.dtype)
    ):
        raise Unsupported("NumPy casts what it has so far to the dtype of `out`, now and then")
    value = expression(array)
    if value[0].reduction is not None:
        value = schedule.materialise(array._storage)
    record = _record(row, value[0], axes, result_dtype, keepdims=keepdims)
    if record.graph is None:
        raise Unsupported(record.reason)
    result = (record.graph, value[1], value[2])
    if out is None:
        return wrap_pending(result)
    _check_out(row, out, record.graph.layout.shape)
    store(out, result)
    return out


def _on_host(row: ReductionRow, array: Handle, axis: Any, dtype: Any, out: Any, *, keepdims: bool) -> Any:
    seen = host_view(array) if array._layout.size else np.empty(array._layout.shape, array._layout.dtype)
    arguments: dict[str, Any] = {} if dtype is None else {"dtype": dtype}
    if out is None:
        return wrap_host(row.numpy(seen, axis=axis, keepdims=keepdims, **arguments))
    with schedule.LOCK:
        row.numpy(seen, axis=axis, keepdims=keepdims, out=writes_host(out), **arguments)
    return out


def _check_out(row: ReductionRow, out: Any, shape: tuple[int, ...]) -> None:
    if out._layout.shape != shape:
        msg = f"output parameter for reduction operation {row.name} has wrong shape: {out._layout.shape}, not {shape}"
        raise ValueError(msg)


_RESULT_DTYPES: dict[Any, np.dtype[Any]] = {}


def _result_dtype(row: ReductionRow, source: np.dtype[Any], dtype: Any, out: Any) -> np.dtype[Any]:
    """Ask NumPy which dtype the reduction accumulates: an `out` has a say in it."""
    key = (row, source, source.num, dtype, None if out is None else out._layout.dtype)
    result = _RESULT_DTYPES.get(key)
    if result is None:
        if dtype is None and out is not None:
            result = row.ufunc.resolve_dtypes((out._layout.dtype, source, None))[-1]
        else:
            result = row.numpy(np.ones(1, source), **({} if dtype is None else {"dtype": dtype})).dtype
        _RESULT_DTYPES[key] = result
    return result


def _record(row: ReductionRow, chain: Graph, axes: tuple[int, ...], dtype: np.dtype[Any], *, keepdims: bool) -> Record:
    key = (row, chain, axes, dtype, keepdims)
    record = _RECORDS.get(key)
    if record is None:
        record = _reduction_of(row, chain, axes, dtype, keepdims=keepdims)
        remember(_RECORDS, key, record)
    return record


def _reduction_of(
    row: ReductionRow, chain: Graph, axes: tuple[int, ...], dtype: np.dtype[Any], *, keepdims: bool
) -> Record:
    shape = chain.layout.shape
    for needed in (chain.dtype, dtype):
        if needed not in DEVICE_TYPES:
            return Record(None, reason=f"dtype {needed} has no kernels yet")
    if len(shape) > MAX_NDIM or (not chain.nodes and not chain.layout.is_aligned):
        return Record(None, reason="the layout has no kernel")
    kept = [axis for axis in range(len(shape)) if keepdims or axis not in axes]
    source = chain.layout
    along = Layout.at(
        dtype, tuple(1 if a in axes else shape[a] for a in kept), tuple(source.strides[a] for a in kept), 0
    )
    # A cast even to the same dtype: a graph without nodes would be a leaf.
    number = len(chain.leaves) + len(chain.nodes)
    nodes = (*chain.nodes, Node(cast(chain.dtype, dtype), dtype, (chain.result,)))
    layout = result_layout(dtype, along.shape, [along])
    return Record(Graph(layout, chain.leaves, nodes, number, Reduction(row, shape, axes)))
