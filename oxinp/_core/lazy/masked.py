"""What is done with elements that a mask selects, before they are selected: see `selections`.

Elementwise operations of such elements and numbers, in place and into others, are those of all elements; what is
written where the same mask is true, or at indices that the same mask selects, is written where it is true; sums and
truths are reduced where it is. Each function says None, or False, where the elements have to be selected for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._core.errors.state import current, quiet
from oxinp._core.lazy.handle import Handle
from oxinp._core.lazy.results import is_device_scalar, types
from oxinp._core.lazy.selections import (
    NUMBERS,
    Mask,
    Masked,
    Selection,
    all_of,
    count,
    is_on_device,
    made,
    weigh,
    write_out,
)
from oxinp._core.memory.dtypes import BOOL
from oxinp._core.memory.layout import Layout
from oxinp._runtime import here

if TYPE_CHECKING:
    from collections.abc import Callable


def shaped(array: Handle, *, is_counted: bool = True) -> Any:
    """Return the layout of an array without a view on the host, or one of its shape and dtype.

    Parameters
    ----------
    array : Handle
    is_counted : bool
        How many have been selected matters, for which the device is waited for.
    """
    held: Any = array._held
    if type(held) is not Masked or here.are_several:
        return array._layout
    selection = held.selection
    if not is_counted:
        return Layout.of(selection.layout.dtype, (1, *selection.shape_behind))
    shape = selection.mask.count(), *selection.shape_behind
    return array._layout if selection.mask.selects_few() else Layout.of(selection.layout.dtype, shape)


def applied(function: Callable[..., Any], *operands: Any) -> Any:
    """Return what a function of elements makes of some that have not been selected; None where they have to be.

    Parameters
    ----------
    function : callable
    *operands : object
    """
    given: list[Any] = []
    mask = kind = shape = selection = None
    for operand in operands:
        if type(operand) is not types.ndarray:
            if type(operand) not in NUMBERS and not isinstance(operand, np.generic) and not is_device_scalar(operand):
                return None
            given.append(operand)
            continue
        held = operand._held
        if type(held) is not Masked:
            return None
        selection = held.selection
        if mask is None:
            mask, kind, shape = selection.mask, selection.kind, selection.layout.shape
        elif selection.mask is not mask or selection.layout.shape != shape:
            return None
        given.append(selection.all)
    if mask is None or selection is None or current() is not quiet.state:
        return None
    if mask.num is not None and mask.selects_few():
        return None
    is_inversion = function is types.invert and selection.layout.dtype == BOOL
    if is_inversion and selection.inverted is not None:  # written out again, as in ``x[~m], y[~m]``
        return made(selection.inverted)
    elements = function(*given)
    if not is_on_device(elements):
        return None
    found = Selection(elements, mask, kind)
    if is_inversion:
        selection.inverted = found
    return made(found)


def update(functions: tuple[Callable[..., Any], Callable[..., Any]], array: Handle, operand: Any) -> bool:
    """Update elements that have not been selected; tell whether that has been done.

    Parameters
    ----------
    functions : tuple of callable
        An operator, and the one in place, which casts what the other one makes.
    array : Handle
    operand : object
    """
    given = _alike(array, (operand,))
    if given is None:
        return False
    held: Any = array._held
    before, (plain, in_place) = held.selection, functions
    elements = plain(before.all, *given)
    if not is_on_device(elements) or elements._known is not before.layout:
        elements = all_of(before.all)
        in_place(elements, *given)
    held.selection = Selection(elements, before.mask, before.kind)
    return True


def into(function: Callable[..., Any], operands: tuple[Any, ...], out: Handle) -> bool:
    """Let elements that have not been selected be what a function makes of such; tell whether that has been done."""
    given = _alike(out, operands)
    if given is None:
        return False
    held: Any = out._held
    before, elements = held.selection, function(*given)
    if not is_on_device(elements):
        return False
    if elements._layout.dtype != before.layout.dtype or elements._layout.shape != before.layout.shape:
        return False
    held.selection = Selection(elements, before.mask, before.kind)
    return True


def _alike(array: Handle, operands: tuple[Any, ...]) -> list[Any] | None:
    """Return all elements of operands that are selected as an array's are, and numbers; None if there are others."""
    if type(array._held) is not Masked or current() is not quiet.state:
        return None
    selection, given = array._held.selection, []
    for operand in operands:
        if type(operand) is types.ndarray:
            held: Any = operand._held
            if type(held) is not Masked or held.selection.mask is not selection.mask:
                return None
            if held.selection.layout.shape != selection.layout.shape:
                return None
            given.append(held.selection.all)
        elif type(operand) in NUMBERS or isinstance(operand, np.generic):
            given.append(operand)
        else:
            return None
    return given


