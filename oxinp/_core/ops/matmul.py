"""Matrix products. With vectors they are a multiplication and a sum, fused; all else is a `product.Product`."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from oxinp._config import config
from oxinp._core.errors.state import current, quiet
from oxinp._core.lazy import schedule
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.building import attempt
from oxinp._core.lazy.calls import Pending
from oxinp._core.lazy.expr import Unsupported, new_table, remember
from oxinp._core.lazy.handle import Handle, expression, found, upload_first
from oxinp._core.lazy.op import BoundOp
from oxinp._core.lazy.placement import MAX_WORK, keyed
from oxinp._core.lazy.record import paired, uploaded_for
from oxinp._core.lazy.results import deferred
from oxinp._core.lazy.views import moved, view
from oxinp._core.manipulation.copy import astype, copy
from oxinp._core.manipulation.shape import reshape
from oxinp._core.memory.dtypes import DEVICE_TYPES, FLOAT16, FLOAT32, MULTIPLIED_BITS
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.recent import MEETINGS
from oxinp._core.memory.view_functions import VIEWS, view_layout
from oxinp._core.ops import creation, vector_product
from oxinp._core.ops.product import Product, resized_product
from oxinp._core.ops.vector_product import MatrixProduct, VectorProduct, operand
from oxinp._core.reduction.reduce import reduce, reduced, reduced_over
from oxinp._core.reduction.table import PRODUCTS
from oxinp._core.ufunc.objects import UFUNC_OBJECTS
from oxinp._runtime import here

# Types that are multiplied as they are where the loop is one of wider ones: what is summed up is the same.
WIDENED = {
    np.dtype(np.int8): (np.dtype(np.int32),),
    np.dtype(np.uint8): (np.dtype(np.int32), np.dtype(np.uint32)),
    FLOAT16: (FLOAT32,),
}
MIN_ROWS = 32  # of the matrices of a stack from which on each is multiplied by itself
FLOPS_PER_BYTE = 6  # multiply-adds in which NumPy takes as long as for the bytes of an addition


def matmul(a: Handle, b: Handle, dtype: np.dtype[Any] | None = None) -> Any:
    """Return the matrix product; see `numpy.matmul`.

    Parameters
    ----------
    a, b : Handle
        (..., M, K) and (..., K, N), or one-dimensional as NumPy reads that; the batch is broadcast.
    dtype : numpy.dtype, optional
        Of the loop and the result, to which both operands may be cast; the one that NumPy chooses unless given.

    Returns
    -------
    ndarray or scalar
        In C order.

    Raises
    ------
    ValueError
        As NumPy, for shapes that do not go together.
    Unsupported
        A dtype has no kernels.

    Notes
    -----
    Integers wrap around. Sums of floats are those of fused multiply-adds, those of float16 are in float32 and rounded
    once; the tensor cores, which multiply them, cut partial sums off at 24 bits. On Hopper these multiply 8-bit
    integers and bool, too, and other large matrices where that errs as little: float32 and complex64 as halves, for
    which as much memory is needed as for the operands (see `_kernels.gemm.fp16x2`), float64 and complex128 as bytes,
    for which it is up to ``config.matmul_workspace`` (see `_kernels.gemm.ozaki`); products of float16 and bfloat16 in
    float32 are exact, and their sums as good as those of multiply-adds. ``config.matmul = "native"`` turns emulation
    off, ``"tf32"`` has float32 rounded to 11 bits instead. Of a large matrix by its own transpose only half is
    computed, and mirrored.
    """
    left, right = a._known or found(a), b._known or found(b)
    if left.ndim == 1 and left.shape == right.shape and left.dtype is right.dtype and dtype is None and left.size:
        total = vector_product.inner(a, b)
        return contract(a, b, -1) if total is None else total  # as `Product` decides, without one
    if dtype is None and not (left.met and right.met) and not here.are_several:  # which `product_of` knows nothing of
        made = vector_product.at_once(left, right, a, b)
        return of_new(left, right, a, b) if made is None else made
    product = None if here.are_several else BY_LAYOUTS.get((left, right, dtype))
    if product is None or product.version != config.version:
        product = product_of(left, right, dtype)
    return _multiplied(product, left, right, a, b)


def of_new(left: Layout, right: Layout, a: Handle, b: Handle) -> Any:
    """Return the product of arrays whose layouts have not been met often enough to be looked up, on one device."""
    product = vector_product.summed(left, right)
    if product is None:
        return _multiplied(product_of(left, right), left, right, a, b)
    for each in (left, right):  # what is met again is worth to be looked up
        if each.met < MEETINGS:
            each.met += 1
    x, y = (a, b) if left.ndim == 1 else (b, a)
    made = vector_product.multiply(product, x, y)
    return of_vectors(left, right, a, b) if made is None else made


def _multiplied(
    product: Product | VectorProduct | MatrixProduct | Detour, left: Layout, right: Layout, a: Handle, b: Handle
) -> Any:
    if isinstance(product, Product):
        return launch(product, a, b)
    if isinstance(product, (VectorProduct, MatrixProduct)):
        made = vector_product.multiply(product, *((a, b) if left.ndim == 1 else (b, a)))
        return of_vectors(left, right, a, b) if made is None else made
    return product.run(a, b)


def cost(left: Layout, right: Layout) -> float:
    """Return what placement compares to the threshold: bytes, or as many multiply-adds as take NumPy as long.

    Of two vectors it is less: the host would wait for their product, which is a number.
    """
    nbytes = product_of(left, right).cost
    return nbytes / MAX_WORK if left.ndim == right.ndim == 1 else nbytes


def bound(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> float:
    """Return at least what `cost` does for two arrays of NumPy's; infinity where that takes more than arithmetic."""
    ndim, other = x.ndim, y.ndim
    if not (ndim and other and x.size and y.size):
        return math.inf
    columns = y.shape[-1] if other > 1 else 1
    flops = x.size * columns
    results: int = flops // x.shape[-1]
    if ndim > 2 or other > 2:
        if ndim > 2 and other > 2 and x.shape[:-2] != y.shape[:-2]:
            return math.inf
        if ndim < 3:  # each of the matrices is multiplied
            times = y.size // (y.shape[-2] * columns)
            flops, results = flops * times, results * times
    itemsize = max(x.itemsize, y.itemsize, 8)
    if ndim == other == 1:
        return x.size * itemsize / MAX_WORK
    return max(x.nbytes, y.nbytes, results * itemsize, flops / FLOPS_PER_BYTE)


