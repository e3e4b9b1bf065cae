"""Linear algebra: products."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from oxinp._api.fronts import as_ours, enter_without_reading, implements
from oxinp._api.rebound import product_of_sizes, rebound
from oxinp._core.host.exchange import is_array
from oxinp._core.host.fallback import placed_on_host
from oxinp._core.lazy import placement
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.record import is_hosted
from oxinp._core.lazy.results import types
from oxinp._core.lazy.stores import check_writeable
from oxinp._core.lazy.views import moved, view, view_at
from oxinp._core.manipulation import shape
from oxinp._core.manipulation.copy import assign
from oxinp._core.memory.layout import Layout
from oxinp._core.ops import einsum as sums
from oxinp._core.ops import matmul, vector_product
from oxinp._core.ops.gufuncs import GUFUNC_OBJECTS
from oxinp._core.ops.outer import outer as vectors_outer
from oxinp._core.ops.product import HOST_WEIGHT
from oxinp._core.ops.where import where
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.table import SUM


def _checked(a: Any, b: Any) -> tuple[Any, Any]:
    if type(a) is type(b) is types.ndarray:
        return a, b
    if any(isinstance(x, np.ndarray) and type(x) is not np.ndarray for x in (a, b)):
        raise Unsupported("a subclass to pass through")
    return as_ours(a), as_ours(b)


def _multiplied(a: Any, b: Any = None, *others: Any, **options: Any) -> Any:
    """Return the product of vectors or matrices, the first on the device; None for what `matmul` may not do as well."""
    if type(b) is not types.ndarray or others or options:
        return None
    left, right = a._known or a._layout, b._known or b._layout
    if left.ndim == right.ndim == 1:
        return vector_product.inner(a, b)
    is_usual = left.dtype is right.dtype and left.dtype.char in "fd" and {left.ndim, right.ndim} <= _FEW_AXES
    return a @ b if is_usual and left.shape[-1] == right.shape[0] > 1 else None


_FEW_AXES = frozenset({1, 2})


@implements("dot", ahead=_multiplied)
def dot(a: Any, b: Any, out: Any = None) -> Any:
    """See `numpy.dot`."""
    a, b = _checked(a, b)
    try:
        result = _dot(a, b)
    except TypeError:
        raise Unsupported("loops that matmul has not, of differences of times, or what NumPy refuses") from None
    if out is None:
        return result
    is_alike = is_array(out) and (out.dtype, out.shape) == (result.dtype, np.shape(result))
    if not is_alike or not out._layout.is_contiguous:
        raise Unsupported("what NumPy refuses, or an array of its own")
    check_writeable(out)
    assign(out, result)
    return out if out._layout.ndim else out[()]


def _contracted(a: Any, b: Any = None, axes: Any = 2, *others: Any, **options: Any) -> Any:
    """Return the product of two matrices over one axis, the first of the device; None for anything else."""
    if type(axes) is not int or axes != 1 or others or options or type(b) is not types.ndarray:
        return None
    if not (a._known or a._layout).ndim == (b._known or b._layout).ndim == 2:
        return None
    made = _multiplied(a, b)
    return None if made is None else view_at(made, made._layout)  # of the shape that it has, as NumPy returns it


implements("tensordot", most=product_of_sizes, ahead=_contracted)(rebound(np.tensordot))


def _dot(a: Any, b: Any) -> Any:
    left, right = a._known or a._layout, b._known or b._layout
    if left.ndim == 1 and left.shape == right.shape and left.size > 1:  # the most common: nothing is to be checked
        return GUFUNC_OBJECTS["matmul"].of_two(a, b)
    if left.ndim == 0 or right.ndim == 0:
        return _scaled(a, b)
    if _is_one_product(left, right):
        return _one_product(a, b)
    matmul.check(np.dot, a, b, 1, 1, -1, -1 if b._layout.ndim == 1 else -2)
    if left.shape[-1] == 1 and _belongs_on_host(a, b):  # where BLAS leaves zeros out, and NumPy's `matmul` does not
        return placed_on_host(np.dot, (a, b), {})
    if a._layout.ndim == 1 or b._layout.ndim <= 2:
        return GUFUNC_OBJECTS["matmul"].of_two(a, b)
    return placed_on_host(np.dot, (a, b), {}) if _belongs_on_host(a, b) else matmul.dot(a, b)


def _is_one_product(left: Layout, right: Layout) -> bool:
    """Whether NumPy multiplies two elements, and keeps -0; longer sums it leaves to BLAS, whose start from +0."""
    is_one = left.size == right.size == 1 and left.ndim <= 2 and right.ndim <= 2
    return is_one and np.result_type(left.dtype, right.dtype).char in "fdFD"


def _one_product(a: Any, b: Any) -> Any:
    product = (a * b).reshape((1,) * (a._layout.ndim + b._layout.ndim - 2))
    return product if product._layout.ndim else product[()]


def _belongs_on_host(a: Any, b: Any) -> bool:
    """Whether a product over one axis of each of two arrays, with all others kept, is placed on the host."""
    if not is_hosted((a, b)):
        return False
    depth = max(a._layout.shape[-1], 1)
    size = a._layout.size // depth * (b._layout.size // depth)
    nbytes = max(a._layout.nbytes, b._layout.nbytes, size * max(a._layout.dtype.itemsize, b._layout.dtype.itemsize))
    return placement.is_host(max(nbytes, size * depth / matmul.FLOPS_PER_BYTE), HOST_WEIGHT)


def _scaled(a: Any, b: Any) -> Any:
    """Return the product with a scalar as BLAS has it: added to +0, and +0 where the scalar is zero, even of NaN."""
    if a.dtype.hasobject or b.dtype.hasobject:
        raise Unsupported("objects, among which NumPy takes a scalar as it is")
    product = a * b
    if not (0 < np.ndim(product) <= 2 and product.size > 1 and product.dtype.char in "fdFD"):
        return product
    scalar = a if a._layout.ndim == 0 else b
    return where(scalar == 0, product.dtype.type(0), product + 0.0)


@implements("inner")
def inner(a: Any, b: Any, /) -> Any:
    """See `numpy.inner`."""
    a, b = _checked(a, b)
    if a._layout.ndim == 0 or b._layout.ndim == 0:
        return _scaled(a, b)
    if _is_one_product(a._layout, b._layout):
        return _one_product(a, b)
    matmul.check(np.inner, a, b, 1, 1, -1, -1)
    if _belongs_on_host(a, b):
        return placed_on_host(np.inner, (a, b), {})
    if b._layout.ndim > 1 and a._layout.ndim > 1:
        return _dot(a, view(b, lambda seen: seen.swapaxes(-1, -2)))
    return matmul.contract(a, b, -1)


_numpys_outer = rebound(np.outer)


@implements("outer", is_hosted=False, ahead=vectors_outer)
def outer(a: Any, b: Any, out: Any = None) -> Any:
    """See `numpy.outer`, whose code does all but the most common."""
    if out is None and type(a) is type(b) is types.ndarray:
        column, row = [x if x.ndim == 1 else shape.ravel(x) for x in (a, b)]
        made = vectors_outer(column, row)
        return moved(column, np.expand_dims, 1) * moved(row, np.expand_dims, 0) if made is None else made
    return _numpys_outer(a, b, out)


@implements("vdot")
def vdot(a: Any, b: Any, /) -> Any:
    """See `numpy.vdot`."""
    a, b = _checked(a, b)
    if a._layout.size != b._layout.size:
        matmul.let_raise(np.vdot, a._layout, b._layout)
    return matmul.vecdot(shape.ravel(a), shape.ravel(b))


@implements("trace")
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
    """See `numpy.trace`."""
    if out is not None and not is_array(out):
        raise Unsupported("a NumPy array to write to")
    a, _ = _checked(a, a)
    diagonal = moved(a, np.diagonal, offset, axis1, axis2)
    return reduce(SUM, diagonal, None if diagonal._layout.ndim == 1 else -1, dtype, out)


@implements("einsum", is_hosted=False)
def einsum(*operands: Any, out: Any = None, optimize: Any = False, **kwargs: Any) -> Any:
    """See `numpy.einsum`."""
    subscripts, arrays = _in_letters(operands)
    if out is not None and not is_array(out):
        raise Unsupported("a NumPy array to write to")
    if subscripts is None or not arrays or not {*kwargs} <= {"dtype", "order", "casting"}:
        raise Unsupported("what NumPy refuses")
    ours = [array if type(array) is types.ndarray else _checked(array, array)[0] for array in arrays]
    is_usual = optimize is False and not kwargs
    return sums.einsum(subscripts, ours, out, sums.USUAL if is_usual else sums.Options(_frozen(optimize), **kwargs))


def _in_letters(operands: tuple[Any, ...]) -> tuple[str | None, tuple[Any, ...]]:
    """Return subscripts, also where they are given as lists behind the operands, and the operands."""
    if operands and isinstance(operands[0], str | bytes):
        first = operands[0]
        return first if isinstance(first, str) else first.decode("ascii", "replace"), operands[1:]
    lists = [*operands[1::2], *(operands[-1:] if len(operands) % 2 else ())]
    try:
        terms = ["".join("..." if x is Ellipsis else _LETTERS[_position(x)] for x in labels) for labels in lists]
    except (TypeError, IndexError):
        return None, ()
    arrow = ["->" + terms.pop()] if len(operands) % 2 and terms else []
    return "".join([",".join(terms), *arrow]), operands[: len(terms) * 2 : 2]


def _position(label: Any) -> int:
    number = operator.index(label)
    if number < 0:
        raise IndexError
    return number


_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _frozen(optimize: Any) -> Any:
    """Return a path as something to look up by."""
    return tuple(map(_frozen, optimize)) if isinstance(optimize, list | tuple) else optimize


enter_without_reading(np.einsum_path, "einsum_path", all_arguments=True)
