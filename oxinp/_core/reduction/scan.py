"""Scans: `numpy.ufunc.accumulate`, cumulative sums and products, fused with the chain before them."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from oxinp._core.errors.hearing import call_numerical
from oxinp._core.errors.state import current, quiet
from oxinp._core.host.exchange import is_array
from oxinp._core.lazy import explain, placement, schedule
from oxinp._core.lazy.chains import arrays, input_types, instructions, operand
from oxinp._core.lazy.expr import MAX_NDIM, Graph, Node, Structure, Unsupported, cast, new_table, remember, structure_of
from oxinp._core.lazy.handle import Handle, begin_writing, end_writing, host_view, operand_chain
from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.lazy.placement import device, may_be_host
from oxinp._core.lazy.record import is_hosted
from oxinp._core.lazy.results import deferred, wrap_host, wrap_result
from oxinp._core.lazy.stores import check_writeable, store_result, target_of
from oxinp._core.manipulation.copy import astype
from oxinp._core.manipulation.shape import ravel
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout, result_layout
from oxinp._core.reduction.table import ScanRow
from oxinp._kernels.plan import Plan
from oxinp._kernels.problem import ReduceOp
from oxinp._kernels.reduce.operators import scannable

_BOUND = new_table()


class Scanned(NamedTuple):
    """Along which axis a chain is scanned, and how elements are combined."""

    op: ReduceOp
    axis: int


def _plan(bound: BoundOp, target: Layout | None = None) -> Plan:
    """Plan the chain and the scan after it, into a layout if one is given."""
    wanted: Scanned = bound.parameters
    return _planned(bound.graphs[0], wanted, bound.layouts[0] if target is None else target)


def _planned(graph: Graph, wanted: Scanned, target: Layout) -> Plan:
    structure = graph.structure
    key = ("scan", wanted.op)
    planner = structure.plans.get(key)
    if planner is None:
        module = importlib.import_module("oxinp._kernels.scan.plan")  # which only who scans pays for
        own = instructions(structure), structure.result, wanted.op
        planner = structure.plans[key] = module.Scan(input_types(structure), *own)
    plan: Plan = planner.plan(graph.shape, wanted.axis, arrays(graph), operand(target), device().capability)
    return plan


def plan_scan(row: ScanRow, chain: Graph, axis: int, target: Layout) -> Plan:
    """Return the plan of a scan that is part of another operation's, into a layout of the dtype it is made in."""
    bound = _bound(row, chain, axis, target.dtype)
    return _planned(bound.graphs[0], bound.parameters, target)


@cache
def _operation(row: ScanRow) -> Op:
    """Return the operation of a row."""
    return Op(
        row.name,
        _plan,
        host=row.numpy,
        price=25.0,
        takes_chains=True,
        takes_views=True,
        gives_views=True,
        plan_variant=_plan,
    )


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
        Where the device has no kernel, and where elements of `out` overlap.
    """
    if out is not None:
        if not is_array(out):
            raise Unsupported("an output that is no array of ours")
        check_writeable(out)
    layout = array._layout
    dtype = None if dtype is None else np.dtype(dtype)
    hosted = is_hosted((array, out))
    has_kernel = layout.dtype in DEVICE_TYPES
    if (hosted and (not has_kernel or placement.is_host(layout.nbytes))) or not layout.size:
        if explain.REPORTS:
            explain.note("host", row.name, placement.why_host(layout.nbytes if has_kernel else -1))
        return _on_host(row, array, axis, dtype, out)
    if axis is None:
        array, axis = array if layout.ndim == 1 else ravel(array), 0
        layout = array._layout
    if not layout.ndim or isinstance(axis, tuple):
        raise Unsupported("NumPy says what it takes")
    axis = normalize_axis_index(axis, layout.ndim)
    if current() is not quiet.state and dtype is not None and dtype.kind in "iuf" and row.missing is None:
        array = astype(array, dtype, copy_wanted=False)  # which tells of what is lost
    value = operand_chain(array)
    source = value[0].dtype
    result = _result_dtype(row, source, source.num, dtype)
    if out is not None and (out._layout.dtype != result or target_of(out).shape != layout.shape):
        raise Unsupported("an output that NumPy casts to, or refuses")
    (scanned,) = schedule.defer(_bound(row, value[0], axis, result), value[1], value[2])
    if out is None:
        return wrap_result(scanned)
    store_result(out, scanned)
    return out


def again(row: ScanRow, array: Handle, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what `accumulate` does of an array that is on the device, where its like has been scanned; else None.

    Parameters
    ----------
    row : ScanRow
    array : Handle
    args, kwargs
        What a function or a method is given: an axis at most.
    """
    if len(args) + len(kwargs) > 1 or (kwargs and "axis" not in kwargs):
        return None
    axis = args[0] if args else kwargs.get("axis")
    ndim = (array._known or array._layout).ndim
    if not (ndim == 1 if axis is None else type(axis) is int and -ndim <= axis < ndim):
        return None
    if may_be_host(array._held or array._storage):
        return None
    graph, leaves, mask = operand_chain(array)
    source, axis = graph.layout.dtype, (axis or 0) % ndim
    result = _result_dtype(row, source, source.num, None)
    bound = _BOUND.get((row, graph, axis, result))
    if bound is None and ("scanned", row, result) in graph.structure.plans and graph.layout.size:
        bound = _bound(row, graph, axis, result)
    return None if bound is None else deferred(bound, leaves, mask)