def written(array: Handle, key: Handle, value: Handle) -> tuple[Handle, Handle] | None:
    """Return the mask and all elements of what is written where a mask is true, if that is how they were selected."""
    held = value._held
    if type(held) is not Masked or (array._held or array._storage).host is not None:
        return None
    selection = held.selection
    layout, given, mask = array._known or array._layout, selection.layout, selection.mask
    if layout.shape != given.shape:
        return None
    if not mask.is_as_it_was(key):
        write_out(selection)
        return None
    if given.dtype is not layout.dtype and not _is_cast(given.dtype, layout.dtype):
        return None
    count(selection.kind, 1)
    weigh(selection)
    is_key = mask.storage is not None and key._held is mask.storage and mask.layout.ndim == layout.ndim
    return key if is_key else mask.among(layout.ndim), selection.all


def places(array: Handle, indices: tuple[Handle, ...], value: Any) -> tuple[Handle, tuple[Handle, ...], Any] | None:
    """Return a mask, all indices, and all of what is written to elements of an array; None where they are selected.

    Parameters
    ----------
    array : Handle
    indices : tuple of Handle
        Of integers that have not been selected, one for each axis.
    value : Handle or number
    """
    given = []
    for index in indices:
        held: Any = index._held if type(index) is types.ndarray else None
        if type(held) is not Masked or held.selection.layout.dtype.kind not in "iu":
            return None
        given.append(held.selection)
    mask = given[0].mask
    if len({each.mask for each in given}) > 1 or any(each.layout.shape != mask.layout.shape for each in given):
        return None
    values = _alike(indices[0], (value,))
    if (array._held or array._storage).host is not None or values is None or mask.selects_few():
        return None
    count(given[0].kind, 1)
    weigh(given[0])
    return mask.now(), tuple([each.all for each in given]), values[0]


Reducible = tuple[Handle, "int | tuple[int, ...] | None", Mask, float]
"""What is reduced for elements that have not been selected: all of them, over some axes, where a mask is true, which is
a share of them, as far as that is known."""


def reducible(array: Handle, axis: Any) -> Reducible | None:
    """Return what is reduced where elements are that have not been selected; None where they have to be."""
    held: Any = array._held
    if type(held) is not Masked or not (axis is None or (type(axis) is int and axis == 0)):
        return None
    if current() is not quiet.state:
        return None
    selection = held.selection
    mask, ndim = selection.mask, selection.layout.ndim
    count(selection.kind, 1)
    if axis is not None and mask.layout.ndim > 1:
        axis = tuple(range(mask.layout.ndim))
    return selection.of(), axis, mask, mask.share_of(ndim)


def _is_cast(dtype: np.dtype[Any], target: np.dtype[Any]) -> bool:
    """Whether ``where`` of two dtypes, cast to the second, is what a cast of the first makes, and keeps the second."""
    return np.can_cast(dtype, target, "same_kind") and np.result_type(dtype, target) in (dtype, target)


__all__ = ["applied", "into", "places", "reducible", "shaped", "update", "written"]
