"""The warp-specialised mainloop of kernels on Hopper: a producer thread fills the ring by TMA, consumers issue wgmma.

`produce` also serves the kernels of `sm90_mma`, whose consumers issue mma.sync.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from oxinp._kernels.gemm.sm90_wgmma.scheduler import NUM_CONSUMERS, ROWS, STEPS
from oxinp._ptx import Builder
from oxinp._ptx.fragments import Fragments
from oxinp._ptx.mbarrier import Producer
from oxinp._ptx.synchronize import follow
from oxinp._ptx.wgmma import FORMS, WARPGROUP, Queue, Totals, limit_registers

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._kernels.gemm.sm90_wgmma.scheduler import TileScheduler
    from oxinp._ptx.mbarrier import Consumer, Pipeline
    from oxinp._ptx.tile import OperandTile
    from oxinp._ptx.tma import TensorMap
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value

# 384 threads begin with 168 registers each; the producer warpgroup gives registers to the consumers.
PRODUCER_REGISTERS, CONSUMER_REGISTERS = 40, 232
MAX_WHOLE_FRAGMENTS = 192  # tile_n up to which registers hold the fragments of A of a whole k-block, twice


class ProducerSpec(Protocol):
    """The fields of a Spec that the producer needs; see `WgmmaSpec`."""

    @property
    def cluster(self) -> int: ...
    @property
    def multicast(self) -> tuple[int, int]: ...


class ConsumerSpec(ProducerSpec, Protocol):
    """The fields of a Spec that the consumers need; see `WgmmaSpec`."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> Type: ...
    @property
    def tile_n(self) -> int: ...
    @property
    def is_promoted(self) -> bool: ...
    @property
    def is_through_registers(self) -> bool: ...


def builder_of(spec: ConsumerSpec) -> Builder:
    """Return the builder of a kernel with a producer and two consumer warpgroups."""
    return Builder(
        spec.name,
        block=(1 + NUM_CONSUMERS) * WARPGROUP,
        target="sm_90a",
        min_blocks=1,
        cluster=spec.cluster if spec.cluster > 1 else None,
    )


def divide(k: Builder, copy: Callable[[], object], multiply: Callable[[Value, Value], None]) -> None:
    """Specialise warpgroups: one thread runs `copy`, the consumers run `multiply(warpgroup, thread)`."""
    # The same in all lanes of a warp, and the shuffle lets the compiler know.
    warpgroup = k.shfl_idx(k.tid >> 7, 0)
    with k.when(warpgroup == 0):
        limit_registers(k, PRODUCER_REGISTERS, is_increase=False)
        with k.when(k.tid == 0):
            copy()
    with k.otherwise():
        limit_registers(k, CONSUMER_REGISTERS, is_increase=True)
        multiply(warpgroup - 1, k.tid & (WARPGROUP - 1))


def produce(
    k: Builder,
    spec: ProducerSpec,
    tiles: TileScheduler,
    pipeline: Pipeline,
    a: tuple[TensorMap, OperandTile],
    b: tuple[TensorMap, OperandTile],
    behind: Callable[[Value | None, Value, Value], None] | None = None,
) -> Producer:
    """Load the k-blocks of A and B into the ring, once the kernel before has ended; one thread calls it.

    `behind` is called with slice, row and column of a tile of C when all of its k-blocks are on their way. Returns the
    producer's end of the pipeline.
    """
    (a_map, a_tile), (b_map, b_tile) = a, b
    a_map.prefetch()
    b_map.prefetch()
    follow(k)
    producer = Producer(pipeline)
    everyone = (1 << spec.cluster) - 1 if spec.cluster > 1 else 0
    with tiles.each_sliced() as (number, row, column):
        of_a, of_b = tiles.matrices(number)
        first_row, first_column = tiles.starts(number, row, column)
        with k.range(*tiles.depth_range(number)) as step:
            slot = producer.acquire()
            of_all = [everyone if num_parts > 1 else 0 for num_parts in spec.multicast]
            a_tile.load(a_map, slot, first_row, step * a_tile.depth, tiles.rank, of_all[0], outer=of_a)
            b_tile.load(b_map, slot, first_column, step * b_tile.depth, tiles.rank, of_all[1], outer=of_b)
        if behind is not None:
            behind(number, row, column)
    return producer


def consume(
    k: Builder,
    spec: ConsumerSpec,
    tiles: TileScheduler,
    consumer: Consumer,
    a: OperandTile,
    b: OperandTile,
    store: Callable[..., None],
    number: Value,
    prepare: Callable[..., Any] | None = None,
) -> None:
    """Multiply the k-blocks of the ring, and call `store` with 64 rows of sums; for the threads of consumer `number`.

    `prepare` is called before the mainloop of a tile; what it returns is the last argument of `store`.
    """
    queue = Queue(k)
    sums = queue.accumulator(spec.tile_n, FORMS[spec.type].sums[0])
    totals = Totals(sums) if spec.is_promoted else None
    first_row = number * ROWS
    fragments, num_parts = [], 1
    if spec.is_through_registers:
        num_parts = 1 if spec.tile_n <= MAX_WHOLE_FRAGMENTS else STEPS
        fragments = [Fragments(k, a, first_row, k.tid & (WARPGROUP - 1), num_parts) for _ in range(2)]

    def multiply() -> None:
        stage = consumer.acquire()
        with queue.group():
            sums.multiply(a.rows(stage, first_row), b.rows(stage), STEPS, spec.type)

    def multiply_fragments(begin: Value, end: Value) -> None:
        left = k.var(end - begin)

        def multiply_part(own: Fragments, stage: Value, part: int) -> None:
            own.load(stage, part)
            steps = own.steps()
            with queue.group():
                sums.multiply_fragments(steps, b.rows(stage), spec.type, part * len(steps))

        def multiply_next(own: list[Fragments], *, is_first: bool) -> None:
            stage = consumer.acquire()
            for part in range(num_parts):
                multiply_part(own[part % 2], stage, part)
                if part or not is_first:
                    queue.wait(1)
                if not part and not is_first:
                    consumer.release()

        multiply_next(fragments, is_first=True)
        with k.loop():
            # Two sets of fragments in turn: a wgmma in flight still reads the other one.
            for own in (fragments[1:], fragments) if num_parts == 1 else (fragments,):
                left.set(left - 1)
                k.break_if(left == 0)
                multiply_next(own, is_first=False)
        queue.wait()
        consumer.release()

    with tiles.each_sliced() as (slice_number, row, column):
        begin, end = tiles.depth_range(slice_number)
        outer = () if slice_number is None else (slice_number,)
        prepared = () if prepare is None else (prepare(row + first_row, column, outer),)
        if totals is not None:
            totals.reset()
            with k.range(begin, end):
                sums.reset()
                multiply()
                queue.wait()
                consumer.release()
                totals.add()
        elif fragments:
            sums.reset()
            multiply_fragments(begin, end)
        else:
            sums.reset()
            with k.range(begin, end) as step:
                multiply()
                queue.wait(1)
                with k.when(step > begin):
                    consumer.release()
            queue.wait()
            consumer.release()
        store(totals or sums, row + first_row, column, outer, *prepared)


__all__ = ["ConsumerSpec", "builder_of", "consume", "divide", "produce"]
