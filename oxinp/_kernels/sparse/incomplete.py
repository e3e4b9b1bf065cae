"""Incomplete factorisations of CSR matrices in their own pattern, ILU(0) and IC(0), without synchronisation of levels.

Data layout: CSR in canonical format, of IC(0) the lower triangle alone; the factors take the place of the elements, the
unit diagonal of L is not stored. Who owns what: a thread owns a row; warps take rows by an atomic ticket, in an order
in which they can be eliminated, by levels, so that whatever a row waits for is running, and little else.

Algorithm: a thread goes along its row up to the diagonal. An element needs the row of its column, whose thread releases
a flag when it is done; a thread looks once per round of its loop and releases its own flag in there, so that lanes of a
warp may wait for each other. Rows are merged by their columns in order: the same bits every time. Bytes: the
matrix, and for each of its elements a row from the caches.

Source: Y. Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., algorithms 10.4 (ILU(0)) and 10.3.2 (IC(0)).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.plan import Copy, Fill, Launch, Plan, Scratch, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sparse.trsv import blocks_for
from oxinp._kernels.sparse.types import BLOCK
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, u32
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._ptx.value import Value


class IncompleteSpec(Frozen):
    """One kernel.

    Attributes
    ----------
    index, value : Type
    is_symmetric : bool
        IC(0) of the lower triangle of a real symmetric matrix; else ILU(0).
    """

    index: Type
    value: Type
    is_symmetric: bool


def plan(num_rows: int, count: int, spec: IncompleteSpec, num_levels: int) -> Plan:
    """Return the plan of a factorisation; inputs are indptr, indices, data, places of the diagonal, the order.

    The order has `num_levels` levels.

    A pivot that is zero or, of IC(0), not positive, leaves what is no number or infinite in the diagonal.
    """
    scratch = Scratch()
    ticket, flags = scratch.take(u32.nbytes), scratch.take(num_rows * u32.nbytes)
    (out,), (indptr, indices, data, diagonal, order) = outputs(1), inputs(5)
    grid = (blocks_for(-(-num_rows // BLOCK), num_levels), 1, 1)
    return scratch.plan(
        (
            Fill(ticket, u32.nbytes, 0),
            Fill(flags, num_rows * u32.nbytes, 0),
            Copy(out, data, count * spec.value.nbytes),
            Launch(make(spec), grid, (out, ticket, flags, indptr, indices, diagonal, order), (num_rows,)),
        )
    )


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: IncompleteSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _Factorisation(spec).build()


class _Factorisation:
    """The kernel while it is built."""

    def __init__(self, spec: IncompleteSpec) -> None:
        self.spec = spec
        self.k = k = Builder("sparse_ic0" if spec.is_symmetric else "sparse_ilu0", block=BLOCK)
        self.out = k.pointer("out", spec.value)
        self.ticket, self.flags = k.pointer("ticket", u32), k.pointer("flags", u32)
        self.indptr, self.indices, self.diagonal, self.order = (
            k.pointer(name, spec.index, "r") for name in ("indptr", "indices", "diagonal", "order")
        )
        self.num_rows = k.scalar("num_rows", spec.index)

    def build(self) -> Kernel:
        k, index = self.k, self.spec.index
        with k.loop():
            turn = k.var(k.const(0, u32))
            with k.when(k.lane == 0):
                turn.set(self.ticket.atomic("add", 0, 1))
            k.warp_sync()
            number = k.cast(k.shfl_idx(turn.get(), 0), index) * WARP
            k.break_if(number >= self.num_rows)
            mine = number + k.cast(k.lane, index)
            with k.when(mine < self.num_rows):
                row = self.order[mine]
                begin, end, pivot = self.indptr[row], self.indptr[row + 1], self.diagonal[row]
                place = k.var(begin)
                with k.loop():
                    at = place.get()
                    is_over = at >= pivot
                    with k.when(is_over):
                        if self.spec.is_symmetric:
                            self.root(begin, pivot)
                        self.flags.store(row, [k.const(1, u32)], order="release.gpu")
                    k.break_if(is_over)
                    column = self.indices[at]
                    with k.when(self.flags.load(column, order="relaxed.gpu")[0] != 0):
                        # What its thread has written lies behind the flag.
                        is_released = self.flags.load(column, order="acquire.gpu")[0] != 0
                        with k.when(is_released):
                            if self.spec.is_symmetric:
                                self.divide(begin, at, column)
                            else:
                                self.eliminate(at, end, column)
                            place.set(at + 1)
            k.warp_sync()
        return k.build()

    def merge(
        self, mine: tuple[Value, Value], other: tuple[Value, Value], meet: Callable[[Value, Value], None]
    ) -> None:
        """Go along two stretches of rows; `meet` is told the places of each column that both have."""
        k = self.k
        p, q = k.var(mine[0]), k.var(other[0])
        with k.loop():
            k.break_if((p >= mine[1]) | (q >= other[1]))
            i, j = p.get(), q.get()
            left, right = self.indices[i], self.indices[j]
            with k.when(left == right):
                meet(i, j)
            p.set(k.where(left <= right, i + 1, i))
            q.set(k.where(right <= left, j + 1, j))

    def eliminate(self, at: Value, end: Value, column: Value) -> None:
        """Subtract from the rest of the row the multiple of the row of U that makes an element zero."""
        pivot = self.diagonal[column]
        factor = self.out[at] / self.out[pivot]
        self.out[at] = factor

        def meet(i: Value, j: Value) -> None:
            self.out[i] = self.out[i] - factor * self.out[j]

        self.merge((at + 1, end), (pivot + 1, self.indptr[column + 1]), meet)

    def divide(self, begin: Value, at: Value, column: Value) -> None:
        """Compute an element of L below the diagonal."""
        pivot = self.diagonal[column]
        total = self.k.var(self.out[at])
        self.merge(
            (begin, at),
            (self.indptr[column], pivot),
            lambda i, j: total.set(total - self.out[i] * self.out[j]),
        )
        self.out[at] = total / self.out[pivot]

    def root(self, begin: Value, pivot: Value) -> None:
        """Compute the row's element of the diagonal of L."""
        k = self.k
        total = k.var(self.out[pivot])
        with k.range(begin, pivot) as i:
            total.set(total - self.out[i] * self.out[i])
        self.out[pivot] = k.sqrt(total.get())


__all__ = ["IncompleteSpec", "make", "plan"]
