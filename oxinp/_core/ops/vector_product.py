"""Products of a vector with a matrix or a vector: sums that are recorded without the graph of what is summed up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._config import config
from oxinp._core.errors.state import current, quiet
from oxinp._core.lazy import schedule
from oxinp._core.lazy.balance import FIRST, NUM_SIZES, RELAUNCHED, SAMPLED, balance, is_sampled
from oxinp._core.lazy.building import Missing, attempt
from oxinp._core.lazy.calls import Pending, result_in
from oxinp._core.lazy.combining import combine
from oxinp._core.lazy.executor import RUNS
from oxinp._core.lazy.explain import REPORTS
from oxinp._core.lazy.expr import leaf, new_table, remember
from oxinp._core.lazy.handle import device_value, upload_first
from oxinp._core.lazy.op import RENTED, AlongRows, BoundOp, along
from oxinp._core.lazy.placement import device
from oxinp._core.lazy.results import deferred, wrap
from oxinp._core.memory.dtypes import DEVICE_TYPES, FLOAT16
from oxinp._core.memory.layout import Layout, accessed, make_layout
from oxinp._core.memory.recent import MEETINGS
from oxinp._core.memory.storage import SHARED, Leaf, next_mask
from oxinp._core.memory.view_functions import VIEWS, view_layout
from oxinp._core.ops import near_products
from oxinp._core.reduction import planning
from oxinp._core.reduction.binding import Dtypes, Wanted, bind, operation
from oxinp._core.reduction.table import PRODUCTS, SUM
from oxinp._core.ufunc.objects import UFUNC_OBJECTS
from oxinp._runtime import here
from oxinp._runtime.backend import FIRST_LOCK
from oxinp._runtime.memory import Buffer

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from oxinp._core.lazy.expr import Graph
    from oxinp._core.lazy.handle import Handle
    from oxinp._kernels.plan import Again, Flagged, Joined

_new = object.__new__
_SUM = operation(SUM)
_PRODUCTS = operation(PRODUCTS)
_ALONE = _PRODUCTS.replace(rows=None)  # no part of what goes along rows, as sums along columns
_MULTIPLY = UFUNC_OBJECTS["multiply"].operations[0]
_PLANNERS: dict[np.dtype[Any], Any] = {}
_INNER_PLANNERS: dict[np.dtype[Any], Any] = {}
"""By dtype what plans the sums, of matrices and of vectors, once one has been planned."""
INNER_PRODUCTS: Any = new_table()
EARLY_NBYTES = 1 << 25
"""Bytes of a matrix from which on its product is launched at once where the device has nothing to do: it takes longer
to read it than to launch what is made of the product, which would else have to be recorded first."""
MAX_READ_TWICE = 1 << 20
"""Bytes of a vector up to which its product with itself reads it as two."""


class _Summed(BoundOp):
    """A sum of products, bound as others are; but its graph is made where somebody asks for it.

    What sizes like it have been planned for is launched without. `summed` makes it, and `inner`.

    Attributes
    ----------
    left, right : Layout
        Of the operands.
    cost : float
        What placement compares to the threshold.
    version : int
        Of the settings that it was made under.
    """

    __slots__ = ("_summed", "cost", "left", "right", "version")

    left: Layout
    right: Layout
    cost: float
    version: int
    _summed: BoundOp | None

    axis = 0
    run_near: Callable[..., Any]
    keep_near: Callable[[Layout, Layout, Any], None]
    planners: dict[np.dtype[Any], Any]

    @property
    def graphs(self) -> tuple[Graph, ...]:  # type: ignore[override]
        """The graph of the products that are summed up."""
        return self._whole().graphs

    @property
    def parameters(self) -> Any:
        """How they are."""
        return self._whole().parameters

    def _forms(self) -> tuple[Layout, Layout]:
        """What is multiplied, element by element."""
        return self.left.form, self.right.form

    def _whole(self) -> BoundOp:
        if self._summed is None:
            left, right = self._forms()
            graph = combine(_MULTIPLY, (leaf(left), leaf(right)), None).graph
            assert graph is not None
            dtypes = Dtypes(self.left.dtype, self.left.dtype)
            self._summed = bind(Wanted(SUM, graph, (self.axis,), dtypes, keepdims=False, is_masked=False, starts=False))
        return self._summed

    def _planner(self, planners: dict[np.dtype[Any], Any]) -> Any:
        """Return what plans it, which is kept by dtype; None where nothing like it has been planned."""
        dtype = self.left.dtype
        planner = planners.get(dtype)
        if planner is None:
            planner = self.graphs[0].structure.plans.get(planning.key_of(self.parameters, self.layouts[0]))
            if planner is not None:
                planners[dtype] = planner
        return planner

    def _planned_otherwise(self, planners: dict[np.dtype[Any], Any], variant: Hashable) -> Any:
        """Plan it by its graph; the planner that is kept may be one of a structure that has been forgotten since."""
        planners.pop(self.left.dtype, None)
        return super().plan_again(variant)

    def along_rows(self) -> AlongRows | None:
        """See `BoundOp.along_rows`: the sum is along none but where a matrix comes first."""
        return None

    def has_scalar_parts(self) -> bool:
        """See `BoundOp.has_scalar_parts`: there are no scalars."""
        return False

    def run(self, leaves: tuple[Any, ...]) -> list[Buffer]:
        """See `BoundOp.run`."""
        if self.rented and self.executables is None:
            nbytes, found, is_alone = self.layouts[0].nbytes, self.found, not here.are_several
            is_known = is_alone and config.version == self.version
            if is_known and found is not None and found[0] is None:
                again: Any = found[1]
                buffer = RUNS[type(again)](again, nbytes, leaves)
            else:
                is_near = is_alone and not self.has_run  # what runs again is worth to be kept
                buffer = self.run_near(self.left, self.right, leaves, nbytes) if is_near else None
                if buffer is None:
                    buffer = self._run_planned(leaves, nbytes, is_known=is_known)
            if buffer is not None:
                self.has_run, self.extra = True, RELAUNCHED  # `_note_run`, spelled out
                self.rented -= 1
                if self.is_written:
                    self._keep_written()
                return [buffer]
        return super().run(leaves)

    def _run_planned(self, leaves: tuple[Any, ...], nbytes: int, *, is_known: bool) -> Any:
        """Run it by arithmetic, planned again, into a new Buffer, and keep that; None where that is not possible."""
        again = self.plan_again(None)
        run = RUNS.get(type(again))
        buffer = None if run is None else run(again, nbytes, leaves)
        if buffer is not None:
            self._keep_near()
            if is_known:
                self.found = None, again
        return buffer

    def run_first(self, variant: Hashable, leaves: tuple[Any, ...], ptr: int | None = None) -> list[Buffer] | None:
        """See `BoundOp.run_first`; where it is written, elements may lie apart, which nearby products' never do."""
        target: Any = variant
        is_near = ptr is not None and not here.are_several and target.strides in ((), (self.left.dtype.itemsize,))
        if is_near and self.rented and self.run_near(self.left, self.right, leaves, target.nbytes, ptr):
            self._note_run()
            return []
        made = super().run_first(variant, leaves, ptr)
        if is_near and made is not None and self.rented:
            self._keep_near()
        if ptr is not None:
            self._keep_written()
        return made

    def _keep_written(self) -> None:
        """Let it be known that results of the like go into parts of arrays, where that makes a difference."""

    def _note_run(self) -> None:
        """Note that it has been run like others."""
        self.has_run, self.extra = True, RELAUNCHED
        self.rented -= 1

    def _keep_near(self) -> None:
        """Let what has just been run like others be known for those near it."""
        planner = self.planners.get(self.left.dtype)
        if planner is not None and not here.are_several:
            self.keep_near(self.left, self.right, planner)