def product_of(
    left: Layout, right: Layout, dtype: np.dtype[Any] | None = None
) -> Product | VectorProduct | MatrixProduct | Detour:
    """Return how matrices in two layouts are multiplied, in the loop of a dtype if one is given."""
    key: Any = (left, right, dtype)
    if here.are_several:
        key = keyed(key)
    product: Product | VectorProduct | MatrixProduct | Detour | None = BY_LAYOUTS.get(key) or (
        BY_LAYOUTS.recall(key) if key in BY_LAYOUTS.old else None
    )
    if product is None or product.version != config.version:
        product = None if dtype is not None else vector_product.summed(left, right)
        if product is None:
            product = (None if dtype is not None else resized_product(left, right, FLOPS_PER_BYTE)) or _bound(
                left, right, dtype
            )
        if BY_LAYOUTS.has_met((left.shape, left.strides, right.shape, right.strides, left.dtype, dtype), left, right):
            remember(BY_LAYOUTS, key, product)
            if isinstance(product, BoundOp):
                product.met = MEETINGS
    return product


BY_LAYOUTS: Any = new_table()
"""Layouts of two operands, and a dtype or None -> how they are multiplied."""


class Detour(NamedTuple):
    """A product that is not computed by tiles of matrices as they lie.

    Attributes
    ----------
    run : callable
        ``run(a, b)`` -> the result.
    cost : float
        What placement compares to the threshold; -1 where there are no kernels.
    version : int
        Of the settings that it was made under.
    """

    run: Callable[[Handle, Handle], Any]
    cost: float
    version: int


def _is_turned(matrix: Layout) -> bool:
    """Whether a matrix is the transpose of one whose rows are contiguous, and has no such rows itself."""
    itemsize = matrix.dtype.itemsize
    return matrix.strides[0] == itemsize < matrix.strides[1]


