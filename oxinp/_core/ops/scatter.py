"""Writes by index: ``array[index] = values``, of equal indices the last one, and sums at indices."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np

from oxinp._config import config
from oxinp._core.errors.hearing import put
from oxinp._core.lazy import reports, schedule, writing
from oxinp._core.lazy.building import attempt
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import Handle, device_value
from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.lazy.placement import device
from oxinp._core.lazy.results import types
from oxinp._core.lazy.views import view
from oxinp._core.manipulation.copy import astype, copy, drop_leading_ones
from oxinp._core.memory.dtypes import DEVICE_TYPES, MOVED_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.storage import is_pinned
from oxinp._core.ops.advanced import Selection
from oxinp._core.ops.gather import BYTES_PER_INDEX, UINT64, indexed_loop, loops_of, merged_stride
from oxinp._core.ops.perform import bound_to
from oxinp._kernels.plan import Plan

_FAMILY = "oxinp._kernels.index.scatter"
_BITS = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


def _infer_scatter(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001
    return (parameters[0],)


def _plan_scatter(bound: BoundOp) -> Plan:
    target, first, count, is_checked, may_repeat, operator, skips = bound.parameters
    index, values = (graph.layout for graph in bound.graphs[:2])
    is_scalar = bound.graphs[1].is_scalar
    loops, (extent, stride) = loops_of(target), indexed_loop(target, first, count)
    outer, inner = loops[:first], loops[first + count :]
    if is_scalar:
        given, step = [each for _, each in (*outer, *inner)], stride
    else:
        ndim = index.ndim
        along = loops_of(values)
        step = merged_stride(along[first : first + ndim])
        given = [each for _, each in (*along[:first], *along[first + ndim :])]
    plan: Plan = importlib.import_module(_FAMILY).scatter(
        [(*loop, each) for loop, each in zip(outer, given[:first], strict=True)],
        (index.size, stride, step),
        [(*loop, each) for loop, each in zip(inner, given[first:], strict=True)],
        extent,
        (DEVICE_TYPES if is_scalar else MOVED_TYPES)[target.dtype],
        DEVICE_TYPES[index.dtype],
        (target.alignment,) if is_scalar else (target.alignment, values.alignment),
        device().capability,
        is_scalar=is_scalar,
        is_checked=is_checked,
        may_repeat=may_repeat,
        operator=operator,
        skips=skips,
    )
    bound.graphs[0].structure.plans[_likes_of(bound)] = True
    return plan


def _plan_again(bound: BoundOp, variant: Any) -> Plan | None:  # noqa: ARG001 - there is one way
    """Return the plan if one like it has been made, whose kernels serve."""
    return _plan_scatter(bound) if _likes_of(bound) in bound.graphs[0].structure.plans else None


def _likes_of(bound: BoundOp) -> Any:
    """Return what assignments have in common whose kernels are the same, whatever their sizes."""
    target, *others = bound.parameters
    index, values = bound.graphs[:2]
    own = (target.dtype, target.ndim, target.alignment, index.layout.ndim, index.layout.alignment)
    return SCATTER, *own, values.structure, values.layout.alignment, tuple(others)


def _cost(layouts: tuple[Layout, ...], parameters: Any) -> float:
    *_, skips = parameters  # where a mask says which indices count those are few, and finding them is weighed by itself
    return 0.0 if skips else BYTES_PER_INDEX * layouts[0].size + layouts[1].nbytes


SCATTER = Op(
    "assignment by index",
    _plan_scatter,
    _infer_scatter,
    plan_again=_plan_again,
    cost=_cost,
    price=50.0,
    takes_views=True,
    mutates=(0,),
)


_BITS_OF: dict[tuple[np.dtype[Any], int], Any] = {}
"""Dtypes and integers -> what kernels are given for these."""
MAX_BITS = 256


def assign(selected: Selection, value: Any, operator: str = "", *, skips: bool = False) -> BoundOp | None:
    """Write values, cast to the dtype of the array, to what a key selects; of equal indices the last one.

    Parameters
    ----------
    selected : Selection
    value : Handle or scalar
    operator : str
        Compute with what is there instead: a key of `oxinp._kernels.index.scatter.ATOMIC_TYPES`.
    skips : bool
        Some indices are `SKIPPED`.

    Returns
    -------
    BoundOp or None
        The operation, unless nothing is selected.

    Raises
    ------
    Unsupported
        NumPy has to say what is wrong, or the device has no kernel.
    IndexError
        An index that is on the host is out of bounds; of one on the device it is raised later, see `reports`. Then
        nothing is written.
    """
    target = selected.array
    layout = target._known or target._layout
    given: Any
    if type(value) is types.ndarray or isinstance(value, Handle):
        given = broadcast(value, selected)
    else:
        given = _BITS_OF.get((layout.dtype, value)) if type(value) is int else None
        if given is None:
            element = np.zeros(1, layout.dtype)
            # NumPy's scalars are cast as arrays are, Python's numbers have to fit.
            put(element, slice(None), np.asarray(value) if isinstance(value, np.generic) else value)
            given = scalar_bits(element)
            if type(value) is int and type(given) is tuple:
                if len(_BITS_OF) >= MAX_BITS:
                    _BITS_OF.clear()
                _BITS_OF[layout.dtype, value] = given
        if type(given) is types.ndarray:
            given = broadcast(given, selected)
    if not math.prod(selected.shape):
        if selected.error is not None:
            raise Unsupported("indices that NumPy may refuse")
        return None
    if not (layout._injective or layout.is_injective):
        raise Unsupported("elements that overlap")
    index = selected.index
    storage = index._held or index._storage
    if storage is (target._held or target._storage) or not (index._known or index._layout).is_contiguous:
        index = copy(index)
    operands: list[Any] = [index, given]
    if selected.is_checked:
        operands.append((UINT64, 0 if selected.error is None else reports.claim(selected.error)))
    parameters = (
        selected.num_outer,
        selected.num_indexed,
        selected.is_checked,
        not selected.is_unique,
        operator,
        skips,
    )
    bound = write(SCATTER, target, operands, parameters)
    if config.synchronous and selected.error is not None:
        device().synchronize()
    return bound


def scalar_bits(element: np.ndarray[Any, Any]) -> Any:
    """Return the only element of an array as an operand of its kernels."""
    dtype = _BITS.get(element.dtype.itemsize)
    if dtype is None:
        return importlib.import_module("oxinp._core.ops.creation").asarray(element)
    return dtype, int(element.view(dtype)[0])


def check_fits(value: Handle, shape: tuple[int, ...]) -> None:
    """Raise Unsupported where a value cannot be broadcast to a shape, of which NumPy says how."""
    given = (value._known or value._layout).shape
    try:
        fits = given == shape or np.broadcast_shapes(given, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise Unsupported("values that do not fit, of which NumPy says how")


def broadcast(value: Handle, selected: Selection) -> Handle:
    """Return values, cast and with the shape of what is selected."""
    array = selected.array
    layout, own = array._known or array._layout, value._known or value._layout
    if (
        own.shape == selected.shape
        and own.dtype == layout.dtype
        and own.is_contiguous
        and own.is_aligned
        and (value._held or value._storage) is not (array._held or array._storage)
    ):
        return value
    if own.shape != selected.shape:
        value = drop_leading_ones(value, len(selected.shape))
        check_fits(value, selected.shape)
    if own.dtype not in DEVICE_TYPES:
        raise Unsupported(f"values of dtype {own.dtype}")
    if own.dtype is not layout.dtype:
        value = astype(value, layout.dtype, copy_wanted=False)
    own = value._known or value._layout
    if (value._held or value._storage) is (array._held or array._storage) or not own.is_aligned:
        value = copy(value)
        own = value._known or value._layout
    if own.shape == selected.shape and own.is_contiguous:
        return value
    result: Handle = view(value, lambda x: np.broadcast_to(x, selected.shape))
    first, ndim = selected.num_outer, selected.index._layout.ndim
    if merged_stride(loops_of(result._layout)[first : first + ndim]) < 0:
        result = copy(result)
    return result


def write(op: Op, target: Handle, operands: list[Any], parameters: tuple[Any, ...]) -> BoundOp:
    """Have an operation write to the elements of a view, whose form is its first parameter; return it."""
    return attempt(_write, op, target, operands, parameters)


def _write(op: Op, target: Handle, operands: list[Any], parameters: tuple[Any, ...]) -> BoundOp:
    storage, layout = target._held or target._storage, target._known or target._layout
    if storage.value is None:
        device_value(storage)
    if is_pinned(storage) or storage.value is None:
        raise Unsupported("elements that stay on the host")
    value = schedule.materialise(storage)
    bound, leaves, _ = bound_to(op, operands, (layout.form, *parameters))
    writing.write_by(storage, layout, bound, leaves, depth=6)
    del value  # which kept the storage where it is, whatever the operands took to compute
    return bound


__all__ = ["SCATTER", "assign", "broadcast", "check_fits", "scalar_bits", "write"]
