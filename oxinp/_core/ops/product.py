"""Products of matrices that are multiplied by tiles: their plans, and those of new sizes, which are arithmetic."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from oxinp._config import config
from oxinp._core.lazy.balance import AGAIN, FIRST
from oxinp._core.lazy.executor import run_resized
from oxinp._core.lazy.expr import Graph, leaf
from oxinp._core.lazy.op import SPARE, BoundOp, Op
from oxinp._core.lazy.placement import device, keyed
from oxinp._core.memory.dtypes import DEVICE_TYPES, MULTIPLIED_BITS
from oxinp._core.memory.layout import Layout
from oxinp._core.ops.epilogue import epilogue_of
from oxinp._core.reduction.binding import PRODUCT_WEIGHT
from oxinp._kernels.choice import MIN_NOMINAL, NOMINAL_STEP
from oxinp._ptx.types import Type, f16, f32, i8, i16, i32, pred, u8, u16
from oxinp._runtime import here

if TYPE_CHECKING:
    from collections.abc import Hashable

    from oxinp._core.lazy.executor import Executable
    from oxinp._kernels.gemm.epilogue import Epilogue
    from oxinp._kernels.gemm.operand import Matrices
    from oxinp._kernels.plan import Plan, Resized
    from oxinp._runtime.memory import Buffer

# Types whose sums are of another type: NumPy adds halves in single precision, and bools by `or`. Narrow integers wrap
# around as the low bits of wider ones do, in a third of the instructions.
_SUMS: dict[Type, Type] = {f16: f32, **dict.fromkeys((pred, i8, u8, i16, u16), i32)}
# Rows from which the tiles of half a product keep all multiprocessors at work, and up to which half of it by
# multiply-adds takes less time than all of it on faster units.
MIN_SYMMETRIC, MAX_SYMMETRIC = 1024, {"d": sys.maxsize, "D": 4096}
HOST_WEIGHT = PRODUCT_WEIGHT
ALIGN = 16  # bytes: what rows begin at multiples of decides which kernels there are
MAX_RESIZED = 1 << 10
RESIZED: dict[Any, Callable[[int, int], Resized] | Literal[False]] = {}
"""How products are launched that lie alike, and are nominally of one size (see `_kernels.choice`).

