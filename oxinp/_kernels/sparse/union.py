"""Elementwise operators of two CSR matrices, on the union of their patterns.

Data layout: two CSR matrices in canonical format (columns of a row ascend, none twice); the same of the result, which
keeps zeros. Who owns what: `lanes` threads own a row, each every `lanes`-th element of either matrix.

Algorithm: an element finds its place in the other matrix' row by binary search. Its place in the result is how many
elements of both rows lie before it, less the columns that both have, which lanes count with a ballot. A first launch
counts, a second one writes. Bytes: pointers and indices twice, data and result once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oxinp._kernels.plan import Launch, Plan, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sparse.bisection import bisect
from oxinp._kernels.sparse.rows import lanes_for
from oxinp._kernels.sparse.types import BLOCK
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, pred, u32
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

OPERATORS: dict[str, Callable[[Builder, Value, Value], Value]] = {
    "add": lambda k, a, b: a | b if a.type is pred else a + b,  # noqa: ARG005 - one signature
    "subtract": lambda k, a, b: a - b,  # noqa: ARG005
    "multiply": lambda k, a, b: a & b if a.type is pred else a * b,  # noqa: ARG005
    "maximum": lambda k, a, b: k.where((a > b) | k.isnan(a), a, b) if a.type.is_float else k.max(a, b),
    "minimum": lambda k, a, b: k.where((a < b) | k.isnan(a), a, b) if a.type.is_float else k.min(a, b),
    "not_equal": lambda k, a, b: k.compare("ne", a, b),
    "less": lambda k, a, b: k.compare("lt", a, b),
    "greater": lambda k, a, b: k.compare("gt", a, b),
}
COMPARISONS = ("not_equal", "less", "greater")


class UnionSpec(Frozen):
    """One kernel.

    Attributes
    ----------
    index : Type
        Of both matrices and of the result.
    a, b : Type
        Of their elements; None of the kernel that counts.
    common : Type
        That the operator computes in.
    operator : str
        A key of `OPERATORS`; empty for the kernel that counts.
    lanes : int
    """

    index: Type
    a: Type | None
    b: Type | None
    common: Type | None
    operator: str
    lanes: int


def count(num_rows: int, total: int, index: Type) -> Plan:
    """Return the plan that counts the elements of every row; inputs are indptr and indices of A, then of B.

    `total` elements are in both.
    """
    spec = UnionSpec(index, None, None, None, "", lanes_for(2 * num_rows, total))
    return _plan(spec, num_rows, 1, 4)


def write(num_rows: int, total: int, spec: UnionSpec) -> Plan:
    """Return the plan that writes indices and data of the result.

    Inputs are the result's indptr, then indptr, indices and data of A, then those of B. The Spec's lanes are chosen.
    """
    return _plan(spec.replace(lanes=lanes_for(2 * num_rows, total)), num_rows, 2, 7)


def _plan(spec: UnionSpec, num_rows: int, num_outputs: int, num_inputs: int) -> Plan:
    grid = (-(-num_rows * spec.lanes // BLOCK), 1, 1)
    return Plan((Launch(make(spec), grid, (*outputs(num_outputs), *inputs(num_inputs)), (num_rows,)),))


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: UnionSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _Union(spec).build()


class _Union:
    """The kernel while it is built."""

    def __init__(self, spec: UnionSpec) -> None:
        self.spec = spec
        index = spec.index
        self.k = k = Builder("sparse_union", block=BLOCK)
        self.is_count = not spec.operator
        if self.is_count:
            self.counts = k.pointer("counts", index, "w")
        else:
            assert spec.common is not None
            result = pred if spec.operator in COMPARISONS else spec.common
            self.out_indices, self.out_data = k.pointer("out_indices", index, "w"), k.pointer("out_data", result, "w")
            self.starts = k.pointer("starts", index, "r")
        self.sides = [self.side(name, type_) for name, type_ in (("a", spec.a), ("b", spec.b))]
        self.num_rows = k.scalar("num_rows", index)

    def side(self, name: str, type_: Type | None) -> tuple[Pointer, Pointer, Any]:
        """Return indptr, indices and data of a matrix."""
        k, index = self.k, self.spec.index
        indptr, indices = (k.pointer(f"{name}_{part}", index, "r") for part in ("indptr", "indices"))
        return indptr, indices, None if type_ is None else k.pointer(f"{name}_data", type_, "r")

    def build(self) -> Kernel:
        k, lanes, index = self.k, self.spec.lanes, self.spec.index
        row = k.cast(k.ctaid, index) * (BLOCK // lanes) + k.cast(k.tid / lanes, index)
        has_row = row < self.num_rows
        near = k.min(row, self.num_rows - 1)
        spans = []
        for indptr, _, _ in self.sides:
            begin = indptr[near]
            spans.append((begin, k.where(has_row, indptr[near + 1], begin)))
        target = None if self.is_count else self.starts[near]
        matched = self.walk(0, spans, target)
        if self.is_count:
            (a_begin, a_end), (b_begin, b_end) = spans
            with k.when(has_row & (k.tid % lanes == 0)):
                self.counts[row] = (a_end - a_begin) + (b_end - b_begin) - matched
        else:
            self.walk(1, spans, target)
        return k.build()

    def walk(self, number: int, spans: list[tuple[Value, Value]], target: Value | None) -> Value:
        """Go through the elements of one matrix' row; return how many the other one has, too."""
        k, lanes, index = self.k, self.spec.lanes, self.spec.index
        begin, end = spans[number]
        other_begin, other_end = spans[1 - number]
        _, indices, data = self.sides[number]
        _, other_indices, other_data = self.sides[1 - number]
        place = k.var(begin + k.cast(k.tid % lanes, index))
        matched = k.var(0, index)
        mask, shift = (1 << lanes) - 1, k.lane & (WARP - lanes)
        with k.loop():
            k.break_if(~k.any(place < end))
            is_here = k.emit("lt", place, end)
            at = k.min(place.get(), k.max(end, 1) - 1)
            column = k.var(0, index)
            found = k.var(other_begin)
            both = k.var(0, index)
            with k.when(is_here):
                column.set(indices[at])
                wanted = column.get()
                found.set(bisect(k, other_begin, other_end, lambda at: other_indices[at] < wanted))
                with k.when(found < other_end):
                    both.set(k.where(other_indices[found.get()] == column, k.const(1, index), k.const(0, index)))
            k.warp_sync()
            ballot = k.shr(k.ballot(both != 0), shift)
            ballot = ballot & mask if lanes < WARP else ballot
            if target is not None:
                before = (k.const(1, u32) << (k.lane & (lanes - 1))) - 1
                earlier = matched + k.cast(k.popc(ballot & before), index)
                to = target + (at - begin) + (found - other_begin) - earlier
                with k.when(is_here & ((both == 0) if number else (place < end))):
                    self.put(number, to, column.get(), data[at], both != 0, other_data, found.get())
            matched.set(matched + k.cast(k.popc(ballot), index))
            place.set(place + lanes)
        return k.emit("mov", matched)

    def put(
        self, number: int, to: Value, column: Value, value: Value, both: Value, other_data: Pointer, found: Value
    ) -> None:
        """Store one element of the result."""
        k, common = self.k, self.spec.common
        assert common is not None
        own, other = k.cast(value, common), k.var(_zero(k, common))
        if number == 0:
            with k.when(both):
                other.set(k.cast(other_data[found], common))
        operands = (own, k.emit("mov", other)) if number == 0 else (k.emit("mov", other), own)
        self.out_indices[to] = column
        self.out_data[to] = OPERATORS[self.spec.operator](k, *operands)


def _zero(k: Builder, type_: Type) -> Value:
    return k.const(False if type_ is pred else 0, type_)


__all__ = ["COMPARISONS", "OPERATORS", "UnionSpec", "count", "make", "write"]
