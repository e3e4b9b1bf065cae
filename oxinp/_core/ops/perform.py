"""Performing operations: the one way from an `Op` and arrays to results."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._core.errors.frames import call_as_user
from oxinp._core.lazy import explain, placement, schedule
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.building import attempt
from oxinp._core.lazy.chains import on_device
from oxinp._core.lazy.expr import Unsupported, scalar
from oxinp._core.lazy.handle import Handle, expression, host_view, operand_chain
from oxinp._core.lazy.op import BoundOp, Op, bind
from oxinp._core.lazy.record import is_hosted
from oxinp._core.lazy.results import wrap_host, wrap_result
from oxinp._core.manipulation.copy import copy
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.storage import next_mask

if TYPE_CHECKING:
    from oxinp._core.lazy.expr import Graph
    from oxinp._core.memory.layout import Layout
    from oxinp._core.memory.storage import Value


Operand = Handle | tuple[np.dtype[Any], int]
"""An array, or a number with its dtype, which kernels take by value."""


def perform(op: Op, operands: Sequence[Handle], parameters: tuple[Hashable, ...] = ()) -> Any:
    """Compute an operation where placement puts it; return its result, or a tuple of several.

    Parameters
    ----------
    op : Op
    operands : sequence of Handle
    parameters : tuple
        Of the operation.

    Raises
    ------
    Unsupported
        The device has no kernel.
    Exception
        What `Op.infer` raises, as NumPy.
    """
    if op.host is not None and is_placed_on_host(op, operands, parameters):
        return perform_on_host(op, operands, parameters)
    return perform_on_device(op, operands, parameters)


def perform_on_host(op: Op, operands: Sequence[Handle], parameters: tuple[Hashable, ...] = ()) -> Any:
    """Compute an operation that NumPy has on the host; see `perform`."""
    assert op.host is not None
    results = call_as_user(op.host, (*[host_view(x) for x in operands], *parameters), {})
    return tuple(map(wrap_host, results)) if type(results) is tuple else wrap_host(results)


def is_placed_on_host(op: Op, operands: Sequence[Handle], parameters: tuple[Hashable, ...] = ()) -> bool:
    """Return whether placement puts an operation, which the host can do, there; note why, for who asks."""
    if not is_hosted(operands):
        return False
    cost = op.cost(tuple([x._layout for x in operands]), parameters)
    return placement.takes_to_host(op.name, cost, op.host_weight, op.price)


def perform_on_device(op: Op, operands: Sequence[Operand], parameters: tuple[Hashable, ...] = ()) -> Any:
    """Compute an operation on the device; see `perform`. An operand may be a number, given with its dtype."""
    # Under the lock what has been computed stays where it is until it is among the leaves.
    results = attempt(_asked, op, operands, parameters)
    arrays = [wrap_result(value, as_array=True) for value in results]
    return arrays[0] if len(arrays) == 1 else tuple(arrays)


def perform_sized(
    op: Op, operands: Sequence[Operand], parameters: tuple[Hashable, ...] = ()
) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """Compute an operation whose results' sizes depend on data, on the device.

    Parameters
    ----------
    op : Op
        With `sized`.
    operands, parameters
        As for `perform_on_device`.

    Returns
    -------
    results : tuple of ndarray
    words : tuple of int
        What the plan has read.
    """
    values, words = attempt(_asked_sized, op, operands, parameters)
    return tuple([wrap_result(value, as_array=True) for value in values]), words


def _asked_sized(
    op: Op, operands: Sequence[Operand], parameters: tuple[Hashable, ...]
) -> tuple[list[Value], tuple[int, ...]]:
    bound, leaves, _ = bound_to(op, operands, parameters)
    return _sized(bound, leaves)


def _asked(op: Op, operands: Sequence[Operand], parameters: tuple[Hashable, ...]) -> list[Value]:
    bound, leaves, mask = bound_to(op, operands, parameters)
    return _sized(bound, leaves)[0] if op.sized is not None else schedule.defer(bound, leaves, mask, depth=5)


def bound_to(
    op: Op, operands: Sequence[Operand], parameters: tuple[Hashable, ...]
) -> tuple[BoundOp, tuple[Any, ...], int]:
    """Return an operation bound to operands, the leaves that it is applied to, and their mask."""
    x: Any  # `isinstance` would ask arrays for their class, in a function of ours
    for x in operands:
        if type(x) is not tuple and (dtype := (x._known or x._layout).dtype) not in DEVICE_TYPES:
            raise Unsupported(f"dtype {dtype} has no kernels")
    chained, mask = op.takes_chains, 0
    graphs: list[Graph] = []
    leaves: list[Any] = []
    for number, x in enumerate(operands):
        if type(x) is tuple:
            graphs.append(scalar(x[0]))
            leaves.append(x[1])
            continue
        takes_chain = chained if isinstance(chained, bool) else number in chained
        value = (x._held or x._storage).value
        if takes_chain:
            value = operand_chain(x)
        elif not (
            value is not None
            and (graph := value[0]).layout is x._known
            and not graph.nodes
            and (op.takes_views or x._known.is_contiguous)
        ):  # else it lies in memory as it is read
            value = _in_memory(op, x)
        graph, entries, bits = value
        graphs.append(graph)
        leaves += entries
        mask |= bits
    return bind(op, tuple(graphs), parameters), tuple(leaves), mask


def _in_memory(op: Op, operand: Handle) -> Value:
    """What an operation reads that takes no chain: what lies in memory, contiguous where it must."""
    held = operand
    if not (op.takes_views or (operand._known or operand._layout).is_contiguous):
        if schedule.room >= 0 and not explain.REPORTS and (operand._held or operand._storage).host is None:
            value = expression(operand)
            if not value[0].nodes:  # it is copied here alone, without an array that nobody sees
                graph, buffer = schedule.evaluate(value)
                balance.ran(graph.layout.nbytes, value[1])
                return graph, (buffer,), next_mask()
        held = copy(operand)
    value = expression(held)
    return schedule.materialise(held._held or held._storage) if value[0].nodes else value


def _sized(bound: BoundOp, leaves: tuple[Any, ...]) -> tuple[list[Value], tuple[int, ...]]:
    """Run an operation whose results' sizes depend on data, which waits for the device once; return the words, too."""
    sized = bound.op.sized
    assert sized is not None
    layouts: tuple[Layout, ...] = ()

    def sizes_of(words: tuple[int, ...]) -> list[int]:
        nonlocal layouts
        layouts = sized(bound, words)
        return [layout.nbytes for layout in layouts]

    balance.ran(0, leaves)  # before it waits: what is selected counts as the array that it is selected from
    buffers, words = bound.run_sized(leaves, sizes_of)
    balance.selected(buffers, leaves)
    bound.weigh(balance.ran(layouts[0].nbytes, leaves))
    if explain.REPORTS:
        explain.note("device", bound.op.name, f"{sum(layout.nbytes for layout in layouts)} B result")
    return [on_device(layout, buffer) for layout, buffer in zip(layouts, buffers, strict=True)], words
