"""Householder QR of a panel by one cluster of blocks (sm_90): its rows in registers.

Data layout: as of `qr_panel`. A thread has one row in registers. In shared memory a block has its rows, on their way
from and to memory; of columns of even and of odd number, the sums of its warps, those of every block and the row on the
diagonal, which blocks put there; and, per warp, what columns lose.

Who owns what: a block has consecutive rows, a thread one, rank by rank of the cluster.

Algorithm: that of `qr_panel`. The products of column x with all, of a warp's rows, are summed up while they are dealt
out to the lanes, a column each; every block puts its sums into the shared memory of all, and waits for those of all,
once per column.

Per panel: 4 rows * width^2 flops, without a trip to the L2 cache.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.multistage.warp_mma import multiply_add
from oxinp._kernels.lapack import cluster
from oxinp._kernels.lapack.lu_panel import WARP, WIDTHS
from oxinp._kernels.lapack.qr_panel import QrPanelKernel
from oxinp._kernels.plan import Launch, Work
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.cluster import cluster_barrier
from oxinp._ptx.cluster_store import ClusterStores
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.synchronize import follow
from oxinp._ptx.types import Type, u32

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from oxinp._kernels.choice import Device
    from oxinp._kernels.lapack.qr_panel import QrPanel
    from oxinp._kernels.plan import Argument
    from oxinp._ptx.value import Value, Var

SHAPES = ((128, 8), (256, 8), (256, 16), (512, 16))  # threads of a block, blocks of a cluster
UNROLL = 8  # blocks whose sums are loaded at once: clusters are of one or some times as many


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
    return cluster.smallest((QrClusterSpec(type, *shape) for shape in SHAPES), num_rows, device)


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
        self.take()
        self.partials = k.dynamic_shared(spec.type, 2 * self.num_warps * width)
        self.outgoing = k.dynamic_shared(spec.type, width)
        self.sums = k.dynamic_shared(spec.type, 2 * spec.num_blocks * width)
        self.lines = k.dynamic_shared(spec.type, 2 * width)
        # Of every warp: what columns lose, over the element of x in a row, and in the row on the diagonal.
        self.factors = k.dynamic_shared(spec.type, self.num_warps * 2 * width)
        self.number = self.top + k.tid  # of the row in the panel
        self.stores = ClusterStores(k)
        self.nbytes = (spec.num_blocks + 1) * width * spec.type.nbytes  # that a block is told

    def build(self) -> Kernel:
        k = self.k
        follow(k)
        self.copy_in()
        own = self.tile.at(k.tid * self.line)
        values = [k.var(own[i]) for i in range(self.width)]
        cluster_barrier(k)  # from here on every block is there
        with k.range(k.const(0, u32), self.num_columns) as j:
            x = self.element(j, values)
            self.tell(j, x, values)
            self.update(j, x, values)
        for i, value in enumerate(values):
            own[i] = value.get()
        k.barrier()
        self.copy_out()
        return k.build()

    def element(self, j: Value, values: Sequence[Var]) -> Value:
        """The element of a column in the row of this thread: by halves, bit by bit of the number."""
        if len(values) == 1:
            return values[0].get()
        half = len(values) // 2
        first, second = self.element(j, values[:half]), self.element(j, values[half:])
        return self.k.where((j & half) != 0, second, first)

    def dealt(self, product: Callable[[int], Value], column: int = 0, half: int = 1) -> Value:
        """The sum over the warp of a value for each column, in a lane of the column's number.

        Lanes that differ in one bit exchange sums: each keeps those of the columns whose numbers have its own. Pair by
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

    def tell(self, j: Value, x: Value, values: Sequence[Var]) -> None:
        """Put the products of column j with all, over this block's rows below, and the row on the diagonal into all."""
        k, width = self.k, self.width
        below = self.conjugate(k.where(self.number > j, x, self.zero))
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
            added = partials[k.tid]
            for warp in range(1, self.num_warps):
                added = added + partials[k.tid + warp * width]
            place = (half * self.spec.num_blocks + self.rank) * width + k.tid
            for rank in range(self.spec.num_blocks):
                stores.store(j, self.sums, place, added, rank)
            with k.when(self.rank == 0):
                element = self.outgoing[k.tid]
                for rank in range(self.spec.num_blocks):
                    stores.store(j, self.lines, half * width + k.tid, element, rank)
        stores.wait(j)

    def update(self, j: Value, x: Value, values: Sequence[Var]) -> None:
        """Make the reflector, keep it, and take the reflected off the columns to the right."""
        k, width = self.k, self.width
        half, lane = j % 2, k.lane % width
        total = k.var(self.zero)
        sums, at_once = self.sums.at(half * (self.spec.num_blocks * width) + lane), min(UNROLL, self.spec.num_blocks)
        with k.range(k.const(0, u32), self.num_blocks, at_once) as rank:
            for i in range(at_once):
                total.set(total + sums[(rank + i) * width])
        line = self.lines[half * width + lane]
        reflector = self.reflector(k.shfl_idx(line, j), k.shfl_idx(total.get(), j).parts[0])
        inner = line + self.conjugate(reflector.scale) * total
        # Of columns to the left nothing: of elements that are not finite their V is lost, which was lost before.
        factor = k.where(lane > j, -(self.conjugate(reflector.tau) * inner), self.zero)
        own = self.factors.at(k.warp * (2 * width))
        with k.when(k.lane < width):
            own[k.lane] = factor * reflector.scale
            own[k.lane + width] = factor
        k.warp_sync()
        with k.when(k.warp == 0):
            self.keep(j, reflector, inner)
        vector = max(1, 16 // self.type.nbytes)
        with k.when(self.number > j):
            for start in range(0, width, vector):
                for value, lost in zip(values[start : start + vector], own.load(start, vector), strict=True):
                    value.set(multiply_add(k, lost, x, value.get()))
        with k.when(self.number == j):
            for start in range(0, width, vector):
                for value, lost in zip(values[start : start + vector], own.load(width + start, vector), strict=True):
                    value.set(value.get() + lost)
        k.warp_sync()


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