def _bound(left: Layout, right: Layout, dtype: np.dtype[Any] | None) -> Product | Detour:
    """Return how matrices in two layouts are multiplied; raises what NumPy raises."""
    result = dtype or _result_dtype(left.dtype, left.dtype.num, right.dtype, right.dtype.num)
    shape, depth = _shape_of(left, right)
    is_square = len(shape) == 2 and shape == left.shape and left.dtype is result
    layout = left.dense if is_square else Layout.of(result, shape)
    flops = layout.size * depth
    cost = max(left.nbytes, right.nbytes, layout.nbytes, flops / FLOPS_PER_BYTE)
    run: Callable[[Handle, Handle], Any]
    if result not in DEVICE_TYPES:
        cost, run = -1.0, partial(_refuse, result)
    elif not flops:
        run = partial(_zeros, layout)
    elif _shares_right(left, right):
        run = partial(_rows_as_one, shape, dtype)
    elif right.ndim > 2 and right.shape[-1] == 1 and left.ndim == 2 and 1 not in left.shape:
        run = partial(_columns_as_one, shape, dtype)
    elif left.ndim == 1 or right.ndim == 1 or 1 in (depth, shape[-1], shape[-2]):
        run = (
            partial(of_vectors, left, right) if dtype is None and left.dtype in DEVICE_TYPES else partial(_cast, result)
        )
    elif left.dtype != right.dtype or (result != left.dtype and result not in _loops(left.dtype)):
        run = partial(_cast, result)
    elif not _are_readable(left, right):
        run = partial(_copied, result)
    else:
        product = Product(left, right, layout, cost)
        if left.dtype in DEVICE_TYPES:
            return product
        run = partial(_of_bits, product, MULTIPLIED_BITS[left.dtype.name][0])
    return Detour(run, cost, config.version)


def _refuse(dtype: np.dtype[Any], *_: Handle) -> Any:
    raise Unsupported(f"dtype {dtype} has no kernels")


def _zeros(layout: Layout, *_: Handle) -> Any:
    made = creation.zeros(layout.shape, layout.dtype)
    return made if layout.ndim else made[()]


def _cast(dtype: np.dtype[Any], a: Handle, b: Handle) -> Any:
    left, right = [astype(x, dtype, copy_wanted=False) for x in (a, b)]
    return matmul(left, right)


def _copied(dtype: np.dtype[Any], a: Handle, b: Handle) -> Any:
    left, right = [x if _are_readable(x._layout) else copy(x) for x in (a, b)]
    return matmul(left, right, dtype)


def _shares_right(left: Layout, right: Layout) -> bool:
    """Whether matrices of few rows, a stack of them, are multiplied by one, and are one themselves or copied into one.

    Those of many rows fill the tiles of a kernel that multiplies each, and does what is made of them.
    """
    rows, depth = left.shape[-2:] if left.ndim > 2 else (0, 0)
    if not 0 < rows < MIN_ROWS or right.ndim < 2 or depth == 1 or right.shape[-1] == 1:
        return False
    is_one = rows == 1 or view_layout(VIEWS[np.reshape], left, ((-1, depth),), {}) is not None
    return is_one and right.size == depth * right.shape[-1]


def _rows_as_one(shape: tuple[int, ...], dtype: np.dtype[Any] | None, a: Handle, b: Handle) -> Any:
    """Multiply the rows of all matrices of a stack by the same matrix, in one product."""
    right = b._known or b._layout
    rows = reshape(a, (-1, (a._known or a._layout).shape[-1]))
    return reshape(matmul(rows, b if right.ndim == 2 else reshape(b, right.shape[-2:]), dtype), shape)


def _columns_as_one(shape: tuple[int, ...], dtype: np.dtype[Any] | None, a: Handle, b: Handle) -> Any:
    """Multiply the same matrix by the vectors of a stack, in one product."""
    rows = reshape(b, (-1, b._layout.shape[-2]))
    return reshape(matmul(rows, moved(a, np.matrix_transpose), dtype), shape)


