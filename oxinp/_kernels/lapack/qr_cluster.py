"""Householder QR of a panel by one cluster of blocks (sm_90): its rows in registers.

Data layout: as of `qr_panel`. A thread has one row in registers, from the column on that is reflected next: with every
column they move up by one, and the first becomes the last, so that the code of all columns is the same. In shared
memory a block has its rows, on their way from and to memory; of columns of even and of odd number, the sums of its
warps, those of every block and the row on the diagonal, which blocks put there; and, per warp, what columns lose.

Who owns what: a block has consecutive rows, a thread one, rank by rank of the cluster.

Algorithm: that of `qr_panel`. The products of column x with all, of a warp's rows, are summed up while they are dealt
out to the lanes, a column each; every block puts its sums into the shared memory of all, and waits for those of all,
once per column.

Per panel: 4 rows * width^2 flops, without a trip to the L2 cache.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.multistage.warp_mma import multiply_add
from oxinp._kernels.lapack import cluster
from oxinp._kernels.lapack.panel_kernel import WARP, WIDTHS
from oxinp._kernels.lapack.qr_panel import QrPanelKernel, Reflector
from oxinp._kernels.plan import Launch, Work
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.cluster import cluster_barrier
from oxinp._ptx.cluster_store import ClusterStores
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.synchronize import follow
from oxinp._ptx.types import Type, c128, f32, u32

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from oxinp._kernels.choice import Device
    from oxinp._kernels.lapack.qr_panel import QrPanel
    from oxinp._kernels.plan import Argument
    from oxinp._ptx.value import Value, Var

SHAPES = ((128, 8), (256, 8), (256, 16), (512, 16))  # threads of a block, blocks of a cluster
UNROLL = 8  # numbers that are loaded at once and added up in pairs: of warps and blocks there are some times as many


class QrClusterSpec(NamedTuple):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
    num_threads : int
        Of a block, and its rows.
    num_blocks : int
        Of the cluster.
    """

    type: Type
    num_threads: int
    num_blocks: int

    @property
    def height(self) -> int:
        """Rows of a block: one of each thread."""
        return self.num_threads

    @property
    def shared_nbytes(self) -> int:
        """Of a block, and some more."""
        lines = self.num_threads // WARP * 4 + 2 * self.num_blocks + 6
        return (self.num_threads * (WIDTHS[self.type.nbytes] + 1) + lines * WARP) * self.type.nbytes + 1024


def choose(type: Type, num_rows: int, device: Device) -> QrClusterSpec | None:
    """Return the Spec of the smallest cluster that has a panel's rows; None where there is none."""
    specs = (QrClusterSpec(type, *shape) for shape in SHAPES)
    return cluster.smallest((spec for spec in specs if _has_registers(spec)), num_rows, device)


def _has_registers(spec: QrClusterSpec) -> bool:
    """Whether a thread has the registers: divisions of c128 take too many where there are 512."""
    return spec.num_threads < SHAPES[-1][0] or spec.type is not c128


@cache
@retraceable
def make(spec: QrClusterSpec) -> Kernel:
    """The kernel of a Spec; see `launch`."""
    return _ClusterPanel(spec).build()


