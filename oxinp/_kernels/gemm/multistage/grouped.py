"""Grouped products: problems of different sizes and addresses in one launch of the multistage kernel.

Data layout: a table in global memory has a row of `ROW` i64 per problem: addresses of C, A and B, then M, N and K, the
strides of C, A and B in elements, and the number of the problem's first tile. Problems are sorted by falling K.

Who owns what: a block has one tile of one problem, which it finds in the table by bisection.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from oxinp._kernels.gemm.multistage.cost import measured_tiles
from oxinp._kernels.gemm.multistage.kernel import MultistageGemm
from oxinp._kernels.gemm.multistage.panel import Panel
from oxinp._kernels.gemm.multistage.spec import MultistageSpec, TileConfig
from oxinp._kernels.gemm.multistage.tile_config import is_legal
from oxinp._kernels.gemm.operand import Matrices, widest_copy
from oxinp._kernels.plan import Launch, Plan, Work, inputs
from oxinp._kernels.problem import MAX_ALIGNMENT, MAX_KERNELS
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.memory import Pointer
from oxinp._ptx.types import Type, i64, u32, u64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.choice import Device
    from oxinp._kernels.gemm.multistage.cost import MeasuredTile
    from oxinp._ptx import Kernel
    from oxinp._ptx.value import Value

ROW = 10


class GroupedProblem(NamedTuple):
    """C = A @ B: addresses, extents, and strides in elements along the axis that is not contiguous.

    Attributes
    ----------
    c, a, b : int
        Multiples of what one copy takes.
    shape : (m, n, depth)
        At least 1 each.
    strides : (int, int, int)
        Of C, A and B.
    """

    c: int
    a: int
    b: int
    shape: tuple[int, int, int]
    strides: tuple[int, int, int]


class Group(NamedTuple):
    """Types and layouts that the problems of a group have in common.

    Attributes
    ----------
    type, acc, out : Type
        Of operands, sums, results.
    a_major, b_major : str
        The contiguous axis of each operand: ``"k"`` or ``"mn"``.
    """

    type: Type
    acc: Type
    out: Type
    a_major: str = "k"
    b_major: str = "mn"


class GroupedPlan(NamedTuple):
    """A plan whose only input is the table, and the table; it holds the addresses of operands and results."""

    plan: Plan
    table: np.ndarray[tuple[int, ...], np.dtype[np.int64]]


class GroupedSpec(NamedTuple):
    """One kernel of the family: that of a plain product, without batch, split-K or guard."""

    product: MultistageSpec


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: GroupedSpec) -> Kernel:
    """Return the kernel of a Spec."""
    return _Grouped(spec.product).build()


class _Grouped(MultistageGemm):
    """The kernel while it is built."""

    def declare(self) -> None:
        """Declare the parameters, and find this block's problem."""
        k, spec = self.k, self.spec
        table, count = k.pointer("table", i64, "r"), k.scalar("num_problems", u32)
        block = k.cast(k.ctaid + 0, i64)
        low, high = k.var(k.const(0, u32)), k.var(count)
        with k.loop():
            k.break_if(high - low <= 1)
            middle = (low + high) >> 1
            is_before = table[k.cast(middle * ROW + (ROW - 1), i64)] <= block
            low.set(k.where(is_before, middle, low.get()))
            high.set(k.where(is_before, high.get(), middle))
        row = table.at(k.cast(low.get(), i64) * ROW)
        c, a, b, m, n, depth, self.c_stride, a_stride, b_stride, first = (row[i] for i in range(ROW))
        self.m, self.n, self.depth = (k.cast(x, u32) for x in (m, n, depth))
        self.chunk = self.depth
        self.c = self._pointer(c, spec.out, "w")
        self.a = Panel(
            k, spec, "a", spec.a_major, spec.a_copy, spec.tile_m, spec.is_a_conjugated, self._pointer(a, spec.type)
        )
        self.b = Panel(
            k, spec, "b", spec.b_major, spec.b_copy, spec.tile_n, spec.is_b_conjugated, self._pointer(b, spec.type)
        )
        self.a.measure(a_stride, self.m, self.depth)
        self.b.measure(b_stride, self.n, self.depth)
        self.tiles_m = (self.m + (spec.tile_m - 1)) / spec.tile_m
        self.tiles_n = (self.n + (spec.tile_n - 1)) / spec.tile_n
        self.first = k.cast(first, u32)

    def _pointer(self, address: Value, type: Type, access: str = "r") -> Pointer:
        return Pointer(self.k, self.k.bitcast(address, u64), type, "global", access)

    def number(self) -> Value:
        """Return the number of this block's tile in its problem."""
        number: Value = self.k.ctaid - self.first
        return number