False where that is not known before one is planned.
"""
NEARBY: dict[Any, Callable[[int, int], Callable[[int, int], Resized] | None]] = {}
"""By what products of any size have in common that lie alike, how what `RESIZED` holds is found without a plan."""

MAX_PREPARED = 1 << 6
PREPARED: dict[Any, Prepared] = {}
"""What runs products, by all that their plans depend on: a product of what has just been computed is met once."""

OWN = "own"
"""The variant of a product of a matrix and its own transpose."""


class Prepared:
    """What runs the products of a kind.

    Attributes
    ----------
    executables : dict
        See `BoundOp.executable`.
    is_by_steps : bool or None
        Whether that is the launches on faster units; None until somebody has asked.
    """

    __slots__ = ("executables", "is_by_steps")

    def __init__(self) -> None:
        self.executables: dict[Any, Executable] = {}
        self.is_by_steps: bool | None = None


class Product(BoundOp):
    """The product of matrices as they lie.

    Parameters
    ----------
    left, right, layout : Layout
        Of the operands, and of the result.
    cost : float
        What placement compares to the threshold.

    Attributes
    ----------
    left, right, cost
        As given.
    settings : (str, int)
        ``config.matmul`` and ``config.matmul_workspace`` when it was asked for.
    version : int
        Of the settings that it was made under.
    """

    __slots__ = ("_key", "_operands", "_resized", "cost", "left", "right", "settings", "version")

    def __init__(self, left: Layout, right: Layout, layout: Layout, cost: float) -> None:
        is_own = left.strides[-1] == right.strides[-2] and _is_transpose(left, right, layout.dtype)
        self.op = GRAM if is_own else MATMUL  # as `BoundOp` has it, but for the graphs
        self.layouts = (layout,)
        self.parameters = ()
        self.has_run = False
        self.rented = 1  # to find out how it runs takes about as long as to prepare it
        self.extra = FIRST
        self.planned = self.executables = self.found = self.fused = self.direct = self.gain = None
        self.left, self.right = left, right
        self.version = config.version
        self.settings = config.matmul, config.matmul_workspace
        self.cost = cost
        self._operands: tuple[Matrices, Matrices] | None = None
        self._resized: Resized | None = None
        self._key: Any = None

    @property
    def graphs(self) -> tuple[Graph, ...]:  # type: ignore[override]
        """The operands', which few ask for."""
        return leaf(self.left), leaf(self.right)

    def host_cost(self) -> float:
        """See `BoundOp.host_cost`."""
        return HOST_WEIGHT * self.cost

    def plan_ahead(self, leaves: tuple[Any, ...]) -> None:
        """Plan it by arithmetic if one that is nominally alike has been planned; see `BoundOp.plan_ahead`."""
        if self._resized is not None and self.version == config.version:
            return
        self._resized = self._find_resized()
        if self._resized is None:
            super().plan_ahead(leaves)
            if self.planned is not None and self.planned[0] is None:  # in the one way that it is launched, see `plan`
                self._resized = self._find_resized()

    def run(self, leaves: tuple[Any, ...]) -> list[Buffer]:
        """See `BoundOp.run`."""
        resized = self._resized
        if resized is not None and self.op.variant is None and not self.has_run and self.version == config.version:
            self._resized = None
            try:
                buffer = run_resized(resized, self.layouts[0].nbytes, leaves)
            except MemoryError:  # the spare way takes less
                buffer = None
            if buffer is not None:
                self.has_run, self.rented, self.extra, self.planned = True, 0, 2 * AGAIN, None
                return [buffer]
        return super().run(leaves)

    def run_first(self, variant: Hashable, leaves: tuple[Any, ...], ptr: int | None = None) -> list[Buffer] | None:
        """Launch it as the one was launched that it is planned by; see `BoundOp.run_first`."""
        resized, self._resized = self._resized, None
        if variant is None and not self.has_run and self.planned is None:
            resized = resized or self._find_resized()
            buffer = None if resized is None else run_resized(resized, self.layouts[0].nbytes, leaves)
            if buffer is not None:
                self.has_run, self.rented, self.extra = True, 0, 2 * AGAIN
                return [buffer]
        return super().run_first(variant, leaves, ptr)

    def executable(self, variant: Hashable = None) -> Executable:
        """Return what runs it; see `BoundOp.executable`."""
        if self.executables is None:
            self.executables = self._prepared().executables
        return super().executable(variant)

    def _prepared(self) -> Prepared:
        """Return what has been prepared for the first product of its kind."""
        key = self._nominally()
        if key is None:
            return Prepared()
        found = PREPARED.get((key, self.layouts[0].shape))
        if found is None:
            if len(PREPARED) >= MAX_PREPARED:
                PREPARED.clear()
            found = PREPARED[key, self.layouts[0].shape] = Prepared()
        return found

    def _find_resized(self) -> Resized | None:
        """Return the launch, if one that lies alike has been planned, and its kernel serves."""
        key, shape = self._nominally(), self.layouts[0].shape
        resized = RESIZED.get(key)
        if resized is None:
            resized = _renewed(key, shape)
        return resized(*shape) if resized else None

    def _nominally(self) -> Any:
        """Return what `nominally` does; None of batches."""
        (layout,) = self.layouts
        if len(layout.shape) != 2:
            return None
        if self._key is None or self.version != config.version:
            self._key = nominally(self.left, self.right, layout.dtype, layout.shape, self.settings)
        return self._key

    def _matrices(self) -> tuple[Matrices, Matrices]:
        if self._operands is None:
            batch, make = self.layouts[0].shape[:-2], _planner().Matrices
            left, right = self.left, self.right
            if batch:
                left, right = [x.broadcast((*batch, *x.shape[-2:])) for x in (left, right)]
            self._operands = (
                make(_type_of(left.dtype), left.element_strides, left.alignment),
                make(_type_of(right.dtype), right.element_strides, right.alignment),
            )
        return self._operands

    def _extents(self) -> tuple[tuple[int, ...], int]:
        """Shape of the result, and what is summed over."""
        return self.layouts[0].shape, self.left.shape[-1]

    def planned_by_steps(self, epilogue: Epilogue | None = None) -> Plan | None:
        """The launches on faster units, if there are such; with an epilogue, one that has the sums of those without."""
        plan: Plan | None = _planner().plan_steps(
            *self._extents(),
            *self._matrices(),
            DEVICE_TYPES[self.layouts[0].dtype],
            device().capability,
            *self.settings,
            epilogue,
        )
        return plan

    def plan(self, variant: Any = None) -> Plan:
        """Return the plan that is run: the usual one, the spare one, or the one of a matrix by its own transpose."""
        if variant == OWN:
            return self._plan_symmetric()
        if variant == SPARE:
            return self._plan_native()
        plan = self.planned_by_steps() or self._plan_native()
        key = self._nominally()
        if plan.resized is not None and key is not None:
            if len(RESIZED) >= MAX_RESIZED:
                RESIZED.clear()
            RESIZED[key] = plan.resized
            self._keep_nearby(_whatever_size(key))
        return plan

    def _keep_nearby(self, key: Any) -> None:
        """Enter in `NEARBY` how products of other sizes are found, where that takes arithmetic alone."""
        if key in NEARBY:
            return
        (a, b), (setting, _) = self._matrices(), self.settings
        planner = importlib.import_module("oxinp._kernels.gemm.nearby")
        if planner.Nearby.serves(a.type, b.type, setting):
            if len(NEARBY) >= MAX_RESIZED:
                NEARBY.clear()
            type_ = DEVICE_TYPES[self.layouts[0].dtype]
            types = _SUMS.get(type_, type_), type_
            NEARBY[key] = planner.Nearby(*self._extents(), a, b, *types, device().capability, setting)

    def fuse(self, graph: Graph, place: int) -> Plan | None:
        """Return the plan that multiplies and does what a graph does.

        None where no kernel does both, or the product would not have the very sums that it has without.
        """
        type_ = DEVICE_TYPES[self.layouts[0].dtype]
        acc = _SUMS.get(type_, type_)
        epilogue = epilogue_of(graph, place, type_, acc)
        if epilogue is None:
            return None
        prepared = self._prepared()
        if prepared.is_by_steps is None:
            prepared.is_by_steps = self.planned_by_steps() is not None
        if prepared.is_by_steps:
            return self.planned_by_steps(epilogue)
        plan: Plan | None = _planner().plan(
            *self._extents(),
            *self._matrices(),
            acc,
            DEVICE_TYPES[graph.dtype],
            device().capability,
            importlib.import_module("oxinp._kernels.gemm.variant").Variant(epilogue=epilogue, has_plain_sums=True),
        )
        return plan

    def _plan_symmetric(self) -> Plan:
        """Half of the product of a matrix by its own transpose, and its mirror image, where that is faster."""
        (layout,) = self.layouts
        num_rows = layout.shape[-1]
        planned = self.planned_by_steps() if num_rows > MAX_SYMMETRIC.get(layout.dtype.char, 0) else None
        if num_rows < MIN_SYMMETRIC or planned is not None:
            return planned or self.plan()
        plan: Plan = importlib.import_module("oxinp._kernels.blas3.plan").plan_rank_k(
            *self._extents(),
            self._matrices()[0],
            device().capability,
            is_lower=True,
            is_mirrored=True,
        )
        return plan

    def _plan_native(self) -> Plan:
        type_ = DEVICE_TYPES[self.layouts[0].dtype]
        plan: Plan = _planner().plan(
            *self._extents(), *self._matrices(), _SUMS.get(type_, type_), type_, device().capability
        )
        return plan