def _of_bits(product: Product, bits: np.dtype[Any], a: Handle, b: Handle) -> Any:
    return launch(product, *[view(x, lambda seen: seen.view(bits)) for x in (a, b)])


def of_vectors(left: Layout, right: Layout, a: Handle, b: Handle) -> Any:
    """Multiply and sum up, lazily: every element is used once, so there is nothing for tiles to share."""
    first, second = left.shape, right.shape
    if len(first) == 1 and (a._held or a._storage).value is None:
        _upload_vector(a, b)
    elif len(second) == 1 and (b._held or b._storage).value is None:
        _upload_vector(b, a)
    if len(second) == 1:
        if len(first) == 2 and _is_turned(left):  # as `VectorProduct` is summed up
            return contract(moved(b, np.expand_dims, -1), moved(a, np.matrix_transpose), -2)
        return contract(a, b, -1)
    if len(first) == 1:
        return contract(moved(a, np.expand_dims, -1), b, -2)
    if first[-1] == 1:
        return summed_alone(_MULTIPLY(a, b))
    if second[-1] == 1:
        return moved(contract(a, moved(b, np.matrix_transpose), -1), np.expand_dims, -1)
    return moved(contract(moved(a, np.matrix_transpose), b, -2), np.expand_dims, -2)


def _upload_vector(vector: Handle, other: Handle) -> None:
    """Upload a vector that is on the host, if it is multiplied on the device: to view it there takes arithmetic."""
    if current() is quiet.state:
        uploaded_for(vector._held or vector._storage, other._held or other._storage)


def launch(product: Product, a: Handle, b: Handle) -> Any:
    """Have a product computed when its value is needed, or at once."""
    left = operand(a) or attempt(_computed, a)
    right = operand(b) or attempt(_computed, b)
    return deferred(product, (left[0], right[0]), left[1] | right[1])


def _computed(handle: Handle) -> tuple[Any, int]:
    """Where an operand lies on the device, computed if it is pending and uploaded if it is not there, and its mask."""
    storage = handle._held or handle._storage
    value: Any = storage.value or upload_first(storage)
    if value is None or value[0].layout is not handle._known:
        value = expression(handle)
    if value[0].nodes:
        value = schedule.materialise(storage)
    entry = value[1][0]
    if type(entry) is Pending and entry.call is not None:
        entry.call.run()
    return entry, value[2]


def _are_readable(*layouts: Layout) -> bool:
    """Whether kernels read matrices that lie like this: one axis has stride 1, or a single element."""
    for layout in layouts:
        if not layout.is_aligned:
            return False
        if layout.dtype.itemsize not in layout.strides[-2:] and 1 not in layout.shape[-2:]:
            return False
    return True


def _loops(dtype: np.dtype[Any]) -> tuple[np.dtype[Any], ...]:
    """Wider dtypes in whose loops matrices are multiplied as they are; NumPy takes bfloat16 to float32."""
    return WIDENED.get(dtype, (FLOAT32,) if dtype.name in MULTIPLIED_BITS else ())


@cache
def _result_dtype(left: np.dtype[Any], left_num: int, right: np.dtype[Any], right_num: int) -> np.dtype[Any]:
    """Ask NumPy; the numbers tell dtypes apart that are equal and have scalar types of their own."""
    del left_num, right_num
    dtype: np.dtype[Any] = np.matmul.resolve_dtypes((left, right, None))[-1]
    return dtype


def _shape_of(left: Layout, right: Layout) -> tuple[tuple[int, ...], int]:
    """Return the shape of the product and what is summed over; raises what NumPy raises."""
    a, b = left.shape, right.shape
    if not a or not b or a[-1] != (b[-2] if len(b) > 1 else b[0]):
        let_raise(np.matmul, left, right)
    if len(a) == len(b) == 2:
        return (a[0], b[1]), a[1]
    try:
        batch = np.broadcast_shapes(a[:-2], b[:-2]) if len(a) > 2 or len(b) > 2 else ()
    except ValueError:
        msg = f"operands could not be broadcast together with remapped shapes of {a} and {b}"
        raise ValueError(msg) from None
    return (*batch, *a[-2:-1], *(b[-1:] if len(b) > 1 else ())), a[-1]


