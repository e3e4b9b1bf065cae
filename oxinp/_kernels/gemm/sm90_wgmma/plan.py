"""Plans of products by the wgmma kernels: the config of a problem, copies of operands that TMA or wgmma cannot read.

TMA reads matrices whose lines begin at multiples of 16 bytes, and wgmma multiplies other types than 16-bit ones only
K-major. An operand that is neither is copied once, padded with zeros. C may lie anywhere. Where there are few tiles, K
is split: serially or over a cluster in the kernel, or in parallel, with a reduction after it.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import product
from typing import TYPE_CHECKING

from oxinp._kernels.choice import Choice, decide
from oxinp._kernels.elementwise import plan as elementwise
from oxinp._kernels.gemm.epilogue import MAX_LENGTH, bind, length
from oxinp._kernels.gemm.operand import Source, StridedBatch
from oxinp._kernels.gemm.sm90_wgmma import kernel as wgmma_kernel
from oxinp._kernels.gemm.sm90_wgmma.cost import MAX_SPLIT_K, CostOperand, CostProblem, WgmmaConfig, candidates
from oxinp._kernels.gemm.sm90_wgmma.scheduler import TILE_M
from oxinp._kernels.gemm.sm90_wgmma.sharing import SHARINGS
from oxinp._kernels.gemm.sm90_wgmma.spec import OUTS, TILES_N, WgmmaSpec
from oxinp._kernels.gemm.sm90_wgmma.split_k import split_ranges
from oxinp._kernels.gemm.sm90_wgmma.store import (
    BulkColumns16,
    BulkColumns32,
    BulkRows,
    DirectColumns,
    DirectRows,
    RolledRows,
)
from oxinp._kernels.plan import ALIGNMENT, Argument, Plan, Scratch, Step, Work
from oxinp._kernels.problem import Instr, Operand, Output, ReduceOp, touched_nbytes
from oxinp._kernels.reduce import plan as reduce
from oxinp._ptx.tma import ALIGN, SWIZZLE_NBYTES
from oxinp._ptx.types import Type, bf16, f16, f32, i8, pred, u8
from oxinp._ptx.wgmma import FORMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxinp._kernels.choice import Device
    from oxinp._kernels.gemm.epilogue import Epilogue, EpilogueSpec
    from oxinp._kernels.gemm.sm90_wgmma.store import Store
    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value

ARCHITECTURE = (9, 0)
# Types of operands, and as what they are multiplied: the bytes of bools are 0 or 1.
MULTIPLIED: dict[Type, Type] = {f16: f16, bf16: bf16, f32: f32, i8: i8, u8: u8, pred: u8}
MIN_SPLIT_NBYTES = 512  # of K per range
BARRIERS_NBYTES = 1024
MAX_ROLLED_LENGTH = 128  # instructions of a rolled epilogue, which is compiled for 16 or 32 sums
MIN_COPIED = 1 << 22  # multiply-adds from which copies of operands are worth their launches


def plan(a: Source, b: Source, out: Type, device: Device, epilogue: Epilogue | None = None) -> Plan | None:
    """Return the plan of C = A @ B in C order; None if the family does not multiply these, or is not faster.

    Parameters
    ----------
    a, b : Source
        Of one type, a key of `MULTIPLIED`.
    out : Type
        Of C; with an epilogue, of the product as it would be without it: the sums are the same.
    device : Device
    epilogue : Epilogue, optional
        Its inputs are ``"in2"`` and so on; strides of its arrays are those along the batch, if there is one, rows and
        columns. The plan is a single launch, or None where the product needs a parallel split-K.
    """
    type_ = MULTIPLIED.get(a.type)
    if device.cc != ARCHITECTURE or type_ is None or out not in OUTS[type_]:
        return None
    m, n = (x.lines if x.major == "k" else x.run for x in (a, b))
    depth, count = a.run if a.major == "k" else a.lines, a.num_c
    sources = [x._replace(type=type_) for x in (a, b)]
    copied = [not source.is_readable for source in sources]
    # An A along M comes through registers where f32 is multiplied as tf32: then C is computed as its transpose.
    if type_ is f32 and copied == [False, True] and sources[1].is_reachable and n * out.nbytes % ALIGN == 0:
        copied = [False, False]
    if any(copied) and count * m * n * depth < MIN_COPIED:
        return None
    scratch = Scratch()
    steps: list[Step] = []
    pointers = []
    for i, source in enumerate(sources):
        pointers.append(Argument(source.buffer))
        if copied[i]:
            sources[i] = source.copied()
            pointers[i] = scratch.take(sources[i].num_matrices * sources[i].lines * sources[i].pitch * type_.nbytes)
            steps += _copies(source, sources[i], pointers[i], device)
    readable = WgmmaProduct(type_, out, (sources[0], sources[1]), (m, n, depth, count), device, epilogue)
    if epilogue is not None and (
        any(x.is_complex for x in epilogue.types(readable.acc)) or not readable.is_legal(readable.choose())
    ):
        return None
    steps += readable.steps((Argument("out0"), pointers[0], pointers[1]), scratch)
    return scratch.plan(steps)


def _copies(source: Source, copy: Source, to: Argument, device: Device) -> Iterator[Step]:
    """Yield the launches that copy an operand, and pad its lines with zeros."""
    type_ = source.type
    strides = (source.pitch, 1) if source.major == copy.major else (1, source.pitch)
    batch, moves = source.batch or (copy.num_matrices,), source.moves or (source.distance,)
    inputs = Operand(type_, (*moves, *strides), source.alignment)
    size = copy.lines * copy.pitch
    following = [size * math.prod(batch[i + 1 :]) for i in range(len(batch))]
    output = Operand(type_, (*following, copy.pitch, 1), ALIGNMENT)
    shape = (*batch, copy.lines, copy.run)
    yield from elementwise.plan(shape, (inputs,), (), [Output(0, output)], device).on(
        out0=to, in0=Argument(source.buffer)
    )
    if copy.pitch != copy.run:
        start = copy.run * type_.nbytes
        end = Operand(type_, (size, copy.pitch, 1), math.gcd(ALIGNMENT, start))
        shape = (copy.num_matrices, copy.lines, copy.pitch - copy.run)
        yield from elementwise.plan(shape, (), (_zero(type_),), [Output(0, end)], device).on(out0=to.at(start))


@cache
def _zero(type_: Type) -> Instr:
    return Instr(lambda k: k.const(0, type_), type_, ())


@cache
def _sum(acc: Type, out: Type) -> reduce.Reduction:
    """The sum of partial products."""
    return reduce.Reduction([(acc, True)], (), 0, ReduceOp("sum", acc, 0, _add), out)


def _add(k: Builder, a: Value, b: Value) -> Value:
    del k
    return a + b


class WgmmaProduct:
    """A product of operands that TMA and wgmma can read.

    Parameters
    ----------
    type_, out : Type
        Of the operands and of C.
    sources : tuple of Source
    shape : (m, n, depth, count)
    device : Device
    epilogue : Epilogue, optional
    """

    def __init__(
        self,
        type_: Type,
        out: Type,
        sources: tuple[Source, Source],
        shape: tuple[int, int, int, int],
        device: Device,
        epilogue: Epilogue | None = None,
    ) -> None:
        self.type, self.out, self.sources, self.device = type_, out, sources, device
        self.acc = FORMS[type_].sums[0]
        self.m, self.n, self.depth, self.count = shape
        self.epilogue = epilogue
        self.written = out  # the type of C
        self.length = 0  # of the epilogue
        self._bound: dict[bool, tuple[EpilogueSpec | None, tuple[int, ...]]] = {}  # by whether C is transposed
        if epilogue is not None:
            self.length = length(epilogue, self.acc)
            self.written = epilogue.types(self.acc)[epilogue.result]

    def is_bulk(self, out: Type) -> bool:
        """Whether rows of C of a type begin at multiples of 16 bytes."""
        return self.n * out.nbytes % ALIGN == 0

    def bound_epilogue(self, config: WgmmaConfig) -> tuple[EpilogueSpec | None, tuple[int, ...]]:
        """Return the Spec of the epilogue for a config, and its constants; of the transpose, rows are columns of C."""
        if self.epilogue is None:
            return None, ()
        if config.is_transposed not in self._bound:
            strides = [x.strides for x in self.epilogue.arrays]
            if config.is_transposed:
                strides = [(*outer, column, row) for *outer, row, column in strides]
            is_paired = self.is_bulk(self.written) and not config.is_transposed
            self._bound[config.is_transposed] = bind(self.epilogue, strides, is_paired=is_paired)
        return self._bound[config.is_transposed]

    def spec(self, config: WgmmaConfig) -> WgmmaSpec:
        """Return the kernel's Spec of a config; raises ValueError where there is none."""
        is_parallel_split_k = config.split_k > 1 and not config.is_serial_split_k
        out = self.acc if is_parallel_split_k else self.written
        a, b = reversed(self.sources) if config.is_transposed else self.sources
        sharing = SHARINGS.get((config.cluster, config.shared))
        if sharing is None:
            raise ValueError(f"the blocks of a cluster of {config.cluster} do not share {config.shared!r}")
        return WgmmaSpec(
            self.type,
            out,
            a.major,
            b.major,
            config.tile_n,
            config.num_stages,
            sharing,
            self.store(config, out, is_through_registers=self.type is f32 and a.major != "k"),
            self.bound_epilogue(config)[0],
            is_batched=self.count > 1 or is_parallel_split_k,
            # So that sums are as good as chains of f32 multiply-adds.
            is_promoted=self.out is f32 and self.type.nbytes == f16.nbytes,
            is_serial_split_k=config.is_serial_split_k,
        )

    def store(self, config: WgmmaConfig, out: Type, *, is_through_registers: bool) -> type[Store]:
        """Return how C is stored: in bulk where its alignment allows it, rolled where the epilogue is long."""
        is_bulk = self.is_bulk(out)
        if config.is_transposed:
            if is_through_registers:
                return BulkColumns32 if is_bulk else DirectColumns
            return BulkColumns16 if is_bulk and out.nbytes == f16.nbytes else DirectColumns
        if not is_bulk or config.tile_n * out.nbytes % SWIZZLE_NBYTES:
            return DirectRows
        return RolledRows if self.length > MAX_LENGTH else BulkRows

    def is_legal(self, config: WgmmaConfig) -> bool:
        """Whether there is a kernel for a config, and it fits the device."""
        most = max(1, min(MAX_SPLIT_K, self.depth * self.type.nbytes // MIN_SPLIT_NBYTES))
        if not 1 <= config.split_k <= most:
            return False
        if self.epilogue is not None and config.split_k > 1 and not config.is_serial_split_k:
            return False
        try:
            spec = self.spec(config)
            spec.check()
        except ValueError:
            return False
        if self.length > (MAX_ROLLED_LENGTH if spec.store is RolledRows else MAX_LENGTH):
            return False
        if spec.shared_nbytes + BARRIERS_NBYTES > self.device.max_shared_nbytes:
            return False
        num_k = -(-self.depth // spec.depth)
        m, n = (self.n, self.m) if config.is_transposed else (self.m, self.n)
        beside, above = spec.multicast
        num_tiles = -(-m // (TILE_M * above)) * -(-n // (config.tile_n * beside)) * self.count
        if config.is_serial_split_k:  # a range per block, so that no block waits for one that has not begun
            return num_tiles * config.split_k * config.cluster <= self.device.num_sms
        num_ranges, length = split_ranges(num_k, config.split_k)
        is_halved = config.shared != "c" or (
            num_k - (num_ranges - 1) * length > 1  # the last range can be halved, too
            # In one wave: a cluster multiplies nothing while it adds up its sums.
            and num_tiles * config.split_k * config.cluster <= self.device.num_sms
        )
        return is_halved and (config.split_k == 1 or self.out in (self.acc, f16, bf16))

    def ways(self) -> list[tuple[float, WgmmaConfig]]:
        """Return the configs of the cost model, legal or not, with the seconds that it expects, the fastest first."""
        a, b = [
            CostOperand(
                extent,
                x.num_matrices * x.lines * x.run * self.type.nbytes,
                1 if x.major == "k" else SWIZZLE_NBYTES // self.type.nbytes,
                x.pitch * self.type.nbytes % SWIZZLE_NBYTES > 0,
            )
            for extent, x in zip((self.m, self.n), self.sources, strict=True)
        ]
        size = self.count * self.m * self.n
        depth_nbytes = self.depth * self.type.nbytes
        is_bulk = self.is_bulk(self.written) and self.written.nbytes == f16.nbytes
        problem = CostProblem(
            a, b, depth_nbytes, self.count, size * self.written.nbytes, size * self.acc.nbytes, is_bulk
        )
        is_through_registers = self.type is f32 and self.sources[1].major == "mn"
        return sorted(candidates(problem, self.device.num_sms, is_through_registers=is_through_registers))

    def choose(self) -> WgmmaConfig:
        """Return the config that was measured to be best near this problem, or that the cost model prefers.

        With an epilogue it is that of the product without it, which need not be legal here.
        """
        if self.epilogue is not None:
            shape = (self.m, self.n, self.depth, self.count)
            return WgmmaProduct(self.type, self.out, self.sources, shape, self.device).choose()
        key = (self.type.name, self.out.name)
        layout = (self.sources[0].major, self.sources[1].major)
        shape = (self.count, self.m, self.n, self.depth)
        choice = Choice(
            "matmul/wgmma", key, layout, shape, WgmmaConfig, self.is_legal, self.preferred, self.worth_trying
        )
        config: WgmmaConfig = decide(choice, self.device)
        return config

    def preferred(self) -> WgmmaConfig:
        """Return the legal config that the cost model expects to be the fastest."""
        return next(config for _, config in self.ways() if self.is_legal(config))

    def worth_trying(self) -> Iterator[WgmmaConfig]:
        """Yield those, then every other legal config."""
        yield from (config for _, config in self.ways() if self.is_legal(config))
        splits = [*((1 << i, False) for i in range(MAX_SPLIT_K.bit_length())), (2, True), (3, True), (4, True)]
        sizes = product(TILES_N, (3, 4, 5, 6, 7, 8, 12), (1, 2), splits, "bac", (False, True))
        for tile_n, num_stages, cluster, (split_k, is_serial_split_k), shared, is_transposed in sizes:
            config = WgmmaConfig(tile_n, num_stages, cluster, split_k, shared, is_transposed, is_serial_split_k)
            if self.is_legal(config):
                yield config

    def steps(self, pointers: tuple[Argument, Argument, Argument], scratch: Scratch) -> Iterator[Step]:
        """Yield the launches, given where C, A and B lie."""
        config = self.choose()
        spec = self.spec(config)
        batch = None
        a, b = self.sources
        m, n, (c, *operands), nbytes = self.m, self.n, pointers, self.type.nbytes
        if config.is_transposed:
            a, b, m, n, operands = b, a, n, m, operands[::-1]
        if spec.is_batched:
            split_k = 1 if config.is_serial_split_k else config.split_k
            batch = StridedBatch(self.count, a.distance * nbytes, b.distance * nbytes, split_k)
        strides = (self.n * spec.out.nbytes, a.pitch * nbytes, b.pitch * nbytes)
        product = wgmma_kernel.plan(
            spec,
            m,
            n,
            self.depth,
            self.device.num_sms,
            strides,
            batch,
            self.bound_epilogue(config)[1],
            config.split_k,
        )
        is_parallel_split_k = config.split_k > 1 and not config.is_serial_split_k
        num_slices = batch.num_slices(-(-self.depth // spec.depth)) if batch is not None else 1
        partial = scratch.take(num_slices * self.m * self.n * self.acc.nbytes) if is_parallel_split_k else c
        read = sum(x.num_matrices * x.lines * x.run for x in (a, b)) * nbytes
        if self.epilogue is not None:
            shape = (self.count, self.m, self.n) if spec.is_batched else (self.m, self.n)
            read += touched_nbytes(shape, self.epilogue.arrays)
        written = self.count * (config.split_k if is_parallel_split_k else 1) * self.m * self.n * spec.out.nbytes
        work = Work(2 * self.count * self.m * self.n * self.depth, read + written)
        sums = scratch.take(product.scratch_nbytes)
        yield from product.with_work(work).on(out0=partial, in0=operands[0], in1=operands[1], scratch=sums)
        if is_parallel_split_k:
            yield from self.joined(num_slices // self.count, partial, c, scratch)

    def joined(self, split_k: int, partial: Argument, c: Argument, scratch: Scratch) -> Iterator[Step]:
        """Yield the launches that sum up the partial products of every matrix."""
        size = self.m * self.n
        inputs = (Operand(self.acc, (split_k * size, size, 1)),)
        output = Operand(self.out, (size, 1))
        shape = (self.count, split_k, size)
        joined = _sum(self.acc, self.out).plan(shape, (1,), inputs, output, self.device)
        yield from joined.on(out0=c, in0=partial, scratch=scratch.take(joined.scratch_nbytes))


__all__ = ["ARCHITECTURE", "MULTIPLIED", "WgmmaConfig", "WgmmaProduct", "plan"]