def nominally(
    left: Layout, right: Layout, dtype: np.dtype[Any], shape: tuple[int, ...], settings: tuple[str, int]
) -> Any:
    """Return what products of matrices have in common that are planned alike, whose results have a dtype and a shape.

    It is all that their plans depend on, but for the extents of the results.
    """
    (m, n), itemsize = shape, right.dtype.itemsize
    steps, others = left.strides, right.strides
    key = (
        m if m <= MIN_NOMINAL else -(-m // NOMINAL_STEP) * NOMINAL_STEP,  # `nominal`, spelled out
        n if n <= MIN_NOMINAL else -(-n // NOMINAL_STEP) * NOMINAL_STEP,
        *(n % (ALIGN // itemsize or 1), left.shape[1]),
        *(left.dtype, right.dtype, dtype, steps, others, left.alignment, right.alignment),
        *(steps[1] < m * itemsize, others[0] < n * itemsize),  # lines overlap
        *(settings, config.version),
    )
    return keyed(key) if here.are_several else key


def _whatever_size(key: Any) -> Any:
    """Return what of a key of `RESIZED` does not say how large products are."""
    return keyed(key[0][2:]) if here.are_several else key[2:]


def _renewed(key: Any, shape: tuple[int, ...]) -> Callable[[int, int], Resized] | Literal[False] | None:
    """Return what `RESIZED` is to hold, by arithmetic, and enter it; None where no product like it has been planned."""
    nearby = None if key is None else NEARBY.get(_whatever_size(key))
    if nearby is None:
        return None
    if len(RESIZED) >= MAX_RESIZED:
        RESIZED.clear()
    resized = RESIZED[key] = nearby(shape[0], shape[1]) or False
    return resized


def resized_product(left: Layout, right: Layout, flops_per_byte: float) -> Product | None:
    """Return the product of matrices, if one that lies alike has been planned, and its kernel serves."""
    dtype = left.dtype
    if left.ndim != 2 or right.ndim != 2 or dtype is not right.dtype or left.shape[1] != right.shape[0]:
        return None
    shape = left.shape[0], right.shape[1]
    key = nominally(left, right, dtype, shape, (config.matmul, config.matmul_workspace))
    resized = RESIZED.get(key)
    if resized is None:
        resized = _renewed(key, shape)
    if not resized:
        return None
    layout = Layout.of(dtype, shape)
    cost = max(left.nbytes, right.nbytes, layout.nbytes, layout.size * left.shape[1] / flops_per_byte)
    product = Product(left, right, layout, cost)
    product._resized = resized(*shape)
    return product


def _variant(bound: BoundOp, leaves: tuple[Any, ...]) -> str | None:  # noqa: ARG001 - the rows' one signature
    """Which plan runs for operands that lie there."""
    return OWN if leaves[0].ptr == leaves[1].ptr else None


def _may_fuse(bound: BoundOp, leaves: tuple[Any, ...]) -> bool:
    """Whether the product is one that an epilogue is as fast with: of half a product there is none."""
    return _variant(bound, leaves) is None or bound.layouts[0].shape[-1] < MIN_SYMMETRIC


_Product: Any = Product  # whose methods take no other bound operations than their own
MATMUL = Op(
    "matmul",
    _Product.plan,
    host=np.matmul,
    host_weight=HOST_WEIGHT,
    price=12.0,
    takes_views=True,
    fuse=_Product.fuse,
    plan_variant=_Product.plan,
    has_spare=True,
    linear_in=(0, 1),
)
"""Its bound operations are each a `Product`."""
GRAM = MATMUL.replace(variant=_variant, may_fuse=_may_fuse)
"""Products whose right operand lies as the transpose of the left one does, and may be it."""


def _is_transpose(left: Layout, right: Layout, dtype: np.dtype[Any]) -> bool:
    """Whether the right layout is that of the left one's transpose, of dtypes of which half may be computed."""
    shape, strides = left.shape, left.strides
    if left.dtype is not dtype or dtype.char not in "fdFD":
        return False
    return (*shape[:-2], *shape[:-3:-1]) == right.shape and (*strides[:-2], *strides[:-3:-1]) == right.strides


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