def vecdot(a: Handle, b: Handle) -> Any:
    """Return the products of vectors along the last axis, the first one's conjugate if it is complex."""
    check(np.vecdot, a, b, 1, 1, -1, -1)
    return contract(_conjugate(a), b, -1)


def matvec(a: Handle, b: Handle) -> Any:
    """Return matrices in the last two axes times vectors in the last one."""
    check(np.matvec, a, b, 2, 1, -1, -1)
    if a._layout.ndim == 2 and b._layout.ndim > 1:
        return matmul(b, moved(a, np.matrix_transpose))
    return contract(a, moved(b, np.expand_dims, -2), -1)


def vecmat(a: Handle, b: Handle) -> Any:
    """Return vectors in the last axis, conjugated if they are complex, times matrices in the last two."""
    check(np.vecmat, a, b, 1, 2, -1, -2)
    if a._layout.ndim > 1 and b._layout.ndim == 2:
        return matmul(_conjugate(a), b)
    return contract(moved(_conjugate(a), np.expand_dims, -1), b, -2)


_MULTIPLY = UFUNC_OBJECTS["multiply"]


def contract(a: Handle, b: Handle, axis: int) -> Any:
    """Return the sum of ``a * b``, broadcast, over an axis; half-precision sums are rounded once."""
    left, right = a._known or a._layout, b._known or b._layout
    one, other = left.dtype, right.dtype
    dtype = one if one is other else np.result_type(one, other)
    wide = FLOAT32 if dtype == FLOAT16 else dtype
    if dtype not in DEVICE_TYPES:
        raise Unsupported(f"dtype {dtype} has no kernels")
    value = paired(_MULTIPLY.operations[0], a, b) if one is other is wide else None
    if value is not None and value[0].layout.nbytes >= balance.limit:
        ndim = value[0].layout.ndim
        total = reduced(PRODUCTS, value, wide) if ndim == 1 else reduced_over(PRODUCTS, value, (axis + ndim,), wide)
        if total is not None:
            return total
    x = a if one is wide else astype(a, wide, copy_wanted=False)
    y = b if other is wide else astype(b, wide, copy_wanted=False)
    total = reduce(PRODUCTS, _MULTIPLY(x, y), axis, wide)
    if wide == dtype:
        return total
    return astype(total, dtype)[()] if isinstance(total, Handle) else total.astype(dtype)


def summed_alone(products: Any) -> Any:
    """Return products as sums of one term, which NumPy starts from +0: it has no -0."""
    return products + 0.0 if products.dtype.kind in "fc" else products


def _conjugate(a: Any) -> Any:
    return UFUNC_OBJECTS["conjugate"](a) if a._layout.dtype.kind == "c" else a


def check(numpys: Callable[..., Any], a: Handle, b: Handle, first: int, second: int, axis: int, other: int) -> None:
    """Let NumPy raise where an operand has fewer dimensions than it needs, or the axes summed over differ in length."""
    shapes = a._layout.shape, b._layout.shape
    if len(shapes[0]) < first or len(shapes[1]) < second or shapes[0][axis] != shapes[1][other]:
        let_raise(numpys, a._layout, b._layout)


def let_raise(numpys: Callable[..., Any], *layouts: Layout) -> None:
    """Call NumPy's function, which refuses such shapes, with stand-ins of one element."""
    numpys(*[np.broadcast_to(np.empty((), layout.dtype), layout.shape) for layout in layouts])


def dot(a: Handle, b: Handle) -> Any:
    """Return the product of all matrices of `a` with all of `b`; see `numpy.dot`."""
    left, right = a._layout, b._layout
    check(np.dot, a, b, 2, 2, -1, -2)
    depth = left.shape[-1]
    columns = right.shape[:-2] + right.shape[-1:]
    turned = reshape(view(b, lambda seen: np.moveaxis(seen, -2, 0)), (depth, int(np.prod(columns))))
    product = matmul(reshape(a, (left.size // depth if depth else int(np.prod(left.shape[:-1])), depth)), turned)
    return reshape(product, left.shape[:-1] + columns)
