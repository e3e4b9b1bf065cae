"""Matrix products. With vectors they are a multiplication and a sum, fused; all else is `_kernels.gemm.select`'s."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._config import config
from oxinp._core.lazy import schedule
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.building import attempt
from oxinp._core.lazy.calls import Pending
from oxinp._core.lazy.expr import Graph, Unsupported, leaf, new_table, remember
from oxinp._core.lazy.handle import Handle, expression
from oxinp._core.lazy.op import SPARE, BoundOp, Op
from oxinp._core.lazy.placement import device, keyed
from oxinp._core.lazy.record import paired
from oxinp._core.lazy.results import wrap_result
from oxinp._core.lazy.views import moved, view
from oxinp._core.manipulation.copy import astype, copy
from oxinp._core.manipulation.shape import reshape
from oxinp._core.memory.dtypes import DEVICE_TYPES, FLOAT16, FLOAT32, MULTIPLIED_BITS
from oxinp._core.memory.layout import Layout
from oxinp._core.ops import creation
from oxinp._core.ops.epilogue import epilogue_of
from oxinp._core.reduction.reduce import reduce, reduced, reduced_over
from oxinp._core.reduction.table import SUM
from oxinp._core.ufunc.objects import UFUNC_OBJECTS
from oxinp._kernels.choice import nominal
from oxinp._ptx.types import Type, f16, f32, i8, i16, i32, pred, u8, u16
from oxinp._runtime import here

if TYPE_CHECKING:
    from oxinp._core.memory.storage import Value
    from oxinp._kernels.gemm.epilogue import Epilogue
    from oxinp._kernels.gemm.operand import Matrices
    from oxinp._kernels.plan import Plan

# Types whose sums are of another type: NumPy adds halves in single precision, and bools by `or`. Narrow integers wrap
# around as the low bits of wider ones do, in a third of the instructions.
_SUMS: dict[Type, Type] = {f16: f32, **dict.fromkeys((pred, i8, u8, i16, u16), i32)}
# Types that are multiplied as they are where the loop is one of wider ones: what is summed up is the same.
WIDENED = {
    np.dtype(np.int8): (np.dtype(np.int32),),
    np.dtype(np.uint8): (np.dtype(np.int32), np.dtype(np.uint32)),
    FLOAT16: (FLOAT32,),
}
# Rows from which the tiles of half a product keep all multiprocessors at work, and up to which half of it by
# multiply-adds takes less time than all of it on faster units.
MIN_SYMMETRIC, MAX_SYMMETRIC = 1024, {"d": sys.maxsize, "D": 4096}
FLOPS_PER_BYTE = 6  # multiply-adds in which NumPy takes as long as for the bytes of an addition
HOST_WEIGHT = 0.25  # on many cores


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
    left, right = a._known or a._layout, b._known or b._layout
    if left.ndim == 1 and left.shape == right.shape and left.dtype is right.dtype and dtype is None and left.size:
        return contract(a, b, -1)  # as `Product` decides, without one
    return _product_of(left, right, dtype).run(a, b)


def cost(left: Layout, right: Layout) -> float:
    """Return what placement compares to the threshold: bytes, or as many multiply-adds as take NumPy as long."""
    return _product_of(left, right).cost


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
    return max(x.nbytes, y.nbytes, results * itemsize, flops / FLOPS_PER_BYTE)


def _product_of(left: Layout, right: Layout, dtype: np.dtype[Any] | None = None) -> Product:
    key: Any = (left, right, dtype)
    if here.are_several:
        key = keyed(key)
    product: Product | None = _PRODUCTS.get(key) or (_PRODUCTS.recall(key) if _PRODUCTS.old else None)
    if product is None or product.version != config.version:
        product = Product(left, right, dtype)
        if _PRODUCTS.has_met((left.shape, left.strides, right.shape, right.strides, left.dtype, dtype)):
            remember(_PRODUCTS, key, product)
    return product


class Product:
    """The product of matrices in two layouts: what they are turned into first, and the launches."""

    __slots__ = (
        "bound",
        "cost",
        "dtype",
        "layout",
        "left",
        "operands",
        "right",
        "run",
        "settings",
        "version",
    )

    def __init__(self, left: Layout, right: Layout, dtype: np.dtype[Any] | None) -> None:
        self.version = config.version
        self.settings = (config.matmul, config.matmul_workspace)
        self.left, self.right = left, right
        self.dtype = dtype or _result_dtype(left.dtype, left.dtype.num, right.dtype, right.dtype.num)
        self.operands: tuple[Matrices, Matrices] | None = None
        shape, depth = _shape_of(left, right)
        is_square = len(shape) == 2 and shape == left.shape and left.dtype is self.dtype
        self.layout = left.dense if is_square else Layout.of(self.dtype, shape)
        self.bound: Any = None  # of matrices that are multiplied as they are
        self.run: Any
        flops = self.layout.size * depth
        self.cost = max(left.nbytes, right.nbytes, self.layout.nbytes, flops / FLOPS_PER_BYTE)
        if self.dtype not in DEVICE_TYPES:
            self.cost, self.run = -1.0, self._refuse
        elif not flops:
            self.run = self._zeros
        elif left.ndim == 1 or right.ndim == 1 or 1 in (depth, shape[-1], shape[-2]):
            self.run = self._vectors if dtype is None and left.dtype in DEVICE_TYPES else self._cast
        elif left.dtype != right.dtype or (self.dtype != left.dtype and self.dtype not in _loops(left.dtype)):
            self.run = self._cast
        elif not _are_readable(left, right):
            self.run = self._copied
        else:
            self.run = self._launch if left.dtype in DEVICE_TYPES else self._of_bits
            is_own = self.dtype == left.dtype and self.dtype.char in "fdFD" and _is_transpose(left, right)
            graphs = left.graph or leaf(left), right.graph or leaf(right)
            self.bound = BoundOp(GRAM if is_own else MATMUL, graphs, (self.layout,), self)

    def _refuse(self, *_: Handle) -> Any:
        msg = f"dtype {self.dtype} has no kernels"
        raise Unsupported(msg)

    def _zeros(self, *_: Handle) -> Any:
        made = creation.zeros(self.layout.shape, self.dtype)
        return made if self.layout.ndim else made[()]

    def _cast(self, a: Handle, b: Handle) -> Any:
        left, right = (astype(x, self.dtype, copy_wanted=False) for x in (a, b))
        return matmul(left, right)

    def _copied(self, a: Handle, b: Handle) -> Any:
        left, right = (x if _are_readable(x._layout) else copy(x) for x in (a, b))
        return matmul(left, right, self.dtype)

    def _of_bits(self, a: Handle, b: Handle) -> Any:
        bits, _ = MULTIPLIED_BITS[self.left.dtype.name]
        return self._launch(*[view(x, lambda seen: seen.view(bits)) for x in (a, b)])

    def _vectors(self, a: Handle, b: Handle) -> Any:
        """Multiply and sum up, lazily: every element is used once, so there is nothing for tiles to share."""
        first, second = self.left.shape, self.right.shape
        if len(second) == 1:
            return contract(a, b, -1)
        if len(first) == 1:
            return contract(moved(a, np.expand_dims, -1), b, -2)
        if first[-1] == 1:
            return summed_alone(_MULTIPLY(a, b))
        if second[-1] == 1:
            return moved(contract(a, moved(b, np.matrix_transpose), -1), np.expand_dims, -1)
        return moved(contract(moved(a, np.matrix_transpose), b, -2), np.expand_dims, -2)

    def _launch(self, a: Handle, b: Handle) -> Any:
        """Have the product computed when its value is needed, or at once."""
        return wrap_result(attempt(self._deferred, a, b))

    def _deferred(self, a: Handle, b: Handle) -> Value:
        left, right = _computed(a), _computed(b)
        (value,) = schedule.defer(self.bound, (left[1][0], right[1][0]), left[2] | right[2])
        return value

    def _matrices(self) -> tuple[Matrices, Matrices]:
        if self.operands is None:
            batch, make = self.layout.shape[:-2], _planner().Matrices
            left, right = self.left, self.right
            if batch:
                left, right = (x.broadcast((*batch, *x.shape[-2:])) for x in (left, right))
            self.operands = (
                make(_type_of(left.dtype), left.element_strides, left.alignment),
                make(_type_of(right.dtype), right.element_strides, right.alignment),
            )
        return self.operands

    def planned(self, epilogue: Epilogue | None = None) -> Plan | None:
        """The launches on faster units, if there are such; with an epilogue, one that has the sums of those without."""
        plan: Plan | None = _planner().plan_steps(
            self.layout.shape,
            self.left.shape[-1],
            *self._matrices(),
            DEVICE_TYPES[self.dtype],
            device().capability,
            *self.settings,
            epilogue,
        )
        return plan

    def plan(self, variant: Any) -> Plan:
        """Return the plan that is run: the usual one, the spare one, or the one of a matrix by its own transpose."""
        if variant == OWN:
            return self._plan_symmetric()
        if variant == SPARE:
            return self._plan_native()
        shape, left, right = self.layout.shape, self.left, self.right
        if len(shape) > 2:
            return self.planned() or self._plan_native()
        m, n = shape
        step = _ALIGN // right.dtype.itemsize or 1
        key = (
            *(nominal(m), nominal(n), n % step, left.shape[1], left.dtype, right.dtype, self.dtype),
            *(left.strides, right.strides, left.alignment, right.alignment),
            *(left.strides[1] < m * left.dtype.itemsize, right.strides[0] < n * right.dtype.itemsize),  # lines overlap
            *(self.settings, config.version),
        )
        key = keyed(key)
        resized = _RESIZED.get(key)
        if resized is not None:
            plan: Plan = resized(m, n)
            return plan
        plan = self.planned() or self._plan_native()
        if plan.resized is not None:
            if len(_RESIZED) >= MAX_RESIZED:
                _RESIZED.clear()
            _RESIZED[key] = plan.resized
        return plan

    def fused(self, graph: Graph, place: int) -> Plan | None:
        """Return the plan that multiplies and does what a graph does.

        None where no kernel does both, or the product would not have the very sums that it has without.
        """
        type_ = DEVICE_TYPES[self.dtype]
        acc = _SUMS.get(type_, type_)
        epilogue = epilogue_of(graph, place, type_, acc)
        if epilogue is None:
            return None
        if self.planned() is not None:
            return self.planned(epilogue)
        plan: Plan | None = _planner().plan(
            self.layout.shape,
            self.left.shape[-1],
            *self._matrices(),
            acc,
            DEVICE_TYPES[graph.dtype],
            device().capability,
            importlib.import_module("oxinp._kernels.gemm.variant").Variant(epilogue=epilogue, has_plain_sums=True),
        )
        return plan

    def _plan_symmetric(self) -> Plan:
        """Half of the product of a matrix by its own transpose, and its mirror image, where that is faster."""
        num_rows = self.layout.shape[-1]
        planned = self.planned() if num_rows > MAX_SYMMETRIC.get(self.dtype.char, 0) else None
        if num_rows < MIN_SYMMETRIC or planned is not None:
            return planned or self.plan(None)
        plan: Plan = importlib.import_module("oxinp._kernels.blas3.plan").plan_rank_k(
            self.layout.shape,
            self.left.shape[-1],
            self._matrices()[0],
            device().capability,
            is_lower=True,
            is_mirrored=True,
        )
        return plan

    def _plan_native(self) -> Plan:
        type_ = DEVICE_TYPES[self.dtype]
        plan: Plan = _planner().plan(
            self.layout.shape,
            self.left.shape[-1],
            *self._matrices(),
            _SUMS.get(type_, type_),
            type_,
            device().capability,
        )
        return plan


_ALIGN = 16  # bytes: what rows begin at multiples of decides which kernels there are
MAX_RESIZED = 1 << 10
_RESIZED: dict[Any, Callable[[int, int], Plan]] = {}
"""How products are planned that lie alike, and are nominally of one size (see `_kernels.choice`)."""

OWN = "own"
"""The variant of a product of a matrix and its own transpose."""


def _variant(bound: BoundOp, leaves: tuple[Any, ...]) -> str | None:  # noqa: ARG001 - the rows' one signature
    """Which plan runs for operands that lie there."""
    return OWN if leaves[0].ptr == leaves[1].ptr else None


def _may_fuse(bound: BoundOp, leaves: tuple[Any, ...]) -> bool:
    """Whether the product is one that an epilogue is as fast with: of half a product there is none."""
    return _variant(bound, leaves) is None or bound.layouts[0].shape[-1] < MIN_SYMMETRIC


MATMUL = Op(
    "matmul",
    lambda bound: bound.parameters.plan(None),
    host=np.matmul,
    cost=lambda layouts, product: product.cost,  # noqa: ARG005 - the rows' one signature
    host_weight=HOST_WEIGHT,
    takes_views=True,
    fuse=lambda bound, graph, place: bound.parameters.fused(graph, place),
    plan_variant=lambda bound, variant: bound.parameters.plan(variant),
    has_spare=True,
    linear_in=(0, 1),
)
GRAM = MATMUL.replace(variant=_variant, may_fuse=_may_fuse)
"""Products whose right operand lies as the transpose of the left one does, and may be it."""


def _computed(handle: Handle) -> Value:
    """What lies on the device of an operand, computed if it is pending."""
    storage = handle._held or handle._storage
    value = storage.value  # `expression`, where nothing is to be done
    if value is None or value[0].layout is not (handle._known or handle._layout):
        value = expression(handle)
    if value[0].nodes:
        value = schedule.materialise(storage)
    entry = value[1][0]
    if type(entry) is Pending and entry.call is not None:
        entry.call.run()
    return value


_PRODUCTS: Any = new_table()


def _is_transpose(left: Layout, right: Layout) -> bool:
    """Whether the right layout is that of the left one's transpose."""
    shape, strides = left.shape, left.strides
    if strides[-1:] != right.strides[-2:-1]:
        return False
    return (*shape[:-2], *shape[:-3:-1]) == right.shape and (*strides[:-2], *strides[:-3:-1]) == right.strides


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


def _type_of(dtype: np.dtype[Any]) -> Type:
    """As what elements are read: bools as the bytes 0 and 1 that they are."""
    if dtype not in DEVICE_TYPES:
        return MULTIPLIED_BITS[dtype.name][1]
    type_ = DEVICE_TYPES[dtype]
    return u8 if type_ is pred else type_


@cache
def _planner() -> Any:
    """Return the module that plans products, imported for the first one: it is a fifth of the package."""
    return importlib.import_module("oxinp._kernels.gemm.select")


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
    return contract(a, moved(b, np.expand_dims, -2), -1)


def vecmat(a: Handle, b: Handle) -> Any:
    """Return vectors in the last axis, conjugated if they are complex, times matrices in the last two."""
    check(np.vecmat, a, b, 1, 2, -1, -2)
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
        total = reduced(SUM, value, wide) if ndim == 1 else reduced_over(SUM, value, (axis + ndim,), wide)
        if total is not None:
            return total
    x = a if one is wide else astype(a, wide, copy_wanted=False)
    y = b if other is wide else astype(b, wide, copy_wanted=False)
    total = reduce(SUM, _MULTIPLY(x, y), axis, wide)
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