def _on_host(row: ScanRow, array: Handle, axis: Any, dtype: Any, out: Any) -> Any:
    seen = host_view(array) if array._layout.size else np.empty(array._layout.shape, array._layout.dtype)
    if out is None:
        return wrap_host(call_numerical(row.numpy, (seen, axis, dtype), {}))
    held = begin_writing(out)
    try:
        call_numerical(row.numpy, (seen, axis, dtype, held), {})
    finally:
        end_writing(out._storage)
    return out


@cache
def _result_dtype(row: ScanRow, source: np.dtype[Any], num: int, dtype: Any) -> np.dtype[Any]:
    """Ask NumPy which dtype a scan has; `num` tells dtypes apart that are equal and have scalar types of their own."""
    del num
    result: np.dtype[Any] = row.numpy(np.ones(1, source), 0, dtype).dtype
    return result


def _bound(row: ScanRow, chain: Graph, axis: int, result: np.dtype[Any]) -> BoundOp:
    key = (row, chain, axis, result)
    bound: BoundOp | None = _BOUND.get(key) or _BOUND.recall(key)
    if bound is None:
        bound = _bind(row, chain, axis, result)
        remember(_BOUND, key, bound)
    return bound


def _bind(row: ScanRow, chain: Graph, axis: int, result: np.dtype[Any]) -> BoundOp:
    layout = chain.layout
    if layout.ndim > MAX_NDIM or (not chain.nodes and not layout.is_aligned):
        raise Unsupported("the layout has no kernel")
    key = ("scanned", row, result)
    lifted: tuple[Structure, ReduceOp] | None = chain.structure.plans.get(key)
    if lifted is None:
        lifted = chain.structure.plans[key] = _lift(row, chain.structure, result)
    structure, op = lifted
    graph = Graph(structure, layout, chain.leaves)
    target = result_layout(result, layout.shape, [layout])
    return BoundOp(_operation(row), (graph,), (target,), Scanned(scannable(op), axis))


def _lift(row: ScanRow, chain: Structure, result: np.dtype[Any]) -> tuple[Structure, ReduceOp]:
    """Append to a chain the casts that a scan has, and what stands for NaN."""
    for needed in (chain.dtype, result):
        if needed not in DEVICE_TYPES:
            raise Unsupported(f"dtype {needed} has no kernels yet")
    op = row.reduction.op(chain.dtype, result, False)
    if op is None:
        raise Unsupported(f"{row.name} has no kernel for {chain.dtype}")
    nodes, value = list(chain.nodes), chain.result

    def append(node: Node) -> int:
        nodes.append(node)
        return len(chain.kinds) + len(nodes) - 1

    if row.missing is not None and chain.dtype.kind in "fc":
        value = append(Node(_present(row.missing), chain.dtype, (value,)))
    # Truth is found by the op.
    taken = result if op.lift is None or result.kind != "b" else chain.dtype
    if taken != chain.dtype:
        value = append(Node(cast(chain.dtype, taken), taken, (value,)))
    return structure_of(chain.kinds, chain.are_arrays, tuple(nodes), value), op


@cache
def _present(missing: float) -> Any:
    """Return the lowering that puts a number in the place of NaN."""

    def lower(k: Any, value: Any) -> Any:
        return k.where(k.isnan(value), k.const(missing, value.type), value)

    lower.__name__ = "nan_to_num"
    return lower