class _ClusterPanel(QrPanelKernel):
    """The kernel while it is built."""

    def __init__(self, spec: QrClusterSpec) -> None:
        k = Builder("qr_cluster_panel", block=spec.num_threads, cluster=spec.num_blocks, target="sm_90", min_blocks=1)
        super().__init__(k, spec.type, spec.num_threads)
        self.spec, self.num_warps, width = spec, spec.num_threads // WARP, self.width
        self.take(is_single=True)
        self.partials = k.dynamic_shared(spec.type, 2 * self.num_warps * width)
        self.outgoing = k.dynamic_shared(spec.type, width)
        self.sums = k.dynamic_shared(spec.type, 2 * spec.num_blocks * width)
        self.lines = k.dynamic_shared(spec.type, 2 * width)
        # Of every warp: what columns lose, over the element of x in a row, and in the row on the diagonal.
        self.factors = k.dynamic_shared(spec.type, self.num_warps * 2 * width)
        self.number = self.top + k.tid  # of the row in the panel
        self.at_once = UNROLL // len(spec.type.parts)
        self.stores = ClusterStores(k)
        self.nbytes = (spec.num_blocks + 1) * width * spec.type.nbytes  # that a block is told

    def build(self) -> Kernel:
        k = self.k
        follow(k)
        self.copy_in()
        own = self.tile.at(k.tid * self.line)
        values = [k.var(own[i]) for i in range(self.width)]
        # From here on every block is there. What it has read it has: nothing is written yet that would be flushed.
        cluster_barrier(k, is_ordering=False)
        with k.range(k.const(0, u32), self.num_columns) as j:
            self.tell(j, values)
            self.update(j, values)
        for i, value in enumerate(values):
            own[(self.num_columns + i) % self.width] = value.get()
        k.barrier()
        self.copy_out()
        return k.build()

    def dealt(self, product: Callable[[int], Value], column: int = 0, half: int = 1) -> Value:
        """The sum over the warp of a value for each element of a row, in a lane of the element's number.

        Lanes that differ in one bit exchange sums: each keeps those of the elements whose numbers have its own. Pair by
        pair, so that few are held at a time.
        """
        k = self.k
        if half == WARP:
            return product(column)
        first = self.dealt(product, column, 2 * half)
        if half >= self.width:
            return first + k.shfl_bfly(first, half)
        second = self.dealt(product, column + half, 2 * half)
        is_second = (k.lane & half) != 0
        kept, sent = k.where(is_second, second, first), k.where(is_second, first, second)
        return kept + k.shfl_bfly(sent, half)

    def tell(self, j: Value, values: Sequence[Var]) -> None:
        """Put the products of column j with all, over this block's rows below, and the row on the diagonal into all."""
        k, width = self.k, self.width
        below = self.conjugate(k.where(self.number > j, values[0].get(), self.zero))
        total = self.dealt(lambda column: multiply_add(k, below, values[column].get(), self.zero))
        half, stores = j % 2, self.stores
        partials = self.partials.at(half * (self.num_warps * width))
        with k.when(k.lane < width):
            partials[k.warp * width + k.lane] = total
        with k.when(self.number == j):
            for i, value in enumerate(values):
                self.outgoing[i] = value.get()
        k.barrier()
        with k.when(k.tid == 0):
            stores.expect(j, self.nbytes)
        with k.when(k.tid < width):
            added = self.zero
            for start in range(0, self.num_warps, self.at_once):
                warps = range(start, min(start + self.at_once, self.num_warps))
                added = added + _sum([partials[k.tid + warp * width] for warp in warps])
            place = (half * self.spec.num_blocks + self.rank) * width + k.tid
            for rank in range(self.spec.num_blocks):
                stores.store(j, self.sums, place, added, rank)
            with k.when(self.rank == 0):
                element = self.outgoing[k.tid]
                for rank in range(self.spec.num_blocks):
                    stores.store(j, self.lines, half * width + k.tid, element, rank)
        stores.wait(j)

    def reflector(self, alpha: Value, squares: Value) -> Reflector:
        """As of `QrPanelKernel`, of real numbers by Newton's iterations where none is near the ends of the range."""
        k, type_ = self.k, self.type
        if type_.is_complex:
            return super().reflector(alpha, squares)
        far = 2.0 ** (100 if type_ is f32 else 900)
        size, head = k.abs(alpha), k.fma(alpha, alpha, squares)
        inverse: Value = k.rsqrt_approx(head)
        rough: Value = k.rcp_approx(size + head * inverse)
        for _ in range(1 if type_ is f32 else 2):
            inverse = k.fma(inverse * k.fma(-head * inverse, inverse, 1.0), 0.5, inverse)
        root = head * inverse
        root = k.fma(k.fma(-root, root, head), inverse * 0.5, root)
        total = size + root
        for _ in range(1 if type_ is f32 else 2):
            rough = k.fma(k.fma(-total, rough, 1.0), rough, rough)
        found = Reflector(k.fma(size, inverse, 1.0), k.copysign(alpha, rough), -k.copysign(alpha, root))
        held = [k.var(value) for value in found]
        with k.when(~((squares > 1 / far) & (head < far))):
            for var, value in zip(held, super().reflector(alpha, squares), strict=True):
                var.set(value)
        return Reflector(*[var.get() for var in held])

    def update(self, j: Value, values: Sequence[Var]) -> None:
        """Make the reflector, keep it, take the reflected off the columns to the right, and move all up."""
        k, width = self.k, self.width
        half, lane = j % 2, k.lane % width
        total = k.var(self.zero)
        sums, at_once = (
            self.sums.at(half * (self.spec.num_blocks * width) + lane),
            min(self.at_once, self.spec.num_blocks),
        )
        with k.range(k.const(0, u32), self.num_blocks, at_once) as rank:
            total.set(total + _sum([sums[(rank + i) * width] for i in range(at_once)]))
        line = self.lines[half * width + lane]
        reflector = self.reflector(k.shfl_idx(line, 0), k.shfl_idx(total.get(), 0).parts[0])
        inner = line + self.conjugate(reflector.scale) * total
        # Of columns to the left nothing: of elements that are not finite their V is lost, which was lost before.
        column = (lane + j) % width
        factor = k.where(column > j, -(self.conjugate(reflector.tau) * inner), self.zero)
        own = self.factors.at(k.warp * (2 * width))
        with k.when(k.lane < width):
            own[k.lane] = factor * reflector.scale
            own[k.lane + width] = factor
        k.warp_sync()
        with k.when(k.warp == 0):
            self.keep(j, reflector, column, inner)
        x, vector = k.var(values[0].get()), max(1, 16 // self.type.nbytes)
        with k.when(self.number > j):
            for start in range(0, width, vector):
                for i, lost in enumerate(own.load(start, vector), start):
                    if i:
                        values[i - 1].set(multiply_add(k, lost, x.get(), values[i].get()))
        with k.when(self.number == j):
            for start in range(0, width, vector):
                for i, lost in enumerate(own.load(width + start, vector), start):
                    if i:
                        values[i - 1].set(values[i].get() + lost)
        with k.when(self.number < j):
            for value, following in pairwise(values):
                value.set(following.get())
        values[-1].set(x.get())
        k.warp_sync()


def _sum(values: Sequence[Value]) -> Value:
    """The sum of some values, in pairs."""
    if len(values) == 1:
        return values[0]
    half = len(values) // 2
    return _sum(values[:half]) + _sum(values[half:])


def launch(spec: QrClusterSpec, panel: QrPanel, places: tuple[Argument, Argument, Argument, Argument]) -> Launch:
    """Return the launch that factors a panel in place; see `qr_panel.launch`.

    Parameters
    ----------
    spec : QrClusterSpec
        What `choose` gives.
    panel : QrPanel
        Of one matrix.
    places : tuple of Argument
        The panel's first elements of A, V, M and tau.
    """
    rows, columns = panel.shape
    strides = (*panel.strides, *panel.v_strides, *panel.m_strides, panel.tau_move)
    flops = 4 * (4 if spec.type.is_complex else 1) * rows * columns**2
    work = Work(flops, 3 * rows * columns * spec.type.nbytes)
    constants = (rows, columns, spec.num_blocks, 0, *strides)
    return Launch(make(spec), (spec.num_blocks, 1, 1), places, constants, work)


__all__ = ["QrClusterSpec", "choose", "launch", "make"]