class VectorProduct(_Summed):
    """The product of a vector and a matrix whose rows are contiguous."""

    __slots__ = ()

    run_near, keep_near = staticmethod(near_products.run_columns), staticmethod(near_products.keep_columns)
    planners = _PLANNERS

    def _keep_written(self) -> None:
        """See `_Summed`."""
        near_products.note_columns_written(self.left, self.right)

    def _forms(self) -> tuple[Layout, Layout]:
        column = view_layout(VIEWS[np.expand_dims], self.left, (-1,), {})
        assert column is not None  # a vector has such a view
        return column.form, self.right.form

    def host_cost(self) -> float:
        """See `BoundOp.host_cost`."""
        return _ALONE.host_weight * self.cost

    def plan_again(self, variant: Hashable) -> Any:
        """See `BoundOp.plan_again`."""
        left, right = self.left, self.right
        planner = _PLANNERS.get(left.dtype) or self._planner(_PLANNERS)
        if planner is None:
            return None
        target: Any = self.layouts[0] if variant is None else variant
        itemsize = left.dtype.itemsize
        steps = (left.strides[0] // itemsize, 0), (right.strides[0] // itemsize, 1)
        alignments = accessed(left), accessed(right)
        written = target.strides[0] // itemsize
        again: Again | Flagged | Joined | None = planner.columns_again(
            right.shape, steps, alignments, written, device().capability
        )
        return again or self._planned_otherwise(_PLANNERS, variant)


class MatrixProduct(_Summed):
    """The product of a matrix whose rows are contiguous and a vector."""

    __slots__ = ()

    run_near, keep_near = staticmethod(near_products.run_rows), staticmethod(near_products.keep_rows)
    planners = _PLANNERS

    axis = 1

    def host_cost(self) -> float:
        """See `BoundOp.host_cost`."""
        return _PRODUCTS.host_weight * self.cost

    def alike(self) -> tuple[Any, tuple[int, ...]]:
        """See `BoundOp.alike`."""
        return self.left.dtype, self.left.shape

    def plan_again(self, variant: Hashable) -> Any:
        """See `BoundOp.plan_again`."""
        left, right = self.left, self.right
        planner = _PLANNERS.get(left.dtype) or self._planner(_PLANNERS)
        if planner is None:
            return None
        target: Any = self.layouts[0] if variant is None else variant
        itemsize = left.dtype.itemsize
        steps = (left.strides[0] // itemsize, 1), (0, right.strides[0] // itemsize)
        alignments = accessed(left), accessed(right)
        written = target.strides[0] // itemsize
        again: Again | Flagged | Joined | None = planner.rows_again(
            left.shape, steps, alignments, written, device().capability
        )
        return again or self._planned_otherwise(_PLANNERS, variant)

    def along_rows(self) -> AlongRows | None:
        """See `BoundOp.along_rows`."""
        left, right = self.left, self.right
        planner = _PLANNERS.get(left.dtype) or self._planner(_PLANNERS)
        if planner is None:
            return None
        itemsize = left.dtype.itemsize
        steps = (left.strides[0] // itemsize, 1), (0, right.strides[0] // itemsize)
        return along((planner, left.shape, steps, (accessed(left), accessed(right))))  # type: ignore[no-any-return]


class InnerProduct(_Summed):
    """The product of two vectors."""

    __slots__ = ()

    run_near, keep_near = staticmethod(near_products.run_line), staticmethod(near_products.keep_line)
    planners = _INNER_PLANNERS

    def __init__(self, left: Layout, right: Layout) -> None:
        # As `summed` has it. Where a vector goes backwards it is no part of what goes along rows either.
        self.op = _SUM if left.strides[0] >= 0 <= right.strides[0] else _ALONE
        self.layouts = (Layout.of(left.dtype, ()),)
        self.has_run = False
        self.met = 0
        self.rented = RENTED
        self.extra = FIRST
        self.planned = self.executables = self.found = self.fused = self.direct = self.gain = self._summed = None
        self.is_written = False
        self.left, self.right, self.cost = left, right, left.nbytes
        self.version = config.version

    def host_cost(self) -> float:
        """See `BoundOp.host_cost`."""
        return (_SUM.host_weight + 1.0) * self.left.nbytes

    def alike(self) -> tuple[Any, tuple[int, ...]]:
        """See `BoundOp.alike`."""
        return self.left.dtype, self.left.shape

    def plan_again(self, variant: Hashable) -> Any:
        """See `BoundOp.plan_again`."""
        left, right = self.left, self.right
        planner = _INNER_PLANNERS.get(left.dtype) or self._planner(_INNER_PLANNERS)
        if planner is None:
            return None
        itemsize = left.dtype.itemsize
        steps = left.strides[0] // itemsize, right.strides[0] // itemsize
        again: Again | None = planner.line_again(
            left.size, steps, (accessed(left), accessed(right)), device().capability.num_sms
        )
        return again or self._planned_otherwise(_INNER_PLANNERS, variant)

    def along_rows(self) -> AlongRows | None:
        """See `BoundOp.along_rows`."""
        left, right = self.left, self.right
        planner = _INNER_PLANNERS.get(left.dtype) or self._planner(_INNER_PLANNERS)
        if planner is None or self.op is _ALONE:
            return None
        itemsize = left.dtype.itemsize
        steps = left.strides[0] // itemsize, right.strides[0] // itemsize
        return along((planner, left.shape, steps, (accessed(left), accessed(right))))  # type: ignore[no-any-return]


_OF_VECTOR = frozenset({VectorProduct, MatrixProduct})


def summed(left: Layout, right: Layout) -> VectorProduct | MatrixProduct | None:
    """Return the product of a vector and a matrix, or of these the other way round, where both are computed.

    None where they are something else, or rows are not contiguous.
    """
    dtype = left.dtype
    if dtype is not right.dtype or dtype not in DEVICE_TYPES or dtype is FLOAT16:
        return None
    if not (left.is_aligned and right.is_aligned):
        return None
    itemsize = dtype.itemsize
    vector: Layout | None = None
    if left.ndim == 1 and right.ndim == 2:
        vector, matrix = left, right
    elif left.ndim == 2 and right.ndim == 1:
        down, along = left.strides
        if down == itemsize < along:  # the transpose of one whose rows are contiguous
            vector, matrix = right, make_layout(dtype, left.shape[::-1], (along, down), left.offset)
    else:
        return None
    product: Any
    if vector is None:
        m, n = left.shape
        if n != right.size or n < 2 or m < 2 or along != itemsize or down < 0 or right.strides[0] < 0:
            return None
        product = _new(MatrixProduct)
        product.left, product.right, product.layouts, product.cost = left, right, (Layout.of(dtype, (m,)),), left.nbytes
        product.op = _PRODUCTS  # a part of what goes along rows
    else:
        m, n = matrix.shape
        if m != vector.size or m < 2 or n < 2 or matrix.strides[1] != itemsize:
            return None
        product = _new(VectorProduct)
        product.left, product.right, product.layouts = vector, matrix, (Layout.of(dtype, (n,)),)
        product.cost = matrix.nbytes
        product.op = _ALONE
    product.is_written = product.has_run = False  # as `BoundOp` has it, but for what `_whole` finds
    product.met = 0
    product.rented = RENTED
    product.extra = FIRST
    product.planned = product.executables = product.found = product.fused = None
    product.direct = product.gain = product._summed = None
    product.version = config.version
    return product  # type: ignore[no-any-return]


def at_once(left: Layout, right: Layout, a: Handle, b: Handle) -> Any:
    """Launch the product of a vector and a matrix whose rows are contiguous, or of the transpose of one and a vector.

    None where the like has not been launched, or goes into a part of an array, see `near_products.columns_read`: it is
    to wait for that then, as where there is more to find out.
    """
    x, y, matrix = (a, b, right) if left.ndim == 1 else (b, a, left)
    if matrix.nbytes < balance.limit or current() is not quiet.state:
        return None
    found = near_products.columns_read(left, right)
    if found is None or schedule.room < 0 or REPORTS or (held := operand(y)) is None:
        return None
    storage = x._held or x._storage
    if storage.value is None:
        return None
    if (given := operand(x)) is None:
        schedule.materialise(storage)
        if (given := operand(x)) is None:
            return None
    if (given[1] | held[1]) & SHARED:  # others may change it at any time
        return None
    near, shape = found
    leaves, layout = (given[0], held[0]), Layout.of(matrix.dtype, (shape[1],))
    try:
        with FIRST_LOCK:
            buffer = near_products.run_columns_by(near, shape, leaves, layout.nbytes)
            if buffer is None:
                return None
            weigh_columns(layout.nbytes, leaves, matrix.nbytes)
    except (Missing, MemoryError):  # it is found out again what there is to do
        return None
    return wrap((layout.graph or leaf(layout), (result_in(buffer),), next_mask()), layout)


def weigh_columns(nbytes: int, leaves: tuple[Any, ...], matrix_nbytes: int, is_due: bool = False) -> None:
    """Let placement know of a product that has been launched at once, which is weighed if it is due or sampled."""
    size = balance.ran(nbytes, leaves)
    if size < NUM_SIZES and (is_due or is_sampled() or balance.each):
        weight = _ALONE.host_weight
        balance.computed_call(size, weight * matrix_nbytes, weight=weight, price=_ALONE.price, extra=0.0, times=SAMPLED)


def multiply(product: VectorProduct | MatrixProduct, vector: Handle, matrix: Handle) -> Any:
    """Have a product computed when its value is needed; None where the matrix is pending, or it is to be the host's.

    A vector that is pending is computed, for each of its elements is multiplied by many, and one on the host uploaded.
    So is a matrix that is pending when it is multiplied by the second vector: there may be many more.
    """
    nbytes = product.left.nbytes if product.axis else product.right.nbytes
    if nbytes < balance.limit or current() is not quiet.state:
        return None
    is_idle = balance.has_waited  # but for the vector, which may be computed first
    held = operand(matrix) or _met_again(matrix)
    if held is None:
        return None
    storage = vector._held or vector._storage
    if storage.value is None:
        graph, (entry,), mask = attempt(upload_first, storage) or device_value(storage)
        is_whole = graph.layout is (vector._known or vector._layout)
        given = (entry, mask) if is_whole else operand(vector)
    elif (given := operand(vector)) is None:
        schedule.materialise(storage)
        given = operand(vector)
    if given is None:
        return None
    leaves = (held[0], given[0]) if product.axis else (given[0], held[0])
    made = deferred(product, leaves, given[1] | held[1])
    if is_idle and nbytes >= EARLY_NBYTES and (call := made._held.value[1][0].call) is not None:
        call.run()
    return made


def _met_again(matrix: Handle) -> tuple[Any, int] | None:
    """Return where a matrix lies that has been multiplied while it was pending, computed now; None for any other."""
    storage = matrix._held or matrix._storage
    value = storage.value
    if value is None or not value[0].nodes:
        return None
    if getattr(storage, "multiplied", 0) != id(value):
        storage.multiplied = id(value)
        return None
    schedule.materialise(storage)
    return operand(matrix)


def operand(handle: Handle) -> tuple[Any, int] | None:
    """Return where an array that is computed lies on the device, and the mask of that."""
    value = (handle._held or handle._storage).value
    if value is None or value[0].nodes:
        return None
    entry = value[1][0]
    if type(entry) is Pending and entry.call is not None:
        return None
    layout = handle._known or handle._layout
    if value[0].layout is layout or layout.offset == 0:
        return entry, value[2]
    part = Leaf()  # `entry_at`, spelled out
    part.ptr = entry.ptr + layout.offset
    part.buffer = entry if type(entry) is Buffer else entry.buffer
    return part, value[2]


def run_operand(handle: Handle) -> tuple[Any, int] | None:
    """Return where an array lies that waits for the product of a matrix and a vector, computed now; None for others.

    It is asked of what `operand` does not find.
    """
    storage = handle._held or handle._storage
    value = storage.value
    if value is None or value[0].nodes:
        return None
    (entry,) = value[1]
    if type(entry) is Pending and (call := entry.call) is not None:  # else another thread has run it meanwhile
        if type(call.bound) not in _OF_VECTOR:
            return None
        call.run()  # `schedule.materialise`, spelled out
        if (buffer := entry._buffer) is not None and storage.value is value:
            storage.value = value[0], (buffer,), value[2]
    return operand(handle)


def _may_be_inner(left: Layout, right: Layout) -> bool:
    """Whether there are kernels for the product of what lies so, and it is one of two vectors."""
    dtype = left.dtype
    if left.ndim != 1 or left.shape != right.shape or left.size < 2 or not (left.is_aligned and right.is_aligned):
        return False
    return dtype is right.dtype and dtype in DEVICE_TYPES and dtype is not FLOAT16


def inner(a: Handle, b: Handle) -> Any:
    """Have the product of two vectors computed when its value is needed; None where `matmul` has to find out more."""
    left, right = a._known or a._layout, b._known or b._layout
    key = left, right
    product = INNER_PRODUCTS.get(key) or (INNER_PRODUCTS.recall(key) if key in INNER_PRODUCTS.old else None)
    if product is None and not _may_be_inner(left, right):
        return None
    if left.nbytes < (balance.limit or 1) or current() is not quiet.state:
        return None
    u = operand(a) or run_operand(a)
    v = u if a is b else operand(b) or run_operand(b)
    if u is None or v is None or (u[0] is v[0] and left.nbytes > MAX_READ_TWICE):
        return None
    if product is None:
        product = InnerProduct(left, right)
        if INNER_PRODUCTS.has_met((left.shape, left.strides, right.strides, left.dtype), left, right):
            remember(INNER_PRODUCTS, key, product)
            product.met = MEETINGS
    return deferred(product, (u[0], v[0]), u[1] | v[1])