def configs(group: Group, copies: tuple[int, int], device: Device) -> list[tuple[MeasuredTile, GroupedSpec]]:
    """Return the measured tiles that are legal for a group, with their Specs; `copies` are bytes of copies of A, B."""
    mma, tiles = measured_tiles(group.type, group.acc, device)
    spec = MultistageSpec(*group, *copies, mma, *tiles[0].config()[:6])
    specs = [(tile, spec.with_config(tile.config())) for tile in tiles]
    return [(tile, GroupedSpec(spec)) for tile, spec in specs if is_legal(spec, device)]


def plan(group: Group, problems: Sequence[GroupedProblem], device: Device) -> GroupedPlan:
    """Return the plan that computes a group of products, at least one.

    Parameters
    ----------
    group : Group
    problems : sequence of Problem
        No problem may write what another one reads or writes.
    device : Device
    """
    ordered = sorted(problems, key=lambda problem: -problem.shape[2])
    copies = [
        widest_copy(Matrices(group.type, (), math.gcd(MAX_ALIGNMENT, *addresses)), [p.strides[1 + i] for p in problems])
        for i, addresses in enumerate(([p.a for p in problems], [p.b for p in problems]))
    ]
    best, spec = min(
        configs(group, (copies[0], copies[1]), device), key=lambda found: _seconds(ordered, found[0], device)
    )
    counts = [_num_tiles(problem, best.config()) for problem in ordered]
    firsts = np.cumsum([0, *counts[:-1]]).tolist()
    table = np.array(
        [(*p[:3], *p.shape, *p.strides, first) for p, first in zip(ordered, firsts, strict=True)], np.int64
    )
    launch = Launch(make(spec), (sum(counts), 1, 1), inputs(1), (len(problems),), _work(group, problems))
    return GroupedPlan(Plan((launch,)), table)


def _num_tiles(problem: GroupedProblem, config: TileConfig) -> int:
    return -(-problem.shape[0] // config.tile_m) * -(-problem.shape[1] // config.tile_n)


def _seconds(problems: Sequence[GroupedProblem], tile: MeasuredTile, device: Device) -> float:
    """Expected time of all tiles over all multiprocessors, at least that of the longest tile."""
    steps = [-(-problem.shape[2] // tile.depth) + tile.num_stages for problem in problems]
    all_steps = sum(count * _num_tiles(problem, tile.config()) for count, problem in zip(steps, problems, strict=True))
    once = tile.tile_m * tile.tile_n * tile.depth / tile.rate
    return once * max(all_steps / device.num_sms, *steps)


def _work(group: Group, problems: Sequence[GroupedProblem]) -> Work:
    flops = 8 if group.type.is_complex else 2
    nbytes = group.type.nbytes
    return Work(
        sum(flops * m * n * depth for m, n, depth in (problem.shape for problem in problems)),
        sum((m + n) * depth * nbytes + m * n * group.out.nbytes for m, n, depth in (p.shape for p in problems)),
    )


__all__ = ["Group", "GroupedPlan", "GroupedProblem", "GroupedSpec", "configs", "make", "plan"]
