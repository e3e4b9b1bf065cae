"""Scans: `numpy.ufunc.accumulate`, cumulative sums and products, fused with the chain before them."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from oxinp._core.lazy import explain, placement, schedule
from oxinp._core.lazy.expr import MAX_NDIM, Graph, Node, Record, Unsupported, cast, new_table, remember
from oxinp._core.lazy.handle import Handle, expression, host_view, writes_host
from oxinp._core.lazy.placement import device
from oxinp._core.lazy.programs import PassesProgram, arguments_of, inputs, instructions, operand
from oxinp._core.lazy.record import check_writeable, store, wrap_host, wrap_pending
from oxinp._core.manipulation.shape import ravel
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout, result_layout
from oxinp._core.reduction.table import ScanRow
from oxinp._kernels.problem import ReduceOp
from oxinp._kernels.reduce.operators import scannable

_RECORDS = new_table()


class Scan:
    """A trailing scan of a graph: along which axis of `shape`, by which row and op."""

    __slots__ = ("axis", "op", "row", "shape")

    def __init__(self, row: ScanRow, op: ReduceOp, shape: tuple[int, ...], axis: int) -> None:
        self.row = row
        self.op = op
        self.shape = shape
        self.axis = axis

    def build(self, graph: Graph, target: Layout | None) -> ScanProgram:
        """Compile the chain and the scan after it."""
        return ScanProgram(self, graph, graph.layout if target is None else target)


class ScanProgram(PassesProgram):
    """A scan, compiled for its layouts."""

    __slots__ = ()

    def __init__(self, scan: Scan, graph: Graph, target: Layout) -> None:
        plan = importlib.import_module("oxinp._kernels.scan.plan").plan(  # which only who scans pays for
            scan.shape,
            scan.axis,
            inputs(graph),
            instructions(graph),
            graph.result,
            scan.op,
            operand(target),
            device().capability,
        )
        _, count = arguments_of(graph)
        super().__init__(graph, plan, (1 + count, 2 + count))

    def run_both(self, ptr: int, scratch: int, arguments: list[Any]) -> None:
        """Enqueue what finds the totals of chunks, and the scan that begins with them."""
        self.first(scratch, *arguments)
        self.second(ptr, scratch, *arguments)


def accumulate(row: ScanRow, array: Handle, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
    """Scan `array`.

    Parameters
    ----------
    row : ScanRow
    array : Handle
    axis : int or None
        None: along the elements in C order.
    dtype : dtype, optional
        In which elements are accumulated.
    out : ndarray of ours, optional

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
    hosted = array._storage.host is not None and (out is None or out._storage.host is not None)
    has_kernel = layout.dtype in DEVICE_TYPES
    if (hosted and (not has_kernel or placement.is_host(layout.nbytes))) or not layout.size:
        if explain.REPORTS:
            explain.note("host", row.name, placement.why_host(layout.nbytes if has_kernel else -1))
        return _on_host(row, array, axis, dtype, out)
    if axis is None:
        array, axis = ravel(array), 0
        layout = array._layout
    if not layout.ndim or isinstance(axis, tuple):
        raise Unsupported("NumPy says what it takes")
    axis = normalize_axis_index(axis, layout.ndim)
    value = expression(array)
    if value[0].reduction is not None:
        value = schedule.materialise(array._storage)
    source = value[0].dtype
    result = _result_dtype(row, source, source.num, dtype)
    if out is not None and (out._layout.dtype != result or out._layout.shape != layout.shape):
        raise Unsupported("an output that NumPy casts to, or refuses")
    record = _record(row, value[0], axis, result)
    if record.graph is None:
        raise Unsupported(record.reason)
    pending = (record.graph, value[1], value[2])
    if out is None:
        return wrap_pending(pending)
    store(out, pending)
    return out


def _on_host(row: ScanRow, array: Handle, axis: Any, dtype: Any, out: Any) -> Any:
    seen = host_view(array) if array._layout.size else np.empty(array._layout.shape, array._layout.dtype)
    if out is None:
        return wrap_host(row.numpy(seen, axis, dtype))
    with schedule.LOCK:
        row.numpy(seen, axis, dtype, writes_host(out))
    return out


@cache
def _result_dtype(row: ScanRow, source: np.dtype[Any], num: int, dtype: Any) -> np.dtype[Any]:
    """Ask NumPy which dtype a scan has; `num` tells dtypes apart that are equal and have scalar types of their own."""
    del num
    result: np.dtype[Any] = row.numpy(np.ones(1, source), 0, dtype).dtype
    return result


def _record(row: ScanRow, chain: Graph, axis: int, result: np.dtype[Any]) -> Record:
    key = (row, chain, axis, result)
    record = _RECORDS.get(key)
    if record is None:
        record = _scan_of(row, chain, axis, result)
        remember(_RECORDS, key, record)
    return record


def _scan_of(row: ScanRow, chain: Graph, axis: int, result: np.dtype[Any]) -> Record:
    layout = chain.layout
    for needed in (chain.dtype, result):
        if needed not in DEVICE_TYPES:
            return Record(None, reason=f"dtype {needed} has no kernels yet")
    if layout.ndim > MAX_NDIM or (not chain.nodes and not layout.is_aligned):
        return Record(None, reason="the layout has no kernel")
    op = row.reduction.op(chain.dtype, result, False)
    if op is None:
        return Record(None, reason=f"{row.name} has no kernel for {chain.dtype}")
    nodes, value = list(chain.nodes), chain.result

    def append(node: Node) -> int:
        nodes.append(node)
        return len(chain.leaves) + len(nodes) - 1

    if row.missing is not None and chain.dtype.kind in "fc":
        value = append(Node(_present(row.missing), chain.dtype, (value,)))
    # A cast even to the same dtype: a graph without nodes would be a leaf. Truth is found by the op.
    taken = result if op.lift is None or result.kind != "b" else chain.dtype
    value = append(Node(cast(chain.dtype, taken), taken, (value,)))
    target = result_layout(result, layout.shape, [layout])
    return Record(Graph(target, chain.leaves, tuple(nodes), value, Scan(row, scannable(op), layout.shape, axis)))


@cache
def _present(missing: float) -> Any:
    """Return the lowering that puts a number in the place of NaN."""

    def lower(k: Any, value: Any) -> Any:
        return k.where(k.isnan(value), k.const(missing, value.type), value)

    lower.__name__ = "nan_to_num"
    return lower
